"""The figures of an evaluation, as tables and as a chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from msgspec import Struct

from codeinfo.operations import search as ops

Row = tuple[str, ...]

COLUMNS = (
    *("n", "ndcg10", "file10", "recall10", "mrr10", "top1", "top3", "top5", "top10", "function10", "spec"),
    *("chars", "tokens", "shown", "first_tokens", "recall500", "recall1000", "recall2000"),
    *("ok", "ok_top3", "p50_ms", "p95_ms"),
)
_WHOLE = {"n", "chars", "tokens", "first_tokens"}  # shown without decimals
_TIMES = {"p50_ms", "p95_ms"}
QUERY_SHOWN = 70  # characters of a query in a table


def figures_table(groups: Iterable[ops.Group], by: str) -> list[Row]:
    """A header and one row a group, numbers aligned to the right."""
    rows: list[Row] = [(by, *COLUMNS)]
    for group in groups:
        if group.by == by:
            figures = (format_figure(column, getattr(group.summary, column)) for column in COLUMNS)
            rows.append((group.name, *figures))
    return align(rows)


def format_figure(column: str, value: float | None) -> str:
    """A figure with its column's decimals; a dash if it was not measured."""
    if value is None:
        return "–"
    return f"{value:.0f}" if column in _WHOLE else f"{value:.1f}" if column in _TIMES else f"{value:.4f}"


def align(rows: Sequence[Row]) -> list[Row]:
    """Align every cell but the first of a row to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [(row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))) for row in rows]


def comparison_line(comparison: ops.Comparison) -> str:
    """`ndcg10 0.8356 → 0.8931: +0.0575 (95 %: +0.0431 to +0.0720, p = 0.0001), 201 won, 88 lost, 460 even`."""
    span = f"95 %: {comparison.low:+.4f} to {comparison.high:+.4f}, p = {comparison.p_value:.4f}"
    counts = f"{len(comparison.wins)} won, {len(comparison.losses)} lost, {comparison.ties} even"
    means = f"{comparison.metric} {comparison.old:.4f} → {comparison.new:.4f}"
    return f"{means}: {comparison.difference:+.4f} ({span}), {counts}"


def changes_table(changes: Sequence[ops.Change], most: int | None) -> list[Row]:
    return [
        (change.id, f"{change.old:.3f} → {change.new:.3f}", change.query[:QUERY_SHOWN]) for change in changes[:most]
    ]


def misses_table(outcomes: Sequence[ops.Outcome]) -> list[Row]:
    """Queries without a wanted file in the first ten."""
    return [
        (
            outcome.id,
            outcome.query[:QUERY_SHOWN],
            f"wanted {', '.join(outcome.wanted)}; first {outcome.first or 'none'}",
        )
        for outcome in outcomes
        if not outcome.score.recall10
    ]


# --- the chart -------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 860, 410
PANEL_WIDTH, PANEL_HEIGHT = 330, 240
LEFT, GAP, TOP = 70, 90, 96
LABEL_ROOM = 150  # pixels that a name and its figure need
QUALITY_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)

# Plain rules rather than variables, which only browsers support. Disc and ring tell runs apart without colour.
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


def chart(title: str, summaries: Mapping[str, ops.Summary]) -> str:
    """Two panels with a shared quality axis: latency on the left, tokens on the right. The first run is ours."""
    low, high, step = _quality_range([summary.ndcg10 for summary in summaries.values()])
    quality = Scale(low, high, TOP + PANEL_HEIGHT, -PANEL_HEIGHT)
    parts = [
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        _text(LEFT, 34, f"Search quality against cost: {title}", "title"),
        _text(LEFT, 56, f"{next(iter(summaries.values())).n} queries. Up and to the left is better.", "soft"),
    ]
    panels: list[tuple[str, Callable[[ops.Summary], float | None]]] = [
        ("median latency, ms (log scale)", lambda summary: summary.p50_ms),
        ("tokens in the first ten results (log scale)", lambda summary: summary.tokens),
    ]
    for place, (label, cost) in enumerate(panels):
        left = LEFT + place * (PANEL_WIDTH + GAP)
        costs = [(name, summary.ndcg10, cost(summary)) for name, summary in summaries.items()]
        parts += _panel(left, label, quality, step, costs)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    label = escape(f"Quality against latency and tokens: {title}", quote=True)
    return "\n".join([f'{head} aria-label="{label}">', f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _panel(
    left: float, label: str, quality: Scale, step: float, costs: Sequence[tuple[str, float, float | None]]
) -> list[str]:
    """`costs` are runs by name, each with its quality and its cost."""
    right, bottom = left + PANEL_WIDTH, TOP + PANEL_HEIGHT
    parts = []
    for tick in range(round(quality.low / step), round(quality.high / step) + 1):
        y = quality.at(tick * step)
        parts.append(_line(left, y, right, y, "grid"))
        parts.append(_text(left - 8, y + 4, f"{tick * step:.2f}", "soft", "end"))
    known = [(number, name, ndcg10, cost) for number, (name, ndcg10, cost) in enumerate(costs) if cost]
    scale = _cost_scale([cost for *_, cost in known], left)
    for value in _ticks(scale):
        parts.append(_line(scale.at(value), TOP, scale.at(value), bottom, "grid"))
        parts.append(_text(scale.at(value), bottom + 18, f"{value:,.10g}", "soft", "middle"))
    parts.append(_line(left, bottom, right, bottom, "axis"))
    parts.append(_text(left, TOP - 10, "ndcg10", "soft", "middle"))
    parts.append(_text((left + right) / 2, bottom + 42, label, "soft", "middle"))
    if not known:
        parts.append(_text((left + right) / 2, TOP + PANEL_HEIGHT / 2, "not measured", "soft", "middle"))
    for number, name, ndcg10, cost in known:
        parts.append(_mark(scale.at(cost), quality.at(ndcg10), f"{name} {ndcg10:.3f}", right, is_own=number == 0))
    return parts


def _mark(x: float, y: float, label: str, right: float, *, is_own: bool) -> str:
    """A disc for ours, a ring for the others, with the label on the side that has room."""
    kind, radius = ("own", 7) if is_own else ("other", 5)
    anchor, shift = ("end", -12) if x > right - LABEL_ROOM else ("start", 12)
    circle = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
    return circle + _text(x + shift, y - 8, label, "", anchor)


def _quality_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Bounds on whole steps, slightly wider than the values, with about five steps in between."""
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
