"""Searches in a process of their own, so that reading an index and talking to clients do not wait for each other's
interpreter.

The server's engine stays the owner of every index: it notices changes and brings indexes up to date. Only what is asked
of an index that is known to be as its files are goes aside; and whatever the process cannot do, because it is not there
yet, late, gone or fails, is done by the server as if there were no process.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct, field

from codeinfo.config import Config
from codeinfo.index.pool import worker_command
from codeinfo.shells.mcp_calls import Answered, Asked
from codeinfo.shells.search_worker import HEADER, Errand, packed

LATE_S = 1.0  # an answer takes milliseconds: who waited this long is better served by the server itself
STUCK_S = 60.0  # even a huge index is open by then
MOST_WAITING = 64  # their requests fit into the pipe, so that sending never waits
RESTART_S = 5.0  # between two starts, should it die again and again

log = logging.getLogger(__name__)


class _Waiting(Struct):
    """`mark` stands for the state of the project that is asked; `opens` says that no answer was made from it yet."""

    project: str
    mark: object
    opens: bool
    since: float = field(default_factory=time.monotonic)
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Answered | None = None


class Aside:
    """The search processes of one server: a further one is started when all others are busy."""

    def __init__(self, config: Config) -> None:
        """None of them on one core, where they would only take turns with the server; nor where meanings come from an
        endpoint or results are reranked, since a process that waits for a model answers nobody else."""
        local = config.embedding.provider in ("builtin", "none") and config.rerank.provider == "none"
        count = config.mcp.search_processes if local and (os.cpu_count() or 1) > 1 else 0
        self._processes = [SearchProcess(config) for _ in range(count)]

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for process in self._processes:
                tasks.start_soon(process.run)

    async def answer(self, asked: Asked) -> Answered | None:
        """The answer, or None where the server has to find it itself."""
        tool, values, project = asked.tool, asked.values, asked.project
        request = tool.aside(tool.request(values, project)) if asked.mark and self._processes else None
        if request is None:
            return None
        for process in self._processes:
            process.end_if_stuck()
        ready = [process for process in self._processes if process.is_ready]
        chosen = min(ready, key=SearchProcess.waiting, default=None)
        if (chosen is None or chosen.waiting()) and len(ready) < len(self._processes):
            next(process for process in self._processes if not process.is_ready).want()
        if chosen is None:
            return None
        return await chosen.answer(Errand(tool.name, request, values, project), asked.mark)


class SearchProcess:
    """`run` owns the process: it starts one when that is wanted, and ends it with itself."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._wanted = anyio.Event()
        self._ready: anyio.abc.Process | None = None
        self._waiting: list[_Waiting] = []  # in the order they will be answered in
        self._open: dict[str, object] = {}  # project → its state that something was answered from

    @property
    def is_ready(self) -> bool:
        return self._ready is not None and not any(one.opens for one in self._waiting)

    def waiting(self) -> int:
        return len(self._waiting)

    def want(self) -> None:
        self._wanted.set()

    def end_if_stuck(self) -> None:
        """`run` notices, and the next who wants one gets another."""
        if self._ready is not None and self._waited() > STUCK_S:
            log.warning("a search process did not answer for %.0f s and is ended", self._waited())
            self._ready.kill()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                if not await self._converse():
                    raise OSError("it ended at once")
            except OSError as error:
                log.warning("a search process does not start, the server does its work: %s", error)
                return
            self._wanted = anyio.Event()
            await anyio.sleep(RESTART_S)

    async def answer(self, errand: Errand, mark: object) -> Answered | None:
        """None also where the index has to be opened first: nobody waits for that, the next call finds it open."""
        if self._ready is None or self._waited() > LATE_S or len(self._waiting) >= MOST_WAITING:
            return None
        assert self._ready.stdin is not None
        waiting = _Waiting(errand.project, mark, opens=self._open.get(errand.project) is not mark)
        self._waiting.append(waiting)
        with anyio.move_on_after(LATE_S):
            try:
                await self._ready.stdin.send(packed(errand._replace(opens=waiting.opens)))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return None  # `run` notices as well
            if not waiting.opens:
                await waiting.done.wait()
        return waiting.answer

    def _waited(self) -> float:
        """How long ago the first errand was sent that is not answered yet."""
        return time.monotonic() - self._waiting[0].since if self._waiting else 0.0

    async def _converse(self) -> bool:
        """Start a process and take its answers until it ends; whether it ever was ready."""
        command = worker_command("codeinfo.shells.search_worker")
        was_ready = False
        async with await anyio.open_process(command, stderr=None, start_new_session=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            replies = BufferedByteReceiveStream(process.stdout)
            try:
                await process.stdin.send(packed(self._config))
                await _received(replies)
                self._ready, was_ready = process, True
                while True:
                    answer = await _received(replies)
                    waiting = self._waiting.pop(0)
                    waiting.answer = answer
                    waiting.done.set()
                    self._open[waiting.project] = waiting.mark
            except (anyio.IncompleteRead, anyio.BrokenResourceError):
                pass  # idle for long enough, or it died: who still waits is told so
            finally:
                self._ready = None
                for waiting in self._waiting:
                    waiting.done.set()
                self._waiting.clear()
                self._open.clear()
        return was_ready


async def _received(replies: BufferedByteReceiveStream) -> Any:
    size = int.from_bytes(await replies.receive_exactly(HEADER), "little")
    return pickle.loads(await replies.receive_exactly(size))
