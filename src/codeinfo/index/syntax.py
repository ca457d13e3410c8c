"""The syntax tree of one file: its text with a mapping from byte offsets back to lines, the parser and the query of
its language, and one run of that query. This is the raw material for definitions, imports and references."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field

from codeinfo import languages
from codeinfo.languages import GRAMMARS

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter import Node, Parser, Query, Tree


Encoding = Literal["utf8", "utf16le"]
_ASTRAL = re.compile("[\U00010000-\U0010ffff\ud800-\udfff]")


class Source:
    """Offsets are characters of `text`; a parser sees `data`, where each character takes `unit_bytes` bytes: ASCII as
    it is, other text as UTF-16 with characters beyond the basic plane replaced, so that an offset is a division."""

    __slots__ = ("_starts", "code", "data", "encoding", "lines", "text", "unit_bytes")

    def __init__(self, text: str, visible: str | None = None, *, embedded: bool = False) -> None:
        """`visible` is what the parser is given, with the same offsets; if code is `embedded`, only that uses names."""
        self.text = text
        self.code = visible if embedded and visible is not None else text
        self.lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        visible = text if visible is None else visible
        self.encoding: Encoding
        if text.isascii():
            self.data, self.unit_bytes, self.encoding = visible.encode("ascii"), 1, "utf8"
        else:
            plain = _ASTRAL.sub("\ufffd", visible)
            self.data, self.unit_bytes, self.encoding = plain.encode("utf-16-le"), 2, "utf16le"

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def line_of_byte(self, offset: int) -> int:
        return bisect_right(self._starts, offset // self.unit_bytes)

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]

    def size(self, first: int, last: int) -> int:
        """Characters of the lines `first` to `last`, both included."""
        return self._starts[last] - self._starts[first - 1]

    def between(self, first: int, last: int) -> str:
        return self.text[self._starts[first - 1] : self._starts[last] - 1]

    def span(self, node: Node) -> tuple[int, int]:
        return node.start_byte // self.unit_bytes, node.end_byte // self.unit_bytes

    def node_text(self, node: Node) -> str:
        return self.text[slice(*self.span(node))]


# --- grammars -------------------------------------------------------------------------------------------------------


def language(name: str) -> tree_sitter.Language:
    from tree_sitter import Language

    syntax = GRAMMARS[name]
    binding = import_module(f"{syntax.package or f'tree_sitter_{syntax.grammar}'}._binding")
    return Language(getattr(binding, syntax.entry)())


@lru_cache(maxsize=64)
def parser(name: str) -> Parser:
    from tree_sitter import Parser

    return Parser(language(name))


def parse_tree(name: str, data: bytes, encoding: Encoding = "utf8") -> Tree:
    if GRAMMARS[name].needs_newline:
        data += b"\n" if encoding == "utf8" else b"\n\0"
    return parser(name).parse(data, encoding=encoding)


def query(name: str) -> Query:
    return compile_query(language(name), query_text(name))


@lru_cache(maxsize=256)
def compile_query(grammar: tree_sitter.Language, text: str) -> Query:
    """Once for all languages with the same grammar and patterns: it takes up to half a second."""
    from tree_sitter import Query

    return Query(grammar, text)


@lru_cache(maxsize=64)
def query_text(name: str) -> str:
    """The patterns of a language, from files it may share with others."""
    syntax, folder = GRAMMARS[name], Path(languages.__file__).with_name("queries")
    return "\n".join((folder / f"{part}.scm").read_text("utf-8") for part in syntax.queries or (syntax.grammar,))


# --- one run of a query ---------------------------------------------------------------------------------------------

Spans = list[tuple[int, int]]  # character offsets, end excluded

_MOST_OPEN = 1000  # open matches: only deeply nested calls have more
# Captures that describe a definition; any other capture beside them names its kind.
_PARTS = frozenset({"name", "declarator", "scope", "base", "keyword", "body"})


class Candidate(NamedTuple):
    """A node that may define something; sorts by position, enclosing and more specific ones first."""

    start: int
    minus_end: int
    pattern: int
    kind: str
    node: Node
    captures: dict[str, list[Node]]


class Binding(NamedTuple):
    """A name that code binds: a variable, a field, what a function returns. `mark` says what `text` is, see
    `graph/uses.py`; `offset` is the position of the name, `end` the end of its block, -1 for its scope's."""

    offset: int
    end: int
    name: str
    mark: str
    text: str


