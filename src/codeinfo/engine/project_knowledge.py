"""The knowledge about one project, stored beside its index: memories from its file and history, patterns and hints."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.index_sources import TeamSource
from codeinfo.errors import UsageError
from codeinfo.index.pool import PatternSandbox
from codeinfo.knowledge.card import companions
from codeinfo.knowledge.detectors import (
    Detector,
    Matcher,
    Use,
    built_in_detectors,
    detector_language,
    project_detectors,
    role_of,
)
from codeinfo.knowledge.history import DECLINING_DAYS, RISING_DAYS, WINDOW_DAYS, BlameLine, History, LineDates
from codeinfo.knowledge.memory import (
    Memory,
    change_memories,
    describe,
    find_related,
    from_log,
    read_foreign,
    read_memories,
)
from codeinfo.knowledge.patterns import (
    Areas,
    FileHints,
    FileUses,
    Hints,
    PatternCache,
    analyse,
    file_hints,
    in_area,
    key_of,
    uses_by_area,
    with_near_examples,
)
from codeinfo.knowledge.project import is_manifest
from codeinfo.languages import file_kind, is_product, kind_of, language_of
from codeinfo.languages.model import get_language
from codeinfo.model import NO_TRENDS, FileKind, ManifestRow, NextStep, Note, RelatedMemory, decode_stored, to_run
from codeinfo.operations.knowledge import PatternReport
from codeinfo.ports import CodeFile
from codeinfo.sources.git import GitFailed
from codeinfo.sources.read import decode
from codeinfo.store.sqlite import SqliteStore, code_facts, read_beside, version_beside, write_beside

GIT_MEMORIES_NAME = "git-memories.json"
PATTERNS_NAME = "patterns.json"
HINTS_NAME = "pattern-hints.json"  # separate, so that a search needs no detectors
MAX_FILE_BYTES = 1_000_000  # of a file read for what it states: a manifest, a style guide, changed code
MOST_FILES = 500  # manifests in a monorepo
MOST_CHARS = 300_000  # of a manifest or configuration; a longer one is data, and each dependency is looked up in it
MOST_COMPARED = 500  # memories compared by meaning: each is a call to the endpoint
LEAST_PART = 0.2  # of the product's files: languages with more should have patterns
MOST_GUIDING = 5  # memories shown with patterns
_GUIDING = ("convention", "decision", "failure", "gotcha")
GAVE_UP = "the project's own patterns took too long: some of their uses are missing"
TRENDS_UNKNOWN = Note(
    NextStep("trends are not known yet: ", to_run("patterns"), " finds them, and searches show them from then on"),
    NO_TRENDS,
)
RETRY_S = 60.0  # until a history that could not be read is read again
_DAY = 86_400


class ProjectKnowledge:
    """The knowledge about one root, each part loaded on first use."""

    def __init__(self, index: IndexManager) -> None:
        self.index = index
        self.root = index.root
        self.history = History(index.root)
        self._git_memories = _GitMemories("", ())
        self._vectors: dict[str, Sequence[float]] = {}
        self._hints: tuple[object, Hints | None] = (None, None)

    @cached_property
    def patterns(self) -> ProjectPatterns:
        return ProjectPatterns(self.index.config.patterns, self.history)

    def hints(self, store: SqliteStore) -> Hints | None:
        """Trends and warnings by file from the last pattern report of any process; None before the first. Dating a
        tree's patterns takes seconds, too long for a search to wait."""
        version = version_beside(store, HINTS_NAME)
        if self._hints[0] != version:
            self._hints = version, decode_stored(read_beside(store, HINTS_NAME), dict[str, FileHints])
        return self._hints[1]

    def hint_notes(self, store: SqliteStore | None) -> tuple[str, ...]:
        unknown = store is not None and self.history.known and self.hints(store) is None
        return (TRENDS_UNKNOWN,) if unknown else ()

    def text(self, path: str) -> str | None:
        """A file's current text; None if it is gone, too large or not text."""
        try:
            with self.index.source.contents.open([path]) as reader:
                text = decode(reader.read(path, MAX_FILE_BYTES))
        except OSError:
            return None
        return text.content if text is not None else None

    def texts(self, paths: Iterable[str]) -> dict[str, str]:
        """Some files by path, shallow ones first; long ones are cut."""
        listed = sorted(paths, key=lambda path: (path.count("/"), path))[:MOST_FILES]
        return {path: text[:MOST_CHARS] for path in listed if (text := self.text(path)) is not None}

    def companions(self, store: SqliteStore, path: str) -> str:
        """What changes together with a file. Versions in manifests change with everything."""
        try:
            commits = self.history.changes_with(path) if self.history.known else []
        except GitFailed:
            return ""  # a change can be made without it
        listed = store.manifest()
        return companions(path, commits, lambda other: other in listed and not is_manifest(other))

    def memories(self, now: float) -> tuple[Memory, ...]:
        """The memories of the file or the team, of codebase-context and of the history, without duplicates."""
        texts: dict[str, Memory] = {}
        for memory in (*self.own_memories(), *read_foreign(self.root)[0], *self._memories_of_git(now)):
            texts.setdefault(memory.memory, memory)
        return tuple(texts.values())

    def own_memories(self) -> tuple[Memory, ...]:
        """From the project's file, or from the team if the project is not checked out."""
        team = self.index.team
        if team is None or not isinstance(self.index.source, TeamSource):
            return read_memories(self.root)
        from codeinfo.team import user_data as memories

        return memories.read_memories(team.database, team.identity)

    def change_memories(self, edit: Callable[[tuple[Memory, ...]], Sequence[Memory]]) -> tuple[Memory, ...]:
        """Returns them as they were."""
        team = self.index.team
        if team is None or not isinstance(self.index.source, TeamSource):
            return change_memories(self.root, edit)
        from codeinfo.team import user_data as memories

        return memories.change_memories(team.database, team.identity, edit)

    def memory_notes(self) -> tuple[str, ...]:
        note = read_foreign(self.root)[1]
        return (note,) if note else ()

    def related_memories(
        self, query: str, paths: Collection[str], symbols: Collection[str], now: float, without: Collection[str] = ()
    ) -> tuple[tuple[RelatedMemory, ...], tuple[str, ...]]:
        """At most three, `without` these ids, and a note if the file cannot be read: a search does without them."""
        try:
            memories = [memory for memory in self.memories(now) if memory.id not in without]
        except UsageError as error:
            return (), (f"memories are left out: {error}",)
        # An endpoint would delay the search.
        meaning = self.meaning(query, memories) if self.index.config.embedding.provider == "builtin" else {}
        related = find_related(query, memories, paths=paths, symbols=symbols, meaning=meaning, now=now)
        return related, self.memory_notes()

    def guiding_memories(self, about: str, now: float) -> tuple[tuple[RelatedMemory, ...], tuple[str, ...]]:
        """Memories to show with patterns: those about the same, then what the team remembered, but no commit's fix."""
        related, notes = self.related_memories(about, (), (), now)
        try:
            memories = self.memories(now)
        except UsageError:
            return related, notes

        def rank(memory: RelatedMemory) -> tuple[bool, int, float, str]:
            return bool(memory.source), _GUIDING.index(memory.type), -memory.confidence, memory.id

        guiding = (memory for memory in memories if memory.source != "git" or memory.type == "decision")
        described = sorted((describe(memory, now) for memory in guiding), key=rank)
        distinct = {memory.id: memory for memory in (*related, *described)}
        return tuple(distinct.values())[:MOST_GUIDING], notes

    def meaning(self, query: str, memories: Sequence[Memory]) -> dict[str, float]:
        """The cosine of each memory with the query, by id, if there is a model."""
        embedder, compared = self.index.embedder, memories[:MOST_COMPARED]
        if embedder is None or not compared:
            return {}
        new = [memory for memory in compared if memory.id not in self._vectors]
        if new:
            rows = embedder.embed_documents([f"{memory.memory} {memory.reason}" for memory in new])
            self._vectors.update(zip((memory.id for memory in new), rows, strict=True))
        vector = embedder.embed_query(query).ravel()
        return {memory.id: float(vector @ self._vectors[memory.id]) for memory in compared}

    def _memories_of_git(self, now: float) -> tuple[Memory, ...]:
        """Starting git takes longer than a whole search, so its output is cached beside the index."""
        if not self.history.known:
            return ()
        key = f"{self.history.key()} {int(now // _DAY)}"
        if self._git_memories.key in (key, f"{key} {int(now // RETRY_S)}"):
            return self._git_memories.memories
        store = self.index.live_store()
        data = read_beside(store, GIT_MEMORIES_NAME) if store is not None else None
        memories = decode_stored(data, _GitMemories)
        if memories is None or memories.key != key:
            try:
                memories = _GitMemories(key, from_log(self.history.memory_log(now), now))
                if store is not None:
                    write_beside(store, GIT_MEMORIES_NAME, msgspec.json.encode(memories))
            except GitFailed:
                memories = _GitMemories(f"{key} {int(now // RETRY_S)}", ())  # not for long: the next read may succeed
        self._git_memories = memories
        return memories.memories


