"""A trained table, to try it out: reads an export and encodes with the package's own encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codeinfo.models import read_safetensors
from codeinfo.models.encoder import Encoder

Floats = NDArray[np.float32]


class Table:
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @classmethod
    def load(cls, path: Path) -> Table:
        if path.suffix == ".safetensors":
            return cls(Encoder(read_safetensors(path)[0]))
        arrays = np.load(path)
        return cls(Encoder({name: arrays[name] for name in arrays.files}))

    def documents(self, texts: Sequence[str]) -> Floats:
        return self.encoder.documents(texts)

    def query(self, text: str) -> Floats:
        return self.encoder.query(text)

    def weighted(self, rows: Sequence[Sequence[tuple[str, float]]]) -> Floats:
        """Unit-length sums of words with weights chosen by the caller."""
        ids_of = self.encoder._ids
        parts = [[(i, weight) for word, weight in row for i in ids_of[word]] for row in rows]
        ids = np.fromiter((i for row in parts for i, _ in row), np.int64)
        weights = np.fromiter((weight for row in parts for _, weight in row), np.float32)
        return self.encoder._sums(ids, weights, np.fromiter(map(len, parts), np.int64, len(parts)))
