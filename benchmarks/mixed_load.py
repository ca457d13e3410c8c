"""Several clients that mix searches, references and maps: how long each kind takes, and what the server's memory does.

python benchmarks/mixed_load.py PROJECT [--clients 16] [--seconds 30]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from synthetic import memory_mb

QUERIES = ("parse header", "dependency injection", "how are errors handled", "websocket close", "security scopes")
NAMES = ("get", "Request", "Response", "app", "client", "Depends", "Query", "Body", "router", "include_router", "name")


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("project", type=Path)
    reader.add_argument("--clients", type=int, default=16)
    reader.add_argument("--seconds", type=float, default=30)
    options = reader.parse_args()
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        environment = os.environ | {"CODEINFO_CACHE_DIR": f"{home}/cache", "CODEINFO_DATA_DIR": f"{home}/data"}
        index = [sys.executable, "-m", "codeinfo", "index", str(options.project)]
        subprocess.run(index, env=environment, stdout=subprocess.DEVNULL, check=True)
        command = [sys.executable, "-m", "codeinfo", "serve", "--port", "0", "--set", "llm.discover=false"]
        process = subprocess.Popen(
            command, cwd=options.project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        assert process.stdout is not None
        host = process.stdout.readline().split()[-1].removeprefix("http://").rstrip("/")
        print(json.dumps({"started": True, "resident_mb": resident_mb(process.pid)}))
        for kind in ("search", "refs", "map"):
            took = ask(http.client.HTTPConnection(host, timeout=300), kind, random.Random(0))
            print(json.dumps({"first": kind, "seconds": round(took, 2), "resident_mb": resident_mb(process.pid)}))
        times: dict[str, list[float]] = {"search": [], "refs": [], "map": [], "health": []}
        until = time.monotonic() + options.seconds
        clients = [
            threading.Thread(target=work, args=(host, number, until, times)) for number in range(options.clients)
        ]
        clients.append(threading.Thread(target=watch_health, args=(host, until, times)))
        for client in clients:
            client.start()
        while time.monotonic() < until:
            time.sleep(options.seconds / 6)
            print(json.dumps({"resident_mb": resident_mb(process.pid)}), flush=True)
        for client in clients:
            client.join()
        for kind, taken in times.items():
            cut = statistics.quantiles(taken, n=100)
            figures = {"count": len(taken), "p50_s": round(cut[49], 3), "p99_s": round(cut[98], 3)}
            print(json.dumps({"kind": kind, **figures}))


def work(host: str, seed: int, until: float, times: dict[str, list[float]]) -> None:
    chance = random.Random(seed)
    connection = http.client.HTTPConnection(host, timeout=300)
    while time.monotonic() < until:
        kind = chance.choice(("search", "refs", "map"))
        times[kind].append(ask(connection, kind, chance))
    connection.close()


def ask(connection: http.client.HTTPConnection, kind: str, chance: random.Random) -> float:
    body = {
        "search": {"query": chance.choice(QUERIES)},
        "refs": {"name": chance.choice(NAMES)},
        "map": {"format": chance.choice(("text", "svg", "mermaid"))},
    }[kind]
    started = time.monotonic()
    connection.request("POST", f"/api/v1/{kind}", json.dumps(body), {"content-type": "application/json"})
    reply = connection.getresponse()
    answer = reply.read()
    assert reply.status == 200, answer
    return time.monotonic() - started


def watch_health(host: str, until: float, times: dict[str, list[float]]) -> None:
    """Whether the event loop is alive meanwhile."""
    connection = http.client.HTTPConnection(host, timeout=300)
    while time.monotonic() < until:
        started = time.monotonic()
        connection.request("GET", "/health")
        connection.getresponse().read()
        times["health"].append(time.monotonic() - started)
        time.sleep(0.1)
    connection.close()


def resident_mb(process: int) -> dict[str, int]:
    """The server's own memory, and what it has mapped of files, which the system takes back when it needs to."""
    return {"own": int(memory_mb(process, "RssAnon")), "of_files": int(memory_mb(process, "RssFile"))}


if __name__ == "__main__":
    main()
