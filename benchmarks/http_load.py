"""What HTTP costs: the search API beside the engine's own time, many clients at once, idle and slow ones, memory.

Starts the real server on a free port over a project (this repository unless named) and writes one JSON object a line.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from synthetic import memory_mb

from codeinfo.config import Config
from codeinfo.operations.search import SearchRequest
from codeinfo.serve.refresh import server_engine

QUERIES = ("parse header", "where is the index written", "Engine", "relevance policy cutoff", "how are conflicts found")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", nargs="?", default=str(Path(__file__).resolve().parent.parent / "src"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=5000)
    options = parser.parse_args()
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ |= {"CODEINFO_CACHE_DIR": f"{home}/cache", "CODEINFO_DATA_DIR": f"{home}/data"}
        os.environ |= {"CODEINFO_LLM_DISCOVER": "false"}
        engine_ms = engine_times(options.project)
        server = Server(options.project)
        stack.callback(server.stop)
        tell(engine_p50_ms=p(engine_ms, 50), http_p50_ms=p(server.times(100), 50))
        tell(**server.load(options.clients, options.seconds))
        tell(**server.beside_idle(options.idle))
        tell(**server.memory_over(options.sessions))


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def p(values: list[float], percent: int) -> float:
    return round(statistics.quantiles(values, n=100)[percent - 1], 2)


def engine_times(project: str) -> list[float]:
    with server_engine(Config.load()) as engine:
        times = []
        for number in range(120):
            request = SearchRequest(QUERIES[number % len(QUERIES)], (project,))
            started = time.perf_counter()
            engine.search(request)
            times.append(1000 * (time.perf_counter() - started))
    return times[20:]


class Server:
    def __init__(self, project: str) -> None:
        command = [sys.executable, "-m", "codeinfo", "serve", "--port", "0"]
        self._process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._host = self._process.stdout.readline().split()[-1].removeprefix("http://").rstrip("/")
        self.times(20)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def times(self, count: int) -> list[float]:
        """Milliseconds of searches over one connection."""
        connection = http.client.HTTPConnection(self._host, timeout=30)
        found = [self._search(connection, number) for number in range(count)]
        connection.close()
        return found

    def _search(self, connection: http.client.HTTPConnection, number: int) -> float:
        body = json.dumps({"query": QUERIES[number % len(QUERIES)]})
        started = time.perf_counter()
        connection.request("POST", "/api/v1/search", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        if reply.status != 200:
            raise RuntimeError(f"status {reply.status}")
        return 1000 * (time.perf_counter() - started)

    def load(self, clients: int, seconds: float) -> dict[str, Any]:
        """Clients that ask one search after the other, from processes of their own."""
        until = time.time() + seconds
        program = f"""
import json, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from http_load import Server
import http.client, threading
server = Server.__new__(Server); server._host = {self._host!r}
times, errors = [], []
def ask():
    connection = http.client.HTTPConnection(server._host, timeout=60)
    number = 0
    while time.time() < {until}:
        try:
            times.append(server._search(connection, number))
        except Exception as error:
            errors.append(repr(error)); connection.close()
        number += 1
threads = [threading.Thread(target=ask) for _ in range({clients})]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps([times, errors]))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        times, errors = json.loads(done.stdout)
        return {
            "clients": clients, "seconds": seconds, "requests": len(times), "errors": len(errors),
            "p50_ms": p(times, 50), "p99_ms": p(times, 99), "p99_over_p50": round(p(times, 99) / p(times, 50), 1),
        }  # fmt: skip

    def beside_idle(self, count: int) -> dict[str, Any]:
        """Searches while many connections do nothing, listen for events, or send a byte a second."""
        host, _, port = self._host.rpartition(":")
        before = p(self.times(60), 50)
        with ExitStack() as stack:
            for number in range(count):
                idle = stack.enter_context(socket.create_connection((host, int(port))))
                if number % 5 == 0:
                    idle.sendall(f"GET /ingest/events HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
            slow = stack.enter_context(socket.create_connection((host, int(port))))
            slow.sendall(
                f"POST /api/v1/search HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n".encode()
                + b"Content-Length: 1000\r\n\r\n{"
            )
            ended = threading.Event()
            dripping = threading.Thread(target=_drip, args=(slow, ended))
            dripping.start()
            beside = p(self.times(60), 50)
            ended.set()
            dripping.join()
        return {"connections": count, "p50_ms_before": before, "p50_ms_beside": beside}

    def memory_over(self, sessions: int) -> dict[str, Any]:
        """Resident memory before and after many short sessions of a page and a search."""
        self._sessions(200)
        before = memory_mb(self._process.pid, "VmRSS")
        self._sessions(sessions)
        return {
            "sessions": sessions,
            "grew_mb": round(memory_mb(self._process.pid, "VmRSS") - before, 1),
            "resident_mb": before,
        }

    def _sessions(self, count: int) -> None:
        token = (Config.load().paths.data_dir / "web-token").read_text()
        for number in range(count):
            connection = http.client.HTTPConnection(self._host, timeout=30)
            connection.request("GET", "/", headers={"X-CodeInfo-Token": token})
            connection.getresponse().read()
            self._search(connection, number)
            connection.close()


def _drip(slow: socket.socket, ended: threading.Event) -> None:
    while not ended.wait(1):
        try:
            slow.sendall(b" ")
        except OSError:  # the server has had enough of it
            return


if __name__ == "__main__":
    main()
