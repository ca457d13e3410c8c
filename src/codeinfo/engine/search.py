"""Search in folders: several roots as one index, filters, reranking of close calls, and search by vectors alone."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from codeinfo.cache import group_by_key
from codeinfo.engine.index_manager import IndexManager, is_complete, retry_on_damage
from codeinfo.engine.indexes import Indexes, OpenIndex, Place
from codeinfo.errors import CodeInfoError, NotFound, ProviderError, UsageError
from codeinfo.files import resolve_links
from codeinfo.globs import lies_below, match_globs, similar_paths
from codeinfo.languages import language_named
from codeinfo.model import (
    INDEXING,
    Distance,
    Dropped,
    Hit,
    Intent,
    NextStep,
    Note,
    Passage,
    SearchResult,
    Signal,
    fill,
    shown_root,
    to_run,
)
from codeinfo.models import Models
from codeinfo.operations import clients
from codeinfo.operations.base import ProgressSink
from codeinfo.operations.search import GrepRequest, SearchRequest, SimilarRequest
from codeinfo.ports import Embedder, FileList, Reranker, Snapshot
from codeinfo.search.channels import squared_l2
from codeinfo.search.joined import Joined, Part, join_parts
from codeinfo.search.line import EXPLAINED_DROPS, SMALLEST_EXCERPT, SearchOptions, search
from codeinfo.search.policy import apply_policy, distance_of
from codeinfo.search.query import asks_test_command, read_usage_question
from codeinfo.sources.git import list_changed
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import CHARS_PER_TOKEN, terms

MAX_LINE_DIGITS = 9  # no file has more lines, and a database column does not hold every number


class Scope(Struct, frozen=True):
    """Where to search: projects, each with the requested folders and files; none means the whole project."""

    folders: dict[IndexManager, tuple[str, ...]]

    @classmethod
    def of(cls, places: Iterable[Place]) -> Scope:
        folders: dict[IndexManager, tuple[str, ...]] = {}
        for place in places:
            folders[place.index] = (*folders.get(place.index, ()), place.below)
        return cls({index: below if all(below) else () for index, below in folders.items()})

    @property
    def indexes(self) -> list[IndexManager]:
        return list(self.folders)

    def holds(self, index: IndexManager, path: str) -> bool:
        folders = self.folders[index]
        return not folders or any(lies_below(path, folder) for folder in folders)


class SearchOperations:
    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    def search(self, request: SearchRequest, progress: ProgressSink = None) -> SearchResult:
        if not request.query.strip():  # before anything is indexed for it
            raise UsageError("the query is empty", "Say what to look for")
        if request.at and (request.changed_since or request.context or request.purpose):
            raise UsageError(
                "changed files, context and cards are those of the work tree, so they do not work with a revision",
                "Leave out the revision, or those options",
            )
        places, notes = self._indexes.places(request.paths, request.at, everywhere=request.all_projects)
        scope = Scope.of(places)

        def ask(again: bool) -> SearchResult:
            # Looking for changes in every folder of a machine would take longer than the search.
            refresh = again or (request.refresh and not (request.all_projects and self._indexes.team is None))
            opened, open_notes = self._indexes.open_all(
                scope.indexes, everywhere=request.all_projects, refresh=refresh, progress=progress
            )
            result = self._search(request, scope, opened)
            if not open_notes:
                return result
            return replace(result, notes=(*result.notes, *open_notes, *notes, *_count_by_project(result)))

        return retry_on_damage(ask)

    def _search(self, request: SearchRequest, scope: Scope, opened: list[OpenIndex]) -> SearchResult:
        settings = self._indexes.config.rerank
        if settings.provider == "none":
            return search_roots(request, opened, scope)
        # As many results as are reranked: the final choice comes afterwards.
        candidates = replace(request, limit=max(request.limit, settings.candidates))
        return rerank_close_call(request, search_roots(candidates, opened, scope), opened, self._indexes.models)

    def similar(self, request: SimilarRequest, progress: ProgressSink = None) -> SearchResult:
        file = request.place.rpartition(":")[0]
        typed_here = file if not request.path and os.path.exists(file) else ""
        below, index = self._indexes.find(request.path).below, self._indexes.find(typed_here or request.path).index
        return retry_on_damage(lambda _: similar_to(request, self._indexes.open(index, progress=progress), below))

    def vector_search(self, request: clients.VectorSearchRequest) -> clients.VectorSearchResult:
        """Results cut by the relevance policy, for clients that send the text to a model."""
        if not request.query.strip():
            raise UsageError("query is required", "Say what to look for")
        embedder = self._indexes.models.embedder()
        if embedder is None:
            step = NextStep("Set embedding.provider, or use ", to_run("search"), ", which needs none")
            raise ProviderError("no embedding model is configured", step, code="EMBEDDING_MODEL_MISSING")
        limit = min(max(request.limit, 1), MAX_LIMIT)
        chosen = _find_repositories(self._indexes, request.repository)
        ready = {index: store for index in chosen if (store := index.live_store()) is not None and is_complete(store)}
        if not ready or (request.repository and len(ready) < len(chosen)):
            building = ", ".join(str(index.root) for index in chosen if index not in ready)
            raise UsageError(f"{building} is still being indexed", "Try again when it is done", code="NOT_INGESTED")
        passages: list[Passage] = []
        for index, store in ready.items():
            passages += _find_closest(index, store, request.query, embedder)
        settled = apply_policy(sorted(passages, key=distance_of)[:CANDIDATES], self._indexes.config.retrieval)
        import logging  # imported late: a plain search does not need it

        logging.getLogger(__name__).info(
            "vector search: score source %s, %d with a distance", settled.score_source, settled.with_distance
        )
        matches = tuple(_to_match(passage, embedder.model_id) for passage in settled.kept[:limit])
        return clients.VectorSearchResult(matches, embedder.model_id if matches else None, _group_by_file(matches))


def _count_by_project(result: SearchResult) -> list[str]:
    counts = Counter(hit.root for hit in result.hits)
    listed = ", ".join(f"{shown_root(root)} ({count})" for root, count in counts.most_common())
    return [f"results are from {listed}"] if counts else []


def search_roots(request: SearchRequest, opened: Sequence[OpenIndex], scope: Scope) -> SearchResult:
    """Search all roots as one index: a word's rarity is that over all, so a root without an answer takes no rank."""
    with ExitStack() as open_views:
        views = [open_views.enter_context(one.store.snapshot()) for one in opened]
        indexes = [one.index for one in opened]
        parts = [Part(str(index.root), view) for index, view in zip(indexes, views, strict=True)]
        view = views[0] if len(views) == 1 else join_parts(parts)
        options = SearchOptions(
            root=str(indexes[0].root),
            roots=view.roots if isinstance(view, Joined) else (),
            limit=request.limit,
            intent=Intent(request.intent) if request.intent else None,
            # The name of one of several projects tells them apart; a word in all their names says nothing.
            project_words=frozenset.intersection(*(frozenset(terms(index.root.name)) for index in indexes)),
            allowed=_apply_filters(request, views, indexes, scope),
            symbol_kinds=frozenset(request.symbol_kinds),
            full_text=request.full_text,
            max_chars=CHARS_PER_TOKEN * request.max_tokens,
            explain=request.explain,
            fusion=indexes[0].config.search.fusion,
            per_file=indexes[0].config.search.results_per_file,
            commits=[(str(index.root), commits) for index in indexes if (commits := index.commits())],
        )
        embedder = indexes[0].embedder if all(index.embedder for index in indexes) else None
        result = search(request.query, view, embedder, options)
        if not view.paths:
            reason, hint = _explain_empty(view.complete)
            result = replace(result, quality=replace(result.quality, reasons=(reason,), hint=hint))
        index_notes = [note for one in opened for note in (*one.notes, *one.index.commit_notes())]
        notes = tuple(dict.fromkeys((*index_notes, *_note_missing_vectors(indexes), *_collect_remarks(request, view))))
    if request.snippets and not notes:
        return result
    shown = request.snippets or request.purpose  # the card reads what the results say
    hits = result.hits if shown else tuple(replace(hit, text="") for hit in result.hits)
    return replace(result, hits=hits, notes=(*result.notes, *notes))


