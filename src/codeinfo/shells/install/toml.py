"""A server's table at the end of a TOML file; the rest of the file is not touched."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codeinfo.config import parse_toml
from codeinfo.errors import UsageError


def value_of(text: str, path: Path, keys: tuple[str, str]) -> Any:
    section = parse_toml(text, path).get(keys[0], {})
    return section.get(keys[1]) if isinstance(section, Mapping) else None


def insertion(text: str, path: Path, keys: tuple[str, str], value: Mapping[str, Any]) -> tuple[int, str]:
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    # JSON's texts and lists of texts are TOML's too.
    lines = [
        f"[{keys[0]}.{keys[1]}]",
        *(f"{name} = {json.dumps(one, ensure_ascii=False)}" for name, one in value.items()),
    ]
    added = gap + newline.join(lines) + newline
    if value_of_or_none(text + added, path, keys) != value:
        raise UsageError(f"{keys[0]} is written in a way that cannot be added to", next_step="Add the server by hand")
    return len(text), added


def value_of_or_none(text: str, path: Path, keys: tuple[str, str]) -> Any:
    try:
        return value_of(text, path, keys)
    except UsageError:
        return None


def removal(text: str, keys: tuple[str, str]) -> tuple[int, int] | None:
    """The table with its sub-tables, up to the next other header."""
    name = rf"{re.escape(keys[0])}\s*\.\s*(?:{re.escape(keys[1])}|\"{re.escape(keys[1])}\")"
    header = re.compile(rf"^[ \t]*\[\s*{name}\s*(?:\.[^\]\n]*)?\]", re.MULTILINE)
    first = header.search(text)
    if first is None:
        return None
    end = first.end()
    while (following := re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, end)) is not None:
        if not header.match(text, following.start()):
            return first.start(), following.start()
        end = following.end()
    return first.start(), len(text)
