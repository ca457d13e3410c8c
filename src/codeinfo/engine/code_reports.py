"""Answers about symbols and files, from an opened index."""

from __future__ import annotations

from collections.abc import Iterable

from codeinfo.engine.calling import callees, callers
from codeinfo.engine.graphing import relations
from codeinfo.engine.referencing import Wanted, check_definitions, find_uses, symbol_info, usages, wanted
from codeinfo.engine.world import IndexWorld
from codeinfo.errors import NotFound
from codeinfo.graph.model import Graph
from codeinfo.graph.reach import components, cycles, impact
from codeinfo.graph.scopes import SymbolId
from codeinfo.languages import GRAMMARS
from codeinfo.operations import code as requests
from codeinfo.operations.code import CodeEdge
from codeinfo.ports import CodeFacts
from codeinfo.types import Definition

_NAMED_LEFT_OUT = 3


def symbols(facts: CodeFacts, path: str, request: requests.SymbolsRequest) -> requests.SymbolList:
    prefix = "" if path == "." else f"{path}/"
    files = [file for file in facts.files() if file.path == path or file.path.startswith(prefix)]
    if not files:
        raise NotFound(f"{path} is not in the index", next_step=f"`codeinfo why {path}` says why")
    facts.check_symbols(file.file_id for file in files)
    found = [
        symbol_info(file.path, definition)
        for file in files
        for definition in facts.definitions(file.file_id)
        if not request.kinds or definition.kind in request.kinds
    ]
    unparsed = [file.path for file in files if file.kind in ("code", "tests") and file.language not in GRAMMARS]
    notes = (_unparsed_note(unparsed),) if unparsed else ()
    complete = len(found) <= request.limit and not unparsed
    return requests.SymbolList(path, len(found), tuple(found[: request.limit]), complete, notes)


def definitions(world: IndexWorld, request: requests.DefsRequest) -> requests.DefinitionList:
    target = wanted(world, request.name)
    check_definitions(world, target)
    if not target.found:
        raise _nothing_called(request.name)
    found = _definitions(target)
    return requests.DefinitionList(
        request.name, len(found), tuple(found[: request.limit]), is_complete=len(found) <= request.limit
    )


def _some(world: IndexWorld, name: str) -> Wanted:
    target = wanted(world, name)
    if not target.found:
        raise _nothing_called(name)
    return target


def _nothing_called(name: str) -> NotFound:
    return NotFound(f"nothing called {name} is defined here", next_step=f'Try `codeinfo search "{name}"`')


def _definitions(target: Wanted) -> list[requests.SymbolInfo]:
    """The real ones first: classes and functions of code before those of tests, prototypes last."""
    infos = [symbol_info(symbol.path, definition) for symbol, definition in target.found.items()]
    return sorted(infos, key=lambda info: (info.kind == "prototype", not info.exported, info.path, info.start_line))


def references(world: IndexWorld, request: requests.RefsRequest) -> requests.ReferenceReport:
    target = wanted(world, request.name)
    found = find_uses(world, target)
    if not target.found and not len(found):
        raise NotFound(
            f"no code here uses the name {request.name}", next_step=f'Try `codeinfo search "{request.name}"`'
        )
    notes = [_unparsed_note(found.left_out)] if found.left_out else []
    if found.unattributed:
        notes.append(f"{found.unattributed} more uses of the name cannot be told from those of other definitions")
    return requests.ReferenceReport(
        symbol=request.name,
        usage_count=len(found),
        usages=usages(world, target, found.uses(world, request.limit)),
        confidence="resolved" if found.resolved == len(found) else "syntactic",
        is_complete=len(found) <= request.limit and not found.left_out,
        definitions=tuple(_definitions(target)),
        resolved_count=found.resolved,
        unattributed=found.unattributed,
        file_count=found.file_count,
        notes=tuple(notes),
    )


def _unparsed_note(paths: Iterable[str]) -> str:
    listed = list(paths)
    named = ", ".join(listed[:_NAMED_LEFT_OUT]) + ("…" if len(listed) > _NAMED_LEFT_OUT else "")
    return f"{len(listed)} files have no syntax tree and were not looked into: {named}"


# --- calls ---------------------------------------------------------------------------------------------------------


def calls(world: IndexWorld, request: requests.CallsRequest) -> requests.CallGraph:
    target = _some(world, request.name)
    upward = _spread(world, target, request.depth, incoming=True)
    downward = _spread(world, target, request.depth, incoming=False)
    complete = max(len(upward), len(downward)) <= request.limit
    related = [edge for symbol, definition in target.found.items() for edge in _related(world, symbol, definition)]
    return requests.CallGraph(
        symbol=request.name,
        definitions=tuple(_definitions(target)),
        callers=tuple(upward[: request.limit]),
        callees=tuple(downward[: request.limit]),
        related=tuple(related),
        is_complete=complete,
    )


