"""E-mail, Jupyter notebooks, and tables written as text."""

from __future__ import annotations

import csv
import email
import email.policy
import io
import json
from email.message import EmailMessage
from typing import Any

from codeinfo.sources.documents.formats import MAX_CELLS, Block, BlockKind, Document, Refused, one_line, paragraph
from codeinfo.sources.documents.html import html_document
from codeinfo.sources.masking import mask
from codeinfo.sources.read import decode

_HEADERS = ("From", "To", "Cc", "Date")


def convert_mail(data: bytes, path: str) -> Document:
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not isinstance(message, EmailMessage) or not message.keys():
        raise Refused("not an e-mail: it has no header lines")
    subject = one_line(str(message.get("Subject", "")))
    header = [f"{name}: {one_line(str(message[name]), 500)}" for name in _HEADERS if message[name]]
    blocks = [paragraph("\n".join(header)), *_body(message)]
    attached = [name for part in message.iter_attachments() if (name := part.get_filename())]
    blocks.extend(Block(BlockKind.ITEM, f"attached: {name}", 1) for name in attached)
    notes = (f"{len(attached)} attachments are named, not read",) if attached else ()
    return Document(subject, tuple(blocks), notes)


def _body(message: EmailMessage) -> tuple[Block, ...]:
    body = message.get_body(("plain", "html"))
    if body is None:
        return ()
    try:
        text = body.get_content()
    except (LookupError, ValueError) as error:  # a character set nobody knows, an encoding that lies
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
    blocks: list[Block] = []
    masked = 0
    for cell in notebook["cells"]:
        if isinstance(cell, dict):
            found, secrets_found = _cell_blocks(cell, language)
            blocks.extend(found)
            masked += secrets_found
    return Document("", tuple(blocks), (*text.notes, *([f"{masked} secrets masked"] if masked else [])))


def _language(metadata: Any) -> str:
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    return language if isinstance(language, str) and language.isalnum() else "python"


def _cell_blocks(cell: dict[str, Any], language: str) -> tuple[list[Block], int]:
    """What a cell shows, and how many secrets were masked in it."""
    source, masked = mask(_joined(cell.get("source")))
    if not source.strip():
        return [], 0
    if cell.get("cell_type") != "code":
        return [Block(BlockKind.MARKDOWN, source)], masked
    printed, masked_in_output = mask("\n".join(filter(None, map(_printed, cell.get("outputs") or []))))
    blocks = [Block(BlockKind.CODE, source, label=language)]
    if printed.strip():
        blocks.append(Block(BlockKind.CODE, printed[:_OUTPUT_CHARS], label="text"))
    return blocks, masked + masked_in_output


def _printed(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    return _joined(output.get("text")) or (_joined(data.get("text/plain")) if isinstance(data, dict) else "")


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


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
