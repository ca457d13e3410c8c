"""The review of a change: what was changed, who calls it, and what speaks against it."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from codeinfo.knowledge.dates import BlameLine
from codeinfo.knowledge.detectors import Detector
from codeinfo.model import Definition
from codeinfo.operations.knowledge import ChangedFile, ChangedSymbol, PatternUse, Reviewer

MOST_COMPARED = 20_000  # lines of one file: beyond it, all of it counts as changed


class Difference(Struct, frozen=True):
    """One file before and after; lines are 1-based. A removal is `touched` where the lines around it now meet."""

    path: str
    state: str
    added: frozenset[int]  # lines of the file as it is now
    removed: frozenset[int]  # lines of the file as it was
    touched: frozenset[int]

    def summary(self) -> ChangedFile:
        return ChangedFile(self.path, self.state, len(self.added), len(self.removed))


def compare(path: str, before: str | None, after: str | None) -> Difference:
    old, new = (before or "").splitlines(), (after or "").splitlines()
    state = "added" if before is None else "removed" if after is None else "changed"
    if max(len(old), len(new)) > MOST_COMPARED or not old or not new:
        added, removed = frozenset(range(1, len(new) + 1)), frozenset(range(1, len(old) + 1))
        return Difference(path, state, added, removed, added)
    added_lines: set[int] = set()
    removed_lines: set[int] = set()
    touched: set[int] = set()
    for tag, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            removed_lines.update(range(old_start + 1, old_end + 1))
            added_lines.update(range(new_start + 1, new_end + 1))
            touched.update(range(new_start + 1, max(new_end, new_start + 1) + 1))
    return Difference(path, state, frozenset(added_lines), frozenset(removed_lines), frozenset(touched))


def changed_symbols(change: Difference, definitions: Sequence[Definition]) -> list[ChangedSymbol]:
    """The innermost definitions whose lines changed, those with the most changed lines first."""
    innermost: Counter[int] = Counter()
    for line in change.touched:
        around = [at for at, d in enumerate(definitions) if d.start_line <= line <= d.end_line]
        if around:
            innermost[min(around, key=lambda at: definitions[at].end_line - definitions[at].start_line)] += 1
    found = []
    for at, lines in sorted(innermost.items(), key=lambda item: (-item[1], item[0])):
        one = definitions[at]
        found.append(ChangedSymbol(one.qualified, one.kind, f"{change.path}:{one.start_line}-{one.end_line}", lines))
    return found


def reviewers(blames: Mapping[str, Sequence[BlameLine]], changes: Sequence[Difference]) -> list[Reviewer]:
    """Who wrote the lines that were changed or removed; where none were, who wrote the file."""
    lines: Counter[str] = Counter()
    files: dict[str, set[str]] = defaultdict(set)
    for change in changes:
        blame = blames.get(change.path, ())
        wanted = change.removed or range(1, len(blame) + 1)
        for number in wanted:
            if number <= len(blame):
                author = blame[number - 1].author
                lines[author] += 1
                files[author].add(change.path)
    ranked = sorted(lines, key=lambda name: (-lines[name], name))
    return [Reviewer(name, lines[name], len(files[name])) for name in ranked]


def unusual_patterns(
    uses: Mapping[str, Sequence[tuple[int, int]]],
    changes: Sequence[Difference],
    detectors: Sequence[Detector],
    patterns: Mapping[str, Collection[PatternUse]],
) -> list[str]:
    """New lines that use what the team avoids, or the lesser of two ways where one is clearly preferred; `patterns` are
    those of each file's area."""
    found = []
    for change in changes:
        own = patterns.get(change.path, ())
        by_key = {(pattern.language, pattern.question, pattern.name): pattern for pattern in own}
        preferred = {(p.language, p.question): p for p in own if p.guidance in ("use", "prefer")}
        for position, line in uses.get(change.path, ()):
            detector = detectors[position]
            known = by_key.get((detector.language, detector.question, detector.name))
            better = preferred.get((detector.language, detector.question))
            if line not in change.added or known is None or known.guidance in ("use", "prefer"):
                continue
            if known.guidance == "avoid" or better is not None:
                instead = f"; {better.name} is at {better.adoption} %" if better else ""
                state = "declining" if known.guidance == "avoid" else f"at {known.adoption} %"
                found.append(f"{change.path}:{line}: {known.name} ({known.question}) is {state}{instead}")
    return found
