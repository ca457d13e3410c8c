"""Programs of a team that start others: `codeinfo worker` with several processes, and `codeinfo trial`."""

from __future__ import annotations

import logging
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import UsageError
from codeinfo.files import private_folder
from codeinfo.index.pool import worker_command
from codeinfo.operations import team

_RESTART_S = (1.0, 30.0)  # from, to: one that cannot start must not keep the machine busy

_LOOK_S = 0.2

log = logging.getLogger(__name__)


def start_child(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A command of ours that is asked to end when this process does, killed or not: its standard input ends then."""
    command = [*worker_command(__name__, "run_child"), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def run_child() -> None:
    def watch() -> None:
        os.read(lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    lifeline = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    runpy.run_module("codeinfo", run_name="__main__", alter_sys=True)


def work(config: Config, settings: Sequence[str], *, processes: int, until_idle: bool) -> None:
    """`settings` are those of the command line, for further processes."""
    if processes > 1:
        flags = [part for setting in settings for part in ("--set", setting)]
        _Crew(processes, [*flags, *(["--until-idle"] if until_idle else [])]).run()
        return
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("codeinfo").setLevel(logging.INFO)
    with closing(Engine(config)) as engine:
        engine.team.work(until_idle=until_idle)


class _Crew:
    """Workers as child processes. One that dies is replaced; SIGTERM and SIGINT are passed on, and waited for."""

    def __init__(self, processes: int, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._running: list[subprocess.Popen[bytes]] = []
        self._processes = processes
        self._stopping = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        wait, started = _RESTART_S[0], 0.0
        missing = self._processes
        while missing or self._running:
            if missing and not self._stopping:
                if time.monotonic() - started > _RESTART_S[1]:
                    wait = _RESTART_S[0]
                self._running += [start_child("worker", *self._arguments) for _ in range(missing)]
                missing, started = 0, time.monotonic()
            time.sleep(_LOOK_S)
            ended = [process for process in self._running if process.poll() is not None]
            self._running = [process for process in self._running if process not in ended]
            lost = [process for process in ended if process.returncode]
            if self._stopping:
                missing = 0
            elif lost:
                log.warning("%d of %d workers died, starting others in %g s", len(lost), self._processes, wait)
                missing += len(lost)
                time.sleep(wait)
                wait = min(2 * wait, _RESTART_S[1])

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True
        for process in self._running:
            process.terminate()


# --- the trial -----------------------------------------------------------------------------------------------------

USER = "admin"
FOLDER = "trial-postgres"
_DAYS = 7  # of a token, which is made at each start
_END_S = 70.0  # a worker finishes the job in hand


def run_trial(flags: Mapping[str, str], urls: Sequence[str], port: int, settings: Sequence[str]) -> int:
    """All of a team's set-up on one machine, to look at it: an embedded PostgreSQL in the data folder, an administrator
    with a token, a server and a worker. What was indexed stays for the next time. Runs until interrupted, and returns
    the exit code. `settings` are those of the command line, for the server and the worker."""
    try:
        from codeinfo.team.database import embedded_database
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed", next_step="pip install 'codeinfo[server,trial,web]'"
        ) from error
    folder = private_folder(Config.load(flags).paths.data_dir) / FOLDER
    with embedded_database(folder) as store_url:
        token = prepare(Config.load({**flags, "store.url": store_url}), urls)
        address = f"http://127.0.0.1:{port}"
        print(f"Pages: {address}/auth/sign-in\nMCP:   {address}/mcp/\nToken of {USER}, for {_DAYS} days: {token}")
        print(f"In another terminal: export CODEINFO_STORE_URL='{store_url}'", flush=True)
        options = [part for setting in settings for part in ("--set", setting)]
        return run_processes((("serve", "--port", str(port), *options), ("worker", *options)), store_url)


def prepare(config: Config, urls: Sequence[str]) -> str:
    """Make the administrator and the projects, as far as they are not there, and a token, which is returned."""
    with closing(Engine(config)) as engine:
        if USER not in {user.name for user in engine.team.users(team.TeamListRequest()).users}:
            engine.team.add_user(team.TeamUserAddRequest(USER, admin=True))
        scopes = ("read", "write", "admin")
        token = engine.team.add_token(team.TeamTokenAddRequest(USER, "trial", scopes, _DAYS)).token
        projects = [engine.team.add_project(team.TeamProjectAddRequest(url)).project for url in urls]
        for project in projects:
            engine.team.add_grant(team.TeamGrantAddRequest(project, USER, "write"))
    return token


def run_processes(commands: Sequence[Sequence[str]], store_url: str) -> int:
    """Programs of ours over that store until one of them ends or a signal comes; then all end. The exit code."""
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sig, frame: signals.append(sig))
    environment = os.environ | {"CODEINFO_STORE_URL": store_url}
    running = [start_child(*command, environment=environment) for command in commands]
    while not signals and all(process.poll() is None for process in running):
        time.sleep(_LOOK_S)
    codes = [process.poll() for process in running]
    until = time.monotonic() + _END_S
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    return next((code for code in codes if code), 0)
