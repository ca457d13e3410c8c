"""Keeps the commit index of a root in step with its repository."""

from __future__ import annotations

from pathlib import Path

from codeinfo.engine.history import MOST_INDEXED, History
from codeinfo.search.commits import index_commits
from codeinfo.sources.git import GitFailed
from codeinfo.store.commits import load_commits, save_commits
from codeinfo.store.faults import translated


def update_commits(root: Path, folder: Path) -> str:
    """Read what was committed since the last time; everything after a rebase, or where nothing was read yet.

    Returns what went wrong, for the report; "" where nothing did.
    """
    history = History(root)
    if not history.known:
        return ""
    try:
        head = history.head()
    except GitFailed:
        return ""  # no commits yet
    try:
        before = load_commits(folder)
        if before is not None and before.head == head:
            return ""
        if before is not None and (len(before.lengths) > 2 * MOST_INDEXED or not history.has_ancestor(before.head)):
            before = None
        index = index_commits(head, history.commits(before.head if before else ""), before)
    except GitFailed as error:
        return f"git could not read the history, so search does without the newest commits: {error.what}"
    with translated(folder):
        save_commits(folder, index)
    return ""
