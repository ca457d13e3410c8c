"""How much a memory still counts: it halves with age, except where it is a convention."""

from __future__ import annotations

import math
from datetime import UTC, datetime

# Days after which a memory counts half; None never ages. A decision outlives the trouble that a fix speaks of.
HALF_LIFE_DAYS: dict[str, float | None] = {"convention": None, "decision": 180.0, "gotcha": 90.0, "failure": 90.0}
STALE_BELOW = 0.3
_DAY_SECONDS = 86_400


def confidence(kind: str, date: str, now: float) -> float:
    """2^(−age / half-life), 0..1; `now` is seconds since the epoch. A date in the future counts as today."""
    half_life = HALF_LIFE_DAYS[kind]
    if half_life is None:
        return 1.0
    age_days = max(0.0, now - seconds_of(date)) / _DAY_SECONDS
    return round(math.pow(2.0, -age_days / half_life), 4)


def is_stale(value: float) -> bool:
    return value < STALE_BELOW


def seconds_of(date: str) -> float:
    """Seconds since the epoch of an ISO 8601 date; ValueError where it is none. Without a zone it is UTC."""
    parsed = datetime.fromisoformat(date)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def iso_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
