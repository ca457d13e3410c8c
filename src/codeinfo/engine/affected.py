"""Which files an edit may give another meaning to: those that import what changed, over however many files between."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codeinfo.engine.graphing import resolved_with
from codeinfo.graph.model import Graph
from codeinfo.graph.resolve import BY_NAME
from codeinfo.languages.tree import FileFacts, family, is_config

Visible = Callable[[FileFacts], Iterable[str]]  # the files whose names a file may use without an import


def affected(before: Graph, after: Graph, visible: Visible) -> set[str]:
    """Paths of files in which a name may mean something else in `after` than it did in `before`."""
    edited = {path for path in after.files if not _is_same(before, after, path)}
    gone = before.files.keys() - after.files.keys()
    if not edited and not gone:
        return set()
    if any(is_config(path) for path in (*edited, *gone)):
        return set(after.files)
    came = edited - before.files.keys()
    moved = {_group(after, path) for path in came} | {_group(before, path) for path in gone}
    reached = edited | gone | {path for path in after.files if moved and _group(after, path) in moved}
    _spread(reached, before, after, visible)
    return reached & after.files.keys()


def _is_same(before: Graph, after: Graph, path: str) -> bool:
    known = before.files.get(path)
    return known is not None and known.file_id == after.files[path].file_id


def _group(graph: Graph, path: str) -> str:
    """A file that came or went may be what others of its language could not find, or found."""
    return resolved_with(family(graph.files[path].language))


def _spread(reached: set[str], before: Graph, after: Graph, visible: Visible) -> None:
    """Add who depends on the reached files. A type's members may lie in any file that is visible beside its own."""
    beside: dict[str, frozenset[str]] | None = None
    border = set(reached)
    while border:
        found = {source for graph in (before, after) for path in border for source in graph.sources.get(path, ())}
        if any(path in after.files and after.files[path].language in BY_NAME for path in border):
            if beside is None:
                beside = {p: frozenset(visible(one)) for p, one in after.files.items() if one.language in BY_NAME}
            found |= {path for path, seen in beside.items() if path not in reached and not seen.isdisjoint(border)}
        border = found - reached
        reached |= border
