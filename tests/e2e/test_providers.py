"""Providers against a server that fails on purpose: each fault ends as documented, within its limit."""

from __future__ import annotations

import itertools
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import CHAT_MODEL, EMBEDDING_MODEL, ScriptedServer, Trouble, endless_tool_calls
from patience import within
from scripted import Reply

from codeinfo.answers.model import request_json
from codeinfo.errors import ProviderError
from codeinfo.models import retrieval
from codeinfo.models.chat import OpenAIChat, make_llm
from codeinfo.models.endpoints import ChatEndpoint, EmbeddingEndpoint, Limits
from codeinfo.models.retrieval import OpenAIEmbedder, known_prefixes
from codeinfo.ports import Delta, Message

ASK = [Message("user", "one two three four five six")]
# Silence is cut short only where a test is about silence: a busy machine may be slow to answer.
QUICK = Limits(total_seconds=90, attempts=3, retry_seconds=60, backoff_seconds=0.01, read_seconds=60)
IMPATIENT = Limits(total_seconds=0.8, attempts=2, backoff_seconds=0.01, read_seconds=0.4)


def chat(server: ScriptedServer, limits: Limits = QUICK, **more: Any) -> OpenAIChat:
    return OpenAIChat(ChatEndpoint(server.url, CHAT_MODEL, limits=limits, **more))


def embedder(server: ScriptedServer, limits: Limits = QUICK, **more: Any) -> Any:
    return OpenAIEmbedder(EmbeddingEndpoint(server.url, EMBEDDING_MODEL, limits=limits, **more))


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def chat_error(server: ScriptedServer, limits: Limits = QUICK) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        list(chat(server, limits).stream(ASK))
    return caught.value


def embedding_error(server: ScriptedServer, limits: Limits = QUICK) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        embedder(server, limits).embed_documents(["x"])
    return caught.value


# --- what any request can meet ------------------------------------------------------------------------------------

FAULTS = [
    (Trouble.UNAUTHORIZED, "UNAUTHORIZED"),
    (Trouble.FORBIDDEN, "UNAUTHORIZED"),
    (Trouble.RATE_LIMITED, "RATE_LIMITED"),
    (Trouble.SERVER_ERROR, "UNAVAILABLE"),
    (Trouble.REDIRECT, "BAD_REPLY"),
    (Trouble.DROP, "UNAVAILABLE"),
    (Trouble.SILENT, "TIMEOUT"),
    (Trouble.HANG, "TIMEOUT"),
    (Trouble.DRIP_HEADERS, "TIMEOUT"),
    (Trouble.NOT_HTTP, "BAD_REPLY"),
    (Trouble.MALFORMED, "BAD_REPLY"),
    (Trouble.ENDLESS_BODY, "TIMEOUT"),
]


@pytest.mark.parametrize(("trouble", "code"), FAULTS)
@pytest.mark.parametrize("role", ["LLM", "EMBEDDING"])
def test_each_fault_has_its_code_within_its_time(trouble: Trouble, code: str, role: str) -> None:
    limits = IMPATIENT if code == "TIMEOUT" else QUICK
    with ScriptedServer(troubles=itertools.repeat(trouble)) as server:
        with within(30):
            error = chat_error(server, limits) if role == "LLM" else embedding_error(server, limits)
        if trouble is Trouble.ENDLESS_BODY and error.code == f"{role}_BAD_REPLY":
            code = "BAD_REPLY"  # a fast machine reaches the largest size before the time is up
        if role == "LLM" and trouble is Trouble.DROP:
            code = "BROKEN"
        assert error.code == f"{role}_{code}"
        assert server.url in error.what
        assert error.next_step
        assert error.exit_code == 6


def test_a_page_instead_of_a_reply() -> None:
    with ScriptedServer(troubles=itertools.repeat(Trouble.HTML)) as server:
        assert chat_error(server).code == "LLM_BROKEN"
        with pytest.raises(ProviderError, match="not JSON"):
            embedder(server).embed_query("x")


