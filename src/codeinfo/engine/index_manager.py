"""Index managers: opening an index, finding changes, updating under a lock, swapping builds, repairing damage."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.config import Config
from codeinfo.engine.index_sources import RevisionSource, Source, TeamSource, save_memo
from codeinfo.errors import Busy, CodeInfoError, IndexDamaged, NotFound
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.line import Changes, Outcome, add_edited, compare, update
from codeinfo.model import UNREADABLE, NextStep, SourceFile, Walk, hide_user, iso_time, quantity, to_run
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.operations.search import IndexReport
from codeinfo.ports import NOTHING_KEPT, Embedder, Retention
from codeinfo.settings import IndexSettings
from codeinfo.sources.git import GitFailed, clean_blobs, work_tree_of
from codeinfo.sources.read import Files, FolderFiles
from codeinfo.sources.walk import LACKING, NEEDS_LIBRARY, KnownWalk
from codeinfo.store.database import BuildDamaged, Replaced, translate_errors
from codeinfo.store.layout import COMMITS_FILE, Tree
from codeinfo.store.sqlite import SqliteStore, TreeGone

if TYPE_CHECKING:
    from codeinfo.index.pool import ParsePool, Spares
    from codeinfo.search.channels import CommitIndex
    from codeinfo.team.store import TeamTree, TreeGeneration


def team_cache(config: Config) -> Path:
    """The folder for local copies of a team's database."""
    return config.paths.cache_dir / f"team-{hashlib.sha256(hide_user(config.store.url).encode()).hexdigest()[:12]}"


def _match_committed(root: Path | None, files: Iterable[SourceFile]) -> dict[SourceFile, SourceFile]:
    """The files of a work tree whose blobs git knows, as they are in the tree of a revision, which has no root."""
    if root is None:
        return {file: file for file in files}
    blobs = clean_blobs(root)
    return {SourceFile(file.path, file.size, blobs[file]): file for file in files if file in blobs}


def refresh_commits(root: Path, folder: Path, revision: str, siblings: Iterable[Path] = ()) -> str:
    """Read the commits missing from this tree's commit index, or a sibling's. Returns what went wrong, if anything."""
    # Imported late: a search that finds nothing changed does not need these.
    from codeinfo.knowledge.history import History
    from codeinfo.search.channels import Commit, index_commits
    from codeinfo.store.segments import load_commits, save_commits

    history = History(root, revision)
    if not history.known:
        return ""
    try:
        head = history.head()
    except GitFailed:
        return ""  # no commits yet
    try:
        before = load_commits(folder)
        if before is not None and before.head == head:
            return ""
        indexed = (commits for place in siblings if (commits := load_commits(place)) is not None and len(commits.ids))
        if before is None or not len(before.ids):
            before = next(indexed, None)
        if before is None:
            read = [Commit(*fields) for fields in history.commits()]
            index = index_commits(head, [commit.id for commit in read], read)
        else:
            ids, had = history.commit_ids(), set(before.ids)
            lacking = history.commits([commit for commit in ids if commit not in had])
            index = index_commits(head, ids, (Commit(*fields) for fields in lacking), before)
    except GitFailed as error:
        return f"git could not read the history, so search does without the newest commits: {error.what}"
    with translate_errors(folder):
        save_commits(folder, index)
    return ""


def chunk_settings(index: IndexSettings) -> ChunkSettings:
    return ChunkSettings(
        code_chars=index.chunk_chars,
        doc_chars=index.section_chars,
        doc_overlap=index.section_overlap,
        fallback_lines=index.fallback_lines,
    )


# --- one index --------------------------------------------------------------------------------------------------------

