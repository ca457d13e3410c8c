"""One function per format. HTML is read without a tree: depth costs nothing, and there is nothing to recurse into."""

from __future__ import annotations

import csv
import datetime
import email
import email.policy
import html
import io
import json
import re
from codecs import lookup
from collections import Counter
from collections.abc import Iterable, Iterator
from email.headerregistry import HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from functools import lru_cache
from itertools import count, islice
from typing import Any

from codeinfo.model import quantity
from codeinfo.sources.documents import (
    MAX_CELLS,
    MAX_TEXT_CHARS,
    Block,
    BlockKind,
    Document,
    Refused,
    heading,
    one_line,
    open_office_file,
    paragraph,
    place,
)
from codeinfo.sources.masking import mask, mask_notes
from codeinfo.sources.read import decode

_SILENT = frozenset({"script", "style", "template", "svg", "noscript", "iframe", "nav", "select", "head"})
_BREAKS = frozenset(
    "p div section article main header footer aside blockquote figure figcaption dl dt dd ul ol form hr address "
    "details summary fieldset body html tr".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


def convert_html(data: bytes, path: str) -> Document:
    if (text := decode(data)) is None:
        raise Refused("not text, by its content")
    return html_document(text.content)


def html_document(markup: str) -> Document:
    if len(markup) > MAX_TEXT_CHARS:
        raise Refused(f"{len(markup):,} characters of HTML: a dump, not a page")
    reader = _Reader()
    _read_markup(markup, reader)
    reader.flush()
    headings = (one_line(block.text) for block in reader.blocks if block.kind is BlockKind.HEADING)
    return Document(one_line("".join(reader.title)) or next(headings, ""), tuple(reader.blocks))


# No character is looked at more than a few times, whatever the markup: the parser of the standard library takes hours
# for some megabytes of `<a `.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)")
_TAG_END = re.compile(r"(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+>")
_ATTRIBUTE = re.compile(r"([^\s\"'>/=][^\s/>=]*+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>]++))")
_MOST_ATTRIBUTES = 100  # of a tag, as far as they are read
_LONG_REFERENCE = re.compile(r"&#(?:[0-9]{9,}+|[xX][0-9a-fA-F]{9,}+);?")  # no character has such a number
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}


def _read_markup(markup: str, reader: _Reader) -> None:
    """Tell the reader of the text and the tags of a page in their order, each tag by its name and attributes."""
    at, find_end = 0, _EndFinder(markup)
    while (start := markup.find("<", at)) >= 0:
        if start > at:
            reader.take_text(_unescape(markup[at:start]))
        at, tag = start, _TAG.match(markup, start)
        if tag is None and not markup.startswith(("</", "<!", "<?"), start):
            reader.take_text("<")
            at += 1
            continue
        end = find_end.of_tag(tag.end()) if tag else find_end.of_comment(start)
        if not end:
            break  # nothing after it ends either: it is text
        at = end
        if tag is None:
            continue
        name, attributes = tag[2].lower(), markup[tag.end() : end - 1]
        if not tag[1]:
            reader.start(name, attributes)
        if tag[1] or attributes.endswith("/"):
            reader.end(name)
        elif name in _RAW_END:
            closing = _RAW_END[name].search(markup, at)
            at = closing.start() if closing else len(markup)
    if at < len(markup):
        reader.take_text(_unescape(markup[at:]))


