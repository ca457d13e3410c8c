"""The vector channel: from cosines of chunks to a score of files that can be added to others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codeinfo.rank.keyword import Floats

BEST_CHUNKS = 3


def file_meaning(cosines: Floats, row_file: NDArray[np.int32], files: int) -> Floats:
    """Mean of each file's three best cosines, as a z-score over the files, cut at 0 and divided by 4.

    The cut leaves alone what is merely average, so that the channel lifts files that words cannot reach and never
    pushes one down.
    """
    if not len(cosines):
        return np.zeros(files, np.float32)
    best = np.full((files, BEST_CHUNKS), -np.inf, np.float32)
    remaining = cosines.copy()
    for place in range(BEST_CHUNKS):
        top = np.full(files, -np.inf, np.float32)
        np.maximum.at(top, row_file, remaining)
        best[:, place] = top
        remaining[remaining == top[row_file]] = -np.inf
    present = np.isfinite(best)
    counts = present.sum(1)
    means = np.where(present, best, 0).sum(1) / np.maximum(counts, 1)
    having = counts > 0
    spread = float(means[having].std()) or 1.0
    z = (means - float(means[having].mean())) / spread
    return (np.where(having, np.maximum(z, 0), 0) / 4).astype(np.float32)


def squared_l2(cosine: float) -> float:
    """The distance between unit vectors: 0 identical, 4 opposite."""
    return 2 - 2 * cosine
