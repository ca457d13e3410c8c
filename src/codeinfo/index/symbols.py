"""Definitions of a file, from the candidates its query found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from codeinfo.index.grammars import GRAMMARS, Grammar
from codeinfo.index.headers import Header, bases_of, header_end, is_exported, signature_of
from codeinfo.index.names import split_name
from codeinfo.index.scan import Candidate, Scan
from codeinfo.index.source import Source
from codeinfo.model import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

TYPE_KINDS = frozenset(
    {"class", "interface", "struct", "enum", "trait", "protocol", "type", "object", "module", "namespace", "concept"}
    | {"impl", "extension", "instance"}
)
CALLABLE_KINDS = frozenset({"function", "method", "macro"})
# What is only worth a definition outside of functions: inside, it is a local variable.
_LOCAL_KINDS = frozenset({"variable", "constant", "member", "property", "field", "prototype", "type"})
_MEMBER_KINDS = {"function": "method", "prototype": "method", "variable": "field"}
_ATTRIBUTE_LINE = re.compile(r"\s*(?:@|#\[|\[|template\b)")
_COMMENT_MARKS = re.compile(r'^[\s/*#!;%|^<>"\'{-]+|[\s*/"\'}-]+$')
_CONSTANT_NAME = re.compile(r"_*[A-Z][A-Z0-9_]+")
_ALWAYS_EXPORTED = frozenset({"package", "impl", "instance"})
_COMMONJS_EXPORTS = re.compile(r"\bmodule\.exports\s*=\s*(\{[^}]*\}|[\w$]+)")
_MARKUP = re.compile(r"</?(?:summary|remarks|para|p|inheritdoc)\b[^>]*>")
_MAX_DOC = 200
_MAX_ATTRIBUTES = 20  # lines of attributes between a comment and what it documents


class Symbol(Struct):
    """A definition with what chunks and references need of it besides."""

    definition: Definition
    first_line: int  # of the whole node; the definition itself starts at the line of its name
    name_spans: list[tuple[int, int]]  # one for each clause
    parent: int  # position in the list, -1 at the top
    is_scope: bool


class _Reader:
    """Walks the candidates in order, with a stack of what is open around them."""

    def __init__(self, found: Scan, source: Source, language: str) -> None:
        self.source = source
        self.language = language
        self.grammar: Grammar = GRAMMARS[language]
        self.symbols: list[Symbol] = []
        self.named: set[int] = set()
        self.open: list[tuple[int, int]] = []  # (end offset, position in symbols)
        self.docs = dict(found.docs)
        self.comment_ending = self._comments_by_last_line(found)
        listed = [source.text[start:end] for start, end in found.exports]
        if self.grammar.public == "export":
            listed += _COMMONJS_EXPORTS.findall(source.text)
        self.exported_names = frozenset(re.findall(r"\w+", " ".join(listed)))

    def _comments_by_last_line(self, found: Scan) -> dict[int, tuple[int, int]]:
        """Comments that have their lines for themselves, by their last line."""
        source = self.source
        spans = found.comments + found.docs if self.grammar.doc_attribute else found.comments
        ending = {}
        for start, end in spans:
            first = source.line_of(start)
            before = source.text[max(source.line_start(first), start - 200) : start].strip()
            if not before or before.startswith("@"):
                ending[source.line_of(max(start, end - 1))] = (first, start)
        return ending

    def read(self, candidate: Candidate) -> None:
        while self.open and self.open[-1][0] <= candidate.start:
            self.open.pop()
        parent = self.open[-1][1] if self.open else -1
        parent_kind = self.symbols[parent].definition.kind if parent >= 0 else ""
        kind = candidate.kind
        if parent_kind in CALLABLE_KINDS and kind in _LOCAL_KINDS:
            return
        if parent_kind == "type" and kind in TYPE_KINDS:
            parent = self.symbols[parent].parent  # `typedef struct point {…} point_t`: the struct stands for itself
        name_node, kind = _name_node(candidate, kind)
        if name_node is None:
            return
        span = (name_node.start_byte // self.source.unit_bytes, name_node.end_byte // self.source.unit_bytes)
        if span[0] in self.named or (kind == "method" and self._is_argument(candidate, span[0])):
            return
        qualifier, name = split_name(self.source.text[span[0] : span[1]], kind)
        if not name or self._repeats(name, parent, span[0]):
            return
        self.named.add(span[0])
        if "scope" in candidate.captures:
            qualifier = split_name(self.source.node_text(candidate.captures["scope"][0]), "type")[1:]
        self._add(candidate, kind, span, (*qualifier, name), parent)

    def _repeats(self, name: str, parent: int, name_start: int) -> bool:
        """`app.use = function use() {}`: the second name is the first one again."""
        outer = self.symbols[parent].definition if parent >= 0 else None
        if outer is None or outer.kind not in CALLABLE_KINDS or outer.name != name:
            return False
        return outer.start_line == self.source.line_of(name_start)

    def _is_argument(self, candidate: Candidate, name_start: int) -> bool:
        """`alias_method :new, :old` defines the first of its names only."""
        keyword = candidate.captures.get("keyword")
        return (
            keyword is not None and "," in self.source.text[keyword[0].end_byte // self.source.unit_bytes : name_start]
        )

    def _add(self, candidate: Candidate, kind: str, span: tuple[int, int], names: tuple[str, ...], parent: int) -> None:
        source, end = self.source, -candidate.minus_end
        outer = self.symbols[parent].definition if parent >= 0 else None
        kind = _settled_kind(kind, names, outer)
        is_scope = kind in TYPE_KINDS or kind in CALLABLE_KINDS
        body = header_end(candidate.node, kind, source) if is_scope else None
        header = (candidate.start, span, body if body is not None else end)
        first_line = source.line_of(candidate.start)
        bases = tuple(source.node_text(node).strip() for node in candidate.captures.get("base", ()))
        definition = Definition(
            name=names[-1],
            qualified=".".join((outer.qualified, *names) if outer else names),
            kind=kind,
            signature=signature_of(source.text, header, has_body=body is not None, is_scope=is_scope),
            doc=self._doc(first_line, body) if parent < 0 or self.symbols[parent].first_line < first_line else "",
            start_line=source.line_of(span[0]),
            end_line=source.line_of(max(candidate.start, end - 1)),
            exported=self._exported(candidate, names, header, outer),
            bases=bases or (bases_of(source.text, header, self.grammar) if kind in TYPE_KINDS else ()),
        )
        symbols = self.symbols
        if self.grammar.clauses and symbols and _continues(symbols[-1].definition, definition):
            symbols[-1].definition = _joined(symbols[-1].definition, definition)
            symbols[-1].name_spans.append(span)
        else:
            symbols.append(Symbol(definition, first_line, [span], parent, is_scope))
        if is_scope:
            self.open.append((end, len(symbols) - 1))

    def rescue(self, pattern: re.Pattern[str], found: Scan) -> None:
        """Functions that only their first line gives away; they end where a brace stands alone."""
        source = self.source
        for match in pattern.finditer(source.text):
            span = match.span(1)
            if span[0] in self.named or any(start <= span[0] < end for start, end in found.comments):
                continue
            line = source.line_of(span[0])
            end = next((n for n in range(line, len(source.lines)) if source.lines[n].rstrip() == "}"), line - 1) + 1
            signature = " ".join(match.group().rstrip("{").split())
            name = match.group(1)
            definition = Definition(name, name, "function", signature, self._doc(line, None), line, end)
            self.symbols.append(Symbol(definition, line, [span], -1, True))

    def _exported(self, candidate: Candidate, names: tuple[str, ...], header: Header, outer: Definition | None) -> bool:
        if outer is not None and outer.kind in CALLABLE_KINDS:
            return False
        if names[-1] in self.exported_names or candidate.kind in _ALWAYS_EXPORTED:
            return True
        if self.grammar.public == "export-list":
            return not self.exported_names
        if "keyword" in candidate.captures:
            return self.source.node_text(candidate.captures["keyword"][0]) not in self.grammar.private_definers
        return is_exported(self.source, header, names[-1], self.grammar.public, outer)

    def _doc(self, first_line: int, body: int | None) -> str:
        """The first line of the documentation: a string at the start of the body, or the comment right above."""
        text = self.source.text
        if body is not None and body in self.docs and not self.grammar.doc_attribute:
            return _first_words(text[body : self.docs[body]].lstrip("rRbBuUfF"))
        line = first_line - 1
        while (
            line > first_line - _MAX_ATTRIBUTES
            and line > 0
            and line not in self.comment_ending
            and _ATTRIBUTE_LINE.match(self.source.lines[line - 1])
        ):
            line -= 1
        if line not in self.comment_ending:
            return ""
        first, start = self.comment_ending[line]
        while first - 1 in self.comment_ending:  # a block of line comments is one comment
            first, start = self.comment_ending[first - 1]
        return _first_words("\n".join(self.source.lines[self.source.line_of(start) - 1 : line]))


def symbols_of(found: Scan, source: Source, language: str) -> list[Symbol]:
    """All definitions, enclosing ones before what they enclose."""
    reader = _Reader(found, source, language)
    for candidate in found.candidates:
        reader.read(candidate)
    if found.has_errors and reader.grammar.rescue is not None:
        reader.rescue(reader.grammar.rescue, found)
    return reader.symbols


def _name_node(candidate: Candidate, kind: str) -> tuple[Node | None, str]:
    """The node with the name; a C declarator is followed inwards, and a function declarator makes a prototype."""
    captures = candidate.captures
    if "name" in captures:
        return captures["name"][0], kind
    node: Node | None = captures["declarator"][0]
    while node is not None:
        if node.type == "function_declarator" and kind in {"variable", "field"}:
            kind = "prototype"
        elif node.type == "parenthesized_declarator" and kind == "prototype":
            kind = candidate.kind  # a pointer to a function is a variable
        if node.type == "operator_cast":
            return node, kind
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type in {"reference_declarator", "parenthesized_declarator", "attributed_declarator"}:
            named = node.named_children
            inner = named[0] if named else None
        if inner is None:
            return node, kind
        node = inner
    return None, kind


def _settled_kind(kind: str, names: tuple[str, ...], outer: Definition | None) -> str:
    """Functions of a type are methods, its variables fields; upper-case variables are constants."""
    in_type = outer is not None and outer.kind in TYPE_KINDS and outer.kind not in {"module", "namespace"}
    if in_type or (len(names) > 1 and kind == "function"):
        kind = _MEMBER_KINDS.get(kind, kind)
    if kind in {"variable", "field", "property"} and _CONSTANT_NAME.fullmatch(names[-1]):
        return "constant"
    return "variable" if kind == "member" else kind


def _continues(previous: Definition, definition: Definition) -> bool:
    """Another equation of the function above, or the function that belongs to the signature above."""
    return (
        previous.qualified == definition.qualified
        and previous.kind == definition.kind
        and previous.kind in CALLABLE_KINDS
    )


def _joined(first: Definition, last: Definition) -> Definition:
    return Definition(
        name=first.name,
        qualified=first.qualified,
        kind=first.kind,
        signature=first.signature,
        doc=first.doc or last.doc,
        start_line=first.start_line,
        end_line=last.end_line,
        exported=first.exported,
        bases=first.bases,
    )


def _first_words(comment: str) -> str:
    """The first line of a comment that says something, without its marks."""
    for line in comment.splitlines():
        words = "" if line.startswith("#!") else _COMMENT_MARKS.sub("", _MARKUP.sub("", line))
        if words and not words.startswith(("@", "doc ", "moduledoc")):
            return words[:_MAX_DOC]
    return ""
