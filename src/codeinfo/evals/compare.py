"""Two runs over the same queries: who won where, and whether the difference could be chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from codeinfo.evals.datasets import Query
from codeinfo.evals.metrics import mean
from codeinfo.operations.evaluation import Change, Comparison, Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METRIC = "ndcg10"
ROUNDS = 10_000
SEED = 20_240_229  # any number: the same runs must give the same p-value
SAME = 1e-9  # scores closer than this are a tie


def compare(
    name: str,
    queries: Sequence[Query],
    old: Mapping[str, Score],
    new: Mapping[str, Score],
    metric: str = METRIC,
) -> Comparison:
    """`new` against `old` on the queries that both answered."""
    shared = [query for query in queries if query.id in old and query.id in new]
    changes = [Change(q.id, q.text, getattr(old[q.id], metric), getattr(new[q.id], metric)) for q in shared]
    differences = [change.new - change.old for change in changes]
    p_value, low, high = _significance(differences)
    moved = sorted((change for change in changes if abs(change.new - change.old) > SAME), key=_gain)
    wins = tuple(change for change in reversed(moved) if change.new > change.old)
    losses = tuple(change for change in moved if change.new < change.old)
    return Comparison(
        name=name,
        metric=metric,
        n=len(shared),
        old=mean(change.old for change in changes),
        new=mean(change.new for change in changes),
        difference=mean(differences),
        low=low,
        high=high,
        p_value=p_value,
        wins=wins,
        losses=losses,
        ties=len(shared) - len(moved),
    )


def _gain(change: Change) -> tuple[float, str]:
    return change.new - change.old, change.id


def _significance(differences: Sequence[float]) -> tuple[float, float, float]:
    """p of a paired randomisation test and the 95 % bootstrap interval of the mean difference.

    If the runs were equally good, each query's difference could as well have had the other sign: p is the share of
    random signs that make the mean at least as large as it is.
    """
    import numpy as np

    values = np.asarray(differences, dtype=np.float64)
    if not len(values) or not np.any(np.abs(values) > SAME):
        return 1.0, 0.0, 0.0
    random = np.random.default_rng(SEED)
    observed = abs(values.mean())
    moved = values[np.abs(values) > SAME]  # the others add nothing under either sign
    flipped = _in_batches(lambda rounds: random.choice((-1.0, 1.0), size=(rounds, len(moved))) @ moved, len(moved))
    extreme = int(np.count_nonzero(np.abs(flipped) / len(values) >= observed - SAME))
    count = len(values)
    drawn = _in_batches(lambda rounds: values[random.integers(0, count, size=(rounds, count))].mean(axis=1), count)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return (extreme + 1) / (ROUNDS + 1), float(low), float(high)


def _in_batches(draw: Callable[[int], NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """All rounds, a few megabytes at a time."""
    import numpy as np

    size = max(1, min(ROUNDS, 1_000_000 // max(1, width)))
    counts = [min(size, ROUNDS - start) for start in range(0, ROUNDS, size)]
    return np.concatenate([draw(rounds) for rounds in counts])
