"""HTML by events, without a tree: depth costs nothing, and there is nothing to recurse into."""

from __future__ import annotations

from html.parser import HTMLParser

from codeinfo.sources.documents import formats

_SILENT = frozenset({"script", "style", "template", "svg", "noscript", "iframe", "nav", "select", "head"})
_BREAKS = frozenset(
    "p div section article main header footer aside blockquote figure figcaption dl dt dd ul ol form hr address "
    "details summary fieldset body html tr".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


def convert_html(data: bytes, path: str) -> formats.Document:
    from codeinfo.sources.read import decode

    text = decode(data)
    if text is None:
        raise formats.Refused("not text, by its content")
    return html_document(text.content)


def html_document(markup: str) -> formats.Document:
    if len(markup) > formats.MAX_TEXT_CHARS:
        raise formats.Refused(f"{len(markup):,} characters of HTML: a dump, not a page")
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    reader.flush()
    title = formats.one_line(reader.title) or next(
        (formats.one_line(b.text) for b in reader.blocks if b.kind is formats.BlockKind.HEADING), ""
    )
    return formats.Document(title, tuple(reader.blocks))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[formats.Block] = []
        self.title = ""
        self._text: list[str] = []
        self._silent: list[str] = []  # the open elements whose text is not for readers
        self._in_title = False
        self._heading = 0
        self._lists = 0
        self._item = False
        self._preformatted = 0
        self._link: tuple[str, int] | None = None  # its address, and where its text begins
        self._table: list[list[str]] | None = None
        self._nested_tables = 0
        self._cells = 0

    # --- events ---

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        elif tag in _SILENT:
            if tag != "head":  # which only holds what is silent anyway, and the title
                self._silent.append(tag)
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
            self._start_of_text(tag, dict(attrs))

    def _start_of_text(self, tag: str, attrs: dict[str, str | None]) -> None:
        if tag == "li":
            self.flush()
            self._item = True
        elif tag == "br":
            self._text.append("\n")
        elif tag == "a" and attrs.get("href"):
            self._link = (str(attrs["href"]).strip(), len(self._text))
        elif tag == "code" and not self._preformatted:
            self._text.append("`")
        elif tag == "img" and attrs.get("alt"):
            self._text.append(f" {attrs['alt']} ")
        elif tag in _BREAKS:
            self.flush()
            if tag in ("ul", "ol"):
                self._lists += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif self._silent:
            if tag in self._silent:
                del self._silent[len(self._silent) - 1 - self._silent[::-1].index(tag) :]
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

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._silent:
            self._text.append(data)

    # --- blocks ---

    def flush(self) -> None:
        """What was read since the last block ends here."""
        if self._table is not None:
            self._text.append(" ")
            return
        text, self._text, self._link = "".join(self._text), [], None
        if self._preformatted:
            if text.strip():
                self.blocks.append(formats.Block(formats.BlockKind.CODE, text))
            return
        text = "\n".join(line for line in (" ".join(part.split()) for part in text.split("\n")) if line)
        if not text:
            return
        if self._heading:
            self.blocks.append(formats.heading(text, self._heading))
        elif self._item:
            self.blocks.append(formats.Block(formats.BlockKind.ITEM, text, max(self._lists, 1)))
        else:
            self.blocks.append(formats.paragraph(text))
        self._item = False

    def _end_of_link(self) -> None:
        if self._link is not None:
            address, start = self._link
            text = formats.one_line("".join(self._text[start:]))
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
            if self._cells > formats.MAX_CELLS:
                raise formats.Refused(f"more than {formats.MAX_CELLS:,} table cells")
            self._table[-1].append("")

    def _end_of_cell(self) -> None:
        """Text since the cell began belongs to it; text between cells is not for readers."""
        if self._table and self._table[-1]:
            self._table[-1][-1] += formats.one_line("".join(self._text), formats.MAX_TEXT_CHARS)
        self._text, self._link = [], None

    def _end_of_table(self, tag: str) -> None:
        if self._table is None:
            return
        if self._nested_tables:
            self._nested_tables -= tag == "table"
            return
        self._end_of_cell()
        if tag == "table":
            rows = tuple(tuple(row) for row in self._table if any(row))
            self._table = None
            if rows:
                self.blocks.append(formats.Block(formats.BlockKind.TABLE, rows=rows))
