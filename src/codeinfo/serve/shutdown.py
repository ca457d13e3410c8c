"""Starting and ending a server: one that could not work is not started, and requests that compute in threads, which
cannot be interrupted, do not hold up the end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from codeinfo.errors import Interrupted

DRAIN_S = 1  # for requests that are nearly done; uvicorn takes whole seconds
SHUTDOWN_S = 1.5  # from the signal to the end, whatever still runs: every store can be left at any moment

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Callable[[], Awaitable[Message]], Send], Awaitable[None]]


def check_threads() -> None:
    """Raises where no thread can be started, before a server promises anything."""
    probe = threading.Thread(target=int)
    probe.start()
    probe.join()


def end_by_deadline(exit_code: int = Interrupted.exit_code) -> None:
    """End the process after `SHUTDOWN_S` unless it has ended by then. Workers end when their pipes close."""
    deadline = threading.Timer(SHUTDOWN_S, os._exit, (exit_code,))
    deadline.daemon = True
    deadline.start()


def answer_cancelled(app: App, is_ending: Callable[[], bool]) -> App:
    """Requests that a shutdown cancels get 503 instead of a traceback in the log."""

    async def answering(scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, sending)
        except asyncio.CancelledError:
            if scope["type"] != "http" or not is_ending():
                raise
            if not started:
                headers = [(b"content-length", b"0"), (b"connection", b"close")]
                await send({"type": "http.response.start", "status": 503, "headers": headers})
                await send({"type": "http.response.body", "body": b""})

    return answering
