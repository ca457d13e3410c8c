"""A chat model as the loop uses it: prompts, replies as JSON, and a budget of tokens and seconds over all its calls."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

from msgspec import Struct

from codeinfo.errors import ProviderError
from codeinfo.operations.answers import AnswerUsage
from codeinfo.ports import Delta, Llm, Message, ToolSpec, Usage
from codeinfo.tokens import estimate_tokens

CONTEXT_OVERFLOW = "LLM_CONTEXT"  # code of a failure: the prompt is larger than the model's context


class Spent(Exception):
    """A limit was reached; the text says which."""


class Budget:
    def __init__(self, tokens: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._seconds = seconds
        self._clock = clock
        self._started = clock()
        self._calls = self._prompt = self._completion = 0
        self._estimated = False

    @property
    def tokens_left(self) -> int:
        return self._tokens - self._prompt - self._completion

    @property
    def seconds_left(self) -> float:
        return self._seconds - (self._clock() - self._started)

    @property
    def elapsed_ms(self) -> float:
        return round(1000 * (self._clock() - self._started), 1)

    def check_time(self) -> None:
        if self.seconds_left <= 0:
            raise Spent(f"the time for one answer ({self._seconds:g} s) is used up")

    def check(self, tokens: int) -> None:
        """Refuse a call that would need more than is left."""
        self.check_time()
        if tokens > self.tokens_left:
            raise Spent(f"the tokens for one answer ({self._tokens:,}) are used up")

    def spend(self, usage: Usage | None, prompt: str, reply: str) -> None:
        """Count one call, by the endpoint's own figures where it gives them."""
        self._calls += 1
        if usage is None or not usage.prompt_tokens:
            usage = Usage(estimate_tokens(prompt), estimate_tokens(reply))
            self._estimated = True
        self._prompt += usage.prompt_tokens
        self._completion += usage.completion_tokens

    def usage(self, evidence_tokens: int = 0) -> AnswerUsage:
        return AnswerUsage(self._calls, self._prompt, self._completion, self._estimated, evidence_tokens)


class Metered:
    """A chat model whose calls count against a budget; the one that is running when the time ends is cancelled."""

    def __init__(self, llm: Llm, budget: Budget) -> None:
        self._llm = llm
        self.budget = budget

    @property
    def model_id(self) -> str:
        return self._llm.model_id

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> Iterator[Delta]:
        """Raises `Spent` instead of a last delta when a limit ends the reply."""
        prompt = "\n".join(message.content for message in messages)
        expected = estimate_tokens(prompt)
        self.budget.check(expected)
        room = max(1, self.budget.tokens_left - expected)
        replies = self._llm.stream(messages, tools=tools, schema=schema, max_tokens=min(max_tokens or room, room))
        late = threading.Timer(self.budget.seconds_left, _close, (replies,))
        late.daemon = True
        late.start()
        parts: list[str] = []
        usage: Usage | None = None
        ended = False
        try:
            for delta in replies:
                parts.append(delta.text)
                usage = delta.usage or usage
                ended = bool(delta.finish)
                yield delta
                if not ended:
                    self.budget.check_time()
        except ProviderError:
            self.budget.check_time()  # the cancelled request fails in its own words; the limit is what matters
            raise
        finally:
            late.cancel()
            _close(replies)
            self.budget.spend(usage, prompt, "".join(parts))
        if not ended:
            self.budget.check_time()


def _close(replies: Iterator[Delta]) -> None:
    with contextlib.suppress(ValueError):  # a plain generator that is running in another thread
        getattr(replies, "close", lambda: None)()


Validate = Callable[[dict[str, Any]], Sequence[str]]


class AskJson(Protocol):
    """A reply as an object that fits a schema; ProviderError with code LLM_BAD_REPLY where the model cannot."""

    def __call__(
        self,
        llm: Llm,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        validate: Validate | None = None,
        *,
        max_tokens: int | None = None,
    ) -> dict[str, Any]: ...


class LiveFilter(Protocol):
    """Takes reasoning out of a stream."""

    def feed(self, text: str) -> str: ...

    def flush(self) -> str: ...


class Model(Struct, frozen=True):
    llm: Metered
    ask_json: AskJson
    live_filter: Callable[[], LiveFilter]

    def json(
        self, prompt: str, schema: Mapping[str, Any], validate: Validate | None = None, *, max_tokens: int
    ) -> dict[str, Any] | None:
        """The object the model replied with, or None where it cannot follow a schema or take so much."""
        try:
            return self.ask_json(self.llm, [Message("user", prompt)], schema, validate, max_tokens=max_tokens)
        except ProviderError as error:
            if error.code not in ("LLM_BAD_REPLY", CONTEXT_OVERFLOW):
                raise
            return None


@lru_cache
def prompt(name: str) -> str:
    """A prompt of the folder `prompts`; its comment lines (`<!-- … -->`) are for readers."""
    text = resources.files("codeinfo.answers").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("<!--")).strip()


def fill_prompt(name: str, **values: str) -> str:
    """A prompt with its `{{name}}` places filled. The values are inserted as they are: braces in code stay."""
    pieces = prompt(name).split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        key, _, rest = piece.partition("}}")
        out += [values[key.strip()], rest]
    return "".join(out)
