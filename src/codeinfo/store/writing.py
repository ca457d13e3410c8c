"""Statements that write: files with all they have, segments, and merges of segments. Each runs inside a transaction."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import apsw
import numpy as np
from numpy.typing import NDArray

from codeinfo.model import IndexedFile
from codeinfo.private_files import open_private
from codeinfo.store.connections import one
from codeinfo.store.rows import chunk_row, definition_rows, import_rows, symbols_checksum
from codeinfo.store.segments import SegmentBuilder, live_row_map, merge_postings, rows_checksum, segments_to_merge
from codeinfo.store.snapshot import check_vectors, map_vectors


class VectorFile(NamedTuple):
    name: str
    dimension: int
    checksum: int


NO_VECTORS = VectorFile("", 0, 0)


def write_vectors(folder: Path, blocks: Iterable[NDArray[np.float32]]) -> VectorFile:
    """Block after block, since all of an index's vectors at once would take its size in memory again."""
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        return NO_VECTORS
    name, checksum = f"vectors-{os.getpid()}-{os.urandom(6).hex()}.f32", 0
    try:
        with open(open_private(folder / name, os.O_WRONLY | os.O_EXCL), "wb") as sink:
            for block in blocks:
                data = np.ascontiguousarray(block, np.float32).data.cast("B")
                checksum = crc32(data, checksum)
                sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
    except OSError:
        (folder / name).unlink(missing_ok=True)  # half a file would only keep a full disk full
        raise
    return VectorFile(name, blocks[0].shape[1], checksum)


def remove_files(db: apsw.Connection, paths: Iterable[str]) -> None:
    for path in paths:
        _remove_file(db, path)


def insert_files(db: apsw.Connection, files: Sequence[IndexedFile], vectors: VectorFile) -> None:
    if files:
        builder = SegmentBuilder()
        for file in files:
            _insert_file(db, file, builder)
        _insert_segment(db, builder, vectors)


def _remove_file(db: apsw.Connection, path: str) -> None:
    for (file_id,) in list(db.execute("SELECT id FROM files WHERE path = ?", (path,))):
        for table, column in (
            ("files", "id"),
            ("chunks", "file_id"),
            ("definitions", "file_id"),
            ("imports", "file_id"),
        ):
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (file_id,))