def _spread(world: IndexWorld, target: Wanted, depth: int, *, incoming: bool) -> list[CodeEdge]:
    """Edges up to `depth` calls away, each symbol looked at once."""
    edges: list[CodeEdge] = []
    seen: set[str] = set()
    border = [target]
    for _ in range(depth):
        reached: list[CodeEdge] = []
        for current in border:
            seen.update(map(str, current.found))
            if incoming:
                reached += callers(world, current)
            else:
                reached += [e for s, d in current.found.items() for e in callees(world, s, d)]
        edges += [edge for edge in reached if edge not in edges]
        ends = dict.fromkeys(edge.source if incoming else edge.target for edge in reached if edge.kind == "CALLS")
        border = [wanted(world, end) for end in ends if "::" in end and end not in seen]
    return edges


def _related(world: IndexWorld, symbol: SymbolId, definition: Definition) -> list[CodeEdge]:
    edges = [CodeEdge(symbol.path, str(symbol), "DEFINES", symbol.path, definition.start_line, "resolved")]
    if definition.exported:
        edges.append(CodeEdge(symbol.path, str(symbol), "EXPORTS", symbol.path, definition.start_line, "resolved"))
    for base in world.judge.bases(symbol):
        found = world.judge.definition(base)
        kinds = (definition.kind, found.kind if found else "")
        implements = kinds[1] in ("interface", "trait", "protocol") and kinds[0] != kinds[1]
        kind = "IMPLEMENTS" if implements else "EXTENDS"
        edges.append(CodeEdge(str(symbol), str(base), kind, symbol.path, definition.start_line, "resolved"))
    return edges


# --- files ---------------------------------------------------------------------------------------------------------


def imports(world: IndexWorld, path: str, request: requests.ImportsRequest) -> requests.ModuleImports:
    graph = world.graph
    facts, unit = graph.files[path], world.unit(path)
    found = []
    for written in unit.imports if unit else ():
        outcome = world.outcome(facts, written)
        targets = [target.path for target in outcome.targets if target.path != path]
        if outcome.package:
            needed = {edge.target for edge in graph.edges_from(path)}
            targets = [target for target in targets if target in needed]
        names = (f"{written.names[0]} as {written.alias}",) if written.alias and written.names else written.names
        found.append(requests.ImportInfo(written.module, written.line, names, outcome.status, tuple(targets)))
    found += [
        requests.ImportInfo("", edge.line, edge.names, "package", (edge.target,))
        for edge in graph.edges_from(path)
        if edge.implicit
    ]
    near = relations(graph, path)
    into = [requests.Neighbour(e.source, e.line, e.names, e.implicit) for e in graph.edges_to(path)]
    return requests.ModuleImports(
        path=path,
        language=facts.language,
        imports=tuple(found[: request.limit]),
        imported_by=tuple(into[: request.limit]),
        imported_by_count=len(into),
        tests=near.tests,
        centrality=near.centrality,
        is_complete=max(len(found), len(into)) <= request.limit,
    )


def cycle_report(graph: Graph, request: requests.CyclesRequest) -> requests.CycleReport:
    edges = [edge for links in graph.links.values() for edge in links.edges if not edge.implicit]
    found = cycles(edges)
    following: dict[str, list[str]] = {}
    for edge in edges:
        following.setdefault(edge.source, []).append(edge.target)
    groups = sorted((tuple(sorted(group)) for group in components(following)), key=lambda group: (-len(group), group))
    external, unresolved = graph.loose
    return requests.CycleReport(
        total=len(found),
        cycles=tuple(
            requests.CycleInfo(cycle.severity, cycle.files, tuple(edge.line for edge in cycle.edges))
            for cycle in found[: request.limit]
        ),
        groups=tuple(groups),
        files=len(graph.files),
        edges=len(edges),
        external=external,
        unresolved=unresolved,
        is_complete=len(found) <= request.limit,
    )


def impact_report(graph: Graph, path: str, request: requests.ImpactRequest) -> requests.ImpactReport:
    reached = impact([path], graph.importers, graph.centrality, request.hops)
    files = [requests.Affected(one.path, one.line, one.via, one.hops, graph.files[one.path].is_test) for one in reached]
    files.sort(key=lambda one: (one.hops, one.is_test))
    return requests.ImpactReport(
        path=path,
        total=len(files),
        files=tuple(files[: request.limit]),
        tests=relations(graph, path).tests,
        is_complete=len(files) <= request.limit,
    )
