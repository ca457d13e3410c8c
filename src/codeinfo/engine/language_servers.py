"""Installed language servers, asked over pipes, as editors do, where a definition is used and what it calls.

A language server may run code of the project, so only the user's own settings enable this. One is started per project
and language family on first use, monitored while it works, and terminated with its process group when idle. It is never
required: whatever it does not answer in time is answered without it, with a note.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct, field

from codeinfo.cache import group_by_key, start_timer
from codeinfo.graph.scip import CALLS, MEANING, USES, Proven, Question
from codeinfo.index.pool import PipedProcess
from codeinfo.languages.model import FileFacts, language_family
from codeinfo.model import json_decoder
from codeinfo.settings import CodeSettings

_IDLE_S = 180.0  # idle time before a server is stopped; the next question starts another
_PAUSE_S = 300.0  # before a server that failed is started again
_MOST = 3  # servers at once; starting another stops the least recently used
_LOOK_S = 0.25  # between checks of the memory
_MOST_BYTES = 64_000_000  # of one message
_MOST_HEADER = 4096
_CHANGED = 2  # a type of change
_MOST_QUOTED = 200  # characters of its stderr in a message
_MOST_TIMEOUTS = 2  # in a row; then it counts as stuck
_STATUS = "experimental/serverStatus"
_LOADING = frozenset({"window/logMessage", _STATUS})
_NO_PROTOCOL = "did not follow the protocol"
_RETRIED = frozenset({-32801, -32802, -32800})  # the content changed during the request: it is still loading
_WORD = re.compile(r"[^\W\d][\w$]*")
_LINE_END = re.compile(r"\r\n|\n|\r")
_Files = Mapping[str, FileFacts]  # by path
_Answers = dict[Question, tuple[Proven, ...]]


class Server(Struct, frozen=True):
    """How to start and configure the server of a language family."""

    commands: tuple[tuple[str, ...], ...]  # the first one installed is used
    options: Mapping[str, Any] = {}
    sections: Mapping[str, Any] = {}  # settings it requests
    opens: bool = False  # it ignores unopened documents, and then reports no uses
    loaded: str = ""  # notification that everything is loaded; earlier answers do not count


_PYRIGHT = {"analysis": {"autoSearchPaths": True, "diagnosticMode": "openFilesOnly"}}
# Run as little of the project as possible, and fetch nothing.
_RUST = {
    "cargo": {"buildScripts": {"enable": False}, "features": "all"},
    "procMacro": {"enable": False},
    "checkOnSave": False,
}
SERVERS: Mapping[str, Server] = {
    "python": Server(
        (("basedpyright-langserver", "--stdio"), ("pyright-langserver", "--stdio")),
        sections={"python": _PYRIGHT, "basedpyright": _PYRIGHT},
        loaded="source file",
    ),
    "ecmascript": Server(
        (("typescript-language-server", "--stdio"),),
        # The syntax server answers while a project loads, from the one file it sees.
        options={"disableAutomaticTypingAcquisition": True, "tsserver": {"useSyntaxServer": "never"}},
        opens=True,
    ),
    "go": Server((("gopls",),)),
    "rust": Server((("rust-analyzer",),), options=_RUST, sections={"rust-analyzer": _RUST}, loaded='"quiescent":true'),
}
_OFFLINE = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "CARGO_NET_OFFLINE": "true"}
_LANGUAGE_IDS = {
    ".py": "python", ".pyi": "python", ".go": "go", ".rs": "rust", ".ts": "typescript", ".mts": "typescript",
    ".cts": "typescript", ".tsx": "typescriptreact", ".jsx": "javascriptreact",
}  # fmt: skip


class ServerFailed(Exception):
    """The server can no longer be used: it ended, grew too large or violated the protocol."""


class ServerTimeout(Exception):
    """It did not answer in time."""


class ServerRefused(Exception):
    """It answered with an error."""


# The parts of replies that are used. Positions are (line, character) from 0, in UTF-16 units.


class _Position(Struct):
    line: int
    character: int


class _Range(Struct):
    start: _Position
    end: _Position


class _Location(Struct):
    uri: str
    range: _Range


class _Callee(Struct, rename="camel"):
    uri: str
    selection_range: _Range


class _Call(Struct, rename="camel"):
    to: _Callee
    from_ranges: list[_Range]


class _Items(Struct):
    items: list[dict[str, Any]]


class _Error(Struct):
    code: int = 0
    message: str = ""


class _Message(Struct):
    id: int | str | None = None
    method: str = ""
    params: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"null"))
    result: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"null"))
    error: _Error | None = None


class _Connection(PipedProcess):
    """JSON-RPC over a process's pipes, each message after a header with its size."""

    def post(self, **message: Any) -> None:
        """Queue a message; the next `receive` sends it."""
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self._outgoing += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def _whole_message(self) -> Any:
        header, separator, _ = self._incoming[:_MOST_HEADER].partition(b"\r\n\r\n")
        if not separator:
            if len(self._incoming) >= _MOST_HEADER:
                raise ServerFailed(_NO_PROTOCOL)
            return None
        sizes = [line[15:].strip() for line in header.split(b"\r\n") if line[:15].lower() == b"content-length:"]
        if len(sizes) != 1 or not sizes[0].isdigit():
            raise ServerFailed(_NO_PROTOCOL)
        start, size = len(header) + 4, int(sizes[0])
        if size > _MOST_BYTES:
            raise ServerFailed(f"sent a message of {size >> 20} MB")
        if len(self._incoming) < start + size:
            return None
        body = bytes(self._incoming[start : start + size])
        del self._incoming[: start + size]
        return _decode(body, _Message)


