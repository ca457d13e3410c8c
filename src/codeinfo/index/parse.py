"""One file in; chunks, definitions, imports, references and terms out. Runs in a process that can be killed (see
pool)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.graph.uses import LITERAL, MENTIONED, pack_code
from codeinfo.index.chunk import ChunkSettings, Layers, Span, outline_spans, syntax_spans, text_spans, weighted_terms
from codeinfo.index.syntax import Candidate, Scan, Source, parse_tree, scan
from codeinfo.languages import GRAMMARS, first_words, get_language
from codeinfo.languages.ecmascript import pascal_case
from codeinfo.languages.model import Declared, Syntax, group_imports
from codeinfo.model import MAX_SIGNATURE, Chunk, Definition, Import, ParsedFile, quantity, symbol_kind

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_BREADCRUMB = 200
_CONTAINERS = frozenset({"package", "namespace"})  # around everything: a chunk is named after what is inside
_NAMED_KINDS = frozenset({"constant", "prototype"})  # their names count as much as those of functions


def parse_file(
    path: str, text: str, language: str, settings: ChunkSettings, *, syntax: bool = True
) -> tuple[ParsedFile, bytes]:
    """Everything in a file, and its references, packed; without `syntax` it is split as plain text."""
    grammar = GRAMMARS.get(language) if syntax and len(text) <= settings.syntax_max_chars else None
    visible = grammar.hide(text) if grammar is not None and grammar.hide is not None else None
    if visible == "":  # a page without code
        return text_parse(Source(text), settings), b""
    source = Source(text, visible, embedded=grammar is not None and (grammar.embedded or grammar.template))
    notes = _notes(source, settings)
    if get_language(language).markup is not None:
        from codeinfo.index.plain import section_parse

        return replace(section_parse(source, language, settings), notes=notes), b""
    if grammar is None:
        if syntax and language in GRAMMARS:
            notes = (*notes, f"larger than {settings.syntax_max_chars:,} characters: indexed as text")
        return replace(_outline_parse(source, language, settings), notes=notes), b""
    parsed, references = _code_parse(path, source, language, settings)
    if grammar.template:
        parsed = replace(text_parse(source, settings), definitions=parsed.definitions, imports=parsed.imports)
    return replace(parsed, notes=notes), references


def text_parse(source: Source, settings: ChunkSettings) -> ParsedFile:
    """Chunks by lines only."""
    chunks = [Chunk(span.first, span.last, _text_of(span, source), "text") for span in text_spans(source, settings)]
    return ParsedFile(tuple(chunks), terms=tuple(weighted_terms(chunk.text) for chunk in chunks))


def _outline_parse(source: Source, language: str, settings: ChunkSettings) -> ParsedFile:
    """Chunks by lines that begin where definitions do, if any are found."""
    from codeinfo.index.plain import find_outline

    symbols = [
        Symbol(found.definition, found.first_line, [], found.parent, symbol_kind(found.definition.kind).is_scope)
        for found in find_outline(source, language)
    ]
    if not symbols:
        return text_parse(source, settings)
    within = _map_scopes(symbols, len(source.lines))
    starts = [symbol.definition.start_line for symbol in symbols]
    spans = outline_spans([symbol.first_line for symbol in symbols], source, settings)
    chunks, terms = [], []
    for span in spans:
        there = slice(bisect_left(starts, span.first), bisect_right(starts, span.last))
        inside = symbols[there] if span.columns is None else []
        types = [symbol.definition.name for symbol in inside if symbol_kind(symbol.definition.kind).is_container]
        others = [symbol.definition.name for symbol in inside if symbol.definition.name not in types]
        chunks.append(_chunk(span, source, inside, symbols, within[span.first - 1]))
        terms.append(weighted_terms(chunks[-1].text, "", types, others))
    return ParsedFile(tuple(chunks), tuple(symbol.definition for symbol in symbols), terms=tuple(terms))


def _code_parse(path: str, source: Source, language: str, settings: ChunkSettings) -> tuple[ParsedFile, bytes]:
    tree = parse_tree(language, source.data, source.encoding)
    matches = scan(tree.root_node, language, source)
    if (comments := GRAMMARS[language].comments) is not None:
        matches.comments += [comment.span() for comment in comments.finditer(source.text)]
    symbols = symbols_of(matches, source, language)
    if GRAMMARS[language].embedded and (name := _component_name(path)):
        whole = Definition(name, name, "component", f"component {name}", "", 1, len(source.lines))
        symbols.append(Symbol(whole, 1, [], -1, is_scope=False))
    names = (span for symbol in symbols for span in symbol.name_spans)
    keys = ((start, end) for start, end, _ in matches.keys if start not in matches.shorthand)
    layers = Layers(source, matches, (*names, *keys))
    within = _map_scopes(symbols, len(source.lines))
    spans = syntax_spans(tree.root_node, source, settings, GRAMMARS[language].body_beside)
    order = sorted(range(len(symbols)), key=lambda position: symbols[position].definition.start_line)
    starts = [symbols[position].definition.start_line for position in order]
    chunks: list[Chunk] = []
    terms: list[dict[str, float]] = []
    for span in spans:
        # A piece of one giant line gets no name: it would name everything on that line.
        there = order[bisect_left(starts, span.first) : bisect_right(starts, span.last)] if span.columns is None else ()
        inside = [symbols[position] for position in there]
        chunks.append(_chunk(span, source, inside, symbols, within[span.first - 1]))
        terms.append(_terms(span, layers, inside, chunks[-1].text))
    scopes = [symbols[at].definition if at >= 0 else None for at in within]
    types_only = type_blocks(tree.root_node, source, get_language(language).imports.types_block)
    imports = imports_of(matches, tree.root_node, source, layers.code, language)
    if (table := get_language(language).imports.table) is not None and table[0].fullmatch(path):
        imports = tuple(sorted((*imports, *table[1](source.text)), key=lambda entry: entry.line))
    imports = time_imports(imports, scopes, types_only)
    if get_language(language).imports.types_elided:
        imports = _mark_dropped(imports, tree.root_node, source)
    rules = get_language(language).names
    more_uses = [*key_uses(matches, source), *quoted_names(matches, source, GRAMMARS[language].names_in_strings)]
    more_uses += opened_names(symbols, source) if rules.constants else ()
    more_uses += ((source.line_of(start), f"{source.text[start:end]}Attribute") for start, end in matches.attributes)
    packed = pack_code(
        layers.names,
        language,
        within,
        [symbol.definition.qualified for symbol in symbols],
        group_by_key(more_uses),
        bound_rows(matches, source, within),
        imports,
    )
    definitions = tuple(symbols[position].definition for position in order)
    return ParsedFile(tuple(chunks), definitions, imports, terms=tuple(terms)), packed


def _component_name(path: str) -> str:
    """What others call the component of a file: UserCard for `user-card.vue` and for `UserCard/index.vue`. A route is
    called by its address."""
    folder, _, file = path.rpartition("/")
    stem = file.partition(".")[0]
    if stem == "index":
        stem = folder.rpartition("/")[2]
    name = pascal_case(stem)
    return name if name.isidentifier() and ("-" in stem or not stem.islower()) else ""


def _notes(source: Source, settings: ChunkSettings) -> tuple[str, ...]:
    limit = settings.line_max_chars
    long_lines = sum(map(limit.__lt__, map(len, source.lines)))
    return (f"{quantity(long_lines, 'line')} longer than {limit:,} characters, cut there",) if long_lines else ()


def _map_scopes(symbols: Sequence[Symbol], line_count: int) -> list[int]:
    """For each line the position of the innermost scope around it, -1 outside any."""
    within = [-1] * line_count
    for position, symbol in enumerate(symbols):
        if symbol.is_scope:
            first, last = symbol.first_line, symbol.definition.end_line
            within[first - 1 : last] = [position] * (last - first + 1)
    return within


def _text_of(span: Span, source: Source) -> str:
    if span.columns is None:
        return source.between(span.first, span.last)
    return source.lines[span.first - 1][slice(*span.columns)]


def _terms(span: Span, layers: Layers, inside: Sequence[Symbol], text: str) -> dict[str, float]:
    definitions = [symbol.definition for symbol in inside]
    types = [definition.name for definition in definitions if symbol_kind(definition.kind).is_container]
    others = [
        definition.name
        for definition in definitions
        if symbol_kind(definition.kind).is_callable or definition.kind in _NAMED_KINDS
    ]
    if span.columns is not None:
        return weighted_terms(text)
    lines = slice(span.first - 1, span.last)
    return weighted_terms("\n".join(layers.code[lines]), "\n".join(layers.comments[lines]), types, others)


def _chunk(span: Span, source: Source, inside: Sequence[Symbol], symbols: Sequence[Symbol], outer: int) -> Chunk:
    text = _text_of(span, source)
    if not inside:
        if outer < 0:
            return Chunk(span.first, span.last, text, "module")
        definition = symbols[outer].definition
        crumb = _crumb(symbols, symbols[outer].parent, _make_title(symbols[outer]))
        return Chunk(span.first, span.last, text, definition.kind, definition.qualified, crumb)
    inside = [symbol for symbol in inside if symbol.definition.kind not in _CONTAINERS] or inside
    main = max(inside, key=lambda symbol: _worth(symbol, span))
    same_scope = [symbol for symbol in inside if symbol.parent == main.parent]
    if len(same_scope) == 1:
        title = _make_title(main)
    else:
        title = ", ".join(dict.fromkeys(symbol.definition.name for symbol in same_scope))
    crumb = _crumb(symbols, main.parent, title)
    return Chunk(span.first, span.last, text, main.definition.kind, main.definition.qualified, crumb)


def _worth(symbol: Symbol, span: Span) -> tuple[int, bool]:
    """How much of the chunk a definition takes; among equals a function ranks above a variable."""
    return min(symbol.definition.end_line, span.last) - symbol.definition.start_line, symbol.is_scope


def _make_title(symbol: Symbol) -> str:
    """`name(parameters)`: the signature from the name on."""
    definition = symbol.definition
    _, name, rest = definition.signature.partition(definition.name)
    return name + rest if name else definition.name


def _crumb(symbols: Sequence[Symbol], parent: int, title: str) -> str:
    parts = [title]
    while parent >= 0:
        parts.append(symbols[parent].definition.name)
        parent = symbols[parent].parent
    return " > ".join(reversed(parts))[:_MAX_BREADCRUMB]


# --- imports -------------------------------------------------------------------------------------------------------


_MAX_STATEMENT = 20_000  # characters; a longer "import" is data


def imports_of(matches: Scan, root: Node, source: Source, code: Sequence[str], language: str) -> tuple[Import, ...]:
    """The imports of a file, as written: statements come from the syntax tree; for languages that import by calling a
    function (`require`, `@import`, `source`), the code is searched, without comments and texts of several lines.

    Modules are without quotes. What this would lose is kept in the language's own notation: a C system header keeps its
    angle brackets, Ruby's `require_relative` gets a leading `./`, Rust's `mod x;` is `self::x`.
    """
    rules = get_language(language).imports
    imports: list[Import] = []
    if rules.read is not None:
        for start, end in sorted(matches.imports):
            statement = source.text[start : min(end, start + _MAX_STATEMENT)]
            imports.extend(rules.read(statement, source.line_of(start)))
    if rules.calls and any(word in source.text for word in rules.call_words):
        stated = {(entry.module, entry.line) for entry in imports}
        texts = [range(source.line_of(start), source.line_of(end)) for start, end in matches.strings]
        quoted = {line + 1 for lines in texts for line in lines}
        for entry in _find_called(rules.calls, "\n".join(code)):
            if (entry.module, entry.line) not in stated and entry.line not in quoted:
                is_late = rules.timed and _is_in_function(root, source, entry)
                imports.append(replace(entry, timing="lazy") if is_late else entry)
        imports.sort(key=lambda entry: entry.line)
    return tuple(imports)


_FUNCTIONS = frozenset({"function_definition", "function_expression", "function", "arrow_function", "lambda"})


def _is_in_function(root: Node, source: Source, entry: Import) -> bool:
    """Whether a function that may have no name is around an import, and is not called on the spot."""
    line = source.line_start(entry.line), source.line_start(entry.line + 1)
    start = source.text.find(entry.module.removeprefix("./"), *line) * source.unit_bytes
    node = root.descendant_for_byte_range(start, start) if start >= 0 else None
    while node is not None:
        outer = node.parent
        if node.type in _FUNCTIONS and not (outer is not None and outer.type == "parenthesized_expression"):
            return True
        node = outer
    return False


def time_imports(
    imports: Sequence[Import], scopes: Sequence[Definition | None], types_only: Collection[range]
) -> tuple[Import, ...]:
    """Imports with the time they take effect. `scopes` has the definition around each line."""

    def timing_of(item: Import) -> str:
        scope = scopes[item.line - 1]
        if any(item.line in lines for lines in types_only):
            return "types"
        return item.timing or ("lazy" if scope is not None and symbol_kind(scope.kind).is_callable else "")

    return tuple(replace(item, timing=timing_of(item)) for item in imports)


def type_blocks(root: Node, source: Source, condition: str) -> list[range]:
    """The lines of blocks that only a type checker reads."""
    if not condition or condition not in source.text:
        return []
    blocks = []
    for node in root.named_children:
        tested, block = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if tested is not None and block is not None and source.node_text(tested).rpartition(".")[2] == condition:
            blocks.append(range(source.line_of_byte(block.start_byte), source.line_of_byte(block.end_byte) + 1))
    return blocks


_DECORATOR = re.compile(r"^[ \t]*@\w", re.MULTILINE)  # may keep the types of parameters for a container of dependencies
_NAME_SIGN = re.compile(r"[\w$]")
# Around a name that is imported, and around one that is used as a type.
_NO_VALUES = frozenset("import_specifier import_clause namespace_import nested_type_identifier type_query".split())


def _mark_dropped(imports: tuple[Import, ...], root: Node, source: Source) -> tuple[Import, ...]:
    """Compilers leave out an import none of whose names is used as a value."""
    if _DECORATOR.search(source.text):
        return imports
    lines_kept = {item.line for item in imports if item.reexport or item.timing or not (item.names or item.alias)}
    for item in imports:
        names = (item.alias,) if item.alias else item.names
        if item.line not in lines_kept and any(_is_value(name, root, source) for name in names):
            lines_kept.add(item.line)
    return tuple(item if item.line in lines_kept else replace(item, timing="dropped") for item in imports)


def _is_value(name: str, root: Node, source: Source) -> bool:
    """Whether a name is used as a value somewhere."""
    text, end = source.text, 0
    while (start := text.find(name, end)) >= 0:
        end = start + len(name)
        if _NAME_SIGN.search(text[max(0, start - 1) : start] + text[end : end + 1]):
            continue
        node = root.descendant_for_byte_range(start * source.unit_bytes, end * source.unit_bytes)
        if node is None or node.parent is None or node.parent.type in _NO_VALUES:
            continue
        if node.type in ("identifier", "shorthand_property_identifier"):
            return True
    return False


def _find_called(search: str, code: str) -> Iterator[Import]:
    line, position = 1, 0
    for match in re.finditer(search, code, re.MULTILINE):
        groups = match.groupdict()
        start = match.start("module")
        line += code.count("\n", position, start)
        position = start
        module = ("./" if groups.get("relative") else "") + match["module"]
        timing, member = "lazy" if groups.get("lazy") else "", groups.get("member") or ""
        names, alias, reexport = groups.get("names"), groups.get("alias") or groups.get("given") or "", False
        if groups.get("value") or (names and member):  # what is made of the module is bound, not the module
            names, alias = "", ""
        else:
            reexport = bool(groups.get("reexport"))
        if names:
            parts = (item.partition("=")[0].partition(":") for item in names.split(","))
            taken = [
                (name.strip(), alias.strip())
                for name, _, alias in parts
                if name.strip().replace(".", "").isidentifier()
            ]
            yield from group_imports(module, line, taken, timing=timing)
        elif member and (alias or reexport):
            yield Import(module, line, (member,), "" if alias == member else alias or "exports", reexport, timing)
        else:
            is_whole = reexport and not alias  # `module.exports = require("./cart")`
            yield Import(module, line, ("*",) if is_whole else (), alias, reexport, timing)


def bound_rows(matches: Scan, source: Source, within: Sequence[int]) -> list[str]:
    """What names are bound to, one row each, see `graph/uses.py`."""
    rows = []
    for binding in matches.bindings:
        line = source.line_of(binding.offset)
        end = source.line_of(binding.end) if binding.end >= 0 else ""
        rows.append(f"{line}\t{end}\t{within[line - 1]}\t{binding.name}\t{binding.mark}{binding.text}")
    return rows


def key_uses(matches: Scan, source: Source) -> Iterator[tuple[int, str]]:
    """Fields named where a value of their type is written, with their lines: `Pool{size: 3}`."""
    names: dict[str, str] = {}
    for start, end, owner in matches.keys:
        if owner not in names:
            name = owner.lstrip("&*").replace("::", ".")
            names[owner] = name if name.replace(".", "").isidentifier() else ""
        if names[owner] and end - start > 1:
            yield source.line_of(start), f"{names[owner]}{{:}}|.{source.text[start:end]}"


def quoted_names(matches: Scan, source: Source, named: re.Pattern[str] | None) -> Iterator[tuple[int, str]]:
    """What whole strings may name: `"shop.cart.Cart"`, `__all__ = ["Cart"]`, `setattr(cart, "total", 1)`."""
    for start, end in matches.strings if named is not None else ():
        if named is not None and named.fullmatch(source.text, start, end):
            yield source.line_of(start), f"{LITERAL}|.{source.text[start:end].lstrip(':').replace('::', '.')}"
    yield from ((source.line_of(start), f"{LITERAL}|.{source.text[start:end]}") for start, end in matches.export_names)
    for mark, named_there in ((MENTIONED, matches.members), (LITERAL, matches.paths)):
        for start, name in named_there:
            if name.replace(".", "").isidentifier():
                yield source.line_of(start), f"{mark}|.{name}"


def opened_names(symbols: Sequence[Symbol], source: Source) -> Iterator[tuple[int, str]]:
    """What `class Shop::Cart` names besides what it defines."""
    for start, end in (span for symbol in symbols for span in symbol.name_spans):
        if owner := source.text[start:end].rpartition("::")[0].lstrip(":"):
            yield source.line_of(start), f"{MENTIONED}|.{owner.replace('::', '.')}"


# --- symbols ----------------------------------------------------------------------------------------------------------

# Only worth a definition outside functions: inside, it is a local variable.
_LOCAL_KINDS = frozenset({"variable", "constant", "member", "property", "field", "prototype", "type"})
_MEMBER_KINDS = {"function": "method", "prototype": "method", "variable": "field"}
_ATTRIBUTE_LINE = re.compile(r"\s*(?:@|#\[|\[|template\b)")
_CONSTANT_NAME = re.compile(r"_*[A-Z][A-Z0-9_]+")
_ALWAYS_EXPORTED = frozenset({"package", "impl", "instance"})
_FIELD_PARAMETERS = frozenset({"property_promotion_parameter", "required_parameter"})  # of a constructor: of its type
_OVERLOAD = re.compile(r"(?:\w+\.)?overload")
_CONDITIONS = frozenset({"if", "while"})  # no names: the grammar lost track, as between `#if` and `#endif`
_TEST_CALL = re.compile(r"(?:describe|context|suite|it|test|specify|(?:before|after)(?:Each|All)?)\b")
_SAME_NAME = re.compile(r"(?:module\.)?exports\.([\w$]+)\s*=\s*\1")
_MAX_BINDING = 2200  # characters of an import that lists what it takes
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

    def __init__(self, matches: Scan, source: Source, language: str) -> None:
        self.source = source
        self.language = language
        self.syntax: Syntax = GRAMMARS[language]
        rules = get_language(language)
        self.import_call = re.compile(rules.imports.calls) if rules.names.default_exports else None
        is_guessed = rules.imports.headers  # what macros hide is
        self.no_names = _CONDITIONS | self.syntax.keywords if is_guessed else _CONDITIONS
        self.symbols: list[Symbol] = []
        self.named: set[int] = set()
        self.open: list[tuple[int, int]] = []  # (end offset, position in symbols)
        self.docs = dict(matches.docs)
        self.overloads = {
            binding.offset for binding in matches.bindings if binding.name == "@" and _OVERLOAD.fullmatch(binding.text)
        }
        self.comment_ending = self._comments_by_last_line(matches)
        names = [source.text[start:end] for start, end in matches.exports]
        if self.syntax.more_exports:
            names += (match[match.lastindex or 0] for match in re.finditer(self.syntax.more_exports, source.text))
        self.exported_names = frozenset(re.findall(r"\w+", " ".join(names)))

    def _comments_by_last_line(self, matches: Scan) -> dict[int, tuple[int, int]]:
        """Comments on lines of their own, by their last line."""
        source = self.source
        spans = matches.comments + matches.docs if self.syntax.doc_attribute else matches.comments
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
        if candidate.node.type in _FIELD_PARAMETERS and parent >= 0:
            parent = self.symbols[parent].parent
        parent_kind = self.symbols[parent].definition.kind if parent >= 0 else ""
        kind = candidate.kind
        if kind in _LOCAL_KINDS and (symbol_kind(parent_kind).is_callable or self._is_in_test(candidate)):
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
        if not name or name in self.no_names or self._binds_import(candidate):
            return
        if self._repeats(name, parent, span[0]):
            self.symbols[parent].name_spans.append(span)
            return
        self.named.add(span[0])
        if "scope" in candidate.captures:
            qualifier = split_name(self.source.node_text(candidate.captures["scope"][0]), "type")[1:]
        self._add(candidate, kind, span, (*qualifier, name), parent)

    def _repeats(self, name: str, parent: int, name_start: int) -> bool:
        """`app.use = function use() {}`: the second name repeats the first."""
        outer = self.symbols[parent].definition if parent >= 0 else None
        if outer is None or outer.name != name or not (symbol_kind(outer.kind).is_callable or outer.kind == "class"):
            return False
        return outer.start_line == self.source.line_of(name_start)

    def _binds_import(self, candidate: Candidate) -> bool:
        """`const fs = require("fs")`, `exports.fs = require("fs")` and `exports.cart = cart` define nothing; `export
        const` does."""
        start, end = candidate.start, min(-candidate.minus_end, candidate.start + _MAX_BINDING)
        if self.import_call is None or candidate.kind not in ("variable", "member"):
            return False
        written = ("var " if candidate.kind == "variable" else "") + self.source.text[start:end]
        if _SAME_NAME.fullmatch(written):
            return True
        match = self.import_call.fullmatch(written)
        if match is None or match["value"] or (match["names"] and match["member"]):
            return False
        line = self.source.line_start(self.source.line_of(start))
        return any(match.group("alias", "names", "given")) and "export " not in self.source.text[line:start]

    def _is_in_test(self, candidate: Candidate) -> bool:
        """Whether it is a variable of a test of JavaScript: of `it("adds", () => {…})`."""
        node = candidate.node.parent if get_language(self.language).names.default_exports else None
        while node is not None:
            called = node.child_by_field_name("function") if node.type == "call_expression" else None
            if called is not None and _TEST_CALL.match(self.source.node_text(called)):
                return True
            node = node.parent
        return False

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
        bodies = candidate.captures.get("body")
        body = (source.span(bodies[0])[0] if bodies else header_end(candidate.node, kind, source)) if is_scope else None
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
        if self.syntax.clauses and symbols and definition.continues(symbols[-1].definition):
            first = symbols[-1].definition
            symbols[-1].definition = replace(first, doc=first.doc or definition.doc, end_line=definition.end_line)
            symbols[-1].name_spans.append(span)
        else:
            # `View.prototype.render = …` defines its last name and uses the first.
            last = span if self.import_call is None else (span[1] - len(names[-1]), span[1])
            symbols.append(Symbol(definition, first_line, [last], parent, is_scope))
        if is_scope:
            self.open.append((end, len(symbols) - 1))

    def rescue(self, pattern: re.Pattern[str], matches: Scan) -> None:
        """Functions recognised only by their first line; they end where a brace stands alone."""
        source = self.source
        for match in pattern.finditer(source.text):
            span = match.span(1)
            if span[0] in self.named or any(start <= span[0] < end for start, end in matches.comments):
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
        is_parameter = candidate.node.type in _FIELD_PARAMETERS  # others, with other modifiers, may share its line
        line_start = candidate.start if is_parameter else self.source.line_start(self.source.line_of(candidate.start))
        _, (start, end), _ = header
        before, written = self.source.text[max(line_start, start - _MAX_HEADER) : start], self.source.text[start:end]
        return self.syntax.exported(Declared(names[-1], written, before, outer))

    def _doc(self, first_line: int, body: int | None) -> str:
        """The first line of the documentation: a string at the start of the body, or the comment right above."""
        text = self.source.text
        if body is not None and body in self.docs and not self.syntax.doc_attribute:
            return first_words(text[body : self.docs[body]].lstrip("rRbBuUfF"))
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
        return first_words("\n".join(self.source.lines[self.source.line_of(start) - 1 : line]))


def symbols_of(matches: Scan, source: Source, language: str) -> list[Symbol]:
    """All definitions, enclosing ones before enclosed ones."""
    reader = _SymbolReader(matches, source, language)
    for candidate in matches.candidates:
        reader.read(candidate)
    if matches.has_errors and reader.syntax.rescue is not None:
        reader.rescue(reader.syntax.rescue, matches)
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
    is_added = kind == "property" and len(names) > 1  # by an extension
    is_variable = kind in {"variable", "field", "property"} and not is_added
    if syntax.constants_by_name and is_variable and _CONSTANT_NAME.fullmatch(names[-1]):
        return "constant"
    return "variable" if kind == "member" else kind


# --- headers --------------------------------------------------------------------------------------------------------

Header = tuple[int, tuple[int, int], int]  # start of the node, span of the name, end of the header

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


_LINE_COMMENT = re.compile(r"(?m)(?:#(?<=[\s,(]#)|//(?<=[\s,(]//))\s.*$")


def signature_of(text: str, header: Header, *, has_body: bool, is_scope: bool) -> str:
    """The header on one line, without attributes, comments and the sign that opens the body."""
    start, (name_start, name_end), end = header
    written = text[start:name_start]
    if len(written) > _MAX_HEADER and written.startswith("typedef"):  # `typedef enum { … } colour`
        written = written.partition("{")[0]
    before = _without_attributes(written)[-_MAX_HEADER:]
    rest = text[name_start : min(end, name_end + _MAX_HEADER)]
    if not has_body and not (is_scope and "(" in rest.partition("\n")[0] and len(rest) < 2 * MAX_SIGNATURE):
        rest = rest.partition("\n")[0]
    signature = " ".join(_LINE_COMMENT.sub("", before + rest).split())[:MAX_SIGNATURE]
    tail = _TAIL.search(signature, len(signature.rstrip(_TAIL_SIGNS)))
    return signature if tail is None else signature[: tail.start()]


def _without_attributes(before: str) -> str:
    """What precedes a name, without lines of attributes; one may take several."""
    outside, opened = [], 0
    for line in before.split("\n") if "\n" in before else ():
        if opened > 0 or _ATTRIBUTE.match(line):
            opened += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        else:
            outside.append(line)
    return "\n".join(outside) if "\n" in before else before


def bases_of(text: str, header: Header, syntax: Syntax) -> tuple[str, ...]:
    _, (_, name_end), end = header
    return syntax.bases(text[name_end : min(end, name_end + _MAX_HEADER)], syntax.keywords) if syntax.bases else ()


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
    if written.startswith("`") and written.endswith("`") and " " in written:  # as tests of Kotlin are called
        return (), written.strip("`")
    text = written.strip('"`:# \t\r\n').lstrip("$")  # at the end it belongs to a name of JavaScript: `total$`
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
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return text
