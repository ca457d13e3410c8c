"""What the team knows, as operations: memories, patterns, metadata, style, the card before a change and its review."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from codeinfo.engine.code import CodeOperations
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.indexes import Place
from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.engine.review import review_change
from codeinfo.errors import NotFound, UsageError
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import relations
from codeinfo.graph.names import NameResolver
from codeinfo.graph.references import Lookup, callees, find_uses, look_up_defined, symbol_info, usages
from codeinfo.index.line import edited
from codeinfo.knowledge.card import TARGETS, Evidence, decide, files_of_area
from codeinfo.knowledge.context import add_context
from codeinfo.knowledge.detectors import family
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
from codeinfo.knowledge.metadata import describe_project, is_manifest
from codeinfo.knowledge.patterns import in_area, narrow
from codeinfo.knowledge.style import is_style_file, style_report
from codeinfo.languages import is_product, language_named
from codeinfo.model import Card, FileKind, Hit, RelatedMemory, SearchResult
from codeinfo.operations import knowledge as operations
from codeinfo.operations.base import ProgressSink
from codeinfo.operations.code import Exploration, ExploreRequest, Usage
from codeinfo.operations.search import SearchRequest
from codeinfo.sources.files import read_regular
from codeinfo.sources.git import GitFailed
from codeinfo.sources.read import FolderFiles
from codeinfo.store.sqlite import SqliteStore, code_facts

# --- one symbol or file with its surroundings ----------------------------------------------------------------------

MOST_USES = 200  # resolved uses that are read: their lines tell which definition they are in
CODE_LINES, CODE_CHARS = 30, 1_500  # shown of a definition
_PLACE = re.compile(r"(.+?):(\d{1,9})(?:-\d{1,9})?")
_MEMORY_CHARS = 200  # of a definition's text that memories are compared with


def explore_target(project: ProjectKnowledge, names: NameResolver, request: ExploreRequest, now: float) -> Exploration:
    wanted, index = _explored(names.index, request.target), names.index
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


def _explored(index: CodeIndex, target: str) -> str:
    """A path of the index, or the name to look up: a line stands for the innermost definition around it."""
    written = target.strip().removeprefix("./").removeprefix(f"{index.root}/")
    if path := _indexed_path(index, written):
        return path
    place = _PLACE.fullmatch(written)
    path = _indexed_path(index, place[1]) if place else ""
    if not path or place is None:
        return written
    line = int(place[2])
    around = [
        definition
        for definition in index.facts.definitions(index.graph.files[path].file_id)
        if definition.start_line <= line <= definition.end_line
    ]
    inner = min(around, key=lambda one: one.end_line - one.start_line, default=None)
    return f"{path}::{inner.qualified}" if inner else path


def _indexed_path(index: CodeIndex, written: str) -> str:
    """The file that is meant by the end of its path, "" where the text is no path."""
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
    lookup = look_up_defined(index, wanted)
    listed = sorted(lookup.listed(), key=lambda one: one.path in index.graph.tests)
    first = listed[0]
    symbol = next(one for one in lookup.found if one.path == first.path and str(one) == first.id)
    uses = _uses(names, lookup)
    tests = tuple(_described(use) for use in uses if use.file in index.graph.tests)
    lines = (first.start_line, first.end_line)
    text = (project.text(first.path) or "").split("\n")[first.start_line - 1 : first.end_line]
    notes = [] if len(listed) == 1 else [f"{len(listed)} definitions; `path::Name` asks for one of them"]
    return Exploration(
        request.target,
        "symbol",
        f"{first.path}:{lines[0]}-{lines[1]}",
        tuple(listed),
        code="\n".join(text[:CODE_LINES])[:CODE_CHARS],
        callers=tuple(_described(use) for use in uses if use.file not in index.graph.tests),
        callees=tuple(dict.fromkeys(edge.target for edge in callees(names, symbol, lookup.found[symbol]))),
        tests=tests or relations(index.graph, first.path).tests,
        history=_commits(project.history, first.path, lines),
        notes=tuple(notes),
    )


def _uses(names: NameResolver, lookup: Lookup) -> list[Usage]:
    """One for each definition that uses it, those in central files first; imports are left out."""
    found = find_uses(names, lookup).uses
    read = usages(names.index, lookup, sorted(found, key=lambda use: use.reference.role != "call")[:MOST_USES])
    own = {info.id for info in lookup.listed()}
    meant = [use for use in read if use.edge not in ("IMPORTS", "EXPORTS") and f"{use.file}::{use.within}" not in own]
    first = {(use.file, use.within or use.line): use for use in reversed(meant)}.values()
    central = names.index.graph.centrality
    return sorted(first, key=lambda use: (-central.get(use.file, 0.0), use.file, use.line))


def _described(use: Usage) -> str:
    return f"{use.file}:{use.line} {use.within}".rstrip()


def _commits(history: History, path: str, lines: tuple[int, int] | None = None) -> tuple[str, ...]:
    if not history.known:
        return ()
    try:
        return history.touching(path, lines)
    except GitFailed:
        return ()  # no commit yet


MAX_IMPORT_BYTES = 10_000_000


class KnowledgeOperations:
    """`Engine.knowledge`: one method an operation. `find` finds the project of a folder, `refresh` brings it up to
    date where possible; `clock` gives seconds since the epoch."""

    def __init__(
        self,
        find: Callable[[str | Path], Place],
        refresh: Callable[[IndexManager, ProgressSink | None], SqliteStore],
        code: CodeOperations,
    ) -> None:
        self._find, self._refresh, self._code = find, refresh, code
        self.clock = time.time
        self._lock = threading.Lock()
        self._projects: dict[Path, ProjectKnowledge] = {}

    def _project(self, path: str | Path) -> ProjectKnowledge:
        index = self._find(path).index
        with self._lock:
            known = self._projects.get(index.root)
            if known is None or known.index is not index:
                known = self._projects[index.root] = ProjectKnowledge(index)
            return known

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

    def memory_show(self, request: operations.MemoryShowRequest) -> RelatedMemory:
        now = self.clock()
        return describe(find_by_id(self._project(request.path).memories(now), request.id), now)

    def memory_remove(self, request: operations.MemoryRemoveRequest) -> operations.MemoryRemoved:
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
            raise NotFound(f"{file} cannot be read: {error.strerror}", next_step="Name a file of memories") from error
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

    def patterns(
        self, request: operations.PatternsRequest, progress: ProgressSink | None = None
    ) -> operations.PatternReport:
        project, now = self._project(request.path), self.clock()
        patterns, store = project.patterns, self._refresh(project.index, progress)
        report = patterns.report_with_history(store, now) if request.history else patterns.report(store, now)
        families = [family(language_named(language)) for language in request.languages]
        report = narrow(report, category=request.category, languages=families)
        about = " ".join((request.category, *(pattern.name for pattern in report.patterns[:20])))
        memories, notes = project.guiding_memories(about, now)
        return replace(report, memories=memories, notes=(*report.notes, *notes))

    def metadata(
        self, request: operations.MetadataRequest, progress: ProgressSink | None = None
    ) -> operations.MetadataReport:
        project = self._project(request.path)
        store = self._refresh(project.index, progress)
        rows = store.manifest()
        texts = project.texts(path for path in rows if is_manifest(path) or path == "Makefile")
        tests = sum(row.kind is FileKind.TEST for row in rows.values())
        return describe_project(project.root, texts, _sizes(store), tests, _imported(store))

    def style(self, request: operations.StyleRequest, progress: ProgressSink | None = None) -> operations.StyleReport:
        project = self._project(request.path)
        store = self._refresh(project.index, progress)
        return style_report(project.texts(filter(is_style_file, store.manifest())), request.query)

    def review(
        self, request: operations.ReviewRequest, progress: ProgressSink | None = None
    ) -> operations.ReviewPacket:
        project = self._project(request.path)
        return review_change(project, self._refresh(project.index, progress), self._code, request, self.clock())

    def explore(self, request: ExploreRequest, progress: ProgressSink | None = None) -> Exploration:
        project = self._project(request.path)
        store = self._refresh(project.index, progress)
        with self._code.open(project.index, store) as names:
            return explore_target(project, names, request, self.clock())

    # --- around a search ---

    def around(self, request: SearchRequest, result: SearchResult) -> SearchResult:
        """The result with the context of its hits, related memories and, on behalf of a change, the card."""
        now = self.clock()
        roots = list(dict.fromkeys(hit.root for hit in result.hits)) or [
            str(self._find(next(iter(request.paths), "")).index.root)
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
        near = self._code.around(project.index, store, hits)
        return add_context(hits, near.files, project.hints(store) or {}, near.callers)

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
                has_vectors=project.index.config.embedding.provider == "builtin",
                changed_since_index=_changed_since_index(project.index, store),
            )
        )


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.root, hit.path, hit.chunk_id


def _changed_since_index(index: IndexManager, store: SqliteStore) -> int:
    """Files that are not as the index has them. A time that differs is only a hint: the content decides."""
    _, changes = index.pending()
    if not changes:
        return 0
    return len(changes.added) + len(changes.removed) + len(edited(FolderFiles(index.root), store, changes.suspects))


def _imported(store: SqliteStore) -> dict[str, str]:
    """The modules that product code imports, each with the first place that does."""
    with code_facts(store) as facts:
        files = {file.file_id: file.path for file in facts.files() if is_product(file.path, FileKind(file.kind))}
        found: dict[str, str] = {}
        for file_id, written in facts.imports(list(files)):
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
