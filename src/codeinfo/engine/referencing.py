"""References and calls: candidates by the keyword index, uses by the packed syntax, meanings by scopes and imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from codeinfo.engine.uncollected import uncollected
from codeinfo.engine.world import IndexWorld
from codeinfo.graph.facts import FileFacts
from codeinfo.graph.scopes import TYPE_KINDS, SymbolId, Unit
from codeinfo.graph.tree import family
from codeinfo.graph.usage import Verdict
from codeinfo.index.grammars import GRAMMARS
from codeinfo.index.uses import references_to
from codeinfo.requests.code import SymbolInfo, Usage
from codeinfo.tokens import identifier_terms, identifiers
from codeinfo.types import Definition, Reference

_PREVIEW_CHARS = 160
_IMPORT_WORDS = ("import", "from", "export", "use ", "using ", "require", "pub use", "#include", "const {")
_INTERFACES = frozenset({"interface", "trait", "protocol"})
_NO_USES = frozenset({"package", "namespace", "heading"})  # code is in them or they speak of it; it does not use them


@dataclass(frozen=True, slots=True)
class Wanted:
    """The definitions that a NAME stands for, and whether others share the plain name."""

    name: str
    found: Mapping[SymbolId, Definition]
    others: bool


class Use(NamedTuple):
    """One use of a name in a file, and the definition that it means, as far as that is known."""

    file: FileFacts
    reference: Reference
    meant: SymbolId | None


@dataclass(frozen=True, slots=True)
class Found:
    uses: tuple[Use, ...]  # resolved ones first
    unattributed: int
    left_out: tuple[str, ...]  # files with the name whose syntax is not known
    resolved: int
    file_count: int


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
        if file and unit and definition.kind not in _NO_USES:
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
    """Every use. A name like `get` has thousands, which take a while: what was found is kept for the generation."""
    key = ("uses", target.name, frozenset(target.found))
    if key not in world.answers:
        with uncollected():
            world.keep(key, _find_uses(world, target))
    found: Found = world.answers[key]
    return found


def _find_uses(world: IndexWorld, target: Wanted) -> Found:
    is_local = bool(target.found) and all(_is_local(world, symbol) for symbol in target.found)
    resolved: list[Use] = []
    syntactic: list[Use] = []
    left_out: list[str] = []
    unattributed = 0
    candidates = _candidates(world, target)
    world.read_uses([file.file_id for file in candidates if file.language in GRAMMARS])
    for file in candidates:
        if file.language not in GRAMMARS:
            if file.kind in ("code", "tests") and world.lines(file.file_id).mention(target.name):
                left_out.append(file.path)
            continue
        for reference, verdict in judged(world, file, target.name):
            meant = next((symbol for symbol in verdict.symbols if symbol in target.found), None)
            if meant is not None:
                resolved.append(Use(file, reference, meant))
            elif verdict.possible and not is_local:
                if target.others:
                    unattributed += 1
                else:
                    syntactic.append(Use(file, reference, None))
    uses = (*resolved, *syntactic)
    return Found(uses, unattributed, tuple(left_out), len(resolved), len({use.file.path for use in uses}))


def _candidates(world: IndexWorld, target: Wanted) -> list[FileFacts]:
    """Files that have the name, in a language that can mean it: in another one the same name is another name."""
    families = {_spoken(world.graph.files[symbol.path].language) for symbol in target.found}
    known = [world.by_id[file_id] for file_id in candidate_files(world, target.name) if file_id in world.by_id]
    return [
        file for file in known if file.language not in GRAMMARS or not families or _spoken(file.language) in families
    ]


def usages(world: IndexWorld, target: Wanted, uses: Sequence[Use]) -> tuple[Usage, ...]:
    """Uses with their lines and edges, which only those that are shown need."""
    only = next(iter(target.found.values()), None)
    return tuple(_usage(world, use, target.found[use.meant] if use.meant else only) for use in uses)


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


def judged(world: IndexWorld, file: FileFacts, name: str) -> Iterator[tuple[Reference, Verdict]]:
    """Every use of the name in a file, also under the other names that imports give it."""
    text = world.uses(file.file_id)
    unit = world.unit(file.path) if name in text else None  # most candidates have it in a comment or a string only
    if unit is None:
        return
    aliases = {written.alias for written in unit.taking(name) if written.alias and name in written.names} - {name}
    seen: set[int] = set()
    for written_name in (*aliases, name):
        for use in references_to(text, written_name):
            if use.line not in seen:  # `import a as b` has both names
                seen.add(use.line)
                yield use, world.judge.verdict(unit, use)


def _usage(world: IndexWorld, use: Use, definition: Definition | None) -> Usage:
    unit, reference = world.unit(use.file.path), use.reference
    text = world.lines(use.file.file_id).get(reference.line, "")
    return Usage(
        file=use.file.path,
        line=reference.line,
        preview=text.strip()[:_PREVIEW_CHARS],
        edge=_edge(unit, reference, text, definition) if unit else "REFERENCES",
        confidence="resolved" if use.meant else "syntactic",
        within=reference.within,
        definition=str(use.meant) if use.meant else "",
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
