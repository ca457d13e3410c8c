"""The relevance policy: which part of a store's answer is worth passing on, and how much of it.

    cutoff → fallback → dedupe → two per file → cap each chunk → cap the sum

Every step keeps the store's order, and records what it dropped. Distances: 0 is identical, lower is closer. An item
without a numeric distance comes last wherever distances decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.settings import RetrievalSettings

CHUNKS_PER_FILE = 2
NO_DISTANCES = "none"


class PolicyItem(Struct, frozen=True):
    """One chunk as the store returned it; `payload` belongs to the caller."""

    repo: str
    rel_path: str
    chunk_id: str | int | None
    text: str
    distance: float | None
    payload: Any = None
    named: bool = False  # the question names it: no distance can rule it out


class PolicyDrop(Struct, frozen=True):
    item: PolicyItem
    rule: str  # "malformed", "cutoff", "fallback", "duplicate", "per_file" or "max_chars"
    detail: str


class PolicyResult(Struct, frozen=True):
    kept: tuple[PolicyItem, ...]  # in the store's order, each text cut to the cap
    dropped: tuple[PolicyDrop, ...]
    score_source: str  # where the distances came from, "none" if there are none
    with_distance: int  # items that had one
    fell_back: bool = False  # nothing passed the cutoff: what is kept is merely the closest


class _Ranked(Struct, frozen=True):
    """An item, its position in the store's order, and its distance (infinite if it has none)."""

    item: PolicyItem
    place: int
    distance: float

    def closeness(self) -> tuple[bool, float, int]:
        return not self.item.named, self.distance, self.place


def apply_policy(
    items: Iterable[PolicyItem],
    settings: RetrievalSettings,
    *,
    source: str = "distances",
) -> PolicyResult:
    """The items worth passing on. The cutoff is compared with the same distance that is shown."""
    given = list(items)
    dropped: list[PolicyDrop] = []
    ranked = _drop_malformed(given, dropped)
    relevant, fell_back = _within_cutoff(ranked, settings, dropped)
    distinct = _without_duplicates(relevant, dropped)
    closest = _closest_of_each_file(distinct, dropped)
    kept = _within_caps(closest, settings, dropped)
    with_distance = sum(numeric(item.distance) is not None for item in given)
    return PolicyResult(kept, tuple(dropped), source if with_distance else NO_DISTANCES, with_distance, fell_back)


def best_distance(items: Iterable[PolicyItem]) -> float | None:
    """The minimum distance. None if no item has a numeric distance."""
    return min((value for item in items if (value := numeric(item.distance)) is not None), default=None)


def numeric(value: object) -> float | None:
    """A comparable distance; None for what is missing, not a number, NaN or infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _drop_malformed(items: Sequence[PolicyItem], dropped: list[PolicyDrop]) -> list[_Ranked]:
    """Items that name their file and have text. Others are dropped first, so that they cannot use up the fallback."""
    ranked = []
    for place, item in enumerate(items):
        missing = [name for name in ("repo", "rel_path") if not getattr(item, name)]
        if missing or not isinstance(item.text, str):
            dropped.append(PolicyDrop(item, "malformed", f"no {' and no '.join(missing or ['text'])}"))
            continue
        distance = numeric(item.distance)
        ranked.append(_Ranked(item, place, math.inf if distance is None else distance))
    return ranked


def _within_cutoff(
    ranked: list[_Ranked], settings: RetrievalSettings, dropped: list[PolicyDrop]
) -> tuple[list[_Ranked], bool]:
    if settings.cutoff_disabled or not ranked:
        return ranked, False
    cutoff = settings.distance_cutoff
    if any(entry.distance <= cutoff for entry in ranked):
        far = [entry for entry in ranked if entry.distance > cutoff and not entry.item.named]
        dropped += [PolicyDrop(entry.item, "cutoff", f"{_shown(entry)} > {cutoff:g}") for entry in far]
        return [entry for entry in ranked if entry.distance <= cutoff or entry.item.named], False
    closest = {entry.place for entry in sorted(ranked, key=_Ranked.closeness)[: settings.fallback_chunks]}
    for entry in ranked:
        if entry.place not in closest:
            detail = f"{_shown(entry)} > {cutoff:g}, and {settings.fallback_chunks} others are closer"
            dropped.append(PolicyDrop(entry.item, "fallback", detail))
    return [entry for entry in ranked if entry.place in closest], True


def _without_duplicates(ranked: list[_Ranked], dropped: list[PolicyDrop]) -> list[_Ranked]:
    """The first of each chunk id and of each text within a file. The same text in two files stays twice."""
    seen: set[tuple[str, str, str, object]] = set()
    distinct = []
    for entry in ranked:
        item = entry.item
        by_text = (item.repo, item.rel_path, "text", item.text)
        by_id = (item.repo, item.rel_path, "id", item.chunk_id)
        if by_text in seen or (item.chunk_id is not None and by_id in seen):
            same = "text" if by_text in seen else "chunk id"
            dropped.append(PolicyDrop(item, "duplicate", f"same {same} as an earlier result of this file"))
            continue
        seen |= {by_text, by_id}
        distinct.append(entry)
    return distinct


def _closest_of_each_file(ranked: list[_Ranked], dropped: list[PolicyDrop]) -> list[_Ranked]:
    files: dict[tuple[str, str], list[_Ranked]] = {}
    for entry in ranked:
        files.setdefault((entry.item.repo, entry.item.rel_path), []).append(entry)
    chosen = {
        entry.place for entries in files.values() for entry in sorted(entries, key=_Ranked.closeness)[:CHUNKS_PER_FILE]
    }
    for entry in ranked:
        if entry.place not in chosen:
            dropped.append(PolicyDrop(entry.item, "per_file", f"{CHUNKS_PER_FILE} closer chunks of this file are kept"))
    return [entry for entry in ranked if entry.place in chosen]


def _within_caps(
    ranked: list[_Ranked], settings: RetrievalSettings, dropped: list[PolicyDrop]
) -> tuple[PolicyItem, ...]:
    """Each text is truncated first, then as many from the top as fit; what follows the first misfit is past the cap."""
    kept: list[PolicyItem] = []
    used = 0
    full = False
    for entry in ranked:
        text = entry.item.text[: settings.chunk_max_chars]
        full = full or used + len(text) > settings.max_chars
        if full:
            dropped.append(PolicyDrop(entry.item, "max_chars", f"past {settings.max_chars} characters in all"))
            continue
        used += len(text)
        kept.append(entry.item if len(text) == len(entry.item.text) else replace(entry.item, text=text))
    return tuple(kept)


def _shown(entry: _Ranked) -> str:
    return "no distance" if math.isinf(entry.distance) else f"distance {entry.distance:.4g}"
