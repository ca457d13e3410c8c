"""`codeinfo serve` of a team, killed (-9) again and again while clients search, push, send webhooks and remember, and a
worker indexes. What was acknowledged to a client must be there at the end, once; nothing else may be."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from failover_tools import free_port
from git_server import serving
from msgspec import Struct, field
from repository_tools import Repository
from store_digest import digest_of
from worker_tools import Team, clean_digest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import ProviderError, StoreUnavailable
from codeinfo.operations.team import PushRequest, TeamJobsRequest, TeamProjectRequest
from codeinfo.team import access
from codeinfo.team.receiving import sign
from codeinfo.team.store import open_tree

MAIN = "refs/heads/main"
SETTLE_S = 180.0  # for what is queued at the end
_STARTUP_SHARE = 0.2  # of the kills: while the server starts


class Outcome(Struct):
    """`in_flight` counts the kills that hit a request, by its kind; `problems` is empty where all went well."""

    kills: int = 0
    startups: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)  # acknowledged, by kind
    runs: int = 0
    problems: list[str] = field(default_factory=list)


class _Server:
    """Always at one port, as behind a supervisor."""

    def __init__(self, team: Team, place: Path) -> None:
        self.port = free_port()
        self.environment = team.environment | {
            "HOME": str(place / "server"),
            "CODEINFO_CACHE_DIR": str(place / "server" / "cache"),
            "CODEINFO_DATA_DIR": str(place / "server" / "data"),
        }
        self.log = place / "server.log"
        (place / "server").mkdir()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "codeinfo", "serve", "--port", str(self.port)]
        with self.log.open("ab") as sink:
            return subprocess.Popen(
                line, cwd=self.log.parent, env=self.environment, stdout=subprocess.DEVNULL, stderr=sink
            )

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + 180
        while True:
            try:
                if self.send("GET", "/ready")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server does not start: {self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def replace(self) -> None:
        self.kill()
        self.process = self._start()


class _Load:
    """Clients of the server, each in a thread. A client tries again until it has an answer, as real ones do."""

    def __init__(self, server: _Server, outcome: Outcome) -> None:
        self._server = server
        self._outcome = outcome
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()

    def in_flight(self) -> list[str]:
        with self._lock:
            return [kind for kind, count in self._busy.items() if count]

    def add(self, kind: str, step: Callable[[], bool]) -> None:
        """`step` does one thing and says whether it was acknowledged."""

        def run() -> None:
            while not self._stop.is_set():
                with self._lock:
                    self._busy[kind] += 1
                try:
                    done = step()
                    self._outcome.done[kind] += done
                except (OSError, http.client.HTTPException):
                    done = False
                except Exception as error:
                    self._outcome.problems.append(f"{kind}: {type(error).__name__}: {error}")
                    return
                finally:
                    with self._lock:
                        self._busy[kind] -= 1
                time.sleep(0.05 if done else 0.1)

        self._threads.append(threading.Thread(target=run, name=kind, daemon=True))
        self._threads[-1].start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), thread.name


def kill_servers(url: str, place: Path, moments: int, seed: int = 1) -> Outcome:
    (place / "served").mkdir(parents=True)
    upstream, outcome, chosen = Repository(place / "served" / "shop"), Outcome(), random.Random(seed)
    upstream.commit("Begin", {f"part{n % 7}/m{n}.py": _module(n, 0) for n in range(120)})
    team = Team(url, place / "machine")
    worker = None
    try:
        with serving(upstream.folder.parent) as git:
            project = team.add(git, "shop")
            team.work()
            home = place / "ann"
            config = _developer(team, project, home)
            _clone(git.url("shop"), home / "shop")
            server, worker = _Server(team, place), team.start_worker()
            try:
                clients = _Clients(server, team, project, upstream, config, seed)
                load = _Load(server, outcome)
                load.add("search", clients.search)
                load.add("grep", clients.search)
                load.add("hook", clients.send_hook)
                load.add("push", clients.push)
                load.add("remember", clients.remember)
                server.wait_until_ready()
                while outcome.kills < moments:
                    if outcome.kills and chosen.random() < _STARTUP_SHARE:
                        time.sleep(chosen.uniform(0, 1.5))
                        outcome.startups += 1
                    else:
                        server.wait_until_ready()
                        time.sleep(chosen.uniform(0, 1.5))
                    outcome.in_flight.update(load.in_flight())
                    server.replace()
                    outcome.kills += 1
                server.wait_until_ready()
                load.stop()
                clients.push_until_done()
                _settle(team, project, upstream.git("rev-parse", "HEAD"), outcome)
                outcome.problems += clients.check(outcome)
            finally:
                server.kill()
                os.killpg(worker.pid, signal.SIGTERM)
                worker.wait(120)
        _compare(team, project, upstream, server, place, outcome)
    finally:
        team.close()
    return outcome


class _Clients:
    def __init__(
        self, server: _Server, team: Team, project: str, upstream: Repository, config: Config, seed: int
    ) -> None:
        self._server = server
        self._team = team
        self._project = project
        self._upstream = upstream
        self._config = config
        self._random = random.Random(seed)
        self._secret = team.engine.team.project(TeamProjectRequest(project)).secret
        self._token = Path(config.store.token_file).read_text()
        self._delivery = ""
        self._deliveries = 0
        self._facts = 0
        self._remembered: list[str] = []
        self._folder = Path(config.store.token_file).parent / "shop"
        self._edits = 0

    def search(self) -> bool:
        name = threading.current_thread().name
        body = {"query": f"handle_{self._random.randrange(120)}", "paths": [self._project]}
        if name == "grep":
            body = {"pattern": body["query"], "paths": [self._project]}
        status, answer = self._ask(f"/api/v1/{name}", body)
        if status == 503:
            return False
        assert status == 200, answer[:500]
        found = json.loads(answer)
        assert found["hits" if name == "search" else "matches"], answer[:500]
        return True

    def remember(self) -> bool:
        """The same fact until it is acknowledged."""
        text = f"fact number {self._facts} about carts"
        body = {"memory": text, "type": "decision", "category": "architecture", "reason": "so it was decided"}
        status, answer = self._ask("/api/v1/remember", body | {"path": self._project})
        if status == 503:
            return False
        assert status == 200, answer[:500]
        self._remembered.append(text)
        self._facts += 1
        return True

    def send_hook(self) -> bool:
        """A commit, and the webhook about it: the same delivery again until the server has it."""
        if not self._delivery:
            number = self._deliveries
            changed = {f"part{at % 7}/m{at}.py": _module(at, number + 1) for at in self._random.sample(range(120), 8)}
            self._upstream.commit(f"Change {number}", changed)
            self._delivery = f"delivery-{number}"
        body = json.dumps({"project": self._project, "ref": MAIN}).encode()
        moment = str(int(time.time()))
        headers = {
            "x_codeinfo_delivery": self._delivery,
            "x_codeinfo_timestamp": moment,
            "x_codeinfo_signature": sign(self._secret, moment, self._delivery, body),
        }
        status, answer = self._server.send("POST", "/hooks/push", body, **headers)
        if status == 503:
            return False
        assert status in (202, 409), answer[:500]  # 409: the server that was killed had received it
        self._deliveries += 1
        self._delivery = ""
        return True

    def push(self) -> bool:
        self._edits += 1
        for at in self._random.sample(range(120), 5):
            (self._folder / f"part{at % 7}" / f"m{at}.py").write_text(_module(at, 10_000 + self._edits))
        return self._push()

    def _push(self) -> bool:
        address = f"http://127.0.0.1:{self._server.port}"
        try:
            with Engine(self._config) as engine:
                engine.team.push(PushRequest(str(self._folder), address, project=self._project))
        except (ProviderError, StoreUnavailable):
            return False
        return True

    def push_until_done(self) -> None:
        while not self._push():
            time.sleep(0.5)
        while self._delivery and not self.send_hook():
            time.sleep(0.5)

    def _ask(self, path: str, body: Any) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {self._token}", "content_type": "application/json"}
        return self._server.send("POST", path, json.dumps(body).encode(), **headers)

    def check(self, outcome: Outcome) -> list[str]:
        problems = []
        with self._team.database.transaction() as db:
            facts = Counter(row[0] for row in db.execute("SELECT record->>'memory' FROM memories"))
            deliveries = db.execute("SELECT count(*) FROM deliveries").fetchall()[0][0]
            runs, other = db.execute(
                "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done') FROM index_runs"
            ).fetchall()[0]
            generation = db.execute("SELECT generation FROM trees WHERE name = %s", (MAIN,)).fetchall()[0][0]
            pushed = db.execute(
                """SELECT e.path, right(f.sha256, 64) FROM entries e JOIN trees t ON t.id = e.tree
                   JOIN files f ON f.id = e.file WHERE t.name = 'work/ann/shop'"""
            ).fetchall()
        outcome.runs = runs
        if lost := [text for text in self._remembered if text not in facts]:
            problems.append(f"{len(lost)} memories were acknowledged and are lost")
        if twice := [text for text, count in facts.items() if count > 1]:
            problems.append(f"{len(twice)} memories are there twice")
        if deliveries != self._deliveries:
            problems.append(f"{self._deliveries} webhooks were sent and {deliveries} counted")
        if other or generation != 2 * runs:  # a run changes its tree once and marks it complete once
            problems.append(f"{runs} runs and {other} that are not done made {generation} generations")
        if dict(pushed) != _hashes(self._folder):
            problems.append("the pushed tree differs from the folder")
        return problems


def _settle(team: Team, project: str, commit: str, outcome: Outcome) -> None:
    """Until the worker has done what the webhooks asked for: nothing else makes it look."""
    until = time.monotonic() + SETTLE_S
    while True:
        state = team.engine.team.jobs(TeamJobsRequest(1))
        if not state.waiting + state.running or time.monotonic() > until:
            break
        time.sleep(0.2)
    if (state.waiting, state.running, state.failed) != (0, 0, ()):
        outcome.problems.append(f"jobs are left over: {state}")
    tree = open_tree(team.database, None, project, MAIN)
    if tree is None or tree.revision != commit:
        outcome.problems.append(f"a job was lost: {tree and tree.revision} is indexed, not {commit}")


def _compare(team: Team, project: str, upstream: Repository, server: _Server, place: Path, outcome: Outcome) -> None:
    """What a fresh machine pulls, and the copy of the server that was killed, with a clean build."""
    clean = clean_digest(upstream, place)
    if team.digest(project) != clean:
        outcome.problems.append("the team's index differs from a clean build")
    pushed = team.digest(project, "work/ann/shop")
    with Engine(Config.load(cwd=place, env=server.environment)) as engine:
        for ref, wanted in ((MAIN, clean), ("work/ann/shop", pushed)):
            store = engine.indexes.find(f"//{project}", at=ref).index.refresh().store
            store.verify()
            if digest_of(store) != wanted:
                outcome.problems.append(f"the killed server's copy of {ref} differs")


def _developer(team: Team, project: str, home: Path) -> Config:
    """Somebody who has a token and no database."""
    access.create_user(team.database, "ann")
    access.grant(team.database, project, "ann", "write")
    home.mkdir()
    token = home / "token"
    token.write_text(access.create_token(team.database, "ann", scopes=("read", "write")))
    token.chmod(0o600)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "CODEINFO_HOME": str(home / "own")}
    return Config.load({"store.token_file": str(token), "index.workers": "1"}, home, environment)


def _clone(url: str, folder: Path) -> None:
    subprocess.run(["git", "clone", "-q", url, str(folder)], check=True)


def _module(number: int, version: int) -> str:
    return (
        f'"""Module {number}, version {version}."""\n\n\ndef handle_{number}(order):\n'
        f"    return order.total * {number} + {version}\n\n\nclass Kind{number}:\n    value = {version}\n"
    )


def _hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.py")
        if path.is_file()
    }
