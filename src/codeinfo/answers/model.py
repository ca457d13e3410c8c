"""A chat model as the loop uses it: prompts, replies without reasoning or as JSON, a budget of tokens and seconds."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from codeinfo.cache import start_timer
from codeinfo.errors import ProviderError
from codeinfo.operations.answers import AnswerUsage
from codeinfo.ports import Delta, Llm, Message, Messages, Schema, Tools, Usage
from codeinfo.tokens import estimate_tokens

CONTEXT_OVERFLOW = "LLM_CONTEXT"  # code of a failure: the prompt is larger than the model's context
Object = dict[str, Any]  # as the model wrote it
Validate = Callable[[Object], Sequence[str]]


class Spent(Exception):
    """A limit was reached; the message says which."""


class Budget:
    def __init__(self, tokens: int, seconds: float) -> None:
        self._tokens = tokens
        self._seconds = seconds
        self._started = time.monotonic()
        self._calls = self._prompt = self._completion = 0
        self._estimated = False

    @property
    def tokens_left(self) -> int:
        return self._tokens - self._prompt - self._completion

    @property
    def seconds_left(self) -> float:
        return self._seconds - (time.monotonic() - self._started)

    @property
    def elapsed_ms(self) -> float:
        return round(1000 * (time.monotonic() - self._started), 1)

    def check_time(self) -> None:
        if self.seconds_left <= 0:
            raise Spent(f"the time for one answer ({self._seconds:g} s) is used up")

    def check(self, tokens: int) -> None:
        self.check_time()
        if tokens > self.tokens_left:
            raise Spent(f"the tokens for one answer ({self._tokens:,}) are used up")

    def spend(self, usage: Usage | None, prompt: str, reply: str) -> None:
        """Count one call, using the endpoint's own figures if it reports them."""
        self._calls += 1
        if usage is None or not usage.prompt_tokens:
            usage = Usage(estimate_tokens(prompt), estimate_tokens(reply))
            self._estimated = True
        self._prompt += usage.prompt_tokens
        self._completion += usage.completion_tokens

    def usage(self, evidence_tokens: int = 0) -> AnswerUsage:
        return AnswerUsage(self._calls, self._prompt, self._completion, self._estimated, evidence_tokens)


class Model:
    """A chat model with a budget; a call that runs when time is up is cancelled. `follow` passes its streams on."""

    def __init__(
        self, llm: Llm, budget: Budget, follow: Callable[[Iterator[Delta]], Iterator[Delta]] = lambda stream: stream
    ) -> None:
        self._llm = llm
        self._follow = follow
        self.budget = budget

    @property
    def model_id(self) -> str:
        return self._llm.model_id

    def stream(
        self, messages: Messages, *, tools: Tools = (), schema: Schema | None = None, max_tokens: int | None = None
    ) -> Iterator[Delta]:
        """Raises `Spent` in place of the final delta when a limit ends the reply."""
        prompt = "\n".join(message.content for message in messages)
        expected = estimate_tokens(prompt)
        self.budget.check(expected)
        room = max(1, self.budget.tokens_left - expected)
        replies = self._llm.stream(messages, tools=tools, schema=schema, max_tokens=min(max_tokens or room, room))
        late = start_timer(self.budget.seconds_left, _close, replies)
        parts: list[str] = []
        usage: Usage | None = None
        ended = False
        try:
            for delta in self._follow(replies):
                parts.append(delta.text)
                usage = delta.usage or usage
                ended = bool(delta.finish)
                yield delta
                if not ended:
                    self.budget.check_time()
        except ProviderError:
            self.budget.check_time()  # a request cancelled by the limit fails too: report the limit
            raise
        finally:
            late.cancel()
            _close(replies)
            self.budget.spend(usage, prompt, "".join(parts))
        if not ended:
            self.budget.check_time()

    def json(self, prompt: str, schema: Schema, validate: Validate | None = None, *, max_tokens: int) -> Object | None:
        """The object the model replied with, or None if it cannot follow a schema or the budget is too small."""
        try:
            return request_json(self, [Message("user", prompt)], schema, validate, max_tokens=max_tokens)
        except ProviderError as error:
            if error.code not in ("LLM_BAD_REPLY", CONTEXT_OVERFLOW):
                raise
            return None


def _close(replies: Iterator[Delta]) -> None:
    with contextlib.suppress(ValueError):  # a plain generator that is running in another thread
        getattr(replies, "close", lambda: None)()


def prompt(name: str) -> str:
    """A prompt from the folder `prompts`; its comment lines (`<!-- … -->`) are for maintainers."""
    text = (Path(__file__).parent / "prompts" / f"{name}.md").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("<!--")).strip()


def fill_prompt(name: str, **values: str) -> str:
    """A prompt with its `{{name}}` placeholders filled in. Values are inserted verbatim: braces in code stay."""
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: values[placeholder[1]], prompt(name))


# --- reasoning -------------------------------------------------------------------------------------------------------

