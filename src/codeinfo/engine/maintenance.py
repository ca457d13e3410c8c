"""Maintenance of indexes: status, why a path is indexed or not, clearing, `doctor`, and saved tokens."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.cache import start_timer
from codeinfo.config import Config
from codeinfo.engine.index_manager import IndexManager, is_complete
from codeinfo.engine.index_sources import TeamSource, walk_settings
from codeinfo.engine.indexes import Indexes, Place
from codeinfo.errors import CodeInfoError, IndexDamaged, NotFound
from codeinfo.files import private_folder, state_of
from codeinfo.globs import lies_below
from codeinfo.graph.scip import compiler_notes
from codeinfo.index.line import find_edited
from codeinfo.knowledge.history import History
from codeinfo.knowledge.memory import read_memories
from codeinfo.model import ManifestRow, NextStep, Reflects, SourceFile, fill, quantity, to_run
from codeinfo.models import BuiltinEmbedder, Models
from codeinfo.operations.clients import DaySavings, SavingsReport, SavingsRequest, ToolSavings
from codeinfo.operations.search import Check, Cleared, DoctorReport, IndexStatus, WhyReport
from codeinfo.sources import git
from codeinfo.sources.read import FolderFiles
from codeinfo.sources.walk import why
from codeinfo.store.database import library_version
from codeinfo.store.layout import IndexFolder, bytes_under
from codeinfo.store.sqlite import SqliteStore
from codeinfo.store.user_data import Now, SavingsStore, Tally, UserData, utc_now, verify_conversations
from codeinfo.tokens import CHARS_PER_TOKEN

SHORT_COMMIT = 12  # characters
PROBE_S = 5.0  # an embedding endpoint that needs longer for a few words is reported


def status(index: IndexManager) -> IndexStatus:
    location = index.folder.path
    try:
        store = index.live_store()
        if store is None:
            return IndexStatus(str(index.root), "missing", str(location))
        changes = index.find_pending()
        meta, counts, (shared, released) = store.meta(), store.counts(), store.count_shared()
        state = "stale" if changes is None or changes else "ready"
        if not is_complete(store):
            state = "building"
    except IndexDamaged as damage:
        return IndexStatus(str(index.root), "damaged", str(location), bytes=bytes_under(location), notes=(str(damage),))
    return IndexStatus(
        root=str(index.root),
        state=state,
        location=str(location),
        files=counts.files,
        chunks=counts.chunks,
        bytes=bytes_under(location),
        shared_with=tuple(str(tree.root) for tree in index.folder.trees() if tree.root and tree.root != index.root),
        shared_chunks=shared,
        kept_chunks=released,
        generation=int(meta["generation"]),
        indexed_at=meta.get("indexed_at", ""),
        model_id=meta.get("model_id", ""),
        dimension=int(meta.get("dimension", "0")),
        added=len(changes.added) if changes else 0,
        changed=len(changes.suspects) if changes else 0,
        removed=len(changes.removed) if changes else 0,
        languages=counts.languages,
        notes=(*index.standing_notes(), *compiler_notes(index.root)),
    )


# --- the state that a reply is based on ------------------------------------------------------------------------------

MOST_COMPARED = 200  # files whose content is read to see whether a tree is clean


class TreeState(Struct, frozen=True):
    """The state of a work tree according to git, until the branch moves or something is staged."""

    key: str
    commit: str = ""
    staged: bool = False
    tracked: dict[str, tuple[int, int]] = field(default_factory=dict)  # path → size and mtime


class Trees:
    """The tree states that replies are based on. Comparing a large tree takes a while, so it is done once per state."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[Path, TreeState] = {}
        self._dirty: dict[Path, tuple[tuple[str, str], bool | None]] = {}

    def state_of(self, index: IndexManager, files: Iterable[str], *, is_current: bool) -> Reflects | None:
        """`files` are the reply's sources, relative to the root. None if nothing is indexed yet."""
        store = index.live_store()
        if store is None:
            return None
        generation = store.meta()["generation"]
        if isinstance(index.source, TeamSource):
            return Reflects(int(generation), store.meta().get("revision", "")[:SHORT_COMMIT])
        named = list(dict.fromkeys(files))
        suspects = [row for row in store.sources(named) if not _is_as_indexed(index.root, row)]
        changed = tuple(sorted(row.path for row in find_edited(FolderFiles(index.root), store, suspects)))
        state = self._state(index.root)
        if state is None:
            return Reflects(int(generation), changed=changed)
        read, behind = state.commit, ""
        if not is_current:
            commits = index.commits()
            read, behind = (commits.head if commits else ""), state.commit
        return Reflects(
            int(generation),
            read[:SHORT_COMMIT],
            None if behind else self._is_dirty(index.root, store, state, generation),
            behind[:SHORT_COMMIT] if behind != read else "",
            changed,
        )

    def _state(self, root: Path) -> TreeState | None:
        history = History(root)
        key = history.tree_key()
        with self._lock:
            state_before = self._states.get(root)
            if not key:
                return None
            if state_before is not None and state_before.key == key:
                return state_before
            try:
                commit = history.head()
                staged = git.run(root, ("diff-index", "--cached", "--relative", "--name-only", "-z", commit))
                state = TreeState(key, commit, bool(staged), git.list_tracked(root))
            except git.GitFailed:
                return None  # no commits yet, or no git
            self._states[root] = state
            return state

    def _is_dirty(self, root: Path, store: SqliteStore, state: TreeState, generation: str) -> bool | None:
        if state.staged:
            return True
        key = (state.key, generation)
        entry = self._dirty.get(root)
        if entry is None or entry[0] != key:
            entry = self._dirty[root] = key, _differs(root, store.sources(), state.tracked)
        return entry[1]


