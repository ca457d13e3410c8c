"""The map as a picture: a Mermaid flow chart for pages that draw them, or one SVG without script, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log2, sqrt

from msgspec import Struct

from codeinfo.graph.model import Area

_EDGES_SHOWN = 3  # of each area: its strongest; more make a tangle
_GAP, _LAYER_GAP, _MARGIN, _TITLE = 28, 84, 36, 64  # pixels
_MAX_ROW = 1180  # pixels; a wider layer continues in a row below
_NAME_CHARS = 26
_PASSES = 4  # of ordering each layer by its neighbours

_STYLE = """
  :root { color-scheme: light dark }
  .page { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e }
  .box { fill: #eef4fb; stroke: #6c8ebf; stroke-width: 1.2 }
  .hub { fill: #d5e5f8; stroke: #2f6db5; stroke-width: 2 }
  .edge { fill: none; stroke: #8c98a5; stroke-opacity: .55 }
  .loop { stroke: #d1242f; stroke-opacity: .9 } .box.loop { stroke-width: 2.2; fill: #fdecec }
  text { font-family: ui-sans-serif, system-ui, sans-serif }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #e6edf3 } .soft { fill: #9198a1 }
    .box { fill: #16233a; stroke: #4a78b5 } .hub { fill: #1d3a63; stroke: #79b0f2 }
    .edge { stroke: #7d8590 } .loop { stroke: #ff7b72 } .box.loop { fill: #3a1a1d }
  }
"""


class _Arrow(Struct, frozen=True):
    source: Area
    target: Area
    weight: int
    closes_cycle: bool  # inside of a cycle, those that do not lead down make it one


def _arrows(areas: Sequence[Area]) -> list[_Arrow]:
    """The edges worth drawing: the heaviest of each area, and all inside of a cycle."""
    by_name = {area.name: area for area in areas}
    arrows = []
    for area in areas:
        for rank, (name, weight) in enumerate(area.needs.items()):
            other = by_name[name]
            in_cycle = area.in_cycle and other.in_cycle
            if rank < _EDGES_SHOWN or in_cycle:
                arrows.append(_Arrow(area, other, weight, in_cycle and other.layer >= area.layer))
    return arrows


# --- Mermaid -------------------------------------------------------------------------------------------------------


def mermaid(areas: Sequence[Area]) -> str:
    number = {area.name: f"a{position}" for position, area in enumerate(areas)}
    arrows = _arrows(areas)
    lines = ["flowchart TD"]
    lines += [f'    {number[area.name]}["{_quoted(area.name)}<br/>{len(area.files)} files"]' for area in areas]
    lines += [f"    {number[one.source.name]} -->|{one.weight}| {number[one.target.name]}" for one in arrows]
    lines += [f"    style {number[area.name]} stroke:#d1242f,stroke-width:2px" for area in areas if area.in_cycle]
    red = [str(position) for position, one in enumerate(arrows) if one.closes_cycle]
    if red:
        lines.append(f"    linkStyle {','.join(red)} stroke:#d1242f")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


# --- SVG -----------------------------------------------------------------------------------------------------------


class _Box(Struct):
    area: Area
    width: float
    height: float
    font: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def svg(title: str, areas: Sequence[Area], note: str = "") -> str:
    boxes = {area.name: _box(area) for area in areas}
    rows = _rows(boxes)
    width, height = _place(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(title)}: areas and what they need">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" '
        'markerUnits="userSpaceOnUse"><path d="M0 0 8 4 0 8z" class="soft"/></marker></defs>',
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}" rx="12"/>',
        f'<text class="ink" x="{_MARGIN}" y="34" font-size="20" font-weight="600">{escape(title)}</text>',
        f'<text class="soft" x="{_MARGIN}" y="54" font-size="12">{escape(note)}</text>',
    ]
    parts += [_edge(one, boxes) for one in _arrows(areas)]
    parts += [_drawn_box(box) for box in boxes.values()]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(area: Area) -> _Box:
    """The more depends on an area, the larger it is."""
    font = 12 + 7 * sqrt(area.centrality)
    shown = max(len(_short(area.name)) * 0.58 * font, len(_second_line(area)) * 6.2)
    return _Box(area, max(96.0, shown + 28), 2.2 * font + 26, font)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else "…" + name[-_NAME_CHARS + 1 :]


def _second_line(area: Area) -> str:
    if len(area.files) == 1:
        return "1 file"
    return f"{len(area.files)} files · {area.hub.rpartition('/')[2]}"


def _rows(boxes: Mapping[str, _Box]) -> list[list[_Box]]:
    """Layers from the top down, each in an order that keeps edges short, cut where they get too wide."""
    by_layer: dict[int, list[_Box]] = {}
    for box in boxes.values():
        by_layer.setdefault(box.area.layer, []).append(box)
    layers = [by_layer[layer] for layer in sorted(by_layer, reverse=True)]
    rank = {box.area.name: position for layer in layers for position, box in enumerate(layer)}
    neighbours: dict[str, list[str]] = {name: list(box.area.needs) for name, box in boxes.items()}
    for name, box in boxes.items():
        for other in box.area.needs:
            neighbours[other].append(name)
    for _ in range(_PASSES):
        for layer in layers:
            layer.sort(key=lambda box: _mean([rank[other] for other in neighbours[box.area.name]], rank[box.area.name]))
            rank.update({box.area.name: position for position, box in enumerate(layer)})
    rows: list[list[_Box]] = []
    for layer in layers:
        row: list[_Box] = []
        for box in layer:
            if row and sum(one.width + _GAP for one in row) + box.width > _MAX_ROW:
                rows.append(row)
                row = []
            row.append(box)
        rows.append(row)
    return rows


def _mean(values: Sequence[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(rows: Sequence[Sequence[_Box]]) -> tuple[float, float]:
    widths = [sum(box.width for box in row) + _GAP * (len(row) - 1) for row in rows]
    page = max([*widths, 560.0]) + 2 * _MARGIN
    y = float(_TITLE + 20)
    for row, width in zip(rows, widths, strict=True):
        x = (page - width) / 2
        tallest = max(box.height for box in row)
        for box in row:
            box.x, box.y = x, y + (tallest - box.height) / 2
            x += box.width + _GAP
        y += tallest + _LAYER_GAP
    return page, y - _LAYER_GAP + _MARGIN


def _edge(arrow: _Arrow, boxes: Mapping[str, _Box]) -> str:
    source, target = boxes[arrow.source.name], boxes[arrow.target.name]
    loop = " loop" if arrow.closes_cycle else ""
    thickness = min(1 + log2(1 + arrow.weight) / 2.2, 4.5)
    title = f"<title>{escape(arrow.source.name)} → {escape(arrow.target.name)}: {arrow.weight} imports</title>"
    if abs(source.y - target.y) < 1 or source.area.layer == target.area.layer:
        up = source.y - 34
        path = f"M{source.middle:.0f} {source.y:.0f}C{source.middle:.0f} {up:.0f} {target.middle:.0f} {up:.0f} "
        path += f"{target.middle:.0f} {target.y - 2:.0f}"
    else:
        down = target.y > source.y
        start, end = (source.y + source.height, target.y - 2) if down else (source.y, target.y + target.height + 2)
        bend = (end - start) / 2
        path = f"M{source.middle:.0f} {start:.0f}C{source.middle:.0f} {start + bend:.0f} {target.middle:.0f} "
        path += f"{end - bend:.0f} {target.middle:.0f} {end:.0f}"
    return f'<path class="edge{loop}" d="{path}" stroke-width="{thickness:.1f}" marker-end="url(#tip)">{title}</path>'


def _drawn_box(box: _Box) -> str:
    area = box.area
    kind = "hub" if area.centrality >= 0.5 else "box"
    loop = " loop" if area.in_cycle else ""
    lines = [
        f"<g><title>{escape(area.name)}: {len(area.files)} files, layer {area.layer}</title>",
        f'<rect class="{kind}{" box" if loop else ""}{loop}" x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
        f'height="{box.height:.0f}" rx="8"/>',
        f'<text class="ink" x="{box.middle:.0f}" y="{box.y + 8 + box.font:.0f}" font-size="{box.font:.1f}" '
        f'font-weight="600" text-anchor="middle">{escape(_short(area.name))}</text>',
        f'<text class="soft" x="{box.middle:.0f}" y="{box.y + box.height - 11:.0f}" font-size="11" '
        f'text-anchor="middle">{escape(_second_line(area))}</text></g>',
    ]
    return "\n".join(lines)
