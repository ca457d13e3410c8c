"""The content of an index as one number, to compare indexes that were built in different ways."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import apsw
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from codeinfo.store.database import read_chunks
from codeinfo.store.snapshot import SqliteSnapshot
from codeinfo.store.sqlite import SqliteStore

_TERMS_AT_ONCE = 500
_OF_TREE = "JOIN entries e ON e.file_id = f.id AND e.tree = ?"
_CONTENT = (
    f"""SELECT f.path, e.size, f.sha256, f.language, f.kind, f.chunk_count, f.skip, u.data
       FROM files f {_OF_TREE} LEFT JOIN uses u ON u.file_id = f.id ORDER BY f.path""",
    f"""SELECT f.path, d.ordinal, d.name, d.qualified, d.kind, d.signature, d.doc, d.start_line, d.end_line, d.exported,
       d.bases FROM definitions d JOIN files f ON f.id = d.file_id {_OF_TREE} ORDER BY f.path, d.ordinal""",
    f"""SELECT f.path, i.ordinal, i.module, i.line, i.names, i.alias, i.reexport
       FROM imports i JOIN files f ON f.id = i.file_id {_OF_TREE} ORDER BY f.path, i.ordinal""",
)


def digest_of(store: SqliteStore) -> str:
    """SHA-256 over a tree's rows, postings and vectors, files sorted by path: independent of how the index was built
    and of other trees."""
    with store._connections.reading() as db:
        return _content_digest(db, store._snapshot_in(db))


def _content_digest(db: apsw.Connection, view: SqliteSnapshot) -> str:
    total = hashlib.sha256()
    for query in _CONTENT:
        for row in db.execute(query, (view.tree,)):
            total.update(repr(row).encode("utf-8", "surrogatepass"))
    for file_id, path in db.execute(f"SELECT f.id, f.path FROM files f {_OF_TREE} ORDER BY f.path", (view.tree,)):
        total.update(repr((path, *map(astuple, read_chunks(db, file_id, path)))).encode("utf-8", "surrogatepass"))
    for part in _array_content(db, view):
        total.update(part)
    return total.hexdigest()


def _array_content(db: apsw.Connection, view: SqliteSnapshot) -> Iterator[bytes]:
    by_path = sorted(range(len(view.paths)), key=view.paths.__getitem__)
    spans = [np.arange(view.file_rows[file]) + view.file_first[file] for file in by_path]
    order = np.concatenate(spans).astype(np.int64) if spans else np.zeros(0, np.int64)
    place = np.zeros(len(order), np.int64)
    place[order] = np.arange(len(order))
    yield repr([(view.paths[file], int(view.file_rows[file])) for file in by_path]).encode()
    yield view.row_length[order].tobytes()
    yield _vectors(view)[order].tobytes()
    terms = [row[0] for row in db.execute("SELECT DISTINCT term FROM postings ORDER BY term")]
    for at in range(0, len(terms), _TERMS_AT_ONCE):
        for term, posting in sorted(view.postings(terms[at : at + _TERMS_AT_ONCE]).items()):
            sorted_rows = np.argsort(place[posting.rows])
            columns = (place[posting.rows], *posting[1:])
            yield term.encode() + b"".join(column[sorted_rows].tobytes() for column in columns)


def _vectors(view: SqliteSnapshot) -> NDArray[np.int8]:
    """One row per chunk, as stored; empty if the index is keyword-only."""
    blocks = []
    for segment in (segment for segment in view.segments if segment.live_rows):
        if segment.vectors is None:
            return np.zeros((len(view.row_file), 0), np.int8)
        every = segment.vectors.all()
        blocks.append(every if segment.row_map is None else every[segment.row_map >= 0])
    return np.concatenate(blocks) if blocks else np.zeros((0, 0), np.int8)
