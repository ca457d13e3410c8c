"""What a name means in Elixir: every module is known by its whole name, which an alias, a nested module or
`__MODULE__` shortens; functions stand behind their module's name, or are the own or imported ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

from codeinfo.graph.scopes import SymbolId, World
from codeinfo.graph.unit import Unit
from codeinfo.model import Import, Reference

_CHAIN = re.compile(r"(?:[A-Z]\w*|__MODULE__)(?:\.[A-Z]\w*)*\.\Z")  # what stands before a name, up to its dot
_DECLARED = re.compile(r"(?:\bdef\w*|@spec|@callback)\s+\Z")
_LONGER = re.compile(r"\.[A-Z]")
_WORD = re.compile(r"\s*(\w+)")
_MODULES = frozenset({"module", "protocol", "impl"})


class ElixirNames:
    def __init__(self, world: World) -> None:
        self._world = world
        self._short: dict[str, Mapping[str, str]] = {}

    def meaning(self, unit: Unit, use: Reference, before: str, after: str) -> tuple[SymbolId, ...] | None:
        """The symbols meant, none where something else is, None where it cannot be told."""
        chain = _CHAIN.search(before)
        if chain is None and before.endswith((".", "@")):
            return None if before.endswith(".") else ()
        parts = chain.group().split(".")[:-1] if chain else []
        if use.name[:1].isupper():
            return () if _LONGER.match(after) else self._module(unit, [*parts, use.name], use)
        if parts:
            return self._function(unit, self._whole(unit, parts, use), use.name)
        return self._own_function(unit, use, before, after)

    def _module(self, unit: Unit, parts: list[str], use: Reference) -> tuple[SymbolId, ...]:
        whole = self._whole(unit, parts, use)
        return tuple(SymbolId(path, whole) for path in self._files(unit, whole))

    def _function(self, source: Unit, module: str, name: str) -> tuple[SymbolId, ...] | None:
        """A module from outside has none of ours; one of ours may have what a macro makes."""
        files = [unit for path in self._files(source, module) if (unit := self._world.unit(path))]
        found = [SymbolId(unit.facts.path, f"{module}.{name}") for unit in files]
        known = tuple(one for one, unit in zip(found, files, strict=True) if one.qualified in unit.by_qualified)
        return known or (None if files else ())

    def _own_function(self, unit: Unit, use: Reference, before: str, after: str) -> tuple[SymbolId, ...] | None:
        if before.endswith(":") or after.startswith(":") or _DECLARED.search(before):
            return ()  # an atom, a key, or the function itself
        if use.role != "call" and not before.endswith("&"):
            return ()  # without brackets it is a variable
        for module in (self._around(unit, use.within), *self._imported(unit)):
            found = self._function(unit, module, use.name) if module else None
            if found:
                return found
        return None

    # --- modules ---

    def _whole(self, unit: Unit, parts: list[str], use: Reference) -> str:
        first, around = parts[0], self._around(unit, use.within)
        if first == "__MODULE__":
            return ".".join([around, *parts[1:]])
        short = self._aliases(unit)
        if first in short:
            return ".".join([short[first], *parts[1:]])
        while around:
            inner = ".".join([around, *parts])
            if inner in unit.by_qualified:
                return inner
            around = around.rpartition(".")[0]
        return ".".join(parts)

    def _around(self, unit: Unit, within: str) -> str:
        while within:
            definition = unit.by_qualified.get(within)
            if definition is not None and definition.kind in _MODULES:
                return within
            within = within.rpartition(".")[0]
        return ""

    def _aliases(self, unit: Unit) -> Mapping[str, str]:
        path = unit.facts.path
        if path not in self._short:
            short = self._short[path] = {}
            for written in self._written(unit, "alias"):
                whole = [f"{written.module}.{name}" for name in written.names] or [written.module]
                short.update({written.alias or one.rpartition(".")[2]: one for one in whole})
        return self._short[path]

    def _imported(self, unit: Unit) -> list[str]:
        return [written.module for written in self._written(unit, "import")]

    def _written(self, unit: Unit, keyword: str) -> list[Import]:
        lines = self._world.lines(unit.facts.file_id)
        found = ((written, _WORD.match(lines.get(written.line, ""))) for written in unit.imports)
        return [written for written, word in found if word and word.group(1) == keyword]

    def _files(self, unit: Unit, module: str) -> list[str]:
        return [target.path for target in self._world.outcome(unit.facts, Import(module, 0)).targets]
