"""One file in; chunks, definitions, imports, references and terms out. Runs in a process that can be killed (see
pool)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from codeinfo.index.chunk import ChunkSettings, Layers, Span, syntax_spans, text_spans, weighted_terms
from codeinfo.index.symbols import Symbol, symbols_of
from codeinfo.index.syntax import Scan, Source, parser, scan
from codeinfo.index.uses import bound_rows, key_uses, pack_code
from codeinfo.languages import GRAMMARS, get_language
from codeinfo.languages.model import group_imports
from codeinfo.model import Chunk, Definition, Import, ParsedFile, symbol_kind

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_BREADCRUMB = 200
# Definitions whose names count more than their mere occurrence.
_CONTAINERS = frozenset({"package", "namespace"})  # around everything: a chunk is named after what is inside
_NAMED_KINDS = frozenset({"constant", "prototype"})


def parse_file(
    path: str, text: str, language: str, settings: ChunkSettings, *, syntax: bool = True
) -> tuple[ParsedFile, bytes]:
    """Everything in a file, and its references, packed since there are many; without `syntax` it is split as plain
    text."""
    grammar = GRAMMARS.get(language) if syntax and len(text) <= settings.syntax_max_chars else None
    seen = grammar.hide(text) if grammar is not None and grammar.hide is not None else None
    source = Source(text, seen, embedded=grammar is not None and grammar.embedded)
    notes = _notes(source, settings)
    if get_language(language).markup is not None:
        from codeinfo.index.documents import section_parse

        return replace(section_parse(source, language, settings), notes=notes), b""
    if grammar is None:
        if syntax and language in GRAMMARS:
            notes = (*notes, f"larger than {settings.syntax_max_chars:,} characters: indexed as text")
        return replace(text_parse(source, settings), notes=notes), b""
    parsed, references = _code_parse(path, source, language, settings)
    return replace(parsed, notes=notes), references


def text_parse(source: Source, settings: ChunkSettings) -> ParsedFile:
    """Chunks by lines only."""
    chunks = [Chunk(span.first, span.last, _text_of(span, source), "text") for span in text_spans(source, settings)]
    return ParsedFile(tuple(chunks), terms=tuple(weighted_terms(chunk.text) for chunk in chunks))


def _code_parse(path: str, source: Source, language: str, settings: ChunkSettings) -> tuple[ParsedFile, bytes]:
    tree = parser(language).parse(source.data, encoding=source.encoding)
    found = scan(tree.root_node, language, source)
    symbols = symbols_of(found, source, language)
    if GRAMMARS[language].embedded and (name := _component_name(path)):
        whole = Definition(name, name, "component", f"component {name}", "", 1, len(source.lines))
        symbols.append(Symbol(whole, 1, [], -1, is_scope=False))
    names = (span for symbol in symbols for span in symbol.name_spans)
    layers = Layers(source, found, (*names, *((start, end) for start, end, _ in found.keys)))
    within = _map_scopes(symbols, len(source.lines))
    spans = syntax_spans(tree.root_node, source, settings)
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
    imports = time_imports(imports_of(found, tree.root_node, source, layers.code, language), scopes, types_only)
    packed = pack_code(
        layers.names,
        language,
        within,
        [symbol.definition.qualified for symbol in symbols],
        key_uses(found, source),
        bound_rows(found, source, within),
        imports,
    )
    definitions = tuple(symbols[position].definition for position in order)
    return ParsedFile(tuple(chunks), definitions, imports, terms=tuple(terms)), packed


def _component_name(path: str) -> str:
    """What others call the component of a file: `user-card.vue` is UserCard. A route is called by its address."""
    stem = path.rpartition("/")[2].partition(".")[0]
    name = "".join(part[:1].upper() + part[1:] for part in stem.split("-"))
    return name if name.isidentifier() and (stem[:1].isupper() or "-" in stem) else ""


def _notes(source: Source, settings: ChunkSettings) -> tuple[str, ...]:
    limit = settings.line_max_chars
    long_lines = sum(map(limit.__lt__, map(len, source.lines)))
    return (f"{long_lines} lines longer than {limit:,} characters: the rest of them is left out",) if long_lines else ()


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
    _, found, rest = definition.signature.partition(definition.name)
    return found + rest if found else definition.name


def _crumb(symbols: Sequence[Symbol], parent: int, title: str) -> str:
    parts = [title]
    while parent >= 0:
        parts.append(symbols[parent].definition.name)
        parent = symbols[parent].parent
    return " > ".join(reversed(parts))[:_MAX_BREADCRUMB]


# --- imports -------------------------------------------------------------------------------------------------------


_MAX_STATEMENT = 20_000  # characters; a longer "import" is data


def imports_of(found: Scan, root: Node, source: Source, code: Sequence[str], language: str) -> tuple[Import, ...]:
    """The imports of a file, as written: statements come from the syntax tree; for languages that import by calling a
    function (`require`, `@import`, `source`), the code is searched, without comments and texts of several lines.

    Modules are without quotes. What this would lose is kept in the language's own notation: a C system header keeps its
    angle brackets, Ruby's `require_relative` gets a leading `./`, Rust's `mod x;` is `self::x`.
    """
    rules = get_language(language).imports
    imports: list[Import] = []
    if rules.read is not None:
        for start, end in sorted(found.imports):
            statement = source.text[start : min(end, start + _MAX_STATEMENT)]
            imports.extend(rules.read(statement, source.line_of(start)))
    if rules.calls and any(word in source.text for word in rules.call_words):
        stated = {(entry.module, entry.line) for entry in imports}
        texts = [range(source.line_of(start), source.line_of(end)) for start, end in found.strings]
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
    timed = []
    for one in imports:
        scope = scopes[one.line - 1]
        if any(one.line in lines for lines in types_only):
            timed.append(replace(one, timing="types"))
        elif not one.timing and scope is not None and symbol_kind(scope.kind).is_callable:
            timed.append(replace(one, timing="lazy"))
        else:
            timed.append(one)
    return tuple(timed)


def type_blocks(root: Node, source: Source, condition: str) -> list[range]:
    """The lines of blocks that only a type checker reads."""
    if not condition or condition not in source.text:
        return []
    found = []
    for node in root.named_children:
        tested, block = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if tested is not None and block is not None and source.node_text(tested).rpartition(".")[2] == condition:
            found.append(range(source.line_of_byte(block.start_byte), source.line_of_byte(block.end_byte) + 1))
    return found


def _find_called(search: str, code: str) -> Iterator[Import]:
    line, position = 1, 0
    for match in re.finditer(search, code, re.MULTILINE):
        groups = match.groupdict()
        start = match.start("module")
        line += code.count("\n", position, start)
        position = start
        module = ("./" if groups.get("relative") else "") + match["module"]
        timing = "lazy" if groups.get("lazy") else ""
        if groups.get("names"):
            parts = (item.partition(":") for item in groups["names"].split(",") if item.strip())
            taken = [(name.strip(), alias.strip()) for name, _, alias in parts]
            yield from group_imports(module, line, taken, timing=timing)
        else:
            yield Import(module, line, (), groups.get("alias") or "", False, timing)
