"""Who calls a definition, and what it calls."""

from __future__ import annotations

from collections import Counter
from string import ascii_letters, digits

from msgspec import Struct

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import Unit
from codeinfo.graph.names import NameResolver
from codeinfo.graph.references import Lookup, find_uses, look_up, look_up_defined, resolved_uses, usages
from codeinfo.graph.scopes import SymbolId
from codeinfo.graph.uses import all_references
from codeinfo.model import Definition
from codeinfo.operations.code import CallGraph, CallsRequest, CodeEdge

_NEAR_FILES = 5  # that are looked into for the callers of a search result, the most important importers first
_WORD_CHARACTERS = f"{ascii_letters}{digits}_"
_INTERFACES = ("interface", "trait", "protocol")


def call_graph(names: NameResolver, request: CallsRequest) -> CallGraph:
    lookup = look_up_defined(names.index, request.name)
    upward = _follow(names, lookup, request.depth, incoming=True)
    downward = _follow(names, lookup, request.depth, incoming=False)
    related = [edge for symbol, definition in lookup.found.items() for edge in _related(names, symbol, definition)]
    return CallGraph(
        symbol=request.name,
        definitions=tuple(lookup.listed()),
        callers=tuple(upward[: request.limit]),
        callees=tuple(downward[: request.limit]),
        related=tuple(related),
        is_complete=max(len(upward), len(downward)) <= request.limit,
    )


def _follow(names: NameResolver, lookup: Lookup, depth: int, *, incoming: bool) -> list[CodeEdge]:
    """Edges up to `depth` calls away, each symbol looked at once."""
    edges: list[CodeEdge] = []
    seen: set[str] = set()
    border = [lookup]
    for _ in range(depth):
        reached: list[CodeEdge] = []
        for current in border:
            seen.update(map(str, current.found))
            if incoming:
                reached += callers(names, current)
            else:
                reached += [e for s, d in current.found.items() for e in callees(names, s, d)]
        edges += [edge for edge in reached if edge not in edges]
        ends = dict.fromkeys(edge.source if incoming else edge.target for edge in reached if edge.kind == "CALLS")
        border = [look_up(names.index, end) for end in ends if "::" in end and end not in seen]
    return edges


def callers(names: NameResolver, lookup: Lookup) -> list[CodeEdge]:
    edges: dict[tuple[str, str], CodeEdge] = {}
    only = str(next(iter(lookup.found))) if len(lookup.found) == 1 else lookup.name
    called = [use for use in find_uses(names, lookup).uses if use.reference.role == "call"]
    for usage in usages(names.index, lookup, called):
        if usage.edge == "CALLS":
            source = f"{usage.file}::{usage.within}" if usage.within else usage.file
            target = usage.definition or only
            edge = CodeEdge(source, target, "CALLS", usage.file, usage.line, usage.confidence)
            edges.setdefault((source, target), edge)
    return list(edges.values())


def callees(names: NameResolver, symbol: SymbolId, definition: Definition) -> list[CodeEdge]:
    """What a definition calls, and the types it names, as far as they are defined here."""
    unit = names.index.unit(symbol.path)
    if unit is None:
        return []
    edges: dict[tuple[str, str], CodeEdge] = {}
    for use in all_references(names.index.uses(unit.facts.file_id)):
        if not definition.start_line <= use.line <= definition.end_line:
            continue
        for meant in names.resolve(unit, use).symbols:
            target = names.definition(meant)
            if meant == symbol and use.role != "call":
                continue
            kind = "CALLS" if use.role == "call" else "REFERENCES_TYPE" if target and target.is_type else ""
            if kind:
                edge = CodeEdge(str(symbol), str(meant), kind, symbol.path, use.line, "resolved")
                edges.setdefault((str(meant), kind), edge)
    return list(edges.values())


