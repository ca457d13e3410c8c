"""Several indexes as one: rarity and rank are computed over all of them, so that scores are comparable."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from codeinfo.cache import Cache
from codeinfo.ports import ChunkRow, Extent, Made, Posting, PostingList, Snapshot, StoredSymbol

Number = TypeVar("Number", bound=np.generic)

KEPT_JOINS = 2  # cached combinations per index


class Part(NamedTuple):
    """One of several indexes. `root` tells its files from those of the other parts."""

    root: str
    view: Snapshot


def join_parts(parts: Sequence[Part]) -> Joined:
    """The parts as one. What does not depend on a query is computed once for the same generations: it outlives the
    snapshots."""
    key = tuple((root, view.once("identity", object)) for root, view in parts)
    joins = parts[0].view.once("joined", lambda: Cache[Hashable, Joined](KEPT_JOINS, lambda _: 1))
    return joins.once(key, lambda: Joined(parts).over(())).over(parts)


class Joined:
    """A Snapshot over several. A path is relative to its own part: its worth does not depend on the others.

    Paths may therefore repeat; a file is identified by its position, or by its root and path.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        views = [view for _, view in parts]
        self._parts = parts
        self._first_row = [0, *accumulate(len(view.row_file) for view in views)]  # of each part, and of none
        self._first_file = [0, *accumulate(len(view.paths) for view in views)]
        self._derived: dict[Hashable, Any] = {}
        self._scanned: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None] = (None, None)
        self.generation = 0
        self.part_count = len(parts)
        self.complete = all(view.complete for view in views)
        self.roots: Sequence[str] = [root for root, view in parts for _ in view.paths]
        self.paths: Sequence[str] = [path for view in views for path in view.paths]
        self.languages: Sequence[str] = [language for view in views for language in view.languages]
        self.kinds: Sequence[str] = [kind for view in views for kind in view.kinds]
        self.row_file = _shift([view.row_file for view in views], self._first_file)
        self.file_first = _shift([view.file_first for view in views], self._first_row)
        self.file_rows = _shift([view.file_rows for view in views], [0] * len(views))
        self.row_length = np.concatenate([np.empty(0, np.float32), *(view.row_length for view in views)])

    def over(self, parts: Sequence[Part]) -> Joined:
        """The same over other snapshots of the same generations."""
        other = copy(self)
        other._parts, other._scanned = parts, (None, None)
        return other

    def part_of_row(self, row: int) -> int:
        return bisect_right(self._first_row, row) - 1

    def rows_of(self, root: str, path: str) -> range:
        file = self._file(root, path)
        return range(int(self.file_first[file]), int(self.file_first[file] + self.file_rows[file]))

    def row_of(self, root: str, path: str, lines: tuple[int, int]) -> int | None:
        """The row whose chunk has exactly these lines."""
        rows = self.rows_of(root, path)
        row_nearby = self.row_at(self._file(root, path), lines[0])
        # Chunks overlap by a few lines, so the one that begins here is a neighbour of one that contains the line.
        for row in sorted(rows, key=lambda row: abs(row - row_nearby)) if row_nearby is not None else rows:
            (chunk,) = self.chunks([row])
            if (chunk.start_line, chunk.end_line) == lines:
                return row
        return None

    def _file(self, root: str, path: str) -> int:
        places = zip(self.roots, self.paths, strict=True)
        return self.once("positions", lambda: {place: at for at, place in enumerate(places)})[root, path]

    # --- the port ---

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        if key not in self._derived:
            self._derived[key] = make()
        return cast(Made, self._derived[key])

    def postings(self, terms: Sequence[str], files: NDArray[np.integer] | None = None) -> Mapping[str, Posting]:
        parts = range(len(self._parts)) if files is None else self._find_parts(files)
        return self.read_lists(self._lists(terms, parts)) if self._parts else {}

    def count_rows(self, terms: Sequence[str], files: NDArray[np.integer]) -> Mapping[str, float]:
        first_row, parts, counts = self._first_row, self._find_parts(files), Counter[str]()
        for at in parts:
            counts.update(self._parts[at].view.count_rows(terms, files))
        share = sum(first_row[at + 1] - first_row[at] for at in parts) / max(first_row[-1], 1)
        return {term: count / share for term, count in counts.items()}

    def _find_parts(self, files: NDArray[np.integer]) -> list[int]:
        """The parts that have one of these files."""
        return sorted(set((np.searchsorted(self._first_file, files, side="right") - 1).tolist()))

    def _lists(self, terms: Sequence[str], parts: Iterable[int], first_row: int = 0) -> Iterator[PostingList]:
        for at in parts:
            yield from self._parts[at].view.posting_lists(terms, first_row + self._first_row[at])

    def posting_lists(self, terms: Sequence[str], first_row: int = 0) -> Iterator[PostingList]:
        return self._lists(terms, range(len(self._parts)), first_row)

    def read_lists(self, lists: Iterable[PostingList]) -> Mapping[str, Posting]:
        return self._parts[0].view.read_lists(lists)

    def cosines(
        self, query: NDArray[np.float32], rows: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32] | None:
        """Scanned once for a repeated query, which gets the same array."""
        if rows is not None:
            return self._cosines_of(query, rows)
        if query is not self._scanned[0]:
            self._scanned = (query, self._end_to_end([view.cosines(query) for view in self._views_with_rows()]))
        return self._scanned[1]

    def _cosines_of(self, query: NDArray[np.float32], rows: NDArray[np.integer]) -> NDArray[np.float32] | None:
        result = np.empty(len(rows), np.float32)
        for part, places in self._by_part(rows):
            cosines = self._parts[part].view.cosines(query, rows[places] - self._first_row[part])
            if cosines is None:
                return None
            result[places] = cosines
        return result

    def differing_signs(self, query: NDArray[np.float32]) -> NDArray[np.uint16] | None:
        return self._end_to_end([view.differing_signs(query) for view in self._views_with_rows()])

    def file_fingerprints(self) -> NDArray[np.uint64]:
        return np.concatenate([part.view.file_fingerprints() for part in self._parts])

    def _views_with_rows(self) -> list[Snapshot]:
        return [part.view for part in self._parts if len(part.view.row_file)]

    @staticmethod
    def _end_to_end(pieces: Sequence[NDArray[Number] | None]) -> NDArray[Number] | None:
        """None if a part has none."""
        whole = [piece for piece in pieces if piece is not None]
        return np.concatenate(whole) if whole and len(whole) == len(pieces) else None

    def vectors(self, rows: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        numbers = np.asarray(rows, np.int64)
        pieces = [
            (places, self._parts[part].view.vectors(numbers[places] - self._first_row[part]))
            for part, places in self._by_part(numbers)
        ]
        result = np.empty((len(rows), pieces[0][1].shape[1] if pieces else 0), np.float32)
        for places, values in pieces:
            result[places] = values
        return result

    def chunks(self, rows: Sequence[int]) -> list[ChunkRow]:
        by_place: dict[int, ChunkRow] = {}
        numbers = np.asarray(rows, np.int64)
        for part, places in self._by_part(numbers):
            chunks = self._parts[part].view.chunks((numbers[places] - self._first_row[part]).tolist())
            by_place.update(zip(places.tolist(), chunks, strict=True))
        return [by_place[at] for at in range(len(rows))]

    def row_at(self, file: int, line: int) -> int | None:
        part = bisect_right(self._first_file, file) - 1
        row = self._parts[part].view.row_at(file - self._first_file[part], line)
        return None if row is None else row + self._first_row[part]

    def extents(self, file: int, first: int, last: int) -> list[Extent]:
        part = bisect_right(self._first_file, file) - 1
        return self._parts[part].view.extents(file - self._first_file[part], first, last)

    def definitions(self, names: Sequence[str], first_file: int = 0) -> list[StoredSymbol]:
        parts = zip(self._parts, self._first_file, strict=False)
        return [symbol for part, first in parts for symbol in part.view.definitions(names, first_file + first)]

    def definition_names(self) -> str:
        names = (part.view.definition_names().split("\n") for part in self._parts)
        return "\n".join(dict.fromkeys(filter(None, chain.from_iterable(names))))

    def _by_part(self, rows: NDArray[np.integer]) -> list[tuple[int, NDArray[np.intp]]]:
        """The positions in `rows` that belong to each part that has any."""
        order = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows, self._first_row, sorter=order).tolist()
        return [(part, order[a:b]) for part, (a, b) in enumerate(pairwise(ends)) if a < b]


def _shift(columns: Sequence[NDArray[np.int32]], firsts: Sequence[int]) -> NDArray[np.int32]:
    shifted = (column + np.int32(first) for column, first in zip(columns, firsts, strict=False))
    return np.concatenate([np.empty(0, np.int32), *shifted])
