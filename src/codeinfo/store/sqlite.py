"""The Store port over one SQLite file in WAL mode, with vector files beside it: one of the trees in the file.

A vector file is written and synced before the transaction that lists it; one that no transaction lists is left over
from a crash and is removed by the next writer. So the database alone says what the index contains.

Array code is imported on first use: whether anything changed is known without it, and a parser can start meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from mmap import ACCESS_READ, mmap
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import apsw
from msgspec import Struct

from codeinfo.errors import OutOfSpace
from codeinfo.files import is_at, open_regular, private_folder, read_private, try_lock, write_private
from codeinfo.languages import LANGUAGES
from codeinfo.model import Chunk, Definition, FileKind, Import, IndexedFile, ManifestRow, Skip, SourceFile, source_file
from codeinfo.ports import (
    NOTHING_KEPT,
    CodeFile,
    Extent,
    FileLines,
    FileSymbols,
    Placed,
    Retention,
    StoredFile,
    group_stored,
)
from codeinfo.store import database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from codeinfo.store.snapshot import SqliteSnapshot


Value = TypeVar("Value")

# Begins the content hash of what a user of a team has uploaded. Nobody can check its vectors: they stay in that tree.
UPLOADED = "user-"
_AMONG = " AND e.path IN (SELECT value FROM json_each(?))"
_DIGEST_BYTES = 32
_VECTOR_TRIES = 5


class Counts(Struct, frozen=True):
    files: int
    chunks: int
    languages: dict[str, int]
    skipped: tuple[Skip, ...]  # files left out after reading


class TreeGone(database.Replaced):
    """The build does not have the tree: it was cleared, or lost with a damaged build."""


class SqliteStore:
    """`folder` holds index.db and its vector files. With `recipe` a missing database or tree is created."""

    def __init__(self, folder: Path, tree: str, *, recipe: str | None = None) -> None:
        self.folder = folder
        self.derived = folder / tree  # data computed from the tree, removed with it
        self._loading = threading.Lock()
        self._snapshot: SqliteSnapshot | None = None  # of the generation that was last read
        self._known: dict[str, tuple[int, Any]] = {}  # by name, with the generation it was read from
        self._connections = database.Connections(folder / "index.db", _problem)
        if recipe is not None:
            with database.translate_errors(folder):
                private_folder(folder)
        self._hold = Hold(folder)
        database.refuse_marked(folder)
        with database.translate_errors(folder):
            if recipe is not None:
                self._connections.create(recipe)
            self._connections.check()
        self._tree = self._tree_id(tree, create=recipe is not None)

    def _tree_id(self, name: str, *, create: bool) -> int:
        query = "SELECT id FROM trees WHERE name = ?"
        with self._connections.reading() as db:
            rows: list[Any] = db.execute(query, (name,)).fetchall()
        if not rows:
            if not create:
                raise TreeGone(self.folder)
            with self._connections.writing() as db:
                db.execute("INSERT INTO trees(name) VALUES(?)", (name,))
                rows = [(db.last_insert_rowid(),)]
                db.execute("INSERT INTO meta VALUES(?, 'generation', '0')", rows[0])
        return int(rows[0][0])

    def close(self) -> None:
        self._connections.close()
        self._snapshot = None
        self._known.clear()

    @property
    def damaged(self) -> bool:
        """Whether reading it has failed in a way that only a rebuild repairs."""
        return self._connections.damaged

    @property
    def is_replaced(self) -> bool:
        """Whether its folder is gone or replaced: the index was cleared, and perhaps rebuilt."""
        return not self._hold.is_of(self.folder)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._connections.writing() as db:
            yield db
            db.execute("UPDATE meta SET value = value + 1 WHERE tree = ? AND key = 'generation'", (self._tree,))

    # --- reading ---

    @cached_property
    def recipe(self) -> str:
        """The recipe it was built with: constant within a build."""
        return self.meta()["recipe"]

    def meta(self) -> dict[str, str]:
        with self._connections.reading() as db:
            self._version(db)
            return database.load_meta(db, self._tree)

    def state(self) -> str:
        """Identifies the tree's content: differs after every change."""
        with self._connections.reading() as db:
            return f"{self._tree} {self._version(db).generation}"

    def manifest(self) -> Mapping[str, ManifestRow]:
        """A refresh uses it several times."""
        query = """SELECT e.file_id, e.path, e.size, e.mtime_ns, f.sha256, f.language, f.kind, f.chunk_count
                   FROM entries e JOIN files f ON f.id = e.file_id WHERE e.tree = ?"""
        kinds = {kind.value: kind for kind in FileKind}

        def read() -> Mapping[str, ManifestRow]:
            rows = (ManifestRow(*(*row[:6], kinds[row[6]], row[7])) for row in db.execute(query, (self._tree,)))
            return {row.path: row for row in rows}

        with self._connections.reading() as db:
            return self._once("manifest", db, read)

    def _once(self, name: str, db: apsw.Connection, read: Callable[[], Value]) -> Value:
        """What `read` finds, read once per generation."""
        generation = self._version(db).generation
        cached = self._known.get(name)
        if cached is None or cached[0] != generation:
            cached = self._known[name] = generation, read()
        return cast(Value, cached[1])

    def sources(self, paths: Sequence[str] | None = None) -> frozenset[SourceFile]:
        query = "SELECT path, size, mtime_ns FROM entries e WHERE tree = ?"
        among = () if paths is None else (json.dumps(paths),)
        with self._connections.reading() as db:
            rows = db.execute(query + _AMONG if among else query, (self._tree, *among))
            return frozenset(map(source_file, rows))

    def contents(self, tree: str) -> dict[SourceFile, str]:
        """The files of any tree of the build, with their content hashes."""
        query = """SELECT e.path, e.size, e.mtime_ns, f.sha256 FROM entries e JOIN files f ON f.id = e.file_id
                   WHERE e.tree = (SELECT id FROM trees WHERE name = ?)"""
        with self._connections.reading() as db:
            return {SourceFile(path, size, at): sha256 for path, size, at, sha256 in db.execute(query, (tree,))}

    def hashes(self, paths: Sequence[str]) -> dict[str, str]:
        query = "SELECT e.path, f.sha256 FROM entries e JOIN files f ON f.id = e.file_id WHERE e.tree = ?" + _AMONG
        with self._connections.reading() as db:
            return dict(db.execute(query, (self._tree, json.dumps(paths))))

    def find_stored(self, paths: Sequence[str]) -> dict[tuple[str, str], list[StoredFile]]:
        query = """SELECT f.path, f.sha256, f.id, f.skip, f.brought_back FROM json_each(?) p
                   JOIN files f ON f.path = p.value WHERE f.id NOT IN (SELECT file_id FROM entries WHERE tree = ?)"""
        with self._connections.reading() as db:
            is_alone = database.is_whole(db, self._tree)
            return group_stored(() if is_alone else db.execute(query, (json.dumps(paths), self._tree)))

    def counts(self) -> Counts:
        with self._connections.reading() as db:
            grouped: list[Any] = db.execute(
                """SELECT language, sum(skip = ''), sum(skip != ''), sum(iif(skip = '', chunk_count, 0))
                   FROM entries e JOIN files f ON f.id = e.file_id WHERE e.tree = ? GROUP BY 1 ORDER BY 2 DESC, 1""",
                (self._tree,),
            ).fetchall()
            languages = {language: files for language, files, _, _ in grouped if files}
            skipped: Iterable[Any] = ()
            if any(left_out for _, _, left_out, _ in grouped):
                skipped = db.execute(
                    """SELECT e.path, f.skip, f.notes FROM entries e JOIN files f ON f.id = e.file_id
                       WHERE e.tree = ? AND f.skip != '' ORDER BY e.path""",
                    (self._tree,),
                )
            chunks = sum(chunks for _, _, _, chunks in grouped)
            return Counts(sum(languages.values()), chunks, languages, tuple(Skip(*row) for row in skipped))

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        with self._reading_vectors(self._snapshot_in) as snapshot:
            yield snapshot

    @contextmanager
    def _reading_vectors(self, open_files: Callable[[apsw.Connection], Value]) -> Iterator[Value]:
        """A transaction in which `open_files` found all listed vector files, since a merge may unlink one meanwhile."""
        for attempt in range(_VECTOR_TRIES):
            with self._connections.reading() as db:
                try:
                    opened = open_files(db)
                except database.VectorsGone:
                    if attempt == _VECTOR_TRIES - 1:
                        raise
                    continue
                yield opened
                return

    def _snapshot_in(self, db: apsw.Connection) -> SqliteSnapshot:
        from codeinfo.store.snapshot import SqliteSnapshot

        with self._loading:  # other threads need the same arrays and would only slow this down
            snapshot, version = self._snapshot, self._version(db)
            if snapshot is None or snapshot.version != version:
                complete = database.load_meta(db, self._tree).get("complete") == "1"
                snapshot = self._snapshot = SqliteSnapshot(db, self.folder, self._tree, version, complete)
            return snapshot.within(db)

    def _version(self, db: apsw.Connection) -> database.Version:
        query = """SELECT (SELECT value FROM meta WHERE tree = id AND key = 'generation'),
                   (SELECT value FROM meta WHERE tree = ? AND key = 'layout') FROM trees WHERE id = ?"""
        rows: list[Any] = db.execute(query, (database.OF_BUILD, self._tree)).fetchall()
        if not rows:
            raise TreeGone(self.folder)
        try:
            return database.Version(*map(int, rows[0]))
        except (TypeError, ValueError) as error:
            raise database.Damage("its metadata is inconsistent") from error

    def members(self, db: apsw.Connection) -> frozenset[int] | None:
        """The ids of the tree's files; None if it has all there are, as most trees do."""
        if database.is_whole(db, self._tree):
            return None
        query = "SELECT file_id FROM entries WHERE tree = ?"
        return self._once("members", db, lambda: frozenset(row[0] for row in db.execute(query, (self._tree,))))

    def symbols(self, path: str) -> FileSymbols | None:
        query = """SELECT e.file_id, coalesce(data, x'') FROM entries e LEFT JOIN uses u ON u.file_id = e.file_id
                   WHERE tree = ? AND path = ?"""
        with self._connections.reading() as db:
            for file_id, references in list(db.execute(query, (self._tree, path))):
                imports = f"SELECT {database.IMPORT} FROM imports WHERE file_id = ? ORDER BY ordinal"
                imported = tuple(database.import_from_row(*row) for row in db.execute(imports, (file_id,)))
                return FileSymbols(tuple(database.read_definitions(db, file_id)), imported, references)
        return None

    def vectors_by_hash(self, sha256: str) -> NDArray[np.float32] | None:
        from codeinfo.store.snapshot import file_vectors

        with self._connections.reading() as db:
            # Without chunks there are no vectors, and a project may have thousands of empty files.
            for (file_id,) in db.execute("SELECT id FROM files WHERE sha256 = ? AND chunk_count > 0", (sha256,)):
                if (vectors := file_vectors(db, self.folder, file_id)) is not None:
                    return vectors
        return None

    def earlier_version(self, path: str) -> tuple[Sequence[Chunk], NDArray[np.float32]] | None:
        from codeinfo.store.snapshot import file_vectors

        query = """SELECT id FROM files WHERE path = ? AND chunk_count > 0 AND substr(sha256, 1, ?) <> ?
                   ORDER BY id DESC LIMIT 1"""
        with self._connections.reading() as db:
            for (file_id,) in db.execute(query, (path, len(UPLOADED), UPLOADED)):
                if (vectors := file_vectors(db, self.folder, file_id)) is not None:
                    return database.read_chunks(db, file_id, path), vectors
        return None

    def check_vector_files(self) -> None:
        """Whether each vector file exists in its size, without reading any; raises IndexDamaged."""
        query = "SELECT vector_file, row_count, dimension FROM segments WHERE vector_file != '' AND row_count > 0"

        def check(db: apsw.Connection) -> None:
            for name, rows, dimension in list(db.execute(query)):
                database.check_vector_file(self.folder / name, rows, dimension)

        with self._reading_vectors(check):
            pass

    def verify(self) -> None:
        """Read everything once and check it; raises IndexDamaged."""
        with self._connections.reading() as db:
            if problem := _problem(db, self.folder):
                raise database.Damage(problem)

    # --- writing ---

    def warm_up(self) -> None:
        import codeinfo.store.segments  # noqa: F401

    def apply(
        self, files: Iterable[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile], reused: Placed = ()
    ) -> None:
        from codeinfo.store.segments import insert_files, place_files

        with self._writing() as db:
            place_files(db, self._tree, (*insert_files(db, self.folder, files), *reused), removed)
            db.executemany(
                "UPDATE entries SET size = ?, mtime_ns = ? WHERE tree = ? AND path = ?",
                ((source.size, source.mtime_ns, self._tree, source.path) for source in touched),
            )

    def finish(
        self, meta: Mapping[str, str], keep: Retention = NOTHING_KEPT, trees: Collection[str] | None = None
    ) -> None:
        with self._writing() as db:
            rows = ((self._tree, key, value) for key, value in {**meta, "complete": "1"}.items())
            db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?, ?)", rows)
        self.tidy(keep, trees)

    def tidy(self, keep: Retention, trees: Collection[str] | None) -> None:
        """Delete what is no longer kept, and all but these trees. The caller holds the family's lock."""
        from codeinfo.store.segments import collect, drop_tree

        with self._connections.writing() as db:
            if trees is not None:
                for (name,) in [row for row in db.execute("SELECT name FROM trees") if row[0] not in trees]:
                    drop_tree(db, name)
            collect(db, keep)
        while self._merge_once():
            pass
        self._remove_orphans()
        if self._connections.is_sparse():  # as after the first build, whose segments were merged
            with suppress(OutOfSpace):
                self.compact()

    def exclusive_share(self, revisions: Sequence[str]) -> float:
        """The number of chunks that only these trees have, relative to that of the work trees."""
        query = f"""WITH named AS (SELECT id FROM trees WHERE name IN (SELECT value FROM json_each(?))),
                    theirs AS (SELECT file_id FROM entries WHERE tree IN named),
                    used AS (SELECT file_id FROM entries WHERE tree IN
                             (SELECT id FROM trees WHERE name NOT GLOB '{database.REVISION}*'))
                    SELECT total(iif(id IN theirs AND id NOT IN used, chunk_count, 0)),
                    total(iif(id IN used, chunk_count, 0)) FROM files"""
        with self._connections.reading() as db:
            alone, used = database.only_row(db, query, (json.dumps(revisions),))
        return float(alone / max(used, 1))

    def compact(self) -> None:
        """Return deleted space to the disk, which takes as long as writing the rest."""
        self._connections.vacuum()

    def count_shared(self) -> tuple[int, int]:
        """The chunks of this tree that other work trees have too, and those of the build that no work tree has."""
        others = f"SELECT id FROM trees WHERE name NOT GLOB '{database.REVISION}*' AND id != ?1"
        query = f"""WITH here AS (SELECT file_id FROM entries WHERE tree = ?1),
                    there AS (SELECT file_id FROM entries WHERE tree IN ({others}))
                    SELECT total(iif(id IN here AND id IN there, chunk_count, 0)),
                    total(iif(id IN here OR id IN there, 0, chunk_count)) FROM files"""
        with self._connections.reading() as db:
            shared, unused = database.only_row(db, query, (self._tree,))
        return int(shared), int(unused)

    def _merge_once(self) -> bool:
        """Merge one crowd of segments. The caller holds the index lock, so no other writer interferes."""
        from codeinfo.store.segments import merge_segments, plan_merge, write_vectors

        with self._connections.reading() as db:
            plan = plan_merge(db)
            if plan is None:
                return False
            with database.translate_errors(self.folder):
                vectors = write_vectors(self.folder, plan.vectors(db, self.folder))
        with self._connections.writing() as db:
            merge_segments(db, plan, vectors)
            db.execute("UPDATE meta SET value = value + 1 WHERE tree = ? AND key = 'layout'", (database.OF_BUILD,))
        return True

    def _remove_orphans(self) -> None:
        with self._connections.reading() as db:
            vector_files = {row[0] for row in db.execute("SELECT vector_file FROM segments")}
        for path in self.folder.glob("vectors-*.i8"):
            if path.name not in vector_files:
                path.unlink(missing_ok=True)


