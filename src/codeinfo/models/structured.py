"""A reply as JSON that fits a schema: asked for, found in whatever the model wrote, checked, and repaired once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from codeinfo.errors import ProviderError
from codeinfo.models.chat import strip_think
from codeinfo.models.endpoints import redact
from codeinfo.ports import Llm, Message, Usage

_MOST_STARTS = 64  # places where an object may begin that are tried: hostile text stays linear
_MOST_PROBLEMS, _PROBLEM_CHARS = 20, 200  # a message quotes what is wrong, which may be a whole reply
_QUOTED = 4_000  # characters of a bad reply that the model is shown again

Validate = Callable[[dict[str, Any]], Sequence[str]]


def structured(
    llm: Llm,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    validate: Validate | None = None,
    *,
    max_tokens: int | None = None,
    on_usage: Callable[[Usage], None] | None = None,
) -> dict[str, Any]:
    """The object the model replied with. `validate` names further problems; two bad replies are a ProviderError."""
    wish = "Reply with one JSON object and nothing else. It must fit this JSON schema:\n" + json.dumps(schema)
    asked = [*messages, Message("user", wish)]
    faults: list[str] = []
    for _ in range(2):
        text = _reply(llm, asked, schema, max_tokens, on_usage)
        value, faults = _best_object(text, schema, validate)
        if value is not None and not faults:
            return value
        repair = f"That reply does not fit: {'; '.join(faults[:5])}. Send the corrected JSON object, nothing else."
        asked = [*asked, Message("assistant", text[:_QUOTED]), Message("user", repair)]
    raise ProviderError(
        redact(f"{llm.model_id} did not reply with the JSON it was asked for, twice ({'; '.join(faults[:3])[:300]})"),
        next_step="Use a model that follows JSON schemas, or an endpoint that enforces them.",
        code="LLM_BAD_REPLY",
    )


def _reply(
    llm: Llm,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    max_tokens: int | None,
    on_usage: Callable[[Usage], None] | None,
) -> str:
    """With the schema in each way the client knows, then without: the wish in the message still asks for it."""
    for _ in range(2):
        try:
            return _text(llm, messages, schema, max_tokens, on_usage)
        except ProviderError as error:
            if error.code != "LLM_REJECTED":
                raise
    return _text(llm, messages, None, max_tokens, on_usage)


def _text(
    llm: Llm,
    messages: Sequence[Message],
    schema: Mapping[str, Any] | None,
    max_tokens: int | None,
    on_usage: Callable[[Usage], None] | None,
) -> str:
    parts: list[str] = []
    for delta in llm.stream(messages, schema=schema, max_tokens=max_tokens):
        parts.append(delta.text)
        if delta.usage is not None and on_usage is not None:
            on_usage(delta.usage)
    return strip_think("".join(parts))


def _best_object(
    text: str, schema: Mapping[str, Any], validate: Validate | None
) -> tuple[dict[str, Any] | None, list[str]]:
    """The first object that fits; else the first of all, with what is wrong with it."""
    first: tuple[dict[str, Any] | None, list[str]] = (None, ["there is no JSON object in it"])
    for value in json_objects(text):
        wrong = problems(value, schema) or list(validate(value) if validate is not None else ())
        if not wrong:
            return value, []
        if first[0] is None:
            first = value, wrong
    return first


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects inside a text, whatever stands around them: fences, greetings, explanations."""
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


def problems(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with a value, each with its place; empty when it fits."""
    from jsonschema import Draft202012Validator  # late: it takes a tenth of a second, and few commands ask a model

    found = islice(Draft202012Validator(schema).iter_errors(value), _MOST_PROBLEMS)
    return [f"reply{error.json_path[1:]}: {error.message[:_PROBLEM_CHARS]}" for error in found]