class LanguageServer:
    """One running server. Used by one thread at a time, which holds `lock`."""

    def __init__(self, server: Server, command: tuple[str, ...], root: Path, memory_bytes: int) -> None:
        """Raises OSError if it cannot be started."""
        self.lock = threading.Lock()
        self.name = command[0]
        self.used = time.monotonic()
        self.timeouts = 0
        self._server, self._command, self._root, self._memory_bytes = server, command, root, memory_bytes
        self._number = 0
        self._looked = 0.0
        self._start()

    def _start(self) -> None:
        node = {"NODE_OPTIONS": f"--max-old-space-size={self._memory_bytes >> 20}"}
        self.process = _Connection(self._command, self._root, {**node, **os.environ, **_OFFLINE})
        self._post = self.process.post
        self._files: _Files | None = None
        self._opened: dict[str, int] = {}  # path → version
        self._is_loaded = not self._server.loaded
        self.warning = ""  # what it says it lacks

    def _wait(self, until: Callable[[_Message], bool], deadline: float) -> _Message:
        """The first message for which `until` is true; requests from the server are answered meanwhile."""
        while True:
            now = time.monotonic()
            if now >= deadline:
                raise ServerTimeout
            if now >= self._looked + _LOOK_S:
                self._looked = now
                if self.process.has_ended:  # processes it started may still hold its pipes
                    raise ServerFailed("ended")
                if (size := group_bytes(self.process.pid)) > self._memory_bytes:
                    raise ServerFailed(f"took {size >> 20} MB of memory")
            try:
                message: _Message | None = self.process.receive(min(deadline, now + _LOOK_S))
            except EOFError:
                raise ServerFailed("ended") from None
            if message is None:
                continue
            if message.method in _LOADING and self._server.loaded in bytes(message.params).decode("utf-8", "replace"):
                self._is_loaded = True
            if message.method == _STATUS:
                self.warning = _decode(message.params, dict[str, Any]).get("message") or ""
            if message.method and message.id is not None:
                self._post(id=message.id, result=self._reply(message))
            if until(message):
                return message

    def _reply(self, request: _Message) -> Any:
        if request.method != "workspace/configuration":
            return None
        return [self._server.sections.get(item.get("section", "")) for item in _decode(request.params, _Items).items]

    def _ask(self, method: str, params: Any, deadline: float) -> msgspec.Raw:
        while True:
            self._number += 1
            self._post(id=self._number, method=method, params=params)
            try:
                reply = self._wait(lambda message: not message.method and message.id == self._number, deadline)
            except ServerTimeout:
                self._post(method="$/cancelRequest", params={"id": self._number})
                raise
            if reply.error is None:
                return reply.result
            if reply.error.code not in _RETRIED:
                raise ServerRefused(f"says: {_quote(reply.error.message)}")
            time.sleep(0.1)

    def open(self, files: _Files, deadline: float) -> None:
        """Open the session, or send the edits since the last question. If files were added or removed, start another
        process: a server looks for them in its own time, and until then answers without them."""
        before = self._files
        if before is not None and before.keys() != files.keys():
            self.process.end()
            self._start()
            before = None
        if before is None:
            self._initialize(deadline)
        else:
            edited = [path for path, facts in files.items() if facts.file_id != before[path].file_id]
            changes = [{"uri": (self._root / path).as_uri(), "type": _CHANGED} for path in edited]
            if changes:
                self._post(method="workspace/didChangeWatchedFiles", params={"changes": changes})
            for path in edited:
                if path in self._opened:
                    self._open_document(path)
        self._files = files
        if not self._is_loaded:
            self._wait(lambda _: self._is_loaded, deadline)

    def _initialize(self, deadline: float) -> None:
        uri = self._root.as_uri()
        capabilities = {
            "general": {"positionEncodings": ["utf-16"]},
            "workspace": {
                "configuration": True,
                "workspaceFolders": True,
                "didChangeWatchedFiles": {"dynamicRegistration": True},
            },
            # The last one keeps a server from sending unrequested diagnostics.
            "textDocument": {"references": {}, "definition": {}, "callHierarchy": {}, "diagnostic": {}},
            "experimental": {"serverStatusNotification": True},
        }
        parameters = {
            "processId": os.getpid(),
            "rootUri": uri,
            "workspaceFolders": [{"uri": uri, "name": self._root.name}],
            "capabilities": capabilities,
            "initializationOptions": self._server.options,
        }
        try:
            self._ask("initialize", parameters, deadline)
        except ServerRefused as error:
            raise ServerFailed(str(error)) from error
        except ServerTimeout:
            raise ServerFailed("did not start in time") from None
        self._post(method="initialized", params={})

    def answer_all(self, questions: Sequence[Question], deadline: float, answers: _Answers) -> str:
        """Add the answers; returns why some are missing."""
        why = ""
        for question in questions:
            try:
                answers[question] = self.answer(question, deadline)
            except ServerRefused as error:
                why = f"{self.name} {error}"
        self.timeouts = 0
        if self.warning and not any(map(answers.get, questions)):  # empty, since it lacks something
            for question in questions:
                answers.pop(question, None)
            why = why or f"{self.name} says: {_quote(self.warning)}"
        return why

    def answer(self, question: Question, deadline: float) -> tuple[Proven, ...]:
        path = self._root / question.path
        character = question.column
        if character < 0:
            line = dict(enumerate(_LINE_END.split(_text(path)), 1)).get(question.line, "")
            column = name_column(line, question.name)
            if column < 0:  # the file has changed since
                return ()
            character = len(line[:column].encode("utf-16-le")) // 2
        position = {"line": question.line - 1, "character": character}
        place = {"textDocument": {"uri": path.as_uri()}, "position": position}
        ask = {USES: self._references, CALLS: self._callees, MEANING: self._meaning}[question.kind]
        # Most know the files of a project, and check every opened one, which takes longer than answering.
        if question.path not in self._opened:
            if not self._server.opens:
                with suppress(ServerRefused):
                    if (proven := ask(place, question.path, deadline)) is not None:
                        return proven
            self._open_document(question.path)
        return ask(place, question.path, deadline) or ()

    def _open_document(self, name: str) -> None:
        """Documents stay open: a server may unload a project when its last document is closed."""
        path = self._root / name
        document = {"uri": path.as_uri(), "version": self._opened.get(name, -1) + 1}
        if name in self._opened:
            changed = {"textDocument": document, "contentChanges": [{"text": _text(path)}]}
            self._post(method="textDocument/didChange", params=changed)
        else:
            opened = {**document, "languageId": _LANGUAGE_IDS.get(path.suffix, "javascript"), "text": _text(path)}
            self._post(method="textDocument/didOpen", params={"textDocument": opened})
        self._opened[name] = self._opened.get(name, -1) + 1

    # None of these: the server does not know the file.

    def _references(self, place: dict[str, Any], _: str, deadline: float) -> tuple[Proven, ...] | None:
        parameters = {**place, "context": {"includeDeclaration": False}}
        locations = _decode(self._ask("textDocument/references", parameters, deadline), list[_Location] | None)
        if locations is None:
            return None
        return tuple(self._proven(self._path(location.uri), location.range) for location in locations)

    def _callees(self, place: dict[str, Any], path: str, deadline: float) -> tuple[Proven, ...] | None:
        items = _decode(self._ask("textDocument/prepareCallHierarchy", place, deadline), list[Any] | None)
        if items is None:
            return None
        if not items:
            return ()
        calls = _decode(self._ask("callHierarchy/outgoingCalls", {"item": items[0]}, deadline), list[_Call] | None)
        return tuple(
            self._proven(path, place_of_call, self._path(call.to.uri), call.to.selection_range.start.line + 1)
            for call in calls or ()
            for place_of_call in call.from_ranges
        )

    def _meaning(self, place: dict[str, Any], path: str, deadline: float) -> tuple[Proven, ...] | None:
        locations = _decode(self._ask("textDocument/definition", place, deadline), _Location | list[_Location] | None)
        if locations is None:
            return None
        targets = locations if isinstance(locations, list) else [locations]
        return tuple(
            Proven(path, 0, 0, 0, self._path(location.uri), location.range.start.line + 1) for location in targets
        )

    @staticmethod
    def _proven(path: str, place: _Range, target: str = "", target_line: int = 0) -> Proven:
        start, end = place.start, place.end
        first = start.character if end.line == start.line else 0
        return Proven(path, end.line + 1, first, end.character, target, target_line)

    def _path(self, uri: str) -> str:
        """The path in the index; empty for a file outside the project."""
        path = Path(unquote(urlsplit(uri).path))
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else ""


