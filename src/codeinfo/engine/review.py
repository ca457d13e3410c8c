"""The packet for a review: from a git revision to the files as they are now, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from codeinfo.engine.code import CodeOperations
from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.knowledge.history import History
from codeinfo.knowledge.review import Difference, changed_symbols, compare, reviewers, unusual_patterns
from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.operations.code import RefsRequest
from codeinfo.operations.knowledge import ChangedSymbol, Reviewer, ReviewPacket, ReviewRequest
from codeinfo.sources.git import GitFailed
from codeinfo.store.sqlite import SqliteStore

MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
MOST_FILES = 200  # compared line by line; a change of more is reviewed in parts
MOST_BLAMED = 40
MOST_SYMBOLS = 40  # whose callers are looked up
CALLERS_SHOWN = 5


def review_change(
    project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, request: ReviewRequest, now: float
) -> ReviewPacket:
    base = _base(project.history, request.base)
    changes, notes = _changes(project, store, base)
    symbols = _symbols(project, store, code, changes)
    names = {symbol.name for symbol in symbols}
    memories, memory_notes = project.related_memories(
        " ".join(sorted(names)), {change.path for change in changes}, names, now
    )
    untested = _untested(project, code, changes)
    patterns = _patterns(project, store, changes, now)
    people = _reviewers(project.history, base, changes)
    most = request.limit
    return ReviewPacket(
        base=base,
        files=tuple(change.summary() for change in changes[:most]),
        symbols=tuple(symbols[:most]),
        missing_tests=tuple(untested[:most]),
        patterns=tuple(patterns[:most]),
        memories=memories,
        reviewers=tuple(people[:most]),
        totals={
            "files": len(changes),
            "symbols": len(symbols),
            "missing_tests": len(untested),
            "patterns": len(patterns),
            "reviewers": len(people),
        },
        notes=(*notes, *memory_notes),
    )


def _base(history: History, wanted: str) -> str:
    if not history.known:
        raise UsageError(
            "there is no history to compare with", next_step="A review needs a git repository, not shallow"
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


def _changes(project: ProjectKnowledge, store: SqliteStore, base: str) -> tuple[list[Difference], list[str]]:
    listed = store.manifest()
    changed = sorted(project.history.changed_from(base))
    left_out = f"{len(changed)} files changed; the first {MOST_FILES} are compared"
    found = []
    for path in changed[:MOST_FILES]:
        before, after = project.history.committed_text(base, path), project.text(path)
        if path not in listed and after is not None:
            continue  # what the index leaves out is not for review either
        one = compare(path, before, after)
        if one.added or one.removed:
            found.append(one)
    return found, [left_out] if len(changed) > MOST_FILES else []


def _is_code(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.CODE


def _symbols(
    project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, changes: Sequence[Difference]
) -> list[ChangedSymbol]:
    inside = {change.path for change in changes}
    found: list[ChangedSymbol] = []
    for change in changes:
        known = store.symbols(change.path) if _is_code(change.path) else None
        for symbol in changed_symbols(change, known.definitions) if known else ():
            callers = _callers(project, code, change.path, symbol.name, inside) if len(found) < MOST_SYMBOLS else ()
            found.append(replace(symbol, callers=callers))
    return sorted(found, key=lambda symbol: (-len(symbol.callers), -symbol.lines, symbol.place))


def _callers(
    project: ProjectKnowledge, code: CodeOperations, path: str, name: str, inside: set[str]
) -> tuple[str, ...]:
    request = RefsRequest(name=f"{path}::{name}", path=str(project.root), limit=200, refresh=False)
    try:
        report = code.references(request)
    except CodeInfoError:
        return ()  # a name that nothing can refer to, such as a block of a configuration
    outside = [f"{use.file}:{use.line}" for use in report.usages if use.file not in inside]
    return tuple(dict.fromkeys(outside))[:CALLERS_SHOWN]


def _untested(project: ProjectKnowledge, code: CodeOperations, changes: Sequence[Difference]) -> list[str]:
    """Changed code that no test imports or is named after."""
    paths = [change.path for change in changes if change.state != "removed" and _is_code(change.path)]
    relations = code.relations(project.index, paths)
    return [path for path in paths if path in relations and not relations[path].tests]


def _patterns(project: ProjectKnowledge, store: SqliteStore, changes: Sequence[Difference], now: float) -> list[str]:
    report = project.patterns.report(store, now)
    texts = {change.path: text for change in changes if (text := project.text(change.path)) is not None}
    uses = project.patterns.uses_in(texts)
    return unusual_patterns(uses, changes, project.patterns.detectors, report.patterns)


def _reviewers(history: History, base: str, changes: Sequence[Difference]) -> list[Reviewer]:
    largest = sorted((c for c in changes if c.state != "added"), key=lambda c: (-len(c.removed), c.path))
    blames = {}
    for change in largest[:MOST_BLAMED]:
        try:
            blames[change.path] = history.blame(change.path, revision=base)
        except GitFailed:
            continue  # a file that git cannot blame has no author to propose
    return reviewers(blames, largest[:MOST_BLAMED])
