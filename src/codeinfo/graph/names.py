"""Which definition a use of a name means, as far as its receiver, the enclosing scopes and the imports tell.

A receiver is followed through modules, classes, `self`, and values whose type is written, assigned or returned. What
cannot be followed is neither claimed nor denied: it stays a syntactic match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from string import ascii_letters, digits
from typing import NamedTuple

from msgspec import Struct

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import Unit
from codeinfo.graph.scip import Compiler, defined_name
from codeinfo.graph.scopes import Binder, Foreign, ModuleId, ModuleNames, SymbolId
from codeinfo.graph.uses import (
    DECORATOR,
    FIELD,
    RETURNS,
    UNDERLYING,
    Links,
    Row,
    cast_type,
    value_links,
    written_types,
)
from codeinfo.languages.model import NameRules
from codeinfo.model import Definition, Reference

# --- receivers -------------------------------------------------------------------------------------------------------


class Many(NamedTuple):
    """A container; `element` is its element type as written in the file."""

    path: str
    scope: str
    element: str


Meaning = list[SymbolId | ModuleId | Many]

_SELF = frozenset({"self", "this", "$this", "cls", "Self", "static", "@"})
_PATH_STARTS = frozenset({"crate", "super"})
_FIRST_ARGUMENT = frozenset({"inject", "cast", "viewChild", "contentChild"})  # they return what their argument names
_ELEMENT_METHODS = frozenset({"values", "pop", "get", "shift", "at", "find", "unwrap", "first", "last", "next"})
_SAME_METHODS = frozenset({"filter", "slice", "copy", "sort", "reverse", "concat", "iter", "clone", "items"})
_FOLDS, _PASSING = frozenset({"reduce", "reduceRight"}), frozenset({"then", "finally"})
_ITERATION, _STEPS, _ENTERING = ("__iter__", "__aiter__"), ("__next__", "__anext__"), ("__enter__", "__aenter__")
_MAX_STEPS = 12  # from one binding to the next
_MOST_CHAINED = 12  # lines of one call chain


class Receivers:
    """Evaluates what stands before a dot. Classes and their instances are not kept apart: both have the same
    members."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self._known: dict[Hashable, Meaning] = {}
        self._open: set[Hashable] = set()  # under evaluation: a name bound to itself stops here
        self._cuts = 0  # how often that happened; results found on the way may be incomplete and are not cached

    def evaluate(self, unit: Unit, receiver: str, use: Reference) -> Meaning:
        """The modules or types a receiver stands for; empty if it cannot be followed."""
        found = [one for links in value_links(receiver) for one in self._evaluate_chain(unit, links, use)]
        return list(dict.fromkeys(found))

    def _evaluate_chain(self, unit: Unit, links: Links, use: Reference) -> Meaning:
        for length in range(len(links), 1, -1):  # `import a.b` binds the path
            if not any(called for _, called in links[: length - 1]):
                bound = self._binder.resolve_imported(unit, ".".join(name for name, _ in links[:length]))
                if bound:
                    return self._follow_attributes(self._values(bound, links[length - 1][1]), links[length:], unit, use)
        (first, called), *rest = links
        own = unit.facts.rules.names
        if unit.facts.rules.imports.paths and first in _PATH_STARTS:
            current: Meaning = list(self._binder.path_start(unit, first))
        elif first in own.inherited or (first == "super" and (called or first not in own.inherited)):
            current = list(self._own_type(unit, use.within, inherited=True))
        elif first in _SELF:
            current = list(self._own_type(unit, use.within, inherited=False))
            if called and not called.startswith("("):
                current = self._elements(current)
        else:
            current = self._evaluate_first(unit, first, called, use)
        return self._follow_attributes(current, rest, unit, use)

    def _follow_attributes(self, current: Meaning, links: Links, unit: Unit, use: Reference) -> Meaning:
        for name, called in links:
            values = self._evaluate_argument(unit, name, called, use) or (
                value for owner in current for value in self._evaluate_attribute(owner, name, called)
            )
            current = list(dict.fromkeys(values))
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

    def _evaluate_first(self, unit: Unit, name: str, called: str, use: Reference) -> Meaning:
        """The value of a local variable comes first, since it hides the rest."""
        rows = self._binder.local_rows(unit, name, use, before=True)
        if rows:
            return self._called_or_indexed(self._evaluate_rows(unit, rows, use.line), called)
        if made := self._evaluate_argument(unit, name, called, use):
            return made
        found = self._binder.resolve_bare(unit, name, use.within)
        return self._values(found or self._path_start(unit, name, use.line), called)

    def _path_start(self, unit: Unit, name: str, line: int) -> list[SymbolId | ModuleId]:
        """For a path that needs no import; a call chain may continue some lines below it."""
        if not unit.facts.rules.imports.paths:
            return []
        lines = self._binder.lines(unit)
        above = range(line, max(line - _MOST_CHAINED, 0), -1)
        return self._binder.path_start(unit, name) if any(f"{name}::" in lines.get(at, "") for at in above) else []

    def _evaluate_argument(self, unit: Unit, name: str, called: str, use: Reference) -> Meaning:
        """What a function returns that returns what its first argument names."""
        is_call = name in _FIRST_ARGUMENT and called.startswith("(")
        first = called[1:].partition(")")[0].partition(",")[0].strip() if is_call else ""
        return self._types(unit, first, use.within) if first else []

    # --- bindings ---

    def _evaluate_rows(self, unit: Unit, rows: list[Row], line: int) -> Meaning:
        """The written type; otherwise the nearest value above."""
        typed = [row for row in rows if row.mark == ":"]
        above = [row for row in typed or rows if row.line <= line]
        if typed:
            return self.evaluate_row(unit, above[-1] if above else typed[0])
        for row in reversed(above or rows[:1]):
            if row.text and not (row.line == line and row.text.startswith(f"{row.name}.")):  # `x = x.next()`
                return self.evaluate_row(unit, row)
        return []

    @property
    def remembered(self) -> int:
        return len(self._known)

    def evaluate_row(self, unit: Unit, row: Row) -> Meaning:
        return self._once((unit.facts.path, row), lambda: self._read_row(unit, row)) if row.text else []

    def _once(self, key: Hashable, evaluate: Callable[[], Meaning]) -> Meaning:
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._open or len(self._open) >= _MAX_STEPS:
            self._cuts += 1
            return []
        self._open.add(key)
        cuts = self._cuts
        found = evaluate()
        self._open.remove(key)
        if cuts == self._cuts or not self._open:
            self._known[key] = found
        return found

    def _read_row(self, unit: Unit, row: Row) -> Meaning:
        if row.mark == ":":
            return self._types(unit, row.text, row.scope)
        if cast := cast_type(row.text):
            return self._types(unit, cast, row.scope)
        use = Reference(row.name, row.line - 1 if row.text.startswith(row.name) else row.line, "use", row.scope)
        if row.mark == "~":
            return self._passed_values(unit, row, use)
        found = self.evaluate(unit, row.text, use)
        if row.mark == "@":
            return self._elements(found)
        return self._enter(found) if row.mark == "^" else found

    def _passed_values(self, unit: Unit, row: Row, use: Reference) -> Meaning:
        """`xs.map(x => …)`: an element; `made.then(x => …)`: the value itself."""
        receiver, _, method = row.text.rpartition(".")
        if method in _FOLDS:
            return []
        values = self.evaluate(unit, receiver.removesuffix("?"), use)
        return values if method in _PASSING else self._elements([one for one in values if isinstance(one, Many)])

    def _elements(self, values: Meaning) -> Meaning:
        found: Meaning = []
        for one in values:
            if isinstance(one, SymbolId):
                found += self._element_of_type(one)
            elif isinstance(one, Many):
                found += self._element_types(one)
        return found

    def _element_of_type(self, owner: SymbolId) -> Meaning:
        unit = self._binder.unit(owner.path)
        rows = self._binder.bindings(unit).inside(UNDERLYING, owner.qualified) if unit else []
        if unit and rows:
            return self._elements([one for one in self._types(unit, rows[0].text, "") if isinstance(one, Many)])
        made = self._call_methods(owner, _ITERATION)
        held = [value for one in made if isinstance(one, Many) for value in self._element_types(one)]
        return held or [value for one in made if isinstance(one, SymbolId) for value in self._call_methods(one, _STEPS)]

    def _call_methods(self, owner: SymbolId, names: Iterable[str]) -> Meaning:
        members = [member for name in names for member in self._binder.find_member(owner, name)]
        return [value for member in members for value in self._return_values(member)]

    def _element_types(self, many: Many) -> Meaning:
        unit = self._binder.unit(many.path)
        return self._types(unit, many.element, many.scope) if unit else []

    def _enter(self, values: Meaning) -> Meaning:
        """What `with` yields: a container is a generator turned into a context manager."""
        found: Meaning = []
        for one in values:
            if isinstance(one, Many):
                found += self._element_types(one)
            elif isinstance(one, SymbolId):
                found += self._call_methods(one, _ENTERING) or [one]
        return found

    # --- types ---

    def _types(self, unit: Unit, text: str, scope: str) -> Meaning:
        found: Meaning = []
        for written in written_types(text):
            if written.element:
                found.append(Many(unit.facts.path, scope, written.element))
                continue
            if written.name in ("Self", "self", "this", "static"):
                found += self._own_type(unit, scope, inherited=False)
                continue
            meant = self._binder.resolve_dotted(unit, written.name, unit.without_namespace(scope))
            if meant:
                found += [one for one in meant if not isinstance(one, SymbolId) or self._is_type(one)] or [
                    value for one in meant if isinstance(one, SymbolId) for value in self._instance(one)
                ]
            elif written.arguments:
                found.append(Many(unit.facts.path, scope, written.arguments[-1]))
        return list(dict.fromkeys(found))

    def _instance(self, symbol: SymbolId) -> Meaning:
        """`Alias = Union[A, B]` and `Model = get_model()`: a variable that holds a type."""
        unit = self._binder.unit(symbol.path)
        rows = self._rows_of(unit, symbol) if unit else []
        if unit is None or not rows:
            return []
        return self._once(("instance", symbol), lambda: self._types(unit, rows[-1].text, ""))

    def _is_type(self, symbol: SymbolId) -> bool:
        definition = self._binder.definition(symbol)
        return definition is not None and definition.is_type

    # --- values ---

    def _values(self, meaning: list[SymbolId | ModuleId], called: str) -> Meaning:
        """From what a name means to what it holds: for a variable its type, for a call its result."""
        values: Meaning = []
        for one in meaning:
            definition = self._binder.definition(one) if isinstance(one, SymbolId) else None
            if isinstance(one, ModuleId) or definition is None:
                values.append(one)
            elif definition.is_type:
                values += self._elements([one]) if called.startswith("[") and "(" not in called else [one]
            else:
                values += self._value_of(one, definition, called)
        return values

    def _called_or_indexed(self, values: Meaning, called: str) -> Meaning:
        for sign in called.replace("()", "(").replace("[]", "[").replace("{}", ""):
            if sign == "[":
                values = self._elements(values)
            elif sign == "(":
                made = [one for owner in values if isinstance(owner, SymbolId) for one in self._call(owner)]
                values = made
        return values

    def _call(self, owner: SymbolId) -> Meaning:
        """The result of calling a value: an object's `__call__`, an instance of a class, a function's return type."""
        definition = self._binder.definition(owner)
        if definition is not None and definition.is_function:
            return self._return_values(owner)
        return self._call_methods(owner, ("__call__",)) or [owner]

    def _value_of(self, symbol: SymbolId, definition: Definition, called: str) -> Meaning:
        unit = self._binder.unit(symbol.path)
        if unit is None:
            return []
        if called.startswith("(") and not definition.is_function:
            definition = self._function(unit, symbol) or definition
        if definition.is_function:
            if called.startswith("(") or definition.kind == "method":
                found = self._apply_decorator(unit, symbol, called) or self._return_values(symbol)
                rest = called[called.find(")") + 1 :] if called.startswith("(") else called
                return self._called_or_indexed(found, rest)
            return self._apply_decorator(unit, symbol, "")
        found = self._evaluate_rows(unit, self._rows_of(unit, symbol), definition.start_line)
        return self._called_or_indexed(found, called)

    def _rows_of(self, unit: Unit, symbol: SymbolId) -> list[Row]:
        """The rows that bind a variable or a field, in the scope given by its qualified name."""
        outer, _, name = symbol.qualified.rpartition(".")
        rows = [row for row in self._binder.bindings(unit).of(name) if unit.without_namespace(row.scope) == outer]
        return [row for row in rows if row.text]

    def _return_values(self, symbol: SymbolId) -> Meaning:
        unit, definition = self._binder.unit(symbol.path), self._binder.definition(symbol)
        if unit is None or definition is None:
            return []
        if not definition.is_function:
            definition = self._function(unit, symbol) or definition
        rows = [
            row
            for row in self._binder.bindings(unit).inside(RETURNS, definition.qualified)
            if definition.start_line <= row.line <= definition.end_line
        ]
        typed = [row for row in rows if row.mark == ":"]
        return [value for row in typed[:1] or rows for value in self.evaluate_row(unit, row)]

    def _function(self, unit: Unit, symbol: SymbolId) -> Definition | None:
        """The method named like a field, as in Rust's builders."""
        named = unit.by_name.get(symbol.qualified.rpartition(".")[2], ())
        same = (one for one in named if one.is_function and unit.without_namespace(one.qualified) == symbol.qualified)
        return next(same, None)

    def _apply_decorator(self, unit: Unit, symbol: SymbolId, called: str) -> Meaning:
        """A decorator with a known return type turns the function into that."""
        rows = (
            self._binder.bindings(unit).inside(DECORATOR, symbol.qualified) if unit.facts.rules.names.decorators else []
        )
        if not rows:
            return []
        row = rows[0]._replace(scope=symbol.qualified.rpartition(".")[0])
        values = self.evaluate_row(unit, row)
        made: Meaning = [one for one in values if isinstance(one, SymbolId) and self._is_type(one)]
        return self._called_or_indexed(made, called) if called else made

    # --- members ---

    def _evaluate_attribute(self, owner: SymbolId | ModuleId | Many, name: str, called: str) -> Meaning:
        if isinstance(owner, Many):
            if name in _ELEMENT_METHODS and called:
                return self._element_types(owner) if name != "values" else [owner]
            return [owner] if name in _SAME_METHODS and called else []
        found = self._values(self._binder.resolve_attribute(owner, name), called)
        if found or isinstance(owner, ModuleId):
            return found
        return self._called_or_indexed(self.field(owner, name), called)

    def field(self, owner: SymbolId, name: str) -> Meaning:
        """A field assigned by methods of the type or of its bases."""

        def assigned() -> Meaning:
            lineage = self._binder.lineage(owner)
            return next((found for one in lineage if (found := self._find_assigned(one, name))), [])

        return self._once((owner, name), assigned)

    def _find_assigned(self, owner: SymbolId, name: str) -> Meaning:
        unit = self._binder.unit(owner.path)
        if unit is None:
            return []
        inside = f"{owner.qualified}."
        rows = [
            row
            for row in (*self._binder.bindings(unit).of(f"{FIELD}{name}"), *self._binder.bindings(unit).of(name))
            if (row.name != name and unit.without_namespace(row.scope).startswith(inside))
            or (row.name == name and unit.without_namespace(row.scope) == owner.qualified)
        ]
        for row in sorted(rows, key=lambda row: row.mark != ":"):
            if found := self.evaluate_row(unit, row):
                return found
        return []


