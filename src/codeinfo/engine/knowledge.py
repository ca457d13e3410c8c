"""Team knowledge as operations: memories, patterns, metadata, style, the card before a change, and one symbol or file
with its surroundings."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from codeinfo.engine.code import CodeOperations
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.indexes import Indexes
from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.engine.review import review_change
from codeinfo.errors import NotFound, UsageError
from codeinfo.files import path_of_address, read_regular
from codeinfo.globs import similar_paths
from codeinfo.graph import references
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.uses import import_timing
from codeinfo.index.line import find_edited
from codeinfo.knowledge.card import TARGETS, Evidence, add_context, decide
from codeinfo.knowledge.detectors import detector_language, is_test_code
from codeinfo.knowledge.history import History
from codeinfo.knowledge.memory import (
    Memory,
    describe,
    find_by_id,
    from_record,
    make_memory,
    parse_memories,
    scope_within,
    search,
    to_record,
)
from codeinfo.knowledge.patterns import Hints, narrow
from codeinfo.knowledge.project import describe_project, is_manifest
from codeinfo.knowledge.style import is_style_file, style_report
from codeinfo.languages import is_product, is_test_name, language_named
from codeinfo.languages.model import INLINE_TEST, get_language, may_have_inline_tests
from codeinfo.model import (
    PLAIN_KIND,
    Card,
    Definition,
    FileKind,
    Hit,
    Import,
    NextStep,
    RelatedMemory,
    SearchResult,
    iso_time,
    symbol_kind,
    to_run,
)
from codeinfo.operations import knowledge as ops
from codeinfo.operations.base import ProgressSink
from codeinfo.operations.code import Exploration, ExploreRequest, SymbolInfo, Usage
from codeinfo.operations.search import SearchRequest
from codeinfo.ports import CodeFacts, CodeFile
from codeinfo.sources.git import GitFailed
from codeinfo.sources.read import FolderFiles
from codeinfo.store.sqlite import SqliteStore, code_facts

MAX_IMPORT_BYTES = 10_000_000
_COMMANDS = ("Makefile", "gradlew", "mvnw")  # build and test, besides manifests


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
            project = self._projects.get(index.root)
            if project is None or project.index is not index:
                project = self._projects[index.root] = ProjectKnowledge(index)
            return project

    def _open(self, path: str, progress: ProgressSink) -> tuple[ProjectKnowledge, SqliteStore]:
        """A project and its store, refreshed if possible."""
        project = self._project(path)
        return project, self._indexes.open_whole(project.index, progress=progress)

    def remember(self, request: ops.RememberRequest) -> ops.Remembered:
        now, texts = self.clock(), (request.type, request.category, request.memory, request.reason)
        project = self._project(request.path)
        scope = scope_within(request.scope.strip(), str(project.root))
        memory = make_memory(*texts, iso_time(now), scope=scope, author=request.author)

        def put(before: tuple[Memory, ...]) -> list[Memory]:
            return [*(other for other in before if other.id != memory.id), memory]

        before = project.change_memories(put)
        return ops.Remembered(describe(memory, now), any(other.id == memory.id for other in before))

    def memory_list(self, request: ops.MemoryListRequest) -> ops.MemoryList:
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
        return ops.MemoryList(shown, len(memories), project.memory_notes())

    def memory_show(self, request: ops.MemoryRequest) -> RelatedMemory:
        now = self.clock()
        return describe(find_by_id(self._project(request.path).memories(now), request.id), now)

    def memory_remove(self, request: ops.MemoryRequest) -> ops.MemoryRemoved:
        project, now = self._project(request.path), self.clock()
        memory = find_by_id(project.memories(now), request.id)
        if memory.source == "git":
            step = "It goes when the commit is 90 days old; nothing to remove"
            raise UsageError(f"{memory.id} is a commit's message", step)
        if memory.source:
            raise UsageError(f"{memory.id} is in {memory.source}", "Remove it there")
        project.change_memories(lambda before: [item for item in before if item != memory])
        return ops.MemoryRemoved(describe(memory, now))

    def memory_export(self, request: ops.MemoryExportRequest) -> ops.MemoryExport:
        records = (to_record(memory) for memory in self._project(request.path).own_memories())
        return ops.MemoryExport(1, tuple(records))

    def memory_import(self, request: ops.MemoryImportRequest) -> ops.MemoryImported:
        file = Path(request.file)
        try:
            data = read_regular(str(file.parent), file.name, MAX_IMPORT_BYTES)
        except OSError as error:
            raise NotFound(f"{file} cannot be read: {error.strerror}", "Give a file of memories") from error
        in_file = parse_memories(data.decode("utf-8-sig", "replace"), str(file))
        memories = [from_record(to_record(memory)) for memory in in_file if memory.source != "git"]

        def merge(before: tuple[Memory, ...]) -> list[Memory]:
            ids = {memory.id for memory in before}
            return [*before, *(memory for memory in memories if memory.id not in ids)]

        before = self._project(request.path).change_memories(merge)
        added = len({memory.id for memory in memories} - {memory.id for memory in before})
        return ops.MemoryImported(added, len(memories) - added, len(in_file) - len(memories))

    def patterns(self, request: ops.PatternsRequest, progress: ProgressSink = None) -> ops.PatternReport:
        (project, store), now = self._open(request.path, progress), self.clock()
        patterns = project.patterns
        report = patterns.report_with_history(store, now) if request.history else patterns.report(store, now)
        families = [detector_language(language_named(language)) for language in request.languages]
        below = self._indexes.find(request.path).below
        report = narrow(report, category=request.category, languages=families, below=below)
        about = " ".join((request.category, *(pattern.name for pattern in report.patterns[:20])))
        memories, notes = project.guiding_memories(about, now)
        return replace(report, memories=memories, notes=(*report.notes, *notes))

    def metadata(self, request: ops.MetadataRequest, progress: ProgressSink = None) -> ops.MetadataReport:
        project, store = self._open(request.path, progress)
        rows = store.manifest()
        locks = [f"{path}.lock" for path in rows if path.rpartition("/")[2] == "Gemfile"]  # are not indexed
        texts = project.texts([*locks, *(path for path in rows if is_manifest(path) or path in _COMMANDS)])
        tests = sum(is_test_code(path, row.language, row.kind) for path, row in rows.items())
        with code_facts(store) as facts:
            imports, tested_with = _collect_imports(facts), _collect_test_imports(facts)
            files = [file for file in facts.files() if file.kind == "code" and may_have_inline_tests(file.language)]
            inline = sum(INLINE_TEST.search(facts.lines(file.file_id).whole_text()) is not None for file in files)
        return describe_project(project.root, texts, _measure_sizes(store), tests, imports, tested_with, inline)

    def style(self, request: ops.StyleRequest, progress: ProgressSink = None) -> ops.StyleReport:
        project, store = self._open(request.path, progress)
        return style_report(project.texts(filter(is_style_file, store.manifest())), request.query)

    def review(self, request: ops.ReviewRequest, progress: ProgressSink = None) -> ops.ReviewPacket:
        return review_change(*self._open(request.path, progress), self._code, request, self.clock())

    def explore(self, request: ExploreRequest, progress: ProgressSink = None) -> Exploration:
        project, store = self._open(request.path, progress)
        with self._code.open(project.index, store) as index:
            return explore_target(project, index, request, self.clock())

    def enrich(self, request: SearchRequest, result: SearchResult) -> SearchResult:
        """The result with the context of its hits, related memories and, for a change, the card."""
        now = self.clock()
        roots = list(dict.fromkeys(hit.root for hit in result.hits))
        if not roots and not request.all_projects:
            roots = [str(self._indexes.find(next(iter(request.paths), "")).index.root)]
        hits: dict[tuple[str, str, int], Hit] = {}
        memories: list[RelatedMemory] = []
        notes: list[str] = []
        for root in roots:
            project = self._project(root)
            root_hits = [hit for hit in result.hits if hit.root == root]
            store = project.index.live_store()
            hints = self._patterns_around(project, root_hits, now)[1] if request.purpose else {}
            hits |= {_key(hit): hit for hit in self._with_context(project, store, root_hits, hints)}
            paths, symbols = {hit.path for hit in root_hits}, {hit.symbol for hit in root_hits if hit.symbol}
            related, memory_notes = project.related_memories(request.query, paths, symbols, now)
            memories += related
            notes += memory_notes if request.purpose else (*memory_notes, *project.hint_notes(store))
        result = replace(
            result,
            hits=tuple(hits[_key(hit)] for hit in result.hits),
            memories=tuple(memories[:3]),
            notes=(*result.notes, *notes),
        )
        if not request.purpose or not roots:
            return result
        card = self._card(request, result, roots[0], now)
        shown = result.hits if request.snippets else tuple(replace(hit, text="") for hit in result.hits)
        return replace(result, hits=shown, preflight=card)

    def _with_context(
        self, project: ProjectKnowledge, store: SqliteStore | None, hits: Sequence[Hit], hints: Hints
    ) -> Sequence[Hit]:
        """`hints` are newer than those that are stored."""
        if store is None or not hits:
            return hits
        contexts = self._code.contexts_of(project.index, store, hits)
        hints = {**(project.hints(store) or {}), **hints}
        return add_context(hits, contexts.files, hints, contexts.callers, contexts.deprecations)

    def _patterns_around(
        self, project: ProjectKnowledge, hits: Sequence[Hit], now: float
    ) -> tuple[ops.PatternReport, Hints]:
        """The patterns of the package of the first code among some results, and hints from them."""
        store, first = project.index.live_store(), next((hit for hit in hits if hit.kind is FileKind.CODE), None)
        if store is None or first is None:
            return ops.PatternReport((), (), ()), {}
        return project.patterns.around(store, now, first.path, first.language)

    def _card(self, request: SearchRequest, result: SearchResult, root: str, now: float) -> Card | None:
        project = self._project(root)
        store = project.index.live_store()
        if store is None:
            return None
        hits = [hit for hit in result.hits if hit.root == root]
        code = [hit for hit in hits if hit.kind is FileKind.CODE][:TARGETS]
        targets = self._code.name_targets(project.index, store, request.query, code)
        evidence = Evidence(
            query=request.query,
            purpose=request.purpose,
            hits=hits,
            quality=result.quality,
            patterns=self._patterns_around(project, hits, now)[0],
            memories=result.memories,
            targets=targets,
            files={path: row.size for path, row in store.manifest().items() if is_product(path, row.kind)},
            has_vectors=project.index.config.embedding.provider == "builtin",
            changed_since_index=_count_changed(project.index, store),
        )
        if evidence.is_about_task:
            place, patterns = evidence.place, project.patterns
            evidence = replace(
                evidence,
                patterns=patterns.with_near_examples(evidence.patterns, place),
                near=patterns.used_in(hit.path for hit in code),
                callers=self._code.callers(project.index, {(hit.path, hit.symbol) for hit in targets if hit.symbol}),
                together=project.companions(store, place),
                registry=self._code.find_registry(project.index, store, place) if evidence.adds_something else None,
            )
        return decide(evidence)


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.root, hit.path, hit.chunk_id


def _count_changed(index: IndexManager, store: SqliteStore) -> int:
    """The files that differ from the index. A different time is only a hint: the content decides."""
    changes = index.find_pending()
    if not changes:
        return 0
    edited = find_edited(FolderFiles(index.root), store, changes.suspects)
    return len(changes.added) + len(changes.removed) + len(edited)


def _collect_imports(facts: CodeFacts) -> dict[str, str]:
    """The modules of others that product code imports, not for types alone, each with the first place that does."""
    product = [file for file in facts.files() if is_product(file.path, FileKind(file.kind))]
    timed = [file.file_id for file in product if get_language(file.language).imports.timed]
    timing = {file_id: import_timing(packed) for file_id, packed in facts.references(timed)}
    names = {file.path.rpartition("/")[2] for file in product}
    places: dict[str, str] = {}
    for file, statement in _imports_of(facts, product):
        is_type = timing.get(file.file_id, {}).get(statement.line) == "types"
        if not is_type and statement.module.rpartition("/")[2] not in names:
            places.setdefault(statement.module, f"{file.path}:{statement.line}")
    return places


def _collect_test_imports(facts: CodeFacts) -> dict[tuple[str, str], str]:
    """The modules imported by tests, by language, each with the first place that imports it. What imports only
    `unittest.mock` is no test of `unittest`, and code in a language of its own is data unless it is called a test."""
    shipped = {file.language for file in facts.files() if is_product(file.path, FileKind(file.kind))}
    tests = [file for file in facts.files() if file.kind == FileKind.TEST]
    tests = [file for file in tests if file.language in shipped or is_test_name(file.path)]
    places: dict[tuple[str, str], str] = {}
    for file, statement in _imports_of(facts, tests):
        if statement.names != ("mock",):
            places.setdefault((file.language, statement.module), f"{file.path}:{statement.line}")
    return places


def _imports_of(facts: CodeFacts, files: Iterable[CodeFile]) -> list[tuple[CodeFile, Import]]:
    """By path and line: ids follow the order in which files were parsed."""
    by_id = {file.file_id: file for file in files}
    imports = [(by_id[file_id], statement) for file_id, statement in facts.imports(list(by_id))]
    return sorted(imports, key=lambda entry: (entry[0].path, entry[1].line))


def _measure_sizes(store: SqliteStore) -> dict[str, ops.LanguageSize]:
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
    return {language: ops.LanguageSize(*size) for language, size in sizes.items()}


# --- one symbol, file or place with its surroundings -----------------------------------------------------------------

MOST_USES = 200  # resolved uses that are read: their lines tell which definition contains them
CODE_LINES, CODE_CHARS = 30, 1_500  # of a definition, shown
# `a.py:3`, also with a last line or, as compilers write it, a column; `a.py#L3-L5` as in links
_PLACE = re.compile(r"(.+?)(?::|#L)(\d{1,9})(?:-L?(\d{1,9})|:\d{1,9}:?)?")
_AROUND_DEFINITIONS = frozenset({"package", "namespace", "impl"})  # say only where those of the file belong
_MEMORY_CHARS = 200  # of a definition's text, compared with memories


def explore_target(project: ProjectKnowledge, index: CodeIndex, request: ExploreRequest, now: float) -> Exploration:
    target = _resolve_target(index, request.target)
    if target in index.graph.files:
        exploration = _explore_file(project, index, target, request)
    else:
        exploration = _explore_symbol(project, index, target, request)
    path = exploration.place.partition(":")[0]
    about = f"{request.target} {exploration.code[:_MEMORY_CHARS]}"
    names = {definition.name for definition in exploration.definitions}
    memories, notes = project.related_memories(about, {path}, names, now)
    lists = {name: getattr(exploration, name) for name in ("definitions", "callers", "callees", "tests")}
    return replace(
        exploration,
        memories=memories,
        notes=(*exploration.notes, *notes),
        totals={name: len(listed) for name, listed in lists.items() if len(listed) > request.limit},
        **{name: listed[: request.limit] for name, listed in lists.items()},
    )


def _resolve_target(index: CodeIndex, target: str) -> str:
    """A path in the index, or the name to look up: lines stand for the definition that they cover best, a single one
    for the innermost around it. The lines of a search's result begin with the comment above its definition."""
    written = path_of_address(target.strip()).removeprefix("./").removeprefix(f"{index.root}/")
    if path := _find_path(index, written):
        return path
    if "/" in written:
        references.refuse_folder(index.graph, written.rstrip("/"))
    place = _PLACE.fullmatch(written)
    path = _find_path(index, place[1]) if place else ""
    if not path or place is None:
        if near := similar_paths(place[1] if place else written, index.graph.files):
            raise references.UnknownName(written, f"there is no file {written} in the index", near)
        return written
    line, end = int(place[2]), int(place[3] or place[2])

    def share(definition: Definition) -> float:
        """The lines in both, of those in either."""
        first, last = definition.start_line, definition.end_line
        both = min(end, last) - max(line, first) + 1
        return both / (end - line + last - first + 2 - both)

    defined = index.facts.definitions(index.graph.files[path].file_id)
    best = max(defined, key=share, default=None)
    inner = best if best is not None and share(best) > 0 else None
    if inner is None and line > (last := max(index.facts.lines(index.graph.files[path].file_id), default=0)):
        raise NotFound(f"{path} has no code at line {line}", f"Its last line with code is {last}")
    return f"{path}::{inner.qualified}" if inner else path


