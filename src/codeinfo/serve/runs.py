"""The state shared by all routes: the engine, recent log lines, the queue of folders to index, and answers in
progress. Each answer has its own thread and records its events, so that its page can be reloaded, opened twice or
closed."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.answers.write import title_of
from codeinfo.cache import Cache
from codeinfo.engine import Engine
from codeinfo.errors import Busy, CodeInfoError, NotFound
from codeinfo.files import resolve_root
from codeinfo.model import dumps, iso_time, json_decoder
from codeinfo.operations.answers import AgentRunRequest, Answer, AskRequest, ConversationIdsRequest
from codeinfo.operations.base import Progress
from codeinfo.operations.clients import SHOWN, IngestRun, IngestStatus
from codeinfo.operations.documents import AnyQuestion
from codeinfo.operations.search import ClearReport, ClearRequest, IndexReport, IndexRequest
from codeinfo.serve.dispatch import Call, Dispatcher, Projects, fault
from codeinfo.serve.team import hide_setup
from codeinfo.store.user_data import IngestStore
from codeinfo.team.access import request_user

if TYPE_CHECKING:
    from codeinfo.team.user_data import SharedAnswers

MOST_RUNNING = 8
RUNS_REMEMBERED = 100  # runs whose events can still be read
FOLLOW_S = 0.03  # between two looks at a run of this server: text appears as it is written
PUBLISH_S = 0.15  # between two checks of a run's events, on the server that performs it and on those that follow
SIGN_OF_LIFE_S = 2.0
_GIVE_UP_S = 60.0  # on a database that is down when an answer is finished; the conversation has the answer
_CLOSE_S = 5.0

log = logging.getLogger(__name__)


class RunEvent(Struct, frozen=True):
    """`kind` is step, token, answer (the whole answer, at its end), stopped, error or done: the last one of a run."""

    kind: str
    data: dict[str, Any]


class AnswerRun(Struct):
    """`owner` is the user whose run it is; nobody else gets it."""

    id: str
    conversation: str
    agent: str
    owner: int = 0
    events: list[RunEvent] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    error: CodeInfoError | None = None
    call: Call = field(default_factory=Call)
    ended: threading.Event = field(default_factory=threading.Event)  # set after the last event

    @property
    def finished(self) -> bool:
        return self.ended.is_set()

    @property
    def stopped(self) -> bool:
        return any(event.kind == "stopped" for event in list(self.events))

    def emit(self, kind: str, **data: Any) -> None:
        self.events.append(RunEvent(kind, data))

    @property
    def text(self) -> str:
        return "".join(event.data["text"] for event in list(self.events) if event.kind == "token")

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, RunEvent]]:
        """Every event from number `after` on, past ones at once, until the run ends."""
        while True:
            finished = self.finished
            while after < len(self.events):
                yield after, self.events[after]
                after += 1
            if finished:
                return
            await asyncio.sleep(FOLLOW_S)


class Runs:
    """The runs of this server; in a team also those of the other servers, followed through the database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._runs: dict[str, AnswerRun] = {}
        self._followed: Cache[str, AnswerRun] = Cache(RUNS_REMEMBERED, lambda _: 1)
        self._publishing: list[threading.Thread] = []

    def close(self) -> None:
        running = [run for run in self._runs.values() if not run.finished]
        for run in running:
            run.call.cancel()
        for run in running:
            run.ended.wait(_CLOSE_S)
        for thread in self._publishing:
            thread.join(_CLOSE_S)

    @property
    def busy(self) -> bool:
        return any(not run.finished for run in list(self._runs.values()))

    def start(self, request: AnyQuestion) -> AnswerRun:
        paths = request.paths if isinstance(request, AskRequest) else ()
        if isinstance(request, AgentRunRequest):
            question, agent, paths = request.instruction or request.command, request.agent, (request.working_folder,)
        else:
            question, agent = request.question, ""
        owner = self._engine.conversations.owner
        run = AnswerRun(secrets.token_hex(8), request.conversation, agent, owner)
        with self._lock:
            owners = [other.owner for other in self._runs.values() if not other.finished]
            running = owners.count(owner) if request_user() is not None else 0
            if MOST_RUNNING - len(owners) < max(running, 1):  # whoever has more than there are free places waits
                what = f"{running or MOST_RUNNING} answers are already being written"
                raise Busy(what, "Stop one, or wait", code="OVERLOADED")
            self._runs[run.id] = run
            finished = [other.id for other in self._runs.values() if other.finished]
            for identity in finished[: max(0, len(self._runs) - RUNS_REMEMBERED)]:
                del self._runs[identity]
        try:
            if not request.conversation:  # created first, so that the page has an address to return to
                run.conversation = self._engine.conversations.create(
                    title=title_of(question), provider="", model="", source="REST", agent_name=agent, paths=paths
                )
                request = replace(request, conversation=run.conversation)
            self._share(run, question)
            work = partial(copy_context().run, self._perform, run, request)  # on behalf of the caller
            threading.Thread(target=work, name="codeinfo answer", daemon=True).start()
        except BaseException:
            with self._lock:
                del self._runs[run.id]  # or its place would be taken for good
            raise
        return run

    def get(self, identity: str) -> AnswerRun:
        run = self._runs.get(identity) or self._follow(identity=identity)
        if run is None or run.owner != self._engine.conversations.owner:
            raise NotFound(f"there is no run {identity!r}", "Open the conversation instead")
        return run

    def of_conversation(self, identity: str) -> AnswerRun | None:
        """The run in progress in a conversation."""
        if not identity:
            return None
        runs = reversed(list(self._runs.values()))  # others may begin meanwhile
        running = (run for run in runs if not run.finished and run.conversation == identity)
        return next(running, None) or self._follow(conversation=identity)

    # --- runs that all servers of a team see ---

    def _share(self, run: AnswerRun, question: str) -> None:
        shared = self._engine.answers.shared
        if shared is None:
            return
        shared.begin(run.owner, run.id, question, run.conversation, run.agent)
        thread = threading.Thread(target=self._publish, args=(shared, run), name="codeinfo publish", daemon=True)
        self._publishing = [publisher for publisher in self._publishing if publisher.is_alive()] + [thread]
        thread.start()

    def _publish(self, shared: SharedAnswers, run: AnswerRun) -> None:
        """Write new events to the database a few times a second, and a heartbeat if there are none."""
        sent, beat = 0, time.monotonic()
        while True:
            run.ended.wait(PUBLISH_S)
            new = [(event.kind, dumps(event.data)) for event in run.events[sent:]]
            ended = bool(new) and new[-1][0] == "done"  # the answers are complete before it
            if not new and time.monotonic() - beat < SIGN_OF_LIFE_S:
                continue
            try:
                result = msgspec.json.encode(run.answers, enc_hook=str).decode() if ended else ""
                if shared.publish(run.owner, run.id, sent, new, result):
                    run.call.cancel()
            except CodeInfoError as error:
                log.warning("the events of an answer wait: %s", error)
                if ended and time.monotonic() - beat > _GIVE_UP_S:
                    return
                time.sleep(PUBLISH_S)
                continue
            sent, beat = sent + len(new), time.monotonic()
            if ended:
                return

    def _follow(self, *, identity: str = "", conversation: str = "") -> AnswerRun | None:
        """A local copy of a run on another server, updated until it ends."""
        shared, owner = self._engine.answers.shared, self._engine.conversations.owner
        if shared is None:
            return None
        shared_run = shared.find(owner, identity=identity, conversation=conversation)
        if shared_run is None or (shared_run.gone and not shared_run.finished and conversation):
            return None
        with self._lock:
            run = self._followed.get(shared_run.id)
            if run is None:
                run = AnswerRun(shared_run.id, shared_run.conversation, shared_run.agent, owner)
                run.call = Call(partial(shared.stop, owner, run.id))
                self._followed.add(shared_run.id, run)
                work = partial(self._copy_events, shared, run)
                threading.Thread(target=work, name="codeinfo follow", daemon=True).start()
            return run

    def _copy_events(self, shared: SharedAnswers, run: AnswerRun) -> None:
        while True:
            try:
                events = shared.events(run.owner, run.id, len(run.events))
                shared_run = shared.find(run.owner, identity=run.id)  # read later: the last event comes with the result
            except CodeInfoError as error:
                log.warning("the events of an answer are late: %s", error)
                time.sleep(PUBLISH_S)
                continue
            for kind, data in events:
                self._copy_event(run, kind, json.loads(data), shared_run.result if shared_run is not None else "")
            if run.finished:
                return
            if shared_run is None or (shared_run.gone and not shared_run.finished):
                what = "the server that wrote this answer has ended"
                self._record_error(run, CodeInfoError(what, "Ask again; the conversation has what was written"))
                self._copy_event(run, "done", {"runId": run.id, "conversationId": run.conversation}, "")
                return
            time.sleep(PUBLISH_S)

    def _copy_event(self, run: AnswerRun, kind: str, data: dict[str, Any], result: str) -> None:
        if kind == "done":
            run.answers += json_decoder(list[Answer]).decode(result) if result else []
            run.conversation = data["conversationId"]
        elif kind == "error":
            run.error = run.error or CodeInfoError(data["message"], data["next"], code=data["code"])
        run.emit(kind, **data)
        if kind == "done":
            run.ended.set()

    def _perform(self, run: AnswerRun, request: AnyQuestion) -> None:
        try:
            run.answers += self._write_answer(run, request)
        except KeyboardInterrupt:
            run.emit("stopped")
        except Exception as error:
            self._record_error(run, fault(error, "the log"))
        finally:
            try:
                self._drop_if_empty(run)
            except Exception as error:  # whatever it is, the run has to end
                log.warning("an empty conversation stays: %s", error)
            run.emit("done", runId=run.id, conversationId=run.conversation)
            run.ended.set()

    def _drop_if_empty(self, run: AnswerRun) -> None:
        """Delete a conversation that stayed empty because no model could be reached."""
        store = self._engine.conversations
        if run.error is not None and run.conversation and not store.turns(run.conversation):
            store.delete(ConversationIdsRequest((run.conversation,)))
            run.conversation = ""

    def _record_error(self, run: AnswerRun, error: CodeInfoError) -> None:
        run.error = error = hide_setup(error)
        run.emit("error", code=error.code, message=error.what, next=error.next_step)

    def _write_answer(self, run: AnswerRun, request: AnyQuestion) -> tuple[Answer, ...]:
        def show(text: str) -> None:
            run.call.check()
            run.emit("token", text=text)

        def show_step(stage: str, detail: str) -> None:
            run.call.check()
            run.emit("step", stage=stage, detail=detail)

        return self._engine.answers.answer(request, replace(run.call.listener("REST"), text=show, step=show_step))


