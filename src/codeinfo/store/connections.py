"""Connections to one database: handed out, taken back, and wrapped in transactions."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from codeinfo.private_files import touch_private
from codeinfo.store.faults import ODD, BuildDamaged, Damage, is_writable, mark_damaged, translated

BUSY_MS = 10_000  # how long a statement waits for another process's short transaction
_MOST_IDLE = 4  # each maps the database and keeps up to 16 MB of it
_SHARED_BYTES = 65_536  # what SQLite needs beside a database to open it, at the least


class Connections:
    """One connection a transaction, so that threads never share one; a few idle ones are used again."""

    def __init__(self, path: Path, schema_version: int) -> None:
        self._path = path
        self._schema_version = schema_version
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._written = False
        self.damaged = False

    def create(self, tables: str, first_rows: str, values: tuple[str, ...]) -> None:
        """Make the database unless it is there."""
        touch_private(self._path)
        db = self._open(apsw.SQLITE_OPEN_READWRITE)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            with transaction(db):
                if not one(db, "PRAGMA user_version")[0]:
                    db.execute(tables)
                    db.execute(first_rows, values)
                    db.execute(f"PRAGMA user_version = {self._schema_version}")
        finally:
            db.close()

    def check(self) -> None:
        """A database that cannot be opened is noticed here, not in a search."""
        self._release(self._acquire())

    def close(self) -> None:
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for db in idle:
            self._end(db)

    def _end(self, db: apsw.Connection) -> None:
        if not self._written:  # who only read leaves the log to whoever writes, and its files where they are
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.close()

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        with self._guarded():
            db = self._acquire()
            try:
                db.execute("BEGIN")
                yield db
                if db.in_transaction:
                    db.execute("ROLLBACK")
            except BaseException:
                db.close()
                raise
            self._release(db)

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        self._written = True
        with self._guarded():
            db = self._acquire()
            try:
                with transaction(db):
                    yield db
            except BaseException:
                db.close()
                raise
            self._release(db)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Failures in our own words. One that makes no sense is damage if the index fails its check, else a fault."""
        try:
            with translated(self._path.parent):
                try:
                    yield
                except ODD as error:
                    if found := self._problem():
                        raise Damage(found) from error
                    raise
        except BuildDamaged as damage:
            if damage.folder == self._path.parent:  # a question to several indexes passes through all of them
                self.damaged = True
                mark_damaged(damage.folder, damage.problem)
            raise

    def _problem(self) -> str:
        from codeinfo.store.check import problem

        db = self._acquire()
        try:
            return problem(db, self._path.parent)
        finally:
            db.close()

    def _open(self, flags: int, name: str = "") -> apsw.Connection:
        db = apsw.Connection(name or str(self._path), flags=flags)
        db.set_busy_timeout(BUSY_MS)
        db.execute("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000; PRAGMA mmap_size = 268435456")
        return db

    def _acquire(self) -> apsw.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._checked(self._open(apsw.SQLITE_OPEN_READWRITE))
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError):
            if not self._can_only_be_read():
                raise
        uri = self._path.as_uri() + "?immutable=1"
        return self._checked(self._open(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, uri))

    def _checked(self, db: apsw.Connection) -> apsw.Connection:
        try:
            version = one(db, "PRAGMA user_version")[0]
            if version != self._schema_version:
                raise Damage(f"it has schema {version} where {self._schema_version} belongs")
        except BaseException:
            db.close()
            raise
        return db

    def _can_only_be_read(self) -> bool:
        """No place for SQLite's shared memory beside the database, and nothing in a log that only it could read."""
        log = Path(f"{self._path}-wal")
        if not self._path.exists() or (log.exists() and log.stat().st_size):
            return False
        disk = os.statvfs(self._path.parent)
        return not is_writable(self._path.parent) or disk.f_bavail * disk.f_frsize < _SHARED_BYTES

    def _release(self, db: apsw.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(db)
                return
        self._end(db)


def library_version() -> str:
    return f"{apsw.sqlite_lib_version()} (bundled with apsw {apsw.apsw_version()})"


def one(db: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The only row of a query. All rows are fetched, so that no statement stays open."""
    return db.execute(query, values).fetchall()[0]


def load_meta(db: apsw.Connection) -> dict[str, str]:
    """What the index says about itself, as far as whoever reads it relies on it."""
    meta = dict(db.execute("SELECT key, value FROM meta"))
    numbers = (meta.get("generation", ""), meta.get("dimension", "0"))
    if not all(number.isdecimal() for number in numbers) or "recipe" not in meta:
        raise Damage("what it says about itself makes no sense")
    return meta


@contextmanager
def transaction(db: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """One that writes takes its lock at the start, so that it can wait but never deadlock."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
