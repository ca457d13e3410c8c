"""A consistent view of one generation of a tree: arrays shared by every search, rows fetched inside one read
transaction. Segments hold the rows of a whole family; those of files that the tree does not have are left out."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import accumulate, compress, pairwise
from pathlib import Path
from typing import Any, cast

import apsw
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.cache import Cache, group_by_key
from codeinfo.model import FileKind
from codeinfo.ports import ChunkRow, Extent, Made, Posting, PostingList, StoredSymbol
from codeinfo.store import database
from codeinfo.store.segments import (
    VectorRows,
    check_vectors,
    count_rows,
    decode_lists,
    decode_posting,
    dequantize,
    live_row_map,
    numbers_of,
    pack_signs,
    places_among,
    read_signs,
    rows_checksum,
    run_starts,
    scales_of,
)

_ROWS_AT_ONCE = 512
_MAPPED_ROWS = 500_000  # 130 MB of vectors
_KEPT_BLOCKS = 300  # blocks of chunks, some 10 KB each: one question often leads to others about the same files
_KEPT_EXTENTS = 20_000  # definitions
_MIXER = np.uint64(0x9E37_79B9_7F4A_7C15)  # odd, without a pattern in its bits
_LONGEST = 1.5  # of a stored vector: they have length 1, so anything longer, infinity and NaN are damage


class Segment(Struct, frozen=True):
    """One loaded segment: where its live rows start, and how its own rows map onto them (None: one to one)."""

    id: int
    first_row: int
    live_rows: int
    row_map: NDArray[np.int32] | None
    vectors: VectorRows | None
    vector_file: Path


IN_TREE = "file_id IN (SELECT file_id FROM entries WHERE tree = ?)"


_ALL_FILES = "SELECT id, path, language, kind, 1 AS same FROM files WHERE skip = '' ORDER BY id"
_TREE_FILES = """SELECT e.file_id AS id, f.path AS path, f.language AS language, f.kind AS kind, e.path = f.path AS same
                 FROM entries e LEFT JOIN files f ON f.id = e.file_id
                 WHERE e.tree = ? AND coalesce(f.skip, '') = '' ORDER BY e.file_id"""


def _tree_files(db: apsw.Connection, tree: int) -> tuple[NDArray[np.int32], list[str], list[str], list[str]]:
    """Ids, paths, languages and kinds. Each column is fetched as one text, in half the time of rows."""
    files, of_tree = (_ALL_FILES, ()) if database.is_whole(db, tree) else (_TREE_FILES, (tree,))
    query = f"""SELECT coalesce(min(coalesce(same, 0)), 1), group_concat(id), group_concat(path, char(0)),
                group_concat(language, char(0)), group_concat(kind, char(0)) FROM ({files})"""
    all_same, ids, *texts = database.only_row(db, query, of_tree)
    if not all_same:
        raise database.Damage("a tree lists a file that is not there")
    if ids is None:
        return np.zeros(0, np.int32), [], [], []
    paths, languages, kinds = (text.split("\0") for text in texts)
    return np.fromstring(ids, np.int32, sep=","), paths, list(map(sys.intern, languages)), list(map(sys.intern, kinds))


def file_vectors(db: apsw.Connection, folder: Path, file_id: int) -> NDArray[np.float32] | None:
    query = "SELECT file_ids, row_count, vector_file, dimension FROM segments WHERE vector_file != ''"
    for owners, count, vector_file, dimension in list(db.execute(query)):
        rows = np.flatnonzero(np.frombuffer(owners, np.int32) == file_id)
        if len(rows):
            vectors = dequantize(VectorRows(folder / vector_file, count, dimension).take(rows))
            with np.errstate(invalid="ignore", over="ignore"):
                lengths = np.linalg.norm(vectors, axis=1)
            if _first_beyond(lengths, _LONGEST) is not None:
                raise database.Damage(f"{vector_file} contains a row that is not a unit vector")
            return vectors
    return None


def _first_beyond(values: NDArray[np.floating], limit: float) -> int | None:
    """The first value not within ±`limit`, including NaN. Two passes over one number per row: a search can afford
    that on every query, unlike checking every number of every vector."""
    if not len(values) or (values.max() <= limit and values.min() >= -limit):  # NaN fails both
        return None
    return int(np.flatnonzero(~(np.abs(values) <= limit))[0])


class SqliteSnapshot:
    """The Snapshot port over SQLite; valid while its read transaction is open. All else is about the generation, and
    shared by the snapshots of it."""

    part_count = 1

    def __init__(self, db: apsw.Connection, folder: Path, tree: int, version: database.Version, complete: bool) -> None:
        self._db, self._folder, self.tree = db, folder, tree
        self.version, self.generation, self.complete = version, version.generation, complete
        self._derived: dict[Hashable, Any] = {}  # what ranking computed from the columns
        self._blocks: Cache[int, list[database.ChunkFields]] = Cache(_KEPT_BLOCKS, lambda _: 1)
        self._extents: Cache[int, list[Extent]] = Cache(_KEPT_EXTENTS, len)  # by file
        self._file_ids, paths, languages, kinds = _tree_files(db, tree)  # ascending ids
        self.paths: Sequence[str] = paths
        self.languages: Sequence[str] = languages
        self.kinds: Sequence[str] = kinds
        self.segments: list[Segment] = []
        self._load_rows()

    def _load_rows(self) -> None:
        row_files: list[NDArray[np.int32]] = []
        lengths: list[NDArray[np.float32]] = []
        first_row = 0
        mapped = database.only_row(self._db, "SELECT coalesce(sum(row_count), 0) FROM segments")[0] <= _MAPPED_ROWS
        query = "SELECT id, row_count, file_ids, lengths, checksum, vector_file, dimension FROM segments ORDER BY id"
        for segment_id, count, owners, sizes, checksum, vector_file, dimension in self._db.execute(query):
            if rows_checksum(owners, sizes) != checksum:
                raise database.Damage(f"segment {segment_id} fails its checksum")
            places = places_among(self._file_ids, np.frombuffer(owners, np.int32, count))
            row_map, path = live_row_map(places), self._folder / vector_file
            alive = slice(None) if row_map is None else row_map >= 0
            row_files.append(places[alive])
            lengths.append(np.frombuffer(sizes, np.float32, count)[alive])
            vectors = VectorRows(path, count, dimension, mapped=mapped) if vector_file else None
            self.segments.append(Segment(segment_id, first_row, len(row_files[-1]), row_map, vectors, path))
            first_row += len(row_files[-1])
        self.row_file = np.concatenate(row_files) if row_files else np.zeros(0, np.int32)
        self.row_length = np.concatenate(lengths) if lengths else np.zeros(0, np.float32)
        starts = run_starts(self.row_file)
        self.file_first, self.file_rows = np.zeros((2, len(self.paths)), np.int32)
        self.file_first[self.row_file[starts]] = starts
        self.file_rows[self.row_file[starts]] = np.diff(starts, append=len(self.row_file))

    def within(self, db: apsw.Connection) -> SqliteSnapshot:
        """The same generation in another transaction."""
        snapshot = copy(self)
        snapshot._db = db
        return snapshot

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        if key not in self._derived:
            self._derived[key] = make()  # two threads may both compute it: the value is the same
        return cast(Made, self._derived[key])

    def postings(self, terms: Sequence[str], files: NDArray[np.integer] | None = None) -> Mapping[str, Posting]:
        return {} if files is not None and not len(files) else self.read_lists(self.posting_lists(terms))

    def count_rows(self, terms: Sequence[str], files: NDArray[np.integer]) -> Mapping[str, float]:
        counts = Counter[str]()
        for stored in self.posting_lists(terms) if len(files) else ():
            counts[stored.term] += count_rows(stored)
        return counts

    def posting_lists(self, terms: Sequence[str], first_row: int = 0) -> Iterator[PostingList]:
        terms_json = json.dumps(list(dict.fromkeys(terms)))
        for segment in self.segments:
            for term, data in self._db.execute(_POSTINGS, (terms_json, segment.id)):
                yield PostingList(term, data, segment.row_map, first_row + segment.first_row)

    def read_lists(self, lists: Iterable[PostingList]) -> Mapping[str, Posting]:
        by_term = group_by_key((stored.term, stored) for stored in lists)
        if not by_term:
            return {}
        whole, ends = decode_lists([stored for same_term in by_term.values() for stored in same_term])
        bounds = [0, *(ends[last - 1] for last in accumulate(map(len, by_term.values())))]
        spans = zip(by_term, pairwise(bounds), strict=True)
        return {term: whole.at(slice(start, end)) for term, (start, end) in spans if start < end}

    def cosines(
        self, query: NDArray[np.float32], rows: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32] | None:
        if not self._has_vectors():
            return None
        products = self._multiply_all(query) if rows is None else self._multiply_rows(query, rows)
        self._check_products(products, query, rows)
        return products

    def _multiply_all(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        result = np.empty(len(self.row_file), np.float32)
        for segment in self.segments:
            if segment.vectors is None:
                continue
            live = result[segment.first_row : segment.first_row + segment.live_rows]
            if segment.row_map is None:
                _multiply(segment.vectors.all(), query, live)
            else:
                products = np.empty(segment.vectors.shape[0], np.float32)
                _multiply(segment.vectors.all(), query, products)
                live[:] = products[segment.row_map >= 0]
        return result

    def _multiply_rows(self, query: NDArray[np.float32], rows: NDArray[np.integer]) -> NDArray[np.float32]:
        result = np.empty(len(rows), np.float32)
        for places, vectors, stored in self._locate_rows(rows):
            products = np.empty(len(stored), np.float32)
            for start in range(0, len(stored), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                _multiply(vectors.take(stored[part]), query, products[part])
            result[places] = products
        return result

    def _has_vectors(self) -> bool:
        return bool(self.segments) and all(s.vectors is not None for s in self.segments if s.live_rows)

    def differing_signs(self, query: NDArray[np.float32]) -> NDArray[np.uint16] | None:
        if not self._has_vectors():
            return None
        result = np.zeros(len(self.row_file), np.uint16)
        for stored, (query_signs,) in zip(self._signs(), pack_signs(query[None]), strict=True):
            result += np.bitwise_count(stored ^ query_signs)
        return result

    def file_fingerprints(self) -> NDArray[np.uint64]:
        result = np.zeros(len(self.file_rows), np.uint64)
        starts = np.sort(self.file_first[self.file_rows > 0])
        result[self.row_file[starts]] = np.bitwise_xor.reduceat(self._signs()[0], starts)
        for _ in range(2):  # otherwise the lowest would be files on one side of the first dimensions
            result = (result ^ result >> np.uint64(32)) * _MIXER
        return result

    def _signs(self) -> NDArray[np.uint64]:
        return self.once("signs", lambda: _signs_of(self.segments))

    def _check_products(
        self, products: NDArray[np.float32], query: NDArray[np.float32], rows: NDArray[np.integer] | None
    ) -> None:
        """One NaN in a vector file would otherwise spread to every score and leave an empty result."""
        length = float(np.linalg.norm(query))
        if not np.isfinite(length):
            raise ValueError("the query's vector is not finite")
        at = _first_beyond(products, _LONGEST * length)
        if at is not None:
            path = self.paths[int(self.row_file[at if rows is None else rows[at]])]
            raise database.BuildDamaged(self._folder, f"a vector of {path} is not a unit vector")

    def vectors(self, rows: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        located = self._locate_rows(np.asarray(rows, np.int64))
        pieces = [(places, dequantize(vectors.take(stored_rows))) for places, vectors, stored_rows in located]
        result = np.empty((len(rows), pieces[0][1].shape[1] if pieces else 0), np.float32)
        for places, piece in pieces:
            result[places] = piece
        return result

    def _locate_rows(
        self, rows: NDArray[np.integer]
    ) -> Iterator[tuple[slice | NDArray[np.intp], VectorRows, NDArray[np.integer]]]:
        """For each segment with some of `rows`: their positions there, its vectors, and which of those they are."""
        segments = self.segments
        if len(segments) == 1 and segments[0].row_map is None and segments[0].vectors is not None:
            yield slice(None), segments[0].vectors, rows  # the common case
            return
        owners = np.searchsorted([segment.first_row for segment in segments], rows, side="right") - 1
        for at in sorted(set(owners.tolist())):  # np.unique imports numpy.ma, which takes 20 ms
            places, segment = (owners == at).nonzero()[0], segments[at]
            stored_rows = rows[places] - segment.first_row
            if segment.row_map is not None:
                stored_rows = (segment.row_map >= 0).nonzero()[0].take(stored_rows)
            if segment.vectors is not None:
                yield places, segment.vectors, stored_rows

    def chunks(self, rows: Sequence[int]) -> list[ChunkRow]:
        if not rows:
            return []
        row_numbers = np.array(rows)
        files = self.row_file[row_numbers]
        places = (row_numbers - self.file_first[files]).tolist()
        ids = [(self._chunk_id(file, place), file) for file, place in zip(files.tolist(), places, strict=True)]
        blocks = self._read_blocks({database.block_of(chunk): file for chunk, file in ids})
        return [self._chunk(file, chunk, blocks.get(database.block_of(chunk), ())) for chunk, file in ids]

    def _read_blocks(self, files: Mapping[int, int]) -> dict[int, list[database.ChunkFields]]:
        """Blocks of chunks, each with its file."""
        cache = self._blocks
        blocks = {block: chunks for block in files if (chunks := cache.get(block)) is not None}
        missing = [block for block in files if block not in blocks]
        for row in self._db.execute(_BLOCKS, (json.dumps(missing),)) if missing else ():
            blocks[row[0]] = cache.add(row[0], database.read_block(self.paths[files[row[0]]], row))
        return blocks

    def _chunk(self, file: int, chunk: int, block: Sequence[database.ChunkFields]) -> ChunkRow:
        path, language, file_kind = self.paths[file], self.languages[file], self.kinds[file]
        place = chunk - database.block_of(chunk)
        if place >= len(block):
            raise database.Damage(f"a chunk of {path} is missing")
        return ChunkRow(chunk, path, language, file_kind, *block[place])

    def _chunk_id(self, file: int, place: int) -> int:
        return database.chunk_id(int(self._file_ids[file]), place)

    def row_at(self, file: int, line: int) -> int | None:
        first, end = self._chunk_id(file, 0), self._chunk_id(file, int(self.file_rows[file]))
        query = "SELECT id FROM chunks WHERE id >= ? AND id < ? AND start_line <= ? AND end_line >= ? ORDER BY id"
        blocks: list[Any] = self._db.execute(query, (first, end, line, line)).fetchall()
        for (block,) in blocks:
            chunks = self._read_blocks({block: file})[block]
            for place, (start_line, end_line, *_) in enumerate(chunks, block - first):
                if start_line <= line <= end_line:
                    return int(self.file_first[file]) + place
        return None

    def extents(self, file: int, first: int, last: int) -> list[Extent]:
        extents = self._extents.once(
            file, lambda: database.read_extents(self._db, int(self._file_ids[file]), 0, sys.maxsize)
        )
        return [extent for extent in extents if extent.start_line <= last and extent.end_line >= first]

    def definitions(self, names: Sequence[str], first_file: int = 0) -> list[StoredSymbol]:
        keys = list(dict.fromkeys(name.lower() for name in names))
        rows: list[Any] = self._db.execute(_DEFINITIONS, (json.dumps(keys),)).fetchall()
        file_ids = self._file_ids
        if not rows or not len(file_ids):
            return []
        owners, *columns = zip(*rows, strict=True)
        files = np.minimum(file_ids.searchsorted(np.array(owners, np.int32)), len(file_ids) - 1)
        symbols = list(map(StoredSymbol, (files + first_file).tolist(), *columns))
        here = (file_ids[files] == owners).tolist()  # others are in another tree
        return symbols if all(here) else list(compress(symbols, here))

    def definition_names(self) -> str:
        # By name, so that the order says nothing about how the index was built.
        query = "SELECT group_concat(name_key, char(10)) FROM definitions INDEXED BY definitions_by_name"
        if database.is_whole(self._db, self.tree):
            ((names,),) = self._db.execute(query)
        else:
            ((names,),) = self._db.execute(f"{query} WHERE +{IN_TREE}", (self.tree,))
        return names or ""


# Lists are passed as JSON: a statement for each of their lengths would have to be prepared again and again.
_POSTINGS = "SELECT term, data FROM json_each(?) CROSS JOIN postings ON segment = ? AND term = value"
_DEFINITIONS = """SELECT file_id, name, qualified, kind, start_line
                  FROM json_each(?) CROSS JOIN definitions ON name_key = value"""
_BLOCKS = "SELECT chunks.* FROM json_each(?) CROSS JOIN chunks ON chunks.id = value"


def _signs_of(segments: Sequence[Segment]) -> NDArray[np.uint64]:
    """The signs of all vectors, in the form of `pack_signs`."""
    packed = []
    for segment in segments:
        if segment.vectors is not None and segment.live_rows:
            signs = read_signs(segment.vector_file, *segment.vectors.shape)
            packed.append(signs if segment.row_map is None else signs[:, segment.row_map >= 0])
    return packed[0] if len(packed) == 1 else np.concatenate(packed, axis=1)


def _multiply(vectors: NDArray[np.int8], query: NDArray[np.float32], result: NDArray[np.float32]) -> None:
    """Every row with the query, some rows at a time: the converted values stay in the processor's cache."""
    buffer = np.empty((min(len(vectors), _ROWS_AT_ONCE), len(query)), np.float32)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part, numbers = slice(start, start + _ROWS_AT_ONCE), buffer[: len(vectors) - start]
        np.copyto(numbers, numbers_of(vectors[part]))
        np.dot(numbers, query, result[part])
    with np.errstate(invalid="ignore", over="ignore"):  # of a damaged scale: see `_check_products`
        result *= scales_of(vectors)


