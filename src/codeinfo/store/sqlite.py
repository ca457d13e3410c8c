"""The Store port over one SQLite file in WAL mode, with vector files beside it.

A vector file is written and synced before the transaction that lists it; one that no transaction lists is an orphan
of a crash and is removed by the next writer. So the database alone says what the index contains.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import apsw
import numpy as np
from numpy.typing import NDArray

from codeinfo.errors import IndexDamaged
from codeinfo.ports import FileSymbols
from codeinfo.store.faults import translated
from codeinfo.store.rows import (
    chunk_row,
    definition_from_row,
    definition_rows,
    import_from_row,
    import_rows,
    text_checksum,
)
from codeinfo.store.schema import SCHEMA_VERSION, TABLES
from codeinfo.store.segments import (
    Damage,
    SegmentBuilder,
    decode_postings,
    live_row_map,
    merge_postings,
    segments_to_merge,
)
from codeinfo.store.snapshot import Arrays, SqliteSnapshot, load_arrays, map_vectors
from codeinfo.types import FileKind, IndexedFile, ManifestRow, Skip, SourceFile

BUSY_MS = 10_000  # how long a statement waits for another process's short transaction
_SNAPSHOT_TRIES = 5  # a merge may unlink a vector file between our reading its name and opening it


class VectorFile(NamedTuple):
    name: str
    dimension: int
    checksum: int


NO_VECTORS = VectorFile("", 0, 0)


class Counts(NamedTuple):
    files: int
    chunks: int
    languages: dict[str, int]
    skipped: tuple[Skip, ...]  # files left out once they were read


class SqliteStore:
    """`folder` holds index.db and its vector files. With `recipe` a missing database is made, to be filled by it."""

    def __init__(self, folder: Path, *, recipe: str | None = None) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._arrays: Arrays | None = None
        self._closed = False
        with translated(folder):
            if recipe is not None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._create(recipe)
            self._release(self._acquire())  # a database that cannot be opened is noticed here, not in a search

    # --- connections ---

    def _connect(self, *, create: bool = False) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        db = apsw.Connection(str(self.folder / "index.db"), flags=flags)
        db.set_busy_timeout(BUSY_MS)
        db.execute("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000; PRAGMA mmap_size = 268435456")
        return db

    def _create(self, recipe: str) -> None:
        db = self._connect(create=True)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            with immediate(db):
                if not list(db.execute("PRAGMA user_version"))[0][0]:
                    db.execute(TABLES)
                    db.execute("INSERT INTO meta VALUES('generation', '0'), ('recipe', ?)", (recipe,))
                    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        finally:
            db.close()

    def _acquire(self) -> apsw.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        db = self._connect()
        version = list(db.execute("PRAGMA user_version"))[0][0]
        if version != SCHEMA_VERSION:
            db.close()
            raise IndexDamaged(
                f"the index in {self.folder} has schema {version}, this program reads {SCHEMA_VERSION}",
                next_step="Run `codeinfo index` to build it anew",
            )
        return db

    def _release(self, db: apsw.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(db)
                return
        db.close()

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        with translated(self.folder):
            db = self._acquire()
            try:
                db.execute("BEGIN")
                try:
                    yield db
                finally:
                    db.execute("ROLLBACK" if db.in_transaction else "")
            except BaseException:
                db.close()
                raise
            self._release(db)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with translated(self.folder):
            db = self._acquire()
            try:
                with immediate(db):
                    yield db
                    db.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
            except BaseException:
                db.close()
                raise
            self._release(db)

    def close(self) -> None:
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
            self._arrays = None
        for db in idle:
            db.close()

    # --- reading ---

    def meta(self) -> dict[str, str]:
        with self._reading() as db:
            return dict(db.execute("SELECT key, value FROM meta"))

    def manifest(self) -> dict[str, ManifestRow]:
        query = "SELECT id, path, size, mtime_ns, sha256, language, kind, chunk_count FROM files"
        with self._reading() as db:
            return {
                row[1]: ManifestRow(row[0], row[1], row[2], row[3], row[4], row[5], FileKind(row[6]), row[7])
                for row in db.execute(query)
            }

    def counts(self) -> Counts:
        with self._reading() as db:
            files, chunks = next(iter(db.execute("SELECT count(*), total(chunk_count) FROM files WHERE skip = ''")))
            languages = db.execute("SELECT language, count(*) FROM files WHERE skip = '' GROUP BY 1 ORDER BY 2 DESC, 1")
            skipped = db.execute("SELECT path, skip, notes FROM files WHERE skip != '' ORDER BY path")
            return Counts(files, int(chunks), dict(languages), tuple(Skip(*row) for row in skipped))

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        for attempt in range(_SNAPSHOT_TRIES):
            with self._reading() as db:
                try:
                    arrays = self._arrays_of(db)
                except FileNotFoundError as error:
                    if attempt == _SNAPSHOT_TRIES - 1:
                        raise Damage(f"vector file {error.filename} is gone") from error
                    continue
                yield SqliteSnapshot(db, arrays)
                return

    def _arrays_of(self, db: apsw.Connection) -> Arrays:
        meta = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('generation', 'complete')"))
        generation = int(meta["generation"])
        with self._lock:
            known = self._arrays
        if known is not None and known.generation == generation:
            return known
        arrays = load_arrays(db, self.folder, generation, meta.get("complete") == "1")
        with self._lock:
            if not self._closed:
                self._arrays = arrays
        return arrays

    def symbols(self, path: str) -> FileSymbols | None:
        with self._reading() as db:
            found = list(db.execute("SELECT id, uses FROM files WHERE path = ?", (path,)))
            if not found:
                return None
            file_id, references = found[0]
            definitions = db.execute(
                """SELECT name, qualified, kind, signature, doc, start_line, end_line, exported, bases
                   FROM definitions WHERE file_id = ? ORDER BY ordinal""",
                (file_id,),
            )
            defined = tuple(definition_from_row(*row) for row in definitions)
            imports = db.execute(
                "SELECT module, line, names, alias, reexport FROM imports WHERE file_id = ? ORDER BY ordinal", (file_id,)
            )
            return FileSymbols(defined, tuple(import_from_row(*row) for row in imports), references)

    def vectors_by_hash(self, sha256: str) -> NDArray[np.float32] | None:
        with self._reading() as db:
            for (file_id,) in db.execute("SELECT id FROM files WHERE sha256 = ?", (sha256,)):
                query = "SELECT row_count, file_ids, vector_file, dimension FROM segments WHERE vector_file != ''"
                for count, owners, vector_file, dimension in db.execute(query):
                    rows = np.flatnonzero(np.frombuffer(owners, np.int32, count) == file_id)
                    if len(rows):
                        return np.array(map_vectors(self.folder / vector_file, count, dimension)[rows])
        return None

    def digest(self) -> str:
        import hashlib

        total = hashlib.sha256()
        with self._reading() as db:
            for query in _DIGEST_QUERIES:
                for row in db.execute(query):
                    total.update(repr(row).encode())
        with self.snapshot() as view:
            total.update(repr(sorted(zip(view.paths, view.languages, strict=True))).encode())
            rows_per_file = np.bincount(view.row_file, minlength=len(view.paths)).tolist()
            total.update(repr(sorted(zip(view.paths, rows_per_file, strict=True))).encode())
            total.update(repr(sorted(view.row_length.tolist())).encode())
        return total.hexdigest()

    def verify(self) -> None:
        """Read everything once and check it; raises IndexDamaged."""
        with self._reading() as db:
            problems = [row[0] for row in db.execute("PRAGMA quick_check") if row[0] != "ok"]
            if problems:
                raise Damage(problems[0])
            for text, checksum in db.execute("SELECT text, checksum FROM chunks"):
                if text_checksum(text) != checksum:
                    raise Damage("a chunk fails its checksum")
            for (data,) in db.execute("SELECT data FROM postings"):
                decode_postings(data)
            query = "SELECT vector_file, row_count, dimension, vector_checksum FROM segments WHERE vector_file != ''"
            for name, count, dimension, checksum in db.execute(query):
                vectors = map_vectors(self.folder / name, count, dimension)
                if crc32(memoryview(np.ascontiguousarray(vectors)).cast("B")) != checksum:
                    raise Damage(f"{name} fails its checksum")

    # --- writing ---

    def apply(self, files: Sequence[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile]) -> None:
        vectors = self._write_vectors(files)
        with self._writing() as db:
            for path in (*removed, *(file.source.path for file in files)):
                _delete_file(db, path)
            db.executemany(
                "UPDATE files SET size = ?, mtime_ns = ? WHERE path = ?",
                ((source.size, source.mtime_ns, source.path) for source in touched),
            )
            if files:
                builder = SegmentBuilder()
                for file in files:
                    _insert_file(db, file, builder)
                _insert_segment(db, builder, vectors)

    def finish(self, meta: Mapping[str, str]) -> None:
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", {**meta, "complete": "1"}.items())
        while self._merge_once():
            pass
        self._remove_orphans()

    def _write_vectors(self, files: Sequence[IndexedFile]) -> VectorFile:
        blocks = [file.vectors for file in files if file.vectors is not None and len(file.vectors)]
        return self._write_vector_file(np.concatenate(blocks, dtype=np.float32)) if blocks else NO_VECTORS

    def _write_vector_file(self, vectors: NDArray[np.float32]) -> VectorFile:
        name = f"vectors-{os.getpid()}-{os.urandom(6).hex()}.f32"
        data = memoryview(np.ascontiguousarray(vectors)).cast("B")
        with translated(self.folder), open(self.folder / name, "xb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        return VectorFile(name, vectors.shape[1], crc32(data))

    def _merge_once(self) -> bool:
        """Fold one crowd of segments into one. The caller holds the index lock, so no other writer interferes."""
        with self._reading() as db:
            live = np.array([row[0] for row in db.execute("SELECT id FROM files ORDER BY id")], np.int32)
            shapes, maps = {}, {}
            for segment, count, owners in db.execute("SELECT id, row_count, file_ids FROM segments ORDER BY id"):
                shapes[segment] = count
                maps[segment] = live_row_map(np.frombuffer(owners, np.int32, count), live)
        alive = {s: shapes[s] if (m := maps[s]) is None else int((m >= 0).sum()) for s in shapes}
        chosen = segments_to_merge(shapes, alive)
        if not chosen:
            return False
        vectors = self._merged_vectors(chosen, maps)
        with self._writing() as db:
            _merge_segments(db, chosen, maps, alive, vectors)
        return True

    def _merged_vectors(self, chosen: list[int], maps: Mapping[int, NDArray[np.int32] | None]) -> VectorFile:
        parts = []
        with self._reading() as db:
            for segment in chosen:
                query = "SELECT row_count, vector_file, dimension FROM segments WHERE id = ?"
                count, vector_file, dimension = next(iter(db.execute(query, (segment,))))
                if not vector_file:
                    return NO_VECTORS
                row_map = maps[segment]
                block = map_vectors(self.folder / vector_file, count, dimension)
                parts.append(block if row_map is None else block[row_map >= 0])
        merged = np.concatenate(parts)
        return self._write_vector_file(merged) if len(merged) else NO_VECTORS

    def _remove_orphans(self) -> None:
        with self._reading() as db:
            listed = {row[0] for row in db.execute("SELECT vector_file FROM segments")}
        for path in self.folder.glob("vectors-*.f32"):
            if path.name not in listed:
                path.unlink(missing_ok=True)


_DIGEST_QUERIES = (
    "SELECT path, size, sha256, language, kind, chunk_count, skip, uses FROM files ORDER BY path",
    """SELECT f.path, c.start_line, c.end_line, c.kind, c.symbol, c.breadcrumb, c.text
       FROM chunks c JOIN files f ON f.id = c.file_id ORDER BY f.path, c.id""",
    """SELECT f.path, d.ordinal, d.name, d.qualified, d.kind, d.signature, d.doc, d.start_line, d.end_line, d.bases
       FROM definitions d JOIN files f ON f.id = d.file_id ORDER BY f.path, d.ordinal""",
    """SELECT f.path, i.ordinal, i.module, i.line, i.names, i.alias, i.reexport
       FROM imports i JOIN files f ON f.id = i.file_id ORDER BY f.path, i.ordinal""",
    "SELECT count(*) FROM chunks WHERE file_id NOT IN (SELECT id FROM files)",
)


@contextmanager
def immediate(db: apsw.Connection) -> Iterator[None]:
    """A write transaction that takes its lock at the start, so that it can wait but never deadlock."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _delete_file(db: apsw.Connection, path: str) -> None:
    for (file_id,) in list(db.execute("SELECT id FROM files WHERE path = ?", (path,))):
        for table, column in (("files", "id"), ("chunks", "file_id"), ("definitions", "file_id"), ("imports", "file_id")):
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (file_id,))


