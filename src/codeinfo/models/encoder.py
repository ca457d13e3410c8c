"""Texts → vectors from a table of words, with numpy alone.

A document is Σ √count · vector over its words, a query Σ weight · vector, both of unit length. The stored vector of a
chunk depends only on its content; the path has a vector of its own (`paths`), joined at search time, so that a
renamed file keeps its vectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from posixpath import splitext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codeinfo.cache import TokenCache
from codeinfo.tokens import identifiers, read_tokens, split_identifier

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

MAX_PIECES = 4  # of an unknown word; more would be noise
REMEMBERED = 200_000  # tokens with the ids of their words, some 40 MB
BATCH = 256  # rows gathered at once: 256 chunks × 80 words × 1 KB stay within a few tens of megabytes

MOST_WEIGHT = 1e6  # of a word: far more than any has, far less than what overflows


class Vocabulary:
    """Words → ids. An unknown word is split greedily into known pieces of at least two letters, as in training."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = dict(zip(words, range(len(words)), strict=True))
        self._starts = {word[:2] for word in words}  # in other scripts, few places of a word begin a known piece

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def ids_in(self, text: str) -> Iterator[int]:
        return (i for name in identifiers(text) for word in split_identifier(name) for i in self._of_word(word))

    def _of_word(self, word: str) -> tuple[int, ...]:
        if (ids := self._words.get(word)) is not None:
            return (ids,)
        pieces: list[int] = []
        start = 0
        while start < len(word) - 1 and len(pieces) < MAX_PIECES:
            end = len(word) if word[start : start + 2] in self._starts else start + 1
            while end > start + 1 and word[start:end] not in self._words:
                end -= 1
            if end > start + 1:
                pieces.append(self._words[word[start:end]])
            start = end
        return tuple(pieces)


class Encoder:
    """The table and the arithmetic, without files or indexes. Tensors that do not fit together raise ValueError."""

    def __init__(self, tensors: dict[str, NDArray[Any]]) -> None:
        words = tensors["vocabulary"].tobytes().decode().split("\n")
        numbers = (tensors["scales"], tensors["query_weights"])
        if len(words) != len(tensors["vectors"]) or not all((np.abs(row) < MOST_WEIGHT).all() for row in numbers):
            raise ValueError("its words, vectors and weights do not fit together")
        self._vocabulary = Vocabulary(words)
        self._ids = TokenCache(self._vocabulary.ids_in, REMEMBERED)  # of tokens, and of the parts of paths
        self._vectors, self._scales = tensors["vectors"], tensors["scales"]
        self._query_weights = tensors["query_weights"]
        self._floats: Floats | None = None
        self._looked_up = 0
        self.dimension = int(self._vectors.shape[1])

    def knows(self, word: str) -> bool:
        return word in self._vocabulary

    def documents(self, texts: Sequence[str]) -> Floats:
        """One unit-length row per text."""
        out = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), BATCH):
            rows = [Counter(read_tokens(text, self._ids)) for text in texts[start : start + BATCH]]
            ids = np.fromiter(chain.from_iterable(rows), np.int64)
            counts = np.fromiter(chain.from_iterable(row.values() for row in rows), np.float32)
            lengths = np.fromiter(map(len, rows), np.int64, len(rows))
            out[start : start + len(rows)] = self._sums(ids, np.sqrt(counts), lengths)
        return out

    def query(self, text: str) -> Floats:
        """One unit-length vector; repeated words count each time, as in training."""
        ids = list(read_tokens(text, self._ids))
        return _unit(*self._of_query(ids)) if ids else self._nothing()

    def weighted_query(self, words: Sequence[tuple[str, float]]) -> tuple[Floats, Floats]:
        """The query of these words, plain and with each word's model weight multiplied by the caller's."""
        parts = [(i, weight) for word, weight in words for i in self._ids[word]]
        if not parts:
            return self._nothing(), self._nothing()
        worth, vectors = self._of_query([i for i, _ in parts])
        weights = np.array([weight for _, weight in parts], np.float32)
        return _unit(worth, vectors), _unit(worth * weights, vectors)

    def _of_query(self, ids: list[int]) -> tuple[Floats, Floats]:
        id_array = np.array(ids)
        return self._query_weights[id_array] * self._scales[id_array], self._vectors[id_array].astype(np.float32)

    def paths(self, paths: Sequence[str]) -> Floats:
        """What each path says by itself, its words weighted as in a query; one row per path."""
        cached = self._ids
        rows = [[i for part in splitext(path)[0].split("/") for i in cached[part]] for path in paths]
        lengths = np.array([len(row) for row in rows])
        out = np.zeros((len(rows), self.dimension), np.float32)
        out[:, -1] = lengths == 0  # see `_nothing`
        present = lengths.nonzero()[0]
        if len(present):
            ids = np.fromiter(chain.from_iterable(rows), np.int64)
            words = (self._query_weights[ids] * self._scales[ids])[:, None] * self._vectors[ids]
            sums = np.add.reduceat(words, (np.cumsum(lengths) - lengths)[present], axis=0)
            out[present] = sums / np.maximum(np.sqrt(np.einsum("ij,ij->i", sums, sums)), 1e-9)[:, None]
        return out

    def _nothing(self) -> Floats:
        """The vector of a text without words, of unit length as every row: the last axis, which words use least."""
        row = np.zeros(self.dimension, np.float32)
        row[-1] = 1.0
        return row

    def _sums(self, ids: Ints, weights: Floats, lengths: Ints) -> Floats:
        """Weighted sums of table rows, `lengths[i]` ids for row i, scaled to unit length."""
        out = np.empty((len(lengths), self.dimension), np.float32)
        table, ids = self._table(ids)
        start = 0
        for row, length in enumerate(lengths.tolist()):
            end = start + length
            if length:
                np.dot(weights[start:end], table[ids[start:end]], out=out[row])
            else:
                out[row] = self._nothing()
            start = end
        norms = np.sqrt(np.einsum("ij,ij->i", out, out))
        out /= np.maximum(norms, 1e-9)[:, None]
        return out

    def _table(self, ids: Ints) -> tuple[Floats, Ints]:
        """Words as floats, and the positions of `ids` among them: at first only these, all once that pays off."""
        self._looked_up += len(ids)
        if self._floats is None and self._looked_up < len(self._vectors):
            return self._vectors[ids].astype(np.float32) * self._scales[ids][:, None], np.arange(len(ids))
        if self._floats is None:
            self._floats = self._vectors.astype(np.float32) * self._scales[:, None]
        return self._floats, ids


def _unit(worth: Floats, vectors: Floats) -> Floats:
    total: Floats = worth @ vectors
    return total / np.float32(max(math.sqrt(float(total @ total)), 1e-9))
