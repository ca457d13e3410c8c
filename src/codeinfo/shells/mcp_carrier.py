"""Carries messages between one MCP client and the shared server.

A program of its own, run without site packages: every agent has one for as long as it works, so it loads as little as
it can. `mcp_relay` connects it and becomes it; when the server has ended and the client says something more, it becomes
`mcp_relay` again, which starts another server.

    mcp_carrier.py STATE SERVER     descriptors: of a file with what is known, and of the connection; -1 for none
"""

from __future__ import annotations

import json
import os
import select
import sys

TYPE_CHECKING = False  # as `typing` has it, which is larger than all of this
if TYPE_CHECKING:
    import typing

LOST = -32001  # the server died during a request
PIECE = 1 << 16
MOST_WAITING = 1 << 20  # bytes: a side that sends more is not read until the other has taken some
FLUSH_MS = 2_000  # for replies that are still to come when the client has gone


class Carrier:
    def __init__(self, state: dict[str, typing.Any], server: int) -> None:
        """`state` is the relay's; of that the `command` that starts one, the `introduction` (`initialize` and
        `initialized`, for another server) and what is `unsent` are read and written here."""
        self.state = state
        self.server = server
        self.pending: dict[str, typing.Any] = {}  # ids of requests that were not answered yet
        self.has_client = True
        self.client_part = b""  # the beginning of the client's next line
        self.server_part = b""  # and of the server's
        self.to_server = bytearray()
        self.to_client = bytearray()
        if state["unsent"]:
            self.receive(state["unsent"].encode("utf-8", "surrogateescape"))

    def run(self) -> None:
        """Until the client has closed its end and received the remaining replies."""
        ready: dict[int, int] | None = None
        while self.has_client or (self.server >= 0 and ready != {}):
            if not self.has_client and not self.to_server:
                self.close_input()
            wanted = select.poll()
            if self.has_client and len(self.to_server) < MOST_WAITING:
                wanted.register(0, select.POLLIN)
            if self.to_client:
                wanted.register(1, select.POLLOUT)
            if self.server >= 0:
                reads = select.POLLIN if len(self.to_client) < MOST_WAITING else 0
                wanted.register(self.server, reads | (select.POLLOUT if self.to_server else 0))
            ready = dict(wanted.poll(None if self.has_client else FLUSH_MS))
            if 0 in ready:
                self.receive(os.read(0, PIECE))
            if 1 in ready:
                del self.to_client[: os.write(1, self.to_client[: select.PIPE_BUF])]  # which a ready pipe takes
            if self.server in ready:
                self.exchange(ready[self.server])
        self.flush()

    # --- the client ---

    def receive(self, piece: bytes) -> None:
        if not piece:
            self.has_client = False
            self.to_server += self.client_part
            return
        *lines, self.client_part = (self.client_part + piece).split(b"\n")
        for line in lines:
            self.track(line)
            self.to_server += line + b"\n"
        if len(self.client_part) > MOST_WAITING:  # longer than any message may be: the server reports it
            self.to_server += self.client_part
            self.client_part = b""
        if lines and self.server < 0:
            self.become_relay()

    def track(self, line: bytes) -> None:
        message = parsed(line)
        method = message.get("method")
        if method == "initialize":
            self.state["introduction"] = [as_text(line)]
        elif method == "notifications/initialized":
            self.state["introduction"][1:] = [as_text(line)]
        if method and "id" in message:
            self.pending[repr(message["id"])] = message["id"]

    # --- the server ---

    def close_input(self) -> None:
        """Close our half of the connection: the server still answers what it works on."""
        import socket  # late: the end of a session

        with socket.socket(fileno=os.dup(self.server)) as server:
            server.shutdown(socket.SHUT_WR)

    def exchange(self, events: int) -> None:
        try:
            if self.to_server and events & select.POLLOUT:
                del self.to_server[: os.write(self.server, self.to_server)]
            if events & ~select.POLLOUT:
                piece = os.read(self.server, PIECE)
                if not piece:
                    raise OSError
                self.forward(piece)
        except BlockingIOError:
            pass
        except OSError:
            self.drop_server()

    def forward(self, piece: bytes) -> None:
        *lines, self.server_part = (self.server_part + piece).split(b"\n")
        for line in lines:
            message = parsed(line)
            if "method" not in message and "id" in message:
                self.pending.pop(repr(message["id"]), None)
            self.to_client += line + b"\n"

    def drop_server(self) -> None:
        """Answers the pending requests with an error."""
        os.close(self.server)
        self.server = -1
        self.to_server.clear()
        self.server_part = b""
        for identity in self.pending.values():
            self.to_client += refusal(identity, "the server ended while it worked on this; call again")
        self.pending.clear()

    def become_relay(self) -> None:
        import tempfile  # late: a server rarely ends before its clients

        self.flush()
        self.state["unsent"] = as_text(bytes(self.to_server) + self.client_part)
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(self.state).encode())
            file.seek(0)
            os.set_inheritable(file.fileno(), True)
            os.execv(self.state["command"][0], [*self.state["command"], str(file.fileno())])

    def flush(self) -> None:
        try:
            while self.to_client:
                del self.to_client[: os.write(1, self.to_client)]
        except OSError:
            pass  # the client has gone


def parsed(line: bytes | str) -> dict[str, typing.Any]:
    """A message; empty where it is not one, which its receiver reports."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def refusal(identity: object, problem: str) -> bytes:
    error = {"code": LOST, "message": problem}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n"


def as_text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def main() -> None:
    state, server = map(int, sys.argv[1:])
    with open(state, "rb") as file:
        known = json.load(file)
    if server >= 0:
        os.set_blocking(server, False)
    try:
        Carrier(known, server).run()
    except (KeyboardInterrupt, BrokenPipeError):  # how clients end a session
        os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    main()
