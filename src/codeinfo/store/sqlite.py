"""The Store port over one SQLite file in WAL mode, with vector files beside it.

A vector file is written and synced before the transaction that lists it; one that no transaction lists is an orphan
of a crash and is removed by the next writer. So the database alone says what the index contains.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import apsw
import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import FileSymbols
from codeinfo.store.connections import Connections, one
from codeinfo.store.faults import Replaced, refuse_marked, translated
from codeinfo.store.rows import definition_from_row, import_from_row
from codeinfo.store.schema import SCHEMA_VERSION, TABLES
from codeinfo.store.segments import Damage, SegmentBuilder, VectorsGone, live_row_map, segments_to_merge
from codeinfo.store.snapshot import Arrays, SqliteSnapshot, load_arrays, load_meta, map_vectors
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
        if recipe is not None:
            with translated(folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hold = Hold(folder)
        refuse_marked(folder)
        with translated(folder):
            if recipe is not None:
                first_rows = "INSERT INTO meta VALUES('generation', '0'), ('recipe', ?)"
                self._connections.create(TABLES, first_rows, (recipe,))
            self._connections.check()

    def close(self) -> None:
        self._connections.close()
        with self._lock:
            self._arrays = None

    @property
    def damaged(self) -> bool:
        """Whether reading it has failed in a way that only building it anew mends."""
        return self._connections.damaged

    @property
    def is_replaced(self) -> bool:
        """Whether its folder is gone or another one by now: somebody has cleared the index, perhaps built it anew."""
        return not self._hold.is_of(self.folder)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._connections.writing() as db:
            yield db
            db.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")

    # --- reading ---

    @cached_property
    def recipe(self) -> str:
        """What it was made by: never changed in a build."""
        return self.meta()["recipe"]

    def meta(self) -> dict[str, str]:
        with self._connections.reading() as db:
            return load_meta(db)

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
                except VectorsGone:
                    if attempt == _SNAPSHOT_TRIES - 1:
                        raise
                    continue
                yield SqliteSnapshot(db, arrays)
                return

    def _arrays_of(self, db: apsw.Connection) -> Arrays:
        meta = load_meta(db)
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
        from codeinfo.store.check import content_digest

        with self._connections.reading() as db:
            return content_digest(db, self._arrays_of(db))

    def verify(self) -> None:
        """Read everything once and check it; raises IndexDamaged."""
        from codeinfo.store.check import problem

        with self._connections.reading() as db:
            if found := problem(db, self.folder):
                raise Damage(found)

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
        return self._write_vector_file([file.vectors for file in files if file.vectors is not None])

    def _write_vector_file(self, blocks: Sequence[NDArray[np.float32]]) -> VectorFile:
        """Block after block, since all of an index's vectors at once would take its size in memory again."""
        blocks = [block for block in blocks if len(block)]
        if not blocks:
            return NO_VECTORS
        name, checksum = f"vectors-{os.getpid()}-{os.urandom(6).hex()}.f32", 0
        with translated(self.folder):
            try:
                with open(self.folder / name, "xb") as sink:
                    for block in blocks:
                        data = np.ascontiguousarray(block, np.float32).data.cast("B")
                        checksum = crc32(data, checksum)
                        sink.write(data)
                    sink.flush()
                    os.fsync(sink.fileno())
            except OSError:
                (self.folder / name).unlink(missing_ok=True)  # half a file would only keep a full disk full
                raise
        return VectorFile(name, blocks[0].shape[1], checksum)

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
        return self._write_vector_file(parts)

    def _remove_orphans(self) -> None:
        with self._connections.reading() as db:
            listed = {row[0] for row in db.execute("SELECT vector_file FROM segments")}
        for path in self.folder.glob("vectors-*.f32"):
            if path.name not in listed:
                path.unlink(missing_ok=True)


class Hold:
    """Keeps a build from being removed for as long as a store of it can be used; the kernel lets go for the dead."""

    def __init__(self, folder: Path) -> None:
        self._handle = -1
        try:
            self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._handle), os.stat(folder)):
                raise Replaced(folder)
        except (FileNotFoundError, BlockingIOError):  # whoever removes a build locks it first
            raise Replaced(folder) from None

    def is_of(self, folder: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(folder))
        except OSError:
            return False

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
