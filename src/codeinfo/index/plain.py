"""Files without a syntax tree: documents, split at headings, and code, whose definitions are found by patterns.

Long sections are split at paragraphs, with a small overlap.

A fenced code block or a table that fits into a chunk is never split. The overlap repeats whole lines, so that a chunk
is always exactly the lines it claims to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.index.chunk import ChunkSettings, Span, weighted_terms
from codeinfo.index.syntax import Source
from codeinfo.languages import OutlineRule, OutlineRules, find_comments, first_words, get_language, outline_rules
from codeinfo.languages.model import Markup
from codeinfo.model import CRUMB, MAX_SIGNATURE, PASSAGE, Chunk, Definition, Import, ParsedFile, symbol_kind
from codeinfo.sources.documents import (
    MAX_TEXT_CHARS,
    Fences,
    Refused,
    as_markdown,
    convert,
    document_language,
    format_of,
    one_line,
)
from codeinfo.sources.masking import mask, mask_notes
from codeinfo.sources.read import decode

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_CLOSING_MARKS = re.compile(r"[ \t]+#+[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
_ADORNMENT = re.compile(r"([=\-`:'\"~^_*+#<>.])\1{2,}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_MATTER = re.compile(r"(?:---|\+\+\+)\s*")
_MAX_TITLE = 160


class Heading(NamedTuple):
    line: int  # of the title
    first: int  # of the heading with its adornment
    level: int
    title: str


def section_parse(source: Source, language: str, settings: ChunkSettings) -> ParsedFile:
    """Chunks of kind "section" with the titles above them as breadcrumb; each heading is a definition."""
    headings, line_count = list(_headings(source.lines, language)), len(source.lines)
    crumbs, ends = _outline(headings, line_count)
    starts = [heading.first for heading in headings]
    sections = list(zip(starts, [*(start - 1 for start in starts[1:]), line_count], crumbs, strict=False))
    if not headings or starts[0] > 1:
        sections.insert(0, (1, starts[0] - 1 if headings else line_count, ""))
    chunks: list[Chunk] = []
    for first, last, crumb in _merge_short(sections, source, settings):
        for span in _section_spans(first, last, source, settings):
            text = source.between(span.first, span.last)
            if span.columns is not None:
                text = source.lines[span.first - 1][slice(*span.columns)]
            chunks.append(Chunk(span.first, span.last, text, "section", crumb.rpartition(" > ")[2], crumb))
    titles = {heading.line: heading.title for heading in headings}
    return ParsedFile(
        chunks=tuple(chunks),
        definitions=tuple(
            Definition(heading.title, crumb, "heading", f"level {heading.level}", "", heading.line, end)
            for heading, crumb, end in zip(headings, crumbs, ends, strict=True)
            if heading.title
        ),
        terms=tuple(_terms(chunk, titles) for chunk in chunks),
    )


def _terms(chunk: Chunk, titles: dict[int, str]) -> dict[str, float]:
    inside = [titles[line] for line in range(chunk.start_line, chunk.end_line + 1) if line in titles]
    return weighted_terms(chunk.text, other_names=[word for title in inside for word in re.findall(r"\w+", title)])


def _headings(lines: Sequence[str], language: str) -> Iterator[Heading]:
    levels: dict[str, int] = {}  # levels of reStructuredText adornments, in order of appearance
    markup = get_language(language).markup or Markup()
    fences = Fences(markup.fence or "(?!)")
    start = _front_matter_end(lines) if markup.is_markdown else 0
    for number in range(start, len(lines)):
        if fences.cover(lines[number]):
            continue
        if markup.is_markdown:
            heading = _markdown_heading(lines, number)
        elif markup.mark:
            heading = _marked_heading(lines[number], number, re.compile(markup.mark))
        else:
            heading = _adorned_heading(lines, number, levels)
        if heading is not None:
            yield heading


def _front_matter_end(lines: Sequence[str]) -> int:
    """The number of lines of a metadata block at the top."""
    if not lines or not _FRONT_MATTER.fullmatch(lines[0]):
        return 0
    for number in range(1, min(len(lines), 100)):
        if lines[number].strip() == lines[0].strip():
            return number + 1
    return 0


def _markdown_heading(lines: Sequence[str], number: int) -> Heading | None:
    line = lines[number]
    match = _ATX.match(line)
    if match:
        title = _CLOSING_MARKS.sub("", line[match.end() :]).strip()
        return Heading(number + 1, number + 1, len(match.group(1)), title[:_MAX_TITLE])
    if number + 1 < len(lines) and line.strip() and not line.startswith(("    ", "\t", ">", "- ", "* ", "|", "<")):
        below = _SETEXT.fullmatch(lines[number + 1].rstrip("\r"))
        paragraph = number > 0 and lines[number - 1].strip() and not _ATX.match(lines[number - 1])
        if below and not paragraph and not _SETEXT.fullmatch(line):
            return Heading(number + 1, number + 1, 1 if below.group(1)[0] == "=" else 2, line.strip()[:_MAX_TITLE])
    return None


def _marked_heading(line: str, number: int, mark: re.Pattern[str]) -> Heading | None:
    match = mark.match(line)
    if not match:
        return None
    return Heading(number + 1, number + 1, len(match.group(1)), line[match.end() :].strip()[:_MAX_TITLE])


def _adorned_heading(lines: Sequence[str], number: int, levels: dict[str, int]) -> Heading | None:
    """A title with a line of signs below it that is at least as long; the same line may stand above."""
    title = lines[number].rstrip()
    if not title or title[0].isspace() or number + 1 >= len(lines) or _ADORNMENT.fullmatch(title):
        return None
    below = lines[number + 1].rstrip()
    if not _ADORNMENT.fullmatch(below) or len(below) < min(len(title), 200):
        return None
    above = lines[number - 1].rstrip() if number > 0 else ""
    over = above == below
    if above and not over:
        return None  # the last line of a paragraph, or a table
    style = below[0] * 2 if over else below[0]
    level = levels.setdefault(style, len(levels) + 1)
    return Heading(number + 1, number if over else number + 1, level, title.strip()[:_MAX_TITLE])


def _outline(headings: Sequence[Heading], line_count: int) -> tuple[list[str], list[int]]:
    """For each heading, the titles above it and its own as a breadcrumb, and the last line of all that is below it."""
    crumbs, ends = list[str](), [line_count] * len(headings)
    above: list[int] = []
    for position, heading in enumerate(headings):
        while above and headings[above[-1]].level >= heading.level:
            ends[above.pop()] = heading.first - 1
        above.append(position)
        crumbs.append(" > ".join(headings[at].title for at in above if headings[at].title))
    return crumbs, ends


def _merge_short(
    sections: Sequence[tuple[int, int, str]], source: Source, settings: ChunkSettings
) -> Iterator[tuple[int, int, str]]:
    """A heading with hardly any text of its own is merged with its first subsection, if both fit into one chunk."""
    start = 0
    for position, (first, last, crumb) in enumerate(sections):
        start = start or first
        following = sections[position + 1] if position + 1 < len(sections) else None
        if (
            following is not None
            and following[2].startswith(f"{crumb} > ")
            and source.size(start, last) <= settings.doc_overlap
            and source.size(start, following[1]) <= settings.doc_chars
        ):
            continue
        yield start, last, crumb
        start = 0


def _section_spans(first: int, last: int, source: Source, settings: ChunkSettings) -> Iterator[Span]:
    """Paragraphs merged up to the target size; the end of one chunk is repeated at the start of the next."""
    blocks = list(_blocks(first, last, source, settings))
    start = 0
    while start < len(blocks):
        block = blocks[start]
        if block.columns is not None:
            yield block
            start += 1
            continue
        end = start
        while (
            end + 1 < len(blocks)
            and blocks[end + 1].columns is None
            and source.size(block.first, blocks[end + 1].last) <= settings.doc_chars
        ):
            end += 1
        yield Span(block.first, blocks[end].last)
        following = end + 1
        while (
            following < len(blocks)
            and following - 1 > start
            and blocks[following - 1].columns is None
            and source.size(blocks[following - 1].first, blocks[end].last) <= settings.doc_overlap
        ):
            following -= 1
        start = following if following <= end and end + 1 < len(blocks) else end + 1


def _blocks(first: int, last: int, source: Source, settings: ChunkSettings) -> Iterator[Span]:
    """Paragraphs, tables and fenced code, each whole if it fits, otherwise line by line."""
    lines = source.lines
    number = first
    while number <= last:
        if not lines[number - 1].strip():
            number += 1
            continue
        end = _block_end(lines, number, last)
        if source.size(number, end) <= settings.doc_chars:
            yield Span(number, end)
        else:
            yield from _long_block(number, end, source, settings)
        number = end + 1


def _block_end(lines: Sequence[str], number: int, last: int) -> int:
    fence = _FENCE.match(lines[number - 1])
    if fence:
        for end in range(number + 1, last + 1):
            if lines[end - 1].strip().startswith(fence.group(1)):
                return end
    end = number
    while end < last and lines[end].strip():
        end += 1
    return end


def _long_block(first: int, last: int, source: Source, settings: ChunkSettings) -> Iterator[Span]:
    max_chars = settings.doc_chars
    for line in range(first, last + 1):
        text = source.lines[line - 1]
        if len(text) <= 2 * max_chars:
            if text.strip():
                yield Span(line, line)
            continue
        for column in range(0, min(len(text), settings.line_max_chars), max_chars):
            yield Span(line, line, (column, column + max_chars))


MAX_LINKS = 5000  # of one document
_MAX_BREADCRUMB = 240
_MAX_HEADER = 5000  # characters of a table's header that each of its passages repeats

_TITLE_LINE = re.compile(r"title:[ \t]*(\S[^\n]{0,300})", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]\n]{0,200})\]\([ \t]*<?([^()<>\s]{1,500})>?[^()\n]{0,200}\)")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,200})(?:#[^\[\]|\n]{0,200})?(?:\|([^\[\]\n]{0,200}))?\]\]")
_RULE = re.compile(r"\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def document_parse(path: str, data: bytes, settings: ChunkSettings) -> ParsedFile:
    """Raises Refused with a reason for people, or whatever a library raises on a hostile file."""
    text, language, title, notes = _read(path, data)
    source = Source(text)
    parsed = section_parse(source, language if get_language(language).markup else "text", settings)
    title = title or _title(source.lines, parsed, path)
    headers = _table_headers(source.lines)
    chunks = tuple(_passage(chunk, title, headers) for chunk in parsed.chunks)
    added = [
        weighted_terms(chunk.text) if chunk.text != old.text else None
        for chunk, old in zip(chunks, parsed.chunks, strict=True)
    ]
    return ParsedFile(
        chunks=chunks,
        definitions=parsed.definitions,
        imports=tuple(links(source.lines)),
        terms=tuple(new or old for new, old in zip(added, parsed.terms, strict=True)),
        notes=notes,
    )


def _read(path: str, data: bytes) -> tuple[str, str, str, tuple[str, ...]]:
    """Text, language, title if the document has one, notes."""
    if format_of(path) is None:
        decoded = decode(data)
        if decoded is None:
            raise Refused("not text, by its content")
        if len(decoded.content) > MAX_TEXT_CHARS:
            raise Refused(f"longer than {MAX_TEXT_CHARS:,} characters")
        return decoded.content, document_language(path), "", decoded.notes
    document = convert(path, data)
    text, notes = as_markdown(document)
    text, masked = mask(text)
    title, _ = mask(one_line(document.title))
    return text, "markdown", title, (*notes, *mask_notes(masked))


def _title(lines: Sequence[str], parsed: ParsedFile, path: str) -> str:
    """From the metadata at the top, or a heading of the highest level that opens the text, or the file's name."""
    for line in lines[1 : _front_matter_end(lines)]:
        if match := _TITLE_LINE.match(line):
            return one_line(match.group(1).strip("'\" "))
    if parsed.definitions and parsed.definitions[0].signature == "level 1":
        return parsed.definitions[0].name
    name = path[path.rfind("/") + 1 :]
    return name[: name.rfind(".")] if "." in name[1:] else name


