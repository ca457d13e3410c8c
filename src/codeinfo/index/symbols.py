"""The definitions of a file, from its syntax tree: names, kinds, signatures, documentation, and what is exported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.index.syntax import Candidate, Scan, Source
from codeinfo.languages import GRAMMARS
from codeinfo.languages.model import Declared, Syntax
from codeinfo.model import Definition, symbol_kind

if TYPE_CHECKING:
    from tree_sitter import Node

# Only worth a definition outside functions: inside, it is a local variable.
_LOCAL_KINDS = frozenset({"variable", "constant", "member", "property", "field", "prototype", "type"})
_MEMBER_KINDS = {"function": "method", "prototype": "method", "variable": "field"}
_ATTRIBUTE_LINE = re.compile(r"\s*(?:@|#\[|\[|template\b)")
_COMMENT_MARKS = re.compile(r'^[\s/*#!;%|^<>"\'{-]+|[\s*/"\'}-]+$')
_CONSTANT_NAME = re.compile(r"_*[A-Z][A-Z0-9_]+")
_ALWAYS_EXPORTED = frozenset({"package", "impl", "instance"})
_MARKUP = re.compile(r"</?(?:summary|remarks|para|p|inheritdoc)\b[^>]*>")
_OVERLOAD = re.compile(r"(?:\w+\.)?overload")
_MAX_DOC = 200
_CONDITIONS = frozenset({"if", "while"})  # no names: the grammar lost track, as between `#if` and `#endif`
_MAX_ATTRIBUTES = 20  # lines of attributes between a comment and what it documents


class Symbol(Struct):
    """A definition plus what chunks and references need."""

    definition: Definition
    first_line: int  # of the whole node; the definition itself starts at the line of its name
    name_spans: list[tuple[int, int]]  # one per clause
    parent: int  # position in the list, -1 at the top level
    is_scope: bool


class _SymbolReader:
    """Walks the candidates in order, with a stack of enclosing ones."""

    def __init__(self, found: Scan, source: Source, language: str) -> None:
        self.source = source
        self.language = language
        self.syntax: Syntax = GRAMMARS[language]
        self.symbols: list[Symbol] = []
        self.named: set[int] = set()
        self.open: list[tuple[int, int]] = []  # (end offset, position in symbols)
        self.docs = dict(found.docs)
        self.overloads = {one.offset for one in found.bound if one.name == "@" and _OVERLOAD.fullmatch(one.text)}
        self.comment_ending = self._comments_by_last_line(found)
        listed = [source.text[start:end] for start, end in found.exports]
        if self.syntax.more_exports:
            listed += re.findall(self.syntax.more_exports, source.text)
        self.exported_names = frozenset(re.findall(r"\w+", " ".join(listed)))

    def _comments_by_last_line(self, found: Scan) -> dict[int, tuple[int, int]]:
        """Comments on lines of their own, by their last line."""
        source = self.source
        spans = found.comments + found.docs if self.syntax.doc_attribute else found.comments
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
        if symbol_kind(parent_kind).is_callable and kind in _LOCAL_KINDS:
            return
        if parent_kind == "type" and symbol_kind(kind).is_container:
            parent = self.symbols[parent].parent  # `typedef struct point {…} point_t`: the struct stands for itself
        name_node, kind = _name_node(candidate, kind)
        if name_node is None:
            return
        span = self.source.span(name_node)
        if span[0] in self.named or (kind == "method" and self._is_argument(candidate, span[0])):
            return
        qualifier, name = split_name(self.source.text[span[0] : span[1]], kind)
        if not name or name in _CONDITIONS or self._repeats(name, parent, span[0]):
            return
        self.named.add(span[0])
        if "scope" in candidate.captures:
            qualifier = split_name(self.source.node_text(candidate.captures["scope"][0]), "type")[1:]
        self._add(candidate, kind, span, (*qualifier, name), parent)

    def _repeats(self, name: str, parent: int, name_start: int) -> bool:
        """`app.use = function use() {}`: the second name repeats the first."""
        outer = self.symbols[parent].definition if parent >= 0 else None
        if outer is None or not symbol_kind(outer.kind).is_callable or outer.name != name:
            return False
        return outer.start_line == self.source.line_of(name_start)

    def _is_argument(self, candidate: Candidate, name_start: int) -> bool:
        """`alias_method :new, :old` defines only the first of its names."""
        keyword = candidate.captures.get("keyword")
        return keyword is not None and "," in self.source.text[self.source.span(keyword[0])[1] : name_start]

    def _add(self, candidate: Candidate, kind: str, span: tuple[int, int], names: tuple[str, ...], parent: int) -> None:
        source, end = self.source, -candidate.minus_end
        outer = self.symbols[parent].definition if parent >= 0 else None
        kind = _refine_kind(kind, names, outer, self.syntax)
        is_container = symbol_kind(kind).is_container
        is_scope = is_container or symbol_kind(kind).is_callable
        body = header_end(candidate.node, kind, source) if is_scope else None
        header = (candidate.start, span, body if body is not None else end)
        first_line = source.line_of(candidate.start)
        bases = tuple(source.node_text(node).strip() for node in candidate.captures.get("base", ()))
        definition = Definition(
            name=names[-1],
            qualified=".".join((outer.qualified, *names) if outer else names),
            kind=kind,
            signature=("@overload " if span[0] in self.overloads else "")
            + signature_of(source.text, header, has_body=body is not None, is_scope=is_scope),
            doc=self._doc(first_line, body) if parent < 0 or self.symbols[parent].first_line < first_line else "",
            start_line=source.line_of(span[0]),
            end_line=source.line_of(max(candidate.start, end - 1)),
            exported=self._is_exported(candidate, names, header, outer),
            bases=bases or (bases_of(source.text, header, self.syntax) if is_container else ()),
        )
        symbols = self.symbols
        if self.syntax.clauses and symbols and _continues(symbols[-1].definition, definition):
            first = symbols[-1].definition
            symbols[-1].definition = replace(first, doc=first.doc or definition.doc, end_line=definition.end_line)
            symbols[-1].name_spans.append(span)
        else:
            symbols.append(Symbol(definition, first_line, [span], parent, is_scope))
        if is_scope:
            self.open.append((end, len(symbols) - 1))

    def rescue(self, pattern: re.Pattern[str], found: Scan) -> None:
        """Functions recognised only by their first line; they end where a brace stands alone."""
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

    def _is_exported(
        self, candidate: Candidate, names: tuple[str, ...], header: Header, outer: Definition | None
    ) -> bool:
        if outer is not None and symbol_kind(outer.kind).is_callable:
            return False
        if names[-1] in self.exported_names or candidate.kind in _ALWAYS_EXPORTED:
            return True
        if self.syntax.export_list:
            return not self.exported_names
        if "keyword" in candidate.captures:
            return self.source.node_text(candidate.captures["keyword"][0]) not in self.syntax.private_definers
        return is_exported(self.source, header, names[-1], self.syntax, outer)

    def _doc(self, first_line: int, body: int | None) -> str:
        """The first line of the documentation: a string at the start of the body, or the comment right above."""
        text = self.source.text
        if body is not None and body in self.docs and not self.syntax.doc_attribute:
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
    """All definitions, enclosing ones before enclosed ones."""
    reader = _SymbolReader(found, source, language)
    for candidate in found.candidates:
        reader.read(candidate)
    if found.has_errors and reader.syntax.rescue is not None:
        reader.rescue(reader.syntax.rescue, found)
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


def _refine_kind(kind: str, names: tuple[str, ...], outer: Definition | None, syntax: Syntax) -> str:
    """Functions of a type are methods, its variables fields; upper-case variables are constants in most languages."""
    in_type = outer is not None and symbol_kind(outer.kind).is_container and outer.kind not in {"module", "namespace"}
    if in_type or (len(names) > 1 and kind == "function"):
        kind = _MEMBER_KINDS.get(kind, kind)
    is_variable = kind in {"variable", "field", "property"}
    if syntax.constants_by_name and is_variable and _CONSTANT_NAME.fullmatch(names[-1]):
        return "constant"
    return "variable" if kind == "member" else kind


def _continues(previous: Definition, definition: Definition) -> bool:
    """Another equation of the function above, or the function that belongs to the signature above."""
    return (
        previous.qualified == definition.qualified
        and previous.kind == definition.kind
        and symbol_kind(previous.kind).is_callable
    )


def _first_words(comment: str) -> str:
    """The first meaningful line of a comment, without its markers."""
    for line in comment.splitlines():
        words = "" if line.startswith("#!") else _COMMENT_MARKS.sub("", _MARKUP.sub("", line))
        if words and not words.startswith(("@", "doc ", "moduledoc")):
            return words[:_MAX_DOC]
    return ""


# --- headers --------------------------------------------------------------------------------------------------------

Header = tuple[int, tuple[int, int], int]  # start of the node, span of the name, end of the header

MAX_SIGNATURE = 200
_MAX_HEADER = 1000  # characters looked at
_BODIES = frozenset({"class_body", "function_body", "enum_class_body", "do_block", "Block", "block", "template_body"})
_ATTRIBUTE = re.compile(r"^\s*(?:@|\[|#\[)")
_TAIL = re.compile(r"(?:[\s{:=]|=>|\bdo|\bwhere|,\s*do:)+$")
_TAIL_SIGNS = " {:=>dowher,"  # a tail has no other characters: it cannot start before the last of them


def header_end(node: Node, kind: str, source: Source) -> int | None:
    """Where the body starts, or None if there is none."""
    body = node.child_by_field_name("body")
    if body is None:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if value is not None:
            body = value.child_by_field_name("body")
    if body is None and kind != "macro":
        body = next((child for child in reversed(node.children) if child.type in _BODIES), None)
    return None if body is None else source.span(body)[0]


def signature_of(text: str, header: Header, *, has_body: bool, is_scope: bool) -> str:
    """The header on one line, without attributes and without the sign that opens the body."""
    start, (name_start, name_end), end = header
    before = _without_attributes(text[max(start, name_start - _MAX_HEADER) : name_start])
    rest = text[name_start : min(end, name_end + _MAX_HEADER)]
    if not has_body and not (is_scope and "(" in rest.partition("\n")[0] and len(rest) < 2 * MAX_SIGNATURE):
        rest = rest.partition("\n")[0]
    signature = " ".join((before + rest).split())[:MAX_SIGNATURE]
    tail = _TAIL.search(signature, len(signature.rstrip(_TAIL_SIGNS)))
    return signature if tail is None else signature[: tail.start()]


def _without_attributes(before: str) -> str:
    """What precedes a name, without lines of attributes; one may take several."""
    kept, opened = [], 0
    for line in before.split("\n") if "\n" in before else ():
        if opened > 0 or _ATTRIBUTE.match(line):
            opened += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        else:
            kept.append(line)
    return "\n".join(kept) if "\n" in before else before


def bases_of(text: str, header: Header, syntax: Syntax) -> tuple[str, ...]:
    """Names of what a type extends or implements."""
    _, (_, name_end), end = header
    return syntax.bases(text[name_end : min(end, name_end + _MAX_HEADER)], syntax.keywords) if syntax.bases else ()


def is_exported(source: Source, header: Header, name: str, syntax: Syntax, outer: Definition | None) -> bool:
    start, (name_start, name_end), _ = header
    line_start = source.line_start(source.line_of(start))
    before = source.text[max(line_start, name_start - _MAX_HEADER) : name_start]
    return syntax.exported(Declared(name, source.text[name_start:name_end], before, outer))


# --- names as written: `Outer::inner<T>` is `inner` of `Outer` ------------------------------------------------------

_BRACKETS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_SEPARATOR = re.compile(r"::|\.|\\|->|:")
_REFERENCE_MARKS = re.compile(r"^(?:[&*?!\s]|'\w+\s|(?:mut|dyn|const|static|extern)\s)+")
# Objects that merely stand for "the exports of this module" or "the thing itself".
_TRANSPARENT = frozenset({"exports", "module", "prototype", "this", "self", "Self", "window", "global", "_G"})
_MAX_NAME = 200


def split_name(written: str, kind: str) -> tuple[tuple[str, ...], str]:
    """Qualifying names and the name itself; an empty name means there is nothing to define."""
    if written.isidentifier():
        return (), written
    if len(written) > _MAX_NAME:
        return (), ""
    text = written.strip('"`:$# \t\r\n')
    if text.startswith("'"):  # at the end it belongs to a Haskell name
        text = text.strip("'")
    if kind == "alias":
        text = text.rstrip("=")
    if kind == "package":
        return (), "".join(text.split())
    if "operator" in text:
        return _split_operator(text)
    if not re.search(r"\w", text):
        return (), text.strip("() ")
    text = _REFERENCE_MARKS.sub("", _without_brackets(text))
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    parts = [part for part in parts if part and part not in _TRANSPARENT]
    if not parts or not all(re.fullmatch(r"[~#@]?[\w$'?!=-]+", part) for part in parts):
        head = re.match(r"[\w$']+", text) if kind in {"impl", "instance", "extension", "type"} else None
        return (), head.group() if head else ""
    return tuple(parts[:-1]), parts[-1]


def _split_operator(text: str) -> tuple[tuple[str, ...], str]:
    """C++ operators keep their signs: `Point::operator<<`."""
    qualifier, _, sign = text.partition("operator")
    parts = [part.strip() for part in _without_brackets(qualifier).split("::") if part.strip()]
    sign = " ".join(sign.split())
    if sign[:1].isalpha() or sign[:1] == ":":  # a conversion, `operator bool() const`, or `operator new[]`
        return tuple(parts), "operator " + sign.partition("(")[0].rstrip()
    return tuple(parts), "operator" + sign


def _without_brackets(text: str) -> str:
    while True:
        shorter = _BRACKETS.sub("", text)
        if shorter == text:
            return text
        text = shorter
