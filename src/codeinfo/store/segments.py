"""Segments: the immutable arrays behind keyword and vector search, built from a batch of files, written, and merged
when there are too many. Writing runs inside the caller's transaction.

A posting list is a checksum, the columns of a `Posting` one after the other, and a byte for the encoding: plain in
short lists, in longer ones each column as narrow as its values allow, which is decoded without a loop. All fields of a
term are in one list, so that a query reads one list per term.
"""

from __future__ import annotations

import itertools
import mmap
import os
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.files import open_private, open_regular
from codeinfo.model import IndexedFile, SourceFile
from codeinfo.ports import IN_FOLDER, IN_STEM, Placed, Posting, PostingList, Retention
from codeinfo.search.channels import CommitIndex
from codeinfo.store import database
from codeinfo.store.layout import COMMITS_FILE
from codeinfo.tokens import FOLDER_MARK, NAME_MARK, STEM_MARK, TYPE_MARK

_PLAIN_BYTES = 9  # per row
_MERGED_AT_ONCE = 5000  # terms
_NARROW_FROM = 16  # rows: most terms have fewer, and inspecting their values would take longer than writing them
_PLAIN = 0x80
_ENDS = [bytes((form,)) for form in range(256)]
_NO_FIELDS, _ONE_BYTE, _THREE_BYTES = range(3)  # types, names and path of a row: none has any, packed, a byte each
_WIDTHS = (np.uint8, np.uint16, np.uint32)
_BYTES = (1, 2, 4)  # of these
_FIELD_BYTES = (0, 1, 3)
_MARK_LENGTH = len(STEM_MARK)
_TEXT, _TYPE, _NAME, _STEM, _FOLDER = range(5)
_FIELDS = {TYPE_MARK: _TYPE, NAME_MARK: _NAME, STEM_MARK: _STEM, FOLDER_MARK: _FOLDER}


def rows_checksum(*columns: bytes) -> int:
    total = 0
    for column in columns:
        total = crc32(column, total)
    return total


def encode_lists(whole: Posting, bounds: Sequence[int]) -> Iterator[bytes]:
    """Encode consecutive non-empty lists, from each bound to the next: short ones are slices of the bytes of all."""
    plain = [(column.tobytes(), column.itemsize) for column in whole]
    for start, end in itertools.pairwise(bounds):
        if end - start < _NARROW_FROM:
            body = b"".join([data[start * size : end * size] for data, size in plain]) + _ENDS[_PLAIN]
        else:
            body = _encode_narrow(whole.at(slice(start, end)))
        yield crc32(body).to_bytes(4, "little") + body


def _encode_narrow(posting: Posting) -> bytes:
    """The first row, the gap from each to the next, uses, and the fields, in one byte if they fit."""
    rows, tenths, types, names, path = posting
    steps = np.diff(rows, prepend=rows[:1])
    packed = types << 5 | names << 2 | path
    fields = _THREE_BYTES if (types | names).max() > 7 else _ONE_BYTE if packed.any() else _NO_FIELDS
    widths = [int(values.max() >= 1 << 8) + int(values.max() >= 1 << 16) for values in (steps, tenths)]
    narrow = [column.astype(_WIDTHS[width]) for column, width in zip((steps, tenths), widths, strict=True)]
    stored = ((), (packed,), (types, names, path))[fields]
    form = widths[0] | widths[1] << 2 | fields << 4
    return b"".join((rows[:1].tobytes(), *(column.tobytes() for column in (*narrow, *stored)), _ENDS[form]))


def _decode_narrow(data: bytes) -> Posting:
    form = data[-1]
    fields = form >> 4
    one_byte = np.dtype(np.uint8)
    kinds = [np.dtype(_WIDTHS[form & 3]), np.dtype(_WIDTHS[form >> 2 & 3]), *[one_byte] * _FIELD_BYTES[fields]]
    count, at = (len(data) - 9) // sum(kind.itemsize for kind in kinds), 8
    columns: list[NDArray[Any]] = []
    for kind in kinds:
        columns.append(np.frombuffer(data, kind, count, at))
        at += kind.itemsize * count
    steps, tenths, *rest = columns
    rows = np.cumsum(steps, dtype=np.int32)
    rows += np.frombuffer(data, np.int32, 1, 4)
    if fields == _ONE_BYTE:
        (packed,) = rest
        rest = [packed >> 5, packed >> 2 & 7, packed & 3]
    elif fields == _NO_FIELDS:
        rest = [np.zeros(count, np.uint8)] * 3
    return Posting(rows, tenths.astype(np.uint16), *rest)


