"""How long `codeinfo index` takes when nothing changed, and after one edit: the whole command in a fresh process; and
how long the first search after an edit takes in a server.

    python benchmarks/reindex_speed.py                 # trees of 1,000 and 10,000 files
    python benchmarks/reindex_speed.py --files 10000

Each figure is the median of some runs, in a git work tree and in a plain folder. An empty Python process is timed in
turn, so that a busy machine shows.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from synthetic import Cost, cost, shown, typical, write_tree

import codeinfo
from codeinfo.config import Config
from codeinfo.operations.search import SearchRequest
from codeinfo.serve.refresh import server_engine

UNCHANGED_LIMIT_S = 1.0  # for 10,000 files
EDIT_LIMIT_MS = 300


def measure(root: Path, cache: Path, rounds: int, provider: str) -> dict[str, Cost]:
    environment = {**os.environ, "CODEINFO_CACHE_DIR": str(cache), "CODEINFO_EMBEDDING_PROVIDER": provider}
    command = [sys.executable, "-m", "codeinfo", "index", str(root)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    time.sleep(0.2)  # files younger than a tenth of a second are looked at again
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    edited = next(root.rglob("*_7.py"))
    times: dict[str, list[Cost]] = {"unchanged": [], "one edit": [], "empty process": []}
    for turn in range(rounds):
        times["unchanged"].append(cost(command, environment))
        edited.write_text(edited.read_text() + f"\n\ndef added_{turn}():\n    return {turn}\n")
        time.sleep(0.2)
        times["one edit"].append(cost(command, environment))
        times["empty process"].append(cost([sys.executable, "-c", "pass"], environment))
    return {name: typical(values) for name, values in times.items()}


def measure_server(root: Path, cache: Path, rounds: int, provider: str) -> float:
    """Milliseconds until a search has found what was just written, in an engine that lasts; the median."""
    settings = {"paths.cache_dir": str(cache), "embedding.provider": provider}
    edited = next(root.rglob("*_7.py"))
    times = []
    with server_engine(Config.load(settings)) as engine:
        for turn in range(rounds + 1):
            engine.search(SearchRequest("something else", paths=(str(root),)))
            edited.write_text(edited.read_text() + f"\n\ndef written_just_now_{turn}():\n    return {turn}\n")
            time.sleep(0.3)  # as long as an agent needs at the least to ask
            started = time.perf_counter()
            result = engine.search(SearchRequest(f"written_just_now_{turn}", paths=(str(root),)))
            times.append(1000 * (time.perf_counter() - started))
            assert f"written_just_now_{turn}" in result.hits[0].text
    return statistics.median(times[1:])  # the first one starts a parser, which the others find


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", type=int, action="append", help="sizes of trees")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--provider", default="builtin", help="embedding.provider")
    options = arguments.parse_args()
    compileall.compile_dir(str(Path(codeinfo.__file__).parent), quiet=2)
    within_limits = True
    for files in options.files or (1000, 10_000):
        for kind in ("git", "plain"):
            with tempfile.TemporaryDirectory() as name:
                root = Path(name) / "tree"
                write_tree(root, files, 1)
                if kind == "git":
                    subprocess.run(["git", "init", "-q", str(root)], check=True)
                    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
                measured = measure(root, Path(name) / "cache", options.rounds, options.provider)
                server = measure_server(root, Path(name) / "cache", options.rounds, options.provider)
            figures = ", ".join(f"{what} {shown(value)}" for what, value in measured.items())
            print(f"{files} files, {kind}: {figures}; edit and search in a server {server:.0f} ms", flush=True)
            within_limits &= measured["unchanged"].wall_ms < 1000 * UNCHANGED_LIMIT_S * max(files / 10_000, 0.3)
            within_limits &= measured["one edit"].wall_ms < EDIT_LIMIT_MS or files > 1000
    return 0 if within_limits else 1


if __name__ == "__main__":
    sys.exit(main())
