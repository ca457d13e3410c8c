"""A server in a process of its own: driven line by line, or by the SDK's client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


def text_of(content: object) -> str:
    """The text of a part of a reply that is text."""
    text = getattr(content, "text", None)
    assert isinstance(text, str), content
    return text


def reply_of(result: Any) -> dict[str, Any]:
    """The JSON of a reply: every tool sends it as text."""
    content = result["content"][0]["text"] if isinstance(result, dict) else text_of(result.content[0])
    reply: dict[str, Any] = json.loads(content)
    return reply


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "codeinfo", "mcp", *arguments]


def sdk_client(folder: Path, *arguments: str, mode: str = "auto") -> Client:
    parts = command(*arguments)
    server = StdioServerParameters(command=parts[0], args=parts[1:], cwd=str(folder), env=dict(os.environ))
    return Client(stdio_client(server), mode=mode)


class Lines:
    """One session by hand."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._next = 0
        self.seen: list[bytes] = []

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.seen.append(line)
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The reply; notifications on the way are dropped."""
        self._next += 1
        self.send({"id": self._next, "method": method, "params": params or {}})
        while (message := self.read()).get("id") != self._next:
            pass
        return message

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        reply = self.request("tools/call", {"name": tool, "arguments": arguments})
        result: dict[str, Any] = reply.get("result", reply)
        return result


@contextmanager
def lines(folder: Path, *arguments: str, stderr: Any = subprocess.DEVNULL) -> Iterator[Lines]:
    process = subprocess.Popen(
        command(*arguments), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
    )
    session = Lines(process)
    try:
        session.request("initialize", INITIALIZE)
        session.send({"method": "notifications/initialized"})
        yield session
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
