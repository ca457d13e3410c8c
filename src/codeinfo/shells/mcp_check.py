"""The MCP server started as a client would, for `doctor`: by hand, so that it needs nothing of what it checks."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from typing import Any

from codeinfo.requests import Check, DoctorReport

PATIENCE_S = 30.0
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "codeinfo doctor", "version": "1"},
}


def with_server_checked(report: DoctorReport) -> DoctorReport:
    return replace(report, checks=(*report.checks, server_check()))


def server_check() -> Check:
    """Handshake and list of tools, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as words:
        started = time.monotonic()
        server = subprocess.Popen(
            [sys.executable, "-m", "codeinfo", "mcp"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
        )
        patience = threading.Timer(PATIENCE_S, server.kill)  # a server that hangs is ended, which ends the reading
        patience.start()
        try:
            hello = _ask(server, 1, "initialize", _HELLO)
            took = time.monotonic() - started
            tools = _ask(server, 2, "tools/list", {})["tools"]
            detail = f"protocol {hello['protocolVersion']}, {len(tools)} tools, ready after {took:.1f} s"
            return Check("mcp", "ok", detail)
        except (OSError, ValueError, KeyError):
            words.seek(0)
            said = words.read().decode("utf-8", "replace").strip().splitlines()
            return Check("mcp", "fail", said[-1] if said else "the server did not answer", "Run `codeinfo mcp` by hand")
        finally:
            patience.cancel()
            server.kill()
            server.communicate()


def _ask(server: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert server.stdin is not None
    assert server.stdout is not None
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    result: dict[str, Any] = json.loads(server.stdout.readline())["result"]
    return result
