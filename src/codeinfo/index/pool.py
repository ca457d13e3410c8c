"""Parsing in worker processes: nothing a file does to a parser reaches the calling process.

Messages on both pipes are a length (`HEADER` bytes) and marshalled plain values. The first request holds the settings
and is answered by `READY`. Each further one is answered by (True, the result) or (False, the reason):

    (PARSE, path, text, language, whether by syntax)
    (CONVERT, path, bytes)              a document
    (QUERIES, text, language, queries)  the lines that each of them matches
    (EXPRESSIONS, text, expressions)    the same for regular expressions, with offsets

(REST, seconds) has no answer: a worker that stays idle for so long exits by itself.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import astuple

from codeinfo.errors import CodeInfoError
from codeinfo.index.chunk import ChunkSettings
from codeinfo.languages import GRAMMARS
from codeinfo.model import Chunk, Definition, Import, NextStep, ParsedFile, to_run

HEADER = 8
READY = b"\x01"
PARSE, CONVERT, QUERIES, EXPRESSIONS, REST = "parse", "convert", "queries", "expressions", "rest"
PATIENCE = 6  # times its limit that a worker may take if the machine is busy with others
_CONVERT_TIMEOUT_S = 60.0  # a PDF of a thousand pages takes a few seconds


def time_limit_s(text: str | bytes, settings: ChunkSettings) -> float:
    """The time limit for one file; bytes are a document."""
    return _CONVERT_TIMEOUT_S if isinstance(text, bytes) else settings.parse_timeout_s


def worker_command(module: str, function: str = "main") -> list[str]:
    """The command that starts a process running a function of one of our modules."""
    # The path is appended, and -P keeps the current folder out: a repository's own modules are never imported.
    package_root = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.append({package_root!r}); from {module} import {function}; {function}()"
    return [sys.executable, "-P", "-c", code]


class PipedProcess:
    """A process in its own session and the messages to and from it; no call here waits without a limit."""

    def __init__(self, command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=cwd,
            env=env,
            start_new_session=True,  # no signals from the terminal
        )
        self.pid = self._process.pid
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        self._outgoing = bytearray()
        self._incoming = bytearray()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """The time it has computed, infinite where the system does not tell. It is asked for every file: Linux numbers
        the clock of a process so (clock_getcpuclockid), and reading /proc instead takes a hundred times as long."""
        try:
            return time.clock_gettime(~self.pid << 3 | 2)
        except OSError:
            return inf

    @property
    def has_ended(self) -> bool:
        """Asking does not reap it: until it is reaped, its process and group ids stay its own."""
        can_tell = hasattr(os, "waitid")  # on macOS only from Python 3.13; otherwise its pipes tell, when they close
        return can_tell and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def flush(self) -> bool:
        """Write what the pipe accepts; False if nobody reads any more."""
        try:
            sent = os.write(self._stdin, memoryview(self._outgoing)[: 1 << 20])
        except BlockingIOError:
            return True
        except OSError:
            return False
        del self._outgoing[:sent]
        return True

    def receive(self, deadline: float) -> Any:
        """The next message, None if it does not arrive in time; EOFError if it never will."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        while (message := self._whole_message()) is None:
            if self._outgoing:
                poll.register(self._stdin, select.POLLOUT)
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for descriptor, event in poll.poll(left * 1000):
                if descriptor == self._stdin:
                    if event & ~select.POLLOUT or not self.flush():
                        raise EOFError
                    if not self._outgoing:
                        poll.unregister(self._stdin)
                else:
                    data = os.read(self._stdout, 1 << 20)
                    if not data:
                        raise EOFError
                    self._incoming += data
        return message

    def _whole_message(self) -> Any:
        """Remove the first complete message from `_incoming` and return it; None if there is none yet."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kill it and everything it started, as far as that stayed in its session."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self, patience_s: float = 0.0) -> int:
        """Kill and reap it; returns its status. One that is about to exit may do so, since its status says why."""
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        self.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return status


class Worker(PipedProcess):
    def __init__(self) -> None:
        super().__init__(worker_command("codeinfo.index.worker"))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight in either direction."""
        return not self._outgoing and not self._incoming

    def begin(self, settings: ChunkSettings) -> bool:
        """Whether it has started and is ready for files."""
        self.send(astuple(settings))
        if not self.flush():
            return False
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        return bool(poll.poll(_START_TIMEOUT_S * 1000)) and os.read(self._stdout, 1) == READY

    def send(self, values: tuple[Any, ...]) -> None:
        """Queue a message; the next `flush` or `receive` sends it."""
        message = marshal.dumps(values)
        self._outgoing += len(message).to_bytes(HEADER, "little")
        self._outgoing += message

    def receive_in(self, seconds: float, goes_on: Callable[[], bool] = lambda: True) -> Any:
        """The next message, None if it takes more than this. On a busy machine that is the time that the worker was
        given, within reason."""
        computed, last = self.cpu_seconds, time.monotonic() + PATIENCE * seconds
        reply = self.receive(time.monotonic() + seconds)
        while reply is None and goes_on() and time.monotonic() < last:
            left = seconds - (self.cpu_seconds - computed)
            if not left > 0:  # used up, or not a number where the system does not tell
                break
            reply = self.receive(min(time.monotonic() + max(left, _LEAST_WAIT_S), last))
        return reply

    def _whole_message(self) -> tuple[bool, Any] | None:
        if len(self._incoming) < HEADER:
            return None
        size = HEADER + int.from_bytes(self._incoming[:HEADER], "little")
        if len(self._incoming) < size:
            return None
        succeeded, value = marshal.loads(memoryview(self._incoming)[HEADER:size])
        del self._incoming[:size]
        return succeeded, value