def count_rows(stored: PostingList) -> int:
    data = stored.data
    form = data[-1]
    if stored.row_map is not None:
        return len(move_posting(decode_posting(data), stored.row_map, 0).rows)
    if form == _PLAIN:
        return (len(data) - 5) // _PLAIN_BYTES
    return (len(data) - 9) // (_BYTES[form & 3] + _BYTES[form >> 2 & 3] + _FIELD_BYTES[form >> 4])


def decode_posting(data: bytes) -> Posting:
    if crc32(memoryview(data)[4:]) != int.from_bytes(data[:4], "little"):
        raise database.Damage("a posting list fails its checksum")
    if data[-1] != _PLAIN:
        return _decode_narrow(data)
    count = (len(data) - 5) // _PLAIN_BYTES
    return Posting(
        np.frombuffer(data, np.int32, count, 4),
        np.frombuffer(data, np.uint16, count, 4 + 4 * count),
        np.frombuffer(data, np.uint8, count, 4 + 6 * count),
        np.frombuffer(data, np.uint8, count, 4 + 7 * count),
        np.frombuffer(data, np.uint8, count, 4 + 8 * count),
    )


def move_posting(posting: Posting, row_map: NDArray[np.int32] | None, first_row: int) -> Posting:
    """With rows renumbered and shifted; dead ones are left out."""
    if row_map is not None:
        moved = row_map[posting.rows]
        posting = posting._replace(rows=moved).at(moved >= 0)
    return posting._replace(rows=posting.rows + np.int32(first_row)) if first_row else posting


def decode_lists(lists: Sequence[PostingList]) -> tuple[Posting, list[int]]:
    """The lists end to end, and where each of them ends."""
    parts = [move_posting(decode_posting(stored.data), stored.row_map, stored.first_row) for stored in lists]
    ends = list(itertools.accumulate(len(part.rows) for part in parts))
    return parts[0] if len(parts) == 1 else Posting(*map(np.concatenate, zip(*parts, strict=True))), ends


class SegmentBuilder:
    """Collects the rows of one batch; `postings` then yields its terms in order."""

    def __init__(self) -> None:
        self.file_ids: list[int] = []
        self.lengths: list[float] = []
        self._marked = defaultdict[str, int](itertools.count().__next__)  # a term with its field's mark → its number
        self._columns: list[int] = []
        self._weights: list[float] = []
        self._counts: list[int] = []

    def add(self, file_id: int, terms: Mapping[str, float], path_terms: Sequence[str]) -> None:
        self.file_ids.append(file_id)
        self.lengths.append(sum(terms.values()))
        self._columns.extend(map(self._marked.__getitem__, terms))
        self._columns.extend(map(self._marked.__getitem__, path_terms))
        self._weights.extend(terms.values())
        self._weights.extend([1.0] * len(path_terms))
        self._counts.append(len(terms) + len(path_terms))

    def postings(self) -> Iterator[tuple[str, bytes]]:
        if not self._columns:
            return
        terms, term_of, field_of = self._strip_marks()
        columns, weights = np.array(self._columns, np.int32), np.array(self._weights)
        rows = len(self._counts)
        places = term_of[columns]
        # By term; rows are already in order. Two-byte numbers sort in a fifth of the time.
        order = np.lexsort(((places & 0xFFFF).astype(np.uint16), (places >> 16).astype(np.uint16)))
        keys = (places * rows + np.repeat(np.arange(rows), self._counts))[order]
        weights, fields = weights[order], field_of[columns[order]]
        starts = np.diff(keys, prepend=-1) != 0
        pairs, pair_of = keys[starts], np.cumsum(starts) - 1  # of a term and a row; of each entry

        def column(field: int, scale: int, kind: type[np.uint8 | np.uint16]) -> NDArray[np.unsignedinteger]:
            """A row has a term at most once in a field."""
            of_field, values = fields == field, np.zeros(len(pairs), kind)
            values[pair_of[of_field]] = np.clip(np.rint(weights[of_field] * scale), 1, np.iinfo(kind).max)
            return values

        path = column(_STEM, IN_STEM, np.uint8) | column(_FOLDER, IN_FOLDER, np.uint8)
        text, types, names = column(_TEXT, 10, np.uint16), column(_TYPE, 1, np.uint8), column(_NAME, 1, np.uint8)
        whole = Posting((pairs % rows).astype(np.int32), text, types, names, path)
        bounds = np.searchsorted(pairs // rows, np.arange(len(terms) + 1)).tolist()
        yield from zip(terms, encode_lists(whole, bounds), strict=True)

    def _strip_marks(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int8]]:
        """The terms without marks, in order, and for each marked one the position of its term and its field."""
        fields = [_FIELDS.get(marked[:_MARK_LENGTH], _TEXT) for marked in self._marked]
        bare = [marked[_MARK_LENGTH:] if field else marked for marked, field in zip(self._marked, fields, strict=True)]
        terms = sorted(set(bare))
        places = dict(zip(terms, itertools.count()))
        return terms, np.array([places[term] for term in bare], np.int64), np.array(fields, np.int8)