def _passage(chunk: Chunk, title: str, headers: Sequence[tuple[int, int, str]]) -> Chunk:
    crumb = chunk.breadcrumb
    if crumb != title and not crumb.startswith(title + CRUMB):
        crumb = f"{title}{CRUMB}{crumb}" if crumb else title
    text = chunk.text
    for first, last, header in headers:
        if first + 1 < chunk.start_line <= last:
            text = f"{header}\n{text}"
    return replace(chunk, kind=PASSAGE, breadcrumb=crumb[:_MAX_BREADCRUMB], text=text)


def _table_headers(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    """First line, last line and header (with the rule below it) of each table."""
    headers = []
    for number, line in enumerate(lines):
        if number and line.startswith("|") and _RULE.fullmatch(line) and "|" in lines[number - 1]:
            last = number
            while last + 1 < len(lines) and lines[last + 1].startswith("|"):
                last += 1
            if len(line) + len(lines[number - 1]) < _MAX_HEADER:
                headers.append((number, last + 1, f"{lines[number - 1]}\n{line}"))
    return headers


def links(lines: Sequence[str]) -> Iterator[Import]:
    """Links to other documents, in Markdown or wiki syntax, outside code blocks. Web addresses are left out."""
    fences, count = Fences(), 0
    for number, line in enumerate(lines, 1):
        if fences.cover(line) or "[" not in line or len(line) > 20_000:
            continue
        for text, target in _LINK.findall(line):
            target = unquote(target.partition("#")[0].partition("?")[0])
            if target and not _ABSOLUTE.match(target):
                count += 1
                yield Import(target, number, (one_line(text),) if text.strip() else (), alias="link")
        for target, text in _WIKI_LINK.findall(line):
            count += 1
            yield Import(target.strip(), number, (one_line(text),) if text.strip() else (), alias="wiki")
        if count > MAX_LINKS:
            return


# --- code ------------------------------------------------------------------------------------------------------------

_MAX_LINE = 1000  # characters; a longer line is data
_MEMBERS = frozenset({"method", "field"})
_LINE = re.compile(r"[^\n]+")
# What goes on with a block at the indentation of its first line.
_GOES_ON = re.compile(
    r"\s*(?:[{}()\[\]]|(?i:begin|is|do|then|else|elif|elsif|elseif|rescue|ensure|except|catch|finally|fi|done|esac"
    r"|end(?:if|function|macro|sub|while|for|foreach|proc)?)\b)"
)
_CLOSES = re.compile(r"\s*(?:[})\]]|(?i:end))")


class _Match(NamedTuple):
    line: int
    name: str
    owner: str
    rule: OutlineRule

    @property
    def kind(self) -> str:
        return self.rule.kind


class _Text(NamedTuple):
    """A file without its comments."""

    code: str  # as long as the text, with blanks for comments and for lines that are data
    lines: Sequence[str]  # of the code
    commented: AbstractSet[int]  # lines that begin with a comment or are inside one


class Outlined(Struct):
    """A definition that was found by its first line."""

    definition: Definition
    first_line: int  # of the comment above it
    parent: int  # position in the list, -1 at the top level


def find_outline(source: Source, language: str) -> list[Outlined]:
    """All definitions, enclosing ones before enclosed ones. Indentation and brackets tell where they end."""
    rules = outline_rules(language)
    if rules is None:
        return []
    text = _read_text(source, language)
    matches = _find_matches(text.code, source, rules)
    by_line = {match.line: match for match in matches}
    found: list[Outlined] = []
    around: list[int] = []  # the positions of the definitions around a line, the innermost last
    for match in matches:
        while around and found[around[-1]].definition.end_line < match.line:
            around.pop()
        parent = around[-1] if around else -1
        outer = found[parent].definition if parent >= 0 else None
        is_member = outer is not None and symbol_kind(outer.kind).is_container
        if not is_member and (outer is not None or match.kind in _MEMBERS):
            continue  # local to a function, or no definition
        last = _end_of(match, text.lines, by_line)
        if outer is not None:
            last = min(last, outer.end_line)
        first = match.line
        while first - 1 in text.commented:
            first -= 1
        doc = first_words(source.between(first, match.line - 1)) if first < match.line else ""
        definition = _define(match, last, outer, doc, text.lines[match.line - 1])
        if found and definition.continues(found[-1].definition):
            found[-1].definition = replace(found[-1].definition, end_line=last)
            continue
        found.append(Outlined(definition, first, parent))
        around.append(len(found) - 1)
    return found


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
            by_line.setdefault(line, _Match(line, found[name_group], owner, rule))
    return [by_line[line] for line in sorted(by_line)]


def _end_of(match: _Match, lines: Sequence[str], by_line: Mapping[int, _Match]) -> int:
    """The last line of a definition."""
    if match.rule.end is not None and (marked := _marked_end(match, match.rule.end, lines, by_line)):
        return marked
    if match.rule.is_to_next:
        later = (line for line in range(match.line + 1, len(lines) + 1) if line in by_line)
        last = next((line for line in later if by_line[line].rule is match.rule), len(lines) + 1) - 1
        return next(line for line in range(last, 0, -1) if lines[line - 1].strip())
    first = lines[match.line - 1]
    indentation, is_open = _indentation(first), first.rstrip().endswith(("{", "(", "["))
    last = match.line
    for number in range(match.line + 1, len(lines) + 1):
        line = lines[number - 1]
        if not line.strip():
            continue
        depth = _indentation(line)
        if depth < indentation or (depth == indentation and (number in by_line or not _GOES_ON.match(line))):
            break
        if last == match.line and _CLOSES.match(line) and not is_open:
            break  # what is around it
        last = number
    return last


def _marked_end(match: _Match, end: re.Pattern[str], lines: Sequence[str], by_line: Mapping[int, _Match]) -> int:
    """The line that ends a definition by what it says, 0 if there is none."""
    is_container = symbol_kind(match.kind).is_container
    indentation = _indentation(lines[match.line - 1])
    for number in range(match.line + 1, len(lines) + 1):
        line = lines[number - 1]
        depth = _indentation(line)
        if not line.strip() or depth > indentation:
            continue
        if end.match(line.lstrip()):
            return number
        begins = number in by_line and not (is_container and not symbol_kind(by_line[number].kind).is_container)
        if depth < indentation or begins:
            return 0
    return 0


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _define(match: _Match, last: int, outer: Definition | None, doc: str, line: str) -> Definition:
    kind = match.kind
    if outer is not None and kind in ("function", "method"):
        kind = "function" if outer.kind in ("module", "namespace") else "method"
    # `package Shop::Cart`; dots and `:::` in a function of R belong to its name
    names = re.split(r"::|\." if symbol_kind(kind).is_container else "(?<!:)::(?!:)", match.name.strip(":"))
    around = outer.qualified if outer is not None else ""
    qualified = ".".join(filter(None, (around, match.owner, *names)))
    signature = " ".join(line.split()).rstrip(" {").rstrip()[:MAX_SIGNATURE]
    is_exported = not names[-1].startswith("_")  # a convention of most of them
    return Definition(names[-1], qualified, kind, signature, doc, match.line, last, is_exported)
