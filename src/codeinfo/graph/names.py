"""Which definition one use of a name means, as far as its receiver, the scopes around it and the imports tell.

A receiver is followed through modules, classes, `self`, and values whose type is written, assigned or returned. What
cannot be followed is neither claimed nor denied: it stays a syntactic match.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import Unit
from codeinfo.graph.receivers import Many, Meaning, Receivers
from codeinfo.graph.scip import Compiler, defined_name
from codeinfo.graph.scopes import Binder, Foreign, ModuleId, ModuleNames, SymbolId
from codeinfo.languages.model import NameRules
from codeinfo.model import Definition, Reference

_ALSO_IN_WORDS = ("_", "$")
_LITERAL = '""'
_MOST_MEANT = 3  # definitions: a value of more types than that has no certain one


class Resolution(Struct, frozen=True):
    """`symbols`: what is meant. None and `possible`: unknown. None and not `possible`: something else is meant."""

    symbols: tuple[SymbolId, ...] = ()
    possible: bool = False
    proof: str = "resolved"


_OTHER = Resolution()
_UNKNOWN = Resolution(possible=True)
_MOST_CACHED = 400_000  # rows; beyond that everything is forgotten before the next question


class NameResolver:
    def __init__(self, index: CodeIndex) -> None:
        self.index = index
        self._binder = Binder(index)
        self._foreign = Foreign(index)
        self._modules = ModuleNames(index)
        self._receivers = Receivers(self._binder)
        self._bare: dict[tuple[str, str, str], Resolution] = {}
        self._received: dict[tuple[str, str, str, str, int], Resolution] = {}

    @property
    def is_full(self) -> bool:
        """Whether so much is cached that another resolver should take over."""
        return len(self._bare) + len(self._received) + self._receivers.remembered > _MOST_CACHED

    def definition(self, symbol: SymbolId) -> Definition | None:
        return self._binder.definition(symbol)

    def bases(self, symbol: SymbolId) -> list[SymbolId]:
        return self._binder.bases(symbol)

    def resolve(self, unit: Unit, use: Reference) -> Resolution:
        compiler = self.index.compiler
        if compiler is not None and compiler.covers(unit.facts.path):
            proven = self._by_compiler(compiler, unit, use)
            if proven is not None:
                return proven
        if unit.facts.rules.names.whole_modules:
            return self._in_module(unit, use)
        if use.receiver:
            return self._with_receiver(unit, use)
        if self._binder.local_rows(unit, use.name, use):
            return _OTHER
        if use.name in unit.renamed and (found := self._binder.renamed(unit, use.name, use.line)):
            return Resolution(tuple(one for one in found if isinstance(one, SymbolId)))
        key = (unit.facts.path, use.name, use.within)
        known = self._bare.get(key)
        if known is None:
            known = self._bare[key] = self._without_receiver(unit, use)
        return known

    def _by_compiler(self, compiler: Compiler, unit: Unit, use: Reference) -> Resolution | None:
        """What the project's own compiler says; None where it does not know, or where its target has changed since."""
        text = self.index.lines(unit.facts.file_id).get(use.line, "")
        found: list[SymbolId] = []
        symbols = compiler.symbols_at(unit.facts.path, use.line, use.name, text)
        for symbol in symbols:
            name, is_constructor = defined_name(symbol)
            defining = self.index.defining(name)
            if not all(compiler.covers(path) for path in defining):
                return None
            for other in filter(None, map(self.index.unit, defining)):
                found += [
                    SymbolId(other.facts.path, other.without_namespace(one.qualified))
                    for one in other.by_name.get(name, ())
                    if self._is_meant(compiler, other, one, symbol, is_constructor)
                ]
        return Resolution(tuple(dict.fromkeys(found)), proof="compiler") if symbols else None

    @staticmethod
    def _is_meant(compiler: Compiler, unit: Unit, one: Definition, symbol: str, is_constructor: bool) -> bool:
        path = unit.facts.path
        if not is_constructor:
            return compiler.defines(path, one.start_line, symbol)
        inside = [d for d in unit.definitions if d.qualified.rpartition(".")[0] == one.qualified]
        return any(compiler.defines(path, line, symbol) for line in (one.start_line, *(d.start_line for d in inside)))

    def _in_module(self, unit: Unit, use: Reference) -> Resolution:
        """The first occurrence on the line that can be followed decides."""
        text = self.index.lines(unit.facts.file_id).get(use.line, "")
        best = _OTHER
        for start, end in _words(text, use.name):
            meant = self._modules.meaning(unit, use, text[:start], text[end:])
            if meant:
                return Resolution(meant)
            if meant is None or self._foreign.only(use.name):
                best = _UNKNOWN
        return best

    def _without_receiver(self, unit: Unit, use: Reference) -> Resolution:
        found = self._binder.bare(unit, use.name, use.within)
        symbols = tuple(one for one in found if isinstance(one, SymbolId))
        if len(symbols) > _MOST_MEANT:
            return _UNKNOWN
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

    def _with_receiver(self, unit: Unit, use: Reference) -> Resolution:
        """The same receiver in the same function means the same until its first name is bound again."""
        if use.receiver.startswith(_LITERAL):
            return _OTHER
        first = use.receiver.partition(".")[0].partition("(")[0].partition("[")[0].partition("{")[0]
        rows = self._binder.local_rows(unit, first, use, before=True)
        bound_at = max((row.line for row in rows if row.line <= use.line), default=0)
        key = (unit.facts.path, use.name, use.within, use.receiver, bound_at)
        known = self._received.get(key)
        if known is None:
            owners = self._receivers.evaluate(unit, use.receiver, use)
            if use.receiver.endswith("{}"):  # a key that a constructor takes is its parameter
                types = [one for one in owners if isinstance(one, SymbolId)]
                owners = [one for one in types if not self._binder.member(one, "__init__")]
            # Who asks for a name from outside wants its uses.
            is_foreign = not self._foreign.only(use.name) and self._foreign.has(unit, first)
            is_ours = owners or rows or not is_foreign
            known = self._received_by(owners, use.name) if is_ours else _OTHER
            if use.receiver.endswith("{}") and not known.symbols:
                known = _OTHER  # the name of an argument
            self._received[key] = known
        return known

    def _received_by(self, owners: Meaning, name: str) -> Resolution:
        known_owners = [one for one in owners if not isinstance(one, Many)]
        if not known_owners:
            return _OTHER if owners else _UNKNOWN
        found = [one for owner in known_owners for one in self._binder.attribute(owner, name)]
        symbols = tuple(dict.fromkeys(one for one in found if isinstance(one, SymbolId)))
        if symbols:
            return Resolution(symbols) if len(symbols) <= _MOST_MEANT else _UNKNOWN
        # A module has what its file shows; a table may take the rest from another one.
        known = any(
            not self._rules(owner.paths[0]).tables if isinstance(owner, ModuleId) else self._closed(owner)
            for owner in known_owners
        )
        return _OTHER if known else _UNKNOWN

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