def run_starts(values: NDArray[np.int32]) -> NDArray[np.intp]:
    """Where neighbours differ, including the start: rows of one file are contiguous."""
    return np.diff(values, prepend=-1).nonzero()[0]


def places_among(live_files: NDArray[np.int32], file_ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each row's file, its position among the live ones, which are sorted; −1 if it is not one of them."""
    starts = run_starts(file_ids)
    files = file_ids[starts]
    places = live_files.searchsorted(files).astype(np.int32)
    places[live_files.take(places, mode="clip") != files if len(live_files) else slice(None)] = -1
    return places.repeat(np.diff(starts, append=len(file_ids)))


def live_row_map(places: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Old row → new row with dead rows as −1, or None if every row lives, by the positions of their files."""
    alive = places >= 0
    return None if alive.all() else np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)


def merge_postings(
    sources: Sequence[Iterable[tuple[str, bytes]]],
    row_maps: Sequence[NDArray[np.int32] | None],
    offsets: Sequence[int],
) -> Iterator[tuple[str, bytes]]:
    """One ordered stream of terms from several, rows renumbered and dead ones left out: many terms at a time, since
    most lists are so short that encoding them one by one would take longer."""
    import heapq

    streams = [_number_lists(at, source) for at, source in enumerate(sources)]
    by_term = itertools.groupby(heapq.merge(*streams), key=itemgetter(0))
    while batch := list(itertools.islice(((term, list(lists)) for term, lists in by_term), _MERGED_AT_ONCE)):
        lists = [PostingList(term, data, row_maps[at], offsets[at]) for _, parts in batch for term, at, data in parts]
        whole, ends = decode_lists(lists)
        alive, bounds = list[str](), [0]
        for term, end in {stored.term: end for stored, end in zip(lists, ends, strict=True)}.items():  # its last
            if end > bounds[-1]:
                alive.append(term)
                bounds.append(end)
        if alive:
            yield from zip(alive, encode_lists(whole, bounds), strict=True)


def _number_lists(at: int, source: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, int, bytes]]:
    for term, data in source:
        yield term, at, data


def segments_to_merge(row_counts: Mapping[int, int], live_counts: Mapping[int, int]) -> list[int]:
    """Which segments to merge: those of a crowded size class, and any that is mostly dead. Classes grow by the factor
    CROWD, so that each row is rewritten only about log(rows) times over an index's life."""
    wasted = [segment for segment, rows in row_counts.items() if live_counts[segment] * 2 < rows]
    classes: dict[int, list[int]] = {}
    for segment, rows in row_counts.items():
        size_class = 0
        while rows > CLASS_BASE * CROWD**size_class:
            size_class += 1
        classes.setdefault(size_class, []).append(segment)
    crowded = [segments for _, segments in sorted(classes.items()) if len(segments) >= CROWD]
    return sorted(set(wasted).union(*crowded[:1]))


CLASS_BASE = 64  # rows: below this every segment counts as tiny
CROWD = 6


class VectorFile(Struct, frozen=True):
    name: str
    dimension: int
    checksum: int


NO_VECTORS = VectorFile("", 0, 0)


_PACKED_AT_ONCE = 8192
_READ_ACROSS = 8  # rows: reading so many for nothing takes less time than another call


def quantize(vectors: NDArray[np.floating]) -> NDArray[np.int8]:
    """Unit vectors as they are stored: a row is its numbers in steps of 1/127 of the largest, then a float32 scale that
    makes its length 1 again. What `dequantize` returns is stored as the same bytes."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    numbers = np.rint(vectors * (127 / np.where(largest > 0, largest, 1))).astype(np.int8)
    numbers[(numbers == 0) & (vectors < 0)] = -1  # the sign is not lost
    lengths = np.linalg.norm(numbers.astype(np.float32), axis=1, keepdims=True)
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.concatenate((numbers, scales.view(np.int8)), axis=1)


def numbers_of(rows: NDArray[np.int8]) -> NDArray[np.int8]:
    return rows[:, : -database.SCALE_BYTES]


def scales_of(rows: NDArray[np.int8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows[:, -database.SCALE_BYTES :]).view(np.float32)[:, 0]


def dequantize(rows: NDArray[np.int8]) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore", over="ignore"):  # of a damaged scale, which callers notice
        return numbers_of(rows) * scales_of(rows)[:, None]


def write_vectors(folder: Path, blocks: Iterable[NDArray[np.int8]]) -> VectorFile:
    """Quantized vectors, block by block, since all of an index's at once would take its size in memory again."""
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        return NO_VECTORS
    name, checksum = f"vectors-{os.getpid()}-{os.urandom(6).hex()}.i8", 0
    try:
        with open(open_private(folder / name, os.O_WRONLY | os.O_EXCL), "wb") as sink:
            for block in blocks:
                data = np.ascontiguousarray(block).data.cast("B")
                checksum = crc32(data, checksum)
                sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
    except OSError:
        (folder / name).unlink(missing_ok=True)  # half a file would only keep a full disk full
        raise
    return VectorFile(name, blocks[0].shape[1] - database.SCALE_BYTES, checksum)


class VectorRows:
    """A vector file in the form of `quantize`. It stays readable after it was deleted; a file of the wrong size is
    damage, never read past its end.

    Usually it is mapped. From a very large index rows are read instead: the system maps the pages around each row as
    well, and what is mapped counts as memory of the process from then on.
    """

    def __init__(self, path: Path, rows: int, dimension: int, *, mapped: bool = True) -> None:
        self.shape = rows, dimension
        self._name = path.name
        self._mapped: NDArray[np.int8] | None = None
        if not rows:
            self._mapped = np.zeros((0, dimension + database.SCALE_BYTES), np.int8)
            return
        database.check_vector_file(path, rows, dimension)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise database.VectorsGone(f"{path.name} is missing") from error
        close = weakref.finalize(self, os.close, self._file)
        if mapped:
            self.all()
            close()

    def all(self) -> NDArray[np.int8]:
        if self._mapped is None:
            # Not numpy's class for mapped files, which runs Python code on every access to a row.
            mapped = mmap.mmap(self._file, database.vector_bytes(*self.shape), access=mmap.ACCESS_READ)
            self._mapped = np.frombuffer(mapped, np.int8).reshape(self.shape[0], -1)
        return self._mapped

    def take(self, rows: NDArray[np.integer]) -> NDArray[np.int8]:
        if self._mapped is not None:
            return self._mapped.take(rows, axis=0)
        rows, width = rows.astype(np.int64, copy=False), self.shape[1] + database.SCALE_BYTES
        gaps = np.diff(rows, prepend=rows[:1] - _READ_ACROSS - 1)
        starts = ((gaps < 1) | (gaps > _READ_ACROSS)).nonzero()[0]
        counts = np.diff(starts, append=len(rows))
        firsts = rows[starts]
        lengths = rows[starts + counts - 1] + 1 - firsts
        spans = zip((lengths * width).tolist(), (firsts * width).tolist(), strict=True)
        data = b"".join([os.pread(self._file, length, start) for length, start in spans])
        if len(data) != lengths.sum() * width:
            raise database.Damage(f"{self._name} is too short")
        places = rows + (lengths.cumsum() - lengths - firsts).repeat(counts)
        vectors: NDArray[np.int8] = np.frombuffer(data, np.int8).reshape(-1, width).take(places, axis=0)
        return vectors


def check_vectors(block: NDArray[np.int8], name: str, checksum: int) -> None:
    if crc32(block.data.cast("B")) != checksum:
        raise database.Damage(f"{name} fails its checksum")


def pack_signs(numbers: NDArray[np.int8] | NDArray[np.float32]) -> NDArray[np.uint64]:
    """64 of a row's signs in each line: faster to count than row by row."""
    bits = np.packbits(numbers >= 0, axis=1)
    if missing := -bits.shape[1] % 8:
        bits = np.pad(bits, ((0, 0), (0, missing)))
    return np.ascontiguousarray(np.ascontiguousarray(bits).view(np.uint64).T)


def read_signs(path: Path, rows: int, dimension: int) -> NDArray[np.uint64]:
    """The signs of a file's vectors, in the form of `pack_signs`. The file is read rather than mapped, since mapped
    pages would count as memory of the process from then on."""
    signs = np.empty((-(-dimension // 64), rows), np.uint64)
    with open(path, "rb") as source:
        for start in range(0, rows, _PACKED_AT_ONCE):
            count = min(_PACKED_AT_ONCE, rows - start)
            block = np.fromfile(source, np.int8, database.vector_bytes(count, dimension)).reshape(count, -1)
            signs[:, start : start + count] = pack_signs(numbers_of(block))
    return signs


# --- the files of a tree -------------------------------------------------------------------------------------------


def place_files(db: apsw.Connection, tree: int, placed: Placed, removed: Iterable[str]) -> None:
    """Put stored files into a tree, in place of those with the same paths, and remove others. A file that no tree has
    any more is released: `collect` decides how long it is kept."""
    now = int(time.time())
    for path in (*removed, *(source.path for source, _ in placed)):
        for (file_id,) in list(db.execute("SELECT file_id FROM entries WHERE tree = ? AND path = ?", (tree, path))):
            db.execute("DELETE FROM entries WHERE tree = ? AND path = ?", (tree, path))
            _release(db, [file_id], now)
    rows = ((tree, source.path, file_id, source.size, source.mtime_ns) for source, file_id in placed)
    db.executemany("INSERT INTO entries VALUES(?, ?, ?, ?, ?)", rows)
    db.executemany("DELETE FROM released WHERE file_id = ?", ((file_id,) for _, file_id in placed))


def _release(db: apsw.Connection, file_ids: Iterable[int], now: int) -> None:
    orphan = "INSERT OR REPLACE INTO released SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM entries WHERE file_id = ?1)"
    db.executemany(orphan, ((file_id, now) for file_id in file_ids))


def insert_files(db: apsw.Connection, folder: Path, files: Iterable[IndexedFile]) -> Placed:
    """Store files as a segment. Each is written when it comes, and need not stay in memory."""
    builder, placed, vectors = SegmentBuilder(), list[tuple[SourceFile, int]](), list[NDArray[np.int8]]()
    for file in files:
        placed.append((file.source, _insert_file(db, file, builder)))
        if file.vectors is not None:
            vectors.append(quantize(file.vectors))
    if builder.file_ids:
        owners, lengths = np.array(builder.file_ids, np.int32), np.array(builder.lengths, np.float32)
        written = write_vectors(folder, vectors)
        segment = _insert_segment(db, len(owners), owners.tobytes(), lengths.tobytes(), written)
        _insert_postings(db, segment, builder.postings())
    return placed


def drop_tree(db: apsw.Connection, name: str) -> None:
    for (tree,) in list(db.execute("SELECT id FROM trees WHERE name = ?", (name,))):
        file_ids = [row[0] for row in db.execute("SELECT file_id FROM entries WHERE tree = ?", (tree,))]
        for table, column in (("entries", "tree"), ("meta", "tree"), ("trees", "id")):
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (tree,))
        _release(db, file_ids, int(time.time()))


_VERSIONS_KEPT = 3  # of one path: a file being edited leaves one with each save


def collect(db: apsw.Connection, keep: Retention) -> None:
    """Delete released files, the oldest first: too old, too many for a path, or beyond a share of what is in use."""
    query = """SELECT r.file_id, r.at, f.chunk_count,
               row_number() OVER (PARTITION BY f.path ORDER BY r.at DESC, r.file_id DESC)
               FROM released r LEFT JOIN files f ON f.id = r.file_id ORDER BY r.at DESC, r.file_id DESC"""
    released: list[Any] = db.execute(query).fetchall()
    if not released:
        return
    stored = database.only_row(db, "SELECT total(row_count) FROM segments")[0]
    room = keep.share * (stored - sum(chunks or 0 for _, _, chunks, _ in released))
    oldest = time.time() - keep.days * 86_400
    expired = []
    for file_id, at, chunks, version in released:
        room -= chunks or 0
        if room < 0 or at <= oldest or version > _VERSIONS_KEPT:
            expired.append((file_id,))
    db.executemany("DELETE FROM files WHERE id = ?", expired)
    for table in ("released", "uses", "definitions", "imports"):
        db.executemany(f"DELETE FROM {table} WHERE file_id = ?", expired)
    spans = ((database.chunk_id(file_id, 0), database.chunk_id(file_id + 1, 0)) for (file_id,) in expired)
    db.executemany("DELETE FROM chunks WHERE id >= ? AND id < ?", spans)


def _insert_file(db: apsw.Connection, file: IndexedFile, builder: SegmentBuilder) -> int:
    """Returns its id, by which a tree can have it."""
    source, parsed = file.source, file.parsed
    definitions = list(database.definition_rows(parsed.definitions))
    imports = list(database.import_rows(parsed.imports))
    db.execute(
        """INSERT INTO files(path, sha256, language, kind, chunk_count, notes, skip, brought_back, checksum)
           VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            source.path,
            file.sha256,
            file.language,
            str(file.kind),
            len(parsed.chunks),
            "\n".join((*file.notes, *parsed.notes)),
            file.skip,
            int(file.brought_back),
            database.symbols_checksum(definitions, imports, file.references),
        ),
    )
    file_id = db.last_insert_rowid()
    if file.references:
        db.execute("INSERT INTO uses VALUES(?, ?)", (file_id, file.references))
    db.executemany("INSERT INTO chunks VALUES(?, ?, ?, ?)", database.chunk_blocks(file_id, source.path, parsed.chunks))
    for terms in parsed.terms:
        builder.add(file_id, terms, file.path_terms)
    insert = "INSERT INTO definitions VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
    db.executemany(insert, ((file_id, *row) for row in definitions))
    db.executemany("INSERT INTO imports VALUES(?,?,?,?,?,?,?)", ((file_id, *row) for row in imports))
    return file_id


def _insert_postings(db: apsw.Connection, segment: int, postings: Iterable[tuple[str, bytes]]) -> None:
    db.executemany("INSERT INTO postings VALUES(?, ?, ?)", ((segment, term, data) for term, data in postings))


def _insert_segment(db: apsw.Connection, rows: int, file_ids: bytes, lengths: bytes, vectors: VectorFile) -> int:
    checksum = rows_checksum(file_ids, lengths)
    db.execute(
        """INSERT INTO segments(row_count, file_ids, lengths, checksum, vector_file, dimension, vector_checksum)
           VALUES(?, ?, ?, ?, ?, ?, ?)""",
        (rows, file_ids, lengths, checksum, vectors.name, vectors.dimension, vectors.checksum),
    )
    return int(db.last_insert_rowid())


class Merge(Struct, frozen=True):
    """Segments to merge, each with the map of its rows and how many of them are alive."""

    segments: list[int]
    maps: Mapping[int, NDArray[np.int32] | None]
    alive: Mapping[int, int]

    def vectors(self, db: apsw.Connection, folder: Path) -> list[NDArray[np.int8]]:
        parts = []
        for segment in self.segments:
            query = "SELECT row_count, vector_file, dimension, vector_checksum FROM segments WHERE id = ?"
            count, vector_file, dimension, checksum = database.only_row(db, query, (segment,))
            if not vector_file:
                return []
            row_map = self.maps[segment]
            block = VectorRows(folder / vector_file, count, dimension).all()
            check_vectors(block, vector_file, checksum)  # the merged file gets a new checksum, which would hide damage
            parts.append(block if row_map is None else block[row_map >= 0])
        return parts


def plan_merge(db: apsw.Connection) -> Merge | None:
    # One long text instead of a row per file: five times as fast, and after one edit this is much of the work.
    ids = database.only_row(db, "SELECT group_concat(id) FROM files")[0] or ""
    live = np.sort(np.fromstring(ids, np.int32, sep=",")) if ids else np.zeros(0, np.int32)
    shapes, maps = {}, {}
    for segment, count, owners in db.execute("SELECT id, row_count, file_ids FROM segments ORDER BY id"):
        shapes[segment] = count
        maps[segment] = live_row_map(places_among(live, np.frombuffer(owners, np.int32, count)))
    alive = {s: shapes[s] if (m := maps[s]) is None else int((m >= 0).sum()) for s in shapes}
    crowd = segments_to_merge(shapes, alive)
    return Merge(crowd, maps, alive) if crowd else None


def merge_segments(db: apsw.Connection, plan: Merge, vectors: VectorFile) -> None:
    if any(plan.alive[segment] for segment in plan.segments):  # those of edited files are often entirely dead
        _insert_merged(db, plan, vectors)
    for segment in plan.segments:
        db.execute("DELETE FROM postings WHERE segment = ?", (segment,))
        db.execute("DELETE FROM segments WHERE id = ?", (segment,))


def _insert_merged(db: apsw.Connection, plan: Merge, vectors: VectorFile) -> None:
    segments, maps, alive = plan.segments, plan.maps, plan.alive
    columns: tuple[list[bytes], list[bytes]] = ([], [])
    for segment in segments:
        row = database.only_row(db, "SELECT file_ids, lengths FROM segments WHERE id = ?", (segment,))
        row_map = maps[segment]
        kinds: tuple[type[Any], ...] = (np.int32, np.float32)
        for column, data, kind in zip(columns, row, kinds, strict=True):
            values = np.frombuffer(data, kind)
            column.append((values if row_map is None else values[row_map >= 0]).tobytes())
    file_ids, lengths = (b"".join(column) for column in columns)
    merged = _insert_segment(db, sum(alive[s] for s in segments), file_ids, lengths, vectors)
    offsets = np.cumsum([0, *(alive[s] for s in segments)]).tolist()
    query = "SELECT term, data FROM postings WHERE segment = ? ORDER BY term"
    sources = [db.execute(query, (segment,)) for segment in segments]
    _insert_postings(db, merged, merge_postings(sources, [maps[s] for s in segments], offsets))


# --- the commit index: one file beside the builds, replaced as a whole, rebuilt from git if lost ----------------------


def save_commits(folder: Path, index: CommitIndex) -> None:
    partial = folder / f".{COMMITS_FILE}-{os.urandom(4).hex()}"
    columns = index._asdict() | {
        "head": _pack([index.head]),
        "ids": np.frombuffer(bytes.fromhex("".join(index.ids)), np.uint8),
        "vocabulary": _pack(index.vocabulary),
        "paths": _pack(index.paths),
    }
    try:
        with open(open_private(partial, os.O_WRONLY | os.O_EXCL), "wb") as sink:
            np.savez(sink, **columns)
        os.replace(partial, folder / COMMITS_FILE)
    finally:
        partial.unlink(missing_ok=True)


def load_commits(folder: Path) -> CommitIndex | None:
    """None if there is none, or one that cannot be read: the zip format checks every column."""
    import zipfile  # imported late: a folder outside git has no commits

    try:
        with open(open_regular(folder / COMMITS_FILE), "rb") as source, np.load(source, allow_pickle=False) as stored:
            columns = {name: stored[name] for name in stored.files}
        count = len(columns["indexed"])
        ids = columns["ids"].reshape(count, -1) if count else ()
        return CommitIndex(
            **columns
            | {
                "head": _unpack(columns["head"])[0],
                "ids": [commit.tobytes().hex() for commit in ids],
                "vocabulary": {term: at for at, term in enumerate(_unpack(columns["vocabulary"]))},
                "paths": _unpack(columns["paths"]),
            }
        )
    # EOFError: an empty file. RuntimeError: flipped bits say that it is encrypted, or of a later version.
    except (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile):
        return None


def _pack(texts: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\0".join(texts).encode("utf-8", "surrogateescape"), np.uint8)  # neither has a NUL


def _unpack(column: NDArray[np.uint8]) -> list[str]:
    text = column.tobytes().decode("utf-8", "surrogateescape")
    return text.split("\0") if text else []
