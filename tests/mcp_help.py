"""A server in this process or in one of its own, driven line by line or by the SDK's client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from codeinfo.config import Config
from codeinfo.shells.mcp import make_service
from codeinfo.shells.mcp_protocol import LineSession
from codeinfo.shells.mcp_relay import Sink
from codeinfo.shells.mcp_tools import choose_tools

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


def connected(folder: Path, tools: str = "search", **settings: str) -> Client:
    """The SDK's client of a server with these settings."""
    options = [word for name, value in settings.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]
    return sdk_client(folder, "--tools", tools, *options)


class Lines:
    """One session by hand."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin, self.stdout = stdin, stdout
        self._next = 0
        self.seen: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        line = self.stdout.readline()
        self.seen.append(line)
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def introduce(self) -> None:
        self.request("initialize", INITIALIZE)
        self.send({"method": "notifications/initialized"})

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


class ProcessLines(Lines):
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdin, process.stdout)
        self.process = process


@contextmanager
def lines(folder: Path, *arguments: str, stderr: Any = subprocess.DEVNULL) -> Iterator[ProcessLines]:
    """A session with `codeinfo mcp` in a process of its own."""
    process = subprocess.Popen(
        command(*arguments), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
    )
    session = ProcessLines(process)
    try:
        session.introduce()
        yield session
    finally:
        assert process.stdin is not None
        process.stdin.close()
        session.stdout.close()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@contextmanager
def session_here(folder: Path, tools: str = "search", **settings: str) -> Iterator[Lines]:
    """A session with a server in this process: the same messages over pipes, without the start of another."""
    flags = {name.replace("__", "."): value for name, value in settings.items()}
    service = make_service(Config.load(flags, folder), choose_tools(tools.split(",")), folder=str(folder))
    (to_read, to_write), (read, write) = os.pipe(), os.pipe()

    session = LineSession(service.methods, os.fdopen(to_read, "rb"), Sink(write))
    serving = threading.Thread(target=anyio.run, args=(session.run,))
    serving.start()
    try:
        with os.fdopen(to_write, "wb") as stdin, os.fdopen(read, "rb") as stdout:
            client = Lines(stdin, stdout)
            client.introduce()
            yield client
    finally:
        serving.join(120)
        assert not serving.is_alive()
        service.lease.close()
