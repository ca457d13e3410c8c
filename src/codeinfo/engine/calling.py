"""Who calls a definition, and what it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_letters, digits
from typing import NamedTuple

from codeinfo.engine.graphing import relations
from codeinfo.engine.judging import judged
from codeinfo.engine.referencing import Wanted, find_uses, usages
from codeinfo.engine.world import IndexWorld
from codeinfo.graph.scopes import TYPE_KINDS, SymbolId
from codeinfo.index.references import unpack_references
from codeinfo.knowledge.context import MOST_LISTED, FileContext, file_context
from codeinfo.model import Definition, FileKind, Hit
from codeinfo.operations.code import CodeEdge

NEAR_FILES = 5  # that are looked into for the callers of a search result, the most important importers first
_OF_WORDS = f"{ascii_letters}{digits}_"


def callers(world: IndexWorld, target: Wanted) -> list[CodeEdge]:
    edges: dict[tuple[str, str], CodeEdge] = {}
    called = [use for use in find_uses(world, target).uses(world) if use.reference.role == "call"]
    for usage in usages(world, target, called):
        if usage.edge == "CALLS":
            source = f"{usage.file}::{usage.within}" if usage.within else usage.file
            meant = usage.definition or _only(target)
            edge = CodeEdge(source, meant, "CALLS", usage.file, usage.line, usage.confidence)
            edges.setdefault((source, meant), edge)
    return list(edges.values())


def _only(target: Wanted) -> str:
    return str(next(iter(target.found))) if len(target.found) == 1 else target.name


def callees(world: IndexWorld, symbol: SymbolId, definition: Definition) -> list[CodeEdge]:
    """What a definition calls, and the types it names, as far as they are defined here."""
    unit = world.unit(symbol.path)
    if unit is None:
        return []
    packed = dict(world.facts.references([unit.facts.file_id]))
    edges: dict[tuple[str, str], CodeEdge] = {}
    for use in unpack_references(packed.get(unit.facts.file_id, b"")):
        if not definition.start_line <= use.line <= definition.end_line:
            continue
        for meant in world.judge.verdict(unit, use).symbols:
            target = world.judge.definition(meant)
            if meant == symbol and use.role != "call":
                continue
            kind = "CALLS" if use.role == "call" else "REFERENCES_TYPE" if target and target.kind in TYPE_KINDS else ""
            if kind:
                edge = CodeEdge(str(symbol), str(meant), kind, symbol.path, use.line, "resolved")
                edges.setdefault((str(meant), kind), edge)
    return list(edges.values())


def _may_be_called(world: IndexWorld, path: str, qualified: str) -> bool:
    """Whether a near file could call a definition, by the text of its references alone: most results need no more.

    Names end as their qualified ones do. A call has its parenthesis there, except that an import may rename it.
    """
    word = qualified[len(qualified.rstrip(_OF_WORDS)) :]
    own = world.graph.files.get(path)
    if own is None or f"{word}(" in world.uses(own.file_id):
        return True
    importers = dict.fromkeys(edge.source for edge in world.graph.edges_to(path))
    near = [file for file in (world.graph.files[one] for one in importers) if not file.is_test][:NEAR_FILES]
    return any(word in world.uses(file.file_id) for file in near)


# --- around a search result ----------------------------------------------------------------------------------------


class Surroundings(NamedTuple):
    """What lies around the results of a search."""

    files: Mapping[str, FileContext]  # by path
    callers: Mapping[tuple[str, str], Sequence[str]]  # by path and qualified name


def surroundings(world: IndexWorld, hits: Sequence[Hit]) -> Surroundings:
    files = {path: _file_context(world, path) for path in {hit.path for hit in hits} if path in world.graph.files}
    asked = [hit for hit in hits if hit.symbol and hit.path in files and hit.kind is not FileKind.TEST]
    effort = Effort(world)
    callers = {
        (path, symbol): [str(one) for one in near_callers(world, path, symbol, effort)]
        for path, symbol in dict.fromkeys((hit.path, hit.symbol) for hit in asked)
    }
    return Surroundings(files, callers)


def _file_context(world: IndexWorld, path: str) -> FileContext:
    known: FileContext | None = world.near.get(path)
    if known is None:
        own = relations(world.graph, path)
        users = {user: relations(world.graph, user) for user, _ in own.used_by[:MOST_LISTED]}
        known = world.near.add(path, file_context(path, users | {path: own}))
    return known


class Caller(NamedTuple):
    """A definition that calls another one, by its first call; `within` is empty for the top of a file."""

    path: str
    line: int
    within: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.within}".rstrip()


class Effort:
    """How much may be looked into for one search, which waits for it: so many files that were not read before, a
    millisecond each with those that they import. Files and not time, so that every machine finds the same."""

    def __init__(self, world: IndexWorld, most: int = 3) -> None:
        self._world, self._end = world, world.files_read + most
        self.spent = False

    def allows(self, path: str) -> bool:
        if self._world.files_read < self._end or self._world.has_read(path):
            return True
        self.spent = True
        return False


def near_callers(world: IndexWorld, path: str, qualified: str, effort: Effort) -> tuple[Caller, ...]:
    """The callers of a definition in its own file and in those that import it; tests are none.

    Resolved ones first, those that call most before others. A search waits for this, so few files are looked into, and
    those that were not read before only as far as the effort allows.
    """
    key = (path, qualified)
    kept: tuple[Caller, ...] | None = world.near.get(key)
    if kept is None:
        kept, is_whole = _near_callers(world, path, qualified, effort)
        if is_whole:
            world.near.add(key, kept)
    return kept


def _near_callers(world: IndexWorld, path: str, qualified: str, effort: Effort) -> tuple[tuple[Caller, ...], bool]:
    if not _may_be_called(world, path, qualified):
        return (), True
    unit = world.unit(path) if effort.allows(path) else None
    if unit is None:
        return (), False
    symbol = SymbolId(path, unit.without_namespace(qualified))
    definition = world.judge.definition(symbol)
    if definition is None:
        return (), True
    importers = [edge.source for edge in world.graph.edges_to(path)]
    files = [world.graph.files[one] for one in dict.fromkeys((path, *importers))]
    near = [file for file in files if not file.is_test][:NEAR_FILES]
    world.read_uses([file.file_id for file in near])
    first: dict[tuple[bool, str, str], int] = {}
    calls: Counter[tuple[bool, str, str]] = Counter()
    for file in near:
        if definition.name not in world.uses(file.file_id) or not effort.allows(file.path):
            continue
        for use, verdict in judged(world, file, definition.name):
            resolved = symbol in verdict.symbols
            if use.role == "call" and (resolved or (verdict.possible and _is_only(world, definition.name))):
                key = (not resolved, file.path, use.within)
                first.setdefault(key, use.line)
                calls[key] += 1
    ordered = sorted(first, key=lambda key: (key[0], -calls[key]))  # else by importance, the order they were found in
    found = tuple(Caller(path, first[unsure, path, within], within) for unsure, path, within in ordered)
    return found, not effort.spent


def _is_only(world: IndexWorld, name: str) -> bool:
    """Whether nothing else here has the name."""
    key = ("only", name)
    known: tuple[bool] | None = world.answers.get(key)
    return (known or world.answers.add(key, (len(world.facts.definitions_named(name)) == 1,)))[0]
