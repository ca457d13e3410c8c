"""Reranking endpoints and local cross-encoders: what is sent, what is refused, how a failure ends."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest
from model_server import RERANK_MODEL, ScriptedServer, Trouble
from rerank_tools import make_cross_encoder

from codeinfo.errors import ProviderError, UsageError
from codeinfo.models.endpoints import Key, Limits, RerankEndpoint
from codeinfo.models.retrieval import EndpointReranker, LocalReranker, sigmoid

# Silence is cut short only where a test is about silence: a busy machine may be slow to answer.
QUICK = Limits(total_seconds=20, read_seconds=10, retry_seconds=10, backoff_seconds=0.01)
IMPATIENT = Limits(total_seconds=1, read_seconds=1, backoff_seconds=0.01)
TEXTS = ["tides", "tides and harbours", "neither"]


def test_the_usual_shape() -> None:
    with ScriptedServer(key="a-secret-key") as server:
        reranker = EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL, Key("a-secret-key", "a test")))
        assert reranker.score("tides harbours", TEXTS) == [0.5, sigmoid(1), sigmoid(-1)]
        (request,) = server.requests
    assert request.path == "/v1/rerank"
    assert request.body == {"model": RERANK_MODEL, "query": "tides harbours", "documents": TEXTS, "top_n": 3}
    assert reranker.model_id == f"endpoint:{RERANK_MODEL}"


@pytest.mark.parametrize("slash", ["", "/"])
def test_an_endpoint_without_a_model_is_asked_as_tei_is(slash: str) -> None:
    with ScriptedServer() as server:
        address = server.url.removesuffix("/v1")
        reranker = EndpointReranker(RerankEndpoint(address + slash))
        assert reranker.score("tides harbours", TEXTS) == [0.5, sigmoid(1), sigmoid(-1)]
        (request,) = server.requests
    assert request.path == "/rerank"
    assert request.body == {"query": "tides harbours", "texts": TEXTS, "truncate": True}
    assert reranker.model_id == f"endpoint:{address}"


def test_logits_are_recognised_by_their_range_and_remembered() -> None:
    with ScriptedServer(logits=True) as server:
        reranker = EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL))
        assert reranker.score("tides", ["tides"]) == [0.5]  # a logit of .5 looks like a relevance
        assert reranker.score("tides", TEXTS) == [sigmoid(0.5), sigmoid(0.5), sigmoid(-0.5)]
        assert reranker.score("tides", ["tides"]) == [sigmoid(0.5)]


def test_the_sigmoid_overflows_on_neither_side() -> None:
    assert (sigmoid(0), sigmoid(10_000), sigmoid(-10_000)) == (0.5, 1.0, 0.0)
    assert sigmoid(2) == pytest.approx(1 / (1 + math.exp(-2)))


def test_long_texts_are_cut_and_empty_ones_are_sent_as_a_space() -> None:
    with ScriptedServer() as server:
        EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL, text_chars=10)).score("q" * 99, ["x" * 99, ""])
        assert server.requests[0].body["documents"] == ["x" * 10, " "]
        assert server.requests[0].body["query"] == "q" * 10


def test_one_connection_is_used_again() -> None:
    with ScriptedServer() as server:
        reranker = EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL))
        for _ in range(3):
            reranker.score("tides", TEXTS)
        assert server.connections == 1
        reranker.close()
        reranker.score("tides", TEXTS)
        assert server.connections == 2
        reranker.close()


@pytest.mark.parametrize("trouble", [Trouble.RATE_LIMITED, Trouble.SERVER_ERROR, Trouble.DROP])
def test_what_another_try_may_fix_is_retried(trouble: Trouble) -> None:
    with ScriptedServer(troubles=[trouble]) as server:
        reranker = EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL, limits=QUICK))
        assert len(reranker.score("tides", TEXTS)) == 3
        assert len(server.requests) == 2
        reranker.close()


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (Trouble.UNAUTHORIZED, "RERANK_UNAUTHORIZED"),
        (Trouble.SILENT, "RERANK_TIMEOUT"),
        (Trouble.DRIP_HEADERS, "RERANK_TIMEOUT"),
        (Trouble.HTML, "RERANK_BAD_REPLY"),
        (Trouble.MALFORMED, "RERANK_BAD_REPLY"),
        (Trouble.NOT_HTTP, "RERANK_BAD_REPLY"),
        (Trouble.NAN, "RERANK_BAD_REPLY"),
        (Trouble.WORDS, "RERANK_BAD_REPLY"),
        (Trouble.MISSING, "RERANK_BAD_REPLY"),
        (Trouble.TWICE, "RERANK_BAD_REPLY"),
        (Trouble.REDIRECT, "RERANK_BAD_REPLY"),
    ],
)
def test_a_failure_has_a_code_and_a_next_step(trouble: Trouble, code: str) -> None:
    with ScriptedServer(troubles=[trouble] * 4) as server:
        limits = IMPATIENT if code == "RERANK_TIMEOUT" else QUICK
        reranker = EndpointReranker(RerankEndpoint(server.url, RERANK_MODEL, limits=limits))
        with pytest.raises(ProviderError) as caught:
            reranker.score("tides", TEXTS)
    assert caught.value.code == code
    assert caught.value.next_step


def test_an_endpoint_that_does_not_know_the_model_or_the_shape() -> None:
    with ScriptedServer() as server:
        with pytest.raises(ProviderError, match="does not exist") as unknown:
            EndpointReranker(RerankEndpoint(server.url, "another")).score("tides", TEXTS)
        assert unknown.value.code == "RERANK_MODEL_MISSING"
        with pytest.raises(UsageError, match="must look like"):
            EndpointReranker(RerankEndpoint("nowhere", "m"))


# --- local ---------------------------------------------------------------------------------------------------------


def local(folder: Path, seconds: float = 120.0, **options: int) -> LocalReranker:
    return LocalReranker(folder, seconds, **options)


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_a_cross_encoder_gives_the_sigmoid_of_its_logit(tmp_path: Path, kind: str) -> None:
    reranker = local(make_cross_encoder(tmp_path / "tiny", " ".join(TEXTS), kind=kind))
    assert reranker.score("tides harbours", TEXTS) == pytest.approx([sigmoid(0), sigmoid(1), sigmoid(-1)])
    assert reranker.model_id == "local:tiny"
    reranker.close()


def test_of_two_classes_the_difference_counts(tmp_path: Path) -> None:
    reranker = local(make_cross_encoder(tmp_path / "two", " ".join(TEXTS), classes=2))
    assert reranker.score("tides harbours", TEXTS) == pytest.approx([sigmoid(0), sigmoid(2), sigmoid(-2)])
    reranker.close()


def test_pairs_are_truncated(tmp_path: Path) -> None:
    folder = make_cross_encoder(tmp_path / "tiny", "tides filler")
    late = "filler " * 600 + "tides"
    early = "tides " + "filler " * 600
    scores = local(folder).score("tides", [late, early])
    assert scores == pytest.approx([sigmoid(-1), sigmoid(0)])
    longer = local(folder, max_tokens=1000).score("tides", [late])
    assert longer == pytest.approx([sigmoid(0)])


def test_a_folder_that_is_no_cross_encoder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=r"no model\.onnx and no tokenizer\.json") as missing:
        local(tmp_path).score("q", ["t"])
    assert missing.value.code == "RERANK_MODEL_MISSING"
    assert "rerank.model_path" in missing.value.next_step
    broken = make_cross_encoder(tmp_path / "broken", "tides")
    (broken / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ProviderError, match="cannot be loaded") as damaged:
        local(broken).score("q", ["t"])
    assert damaged.value.code == "RERANK_BAD_MODEL"
    (broken / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    with pytest.raises(ProviderError, match="cannot be loaded"):
        local(broken).score("q", ["t"])
    with pytest.raises(ProviderError, match="wants the input 'pixel_values'"):
        local(make_cross_encoder(tmp_path / "seeing", "tides", inputs=("pixel_values",))).score("q", ["t"])
    with pytest.raises(ProviderError, match="gives 3 numbers"):
        local(make_cross_encoder(tmp_path / "three", "tides", classes=3)).score("q", ["t"])


def test_a_local_model_stops_when_its_time_is_over(tmp_path: Path) -> None:
    reranker = local(make_cross_encoder(tmp_path / "tiny", "tides filler"), seconds=1)
    with pytest.raises(ProviderError) as caught:
        reranker.score("tides", ["filler " * 600] * 100_000)
    assert caught.value.code == "RERANK_TIMEOUT"
    assert reranker.score("tides", ["tides"]) == pytest.approx([sigmoid(0)])  # it is loaded by now


def test_closing_ends_a_call_that_is_running(tmp_path: Path) -> None:
    reranker = local(make_cross_encoder(tmp_path / "tiny", "tides filler"), seconds=600)
    ended: list[str] = []

    def ask() -> None:
        try:
            reranker.score("tides", ["filler " * 600] * 1_000_000)
        except ProviderError as error:
            ended.append(error.code)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.3)
    reranker.close()
    thread.join(120)  # it has ten minutes
    assert ended == ["RERANK_CANCELLED"]
