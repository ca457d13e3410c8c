"""A second look at a close call: a cross-encoder reads the query together with each of the first results and orders
them by relevance. Whatever goes wrong, the search's own order stays and the status says why."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.engine.searching import Opened
from codeinfo.errors import CodeInfoError, ProviderError
from codeinfo.model import Dropped, Hit, SearchResult, Signal
from codeinfo.operations.search import SearchRequest
from codeinfo.ports import Reranker, Snapshot
from codeinfo.search.line import EXPLAINED_DROPS
from codeinfo.settings import RerankSettings

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
        return (f"the results are not reranked ({self.status}). {self.next_step}",) if self.next_step else ()


class Reranking(Struct, frozen=True):
    """The user's reranker, made when it is first needed, and the bounds it works within."""

    settings: RerankSettings
    make_reranker: Callable[[], Reranker]

    def assess(self, query: str, texts: Sequence[str]) -> Relevance:
        """Asks the reranker within the time of the settings; a failure is a status, never an error."""
        if not texts:
            return Relevance(NOTHING)
        milliseconds = self.settings.timeout_ms
        try:
            reranker = self.make_reranker()
            scores = _score_within(milliseconds, reranker, query, texts)
        except CodeInfoError as error:
            late = error.code == "RERANK_TIMEOUT"
            status = f"timed out after {milliseconds} ms" if late else f"failed: {error.what}"
            return Relevance(status, next_step=error.next_step or "`codeinfo doctor` looks at the reranker")
        return Relevance(f"applied: {reranker.model_id}", tuple(scores))


def with_candidates(request: SearchRequest, settings: RerankSettings) -> SearchRequest:
    """The request for as many results as are reranked: what is shown is chosen afterwards."""
    return replace(request, limit=max(request.limit, settings.candidates))


def rerank_close_call(
    request: SearchRequest, found: SearchResult, opened: Sequence[Opened], reranking: Reranking
) -> SearchResult:
    """The result cut to the request's limit, with the first results by relevance where their scores are close."""
    started = time.perf_counter()
    settings = reranking.settings
    first = found.hits[: settings.candidates]
    if len(first) < COMPARED:
        relevance = Relevance(FEW)
    elif round(first[0].score - first[COMPARED - 1].score, 4) > settings.closeness:
        relevance = Relevance(CLEAR)
    else:
        relevance = reranking.assess(found.query, _chunk_texts(first, opened))
    hits = (*_by_relevance(first, relevance.scores, request.explain), *found.hits[len(first) :])
    return replace(
        found,
        hits=hits[: request.limit],
        dropped=_dropped(hits[request.limit :], found.dropped) if request.explain else found.dropped,
        quality=replace(found.quality, reranker_status=relevance.status),
        notes=(*found.notes, *relevance.notes),
        took_ms=round(found.took_ms + 1000 * (time.perf_counter() - started), 2),
    )


def best_first(scores: Sequence[float]) -> list[int]:
    """The positions by falling score; equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda position: -scores[position])


def _score_within(milliseconds: int, reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """In a thread, since looking up a host and loading a model know no deadline. A model that takes longer to load is
    there for the next search."""
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
            next_step="Allow more in rerank.timeout_ms, or use a smaller model",
            code="RERANK_TIMEOUT",
        ) from None


def _by_relevance(hits: Sequence[Hit], scores: Sequence[float], explain: bool) -> Sequence[Hit]:
    """Each place keeps its score, so that a list falls from its first result to its last however long it is; the
    signal says what the reranker gave and what that changed."""
    if not scores:
        return hits
    moved = []
    for place, position in enumerate(best_first(scores)):
        hit, score = hits[position], hits[place].score
        signal = Signal("rerank", round(scores[position], 4), round(score - hit.score, 4))
        moved.append(replace(hit, score=score, signals=(*hit.signals, signal) if explain else hit.signals))
    return moved


def _dropped(hits: Sequence[Hit], dropped: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
    own = [Dropped(hit.path, hit.start_line, hit.end_line, "limit", f"score {hit.score:.3f}") for hit in hits]
    return (*own, *dropped)[:EXPLAINED_DROPS]


def _chunk_texts(hits: Sequence[Hit], opened: Sequence[Opened]) -> list[str]:
    """Whole chunks, of which hits show a part. Where an index has changed since the search, the part has to do."""
    texts = [hit.text for hit in hits]
    for keeper, store, _ in opened:
        own = [position for position, hit in enumerate(hits) if hit.root == str(keeper.root)]
        if own:
            with store.snapshot() as view:
                for position in own:
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
    # Neighbours may share a line, so the chunk is the one found there or one beside it.
    rows = range(max(first, near - 1), min(first + count, near + 2))
    return next((chunk.text for chunk in view.chunks(rows) if chunk.chunk_id == hit.chunk_id), "")
