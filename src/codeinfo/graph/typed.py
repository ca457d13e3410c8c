"""How a line gives a variable its type. The expressions know no name, so that none is compiled for each variable: the
name is looked for first, and they are tried before and behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_KIND = r"['\"]?(?:(?:\w+\.)?(?:Optional|Awaitable)\[|&|\*|mut\s|dyn\s|const\s)*['\"]?([A-Z_a-z][\w.:]*)"
_MADE = r"(?:await\s+|new\s+|&)?([A-Z_a-z][\w.:]*)\s*[({]"
_BEHIND = re.compile(rf"\s*:\s*{_KIND}|\s*:?=\s*{_MADE}")
_GO_PARAMETER = re.compile(r"\s+\*?([A-Za-z_][\w.]*)\s*[,)]")
_WITH = re.compile(r"\bwith\s+([A-Z_a-z][\w.]*)\(.*\)\s+as\s+\Z")
_TYPE_FIRST = re.compile(r"\b([A-Z]\w*)(?:<[^<>]*>)?[&*\s]\s*\$?\Z")
_DECLARED = re.compile(r"\s*[=;,):]")
_TYPE_FIRST_LANGUAGES = frozenset({"java", "csharp", "cpp", "c", "php"})
_COPIED = re.compile(r"\s*=\s*(\w+)\s*;?\s*(?:#.*|//.*)?\Z")
_FAR = 400  # characters before a name: looking further would take for ever in a giant line

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
    for start, end in _occurrences(line, name):
        before = line[start - 1 : start]
        inside_word = _is_word(before)
        if not inside_word and before != "." and (match := _BEHIND.match(line, end)):
            yield start, match.group(1) or match.group(2)
        if language == "python":
            if (
                before.isspace()
                and not _is_word(line[end : end + 1])
                and (match := _WITH.search(line, max(0, start - _FAR), start))
            ):
                yield match.start(), match.group(1)
        elif language in _TYPE_FIRST_LANGUAGES:
            if (
                not inside_word
                and _DECLARED.match(line, end)
                and (match := _TYPE_FIRST.search(line, max(0, start - _FAR), start))
            ):
                yield match.start(), match.group(1)
        elif language == "go" and not inside_word and (match := _GO_PARAMETER.match(line, end)):
            yield start, match.group(1)


def _occurrences(line: str, name: str) -> Iterator[tuple[int, int]]:
    at = line.find(name)
    while at >= 0:
        yield at, at + len(name)
        at = line.find(name, at + 1)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
