"""One use of a name, judged: which definition it means, as far as the text around it and the imports tell.

A receiver is followed through modules, classes, `self`, and variables whose type is written or plainly assigned in the
same function or class. What cannot be followed is neither claimed nor denied: it stays a syntactic match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from codeinfo.graph.locals import Locals, typing, written_type
from codeinfo.graph.scopes import EXPLICIT, IMPLICIT_SELF, TYPE_KINDS, Binder, ModuleId, SymbolId, Unit
from codeinfo.types import Definition, Reference

_RECEIVER = re.compile(r"((?:[\w$]+(?:\([^()]*\)|\[[^\[\]]*\])?[?!]?(?:\.|::|->|\\))+)\s*$")
_OPEN_RECEIVER = re.compile(r"[\w)\]}\"'?!](?:\.|::|->|\?\.)\s*$|^\s*(?:\.|\?\.|->|::)\s*$")
_LINK = re.compile(r"([\w$]+)(\([^()]*\)|\[[^\[\]]*\])?[?!]?(?:\.|::|->|\\)")
_SELF = frozenset({"self", "this", "cls", "Self", "static", "super", "super()"})
_RETURNS = re.compile(r"(?:->|\)\s*:)\s*['\"]?([A-Za-z_][\w.]*)")
_MAKES = re.compile(r"=\s*(?:await\s+|new\s+|&)?([A-Za-z_][\w.]*(?:::new)?)\s*[({]")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`symbols`: what is meant. None of them and `possible`: cannot be told. Neither: something else is meant."""

    symbols: tuple[SymbolId, ...] = ()
    possible: bool = False


_ELSE = Verdict()
_UNKNOWN = Verdict(possible=True)


