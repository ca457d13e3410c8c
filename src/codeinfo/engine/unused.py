"""Exported definitions that no other file uses."""

from __future__ import annotations

import re
from collections import Counter

from codeinfo.engine.referencing import symbol_info
from codeinfo.engine.world import IndexWorld
from codeinfo.index.grammars import GRAMMARS
from codeinfo.index.uses import UsedNames
from codeinfo.languages.tree import FileFacts
from codeinfo.operations.code import UnusedReport, UnusedRequest, UnusedSymbol
from codeinfo.types import Definition

_KINDS = frozenset("function class interface struct enum trait protocol type object constant variable macro".split())
_FUNCTIONS_IN_MODULES = frozenset({"elixir"})  # many of which are called by the platform
_GUARD = re.compile(r"_(?:H|HH|HPP|HXX|INC)_*$")  # the name by which a header is read only once
# Called from outside of the code: by an interpreter, a test runner, a package manager.
_CALLED_FROM_OUTSIDE = frozenset({"main", "init", "setup", "teardown", "default", "handler", "module"})


def unused_exports(world: IndexWorld, request: UnusedRequest) -> UnusedReport:
    users: Counter[str] = Counter()  # name → files that use it
    own: dict[int, frozenset[str]] = {}
    for file_id, packed in world.facts.references(list(world.by_id)):
        names = frozenset(UsedNames(packed))
        own[file_id] = names
        users.update(names)
    found: list[UnusedSymbol] = []
    examined = 0
    for file_id, definition in world.facts.outlines():
        file = world.by_id.get(file_id)
        if file is None or file.kind != "code" or not _counts(definition, file):
            continue
        examined += 1
        used_here = definition.name in own.get(file_id, ())
        if users[definition.name] == used_here and not _is_used_otherwise(world, file_id, definition, users):
            found.append(UnusedSymbol(symbol_info(file.path, definition), used_here))
    found.sort(key=lambda one: (one.used_here, one.symbol.path, one.symbol.start_line))
    unparsed = sum(f.kind in ("code", "tests") and f.language not in GRAMMARS for f in world.by_id.values())
    note = f"{unparsed} files have no syntax tree; what only they use is listed here too"
    return UnusedReport(
        total=len(found),
        symbols=tuple(found[: request.limit]),
        examined=examined,
        is_complete=len(found) <= request.limit and not unparsed,
        notes=(note,) if unparsed else (),
    )


def _counts(definition: Definition, file: FileFacts) -> bool:
    around = definition.qualified.removesuffix(definition.name).rstrip(".")
    return (
        definition.exported
        and definition.kind in _KINDS
        and (not around or (around in file.packages and file.language not in _FUNCTIONS_IN_MODULES))
        and len(definition.name) > 1  # names of one letter are not kept as references
        and not definition.name.startswith(("__", "operator"))  # who uses an operator writes no name
        and not (definition.kind == "macro" and _GUARD.search(definition.name))
        and definition.name not in _CALLED_FROM_OUTSIDE
    )


def _is_used_otherwise(world: IndexWorld, file_id: int, definition: Definition, users: Counter[str]) -> bool:
    if _is_registered(world, file_id, definition):
        return True
    if world.by_id[file_id].language != "csharp" or definition.kind != "class":
        return False
    short = definition.name.removesuffix("Attribute")  # an attribute is written without the word
    return (short != definition.name and users[short] > 0) or _extends_others(world, file_id, definition)


def _extends_others(world: IndexWorld, file_id: int, definition: Definition) -> bool:
    """Whether a class of C# has extension methods, which are called as if they were another's."""
    unit = world.unit(world.by_id[file_id].path)
    inside = f"{definition.qualified}."
    return unit is not None and any(
        one.qualified.startswith(inside) and "(this " in one.signature for one in unit.definitions
    )


def _is_registered(world: IndexWorld, file_id: int, definition: Definition) -> bool:
    """A decorator or an attribute hands the definition to somebody else."""
    above = world.lines(file_id).get(definition.start_line - 1, "").strip()
    return above.startswith(("@", "#[")) or (above.startswith("[") and above.endswith("]"))