KEPT_S = 120.0  # an editing session asks again within this time
_SAFE_SHARE = 0.8  # of that time: one that is about to exit is not taken, or a file would be lost with it
_MOST = 2
_RESTING_BYTES = 100 << 20  # a worker that grew beyond this is replaced by a fresh one


class _Spare(NamedTuple):
    settings: ChunkSettings
    worker: Worker
    until: float

    def serves(self, settings: ChunkSettings) -> bool:
        return self.settings == settings and time.monotonic() < self.until and self.worker.is_alive


class Spares:
    def __init__(self, seconds: float = KEPT_S) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._waiting: list[_Spare] = []
        self._closed = False

    def take(self, settings: ChunkSettings) -> Worker | None:
        """The most recently kept worker with these settings."""
        with self._lock:
            latest = next((spare for spare in reversed(self._waiting) if spare.serves(settings)), None)
            if latest is not None:
                self._waiting.remove(latest)
        return latest.worker if latest is not None else None

    def keep(self, settings: ChunkSettings, worker: Worker) -> None:
        # Checked here rather than by the worker: one that exits by itself might be taken just before.
        if resident_bytes(worker.pid) > _RESTING_BYTES:
            worker.end()
            return
        with self._lock:
            self._waiting.append(_Spare(settings, worker, time.monotonic() + _SAFE_SHARE * self.seconds))
            surplus = self._waiting[:-_MOST] if not self._closed else self._waiting[:]
            del self._waiting[: len(surplus)]
        for spare in surplus:
            spare.worker.end()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for spare in waiting:
            spare.worker.end()


def resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as status:
            return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


_LEAST_WAIT_S = 0.05
_AHEAD = 3  # files per worker: one in progress, the others in its pipe
_QUEUED_FILES = 32  # per worker, waiting in this process…
_QUEUED_CHARS = 2_000_000  # …and as much text in total, unless a single file is larger
_SECOND_WORKER_CHARS = 200_000  # below this, one worker finishes before another has started
_START_TIMEOUT_S = 60.0


class ParseTask(NamedTuple):
    path: str
    text: str | bytes  # bytes are a document for the worker to convert
    language: str


class Parsed(NamedTuple):
    """A parse, with its references packed (see `graph.uses`)."""

    path: str
    parsed: ParsedFile
    references: bytes
    refusal: str = ""  # why the file could not be read


class _Job(NamedTuple):
    task: ParseTask
    syntax: bool = True
    note: str = ""
    crashed: bool = False  # a previous worker died while it had this job

    @property
    def is_document(self) -> bool:
        return isinstance(self.task.text, bytes)


