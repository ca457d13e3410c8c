"""How servers answer calls: check the arguments, resolve the project, run in a bounded thread with progress and
cancellation, map errors. MCP and HTTP both use it; result schemas come from msgspec."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.cache import start_timer
from codeinfo.errors import Busy, CodeInfoError, NotFound, UsageError, environment_error
from codeinfo.files import path_of_address
from codeinfo.model import CollectionState, Reflects, convert, json_decoder, jsonable
from codeinfo.operations.base import (
    FILE,
    MAX_TEXT_CHARS,
    PROJECT,
    PROJECTS,
    SOURCE,
    Input,
    Listener,
    Operation,
    Progress,
    field_naming,
    inputs_of,
)
from codeinfo.operations.clients import Project
from codeinfo.serve.team import check_offered, hide_setup, team_file, team_project
from codeinfo.team.access import current_user, describe_use, request_user, visible_projects

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.ports import Delta


Schema = dict[str, Any]
Values = dict[str, Any]
MOST_NAMED = 20  # projects in an error
_TYPES: dict[str, tuple[Any, str, str]] = {  # in Python, in JSON, in an error
    "str": (str, "string", "a string"),
    "int": (int, "integer", "a whole number"),
    "float": (float, "number", "a number"),
    "bool": (bool, "boolean", "true or false"),
    "tuple[str, ...]": (tuple[str, ...], "array", "a list of strings"),
    "object": (dict[str, Any], "object", "an object"),
}


# --- schemas -------------------------------------------------------------------------------------------------------


def input_schema(inputs: Iterable[Input]) -> Schema:
    inputs = tuple(item for item in inputs if not item.hidden)
    schema: Schema = {"type": "object", "properties": {item.name: property_schema(item) for item in inputs}}
    if required := [item.name for item in inputs if item.required]:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def property_schema(item: Input) -> Schema:
    described = {"description": item.help} if item.help else {}
    if item.kind == "object":
        return {**described, **input_schema(item.fields)}
    value: Schema = {"type": "string" if item.is_list else _TYPES[item.kind][1]}
    if item.choices:
        value["enum"] = list(item.choices)
    for word, bound in (("minimum", item.minimum), ("maximum", item.maximum)):
        if bound is not None:
            value[word] = bound
    if item.is_list:
        value = {"type": "array", "items": value}
    if item.default not in (None, "", ()):
        value["default"] = list(item.default) if item.is_list else item.default
    return {**described, **value}


Reflected = Values | list[Values] | None  # the state of the project or the collections that a reply is based on


def describe_sources(
    engine: Engine, operation: Operation, request: Any, result: Any, root: str | None, files: Iterable[str]
) -> Reflected:
    """The state of what a reply is based on: the project at `root`, with the changes to its `files`, or collections."""
    if operation.shows_project:
        state = engine.project_state(root, files) if root is not None else None
        return _drop_empty(state) if state else None
    return _describe_collections(engine, request, result) if operation.shows_documents else None


def _describe_collections(engine: Engine, request: Any, result: Any) -> list[Values]:
    if hasattr(result, "searches"):
        shown = [(hit.collection, hit.document) for search in result.searches for hit in search.results]
    elif hasattr(result, "citations"):
        shown = [(citation.collection, citation.path) for citation in result.citations]
    else:
        shown = [(item.collection, item.document) for item in (result, *getattr(result, "related", ()))]
    names = request.collections if hasattr(request, "collections") else (request.collection,)
    return [_drop_empty(state) for state in engine.collection_states(request.path, names, shown)]


def _drop_empty(state: Struct) -> Values:
    return {name: value for name, value in jsonable(state).items() if value not in ("", None, [])}


# Replies leave empty fields out.
_STATES = msgspec.json.schema_components([Reflects, CollectionState])[1]
REFLECTS = _STATES["Reflects"] | {"required": []}
REFLECTS_COLLECTIONS = {"type": "array", "items": _STATES["CollectionState"] | {"required": ["collection"]}}


def reflects_schema(operation: Operation) -> Schema | None:
    """The schema of `reflects` in a reply, if it has one."""
    return REFLECTS if operation.shows_project else REFLECTS_COLLECTIONS if operation.shows_documents else None


def output_schema(result: type, reflects: Schema | None = None) -> Schema:
    """The schema of a tool's reply. Clients validate every reply against it, so it says as little as possible."""
    (root,), shared = msgspec.json.schema_components([result], ref_template="#/$defs/{name}")
    schema: Schema = _prune(shared.pop(root["$ref"].rpartition("/")[2]))
    schema["properties"] |= {
        "truncated": {"type": "boolean", "description": "Whether the token budget cut something off."},
        "cursor": {"type": "string", "description": "Pass it to the same call to go on where this reply ends."},
        **({"reflects": _prune(reflects)} if reflects else {}),
    }
    return schema | ({"$defs": _prune(shared)} if shared else {})


