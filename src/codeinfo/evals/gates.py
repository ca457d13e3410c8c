"""Figures a run must reach, so that a build can fail when search gets worse."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import fields

from codeinfo.errors import UsageError
from codeinfo.evals.metrics import LOWER_IS_BETTER
from codeinfo.operations.evaluation import Summary, Verdict

FIGURES = tuple(item.name for item in fields(Summary) if item.name != "n")


def parse_gates(texts: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """`ndcg10=0.85` and the like."""
    gates = []
    for text in texts:
        name, _, value = text.partition("=")
        try:
            wanted = float(value)
        except ValueError:
            wanted = math.nan
        if name not in FIGURES or not math.isfinite(wanted):
            raise UsageError(
                f"{text!r} is no gate", next_step=f"Write NAME=VALUE, where the name is one of {', '.join(FIGURES)}."
            )
        gates.append((name, wanted))
    return tuple(gates)


def judge(gates: Iterable[tuple[str, float]], summary: Summary) -> tuple[Verdict, ...]:
    """Quality must be at least what the gate says; costs at most."""
    verdicts = []
    for metric, wanted in gates:
        value: float | None = getattr(summary, metric)
        passed = value is not None and (value <= wanted if metric in LOWER_IS_BETTER else value >= wanted)
        verdicts.append(Verdict(metric, wanted, value, passed))
    return tuple(verdicts)
