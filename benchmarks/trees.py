"""Lays out the trees of a benchmark's `repos.tsv` from clones that lie at CLONES/owner+name/repo.

    python benchmarks/trees.py REPOS.tsv CLONES TREES          # plain files, as a download has them
    python benchmarks/trees.py REPOS.tsv CLONES TREES --git    # work trees, with the commits before the pinned one

Only what is not there yet is laid out. A clone may lack a few large blobs: their files are left out, and counted.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from codeinfo.evals.run import Layout
from codeinfo.sources import git

COLUMNS = ("name", "language", "mirror", "commit", "exact", "root", "split")  # of repos.tsv

# Nothing that a repository or this machine's settings name may run or change what is laid out.
_GIT = ("git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.autocrlf=false", "-c", "core.symlinks=false")
_ENVIRONMENT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_LAZY_FETCH": "1"}


class Pin(Struct, frozen=True):
    """A repository of a benchmark: `mirror` is the clone's folder, `owner+name`."""

    name: str
    mirror: str
    commit: str

    def clone(self, clones: Path) -> Path:
        return clones / self.mirror / "repo"


def read_pins(table: Path) -> dict[str, Pin]:
    with table.open(encoding="utf-8", newline="") as source:
        rows = csv.DictReader(source, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["name"]: Pin(row["name"], row["mirror"], row["commit"]) for row in rows}


def lay_out_missing(pins: Iterable[Pin], clones: Path, trees: Path, *, history: bool = False) -> None:
    """Every pinned tree that `trees` lacks; with `history` as a work tree of its clone."""
    for pin in pins:
        folder = trees / pin.name
        if folder.is_dir():
            continue
        clone = pin.clone(clones)
        if not clone.is_dir():
            raise SystemExit(f"{folder} is missing, and so is the clone {clone}")
        missing = (lay_out_worktree if history else lay_out)(clone, pin.commit, folder)
        lacking = f", without {missing} files whose content the clone lacks" if missing else ""
        print(f"laid out {folder}{lacking}", file=sys.stderr, flush=True)


def lay_out(clone: Path, commit: str, folder: Path) -> int:
    """The commit's plain files; the number of blobs that the clone lacks."""
    partial = _fresh(folder)
    partial.mkdir(parents=True)
    layout = Layout(clone, partial)
    layout.move_to(commit)
    partial.rename(folder)
    return len(layout.missing)


def lay_out_worktree(clone: Path, commit: str, folder: Path) -> int:
    """The commit as a detached checkout that shares the clone's objects; the number of files that could not be read."""
    partial = _fresh(folder)
    partial.parent.mkdir(parents=True, exist_ok=True)
    _run("clone", "--quiet", "--shared", "--no-checkout", str(clone.resolve()), str(partial))
    _run("update-ref", "--no-deref", "HEAD", commit, folder=partial)
    _run("read-tree", commit, folder=partial)
    # Not `checkout`, which stops at the first blob that is not there.
    _run("checkout-index", "--all", "--force", "--quiet", folder=partial, check=False)
    deleted = _run("ls-files", "--deleted", "-z", folder=partial)
    partial.rename(folder)
    return deleted.count(b"\0")


def commit_at(clone: Path, day: str) -> str:
    """The last commit of the main branch up to and with a day, YYYY-MM-DD."""
    commit = git.run(clone, ["rev-list", "-1", "--first-parent", f"--before={day}T23:59:59Z", "HEAD"])
    if not commit.strip():
        raise SystemExit(f"{clone} has no commit before {day}")
    return commit.decode().strip()


def _fresh(folder: Path) -> Path:
    """A place beside it: what is half laid out must not be taken for the tree. What an earlier attempt left is gone."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    return partial


def _run(*arguments: str, folder: Path | None = None, check: bool = True) -> bytes:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        [*_GIT, *arguments], cwd=folder, env=inherited | _ENVIRONMENT, check=False, capture_output=True
    )
    if check and done.returncode:
        raise SystemExit(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("repos", type=Path, help="a table with name, mirror and commit")
    arguments.add_argument("clones", type=Path)
    arguments.add_argument("trees", type=Path)
    arguments.add_argument("--git", action="store_true", help="as work trees with their history")
    options = arguments.parse_args()
    lay_out_missing(read_pins(options.repos).values(), options.clones, options.trees, history=options.git)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