def _prune(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_prune(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    has_title = schema.get("type") == "object" and isinstance(schema.get("title"), str)
    dropped = ("title", "default") if has_title or "default" in schema else ()
    return {key: _prune(value) for key, value in schema.items() if key not in dropped}


# --- the check -----------------------------------------------------------------------------------------------------


def check(inputs: Iterable[Input], arguments: Mapping[str, Any], *, where: str = "") -> Values:
    """The arguments in a request's types, or a UsageError about one. A query string and many models write every value
    as text: `"5"` is a number, one text a list of one, and JSON in a text the list or the object that it says."""
    inputs = tuple(inputs)
    inputs_by_name = {name: item for item in inputs for name in (item.name, *item.aliases)}
    values: Values = {}
    for name, value in arguments.items():
        item = inputs_by_name.get(name)
        if item is None:
            shown = ", ".join(item.name for item in inputs if not item.hidden)
            raise UsageError(f"unknown argument {where}{name}", f"Known: {shown or 'none'}")
        if value is not None and not (value == "" and item.choices):
            values[item.name] = _check_value(item, value, where + item.name)
    for item in inputs:
        if item.required and item.name not in values:
            raise UsageError(f"{where}{item.name} is required", item.help)
    return values


def _check_value(item: Input, value: Any, name: str) -> Any:
    kind, _, expected = _TYPES[item.kind]
    if isinstance(value, str) and (item.is_list or item.kind == "object"):
        try:
            value = json_decoder(kind).decode(value)
        except (ValueError, RecursionError):
            value = [value] if item.is_list else value
    if item.minimum is not None:
        kind = Annotated[kind, msgspec.Meta(ge=item.minimum, le=item.maximum)]
        expected += f" from {item.minimum} to {item.maximum}" if item.maximum else f" of at least {item.minimum}"
    try:
        converted = convert(value, kind, strict=False)
    except msgspec.ValidationError:
        raise UsageError(f"{name} must be {expected}", item.help) from None
    if item.kind == "object":
        return check(item.fields, converted, where=f"{name}.")
    for element in converted if item.is_list else (converted,):
        if item.choices and element not in item.choices:
            raise UsageError(f"{name} cannot be {element!r}", f"One of: {', '.join(item.choices)}")
        if isinstance(element, str):
            check_text(element, name)
    return converted


def check_text(text: str, name: str) -> str:
    """Return the text; raise UsageError if it is too long for HTTP and MCP, or has a NUL, which databases and file
    systems reject."""
    if "\0" in text:
        raise UsageError(f"{name} contains a NUL", "Send plain text")
    if len(text) > MAX_TEXT_CHARS:
        step = f"Send at most {MAX_TEXT_CHARS:,}: its most important part"
        raise UsageError(f"{name} has {len(text):,} characters", step)
    return text


# --- calls and the engine --------------------------------------------------------------------------------------------

THREADS = 8  # concurrent runs; more wait
# Concurrent searches: they compute in Python, so more threads only compete for the interpreter. With 8 threads on
# 20,000 chunks a search takes 60 ms of CPU, with one or two 18.
COMPUTING = 2
MOST_WAITING = 256
MOST_THREADS = 128  # including those of cancelled calls that have not noticed yet
PROGRESS_S = 0.2  # between two reports of progress
PROJECTS_S = 2.0  # the list of projects is reread after this long

log = logging.getLogger(__name__)
Done = TypeVar("Done")
Asked = TypeVar("Asked", bound=Struct)
Report = Callable[[float, float | None, str], Awaitable[None]]  # done, total, phase
Observe = Callable[[str, str], AbstractContextManager[None]]  # of an operation, by a kind of client


def observe_nothing(operation: str, client: str) -> AbstractContextManager[None]:
    return nullcontext()


class Call:
    """A run in a thread. Its progress raises once it is cancelled. `stop_elsewhere` ends another server's part."""

    def __init__(self, stop_elsewhere: Callable[[], object] = lambda: None) -> None:
        self.latest: Progress | None = None
        self._stop_elsewhere = stop_elsewhere
        self._cancelled = threading.Event()
        self._stream: Any = None

    def progress(self, progress: Progress) -> None:
        self.check()
        self.latest = progress

    def listener(self, source: str) -> Listener:
        """Passes on progress only: the answer is returned as a whole."""
        return Listener(source, self.progress, self.check, self.check, self.follow)

    def check(self, *_: object) -> None:
        """Also accepts the text and the steps of an answer, which it ignores."""
        if self._cancelled.is_set():
            raise KeyboardInterrupt

    def cancel(self) -> None:
        """From any thread: the next check raises, and the connection to a model that is still answering is closed."""
        self._cancelled.set()
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
        self._stop_elsewhere()

    def follow(self, stream: Iterator[Delta]) -> Iterator[Delta]:
        """The stream of a chat model, which ends with the call, even before its first word."""
        self._stream = stream
        self.check()  # after the stream is registered: a cancellation in between closes it or is seen here
        try:
            for delta in stream:
                self.check()
                yield delta
        except Exception:
            self.check()  # closing the stream made it fail
            raise
        finally:
            self._stream = None
        self.check()


Work = Callable[[Call], Done]


class EngineLease:
    """The engine of a server: made on first use and closed when unused for `idle_s`."""

    def __init__(self, make: Callable[[], Engine], idle_s: float = math.inf) -> None:
        self.threads = ThreadPoolExecutor(MOST_THREADS, "call")  # the threads that use it
        self._make = make
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._users = 0
        self._last_use = time.monotonic()

    @contextmanager
    def use(self) -> Iterator[Engine]:
        with self._lock:
            if self._engine is None:
                self._engine = self._make()
            self._users += 1
            engine = self._engine
        try:
            yield engine
        finally:
            with self._lock:
                self._users -= 1
                self._last_use = time.monotonic()

    def release_if_idle(self, idle_s: float | None = None) -> bool:
        """Free models and indexes; the next call loads them again. `idle_s` overrides the usual time."""
        with self._lock:
            limit = self._idle_s if idle_s is None else idle_s
            is_idle = not self._users and time.monotonic() - self._last_use > limit
            engine, self._engine = (self._engine, None) if is_idle else (None, self._engine)
        if engine is None:
            return False
        engine.close()
        del engine
        gc.collect()
        return True

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


class Projects(Struct):
    """Resolves project names to folders. A client that started this process (`here` is None) may name any folder;
    one that came over the network only `here` and what is already indexed."""

    _lease: EngineLease
    here: Path | None = None
    folder: str = ""  # the client's working folder, if it differs from this process's
    _known: tuple[Project, ...] = ()
    _read: float = 0.0

    def known(self) -> tuple[Project, ...]:
        is_of_caller = request_user() is not None  # each knows different ones
        if not is_of_caller and self._known and time.monotonic() - self._read <= PROJECTS_S:
            return self._known  # a first search adds one without notice
        with self._lease.use() as engine:
            projects = engine.indexes.projects().projects
        if not is_of_caller:
            self._known, self._read = projects, time.monotonic()
        return projects

    def forget(self) -> None:
        self._known = ()

    def root_of(self, name: str) -> str:
        """The root of a project by name or folder. "" is the working folder, for others `here` or the only project."""
        if request_user() is not None:
            with self._lease.use() as engine:
                return team_project(engine.team.store, name)
        if self.here is None:
            if not name:
                return self.folder
            folder = os.path.join(self.folder, os.path.expanduser(name))
            if os.path.exists(folder):
                return os.path.abspath(folder)
        elif not name or name in (".", str(self.here)):
            roots = [project.root for project in self.known()]
            return roots[0] if not name.startswith("/") and len(roots) == 1 else str(self.here)
        return self._by_name(name)

    def _by_name(self, name: str) -> str:
        for _ in range(2):
            projects = self.known()
            roots = [project.root for project in projects if name in (project.name, project.root)]
            if len(roots) == 1:
                return roots[0]
            self.forget()  # it may have been indexed since
        listed = (project for project in projects if not roots or project.root in roots)
        names = sorted(f"{project.name} ({project.root})" for project in listed)
        more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
        known = f"{', '.join(names[:MOST_NAMED])}{more}" or "none yet"
        what = f"{len(roots)} projects are called {name}" if roots else f"no project {name} is indexed"
        start = "Give a folder, or one of" if self.here is None else "Add it on the Projects page. Known"
        raise NotFound(what, f"{start}: {known}", code="REPO_NOT_FOUND")

    def place(self, request: Asked) -> Asked:
        """The request with projects by their roots and files by their paths, as far as its client may name them."""
        placed: Values = {}
        resolve = {PROJECT: self.root_of, PROJECTS: self.root_of, SOURCE: self._from_folder}
        for item in inputs_of(type(request)):
            if item.names in resolve:
                value = getattr(request, item.name)
                texts = value if item.is_list else (value,)
                texts = tuple(map(path_of_address, texts)) if item.names != SOURCE else texts
                if item.names == PROJECT and value == item.default and not getattr(request, "all_projects", False):
                    texts = ("",)
                roots = tuple(map(resolve[item.names], texts))
                if any(roots):  # otherwise it is our own working folder
                    placed[item.name] = roots if item.is_list else roots[0]
        if file := field_naming(FILE, type(request)):
            project = placed.get(field_naming(PROJECT, type(request)))
            placed[file] = self._place_file(path_of_address(getattr(request, file)), project)
        return replace(request, **placed) if placed else request

    def _place_file(self, path: str, root: str | None) -> str:
        """A file of the project at `root`, relative to it; without one, of a project that is known."""
        if self.here is None and request_user() is None:
            return path if root else self._from_folder(path)
        if root:
            return file_within(root, path)
        root = self.project_around(path)
        return f"{root}/{file_within(root, path)}"

    def _from_folder(self, path: str) -> str:
        if not self.folder or "://" in path or path.startswith("git@"):
            return path
        return os.path.join(self.folder, os.path.expanduser(path)).rstrip("/") or "/"

    def root_to_show(self, name: str) -> str:
        """The project a page shows first if none is chosen: `here` if it is indexed, otherwise another one that is,
        so that opening a page does not index a folder nobody named; "" for a user who may see none yet."""
        roots = [project.root for project in self.known()]
        if not roots and request_user() is not None:
            return ""
        return self.root_of(name) if name or str(self.here) in roots or not roots else roots[0]

    def project_around(self, path: str) -> str:
        """The project that contains an absolute path, otherwise the default one."""
        if request_user() is None:
            roots = [project.root for project in self.known()]
        else:
            path = path.removeprefix("//")
            with self._lease.use() as engine:
                roots = visible_projects(engine.team.store)
        return self.root_of(max((root for root in roots if path.startswith(f"{root}/")), key=len, default=""))


def query_of(request: Any) -> str:
    """The query of a request, whatever its field is called."""
    texts = (getattr(request, name, "") for name in ("query", "pattern", "name", "target", "question"))
    return next(filter(None, texts), "")


def named_project(request: Any) -> str | None:
    """The project that a placed request is about, "" for the client's own; None for several, or for a revision."""
    field = field_naming(PROJECT, type(request)) or field_naming(FILE, type(request))
    if not field or getattr(request, "at", None) or getattr(request, "all_projects", None):
        return None
    value = getattr(request, field)
    folders = {value} if isinstance(value, str) else set(value or ("",))
    return folders.pop() if len(folders) == 1 else None


def file_within(root: str, path: str) -> str:
    """A path relative to the root; what leads outside, by dots or links, is refused."""
    if request_user() is not None:
        return team_file(path.removeprefix(f"{root}/").removeprefix(f"{root.removeprefix('//')}/"))
    try:
        target = (Path(root) / path).resolve()
        return str(target.relative_to(Path(root).resolve())) if target != Path(root) else "."
    except (ValueError, OSError, RuntimeError):
        step = "Give a file of the project"
        raise CodeInfoError(f"{path!r} is not in the project", step, code="FOLDER_REFUSED") from None


# --- running a call --------------------------------------------------------------------------------------------------


class Limiter:
    """Limits concurrent runs, and how many may wait. In a team, who has the fewest runs goes first, whoever has more
    than there are free places waits, and no user may wait with more than half."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._running: Counter[int | None] = Counter()
        self._waiting: list[tuple[int | None, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        user, place = request_user(), asyncio.get_running_loop().create_future()
        waiting = sum(waiter == user for waiter, _ in self._waiting)
        if len(self._waiting) >= MOST_WAITING or (user is not None and waiting >= MOST_WAITING // 2):
            raise Busy("too many requests are already waiting", "Try again in a moment", code="OVERLOADED")
        self._waiting.append((user, place))
        self._admit()
        try:
            await place
            yield
        finally:
            if (user, place) in self._waiting:  # cancelled before its turn
                self._waiting.remove((user, place))
            else:
                self._free += 1
                self._running[user] -= 1
            self._admit()

    def _admit(self) -> None:
        """Give free places to those who wait."""
        while self._free and (waiting := [waiter for waiter in self._waiting if not waiter[1].done()]):
            user, place = min(waiting, key=lambda waiter: self._running[waiter[0]])
            if user is not None and self._running[user] > self._free:
                return
            self._waiting.remove((user, place))
            self._free -= 1
            self._running[user] += 1
            place.set_result(None)


class Dispatcher(Struct):
    """Runs clients' requests. `seconds` limits each run; `log_place` is where people find the trace of a fault;
    `observe` is entered for each operation."""

    lease: EngineLease
    projects: Projects
    seconds: float | None = None
    log_place: str = "the server's stderr"
    observe: Observe = observe_nothing
    _room: Limiter = field(default_factory=lambda: Limiter(THREADS))
    _computing: Limiter = field(default_factory=lambda: Limiter(COMPUTING))
    _reserved: Limiter = field(default_factory=lambda: Limiter(1))

    @contextmanager
    def begin(self, operation: Operation, request: Asked, shell: str, name: str = "") -> Iterator[tuple[Engine, Asked]]:
        """The engine and the request for it, if the current caller may use the operation. Every operation starts here:
        it is observed under its own name or the tool's, and described for the audit log."""
        check_offered(operation.name)
        describe_use(operation.name, query_of(request))
        if (caller := current_user.get()) is not None and hasattr(request, "author"):
            request = replace(request, author=caller.name)  # nobody writes in another one's name
        with self.observe(name or operation.name, shell), self.lease.use() as engine:
            yield engine, self.projects.place(request)
        if not operation.read_only:
            self.projects.forget()

    def perform(self, operation: Operation, values: Mapping[str, Any], call: Call) -> tuple[Any, Reflected]:
        """The result, and the current state of the project or collections it is based on, if any."""
        unplaced = operation.request(**values)
        if request_user() is not None and hasattr(unplaced, "all_projects") and not unplaced.paths:
            unplaced = replace(unplaced, all_projects=True)  # callers search what they can see
        with self.begin(operation, unplaced, "http") as (engine, request):
            result = operation.run(engine, request, call.listener("REST"))
            shown = (*getattr(result, "hits", ()), *getattr(result, "matches", ()))
            files = (f"{item.root}/{item.path}" for item in shown)
            return result, describe_sources(engine, operation, request, result, named_project(request), files)

    async def run(
        self, work: Work[Done], *, report: Report | None = None, computes: bool = False, reserved: bool = False
    ) -> Done:
        """Run `work` in a thread and stop it when the client cancels or disconnects. `computes` is for short work
        that waits for nothing else, `reserved` for checks of the server itself, which never wait for other work."""
        room = self._reserved if reserved else self._computing if computes else self._room
        call, loop = Call(), asyncio.get_running_loop()
        reporting = loop.create_task(_report_progress(report, call)) if report is not None else None
        try:
            async with asyncio.timeout(self.seconds), room.enter():
                threads, run = self.lease.threads, copy_context().run
                done, error = await loop.run_in_executor(threads, run, self._outcome, work, call)
        except TimeoutError:
            next_step = "Ask for less, or try again later"
            raise CodeInfoError("it took too long", next_step, code="TOOK_TOO_LONG") from None
        finally:
            call.cancel()
            if reporting is not None:
                reporting.cancel()
        if error is not None:
            try:
                raise error
            finally:
                del error  # or it and this frame would hold each other
        return done  # type: ignore[return-value]

    def _outcome(self, work: Work[Done], call: Call) -> tuple[Done | None, CodeInfoError | None]:
        """Failures as values: a thread that the loop no longer awaits must not raise into it."""
        try:
            return work(call), None
        except KeyboardInterrupt:
            failed = CodeInfoError("the call was cancelled", code="CANCELLED")
        except Exception as error:
            failed = fault(error, self.log_place)
        failed = hide_setup(failed)
        # Frames hold what they used, such as the vector files of an older index: nobody knows for how long.
        failed.__cause__ = failed.__context__ = None
        return None, failed.with_traceback(None)


def fault(error: Exception, log_place: str) -> CodeInfoError:
    """An error as a CodeInfoError; the trace of an unexpected one is logged."""
    if environment := environment_error(error):
        return environment
    log.error("unexpected error", exc_info=error)
    next_step = f"This is a bug in CodeInfo; {log_place} has the details"
    what = "an unexpected error" if request_user() is not None else f"{type(error).__name__}: {error}"
    return CodeInfoError(what, next_step)


async def _report_progress(report: Report, call: Call) -> None:
    reported = -1.0
    while True:
        await asyncio.sleep(PROGRESS_S)
        latest = call.latest
        if latest is not None and latest.done > reported:
            reported = float(latest.done)
            await report(reported, float(latest.total) if latest.total else None, latest.phase)


# --- starting and ending a server ----------------------------------------------------------------------------------

SHUTDOWN_S = 1.5  # from the signal to the exit, whatever still runs: every store survives a kill at any moment


def check_threads() -> None:
    """Raises if no thread can be started: better before a server reports that it is ready."""
    probe = threading.Thread(target=int)
    probe.start()
    probe.join()


def end_by_deadline(exit_code: int) -> None:
    """End the process after `SHUTDOWN_S` at the latest: threads cannot be interrupted. Workers end with their pipes."""
    start_timer(SHUTDOWN_S, os._exit, exit_code)
