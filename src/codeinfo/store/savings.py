"""Tokens that answers saved their readers, by day and tool, in one small SQLite file or in a team's database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from codeinfo.store.user_data import UserData, UserFile

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
    """In a folder, or in what a team shares."""

    def __init__(self, place: Path | UserData) -> None:
        self._data: UserData = UserFile(place / "savings.db", _MIGRATIONS) if isinstance(place, Path) else place

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