class _Feed:
    """The tasks of one run, and how much of them is in flight."""

    def __init__(self, tasks: Iterator[ParseTask]) -> None:
        self.tasks = tasks
        self.files = self.chars = 0


_Result = tuple[_Job, Parsed] | BaseException


class ParsePool:
    """Use as a context manager. `run` yields results as they finish."""

    def __init__(self, settings: ChunkSettings, workers: int = 2, spares: Spares | None = None) -> None:
        """Workers are taken from `spares` and returned there; without it they end with the pool."""
        self.settings = settings
        self.spares = spares
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._limit = max(1, workers)
        self._feeders: list[_Feeder] = []

    def __enter__(self) -> ParsePool:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def warm_up(self) -> None:
        """Start a worker while the caller is still busy with other things."""
        self._grow(0)

    def run(self, tasks: Iterable[ParseTask]) -> Iterator[Parsed]:
        """Parse all of `tasks`, which are taken in the calling thread, only as fast as results are. The first ones are
        in flight when this returns."""
        feed = _Feed(iter(tasks))
        self._fill(feed)
        return self._results_of(feed)

    def _results_of(self, feed: _Feed) -> Iterator[Parsed]:
        try:
            while feed.files:
                result = self.results.get()
                if isinstance(result, BaseException):
                    raise result
                job, parsed = result
                feed.files, feed.chars = feed.files - 1, feed.chars - len(job.task.text)
                yield parsed
                self._fill(feed)
        finally:
            if feed.files:  # abandoned midway: jobs in progress must not turn up in the next run
                self.close()

    def _fill(self, feed: _Feed) -> None:
        most = _QUEUED_FILES * self._limit
        while not feed.files or (feed.files < most and feed.chars < _QUEUED_CHARS):
            task = next(feed.tasks, None)
            if task is None:
                return
            feed.files, feed.chars = feed.files + 1, feed.chars + len(task.text)
            self.jobs.put(_Job(task))
            self._grow(feed.chars)

    def close(self) -> None:
        """Stop all workers at once; the pool can be used again."""
        for feeder in self._feeders:
            feeder.stop()
        for feeder in self._feeders:
            feeder.join()
        self._feeders.clear()
        self.jobs, self.results = queue.SimpleQueue(), queue.SimpleQueue()

    def _grow(self, queued_chars: int) -> None:
        if not self._feeders or (len(self._feeders) < self._limit and queued_chars > _SECOND_WORKER_CHARS):
            feeder = _Feeder(self)
            self._feeders.append(feeder)  # before it has a process: an interrupt in between loses nothing
            feeder.thread.start()


