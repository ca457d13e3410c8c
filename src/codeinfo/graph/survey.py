"""A codebase at a glance: its areas and their layers, where it starts, what all of it stands on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from codeinfo.graph.model import Graph
from codeinfo.graph.reach import components
from codeinfo.languages.tree import FileFacts

_STARTS = re.compile(r"^(?:__main__|main|index|app|application|server|cli|cmd|manage|wsgi|asgi|program|lib|mod|root)$")


class Area(Struct, frozen=True):
    """A folder as one thing. Layer 0 needs no other area; a higher one stands on lower ones."""

    name: str
    files: tuple[str, ...]
    layer: int
    centrality: float  # the sum over its files, the largest area having 1
    needs: Mapping[str, int]  # area → imports
    in_cycle: bool
    hub: str  # its most central file


def is_source(facts: FileFacts) -> bool:
    return facts.kind == "code"


def entry_points(graph: Graph, limit: int) -> list[str]:
    """Files that start something: nothing imports them, but they import others; well-known names first."""
    found = []
    for path, facts in graph.files.items():
        edges = graph.edges_from(path)
        if is_source(facts) and edges and not any(is_source(graph.files[e.source]) for e in graph.edges_to(path)):
            stem = path.rpartition("/")[2].partition(".")[0].lower()
            found.append((not _STARTS.match(stem), path.count("/"), -len(edges), path))
    return [path for *_, path in sorted(found)[:limit]]


def hubs(graph: Graph, limit: int) -> list[str]:
    ranked = sorted(graph.centrality.items(), key=lambda pair: (-pair[1], pair[0]))
    return [path for path, _ in ranked if is_source(graph.files[path])][:limit]


def areas(graph: Graph, limit: int) -> list[Area]:
    """The codebase cut into at most `limit` folders of comparable size, in layers."""
    groups = _grouped([path for path, facts in graph.files.items() if is_source(facts)], limit, graph)
    area_of = {path: name for name, files in groups.items() for path in files}
    needs: dict[str, Counter[str]] = {name: Counter() for name in groups}
    for path, name in area_of.items():
        for edge in graph.edges_from(path):
            other = area_of.get(edge.target, name)
            if other != name:
                needs[name][other] += 1
    weight = {name: sum(graph.centrality.get(path, 0.0) for path in files) for name, files in groups.items()}
    layers, circular = layered(needs, weight)
    top = max(weight.values(), default=0.0) or 1.0
    return [
        Area(
            name=name,
            files=tuple(files),
            layer=layers[name],
            centrality=round(weight[name] / top, 4),
            needs=dict(needs[name].most_common()),
            in_cycle=name in circular,
            hub=max(files, key=lambda path: graph.centrality.get(path, 0.0)),
        )
        for name, files in sorted(groups.items(), key=lambda group: (-layers[group[0]], -weight[group[0]], group[0]))
    ]


def _grouped(paths: Sequence[str], limit: int, graph: Graph) -> dict[str, list[str]]:
    """Split the largest folder into those below it as long as the number of areas allows."""
    linked = [path for path in paths if graph.edges_from(path) or graph.edges_to(path)]
    groups: dict[str, list[str]] = {"": linked}
    whole: set[str] = set()
    while True:
        splittable = [name for name in groups if name not in whole and len(groups[name]) > 1]
        if not splittable:
            break
        largest = max(splittable, key=lambda name: (len(groups[name]), name))
        parts = _split(largest, groups[largest])
        if (len(parts) < 2 and largest in parts) or len(groups) - 1 + len(parts) > limit:
            whole.add(largest)
        else:
            del groups[largest]
            groups.update(parts)
    return {_label(name, files): files for name, files in groups.items() if files}


def _split(folder: str, paths: Iterable[str]) -> dict[str, list[str]]:
    """By the next folder; files that lie in `folder` itself become `folder/*`, and that falls apart into its files."""
    parts: dict[str, list[str]] = {}
    if folder.rpartition("/")[2] == "*":
        return {path: [path] for path in paths}
    depth = len(folder.split("/")) if folder else 0
    for path in paths:
        pieces = path.split("/")
        below = "/".join(pieces[: depth + 1]) if len(pieces) > depth + 1 else f"{folder}/*".lstrip("/")
        parts.setdefault(below, []).append(path)
    return parts


def _label(name: str, files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else name or "."


def layered(needs: Mapping[str, Mapping[str, int]], weight: Mapping[str, float]) -> tuple[dict[str, int], set[str]]:
    """Layer of each area, and the areas that need each other in a circle.

    A circle has no layers by itself: in it, what is needed more counts as lower, and what points upwards is left aside.
    """
    groups = components({name: list(targets) for name, targets in needs.items()})
    group_of = {name: number for number, group in enumerate(groups) for name in group}

    def is_upward(name: str, target: str) -> bool:
        together = name in group_of and group_of[name] == group_of.get(target)
        return together and (weight[target], target) < (weight[name], name)

    following = {name: [to for to in targets if not is_upward(name, to)] for name, targets in needs.items()}
    height: dict[str, int] = {}
    waiting = list(following)
    while waiting:
        node = waiting[-1]
        missing = [target for target in following[node] if target not in height]
        if node in height or not missing:
            height.setdefault(node, 1 + max((height[target] for target in following[node]), default=-1))
            waiting.pop()
        else:
            waiting += missing
    return height, set(group_of)
