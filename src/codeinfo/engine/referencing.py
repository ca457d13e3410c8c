"""References and calls: candidates by the keyword index, uses by the packed syntax, meanings by scopes and imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from codeinfo.engine.judging import UNKNOWN, Column, judged_uses, spoken, uses_by_line
from codeinfo.engine.world import IndexWorld
from codeinfo.errors import UsageError
from codeinfo.graph.scopes import TYPE_KINDS, SymbolId
from codeinfo.graph.unit import Unit
from codeinfo.index.grammars import GRAMMARS
from codeinfo.languages.tree import FileFacts
from codeinfo.operations.code import SymbolInfo, Usage
from codeinfo.tokens import identifier_terms, identifiers
from codeinfo.types import Definition, Reference

MOST_CHECKED = 200  # files whose checksums one question computes, besides those it shows: some 20 ms
_PREVIEW_CHARS = 160
_IMPORT_WORDS = ("import", "from", "export", "use ", "using ", "require", "pub use", "#include", "const {")
_INTERFACES = frozenset({"interface", "trait", "protocol"})
_NO_USES = frozenset({"package", "namespace", "heading"})  # code is in them or they speak of it; it does not use them


class Wanted(Struct, frozen=True):
    """The definitions that a NAME stands for, and whether others share the plain name."""

    name: str
    found: Mapping[SymbolId, Definition]
    others: bool


class Use(NamedTuple):
    """One use of a name in a file, and the definition that it means, as far as that is known."""

    file: FileFacts
    reference: Reference
    meant: SymbolId | None


class Found(Struct, frozen=True):
    """Every use, resolved ones first, as columns: only those that are shown are looked at more closely."""

    name: str
    files: Column
    lines: Column
    meant: tuple[SymbolId | None, ...]  # of the resolved ones
    unattributed: int
    left_out: tuple[str, ...]  # files with the name whose syntax is not known
    file_count: int

    def __len__(self) -> int:
        return len(self.files)

    @property
    def resolved(self) -> int:
        return len(self.meant)

    def uses(self, world: IndexWorld, most: int | None = None) -> list[Use]:
        """The first ones as they are written."""
        written: dict[int, dict[int, Reference]] = {}
        found = []
        for at, (file_id, line) in enumerate(zip(self.files[:most].tolist(), self.lines[:most].tolist(), strict=True)):
            file = world.by_id[file_id]
            if file_id not in written:
                written[file_id] = uses_by_line(world, file, self.name)
            found.append(Use(file, written[file_id][line], self.meant[at] if at < self.resolved else None))
        return found


def wanted(world: IndexWorld, asked: str) -> Wanted:
    """`Name`, `Class.method`, `path::Name` and, as calls are quoted, `name()`, read as what is defined."""
    written = asked.strip()
    if not written.endswith("operator()"):  # a name of its own in C++
        written = written.removesuffix("()")
    path, _, qualified = (
        written.rpartition("::") if "::" in written and "/" in written.rpartition("::")[0] else ("", "", written)
    )
    if not path and "::" in written:
        head, _, rest = written.partition("::")
        path, qualified = (head, rest) if head in world.graph.files else ("", written.replace("::", "."))
    name = qualified.rpartition(".")[2]
    if not name:
        raise UsageError(f"{asked!r} has no name at its end", next_step="Write `name`, `Class.method` or `path::name`")
    every: dict[SymbolId, Definition] = {}
    for file_id, definition in world.facts.definitions_named(name):
        file = world.by_id.get(file_id)
        if file and definition.kind not in _NO_USES:
            every.setdefault(_symbol(world, file, definition.qualified), definition)
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


def check_definitions(world: IndexWorld, target: Wanted) -> None:
    """Raises IndexDamaged where definitions of a name are not as they were stored. A damaged row may be missing from
    what was found, so all files are checked that have the name in their text, as long as these are few."""
    named = [world.graph.files[symbol.path].file_id for symbol in target.found]
    world.facts.check_symbols(dict.fromkeys([*named, *_candidate_ids(world, target.name)[:MOST_CHECKED]]))


def _symbol(world: IndexWorld, file: FileFacts, qualified: str) -> SymbolId:
    """Hundreds of files may define a name: one is read only where a namespace may have to be taken off."""
    inside = any(qualified.startswith(f"{package}.") for package in file.packages)
    unit = world.unit(file.path) if inside else None
    return SymbolId(file.path, unit.without_namespace(qualified) if unit else qualified)


def find_uses(world: IndexWorld, target: Wanted) -> Found:
    """Every use. A name like `get` has thousands, which take a while: what was found is kept for the generation."""
    key = ("uses", target.name, frozenset(target.found))
    found: Found | None = world.answers.get(key)
    return found if found is not None else world.answers.add(key, _find_uses(world, target))


def _find_uses(world: IndexWorld, target: Wanted) -> Found:
    candidates = _candidates(world, target)
    judged = judged_uses(world, target.name, [file for file in candidates if file.language in GRAMMARS])
    chosen = [next((one for one in meaning if one in target.found), None) for meaning in judged.symbols]
    is_meant = np.array([*(one is not None for one in chosen), False], bool)[judged.meanings]  # UNKNOWN is the last
    is_local = bool(target.found) and all(_is_local(world, symbol) for symbol in target.found)
    possible = np.flatnonzero((judged.meanings == UNKNOWN) & (not is_local))
    resolved = np.flatnonzero(is_meant)
    shown = np.concatenate((resolved, possible[:0] if target.others else possible))
    files = judged.files[shown]
    return Found(
        name=target.name,
        files=files,
        lines=judged.lines[shown],
        meant=tuple(chosen[position] for position in judged.meanings[resolved].tolist()),
        unattributed=len(possible) if target.others else 0,
        left_out=tuple(file.path for file in candidates if _cannot_be_read(world, file, target.name)),
        file_count=len(np.unique(files)),
    )


def _cannot_be_read(world: IndexWorld, file: FileFacts, name: str) -> bool:
    """Code that has the name, in a language whose syntax is not known."""
    is_unknown = file.language not in GRAMMARS and file.kind in ("code", "tests")
    return is_unknown and world.lines(file.file_id).mention(name)


def _candidates(world: IndexWorld, target: Wanted) -> list[FileFacts]:
    """Files that have the name, in a language that can mean it: in another one the same name is another name."""
    families = {spoken(world.graph.files[symbol.path].language) for symbol in target.found}
    known = [world.by_id[file_id] for file_id in _candidate_ids(world, target.name) if file_id in world.by_id]
    return [
        file for file in known if file.language not in GRAMMARS or not families or spoken(file.language) in families
    ]


def _candidate_ids(world: IndexWorld, name: str) -> list[int]:
    """Files that may use a name: those that have its index term."""
    terms = [identifier_terms(part)[-1] for part in identifiers(name) if identifier_terms(part)]
    if not terms:  # a name the keyword index does not keep: too long, or made of signs
        return list(world.by_id)
    return world.facts.files_with(terms)


def usages(world: IndexWorld, target: Wanted, uses: Sequence[Use]) -> tuple[Usage, ...]:
    """Uses with their lines and edges, which only those that are shown need."""
    only = next(iter(target.found.values()), None)
    return tuple(_usage(world, use, target.found[use.meant] if use.meant else only) for use in uses)


def _is_local(world: IndexWorld, symbol: SymbolId) -> bool:
    """Defined inside of a function: nothing outside of it can mean it."""
    owner = world.judge.definition(SymbolId(symbol.path, symbol.qualified.rpartition(".")[0]))
    return owner is not None and owner.kind in ("function", "method")


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
        whole = not written.names and use.line == written.line and use.name in _last_names((written.module,))
        if (whole or use.name in written.names or written.alias == use.name) and written.line <= use.line:
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