class _Feeder:
    """One worker process and the thread that talks to it."""

    def __init__(self, pool: ParsePool) -> None:
        self._settings, self._spares = pool.settings, pool.spares
        self._jobs, self._results = pool.jobs, pool.results
        self._at_hand: deque[_Job] = deque()
        self._stopping = False
        self._is_ready = False
        self._worker: Worker | None = None
        self.thread = threading.Thread(target=self._work, name="parse-feeder", daemon=True)

    def stop(self) -> None:
        self._stopping = True
        can_be_kept = self._spares is not None and self._is_ready and not self._at_hand
        self._jobs.put(None)
        worker = self._worker
        if worker is not None and not can_be_kept:
            worker.kill()

    def join(self) -> None:
        if self.thread.ident is not None:
            self.thread.join()

    def _work(self) -> None:
        try:
            self._start_worker()
            while not self._stopping:
                self._take_jobs()
                if not self._at_hand or self._stopping:
                    return
                reason = self._converse()
                if reason and not self._stopping:
                    self._end_worker()
                    self._retry(self._at_hand.popleft(), reason)  # those queued behind it continue as they are
        except BaseException as error:  # raised in the caller's thread
            self._results.put(error)
        finally:
            if not self._is_kept():
                self._end_worker()

    def _is_kept(self) -> bool:
        """Whether the idle worker was set aside for the next run."""
        worker = self._worker
        if self._spares is None or worker is None or not self._is_ready or self._at_hand or not worker.is_idle:
            return False
        worker.send((REST, self._spares.seconds))
        if not worker.flush() or not worker.is_idle:
            return False
        self._worker = None
        self._spares.keep(self._settings, worker)
        return True

    def _take_jobs(self) -> None:
        """Wait for a job if there is none; otherwise take what is there, up to the limit."""
        while len(self._at_hand) < _AHEAD:
            try:
                job = self._jobs.get(block=not self._at_hand)
            except queue.Empty:
                return
            if job is None:
                return
            if not self._at_hand and self._worker is not None and not self._worker.is_alive:
                self._end_worker()  # it died while idle: no file is to blame
            self._at_hand.append(job)
            self._send(job)

    def _converse(self) -> str:
        """Wait until the first job is answered; otherwise return why it never will be."""
        worker = self._worker or self._start_worker()
        timeout = time_limit_s(self._at_hand[0].task.text, self._settings)
        try:
            reply = worker.receive_in(timeout, lambda: not self._stopping)
        except EOFError:
            return self._lose_worker()
        return self._accept(reply) if reply is not None else f"gave up after {timeout:g} s"

    def _accept(self, reply: tuple[bool, Any]) -> str:
        succeeded, value = reply
        job = self._at_hand.popleft()
        if succeeded:
            self._results.put((job, _rebuild(job, value)))
        else:
            self._retry(job, value if job.is_document else f"failed ({value})")
        return ""

    def _lose_worker(self) -> str:
        """Why the first job cannot be done: it has lost a second worker. The first may have ended for another
        reason, such as memory taken by other processes, which must not cost the file its syntax."""
        reason, job = self._end_worker(), self._at_hand[0]
        if job.crashed:
            return reason
        self._at_hand[0] = job._replace(crashed=True)
        return ""

    def _retry(self, job: _Job, reason: str) -> None:
        if job.syntax and not job.is_document:
            again = _Job(job.task, syntax=False, note=f"parser {reason}: indexed as text")
            self._at_hand.append(again)
            self._send(again)
        else:  # there is no plainer way to read it
            self._results.put((job, Parsed(job.task.path, ParsedFile(chunks=()), b"", refusal=reason)))

    def _send(self, job: _Job) -> None:
        task = job.task
        if self._worker is not None:  # otherwise all jobs are sent to the next one
            is_text = isinstance(task.text, str)
            rest = (task.language, job.syntax) if is_text else ()
            self._worker.send((PARSE if is_text else CONVERT, task.path, task.text, *rest))

    def _start_worker(self) -> Worker:
        """Start a worker, a spare one if possible, with all current jobs. Only in the feeder's thread: a signal
        interrupts the main thread, which could lose what it just started."""
        spare = self._spares.take(self._settings) if self._spares is not None else None
        self._is_ready = spare is not None  # before `stop` can see the worker, and would kill it
        worker = self._worker = spare or Worker()
        if self._stopping and (spare is None or self._at_hand):  # stopped before there was a process to kill
            worker.kill()
        self._is_ready = self._is_ready or worker.begin(self._settings)
        if not self._is_ready and not self._stopping:
            raise CodeInfoError(
                "the parser process does not start",
                next_step=NextStep("Install codeinfo again, or see ", to_run("doctor")),
            )
        for job in self._at_hand:
            self._send(job)
        return worker

    def _end_worker(self) -> str:
        """Returns how it ended."""
        worker, self._worker, self._is_ready = self._worker, None, False
        if worker is None:
            return ""
        status = worker.end(0 if self._stopping else 0.2)
        return f"crashed (signal {-status})" if status < 0 else f"ended (status {status})"


def _rebuild(job: _Job, value: tuple[Any, ...]) -> Parsed:
    chunks, definitions, imports, terms, notes, references = value
    parsed = ParsedFile(
        chunks=tuple(Chunk(*fields) for fields in chunks),
        definitions=tuple(Definition(*fields) for fields in definitions),
        imports=tuple(Import(*fields) for fields in imports),
        terms=terms,
        notes=(*notes, job.note) if job.note else notes,
    )
    return Parsed(job.task.path, parsed, references)


# --- queries and expressions of a project ----------------------------------------------------------------------------

