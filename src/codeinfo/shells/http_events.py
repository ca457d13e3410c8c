"""News from worker threads to whoever listens on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator


class Bell:
    """Rung from any thread; each listener's event is set on its own loop. Rings in between are one ring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def ring(self) -> None:
        with self._lock:
            listeners = list(self._listeners.items())
        for event, loop in listeners:
            with contextlib.suppress(RuntimeError):  # its loop has just ended
                loop.call_soon_threadsafe(event.set)

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        with self._lock:
            self._listeners[event] = asyncio.get_running_loop()
        try:
            yield event
        finally:
            with self._lock:
                del self._listeners[event]
