"""Near-duplicates by shingles of eight words: which records repeat text of the benchmark's trees."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np
from extract import EXTENSIONS
from numpy.typing import NDArray

from codeinfo.tokens import words

SHINGLE = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Hashes = NDArray[np.uint64]


@lru_cache(maxsize=1_000_000)
def _number(word: str) -> int:
    return zlib.crc32(word.encode())


def numbers(text: str) -> list[int]:
    """Words to numbers that are the same in every run, so that the trees' shingles can be kept."""
    return [_number(word) for word in words(text)]


def shingles(ids: list[int] | NDArray[np.uint32]) -> Hashes:
    """A hash for every window of eight words."""
    row = np.asarray(ids, dtype=np.uint64)
    if len(row) < SHINGLE:
        return np.empty(0, np.uint64)
    total = np.zeros(len(row) - SHINGLE + 1, np.uint64)
    for offset in range(SHINGLE):
        total = total * _MULTIPLIER + row[offset : offset + len(total)] + np.uint64(1)
        total ^= total >> np.uint64(29)
    return total


def tree_shingles(trees: Path) -> Hashes:
    """All shingles of the source files under `trees`, sorted."""
    hashes: list[Hashes] = []
    for folder, folders, files in os.walk(trees):
        folders[:] = [f for f in folders if f != ".git"]
        for name in files:
            if os.path.splitext(name)[1].lower() in EXTENSIONS:
                path = Path(folder, name)
                if path.is_file() and path.stat().st_size < 1_000_000:
                    hashes.append(np.unique(shingles(numbers(path.read_text(errors="replace")))))
    return np.unique(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)


def shares(rows: Iterable[list[int]], listed: Hashes) -> NDArray[np.float32]:
    """For each row, which part of its shingles is in `known`."""
    out: list[float] = []
    for row in rows:
        hashes = shingles(row)
        at = np.minimum(np.searchsorted(listed, hashes), max(len(listed) - 1, 0))
        out.append(float((listed[at] == hashes).mean()) if len(hashes) and len(listed) else 0.0)
    return np.asarray(out, np.float32)
