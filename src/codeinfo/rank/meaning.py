"""The vector channel: from cosines of chunks to a score of files that can be added to others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codeinfo.rank.keyword import Floats


def file_meaning(cosines: Floats, row_file: NDArray[np.int32], files: int) -> Floats:
    """Each file's best cosine, as a z-score over the files, cut at 0 and divided by 4.

    The cut leaves alone what is merely average, so that the channel lifts files that words cannot reach and never
    pushes one down.
    """
    best = np.full(files, -np.inf, np.float32)
    np.maximum.at(best, row_file, cosines)
    having = np.isfinite(best)
    if not having.any():
        return np.zeros(files, np.float32)
    spread = float(best[having].std()) or 1.0
    z = (np.where(having, best, 0) - float(best[having].mean())) / spread
    return (np.where(having, np.maximum(z, 0), 0) / 4).astype(np.float32)


def squared_l2(cosine: float) -> float:
    """The distance between unit vectors: 0 identical, 4 opposite."""
    return 2 - 2 * cosine
