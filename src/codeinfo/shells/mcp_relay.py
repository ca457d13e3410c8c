"""One MCP server for all agents of a user: `codeinfo mcp` hands its client over to that server.

The server is a background process, started on first use, one per version and settings; it ends soon after its last
client. Indexes, models and watchers then exist once, however many agents are at work. If there can be no such server
(no sockets, no private folder), the caller serves the client itself.

The server gets the descriptors of the client's pipes and talks to the client directly. The process that the client
started only waits until the session ends or the server dies. A waiting Python interpreter takes 3 MB for each agent, a
shell 0.15 MB, so the process becomes a shell. If the server dies, the shell becomes `resume`, which answers the open
requests with an error and hands the client over to another server when it sends something.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import logging
import os
import select
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from codeinfo import __version__
from codeinfo.config import deciding_environment, runtime_folder
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.files import private_folder

START_S = 20.0  # how long to wait for a server's answer
LOST = -32001  # the server died during a request
LONGEST_LINE = 16_000_000  # bytes; a longer one is a mistake, and must not fill the memory
_RETRY_S = 0.02
_PIECE = 1 << 16
_HELLO = 1 << 16  # bytes, at most: a path and names of tools
_LONG_JOURNAL = 1 << 18  # bytes; it is then cut down to what is still needed
_SHELL = "/bin/sh"
_WAIT = 'trap "exit 0" INT TERM; read -r end <&3 || exec "$@"'  # the server sends a line when the session is over
_SERVER, _JOURNAL = 3, 4  # descriptors while a shell waits

log = logging.getLogger(__name__)


class Unavailable(Exception):
    """A shared server is not possible here; the message says why."""


# --- the journal -----------------------------------------------------------------------------------------------------


class Journal:
    """What another server must know about a client if this one is killed. It is an unnamed file, which the waiting
    shell keeps open. The server appends a record for everything it reads from the client, and after each reply. A kill
    within the microseconds in between loses what was read but not yet recorded, or repeats a reply as an error with the
    same id, which clients ignore."""

    def __init__(self, descriptor: int) -> None:
        self.settings: dict[str, Any] = {}  # of the relay
        self.introduced = False  # `initialize` was answered
        self.pending: dict[str, Any] = {}  # ids of requests that were not answered
        self.part = bytearray()  # the beginning of a line
        self.is_cut = False  # a line may have been written in part
        self.first = b""  # what a new server reads before it reads from the client
        self._introduction = ""  # the id of `initialize`
        self._descriptor = descriptor
        self._lock = threading.Lock()
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", closefd=False) as file:
            for line in file:
                self._apply(parse_message(line))
        self._size = os.lseek(descriptor, 0, os.SEEK_END)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def record_input(self, piece: bytes) -> None:
        with self._lock:
            if b"\n" in piece or len(self.part) < LONGEST_LINE:
                self._record({"said": _as_text(piece)})

    def begin_line(self, line: bytes) -> None:
        if len(line) > select.PIPE_BUF:  # a shorter one is written atomically
            with self._lock:
                self._record({"cut": True})

    def end_line(self, answered: object) -> None:
        """Record that a line was written, and the id of the request that it answers, if any."""
        with self._lock:
            if self.is_cut or answered is not None:
                self._record({"answered": answered})
            if self._size > _LONG_JOURNAL and not self.pending:
                self.restart(bytes(self.part))

    def restart(self, unsent: bytes) -> None:
        """Keep what is needed from here on; `unsent` is what the next server reads first."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._size = 0
        self._record({"settings": self.settings, "introduced": self.introduced, "unsent": _as_text(unsent)})

    def _record(self, record: Mapping[str, Any]) -> None:
        self._apply(record)
        if self._descriptor < 0:
            return
        try:
            self._size += os.write(self._descriptor, json.dumps(record).encode() + b"\n")
        except OSError as error:  # the session continues, but could not be resumed
            log.warning("a client's messages cannot be recorded: %s", error.strerror)

    def _apply(self, record: Mapping[str, Any]) -> None:
        if "settings" in record:
            self.settings, self.introduced = record["settings"], record["introduced"]
            self.first, self.part = _as_bytes(record["unsent"]), bytearray()
            self.pending.clear()
            self._track(self.first)
        elif "said" in record:
            self._track(_as_bytes(record["said"]))
        elif "cut" in record:
            self.is_cut = True
        elif "answered" in record:
            self.is_cut = False
            self.pending.pop(repr(record["answered"]), None)
            self.introduced |= repr(record["answered"]) == self._introduction

    def _track(self, piece: bytes) -> None:
        self.part += piece
        if b"\n" in piece:
            *lines, self.part = self.part.split(b"\n")
            for line in lines:
                self._track_line(bytes(line))

    def _track_line(self, line: bytes) -> None:
        message = parse_message(line)
        method = message.get("method")
        if method == "initialize" and "id" in message:
            self._introduction = repr(message["id"])
        elif method == "notifications/cancelled" and isinstance(params := message.get("params"), dict):
            self.pending.pop(repr(params.get("requestId")), None)
        if method and "id" in message:
            self.pending[repr(message["id"])] = message["id"]


