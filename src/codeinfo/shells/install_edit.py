"""A server's entry in a client's configuration: read, inserted and taken out again, nothing else of the file touched.

JSON may have comments and trailing commas, as editors allow them. An insertion is a place and a text, which are kept so
that taking it out restores the file to the byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from codeinfo.config import parse_toml
from codeinfo.errors import UsageError

# A string, a comment, or a comma that only a closing bracket follows.
_STRING, _COMMENT = r'("(?:[^"\\\n]|\\.)*")', r"//[^\n]*|/\*.*?\*/"
_COMMENTS = re.compile(f"{_STRING}|{_COMMENT}", re.DOTALL)
_LAST_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_SPACE = re.compile(r"[\s,:]*")
_DECODER = json.JSONDecoder()


class Member(Struct, frozen=True):
    """A key of an object: where it starts, and where its value starts and ends."""

    key: str
    start: int
    value: int
    end: int


class JsonObject(Struct, frozen=True):
    """An object's braces and members; members of members are read when they are asked for."""

    text: str  # strict JSON
    start: int  # of the opening brace
    end: int  # of the closing one
    members: tuple[Member, ...]

    def member(self, key: str) -> Member | None:
        return next((member for member in self.members if member.key == key), None)

    def inner(self, member: Member) -> JsonObject:
        if self.text[member.value] != "{":
            raise UsageError(f"{member.key} is not an object", next_step="Correct the file, or add the server by hand")
        return _object(self.text, member.value)


def _blanked(text: str, parts: re.Pattern[str]) -> str:
    """The text with these parts made blank: all else stays where it is."""
    return parts.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)


def _read(text: str) -> JsonObject | None:
    """The object that a file holds; None for one without content."""
    strict = _blanked(_blanked(text.replace("\ufeff", " ", 1), _COMMENTS), _LAST_COMMAS)
    start = len(strict) - len(strict.lstrip())
    if start == len(strict):
        return None
    try:
        if not isinstance(json.loads(strict), dict):
            raise ValueError
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", strict.count("\n", 0, start) + 1)
        raise UsageError(f"line {line} is not valid JSON", next_step="Correct it, or add the server by hand") from None
    return _object(strict, start)


def _object(strict: str, start: int) -> JsonObject:
    members, at = list[Member](), _skip(strict, start + 1)
    while strict[at] != "}":
        key, end = _DECODER.raw_decode(strict, at)
        value = _skip(strict, end)
        _, end = _DECODER.raw_decode(strict, value)
        members.append(Member(key, at, value, end))
        at = _skip(strict, end)
    return JsonObject(strict, start, at, tuple(members))


def _skip(strict: str, at: int) -> int:
    """Past white space and the signs between members."""
    found = _SPACE.match(strict, at)
    assert found is not None
    return found.end()


def json_value(text: str, keys: Sequence[str]) -> Any:
    """What stands under these keys; None where nothing does."""
    found, member = _read(text), None
    for key in keys:
        found = found.inner(member) if found and member else found
        member = found.member(key) if found else None
        if member is None:
            return None
    return json.loads(found.text[member.value : member.end]) if found and member else None


# --- inserting into JSON ---------------------------------------------------------------------------------------------


def json_insertion(text: str, keys: tuple[str, str], value: Any) -> tuple[int, str]:
    """Where and what to insert so that `keys[0]` has a member `keys[1]` with `value`; there must be none yet."""
    newline = "\r\n" if "\r\n" in text else "\n"
    step = _indent(text)
    found = _read(text)
    if found is None:
        content = json.dumps({keys[0]: {keys[1]: value}}, indent=step, ensure_ascii=False) + "\n"
        return len(text), content.replace("\n", newline)
    section = found.member(keys[0])
    if section is None:
        at, lead, trail = _place(text, found, step, 1)
        entry = {keys[1]: value}
        return at, lead + _entry(keys[0], entry, step, 1, newline) + trail.replace("\n", newline)
    inner = found.inner(section)
    at, lead, trail = _place(text, inner, step, 2)
    return at, lead + _entry(keys[1], value, step, 2, newline) + trail.replace("\n", newline)


def _place(text: str, target: JsonObject, step: str, depth: int) -> tuple[int, str, str]:
    """Where a first member goes, and what stands before and after it. A comment above the member that was first stays
    above it, and one behind the brace stays there."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not target.members:
        after = target.start + 1
        return (
            after,
            newline + step * depth,
            newline + step * (depth - 1) if "\n" not in text[after : target.end] else "",
        )
    line_end = text.find("\n", target.start)
    if 0 <= line_end < target.members[0].start:
        return line_end + 1, step * depth, ",\n"
    return target.start + 1, "", ", "


def _entry(key: str, value: Any, step: str, depth: int, newline: str) -> str:
    content = json.dumps({key: value}, indent=step, ensure_ascii=False)
    lines = content.splitlines()[1:-1]
    shallow = [line.removeprefix(step) for line in lines]
    return (newline + step * depth).join(shallow)


def _indent(text: str) -> str:
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found.group(1) if found and not found.group(1).startswith(" " * 9) else "  "


# --- removing from JSON ----------------------------------------------------------------------------------------------


def json_without(text: str, keys: tuple[str, str]) -> str | None:
    """The file without `keys[1]`, its comma and the white space before it; None where it is not there."""
    found = _read(text)
    section = found.member(keys[0]) if found else None
    if found is None or section is None or text[section.value] != "{":
        return None
    inner = found.inner(section)
    member = inner.member(keys[1])
    if member is None:
        return None
    at = inner.members.index(member)
    plain = _blanked(text, _COMMENTS)
    start, end = len(text[: member.start].rstrip()), member.end
    if plain[end:].lstrip().startswith(","):
        end = plain.index(",", end) + 1
    elif at > 0:  # the last one: the comma before it goes as well
        start = plain.index(",", inner.members[at - 1].end)
    return text[:start] + text[end:]


# --- TOML ------------------------------------------------------------------------------------------------------------


def toml_value(text: str, path: Path, keys: tuple[str, str]) -> Any:
    section = parse_toml(text, path).get(keys[0], {})
    return section.get(keys[1]) if isinstance(section, Mapping) else None


def toml_insertion(text: str, path: Path, keys: tuple[str, str], value: Mapping[str, Any]) -> tuple[int, str]:
    """The server's table, at the end of the file: the rest stays as its user wrote it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    # JSON's texts and lists of texts are TOML's too.
    lines = [
        f"[{keys[0]}.{keys[1]}]",
        *(f"{name} = {json.dumps(one, ensure_ascii=False)}" for name, one in value.items()),
    ]
    added = gap + newline.join(lines) + newline
    try:
        written = toml_value(text + added, path, keys)
    except UsageError:
        written = None
    if written != value:
        raise UsageError(f"{keys[0]} is written in a way that cannot be added to", next_step="Add the server by hand")
    return len(text), added


def toml_without(text: str, keys: tuple[str, str]) -> str | None:
    """The file without the server's table and its sub-tables; None where it has none."""
    import tomlkit

    document = tomlkit.parse(text)
    section = document.get(keys[0])
    if not isinstance(section, MutableMapping) or keys[1] not in section:
        return None
    del section[keys[1]]
    return tomlkit.dumps(document)
