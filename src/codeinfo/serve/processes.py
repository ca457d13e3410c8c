"""Processes of a server: commands that start children (`serve` and `worker` with several of them, `trial`), and what
operators see: metrics for Prometheus, liveness and readiness on a separate address, spans for OpenTelemetry, logs as
JSON."""

from __future__ import annotations

import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import CodeInfoError, Interrupted, UsageError, requires
from codeinfo.files import private_folder
from codeinfo.index.pool import resident_bytes, worker_command
from codeinfo.operations import team
from codeinfo.serve.dispatch import Observe, observe_nothing

_RESTART_S = (1.0, 30.0)  # from, to: a process that cannot start must not keep the machine busy
_LOOK_S = 0.1
ENDING = "the server is shutting down"

log = logging.getLogger(__name__)
Start = Callable[[], subprocess.Popen[bytes]]


def start_child(
    *arguments: str, environment: Mapping[str, str] | None = None, keep_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """A codeinfo command that ends with this process, even if this one is killed: its standard input is then closed."""
    command = [*worker_command(__name__, "run_child"), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, pass_fds=keep_open, start_new_session=True)


def run_child() -> None:
    def watch() -> None:
        os.read(lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    lifeline = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    runpy.run_module("codeinfo", run_name="__main__", alter_sys=True)


class Supervisor:
    """Runs child processes until all have ended or a signal arrives, which is passed on to them.

    One whose exit code `is_lost` accepts is restarted, after a pause that grows with each failure. Without `is_lost`
    they depend on each other, and the end of one ends all. At the end they get `end_s`, or as long as they need.
    """

    def __init__(
        self, starts: Sequence[Start], is_lost: Callable[[int], bool] | None = None, end_s: float | None = None
    ) -> None:
        self._starts = starts
        self._is_lost = is_lost
        self._end_s = end_s
        self._pause_s, self._restarted = _RESTART_S[0], time.monotonic()
        self.signal = 0  # the one received
        self._signalled = set[int]()  # the processes that got it
        self.processes: list[subprocess.Popen[bytes]] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        self.processes += [start() for start in starts]

    def run(self) -> int:
        """The exit code: the worst of those that ended by themselves or, after a signal, of all."""
        codes: dict[int, int] = {}
        while not self.signal:
            codes = {at: process.returncode for at, process in enumerate(self.processes) if process.poll() is not None}
            lost = [at for at, code in codes.items() if self._is_lost is not None and self._is_lost(code)]
            if lost:
                self._replace(lost)
            elif len(codes) == len(self.processes) or (codes and self._is_lost is None):
                break
            time.sleep(_LOOK_S)
        self._end()
        if self.signal:
            codes = {at: process.returncode for at, process in enumerate(self.processes)}
        counted = set(codes.values()) - {-signal.SIGTERM, -signal.SIGINT}  # of one that was just starting …
        if 0 in counted:
            counted.discard(Interrupted.exit_code)  # … as is this where others finished their work
        return max(counted, default=0) if min(counted, default=0) >= 0 else 1

    def _replace(self, lost: Sequence[int]) -> None:
        if time.monotonic() - self._restarted > _RESTART_S[1]:
            self._pause_s = _RESTART_S[0]
        log.warning("%d of %d processes died, starting others in %g s", len(lost), len(self.processes), self._pause_s)
        until = time.monotonic() + self._pause_s
        while not self.signal and time.monotonic() < until:
            time.sleep(_LOOK_S)
        for at in lost:
            if not self.signal:
                self.processes[at] = self._starts[at]()
        self._pause_s, self._restarted = min(2 * self._pause_s, _RESTART_S[1]), time.monotonic()

    def _end(self) -> None:
        until = time.monotonic() + self._end_s if self._end_s is not None else None
        for process in self.processes:
            if process.pid not in self._signalled:  # it was being started when the signal came, or there was none
                process.send_signal(self.signal or signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(max(0.1, until - time.monotonic()) if until is not None else None)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _pass_on(self, number: int, frame: object) -> None:
        self.signal = number
        for process in self.processes:
            process.send_signal(number)
            self._signalled.add(process.pid)


def work(config: Config, settings: Sequence[str], *, processes: int, until_idle: bool) -> int:
    """Returns the exit code. `settings` are from the command line, for further processes."""
    if processes > 1:
        start = partial(start_child, "worker", *_set_options(settings), *(["--until-idle"] if until_idle else []))
        return Supervisor([start] * processes, is_lost=lambda code: code not in (0, UsageError.exit_code)).run()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("codeinfo").setLevel(logging.INFO)
    with closing(Engine(config)) as engine:
        engine.team.work(until_idle=until_idle)
    return 0


def serve_with_workers(config: Config, count: int, listener: socket.socket) -> int:
    """Run `count` processes on one socket, and the operators' address in this one. Returns the exit code."""
    shared = config.serve.metrics_address != ""
    with tempfile.TemporaryDirectory(prefix="codeinfo-metrics-") as folder, closing(Indexes(config)) as indexes:
        start = partial(
            start_child,
            *(*sys.argv[1:], "--listener", str(listener.fileno())),
            environment=os.environ | ({"PROMETHEUS_MULTIPROC_DIR": folder} if shared else {}),
            keep_open=(listener.fileno(),),
        )
        workers = Supervisor([start] * count, is_lost=lambda code: True)
        if shared:
            database = indexes.team
            assert database is not None

            def readings() -> list[Reading]:
                pids = (process.pid for process in workers.processes)
                return [*database.figures(), memory_reading([os.getpid(), *pids])]

            def problem() -> str:
                ended = sum(process.poll() is not None for process in workers.processes)
                down = f"{ended} processes have ended" if ended else database.problem()
                return ENDING if workers.signal else down

            serve_operators(config.serve.metrics_address, Metrics(folder), readings, problem)
        return workers.run()


def _set_options(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


# --- the trial -----------------------------------------------------------------------------------------------------

USER = "admin"
FOLDER = "trial-postgres"
_DAYS = 7  # of a token, which is created at each start
_END_S = 70.0  # a worker finishes its current job


def run_trial(flags: Mapping[str, str], urls: Sequence[str], port: int, settings: Sequence[str]) -> int:
    """A team's whole set-up on one machine, for trying it out: an embedded PostgreSQL in the data folder, an
    administrator with a token, a server and a worker. What was indexed stays for the next time. Runs until
    interrupted, and returns the exit code. `settings` are from the command line, for the server and the worker."""
    with requires("server,trial,web"):
        from codeinfo.team.database import embedded_database

    folder = private_folder(Config.load(flags).paths.data_dir) / FOLDER
    with embedded_database(folder) as store_url:
        token = prepare(Config.load({**flags, "store.url": store_url}), urls)
        address = f"http://127.0.0.1:{port}"
        print(f"Pages: {address}/auth/sign-in\nMCP:   {address}/mcp/\nToken of {USER}, for {_DAYS} days: {token}")
        if not urls:
            print("No repository was given: `codeinfo trial URL` indexes one")
        print(f"In another terminal: export CODEINFO_STORE_URL='{store_url}'", flush=True)
        options = _set_options(settings)
        start = partial(start_child, environment=os.environ | {"CODEINFO_STORE_URL": store_url})
        serve, worker = partial(start, "serve", "--port", str(port), *options), partial(start, "worker", *options)
        supervisor = Supervisor([serve, worker], end_s=_END_S)
        code = supervisor.run()
        return 0 if supervisor.signal else code


def prepare(config: Config, urls: Sequence[str]) -> str:
    """Create the administrator and the projects, unless they exist, and a token, which is returned."""
    with closing(Engine(config)) as engine:
        if USER not in {user.name for user in engine.team.users().users}:
            engine.team.add_user(team.TeamUserAddRequest(USER, admin=True))
        scopes = ("read", "write", "admin")
        token = engine.team.add_token(team.TeamTokenAddRequest(USER, "trial", scopes, _DAYS)).token
        projects = [engine.team.add_project(team.TeamProjectAddRequest(url)).project for url in urls]
        for project in projects:
            engine.team.add_grant(team.TeamGrantAddRequest(project, USER, "write"))
    return token


# --- metrics ---------------------------------------------------------------------------------------------------------

Reading = tuple[str, str, Mapping[str, float]]  # a gauge: its name, its description, its values by label
Readings = Callable[[], Iterable[Reading]]
Problem = Callable[[], str]  # why the server is not ready; "" if it is

# Seconds. A search takes milliseconds, a first access to a large project seconds.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics:
    """Counts operations. `shared_folder` is where the processes of one server count together."""

    def __init__(self, shared_folder: str = "") -> None:
        if shared_folder:  # read by the library on first import
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared_folder
        with requires("server"):
            import prometheus_client
            from prometheus_client import multiprocess

        self._library = prometheus_client
        self._counted = registry = prometheus_client.CollectorRegistry()
        histogram = partial(prometheus_client.Histogram, registry=registry, buckets=_BUCKETS)
        counter = partial(prometheus_client.Counter, registry=registry)
        by = ("operation", "client")
        self._seconds = histogram("codeinfo_operation_seconds", "How long operations took.", by)
        self._errors = counter("codeinfo_operation_errors", "Operations that failed, by error code.", (*by, "code"))
        about = "Checks whether a local copy of a tree is up to date: hit or behind."
        self._pulls = counter("codeinfo_cache_lookups", about, ("result",))
        if shared_folder:
            self._counted = prometheus_client.CollectorRegistry()
            multiprocess.MultiProcessCollector(self._counted, shared_folder)  # type: ignore[no-untyped-call]

    @contextmanager
    def observe(self, operation: str, client: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, CodeInfoError) else "INTERNAL"
            self._errors.labels(operation, client, code).inc()
            raise
        finally:
            self._seconds.labels(operation, client).observe(time.perf_counter() - started)

    def count_pull(self, behind: bool) -> None:
        self._pulls.labels("behind" if behind else "hit").inc()

    def text(self, readings: Iterable[Reading]) -> bytes:
        """The Prometheus text format: counters, and these gauges."""
        now = self._library.CollectorRegistry()
        for name, about, values in readings:
            (label, *_) = (*(key.partition("=")[0] for key in values if key), "")
            gauge = self._library.Gauge(name, about, (label,) if label else (), registry=now)
            for key, value in values.items():
                (gauge.labels(key.partition("=")[2]) if label else gauge).set(value)
        return self._library.generate_latest(self._counted) + self._library.generate_latest(now)


def memory_reading(pids: Iterable[int]) -> Reading:
    """The resident memory of processes; one that has just ended has none."""
    total = float(sum(map(resident_bytes, pids)))
    return "codeinfo_resident_memory_bytes", "Memory of the server's processes.", {"": total}


def with_spans(observe: Observe = observe_nothing) -> Observe:
    """Each operation as a span too, if OpenTelemetry is installed; setting up its SDK is up to the operator."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return observe
    tracer = trace.get_tracer("codeinfo")

    @contextmanager
    def observed(operation: str, client: str) -> Iterator[None]:
        with (
            tracer.start_as_current_span(operation, attributes={"codeinfo.client": client}),
            observe(operation, client),
        ):
            yield

    return observed


def serve_operators(address: str, metrics: Metrics, readings: Readings, problem: Problem) -> None:
    """`/metrics`, `/health` (it is alive) and `/ready` (send requests), without a token: for operators' eyes only."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = self._reply()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _reply(self) -> tuple[int, str, bytes]:
            if self.path == "/metrics":
                return 200, "text/plain; version=0.0.4; charset=utf-8", metrics.text(readings())
            if self.path in ("/health", "/ready"):
                why = problem() if self.path == "/ready" else ""
                return 503 if why else 200, "application/json", probe_body(why).encode()
            return 404, "text/plain", b"/metrics, /health, /ready\n"

        def log_message(self, *_: Any) -> None:
            """Probes come every few seconds: they are not logged."""

    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise UsageError(f"{address!r} is not an address", "Set serve.metrics_address as in 127.0.0.1:9464")
    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    except (OSError, OverflowError) as error:
        step = "Set serve.metrics_address to another one"
        raise UsageError(f"{address} cannot be used: {error}", step) from error
    threading.Thread(target=server.serve_forever, name="codeinfo metrics", daemon=True).start()


def probe_body(why: str) -> str:
    return json.dumps({"status": "unavailable", "reason": why} if why else {"status": "ok"})


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{when}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_as_json() -> None:
    """Write all log records from INFO up, and each request, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
