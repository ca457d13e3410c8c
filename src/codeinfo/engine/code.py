"""Questions about code: each operation reads one generation of an index, brought up to date first."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from codeinfo.engine import code_reports as reports
from codeinfo.engine.calling import Surroundings, surroundings
from codeinfo.engine.graphing import Graphs, Relations
from codeinfo.engine.maintenance import project_of, resolved
from codeinfo.engine.reading_ahead import CommonNames, ReadingAhead
from codeinfo.engine.uncollected import uncollected
from codeinfo.engine.world import Contents, IndexWorld
from codeinfo.errors import NotFound
from codeinfo.graph.model import Graph
from codeinfo.graph.resolve import Resolver
from codeinfo.operations import code as requests
from codeinfo.operations.base import Progress
from codeinfo.ports import CodeFacts
from codeinfo.store.sqlite import code_facts
from codeinfo.types import Hit

if TYPE_CHECKING:
    from codeinfo.engine.engine import Engine
    from codeinfo.engine.index_manager import IndexManager
    from codeinfo.store.sqlite import SqliteStore

FileRequest = requests.SymbolsRequest | requests.ImportsRequest | requests.ImpactRequest
ProgressSink = Callable[[Progress], None]


class Opened(Struct, frozen=True):
    """One generation of one index, open for questions."""

    root: Path
    facts: CodeFacts
    graph: Graph
    world: IndexWorld
    resolver: Resolver
    common: CommonNames


class CodeOperations:
    """`Engine.code`: one method an operation. One that lasts reads ahead once it is asked something."""

    def __init__(self, engine: Engine, *, lasting: bool = False) -> None:
        self._engine = engine
        self._graphs = Graphs()
        self._contents: dict[Path, Contents] = {}
        self._worlds: dict[Path, IndexWorld] = {}
        self._common: dict[Path, CommonNames] = {}
        self._reading = ReadingAhead(self.read_ahead) if lasting else None
        self._lock = threading.RLock()

    @contextmanager
    def _open(self, folder: str | Path, refresh: bool, progress: ProgressSink | None) -> Iterator[Opened]:
        keeper = self._engine.upkeep(folder)
        store, _ = self._engine.searchable(keeper, refresh=refresh, progress=progress)
        with self._asked(keeper.root, store) as opened:
            yield opened

    @contextmanager
    def _asked(self, root: Path, store: SqliteStore) -> Iterator[Opened]:
        with self._opened(root, store) as opened:
            yield opened
        if self._reading is not None and not opened.world.is_read_ahead:
            self._reading.notice(root)

    @contextmanager
    def _opened(self, root: Path, store: SqliteStore) -> Iterator[Opened]:
        with self._lock, uncollected(), code_facts(store) as facts:
            graph = self._graphs.graph_of(facts, store, root)
            resolver = self._graphs.resolver(graph, store, root)
            common = self._common.get(store.folder) or self._common.setdefault(store.folder, CommonNames(store))
            world = self._worlds.get(store.folder)
            if world is None or world.graph.generation != graph.generation:
                contents = self._contents.setdefault(store.folder, Contents())
                world = IndexWorld(facts, graph, resolver, contents, partial(common.known, graph, resolver))
                self._worlds[store.folder] = world
            world.facts = facts
            try:
                yield Opened(root, facts, graph, world, resolver, common)
            finally:
                world.rest()

    def read_ahead(self, folder: str | Path, seconds: float = math.inf) -> bool:
        """Judge the uses of common names before somebody asks for them, for so long; says whether all are judged."""
        keeper = self._engine.upkeep(folder)
        store, _ = self._engine.searchable(keeper, refresh=False)
        with self._opened(keeper.root, store) as opened:
            done = opened.common.read(opened.facts, opened.graph, opened.resolver, seconds)
            opened.world.is_read_ahead = done
            return done

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()

    @contextmanager
    def _open_file(self, request: FileRequest, progress: ProgressSink | None) -> Iterator[tuple[Opened, str]]:
        """The index that a file belongs to, and the file's path in it."""
        target = Path.cwd() / request.root / request.path
        home = Path(request.root) if request.root else project_of(target)
        with self._open(home, request.refresh, progress) as opened:
            absolute = resolved(target)
            inside = absolute.is_relative_to(opened.root)
            yield opened, absolute.relative_to(opened.root).as_posix() if inside else request.path

    def relations(self, keeper: IndexManager, paths: Sequence[str]) -> dict[str, Relations]:
        """How files hang together with others, from the index as it is."""
        store = keeper.live_store() if paths else None
        return dict(self._graphs.relations(store, keeper.root, paths)) if store is not None else {}

    def around(self, root: Path, store: SqliteStore, hits: Sequence[Hit]) -> Surroundings:
        """What surrounds the results of a search, from one look at the index as it is."""
        with self._asked(root, store) as opened:
            return surroundings(opened.world, hits)

    # --- symbols and references ---

    def symbols(self, request: requests.SymbolsRequest, progress: ProgressSink | None = None) -> requests.SymbolList:
        with self._open_file(request, progress) as (opened, path):
            return reports.symbols(opened.facts, path, request)

    def definitions(
        self, request: requests.DefsRequest, progress: ProgressSink | None = None
    ) -> requests.DefinitionList:
        with self._open(request.path, request.refresh, progress) as opened:
            return reports.definitions(opened.world, request)

    def references(
        self, request: requests.RefsRequest, progress: ProgressSink | None = None
    ) -> requests.ReferenceReport:
        with self._open(request.path, request.refresh, progress) as opened:
            return reports.references(opened.world, request)

    def calls(self, request: requests.CallsRequest, progress: ProgressSink | None = None) -> requests.CallGraph:
        with self._open(request.path, request.refresh, progress) as opened:
            return reports.calls(opened.world, request)

    def unused(self, request: requests.UnusedRequest, progress: ProgressSink | None = None) -> requests.UnusedReport:
        from codeinfo.engine.unused import unused_exports

        with self._open(request.path, request.refresh, progress) as opened:
            return unused_exports(opened.world, request)

    # --- files ---

    def imports(self, request: requests.ImportsRequest, progress: ProgressSink | None = None) -> requests.ModuleImports:
        with self._open_file(request, progress) as (opened, path):
            _known(opened.graph, path)
            return reports.imports(opened.world, path, request)

    def cycles(self, request: requests.CyclesRequest, progress: ProgressSink | None = None) -> requests.CycleReport:
        with self._open(request.path, request.refresh, progress) as opened:
            return reports.cycle_report(opened.graph, request)

    def impact(self, request: requests.ImpactRequest, progress: ProgressSink | None = None) -> requests.ImpactReport:
        with self._open_file(request, progress) as (opened, path):
            _known(opened.graph, path)
            return reports.impact_report(opened.graph, path, request)

    def hotspots(
        self, request: requests.HotspotsRequest, progress: ProgressSink | None = None
    ) -> requests.HotspotReport:
        from codeinfo.engine.hotspots import hotspots

        with self._open(request.path, request.refresh, progress) as opened:
            return hotspots(opened.facts, opened.root, request)

    def map(self, request: requests.MapRequest, progress: ProgressSink | None = None) -> requests.CodeMap:
        from codeinfo.engine.mapping import code_map

        with self._open(request.path, request.refresh, progress) as opened:
            return code_map(opened.world, opened.root, request)


def _known(graph: Graph, path: str) -> None:
    if path not in graph.files:
        raise NotFound(f"{path} is not in the index", next_step=f"`codeinfo why {path}` says why")
