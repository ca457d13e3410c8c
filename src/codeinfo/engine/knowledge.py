"""Team knowledge as operations: memories, patterns, metadata, style, the card before a change and its review."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from codeinfo.engine.code import CodeOperations
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.indexes import Indexes
from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.files import read_regular
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import relations
from codeinfo.graph.names import NameResolver
from codeinfo.graph.reach import is_registered
from codeinfo.graph.references import Lookup, callees, find_uses, look_up_defined, symbol_info, usages
from codeinfo.graph.uses import all_references, unpack
from codeinfo.index.line import find_edited
from codeinfo.index.pool import ParseTask
from codeinfo.knowledge import change as diff
from codeinfo.knowledge.card import TARGETS, Evidence, add_context, decide, files_of_area
from codeinfo.knowledge.detectors import detector_language
from codeinfo.knowledge.history import History
from codeinfo.knowledge.memory import (
    Memory,
    describe,
    find_by_id,
    from_record,
    iso_of,
    make_memory,
    parse_memories,
    search,
    to_record,
)
from codeinfo.knowledge.patterns import in_area, narrow
from codeinfo.knowledge.project import dependencies, describe_project, is_manifest, is_style_file, style_report
from codeinfo.languages import is_product, kind_of, language_named, language_of
from codeinfo.languages.model import is_inline_test, may_have_inline_tests
from codeinfo.model import Card, Definition, FileKind, Hit, Import, NextStep, RelatedMemory, SearchResult, to_run
from codeinfo.operations import knowledge as operations
from codeinfo.operations.base import ProgressSink
from codeinfo.operations.code import DefsRequest, Exploration, ExploreRequest, RefsRequest, SymbolInfo, Usage
from codeinfo.operations.knowledge import ChangedFile, ChangedSymbol, Finding, Reviewer, ReviewPacket, ReviewRequest
from codeinfo.operations.search import SearchRequest
from codeinfo.sources.git import GitFailed, commit_of
from codeinfo.sources.masking import mask
from codeinfo.sources.read import FolderFiles
from codeinfo.store.sqlite import SqliteStore, code_facts
from codeinfo.tokens import split_identifier

# --- one symbol or file with its surroundings ----------------------------------------------------------------------

MOST_USES = 200  # resolved uses that are read: their lines tell which definition contains them
CODE_LINES, CODE_CHARS = 30, 1_500  # of a definition, shown
_PLACE = re.compile(r"(.+?):(\d{1,9})(?:-\d{1,9})?")
_MEMORY_CHARS = 200  # of a definition's text, compared with memories


def explore_target(project: ProjectKnowledge, names: NameResolver, request: ExploreRequest, now: float) -> Exploration:
    wanted, index = _resolve_target(names.index, request.target), names.index
    if wanted in index.graph.files:
        found = _explore_file(project, index, wanted, request)
    else:
        found = _explore_symbol(project, names, wanted, request)
    path = found.place.partition(":")[0]
    about = f"{request.target} {found.code[:_MEMORY_CHARS]}"
    memories, notes = project.related_memories(about, {path}, {one.name for one in found.definitions}, now)
    cut = {name: len(getattr(found, name)) for name in ("definitions", "callers", "callees", "tests")}
    return replace(
        found,
        memories=memories,
        notes=(*found.notes, *notes),
        totals={name: count for name, count in cut.items() if count > request.limit},
        **{name: getattr(found, name)[: request.limit] for name in cut},
    )


def _resolve_target(index: CodeIndex, target: str) -> str:
    """A path in the index, or the name to look up: a line number stands for the innermost definition around it."""
    written = target.strip().removeprefix("./").removeprefix(f"{index.root}/")
    if path := _find_path(index, written):
        return path
    place = _PLACE.fullmatch(written)
    path = _find_path(index, place[1]) if place else ""
    if not path or place is None:
        return written
    line = int(place[2])
    around = [
        definition
        for definition in index.facts.definitions(index.graph.files[path].file_id)
        if definition.start_line <= line <= definition.end_line
    ]
    inner = min(around, key=lambda one: one.end_line - one.start_line, default=None)
    if inner is None and line > (last := max(index.facts.lines(index.graph.files[path].file_id), default=0)):
        raise NotFound(f"{path} has no code at line {line}", next_step=f"Its last line with code is {last}")
    return f"{path}::{inner.qualified}" if inner else path


def _find_path(index: CodeIndex, written: str) -> str:
    """The file whose path ends in this text, "" if the text is not a path."""
    if written in index.graph.files:
        return written
    ending = [path for path in index.graph.files if path.endswith(f"/{written}")] if "." in written else []
    if len(ending) > 1:
        raise UsageError(f"{len(ending)} files end in {written}", next_step=f"One of: {', '.join(sorted(ending)[:5])}")
    return ending[0] if ending else ""


def _explore_file(project: ProjectKnowledge, index: CodeIndex, path: str, request: ExploreRequest) -> Exploration:
    own = relations(index.graph, path)
    defined = (symbol_info(path, one) for one in index.facts.definitions(index.graph.files[path].file_id))
    return Exploration(
        request.target,
        "file",
        path,
        tuple(sorted(defined, key=lambda one: (one.qualified.count("."), one.start_line))),
        callers=tuple(f"{user}:{line}" for user, line in own.used_by),
        callees=tuple(dict.fromkeys(target for target, _ in own.imports)),
        tests=own.tests,
        history=_commits(project.history, path),
    )


def _explore_symbol(
    project: ProjectKnowledge, names: NameResolver, wanted: str, request: ExploreRequest
) -> Exploration:
    index = names.index
    lookup = look_up_defined(names, wanted)
    listed = sorted(lookup.listed(), key=lambda one: one.path in index.graph.tests)
    first = listed[0]
    symbol = next(one for one in lookup.found if one.path == first.path and str(one) == first.id)
    uses = _uses(names, lookup)
    in_tests = {use: _is_in_tests(index, use) for use in uses}
    tests = tuple(_describe_use(use) for use in uses if in_tests[use])
    lines = (first.start_line, first.end_line)
    text = (project.text(first.path) or "").split("\n")[first.start_line - 1 : first.end_line]
    several = len({one.id for one in listed})
    notes = [] if several == 1 else [f"{several} definitions; `path::Name` asks for one of them"]
    return Exploration(
        request.target,
        "symbol",
        f"{first.path}:{lines[0]}-{lines[1]}",
        tuple(listed),
        code="\n".join(text[:CODE_LINES])[:CODE_CHARS],
        callers=tuple(_describe_use(use) for use in uses if not in_tests[use]),
        callees=tuple(
            dict.fromkeys(
                edge.target for one, body in lookup.bodies if one == symbol for edge in callees(names, one, body)
            )
        ),
        tests=tests or relations(index.graph, first.path).tests,
        history=_commits(project.history, first.path, lines),
        notes=tuple(notes),
    )


def _uses(names: NameResolver, lookup: Lookup) -> list[Usage]:
    """One use per definition that contains uses, those in central files first; imports are left out."""
    found = find_uses(names, lookup).uses
    read = usages(names.index, lookup, sorted(found, key=lambda use: use.reference.role != "call")[:MOST_USES])
    own = {info.id for info in lookup.listed()}
    meant = [use for use in read if use.edge not in ("IMPORTS", "EXPORTS") and f"{use.file}::{use.within}" not in own]
    first = {(use.file, use.within or use.line): use for use in reversed(meant)}.values()
    central = names.index.graph.centrality
    return sorted(first, key=lambda use: (-central.get(use.file, 0.0), use.file, use.line))


def _is_in_tests(index: CodeIndex, use: Usage) -> bool:
    return use.file in index.graph.tests or is_inline_test(index.graph.files[use.file].language, use.within)


def _describe_use(use: Usage) -> str:
    return f"{use.file}:{use.line} {use.within}".rstrip()


def _commits(history: History, path: str, lines: tuple[int, int] | None = None) -> tuple[str, ...]:
    if not history.known:
        return ()
    try:
        return history.touching(path, lines)
    except GitFailed:
        return ()  # no commits yet


MAX_IMPORT_BYTES = 10_000_000


class KnowledgeOperations:
    """`Engine.knowledge`: one method per operation. `clock` gives seconds since the epoch."""

    def __init__(self, indexes: Indexes, code: CodeOperations) -> None:
        self._indexes, self._code = indexes, code
        self.clock = time.time
        self._lock = threading.Lock()
        self._projects: dict[Path, ProjectKnowledge] = {}

    def _project(self, path: str | Path) -> ProjectKnowledge:
        index = self._indexes.find(path).index
        with self._lock:
            known = self._projects.get(index.root)
            if known is None or known.index is not index:
                known = self._projects[index.root] = ProjectKnowledge(index)
            return known

    def _refresh(self, index: IndexManager, progress: ProgressSink) -> SqliteStore:
        """Its store, refreshed if possible."""
        return self._indexes.open(index, progress=progress)[0]

    # --- memory ---

    def remember(self, request: operations.RememberRequest) -> operations.Remembered:
        now = self.clock()
        memory = make_memory(
            request.type,
            request.category,
            request.memory,
            request.reason,
            iso_of(now),
            scope=request.scope,
            author=request.author,
        )
        known = False

        def add(before: tuple[Memory, ...]) -> list[Memory]:
            nonlocal known
            others = [one for one in before if one.id != memory.id]
            known = len(others) < len(before)
            return [*others, memory]

        self._project(request.path).change_memories(add)
        return operations.Remembered(describe(memory, now), known)

    def memory_list(self, request: operations.MemoryListRequest) -> operations.MemoryList:
        project, now = self._project(request.path), self.clock()
        memories = [
            memory
            for memory in project.memories(now)
            if request.type in ("", memory.type) and request.category in ("", memory.category)
        ]
        if request.query:
            memories = search(request.query, memories, project.meaning(request.query, memories))
        else:
            memories.sort(key=lambda memory: (memory.date, memory.id), reverse=True)
        shown = tuple(describe(memory, now) for memory in memories[: request.limit])
        return operations.MemoryList(shown, len(memories), project.memory_notes())

    def memory_show(self, request: operations.MemoryRequest) -> RelatedMemory:
        now = self.clock()
        return describe(find_by_id(self._project(request.path).memories(now), request.id), now)

    def memory_remove(self, request: operations.MemoryRequest) -> operations.MemoryRemoved:
        project, now = self._project(request.path), self.clock()
        memory = find_by_id(project.memories(now), request.id)
        if memory.source == "git":
            raise UsageError(
                f"{memory.id} is a commit's message",
                next_step="It goes when the commit is 90 days old; nothing to remove",
            )
        if memory.source:
            raise UsageError(f"{memory.id} is in {memory.source}", next_step="Remove it there")
        project.change_memories(lambda before: [one for one in before if one != memory])
        return operations.MemoryRemoved(describe(memory, now))

    def memory_export(self, request: operations.MemoryExportRequest) -> operations.MemoryExport:
        records = (to_record(memory) for memory in self._project(request.path).own_memories())
        return operations.MemoryExport(1, tuple(records))

    def memory_import(self, request: operations.MemoryImportRequest) -> operations.MemoryImported:
        file = Path(request.file)
        try:
            data = read_regular(str(file.parent), file.name, MAX_IMPORT_BYTES)
        except OSError as error:
            raise NotFound(f"{file} cannot be read: {error.strerror}", next_step="Give a file of memories") from error
        given = parse_memories(data.decode("utf-8-sig", "replace"), str(file))
        own = [from_record(to_record(memory)) for memory in given if memory.source != "git"]
        added = 0

        def merge(before: tuple[Memory, ...]) -> list[Memory]:
            nonlocal added
            ids = {memory.id for memory in before}
            new = [memory for memory in own if memory.id not in ids]
            added = len({memory.id for memory in new})
            return [*before, *new]

        self._project(request.path).change_memories(merge)
        return operations.MemoryImported(added, len(own) - added, len(given) - len(own))

    # --- patterns, metadata, style, review ---

    def patterns(self, request: operations.PatternsRequest, progress: ProgressSink = None) -> operations.PatternReport:
        project, now = self._project(request.path), self.clock()
        patterns, store = project.patterns, self._refresh(project.index, progress)
        report = patterns.report_with_history(store, now) if request.history else patterns.report(store, now)
        families = [detector_language(language_named(language)) for language in request.languages]
        report = narrow(report, category=request.category, languages=families)
        about = " ".join((request.category, *(pattern.name for pattern in report.patterns[:20])))
        memories, notes = project.guiding_memories(about, now)
        return replace(report, memories=memories, notes=(*report.notes, *notes))

    def metadata(self, request: operations.MetadataRequest, progress: ProgressSink = None) -> operations.MetadataReport:
        project = self._project(request.path)
        store = self._refresh(project.index, progress)
        rows = store.manifest()
        texts = project.texts(path for path in rows if is_manifest(path) or path == "Makefile")
        tests = sum(row.kind is FileKind.TEST for row in rows.values())
        return describe_project(project.root, texts, _sizes(store), tests, _collect_imports(store))

    def style(self, request: operations.StyleRequest, progress: ProgressSink = None) -> operations.StyleReport:
        project = self._project(request.path)
        store = self._refresh(project.index, progress)
        return style_report(project.texts(filter(is_style_file, store.manifest())), request.query)

    def review(self, request: operations.ReviewRequest, progress: ProgressSink = None) -> operations.ReviewPacket:
        project = self._project(request.path)
        return review_change(project, self._refresh(project.index, progress), self._code, request, self.clock())

    def explore(self, request: ExploreRequest, progress: ProgressSink = None) -> Exploration:
        project = self._project(request.path)
        store = self._refresh(project.index, progress)
        with self._code.open(project.index, store) as names:
            return explore_target(project, names, request, self.clock())

    # --- around a search ---

    def around(self, request: SearchRequest, result: SearchResult) -> SearchResult:
        """The result with the context of its hits, related memories and, for a change, the card."""
        now = self.clock()
        roots = list(dict.fromkeys(hit.root for hit in result.hits)) or [
            str(self._indexes.find(next(iter(request.paths), "")).index.root)
        ]
        hits: dict[tuple[str, str, int], Hit] = {}
        memories: list[RelatedMemory] = []
        notes: list[str] = []
        for root in roots:
            project = self._project(root)
            own = [hit for hit in result.hits if hit.root == root]
            store = project.index.live_store()
            hits |= {_key(hit): hit for hit in self._with_context(project, store, own)}
            paths, symbols = {hit.path for hit in own}, {hit.symbol for hit in own if hit.symbol}
            related, memory_notes = project.related_memories(request.query, paths, symbols, now)
            memories += related
            notes += memory_notes if request.purpose else (*memory_notes, *project.hint_notes(store))
        result = replace(
            result,
            hits=tuple(hits[_key(hit)] for hit in result.hits),
            memories=tuple(memories[:3]),
            notes=(*result.notes, *notes),
        )
        return replace(result, preflight=self._card(request, result, roots[0], now)) if request.purpose else result

    def _with_context(self, project: ProjectKnowledge, store: SqliteStore | None, hits: Sequence[Hit]) -> Sequence[Hit]:
        if store is None or not hits:
            return hits
        files, callers = self._code.around(project.index, store, hits)
        return add_context(hits, files, project.hints(store) or {}, callers)

    def _card(self, request: SearchRequest, result: SearchResult, root: str, now: float) -> Card | None:
        project = self._project(root)
        store = project.index.live_store()
        if store is None:
            return None
        own = [hit for hit in result.hits if hit.root == root]
        code = [hit for hit in own if hit.kind is FileKind.CODE]
        report = project.patterns.report(store, now)
        report = in_area(report, code[0].path, code[0].language) if code else report
        files = [path for path, row in store.manifest().items() if is_product(path, row.kind)]
        area = files_of_area(code[0].path, files) if code else ()
        return decide(
            Evidence(
                query=request.query,
                purpose=request.purpose,
                hits=own,
                quality=result.quality,
                patterns=report,
                used=project.patterns.used_in(area),
                memories=result.memories,
                callers=self._code.callers(project.index, {(h.path, h.symbol) for h in code[:TARGETS] if h.symbol}),
                files=files,
                near=project.patterns.used_in(hit.path for hit in code[:TARGETS]),
                has_vectors=project.index.config.embedding.provider == "builtin",
                changed_since_index=_count_changed(project.index, store),
            )
        )


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.root, hit.path, hit.chunk_id


def _count_changed(index: IndexManager, store: SqliteStore) -> int:
    """The files that differ from the index. A different time is only a hint: the content decides."""
    _, changes = index.pending()
    if not changes:
        return 0
    return (
        len(changes.added) + len(changes.removed) + len(find_edited(FolderFiles(index.root), store, changes.suspects))
    )


def _collect_imports(store: SqliteStore) -> dict[str, str]:
    """The modules imported by product code, each with the first place that imports it; its own modules are left out."""
    with code_facts(store) as facts:
        files = {file.file_id: file.path for file in facts.files() if is_product(file.path, FileKind(file.kind))}
        own = {path.rpartition("/")[2] for path in files.values()}
        found: dict[str, str] = {}
        for file_id, written in facts.imports(list(files)):
            if written.module.rpartition("/")[2] not in own:
                found.setdefault(written.module, f"{files[file_id]}:{written.line}")
        return found


def _sizes(store: SqliteStore) -> dict[str, operations.LanguageSize]:
    """Files, lines and bytes by language."""
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    rows = store.manifest()
    with store.snapshot() as view:
        for file, path in enumerate(view.paths):
            size = sizes[view.languages[file] or "text"]
            size[0] += 1
            size[2] += rows[path].size if path in rows else 0
            if view.file_rows[file]:
                last = int(view.file_first[file] + view.file_rows[file]) - 1
                size[1] += view.chunks([last])[0].end_line
    return {language: operations.LanguageSize(*size) for language, size in sizes.items()}


# --- reviewing a change -----------------------------------------------------------------------------------------------


MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
MOST_FILES = 200  # compared line by line; larger changes are reviewed in part
MOST_BLAMED = 40
MOST_REVIEWERS = 5  # further ones wrote only a line or two
MOST_SYMBOLS = 40  # symbols whose callers are looked up
CALLERS_SHOWN = 5
MOST_DROPPED = 20  # names whose other calls are looked up
MOST_RISKY = 30  # files whose history is read
RISK_DAYS = 180


def review_change(
    project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, request: ReviewRequest, now: float
) -> ReviewPacket:
    base = _base(project.history, request.base)
    revisions, notes = _revisions(project, store, base)
    changes = [revision.change for revision in revisions]
    uses = _Uses(project, code)
    symbols = _symbols(revisions, uses)
    names = {symbol.name for symbol in symbols}
    memories, memory_notes = project.related_memories(
        " ".join(sorted(names)), {change.path for change in changes}, names, now
    )
    has_tests = _has_tests(store)
    code_changes = [revision.change for revision in revisions if revision.kind in (FileKind.CODE, FileKind.TEST)]
    lists: dict[str, Sequence[Any]] = {
        "files": [ChangedFile(one.path, one.state, len(one.added), len(one.removed)) for one in changes],
        "symbols": symbols,
        "missing_tests": _without_tests(project, code, revisions) if has_tests else (),
        "patterns": _patterns(project, store, changes, now),
        "reviewers": _reviewers(project.history, base, code_changes) or _reviewers(project.history, base, changes),
        "findings": [
            one
            for one in _findings(project, store, code, revisions, uses, base, now)
            if has_tests or one.kind != "untested"
        ],
    }
    if not has_tests and code_changes:
        notes.append("the project has no tests, so none is missed")
    return ReviewPacket(
        base=base,
        memories=memories,
        totals={name: len(found) for name, found in lists.items()},
        notes=(*notes, *memory_notes),
        **{name: tuple(found[: request.limit]) for name, found in lists.items()},
    )


def _has_tests(store: SqliteStore) -> bool:
    """Whether the project has test files, or a language in which tests may stand beside the code."""
    return any(row.kind == FileKind.TEST or may_have_inline_tests(row.language) for row in store.manifest().values())


def _base(history: History, wanted: str) -> str:
    if not history.known:
        raise UsageError(
            "there is no history to compare with",
            next_step="A review needs a git repository with its history; `git fetch --unshallow` fetches it",
        )
    first, dots, last = wanted.partition("..")
    if dots:
        raise UsageError(
            f"{wanted!r} is a range; a review compares the current files with one revision",
            next_step=NextStep(
                f"Check {last.strip('.') or 'its end'} out and run ", to_run("review", first or "REVISION")
            ),
        )
    if wanted:
        return commit_of(history.root, wanted)
    head, point = commit_of(history.root, "HEAD"), history.branch_point(MAIN_BRANCHES)
    return point if point and point != head else head


def _revisions(project: ProjectKnowledge, store: SqliteStore, base: str) -> tuple[list[diff.Revision], list[str]]:
    """Every changed file known to the index, with its definitions, imports and calls on both sides."""
    listed = store.manifest().keys() - {skip.path for skip in store.counts().skipped}
    changed = sorted(project.history.changed_from(base))
    texts: dict[str, tuple[str, str]] = {}
    changes: list[diff.Difference] = []
    for path in changed[:MOST_FILES]:
        before, after = project.history.committed_text(base, path), project.text(path)
        if path not in listed and after is not None:
            continue  # files left out of the index are not reviewed either
        after = mask(after)[0] if after is not None else None  # like the committed text
        one = diff.compare(path, before, after)
        if one.added or one.removed:
            changes.append(one)
            texts[path] = before or "", after or ""
    old, unread = _parse_versions(project, {path: before for path, (before, _) in texts.items() if before})
    revisions = []
    for change in changes:
        path, known = change.path, store.symbols(change.path)
        kind = kind_of(path, language_of(path))
        was, now = old.get(path, diff.Version(texts[path][0])), diff.Version(texts[path][1])
        if known is not None and change.state != "removed":
            now = _version(now.text, known.definitions, known.imports, known.references)
        if path in unread:  # then nothing counts as new or gone
            was = replace(now, text=was.text)
        revisions.append(diff.Revision(change, was, now, kind, is_product(path, kind)))
    notes = [f"the old {path} could not be parsed: what it defined before is unknown" for path in sorted(unread)]
    if len(changed) > MOST_FILES:
        notes.append(f"{len(changed)} files changed; the first {MOST_FILES} are compared")
    return revisions, notes


def _parse_versions(project: ProjectKnowledge, texts: dict[str, str]) -> tuple[dict[str, diff.Version], set[str]]:
    """Parse old versions of files, which no index has, and return those for which the parser produced only text: it may
    be busy or gone."""
    tasks = [
        ParseTask(path, text, language.name)
        for path, text in texts.items()
        if (language := language_of(path)) is not None
    ]
    with project.index.parsers() as pool:
        done = list(pool.run(tasks))
    found = {
        one.path: _version(texts[one.path], one.parsed.definitions, one.parsed.imports, one.references) for one in done
    }
    return found, {one.path for one in done if any("indexed as text" in note for note in one.parsed.notes)}


def _version(
    text: str, definitions: Sequence[Definition], imports: Sequence[Import], references: bytes
) -> diff.Version:
    return diff.Version(text, tuple(definitions), tuple(imports), tuple(all_references(unpack(references)[0])))


class _Uses:
    """Where definitions are used, each looked up once."""

    def __init__(self, project: ProjectKnowledge, code: CodeOperations) -> None:
        self._root, self._code = str(project.root), code
        self._known: dict[str, tuple[Usage, ...]] = {}

    def of(self, name: str) -> tuple[Usage, ...]:
        """None for a name that nothing can refer to, such as a block of a configuration."""
        if name not in self._known:
            request = RefsRequest(name=name, path=self._root, limit=200, refresh=False)
            try:
                self._known[name] = self._code.references(request).usages
            except CodeInfoError:
                self._known[name] = ()
        return self._known[name]

    def definitions(self, name: str) -> tuple[SymbolInfo, ...]:
        request = DefsRequest(name=name, path=self._root, limit=CALLERS_SHOWN, refresh=False)
        try:
            return self._code.definitions(request).definitions
        except CodeInfoError:
            return ()  # defined elsewhere

    def in_tests(self, path: str, qualified: str) -> bool:
        return any(_is_test(use.file) for use in self.of(f"{path}::{qualified}"))

    def outside(self, path: str, qualified: str, inside: Collection[str]) -> list[Usage]:
        """What is known by its name only counts if the name has several words and is called as a function:
        `session.delete`, or a field called `content_type`, may mean anything."""
        defined = self.definitions(f"{path}::{qualified}")
        is_telling = len(split_identifier(qualified.rpartition(".")[2])) > 1 and any(
            one.kind in ("function", "method") for one in defined
        )
        used = (use for use in self.of(f"{path}::{qualified}") if use.file not in inside)
        return [use for use in used if use.confidence != "syntactic" or (is_telling and use.edge == "CALLS")]


def _is_test(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.TEST


def _symbols(revisions: Sequence[diff.Revision], uses: _Uses) -> list[ChangedSymbol]:
    inside = {revision.path for revision in revisions}
    found: list[ChangedSymbol] = []
    for revision in revisions:
        if revision.kind is not FileKind.CODE:
            continue
        for symbol in diff.find_changed_symbols(revision.code, revision.after.definitions):
            outside = uses.outside(revision.path, symbol.name, inside) if len(found) < MOST_SYMBOLS else ()
            places = dict.fromkeys(f"{use.file}:{use.line}" for use in outside)
            found.append(replace(symbol, callers=tuple(places)[:CALLERS_SHOWN]))
    return sorted(found, key=lambda symbol: (-len(symbol.callers), -symbol.lines, symbol.place))


# --- findings ------------------------------------------------------------------------------------------------------


def _findings(
    project: ProjectKnowledge,
    store: SqliteStore,
    code: CodeOperations,
    revisions: Sequence[diff.Revision],
    uses: _Uses,
    base: str,
    now: float,
) -> list[Finding]:
    inside = {revision.path for revision in revisions}
    try:
        memories = [memory for memory in project.memories(now) if memory.type != "gotcha" or memory.source != "git"]
    except UsageError:
        memories = []  # a note reports this already
    return diff.most_severe_first(
        [
            *diff.contradictions(revisions, memories),
            *_api(revisions, uses, inside),
            *diff.find_changed_expectations(revisions),
            *_dependencies(project, store, code, revisions),
            *diff.find_untested(revisions, uses.in_tests),
            *_find_unused(project, store, code, revisions, uses),
            *_find_widely_used(revisions, uses, inside),
            *_risks(project.history, revisions, base),
        ]
    )


def _api(revisions: Sequence[diff.Revision], uses: _Uses, inside: Collection[str]) -> list[Finding]:
    """Changes to what others can name, with their users in this project."""
    found = []
    for finding, qualified in diff.api_changes(revisions):
        if not qualified:
            found.append(finding)
            continue
        path, name = finding.place.rpartition(":")[0], qualified.rpartition(".")[2]
        used = uses.outside(path, qualified, inside)
        if not uses.definitions(f"{path}::{qualified}"):  # removed: by name alone, if nothing else has that name
            used = [] if uses.definitions(name) else [use for use in uses.of(name) if use.file not in inside]
        callers = dict.fromkeys(use.file for use in used)
        also = f"; used outside the change in {_join_paths(callers)}" if callers else ""
        found.append(replace(finding, message=finding.message + also))
    return found


def _join_paths(paths: Collection[str]) -> str:
    shown = ", ".join(list(paths)[:CALLERS_SHOWN])
    return shown if len(paths) <= CALLERS_SHOWN else f"{shown} and {len(paths) - CALLERS_SHOWN} more files"


def _dependencies(
    project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, revisions: Sequence[diff.Revision]
) -> list[Finding]:
    manifests = project.texts(path for path in store.manifest() if is_manifest(path))
    edited = [one for one in revisions if is_manifest(one.path)]
    before, after = (
        dependencies({path: text for path, text in {**manifests, **own}.items() if text})[0]
        for own in ({one.path: one.before.text for one in edited}, {one.path: one.after.text for one in edited})
    )
    changed = {revision.path: revision for revision in revisions if revision.is_product}
    elsewhere = {diff.package_of(written.module) for one in changed.values() for written in one.before.imports}
    imported: list[tuple[str, str]] = []
    with code.open(project.index, store) as names:
        for path, links in names.index.graph.links.items():
            outside = [loose for loose in links.loose if loose.external]
            if path in changed:
                added = changed[path].change.added
                imported += [(one.module, f"{path}:{one.line}") for one in outside if one.line in added]
            else:
                elsewhere.update(diff.package_of(one.module) for one in outside)
    return diff.new_dependencies(before, after, imported, elsewhere)


def _find_unused(
    project: ProjectKnowledge,
    store: SqliteStore,
    code: CodeOperations,
    revisions: Sequence[diff.Revision],
    uses: _Uses,
) -> list[Finding]:
    """Exported functions whose last caller the change removed: dead code, or a hook that is no longer reached."""
    found = []
    for name, path in list(diff.find_dropped_calls(revisions).items())[:MOST_DROPPED]:
        defined = [one for one in uses.definitions(name) if is_product(one.path, FileKind.CODE)]
        called = any(use.edge == "CALLS" and not _is_test(use.file) for use in uses.of(name))
        if len(defined) != 1 or not defined[0].exported or called:
            continue
        with code.open(project.index, store) as names:
            file = names.index.graph.files.get(defined[0].path)
            is_hook = file is not None and is_registered(names.index, file.file_id, defined[0].start_line)
        if not is_hook:
            place = f"{defined[0].path}:{defined[0].start_line}"
            message = f"{defined[0].qualified} is no longer called anywhere; {path} was the last caller"
            found.append(Finding("unused", place, message))
    return found


def _find_widely_used(revisions: Sequence[diff.Revision], uses: _Uses, inside: Collection[str]) -> list[Finding]:
    found = []
    for revision in revisions:
        known = {one.qualified: one for one in revision.before.definitions} if revision.is_product else {}
        for symbol in (
            diff.find_changed_symbols(revision.code, revision.after.definitions)[:MOST_SYMBOLS] if known else ()
        ):
            outside = dict.fromkeys(use.file for use in uses.outside(revision.path, symbol.name, inside))
            files = [path for path in outside if is_product(path, kind_of(path, language_of(path)))]
            if symbol.name in known and len(files) >= diff.WIDELY_USED:
                message = f"{symbol.name} was changed and is used outside the change in {_join_paths(files)}"
                found.append((len(files), Finding("callers", symbol.place.rpartition("-")[0], message)))
    return [finding for _, finding in sorted(found, key=lambda pair: (-pair[0], pair[1].place))]


def _risks(history: History, revisions: Sequence[diff.Revision], base: str) -> list[Finding]:
    changed = (one for one in revisions if one.is_product and (one.code.added or one.code.removed))
    paths = [one.path for one in changed if one.change.state != "added"]
    try:
        return diff.risks(history.subjects(paths[:MOST_RISKY], base, RISK_DAYS), RISK_DAYS)
    except GitFailed:
        return []  # the rest of the review is still valid


def _without_tests(project: ProjectKnowledge, code: CodeOperations, revisions: Iterable[diff.Revision]) -> list[str]:
    """Changed code that no test imports or is named after, and that has no tests in its own file. Templates and other
    files without definitions are covered by the tests of their users."""
    paths = [
        one.path
        for one in revisions
        if one.change.state != "removed" and one.is_product and not diff.has_inline_tests(one.after.definitions)
        if (language := language_of(one.path)) is not None and language.syntax is not None
    ]
    relations = code.relations(project.index, paths)
    return [path for path in paths if path in relations and not relations[path].tests]


def _patterns(
    project: ProjectKnowledge, store: SqliteStore, changes: Sequence[diff.Difference], now: float
) -> list[str]:
    report = project.patterns.report(store, now)
    texts = {change.path: text for change in changes if (text := project.text(change.path)) is not None}
    uses = project.patterns.uses_in(texts)
    near = {path: in_area(report, path, language.name) for path in texts if (language := language_of(path))}
    return diff.unusual_patterns(
        uses, changes, project.patterns.detectors, {path: near[path].patterns for path in near}
    )


def _reviewers(history: History, base: str, changes: Sequence[diff.Difference]) -> list[Reviewer]:
    largest = sorted((c for c in changes if c.state != "added"), key=lambda c: (-len(c.removed), c.path))
    blames = {}
    for change in largest[:MOST_BLAMED]:
        try:
            blames[change.path] = history.blame(change.path, revision=base)
        except GitFailed:
            continue  # git cannot blame the file, so it has no author to propose
    return diff.reviewers(blames, largest[:MOST_BLAMED])[:MOST_REVIEWERS]
