"""The parts of providers that need no server, or hardly: keys, addresses, reasoning, schemas, discovery."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from model_server import CHAT_MODEL, EMBEDDING_MODEL, ScriptedServer, Trouble
from patience import is_quick, within
from scripted import Reply

from codeinfo.answers.model import ThinkFilter, json_objects, problems, strip_think
from codeinfo.errors import ProviderError, UsageError
from codeinfo.models.chat import OpenAIChat, chat_models, discover, list_models, look
from codeinfo.models.endpoints import (
    ChatEndpoint,
    Key,
    Kind,
    Limits,
    key_from_environment,
    key_from_file,
    parse_target,
    redact,
)
from codeinfo.ports import Message, ToolCall

ASK = [Message("user", "hi")]
QUICK = Limits(connect_seconds=20, read_seconds=20, total_seconds=20)
SECRET = "sk-verysecret-0123456789abcdef"


# --- keys ---------------------------------------------------------------------------------------------------------


def test_a_key_reaches_the_endpoint_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    key = key_from_environment("MY_KEY", SECRET + "\n")
    assert SECRET not in f"{key} {key!r} {ChatEndpoint('http://x', 'm', key)!r}"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with ScriptedServer(["in"], key=SECRET) as server:
        replied = list(OpenAIChat(ChatEndpoint(server.url, CHAT_MODEL, key)).stream(ASK))
        assert replied[0].text == "in"
        wrong = Key("other-Secret/with+signs", "a test")
        with pytest.raises(ProviderError) as caught:
            list(
                OpenAIChat(ChatEndpoint(server.url, CHAT_MODEL, wrong)).stream(ASK)
            )  # this server repeats the key in its error, as real ones do
        assert caught.value.code == "LLM_UNAUTHORIZED"
        assert "other-Secret" not in str(caught.value)
        assert "Incorrect API key provided" in str(caught.value)
    assert SECRET not in "".join(capsys.readouterr())


def test_redaction() -> None:
    Key("known/secret+value", "a test")
    assert redact("x known/secret+value y known%2Fsecret%2Bvalue") == "x [key] y [key]"
    assert redact("Authorization: Bearer abcdefgh12345") == "Authorization: Bearer [key]"
    assert redact("sk-proj-abcdefghijklmnopqrstuvwxyz") == "[key]"
    assert redact("http://h/v1?api_key=abcdef123&x=1") == "http://h/v1?api_key=[key]&x=1"
    assert redact("a task-oriented risk-averse text") == "a task-oriented risk-averse text"
    assert is_quick(lambda: redact("sk-" * 100_000 + "Bearer " * 100_000), 5)


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    assert key_from_file(path).reveal() == SECRET
    path.chmod(0o640)
    with pytest.raises(UsageError, match="others can read") as caught:
        key_from_file(path)
    assert "chmod 600" in caught.value.next_step
    assert SECRET not in str(caught.value)
    path.chmod(0o600)
    path.write_text("two words")
    with pytest.raises(UsageError, match="does not contain one key"):
        key_from_file(path)
    with pytest.raises(UsageError, match="cannot be read"):
        key_from_file(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="not a plain file"):
        key_from_file(tmp_path / "pipe")
    with pytest.raises(UsageError, match="empty or unset"):
        key_from_environment("NO_SUCH", "")


def test_addresses_are_shown_without_credentials() -> None:
    target = parse_target("https://user:hush-hush@example.org:8443/api/v1/?token=abc#x")
    assert target.address == "https://example.org:8443/api/v1"
    assert target.url("/models") == "/api/v1/models?token=abc"
    assert "hush" not in repr(target)
    assert "abc" not in repr(target)
    assert parse_target("http://localhost:1234").address == "http://localhost:1234/v1"
    assert parse_target("http://[::1]:8080/v1").address == "http://[::1]:8080/v1"
    for wrong in (
        "",
        "localhost:1234",
        "ftp://x/v1",
        "http://",
        "http://x:port/",
        "http://x/\r\nHost: y",
        "http://[x/",
    ):
        with pytest.raises(UsageError):
            parse_target(wrong)


# --- reasoning, schemas, JSON in prose ----------------------------------------------------------------------------

THOUGHTS = [
    ("plain", "plain"),
    ("<think>a</think>b", "b"),
    ("<think>a</think>b<THINK>c</THINK>d", "bd"),
    ("<thinking>a</thinking>\n\nb", "b"),
    ("a<think>never closed", "a"),
    ("opened by the template</think>b", "b"),
    ("the tag `<think>` opens", "the tag `<think>` opens"),
    ("if a <thin or b</thi", "if a <thin or b</thi"),
    ("<think><think>a</think>b", "b"),
]


@pytest.mark.parametrize(("given", "expected"), THOUGHTS)
def test_reasoning_is_stripped(given: str, expected: str) -> None:
    assert strip_think(given) == expected


@pytest.mark.parametrize(("given", "expected"), [row for row in THOUGHTS if "template" not in row[0]])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_reasoning_is_stripped_from_a_stream(given: str, expected: str, size: int) -> None:
    shown = ThinkFilter()
    out = "".join(shown.feed(given[start : start + size]) for start in range(0, len(given), size)) + shown.flush()
    assert out.strip() == expected


@pytest.mark.parametrize("hostile", ["<think>", "</think>", "<think>x</think>", "<", "<thin", "`<think>"])
def test_reasoning_is_stripped_in_linear_time(hostile: str) -> None:
    shown = ThinkFilter()

    def strip() -> None:
        strip_think(hostile * 100_000)
        for _ in range(20_000):
            shown.feed(hostile)

    assert is_quick(strip, 5)


@pytest.mark.parametrize("hostile", ["{", '{"a":', '{"a": [', "["])
def test_hostile_json_ends_quickly(hostile: str) -> None:
    found = list[object]()
    assert is_quick(lambda: found.extend(json_objects(hostile * 100_000)), 5)
    assert found == []


def test_the_schema_check_names_each_problem_with_its_place() -> None:
    schema = {
        "type": "object",
        "properties": {
            "grades": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "minItems": 1},
            "mood": {"enum": ["good", "bad"]},
            "note": {"type": ["string", "null"], "maxLength": 3},
        },
        "required": ["grades", "mood"],
        "additionalProperties": False,
    }
    assert problems({"grades": [0, 0.5], "mood": "good", "note": None}, schema) == []
    assert problems({"grades": [2, True], "note": "long", "x": 1}, schema) == [
        "reply.grades[0]: 2 is greater than the maximum of 1",
        "reply.grades[1]: True is not of type 'number'",
        "reply.note: 'long' is too long",
        "reply: 'mood' is a required property",
        "reply: Additional properties are not allowed ('x' was unexpected)",
    ]


# --- discovery ----------------------------------------------------------------------------------------------------


def test_discovery_reports_every_port_quickly_and_sends_no_key() -> None:
    with ScriptedServer() as server, ScriptedServer(key="locked-away") as locked, ScriptedServer() as gone:
        gone.__exit__()
        ports = {"LM Studio": server.port, "vLLM": locked.port, "Ollama": gone.port}
        with within(30):  # no port is waited for
            found = discover(ports, seconds=60)
        assert [each.state for each in found] == ["ok", "LLM_UNAUTHORIZED", "LLM_UNAVAILABLE"]
        assert found[0].models == (CHAT_MODEL, EMBEDDING_MODEL)
        assert chat_models(found[0].models) == (CHAT_MODEL,)
        assert "Authorization" not in server.requests[0].headers
        assert list_models(locked.url, Key("locked-away", "a test"), QUICK) == (CHAT_MODEL, EMBEDDING_MODEL)
        assert look("mine", locked.url, None, QUICK).state == "LLM_UNAUTHORIZED"


def test_an_independent_client_understands_the_test_server() -> None:
    """The server is no use if only our own client, written by the same hands, understands it."""
    openai = pytest.importorskip("openai")
    calls = (ToolCall("a", "search", '{"query": "x"}'),)
    with (
        ScriptedServer(["one two", Reply(tool_calls=calls)], troubles=[Trouble.RATE_LIMITED]) as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=1) as client,
    ):
        ask: Any = {"model": CHAT_MODEL, "messages": [{"role": "user", "content": "hi"}]}
        options = {"include_usage": True}
        chunks = list(client.chat.completions.create(**ask, stream=True, stream_options=options))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "one two"
        assert chunks[-1].usage.completion_tokens == 2
        whole = client.chat.completions.create(**ask)
        assert whole.choices[0].message.tool_calls[0].function.arguments == '{"query": "x"}'
        assert len(client.embeddings.create(model=EMBEDDING_MODEL, input=["a", "b"]).data) == 2
        assert [model.id for model in client.models.list()] == [CHAT_MODEL, EMBEDDING_MODEL]


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
    for kind in set(Kind) - {Kind.CANCELLED}:
        assert f"`_{kind.value.suffix}`" in page
