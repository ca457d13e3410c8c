"""Packs the uses of names in a file, and what names are bound to. `graph/uses.py` and `graph/bindings.py` read it.

Uses outnumber everything else in a file, so they travel and rest packed, as text of four parts, compressed:

    when imports take effect (line and a letter each), on one line;
    the qualified names of the definitions that are scopes, on one line;
    one row for each line of code: its number, position of the enclosing definition, the uses;
    behind an empty line, what names are bound to.

A use is written as in the code: `self.pool.get(` uses `pool` of `self` and calls `get` of `self.pool`. What stands
before a `|` is only there to say whose the rest is: `open_pool()|.get(`. A row says everything by itself, so that one
name can be looked up without reading the rows before it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from codeinfo.index.syntax import Scan, Source
from codeinfo.languages import GRAMMARS
from codeinfo.model import Import

_FASTEST = 1
_NAMES_PER_LINE = 2000  # a minified line does not need more
_TYPED_CALL = re.compile(r"([\w$]+)<[\w$\s,.|&\[\]<>'\"]*>\(")
_MAX_RECEIVER = 120  # characters
_MAX_BRACKETS = 3000  # characters between two brackets
_CLOSING = {")": "(", "]": "[", "}": "{"}
_WORD = re.compile(r"[\w$@]+")
_SIMPLE = re.compile(r"(?:(?:await|new|yield)\s+|[&*])?([\w$.]+(?:\([\w$.]*\))?)(?:\{.*\})?", re.DOTALL)
_UNKNOWN_RECEIVER = "?"
_BEHIND = re.compile(r"[)\]}\"'`]\.")  # a member of what is no plain name


@lru_cache(maxsize=64)
def _uses(language: str) -> re.Pattern[str]:
    """Whole names are given back, never parts of one: `point.x` is a use of `point` alone."""
    return re.compile(rf"\.?(?:[\w$]++\.)*{GRAMMARS[language].word}\(?")


@lru_cache(maxsize=64)
def _ignored(language: str) -> frozenset[str]:
    keywords = GRAMMARS[language].keywords
    return keywords | {f"{keyword}(" for keyword in keywords}


def _header(qualified: Iterable[str]) -> str:
    """Names in a row. One written over two lines, as C++ operators are, must not look like a row of its own."""
    return "\t".join(" ".join(name.split()) for name in qualified)


def pack_code(
    masked: str,
    language: str,
    within: Sequence[int],
    qualified: Sequence[str],
    keys: Mapping[int, list[str]] | None = None,
    bound: Sequence[str] = (),
    imports: Sequence[Import] = (),
) -> bytes:
    """The packed references of a file, whose comments, strings and names of definitions are masked.
    `within[line - 1]` is a position in `qualified`, -1 outside of any. `keys`: further uses by line."""
    find, ignored = _uses(language).findall, _ignored(language)
    text = _with_dots(_without_gaps(masked), GRAMMARS[language].members)
    loaded = {one.line for one in imports if not one.timing}
    timing = {f"{one.line}{one.timing[0]}": None for one in imports if one.timing and one.line not in loaded}
    rows = [" ".join(timing), _header(qualified)]
    offset, goes_on = 0, False
    for number, line in enumerate(text.split("\n"), 1):
        found = find(line)
        if found:
            if goes_on or _BEHIND.search(line) or line.lstrip()[:1] == ".":
                found = _received(text, line, offset, _uses(language), goes_on)
            if ">(" in line:
                called = set(_TYPED_CALL.findall(line))
                found = [f"{one}(" if one.rpartition(".")[2] in called else one for one in found]
            goes_on = line.endswith(".")
            if keys and number in keys:
                found += keys[number]
            names = [name for name in dict.fromkeys(found) if name not in ignored]
            if names:
                rows.append(f"{number}\t{within[number - 1]}\t{' '.join(names[:_NAMES_PER_LINE])}")
        elif keys and number in keys:
            rows.append(f"{number}\t{within[number - 1]}\t{' '.join(dict.fromkeys(keys[number]))}")
        offset += len(line) + 1
    if len(rows) == 2 and not bound and not timing:
        return b""
    return zlib.compress("\n".join((*rows, "", *bound)).encode("utf-8", "replace"), _FASTEST)


def _without_gaps(text: str) -> str:
    """A name and the bracket behind it next to each other: `call (x)` is a call. Five times as quick as an expression,
    which would stop at every space of an indentation."""
    *before, last = text.split("(")
    for at, part in enumerate(before):
        if part[-1:] in (" ", "\t"):
            bare = part.rstrip(" \t")
            if bare and (bare[-1].isalnum() or bare[-1] in "_'?!"):
                before[at] = bare
    return "(".join((*before, last))


def _with_dots(text: str, members: Sequence[str]) -> str:
    """Whatever stands between a thing and its member as a dot; ranges and spreads are none."""
    if ".." in text:
        text = text.replace("...", "   ").replace("..", "  ")
    if "?.(" in text:
        text = text.replace("?.(", "(")
    for written in (*members, "?.", "!."):
        if written != "." and written in text:
            text = text.replace(written, ".")
    return text


def _received(text: str, line: str, offset: int, uses: re.Pattern[str], goes_on: bool) -> list[str]:
    """The uses of a line, those behind a call or an index with what they belong to."""
    found = []
    for match in uses.finditer(line):
        use = match.group()
        if use[0] == ".":
            found.append(f"{_receiver(text, offset + match.start())}|{use}")
        elif goes_on and not line[: match.start()].strip():
            found.append(f"{_receiver(text, text.rindex('.', 0, offset))}|.{use}")
        else:
            found.append(use)
    return found


def _receiver(text: str, end: int) -> str:
    """What stands before a dot, without the arguments of its calls; a lone name in brackets is kept."""
    parts: list[str] = []
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        if not end:
            break
        suffix = ""
        while end and text[end - 1] in _CLOSING:
            opened = _opened(text, end - 1)
            if opened < 0:
                return _UNKNOWN_RECEIVER
            inside = text[opened + 1 : end - 1].strip()
            suffix = f"{text[opened]}{inside if inside.isidentifier() else ''}{text[end - 1]}" + suffix
            end = opened
            while end and text[end - 1] in " \t":
                end -= 1
        word = _WORD.match(text[max(0, end - _MAX_RECEIVER) : end][::-1])
        name = word.group()[::-1] if word else ""
        if not name and suffix:
            inner = _SIMPLE.fullmatch(inside) if suffix.startswith("(") else None
            parts.append(inner.group(1) if inner else _UNKNOWN_RECEIVER)
            break
        if not name:
            parts.append('""' if text[end - 1] in "\"'`" else _UNKNOWN_RECEIVER)
            break
        parts.append(name + suffix)
        end -= len(name)
        if text[end - 1 : end] != ".":
            before = text[max(0, end - _MAX_RECEIVER) : end].rstrip()
            if not before.endswith("."):
                break
            end = end - (len(text[max(0, end - _MAX_RECEIVER) : end]) - len(before))
        end -= 1
    whole = ".".join(reversed(parts))
    return whole if parts and len(whole) <= _MAX_RECEIVER and _UNKNOWN_RECEIVER not in whole else _UNKNOWN_RECEIVER


def _opened(text: str, close: int) -> int:
    """Where the bracket was opened that closes there; -1 where that is too far off."""
    sign, opening = text[close], _CLOSING[text[close]]
    first, at, inner = max(0, close - _MAX_BRACKETS), close, close
    while (at := text.rfind(opening, first, at)) >= 0:
        inner = text.rfind(sign, at, inner)  # each that closes in between takes one that opens
        if inner < 0:
            return at
    return -1


def bound_rows(found: Scan, source: Source, within: Sequence[int]) -> list[str]:
    """What names are bound to, one row each, see `graph/bindings.py`."""
    rows = []
    for one in found.bound:
        line = source.line_of(one.offset)
        end = source.line_of(one.end) if one.end >= 0 else ""
        rows.append(f"{line}\t{end}\t{within[line - 1]}\t{one.name}\t{one.mark}{one.text}")
    return rows


def key_uses(found: Scan, source: Source) -> dict[int, list[str]]:
    """Fields that are named where a value of their type is written: `Pool{size: 3}`."""
    uses: dict[int, list[str]] = {}
    for start, end, owner in found.keys:
        name = owner.lstrip("&*").replace("::", ".")
        if name and end - start > 1 and name.replace(".", "").isidentifier():
            uses.setdefault(source.line_of(start), []).append(f"{name}{{}}|.{source.text[start:end]}")
    return uses
