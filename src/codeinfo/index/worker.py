"""A process that parses files for a pool and may be killed at any moment: `python -m codeinfo.index.worker`.

It speaks the protocol of `pool` and exits when its input ends: it outlives its parent by one file at most.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from msgspec.structs import astuple

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.index.pool import CONVERT, EXPRESSIONS, HEADER, PARSE, PATIENCE, READY, REST, time_limit_s
from codeinfo.index.syntax import compile_query, language, parse_tree
from codeinfo.model import ParsedFile

MEMORY_LIMIT = 2 << 30  # bytes of address space; a parse that needs more is hostile
USE = "use"  # the capture whose line counts; without it, the first of a match
EXPRESSION_LINE_CHARACTERS = 200  # of a line that an expression sees
MOST_MATCHES = 2000  # in progress at once: more ways to match mean an unspecific query


def main() -> None:
    gc.set_threshold(200_000, 20, 20)  # a parse creates hundreds of thousands of objects, and hardly any cycles
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    _limit_memory()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    settings = ChunkSettings(*_receive(requests))
    replies.write(READY)
    replies.flush()
    while (request := _receive(requests)) is not None:
        task, *arguments = request
        if task == REST:
            signal.setitimer(signal.ITIMER_REAL, *arguments)
            continue
        # Exits if the parent is gone: it would have given up before.
        limit = PATIENCE * time_limit_s(b"" if task == CONVERT else "", settings)
        signal.setitimer(signal.ITIMER_REAL, 2 * limit)
        reply = marshal.dumps(_answer(task, arguments, settings))
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(len(reply).to_bytes(HEADER, "little"))
        replies.write(reply)
        replies.flush()


def _answer(task: str, arguments: list[Any], settings: ChunkSettings) -> tuple[bool, Any]:
    try:
        if task == PARSE:
            path, text, language, syntax = arguments
            return True, _plain(*parse_file(path, text, language, settings, syntax=syntax))
        if task == CONVERT:
            path, data = arguments
            return _convert(path, data, settings)
        return True, (expression_places if task == EXPRESSIONS else query_lines)(*arguments)
    except MemoryError:
        return False, f"more than {MEMORY_LIMIT:,} bytes of memory"
    except Exception as error:  # whatever a hostile file provokes is an answer; the parent continues without syntax
        return False, f"{type(error).__name__}: {error}"[:200]


def _convert(path: str, data: bytes, settings: ChunkSettings) -> tuple[bool, Any]:
    from codeinfo.index.plain import document_parse  # imported late: most runs have no document
    from codeinfo.sources.documents import Refused

    try:
        return True, _plain(document_parse(path, data, settings), b"")
    except Refused as refusal:
        return False, str(refusal)[:200]


def query_lines(text: str, name: str, queries: Sequence[str]) -> list[list[int]]:
    from tree_sitter import QueryCursor

    tree = parse_tree(name, text.encode("utf-8", "replace"))
    lines_of = []
    for query in queries:
        lines = set()
        cursor = QueryCursor(compile_query(language(name), query), match_limit=MOST_MATCHES)
        for _, captures in cursor.matches(tree.root_node):
            nodes = captures.get(USE) or [node for some in captures.values() for node in some]
            if nodes:
                lines.add(1 + min(node.start_point.row for node in nodes))
        lines_of.append(sorted(lines))
    return lines_of


def expression_places(text: str, expressions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """The lines where each expression matches, each with the offset of the match's first word in the text."""
    spans: list[list[tuple[int, int]]] = []
    for expression in map(re.compile, expressions):
        places, offset = [], 0
        for number, line in enumerate(text.split("\n"), 1):
            if match := expression.search(line[:EXPRESSION_LINE_CHARACTERS]):
                words = match.group()
                places.append((number, offset + match.start() + len(words) - len(words.lstrip())))
            offset += len(line) + 1
        spans.append(places)
    return spans


def _plain(parsed: ParsedFile, references: bytes) -> tuple[Any, ...]:
    """The values of a parse as tuples, which marshal writes faster than pickle writes objects."""
    objects = (list(map(astuple, some)) for some in (parsed.chunks, parsed.definitions, parsed.imports))
    return (*objects, parsed.terms, parsed.notes, references)


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