class Judge:
    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self._locals = Locals()

    def definition(self, symbol: SymbolId) -> Definition | None:
        return self._binder.definition(symbol)

    def bases(self, symbol: SymbolId) -> list[SymbolId]:
        return self._binder.bases(symbol)

    def verdict(self, unit: Unit, use: Reference, lines: Mapping[int, str]) -> Verdict:
        """The first occurrence on the line that can be followed decides."""
        text = lines.get(use.line, "")
        best = _UNKNOWN if not text else _ELSE
        for match in _word(use.name).finditer(text):
            verdict = self._occurrence(unit, use, text[: match.start()], text[match.end() :], lines)
            if verdict.symbols:
                return verdict
            if verdict.possible:
                best = verdict
        return best

    def _occurrence(self, unit: Unit, use: Reference, before: str, after: str, lines: Mapping[int, str]) -> Verdict:
        chain = _RECEIVER.search(before)
        if chain:
            return self._with_receiver(unit, use, chain.group(1), lines)
        if _OPEN_RECEIVER.search(before):
            return _UNKNOWN
        if self._locals.hides(unit, use, before, after, lines):
            return _ELSE
        found = self._binder.bare(unit, use.name, use.within)
        symbols = tuple(one for one in found if isinstance(one, SymbolId))
        if symbols:
            return Verdict(symbols)
        if found or (unit.facts.language in EXPLICIT and unit.facts.language not in IMPLICIT_SELF):
            return _ELSE
        return _UNKNOWN

    def _with_receiver(self, unit: Unit, use: Reference, chain: str, lines: Mapping[int, str]) -> Verdict:
        owners = self._evaluate(unit, _LINK.findall(chain), use, lines)
        if owners is None:
            return _UNKNOWN
        found = [one for owner in owners for one in self._binder.attribute(owner, use.name)]
        symbols = tuple(one for one in found if isinstance(one, SymbolId))
        if symbols:
            return Verdict(symbols)
        known = any(isinstance(owner, ModuleId) or self._closed(owner) for owner in owners)
        return _ELSE if known else _UNKNOWN

    def _closed(self, owner: SymbolId) -> bool:
        """Whether all members of a type are known: each of its bases was found."""
        definition = self._binder.definition(owner)
        if definition is None:
            return False
        found = self._binder.bases(owner)
        return len(found) >= len(definition.bases) and all(self._closed(base) for base in found[:4] if base != owner)

    # --- receivers ---

    def _evaluate(
        self, unit: Unit, links: list[tuple[str, str]], use: Reference, lines: Mapping[int, str]
    ) -> list[SymbolId | ModuleId] | None:
        """The modules or types that a receiver stands for, or None when it cannot be followed."""
        (first, call), *rest = links
        dotted = ".".join(name for name, _ in links)
        if bound := self._binder.bindings(unit).get(dotted):
            return bound
        if first in _SELF:
            current: list[SymbolId | ModuleId] = list(self._own_type(unit, use.within, first))
        else:
            current = self._variable(unit, first, call, use, lines)
        for name, call in rest:
            current = [value for owner in current for value in self._field(owner, name, call, unit, lines)]
        return current or None

    def _own_type(self, unit: Unit, within: str, word: str) -> list[SymbolId]:
        scope = unit.without_namespace(within)
        while scope:
            definition = unit.by_qualified.get(scope)
            if definition is None or definition.kind in TYPE_KINDS:
                owner = SymbolId(unit.facts.path, scope)
                if definition is not None:
                    return self._binder.bases(owner) if word.startswith("super") else [owner]
            scope = scope.rpartition(".")[0]
        return []

    def _variable(
        self, unit: Unit, name: str, call: str, use: Reference, lines: Mapping[int, str]
    ) -> list[SymbolId | ModuleId]:
        """What a name stands for before a dot: the type of a local variable first, since it hides the rest."""
        if not call and (written := self._locals.type_of(unit, name, use, lines)):
            return self._types(unit, written, use.within)
        return self._values(self._binder.bare(unit, name, use.within), call)

    def _types(self, unit: Unit, written: str, within: str) -> list[SymbolId | ModuleId]:
        """A written type, or the result of the function that is called."""
        return self._values(self._binder.dotted(unit, written.removesuffix("::new"), within), "()")

    def _values(self, meaning: list[SymbolId | ModuleId], call: str) -> list[SymbolId | ModuleId]:
        """From what a name means to what it holds: a variable its type, a call what it returns."""
        values: list[SymbolId | ModuleId] = []
        for one in meaning:
            definition = self._binder.definition(one) if isinstance(one, SymbolId) else None
            if not isinstance(one, SymbolId) or definition is None or definition.kind in TYPE_KINDS:
                values.append(one)
            else:
                values += self._held(one, definition, call)
        return values

    def _held(self, symbol: SymbolId, definition: Definition, call: str) -> list[SymbolId | ModuleId]:
        unit = self._binder.unit(symbol.path)
        is_callable = definition.kind in {"function", "method"}
        if unit is None or (is_callable and not call and definition.kind == "function"):
            return []
        match = (_RETURNS if is_callable else _MAKES).search(definition.signature)
        annotated = re.search(r":\s*['\"]?([A-Za-z_][\w.]*)", definition.signature) if not is_callable else None
        written = (annotated or match).group(1) if (annotated or match) else ""  # type: ignore[union-attr]
        if written in ("Self", "self"):
            return [SymbolId(symbol.path, symbol.qualified.rpartition(".")[0])]
        found = self._binder.dotted(unit, written.removesuffix("::new"), "") if written else []
        return [one for one in found if not isinstance(one, SymbolId) or self._is_type(one)]

    def _is_type(self, symbol: SymbolId) -> bool:
        definition = self._binder.definition(symbol)
        return definition is not None and definition.kind in TYPE_KINDS

    def _field(
        self, owner: SymbolId | ModuleId, name: str, call: str, unit: Unit, lines: Mapping[int, str]
    ) -> list[SymbolId | ModuleId]:
        found = self._values(self._binder.attribute(owner, name), call)
        if found or isinstance(owner, ModuleId) or owner.path != unit.facts.path:
            return found
        definition = self._binder.definition(owner)
        if definition is None:
            return []
        pattern = typing(rf"(?:self|this)\.{re.escape(name)}", unit.facts.language)
        for number in range(definition.start_line, definition.end_line + 1):
            if match := pattern.search(lines.get(number, "")):
                return self._types(unit, written_type(match), owner.qualified)
        return []


@lru_cache(maxsize=256)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
