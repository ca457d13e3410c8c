"""The OpenAI chat format as a server sees it: requests taken apart, replies put into events or one body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from codeinfo.ports import Message, ToolCall, ToolSpec
from codeinfo.providers.scripted import Reply, Request, reply_pieces

CHAT_MODEL = "scripted-chat"


def parse_request(body: Mapping[str, Any]) -> Request:
    """The wire's request in the port's words, so that one script serves this server and the scripted model."""
    messages = [
        Message(
            item["role"],
            item.get("content") or "",
            tuple(
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in item.get("tool_calls", ())
            ),
            item.get("tool_call_id", ""),
        )
        for item in body["messages"]
    ]
    functions = [tool["function"] for tool in body.get("tools", ())]
    tools = [ToolSpec(each["name"], each.get("description", ""), each.get("parameters", {})) for each in functions]
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    most = body.get("max_tokens") or body.get("max_completion_tokens")
    return Request(tuple(messages), tuple(tools), schema, cast("int | None", most))


def shown_pieces(request: Request, reply: Reply) -> tuple[list[str], str]:
    pieces = reply_pieces(reply.text)
    if request.max_tokens is not None and len(pieces) > request.max_tokens:
        return pieces[: request.max_tokens], "length"
    return pieces, reply.finish or ("tool_calls" if reply.tool_calls else "stop")


def usage(request: Request, pieces: list[str]) -> dict[str, int]:
    prompt = sum(len(message.content.split()) for message in request.messages)
    return {"prompt_tokens": prompt, "completion_tokens": len(pieces), "total_tokens": prompt + len(pieces)}


def frame() -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": CHAT_MODEL}


def event(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {**frame(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_events(index: int, call: ToolCall) -> Iterator[dict[str, Any]]:
    """A call as endpoints send it: id and name first, then its arguments in pieces."""
    opening = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield event({"tool_calls": [{"index": index, **opening}]})
    middle = len(call.arguments) // 2
    for part in (call.arguments[:middle], call.arguments[middle:]):
        yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})


def completion(request: Request, reply: Reply) -> dict[str, Any]:
    pieces, finish = shown_pieces(request, reply)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(pieces)}
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**frame(), "object": "chat.completion", "choices": [choice], "usage": usage(request, pieces)}
