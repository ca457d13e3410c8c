"""One MCP server for all agents of a user: `codeinfo mcp` carries messages between its client and that server.

The server is a background process, started when it is first needed, one for each version and settings; it ends soon
after its last client. Indexes, models and watchers then exist once, however many agents are at work. Should it die,
the next message starts another one, which is introduced to the client as the client introduced itself. Where there
can be no such server (no sockets, no private folder), the caller serves the client by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from codeinfo import __version__
from codeinfo.config import deciding_environment, runtime_folder
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.private_files import private_folder

START_S = 20.0  # a server that does not answer by then is given up
LONGEST_PIECE = 1 << 20
LOST = -32001  # the server died while it worked on a request
_RETRY_S = 0.02
_FLUSH_S = 2.0


class Unavailable(Exception):
    """There can be no shared server here; the message says why."""


def relay(flags: Mapping[str, str], tools: str) -> NoReturn:
    """Serve the client at standard input and output by the shared server; raises Unavailable before any message."""
    place = _run_folder() / _key(flags)
    carrier = _Carrier(place, flags, {"folder": os.getcwd(), "tools": tools})
    carrier.connect()
    with suppress(KeyboardInterrupt):  # a client's way to say goodbye
        carrier.run()
    os._exit(0)  # the reader may still wait for the server


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
        raise Unavailable(f"{folder} belongs to somebody else, or others may enter it")
    return folder


def _key(flags: Mapping[str, str]) -> str:
    """Names the server whose answers are the same as those of a server of this client's own."""
    about = [__version__, sys.executable, __file__, sorted(flags.items()), deciding_environment()]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


class _Carrier:
    def __init__(self, place: Path, flags: Mapping[str, str], hello: Mapping[str, str]) -> None:
        self._place = place
        self._flags = flags
        self._hello = json.dumps(hello).encode() + b"\n"
        self._lock = threading.Lock()
        self._server: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._open: dict[str, Any] = {}  # ids of requests that were not answered yet
        self._introduction: list[bytes] = []  # `initialize` and `initialized`, to be said again to another server
        self._unheard = ""  # the id of an `initialize` that was said again: the client has its reply already

    def run(self) -> None:
        """Until the client closes our standard input."""
        source = os.fdopen(os.dup(0), "rb")
        while piece := source.readline(LONGEST_PIECE):
            self._forward(piece)
        with self._lock:
            server, reader = self._server, self._reader
        if server is not None and reader is not None:
            with suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            reader.join(_FLUSH_S)

    # --- to the server ---

    def _forward(self, line: bytes) -> None:
        message = _parsed(line)
        with self._lock:
            lost = self._server is None
        if lost:
            try:
                self.connect()
            except (Unavailable, CodeInfoError) as error:
                _refuse(message, f"the server ended, and no other could be started: {error}")
                return
        if message.get("method") == "initialize":
            self._introduction = [line]
        elif message.get("method") == "notifications/initialized":
            self._introduction = [*self._introduction[:1], line]
        with self._lock:
            server = self._server
            if "method" in message and "id" in message:
                self._open[repr(message["id"])] = message["id"]
        if server is None:  # it died just now; what was open has been answered
            self._give_up_open()
            return
        with suppress(OSError):  # the reader notices, too, and answers for it
            server.sendall(line)

    def connect(self) -> None:
        server = self._greeted()
        with self._lock:
            self._server = server
            if self._introduction:
                self._unheard = repr(_parsed(self._introduction[0]).get("id"))
            self._reader = threading.Thread(target=self._read, args=(server,), name="relay", daemon=True)
            self._reader.start()
        for line in self._introduction:
            with suppress(OSError):
                server.sendall(line)

    def _greeted(self) -> socket.socket:
        """A connection to a server that has accepted us; it is started if need be."""
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
                    _check_welcome(_parsed(reply))
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
        from codeinfo.index.pool import worker_command  # which loads more than a relay needs

        log = os.open(f"{self._place}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                worker_command("codeinfo.shells.mcp_relay"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # signals of a client's terminal are not for all
            )
        except OSError as error:
            raise Unavailable(f"a server could not be started: {error.strerror}") from error
        finally:
            os.close(log)
        assert process.stdin is not None
        with suppress(OSError), process.stdin as pipe:
            pipe.write(json.dumps({"place": str(self._place), "flags": dict(self._flags)}).encode())
        return process

    # --- to the client ---

    def _read(self, server: socket.socket) -> None:
        with server.makefile("rb") as replies:
            while True:
                try:
                    line = replies.readline()
                except OSError:
                    break
                if not line:
                    break
                message = _parsed(line)
                if "method" not in message and "id" in message:
                    identity = repr(message["id"])
                    if identity == self._unheard:
                        self._unheard = ""
                        continue
                    with self._lock:
                        self._open.pop(identity, None)
                _write(line)
        with self._lock:
            if self._server is server:
                self._server = None
        server.close()
        self._give_up_open()

    def _give_up_open(self) -> None:
        with self._lock:
            lost, self._open = self._open, {}
        for identity in lost.values():
            _refuse({"id": identity}, "the server ended while it worked on this; call again")


def _refuse(request: Mapping[str, Any], problem: str) -> None:
    if "id" in request:
        error = {"code": LOST, "message": problem}
        _write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n")


def _check_welcome(welcome: Mapping[str, Any]) -> None:
    if "error" in welcome:
        kind = UsageError if welcome.get("exit") == UsageError.exit_code else CodeInfoError
        raise kind(welcome["error"], next_step=welcome.get("next", ""), code=welcome["code"])


def _parsed(line: bytes) -> dict[str, Any]:
    """A message, or nothing where it is none; who gets it says what is wrong with it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _read_line(server: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = server.recv(1)
        if not piece:
            return b""
        line += piece
    return line


def _write(line: bytes) -> None:
    view = memoryview(line)
    with suppress(OSError):  # nobody reads any more: the end of our input follows
        while view:
            view = view[os.write(1, view) :]


def main() -> None:
    """The server's process."""
    given = json.loads(sys.stdin.buffer.read())
    from codeinfo.shells.mcp_shared import serve_shared

    serve_shared(Path(given["place"]), given["flags"])
