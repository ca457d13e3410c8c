"""A process that answers searches for a server, from indexes that the server keeps fresh (see `mcp_aside`).

Messages on both pipes are a length and a pickle. The first one in is the configuration, answered by an empty message;
each further one is an `Errand`, answered by the reply, or by None where the server has to do it itself. They are done
one after another: each takes milliseconds, and threads would only take the interpreter from each other. The process
ends when its input does, or when nobody has asked for a while.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from codeinfo.serve.dispatch import Call
from codeinfo.shells.mcp_calls import Answered, answered
from codeinfo.shells.mcp_catalog import chosen_tools
from codeinfo.shells.mcp_tools import Tool

if TYPE_CHECKING:
    from codeinfo.config import Config
    from codeinfo.engine import Engine

HEADER = 8  # bytes of a message's length

log = logging.getLogger(__name__)


class Errand(NamedTuple):
    tool: str
    request: Any
    values: dict[str, Any]
    project: str
    opens: bool = False  # nobody waits for this one: it is sent to have the index opened and made ready


def packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(HEADER, "little") + data


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides what an interrupt means
    incoming, outgoing = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints, here or in a child
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # nor does a child read what is meant for us
    config = _received(incoming)
    if config is not None:
        with suppress(BrokenPipeError):  # the server is gone
            _serve(config, incoming, outgoing)
    os._exit(0)  # what was read needs no closing


def _serve(config: Config, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    from codeinfo.config import use_one_blas_thread

    use_one_blas_thread()
    import codeinfo.engine.search  # noqa: F401  # before the first errand, which is waited for
    from codeinfo.engine import Engine

    tools: dict[str, Tool] = {}
    with Engine(config) as engine:
        engine.embedder()
        _send(outgoing, None)
        while select.select([incoming], [], [], config.mcp.idle_s)[0]:
            errand = _received(incoming)
            if errand is None:
                return
            if errand.tool not in tools:
                (tools[errand.tool],) = chosen_tools([errand.tool])
            _send(outgoing, _done(engine, tools[errand.tool], errand))


def _done(engine: Engine, tool: Tool, errand: Errand) -> Answered | None:
    try:
        if errand.opens:
            engine.prepare(errand.project or ".")
        result = tool.handler()(engine, errand.request, Call())
        return answered(tool, result, errand.values, errand.project)
    except Exception as error:
        log.info("%s is left to the server: %s", tool.name, error)
        return None


def _send(outgoing: BinaryIO, message: object) -> None:
    outgoing.write(packed(message))
    outgoing.flush()


def _received(incoming: BinaryIO) -> Any:
    """The next message; None at the end of the input."""
    data = _bytes(incoming, int.from_bytes(_bytes(incoming, HEADER), "little"))
    return pickle.loads(data) if data else None


def _bytes(incoming: BinaryIO, count: int) -> bytes:
    """So many, or none at the end of the input."""
    data = bytearray()
    while len(data) < count:
        more = incoming.read(count - len(data))
        if not more:
            return b""
        data += more
    return bytes(data)
