"""How long a search takes: `codeinfo search` in a fresh process, and one more search in a process that is warm.

    python benchmarks/cold_search.py                     # 20,000 chunks cold, 200,000 warm
    python benchmarks/cold_search.py --warm-chunks 0     # only the first

Cold is the wall time of the whole command, the look for changed files included, with bytecode compiled: median of 20.
An empty Python process is timed in turn with it, so that a busy machine shows. Warm is the median over 40 queries.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from synthetic import Cost, cost, queries, shown, typical, write_tree

import codeinfo
from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.search import IndexRequest, SearchRequest

COLD_LIMIT_MS = 220
CHUNKS_PER_FILE = 20


def built(folder: Path, chunks: int, provider: str) -> tuple[Path, Engine, int]:
    """A tree of about this many chunks, its engine, and how many chunks there really are."""
    root = folder / f"tree{chunks}"
    write_tree(root, chunks // CHUNKS_PER_FILE, CHUNKS_PER_FILE)
    settings = {"paths.cache_dir": str(folder / "cache"), "embedding.provider": provider}
    engine = Engine(Config.load(settings, root))
    started = time.perf_counter()
    engine.indexes.of(root)  # alone, whatever lies around it
    (report,) = engine.index(IndexRequest((str(root),))).reports
    print(f"{report.chunks} chunks in {report.files} files, indexed in {time.perf_counter() - started:.1f} s")
    return root, engine, report.chunks


def cold(folder: Path, chunks: int, rounds: int, provider: str) -> float:
    root, engine, _ = built(folder, chunks, provider)
    engine.close()
    compileall.compile_dir(str(Path(codeinfo.__file__).parent), quiet=2)
    environment = {**os.environ, "CODEINFO_CACHE_DIR": str(folder / "cache"), "CODEINFO_EMBEDDING_PROVIDER": provider}
    command = [sys.executable, "-m", "codeinfo", "search", "connection pool header", str(root)]
    times: dict[str, list[Cost]] = {"search": [], "without a look for changes": [], "empty process": []}
    for _ in range(rounds):
        times["search"].append(cost(command, environment))
        times["without a look for changes"].append(cost([*command, "--no-refresh"], environment))
        times["empty process"].append(cost([sys.executable, "-c", "pass"], environment))
    for name, values in times.items():
        print(f"  {name}: median {shown(typical(values))}, best {shown(min(values))}")
    return typical(times["search"]).wall_ms


def warm(folder: Path, chunks: int, provider: str) -> None:
    root, engine, _ = built(folder, chunks, provider)
    with engine:
        texts = queries(40)
        engine.search(SearchRequest(texts[0], (str(root),), refresh=False))
        times = []
        for query in texts:
            started = time.perf_counter()
            engine.search(SearchRequest(query, (str(root),), refresh=False))
            times.append(1000 * (time.perf_counter() - started))
    print(f"  warm search: p50 {statistics.median(times):.1f} ms, p95 {sorted(times)[int(len(times) * 0.95)]:.1f} ms")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--chunks", type=int, default=20_000)
    arguments.add_argument("--warm-chunks", type=int, default=200_000)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--provider", default="builtin", help="embedding.provider")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        median = cold(Path(name), options.chunks, options.rounds, options.provider)
        if options.warm_chunks:
            warm(Path(name), options.warm_chunks, options.provider)
    return 0 if median < COLD_LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
