"""The patterns of a team: how widely each is adopted, whether it is still written, where to see a good example."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from posixpath import commonpath, dirname

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.globs import lies_below
from codeinfo.knowledge.detectors import PRODUCT, TEST, TESTING, Detector, detector_language
from codeinfo.knowledge.history import (
    DECLINING,
    DECLINING_DAYS,
    RISING,
    STABLE,
    WINDOW_DAYS,
    FileDates,
    LineDates,
    Lines,
)
from codeinfo.knowledge.project import dependencies, is_shipped, project_names
from codeinfo.languages import is_shipped_folder, is_test_helper, is_test_name, without_package_folders
from codeinfo.languages.manifests import kind_of_manifest
from codeinfo.languages.model import ancestors
from codeinfo.model import decode_stored, iso_time
from codeinfo.operations.knowledge import GoldenFile, PatternConflict, PatternReport, PatternUse
from codeinfo.tokens import identifiers, split_identifier

USE_AT, PREFER_AT = 80, 50  # % of the files
CONFLICT_ABOVE = 20  # %
GAIN = 10  # points that a pattern's share of the files that changed lately is above its share of all, if it is rising
LEAST_FILES = 3  # files that use a pattern before anything is said about it
LEAST_SHARE = 5  # % of the files before a pattern is to be avoided: fewer are justified exceptions
LEAST_ANSWERING = 1  # % of an area's files, or of its tests: what fewer do says nothing about how the team does it
LEAST_AUTHORS = 2  # of those files, if more than one person works on the area
GOLDEN_FILES = 3  # per area
SHORTEST_EXAMPLE, LONGEST_EXAMPLE = 20, 600  # lines: shorter files show little, longer ones are no model to read
SEVERAL = 3  # uses of a pattern: more make no better example
MIN_GOLDEN_PATTERNS = 3
EXAMPLES = 3
TOP = "."  # the area of the project's root folder

Key = tuple[str, str, str]  # language, question and name of a pattern


class FileUses(Struct, frozen=True, array_like=True):
    """The lines of one file that use patterns, by the detector's position, and its imported packages that detectors
    ask for."""

    language: str
    lines: int
    role: str  # see `role_of`
    uses: dict[int, list[int]]
    packages: list[str]


class PatternCache(Struct):
    """Cached beside the index: uses found once per content, lines dated once per commit."""

    fingerprint: str  # of the detectors
    files: dict[str, tuple[str, FileUses]] = field(default_factory=dict)  # path → content hash and uses
    dates: dict[str, FileDates] = field(default_factory=dict)

    @classmethod
    def load(cls, data: bytes | None, fingerprint: str) -> PatternCache:
        """Empty if the cache is from other detectors, or unreadable."""
        stored = decode_stored(data, cls)
        return stored if stored and stored.fingerprint == fingerprint else cls(fingerprint)


# --- areas ---------------------------------------------------------------------------------------------------------


class Areas:
    """The packages of a project. A file belongs to the nearest manifest of its language family above it; tests and
    examples with their own manifests belong to the package around them."""

    def __init__(self, manifests: Mapping[str, str]) -> None:
        """`manifests` maps paths to texts."""
        self.folders: dict[str, set[str]] = {}
        self._own = {dirname(path): _normalise(name) for path, name in project_names(manifests).items()}
        for path in manifests:
            folder, kind = dirname(path), kind_of_manifest(path)
            if kind is not None and kind.family and is_shipped_folder(folder):
                self.folders.setdefault(kind.family, {""}).add(folder)
        declared = dependencies(manifests)[0]
        self._declared = group_by_key((dirname(item.source), _normalise(item.name)) for item in declared)
        shipped = filter(is_shipped, declared)
        self._shipped = group_by_key((dirname(item.source), _normalise(item.name)) for item in shipped)

    def of(self, path: str, family: str) -> str:
        folders = self.folders.get(family, {""})
        return next(filter(folders.__contains__, ancestors(dirname(path)))) or TOP

    def packages(self, area: str, files: Iterable[FileUses]) -> tuple[frozenset[str], frozenset[str]]:
        """What its product code can use, and what its tests can: declared by its manifest or one around it, or
        imported by `files`, by more than one if something is declared, since a text can look like an import. Its own
        name is excluded: a framework's code is no example of how to use it."""
        around = ancestors("" if area == TOP else area)
        own_name = self._own.get(around[0], "")
        shipped = set().union(*(self._shipped.get(folder, ()) for folder in around))
        declared = set().union(*(self._declared.get(folder, ()) for folder in around))
        imported: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for file in files:
            imported[file.role == PRODUCT].update(map(_normalise, file.packages))
        least = 2 if declared else 1
        shipped |= {name for name, count in imported[True].items() if count >= least}
        declared |= {name for name, count in imported[False].items() if count >= least}
        return frozenset(shipped - {own_name}), frozenset((shipped | declared) - {own_name})