TOKENS_VERSION = 51  # raise when tokens.py, a grammar, the field weights or packed references change what is stored
MASKING_VERSION = 3  # raise when sources/masking masks more: what older rules missed must not stay in an index
KEYWORD_ONLY = (
    "no embedding model is configured, so this is keyword search only; set embedding.provider to search by meaning too"
)
OTHER_MODEL = "the index was built with another embedding model, so this is keyword search only until it is rebuilt"
READ_RATHER = 100  # with fewer files than this, reading them is faster than asking git for their blobs
MOST_COMPARED = 3  # siblings checked for the same blobs
MOST_REVISIONS = 20  # revisions whose trees are kept
MOST_WORKERS = 6  # parser processes by default: the writer keeps about three busy, and each takes memory
PATIENCE_S = 5.0  # for a sibling's refresh; after that a search answers from the current index
FIRST_PATIENCE_S = 900.0  # without an index there is nothing to answer from, and the sibling does most of the work
CONFIRMED_S = 1.0  # how long a check of the team's database is valid for the request that made it
_LOOK_AGAIN_S = 0.1  # between checks whether another process has pulled the team's state
_OPEN_TRIES = 20  # a failure means another process swapped builds after we read which one is live

Answer = TypeVar("Answer")
State = tuple[Path, str]  # of an index: its build and generation


class Events(Struct, frozen=True):
    """The files with file system events, each with whether it may have been created or deleted rather than only
    written. `are_all` guarantees that nothing else happened."""

    files: Mapping[str, bool]
    are_all: bool


class ReadCommits(Struct, frozen=True):
    """The index of commits as it was last read."""

    stamp: tuple[int, int] | None  # of its file
    commits: CommitIndex | None
    problem: str  # why searches do without them


class Comparison(Struct, frozen=True):
    """The files that there are now, how to read them, and what differs from the index."""

    files: Files
    walk: Walk
    changes: Changes | None  # None: everything has to be rebuilt


class Baseline(Struct, frozen=True):
    """What the last refresh left behind, for the next one to start from: the files it found and the index it wrote."""

    walk: Walk
    state: State | None


class Since(Struct, frozen=True):
    """What is known about the time since the last refresh."""

    baseline: Baseline
    events: Events


class RefreshResult(Struct, frozen=True, dict=True):
    """An open index and what was done to refresh it."""

    store: SqliteStore
    baseline: Baseline
    announcements: tuple[str, ...]  # to be passed on by a search: a repaired index, a missing model
    make_report: Callable[[], IndexReport]

    @cached_property
    def report(self) -> IndexReport:
        """Counts the whole index, which a search does not need."""
        return self.make_report()


