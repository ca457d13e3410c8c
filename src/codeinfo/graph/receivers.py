"""What stands before a dot: a module, a type, or a variable whose type is written or plainly assigned."""

from __future__ import annotations

import re

from codeinfo.graph.locals import Locals
from codeinfo.graph.scopes import TYPE_KINDS, Binder, ModuleId, SymbolId
from codeinfo.graph.typed import copied_name, field_type
from codeinfo.graph.unit import Unit
from codeinfo.model import Definition, Reference

Meaning = list[SymbolId | ModuleId]
Links = list[tuple[str, str]]  # (name, what it is called or indexed with)

_LINK = re.compile(r"([\w$]+)(\([^()]*\)|\[[^\[\]]*\])?[?!]?(?:\.|::|->|\\)")
_SELF = frozenset({"self", "this", "$this", "cls", "Self", "static", "super", "super()"})
_BASE = frozenset({("php", "parent"), ("csharp", "base")})  # words for what is inherited; variables elsewhere
_WRAPPER = r"(?:(?:\w+\.)*(?:Optional|Awaitable|Type|type)\[)*"
_RETURNS = re.compile(rf"(?:->|\)\s*:)\s*['\"]?{_WRAPPER}['\"]?([A-Za-z_][\w.]*)")
_CALLABLE = re.compile(rf"Callable\[.*,\s*['\"]?{_WRAPPER}['\"]?([\w.]+)")
_ANNOTATED = re.compile(rf":\s*['\"]?{_WRAPPER}['\"]?([A-Za-z_][\w.]*)")
_MAKES = re.compile(r"=\s*(?:await\s+|new\s+|&)?([A-Za-z_][\w.]*(?:::new)?)\s*[({]")
_DECORATOR = re.compile(r"\s*@([\w.]+)(\()?")
_CALL = "()"
_MAX_STEPS = 5  # a variable assigned from a variable assigned from…
_DECORATOR_LINES = 15


def links_of(chain: str) -> Links:
    return _LINK.findall(chain)


