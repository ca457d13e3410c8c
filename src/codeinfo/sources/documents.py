"""Documents of every format in one shape and as Markdown: which converter reads which file, and its limits.

A converter (`sources.converters`) gets untrusted bytes. It observes the limits here and runs in a worker process that
can be killed (see `index.pool`), so that no file can harm the calling process.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec

from msgspec import Struct

from codeinfo.languages import language_of
from codeinfo.model import FileKind

MAX_TEXT_CHARS = 10_000_000  # of a longer text only the beginning is kept, with a note
MAX_UNPACKED_BYTES = 300_000_000  # of an Office file; real ones with many images stay below
MAX_ENTRIES = 20_000
MAX_CELLS = 1_000_000  # of one workbook or table


class Fences:
    """Tells line by line which part of a document is fenced code; `mark` finds a fence."""

    def __init__(self, mark: str = r"\s*(`{3,}|~{3,})") -> None:
        self._mark = re.compile(mark)
        self._opened = ""

    def cover(self, line: str) -> bool:
        """Whether the next line begins, continues or ends a block."""
        before, mark = self._opened, self._mark.match(line)
        if mark and mark[1].startswith(before):
            self._opened = "" if before else mark[1]
        return bool(before or self._opened)


class Refused(Exception):
    """A document that is not read; the message is the reason, for people."""


def open_office_file(data: bytes) -> io.BytesIO:
    """The bytes of an Office file, after its table of contents was found harmless. Nothing is unpacked to disk. Sizes
    are those the archive declares: `zipfile` never reads more than that from an entry. Office writes no document type
    declarations, so one is a sign of an entity attack."""
    import zipfile

    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise Refused("encrypted, or of an old binary format: save it without a password as DOCX, PPTX or XLSX")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise Refused(f"{len(entries):,} parts: no program writes that many")
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > MAX_UNPACKED_BYTES:
                raise Refused(f"{unpacked:,} bytes once unpacked: a zip bomb, or far too large")
            if any(entry.flag_bits & 1 for entry in entries):
                raise Refused("encrypted: it needs a password")
            for entry in entries:
                if entry.filename.endswith((".xml", ".rels")) and _DECLARATION.search(archive.read(entry)):
                    raise Refused(f"{entry.filename} declares entities, which Office never writes")
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise Refused(f"broken: {error}") from error
    return io.BytesIO(data)


# In UTF-16 too. It may follow a comment of any length; in a text `<` is written as `&lt;`.
_DECLARATION = re.compile(rb"<\0?!\0?(?:D\0?O\0?C\0?T\0?Y\0?P\0?E|E\0?N\0?T\0?I\0?T\0?Y)", re.IGNORECASE)

MAX_TITLE_CHARS = 160
_PLACE_LEVEL = 2  # below the title; headings inside a place go below it
_DEEPEST = 6


class BlockKind(StrEnum):
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    ITEM = "item"  # of a list; `level` is its depth
    TABLE = "table"  # `rows`, the first of them the header
    CODE = "code"  # `text`, with the language in `label`
    PLACE = "place"  # a page, sheet or slide begins: "Page 3"
    MARKDOWN = "markdown"  # text that already is Markdown


class Block(Struct, frozen=True):
    kind: BlockKind
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    label: str = ""


class Document(Struct, frozen=True):
    title: str  # "" if the document has none
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


def place(name: str) -> Block:
    return Block(BlockKind.PLACE, name)


def paragraph(text: str) -> Block:
    return Block(BlockKind.PARAGRAPH, text)


def heading(text: str, level: int) -> Block:
    return Block(BlockKind.HEADING, text, level)


def one_line(text: str, limit: int = MAX_TITLE_CHARS) -> str:
    return " ".join(text.split())[:limit]


def as_markdown(document: Document) -> tuple[str, tuple[str, ...]]:
    parts: list[str] = []
    length = 0
    for part in _parts(document):
        length += len(part) + 2
        if length > MAX_TEXT_CHARS:
            note = f"longer than {MAX_TEXT_CHARS:,} characters: only the beginning is indexed"
            return "\n\n".join((*parts, part))[:MAX_TEXT_CHARS], (*document.notes, note)
        parts.append(part)
    return "\n\n".join(parts), document.notes


def _parts(document: Document) -> Iterator[str]:
    title = one_line(document.title)
    placed = any(block.kind is BlockKind.PLACE for block in document.blocks)
    first = next((block for block in document.blocks if block.text or block.rows), None)
    if title and not (first and first.kind is BlockKind.HEADING and one_line(first.text) == title):
        yield f"# {title}"
    pending: list[str] = []  # items of one list stay together
    for block in document.blocks:
        if block.kind is BlockKind.ITEM:
            pending.append("  " * min(max(block.level - 1, 0), _DEEPEST) + "- " + " ".join(block.text.split()))
            continue
        if pending:
            yield "\n".join(pending)
            pending = []
        if text := _write_block(block, placed):
            yield text
    if pending:
        yield "\n".join(pending)


def _write_block(block: Block, placed: bool) -> str:
    if block.kind is BlockKind.HEADING:
        text = one_line(block.text)
        depth = min(block.level + _PLACE_LEVEL if placed else block.level, _DEEPEST)
        return f"{'#' * max(depth, 1)} {text}" if text else ""
    if block.kind is BlockKind.PLACE:
        return f"{'#' * _PLACE_LEVEL} {one_line(block.text)}"
    if block.kind is BlockKind.TABLE:
        return table_markdown(block.rows)
    if block.kind is BlockKind.CODE:
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", block.text)), default=0))
        return f"{fence}{block.label}\n{block.text.strip(chr(10))}\n{fence}"
    if block.kind is BlockKind.MARKDOWN:
        return block.text.strip("\n")
    return _not_a_heading(block.text.strip())


def _not_a_heading(text: str) -> str:
    """Escape a paragraph that begins like a heading or a fence."""
    return "\n".join("\\" + line if line.startswith(("#", "```", "~~~")) else line for line in text.split("\n"))


def table_markdown(rows: tuple[tuple[str, ...], ...]) -> str:
    """A table with its header and a rule below it; a single column is a list of paragraphs."""
    width = max((len(row) for row in rows), default=0)
    if width == 0:
        return ""
    if width == 1:
        return "\n\n".join(_not_a_heading(row[0].strip()) for row in rows if row and row[0].strip())
    if width * len(rows) > MAX_CELLS:
        raise Refused(f"a table of {len(rows):,} rows and {width:,} columns: a data set, not a document")
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join((*row, *[""] * (width - len(row)))) + " |" for row in cells]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


INSTALL = "pip install 'codeinfo[docs]'"


class Format(Struct, frozen=True):
    name: str
    extensions: tuple[str, ...]
    converter: str  # a function of `converters`, which is imported only for a conversion
    needs: str = ""  # a library of the extra `docs`


FORMATS = (
    Format("html", (".html", ".htm", ".xhtml"), "convert_html"),
    Format("notebook", (".ipynb",), "convert_notebook"),
    Format("csv", (".csv", ".tsv", ".psv"), "convert_csv"),
    Format("email", (".eml",), "convert_mail"),
    Format("pdf", (".pdf",), "convert_pdf", "pypdfium2"),
    Format("docx", (".docx",), "convert_docx", "mammoth"),
    Format("pptx", (".pptx",), "convert_pptx", "pptx"),
    Format("xlsx", (".xlsx", ".xlsm"), "convert_xlsx", "openpyxl"),
)
_BY_EXTENSION = {extension: item for item in FORMATS for extension in item.extensions}


def format_of(path: str) -> Format | None:
    """The format if the file has to be converted before it is split; None otherwise."""
    dot = path.rfind(".")
    return _BY_EXTENSION.get(path[dot:].lower()) if dot > 0 else None


def document_language(path: str) -> str:
    """The name of a document's format, "" for other files."""
    if file_format := format_of(path):
        return file_format.name
    language = language_of(path)
    return language.name if language is not None and language.kind is FileKind.DOCS else ""


def missing_library(path: str) -> str:
    """The command that makes a file readable, "" if nothing is missing."""
    file_format = format_of(path)
    return INSTALL if file_format and file_format.needs and find_spec(file_format.needs) is None else ""


def convert(path: str, data: bytes) -> Document:
    """Raises Refused, or whatever a hostile file provokes in a library: the process must be expendable."""
    file_format = format_of(path)
    assert file_format is not None, path
    converters = import_module("codeinfo.sources.converters")
    converter: Callable[[bytes, str], Document] = getattr(converters, file_format.converter)
    return converter(data, path)
