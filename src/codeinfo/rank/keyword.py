"""The keyword channel: BM25 over chunks with fields, then over whole files.

All terms of a query are scored at once: their postings are laid end to end, so that a query costs a fixed number of
array operations however many terms it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    weights = np.array([weight for _, weight, _ in found])
    counts = [len(posting.rows) for _, _, posting in found]
    idf = [_idf(count, rows_in_all) for count in counts]
    worth = weights * idf
    whole = Posting(*map(np.concatenate, zip(*(posting for _, _, posting in found), strict=True)))
    rows = whole.rows.astype(np.intp)  # once: every look-up by rows would do it again
    uses = _uses(whole, w)
    gains = np.repeat(worth.astype(np.float32), counts) * (uses / (uses + norms.rows.take(rows)))
    row_scores = np.bincount(rows, gains, rows_in_all)

    firsts = np.cumsum([0, *counts[:-1]])
    starts = first_of_runs(row_file.take(rows), firsts)
    met_term, met_file = np.searchsorted(firsts, starts, side="right") - 1, row_file[rows[starts]]
    in_file = np.add.reduceat(uses, starts)
    file_idf = np.array([_idf(count, files) for count in np.bincount(met_term, minlength=len(found)).tolist()])
    saturated = in_file / (in_file + norms.files[met_file])
    file_scores = np.bincount(met_file, (weights * file_idf)[met_term] * saturated, files)
    fields = whole.path | (((whole.types | whole.names) > 0) * np.uint8(DEFINED))
    return KeywordScores(
        row_scores.astype(np.float32),
        file_scores.astype(np.float32),
        dict(zip((term for term, _, _ in found), idf, strict=True)),
        worth / (float(worth.sum()) or 1.0),
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
    uses = posting.tenths.astype(np.float32) / np.float32(10)
    uses += np.float32(w.type_field) * posting.types
    uses += np.float32(w.name_field) * posting.names
    uses += np.float32(w.stem_field / IN_STEM) * (posting.path & np.uint8(IN_STEM))
    uses += np.float32(w.folder_field / IN_FOLDER) * (posting.path & np.uint8(IN_FOLDER))
    return uses


def _idf(having: int, total: int) -> float:
    return math.log1p((total - having + 0.5) / (having + 0.5))


def first_of_runs(values: Ints, also: Ints | None = None) -> NDArray[np.intp]:
    """Where neighbours differ, the start included; `also` are places where a run starts in any case."""
    changes = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    if also is not None:
        changes[also] = True
    return np.flatnonzero(changes)


def file_scores(rows: Floats, runs: Runs, files: int, decay: tuple[float, ...]) -> Floats:
    """A file's score: its best chunks, each next one weighing less."""
    result = np.zeros(files, np.float32)
    hit = rows.nonzero()[0]
    if not len(hit):
        return result
    values, run = rows[hit], runs.run_of_row[hit]
    best_first = np.argsort(
        run - values / (1.001 * float(values.max()))
    )  # within each run: these lie next to each other
    begins = np.zeros(len(hit), np.intp)
    starts = first_of_runs(run)
    begins[starts] = starts
    place = np.arange(len(hit)) - np.maximum.accumulate(begins)
    counted = (place < len(decay)).nonzero()[0]
    worth = values[best_first[counted]] * np.array(decay, np.float32)[place[counted]]
    result[runs.owners] = np.bincount(run[counted], worth, len(runs.starts))
    return result
