"""Chunks: spans of lines that hold whole definitions where they fit.

A syntax tree is walked from the top and entered only where a node is too large for one chunk; the nodes met this way
become units (spans of lines), and units are merged up to the target size. Without a tree, lines are the units.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from codeinfo.tokens import NAME_MARK, TERMS, TYPE_MARK, identifier_terms, read_tokens

if TYPE_CHECKING:
    from tree_sitter import Node

    from codeinfo.index.syntax import Scan, Source


# Node types that belong to what follows them.
LEADING = re.compile(r"comment|haddock|attribute|annotation|decorator|access_specifier|^signature$|^unary_operator$")
# A unit without any word, or only the closing `end`, belongs to what precedes it.
_CLOSER = re.compile(r"[\W_]*(?:end[\W_]*)?")


class ChunkSettings(Struct, frozen=True):
    """Chunk sizes and parsing limits; a different fingerprint makes an index stale."""

    code_chars: int = 1200  # small siblings are merged up to this size
    code_max_chars: int = 2000  # a definition up to this size is never cut
    doc_chars: int = 1000
    doc_overlap: int = 200
    fallback_lines: int = 50
    line_max_chars: int = 100_000  # of a longer line (data, minified code) only the beginning is indexed
    syntax_max_chars: int = 4_000_000  # a larger file is indexed as text
    parse_timeout_s: float = 10.0

    def fingerprint(self) -> str:
        return " ".join(f"{name}={getattr(self, name)}" for name in self.__struct_fields__)


class Span(Struct, frozen=True):
    """Lines (1-based, inclusive) of a chunk; columns only where one giant line had to be split."""

    first: int
    last: int
    columns: tuple[int, int] | None = None


class _Unit(Struct):
    first: int
    last: int
    scope: int  # which entered node it came from: siblings share it
    leading: bool = False
    header: bool = False  # precedes the body of a definition that is entered
    opens: bool = False  # starts with such a header


def syntax_spans(root: Node, source: Source, settings: ChunkSettings, body_beside: str) -> list[Span]:
    """`body_beside` as in the language's `Syntax`."""
    units = list(_without_gaps(_tree_units(root, source, settings.code_max_chars, body_beside), source))
    units = _attach_leading(units, source, settings.code_max_chars)
    units = _attach_closers(units, source)
    return list(_join(units, source, settings))


def text_spans(source: Source, settings: ChunkSettings) -> list[Span]:
    """Spans of at most `fallback_lines` lines, and of at most `code_max_chars` characters."""
    spans: list[Span] = []
    first = last = 0
    for line in (number for number, text in enumerate(source.lines, 1) if text.strip()):
        first = first or line
        too_long = line - first >= settings.fallback_lines
        if line > first and (too_long or source.size(first, line) > settings.code_max_chars):
            spans.extend(_cut(first, last, source, settings))
            first = line
        last = line
    return [*spans, *(_cut(first, last, source, settings) if first else ())]


def outline_spans(starts: Sequence[int], source: Source, settings: ChunkSettings) -> list[Span]:
    """Spans that begin where definitions do, unless small neighbours fit into one."""
    firsts = sorted({1, *starts})
    lasts = [first - 1 for first in firsts[1:]] + [len(source.lines)]
    trimmed = [span for first, last in zip(firsts, lasts, strict=True) for span in _trim(first, last, source)]
    return list(_join([_Unit(span.first, span.last, 0) for span in trimmed], source, settings))


def _tree_units(root: Node, source: Source, max_chars: int, body_beside: str) -> Iterator[_Unit]:
    """The largest nodes that fit, in order; nodes that share a line are one unit."""
    limit = max_chars * source.unit_bytes
    scopes = 0
    current: _Unit | None = None
    stack: list[tuple[Node, int, bool]] = [(root, 0, False)]
    while stack:
        node, scope, is_header = stack.pop()
        start, end = node.start_byte, node.end_byte
        if end - start > limit:
            children = node.children
            if children:
                scopes += 1
                ends = _head_end(node)
                leads_body = False  # the node below is the body of a definition, and too large for one chunk
                for child in reversed(children):
                    stack.append((child, scopes, child.end_byte <= ends or leads_body))
                    leads_body = child.type == body_beside and child.end_byte - child.start_byte > limit
                continue
        if start == end:
            continue
        first, last = source.line_of_byte(start), source.line_of_byte(end - 1)
        if current is not None and first <= current.last:
            current.leading = False
            goes_on = current.header and (is_header or last <= current.last)
            current.header = goes_on or (is_header and first == current.first)  # `export` precedes a head
            current.last = max(current.last, last)
            continue
        if current is not None:
            yield current
        current = _Unit(first, last, scope, LEADING.search(node.type) is not None, is_header)
    if current is not None:
        yield current


def _head_end(node: Node) -> int:
    """Where the head of a definition ends, or the brace that opens a body."""
    body, first = node.child_by_field_name("body"), node.children[0]
    if body is not None:
        return body.start_byte
    return first.end_byte if first.type == "{" else node.start_byte


def _without_gaps(units: Iterator[_Unit], source: Source) -> Iterator[_Unit]:
    """Blank edges trimmed; text that no node covers (hidden tokens of a grammar) becomes its own unit."""
    lines = source.lines
    covered = 0
    for unit in units:
        yield from _stray_lines(covered + 1, unit.first - 1, unit.scope, lines)
        covered = unit.last
        while unit.last > unit.first and not lines[unit.last - 1].strip():
            unit.last -= 1
        if lines[unit.first - 1].strip() or unit.last > unit.first:
            yield unit
    yield from _stray_lines(covered + 1, len(lines), 0, lines)


