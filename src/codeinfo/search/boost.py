"""Named signals of a file beside its keyword score: what its name, folder and definitions have to do with the query."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from codeinfo.model import FileKind, Intent, symbol_kind
from codeinfo.search.keyword import ANYWHERE, FOLDER, STEM, Floats, KeywordScores
from codeinfo.search.layout import Facts, Layout
from codeinfo.search.query import Query
from codeinfo.search.weights import Weights
from codeinfo.tokens import identifier_terms, stem_terms

LATER_FRAME = 0.3  # what the first path of a text loses against the last


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
        value = 1.0 if symbol_kind(kind).ranks_as_type else 0.7
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


def title_coverage(query: Query, keyword: KeywordScores, files: int) -> Floats:
    """Share of the different words of the first line that a file has, each counting alike."""
    return _share_met(keyword, query.title, files)


def scope_match(query: Query, keyword: KeywordScores, files: int) -> Floats:
    """Share of the part of the project that a task opens with, found in a file's path."""
    if not query.scope:
        return np.zeros(files, np.float32)
    in_path = (keyword.met_fields & np.uint8(STEM | FOLDER)) > 0
    return _share_met(keyword, query.scope, files, in_path)


def _share_met(
    keyword: KeywordScores, wanted: Collection[str], files: int, where: NDArray[np.bool_] | None = None
) -> Floats:
    """Share of those `wanted` terms that occur in this index which each file has."""
    counted = np.array([term in wanted for term in keyword.idf], bool)
    if not counted.any():
        return np.zeros(files, np.float32)
    met = counted[keyword.met_term]
    found = np.bincount(keyword.met_file[met if where is None else met & where], minlength=files)
    shares: Floats = (found / counted.sum()).astype(np.float32)
    return shares


def named_in_text(query: Query, keyword: KeywordScores, files: int) -> Floats:
    """Share of the query, by rarity, that are names of code and that a file has: `readHeader`, `max_age`."""
    names = {identifier_terms(name)[-1] for name in query.names if identifier_terms(name)}
    counted = np.array([term in names for term in keyword.idf], bool)
    if not counted.any():
        return np.zeros(files, np.float32)
    met = counted[keyword.met_term]
    return np.bincount(keyword.met_file[met], keyword.shares[keyword.met_term[met]], files).astype(np.float32)


def files_by_name(paths: Sequence[str]) -> dict[str, list[int]]:
    """The positions of the files of each name, in small letters."""
    found: dict[str, list[int]] = {}
    for file, path in enumerate(paths):
        found.setdefault(path.rpartition("/")[2].lower(), []).append(file)
    return found


def path_mentions(query: Query, paths: Sequence[str], by_name: Mapping[str, Sequence[int]]) -> Floats:
    """Files that the text names: by file name, by path, or by a longer path that ends in theirs.

    A traceback says `/usr/lib/python3/site-packages/pkg/a.py` where the index has `src/pkg/a.py`: what counts is how
    much of the two they share from the end. Of several frames the later ones are nearer to the fault.
    """
    result = np.zeros(len(paths), np.float32)
    for place, mention in enumerate(query.paths):
        parts = mention.lower().split("/")
        worth = 1 - LATER_FRAME * (1 - (place + 1) / len(query.paths))
        for file in by_name.get(parts[-1], ()):
            result[file] = max(result[file], worth * _shared_tail(paths[file].lower().split("/"), parts))
    return result


def _shared_tail(own: Sequence[str], mentioned: Sequence[str]) -> float:
    """1 where the path ends with all that is mentioned; else 1/2, 2/3, 3/4… by how many parts the two ends share."""
    shared = 0
    for one, other in zip(reversed(own), reversed(mentioned), strict=False):
        if one != other:
            break
        shared += 1
    return 1.0 if shared == len(mentioned) else shared / (shared + 1)


def multipliers(query: Query, facts: Facts, kind: str, w: Weights) -> dict[str, float]:
    """Named factors from where a file lies and what kind it is; each is bounded."""
    factors = {"depth": math.exp(-w.depth * facts.depth)}
    if kind == FileKind.DOCS and not query.about_docs:
        factors["docs"] = w.docs
    if kind == FileKind.CONFIG and query.intent is not Intent.CONFIG:
        factors["config"] = w.config
    # A query about mocks, examples or benchmarks wants them; one about retries does not want `retry_test.go`.
    if facts.secondary and kind != FileKind.DOCS:
        asked = query.about_tests or any(term in query.title for term in facts.secondary)
        name = "asked_secondary" if asked else "secondary"
        factors[name] = getattr(w, name)
    if facts.vendored:
        factors["vendored"] = w.vendored
    if facts.stub:
        factors["type_stub"] = w.type_stub
    if facts.older and not query.names_version:
        factors["older_copy"] = w.older_copy
    if facts.translated and query.is_english:
        factors["translation"] = w.translation
    if facts.tiny:
        factors["tiny"] = w.tiny
    return factors


class Factors:
    """The products of `multipliers` for the files of one generation, remembered.

    They depend on a query only by what `variant` names and, for tests, examples and their like, by its terms.
    """

    def __init__(self, layout: Layout, kinds: Sequence[str]) -> None:
        self._layout, self._kinds = layout, kinds
        self._known = np.full(len(kinds), np.nan)

    @staticmethod
    def variant(query: Query, w: Weights) -> tuple[object, ...]:
        is_config = query.intent is Intent.CONFIG
        return (w, query.about_docs, query.about_tests, is_config, query.names_version, query.is_english)

    def of(self, files: NDArray[np.intp], query: Query, w: Weights) -> NDArray[np.float64]:
        factors = self._known[files]
        for at in np.isnan(factors).nonzero()[0].tolist():
            file = int(files[at])
            facts = self._layout.facts(file)
            factors[at] = math.prod(multipliers(query, facts, self._kinds[file], w).values())
            if not facts.secondary:
                self._known[file] = factors[at]
        return factors
