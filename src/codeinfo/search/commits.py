"""The history channel: what earlier commits said, spread over the files they changed.

A commit's message is a short text about a change, so BM25 over messages finds the changes that resemble the query, and
the files they touched are where the next such change is likely to be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.search.keyword import Floats
from codeinfo.search.query import STOP_WORDS
from codeinfo.tokens import stem, terms

MOST_FILES = 15  # a commit that changed more is a sweep and says little about each file
SUBJECT_USES = 2  # a word of the subject counts as this many of the body
MOST_BODY_TERMS = 120
MOST_USES = 255
K1, B = 1.2, 0.6
_STOPPED = frozenset(STOP_WORDS) | frozenset(stem(word) for word in STOP_WORDS)
_TRAILER = re.compile(r"^[A-Za-z][A-Za-z-]{1,30}-(?:by|id|commit|on|to)\s*:.*$", re.MULTILINE | re.IGNORECASE)


class Commit(NamedTuple):
    message: str
    paths: tuple[str, ...]  # relative to the root of the index


class CommitIndex(NamedTuple):
    """Messages as posting lists, and which commit changed which path."""

    head: str  # the newest commit that was read
    vocabulary: Mapping[str, int]
    starts: NDArray[np.int32]  # of each term's entries in the next two columns, and their end
    commits: NDArray[np.int32]
    uses: NDArray[np.uint8]
    lengths: Floats  # of each commit's message, in weighted terms
    changed: NDArray[np.int32]  # commit of each change …
    path_ids: NDArray[np.int32]  # … and its path
    shares: Floats  # … and what the commit is worth to it: 1 / √files
    paths: Sequence[str]


def index_commits(head: str, commits: Iterable[Commit], before: CommitIndex | None = None) -> CommitIndex:
    """The index of `commits`, added to what an earlier one has."""
    vocabulary = dict(before.vocabulary) if before else {}
    path_of = {path: at for at, path in enumerate(before.paths)} if before else {}
    lengths: list[float] = before.lengths.tolist() if before else []
    term_ids: list[int] = []
    owners: list[int] = []
    uses: list[int] = []
    changed: list[int] = []
    path_ids: list[int] = []
    shares: list[float] = []
    for commit in commits:
        if not 0 < len(commit.paths) <= MOST_FILES:
            continue
        counts = _count_terms(commit.message)
        number = len(lengths)
        lengths.append(float(sum(counts.values())))
        for term, count in counts.items():
            term_ids.append(vocabulary.setdefault(term, len(vocabulary)))
            owners.append(number)
            uses.append(min(count, MOST_USES))
        for path in commit.paths:
            changed.append(number)
            path_ids.append(path_of.setdefault(path, len(path_of)))
            shares.append(1 / math.sqrt(len(commit.paths)))
    known = np.repeat(np.arange(len(before.starts) - 1), np.diff(before.starts)) if before else np.zeros(0, np.int64)
    all_terms = np.concatenate([known, np.array(term_ids, np.int64)])
    order = np.argsort(all_terms, kind="stable")
    return CommitIndex(
        head,
        vocabulary,
        np.searchsorted(all_terms[order], np.arange(len(vocabulary) + 1)).astype(np.int32),
        _extended(before and before.commits, owners, np.int32)[order],
        _extended(before and before.uses, uses, np.uint8)[order],
        np.array(lengths, np.float32),
        _extended(before and before.changed, changed, np.int32),
        _extended(before and before.path_ids, path_ids, np.int32),
        _extended(before and before.shares, shares, np.float32),
        tuple(path_of),
    )


def _extended(before: NDArray[Any] | None, more: Sequence[float], dtype: type) -> NDArray[Any]:
    added: NDArray[Any] = np.array(more, dtype)
    return added if before is None else np.concatenate([before, added])


def _count_terms(message: str) -> dict[str, int]:
    subject, _, body = _TRAILER.sub("", message).strip().partition("\n")
    counts: dict[str, int] = {}
    for found, worth in ((terms(subject), SUBJECT_USES), (terms(body)[:MOST_BODY_TERMS], 1)):
        for term in found:
            if term not in _STOPPED:
                counts[term] = counts.get(term, 0) + worth
    return counts


def score_history(index: CommitIndex, query: Mapping[str, float], file_of_path: NDArray[np.intp], files: int) -> Floats:
    """What past changes say for each file. `file_of_path` gives a file's position by path id, -1 where it is gone."""
    count = len(index.lengths)
    scores = np.zeros(count, np.float32)
    if not count:
        return np.zeros(files, np.float32)
    norms = K1 * (1 - B + B * index.lengths / max(float(index.lengths.mean()), 1e-6))
    for term, weight in query.items():
        at = index.vocabulary.get(term)
        if at is None:
            continue
        span = slice(index.starts[at], index.starts[at + 1])
        commits, uses = index.commits[span], index.uses[span].astype(np.float32)
        rarity = math.log1p((count - len(commits) + 0.5) / (len(commits) + 0.5))
        scores[commits] += np.float32(weight * rarity) * uses / (uses + norms[commits])
    here = file_of_path[index.path_ids]
    present = here >= 0
    worth = scores[index.changed[present]] * index.shares[present]
    return np.bincount(here[present], worth, files).astype(np.float32)
