"""Several indexes seen as one: rarity and rank are those of all of them together, so that scores can be compared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import ChunkRow, Made, Posting, Snapshot, StoredSymbol


class Joined:
    """A Snapshot over `parts`, each under a label of its own, which leads its paths where there is more than one."""

    def __init__(self, parts: Sequence[tuple[str, Snapshot]]) -> None:
        self._views = [view for _, view in parts]
        self._prefixes = [f"{label}/" if len(parts) > 1 else "" for label, _ in parts]
        self._first_row = np.cumsum([0, *(len(view.row_file) for view in self._views)]).tolist()
        self._first_file = np.cumsum([0, *(len(view.paths) for view in self._views)]).tolist()
        self.generation = 0
        self.complete = all(view.complete for view in self._views)
        self.paths: Sequence[str] = [
            prefix + path for prefix, view in zip(self._prefixes, self._views, strict=True) for path in view.paths
        ]
        self.languages: Sequence[str] = [language for view in self._views for language in view.languages]
        self.kinds: Sequence[str] = [kind for view in self._views for kind in view.kinds]
        self.row_file = _shifted([view.row_file for view in self._views], self._first_file)
        self.file_first = _shifted([view.file_first for view in self._views], self._first_row)
        self.file_rows = _shifted([view.file_rows for view in self._views], [0] * len(self._views))
        self.row_length = np.concatenate([np.empty(0, np.float32), *(view.row_length for view in self._views)])
        self._scanned: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None] = (None, None)
        self._derived: dict[Hashable, Any] = {}
        self._position = {path: at for at, path in enumerate(self.paths)}

    def origin(self, path: str) -> tuple[int, str]:
        """The part that a path of this view belongs to, and its path there."""
        part = self._part(self._position[path], self._first_file)
        return part, path.removeprefix(self._prefixes[part])

    def rows_of(self, path: str) -> range:
        file = self._position[path]
        return range(int(self.file_first[file]), int(self.file_first[file] + self.file_rows[file]))

    def row_of(self, path: str, lines: tuple[int, int]) -> int | None:
        """The row whose chunk has exactly these lines."""
        rows = self.rows_of(path)
        near = self.row_at(self._position[path], lines[0])
        # Chunks overlap by a few lines, so the one that begins here is a neighbour of one that holds the line.
        for row in sorted(rows, key=lambda row: abs(row - near)) if near is not None else rows:
            (chunk,) = self.chunks([row])
            if (chunk.start_line, chunk.end_line) == lines:
                return row
        return None

    # --- the port ---

    def derived(self, key: Hashable, make: Callable[[], Made]) -> Made:
        if key not in self._derived:
            self._derived[key] = make()
        return cast(Made, self._derived[key])

    def postings(self, terms: Sequence[str]) -> Mapping[str, Posting]:
        found: dict[str, list[Posting]] = {}
        for view, first in zip(self._views, self._first_row, strict=False):
            for term, posting in view.postings(terms).items():
                found.setdefault(term, []).append(posting._replace(rows=posting.rows + np.int32(first)))
        return {term: Posting(*map(np.concatenate, zip(*parts, strict=True))) for term, parts in found.items()}

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Scanned once for a query that is asked again, as the same array."""
        if query is not self._scanned[0]:
            pieces = [view.cosines(query) for view in self._views if len(view.row_file)]
            whole = [piece for piece in pieces if piece is not None]
            self._scanned = (query, np.concatenate(whole) if whole and len(whole) == len(pieces) else None)
        return self._scanned[1]

    def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        places = [(part := self._part(row, self._first_row), row - self._first_row[part]) for row in rows]
        return np.concatenate([self._views[part].vectors([row]) for part, row in places])

    def chunks(self, rows: Sequence[int]) -> list[ChunkRow]:
        found: dict[int, ChunkRow] = {}
        for part, view in enumerate(self._views):
            first, last = self._first_row[part], self._first_row[part + 1]
            own = [row for row in rows if first <= row < last]
            for row, chunk in zip(own, view.chunks([row - first for row in own]), strict=True):
                found[row] = chunk._replace(path=self._prefixes[part] + chunk.path) if self._prefixes[part] else chunk
        return [found[row] for row in rows]

    def row_at(self, file: int, line: int) -> int | None:
        part = self._part(file, self._first_file)
        row = self._views[part].row_at(file - self._first_file[part], line)
        return None if row is None else row + int(self._first_row[part])

    def definitions(self, names: Sequence[str]) -> list[StoredSymbol]:
        return [
            replace(symbol, path=prefix + symbol.path)
            for prefix, view in zip(self._prefixes, self._views, strict=True)
            for symbol in view.definitions(names)
        ]

    def _part(self, number: int, firsts: list[int]) -> int:
        return int(np.searchsorted(firsts, number, side="right")) - 1


def _shifted(columns: Sequence[NDArray[np.int32]], firsts: Sequence[int]) -> NDArray[np.int32]:
    shifted = (column + np.int32(first) for column, first in zip(columns, firsts, strict=False))
    return np.concatenate([np.empty(0, np.int32), *shifted])
