"""The packet for a review: from a git revision to the files as they are now, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from codeinfo.engine.history import History
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.memories import Memories
from codeinfo.engine.pattern_state import PatternState
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.knowledge.review import Difference, against_the_grain, changed_symbols, difference, reviewers
from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.operations.code import RefsRequest
from codeinfo.operations.knowledge import ChangedSymbol, Reviewer, ReviewPacket, ReviewRequest
from codeinfo.sources.files import read_regular
from codeinfo.sources.git import GitFailed
from codeinfo.sources.read import decode
from codeinfo.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from codeinfo.engine.code import CodeOperations


MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
MOST_FILES = 200  # compared line by line; a change of more is reviewed in parts
MOST_BLAMED = 40
MOST_SYMBOLS = 40  # whose callers are looked up
MAX_FILE_BYTES = 1_000_000
CALLERS_SHOWN = 5


class Project(Protocol):
    history: History
    memories: Memories

    @property
    def patterns(self) -> PatternState: ...


def review(
    code: CodeOperations, keeper: IndexManager, store: SqliteStore, project: Project, request: ReviewRequest, now: float
) -> ReviewPacket:
    base = _base(project.history, request.base)
    notes: list[str] = []
    changes = _changes(keeper, store, project.history, base, notes)
    symbols = _symbols(code, keeper, store, changes)
    paths = {change.path for change in changes}
    names = {symbol.name for symbol in symbols}
    memories, said = project.memories.related(" ".join(sorted(names)), paths, names, now)
    files = tuple(change.summary() for change in changes)
    untested = _missing_tests(code, keeper, changes)
    patterns = _patterns(keeper, store, project, changes, now)
    people = _reviewers(project.history, base, changes)
    most = request.limit
    return ReviewPacket(
        base=base,
        files=files[:most],
        symbols=tuple(symbols[:most]),
        missing_tests=tuple(untested[:most]),
        patterns=tuple(patterns[:most]),
        memories=memories,
        reviewers=tuple(people[:most]),
        totals={
            "files": len(files),
            "symbols": len(symbols),
            "missing_tests": len(untested),
            "patterns": len(patterns),
            "reviewers": len(people),
        },
        notes=(*notes, *said),
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
        raise NotFound(f"{wanted or 'HEAD'!r} is no commit of this repository", next_step="Name another") from error
    return point if point and point != head else head


def _changes(
    keeper: IndexManager, store: SqliteStore, history: History, base: str, notes: list[str]
) -> list[Difference]:
    listed = store.manifest()
    changed = sorted(history.changed_from(base))
    if len(changed) > MOST_FILES:
        notes.append(f"{len(changed)} files changed; the first {MOST_FILES} are compared")
    found = []
    for path in changed[:MOST_FILES]:
        before, after = history.committed_text(base, path), _text(keeper, path)
        if path not in listed and after is not None:
            continue  # what the index leaves out is not for review either
        one = difference(path, before, after)
        if one.added or one.removed:
            found.append(one)
    return found


def _text(keeper: IndexManager, path: str) -> str | None:
    try:
        text = decode(read_regular(str(keeper.root), path, MAX_FILE_BYTES))
    except OSError:
        return None
    return text.content if text else None


def _symbols(
    code: CodeOperations, keeper: IndexManager, store: SqliteStore, changes: Sequence[Difference]
) -> list[ChangedSymbol]:
    inside = {change.path for change in changes}
    found: list[ChangedSymbol] = []
    for change in changes:
        known = store.symbols(change.path) if kind_of(change.path, language_of(change.path)) is FileKind.CODE else None
        for symbol in changed_symbols(change, known.definitions) if known else ():
            callers = _callers(code, keeper, change.path, symbol.name, inside) if len(found) < MOST_SYMBOLS else ()
            found.append(replace(symbol, callers=callers))
    return sorted(found, key=lambda symbol: (-len(symbol.callers), -symbol.lines, symbol.place))


def _callers(code: CodeOperations, keeper: IndexManager, path: str, name: str, inside: set[str]) -> tuple[str, ...]:
    request = RefsRequest(name=f"{path}::{name}", path=str(keeper.root), limit=200, refresh=False)
    try:
        report = code.references(request)
    except CodeInfoError:
        return ()  # a name that nothing can refer to, such as a block of a configuration
    outside = [f"{use.file}:{use.line}" for use in report.usages if use.file not in inside]
    return tuple(dict.fromkeys(outside))[:CALLERS_SHOWN]


def _missing_tests(code: CodeOperations, keeper: IndexManager, changes: Sequence[Difference]) -> list[str]:
    """Changed code that no test imports or is named after."""
    paths = [
        change.path
        for change in changes
        if change.state != "removed" and kind_of(change.path, language_of(change.path)) is FileKind.CODE
    ]
    relations = code.relations(keeper, paths)
    return [path for path in paths if path in relations and not relations[path].tests]


def _patterns(
    keeper: IndexManager, store: SqliteStore, project: Project, changes: Sequence[Difference], now: float
) -> list[str]:
    state = project.patterns
    report = state.report(store, now)
    uses = {}
    for change in changes:
        language = language_of(change.path)
        text = _text(keeper, change.path) if language and state.matcher.knows(language.name) else None
        if language is not None and text is not None:
            uses[change.path] = state.matcher.uses(text, language.name, change.path)
    state.matcher.close()
    return against_the_grain(uses, changes, state.matcher.detectors, report.patterns)


def _reviewers(history: History, base: str, changes: Sequence[Difference]) -> list[Reviewer]:
    largest = sorted((c for c in changes if c.state != "added"), key=lambda c: (-len(c.removed), c.path))
    blames = {}
    for change in largest[:MOST_BLAMED]:
        try:
            blames[change.path] = history.blame(change.path, revision=base)
        except GitFailed:
            continue  # a file that git cannot blame has no author to propose
    return reviewers(blames, largest[:MOST_BLAMED])
