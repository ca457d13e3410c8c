"""How workers index a branch or tag: a plan of what its commit changes, batches of files that nobody has parsed yet,
and one transaction that changes the tree.

Every step may be done again by another worker when one died: files are content-addressed, a batch that is done is not
done again, and only the transaction that ends a run has an effect that others see. Jobs are deferred in the transaction
that makes them necessary, so none is lost and none is left over.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from codeinfo.errors import Busy, CodeInfoError
from codeinfo.index.line import Changes, ProgressSink, compare, update
from codeinfo.index.pool import ParsePool
from codeinfo.model import FileKind, IndexedFile, ParsedFile, Skip, SourceFile, Walk
from codeinfo.ports import Embedder, Retention, StoredFile
from codeinfo.sources.read import CONTENT_RULES, Files
from codeinfo.sources.walk import LACKING
from codeinfo.store.commits import FILE
from codeinfo.team.database import Connection, TeamDatabase
from codeinfo.team.mirror import Mirror, Mirrors
from codeinfo.team.store import (
    TreeRow,
    attach,
    collect,
    create_tree,
    decode_file,
    drop_tree,
    finish_tree,
    set_entries,
    store_files,
)

if TYPE_CHECKING:
    from codeinfo.ports import Vectors

INDEX, BATCH, FINISH = "index_ref", "index_batch", "finish_tree"  # the jobs
BATCH_FILES = 200  # of which a worker parses and embeds for some seconds
BATCH_BYTES = 4_000_000
DEATHS = 2  # of workers at one batch, after which it is divided
DIED = "worker-died"  # the rule that leaves out a file at which workers died
_OPEN_REVISIONS = 4  # whose files stay listed in a worker
_FILE = """SELECT f.id FROM files f WHERE f.family = %(family)s AND f.recipe = %(recipe)s AND f.path = n.path
           AND f.sha256 = n.sha256
           AND (f.brought_back = n.brings_back OR NOT (f.brought_back OR f.skip = ANY(%(rules)s))) LIMIT 1"""


class Defer(Protocol):
    """Queue a job in a transaction; one with the same `key` that waits already is enough."""

    def __call__(self, db: Connection, job: str, arguments: Mapping[str, Any], *, key: str = "") -> None: ...


class Tools(Struct, frozen=True):
    """What a worker indexes with."""

    database: TeamDatabase
    mirrors: Mirrors
    recipe: str
    walk: Callable[[Path, str], tuple[Files, Walk]]  # the files of a commit in a mirror
    parsers: Callable[[], ParsePool]
    embedder: Embedder | None
    commits: Callable[[Path, str, bytes], bytes]  # the messages of a commit's history, from those of an earlier one
    meta: Mapping[str, str]  # what a tree says about the model
    keep: Retention


class _Run(Struct, frozen=True):
    id: int
    tree: int
    ref: str
    revision: str
    project: int
    identity: str
    family: str
    clone_url: str
    lacking: int
    again: bool


_RUN = """SELECT r.id, t.id, t.name, r.revision, p.id, p.identity, p.family, p.clone_url, r.lacking, r.again
          FROM index_runs r JOIN trees t ON t.id = r.tree JOIN projects p ON p.id = t.project
          WHERE r.id = %s AND r.state = 'active'"""


class Indexing:
    def __init__(self, tools: Tools, defer: Defer) -> None:
        self._tools = tools
        self._defer = defer
        self._database = tools.database
        self._revisions: OrderedDict[tuple[Path, str], tuple[Files, Walk]] = OrderedDict()

    # --- planning ---

    def plan(self, project: int, ref: str) -> str:
        """Fetch, and list what the commit that a ref names now changes in its tree; says what was found. A ref of "" is
        all that the project follows."""
        row = self._project(project)
        if row is None:
            return "the project is gone"
        identity, family, clone_url = row
        mirror = self._tools.mirrors.of(clone_url)
        with mirror.used():
            mirror.fetch()
            self._tools.mirrors.make_room()
            if not ref:
                return self._plan_all(project, mirror)
            return self._plan_ref(project, identity, family, mirror, ref)

    def _plan_ref(self, project: int, identity: str, family: str, mirror: Mirror, ref: str) -> str:
        commit = mirror.refs().get(ref)
        if commit is None:
            self._drop(project, ref)
            return f"{identity} has no {ref}"
        with self._database.transaction() as db:
            tree = create_tree(db, identity, family, ref, self._tools.recipe, with_project=False)
            if found := self._in_hand(db, tree, commit):
                return found
            query = "SELECT path, size, mtime_ns FROM entries WHERE tree = %s AND file IS NOT NULL"
            known = {SourceFile(*source) for source in db.execute(query, (tree.id,))}
        files, walked = self._listed(mirror.folder, commit)
        changes = compare(known, walked.files)
        found_files, lacking = _read(files, (*changes.suspects, *changes.added))
        lacking += sum(skip.rule == LACKING for skip in walked.skipped)
        with self._database.transaction() as db:
            now = create_tree(db, identity, family, ref, self._tools.recipe, with_project=False)
            if now.generation != tree.generation or self._in_hand(db, now, commit):
                raise Busy(f"{ref} of {identity} was just changed by another worker", next_step="It is tried again")
            new = self._begin(db, now, commit, found_files, changes.removed, lacking)
        return f"{identity} {ref} at {commit[:12]}: {len(found_files)} files changed, {new} to parse"

    def _plan_all(self, project: int, mirror: Mirror) -> str:
        """Look at the default branch, at what the project follows, and at what is indexed already."""
        refs, default = mirror.refs(), mirror.default_ref()
        trees = "SELECT name, revision FROM trees WHERE project = %s AND recipe = %s AND complete"
        with self._database.transaction() as db:
            query = "UPDATE projects SET default_ref = %s WHERE id = %s RETURNING identity, follow"
            ((identity, follow),) = db.execute(query, (default, project)).fetchall()
            known = dict(db.execute(trees, (project, self._tools.recipe)).fetchall())
            known = {ref: revision for ref, revision in known.items() if ref.startswith("refs/")}
            wanted = [ref for ref in refs if ref == default or is_followed(ref, follow)]
            changed = [ref for ref in dict.fromkeys((*wanted, *known)) if refs.get(ref) != known.get(ref)]
            for ref in changed:
                self.defer_ref(db, project, ref)
        return f"{identity}: {len(changed)} branches and tags changed"

    def _project(self, project: int) -> tuple[str, str, str] | None:
        query = "SELECT identity, family, clone_url FROM projects WHERE id = %s"
        found = self._database.read(lambda db: db.execute(query, (project,)).fetchall())
        return found[0] if found else None

    def _in_hand(self, db: Connection, tree: TreeRow, commit: str) -> str:
        """Why there is nothing to plan; "" where there is."""
        if tree.complete and tree.revision == commit:
            return f"{tree.identity} {tree.name} is up to date"
        query = """UPDATE index_runs SET again = again OR revision <> %s WHERE tree = %s AND state = 'active'
                   RETURNING id"""
        if db.execute(query, (commit, tree.id)).fetchall():
            return f"{tree.identity} {tree.name} is being indexed"
        return ""

    def _begin(
        self,
        db: Connection,
        tree: TreeRow,
        commit: str,
        files: Sequence[tuple[SourceFile, str, bool]],
        removed: Sequence[str],
        lacking: int,
    ) -> int:
        insert = "INSERT INTO index_runs(tree, revision, files, lacking) VALUES (%s, %s, %s, %s) RETURNING id"
        run = db.execute(insert, (tree.id, commit, len(files) + len(removed), lacking)).fetchall()[0][0]
        with db.cursor().copy("COPY index_files(run, path, size, mtime_ns, sha256, brings_back) FROM STDIN") as rows:
            for source, sha256, brings_back in files:
                rows.write_row((run, *source, sha256, brings_back))
            for path in removed:
                rows.write_row((run, path, 0, 0, None, False))
        query = f"""SELECT path, size FROM index_files n WHERE run = %(run)s AND sha256 IS NOT NULL
                    AND NOT EXISTS ({_FILE}) ORDER BY path"""
        asked = {"run": run, "family": tree.family, "recipe": tree.recipe, "rules": list(CONTENT_RULES)}
        new = db.execute(query, asked).fetchall()
        for paths in _batches(new):
            self._add_batch(db, run, paths)
        if not new:
            self._defer(db, FINISH, {"run": run})
        return len(new)

    def _add_batch(self, db: Connection, run: int, paths: Sequence[str]) -> None:
        insert = "INSERT INTO index_batches(run, files) VALUES (%s, %s) RETURNING id"
        batch = db.execute(insert, (run, len(paths))).fetchall()[0][0]
        db.execute("UPDATE index_files SET batch = %s WHERE run = %s AND path = ANY(%s)", (batch, run, list(paths)))
        self._defer(db, BATCH, {"batch": batch})

    def _listed(self, mirror: Path, commit: str) -> tuple[Files, Walk]:
        """Once a worker: the batches of a run share it."""
        key = (mirror, commit)
        if key not in self._revisions:
            self._revisions[key] = self._tools.walk(mirror, commit)
        self._revisions.move_to_end(key)
        while len(self._revisions) > _OPEN_REVISIONS:
            self._revisions.popitem(last=False)
        return self._revisions[key]

    def _drop(self, project: int, ref: str) -> None:
        """The tree of a branch or tag that is gone."""
        with self._database.transaction() as db:
            for (tree,) in db.execute("SELECT id FROM trees WHERE project = %s AND name = %s", (project, ref)):
                drop_tree(db, tree)

    # --- batches ---

    def index_batch(self, batch: int, progress: ProgressSink | None = None) -> str:
        """Parse and embed the files of a batch, and store them. The last one of a run has it finished."""
        with self._database.transaction() as db:
            begin = "UPDATE index_batches SET starts = starts + 1 WHERE id = %s AND NOT done RETURNING run, starts"
            started = db.execute(begin, (batch,)).fetchall()
            row = db.execute(_RUN, (started[0][0],)).fetchall() if started else []
            if not row:
                return "done already"
            run = _Run(*row[0])
            query = "SELECT path, size, mtime_ns, sha256 FROM index_files WHERE batch = %s ORDER BY path"
            files = [(SourceFile(*source), sha256) for *source, sha256 in db.execute(query, (batch,))]
            if started[0][1] > DEATHS:
                return self._divide(db, run, batch, files)
        try:
            self._index(run, files, progress)
        except BaseException:  # this worker lives on: nothing that a file did to it
            with self._database.transaction() as db:
                db.execute("UPDATE index_batches SET starts = starts - 1 WHERE id = %s", (batch,))
            raise
        with self._database.transaction() as db:
            self._close(db, run.id, batch)
        return f"{run.identity} {run.ref}: {len(files)} files parsed"

    def _index(self, run: _Run, files: Sequence[tuple[SourceFile, str]], progress: ProgressSink | None) -> None:
        mirror = self._tools.mirrors.of(run.clone_url)
        target = _Target(self._tools, run.family)
        changes = Changes(tuple(source for source, _ in files), (), (), 0)
        with mirror.used(), self._tools.parsers() as pool:
            mirror.ensure(run.revision)
            contents, _ = self._listed(mirror.folder, run.revision)
            update(contents, target, changes, pool, self._tools.embedder, progress=progress)
        stored = target.stored([source.path for source, _ in files])
        if lost := [source.path for source, sha256 in files if (source.path, sha256) not in stored]:
            raise CodeInfoError(
                f"{len(lost)} files of {run.identity} could not be read, {lost[0]} among them",
                next_step="It is tried again; if that does not help, remove the worker's mirror",
            )

    def _close(self, db: Connection, run: int, batch: int) -> None:
        db.execute("SELECT 1 FROM index_runs WHERE id = %s FOR UPDATE", (run,))  # of two last ones one is the last
        if db.execute("UPDATE index_batches SET done = true WHERE id = %s AND NOT done", (batch,)).rowcount:
            left = "SELECT 1 FROM index_batches WHERE run = %s AND NOT done LIMIT 1"
            if not db.execute(left, (run,)).fetchall():
                self._defer(db, FINISH, {"run": run})

    def _divide(self, db: Connection, run: _Run, batch: int, files: Sequence[tuple[SourceFile, str]]) -> str:
        """Workers died at this batch: at which file shows when it is alone, and is then left out."""
        if len(files) == 1:
            source, sha256 = files[0]
            notes = (f"{DEATHS} workers died while they indexed it",)
            nothing = ParsedFile(chunks=())
            skipped = IndexedFile(source, sha256, "", FileKind.CODE, nothing, notes=notes, skip=DIED)
            store_files(db, run.family, self._tools.recipe, [skipped])
            self._close(db, run.id, batch)
            return f"{run.identity} {source.path}: left out, {notes[0]}"
        middle = len(files) // 2
        for part in (files[:middle], files[middle:]):
            self._add_batch(db, run.id, [source.path for source, _ in part])
        db.execute("UPDATE index_batches SET divided = true WHERE id = %s", (batch,))
        self._close(db, run.id, batch)
        return f"{run.identity}: {len(files)} files divided, {DEATHS} workers died at them"

    # --- finishing ---

    def finish(self, run: int) -> str:
        """Change the tree as planned, in one transaction that tells the servers."""
        tools, commits = self._tools, self._commits(run)
        with self._database.transaction() as db:
            row = db.execute(f"{_RUN} FOR UPDATE OF r, t", (run,)).fetchall()
            if not row:
                return "done already"
            found = _Run(*row[0])
            query = f"""SELECT n.path, n.size, n.mtime_ns, n.sha256 IS NULL, ({_FILE}) FROM index_files n
                        WHERE n.run = %(run)s"""
            asked = {"run": run, "family": found.family, "recipe": tools.recipe, "rules": list(CONTENT_RULES)}
            rows = db.execute(query, asked).fetchall()
            if gone := [(path, size) for path, size, _, removed, file in rows if not removed and file is None]:
                for paths in _batches(gone):  # collected as garbage meanwhile
                    self._add_batch(db, run, paths)
                return f"{found.identity} {found.ref}: {len(gone)} files are needed again"
            placed = [(SourceFile(*row[:3]), row[4]) for row in rows if row[4] is not None]
            set_entries(db, found.tree, placed, [row[0] for row in rows if row[3]])
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            meta = {**tools.meta, "lacking": str(found.lacking), "indexed_at": now, "root": found.identity}
            if commits:
                attach(db, found.tree, FILE, commits)
            finish_tree(db, found.tree, meta, found.revision)
            db.execute("DELETE FROM index_files WHERE run = %s", (run,))
            db.execute("UPDATE index_runs SET state = 'done', finished_at = now() WHERE id = %s", (run,))
            if found.again:
                self.defer_ref(db, found.project, found.ref)
        with self._database.transaction() as db:
            collect(db, found.family, tools.recipe, tools.keep)
        return f"{found.identity} {found.ref} is at {found.revision[:12]}: {len(rows)} files changed"

    def _commits(self, run: int) -> bytes:
        query = "SELECT data FROM attachments WHERE tree = %s AND name = %s"
        row = self._database.read(lambda db: db.execute(_RUN, (run,)).fetchall())
        if not row:
            return b""
        found = _Run(*row[0])
        before = self._database.read(lambda db: db.execute(query, (found.tree, FILE)).fetchall())
        mirror = self._tools.mirrors.of(found.clone_url)
        with mirror.used():
            mirror.ensure(found.revision)
            return self._tools.commits(mirror.folder, found.revision, before[0][0] if before else b"")

    def defer_ref(self, db: Connection, project: int, ref: str) -> None:
        self._defer(db, INDEX, {"project": project, "ref": ref}, key=f"{project} {ref}")

    def fail(self, problem: str, *, run: int = 0, batch: int = 0) -> None:
        """Give a run up; the next push begins another one."""
        query = """UPDATE index_runs SET state = 'failed', problem = %s, finished_at = now() WHERE state = 'active'
                   AND (id = %s OR id = (SELECT run FROM index_batches WHERE id = %s))"""
        with self._database.transaction() as db:
            db.execute(query, (problem[:1000], run, batch))


class _Target:
    """The index line writes a batch here: its files are stored for the family, and in no tree yet."""

    def __init__(self, tools: Tools, family: str) -> None:
        self._database = tools.database
        self._key = (family, tools.recipe)

    def hashes(self, paths: Sequence[str]) -> dict[str, str]:
        return {}

    def warm_up(self) -> None:
        pass

    def stored(self, paths: Sequence[str]) -> dict[tuple[str, str], list[StoredFile]]:
        query = """SELECT path, sha256, id, skip, brought_back FROM files
                   WHERE family = %s AND recipe = %s AND path = ANY(%s)"""
        found: dict[tuple[str, str], list[StoredFile]] = {}
        rows = self._database.read(lambda db: db.execute(query, (*self._key, list(paths))).fetchall())
        for path, sha256, *stored in rows:
            found.setdefault((path, sha256), []).append(StoredFile(*stored))
        return found

    def vectors_by_hash(self, sha256: str) -> Vectors | None:
        query = (
            "SELECT payload FROM files WHERE family = %s AND recipe = %s AND sha256 = %s AND chunk_count > 0 LIMIT 1"
        )
        found = self._database.read(lambda db: db.execute(query, (*self._key, sha256)).fetchall())
        return decode_file(found[0][0]).vectors if found else None

    def apply(
        self,
        files: Sequence[IndexedFile],
        removed: Sequence[str],
        touched: Sequence[SourceFile],
        reused: Sequence[tuple[SourceFile, int]] = (),
    ) -> None:
        if files:
            with self._database.transaction() as db:
                store_files(db, *self._key, sorted(files, key=lambda file: file.source.path))


def is_followed(ref: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(ref, pattern) for pattern in patterns)


def _read(files: Files, wanted: Iterable[SourceFile]) -> tuple[list[tuple[SourceFile, str, bool]], int]:
    """Each with the hash of its content and whether an ignore file brings it back; and how many cannot be read."""
    found, lacking = list[tuple[SourceFile, str, bool]](), 0
    for source, loaded in files.load(wanted):
        if isinstance(loaded, Skip):
            lacking += loaded.rule == LACKING
        else:
            found.append((source, loaded.sha256, files.brings_back(source.path)))
    return found, lacking


def _batches(files: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Paths that are done together, by number and size."""
    batch, size = list[str](), 0
    for path, more in files:
        if batch and (len(batch) >= BATCH_FILES or size + more > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += more
    if batch:
        yield batch
