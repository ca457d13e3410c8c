"""Segments: the immutable arrays behind keyword and vector search, built from a batch and merged when they pile up.

A posting list is a checksum, the ascending rows that contain a term, as uint32, and their weighted frequencies in
tenths, as uint16: six bytes a posting, decoded without a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

FREQUENCY_SCALE = 10  # weights are multiples of .1 or close to it
_BYTES_PER_POSTING = 6


class Damage(Exception):
    """Stored bytes that do not match their checksum or size: a flipped bit, a truncated file."""


class VectorsGone(Damage):
    """A vector file that the database lists is not there."""


def rows_checksum(*columns: bytes) -> int:
    total = 0
    for column in columns:
        total = crc32(column, total)
    return total


def encode_postings(rows: NDArray[np.uint32], frequencies: NDArray[np.uint16]) -> bytes:
    body = rows.tobytes() + frequencies.tobytes()
    return crc32(body).to_bytes(4, "little") + body


def decode_postings(data: bytes) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    count = (len(data) - 4) // _BYTES_PER_POSTING
    if crc32(memoryview(data)[4:]) != int.from_bytes(data[:4], "little"):
        raise Damage("a posting list fails its checksum")
    return np.frombuffer(data, np.uint32, count, offset=4), np.frombuffer(data, np.uint16, count, offset=4 + 4 * count)


@dataclass(slots=True)
class SegmentBuilder:
    """Collects the rows of one batch; `postings` then yields its terms in order."""

    chunk_ids: list[int] = field(default_factory=list)
    file_ids: list[int] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    _term_ids: dict[str, int] = field(default_factory=dict)
    _columns: list[int] = field(default_factory=list)
    _weights: list[float] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)

    def add(self, chunk_id: int, file_id: int, terms: Mapping[str, float], path_terms: Sequence[str]) -> None:
        self.chunk_ids.append(chunk_id)
        self.file_ids.append(file_id)
        self.lengths.append(sum(terms.values()))
        known = self._term_ids
        self._columns.extend([known.setdefault(term, len(known)) for term in terms])
        self._columns.extend([known.setdefault(term, len(known)) for term in path_terms])
        self._weights.extend(terms.values())
        self._weights.extend([1.0] * len(path_terms))
        self._counts.append(len(terms) + len(path_terms))

    def postings(self) -> Iterator[tuple[str, bytes]]:
        columns = np.array(self._columns, np.int32)
        rows = np.repeat(np.arange(len(self._counts), dtype=np.uint32), self._counts)
        scaled = np.rint(np.array(self._weights) * FREQUENCY_SCALE)
        frequencies = np.clip(scaled, 1, 65_535).astype(np.uint16)
        order = np.argsort(columns, kind="stable")
        rows, frequencies = rows[order], frequencies[order]
        starts = np.searchsorted(columns[order], np.arange(len(self._term_ids) + 1))
        for term in sorted(self._term_ids):
            column = self._term_ids[term]
            part = slice(starts[column], starts[column + 1])
            yield term, encode_postings(rows[part], frequencies[part])


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
    current, parts = "", list[tuple[NDArray[np.uint32], NDArray[np.uint16]]]()
    for term, at, data in heapq.merge(*streams, key=lambda item: item[:2]):
        if term != current:
            if parts:
                yield current, _join(parts)
            current, parts = term, []
        rows, frequencies = decode_postings(data)
        row_map = row_maps[at]
        if row_map is not None:
            moved = row_map[rows]
            keep = moved >= 0
            rows, frequencies = moved[keep].astype(np.uint32), frequencies[keep]
        if len(rows):
            parts.append((rows + np.uint32(offsets[at]), frequencies))
    if parts:
        yield current, _join(parts)


def _numbered(at: int, source: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, int, bytes]]:
    for term, data in source:
        yield term, at, data


def _join(parts: list[tuple[NDArray[np.uint32], NDArray[np.uint16]]]) -> bytes:
    if len(parts) == 1:
        return encode_postings(*parts[0])
    return encode_postings(np.concatenate([rows for rows, _ in parts]), np.concatenate([f for _, f in parts]))


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
