"""The keyword channel: BM25 over chunks with fields, then over whole files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codeinfo.rank.weights import Weights
from codeinfo.tokens import FOLDER_MARK, STEM_MARK

Floats = NDArray[np.float32]
Postings = Mapping[str, tuple[NDArray[np.int32], Floats]]


@dataclass(frozen=True, slots=True)
class KeywordScores:
    rows: Floats  # BM25 of every chunk
    files: Floats  # BM25 of every file as one text
    idf: dict[str, float]  # of the terms that occur, by chunks
    stem_files: dict[str, NDArray[np.int32]]  # term → files whose name has it
    folder_files: dict[str, NDArray[np.int32]]


def wanted_terms(terms: Mapping[str, float]) -> list[str]:
    """Everything to look up for a query: each term in the text, in file names and in folder names."""
    return [mark + term for term in terms for mark in ("", STEM_MARK, FOLDER_MARK)]


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
    row_norm = (
        w.k1 * (1 - w.b + w.b * row_length / max(float(row_length.mean()), 1e-6)) if len(row_file) else row_length
    )
    file_length = np.bincount(row_file, row_length, files).astype(np.float32)
    file_norm = w.k1 * (1 - w.b + w.b * file_length / max(float(file_length.mean()), 1e-6)) if files else file_length
    idf: dict[str, float] = {}
    stem_files: dict[str, NDArray[np.int32]] = {}
    folder_files: dict[str, NDArray[np.int32]] = {}
    for term, weight in terms.items():
        parts = _fields(term, postings, w)
        if not parts:
            continue
        rows, frequencies = _combined(parts)
        idf[term] = _idf(len(rows), len(row_file))
        rows_total[rows] += weight * idf[term] * (frequencies / (frequencies + row_norm[rows]))
        owners = row_file[rows]
        in_file = np.bincount(owners, frequencies, files).astype(np.float32)
        having = np.flatnonzero(in_file)
        file_idf = _idf(len(having), files)
        files_total[having] += weight * file_idf * (in_file[having] / (in_file[having] + file_norm[having]))
        if STEM_MARK + term in postings:
            stem_files[term] = np.unique(row_file[postings[STEM_MARK + term][0]])
        if FOLDER_MARK + term in postings:
            folder_files[term] = np.unique(row_file[postings[FOLDER_MARK + term][0]])
    return KeywordScores(rows_total, files_total, idf, stem_files, folder_files)


def _fields(term: str, postings: Postings, w: Weights) -> list[tuple[NDArray[np.int32], Floats]]:
    parts = []
    for mark, scale in (("", 1.0), (STEM_MARK, w.stem_field), (FOLDER_MARK, w.folder_field)):
        found = postings.get(mark + term)
        if found is not None:
            parts.append((found[0], found[1] * np.float32(scale)))
    return parts


def _combined(parts: list[tuple[NDArray[np.int32], Floats]]) -> tuple[NDArray[np.int32], Floats]:
    """Rows of any field with their summed frequency."""
    if len(parts) == 1:
        return parts[0]
    rows, inverse = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    summed = np.bincount(inverse, np.concatenate([frequencies for _, frequencies in parts]), len(rows))
    return rows, summed.astype(np.float32)


def _idf(having: int, total: int) -> float:
    return float(np.log1p((total - having + 0.5) / (having + 0.5)))


def file_scores(rows: Floats, row_file: NDArray[np.int32], files: int, decay: tuple[float, ...]) -> Floats:
    """A file's score: its best chunks, each next one weighing less."""
    hit = np.flatnonzero(rows)
    order = hit[np.lexsort((-rows[hit], row_file[hit]))]
    owners = row_file[order]
    if not len(order):
        return np.zeros(files, np.float32)
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    weights = np.array([*decay, 0.0], np.float32)[np.minimum(place, len(decay))]
    return np.bincount(owners, rows[order] * weights, files).astype(np.float32)
