"""The review of a change: both sides of it, read and compared, and what they come to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from codeinfo.engine.code import CodeOperations
from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.graph.uses import all_references, unpack
from codeinfo.index.pool import ParseTask
from codeinfo.knowledge import change as diff
from codeinfo.knowledge.history import History
from codeinfo.knowledge.metadata import dependencies, is_manifest
from codeinfo.knowledge.patterns import in_area
from codeinfo.languages import is_product, kind_of, language_of
from codeinfo.model import Definition, FileKind, Import, NextStep, to_run
from codeinfo.operations.code import DefsRequest, RefsRequest, SymbolInfo, Usage
from codeinfo.operations.knowledge import ChangedFile, ChangedSymbol, Finding, Reviewer, ReviewPacket, ReviewRequest
from codeinfo.sources.git import GitFailed
from codeinfo.sources.masking import mask
from codeinfo.store.sqlite import SqliteStore

MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
MOST_FILES = 200  # compared line by line; a change of more is reviewed in parts
MOST_BLAMED = 40
MOST_SYMBOLS = 40  # whose callers are looked up
CALLERS_SHOWN = 5
MOST_DROPPED = 20  # names whose other calls are looked for
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
    lists: dict[str, Sequence[Any]] = {
        "files": [ChangedFile(one.path, one.state, len(one.added), len(one.removed)) for one in changes],
        "symbols": symbols,
        "missing_tests": _without_tests(project, code, revisions),
        "patterns": _patterns(project, store, changes, now),
        "reviewers": _reviewers(project.history, base, changes),
        "findings": _findings(project, store, code, revisions, uses, base, now),
    }
    return ReviewPacket(
        base=base,
        memories=memories,
        totals={name: len(found) for name, found in lists.items()},
        notes=(*notes, *memory_notes),
        **{name: tuple(found[: request.limit]) for name, found in lists.items()},
    )


def _base(history: History, wanted: str) -> str:
    if not history.known:
        raise UsageError(
            "there is no history to compare with", next_step="A review needs a git repository, not shallow"
        )
    first, dots, last = wanted.partition("..")
    if dots:
        raise UsageError(
            f"{wanted!r} is a range, and a review compares the files as they are with one revision",
            next_step=NextStep(
                f"Check {last.strip('.') or 'its end'} out and run ", to_run("review", first or "REVISION")
            ),
        )
    try:
        if wanted:
            return history.resolve(wanted)
        head, point = history.resolve("HEAD"), history.branch_point(MAIN_BRANCHES)
    except GitFailed as error:
        raise NotFound(
            f"{wanted or 'HEAD'!r} is not a commit of this repository", next_step="Name a branch, tag or commit"
        ) from error
    return point if point and point != head else head


def _revisions(project: ProjectKnowledge, store: SqliteStore, base: str) -> tuple[list[diff.Revision], list[str]]:
    """Every changed file that the index knows, with what is defined, imported and called on both sides."""
    listed = store.manifest()
    changed = sorted(project.history.changed_from(base))
    texts: dict[str, tuple[str, str]] = {}
    changes: list[diff.Difference] = []
    for path in changed[:MOST_FILES]:
        before, after = project.history.committed_text(base, path), project.text(path)
        if path not in listed and after is not None:
            continue  # what the index leaves out is not for review either
        after = mask(after)[0] if after is not None else None  # as what was committed is
        one = diff.compare(path, before, after)
        if one.added or one.removed:
            changes.append(one)
            texts[path] = before or "", after or ""
    old = _parsed(project, {path: before for path, (before, _) in texts.items() if before})
    revisions = []
    for change in changes:
        path, known = change.path, store.symbols(change.path)
        kind = kind_of(path, language_of(path))
        was, now = old.get(path, diff.Version(texts[path][0])), diff.Version(texts[path][1])
        if known is not None and change.state != "removed":
            now = _version(now.text, known.definitions, known.imports, known.references)
        revisions.append(diff.Revision(change, was, now, kind, is_product(path, kind)))
    left_out = f"{len(changed)} files changed; the first {MOST_FILES} are compared"
    return revisions, [left_out] if len(changed) > MOST_FILES else []


def _parsed(project: ProjectKnowledge, texts: dict[str, str]) -> dict[str, diff.Version]:
    """Files as they were, which no index has, by the same parsers."""
    tasks = [
        ParseTask(path, text, language.name, kind_of(path, language))
        for path, text in texts.items()
        if (language := language_of(path)) is not None
    ]
    with project.index.parsers() as pool:
        return {
            one.path: _version(texts[one.path], one.parsed.definitions, one.parsed.imports, one.references)
            for one in pool.run(tasks)
        }


def _version(
    text: str, definitions: Sequence[Definition], imports: Sequence[Import], references: bytes
) -> diff.Version:
    return diff.Version(text, tuple(definitions), tuple(imports), tuple(all_references(unpack(references)[0])))


class _Uses:
    """Where definitions are used, looked up once each."""

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
        return [use for use in self.of(f"{path}::{qualified}") if use.file not in inside]


def _is_test(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.TEST


def _symbols(revisions: Sequence[diff.Revision], uses: _Uses) -> list[ChangedSymbol]:
    inside = {revision.path for revision in revisions}
    found: list[ChangedSymbol] = []
    for revision in revisions:
        if revision.kind is not FileKind.CODE:
            continue
        for symbol in diff.changed_symbols(revision.code, revision.after.definitions):
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
        memories = []  # a note says so already
    return diff.gravest_first(
        [
            *diff.contradictions(revisions, memories),
            *_api(revisions, uses, inside),
            *diff.changed_expectations(revisions),
            *_dependencies(project, store, code, revisions),
            *diff.untested(revisions, uses.in_tests),
            *_unused(revisions, uses),
            *_widely_used(revisions, uses, inside),
            *_risks(project.history, revisions, base),
        ]
    )


def _api(revisions: Sequence[diff.Revision], uses: _Uses, inside: Collection[str]) -> list[Finding]:
    """Changes of what others can name, with those here that do."""
    found = []
    for finding, qualified in diff.api_changes(revisions):
        if not qualified:
            found.append(finding)
            continue
        path = finding.place.rpartition(":")[0]
        name = f"{path}::{qualified}"
        if not uses.definitions(name):  # it is gone: uses are known by its name alone, if nothing else has that name
            name = qualified.rpartition(".")[2]
            name = "" if uses.definitions(name) else name
        callers = dict.fromkeys(use.file for use in uses.of(name) if use.file not in inside) if name else {}
        also = f"; used outside the change in {_listed(callers)}" if callers else ""
        found.append(replace(finding, message=finding.message + also))
    return found


def _listed(paths: Collection[str]) -> str:
    shown = ", ".join(list(paths)[:CALLERS_SHOWN])
    return shown if len(paths) <= CALLERS_SHOWN else f"{shown} and {len(paths) - CALLERS_SHOWN} more files"


def _dependencies(
    project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, revisions: Sequence[diff.Revision]
) -> list[Finding]:
    manifests = [revision for revision in revisions if is_manifest(revision.path)]
    before, _ = dependencies({one.path: one.before.text for one in manifests if one.before.text})
    after, _ = dependencies({one.path: one.after.text for one in manifests if one.after.text})
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


def _unused(revisions: Sequence[diff.Revision], uses: _Uses) -> list[Finding]:
    """Exported functions that the change was the last to call: dead code, or a hook that nobody reaches any more."""
    found = []
    for name, path in list(diff.dropped_calls(revisions).items())[:MOST_DROPPED]:
        defined = [one for one in uses.definitions(name) if is_product(one.path, FileKind.CODE)]
        called = any(use.edge == "CALLS" and not _is_test(use.file) for use in uses.of(name))
        if len(defined) == 1 and defined[0].exported and not called:
            place = f"{defined[0].path}:{defined[0].start_line}"
            message = f"{defined[0].qualified} is called nowhere any more; {path} was the last to do so"
            found.append(Finding("unused", place, message))
    return found


def _widely_used(revisions: Sequence[diff.Revision], uses: _Uses, inside: Collection[str]) -> list[Finding]:
    found = []
    for revision in revisions:
        known = {one.qualified: one for one in revision.before.definitions} if revision.is_product else {}
        for symbol in diff.changed_symbols(revision.code, revision.after.definitions)[:MOST_SYMBOLS] if known else ():
            outside = dict.fromkeys(use.file for use in uses.outside(revision.path, symbol.name, inside))
            files = [path for path in outside if is_product(path, kind_of(path, language_of(path)))]
            if symbol.name in known and len(files) >= diff.WIDELY_USED:
                message = f"{symbol.name} was changed and is used outside the change in {_listed(files)}"
                found.append((len(files), Finding("callers", symbol.place.partition("-")[0], message)))
    return [finding for _, finding in sorted(found, key=lambda pair: (-pair[0], pair[1].place))]


def _risks(history: History, revisions: Sequence[diff.Revision], base: str) -> list[Finding]:
    changed = (one for one in revisions if one.is_product and (one.code.added or one.code.removed))
    paths = [one.path for one in changed if one.change.state != "added"]
    try:
        return diff.risks(history.subjects(paths[:MOST_RISKY], base, RISK_DAYS), RISK_DAYS)
    except GitFailed:
        return []  # the rest of the review stands


def _without_tests(project: ProjectKnowledge, code: CodeOperations, revisions: Iterable[diff.Revision]) -> list[str]:
    """Changed code that no test imports or is named after."""
    paths = [one.path for one in revisions if one.change.state != "removed" and one.kind is FileKind.CODE]
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
            continue  # a file that git cannot blame has no author to propose
    return diff.reviewers(blames, largest[:MOST_BLAMED])
