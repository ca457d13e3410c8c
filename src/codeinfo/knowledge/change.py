"""What a change needs: the card before it, which says whether there is enough evidence to go ahead, and its review."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from codeinfo.knowledge.detectors import Detector, family
from codeinfo.knowledge.patterns import BlameLine
from codeinfo.model import Card, CardImpact, CardPatterns, CardPoint, Definition, FileKind, Hit, Quality, RelatedMemory
from codeinfo.operations.knowledge import (
    ChangedFile,
    ChangedSymbol,
    PatternConflict,
    PatternReport,
    PatternUse,
    Reviewer,
)

CODE_POINTS, PATTERN_POINTS, MEMORY_POINTS = 45.0, 30.0, 25.0
NEEDED = 40.0
ENOUGH_HITS = 3  # code results for all the points of code
THIN_BELOW = 2  # code results: one place alone may be the wrong one
TARGETS = 3  # results that the change is likely to touch, and whose callers must be known
COVERED_AT = 0.5  # share of the callers that must be among the results
MOST_LISTED = 3
MOST_HELP = 4


class Evidence(Struct, frozen=True):
    """What is known around a search on behalf of a change."""

    query: str
    purpose: str
    hits: Sequence[Hit]
    quality: Quality
    patterns: PatternReport
    questions: Collection[str]  # what the results' own code answers one way or another
    memories: Sequence[RelatedMemory]
    importers: Mapping[str, Sequence[tuple[str, int]]]  # result → who imports it, and in which line; no tests
    changed_since_index: int = 0  # files that the index does not know in their present state


class _Doubt(Struct, frozen=True):
    name: str
    reason: str
    help: tuple[str, ...]


def decide(evidence: Evidence) -> Card:
    code = [hit for hit in evidence.hits if hit.kind is FileKind.CODE]
    families = {family(hit.language) for hit in code}
    patterns = [pattern for pattern in evidence.patterns.patterns if pattern.language in families]
    points = [_code_points(code), _pattern_points(patterns), _memory_points(evidence.memories)]
    score = round(sum(point.points for point in points), 1)
    covered, callers = _coverage(evidence, code)
    doubts = [
        *_quality_doubt(evidence, code),
        *_index_doubt(evidence),
        *_thin_doubt(evidence, code),
        *_caller_doubt(covered, callers),
        *_conflict_doubts(evidence, families),
        *_stale_doubts(evidence.memories),
    ]
    if score < NEEDED:
        doubts.append(_Doubt("too few points", f"{score:g} of the {NEEDED:g} points needed", _broader(evidence, code)))
    helps = tuple(dict.fromkeys(step for doubt in doubts for step in doubt.help))[:MOST_HELP]
    return Card(
        ready=not doubts,
        score=score,
        next_action=f"{doubts[0].reason}: {doubts[0].help[0]}" if doubts else "",
        warnings=tuple(_warning(memory) for memory in evidence.memories if memory.type == "failure")[:MOST_LISTED],
        patterns=_advice(patterns),
        best_example=_example(evidence.patterns, code),
        impact=_impact(covered, callers),
        what_would_help=helps,
        reckoning=(*points, *(CardPoint(doubt.name, 0.0, 0.0, doubt.reason) for doubt in doubts)),
    )


# --- points --------------------------------------------------------------------------------------------------------


def _code_points(code: Sequence[Hit]) -> CardPoint:
    share = 1.0 if len(code) >= ENOUGH_HITS else 0.5 if code else 0.0
    return CardPoint("code", CODE_POINTS * share, CODE_POINTS, f"{_results(len(code))}, {ENOUGH_HITS} give all points")


def _pattern_points(patterns: Sequence[PatternUse]) -> CardPoint:
    preferred = [pattern for pattern in patterns if pattern.guidance in ("use", "prefer")]
    share = 1.0 if preferred else 0.5 if patterns else 0.0
    reason = f"{len(preferred)} preferred of {len(patterns)} patterns in the results' languages"
    return CardPoint("patterns", PATTERN_POINTS * share, PATTERN_POINTS, reason)


def _memory_points(memories: Sequence[RelatedMemory]) -> CardPoint:
    best = max((memory.confidence for memory in memories), default=0.0)
    reason = f"best of {len(memories)} related memories counts {best:.0%}" if memories else "no related memory"
    return CardPoint("memory", round(MEMORY_POINTS * best, 1), MEMORY_POINTS, reason)


# --- doubts --------------------------------------------------------------------------------------------------------


def _quality_doubt(evidence: Evidence, code: Sequence[Hit]) -> list[_Doubt]:
    if evidence.quality.status == "ok":
        return []
    why = "; ".join(evidence.quality.reasons) or f"confidence {evidence.quality.confidence:.2f}"
    return [_Doubt("low search quality", f"the search is not sure of itself ({why})", _broader(evidence, code))]


def _index_doubt(evidence: Evidence) -> list[_Doubt]:
    if not evidence.changed_since_index:
        return []
    reason = f"{evidence.changed_since_index} files changed since they were indexed"
    return [_Doubt("stale index", reason, ("run `codeinfo index` and search again",))]


def _thin_doubt(evidence: Evidence, code: Sequence[Hit]) -> list[_Doubt]:
    if len(code) >= THIN_BELOW:
        return []
    return [_Doubt("thin evidence", f"only {_results(len(code))}", _broader(evidence, code))]


def _caller_doubt(covered: int, callers: Sequence[tuple[str, int]]) -> list[_Doubt]:
    missing = callers[covered:]
    if not callers or covered / len(callers) >= COVERED_AT:
        return []
    steps = tuple(f"read {path}:{line}, which uses a result" for path, line in missing[:2])
    return [_Doubt("low caller coverage", f"{len(missing)} of {len(callers)} callers are not in the results", steps)]


def _conflict_doubts(evidence: Evidence, families: Collection[str]) -> list[_Doubt]:
    return [
        _Doubt("pattern conflict", _conflict_reason(conflict), (f'run `codeinfo patterns -c "{conflict.category}"`',))
        for conflict in evidence.patterns.conflicts
        if conflict.language in families and conflict.question in evidence.questions
    ]


def _conflict_reason(conflict: PatternConflict) -> str:
    (one, other), (first, second) = conflict.patterns, conflict.adoption
    return f"the team is divided on {conflict.question}: {one} {first} %, {other} {second} %"


def _stale_doubts(memories: Sequence[RelatedMemory]) -> list[_Doubt]:
    return [
        _Doubt(
            "stale memory",
            f"memory {memory.id} counts only {memory.confidence:.0%} by now",
            (f"run `codeinfo memory show {memory.id}` and remember it again if it still holds",),
        )
        for memory in memories
        if memory.stale
    ]


def _results(count: int) -> str:
    return f"{count} code result{'s' * (count != 1)}"


def _broader(evidence: Evidence, code: Sequence[Hit]) -> tuple[str, ...]:
    """Searches that could bring more: what the best result is called, or the plain words without restrictions."""
    named = next((hit.symbol for hit in code if hit.symbol), "")
    if named:
        return f"run `codeinfo refs {named}`", f'run `codeinfo search "{named}" --purpose {evidence.purpose}`'
    return (f'run `codeinfo search "{evidence.query}" -n 30` without filters, or name a function or file',)


# --- what goes along -----------------------------------------------------------------------------------------------


def _coverage(evidence: Evidence, code: Sequence[Hit]) -> tuple[int, list[tuple[str, int]]]:
    """How many callers of the likely targets are among the results, and all callers, those in the results first."""
    shown = {hit.path for hit in evidence.hits}
    callers: dict[str, int] = {}
    for hit in code[:TARGETS]:
        for path, line in evidence.importers.get(hit.path, ()):
            callers.setdefault(path, line)
    present = [(path, line) for path, line in callers.items() if path in shown]
    return len(present), present + [(path, line) for path, line in callers.items() if path not in shown]


def _impact(covered: int, callers: Sequence[tuple[str, int]]) -> CardImpact | None:
    if not callers:
        return None
    files = [f"{path}:{line}" for path, line in (*callers[covered:], *callers[:covered])]
    return CardImpact(f"{covered}/{len(callers)} callers in results", tuple(files[:MOST_LISTED]))


def _advice(patterns: Sequence[PatternUse]) -> CardPatterns | None:
    by_share = sorted(patterns, key=lambda pattern: (-pattern.adoption, -pattern.files, pattern.name))
    do = [p for p in by_share if p.guidance in ("use", "prefer")][:MOST_LISTED]
    avoid = [p for p in by_share if p.guidance == "avoid"][:MOST_LISTED]
    if not do and not avoid:
        return None
    return CardPatterns(
        tuple(f"{p.name} ({p.adoption} % of {p.question})" for p in do),
        tuple(f"{p.name} (declining, {p.adoption} % of {p.question})" for p in avoid),
    )


def _example(report: PatternReport, code: Sequence[Hit]) -> str:
    """The best golden file in the language of the first result, one of the same folder if there is one."""
    if not code:
        return ""
    candidates = [g.path for g in report.golden_files if family(g.language) == family(code[0].language)]
    folder = code[0].path.partition("/")[0]
    return next((path for path in candidates if path.partition("/")[0] == folder), next(iter(candidates), ""))


def _warning(memory: RelatedMemory) -> str:
    return f"{memory.memory} ({memory.label})"


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
    patterns: Collection[PatternUse],
) -> list[str]:
    """New lines that use what the team avoids, or the lesser of two ways where one is clearly preferred."""
    by_key = {(pattern.language, pattern.question, pattern.name): pattern for pattern in patterns}
    preferred = {(p.language, p.question): p for p in patterns if p.guidance in ("use", "prefer")}
    found = []
    for change in changes:
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
