"""One file in, chunks, definitions, imports, references and terms out. Runs where it can be killed (see pool)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec.structs import replace

from codeinfo.graph.uses import all_references, unpack
from codeinfo.index.chunk import ChunkSettings, Layers, Span, syntax_spans, text_spans, weighted_terms
from codeinfo.index.packing import bound_rows, key_uses, pack_code
from codeinfo.index.symbols import Symbol, imports_of, symbols_of, timed_imports, type_blocks
from codeinfo.index.syntax import Source, parser, scan
from codeinfo.languages import GRAMMARS, named
from codeinfo.model import Chunk, FileKind, ParsedFile, symbol_kind

_MAX_BREADCRUMB = 200
# Definitions whose names weigh more than their mere occurrence.
_CONTAINERS = frozenset({"package", "namespace"})  # around everything: a chunk is named after what is inside
_NAMED_KINDS = frozenset({"constant", "prototype"})


def parse_file(
    path: str, text: str, language: str, kind: FileKind, settings: ChunkSettings, *, syntax: bool = True
) -> ParsedFile:
    """Everything a file has; without `syntax` it is cut as plain text."""
    parsed, references = parse_packed(path, text, language, kind, settings, syntax=syntax)
    return replace(parsed, references=tuple(all_references(unpack(references)[0])))


def parse_packed(
    path: str, text: str, language: str, kind: FileKind, settings: ChunkSettings, *, syntax: bool = True
) -> tuple[ParsedFile, bytes]:
    """The same with packed references, which are many: `ParsedFile.references` stays empty."""
    grammar = GRAMMARS.get(language) if syntax and len(text) <= settings.syntax_max_chars else None
    source = Source(text, grammar.hide(text) if grammar is not None and grammar.hide is not None else None)
    notes = _notes(source, settings)
    if named(language).markup is not None:
        from codeinfo.index.documents import section_parse

        return replace(section_parse(source, language, settings), notes=notes), b""
    if grammar is None:
        if syntax and language in GRAMMARS:
            notes = (*notes, f"larger than {settings.syntax_max_chars:,} characters: indexed as text")
        return replace(text_parse(source, settings), notes=notes), b""
    parsed, references = _code_parse(source, language, settings)
    return replace(parsed, notes=notes), references


def text_parse(source: Source, settings: ChunkSettings) -> ParsedFile:
    """Chunks by lines only."""
    chunks = [Chunk(span.first, span.last, _text_of(span, source), "text") for span in text_spans(source, settings)]
    return ParsedFile(tuple(chunks), terms=tuple(weighted_terms(chunk.text) for chunk in chunks))


def _code_parse(source: Source, language: str, settings: ChunkSettings) -> tuple[ParsedFile, bytes]:
    tree = parser(language).parse(source.data, encoding=source.encoding)
    found = scan(tree.root_node, language, source)
    symbols = symbols_of(found, source, language)
    names = (span for symbol in symbols for span in symbol.name_spans)
    layers = Layers(source, found, (*names, *((start, end) for start, end, _ in found.keys)))
    within = _enclosing(symbols, len(source.lines))
    spans = syntax_spans(tree.root_node, source, settings)
    order = sorted(range(len(symbols)), key=lambda position: symbols[position].definition.start_line)
    starts = [symbols[position].definition.start_line for position in order]
    chunks: list[Chunk] = []
    terms: list[dict[str, float]] = []
    for span in spans:
        # A piece of one giant line names nothing: it would name everything on that line.
        there = order[bisect_left(starts, span.first) : bisect_right(starts, span.last)] if span.columns is None else ()
        inside = [symbols[position] for position in there]
        chunks.append(_chunk(span, source, inside, symbols, within[span.first - 1]))
        terms.append(_terms(span, layers, inside, chunks[-1].text))
    scopes = [symbols[at].definition if at >= 0 else None for at in within]
    types_only = type_blocks(tree.root_node, source, named(language).imports.types_block)
    imports = timed_imports(imports_of(found, source, layers.code, language), scopes, types_only)
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


def _notes(source: Source, settings: ChunkSettings) -> tuple[str, ...]:
    limit = settings.line_max_chars
    long_lines = sum(1 for line in source.lines if len(line) > limit)
    return (f"{long_lines} lines longer than {limit:,} characters: the rest of them is left out",) if long_lines else ()


def _enclosing(symbols: Sequence[Symbol], line_count: int) -> list[int]:
    """For each line the position of the innermost scope around it, -1 outside of any."""
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
        crumb = _crumb(symbols, symbols[outer].parent, _titled(symbols[outer]))
        return Chunk(span.first, span.last, text, definition.kind, definition.qualified, crumb)
    inside = [symbol for symbol in inside if symbol.definition.kind not in _CONTAINERS] or inside
    main = max(inside, key=lambda symbol: _worth(symbol, span))
    same_scope = [symbol for symbol in inside if symbol.parent == main.parent]
    if len(same_scope) == 1:
        title = _titled(main)
    else:
        title = ", ".join(dict.fromkeys(symbol.definition.name for symbol in same_scope))
    crumb = _crumb(symbols, main.parent, title)
    return Chunk(span.first, span.last, text, main.definition.kind, main.definition.qualified, crumb)


def _worth(symbol: Symbol, span: Span) -> tuple[int, bool]:
    """How much of the chunk a definition takes; among equals a function is worth more than a variable."""
    return min(symbol.definition.end_line, span.last) - symbol.definition.start_line, symbol.is_scope


def _titled(symbol: Symbol) -> str:
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
