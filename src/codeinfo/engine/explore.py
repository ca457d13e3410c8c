"""One symbol, file or place with its surroundings: definition, callers, callees, tests, commits, memories."""

from __future__ import annotations

import re

from msgspec.structs import replace

from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.errors import NotFound, UsageError
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import relations
from codeinfo.graph.names import NameResolver
from codeinfo.graph.references import Lookup, callees, find_uses, look_up_defined, symbol_info, usages
from codeinfo.knowledge.history import History
from codeinfo.languages.model import is_inline_test
from codeinfo.operations.code import Exploration, ExploreRequest, Usage
from codeinfo.sources.git import GitFailed

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
