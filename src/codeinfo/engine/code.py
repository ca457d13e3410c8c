"""Questions about code: each operation reads one generation of an index, refreshed first. A server keeps what it
computed from a whole index until the next generation."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.cache import Cache
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.indexes import Indexes
from codeinfo.engine.language_servers import LanguageServers
from codeinfo.errors import NotFound
from codeinfo.graph import references as refs
from codeinfo.graph.code_index import CodeIndex, refresh_graph
from codeinfo.graph.model import SymbolId, Unit, dumps, loads, part_of
from codeinfo.graph.reach import cycle_report, impact_report, module_imports, unused_exports
from codeinfo.graph.scip import scip_written
from codeinfo.graph.scopes import find_overridden
from codeinfo.graph.survey import area_files, code_map, public_files, unread_language
from codeinfo.knowledge.card import Registry, deprecation, file_context, find_registry
from codeinfo.knowledge.history import MOST_HOTSPOTS, History, hotspots
from codeinfo.languages import is_product
from codeinfo.model import FileKind, Hit, HitContext, NextStep, to_run
from codeinfo.operations import code as ops
from codeinfo.operations.base import ProgressSink
from codeinfo.ports import CodeFacts
from codeinfo.search.quality import near_names
from codeinfo.search.query import read_query
from codeinfo.sources.read import Files
from codeinfo.store.sqlite import SqliteStore, code_facts, read_beside, write_beside
from codeinfo.tokens import identifiers

GRAPH_FILE = "graph.json"  # beside the index, so that the next process does not have to build the graph
MOST_CACHED = 16  # trees with cached code facts; each revision counts as one
MOST_GENERATED_BYTES = 16_000_000  # larger files are data
MOST_GENERATED_FILES = 500  # that a question about one name reads
Proved = TypeVar("Proved", ops.ReferenceReport, ops.CallGraph)
Provable = ops.RefsRequest | ops.CallsRequest
Symbol = tuple[str, str]  # path and qualified name
Line = tuple[str, int]  # path and number


class Contexts(Struct, frozen=True):
    """What is known about the files and the definitions of some search results."""

    files: dict[str, HitContext]  # by path
    callers: dict[Symbol, list[str]]
    deprecations: dict[Symbol, str]  # what is said about the deprecated ones


class CodeOperations:
    """`Engine.code`: one method per operation. Owns the caches of each index; serves one question at a time."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self._lock = threading.RLock()
        self._opened: Cache[Path, CodeIndex] = Cache(MOST_CACHED, lambda _: 1)  # by the tree's folder in its build
        self._servers = LanguageServers()

    def close(self) -> None:
        self._servers.close()

    @contextmanager
    def open(self, project: IndexManager, store: SqliteStore) -> Iterator[CodeIndex]:
        """The current generation of an index."""
        root = project.root
        with self._lock, code_facts(store) as facts:
            index = self._opened.get(store.derived)
            if index is None or (index.graph.generation, index.scip_written) != (facts.generation, scip_written(root)):
                index = self._opened.add(store.derived, _next_index(index, facts, store, project))
            index.start_question(facts)
            try:
                yield index
            except refs.UnknownName as error:
                if error.near:
                    raise
                with store.snapshot() as view:
                    name = refs.plain_name(error.name)
                    near = [other for other in near_names(name, view) if other != name]
                raise refs.UnknownName(error.name, error.what, near) from None

    @contextmanager
    def _open(self, request: Any, progress: ProgressSink) -> Iterator[tuple[CodeIndex, str]]:
        """The code of the project that a request names, and the requested part of it."""
        place = self._indexes.find(request.path, getattr(request, "root", ""), getattr(request, "at", ""))
        store = self._indexes.open_whole(place.index, refresh=request.refresh, progress=progress)
        with self.open(place.index, store) as index:
            yield index, place.below

    def tests_of(self, project: IndexManager, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The tests of files, from the current index."""
        store = project.live_store() if paths else None
        if store is None:
            return {}
        with self.open(project, store) as index:
            return {path: index.tests_of(path) for path in paths if path in index.graph.files}

    def find_registry(self, project: IndexManager, store: SqliteStore, path: str) -> Registry | None:
        with self.open(project, store) as index:
            return find_registry(index.graph, path) if path in index.graph.files else None

    def contexts_of(self, project: IndexManager, store: SqliteStore, hits: Sequence[Hit]) -> Contexts:
        with self.open(project, store) as index:
            files = {hit.path: _context_of_file(index, hit.path) for hit in hits if hit.path in index.graph.files}
            defining = [hit for hit in hits if hit.symbol and hit.path in files and hit.kind is not FileKind.TEST]
            callers = {
                (path, symbol): [str(caller) for caller in refs.near_callers(index, path, symbol)]
                for path, symbol in dict.fromkeys((hit.path, hit.symbol) for hit in defining)
            }
            deprecations = {symbol: _find_deprecation(index, SymbolId(*symbol)) for symbol in callers}
            return Contexts(files, callers, {symbol: text for symbol, text in deprecations.items() if text})

    def name_targets(self, project: IndexManager, store: SqliteStore, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The results of a task, each with the function of its file that the task names as its symbol, and whether that
        is deprecated: `rename total in Cart` is about Cart.total, whichever part of Cart is shown. A plain word counts
        if its owner is named."""
        words, names = frozenset(identifiers(query)), frozenset(read_query(query).names)
        targets = []
        with self.open(project, store) as index:
            for hit in hits:
                is_code = bool(names) and hit.path in index.graph.files
                named = _find_named_functions(index.unit(hit.path), words, names) if is_code else {}
                if named and hit.symbol not in named:
                    symbol = max(named, key=named.__getitem__)
                    advice = _find_deprecation(index, SymbolId(hit.path, symbol))
                    context = replace(hit.context or HitContext(), pattern_warning=advice)
                    hit = replace(hit, symbol=symbol, context=context)
                targets.append(hit)
        return targets

    def callers(self, project: IndexManager, targets: Collection[Symbol]) -> dict[Symbol, list[Line]]:
        """All calls of definitions outside tests, also through what they override."""
        store = project.live_store() if targets else None
        if store is None:
            return {}
        with self.open(project, store) as index:
            tests = index.graph.tests
            calls = {}
            for path, symbol in targets:
                lookup = replace(refs.look_up(index, f"{path}::{symbol}"), outside_tests=True)
                calls[path, symbol] = [
                    (edge.path, edge.line)
                    for edge in (*refs.callers(index, lookup), *refs.dispatched_callers(index, lookup))
                    if edge.path not in tests and not index.is_inline_test(edge.path, edge.source.rpartition("::")[2])
                ]
            return calls

    def dispatched_callers(self, project: IndexManager, store: SqliteStore, path: str, symbol: str) -> list[Line]:
        """Where a definition may be called through what it overrides, such as the method of an interface."""
        with self.open(project, store) as index:
            edges = refs.dispatched_callers(index, refs.look_up(index, f"{path}::{symbol}"))
            return [(edge.path, edge.line) for edge in edges]

    def is_override(self, project: IndexManager, store: SqliteStore, path: str, symbol: str) -> bool:
        """Whether a definition overrides or implements a member of a type of the project."""
        with self.open(project, store) as index:
            lookup = refs.look_up(index, f"{path}::{symbol}")
            return any(find_overridden(index, definition) for definition in lookup.symbols)

    def symbols(self, request: ops.SymbolsRequest, progress: ProgressSink = None) -> ops.SymbolList:
        with self._open(request, progress) as (index, path):
            return refs.list_symbols(index.facts, path, request)

    def definitions(self, request: ops.DefsRequest, progress: ProgressSink = None) -> ops.DefinitionList:
        with self._open(request, progress) as (index, below):
            return refs.find_definitions(index, request, below)

    def references(self, request: ops.RefsRequest, progress: ProgressSink = None) -> ops.ReferenceReport:
        report = self._with_proofs(request, progress, lambda index, below: refs.find_references(index, request, below))
        generated = self._generated_files_naming(request, {definition.path for definition in report.definitions})
        if not generated:
            return report
        more = f" and {len(generated) - 1} more" if len(generated) > 1 else ""
        note = f"generated files that are not indexed name it: {generated[0]}{more}"
        return replace(report, is_complete=False, notes=(*report.notes, note))

    def _generated_files_naming(self, request: ops.RefsRequest, defining: Collection[str]) -> list[str]:
        """The generated files in the languages of some definitions that have their name."""
        project = self._indexes.find(request.path, "", request.at).index
        store = project.live_store() if defining else None
        endings = tuple({f".{path.rpartition('.')[2]}" for path in defining})
        generated = _generated_files(store) if store is not None else []
        paths = [path for path in generated if path.endswith(endings)][:MOST_GENERATED_FILES]
        name = re.compile(rf"(?<!\w){re.escape(refs.plain_name(request.name))}(?!\w)")
        texts = zip(paths, _read_texts(project.source.contents, paths), strict=False)
        return [path for path, text in texts if name.search(text)]

    def calls(self, request: ops.CallsRequest, progress: ProgressSink = None) -> ops.CallGraph:
        return self._with_proofs(request, progress, lambda index, below: refs.call_graph(index, request, below))

    def _with_proofs(
        self, request: Provable, progress: ProgressSink, answer: Callable[[CodeIndex, str], Proved]
    ) -> Proved:
        """Ask language servers, if enabled, and answer again, as long as that raises further questions. Servers take
        seconds; other questions are served meanwhile."""
        project = self._indexes.find(request.path, "", request.at).index
        settings = project.config.code
        notes: tuple[str, ...] = ()
        deadline = time.monotonic() + settings.server_timeout_s
        while True:
            with self._open(request, progress) as (index, below):
                proofs, files = index.proofs, index.graph.files
                proofs.wanted.clear()
                proofs.asking = settings.language_servers and not notes and index.is_on_disk
                result: Proved = answer(index, below)
                questions, proofs.asking = tuple(proofs.wanted), False
            if not questions:
                return replace(result, notes=(*result.notes, *notes))
            answers, notes = self._servers.ask(project.root, settings, files, questions, deadline)
            proofs.known.update(answers)
            request = replace(request, refresh=False)

    def unused(self, request: ops.UnusedRequest, progress: ProgressSink = None) -> ops.UnusedReport:
        place = self._indexes.find(request.path)
        store = self._indexes.open_whole(place.index, refresh=request.refresh, progress=progress)
        contents = place.index.source.contents
        generated = _generated_files(store)
        with self.open(place.index, store) as index:
            report = unused_exports(index, request, _read_texts(contents, generated), public_files(index), place.below)
            unread = unread_language(part_of(index.graph, place.below))
        if unread:
            note = f"{unread} has no syntax tree here: its definitions are not looked at"
            report = replace(report, is_complete=False, notes=(*report.notes, note))
        if contents.exact or not generated:
            return report
        note = f"{len(generated):,} generated files are not in the team's store: what only they use is listed here too"
        return replace(report, is_complete=False, notes=(*report.notes, note))

    def imports(self, request: ops.ImportsRequest, progress: ProgressSink = None) -> ops.ModuleImports:
        with self._open(request, progress) as (index, path):
            _check_indexed(index, path)
            report, file = module_imports(index, path, request), index.graph.files[path]
        is_read = file.rules.imports.resolver is not None or file.rules.kind is not FileKind.CODE
        return report if is_read else replace(report, notes=(f"imports of {file.language} are not read",))

    def cycles(self, request: ops.CyclesRequest, progress: ProgressSink = None) -> ops.CycleReport:
        with self._open(request, progress) as (index, below):
            report, unread = cycle_report(index.graph, request, below), unread_language(part_of(index.graph, below))
        return replace(report, notes=(f"imports of {unread} are not read",)) if unread else report

    def impact(self, request: ops.ImpactRequest, progress: ProgressSink = None) -> ops.ImpactReport:
        with self._open(request, progress) as (index, path):
            _check_indexed(index, path)
            return impact_report(index, path, request)

    def hotspots(self, request: ops.HotspotsRequest, progress: ProgressSink = None) -> ops.HotspotReport:
        with self._open(request, progress) as (index, below):
            key = ("hotspots", request.days, below, History(index.root).key())
            report: ops.HotspotReport = index.answers.get(key) or hotspots(index.facts, index.root, request.days, below)
            if not report.notes:  # a history that could not be read may be readable next time
                index.answers.add(key, report)
        return replace(report, hotspots=report.hotspots[: request.limit])

    def map(self, request: ops.MapRequest, progress: ProgressSink = None) -> ops.CodeMap:
        with self._open(request, progress) as (index, below):
            key = ("map", request.format, request.limit, below)
            report: ops.CodeMap = index.answers.once(key, lambda: code_map(index, request, below))
            files = area_files(part_of(index.graph, below), request) if request.area else ()
        history = self.hotspots(ops.HotspotsRequest(request.path, limit=MOST_HOTSPOTS, refresh=False), progress)
        shipped = [hotspot for hotspot in history.hotspots if is_product(hotspot.path, FileKind.CODE)][: request.limit]
        most = max((hotspot.score for hotspot in shipped), default=0.0) or 1.0
        scaled = tuple(replace(hotspot, score=round(hotspot.score / most, 4)) for hotspot in shipped)
        return replace(report, hotspots=scaled, area_files=files, notes=(*report.notes, *history.notes))


def _find_named_functions(unit: Unit, words: frozenset[str], names: frozenset[str]) -> dict[str, bool]:
    """The functions of a file that a task names, and whether it names their owners, too."""
    named: dict[str, bool] = {}
    for function in (definition for definition in unit.definitions if definition.is_function):
        has_owner = function.owner.rpartition(".")[2] in names
        if function.name.rstrip("?!") in (words if has_owner else names):
            named[unit.without_namespace(function.qualified)] = has_owner
    return named


def _generated_files(store: SqliteStore) -> list[str]:
    return [skip.path for skip in store.counts().skipped if skip.rule == "generated"]


def _read_texts(contents: Files, paths: Sequence[str]) -> Iterator[str]:
    """The text of generated files, empty if it cannot be read: they are not indexed, but use what others define."""
    with contents.open(paths) as reader:
        for path in paths:
            try:
                yield reader.read(path, MOST_GENERATED_BYTES).decode("utf-8", "replace")
            except OSError:
                yield ""


def _next_index(before: CodeIndex | None, facts: CodeFacts, store: SqliteStore, project: IndexManager) -> CodeIndex:
    """The index for the generation that `facts` shows, reusing what is still valid from the previous one."""
    root, contents = project.root, project.source.contents
    graph = before.graph if before else loads(read_beside(store, GRAPH_FILE))
    imports = before.imports if before else None
    if graph is None or graph.generation != facts.generation:
        graph, imports = refresh_graph(graph, facts, root, contents, imports)
        write_beside(store, GRAPH_FILE, dumps(graph))
    return CodeIndex(facts, graph, root, contents, before, imports)


def _find_deprecation(index: CodeIndex, symbol: SymbolId) -> str:
    """That a definition or what it belongs to is deprecated, with what is said about it."""
    lines = index.lines(symbol.path)
    while symbol.qualified:
        definition = index.definition(symbol)
        if definition is not None and (advice := deprecation(lines, definition.start_line, definition.end_line)):
            return advice
        symbol = symbol.owner
    return ""


def _context_of_file(index: CodeIndex, path: str) -> HitContext:
    key = ("file", path)
    context: HitContext = index.answers.once(key, lambda: file_context(index.graph, path, index.tests_of(path)))
    return context


def _check_indexed(index: CodeIndex, path: str) -> None:
    if path not in index.graph.files:
        refs.refuse_folder(index.graph, path)
        raise NotFound(f"{path} is not in the index", NextStep(to_run("why", path), " says why"))
