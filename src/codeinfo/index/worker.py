"""A process that parses files for a pool and may be killed at any moment: `python -m codeinfo.index.worker`.

It speaks the protocol of `pool` and exits when its input ends: it outlives its parent by one file at most.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import signal
import sys
from typing import Any, BinaryIO

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_packed
from codeinfo.index.pool import EXPRESSIONS, HEADER, READY, REST, time_limit_s
from codeinfo.model import FileKind, ParsedFile

MEMORY_LIMIT = 2 << 30  # bytes of address space; a parse that needs more is hostile


def main() -> None:
    gc.set_threshold(200_000, 20, 20)  # a parse creates hundreds of thousands of objects, and hardly any cycles
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    _limit_memory()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    settings = ChunkSettings(*_receive(requests))
    replies.write(READY)
    replies.flush()
    while (request := _receive(requests)) is not None:
        if len(request) == 2 and request[0] == REST:
            signal.setitimer(signal.ITIMER_REAL, request[1])
            continue
        # Exits if the parent is gone: it would have given up before.
        signal.setitimer(signal.ITIMER_REAL, 2 * time_limit_s(request[1], settings))
        reply = marshal.dumps(_answer(request, settings))
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(len(reply).to_bytes(HEADER, "little"))
        replies.write(reply)
        replies.flush()


def _answer(request: Any, settings: ChunkSettings) -> tuple[bool, Any]:
    path, text, language, kind, syntax = request
    try:
        if isinstance(text, bytes):
            return _convert(path, text, settings)
        if isinstance(syntax, tuple):
            from codeinfo.index.queries import expression_places, query_lines  # imported late: most runs have none

            if kind == EXPRESSIONS:
                return True, expression_places(text, syntax)
            return True, query_lines(text, language, syntax)
        parsed, references = parse_packed(path, text, language, FileKind(kind), settings, syntax=syntax)
        return True, (*plain(parsed), references)
    except Exception as error:  # whatever a hostile file provokes is an answer; the parent continues without syntax
        return False, f"{type(error).__name__}: {error}"[:200]


def _convert(path: str, data: bytes, settings: ChunkSettings) -> tuple[bool, Any]:
    from codeinfo.index.documents import document_parse  # imported late: most runs have no document
    from codeinfo.sources.documents import Refused

    try:
        return True, (*plain(document_parse(path, data, settings)), b"")
    except Refused as refusal:
        return False, str(refusal)[:200]


def plain(parsed: ParsedFile) -> tuple[Any, ...]:
    """The values of a parse as tuples, which marshal writes faster than pickle writes objects."""
    return (
        [(c.start_line, c.end_line, c.text, c.kind, c.symbol, c.breadcrumb) for c in parsed.chunks],
        [
            (d.name, d.qualified, d.kind, d.signature, d.doc, d.start_line, d.end_line, d.exported, d.bases)
            for d in parsed.definitions
        ],
        [(i.module, i.line, i.names, i.alias, i.reexport) for i in parsed.imports],
        parsed.terms,
        parsed.notes,
    )


def _receive(requests: BinaryIO) -> Any:
    header = requests.read(HEADER)
    if len(header) < HEADER:
        return None
    return marshal.loads(requests.read(int.from_bytes(header, "little")))


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not every system has or allows the limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
