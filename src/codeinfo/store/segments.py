"""Segments: the immutable arrays behind keyword and vector search, built from a batch and merged when they pile up.

A posting list is a checksum and the columns of a `Posting` one after the other: nine bytes a row, decoded without a
loop. All fields of a term lie in one list, so that a query reads one list a term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import IN_FOLDER, IN_STEM, Posting
from codeinfo.store.faults import Damage
from codeinfo.tokens import FOLDER_MARK, NAME_MARK, STEM_MARK, TYPE_MARK

_BYTES_PER_POSTING = 9
_MARK_LENGTH = len(STEM_MARK)
_TEXT, _TYPE, _NAME, _STEM, _FOLDER = range(5)
_FIELDS = {TYPE_MARK: _TYPE, NAME_MARK: _NAME, STEM_MARK: _STEM, FOLDER_MARK: _FOLDER}


def rows_checksum(*columns: bytes) -> int:
    total = 0
    for column in columns:
        total = crc32(column, total)
    return total


def encode_posting(posting: Posting) -> bytes:
    body = b"".join(column.tobytes() for column in posting)
    return crc32(body).to_bytes(4, "little") + body


def decode_posting(data: bytes) -> Posting:
    if crc32(memoryview(data)[4:]) != int.from_bytes(data[:4], "little"):
        raise Damage("a posting list fails its checksum")
    count = (len(data) - 4) // _BYTES_PER_POSTING
    return Posting(
        np.frombuffer(data, np.int32, count, 4),
        np.frombuffer(data, np.uint16, count, 4 + 4 * count),
        np.frombuffer(data, np.uint8, count, 4 + 6 * count),
        np.frombuffer(data, np.uint8, count, 4 + 7 * count),
        np.frombuffer(data, np.uint8, count, 4 + 8 * count),
    )


def moved_posting(posting: Posting, row_map: NDArray[np.int32] | None, first_row: int) -> Posting:
    """With rows renumbered and shifted; the dead are left out."""
    if row_map is not None:
        moved = row_map[posting.rows]
        posting = posting._replace(rows=moved).at(moved >= 0)
    return posting._replace(rows=posting.rows + np.int32(first_row)) if first_row else posting


def joined_posting(parts: Sequence[Posting]) -> Posting:
    return parts[0] if len(parts) == 1 else Posting(*map(np.concatenate, zip(*parts, strict=True)))


class SegmentBuilder:
    """Collects the rows of one batch; `postings` then yields its terms in order."""

    def __init__(self) -> None:
        self.chunk_ids: list[int] = []
        self.file_ids: list[int] = []
        self.lengths: list[float] = []
        self._marked: dict[str, int] = {}  # a term with the mark of its field → its number
        self._columns: list[int] = []
        self._weights: list[float] = []
        self._counts: list[int] = []

    def add(self, chunk_id: int, file_id: int, terms: Mapping[str, float], path_terms: Sequence[str]) -> None:
        self.chunk_ids.append(chunk_id)
        self.file_ids.append(file_id)
        self.lengths.append(sum(terms.values()))
        known = self._marked
        self._columns.extend([known.setdefault(term, len(known)) for term in terms])
        self._columns.extend([known.setdefault(term, len(known)) for term in path_terms])
        self._weights.extend(terms.values())
        self._weights.extend([1.0] * len(path_terms))
        self._counts.append(len(terms) + len(path_terms))

    def postings(self) -> Iterator[tuple[str, bytes]]:
        if not self._columns:
            return
        terms, term_of, field_of = self._unmarked()
        columns, weights = np.array(self._columns, np.int32), np.array(self._weights)
        rows = len(self._counts)
        keys = term_of[columns] * rows + np.repeat(np.arange(rows), self._counts)
        order = np.argsort(keys, kind="stable")
        keys, weights, fields = keys[order], weights[order], field_of[columns[order]]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))

        def total(field: int, scale: int, least: int, kind: type[np.uint8 | np.uint16]) -> NDArray[np.unsignedinteger]:
            own = fields == field
            sums = np.rint(np.add.reduceat(np.where(own, weights * scale, 0.0), starts))
            present = np.logical_or.reduceat(own, starts)
            return np.where(present, np.clip(sums, least, np.iinfo(kind).max), 0).astype(kind)

        path = total(_STEM, IN_STEM, 1, np.uint8) | total(_FOLDER, IN_FOLDER, 1, np.uint8)
        whole = Posting(
            (keys[starts] % rows).astype(np.int32),
            total(_TEXT, 10, 1, np.uint16),
            total(_TYPE, 1, 1, np.uint8),
            total(_NAME, 1, 1, np.uint8),
            path,
        )
        bounds = np.searchsorted(keys[starts] // rows, np.arange(len(terms) + 1)).tolist()
        for term in sorted(terms):
            at = terms[term]
            part = slice(bounds[at], bounds[at + 1])
            yield term, encode_posting(whole.at(part))

    def _unmarked(self) -> tuple[dict[str, int], NDArray[np.int64], NDArray[np.int8]]:
        """The terms without marks, and for each marked one its term and its field."""
        terms: dict[str, int] = {}
        term_of, field_of = [], []
        for marked in self._marked:
            field = _FIELDS.get(marked[:_MARK_LENGTH], _TEXT)
            bare = marked[_MARK_LENGTH:] if field else marked
            term_of.append(terms.setdefault(bare, len(terms)))
            field_of.append(field)
        return terms, np.array(term_of, np.int64), np.array(field_of, np.int8)


def live_row_map(file_ids: NDArray[np.int32], live_files: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Old row → new row with dead rows as −1, or None when every row lives. `live_files` is sorted."""
    if not len(file_ids):
        return None
    at = np.minimum(np.searchsorted(live_files, file_ids), max(len(live_files) - 1, 0))
    alive = live_files[at] == file_ids if len(live_files) else np.zeros(len(file_ids), bool)
    if alive.all():
        return None
    return np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)


