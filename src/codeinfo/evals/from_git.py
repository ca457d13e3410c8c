"""A benchmark of a repository's own history: the query is what a commit says, the answer what it changed.

Every query is asked of the tree as it was just before the commit. That tree is laid out in a folder of its own, from
one commit to the next, so that only what changed between them is indexed again.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codeinfo.errors import NotFound, UsageError
from codeinfo.evals.datasets import Dataset, Query, Target
from codeinfo.evals.metrics import Answer
from codeinfo.evals.run import CODE_FILES, Run, ask, bring_up_to_date, summed
from codeinfo.evals.snapshot import Layout
from codeinfo.requests import ClearRequest, Progress
from codeinfo.sources import git
from codeinfo.sources.languages import kind_of, language_of
from codeinfo.types import FileKind

if TYPE_CHECKING:
    from codeinfo.engine import Engine

HISTORY = 2000  # commits looked at, newest first: older code has little to do with today's
MOST_FILES = 10  # a commit that changes more is a sweep, and no ten results could name them all
FEWEST_WORDS = 3  # "fix tests" says nothing to search for

_BOT = re.compile(
    r"\[bot\]|\bbot\b|bot@|-bot|dependabot|renovate|greenkeeper|github-actions|pre-commit-ci", re.IGNORECASE
)
# Subjects that tell of housekeeping and name no code, however the commit went about it.
_CHORE = re.compile(
    r"(?:merge|revert|bump|release|prepare|version|update dependenc|fixup!|squash!|amend!|wip\b|v?\d+\.\d+)"
    r"|(?:chore|build|ci|docs?|style|tests?|release)(?:\([^)]*\))?!?:"
    r"|(?:(?:add|fix|update|improve|more|move|remove)\w* )?(?:an? |some |the |unit |missing )*tests?\b"
    r"|.*\b(?:typos?|spelling|whitespace|lint\w*|flake8|pep ?8|changelog|readme|copyright|licen[cs]e|docstrings?"
    r"|docs?|documentation|comments?|(?:start|next|new|set) version)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\s*[(\[]?(?:#|gh-)\d+[)\]]?", re.IGNORECASE)  # "(#123)": a number that the tree does not know
_FIELDS = "%x01%H%x02%P%x02%an <%ae>%x02%s%x02"


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    parent: str
    subject: str
    files: tuple[str, ...]  # code files that it changed and that were there before


@dataclass(frozen=True, slots=True)
class History:
    """The commits to ask about, oldest first, and how many were left out by which rule."""

    commits: tuple[Commit, ...]
    looked_at: int
    left_out: dict[str, int]
    missing_blobs: int = 0  # of the trees that were asked: their files could not be found


def evaluate_history(
    engine: Engine,
    path: Path,
    count: int,
    *,
    whole: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Dataset, Run, History]:
    """Ask about `count` commits of the repository at `path`, each on the index of its parent. Not `whole`: of code."""
    history = read_history(path, count)
    name = _project(path)
    queries = [_query(commit, name) for commit in history.commits]
    answers: list[Answer] = []
    reports = []
    with tempfile.TemporaryDirectory(prefix="codeinfo-eval-") as folder:
        root = Path(folder) / name  # ranking takes the folder's name for the project's own word
        root.mkdir()
        layout = Layout(path, root)
        try:
            for commit, query in zip(history.commits, queries, strict=True):
                layout.move_to(commit.parent)
                reports.append(bring_up_to_date(engine, root, progress))
                answers += ask(engine, root, [query], () if whole else CODE_FILES)
        finally:
            engine.clear(ClearRequest(paths=(str(root),)))
    done = summed(answers, reports, held=reports[-1:])
    return Dataset(f"history of {name}", tuple(queries)), done, replace(history, missing_blobs=layout.missing_blobs)


def _project(path: Path) -> str:
    """The name of the work tree, whichever folder of it was named, or of a bare repository."""
    folder = os.path.abspath(path)
    return os.path.basename(git.work_tree_of(folder) or folder).removesuffix(".git")


def _query(commit: Commit, repo: str) -> Query:
    language = language_of(commit.files[0])
    return Query(
        id=commit.sha[:12],
        text=commit.subject,
        targets=tuple(Target(file) for file in commit.files),
        repo=repo,
        language=language.name if language else "",
        category="one file" if len(commit.files) == 1 else "several files",
    )


# --- choosing commits ----------------------------------------------------------------------------------------------


def read_history(path: Path, count: int) -> History:
    """About `count` telling commits, evenly spread over the recent history."""
    if not os.path.isdir(path):
        raise NotFound(f"there is no folder {path}", next_step="Name a git repository.")
    try:
        log = git.run(
            path,
            [
                "log",
                "--no-merges",
                f"--max-count={HISTORY}",
                f"--format={_FIELDS}",
                "--name-status",
                "--no-renames",
                "-z",
            ],
        )
    except git.GitFailed as error:
        raise UsageError(f"{path} has no history to read: {error.what}", next_step="Name a git repository.") from error
    judged = list(_judged(os.fsdecode(log)))
    telling = [commit for commit, rule in judged if not rule]
    left_out = Counter(rule for _, rule in judged if rule)
    if not telling:
        raise UsageError(
            f"none of the {len(judged)} commits of {path} can be asked about",
            next_step="A commit counts when a person wrote three words or more and changed 1 to 10 code files.",
        )
    return History(tuple(reversed(spread(telling, count))), len(judged), left_out)


def spread(items: Sequence[Commit], count: int) -> list[Commit]:
    """`count` of them, evenly spaced, with the first."""
    if len(items) <= count:
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]


def _judged(log: str) -> Iterator[tuple[Commit, str]]:
    """Every commit of the log with the rule that leaves it out, "" for none."""
    for record in log.split("\x01")[1:]:
        sha, parents, author, subject, changes = record.split("\x02", 4)
        changed = list(_changed(changes))
        code = tuple(path for status, path in changed if status != "A" and _is_code(path))
        commit = Commit(sha, parents.split(" ")[0], _NUMBER.sub("", subject).strip(), code)
        yield commit, _rule(commit, author, len(changed))


def _changed(listing: str) -> Iterator[tuple[str, str]]:
    """(status, path) pairs of `--name-status -z`; git sets the list off with line breaks."""
    parts = [part for part in listing.strip("\n\x00").split("\x00") if part]
    for status, path in zip(parts[::2], parts[1::2], strict=False):
        yield status.strip("\n"), path


def _rule(commit: Commit, author: str, changed: int) -> str:
    if not commit.parent:
        return "first commit"
    if _BOT.search(author):
        return "bot"
    if _CHORE.match(commit.subject):
        return "chore"
    if len(commit.subject.split()) < FEWEST_WORDS:
        return "too short"
    if changed > MOST_FILES:
        return "too many files"
    return "" if commit.files else "no code file that was there before"


def _is_code(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.CODE
