"""The card before a change, measured: is it ready where a careful colleague would go ahead, and only there?

    python benchmarks/card.py CLONES TREES                     # the 30 tasks of card_tasks.json
    python benchmarks/card.py CLONES TREES --fixture FILE      # and another project's fixture, read from FILE
    python benchmarks/card.py CLONES TREES --held-out          # commits of repositories that no weight was fitted on

CLONES holds repositories at owner+name/repo; TREES is where their pinned commits are laid out and kept. The labels of
card_tasks.json come from history: a safe task is one that a later commit did, with the files and tests it edited;
unsafe ones ask for what the repository has not, for nothing in particular, or for everything at once. A ready card is
right when the task is safe and an edited file is among the results.

FILE has `repositoryRef`, `tasks` with `query`, `risk` and, for safe ones, `expectedBestExamplePatterns`: parts of paths
of which the best example must have one. Its repository is the folder of CLONES whose name ends in its `codebase`.

Held out are three libraries for HTTP: the subjects of commits are asked of their own repository as it was before, and
of the two others, which have much in common with it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from commit_messages import is_telling, question_of
from msgspec import Struct
from trees import Pin, commit_at, lay_out_missing

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals.run import read_commits, reason_to_leave_out
from codeinfo.operations.search import SearchRequest
from codeinfo.sources import git

HELD_OUT = {
    "starlette": ("Kludex+starlette", "2024-06-01"),
    "chi": ("go-chi+chi", "2023-06-01"),
    "requests": ("psf+requests", "2022-01-01"),
}
MOST_COMMITS = 40  # asked of each
OWN_TASKS = Path(__file__).with_name("card_tasks.json")
RESULTS = 5


class Outcome(Struct, frozen=True):
    task: Mapping[str, Any]
    ready: bool
    found: bool  # an edited file is among the results
    example: str
    reasons: tuple[str, ...]

    @property
    def safe(self) -> bool:
        return bool(self.task["risk"] == "safe")

    def example_fits(self) -> bool:
        wanted = self.task.get("expectedBestExamplePatterns", ())
        return any(part in self.example.lower() for part in wanted)

    def __str__(self) -> str:
        state = "ready" if self.ready else "     "
        found = "found" if self.found else "     "
        why = "; ".join(self.reasons)
        return f"  {self.task['risk']:6} {state} {found} {self.task['query'][:70]:70} {self.example} {why}"


def run_tasks(root: Path, tasks: Sequence[Mapping[str, Any]]) -> Iterator[Outcome]:
    with Engine(Config.load({}, root)) as engine:
        for task in tasks:
            request = SearchRequest(task["query"], paths=(str(root),), purpose="edit", limit=RESULTS)
            result = engine.search(request)
            card = result.preflight
            assert card is not None
            edited = {hit.path for hit in result.hits} & set(task.get("files", ()))
            reasons = tuple(point.reason for point in card.breakdown if point.most == 0)
            yield Outcome(task, card.ready, bool(edited), card.best_example, reasons)


def own_tasks(clones: Path, trees: Path) -> list[Outcome]:
    outcomes = []
    for repository in json.loads(OWN_TASKS.read_text()):
        pin = Pin(repository["name"], repository["mirror"], repository["commit"])
        lay_out_missing([pin], clones, trees, history=True)
        print(repository["name"])
        for outcome in run_tasks(trees / pin.name, repository["tasks"]):
            print(outcome, flush=True)
            outcomes.append(outcome)
    return outcomes


def report_own(outcomes: Sequence[Outcome]) -> None:
    ready = [outcome for outcome in outcomes if outcome.ready]
    right = [outcome for outcome in ready if outcome.safe and outcome.found]
    safe = [outcome for outcome in outcomes if outcome.safe]
    print(
        f"{len(outcomes)} tasks, {len(safe)} safe: ready {len(ready)}, of these right {len(right)}; "
        f"precision {len(right) / max(len(ready), 1):.2f}, recall {len(right) / len(safe):.2f}"
    )


def other_fixture(file: Path, clones: Path, trees: Path) -> None:
    fixture = json.loads(file.read_text())
    clone = next(clones.glob(f"*{fixture['codebase'].lower()}"))
    pin = Pin(f"{fixture['codebase']}-{fixture['repositoryRef'][:8]}", clone.name, fixture["repositoryRef"])
    lay_out_missing([pin], clones, trees, history=True)
    print(f"{file.name}: {fixture['codebase']}")
    outcomes = []
    for outcome in run_tasks(trees / pin.name, fixture["tasks"]):
        print(outcome, flush=True)
        outcomes.append(outcome)
    safe = [outcome for outcome in outcomes if outcome.safe]
    unsafe = [outcome for outcome in outcomes if not outcome.safe]
    print(
        f"safe ready {sum(outcome.ready for outcome in safe)} of {len(safe)}, "
        f"unsafe ready {sum(outcome.ready for outcome in unsafe)} of {len(unsafe)}, "
        f"best example right {sum(outcome.example_fits() for outcome in safe)} of {len(safe)}"
    )


def later_commits(clone: Path, base: str) -> Sequence[Mapping[str, Any]]:
    """What was done to a few files of code after a commit, as tasks."""
    present = set(git.run(clone, ["ls-tree", "-r", "--name-only", base]).decode().split("\n"))
    return [
        {"query": question_of(commit), "risk": "safe", "files": commit.files}
        for commit in read_commits(clone, 2000, f"{base}..HEAD")
        if is_telling(commit)
        and not reason_to_leave_out(commit, 8)
        and 1 <= len(commit.files) <= 3
        and present.issuperset(commit.files)
    ][:MOST_COMMITS]


def held_out(clones: Path, trees: Path) -> None:
    tasks = {}
    for name, (mirror, day) in HELD_OUT.items():
        pin = Pin(f"held-out-{name}", mirror, commit_at(clones / mirror / "repo", day))
        lay_out_missing([pin], clones, trees, history=True)
        tasks[name] = later_commits(pin.clone(clones), pin.commit)
    home: list[Outcome] = []
    abroad: list[Outcome] = []
    for name, home_tasks in tasks.items():
        others = [
            {"query": task["query"], "risk": "unsafe"} for other in tasks if other != name for task in tasks[other]
        ]
        home += run_tasks(trees / f"held-out-{name}", home_tasks)
        abroad += run_tasks(trees / f"held-out-{name}", others)
    ready = [outcome for outcome in home if outcome.ready]
    print(
        f"{len(home)} at home: ready {len(ready)}, an edited file is found in {sum(o.found for o in ready)}; "
        f"{len(abroad)} abroad: ready {sum(outcome.ready for outcome in abroad)}"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("clones", type=Path)
    arguments.add_argument("trees", type=Path)
    arguments.add_argument("--fixture", type=Path, help="another project's tasks")
    arguments.add_argument("--held-out", action="store_true", help="commits of other repositories instead")
    options = arguments.parse_args()
    if options.held_out:
        held_out(options.clones, options.trees)
        return
    report_own(own_tasks(options.clones, options.trees))
    if options.fixture:
        other_fixture(options.fixture, options.clones, options.trees)


if __name__ == "__main__":
    main()
