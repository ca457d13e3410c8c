"""`codeinfo trial`: all of a team's set-up on one machine, to look at it: an embedded PostgreSQL in the data folder, an
administrator with a token, a server and a worker. Ends with them; what was indexed stays for the next time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import UsageError
from codeinfo.operations import team
from codeinfo.private_files import private_folder

USER = "admin"
FOLDER = "trial-postgres"
_DAYS = 7  # of a token, which is made at each start
_LOOK_S = 0.2
_END_S = 70.0  # a worker finishes the job in hand


def run_trial(flags: Mapping[str, str], urls: Sequence[str], port: int, settings: Sequence[str]) -> int:
    """Until interrupted; the exit code. `settings` are those of the command line, for the server and the worker."""
    try:
        from codeinfo.team.embedded import embedded_database
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
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sig, frame: told.append(sig))
    environment: dict[str, Any] = os.environ | {"CODEINFO_STORE_URL": store_url}
    line = (sys.executable, "-m", "codeinfo")
    running = [subprocess.Popen((*line, *command), env=environment, start_new_session=True) for command in commands]
    while not told and all(process.poll() is None for process in running):
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
