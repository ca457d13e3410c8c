"""Relevance from 0 to 1, from whatever a reranking model or endpoint gives."""

from __future__ import annotations

import math
from collections.abc import Iterable


def sigmoid(logit: float) -> float:
    """In the form that does not overflow for either sign."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1 + power)


def are_logits(scores: Iterable[float]) -> bool:
    """Whether one of them lies outside 0..1, as no relevance does."""
    return any(not 0 <= score <= 1 for score in scores)
