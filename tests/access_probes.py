"""Random probes of a team's server: whatever a user asks, by HTTP, pages, MCP or SQL as the request's role, nothing of
what they may not see comes back: no path, name, count, suggestion or error that tells of it.

Each project, work tree and conversation has a word that nothing else has. An answer that has one which the question did
not is a leak; so is a different answer for a hidden project and for one that does not exist. Some projects are forks,
so that the server has one copy of both; grants come and go. Every route, tool and table is asked.

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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from psycopg import Error
from repository_tools import Repository
from starlette.routing import Mount
from starlette.testclient import TestClient
from team_server_tools import bearer, team_client

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError
from codeinfo.operations.base import Input
from codeinfo.operations.knowledge import RememberRequest
from codeinfo.operations.search import IndexRequest
from codeinfo.serve.auth import HOOKS
from codeinfo.serve.team import OPEN, TEAM_OPERATIONS
from codeinfo.shells.http_api import API_ROUTES, CHAT_INPUTS, TeamRoute
from codeinfo.shells.mcp_tools import Tool, choose_tools
from codeinfo.team import access
from codeinfo.team.database import TeamDatabase

USERS, GROUPS = 20, 6
FORK_EVERY, WORK_TREE_EVERY = 5, 3  # projects
OFFERED_SHARE = 0.8  # of the probes, once all has been asked once
SHIFT_SHARE = 0.03  # of the probes, before which a grant is given or taken away
COMMON = ("check that an amount is positive", "deposit", "Account", "amount", "report")
# What the role of requests may read; every other table must be closed to it.
READABLE = frozenset(
    "projects trees entries files attachments generations memories conversations turns savings answers"
    " answer_events".split()
)
PAGE_FIELDS = ("q", "project", "name", "path", "area", "line", "start", "end", "id", "c", "state", "action")
METHODS = ("tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get")


class ProbeProject(Struct, frozen=True):
    identity: str
    word: str  # that nothing else has
    id: int = 0


class ProbeUser(Struct):
    name: str
    id: int
    headers: dict[str, str]
    by_groups: set[str]
    granted: set[str]
    writes: bool

    @property
    def visible(self) -> set[str]:
        return self.by_groups | self.granted


class Secret(Struct, frozen=True):
    """A word, and who may see it: all who see the project, or of them only the owner."""

    word: str
    project: str = ""
    owner: str = ""

    def is_hidden_from(self, user: ProbeUser) -> bool:
        return (self.project not in user.visible if self.project else False) or self.owner not in ("", user.name)


class Target(Struct, frozen=True):
    kind: str
    ask: Callable[[ProbeUser], None]
    is_offered: bool = False


class Outcome(Struct):
    probes: int = 0
    targets: int = 0  # routes, tools and tables that there are
    leaks: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)  # by route, tool or table: how often with a result
    hidden_ms: list[float] = field(default_factory=list)
    missing_ms: list[float] = field(default_factory=list)


class TeamSetup(Struct):
    url: str
    database: TeamDatabase
    projects: tuple[ProbeProject, ...]
    users: tuple[ProbeUser, ...]
    secrets: list[Secret]
    ids: list[tuple[str, Secret]] = field(default_factory=list)  # of memories, conversations and answers


def word_of(rng: random.Random) -> str:
    return "zq" + "".join(rng.choice("bcdfghjklmnpqrstvwx") for _ in range(8))


def set_up_team(url: str, folder: Path, count: int, rng: random.Random) -> TeamSetup:
    """Projects that are indexed for real, forks and work trees among them, and users with grants that overlap."""
    database = TeamDatabase(url)
    projects = [_project(folder, number, rng) for number in range(count)]
    with database.transaction() as db:
        for number, one in enumerate(projects):
            fork_of = projects[number - 1].id if number % FORK_EVERY == FORK_EVERY - 1 else None
            added = db.execute(
                """INSERT INTO projects(identity, default_ref, family) SELECT %s, 'refs/heads/main',
                   coalesce((SELECT family FROM projects WHERE id = %s), gen_random_uuid()::text) RETURNING id""",
                (one.identity, fork_of),
            ).fetchall()
            projects[number] = ProbeProject(one.identity, one.word, added[0][0])
        db.execute("UPDATE projects SET visibility = 'internal' WHERE id = %s", (projects[0].id,))
    setup = TeamSetup(url, database, tuple(projects), _users(database, projects, rng), [])
    setup.secrets += [Secret(one.word, one.identity) for one in projects]
    flags = {"store.url": url, "paths.cache_dir": str(folder / "operator")}
    with Engine(Config.load(flags, folder)) as engine:
        engine.index(IndexRequest(tuple(str(folder / str(number)) for number in range(count))))
        with database.transaction() as db:
            db.execute("UPDATE trees SET name = 'refs/heads/main'")
        for number, one in enumerate(projects):
            request = RememberRequest(f"amounts of {one.word}", reason=f"as {one.word} wants", path=one.identity)
            setup.ids.append((engine.knowledge.remember(request).memory.id, setup.secrets[number]))
            if number % WORK_TREE_EVERY == 0:
                _add_work_tree(setup, engine, one, folder / str(number), rng)
    return setup


def _project(folder: Path, number: int, rng: random.Random) -> ProbeProject:
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


def _add_work_tree(setup: TeamSetup, engine: Engine, project: ProbeProject, folder: Path, rng: random.Random) -> None:
    """What somebody has changed in their folder, and nobody else may see."""
    owner, word = rng.choice(setup.users), word_of(rng)
    (folder / f"{word}.py").write_text(f"class Draft{word}:\n    amount = 1\n")
    engine.index(IndexRequest((str(folder),)))
    with setup.database.transaction() as db:
        give = "UPDATE trees SET name = %s, owner = %s WHERE project = %s AND name ^@ 'work/'"
        db.execute(give, (f"work/{owner.name}/desk", owner.id, project.id))
    setup.secrets.append(Secret(word, project.identity, owner.name))


def _users(database: TeamDatabase, projects: list[ProbeProject], rng: random.Random) -> tuple[ProbeUser, ...]:
    users = []
    for number in range(USERS):
        name, writes = f"user{number}", number % 2 == 1
        scopes = (access.READ, access.WRITE) if writes else (access.READ,)
        identity = access.create_user(database, name)
        headers = bearer(access.create_token(database, name, scopes=scopes))
        users.append(ProbeUser(name, identity, headers, {projects[0].identity}, set(), writes))
    for number in range(GROUPS):
        members = rng.sample(users, USERS // 4)
        access.add_members(database, f"group{number}", [user.name for user in members])
        for project in rng.sample(projects, max(1, len(projects) // 8)):
            access.grant(database, project.identity, f"@group{number}", rng.choice((access.READ, access.WRITE)))
            for user in members:
                user.by_groups.add(project.identity)
    for user in users[2:]:  # two see nothing but what everyone does
        for project in rng.sample(projects, max(1, len(projects) // 12)):
            access.grant(database, project.identity, user.name)
            user.granted.add(project.identity)
    return tuple(users)


# --- probes --------------------------------------------------------------------------------------------------------


class Prober:
    def __init__(self, setup: TeamSetup, web: TestClient, rng: random.Random) -> None:
        self.setup, self.web, self.rng = setup, web, rng
        self.outcome = Outcome()
        self.one = setup.projects[0]  # that the current probe is about
        self._inputs = {(row.method, row.path): row.inputs for row in API_ROUTES} | {("POST", "/ui/runs"): CHAT_INPUTS}

    def run(self, probes: int) -> Outcome:
        """Each target once, then mostly what is offered, by random users."""
        self.begin_conversations()
        targets = list(self.targets())
        self.rng.shuffle(targets)
        self.outcome.targets = len(targets)
        offered = [target for target in targets if target.is_offered]
        for number in range(probes):
            some = offered if self.rng.random() < OFFERED_SHARE else targets
            target = targets[number] if number < len(targets) else self.rng.choice(some)
            if self.rng.random() < SHIFT_SHARE:
                self.shift_grant()
            self.outcome.probes += 1
            self.outcome.kinds[target.kind] += 1
            user = self.rng.choice(self.setup.users)
            seen = [one for one in self.setup.projects if one.identity in user.visible]
            self.one = self.rng.choice(seen if self.rng.random() < 0.6 else self.setup.projects)
            target.ask(user)
        return self.outcome

    def targets(self) -> Iterator[Target]:
        """Whatever the server has."""
        routes: list[Any] = self.web.app._app.routes  # type: ignore[attr-defined]
        for route in routes:
            if isinstance(route, Mount) or route.path in OPEN or route.path.startswith(HOOKS):  # those are signed
                continue
            if isinstance(route, TeamRoute):
                yield Target("http", partial(self.http, route), is_offered=route.scope in (access.READ, access.WRITE))
            else:
                assert route.path == "/mcp", f"{route.path} is a kind of route that is not probed"
        for tool in choose_tools(["all"]):
            yield Target("mcp", partial(self.tool, tool), is_offered=tool.operation in TEAM_OPERATIONS)
        for method in METHODS:
            yield Target("mcp", partial(self.method, method))
        with self.setup.database.transaction() as db:
            tables = [name for (name,) in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'codeinfo'")]
        assert {*tables} > READABLE
        for table in tables:
            yield Target("sql", partial(self.sql, table), is_offered=table in READABLE)
        yield from [Target("existence", self.existence, is_offered=True)] * 20

    def begin_conversations(self) -> None:
        for user in self.setup.users:
            if user.writes:
                word = word_of(self.rng)
                self.setup.secrets.append(Secret(word, owner=user.name))
                asked = {"message": f"is an amount of {word} checked?", "stream": False}
                asked |= {"projects": [self.rng.choice(sorted(user.visible))]}
                reply = self.web.post("/chat", json=asked, headers=user.headers)
                assert reply.status_code == 200, reply.text
                self.setup.ids += [(reply.json()[name], self.setup.secrets[-1]) for name in ("conversationId", "runId")]

    def shift_grant(self) -> None:
        """Of somebody who cannot ask: what others were told is in their conversations."""
        user = self.rng.choice([user for user in self.setup.users if not user.writes])
        project = self.rng.choice(self.setup.projects).identity
        if project in user.granted:
            access.revoke(self.setup.database, project, user.name)
            user.granted.remove(project)
        else:
            access.grant(self.setup.database, project, user.name)
            user.granted.add(project)

    def target(self) -> str:
        """A project as somebody might name it: whole, by a part of its name, with a path, or none."""
        one = self.one
        short = one.identity.partition("/")[2]
        tricks = ("", ".", "/", "//", f"{one.identity}/..", f"//{one.identity}", f"https://{one.identity}.git", short)
        names = (one.identity, one.word, f"{one.identity}/{one.word}", *tricks)
        return one.identity if self.rng.random() < 0.7 else self.rng.choice(names)

    def query(self) -> str:
        word = self.one.word if self.rng.random() < 0.5 else self.rng.choice(self.setup.secrets).word
        near = word[:-1] + "z"  # what it may be a misspelling of
        written = (f"Account{word}", f"Draft{word}", f"Account{near}", f"{word}/account.py", word[:5], near)
        return self.rng.choice((*COMMON, word, *written))

    def file(self) -> str:
        return self.rng.choice((f"{self.one.identity}/", "")) + f"{self.one.word}/account.py"

    def an_id(self, user: ProbeUser) -> str:
        own = [identity for identity, secret in self.setup.ids if not secret.is_hidden_from(user)]
        return self.rng.choice(own if own and self.rng.random() < 0.5 else [identity for identity, _ in self.setup.ids])

    def value(self, item: Input, user: ProbeUser) -> Any:
        """For an argument of an operation; None leaves it out."""
        name = item.name
        if item.choices:
            return self.rng.choice(item.choices) if self.rng.random() < 0.2 else None
        if name in ("question", "message", "memory", "reason"):  # what others may read later
            return self.rng.choice(COMMON)
        if name == "file" or (name == "path" and item.required):
            return self.file()
        if name in ("path", "project", "repository", "root", "working_folder"):
            return self.target()
        if name in ("paths", "projects"):
            return [self.target() for _ in range(self.rng.randint(0, 2))]
        if name in ("id", "identity", "runId", "conversation", "conversationId"):
            return self.an_id(user) if item.required or self.rng.random() < 0.2 else None
        if name in ("ids", "conversationIds"):
            return [self.an_id(user)]
        if name == "at":
            trees = ("main", "refs/heads/main", f"work/{self.rng.choice(self.setup.users).name}/desk")
            return self.rng.choice(trees) if self.rng.random() < 0.3 else None
        if name == "place":
            return f"{self.file()}:1"
        if item.kind == "bool":
            return self.rng.random() < 0.5 if name != "stream" else False
        is_text = item.kind == "str" and name not in ("cursor", "provider", "model", "scope", "author", "changed_since")
        return self.query() if is_text and (item.required or self.rng.random() < 0.3) else None

    def values(self, inputs: Iterable[Input], user: ProbeUser) -> dict[str, Any]:
        return {item.name: value for item in inputs if (value := self.value(item, user)) is not None}

    def http(self, route: TeamRoute, user: ProbeUser) -> None:
        inputs = self._inputs.get((route.method, route.path))
        is_page = inputs is None and not route.path.startswith("/api/")
        fields = tuple(Input(name, "", required=True) for name in PAGE_FIELDS) if inputs is None else inputs
        values = self.values(fields, user) | ({"line": "1", "start": "1", "end": "3"} if is_page else {})
        path = re.sub(r"{\w+}", lambda _: self.an_id(user), route.path)
        headers = user.headers | ({"Accept": "text/html"} if is_page else {})
        headers |= {"HX-Request": "true"} if self.rng.random() < 0.7 else {}
        sent: dict[str, Any] = {"params": values} if route.method == "GET" else {"data" if is_page else "json": values}
        reply = self.web.request(route.method, path, headers=headers, **sent)
        label = f"{route.method} {route.path}"
        self.check(user, label, values | {"address": path}, reply.status_code, f"{reply.headers}\n{reply.text}")
        is_refused = not route.scope or route.scope == access.ADMIN or (route.scope == access.WRITE and not user.writes)
        if is_refused and reply.status_code != 403:
            self.leak(user, f"{label} was not refused", values, reply.text)
        if route.operation == "projects" and not is_refused:
            listed = {project["root"].removeprefix("//") for project in reply.json()["projects"]}
            if listed != user.visible:
                self.leak(user, "projects lists others than may be seen", values, reply.text)

    def tool(self, tool: Tool, user: ProbeUser) -> None:
        values = self.values(tool.arguments(), user)
        text = self.call(user, "tools/call", tool.name, {"name": tool.name, "arguments": values})
        refused = "does not offer" in text or "unknown tool" in text
        if tool.operation not in TEAM_OPERATIONS and not refused:
            self.leak(user, f"{tool.name} was not refused", values, text)

    def method(self, method: str, user: ProbeUser) -> None:
        named: dict[str, dict[str, Any]] = {"resources/read": {"uri": "codebase://context"}}
        named["prompts/get"] = {"name": "review", "arguments": {"project": self.target()}}
        self.call(user, method, method, named.get(method, {}))

    def call(self, user: ProbeUser, method: str, label: str, params: dict[str, Any]) -> str:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = {"Accept": "application/json, text/event-stream"}
        reply = self.web.post("/mcp/all", json=body, headers=user.headers | accept)
        told = reply.json()
        failed = "error" in told or told["result"].get("isError", False)
        self.check(user, f"MCP {label}", params, reply.status_code, f"{reply.headers}\n{reply.text}", failed=failed)
        return reply.text

    def sql(self, table: str, user: ProbeUser) -> None:
        """As the request's role: only rows of what the user sees, and nothing of who may see what."""
        if table not in READABLE:
            try:
                with self.setup.database.transaction(user.id) as db:
                    found = db.execute(f"SELECT * FROM {table} LIMIT 1".encode()).fetchall()
                self.leak(user, f"{table} can be read", {}, str(found))
            except (CodeInfoError, Error):
                self.outcome.statuses["SQL refused"] += 1
            return
        visible = [one.id for one in self.setup.projects if one.identity in user.visible]
        shape = self.rng.choice(("SELECT x::text FROM {} x", "SELECT to_jsonb(x)::text FROM {} x ORDER BY random()"))
        with self.setup.database.transaction(user.id) as db:
            rows = db.execute(shape.format(table).encode()).fetchall()
            count = db.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()[0][0]
            known = sorted(row[0] for row in db.execute("SELECT id FROM projects"))
        if known != sorted(visible) or count != len(rows):
            self.leak(user, "SQL shows other projects", {"table": table}, str(known))
        self.check(user, f"SQL {table}", {}, 200, "\n".join(row[0] for row in rows), failed=not rows)

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

    def check(
        self, user: ProbeUser, what: str, sent: dict[str, Any], status: int, text: str, *, failed: bool = False
    ) -> None:
        self.outcome.statuses[f"{what.split()[0]} {status}"] += 1
        self.outcome.answered[what] += status < 400 and not failed
        asked, below = json.dumps(sent), text.lower()
        for secret in self.setup.secrets:
            if secret.word in below and secret.word not in asked and secret.is_hidden_from(user):
                self.leak(user, f"{what} shows {secret.word}", sent, text)
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
    silent = sorted(what for what, count in found.answered.items() if not count)
    print(f"{len(found.answered)} routes, tools and tables; never with a result: {', '.join(silent)}")
    print(f"leaks: {len(found.leaks)}")
    for leak in found.leaks[:20]:
        print(f"  {leak}")
    raise SystemExit(1 if found.leaks else 0)


if __name__ == "__main__":
    main()