def _differs(root: Path, indexed: Iterable[SourceFile], tracked: Mapping[str, tuple[int, int]]) -> bool | None:
    """A different time is only a hint: the content decides, for at most MOST_COMPARED files."""
    suspects = [row.path for row in indexed if tracked.get(row.path) != (row.size, row.mtime_ns)]
    if any(path not in tracked for path in suspects):
        return True
    if not suspects:
        return False
    if any(git.find_unstaged(root, suspects[:MOST_COMPARED])):
        return True
    return None if len(suspects) > MOST_COMPARED else False


def _is_as_indexed(root: Path, row: SourceFile) -> bool:
    try:
        return state_of(os.lstat(root / row.path)) == (row.size, row.mtime_ns)
    except OSError:
        return False


def clear(index: IndexManager) -> Cleared:
    location, existed = index.folder.path, index.folder.exists()
    size = bytes_under(location)
    if location.exists():
        index.clear()
    return Cleared(str(index.root), str(location), existed, size - bytes_under(location))


def clear_gone(cache: Path, path: str) -> Cleared | None:
    """Delete the index of a folder that no longer exists; None if there is none."""
    root = Path(os.path.realpath(path))
    folder = None if root.exists() else IndexFolder.of_gone(cache, root)
    if folder is None:
        return None
    size = bytes_under(folder.path)
    with folder.lock(to_remove=True):
        folder.remove_tree(folder.tree)
        if not any(tree.root for tree in folder.trees()):
            folder.clear()
    return Cleared(str(root), str(folder.path), True, size - bytes_under(folder.path))


def why_path(path: Path, indexes: Indexes) -> WhyReport:
    """For the current project if the path lies below it, otherwise for the path's own. Links are not followed."""
    target = Path.cwd() / path
    is_here = not str(path).startswith("//") and os.path.lexists(target)
    if not is_here and indexes.config.store.url and git.names_repository(str(path)):
        return _why_in_team(indexes.find(str(path)), indexes)
    if not is_here:
        raise NotFound(f"{path} does not exist", "Give the path of a file or folder that exists")
    folder, here = os.path.realpath(target.parent), indexes.locate("")
    index = indexes.of(here) if lies_below(folder, here) else indexes.find(folder).index
    relative = (Path(folder) / target.name).relative_to(index.root)
    decision = why(index.root, str(relative), walk_settings(index.config.index))
    row = None
    with suppress(IndexDamaged):
        store = index.live_store()
        row = store.manifest().get(relative.as_posix()) if store is not None else None
    detail = f"{decision.detail} ({decision.source})" if decision.source else decision.detail
    return _why_report(relative.as_posix(), index, row, decision.included, decision.rule, detail)