def _insert_file(db: apsw.Connection, file: IndexedFile, builder: SegmentBuilder) -> None:
    source, parsed = file.source, file.parsed
    db.execute(
        """INSERT INTO files(path, size, mtime_ns, sha256, language, kind, chunk_count, notes, skip, uses)
           VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
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
        ),
    )
    file_id = db.last_insert_rowid()
    insert = """INSERT INTO chunks(file_id, start_line, end_line, kind, symbol, breadcrumb, text, checksum)
                VALUES(?, ?, ?, ?, ?, ?, ?, ?)"""
    db.executemany(insert, (chunk_row(file_id, chunk) for chunk in parsed.chunks))
    first_chunk = db.last_insert_rowid() - len(parsed.chunks) + 1
    for at, terms in enumerate(parsed.terms):
        builder.add(first_chunk + at, file_id, terms, file.path_terms)
    db.executemany(
        "INSERT INTO definitions VALUES(?,?,?,?,?,?,?,?,?,?,?,?)", definition_rows(file_id, parsed.definitions)
    )
    db.executemany("INSERT INTO imports VALUES(?,?,?,?,?,?,?)", import_rows(file_id, parsed.imports))


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
    db.executemany(
        "INSERT INTO postings VALUES(?, ?, ?)", ((segment, term, data) for term, data in builder.postings())
    )


def _insert_segment_row(
    db: apsw.Connection, rows: int, chunk_ids: bytes, file_ids: bytes, lengths: bytes, vectors: VectorFile
) -> int:
    db.execute(
        """INSERT INTO segments(row_count, chunk_ids, file_ids, lengths, vector_file, dimension, vector_checksum)
           VALUES(?, ?, ?, ?, ?, ?, ?)""",
        (rows, chunk_ids, file_ids, lengths, vectors.name, vectors.dimension, vectors.checksum),
    )
    return int(db.last_insert_rowid())


def _merge_segments(
    db: apsw.Connection,
    chosen: list[int],
    maps: Mapping[int, NDArray[np.int32] | None],
    alive: Mapping[int, int],
    vectors: VectorFile,
) -> None:
    columns: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    for segment in chosen:
        row = next(iter(db.execute("SELECT chunk_ids, file_ids, lengths FROM segments WHERE id = ?", (segment,))))
        row_map = maps[segment]
        for column, data, kind in zip(columns, row, (np.int64, np.int32, np.float32), strict=True):
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
