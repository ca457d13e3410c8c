"""Commands that start child processes: `serve` and `worker` with several of them, and `trial`."""

from __future__ import annotations

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import UsageError, requires
from codeinfo.files import private_folder
from codeinfo.index.pool import worker_command
from codeinfo.operations import team
from codeinfo.serve.metrics import Metrics, Reading, memory_reading, serve_operators

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
        counted = set(codes.values()) - {-signal.SIGTERM, -signal.SIGINT}  # of one that was just starting
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
        for process in self.processes if not self.signal else ():
            process.terminate()
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
