"""Finds the code that fixed an issue: search judged by SWE-bench, or by its multilingual sister.

    python benchmarks/swe_bench.py TASKS CLONES --cache DIR --out FILE [--set SWE-bench_Lite] [--repos django …]

TASKS is the folder `tasks` of a clone of SWE-bench/swe-bench-tasks or SWE-bench/swe-bench-multilingual-tasks; the
repositories lie at CLONES/owner+name/repo. What is asked is the text of the issue, as it was written; what is right are
the files that the fix changed, and the functions around the changed lines. Each question is asked of the whole tree and
of the commits that were there before the fix: oldest first, so that only what changed in between is indexed.

FILE gets the scores of every task (`--compare` reads them); the table has a row for each repository.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from history_questions import functions_around, text_of_blob
from msgspec import Struct
from msgspec.structs import replace
from quality import Row, compare_rows, read_run, show, show_comparisons, show_repositories, write_run

from codeinfo.cache import group_by_key
from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals.metrics import Answer, Dataset, Query, Target
from codeinfo.evals.run import ask, scores_of, write_results
from codeinfo.languages import file_kind
from codeinfo.model import FileKind

WATCHED = ("top1", "top3", "top5", "top10", "ndcg10")
_FILE = re.compile(r"^diff --git a/(?P<path>.+) b/.+$")
_HUNK = re.compile(r"^@@ -(?P<start>\d+)(?:,(?P<count>\d+))? ")


class Task(Struct, frozen=True):
    id: str
    repo: str  # owner/name
    commit: str  # the tree that the issue is about
    created: str
    issue: str
    changes: dict[str, list[tuple[int, int]]]  # path → the lines of the old file that the fix changed

    @property
    def mirror(self) -> str:
        return self.repo.replace("/", "+")


def read_tasks(folder: Path, subset: str) -> Iterator[Task]:
    for place in sorted(folder.iterdir()):
        facts: dict[str, Any] = yaml.safe_load((place / "task.yaml").read_text(encoding="utf-8"))
        if facts["split"] != "test" or (subset and f"SWE-bench/{subset}" not in facts["datasets"]):
            continue
        issue = (place / "problem_statement.md").read_text(encoding="utf-8")
        changes = read_changes((place / "gold.patch").read_text(encoding="utf-8"))
        yield Task(place.name, facts["repo"], facts["base_commit"], str(facts["created_at"]), issue, changes)


def read_changes(patch: str) -> dict[str, list[tuple[int, int]]]:
    """The lines that were changed or deleted; of an insertion the line before it."""
    changes: dict[str, list[tuple[int, int]]] = {}
    path, line = "", 0
    for text in patch.splitlines():
        if match := _FILE.match(text):
            path, line = match["path"], 0
            changes[path] = []
        elif match := _HUNK.match(text):
            line = int(match["start"])
        elif line and text.startswith("-"):
            changes[path].append((line, line))
            line += 1
        elif line and text.startswith("+"):
            changes[path].append((max(line - 1, 1), max(line - 1, 1)))
        elif line and not text.startswith("\\"):
            line += 1
    return changes


def query_of(task: Task, clone: Path) -> Query | None:
    """None if the fix changed no code that was there before."""
    targets = []
    for path, lines in task.changes.items():
        text = text_of_blob(clone, f"{task.commit}:{path}") if file_kind(path) is FileKind.CODE else ""
        if text:
            spans = tuple(dict.fromkeys(lines))
            targets.append(Target(path, spans=spans, functions=tuple(functions_around(spans, path, text))))
    return Query(task.id, task.issue, tuple(targets), repo=task.repo) if targets else None


def ask_repository(engine: Engine, clone: Path, tasks: Sequence[Task]) -> Iterator[tuple[Query, Answer]]:
    for task in tasks:
        if query := query_of(task, clone):
            yield query, next(iter(ask(engine, clone, [query], at=task.commit)))


def measure(config: Config, tasks: Sequence[Task], clones: Path, cache: Path) -> tuple[list[Query], list[Answer]]:
    queries, answers = list[Query](), list[Answer]()
    for repo, some in group_by_key((task.repo, task) for task in tasks).items():
        mirror, clone = clones / some[0].mirror / "repo", cache / "clones" / repo.partition("/")[2]
        if not mirror.is_dir():
            print(f"{repo}: no clone, {len(some)} tasks left out", file=sys.stderr, flush=True)
            continue
        if not clone.is_dir():
            subprocess.run(
                ["git", "clone", "--quiet", "--shared", "--no-checkout", str(mirror), str(clone)], check=True
            )
        started = time.perf_counter()
        with Engine(config) as engine:
            for query, answer in ask_repository(engine, clone, sorted(some, key=lambda task: task.created)):
                queries.append(query)
                answers.append(answer)
        print(f"{repo}: {len(some)} tasks in {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return queries, answers


def main() -> int:
    options = read_options()
    chosen = [task for task in read_tasks(options.tasks, options.set) if is_chosen(task, options.repos)]
    config = Config.load({"paths.cache_dir": str(options.cache.resolve())}, options.cache)
    queries, answers = measure(config, chosen, options.clones, options.cache.resolve())
    if options.results:
        write_results(options.results, answers)
    dataset = Dataset(options.set or options.tasks.name, tuple(queries))
    scores = scores_of(dataset, {answer.id: answer for answer in answers})
    row = Row(dataset.name, dataset.queries, scores, WATCHED)
    show([row])
    show_repositories([replace(row, title="")])
    if options.out:
        write_run(options.out, [row])
    if options.compare:
        show_comparisons(compare_rows([row], read_run(options.compare)))
    return 0


def is_chosen(task: Task, repos: Sequence[str]) -> bool:
    return not repos or any(name in task.repo for name in repos)


def read_options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tasks", type=Path)
    arguments.add_argument("clones", type=Path, help="a clone is CLONES/owner+name/repo")
    arguments.add_argument("--cache", type=Path, required=True, help="where indexes are kept")
    arguments.add_argument("--set", default="", help="SWE-bench_Lite, SWE-bench_Verified; all tasks without it")
    arguments.add_argument("--repos", nargs="*", default=[], help="only repositories with this in their name")
    arguments.add_argument("--out", type=Path, help="write scores")
    arguments.add_argument("--results", type=Path, help="write every result")
    arguments.add_argument("--compare", type=Path, help="the scores of an earlier run")
    return arguments.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