def _normalise(package: str) -> str:
    """Distributions are written with or without hyphens, imports without."""
    return package.lower().replace("-", "_") if "/" not in package else package


# --- what the files come to ----------------------------------------------------------------------------------------


def analyse(
    detectors: Sequence[Detector], files: Mapping[str, FileUses], areas: Areas, history: LineDates | None
) -> PatternReport:
    """Everything about the patterns of a project, area by area; `history` is None if there is none."""
    patterns: list[PatternUse] = []
    golden: list[GoldenFile] = []
    sizes: Counter[tuple[str, str]] = Counter()
    for (area, language), inside in _group_by_area(files, areas).items():
        shipped, declared = areas.packages(area, inside.values())
        where = {}
        for position, uses in uses_by_detector(inside).items():
            needed = set(map(_normalise, detectors[position].packages))
            available = declared if detectors[position].category == TESTING else shipped
            if not needed or not needed.isdisjoint(available):
                where[position] = uses
        area_patterns = _count_patterns(detectors, where, area, history, inside)
        patterns += area_patterns
        product = {path: file for path, file in inside.items() if file.role == PRODUCT}
        sizes[area, language] = len(product)
        golden += _choose_golden_files(detectors, product, area_patterns, area, history)
    ordered = sorted(patterns, key=lambda p: (-sizes[p.area, p.language], p.area, *_question(p), -p.adoption, p.name))
    golden.sort(key=lambda file: (-sizes[file.area, detector_language(file.language)], file.area))
    folders = {family: tuple(sorted(found)) for family, found in areas.folders.items() if len(found) > 1}
    return PatternReport(tuple(ordered), tuple(_find_conflicts(ordered, detectors)), tuple(golden), areas=folders)


def _group_by_area(files: Mapping[str, FileUses], areas: Areas) -> dict[tuple[str, str], dict[str, FileUses]]:
    by_area: dict[tuple[str, str], dict[str, FileUses]] = {}
    for path, file in sorted(files.items()):
        language = detector_language(file.language)
        by_area.setdefault((areas.of(path, language), language), {})[path] = file
    return by_area


def uses_by_detector(files: Mapping[str, FileUses]) -> dict[int, dict[str, Sequence[int]]]:
    where: dict[int, dict[str, Sequence[int]]] = defaultdict(dict)
    for path in sorted(files):
        for position, lines in files[path].uses.items():
            where[position][path] = lines
    return where


def uses_by_area(
    detectors: Sequence[Detector], files: Mapping[str, FileUses], areas: Areas
) -> dict[tuple[str, str, str, str], Lines]:
    """By area and key, including those that no package of the area allows."""
    return {
        (area, *key_of(detectors[position])): lines
        for (area, _), inside in _group_by_area(files, areas).items()
        for position, lines in uses_by_detector(inside).items()
    }


def key_of(item: Detector | PatternUse) -> Key:
    return item.language, item.question, item.name


def _question(item: Detector | PatternUse) -> tuple[str, str, str]:
    return item.category, item.question, item.language


def _count_patterns(
    detectors: Sequence[Detector],
    where: Mapping[int, Lines],
    area: str,
    history: LineDates | None,
    files: Mapping[str, FileUses],
) -> list[PatternUse]:
    """The answers of an area with these files, question by question."""
    roles = Counter(file.role for file in files.values())
    questions = group_by_key((_question(detectors[position]), position) for position in where)
    people = history.authors({path for uses in where.values() for path in uses}) if history else 0
    patterns: list[PatternUse] = []
    for positions in questions.values():
        question = detectors[positions[0]]
        answering = len({path for position in positions for path in where[position]})
        file_count = roles[TEST if question.category == TESTING else PRODUCT]
        is_rare = answering == 1 or 100 * answering < LEAST_ANSWERING * file_count
        if all(detectors[position].prints for position in positions):
            continue  # a program that writes to a terminal
        if is_rare and not question.from_project:
            continue  # what one file does is no habit of a team, nor what a few of many do: the others have another way
        answers = []
        for position in positions:
            detector, uses, newest = detectors[position], where[position], None
            if history and len(positions) > 1 and question.advice:  # dates decide between answers
                newest = history.newest_use(uses)
            examples = _choose_examples(detectors, uses, files, history)
            answers.append((detector, _count_uses(detector, uses, answering, area, history, newest, examples)))
        advised = _add_advice(answers, people) if question.advice else [pattern for _, pattern in answers]
        patterns += _keep_gaining(advised, [where[position] for position in positions], history)
    return patterns


