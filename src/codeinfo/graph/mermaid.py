"""The map as a Mermaid flow chart, for pages that draw them."""

from __future__ import annotations

from collections.abc import Sequence

from codeinfo.graph.survey import Area

EDGES_SHOWN = 3  # of each area: its strongest; more make a tangle


def mermaid(areas: Sequence[Area]) -> str:
    number = {area.name: f"a{position}" for position, area in enumerate(areas)}
    circular = {area.name for area in areas if area.in_cycle}
    layer = {area.name: area.layer for area in areas}
    lines = ["flowchart TD"]
    for area in areas:
        lines.append(f'    {number[area.name]}["{_quoted(area.name)}<br/>{len(area.files)} files"]')
    red = []
    count = 0
    for area in areas:
        for other, weight in strongest(area, circular):
            lines.append(f"    {number[area.name]} -->|{weight}| {number[other]}")
            if other in circular and closes_circle(area, layer[other]):
                red.append(str(count))
            count += 1
    for area in areas:
        if area.in_cycle:
            lines.append(f"    style {number[area.name]} stroke:#d1242f,stroke-width:2px")
    if red:
        lines.append(f"    linkStyle {','.join(red)} stroke:#d1242f")
    return "\n".join(lines) + "\n"


def strongest(area: Area, circular: set[str]) -> list[tuple[str, int]]:
    """The edges of an area worth drawing: the heaviest, and all that close a circle."""
    listed = list(area.needs.items())
    more = [edge for edge in listed[EDGES_SHOWN:] if area.in_cycle and edge[0] in circular]
    return listed[:EDGES_SHOWN] + more


def closes_circle(area: Area, other_layer: int) -> bool:
    """An edge that does not lead down is what makes a circle of the rest."""
    return area.in_cycle and other_layer >= area.layer


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
