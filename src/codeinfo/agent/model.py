"""A chat model as the loop uses it: the port, and two helpers that come with the providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

from msgspec import Struct

from codeinfo.agent.budget import Metered
from codeinfo.errors import ProviderError
from codeinfo.ports import Llm, Message

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
        """The object the model replied with, or None where it cannot hold to a schema."""
        try:
            return self.ask_json(self.llm, [Message("user", prompt)], schema, validate, max_tokens=max_tokens)
        except ProviderError as error:
            if error.code != "LLM_BAD_REPLY":
                raise
            return None


@lru_cache
def prompt(name: str) -> str:
    """A prompt of the folder `prompts`; its comment lines (`<!-- … -->`) are for readers."""
    text = resources.files("codeinfo.agent").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("<!--")).strip()


def filled(name: str, **values: str) -> str:
    """A prompt with its `{{name}}` places filled. The values are inserted as they are: braces in code stay."""
    pieces = prompt(name).split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        key, _, rest = piece.partition("}}")
        out += [values[key.strip()], rest]
    return "".join(out)
