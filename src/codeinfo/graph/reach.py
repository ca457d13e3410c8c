"""Cycles, and what a change reaches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from codeinfo.graph.facts import Edge

SEVERITY = {2: "high", 3: "medium"}  # the shorter a cycle, the tighter its files hang together
IMPACT_HOPS = 2


class Cycle(Struct, frozen=True):
    """A shortest cycle: `edges` lead from each file to the next and back to the first."""

    edges: tuple[Edge, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(edge.source for edge in self.edges)

    @property
    def severity(self) -> str:
        return SEVERITY.get(len(self.edges), "low")


def components(following: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Groups of files that reach each other (Tarjan's algorithm, without recursion), each with two files or more."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    groups: list[tuple[str, ...]] = []
    for root in following:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _enter(root, index, low, stack, on_stack, work, following)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    _enter(successor, index, low, stack, on_stack, work, following)
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = _leave(node, stack, on_stack)
                    if len(group) > 1:
                        groups.append(group)
    return groups


def _enter(
    node: str,
    index: dict[str, int],
    low: dict[str, int],
    stack: list[str],
    on_stack: set[str],
    work: list[tuple[str, Iterator[str]]],
    following: Mapping[str, Sequence[str]],
) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)
    on_stack.add(node)
    work.append((node, iter(following.get(node, ()))))


def _leave(node: str, stack: list[str], on_stack: set[str]) -> tuple[str, ...]:
    cut = stack.index(node)
    group = tuple(stack[cut:])
    del stack[cut:]
    on_stack.difference_update(group)
    return group


def cycles(edges: Sequence[Edge]) -> list[Cycle]:
    """For every file on a cycle a shortest one through it, each cycle once; the shortest first.

    There can be exponentially many cycles; these few show every file that is on one, and every tight pair.
    """
    out: dict[str, dict[str, Edge]] = {}
    for edge in edges:
        if not edge.implicit:
            out.setdefault(edge.source, {})[edge.target] = edge
    found: dict[frozenset[str], Cycle] = {}
    for group in components({source: list(targets) for source, targets in out.items()}):
        inside = set(group)
        for start in group:
            pairs = [target for target in out[start] if target in inside and start in out.get(target, ())]
            for target in pairs:
                found.setdefault(frozenset((start, target)), _cycle([start, target], out))
            if not pairs and (path := _shortest(start, out, inside)):
                found.setdefault(frozenset(path), _cycle(path, out))
    return sorted(found.values(), key=lambda cycle: (len(cycle.edges), cycle.files))


def _cycle(path: list[str], out: Mapping[str, Mapping[str, Edge]]) -> Cycle:
    """Turned so that the first file in the alphabet starts it."""
    first = path.index(min(path))
    turned = path[first:] + path[:first]
    return Cycle(tuple(out[a][b] for a, b in zip(turned, [*turned[1:], turned[0]], strict=True)))


def _shortest(start: str, out: Mapping[str, Mapping[str, Edge]], inside: set[str]) -> list[str]:
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target in out.get(node, ()):
            if target == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if target in inside and target not in came_from:
                came_from[target] = node
                queue.append(target)
    return []


class Reached(Struct, frozen=True):
    """A file that a change may affect: `via` is the file it needs, at `line`; `hops` away from the change."""

    path: str
    line: int
    via: str
    hops: int


def impact(
    changed: Sequence[str],
    importers: Mapping[str, Sequence[Edge]],
    weight: Mapping[str, float],
    hops: int = IMPACT_HOPS,
) -> list[Reached]:
    """Who needs the changed files, directly or through others; near ones first, then important ones."""
    seen = set(changed)
    reached: list[Reached] = []
    border = list(changed)
    for hop in range(1, hops + 1):
        found: dict[str, Reached] = {}
        for path in border:
            for edge in importers.get(path, ()):
                if edge.source not in seen:
                    found.setdefault(edge.source, Reached(edge.source, edge.line, path, hop))
        seen.update(found)
        border = list(found)
        reached += sorted(found.values(), key=lambda one: (-weight.get(one.path, 0.0), one.path))
    return reached
