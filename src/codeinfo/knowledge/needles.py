"""Which of many words a text has. Looking for each of two hundred in every file takes longer than all the rest, so the
triples of characters that a text has rule most of them out at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

_TRIPLES = 1 << 16  # hashes: few enough for a table of them to stay in the cache
_FIRST, _SECOND = np.uint16(961), np.uint16(31)
_SHORT = 3


class Needles:
    """Words by whom they are wanted; whoever wants none is always served."""

    def __init__(self, wanted: Mapping[int, Sequence[str]]) -> None:
        self._always = [one for one, words in wanted.items() if not words]
        self._by_word: dict[str, list[int]] = {}
        for one, words in wanted.items():
            for word in words:
                self._by_word.setdefault(word, []).append(one)
        self._short = [word for word in self._by_word if len(word.encode()) < _SHORT]
        self._words = [word for word in self._by_word if len(word.encode()) >= _SHORT]
        triples = [_triples(word) for word in self._words]
        self._starts = np.cumsum([0, *map(len, triples)][:-1] if triples else [], dtype=np.intp)
        self._triples = np.concatenate(triples) if triples else np.zeros(0, np.uint16)

    def wanted_by(self, text: str) -> set[int]:
        found = set(self._always)
        for word in (*self._short, *self._likely(text)):
            if word in text:
                found.update(self._by_word[word])
        return found

    def _likely(self, text: str) -> list[str]:
        if not self._words:
            return []
        has = np.zeros(_TRIPLES, bool)
        has[_triples(text)] = True
        complete = np.logical_and.reduceat(has[self._triples], self._starts)
        return [self._words[at] for at in np.flatnonzero(complete)]


def _triples(text: str) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """A hash of every three neighbouring bytes."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.uint16)
    return data[:-2] * _FIRST + data[1:-1] * _SECOND + data[2:]
