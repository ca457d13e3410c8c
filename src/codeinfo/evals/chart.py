"""Quality against what it costs, as an SVG that needs nothing else: readable in a light and a dark page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from msgspec import Struct

from codeinfo.operations.evaluation import Summary

WIDTH, HEIGHT = 860, 410
PANEL_WIDTH, PANEL_HEIGHT = 330, 240
LEFT, GAP, TOP = 70, 90, 96
LABEL_ROOM = 150  # pixels that a name and its figure need
QUALITY_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)

# Plain rules rather than variables, which viewers other than browsers do not know. Disc and ring tell runs apart
# without colour.
STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2430; }
  .title { font-size: 17px; font-weight: 600; } .soft { font-size: 12px; fill: #5b6472; }
  .ground { fill: #ffffff; } .grid { stroke: #d8dde5; } .axis { stroke: #5b6472; }
  .own { fill: #0b6bcb; } .other { fill: none; stroke: #8a5a00; stroke-width: 2.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8ebf0; } .soft { fill: #a3adbb; } .ground { fill: #12161d; } .grid { stroke: #343b47; }
    .axis { stroke: #a3adbb; } .own { fill: #6cb6ff; } .other { stroke: #e3b341; }
  }
"""


class Point(Struct, frozen=True):
    name: str
    summary: Summary


class Scale(Struct, frozen=True):
    """From values to pixels; `log` where a cost spans orders of magnitude."""

    low: float
    high: float
    start: float
    length: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + self.length * (value - low) / (high - low)


def chart(title: str, points: Sequence[Point]) -> str:
    """Two panels that share the axis of quality: latency on the left, tokens on the right. The first point is ours."""
    low, high, step = _quality_range([point.summary.ndcg10 for point in points])
    quality = Scale(low, high, TOP + PANEL_HEIGHT, -PANEL_HEIGHT)
    parts = [
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        _text(LEFT, 34, f"Search quality against cost: {title}", "title"),
        _text(LEFT, 56, f"{points[0].summary.n} queries. Up and to the left is better.", "soft"),
    ]
    panels: list[tuple[str, Callable[[Summary], float | None]]] = [
        ("median latency, ms (log scale)", lambda summary: summary.p50_ms),
        ("tokens in the first ten results (log scale)", lambda summary: summary.tokens),
    ]
    for place, (label, cost) in enumerate(panels):
        left = LEFT + place * (PANEL_WIDTH + GAP)
        parts += _panel(left, label, quality, step, [(point, cost(point.summary)) for point in points])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    label = escape(f"Quality against latency and tokens: {title}", quote=True)
    return "\n".join([f'{head} aria-label="{label}">', f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _panel(
    left: float, label: str, quality: Scale, step: float, costs: Sequence[tuple[Point, float | None]]
) -> list[str]:
    right, bottom = left + PANEL_WIDTH, TOP + PANEL_HEIGHT
    parts = []
    for tick in range(round(quality.low / step), round(quality.high / step) + 1):
        y = quality.at(tick * step)
        parts.append(_line(left, y, right, y, "grid"))
        parts.append(_text(left - 8, y + 4, f"{tick * step:.2f}", "soft", "end"))
    known = [(number, point, cost) for number, (point, cost) in enumerate(costs) if cost]
    scale = _cost_scale([cost for _, _, cost in known], left)
    for value in _ticks(scale):
        parts.append(_line(scale.at(value), TOP, scale.at(value), bottom, "grid"))
        parts.append(_text(scale.at(value), bottom + 18, f"{value:,.10g}", "soft", "middle"))
    parts.append(_line(left, bottom, right, bottom, "axis"))
    parts.append(_text(left, TOP - 10, "ndcg10", "soft", "middle"))
    parts.append(_text((left + right) / 2, bottom + 42, label, "soft", "middle"))
    if not known:
        parts.append(_text((left + right) / 2, TOP + PANEL_HEIGHT / 2, "not measured", "soft", "middle"))
    parts += [
        _mark(scale.at(cost), quality.at(point.summary.ndcg10), number, point, right) for number, point, cost in known
    ]
    return parts


def _mark(x: float, y: float, number: int, point: Point, right: float) -> str:
    """A disc for ours, a ring for the others, with the name on the side that has room."""
    kind = "other" if number else "own"
    anchor, shift = ("end", -12) if x > right - LABEL_ROOM else ("start", 12)
    label = _text(x + shift, y - 8, f"{point.name} {point.summary.ndcg10:.3f}", "", anchor)
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{5 if number else 7}"/>' + label


def _quality_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Bounds on whole steps, a little wider than the values, with five steps or so between."""
    spread = max(max(values) - min(values), 0.03)
    step = next((step for step in QUALITY_STEPS if spread / step <= 5), QUALITY_STEPS[-1])
    low = max(0.0, (math.floor(min(values) / step) - 1) * step)
    high = (math.floor(max(values) / step) + 2) * step
    return low, high, step


def _cost_scale(costs: Sequence[float], left: float) -> Scale:
    low, high = (min(costs), max(costs)) if costs else (1.0, 10.0)
    return Scale(low / 2.5, high * 2.5, left, PANEL_WIDTH, log=True)


def _ticks(scale: Scale) -> list[float]:
    """1, 2 and 5 times each power of ten within the scale."""
    powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    values = (digit * 10.0**power for power in powers for digit in (1, 2, 5))
    return [value for value in values if scale.low <= value <= scale.high]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
