"""Searches all projects of a machine or a server as one, and compares with the exact ranking.

    python benchmarks/all_projects.py QUERIES.jsonl TREE... --cache FOLDER --projects 100

The trees are indexed, then copied as indexes under other roots until there are enough projects: in each copy one of
five words is another one, and every vector is moved a little (synthetic.py), so no two answer alike. A query goes to
all of them at once, as `codeinfo search --all-projects` does. Exact is the same search with every vector compared and
every file scored. Recall is the share of its first ten files that are among the first ten. Times are of the wall clock
and of the processor, which other work on the machine blurs less; the first search opens all indexes and is apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from growth import pss_mb
from synthetic import copy_index

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.search import line

LIMIT = 10


def make_projects(cache: Path, trees: list[Path], projects: int) -> int:
    """Returns the chunks of all copies."""
    with Engine(Config.load({"paths.cache_dir": str(cache)})) as engine:
        engine.index(IndexRequest(tuple(map(str, trees))))
    chunks = 0
    for number in range(projects):
        target = cache / "projects" / f"{trees[number % len(trees)].name}-{number}"
        if not target.exists():
            chunks += copy_index(cache, trees[number % len(trees)], target, number)
    return chunks


def ask(engine: Engine, queries: list[str]) -> tuple[list[set[tuple[str, str]]], list[float], list[float]]:
    found, wall, cpu = [], [], []
    for query in queries:
        started, used = time.perf_counter(), time.process_time()
        hits = engine.search(SearchRequest(query, all_projects=True, limit=LIMIT)).hits
        wall.append(1000 * (time.perf_counter() - started))
        cpu.append(1000 * (time.process_time() - used))
        found.append({(hit.root, hit.path) for hit in hits})
    return found, wall, cpu


def shown(name: str, wall: list[float], cpu: list[float]) -> str:
    figures = (f"{label} p50 {statistics.median(times):.0f}, p95 {statistics.quantiles(times, n=20)[18]:.0f} ms"
               for label, times in (("wall", wall), ("processor", cpu)))  # fmt: skip
    return f"{name}: {', '.join(figures)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path, help="one JSON object a line, with query and repo")
    parser.add_argument("trees", type=Path, nargs="+", help="real trees, each the folder of its repository's name")
    parser.add_argument("--cache", type=Path, required=True, help="a folder for the indexes and nothing else")
    parser.add_argument("--projects", type=int, default=100)
    parser.add_argument("--queries-asked", type=int, default=60)
    options = parser.parse_args()
    trees, cache = [tree.resolve() for tree in options.trees], options.cache.resolve()
    make_projects(cache, trees, options.projects)
    names = {tree.name for tree in trees}
    rows = [json.loads(row) for row in options.queries.read_text().splitlines()]
    queries = [row["query"] for row in rows if row["repo"] in names]
    queries = queries[:: max(1, len(queries) // options.queries_asked)]
    with Engine(Config.load({"paths.cache_dir": str(cache)})) as engine:
        started = time.perf_counter()
        first = engine.search(SearchRequest("open a connection", all_projects=True))
        print(f"{first.notes[0]}; the first search {time.perf_counter() - started:.1f} s", flush=True)
        found, wall, cpu = ask(engine, queries)
        print(shown(f"{len(queries)} queries", wall, cpu), f"memory {pss_mb('self'):.0f} MB", sep="\n", flush=True)
        line.LARGE = 1 << 60
        exact, wall, cpu = ask(engine, queries)
        print(shown("exact", wall, cpu))
    recall = [len(one & other) / len(other) for one, other in zip(found, exact, strict=True) if other]
    print(f"recall@{LIMIT} {statistics.fmean(recall):.4f}, equal {sum(one == 1 for one in recall)} of {len(recall)}")


if __name__ == "__main__":
    main()
