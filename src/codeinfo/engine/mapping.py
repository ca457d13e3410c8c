"""`map`: the codebase at a glance, from its graph, its types and its history."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from codeinfo.engine.history import History
from codeinfo.engine.hotspots import hotspots
from codeinfo.engine.referencing import symbol_info
from codeinfo.engine.world import IndexWorld
from codeinfo.graph.mermaid import mermaid
from codeinfo.graph.model import Graph
from codeinfo.graph.picture import svg
from codeinfo.graph.reach import cycles
from codeinfo.graph.scopes import TYPE_KINDS
from codeinfo.graph.survey import Area, areas, entry_points, hubs
from codeinfo.model import Definition
from codeinfo.operations.code import CodeMap, HotspotsRequest, MapArea, MapFile, MapRequest, SymbolInfo

PICTURE_AREAS = 24  # more boxes than this are no picture any more


def code_map(world: IndexWorld, root: Path, request: MapRequest) -> CodeMap:
    """Drawn once for a generation, a state of the history and a day: it reads every definition there is."""
    key = (request.format, request.limit, History(root).key(), int(time.time() // 86_400))
    known = world.maps.get(key)
    return known if known is not None else world.maps.add(key, _draw(world, root, request))


def _draw(world: IndexWorld, root: Path, request: MapRequest) -> CodeMap:
    graph = world.graph
    cut = areas(graph, max(request.limit, PICTURE_AREAS) if request.format != "text" else request.limit)
    external, unresolved = graph.loose
    history = hotspots(world.facts, root, HotspotsRequest(str(root), limit=request.limit))
    languages = Counter(file.language for file in graph.files.values() if file.kind in ("code", "tests"))
    return CodeMap(
        root=str(root),
        files=len(graph.files),
        edges=graph.edge_count,
        languages=dict(languages.most_common()),
        entry_points=tuple(_file(graph, path) for path in entry_points(graph, request.limit)),
        hubs=tuple(_file(graph, path) for path in hubs(graph, request.limit)),
        areas=tuple(_area(area) for area in cut),
        interfaces=_interfaces(world, request.limit),
        hotspots=history.hotspots,
        cycles=len(cycles([edge for links in graph.links.values() for edge in links.edges])),
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
    note = f"{len(graph.files):,} files, {graph.edge_count:,} imports. "
    note += "Below: what is needed. Larger: needed by more. Red: folders that need each other."
    return svg(name, cut, note) if form == "svg" else ""


def _interfaces(world: IndexWorld, limit: int) -> tuple[SymbolInfo, ...]:
    """The types that most others extend or implement."""
    heirs: Counter[str] = Counter()
    types: dict[str, list[tuple[int, Definition]]] = {}
    for file_id, definition in world.facts.outlines():
        file = world.by_id.get(file_id)
        if file is None or file.kind != "code" or definition.kind not in TYPE_KINDS:
            continue
        heirs.update({base.replace("::", ".").replace("\\", ".").rpartition(".")[2] for base in definition.bases})
        if definition.kind not in ("impl", "extension"):
            types.setdefault(definition.name, []).append((file_id, definition))
    found = []
    for name, _ in heirs.most_common():
        defined = types.get(name, [])
        if len(defined) == 1:  # a name that several files define cannot be told apart by name alone
            file_id, definition = defined[0]
            found.append(symbol_info(world.by_id[file_id].path, definition))
        if len(found) == limit:
            break
    return tuple(found)
