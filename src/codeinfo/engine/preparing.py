"""What searches need of every file whatever they ask: worked out beforehand in a process that answers many."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from codeinfo.engine.index_manager import IndexManager
from codeinfo.ports import Snapshot, reads_words
from codeinfo.search.line import SearchOptions, factors_of, gather, weights_for
from codeinfo.search.query import read_query
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import stem_terms

MOST_FILES = 20_000  # beyond, most are never met, and what is remembered of them would only take room
_AT_ONCE = 200  # files between two looks at whether to go on


def prepare(keeper: IndexManager, store: SqliteStore) -> Generator[None, None, None]:
    """Search once, then read every path as a search would; pauses now and then, for the caller to stop."""
    embedder = keeper.embedder
    query = read_query("search")
    weights = weights_for(query, embedder)
    with store.snapshot() as view:
        gather(query, view, embedder, weights, SearchOptions())
        yield
        for files in _some_at_once(view):
            factors_of(query, view, weights).of(files, query, weights)
            paths = [view.paths[file] for file in files.tolist()]
            for path in paths:
                stem_terms(path)
            if reads_words(embedder):
                embedder.embed_paths(paths)
            yield


def _some_at_once(view: Snapshot) -> Iterator[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    files = np.arange(min(len(view.paths), MOST_FILES))
    for start in range(0, len(files), _AT_ONCE):
        yield files[start : start + _AT_ONCE]
