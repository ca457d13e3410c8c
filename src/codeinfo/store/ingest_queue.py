"""The queue of indexing runs, in one SQLite file in the user's data folder or in a team's database: it outlives the
process that works on it.

A run is queued, running, done, failed or cancelled. A root waits at most once: asking again gives the run that waits.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct

from codeinfo.store.user_data import EVERYONE, Transaction, UserData, UserFile, timestamp

KEPT = 200  # finished runs that are remembered
_MIGRATIONS = {
    "runs": """CREATE TABLE IF NOT EXISTS runs(
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL, complete INTEGER NOT NULL,
    state TEXT NOT NULL, created_at TEXT NOT NULL, started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
    error_code TEXT NOT NULL DEFAULT '')"""  # versions before the first migration had made the table already
}
_COLUMNS = "id, root, complete, state, created_at, started_at, finished_at, outcome, error, error_code"
WAITING = ("queued", "running")


class IngestRow(Struct, frozen=True):
    """One run. `outcome` is JSON, written by the worker."""

    id: str
    root: str
    full: bool
    state: str
    created_at: str
    started_at: str = ""
    finished_at: str = ""
    outcome: str = ""
    error: str = ""
    error_code: str = ""


class IngestStore:
    """In a folder, or in what a team shares: there all see their own runs, and one server works on those of all."""

    def __init__(self, place: Path | UserData) -> None:
        self._data: UserData = UserFile(place / "ingest.db", _MIGRATIONS) if isinstance(place, Path) else place
        self._data.open()

    def close(self) -> None:
        self._data.close()

    # --- adding and looking ---

    def add(self, root: str, *, full: bool, most: int) -> tuple[IngestRow, bool] | None:
        """The run of this root that waits, or a new one, and whether it is new; None where `most` wait already."""
        with self._data.writing() as db:
            same = "WHERE root = ? AND complete = ? AND state IN ('queued', 'running') ORDER BY state, place LIMIT 1"
            for row in _select(db, same, root, int(full)):
                return row, False
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
            return _select(db, "WHERE id = ?", identity)[0], True

    def cancel_waiting(self, identity: str) -> bool:
        """Whether it waited and no longer does."""
        update = """UPDATE runs SET state = 'cancelled', finished_at = ? WHERE id = ? AND state = 'queued'
                    RETURNING id"""
        with self._data.writing() as db:
            return bool(db.execute(update, timestamp(), identity))

    def get(self, identity: str) -> IngestRow | None:
        with self._data.reading() as db:
            rows = _select(db, "WHERE id = ?", identity)
        return rows[0] if rows else None

    def waiting(self) -> list[IngestRow]:
        """Running and queued, in the order of their turns."""
        with self._data.reading() as db:
            return _select(db, "WHERE state IN ('queued', 'running') ORDER BY state DESC, place")

    def finished(self, limit: int) -> list[IngestRow]:
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
        with self._data.writing(EVERYONE) as db:
            db.execute("UPDATE runs SET state = 'queued', started_at = '' WHERE state = 'running'")

    def take(self) -> IngestRow | None:
        """The run whose turn it is, now running."""
        update = f"""UPDATE runs SET state = 'running', started_at = ? WHERE state = 'queued' AND id =
                     (SELECT id FROM runs WHERE state = 'queued' ORDER BY place LIMIT 1) RETURNING {_COLUMNS}"""
        with self._data.writing(EVERYONE) as db:
            rows = db.execute(update, timestamp())
        return _row(rows[0]) if rows else None

    def finish(self, identity: str, state: str, *, outcome: str = "", error: str = "", error_code: str = "") -> None:
        update = """UPDATE runs SET state = ?, finished_at = ?, outcome = ?, error = ?, error_code = ?
                    WHERE id = ? AND state IN ('queued', 'running')"""
        with self._data.writing(EVERYONE) as db:
            db.execute(update, state, timestamp(), outcome, error, error_code, identity)


def _select(db: Transaction, where: str, *values: Any) -> list[IngestRow]:
    return [_row(row) for row in db.execute(f"SELECT {_COLUMNS} FROM runs {where}", *values)]


def _row(row: tuple[Any, ...]) -> IngestRow:
    return IngestRow(str(row[0]), str(row[1]), bool(row[2]), *map(str, row[3:]))