# --- names -----------------------------------------------------------------------------------------------------------


_SEPARATORS = re.compile(r"::|\\")
_ALSO_IN_WORDS = ("_", "$")
_IN_NAMES = f"{ascii_letters}{digits}_$"
_LITERAL = '""'
_MOST_MEANT = 3  # definitions: a value with more types than that has no certain one


class Resolution(Struct, frozen=True):
    """`symbols`: what is meant. None and `possible`: unknown. None and not `possible`: something else is meant."""

    symbols: tuple[SymbolId, ...] = ()
    possible: bool = False
    proof: str = "resolved"


USES, CALLS, MEANING = "uses", "calls", "meaning"


class Question(NamedTuple):
    """A question for a language server: where a definition is used, what it calls, or what a used name means."""

    kind: str
    path: str
    line: int
    name: str
    column: int = -1  # of the name, in UTF-16 units; otherwise it is searched for on the line


class Proven(Struct, frozen=True):
    """A place ending in a name that a compiler sees used or called. Lines start at 1; columns, in UTF-16 units, at
    0. The target is the definition; its path is empty if that is outside the project."""

    path: str
    line: int
    start: int
    end: int
    target_path: str = ""
    target_line: int = 0

    def name(self, text: str) -> str:
        """The name, in the text of the line."""
        units = text.encode("utf-16-le")
        written = units[2 * self.start : 2 * self.end].decode("utf-16-le", "ignore")
        return written[len(written.rstrip(_IN_NAMES)) :] if written.isascii() else written

    def is_called(self, text: str) -> bool:
        return text.encode("utf-16-le")[2 * self.end :].decode("utf-16-le", "ignore").startswith("(")


