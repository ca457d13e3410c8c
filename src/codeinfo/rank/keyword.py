"""The keyword channel: BM25 over chunks with fields, then over whole files.

All terms of a query are scored at once: their postings are laid end to end, so that a query costs a fixed number of
array operations however many terms it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.frozen import frozen
from codeinfo.ports import IN_FOLDER, IN_STEM, Posting
from codeinfo.rank.weights import Weights

Floats = NDArray[np.float32]
Ints = NDArray[np.integer]

STEM, FOLDER, DEFINED = IN_STEM, IN_FOLDER, 4  # bits of `KeywordScores.met_fields`
ANYWHERE = 0


class Runs(NamedTuple):
    """Rows of one file lie next to each other: where each run starts, whose it is, and which run a row is in."""

    starts: Ints
    owners: Ints
    run_of_row: Ints


class Norms(NamedTuple):
    """The frequency at which a term is worth half: higher in long texts."""

    rows: Floats
    files: Floats


@frozen
class KeywordScores:
    """`met_…` are columns side by side: one entry for each term and file that has it."""

    rows: Floats  # BM25 of every chunk
    files: Floats  # BM25 of every file as one text
    idf: Mapping[str, float]  # of the terms that occur, by chunks
    shares: NDArray[np.float64]  # of the query's weight, by rarity, for each of these terms
    met_term: Ints  # position among these terms
    met_file: Ints
    met_fields: NDArray[np.uint8]  # where in the file: bits


def runs_of(row_file: Ints) -> Runs:
    starts = first_of_runs(row_file)
    lengths = np.diff(starts, append=len(row_file))
    return Runs(starts, row_file[starts], np.repeat(np.arange(len(starts)), lengths))


def norms_of(row_file: Ints, row_length: Floats, files: int, w: Weights) -> Norms:
    file_length = np.bincount(row_file, row_length, files).astype(np.float32)
    return Norms(_norm(row_length, w), _norm(file_length, w))


def _norm(lengths: Floats, w: Weights) -> Floats:
    mean = max(float(lengths.mean()), 1e-6) if len(lengths) else 1.0
    return (w.k1 * (1 - w.b + w.b * lengths / mean)).astype(np.float32)


def score_keywords(
    terms: Mapping[str, float], postings: Mapping[str, Posting], row_file: Ints, norms: Norms, w: Weights
) -> KeywordScores:
    rows_in_all, files = len(norms.rows), len(norms.files)
    found = [(term, weight, postings[term]) for term, weight in terms.items() if term in postings]
    if not found:
        return nothing_met(rows_in_all, files)
    weights = [weight for _, weight, _ in found]
    counts = [len(posting.rows) for _, _, posting in found]
    idf = [_idf(count, rows_in_all) for count in counts]
    worths = [weight * rarity for weight, rarity in zip(weights, idf, strict=True)]
    worth = np.array(worths)
    whole = Posting(*map(np.concatenate, zip(*(posting for _, _, posting in found), strict=True)))
    rows = whole.rows.astype(np.intp)  # once: every look-up by rows would do it again
    uses = _uses(whole, w)
    gains = worth.astype(np.float32).repeat(counts) * (uses / (uses + norms.rows.take(rows)))
    row_scores = np.bincount(rows, gains, rows_in_all)

    firsts = np.array(list(accumulate(counts[:-1], initial=0)))
    starts = first_of_runs(row_file.take(rows), firsts)
    met_term, met_file = firsts.searchsorted(starts, side="right") - 1, row_file[rows[starts]]
    in_file = np.add.reduceat(uses, starts)
    files_with = np.bincount(met_term, minlength=len(found)).tolist()
    file_worth = np.array([weight * _idf(count, files) for weight, count in zip(weights, files_with, strict=True)])
    saturated = in_file / (in_file + norms.files[met_file])
    file_scores = np.bincount(met_file, file_worth[met_term] * saturated, files)
    fields = whole.path | (((whole.types | whole.names) > 0) * np.uint8(DEFINED))
    return KeywordScores(
        row_scores.astype(np.float32),
        file_scores.astype(np.float32),
        dict(zip((term for term, _, _ in found), idf, strict=True)),
        worth / (math.fsum(worths) or 1.0),
        met_term,
        met_file,
        np.bitwise_or.reduceat(fields, starts),
    )


def nothing_met(rows: int, files: int) -> KeywordScores:
    none = np.zeros(0, np.int64)
    return KeywordScores(
        np.zeros(rows, np.float32),
        np.zeros(files, np.float32),
        {},
        np.zeros(0),
        none,
        none,
        np.zeros(0, np.uint8),
    )


def _uses(posting: Posting, w: Weights) -> Floats:
    """How often a term counts as used: in the text, and more where a name or the path has it."""
    uses: Floats = np.divide(posting.tenths, np.float32(10), dtype=np.float32)
    uses += np.float32(w.type_field) * posting.types
    uses += np.float32(w.name_field) * posting.names
    uses += _path_worths(w)[posting.path]
    return uses


@lru_cache(maxsize=8)
def _path_worths(w: Weights) -> Floats:
    """By the bits of a path: what it adds that a term is in the file's name, in its folders, or in both."""
    bits = range((IN_STEM | IN_FOLDER) + 1)
    return np.array([w.stem_field * bool(b & IN_STEM) + w.folder_field * bool(b & IN_FOLDER) for b in bits], np.float32)


def _idf(having: int, total: int) -> float:
    return math.log1p((total - having + 0.5) / (having + 0.5))


def first_of_runs(values: Ints, also: Ints | None = None) -> NDArray[np.intp]:
    """Where neighbours differ, the start included; `also` are places where a run starts in any case."""
    changes = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    if also is not None:
        changes[also] = True
    return changes.nonzero()[0]


def file_scores(rows: Floats, runs: Runs, files: int, decay: tuple[float, ...]) -> Floats:
    """A file's score: its best chunks, each next one weighing less."""
    result = np.zeros(files, np.float32)
    hit = rows.nonzero()[0]
    if not len(hit):
        return result
    values, run = rows[hit], runs.run_of_row[hit]
    best_first = (run - values / (1.001 * float(values.max()))).argsort()  # within each run, which lie side by side
    begins = np.zeros(len(hit), np.intp)
    starts = first_of_runs(run)
    begins[starts] = starts
    place = np.arange(len(hit)) - np.maximum.accumulate(begins)
    counted = (place < len(decay)).nonzero()[0]
    worth = values[best_first[counted]] * np.array(decay, np.float32)[place[counted]]
    result[runs.owners] = np.bincount(run[counted], worth, len(runs.starts))
    return result