@pytest.mark.parametrize("trouble", [Trouble.SERVER_ERROR, Trouble.RATE_LIMITED, Trouble.DROP, Trouble.ERROR_EVENT])
def test_a_passing_fault_is_tried_again(trouble: Trouble) -> None:
    with ScriptedServer(["fine"], troubles=[trouble, trouble]) as server:
        assert text(list(chat(server).stream(ASK))) == "fine"
        assert len(server.requests) == 3


def test_tries_are_counted_and_end() -> None:
    with ScriptedServer(troubles=itertools.repeat(Trouble.SERVER_ERROR)) as server:
        error = chat_error(server)
        assert len(server.requests) == 3
        assert "3 tries" in error.what
        assert "out of luck" in error.what


def test_the_wait_named_by_the_endpoint_is_kept() -> None:
    with ScriptedServer(["fine"], troubles=[Trouble.RATE_LIMITED], retry_after="1") as server:
        started = time.monotonic()
        assert text(list(chat(server).stream(ASK))) == "fine"
        assert time.monotonic() - started >= 1


@pytest.mark.parametrize("retry_after", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_wait_beyond_the_limit_fails_at_once(retry_after: str) -> None:
    with ScriptedServer(troubles=itertools.repeat(Trouble.RATE_LIMITED), retry_after=retry_after) as server:
        with within(30):
            error = chat_error(server)
        assert error.code == "LLM_RATE_LIMITED"
        assert "next try would be in" in error.what


def test_nobody_listens() -> None:
    with ScriptedServer() as server:
        url = server.url
    with pytest.raises(ProviderError, match="refuses the connection") as caught:
        list(OpenAIChat(ChatEndpoint(url, "m", limits=QUICK)).stream(ASK))
    assert caught.value.code == "LLM_UNAVAILABLE"


def test_a_missing_model() -> None:
    with ScriptedServer() as server, pytest.raises(ProviderError, match="no model 'other'") as caught:
        list(OpenAIChat(ChatEndpoint(server.url, "other", limits=QUICK)).stream(ASK))
    assert caught.value.code == "LLM_MODEL_MISSING"


# --- TLS ----------------------------------------------------------------------------------------------------------


def test_tls_to_a_plain_server() -> None:
    with ScriptedServer() as server:
        llm = OpenAIChat(ChatEndpoint(server.url.replace("http:", "https:"), CHAT_MODEL, limits=QUICK))
        with pytest.raises(ProviderError, match="no secure connection") as caught:
            list(llm.stream(ASK))
    assert caught.value.code == "LLM_UNAVAILABLE"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    path = tmp_path / "server.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(path), "-out", str(tmp_path / "c.pem")], check=True, capture_output=True
    )
    path.write_text(path.read_text() + (tmp_path / "c.pem").read_text())
    return path


