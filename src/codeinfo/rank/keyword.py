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
    """Rows of one file lie next to each other: where each run starts, and whose it is."""

    starts: Ints
    owners: Ints


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
    return Runs(starts, row_file[starts])


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
    which = np.repeat(np.arange(len(found)), counts)
    whole = Posting(*map(np.concatenate, zip(*(posting for _, _, posting in found), strict=True)))
    uses = _uses(whole, w)
    worth = weights * idf
    row_scores = np.bincount(whole.rows, worth[which] * (uses / (uses + norms.rows[whole.rows])), rows_in_all)

    owners = row_file[whole.rows]
    starts = first_of_runs(owners, which)
    met_term, met_file = which[starts], owners[starts]
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


def first_of_runs(*columns: Ints) -> NDArray[np.intp]:
    """Where neighbours differ in any column, the start included."""
    changes = np.ones(len(columns[0]), bool)
    if len(changes):
        changes[1:] = columns[0][1:] != columns[0][:-1]
        for column in columns[1:]:
            changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def file_scores(rows: Floats, row_file: Ints, files: int, decay: tuple[float, ...]) -> Floats:
    """A file's score: its best chunks, each next one weighing less."""
    hit = np.flatnonzero(rows)
    if not len(hit):
        return np.zeros(files, np.float32)
    best_first = hit[np.argsort(-rows[hit])]
    owners = row_file[best_first]
    if files <= np.iinfo(np.uint16).max:
        owners = owners.astype(np.uint16)  # small integers are sorted by counting them
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    starts = first_of_runs(owners)
    place = np.arange(len(owners)) - np.repeat(starts, np.diff(starts, append=len(owners)))
    weights = np.array([*decay, 0.0], np.float32)[np.minimum(place, len(decay))]
    return np.bincount(owners, rows[best_first[order]] * weights, files).astype(np.float32)