def _decode(data: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return json_decoder(kind).decode(data)
    except msgspec.DecodeError as error:
        raise ServerFailed(_NO_PROTOCOL) from error


def _quote(message: str) -> str:
    return " ".join(message.split())[:_MOST_QUOTED]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:  # deleted meanwhile
        return ""


def name_column(line: str, name: str) -> int:
    """The column of a name in the line that defines it; -1 if it is not there. In `func (t Table) Table() Table` it is
    the one before the parenthesis."""
    words = [word for word in _WORD.finditer(line) if word.group() == name]
    called = (word.start() for word in words if line[word.end() : word.end() + 1] in ("(", "<", "["))
    return next(called, words[0].start() if words else -1)


def group_bytes(leader: int) -> int:
    """The memory of a process and its descendants; 0 if the system does not say."""
    total = 0
    for entry in os.scandir("/proc") if os.path.isdir("/proc/self") else ():
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat", "rb") as status:
                    fields = status.read().rpartition(b")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[2]) == leader:
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


_Key = tuple[Path, str]  # a project's folder and a language family


class LanguageServers:
    """The servers of this process, one per project and language family."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[_Key, LanguageServer] = {}
        self._failed: dict[_Key, tuple[float, str]] = {}  # when, and why
        self._timer: threading.Timer | None = None

    def ask(
        self, root: Path, settings: CodeSettings, files: _Files, questions: Iterable[Question], deadline: float
    ) -> tuple[_Answers, tuple[str, ...]]:
        """What is answered in time, and notes on the rest. Languages without a server are left out."""
        answers: _Answers = {}
        notes = []
        by_family = group_by_key((language_family(files[question.path].language), question) for question in questions)
        for name, of_family in by_family.items():
            if name not in SERVERS:
                answers.update(dict.fromkeys(of_family, ()))
            elif why := self._ask((root.resolve(), name), settings, files, of_family, deadline, answers):
                notes.append(f"{why}: references are resolved without it")
        return answers, tuple(notes)

    def _ask(
        self,
        key: _Key,
        settings: CodeSettings,
        files: _Files,
        questions: Sequence[Question],
        deadline: float,
        answers: _Answers,
    ) -> str:
        """Add one server's answers; returns why some are missing."""
        server = self._take(key, settings)
        if isinstance(server, str):
            return server
        late = f"{server.name} did not answer within {settings.server_timeout_s:g} s"
        if not server.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return late
        try:
            if self._running.get(key) is not server:
                raise ServerFailed("ended")
            server.open(files, deadline)
            return server.answer_all(questions, deadline, answers)
        except ServerTimeout:
            server.timeouts += 1
            if server.timeouts == _MOST_TIMEOUTS:
                self._fail(key, server, late)
            return late
        except (ServerFailed, OSError) as error:
            return self._fail(key, server, f"{server.name} {error}")
        finally:
            server.used = time.monotonic()
            server.lock.release()
            self._end_unused()

    def _take(self, key: _Key, settings: CodeSettings) -> LanguageServer | str:
        """The running server, started if necessary; or why there is none."""
        root, family = key
        commands = SERVERS[family].commands
        command = next((words for words in commands if shutil.which(words[0])), None)
        if command is None:
            return f"{' or '.join(words[0] for words in commands)} is not installed"
        failed, why = self._failed.get(key, (-_PAUSE_S, ""))
        if time.monotonic() < failed + _PAUSE_S:
            return f"{why} (not started again for {_PAUSE_S / 60:.0f} minutes)"
        with self._lock:
            try:
                if key not in self._running:
                    memory_bytes = settings.server_memory_mb << 20
                    self._running[key] = LanguageServer(SERVERS[family], command, root, memory_bytes)
            except OSError as error:
                return f"{command[0]} cannot be started ({error})"
            self._running[key].used = time.monotonic()
            return self._running[key]

    def _fail(self, key: _Key, server: LanguageServer, why: str) -> str:
        with self._lock:
            self._failed[key] = (time.monotonic(), why)
            if self._running.get(key) is server:
                del self._running[key]
        server.process.end()
        return why

    def _end_unused(self) -> None:
        """Stop servers that are idle or too many; schedule the next check."""
        with self._lock:
            by_use = sorted(self._running.items(), key=lambda item: item[1].used)
            for number, (key, server) in enumerate(by_use, 1):
                is_unused = number <= len(by_use) - _MOST or time.monotonic() >= server.used + _IDLE_S
                if is_unused and server.lock.acquire(blocking=False):
                    del self._running[key]
                    server.process.end()
                    server.lock.release()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = start_timer(_IDLE_S, self._end_unused) if self._running else None

    def close(self) -> None:
        with self._lock:
            running, self._running = self._running, {}
            if self._timer is not None:
                self._timer.cancel()
        for server in running.values():
            server.process.kill()
            with server.lock:  # the thread using it notices that it ended
                server.process.end()
