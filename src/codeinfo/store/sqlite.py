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

from codeinfo.ports import FileSymbols
from codeinfo.store.connections import Connections, one
from codeinfo.store.faults import translated
from codeinfo.store.rows import definition_from_row, import_from_row, text_checksum
from codeinfo.store.schema import SCHEMA_VERSION, TABLES
from codeinfo.store.segments import Damage, SegmentBuilder, decode_postings, live_row_map, segments_to_merge
from codeinfo.store.snapshot import Arrays, SqliteSnapshot, load_arrays, map_vectors
from codeinfo.store.writing import NO_VECTORS, VectorFile, delete_file, insert_file, insert_segment, merge_segments
from codeinfo.types import FileKind, IndexedFile, ManifestRow, Skip, SourceFile

_SNAPSHOT_TRIES = 5  # a merge may unlink a vector file between our reading its name and opening it


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
        self._arrays: Arrays | None = None
        self._connections = Connections(folder / "index.db", SCHEMA_VERSION)
        with translated(folder):
            if recipe is not None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                first_rows = "INSERT INTO meta VALUES('generation', '0'), ('recipe', ?)"
                self._connections.create(TABLES, first_rows, (recipe,))
            self._connections.check()

    def close(self) -> None:
        self._connections.close()
        with self._lock:
            self._arrays = None

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._connections.writing() as db:
            yield db
            db.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")

    # --- reading ---

    def meta(self) -> dict[str, str]:
        with self._connections.reading() as db:
            return dict(db.execute("SELECT key, value FROM meta"))

    def manifest(self) -> dict[str, ManifestRow]:
        query = "SELECT id, path, size, mtime_ns, sha256, language, kind, chunk_count FROM files"
        with self._connections.reading() as db:
            return {
                row[1]: ManifestRow(row[0], row[1], row[2], row[3], row[4], row[5], FileKind(row[6]), row[7])
                for row in db.execute(query)
            }

    def counts(self) -> Counts:
        with self._connections.reading() as db:
            files, chunks = one(db, "SELECT count(*), total(chunk_count) FROM files WHERE skip = ''")
            languages = db.execute("SELECT language, count(*) FROM files WHERE skip = '' GROUP BY 1 ORDER BY 2 DESC, 1")
            skipped = db.execute("SELECT path, skip, notes FROM files WHERE skip != '' ORDER BY path")
            return Counts(files, int(chunks), dict(languages), tuple(Skip(*row) for row in skipped))

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        for attempt in range(_SNAPSHOT_TRIES):
            with self._connections.reading() as db:
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
            self._arrays = arrays
        return arrays

    def symbols(self, path: str) -> FileSymbols | None:
        with self._connections.reading() as db:
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
                "SELECT module, line, names, alias, reexport FROM imports WHERE file_id = ? ORDER BY ordinal",
                (file_id,),
            )
            return FileSymbols(defined, tuple(import_from_row(*row) for row in imports), references)

    def vectors_by_hash(self, sha256: str) -> NDArray[np.float32] | None:
        with self._connections.reading() as db:
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
        with self._connections.reading() as db:
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
        with self._connections.reading() as db:
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
                if crc32(vectors.tobytes()) != checksum:
                    raise Damage(f"{name} fails its checksum")

    # --- writing ---

    def apply(self, files: Sequence[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile]) -> None:
        vectors = self._write_vectors(files)
        with self._writing() as db:
            for path in (*removed, *(file.source.path for file in files)):
                delete_file(db, path)
            db.executemany(
                "UPDATE files SET size = ?, mtime_ns = ? WHERE path = ?",
                ((source.size, source.mtime_ns, source.path) for source in touched),
            )
            if files:
                builder = SegmentBuilder()
                for file in files:
                    insert_file(db, file, builder)
                insert_segment(db, builder, vectors)

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
        data = vectors.tobytes()
        with translated(self.folder), open(self.folder / name, "xb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        return VectorFile(name, vectors.shape[1], crc32(data))

    def _merge_once(self) -> bool:
        """Fold one crowd of segments into one. The caller holds the index lock, so no other writer interferes."""
        with self._connections.reading() as db:
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
            merge_segments(db, chosen, maps, alive, vectors)
        return True

    def _merged_vectors(self, chosen: list[int], maps: Mapping[int, NDArray[np.int32] | None]) -> VectorFile:
        parts = []
        with self._connections.reading() as db:
            for segment in chosen:
                query = "SELECT row_count, vector_file, dimension FROM segments WHERE id = ?"
                count, vector_file, dimension = one(db, query, (segment,))
                if not vector_file:
                    return NO_VECTORS
                row_map = maps[segment]
                block = map_vectors(self.folder / vector_file, count, dimension)
                parts.append(block if row_map is None else block[row_map >= 0])
        merged = np.concatenate(parts)
        return self._write_vector_file(merged) if len(merged) else NO_VECTORS

    def _remove_orphans(self) -> None:
        with self._connections.reading() as db:
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
