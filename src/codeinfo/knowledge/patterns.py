"""The ways a team does things: how far each is adopted, whether it is still written, where to see it done well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from codeinfo.knowledge.detector import Detector
from codeinfo.knowledge.memory import iso_of
from codeinfo.knowledge.trends import DECLINING, RISING, trend
from codeinfo.operations.knowledge import GoldenFile, PatternConflict, PatternReport, PatternUse

USE_AT, PREFER_AT = 80, 50  # % of the files
CONFLICT_ABOVE = 20  # %
GOLDEN_FILES = 5
MIN_GOLDEN_LINES = 5  # a re-export of two lines has a high density of nothing
EXAMPLES = 3


class FileUses(Struct, frozen=True):
    """The lines of one file that use patterns, by the detector's position."""

    language: str
    lines: int
    is_test: bool
    uses: Mapping[int, Sequence[int]]


Dated = Callable[[Mapping[str, Sequence[int]]], float | None]  # lines by path → newest date; None: nobody knows


def analyse(detectors: Sequence[Detector], files: Mapping[str, FileUses], dated: Dated, now: float) -> PatternReport:
    """Everything about the patterns of a project."""
    where: dict[int, dict[str, Sequence[int]]] = defaultdict(dict)
    for path in sorted(files):
        for position, lines in files[path].uses.items():
            where[position][path] = lines
    answering: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for position, paths in where.items():
        answering[_question(detectors[position])].update(paths)
    patterns = [
        _pattern(detectors[position], where[position], len(answering[_question(detectors[position])]), dated, now)
        for position in sorted(where)
    ]
    ordered = sorted(patterns, key=lambda p: (p.category, p.question, p.language, -p.adoption, p.name))
    return PatternReport(tuple(ordered), tuple(conflicts(ordered)), golden_files(detectors, files, ordered))


def _question(detector: Detector) -> tuple[str, str, str]:
    return detector.category, detector.question, detector.language


def _pattern(
    detector: Detector, paths: Mapping[str, Sequence[int]], answering: int, dated: Dated, now: float
) -> PatternUse:
    adoption = round(100 * len(paths) / answering)
    newest = dated(paths)
    momentum = "" if newest is None else trend(newest, now)
    most_used = sorted(paths, key=lambda path: (-len(paths[path]), path))[:EXAMPLES]
    return PatternUse(
        name=detector.name,
        category=detector.category,
        question=detector.question,
        language=detector.language,
        adoption=adoption,
        files=len(paths),
        uses=sum(map(len, paths.values())),
        trend=momentum,
        newest=iso_of(newest)[:10] if newest else "",
        guidance=guidance(adoption, momentum),
        examples=tuple(f"{path}:{paths[path][0]}" for path in most_used),
    )


def guidance(adoption: int, momentum: str) -> str:
    """What to do in new code. A pattern nobody writes any more is to be avoided however common it is."""
    if momentum == DECLINING:
        return "avoid"
    return "use" if adoption >= USE_AT else "prefer" if adoption >= PREFER_AT else ""


def conflicts(patterns: Sequence[PatternUse]) -> list[PatternConflict]:
    """Pairs of answers to one question that are both common."""
    found = []
    common = [pattern for pattern in patterns if pattern.adoption > CONFLICT_ABOVE]
    for at, one in enumerate(common):
        for other in common[at + 1 :]:
            if (one.category, one.question, one.language) == (other.category, other.question, other.language):
                names, shares = (one.name, other.name), (one.adoption, other.adoption)
                found.append(PatternConflict(one.category, one.question, one.language, names, shares))
    return found


def golden_files(
    detectors: Sequence[Detector], files: Mapping[str, FileUses], patterns: Sequence[PatternUse]
) -> tuple[GoldenFile, ...]:
    """Files with the most preferred patterns and none to avoid; among equals the densest. Tests are no model."""
    by_key = {(pattern.language, pattern.question, pattern.name): pattern for pattern in patterns}
    ranked = []
    for path, file in files.items():
        if file.is_test or file.lines < MIN_GOLDEN_LINES:
            continue
        good: list[str] = []
        uses = avoided = 0
        for position, lines in sorted(file.uses.items()):
            detector = detectors[position]
            advice = by_key[(detector.language, detector.question, detector.name)].guidance
            if advice in ("use", "prefer"):
                good.append(detector.name)
                uses += len(lines)
            avoided += advice == "avoid"
        if good and not avoided:
            density = round(100 * uses / file.lines, 2)
            ranked.append((-len(good), -density, path, GoldenFile(path, file.language, tuple(good), density)))
    return tuple(entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])[:GOLDEN_FILES])


def file_hint(detectors: Sequence[Detector], file: FileUses, patterns: Mapping[str, PatternUse]) -> tuple[str, str]:
    """A file's momentum and a warning about it: ("", "") where there is nothing to say.

    `patterns` is keyed by `pattern_key`. A file declines when it uses more declining ways than rising ones.
    """
    used = [patterns[pattern_key(detectors[position])] for position in sorted(file.uses)]
    rising = sum(pattern.trend == RISING for pattern in used)
    declining = [pattern for pattern in used if pattern.trend == DECLINING]
    momentum = DECLINING if len(declining) > rising else RISING if rising > len(declining) else ""
    if not declining:
        return momentum, ""
    worst = max(declining, key=lambda pattern: (pattern.adoption, pattern.name))
    better = [
        pattern
        for pattern in patterns.values()
        if (pattern.question, pattern.language) == (worst.question, worst.language) and pattern.trend != DECLINING
    ]
    instead = max(better, key=lambda pattern: (pattern.adoption, pattern.name), default=None)
    advice = f"; {instead.name} is at {instead.adoption} %" if instead else ""
    return momentum, f"{worst.name} ({worst.question}) is declining{advice}"


def pattern_key(item: Detector | PatternUse) -> str:
    return f"{item.language}\n{item.question}\n{item.name}"


def narrowed(report: PatternReport, *, category: str = "", languages: Sequence[str] = ()) -> PatternReport:
    """The part of a report about one category or some languages (families of them)."""

    def wanted(item: PatternUse | PatternConflict) -> bool:
        return (not category or item.category == category) and (not languages or item.language in languages)

    patterns = tuple(filter(wanted, report.patterns))
    names = {pattern.name for pattern in patterns}
    golden = tuple(file for file in report.golden_files if names & set(file.patterns))
    return PatternReport(patterns, tuple(filter(wanted, report.conflicts)), golden, report.memories, report.notes)
