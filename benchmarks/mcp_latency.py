"""How fast tools answer: the handshake of a fresh process, warm calls over stdio, throughput over HTTP.

    python benchmarks/mcp_latency.py [--chunks 20000] [--calls 300] [--clients 8] [--seconds 10]

The project is generated, its words spread as in real code. Figures are of this machine; the HTTP part compares a
search with an empty tool of the same server in one run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mcp_sizes import Session
from msgspec import Struct
from synthetic import children_cpu_s, process_cpu_s, queries, write_tree

CHUNKS_PER_FILE = 20
SERVER_ENDS_S = 6.0  # after its last client has gone
TOOLS = ("--tools", "search,code")


def handshake(folder: Path, runs: int = 7) -> None:
    """Until `initialize` is answered, and what the process that the client started has used of the processor by the end
    of the session. The shared server's own processor time is not in it: a first agent starts that, others find it."""
    for title, shared, beside in (
        ("of a first agent", True, False),
        ("of another one", True, True),
        ("with a server of its own", False, False),
    ):
        os.environ["CODEINFO_MCP_SHARED"] = str(shared).lower()
        wall, cpu = list[float](), list[float]()
        first = Session(folder, *TOOLS) if beside else None
        if first is not None:
            first.request("tools/list", {})
        for _ in range(runs):
            used = children_cpu_s()
            session = Session(folder, *TOOLS)
            session.close()
            wall.append(1000 * session.handshake_s)
            cpu.append(1000 * (children_cpu_s() - used))
            if shared and not beside:
                time.sleep(SERVER_ENDS_S)
        if first is not None:
            first.close()
        print(f"handshake {title:<25} {statistics.median(wall):5.0f} ms;", end=" ")
        print(f"{statistics.median(cpu):5.0f} ms of the processor in all; median of {runs}")


def stdio(folder: Path, calls: int) -> None:
    os.environ["CODEINFO_MCP_SHARED"] = "false"  # so that its process is the one that works
    session = Session(folder, *TOOLS)
    session.call("refresh_index")
    status = session.call("get_indexing_status")["structuredContent"]
    texts = queries(calls + 20)
    for query in texts[:20]:
        session.call("search_codebase", query=query)
    times, used = [], process_cpu_s(session.process.pid)
    for query in texts[20:]:  # each for the first time
        started = time.perf_counter()
        reply = session.call("search_codebase", query=query)
        times.append(1000 * (time.perf_counter() - started))
        assert "results" in json.loads(reply["content"][0]["text"])
    each = 1000 * (process_cpu_s(session.process.pid) - used) / calls
    session.close()
    times.sort()
    print(f"index                           {status['chunks']:,} chunks, {status['files']:,} files")
    middle, most = times[len(times) // 2], times[int(len(times) * 0.95)]
    print(f"search_codebase over stdio      p50 {middle:.1f} ms, p95 {most:.1f} ms;", end=" ")
    print(
        f"{each:.1f} ms of the processor a call, {os.getloadavg()[0]:.1f} processes wanted its {os.cpu_count()} cores"
    )


def http(folder: Path, clients: int, seconds: float) -> None:
    """Search and an empty tool by turns on one server, so that both meet the same machine."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    try:
        drive(url, "again", 1, 5)  # warm
        rates: dict[str, list[float]] = {"nothing": [], "new": [], "again": []}
        for _ in range(4):
            for kind, measured in rates.items():
                measured.append(drive(url, kind, clients, seconds / 4))
    finally:
        server.terminate()
        server.wait(10)
    empty, new, again = (statistics.median(measured) for measured in rates.values())
    print(f"empty tool over HTTP            {empty:.0f} calls/s, {clients} clients")
    for name, rate in (("40 queries, again and again", again), ("queries never asked before", new)):
        print(f"  search, {name:<29} {rate:.0f} calls/s: {100 * rate / empty:.0f} % of the empty tool")


def drive(url: str, kind: str, clients: int, seconds: float) -> float:
    """Calls a second by so many clients, all in one process of their own that does as little as it can."""
    code = [sys.executable, __file__, "--drive", url, kind, str(clients), str(seconds)]
    return float(subprocess.run(code, check=True, stdout=subprocess.PIPE, text=True).stdout)


def drive_all(url: str, kind: str, clients: int, seconds: float) -> None:
    """Bare sockets with a connection for each client, since HTTP libraries, which read as much as the server writes,
    would take from it the cores that clients elsewhere do not."""
    import selectors
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    texts = queries(40) if kind == "again" else queries(500 * int(seconds + 1), seed=os.getpid())
    calls = itertools.cycle([message(parts.netloc, parts.path, kind, query) for query in texts])
    waiting = selectors.DefaultSelector()
    for _ in range(clients):
        connection = socket.create_connection((parts.hostname, parts.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each call waits for a delayed ACK
        waiting.register(connection, selectors.EVENT_READ, bytearray())
        connection.sendall(next(calls))
    done, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        for key, _ in waiting.select():
            assert isinstance(key.fileobj, socket.socket)
            key.data.extend(key.fileobj.recv(1 << 18))
            head, _, body = bytes(key.data).partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            if length and len(body) == int(length[1]):
                assert key.data.startswith(b"HTTP/1.1 200 "), bytes(key.data)
                assert b'"result"' in key.data, bytes(key.data)
                assert b'"isError":true' not in key.data, bytes(key.data)
                key.data.clear()
                key.fileobj.sendall(next(calls))
                done += 1
    print(done / seconds)


def message(host: str, path: str, kind: str, query: str) -> bytes:
    tool, arguments = ("nothing", {}) if kind == "nothing" else ("search_codebase", {"query": query})
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def serve(folder: Path) -> None:
    """The HTTP server with one more tool, which does nothing."""
    import socket

    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Route

    from codeinfo.config import Config
    from codeinfo.operations.base import EmptyRequest
    from codeinfo.shells.mcp import MCP_PATH, make_service
    from codeinfo.shells.mcp_protocol import HttpEndpoint
    from codeinfo.shells.mcp_tools import Tool, choose_tools

    class Nothing(Struct, frozen=True):
        done: bool = True

    empty = Tool(
        "nothing",
        "status",
        "Does nothing.",
        request=lambda values, project: EmptyRequest(),
        perform=lambda engine, request, call: Nothing(),
    )
    os.chdir(folder)
    service = make_service(Config.load(), [*choose_tools(["search"]), empty])
    app = Starlette(routes=[Route(MCP_PATH, endpoint=HttpEndpoint(service.methods, MCP_PATH))])
    # As `codeinfo serve` listens: asyncio turns off Nagle's delay, 40 ms an answer, only where a socket says it is TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--drive", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve))
    elif options.drive:
        url, kind, clients, seconds = options.drive
        drive_all(url, kind, int(clients), float(seconds))
    else:
        with tempfile.TemporaryDirectory() as home:
            os.environ["CODEINFO_HOME"] = f"{home}/codeinfo"
            folder = Path(home) / "project"
            write_tree(folder, options.chunks // CHUNKS_PER_FILE, CHUNKS_PER_FILE)
            handshake(folder)
            stdio(folder, options.calls)
            http(folder, options.clients, options.seconds)


if __name__ == "__main__":
    main()
