"""The relevance policy: which part of a store's answer is worth passing on, and how much of it.

    cutoff → fallback → dedupe → two per file → cap each chunk → cap the sum

Every step keeps the store's order, and records what it dropped. Distances: 0 is identical, lower is closer. A passage
without a numeric distance comes last wherever distances decide.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from codeinfo.model import Dropped, Passage
from codeinfo.settings import RetrievalSettings

CHUNKS_PER_FILE = 2
NO_DISTANCES = "none"


class PolicyResult(Struct, frozen=True):
    kept: tuple[Passage, ...]  # in the store's order, each text cut to the cap
    dropped: tuple[Dropped, ...]  # by "malformed", "cutoff", "fallback", "duplicate", "per_file" or "max_chars"
    score_source: str  # "distances", or "none" if there are none
    with_distance: int  # passages that had one
    fell_back: bool = False  # nothing passed the cutoff: what is kept is merely the closest


class _Ranked(Struct, frozen=True):
    """A passage, its position in the store's order, and its distance (infinite if it has none)."""

    passage: Passage
    place: int
    distance: float
    named: bool

    def closeness(self) -> tuple[bool, float, int]:
        return not self.named, self.distance, self.place


def apply_policy(
    passages: Sequence[Passage], settings: RetrievalSettings, *, named: Collection[Passage] = ()
) -> PolicyResult:
    """The passages worth passing on. The cutoff is compared with the same distance that is shown. The question names
    the `named` ones: no distance can rule them out."""
    dropped: list[Dropped] = []
    ranked = _drop_malformed(passages, named, dropped)
    relevant, fell_back = _within_cutoff(ranked, settings, dropped)
    distinct = _without_duplicates(relevant, dropped)
    closest = _closest_of_each_file(distinct, dropped)
    kept = _within_caps(closest, settings, dropped)
    with_distance = sum(math.isfinite(distance_of(passage)) for passage in passages)
    source = "distances" if with_distance else NO_DISTANCES
    return PolicyResult(kept, tuple(dropped), source, with_distance, fell_back)


def distance_of(passage: Passage) -> float:
    """A comparable distance: infinite for what is missing, not a number, NaN or infinite."""
    value = passage.distance.value if passage.distance else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return math.inf
    return float(value)


def _drop_malformed(passages: Sequence[Passage], named: Collection[Passage], dropped: list[Dropped]) -> list[_Ranked]:
    """Passages that name their file and have text. Others are dropped first, so that they cannot use up the
    fallback."""
    ranked = []
    for place, passage in enumerate(passages):
        missing = [name for name in ("root", "path") if not getattr(passage, name)]
        if missing or not isinstance(passage.text, str):
            dropped.append(passage.as_dropped("malformed", f"no {' and no '.join(missing or ['text'])}"))
            continue
        ranked.append(_Ranked(passage, place, distance_of(passage), passage in named))
    return ranked


def _within_cutoff(
    ranked: list[_Ranked], settings: RetrievalSettings, dropped: list[Dropped]
) -> tuple[list[_Ranked], bool]:
    if settings.cutoff_disabled or not ranked:
        return ranked, False
    cutoff = settings.distance_cutoff
    if any(entry.distance <= cutoff for entry in ranked):
        far = [entry for entry in ranked if entry.distance > cutoff and not entry.named]
        dropped += [entry.passage.as_dropped("cutoff", f"{_shown(entry)} > {cutoff:g}") for entry in far]
        return [entry for entry in ranked if entry.distance <= cutoff or entry.named], False
    closest = {entry.place for entry in sorted(ranked, key=_Ranked.closeness)[: settings.fallback_chunks]}
    for entry in ranked:
        if entry.place not in closest:
            detail = f"{_shown(entry)} > {cutoff:g}, and {settings.fallback_chunks} others are closer"
            dropped.append(entry.passage.as_dropped("fallback", detail))
    return [entry for entry in ranked if entry.place in closest], True


def _without_duplicates(ranked: list[_Ranked], dropped: list[Dropped]) -> list[_Ranked]:
    """The first of each chunk id and of each text within a file. The same text in two files stays twice."""
    seen: set[tuple[str, str, str, str]] = set()
    distinct = []
    for entry in ranked:
        passage = entry.passage
        by_text = (passage.root, passage.path, "text", passage.text)
        by_id = (passage.root, passage.path, "id", passage.chunk_id)
        if by_text in seen or (passage.chunk_id and by_id in seen):
            reason = "text" if by_text in seen else "chunk id"
            dropped.append(passage.as_dropped("duplicate", f"same {reason} as an earlier result of this file"))
            continue
        seen |= {by_text, by_id}
        distinct.append(entry)
    return distinct


def _closest_of_each_file(ranked: list[_Ranked], dropped: list[Dropped]) -> list[_Ranked]:
    files: dict[tuple[str, str], list[_Ranked]] = {}
    for entry in ranked:
        files.setdefault((entry.passage.root, entry.passage.path), []).append(entry)
    chosen = {
        entry.place for entries in files.values() for entry in sorted(entries, key=_Ranked.closeness)[:CHUNKS_PER_FILE]
    }
    for entry in ranked:
        if entry.place not in chosen:
            dropped.append(
                entry.passage.as_dropped("per_file", f"{CHUNKS_PER_FILE} closer chunks of this file are kept")
            )
    return [entry for entry in ranked if entry.place in chosen]


def _within_caps(ranked: list[_Ranked], settings: RetrievalSettings, dropped: list[Dropped]) -> tuple[Passage, ...]:
    """Each text is truncated first, then as many from the top as fit; what follows the first misfit is past the cap."""
    kept: list[Passage] = []
    used = 0
    full = False
    for entry in ranked:
        passage = entry.passage.cut(settings.chunk_max_chars)
        full = full or used + len(passage.text) > settings.max_chars
        if full:
            dropped.append(entry.passage.as_dropped("max_chars", f"past {settings.max_chars} characters in all"))
            continue
        used += len(passage.text)
        kept.append(passage)
    return tuple(kept)


def _shown(entry: _Ranked) -> str:
    return "no distance" if math.isinf(entry.distance) else f"distance {entry.distance:.4g}"