_TAG = re.compile(r"(?<!`)<(/?)think(?:ing)?>", re.IGNORECASE | re.ASCII)
_TAGS = ("<think>", "</think>", "<thinking>", "</thinking>")
_LONGEST = max(map(len, _TAGS))


def strip_think(text: str) -> str:
    """A complete reply without its reasoning. An unclosed tag hides everything behind it, a closing tag that comes
    first everything before it: some chat templates open the tag themselves."""
    if (first := _TAG.search(text)) is None:
        return text
    if first[1]:
        text = text[first.end() :]
    shown = ThinkFilter()
    return (shown.feed(text) + shown.flush()).strip()


class ThinkFilter:
    """Removes the reasoning from a stream: `feed` returns what can be shown so far, which is final."""

    def __init__(self) -> None:
        self._thinking = False
        self._withheld = ""  # may be the start of a tag
        self._last = ""  # the character before `_withheld`, which decides whether a tag is quoted

    def feed(self, text: str) -> str:
        text = self._last + self._withheld + text
        before = len(self._last)  # already shown or hidden
        end = len(text) - _tail(text, before)
        shown: list[str] = []
        position = before
        for tag in _TAG.finditer(text, 0, end):
            if not self._thinking:
                shown.append(text[position : tag.start()])
            self._thinking = not tag[1]
            position = tag.end()
        if not self._thinking:
            shown.append(text[position:end])
        self._withheld = text[end:]
        self._last = text[end - 1 : end]
        return "".join(shown)

    def flush(self) -> str:
        rest = "" if self._thinking else self._withheld
        self._withheld = self._last = ""
        return rest


def _tail(text: str, before: int) -> int:
    """How many trailing characters may be the start of a tag."""
    start = text.rfind("<", max(before, len(text) - _LONGEST))
    tail = text[start:].lower() if start >= 0 else ""
    return len(tail) if any(tag.startswith(tail) and tag != tail for tag in _TAGS) and tail else 0


# --- replies as JSON -------------------------------------------------------------------------------------------------
#
# A reply as JSON that fits a schema: asked for, found in whatever the model wrote, checked, and repaired once.

_MOST_STARTS = 64  # positions tried as the start of an object: keeps hostile text linear
_MOST_PROBLEMS, _PROBLEM_CHARS = 20, 200  # an error message quotes the problems, and a problem may quote a whole reply
_QUOTED = 4_000  # characters of a bad reply shown to the model again


def request_json(
    llm: Llm, messages: Messages, schema: Schema, validate: Validate | None = None, *, max_tokens: int | None = None
) -> Object:
    """The object the model replied with. `validate` names further problems; two bad replies raise ProviderError."""
    instruction = "Reply with one JSON object and nothing else. It must fit this JSON schema:\n" + json.dumps(schema)
    request = [*messages, Message("user", instruction)]
    faults: list[str] = []
    for _ in range(2):
        text = _reply(llm, request, schema, max_tokens)
        value, faults = _best_object(text, schema, validate)
        if value is not None and not faults:
            return value
        repair = f"That reply does not fit: {'; '.join(faults[:5])}. Send the corrected JSON object, nothing else."
        request = [*request, Message("assistant", text[:_QUOTED]), Message("user", repair)]
    what = f"{llm.model_id} did not reply with the JSON it was asked for, twice ({'; '.join(faults[:3])[:300]})"
    raise ProviderError(what, "Use a model that follows JSON schemas", code="LLM_BAD_REPLY")


def _reply(llm: Llm, messages: Messages, schema: Schema, max_tokens: int | None) -> str:
    """Try each schema format the client supports, then none: the message asks for the format anyway."""
    for sent in (schema, schema, None):
        try:
            deltas = llm.stream(messages, schema=sent, max_tokens=max_tokens)
            return strip_think("".join(delta.text for delta in deltas))
        except ProviderError as error:
            if error.code != "LLM_REJECTED" or sent is None:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def _best_object(text: str, schema: Schema, validate: Validate | None) -> tuple[Object | None, list[str]]:
    """The first object that validates; otherwise the first one, with its problems."""
    first: tuple[Object | None, list[str]] = (None, ["there is no JSON object in it"])
    for value in json_objects(text):
        wrong = problems(value, schema) or list(validate(value) if validate is not None else ())
        if not wrong:
            return value, []
        if first[0] is None:
            first = value, wrong
    return first


def object_schema(**properties: Schema) -> Schema:
    """The JSON schema of an object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def json_objects(text: str) -> Iterator[Object]:
    """The JSON objects inside a text, whatever surrounds them: fences, greetings, explanations."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    position = 0
    for _ in range(_MOST_STARTS):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        if isinstance(value, dict):
            yield value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def problems(value: Any, schema: Schema, name: str = "reply") -> list[str]:
    """The problems with a value, each with its location below `name`; empty if it validates."""
    from jsonschema import Draft202012Validator  # late: importing it takes a tenth of a second

    errors = islice(Draft202012Validator(schema).iter_errors(value), _MOST_PROBLEMS)
    return [f"{name}{error.json_path[1:]}: {error.message[:_PROBLEM_CHARS]}" for error in errors]
