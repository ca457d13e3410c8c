"""Projects, trees and their files in the team's database: what is stored, every statement that changes it, and
`TeamStore`, the Store port over it with an ordinary SQLite build as its local copy.

A write is committed in PostgreSQL first, then applied to the copy. The copy records which generation it reflects;
`pull` brings it up to date after a crash in between, after writes of another server, or from nothing.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from codeinfo.cache import batches
from codeinfo.errors import Busy, IndexDamaged, NotFound
from codeinfo.files import private_folder, replace_file
from codeinfo.model import IndexedFile, NextStep, SourceFile, json_decoder, msgpack_decoder, to_run
from codeinfo.operations.team import RemovedTeamProject, RemovedTeamUser
from codeinfo.ports import NOTHING_KEPT, Placed, Retention, StoredFile, group_stored
from codeinfo.store.database import translate_errors
from codeinfo.store.layout import COMMITS_FILE
from codeinfo.store.sqlite import UPLOADED, SqliteStore
from codeinfo.team.database import CHANGED, Connection, TeamDatabase

_FORMAT = 1  # of payloads
_GENERATIONS_KEPT = 200  # by name; a server that is further behind compares everything
_VERSIONS_KEPT = 3  # of one path that no tree has
_UNUSED_DAYS = 30
DROPPED = 0  # instead of the generation, if a tree was dropped
ENTRY_BYTES, TREE_BYTES = 200, 500  # about what a row takes besides its path, with its part of indexes
WORK_TREE = "work/"  # prefix of trees that belong to somebody's folder
FileKey = tuple[str, str, bool]  # path, content hash, whether an ignore file re-includes it


class TeamTree(Struct, frozen=True):
    """A tree of a project in the team's database, whether or not it exists yet."""

    database: TeamDatabase
    identity: str
    name: str

    def drop(self) -> None:
        """Remove it, if it belongs to a folder here; files that only it has go with the next tree that is finished."""
        if self.name.startswith(WORK_TREE):
            query = "SELECT t.id FROM trees t JOIN projects p ON p.id = t.project WHERE p.identity = %s AND t.name = %s"
            with self.database.transaction() as db:
                for (tree,) in db.execute(query, (self.identity, self.name)).fetchall():
                    drop_tree(db, tree)


class TreeRow(Struct, frozen=True):
    id: int
    identity: str
    family: str
    name: str
    recipe: str
    revision: str
    generation: int
    complete: bool
    meta: dict[str, str]
    token: str | None

    @property
    def reached(self) -> TreeGeneration:
        return TreeGeneration(self.name, self.id, self.generation, self.token or "")


class TreeGeneration(Struct, frozen=True, array_like=True):
    """A generation of a tree, by a unique name."""

    name: str
    tree: int
    generation: int
    token: str


class _Payload(Struct, frozen=True, array_like=True):
    format: int
    parsed: bytes  # the file without its vectors, compressed
    dimension: int  # 0: it has no vectors
    vectors: bytes  # hardly any smaller when compressed


def encode_file(file: IndexedFile) -> bytes:
    vectors = None if file.vectors is None else np.ascontiguousarray(file.vectors, np.float32)
    parsed = zlib.compress(msgspec.msgpack.encode(replace(file, vectors=None)), 1)
    dimension, data = (0, b"") if vectors is None else (vectors.shape[1], vectors.tobytes())
    return msgspec.msgpack.encode(_Payload(_FORMAT, parsed, dimension, data))


def unpack_file(payload: bytes, most: int = 1 << 31) -> tuple[bytes, NDArray[np.float32] | None]:
    """The encoded file and its vectors. Raises MsgspecError for malformed data, or ValueError as `inflate` does."""
    stored = msgpack_decoder(_Payload).decode(payload)
    vectors = np.frombuffer(stored.vectors, np.float32).reshape(-1, stored.dimension) if stored.dimension else None
    return inflate(stored.parsed, most), vectors


