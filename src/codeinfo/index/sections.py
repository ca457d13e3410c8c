"""Documents by headings."""

from __future__ import annotations

from codeinfo.index.chunk import ChunkSettings, text_spans
from codeinfo.index.fields import weighted_terms
from codeinfo.index.source import Source
from codeinfo.types import Chunk, ParsedFile

SECTIONED = frozenset({"markdown", "rst", "asciidoc", "text"})


def section_parse(source: Source, language: str, settings: ChunkSettings) -> ParsedFile:
    chunks = [Chunk(s.first, s.last, source.between(s.first, s.last), "section") for s in text_spans(source, settings)]
    return ParsedFile(tuple(chunks), terms=tuple(weighted_terms(chunk.text) for chunk in chunks))
