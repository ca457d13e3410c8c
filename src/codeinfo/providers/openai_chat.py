"""Llm over any OpenAI-compatible `/chat/completions` endpoint: LM Studio, Ollama, llama.cpp, vLLM, OpenAI.

Before the first token a failure is an error, retried where that may help. After it there is a partial answer, which
must not be lost: a stream that breaks, stalls or talks nonsense then ends with `finish="cut"`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from codeinfo.errors import UsageError
from codeinfo.ports import Delta, Message, ToolCall, ToolSpec
from codeinfo.providers.endpoints import ChatEndpoint
from codeinfo.providers.faults import Fault, Kind, provider_error
from codeinfo.providers.reply import ReplyBuilder
from codeinfo.providers.sse import event_data
from codeinfo.providers.wire import Connection, Target, parse_target, retried

_LARGEST_REPLY = 16_000_000  # bytes of a reply that is not streamed


class OpenAIChat:
    """A chat model behind an endpoint. Holds no connection: each reply has its own, and may be cancelled alone."""

    def __init__(self, endpoint: ChatEndpoint) -> None:
        if not endpoint.model:
            raise UsageError("no chat model is named", next_step="Set llm.model to one the endpoint offers.")
        self._endpoint = endpoint
        self._target = parse_target(endpoint.base_url)
        self._refused: set[str] = set()  # types of response format that the endpoint does not know

    @property
    def model_id(self) -> str:
        return self._endpoint.model

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> ChatStream:
        """Deltas as they arrive. The request starts with the first `next`, which is also where errors are raised.

        A way of sending the schema that the endpoint does not know fails once with LLM_REJECTED; the next call takes
        the next way, and in the end none: the reply is the caller's to check.
        """
        payload = _payload(self._endpoint, self._target, messages, tools, max_tokens)
        if schema is not None and self._endpoint.json_schema:
            ways = (way for way in _formats(schema) if way["type"] not in self._refused)
            if way := next(ways, None):
                payload["response_format"] = way
        return ChatStream(self._endpoint, self._target, payload, self._refused)


class ChatStream(Iterator[Delta]):
    """One reply. `close` cancels it, from any thread and at any moment: also while the model has yet to say a word."""

    def __init__(self, endpoint: ChatEndpoint, target: Target, payload: dict[str, Any], refused: set[str]) -> None:
        self._cancelled = threading.Event()
        self._connection = Connection(target, endpoint.key, endpoint.limits)
        self._deltas = _deltas(endpoint, self._connection, payload, self._cancelled, refused)

    def __next__(self) -> Delta:
        return next(self._deltas)

    def close(self) -> None:
        self._cancelled.set()
        self._connection.abort()
        with contextlib.suppress(ValueError):  # running in another thread, which the abort has woken: it closes itself
            self._deltas.close()

    def __enter__(self) -> ChatStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _deltas(
    endpoint: ChatEndpoint,
    connection: Connection,
    payload: dict[str, Any],
    cancelled: threading.Event,
    refused: set[str],
) -> Generator[Delta, None, None]:
    builder = ReplyBuilder(endpoint.max_chars)

    def begin() -> tuple[Iterator[dict[str, Any]], dict[str, Any] | None]:
        connection.post("/chat/completions", payload)
        events = _events(connection)
        return events, next(events, None)

    try:
        events, event = retried(begin, endpoint.limits, cancelled)
        while event is not None:
            if text := builder.add(event):
                yield Delta(text=text)
            if builder.full:
                break
            event = next(events, None)
        if not builder.begun and not builder.ended:
            raise Fault(Kind.BROKEN, "before the first word")
        yield builder.last()
    except Fault as fault:
        if fault.kind is Kind.CANCELLED:
            return
        if fault.kind is Kind.REJECTED and "response_format" in payload and "response_format" in fault.detail:
            refused.add(payload["response_format"]["type"])
        if not builder.begun:
            raise provider_error(fault, role="LLM", where=connection.target.shown, model=endpoint.model) from fault
        yield builder.cut()
    finally:
        connection.close()


def _events(connection: Connection) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed reply, or the one body of an endpoint that does not stream."""
    content_type = str(connection.headers.get("Content-Type", "")) if connection.headers else ""
    if content_type.startswith("application/json"):
        yield _event(connection.read_json(_LARGEST_REPLY))
        yield {"done": True}
        return
    for data in event_data(connection.read):
        if data.strip() == "[DONE]":
            yield {"done": True}
            return
        try:
            yield _event(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise Fault(Kind.BAD_REPLY, f"not JSON: {data[:80]}") from error


def _event(event: Any) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise Fault(Kind.BAD_REPLY, "an event that is no object")
    if event.get("error"):
        error = event["error"]
        words = error.get("message") if isinstance(error, dict) else error
        raise Fault(Kind.SERVER, str(words or "an error without words"))
    return event


def _payload(
    endpoint: ChatEndpoint,
    target: Target,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    max_tokens: int | None,
) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [_message(message) for message in messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if endpoint.temperature is not None:
        payload["temperature"] = endpoint.temperature
    if max_tokens is not None:
        # OpenAI's reasoning models refuse the old name, which is the only one that most local servers know.
        name = "max_completion_tokens" if target.host.endswith("openai.com") else "max_tokens"
        payload[name] = max_tokens
    if tools:
        payload["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in tools
        ]
    return payload


def _formats(schema: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """How endpoints take a schema: OpenAI's way, which most know, and that of llama-cpp-python."""
    # "strict" is left out: it refuses schemas with optional fields, and local servers hold to any schema anyway.
    return (
        {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}},
        {"type": "json_object", "schema": schema},
    )


def _message(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        out["tool_call_id"] = message.tool_call_id
    return out


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
