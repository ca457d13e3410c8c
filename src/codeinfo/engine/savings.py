"""`Engine.savings`: tokens returned against reading the files that they come from. Nothing leaves this machine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from codeinfo.agent.evidence import CHARS_PER_TOKEN
from codeinfo.errors import CodeInfoError
from codeinfo.operations.clients import DaySavings, SavingsReport, SavingsRequest, ToolSavings
from codeinfo.store.savings import SavingsStore, Tally

WRITE_AFTER_S = 2.0  # counts are written together: a commit a call would cost more than the call

log = logging.getLogger(__name__)
Now = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Savings:
    def __init__(self, folder: Path, now: Now = _utc_now) -> None:
        self._store = SavingsStore(folder)
        self._now = now
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], Tally] = {}
        self._timer: threading.Timer | None = None

    def record(self, tool: str, returned_chars: int, files: Iterable[str]) -> None:
        """Count one call. `files` are those a reader would have had to open for the same."""
        size = sum(_size(path) for path in set(files))
        key = (self._now().date().isoformat(), tool)
        one = Tally(1, returned_chars // CHARS_PER_TOKEN, size // CHARS_PER_TOKEN)
        with self._lock:
            self._waiting[key] = self._waiting.get(key, Tally()).plus(one)
            if self._timer is None:
                self._timer = threading.Timer(WRITE_AFTER_S, self._write)
                self._timer.daemon = True
                self._timer.start()

    def report(self, request: SavingsRequest) -> SavingsReport:
        first = (self._now() - timedelta(days=request.days - 1)).date().isoformat()
        days: dict[str, list[ToolSavings]] = {}
        total = Tally()
        for day, tool, tally in self._store.since(first):
            days.setdefault(day, []).append(ToolSavings(tool, *tally, _saved(tally)))
            total = total.plus(tally)
        listed = tuple(DaySavings(day, tuple(tools)) for day, tools in days.items())
        return SavingsReport(listed, total.calls, total.returned, total.files, _saved(total))

    def close(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
        self._write()

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting, self._timer = self._waiting, {}, None
        if not waiting:
            return
        try:
            self._store.add(waiting)
        except CodeInfoError as error:  # a count is not worth an answer
            log.warning("savings were not counted: %s", error)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _saved(tally: Tally) -> int:
    return max(tally.files - tally.returned, 0)
