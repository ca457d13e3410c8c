"""What is written for people: colours, widths, words and numbers, and progress while they wait."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from terminal_tools import Terminal as Screen
from test_cli import FOUND

from codeinfo.model import FileKind, quantity
from codeinfo.operations.base import Progress
from codeinfo.operations.code import CodeMap, Hotspot, HotspotReport, MapArea
from codeinfo.operations.search import BEFORE_MATCH, GrepResult, IndexReport, IndexResponse, Match
from codeinfo.shells import (
    render_code,  # noqa: F401  (it registers)
    terminal,
)
from codeinfo.shells.picker import editor_command_for
from codeinfo.shells.render import render, window
from codeinfo.shells.render_answers import Prose
from codeinfo.shells.terminal import Output, Span, clean


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colour_and_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    coloured, plain, piped = Terminal(), Terminal(), io.StringIO()
    render(FOUND, Output(coloured, explain=True))
    render(FOUND, Output(plain, colour=False, explain=True))
    render(FOUND, Output(piped, explain=True))
    assert "\x1b[" in coloured.getvalue()
    assert plain.getvalue() == piped.getvalue()


def test_headings_are_symbols_and_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    crumb = "ConnectionPool > acquire(self, timeout: float | None = None) -> Connection"
    code = replace(FOUND.hits[0], breadcrumb=crumb, symbol="ConnectionPool.acquire_with_a_timeout")
    page = replace(FOUND.hits[0], breadcrumb="Guide > Connections", symbol="Connections", kind=FileKind.DOCS)
    narrow, piped = Terminal(), io.StringIO()
    for stream in (narrow, piped):
        render(replace(FOUND, hits=(code, page)), Output(stream, colour=False))
    assert narrow.getvalue().splitlines()[:2] == [
        " 1  /repo/src/a.py:3-4",
        "     ConnectionPool.acquire_with_a_timeout",
    ]
    assert piped.getvalue().splitlines()[0] == " 1  /repo/src/a.py:3-4  ConnectionPool.acquire_with_a_timeout"
    assert " 2  /repo/src/a.py:3-4  Guide > Connections" in piped.getvalue()


def test_code_has_the_colours_of_its_language_and_marked_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = "def parse_headers(line):  # the header is parsed"
    screen = Terminal()
    render(replace(FOUND, query="how is the header parsed", hits=(replace(FOUND.hits[0], text=text),)), Output(screen))
    (line,) = [line for line in screen.getvalue().splitlines() if "def" in line]
    marked = re.findall(r"\x1b\[1;31m(\w+)", line)
    assert marked == ["parse", "headers", "header", "parsed"], "in whatever form, but not `the` and `is`"
    assert re.search(r"\x1b\[\d+mdef", line), "a keyword has its own colour"


def test_wide_letters_take_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "46")
    rows = [("订单.py", "三", "x 数据库 连接池 超时 时 返回 错误 给 调用者"), ("a.py", "two", "x"), ("👍.md", "é", "x")]
    screen, piped = Terminal(), io.StringIO()
    for stream in (screen, piped):
        Output(stream, colour=False).table(rows)
    assert {cell_len(line.partition(" x")[0]) for line in piped.getvalue().splitlines()} <= {15}
    out = Output(screen, colour=False)
    out.numbered_line("   1 │ ", ["message = '数据库连接池超时时返回错误给调用者'"])
    out.line("\tif", " the letters are counted after tabs are spaces")
    first, second, *_ = lines = screen.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 46
    assert cell_len(first.partition("x")[0]) == cell_len(second) - cell_len(second.lstrip())


def test_secrets_that_were_masked_are_one_line() -> None:
    notes = [f"tests/{name}.py: 2 secrets masked" for name in "abc"]
    notes += [f"tests/{name}.dat: 7 invalid byte sequences replaced" for name in "ab"]
    response = IndexResponse((IndexReport("/r", 3, 3, notes=(*notes, "a remark")),))
    short, full = io.StringIO(), io.StringIO()
    render(response, Output(short))
    render(response, Output(full, verbose=True))
    assert "note: 6 secrets masked in 3 files; --verbose lists them" in short.getvalue()
    assert "note: 14 invalid byte sequences replaced in 2 files; --verbose lists them" in short.getvalue()
    assert "tests/a" not in short.getvalue()
    assert "note: a remark" in short.getvalue()
    assert "tests/c.py: 2 secrets masked" in full.getvalue()


def test_bars_differ_where_values_do() -> None:
    spots = tuple(Hotspot(f"{n}.py", n, 9, 1, 1, score=n / 30) for n in (1, 2, 3, 30))
    written = io.StringIO()
    render(HotspotReport(4, spots, 90, 9), Output(written))
    bars = [line.split()[0] for line in written.getvalue().splitlines()[:4]]
    assert len(set(bars)) == 4
    assert len({line.index(".py") for line in written.getvalue().splitlines()[:3]}) == 1


def test_an_answer_is_rendered_as_it_arrives() -> None:
    answer = "It parses.\n\n[1] src/a.py:9-10\n```\ndef a():\n    pass\n```\nAnd `b`:\n```python\nb = 1\n```"
    for size in (1, 7, 1000):
        written = io.StringIO()
        with Prose(Output(written)) as prose:
            for start in range(0, len(answer), size):
                prose.write(answer[start : start + size])
        assert written.getvalue().splitlines() == [
            "It parses.",
            "",
            "[1] src/a.py:9-10",
            "    9 │ def a():",
            "   10 │     pass",
            "And `b`:",
            "      │ b = 1",
        ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_answer_is_broken_between_words_as_it_is_written(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    answer = "It is read by the parser of headers, which\n"
    answer += "splits lines; 如何申请退款 and an_identifier_of_thirty_letters end it."
    screen, piped = Terminal(), io.StringIO()
    for stream in (screen, piped):
        with Prose(Output(stream, colour=False)) as prose:
            for start in range(0, len(answer), size):
                prose.write(answer[start : start + size])
    assert [line.rstrip() for line in screen.getvalue().splitlines()] == [
        "It is read by the parser of headers,",
        "which",
        "splits lines; 如何申请退款 and",
        "an_identifier_of_thirty_letters end it.",
    ]
    assert piped.getvalue() == f"{answer}\n"


def test_long_lines_of_documents_stay_behind_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Terminal()
    Output(screen, colour=False).numbered_line(
        "   1 │ ", ["Ask within thirty days. 退款由财务部门审核,审核通过后五个工作日内到账"], wraps=True
    )
    first, *rest = screen.getvalue().splitlines()
    assert first.startswith("   1 │ Ask within")
    assert [line.partition("│")[0] for line in rest] == ["     ", "     "]
    assert max(map(cell_len, (first, *rest))) <= 40


def test_text_is_broken_between_words_and_below_its_own_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("TERM", "xterm-256color")
    rows: list[tuple[Span, ...]] = [
        ("ok", "index", ("one two three four five six seven eight nine", "dim")),
        ("ok", "cache", "/a/path/that/is/longer/than/the/line/and/stays/whole free"),
    ]
    plain, coloured, piped = Terminal(), Terminal(), io.StringIO()
    for stream, colour in ((plain, False), (coloured, True), (piped, False)):
        out = Output(stream, colour=colour)
        out.table(rows)
        out.wrap(("note: ", "bold"), "a hint that is a little longer than the line is wide", hang=6)
    broken = [
        "  ok  index  one two three four five six seven",
        "             eight nine",
        "  ok  cache  /a/path/that/is/longer/than/the/line/and/stays/whole",
        "             free",
        "note: a hint that is a little longer than the line",
        "      is wide",
    ]
    assert plain.getvalue().splitlines() == broken
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue()).splitlines() == broken
    assert len(piped.getvalue().splitlines()) == 3  # programs get one line for each


def test_a_last_column_without_room_goes_below_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    narrow = Terminal()
    rows = [("lib/helpers/(parse, read, …)", "4 files", "→ lib/core, lib/utils"), ("lib", "1 file", "→ lib/a")]
    Output(narrow, colour=False).table(rows)
    assert narrow.getvalue().splitlines() == [
        "  lib/helpers/(parse, read, …)  4 files",
        "      → lib/core, lib/utils",
        "  lib                           1 file   → lib/a",
    ]


def test_a_narrow_terminal_gets_no_empty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    narrow = Terminal()
    long = "packages/common/src/services/persistence/index.ts:254"
    Output(narrow, colour=False).table([("test", long, ""), ("    ", long, "via lib/a.ts")])
    assert narrow.getvalue().splitlines() == ["  test", f"      {long}", f"        {long}", "      via lib/a.ts"]


def test_a_match_in_a_long_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    far = Match("a.js", 1, 150, 6, "x = 1; " * 21 + "  needle = 2; " + "y = 3; " * 9, "", "/repo")
    cut = replace(far, column=9001, text="…" + "z" * BEFORE_MATCH + "needle" + "z" * 400 + "…")
    for found in (far, cut):
        narrow, piped = Terminal(), io.StringIO()
        for stream in (narrow, piped):
            render(GrepResult("needle", (found,), 1, 1), Output(stream, colour=False))
            line = next(line for line in stream.getvalue().splitlines() if "│" in line)
            assert "needle" in line
        assert cell_len(next(line for line in narrow.getvalue().splitlines() if "│" in line)) <= 60


def test_code_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    narrow = Terminal()
    long = replace(FOUND.hits[0], text="\t\treturn first_of_many(words) + second_of_many(words) + third")
    render(replace(FOUND, hits=(long,)), Output(narrow, colour=False))
    (line,) = [line for line in narrow.getvalue().splitlines() if "first_of_many" in line]
    assert line == "    3 │         return first_of_many(words) + …", "tabs are wide, and no word is broken"


def test_numbers_and_nouns_agree() -> None:
    assert [quantity(1, "file"), quantity(1200, "file"), quantity(2, "memory", "memories")] == [
        "1 file",
        "1,200 files",
        "2 memories",
    ]


def test_control_characters_are_shown_not_obeyed() -> None:
    assert clean("a\x1b]0;title\x07b\r\x9b\u202e\tc\udcff") == "a␛]0;title␇b␍��    c?"
    assert clean("a\u200fb\u2028c\u061cd") == "a�b�c�d"


def test_long_chunks_are_cut_around_the_answer() -> None:
    lines = [f"line {number}" for number in range(40)]
    lines[30] = "the needle"
    shown = window(lines, {"needle"})
    assert shown[0] == 0
    assert 30 in shown
    assert len(shown) < 8
    assert window(lines, set()) == list(range(8))
    assert window(["class Needle:", *lines], {"needle"}) == list(range(8)), (
        "the head of the chunk is what was asked for"
    )
    common = ["line of the letter", *lines[1:]]
    assert 30 in window(common, {"line", "needle"}), "a word of every line does not say where the answer is"
    spaced = [*lines[: shown[1]], "", "", *lines[shown[1] + 2 :]]
    assert window(spaced, {"needle"})[1] == shown[1] + 2, "starts with empty lines"


def test_progress_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_S", 0)
    with terminal.show_progress(io.StringIO()) as sink:
        assert sink is None
    screen = Terminal()
    with terminal.show_progress(screen) as sink:
        assert sink is not None
        sink(Progress("parse", 120, 480, 3, 310.0))
    assert "120/480 files, 310/s, 3 skipped" in screen.getvalue()


def test_progress_makes_way_for_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_S", 0)
    monkeypatch.setattr(terminal, "REDRAW_S", 0)
    screen = Terminal()
    with terminal.show_progress(screen) as drawing:
        assert drawing is not None
        drawing(Progress("walk", 7, 0))
        drawing.stop()
        assert screen.getvalue().endswith("\x1b[2K")  # the line is gone
        before = len(screen.getvalue())
        drawing.stop()
        assert len(screen.getvalue()) == before
        drawing(Progress("index", 8, 0))
        assert "index" in screen.getvalue()[before:]


# --- the picker ----------------------------------------------------------------------------------------------------

SOURCES = {
    "pay.py": "def charge_card(amount):\n    return amount\n\n\ndef refund_card(amount):\n    return -amount\n",
    "stock.py": "import os\n\n\ndef reserve_stock(item):\n    return item\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    for name, text in SOURCES.items():
        (root / name).write_text(text)
    editor = tmp_path / "vi"  # known by its name to take +LINE
    editor.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\n')
    editor.chmod(0o755)
    return root


def start(shop: Path, *arguments: str, **environment: str) -> Screen:
    command = [sys.executable, "-m", "codeinfo", "search", "-I", *arguments]
    return Screen(command, cwd=shop, env={**os.environ, "EDITOR": str(shop.parent / "vi"), **environment}, columns=70)


def test_a_result_is_opened_at_its_line(shop: Path) -> None:
    screen = start(shop)
    screen.read_until("Enter open")
    screen.press("reserve stok")
    screen.press("\x7fck")
    screen.read_until("stock.py:1")
    screen.read_until("4 │ def reserve_stock(item):")
    screen.press("\x15")
    screen.press("card amount")
    screen.read_until("pay.py:1")
    screen.press("\r")
    assert screen.wait() == 0
    assert (shop.parent / "opened").read_text() == f"+1 {shop / 'pay.py'}\n"
    assert "\x1b[?1049l" in screen.written, "the screen is as it was"


def test_another_result_is_chosen_and_printed_without_an_editor(shop: Path) -> None:
    screen = start(shop, "return", "item", "amount", EDITOR="", VISUAL="")
    screen.read_until("2 results")
    *_, shown = (screen.read_until(f"{one}:1") for one in SOURCES)  # painted after the count
    first, second = (name for _, name in sorted((shown.index(f"{one}:1"), one) for one in SOURCES))
    screen.press("\x1b[B")
    screen.read_until(f"▌ {second}")
    screen.press("\r")
    assert screen.wait() == 0
    assert screen.shown.rstrip().endswith(f"{second}:1")
    assert first != second


def test_the_picker_is_left_without_a_choice(shop: Path) -> None:
    screen = start(shop, "amount")
    screen.read_until("pay.py:1")
    screen.press("\x1b")
    assert screen.wait() == 0
    assert not (shop.parent / "opened").exists()


def test_the_picker_needs_a_terminal(shop: Path, codeinfo: Any) -> None:
    done = codeinfo("search", "-I", cwd=shop)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a terminal" in done.stderr
    assert codeinfo("search", cwd=shop).returncode == 2


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vim -n", ["vim", "-n", "+3", "a.py"]),
        ("code --wait", ["code", "--wait", "--goto", "a.py:3"]),
        ("/usr/bin/zed", ["/usr/bin/zed", "a.py:3"]),
        ("pycharm", ["pycharm", "--line", "3", "a.py"]),
    ],
)
def test_editors_open_the_line_in_their_own_syntax(command: str, expected: list[str]) -> None:
    assert editor_command_for(command, "a.py", 3) == expected


def test_areas_of_a_long_folder_are_named_from_there() -> None:
    base = "src/main/java/org/acme/clinic/"
    areas = (MapArea(f"{base}web", 1, 2, 0.5, {f"{base}model": 3}), MapArea(f"{base}model", 0, 4, 1.0))
    stream = io.StringIO()
    render(CodeMap("/r", 6, 3, {"java": 6}, (), (), areas, (), (), 0, 0, 0), Output(stream, colour=False))
    lines = stream.getvalue().splitlines()
    assert f"Layers below {base}  upper layers import lower ones" in lines
    assert [" ".join(line.split()) for line in lines[-2:]] == ["1 web 2 files → model", "0 model 4 files"]
