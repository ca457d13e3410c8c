"""`Engine`: one method an operation, each with a typed request and a typed result."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codeinfo.config import Config
from codeinfo.engine.index_manager import Fresh, IndexManager, healed, is_complete
from codeinfo.engine.models import Models
from codeinfo.errors import Busy, IndexDamaged, NotFound, OutOfSpace, UsageError
from codeinfo.index.pool import Spares
from codeinfo.model import INDEXING, Note, SearchResult
from codeinfo.operations.base import Progress
from codeinfo.operations.search import (
    Cleared,
    ClearReport,
    ClearRequest,
    DoctorReport,
    DoctorRequest,
    IndexRequest,
    IndexResponse,
    IndexStatus,
    SearchRequest,
    SimilarRequest,
    StatusReport,
    StatusRequest,
    WhyReport,
    WhyRequest,
)
from codeinfo.sources.walk import resolved_root
from codeinfo.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from codeinfo.engine.answers import AnswerOperations
    from codeinfo.engine.code import CodeOperations
    from codeinfo.engine.documents import DocumentOperations
    from codeinfo.engine.knowledge import KnowledgeOperations
    from codeinfo.engine.lasting import Lasting
    from codeinfo.engine.maintenance import Savings
    from codeinfo.engine.search import Opened, Reranking
    from codeinfo.operations.clients import ProjectsRequest, ProjectsResult, VectorSearchRequest, VectorSearchResult
    from codeinfo.ports import Embedder


ProgressSink = Callable[[Progress], None]
MAX_NAMED = 1000  # ways to call folders, remembered


class Engine:
    """Opens indexes and providers when they are first needed and keeps them until `close`.

    A `lasting` one answers many calls: it is told by the kernel what changes instead of walking for each search, and
    a search waits no longer than `mcp.patience_s` for an index that is being built.
    """

    def __init__(self, config: Config, *, lasting: bool = False) -> None:
        self.config = config
        self._lasting = _lasting(config) if lasting else None
        self._parts = Models(config)
        self._spares = Spares()
        self._lock = threading.RLock()
        self._upkeeps: dict[str, IndexManager] = {}
        self._named: dict[str | Path, tuple[tuple[int, int] | None, IndexManager]] = {}  # as callers call them
        self._answers: AnswerOperations | None = None
        self._code: CodeOperations | None = None
        self._knowledge: KnowledgeOperations | None = None
        self._documents: DocumentOperations | None = None
        self._savings: Savings | None = None

    def close(self) -> None:
        if self._lasting is not None:
            self._lasting.close()
        with self._lock:
            if self._answers is not None:
                self._answers.close()
            if self._documents is not None:
                self._documents.close()
            if self._savings is not None:
                self._savings.close()
            for upkeep in self._upkeeps.values():
                upkeep.close()
            self._upkeeps.clear()
            self._named.clear()
        self._parts.close()
        self._spares.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def upkeep(self, path: str | Path) -> IndexManager:
        """The keeper of one root's index, made once."""
        known, identity = self._named.get(path), _identity(path)
        if known is not None and identity is not None and known[0] == identity:
            return known[1]
        keeper = self._keeper(resolved_root(path))
        if len(self._named) >= MAX_NAMED:
            self._named.clear()
        self._named[path] = identity, keeper
        return keeper

    def _keeper(self, resolved: str) -> IndexManager:
        with self._lock:
            if resolved not in self._upkeeps:
                root = Path(resolved)
                config = self.config.for_root(root)
                self._upkeeps[resolved] = IndexManager(root, config, self._parts.embedder(), self._spares)
            return self._upkeeps[resolved]

    def embedder(self) -> Embedder | None:
        return self._parts.embedder()

    def reranking(self) -> Reranking | None:
        """The second look at first results, or None where the user set none up."""
        if self.config.rerank.provider == "none":
            return None
        from codeinfo.engine.search import Reranking

        return Reranking(self.config.rerank, self._parts.reranker)

    @property
    def answers(self) -> AnswerOperations:
        """Questions, conversations and agents: loaded when first asked for."""
        from codeinfo.engine.answers import AnswerOperations

        with self._lock:
            if self._answers is None:
                self._answers = AnswerOperations(self)
            return self._answers

    @property
    def code(self) -> CodeOperations:
        """Symbols, references and the graph of files: loaded when first asked for."""
        from codeinfo.engine.code import CodeOperations

        with self._lock:
            if self._code is None:
                self._code = CodeOperations(self)
            return self._code

    @property
    def knowledge(self) -> KnowledgeOperations:
        """Memories, patterns, style, reviews and the context of results: loaded when first asked for."""
        from codeinfo.engine.knowledge import KnowledgeOperations

        with self._lock:
            if self._knowledge is None:
                self._knowledge = KnowledgeOperations(self.upkeep, self._searchable_store, self.code)
            return self._knowledge

    @property
    def documents(self) -> DocumentOperations:
        """Collections of documents: loaded when first asked for."""
        from codeinfo.engine.documents import DocumentOperations

        with self._lock:
            if self._documents is None:
                self._documents = DocumentOperations(self)
            return self._documents

    @property
    def savings(self) -> Savings:
        """Tokens that answers spared their readers: loaded when first asked for."""
        from codeinfo.engine.maintenance import Savings

        with self._lock:
            if self._savings is None:
                self._savings = Savings(self.config.paths.data_dir)
            return self._savings

    # --- operations ---

    def index(self, request: IndexRequest, progress: ProgressSink | None = None) -> IndexResponse:
        keepers = [self.upkeep(path) for path in request.paths]
        return IndexResponse(tuple(self._refreshed(keeper, request.full, progress).report for keeper in keepers))

    def _refreshed(self, keeper: IndexManager, full: bool, progress: ProgressSink | None) -> Fresh:
        if self._lasting is None:
            return keeper.refresh(full=full, expected=True, progress=progress)  # why else ask for it
        fresh = self._lasting.refresh(keeper, progress, full=full, wait=True)
        assert fresh is not None  # whoever waits gets a report
        return fresh

    def mark(self, path: str | Path) -> object | None:
        """The same object as long as nothing has changed below a root; None where that cannot be told."""
        return self._lasting.mark(self.upkeep(path)) if self._lasting is not None else None

    def indexing(self, path: str | Path) -> Progress | None:
        """How far the refresh of a root is that goes on now in this process."""
        return self._lasting.running(self.upkeep(path)) if self._lasting is not None else None

    def prepare(self, path: str | Path) -> None:
        """Load what searches of an index need, as it is now."""
        from codeinfo.engine.search import warm_up

        keeper = self.upkeep(path)
        store = keeper.live_store()
        if store is not None:
            warm_up(keeper, store)

    def search(self, request: SearchRequest, progress: ProgressSink | None = None) -> SearchResult:
        keepers = list(dict.fromkeys(map(self.upkeep, request.paths)))  # a folder may be named twice
        found = healed(lambda again: self._found(request, self._opened(keepers, again or request.refresh, progress)))
        return self.knowledge.around(request, found) if request.context or request.purpose else found

    def _found(self, request: SearchRequest, opened: list[Opened]) -> SearchResult:
        from codeinfo.engine.search import search_roots

        reranking = self.reranking()
        if reranking is None:
            return search_roots(request, opened)
        from codeinfo.engine.search import rerank_close_call, with_candidates

        found = search_roots(with_candidates(request, reranking.settings), opened)
        return rerank_close_call(request, found, opened, reranking)

    def _opened(self, keepers: list[IndexManager], refresh: bool, progress: ProgressSink | None) -> list[Opened]:
        return [(keeper, *self.searchable(keeper, refresh=refresh, progress=progress)) for keeper in keepers]

    def similar(self, request: SimilarRequest, progress: ProgressSink | None = None) -> SearchResult:
        from codeinfo.engine.search import similar_to

        keeper = self.upkeep(request.path)
        return healed(lambda _: similar_to(request, (keeper, *self.searchable(keeper, progress=progress))))

    def vector_search(self, request: VectorSearchRequest) -> VectorSearchResult:
        from codeinfo.engine.search import vector_search

        return vector_search(self, request)

    def projects(self, request: ProjectsRequest) -> ProjectsResult:
        from codeinfo.engine.search import projects

        return projects(self)

    def _searchable_store(self, keeper: IndexManager, progress: ProgressSink | None) -> SqliteStore:
        return self.searchable(keeper, progress=progress)[0]

    def searchable(
        self, keeper: IndexManager, *, refresh: bool = True, progress: ProgressSink | None = None
    ) -> tuple[SqliteStore, tuple[str, ...]]:
        """An index to search, brought up to date where possible, and what its answers must say about it."""
        notes: tuple[str, ...] = ()
        store = None if refresh else keeper.live_store()
        if store is None:
            try:
                fresh = self._lasting.refresh(keeper, progress) if self._lasting else keeper.refresh(progress=progress)
                if fresh is not None:
                    return fresh.store, fresh.announcements
            except (Busy, OutOfSpace, UsageError) as error:
                if isinstance(error, UsageError) and error.code != "READ_ONLY":
                    raise
                if keeper.live_store() is None:
                    raise
                text = f"{error.what}: these results may miss the newest changes"
                notes = (Note(text, INDEXING) if isinstance(error, Busy) else text,)
            store = keeper.live_store()
        if store is None:
            raise NotFound(f"{keeper.root} is not indexed yet", next_step="Run `codeinfo index` and search again")
        return store, (*notes, *keeper.standing_notes())

    def status(self, request: StatusRequest) -> StatusReport:
        return StatusReport(tuple(_status(self.upkeep(path)) for path in request.paths))

    def why(self, request: WhyRequest) -> WhyReport:
        from codeinfo.engine.maintenance import why_path

        return why_path(Path(request.path), self.upkeep)

    def clear(self, request: ClearRequest) -> ClearReport:
        return ClearReport(tuple(self._clear(self.upkeep(path)) for path in request.paths))

    def _clear(self, keeper: IndexManager) -> Cleared:
        from codeinfo.engine.maintenance import bytes_under

        location, existed = keeper.folder.path, keeper.folder.path.exists()
        size = bytes_under(location)
        keeper.close()
        if existed:
            keeper.folder.clear()
        return Cleared(str(keeper.root), str(location), existed, size)

    def doctor(self, request: DoctorRequest) -> DoctorReport:
        from codeinfo.engine.maintenance import examine

        return examine(self.config, self._parts, [self.upkeep(path) for path in request.paths])