# --- what all routes share -------------------------------------------------------------------------------------------

LOG_LINES = 1000
MOST_FOLDERS = 500  # listed at once


class LogLines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[dict[str, str]] = deque(maxlen=LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        place = {"time": iso_time(record.created), "level": record.levelname, "logger": record.name}
        self.lines.append({**place, "message": message})

    def since(self, level: str, limit: int) -> list[dict[str, str]]:
        """The lines of this level or above, the latest first."""
        order = logging.getLevelNamesMapping()
        return [line for line in reversed(self.lines) if order.get(line["level"], 0) >= order[level]][:limit]


class State(Struct):
    """Projects may be added below the `allowed` folders; `late_s` is the event loop's delay, as measured last."""

    engine: Engine
    dispatcher: Dispatcher
    ingest: IndexQueue
    runs: Runs
    logs: LogLines
    allowed: tuple[Path, ...]
    late_s: float = 0.0
    queue_text: str = ""  # the queue for those who listen, as of `queue_read`
    queue_read: float = float("-inf")
    draining: bool = False  # about to end: endless streams are closed, so that clients move to another server

    @property
    def projects(self) -> Projects:
        return self.dispatcher.projects

    def addable_folder(self, path: str) -> Path:
        """A folder that may become a project: links resolved, below an allowed one. About any other place nothing is
        said, not even whether it exists: who asks need not be its owner."""
        try:
            folder = Path(path).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            raise NotFound(f"there is no folder {path!r}", "Choose an existing one") from None
        if not self._allows(folder):
            step = f"Allowed: {', '.join(map(str, self.allowed))}. Start the server with `--allow DIR` to add another"
            raise CodeInfoError(f"{path} is not below an allowed folder", step, code="FOLDER_REFUSED")
        if not folder.is_dir():
            raise NotFound(f"there is no folder {path!r}", "Choose an existing one")
        return folder

    def add_project(self, path: str, *, full: bool) -> IngestRun:
        """The repository around a folder, unless that reaches beyond what is allowed: then the folder alone."""
        folder = self.addable_folder(path)
        project = Path(self.engine.indexes.locate(folder))
        return self.ingest.add(resolve_root(project if self._allows(project) else folder), full=full)

    def refresh_project(self, name: str, *, full: bool) -> IngestRun:
        return self.ingest.add(self.projects.root_of(name), full=full)

    def remove_project(self, name: str) -> ClearReport:
        root = self.projects.root_of(name)
        if self.ingest.is_busy(root):
            raise Busy(f"{root} is being indexed", "Cancel that first")
        cleared = self.engine.clear(ClearRequest((root,)))
        self.projects.forget()
        return cleared

    def folders_below(self, path: str) -> dict[str, Any]:
        """The folders in one folder; the allowed ones themselves if none is named. Hidden ones are left out."""
        if not path:
            dirs = [{"name": str(root), "path": str(root)} for root in self.allowed]
            return {"path": "", "parent": None, "dirs": dirs}
        folder = self.addable_folder(path)
        try:
            inside = sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith("."))
        except OSError as error:
            raise NotFound(f"{folder} cannot be read: {error.strerror}", "Choose another folder") from error
        parent = str(folder.parent) if self._allows(folder.parent) else None
        dirs = [{"name": place.name, "path": str(place)} for place in inside[:MOST_FOLDERS]]
        return {"path": str(folder), "parent": parent, "dirs": dirs}

    def _allows(self, folder: Path) -> bool:
        return any(folder.is_relative_to(root) for root in self.allowed)