class _EndFinder:
    """Where tags and comments of a page end; 0 if they do not. After one that never ends, each ends at the next `>`:
    the same search would fail again and again."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._tags_end = self._comments_end = True

    def of_tag(self, at: int) -> int:
        if self._tags_end and (match := _TAG_END.match(self._markup, at)):
            return match.end()
        self._tags_end = False
        return self._markup.find(">", at) + 1

    def of_comment(self, at: int) -> int:
        if self._comments_end and self._markup.startswith("<!--", at):
            if (end := self._markup.find("-->", at + 2)) >= 0:
                return end + 3
            self._comments_end = False
        return self._markup.find(">", at) + 1


def _unescape(text: str) -> str:
    return html.unescape(_LONG_REFERENCE.sub("\ufffd", text)) if "&" in text else text


def _attribute(attributes: str, name: str) -> str:
    for match in islice(_ATTRIBUTE.finditer(attributes), _MOST_ATTRIBUTES):
        if match[1].lower() == name:
            return _unescape(match[2] or match[3] or match[4] or "")
    return ""


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title: list[str] = []
        self._text: list[str] = []
        self._silent: list[str] = []  # the open elements whose text is not for readers
        self._silent_counts = Counter[str]()
        self._in_title = False
        self._heading = 0
        self._lists = 0
        self._item = False
        self._preformatted = 0
        self._link: tuple[str, int] | None = None  # its address, and where its text begins
        self._table: list[list[list[str]]] | None = None  # rows of cells of texts
        self._nested_tables = 0
        self._cells = 0

    def start(self, tag: str, attributes: str) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        elif tag in _SILENT:
            if tag != "head":  # it holds only silent elements and the title
                self._silent.append(tag)
                self._silent_counts[tag] += 1
        elif self._silent:
            return
        elif tag in _HEADINGS:
            self.flush()
            self._heading = _HEADINGS[tag]
        elif tag in ("table", "tr", "td", "th"):
            self._start_of_table(tag)
        elif tag == "pre":
            self.flush()
            self._preformatted += 1
        else:
            self._start_of_text(tag, attributes)

    def _start_of_text(self, tag: str, attributes: str) -> None:
        if tag == "li":
            self.flush()
            self._item = True
        elif tag == "br":
            self._text.append("\n")
        elif tag == "a" and (address := _attribute(attributes, "href").strip()):
            self._link = (address, len(self._text))
        elif tag == "code" and not self._preformatted:
            self._text.append("`")
        elif tag == "img" and (alternative := _attribute(attributes, "alt")):
            self._text.append(f" {alternative} ")
        elif tag in _BREAKS:
            self.flush()
            if tag in ("ul", "ol"):
                self._lists += 1

    def end(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif self._silent:
            if self._silent_counts[tag]:
                closed = ""
                while closed != tag:
                    closed = self._silent.pop()
                    self._silent_counts[closed] -= 1
        elif tag in _HEADINGS or tag == "li":
            self.flush()
            self._heading = 0
        elif tag in ("table", "tr", "td", "th"):
            self._end_of_table(tag)
        elif tag == "pre":
            self.flush()
            self._preformatted = max(0, self._preformatted - 1)
        elif tag == "a":
            self._end_of_link()
        elif tag == "code" and not self._preformatted:
            self._text.append("`")
        elif tag in _BREAKS:
            self.flush()
            if tag in ("ul", "ol"):
                self._lists = max(0, self._lists - 1)

    def take_text(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._silent:
            self._text.append(data)

    def flush(self) -> None:
        """End the current block with what was read so far."""
        if self._table is not None:
            self._text.append(" ")
            return
        text, self._text, self._link = "".join(self._text), [], None
        if self._preformatted:
            if text.strip():
                self.blocks.append(Block(BlockKind.CODE, text))
            return
        if text := "\n".join(line for line in (" ".join(part.split()) for part in text.split("\n")) if line):
            item = Block(BlockKind.ITEM, text, max(self._lists, 1)) if self._item else paragraph(text)
            self.blocks.append(heading(text, self._heading) if self._heading else item)
            self._item = False

    def _end_of_link(self) -> None:
        if self._link is not None:
            address, start = self._link
            text = one_line("".join(self._text[start:]))
            if text and not address.lower().startswith(("javascript:", "data:", "#")):
                self._text[start:] = [f"[{text}]({address})"]
        self._link = None

    def _start_of_table(self, tag: str) -> None:
        if tag == "table":
            if self._table is not None:
                self._nested_tables += 1
                return
            self.flush()
            self._table = []
        elif self._table is None or self._nested_tables:
            self._text.append(" ")
        elif tag == "tr":
            self._end_of_cell()
            self._table.append([])
        else:
            self._end_of_cell()
            if not self._table:
                self._table.append([])
            self._cells += 1
            if self._cells > MAX_CELLS:
                raise Refused(f"more than {MAX_CELLS:,} table cells")
            self._table[-1].append([])

    def _end_of_cell(self) -> None:
        """Text since the cell began belongs to it; text between cells is not for readers."""
        if self._table and self._table[-1]:
            self._table[-1][-1].append(one_line("".join(self._text), MAX_TEXT_CHARS))
        self._text, self._link = [], None

    def _end_of_table(self, tag: str) -> None:
        if self._table is None:
            return
        if self._nested_tables:
            self._nested_tables -= tag == "table"
            return
        self._end_of_cell()
        if tag == "table":
            cells = (tuple(map("".join, row)) for row in self._table)
            rows = tuple(row for row in cells if any(row))
            self._table = None
            if rows:
                self.blocks.append(Block(BlockKind.TABLE, rows=rows))


# --- e-mail, notebooks, and tables written as text --------------------------------------------------------------------


_HEADERS = ("From", "To", "Cc", "Date")
_BOUNDARY = re.compile(rb"boundary\s{0,4}=", re.IGNORECASE)
_MOST_COMPARISONS = 5_000_000  # of lines with the boundaries around them
_HEADER_CHARS = 1000  # of one, more than is shown: the parser takes the square of its length
_MOST_PARTS = 250
_SLOW_CODECS = ("punycode", "idna")  # for names of hosts


class _MailPolicy(email.policy.EmailPolicy):
    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_HEADER_CHARS]


def _mail_policy() -> _MailPolicy:
    """Limits what the library does for a hostile e-mail; real ones are far from these limits."""
    headers, parts = HeaderRegistry(), count(1)
    for name in ("from", "to", "cc"):  # shown as they are, not as lists of addresses
        headers.map_to_type(name, UnstructuredHeader)  # type: ignore[arg-type]

    def make_part(policy: email.policy.Policy) -> EmailMessage:
        if next(parts) > _MOST_PARTS:
            raise Refused(f"more than {_MOST_PARTS} parts")
        return EmailMessage(policy)

    return _MailPolicy(header_factory=lru_cache(headers), message_factory=make_part)


def convert_mail(data: bytes, path: str) -> Document:
    if data.count(b"\n") * (1 + len(_BOUNDARY.findall(data))) > _MOST_COMPARISONS:
        raise Refused("too many lines for the number of parts inside each other")
    message = email.message_from_bytes(data, policy=_mail_policy())
    if not isinstance(message, EmailMessage) or not message.keys():
        raise Refused("not an e-mail: it has no header lines")
    subject = one_line(str(message.get("Subject", "")))
    header = [f"{name}: {one_line(str(message[name]), 500)}" for name in _HEADERS if message[name]]
    attached = [name for part in message.iter_attachments() if (name := part.get_filename())]
    items = (Block(BlockKind.ITEM, f"attached: {name}", 1) for name in attached)
    notes = (f"{quantity(len(attached), 'attachment')} listed, not read",) if attached else ()
    return Document(subject, (paragraph("\n".join(header)), *_body(message), *items), notes)


def _body(message: EmailMessage) -> tuple[Block, ...]:
    if (body := message.get_body(("plain", "html"))) is None:
        return ()
    try:
        if lookup(body.get_content_charset("ascii")).name in _SLOW_CODECS:
            raise Refused("broken: its character set is none")
        text = body.get_content()
    except (LookupError, ValueError) as error:  # an unknown character set, or a wrong encoding
        raise Refused(f"broken: {error}") from error
    if body.get_content_type() == "text/html":
        return html_document(text).blocks
    return tuple(paragraph(part) for part in text.replace("\r\n", "\n").split("\n\n") if part.strip())


_OUTPUT_CHARS = 2000  # of one cell: results are read, logs are not


def convert_notebook(data: bytes, path: str) -> Document:
    text = decode(data, mask=False)
    try:
        notebook = json.loads(text.content) if text else None
    except (ValueError, RecursionError) as error:
        raise Refused(f"broken: {error}") from error
    if text is None or not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Refused("not a notebook: it has no cells")
    language = _language(notebook.get("metadata"))
    cells = [_cell_blocks(cell, language) for cell in notebook["cells"] if isinstance(cell, dict)]
    blocks = tuple(block for cell_blocks, _ in cells for block in cell_blocks)
    return Document("", blocks, (*text.notes, *mask_notes(sum(masked for _, masked in cells))))


def _language(metadata: Any) -> str:
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    return language if isinstance(language, str) and language.isalnum() else "python"


def _cell_blocks(cell: dict[str, Any], language: str) -> tuple[list[Block], int]:
    """What a cell shows, and how many secrets were masked in it."""
    source, masked = mask(_join_text(cell.get("source")))
    if not source.strip():
        return [], 0
    if cell.get("cell_type") != "code":
        return [Block(BlockKind.MARKDOWN, source)], masked
    printed, masked_in_output = mask("\n".join(filter(None, map(_format_output, cell.get("outputs") or []))))
    blocks = [Block(BlockKind.CODE, source, label=language)]
    if printed.strip():
        blocks.append(Block(BlockKind.CODE, printed[:_OUTPUT_CHARS], label="text"))
    return blocks, masked + masked_in_output


def _format_output(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    return _join_text(output.get("text")) or (_join_text(data.get("text/plain")) if isinstance(data, dict) else "")


def _join_text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


_DELIMITERS = ",;\t|"
_PROBE_LINES = 20


def convert_csv(data: bytes, path: str) -> Document:
    if (text := decode(data)) is None:
        raise Refused("not text, by its content")
    delimiter = "\t" if path.lower().endswith(".tsv") else _delimiter(text.content)
    rows: list[tuple[str, ...]] = []
    cells = 0
    try:
        for row in csv.reader(io.StringIO(text.content), delimiter=delimiter):
            cells += len(row)
            if cells > MAX_CELLS:
                raise Refused(f"more than {MAX_CELLS:,} cells: a data set, not a document")
            if any(cell.strip() for cell in row):
                rows.append(tuple(row))
    except csv.Error as error:
        raise Refused(f"not a table: {error}") from error
    return Document("", (Block(BlockKind.TABLE, rows=tuple(rows)),), text.notes)


def _delimiter(text: str) -> str:
    """The sign that splits the first lines into the most columns, the same number in each."""
    lines = [line for line in text[:20_000].split("\n")[:_PROBE_LINES] if line.strip()]

    def worth(sign: str) -> tuple[int, int]:
        counts = [line.count(sign) for line in lines]
        return (min(counts, default=0), max(counts, default=0))

    return max(_DELIMITERS, key=worth)


# --- Word, PowerPoint, Excel and PDF, each by the library that knows it; no macros, no links to the outside -----------


def convert_docx(data: bytes, path: str) -> Document:
    import mammoth

    source = open_office_file(data)
    # Images would arrive as base64 text.
    result = mammoth.convert_to_html(source, convert_image=mammoth.images.img_element(lambda image: {"src": ""}))
    return html_document(result.value)


def convert_pptx(data: bytes, path: str) -> Document:
    import pptx

    deck = pptx.Presentation(open_office_file(data))
    blocks: list[Block] = []
    for number, slide in enumerate(deck.slides, 1):
        title = one_line(slide.shapes.title.text_frame.text) if slide.shapes.title is not None else ""
        blocks.append(place(f"Slide {number}: {title}" if title else f"Slide {number}"))
        for shape in _shapes(slide.shapes):
            if shape != slide.shapes.title:
                blocks.extend(_shape_blocks(shape))
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None and notes.text.strip():
            blocks.append(paragraph(f"Notes: {notes.text}"))
    return Document(one_line(deck.core_properties.title or ""), tuple(blocks))


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """All shapes, including those in groups, without recursion."""
    waiting = list(shapes)[::-1]
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):
            waiting.extend(list(shape.shapes)[::-1])
        else:
            yield shape


def _shape_blocks(shape: Any) -> Iterator[Block]:
    if shape.has_text_frame:
        for part in shape.text_frame.paragraphs:
            if part.text.strip():
                yield Block(BlockKind.ITEM, part.text, part.level + 1)
    elif getattr(shape, "has_table", False):
        rows = tuple(tuple(cell.text for cell in row.cells) for row in shape.table.rows)
        yield Block(BlockKind.TABLE, rows=rows)


MAX_ROWS = 1 << 20  # a row with a larger number would be preceded by as many empty ones


def convert_xlsx(data: bytes, path: str) -> Document:
    import warnings

    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown styles and extensions do not matter to a reader
        book = openpyxl.load_workbook(open_office_file(data), read_only=True, data_only=True, keep_links=False)
        blocks: list[Block] = []
        cells = 0
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # a file may declare a million empty columns
            rows = []
            for number, row in enumerate(sheet.iter_rows(values_only=True)):
                if number >= MAX_ROWS:
                    raise Refused(f"more than {MAX_ROWS:,} rows, which Excel cannot have")
                cells += len(row)
                if cells > MAX_CELLS:
                    raise Refused(f"more than {MAX_CELLS:,} cells: a data set, not a document")
                texts = [_cell_text(value) for value in row]
                while texts and not texts[-1]:
                    texts.pop()
                if texts:
                    rows.append(tuple(texts))
            blocks += (place(f"Sheet {sheet.title}"), Block(BlockKind.TABLE, rows=tuple(rows)))
        return Document(one_line(book.properties.title or ""), tuple(blocks))


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


MAX_PAGES = 10_000
_OUTLINE_DEPTH = 4
_SOFT_HYPHEN = re.compile("[\x02\ufffe\xad]\r?\n?")  # how PDFium represents a word hyphenated at a line's end


def convert_pdf(data: bytes, path: str) -> Document:
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        reason = str(error).lower()
        if "password" in reason or "security" in reason:
            raise Refused("encrypted: it needs a password") from error
        raise Refused(f"broken: {error}") from error
    with document:
        return _read(document)


def _read(document: Any) -> Document:
    if len(document) > MAX_PAGES:
        raise Refused(f"{len(document):,} pages")
    outline = _outline(document)
    blocks: list[Block] = []
    running, total = "", 0
    for number in range(len(document)):
        text = _page_text(document, number)
        total += len(text)
        if total > MAX_TEXT_CHARS:
            break
        here = outline.get(number, [])
        if text or here:
            # A section that continues from the previous page is named with the page, or its text would have no section.
            title = here[0][0] if here else ""
            goes_on = running and not (here and _plain(text[: 2 * len(title) + 20]).startswith(_plain(title)))
            blocks.append(place(f"Page {number + 1}" + (f": {running}" if goes_on else "")))
            blocks.extend(_page_blocks(text, here))
        if here:
            running = here[-1][0]
    if not total:
        raise Refused("no text in it: scanned pages need character recognition first")
    meta = document.get_metadata_dict(skip_empty=True)
    return Document(one_line(meta.get("Title", "")), tuple(blocks))


def _outline(document: Any) -> dict[int, list[tuple[str, int]]]:
    """Page → the headings that the document's own outline places there, with their levels."""
    outline: dict[int, list[tuple[str, int]]] = {}
    for bookmark in document.get_toc(max_depth=_OUTLINE_DEPTH):
        target = bookmark.get_dest()
        title = one_line(bookmark.get_title())
        if target is not None and title and (page := target.get_index()) is not None:
            outline.setdefault(page, []).append((title, bookmark.level + 1))
    return outline


def _page_text(document: Any, number: int) -> str:
    page = document[number]
    text_page = page.get_textpage()
    text = _SOFT_HYPHEN.sub("", text_page.get_text_bounded()).replace("\r\n", "\n").replace("\r", "\n")
    text_page.close()
    page.close()
    return text.replace("\0", "").strip()


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _page_blocks(text: str, headings: list[tuple[str, int]]) -> list[Block]:
    """The page's lines, split where a line is one of its headings; a heading that is not found is placed at the top."""
    lines = text.split("\n")
    places: dict[int, tuple[str, int]] = {}
    blocks: list[Block] = []
    for title, level in headings:
        plain_title = _plain(title)
        at = next((n for n, line in enumerate(lines) if n not in places and _plain(line).endswith(plain_title)), None)
        if at is None or not plain_title:
            blocks.append(heading(title, level))
        else:
            places[at] = (title, level)
    start = 0
    for at in sorted(places):
        blocks.append(paragraph("\n".join(lines[start:at])))
        blocks.append(heading(*places[at]))
        start = at + 1
    blocks.append(paragraph("\n".join(lines[start:])))
    return [block for block in blocks if block.text.strip()]