def _related(names: NameResolver, symbol: SymbolId, definition: Definition) -> list[CodeEdge]:
    edges = [CodeEdge(symbol.path, str(symbol), "DEFINES", symbol.path, definition.start_line, "resolved")]
    if definition.exported:
        edges.append(CodeEdge(symbol.path, str(symbol), "EXPORTS", symbol.path, definition.start_line, "resolved"))
    for base in names.bases(symbol):
        found = names.definition(base)
        implements = found is not None and found.kind in _INTERFACES and found.kind != definition.kind
        kind = "IMPLEMENTS" if implements else "EXTENDS"
        edges.append(CodeEdge(str(symbol), str(base), kind, symbol.path, definition.start_line, "resolved"))
    return edges


# --- callers of search results -------------------------------------------------------------------------------------


class Caller(Struct, frozen=True):
    """A definition that calls another one, by its first call; `within` is empty for the top of a file."""

    path: str
    line: int
    within: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.within}".rstrip()


class ReadBudget:
    """How many files one search may read that were not read before: a millisecond each, with those that they import.
    Files and not time, so that every machine finds the same."""

    def __init__(self, index: CodeIndex, most: int = 3) -> None:
        self._index, self._end = index, index.files_read + most
        self.is_spent = False

    def allows(self, path: str) -> bool:
        if self._index.files_read < self._end or self._index.has_read(path):
            return True
        self.is_spent = True
        return False


def near_callers(names: NameResolver, path: str, qualified: str, budget: ReadBudget) -> tuple[Caller, ...]:
    """The callers of a definition in its own file and in those that import it, without tests.

    Resolved ones first, those that call most before others. A search waits for this, so few files are looked into.
    Callers that the budget left out are looked for again the next time.
    """
    answers, key = names.index.answers, ("callers", path, qualified)
    known: tuple[Caller, ...] | None = answers.get(key)
    if known is None:
        known = _near_callers(names, path, qualified, budget)
        if not budget.is_spent:
            answers.add(key, known)
    return known


def _near_callers(names: NameResolver, path: str, qualified: str, budget: ReadBudget) -> tuple[Caller, ...]:
    index = names.index
    if not _may_be_called(index, path, qualified):
        return ()
    unit = index.unit(path) if budget.allows(path) else None
    symbol = SymbolId(path, unit.without_namespace(qualified) if unit else qualified)
    definition = names.definition(symbol) if unit else None
    if unit is None or definition is None:
        return ()
    importers = [edge.source for edge in index.graph.edges_to(path)]
    files = [index.graph.files[one] for one in dict.fromkeys((path, *importers))]
    near = [file for file in files if not file.is_test][:_NEAR_FILES]
    index.read_uses([file.file_id for file in near])
    is_only = _is_only(index, unit, definition.name)
    first: dict[tuple[bool, str, str], int] = {}
    calls: Counter[tuple[bool, str, str]] = Counter()
    for file in near:
        if definition.name not in index.uses(file.file_id) or not budget.allows(file.path):
            continue
        for use, resolution in resolved_uses(names, file, definition.name):
            resolved = symbol in resolution.symbols
            if use.role == "call" and (resolved or (resolution.possible and is_only)):
                key = (not resolved, file.path, use.within)
                first.setdefault(key, use.line)
                calls[key] += 1
    ordered = sorted(first, key=lambda key: (key[0], -calls[key]))  # else by importance, the order they were found in
    return tuple(Caller(path, first[unsure, path, within], within) for unsure, path, within in ordered)


def _may_be_called(index: CodeIndex, path: str, qualified: str) -> bool:
    """Whether a near file could call a definition, by the text of its references alone: most results need no more.

    Names end as their qualified ones do. A call has its parenthesis there, except that an import may rename it.
    """
    word = qualified[len(qualified.rstrip(_WORD_CHARACTERS)) :]
    own = index.graph.files.get(path)
    if own is None or f"{word}(" in index.uses(own.file_id):
        return True
    importers = dict.fromkeys(edge.source for edge in index.graph.edges_to(path))
    near = [file for file in (index.graph.files[one] for one in importers) if not file.is_test][:_NEAR_FILES]
    return any(word in index.uses(file.file_id) for file in near)


def _is_only(index: CodeIndex, unit: Unit, name: str) -> bool:
    """Whether nothing else here has the name."""
    return index.defining(name) == {unit.facts.path} and len(unit.by_name.get(name, ())) == 1
