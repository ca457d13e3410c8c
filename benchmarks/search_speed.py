"""Asks the same questions of semble and of CodeInfo, in turn, and prints the median time of each.

    python benchmarks/search_speed.py QUERIES.jsonl TREES --repos repos.tsv --semble-python … --semble-model FOLDER
    python benchmarks/search_speed.py QUERIES.jsonl TREES --repos repos.tsv        # CodeInfo alone

Both are processes that are running, with the index at hand: CodeInfo's on disk and its engine as servers have it,
semble's in memory. Every question is new to both. A tree's questions are put to one, then to the other, and the order
changes from tree to tree, so that a machine whose speed varies is as slow for both.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from index_speed import NAMES, Contestant, folders_of

LIMIT = 10


def serve_codeinfo() -> None:
    from codeinfo.config import Config
    from codeinfo.operations.search import IndexRequest, SearchRequest
    from codeinfo.serve.refresh import server_engine

    gc.set_threshold(200_000, 20, 20)  # as the command `codeinfo` does

    def config(cache: str) -> Config:
        return Config.load({"paths.cache_dir": cache})

    print("ready", flush=True)
    with tempfile.TemporaryDirectory() as cache, server_engine(config(cache)) as engine:
        tree = ""
        for line in sys.stdin:
            if line.startswith("/"):
                tree = line.strip()
                engine.indexes.of(tree)  # alone, whatever lies around it
                engine.index(IndexRequest((tree,)))
                print("ready", flush=True)
                continue
            request = SearchRequest(query=json.loads(line), paths=(tree,), limit=LIMIT, refresh=False)
            started = time.perf_counter()
            result = engine.search(request)
            print(time.perf_counter() - started, len(result.hits), flush=True)


def serve_semble(model: str) -> None:
    from semble import SembleIndex  # type: ignore[import-not-found, unused-ignore]

    print("ready", flush=True)
    index: Any = None
    for line in sys.stdin:
        if line.startswith("/"):
            index = SembleIndex.from_path(line.strip(), model_path=model)
            print("ready", flush=True)
            continue
        query = json.loads(line)
        started = time.perf_counter()
        results = index.search(query, top_k=LIMIT, alpha=0.0)  # its ranking without vectors, which is its quickest
        print(time.perf_counter() - started, len(results), flush=True)


def race(
    questions: dict[str, list[str]], folders: dict[str, Path], contestants: dict[str, Contestant]
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn, (repo, texts) in enumerate(questions.items()):
        for contestant in contestants.values():
            contestant.say(str(folders[repo]))
        for name in sorted(contestants, reverse=bool(turn % 2)):
            times[name] += [1000 * float(contestants[name].say(json.dumps(query)).split()[0]) for query in texts]
        medians = "   ".join(f"{name} {statistics.median(times[name][-len(texts) :]):6.2f} ms" for name in times)
        print(f"{repo:20} {len(texts):3} questions   {medians}", flush=True)
    return times


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("queries", type=Path, nargs="?", help="one JSON object a line, with repo and query")
    arguments.add_argument("trees", type=Path, nargs="?", help="a folder of trees")
    arguments.add_argument("--repos", type=Path, help="a table: name first, folder to index sixth")
    arguments.add_argument("--semble-python", help="the Python that has semble")
    arguments.add_argument("--semble-model", help="a model2vec folder for semble")
    arguments.add_argument("--serve", choices=NAMES, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.serve:
        serve_codeinfo() if options.serve == "codeinfo" else serve_semble(options.semble_model)
        return 0
    if options.trees is None or options.repos is None:
        arguments.error("name the questions, the folder of trees and the table of repositories")
    questions: dict[str, list[str]] = defaultdict(list)
    for line in options.queries.read_text().splitlines():
        questions[json.loads(line)["repo"]].append(json.loads(line)["query"])
    contestants = {"codeinfo": Contestant([sys.executable, __file__, "--serve", "codeinfo"])}
    if options.semble_python:
        command = [options.semble_python, __file__, "--serve", "semble", "--semble-model", options.semble_model]
        contestants["semble"] = Contestant(command)
    times = race(questions, folders_of(options.trees, options.repos), contestants)
    for contestant in contestants.values():
        contestant.close()
    return print_table(times)


def print_table(times: dict[str, list[float]]) -> int:
    for name, durations in times.items():
        cuts = statistics.quantiles(durations, n=20)
        print(f"{name}: p50 {statistics.median(durations):.2f} ms, p95 {cuts[18]:.2f} ms, {len(durations)} questions")
    if "semble" not in times:
        return 0
    ratio = statistics.median(times["codeinfo"]) / statistics.median(times["semble"])
    print(f"ratio of medians, CodeInfo to semble: {ratio:.2f} (at most 1)")
    return 1 if ratio > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