def _keep_gaining(
    patterns: Sequence[PatternUse], uses: Sequence[Lines], history: LineDates | None
) -> Iterator[PatternUse]:
    """Written lately is not enough to be rising: of the files that changed lately more must use it than of all."""
    lately = [{path for path in paths if history and history.changed_lately(path)} for paths in uses]
    changed = len(set().union(*lately)) or 1
    for pattern, paths in zip(patterns, lately, strict=True):
        is_gaining = 100 * len(paths) / changed >= pattern.adoption + GAIN
        yield pattern if is_gaining or pattern.trend != RISING else replace(pattern, trend=STABLE)


def _count_uses(
    detector: Detector,
    paths: Lines,
    answering: int,
    area: str,
    history: LineDates | None,
    newest: float | None,
    examples: tuple[str, ...],
) -> PatternUse:
    momentum = history.trend(newest) if history and not history.is_young and newest is not None else ""
    return PatternUse(
        name=detector.name,
        category=detector.category,
        question=detector.question,
        language=detector.language,
        adoption=round(100 * len(paths) / answering),
        files=len(paths),
        uses=sum(map(len, paths.values())),
        # Old code declines only if something else takes its place.
        trend=STABLE if momentum == DECLINING else momentum,
        newest=iso_time(newest)[:10] if newest else "",
        guidance="",
        examples=examples,
        area=area,
        of_files=answering,
        authors=history.authors(paths) if history else 0,
    )


