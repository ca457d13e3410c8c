"""Several indexes seen as one: rarity and rank are those of all of them together, so that scores can be compared."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from codeinfo.cache import Cache
from codeinfo.ports import ChunkRow, Extent, Made, Posting, Snapshot, StoredSymbol

KEPT_JOINS = 2  # of the combinations that one index is searched in


class Part(NamedTuple):
    """One index of several. `root` tells its files from those of the other parts."""

    root: str
    view: Snapshot


class Columns(Struct, frozen=True):
    """The columns of some snapshots end to end. They depend on the generations alone, so they outlive the snapshots."""

    roots: list[str]
    paths: list[str]
    languages: list[str]
    kinds: list[str]
    row_file: NDArray[np.int32]
    file_first: NDArray[np.int32]
    file_rows: NDArray[np.int32]
    row_length: NDArray[np.float32]
    first_row: list[int]  # of each part, and the number of all rows
    first_file: list[int]
    derived: dict[Hashable, Any] = field(default_factory=dict)


def joined_columns(parts: Sequence[Part]) -> Columns:
    views = [view for _, view in parts]
    first_row = [0, *accumulate(len(view.row_file) for view in views)]
    first_file = [0, *accumulate(len(view.paths) for view in views)]
    return Columns(
        roots=[root for root, view in parts for _ in view.paths],
        paths=[path for view in views for path in view.paths],
        languages=[language for view in views for language in view.languages],
        kinds=[kind for view in views for kind in view.kinds],
        row_file=_shifted([view.row_file for view in views], first_file),
        file_first=_shifted([view.file_first for view in views], first_row),
        file_rows=_shifted([view.file_rows for view in views], [0] * len(views)),
        row_length=np.concatenate([np.empty(0, np.float32), *(view.row_length for view in views)]),
        first_row=first_row,
        first_file=first_file,
    )


def joined(parts: Sequence[Part]) -> Joined:
    """The parts as one. What does not depend on a query is made once for the same generations of them."""
    key = tuple((root, view.derived("identity", object)) for root, view in parts)
    known = parts[0].view.derived("joined", lambda: Cache[Hashable, Columns](KEPT_JOINS, lambda _: 1))
    return Joined(parts, known.get(key) or known.add(key, joined_columns(parts)))


class Joined:
    """A Snapshot over several. A path is the one within its own part: what it is worth does not depend on the others.

    Paths may therefore repeat; a file is identified by its position, or by its root and path.
    """

    def __init__(self, parts: Sequence[Part], columns: Columns | None = None) -> None:
        """`columns` are those that were made of the same parts before."""
        self._parts = parts
        self._columns = columns = columns or joined_columns(parts)
        self.generation = 0
        self.complete = all(part.view.complete for part in parts)
        self.roots: Sequence[str] = columns.roots
        self.paths: Sequence[str] = columns.paths
        self.languages: Sequence[str] = columns.languages
        self.kinds: Sequence[str] = columns.kinds
        self.row_file = columns.row_file
        self.file_first = columns.file_first
        self.file_rows = columns.file_rows
        self.row_length = columns.row_length
        self._scanned: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None] = (None, None)

    def part_of_row(self, row: int) -> int:
        return bisect_right(self._columns.first_row, row) - 1

    def rows_of(self, root: str, path: str) -> range:
        file = self._file(root, path)
        return range(int(self.file_first[file]), int(self.file_first[file] + self.file_rows[file]))

    def row_of(self, root: str, path: str, lines: tuple[int, int]) -> int | None:
        """The row whose chunk has exactly these lines."""
        rows = self.rows_of(root, path)
        near = self.row_at(self._file(root, path), lines[0])
        # Chunks overlap by a few lines, so the one that begins here is a neighbour of one that holds the line.
        for row in sorted(rows, key=lambda row: abs(row - near)) if near is not None else rows:
            (chunk,) = self.chunks([row])
            if (chunk.start_line, chunk.end_line) == lines:
                return row
        return None

    def _file(self, root: str, path: str) -> int:
        places = zip(self.roots, self.paths, strict=True)
        return self.derived("positions", lambda: {place: at for at, place in enumerate(places)})[root, path]

    # --- the port ---

    def derived(self, key: Hashable, make: Callable[[], Made]) -> Made:
        known = self._columns.derived
        if key not in known:
            known[key] = make()
        return cast(Made, known[key])

    def postings(self, terms: Sequence[str]) -> Mapping[str, Posting]:
        found: dict[str, list[Posting]] = {}
        for part, first in zip(self._parts, self._columns.first_row, strict=False):
            for term, posting in part.view.postings(terms).items():
                found.setdefault(term, []).append(posting._replace(rows=posting.rows + np.int32(first)))
        return {term: Posting(*map(np.concatenate, zip(*parts, strict=True))) for term, parts in found.items()}

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Scanned once for a query that is asked again, as the same array."""
        if query is not self._scanned[0]:
            pieces = [part.view.cosines(query) for part in self._parts if len(part.view.row_file)]
            whole = [piece for piece in pieces if piece is not None]
            self._scanned = (query, np.concatenate(whole) if whole and len(whole) == len(pieces) else None)
        return self._scanned[1]

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        pieces: list[tuple[list[int], NDArray[np.float32]]] = []
        for part, places in self._by_part(rows):
            first = self._columns.first_row[part]
            pieces.append((places, self._parts[part].view.vectors([rows[at] - first for at in places])))
        result = np.empty((len(rows), pieces[0][1].shape[1] if pieces else 0), np.float32)
        for places, found in pieces:
            result[places] = found
        return result

    def chunks(self, rows: Sequence[int]) -> list[ChunkRow]:
        found: dict[int, ChunkRow] = {}
        for part, places in self._by_part(rows):
            first = self._columns.first_row[part]
            own = self._parts[part].view.chunks([rows[at] - first for at in places])
            found.update(zip(places, own, strict=True))
        return [found[at] for at in range(len(rows))]

    def row_at(self, file: int, line: int) -> int | None:
        part = bisect_right(self._columns.first_file, file) - 1
        row = self._parts[part].view.row_at(file - self._columns.first_file[part], line)
        return None if row is None else row + self._columns.first_row[part]

    def extents(self, file: int, first: int, last: int) -> list[Extent]:
        part = bisect_right(self._columns.first_file, file) - 1
        return self._parts[part].view.extents(file - self._columns.first_file[part], first, last)

    def definitions(self, names: Sequence[str]) -> list[StoredSymbol]:
        return [
            symbol._replace(file=first + symbol.file)
            for part, first in zip(self._parts, self._columns.first_file, strict=False)
            for symbol in part.view.definitions(names)
        ]

    def definition_names(self) -> str:
        return "\n".join(filter(None, (part.view.definition_names() for part in self._parts)))

    def _by_part(self, rows: Sequence[int]) -> list[tuple[int, list[int]]]:
        """The places in `rows` that belong to each part which has any."""
        places: dict[int, list[int]] = {}
        for at, row in enumerate(rows):
            places.setdefault(self.part_of_row(row), []).append(at)
        return list(places.items())


def _shifted(columns: Sequence[NDArray[np.int32]], firsts: Sequence[int]) -> NDArray[np.int32]:
    shifted = (column + np.int32(first) for column, first in zip(columns, firsts, strict=False))
    return np.concatenate([np.empty(0, np.int32), *shifted])
