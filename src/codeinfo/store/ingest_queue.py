"""The queue of indexing runs, in one SQLite file in the user's data folder: it outlives the process that works on it.

A run is queued, running, done, failed or cancelled. A root waits at most once: asking again gives the run that waits.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from codeinfo.store.database import DATA, open_user_data, timestamp, transaction, translate_errors

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
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        with translate_errors(folder, DATA):
            self._db = open_user_data(folder / "ingest.db", _MIGRATIONS)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def resume(self) -> None:
        """Runs that a dead process left running wait again, before all others."""
        with self._writing() as db:
            db.execute("UPDATE runs SET state = 'queued', started_at = '' WHERE state = 'running'")

    def add(self, root: str, *, full: bool, most: int) -> tuple[IngestRow, bool] | None:
        """The run of this root that waits, or a new one, and whether it is new; None where `most` wait already."""
        with self._writing() as db:
            for row in self._select(db, "WHERE root = ? AND complete = ? AND state = 'queued'", root, int(full)):
                return row, False
            for row in self._select(db, "WHERE root = ? AND complete = ? AND state = 'running'", root, int(full)):
                return row, False
            if len(self._select(db, "WHERE state = 'queued'")) >= most:
                return None
            identity = secrets.token_hex(8)
            db.execute(
                "INSERT INTO runs(id, root, complete, state, created_at) VALUES(?, ?, ?, 'queued', ?)",
                (identity, root, int(full), timestamp()),
            )
            db.execute(
                """DELETE FROM runs WHERE state NOT IN ('queued', 'running')
                   AND place <= (SELECT max(place) FROM runs) - ?""",
                (KEPT,),
            )
            return self._select(db, "WHERE id = ?", identity)[0], True

    def take(self) -> IngestRow | None:
        """The run whose turn it is, now running."""
        with self._writing() as db:
            rows = self._select(db, "WHERE state = 'queued' ORDER BY place LIMIT 1")
            if not rows:
                return None
            db.execute("UPDATE runs SET state = 'running', started_at = ? WHERE id = ?", (timestamp(), rows[0].id))
            return self._select(db, "WHERE id = ?", rows[0].id)[0]

    def finish(self, identity: str, state: str, *, outcome: str = "", error: str = "", error_code: str = "") -> None:
        with self._writing() as db:
            db.execute(
                """UPDATE runs SET state = ?, finished_at = ?, outcome = ?, error = ?, error_code = ?
                   WHERE id = ? AND state IN ('queued', 'running')""",
                (state, timestamp(), outcome, error, error_code, identity),
            )

    def cancel_waiting(self, identity: str) -> bool:
        """Whether it waited and no longer does."""
        with self._writing() as db:
            db.execute(
                "UPDATE runs SET state = 'cancelled', finished_at = ? WHERE id = ? AND state = 'queued'",
                (timestamp(), identity),
            )
            return db.changes() > 0

    def get(self, identity: str) -> IngestRow | None:
        with self._lock, translate_errors(self._folder, DATA):
            rows = self._select(self._db, "WHERE id = ?", identity)
        return rows[0] if rows else None

    def waiting(self) -> list[IngestRow]:
        """Running and queued, in the order of their turns."""
        with self._lock, translate_errors(self._folder, DATA):
            return self._select(self._db, "WHERE state IN ('queued', 'running') ORDER BY state DESC, place")

    def finished(self, limit: int) -> list[IngestRow]:
        """The latest first."""
        where = "WHERE state NOT IN ('queued', 'running') ORDER BY finished_at DESC, place DESC LIMIT ?"
        with self._lock, translate_errors(self._folder, DATA):
            return self._select(self._db, where, limit)

    def _select(self, db: apsw.Connection, where: str, *values: Any) -> list[IngestRow]:
        rows = db.execute(f"SELECT {_COLUMNS} FROM runs {where}", values).fetchall()
        return [IngestRow(str(row[0]), str(row[1]), bool(row[2]), *map(str, row[3:])) for row in rows]

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._lock, translate_errors(self._folder, DATA), transaction(self._db):
            yield self._db