def _choose_examples(
    detectors: Sequence[Detector], paths: Lines, files: Mapping[str, FileUses], history: LineDates | None
) -> tuple[str, ...]:
    """Where to see a pattern: in files that can be read as a whole and are no stand-ins, first those of today without a
    poor pattern, then those with several uses, then those of the usual length."""
    fit = [path for path in paths if files[path].lines <= LONGEST_EXAMPLE and can_be_example(path, files[path].role)]
    usual = sorted(files[path].lines for path in fit)[len(fit) // 2] if fit else 0

    def rank(path: str) -> tuple[bool, bool, int, float, str]:
        file = files[path]
        is_weak = any(detectors[at].poor for at in file.uses) or (file.role == TEST and not is_test_name(path))
        is_old = history is not None and not history.is_recent(path)
        enough = 0 if file.lines < SHORTEST_EXAMPLE else min(len(paths[path]), SEVERAL)
        return is_weak, is_old, -enough, abs(file.lines - usual), path

    return tuple(f"{path}:{paths[path][0]}" for path in sorted(fit, key=rank)[:EXAMPLES])


def with_near_examples(
    report: PatternReport, detectors: Sequence[Detector], files: Mapping[str, FileUses], path: str
) -> PatternReport:
    """A report whose advice has its examples in other files, as near as possible to this one."""
    positions = {key_of(detector): at for at, detector in enumerate(detectors)}
    by_nearness = group_by_key((len(commonpath((path, other))), other) for other in files if other != path)

    def show_near(pattern: PatternUse) -> PatternUse:
        at = positions[key_of(pattern)]
        for _, group in sorted(by_nearness.items(), reverse=True):
            uses = {other: files[other].uses[at] for other in group if at in files[other].uses}
            if examples := _choose_examples(detectors, uses, files, None):
                return replace(pattern, examples=examples)
        return pattern

    patterns = (show_near(pattern) if pattern.guidance else pattern for pattern in report.patterns)
    return replace(report, patterns=tuple(patterns))


_STAND_INS = frozenset(
    "benchmarks demo example examples fake fakes fixture fixtures mock mocks sample samples stub stubs".split()
)
_GATHERING = frozenset("index __init__ __main__ mod lib main types constants public api".split())
_AROUND_TESTS = frozenset("config helper helpers setup support util utils".split())


def can_be_example(path: str, role: str = PRODUCT) -> bool:
    """Whether a file, by its path, is itself what others are modelled on: nothing that gathers other files, stands in
    for something or, among tests, serves them."""
    folder, _, name = path.rpartition("/")
    words, around = _words_of(name), _words_of(without_package_folders(folder))
    unfit = _AROUND_TESTS if role == TEST else {"test", "tests", "testing"}
    is_gathering = name.partition(".")[0] in _GATHERING
    is_stand_in = not _STAND_INS.isdisjoint(words | around)
    return words.isdisjoint(unfit) and not (is_gathering or is_stand_in or is_test_helper(path))


def _words_of(path: str) -> set[str]:
    return {word for token in identifiers(path) for word in split_identifier(token)}


def _add_advice(answers: Sequence[tuple[Detector, PatternUse]], people: int) -> list[PatternUse]:
    """The answers to one question with advice for new code: what most files do, or what replaces it. What most files
    do is never to be avoided, nor is the only pattern."""
    successors = {pattern.name: _find_successor(detector, pattern, answers, people) for detector, pattern in answers}
    staying = max((pattern.files for _, pattern in answers if not successors[pattern.name]), default=0)
    taking = {successor.name for successor in successors.values() if successor and successor.files == staying}
    # What the language or framework offers now is already common: then the older ones are not advised.
    is_overtaken = any(detector.modern and pattern.adoption > CONFLICT_ABOVE for detector, pattern in answers)
    advised = []
    for detector, pattern in answers:
        adoption, files, successor = pattern.adoption, pattern.files, successors[pattern.name]
        most_of_others = max((other.files for _, other in answers if other is not pattern), default=0)
        is_usual = pattern.name in taking or (adoption >= PREFER_AT and files > most_of_others)
        guidance = ""
        if successor:
            if LEAST_SHARE <= adoption < PREFER_AT and LEAST_FILES <= files < successor.files:
                guidance = "avoid"
        elif _is_backed(detector, pattern, people) and is_usual and (detector.modern or not is_overtaken):
            guidance = "use" if adoption >= USE_AT else "prefer"
        momentum = DECLINING if successor else pattern.trend
        instead = successor.name if successor and guidance else ""
        advised.append(replace(pattern, trend=momentum, guidance=guidance, instead=instead))
    return advised


def _is_backed(detector: Detector, pattern: PatternUse, people: int) -> bool:
    """Whether enough files and people use a pattern to advise it at all."""
    by_team = pattern.authors >= LEAST_AUTHORS or people < LEAST_AUTHORS or not pattern.authors
    return not detector.poor and pattern.files >= LEAST_FILES and by_team


def _find_successor(
    detector: Detector, pattern: PatternUse, answers: Sequence[tuple[Detector, PatternUse]], people: int
) -> PatternUse | None:
    """What replaces a pattern that nobody wrote in the half year before the newest use of the other. Being written
    less is not enough, since both may be fine: the other must be where the language or framework went. For a
    project's own patterns the dates alone decide."""
    if detector.modern or not pattern.trend:
        return None
    successors = [
        other
        for rival, other in answers
        if other is not pattern
        and other.trend == RISING
        and _is_backed(rival, other, people)
        and (rival.modern or detector.from_project)
        and _days(other.newest) - _days(pattern.newest) >= DECLINING_DAYS
    ]
    return max(successors, key=lambda other: (other.files, other.name), default=None)


def _days(date: str) -> int:
    return datetime.date.fromisoformat(date).toordinal() if date else 0


def advice_line(pattern: PatternUse) -> str:
    """One pattern with its evidence: files, people, dates, a place to look at."""
    parts = [f"{pattern.files} of {pattern.of_files} files"]
    if pattern.authors > 1:
        parts.append(f"{pattern.authors} authors")
    if pattern.newest:
        parts.append(f"{'none since' if pattern.guidance == 'avoid' else 'newest'} {pattern.newest}")
    elif pattern.guidance == "avoid":
        parts.append(f"none in {WINDOW_DAYS} days")
    if pattern.instead:
        parts.append(f"{pattern.instead} takes its place")
    where = "" if pattern.area == TOP else f" in {pattern.area}"
    return f"{pattern.name} ({pattern.question}{where}): {', '.join((*parts, *pattern.examples[:1]))}"


def _find_conflicts(patterns: Sequence[PatternUse], detectors: Sequence[Detector]) -> list[PatternConflict]:
    """Pairs of answers to one question that are both common in an area, neither of them clearly the team's choice."""
    settled = {(p.area, *_question(p)) for p in patterns if p.guidance == "use"}
    competing = {key_of(detector) for detector in detectors if detector.advice and not detector.poor}
    common = [
        p
        for p in patterns
        if p.adoption > CONFLICT_ABOVE
        and p.files >= LEAST_FILES
        and p.trend != DECLINING
        and key_of(p) in competing
        and (p.area, *_question(p)) not in settled
    ]
    return [
        PatternConflict(*_question(first), (first.name, second.name), (first.adoption, second.adoption), first.area)
        for first, second in combinations(common, 2)
        if (first.area, _question(first)) == (second.area, _question(second))
    ]


def _choose_golden_files(
    detectors: Sequence[Detector],
    files: Mapping[str, FileUses],
    patterns: Sequence[PatternUse],
    area: str,
    history: LineDates | None,
) -> list[GoldenFile]:
    """Files with the most preferred patterns, none to avoid and none that is poor; among equals the densest."""
    by_key = {key_of(pattern): pattern for pattern in patterns}
    ranked = []
    for path, file in files.items():
        can_show = SHORTEST_EXAMPLE <= file.lines <= LONGEST_EXAMPLE and can_be_example(path)
        if not can_show or (history and not history.is_recent(path)):
            continue
        used = {at: by_key[key_of(detectors[at])] for at in sorted(file.uses) if key_of(detectors[at]) in by_key}
        good = [at for at, pattern in used.items() if pattern.guidance in ("use", "prefer")]
        bad = any(pattern.trend == DECLINING or detectors[at].poor for at, pattern in used.items())
        if len(good) >= MIN_GOLDEN_PATTERNS and not bad:
            density = round(100 * sum(len(file.uses[at]) for at in good) / file.lines, 2)
            names = tuple(detectors[at].name for at in good)
            ranked.append((-len(good), -density, path, GoldenFile(path, file.language, names, density, area)))
    return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])[:GOLDEN_FILES]]


