"""Files that are large and change often: where mistakes are most likely."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from codeinfo.operations.code import Hotspot, HotspotReport, HotspotsRequest
from codeinfo.ports import CodeFacts
from codeinfo.sources.git import GitFailed, run, work_tree_of

_COMMIT_MARK = "\x01"


class _Churn(Struct):
    commits: int = 0
    added: int = 0
    removed: int = 0
    authors: set[str] = field(default_factory=set)


def hotspots(facts: CodeFacts, root: Path, request: HotspotsRequest) -> HotspotReport:
    try:
        commits, churn = _history(root, request.days)
    except GitFailed as failed:
        return HotspotReport(0, (), request.days, 0, (f"no git history: {failed.what}",))
    files = {file.path: file for file in facts.files() if file.kind == "code" and file.path in churn}
    definitions = Counter(file_id for file_id, _ in facts.outlines([file.file_id for file in files.values()]))
    measured = []
    for path, file in files.items():
        lines = max(facts.lines(file.file_id), default=0)
        measured.append((churn[path].commits * lines, lines, path, definitions[file.file_id]))
    worst = max((weight for weight, *_ in measured), default=0)
    found = [
        Hotspot(
            path=path,
            commits=churn[path].commits,
            added=churn[path].added,
            removed=churn[path].removed,
            lines=lines,
            definitions=count,
            authors=len(churn[path].authors),
            score=round(weight / worst, 4) if worst else 0.0,
        )
        for weight, lines, path, count in sorted(measured, key=lambda item: (-item[0], item[2]))
    ]
    return HotspotReport(len(found), tuple(found[: request.limit]), request.days, commits)


def _history(root: Path, days: int) -> tuple[int, dict[str, _Churn]]:
    """Commits, and churn by path as seen from the root."""
    if work_tree_of(str(root)) is None:
        raise GitFailed("this folder is not in a git repository")
    output = run(
        root,
        [
            "log",
            "--no-merges",
            "--no-renames",
            "--numstat",
            "--relative",
            "-z",
            f"--since={days} days ago",
            f"--format={_COMMIT_MARK}%ae",
        ],
    )
    churn: dict[str, _Churn] = {}
    commits, author = 0, ""
    for item in output.split(b"\0"):
        text = os.fsdecode(item).strip("\n")
        if _COMMIT_MARK in text:
            commits += 1
            author, _, text = text.partition(_COMMIT_MARK)[2].partition("\n")
        counts = text.strip("\n").split("\t")
        if len(counts) == 3:
            entry = churn.setdefault(counts[2], _Churn())
            entry.commits += 1
            entry.added += int(counts[0]) if counts[0].isdigit() else 0  # "-" for binary files
            entry.removed += int(counts[1]) if counts[1].isdigit() else 0
            entry.authors.add(author)
    return commits, churn
