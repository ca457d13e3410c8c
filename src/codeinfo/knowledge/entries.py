"""Configuration files as entries with their lines, read line by line: parsers do not keep the line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Entry(NamedTuple):
    line: int
    section: str
    key: str
    value: str


_SECTION = re.compile(r"\s*\[+\s*(?P<name>[^\]\n]+?)\s*\]+\s*(?:[#;].*)?")
_ASSIGNMENT = re.compile(r"\s*(?P<key>[\w.\-/\"'@]+)\s*[=:]\s*(?P<value>.*)")
_YAML = re.compile(r"(?P<indent>\s*)(?P<dash>-\s+)?(?P<key>[\w.\-/\"'@]+):(?:\s+(?P<value>.*))?")
_YAML_ITEM = re.compile(r"(?P<indent>\s*)-\s+(?P<value>[^\s#].*)")
_JSON = re.compile(r"\s*\"?(?P<key>[\w.\-/@ $]+)\"?\s*:\s*(?P<value>[^\n]*)")
_PROPERTY = re.compile(r"<(?:property|module)\s+name=\"(?P<key>[^\"]+)\"(?:\s+value=\"(?P<value>[^\"]*)\")?")
_MAX_VALUE = 300
_MAX_JOINED = 60  # lines of one list


def ini_entries(text: str) -> Iterator[Entry]:
    """INI and TOML: sections and assignments; a list over several lines is one entry."""
    section = ""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if found := _SECTION.fullmatch(line):
            section = found["name"]
        elif found := _ASSIGNMENT.fullmatch(line):
            value, first = found["value"].strip(), number
            while _is_open(value) and number < len(lines) and number - first < _MAX_JOINED:
                value = f"{value} {_without_comment(lines[number])}"
                number += 1
            yield Entry(first, section, found["key"].strip("\"'"), value[:_MAX_VALUE])


def _is_open(value: str) -> bool:
    return value.startswith(("[", "{")) and value.count("[") + value.count("{") > value.count("]") + value.count("}")


def _without_comment(line: str) -> str:
    return line.partition(" #")[0].strip() if not line.lstrip().startswith("#") else ""


def yaml_entries(text: str) -> Iterator[Entry]:
    """YAML: a key's section is the path of keys around it; items of a list are entries of their key."""
    around: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if found := _YAML.fullmatch(line):
            indent = len(found["indent"]) + len(found["dash"] or "")
            while around and around[-1][0] >= indent:
                around.pop()
            key, value = found["key"].strip("\"'"), (found["value"] or "").partition(" #")[0].strip()
            if value:
                yield Entry(number, ".".join(name for _, name in around), key, value[:_MAX_VALUE])
            else:
                around.append((indent, key))
        elif (found := _YAML_ITEM.fullmatch(line)) and around:
            section = ".".join(name for _, name in around[:-1])
            yield Entry(number, section, around[-1][1], found["value"].partition(" #")[0].strip()[:_MAX_VALUE])


def json_entries(text: str) -> Iterator[Entry]:
    """JSON and the objects of JavaScript configurations, one key a line as people write them."""
    around: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        code = line.split("//")[0] if '"' not in line else line
        found = _JSON.match(code)
        value = found["value"].strip().rstrip(",") if found else ""
        if found and value and value not in ("{", "["):
            yield Entry(number, ".".join(filter(None, around)), found["key"].strip(), value[:_MAX_VALUE])
        opened = code.count("{") - code.count("}")
        around += [found["key"].strip() if found else ""] * max(opened, 0)
        del around[len(around) + min(opened, 0) :]


def xml_entries(text: str) -> Iterator[Entry]:
    """Checkstyle: modules, and their properties."""
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        for found in _PROPERTY.finditer(line):
            if found["value"] is None:
                section = found["key"]
                yield Entry(number, "", section, "on")
            else:
                yield Entry(number, section, found["key"], found["value"][:_MAX_VALUE])
