"""Names that belong to one function: parameters, local variables and their types, keyword arguments."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from codeinfo.graph.scopes import Unit
from codeinfo.graph.typed import written_type
from codeinfo.ports import FileLines as Lines
from codeinfo.types import Definition, Reference

CALLABLE_KINDS = frozenset({"function", "method"})
_SCAN_LINES = 400  # of a function: beyond that it is data
_HEADER_LINES = 60
_KEYWORD_ARGUMENT = re.compile(r"\s*(?::[^=\n]+)?=(?!=)")
_ASSIGNMENT = re.compile(r"\s*=(?!=)")
_KEY = re.compile(r"\s*:(?!:)")
_BEFORE_ARGUMENT = re.compile(r"[(,]\s*$")
_PARENTHESIS = re.compile(r"[()]")
_BEFORE_KEY = re.compile(r"[{,]\s*$")


class Locals:
    """Answers are kept: the same few names are asked for again and again in one function."""

    def __init__(self) -> None:
        self._hidden: dict[tuple[int, str, str], bool] = {}
        self._headers: dict[tuple[int, str], str] = {}
        self._around: dict[tuple[int, str, str], bool] = {}
        self._typed: dict[tuple[int, str, str], tuple[list[int], list[str]]] = {}

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
    pattern = re.compile(rf"\b(?:global|nonlocal)\b.*\b{re.escape(name)}\b")
    return any(pattern.search(line) for _, line in _naming(function, name, lines))


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
    if name not in parameters:
        return False
    word = re.escape(name)
    is_listed = re.search(rf"(?:^|[(,*&\s]){word}\s*(?:[,)=:?]|$)", parameters)
    return is_listed is not None and not re.search(rf"[:=]\s*{word}\b", parameters)


def _assigns(unit: Unit, function: Definition, name: str, lines: Lines) -> bool:
    pattern = _binding(name, unit.facts.language)
    if pattern is None:
        return False
    bound = any(pattern.search(line) for _, line in _naming(function, name, lines))
    return bound and not _declares_global(function, name, lines)


@lru_cache(maxsize=256)
def _binding(name: str, language: str) -> re.Pattern[str] | None:
    """How a statement makes a local variable of a name."""
    word = re.escape(name)
    if language == "python":
        return re.compile(
            rf"^\s*{word}\s*(?::[^=]+)?=(?!=)|\bfor\s+(?:\w+\s*,\s*)*{word}\b.*\bin\b|\bas\s+{word}\s*[:,)]|\b{word}\s*:="
        )
    if language in {"javascript", "typescript", "tsx"}:
        return re.compile(rf"\b(?:const|let|var)\s+{word}\b|\b{word}\s*=>")
    if language == "go":
        return re.compile(rf"\b{word}\s*(?:,\s*\w+\s*)*:=|\bvar\s+{word}\b")
    return re.compile(rf"\blet\s+(?:mut\s+)?{word}\b") if language == "rust" else None


def _typed_lines(unit: Unit, function: Definition, name: str, lines: Lines) -> tuple[list[int], list[str]]:
    numbers, types = [], []
    for number, line in _naming(function, name, lines):
        if written := written_type(line, name, unit.facts.language):
            numbers.append(number)
            types.append(written)
    return numbers, types
