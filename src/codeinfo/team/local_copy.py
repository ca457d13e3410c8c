"""The Store port over the team's PostgreSQL, which is the only truth, with an ordinary SQLite build as its local copy:
whatever reads an index reads that copy, so results are those of a local index.

A write is committed in PostgreSQL first, then applied to the copy. The copy remembers which generation it reflects;
`pull` brings it up to date, be it after a crash in between, behind another server's work, or from nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import Busy, IndexDamaged
from codeinfo.model import IndexedFile, NextStep, SourceFile, to_run
from codeinfo.ports import NOTHING_KEPT, Retention, StoredFile
from codeinfo.private_files import private_folder, replace_file
from codeinfo.store.database import translate_errors
from codeinfo.store.sqlite import SqliteStore
from codeinfo.team.database import Connection
from codeinfo.team.store import (
    NAMED_TREE,
    WORK_TREE,
    Reached,
    TeamTree,
    TreeRow,
    attach,
    collect,
    create_tree,
    decode_file,
    drop_tree,
    finish_tree,
    set_entries,
    store_files,
    unused_trees,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PULL_CHUNKS = 8192  # that are fetched and applied at once
_REACHED = "team"  # the key under which the local copy has the generation that it reflects


class Entry(Struct, frozen=True):
    """A path of a tree and what it has there; a file of None was removed."""

    source: SourceFile
    file: int | None
    sha256: str
    brought_back: bool
    chunks: int


class FileDamaged(IndexDamaged):
    """A stored file does not match its checksum. The local copy is sound, and the file is never used again."""

    code = "STORE_DAMAGED"


class TeamStore(SqliteStore):
    """`folder` holds the local copy. Nothing is asked of the database until something is written or pulled, so that
    searches go on without it."""

    def __init__(
        self,
        folder: Path,
        tree: str,
        place: TeamTree,
        *,
        recipe: str | None = None,
        beside: Path | None = None,
        afresh: bool = False,
    ) -> None:
        """What lies in the folder `beside` belongs to the tree as a whole. With `afresh` nothing that the team has is
        used again: every file is to be stored, and replaces what it has."""
        self.place = place
        self._beside = beside
        self._afresh = afresh
        self._next: Reached | None = None  # what the local transaction to come will have reached
        self._contents: frozenset[str] | None = None  # hashes of what the family has, for this run
        super().__init__(folder, tree, recipe=recipe)

    @cached_property
    def family(self) -> str:
        """The repository that the project was forked from, or itself: their files are stored once."""
        query, place = "SELECT family FROM projects WHERE identity = %s", self.place
        found = place.database.read(lambda db: db.execute(query, (place.identity,)).fetchall())
        return str(found[0][0]) if found else place.identity

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        with super()._writing() as db:
            yield db
            if self._next is not None:
                value = msgspec.json.encode(self._next).decode()
                db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?, ?)", (self._tree, _REACHED, value))

    @contextmanager
    def _reaching(self, reached: Reached | None) -> Iterator[None]:
        self._next = reached
        try:
            yield
        finally:
            self._next = None

    def reached(self) -> Reached | None:
        """The generation that the local copy reflects."""
        value = self.meta().get(_REACHED)
        return msgspec.json.decode(value, type=Reached) if value else None

    # --- reading what only the team has ---

    def stored(self, paths: Sequence[str]) -> dict[tuple[str, str], list[StoredFile]]:
        if self._afresh:
            return {}
        query = """SELECT f.path, f.sha256, f.id, f.skip, f.brought_back FROM files f
                   WHERE f.family = %s AND f.recipe = %s AND f.path = ANY(%s) AND f.id NOT IN (
                     SELECT e.file FROM entries e JOIN trees t ON t.id = e.tree JOIN projects p ON p.id = t.project
                     WHERE p.identity = %s AND t.name = %s AND t.recipe = %s AND e.file IS NOT NULL)"""
        place, found = self.place, dict[tuple[str, str], list[StoredFile]]()
        asked = (self.family, self.recipe, list(paths), place.identity, place.name, self.recipe)
        for path, sha256, *stored in place.database.read(lambda db: db.execute(query, asked).fetchall()):
            found.setdefault((path, sha256), []).append(StoredFile(*stored))
        return found

    def vectors_by_hash(self, sha256: str) -> NDArray[np.float32] | None:
        found = super().vectors_by_hash(sha256)
        if found is not None or self._afresh:
            return found
        place, query = self.place, "SELECT id FROM files WHERE family = %s AND recipe = %s AND sha256 = %s LIMIT 1"
        if self._contents is None:  # most of what is asked for is new to the family: one question answers that
            everything = "SELECT DISTINCT sha256 FROM files WHERE family = %s AND recipe = %s AND chunk_count > 0"
            rows = place.database.read(lambda db: db.execute(everything, (self.family, self.recipe)).fetchall())
            self._contents = frozenset(row[0] for row in rows)
        if sha256 not in self._contents:
            return None
        asked = (self.family, self.recipe, sha256)
        ids = [row[0] for row in place.database.read(lambda db: db.execute(query, asked).fetchall())]
        for file in self._fetch(ids).values():
            return file.vectors  # type: ignore[no-any-return]
        return None

    def _fetch(self, ids: Sequence[int]) -> dict[int, IndexedFile]:
        """Stored files by id; raises FileDamaged where one is not as it was stored."""
        query = "SELECT id, path, payload, checksum FROM files WHERE id = ANY(%s)"
        found = {}
        for number, path, payload, checksum in self.place.database.read(
            lambda db: db.execute(query, (list(ids),)).fetchall()
        ):
            if hashlib.sha256(payload).digest() != checksum:
                raise self._set_aside(number, path)
            found[number] = decode_file(payload)
        return found

    def _set_aside(self, file: int, path: str) -> FileDamaged:
        """Its recipe becomes one that nobody has, and its entries look changed: the next index of the tree stores it
        again."""
        with self.place.database.transaction() as db:
            aside = "UPDATE files SET recipe = 'damaged ' || id || ' ' || recipe WHERE id = %s"
            db.execute(f"{aside} AND NOT recipe ^@ 'damaged '", (file,))
            db.execute("UPDATE entries SET mtime_ns = -1 WHERE file = %s", (file,))
        return FileDamaged(
            f"{path} of {self.place.identity} is damaged in the team store and was set aside",
            next_step=NextStep(
                "Index it again, in its folder by ", to_run("index", full=True), ", and check the disk of the database"
            ),
        )

    # --- the local copy ---

    def is_behind(self, *, patient: bool) -> bool:
        """Whether the team has another generation than the local copy. Who is not `patient` is answered at once, also
        where the database cannot be reached."""
        read = self.place.database.read
        _, now = read(self._current, quick=True) if patient else read(self._current, patience_s=0, quick=True)
        return now != self.reached()

    def pull(self) -> bool:
        """Bring the local copy up to date with the team; returns whether it was behind. The caller holds the lock of
        the local index. It may end at any point: what is missing is pulled the next time."""
        reached = self.reached()
        row, now = self.place.database.read(self._current, quick=True)
        if row is None:
            if reached is not None:  # nobody has it any more, so what is here is to be stored again
                self._forget()
            return reached is not None
        self.place.database.on_pull(now != reached)
        if now == reached:
            return False
        since = reached.generation if reached is not None and self._is_known(reached) else None
        entries = self.place.database.read(lambda db: _entries(db, row.id, since))
        gone = {entry.source.path for entry in entries if entry.file is None}
        if since is None:
            gone = {source.path for source in self.sources()} - {entry.source.path for entry in entries if entry.file}
        for files, reused in self._missing([entry for entry in entries if entry.file is not None]):
            super().apply(files, (), (), reused)
        self._fetch_attachments(row.id)
        kept = [entry.source for entry in entries if entry.file is not None]
        if row.complete:
            super().apply((), sorted(gone), kept)
            with self._reaching(now):
                super().finish(row.meta)
        else:
            with self._reaching(now):
                super().apply((), sorted(gone), kept)
        return True

    def _current(self, db: Connection) -> tuple[TreeRow | None, Reached | None]:
        """The tree as the database has it, and its generation."""
        query = f"{NAMED_TREE} AND t.name = %s AND t.recipe = %s"
        found = db.execute(query, ([self.place.identity], self.place.name, self.recipe)).fetchall()
        if not found:
            return None, None
        row = TreeRow(*found[0])
        return row, row.reached

    def _is_known(self, reached: Reached) -> bool:
        query = "SELECT 1 FROM generations WHERE tree = %s AND generation = %s AND token = %s"
        asked = (reached.tree, reached.generation, reached.token)
        return bool(self.place.database.read(lambda db: db.execute(query, asked).fetchall(), quick=True))

    def _missing(self, entries: Sequence[Entry]) -> Iterator[tuple[list[IndexedFile], list[tuple[SourceFile, int]]]]:
        """What the local copy lacks of entries, in batches: files to insert, and ones that another tree has here."""
        query = (
            "SELECT e.path, f.sha256, f.brought_back FROM entries e JOIN files f ON f.id = e.file_id WHERE e.tree = ?"
        )
        with self._connections.reading() as db:
            here = {(path, sha256, bool(back)) for path, sha256, back in db.execute(query, (self._tree,))}
        local = super().stored([entry.source.path for entry in entries])
        reused, wanted = list[tuple[SourceFile, int]](), list[Entry]()
        for entry in entries:
            versions = local.get((entry.source.path, entry.sha256), ())
            known = next((file for file in versions if file.brought_back == entry.brought_back), None)
            if known is not None:
                reused.append((entry.source, known.file_id))
            elif (entry.source.path, entry.sha256, entry.brought_back) not in here:
                wanted.append(entry)
        yield [], reused
        batch, chunks = list[Entry](), 0
        for entry in sorted(
            wanted, key=lambda entry: entry.file or 0
        ):  # as they were stored: the order of rows is theirs
            batch.append(entry)
            chunks += entry.chunks
            if chunks >= _PULL_CHUNKS:
                yield from self._inserted(batch)
                batch, chunks = [], 0
        yield from self._inserted(batch)

    def _inserted(self, entries: Sequence[Entry]) -> Iterator[tuple[list[IndexedFile], list[tuple[SourceFile, int]]]]:
        found = self._fetch([entry.file for entry in entries if entry.file is not None])
        files = [replace(found[entry.file], source=entry.source) for entry in entries if entry.file in found]
        for with_vectors in (True, False):  # a segment has the vectors of all its rows, or of none
            part = [file for file in files if (file.vectors is not None or not file.parsed.chunks) == with_vectors]
            if part:
                yield part, []

    def _fetch_attachments(self, tree: int) -> None:
        """One that is damaged is left out: searches do without its commit messages until it is made again."""
        if self._beside is None:
            return
        known = [hashlib.sha256(self._attachment(name)).digest() for name in _attached()]
        query = (
            "SELECT name, data, checksum FROM attachments WHERE tree = %s AND name = ANY(%s) AND checksum <> ALL(%s)"
        )
        asked = (tree, list(_attached()), known)
        for name, data, checksum in self.place.database.read(lambda db: db.execute(query, asked).fetchall()):
            if hashlib.sha256(data).digest() == checksum:
                with translate_errors(self.folder):
                    private_folder(self._beside)
                    replace_file(self._beside / name, data)

    def _attachment(self, name: str) -> bytes:
        try:
            return (self._beside / name).read_bytes() if self._beside else b""
        except FileNotFoundError:
            return b""

    def _forget(self) -> None:
        super().apply((), [source.path for source in self.sources()], ())
        with self._connections.writing() as db:
            db.execute("DELETE FROM meta WHERE tree = ? AND key IN (?, 'complete')", (self._tree, _REACHED))

    # --- writing ---

    def apply(
        self,
        files: Sequence[IndexedFile],
        removed: Sequence[str],
        touched: Sequence[SourceFile],
        reused: Sequence[tuple[SourceFile, int]] = (),
    ) -> None:
        """The ids of `reused` are the team's."""
        if not (files or removed or touched or reused):
            return
        with self._committing() as (db, row):
            ids = store_files(db, row.family, row.recipe, files, afresh=self._afresh)
            placed = [*((file.source, number) for file, number in zip(files, ids, strict=True)), *reused]
            reached = Reached(row.name, row.id, *set_entries(db, row.id, placed, removed, touched))
        if reused:  # the local copy may lack some of them
            super().apply(files, removed, touched)
            self.pull()
        else:
            with self._reaching(reached):
                super().apply(files, removed, touched)

    def finish(
        self, meta: Mapping[str, str], keep: Retention = NOTHING_KEPT, trees: Collection[str] | None = None
    ) -> None:
        with self._committing() as (db, row):
            if self._afresh:
                query = "SELECT path FROM entries WHERE tree = %s AND file IS NOT NULL"
                gone = {path for (path,) in db.execute(query, (row.id,))} - self.manifest().keys()
                set_entries(db, row.id, (), gone)
            for name in _attached():
                if data := self._attachment(name):
                    attach(db, row.id, name, data)
            reached = Reached(row.name, row.id, *finish_tree(db, row.id, meta, meta.get("revision", "")))
            for tree in (*self._ended(trees), *unused_trees(db, row)):
                drop_tree(db, tree)
        with self._reaching(reached):
            super().finish(meta, keep, trees)
        self._contents, self._afresh = None, False
        with self.place.database.transaction() as db:
            collect(db, self.family, self.recipe, keep)

    @contextmanager
    def _committing(self) -> Iterator[tuple[Connection, TreeRow]]:
        """A transaction of the team's database, in which the tree is as the local copy has it."""
        place, reached = self.place, self.reached()
        with place.database.transaction() as db:
            row = create_tree(db, place.identity, self.family, place.name, self.recipe)
            begins = reached is None and (self._afresh or not row.generation)
            if not begins and (reached is None or (row.id, row.generation) != (reached.tree, reached.generation)):
                raise Busy(
                    f"{place.name} of {place.identity} was just changed by another server or worker",
                    next_step="Try again in a moment",
                )
            yield db, row

    def _ended(self, trees: Collection[str] | None) -> Iterable[int]:
        """The trees of folders that are no longer here, where `trees` are those that are left."""
        query = "SELECT t.name, m.value FROM trees t JOIN meta m ON m.tree = t.id AND m.key = ?"
        with self._connections.reading() as db:
            rows: list[Any] = db.execute(query, (_REACHED,)).fetchall() if trees is not None else []
        ended = (msgspec.json.decode(value, type=Reached) for name, value in rows if name not in (trees or ()))
        return [reached.tree for reached in ended if reached.name.startswith(WORK_TREE)]


def _entries(db: Connection, tree: int, since: int | None) -> list[Entry]:
    """What a tree has, or what changed in it after a generation."""
    query = """SELECT e.path, e.size, e.mtime_ns, e.file, f.sha256, f.brought_back, f.chunk_count
               FROM entries e LEFT JOIN files f ON f.id = e.file
               WHERE e.tree = %s AND (%s::bigint IS NULL OR e.generation > %s)"""
    return [Entry(SourceFile(*row[:3]), *row[3:]) for row in db.execute(query, (tree, since, since))]


def _attached() -> tuple[str, ...]:
    """The names of what belongs to a tree as a whole."""
    from codeinfo.store.commits import FILE

    return (FILE,)