def _why_in_team(place: Place, indexes: Indexes) -> WhyReport:
    """From the index of a tree that is not checked out: which rule excluded a path before it was read is unknown."""
    store = indexes.open(place.index).store
    row = store.manifest().get(place.below)
    left_out = next((skip for skip in store.counts().skipped if skip.path == place.below), None)
    rule, detail = ("included", "") if row else ("not-indexed", "it is not in the revision, or ignored")
    if left_out is not None:
        rule, detail = left_out.rule, left_out.detail
    included = row is not None and left_out is None
    return _why_report(place.below, place.index, row, included, rule, detail)


def _why_report(
    path: str, index: IndexManager, row: ManifestRow | None, included: bool, rule: str, detail: str
) -> WhyReport:
    about = (row.language, row.kind.value, row.chunk_count) if row else ()
    return WhyReport(path, str(index.root), included, rule, detail, *about)


# --- doctor ----------------------------------------------------------------------------------------------------------


def examine(
    config: Config,
    models: Models,
    roots: Sequence[IndexManager],
    collections: Callable[[], Iterable[IndexManager]] = tuple,
    probe_s: float = PROBE_S,
    *,
    checksums: bool = True,
) -> DoctorReport:
    """Run all checks; `checksums` reads every index in full."""
    version = ".".join(map(str, sys.version_info[:3]))
    checks = [Check("python", "ok", f"{version} on {sys.platform}"), Check("sqlite", "ok", library_version())]
    checks += [_check_grammars(), _check_cache(config), _check_git()]
    documents: list[IndexManager] = []
    try:
        documents.extend(collections())
    except CodeInfoError as error:
        checks.append(Check("collections", "fail", error.what, error.next_step))
    checks += [_check_embedder(config, models, probe_s), _check_reranker(config, models)]
    checks += [_check_index(index, "index", checksums) for index in roots]
    checks += [_check_index(index, "collection", checksums) for index in documents]
    data = config.paths.data_dir
    data_checks = [_run_check("memories", str(index.root), partial(read_memories, index.root)) for index in roots]
    data_checks.append(_run_check("conversations", str(data), partial(verify_conversations, data)))
    return DoctorReport((*checks, *(check for check in data_checks if check.state == "fail")))


def _check_grammars() -> Check:
    from codeinfo.index.chunk import ChunkSettings
    from codeinfo.index.parse import parse_file

    try:
        parsed, _ = parse_file("check.py", "def check():\n    pass\n", "python", ChunkSettings())
    except (ImportError, OSError) as error:
        return Check("grammars", "fail", str(error), "Install CodeInfo again: pip install --force-reinstall codeinfo")
    if [definition.name for definition in parsed.definitions] != ["check"]:
        return Check("grammars", "fail", "a sample was not parsed", "Report this with `codeinfo doctor --json`")
    return Check("grammars", "ok", "syntax trees work")


def _check_cache(config: Config) -> Check:
    folder = config.paths.cache_dir
    try:
        private_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        return Check("cache", "fail", f"{folder}: {error.strerror}", "Set CODEINFO_CACHE_DIR to a folder you can write")
    free = shutil.disk_usage(folder).free
    state = "ok" if free > 200_000_000 else "warn"
    return Check("cache", state, f"{folder}, {free / 1e9:.1f} GB free", "" if state == "ok" else "Free some space")


def _check_git() -> Check:
    program = shutil.which("git")
    if program is None:
        return Check("git", "warn", "not found", "Install git: without it ignore rules are read by CodeInfo itself")
    return Check("git", "ok", program)


