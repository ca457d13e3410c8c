"""Which lines of a chunk are shown: the definition that answers, not what stands above it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import REPOSITORY, RunCli

from codeinfo.ports import Extent
from codeinfo.search.focus import Finder, LineKind, Shown, answering_definition, focus, line_kind
from codeinfo.search.query import read_query

BUDGET = 300
FILLER = "".join(f"    step_{n} = prepare(step_{n}, {n})\n" for n in range(12))
HEAD = '"""Licensed to those who retry uploads."""\n\nimport retry\nfrom upload import retry_upload\n\n'


def first_line(text: str, terms: dict[str, float], budget: int = BUDGET, *, prose: bool = False) -> str:
    return focus(text, Finder(terms), budget, prose=prose).text.split("\n")[0]


def test_imports_and_the_comment_above_them_are_no_answer() -> None:
    text = f"{HEAD}def other():\n{FILLER}\n\ndef send_again():\n    # retry the upload\n{FILLER}"
    assert first_line(text, {"retri": 1.0, "upload": 1.0}) == "def send_again():"


def test_where_only_the_head_matches_the_body_below_it_is_shown() -> None:
    text = f"{HEAD}def send_again():\n{FILLER}{FILLER}"
    assert first_line(text, {"retri": 1.0}) == "def send_again():"


def test_a_run_starts_where_the_definition_around_the_line_does() -> None:
    text = f"def first():\n{FILLER}\n\n# Sends once more.\n@logged\ndef again():\n    ready()\n    zebra()\n{FILLER}"
    assert first_line(text, {"zebra": 1.0}) == "# Sends once more."
    far = f"def first():\n{FILLER}{FILLER}    zebra()\n{FILLER}"
    assert first_line(far, {"zebra": 1.0}) == "    zebra()", "the head of the definition is too far above"


def test_the_line_that_defines_wins_over_those_that_use() -> None:
    text = f"# Pool of pools: pool.\n{FILLER}pool = Pool(pool)\n{FILLER}class Pool:\n{FILLER}"
    assert first_line(text, {"pool": 1.0}) == "class Pool:"


def test_of_equal_runs_the_one_that_starts_with_the_name_is_shown() -> None:
    text = "def above():\n    return 1\n\n\ndef pause():\n    return 2\n\n\n" + "def below():\n    return 3\n\n\n" * 9
    assert first_line(text, {"pause": 1.0}) == "def pause():"


def test_where_only_imports_have_the_name_they_are_shown() -> None:
    text = "".join(f"from .module{number} import name{number}\n" for number in range(30))
    assert first_line(text + "from .termui import pause\n", {"pause": 1.0}) == "from .termui import pause"


def test_in_prose_headings_are_no_comments() -> None:
    text = "# Retries\n\n" + "Words about it.\n" * 40 + "The zebra crosses.\n" + "More words.\n" * 30
    assert first_line(text, {"retri": 1.0}, prose=True) == "# Retries"
    assert first_line(text, {"zebra": 1.0, "retri": 0.2}, prose=True) == "The zebra crosses."


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (LineKind.IMPORT, ["import os", "from a import b", "use std::io;", "#include <x.h>", "using System.Text;"]),
        (LineKind.IMPORT, ["const a = require('a');", "import { a } from 'b'", "package main", "require 'json'"]),
        (LineKind.COMMENT, ["// x", " * x", "# x", "-- x", '    """Says x."""', "/* x", "; x"]),
        (LineKind.ATTRIBUTE, ["@dataclass", "#[derive(Debug)]", "    @Override"]),
        (LineKind.DEFINITION, ["def a():", "  async def a(self):", "pub(crate) fn a<T>() {", "impl<T> A for B {"]),
        (
            LineKind.DEFINITION,
            ["export default class A {", "public void main(String[] a) {", "func (s *S) A() {"],
        ),
        (LineKind.DEFINITION, ["static int parse(char *text)", "res.send = function send(body) {", "#define A(x) x"]),
        (LineKind.DEFINITION, ["defmodule A do", "data class A(val b: Int)", "  def a", "interface A {"]),
        (LineKind.OTHER, ["    if (a) {", "} else if (b) {", "x = call(y)", "return a(b)", "    call(a)"]),
        (LineKind.BLANK, ["", "   "]),
    ],
)
def test_kinds_of_lines(kind: LineKind, lines: list[str]) -> None:
    assert {line: line_kind(line) for line in lines} == dict.fromkeys(lines, kind)


def test_giant_lines_are_read_quickly() -> None:
    text = "x = 1\n" * 50 + "a" * 100_000 + "(" + "b" * 100_000 + "\nretry b\n" * 20
    started = time.thread_time()
    shown = focus(text, Finder({"retri": 1.0}), BUDGET).text
    assert time.thread_time() - started < 0.5
    assert "retry b" in shown


def test_the_question_of_the_readme_shows_the_loop_that_answers_it(codeinfo: RunCli, tmp_path: Path) -> None:
    question = "what happens when the payment provider is down"
    assert question in (REPOSITORY / "README.md").read_text()
    shop = REPOSITORY / "examples" / "shop"
    done = codeinfo("search", question, "--root", str(shop), "-n", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "for attempt in range(MAX_ATTEMPTS):" in done.stdout
    assert "import" not in done.stdout


POOL = """\
# Rents out what a server has.
import servers

