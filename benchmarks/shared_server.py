"""What many agents cost: MCP clients on several projects, with one shared server or with a server each.

    python benchmarks/shared_server.py FOLDER… [--clients 10] [--idle 20]

Prints the proportional memory (PSS) of all processes once each client has searched, their number, processor time while
idle, and what is left five seconds after the last client; the first line is a single client.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from mcp_sizes import Session
from synthetic import memory_mb, process_cpu_s

QUERY = "how is a request handled"


def processes(mark: str) -> list[int]:
    """Those whose environment has a variable of this run."""
    ids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    ids.append(int(folder.name))
            except OSError:
                continue
    return ids


def measure(folders: list[Path], clients: int, idle_s: float, shared: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="ci-") as runtime:
        environment = {**os.environ, "XDG_RUNTIME_DIR": runtime, "CODEINFO_MCP_SHARED": str(shared).lower()}
        started = [Session(folders[number % len(folders)], environment=environment) for number in range(clients)]
        for client in started:
            client.call("search_codebase", query=QUERY)
        time.sleep(2)
        running = processes(runtime)
        memory, before = sum(memory_mb(pid, "Pss") for pid in running), sum(map(process_cpu_s, running))
        time.sleep(idle_s)
        busy = (sum(map(process_cpu_s, running)) - before) / idle_s
        for client in started:
            client.close()
        time.sleep(5)
        print(
            f"{clients} client(s), {'one server' if shared else 'a server each'}: {len(running)} processes, "
            f"{memory:.0f} MB, idle {busy:.2%}, {len(processes(runtime))} left after 5 s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--idle", type=float, default=20)
    options = parser.parse_args()
    measure(options.folders, 1, options.idle, True)
    measure(options.folders, options.clients, options.idle, True)
    measure(options.folders, options.clients, options.idle, False)


if __name__ == "__main__":
    main()
