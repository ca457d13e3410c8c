"""What all routes share: the engine, threads to ask it in, the projects that may be named, recent log lines."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from msgspec import Struct, field

from codeinfo.errors import Busy, CodeInfoError, NotFound, UsageError
from codeinfo.operations.clients import Project, ProjectsRequest
from codeinfo.serve.dispatch import Call
from codeinfo.serve.runs import Bell
from codeinfo.shells.http_connections import LoopWatch

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.serve.index_queue import IndexQueue
    from codeinfo.serve.runs import Runs


THREADS = 8  # requests worked on at once
MOST_WAITING = 256  # requests that may wait for a thread
WORK_SECONDS = 120.0
LOG_LINES = 1000
PROJECTS_SECONDS = 2.0  # the list of projects is read again after this long

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
        least = logging.getLevelNamesMapping()[level]
        order = logging.getLevelNamesMapping()
        return [line for line in reversed(self.lines) if order.get(line["level"], 0) >= least][:limit]


class State(Struct):
    """`allowed` are the folders below which projects may be added."""

    engine: Engine
    ingest: IndexQueue
    runs: Runs
    logs: LogLines
    allowed: tuple[Path, ...]
    here: Path
    queue_bell: Bell
    loop_watch: LoopWatch = field(default_factory=LoopWatch)
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(THREADS))
    _own_limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _projects: tuple[float, tuple[Project, ...]] = (0.0, ())

    # --- work ---

    async def work(self, function: Callable[[Call], Done]) -> Done:
        """Run `function` in a thread, bounded in number and time."""
        if self._limiter.statistics().tasks_waiting >= MOST_WAITING:
            raise Busy("too many requests wait already", next_step="Try again in a moment", code="OVERLOADED")
        return await self._run(function, self._limiter)

    async def look(self, function: Callable[[Call], Done]) -> Done:
        """Run `function`, which looks at the server itself, in a thread that no other work waits for."""
        return await self._run(function, self._own_limiter)

    async def _run(self, function: Callable[[Call], Done], limiter: anyio.CapacityLimiter) -> Done:
        call = Call()
        with anyio.move_on_after(WORK_SECONDS) as scope:
            done, error = await anyio.to_thread.run_sync(
                _caught, function, call, abandon_on_cancel=True, limiter=limiter
            )
        if scope.cancelled_caught:
            call.cancel()
            raise CodeInfoError("it took too long", next_step="Ask for less, or try again later", code="TOOK_TOO_LONG")
        if error is not None:
            raise error
        return done  # type: ignore[return-value]

    # --- projects ---

    def projects(self) -> tuple[Project, ...]:
        read, known = self._projects
        if not known or time.monotonic() - read > PROJECTS_SECONDS:  # a first search adds one, and is not told here
            known = self.engine.projects(ProjectsRequest()).projects
            self._projects = (time.monotonic(), known)
        return known

    def forget_projects(self) -> None:
        self._projects = (0.0, ())

    def root_of(self, name: str) -> str:
        """The root of a project by name or folder; "" is the folder of the server, or the only project there is."""
        known = self.projects()
        if not name or name == ".":
            roots = [project.root for project in known]
            if str(self.here) in roots or len(roots) != 1:
                return str(self.here)
            return roots[0]
        found = [project.root for project in known if name in (project.name, project.root)]
        if name == str(self.here):
            return name
        if len(found) != 1:
            what = f"{len(found)} projects are called {name}" if found else f"no project {name} is indexed"
            names = ", ".join(sorted(f"{project.name} ({project.root})" for project in known)) or "none yet"
            raise NotFound(what, next_step=f"Add it on the Projects page. Known: {names}", code="REPO_NOT_FOUND")
        return found[0]

    def root_shown(self, name: str) -> str:
        """What a page shows at first where nothing is chosen: the folder of the server if it is indexed, else a project
        that is, so that looking at a page does not index a folder that nobody named."""
        roots = [project.root for project in self.projects()]
        return self.root_of(name) if name or str(self.here) in roots or not roots else roots[0]

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


def file_within(root: str, given: str) -> str:
    """A path relative to the root; what leads outside, by dots or by links, is refused."""
    try:
        target = (Path(root) / given).resolve()
        return str(target.relative_to(Path(root).resolve())) if target != Path(root) else "."
    except (ValueError, OSError, RuntimeError):
        raise CodeInfoError(
            f"{given!r} does not lie in the project", next_step="Name a file of the project", code="FOLDER_REFUSED"
        ) from None


def state_of(request: Request) -> State:
    found: State = request.app.state.codeinfo
    return found


async def json_body(request: Request) -> Mapping[str, Any]:
    """The body as a JSON object; its media type must say so, which no other site's form can."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UsageError("the body must be application/json", next_step="Set Content-Type", code="MEDIA_TYPE")
    try:
        value = json.loads(await request.body() or b"{}", parse_constant=_refused)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON", next_step="Send one JSON object") from None
    if not isinstance(value, dict):
        raise UsageError("the body is not a JSON object", next_step="Send one JSON object")
    _check_text(value)
    return value


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _check_text(value: object) -> None:
    """Half a surrogate pair or a NUL is no text that a file system or a database takes."""
    texts: Sequence[object] = [value]
    while texts:
        deeper: list[object] = []
        for one in texts:
            if isinstance(one, str) and ("\0" in one or any("\ud800" <= char <= "\udfff" for char in one)):
                raise UsageError("a text holds a character that cannot be used", next_step="Send plain Unicode text")
            if isinstance(one, dict):
                deeper += [*one.keys(), *one.values()]
            elif isinstance(one, list):
                deeper += one
        texts = deeper


def _caught(function: Callable[[Call], Done], call: Call) -> tuple[Done | None, BaseException | None]:
    """Failures as values: a thread that the loop no longer waits for must not raise into it."""
    try:
        return function(call), None
    except KeyboardInterrupt:
        return None, CodeInfoError("it was cancelled", code="TOOK_TOO_LONG")
    except Exception as error:
        return None, error
