"""What files define in languages without a syntax tree, found by patterns (languages/outlines.tsv). Where a definition
ends is told by indentation and brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.index.syntax import Source
from codeinfo.languages import OutlineRules, find_comments, outline_rules
from codeinfo.model import MAX_SIGNATURE, Definition, symbol_kind

_MAX_LINE = 1000  # characters; a longer line is data
_MAX_DOC = 200
_MEMBERS = frozenset({"method", "field"})
_LINE = re.compile(r"[^\n]+")
# What goes on with a block at the indentation of its first line.
_GOES_ON = re.compile(
    r"\s*(?:[{}()\[\]]|(?i:begin|is|do|then|else|elif|elsif|elseif|rescue|ensure|except|catch|finally|fi|done|esac"
    r"|end(?:if|function|macro|sub|while|for|foreach|proc)?)\b)"
)
_CLOSES = re.compile(r"\s*(?:[})\]]|(?i:end))")
_COMMENT_MARKS = re.compile(r'^[\s/*#!;%|^<>"\'{-]+|[\s*/"\'}-]+$')
_MARKUP = re.compile(r"</?(?:summary|remarks|para|p|inheritdoc)\b[^>]*>|[@\\](?:brief|dev|notice)\b")


class Symbol(Struct):
    """A definition plus what chunks and references need."""

    definition: Definition
    first_line: int  # of the whole node; the definition itself starts at the line of its name
    name_spans: list[tuple[int, int]]  # one per clause
    parent: int  # position in the list, -1 at the top level
    is_scope: bool


class _Match(NamedTuple):
    line: int
    kind: str
    name: str
    owner: str
    end: re.Pattern[str] | None


class _Text(NamedTuple):
    """A file without its comments."""

    code: str  # as long as the text, with blanks for comments and for lines that are data
    lines: Sequence[str]  # of the code
    commented: AbstractSet[int]  # lines that begin with a comment or are inside one


def find_outline(source: Source, language: str) -> list[Symbol]:
    """All definitions, enclosing ones before enclosed ones."""
    rules = outline_rules(language)
    if rules is None:
        return []
    text = _read_text(source, language)
    matches = _find_matches(text.code, source, rules)
    kinds = {match.line: match.kind for match in matches}
    symbols: list[Symbol] = []
    open_symbols: list[int] = []  # the positions of the definitions around a line, the innermost last
    for match in matches:
        while open_symbols and symbols[open_symbols[-1]].definition.end_line < match.line:
            open_symbols.pop()
        parent = open_symbols[-1] if open_symbols else -1
        outer = symbols[parent].definition if parent >= 0 else None
        is_member = outer is not None and symbol_kind(outer.kind).is_container
        if not is_member and (outer is not None or match.kind in _MEMBERS):
            continue  # local to a function, or no definition
        last = _end_of(match, text.lines, kinds)
        if outer is not None:
            last = min(last, outer.end_line)
        first = match.line
        while first - 1 in text.commented:
            first -= 1
        doc = first_words(source.between(first, match.line - 1)) if first < match.line else ""
        definition = _define(match, last, outer, doc, text.lines[match.line - 1])
        if symbols and continues(symbols[-1].definition, definition):
            symbols[-1].definition = replace(symbols[-1].definition, end_line=last)
            continue
        kind = symbol_kind(definition.kind)
        symbols.append(Symbol(definition, first, [], parent, kind.is_container or kind.is_callable))
        open_symbols.append(len(symbols) - 1)
    return symbols


def first_words(comment: str) -> str:
    """The first meaningful line of a comment, without its markers."""
    for line in comment.splitlines():
        words = "" if line.startswith("#!") else _COMMENT_MARKS.sub("", _MARKUP.sub("", line))
        if words and not words.startswith(("@", "doc ", "moduledoc", "autoload")):
            return words[:_MAX_DOC]
    return ""


def _read_text(source: Source, language: str) -> _Text:
    parts: list[str] = []
    position, commented = 0, set[int]()
    for start, end in find_comments(source.text, language):
        first, last = source.line_of(start), source.line_of(end)
        starts_line = not source.text[source.line_start(first) : start].strip()
        commented.update(range(first if starts_line else first + 1, last + 1))
        parts += (source.text[position:start], _LINE.sub(lambda line: " " * len(line[0]), source.text[start:end]))
        position = end
    lines = "".join((*parts, source.text[position:])).split("\n")
    lines = [line if len(line) <= _MAX_LINE else " " * len(line) for line in lines]
    return _Text("\n".join(lines), lines, {number for number in commented if not lines[number - 1].strip()})


def _find_matches(code: str, source: Source, rules: OutlineRules) -> list[_Match]:
    """At most one per line: that of the first rule."""
    by_line: dict[int, _Match] = {}
    for rule in rules.definitions:
        for found in rule.start.finditer(code):
            name_group = found.lastindex or 0
            line = source.line_of(found.start(name_group))
            owner = found[1] or "" if name_group > 1 else ""
            by_line.setdefault(line, _Match(line, rule.kind, found[name_group], owner, rule.end))
    return [by_line[line] for line in sorted(by_line)]


def _end_of(match: _Match, lines: Sequence[str], kinds: Mapping[int, str]) -> int:
    """The last line of a definition."""
    if match.end is not None and (marked := _marked_end(match, lines, kinds)):
        return marked
    if match.kind == "namespace":
        later = (line for line in range(match.line + 1, len(lines) + 1) if kinds.get(line) == "namespace")
        last = next(later, len(lines) + 1) - 1
        return next(line for line in range(last, 0, -1) if lines[line - 1].strip())
    first = lines[match.line - 1]
    indentation, is_open = _indentation(first), first.rstrip().endswith(("{", "(", "["))
    last = match.line
    for number in range(match.line + 1, len(lines) + 1):
        line = lines[number - 1]
        if not line.strip():
            continue
        depth = _indentation(line)
        if depth < indentation or (depth == indentation and (number in kinds or not _GOES_ON.match(line))):
            break
        if last == match.line and _CLOSES.match(line) and not is_open:
            break  # what is around it
        last = number
    return last


def _marked_end(match: _Match, lines: Sequence[str], kinds: Mapping[int, str]) -> int:
    """The line that ends a definition by what it says, 0 if there is none."""
    assert match.end is not None
    is_container = symbol_kind(match.kind).is_container
    indentation = _indentation(lines[match.line - 1])
    for number in range(match.line + 1, len(lines) + 1):
        line = lines[number - 1]
        depth = _indentation(line)
        if not line.strip() or depth > indentation:
            continue
        if match.end.match(line.lstrip()):
            return number
        begins = number in kinds and not (is_container and not symbol_kind(kinds[number]).is_container)
        if depth < indentation or begins:
            return 0
    return 0


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _define(match: _Match, last: int, outer: Definition | None, doc: str, line: str) -> Definition:
    name, kind = match.name, match.kind
    if outer is not None and kind in ("function", "method"):
        kind = "function" if outer.kind in ("module", "namespace") else "method"
    owner = ".".join(filter(None, (outer.qualified if outer is not None else "", match.owner)))
    signature = " ".join(line.split()).rstrip(" {").rstrip()[:MAX_SIGNATURE]
    return Definition(name, f"{owner}.{name}" if owner else name, kind, signature, doc, match.line, last)


def continues(previous: Definition, definition: Definition) -> bool:
    """Another equation of the function above, or the function that belongs to the signature above."""
    return (
        previous.qualified == definition.qualified
        and previous.kind == definition.kind
        and symbol_kind(previous.kind).is_callable
    )
