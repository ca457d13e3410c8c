"""What human output is written on: plain text, or styled by rich when it goes to a terminal.

Text from repositories is hostile until cleaned: control characters could move the cursor, retitle the window or forge
lines, so they are shown as symbols instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Span = str | tuple[str, str]  # text, or text with a style's name
PLAIN_WIDTH = 160  # no terminal, no limit to obey: long enough for code, short enough for logs
LEAST_COLUMN = 24  # characters: a text in a narrower column is harder to read than one that the terminal breaks

# C0 and C1 controls, and the bidirectional overrides that can make code read differently from what it is.
_CONTROLS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"}
_CONTROLS |= dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
_CONTROLS[ord("\t")] = "    "


def clean(text: str) -> str:
    """One line of untrusted text, safe to print."""
    return text.encode("utf-8", "replace").decode().translate(_CONTROLS)


def near_path(full: str) -> str:
    """A path as one would type it here, so that terminals and editors can open it, unless that is longer."""
    try:
        near = os.path.relpath(full)
    except OSError:  # the current folder was removed
        return full
    return full if near.startswith(os.path.join("..", "..")) else near


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `12 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


class Paper:
    def __init__(self, stream: TextIO, *, colour: bool = True) -> None:
        self._stream = stream
        self.terminal = stream.isatty()
        self.width = shutil.get_terminal_size().columns if self.terminal else PLAIN_WIDTH
        self._console: Console | None = None
        if self.terminal and colour:
            from rich.console import Console

            self._console = Console(file=stream, highlight=False, soft_wrap=True)

    def line(self, *spans: Span) -> None:
        """One line; every span is cleaned."""
        pairs = [(clean(span), "") if isinstance(span, str) else (clean(span[0]), span[1]) for span in spans]
        if self._console is None:
            self._stream.write("".join(text for text, _ in pairs).rstrip() + "\n")
            return
        from rich.text import Text

        text = Text.assemble(*pairs)
        text.rstrip()
        self._console.print(text)

    def wrapped(self, *spans: Span, hang: int, least: int = 0) -> None:
        """Text broken between words where a terminal is too narrow, never before `least`; the lines after the first are
        moved in by `hang`. For what is read: what is copied, as code or a picture, goes by `line`."""
        whole = "".join(span if isinstance(span, str) else span[0] for span in spans)
        cuts = _breaks(whole, self.width, hang, least) if self.terminal else [(0, len(whole))]
        for number, (start, end) in enumerate(cuts):
            self.line(" " * hang if number else "", *_between(spans, start, end))

    def fitted(self, text: str, used: int) -> str:
        """A text cut to the room that is left in a line of a terminal; a file or a pipe gets all of it."""
        return self.cut(text, used) if self.terminal else text

    def cut(self, text: str, used: int) -> str:
        """A text cut to the room that is left in a line, here or in a file."""
        text = text.replace("\t", _CONTROLS[ord("\t")])
        room = max(20, self.width - used)
        return text if len(text) <= room else text[: room - 1] + "…"

    def table(self, rows: Sequence[Sequence[Span]], *, indent: int = 2) -> None:
        """Columns as wide as their widest cell; the last one runs free, in a terminal below its own beginning."""
        texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)] if rows else []
        last = indent + sum(width + 2 for width in widths[:-1])
        for row, cells in zip(rows, texts, strict=True):
            spans: list[Span] = [" " * indent]
            for cell, text, width in zip(row, cells, widths, strict=True):
                spans += [cell, " " * (width - len(text) + 2)]
            hang = last if self.width - last >= LEAST_COLUMN else indent + 4
            self.wrapped(*spans[:-1], hang=hang, least=last)


def _breaks(text: str, width: int, hang: int, least: int) -> list[tuple[int, int]]:
    """Where each line of a text begins and ends; a word that is longer than a line stays whole."""
    text = text.rstrip()
    found: list[tuple[int, int]] = []
    start, room = 0, width
    while len(text) - start > room:
        end = text.rfind(" ", max(start, least) + 1, start + room + 1)
        if text.startswith("%", end + 1):  # it belongs to its number
            end = text.rfind(" ", max(start, least) + 1, end)
        if end < 0:
            end = text.find(" ", max(start + room, least))
        if end < 0:
            break
        found.append((start, end))
        start, room, least = end + 1, max(LEAST_COLUMN, width - hang), 0
    return [*found, (start, len(text))]


def _between(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans, cut to the characters from `start` to `end` of their whole text."""
    found: list[Span] = []
    at = 0
    for span in spans:
        text, style = (span, "") if isinstance(span, str) else span
        if part := text[max(0, start - at) : max(0, end - at)]:
            found.append((part, style))
        at += len(text)
    return found
