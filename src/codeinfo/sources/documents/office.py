"""Word, PowerPoint, Excel and PDF, each by the library that knows it; no macros, no links to the outside."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Any

from codeinfo.sources.documents import formats
from codeinfo.sources.documents.html import html_document


def convert_docx(data: bytes, path: str) -> formats.Document:
    import mammoth

    source = formats.open_office_file(data)
    # Pictures would arrive as base64 text.
    result = mammoth.convert_to_html(source, convert_image=mammoth.images.img_element(lambda image: {"src": ""}))
    return html_document(result.value)


# --- PowerPoint ----------------------------------------------------------------------------------------------------


def convert_pptx(data: bytes, path: str) -> formats.Document:
    import pptx

    deck = pptx.Presentation(formats.open_office_file(data))
    blocks: list[formats.Block] = []
    for number, slide in enumerate(deck.slides, 1):
        title = formats.one_line(slide.shapes.title.text_frame.text) if slide.shapes.title is not None else ""
        blocks.append(formats.place(f"Slide {number}: {title}" if title else f"Slide {number}"))
        for shape in _shapes(slide.shapes):
            if shape != slide.shapes.title:
                blocks.extend(_shape_blocks(shape))
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None and notes.text.strip():
            blocks.append(formats.paragraph(f"Notes: {notes.text}"))
    return formats.Document(formats.one_line(deck.core_properties.title or ""), tuple(blocks))


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """All shapes, those of groups included, without recursion."""
    waiting = list(shapes)[::-1]
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):
            waiting.extend(list(shape.shapes)[::-1])
        else:
            yield shape


def _shape_blocks(shape: Any) -> Iterator[formats.Block]:
    if shape.has_text_frame:
        for part in shape.text_frame.paragraphs:
            if part.text.strip():
                yield formats.Block(formats.BlockKind.ITEM, part.text, part.level + 1)
    elif getattr(shape, "has_table", False):
        rows = tuple(tuple(cell.text for cell in row.cells) for row in shape.table.rows)
        yield formats.Block(formats.BlockKind.TABLE, rows=rows)


# --- Excel ---------------------------------------------------------------------------------------------------------


def convert_xlsx(data: bytes, path: str) -> formats.Document:
    import warnings

    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # styles and extensions it does not know: no concern of a reader
        book = openpyxl.load_workbook(formats.open_office_file(data), read_only=True, data_only=True, keep_links=False)
        blocks: list[formats.Block] = []
        cells = 0
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what a file declares may be a million empty columns
            rows = []
            for row in sheet.iter_rows(values_only=True):
                cells += len(row)
                if cells > formats.MAX_CELLS:
                    raise formats.Refused(f"more than {formats.MAX_CELLS:,} cells: a data set, not a document")
                texts = [_cell_text(value) for value in row]
                while texts and not texts[-1]:
                    texts.pop()
                if texts:
                    rows.append(tuple(texts))
            blocks += (formats.place(f"Sheet {sheet.title}"), formats.Block(formats.BlockKind.TABLE, rows=tuple(rows)))
        return formats.Document(formats.one_line(book.properties.title or ""), tuple(blocks))


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
_SOFT_HYPHEN = re.compile("[\x02\ufffe\xad]\r?\n?")  # how PDFium gives a word that was broken at a line's end


def convert_pdf(data: bytes, path: str) -> formats.Document:
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        reason = str(error).lower()
        if "password" in reason or "security" in reason:
            raise formats.Refused("encrypted: it opens with a password only") from error
        raise formats.Refused(f"broken: {error}") from error
    with document:
        return _read(document)


def _read(document: Any) -> formats.Document:
    if len(document) > MAX_PAGES:
        raise formats.Refused(f"{len(document):,} pages")
    outline = _outline(document)
    blocks: list[formats.Block] = []
    running, total = "", 0
    for number in range(len(document)):
        text = _page_text(document, number)
        total += len(text)
        if total > formats.MAX_TEXT_CHARS:
            break
        here = outline.get(number, [])
        if text or here:
            # A section that goes on from the page before is named with the page, or its text would have no section.
            title = here[0][0] if here else ""
            goes_on = running and not (here and _plain(text[: 2 * len(title) + 20]).startswith(_plain(title)))
            blocks.append(formats.place(f"Page {number + 1}" + (f": {running}" if goes_on else "")))
            blocks.extend(_page_blocks(text, here))
        if here:
            running = here[-1][0]
    if not total:
        raise formats.Refused("no text in it: scanned pages need character recognition first")
    meta = document.get_metadata_dict(skip_empty=True)
    return formats.Document(formats.one_line(meta.get("Title", "")), tuple(blocks))


def _outline(document: Any) -> dict[int, list[tuple[str, int]]]:
    """Page → the headings that the document's own outline places there, with their levels."""
    found: dict[int, list[tuple[str, int]]] = {}
    for bookmark in document.get_toc(max_depth=_OUTLINE_DEPTH):
        target = bookmark.get_dest()
        title = formats.one_line(bookmark.get_title())
        if target is not None and title and (page := target.get_index()) is not None:
            found.setdefault(page, []).append((title, bookmark.level + 1))
    return found


def _page_text(document: Any, number: int) -> str:
    page = document[number]
    text_page = page.get_textpage()
    text = _SOFT_HYPHEN.sub("", text_page.get_text_bounded()).replace("\r\n", "\n").replace("\r", "\n")
    text_page.close()
    page.close()
    return text.replace("\0", "").strip()


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _page_blocks(text: str, headings: list[tuple[str, int]]) -> list[formats.Block]:
    """The page's lines, parted where a line is one of its headings; a heading not found stands at the top."""
    lines = text.split("\n")
    places: dict[int, tuple[str, int]] = {}
    blocks: list[formats.Block] = []
    for title, level in headings:
        wanted = _plain(title)
        at = next((n for n, line in enumerate(lines) if n not in places and _plain(line).endswith(wanted)), None)
        if at is None or not wanted:
            blocks.append(formats.heading(title, level))
        else:
            places[at] = (title, level)
    start = 0
    for at in sorted(places):
        blocks.append(formats.paragraph("\n".join(lines[start:at])))
        blocks.append(formats.heading(*places[at]))
        start = at + 1
    blocks.append(formats.paragraph("\n".join(lines[start:])))
    return [block for block in blocks if block.text.strip()]
