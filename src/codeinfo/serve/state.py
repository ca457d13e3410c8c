"""What all routes of the HTTP server share: the dispatcher, the queue, answers being written, recent log lines."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from codeinfo.errors import Busy, CodeInfoError, NotFound, UsageError
from codeinfo.operations.clients import IngestRun
from codeinfo.operations.search import ClearReport, ClearRequest
from codeinfo.serve.dispatch import Call, Dispatcher, Projects
from codeinfo.serve.runs import Bell, Runs
from codeinfo.sources.walk import check_root

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.serve.index_queue import IndexQueue

LOG_LINES = 1000
MOST_FOLDERS = 500  # listed at once
Done = TypeVar("Done")


class LogLines(logging.Handler):
    """The latest lines of the log, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[dict[str, str]] = deque(maxlen=LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        self.lines.append({"time": when, "level": record.levelname, "logger": record.name, "message": message})

    def since(self, level: str, limit: int) -> list[dict[str, str]]:
        """At least that serious, the latest first."""
        order = logging.getLevelNamesMapping()
        return [line for line in reversed(self.lines) if order.get(line["level"], 0) >= order[level]][:limit]


class State(Struct):
    """`allowed` are the folders below which projects may be added; `late_s` says how late the event loop is."""

    engine: Engine
    dispatcher: Dispatcher
    ingest: IndexQueue
    runs: Runs
    logs: LogLines
    allowed: tuple[Path, ...]
    queue_bell: Bell
    late_s: Callable[[], float] = lambda: 0.0

    @property
    def projects(self) -> Projects:
        return self.dispatcher.projects

    def root_of(self, name: str) -> str:
        return self.projects.root_of(name)

    async def run(self, work: Callable[[Call], Done], *, reserved: bool = False) -> Done:
        return await self.dispatcher.run(work, reserved=reserved)

    # --- projects ---

    def addable(self, given: str) -> Path:
        """A folder that may become a project: links resolved, below an allowed one."""
        try:
            folder = Path(given).expanduser().resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise NotFound(f"there is no folder {given!r}", next_step="Choose an existing one") from None
        if not any(folder.is_relative_to(root) for root in self.allowed):
            shown = ", ".join(map(str, self.allowed))
            raise CodeInfoError(
                f"{folder} is not below an allowed folder", next_step=f"Allowed: {shown}", code="FOLDER_REFUSED"
            )
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder", next_step="Choose a folder")
        return folder

    def add_project(self, given: str, *, full: bool) -> IngestRun:
        return self.ingest.add(check_root(self.addable(given)), full=full)

    def refresh_project(self, name: str, *, full: bool) -> IngestRun:
        return self.ingest.add(Path(self.root_of(name)), full=full)

    def remove_project(self, name: str) -> ClearReport:
        root = self.root_of(name)
        if self.ingest.is_busy(Path(root)):
            raise Busy(f"{root} is being indexed", next_step="Cancel that first")
        cleared = self.engine.clear(ClearRequest((root,)))
        self.projects.forget()
        return cleared

    def folders_below(self, given: str) -> dict[str, Any]:
        """The folders in one folder; the allowed ones themselves where none is named. Hidden ones are left out."""
        if not given:
            return {"path": "", "parent": None, "dirs": [{"name": str(one), "path": str(one)} for one in self.allowed]}
        folder = self.addable(given)
        try:
            entries = sorted(one.name for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
        except OSError as error:
            raise NotFound(f"{folder} cannot be read: {error.strerror}", next_step="Choose another folder") from error
        inside = any(folder.parent.is_relative_to(root) for root in self.allowed)
        return {
            "path": str(folder),
            "parent": str(folder.parent) if inside else None,
            "dirs": [{"name": name, "path": str(folder / name)} for name in entries[:MOST_FOLDERS]],
        }
