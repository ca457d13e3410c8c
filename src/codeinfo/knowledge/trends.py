"""Whether a pattern is still being written: the dates of the lines that use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from msgspec import Struct

from codeinfo.operations.knowledge import PatternHistory

RISING, STABLE, DECLINING = "Rising", "Stable", "Declining"
RISING_DAYS = 60
DECLINING_DAYS = 180
WINDOW_DAYS = 400  # of history that is looked at: anything older has been declining for long
MONTHS = 13  # this one and the twelve before it: the window holds all of them
EXACT_FILES = (
    40  # files whose lines are dated for a pattern's exact newest use; past it, knowing that it rises is enough
)
_DAY = 86_400

LineDates = Callable[[str], Sequence[float]]  # path → seconds of each line, 0 for one older than the window


class BlameLine(Struct, frozen=True):
    time: int  # when the line was written, 0 where the history looked at does not reach back to it
    author: str
    text: str


def trend(newest: float, now: float) -> str:
    """By the newest use, in seconds since the epoch; 0 is older than anything looked at."""
    age_days = (now - newest) / _DAY
    if age_days <= RISING_DAYS:
        return RISING
    return DECLINING if age_days >= DECLINING_DAYS else STABLE


def newest_use(
    uses: Mapping[str, Sequence[int]],
    changed: Mapping[str, float],
    dates: LineDates,
    now: float,
    dated: Container[str] = (),
) -> float:
    """When the newest of the lines was written. `changed` bounds what a file can bring, so most need not be dated; of
    those that changed last those that are `dated` already cost nothing."""
    newest = 0.0
    in_window = (path for path in uses if path in changed)
    candidates = sorted(in_window, key=lambda path: (-changed[path], path not in dated, path))
    for number, path in enumerate(candidates):
        decided = number >= EXACT_FILES and trend(newest, now) == RISING
        if changed[path] <= newest or decided:
            break
        of_lines = dates(path)
        newest = max([newest, *(of_lines[line - 1] for line in uses[path] if line <= len(of_lines))])
    return newest


def written_by_month(
    uses: Mapping[str, Sequence[int]], changed: Mapping[str, float], dates: LineDates, now: float
) -> PatternHistory:
    """How many of the lines were written in each month. A file that is not in `changed` is older than the window."""
    months = _months_until(now)
    counts = dict.fromkeys(months, 0)
    older = undated = 0
    for path, lines in uses.items():
        of_lines = dates(path) if path in changed else [0.0] * max(lines)
        for line in lines:
            month = _month(min(of_lines[line - 1], now)) if line <= len(of_lines) else ""
            if month in counts:
                counts[month] += 1
            elif month:
                older += 1
            else:
                undated += 1
    return PatternHistory(months[0], tuple(counts.values()), older, undated)


def _months_until(now: float) -> tuple[str, ...]:
    this = time.gmtime(now)
    numbers = range(12 * this.tm_year + this.tm_mon - MONTHS, 12 * this.tm_year + this.tm_mon)
    return tuple(f"{number // 12}-{number % 12 + 1:02}" for number in numbers)


def _month(seconds: float) -> str:
    return time.strftime("%Y-%m", time.gmtime(seconds))


def last_changes(log: str) -> dict[str, tuple[int, str]]:
    """Newest date and commit of each path, from `git log --format=%x01%at%x1f%H --name-only -z`."""
    found: dict[str, tuple[int, str]] = {}
    for record in log.split("\x01"):
        head, _, names = record.partition("\0")
        seconds, _, commit = head.partition("\x1f")
        if not seconds.isdigit():
            continue
        for name in names.split("\0"):
            path = name.lstrip("\n")
            if path and (path not in found or int(seconds) > found[path][0]):
                found[path] = (int(seconds), found[path][1] if path in found else commit)
    return found


def read_blame(porcelain: str) -> list[BlameLine]:
    """The lines of `git blame --porcelain`; what a boundary commit has may be older than it, so it gets no date."""
    times: dict[str, int] = {}
    authors: dict[str, str] = {}
    boundary: set[str] = set()
    lines: list[BlameLine] = []
    commit = ""
    for line in porcelain.split("\n"):
        if line.startswith("\t"):
            time = 0 if commit in boundary else times.get(commit, 0)
            lines.append(BlameLine(time, authors.get(commit, ""), line[1:]))
            commit = ""
        elif not commit:
            commit = line.partition(" ")[0]
        elif line.startswith("author "):
            authors[commit] = line[7:]
        elif line.startswith("author-time "):
            times[commit] = int(line[12:])
        elif line == "boundary":
            boundary.add(commit)
    return lines


def carried_over(texts: Iterable[str], blame: Sequence[BlameLine], now: float) -> list[float]:
    """Dates of the lines of an edited file: those the commit has keep theirs, the others were written just now."""
    known: dict[str, float] = {}
    for line in blame:
        key = line.text.strip()
        known[key] = max(known.get(key, 0.0), line.time)
    return [known.get(text.strip(), now) for text in texts]