def _explain_empty(is_complete: bool) -> tuple[str, NextStep]:
    """Why an index has no files, and what to do."""
    if is_complete:
        step = NextStep("Is this the right folder? ", to_run("why", "PATH"), " says which rule leaves a file out")
        return "no file is indexed here", step
    return "no file is indexed yet", NextStep("Search again in a moment; ", to_run("status"), " shows what is pending")


def _apply_filters(
    request: SearchRequest, views: Sequence[Snapshot], indexes: Sequence[IndexManager], scope: Scope
) -> NDArray[np.bool_] | None:
    """The files the filters let through, each root's by its own paths and history."""
    allowed, is_limited = list[NDArray[np.bool_]](), False
    for view, index in zip(views, indexes, strict=True):
        in_root = allowed_files(request, view, index, scope.folders[index])
        is_limited = is_limited or in_root is not None
        allowed.append(np.ones(len(view.paths), bool) if in_root is None else in_root)
    return np.concatenate(allowed) if is_limited else None


def _note_missing_vectors(indexes: Sequence[IndexManager]) -> list[str]:
    """Vectors of different models cannot be compared: one such root turns the vector channel off for all."""
    missing = [str(index.root) for index in indexes if not index.embedder]
    if not missing or len(missing) == len(indexes):
        return []  # all with the same model, or all without one, which each root reports itself
    return [
        NextStep(
            f"only words were compared in all {len(indexes)} folders, because {' and '.join(missing)} has vectors of "
            "another embedding model: ",
            to_run("index"),
            " rebuilds it",
        )
    ]


