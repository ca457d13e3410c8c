"""The keyword channel: BM25 over chunks with fields, then over whole files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codeinfo.rank.weights import Weights
from codeinfo.tokens import FOLDER_MARK, NAME_MARK, STEM_MARK, TYPE_MARK

Floats = NDArray[np.float32]
Postings = Mapping[str, tuple[NDArray[np.int32], Floats]]


@dataclass(frozen=True, slots=True)
class KeywordScores:
    rows: Floats  # BM25 of every chunk
    files: Floats  # BM25 of every file as one text
    idf: dict[str, float]  # of the terms that occur, by chunks
    covered: dict[str, dict[str, NDArray[np.int64]]]  # field → term → files that have it there


STEM, FOLDER, DEFINED, ANYWHERE = "stem", "folder", "defined", "anywhere"
_FIELDS = {STEM: (STEM_MARK,), FOLDER: (FOLDER_MARK,), DEFINED: (TYPE_MARK, NAME_MARK)}
_MARKS = ("", STEM_MARK, FOLDER_MARK, TYPE_MARK, NAME_MARK)


def wanted_terms(terms: Mapping[str, float]) -> list[str]:
    """Everything to look up for a query: each term in every field."""
    return [mark + term for term in terms for mark in _MARKS]


def score_keywords(
    terms: Mapping[str, float],
    postings: Postings,
    row_file: NDArray[np.int32],
    row_length: Floats,
    files: int,
    w: Weights,
) -> KeywordScores:
    rows_total = np.zeros(len(row_file), np.float32)
    files_total = np.zeros(files, np.float32)
    file_length = np.bincount(row_file, row_length, files).astype(np.float32)
    row_norm, file_norm = _norm(row_length, w), _norm(file_length, w)
    idf: dict[str, float] = {}
    anywhere: dict[str, NDArray[np.int64]] = {}
    for term, weight in terms.items():
        parts = _fields(term, postings, w)
        if not parts:
            continue
        rows, frequencies = _combined(parts)
        idf[term] = _idf(len(rows), len(row_file))
        rows_total[rows] += weight * idf[term] * (frequencies / (frequencies + row_norm[rows]))
        in_file = np.bincount(row_file[rows], frequencies, files).astype(np.float32)
        anywhere[term] = having = np.flatnonzero(in_file)
        file_idf = _idf(len(having), files)
        files_total[having] += weight * file_idf * (in_file[having] / (in_file[having] + file_norm[having]))
    covered = {field: _owners(idf, postings, marks, row_file) for field, marks in _FIELDS.items()}
    covered[ANYWHERE] = anywhere
    return KeywordScores(rows_total, files_total, idf, covered)


def _norm(lengths: Floats, w: Weights) -> Floats:
    """The frequency at which a term is worth half: higher in long texts."""
    mean = max(float(lengths.mean()), 1e-6) if len(lengths) else 1.0
    return (w.k1 * (1 - w.b + w.b * lengths / mean)).astype(np.float32)


def _fields(term: str, postings: Postings, w: Weights) -> list[tuple[NDArray[np.int32], Floats]]:
    scales = (1.0, w.stem_field, w.folder_field, w.type_field, w.name_field)
    parts = []
    for mark, scale in zip(_MARKS, scales, strict=True):
        found = postings.get(mark + term)
        if found is not None:
            parts.append((found[0], found[1] * np.float32(scale)))
    return parts


def _owners(
    terms: Iterable[str], postings: Postings, marks: tuple[str, ...], row_file: NDArray[np.int32]
) -> dict[str, NDArray[np.int64]]:
    """For each term the files that have it in one of the fields."""
    result = {}
    for term in terms:
        rows = [postings[mark + term][0] for mark in marks if mark + term in postings]
        if rows:
            owners = np.sort(row_file[np.concatenate(rows) if len(rows) > 1 else rows[0]])
            result[term] = owners[first_of_runs(owners)].astype(np.int64)
    return result


def first_of_runs(values: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where a sorted array changes, its start included: what numpy.unique does, without importing masked arrays."""
    changes = np.empty(len(values), bool)
    changes[:1] = True
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def _combined(parts: list[tuple[NDArray[np.int32], Floats]]) -> tuple[NDArray[np.int32], Floats]:
    """Rows of any field with their summed frequency."""
    if len(parts) == 1:
        return parts[0]
    everywhere = np.concatenate([rows for rows, _ in parts])
    summed = np.bincount(everywhere, np.concatenate([frequencies for _, frequencies in parts])).astype(np.float32)
    rows = np.flatnonzero(summed).astype(np.int32)
    return rows, summed[rows]


def _idf(having: int, total: int) -> float:
    return float(np.log1p((total - having + 0.5) / (having + 0.5)))


def file_scores(rows: Floats, row_file: NDArray[np.int32], files: int, decay: tuple[float, ...]) -> Floats:
    """A file's score: its best chunks, each next one weighing less."""
    hit = np.flatnonzero(rows)
    order = hit[np.lexsort((-rows[hit], row_file[hit]))]
    owners = row_file[order]
    if not len(order):
        return np.zeros(files, np.float32)
    starts = first_of_runs(owners)
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    weights = np.array([*decay, 0.0], np.float32)[np.minimum(place, len(decay))]
    return np.bincount(owners, rows[order] * weights, files).astype(np.float32)
