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
FLUSH_MS = 2_000  # for what the server still has to say when the client has gone


class Carrier:
    def __init__(self, state: dict[str, typing.Any], server: int) -> None:
        """`state` is the relay's; of that the `command` that starts one, the `introduction` (`initialize` and
        `initialized`, for another server) and what is `unsent` are read and written here."""
        self.state = state
        self.server = server
        self.asked: dict[str, typing.Any] = {}  # ids of requests that were not answered yet
        self.has_client = True
        self.heard = b""  # the beginning of the client's next line
        self.read = b""  # and of the server's
        self.to_server = bytearray()
        self.to_client = bytearray()
        if state["unsent"]:
            self.take(state["unsent"].encode("utf-8", "surrogateescape"))

    def run(self) -> None:
        """Until the client has closed its end and has all that the server had to say."""
        ready: dict[int, int] | None = None
        while self.has_client or (self.server >= 0 and ready != {}):
            if not self.has_client and not self.to_server:
                self.hang_up()
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
                self.take(os.read(0, PIECE))
            if 1 in ready:
                del self.to_client[: os.write(1, self.to_client[: select.PIPE_BUF])]  # which a ready pipe takes
            if self.server in ready:
                self.exchange(ready[self.server])
        self.flush()

    # --- the client ---

    def take(self, piece: bytes) -> None:
        if not piece:
            self.has_client = False
            self.to_server += self.heard
            return
        *lines, self.heard = (self.heard + piece).split(b"\n")
        for line in lines:
            self.note(line)
            self.to_server += line + b"\n"
        if len(self.heard) > MOST_WAITING:  # longer than any message may be: the server says so
            self.to_server += self.heard
            self.heard = b""
        if lines and self.server < 0:
            self.become_relay()

    def note(self, line: bytes) -> None:
        message = parsed(line)
        method = message.get("method")
        if method == "initialize":
            self.state["introduction"] = [as_text(line)]
        elif method == "notifications/initialized":
            self.state["introduction"][1:] = [as_text(line)]
        if method and "id" in message:
            self.asked[repr(message["id"])] = message["id"]

    # --- the server ---

    def hang_up(self) -> None:
        """Tell the server that nothing follows; what it works on it still answers."""
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
                self.pass_on(piece)
        except BlockingIOError:
            pass
        except OSError:
            self.lose()

    def pass_on(self, piece: bytes) -> None:
        *lines, self.read = (self.read + piece).split(b"\n")
        for line in lines:
            message = parsed(line)
            if "method" not in message and "id" in message:
                self.asked.pop(repr(message["id"]), None)
            self.to_client += line + b"\n"

    def lose(self) -> None:
        """What it was asked and did not answer is answered for it."""
        os.close(self.server)
        self.server = -1
        self.to_server.clear()
        self.read = b""
        for identity in self.asked.values():
            self.to_client += refusal(identity, "the server ended while it worked on this; call again")
        self.asked.clear()

    def become_relay(self) -> None:
        import tempfile  # late: a server rarely ends before its clients

        self.flush()
        self.state["unsent"] = as_text(bytes(self.to_server) + self.heard)
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
    """A message, or nothing where it is none; who gets it says what is wrong with it."""
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
    except (KeyboardInterrupt, BrokenPipeError):  # a client's ways to say goodbye
        os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    main()
