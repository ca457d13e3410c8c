"""Which lines of a chunk to show: those that answer, within a budget of characters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

# The first result is read, the last ones are glanced at: characters by place, 3,300 for ten results.
BUDGETS = (900, 500, 350, 300)
LATER_BUDGET = 200
HEAD_SHARE = 0.35  # of the query's weight: where a definition begins tells what the rest is
REPEATED = 0.1
STARTS_TRIED = 4
LEAST_WEIGHT = 0.15  # of the heaviest term: lighter ones are on too many lines to tell which
PREFIX = 5  # letters by which a term is known: stems keep the beginning of a word


def budget_for(place: int) -> int:
    return BUDGETS[place] if place < len(BUDGETS) else LATER_BUDGET


class FoundLine:
    """A line by its offset, the terms it has in their order, and what the different ones weigh."""

    __slots__ = ("offset", "terms", "weight")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.terms: list[str] = []
        self.weight = 0.0


class Finder:
    """Finds a query's terms in a text, line by line; made once a query.

    A term is known by its first letters, which stemming keeps: exact enough to choose lines by, and a plain search for
    each instead of cutting every line into terms.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        least = LEAST_WEIGHT * max(weights.values(), default=0.0)
        self.weights: dict[str, float] = {}
        for term, weight in weights.items():
            if weight >= least:
                beginning = _beginning(term)
                self.weights[beginning] = max(weight, self.weights.get(beginning, 0.0))
        self.total = sum(self.weights.values())

    def found_by_line(self, text: str, ends: list[int]) -> list[FoundLine]:
        """The lines that have beginnings of the query's terms. `ends`: of all lines."""
        found: list[FoundLine] = []
        line_end, seen_to = -1, 0
        for start, minus_length, term in self._places(text):
            if start < seen_to:
                continue  # part of a longer one
            seen_to = start - minus_length
            if start >= line_end:
                offset = bisect_right(ends, start)
                line_end = ends[offset]
                latest = FoundLine(offset)
                found.append(latest)
            if term not in latest.terms:
                latest.weight += self.weights[term]
            latest.terms.append(term)
        return found

    def _places(self, text: str) -> list[tuple[int, int, str]]:
        """Every place of every term as (start, −length, term), in order, the longest first where several start."""
        lowered = text.lower()
        if len(lowered) != len(text):  # a few capitals have longer small letters, and places would no longer agree
            lowered = text
        places = []
        for term in self.weights:
            start = lowered.find(term)
            while start >= 0:
                places.append((start, -len(term), term))
                start = lowered.find(term, start + 1)
        places.sort()
        return places


def _beginning(term: str) -> str:
    """The letters that a stem shares with its word: `retri` of "retry" ends in a letter of its own."""
    return term.removesuffix("i")[:PREFIX] or term


def focus(text: str, finder: Finder, budget: int) -> tuple[int, int]:
    """The best run of whole lines within `budget`, as (first, last) offsets; at least one line.

    A run is worth the weights of the query's terms in it, a repeated term a tenth of its first occurrence; the run at
    the head of the chunk gets a bonus, since a signature explains more than the middle of a body.
    """
    if len(text) <= budget:
        return 0, text.count("\n")
    ends = list(accumulate([len(line) + 1 for line in text.split("\n")]))
    found = finder.found_by_line(text, ends)
    best, best_worth = (0, _last_line(0, ends, budget)), -1.0
    for first, start in ((0, 0), *_heaviest(found)):
        last = _last_line(first, ends, budget)
        worth = _worth(found, start, last, finder.weights)
        if first == 0:
            worth += HEAD_SHARE * finder.total
        if worth > best_worth:
            best, best_worth = (first, last), worth
    return best


def _heaviest(found: Sequence[FoundLine]) -> list[tuple[int, int]]:
    """The lines worth starting at, each with its place in `found`: the best runs start at one of the heaviest."""
    starts = [(line.offset, at) for at, line in enumerate(found)]
    if len(starts) > STARTS_TRIED:
        starts.sort(key=lambda start: -found[start[1]].weight)
    return starts[:STARTS_TRIED]


def _last_line(first: int, ends: list[int], budget: int) -> int:
    """The last line that still fits when showing starts at `first`."""
    start = ends[first - 1] if first else 0
    return max(first, bisect_right(ends, start + budget + 1) - 1)


def _worth(found: Sequence[FoundLine], start: int, last: int, weights: Mapping[str, float]) -> float:
    """Of the lines from the one at `start` to line `last`."""
    seen: set[str] = set()
    worth = 0.0
    for at in range(start, len(found)):
        line = found[at]
        if line.offset > last:
            break
        for term in line.terms:
            if term in seen:
                worth += REPEATED * weights[term]
            else:
                worth += weights[term]
                seen.add(term)
    return worth


def excerpt(text: str, first: int, last: int, budget: int) -> str:
    """The chosen lines; a single line longer than the budget is cut."""
    chosen = "\n".join(text.split("\n")[first : last + 1])
    return chosen if len(chosen) <= budget else chosen[: max(budget - 1, 0)] + "…"
