"""The background server that all agents of a user share; `mcp_relay` connects them to it."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.to_thread

from codeinfo.config import Config
from codeinfo.errors import CodeInfoError
from codeinfo.index.pool import resident_bytes
from codeinfo.private_files import open_private, try_lock
from codeinfo.serve.dispatch import MOST_WAITING
from codeinfo.shells.mcp import (
    LONGEST_LINE,
    Service,
    Wire,
    end_on_signal,
    first_cause,
    make_server,
    own_engine,
    own_service,
    streams_of,
)
from codeinfo.shells.mcp_catalog import chosen_tools

LINGER_S = 3.0  # so long it waits for another client

log = logging.getLogger(__name__)


class SharedServer:
    """Serves all clients of this user that connect to a socket, until none has been there for a while."""

    def __init__(self, listener: socket.socket, flags: Mapping[str, str]) -> None:
        self._listener = listener
        self._flags = flags
        self._config = Config.load(flags, cwd=Path("/"))
        self._lease = own_engine(self._config)
        self._clients = 0
        self._last_seen = time.monotonic()

    async def run(self) -> None:
        self._listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_when_alone, tasks.cancel_scope)
            while True:
                await anyio.wait_readable(self._listener)
                with suppress(OSError):  # the client is gone already
                    client, _ = self._listener.accept()
                    self._clients += 1
                    tasks.start_soon(self._serve, client)

    async def _end_when_alone(self, scope: anyio.CancelScope) -> None:
        while self._clients or time.monotonic() - self._last_seen < LINGER_S:
            await anyio.sleep(LINGER_S / 4)
            if resident_bytes(os.getpid()) > self._config.mcp.memory_mb << 20:
                await anyio.to_thread.run_sync(partial(self._lease.release_if_idle, 0.0))
        scope.cancel()

    async def _serve(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as source:
                client.setblocking(True)
                service = await anyio.to_thread.run_sync(self._welcomed, client, source)
                if service is not None:
                    server = make_server(service)
                    async with streams_of(Wire(source, client.fileno())) as (incoming, outgoing):
                        await server.run(incoming, outgoing, server.create_initialization_options())
        except Exception as error:  # of one client: the others go on
            log.warning("a client's session ended: %s", first_cause(error))
        finally:
            self._clients -= 1
            self._last_seen = time.monotonic()

    def _welcomed(self, client: socket.socket, source: BinaryIO) -> Service | None:
        """A service for the client, once it has said what it wants; None where that cannot be had."""
        hello = source.readline(LONGEST_LINE)
        if not hello:
            return None
        wanted = json.loads(hello)
        try:
            config = Config.load(self._flags, cwd=Path(wanted["folder"]))
            service = own_service(config, chosen_tools(wanted["tools"].split(",")), self._lease, wanted["folder"])
        except CodeInfoError as error:
            answer = {"error": error.what, "next": error.next_step, "code": error.code, "exit": error.exit_code}
            client.sendall(json.dumps(answer).encode() + b"\n")
            return None
        client.sendall(b"{}\n")
        return service

    def close(self) -> None:
        self._lease.close()


def serve_shared(place: Path, flags: Mapping[str, str]) -> None:
    """Serve at the socket `place` unless another process does; never returns."""
    lock = open_private(f"{place}.lock", os.O_RDWR)
    if not try_lock(lock, place):
        os._exit(0)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)  # for people who look
    place.unlink(missing_ok=True)  # of a server that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(MOST_WAITING)
        logging.basicConfig(
            stream=sys.stderr, level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        server = SharedServer(listener, flags)
        signal.signal(signal.SIGTERM, end_on_signal)
        with suppress(KeyboardInterrupt):
            anyio.run(server.run)
        place.unlink(missing_ok=True)
        server.close()
    os._exit(0)  # a worker thread may still be busy
