"""Which lines of a chunk to show: those that answer, within a budget of characters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from codeinfo.tokens import terms

# The first result is read, the last ones are glanced at: characters by place, 3,300 for ten results.
BUDGETS = (900, 500, 350, 300)
LATER_BUDGET = 200
HEAD_SHARE = 0.35  # of the query's weight: where a definition begins tells what the rest is
REPEATED = 0.1
PREFIX = 4  # stems keep the first letters of a word, whatever happens to its end


def budget_for(place: int) -> int:
    return BUDGETS[place] if place < len(BUDGETS) else LATER_BUDGET


class Finder:
    """Finds a query's terms in lines; made once a query. Most lines have none, and a cheap look at stems tells."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = weights
        beginnings = sorted({term[:PREFIX] for term in weights})
        self._hint = re.compile("|".join(map(re.escape, beginnings)) if beginnings else r"(?!)")

    def terms_of_lines(self, lines: list[str]) -> list[list[str]]:
        hint, weights = self._hint.search, self.weights
        return [[term for term in terms(line) if term in weights] if hint(line.lower()) else [] for line in lines]


def focus(text: str, finder: Finder, budget: int) -> tuple[int, int]:
    """The best run of whole lines within `budget`, as (first, last) offsets; at least one line.

    A run is worth the weights of the query's terms in it, a repeated term a tenth of its first occurrence; the run at
    the head of the chunk gets a bonus, since a signature explains more than the middle of a body.
    """
    lines = text.split("\n")
    if len(text) <= budget:
        return 0, len(lines) - 1
    found, weights = finder.terms_of_lines(lines), finder.weights
    seen = dict.fromkeys(weights, 0)
    best, best_worth = (0, 0), -1.0
    bonus = HEAD_SHARE * sum(weights.values())
    last, size, worth = -1, 0, 0.0  # the run is lines[first..last]; each step drops one line and takes what then fits
    for first, line in enumerate(lines):
        while last + 1 < len(lines) and (size + len(lines[last + 1]) + 1 <= budget or last < first):
            last += 1
            size += len(lines[last]) + 1
            for term in found[last]:
                worth += weights[term] * (REPEATED if seen[term] else 1.0)
                seen[term] += 1
        total = worth + (bonus if first == 0 else 0.0)
        if total > best_worth and line.strip():
            best, best_worth = (first, last), total
        size -= len(line) + 1
        for term in found[first]:
            seen[term] -= 1
            worth -= weights[term] * (REPEATED if seen[term] else 1.0)
    return best


def excerpt(text: str, first: int, last: int, budget: int) -> str:
    """The chosen lines; a single line longer than the budget is cut."""
    chosen = "\n".join(text.split("\n")[first : last + 1])
    return chosen if len(chosen) <= budget else chosen[: max(budget - 1, 0)] + "…"
