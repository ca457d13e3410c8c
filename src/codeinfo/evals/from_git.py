"""A benchmark of a repository's own history: the query is what a commit says, the answer what it changed.

Every query is asked of the tree as it was just before the commit. That tree is laid out in a folder of its own, from
one commit to the next, so that only what changed between them is indexed again.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import NotFound, UsageError
from codeinfo.evals.commits import Commit, read_commits, reason_to_leave_out
from codeinfo.evals.datasets import Dataset, Query, Target
from codeinfo.evals.metrics import Answer
from codeinfo.evals.run import CODE_FILES, Run, ask, bring_up_to_date, summed
from codeinfo.evals.snapshot import Layout
from codeinfo.languages import language_of
from codeinfo.operations.base import Progress
from codeinfo.operations.search import ClearRequest
from codeinfo.sources import git

if TYPE_CHECKING:
    from codeinfo.engine import Engine

Item = TypeVar("Item")

HISTORY = 2000  # commits looked at, newest first: older code has little to do with today's


class History(Struct, frozen=True):
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
        commits = list(read_commits(path, HISTORY))
    except git.GitFailed as error:
        raise UsageError(f"{path} has no history to read: {error.what}", next_step="Name a git repository.") from error
    judged = [(commit, reason_to_leave_out(commit)) for commit in commits]
    telling = [commit for commit, rule in judged if not rule]
    left_out = Counter(rule for _, rule in judged if rule)
    if not telling:
        raise UsageError(
            f"none of the {len(judged)} commits of {path} can be asked about",
            next_step="A commit counts when a person wrote three words or more and changed 1 to 10 code files.",
        )
    return History(tuple(reversed(spread(telling, count))), len(judged), left_out)


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """`count` of them, evenly spaced, with the first."""
    if len(items) <= count:
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]
