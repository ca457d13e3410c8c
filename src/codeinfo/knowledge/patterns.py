"""The ways a team does things: how far each is adopted, whether it is still written, where to see it done well."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby, repeat

import msgspec
from msgspec import Struct, field

from codeinfo.knowledge.detectors import Detector
from codeinfo.knowledge.memory import iso_of
from codeinfo.operations.knowledge import GoldenFile, PatternConflict, PatternHistory, PatternReport, PatternUse

RISING, STABLE, DECLINING = "Rising", "Stable", "Declining"
RISING_DAYS = 60
DECLINING_DAYS = 180
WINDOW_DAYS = 400  # of history that is looked at: anything older has been declining for long
MONTHS = 13  # this one and the twelve before it: the window holds all of them
EXACT_FILES = 40  # dated for a pattern's exact newest use; past it, knowing that it rises is enough
MOST_BLAMES = 100  # files dated in one run: git needs 40 ms for each in a history of 35,000 commits
_DAY = 86_400

Lines = Mapping[str, Sequence[int]]  # path → numbers of lines that use a pattern


class BlameLine(Struct, frozen=True):
    time: int  # when the line was written, 0 where the history looked at does not reach back to it
    author: str
    text: str


class FileDates(Struct, frozen=True, array_like=True):
    """When the lines of a file were written, as of the commit that changed it last; neighbours of one date together."""

    commit: str
    runs: tuple[tuple[int, float], ...]

    @classmethod
    def from_blame(cls, commit: str, blame: Iterable[BlameLine]) -> FileDates:
        return cls(commit, tuple((len(list(run)), float(date)) for date, run in groupby(line.time for line in blame)))

    def lines(self) -> list[float]:
        return list(chain.from_iterable(repeat(date, count) for count, date in self.runs))


class LineDates:
    """Dates lines while an analysis asks for them, within a budget of MOST_BLAMES files.

    `changed` has date and commit of each file that changed within the window, `edited` the files that are not as
    committed. `known` is what earlier runs found; what this one finds is added. `blame` gives the lines as committed,
    `text_of` the text as indexed.
    """

    def __init__(
        self,
        changed: Mapping[str, tuple[int, str]],
        edited: frozenset[str],
        known: dict[str, FileDates],
        blame: Callable[[str], Sequence[BlameLine]],
        text_of: Callable[[str], str],
        now: float,
    ) -> None:
        self._changed, self._edited = changed, edited
        self._known, self._blame, self._text_of, self._now = known, blame, text_of, now
        self._by_path: dict[str, Sequence[float]] = {}
        self._blames_left = MOST_BLAMES
        self.complete = True  # until a file is left out for lack of budget
        # When each file changed last: no line of it can be newer.
        self._bounds = {path: float(seconds) for path, (seconds, _) in changed.items()} | dict.fromkeys(edited, now)

    @property
    def notes(self) -> tuple[str, ...]:
        left_out = f"only {MOST_BLAMES} files were dated this time; the next run goes on from there"
        return () if self.complete else (left_out,)

    def newest_use(self, uses: Lines) -> float:
        """When the newest of the lines was written, 0 for before the window. Files are dated from the latest on until
        no other can bring a newer line; those that are dated already come first among equals."""
        newest = 0.0
        in_window = (path for path in uses if path in self._bounds)
        candidates = sorted(in_window, key=lambda path: (-self._bounds[path], path not in self._known, path))
        for number, path in enumerate(candidates):
            decided = number >= EXACT_FILES and trend(newest, self._now) == RISING
            if self._bounds[path] <= newest or decided:
                break
            dates = self._dates(path)
            newest = max([newest, *(dates[line - 1] for line in uses[path] if line <= len(dates))])
        return newest

    def date_all(self, paths: Iterable[str]) -> None:
        """Date as many files as the budget allows, the latest first."""
        for path in sorted((path for path in paths if path in self._bounds), key=lambda p: (-self._bounds[p], p)):
            self._dates(path)

    def by_month(self, uses: Lines) -> PatternHistory:
        """How many of the lines were written in each month."""
        months = _months_until(self._now)
        counts = dict.fromkeys(months, 0)
        older = undated = 0
        for path, lines in uses.items():
            dates = self._dates(path) if path in self._bounds else [0.0] * max(lines)
            for line in lines:
                month = _month(min(dates[line - 1], self._now)) if line <= len(dates) else ""
                if month in counts:
                    counts[month] += 1
                elif month:
                    older += 1
                else:
                    undated += 1
        return PatternHistory(months[0], tuple(counts.values()), older, undated)

    def _dates(self, path: str) -> Sequence[float]:
        """Of each line; none for a file that the budget did not reach."""
        dates = self._by_path.get(path)
        if dates is None:
            dates = self._by_path[path] = self._edited_dates(path) if path in self._edited else self._committed(path)
        return dates

    def _edited_dates(self, path: str) -> list[float]:
        return dates_after_edit(self._text_of(path).split("\n"), self._blamed(path) or (), self._now)

    def _committed(self, path: str) -> list[float]:
        if path not in self._known:
            blame = self._blamed(path)
            if blame is None:
                return []
            self._known[path] = FileDates.from_blame(self._changed[path][1], blame)
        return self._known[path].lines()

    def _blamed(self, path: str) -> Sequence[BlameLine] | None:
        if not self._blames_left:
            self.complete = False
            return None
        self._blames_left -= 1
        return self._blame(path)


def trend(newest: float, now: float) -> str:
    """By the newest use, in seconds since the epoch; 0 is older than anything looked at."""
    age_days = (now - newest) / _DAY
    if age_days <= RISING_DAYS:
        return RISING
    return DECLINING if age_days >= DECLINING_DAYS else STABLE


def _months_until(now: float) -> tuple[str, ...]:
    this = time.gmtime(now)
    numbers = range(12 * this.tm_year + this.tm_mon - MONTHS, 12 * this.tm_year + this.tm_mon)
    return tuple(f"{number // 12}-{number % 12 + 1:02}" for number in numbers)


def _month(seconds: float) -> str:
    return time.strftime("%Y-%m", time.gmtime(seconds))


def dates_after_edit(texts: Iterable[str], blame: Sequence[BlameLine], now: float) -> list[float]:
    """Dates of the lines of an edited file: those the commit has keep theirs, the others were written just now."""
    known: dict[str, float] = {}
    for line in blame:
        key = line.text.strip()
        known[key] = max(known.get(key, 0.0), line.time)
    return [known.get(text.strip(), now) for text in texts]


# --- what git prints -----------------------------------------------------------------------------------------------


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


def narrow(report: PatternReport, *, category: str = "", languages: Sequence[str] = ()) -> PatternReport:
    """The part of a report about one category or some languages (families of them)."""

    def wanted(item: PatternUse | PatternConflict) -> bool:
        return (not category or item.category == category) and (not languages or item.language in languages)

    patterns = tuple(filter(wanted, report.patterns))
    names = {pattern.name for pattern in patterns}
    golden = tuple(file for file in report.golden_files if names & set(file.patterns))
    return PatternReport(patterns, tuple(filter(wanted, report.conflicts)), golden, report.memories, report.notes)
