"""Small charts of the pages: paths for an SVG and the words that say the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from codeinfo.knowledge.memory import HALF_LIFE_DAYS, STALE_BELOW
from codeinfo.operations.knowledge import PatternHistory
from codeinfo.shells.terminal import counted

WIDTH, HEIGHT, MARGIN = 132, 34, 3  # pixels
_CURVE_POINTS = 24
_LEAST_HALF_LIVES = 2.5  # shown of a decay: enough to see it bend and become stale
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class ChartView(Struct, frozen=True):
    """`title` tells what the picture shows to those who do not see it; `caption` stands beside it."""

    line: str
    area: str
    dot: tuple[float, float]
    title: str
    caption: str = ""
    level: float | None = None  # height of a line across


def trend_chart(history: PatternHistory) -> ChartView:
    """Lines by the month they were written in, this month at the right. Each chart has its own scale."""
    counts = history.lines
    most, months = max(counts), _months(history)
    points = [(at / (len(counts) - 1), count / most if most else 0.0) for at, count in enumerate(counts)]
    told = ", ".join(f"{month} {count}" for month, count in zip(months, counts, strict=True) if count)
    rest = [f"{history.older} older"] if history.older else []
    rest += [f"{history.undated} not dated yet"] if history.undated else []
    title = f"Lines in use by the month they were written, {months[0]} to {months[-1]}: {told or 'none'}"
    caption = ", ".join((f"{counted(sum(counts), 'line')} since {months[0]}", *rest))
    return ChartView(*_drawn(points), _place(points[-1]), "; ".join((title, *rest)), caption)


def decay_chart(kind: str, confidence: float) -> ChartView:
    """How much a memory counts from the day it was written on, with a dot where it stands today."""
    half_life = HALF_LIFE_DAYS.get(kind)
    percent = f"{100 * confidence:.0f} %"
    if half_life is None:
        flat = [(0.0, 1.0), (1.0, 1.0)]
        return ChartView(*_drawn(flat), _place(flat[-1]), f"Counts {percent} and does not fade")
    age = -math.log2(max(confidence, 1e-4))  # in half-lives
    shown = max(_LEAST_HALF_LIVES, 1.15 * age)
    curve = [(at / _CURVE_POINTS, math.pow(2.0, -shown * at / _CURVE_POINTS)) for at in range(_CURVE_POINTS + 1)]
    title = f"Counts {percent} today; halves in {half_life:.0f} days, stale below {100 * STALE_BELOW:.0f} %"
    level = _place((0.0, STALE_BELOW))[1]
    return ChartView(*_drawn(curve), _place((age / shown, confidence)), title, level=level)


def _months(history: PatternHistory) -> list[str]:
    year, _, month = history.since.partition("-")
    first = 12 * int(year) + int(month) - 1
    return [f"{_MONTHS[number % 12]} {number // 12}" for number in range(first, first + len(history.lines))]


def _place(point: tuple[float, float]) -> tuple[float, float]:
    """A point of the unit square, up being more, in the picture."""
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    return round(MARGIN + point[0] * across, 1), round(HEIGHT - MARGIN - point[1] * up, 1)


def _drawn(points: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """The line through the points, and the area below it."""
    placed = [_place(point) for point in points]
    line = "M" + " L".join(f"{x:g} {y:g}" for x, y in placed)
    floor = HEIGHT - MARGIN
    return line, f"{line} L{placed[-1][0]:g} {floor} L{placed[0][0]:g} {floor} Z"
