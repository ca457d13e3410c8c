"""The user's own data in SQLite files: transactions over statements that PostgreSQL takes as well, and locks that end
with their holder. A team has the same tables, each row with its owner, behind the same methods: `team/user_data.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import apsw

from codeinfo.errors import Busy, IndexTooNew
from codeinfo.private_files import open_private, private_folder, touch_private, wait_for_lock
from codeinfo.store.database import BUSY_MS, DATA, transaction, translate_errors

Row = tuple[Any, ...]
EVERYONE = -2  # in place of an owner: who works for all of them
LOCK_PATIENCE_S = 0.25  # a look at whether a lock is held holds it for a moment


class Transaction(Protocol):
    def execute(self, statement: str, *values: Any) -> list[Row]: ...

    def is_locked(self, name: str) -> bool:
        """Whether somebody holds the lock of that name."""
        ...


class UserData(Protocol):
    """Rows of an owner: the current caller unless another one is named. A file has one owner, whatever is named."""

    def open(self) -> None:
        """Raises where the data cannot be used; otherwise the first transaction would."""
        ...

    def close(self) -> None: ...

    @property
    def exists(self) -> bool: ...

    @property
    def owner(self) -> int: ...

    def reading(self) -> AbstractContextManager[Transaction]: ...

    def writing(self, owner: int | None = None) -> AbstractContextManager[Transaction]:
        """One of an owner at a time, from its beginning, and all of it or nothing."""
        ...

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """Whether the lock is held while the block lasts; another process may have it."""
        ...

    def drop_lock(self, name: str) -> None:
        """What it is about is gone for good."""
        ...


class UserFile:
    """One file in the user's data folder. `lock` makes files beside it."""

    owner = 0

    def __init__(self, path: Path, migrations: Mapping[str, str]) -> None:
        self._path = path
        self._migrations = migrations
        self._db: apsw.Connection | None = None
        self._lock = threading.RLock()

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def open(self) -> None:
        self._opened()

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _opened(self) -> apsw.Connection:
        with self._lock:
            if self._db is None:
                with translate_errors(self._path.parent, DATA):
                    self._db = _open(self._path, self._migrations)
            return self._db

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._transaction("BEGIN") as found:
            yield found

    @contextmanager
    def writing(self, owner: int | None = None) -> Iterator[Transaction]:
        with self._transaction("BEGIN IMMEDIATE") as found:
            yield found

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._lock, translate_errors(self._path.parent, DATA):
            db = self._opened()
            with transaction(db, begin):
                yield _FileTransaction(db, self)

    # --- locks that the kernel lets go of when the process dies ---

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        handle = self._take_lock(name, LOCK_PATIENCE_S)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                os.close(handle)

    def is_locked(self, name: str) -> bool:
        handle = self._take_lock(name, 0)
        if handle is not None:
            os.close(handle)
        return handle is None

    def drop_lock(self, name: str) -> None:
        (self._path.parent / name).unlink(missing_ok=True)

    def _take_lock(self, name: str, patience: float) -> int | None:
        path = self._path.parent / name
        with translate_errors(self._path.parent, DATA):
            private_folder(path.parent, self._path.parent)
            handle = open_private(path, os.O_RDWR)
        try:
            wait_for_lock(handle, path, patience)
            return handle
        except BaseException as error:
            os.close(handle)
            if isinstance(error, Busy):
                return None
            raise


class _FileTransaction:
    def __init__(self, db: apsw.Connection, file: UserFile) -> None:
        self._db = db
        self.is_locked = file.is_locked

    def execute(self, statement: str, *values: Any) -> list[Row]:
        return self._db.execute(statement, values).fetchall()


def _open(path: Path, migrations: Mapping[str, str]) -> apsw.Connection:
    """The database, made if need be. Each change of its tables has a name and is made once."""
    private_folder(path.parent)
    touch_private(path)
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_MS)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    if _migrations_made(db) != migrations.keys():
        with transaction(db):
            db.execute("CREATE TABLE IF NOT EXISTS migrations(name TEXT PRIMARY KEY, made_at TEXT NOT NULL)")
            made = _migrations_made(db)
            if unknown := made - migrations.keys():
                raise IndexTooNew(
                    f"{path} was written by a newer CodeInfo ({', '.join(sorted(unknown))})",
                    next_step="Upgrade CodeInfo",
                )
            for name in [name for name in migrations if name not in made]:
                db.execute(migrations[name])
                db.execute("INSERT INTO migrations VALUES(?, ?)", (name, timestamp()))
    return db


def _migrations_made(db: apsw.Connection) -> set[str]:
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall():
        return set()
    return {str(row[0]) for row in db.execute("SELECT name FROM migrations")}


def timestamp(moment: datetime | None = None) -> str:
    """Now, or the given moment, in UTC; these texts sort in the order of time."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
