"""The Store port over one SQLite file in WAL mode, with vector files beside it.

A vector file is written and synced before the transaction that lists it; one that no transaction lists is an orphan
of a crash and is removed by the next writer. So the database alone says what the index contains.

What works on arrays is loaded when it is first needed: whether anything changed is known without it, and a parser can
start meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from msgspec import Struct

from codeinfo.languages import LANGUAGES
from codeinfo.model import Definition, FileKind, Import, IndexedFile, ManifestRow, Skip, SourceFile
from codeinfo.ports import CodeFile, FileLines, FileSymbols
from codeinfo.private_files import private_folder, try_lock, write_private
from codeinfo.store.database import (
    SCHEMA_VERSION,
    TABLES,
    Connections,
    Damage,
    Replaced,
    VectorsGone,
    check_symbols,
    check_vector_file,
    definition_from_row,
    import_from_row,
    load_meta,
    refuse_marked,
    translate_errors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from codeinfo.store.snapshot import Arrays, SqliteSnapshot


_AMONG = " WHERE path IN (SELECT value FROM json_each(?))"
_DIGEST_BYTES = 32
_SNAPSHOT_TRIES = 5  # a merge may unlink a vector file between our reading its name and opening it


class Counts(Struct, frozen=True):
    files: int
    chunks: int
    languages: dict[str, int]
    skipped: tuple[Skip, ...]  # files left out once they were read


class SqliteStore:
    """`folder` holds index.db and its vector files. With `recipe` a missing database is made, to be filled by it."""

    def __init__(self, folder: Path, *, recipe: str | None = None) -> None:
        self.folder = folder
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._arrays: Arrays | None = None
        self._manifest: tuple[str, Mapping[str, ManifestRow]] | None = None
        self._connections = Connections(folder / "index.db", SCHEMA_VERSION, _problem)
        if recipe is not None:
            with translate_errors(folder):
                private_folder(folder)
        self._hold = Hold(folder)
        refuse_marked(folder)
        with translate_errors(folder):
            if recipe is not None:
                first_rows = "INSERT INTO meta VALUES('generation', '0'), ('recipe', ?)"
                self._connections.create(TABLES, first_rows, (recipe,))
            self._connections.check()

    def close(self) -> None:
        self._connections.close()
        self._arrays = None
        with self._lock:
            self._manifest = None

    @property
    def damaged(self) -> bool:
        """Whether reading it has failed in a way that only a rebuild repairs."""
        return self._connections.damaged

    @property
    def is_replaced(self) -> bool:
        """Whether its folder is gone or another one by now: the index was cleared, and perhaps rebuilt."""
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

    def manifest(self) -> Mapping[str, ManifestRow]:
        """Read once a generation: a refresh looks at it several times."""
        query = "SELECT id, path, size, mtime_ns, sha256, language, kind, chunk_count FROM files"
        with self._connections.reading() as db:
            generation = _generation(db)
            with self._lock:
                known = self._manifest
            if known is None or known[0] != generation:
                kinds = {kind.value: kind for kind in FileKind}
                rows = (
                    ManifestRow(file_id, path, size, mtime_ns, sha256, language, kinds[kind], chunks)
                    for file_id, path, size, mtime_ns, sha256, language, kind, chunks in db.execute(query)
                )
                known = (generation, {row.path: row for row in rows})
                with self._lock:
                    self._manifest = known
            return known[1]

    def sources(self, paths: Sequence[str] | None = None) -> frozenset[SourceFile]:
        query, of_paths = "SELECT path, size, mtime_ns FROM files", () if paths is None else (json.dumps(paths),)
        with self._connections.reading() as db:
            return frozenset(map(SourceFile._make, db.execute(query + _AMONG if of_paths else query, of_paths)))

    def hashes(self, paths: Sequence[str]) -> dict[str, str]:
        with self._connections.reading() as db:
            return dict(db.execute("SELECT path, sha256 FROM files" + _AMONG, (json.dumps(paths),)))

    def counts(self) -> Counts:
        with self._connections.reading() as db:
            grouped: list[Any] = db.execute(
                """SELECT language, sum(skip = ''), sum(skip != ''), sum(iif(skip = '', chunk_count, 0))
                   FROM files GROUP BY 1 ORDER BY 2 DESC, 1"""
            ).fetchall()
            languages = {language: files for language, files, _, _ in grouped if files}
            skipped: Iterable[Any] = ()
            if any(left_out for _, _, left_out, _ in grouped):
                skipped = db.execute("SELECT path, skip, notes FROM files WHERE skip != '' ORDER BY path")
            chunks = sum(chunks for _, _, _, chunks in grouped)
            return Counts(sum(languages.values()), chunks, languages, tuple(Skip(*row) for row in skipped))

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        from codeinfo.store.snapshot import SqliteSnapshot

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
        from codeinfo.store.snapshot import load_arrays

        with self._loading:  # other threads need the same arrays and would only slow this down
            known = self._arrays
            if known is None or _generation(db) != str(known.generation):
                meta = load_meta(db)
                known = load_arrays(db, self.folder, int(meta["generation"]), meta.get("complete") == "1")
                self._arrays = known
            return known

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
        from codeinfo.store.snapshot import vectors_of_file

        with self._connections.reading() as db:
            for (file_id,) in db.execute("SELECT id FROM files WHERE sha256 = ?", (sha256,)):
                found = vectors_of_file(db, self.folder, file_id)
                if found is not None:
                    return found
        return None

    def digest(self) -> str:
        from codeinfo.store.check import content_digest

        with self._connections.reading() as db:
            return content_digest(db, self._arrays_of(db))

    def check_vector_files(self) -> None:
        """Whether each vector file is there, in its size, without reading any; raises IndexDamaged."""
        query = "SELECT vector_file, row_count * dimension * 4 FROM segments WHERE vector_file != '' AND row_count > 0"
        for attempt in range(_SNAPSHOT_TRIES):
            with self._connections.reading() as db:
                try:
                    listed: list[Any] = db.execute(query).fetchall()
                    for name, size in listed:
                        check_vector_file(self.folder / name, size)
                except VectorsGone:
                    if attempt == _SNAPSHOT_TRIES - 1:
                        raise
                    continue
                return

    def verify(self) -> None:
        """Read everything once and check it; raises IndexDamaged."""
        with self._connections.reading() as db:
            if found := _problem(db, self.folder):
                raise Damage(found)

    # --- writing ---

    def warm_up(self) -> None:
        import codeinfo.store.segments  # noqa: F401

    def apply(self, files: Sequence[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile]) -> None:
        from codeinfo.store.segments import insert_files, remove_files, write_vectors

        with translate_errors(self.folder):
            vectors = write_vectors(self.folder, [file.vectors for file in files if file.vectors is not None])
        with self._writing() as db:
            remove_files(db, (*removed, *(file.source.path for file in files)))
            db.executemany(
                "UPDATE files SET size = ?, mtime_ns = ? WHERE path = ?",
                ((source.size, source.mtime_ns, source.path) for source in touched),
            )
            insert_files(db, files, vectors)

    def finish(self, meta: Mapping[str, str]) -> None:
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", {**meta, "complete": "1"}.items())
        while self._merge_once():
            pass
        self._remove_orphans()

    def _merge_once(self) -> bool:
        """Fold one crowd of segments into one. The caller holds the index lock, so no other writer interferes."""
        from codeinfo.store.segments import merge_segments, plan_merge, write_vectors

        with self._connections.reading() as db:
            plan = plan_merge(db)
            if plan is None:
                return False
            with translate_errors(self.folder):
                vectors = write_vectors(self.folder, plan.vectors(db, self.folder))
        with self._writing() as db:
            merge_segments(db, plan, vectors)
        return True

    def _remove_orphans(self) -> None:
        with self._connections.reading() as db:
            listed = {row[0] for row in db.execute("SELECT vector_file FROM segments")}
        for path in self.folder.glob("vectors-*.f32"):
            if path.name not in listed:
                path.unlink(missing_ok=True)


def _problem(db: apsw.Connection, folder: Path) -> str:
    from codeinfo.store.check import problem

    return problem(db, folder)


def _generation(db: apsw.Connection) -> str:
    found = db.execute("SELECT value FROM meta WHERE key = 'generation'").fetchall()
    return str(found[0][0]) if found else ""


class Hold:
    """Keeps a build from being removed for as long as a store of it can be used; the kernel lets go for the dead."""

    def __init__(self, folder: Path) -> None:
        self._handle = -1
        try:
            self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            locked = try_lock(self._handle, folder, shared=True)  # whoever removes a build locks it first
            if not locked or not os.path.samestat(os.fstat(self._handle), os.stat(folder)):
                raise Replaced(folder)
        except FileNotFoundError:
            raise Replaced(folder) from None

    def is_of(self, folder: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(folder))
        except OSError:
            return False

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


# --- code questions -----------------------------------------------------------------------------------------------

_DEFINITION = "name, qualified, kind, signature, doc, start_line, end_line, exported, bases"
_MEMBERS = "('method', 'field', 'property', 'parameter', 'prototype')"
_WITH_EXTENSIONS = ", ".join(f"'{language.name}'" for language in LANGUAGES if language.names.extensions)
_EXTENSION_FUNCTIONS = (
    f"kind IN ('method', 'property') AND file_id IN (SELECT id FROM files WHERE language IN ({_WITH_EXTENSIONS}))"
)
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
        import numpy as np

        from codeinfo.store.segments import decode_posting

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
    """A derived file kept with the index, or None where there is none or it is damaged: it can be made again."""
    try:
        stored = (store.folder / name).read_bytes()
    except OSError:
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


def version_beside(store: SqliteStore, name: str) -> tuple[str, int, int] | None:
    """Which version of a derived file there is, None where there is none: it is only ever replaced as a whole."""
    path = f"{store.folder}/{name}"
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_ino, status.st_mtime_ns


def write_beside(store: SqliteStore, name: str, data: bytes) -> None:
    """Replace a derived file as a whole, with its checksum. Losing it costs time only, so a full disk is no failure."""
    path = Path(store.folder, name)
    temporary = path.with_name(f".{name}-{os.getpid()}")
    try:
        write_private(temporary, hashlib.sha256(data).digest() + data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
