"""Progress of long work on stderr: phase, files done and in all, rate, skipped; nothing when it is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from codeinfo.operations.base import Progress

if TYPE_CHECKING:
    from rich.live import Live

PATIENCE_S = 0.4  # quicker work shows nothing: no flicker, and a search does not pay for importing rich
REDRAW_S = 0.1
BAR = 24  # characters


@contextmanager
def shown(stream: TextIO) -> Iterator[Drawing | None]:
    """A sink that draws on `stream` while the block runs, or None when no one is watching."""
    if not stream.isatty():
        yield None
        return
    drawing = Drawing(stream)
    try:
        yield drawing
    finally:
        drawing.stop()


class Drawing:
    """One line that is drawn again by its caller: no thread, so that worker processes can be forked safely."""

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
        self._live.update(line(progress), refresh=True)

    def stop(self) -> None:
        """Take the line away, before something else is written; what comes later is drawn again."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._due = time.monotonic() + PATIENCE_S


def line(progress: Progress) -> str:
    """`index ━━━━╌╌╌╌ 120/480 files, 310/s, 3 skipped`."""
    if not progress.total and not progress.done:
        return "looking for files" if progress.phase == "walk" else progress.phase
    parts = [f"{progress.phase:<6}"]
    if progress.total:
        full = min(BAR, BAR * progress.done // progress.total)
        parts.append("━" * full + "╌" * (BAR - full))
        count = f"{progress.done}/{progress.total} files"
    else:
        count = f"{progress.done} files"
    rate = f", {progress.rate:.0f}/s" if progress.rate else ""
    skipped = f", {progress.skipped} skipped" if progress.skipped else ""
    return " ".join(parts) + f" {count}{rate}{skipped}"
