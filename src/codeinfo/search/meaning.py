"""The vector channel: what a query's words are worth here, and from cosines of chunks to a score of files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from codeinfo.search.keyword import Floats, Runs
from codeinfo.search.query import Query
from codeinfo.tokens import stem, words

LEAST_REACH = 0.05  # where all files are about equally near, the nearest is no answer either
MOST = 1.3  # a path may bring a file nearer than any content is
PATH_SHARE = 0.4  # of a path's vector beside one of a chunk: from .3 to .5 it makes no difference


def word_worths(query: Query, idf: Mapping[str, float]) -> list[tuple[str, float]]:
    """The words of a query in their order, each with its weight as a term times the root of its rarity in this index.

    Words that are in no file and words such as "how" are taken to be as rare as the others on average: the first are
    what meaning is for, and the model itself knows how little the second say.
    """
    asked = [(word, stem(word)) for word in words(query.text)]
    known = [idf[term] for _, term in asked if term in idf]
    usual = math.sqrt(sum(known) / len(known)) if known else 1.0
    return [
        (word, query.terms.get(term, 1.0) * (math.sqrt(idf[term]) if term in idf else usual)) for word, term in asked
    ]


class Scale(NamedTuple):
    """The mean of the best cosines of all files, and how far the nearest file is above it."""

    mean: float
    reach: float

    def __call__(self, cosines: Floats) -> Floats:
        """0 at the mean, 1 at the nearest file: the same in an index of 200 files and in one of 20,000.

        Cut at 0, so that the channel lifts files that words cannot reach and pushes none down.
        """
        worth: Floats = np.clip((cosines - np.float32(self.mean)) / np.float32(self.reach), 0, MOST)
        return worth


def file_meaning(cosines: Floats, runs: Runs, files: int) -> tuple[Floats, Scale]:
    """Each file's best cosine on the scale of them all, and that scale."""
    result = np.zeros(files, np.float32)
    if not len(runs.starts):
        return result, Scale(0.0, 1.0)
    best = np.maximum.reduceat(cosines, runs.starts)
    mean = float(np.add.reduce(best) / np.float32(len(best)))
    scale = Scale(mean, max(float(best.max()) - mean, LEAST_REACH))
    result[runs.owners] = scale(best)
    return result, scale


class Meant(NamedTuple):
    """What the vector channel made of a query."""

    asked: Floats  # the query as its embedder reads it: what distances are measured from
    weighed: Floats  # the same, its words worth what they are in this index: what chunks are ranked by
    cosines: Floats  # of every row with `weighed`
    scale: Scale


def with_paths(cosines: Floats, chunks: Floats, paths: Floats, query: Floats) -> Floats:
    """The cosine of the query with each chunk and its path taken together.

    It is that of unit(chunk + share · path). Unlike a sum of two cosines it does not count twice what both say.
    """
    overlap = np.einsum("ij,ij->i", chunks, paths)
    joined: Floats = (cosines + PATH_SHARE * (paths @ query)) / np.sqrt(1 + PATH_SHARE**2 + 2 * PATH_SHARE * overlap)
    return joined


def squared_l2(cosine: float) -> float:
    """The distance between unit vectors: 0 identical, 4 opposite."""
    return 2 - 2 * cosine