def parse_message(line: bytes | str) -> dict[str, Any]:
    """A message; empty if it is not one, which its receiver reports."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def write_all(descriptor: int, data: bytes) -> None:
    """Also works for a descriptor that another process made non-blocking."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            writable.poll()


# --- the server's end ------------------------------------------------------------------------------------------------


class Sink:
    """Where lines for a client are written; `journal` exists for a client of a relay."""

    def __init__(self, descriptor: int, journal: Journal | None = None) -> None:
        self._descriptor = descriptor
        self._journal = journal

    def write_line(self, line: bytes, answered: object) -> None:
        """`answered` is the id of the request the line replies to; None for other messages."""
        if self._journal is not None:
            self._journal.begin_line(line)
        write_all(self._descriptor, line)
        if self._journal is not None:
            self._journal.end_line(answered)

    def close(self) -> None:
        os.close(self._descriptor)
        if self._journal is not None:
            self._journal.close()


class Source(io.RawIOBase):
    """Reads from a client. Ends with the client, or with its relay."""

    def __init__(self, descriptor: int, journal: Journal | None = None, relay: socket.socket | None = None) -> None:
        self._descriptor = descriptor
        self._journal = journal
        self._relay = relay
        self._first = memoryview(journal.first if journal is not None else b"")
        self._changes = select.poll()
        self._changes.register(descriptor, select.POLLIN)
        if relay is not None:
            self._changes.register(relay, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._first:
            size = min(len(self._first), len(buffer))
            buffer[:size], self._first = self._first[:size], self._first[size:]
            return size
        while True:
            changed = dict(self._changes.poll())
            if self._relay is not None and self._relay.fileno() in changed:  # a relay sends nothing: it has gone
                return 0
            try:
                size = os.readv(self._descriptor, [buffer])
            except BlockingIOError:  # somebody made it non-blocking
                continue
            except OSError:
                return 0
            if self._journal is not None:
                self._journal.record_input(bytes(buffer[:size]))
            return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)
            if self._relay is not None:
                self._relay.close()


def receive_client(relay: socket.socket) -> tuple[dict[str, Any], Journal, Source, Sink] | None:
    """What a relay says about its client, its journal, and the client's pipes; None if the relay has gone."""
    hello, descriptors, _, _ = socket.recv_fds(relay, _HELLO, 3)
    if not hello:
        return None
    source, sink, recorded = descriptors
    journal = Journal(recorded)
    return parse_message(hello), journal, Source(source, journal, relay.dup()), Sink(sink, journal)


# --- the client's end ------------------------------------------------------------------------------------------------


def relay(flags: Mapping[str, str], tools: str) -> NoReturn:
    """Hand the client at standard input and output over to the shared server. Unavailable: nothing was read from it."""
    if not os.access(_SHELL, os.X_OK):
        raise Unavailable(f"this system has no {_SHELL}")
    journal = Journal(_open_unnamed_file())
    journal.settings = {"flags": dict(flags), "tools": tools}
    journal.restart(b"")
    _wait(_connect(journal), journal)


def resume() -> NoReturn:
    with suppress(KeyboardInterrupt, BrokenPipeError):  # how clients end a session
        _resume(Journal(_JOURNAL))
    os._exit(0)