def _find_path(index: CodeIndex, written: str) -> str:
    """The file whose path ends in this text, "" if the text is not a path."""
    if written in index.graph.files:
        return written
    ending = [path for path in index.graph.files if path.endswith(f"/{written}")] if "." in written else []
    if len(ending) > 1:
        raise UsageError(f"{len(ending)} files end in {written}", f"One of: {', '.join(sorted(ending)[:5])}")
    return ending[0] if ending else ""


def _explore_file(project: ProjectKnowledge, index: CodeIndex, path: str, request: ExploreRequest) -> Exploration:
    graph = index.graph
    definitions = index.facts.definitions(graph.files[path].file_id)
    defined = (references.symbol_info(path, item) for item in definitions if item.kind not in _AROUND_DEFINITIONS)
    return Exploration(
        request.target,
        "file",
        path,
        tuple(sorted(defined, key=_outline_order)),
        callers=tuple(f"{edge.source}:{edge.line}" for edge in graph.users(path)),
        callees=tuple(dict.fromkeys(edge.target for edge in graph.edges_from(path))),
        tests=index.tests_of(path),
        history=_read_commits(project.history, path)[0],
    )


def _outline_order(definition: SymbolInfo) -> tuple[int, bool, int]:
    """Types and functions before the variables beside them."""
    return definition.qualified.count("."), symbol_kind(definition.kind) is PLAIN_KIND, definition.start_line


