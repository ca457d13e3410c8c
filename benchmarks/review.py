"""Reviews of commits that proved wrong: does `review` show what was later reverted or fixed?

    python benchmarks/review.py CLONES TREES [-v]
    python benchmarks/review.py CLONES TREES --neighbours      # of each the commit before that changed code

CLONES holds repositories at owner+name/repo; TREES is where work trees of them are laid out and kept. Each entry of
review_commits.json is a commit with the one that reverted or fixed it, what proved wrong in a sentence, and the
findings that would have shown it: a kind, and a part of its place or message. The labels come from the messages and
differences of both commits. `risk` alone shows where, not what: it is counted apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path

from trees import lay_out_worktree

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.languages import is_product, kind_of, language_of
from codeinfo.operations.knowledge import Finding, ReviewRequest

MOST_FILES = 6  # of code in a neighbour
COMMITS = Path(__file__).with_name("review_commits.json")


def review(clone: Path, tree: Path, commit: str) -> tuple[Finding, ...]:
    """The findings on a commit against its first parent, with the clone's work tree moved to it."""
    if not tree.is_dir():
        lay_out_worktree(clone, commit, tree)
    _git(tree, "checkout", "--quiet", "--force", "--detach", commit)
    with Engine(Config.load({}, tree)) as engine:
        return engine.knowledge.review(ReviewRequest(f"{commit}^", path=str(tree), limit=200)).findings


def neighbour(tree: Path, commit: str) -> str:
    """The nearest earlier commit of the main line that changed a few files of code."""
    listed = _git(tree, "rev-list", "--first-parent", "--no-merges", "--max-count=60", f"{commit}^").split()
    for earlier in listed:
        files = _git(tree, "show", "--name-only", "--format=", earlier).splitlines()
        if 1 <= sum(is_product(path, kind_of(path, language_of(path))) for path in files) <= MOST_FILES:
            return earlier
    raise SystemExit(f"no commit before {commit} changed a few files of code")


def review_neighbours(clones: Path, trees: Path) -> None:
    quiet = total = 0
    entries = json.loads(COMMITS.read_text())
    for entry in entries:
        clone, tree = clones / entry["mirror"] / "repo", trees / f"review-{entry['name']}"
        if not tree.is_dir():
            lay_out_worktree(clone, entry["commit"], tree)
        commit = neighbour(tree, entry["commit"])
        findings = review(clone, tree, commit)
        kinds = Counter(finding.kind for finding in findings)
        quiet += not set(kinds) - {"risk"}
        total += len(findings)
        print(f"{entry['name']} {commit[:9]} {dict(kinds)}", flush=True)
    print(f"{quiet} of {len(entries)} without a finding besides risk; {total / len(entries):.1f} findings a commit")


def _git(tree: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True, text=True).stdout


def fits(finding: Finding, kind: str, about: str) -> bool:
    return finding.kind == kind and about.lower() in f"{finding.place} {finding.message}".lower()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("clones", type=Path)
    arguments.add_argument("trees", type=Path)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print every finding")
    arguments.add_argument("--neighbours", action="store_true", help="review commits that stood instead")
    options = arguments.parse_args()
    if options.neighbours:
        review_neighbours(options.clones, options.trees)
        return
    shown = located = total = 0
    entries = json.loads(COMMITS.read_text())
    for entry in entries:
        findings = review(
            options.clones / entry["mirror"] / "repo", options.trees / f"review-{entry['name']}", entry["commit"]
        )
        total += len(findings)
        hits = [finding for finding in findings for kind, about in entry["shows"] if fits(finding, kind, about)]
        what = [finding for finding in hits if finding.kind != "risk"]
        shown += bool(what)
        located += bool(hits) and not what
        state = "located" if hits else "missed"
        if what:
            state = "shown"
        print(
            f"{state:<7} {entry['name']} {entry['commit'][:9]} ({len(findings)} findings): {entry['wrong']}", flush=True
        )
        for finding in findings if options.verbose else what[:1] or hits[:1]:
            print(f"          {finding.kind} {finding.place} {finding.message[:150]}")
    print(f"{shown} of {len(entries)} shown, {located} only located; {total / len(entries):.1f} findings a commit")


if __name__ == "__main__":
    main()
