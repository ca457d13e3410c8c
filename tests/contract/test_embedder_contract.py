"""What every Embedder keeps to, whatever stands behind it. A new one joins by a row in EMBEDDERS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pytest
from model_server import EMBEDDING_MODEL, ScriptedServer

from codeinfo.models import BuiltinEmbedder
from codeinfo.models.endpoints import EmbeddingEndpoint
from codeinfo.models.retrieval import OpenAIEmbedder, ScriptedEmbedder
from codeinfo.ports import Embedder

TEXTS = [
    "def parse_header(line): return line.split(':')",
    "class HttpServer: handles requests and writes responses",
    "SELECT name FROM users WHERE id = 1",
    "Größe und Länge einer Zeichenkette",
    "x" * 5000,
    "",
]


@contextmanager
def scripted() -> Iterator[Embedder]:
    yield ScriptedEmbedder()


@contextmanager
def openai_compatible() -> Iterator[Embedder]:
    with ScriptedServer(dimension=256) as server:
        yield OpenAIEmbedder(EmbeddingEndpoint(server.url, EMBEDDING_MODEL, batch_count=4))


@contextmanager
def built_in() -> Iterator[Embedder]:
    yield BuiltinEmbedder()


EMBEDDERS: dict[str, Callable[[], AbstractContextManager[Embedder]]] = {
    "built-in": built_in,
    "scripted": scripted,
    "openai-compatible": openai_compatible,
}


@pytest.fixture(params=list(EMBEDDERS.values()), ids=list(EMBEDDERS))
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    with request.param() as made:
        yield made


def test_it_is_an_embedder(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)


def test_documents_become_unit_rows(embedder: Embedder) -> None:
    rows = embedder.embed_documents(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.dimension)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_no_documents_are_no_rows(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)


def test_a_query_is_one_unit_row(embedder: Embedder) -> None:
    row = embedder.embed_query("where are headers parsed")
    assert row.dtype == np.float32
    assert row.shape == (embedder.dimension,)
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_the_same_text_gives_the_same_row_alone_and_in_company(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS)
    alone = embedder.embed_documents(TEXTS[2:3])
    np.testing.assert_allclose(together[2], alone[0], atol=1e-5)


def test_rows_keep_the_order_of_the_texts(embedder: Embedder) -> None:
    np.testing.assert_allclose(embedder.embed_documents(TEXTS)[::-1], embedder.embed_documents(TEXTS[::-1]), atol=1e-5)


def test_a_query_is_closest_to_the_text_it_is_about(embedder: Embedder) -> None:
    cosines = embedder.embed_documents(TEXTS[:4]) @ embedder.embed_query("http server that handles requests")
    assert int(cosines.argmax()) == 1


def test_the_id_names_the_dimension_and_does_not_change(embedder: Embedder) -> None:
    assert str(embedder.dimension) in embedder.model_id
    before = embedder.model_id
    embedder.embed_documents(TEXTS)
    assert embedder.model_id == before


def test_threads_may_share_it(embedder: Embedder) -> None:
    expected = embedder.embed_documents(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for rows in pool.map(lambda _: embedder.embed_documents(TEXTS), range(8)):
            np.testing.assert_allclose(rows, expected, atol=1e-5)
