"""Which lines of a chunk to show: those that answer, within a budget of characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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


class Shown(NamedTuple):
    """The part of a text that is shown: its first and last line, by offset, and what they say."""

    first: int
    last: int
    text: str


class Found(NamedTuple):
    """Where a query's terms are in a text, in order, and the lines that have any."""

    places: list[tuple[int, str]]  # where a term starts
    starts: list[int]  # of each such line
    firsts: list[int]  # position in `places` of its first term
    weights: list[float]  # of its different terms


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
        self._terms = sorted(self.weights, key=len)

    def found_in(self, text: str) -> Found:
        found = Found([], [], [], [])
        places, starts, firsts, weights = found
        line_end = seen_to = -1
        terms_here: set[str] = set()
        for place in self._places(text):
            start, term = place
            if start < seen_to:
                continue  # part of a longer one
            seen_to = start + len(term)
            if start > line_end:
                starts.append(text.rfind("\n", 0, start) + 1)
                firsts.append(len(places))
                weights.append(0.0)
                line_end = _line_end(text, start)
                terms_here.clear()
            if term not in terms_here:
                terms_here.add(term)
                weights[-1] += self.weights[term]
            places.append(place)
        return found

    def _places(self, text: str) -> list[tuple[int, str]]:
        """Every place where a term starts, in order; the longest where several start."""
        lowered = text.lower()
        if len(lowered) != len(text):  # a few capitals have longer small letters, and places would no longer agree
            lowered = text
        find = lowered.find
        term_at: dict[int, str] = {}
        for term in self._terms:  # the shortest first, so that longer ones take their places
            start = find(term)
            while start >= 0:
                term_at[start] = term
                start = find(term, start + 1)
        return sorted(term_at.items())


def _beginning(term: str) -> str:
    """The letters that a stem shares with its word: `retri` of "retry" ends in a letter of its own."""
    return term.removesuffix("i")[:PREFIX] or term


def focus(text: str, finder: Finder, budget: int) -> Shown:
    """The best run of whole lines within `budget`; at least one line, which is cut where it is longer.

    A run is worth the weights of the query's terms in it, a repeated term a tenth of its first occurrence; the run at
    the head of the chunk gets a bonus, since a signature explains more than the middle of a body.
    """
    if len(text) <= budget:
        return Shown(0, text.count("\n"), text)
    found = finder.found_in(text)
    best, best_end, best_worth = 0, 0, -1.0
    for start, first in ((0, 0), *_heaviest(found)):
        end = _run_end(text, start, budget)
        worth = _worth(found.places, first, end, finder.weights)
        if start == 0:
            worth += HEAD_SHARE * finder.total
        if worth > best_worth:
            best, best_end, best_worth = start, end, worth
    first = text.count("\n", 0, best)
    chosen = text[best:best_end]
    shown = chosen if len(chosen) <= budget else chosen[: max(budget - 1, 0)] + "…"
    return Shown(first, first + chosen.count("\n"), shown)


def _heaviest(found: Found) -> list[tuple[int, int]]:
    """Where to start, with the first place there: the best runs start at one of the heaviest lines."""
    starts = list(zip(found.starts, found.firsts, strict=True))
    if len(starts) <= STARTS_TRIED:
        return starts
    weights = found.weights
    heaviest = sorted(range(len(starts)), key=weights.__getitem__, reverse=True)[:STARTS_TRIED]
    return [starts[at] for at in heaviest]


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _run_end(text: str, start: int, budget: int) -> int:
    """Where the last whole line ends that still fits when showing starts at `start`."""
    if start + budget >= len(text):
        return len(text)
    end = text.rfind("\n", start, start + budget + 1)
    return end if end >= 0 else _line_end(text, start)


def _worth(places: Sequence[tuple[int, str]], first: int, end: int, weights: Mapping[str, float]) -> float:
    """Of the terms from place `first` on that start before `end`."""
    seen: set[str] = set()
    worth = 0.0
    for at in range(first, len(places)):
        start, term = places[at]
        if start >= end:
            break
        if term in seen:
            worth += REPEATED * weights[term]
        else:
            worth += weights[term]
            seen.add(term)
    return worth
