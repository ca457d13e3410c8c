"""Projects, trees and their files in the team's database: what is stored, and every statement that changes it."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from psycopg.types.json import Jsonb

from codeinfo.errors import Busy, NotFound
from codeinfo.model import IndexedFile, SourceFile
from codeinfo.ports import Retention
from codeinfo.team.database import CHANGED, Connection, TeamDatabase

_FORMAT = 1  # of payloads
_GENERATIONS_KEPT = 200  # by name; a server that is further behind compares everything
_VERSIONS_KEPT = 3  # of one path that no tree has
_UNUSED_DAYS = 30
DROPPED = 0  # in place of the generation, where a tree was dropped
WORK_TREE = "work/"  # how the names of trees begin that belong to a folder of somebody


class TeamTree(Struct, frozen=True):
    """A tree of a project in the team's database, whether it is there yet or not."""

    database: TeamDatabase
    identity: str
    name: str

    def drop(self) -> None:
        """Remove it, where it is that of a folder here; files that only it has go with the next tree that is done."""
        if self.name.startswith(WORK_TREE):
            query = "SELECT t.id FROM trees t JOIN projects p ON p.id = t.project WHERE p.identity = %s AND t.name = %s"
            with self.database.transaction() as db:
                for (tree,) in db.execute(query, (self.identity, self.name)).fetchall():
                    drop_tree(db, tree)


class TreeRow(Struct, frozen=True):
    """A tree as the database has it."""

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
    def reached(self) -> Reached:
        return Reached(self.name, self.id, self.generation, self.token or "")


class Reached(Struct, frozen=True, array_like=True):
    """A generation of a tree, by a name that no other one has."""

    name: str
    tree: int
    generation: int
    token: str


# --- what a file is stored as --------------------------------------------------------------------------------------


class _Payload(Struct, frozen=True, array_like=True):
    format: int
    parsed: bytes  # the file without its vectors, compressed
    dimension: int  # 0: it has no vectors
    vectors: bytes  # hardly any smaller when compressed


def encode_file(file: IndexedFile) -> bytes:
    import numpy as np

    vectors = None if file.vectors is None else np.ascontiguousarray(file.vectors, np.float32)
    parsed = zlib.compress(msgspec.msgpack.encode(replace(file, vectors=None)), 1)
    dimension, data = (0, b"") if vectors is None else (vectors.shape[1], vectors.tobytes())
    return msgspec.msgpack.encode(_Payload(_FORMAT, parsed, dimension, data))


