"""The MCP server started as a client would, for `doctor`: by hand, so that it needs nothing of what it checks."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from codeinfo.operations.search import Check, DoctorReport

PATIENCE_S = 10.0  # it is ready after about one second, or after several on a busy machine
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "codeinfo doctor", "version": "1"},
}


def with_server_checked(examine: Callable[[], DoctorReport]) -> DoctorReport:
    """The report, and that the server starts: found out while the report is made."""
    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(server_check)
        report = examine()
        return replace(report, checks=(*report.checks, server.result()))


def server_check(patience_s: float = PATIENCE_S) -> Check:
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
        patience = threading.Timer(patience_s, server.kill)  # a server that hangs is ended, which ends the reading
        patience.start()
        try:
            hello = _ask(server, 1, "initialize", _HELLO)
            took = time.monotonic() - started
            tools = _ask(server, 2, "tools/list", {})["tools"]
            detail = f"protocol {hello['protocolVersion']}, {len(tools)} tools, ready after {took:.1f} s"
            return Check("mcp", "ok", detail)
        except (OSError, ValueError, KeyError):
            if time.monotonic() - started >= patience_s:
                again = "Try again when the machine is less busy, or run `codeinfo mcp` by hand"
                return Check("mcp", "warn", f"the server was not ready within {patience_s:g} s", again)
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
