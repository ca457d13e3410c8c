"""The processes of `codeinfo serve`: requests in progress, readiness, an end that lets them finish, and several on one
socket.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from types import FrameType

import anyio
import anyio.to_thread
import uvicorn

from codeinfo.config import Config
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import Interrupted
from codeinfo.serve.auth import App, Message, Receive, Scope, Send
from codeinfo.serve.dispatch import end_by_deadline
from codeinfo.serve.metrics import Metrics, OperatorServer, Problem, Reading, memory_reading, probe_body
from codeinfo.serve.runs import State

NOTICE_S = 2.0  # a server that is to end goes on so long at least, until load balancers have seen that it is not ready
LAST_S = 0.5  # from closing the socket to closing connections: requests that were on their way are read meanwhile
_FRESH_S = 1.0  # a look at the database is good for so long
_RESTART_S = 1.0  # between the end of a process and the start of its successor
LISTENER_FLAG = "--listener"  # what a process of several is started with

log = logging.getLogger(__name__)


class Traffic:
    """ASGI middleware around everything: counts requests, logs them, and answers `/ready` (and in a team `/health`),
    which need no token and tell nothing else."""

    def __init__(self, app: App, problem: Problem, *, health: bool, log_requests: bool) -> None:
        self._app = app
        self._problem = problem
        self._probes = ("/ready", "/health") if health else ("/ready",)
        self._log_requests = log_requests
        self._looked, self._seen = -_FRESH_S, ""
        self.draining = False
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._probes and scope["method"] in ("GET", "HEAD"):
            await _send_probe(send, await self.problem() if scope["path"] == "/ready" else "")
            return
        status, started = 0, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self.draining:  # the next request is for another server
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        self.running += 1
        try:
            await self._app(scope, receive, sending)
        finally:
            self.running -= 1
            if self._log_requests:
                took_ms = round(1000 * (time.perf_counter() - started), 1)
                fields = {"method": scope["method"], "path": scope["path"], "status": status, "took_ms": took_ms}
                log.info("request", extra={"fields": fields})

    async def problem(self) -> str:
        """Why no requests should be sent here; "" where nothing speaks against it."""
        if self.draining:
            return "the server is about to end"
        if time.monotonic() - self._looked > _FRESH_S:
            self._seen = await anyio.to_thread.run_sync(self._problem)
            self._looked = time.monotonic()
        return self._seen

    def problem_now(self) -> str:
        return "the server is about to end" if self.draining else self._problem()


async def _send_probe(send: Send, why: str) -> None:
    body = probe_body(why)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 503 if why else 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Draining(uvicorn.Server):
    """At SIGTERM it goes on until what was begun is done, `drain_s` at most, and ends with 0. SIGINT, a second signal,
    or no time to drain end it at once."""

    def __init__(self, settings: uvicorn.Config, traffic: Traffic, state: State, drain_s: float) -> None:
        super().__init__(settings)
        self._traffic = traffic
        self._state = state
        self._drain_s = drain_s
        self._draining_since = 0.0
        self._parent = os.getppid() if LISTENER_FLAG in sys.argv else 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._drain_s and not self._draining_since:
            self._draining_since = time.monotonic()
            self._traffic.draining = True
            self._state.drain()
            return
        end_by_deadline(Interrupted.exit_code)
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if await super().on_tick(counter):
            return True
        if self._parent and os.getppid() != self._parent:  # it was killed, and its successor needs the address
            self._parent = 0
            self.handle_exit(signal.SIGTERM, None)
        since = time.monotonic() - self._draining_since if self._draining_since else 0.0
        quiet = not self._traffic.running and not self._state.runs.busy
        if self._draining_since and (since >= self._drain_s or (quiet and since >= min(NOTICE_S, self._drain_s))):
            end_by_deadline(0)
            self.should_exit = True
        return self.should_exit

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn closes every connection without a request in progress: one that was just made, too."""
        if self._draining_since:
            for server in self.servers:
                server.close()
            await anyio.sleep(LAST_S)
        await super().shutdown(sockets)


# --- several processes ---------------------------------------------------------------------------------------------


class Workers:
    """Processes that serve one socket. One that ends is started again, until a signal ends all."""

    def __init__(self, count: int, listener: socket.socket, folder: str) -> None:
        self._listener = listener
        self._folder = folder
        self._ending = False
        self.processes = [self._start() for _ in range(count)]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def _start(self) -> subprocess.Popen[bytes]:
        number = self._listener.fileno()
        command = [sys.executable, "-m", "codeinfo", *sys.argv[1:], LISTENER_FLAG, str(number)]
        environment = os.environ | ({"PROMETHEUS_MULTIPROC_DIR": self._folder} if self._folder else {})
        return subprocess.Popen(command, pass_fds=(number,), env=environment)

    def problem(self) -> str:
        ended = [process for process in self.processes if process.poll() is not None]
        return "the server is about to end" if self._ending else f"{len(ended)} processes have ended" if ended else ""

    def run(self) -> int:
        """Until a signal comes; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        while not self._ending:
            for at, process in enumerate(self.processes):
                if process.poll() is not None and not self._ending:
                    log.warning("process %d ended with %s and is started again", process.pid, process.returncode)
                    time.sleep(_RESTART_S)
                    self.processes[at] = self._start()
            time.sleep(0.1)
        codes = {process.wait() for process in self.processes} - {-signal.SIGTERM}  # one that was just starting
        return max(codes, default=0) if min(codes, default=0) >= 0 else 1

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)


def serve_with_workers(config: Config, count: int, listener: socket.socket) -> int:
    """`count` processes on one socket, and the operators' address in this one. The exit code."""
    shared = config.serve.metrics_address != ""
    with tempfile.TemporaryDirectory(prefix="codeinfo-metrics-") as folder, closing(Indexes(config)) as indexes:
        workers = Workers(count, listener, folder if shared else "")
        if shared:
            database = indexes.team
            assert database is not None

            def readings() -> list[Reading]:
                return [*database.figures(), memory_reading([os.getpid(), *workers.pids])]

            metrics = Metrics(readings, folder)
            OperatorServer(config.serve.metrics_address, metrics, lambda: workers.problem() or database.problem())
        return workers.run()
