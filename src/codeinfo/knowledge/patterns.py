"""The ways a team does things: how far each is adopted, whether it is still written, where to see it done well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from codeinfo.knowledge.detectors import Detector
from codeinfo.knowledge.memory import iso_of
from codeinfo.knowledge.trends import DECLINING, RISING, FileDates, Lines, trend
from codeinfo.operations.knowledge import GoldenFile, PatternConflict, PatternReport, PatternUse

USE_AT, PREFER_AT = 80, 50  # % of the files
CONFLICT_ABOVE = 20  # %
GOLDEN_FILES = 5
MIN_GOLDEN_LINES = 5  # a re-export of two lines has a high density of nothing
EXAMPLES = 3

Hints = Mapping[str, tuple[str, str]]  # path → trend and warning, for the results of searches
Dated = Callable[[Lines], float | None]  # date of the newest of the lines; None: nobody knows


class FileUses(Struct, frozen=True, array_like=True):
    """The lines of one file that use patterns, by the detector's position."""

    language: str
    lines: int
    is_test: bool
    uses: dict[int, list[int]]


class PatternCache(Struct):
    """What is kept beside the index: uses found once for each content, lines dated once for each commit."""

    fingerprint: str  # of the detectors
    files: dict[str, tuple[str, FileUses]] = field(default_factory=dict)  # path → content hash and uses
    dates: dict[str, FileDates] = field(default_factory=dict)

    @classmethod
    def load(cls, data: bytes | None, fingerprint: str) -> PatternCache:
        """Empty where other detectors found what was kept, or where it cannot be read."""
        try:
            kept = msgspec.json.decode(data or b"", type=cls)
        except msgspec.DecodeError:
            return cls(fingerprint)
        return kept if kept.fingerprint == fingerprint else cls(fingerprint)


def load_hints(data: bytes | None) -> Hints | None:
    """None where nobody asked for patterns so far."""
    try:
        return msgspec.json.decode(data or b"", type=dict[str, tuple[str, str]])
    except msgspec.DecodeError:
        return None


def analyse(detectors: Sequence[Detector], files: Mapping[str, FileUses], dated: Dated, now: float) -> PatternReport:
    """Everything about the patterns of a project."""
    where = uses_by_detector(files)
    answering: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for position, paths in where.items():
        answering[_question(detectors[position])].update(paths)
    patterns = [
        _pattern(detectors[position], where[position], len(answering[_question(detectors[position])]), dated, now)
        for position in sorted(where)
    ]
    ordered = sorted(patterns, key=lambda p: (p.category, p.question, p.language, -p.adoption, p.name))
    return PatternReport(tuple(ordered), tuple(_conflicts(ordered)), _golden_files(detectors, files, ordered))


def uses_by_detector(files: Mapping[str, FileUses]) -> dict[int, dict[str, Sequence[int]]]:
    where: dict[int, dict[str, Sequence[int]]] = defaultdict(dict)
    for path in sorted(files):
        for position, lines in files[path].uses.items():
            where[position][path] = lines
    return where


def key_of(item: Detector | PatternUse) -> tuple[str, str, str]:
    return item.language, item.question, item.name


def _question(item: Detector | PatternUse) -> tuple[str, str, str]:
    return item.category, item.question, item.language


def _pattern(detector: Detector, paths: Lines, answering: int, dated: Dated, now: float) -> PatternUse:
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


def _conflicts(patterns: Sequence[PatternUse]) -> list[PatternConflict]:
    """Pairs of answers to one question that are both common."""
    common = [pattern for pattern in patterns if pattern.adoption > CONFLICT_ABOVE]
    return [
        PatternConflict(*_question(one), (one.name, other.name), (one.adoption, other.adoption))
        for at, one in enumerate(common)
        for other in common[at + 1 :]
        if _question(one) == _question(other)
    ]


def _golden_files(
    detectors: Sequence[Detector], files: Mapping[str, FileUses], patterns: Sequence[PatternUse]
) -> tuple[GoldenFile, ...]:
    """Files with the most preferred patterns and none to avoid; among equals the densest. Tests are no model."""
    advice = {key_of(pattern): pattern.guidance for pattern in patterns}
    ranked = []
    for path, file in files.items():
        if file.is_test or file.lines < MIN_GOLDEN_LINES:
            continue
        used = {position: advice[key_of(detectors[position])] for position in sorted(file.uses)}
        good = [position for position, advised in used.items() if advised in ("use", "prefer")]
        if good and "avoid" not in used.values():
            density = round(100 * sum(len(file.uses[position]) for position in good) / file.lines, 2)
            names = tuple(detectors[position].name for position in good)
            ranked.append((-len(good), -density, path, GoldenFile(path, file.language, names, density)))
    return tuple(entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])[:GOLDEN_FILES])


def file_hints(
    detectors: Sequence[Detector], files: Mapping[str, FileUses], patterns: Sequence[PatternUse]
) -> dict[str, tuple[str, str]]:
    """Momentum of each file and a warning about it, for files where there is something to say."""
    by_key = {key_of(pattern): pattern for pattern in patterns}
    hints = {
        path: _hint([by_key[key_of(detectors[position])] for position in sorted(file.uses)], patterns)
        for path, file in files.items()
    }
    return {path: hint for path, hint in hints.items() if any(hint)}


def _hint(used: Sequence[PatternUse], patterns: Sequence[PatternUse]) -> tuple[str, str]:
    """A file declines when it uses more declining ways than rising ones."""
    rising = sum(pattern.trend == RISING for pattern in used)
    declining = [pattern for pattern in used if pattern.trend == DECLINING]
    momentum = DECLINING if len(declining) > rising else RISING if rising > len(declining) else ""
    if not declining:
        return momentum, ""
    worst = max(declining, key=lambda pattern: (pattern.adoption, pattern.name))
    better = [
        pattern
        for pattern in patterns
        if (pattern.question, pattern.language) == (worst.question, worst.language) and pattern.trend != DECLINING
    ]
    instead = max(better, key=lambda pattern: (pattern.adoption, pattern.name), default=None)
    advice = f"; {instead.name} is at {instead.adoption} %" if instead else ""
    return momentum, f"{worst.name} ({worst.question}) is declining{advice}"


def questions_in(detectors: Sequence[Detector], files: Mapping[str, FileUses], paths: Collection[str]) -> set[str]:
    """What the patterns in some files are answers to."""
    return {detectors[position].question for path in paths if path in files for position in files[path].uses}


def narrow(report: PatternReport, *, category: str = "", languages: Sequence[str] = ()) -> PatternReport:
    """The part of a report about one category or some languages (families of them)."""

    def wanted(item: PatternUse | PatternConflict) -> bool:
        return (not category or item.category == category) and (not languages or item.language in languages)

    patterns = tuple(filter(wanted, report.patterns))
    names = {pattern.name for pattern in patterns}
    golden = tuple(file for file in report.golden_files if names & set(file.patterns))
    return PatternReport(patterns, tuple(filter(wanted, report.conflicts)), golden, report.memories, report.notes)
