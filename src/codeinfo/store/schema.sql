-- One build serves a family: the work trees and revisions of one repository. A file is a path with a content; its parse
-- is stored once. A tree is a set of files, its entries. A changed file gets a new id, and ids are never reused:
-- segments can then stay immutable, since a tree's snapshot leaves out the rows of files it does not have. A file that
-- no tree has is released, and kept for a while in case it returns. What is large and read for few files at a time,
-- chunks and uses of names, has separate tables, so that those of all files stay small.
CREATE TABLE trees(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE meta(tree INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(tree, key)) WITHOUT ROWID;
CREATE TABLE entries(
    tree INTEGER NOT NULL,
    path TEXT NOT NULL,
    file_id INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    PRIMARY KEY(tree, path)
) WITHOUT ROWID;
CREATE INDEX entries_by_file ON entries(file_id);
CREATE TABLE released(file_id INTEGER PRIMARY KEY, at INTEGER NOT NULL);
CREATE TABLE files(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    language TEXT NOT NULL,
    kind TEXT NOT NULL,
    chunk_count INTEGER NOT NULL,
    notes TEXT NOT NULL,
    skip TEXT NOT NULL,
    brought_back INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX files_by_path ON files(path, sha256);
CREATE INDEX files_by_content ON files(sha256);
CREATE TABLE uses(file_id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE chunks(
    id INTEGER PRIMARY KEY,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    data BLOB NOT NULL
);
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