def inflate(data: bytes, most: int) -> bytes:
    """Raises ValueError for data that is malformed, or has more than `most` bytes unpacked."""
    unpacking = zlib.decompressobj()
    try:
        unpacked = unpacking.decompress(data, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof:
        raise ValueError(f"cut off, or too large: it may have {most:,} bytes unpacked")
    return unpacked


def decode_file(payload: bytes) -> IndexedFile:
    parsed, vectors = unpack_file(payload)
    return replace(msgpack_decoder(IndexedFile).decode(parsed), vectors=vectors)


# --- tables --------------------------------------------------------------------------------------------------------

_ROW = """t.id, p.identity, p.family, t.name, t.recipe, t.revision, t.generation, t.complete, t.meta,
          (SELECT g.token FROM generations g WHERE g.tree = t.id AND g.generation = t.generation)
          FROM trees t JOIN projects p ON p.id = t.project"""
NAMED_TREE = f"SELECT {_ROW} WHERE p.identity = ANY(%s)"
_BEST_FIRST = "t.name ^@ 'work/', t.name <> p.default_ref, t.indexed_at DESC NULLS LAST"


def open_tree(database: TeamDatabase, user: int | None, place: str, ref: str, recipe: str = "") -> TreeRow | None:
    """The tree of a project that a user may see (None: the service, which sees all): by its name, a branch, a tag or
    the beginning of a commit, "" being the default branch, otherwise what was indexed last, work trees after all
    others. `place` is the project's identity or a path in it. Of several recipes the requested one goes first."""
    query = f"""{NAMED_TREE} AND t.complete AND (
                  t.name = ANY(%s) OR (%s = '' AND NOT t.name ^@ 'commit/')
                  OR (length(%s) >= 7 AND NOT t.name ^@ %s AND (t.revision ^@ %s OR t.name ^@ %s)))
                ORDER BY length(p.identity) DESC, t.recipe <> %s, t.name <> ALL(%s), {_BEST_FIRST} LIMIT 1"""
    names = [ref, f"refs/heads/{ref}", f"refs/tags/{ref}", f"commit/{ref}"] if ref else []
    values = (names, ref, ref, WORK_TREE, ref, f"commit/{ref}", recipe, names)
    rows = database.rows(query, (_prefixes(place), *values), user, quick=True)
    return TreeRow(*rows[0]) if rows else None


def _prefixes(place: str) -> list[str]:
    parts = place.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


class ProjectRow(Struct, frozen=True):
    """A project with its newest tree, which may be unfinished."""

    identity: str
    tree: str
    complete: bool
    meta: dict[str, str]


def newest_trees(database: TeamDatabase, user: int | None, recipe: str) -> list[TreeRow]:
    """The tree of each project that a user may see, by one recipe, chosen like `open_tree`; the newest first."""
    query = f"""SELECT DISTINCT ON (p.id) {_ROW} WHERE t.complete AND t.recipe = %s AND NOT t.name ^@ 'commit/'
                ORDER BY p.id, {_BEST_FIRST}"""
    rows = database.rows(query, (recipe,), user)
    return sorted((TreeRow(*row) for row in rows), key=lambda row: row.meta.get("indexed_at", ""), reverse=True)


def list_projects(database: TeamDatabase, user: int | None) -> list[ProjectRow]:
    """What a user may see, by identity; work trees only if nothing else of the project is indexed."""
    query = f"""SELECT DISTINCT ON (p.identity) p.identity, t.name, t.complete, t.meta
                FROM projects p JOIN trees t ON t.project = p.id WHERE NOT t.name ^@ 'commit/'
                ORDER BY p.identity, NOT t.complete, {_BEST_FIRST}"""
    return [ProjectRow(*row) for row in database.rows(query, (), user)]


def list_trees(database: TeamDatabase, user: int | None, place: str) -> list[str]:
    """The names of a project's searchable trees, newest first; none if the user may not see it."""
    query = """SELECT t.name FROM trees t JOIN projects p ON p.id = t.project WHERE p.identity = ANY(%s) AND t.complete
               GROUP BY t.name ORDER BY max(t.indexed_at) DESC"""
    return [row[0] for row in database.rows(query, (_prefixes(place),), user)]


def create_tree(
    db: Connection, identity: str, name: str, recipe: str, *, with_project: bool = True, owner: int | None = None
) -> TreeRow:
    """The tree, created if missing, and so is its project; locked until the transaction ends. Without `with_project`
    the project must exist: one that was removed must not come back. `owner` is the user who pushes it; a tree without
    one, which a server of an older release has stored, becomes theirs."""
    if with_project:
        db.execute("INSERT INTO projects(identity) VALUES (%s) ON CONFLICT (identity) DO NOTHING", (identity,))
    insert = """INSERT INTO trees(project, name, recipe, owner) SELECT id, %s, %s, %s FROM projects WHERE identity = %s
                ON CONFLICT (project, name, recipe) DO UPDATE SET owner = excluded.owner
                WHERE trees.owner IS NULL AND excluded.owner IS NOT NULL"""
    db.execute(insert, (name, recipe, owner, identity))
    query = f"{NAMED_TREE} AND t.name = %s AND t.recipe = %s AND t.owner IS NOT DISTINCT FROM %s FOR UPDATE OF t"
    rows = db.execute(query, ([identity], name, recipe, owner)).fetchall()
    if not rows:
        raise NotFound(f"{identity} was removed from the team", "Ask an administrator")
    return TreeRow(*rows[0])


def store_files(
    db: Connection, family: str, recipe: str, files: Sequence[IndexedFile], *, rewrite: bool = False
) -> list[int]:
    """The ids of files, each stored unless it is, or with `rewrite` again; none can be deleted in this transaction."""
    ids = _file_ids(db, family, recipe, files)
    new = [file for file in files if rewrite or _key(file) not in ids]
    if new:
        insert = """INSERT INTO files(family, recipe, path, sha256, brought_back, skip, chunk_count, payload, checksum)
                    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
                    ON CONFLICT (family, recipe, path, sha256, brought_back) DO UPDATE SET skip = excluded.skip,
                    chunk_count = excluded.chunk_count, payload = excluded.payload, checksum = excluded.checksum"""
        rows = ((family, recipe, *_key(file), file.skip, *_columns_of(file)) for file in new)
        db.cursor().executemany(insert, rows)
        ids |= _file_ids(db, family, recipe, new)
    return [ids[_key(file)] for file in files]


def _key(file: IndexedFile) -> FileKey:
    return file.source.path, file.sha256, file.brought_back


def _columns_of(file: IndexedFile) -> tuple[int, bytes, bytes]:
    payload = encode_file(file)
    return len(file.parsed.chunks), payload, hashlib.sha256(payload).digest()


def _file_ids(db: Connection, family: str, recipe: str, files: Sequence[IndexedFile]) -> dict[FileKey, int]:
    query = """SELECT f.id, f.path, f.sha256, f.brought_back
               FROM unnest(%s::text[], %s::text[], %s::boolean[]) AS k(path, sha256, brought_back)
               JOIN files f ON f.family = %s AND f.recipe = %s AND f.path = k.path AND f.sha256 = k.sha256
               AND f.brought_back = k.brought_back FOR KEY SHARE OF f"""
    rows = db.execute(query, (*columns_of(map(_key, files)), family, recipe))
    return {(path, sha256, brought_back): number for number, path, sha256, brought_back in rows}


def columns_of(rows: Iterable[tuple[Any, Any, Any]]) -> list[list[Any]]:
    """As three arrays for `unnest`, also if there is no row."""
    return [list(column) for column in zip(*rows, strict=True)] or [[], [], []]


def set_entries(
    db: Connection, tree: int, placed: Placed, removed: Collection[str], touched: Sequence[SourceFile] = ()
) -> tuple[int, str]:
    """Put stored files into a tree and remove paths from it, as its next generation, which is returned with its
    token. Servers are notified when the transaction commits."""
    generation, token = _next_generation(db, tree)
    gone = [*removed, *(source.path for source, _ in placed)]
    query_before = "SELECT file FROM entries WHERE tree = %s AND path = ANY(%s) AND file IS NOT NULL"
    before = [row[0] for row in db.execute(query_before, (tree, gone))]
    after = [file for _, file in placed]
    query = "SELECT count(*) FROM (SELECT 1 FROM files WHERE id = ANY(%s) FOR KEY SHARE) f"
    if db.execute(query, (after,)).fetchall()[0][0] != len(set(after)):
        raise Busy("a stored file was removed just now", "Try again; it will be indexed again")
    remove = """UPDATE entries SET file = NULL, size = 0, mtime_ns = 0, generation = %s
                WHERE tree = %s AND path = ANY(%s) AND file IS NOT NULL"""
    db.execute(remove, (generation, tree, list(removed)))
    place = """INSERT INTO entries SELECT %s, n.path, n.file, n.size, n.mtime_ns, %s
               FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n(path, size, mtime_ns, file)
               ON CONFLICT (tree, path) DO UPDATE SET file = excluded.file, size = excluded.size,
               mtime_ns = excluded.mtime_ns, generation = excluded.generation"""
    db.execute(place, (tree, generation, *columns_of(source for source, _ in placed), after))
    touch = """UPDATE entries e SET size = n.size, mtime_ns = n.mtime_ns, generation = %s
               FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS n(path, size, mtime_ns)
               WHERE e.tree = %s AND e.path = n.path AND e.file IS NOT NULL"""
    db.execute(touch, (generation, *columns_of(touched), tree))
    db.execute("UPDATE files SET released_at = NULL WHERE id = ANY(%s) AND released_at IS NOT NULL", (after,))
    _release(db, before)
    return generation, token


def _next_generation(db: Connection, tree: int) -> tuple[int, str]:
    update = "UPDATE trees SET generation = generation + 1 WHERE id = %s RETURNING generation"
    generation = int(db.execute(update, (tree,)).fetchall()[0][0])
    token = os.urandom(8).hex()
    db.execute("INSERT INTO generations VALUES (%s, %s, %s)", (tree, generation, token))
    db.execute("SELECT pg_notify(%s, %s)", (CHANGED, f"{tree} {generation}"))
    return generation, token


def _release(db: Connection, files: Sequence[int]) -> None:
    update = """UPDATE files SET released_at = now() WHERE id = ANY(%s) AND released_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.file = files.id)"""
    db.execute(update, (list(files),))


def finish_tree(db: Connection, tree: int, meta: Mapping[str, str], revision: str) -> tuple[int, str]:
    """Mark it complete, as its next generation."""
    generation, token = _next_generation(db, tree)
    counted = """SELECT count(*) FILTER (WHERE f.skip = ''), coalesce(sum(f.chunk_count), 0)
                 FROM entries e JOIN files f ON f.id = e.file WHERE e.tree = %s"""
    files, chunks = db.execute(counted, (tree,)).fetchall()[0]
    meta_text = {key: value.encode("utf-8", "replace").decode() for key, value in meta.items()}
    db.execute(
        "UPDATE trees SET complete = true, meta = %s, revision = %s, indexed_at = now(), used_at = now() WHERE id = %s",
        (Jsonb({**meta_text, "files": str(files), "chunks": str(chunks)}), revision, tree),
    )
    forgotten = generation - _GENERATIONS_KEPT
    db.execute("DELETE FROM generations WHERE tree = %s AND generation < %s", (tree, forgotten))
    db.execute("DELETE FROM entries WHERE tree = %s AND file IS NULL AND generation <= %s", (tree, forgotten))
    return generation, token


def attach_commits(db: Connection, tree: int, data: bytes) -> None:
    """Store the commit index of a tree. Servers see it with its next generation."""
    insert = """INSERT INTO attachments VALUES (%s, %s, %s, %s) ON CONFLICT (tree, name) DO UPDATE SET
                data = excluded.data, checksum = excluded.checksum WHERE attachments.checksum <> excluded.checksum"""
    db.execute(insert, (tree, COMMITS_FILE, data, hashlib.sha256(data).digest()))


def drop_tree(db: Connection, tree: int) -> None:
    """Servers are notified when the transaction commits, and drop their copies."""
    query = "DELETE FROM entries WHERE tree = %s AND file IS NOT NULL RETURNING file"
    _release(db, [row[0] for row in db.execute(query, (tree,))])
    note = """INSERT INTO dropped_trees SELECT t.id, p.identity, p.family, t.name, t.recipe
              FROM trees t JOIN projects p ON p.id = t.project WHERE t.id = %s"""
    db.execute(note, (tree,))
    db.execute("DELETE FROM trees WHERE id = %s", (tree,))
    db.execute("SELECT pg_notify(%s, %s)", (CHANGED, f"{tree} {DROPPED}"))


def list_dropped_trees(database: TeamDatabase) -> list[TreeRow]:
    """What was dropped lately and has not come back under its name."""
    query = """SELECT d.tree, d.identity, d.family, d.name, d.recipe, '', 0, false, '{}'::jsonb, NULL
               FROM dropped_trees d WHERE NOT EXISTS (SELECT 1 FROM trees t JOIN projects p ON p.id = t.project
               WHERE p.identity = d.identity AND t.name = d.name)"""
    return [TreeRow(*row) for row in database.rows(query)]


def drop_project(db: Connection, project: int) -> RemovedTeamProject:
    """Remove a project with its trees, and the files that no fork has."""
    query = "SELECT identity, family FROM projects WHERE id = %s FOR UPDATE"
    identity, family = db.execute(query, (project,)).fetchall()[0]
    trees = db.execute("SELECT id FROM trees WHERE project = %s FOR UPDATE", (project,)).fetchall()
    for (tree,) in trees:
        drop_tree(db, tree)
    db.execute("DELETE FROM projects WHERE id = %s", (project,))
    unused = """DELETE FROM files WHERE id IN (SELECT id FROM files f WHERE family = %s AND NOT EXISTS (
                  SELECT 1 FROM entries e WHERE e.file = f.id) FOR UPDATE SKIP LOCKED)"""
    return RemovedTeamProject(identity, len(trees), db.execute(unused, (family,)).rowcount)


# As the index of them has them; the value is the user's number.
_UPLOADS_OF = f"f.sha256 LIKE '{UPLOADED}%%' AND split_part(f.sha256, '-', 2) = %s::text"


def count_uploads(db: Connection, user: int) -> int:
    """The bytes of what a user has uploaded."""
    query = f"SELECT coalesce(sum(length(f.payload)), 0)::bigint FROM files f WHERE {_UPLOADS_OF}"
    return int(db.execute(query.encode(), (user,)).fetchall()[0][0])


def count_entries(db: Connection, user: int, *, but: tuple[str, str]) -> int:
    """About the bytes of a user's work trees besides uploads, but for the present files of one, by project and name."""
    query = f"""SELECT count(DISTINCT t.id) * {TREE_BYTES} + coalesce(sum(octet_length(e.path) + {ENTRY_BYTES}), 0)
                FROM trees t JOIN projects p ON p.id = t.project LEFT JOIN entries e ON e.tree = t.id
                WHERE t.owner = %s AND ((p.identity, t.name) <> (%s, %s) OR e.file IS NULL)"""
    return int(db.execute(query.encode(), (user, *but)).fetchall()[0][0])


def drop_uploads(db: Connection, user: int, *, unused_only: bool) -> int:
    """Delete a user's uploads that no tree has; with `unused_only` not those of the last day that none had yet."""
    delete = f"""DELETE FROM files WHERE id IN (SELECT f.id FROM files f WHERE {_UPLOADS_OF}
                 AND (NOT %s OR f.released_at IS NOT NULL OR f.created_at < now() - interval '1 day')
                 AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.file = f.id) FOR UPDATE SKIP LOCKED)"""
    return db.execute(delete.encode(), (user, unused_only)).rowcount


def drop_user(db: Connection, user: int, name: str) -> RemovedTeamUser:
    """Remove a user with all that is theirs; what they did stays in the audit log, under their number."""
    db.execute("SELECT 1 FROM users WHERE id = %s FOR UPDATE", (user,))  # waits for what they are just storing
    trees = db.execute("SELECT id FROM trees WHERE owner = %s FOR UPDATE", (user,)).fetchall()
    for (tree,) in trees:
        drop_tree(db, tree)
    removed = RemovedTeamUser(
        name,
        db.execute("DELETE FROM conversations WHERE user_id = %s", (user,)).rowcount,
        db.execute("DELETE FROM memories WHERE user_id = %s", (user,)).rowcount,
        len(trees),
        drop_uploads(db, user, unused_only=False),
    )
    db.execute("DELETE FROM users WHERE id = %s", (user,))
    return removed


def collect(db: Connection, family: str, recipe: str, keep: Retention) -> int:
    """Delete files that no tree has any more and that are too old, too many for one path, or more than a share of
    what is in use, oldest first; also those stored for a tree a day ago that were never used."""
    expired = """WITH released AS (
                   SELECT id, released_at,
                   row_number() OVER (PARTITION BY path ORDER BY released_at DESC, id DESC) AS n,
                   sum(chunk_count) OVER (ORDER BY released_at DESC, id DESC) AS chunks
                   FROM files WHERE family = %(family)s AND recipe = %(recipe)s AND released_at IS NOT NULL),
                 used AS (
                   SELECT coalesce(sum(chunk_count), 0) AS chunks FROM files
                   WHERE family = %(family)s AND recipe = %(recipe)s AND released_at IS NULL)
                 SELECT r.id FROM released r, used WHERE r.n > %(versions)s OR r.chunks > %(share)s * used.chunks
                 OR r.released_at <= now() - %(days)s * interval '1 day'
                 UNION ALL SELECT id FROM files f WHERE family = %(family)s AND recipe = %(recipe)s
                 AND released_at IS NULL AND created_at < now() - interval '1 day'
                 AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.file = f.id)"""
    values = {"family": family, "recipe": recipe, "versions": _VERSIONS_KEPT, "share": keep.share, "days": keep.days}
    ids = [row[0] for row in db.execute(expired, values)]
    # Another project of the family may just be adding one of them to a tree.
    free = """SELECT id FROM files f WHERE id = ANY(%s)
              AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.file = f.id) FOR UPDATE SKIP LOCKED"""
    return db.execute(f"DELETE FROM files WHERE id IN ({free})", (ids,)).rowcount


def list_unused_trees(db: Connection, tree: TreeRow) -> list[int]:
    """Trees of the same project that nobody used for a while: by other recipes, and of single commits."""
    query = """SELECT o.id FROM trees o JOIN trees t ON t.project = o.project WHERE t.id = %s AND o.id <> t.id
               AND ((o.name = t.name AND o.recipe <> t.recipe) OR o.name ^@ 'commit/')
               AND o.used_at < now() - %s * interval '1 day' FOR UPDATE OF o SKIP LOCKED"""
    return [row[0] for row in db.execute(query, (tree.id, _UNUSED_DAYS))]


# --- the local copy ------------------------------------------------------------------------------------------------

_PULL_CHUNKS = 8192  # fetched and applied at once
_REACHED = "team"  # the key under which the local copy records its generation


class Entry(Struct, frozen=True):
    """A path of a tree and its file; None means removed."""

    source: SourceFile
    file: int | None
    sha256: str
    brought_back: bool
    chunks: int


class FileDamaged(IndexDamaged):
    """A stored file does not match its checksum. The local copy is intact, and the file is never used again."""

    code = "STORE_DAMAGED"


class TeamStore(SqliteStore):
    """Reads come from the local copy in `folder`, so results are those of a local index. The database is not used
    until something is written or pulled, so that searches work without it."""

    def __init__(
        self,
        folder: Path,
        tree: str,
        place: TeamTree,
        *,
        recipe: str | None = None,
        commits: Path | None = None,
        rewrite: bool = False,
    ) -> None:
        """`commits` is the file of the tree's commit index. With `rewrite` nothing that the team has is reused: every
        file is stored again and replaces the old one."""
        self.place = place
        self._commits = commits
        self._rewrite = rewrite
        self._family = ""
        self._next: TreeGeneration | None = None  # what the next local transaction will have reached
        self._contents: frozenset[str] | None = None  # hashes of the family's contents, for this run
        super().__init__(folder, tree, recipe=recipe)

    @property
    def family(self) -> str:
        """What the project and its forks have in common: their files are stored once. "" where it is not there yet."""
        if not self._family:
            query, place = "SELECT family FROM projects WHERE identity = %s", self.place
            self._family = "".join(family for (family,) in place.database.rows(query, (place.identity,)))
        return self._family

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        with super()._writing() as db:
            yield db
            if self._next is not None:
                value = msgspec.json.encode(self._next).decode()
                db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?, ?)", (self._tree, _REACHED, value))

    @contextmanager
    def _reaching(self, reached: TreeGeneration | None) -> Iterator[None]:
        self._next = reached
        try:
            yield
        finally:
            self._next = None

    def reached(self) -> TreeGeneration | None:
        value = self.meta().get(_REACHED)
        return json_decoder(TreeGeneration).decode(value) if value else None

    def has_reached(self, generation: TreeGeneration) -> bool:
        """Whether the local copy has all of this generation."""
        meta = self.meta()
        return meta.get("complete") == "1" and meta.get(_REACHED) == msgspec.json.encode(generation).decode()

    # --- reading what only the team has ---

    def find_stored(self, paths: Sequence[str]) -> dict[tuple[str, str], list[StoredFile]]:
        if self._rewrite:
            return {}
        query = """SELECT f.path, f.sha256, f.id, f.skip, f.brought_back FROM files f
                   WHERE f.family = %s AND f.recipe = %s AND f.path = ANY(%s) AND f.id NOT IN (
                     SELECT e.file FROM entries e JOIN trees t ON t.id = e.tree JOIN projects p ON p.id = t.project
                     WHERE p.identity = %s AND t.name = %s AND t.recipe = %s AND e.file IS NOT NULL)"""
        place = self.place
        values = (self.family, self.recipe, list(paths), place.identity, place.name, self.recipe)
        return group_stored(place.database.rows(query, values))

    def vectors_by_hash(self, sha256: str) -> NDArray[np.float32] | None:
        vectors = super().vectors_by_hash(sha256)
        if vectors is not None or self._rewrite:
            return vectors
        place, query = self.place, "SELECT id FROM files WHERE family = %s AND recipe = %s AND sha256 = %s LIMIT 1"
        if self._contents is None:  # most requested files are new to the family: one query answers that
            everything = "SELECT DISTINCT sha256 FROM files WHERE family = %s AND recipe = %s AND chunk_count > 0"
            rows = place.database.rows(everything, (self.family, self.recipe))
            self._contents = frozenset(row[0] for row in rows)
        if sha256 not in self._contents:
            return None
        values = (self.family, self.recipe, sha256)
        ids = [row[0] for row in place.database.rows(query, values)]
        for file in self._fetch(ids).values():
            return file.vectors  # type: ignore[no-any-return]
        return None

    def _fetch(self, ids: Sequence[int]) -> dict[int, IndexedFile]:
        """Stored files by id; raises FileDamaged if one differs from what was stored."""
        query = "SELECT id, path, payload, checksum FROM files WHERE id = ANY(%s)"
        files = {}
        for number, path, payload, checksum in self.place.database.rows(query, (list(ids),)):
            if hashlib.sha256(payload).digest() != checksum:
                raise self._set_aside(number, path)
            files[number] = decode_file(payload)
        return files

    def _set_aside(self, file: int, path: str) -> FileDamaged:
        """Its recipe becomes one that nobody has, and its entries look changed: the next index run stores it again."""
        with self.place.database.transaction() as db:
            aside = "UPDATE files SET recipe = 'damaged ' || id || ' ' || recipe WHERE id = %s"
            db.execute(f"{aside} AND NOT recipe ^@ 'damaged '", (file,))
            db.execute("UPDATE entries SET mtime_ns = -1 WHERE file = %s", (file,))
        return FileDamaged(
            f"{path} of {self.place.identity} is damaged in the team store and was set aside",
            NextStep(
                "Index it again, in its folder by ", to_run("index", full=True), ", and check the disk of the database"
            ),
        )

    # --- the local copy ---

    def is_behind(self, *, patient: bool) -> bool:
        """Whether the team has another generation. Unless `patient`, answered at once, or fails without waiting."""
        read = self.place.database.read
        row = read(self._current, quick=True) if patient else read(self._current, patience_s=0, quick=True)
        return (row.reached if row is not None else None) != self.reached()

    def pull(self) -> bool:
        """Bring the local copy up to date with the team; returns whether it was behind. The caller holds the lock of
        the local index. It may be interrupted at any point: what is missing is pulled the next time."""
        reached = self.reached()
        row = self.place.database.read(self._current, quick=True)
        if row is None:
            if reached is not None:  # it was dropped, so the local content has to be stored again
                self._forget()
            return reached is not None
        is_behind = row.reached != reached
        self.place.database.on_pull(is_behind)
        if not is_behind:
            return False
        since = reached.generation if reached is not None and self._is_known(reached) else None
        entries = self.place.database.read(lambda db: _entries(db, row.id, since))
        gone = {entry.source.path for entry in entries if entry.file is None}
        if since is None:
            gone = {source.path for source in self.sources()} - {entry.source.path for entry in entries if entry.file}
        for files, reused in self._read_missing([entry for entry in entries if entry.file is not None]):
            super().apply(files, (), (), reused)
        self._fetch_commits(row.id)
        sources = [entry.source for entry in entries if entry.file is not None]
        if row.complete:
            super().apply((), sorted(gone), sources)
            with self._reaching(row.reached):
                super().finish(row.meta)
        else:
            with self._reaching(row.reached):
                super().apply((), sorted(gone), sources)
        return True

    def _current(self, db: Connection) -> TreeRow | None:
        query = f"{NAMED_TREE} AND t.name = %s AND t.recipe = %s"
        rows = db.execute(query, ([self.place.identity], self.place.name, self.recipe)).fetchall()
        return TreeRow(*rows[0]) if rows else None

    def _is_known(self, reached: TreeGeneration) -> bool:
        query = "SELECT 1 FROM generations WHERE tree = %s AND generation = %s AND token = %s"
        values = (reached.tree, reached.generation, reached.token)
        return bool(self.place.database.rows(query, values, quick=True))

    def _read_missing(self, entries: Sequence[Entry]) -> Iterator[tuple[Sequence[IndexedFile], Placed]]:
        """The entries that the local copy lacks, in batches: files to insert, and ones that another tree has here."""
        query = "SELECT e.path, sha256, brought_back FROM entries e JOIN files f ON f.id = file_id WHERE tree = ?"
        with self._connections.reading() as db:
            here = {(path, sha256, bool(back)) for path, sha256, back in db.execute(query, (self._tree,))}
        local = super().find_stored([entry.source.path for entry in entries])
        reused, missing = list[tuple[SourceFile, int]](), list[Entry]()
        for entry in entries:
            versions = local.get((entry.source.path, entry.sha256), ())
            version = next((file for file in versions if file.brought_back == entry.brought_back), None)
            if version is not None:
                reused.append((entry.source, version.file_id))
            elif (entry.source.path, entry.sha256, entry.brought_back) not in here:
                missing.append(entry)
        yield (), reused
        missing.sort(key=lambda entry: entry.file or 0)  # in the order they were stored
        for batch in batches(missing, lambda entry: entry.chunks, _PULL_CHUNKS):
            fetched = self._fetch([entry.file for entry in batch if entry.file is not None])
            files = [replace(fetched[entry.file], source=entry.source) for entry in batch if entry.file in fetched]
            for with_vectors in (True, False):  # a segment has the vectors of all its rows, or of none
                part = [file for file in files if (file.vectors is not None or not file.parsed.chunks) == with_vectors]
                if part:
                    yield part, ()

    def _fetch_commits(self, tree: int) -> None:
        """A damaged commit index is left out: searches work without commit messages until it is rebuilt."""
        if self._commits is None:
            return
        query = "SELECT data, checksum FROM attachments WHERE tree = %s AND name = %s AND checksum <> %s"
        values = (tree, self._commits.name, hashlib.sha256(self._read_commits()).digest())
        for data, checksum in self.place.database.rows(query, values):
            if hashlib.sha256(data).digest() == checksum:
                with translate_errors(self.folder):
                    private_folder(self._commits.parent)
                    replace_file(self._commits, data)

    def _read_commits(self) -> bytes:
        try:
            return self._commits.read_bytes() if self._commits is not None else b""
        except FileNotFoundError:
            return b""

    def _forget(self) -> None:
        super().apply((), [source.path for source in self.sources()], ())
        with self._connections.writing() as db:
            db.execute("DELETE FROM meta WHERE tree = ? AND key IN (?, 'complete')", (self._tree, _REACHED))

    # --- writing ---

    def apply(
        self, files: Iterable[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile], reused: Placed = ()
    ) -> None:
        """The ids of `reused` are the team's."""
        files = list(files)  # before a transaction of the team's database begins
        if not (files or removed or touched or reused):
            return
        with self._committing() as (db, row):
            ids = store_files(db, row.family, row.recipe, files, rewrite=self._rewrite)
            placed = [*((file.source, number) for file, number in zip(files, ids, strict=True)), *reused]
            reached = TreeGeneration(row.name, row.id, *set_entries(db, row.id, placed, removed, touched))
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
            if self._rewrite:
                query = "SELECT path FROM entries WHERE tree = %s AND file IS NOT NULL"
                gone = {path for (path,) in db.execute(query, (row.id,))} - self.manifest().keys()
                set_entries(db, row.id, (), gone)
            if commits := self._read_commits():
                attach_commits(db, row.id, commits)
            reached = TreeGeneration(row.name, row.id, *finish_tree(db, row.id, meta, meta.get("revision", "")))
            for tree in (*self._list_ended(trees), *list_unused_trees(db, row)):
                drop_tree(db, tree)
        with self._reaching(reached):
            super().finish(meta, keep, trees)
        self._contents, self._rewrite = None, False
        with self.place.database.transaction() as db:
            collect(db, self.family, self.recipe, keep)

    @contextmanager
    def _committing(self) -> Iterator[tuple[Connection, TreeRow]]:
        """A transaction of the team's database in which the tree matches the local copy."""
        place, reached = self.place, self.reached()
        with place.database.transaction() as db:
            row = create_tree(db, place.identity, place.name, self.recipe)
            begins = reached is None and (self._rewrite or not row.generation)
            if not begins and (reached is None or (row.id, row.generation) != (reached.tree, reached.generation)):
                step = "Try again in a moment"
                raise Busy(f"{place.name} of {place.identity} was just changed by another server or worker", step)
            yield db, row

    def _list_ended(self, trees: Collection[str] | None) -> Iterable[int]:
        """The trees of folders that no longer exist here, given those that are left."""
        query = "SELECT t.name, m.value FROM trees t JOIN meta m ON m.tree = t.id AND m.key = ?"
        with self._connections.reading() as db:
            rows: list[Any] = db.execute(query, (_REACHED,)).fetchall() if trees is not None else []
        ended = (json_decoder(TreeGeneration).decode(value) for name, value in rows if name not in (trees or ()))
        return [reached.tree for reached in ended if reached.name.startswith(WORK_TREE)]


def _entries(db: Connection, tree: int, since: int | None) -> list[Entry]:
    """What a tree has, or what changed in it after a generation."""
    query = """SELECT e.path, e.size, e.mtime_ns, e.file, f.sha256, f.brought_back, f.chunk_count
               FROM entries e LEFT JOIN files f ON f.id = e.file
               WHERE e.tree = %s AND (%s::bigint IS NULL OR e.generation > %s)"""
    return [Entry(SourceFile(*row[:3]), *row[3:]) for row in db.execute(query, (tree, since, since))]
