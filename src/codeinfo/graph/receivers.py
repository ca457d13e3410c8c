"""What stands before a dot: a module, a type, or a variable whose type is written or plainly assigned.

Local names and their types are read from the lines of a function. The expressions know no name, so that none is
compiled for each variable: the name is looked for first, and they are tried before and behind it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from codeinfo.graph.model import Unit
from codeinfo.graph.scopes import Binder, ModuleId, SymbolId
from codeinfo.languages.model import WORD_EDGE, Binding, named
from codeinfo.model import Definition, Reference
from codeinfo.ports import FileLines as Lines

Meaning = list[SymbolId | ModuleId]
Links = list[tuple[str, str]]  # (name, what it is called or indexed with)

_LINK = re.compile(r"([\w$]+)(\([^()]*\)|\[[^\[\]]*\])?[?!]?(?:\.|::|->|\\)")
_SELF = frozenset({"self", "this", "$this", "cls", "Self", "static", "super", "super()"})
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
        inherited = first in ("super", "super()") or first in unit.facts.rules.names.inherited
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
            if definition is not None and definition.is_type:
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
            if not isinstance(one, SymbolId) or definition is None or definition.is_type:
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
        if not unit.facts.rules.names.decorators:
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
        return definition is not None and definition.is_type

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


# --- local names: parameters, variables, keyword arguments ----------------------------------------------------------

_SCAN_LINES = 400  # of a function: beyond that it is data
_HEADER_LINES = 60
_KEYWORD_ARGUMENT = re.compile(r"\s*(?::[^=\n]+)?=(?!=)")
_ASSIGNMENT = re.compile(r"\s*=(?!=)")
_KEY = re.compile(r"\s*:(?!:)")
_BEFORE_ARGUMENT = re.compile(r"[(,]\s*$")
_PARENTHESIS = re.compile(r"[()]")
_BEFORE_PARAMETER = ("(", ",", "*", "&")
_BEHIND_PARAMETER = re.compile(r"\s*(?:[,)=:?]|$)")
_BEFORE_KEY = re.compile(r"[{,]\s*$")


class Locals:
    """Which names belong to one function. Answers are cached: the same few names are asked for again and again."""

    def __init__(self) -> None:
        self._hidden: dict[tuple[int, str, str], bool] = {}
        self._headers: dict[tuple[int, str], str] = {}
        self._around: dict[tuple[int, str, str], bool] = {}
        self._typed: dict[tuple[int, str, str], tuple[list[int], list[str]]] = {}

    @property
    def remembered(self) -> int:
        return len(self._hidden) + len(self._headers) + len(self._around) + len(self._typed)

    def hides(self, unit: Unit, use: Reference, before: str, after: str, lines: Lines) -> bool:
        """Whether a bare name is a parameter, a keyword argument or a local variable."""
        if unit.facts.rules.names.keyword_arguments:
            if _KEYWORD_ARGUMENT.match(after) and (use.within or _BEFORE_ARGUMENT.search(before)):
                function = enclosing(unit, use.within)
                return function is None or not _declares_global(function, use.name, lines)
            if _ASSIGNMENT.match(after) and not before.strip() and use.name not in unit.by_qualified:
                return True
        elif _KEY.match(after) and _BEFORE_KEY.search(before):
            return True  # the key of an object or of a named argument
        key = (unit.facts.file_id, use.within, use.name)
        known = self._around.get(key)
        if known is None:
            known = self._around[key] = self._bound_around(unit, use, lines)
        return known

    def _bound_around(self, unit: Unit, use: Reference, lines: Lines) -> bool:
        scope = use.within
        while scope:
            function = enclosing(unit, scope)
            if function is not None and function.is_function and self._binds(unit, function, use.name, lines):
                return True
            scope = scope.rpartition(".")[0]
        return False

    def _binds(self, unit: Unit, function: Definition, name: str, lines: Lines) -> bool:
        key = (unit.facts.file_id, function.qualified, name)
        if key not in self._hidden:
            has_parameter = _has_parameter(self._parameters(unit, function, lines), name)
            self._hidden[key] = has_parameter or _assigns(unit, function, name, lines)
        return self._hidden[key]

    def _parameters(self, unit: Unit, function: Definition, lines: Lines) -> str:
        key = (unit.facts.file_id, function.qualified)
        if key not in self._headers:
            self._headers[key] = _header(function, lines)
        return self._headers[key]

    def type_of(self, unit: Unit, name: str, use: Reference, lines: Lines) -> tuple[str, int]:
        """The written type of a local variable and its line: by the nearest assignment or annotation above."""
        scope = use.within
        while scope:
            function = enclosing(unit, scope)
            if function is not None and function.is_function:
                found = self._type_in(unit, function, name, use.line, lines)
                if found[0]:
                    return found
            scope = scope.rpartition(".")[0]
        return "", 0

    def _type_in(self, unit: Unit, function: Definition, name: str, line: int, lines: Lines) -> tuple[str, int]:
        key = (unit.facts.file_id, function.qualified, name)
        if key not in self._typed:
            self._typed[key] = _typed_lines(unit, function, name, lines)
        numbers, types = self._typed[key]
        place = bisect_right(numbers, line)
        return (types[place - 1], numbers[place - 1]) if place else ("", 0)


def enclosing(unit: Unit, within: str) -> Definition | None:
    return unit.by_qualified.get(unit.without_namespace(within))


def _span(function: Definition) -> range:
    return range(function.start_line, min(function.end_line, function.start_line + _SCAN_LINES) + 1)


def _naming(function: Definition, name: str, lines: Lines) -> Iterator[tuple[int, str]]:
    return lines.having(name, function.start_line, min(function.end_line, function.start_line + _SCAN_LINES))


def _declares_global(function: Definition, name: str, lines: Lines) -> bool:
    said = [line for _, line in _naming(function, name, lines) if "global" in line or "nonlocal" in line]
    return bool(said) and any(re.search(rf"\b(?:global|nonlocal)\b.*\b{re.escape(name)}\b", line) for line in said)


def _header(function: Definition, lines: Lines) -> str:
    """The parameters, over as many lines as they take; the signature alone may be cut."""
    taken: list[str] = []
    depth = 0
    for number in _span(function)[:_HEADER_LINES]:
        line = lines.get(number, "")
        if not depth:
            _, opened, line = line.partition("(")
            depth = len(opened)
        for match in _PARENTHESIS.finditer(line) if depth else ():
            depth += 1 if match.group() == "(" else -1
            if not depth:
                return " ".join((*taken, line[: match.end()]))
        taken += [line] if depth else []
    return " ".join(taken)


def _has_parameter(parameters: str, name: str) -> bool:
    """Whether a name is listed, and not as the type or the default of another one."""
    is_listed = False
    start = parameters.find(name)
    while start >= 0:
        end = start + len(name)
        before = parameters[:start]
        if before.rstrip()[-1:] in (":", "=") and WORD_EDGE.match(parameters, end):
            return False
        opens = not before or before[-1] in _BEFORE_PARAMETER or before[-1].isspace()
        is_listed = is_listed or bool(opens and _BEHIND_PARAMETER.match(parameters, end))
        start = parameters.find(name, start + 1)
    return is_listed


def _assigns(unit: Unit, function: Definition, name: str, lines: Lines) -> bool:
    ways = unit.facts.rules.names.bindings
    bound = any(_binds_in(line, name, ways) for _, line in _naming(function, name, lines))
    return bound and not _declares_global(function, name, lines)


def _binds_in(line: str, name: str, ways: Sequence[Binding]) -> bool:
    """Whether a line makes a local variable of a name, by what stands before and behind one of its places."""
    start = line.find(name)
    while start >= 0:
        end = start + len(name)
        for before, behind in ways:
            if behind.match(line, end) and (before.search(line, 0, start) if before else WORD_EDGE.match(line, start)):
                return True
        start = line.find(name, start + 1)
    return False


def _typed_lines(unit: Unit, function: Definition, name: str, lines: Lines) -> tuple[list[int], list[str]]:
    numbers, types = [], []
    for number, line in _naming(function, name, lines):
        if written := written_type(line, name, unit.facts.language):
            numbers.append(number)
            types.append(written)
    return numbers, types


# --- how a line gives a variable its type ---------------------------------------------------------------------------

_KIND = r"['\"]?(?:(?:\w+\.)?(?:Optional|Awaitable)\[|&|\*|mut\s|dyn\s|const\s)*['\"]?([A-Z_a-z][\w.:]*)"
_MADE = r"(?:await\s+|new\s+|&)?([A-Z_a-z][\w.:]*)\s*[({]"
_BEHIND = re.compile(rf"\s*:\s*{_KIND}|\s*:?=\s*{_MADE}")
_COPIED = re.compile(r"\s*=\s*(\w+)\s*;?\s*(?:#.*|//.*)?\Z")

Place = tuple[int, str]  # where the statement begins, and the type


def written_type(line: str, name: str, language: str) -> str:
    """The type that a line writes for a variable or assigns to it; of several that of the first statement."""
    return min(_places(line, name, language), key=lambda place: place[0], default=(0, ""))[1]


def field_type(line: str, field: str, language: str) -> str:
    """The same for a field of `self` or `this`."""
    places = [place for owner in ("self", "this") for place in _places(line, f"{owner}.{field}", language)]
    return min(places, key=lambda place: place[0], default=(0, ""))[1]


def copied_name(line: str, field: str) -> str:
    """The variable that a line copies to a field, with nothing else behind it."""
    for owner in ("self", "this"):
        for _, end in _occurrences(line, f"{owner}.{field}"):
            if match := _COPIED.match(line, end):
                return match.group(1)
    return ""


def _places(line: str, name: str, language: str) -> Iterator[Place]:
    typing = named(language).names.typing
    for start, end in _occurrences(line, name):
        before = line[start - 1 : start]
        inside_word = _is_word(before)
        if not inside_word and before != "." and (match := _BEHIND.match(line, end)):
            yield start, match.group(1) or match.group(2)
        if typing is not None and (place := typing(line, start, end)):
            yield place


def _occurrences(line: str, name: str) -> Iterator[tuple[int, int]]:
    at = line.find(name)
    while at >= 0:
        yield at, at + len(name)
        at = line.find(name, at + 1)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