def _collect_remarks(request: SearchRequest, view: Snapshot) -> list[str]:
    remarks: list[str] = []
    if not view.complete:
        text = "the index is still being built: these results come from a part of it"
        remarks.append(Note(text, INDEXING))
    languages = set(view.languages) if request.languages else set()
    for language in request.languages:
        if languages and language_named(language) not in languages:
            remarks.append(f"no file here is {language}; there are: {', '.join(sorted(languages))}")
    asked = read_usage_question(request.query)
    if asked and asked.asks == "change" and asked.name in view.paths:
        remarks.append(NextStep(to_run("impact", asked.name), " lists what a change of it may affect"))
    elif asked and any(symbol.name == asked.last_name for symbol in view.definitions([asked.last_name])):
        remarks.append(NextStep(to_run("refs", asked.name), f" lists every use of {asked.name}"))
    if asks_test_command(request.query):
        remarks.append(NextStep(to_run("metadata"), " says how the tests are run"))
    if request.max_tokens and CHARS_PER_TOKEN * request.max_tokens < SMALLEST_EXCERPT:
        remarks.append(f"{request.max_tokens} tokens are too few to show anything: allow more")
    return remarks


def similar_to(request: SimilarRequest, opened: OpenIndex, below: str) -> SearchResult:
    """Chunks similar to the one at a place, by words and meaning; the file itself is left out."""
    index = opened.index
    path, _, line = request.place.rpartition(":")
    if not path or not line.isdecimal() or len(line) > MAX_LINE_DIGITS:
        raise UsageError(f"{request.place} is not a place", "Write it as FILE:LINE, as in src/app.py:42")
    with opened.store.snapshot() as view:
        here = resolve_links(path)  # as typed in a folder of the project
        if (below_root := here.removeprefix(f"{index.root}/")) in view.paths:
            path = below_root
        if path not in view.paths:
            near = similar_paths(path, view.paths)
            step = f"Did you mean {', '.join(near)}?" if near else NextStep("Ask ", to_run("why", path))
            raise NotFound(f"{path} is not in the index of {index.root}", step)
        file = view.paths.index(path)
        first, count = int(view.file_first[file]), int(view.file_rows[file])
        chunks = sorted(view.chunks(range(first, first + count)), key=lambda chunk: chunk.end_line)
        # A line between two chunks means the next one.
        chunk = next((chunk for chunk in chunks if chunk.end_line >= int(line)), None)
        if chunk is None:
            last = chunks[-1].end_line if chunks else 0
            raise NotFound(f"{path} has no code at line {line}", f"Its last line with code is {last}")
        allowed = np.array([lies_below(file_path, below) for file_path in view.paths], bool)
        allowed[file] = False
        root = str(index.root)
        options = SearchOptions(root=root, limit=request.limit, allowed=allowed, explain=request.explain, per_file=1)
        result = search(f"{chunk.symbol}\n{chunk.text}", view, index.embedder, options)
    where = f"similar to {path}:{chunk.start_line}-{chunk.end_line}"
    quality = result.quality
    if result.hits and quality.hint:  # reasons and hints about the words of a query do not help here
        quality = replace(quality, reasons=("related code, but no near copy",), hint="")
    return replace(result, query=where, quality=quality, notes=(*result.notes, *opened.notes))


