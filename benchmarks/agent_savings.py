"""The same tasks with and without CodeInfo, by a scripted agent: calls, tokens, time, right files, and losses.

    python benchmarks/agent_savings.py TASKS FOLDER [--most N] [--losses]

TASKS is a file of JSON lines, {"query": "…", "targets": ["path", …]} (or the benchmark's own format: `repo` then names
a folder below FOLDER); FOLDER is your repository. No model is asked: both agents follow a fixed policy, so that anyone
gets the same figures on the same tree, and a difference is the tools', not the model's.

- *grep and read*: the five longest words of the task are searched for with `git grep`, in code other than tests; files
  with more of the words come first, rare words count more. Of each the 120 lines with most matches are read, until a
  file that answers is among them, ten at most.
- *CodeInfo*: one `search_codebase` over MCP; the lines that a result names are read, until a file that answers is among
  them, ten at most.

Both stop by the same oracle, which knows the right files: a lower bound for both. Tokens are all that a model would
read (replies, lists of matches, lines), estimated as in the product. Which of the two goes first alternates. An agent
that never opens a right file has lost the task; both sides' losses are counted.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path

from mcp_sizes import Session
from msgspec import Struct

from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.search.query import STOP_WORDS
from codeinfo.tokens import estimate_tokens

MOST_OPENED = 10
WINDOW = 120  # lines of a file that are read at once
MOST_LISTED = 50  # matches of a word that a model would look at
LINE = 160  # characters of a match that are shown
WORDS = 5


class Outcome(Struct, frozen=True):
    calls: int
    tokens: int
    seconds: float
    opened: int  # files or places until a right one
    found: bool


class Task(Struct, frozen=True):
    query: str
    targets: tuple[str, ...]
    folder: Path

    def is_right(self, path: str) -> bool:
        return any(f"/{path}".endswith(f"/{target}") or target.endswith(f"/{path}") for target in self.targets)


def grep_and_read(task: Task) -> Outcome:
    started, tokens, calls = time.perf_counter(), 0, 0
    scores: Counter[str] = Counter()
    lines: dict[str, list[int]] = {}
    words = [word for word in re.findall(r"[A-Za-z_]\w{2,}", task.query) if word.lower() not in STOP_WORDS]
    for word in sorted(dict.fromkeys(words), key=len, reverse=True)[:WORDS]:
        command = ["git", "grep", "-I", "-i", "-n", "-F", word]
        listed = subprocess.run(command, cwd=task.folder, capture_output=True, text=True, errors="replace", check=False)
        calls += 1
        matches = [line.split(":", 2) for line in listed.stdout.splitlines() if line.count(":") >= 2]
        matches = [match for match in matches if kind_of(match[0], language_of(match[0])) is FileKind.CODE]
        tokens += estimate_tokens("\n".join(":".join(match)[:LINE] for match in matches[:MOST_LISTED]))
        files = {match[0] for match in matches}
        for path, number, _ in matches:
            lines.setdefault(path, []).append(int(number))
        for path in files:
            scores[path] += 1 + 10 // len(files)
    ranked = sorted(scores, key=lambda path: (-scores[path], -len(lines[path]), path))
    for opened, path in enumerate(ranked[:MOST_OPENED], 1):
        calls += 1
        text = (task.folder / path).read_text(errors="replace").split("\n")
        first = max(lines[path], key=lambda start: sum(start <= line < start + WINDOW for line in lines[path]))
        tokens += estimate_tokens("\n".join(text[first - 1 : first - 1 + WINDOW]))
        if task.is_right(path):
            return Outcome(calls, tokens, time.perf_counter() - started, opened, True)
    return Outcome(calls, tokens, time.perf_counter() - started, MOST_OPENED, False)


def with_codeinfo(task: Task, session: Session) -> Outcome:
    started = time.perf_counter()
    text = session.call("search_codebase", query=task.query)["content"][0]["text"]
    tokens, calls = estimate_tokens(text), 1
    for opened, result in enumerate(json.loads(text)["results"][:MOST_OPENED], 1):
        path, _, span = result["file"].rpartition(":")
        first, last = map(int, span.split("-"))
        calls += 1
        lines = (task.folder / path).read_text(errors="replace").split("\n")[first - 1 : last]
        tokens += estimate_tokens("\n".join(lines))
        if task.is_right(path):
            return Outcome(calls, tokens, time.perf_counter() - started, opened, True)
    return Outcome(calls, tokens, time.perf_counter() - started, MOST_OPENED, False)


def read_tasks(file: Path, folder: Path, most: int, repos: list[str]) -> list[Task]:
    tasks = []
    for row in map(json.loads, file.read_text().splitlines()):
        if repos and row.get("repo") not in repos:
            continue
        home = folder / row["repo"] if "repo" in row else folder
        targets = tuple(target["path"] if isinstance(target, dict) else target for target in row["targets"])
        if home.is_dir():
            tasks.append(Task(row["query"], targets, home))
    return tasks[:most]


def show(name: str, outcomes: list[Outcome]) -> None:
    calls, tokens, seconds = (
        statistics.median(getattr(outcome, field) for outcome in outcomes) for field in ("calls", "tokens", "seconds")
    )
    mean, answered = statistics.mean(outcome.tokens for outcome in outcomes), sum(outcome.found for outcome in outcomes)
    print(
        f"{name:<16}{calls:>7.0f}{tokens:>10,.0f}{mean:>10,.0f}{1000 * seconds:>9.0f}{answered:>8} of {len(outcomes)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--repos", nargs="*", default=[])
    parser.add_argument("--losses", action="store_true", help="list the tasks that one of the two lost")
    options = parser.parse_args()
    tasks = read_tasks(options.tasks, options.folder.resolve(), options.most, options.repos)
    plain, ours = list[Outcome](), list[Outcome]()
    sessions: dict[Path, Session] = {}
    for number, task in enumerate(tasks):
        if task.folder not in sessions:
            sessions[task.folder] = Session(task.folder)
            sessions[task.folder].call("search_codebase", query="warm up")  # the index is made once, not for each task
        for turn in ("plain", "ours") if number % 2 else ("ours", "plain"):
            if turn == "plain":
                plain.append(grep_and_read(task))
            else:
                ours.append(with_codeinfo(task, sessions[task.folder]))
    for session in sessions.values():
        session.close()
    print(f"{len(tasks)} tasks, {len(sessions)} repositories; scripted agents, no model; order balanced")
    print(f"{'':<16}{'calls':>7}{'tokens':>10}{'mean':>10}{'ms':>9}{'right file':>14}")
    show("grep and read", plain)
    show("CodeInfo", ours)
    pairs = list(zip(tasks, plain, ours, strict=True))
    both = [(by_grep, by_codeinfo) for _, by_grep, by_codeinfo in pairs if by_grep.found and by_codeinfo.found]
    if both:
        share = statistics.median(by_codeinfo.tokens / by_grep.tokens for by_grep, by_codeinfo in both)
        dearer = sum(by_codeinfo.tokens > by_grep.tokens for by_grep, by_codeinfo in both)
        print(
            f"both find it {len(both)} times: CodeInfo reads {share:.0%} of the tokens, median, and more {dearer} times"
        )
    lost = Counter((by_grep.found, by_codeinfo.found) for _, by_grep, by_codeinfo in pairs)
    print(f"lost by grep {lost[False, True]}, by CodeInfo {lost[True, False]}, by both {lost[False, False]}")
    if options.losses:
        losers = {(False, False): "both", (False, True): "grep", (True, False): "CodeInfo"}
        for task, by_grep, by_codeinfo in pairs:
            if who := losers.get((by_grep.found, by_codeinfo.found)):
                print(f"  {who:<9} {task.folder.name}: {task.query[:80]} → {', '.join(task.targets)[:80]}")


if __name__ == "__main__":
    main()
