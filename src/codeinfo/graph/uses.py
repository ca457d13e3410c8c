"""Reading packed references (see `index/symbols.py`), mostly in part: one question needs few of them."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping

from codeinfo.model import Reference

_BEFORE, _AFTER = "\t ", (" ", "\n", "(", "")


class UsedNames(Mapping[str, int]):
    """Every name used in a file, with the first line that has it. Which names there are is known at once; a line is
    looked up when somebody asks for it, which is rare. What stands on the lines `without`, as imports do, is no use;
    what follows one of the `qualifiers`, as a package's name, is known by both (`errors.New`)."""

    def __init__(self, packed: bytes, without: Collection[int] = (), qualifiers: Collection[str] = ()) -> None:
        self._text = unpack(packed)
        self._without = frozenset(without)
        _, _, rows = self._text.partition("\n")
        if self._without:
            rows = _rows_without(rows, self._without)
        words = rows.replace("(", "").split()  # numbers of lines and positions among them
        if qualifiers:
            before = ["", *words]
            words = [
                f"{first}.{word}" if first in qualifiers else word for first, word in zip(before, words, strict=False)
            ]
        self._words = frozenset(words)

    def __contains__(self, name: object) -> bool:
        return name in self._words

    def __getitem__(self, name: str) -> int:
        found = references_to(self._text, name) if name in self._words else []
        lines = [reference.line for reference in found if reference.line not in self._without]
        if not lines:
            raise KeyError(name)
        return lines[0]

    def __iter__(self) -> Iterator[str]:
        return (word for word in self._words if not word.lstrip("-").isdecimal())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self._words)


def _rows_without(rows: str, lines: Collection[int]) -> str:
    """Only the rows up to the last of those lines are looked at: imports stand at the beginning."""
    kept, start, last = [], 0, max(lines)
    while start < len(rows):
        end = rows.find("\n", start)
        end = len(rows) if end < 0 else end
        number = int(rows[start : rows.index("\t", start)])
        if number > last:
            break
        if number not in lines:
            kept.append(rows[start:end])
        start = end + 1
    return "\n".join((*kept, rows[start:]))


def unpack(packed: bytes) -> str:
    """The text of packed references, which most functions here read."""
    return zlib.decompress(packed).decode("utf-8") if packed else ""


def dotted_names(text: str) -> dict[str, int]:
    """Names of capitalised parts, as Elixir writes its modules, each with the first line that has it; a name is only
    certain where no further capitalised word follows, since a row has each word once."""
    found: dict[str, int] = {}
    for row in text.split("\n")[1:]:
        line, _, words = row.split("\t", 2)
        parts: list[str] = []
        for word in (*words.split(" "), ""):
            if word[:1].isupper() and not word.endswith("("):
                parts.append(word)
            else:
                if parts:
                    found.setdefault(".".join(parts), int(line))
                parts = []
    return found


def all_references(text: str) -> Iterator[Reference]:
    """One reference for each name and line; a name that is called and used in a line is a call."""
    header, *rows = text.split("\n")
    qualified = header.split("\t")
    for row in rows:
        line, position, names = row.split("\t")
        within = qualified[int(position)] if position != "-1" else ""
        written = names.split(" ")
        called = {name[:-1] for name in written if name.endswith("(")}
        for name in dict.fromkeys(name.rstrip("(") for name in written):
            yield Reference(name, int(line), "call" if name in called else "use", within)


def references_to(text: str, name: str) -> list[Reference]:
    """The references to one name in an unpack text, one for each line. Only the rows that have it are read."""
    found: list[Reference] = []
    body = text.find("\n")
    at = text.find(name, body) if name and body >= 0 else -1  # nothing is found everywhere, without end
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