MOST_QUERY_CHARACTERS = 4000
MOST_EXPRESSION_CHARACTERS = 1000
FILE_SECONDS = 2.0
ALL_SECONDS = 20.0  # for one report: parsing 5,000 files takes about as long
_PREDICATE = re.compile(r"#([\w-]+[?!]?)|\"(?:\\.|[^\"\\])*\"|;[^\n]*")
_KNOWN_PREDICATES = frozenset(
    f"{start}{test}?" for test in ("eq", "match", "any-of") for start in ("", "not-", "any-", "any-not-")
)
_PLACE = re.compile(r"^(?:\w+Error: )?(.*?) at row (\d+), column (\d+)(: .*)?$", re.DOTALL)


class PatternSandbox:
    """Runs a project's queries and expressions in a process, with time limits per file and for all of them together.

    Neither a query nor the code is trusted: a query may match in more ways than anyone can wait for, and an expression,
    alone or in a query's predicate, may never finish.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self.begin()

    def begin(self) -> None:
        """Reset the time limit for another report."""
        self._left = ALL_SECONDS
        self.gave_up = False

    def expression_complaint(self, expression: str) -> str:
        """What is wrong with an expression; "" if it can be run."""
        if len(expression) > MOST_EXPRESSION_CHARACTERS:
            return f"longer than {MOST_EXPRESSION_CHARACTERS} characters"
        return self._try((EXPRESSIONS, "", (expression,)))

    def query_complaint(self, name: str, query: str) -> str:
        """What is wrong with a query, and where; "" if it can be run."""
        if name not in GRAMMARS:
            return f"there is no syntax tree for {name!r}, but for {', '.join(sorted(GRAMMARS))}"
        if len(query) > MOST_QUERY_CHARACTERS:
            return f"longer than {MOST_QUERY_CHARACTERS} characters"
        for match in _PREDICATE.finditer(query):
            if match.group(1) and match.group(1) not in _KNOWN_PREDICATES:
                return f"{_where(query, match.start())}: unknown predicate #{match.group(1)}"
        if not re.search(r"@[\w.-]", query):
            return "nothing is captured: put @use after what counts as a use"
        return self._try((QUERIES, "", name, (query,)))

    def _try(self, request: tuple[Any, ...]) -> str:
        reply = self._ask(request, FILE_SECONDS)
        if reply is None:
            return "it takes too long to prepare"
        succeeded, value = reply
        return "" if succeeded else _explain(str(value))

    def lines(self, name: str, queries: Sequence[str], text: str) -> list[list[int]]:
        """The lines that each query matches; none, and `gave_up`, if that took too long."""
        return self._find((QUERIES, text, name, tuple(queries)))

    def places(self, expressions: Sequence[str], text: str) -> list[list[tuple[int, int]]]:
        """The lines and offsets that each expression matches; none, and `gave_up`, if that took too long."""
        return self._find((EXPRESSIONS, text, tuple(expressions)))

    def _find(self, request: tuple[Any, ...]) -> list[list[Any]]:
        if self._left > 0:
            started, most = time.monotonic(), min(FILE_SECONDS, self._left)
            reply = self._ask(request, most)
            self._left -= min(time.monotonic() - started, most)
            if reply is not None and reply[0]:
                lines: list[list[Any]] = reply[1]
                return lines
        self.gave_up = True
        return [[] for _ in request[-1]]

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def _ask(self, request: tuple[Any, ...], seconds: float) -> tuple[bool, Any] | None:
        """The answer, or None if it did not come in time: the process is then lost."""
        try:
            if self._worker is None:
                self._worker = Worker()
                if not self._worker.begin(ChunkSettings()):
                    raise EOFError
            self._worker.send(request)
            reply: tuple[bool, Any] | None = self._worker.receive_in(seconds)
        except (OSError, EOFError):
            reply = None
        if reply is None:
            self.close()
        return reply


def _where(query: str, offset: int) -> str:
    before = query[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def _explain(error: str) -> str:
    """`Invalid node type at row 0, column 17: identifir`, counted from 1."""
    match = _PLACE.match(error)
    if match is None:
        return error
    what, row, column, rest = match.groups()
    return f"line {int(row) + 1}, column {int(column) + 1}: {what}{rest or ''}"
