"""Many clients that mix searches, references and maps on a large tree whose files are edited, and what the server's
answers, memory and open files do."""

from __future__ import annotations

import http.client
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from mixed_load import NAMES, ask, resident_mb, watch_health
from sandbox import Tally
from synthetic import write_tree

CLIENTS = 16
MOST_SPREAD = 10  # p99 over p50, of each kind
MOST_GROWTH_MB = 25  # after the first fifth, which is the first minute of five
MOST_OPENED = 40  # files, after the first fifth
KINDS = ("search", "refs", "map")
EDITED = "named0.py"
EDIT_S = 1.0


def run_load(folder: Path, tally: Tally, *, files: int, seconds: float) -> None:
    tree = folder / "tree"
    tree.mkdir(parents=True)
    write_tree(tree, files, 2, tally.seed)
    for number, name in enumerate(NAMES):  # what references are asked for
        (tree / f"named{number}.py").write_text(f"def {name}():\n    return {name}()\n" * 5)
    home = {"HOME": str(folder), "CODEINFO_HOME": str(folder / "home"), "CODEINFO_LLM_DISCOVER": "false"}
    environment = {key: text for key, text in os.environ.items() if not key.startswith("CODEINFO_")} | home
    program = [sys.executable, "-m", "codeinfo"]
    subprocess.run([*program, "index", str(tree)], env=environment, stdout=subprocess.DEVNULL, check=True)
    server = subprocess.Popen(
        [*program, "serve", "--port", "0"], cwd=tree, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        host = server.stdout.readline().split()[-1].removeprefix("http://").rstrip("/")
        for kind in KINDS:
            ask(http.client.HTTPConnection(host, timeout=300), kind, random.Random(0))
        _measure(host, server.pid, tree / EDITED, tally, seconds)
    finally:
        server.terminate()
        stopped = time.monotonic()
        server.communicate(timeout=30)
        tally.figures.append(f"load: the server ended {time.monotonic() - stopped:.1f} s after SIGTERM")


def _measure(host: str, server: int, edited: Path, tally: Tally, seconds: float) -> None:
    times: dict[str, list[float]] = {kind: [] for kind in (*KINDS, "health")}
    errors: Counter[str] = Counter()
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_work, args=(host, tally.seed * 100 + number, until, times, errors))
        for number in range(CLIENTS)
    ]
    threads.append(threading.Thread(target=watch_health, args=(host, until, times)))
    threads.append(threading.Thread(target=_edit, args=(edited, until)))
    for thread in threads:
        thread.start()
    memory, opened = [], []
    while time.monotonic() < until:
        time.sleep(seconds / 20)
        memory.append(resident_mb(server)["own"])
        opened.append(len(os.listdir(f"/proc/{server}/fd")))
    for thread in threads:
        thread.join()
    for kind, taken in times.items():
        _check_times(tally, kind, taken)
    for error, count in errors.items():
        tally.fail("load", f"{count} × {error}")
    early = max(memory[: len(memory) // 5 + 1])
    tally.figures.append(f"load: memory {early} MB after the first fifth, {memory[-1]} MB at the end")
    if memory[-1] > early + MOST_GROWTH_MB:
        tally.fail("load", f"memory grew from {early} to {memory[-1]} MB: {memory}")
    if opened[-1] > max(opened[: len(opened) // 5 + 1]) + MOST_OPENED:
        tally.fail("load", f"files stay open: {opened}")


def _edit(path: Path, until: float) -> None:
    """Each edit makes another version of a file, of its vectors and of the whole index."""
    text, number = path.read_text(), 0
    while time.monotonic() < until:
        path.write_text(f"{text}# {number}\n")
        number += 1
        time.sleep(EDIT_S)


def _work(host: str, seed: int, until: float, times: dict[str, list[float]], errors: Counter[str]) -> None:
    rng = random.Random(seed)
    connection = http.client.HTTPConnection(host, timeout=60)
    while time.monotonic() < until:
        kind = rng.choice(KINDS)
        try:
            times[kind].append(ask(connection, kind, rng))
        except (AssertionError, OSError, http.client.HTTPException) as error:
            errors[f"{kind}: {error!r}"[:200]] += 1
            connection.close()
    connection.close()


def _check_times(tally: Tally, kind: str, taken: list[float]) -> None:
    tally.done[f"load: {kind}"] = len(taken)
    tally.outcomes[f"load: {kind}"] = Counter({"answered": len(taken)})
    tally.slowest[f"load: {kind}"] = max(taken, default=0.0)
    if len(taken) < 20:
        tally.fail("load", f"only {len(taken)} answers of {kind}")
        return
    cut = statistics.quantiles(taken, n=100)
    middle, tail = cut[49], cut[98]
    spread = tail / middle
    tally.figures.append(f"load: {kind} p50 {1000 * middle:.0f} ms, p99 {1000 * tail:.0f} ms, {spread:.1f} times")
    if spread > MOST_SPREAD:
        tally.fail("load", f"{kind}: p99 is {spread:.1f} times p50 ({tail:.2f} s)")
