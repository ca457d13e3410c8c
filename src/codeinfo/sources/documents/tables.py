"""Tables written as text: CSV and its kin."""

from __future__ import annotations

import csv
import io

from codeinfo.sources.documents.limits import MAX_CELLS, Refused
from codeinfo.sources.documents.model import Block, BlockKind, Document
from codeinfo.sources.read import decode

_DELIMITERS = ",;\t|"
_PROBE_LINES = 20


def convert_csv(data: bytes, path: str) -> Document:
    text = decode(data)
    if text is None:
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
    """The sign that parts the first lines into most columns, the same number in each."""
    lines = [line for line in text[:20_000].split("\n")[:_PROBE_LINES] if line.strip()]

    def worth(sign: str) -> tuple[int, int]:
        counts = [line.count(sign) for line in lines]
        return (min(counts, default=0), max(counts, default=0))

    return max(_DELIMITERS, key=worth)
