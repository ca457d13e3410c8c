"""What a server must endure: a thousand calls without a stray line, killed clients, lines that are no messages.

python benchmarks/mcp_endurance.py [--calls 1000] [--clients 50]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER = [sys.executable, "-m", "codeinfo", "mcp", "--tools", "search,code"]
TOOLS = ("search_codebase", "get_symbol_references", "get_memory", "nothing", "get_review_packet")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "endurance", "version": "1"}}
HOSTILE = (
    b"garbage\n",
    b'{"jsonrpc": "2.0", "id": 1, "meth\n',
    b"\xff\xfe\x00\n",
    b"[" * 100_000 + b"\n",
    b'{"jsonrpc": "2.0", "id": 7}\n',
    b"[1, 2]\n",
    b'{"jsonrpc": "1.0", "id": 8, "method": "ping"}\n',
    b"x" * 1_000_000 + b"\n",
)


def line(number: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def calls(folder: Path, count: int) -> bool:
    with tempfile.TemporaryFile() as log:
        command = [*SERVER, "--log-level", "debug", "--tools", "search,edit"]
        server = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert server.stdin is not None
        assert server.stdout is not None
        seen = []
        server.stdin.write(line(0, "initialize", **HELLO))
        for number in range(1, count + 1):
            tool = TOOLS[number % len(TOOLS)]
            arguments = {"symbol": "work"} if tool == "get_symbol_references" else {"query": f"work {number}"}
            server.stdin.write(line(number, "tools/call", name=tool, arguments=arguments))
            server.stdin.flush()
            seen.append(server.stdout.readline())
        seen.append(server.stdout.readline())
        server.stdin.close()
        seen += server.stdout.read().splitlines()
        server.wait(10)
        log.seek(0, os.SEEK_END)
        good = sum(bool(json.loads(reply).get("jsonrpc") == "2.0") for reply in seen)
        print(f"{count} calls under debug logging: {len(seen)} lines on stdout, {good} of them JSON-RPC;", end=" ")
        print(f"{log.tell():,} bytes on stderr")
        return good == len(seen) == count + 1


def hostile(folder: Path) -> bool:
    server = subprocess.Popen(
        SERVER, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(line(0, "initialize", **HELLO))
    server.stdin.flush()
    server.stdout.readline()
    errors = 0
    for message in HOSTILE:
        server.stdin.write(message)
        server.stdin.flush()
        errors += "error" in json.loads(server.stdout.readline())
    twice = line(5, "tools/call", name="refresh_index", arguments={})
    server.stdin.write(twice + twice)
    server.stdin.flush()
    replies = [json.loads(server.stdout.readline()) for _ in range(2)]
    errors += sum("error" in reply for reply in replies)
    server.stdin.write(line(6, "ping"))
    server.stdin.flush()
    lives = "result" in json.loads(server.stdout.readline())
    server.stdin.close()
    server.wait(10)
    print(
        f"{len(HOSTILE)} lines that are no messages, one id used twice: {errors} error replies, server lives: {lives}"
    )
    return lives and errors == len(HOSTILE) + 1


def killed(folder: Path, count: int) -> bool:
    """Clients die without a word, a third of them in the middle of an indexing; their servers must notice."""
    begin, index = line(1, "initialize", **HELLO), line(2, "tools/call", name="refresh_index", arguments={"full": True})
    script = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen({SERVER!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        f"p.stdin.write({begin!r}); p.stdin.flush(); p.stdout.readline()\n"
        f"if sys.argv[1] == '0': p.stdin.write({index!r}); p.stdin.flush()\n"
        "print(p.pid, flush=True); time.sleep(600)\n"
    )
    servers, clients = list[int](), list[subprocess.Popen[str]]()
    for number in range(count):
        command = [sys.executable, "-c", script, str(number % 3)]
        clients.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True))
        stream = clients[-1].stdout
        assert stream is not None
        servers.append(int(stream.readline()))
    families = {pid for server in servers for pid in family(server)}
    started = time.monotonic()
    for client in clients:
        client.send_signal(signal.SIGKILL)
    for client in clients:
        client.communicate()
    while any(map(alive, families)) and time.monotonic() - started < 5:
        time.sleep(0.05)
    left = sum(map(alive, families))
    took = time.monotonic() - started
    print(f"{count} clients killed: {len(families)} server processes, {left} left after {took:.1f} s")
    return not left


def family(pid: int) -> set[int]:
    processes = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        processes |= {int(child) for child in task.read_text().split()}
    return processes


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["CODEINFO_HOME"] = f"{scratch}/home"
        folder = Path(scratch) / "project"
        folder.mkdir()
        for number in range(400):
            (folder / f"f{number}.py").write_text(f"def work_{number}(value):\n    return value\n\n\n" * 10)
        good = [calls(folder, options.calls), hostile(folder), killed(folder, options.clients)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
