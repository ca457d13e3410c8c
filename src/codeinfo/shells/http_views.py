"""What the pages show, made of what the engine answered: plain values for the templates, no HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from codeinfo.requests.answers import Citation, GradedItem, Turn
from codeinfo.requests.code import CodeMap, MapArea, MapFile
from codeinfo.search.policy import PolicyItem, PolicySettings, apply_policy, numeric
from codeinfo.shells.paper import counted

_NO_CUT = 10**9


class MatchView(Struct, frozen=True):
    path: str
    start: int
    end: int
    distance: float | None
    grade: float | None
    preview: str
    root: str


class FileView(Struct, frozen=True):
    path: str
    lowest: float | None
    matches: tuple[MatchView, ...]


class CallView(Struct, frozen=True):
    """One row of the tool details: a search of the answer loop or a tool that the model called."""

    name: str
    argument: str
    outcome: str
    failed: bool
    files: tuple[FileView, ...] = ()
    dropped: tuple[str, ...] = ()


# --- tool details --------------------------------------------------------------------------------------------------


def calls_of(turn: Turn, root: str) -> tuple[CallView, ...]:
    """The searches of a turn and the tools that the model called, each with what it brought. `root` is where passages
    lie that do not say it themselves."""
    rounds = [
        CallView(
            "search",
            entry.query,
            f"{counted(len(entry.items), 'passage')}, {len(entry.dropped)} dropped, {_verdict(entry.verdict)}",
            False,
            _files(entry.items, root),
            tuple(f"{one.path}:{one.start_line}-{one.end_line}: {one.rule}, {one.detail}" for one in entry.dropped),
        )
        for entry in turn.rounds
    ]
    tools = [
        CallView(use.name, use.arguments, use.outcome, use.failed, _files(use.items, root)) for use in turn.tool_calls
    ]
    return (*rounds, *tools)


def _verdict(word: str) -> str:
    """What the loop decided after a search, for those who do not know its words."""
    return {"answer": "enough to answer", "refine": "searched once more", "rewrite": "searched in other words"}.get(
        word, word
    )


def _files(items: Sequence[GradedItem], root: str) -> tuple[FileView, ...]:
    matches: dict[str, list[MatchView]] = {}
    for item in items:
        distance = numeric(item.distance.value) if item.distance else None
        view = MatchView(
            item.path, item.start_line, item.end_line, distance, item.score, item.preview, item.root or root
        )
        matches.setdefault(item.path, []).append(view)
    return tuple(FileView(path, lowest(own), tuple(own)) for path, own in matches.items())


def lowest(matches: Iterable[MatchView]) -> float | None:
    return min((one.distance for one in matches if one.distance is not None), default=None)


# --- citations -----------------------------------------------------------------------------------------------------


def shown_citations(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """Deduplicated within a file, then the two closest of each file, ties by order: the policy's own steps."""
    items = [
        PolicyItem(
            repo=one.root,
            rel_path=one.path,
            chunk_id=f"{one.start_line}-{one.end_line}",
            text=f"{one.path}:{one.start_line}-{one.end_line}",
            distance=one.distance.value if one.distance else None,
            payload=one,
        )
        for one in citations
    ]
    every = PolicySettings(cutoff_disabled=True, chunk_max_chars=_NO_CUT, max_chars=_NO_CUT)
    return tuple(item.payload for item in apply_policy(items, every).kept)


# --- conversations -------------------------------------------------------------------------------------------------


class TurnView(Struct, frozen=True):
    """A turn as the page shows it: `citations` are all, `sources` those worth listing."""

    role: str
    text: str
    status: str
    citations: tuple[Citation, ...] = ()
    sources: tuple[Citation, ...] = ()
    calls: tuple[CallView, ...] = ()
    model: str = ""
    provider: str = ""
    tokens: int | None = None
    took_ms: float | None = None
    error: str = ""
    notes: tuple[str, ...] = ()


def turn_view(turn: Turn, root: str = "") -> TurnView:
    tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens if turn.usage else None
    return TurnView(
        turn.role,
        turn.content,
        turn.status,
        turn.citations,
        shown_citations(turn.citations),
        calls_of(turn, root),
        turn.model,
        turn.provider,
        tokens,
        turn.took_ms,
        turn.error,
        turn.notes,
    )


# --- map -----------------------------------------------------------------------------------------------------------

_BOX, _GAP, _ROW, _EDGE_MARGIN = 168, 24, 108, 28  # pixels
_HEIGHT = 56
_ARC = 46  # how far the bow of an edge within a row is drawn up
_PER_ROW = 6
_LABEL_CHARS = 19


class BoxView(Struct, frozen=True):
    area: MapArea
    x: int
    y: int
    width: int
    height: int
    hub: bool
    label: str
    below: str  # the second line: how many files, or the folder of a single one


