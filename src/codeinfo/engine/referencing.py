"""References and calls: candidates by the keyword index, uses by the packed syntax, meanings by scopes and imports."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from codeinfo.graph.facts import FileFacts, Outcome
from codeinfo.graph.model import Graph
from codeinfo.graph.resolve import Resolver
from codeinfo.graph.scopes import TYPE_KINDS, Binder, SymbolId, Unit
from codeinfo.graph.tree import family
from codeinfo.graph.usage import Judge, Verdict
from codeinfo.index.grammars import GRAMMARS
from codeinfo.index.references import unpack_references
from codeinfo.index.uses import references_to
from codeinfo.ports import CodeFacts
from codeinfo.requests.code import CodeEdge, SymbolInfo, Usage
from codeinfo.tokens import identifier_terms, identifiers
from codeinfo.types import Definition, Import, Reference

_KEPT_UNITS = 4000  # files whose definitions and imports stay in memory
_KEPT_TEXTS = 500
_PREVIEW_CHARS = 160
_IMPORT_WORDS = ("import", "from", "export", "use ", "using ", "require", "pub use", "#include", "const {")
_INTERFACES = frozenset({"interface", "trait", "protocol"})
_LOCAL_KINDS = frozenset({"package", "namespace"})


class Units:
    """Files with their definitions and imports. An id never changes its content, so they can be kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Unit] = OrderedDict()

    def get(self, facts: FileFacts, source: CodeFacts) -> Unit:
        unit = self._kept.get(facts.file_id)
        if unit is None:
            imports = tuple(written for _, written in source.imports([facts.file_id]))
            unit = Unit(facts, tuple(source.definitions(facts.file_id)), imports)
            self._kept[facts.file_id] = unit
            if len(self._kept) > _KEPT_UNITS:
                self._kept.popitem(last=False)
        return unit


class IndexWorld:
    """The World that names are looked up in, over one generation of an index."""

    def __init__(self, facts: CodeFacts, graph: Graph, resolver: Resolver, units: Units) -> None:
        self.facts = facts
        self.graph = graph
        self._resolver = resolver
        self._units = units
        self._outcomes: dict[tuple[str, Import], Outcome] = {}
        self._visible: dict[str, tuple[str, ...]] = {}
        self._lines: OrderedDict[int, Mapping[int, str]] = OrderedDict()
        self._defining: dict[str, frozenset[str]] = {}
        self.by_id = {file.file_id: file for file in graph.files.values()}

    def unit(self, path: str) -> Unit | None:
        file = self.graph.files.get(path)
        return self._units.get(file, self.facts) if file else None

    def outcome(self, source: FileFacts, written: Import) -> Outcome:
        key = (source.path, written)
        if key not in self._outcomes:
            self._outcomes[key] = self._resolver.outcome(source, written)
        return self._outcomes[key]

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        if source.path not in self._visible:
            self._visible[source.path] = self._resolver.visible(source)
        return self._visible[source.path]

    def defining(self, name: str) -> frozenset[str]:
        if name not in self._defining:
            rows = self.facts.definitions_named(name)
            self._defining[name] = frozenset(self.by_id[file_id].path for file_id, _ in rows if file_id in self.by_id)
        return self._defining[name]

    def lines(self, file_id: int) -> Mapping[int, str]:
        if file_id not in self._lines:
            self._lines[file_id] = self.facts.lines(file_id)
            if len(self._lines) > _KEPT_TEXTS:
                self._lines.popitem(last=False)
        return self._lines[file_id]

    @cached_property
    def judge(self) -> Judge:
        return Judge(Binder(self))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The definitions that a NAME stands for, and whether others share the plain name."""

    name: str
    found: Mapping[SymbolId, Definition]
    others: bool


@dataclass(frozen=True, slots=True)
class Found:
    usages: tuple[Usage, ...]  # resolved ones first
    unattributed: int
    left_out: tuple[str, ...]  # files with the name whose syntax is not known


def wanted(world: IndexWorld, written: str) -> Wanted:
    """`Name`, `Class.method` and `path::Name`, read as what is defined."""
    path, _, qualified = (
        written.rpartition("::") if "::" in written and "/" in written.rpartition("::")[0] else ("", "", written)
    )
    if not path and "::" in written:
        head, _, rest = written.partition("::")
        path, qualified = (head, rest) if head in world.graph.files else ("", written.replace("::", "."))
    name = qualified.rpartition(".")[2]
    every: dict[SymbolId, Definition] = {}
    for file_id, definition in world.facts.definitions_named(name):
        file = world.by_id.get(file_id)
        unit = world.unit(file.path) if file else None
        if file and unit and definition.kind not in _LOCAL_KINDS:
            every.setdefault(SymbolId(file.path, unit.without_namespace(definition.qualified)), definition)
    found = {
        symbol: definition
        for symbol, definition in every.items()
        if (not path or symbol.path == path or symbol.path.endswith(f"/{path}"))
        and (
            symbol.qualified == qualified
            or symbol.qualified.endswith(f".{qualified}")
            or definition.qualified == qualified
        )
    }
    return Wanted(name, found, others=len(found) < len(every))


def find_uses(world: IndexWorld, target: Wanted) -> Found:
    usages: list[tuple[bool, Usage]] = []
    unattributed = 0
    left_out: list[str] = []
    candidates = [world.by_id[file_id] for file_id in candidate_files(world, target.name) if file_id in world.by_id]
    packed = dict(world.facts.references([file.file_id for file in candidates]))
    is_local = bool(target.found) and all(_is_local(world, symbol) for symbol in target.found)
    families = {_spoken(world.graph.files[symbol.path].language) for symbol in target.found}
    for file in candidates:
        if file.language in GRAMMARS and families and _spoken(file.language) not in families:
            continue  # the same name in another language is another name
        if file.language not in GRAMMARS:
            if file.kind in ("code", "tests") and _mentions(world, file, target.name):
                left_out.append(file.path)
            continue
        unit = world.unit(file.path)
        if unit is None or file.file_id not in packed:
            continue
        for use, verdict in _judged(world, unit, packed[file.file_id], target.name):
            meant = [symbol for symbol in verdict.symbols if symbol in target.found]
            if meant:
                usages.append((True, _usage(world, unit, use, meant[0], target.found[meant[0]])))
            elif verdict.possible and is_local:
                continue
            elif verdict.possible and not target.others:
                only = next(iter(target.found.items()), (None, None))
                usages.append((False, _usage(world, unit, use, None, only[1])))
            elif verdict.possible:
                unattributed += 1
    usages.sort(key=lambda pair: not pair[0])
    return Found(tuple(usage for _, usage in usages), unattributed, tuple(left_out))


def _is_local(world: IndexWorld, symbol: SymbolId) -> bool:
    """Defined inside of a function: nothing outside of it can mean it."""
    owner = world.judge.definition(SymbolId(symbol.path, symbol.qualified.rpartition(".")[0]))
    return owner is not None and owner.kind in ("function", "method")


def _spoken(language: str) -> str:
    """Languages that use each other's definitions."""
    if language in {"javascript", "typescript", "tsx"}:
        return "ecmascript"
    return "c" if language in {"c", "cpp"} else family(language)


