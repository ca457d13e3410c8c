"""Memories a project's history already holds: conventional commits of the last months, read anew each time."""

from __future__ import annotations

import re

from codeinfo.knowledge.decay import iso_of
from codeinfo.knowledge.memory import MAX_TEXT, Memory

WINDOW_DAYS = 90
# Fields of `git log`, each commit ended by a record separator; none of them can occur in a message git prints.
LOG_FORMAT = "%H%x1f%at%x1f%an%x1f%s%x1f%b%x1e"

# What kind of commit tells what: (type, category) of the memory.
_MEANING = {
    "refactor": ("decision", "architecture"),
    "migrate": ("decision", "dependencies"),
    "migration": ("decision", "dependencies"),
    "fix": ("gotcha", "conventions"),
    "hotfix": ("gotcha", "conventions"),
    "revert": ("gotcha", "architecture"),
}
_SUBJECT = re.compile(r"(?P<kind>[A-Za-z]+)(?:\((?P<part>[^()\n]{1,80})\))?!?:\s+(?P<text>\S.*)")
_REVERTED = re.compile(r'Revert "(?P<text>.+)"')
_TRAILER = re.compile(r"[A-Z][A-Za-z-]+(?:-[Bb]y)?: ")
_REASON_CHARS = 300


def from_log(log: str, now: float) -> tuple[Memory, ...]:
    """Memories of a log written with LOG_FORMAT, newest first; the same subject counts once, at its newest date."""
    oldest = now - WINDOW_DAYS * 86_400
    found: dict[str, Memory] = {}
    for record in log.split("\x1e"):
        fields = record.strip("\n").split("\x1f")
        if len(fields) != 5 or not fields[1].isdigit() or int(fields[1]) < oldest:
            continue
        memory = _memory(*fields)
        if memory is not None:
            found.setdefault(memory.memory, memory)
    return tuple(found.values())


def _memory(commit: str, seconds: str, author: str, subject: str, body: str) -> Memory | None:
    reverted = _REVERTED.fullmatch(subject)
    match = reverted or _SUBJECT.fullmatch(subject)
    if match is None:
        return None
    kind = "revert" if reverted else match["kind"].lower()
    if kind not in _MEANING:
        return None
    type_, category = _MEANING[kind]
    text = f"Reverted: {match['text']}" if kind == "revert" else match["text"]
    part = "" if reverted else match["part"]
    if part:
        text = f"{part}: {text}"
    return Memory(
        id=commit[:12],
        type=type_,
        category=category,
        memory=text[:MAX_TEXT],
        reason=_reason(body),
        date=iso_of(int(seconds)),
        source="git",
        author=author,
    )


def _reason(body: str) -> str:
    """The first paragraph of a message's body, without trailers."""
    paragraph = body.strip().split("\n\n")[0]
    lines = [line.strip() for line in paragraph.splitlines() if not _TRAILER.match(line)]
    return " ".join(lines)[:_REASON_CHARS]