def test_an_untrusted_certificate_is_refused_and_a_trusted_one_works(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ScriptedServer(["safe", "safe"], tls=context) as server:
        error = chat_error(server)
        assert error.code == "LLM_UNAVAILABLE"
        assert "self" in error.what  # "self-signed certificate", in the words of the library
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert text(list(chat(server).stream(ASK))) == "safe"


# --- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.STALL, Trouble.MALFORMED_MIDWAY])
def test_a_broken_stream_keeps_the_partial_answer_and_says_so(trouble: Trouble) -> None:
    with ScriptedServer(["one two three four"], troubles=[trouble]) as server:
        deltas = list(chat(server, Limits(read_seconds=1) if trouble is Trouble.STALL else QUICK).stream(ASK))
        assert text(deltas).split() == ["one", "two"]
        assert deltas[-1].finish == "cut"
        assert len(server.requests) == 1  # never tried again once something was said


def test_a_stream_that_ends_before_the_first_word_is_an_error() -> None:
    with ScriptedServer(troubles=itertools.repeat(Trouble.CUT_EARLY)) as server:
        assert chat_error(server).code == "LLM_BROKEN"


def test_words_without_end_stop_at_the_largest_size() -> None:
    with ScriptedServer(troubles=[Trouble.ENDLESS]) as server:
        deltas = list(chat(server, max_chars=5000).stream(ASK))
        assert len(text(deltas)) == 5000
        assert deltas[-1].finish == "length"
        assert server.client_gone.wait(120)


def test_words_without_end_stop_in_time() -> None:
    limits = Limits(total_seconds=1.5)
    with ScriptedServer(troubles=[Trouble.ENDLESS]) as server:
        deltas = list(chat(server, limits, max_chars=10**9).stream(ASK))
        assert deltas[-1].finish == "cut"


def test_arguments_without_end_stop_and_no_half_call_is_passed_on() -> None:
    with ScriptedServer(troubles=[Trouble.ENDLESS_ARGUMENTS]) as server:
        deltas = list(chat(server, max_chars=2000).stream(ASK))
        assert deltas == [Delta(finish="length")]


@pytest.mark.parametrize(
    ("trouble", "code"), [(Trouble.ENDLESS_COMMENTS, "TIMEOUT"), (Trouble.ENDLESS_LINE, "BAD_REPLY")]
)
def test_noise_without_end_is_an_error_in_time(trouble: Trouble, code: str) -> None:
    limits = Limits(total_seconds=0.6 if code == "TIMEOUT" else 20, attempts=1)
    with ScriptedServer(troubles=[trouble]) as server, within(30):
        assert chat_error(server, limits).code == f"LLM_{code}"


def test_tool_calls_without_end_are_the_callers_to_bound() -> None:
    with ScriptedServer(endless_tool_calls("search", '{"query": "x"}')) as server:
        llm = chat(server)
        for _ in range(5):
            last = list(llm.stream(ASK))[-1]
            assert last.finish == "tool_calls"
            assert [call.name for call in last.tool_calls] == ["search"]


@pytest.mark.parametrize("trouble", [Trouble.NO_STREAM, Trouble.NO_DONE])
def test_dialects_are_understood(trouble: Trouble) -> None:
    with ScriptedServer(["one two"], troubles=[trouble]) as server:
        deltas = list(chat(server).stream(ASK))
        assert text(deltas) == "one two"
        assert deltas[-1].finish == "stop"
        assert deltas[-1].usage is not None


def test_closing_the_iterator_closes_the_connection() -> None:
    with ScriptedServer(troubles=[Trouble.ENDLESS]) as server:
        stream = chat(server).stream(ASK)
        next(stream)
        stream.close()
        assert server.client_gone.wait(120)


def test_dropping_the_iterator_closes_the_connection() -> None:
    with ScriptedServer(troubles=[Trouble.ENDLESS]) as server:
        stream = chat(server).stream(ASK)
        next(stream)
        del stream
        assert server.client_gone.wait(120)


@pytest.mark.parametrize("trouble", [Trouble.SILENT, Trouble.HANG])
def test_another_thread_may_cancel_while_the_model_is_silent(trouble: Trouble) -> None:
    with ScriptedServer(troubles=[trouble]) as server:
        stream = chat(server, Limits(total_seconds=900, read_seconds=900)).stream(ASK)
        threading.Timer(0.2, stream.close).start()
        assert list(stream) == []
        assert server.client_gone.wait(120)


def test_cancelling_ends_the_wait_between_tries() -> None:
    limits = Limits(total_seconds=1800, retry_seconds=1800)
    with ScriptedServer(troubles=itertools.repeat(Trouble.RATE_LIMITED), retry_after="900") as server:
        stream = chat(server, limits).stream(ASK)
        threading.Timer(0.2, stream.close).start()
        assert list(stream) == []


def test_a_schema_is_sent_or_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with ScriptedServer(lambda request: Reply('{"a": 1}')) as server:
        assert request_json(chat(server), ASK, schema) == {"a": 1}
        list(chat(server).stream(ASK))
        formats = [request.body.get("response_format") for request in server.requests]
        assert formats[0] == {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        assert formats[1] is None
    with ScriptedServer(lambda request: Reply('{"a": 1}'), troubles=itertools.repeat(Trouble.NO_SCHEMA)) as server:
        llm = chat(server)
        assert [request_json(llm, ASK, schema) for _ in range(2)] == [{"a": 1}] * 2
        assert [request.body.get("response_format", {}).get("type") for request in server.requests] == [
            "json_schema",
            "json_object",
            None,
            None,
        ]


def test_the_first_chat_model_is_taken_where_none_is_named() -> None:
    with ScriptedServer(["hello"]) as server:
        llm = make_llm(ChatEndpoint(server.url, limits=QUICK))
        assert llm.model_id == CHAT_MODEL
        assert text(list(llm.stream(ASK))) == "hello"


# --- embeddings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Trouble.WRONG_DIMENSION, "33 numbers where 32"),
        (Trouble.NAN, "vector 1 holds NaN"),
        (Trouble.ZERO, "vector 1 is zero"),
        (Trouble.MISSING, "1 vectors for 2 texts"),
        (Trouble.TWICE, "index of its own"),
        (Trouble.WORDS, "not a number"),
        (Trouble.PER_TOKEN, "one vector for each token"),
    ],
)
def test_vectors_that_are_none_are_refused(trouble: Trouble, words: str) -> None:
    with ScriptedServer(troubles=[None, trouble]) as server:
        made = embedder(server)
        assert made.dimension == 32
        with pytest.raises(ProviderError, match=words) as caught:
            made.embed_documents(["a", "b"])
        assert caught.value.code == "EMBEDDING_BAD_REPLY"
        assert made.embed_documents(["a", "b"]).shape == (2, 32)  # the next request is fine


