"""`Engine`: one method an operation, each with a typed request and a typed result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from codeinfo.config import Config
from codeinfo.engine.upkeep import KEYWORD_ONLY, Upkeep
from codeinfo.errors import Busy, NotFound
from codeinfo.ports import Embedder
from codeinfo.requests import (
    ClearReport,
    ClearRequest,
    Cleared,
    IndexRequest,
    IndexResponse,
    IndexStatus,
    Progress,
    SearchRequest,
    StatusReport,
    StatusRequest,
    WhyReport,
    WhyRequest,
)
from codeinfo.sources.walk import check_root
from codeinfo.types import Intent, SearchResult

ProgressSink = Callable[[Progress], None]


class Engine:
    """Opens indexes and providers when they are first needed and keeps them until `close`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._lock = threading.RLock()
        self._upkeeps: dict[Path, Upkeep] = {}
        self._embedder: Embedder | None = None
        self._embedder_known = False

    def close(self) -> None:
        with self._lock:
            for upkeep in self._upkeeps.values():
                upkeep.close()
            self._upkeeps.clear()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- operations ---

    def index(self, request: IndexRequest, progress: ProgressSink | None = None) -> IndexResponse:
        roots = [check_root(Path(path)) for path in request.paths]
        return IndexResponse(
            tuple(self.upkeep(root).refresh(full=request.full, progress=progress).report for root in roots)
        )

    def search(self, request: SearchRequest, progress: ProgressSink | None = None) -> SearchResult:
        from codeinfo.search import SearchOptions, search
        from codeinfo.tokens import terms

        results = []
        for path in request.paths:
            root = check_root(Path(path))
            upkeep = self.upkeep(root)
            store, notes = self._searchable(upkeep, request.refresh, progress)
            options = SearchOptions(
                limit=request.limit,
                intent=Intent(request.intent) if request.intent else None,
                project_words=frozenset(terms(root.name)),
            )
            with store.snapshot() as view:
                found = search(request.query, view, upkeep.embedder, options)
            hits = tuple(replace(hit, root=str(root)) for hit in found.hits)
            results.append(replace(found, hits=hits, notes=(*found.notes, *notes)))
        return results[0]

    def _searchable(self, upkeep: Upkeep, refresh: bool, progress: ProgressSink | None):  # type: ignore[no-untyped-def]
        notes: list[str] = []
        if refresh or upkeep.live_store() is None:
            try:
                fresh = upkeep.refresh(progress=progress)
                return fresh.store, [note for note in fresh.report.notes]
            except Busy as busy:
                notes.append(f"{busy.what}: these results may miss the newest changes")
        store = upkeep.live_store()
        if store is None:
            raise NotFound(f"{upkeep.root} is not indexed yet", next_step="Run `codeinfo index` first")
        return store, notes

    # --- parts ---

    def upkeep(self, root: Path) -> Upkeep:
        with self._lock:
            if root not in self._upkeeps:
                self._upkeeps[root] = Upkeep(root, self.config.for_root(root), self.embedder())
            return self._upkeeps[root]

    def embedder(self) -> Embedder | None:
        return None
