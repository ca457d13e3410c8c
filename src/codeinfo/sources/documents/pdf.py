"""PDF by PDFium: text page by page, headings from the document's own outline."""

from __future__ import annotations

import re
from typing import Any

from codeinfo.sources.documents.limits import MAX_TEXT_CHARS, Refused
from codeinfo.sources.documents.model import Block, Document, heading, one_line, paragraph, place

MAX_PAGES = 10_000
_OUTLINE_DEPTH = 4
_SOFT_HYPHEN = re.compile("[\x02\ufffe\xad]\r?\n?")  # how PDFium gives a word that was broken at a line's end


def convert_pdf(data: bytes, path: str) -> Document:
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        reason = str(error).lower()
        if "password" in reason or "security" in reason:
            raise Refused("encrypted: it opens with a password only") from error
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
            # A section that goes on from the page before is named with the page, or its text would have no section.
            goes_on = running and not (here and _starts_with(text, here[0][0]))
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
    found: dict[int, list[tuple[str, int]]] = {}
    for bookmark in document.get_toc(max_depth=_OUTLINE_DEPTH):
        target = bookmark.get_dest()
        title = one_line(bookmark.get_title())
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


def _starts_with(text: str, title: str) -> bool:
    return _plain(text[: 2 * len(title) + 20]).startswith(_plain(title))


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _page_blocks(text: str, headings: list[tuple[str, int]]) -> list[Block]:
    """The page's lines, parted where a line is one of its headings; a heading not found stands at the top."""
    lines = text.split("\n")
    places: dict[int, tuple[str, int]] = {}
    blocks: list[Block] = []
    for title, level in headings:
        wanted = _plain(title)
        at = next((n for n, line in enumerate(lines) if n not in places and _plain(line).endswith(wanted)), None)
        if at is None or not wanted:
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
