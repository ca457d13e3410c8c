"""The indexes of one process: which project a path belongs to, each index opened once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from codeinfo.config import Config
from codeinfo.engine.index_manager import IndexManager, RefreshResult, is_complete, recipe_of, team_cache
from codeinfo.engine.index_sources import CodeSource, RevisionSource, Source, StoredFiles, TeamSource, walk_settings
from codeinfo.errors import (
    Busy,
    CodeInfoError,
    IndexDamaged,
    NotFound,
    OutOfSpace,
    StoreUnavailable,
    UsageError,
    requires,
)
from codeinfo.files import refusal, resolve_existing, resolve_root
from codeinfo.globs import lies_below, similar_paths
from codeinfo.model import INDEXING, NextStep, Note, shown_root, to_run
from codeinfo.models import Models
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.operations.clients import Project, ProjectsResult
from codeinfo.sources.git import commit_of, is_address, is_repository, names_repository, work_tree_of
from codeinfo.sources.walk import RevisionFiles
from codeinfo.store.database import REVISION
from codeinfo.store.layout import IndexFolder, bytes_under, indexed_roots, make_room
from codeinfo.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from codeinfo.index.pool import Spares
    from codeinfo.store.user_data import UserData
    from codeinfo.team.database import TeamDatabase
    from codeinfo.team.store import TeamTree, TreeRow

OPEN_REVISIONS = 4  # revisions whose stores stay open
NAME_WITH_HOST = "A project of the team is named with its host, as in github.com/owner/name"
OPEN_TREES = 200  # a team's trees, or folders searched as one
PULLS = 4  # concurrent pulls of a team's projects
LEFT_OUT = 5  # projects named in a note
MOST_SIMILAR = 3  # files named for one that does not exist


class OpenIndex(Struct, frozen=True):
    """An index that can be read, and the notes that its answers must carry."""

    index: IndexManager
    store: SqliteStore
    notes: tuple[str, ...]


class Place(Struct, frozen=True):
    """A folder or file within its project: `below` is its path from the root, "" for the whole project."""

    index: IndexManager
    below: str


class Searchable(Struct, frozen=True):
    """The projects that are searched as one, and how many are left out."""

    indexes: list[IndexManager]
    too_old: int
    not_ready: int  # not indexed yet, or with another model


class TeamTrees:
    """The trees of a team that this process has opened, each as a local copy."""

    def __init__(self, database: TeamDatabase, config: Config, models: Models) -> None:
        self._database = database
        self._config = config
        self._models = models
        self._lock = threading.Lock()
        self._trees: dict[int, IndexManager] = {}  # by their rows, most recently used last
        self._rows: dict[tuple[str, str], TreeRow] = {}  # as named by the local operator

    def close(self) -> None:
        with self._lock:
            for manager in self._trees.values():
                manager.close()
            self._trees.clear()

    def find(self, name: str, at: str, user: int | None) -> Place:
        """A team's project, or a part of one. One that the caller may not see is answered as if it did not exist."""
        from codeinfo.team.store import open_tree

        try:
            row = open_tree(self._database, user, name, at, recipe_of(self._config, self._models.embedder()))
        except StoreUnavailable:
            row = self._rows.get((name, at)) if user is None else None
            if row is None:
                raise
            index = self._open(row)
        else:
            if row is None:
                raise self._unknown(name, at, user)
            if user is None:
                self._rows[name, at] = row
            index = self._open_confirmed(row)
        self._make_room([index])
        return Place(index, name[len(row.identity) + 1 :])

    def newest(self, user: int | None) -> Searchable:
        """What the caller may search as one."""
        from codeinfo.team.store import list_projects, newest_trees

        rows = newest_trees(self._database, user, recipe_of(self._config, self._models.embedder()))
        newest = [self._open_confirmed(row) for row in rows[:OPEN_TREES]]
        self._make_room(newest)
        not_ready = len(list_projects(self._database, user)) - len(rows)
        return Searchable(newest, max(0, len(rows) - OPEN_TREES), not_ready)

    def projects(self, user: int | None) -> list[Project]:
        """The team's projects that the caller may see."""
        from codeinfo.team.store import list_projects

        return [
            Project(
                name=row.identity.rpartition("/")[2],
                root=f"//{row.identity}",
                files=int(row.meta.get("files", 0)),
                chunks=int(row.meta.get("chunks", 0)),
                modelId=row.meta.get("model_id", ""),
                indexedAt=row.meta.get("indexed_at", ""),
                state="ready" if row.complete else "building",
            )
            for row in list_projects(self._database, user)
        ]

    def tree_of(self, source: Source) -> TeamTree:
        """The team's tree for a local folder, or for a commit of its repository."""
        from codeinfo.team.access import folder_identity, work_tree_name
        from codeinfo.team.store import TeamTree

        if isinstance(source, RevisionSource):
            name = f"commit/{source.index_folder(team_cache(self._config)).tree.removeprefix(REVISION)}"
        else:
            name = work_tree_name(source.root)
        return TeamTree(self._database, folder_identity(source.root), name)

    def open_indexes(self) -> dict[int, IndexManager]:
        """By their rows."""
        with self._lock:
            return dict(self._trees)

    def drop_copy(self, row: TreeRow) -> None:
        with self._lock:
            index = self._trees.pop(row.id, None) or self._manager(row)
        if index.folder.exists():
            index.clear(copy_only=True)

    def _open_confirmed(self, row: TreeRow) -> IndexManager:
        """The index of a tree that the database has just returned."""
        index = self._open(row)
        index.confirm(row.reached)
        return index

    def _open(self, row: TreeRow) -> IndexManager:
        with self._lock:
            index = self._trees.pop(row.id, None) or self._manager(row)
            self._trees[row.id] = index
            while len(self._trees) > OPEN_TREES:
                self._trees.pop(next(iter(self._trees))).close()
        index.folder.mark_used()
        return index

    def _manager(self, row: TreeRow) -> IndexManager:
        from codeinfo.team.store import TeamTree

        contents = StoredFiles(lambda: manager.live_store())
        source = TeamSource(row.identity, row.family, row.name, row.recipe, contents)
        tree = TeamTree(self._database, row.identity, row.name)
        manager = IndexManager(source, self._config, self._models.embedder(), team=tree)
        return manager

    def _make_room(self, indexes: Sequence[IndexManager]) -> None:
        """Make room for copies that are about to be pulled."""
        cache, most_bytes = team_cache(self._config), self._config.store.cache_mb * 1_000_000
        absent = next((manager for manager in indexes if manager.is_absent), None)
        if absent is not None and bytes_under(cache) > most_bytes:
            with self._lock:
                for manager in self._trees.values():  # open ones stay; closed ones are reopened on demand
                    if manager is not absent:
                        manager.close()
            make_room(cache, most_bytes, absent.folder.path)

    def _unknown(self, name: str, at: str, user: int | None) -> CodeInfoError:
        from codeinfo.team.access import no_project
        from codeinfo.team.store import list_trees

        if at and (names := list_trees(self._database, user, name)):
            return NotFound(f"{name} has no index of {at}", f"There are: {', '.join(names[:10])}")
        return no_project(name)