def decode_file(payload: bytes, most: int = 1 << 31) -> IndexedFile:
    """Raises ValueError or MsgspecError for what is none, or has more than `most` bytes unpacked."""
    import numpy as np

    stored = msgspec.msgpack.decode(payload, type=_Payload)
    inflate = zlib.decompressobj()
    try:
        parsed = inflate.decompress(stored.parsed, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not inflate.eof:
        raise ValueError("cut off, or too large")
    file = msgspec.msgpack.decode(parsed, type=IndexedFile)
    if not stored.dimension:
        return file
    return replace(file, vectors=np.frombuffer(stored.vectors, np.float32).reshape(-1, stored.dimension))


# --- tables --------------------------------------------------------------------------------------------------------

_ROW = """t.id, p.identity, p.family, t.name, t.recipe, t.revision, t.generation, t.complete, t.meta,
          (SELECT g.token FROM generations g WHERE g.tree = t.id AND g.generation = t.generation)
          FROM trees t JOIN projects p ON p.id = t.project"""
NAMED_TREE = f"SELECT {_ROW} WHERE p.identity = ANY(%s)"
_BEST_FIRST = "t.name ^@ 'work/', t.name <> p.default_ref, t.indexed_at DESC NULLS LAST"


def open_tree(database: TeamDatabase, user: int | None, place: str, ref: str, recipe: str = "") -> TreeRow | None:
    """The tree of a project that a user may see (None: the service, which sees all): by its name, a branch, a tag or
    the beginning of a commit, "" being the default branch, else what was indexed last, work trees after all others.
    `place` is the project's identity or a path in it. Of several recipes the one that is asked for goes first."""
    query = f"""{NAMED_TREE} AND t.complete AND (
                  t.name = ANY(%s) OR (%s = '' AND NOT t.name ^@ 'commit/')
                  OR (length(%s) >= 7 AND NOT t.name ^@ %s AND (t.revision ^@ %s OR t.name ^@ %s)))
                ORDER BY length(p.identity) DESC, t.recipe <> %s, t.name <> ALL(%s), {_BEST_FIRST} LIMIT 1"""
    names = [ref, f"refs/heads/{ref}", f"refs/tags/{ref}", f"commit/{ref}"] if ref else []
    wanted = (names, ref, ref, WORK_TREE, ref, f"commit/{ref}", recipe, names)
    found = database.read(lambda db: db.execute(query, (_prefixes(place), *wanted)).fetchall(), user, quick=True)
    return TreeRow(*found[0]) if found else None


def _prefixes(place: str) -> list[str]:
    parts = place.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


class ProjectRow(Struct, frozen=True):
    """A project with its newest tree, which may be in the making."""

    identity: str
    tree: str
    complete: bool
    meta: dict[str, str]


def newest_trees(database: TeamDatabase, user: int | None, recipe: str) -> list[TreeRow]:
    """The tree of each project that a user may see, by one recipe, as `open_tree` chooses it; the newest first."""
    query = f"""SELECT DISTINCT ON (p.id) {_ROW} WHERE t.complete AND t.recipe = %s AND NOT t.name ^@ 'commit/'
                ORDER BY p.id, {_BEST_FIRST}"""
    rows = database.read(lambda db: db.execute(query, (recipe,)).fetchall(), user)
    return sorted((TreeRow(*row) for row in rows), key=lambda row: row.meta.get("indexed_at", ""), reverse=True)


def list_projects(database: TeamDatabase, user: int | None) -> list[ProjectRow]:
    """What a user may see, by identity; of work trees those alone that nothing else is indexed of."""
    query = f"""SELECT DISTINCT ON (p.identity) p.identity, t.name, t.complete, t.meta
                FROM projects p JOIN trees t ON t.project = p.id WHERE NOT t.name ^@ 'commit/'
                ORDER BY p.identity, NOT t.complete, {_BEST_FIRST}"""
    return [ProjectRow(*row) for row in database.read(lambda db: db.execute(query).fetchall(), user)]


def list_trees(database: TeamDatabase, user: int | None, place: str) -> list[str]:
    """The names of the trees of a project that can be searched, the newest first; none where nobody sees it."""
    query = """SELECT t.name FROM trees t JOIN projects p ON p.id = t.project WHERE p.identity = ANY(%s) AND t.complete
               GROUP BY t.name ORDER BY max(t.indexed_at) DESC"""
    return [row[0] for row in database.read(lambda db: db.execute(query, (_prefixes(place),)).fetchall(), user)]


def create_tree(
    db: Connection, identity: str, family: str, name: str, recipe: str, *, with_project: bool = True
) -> TreeRow:
    """The tree, made where it is missing, and so is its project; locked until the transaction ends. Without
    `with_project` the project must be there: who removed it must not see it come back."""
    if with_project:
        insert = "INSERT INTO projects(identity, family) VALUES (%s, %s) ON CONFLICT (identity) DO NOTHING"
        db.execute(insert, (identity, family))
    db.execute(
        """INSERT INTO trees(project, name, recipe) SELECT id, %s, %s FROM projects WHERE identity = %s
           ON CONFLICT (project, name, recipe) DO NOTHING""",
        (name, recipe, identity),
    )
    query = f"{NAMED_TREE} AND t.name = %s AND t.recipe = %s FOR UPDATE OF t"
    found = db.execute(query, ([identity], name, recipe)).fetchall()
    if not found:
        raise NotFound(f"{identity} was removed from the team", next_step="Ask an administrator")
    return TreeRow(*found[0])


def store_files(
    db: Connection, family: str, recipe: str, files: Sequence[IndexedFile], *, afresh: bool = False
) -> list[int]:
    """The ids of files in their order, each stored unless it is already; `afresh` stores it again all the same. They
    cannot go away in this transaction."""
    known = _file_ids(db, family, recipe, files)
    new = [file for file in files if afresh or _key(file) not in known]
    if new:
        with db.cursor() as cursor:
            cursor.executemany(
                """INSERT INTO files(family, recipe, path, sha256, brought_back, skip, chunk_count, payload, checksum)
                   VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
                   ON CONFLICT (family, recipe, path, sha256, brought_back) DO UPDATE SET skip = excluded.skip,
                   chunk_count = excluded.chunk_count, payload = excluded.payload, checksum = excluded.checksum""",
                ((family, recipe, *_key(file), file.skip, *_stored(file)) for file in new),
            )
        known |= _file_ids(db, family, recipe, new)
    return [known[_key(file)] for file in files]


def _key(file: IndexedFile) -> tuple[str, str, bool]:
    return file.source.path, file.sha256, file.brought_back


def _stored(file: IndexedFile) -> tuple[int, bytes, bytes]:
    payload = encode_file(file)
    return len(file.parsed.chunks), payload, hashlib.sha256(payload).digest()


def _file_ids(
    db: Connection, family: str, recipe: str, files: Sequence[IndexedFile]
) -> dict[tuple[str, str, bool], int]:
    query = """SELECT f.id, f.path, f.sha256, f.brought_back
               FROM unnest(%s::text[], %s::text[], %s::boolean[]) AS k(path, sha256, brought_back)
               JOIN files f ON f.family = %s AND f.recipe = %s AND f.path = k.path AND f.sha256 = k.sha256
               AND f.brought_back = k.brought_back FOR KEY SHARE OF f"""
    columns = [list(column) for column in zip(*map(_key, files), strict=True)] or [[], [], []]
    return {(row[1], row[2], row[3]): row[0] for row in db.execute(query, (*columns, family, recipe))}


def set_entries(
    db: Connection,
    tree: int,
    placed: Sequence[tuple[SourceFile, int]],
    removed: Collection[str] = (),
    touched: Sequence[SourceFile] = (),
) -> tuple[int, str]:
    """Put stored files into a tree and take paths out of it, as its next generation, which is returned with its token.
    Servers hear of it when the transaction commits."""
    generation, token = _next_generation(db, tree)
    gone = [*removed, *(source.path for source, _ in placed)]
    held = "SELECT file FROM entries WHERE tree = %s AND path = ANY(%s) AND file IS NOT NULL"
    before = [row[0] for row in db.execute(held, (tree, gone))]
    after = [file for _, file in placed]
    query = "SELECT count(*) FROM (SELECT 1 FROM files WHERE id = ANY(%s) FOR KEY SHARE) f"
    if db.execute(query, (after,)).fetchall()[0][0] != len(set(after)):
        raise Busy("a stored file was removed just now", next_step="Try again: it is indexed again then")
    db.execute(
        """UPDATE entries SET file = NULL, size = 0, mtime_ns = 0, generation = %s
           WHERE tree = %s AND path = ANY(%s) AND file IS NOT NULL""",
        (generation, tree, list(removed)),
    )
    db.execute(
        """INSERT INTO entries SELECT %s, n.*, %s
           FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n(path, file, size, mtime_ns)
           ON CONFLICT (tree, path) DO UPDATE SET file = excluded.file, size = excluded.size,
           mtime_ns = excluded.mtime_ns, generation = excluded.generation""",
        (
            tree,
            generation,
            [source.path for source, _ in placed],
            after,
            [source.size for source, _ in placed],
            [source.mtime_ns for source, _ in placed],
        ),
    )
    db.execute(
        """UPDATE entries e SET size = n.size, mtime_ns = n.mtime_ns, generation = %s
           FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS n(path, size, mtime_ns)
           WHERE e.tree = %s AND e.path = n.path AND e.file IS NOT NULL""",
        (generation, *([list(column) for column in zip(*touched, strict=True)] or [[], [], []]), tree),
    )
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
    db.execute(
        """UPDATE files SET released_at = now() WHERE id = ANY(%s) AND released_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.file = files.id)""",
        (list(files),),
    )


def finish_tree(db: Connection, tree: int, meta: Mapping[str, str], revision: str = "") -> tuple[int, str]:
    """Mark it complete, as its next generation."""
    generation, token = _next_generation(db, tree)
    counted = """SELECT count(*) FILTER (WHERE f.skip = ''), coalesce(sum(f.chunk_count), 0)
                 FROM entries e JOIN files f ON f.id = e.file WHERE e.tree = %s"""
    files, chunks = db.execute(counted, (tree,)).fetchall()[0]
    said = {key: value.encode("utf-8", "replace").decode() for key, value in meta.items()}
    db.execute(
        "UPDATE trees SET complete = true, meta = %s, revision = %s, indexed_at = now(), used_at = now() WHERE id = %s",
        (Jsonb({**said, "files": str(files), "chunks": str(chunks)}), revision, tree),
    )
    forgotten = generation - _GENERATIONS_KEPT
    db.execute("DELETE FROM generations WHERE tree = %s AND generation < %s", (tree, forgotten))
    db.execute("DELETE FROM entries WHERE tree = %s AND file IS NULL AND generation <= %s", (tree, forgotten))
    return generation, token


def attach(db: Connection, tree: int, name: str, data: bytes) -> None:
    """Keep what belongs to a tree as a whole. Servers see it with its next generation."""
    db.execute(
        """INSERT INTO attachments VALUES (%s, %s, %s, %s) ON CONFLICT (tree, name) DO UPDATE
           SET data = excluded.data, checksum = excluded.checksum WHERE attachments.checksum <> excluded.checksum""",
        (tree, name, data, hashlib.sha256(data).digest()),
    )


def drop_tree(db: Connection, tree: int) -> None:
    """Servers hear of it when the transaction commits, and drop their copies."""
    query = "DELETE FROM entries WHERE tree = %s AND file IS NOT NULL RETURNING file"
    _release(db, [row[0] for row in db.execute(query, (tree,))])
    note = """INSERT INTO dropped_trees SELECT t.id, p.identity, p.family, t.name, t.recipe
              FROM trees t JOIN projects p ON p.id = t.project WHERE t.id = %s"""
    db.execute(note, (tree,))
    db.execute("DELETE FROM trees WHERE id = %s", (tree,))
    db.execute("SELECT pg_notify(%s, %s)", (CHANGED, f"{tree} {DROPPED}"))


def dropped_trees(database: TeamDatabase) -> list[TreeRow]:
    """What was dropped lately and has not come back under its name."""
    query = """SELECT d.tree, d.identity, d.family, d.name, d.recipe, '', 0, false, '{}'::jsonb, NULL
               FROM dropped_trees d WHERE NOT EXISTS (SELECT 1 FROM trees t JOIN projects p ON p.id = t.project
               WHERE p.identity = d.identity AND t.name = d.name)"""
    return [TreeRow(*row) for row in database.read(lambda db: db.execute(query).fetchall())]


def drop_project(db: Connection, project: int) -> tuple[str, int, int]:
    """Its identity, and how many trees and files went with it: files that forks have too stay."""
    query = "SELECT identity, family FROM projects WHERE id = %s FOR UPDATE"
    identity, family = db.execute(query, (project,)).fetchall()[0]
    trees = db.execute("SELECT id FROM trees WHERE project = %s FOR UPDATE", (project,)).fetchall()
    for (tree,) in trees:
        drop_tree(db, tree)
    db.execute("DELETE FROM projects WHERE id = %s", (project,))
    unused = """DELETE FROM files WHERE id IN (SELECT id FROM files f WHERE family = %s AND NOT EXISTS (
                  SELECT 1 FROM entries e WHERE e.file = f.id) FOR UPDATE SKIP LOCKED)"""
    return identity, len(trees), db.execute(unused, (family,)).rowcount


def collect(db: Connection, family: str, recipe: str, keep: Retention) -> int:
    """Delete files that no tree has any more and that are too old, too many of one path, or more than a share of what
    is in use, the oldest first; also those that were stored for a tree a day ago and never came into one."""
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
    # Another project of the family may just be taking one of them into a tree.
    free = """SELECT id FROM files f WHERE id = ANY(%s)
              AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.file = f.id) FOR UPDATE SKIP LOCKED"""
    return db.execute(f"DELETE FROM files WHERE id IN ({free})", (ids,)).rowcount


def unused_trees(db: Connection, tree: TreeRow) -> list[int]:
    """Trees of the same project that nobody asked for in a while: by other recipes, and of single commits."""
    query = """SELECT o.id FROM trees o JOIN trees t ON t.project = o.project WHERE t.id = %s AND o.id <> t.id
               AND ((o.name = t.name AND o.recipe <> t.recipe) OR o.name ^@ 'commit/')
               AND o.used_at < now() - %s * interval '1 day' FOR UPDATE OF o SKIP LOCKED"""
    return [row[0] for row in db.execute(query, (tree.id, _UNUSED_DAYS))]
