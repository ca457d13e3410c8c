"""Packs the uses of names in a file, and what names are bound to; `graph/uses.py` reads it.

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
from itertools import accumulate, chain

from codeinfo.cache import TokenCache
from codeinfo.index.syntax import Scan, Source
from codeinfo.languages import GRAMMARS
from codeinfo.model import Import
from codeinfo.tokens import blank_signs, gaps_for

_FASTEST = 1
_NAMES_PER_LINE = 2000  # a minified line does not need more
_TYPED_CALL = re.compile(r"([\w$]+)<[\w$\s,.|&\[\]<>'\"]*>\(")
_MAX_RECEIVER = 120  # characters
_MAX_BRACKETS = 3000  # characters between two brackets
_CLOSING = {")": "(", "]": "[", "}": "{"}
_WORD = re.compile(r"[\w$@]+")
_SIMPLE = re.compile(r"(?:(?:await|new|yield)\s+|[&*])?([\w$.]+(?:\([\w$.]*\))?)(?:\{.*\})?", re.DOTALL)
_MADE = re.compile(r"new\s+([\w$.]+)(?:\(.*\))?", re.DOTALL)
_BEFORE_VALUES = frozenset({"return", "await", "yield", "throw", "echo", "case", "else"})  # none of these is a function
_UNKNOWN_RECEIVER = "?"
_BEHIND = re.compile(r"[)\]}\"'`]\.")  # a member of something that is not a plain name


@lru_cache(maxsize=64)
def _uses(language: str) -> re.Pattern[str]:
    """Whole names are returned, never parts of one: `point.x` is a use of `point` alone."""
    return re.compile(rf"\.?(?:[\w$]++\.)*{GRAMMARS[language].word}\(?")


@lru_cache(maxsize=64)
def _ignored(language: str) -> frozenset[str]:
    keywords = GRAMMARS[language].keywords
    return keywords | {f"{keyword}(" for keyword in keywords}


_TOKENS_KNOWN = 50_000  # per language, some 10 MB


@lru_cache(maxsize=64)
def _token_uses(language: str) -> TokenCache[str]:
    """The uses in each token of a text with `_gaps`; empty in place of a keyword, which is not a use but takes a
    position."""
    find, ignored = _uses(language).findall, _ignored(language)
    return TokenCache(lambda token: ("" if use in ignored else use for use in find(token)), _TOKENS_KNOWN)


@lru_cache(maxsize=64)
def _gaps(language: str) -> bytes:
    """Placeholders for signs that no use can cross."""
    return gaps_for("_$.(\n" + "".join(sign for sign in "?!=~'-" if sign in GRAMMARS[language].word))


def _header(qualified: Iterable[str]) -> str:
    """Names in a row. A name written over two lines, as C++ operators are, must not look like a row of its own."""
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
    """The packed references of a file, whose comments, strings and names of definitions are masked. `within[line -
    1]` is a position in `qualified`, -1 outside any. `keys`: further uses by line."""
    uses_in = _token_uses(language).__getitem__
    text = _with_dots(_without_gaps(masked), GRAMMARS[language].members)
    loaded = {one.line for one in imports if not one.timing}
    timing = {f"{one.line}{one.timing[0]}": None for one in imports if one.timing and one.line not in loaded}
    rows = [" ".join(timing), _header(qualified)]
    lines, goes_on, has_typed_calls = text.split("\n"), False, ">(" in text
    lengths = list(accumulate(map(len, lines), initial=0))  # lengths of the preceding lines, without their ends
    for at, words in enumerate(blank_signs(text.replace("(", "( "), _gaps(language)).split("\n")):
        tokens = words.split()
        found = list(chain.from_iterable(map(uses_in, tokens))) if tokens else []
        if found:
            # Only a token that begins with a dot can follow something that is not a plain name.
            if goes_on or " ." in words or words[0] == ".":
                found = _attach_receivers(text, lines[at], lengths[at] + at, language, goes_on) or found
            if has_typed_calls and ">(" in lines[at]:
                called = set(_TYPED_CALL.findall(lines[at]))
                found = [f"{one}(" if one.rpartition(".")[2] in called else one for one in found]
            goes_on = words[-1] == "."
        if keys and at + 1 in keys:
            found += keys[at + 1]
        if found:
            names = dict.fromkeys(found)
            names.pop("", None)
            if names:
                written = " ".join(names if len(names) <= _NAMES_PER_LINE else list(names)[:_NAMES_PER_LINE])
                rows.append(f"{at + 1}\t{within[at]}\t{written}")
    if len(rows) == 2 and not bound and not timing:
        return b""
    return zlib.compress("\n".join((*rows, "", *bound)).encode("utf-8", "replace"), _FASTEST)


def _without_gaps(text: str) -> str:
    """Remove the space between a name and its bracket: `call (x)` is a call. Five times as fast as a regular
    expression, which would stop at every space of an indentation."""
    *before, last = text.split("(")
    for at, part in enumerate(before):
        if part[-1:] in (" ", "\t"):
            bare = part.rstrip(" \t")
            if bare and (bare[-1].isalnum() or bare[-1] in "_'?!"):
                before[at] = bare
    return "(".join((*before, last))


def _with_dots(text: str, members: Sequence[str]) -> str:
    """Normalise member operators to a dot; ranges and spreads are not members."""
    if ".." in text:
        text = text.replace("...", "   ").replace("..", "  ")
    if "?.(" in text:
        text = text.replace("?.(", "(")
    for written in (*members, "?.", "!."):
        if written != "." and written in text:
            text = text.replace(written, ".")
    return text


def _attach_receivers(text: str, line: str, offset: int, language: str, goes_on: bool) -> list[str]:
    """The uses of a line, those after a call or an index with what they belong to; empty in place of a keyword.
    Nothing if there is nothing that a use could follow."""
    if not (goes_on or _BEHIND.search(line) or line.lstrip().startswith(".")):
        return []
    found, ignored = [], _ignored(language)
    for match in _uses(language).finditer(line):
        use = match.group()
        if use[0] == ".":
            found.append(f"{_receiver(text, offset + match.start())}|{use}")
        elif goes_on and not line[: match.start()].strip():
            found.append(f"{_receiver(text, text.rindex('.', 0, offset))}|.{use}")
        else:
            found.append("" if use in ignored else use)
    return found


def _receiver(text: str, end: int) -> str:
    """What precedes a dot, without the arguments of its calls; a lone name in brackets is kept."""
    parts: list[str] = []
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        if not end:
            break
        suffix = ""
        while end and text[end - 1] in _CLOSING:
            opened = _find_opening(text, end - 1)
            if opened < 0:
                return _UNKNOWN_RECEIVER
            inside = text[opened + 1 : end - 1].strip()
            suffix = f"{text[opened]}{inside if inside.isidentifier() else ''}{text[end - 1]}" + suffix
            end = opened
            while end and text[end - 1] in " \t":
                end -= 1
        word = _WORD.match(text[max(0, end - _MAX_RECEIVER) : end][::-1])
        name = word.group()[::-1] if word else ""
        if (not name or name in _BEFORE_VALUES) and suffix:
            inner = _SIMPLE.fullmatch(inside) or _MADE.fullmatch(inside) if suffix.startswith("(") else None
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


def _find_opening(text: str, close: int) -> int:
    """The position of the bracket closed here; -1 if that is too far away."""
    sign, opening = text[close], _CLOSING[text[close]]
    first, at, inner = max(0, close - _MAX_BRACKETS), close, close
    while (at := text.rfind(opening, first, at)) >= 0:
        inner = text.rfind(sign, at, inner)  # each closing bracket in between takes an opening one
        if inner < 0:
            return at
    return -1


def bound_rows(found: Scan, source: Source, within: Sequence[int]) -> list[str]:
    """What names are bound to, one row each, see `graph/uses.py`."""
    rows = []
    for one in found.bound:
        line = source.line_of(one.offset)
        end = source.line_of(one.end) if one.end >= 0 else ""
        rows.append(f"{line}\t{end}\t{within[line - 1]}\t{one.name}\t{one.mark}{one.text}")
    return rows


def key_uses(found: Scan, source: Source) -> dict[int, list[str]]:
    """Fields named where a value of their type is written: `Pool{size: 3}`."""
    uses: dict[int, list[str]] = {}
    names: dict[str, str] = {}
    for start, end, owner in found.keys:
        if owner not in names:
            name = owner.lstrip("&*").replace("::", ".")
            names[owner] = name if name.replace(".", "").isidentifier() else ""
        if names[owner] and end - start > 1:
            uses.setdefault(source.line_of(start), []).append(f"{names[owner]}{{}}|.{source.text[start:end]}")
    return uses
