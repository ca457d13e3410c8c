"""A file with its definitions and imports, indexed by name."""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct

from codeinfo.languages.tree import FileFacts
from codeinfo.types import Definition, Import

_PARTS = re.compile(r"[./\\:]+")


class Unit(Struct, frozen=True, dict=True):
    """A file with its definitions and imports, indexed by name."""

    facts: FileFacts
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]

    @cached_property
    def by_qualified(self) -> dict[str, Definition]:
        known: dict[str, Definition] = {}
        for definition in self.definitions:
            if definition.kind not in {"package", "namespace"}:
                known.setdefault(self.without_namespace(definition.qualified), definition)
        return known

    @cached_property
    def by_name(self) -> dict[str, list[Definition]]:
        known: dict[str, list[Definition]] = {}
        for definition in self.definitions:
            known.setdefault(definition.name, []).append(definition)
        return known

    def taking(self, name: str) -> list[Import]:
        """The imports that may bring a name: those that name it, and those of everything."""
        named = self._by_taken.get(name)
        return named if named is not None else self._by_taken.get("*", [])

    @cached_property
    def _by_taken(self) -> dict[str, list[Import]]:
        """Imports by the names they bring, those of everything with each of them, in the order of the file."""
        names = {name for written in self.imports for name in (written.alias, *written.names)}
        everything = [written for written in self.imports if written.names == ("*",)]
        known: dict[str, list[Import]] = {name: [] for name in names} | {"*": everything}
        for written in self.imports:
            for name in names - {"*"} if written.names == ("*",) else {written.alias, *written.names}:
                known[name].append(written)
        return known

    @cached_property
    def by_shown(self) -> dict[str, list[Import]]:
        """Imports by the names that are written in them, also as a part of the module."""
        known: dict[str, list[Import]] = {}
        for written in self.imports:
            module = written.module
            shown = (module, module.rpartition("::")[2], module.replace("\\", "/").rpartition("/")[2])
            for name in {written.alias, *written.names, *shown, *_PARTS.split(module)}:
                known.setdefault(name, []).append(written)
        return known

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        names = {d.qualified + "." for d in self.definitions if d.kind == "namespace"}
        return tuple(sorted(names, key=len, reverse=True))

    def without_namespace(self, qualified: str) -> str:
        for namespace in self.namespaces:
            if qualified.startswith(namespace):
                return qualified[len(namespace) :]
        return qualified

    def offered(self, name: str) -> str:
        """By what qualified name others get a top-level name: a file of Lua gives them the table that it fills."""
        if name in self.by_qualified:
            return name
        found = self.by_name.get(name, ()) if self.facts.language == "lua" else ()
        held = {definition.qualified for definition in found if definition.qualified.count(".") == 1}
        return held.pop() if len(held) == 1 else ""