# --- whether an index is sound ---------------------------------------------------------------------------------------


def problem(db: apsw.Connection, folder: Path) -> str:
    """The first problem, or "". Everything is read once."""
    try:
        faults = [row[0] for row in db.execute("PRAGMA integrity_check(1)") if row[0] != "ok"]
        if faults:
            return str(faults[0])
        _check_tables(db)
        _check_trees(db)
        _check_files(db)
        _check_chunks(db)
        _check_segments(db, folder)
    except database.Damage as damage:
        return str(damage)
    except (apsw.Error, OSError) as error:
        return str(error)
    except database.READ_ERRORS as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _check_tables(db: apsw.Connection) -> None:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    model = apsw.Connection(":memory:")
    model.execute(database.schema())
    if list(db.execute(query)) != list(model.execute(query)):
        raise database.Damage("its tables were changed")
    model.close()


def _check_trees(db: apsw.Connection) -> None:
    for (tree,) in list(db.execute("SELECT id FROM trees")):
        database.load_meta(db, tree)
    query = """SELECT e.path FROM entries e LEFT JOIN files f ON f.id = e.file_id
               WHERE f.path IS NOT e.path OR e.tree NOT IN (SELECT id FROM trees)
               OR e.file_id IN (SELECT file_id FROM released)"""
    for (path,) in db.execute(query):
        raise database.Damage(f"what a tree lists as {path} is another file, or none")


