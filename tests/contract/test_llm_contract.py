"""What every Llm keeps to: the scripted one in the process, and the same script behind a real HTTP endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from model_server import ScriptedServer
from scripted import Reply, Script, ScriptedLlm

from codeinfo.answers.model import request_json
from codeinfo.errors import ProviderError
from codeinfo.models.chat import make_llm
from codeinfo.models.endpoints import ChatEndpoint, Limits
from codeinfo.ports import Delta, Llm, Message, ToolCall, ToolSpec

MakeLlm = Callable[[Script], AbstractContextManager[Llm]]
ASK = [Message("system", "Be brief."), Message("user", "What is it?")]
SEARCH = ToolSpec("search", "Finds code.", {"type": "object", "properties": {"query": {"type": "string"}}})


@contextmanager
def in_process(script: Script) -> Iterator[Llm]:
    yield ScriptedLlm(script)


@contextmanager
def over_http(script: Script) -> Iterator[Llm]:
    with ScriptedServer(script) as server:
        yield make_llm(ChatEndpoint(server.url, limits=Limits(read_seconds=5, attempts=1)))


@pytest.fixture(params=[in_process, over_http])
def make(request: pytest.FixtureRequest) -> MakeLlm:
    made: MakeLlm = request.param
    return made


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def test_text_comes_in_pieces_and_ends_once(make: MakeLlm) -> None:
    with make(["It is a small thing: größer als null.\n\nDone."]) as llm:
        deltas = list(llm.stream(ASK))
    assert text(deltas) == "It is a small thing: größer als null.\n\nDone."
    assert len(deltas) > 3
    assert [delta.finish for delta in deltas if delta.finish] == ["stop"]
    assert deltas[-1].finish == "stop"


def test_usage_is_counted(make: MakeLlm) -> None:
    with make(["one two three"]) as llm:
        last = list(llm.stream(ASK))[-1]
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (5, 3)


def test_tool_calls_arrive_whole_and_in_order(make: MakeLlm) -> None:
    calls = (ToolCall("a", "search", '{"query": "größe"}'), ToolCall("b", "search", '{"query": "y"}'))
    with make([Reply("Let me look.", calls)]) as llm:
        deltas = list(llm.stream(ASK, tools=[SEARCH]))
    assert text(deltas) == "Let me look."
    assert deltas[-1].finish == "tool_calls"
    assert deltas[-1].tool_calls == calls
    assert not any(delta.tool_calls for delta in deltas[:-1])


def test_a_tool_round_goes_back_to_the_model(make: MakeLlm) -> None:
    call = ToolCall("a", "search", '{"query": "x"}')
    seen: list[tuple[Message, ...]] = []

    def script(request: object) -> Reply:
        seen.append(request.messages)  # type: ignore[attr-defined]
        return Reply("Found it.")

    conversation = [*ASK, Message("assistant", "", (call,)), Message("tool", "3 results", tool_call_id="a")]
    with make(script) as llm:
        list(llm.stream(conversation))
    assert seen == [tuple(conversation)]


def test_max_tokens_ends_with_length(make: MakeLlm) -> None:
    with make(["one two three four"]) as llm:
        deltas = list(llm.stream(ASK, max_tokens=2))
    assert text(deltas).split() == ["one", "two"]
    assert deltas[-1].finish == "length"


def test_closing_ends_the_stream(make: MakeLlm) -> None:
    with make(["a b c d e f"]) as llm:
        stream = llm.stream(ASK)
        assert next(stream).text
        stream.close()  # type: ignore[attr-defined]
        assert list(stream) == []


def test_replies_follow_each_other(make: MakeLlm) -> None:
    with make(["first", "second"]) as llm:
        assert [text(list(llm.stream(ASK))) for _ in range(2)] == ["first", "second"]


def test_an_empty_answer_is_an_answer(make: MakeLlm) -> None:
    with make([""]) as llm:
        assert [(delta.text, delta.finish) for delta in llm.stream(ASK)] == [("", "stop")]


SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "why": {"type": "string"}},
    "required": ["score"],
}


@pytest.mark.parametrize(
    "reply",
    [
        '{"score": 0.5}',
        'Sure!\n```json\n{"score": 0.5}\n```\nAnything else?',
        '<think>{"score": 2}</think>{"score": 0.5}',
        'The set {a, b} is graded {"score": 7} or rather {"score": 0.5}',
    ],
)
def test_structured_finds_the_object(make: MakeLlm, reply: str) -> None:
    with make([reply]) as llm:
        assert request_json(llm, ASK, SCHEMA) == {"score": 0.5}


def test_structured_has_one_repair_try(make: MakeLlm) -> None:
    with make(["no idea", '{"score": 1}']) as llm:
        assert request_json(llm, ASK, SCHEMA) == {"score": 1}
    with make(['{"score": 3}', '{"why": "x"}', '{"score": 1}']) as llm, pytest.raises(ProviderError) as caught:
        request_json(llm, ASK, SCHEMA)
    assert caught.value.code == "LLM_BAD_REPLY"
    assert "'score' is a required property" in caught.value.what


def test_structured_asks_the_caller_too(make: MakeLlm) -> None:
    with make(['{"score": 0.2}', '{"score": 0.8}']) as llm:
        found = request_json(llm, ASK, SCHEMA, lambda value: [] if value["score"] > 0.5 else ["too low"])
    assert found == {"score": 0.8}