def _check_embedder(config: Config, models: Models, seconds: float) -> Check:
    provider = config.embedding.provider

    def look() -> str:
        embedder = models.embedder_within(seconds)
        if embedder is None:
            return "keyword search only"
        if isinstance(embedder, BuiltinEmbedder):
            embedder.verify()
        length = len(embedder.embed_query("a connection pool"))
        return f"{provider}: {embedder.model_id}, {length} dimensions"

    check, name = _run_check("embedding", provider, look), config.embedding.api_key_env
    if check.state != "ok" or provider != "openai" or not name or config.secret(name):
        return check
    detail = f"{check.detail}, without a key: the environment variable {name} is empty or unset"
    return replace(check, state="warn", detail=detail, next_step=f"Set {name}, or correct embedding.api_key_env")


def _check_reranker(config: Config, models: Models) -> Check:
    """As a search calls it, within the same time; a search works without it, so its failure is a warning."""
    settings = config.rerank
    if settings.provider == "none":
        return Check("reranking", "ok", "off")
    from codeinfo.engine.search import assess_relevance

    relevance = assess_relevance(models, "a connection pool", ["class ConnectionPool: ..."])
    return Check(
        "reranking",
        "ok" if relevance.scores else "warn",
        f"{settings.provider}: {relevance.status}",
        relevance.next_step,
    )


def _check_index(index: IndexManager, name: str, checksums: bool) -> Check:
    def look() -> str:
        store = index.live_store()
        if store is None:
            return f"{index.root}: not indexed yet"
        if checksums:
            store.verify()
        counts = store.counts()
        counted = f"{index.root}: {quantity(counts.files, 'file')}, {quantity(counts.chunks, 'chunk')}"
        return f"{counted}, all checksums match" if checksums else counted

    check = _run_check(name, str(index.root), look)
    damaged = check.state == "fail" and name == "collection"
    return replace(check, next_step=NextStep("Run ", to_run("docs sync"), " to rebuild it")) if damaged else check


def _run_check(name: str, subject: str, look: Callable[[], object]) -> Check:
    try:
        return Check(name, "ok", str(look()))
    except CodeInfoError as error:
        return Check(name, "fail", f"{subject}: {error.what}", error.next_step)
    except OSError as error:
        return Check(name, "fail", f"{subject}: {os.strerror(error.errno or 0)}", "Run `codeinfo doctor --debug`")


# --- saved tokens ----------------------------------------------------------------------------------------------------

WRITE_AFTER_S = 2.0  # counts are written in batches: a commit per call would cost more than the call

log = logging.getLogger(__name__)


class Savings:
    def __init__(self, place: Path | UserData, now: Now = utc_now) -> None:
        self._store = SavingsStore(place)
        self._now = now
        self._lock = threading.Lock()
        self._waiting: dict[int, dict[tuple[str, str], Tally]] = {}  # by caller
        self._timer: threading.Timer | None = None

    def record(self, tool: str, returned_chars: int, files: Iterable[str]) -> None:
        """Count one call. `files` are those a reader would otherwise have had to open."""
        size = sum(_bytes_of(path) for path in set(files))
        key = (self._now().date().isoformat(), tool)
        tally = Tally(1, returned_chars // CHARS_PER_TOKEN, size // CHARS_PER_TOKEN)
        with self._lock:
            tallies = self._waiting.setdefault(self._store.owner, {})
            tallies[key] = tallies.get(key, Tally()).plus(tally)
            if self._timer is None:
                self._timer = start_timer(WRITE_AFTER_S, self._write)

    def report(self, request: SavingsRequest) -> SavingsReport:
        first = (self._now() - timedelta(days=request.days - 1)).date().isoformat()
        days: dict[str, list[ToolSavings]] = {}
        total = Tally()
        for day, tool, tally in self._store.since(first):
            days.setdefault(day, []).append(fill(ToolSavings, tally, tool=tool))
            total = total.plus(tally)
        return fill(SavingsReport, total, days=tuple(DaySavings(day, tuple(tools)) for day, tools in days.items()))

    def close(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
        self._write()
        self._store.close()

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting, self._timer = self._waiting, {}, None
        for owner, tallies in waiting.items():
            try:
                self._store.add(tallies, owner)
            except CodeInfoError as error:  # a failed count must not fail the answer
                log.warning("savings were not counted: %s", error)


def _bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