class Scan(Struct):
    comments: Spans = field(default_factory=list)
    docs: Spans = field(default_factory=list)  # documentation written as a string
    strings: Spans = field(default_factory=list)
    imports: Spans = field(default_factory=list)
    exports: Spans = field(default_factory=list)
    members: list[tuple[int, str]] = field(default_factory=list)  # `setattr(cart, "total", 1)`: offset, `cart.total`
    paths: list[tuple[int, str]] = field(default_factory=list)  # `get_model("shop", "Cart")`: offset, `shop.Cart`
    attributes: Spans = field(default_factory=list)  # names of attributes: `[Required]` is a RequiredAttribute
    export_names: Spans = field(default_factory=list)  # strings that are the names of exports: `__all__` of Python
    keys: list[tuple[int, int, str]] = field(default_factory=list)  # names of arguments and fields, with their type
    shorthand: set[int] = field(default_factory=set)  # where keys begin that name a variable, too: `{ size }`
    quoted: set[int] = field(default_factory=set)  # where strings begin that are types
    bindings: list[Binding] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    has_errors: bool = False  # the grammar could not parse all of it


_MOST_BEFORE = 160  # characters before a string that say what it holds


def scan(root: Node, language: str, source: Source) -> Scan:
    from tree_sitter import QueryCursor

    result = Scan(has_errors=root.has_error)
    definers = GRAMMARS[language].definers
    plain = {
        "comment": result.comments,
        "doc": result.docs,
        "string": result.strings,
        "import": result.imports,
        "exports": result.exports,
        "listed": result.export_names,
        "attribute": result.attributes,
    }
    owners: dict[tuple[int, int], str] = {}  # types whose fields are named, by position
    for pattern, captures in QueryCursor(query(language), match_limit=_MOST_OPEN).matches(root):
        if len(captures) == 1:  # the common case: strings and comments
            ((role, nodes),) = captures.items()
            if role in plain:
                plain[role] += [node.byte_range for node in nodes]
                continue
        guarded = _GUARDS.keys() & captures
        if guarded and not all(_GUARDS[role].match(source.node_text(captures[role][0])) for role in guarded):
            continue
        if "bind" in captures:
            _add_bound(result, source, captures)
            continue
        if "naming.member" in captures:
            _add_member(result, source, captures)
            continue
        if "key" in captures:
            _add_key(result, source, captures, owners)
            continue
        keyword = captures.get("keyword")
        kind = definers.get(source.node_text(keyword[0]), "") if keyword else ""
        if keyword and not kind:
            continue
        if "name" in captures or "declarator" in captures:
            result.candidates += _candidates(source, pattern, captures, kind)
            continue
        for role, nodes in captures.items():
            if role in plain:
                plain[role].extend(node.byte_range for node in nodes)
            elif role in _SPECIAL:
                _add_special(result, source, role, captures)
    result.candidates.sort(key=lambda candidate: candidate[:3])
    if source.unit_bytes > 1:
        for spans in plain.values():
            spans[:] = [(start // source.unit_bytes, end // source.unit_bytes) for start, end in spans]
    result.strings = _strings_of(result, language, source)
    return result


def _candidates(source: Source, pattern: int, captures: dict[str, list[Node]], kind: str) -> Iterator[Candidate]:
    """What a match may define; without a `kind`, the role of a node says what it is."""
    for role, nodes in captures.items():
        if role not in _PARTS:
            start, end = source.span(nodes[0])[0], source.span(captures.get("body", nodes)[0])[1]
            yield Candidate(start, -end, pattern, kind or role, nodes[0], captures)


def _strings_of(result: Scan, language: str, source: Source) -> list[tuple[int, int]]:
    """The strings that are no types written as strings, without the code in them."""
    strings = [span for span in result.strings if span[0] not in result.quoted] if result.quoted else result.strings
    if GRAMMARS[language].in_strings is None:
        return strings
    return [part for span in strings for part in _outside_code(source.text, span, language)]


def _outside_code(text: str, span: tuple[int, int], language: str) -> Iterator[tuple[int, int]]:
    """The parts of a string that are no code: `s"… ${code} …"`."""
    (start, end), syntax = span, GRAMMARS[language]
    codes = list(syntax.in_strings.finditer(text, start, end)) if syntax.in_strings is not None else []
    if codes and syntax.holding.search(text[max(0, start - _MOST_BEFORE) : start]):
        for code in codes:
            yield start, code.start()
            start = code.end()
    yield start, end


# --- what names are bound to ----------------------------------------------------------------------------------------

_BOUND_ROLES = {
    "bind.type": ":",
    "bind.value": "=",
    "bind.each": "@",
    "bind.part": "=",
    "bind.with": "^",
    "bind.call": "~",
}
# Roles that stand for themselves → (name, mark) of the row they make.
_SPECIAL = {
    "returns": ("()", ":"),
    "returned": ("()", "="),
    "default": ("default", "="),
    "exported": ("exports", "="),
    "embeds": ("*", ":"),
    "underlying": ("=", ":"),
    "decorator": ("@", "="),
    "global": ("", "!"),
    "bind.field": ("", ":"),
    "quoted": ("", ""),
}
_OWNERS = ("self.", "this.", "$this->")
_OWNER = re.compile(r"^\$?\w+(?:\.|->)")
_MAX_TEXT = 160  # characters of a type or a value: arguments follow
_PLAIN = re.compile(r"[^\W\d]|[&*$@(\[<?\\]")  # how a type or a value begins that may lead to a definition
# What the text of some captures must be: a query sees two bytes for each letter of a file that is not ASCII, and so can
# only ask for their first one.
_GUARDS = {
    "exporting": re.compile(r"(?:exports\s*=\s*)?module\.exports(?:\s*=|\Z)"),  # assigned to, in CommonJS
    "generic": re.compile(r"(?:Annotated|ForwardRef|List|Optional|Sequence|Type|Union|list|type)\Z"),
    "listing": re.compile(r"__all__\Z"),
    "mixin": re.compile(r"(?:include|prepend)\Z"),
    "naming": re.compile(r"(?:.*\.)?(?:patch\.object|setattr|delattr|getattr|hasattr|class)\Z"),
    "fixtures": re.compile(r"usefixtures\Z"),
    "model": re.compile(r"get_model\Z"),
    "test": re.compile(r"\w*TEST"),  # a macro of C++
}
_INFERRED = ("var", "auto", "let")
_QUOTES = ("'", '"')


def _add_key(result: Scan, source: Source, captures: dict[str, list[Node]], owners: dict[tuple[int, int], str]) -> None:
    """The name of an argument or field, with its type, whose text is read once for all of its fields."""
    owner = captures.get("key.of")
    place = owner[0].byte_range if owner else (0, 0)
    if place not in owners:
        owners[place] = _short_text(source, owner) if owner else ""
    span = source.span(captures["key"][0])
    result.keys.append((*span, owners[place]))
    if captures["key"][0].type == "shorthand_property_identifier" or "shorthand" in captures:
        result.shorthand.add(span[0])


def _add_member(result: Scan, source: Source, captures: dict[str, list[Node]]) -> None:
    """A member or a model named by a string."""
    start, end = source.span(captures["naming.member"][0])
    owners = [source.node_text(node) for node in captures.get("naming.owner", ())]
    name = ".".join((*owners, source.text[start:end])).replace("\\", ".").lstrip(".")
    (result.paths if "model" in captures else result.members).append((start, name))


def _add_bound(result: Scan, source: Source, captures: dict[str, list[Node]]) -> None:
    end, mark, text, role = -1, "", "", ""
    start, name_end = source.span(captures["bind"][0])
    name = source.text[start:name_end].replace("#", "")  # a private field of JavaScript
    if "." in name and not name.startswith(_OWNERS):
        return
    for captured, nodes in captures.items():
        if captured in _BOUND_ROLES:
            role, mark, text = captured, _BOUND_ROLES[captured], _short_text(source, nodes)
        elif captured == "bind.in":
            end = source.span(nodes[0])[1]
    if mark == ":":
        if text in _INFERRED:
            return
    elif text[:1] in _QUOTES:
        text = ""
    elif role == "bind.part" and text:
        key = captures.get("bind.key")
        text = f"{text}.{source.node_text(key[0]) if key else name}"
    if name.startswith(_OWNERS):
        name = f"this.{_OWNER.sub('', name)}"
    result.bindings.append(Binding(start, end, name, mark if text else "", text))


def _add_special(result: Scan, source: Source, role: str, captures: dict[str, list[Node]]) -> None:
    node = captures[role][0]
    start, _ = source.span(node)
    if role == "quoted":  # a type written as a string
        result.quoted.add(start)
        return
    name, mark = _SPECIAL[role]
    text = _short_text(source, captures[role])
    if role == "global":
        name, text = text, ""
    elif role == "bind.field":  # a parameter that is also a field
        written = _short_text(source, captures["bind.type"])
        result.bindings.append(Binding(start, -1, text, mark, written))
        name, text = f"this.{text.lstrip('$')}", written
    elif role == "decorator" and "decorated" in captures:
        start, _ = source.span(captures["decorated"][0])
    if name and (text or mark == "!") and (mark != "=" or text[:1] not in _QUOTES):
        result.bindings.append(Binding(start, -1, name, mark, text))


def _short_text(source: Source, nodes: Sequence[Node]) -> str:
    """The text of neighbouring nodes: some grammars have none for a whole type or value."""
    start, end = source.span(nodes[0])[0], source.span(nodes[-1])[1]
    text = source.text[start : min(end, start + _MAX_TEXT)].replace(".#", ".")
    if "\n" in text or "\t" in text:
        text = " ".join(text.split())
    return text if text[:1].isalpha() or text[:1] in _QUOTES or _PLAIN.match(text) else ""
