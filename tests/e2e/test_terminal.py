"""What is written for people: colours, widths, words and numbers, and progress while they wait."""

from __future__ import annotations

import io
import re

import pytest
from msgspec.structs import replace
from test_cli import FOUND

from codeinfo.operations.base import Progress
from codeinfo.shells import terminal
from codeinfo.shells.render import render, window
from codeinfo.shells.terminal import Output, Span, clean, quantity


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


def test_headings_fit_a_terminal_and_are_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = replace(FOUND.hits[0], breadcrumb="ConnectionPool, acquire, release, close_idle, resize")
    narrow, piped = Terminal(), io.StringIO()
    for stream in (narrow, piped):
        render(replace(FOUND, hits=(long,)), Output(stream, colour=False))
    assert len(narrow.getvalue().splitlines()[0]) == 60
    assert "resize" in piped.getvalue().splitlines()[0]


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


def test_code_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    narrow = Terminal()
    long = replace(FOUND.hits[0], text="\t\treturn first_of_many(words) + second_of_many(words) + third")
    render(replace(FOUND, hits=(long,)), Output(narrow, colour=False))
    (line,) = [line for line in narrow.getvalue().splitlines() if "first_of_many" in line]
    assert len(line) == 60  # tabs are wide
    assert line.endswith("…")


def test_numbers_and_nouns_agree() -> None:
    assert [quantity(1, "file"), quantity(1200, "file"), quantity(2, "memory", "memories")] == [
        "1 file",
        "1,200 files",
        "2 memories",
    ]


def test_control_characters_are_shown_not_obeyed() -> None:
    assert clean("a\x1b]0;title\x07b\r\x9b\u202e\tc\udcff") == "a␛]0;title␇b␍��    c?"


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
