"""Which files an edit may give another meaning to: those that import what changed, over however many files between."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codeinfo.engine.graphing import resolved_with
from codeinfo.graph.facts import FileFacts
from codeinfo.graph.model import Graph
from codeinfo.graph.tree import family, is_config

Visible = Callable[[FileFacts], Iterable[str]]  # the files whose names a file may use without an import


def affected(before: Graph, after: Graph, visible: Visible) -> set[str]:
    """Paths of files in which a name may mean something else in `after` than it did in `before`."""
    edited = {path for path, facts in after.files.items() if before.files.get(path) is not facts}
    gone = before.files.keys() - after.files.keys()
    edited = {path for path in edited if not _is_same(before, after, path)}
    if not edited and not gone:
        return set()
    if any(is_config(path) for path in (*edited, *gone)):
        return set(after.files)
    came = edited - before.files.keys()
    moved = {_group(after, path) for path in came} | {_group(before, path) for path in gone}
    reached = edited | gone | {path for path in after.files if _group(after, path) in moved}
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
    beside = {path: frozenset(visible(facts)) for path, facts in after.files.items() if path not in reached}
    beside = {path: seen for path, seen in beside.items() if seen}
    border = set(reached)
    while border:
        found = {edge.source for graph in (before, after) for path in border for edge in graph.edges_to(path)}
        found |= {path for path, seen in beside.items() if not seen.isdisjoint(border)}
        border = found - reached
        reached |= border
        beside = {path: seen for path, seen in beside.items() if path not in border}
