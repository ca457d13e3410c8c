"""How central a file is: by how many need it, and by how much those are needed themselves.

PageRank alone lets a closed circle of files keep all that flows into it; the number of importers alone takes a thousand
leaves for as much as ten hubs. The geometric mean of both, scaled so that the most central file has 1, does neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeinfo.graph.facts import Edge

DAMPING = 0.85
ROUNDS = 40  # the values settle to three digits well before


def centrality(paths: Sequence[str], edges: Sequence[Edge]) -> Mapping[str, float]:
    """Files that nothing needs have 0: all others get what those that need them are worth."""
    if not edges:
        return {}
    import numpy as np

    position = {path: number for number, path in enumerate(paths)}
    pairs = [(position[e.source], position[e.target]) for e in edges if e.source in position and e.target in position]
    if not pairs:
        return {}
    source, target = np.array(pairs, np.int64).T
    count = len(paths)
    share = 1.0 / np.bincount(source, minlength=count)[source]
    value = np.full(count, 1.0 / count)
    for _ in range(ROUNDS):
        passed = np.bincount(target, weights=value[source] * share, minlength=count)
        value = (1 - DAMPING) / count + DAMPING * (passed + (1 - passed.sum()) / count)
    needed = np.bincount(target, minlength=count)
    value = np.sqrt((value - value.min()).clip(0) * needed)
    top = value.max()
    if not top:
        return {}
    return {paths[number]: round(float(value[number] / top), 4) for number in np.flatnonzero(value).tolist()}
