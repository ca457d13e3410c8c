"""Reading packed references (see `index/parse.py`), mostly in part: one question needs few of them."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping

from codeinfo.model import Reference

_BEFORE, _AFTER = "\t .", (" ", "\n", "(", ".", "")
_SELF = frozenset({"self", "this", "cls", "super", "Self", "static", "parent", "base"})
_FIRST_BYTES = 1000  # of the text, that have when imports take effect


class UsedNames(Mapping[str, int]):
    """Every name used in a file, with the first line that has it. Which names there are is known at once; a line is
    looked up when somebody asks for it, which is rare. What stands on the lines `without`, as imports do, is no use;
    what follows one of the `qualifiers`, as a package's name, is known by both (`errors.New`)."""

    def __init__(self, packed: bytes, without: Collection[int] = (), qualifiers: Collection[str] = ()) -> None:
        self._text = unpack(packed)[0]
        self._without = frozenset(without)
        _, _, rows = self._text.partition("\n")
        if self._without:
            rows = _rows_without(rows, self._without)
        words = rows.replace("(", " ").replace(".", " ").replace("|", " ").split()  # numbers of lines among them
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


def unpack(packed: bytes) -> tuple[str, str]:
    """The uses, under the names of the scopes they are in, and what names are bound to."""
    if not packed:
        return "", ""
    _, _, text = zlib.decompress(packed).decode("utf-8").partition("\n")
    header, _, rest = text.partition("\n")
    if rest.startswith("\n"):  # nothing is used
        return header, rest[1:]
    rows, _, bound = rest.partition("\n\n")
    return f"{header}\n{rows.removesuffix(chr(10))}" if rows else header, bound


def import_timing(packed: bytes) -> dict[int, str]:
    """When the imports on some lines take effect: `lazy`, or for `types` only. All others do when a file is loaded."""
    if not packed:
        return {}
    first, _, _ = zlib.decompressobj().decompress(packed, _FIRST_BYTES).partition(b"\n")
    marked = first.decode("utf-8", "replace").split()
    return {int(one[:-1]): "types" if one[-1] == "t" else "lazy" for one in marked if one[:-1].isdecimal()}


def dotted_names(text: str, imports: Collection[int]) -> dict[str, int]:
    """Names of capitalised parts, as Elixir writes its modules, each with the first line that has it. What stands on a
    line of `imports` is an import's own: `alias Shop.Store.{Price, Tax}` uses no `Shop.Store`."""
    found: dict[str, int] = {}
    for row in text.split("\n")[1:]:
        line, _, words = row.split("\t", 2)
        if int(line) in imports:
            continue
        for word in words.split(" "):
            parts = []
            for part in word.rpartition("|")[2].strip(".").split("."):
                if not part[:1].isupper() or part.endswith("("):
                    break
                parts.append(part)
            if parts:
                found.setdefault(".".join(parts), int(line))
    return found


def all_references(text: str) -> Iterator[Reference]:
    """One reference for each name, receiver and line."""
    header, *rows = text.split("\n")
    qualified = header.split("\t")
    for row in rows:
        line, position, uses = row.split("\t")
        within = qualified[int(position)] if position != "-1" else ""
        known: dict[tuple[str, str], str] = {}
        for use in uses.split(" "):
            receiver, _, chain = use.rpartition("|")
            names = chain.lstrip(".").split(".")
            for name in names:
                plain = name.removesuffix("(")
                if name != plain or known.get((plain, receiver)) is None:
                    known[plain, receiver] = "call" if name != plain else "use"
                receiver = f"{receiver}.{plain}" if receiver else plain
        for (name, receiver), role in known.items():
            if len(name) > 1 and name not in _SELF and name[0] != "$":
                yield Reference(name, int(line), role, within, receiver)


def references_to(text: str, name: str) -> list[Reference]:
    """The references to one name in an unpacked text, one for each line and receiver; rows without it are skipped."""
    found: dict[tuple[int, str], Reference] = {}
    body = text.find("\n")
    at = text.find(name, body) if name and body >= 0 else -1  # nothing is found everywhere, without end
    qualified: list[str] = []
    while at >= 0:
        end = at + len(name)
        if text[at - 1] not in _BEFORE or text[end : end + 1] not in _AFTER:
            at = text.find(name, end)
            continue
        row = text.rfind("\n", 0, at) + 1
        start = max(text.rfind(" ", row, at), text.rfind("\t", row, at)) + 1
        stop = min(place for place in (text.find(" ", end), text.find("\n", end), len(text)) if place >= 0)
        if text.find("|", end, stop) < 0:  # else it only says whose the rest is
            line, position, _ = text[row:at].split("\t", 2)
            qualified = qualified or text[:body].split("\t")
            within = qualified[int(position)] if position != "-1" else ""
            receiver = text[start:at].replace("|", "").rstrip(".")
            role = "call" if text[end : end + 1] == "(" else "use"
            key = (int(line), receiver)
            if key not in found or role == "call":
                found[key] = Reference(name, int(line), role, within, receiver)
        at = text.find(name, end)
    return list(found.values())
