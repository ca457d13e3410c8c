"""The composition root: every shell calls the `Engine`, and only the engine opens stores and models. An operation is a
method here or on one of its areas, with a typed request and result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.config import Config, use_one_blas_thread
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import RootRefused, requires
from codeinfo.globs import lies_below
from codeinfo.model import CollectionState, Reflects, SearchResult
from codeinfo.operations import search as ops
from codeinfo.operations.base import Progress, ProgressSink

if TYPE_CHECKING:
    from codeinfo.engine.answers import AnswerOperations
    from codeinfo.engine.code import CodeOperations
    from codeinfo.engine.documents import DocumentOperations
    from codeinfo.engine.knowledge import KnowledgeOperations
    from codeinfo.engine.maintenance import Savings
    from codeinfo.engine.search import SearchOperations
    from codeinfo.engine.team import TeamOperations
    from codeinfo.ports import Embedder
    from codeinfo.store.user_data import ConversationStore

Area = TypeVar("Area")


class Engine:
    """Areas are imported and created on first use, since a command needs few of them, and kept until `close`."""

    def __init__(self, config: Config, indexes: Indexes | None = None) -> None:
        """`indexes` comes from a server; by default every call looks for changes itself."""
        use_one_blas_thread()
        self.config = config
        self.indexes = indexes or Indexes(config)
        self._lock = threading.RLock()
        self._areas: dict[type, object] = {}
        self._closing = ExitStack()  # closes the areas that hold something open

    def close(self) -> None:
        self.indexes.stop()
        with self._lock:
            self._areas.clear()
            self._closing.close()
        self.indexes.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _area(self, kind: type[Area], make: Callable[[], Area]) -> Area:
        with self._lock:
            if kind not in self._areas:
                self._areas[kind] = area = make()
                if close := getattr(area, "close", None):
                    self._closing.callback(close)
            return cast(Area, self._areas[kind])

    @property
    def searches(self) -> SearchOperations:
        """Search by words and meaning, for similar code, by vectors alone; the searchable projects."""
        from codeinfo.engine.search import SearchOperations

        return self._area(SearchOperations, lambda: SearchOperations(self.indexes))

    @property
    def answers(self) -> AnswerOperations:
        """Questions and agents."""
        from codeinfo.engine.answers import AnswerOperations

        return self._area(AnswerOperations, lambda: AnswerOperations(self))

    @property
    def conversations(self) -> ConversationStore:
        """What was asked and answered, with all turns."""
        from codeinfo.store.user_data import ConversationStore

        return self._area(ConversationStore, lambda: ConversationStore(self.indexes.user_data))

    @property
    def code(self) -> CodeOperations:
        """Symbols, references and the graph of files."""
        from codeinfo.engine.code import CodeOperations

        return self._area(CodeOperations, lambda: CodeOperations(self.indexes))

    @property
    def knowledge(self) -> KnowledgeOperations:
        """Memories, patterns, style, reviews and the context of results."""
        from codeinfo.engine.knowledge import KnowledgeOperations

        return self._area(KnowledgeOperations, lambda: KnowledgeOperations(self.indexes, self.code))

    @property
    def documents(self) -> DocumentOperations:
        """Collections of documents."""
        from codeinfo.engine.documents import DocumentOperations

        return self._area(DocumentOperations, lambda: DocumentOperations(self.indexes))

    @property
    def savings(self) -> Savings:
        """The tokens that answers saved their readers."""
        from codeinfo.engine.maintenance import Savings

        return self._area(Savings, lambda: Savings(self.indexes.user_data))

    @property
    def team(self) -> TeamOperations:
        """Users, groups, grants, tokens and the audit log of the team's store."""
        with requires("server"):
            from codeinfo.engine.team import TeamOperations

        return self._area(TeamOperations, lambda: TeamOperations(self.indexes))

    def project_state(self, path: str | Path, files: Iterable[str]) -> Reflects | None:
        """The state of the project that a reply is based on; `files` are the reply's sources, as absolute paths."""
        from codeinfo.engine.maintenance import Trees

        index = self.indexes.find(path).index
        paths = (file[len(str(index.root)) + 1 :] for file in files if lies_below(file, str(index.root)))
        return self._area(Trees, Trees).state_of(index, paths, is_current=self.indexes.is_current(index))

    def collection_states(
        self, project: str, names: tuple[str, ...], shown: Iterable[tuple[str, str]]
    ) -> tuple[CollectionState, ...]:
        """The states of the collections that a reply shows, each as collection and path, or of all requested ones."""
        from codeinfo.collections import Kind
        from codeinfo.engine.maintenance import SHORT_COMMIT, Trees

        documents, states = group_by_key(shown), []
        for index in self.documents.choose(project, names)[0]:
            name, trees = index.source.collection.id, self._area(Trees, Trees)
            state = trees.state_of(index, documents.get(name, ()), is_current=True)
            if state is not None and (name in documents or not documents):
                revision, fetched_at = index.source.last_fetch()
                commit = revision[:SHORT_COMMIT] if index.source.collection.kind is Kind.GIT else state.commit
                states.append(CollectionState(name, state.generation, commit, state.dirty, fetched_at, state.changed))
        return tuple(states)

    def _indexes_of(self, paths: Sequence[str]) -> list[IndexManager]:
        """The indexes of the projects these folders belong to, without duplicates."""
        return list(dict.fromkeys(self.indexes.find(path).index for path in paths or ("",)))

    def index(self, request: ops.IndexRequest, progress: ProgressSink = None) -> ops.IndexResponse:
        from codeinfo.graph.scip import compiler_notes

        reports = []
        for index in self._indexes_of(request.paths):
            result = self.indexes.refresh(index, progress, full=request.full, wait=True)
            assert result is not None  # because of `wait`
            reports.append(replace(result.report, notes=(*result.report.notes, *compiler_notes(index.root))))
        return ops.IndexResponse(tuple(reports))

    def search(self, request: ops.SearchRequest, progress: ProgressSink = None) -> SearchResult:
        result = self.searches.search(request, progress)
        return self.knowledge.enrich(request, result) if request.context or request.purpose else result

    def grep(self, request: ops.GrepRequest, progress: ProgressSink = None) -> ops.GrepResult:
        from codeinfo.engine.grep import GrepOperations

        return self._area(GrepOperations, lambda: GrepOperations(self.indexes)).grep(request, progress)

    def embedder(self) -> Embedder | None:
        return self.indexes.models.embedder()

    def index_progress(self, path: str | Path) -> Progress | None:
        """The progress of a refresh running in this process."""
        return self.indexes.progress_of(self.indexes.find(path).index)

    def status(self, request: ops.StatusRequest) -> ops.StatusReport:
        from codeinfo.engine.maintenance import status

        return ops.StatusReport(tuple(map(status, self._indexes_of(request.paths))))

    def why(self, request: ops.WhyRequest) -> ops.WhyReport:
        from codeinfo.engine.maintenance import why_path

        return why_path(Path(request.path), self.indexes)

    def clear(self, request: ops.ClearRequest) -> ops.ClearReport:
        from codeinfo.engine.maintenance import clear, clear_gone

        gone = {} if self.config.store.url else {path: clear_gone(self.indexes.cache, path) for path in request.paths}
        cleared = [report for report in gone.values() if report]
        existing = [path for path in request.paths if not gone.get(path)]
        cleared += map(clear, self._indexes_of(existing)) if existing or not cleared else ()
        return ops.ClearReport(tuple(cleared))

    def doctor(self, request: ops.DoctorRequest) -> ops.DoctorReport:
        from codeinfo.engine.maintenance import examine

        roots: list[IndexManager] = []
        none_here: tuple[ops.Check, ...] = ()
        try:
            roots = self._indexes_of(request.paths)
        except RootRefused as error:
            if request.paths:
                raise
            none_here = (ops.Check("index", "ok", error.what, error.next_step),)  # normal when people first try it
        documents = partial(self.documents.indexes, request.paths or (".",))
        report = examine(self.config, self.indexes.models, roots, documents, checksums=request.checksums)
        return replace(report, checks=(*report.checks, *none_here))
