"""Packed references (see `references`), read in part: one question needs few of them."""

from __future__ import annotations

import zlib

from codeinfo.types import Reference

_BEFORE, _AFTER = "\t ", (" ", "\n", "(", "")


def used_names(packed: bytes) -> dict[str, int]:
    """Every name used in a file, with the first line that has it; much quicker than unpacking."""
    names: dict[str, int] = {}
    for row in unpacked(packed).split("\n")[1:]:
        line, _, written = row.split("\t")
        for name in written.replace("(", "").split(" "):
            if name not in names:
                names[name] = int(line)
    return names


def unpacked(packed: bytes) -> str:
    """The text of packed references; what looks into many files again and again keeps it."""
    return zlib.decompress(packed).decode("utf-8") if packed else ""


def references_to(text: str, name: str) -> list[Reference]:
    """The references to one name in an unpacked text, one for each line. Only the rows that have it are read."""
    found: list[Reference] = []
    body = text.find("\n")
    at = text.find(name, body) if body >= 0 else -1
    qualified: list[str] = []
    while at >= 0:
        end = at + len(name)
        if text[at - 1] not in _BEFORE or text[end : end + 1] not in _AFTER:
            at = text.find(name, end)
            continue
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        line, position, _ = text[text.rfind("\n", 0, at) + 1 : at].split("\t", 2)
        qualified = qualified or text[:body].split("\t")
        called = text.startswith("(", end) or text.find(f" {name}(", end, stop) >= 0
        within = qualified[int(position)] if position != "-1" else ""
        found.append(Reference(name, int(line), "call" if called else "use", within))
        at = text.find(name, stop)
    return found
