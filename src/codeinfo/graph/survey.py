"""A codebase at a glance: its areas and their layers, where it starts, what all of it stands on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.drawing import mermaid, svg
from codeinfo.graph.model import Area, Graph
from codeinfo.graph.reach import components, cycles, hotspots
from codeinfo.graph.references import symbol_info
from codeinfo.languages.model import FileFacts
from codeinfo.model import Definition
from codeinfo.operations.code import CodeMap, HotspotsRequest, MapArea, MapFile, MapRequest, SymbolInfo

_STARTS = re.compile(r"^(?:__main__|main|index|app|application|server|cli|cmd|manage|wsgi|asgi|program|lib|mod|root)$")
_PICTURE_AREAS = 24  # more boxes than this are no picture any more


def code_map(index: CodeIndex, request: MapRequest) -> CodeMap:
    graph, root = index.graph, index.root
    cut = areas(graph, max(request.limit, _PICTURE_AREAS) if request.format != "text" else request.limit)
    external, unresolved = graph.loose
    history = hotspots(index.facts, root, HotspotsRequest(str(root), limit=request.limit))
    languages = Counter(file.language for file in graph.files.values() if file.kind in ("code", "tests"))
    return CodeMap(
        root=str(root),
        files=len(graph.files),
        edges=len(graph.edges),
        languages=dict(languages.most_common()),
        entry_points=tuple(_file(graph, path) for path in entry_points(graph, request.limit)),
        hubs=tuple(_file(graph, path) for path in hubs(graph, request.limit)),
        areas=tuple(_area(area) for area in cut),
        interfaces=_interfaces(index, request.limit),
        hotspots=history.hotspots,
        cycles=len(cycles(graph.edges)),
        external=external,
        unresolved=unresolved,
        picture=_picture(root.name, graph, cut, request.format),
        notes=history.notes,
    )


def _file(graph: Graph, path: str) -> MapFile:
    into, out = graph.edges_to(path), graph.edges_from(path)
    return MapFile(path, graph.centrality.get(path, 0.0), len(into), len(out))


def _area(area: Area) -> MapArea:
    return MapArea(area.name, area.layer, len(area.files), area.centrality, dict(area.needs), area.in_cycle)


def _picture(name: str, graph: Graph, cut: list[Area], form: str) -> str:
    if form == "mermaid":
        return mermaid(cut)
    note = f"{len(graph.files):,} files, {len(graph.edges):,} imports. "
    note += "Below: what is needed. Larger: needed by more. Red: folders that need each other."
    return svg(name, cut, note) if form == "svg" else ""


def _interfaces(index: CodeIndex, limit: int) -> tuple[SymbolInfo, ...]:
    """The types that most others extend or implement."""
    heirs: Counter[str] = Counter()
    types: dict[str, list[tuple[int, Definition]]] = {}
    for file_id, definition in index.facts.outlines():
        file = index.by_id.get(file_id)
        if file is None or file.kind != "code" or not definition.is_type:
            continue
        heirs.update({base.replace("::", ".").replace("\\", ".").rpartition(".")[2] for base in definition.bases})
        if definition.kind not in ("impl", "extension"):
            types.setdefault(definition.name, []).append((file_id, definition))
    found = []
    for name, _ in heirs.most_common():
        defined = types.get(name, [])
        if len(defined) == 1:  # a name that several files define cannot be told apart by name alone
            file_id, definition = defined[0]
            found.append(symbol_info(index.by_id[file_id].path, definition))
        if len(found) == limit:
            break
    return tuple(found)


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
    layers, in_cycle = layered(needs, weight)
    top = max(weight.values(), default=0.0) or 1.0
    return [
        Area(
            name=name,
            files=tuple(files),
            layer=layers[name],
            centrality=round(weight[name] / top, 4),
            needs=dict(needs[name].most_common()),
            in_cycle=name in in_cycle,
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
    """Layer of each area, and the areas that are in a cycle.

    A cycle has no layers by itself: in it, what is needed more counts as lower, and edges upwards are ignored.
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
