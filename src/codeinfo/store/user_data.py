"""The user's own data in SQLite files: transactions over statements that PostgreSQL accepts as well, and locks that end
with their holder. A team has the same tables, each row with its owner, behind the same methods: `team/user_data.py`.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import apsw
from msgspec import Struct, convert
from msgspec.structs import astuple

from codeinfo.errors import Busy, IndexTooNew
from codeinfo.files import open_private, private_folder, touch_private, wait_for_lock
from codeinfo.model import dumps
from codeinfo.operations.clients import IngestRun
from codeinfo.store.database import BUSY_MS, DATA, Damage, transaction, translate_errors

Row = tuple[Any, ...]
LOCK_PATIENCE_S = 0.25  # checking whether a lock is held holds it for a moment


class Transaction(Protocol):
    def execute(self, statement: str, *values: Any) -> list[Row]: ...

    def is_locked(self, name: str) -> bool:
        """Whether somebody holds the lock of that name."""
        ...


class UserData(Protocol):
    """Rows of an owner: the current caller unless another one is given. A file has one owner, whichever is given."""

    def open(self) -> None:
        """Raises if the data cannot be used; otherwise the first transaction would."""
        ...

    def close(self) -> None: ...

    @property
    def exists(self) -> bool: ...

    @property
    def owner(self) -> int: ...

    def reading(self) -> AbstractContextManager[Transaction]: ...

    def writing(self, owner: int | None = None) -> AbstractContextManager[Transaction]:
        """One per owner at a time, from its start, all or nothing."""
        ...

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """Whether the lock is held for the duration of the block; another process may have it."""
        ...

    def drop_lock(self, name: str) -> None:
        """Its subject is gone for good."""
        ...


class UserFile:
    """One file in the user's data folder. `lock` creates files beside it."""

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
        self._connect()

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _connect(self) -> apsw.Connection:
        with self._lock:
            if self._db is None:
                with translate_errors(self._path.parent, DATA):
                    self._db = _open(self._path, self._migrations)
            return self._db

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN")

    def writing(self, owner: int | None = None) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._lock, translate_errors(self._path.parent, DATA):
            db = self._connect()
            try:
                with transaction(db, begin):
                    yield _FileTransaction(db, self)
            except (UnicodeDecodeError, apsw.SQLError) as error:  # a text, or a column's name, with a flipped bit
                if isinstance(error, apsw.SQLError) and not str(error).startswith("no such "):
                    raise
                raise Damage(str(error)) from error

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


_MIGRATIONS_TABLE = "CREATE TABLE IF NOT EXISTS migrations(name TEXT PRIMARY KEY, made_at TEXT NOT NULL)"


def _open(path: Path, migrations: Mapping[str, str]) -> apsw.Connection:
    """The database, created if needed. Each migration has a name and runs once."""
    private_folder(path.parent)
    if not os.path.lexists(path):
        _create(path)
    touch_private(path)
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_MS)
    _check_length(path, db.pragma("page_size"))
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    if _migrations_made(db) != migrations.keys():
        with transaction(db):
            db.execute(_MIGRATIONS_TABLE)
            made = _migrations_made(db)
            if unknown := made - migrations.keys():
                raise IndexTooNew(
                    f"{path} was written by a newer CodeInfo ({', '.join(sorted(unknown))})", "Upgrade CodeInfo"
                )
            for name in [name for name in migrations if name not in made]:
                db.execute(migrations[name])
                db.execute("INSERT INTO migrations VALUES(?, ?)", (name, timestamp()))
    return db


