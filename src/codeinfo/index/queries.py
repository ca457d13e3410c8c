"""Syntax queries and regular expressions from a project, run in a process that can be killed.

Neither the query nor the code is trusted: a query may match in more ways than anyone can wait for, and an expression,
alone or in a query's predicate, may never finish.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.pool import EXPRESSIONS, QUERIES, Worker
from codeinfo.index.syntax import language, parse_tree
from codeinfo.languages import GRAMMARS

if TYPE_CHECKING:
    from tree_sitter import Query


USE = "use"  # the capture whose line counts; without it, the first of a match
MOST_CHARACTERS = 4000  # of a query
MOST_EXPRESSION_CHARACTERS = 1000
EXPRESSION_LINE_CHARACTERS = 200  # of a line that an expression sees
MOST_MATCHES = 2000  # in progress at once: more ways to match mean an unspecific query
FILE_SECONDS = 2.0
ALL_SECONDS = 20.0  # for one report: parsing 5,000 files takes about as long
_PREDICATE = re.compile(r"#([\w-]+[?!]?)|\"(?:\\.|[^\"\\])*\"|;[^\n]*")
_KNOWN_PREDICATES = frozenset(
    f"{start}{test}?" for test in ("eq", "match", "any-of") for start in ("", "not-", "any-", "any-not-")
)
_PLACE = re.compile(r"^(?:\w+Error: )?(.*?) at row (\d+), column (\d+)(: .*)?$", re.DOTALL)


# --- inside of the worker ------------------------------------------------------------------------------------------


def query_lines(text: str, name: str, queries: Sequence[str]) -> list[list[int]]:
    from tree_sitter import QueryCursor

    tree = parse_tree(name, text.encode("utf-8", "replace"))
    lines_of = []
    for query in queries:
        lines = set()
        cursor = QueryCursor(_compile(name, query), match_limit=MOST_MATCHES)
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


@lru_cache(maxsize=256)
def _compile(name: str, text: str) -> Query:
    from tree_sitter import Query

    return Query(language(name), text)


# --- outside of it -------------------------------------------------------------------------------------------------


class OwnPatterns:
    """Runs queries and expressions in a process, with time limits per file and for all of them together."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self.begin()

    def begin(self) -> None:
        """Reset the time limit for another report."""
        self._left = ALL_SECONDS
        self.gave_up = False

    def expression_complaint(self, expression: str) -> str:
        """What is wrong with an expression; "" if it can be run."""
        if len(expression) > MOST_EXPRESSION_CHARACTERS:
            return f"longer than {MOST_EXPRESSION_CHARACTERS} characters"
        return self._try((EXPRESSIONS, "", (expression,)))

    def query_complaint(self, name: str, query: str) -> str:
        """What is wrong with a query, and where; "" if it can be run."""
        if name not in GRAMMARS:
            return f"there is no syntax tree for {name!r}, but for {', '.join(sorted(GRAMMARS))}"
        if len(query) > MOST_CHARACTERS:
            return f"longer than {MOST_CHARACTERS} characters"
        for match in _PREDICATE.finditer(query):
            if match.group(1) and match.group(1) not in _KNOWN_PREDICATES:
                return f"{_where(query, match.start())}: unknown predicate #{match.group(1)}"
        if not re.search(r"@[\w.-]", query):
            return "nothing is captured: put @use after what counts as a use"
        return self._try((QUERIES, "", name, (query,)))

    def _try(self, request: tuple[Any, ...]) -> str:
        reply = self._ask(request, FILE_SECONDS)
        if reply is None:
            return "it takes too long to prepare"
        succeeded, value = reply
        return "" if succeeded else _explain(str(value))

    def lines(self, name: str, queries: Sequence[str], text: str) -> list[list[int]]:
        """The lines that each query matches; none, and `gave_up`, if that took too long."""
        return self._find((QUERIES, text, name, tuple(queries)))

    def places(self, expressions: Sequence[str], text: str) -> list[list[tuple[int, int]]]:
        """The lines and offsets that each expression matches; none, and `gave_up`, if that took too long."""
        return self._find((EXPRESSIONS, text, tuple(expressions)))

    def _find(self, request: tuple[Any, ...]) -> list[list[Any]]:
        if self._left > 0:
            started = time.monotonic()
            reply = self._ask(request, min(FILE_SECONDS, self._left))
            self._left -= time.monotonic() - started
            if reply is not None and reply[0]:
                lines: list[list[Any]] = reply[1]
                return lines
        self.gave_up = True
        return [[] for _ in request[-1]]

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def _ask(self, request: tuple[Any, ...], seconds: float) -> tuple[bool, Any] | None:
        """The answer, or None if it did not come in time: the process is then lost."""
        try:
            if self._worker is None:
                self._worker = Worker()
                if not self._worker.begin(ChunkSettings()):
                    raise EOFError
            self._worker.send(request)
            reply: tuple[bool, Any] | None = self._worker.receive(time.monotonic() + seconds)
        except (OSError, EOFError):
            reply = None
        if reply is None:
            self.close()
        return reply


def _where(query: str, offset: int) -> str:
    before = query[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def _explain(error: str) -> str:
    """`Invalid node type at row 0, column 17: identifir`, counted from 1."""
    match = _PLACE.match(error)
    if match is None:
        return error
    what, row, column, rest = match.groups()
    return f"line {int(row) + 1}, column {int(column) + 1}: {what}{rest or ''}"