def _resume(journal: Journal) -> None:
    if journal.is_cut:  # the rest of half a line, or otherwise a separate line
        about = {"level": "warning", "logger": "codeinfo", "data": "the server ended; another one takes over"}
        _send({"method": "notifications/message", "params": about})
    _refuse(journal.pending.values(), "the server ended while it worked on this; call again")
    unsent = bytes(journal.part)
    while piece := os.read(0, _PIECE):
        unsent += piece
        if b"\n" not in piece:
            continue
        journal.restart(unsent)
        try:
            server = _connect(journal)
        except (Unavailable, CodeInfoError, OSError) as error:
            *lines, unsent = unsent.split(b"\n")
            requests = [sent["id"] for sent in map(parse_message, lines) if "method" in sent and "id" in sent]
            _refuse(requests, f"the server ended, and no other could be started: {error}")
        else:
            _wait(server, journal)


def _refuse(requests: Iterable[object], problem: str) -> None:
    for identity in requests:
        _send({"id": identity, "error": {"code": LOST, "message": problem}})


def _send(message: Mapping[str, Any]) -> None:
    write_all(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _wait(server: socket.socket, journal: Journal) -> NoReturn:
    """Become a shell that waits for the end of the session, and becomes `resume` if the server dies first."""
    from codeinfo.index.pool import worker_command  # which loads more than a relay needs

    copies = [fcntl.fcntl(original.fileno(), fcntl.F_DUPFD, _JOURNAL + 1) for original in (server, journal)]
    for descriptor, place in zip(copies, (_SERVER, _JOURNAL), strict=True):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.execv(_SHELL, [_SHELL, "-c", _WAIT, _SHELL, *worker_command(__name__, "resume")])


def _open_unnamed_file() -> int:
    """In memory if the system offers that, so that a full disk does not matter."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("codeinfo-mcp")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _run_folder() -> Path:
    """A folder that only this user can enter, with a short name: a socket's path is limited to about 100 characters."""
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
    """The name of a server that would answer exactly as this client's own."""
    about = [__version__, sys.executable, __file__, sorted(flags.items()), deciding_environment()]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def _connect(journal: Journal) -> socket.socket:
    """A connection to a server that has taken over the client; it is started if necessary."""
    flags = journal.settings["flags"]
    place = _run_folder() / _key(flags)
    hello = json.dumps({"folder": os.getcwd(), "tools": journal.settings["tools"]}).encode() + b"\n"
    until = time.monotonic() + START_S
    starting: subprocess.Popen[bytes] | None = None
    while time.monotonic() < until:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.settimeout(START_S)
            server.connect(str(place))
            socket.send_fds(server, [hello], [0, 1, journal.fileno()])
            reply = server.makefile("rb", buffering=0).readline()  # unbuffered: what follows is for the shell
            if reply.endswith(b"\n"):
                server.settimeout(None)
                if refusal := parse_message(reply):
                    server.close()
                    kind = UsageError if refusal["exit"] == UsageError.exit_code else CodeInfoError
                    raise kind(refusal["error"], refusal["next"], code=refusal["code"])
                return server
        except (FileNotFoundError, ConnectionError, TimeoutError):
            pass
        except OSError as error:
            raise Unavailable(f"{place}: {error.strerror}") from error
        server.close()
        if starting is not None and (starting.poll() or 0) > 0:  # the next one would fail as well
            raise Unavailable(f"the server failed to start; {place}.log may say why")
        if starting is None or starting.poll() is not None:  # it ends at once if another one is still ending
            starting = _start_server(place, flags)
        time.sleep(_RETRY_S)
    raise Unavailable(f"no server answered at {place}; {place}.log may say why")


def _start_server(place: Path, flags: Mapping[str, str]) -> subprocess.Popen[bytes]:
    from codeinfo.index.pool import worker_command

    flags_of_log = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with open(os.open(f"{place}.log", flags_of_log, 0o600), "wb") as log_file:
            process = subprocess.Popen(
                worker_command("codeinfo.shells.mcp", "serve_shared"),
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                cwd="/",
                # Each client has two threads; glibc would give them separate heaps, which stay half empty.
                env=os.environ | {"MALLOC_ARENA_MAX": "1"},
                start_new_session=True,  # signals of one client's terminal must not end it
            )
    except OSError as error:
        raise Unavailable(f"a server could not be started: {error.strerror}") from error
    assert process.stdin is not None
    with suppress(OSError), process.stdin as pipe:
        pipe.write(json.dumps({"place": str(place), "flags": dict(flags)}).encode())
    return process