def _check_files(db: apsw.Connection) -> None:
    for file_id, kind, *_ in db.execute("SELECT id, kind, * FROM files"):
        FileKind(kind)
        database.check_symbols(db, file_id)


def _check_chunks(db: apsw.Connection) -> None:
    blocks = 0
    for file_id, path, count in db.execute("SELECT id, path, chunk_count FROM files"):
        if len(database.read_chunks(db, file_id, path)) != count:
            raise database.Damage(f"{path} has lost chunks")
        blocks += -(-count // database.CHUNKS_PER_BLOCK)
    if database.only_row(db, "SELECT count(*) FROM chunks")[0] != blocks:
        raise database.Damage("there are chunks of no file")


def _check_segments(db: apsw.Connection, folder: Path) -> None:
    query = """SELECT id, row_count, file_ids, lengths, checksum, vector_file, dimension, vector_checksum
               FROM segments"""
    rows_of = {}
    for segment, count, owners, lengths, checksum, name, dimension, vector_checksum in db.execute(query):
        if rows_checksum(owners, lengths) != checksum or len(owners) != count * 4:
            raise database.Damage(f"segment {segment} fails its checksum")
        if name:
            check_vectors(VectorRows(folder / name, count, dimension).all(), name, vector_checksum)
        rows_of[segment] = count
    for segment, data in db.execute("SELECT segment, data FROM postings"):
        rows = decode_posting(data).rows
        if len(rows) and int(rows[-1]) >= rows_of[segment]:
            raise database.Damage(f"postings of segment {segment} have too many rows")
