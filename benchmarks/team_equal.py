"""Compares a team's PostgreSQL with a local index, result by result: path, lines, score and text of every hit.

    python benchmarks/team_equal.py DATASET TREES --store postgresql://… --cache DIR [--repos click chi …]

Each repository is indexed three times: alone, published as a folder of this machine, and pulled by a server that has
nothing but the address of the database. Every question of the dataset is asked of all three. Exit code 3: one differs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals.metrics import DEPTH, load_dataset
from codeinfo.evals.run import CODE_FILES, bring_up_to_date, tree_of
from codeinfo.model import Hit
from codeinfo.operations.search import SearchRequest
from codeinfo.team.access import folder_identity

Found = tuple[tuple[str, int, int, float, str], ...]


def engine_of(cache: Path, store: str) -> Engine:
    # One parser: the order in which files come decides the last digit of a score.
    return Engine(
        Config.load(
            {"paths.cache_dir": str(cache), "store.url": store, "index.workers": "1"}, cache.parent, dict(os.environ)
        )
    )


def ask(engine: Engine, project: str, query: str) -> tuple[Found, float]:
    started = time.perf_counter()
    request = SearchRequest(query, (project,), limit=DEPTH, kinds=CODE_FILES)
    hits = engine.search(request).hits
    took_ms = 1000 * (time.perf_counter() - started)
    return tuple(map(_compared, hits)), took_ms


def _compared(hit: Hit) -> tuple[str, int, int, float, str]:
    return hit.path, hit.start_line, hit.end_line, hit.score, hit.text


def main() -> int:
    options = read_options()
    dataset = load_dataset(options.dataset)
    engines = {
        "alone": engine_of(options.cache / "alone", ""),
        "folder": engine_of(options.cache / "folder", options.store),
        "server": engine_of(options.cache / "server", options.store),
    }
    unlike = count = 0
    times: dict[str, list[float]] = {name: [] for name in engines}
    for repo in options.repos or dict.fromkeys(query.repo for query in dataset.queries):
        queries = [query for query in dataset.queries if query.repo == repo]
        root = tree_of(repo, options.trees) / dataset.roots.get(repo, "")
        for name in ("alone", "folder"):
            started = time.process_time()
            report = bring_up_to_date(engines[name], root)
            took = f"{report.took_ms / 1000:.1f} s ({time.process_time() - started:.1f} s of this process)"
            print(f"{repo}, {name}: {report.files} files, {report.chunks} chunks in {took}", flush=True)
        places = {"alone": str(root), "folder": str(root), "server": folder_identity(root.resolve())}
        started = time.perf_counter()
        ask(engines["server"], places["server"], repo)
        print(f"{repo}, server: pulled in {time.perf_counter() - started:.1f} s", flush=True)
        for name in ("alone", "folder"):
            ask(engines[name], places[name], repo)
        for query in queries:
            results = {}
            for name, engine in engines.items():
                results[name], took_ms = ask(engine, places[name], query.text)
                times[name].append(took_ms)
            count += 1
            if len(set(results.values())) != 1:
                unlike += 1
                print(f"{repo}: {query.text!r} differs", flush=True)
    for engine in engines.values():
        engine.close()
    for name, taken in times.items():
        print(f"{name:8} p50 {statistics.median(taken):.1f} ms, p95 {statistics.quantiles(taken, n=20)[-1]:.1f} ms")
    print(f"{count} questions, {unlike} with other results")
    return 3 if unlike else 0


def read_options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("dataset", type=Path)
    arguments.add_argument("trees", type=Path)
    arguments.add_argument("--store", required=True, metavar="URL")
    arguments.add_argument("--cache", type=Path, required=True, help="where the indexes go")
    arguments.add_argument("--repos", nargs="*", metavar="NAME", help="all by default")
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(main())
