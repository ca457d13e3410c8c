"""Which definition one use of a name means, as far as the text around it and the imports tell.

A receiver is followed through modules, classes, `self`, and variables whose type is written or plainly assigned in the
same function or class. What cannot be followed is neither claimed nor denied: it stays a syntactic match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import Unit
from codeinfo.graph.receivers import Locals, Meaning, Receivers, links_of
from codeinfo.graph.scopes import Binder, Foreign, ModuleId, ModuleNames, SymbolId
from codeinfo.languages.model import NameRules
from codeinfo.model import Definition, Reference
from codeinfo.ports import FileLines

# What stands before a name, read backwards from it: searching for an end takes a try at every character of the line.
_RECEIVER = re.compile(r"\s*((?:(?:\.|::|>-|\\)[?!]?(?:\)[^()]*\(|\][^\[\]]*\[)?[\w$]+)+)")
_ALSO_IN_WORDS = ("_", "$")
_RECEIVER_ENDS = (".", ":", ">", "\\")
_OPEN_RECEIVER = re.compile(r"\s*(?:(?:\.|::|>-)[\w)\]}\"'?!]|(?:\.\??|>-|::)\s*\Z)")


class Resolution(Struct, frozen=True):
    """`symbols`: what is meant. None and `possible`: unknown. None and not `possible`: something else is meant."""

    symbols: tuple[SymbolId, ...] = ()
    possible: bool = False


_OTHER = Resolution()
_UNKNOWN = Resolution(possible=True)
_MOST_CACHED = 400_000  # rows; beyond that everything is forgotten before the next question


class NameResolver:
    def __init__(self, index: CodeIndex) -> None:
        self.index = index
        self._binder = Binder(index)
        self._foreign = Foreign(index)
        self._modules = ModuleNames(index)
        self._locals = Locals()
        self._receivers = Receivers(self._binder, self._locals)
        self._bare: dict[tuple[str, str, str], Resolution] = {}
        self._received: dict[tuple[str, str, str, str, int], Resolution] = {}

    @property
    def is_full(self) -> bool:
        """Whether so much is cached that another resolver should take over."""
        return len(self._bare) + len(self._received) + self._locals.remembered > _MOST_CACHED

    def definition(self, symbol: SymbolId) -> Definition | None:
        return self._binder.definition(symbol)

    def bases(self, symbol: SymbolId) -> list[SymbolId]:
        return self._binder.bases(symbol)

    def resolve(self, unit: Unit, use: Reference) -> Resolution:
        """The first occurrence on the line that can be followed decides."""
        lines = self._binder.lines(unit)
        text = lines.get(use.line, "")
        best = _UNKNOWN if not text else _OTHER
        for start, end in _words(text, use.name):
            found = self._occurrence(unit, use, text[:start], text[end:], lines)
            if found.symbols:
                return found
            if found.possible:
                best = found
        return best

    def _occurrence(self, unit: Unit, use: Reference, before: str, after: str, lines: FileLines) -> Resolution:
        if unit.facts.rules.names.whole_modules:
            meant = self._modules.meaning(unit, use, before, after)
            return _UNKNOWN if meant is None or (not meant and self._foreign.only(use.name)) else Resolution(meant)
        if before.rstrip()[-1:] in _RECEIVER_ENDS:  # spares most names two expressions
            backwards = before[::-1]
            chain = _RECEIVER.match(backwards)
            if chain:
                return self._with_receiver(unit, use, chain.group(1)[::-1], lines)
            if _OPEN_RECEIVER.match(backwards):
                return _UNKNOWN
        if self._locals.hides(unit, use, before, after, lines):
            return _OTHER
        key = (unit.facts.path, use.name, use.within)
        known = self._bare.get(key)
        if known is None:
            known = self._bare[key] = self._without_receiver(unit, use)
        return known

    def _without_receiver(self, unit: Unit, use: Reference) -> Resolution:
        found = self._binder.bare(unit, use.name, use.within)
        symbols = tuple(one for one in found if isinstance(one, SymbolId))
        if symbols or (symbols := self._linked(unit, use)):
            return Resolution(symbols)
        rules = unit.facts.rules.names
        explained = rules.explicit and not rules.implicit_self
        return _OTHER if found or (explained and not self._foreign.only(use.name)) else _UNKNOWN

    def _linked(self, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
        """A function of C has one name in the whole program: where one file defines it, a call means that."""
        if not unit.facts.rules.names.linked or use.role != "call":
            return ()
        files = [one for path in self.index.defining(use.name) if (one := self.index.unit(path))]
        found = [
            (file.facts.path, definition)
            for file in files
            for definition in file.by_name.get(use.name, ())
            if definition.kind != "prototype"
        ]
        if len(found) != 1 or found[0][1].kind != "function" or not found[0][1].exported:
            return ()
        return (SymbolId(found[0][0], use.name),)

    def _with_receiver(self, unit: Unit, use: Reference, chain: str, lines: FileLines) -> Resolution:
        """The same receiver in the same function means the same until its first name is given another type."""
        links = links_of(chain)
        typed_at = self._locals.type_of(unit, links[0][0], use, lines)[1]
        key = (unit.facts.path, use.name, use.within, chain, typed_at)
        known = self._received.get(key)
        if known is None:
            owners = self._receivers.evaluate(unit, links, use)
            is_ours = owners or typed_at or not self._is_foreign(unit, links[0][0], use, lines)
            known = self._received[key] = self._received_by(owners, use.name) if is_ours else _OTHER
        return known

    def _is_foreign(self, unit: Unit, first: str, use: Reference, lines: FileLines) -> bool:
        """Whether the receiver lies outside. Who asks for a name from there wants its uses."""
        if self._foreign.only(use.name) or not self._foreign.has(unit, first):
            return False
        return not self._locals.hides(unit, Reference(first, use.line, "use", use.within), "", ".", lines)

    def _received_by(self, owners: Meaning, name: str) -> Resolution:
        if not owners:
            return _UNKNOWN
        found = [one for owner in owners for one in self._binder.attribute(owner, name)]
        symbols = tuple(one for one in found if isinstance(one, SymbolId))
        if symbols:
            return Resolution(symbols)
        known = any(self._is_whole(owner) if isinstance(owner, ModuleId) else self._closed(owner) for owner in owners)
        return _OTHER if known else _UNKNOWN

    def _is_whole(self, module: ModuleId) -> bool:
        """Whether a module has what its file shows; a table may take the rest from another one."""
        return not self._rules(module.paths[0]).tables

    def _rules(self, path: str) -> NameRules:
        unit = self.index.unit(path)
        return unit.facts.rules.names if unit else NameRules()

    def _closed(self, owner: SymbolId) -> bool:
        """Whether all members of a type are known: each of its bases was found."""
        definition = self._binder.definition(owner)
        if definition is None or (definition.kind == "trait" and self._rules(owner.path).open_traits):
            return False
        found = self._binder.bases(owner)
        return len(found) >= len(definition.bases) and all(self._closed(base) for base in found[:4] if base != owner)


def _words(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a name stands as a whole word; found without an expression, which would have to be compiled for each."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before in _ALSO_IN_WORDS) and not (after.isalnum() or after in _ALSO_IN_WORDS):
            yield start, end
        start = text.find(name, start + 1)