class Indexes:
    """All indexes of one process, each opened on first use and kept open until `close`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.models = Models(config)
        self._spares: Spares | None = None
        self._lock = threading.RLock()
        self._managers: dict[str, IndexManager] = {}
        self._revisions: dict[tuple[str, str], IndexManager] = {}  # by root and commit, most recently used last
        self._trees: TeamTrees | None = None

    @cached_property
    def team(self) -> TeamDatabase | None:
        """The team's shared database, if `store.url` is set."""
        if not self.config.store.url:
            return None
        with requires("server"):
            from codeinfo.team.database import TeamDatabase

        return TeamDatabase(self.config.store.url)

    @property
    def trees(self) -> TeamTrees:
        """Of the team, which there must be."""
        with self._lock:
            if self._trees is None:
                assert self.team is not None
                self._trees = TeamTrees(self.team, self.config, self.models)
            return self._trees

    @cached_property
    def user_data(self) -> Path | UserData:
        """The store of conversations and savings: the user's data folder, or the team's database."""
        if self.team is None:
            return self.config.paths.data_dir
        from codeinfo.team.user_data import TeamUserData

        return TeamUserData(self.team)

    def stop(self) -> None:
        """Stop background work."""

    def close(self) -> None:
        with self._lock:
            for manager in (*self._managers.values(), *self._revisions.values()):
                manager.close()
            self._managers.clear()
            self._revisions.clear()
        if self.team is not None:
            self.trees.close()
            self.team.close()
        self.models.close()
        if self._spares is not None:
            self._spares.close()

    def find(self, path: str | Path, root: str = "", at: str = "") -> Place:
        """Resolve a folder or file within its project, or within the one at `root`, which paths are then relative to;
        "" is the whole project around the current folder. With `at`, the project at that revision. A team's project
        that is not a folder here is named by its identity, as in github.com/owner/name."""
        if self.config.store.url and (name := _team_name(str(root), str(path))):
            return self.trees.find(name, at, self._user())
        self._refuse_callers(path)
        try:
            target = resolve_existing(os.path.join(root, path))
        except NotFound as error:
            near = self._similar_paths(str(path), root)
            step = f"Did you mean {', '.join(near)}?" if near else str(error.next_step)
            raise NotFound(error.what, f"{step}. {NAME_WITH_HOST}" if self.config.store.url else step) from error
        root = root or self._project_around(target)
        index = self._managers.get(root) or self.of(root)  # a known project is not looked at again
        if not lies_below(target, str(index.root)):
            raise NotFound(f"{path} is not in {index.root}", "Give a file of the project")
        below = target[len(str(index.root)) + 1 :] if path else ""
        return Place(self._revision(index, at) if at else index, below)

    def _similar_paths(self, written: str, base: str) -> list[str]:
        """The indexed files whose path ends like the requested one, otherwise those spelt similarly; relative to the
        folder `base`, "" for the current one."""
        target = os.path.abspath(os.path.join(base, written))
        root, is_absolute = self._project_around(target), os.path.isabs(written)
        store = self.of(root).live_store() if self._is_project(root) else None
        if store is None:
            return []
        below = target[len(root) + 1 :]
        with store.snapshot() as view:
            ending = f"/{below if is_absolute else os.path.normpath(written)}"
            near = sorted(path for path in view.paths if f"/{path}".endswith(ending))[:MOST_SIMILAR]
            near = near or similar_paths(below, view.paths)
        return [f"{root}/{path}" if is_absolute else os.path.relpath(f"{root}/{path}", base or None) for path in near]

    def _refuse_callers(self, path: str | Path) -> None:
        """Callers of a team's server have no access to folders on its disk: for them, none exists."""
        if self._user() is not None:
            from codeinfo.team.access import no_project

            raise no_project(str(path))

    def _user(self) -> int | None:
        """The caller of a team's server; None is the local operator."""
        if not self.config.store.url:
            return None
        from codeinfo.team.access import request_user

        return request_user()

    def _revision(self, index: IndexManager, at: str) -> IndexManager:
        """The index of a commit, kept open while it is among the most recently used."""
        if work_tree_of(str(index.root)) is None:
            raise UsageError(f"{index.root} is not in a git repository", "Search it without a revision")
        key = (str(index.root), commit_of(index.root, at))
        with self._lock:
            revision = self._revisions.pop(key, None)
            if revision is None:
                revision = self.at_commit(index.root, key[1], index.config, shared=True)
            self._revisions[key] = revision
            while len(self._revisions) > OPEN_REVISIONS:
                self._revisions.pop(next(iter(self._revisions))).close()
        revision.folder.mark_used()
        return revision

    def at_commit(self, root: Path, commit: str, config: Config, *, shared: bool = False) -> IndexManager:
        """The index of a commit of a repository, not kept open here. `shared` publishes it to the team."""
        source = RevisionSource(RevisionFiles(root, commit), walk_settings(config.index))
        return self._new(source, config, shared=shared)

    def recipe(self) -> str:
        """The recipe of this configuration: vectors of another one cannot be compared."""
        return recipe_of(self.config, self.models.embedder())

    def places(self, paths: Iterable[str], at: str = "", *, everywhere: bool = False) -> tuple[list[Place], list[str]]:
        """The places that paths name, or every project the caller may see, and what is left out of those."""
        if not everywhere:
            return [self.find(path, at=at) for path in paths or ("",)], []
        if at or any(paths):
            raise UsageError("a search of all projects takes no paths or revisions", "Leave them out")
        found = self._local_projects() if self.team is None else self.trees.newest(self._user())
        if not found.indexes:
            raise UsageError("no indexed project is visible to you", "`projects` lists what there is")
        notes = []
        if old := found.too_old:
            notes.append(f"{old:,} projects that were indexed less recently were left out; name them to search them")
        if others := found.not_ready:
            notes.append(f"{others:,} more are not indexed yet, or with another model, and were left out")
        return [Place(index, "") for index in found.indexes], notes

    def _local_projects(self) -> Searchable:
        """What can be searched as one here."""
        indexes = [self.of(root) for root in self.roots() if root.is_dir()]
        has_model = self.models.embedder() is not None  # if so, indexes without vectors are left out
        stores = {index: index.live_store() for index in indexes}
        ready = {index: store for index, store in stores.items() if store and (index.embedder or not has_model)}
        newest = list(ready)
        if len(ready) > OPEN_TREES:
            newest.sort(key=lambda index: ready[index].meta().get("indexed_at", ""), reverse=True)
        return Searchable(newest[:OPEN_TREES], max(0, len(ready) - OPEN_TREES), len(indexes) - len(ready))

    def _new(self, source: Source, config: Config, *, shared: bool = True) -> IndexManager:
        team = self.trees.tree_of(source) if shared and self.config.store.url else None
        return IndexManager(source, config, self.models.embedder(), self._waiting_parsers, team)

    def _waiting_parsers(self) -> Spares:
        from codeinfo.index.pool import Spares  # imported late: most searches find nothing to parse

        with self._lock:
            self._spares = self._spares or Spares()
            return self._spares

    @property
    def cache(self) -> Path:
        """The folder of code indexes."""
        return team_cache(self.config) if self.config.store.url else self.config.paths.cache_dir

    def roots(self) -> list[Path]:
        """The folders with an index here that the caller may see: none in a team's server."""
        return [] if self._user() is not None else indexed_roots(self.cache)

    def projects(self) -> ProjectsResult:
        """The projects with an index, and the team's that the caller may see."""
        of_team = self.trees.projects(self._user()) if self.team is not None else ()
        return ProjectsResult((*map(self._project, self.roots()), *of_team))

    def _project(self, root: Path) -> Project:
        try:
            store = self.of(root).live_store()
        except CodeInfoError as error:
            state = "damaged" if isinstance(error, IndexDamaged) else "gone"
            return Project(root.name, str(root), 0, 0, "", "", state)
        if store is None:
            return Project(root.name, str(root), 0, 0, "", "", "building")
        meta, counts = store.meta(), store.counts()
        state = "ready" if is_complete(store) else "building"
        model, when = meta.get("model_id", ""), meta.get("indexed_at", "")
        return Project(root.name, str(root), counts.files, counts.chunks, model, when, state)

    def locate(self, path: str | Path) -> str:
        """The root of a path's project: the nearest folder upwards that `of` was called for, has an index or is a
        repository; otherwise the folder itself, or for a file the current folder if it lies in it, or its own."""
        self._refuse_callers(path)
        return self._project_around(resolve_existing(path))

    def _project_around(self, target: str) -> str:
        """The root of the project of a path without links."""
        folder = nearest = target if target in self._managers or os.path.isdir(target) else os.path.dirname(target)
        while not self._is_project(folder):
            above = os.path.dirname(folder)
            if above == folder:
                here = resolve_existing("")
                return here if nearest != target and lies_below(nearest, here) and not refusal(here) else nearest
            folder = above
        return folder

    def _is_project(self, folder: str) -> bool:
        """False for a folder that must not be indexed, such as a home folder kept in git."""
        if folder in self._managers:
            return True
        has_index = IndexFolder(self.cache, Path(folder)).exists()
        return (has_index or is_repository(folder)) and not refusal(folder)

    def of(self, path: str | Path) -> IndexManager:
        """The index of exactly this folder, wherever it lies: from now on it is a project of its own here."""
        if self.config.store.url and (name := _team_name("", str(path))):
            return self.trees.find(name, "", self._user()).index
        self._refuse_callers(path)
        resolved = resolve_root(path)
        with self._lock:
            if resolved not in self._managers:
                root = Path(resolved)
                config = self.config.for_root(root)
                source = CodeSource(root, walk_settings(config.index))
                self._managers[resolved] = self._new(source, config)
            return self._managers[resolved]

    def refresh(
        self, index: IndexManager, progress: ProgressSink, *, full: bool = False, wait: bool = False
    ) -> RefreshResult | None:
        """Bring an index up to date and say what was done; without `wait`, None if it is known that nothing changed."""
        return index.refresh(full=full, expected=wait, progress=progress)

    def progress_of(self, index: IndexManager) -> Progress | None:
        """The progress of a refresh running in this process."""
        return None

    def is_current(self, index: IndexManager) -> bool:
        """Whether the last look at the files was complete."""
        return True

    def open_all(
        self, indexes: Sequence[IndexManager], *, everywhere: bool, refresh: bool, progress: ProgressSink
    ) -> tuple[list[OpenIndex], list[str]]:
        """`open` for each; a team's projects without a local copy are pulled concurrently. With `everywhere`, those
        that cannot be opened are left out and named in the notes."""
        absent = [index for index in indexes if index.team is not None and index.is_absent]
        open_index = partial(self.open, refresh=refresh, progress=progress)
        pulls: dict[IndexManager, Future[OpenIndex]] = {}
        if len(absent) > 1:
            from concurrent.futures import ThreadPoolExecutor  # imported late: a plain search does not need it
            from contextvars import copy_context

            with ThreadPoolExecutor(PULLS, thread_name_prefix="pull") as pool:  # each thread inherits the caller
                pulls = {index: pool.submit(copy_context().run, open_index, index) for index in absent}
        opened, failed = list[OpenIndex](), dict[IndexManager, CodeInfoError]()
        for index in indexes:
            try:
                opened.append(pulls[index].result() if index in pulls else open_index(index))
            except CodeInfoError as error:
                if not everywhere:
                    raise
                failed[index] = error
        if not everywhere:
            return opened, []
        if failed and not opened:
            raise next(iter(failed.values()))
        searched = f"{len(opened):,} {'project was' if len(opened) == 1 else 'projects were'} searched completely"
        return opened, [searched, *_name_left_out(failed)]

    def open(
        self, index: IndexManager, *, refresh: bool = True, progress: ProgressSink = None, whole: bool = False
    ) -> OpenIndex:
        """An index to search, refreshed if possible. If it has to be `whole`, an index whose first run cannot finish
        now is refused."""
        notes: tuple[str, ...] = ()
        store = index.confirmed_copy() if refresh else index.live_store()
        if store is None:
            try:
                fixed = index.source.fixed  # nothing to watch there
                result = index.refresh(progress=progress) if fixed else self.refresh(index, progress)
                if result is not None:
                    return OpenIndex(index, result.store, result.announcements)
            except (Busy, OutOfSpace, StoreUnavailable, UsageError) as error:
                if isinstance(error, UsageError) and error.code != "READ_ONLY":
                    raise
                live = index.live_store()
                if live is None or (whole and not is_complete(live)):
                    raise
                text = f"{error.what}: these results may miss the newest changes"
                if isinstance(error, StoreUnavailable):
                    text = f"may be stale: {error.what}"
                notes = (Note(text, INDEXING) if isinstance(error, Busy) else text,)
            store = index.live_store()
        if store is None:
            step = NextStep("Run ", to_run("index"), " and search again")
            raise NotFound(f"{shown_root(index.root)} is not indexed yet", step)
        return OpenIndex(index, store, (*notes, *index.standing_notes()))

    def open_whole(self, index: IndexManager, *, refresh: bool = True, progress: ProgressSink = None) -> SqliteStore:
        """An index for answers that deny what it lacks, such as "no uses": refused until its first run has finished."""
        store = self.open(index, refresh=refresh, progress=progress, whole=True).store
        if not is_complete(store):
            search = to_run("search", "QUERY")
            step = NextStep(to_run("index"), " completes it; until then ", search, " answers from a part of it")
            raise Busy(f"the first index of {shown_root(index.root)} is not complete yet", step)
        return store


def _name_left_out(failed: Mapping[IndexManager, CodeInfoError]) -> list[str]:
    """The first ones by name, each with its reason: there may be hundreds."""
    named = [f"{shown_root(index.root)} was left out: {error.what}" for index, error in list(failed.items())[:LEFT_OUT]]
    more = len(failed) - len(named)
    return [*named, f"{more:,} more projects were left out, because they could not be opened"] if more else named


def _team_name(root: str, path: str) -> str:
    """The identity of a project, or a path in one; "" if a local folder or file is meant."""
    name = path if is_address(path) else os.path.join(root, path)
    if not names_repository(name):
        return ""
    if is_address(name):
        from codeinfo.team.access import identity_of

        return identity_of(name)
    return name.removeprefix("//").rstrip("/")  # as results write them, or as people do