def _insert_file(db: apsw.Connection, file: IndexedFile, builder: SegmentBuilder) -> None:
    source, parsed = file.source, file.parsed
    definitions, imports = list(definition_rows(parsed.definitions)), list(import_rows(parsed.imports))
    db.execute(
        """INSERT INTO files(path, size, mtime_ns, sha256, language, kind, chunk_count, notes, skip, uses, checksum)
           VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            source.path,
            source.size,
            source.mtime_ns,
            file.sha256,
            file.language,
            str(file.kind),
            len(parsed.chunks),
            "\n".join((*file.notes, *parsed.notes)),
            file.skip,
            file.references,
            symbols_checksum(definitions, imports, file.references),
        ),
    )
    file_id = db.last_insert_rowid()
    insert = """INSERT INTO chunks(file_id, start_line, end_line, kind, symbol, breadcrumb, text, checksum)
                VALUES(?, ?, ?, ?, ?, ?, ?, ?)"""
    db.executemany(insert, (chunk_row(file_id, source.path, chunk) for chunk in parsed.chunks))
    first_chunk = db.last_insert_rowid() - len(parsed.chunks) + 1
    for at, terms in enumerate(parsed.terms):
        builder.add(first_chunk + at, file_id, terms, file.path_terms)
    insert = "INSERT INTO definitions VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
    db.executemany(insert, ((file_id, *row) for row in definitions))
    db.executemany("INSERT INTO imports VALUES(?,?,?,?,?,?,?)", ((file_id, *row) for row in imports))


def _insert_segment(db: apsw.Connection, builder: SegmentBuilder, vectors: VectorFile) -> None:
    if not builder.chunk_ids:
        return
    segment = _insert_segment_row(
        db,
        len(builder.chunk_ids),
        np.array(builder.chunk_ids, np.int64).tobytes(),
        np.array(builder.file_ids, np.int32).tobytes(),
        np.array(builder.lengths, np.float32).tobytes(),
        vectors,
    )
    db.executemany("INSERT INTO postings VALUES(?, ?, ?)", ((segment, term, data) for term, data in builder.postings()))


def _insert_segment_row(
    db: apsw.Connection, rows: int, chunk_ids: bytes, file_ids: bytes, lengths: bytes, vectors: VectorFile
) -> int:
    checksum = rows_checksum(chunk_ids, file_ids, lengths)
    db.execute(
        """INSERT INTO segments(row_count, chunk_ids, file_ids, lengths, checksum, vector_file, dimension,
           vector_checksum) VALUES(?, ?, ?, ?, ?, ?, ?, ?)""",
        (rows, chunk_ids, file_ids, lengths, checksum, vectors.name, vectors.dimension, vectors.checksum),
    )
    return int(db.last_insert_rowid())


class Merge(NamedTuple):
    """Segments to fold into one, each with the map of its rows and how many of them are alive."""

    chosen: list[int]
    maps: Mapping[int, NDArray[np.int32] | None]
    alive: Mapping[int, int]

    def vectors(self, db: apsw.Connection, folder: Path) -> list[NDArray[np.float32]]:
        parts = []
        for segment in self.chosen:
            query = "SELECT row_count, vector_file, dimension, vector_checksum FROM segments WHERE id = ?"
            count, vector_file, dimension, checksum = one(db, query, (segment,))
            if not vector_file:
                return []
            row_map = self.maps[segment]
            block = map_vectors(folder / vector_file, count, dimension)
            check_vectors(block, vector_file, checksum)  # the merged file gets a new checksum, which would hide damage
            parts.append(block if row_map is None else block[row_map >= 0])
        return parts


def planned_merge(db: apsw.Connection) -> Merge | None:
    # One long text instead of a row a file: five times as quick, and after one edit this is much of the work.
    listed = one(db, "SELECT group_concat(id) FROM files")[0] or ""
    live = np.sort(np.fromstring(listed, np.int32, sep=",")) if listed else np.zeros(0, np.int32)
    shapes, maps = {}, {}
    for segment, count, owners in db.execute("SELECT id, row_count, file_ids FROM segments ORDER BY id"):
        shapes[segment] = count
        maps[segment] = live_row_map(np.frombuffer(owners, np.int32, count), live)
    alive = {s: shapes[s] if (m := maps[s]) is None else int((m >= 0).sum()) for s in shapes}
    chosen = segments_to_merge(shapes, alive)
    return Merge(chosen, maps, alive) if chosen else None


def merge_segments(db: apsw.Connection, plan: Merge, vectors: VectorFile) -> None:
    if any(plan.alive[segment] for segment in plan.chosen):  # those of edited files are often dead altogether
        _insert_merged(db, plan, vectors)
    for segment in plan.chosen:
        db.execute("DELETE FROM postings WHERE segment = ?", (segment,))
        db.execute("DELETE FROM segments WHERE id = ?", (segment,))


def _insert_merged(db: apsw.Connection, plan: Merge, vectors: VectorFile) -> None:
    chosen, maps, alive = plan
    columns: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    for segment in chosen:
        row = one(db, "SELECT chunk_ids, file_ids, lengths FROM segments WHERE id = ?", (segment,))
        row_map = maps[segment]
        kinds: tuple[type[Any], ...] = (np.int64, np.int32, np.float32)
        for column, data, kind in zip(columns, row, kinds, strict=True):
            values = np.frombuffer(data, kind)
            column.append((values if row_map is None else values[row_map >= 0]).tobytes())
    chunk_ids, file_ids, lengths = (b"".join(column) for column in columns)
    merged = _insert_segment_row(db, sum(alive[s] for s in chosen), chunk_ids, file_ids, lengths, vectors)
    offsets = np.cumsum([0, *(alive[s] for s in chosen)]).tolist()
    query = "SELECT term, data FROM postings WHERE segment = ? ORDER BY term"
    sources = [db.execute(query, (segment,)) for segment in chosen]
    postings = merge_postings(sources, [maps[s] for s in chosen], offsets)
    db.executemany("INSERT INTO postings VALUES(?, ?, ?)", ((merged, term, data) for term, data in postings))
