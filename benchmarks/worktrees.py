"""Measures what a second work tree, a switch of branches and a search in the past cost, and compares their answers.

    python benchmarks/worktrees.py CLONE --second REV --work DIR
    python benchmarks/worktrees.py CLONE --second REV --work DIR --queries queries.jsonl --name fastapi --at 20

The clone is only read: its objects are shared by a repository in DIR with two work trees, at --first (the clone's HEAD)
and --second. Seconds are those of a processor, workers included; each share is that of the first index.

Questions are those of --queries whose `repo` is --name, and the subjects of recent commits; names are asked for with
`defs` and `refs`. Answers are compared with those of an index that was made for that tree alone, in full: paths, lines,
scores, texts, confidence; a score may differ in its last digit. Exit code 3: some differ, or a second work tree or a
switch cost more than --most of the first index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from synthetic import children_cpu_s

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.code import DefsRequest, RefsRequest, SymbolsRequest
from codeinfo.operations.search import SearchRequest

FAILED = 3
SKIPPED = 3  # the index is whole, and some file was left out that its owner should know of
NAMES_PER_TREE = 12
LAST_DIGIT = 0.000101  # scores and signals are rounded to four places
LAST_SHOWN = 0.00101  # and to three in a text
NUMBER = re.compile(r"(\d+\.\d{3})\b")
VOLATILE = ("took_ms", "root", "chunk_id")


class Cost(NamedTuple):
    seconds: float
    megabytes: float

    def beside(self, first: Cost) -> str:
        time, space = self.seconds / first.seconds, self.megabytes / first.megabytes
        return f"{self.seconds:8.2f} s {time:6.1%}   {self.megabytes:8.2f} MB {space:6.1%}"


class Bench:
    """One repository with two work trees, and its cache."""

    def __init__(self, clone: Path, work: Path) -> None:
        self.repo, self.second = work / "first" / clone.name, work / "second" / clone.name  # words of a root count
        self.cache, self.fresh = work / "cache", work / "fresh"
        work.mkdir(parents=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", clone, self.repo], check=True)

    def git(self, *arguments: str, at: Path | None = None, stdin: str = "") -> str:
        command = ["git", "-C", str(at or self.repo), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin).stdout.strip()

    def check_out(self, revision: str, at: Path) -> None:
        """Without the files whose content the clone lacks, as one that was cut down does."""
        if not at.exists():
            self.git("worktree", "add", "--quiet", "--no-checkout", "--detach", str(at), revision)
        listed = [line.split() for line in self.git("ls-tree", "-r", "--full-tree", revision).splitlines()]
        blobs = {entry[2]: entry[3] for entry in listed if entry[1] == "blob"}
        checked = self.git("cat-file", "--batch-check", stdin="\n".join(blobs)).splitlines()
        lacking = [blobs[line.split()[0]] for line in checked if line.endswith("missing")]
        rules = ["/*", *(f"!/{path}" for path in lacking)]
        self.git("sparse-checkout", "set", "--no-cone", "--stdin", at=at, stdin="\n".join(rules))
        self.git("checkout", "--quiet", "--detach", revision, at=at)

    def index(self, root: Path) -> Cost:
        before, size = children_cpu_s(), disk_use(self.cache)
        command = [sys.executable, "-m", "codeinfo", "index", str(root)]
        environment = {**os.environ, "CODEINFO_CACHE_DIR": str(self.cache)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, SKIPPED):
            raise SystemExit(done.stderr)
        return Cost(children_cpu_s() - before, disk_use(self.cache) - size)

    def answers(self, root: Path, questions: list[str], at: str = "") -> dict[str, Any]:
        return replies(self.cache, root, questions, at)

    def fresh_answers(self, root: Path, questions: list[str]) -> dict[str, Any]:
        shutil.rmtree(self.fresh, ignore_errors=True)
        return replies(self.fresh, root, questions)


def replies(cache: Path, root: Path, questions: list[str], at: str = "") -> dict[str, Any]:
    replies: dict[str, Any] = {}
    with Engine(Config.load({"paths.cache_dir": str(cache)}, root)) as engine:
        names: dict[str, None] = {}
        for question in questions:
            result = engine.search(SearchRequest(question, (str(root),), explain=True, refresh=not replies, at=at))
            replies[f"search {question}"] = plain(result)
            names.update({hit.symbol.rpartition(".")[2]: None for hit in result.hits[:2] if hit.symbol})
        paths = [hit["path"] for question in questions for hit in replies[f"search {question}"]["hits"][:1]]
        for name in list(names)[:NAMES_PER_TREE]:
            replies[f"defs {name}"] = plain(engine.code.definitions(DefsRequest(name, str(root), at=at)))
            replies[f"refs {name}"] = plain(engine.code.references(RefsRequest(name, str(root), at=at)))
        for path in list(dict.fromkeys(paths))[:NAMES_PER_TREE]:
            if not at:  # a path is one of the work tree
                replies[f"symbols {path}"] = plain(engine.code.symbols(SymbolsRequest(path, root=str(root))))
    return replies


def plain(value: Any) -> Any:
    """As JSON, without what another place or another moment changes."""

    def strip(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: strip(inner) for key, inner in part.items() if key not in VOLATILE}
        return [strip(inner) for inner in part] if isinstance(part, list) else part

    return strip(json.loads(msgspec.json.encode(value)))


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for question in {**before, **after}:
        if not same(before.get(question), after.get(question)):
            yield question


def same(before: Any, after: Any) -> bool:
    """Equal; a number may differ in its last digit, since a sum of products depends on where a row lies in memory."""
    if isinstance(before, str) and isinstance(after, str) and before != after:  # "score 0.741"
        parts = [NUMBER.split(text) for text in (before, after)]
        return parts[0][::2] == parts[1][::2] and all(
            abs(float(a) - float(b)) <= LAST_SHOWN for a, b in zip(parts[0][1::2], parts[1][1::2], strict=True)
        )
    if isinstance(before, float) and isinstance(after, float):
        return abs(before - after) <= LAST_DIGIT
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(same(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(same(*pair) for pair in zip(before, after, strict=True))
    return bool(before == after)


def first_difference(before: Any, after: Any, where: str = "") -> str:
    """The place of two answers where they part, and what stands there."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        pairs: list[tuple[object, Any, Any]] = [(key, before[key], after[key]) for key in before]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(at, *pair) for at, pair in enumerate(zip(before, after, strict=True))]
    else:
        return f"{where}: {str(before)[:200]} / {str(after)[:200]}"
    return next(first_difference(a, b, f"{where}/{key}") for key, a, b in pairs if not same(a, b))


