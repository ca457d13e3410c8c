"""One MCP server for all agents of a user: `codeinfo mcp` carries messages between its client and that server.

The server is a background process, started when it is first needed, one for each version and settings; it ends soon
after its last client. Indexes, models and watchers then exist once, however many agents are at work. Should it die,
the next message starts another one, which is introduced to the client as the client introduced itself. Where there
can be no such server (no sockets, no private folder), the caller serves the client by itself. Once connected, this
process becomes `mcp_carrier`, which needs a third of the memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from codeinfo import __version__
from codeinfo.config import deciding_environment, runtime_folder
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.files import private_folder
from codeinfo.shells import mcp_carrier
from codeinfo.shells.mcp_carrier import parsed, refusal

START_S = 20.0  # a server that does not answer by then is given up
_RETRY_S = 0.02


class Unavailable(Exception):
    """There can be no shared server here; the message says why."""


def relay(flags: Mapping[str, str], tools: str) -> NoReturn:
    """Serve the client at standard input and output by the shared server; raises Unavailable before any message."""
    from codeinfo.index.pool import worker_command  # which loads more than a relay needs

    command = worker_command(__name__, "resume")
    state = {"command": command, "flags": dict(flags), "tools": tools, "introduction": [], "unsent": ""}
    _become_carrier(_connected(flags, tools), state)


def resume() -> NoReturn:
    """Continue for a carrier whose server has ended; its state is in an open file."""
    with open(int(sys.argv[1]), "rb") as file:
        state = json.load(file)
    server = None
    try:
        server = _connected(state["flags"], state["tools"])
        for line in state["introduction"]:
            server.sendall(line.encode("utf-8", "surrogateescape") + b"\n")
            if "id" in parsed(line):
                _read_line(server)  # the client has that reply already
    except (Unavailable, CodeInfoError, OSError) as error:
        *lines, state["unsent"] = state["unsent"].split("\n")
        for message in map(parsed, lines):
            if "id" in message:
                problem = f"the server ended, and no other could be started: {error}"
                os.write(1, refusal(message["id"], problem))
    _become_carrier(server, state)


def _become_carrier(server: socket.socket | None, state: Mapping[str, Any]) -> NoReturn:
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(state).encode())
        file.seek(0)
        passed = [file.fileno(), server.fileno() if server is not None else -1]
        for descriptor in passed:
            if descriptor >= 0:
                os.set_inheritable(descriptor, True)
        os.execv(sys.executable, [sys.executable, "-I", "-S", mcp_carrier.__file__, *map(str, passed)])


def _connected(flags: Mapping[str, str], tools: str) -> socket.socket:
    hello = {"folder": os.getcwd(), "tools": tools}
    return _Server(_run_folder() / _key(flags), flags, json.dumps(hello).encode() + b"\n").greeted()


def _run_folder() -> Path:
    """A folder that only this user can enter, with a short name: the path of a socket has about 100 characters."""
    if not hasattr(socket, "AF_UNIX"):
        raise Unavailable("this system has no local sockets")
    folder = runtime_folder()
    try:
        private_folder(folder)
        status = os.lstat(folder)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be used: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise Unavailable(f"{folder} belongs to another user, or is open to others")
    return folder


def _key(flags: Mapping[str, str]) -> str:
    """Names the server whose answers are the same as those of a server of this client's own."""
    about = [__version__, sys.executable, __file__, sorted(flags.items()), deciding_environment()]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


class _Server:
    """Finds the server, or starts it."""

    def __init__(self, place: Path, flags: Mapping[str, str], hello: bytes) -> None:
        self._place = place
        self._flags = flags
        self._hello = hello

    def greeted(self) -> socket.socket:
        """A connection to a server that has accepted us; it is started if necessary."""
        until = time.monotonic() + START_S
        starting: subprocess.Popen[bytes] | None = None
        while time.monotonic() < until:
            server = socket.socket(socket.AF_UNIX)
            try:
                server.settimeout(START_S)
                server.connect(str(self._place))
                server.sendall(self._hello)
                reply = _read_line(server)
                if reply:
                    server.settimeout(None)
                    _check_welcome(parsed(reply))
                    return server
            except (FileNotFoundError, ConnectionError, TimeoutError):
                pass
            except OSError as error:
                raise Unavailable(f"{self._place}: {error.strerror}") from error
            server.close()
            if starting is None or starting.poll() is not None:  # it may have found another one that was just ending
                starting = self._start()
            time.sleep(_RETRY_S)
        raise Unavailable(f"no server answered at {self._place}; {self._place}.log may say why")

    def _start(self) -> subprocess.Popen[bytes]:
        from codeinfo.index.pool import worker_command

        log = os.open(f"{self._place}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                worker_command("codeinfo.shells.mcp_relay"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # signals of one client's terminal must not end it
            )
        except OSError as error:
            raise Unavailable(f"a server could not be started: {error.strerror}") from error
        finally:
            os.close(log)
        assert process.stdin is not None
        with suppress(OSError), process.stdin as pipe:
            pipe.write(json.dumps({"place": str(self._place), "flags": dict(self._flags)}).encode())
        return process


def _check_welcome(welcome: Mapping[str, Any]) -> None:
    if "error" in welcome:
        kind = UsageError if welcome.get("exit") == UsageError.exit_code else CodeInfoError
        raise kind(welcome["error"], next_step=welcome.get("next", ""), code=welcome["code"])


def _read_line(server: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = server.recv(1)
        if not piece:
            return b""
        line += piece
    return line


def main() -> None:
    """The server's process."""
    given = json.loads(sys.stdin.buffer.read())
    from codeinfo.shells.mcp import serve_shared

    serve_shared(Path(given["place"]), given["flags"])