def _identity(path: str | Path) -> tuple[int, int] | None:
    """The folder itself, whatever it is called: a path that leads to another one by now is looked at anew."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _lasting(config: Config) -> Lasting:
    from codeinfo.engine.lasting import Lasting

    return Lasting(config.mcp.patience_s)


def _status(keeper: IndexManager) -> IndexStatus:
    from codeinfo.engine.maintenance import bytes_under

    location = keeper.folder.path
    try:
        store = keeper.live_store()
        if store is None:
            return IndexStatus(str(keeper.root), "missing", str(location))
        _, changes = keeper.pending()
        meta, counts = store.meta(), store.counts()
        complete = is_complete(store)
    except IndexDamaged as damage:
        return IndexStatus(
            str(keeper.root), "damaged", str(location), bytes=bytes_under(location), notes=(str(damage),)
        )
    state = "building" if not complete else "stale" if changes is None or changes else "ready"
    return IndexStatus(
        root=str(keeper.root),
        state=state,
        location=str(location),
        files=counts.files,
        chunks=counts.chunks,
        bytes=bytes_under(location),
        generation=int(meta["generation"]),
        indexed_at=meta.get("indexed_at", ""),
        model_id=meta.get("model_id", ""),
        dimension=int(meta.get("dimension", "0")),
        added=len(changes.added) if changes else 0,
        changed=len(changes.suspects) if changes else 0,
        removed=len(changes.removed) if changes else 0,
        languages=counts.languages,
        notes=keeper.standing_notes(),
    )
