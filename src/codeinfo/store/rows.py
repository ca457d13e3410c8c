"""The tables of an index, and values to rows and back in one place, so that writing and reading cannot drift apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import apsw
from msgspec.structs import astuple

from codeinfo.model import Chunk, Definition, Import
from codeinfo.store.database import Damage

SCHEMA_VERSION = 4

# A changed file gets a new id, and ids are never used again: segments can then stay immutable, since a row whose
# file id is gone is dead.
TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    language TEXT NOT NULL,
    kind TEXT NOT NULL,
    chunk_count INTEGER NOT NULL,
    notes TEXT NOT NULL,
    skip TEXT NOT NULL,
    uses BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX files_by_content ON files(sha256);
CREATE TABLE chunks(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file_id INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    kind TEXT NOT NULL,
    symbol TEXT NOT NULL,
    breadcrumb TEXT NOT NULL,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX chunks_by_file ON chunks(file_id);
CREATE TABLE definitions(
    file_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    name_key TEXT NOT NULL,
    name TEXT NOT NULL,
    qualified TEXT NOT NULL,
    kind TEXT NOT NULL,
    signature TEXT NOT NULL,
    doc TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    exported INTEGER NOT NULL,
    bases TEXT NOT NULL,
    PRIMARY KEY(file_id, ordinal)
) WITHOUT ROWID;
CREATE INDEX definitions_by_name ON definitions(name_key);
CREATE TABLE imports(
    file_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    module TEXT NOT NULL,
    line INTEGER NOT NULL,
    names TEXT NOT NULL,
    alias TEXT NOT NULL,
    reexport INTEGER NOT NULL,
    PRIMARY KEY(file_id, ordinal)
) WITHOUT ROWID;
CREATE TABLE segments(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    row_count INTEGER NOT NULL,
    chunk_ids BLOB NOT NULL,
    file_ids BLOB NOT NULL,
    lengths BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    vector_file TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    vector_checksum INTEGER NOT NULL
);
CREATE TABLE postings(
    segment INTEGER NOT NULL,
    term TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY(segment, term)
) WITHOUT ROWID;
"""


Row = tuple[str | int, ...]

# Names hold no line breaks, so a line break joins lists without quoting.
_JOIN = "\n"


def _joined(values: tuple[str, ...]) -> str:
    return _JOIN.join(values)


def _parted(value: str) -> tuple[str, ...]:
    return tuple(value.split(_JOIN)) if value else ()


def chunk_row(file_id: int, path: str, chunk: Chunk) -> Row:
    shown = (chunk.start_line, chunk.end_line, chunk.kind, chunk.symbol, chunk.breadcrumb, chunk.text)
    return (file_id, *shown, chunk_checksum(path, *shown))


def chunk_checksum(path: str, start: int, end: int, kind: str, symbol: str, breadcrumb: str, text: str) -> int:
    """SQLite does not notice a flipped bit inside a value: this does, before a text is shown as evidence.

    The path is part of it: a chunk that damage handed to another file is noticed as well.
    """
    about = f"{path}\0{start}\0{end}\0{kind}\0{symbol}\0{breadcrumb}\0"
    return crc32(text.encode("utf-8", "surrogatepass"), crc32(about.encode("utf-8", "surrogatepass")))


def symbols_checksum(definitions: Iterable[Row], imports: Iterable[Row], uses: bytes) -> int:
    """Over what a file defines, imports and uses; the rows as they are stored, without the file's id."""
    total = crc32(uses)
    for row in (*definitions, *imports):
        total = crc32("\0".join(map(str, row)).encode("utf-8", "surrogatepass"), total)
    return total


def check_symbols(db: apsw.Connection, file_id: int) -> None:
    """Raises Damage where what a file defines, imports and uses is not what was stored."""
    definitions = """SELECT ordinal, name_key, name, qualified, kind, signature, doc, start_line, end_line, exported,
                     bases FROM definitions WHERE file_id = ? ORDER BY ordinal"""
    imports = "SELECT ordinal, module, line, names, alias, reexport FROM imports WHERE file_id = ? ORDER BY ordinal"
    for path, uses, checksum in db.execute("SELECT path, uses, checksum FROM files WHERE id = ?", (file_id,)):
        if symbols_checksum(db.execute(definitions, (file_id,)), db.execute(imports, (file_id,)), uses) != checksum:
            raise Damage(f"the symbols of {path} fail their checksum")


def definition_rows(definitions: tuple[Definition, ...]) -> Iterator[Row]:
    for ordinal, definition in enumerate(definitions):
        *plain, exported, bases = astuple(definition)
        yield (ordinal, definition.name.lower(), *plain, int(exported), _joined(bases))


def definition_from_row(*row: Any) -> Definition:
    """From the columns in the order of `Definition`'s fields."""
    *plain, exported, bases = row
    return Definition(*(*plain, bool(exported), _parted(bases)))


def import_rows(imports: tuple[Import, ...]) -> Iterator[Row]:
    for ordinal, i in enumerate(imports):
        yield (ordinal, i.module, i.line, _joined(i.names), i.alias, int(i.reexport))


def import_from_row(module: str, line: int, names: str, alias: str, reexport: int) -> Import:
    return Import(module, line, _parted(names), alias, bool(reexport))