class Pool:
    def open(self):
        return Connection()

    # Waits for an idle connection, and gives up after the timeout.
    def borrow(self):
        return self.idle.get(self.limit)

    def close(self):
        self.drop()
"""
TEXT = read_query("how are connections kept")
IN_POOL = [
    Extent("Pool", "class", 4, 13),
    Extent("Pool.open", "method", 5, 6),
    Extent("Pool.borrow", "method", 9, 10),
    Extent("Pool.limit", "field", 9, 9),
    Extent("Pool.close", "method", 12, 13),
]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"timeout": 1.0}, "Pool.borrow"),  # only the comment above it says so
        ({"idl": 1.0, "connect": 0.3}, "Pool.borrow"),
        ({"connect": 1.0}, "Pool.open"),  # of equals the first
        ({"close": 1.0}, "Pool.close"),
        ({"pool": 1.0}, "Pool"),
        ({"limit": 1.0}, "Pool.borrow"),  # a field is no answer by itself
        ({"rent": 1.0}, ""),  # said of the file, not of what comes first in it
        ({"zebra": 1.0}, ""),
    ],
)
def test_a_chunk_is_called_after_the_definition_that_answers(terms: dict[str, float], expected: str) -> None:
    found = answering_definition(TEXT, IN_POOL, 1, POOL, Shown(0, POOL.count("\n"), POOL), Finder(terms))
    assert (found.qualified if found else "") == expected


@pytest.mark.parametrize(
    ("terms", "first", "last", "expected"),
    [
        ({"close": 1.0}, 4, 5, "Pool.open"),  # the one that has it is not shown
        ({"limit": 1.0}, 7, 9, "Pool.borrow"),
        ({"limit": 1.0, "close": 2.0}, 4, 11, "Pool.borrow"),  # of `close` too little is shown
        ({"close": 2.0}, 4, 11, "Pool.close"),  # though only its beginning is shown
        ({"zebra": 1.0}, 11, 12, "Pool.close"),
    ],
)
def test_a_part_is_called_after_a_definition_that_it_shows(
    terms: dict[str, float], first: int, last: int, expected: str
) -> None:
    lines = POOL.splitlines()
    shown = Shown(first, last, "\n".join(lines[first : last + 1]))
    found = answering_definition(TEXT, IN_POOL, 1, POOL, shown, Finder(terms))
    assert found is not None
    assert found.qualified == expected


@pytest.mark.parametrize("name", ["close", "Pool.close", "servers::Pool::close"])
def test_a_chunk_is_called_after_the_name_that_is_asked_for(name: str) -> None:
    """Although another one says it more often."""
    text = POOL.replace("borrow(self)", "borrow(self, close)").replace("idle", "close")
    shown = Shown(0, text.count("\n"), text)
    found = answering_definition(read_query(name), IN_POOL, 1, text, shown, Finder({"close": 1.0}))
    assert found is not None
    assert found.qualified == "Pool.close"


def test_a_form_feed_ends_no_line() -> None:
    text = POOL.replace("import servers", "import servers\f")
    lines = text.split("\n")
    shown = Shown(4, 6, "\n".join(lines[4:7]))
    found = answering_definition(TEXT, IN_POOL, 1, text, shown, Finder({"connect": 1.0}))
    assert found is not None
    assert found.qualified == "Pool.open"
