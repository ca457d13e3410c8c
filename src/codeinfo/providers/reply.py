"""A chat reply put together from the chunks of its stream: text passed on, tool calls and usage kept for the end."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from codeinfo.ports import Delta, ToolCall, Usage

_MOST_CALLS = 64  # tool calls of one reply; more is a model gone astray

# What endpoints say, in the port's words. A filtered answer is a partial one.
_FINISH = {"length": "length", "tool_calls": "tool_calls", "function_call": "tool_calls", "content_filter": "cut"}


class _Call(Struct):
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyBuilder:
    """Takes chunks one by one. Reasoning counts towards the size, and is not text."""

    def __init__(self, max_chars: int) -> None:
        self.begun = False  # anything of an answer has arrived
        self.full = False
        self._left = max_chars
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish = ""
        self._done = False
        self._usage: Usage | None = None

    def add(self, event: dict[str, Any]) -> str:
        """The text of one chunk, cut where the reply reaches its largest size."""
        self._done = self._done or event.get("done") is True
        if isinstance(usage := event.get("usage"), dict):
            self._usage = Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return ""
        choice = choices[0]
        delta = choice.get("delta") or choice.get("message") or {}
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self._finish = _FINISH.get(reason, "stop")
        if not isinstance(delta, dict):
            return ""
        self._take(_string(delta.get("reasoning_content")) or _string(delta.get("reasoning")))
        for fragment in delta.get("tool_calls") or ():
            self._add_call(fragment)
        return self._take(_string(delta.get("content")))

    @property
    def ended(self) -> bool:
        """The endpoint said that this is all."""
        return self._done or bool(self._finish)

    def last(self) -> Delta:
        """The closing delta of a stream that ended by itself or by its size."""
        if self.full:
            return Delta(finish="length", usage=self._usage)
        if not self.ended:
            return self.cut()
        finish = self._finish or "stop"
        if finish in ("stop", "tool_calls") and self._calls:
            # Some servers say "stop" although there are calls. On "length" the arguments may be half a text: no calls.
            return Delta(tool_calls=self._assembled(), finish="tool_calls", usage=self._usage)
        return Delta(finish="stop" if finish == "tool_calls" else finish, usage=self._usage)

    def cut(self) -> Delta:
        """The closing delta of a stream that broke off."""
        return Delta(finish="cut", usage=self._usage)

    def _take(self, text: str) -> str:
        if text:
            self.begun = True
        taken = text[: self._left]
        self._left -= len(taken)
        self.full = self.full or len(taken) < len(text)
        return taken

    def _add_call(self, fragment: Any) -> None:
        if not isinstance(fragment, dict):
            return
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        call = self._call(fragment.get("index"), _string(fragment.get("id")))
        if name := _string(function.get("name")):
            call.name = name
            self._take(name)
        if arguments := _string(function.get("arguments")):
            call.arguments.append(self._take(arguments))

    def _call(self, index: Any, given_id: str) -> _Call:
        """The call a fragment belongs to. Some servers count every call as index 0, or none: a new id is a new call."""
        place = index if isinstance(index, int) else (len(self._calls) if given_id else max(0, len(self._calls) - 1))
        call = self._by_index.get(place)
        if call is None or (given_id and call.id != given_id and call.name):
            call = _Call(given_id or f"call_{len(self._calls)}")
            self._by_index[place] = call
            self._calls.append(call)
            self.begun = True
            self.full = self.full or len(self._calls) > _MOST_CALLS
        return call

    def _assembled(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(call.id, call.name, "".join(call.arguments) or "{}") for call in self._calls)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
