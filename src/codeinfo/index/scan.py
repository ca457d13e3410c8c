"""One run of a language's query over a syntax tree: the raw material for definitions, imports and references."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from codeinfo.index import grammars
from codeinfo.index.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

Spans = list[tuple[int, int]]  # character offsets, end excluded

# Captures that describe a definition; any other capture beside them names its kind.
_PARTS = frozenset({"name", "declarator", "scope", "base", "keyword"})


class Candidate(NamedTuple):
    """A node that may define something; sorts by position, the enclosing and the more specific first."""

    start: int
    minus_end: int
    pattern: int
    kind: str
    node: Node
    captures: dict[str, list[Node]]


class Scan(Struct):
    comments: Spans = field(default_factory=list)
    docs: Spans = field(default_factory=list)  # documentation written as a string
    strings: Spans = field(default_factory=list)
    imports: Spans = field(default_factory=list)
    exports: Spans = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    has_errors: bool = False  # the grammar could not read all of it


def scan(root: Node, language: str, source: Source) -> Scan:
    from tree_sitter import QueryCursor

    found = Scan(has_errors=root.has_error)
    unit = source.unit_bytes
    definers = grammars.GRAMMARS[language].definers
    plain = {
        "comment": found.comments,
        "doc": found.docs,
        "string": found.strings,
        "import": found.imports,
        "exports": found.exports,
    }
    for pattern, captures in QueryCursor(grammars.query(language)).matches(root):
        kind = ""
        if "keyword" in captures:
            kind = definers.get(source.node_text(captures["keyword"][0]), "")
            if not kind:
                continue
        if "name" not in captures and "declarator" not in captures:
            for role, nodes in captures.items():
                spans = plain.get(role)
                if spans is not None:
                    spans.extend((node.start_byte // unit, node.end_byte // unit) for node in nodes)
            continue
        for role, nodes in captures.items():
            if role not in _PARTS:
                node = nodes[0]
                start, end = node.start_byte // unit, node.end_byte // unit
                found.candidates.append(Candidate(start, -end, pattern, kind or role, node, captures))
    found.candidates.sort(key=lambda candidate: candidate[:3])
    return found
