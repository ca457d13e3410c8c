"""Which lines of a chunk to show: those that answer, within a budget of characters."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
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


class Finder:
    """Finds a query's terms in a text, line by line; made once a query.

    A term is known by its first letters, which stemming keeps: exact enough to choose lines by, and one pass of a
    regular expression instead of cutting every line into terms.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        least = LEAST_WEIGHT * max(weights.values(), default=0.0)
        self.weights: dict[str, float] = {}
        for term, weight in weights.items():
            if weight >= least:
                beginning = _beginning(term)
                self.weights[beginning] = max(weight, self.weights.get(beginning, 0.0))
        self.total = sum(self.weights.values())
        longest_first = sorted(self.weights, key=len, reverse=True)
        self._find = re.compile("|".join(map(re.escape, longest_first)) if longest_first else r"(?!)").finditer

    def found_by_line(self, text: str) -> dict[int, list[str]]:
        """Line offset → beginnings of the query's terms on that line."""
        found: dict[int, list[str]] = {}
        lowered = text.lower()
        line = seen_to = 0
        for match in self._find(lowered):
            start = match.start()
            line += lowered.count("\n", seen_to, start)
            seen_to = start
            found.setdefault(line, []).append(match[0])
        return found


def _beginning(term: str) -> str:
    """The letters that a stem shares with its word: `retri` of "retry" ends in a letter of its own."""
    return term.removesuffix("i")[:PREFIX] or term


def focus(text: str, finder: Finder, budget: int) -> tuple[int, int]:
    """The best run of whole lines within `budget`, as (first, last) offsets; at least one line.

    A run is worth the weights of the query's terms in it, a repeated term a tenth of its first occurrence; the run at
    the head of the chunk gets a bonus, since a signature explains more than the middle of a body.
    """
    lines = text.split("\n")
    if len(text) <= budget:
        return 0, len(lines) - 1
    found = finder.found_by_line(text)
    ends = list(accumulate(len(line) + 1 for line in lines))
    best, best_worth = (0, _last_line(0, ends, budget)), -1.0
    for first in (0, *_heaviest(found, finder.weights)):
        last = _last_line(first, ends, budget)
        worth = _worth(found, first, last, finder.weights)
        if first == 0:
            worth += HEAD_SHARE * finder.total
        if worth > best_worth:
            best, best_worth = (first, last), worth
    return best


def _heaviest(found: Mapping[int, list[str]], weights: Mapping[str, float]) -> list[int]:
    """The lines worth starting at: the first ones of the best runs are among the heaviest lines."""
    if len(found) <= STARTS_TRIED:
        return list(found)
    return sorted(found, key=lambda line: -sum(weights[term] for term in set(found[line])))[:STARTS_TRIED]


def _last_line(first: int, ends: list[int], budget: int) -> int:
    """The last line that still fits when showing starts at `first`."""
    start = ends[first - 1] if first else 0
    return max(first, bisect_right(ends, start + budget + 1) - 1)


def _worth(found: Mapping[int, list[str]], first: int, last: int, weights: Mapping[str, float]) -> float:
    seen: set[str] = set()
    worth = 0.0
    for line, here in found.items():
        if first <= line <= last:
            for term in here:
                worth += weights[term] * (REPEATED if term in seen else 1.0)
                seen.add(term)
    return worth


def excerpt(text: str, first: int, last: int, budget: int) -> str:
    """The chosen lines; a single line longer than the budget is cut."""
    chosen = "\n".join(text.split("\n")[first : last + 1])
    return chosen if len(chosen) <= budget else chosen[: max(budget - 1, 0)] + "…"
