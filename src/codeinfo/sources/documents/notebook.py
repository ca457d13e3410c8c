"""Jupyter notebooks: prose as it is, code as code, and what cells printed, as far as it is text.

Secrets are masked in the text of each cell, before it is cut: half a key would not be recognized.
"""

from __future__ import annotations

import json
from typing import Any

from codeinfo.sources import secrets
from codeinfo.sources.documents.limits import Refused
from codeinfo.sources.documents.model import Block, BlockKind, Document
from codeinfo.sources.read import decode

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
    source, masked = secrets.mask(_joined(cell.get("source")))
    if not source.strip():
        return [], 0
    if cell.get("cell_type") != "code":
        return [Block(BlockKind.MARKDOWN, source)], masked
    printed, masked_in_output = secrets.mask("\n".join(filter(None, map(_printed, cell.get("outputs") or []))))
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
