"""The server's end of standard input and output: one JSON-RPC message a line, and nothing else.

The SDK's own transport drops what it cannot read without a word. This one answers it, so that a client learns of its
mistake, and keeps reading. Threads read and write, so that neither a silent nor a slow client blocks the rest.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

import anyio
import anyio.from_thread
import anyio.lowlevel
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

LONGEST_LINE = 16_000_000  # bytes; more is no message but a mistake, and must not fill the memory
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_CLOSE_S = 1.0

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class Wire:
    """Standard input and output, taken over: whatever else this process or its children print goes to stderr."""

    def __init__(self) -> None:
        self._source: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._sink = os.dup(1)
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._open_ids: set[str] = set()
        self._writer = threading.Thread(target=self._write, name="mcp writer", daemon=True)
        self._writer.start()

    def read(self) -> SessionMessage | None:
        """The next message; None when the client has gone. What is no message is answered here."""
        while line := self._source.readline(LONGEST_LINE):
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                self._skip_line()
                self._refuse(_INVALID_REQUEST, f"a message has at most {LONGEST_LINE} bytes")
            elif line.strip() and (message := self._parsed(line)) is not None:
                return SessionMessage(message)
        return None

    def send(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._open_ids.discard(repr(message.id))
        self._lines.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    def close(self) -> None:
        """What was sent is written; a client that does not read is not waited for."""
        self._lines.put(None)
        self._writer.join(_CLOSE_S)

    def _parsed(self, line: bytes) -> types.JSONRPCMessage | None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._refuse_unreadable(line)
            return None
        if isinstance(message, types.JSONRPCRequest):
            if repr(message.id) in self._open_ids:
                # Without its id: the reply to the first request of that id is still to come.
                self._refuse(_INVALID_REQUEST, f"a request with id {message.id!r} is still being answered")
                return None
            self._open_ids.add(repr(message.id))
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open_ids.discard(repr((message.params or {}).get("requestId")))  # it will not be answered
        return message

    def _refuse_unreadable(self, line: bytes) -> None:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(_PARSE_ERROR, "not JSON: one message a line is expected")
            return
        given = content.get("id") if isinstance(content, dict) else None
        identity = given if isinstance(given, str | int) and not isinstance(given, bool) else None
        self._refuse(_INVALID_REQUEST, "not a JSON-RPC 2.0 message", identity)

    def _refuse(self, code: int, words: str, identity: str | int | None = None) -> None:
        error = {"code": code, "message": words}
        self._lines.put(json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n")

    def _skip_line(self) -> None:
        while (rest := self._source.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            view = memoryview(line)
            with suppress(OSError):  # nobody reads any more: the reader's end of file ends the server
                while view:
                    view = view[os.write(self._sink, view) :]


@asynccontextmanager
async def stdio() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Streams for the SDK's server; the first ends when the client closes our standard input."""
    wire = Wire()
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](64)
    token = anyio.lowlevel.current_token()

    def deliver() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError):  # the server ends first
            while (message := wire.read()) is not None:
                anyio.from_thread.run(received.send, message, token=token)
            anyio.from_thread.run(received.aclose, token=token)

    async def collect() -> None:
        async with to_send:
            async for message in to_send:
                wire.send(message.message)

    threading.Thread(target=deliver, name="mcp reader", daemon=True).start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect)
        yield incoming, outgoing
        await outgoing.aclose()
    wire.close()