def allowed_files(
    request: SearchRequest | GrepRequest, view: FileList, index: IndexManager, folders: Sequence[str]
) -> NDArray[np.bool_] | None:
    """The files the filters let through, or None without filters. `folders` limits the search; none means all."""
    tests: list[NDArray[np.bool_]] = []
    if folders:
        tests.append(np.array([any(lies_below(path, folder) for folder in folders) for path in view.paths], bool))
    if request.languages:
        tests.append(_among(view.languages, frozenset(map(language_named, request.languages))))
    if request.kinds:
        tests.append(_among(view.kinds, frozenset(request.kinds)))
    if request.globs:
        tests.append(np.array(match_globs(view.paths, request.globs), bool))
    if request.changed_since:
        tests.append(_among(view.paths, list_changed(index.root, request.changed_since)))
    return np.logical_and.reduce(tests) if tests else None


def _among(values: Sequence[str], accepted: Collection[str]) -> NDArray[np.bool_]:
    return np.array([value in accepted for value in values], bool)


# --- reranking -------------------------------------------------------------------------------------------------------

OFF = "off"
COMPARED = 3  # a call is close when the scores of this many first results are
CLEAR = "not needed: the first result is clear"
NOTHING = "not needed: nothing was found"
FEW = f"not needed: fewer than {COMPARED} results"


class Relevance(Struct, frozen=True):
    """One score per text, in the order of the texts, or none and a status that says why."""

    status: str
    scores: tuple[float, ...] = ()
    next_step: str = ""  # after a failure

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result must say about a failure."""
        return (NextStep(f"the results are not reranked ({self.status}). ", self.next_step),) if self.next_step else ()


def assess_relevance(models: Models, query: str, texts: Sequence[str]) -> Relevance:
    """Call the configured reranker within its time; a failure is a status, never an error."""
    if not texts:
        return Relevance(NOTHING)
    milliseconds = models.config.rerank.timeout_ms
    try:
        reranker = models.reranker()
        scores = _score_within(milliseconds, reranker, query, texts)
    except CodeInfoError as error:
        late = error.code == "RERANK_TIMEOUT"
        status = f"timed out after {milliseconds} ms" if late else f"failed: {error.what}"
        return Relevance(status, next_step=error.next_step or NextStep(to_run("doctor"), " checks the reranker"))
    return Relevance(f"applied: {reranker.model_id}", tuple(scores))


def rerank_close_call(
    request: SearchRequest, result: SearchResult, opened: Sequence[OpenIndex], models: Models
) -> SearchResult:
    """The result cut to the request's limit; if the first scores are close, those results are ordered by relevance."""
    started = time.perf_counter()
    settings = models.config.rerank
    first = result.hits[: settings.candidates]
    if len(first) < COMPARED:
        relevance = Relevance(FEW)
    elif round(first[0].score - first[COMPARED - 1].score, 4) > settings.closeness:
        relevance = Relevance(CLEAR)
    else:
        relevance = assess_relevance(models, result.query, _chunk_texts(first, opened))
    hits = (*_order_by_relevance(first, relevance.scores, request.explain), *result.hits[len(first) :])
    beyond = hits[request.limit :] if request.explain else ()
    dropped = [Dropped(hit.path, hit.start_line, hit.end_line, "limit", f"score {hit.score:.3f}") for hit in beyond]
    return replace(
        result,
        hits=hits[: request.limit],
        dropped=(*dropped, *result.dropped)[:EXPLAINED_DROPS],
        quality=replace(result.quality, reranker_status=relevance.status),
        notes=(*result.notes, *relevance.notes),
        took_ms=round(result.took_ms + 1000 * (time.perf_counter() - started), 2),
    )


