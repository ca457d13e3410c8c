"""A document's bytes in, passages out: converted, masked, cut at headings. Runs where it can be killed (see pool).

A passage knows its title and section; both are embedded with it, never stored in its text. The one thing that is
added to a text is the header of a long table, above each part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from msgspec.structs import replace

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.fields import weighted_terms
from codeinfo.index.passages import CRUMB, PASSAGE
from codeinfo.index.sections import SECTIONED, section_parse
from codeinfo.index.syntax import Source
from codeinfo.sources import secrets
from codeinfo.sources.documents.formats import convert, document_language, format_of
from codeinfo.sources.documents.limits import MAX_TEXT_CHARS, Refused
from codeinfo.sources.documents.model import as_markdown, one_line
from codeinfo.sources.read import decode
from codeinfo.types import Chunk, Import, ParsedFile

CONVERT_TIMEOUT_S = 60.0  # a PDF of a thousand pages takes a few seconds
MAX_LINKS = 5000  # of one document
_MAX_BREADCRUMB = 240

_TITLE_LINE = re.compile(r"title:[ \t]*(\S[^\n]{0,300})", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]\n]{0,200})\]\([ \t]*<?([^()<>\s]{1,500})>?[^()\n]{0,200}\)")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,200})(?:#[^\[\]|\n]{0,200})?(?:\|([^\[\]\n]{0,200}))?\]\]")
_RULE = re.compile(r"\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_FENCE = ("```", "~~~")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def document_parse(path: str, data: bytes, settings: ChunkSettings) -> ParsedFile:
    """Raises Refused with a reason for people, or whatever a library does to a hostile file."""
    text, language, title, notes = _read(path, data)
    source = Source(text)
    parsed = section_parse(source, language if language in SECTIONED else "text", settings)
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
    """Text, language, title where the document says it, notes."""
    if format_of(path) is None:
        decoded = decode(data)
        if decoded is None:
            raise Refused("not text, by its content")
        if len(decoded.content) > MAX_TEXT_CHARS:
            raise Refused(f"longer than {MAX_TEXT_CHARS:,} characters")
        return decoded.content, document_language(path), "", decoded.notes
    document = convert(path, data)
    text, notes = as_markdown(document)
    text, masked = secrets.mask(text)
    title, _ = secrets.mask(one_line(document.title))
    return text, "markdown", title, (*notes, *([f"{masked} secrets masked"] if masked else []))


def _title(lines: Sequence[str], parsed: ParsedFile, path: str) -> str:
    """From the metadata at the top, else the first heading of the highest level where it opens the text, else the
    file's name."""
    if lines and lines[0].strip() in ("---", "+++"):
        for line in lines[1:40]:
            if line.strip() == lines[0].strip():
                break
            if found := _TITLE_LINE.match(line):
                return one_line(found.group(1).strip("'\" "))
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
    found = []
    for number, line in enumerate(lines):
        if number and line.startswith("|") and _RULE.fullmatch(line) and "|" in lines[number - 1]:
            last = number
            while last + 1 < len(lines) and lines[last + 1].startswith("|"):
                last += 1
            found.append((number, last + 1, f"{lines[number - 1]}\n{line}"))
    return found


def links(lines: Sequence[str]) -> Iterator[Import]:
    """Links to other documents, by Markdown or wiki syntax, outside of code blocks. Addresses of the web are not."""
    fence, count = "", 0
    for number, line in enumerate(lines, 1):
        mark = line.lstrip()[:3]
        if mark in _FENCE and (not fence or mark == fence):
            fence = "" if fence else mark
        if fence or "[" not in line or len(line) > 20_000:
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