# --- hints for the results of searches -------------------------------------------------------------------------------


class FileHints(Struct, frozen=True, array_like=True):
    """Lines of a file that use what the team now prefers, and those that use what it is leaving, each with a
    warning."""

    rising: list[int]
    declining: list[tuple[int, str]]

    def of_lines(self, start: int, end: int) -> tuple[str, str]:
        """The trend of some lines, and a warning about them."""
        rising = sum(start <= line <= end for line in self.rising)
        warnings = [warning for line, warning in self.declining if start <= line <= end]
        momentum = DECLINING if len(warnings) > rising else RISING if rising > len(warnings) else ""
        return momentum, warnings[0] if warnings else ""


Hints = Mapping[str, FileHints]  # by path


def file_hints(
    detectors: Sequence[Detector], files: Mapping[str, FileUses], areas: Areas, patterns: Sequence[PatternUse]
) -> dict[str, FileHints]:
    """Hints for the files that have any."""
    by_area = {(pattern.area, key_of(pattern)): pattern for pattern in patterns if pattern.guidance}
    hints = {}
    for path, file in files.items():
        area, rising, declining = areas.of(path, detector_language(file.language)), [], []
        for position, lines in sorted(file.uses.items()):
            pattern = by_area.get((area, key_of(detectors[position])))
            if pattern and pattern.guidance == "avoid":
                declining += [(line, advice_line(pattern)) for line in lines]
            elif pattern and pattern.trend == RISING:
                rising += lines
        if rising or declining:
            hints[path] = FileHints(rising, sorted(declining))
    return hints


# --- parts of a report ---------------------------------------------------------------------------------------------


def narrow(
    report: PatternReport, *, category: str = "", languages: Sequence[str] = (), below: str = ""
) -> PatternReport:
    """The part of a report about one category, some language families, or the packages below a path, otherwise the
    nearest one around it."""
    all_areas = {item.area for item in report.patterns}
    around = (area for area in all_areas if area == TOP or lies_below(below, area))
    areas = {area for area in all_areas if lies_below(area, below)} or {max(around, key=len, default=TOP)}

    def is_wanted(item: PatternUse | PatternConflict) -> bool:
        is_named = (not category or item.category == category) and (not languages or item.language in languages)
        return is_named and (not below or item.area in areas)

    return _filter_report(report, is_wanted)


def in_area(report: PatternReport, path: str, language: str) -> PatternReport:
    """The part of a report about a file's package, in the file's language family."""
    family = detector_language(language)
    around = (folder for folder in report.areas.get(family, ()) if lies_below(path, folder))
    area = max(around, key=len, default="") or TOP
    return _filter_report(report, lambda item: item.area == area and item.language == family)


def _filter_report(report: PatternReport, is_wanted: Callable[[PatternUse | PatternConflict], bool]) -> PatternReport:
    patterns = tuple(filter(is_wanted, report.patterns))
    names = {(pattern.area, pattern.name) for pattern in patterns}
    golden = tuple(g for g in report.golden_files if any((g.area, name) in names for name in g.patterns))
    conflicts = tuple(filter(is_wanted, report.conflicts))
    return replace(report, patterns=patterns, conflicts=conflicts, golden_files=golden)
