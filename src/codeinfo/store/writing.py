"""Statements that write: files with all they have, segments, and merges of segments. Each runs inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from codeinfo.store.connections import one
from codeinfo.store.rows import chunk_row, definition_rows, import_rows, symbols_checksum
from codeinfo.store.segments import SegmentBuilder, merge_postings, rows_checksum
from codeinfo.types import IndexedFile


class VectorFile(NamedTuple):
    name: str
    dimension: int
    checksum: int


NO_VECTORS = VectorFile("", 0, 0)


def delete_file(db: apsw.Connection, path: str) -> None:
    for (file_id,) in list(db.execute("SELECT id FROM files WHERE path = ?", (path,))):
        for table, column in (
            ("files", "id"),
            ("chunks", "file_id"),
            ("definitions", "file_id"),
            ("imports", "file_id"),
        ):
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (file_id,))


def insert_file(db: apsw.Connection, file: IndexedFile, builder: SegmentBuilder) -> None:
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


def insert_segment(db: apsw.Connection, builder: SegmentBuilder, vectors: VectorFile) -> None:
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


def merge_segments(
    db: apsw.Connection,
    chosen: list[int],
    maps: Mapping[int, NDArray[np.int32] | None],
    alive: Mapping[int, int],
    vectors: VectorFile,
) -> None:
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
    for segment in chosen:
        db.execute("DELETE FROM postings WHERE segment = ?", (segment,))
        db.execute("DELETE FROM segments WHERE id = ?", (segment,))
