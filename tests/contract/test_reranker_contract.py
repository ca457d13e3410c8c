"""What every Reranker keeps to, whatever stands behind it. A new one joins by a row in RERANKERS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from model_server import RERANK_MODEL, ScriptedServer
from rerank_tools import make_cross_encoder
from scripted import ScriptedReranker

from codeinfo.models.endpoints import RerankEndpoint
from codeinfo.models.retrieval import EndpointReranker, LocalReranker
from codeinfo.ports import Reranker

QUERY = "retry a failed request"
TEXTS = [
    "class Theme: colours and fonts",
    "send it again when a request failed",
    "how to retry a failed request",
    "",
    "Größe und Länge einer Zeichenkette",
    "x y " * 5000,
]


@contextmanager
def scripted(folder: Path) -> Iterator[Reranker]:
    yield ScriptedReranker()


@contextmanager
def usual_endpoint(folder: Path) -> Iterator[Reranker]:
    with ScriptedServer() as server:
        yield EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL))


@contextmanager
def endpoint_with_logits(folder: Path) -> Iterator[Reranker]:
    with ScriptedServer(logits=True) as server:
        yield EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL))


@contextmanager
def tei_endpoint(folder: Path) -> Iterator[Reranker]:
    with ScriptedServer() as server:
        yield EndpointReranker(RerankEndpoint(server.url.removesuffix("/v1")))


@contextmanager
def local(folder: Path) -> Iterator[Reranker]:
    path = make_cross_encoder(folder / "tiny", " ".join((QUERY, *TEXTS)))
    yield LocalReranker(path, seconds=30)


RERANKERS: dict[str, Callable[[Path], AbstractContextManager[Reranker]]] = {
    "scripted": scripted,
    "usual endpoint": usual_endpoint,
    "endpoint with logits": endpoint_with_logits,
    "TEI endpoint": tei_endpoint,
    "local": local,
}


@pytest.fixture(params=list(RERANKERS.values()), ids=list(RERANKERS))
def reranker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reranker]:
    with request.param(tmp_path) as made:
        yield made
        made.close()


def test_it_is_a_reranker(reranker: Reranker) -> None:
    assert isinstance(reranker, Reranker)
    assert reranker.model_id == reranker.model_id != ""


def test_every_text_has_a_relevance_in_its_place(reranker: Reranker) -> None:
    scores = reranker.score(QUERY, TEXTS)
    assert len(scores) == len(TEXTS)
    assert all(0 <= score <= 1 for score in scores)
    assert max(scores) == scores[2]
    assert scores[2] > scores[1] > scores[0]


def test_no_texts_have_no_scores(reranker: Reranker) -> None:
    assert reranker.score(QUERY, []) == []


def test_the_same_question_has_the_same_scores(reranker: Reranker) -> None:
    first = reranker.score(QUERY, TEXTS)
    assert reranker.score(QUERY, TEXTS) == pytest.approx(first)
    assert reranker.score(QUERY, TEXTS[::-1]) == pytest.approx(first[::-1])


def test_threads_may_share_it(reranker: Reranker) -> None:
    expected = reranker.score(QUERY, TEXTS)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: reranker.score(QUERY, TEXTS), range(12)))
    assert all(answer == pytest.approx(expected) for answer in answers)