def _stray_lines(first: int, last: int, scope: int, lines: Sequence[str]) -> Iterator[_Unit]:
    for line in range(first, last + 1):
        if lines[line - 1].strip():
            yield _Unit(line, line, scope)


def _attach_leading(units: list[_Unit], source: Source, max_chars: int) -> list[_Unit]:
    """Comments, decorators and attributes go with the definition right below them, above a large one also across a
    blank line; the head of a class or function that is too large for one chunk goes with the start of its body.
    Together they may be half as large again as a definition alone: a documented method stays whole."""
    limit = max_chars * 3 // 2
    attached: list[_Unit] = []
    for unit in reversed(units):
        below = attached[-1] if attached else None
        if (
            below is not None
            and (unit.header or (unit.leading and below.first <= unit.last + (2 if below.opens else 1)))
            and source.size(unit.first, below.last) <= limit
        ):
            below.first = unit.first
            below.opens = below.opens or unit.header
        else:
            attached.append(unit)
    attached.reverse()
    return attached


def _attach_closers(units: list[_Unit], source: Source) -> list[_Unit]:
    attached: list[_Unit] = []
    for unit in units:
        if attached and unit.first == unit.last and _CLOSER.fullmatch(source.lines[unit.first - 1]):
            attached[-1].last = unit.last
        else:
            attached.append(unit)
    return attached


def _join(units: list[_Unit], source: Source, settings: ChunkSettings) -> Iterator[Span]:
    """Merge neighbours up to the target size; across scopes only if one of them is small. A definition too large for
    one chunk starts a new one, unless little precedes it."""
    small = settings.code_chars // 4
    current: _Unit | None = None
    for unit in units:
        if current is not None and source.size(current.first, unit.last) <= settings.code_chars:
            before, size = source.size(current.first, current.last), source.size(unit.first, unit.last)
            crosses = unit.scope != current.scope
            if (not crosses or min(before, size) < small) and not (unit.opens and before >= 2 * small):
                current.last, current.scope = unit.last, unit.scope
                continue
        if current is not None:
            yield from _cut(current.first, current.last, source, settings)
        current = _Unit(unit.first, unit.last, unit.scope)
    if current is not None:
        yield from _cut(current.first, current.last, source, settings)


def _cut(first: int, last: int, source: Source, settings: ChunkSettings) -> Iterator[Span]:
    """One span if it fits; otherwise split at lines, and giant lines anywhere."""
    limit = settings.code_max_chars * 3 // 2
    if source.size(first, last) <= limit:
        yield Span(first, last)
        return
    start = first
    for line in range(first, last + 1):
        length = len(source.lines[line - 1])
        if line > start and source.size(start, line) > settings.code_chars:
            yield from _trim(start, line - 1, source)
            start = line
        if length > limit:
            for column in range(0, min(length, settings.line_max_chars), settings.code_chars):
                yield Span(line, line, (column, column + settings.code_chars))
            start = line + 1
    if start <= last:
        yield from _trim(start, last, source)


def _trim(first: int, last: int, source: Source) -> Iterator[Span]:
    lines = source.lines
    while first <= last and not lines[first - 1].strip():
        first += 1
    while last >= first and not lines[last - 1].strip():
        last -= 1
    if first <= last:
        yield Span(first, last)


COMMENT_WEIGHT = 0.7  # relative to code; strings count as code: messages and keys are what people search for


def weighted_terms(
    code: str, comments: str = "", type_names: Iterable[str] = (), other_names: Iterable[str] = ()
) -> dict[str, float]:
    """Term → weighted count. Names defined here are separate fields: the ranking decides their weight."""
    weights: dict[str, float] = dict(Counter(read_tokens(code, TERMS)))
    if comments:
        for term, count in Counter(read_tokens(comments, TERMS)).items():
            weights[term] = weights.get(term, 0) + count * COMMENT_WEIGHT
    _add_field(weights, type_names, TYPE_MARK)
    _add_field(weights, other_names, NAME_MARK)
    return weights


def _add_field(weights: dict[str, float], names: Iterable[str], mark: str) -> None:
    for name in names:
        for term in identifier_terms(name):
            weights[mark + term] = weights.get(mark + term, 0) + 1


class Layers:
    """A file in three layers with the same lines: code with its strings, comments, and code where names may be used."""

    __slots__ = ("code", "comments", "names")

    def __init__(self, source: Source, scan: Scan, name_spans: Iterable[tuple[int, int]]) -> None:
        text = source.text
        spans = [(start, -end, 0) for start, end in scan.comments]
        spans += [(start, -end, 0) for start, end in scan.docs]
        spans += [(start, -end, 1) for start, end in scan.strings]
        spans += [(start, -end, 2) for start, end in name_spans]
        spans.sort()
        code: list[str] = []
        names: list[str] = []
        comments: list[str] = []
        position = commented = code_from = 0
        for start, minus_end, layer in spans:
            if start < position:
                continue  # inside the previous one: a string in a docstring, a name in a comment
            end = -minus_end
            lines = "\n" * text.count("\n", start, end)
            names.append(source.code[position:start])
            if layer == 0:
                code += (text[code_from:start], " ", lines)
                code_from = end
                comments += ("\n" * text.count("\n", commented, start), " ", text[start:end])
                commented = end
                names += (" ", lines)
            else:
                names += (_MASKS[layer], lines)
            position = end
        code.append(text[code_from:])
        names.append(source.code[position:])
        self.code = "".join(code).split("\n")
        self.names = "".join(names)
        comments.append("\n" * text.count("\n", commented))
        self.comments: Sequence[str] = "".join(comments).split("\n") if scan.comments or scan.docs else ()


# A string stays visible as one; a defined name becomes a sign that keeps its neighbours from looking like a call.
_MASKS = ("", '""', " ; ")
