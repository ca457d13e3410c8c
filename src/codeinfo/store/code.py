"""The CodeFacts port over an index: one read transaction, from which all answers to one question come."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from codeinfo.model import Definition, Import
from codeinfo.ports import CodeFile, FileLines
from codeinfo.private_files import write_private
from codeinfo.store.rows import check_symbols, definition_from_row, import_from_row
from codeinfo.store.segments import decode_posting
from codeinfo.store.sqlite import SqliteStore

_DEFINITION = "name, qualified, kind, signature, doc, start_line, end_line, exported, bases"
_MEMBERS = "('method', 'field', 'property', 'parameter', 'prototype')"
_EXTENSION_FUNCTIONS = "kind IN ('method', 'property') AND file_id IN (SELECT id FROM files WHERE language = 'kotlin')"
_MANY = 500  # beyond this many files reading the whole table is quicker than asking for each


@contextmanager
def code_facts(store: SqliteStore) -> Iterator[SqliteCodeFacts]:
    with store._connections.reading() as db:
        yield SqliteCodeFacts(db)


class SqliteCodeFacts:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.generation = int(next(iter(db.execute("SELECT value FROM meta WHERE key = 'generation'")))[0])

    def files(self) -> Sequence[CodeFile]:
        query = "SELECT id, path, language, kind, size, notes FROM files WHERE skip = '' ORDER BY path"
        return [CodeFile(*row) for row in self._db.execute(query)]

    def outlines(self, file_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Definition]]:
        offered = f"(kind NOT IN {_MEMBERS} OR {_EXTENSION_FUNCTIONS})"
        query = f"SELECT file_id, {_DEFINITION} FROM definitions WHERE {offered}"
        return ((row[0], definition_from_row(*row[1:])) for row in self._rows(query, "file_id", file_ids))

    def definitions(self, file_id: int) -> list[Definition]:
        query = f"SELECT {_DEFINITION} FROM definitions WHERE file_id = ? ORDER BY ordinal"
        return [definition_from_row(*row) for row in self._db.execute(query, (file_id,))]

    def definitions_named(self, name: str) -> list[tuple[int, Definition]]:
        query = f"SELECT file_id, {_DEFINITION} FROM definitions WHERE name_key = ? AND name = ?"
        rows = self._db.execute(query, (name.lower(), name))
        return [(row[0], definition_from_row(*row[1:])) for row in rows]

    def check_symbols(self, file_ids: Iterable[int]) -> None:
        for file_id in file_ids:
            check_symbols(self._db, file_id)

    def imports(self, file_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Import]]:
        query = "SELECT file_id, module, line, names, alias, reexport FROM imports WHERE 1"
        return ((row[0], import_from_row(*row[1:])) for row in self._rows(query, "file_id", file_ids))

    def references(self, file_ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        yield from self._rows("SELECT id, uses FROM files WHERE uses != x''", "id", file_ids)

    def files_with(self, terms: Sequence[str]) -> list[int]:
        wanted = list(dict.fromkeys(terms))
        by_term: dict[str, set[int]] = {term: set() for term in wanted}
        marks = ",".join("?" * len(wanted))
        for segment, count, owners in list(self._db.execute("SELECT id, row_count, file_ids FROM segments")):
            owner_ids = np.frombuffer(owners, np.int32, count)
            query = f"SELECT term, data FROM postings WHERE segment = ? AND term IN ({marks})"
            for term, data in self._db.execute(query, (segment, *wanted)):
                posting = decode_posting(data)
                by_term[term].update(owner_ids[posting.rows[posting.tenths > 0]].tolist())
        found = set.intersection(*by_term.values()) if by_term else set()
        return sorted(found)

    def lines(self, file_id: int) -> FileLines:
        query = "SELECT start_line, text FROM chunks WHERE file_id = ? ORDER BY start_line, id"
        return FileLines(self._db.execute(query, (file_id,)))

    def _rows(self, query: str, column: str, file_ids: Sequence[int] | None) -> Iterator[tuple[Any, ...]]:
        """Rows of some files, or of all: in the order they are stored in, a file's rows together."""
        if file_ids is None:
            yield from self._db.execute(query)
        elif len(file_ids) > _MANY:
            wanted = set(file_ids)
            yield from (row for row in self._db.execute(query) if row[0] in wanted)
        elif file_ids:
            marks = ",".join("?" * len(file_ids))
            yield from self._db.execute(f"{query} AND {column} IN ({marks})", tuple(file_ids))


def read_beside(store: SqliteStore, name: str) -> bytes | None:
    """A derived file kept with the index, or None: whoever needs it can make it again."""
    try:
        return (store.folder / name).read_bytes()
    except OSError:
        return None


def version_beside(store: SqliteStore, name: str) -> tuple[str, int, int] | None:
    """Which version of a derived file there is, None where there is none: it is only ever replaced as a whole."""
    path = f"{store.folder}/{name}"
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_ino, status.st_mtime_ns


def write_beside(store: SqliteStore, name: str, data: bytes) -> None:
    """Replace a derived file as a whole. Losing it costs time only, so a full disk is no failure."""
    path = Path(store.folder, name)
    temporary = path.with_name(f".{name}-{os.getpid()}")
    try:
        write_private(temporary, data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
