"""What a pool and its workers agree on; apart from both, so that neither imports what only the other needs.

Messages on both pipes are a length (`HEADER` bytes) and marshalled plain values. The first one in holds the settings
and is answered by `READY`; each further one is (path, text, language, kind, syntax), answered by (True, the parse) or
(False, the reason). Bytes in the place of a text are a document to convert; a tuple of queries in the place of syntax
asks for the lines that each of them matches; with EXPRESSIONS as the kind they are regular expressions. (REST, seconds)
has no answer: a worker that is asked nothing for so long ends by itself.
"""

from __future__ import annotations

from codeinfo.index.chunk import ChunkSettings

HEADER = 8
READY = b"\x01"
REST = "rest"
EXPRESSIONS = "expressions"


def time_limit_s(text: str | bytes, settings: ChunkSettings) -> float:
    """How long one file may take."""
    if isinstance(text, bytes):
        from codeinfo.index.documents import CONVERT_TIMEOUT_S

        return CONVERT_TIMEOUT_S
    return settings.parse_timeout_s
