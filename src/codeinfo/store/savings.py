"""Tokens that answers saved their readers, by day and tool, in one small SQLite file in the user's data folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import apsw
from msgspec import Struct
from msgspec.structs import astuple

from codeinfo.store.database import DATA, open_user_data, translate_errors

_MIGRATIONS = {
    "savings": """CREATE TABLE IF NOT EXISTS savings(
    day TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT NULL, returned INTEGER NOT NULL, files INTEGER NOT NULL,
    PRIMARY KEY(day, tool)) WITHOUT ROWID"""  # versions before the first migration had made the table already
}


class Tally(Struct, frozen=True):
    """Calls, the tokens they returned, and the tokens of the whole files that they took them from."""

    calls: int = 0
    returned: int = 0
    files: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(self.calls + other.calls, self.returned + other.returned, self.files + other.files)


class SavingsStore:
    """Opens the file for each use: it is used every few seconds at most, and by several processes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "savings.db"

    def add(self, tallies: Mapping[tuple[str, str], Tally]) -> None:
        with translate_errors(self._path.parent, DATA), self._opened() as db:
            db.executemany(
                """INSERT INTO savings VALUES(?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                       calls = calls + excluded.calls, returned = returned + excluded.returned,
                       files = files + excluded.files""",
                [(day, tool, *astuple(tally)) for (day, tool), tally in tallies.items()],
            )

    def since(self, day: str) -> Sequence[tuple[str, str, Tally]]:
        """Day, tool and tally from that day on, the latest first."""
        if not self._path.exists():
            return ()
        query = "SELECT day, tool, calls, returned, files FROM savings WHERE day >= ? ORDER BY day DESC, tool"
        with translate_errors(self._path.parent, DATA):
            rows = self._opened().execute(query, (day,)).fetchall()
        return [(str(row[0]), str(row[1]), Tally(*(int(count or 0) for count in row[2:]))) for row in rows]

    def _opened(self) -> apsw.Connection:
        """A connection is a transaction in a `with` block, and is closed when nothing refers to it any more."""
        return open_user_data(self._path, _MIGRATIONS)