class EdgeView(Struct, frozen=True):
    path: str
    cycle: bool
    weight: int
    title: str
    start: str
    end: str


class PictureView(Struct, frozen=True):
    width: int
    height: int
    boxes: tuple[BoxView, ...]
    edges: tuple[EdgeView, ...]


def picture_of(code_map: CodeMap) -> PictureView:
    """Areas in layers: what needs the others above, what they all need below."""
    layers: dict[int, list[MapArea]] = {}
    for area in code_map.areas:
        layers.setdefault(area.layer, []).append(area)
    rows = [
        own[at : at + _PER_ROW]
        for _, own in sorted(layers.items(), reverse=True)
        for at in range(0, len(own), _PER_ROW)
    ]
    widest = max((len(row) for row in rows), default=1)
    width = widest * (_BOX + _GAP) - _GAP + 2 * _EDGE_MARGIN
    top = sorted(code_map.areas, key=lambda area: -area.centrality)[:3]
    boxes: dict[str, BoxView] = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_BOX + _GAP) + _GAP) // 2
        for place, area in enumerate(row):
            x, y = left + place * (_BOX + _GAP), _EDGE_MARGIN + number * _ROW
            boxes[area.name] = BoxView(area, x, y, _BOX, _HEIGHT, area in top, _label(area), _below(area))
    edges = tuple(edge for area in code_map.areas for edge in _edges(boxes, area))
    height = 2 * _EDGE_MARGIN + (max(len(rows), 1) - 1) * _ROW + _HEIGHT
    return PictureView(width, height, tuple(boxes.values()), edges)


def area_name(name: str) -> str:
    """A folder, a file, or the files that lie in the top folder itself."""
    return name.removesuffix("/*").replace("*", "") or "the top folder"


def files_of(area: str, files: Sequence[MapFile]) -> tuple[MapFile, ...]:
    """Those of `files` that the area stands for: `src/*` is what lies in `src` itself, `src` also what is below."""
    folder = area.strip("/*")
    if area == ".":
        return tuple(files)
    if area.endswith("*"):
        return tuple(one for one in files if one.path.rpartition("/")[0] == folder)
    return tuple(one for one in files if one.path == area or one.path.startswith(f"{area}/"))


def _below(area: MapArea) -> str:
    return counted(area.files, "file") if area.files != 1 else _shortened(area.name.rpartition("/")[0])


def _label(area: MapArea) -> str:
    name = area_name(area.name)
    return _shortened(name.rpartition("/")[2] if area.files == 1 else name)


def _shortened(name: str) -> str:
    """The end of a path says most of it."""
    parts = name.split("/")
    while len(parts) > 1 and len("/".join(parts)) > _LABEL_CHARS:
        parts = parts[1:]
    label = "/".join(parts)
    return label if len(label) <= _LABEL_CHARS else f"…{label[1 - _LABEL_CHARS :]}"


def _edges(boxes: Mapping[str, BoxView], area: MapArea) -> Iterable[EdgeView]:
    start = boxes[area.name]
    for name, count in area.needs.items():
        end = boxes.get(name)
        if end is None or end is start:
            continue
        x1, x2 = start.x + start.width // 2, end.x + end.width // 2
        y1, y2 = (start.y + start.height, end.y) if end.y > start.y else (start.y, end.y + end.height)
        middle = (y1 + y2) // 2
        if end.y == start.y:  # an arc above both, since a line would pass behind what stands between them
            y1 = y2 = start.y
            middle = start.y - _ARC
        backward = area.in_cycle and end.area.in_cycle and end.y <= start.y  # against the layers
        weight = 3 if count >= 10 else 2 if count >= 3 else 1
        path = f"M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"
        yield EdgeView(path, backward, weight, f"{area.name} → {name}: {count}", area.name, name)


# --- the description of the API ------------------------------------------------------------------------------------


class FieldView(Struct, frozen=True):
    name: str
    type: str
    description: str
    required: bool
    choices: tuple[str, ...] = ()


class RouteView(Struct, frozen=True):
    method: str
    path: str
    summary: str
    description: str
    fields: tuple[FieldView, ...]


def described_routes(document: Mapping[str, Any]) -> dict[str, list[RouteView]]:
    """The routes of an OpenAPI document by their group, in its order."""
    groups: dict[str, list[RouteView]] = {}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = [
                _field(one["name"], one["schema"], one.get("required", False)) for one in told.get("parameters", ())
            ]
            required = body.get("required", ())
            fields += [_field(name, schema, name in required) for name, schema in body.get("properties", {}).items()]
            route = RouteView(method.upper(), path, told["summary"], told.get("description", ""), tuple(fields))
            groups.setdefault(told.get("tags", ["other"])[0], []).append(route)
    return groups


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FieldView:
    return FieldView(
        name, schema.get("type", ""), schema.get("description", ""), required, tuple(schema.get("enum", ()))
    )