class IndexManager:
    """One index: its source, its folder in the cache, its settings, its open store."""

    def __init__(
        self,
        source: Source,
        config: Config,
        embedder: Embedder | None,
        spares: Callable[[], Spares] | None = None,
        team: TeamTree | None = None,
    ) -> None:
        """`spares` holds idle parsers for the next run; with `team` the cache holds a copy of its database's index."""
        self.source = source
        self.config = config
        self.team = team
        self.folder = source.index_folder(team_cache(config) if team else config.paths.cache_dir)
        self.file_embedder = embedder  # `embedder` is for queries
        self._spares = spares
        self.open_store: SqliteStore | None = None  # which may no longer be the live one: `live_store` looks
        self._lock = threading.RLock()  # guards which store is open
        self.pulling = threading.Lock()  # one thread refreshes the copy for all
        self._confirmed: tuple[float, TreeGeneration] | None = None
        self._read: ReadCommits | None = None
        self.baseline: Baseline | None = None  # of the last refresh in this process

    @property
    def root(self) -> Path:
        return self.source.root

    def close(self) -> None:
        with self._lock:
            if self.open_store is not None:
                self.open_store.close()
                self.open_store = None

    # --- opening ---

    def live_store(self) -> SqliteStore | None:
        """The live build, opened once and kept open while it is live."""
        with self._lock:
            for attempt in range(_OPEN_TRIES):
                build = self.folder.current()
                store = self.open_store
                if store is not None and (store.folder != build or store.damaged or store.is_replaced):
                    self.close()
                if self.open_store is not None or build is None:
                    return self.open_store
                try:
                    self.open_store = self._open(build)
                except TreeGone:
                    return None
                except Replaced:
                    if attempt == _OPEN_TRIES - 1:
                        raise
            return self.open_store

    @property
    def is_absent(self) -> bool:
        """Whether there is no build. One that is open was there a moment ago, which opening it will check."""
        return self.open_store is None and self.live_store() is None

    def _open(self, build: Path, recipe: str | None = None, *, rewrite: bool = False) -> SqliteStore:
        if self.team is None:
            return SqliteStore(build, self.folder.tree, recipe=recipe)
        from codeinfo.team.store import TeamStore

        commits = self.folder.tree_path / COMMITS_FILE
        return TeamStore(build, self.folder.tree, self.team, recipe=recipe, commits=commits, rewrite=rewrite)

    def recipe(self) -> str:
        if isinstance(self.source, TeamSource):
            return self.source.recipe
        return recipe_of(self.config, self.file_embedder, self.source.versions)

    def confirm(self, reached: TreeGeneration | None) -> None:
        """Record that the team has this generation now, so that a refresh need not ask; None: it may have changed."""
        self._confirmed = (time.monotonic(), reached) if reached is not None else None

    def confirmed_copy(self) -> SqliteStore | None:
        """The copy of a team's tree that the team has just confirmed: a search of a hundred projects asks once."""
        at, reached = self._confirmed or (0.0, None)
        if reached is None or time.monotonic() - at >= CONFIRMED_S:
            return None
        from codeinfo.team.store import TeamStore

        copy = self.live_store()
        return copy if isinstance(copy, TeamStore) and copy.has_reached(reached) else None

    @property
    def embedder(self) -> Embedder | None:
        """The embedder for queries: None while the open index holds another model's vectors."""
        store = self.open_store
        is_comparable = store is None or json.loads(store.recipe)[-1] == _model(self.file_embedder)
        return self.file_embedder if is_comparable else None

    def standing_notes(self) -> tuple[str, ...]:
        """Notes that every answer from this index must carry."""
        notes = []
        if self.embedder is None:
            notes.append(KEYWORD_ONLY if self.file_embedder is None else OTHER_MODEL)
        store = self.open_store
        if self.source.fixed and store is not None and (lacking := int(store.meta().get("lacking", "0"))):
            files = quantity(lacking, "file")
            notes.append(f"this clone lacks the content of {files} of that revision, which the search leaves out")
        return (*notes, *self.config.notes)

    def commits(self) -> CommitIndex | None:
        """The repository's commit messages, as of the last time something was indexed."""
        return self._read_commits().commits

    def commit_notes(self) -> tuple[str, ...]:
        """Why a search does without the commits, if those last read are damaged."""
        return (self._read.problem,) if self._read and self._read.problem else ()

    def _read_commits(self) -> ReadCommits:
        """The commits, read again if their file was replaced. If it is damaged, git has them."""
        from codeinfo.store.segments import load_commits  # imported late: only a search needs arrays

        stamp, place, problem = self.folder.stamp(COMMITS_FILE), self.folder.tree_path, ""
        if self._read is None or self._read.stamp != stamp:
            commits = load_commits(place) if stamp else None
            if stamp and commits is None:
                try:
                    reason = refresh_commits(self.root, place, self.commit or "HEAD")
                except CodeInfoError as error:  # the cache cannot be written
                    reason = error.what
                stamp, commits = self.folder.stamp(COMMITS_FILE), load_commits(place)
                if commits is None:
                    lost = "the index of commits is damaged, so search does without them"
                    problem = f"{lost}: {reason}" if reason else lost
            self._read = ReadCommits(stamp, commits, problem)
        return self._read

    @property
    def commit(self) -> str:
        """Of a revision; "" for a work tree."""
        return self.source.contents.commit if isinstance(self.source, RevisionSource) else ""

    # --- what changed ---

    def find_pending(self) -> Changes | None:
        """What the next run would do; None if it would rebuild everything."""
        return self.find_changes(by_content=False).changes

    def find_changes(self, *, by_content: bool) -> Comparison:
        files, walked = self.source.walk(None if by_content else self.live_store())
        store = self.live_store()
        plain = Walk(walked.files, walked.skipped)
        if store is None or store.recipe != self.recipe():
            return Comparison(files, plain, None)
        state = store.state()  # read before comparing: if another process adds something meanwhile, the state differs
        if isinstance(walked, KnownWalk) and walked.memo.indexed_as == state and not by_content:
            return Comparison(files, plain, Changes((), (), (), len(walked.files)))
        changes = _compare(files, store, walked, by_content)
        if isinstance(walked, KnownWalk) and not changes:
            save_memo(store, replace(walked.memo, indexed_as=state))
        return Comparison(files, plain, changes)

    # --- bringing it up to date ---

    def refresh(
        self,
        *,
        full: bool = False,
        expected: bool = False,
        by_content: bool = False,
        since: Since | None = None,
        progress: ProgressSink = None,
    ) -> RefreshResult:
        """Do what is needed, nothing more. A damaged index is set aside, rebuilt, and announced. With `expected` a
        parser starts while files are still compared. `by_content` finds changes that left size and time as they were.
        """
        return _Refresh(self, full, expected, by_content, since, progress, time.monotonic(), []).run()

    def parsers(self) -> ParsePool:
        from codeinfo.index.pool import ParsePool  # imported late: most searches find nothing to parse

        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = self.config.index.workers or min(cores, MOST_WORKERS)
        return ParsePool(chunk_settings(self.config.index), workers, self._spares() if self._spares else None)

    def clear(self, *, copy_only: bool = False) -> None:
        """Remove this tree with what it alone has, and revisions without a work tree, or only a team's local copy."""
        live = None
        with suppress(CodeInfoError):  # an index that cannot be opened cannot be tidied up
            live = self.live_store()
        with self.folder.lock(to_remove=True):
            if self.team is not None and not copy_only:
                self.team.drop()
            self.folder.remove_tree(self.folder.tree)
            trees = self.folder.trees()
            if not any(tree.root or copy_only for tree in trees):
                self.close()
                self.folder.clear()
            elif live is not None:
                live.tidy(NOTHING_KEPT, [tree.name for tree in trees])
                live.compact()
                self.folder.remove_other_builds(live.folder)
        self.close()

    # --- its builds ---

    def target(self, full: bool) -> tuple[SqliteStore, bool]:
        """The build to fill, and whether it replaces the live one: for another recipe, or if everything is redone."""
        recipe, live = self.recipe(), self.live_store()  # under the lock: another process may just have swapped builds
        path = self.folder.build_path(recipe, fresh=full)
        if live is not None and live.folder == path:
            return live, False
        return self._open(path, recipe, rewrite=full), live is not None

    def adopt(self, store: SqliteStore) -> None:
        """Make a filled build the live one."""
        if store is not self.open_store:
            self.folder.promote(store.folder)
            self.close()
            self.open_store = store
        self.folder.remove_other_builds(store.folder)

    def is_settled(self, store: SqliteStore) -> bool:
        moved = self.folder.build_path(self.recipe()) != store.folder  # a sibling rebuilt everything
        return is_complete(store) and self.folder.is_marked() and not moved and not self.folder.is_unfinished()

    def set_aside(self, damage: BuildDamaged) -> str:
        self.close()
        with self.folder.lock():
            if not damage.folder.exists():
                return f"{damage.what}; it was rebuilt"
            aside = self.folder.set_aside(damage.folder)
        return f"{damage.what}; it was set aside as {aside.name} and rebuilt"

    # --- the other trees of its family ---

    def siblings(self) -> list[Tree]:
        """The other trees of the family, most recently used first."""
        others = (tree for tree in self.folder.trees() if tree.name != self.folder.tree)
        return sorted(others, key=lambda tree: -tree.used_at)

    def known_contents(self, store: SqliteStore, files: Sequence[SourceFile]) -> dict[str, str]:
        """The hashes of files that a sibling has with the same git blob and size: they need not be read."""
        siblings = self.siblings()[:MOST_COMPARED] if len(files) >= READ_RATHER else []
        hashes: dict[str, str] = {}
        with suppress(GitFailed, OSError):
            committed = _match_committed(None if self.source.fixed else self.root, files) if siblings else {}
            for tree in siblings:
                contents = store.contents(tree.name)
                theirs = _match_committed(tree.root, contents)
                hashes |= {committed[same].path: contents[theirs[same]] for same in committed.keys() & theirs.keys()}
        return hashes

    def stale_trees(self, store: SqliteStore) -> Iterator[Tree]:
        """Other trees to drop: folders that are gone, and revisions that are unused, too many or too large alone."""
        keep, others = self.retention(), self.siblings()
        yield from (tree for tree in others if tree.root is not None and not tree.root.is_dir())
        revisions = [tree for tree in others if tree.root is None]
        oldest = time.time() - keep.days * 86_400
        for place, tree in enumerate(revisions):
            names = [revision.name for revision in revisions[: place + 1]]
            if place >= MOST_REVISIONS or tree.used_at < oldest or store.exclusive_share(names) > keep.share:
                yield tree

    def retention(self) -> Retention:
        """Only git brings earlier versions back: without it, removed files are dropped at once."""
        if self.source.documents or work_tree_of(str(self.root)) is None:
            return NOTHING_KEPT
        return Retention(self.config.index.keep_days, self.config.index.keep_share)


