"""Named signals of a file beside its keyword score: what its name, folder and definitions have to do with the query."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.rank.keyword import ANYWHERE, STEM, Floats, KeywordScores
from codeinfo.rank.query import Query
from codeinfo.rank.weights import Weights
from codeinfo.tokens import stem_terms, terms
from codeinfo.types import FileKind, Intent

# The group that matches is the word that says so; the rest of a file's name is its subject.
_SECONDARY = re.compile(
    r"(?:^|/)(tests?|specs?|__tests__|testing|testdata|integration[_-]tests?|e2e|fixtures?|mocks?|examples?|samples?|demos?|"
    r"playgrounds?|bench(?:es|marks?)?|legacy|deprecated|compat|old|docs?|docs?_src|man|website|tools?|scripts?|project|"
    r"single_include|amalgamat\w+)(?:/|$)|(?:^|/)(?:(test)_[^/]*|(conftest)\.py|"
    r"[^/]*[_.-](test|tests|spec|bench|example)\.[^/.]+|[^/]*(Test|Tests|Spec|IT)\.[a-z]+)$",
)
_VENDORED = re.compile(r"(?:^|/)(?:vendor|vendored|_vendor|third[_-]?party|external|extern|deps|node_modules)/")
_STUB = re.compile(r"\.(?:d\.[cm]?ts|pyi)$")

TYPE_KINDS = frozenset(
    {
        "class",
        "interface",
        "struct",
        "enum",
        "trait",
        "protocol",
        "type",
        "object",
        "module",
        "namespace",
        "record",
        "union",
    }
)


def coverage(keyword: KeywordScores, field: int, files: int) -> Floats:
    """Share of the query's weight, by rarity, that a file has in one field: its name, its folders, its definitions…"""
    met = slice(None) if field == ANYWHERE else (keyword.met_fields & np.uint8(field)) > 0
    shares = keyword.shares[keyword.met_term[met]]
    return np.bincount(keyword.met_file[met], shares, files).astype(np.float32)


def stem_precision(keyword: KeywordScores, paths: Sequence[str], files: int) -> Floats:
    """Share of the file's name that the query has: `background.py` for "background tasks" is all of it."""
    matched = np.bincount(keyword.met_file[(keyword.met_fields & np.uint8(STEM)) > 0], minlength=files)
    result = np.zeros(files, np.float32)
    for file in matched.nonzero()[0].tolist():
        result[file] = matched[file] / len(stem_terms(paths[file]))
    return result


def both(one: Floats, other: Floats) -> Floats:
    """The harmonic mean: as good as the worse of the two, nearly."""
    mean: Floats = 2 * one * other / np.maximum(one + other, np.float32(1e-9))
    return mean


def definition_scores(query: Query, found: Iterable[tuple[int, str, str]], files: int) -> tuple[Floats, Floats]:
    """(exact, named): files that define the bare name asked for, and files that define a name a sentence mentions.

    `found` is (file, name, kind). A type counts fully, other definitions less; a name many files define says little.
    """
    exact, named = np.zeros(files, np.float32), np.zeros(files, np.float32)
    by_name: dict[str, dict[int, float]] = {}
    for file, name, kind in found:
        key = name.lower()
        value = 1.0 if kind in TYPE_KINDS else 0.7
        if name not in query.names:
            value *= 0.5  # same letters, other case: `session` for `Session`
        places = by_name.setdefault(key, {})
        places[file] = max(places.get(file, 0.0), value)
    wanted = [name.lower() for name in query.names]
    for key, places in by_name.items():
        rarity = 1 / np.sqrt(len(places))
        for file, value in places.items():
            if query.bare_name:
                last = key == wanted[0] if wanted else False
                exact[file] = max(exact[file], value if last else 0.5 * value)
            else:
                named[file] += value * rarity
    return exact, named


def path_mentions(query: Query, paths: Sequence[str]) -> Floats:
    """Files that the text names, by path or by file name."""
    result = np.zeros(len(paths), np.float32)
    if not query.paths:
        return result
    for file, path in enumerate(paths):
        for mention in query.paths:
            if path == mention or path.endswith("/" + mention):
                result[file] = 1.0
    return result


def multipliers(query: Query, path: str, kind: str, usual_depth: float, w: Weights) -> dict[str, float]:
    """Named factors from the path and the kind of a file. `usual_depth`: of files of its kind in its root."""
    traits = _traits(path)
    factors = {"depth": math.exp(-w.depth * (traits.depth - usual_depth))}
    if kind == FileKind.DOCS and not query.about_docs:
        factors["docs"] = w.docs
    if kind == FileKind.CONFIG and query.intent is not Intent.CONFIG:
        factors["config"] = w.config
    # A query about mocks, examples or benchmarks wants them; one about retries does not want `retry_test.go`.
    if traits.secondary and kind != FileKind.DOCS and not any(term in query.terms for term in traits.secondary):
        factors["secondary"] = w.asked_secondary if query.about_tests else w.secondary
    if traits.vendored:
        factors["vendored"] = w.vendored
    if traits.stub:
        factors["type_stub"] = w.type_stub
    return factors


class Factors:
    """The products of `multipliers` for the files of one generation, remembered.

    They depend on a query only by what `variant` names and, for tests, examples and their like, by its terms.
    """

    def __init__(self, paths: Sequence[str], kinds: Sequence[str], usual_depths: NDArray[np.float64]) -> None:
        self._paths, self._kinds, self._usual_depths = paths, kinds, usual_depths
        self._known = np.full(len(paths), np.nan)

    @staticmethod
    def variant(query: Query, w: Weights) -> tuple[object, ...]:
        return (w, query.about_docs, query.about_tests, query.intent is Intent.CONFIG)

    def of(self, files: NDArray[np.intp], query: Query, w: Weights) -> NDArray[np.float64]:
        factors = self._known[files]
        for at in np.isnan(factors).nonzero()[0].tolist():
            file = files[at]
            path, kind = self._paths[file], self._kinds[file]
            factors[at] = math.prod(multipliers(query, path, kind, float(self._usual_depths[file]), w).values())
            if not _traits(path).secondary:
                self._known[file] = factors[at]
        return factors


def usual_depths(paths: Sequence[str], kinds: Sequence[str]) -> NDArray[np.float64]:
    """Of each file: the mean number of folders above files of its kind. Sources six folders down are no worse than a
    README."""
    depths: dict[str, list[int]] = {}
    for path, kind in zip(paths, kinds, strict=True):
        depths.setdefault(kind, []).append(path.count("/"))
    means = {kind: sum(values) / len(values) for kind, values in depths.items()}
    return np.array([means[kind] for kind in kinds], np.float64)


class _Traits(NamedTuple):
    """What a path says whatever the query."""

    depth: int
    secondary: tuple[str, ...]  # terms of the word that makes it a test, an example…; empty where none does
    vendored: bool
    stub: bool


@lru_cache(maxsize=65_536)
def _traits(path: str) -> _Traits:
    found = _SECONDARY.search(path)
    return _Traits(
        depth=path.count("/"),
        secondary=tuple(terms(found[found.lastindex or 0])) if found else (),
        vendored=_VENDORED.search(path) is not None,
        stub=_STUB.search(path) is not None,
    )
