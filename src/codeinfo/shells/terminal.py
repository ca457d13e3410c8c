"""Terminal output: plain text or text styled by rich, progress of long work, and errors.

Text from repositories is untrusted: control characters could move the cursor, retitle the window or forge lines, so
they are shown as symbols.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

import click
from msgspec import Struct

from codeinfo.config import refuses_colour
from codeinfo.errors import CodeInfoError, UsageError, environment_error, error_json
from codeinfo.model import CONTROLS, TEAM, dumps, shown_root, split_lines
from codeinfo.operations.base import Progress
from codeinfo.operations.documents import DOCUMENTS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

Span = str | tuple[str, str]  # text, or text with a style's name
PLAIN_WIDTH = 160  # without a terminal: long enough for code, short enough for logs
LINE_DIGITS = 4  # minimum width of line numbers, so that code begins in one column
LEAST_COLUMN = 30  # characters: a narrower column is harder to read than a line broken by the terminal

_CONTROLS = dict.fromkeys(CONTROLS, "\ufffd") | {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"}
_CONTROLS[ord("\t")] = "    "
# Characters of one cell: Latin letters, punctuation, arrows, lines and blocks. Of others, rich knows the width.
_NARROW = re.compile(r"[\0-\u02ff\u2010-\u22ff\u2500-\u25fc]*")


def clean(text: str) -> str:
    """One line of untrusted text, safe to print."""
    return text.encode("utf-8", "replace").decode().translate(_CONTROLS)


def cells(text: str) -> int:
    """The columns that a text takes on a terminal: Chinese letters and emoji take two, combining accents none."""
    if _NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fitting_end(text: str, start: int, room: int) -> int:
    """The end of the part from `start` that fits into so many cells."""
    end = min(len(text), start + room)
    while cells(text[start:end]) > room:
        end -= 1
    return end


def conversation_subject(paths: Sequence[str]) -> str:
    """What a conversation is about, in short: the names of its projects, or documents."""
    return ", ".join("documents" if path.startswith(DOCUMENTS) else path.rpartition("/")[2] or path for path in paths)


def near_path(*parts: str) -> str:
    """A path as typed from here, so that terminals and editors can open it, unless that is longer."""
    full = os.path.join(*parts)
    if full.startswith(TEAM):
        return shown_root(full)
    try:
        near = os.path.relpath(full)
    except OSError:  # the current folder was removed
        return full
    return full if near.startswith(os.path.join("..", "..")) else near


def detail_text(detail: str) -> str:
    """The detail of an event or job, which is JSON: `user ann, scopes read write, admin`."""
    parts = []
    for name, value in json.loads(detail).items():
        if value is True:
            parts.append(name)
        elif value not in (False, None, "", []):
            parts.append(f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}")
    return ", ".join(parts)


def byte_size(count: float) -> str:
    """`980 B`, `1.5 MB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


# --- output --------------------------------------------------------------------------------------------------------


class Output(Struct, dict=True):
    stream: TextIO
    find_root: Callable[[], str] = str  # of relative paths
    colour: bool = True
    explain: bool = False  # shows every reason
    whole: bool = False  # does not shorten texts
    verbose: bool = False  # does not shorten lists

    def __post_init__(self) -> None:
        self.terminal = self.stream.isatty()
        self.width = shutil.get_terminal_size().columns if self.terminal else PLAIN_WIDTH
        self._console: Console | None = None
        if self.terminal and self.colour:
            from rich.console import Console

            self._console = Console(file=self.stream, highlight=False, soft_wrap=True)

    def near(self, place: str) -> str:
        """A path of the project, or text that begins with one, relative to the current folder."""
        return near_path(self._root, place) if self._root else place

    @cached_property
    def _root(self) -> str:
        return self.find_root()

    def line(self, *spans: Span) -> None:
        """One line; in a terminal that is too narrow it is broken between words, keeping its indentation."""
        whole = clean(text_of(spans))
        if self.terminal and cells(whole) > self.width:
            self.wrap(*spans, hang=len(whole) - len(whole.lstrip()) + 4)
        else:
            self.uncut_line(*spans)

    def uncut_line(self, *spans: Span) -> None:
        """One line, however long; every span is cleaned. For text to copy, such as code or a drawing."""
        pairs = _clean_pairs(spans)
        if self._console is None:
            self.stream.write("".join(text for text, _ in pairs).rstrip() + "\n")
            return
        from rich.text import Text

        text = Text.assemble(*pairs)
        text.rstrip()
        self._console.print(text)

    def write(self, text: str) -> None:
        """Write and flush a part of a line, or several lines; other control characters are made visible."""
        self.stream.write("\n".join(clean(line) for line in text.split("\n")))
        self.stream.flush()

    def lines(self, text: str) -> None:
        for line in text.split("\n"):
            self.uncut_line(line)

    def wrap(self, *spans: Span, hang: int, least: int = 0) -> None:
        """Text broken between words if a terminal is too narrow, never before `least`; continuation lines are
        indented by `hang`."""
        pairs = _clean_pairs(spans)
        whole = text_of(pairs)
        cuts = _breaks(whole, self.width, hang, least) if self.terminal else [(0, len(whole))]
        for number, (start, end) in enumerate(cuts):
            self.uncut_line(" " * hang if number else "", *slice_spans(pairs, start, end))

    def notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.wrap(("note: ", "bold yellow"), note, hang=6)

    def fit(self, text: str, used: int) -> str:
        """A text cut to the rest of a terminal's line; a file or a pipe gets all of it."""
        return self.cut(text, used) if self.terminal else text

    def cut(self, text: str, used: int) -> str:
        """A text cut to the rest of a line, in a terminal or a file."""
        return text_of(self.fit_spans([text], used))

    def fit_spans(self, spans: Sequence[Span], used: int) -> list[Span]:
        """Spans cut to the rest of a line, between words."""
        pairs = _clean_pairs(spans)
        whole, room = text_of(pairs), max(20, self.width - used)
        if cells(whole) <= room:
            return [*pairs]
        end = most = _fitting_end(whole, 0, room - 1)
        while end > most // 2 and _in_word(whole[end - 1]) and _in_word(whole[end]):
            end -= 1
        return [*slice_spans(pairs, 0, end if end > most // 2 else most), "…"]

    def numbered_line(self, gutter: str, spans: Sequence[Span], *, wraps: bool = False) -> None:
        """A line of a file behind its number: cut to the terminal's width or, if it `wraps`, broken between words."""
        if wraps:
            pairs = _clean_pairs(spans)
            whole, below = text_of(pairs), f"{'│ ':>{len(gutter)}}"
            room = self.width - len(gutter) if self.terminal else len(whole)
            for start, end in _breaks(whole, room, 0, 0):
                self.uncut_line((below if start else gutter, "dim"), *slice_spans(pairs, start, end))
        else:
            self.uncut_line((gutter, "dim"), *self.fit_spans(spans, len(gutter)))

    def numbered_code(self, text: str, path: str, first: int, *, wraps: bool = False) -> None:
        """The lines of a file from the one numbered `first`; without numbers if that is 0."""
        digits = max(LINE_DIGITS, len(str(first + text.count("\n"))))
        for number, spans in enumerate(self.code(text, path), first):
            self.numbered_line(f"{number if first else '':>{digits + 1}} │ ", spans, wraps=wraps)

    def code(self, text: str, path: str) -> list[list[Span]]:
        """The lines of a file's text, with its language's colours if there are any to show."""
        if self._console is None:
            return [[line] for line in split_lines(text)]
        from rich.syntax import Syntax

        shown = text.replace("\t", _CONTROLS[ord("\t")])
        coloured = Syntax("", Syntax.guess_lexer(path, shown), theme="ansi_dark").highlight(shown)
        lines = coloured.split("\n", allow_blank=True)[: len(split_lines(text))]
        return [[(part.text, str(part.style or "")) for part in line.render(self._console)] for line in lines]

    def table(self, rows: Sequence[Sequence[Span]], *, title: str = "", indent: int = 2, empty: str = "") -> None:
        """Columns as wide as their widest cell; the last one is wrapped below its own start in a terminal. Without
        rows there is no title, but `empty` instead."""
        if rows and title:
            self.line((title, "bold"))
        if not rows and empty:
            self.line(empty)
        texts = [[text for text, _ in _clean_pairs(row)] for row in rows]
        widths = [max(map(cells, column)) for column in zip(*texts, strict=True)] if rows else []
        last = indent + sum(width + 2 for width in widths[:-1])
        for row, shown in zip(rows, texts, strict=True):
            spans: list[Span] = [" " * indent]
            for cell, text, width in zip(row, shown, widths, strict=True):
                spans += [cell, " " * (width - cells(text) + 2)]
            room = self.width - last
            longest = max(map(cells, shown[-1].split()), default=0)
            whole = not room < longest <= self.width - indent - 4
            if self.terminal and (room < LEAST_COLUMN or not whole) and cells(text_of(spans).rstrip()) > self.width:
                self.wrap(*spans[:-2], hang=indent + 4)  # the last cell goes below the others
                if shown[-1]:
                    self.wrap(" " * (indent + 4), row[-1], hang=indent + 4)
            else:
                self.wrap(*spans[:-1], hang=last, least=len(clean(text_of(spans[:-2]))))


def _breaks(text: str, width: int, hang: int, least: int) -> list[tuple[int, int]]:
    """Where each line of a text begins and ends; a word longer than a line stays whole."""
    text = text.rstrip()
    lines: list[tuple[int, int]] = []
    start, room, least = 0, width, max(least, len(text) - len(text.lstrip()))
    while (reach := _fitting_end(text, start, room)) < len(text):
        end = text.rfind(" ", max(start, least) + 1, reach + 1)
        if cells(text[reach]) == 2 and reach > max(start, least):  # wide letters have no spaces between words
            end = reach
        elif text.startswith("%", end + 1):  # it belongs to its number
            end = text.rfind(" ", max(start, least) + 1, end)
        if end < 0:
            end = text.find(" ", max(reach, least))
        if end < 0:
            break
        lines.append((start, end))
        start = len(text) - len(text[end:].lstrip(" "))
        room, least = max(LEAST_COLUMN, width - hang), 0
    return [*lines, (start, len(text))]


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def pairs_of(spans: Iterable[Span]) -> list[tuple[str, str]]:
    return [(span, "") if isinstance(span, str) else span for span in spans]


def _clean_pairs(spans: Iterable[Span]) -> list[tuple[str, str]]:
    return [(clean(text), style) for text, style in pairs_of(spans)]


def text_of(spans: Iterable[Span]) -> str:
    return "".join(text for text, _ in pairs_of(spans))


def slice_spans(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans, cut to the characters from `start` to `end` of their whole text."""
    parts: list[Span] = []
    at = 0
    for text, style in pairs_of(spans):
        if part := text[max(0, start - at) : max(0, end - at)]:
            parts.append((part, style))
        at += len(text)
    return parts


# --- progress ------------------------------------------------------------------------------------------------------

PATIENCE_S = 0.4  # quicker work shows nothing: no flicker, and no import of rich for a search
REDRAW_S = 0.1
BAR = 24  # characters


@contextmanager
def show_progress(stream: TextIO) -> Iterator[ProgressLine | None]:
    """A sink that draws on `stream` while the block runs, or None if nobody is watching."""
    if not stream.isatty():
        yield None
        return
    line = ProgressLine(stream)
    try:
        yield line
    finally:
        line.stop()


class ProgressLine:
    """One line that the caller redraws: without a thread, so that worker processes can be forked safely."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._due = time.monotonic() + PATIENCE_S
        self._live: Live | None = None

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + REDRAW_S
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self._stream, highlight=False), auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(progress_text(progress), refresh=True)

    def stop(self) -> None:
        """Remove the line before something else is written; later progress draws it again."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._due = time.monotonic() + PATIENCE_S


def progress_text(progress: Progress) -> str:
    """`index ━━━━╌╌╌╌ 120/480 files, 310/s, 3 skipped`."""
    if not progress.total and not progress.done:
        named = {"walk": "looking for files", "wait": "waiting for another work tree to be indexed"}
        return named.get(progress.phase, progress.phase)
    shown = f"{progress.phase:<6} "
    if progress.total:
        full = min(BAR, BAR * progress.done // progress.total)
        shown += "━" * full + "╌" * (BAR - full) + " "
    of_total = f"/{progress.total}" if progress.total else ""
    rate = f", {progress.rate:.0f}/s" if progress.rate else ""
    skipped = f", {progress.skipped} skipped" if progress.skipped else ""
    return f"{shown}{progress.done}{of_total} files{rate}{skipped}"


# --- errors --------------------------------------------------------------------------------------------------------


def is_unicode(stream: TextIO) -> bool:
    """Whether every character can be written to a stream; a stream in memory accepts them all."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"


def report_error(error: Exception, *, as_json: bool = False, debug: bool = False) -> int:
    """Write what happened and what to do next to stderr. Returns the exit code, even if stderr is closed."""
    failure = environment_error(error)
    if failure is None and isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        failure = UsageError("an argument is not UTF-8 text", "Write it in UTF-8.")  # its undecodable bytes
    if failure is None:
        step = "This is a bug in CodeInfo; --debug shows the details."
        failure = CodeInfoError(f"{type(error).__name__}: {error}", step)
    with suppress(OSError):
        if debug:
            import traceback

            traceback.print_exception(error)
        if as_json:
            reported = error_json(failure.code, failure.what, failure.next_step)
            print(dumps(reported, ascii_only=not is_unicode(sys.stderr)), file=sys.stderr)
        else:
            plain = False if refuses_colour() else None
            click.secho("error: ", fg="red", bold=True, nl=False, err=True, color=plain)
            click.echo(clean(failure.what), err=True)
            if failure.next_step:
                click.echo(f"  {clean(failure.next_step)}", err=True)
    return failure.exit_code
