"""Reading an index as a whole: whether it is sound, and what it contains as one number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from codeinfo.model import FileKind
from codeinfo.store.database import (
    CHUNKS_PER_BLOCK,
    ODD,
    TABLES,
    Damage,
    check_symbols,
    load_meta,
    one,
    read_chunks,
)
from codeinfo.store.segments import check_vectors, decode_posting, map_vectors, rows_checksum
from codeinfo.store.snapshot import Arrays, SqliteSnapshot

_TERMS_AT_ONCE = 500


def problem(db: apsw.Connection, folder: Path) -> str:
    """The first thing that is wrong, or "". Everything is read once."""
    try:
        found = [row[0] for row in db.execute("PRAGMA integrity_check(1)") if row[0] != "ok"]
        if found:
            return str(found[0])
        _check_tables(db)
        _check_trees(db)
        _check_files(db)
        _check_chunks(db)
        _check_segments(db, folder)
    except Damage as damage:
        return str(damage)
    except (apsw.Error, OSError) as error:
        return str(error)
    except ODD as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _check_tables(db: apsw.Connection) -> None:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    model = apsw.Connection(":memory:")
    model.execute(TABLES)
    if list(db.execute(query)) != list(model.execute(query)):
        raise Damage("its tables are not as they were made")
    model.close()


def _check_trees(db: apsw.Connection) -> None:
    for (tree,) in list(db.execute("SELECT id FROM trees")):
        load_meta(db, tree)
    query = """SELECT e.path FROM entries e LEFT JOIN files f ON f.id = e.file_id
               WHERE f.path IS NOT e.path OR e.tree NOT IN (SELECT id FROM trees)
               OR e.file_id IN (SELECT file_id FROM released)"""
    for (path,) in db.execute(query):
        raise Damage(f"what a tree lists as {path} is another file, or none")


def _check_files(db: apsw.Connection) -> None:
    for file_id, kind, *_ in db.execute("SELECT id, kind, * FROM files"):
        FileKind(kind)
        check_symbols(db, file_id)


def _check_chunks(db: apsw.Connection) -> None:
    blocks = 0
    for file_id, path, count in db.execute("SELECT id, path, chunk_count FROM files"):
        if len(read_chunks(db, file_id, path)) != count:
            raise Damage(f"{path} has lost chunks")
        blocks += -(-count // CHUNKS_PER_BLOCK)
    if one(db, "SELECT count(*) FROM chunks")[0] != blocks:
        raise Damage("there are chunks of no file")


def _check_segments(db: apsw.Connection, folder: Path) -> None:
    query = """SELECT id, row_count, file_ids, lengths, checksum, vector_file, dimension, vector_checksum
               FROM segments"""
    rows_of = {}
    for segment, count, owners, lengths, checksum, name, dimension, vector_checksum in db.execute(query):
        if rows_checksum(owners, lengths) != checksum or len(owners) != count * 4:
            raise Damage(f"segment {segment} fails its checksum")
        if name:
            check_vectors(map_vectors(folder / name, count, dimension), name, vector_checksum)
        rows_of[segment] = count
    for segment, data in db.execute("SELECT segment, data FROM postings"):
        rows = decode_posting(data).rows
        if len(rows) and int(rows[-1]) >= rows_of[segment]:
            raise Damage(f"postings of segment {segment} have too many rows")


# --- content -------------------------------------------------------------------------------------------------------

_OF_TREE = "JOIN entries e ON e.file_id = f.id AND e.tree = ?"
_CONTENT = (
    f"""SELECT f.path, e.size, f.sha256, f.language, f.kind, f.chunk_count, f.skip, u.data
       FROM files f {_OF_TREE} LEFT JOIN uses u ON u.file_id = f.id ORDER BY f.path""",
    f"""SELECT f.path, d.ordinal, d.name, d.qualified, d.kind, d.signature, d.doc, d.start_line, d.end_line, d.exported,
       d.bases FROM definitions d JOIN files f ON f.id = d.file_id {_OF_TREE} ORDER BY f.path, d.ordinal""",
    f"""SELECT f.path, i.ordinal, i.module, i.line, i.names, i.alias, i.reexport
       FROM imports i JOIN files f ON f.id = i.file_id {_OF_TREE} ORDER BY f.path, i.ordinal""",
)


def content_digest(db: apsw.Connection, arrays: Arrays) -> str:
    """SHA-256 over a tree's rows, postings and vectors, files in the order of their paths: neither the way there nor
    what other trees have leaves a trace."""
    total = hashlib.sha256()
    for query in _CONTENT:
        for row in db.execute(query, (arrays.tree,)):
            total.update(repr(row).encode("utf-8", "surrogatepass"))
    for file_id, path in db.execute(f"SELECT f.id, f.path FROM files f {_OF_TREE} ORDER BY f.path", (arrays.tree,)):
        total.update(repr((path, *map(astuple, read_chunks(db, file_id, path)))).encode("utf-8", "surrogatepass"))
    for part in _array_content(db, arrays):
        total.update(part)
    return total.hexdigest()


def _array_content(db: apsw.Connection, arrays: Arrays) -> Iterator[bytes]:
    by_path = sorted(range(len(arrays.paths)), key=arrays.paths.__getitem__)
    spans = [np.arange(arrays.file_rows[file]) + arrays.file_first[file] for file in by_path]
    order = np.concatenate(spans).astype(np.int64) if spans else np.zeros(0, np.int64)
    place = np.zeros(len(order), np.int64)
    place[order] = np.arange(len(order))
    yield repr([(arrays.paths[file], int(arrays.file_rows[file])) for file in by_path]).encode()
    yield arrays.row_length[order].tobytes()
    yield _vectors(arrays)[order].tobytes()
    view = SqliteSnapshot(db, arrays)
    terms = [row[0] for row in db.execute("SELECT DISTINCT term FROM postings ORDER BY term")]
    for at in range(0, len(terms), _TERMS_AT_ONCE):
        for term, posting in sorted(view.postings(terms[at : at + _TERMS_AT_ONCE]).items()):
            sorted_rows = np.argsort(place[posting.rows])
            columns = (place[posting.rows], *posting[1:])
            yield term.encode() + b"".join(column[sorted_rows].tobytes() for column in columns)


def _vectors(arrays: Arrays) -> NDArray[np.float16]:
    """One row a chunk; of no length when the index is keyword-only."""
    blocks = []
    for segment in (segment for segment in arrays.segments if segment.live_rows):
        if segment.vectors is None:
            return np.zeros((len(arrays.row_file), 0), np.float16)
        blocks.append(segment.vectors if segment.row_map is None else segment.vectors[segment.row_map >= 0])
    return np.concatenate(blocks) if blocks else np.zeros((0, 0), np.float16)
