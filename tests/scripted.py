"""Deterministic stand-ins for a reranker and a chat model, for tests that need no sockets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from codeinfo.errors import ProviderError
from codeinfo.models.retrieval import sigmoid
from codeinfo.ports import Delta, Message, ToolCall, ToolSpec, Usage
from codeinfo.tokens import stem, words

_PIECE = re.compile(r"\S+\s*|\s+")


class ScriptedReranker:
    """The logit is the number of the query's stemmed words that a text has, less half of them: 0 for an even split."""

    model_id = "scripted:shared-words"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [sigmoid(logit) for logit in self.logits(query, texts)]

    def logits(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = {stem(word) for word in words(query)}
        return [len(wanted.intersection(map(stem, words(text)))) - len(wanted) / 2 for text in texts]

    def close(self) -> None:
        return


class Reply(Struct, frozen=True):
    """What the scripted model says to one request. `finish` "" means what the content implies."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    error: ProviderError | None = None


class Request(Struct, frozen=True):
    """What the scripted model was asked, for tests to look at."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None


Script = Callable[[Request], Reply] | Sequence[Reply | str]


class ScriptedLlm:
    """Replies by a list, one after the other, or by a function of the request. A word counts as a token."""

    def __init__(self, script: Script, *, model_id: str = "scripted") -> None:
        self._script = script
        self._model_id = model_id
        self.requests: list[Request] = []

    @property
    def model_id(self) -> str:
        return self._model_id

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> Iterator[Delta]:
        request = Request(tuple(messages), tuple(tools), schema, max_tokens)
        self.requests.append(request)
        reply = next_reply(self._script, request, len(self.requests) - 1)
        if reply.error is not None:
            raise reply.error
        pieces = reply_pieces(reply.text)
        shown = pieces if max_tokens is None else pieces[:max_tokens]
        for piece in shown:
            yield Delta(text=piece)
        finish = reply.finish or ("tool_calls" if reply.tool_calls else "stop")
        if len(shown) < len(pieces):
            finish = "length"
        usage = Usage(sum(len(message.content.split()) for message in messages), len(shown))
        yield Delta(tool_calls=reply.tool_calls if finish == "tool_calls" else (), finish=finish, usage=usage)


def next_reply(script: Script, request: Request, position: int) -> Reply:
    if callable(script):
        return script(request)
    if position >= len(script):
        raise ProviderError(
            f"the script has {len(script)} replies and was asked for one more",
            next_step="Write a longer script.",
            code="LLM_SCRIPT_ENDED",
        )
    reply = script[position]
    return Reply(reply) if isinstance(reply, str) else reply


def reply_pieces(text: str) -> list[str]:
    """A text as a model would stream it: word by word."""
    return _PIECE.findall(text)