def _problem(db: apsw.Connection, folder: Path) -> str:
    from codeinfo.store.snapshot import problem

    return problem(db, folder)


class Hold:
    """Keeps a build from being removed while a store of it can be used; the kernel releases it for dead processes."""

    _handle = -1  # of the class: a signal may end the process before the first line of `__init__`

    def __init__(self, folder: Path) -> None:
        try:
            self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            # Removing a build locks it first.
            if not (try_lock(self._handle, folder, shared=True) and is_at(folder, self._handle)):
                raise database.Replaced(folder)
        except FileNotFoundError:
            raise database.Replaced(folder) from None

    def is_of(self, folder: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(folder))
        except OSError:
            return False

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


# --- code questions -----------------------------------------------------------------------------------------------

_MEMBERS = "('method', 'field', 'property', 'parameter', 'prototype')"
_WITH_EXTENSIONS = ", ".join(f"'{language.name}'" for language in LANGUAGES if language.names.extensions)
_EXTENSION_FUNCTIONS = (
    f"kind IN ('method', 'property') AND file_id IN (SELECT id FROM files WHERE language IN ({_WITH_EXTENSIONS}))"
    " OR kind = 'method' AND signature LIKE '%(this %'"  # of C#
    # of a type in another file, in Go
    " OR kind = 'method' AND signature LIKE 'func (%' AND NOT EXISTS (SELECT 1 FROM definitions AS owner WHERE"
    " owner.file_id = definitions.file_id AND definitions.qualified = owner.qualified || '.' || definitions.name)"
)
_MANY = 500  # beyond this many files reading the whole table is faster than asking for each