class Proofs:
    """What language servers said about the definitions of one generation. While `asking`, open questions are
    collected in `wanted`: servers take seconds, so the caller asks them and answers again."""

    def __init__(self) -> None:
        self.known: dict[Question, tuple[Proven, ...]] = {}
        self.wanted: dict[Question, None] = {}
        self.asking = False

    def get(self, question: Question) -> tuple[Proven, ...] | None:
        found = self.known.get(question)
        if found is None and self.asking:
            self.wanted[question] = None
        return found


_OTHER = Resolution()
_UNKNOWN = Resolution(possible=True)
_MOST_CACHED = 400_000  # rows; beyond that everything is dropped before the next question


class NameResolver:
    def __init__(self, index: CodeIndex) -> None:
        self.index = index
        self.proofs = Proofs()
        self._binder = Binder(index)
        self._foreign = Foreign(index)
        self._modules = ModuleNames(index)
        self._receivers = Receivers(self._binder)
        self._received: dict[tuple[str, str, str, str, int], Resolution] = {}

    @property
    def is_full(self) -> bool:
        """Whether so much is cached that another resolver should take over."""
        return len(self._received) + self._receivers.remembered > _MOST_CACHED

    def definition(self, symbol: SymbolId) -> Definition | None:
        return self._binder.definition(symbol)

    def bases(self, symbol: SymbolId) -> list[SymbolId]:
        return self._binder.bases(symbol)

    def overridden(self, symbol: SymbolId) -> list[SymbolId]:
        """What a member overrides or implements in the types of this codebase that its own type extends."""
        owner, _, name = symbol.qualified.rpartition(".")
        above = (base for base in self._binder.lineage(SymbolId(symbol.path, owner)) if base.qualified != owner)
        return [found for base in above for found in self._binder.find_own_member(base, name)] if owner else []

    def member(self, owner: SymbolId, name: str) -> list[SymbolId]:
        return self._binder.find_member(owner, name)

    def resolve(self, unit: Unit, use: Reference) -> Resolution:
        compiler = self.index.compiler
        if compiler is not None and compiler.covers(unit.facts.path):
            proven = self._resolve_by_compiler(compiler, unit, use)
            if proven is not None:
                return proven
        if unit.facts.rules.names.whole_modules:
            return self._resolve_in_module(unit, use)
        if unit.facts.rules.names.symbols and self.is_symbol(unit, use):
            return _UNKNOWN
        if use.receiver:
            return self._resolve_import_path(unit, use) or self._resolve_with_receiver(unit, use)
        if self._binder.local_rows(unit, use.name, use):
            return _OTHER
        if use.name in unit.renamed and (found := self._binder.resolve_renamed(unit, use.name, use.line)):
            return Resolution(tuple(one for one in found if isinstance(one, SymbolId)))
        return self._resolve_bare(unit, use)

    def _resolve_import_path(self, unit: Unit, use: Reference) -> Resolution | None:
        """What an import line names by its full path: `import a.b.C`, `use a::b::C`."""
        for written in unit.by_shown.get(use.name, ()):
            path = _SEPARATORS.sub(".", written.module)
            listed = use.name in written.names and path.endswith(use.receiver)
            if written.line == use.line and (listed or path == f"{use.receiver}.{use.name}"):
                found = self._binder.resolve_imported(unit, written.alias or use.name)
                return Resolution(tuple(one for one in found if isinstance(one, SymbolId))) if found else None
        return None

    def _resolve_by_compiler(self, compiler: Compiler, unit: Unit, use: Reference) -> Resolution | None:
        """What the project's own compiler says; None if it does not know, or if its target has changed since."""
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

    def _resolve_in_module(self, unit: Unit, use: Reference) -> Resolution:
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

    def is_symbol(self, unit: Unit, use: Reference) -> bool:
        """Whether a name without a receiver is only a value on its line, like `:halt` and `halt:` in Ruby: the
        expression is matched with the name replaced by a zero."""
        if use.receiver:
            return False
        text, expression = self.index.lines(unit.facts.file_id).get(use.line, ""), unit.facts.rules.names.symbols
        places = [f"{text[max(at - 2, 0) : at]}\0{text[end : end + 2]}" for at, end in _words(text, use.name)]
        marked = [re.search(expression, place) is not None for place in places]
        bare = [mark for mark, place in zip(marked, places, strict=True) if mark or not re.search(r"[.:]\0", place)]
        return bool(bare) and all(bare)

    def _resolve_bare(self, unit: Unit, use: Reference) -> Resolution:
        found = self._binder.resolve_bare(unit, use.name, use.within)
        symbols = tuple(one for one in found if isinstance(one, SymbolId))
        if len(symbols) > _MOST_MEANT:
            return _UNKNOWN
        if symbols or (symbols := self._find_linked(unit, use)):
            return Resolution(symbols)
        rules = unit.facts.rules.names
        explained = rules.explicit and not rules.implicit_self
        return _OTHER if found or (explained and not self._foreign.only(use.name)) else _UNKNOWN

    def _find_linked(self, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
        """A C function has one name in the whole program: if only one file defines it, a call means that."""
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

    def _resolve_with_receiver(self, unit: Unit, use: Reference) -> Resolution:
        """The same receiver in the same function means the same until its first name is rebound."""
        if use.receiver.startswith(_LITERAL):
            return _OTHER
        first = use.receiver.partition(".")[0].partition("(")[0].partition("[")[0].partition("{")[0]
        rows = self._binder.local_rows(unit, first, use, before=True)
        bound_at = max((row.line for row in rows if row.line <= use.line), default=0)
        key = (unit.facts.path, use.name, use.within, use.receiver, bound_at)
        known = self._received.get(key)
        if known is None:
            owners = self._receivers.evaluate(unit, use.receiver, use)
            if not owners and not rows and self._binder.is_namespace(unit, use.receiver):
                known = self._received[key] = self._resolve_bare(unit, use)
                return known
            if use.receiver.endswith("{}"):  # a key passed to a constructor is its parameter
                types = [one for one in owners if isinstance(one, SymbolId)]
                owners = [one for one in types if not self._binder.find_member(one, "__init__")]
            # A caller asking about a name from outside wants its uses.
            is_foreign = not self._foreign.only(use.name) and self._foreign.has(unit, first)
            is_ours = owners or rows or not is_foreign
            known = self._resolve_member(owners, use.name) if is_ours else _OTHER
            if use.receiver.endswith("{}") and not known.symbols:
                known = _OTHER  # the name of an argument
            self._received[key] = known
        return known

    def _resolve_member(self, owners: Meaning, name: str) -> Resolution:
        known_owners = [one for one in owners if not isinstance(one, Many)]
        if not known_owners:
            return _OTHER if owners else _UNKNOWN
        found = [one for owner in known_owners for one in self._binder.resolve_attribute(owner, name)]
        symbols = tuple(dict.fromkeys(one for one in found if isinstance(one, SymbolId)))
        if symbols:
            return Resolution(symbols) if len(symbols) <= _MOST_MEANT else _UNKNOWN
        # A module has what its file exports; a table may take the rest from another one.
        known = any(
            not self._name_rules(owner.paths[0]).tables if isinstance(owner, ModuleId) else self._is_closed(owner)
            for owner in known_owners
        )
        return _OTHER if known else _UNKNOWN

    def _name_rules(self, path: str) -> NameRules:
        unit = self.index.unit(path)
        return unit.facts.rules.names if unit else NameRules()

    def _is_closed(self, owner: SymbolId) -> bool:
        """Whether all members of a type are known: each of its bases was found. In C++ aliases and macros add some."""
        definition = self._binder.definition(owner)
        if definition is None or self.index.graph.files[owner.path].rules.imports.headers:
            return False
        if definition.kind == "trait" and self._name_rules(owner.path).open_traits:
            return False
        found = self._binder.bases(owner)
        return len(found) >= len(definition.bases) and all(self._is_closed(base) for base in found[:4] if base != owner)


def _words(text: str, name: str) -> Iterator[tuple[int, int]]:
    """The whole-word occurrences of a name; found without a regular expression, which would have to be compiled each
    time."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before in _ALSO_IN_WORDS) and not (after.isalnum() or after in _ALSO_IN_WORDS):
            yield start, end
        start = text.find(name, start + 1)
