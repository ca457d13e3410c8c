"""The patterns of one project: uses found once for each content, lines dated once for each commit, kept beside the
index. After an edit only the changed files are looked at again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.engine.hints import Hints, write_hints
from codeinfo.engine.history import History
from codeinfo.engine.index_manager import IndexManager
from codeinfo.index.queries import OwnPatterns
from codeinfo.knowledge.detectors import BUILT_IN
from codeinfo.knowledge.matching import Matcher
from codeinfo.knowledge.own_patterns import own_detectors
from codeinfo.knowledge.patterns import Dated, FileUses, analyse, file_hint, pattern_key
from codeinfo.knowledge.trends import DECLINING_DAYS, WINDOW_DAYS, BlameLine, carried_over, newest_use, written_by_month
from codeinfo.model import FileKind
from codeinfo.operations.knowledge import PatternHistory, PatternReport
from codeinfo.ports import CodeFile
from codeinfo.sources.git import GitFailed
from codeinfo.store.sqlite import SqliteStore, code_facts, read_beside, write_beside

USES_NAME = "patterns.json"
MOST_BLAMES = 100  # files dated in one run: git needs 40 ms for each in a history of 35,000 commits
_DAY = 86_400


class _Kept(Struct):
    """What is written beside the index. `files`: path → content hash and uses; `dates`: path → commit and dates."""

    fingerprint: str
    files: dict[str, tuple[str, FileUses]] = field(default_factory=dict)
    dates: dict[str, tuple[str, list[float]]] = field(default_factory=dict)


class _Answer(Struct, frozen=True):
    generation: int
    day: int  # trends move with time
    history: str
    report: PatternReport
    hints: Hints


class PatternState:
    def __init__(self, keeper: IndexManager, history: History) -> None:
        self._keeper = keeper
        self._history = history
        runner = OwnPatterns()
        try:
            own = own_detectors(keeper.config.patterns, runner)
        finally:
            runner.close()
        self.matcher = Matcher((*BUILT_IN, *own), runner)
        self._lock = threading.Lock()
        self._answer: _Answer | None = None
        self._with_history: tuple[PatternReport, PatternReport] | None = None
        self._files: Mapping[str, tuple[str, FileUses]] = {}

    def report(self, store: SqliteStore, now: float) -> PatternReport:
        """The report on the index as it is."""
        generation, day, history = int(store.meta()["generation"]), int(now // _DAY), self._history.key()
        with self._lock:
            known = self._answer
            if known is None or (known.generation, known.day, known.history) != (generation, day, history):
                known = self._answer = self._compute(store, generation, day, history, now)
                self._with_history = None
            return known.report

    def report_with_history(self, store: SqliteStore, now: float) -> PatternReport:
        """The same with the months in which lines were written: that dates every file changed of late, not only those
        that decide a trend, so it is made only for those who ask."""
        report = self.report(store, now)
        with self._lock:
            if self._with_history is None or self._with_history[0] is not report:
                made, complete = self._dated(store, report, now)
                if not complete:  # the next look goes on from there
                    return made
                self._with_history = report, made
            return self._with_history[1]

    def hints(self) -> Hints | None:
        """Momentum and warnings by file, as of the last report; None before the first."""
        return self._answer.hints if self._answer is not None else None

    def _compute(self, store: SqliteStore, generation: int, day: int, history: str, now: float) -> _Answer:
        kept = _load(read_beside(store, USES_NAME), self.matcher.fingerprint)
        self._find_uses(store, kept)
        self._files = kept.files
        files = {path: uses for path, (_, uses) in kept.files.items()}
        dating = _Dating(self._history, kept, store, now)
        report = analyse(self.matcher.detectors, files, dating.newest(), now)
        notes = list(dating.notes)
        if self.matcher.gave_up:
            notes.append("the project's own patterns took too long: some of their uses are missing")
        report = replace(report, notes=tuple(notes))
        by_key = {pattern_key(pattern): pattern for pattern in report.patterns}
        hints = {path: file_hint(self.matcher.detectors, uses, by_key) for path, uses in files.items()}
        hints = {path: hint for path, hint in hints.items() if any(hint)}
        write_beside(store, USES_NAME, _dump(kept))
        write_hints(store, hints)
        return _Answer(generation, day, history, report, hints)

    def _dated(self, store: SqliteStore, report: PatternReport, now: float) -> tuple[PatternReport, bool]:
        """The report with the history of each pattern, and whether every file was looked at."""
        kept = _load(read_beside(store, USES_NAME), self.matcher.fingerprint)
        dating = _Dating(self._history, kept, store, now)
        where: dict[str, dict[str, Sequence[int]]] = {}
        for path, (_, file) in self._files.items():
            for position, lines in file.uses.items():
                where.setdefault(pattern_key(self.matcher.detectors[position]), {})[path] = lines
        by_month = dating.by_month(self._files)
        if by_month is None:
            return report, True
        patterns = [replace(one, history=by_month(where[pattern_key(one)])) for one in report.patterns]
        write_beside(store, USES_NAME, _dump(kept))
        notes = tuple(dict.fromkeys((*report.notes, *dating.notes)))
        return replace(report, patterns=tuple(patterns), notes=notes), dating.complete

    def questions(self, paths: Collection[str]) -> set[str]:
        """What the patterns in some files are answers to, as of the last report."""
        detectors = self.matcher.detectors
        used = [file.uses for path, (_, file) in self._files.items() if path in paths]
        return {detectors[position].question for uses in used for position in uses}

    def _find_uses(self, store: SqliteStore, kept: _Kept) -> None:
        listed = {
            path: row for path, row in store.manifest().items() if row.chunk_count and self.matcher.knows(row.language)
        }
        kept.files = {path: entry for path, entry in kept.files.items() if path in listed}
        wanted = {path for path, row in listed.items() if kept.files.get(path, ("",))[0] != row.sha256}
        if not wanted:
            return
        self.matcher.begin()
        try:
            for file, text in file_texts(store, wanted):
                found = self._file_uses(file, text)
                # What was given up is looked at again the next time.
                kept.files[file.path] = ("" if self.matcher.gave_up else listed[file.path].sha256, found)
        finally:
            self.matcher.close()

    def _file_uses(self, file: CodeFile, text: str) -> FileUses:
        uses: dict[int, list[int]] = {}
        for position, line in self.matcher.uses(text, file.language, file.path):
            uses.setdefault(position, []).append(line)
        return FileUses(file.language, text.count("\n") + 1, file.kind == FileKind.TEST, uses)


class _Dating:
    """Dates lines while an analysis asks for them, within a budget."""

    def __init__(self, history: History, kept: _Kept, store: SqliteStore, now: float) -> None:
        self._history, self._kept, self._store, self._now = history, kept, store, now
        self._changed: dict[str, tuple[int, str]] = {}
        self._edited: frozenset[str] = frozenset()
        self._blames = 0
        self.complete = True  # until a file is left out for lack of budget
        self.notes: list[str] = []

    def newest(self) -> Dated:
        """A function from lines to the date of the newest; it answers None where the history cannot tell."""
        if not self._start():
            return lambda uses: None
        bounds = self._bounds()
        return lambda uses: newest_use(uses, bounds, self._dates, self._now, self._kept.dates)

    def by_month(self, paths: Iterable[str]) -> Callable[[Mapping[str, Sequence[int]]], PatternHistory] | None:
        """A function from lines of `paths` to the months they were written in; None where the history cannot tell."""
        if not self._start():
            return None
        bounds = self._bounds()
        listed = sorted((path for path in paths if path in bounds), key=lambda path: (-bounds[path], path))
        dates = {path: self._dates(path) for path in listed}  # the latest first, should the budget not reach all
        return lambda uses: written_by_month(uses, bounds, dates.__getitem__, self._now)

    def _bounds(self) -> dict[str, float]:
        """When each file changed last, for files changed within the window."""
        bounds = {path: float(seconds) for path, (seconds, _) in self._changed.items()}
        return bounds | dict.fromkeys(self._edited, self._now)

    def _start(self) -> bool:
        if not self._history.known:
            why = "the clone is shallow" if self._history.shallow else "this is no git repository"
            self.notes.append(f"{why}: trends are not known")
            return False
        try:
            if self._now - self._history.newest_commit() >= DECLINING_DAYS * _DAY:
                self.notes.append(f"no commit for {DECLINING_DAYS} days: the history shows no trend")
                return False
            self._changed = self._history.last_changes(self._now)
            self._edited = self._history.changed_from("HEAD")
        except (GitFailed, LookupError) as error:
            self.notes.append(f"git: {error}; trends are not known")
            return False
        self._kept.dates = {
            path: entry for path, entry in self._kept.dates.items() if self._changed.get(path, (0, ""))[1] == entry[0]
        }
        return True

    def _dates(self, path: str) -> Sequence[float]:
        if path in self._edited:
            return self._edited_dates(path)
        known = self._kept.dates.get(path)
        if known is None:
            blame = self._blame(path)
            if blame is None:
                return []
            known = self._changed[path][1], [float(line.time) for line in blame]
            self._kept.dates[path] = known
        return known[1]

    def _edited_dates(self, path: str) -> Sequence[float]:
        texts = [text for _, text in file_texts(self._store, {path})]
        lines = texts[0].split("\n") if texts else []
        return carried_over(lines, self._blame(path) or [], self._now)

    def _blame(self, path: str) -> list[BlameLine] | None:
        """The lines of a file as committed, none for a new file; None once the budget is spent."""
        if self._blames == MOST_BLAMES:
            note = f"only {MOST_BLAMES} files were dated this time; the next run goes on from there"
            self.notes += [note] if note not in self.notes else []
            self.complete = False
            return None
        self._blames += 1
        try:
            return self._history.blame(path, since=self._now - WINDOW_DAYS * _DAY)
        except GitFailed:
            return []


def file_texts(store: SqliteStore, wanted: Collection[str]) -> Iterator[tuple[CodeFile, str]]:
    """Some files with their text as it was indexed."""
    with code_facts(store) as facts:
        for file in facts.files():
            if file.path in wanted:
                yield file, facts.lines(file.file_id).joined()


# --- what is kept --------------------------------------------------------------------------------------------------


def _dump(kept: _Kept) -> bytes:
    files = {
        path: [sha256, uses.language, uses.lines, uses.is_test, [[at, *lines] for at, lines in uses.uses.items()]]
        for path, (sha256, uses) in kept.files.items()
    }
    dates = {
        path: [commit, [[len(list(run)), date] for date, run in groupby(dates)]]
        for path, (commit, dates) in kept.dates.items()
    }
    return json.dumps({"fingerprint": kept.fingerprint, "files": files, "dates": dates}).encode()


def _load(data: bytes | None, fingerprint: str) -> _Kept:
    """What was kept, or nothing where other detectors found it or the file is not what it should be."""
    kept = _Kept(fingerprint)
    try:
        content = json.loads(data or b"{}")
        if content.get("fingerprint") != fingerprint:
            return kept
        for path, (sha256, language, lines, is_test, uses) in content["files"].items():
            kept.files[path] = sha256, FileUses(language, lines, is_test, {at: found for at, *found in uses})
        for path, (commit, runs) in content["dates"].items():
            kept.dates[path] = commit, list(chain.from_iterable(repeat(date, count) for count, date in runs))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _Kept(fingerprint)
    return kept