class _Refresh(Struct, frozen=True):
    """One call of `IndexManager.refresh`: find what changed, then build what is needed under the lock."""

    index: IndexManager
    full: bool
    expected: bool
    by_content: bool
    since: Since | None
    progress: ProgressSink
    started: float
    notes: list[str]

    def run(self) -> RefreshResult:
        try:
            return self._refresh()
        except BuildDamaged as damage:
            self.notes.append(self.index.set_aside(damage))
            return self._refresh()

    def _wait(self) -> None:
        if self.progress is not None:  # it may raise, which cancels
            self.progress(Progress("wait", 0))

    def _refresh(self) -> RefreshResult:
        index = self.index
        if self.progress is not None:
            self.progress(Progress("walk", 0))
        if aside := index.folder.take_damage_note():
            damaged = f"the index that {index.root} shared was damaged"
            self.notes.append(f"{damaged}; it was set aside as {aside} and rebuilt")
        if index.team is not None and not (self.full and not index.source.fixed):  # everything is to be stored again
            self._pull()
        store = index.live_store()  # which another thread may close meanwhile: it opens again on its own
        before = _state(store)  # before the walk: the state must not be newer than what was seen
        if index.source.fixed and store is not None and index.is_settled(store) and not self.full:
            store.check_vector_files()
            return self._finish(store, Baseline(Walk((), ()), before), Changes((), (), (), 0), None)
        if isinstance(index.source, TeamSource):
            step = "Ask for another branch or tag, or have it indexed again"
            raise NotFound(f"{index.source.name} of {index.source.identity} is not indexed any more", step)
        with ExitStack() as stack:
            pool = None
            if self.expected or self.full or before is None:
                pool = stack.enter_context(index.parsers())
                pool.warm_up()
            found = self._find_changes(before)
            files, walked, changes = found.files, found.walk, found.changes
            store = index.open_store
            if store is not None and changes is not None and not changes and not self.full and index.is_settled(store):
                store.check_vector_files()
                return self._finish(store, Baseline(walked, before), changes, None)
            died = stack.enter_context(index.folder.lock(PATIENCE_S if before else FIRST_PATIENCE_S, self._wait))
            if index.team is not None:
                stack.enter_context(index.team.database.locked(f"{index.team.name} of {index.team.identity}"))
            store, rebuilt = index.target(self.full)
            if died:
                store.verify()  # reuse a dead writer's work only if it is intact
            store.check_vector_files()
            if _state(index.open_store) != before:  # another process has just finished: it may have seen newer files
                files, walked = index.source.walk(None if self.by_content else index.open_store)
                changes = None
            if changes is None or store is not index.open_store:
                changes = _compare(files, store, walked, self.by_content)
            pool = pool or stack.enter_context(index.parsers())
            outcome = self._build(files, walked, store, changes, pool)
            return self._finish(store, Baseline(walked, _state(store)), changes, outcome, rebuilt=rebuilt)

    def _find_changes(self, state: State | None) -> Comparison:
        """Files with events are compared by content."""
        index, since = self.index, self.since
        by_events = self._compare_by_events(since, state) if since else None
        found = by_events or index.find_changes(by_content=self.by_content)
        if since is None or found.changes is None or index.open_store is None:
            return found
        touched = [file for file in found.walk.files if file.path in since.events.files]
        return replace(found, changes=add_edited(found.files, index.open_store, found.changes, touched))

    def _compare_by_events(self, since: Since, state: State | None) -> Comparison | None:
        """None if the events are not enough, or if the index has changed since."""
        index, before, events = self.index, since.baseline, since.events
        store, changed = index.open_store, events.files
        if store is None or state != before.state or not events.are_all:
            return None
        walked = index.source.walk_changed(before.walk, changed)
        if walked is None:
            return None
        changed_files = [file for file in walked.files if file.path in changed]
        changes = compare(
            store.sources([file.path for file in changed_files]),
            changed_files,
            alike=len(walked.files) - len(changed_files),
        )
        return Comparison(FolderFiles(index.root), walked, changes)

    def _pull(self) -> None:
        """Bring the copy up to date with the team, waiting for another process that is doing so."""
        until = time.monotonic() + (PATIENCE_S if self.index.live_store() else FIRST_PATIENCE_S)
        while not self._is_pulled(until):
            self._wait()
            time.sleep(_LOOK_AGAIN_S)

    def _is_pulled(self, until: float) -> bool:
        """Pull the copy, unless it is up to date. False if another process holds it; from `until` on, that is Busy."""
        from codeinfo.team.store import TeamStore

        index = self.index
        with index.pulling:
            live = index.live_store()
            usable = live if isinstance(live, TeamStore) and live.recipe == index.recipe() else None
            if usable is not None and index.is_settled(usable):
                confirmed = None if self.expected else index.confirmed_copy()
                if confirmed is usable or not usable.is_behind(patient=self.expected):
                    return True
            try:
                with index.folder.lock(until - time.monotonic(), self._wait) as died:
                    copy, _ = index.target(full=False)
                    assert isinstance(copy, TeamStore)
                    if died:
                        copy.verify()
                    copy.pull()
                    if is_complete(copy):  # also if the process that pulled it died before adopting it
                        index.adopt(copy)
            except Busy:
                if time.monotonic() >= until:
                    raise
                return False
            return True

    def _build(self, files: Files, walked: Walk, store: SqliteStore, changes: Changes, pool: ParsePool) -> Outcome:
        index = self.index
        if index.open_store is None:
            index.folder.promote(store.folder)  # a first search may then already read what is there
        if changes.added or changes.suspects:
            pool.warm_up()
        siblings = (index.folder.path / "trees" / tree.name for tree in index.siblings())
        # First: the parsers start meanwhile, and git's memory does not add to theirs.
        if problem := refresh_commits(index.root, index.folder.tree_path, index.commit or "HEAD", siblings):
            self.notes.append(problem)
        with pool:
            outcome = update(
                files,
                store,
                changes,
                pool,
                index.file_embedder,
                contents={} if self.by_content else index.known_contents(store, changes.added),
                documents=index.source.documents,
                progress=self.progress,
            )
        for tree in index.stale_trees(store):
            index.folder.remove_tree(tree.name)
        lacking = sum(skip.rule == LACKING for skip in (*walked.skipped, *outcome.skipped))
        meta = {
            "lacking": str(lacking),
            "indexed_at": iso_time(),
            "root": str(index.root),
            "revision": index.commit,
            **model_meta(index.file_embedder),
        }
        store.finish(meta, index.retention(), [tree.name for tree in index.folder.trees()])
        index.adopt(store)
        return outcome

    def _finish(
        self,
        store: SqliteStore,
        baseline: Baseline,
        changes: Changes,
        outcome: Outcome | None,
        *,
        rebuilt: bool = False,
    ) -> RefreshResult:
        """`outcome` is the build's result, None if nothing was done."""
        index = self.index
        index.baseline = baseline
        done, standing, took = outcome or Outcome(), index.standing_notes(), time.monotonic() - self.started
        run_notes = tuple(self.notes)  # a reference to the run would keep its caller in memory
        unread = sum(skip.rule == UNREADABLE for skip in baseline.walk.skipped)

        def make_report() -> IndexReport:
            counts = store.counts()
            return IndexReport(
                root=str(index.root),
                files=counts.files,
                chunks=counts.chunks,
                added=done.added,
                changed=done.changed,
                renamed=done.renamed,
                removed=len(changes.removed),
                unchanged=counts.files - done.added - done.changed,
                rebuilt=rebuilt,
                skipped=(*baseline.walk.skipped, *counts.skipped, *(skip for skip in done.skipped if skip.matters)),
                notes=(*run_notes, *sorted(done.notes), *standing),
                took_ms=round(1000 * took, 1),
                model_id=index.file_embedder.model_id if index.file_embedder else "",
            )

        if unread:  # the report names them
            standing = (unread_note(unread), *standing)
        return RefreshResult(store, baseline, (*run_notes, *standing), make_report)


