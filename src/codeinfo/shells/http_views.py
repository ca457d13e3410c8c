"""What the pages show, made of what the engine answered: plain values for the templates, no HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codeinfo.errors import CodeInfoError
from codeinfo.rank.policy import PolicyItem, PolicySettings, apply_policy, numeric
from codeinfo.requests.answers import Answer, Citation, GradedItem, ToolUse, Turn
from codeinfo.requests.code import CodeMap, MapArea

if TYPE_CHECKING:
    from codeinfo.engine import Engine

PREVIEW_LINES = 6
_NO_CUT = 10**9


@dataclass(frozen=True, slots=True)
class MatchView:
    path: str
    start: int
    end: int
    distance: float | None
    grade: float | None
    preview: str
    root: str


@dataclass(frozen=True, slots=True)
class FileView:
    path: str
    lowest: float | None
    matches: tuple[MatchView, ...]


@dataclass(frozen=True, slots=True)
class CallView:
    """One row of the tool details: a search of the answer loop or a tool that the model called."""

    name: str
    argument: str
    outcome: str
    failed: bool
    files: tuple[FileView, ...] = ()
    dropped: tuple[str, ...] = ()


def preview_of(engine: Engine, root: str, path: str, start: int, end: int) -> str:
    """The first lines of a passage, from the indexed file; "" where they cannot be had."""
    from codeinfo.engine.lookup import CodeLookup

    try:
        return CodeLookup(engine, (root,), 1).read_file(path, start, max(start, end)).text
    except (CodeInfoError, OSError, ValueError):
        return ""


# --- tool details --------------------------------------------------------------------------------------------------


def calls_of(engine: Engine, answer: Answer, root: str) -> tuple[CallView, ...]:
    rounds = [
        CallView(
            "search",
            entry.query,
            f"{len(entry.items)} passages, {len(entry.dropped)} dropped, {entry.verdict}",
            False,
            _files(engine, entry.items, root),
            tuple(f"{one.path}:{one.start_line}-{one.end_line}: {one.rule}, {one.detail}" for one in entry.dropped),
        )
        for entry in answer.trace.rounds
    ]
    return (*rounds, *tool_rows(answer.trace.tools))


def tool_rows(uses: Iterable[ToolUse | Any]) -> tuple[CallView, ...]:
    """Whatever a stored turn holds: an entry that is no tool use is shown as one that failed."""
    return tuple(
        CallView(use.name, str(use.arguments), str(use.outcome), bool(use.failed))
        if isinstance(use, ToolUse)
        else CallView("unknown", str(use)[:200], "malformed entry", True)
        for use in uses
    )


def _files(engine: Engine, items: Sequence[GradedItem], root: str) -> tuple[FileView, ...]:
    matches: dict[str, list[MatchView]] = {}
    for item in items:
        distance = numeric(item.distance.value) if item.distance else None
        text = preview_of(engine, root, item.path, item.start_line, item.end_line)
        preview = "\n".join(text.split("\n")[:PREVIEW_LINES])
        view = MatchView(item.path, item.start_line, item.end_line, distance, item.score, preview, root)
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


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn as the page shows it; `answer` is known while the run that wrote it is remembered."""

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


def turn_view(turn: Turn, calls: tuple[CallView, ...] = ()) -> TurnView:
    tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens if turn.usage else None
    return TurnView(
        turn.role,
        turn.content,
        turn.status,
        turn.citations,
        shown_citations(turn.citations),
        calls or tool_rows(turn.tool_calls),
        turn.model,
        turn.provider,
        tokens,
        turn.took_ms,
        turn.error,
    )


# --- map -----------------------------------------------------------------------------------------------------------

_BOX, _GAP, _ROW, _EDGE_MARGIN = 168, 24, 108, 28  # pixels
_HEIGHT = 56
_PER_ROW = 6
_LABEL_CHARS = 20


@dataclass(frozen=True, slots=True)
class BoxView:
    area: MapArea
    x: int
    y: int
    width: int
    height: int
    hub: bool
    label: str


@dataclass(frozen=True, slots=True)
class EdgeView:
    path: str
    cycle: bool
    weight: int
    title: str


@dataclass(frozen=True, slots=True)
class PictureView:
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
            boxes[area.name] = BoxView(area, x, y, _BOX, _HEIGHT, area in top, _label(area.name))
    edges = tuple(edge for area in code_map.areas for edge in _edges(boxes, area))
    height = 2 * _EDGE_MARGIN + (max(len(rows), 1) - 1) * _ROW + _HEIGHT
    return PictureView(width, height, tuple(boxes.values()), edges)


def _label(name: str) -> str:
    """The end of a path says most of it."""
    parts = name.removesuffix("/*").split("/")
    while len(parts) > 1 and len("/".join(parts)) > _LABEL_CHARS:
        parts = parts[1:]
    return "/".join(parts)[-_LABEL_CHARS:]


def _edges(boxes: Mapping[str, BoxView], area: MapArea) -> Iterable[EdgeView]:
    start = boxes[area.name]
    for name, count in area.needs.items():
        end = boxes.get(name)
        if end is None or end is start:
            continue
        x1, x2 = start.x + start.width // 2, end.x + end.width // 2
        down = end.y > start.y
        y1, y2 = (start.y + start.height, end.y) if down else (start.y, end.y + end.height)
        middle = (y1 + y2) // 2
        backward = area.in_cycle and end.area.in_cycle and end.y <= start.y  # against the layers
        weight = 3 if count >= 10 else 2 if count >= 3 else 1
        path = f"M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"
        yield EdgeView(path, backward, weight, f"{area.name} → {name}: {count}")
