"""Keeps the commit index of a root in step with its repository."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.config import Config
from codeinfo.errors import IndexDamaged
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.line import Changes, compare
from codeinfo.knowledge.history import MOST_INDEXED, History
from codeinfo.model import Skip, SourceFile, Walk
from codeinfo.operations.base import Progress
from codeinfo.operations.search import IndexReport
from codeinfo.ports import Embedder
from codeinfo.search.commits import Commit, index_commits
from codeinfo.settings import IndexSettings
from codeinfo.sources.git import GitFailed
from codeinfo.sources.walk import WalkSettings, walk, walked_again
from codeinfo.store.commits import load_commits, save_commits
from codeinfo.store.database import BuildDamaged, Replaced, translate_errors
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from codeinfo.engine.watch import Events
    from codeinfo.index.line import Outcome
    from codeinfo.index.pool import ParsePool, Spares
    from codeinfo.search.commits import CommitIndex


def refresh_commits(root: Path, folder: Path) -> str:
    """Read what was committed since the last time; everything after a rebase, or where nothing was read yet.

    Returns what went wrong, for the report; "" where nothing did.
    """
    history = History(root)
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
        if before is not None and (len(before.lengths) > 2 * MOST_INDEXED or not history.has_ancestor(before.head)):
            before = None
        index = index_commits(head, (Commit(*one) for one in history.commits(before.head if before else "")), before)
    except GitFailed as error:
        return f"git could not read the history, so search does without the newest commits: {error.what}"
    with translate_errors(folder):
        save_commits(folder, index)
    return ""


TOKENS_VERSION = 3  # raise when tokens.py, the field weights or packed references change what is stored
MASKING_VERSION = 2  # raise when sources/secrets masks more: what older rules let through must not stay in an index
KEYWORD_ONLY = (
    "no embedding model is set up, so this is keyword search only: set embedding.provider to use meaning as well"
)

OTHER_MODEL = "the index was made with another embedding model, so this is keyword search only until it is built anew"
_OPEN_TRIES = 20  # each needs another process to swap builds between our reading which one is live and opening it

ProgressSink = Callable[[Progress], None]


Answer = TypeVar("Answer")
State = tuple[Path, str]  # of an index: its build and generation


class Seen(NamedTuple):
    """The files as a refresh saw them, and the index that it left."""

    walk: Walk
    left: State | None


class Since(NamedTuple):
    """What was seen, and what happened since then."""

    seen: Seen
    events: Events


class Fresh(Struct, frozen=True):
    """An opened index and what was done to bring it up to date."""

    store: SqliteStore
    report: IndexReport
    seen: Seen
    announcements: tuple[str, ...] = ()  # what a search must pass on: a mended index, a missing model


class _Task(NamedTuple):
    """One call of `refresh`."""

    started: float
    full: bool
    expected: bool
    since: Since | None
    progress: ProgressSink | None
    notes: list[str]


class IndexManager:
    """One root: its folder in the cache, its settings, its open store."""

    documents = False  # whether its files are documents to convert

    def __init__(self, root: Path, config: Config, embedder: Embedder | None, spares: Spares | None = None) -> None:
        """`spares` are parsers that wait for the next run, of whichever root."""
        self.root = root
        self._spares = spares
        self.config = config
        self._embedder = embedder
        self.folder = IndexFolder(config.paths.cache_dir, root)
        self._store: SqliteStore | None = None
        self._lock = threading.RLock()  # guards which store is the open one
        self._commits: tuple[tuple[int, int] | None, CommitIndex | None] | None = None  # and the file it was read from

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    # --- what there is ---

    def recipe(self) -> str:
        """Everything that makes an index another one; a changed recipe means a rebuild."""
        versions = [TOKENS_VERSION, MASKING_VERSION]
        return json.dumps([*versions, chunk_settings(self.config.index).fingerprint(), self._model()])

    def _model(self) -> str:
        return f"{self._embedder.model_id}/{self._embedder.dimension}" if self._embedder else "none"

    @property
    def embedder(self) -> Embedder | None:
        """What a query is embedded with: nothing while the open index holds another model's vectors."""
        store = self._store
        return self._embedder if store is None or store.recipe.endswith(self._model_of_recipe) else None

    @cached_property
    def _model_of_recipe(self) -> str:
        """How the recipe ends."""
        return f" {json.dumps(self._model())}]"

    def walk_settings(self) -> WalkSettings:
        return WalkSettings(max_file_bytes=self.config.index.max_file_bytes, submodules=self.config.index.submodules)

    def walk(self) -> Walk:
        found = walk(self.root, self.walk_settings())
        if _is_unicode("".join(file.path for file in found.files)):
            return found
        odd = tuple(file for file in found.files if not _is_unicode(file.path))
        skips = (Skip(file.path, "odd-name", "its name is not UTF-8, which JSON needs", matters=True) for file in odd)
        return Walk(tuple(file for file in found.files if file not in odd), (*found.skipped, *skips))

    def live_store(self) -> SqliteStore | None:
        """The live build, opened once and kept while it stays the live one."""
        with self._lock:
            return self._live_store()

    def _live_store(self) -> SqliteStore | None:
        for attempt in range(_OPEN_TRIES):
            build = self.folder.current()
            store = self._store
            if store is not None and (store.folder != build or store.damaged or store.is_replaced):
                self.close()
            if self._store is not None or build is None:
                return self._store
            try:
                self._store = SqliteStore(build)
            except Replaced:
                if attempt == _OPEN_TRIES - 1:
                    raise
        return self._store

    def standing_notes(self) -> tuple[str, ...]:
        """What every answer from this index must say."""
        if self._embedder is None:
            return (KEYWORD_ONLY, *self.config.notes)
        return self.config.notes if self.embedder else (OTHER_MODEL, *self.config.notes)

    def pending(self) -> tuple[Walk, Changes | None]:
        """What the next run would do; None where it would build everything."""
        walked, store = self.walk(), self.live_store()
        if store is None or store.recipe != self.recipe():
            return walked, None
        return walked, self.changes(store, walked)

    def changes(self, store: SqliteStore, walked: Walk) -> Changes:
        return compare(store.sources(), walked.files)

    def edited(self, store: SqliteStore, files: Sequence[SourceFile]) -> list[SourceFile]:
        """Those whose content is not what the index has, which may be although their size and time are."""
        from codeinfo.sources.read import load

        known = store.hashes([file.path for file in files])
        read = ((file, load(self.root, file)) for file in files)
        return [file for file, found in read if isinstance(found, Skip) or found.sha256 != known[file.path]]

    def _pending_after(self, since: Since, state: State | None) -> tuple[Walk, Changes | None]:
        """As `pending`, with the content of every file that something has happened to."""
        walked, changes = self._pending_since(since, state) or self.pending()
        if changes is None or self._store is None:
            return walked, changes
        differ = {*changes.added, *changes.suspects}
        same = [file for file in walked.files if file.path in since.events.files and file not in differ]
        edited = self.edited(self._store, same)
        unchanged = changes.unchanged - len(edited)
        return walked, replace(changes, suspects=(*changes.suspects, *edited), unchanged=unchanged)

    def _pending_since(self, since: Since, state: State | None) -> tuple[Walk, Changes] | None:
        """By a look at what is known to have changed; None where that does not tell, or where the index is no longer
        as it was left."""
        store, changed = self._store, since.events.files
        if store is None or state != since.seen.left or not since.events.are_all:
            return None
        walked = walked_again(self.root, since.seen.walk, changed, self.walk_settings())
        if walked is None:
            return None
        files = [file for file in walked.files if file.path in changed]
        changes = compare(store.sources([file.path for file in files]), files)
        return walked, replace(changes, unchanged=changes.unchanged + len(walked.files) - len(files))

    # --- bringing it up to date ---

    def refresh(
        self,
        *,
        full: bool = False,
        expected: bool = False,
        since: Since | None = None,
        progress: ProgressSink | None = None,
    ) -> Fresh:
        """Do what is needed, nothing more. A damaged index is set aside, built anew, and announced.

        With `expected` changes are likely: a parser starts while the files are still being looked at.
        """
        task = _Task(time.monotonic(), full, expected, since, progress, [])
        try:
            return self._refresh(task)
        except BuildDamaged as damage:
            task.notes.append(self._set_aside(damage))
            return self._refresh(task)

    def _refresh(self, task: _Task) -> Fresh:
        if task.progress is not None:
            task.progress(Progress("walk", 0))
        seen = _state(self.live_store())  # before the walk, which must not be older than what it is compared with
        with ExitStack() as ending:
            pool = None
            if task.expected or task.full or seen is None:
                pool = ending.enter_context(self._parsers())
                pool.warm_up()
            walked, changes = self._pending_after(task.since, seen) if task.since else self.pending()
            store = self._store
            if store is not None and changes is not None and not changes and not task.full and self._is_settled(store):
                store.check_vector_files()
                report = self._report(store, walked, task)
                announced = (*task.notes, *self.standing_notes())
                return Fresh(store, replace(report, unchanged=changes.unchanged), Seen(walked, seen), announced)
            died = ending.enter_context(self.folder.lock())
            store, rebuilt = self._target(task.full)
            if died:
                store.verify()  # a dead writer's work is built upon only if it is sound
            store.check_vector_files()
            if _state(self._store) != seen:  # another process has just finished: what it saw may be newer
                walked, changes = self.walk(), None
            if changes is None or store is not self._store:
                changes = self.changes(store, walked)
            outcome = self._build(store, changes, pool or ending.enter_context(self._parsers()), task)
            return self._told(store, walked, changes, outcome, rebuilt, task)

    def _build(self, store: SqliteStore, changes: Changes, pool: ParsePool, task: _Task) -> Outcome:
        if self._store is None:
            self.folder.promote(store.folder)  # a first search may then already read what is there
        if changes.added or changes.suspects:
            pool.warm_up()
        # A search that finds nothing changed does not need these; otherwise they load while a parser starts.
        from codeinfo.index.line import build

        with pool:
            outcome = build(
                self.root, store, changes, pool, self._embedder, documents=self.documents, progress=task.progress
            )
        store.finish(self._meta())
        if problem := refresh_commits(self.root, self.folder.path):
            task.notes.append(problem)
        if store is not self._store:
            self.folder.promote(store.folder)
            self.close()
            self._store = store
        self.folder.remove_other_builds(store.folder)
        return outcome

    def commits(self) -> CommitIndex | None:
        """What the repository's commits said, as of the last time something was indexed."""
        from codeinfo.store.commits import FILE, load_commits

        stamp = self.folder.stamp(FILE)
        if self._commits is None or self._commits[0] != stamp:
            self._commits = stamp, load_commits(self.folder.path) if stamp else None
        return self._commits[1]

    def _told(
        self, store: SqliteStore, walked: Walk, changes: Changes, outcome: Outcome, rebuilt: bool, task: _Task
    ) -> Fresh:
        unread = tuple(skip for skip in outcome.skipped if skip.matters)
        report = self._report(store, walked, task, outcome.notes, unread)
        return Fresh(
            store,
            replace(
                report,
                added=outcome.added,
                changed=outcome.changed,
                renamed=outcome.renamed,
                removed=len(changes.removed),
                unchanged=report.files - outcome.added - outcome.changed,
                rebuilt=rebuilt,
            ),
            Seen(walked, _state(store)),
            (*task.notes, *self.standing_notes()),
        )

    def _parsers(self) -> ParsePool:
        from codeinfo.index.pool import ParsePool

        workers = self.config.index.workers or available_processors()
        return ParsePool(chunk_settings(self.config.index), workers, self._spares)

    def _is_settled(self, store: SqliteStore) -> bool:
        return is_complete(store) and not self.folder.is_unfinished()

    def _target(self, full: bool) -> tuple[SqliteStore, bool]:
        """The build to fill, and whether it replaces one: it does when the recipe changed or all is to be redone."""
        recipe, live = self.recipe(), self.live_store()  # under the lock: another process may just have swapped
        if live is not None and not full and live.recipe == recipe:
            return live, False
        path = self.folder.fresh_build_path() if full else self.folder.build_path(recipe)
        return SqliteStore(path, recipe=recipe), live is not None

    def _set_aside(self, damage: BuildDamaged) -> str:
        self.close()
        with self.folder.lock():
            if not damage.folder.exists():
                return f"{damage.what}; it was built anew"
            aside = self.folder.set_aside(damage.folder)
        return f"{damage.what}; it was set aside as {aside.name} and built anew"

    def _meta(self) -> dict[str, str]:
        return {
            "indexed_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "root": str(self.root),
            "model_id": self._embedder.model_id if self._embedder else "",
            "dimension": str(self._embedder.dimension if self._embedder else 0),
            "metric": "squared_l2",
        }

    def _report(
        self,
        store: SqliteStore,
        walked: Walk,
        task: _Task,
        notes: Sequence[str] = (),
        unread: tuple[Skip, ...] = (),
    ) -> IndexReport:
        counts = store.counts()
        return IndexReport(
            root=str(self.root),
            files=counts.files,
            chunks=counts.chunks,
            skipped=(*walked.skipped, *counts.skipped, *unread),
            notes=(*task.notes, *notes, *self.standing_notes()),
            took_ms=round(1000 * (time.monotonic() - task.started), 1),
            model_id=self._embedder.model_id if self._embedder else "",
        )


def healed(ask: Callable[[bool], Answer]) -> Answer:
    """The answer to a question that only reads, asked once more where it met damage: the build is marked by then, so
    that a refresh sets it aside and rebuilds it. `ask` receives whether it must refresh."""
    try:
        return ask(False)
    except IndexDamaged:
        return ask(True)


def _state(store: SqliteStore | None) -> State | None:
    return (store.folder, store.meta()["generation"]) if store is not None else None


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # undecodable bytes of a name are kept as surrogates
        return False
    return True


def is_complete(store: SqliteStore) -> bool:
    return store.meta().get("complete") == "1"


def available_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunk_settings(index: IndexSettings) -> ChunkSettings:
    return ChunkSettings(
        code_chars=index.chunk_chars,
        doc_chars=index.section_chars,
        doc_overlap=index.section_overlap,
        fallback_lines=index.fallback_lines,
    )
