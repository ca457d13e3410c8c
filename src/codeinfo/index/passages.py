"""A document's chunks: their kind, and what they are embedded as. Apart from what makes them: many need only this."""

from __future__ import annotations

from codeinfo.types import Chunk

PASSAGE = "passage"  # the kind of a document's chunks
CRUMB = " > "


def passage_text(chunk: Chunk) -> str:
    """What a passage is embedded as."""
    title, _, section = chunk.breadcrumb.partition(CRUMB)
    where = f"Document: {title}\nSection: {section}" if section else f"Document: {title}"
    return f"{where}\n\n{chunk.text}"
