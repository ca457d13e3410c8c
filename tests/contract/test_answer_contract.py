"""What clients of answers rely on: codes, texts, states and fields that must not change under them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import fields

from codeinfo.answers import loop
from codeinfo.errors import Busy, ProviderError, UsageError
from codeinfo.operations import inputs_of
from codeinfo.operations.answers import Answer, Conversation, ConversationIdsRequest, ConversationsRequest, Turn
from codeinfo.settings import AnswerSettings
from codeinfo.store.user_data import ConversationStore


def names(kind: type) -> set[str]:
    return {item.name for item in fields(kind)}


def test_fields_that_clients_read() -> None:
    assert {"conversation_id", "model_id", "text", "status"} <= names(Answer)
    assert names(Conversation) >= {
        "id",
        "provider",
        "model",
        "title",
        "agent_name",
        "source",
        "last_message_at",
        "archived_at",
    }
    assert names(Turn) >= {
        "conversation_id",
        "role",
        "content",
        "model",
        "provider",
        "tool_calls",
        "status",
        "usage",
        "took_ms",
        "created_at",
    }


def test_the_numbers_of_the_loop() -> None:
    assert (loop.ENOUGH, loop.PROMISING, loop.UNGRADED_UP_TO) == (0.7, 0.3, 2)
    assert AnswerSettings().rounds == 3


def test_pages_have_twenty_and_at_most_a_hundred() -> None:
    limit = next(item for item in inputs_of(ConversationsRequest) if item.name == "limit")
    assert (limit.default, limit.maximum) == (20, 100)
    assert ConversationsRequest().state == "active"


def test_an_archived_conversation_and_a_second_run(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    identity = store.create(title="t", provider="p", model="m", source="MCP", agent_name="", paths=[])
    store.archive(ConversationIdsRequest((identity,)))
    with pytest.raises(UsageError, match="must be restored before use") as archived:
        store.begin(identity, "x", provider="p", model="m")
    assert archived.value.code == "CONVERSATION_ARCHIVED"
    with store.run(identity), pytest.raises(Busy) as busy, store.run(identity):
        pass
    assert busy.value.code == "RUN_IN_PROGRESS"


def test_a_model_that_cannot_be_reached_has_one_code() -> None:
    from codeinfo.models.chat import unavailable

    for code in ("LLM_UNAVAILABLE", "LLM_UNAUTHORIZED", "LLM_TIMEOUT", "LLM_RATE_LIMITED", "LLM_BAD_REPLY"):
        error = unavailable(ProviderError("what", next_step="next", code=code))
        assert (error.code, error.what, error.next_step) == ("CODE_INFO_LLM_UNAVAILABLE", "what", "next")
    assert unavailable(ProviderError("x", code="EMBEDDING_TIMEOUT")).code == "EMBEDDING_TIMEOUT"