def test_vectors_are_put_in_order_by_their_index() -> None:
    with ScriptedServer(troubles=[None, Trouble.SHUFFLED]) as server:
        made = embedder(server)
        np.testing.assert_array_equal(made.embed_documents(["a", "b"]), made.embed_documents(["a", "b"]))


def test_batches_are_bounded_by_count_and_by_characters_over_one_connection() -> None:
    with ScriptedServer() as server:
        made = embedder(server, batch_count=8)
        made.embed_documents(["x" * 10] * 9 + ["y" * 20_000] * 8)
        assert [len(request.body["input"]) for request in server.requests] == [8, 7, 2]
        assert max(len(text) for request in server.requests for text in request.body["input"]) == 16_000
        assert server.connections == 1


def test_a_pooled_connection_that_the_server_closed_is_reopened() -> None:
    limits = Limits(attempts=1)
    with ScriptedServer(troubles=[None, Trouble.DROP, None]) as server:
        made = embedder(server, limits)
        made.embed_query("a")
        made.embed_query("b")
        assert server.connections == 2


def test_prefixes_follow_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_prefixes("text-embedding-nomic-embed-text-v1.5") == ("search_query: ", "search_document: ")
    assert known_prefixes("intfloat/multilingual-e5-base") == ("query: ", "passage: ")
    assert known_prefixes("BAAI/bge-small-en-v1.5")[0].startswith("Represent this sentence")
    assert known_prefixes("text-embedding-3-small") == known_prefixes("bge-m3") == ("", "")
    with ScriptedServer() as server:
        assert embedder(server).model_id == f"openai:{EMBEDDING_MODEL}@32"
        monkeypatch.setattr(retrieval, "PREFIXES", ((EMBEDDING_MODEL, "q: ", "d: "),))
        made = embedder(server)
        made.embed_query("x")
        made.embed_documents(["y"])
        assert [request.body["input"] for request in server.requests[1:]] == [["q: x"], ["d: y"]]
        assert made.model_id.startswith(f"openai:{EMBEDDING_MODEL}@32+")  # how documents are embedded is a part of it


def test_a_dimension_that_is_set_is_asked_for_and_needs_no_call_to_be_known() -> None:
    with ScriptedServer() as server:
        made = embedder(server, dimension=16)
        assert made.dimension == 16
        assert server.requests == []
        assert made.embed_query("x").shape == (16,)
        assert server.requests[0].body["dimensions"] == 16
