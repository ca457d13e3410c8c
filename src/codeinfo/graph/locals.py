"""Names that belong to one function: parameters, local variables and their types, keyword arguments."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from codeinfo.graph.typed import written_type
from codeinfo.graph.unit import Unit
from codeinfo.model import Definition, Reference
from codeinfo.ports import FileLines as Lines

CALLABLE_KINDS = frozenset({"function", "method"})
_SCAN_LINES = 400  # of a function: beyond that it is data
_HEADER_LINES = 60
_KEYWORD_ARGUMENT = re.compile(r"\s*(?::[^=\n]+)?=(?!=)")
_ASSIGNMENT = re.compile(r"\s*=(?!=)")
_KEY = re.compile(r"\s*:(?!:)")
_BEFORE_ARGUMENT = re.compile(r"[(,]\s*$")
_PARENTHESIS = re.compile(r"[()]")
_BEFORE_PARAMETER = ("(", ",", "*", "&")
_BEHIND_PARAMETER = re.compile(r"\s*(?:[,)=:?]|$)")
_WORD_EDGE = re.compile(r"\b")
_BEFORE_KEY = re.compile(r"[{,]\s*$")

# How statements make a local variable: what ends before its name, and what begins behind it. The expressions know no
# name, so that none has to be compiled for each.
Way = tuple[re.Pattern[str] | None, re.Pattern[str]]  # None: anything that is no part of the name
_ECMASCRIPT: tuple[Way, ...] = (
    (re.compile(r"\b(?:const|let|var)\s+\Z"), _WORD_EDGE),
    (None, re.compile(r"\s*=>")),
)
_BINDINGS: dict[str, tuple[Way, ...]] = {
    "python": (
        (re.compile(r"^\s*\Z"), re.compile(r"\s*(?::[^=]+)?=(?!=)")),
        (re.compile(r"\bfor\s+(?:\w+\s*,\s*)*\Z"), re.compile(r"\b.*\bin\b")),
        (re.compile(r"\bas\s+\Z"), re.compile(r"\s*[:,)]")),
        (None, re.compile(r"\s*:=")),
    ),
    **dict.fromkeys(("javascript", "typescript", "tsx"), _ECMASCRIPT),
    "go": (
        (None, re.compile(r"\s*(?:,\s*\w+\s*)*:=")),
        (re.compile(r"\bvar\s+\Z"), _WORD_EDGE),
    ),
    "rust": ((re.compile(r"\blet\s+(?:mut\s+)?\Z"), _WORD_EDGE),),
    "lua": ((re.compile(r"\b(?:local|for)\s+(?:\w+\s*,\s*)*\Z"), _WORD_EDGE),),
}


class Locals:
    """Answers are kept: the same few names are asked for again and again in one function."""

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
        if unit.facts.language == "python":
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
            if (
                function is not None
                and function.kind in CALLABLE_KINDS
                and self._binds(unit, function, use.name, lines)
            ):
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
            if function is not None and function.kind in CALLABLE_KINDS:
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
        if before.rstrip()[-1:] in (":", "=") and _WORD_EDGE.match(parameters, end):
            return False
        opens = not before or before[-1] in _BEFORE_PARAMETER or before[-1].isspace()
        is_listed = is_listed or bool(opens and _BEHIND_PARAMETER.match(parameters, end))
        start = parameters.find(name, start + 1)
    return is_listed


def _assigns(unit: Unit, function: Definition, name: str, lines: Lines) -> bool:
    ways = _BINDINGS.get(unit.facts.language)
    if ways is None:
        return False
    bound = any(_binds_in(line, name, ways) for _, line in _naming(function, name, lines))
    return bound and not _declares_global(function, name, lines)


def _binds_in(line: str, name: str, ways: Sequence[Way]) -> bool:
    """Whether a line makes a local variable of a name, by what stands before and behind one of its places."""
    start = line.find(name)
    while start >= 0:
        end = start + len(name)
        for before, behind in ways:
            if behind.match(line, end) and (before.search(line, 0, start) if before else _WORD_EDGE.match(line, start)):
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
