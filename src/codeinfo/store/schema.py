"""The tables of an index, and the version that opens them."""

from __future__ import annotations

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
