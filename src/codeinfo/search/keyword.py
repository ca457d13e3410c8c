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
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.ports import IN_FOLDER, IN_STEM, Posting
from codeinfo.search.weights import Weights

Floats = NDArray[np.float32]
Ints = NDArray[np.integer]

STEM, FOLDER, DEFINED = IN_STEM, IN_FOLDER, 4  # bits of `KeywordScores.met_fields`
ANYWHERE = 0
_ALL_BITS = 0xFFFF_FFFF


class Runs(NamedTuple):
    """Rows of one file lie next to each other: where each run starts, whose it is, and which run a row is in."""

    starts: Ints
    owners: Ints
    run_of_row: Ints


class Norms(NamedTuple):
    """The frequency at which a term is worth half: higher in long texts."""

    rows: Floats
    files: Floats


class TermUses(NamedTuple):
    """Where a term is and how much it says there, from 0 to 1: what no other term of a query changes."""

    rows: NDArray[np.intp]
    row_gains: Floats
    files: Ints
    file_gains: Floats
    fields: NDArray[np.uint8]  # where in the file: bits


class KeywordScores(Struct, frozen=True):
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


def read_terms(postings: Mapping[str, Posting], row_file: Ints, norms: Norms, w: Weights) -> dict[str, TermUses]:
    """What postings say, worked out for all of them at once."""
    if not postings:
        return {}
    whole = Posting(*map(np.concatenate, zip(*postings.values(), strict=True)))
    rows = whole.rows.astype(np.intp)  # once: every look-up by rows would do it again
    uses = _uses(whole, w)
    row_gains = uses / (uses + norms.rows.take(rows))
    ends = list(accumulate(len(posting.rows) for posting in postings.values()))

    firsts = np.array([0, *ends[:-1]])
    starts = first_of_runs(row_file.take(rows), firsts)  # a term in a file
    met_files = row_file[rows[starts]]
    in_files: Floats = np.add.reduceat(uses, starts)
    file_gains: Floats = in_files / (in_files + norms.files[met_files])
    met_fields = np.bitwise_or.reduceat(whole.path | (((whole.types | whole.names) > 0) * np.uint8(DEFINED)), starts)
    file_ends = starts.searchsorted(ends).tolist()
    own = zip(map(slice, [0, *ends], ends), map(slice, [0, *file_ends], file_ends), strict=False)
    return {
        term: TermUses(rows[lines], row_gains[lines], met_files[files], file_gains[files], met_fields[files])
        for term, (lines, files) in zip(postings, own, strict=True)
    }


def score_keywords(terms: Mapping[str, float], known: Mapping[str, TermUses], rows: int, files: int) -> KeywordScores:
    """Of an index with so many rows and files; `known` has the terms that occur in it."""
    found = [(term, weight, known[term]) for term, weight in terms.items() if term in known]
    if not found:
        return nothing_met(rows, files)
    idf = [_idf(len(uses.rows), rows) for _, _, uses in found]
    worths = [weight * rarity for (_, weight, _), rarity in zip(found, idf, strict=True)]
    all_rows, row_gains, met_file, file_gains, met_fields = map(
        np.concatenate, zip(*(uses for _, _, uses in found), strict=True)
    )
    worth = np.array(worths)
    row_gains *= worth.astype(np.float32).repeat([len(uses.rows) for _, _, uses in found])
    counts = [len(uses.files) for _, _, uses in found]
    file_worth = np.array([weight * _idf(count, files) for (_, weight, _), count in zip(found, counts, strict=True)])
    return KeywordScores(
        np.bincount(all_rows, row_gains, rows).astype(np.float32),
        np.bincount(met_file, file_worth.repeat(counts) * file_gains, files).astype(np.float32),
        dict(zip((term for term, _, _ in found), idf, strict=True)),
        worth / (math.fsum(worths) or 1.0),
        np.arange(len(found)).repeat(counts),
        met_file,
        met_fields,
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
    hit = (rows > 0).nonzero()[0]  # eight times as quick as of floats
    if not len(hit):
        return result
    run = runs.run_of_row[hit]
    # Whole numbers that sort by run, then best first (the bits of positive floats are in their order): quicker to sort
    # than places are.
    order = (run << 32) | (_ALL_BITS - rows[hit].view(np.uint32))
    order.sort()
    values = (_ALL_BITS - (order & _ALL_BITS)).astype(np.uint32).view(np.float32)
    starts = first_of_runs(run)
    lengths = np.empty_like(starts)
    lengths[:-1], lengths[-1] = starts[1:] - starts[:-1], len(run) - starts[-1]
    best = np.zeros(len(runs.starts))
    for place, weight in enumerate(decay):
        firsts = starts[lengths > place]
        best[run[firsts]] += values[firsts + place] * np.float32(weight)
    result[runs.owners] = best
    return result