def candidate_files(world: IndexWorld, name: str) -> list[int]:
    """Files that may use a name: those that have its index term."""
    terms = [identifier_terms(part)[-1] for part in identifiers(name) if identifier_terms(part)]
    if not terms:  # a name the keyword index does not keep: too long, or made of signs
        return list(world.by_id)
    return world.facts.files_with(terms)


def _mentions(world: IndexWorld, file: FileFacts, name: str) -> bool:
    return any(name in line for line in world.lines(file.file_id).values())


def _judged(world: IndexWorld, unit: Unit, packed: bytes, name: str) -> Iterator[tuple[Reference, Verdict]]:
    """Every use of the name in a file, also under the other names that imports give it."""
    aliases = {written.alias for written in unit.imports if written.alias and name in written.names} - {name}
    seen: set[int] = set()
    for written_name in (*aliases, name):
        for use in references_to(packed, written_name):
            if use.line not in seen:  # `import a as b` has both names
                seen.add(use.line)
                yield use, world.judge.verdict(unit, use)


def _usage(
    world: IndexWorld, unit: Unit, use: Reference, meant: SymbolId | None, definition: Definition | None
) -> Usage:
    text = world.lines(unit.facts.file_id).get(use.line, "")
    return Usage(
        file=unit.facts.path,
        line=use.line,
        preview=text.strip()[:_PREVIEW_CHARS],
        edge=_edge(unit, use, text, definition),
        confidence="resolved" if meant else "syntactic",
        within=use.within,
        definition=str(meant) if meant else "",
    )


def _edge(unit: Unit, use: Reference, text: str, meant: Definition | None) -> str:
    for written in unit.imports:
        if (use.name in written.names or written.alias == use.name) and written.line <= use.line:
            alone = text.strip(" \t,)};") in (use.name, written.alias)
            if (
                use.line == written.line
                or text.lstrip().startswith(_IMPORT_WORDS)
                or (alone and use.line < written.line + 200)
            ):
                return "EXPORTS" if written.reexport else "IMPORTS"
    for definition in unit.definitions:
        if definition.start_line <= use.line <= definition.start_line + 3 and use.name in _last_names(definition.bases):
            own_interface = definition.kind in _INTERFACES
            is_interface = meant is not None and meant.kind in _INTERFACES
            return "IMPLEMENTS" if is_interface and not own_interface else "EXTENDS"
    if use.role == "call":
        return "CALLS"
    return "REFERENCES_TYPE" if meant is not None and meant.kind in TYPE_KINDS else "REFERENCES"


def _last_names(bases: Sequence[str]) -> set[str]:
    return {base.replace("::", ".").replace("\\", ".").rpartition(".")[2] for base in bases}


# --- calls ---------------------------------------------------------------------------------------------------------


def callers(world: IndexWorld, target: Wanted) -> list[CodeEdge]:
    edges: dict[tuple[str, str], CodeEdge] = {}
    for usage in find_uses(world, target).usages:
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


def symbol_info(path: str, definition: Definition) -> SymbolInfo:
    return SymbolInfo(
        id=f"{path}::{definition.qualified}",
        name=definition.name,
        qualified=definition.qualified,
        kind=definition.kind,
        path=path,
        start_line=definition.start_line,
        end_line=definition.end_line,
        signature=definition.signature,
        doc=definition.doc,
        exported=definition.exported,
        bases=definition.bases,
    )