def best_first(scores: Sequence[float]) -> list[int]:
    """The positions by descending score; equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda position: -scores[position])


def _score_within(milliseconds: int, reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """In a thread: resolving a host and loading a model have no deadline. A slow model is ready for the next search."""
    from concurrent.futures import Future  # imported late: a plain search does not need it

    answer: Future[list[float]] = Future()

    def work() -> None:
        try:
            answer.set_result(reranker.score(query, texts))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="rerank", daemon=True).start()
    try:
        return answer.result(milliseconds / 1000)
    except TimeoutError:
        raise ProviderError(
            f"{reranker.model_id} did not answer within {milliseconds} ms",
            "Allow more in rerank.timeout_ms, or use a smaller model",
            code="RERANK_TIMEOUT",
        ) from None


def _order_by_relevance(hits: Sequence[Hit], scores: Sequence[float], explain: bool) -> Sequence[Hit]:
    """Each rank keeps its score, so that scores descend; the signal says what the reranker gave and changed."""
    if not scores:
        return hits
    moved = []
    for place, position in enumerate(best_first(scores)):
        hit, score = hits[position], hits[place].score
        signal = Signal("rerank", round(scores[position], 4), round(score - hit.score, 4))
        moved.append(replace(hit, score=score, signals=(*hit.signals, signal) if explain else hit.signals))
    return moved


def _chunk_texts(hits: Sequence[Hit], opened: Sequence[OpenIndex]) -> list[str]:
    """Whole chunks, of which hits show a part. If an index has changed since the search, that part is used."""
    texts = [hit.text for hit in hits]
    for one in opened:
        positions = [position for position, hit in enumerate(hits) if hit.root == str(one.index.root)]
        if positions:
            with one.store.snapshot() as view:
                for position in positions:
                    texts[position] = _chunk_text(hits[position], view) or texts[position]
    return texts


def _chunk_text(hit: Hit, view: Snapshot) -> str:
    if hit.path not in view.paths:
        return ""
    file = view.paths.index(hit.path)
    near = view.row_at(file, hit.start_line)
    if near is None:
        return ""
    first, count = int(view.file_first[file]), int(view.file_rows[file])
    # Neighbours may share a line, so the chunk is the one found there or the one beside it.
    rows = range(max(first, near - 1), min(first + count, near + 2))
    return next((chunk.text for chunk in view.chunks(rows) if chunk.chunk_id == hit.chunk_id), "")


# --- search by vectors alone, and the projects there are -------------------------------------------------------------

CANDIDATES = 60  # rows considered before the policy, which drops some: a list is short only when there is nothing more
MAX_LIMIT = 20


def _find_repositories(indexes: Indexes, repository: str) -> list[IndexManager]:
    """The indexed repositories with that name or folder; all of them for ""."""
    roots = [root for root in indexes.roots() if root.is_dir()]
    if not roots:
        step = NextStep("Run ", to_run("index"), " in a project")
        raise UsageError("nothing is indexed yet", step, code="NOT_INGESTED")
    if not repository:
        return [indexes.of(root) for root in roots]
    matches = [root for root in roots if repository in (root.name, str(root))]
    if not matches:
        names = ", ".join(sorted(root.name for root in roots))
        raise NotFound(f"no repository {repository} is indexed", f"Known: {names}", code="REPO_NOT_FOUND")
    return [indexes.of(root) for root in matches]


def _find_closest(index: IndexManager, store: SqliteStore, query: str, embedder: Embedder) -> list[Passage]:
    if store.meta().get("model_id", embedder.model_id) != embedder.model_id:
        raise UsageError(
            f"{index.root} was indexed with another model than {embedder.model_id}",
            NextStep("Run ", to_run("index", str(index.root))),
            code="DIMENSION_MISMATCH",
        )
    with store.snapshot() as view:
        cosines = view.cosines(embedder.embed_query(query))
        if cosines is None:
            return []
        rows = np.argsort(-cosines, kind="stable")[:CANDIDATES].tolist()
        chunks = view.chunks(rows)
    return [
        fill(
            Passage,
            chunk,
            root=str(index.root),
            chunk_id=f"{index.folder.path.name}:{chunk.chunk_id}",
            distance=Distance(round(squared_l2(float(cosines[row])), 4)),
        )
        for row, chunk in zip(rows, chunks, strict=True)
    ]


def _to_match(passage: Passage, model_id: str) -> clients.VectorMatch:
    path = f"{passage.root}/{passage.path}"
    return clients.VectorMatch(
        repo=os.path.basename(passage.root),
        relPath=passage.path,
        containerPath=path,
        hostPath=path,
        score=passage.distance.value if passage.distance else None,
        chunk=passage.text,
        chunkId=passage.chunk_id,
        modelId=model_id,
        lineCount=passage.text.count("\n") + 1 if passage.text else None,
    )


def _group_by_file(matches: Sequence[clients.VectorMatch]) -> tuple[clients.VectorFile, ...]:
    by_path = group_by_key((match.hostPath, match) for match in matches)
    return tuple(
        clients.VectorFile(
            hostPath=path,
            highestMatch=min((match.score for match in of_file if match.score is not None), default=None),
            chunkCount=len(of_file),
            lineCount=sum(match.lineCount or 0 for match in of_file) or None,
            repo=of_file[0].repo,
            modelId=of_file[0].modelId,
        )
        for path, of_file in sorted(by_path.items())
    )