def unread_note(count: int) -> NextStep:
    what = "1 place cannot be read and is" if count == 1 else f"{count:,} places cannot be read and are"
    return NextStep(f"{what} left out: ", to_run("index"), " names it" if count == 1 else " names them")


def model_meta(embedder: Embedder | None) -> dict[str, str]:
    """What an index records about its vectors."""
    return {
        "model_id": embedder.model_id if embedder else "",
        "dimension": str(embedder.dimension if embedder else 0),
        "metric": "squared_l2",
    }


def recipe_of(config: Config, embedder: Embedder | None, versions: Iterable[int] = ()) -> str:
    """Everything that makes an index incompatible; a changed recipe means a rebuild."""
    numbers = [*versions, TOKENS_VERSION, MASKING_VERSION]
    return json.dumps([*numbers, chunk_settings(config.index).fingerprint(), _model(embedder)])


def _model(embedder: Embedder | None) -> str:
    return f"{embedder.model_id}/{embedder.dimension}" if embedder else "none"


def retry_on_damage(ask: Callable[[bool], Answer]) -> Answer:
    """The answer to a read-only question, asked again if it hit damage: by then the build is marked, so that a refresh
    sets it aside and rebuilds it. `ask` receives whether it must refresh."""
    try:
        return ask(False)
    except IndexDamaged:
        return ask(True)


def _compare(files: Files, store: SqliteStore, walked: Walk, by_content: bool) -> Changes:
    changes = compare(store.sources(), walked.files)
    changes = add_edited(files, store, changes, walked.files) if by_content else changes
    # A document that can no longer be converted here stays as it was indexed.
    unread = {skip.path for skip in walked.skipped if skip.rule == NEEDS_LIBRARY}
    removed = tuple(path for path in changes.removed if path not in unread)
    unconverted = len(changes.removed) - len(removed)
    return replace(changes, removed=removed, unchanged=changes.unchanged + unconverted) if unconverted else changes


def _state(store: SqliteStore | None) -> State | None:
    return (store.folder, store.meta()["generation"]) if store is not None else None


def is_complete(store: SqliteStore) -> bool:
    return store.meta().get("complete") == "1"