class _GitMemories(Struct, frozen=True):
    key: str
    memories: tuple[Memory, ...]


_Part = tuple[str, str, bool] | None  # the product or the tests of a package in a language family, or everything


class _Latest(Struct):
    report: PatternReport
    files: Mapping[str, FileUses]
    areas: Areas
    hints: Hints
    with_history: PatternReport | None = None


class ProjectPatterns:
    def __init__(self, tables: Sequence[Mapping[str, Any]], history: History) -> None:
        self._history = history
        self._retry_at = math.inf  # seconds: when to read a history again that could not be read
        self._sandbox = PatternSandbox()
        try:
            of_project = project_detectors(tables, self._sandbox)
        finally:
            self._sandbox.close()
        self._matcher = Matcher((*built_in_detectors(), *of_project), self._sandbox)
        self._lock = threading.Lock()
        self._key = (-1, 0, "")  # generation of the index, day (trends move with time), state of the git history
        self._areas: Areas | None = None
        self._latest: dict[_Part, _Latest] = {}

    @property
    def detectors(self) -> Sequence[Detector]:
        return self._matcher.detectors

    def report(self, store: SqliteStore, now: float) -> PatternReport:
        with self._lock:
            return self._refresh(store, now).report

    def around(self, store: SqliteStore, now: float, path: str, language: str) -> tuple[PatternReport, Hints]:
        """What is known about a file's package, in its language family and of its product or its tests: the rest of a
        large project is not read."""
        with self._lock:
            family, is_test = detector_language(language), file_kind(path) is FileKind.TEST
            latest = self._refresh(store, now, lambda areas: (areas.of(path, family), family, is_test))
            return in_area(latest.report, path, language), latest.hints

    def with_near_examples(self, report: PatternReport, path: str) -> PatternReport:
        """A report of `around` with examples near the file."""
        uses = (part.files for part in self._known_parts() if path in part.files)
        return with_near_examples(report, self.detectors, next(uses, {}), path)

    def report_with_history(self, store: SqliteStore, now: float) -> PatternReport:
        """The report with the months in which lines were written: that dates every recently changed file, not only
        those that decide a trend, so it is computed only on request."""
        with self._lock:
            latest = self._refresh(store, now)
            if latest.with_history is not None:
                return latest.with_history
            report, complete = self._add_history(store, latest, now)
            if complete:  # otherwise the next call continues from there
                latest.with_history = report
            return report

    def used_in(self, paths: Iterable[str]) -> set[tuple[str, str, str]]:
        """Language, question and name of the patterns used in some files, from the last report."""
        parts = [part.files for part in self._known_parts()]
        used = [files[path] for path in paths for files in parts if path in files]
        return {key_of(self.detectors[position]) for file in used for position in file.uses}

    def _known_parts(self) -> list[_Latest]:
        with self._lock:
            return list(self._latest.values())

    def uses_in(self, texts: Mapping[str, str]) -> dict[str, list[Use]]:
        """The uses in some files, by their current text."""
        uses = {}
        for path, text in texts.items():
            language = language_of(path)
            if language is not None and self._matcher.knows(language.name):
                role = role_of(path, language.name, kind_of(path, language))
                uses[path] = self._matcher.uses(text, language.name, path, role)
        self._sandbox.close()
        return uses

    def _refresh(self, store: SqliteStore, now: float, part_of: Callable[[Areas], _Part] = lambda _: None) -> _Latest:
        key = int(store.meta()["generation"]), int(now // _DAY), self._history.key()
        if self._areas is None or self._key != key or now >= self._retry_at:
            self._key, self._latest, self._retry_at, self._areas = key, {}, math.inf, _read_areas(store)
        part = None if None in self._latest else part_of(self._areas)
        if part not in self._latest:
            self._latest[part] = self._compute(store, now, self._areas, part)
        return self._latest[part]

    def _compute(self, store: SqliteStore, now: float, areas: Areas, part: _Part) -> _Latest:
        data = read_beside(store, PATTERNS_NAME)
        cache = PatternCache.load(data, self._matcher.fingerprint)
        listed = self._list_files(store, areas, part)
        self._find_uses(store, cache, listed)
        files = {path: uses for path, (_, uses) in cache.files.items() if path in listed}
        dates, notes = self._line_dates(store, cache, now)
        report = analyse(self.detectors, files, areas, dates)
        notes += dates.notes if dates else ()
        hints = file_hints(self.detectors, files, areas, report.patterns)
        if part is None:
            if unknown := self._languages_without_patterns(store):
                notes.append(f"no patterns are built in for {', '.join(unknown)}: .codeinfo.toml may define some")
            write_beside(store, HINTS_NAME, msgspec.json.encode(hints))
        if self._sandbox.gave_up:
            notes.append(GAVE_UP)
        if (encoded := msgspec.json.encode(cache)) != data:
            write_beside(store, PATTERNS_NAME, encoded)
        return _Latest(replace(report, notes=tuple(notes)), files, areas, hints)

    def _list_files(self, store: SqliteStore, areas: Areas, part: _Part) -> dict[str, ManifestRow]:
        """The files of a part whose patterns are known."""

        def is_in_part(path: str, row: ManifestRow) -> bool:
            family, is_test = detector_language(row.language), row.kind is FileKind.TEST
            return part is None or (part[1:] == (family, is_test) and areas.of(path, family) == part[0])

        rows = ((path, row) for path, row in store.manifest().items() if row.chunk_count)
        return {path: row for path, row in rows if is_in_part(path, row) and self._matcher.knows(row.language)}

    def _languages_without_patterns(self, store: SqliteStore) -> list[str]:
        """Languages with a large share of the product for which no detector reports anything."""
        rows = ((path, row) for path, row in store.manifest().items() if row.language)  # those left out have none
        product = Counter(row.language for path, row in rows if is_product(path, row.kind))
        largest = [language for language, _ in product.most_common(1)]  # with or without a syntax tree
        parsed = {language: count for language, count in product.items() if get_language(language).syntax is not None}
        least = LEAST_PART * sum(parsed.values())
        unknown = {language for language, count in parsed.items() if count >= least}.union(largest)
        return sorted(language for language in unknown if not self._matcher.knows(language))

    def _add_history(self, store: SqliteStore, latest: _Latest, now: float) -> tuple[PatternReport, bool]:
        """The report with each pattern's history, and whether every file was examined."""
        cache = PatternCache.load(read_beside(store, PATTERNS_NAME), self._matcher.fingerprint)
        dates, _ = self._line_dates(store, cache, now)
        if dates is None:
            return latest.report, True
        dates.date_all(latest.files)
        where = uses_by_area(self.detectors, latest.files, latest.areas)
        patterns = tuple(
            replace(pattern, history=dates.by_month(where[pattern.area, *key_of(pattern)]))
            for pattern in latest.report.patterns
        )
        write_beside(store, PATTERNS_NAME, msgspec.json.encode(cache))
        notes = tuple(dict.fromkeys((*latest.report.notes, *dates.notes)))
        return replace(latest.report, patterns=patterns, notes=notes), dates.complete

    def _find_uses(self, store: SqliteStore, cache: PatternCache, listed: Mapping[str, ManifestRow]) -> None:
        present = store.manifest()
        cache.files = {path: entry for path, entry in cache.files.items() if path in present}
        changed = {path for path, row in listed.items() if cache.files.get(path, ("",))[0] != row.sha256}
        if not changed:
            return
        self._sandbox.begin()
        try:
            for file, text in _file_texts(store, changed):
                uses: dict[int, list[int]] = {}
                role = role_of(file.path, file.language, FileKind(file.kind))
                for position, line in self._matcher.uses(text, file.language, file.path, role):
                    uses.setdefault(position, []).append(line)
                packages = self._matcher.packages(text, file.language) if role else []
                file_uses = FileUses(file.language, text.count("\n") + 1, role, uses, packages)
                # What the sandbox gave up on is tried again next time.
                cache.files[file.path] = ("" if self._sandbox.gave_up else listed[file.path].sha256, file_uses)
        finally:
            self._sandbox.close()

    def _line_dates(self, store: SqliteStore, cache: PatternCache, now: float) -> tuple[LineDates | None, list[str]]:
        """Dates lines, or None and why the history cannot."""
        history = self._history
        if not history.known:
            why = "the clone is shallow" if history.shallow else "this is not a git repository"
            return None, [f"{why}: trends are not known"]
        try:
            last_commit = min(now, history.newest_commit())
            if now - last_commit >= DECLINING_DAYS * _DAY:
                return None, [f"no commit for {DECLINING_DAYS} days: the history shows no trend"]
            is_young = not history.has_commit_before(last_commit - RISING_DAYS * _DAY)
            changed, edited = history.last_changes(last_commit), history.changed_from("HEAD")
        except (GitFailed, LookupError) as error:
            self._retry_at = now + RETRY_S
            return None, [f"{error}: trends are not known"]

        def blame(path: str) -> list[BlameLine]:
            try:
                return history.blame(path, since=last_commit - WINDOW_DAYS * _DAY)
            except GitFailed:
                return []  # a new file

        def text_of(path: str) -> str:
            return next((text for _, text in _file_texts(store, {path})), "")

        cache.dates = {p: d for p, d in cache.dates.items() if p in changed and changed[p].commit == d.commit}
        return LineDates(changed, edited, cache.dates, blame, text_of, now, last_commit, is_young=is_young), []


def _read_areas(store: SqliteStore) -> Areas:
    return Areas({file.path: text for file, text in _file_texts(store, set(filter(is_manifest, store.manifest())))})


def _file_texts(store: SqliteStore, paths: Collection[str]) -> Iterator[tuple[CodeFile, str]]:
    """Some files with their indexed text."""
    with code_facts(store) as facts:
        for file in facts.files():
            if file.path in paths:
                yield file, facts.lines(file.file_id).whole_text()
