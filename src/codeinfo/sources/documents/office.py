"""Word, PowerPoint and Excel files, each by the library that knows it; never macros, never links to the outside."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any

from codeinfo.sources.documents.html import html_document
from codeinfo.sources.documents.limits import MAX_CELLS, Refused, open_office_file
from codeinfo.sources.documents.model import Block, BlockKind, Document, one_line, paragraph, place


def convert_docx(data: bytes, path: str) -> Document:
    import mammoth

    source = open_office_file(data)
    # Pictures would arrive as base64 text.
    result = mammoth.convert_to_html(source, convert_image=mammoth.images.img_element(lambda image: {"src": ""}))
    return html_document(result.value)


# --- PowerPoint ----------------------------------------------------------------------------------------------------


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
    """All shapes, those of groups included, without recursion."""
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


# --- Excel ---------------------------------------------------------------------------------------------------------


def convert_xlsx(data: bytes, path: str) -> Document:
    import warnings

    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # styles and extensions it does not know: no concern of a reader
        book = openpyxl.load_workbook(open_office_file(data), read_only=True, data_only=True, keep_links=False)
        blocks: list[Block] = []
        cells = 0
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what a file declares may be a million empty columns
            rows = []
            for row in sheet.iter_rows(values_only=True):
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
