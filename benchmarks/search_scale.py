"""Searches a large index, or all projects of a machine or a server as one, and compares with the exact ranking.

    python benchmarks/search_scale.py QUERIES.jsonl TREE --cache FOLDER --rounds 2
    python benchmarks/search_scale.py QUERIES.jsonl TREE... --cache FOLDER --projects 100

The trees are indexed, then copied as indexes: with --rounds one project that has so many copies of the tree side by
side, with --projects so many projects under other roots, each asked by all queries as `codeinfo search --all-projects`
does. In each copy one of five words is another one, and every vector is moved a little (synthetic.py), so no two answer
alike. Exact is the same search with every vector compared and every file scored. Recall is the share of its first ten
files that are among the first ten. Times are of the wall clock and of the processor, which other work on the machine
blurs less; the first search opens all indexes and is apart. --steps says where the time of each kind of question goes,
by samples of the processor.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from synthetic import copy_index, memory_mb

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.model import Hit
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.search import line

LIMIT = 10
SAMPLED_S = 0.001


class Question(NamedTuple):
    text: str
    kind: str


class Asked(NamedTuple):
    """What was found for each question, and its milliseconds."""

    found: list[list[tuple[str, str]]]
    wall: list[float]
    cpu: list[float]


def make_indexes(cache: Path, trees: list[Path], projects: int, rounds: int) -> tuple[str, ...]:
    """The paths to search: one, or none for all projects."""
    with Engine(Config.load({"paths.cache_dir": str(cache)})) as engine:
        engine.index(IndexRequest(tuple(map(str, trees))))
    if rounds:
        target = cache / "rounds" / f"{trees[0].name}-{rounds}"
        if not target.exists():
            copy_index(cache, trees[0], target, 1, rounds)
        return (str(target),)
    for number in range(projects):
        target = cache / "projects" / f"{trees[number % len(trees)].name}-{number}"
        if not target.exists():
            copy_index(cache, trees[number % len(trees)], target, number)
    return ()


def ask(engine: Engine, questions: Sequence[Question], paths: tuple[str, ...]) -> Asked:
    measured = Asked([], [], [])
    for question in questions:
        started, used = time.perf_counter(), time.process_time()
        hits = search(engine, question.text, paths)
        measured.wall.append(1000 * (time.perf_counter() - started))
        measured.cpu.append(1000 * (time.process_time() - used))
        measured.found.append(list(dict.fromkeys((hit.root, hit.path) for hit in hits)))
    return measured


def search(engine: Engine, text: str, paths: tuple[str, ...]) -> Sequence[Hit]:
    return engine.search(SearchRequest(text, paths, all_projects=not paths, limit=LIMIT, refresh=False)).hits


def show_times(name: str, questions: Sequence[Question], measured: Asked) -> None:
    for kind in dict.fromkeys(question.kind for question in questions):
        positions = [at for at, question in enumerate(questions) if question.kind == kind]
        figures = []
        for label, times in (("wall", measured.wall), ("processor", measured.cpu)):
            some = [times[at] for at in positions]
            cuts = statistics.quantiles(some, n=20)
            figures.append(f"{label} p50 {statistics.median(some):.1f}, p95 {cuts[18]:.1f} ms")
        print(f"{name}, {len(positions)} × {kind}: {', '.join(figures)}", flush=True)


class Steps:
    """Processor time by function, of what is sampled while it is on: with what it calls, and its own lines."""

    def __init__(self) -> None:
        self.within, self.own, self.samples = Counter[str](), Counter[str](), 0

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self.samples += 1
        if frame is not None:
            self.own[f"{_place(frame)}:{frame.f_lineno}"] += 1
        seen = set[str]()
        while frame is not None:
            seen.add(_place(frame))
            frame = frame.f_back
        self.within.update(seen)

    def __enter__(self) -> Steps:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLED_S, SAMPLED_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def show(self, mean_ms: float, most: int) -> None:
        for title, counts in (("with what it calls", self.within), ("own lines", self.own)):
            print(f"  {title}")
            for place, count in counts.most_common(most):
                print(f"  {mean_ms * count / max(self.samples, 1):8.2f} ms  {place}")


def _place(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)} {frame.f_code.co_name}"


def show_steps(engine: Engine, questions: Sequence[Question], paths: tuple[str, ...], most: int) -> None:
    for kind in dict.fromkeys(question.kind for question in questions):
        of_kind = [question for question in questions if question.kind == kind]
        with Steps() as steps:
            measured = ask(engine, of_kind, paths)
        print(f"{kind}: {statistics.fmean(measured.cpu):.1f} ms on average, asked again")
        steps.show(statistics.fmean(measured.cpu), most)


def read_questions(path: Path, names: set[str], most: int) -> list[Question]:
    rows = [row for row in map(json.loads, path.read_text().splitlines()) if row["repo"] in names]
    return [Question(row["query"], row.get("category", "question")) for row in rows[:: max(1, len(rows) // most)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path, help="one JSON object a line, with query, repo and category")
    parser.add_argument("trees", type=Path, nargs="+", help="real trees, each the folder of its repository's name")
    parser.add_argument("--cache", type=Path, required=True, help="a folder for the indexes and nothing else")
    parser.add_argument("--projects", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=0, help="one project of so many copies instead")
    parser.add_argument("--queries-asked", type=int, default=60)
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="show the N dearest functions and lines")
    parser.add_argument("--no-exact", action="store_true", help="times alone")
    options = parser.parse_args()
    gc.set_threshold(200_000, 20, 20)  # as the program does: a collection would come in every tenth question
    trees, cache = [tree.resolve() for tree in options.trees], options.cache.resolve()
    paths = make_indexes(cache, trees, options.projects, options.rounds)
    questions = read_questions(options.queries, {tree.name for tree in trees}, options.queries_asked)
    with Engine(Config.load({"paths.cache_dir": str(cache)})) as engine:
        started = time.perf_counter()
        search(engine, "open a connection", paths)
        print(f"the first search {time.perf_counter() - started:.1f} s", flush=True)
        likely = ask(engine, questions, paths)
        show_times("likely files", questions, likely)
        show_times("asked again", questions, ask(engine, questions, paths))
        print(f"memory {memory_mb(os.getpid(), 'Pss'):.0f} MB")
        if options.steps:
            show_steps(engine, questions, paths, options.steps)
        if options.no_exact:
            return
        line.LARGE = 1 << 60
        exact = ask(engine, questions, paths)
        show_times("exact", questions, exact)
    compare(likely.found, exact.found)


def compare(likely_hits: list[list[tuple[str, str]]], exact: list[list[tuple[str, str]]]) -> None:
    pairs = [(likely, complete) for likely, complete in zip(likely_hits, exact, strict=True) if complete]
    recall = statistics.fmean(len(set(likely) & set(complete)) / len(complete) for likely, complete in pairs)
    same = sum(set(likely) == set(complete) for likely, complete in pairs)
    order = sum(likely == complete for likely, complete in pairs)
    print(f"recall@{LIMIT} {recall:.4f}; the same files {same}, in the same order {order} of {len(pairs)}")


if __name__ == "__main__":
    main()
