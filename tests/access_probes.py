"""Random probes of a team's server: whatever a user asks, by HTTP, pages, MCP or SQL as the request's role, nothing of
a project that they may not see comes back: no path, name, count, suggestion or error that tells of it.

Each project has words of its own in its name, paths, symbols and texts. An answer that has one which the question did
not is a leak; so is a different answer for a hidden project and for one that does not exist.

    python tests/access_probes.py --probes 10000 --projects 50
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from psycopg import Error
from starlette.testclient import TestClient
from team_server_tools import bearer, team_client

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError
from codeinfo.operations import OPERATIONS, inputs_of
from codeinfo.operations.search import IndexRequest
from codeinfo.serve.team import TEAM_OPERATIONS
from codeinfo.shells.http_api import path_of
from codeinfo.shells.mcp_tools import choose_tools
from codeinfo.team import access
from codeinfo.team.database import TeamDatabase

USERS, GROUPS = 20, 6
COMMON = ("check that an amount is positive", "deposit", "Account", "amount", "report")
TABLES = ("projects", "trees", "entries", "files", "attachments", "memories", "conversations")
PAGES = ("/", "/", "/panel", "/ui/name", "/ui/file", "/ui/map", "/ui/area", "/ui/patterns", "/ui/chat", "/ui/projects",
         "/ui/health", "/ui/documents", "/ui/memories")  # fmt: skip
CLOSED = ("users", "groups", "members", "grants", "tokens", "audit", "secrets", "sign_ins")


class ProbeProject(Struct, frozen=True):
    identity: str
    word: str  # that nothing else has
    id: int = 0


class ProbeUser(Struct, frozen=True):
    name: str
    id: int
    headers: dict[str, str]
    visible: frozenset[str]


class Outcome(Struct):
    probes: int = 0
    leaks: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    hidden_ms: list[float] = field(default_factory=list)
    missing_ms: list[float] = field(default_factory=list)


class TeamSetup(Struct, frozen=True):
    url: str
    database: TeamDatabase
    projects: tuple[ProbeProject, ...]
    users: tuple[ProbeUser, ...]


def word_of(rng: random.Random) -> str:
    return "zq" + "".join(rng.choice("bcdfghjklmnpqrstvwx") for _ in range(8))


def set_up_team(url: str, folder: Path, count: int, rng: random.Random) -> TeamSetup:
    """Projects that are indexed for real, and users with grants that overlap."""
    database = TeamDatabase(url)
    projects = tuple(_project(folder, number, rng) for number in range(count))
    flags = {"store.url": url, "paths.cache_dir": str(folder / "operator")}
    with Engine(Config.load(flags, folder)) as engine:
        for number in range(count):
            engine.index(IndexRequest((str(folder / str(number)),)))
    with database.transaction() as db:
        db.execute("UPDATE trees SET name = 'refs/heads/main'")
        db.execute("UPDATE projects SET default_ref = 'refs/heads/main'")
        db.execute("UPDATE projects SET visibility = 'internal' WHERE identity = %s", (projects[0].identity,))
        ids = dict(db.execute("SELECT identity, id FROM projects").fetchall())
    assert len(ids) == count
    projects = tuple(ProbeProject(one.identity, one.word, ids[one.identity]) for one in projects)
    return TeamSetup(url, database, projects, _users(database, projects, rng))


def _project(folder: Path, number: int, rng: random.Random) -> ProbeProject:
    from repository_tools import Repository

    word = word_of(rng)
    made = Repository(folder / str(number))
    identity = f"git.example/org{number % 7}/{word}"
    made.git("remote", "add", "origin", f"https://{identity}.git")
    made.commit(
        f"Add {word}",
        {
            f"{word}/account.py": f'class Account{word}:\n    """{word} amounts."""\n\n    def deposit(self, amount):\n'
            f"        return check_amount(amount)\n\n\ndef check_amount(amount):\n    return amount > {number}\n",
            f"{word}/report.py": f"from {word}.account import Account{word}\n\n\ndef report():\n"
            f"    return Account{word}().deposit(3)\n",
            "README.md": f"# {word}\n\nDeposits of {word} are checked: an amount must be positive.\n",
        },
    )
    return ProbeProject(identity, word)


def _users(database: TeamDatabase, projects: tuple[ProbeProject, ...], rng: random.Random) -> tuple[ProbeUser, ...]:
    seen: dict[str, set[str]] = {f"user{number}": {projects[0].identity} for number in range(USERS)}
    tokens = {}
    for name in seen:
        access.create_user(database, name)
        tokens[name] = access.create_token(database, name)
    for number in range(GROUPS):
        members = rng.sample(sorted(seen), USERS // 4)
        access.add_members(database, f"group{number}", members)
        for project in rng.sample(projects, max(1, len(projects) // 8)):
            access.grant(database, project.identity, f"@group{number}")
            for name in members:
                seen[name].add(project.identity)
    for name in list(seen)[2:]:  # two see nothing but what everyone does
        for project in rng.sample(projects, max(1, len(projects) // 12)):
            access.grant(database, project.identity, name)
            seen[name].add(project.identity)
    with database.transaction() as db:
        ids = dict(db.execute("SELECT name, id FROM users").fetchall())
    return tuple(ProbeUser(name, ids[name], bearer(tokens[name]), frozenset(known)) for name, known in seen.items())


# --- probes --------------------------------------------------------------------------------------------------------


class Prober:
    def __init__(self, setup: TeamSetup, web: TestClient, rng: random.Random) -> None:
        self.setup, self.web, self.rng = setup, web, rng
        self.outcome = Outcome()
        self._tools = {tool.name: tool for tool in choose_tools(["all"])}
        self._served = [one for one in OPERATIONS.values() if one.group != "local"]

    def run(self, probes: int) -> Outcome:
        kinds = (self.http, self.http, self.mcp, self.mcp, self.page, self.sql, self.existence)
        for _ in range(probes):
            kind, user = self.rng.choice(kinds), self.rng.choice(self.setup.users)
            self.outcome.probes += 1
            self.outcome.kinds[kind.__name__] += 1
            kind(user)
        return self.outcome

    def target(self, user: ProbeUser) -> str:
        """A project as somebody might name it: seen, hidden, by a part of its name, with a path, or none."""
        one = self.rng.choice(self.setup.projects)
        short = one.identity.partition("/")[2]
        tricks = ("", ".", "/", "//", f"{one.identity}/..", f"//{one.identity}", f"https://{one.identity}.git", short)
        if self.rng.random() < 0.5:
            return self.rng.choice(sorted(user.visible))
        return self.rng.choice((one.identity, one.identity, one.word, f"{one.identity}/{one.word}", *tricks))

    def query(self) -> str:
        one = self.rng.choice(self.setup.projects)
        return self.rng.choice((*COMMON, one.word, f"Account{one.word}", f"{one.word}/account.py", f"{one.word[:5]}"))

    def values(self, names: set[str], user: ProbeUser) -> dict[str, Any]:
        """Arguments for whatever fields an operation has."""
        values: dict[str, Any] = {}
        for name in sorted(names):
            if name in ("query", "pattern", "name", "target", "symbol", "question"):
                values[name] = self.query()
            elif name in ("path", "project", "repository", "root", "working_folder"):
                values[name] = self.target(user)
            elif name == "paths":
                values[name] = [self.target(user) for _ in range(self.rng.randint(1, 2))]
            elif name in ("file", "place"):
                values[name] = f"{self.query()}:1" if name == "place" else self.query()
            elif name == "at":
                values |= (
                    {"at": self.rng.choice(("main", "refs/heads/main", "work/user1/x"))}
                    if self.rng.random() < 0.2
                    else {}
                )
        return values

    def http(self, user: ProbeUser) -> None:
        one = self.rng.choice(self._served)
        if self.rng.random() < 0.7:
            one = OPERATIONS[self.rng.choice(sorted(TEAM_OPERATIONS))]
        values = self.values({item.name for item in inputs_of(one.request)}, user)
        reply = self.web.post(path_of(one), json=values, headers=user.headers)
        self.check(user, f"POST {path_of(one)}", values, reply.status_code, reply.text)
        if one.name not in TEAM_OPERATIONS and reply.status_code not in (403, 404):
            self.leak(user, f"{one.name} was not refused", values, reply.text)
        if one.name == "projects":
            listed = {project["root"].removeprefix("//") for project in reply.json()["projects"]}
            if listed != user.visible:
                self.leak(user, "projects lists others than may be seen", values, reply.text)

    def mcp(self, user: ProbeUser) -> None:
        offered = [tool for tool in self._tools.values() if tool.operation in TEAM_OPERATIONS]
        tool = self.rng.choice(offered if self.rng.random() < 0.7 else list(self._tools.values()))
        values = self.values({item.name for item in tool.arguments()}, user)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool.name, "arguments": values}}
        accept = {"Accept": "application/json, text/event-stream"}
        reply = self.web.post("/mcp/all", json=call, headers=user.headers | accept)
        self.check(user, f"MCP {tool.name}", values, reply.status_code, reply.text)
        refused = "does not offer" in reply.text or "unknown tool" in reply.text
        if tool.operation not in TEAM_OPERATIONS and not refused:
            self.leak(user, f"{tool.name} was not refused", values, reply.text)

    def page(self, user: ProbeUser) -> None:
        path = self.rng.choice(PAGES)
        values = {"q": self.query(), "project": self.target(user), "name": self.query(), "path": self.query()}
        values |= {"area": self.query(), "line": "1", "start": "1", "end": "3"}
        part = {"HX-Request": "true"} if self.rng.random() < 0.7 else {}
        headers = user.headers | {"Accept": "text/html"} | part
        reply = self.web.get(path, params=values, headers=headers)
        self.check(user, f"GET {path}", values, reply.status_code, reply.text)

    def sql(self, user: ProbeUser) -> None:
        """As the request's role: only rows of what the user sees, and nothing of who may see what."""
        visible = [one.id for one in self.setup.projects if one.identity in user.visible]
        if self.rng.random() < 0.3:
            table = self.rng.choice(CLOSED)
            try:
                with self.setup.database.transaction(user.id) as db:
                    found = db.execute(f"SELECT * FROM {table} LIMIT 1".encode()).fetchall()
                self.leak(user, f"{table} can be read", {}, str(found))
            except (CodeInfoError, Error):
                self.outcome.statuses["sql refused"] += 1
            return
        table = self.rng.choice(TABLES)
        shape = self.rng.choice(("SELECT x::text FROM {} x", "SELECT to_jsonb(x)::text FROM {} x ORDER BY random()"))
        with self.setup.database.transaction(user.id) as db:
            rows = db.execute(shape.format(table).encode()).fetchall()
            count = db.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()[0][0]
            known = sorted(row[0] for row in db.execute("SELECT id FROM projects"))
        if known != sorted(visible) or count != len(rows):
            self.leak(user, "SQL shows other projects", {"table": table}, str(known))
        self.check(user, f"SQL {table}", {}, 200, "\n".join(row[0] for row in rows))

    def existence(self, user: ProbeUser) -> None:
        """A hidden project and one that does not exist: the same answer, and about the same time for it."""
        hidden = [one for one in self.setup.projects if one.identity not in user.visible]
        if not hidden:
            return
        one, absent = self.rng.choice(hidden), word_of(self.rng)
        kind = self.rng.choice(("search", "map", "refs", "symbols", "grep"))
        answers = []
        pair = [(one.word, self.outcome.hidden_ms), (absent, self.outcome.missing_ms)]
        self.rng.shuffle(pair)
        for word, took in pair:
            identity = one.identity.replace(one.word, word)
            requests: dict[str, dict[str, Any]] = {
                "search": {"query": "amount", "paths": [identity]},
                "map": {"path": identity},
                "refs": {"name": "Account", "path": identity},
                "symbols": {"path": f"{identity}/README.md"},
                "grep": {"pattern": "amount", "paths": [identity]},
            }
            started = time.perf_counter()
            reply = self.web.post(f"/api/v1/{kind}", json=requests[kind], headers=user.headers)
            took.append(1000 * (time.perf_counter() - started))
            text = re.sub(r'"took_ms":[^,}]*', "", reply.text.replace(word, "WORD"))
            answers.append((reply.status_code, text))
        if answers[0] != answers[1]:
            self.leak(user, f"{kind} tells a hidden project from none", {"project": one.identity}, str(answers))

    def check(self, user: ProbeUser, what: str, sent: dict[str, Any], status: int, text: str) -> None:
        self.outcome.statuses[f"{what.split()[0]} {status}"] += 1
        asked = json.dumps(sent)
        for one in self.setup.projects:
            if one.identity not in user.visible and one.word in text and one.word not in asked:
                self.leak(user, f"{what} shows {one.word}", sent, text)
        if status >= 500:
            self.leak(user, f"{what} failed", sent, text)

    def leak(self, user: ProbeUser, what: str, sent: dict[str, Any], text: str) -> None:
        self.outcome.leaks.append(f"{user.name}: {what}: {json.dumps(sent)} -> {text[:500]}")


def probe(url: str, folder: Path, *, probes: int, projects: int, seed: int) -> Outcome:
    rng = random.Random(seed)
    setup = set_up_team(url, folder, projects, rng)
    try:
        with team_client(url, folder) as web:
            return Prober(setup, web, rng).run(probes)
    finally:
        setup.database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--projects", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args()
    from postgres_tools import new_database

    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CODEINFO_HOME": f"{folder}/home"}
        started = time.monotonic()
        found = probe(new_database(), Path(folder), probes=given.probes, projects=given.projects, seed=given.seed)
    print(f"{found.probes} probes in {time.monotonic() - started:.0f} s: {dict(found.kinds)}")
    print(f"answers: {dict(sorted(found.statuses.items()))}")
    hidden, missing = statistics.median(found.hidden_ms), statistics.median(found.missing_ms)
    print(
        f"a hidden project: {hidden:.1f} ms (median of {len(found.hidden_ms)}), one that does not exist: {missing:.1f}"
    )
    print(f"leaks: {len(found.leaks)}")
    for leak in found.leaks[:20]:
        print(f"  {leak}")
    raise SystemExit(1 if found.leaks else 0)


if __name__ == "__main__":
    main()
