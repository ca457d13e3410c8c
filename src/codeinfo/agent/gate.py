"""What of a search may go to a model, and how much of it: the relevance policy, then what is worth its tokens.

A model pays for every passage, so those far below the best stay behind, and only the best keeps its whole chunk: the
others are cut to the lines that match. Measured in docs/answers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.agent.evidence import Item, dropped_by
from codeinfo.model import Dropped, FileKind, Hit, SearchResult
from codeinfo.search.focus import Finder, focus
from codeinfo.search.policy import PolicyItem, PolicyResult, PolicySettings, apply_policy
from codeinfo.tokens import stem

ALWAYS = 3  # passages that the floor leaves alone: with fewer there would be nothing to grade

Weigh = Callable[[str], Mapping[str, float]]  # a query's words by rarity


class Admitted(Struct, frozen=True):
    items: tuple[Item, ...]  # not yet numbered
    dropped: tuple[Dropped, ...]
    score_source: str


class Gate(Struct, frozen=True):
    policy: PolicySettings
    weigh: Weigh
    least_score: float
    passage_chars: int

    def relevant(self, found: SearchResult) -> Admitted:
        """What the relevance policy lets through, whole."""
        result = self._apply_policy(found)
        items = tuple(item_of(kept.payload, kept.text) for kept in result.kept)
        return Admitted(items, dropped_by(result), result.score_source)

    def admit(self, found: SearchResult) -> Admitted:
        """What goes to a model: relevant, not far below the best, cut to what matches."""
        result = self._apply_policy(found)
        best = max((kept.payload.score for kept in result.kept), default=0.0)
        floor = self.least_score * best
        finder = finder_of(self.weigh(found.query))
        items, dropped = list[Item](), list(dropped_by(result))
        for place, kept in enumerate(result.kept):
            if place >= ALWAYS and kept.payload.score < floor:
                dropped.append(_too_low(kept.payload, best))
                continue
            item = item_of(kept.payload, kept.text)
            items.append(focused(item, finder, self.passage_chars) if items else item)
        return Admitted(tuple(items), tuple(dropped), result.score_source)

    def _apply_policy(self, found: SearchResult) -> PolicyResult:
        return apply_policy(map(_policy_item, found.hits), self.policy)


def finder_of(weights: Mapping[str, float]) -> Finder:
    return Finder({stem(word): weight for word, weight in weights.items()})


def focused(item: Item, finder: Finder, chars: int) -> Item:
    """The lines of a passage that match best; all of them where they fit."""
    shown = focus(item.text, finder, chars)
    # A part of a table repeats its header above its own lines, so the text may have more lines than the passage.
    start, end = (min(item.end_line, item.start_line + offset) for offset in (shown.first, shown.last))
    return replace(item, start_line=start, end_line=end, text=shown.text)


def item_of(hit: Hit, text: str) -> Item:
    """A hit as a passage, not yet numbered, with as much of its text as it may have."""
    last = min(hit.end_line, hit.text_line + text.count("\n"))  # a cut text cites only the lines it has
    section = hit.breadcrumb if hit.kind is FileKind.DOCS else ""
    return Item(0, hit.root, hit.path, hit.text_line, last, text, hit.symbol, hit.distance, section=section)


def _too_low(hit: Hit, best: float) -> Dropped:
    return Dropped(hit.path, hit.start_line, hit.end_line, "least_score", f"{hit.score / best:.2f} of the best score")


def _policy_item(hit: Hit) -> PolicyItem:
    distance = hit.distance.value if hit.distance is not None else None
    return PolicyItem(hit.root, hit.path, hit.chunk_id, hit.text, distance, hit)
