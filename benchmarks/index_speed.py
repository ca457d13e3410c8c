"""Indexes the same trees with semble and with CodeInfo, alternating, and prints the ratio of times and peak memory.

    python -m venv semble && semble/bin/pip install semble==0.7.0
    python benchmarks/index_speed.py TREES --semble-python semble/bin/python --semble-model FOLDER
    python benchmarks/index_speed.py TREES --repos repos.tsv …    # only the folder of each tree that its row names
    python benchmarks/index_speed.py TREES                        # CodeInfo alone: times and memory
    python benchmarks/index_speed.py TREES --without-vectors      # CodeInfo beside itself with no embedder

All work in a process that is already running, so that none pays for its imports: one engine that indexes tree after
tree. CodeInfo's times contain its worker processes and the writing to disk. The order changes from tree to tree. Memory
is the sum of the high-water marks of a process and its children, looked at every 20 ms: shared pages count more than
once. A child that has been forked and does not run its own program yet is still its parent, and not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NAMES = ("codeinfo", "semble")
NO_VECTORS = "without vectors"
LOOK_EVERY_S = 0.02
MEMORY_LIMIT_MB = 700


class Run(NamedTuple):
    seconds: float
    chunks: int
    peak_mb: float


# --- the contestants: a path a line in, seconds and chunks a line out -----------------------------------------------


def serve_codeinfo(settings: list[str]) -> None:
    from codeinfo.config import Config
    from codeinfo.engine import Engine
    from codeinfo.operations.search import ClearRequest, IndexRequest

    flags = dict(item.split("=", 1) for item in settings)
    print("ready", flush=True)
    with tempfile.TemporaryDirectory() as cache, Engine(Config.load({**flags, "paths.cache_dir": cache})) as engine:
        for line in sys.stdin:
            started = time.perf_counter()
            engine.indexes.of(line.strip())  # alone, whatever lies around it
            (report,) = engine.index(IndexRequest((line.strip(),))).reports
            print(time.perf_counter() - started, report.chunks, flush=True)
            engine.clear(ClearRequest((line.strip(),)))  # each tree by itself: an open index stays mapped into memory


def serve_semble(model: str) -> None:
    from semble import SembleIndex  # type: ignore[import-not-found, unused-ignore]

    print("ready", flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        index = SembleIndex.from_path(line.strip(), model_path=model)
        print(time.perf_counter() - started, len(index.chunks), flush=True)


class Contestant:
    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.say()

    def index(self, tree: Path) -> Run:
        with watched(self._process.pid) as peak:
            seconds, chunks = self.say(str(tree)).split()
        return Run(float(seconds), int(chunks), peak[0])

    def close(self) -> None:
        self._process.communicate()

    def say(self, line: str = "") -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if line:
            print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args!r} ended early")
        return answer


# --- memory --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def watched(pid: int) -> Iterator[list[float]]:
    """The peak of a process and its children in MB, in a list of one."""
    peak, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(LOOK_EVERY_S):
            peak[0] = max(peak[0], sum(high_water_mb(process) for process in family(pid)))

    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the mark of the tree before
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def family(pid: int) -> list[int]:
    members = [pid]
    for member in members:
        with contextlib.suppress(OSError):
            program = command_line(member)
            for task in Path(f"/proc/{member}/task").iterdir():
                children = (int(child) for child in (task / "children").read_text().split())
                members.extend(child for child in children if command_line(child) != program)
    return members


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def high_water_mb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
    except OSError:
        pass
    return 0.0


# --- the race ------------------------------------------------------------------------------------------------------


def trees_of(folder: Path, repos: Path | None) -> list[Path]:
    if repos is None:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    return list(folders_of(folder, repos).values())


def folders_of(trees: Path, repos: Path) -> dict[str, Path]:
    """What a table of repositories says is to be indexed, by their names."""
    rows = [line.split("\t") for line in repos.read_text().splitlines()[1:] if line]
    return {row[0]: trees / row[0] / ("" if row[5] == "-" else row[5]) for row in rows}


def commands(options: argparse.Namespace) -> dict[str, list[str]]:
    settings = [part for item in options.set for part in ("--set", item)]
    ours = [sys.executable, __file__, "--serve", "codeinfo", *settings]
    lines_by_tool = {"codeinfo": ours}
    if options.without_vectors:
        lines_by_tool[NO_VECTORS] = [*ours, "--set", "embedding.provider=none"]
    if options.semble_python:
        lines_by_tool["semble"] = [
            options.semble_python,
            __file__,
            "--serve",
            "semble",
            "--semble-model",
            options.semble_model,
        ]
    return lines_by_tool


def race(trees: list[Path], contestants: dict[str, Contestant], rounds: int) -> dict[str, list[Run]]:
    """The best of some rounds, for each tree and each contestant."""
    best: dict[str, list[Run]] = {name: [] for name in contestants}
    for at, tree in enumerate(trees):
        runs: dict[str, list[Run]] = {name: [] for name in contestants}
        for turn in range(rounds):
            for name in sorted(contestants, reverse=bool((at + turn) % 2)):
                runs[name].append(contestants[name].index(tree))
        for name, done in runs.items():
            quickest = min(done)
            best[name].append(Run(quickest.seconds, quickest.chunks, max(run.peak_mb for run in done)))
        shown = "   ".join(f"{name} {best[name][-1].seconds:6.2f} s {best[name][-1].chunks:6}" for name in best)
        peaks = ", ".join(f"{best[name][-1].peak_mb:.0f} MB" for name in best)
        print(f"{str(tree)[-32:]:32} {shown}   {peaks}", flush=True)
    return best


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, nargs="?", help="a folder of trees")
    arguments.add_argument("--repos", type=Path, help="a table: name first, folder to index sixth")
    arguments.add_argument("--semble-python", help="the Python that has semble")
    arguments.add_argument("--semble-model", help="a model2vec folder for semble")
    arguments.add_argument("--without-vectors", action="store_true", help="what the vectors cost")
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--set", action="append", default=[], help="a setting of CodeInfo, as KEY=VALUE")
    arguments.add_argument("--serve", choices=NAMES, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.serve:
        serve_codeinfo(options.set) if options.serve == "codeinfo" else serve_semble(options.semble_model)
        return 0
    if options.trees is None:
        arguments.error("name the folder of trees")
    contestants = {name: Contestant(command) for name, command in commands(options).items()}
    best = race(trees_of(options.trees, options.repos), contestants, options.rounds)
    for contestant in contestants.values():
        contestant.close()
    return print_table(best)


def print_table(best: dict[str, list[Run]]) -> int:
    totals = {name: sum(run.seconds for run in runs) for name, runs in best.items()}
    for name, runs in best.items():
        chunks, peak = sum(run.chunks for run in runs), max(run.peak_mb for run in runs)
        print(f"{name}: {totals[name]:.1f} s, {chunks} chunks, peak {peak:.0f} MB")
    ratio = totals["codeinfo"] / totals["semble"] if "semble" in totals else 0.0
    if ratio:
        print(f"ratio of times, CodeInfo to semble: {ratio:.2f} (at most 1)")
    if NO_VECTORS in totals:
        print(f"with vectors to without: {totals['codeinfo'] / totals[NO_VECTORS]:.2f}")
    peak = max(run.peak_mb for run in best["codeinfo"])
    return 1 if ratio > 1 or peak > MEMORY_LIMIT_MB else 0


if __name__ == "__main__":
    sys.exit(main())
