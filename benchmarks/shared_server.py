"""What many agents cost: MCP clients on several projects, with one shared server or with a server each.

    python benchmarks/shared_server.py FOLDER… [--clients 10] [--idle 20]

Prints the proportional memory (PSS) of all processes once each client has searched, their number, processor time while
idle, and what is left five seconds after the last client; the first line is a single client.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

QUERY = {"name": "search_codebase", "arguments": {"query": "how is a request handled"}}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


class Client:
    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "codeinfo", "mcp", folder]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._last = 0
        self.request("initialize", INITIALIZE)
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        assert self._process.stdout is not None
        reply: dict[str, Any] = {}
        while reply.get("id") != self._last:
            reply = json.loads(self._process.stdout.readline())
        assert "result" in reply, reply
        return reply

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.communicate()


def processes(mark: str) -> list[int]:
    """Those whose environment has a variable of this run."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def pss_mb(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folders: list[str], clients: int, idle_s: float, shared: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="ci-") as runtime:
        environment = {**os.environ, "XDG_RUNTIME_DIR": runtime, "CODEINFO_MCP_SHARED": str(shared).lower()}
        started = [Client(folders[number % len(folders)], environment) for number in range(clients)]
        for client in started:
            client.request("tools/call", QUERY)
        time.sleep(2)
        running = processes(runtime)
        memory, before = sum(map(pss_mb, running)), sum(map(cpu_s, running))
        time.sleep(idle_s)
        busy = (sum(map(cpu_s, running)) - before) / idle_s
        for client in started:
            client.close()
        time.sleep(5)
        print(
            f"{clients} client(s), {'one server' if shared else 'a server each'}: {len(running)} processes, "
            f"{memory:.0f} MB, idle {busy:.2%}, {len(processes(runtime))} left after 5 s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--idle", type=float, default=20)
    options = parser.parse_args()
    measure(options.folders, 1, options.idle, True)
    measure(options.folders, options.clients, options.idle, True)
    measure(options.folders, options.clients, options.idle, False)


if __name__ == "__main__":
    main()
