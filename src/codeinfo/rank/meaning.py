"""The vector channel: from cosines of chunks to a score of files that can be added to others."""

from __future__ import annotations

import math

import numpy as np

from codeinfo.rank.keyword import Floats, Runs


def file_meaning(cosines: Floats, runs: Runs, files: int) -> Floats:
    """Each file's best cosine, as a z-score over the files, cut at 0 and divided by 4.

    The cut leaves alone what is merely average, so that the channel lifts files that words cannot reach and never
    pushes one down.
    """
    result = np.zeros(files, np.float32)
    if len(runs.starts):
        best = np.maximum.reduceat(cosines, runs.starts)
        beyond = best - best.mean()
        spread = math.sqrt(float(beyond @ beyond) / len(best)) or 1.0
        result[runs.owners] = np.maximum(beyond, 0) / (4 * spread)
    return result


def squared_l2(cosine: float) -> float:
    """The distance between unit vectors: 0 identical, 4 opposite."""
    return 2 - 2 * cosine
