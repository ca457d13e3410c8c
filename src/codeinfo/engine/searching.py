"""From a search request to the search line: filters, several roots, one result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from codeinfo.engine.upkeep import Upkeep
from codeinfo.errors import NotFound, UsageError
from codeinfo.globs import match_globs
from codeinfo.model import Intent, SearchResult
from codeinfo.operations.search import SearchRequest, SimilarRequest
from codeinfo.ports import Snapshot
from codeinfo.search.joined import Joined, Part, joined
from codeinfo.search.line import SMALLEST_EXCERPT, SearchOptions, search
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import terms

CHARS_PER_TOKEN = 4  # of source code, on average
MAX_LINE_DIGITS = 9  # no file has more lines, and no database column holds any number

Opened = tuple[Upkeep, SqliteStore, tuple[str, ...]]


def search_roots(request: SearchRequest, opened: Sequence[Opened]) -> SearchResult:
    """All roots as one index: a word's rarity is that in all of them, so a root with no answer takes no place."""
    if not request.query.strip():
        raise UsageError("the query is empty", next_step="Say what to look for")
    if not opened:
        raise UsageError("no folder to search", next_step="Name one")
    with ExitStack() as open_views:
        views = [open_views.enter_context(store.snapshot()) for _, store, _ in opened]
        keepers = [keeper for keeper, _, _ in opened]
        view = views[0] if len(views) == 1 else _joined(keepers, views)
        options = SearchOptions(
            root=str(keepers[0].root),
            roots=view.roots if isinstance(view, Joined) else (),
            limit=request.limit,
            intent=Intent(request.intent) if request.intent else None,
            # The name of one of several projects tells them apart; what all of them are called says nothing.
            project_words=frozenset.intersection(*(frozenset(terms(keeper.root.name)) for keeper in keepers)),
            allowed=_allowed(request, views, keepers),
            symbol_kinds=frozenset(request.symbol_kinds),
            full_text=request.full_text,
            max_chars=CHARS_PER_TOKEN * request.max_tokens,
            explain=request.explain,
            fusion=keepers[0].config.search.fusion,
            per_file=keepers[0].config.search.results_per_file,
            commits=[(str(keeper.root), commits) for keeper in keepers if (commits := keeper.commits())],
        )
        embedder = keepers[0].embedder if all(keeper.embedder for keeper in keepers) else None
        found = search(request.query, view, embedder, options)
        said = [note for _, _, notes in opened for note in notes]
        notes = tuple(dict.fromkeys((*said, *_without_vectors(keepers), *_remarks(request, view))))
    if request.snippets and not notes:
        return found
    hits = found.hits if request.snippets else tuple(replace(hit, text="") for hit in found.hits)
    return replace(found, hits=hits, notes=(*found.notes, *notes))


def _joined(keepers: Sequence[Upkeep], views: Sequence[Snapshot]) -> Joined:
    return joined([Part(str(keeper.root), view) for keeper, view in zip(keepers, views, strict=True)])


def _allowed(request: SearchRequest, views: Sequence[Snapshot], keepers: Sequence[Upkeep]) -> NDArray[np.bool_] | None:
    """What the filters let through, each root's files by their own paths and history."""
    by_root = [allowed_files(request, view, keeper) for view, keeper in zip(views, keepers, strict=True)]
    filters = [allowed for allowed in by_root if allowed is not None]
    return np.concatenate(filters) if filters else None


def _without_vectors(keepers: Sequence[Upkeep]) -> list[str]:
    """Vectors of different models cannot be compared: one such root turns the vector channel off for all."""
    missing = [str(keeper.root) for keeper in keepers if not keeper.embedder]
    if not missing or len(missing) == len(keepers):
        return []  # with the same model, or without any, which each root says for itself
    return [
        f"words alone decided about all {len(keepers)} folders, since {' and '.join(missing)} has vectors of another "
        "embedding model: `codeinfo index` builds it anew"
    ]


def _remarks(request: SearchRequest, view: Snapshot) -> list[str]:
    remarks = []
    if not view.complete:
        remarks.append("the index is still being built: these results come from a part of it")
    known = set(view.languages)
    if not known and view.complete:
        return [*remarks, "no file is indexed here: is this the right folder?"]
    for language in request.languages:
        if language.lower() not in known:
            remarks.append(f"no file here is {language}; there are: {', '.join(sorted(known))}")
    if request.max_tokens and CHARS_PER_TOKEN * request.max_tokens < SMALLEST_EXCERPT:
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
        options = SearchOptions(root=root, limit=request.limit, allowed=allowed, explain=request.explain, per_file=1)
        found = search(f"{chunk.symbol}\n{chunk.text}", view, keeper.embedder, options)
    where = f"similar to {path}:{chunk.start_line}-{chunk.end_line}"
    return replace(found, query=where, notes=(*found.notes, *notes))


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
