"""Calls of a server: each runs in a thread, reports its progress and can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from codeinfo.operations.base import Progress

if TYPE_CHECKING:
    from codeinfo.ports import Delta, Llm


class Call:
    """One call in a worker thread. Long work tells it how far it is, and is stopped there once it is cancelled."""

    def __init__(self) -> None:
        self.latest: Progress | None = None
        self._cancelled = threading.Event()
        self._stream: Any = None

    def progress(self, progress: Progress) -> None:
        self.check()
        self.latest = progress

    def check(self, step: object = None) -> None:
        """Also takes the words and steps of an answer, which it has no use for."""
        if self._cancelled.is_set():
            raise KeyboardInterrupt

    def cancel(self) -> None:
        """From any thread: the next check raises, and a model that is being waited for is hung up on."""
        self._cancelled.set()
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()

    def stoppable(self, llm: Llm) -> Llm:
        return _Stoppable(llm, self)

    def follow(self, stream: Iterator[Delta]) -> Iterator[Delta]:
        self._stream = stream
        self.check()  # after the stream is known: a cancellation in between closes it or is seen here
        try:
            for delta in stream:
                self.check()
                yield delta
        finally:
            self._stream = None
            self.check()


class _Stoppable:
    """A chat model whose replies end when the call does, also before their first word."""

    def __init__(self, llm: Llm, call: Call) -> None:
        self._llm = llm
        self._call = call

    @property
    def model_id(self) -> str:
        return self._llm.model_id

    def stream(self, messages: Any, **options: Any) -> Iterator[Delta]:
        return self._call.follow(self._llm.stream(messages, **options))