def _create(path: Path) -> None:
    """With a first table, under its name only when that is written: an empty file is therefore a damaged one."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    touch_private(temporary)
    try:
        with closing(apsw.Connection(str(temporary))) as db:
            db.execute(_MIGRATIONS_TABLE)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # created by another process meanwhile
        except OSError:  # a file system without links: at least nobody else's database is replaced
            with suppress(FileExistsError), open(open_private(path, os.O_WRONLY | os.O_EXCL), "wb") as target:
                target.write(temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)


def _check_length(path: Path, page: int) -> None:
    """SQLite takes a page that was cut for one that ends in zeros, with fewer rows or other numbers, and an empty file
    for a new one. A page that is still in the log is not missing."""
    log = path.with_name(f"{path.name}-wal")
    if not path.stat().st_size:
        raise Damage(f"{path.name} is empty")
    if path.stat().st_size % page and not (log.exists() and log.stat().st_size):
        raise Damage("it was cut")


def _migrations_made(db: apsw.Connection) -> set[str]:
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall():
        return set()
    return {str(row[0]) for row in db.execute("SELECT name FROM migrations")}


def utc_now() -> datetime:
    return datetime.now(UTC)


def timestamp(moment: datetime | None = None) -> str:
    """Now, or the given moment, in UTC; these texts sort chronologically."""
    return (moment or utc_now()).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# --- tokens that answers saved ----------------------------------------------------------------------------------------


_SAVINGS_MIGRATIONS = {
    "savings": """CREATE TABLE IF NOT EXISTS savings(
    day TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT NULL, returned INTEGER NOT NULL, files INTEGER NOT NULL,
    PRIMARY KEY(day, tool)) WITHOUT ROWID"""  # versions before the first migration already created the table
}


class Tally(Struct, frozen=True):
    """Calls, the tokens they returned, and the tokens of the whole files they came from."""

    calls: int = 0
    returned: int = 0
    files: int = 0

    @property
    def saved(self) -> int:
        return max(self.files - self.returned, 0)

    def plus(self, other: Tally) -> Tally:
        return Tally(self.calls + other.calls, self.returned + other.returned, self.files + other.files)


class SavingsStore:
    """In a folder, or in what a team shares."""

    def __init__(self, place: Path | UserData) -> None:
        self._data: UserData = UserFile(place / "savings.db", _SAVINGS_MIGRATIONS) if isinstance(place, Path) else place

    @property
    def owner(self) -> int:
        """Whose calls are counted now."""
        return self._data.owner

    def add(self, tallies: Mapping[tuple[str, str], Tally], owner: int | None = None) -> None:
        with self._data.writing(owner) as db:
            for (day, tool), tally in tallies.items():
                counts = astuple(tally)
                update = """UPDATE savings SET calls = calls + ?, returned = returned + ?, files = files + ?
                            WHERE day = ? AND tool = ? RETURNING 1"""
                if not db.execute(update, *counts, day, tool):
                    insert = "INSERT INTO savings(day, tool, calls, returned, files) VALUES(?, ?, ?, ?, ?)"
                    db.execute(insert, day, tool, *counts)

    def since(self, day: str) -> Sequence[tuple[str, str, Tally]]:
        """Day, tool and tally from that day on, the latest first."""
        if not self._data.exists:
            return ()
        query = "SELECT day, tool, calls, returned, files FROM savings WHERE day >= ? ORDER BY day DESC, tool"
        with self._data.reading() as db:
            rows = db.execute(query, day)
        return [(str(row[0]), str(row[1]), Tally(*(int(count or 0) for count in row[2:]))) for row in rows]

    def close(self) -> None:
        self._data.close()


# --- the queue of folders to index ------------------------------------------------------------------------------------
#
# It outlives the process that works on it. A run is queued, running, done, failed or cancelled. A root waits at most
# once: asking again gives the run that waits.

KEPT = 200  # finished runs that are remembered
_QUEUE_MIGRATIONS = {
    "runs": """CREATE TABLE IF NOT EXISTS runs(
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL, complete INTEGER NOT NULL,
    state TEXT NOT NULL, created_at TEXT NOT NULL, started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
    error_code TEXT NOT NULL DEFAULT '')"""  # versions before the first migration already created the table
}
_RUN = "id, root, complete, state, created_at, started_at, finished_at, outcome, error, error_code"


class IngestStore:
    """In the data folder of the machine whose folders are indexed. A run's outcome is stored as JSON."""

    def __init__(self, folder: Path) -> None:
        self._data = UserFile(folder / "ingest.db", _QUEUE_MIGRATIONS)
        self._data.open()

    def close(self) -> None:
        self._data.close()

    # --- adding and looking ---

    def add(self, root: str, *, full: bool, most: int) -> str | None:
        """The id of this root's waiting run, or of a new one; None if `most` are already waiting."""
        with self._data.writing() as db:
            same = "WHERE root = ? AND complete = ? AND state IN ('queued', 'running') ORDER BY state, place LIMIT 1"
            for run in _select(db, same, root, int(full)):
                return run.id
            ((waiting,),) = db.execute("SELECT count(*) FROM runs WHERE state = 'queued'")
            if waiting >= most:
                return None
            identity = secrets.token_hex(8)
            insert = "INSERT INTO runs(id, root, complete, state, created_at) VALUES(?, ?, ?, 'queued', ?)"
            db.execute(insert, identity, root, int(full), timestamp())
            db.execute(
                """DELETE FROM runs WHERE state NOT IN ('queued', 'running')
                   AND place <= (SELECT max(place) FROM runs) - ?""",
                KEPT,
            )
            return identity

    def cancel_waiting(self, identity: str) -> bool:
        """Whether it was waiting and no longer is."""
        update = """UPDATE runs SET state = 'cancelled', finished_at = ? WHERE id = ? AND state = 'queued'
                    RETURNING id"""
        with self._data.writing() as db:
            return bool(db.execute(update, timestamp(), identity))

    def get(self, identity: str) -> IngestRun | None:
        with self._data.reading() as db:
            rows = _select(db, "WHERE id = ?", identity)
        return rows[0] if rows else None

    def waiting_runs(self) -> list[IngestRun]:
        """Running and queued, in order."""
        with self._data.reading() as db:
            return _select(db, "WHERE state IN ('queued', 'running') ORDER BY state DESC, place")

    def finished_runs(self, limit: int) -> list[IngestRun]:
        """The latest first."""
        where = "WHERE state NOT IN ('queued', 'running') ORDER BY finished_at DESC, place DESC LIMIT ?"
        with self._data.reading() as db:
            return _select(db, where, limit)

    # --- working ---

    def worker(self) -> AbstractContextManager[bool]:
        """The lock of the one process that works on the queue."""
        return self._data.lock("ingest.lock")

    def resume(self) -> None:
        """Runs that a dead process left running wait again, before all others."""
        with self._data.writing() as db:
            db.execute("UPDATE runs SET state = 'queued', started_at = '' WHERE state = 'running'")

    def take(self) -> IngestRun | None:
        """The next run, now running."""
        update = f"""UPDATE runs SET state = 'running', started_at = ? WHERE state = 'queued' AND id =
                     (SELECT id FROM runs WHERE state = 'queued' ORDER BY place LIMIT 1) RETURNING {_RUN}"""
        with self._data.writing() as db:
            rows = db.execute(update, timestamp())
        return _run(rows[0]) if rows else None

    def finish(
        self,
        identity: str,
        state: str,
        *,
        outcome: Mapping[str, Any] | None = None,
        error: str = "",
        error_code: str = "",
    ) -> None:
        """`outcome` holds fields of the run."""
        update = """UPDATE runs SET state = ?, finished_at = ?, outcome = ?, error = ?, error_code = ?
                    WHERE id = ? AND state IN ('queued', 'running')"""
        with self._data.writing() as db:
            db.execute(update, state, timestamp(), dumps(outcome) if outcome else "", error, error_code, identity)


def _select(db: Transaction, where: str, *values: Any) -> list[IngestRun]:
    return [_run(row) for row in db.execute(f"SELECT {_RUN} FROM runs {where}", *values)]


def _run(row: tuple[Any, ...]) -> IngestRun:
    stored = dict(zip(_RUN.replace("complete", "full").split(", "), row, strict=True))
    outcome = json.loads(stored.pop("outcome") or "{}")
    return convert({"position": 0, **stored, "full": bool(stored["full"]), **outcome}, IngestRun)