class Receivers:
    def __init__(self, binder: Binder, known_locals: Locals) -> None:
        self._binder = binder
        self._locals = known_locals
        self._fields: dict[tuple[SymbolId, str], Meaning] = {}
        self._made: dict[SymbolId, Meaning] = {}

    def evaluate(self, unit: Unit, links: Links, use: Reference, steps: int = 0) -> Meaning:
        """The modules or types that a receiver stands for; nothing when it cannot be followed."""
        (first, call), *rest = links
        if bound := self._binder.bound(unit, ".".join([name for name, _ in links])):
            return bound
        inherited = first in ("super", "super()") or (unit.facts.language, first) in _BASE
        if inherited or first in _SELF:
            current: Meaning = list(self._own_type(unit, use.within, inherited=inherited))
        else:
            current = self._variable(unit, first, call, use, steps)
        for name, called in rest:
            current = [value for owner in current for value in self._attribute(owner, name, called)]
        return current

    def _own_type(self, unit: Unit, within: str, *, inherited: bool) -> list[SymbolId]:
        scope = unit.without_namespace(within)
        while scope:
            definition = unit.by_qualified.get(scope)
            if definition is not None and definition.kind in TYPE_KINDS:
                owner = SymbolId(unit.facts.path, scope)
                return self._binder.bases(owner) if inherited else [owner]
            scope = scope.rpartition(".")[0]
        return []

    def _variable(self, unit: Unit, name: str, call: str, use: Reference, steps: int) -> Meaning:
        """The type of a local variable first, since it hides the rest."""
        written, line = self._locals.type_of(unit, name, use, self._binder.lines(unit))
        if written and steps < _MAX_STEPS:
            held = self._expression(unit, written, Reference(name, line - 1, "use", use.within), steps)
            if not call.startswith("("):
                return held
            return self._called(held) or (held if self._is_callable_alias(unit, written) else [])
        return self._values(self._binder.bare(unit, name, use.within), call)

    def _expression(self, unit: Unit, written: str, use: Reference, steps: int) -> Meaning:
        """A written type, or what a call of that name returns."""
        *before, last = written.removesuffix("::new").replace("::", ".").strip(".").split(".")
        return self.evaluate(unit, [*((part, "") for part in before), (last, _CALL)], use, steps + 1)

    def _is_callable_alias(self, unit: Unit, written: str) -> bool:
        """`Maker = Callable[…, Thing]`: a variable of that type makes a thing when it is called."""
        found = self._binder.dotted(unit, written, "")
        definitions = [self._binder.definition(one) for one in found if isinstance(one, SymbolId)]
        return any(one is not None and _CALLABLE.search(one.signature) for one in definitions)

    def _called(self, instances: Meaning) -> Meaning:
        """What calling an object returns."""
        members = [one for owner in instances for one in self._binder.attribute(owner, "__call__")]
        return self._values(members, _CALL)

    def _values(self, meaning: Meaning, call: str) -> Meaning:
        """From what a name means to what it holds: a variable its type, a call what it returns."""
        values: Meaning = []
        for one in meaning:
            definition = self._binder.definition(one) if isinstance(one, SymbolId) else None
            if not isinstance(one, SymbolId) or definition is None or definition.kind in TYPE_KINDS:
                values.append(one)
            else:
                values += self._held(one, definition, call)
        return values

    def _held(self, symbol: SymbolId, definition: Definition, call: str) -> Meaning:
        unit = self._binder.unit(symbol.path)
        if unit is None:
            return []
        if definition.kind in {"function", "method"}:
            if call or definition.kind == "method":
                return self._named(unit, symbol, _first(_RETURNS, definition.signature))
            return self._decorated(unit, symbol, definition)
        written = _first(_CALLABLE, definition.signature) if call else ""
        written = written or _first(_ANNOTATED, definition.signature) or _first(_MAKES, definition.signature)
        return self._named(unit, symbol, written)

    def _named(self, unit: Unit, symbol: SymbolId, written: str) -> Meaning:
        if written in ("Self", "self"):
            return [SymbolId(symbol.path, symbol.qualified.rpartition(".")[0])]
        found = self._binder.dotted(unit, written.removesuffix("::new"), "") if written else []
        return [one for one in found if not isinstance(one, SymbolId) or self._is_type(one)]

    def _decorated(self, unit: Unit, symbol: SymbolId, definition: Definition) -> Meaning:
        """A decorator that says what it returns makes a function into that."""
        if unit.facts.language != "python":
            return []
        lines = self._binder.lines(unit)
        outermost = None
        for number in range(definition.start_line - 1, max(0, definition.start_line - _DECORATOR_LINES), -1):
            line = lines.get(number, "")
            if not line.strip():
                break
            outermost = _DECORATOR.match(line) or outermost
        if outermost is None:
            return []
        if symbol not in self._made:
            self._made[symbol] = []  # a function that decorates itself ends here
            use = Reference(definition.name, definition.start_line, "use", symbol.qualified.rpartition(".")[0])
            self._made[symbol] = self._expression(unit, outermost.group(1), use, 1)
        return self._made[symbol]

    def _is_type(self, symbol: SymbolId) -> bool:
        definition = self._binder.definition(symbol)
        return definition is not None and definition.kind in TYPE_KINDS

    # --- fields ---

    def _attribute(self, owner: SymbolId | ModuleId, name: str, call: str) -> Meaning:
        found = self._values(self._binder.attribute(owner, name), call)
        if found or isinstance(owner, ModuleId):
            return found
        key = (owner, name)
        if key not in self._fields:
            self._fields[key] = []  # a field that is assigned from itself ends here
            for one in (owner, *self._binder.bases(owner)):
                if found := self._assigned(one, name):
                    self._fields[key] = found
                    break
        held = self._fields[key]
        return self._called(held) if call.startswith("(") else held

    def _assigned(self, owner: SymbolId, name: str) -> Meaning:
        """By the first line of the class that gives the field a type, or a parameter that has one."""
        definition, unit = self._binder.definition(owner), self._binder.unit(owner.path)
        if definition is None or unit is None:
            return []
        lines = self._binder.lines(unit).having(f".{name}", definition.start_line, definition.end_line)
        for number, line in lines:
            written = field_type(line, name, unit.facts.language)
            copied = "" if written else copied_name(line, name)
            if not written and not copied:
                continue
            inside = [d for d in unit.definitions if d.start_line <= number <= d.end_line and d.kind == "method"]
            use = Reference(name, number, "use", inside[-1].qualified if inside else owner.qualified)
            if copied:
                return self.evaluate(unit, [(copied, "")], use, 1)
            return self._expression(unit, written, use, 1)
        return []


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""