def _explore_symbol(project: ProjectKnowledge, index: CodeIndex, target: str, request: ExploreRequest) -> Exploration:
    lookup = references.look_up_defined(index, target)
    listed = sorted(lookup.symbol_infos(index.graph.centrality), key=lambda info: info.path in index.graph.tests)
    first = listed[0]
    symbol = next(info for info in lookup.symbols if info.path == first.path and str(info) == first.id)
    uses = _find_uses(index, lookup)
    in_tests = {use: use.file in index.graph.tests or index.is_inline_test(use.file, use.within) for use in uses}
    tests = tuple(_describe_use(use) for use in uses if in_tests[use])
    bodies = [body for info, body in lookup.bodies if info == symbol]
    callees = dict.fromkeys(edge.target for body in bodies for edge in references.callees(index, symbol, body))
    text = (project.text(first.path) or "").split("\n")[first.start_line - 1 : first.end_line]
    several = len({info.id for info in listed})
    together = "code and callees are of the first, callers and tests of all; `path::Name` asks for one"
    notes = [] if several == 1 else [f"{several} definitions: {together}"]
    place = _PLACE.fullmatch(request.target.strip())
    start, end = _choose_lines(text, int(place[2]) - first.start_line if place else 0)
    if end - start < len(text):
        part = f"lines {first.start_line + start} to {first.start_line + end - 1}" if start else f"the first {end}"
        after = first.start_line + min(end + CODE_LINES // 2, len(text) - 1)
        more = ("; ", to_run("explore", f"{first.path}:{after}"), " shows more") if end < len(text) else ()
        notes.append(NextStep(f"code: only {part} of {len(text)} lines", *more))
    history, history_notes = _read_commits(project.history, first.path, (first.start_line, first.end_line))
    return Exploration(
        request.target,
        "symbol",
        f"{first.path}:{first.start_line}-{first.end_line}",
        tuple(listed),
        code="\n".join(text[start:end])[:CODE_CHARS],
        code_line=first.start_line + start,
        callers=tuple(_describe_use(use) for use in uses if not in_tests[use]),
        callees=tuple(callees),
        tests=tests or index.tests_of(first.path),
        history=history,
        notes=(*notes, *history_notes),
    )


def _choose_lines(text: Sequence[str], center: int) -> tuple[int, int]:
    """Which lines of a definition are shown: the first ones or, if the wanted one is further down, those around it."""
    start = max(min(center - CODE_LINES // 2, len(text) - CODE_LINES), 0) if center >= CODE_LINES else 0
    end = min(start + CODE_LINES, len(text))
    while end - start > 1 and sum(map(len, text[start:end])) > CODE_CHARS:
        if center - start > end - 1 - center:
            start += 1
        else:
            end -= 1
    return start, end


def _find_uses(index: CodeIndex, lookup: references.Lookup) -> list[Usage]:
    """One use per definition, or file, that contains uses, those in central files first; imports are left out."""
    found = sorted(references.find_uses(index, lookup).uses, key=lambda use: use.reference.role != "call")
    read = references.usages(index, lookup, found[:MOST_USES])
    ids = {info.id for info in lookup.symbol_infos()}
    outermost = [name for name in ids if not any(name.startswith(f"{owner}.") for owner in ids)]  # not a constructor
    inside = ids if len(outermost) == 1 else set()  # one of several definitions may use another
    outside = (use for use in read if f"{use.file}::{use.within}" not in inside)
    uses = [use for use in outside if use.edge not in ("IMPORTS", "EXPORTS")]
    first = {(use.file, use.within): use for use in reversed(uses)}.values()
    central = index.graph.centrality
    return sorted(first, key=lambda use: (-central.get(use.file, 0.0), use.file, use.line))


def _describe_use(use: Usage) -> str:
    return f"{use.file}:{use.line} {use.within}".rstrip()


def _read_commits(
    history: History, path: str, lines: tuple[int, int] | None = None
) -> tuple[tuple[str, ...], list[str]]:
    """The newest commits of a file or of some of its lines. Following lines takes seconds in a long history."""
    if not history.known:
        return (), []
    try:
        return history.commits_touching(path, lines), []
    except GitFailed:
        whole = _read_commits(history, path)[0] if lines else ()  # none: no commits yet
        return whole, ["history: of the whole file; git could not follow these lines"] if whole else []
