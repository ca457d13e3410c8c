"""A trained table, to try it out: reads an export and encodes with the package's own encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codeinfo.models.builtin import read_safetensors
from codeinfo.models.encoder import Encoder

Floats = NDArray[np.float32]


class Table:
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @classmethod
    def load(cls, path: Path) -> Table:
        if path.suffix == ".safetensors":
            return cls(Encoder.of(read_safetensors(path)[0]))
        arrays = np.load(path)
        return cls(Encoder.of({name: arrays[name] for name in arrays.files}))

    def documents(self, texts: Sequence[str]) -> Floats:
        return self.encoder.documents(texts)

    def query(self, text: str) -> Floats:
        return self.encoder.query(text)

    def weighted(self, rows: Sequence[Sequence[tuple[str, float]]]) -> Floats:
        return self.encoder.weighted(rows)
