"""What the team knows about its code, as operations: memories, patterns, metadata, style, reviews, and the context of
search results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from codeinfo.engine.hints import Hints, hints_version, read_hints
from codeinfo.engine.history import History
from codeinfo.engine.index_manager import Indexes, IndexManager
from codeinfo.engine.memories import Memories
from codeinfo.errors import NotFound
from codeinfo.index.line import edited
from codeinfo.knowledge.context import enriched
from codeinfo.knowledge.memory import described
from codeinfo.model import Card, Hit, RelatedMemory, SearchResult
from codeinfo.operations.base import Progress
from codeinfo.operations.search import SearchRequest
from codeinfo.sources.files import read_regular
from codeinfo.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from codeinfo.engine.code import CodeOperations
    from codeinfo.engine.pattern_state import PatternState
    from codeinfo.operations import knowledge as requests


ProgressSink = Callable[[Progress], None]
MAX_IMPORT_BYTES = 10_000_000
TRENDS_UNKNOWN = "trends are not known yet: `codeinfo patterns` finds them, and searches show them from then on"


class _Project:
    """One root with what is known about it, each part made when first needed."""

    def __init__(self, keeper: IndexManager) -> None:
        self.keeper = keeper
        self.history = History(keeper.root)
        self.memories = Memories(keeper, self.history)
        self._patterns: PatternState | None = None
        self._hints: tuple[object, Hints | None] = (None, None)

    @property
    def patterns(self) -> PatternState:
        from codeinfo.engine.pattern_state import PatternState

        if self._patterns is None:
            self._patterns = PatternState(self.keeper, self.history)
        return self._patterns

    def trend_note(self, store: SqliteStore | None) -> tuple[str, ...]:
        """Dating the patterns of a tree takes seconds, for which no search waits: it says how to get trends instead."""
        unknown = store is not None and self.history.known and self.hints(store) is None
        return (TRENDS_UNKNOWN,) if unknown else ()

    def hints(self, store: SqliteStore) -> Hints | None:
        """None where the patterns of this index were never looked at."""
        known = self._patterns.hints() if self._patterns is not None else None
        if known is not None:
            return known
        version = hints_version(store)
        if self._hints[0] != version:
            self._hints = version, read_hints(store)
        return self._hints[1]


class KnowledgeOperations:
    """`Engine.knowledge`: one method an operation. `clock` gives seconds since the epoch."""

    def __init__(
        self, indexes: Indexes, code: Callable[[], CodeOperations], clock: Callable[[], float] = time.time
    ) -> None:
        self._indexes = indexes
        self._code = code
        self.clock = clock
        self._lock = threading.Lock()
        self._projects: dict[Path, _Project] = {}

    def _project(self, path: str | Path) -> _Project:
        keeper = self._indexes.of(path)
        with self._lock:
            known = self._projects.get(keeper.root)
            if known is None or known.keeper is not keeper:
                known = self._projects[keeper.root] = _Project(keeper)
            return known

    def _store(self, project: _Project, progress: ProgressSink | None) -> SqliteStore:
        return self._indexes.open(project.keeper, progress=progress)[0]

    # --- memory ---

    def remember(self, request: requests.RememberRequest) -> requests.Remembered:
        return self._project(request.path).memories.remember(request, self.clock())

    def memory_list(self, request: requests.MemoryListRequest) -> requests.MemoryList:
        return self._project(request.path).memories.list(request, self.clock())

    def memory_show(self, request: requests.MemoryShowRequest) -> RelatedMemory:
        now = self.clock()
        return described(self._project(request.path).memories.one(request.id, now), now)

    def memory_remove(self, request: requests.MemoryRemoveRequest) -> requests.MemoryRemoved:
        from codeinfo.operations.knowledge import MemoryRemoved

        return MemoryRemoved(self._project(request.path).memories.remove(request.id, self.clock()))

    def memory_export(self, request: requests.MemoryExportRequest) -> requests.MemoryExport:
        from codeinfo.operations.knowledge import MemoryExport

        return MemoryExport(1, self._project(request.path).memories.export())

    def memory_import(self, request: requests.MemoryImportRequest) -> requests.MemoryImported:
        file = Path(request.file)
        try:
            data = read_regular(str(file.parent), file.name, MAX_IMPORT_BYTES)
        except OSError as error:
            raise NotFound(f"{file} cannot be read: {error.strerror}", next_step="Name a file of memories") from error
        return self._project(request.path).memories.take_in(data.decode("utf-8-sig", "replace"), str(file))

    # --- patterns, metadata, style, review ---

    def patterns(
        self, request: requests.PatternsRequest, progress: ProgressSink | None = None
    ) -> requests.PatternReport:
        from codeinfo.knowledge.detector import FAMILY
        from codeinfo.knowledge.patterns import narrowed

        project, now = self._project(request.path), self.clock()
        state, store = project.patterns, self._store(project, progress)
        report = state.report_with_history(store, now) if request.history else state.report(store, now)
        families = [FAMILY.get(language.lower(), language.lower()) for language in request.languages]
        report = narrowed(report, category=request.category, languages=families)
        about = " ".join((request.category, *(pattern.name for pattern in report.patterns[:20])))
        memories, notes = project.memories.related(about, [file.path for file in report.golden_files], (), now)
        return replace(report, memories=memories, notes=(*report.notes, *notes))

    def metadata(
        self, request: requests.MetadataRequest, progress: ProgressSink | None = None
    ) -> requests.MetadataReport:
        from codeinfo.engine.describing import metadata

        project = self._project(request.path)
        return metadata(project.keeper, self._store(project, progress))

    def style(self, request: requests.StyleRequest, progress: ProgressSink | None = None) -> requests.StyleReport:
        from codeinfo.engine.describing import style

        project = self._project(request.path)
        return style(project.keeper, self._store(project, progress), request.query)

    def review(self, request: requests.ReviewRequest, progress: ProgressSink | None = None) -> requests.ReviewPacket:
        from codeinfo.engine.reviewing import review

        project = self._project(request.path)
        store = self._store(project, progress)
        return review(self._code(), project.keeper, store, project, request, self.clock())

    # --- around a search ---

    def around(self, request: SearchRequest, result: SearchResult) -> SearchResult:
        """The result with the context of its hits, related memories and, on behalf of a change, the card."""
        now = self.clock()
        roots = list(dict.fromkeys(hit.root for hit in result.hits)) or [str(self._indexes.of(request.paths[0]).root)]
        hits: dict[tuple[str, str, int], Hit] = {}
        memories: list[RelatedMemory] = []
        notes: list[str] = []
        for root in roots:
            project = self._project(root)
            own = [hit for hit in result.hits if hit.root == root]
            store = project.keeper.live_store()
            hits |= {_key(hit): hit for hit in self._with_context(project, store, own)}
            paths, symbols = {hit.path for hit in own}, {hit.symbol for hit in own if hit.symbol}
            found, said = project.memories.related(request.query, paths, symbols, now)
            memories += found
            notes += said if request.purpose else [*said, *project.trend_note(store)]
        result = replace(
            result,
            hits=tuple(hits[_key(hit)] for hit in result.hits),
            memories=tuple(memories[:3]),
            notes=(*result.notes, *notes),
        )
        return replace(result, preflight=self._card(request, result, roots[0], now)) if request.purpose else result

    def _with_context(self, project: _Project, store: SqliteStore | None, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        if store is None or not hits:
            return tuple(hits)
        near = self._code().around(project.keeper.root, store, hits)
        return enriched(hits, near.files, project.hints(store) or {}, near.callers)

    def _card(self, request: SearchRequest, result: SearchResult, root: str, now: float) -> Card | None:
        from codeinfo.knowledge.card import Evidence, decide

        project = self._project(root)
        store = project.keeper.live_store()
        if store is None:
            return None
        own = [hit for hit in result.hits if hit.root == root]
        report = project.patterns.report(store, now)
        relations = self._code().relations(project.keeper, [hit.path for hit in own])
        return decide(
            Evidence(
                query=request.query,
                purpose=request.purpose,
                hits=own,
                quality=result.quality,
                patterns=report,
                questions=project.patterns.questions({hit.path for hit in own}),
                memories=result.memories,
                importers={path: one.used_by for path, one in relations.items()},
                changed_since_index=_changed_since_index(project.keeper, store),
            )
        )


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.root, hit.path, hit.chunk_id


def _changed_since_index(keeper: IndexManager, store: SqliteStore) -> int:
    """Files that are not as the index has them. A time that differs is only a hint: the content decides."""
    _, changes = keeper.pending()
    if not changes:
        return 0
    return len(changes.added) + len(changes.removed) + len(edited(keeper.root, store, changes.suspects))