# --- indexing on request -------------------------------------------------------------------------------------------

MOST_WAITING = 64
FINISHED_SHOWN = 20
_LOOK_S = 1.0  # between checks of a queue that another process may have added to
_RUN_END_S = 10.0  # a stopped run ends after the current file


class IndexQueue:
    """Folders to index one by one: the durable queue of one data folder, and the thread that works on it.

    One process works on the queue at a time (a lock decides); others may add to it and read it. What a dead process
    left running is run again: indexing resumes where it stopped. A team's server has no queue: workers index its
    projects.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = IngestStore(engine.config.paths.data_dir)
        self._wake = threading.Event()
        self._closing = False
        self._current = ""
        self._progress: Progress | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._work, name="codeinfo ingest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """The current run stops and stays in the queue for the next process."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_RUN_END_S)
        self._store.close()

    def add(self, root: str, *, full: bool = False) -> IngestRun:
        identity = self._store.add(root, full=full, most=MOST_WAITING)
        if identity is None:
            raise Busy(f"{MOST_WAITING} folders are already waiting to be indexed", "Try again when some are done")
        self._wake.set()
        return self.run(identity)

    def cancel(self, identity: str) -> IngestRun:
        if not self._store.cancel_waiting(identity) and identity == self._current:
            self._cancelled = True
        return self.run(identity)

    def run(self, identity: str) -> IngestRun:
        ingest_run = self._store.get(identity)
        if ingest_run is None:
            raise NotFound(f"there is no run {identity!r}", "See the list of runs")
        places = [waiting.id for waiting in self._store.waiting_runs()]
        return self._with_position(ingest_run, places.index(identity) + 1 if identity in places else 0)

    def status(self) -> IngestStatus:
        waiting = [self._with_position(run, place) for place, run in enumerate(self._store.waiting_runs(), 1)]
        return IngestStatus(tuple(waiting), tuple(self._store.finished_runs(FINISHED_SHOWN)))

    def is_busy(self, root: str) -> bool:
        return any(run.root == root for run in self._store.waiting_runs())

    def _with_position(self, run: IngestRun, position: int) -> IngestRun:
        return replace(run, position=position, progress=self._progress if run.id == self._current else None)

    def _work(self) -> None:
        """Work on the queue once this process holds its lock."""
        while not self._closing:
            try:
                with self._store.worker() as is_worker:
                    if is_worker:
                        self._store.resume()
                        self._work_through()
            except CodeInfoError:
                log.exception("the queue cannot be used any more")
                return
            self._wait()

    def _work_through(self) -> None:
        while not self._closing:
            run = self._store.take()
            if run is None:
                self._wait()
            else:
                self._perform(run)

    def _wait(self) -> None:
        self._wake.wait(_LOOK_S)
        self._wake.clear()

    def _perform(self, run: IngestRun) -> None:
        self._cancelled, self._progress, self._current = False, Progress("walk", 0), run.id
        try:
            self._engine.indexes.of(run.root)  # the folder as it was added, not the repository around it
            (report,) = self._engine.index(IndexRequest((run.root,), run.full), self._report).reports
            self._store.finish(run.id, "done", outcome=_describe_outcome(report))
        except KeyboardInterrupt:
            if not self._closing:  # otherwise it stays marked as running, and the next process runs it again
                self._store.finish(run.id, "cancelled")
        except Exception as error:  # a fault in one folder must not stop the queue
            failed = fault(error, "the log")
            self._store.finish(run.id, "failed", error=str(failed), error_code=failed.code)
        finally:
            self._current, self._progress = "", None

    def _report(self, progress: Progress) -> None:
        if self._cancelled or self._closing:
            raise KeyboardInterrupt
        self._progress = progress


def _describe_outcome(report: IndexReport) -> dict[str, Any]:
    names = ("files", "chunks", "added", "changed", "removed", "took_ms", "notes")
    same = {name: getattr(report, name) for name in names}
    notable = sorted(report.skipped, key=lambda skip: not skip.matters)
    return {**same, "skipped": notable[:SHOWN], "skipped_total": len(report.skipped)}