def merge_postings(
    sources: Sequence[Iterable[tuple[str, bytes]]],
    row_maps: Sequence[NDArray[np.int32] | None],
    offsets: Sequence[int],
) -> Iterator[tuple[str, bytes]]:
    """One ordered stream of terms out of several, rows renumbered and the dead left out."""
    import heapq

    streams = [_numbered(at, source) for at, source in enumerate(sources)]
    current, parts = "", list[Posting]()
    for term, at, data in heapq.merge(*streams, key=lambda item: item[:2]):
        if term != current:
            if parts:
                yield current, encode_posting(joined_posting(parts))
            current, parts = term, []
        posting = moved_posting(decode_posting(data), row_maps[at], offsets[at])
        if len(posting.rows):
            parts.append(posting)
    if parts:
        yield current, encode_posting(joined_posting(parts))


def _numbered(at: int, source: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, int, bytes]]:
    for term, data in source:
        yield term, at, data


def segments_to_merge(row_counts: Mapping[int, int], live_counts: Mapping[int, int]) -> list[int]:
    """Which segments to fold into one: those of a crowded size class, and any that is mostly dead.

    Classes grow by the factor CROWD, so that each row is rewritten only about log(rows) times over an index's life.
    """
    wasted = [segment for segment, rows in row_counts.items() if live_counts[segment] * 2 < rows]
    classes: dict[int, list[int]] = {}
    for segment, rows in row_counts.items():
        size_class = 0
        while rows > CLASS_BASE * CROWD**size_class:
            size_class += 1
        classes.setdefault(size_class, []).append(segment)
    crowded = [segments for _, segments in sorted(classes.items()) if len(segments) >= CROWD]
    chosen = set(wasted).union(*crowded[:1]) if crowded else set(wasted)
    return sorted(chosen)


CLASS_BASE = 64  # rows: below this every segment counts as tiny
CROWD = 6
