"""Packed references (see `references`), read in part: one question needs few of them."""

from __future__ import annotations

import zlib

from codeinfo.types import Reference


def used_names(packed: bytes) -> dict[str, int]:
    """Every name used in a file, with the first line that has it; much quicker than unpacking."""
    names: dict[str, int] = {}
    line = 0
    for row in _rows(packed):
        distance, _, written = row.split("\t")
        line += int(distance)
        for name in written.replace("(", "").split(" "):
            names.setdefault(name, line)
    return names


def references_to(packed: bytes, name: str) -> list[Reference]:
    """The references to one name."""
    found: list[Reference] = []
    if not packed:
        return found
    text = zlib.decompress(packed).decode("utf-8")
    if name not in text:
        return found
    header, *rows = text.split("\n")
    qualified = header.split("\t")
    line = 0
    for row in rows:
        distance, position, written = row.split("\t")
        line += int(distance)
        if name in written:
            names = written.split(" ")
            called = f"{name}(" in names
            if called or name in names:
                within = qualified[int(position)] if position != "-1" else ""
                found.append(Reference(name, line, "call" if called else "use", within))
    return found


def _rows(packed: bytes) -> list[str]:
    return zlib.decompress(packed).decode("utf-8").split("\n")[1:] if packed else []
