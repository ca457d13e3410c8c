"""Records as word ids → six query variants a record, batches in same-package groups, documents in four views."""

from __future__ import annotations

import io
import lzma
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec import Struct

FIELDS = ("doc", "more", "name", "container", "path", "code")
VARIANTS = 6
GROUP = 32
QUESTIONS = [  # {} is what is asked for
    "how does {} work", "how to {}", "how {} works", "where is {} implemented", "where is {}", "what handles {}",
    "how is {} handled", "{} implementation", "how {} is done", "code for {}", "find {}", "which function does {}",
    "what is {}", "logic for {}", "where does it {}", "{} handling",
]  # fmt: skip


class Corpus(Struct):
    words: list[str]
    rows: dict[str, list[np.ndarray]]
    package: np.ndarray
    language: np.ndarray
    languages: list[str]
    packages_using: np.ndarray

    def __len__(self) -> int:
        return len(self.package)


def load(folder: Path, limit: int | None = None) -> Corpus:
    packed = np.load(io.BytesIO(lzma.decompress((folder / "arrays.npz.xz").read_bytes())))
    arrays = {key: packed[key] for key in packed.files}
    if limit:
        for key in FIELDS:
            arrays[key + "_n"] = arrays[key + "_n"][:limit]
            arrays[key] = arrays[key][: arrays[key + "_n"].sum(dtype=np.int64)]
        arrays["package"], arrays["language"] = arrays["package"][:limit], arrays["language"][:limit]
    rows = {
        key: np.split(arrays[key].astype(np.int32), np.cumsum(arrays[key + "_n"].astype(np.int64))[:-1])
        for key in FIELDS
    }
    words, languages = ((folder / name).read_text().split("\n") for name in ("words.txt", "languages.txt"))
    package = arrays["package"].astype(np.int32)
    return Corpus(words, rows, package, arrays["language"], languages, arrays["packages_using"])


class _Asker:
    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.rng = random.Random(seed)
        index = {w: i for i, w in enumerate(corpus.words)}
        self.templates = []
        for text in QUESTIONS:
            before, after = (([index[w] for w in part.split() if w in index]) for part in text.split("{}"))
            self.templates.append((before, after))

    def __call__(self, subject: list[int]) -> list[int]:
        before, after = self.rng.choice(self.templates)
        return [*before, *subject, *after]


def queries(corpus: Corpus, seed: int) -> list[list[list[int]]]:
    """For each variant, a query for each record."""
    ask = _Asker(corpus, seed)
    rng = ask.rng
    out: list[list[list[int]]] = [[] for _ in range(VARIANTS)]
    columns = [corpus.rows[key] for key in FIELDS]
    for doc_row, more_row, name_row, container_row, path_row, _ in zip(*columns, strict=True):
        doc, more, name = doc_row.tolist(), more_row.tolist(), name_row.tolist()
        where = container_row.tolist() if len(container_row) and rng.random() < 0.6 else path_row.tolist()[-3:]
        named = [*where, *name] if rng.random() < 0.5 else [*name, *where]
        said = doc[: rng.randint(5, 12)] if len(doc) > 5 and rng.random() < 0.5 else doc
        if len(said) < 3:
            said = [*said, *more[:8]] if more else named
        some = rng.sample(said, min(len(said), rng.randint(3, 7)))
        mixed = [*name, *some] if rng.random() < 0.5 else [*some, *where]
        short = said[: rng.randint(3, 8)]
        for variant, query in enumerate(
            (doc or named, named, name or named, mixed, ask(short), ask(named if rng.random() < 0.6 else short))
        ):
            out[variant].append(query or said or named or [0])
    return out


def documents(corpus: Corpus, *, path: bool, comment: bool) -> list[np.ndarray]:
    """What stands for a record: breadcrumb and code, with or without its path and its comment in front."""
    rows = corpus.rows
    out = []
    for i in range(len(corpus)):
        parts = [rows["path"][i]] if path else []
        parts.append(rows["container"][i])
        if comment:
            parts += [rows["doc"][i], rows["more"][i]]
        out.append(np.concatenate([*parts, rows["code"][i]]))
    return out


def groups(package: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Groups of up to 32 records of one package: neighbours in a project are the negatives that teach most."""
    order = chosen[rng.permutation(len(chosen))]
    order = order[np.argsort(package[order], kind="stable")]
    borders = np.flatnonzero(np.diff(package[order])) + 1
    runs: list[np.ndarray] = []
    for run in np.split(order, borders):
        runs += [run[i : i + GROUP] for i in range(0, len(run), GROUP)]
    return runs


def batches(package: np.ndarray, chosen: np.ndarray, size: int, epochs: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        runs = groups(package, chosen, rng)
        flat = np.concatenate([runs[i] for i in rng.permutation(len(runs))])
        for start in range(0, len(flat) - size + 1, size):
            yield flat[start : start + size]


def split_unknown(words: list[str], known: int, max_pieces: int = 4) -> list[list[int]]:
    """Ids of each word in a vocabulary of the first `known` words; others by known pieces of two letters or more.

    The encoder of the package does the same; a test holds the two together.
    """
    index = {w: i for i, w in enumerate(words[:known])}
    out: list[list[int]] = []
    for word in words:
        if word in index:
            out.append([index[word]])
            continue
        ids: list[int] = []
        start = 0
        while start < len(word) - 1 and len(ids) < max_pieces:
            end = len(word)
            while end > start + 1 and word[start:end] not in index:
                end -= 1
            if end > start + 1:
                ids.append(index[word[start:end]])
            start = end
        out.append(ids)
    return out