def disk_use(folder: Path) -> float:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files) / 1e6


def read_questions(bench: Bench, queries: Path | None, name: str, subjects: int) -> list[str]:
    from_file: list[str] = []
    if queries is not None:
        rows = (json.loads(line) for line in queries.read_text("utf-8").splitlines())
        from_file = [row["query"] for row in rows if row["repo"] == name]
    return [*from_file, *bench.git("log", f"-{subjects}", "--no-merges", "--format=%s").splitlines()]


def compare(title: str, before: dict[str, Any], after: dict[str, Any]) -> int:
    wrong = list(differences(before, after))
    print(f"{title}: {len(after) - len(wrong)} of {len(after)} answers equal those of a fresh index", flush=True)
    for question in wrong[:5]:
        print(f"  {question}: {first_difference(before.get(question), after.get(question))}", flush=True)
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="a folder to fill; it must not exist")
    parser.add_argument("--first", default="HEAD", metavar="REV")
    parser.add_argument("--second", required=True, metavar="REV")
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--name", default="", help="of the repository in --queries")
    parser.add_argument("--subjects", type=int, default=20, help="commits whose subjects are asked")
    parser.add_argument("--switches", type=int, default=10)
    parser.add_argument("--at", type=int, default=0, help="revisions to search without checking them out")
    parser.add_argument("--most", type=float, default=0.05)
    options = parser.parse_args()
    os.environ["GIT_NO_LAZY_FETCH"] = "1"
    bench = Bench(options.clone.resolve(), options.work.resolve())
    revisions = (f"{revision}^{{commit}}" for revision in (options.first, options.second))
    first, second = (bench.git("rev-parse", revision, at=options.clone) for revision in revisions)
    bench.check_out(first, bench.repo)
    bench.check_out(second, bench.second)
    questions = read_questions(bench, options.queries, options.name, options.subjects)
    failed = 0

    start = bench.index(bench.repo)
    print(f"first index   {start.beside(start)}", flush=True)
    alone = bench.answers(bench.repo, questions)
    added = bench.index(bench.second)
    print(f"second tree   {added.beside(start)}", flush=True)
    costs = [added]
    for at in range(options.switches):
        bench.check_out(second if at % 2 == 0 else first, bench.repo)
        costs.append(bench.index(bench.repo))
        print(f"switch {at + 1:2}     {costs[-1].beside(start)}", flush=True)
    total = disk_use(bench.cache) / start.megabytes
    print(f"the store after all switches: {total:.1%} of the first index", flush=True)
    failed += any(cost.seconds > options.most * start.seconds for cost in costs)
    failed += total > 1 + 2 * options.most
    if options.switches % 2:
        bench.check_out(first, bench.repo)
    failed += compare("after the switches", bench.answers(bench.repo, questions), alone)
    beside = bench.answers(bench.second, questions)
    failed += compare("second tree", beside, bench.fresh_answers(bench.second, questions))
    if options.at:
        failed += compare_revisions(bench, first, questions, options.at)
    return FAILED if failed else 0


def compare_revisions(bench: Bench, newest: str, questions: list[str], count: int) -> int:
    """Revisions spread over the last commits, each searched from the first tree and checked out in the second one."""
    listed = bench.git("rev-list", "--first-parent", f"--max-count={count * 10}", newest).splitlines()
    wrong = 0
    for revision in listed[:: max(1, len(listed) // count)][:count]:
        bench.check_out(revision, bench.second)
        past = bench.answers(bench.repo, questions, at=revision)
        fresh = bench.fresh_answers(bench.second, questions)
        wrong += compare(
            f"at {revision[:12]}", past, {key: fresh[key] for key in fresh if not key.startswith("symbols")}
        )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