@contextmanager
def code_facts(store: SqliteStore) -> Iterator[SqliteCodeFacts]:
    with store._connections.reading() as db:
        yield SqliteCodeFacts(store, db)


class SqliteCodeFacts:
    def __init__(self, store: SqliteStore, db: apsw.Connection) -> None:
        self._db = db
        self._tree = store._tree
        self._members = store.members(db)
        self.generation = store._version(db).generation

    def files(self) -> Sequence[CodeFile]:
        query = """SELECT f.id, f.path, f.language, f.kind, e.size, f.notes FROM entries e
                   JOIN files f ON f.id = e.file_id WHERE e.tree = ? AND f.skip = '' ORDER BY e.path"""
        return [CodeFile(*row) for row in self._db.execute(query, (self._tree,))]

    def outlines(self, file_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Definition]]:
        offered = f"(kind NOT IN {_MEMBERS} OR {_EXTENSION_FUNCTIONS})"
        query = f"SELECT file_id, {database.DEFINITION} FROM definitions WHERE {offered}"
        return ((row[0], database.definition_from_row(*row[1:])) for row in self._rows(query, file_ids))

    def definitions(self, file_id: int) -> list[Definition]:
        return database.read_definitions(self._db, file_id)

    def extents(self, file_id: int, first: int, last: int) -> list[Extent]:
        return database.read_extents(self._db, file_id, first, last)

    def definitions_named(self, name: str) -> list[tuple[int, Definition]]:
        query = f"SELECT file_id, {database.DEFINITION} FROM definitions WHERE name_key = ? AND name = ?"
        rows = self._of_tree(self._db.execute(query, (name.lower(), name)))
        return [(row[0], database.definition_from_row(*row[1:])) for row in rows]

    def check_symbols(self, file_ids: Iterable[int]) -> None:
        for file_id in file_ids:
            database.check_symbols(self._db, file_id)

    def imports(self, file_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Import]]:
        query = f"SELECT file_id, {database.IMPORT} FROM imports WHERE 1"
        return ((row[0], database.import_from_row(*row[1:])) for row in self._rows(query, file_ids))

    def references(self, file_ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        yield from self._rows("SELECT file_id, data FROM uses WHERE 1", file_ids)

    def files_with(self, terms: Sequence[str]) -> list[int]:
        import numpy as np

        from codeinfo.store.segments import decode_posting

        unique = list(dict.fromkeys(terms))
        by_term: dict[str, set[int]] = {term: set() for term in unique}
        marks = ",".join("?" * len(unique))
        for segment, count, owners in list(self._db.execute("SELECT id, row_count, file_ids FROM segments")):
            owner_ids = np.frombuffer(owners, np.int32, count)
            query = f"SELECT term, data FROM postings WHERE segment = ? AND term IN ({marks})"
            for term, data in self._db.execute(query, (segment, *unique)):
                posting = decode_posting(data)
                by_term[term].update(owner_ids[posting.rows[posting.tenths > 0]].tolist())
        matching = set.intersection(*by_term.values()) if by_term else set()
        return sorted(matching)

    def lines(self, file_id: int) -> FileLines:
        (path,) = database.only_row(self._db, "SELECT path FROM files WHERE id = ?", (file_id,))
        chunks = sorted(database.read_chunks(self._db, file_id, path), key=attrgetter("start_line"))
        return FileLines((chunk.start_line, chunk.text) for chunk in chunks)

    def _rows(self, query: str, file_ids: Sequence[int] | None) -> Iterator[tuple[Any, ...]]:
        """Rows of some files, or of all, which begin with a file's id: in stored order, a file's rows together."""
        if file_ids is None:
            yield from self._of_tree(self._db.execute(query))
        elif len(file_ids) > _MANY:
            ids = set(file_ids)
            yield from (row for row in self._db.execute(query) if row[0] in ids)
        elif file_ids:
            marks = ",".join("?" * len(file_ids))
            yield from self._db.execute(f"{query} AND file_id IN ({marks})", tuple(file_ids))

    def _of_tree(self, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        """Rows that begin with a file's id, without those of other trees."""
        members = self._members
        return rows if members is None else (row for row in rows if row[0] in members)


def read_beside(store: SqliteStore, name: str) -> bytes | None:
    """A derived file stored with the index, or None if there is none or it is damaged: it can be recreated."""
    try:
        stored = read_private(store.derived / name)
    except OSError:
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


def map_beside(store: SqliteStore, name: str) -> memoryview | None:
    """Like `read_beside`, reading only what is accessed: detecting damage is up to the caller."""
    try:
        with open(open_regular(store.derived / name), "rb") as file:
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))[_DIGEST_BYTES:]
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None


def version_beside(store: SqliteStore, name: str) -> tuple[str, int, int] | None:
    """The version of a derived file, None if there is none: it is only ever replaced as a whole."""
    path = f"{store.derived}/{name}"
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_ino, status.st_mtime_ns


def write_beside(store: SqliteStore, name: str, data: bytes) -> None:
    """Replace a derived file as a whole, with its checksum. Losing it only costs time, so a full disk is no failure,
    nor is one that cannot be written."""
    path = Path(store.derived, name)
    temporary = path.with_name(f".{name}-{os.getpid()}")
    try:
        private_folder(store.derived, store.folder)
        write_private(temporary, hashlib.sha256(data).digest() + data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
