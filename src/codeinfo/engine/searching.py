"""From a search request to the search line: filters, several roots, one result."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from codeinfo.engine.upkeep import Upkeep
from codeinfo.errors import NotFound, UsageError
from codeinfo.frozen import changed
from codeinfo.globs import match_globs
from codeinfo.ports import Snapshot
from codeinfo.requests import SearchRequest, SimilarRequest
from codeinfo.search import SMALLEST_EXCERPT, SearchOptions, search
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import terms
from codeinfo.types import Intent, SearchResult

CHARS_PER_TOKEN = 4  # of source code, on average
MAX_LINE_DIGITS = 9  # no file has more lines, and no database column holds any number

Opened = tuple[Upkeep, SqliteStore, tuple[str, ...]]


def search_roots(request: SearchRequest, opened: Sequence[Opened]) -> SearchResult:
    """Each root by itself, then the best of all: scores are relative to a root's best, so they can be compared."""
    if not request.query.strip():
        raise UsageError("the query is empty", next_step="Say what to look for")
    if not opened:
        raise UsageError("no folder to search", next_step="Name one")
    # Equal shares of the characters: scores are relative to each root's best, so roots take turns in the list.
    max_chars = max(CHARS_PER_TOKEN * request.max_tokens // len(opened), 1) if request.max_tokens else 0
    results = [_search_root(request, max_chars, *one) for one in opened]
    if len(results) == 1:
        return results[0]
    hits = sorted((hit for result in results for hit in result.hits), key=lambda hit: -hit.score)
    best = max(results, key=lambda result: result.quality.confidence)
    return changed(
        best,
        hits=tuple(hits[: request.limit]),
        dropped=tuple(dropped for result in results for dropped in result.dropped),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
        took_ms=round(sum(result.took_ms for result in results), 2),
    )


def _search_root(
    request: SearchRequest, max_chars: int, keeper: Upkeep, store: SqliteStore, notes: tuple[str, ...]
) -> SearchResult:
    with store.snapshot() as view:
        options = SearchOptions(
            root=str(keeper.root),
            limit=request.limit,
            intent=Intent(request.intent) if request.intent else None,
            project_words=frozenset(terms(keeper.root.name)),
            allowed=allowed_files(request, view, keeper),
            symbol_kinds=frozenset(request.symbol_kinds),
            full_text=request.full_text,
            max_chars=max_chars,
            explain=request.explain,
            commits=keeper.commits(),
        )
        found = search(request.query, view, keeper.embedder, options)
        notes = (*notes, *_remarks(request, max_chars, view))
    if request.snippets and not notes:
        return found
    hits = found.hits if request.snippets else tuple(changed(hit, text="") for hit in found.hits)
    return changed(found, hits=hits, notes=(*found.notes, *notes))


def _remarks(request: SearchRequest, max_chars: int, view: Snapshot) -> list[str]:
    remarks = []
    if not view.complete:
        remarks.append("the index is still being built: these results come from a part of it")
    known = set(view.languages)
    if not known and view.complete:
        return [*remarks, "no file is indexed here: is this the right folder?"]
    for language in request.languages:
        if language.lower() not in known:
            remarks.append(f"no file here is {language}; there are: {', '.join(sorted(known))}")
    if request.max_tokens and max_chars < SMALLEST_EXCERPT:
        remarks.append(f"{request.max_tokens} tokens are too few to show anything: allow more")
    return remarks


def similar_to(request: SimilarRequest, opened: Opened) -> SearchResult:
    """What resembles the chunk at a place, by its words and its meaning; the file itself is left out."""
    keeper, store, notes = opened
    path, _, line = request.place.rpartition(":")
    if not path or not line.isdecimal() or len(line) > MAX_LINE_DIGITS:
        raise UsageError(f"{request.place} is not a place", next_step="Write it as FILE:LINE, as in src/app.py:42")
    with store.snapshot() as view:
        if path not in view.paths:
            raise NotFound(f"{path} is not in the index of {keeper.root}", next_step=f"Ask `codeinfo why {path}`")
        file = view.paths.index(path)
        row = view.row_at(file, int(line))
        if row is None:
            raise NotFound(f"{path} has no chunk at line {line}", next_step="Name a line that is not blank")
        chunk = view.chunks([row])[0]
        allowed = np.ones(len(view.paths), bool)
        allowed[file] = False
        root = str(keeper.root)
        options = SearchOptions(root=root, limit=request.limit, allowed=allowed, explain=request.explain)
        found = search(f"{chunk.symbol}\n{chunk.text}", view, keeper.embedder, options)
    where = f"similar to {path}:{chunk.start_line}-{chunk.end_line}"
    return changed(found, query=where, notes=(*found.notes, *notes))


def allowed_files(request: SearchRequest, view: Snapshot, keeper: Upkeep) -> NDArray[np.bool_] | None:
    """Which files the filters let through, or None when there is no filter."""
    tests: list[NDArray[np.bool_]] = []
    if request.languages:
        wanted = frozenset(language.lower() for language in request.languages)
        tests.append(view.derived(("languages", wanted), lambda: _among(view.languages, wanted)))
    if request.kinds:
        kinds = frozenset(request.kinds)
        tests.append(view.derived(("kinds", kinds), lambda: _among(view.kinds, kinds)))
    if request.globs:
        tests.append(np.array(match_globs(view.paths, request.globs), bool))
    if request.changed_since:
        from codeinfo.sources.git import changed_since

        changed = changed_since(keeper.root, request.changed_since)
        tests.append(_among(view.paths, changed))
    return np.logical_and.reduce(tests) if tests else None


def _among(values: Sequence[str], wanted: Collection[str]) -> NDArray[np.bool_]:
    return np.array([value in wanted for value in values], bool)
