"""Grading: how far each passage helps to answer, 0 to 1, every passage by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from codeinfo.agent.evidence import Item, fence
from codeinfo.agent.gate import finder_of, focused
from codeinfo.agent.model import Model, filled
from codeinfo.search.focus import Finder

UNGRADED_UP_TO = 2  # so few are not worth a call
BATCH = 8  # passages a call: small models lose count of more
GRADED_CHARS = 600  # of each passage, the lines that match: enough to tell what it is about
REPLY_TOKENS = 400  # a batch of grades has about 150

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "grades": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "passage": {"type": "integer"},
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                },
                "required": ["passage", "score"],
            },
        }
    },
    "required": ["grades"],
}


def grade(question: str, items: Sequence[Item], model: Model, weights: Mapping[str, float]) -> tuple[Item, ...]:
    """The same items, each with its score. A batch that the model could not grade keeps `score=None`.

    `weights` are the question's words by rarity: they choose the lines that are shown.
    """
    if len(items) <= UNGRADED_UP_TO:
        return tuple(items)
    finder = finder_of(weights)
    return tuple(graded for batch in batches(items) for graded in _grade_batch(question, batch, model, finder))


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def _grade_batch(question: str, items: Sequence[Item], model: Model, finder: Finder) -> list[Item]:
    wanted = list(range(1, len(items) + 1))

    def complete(reply: dict[str, Any]) -> Sequence[str]:
        found = sorted(entry["passage"] for entry in reply["grades"])
        return () if found == wanted else (f"there must be one grade for each of the passages {wanted}",)

    reply = model.json(
        filled("grade", question=json.dumps(question), passages=_shown(items, finder), count=str(len(items))),
        _SCHEMA,
        complete,
        max_tokens=REPLY_TOKENS,
    )
    if reply is None:
        return list(items)
    scores = {entry["passage"]: float(entry["score"]) for entry in reply["grades"]}
    return [replace(item, score=scores[number]) for number, item in enumerate(items, 1)]


def _shown(items: Sequence[Item], finder: Finder) -> str:
    parts = [focused(item, finder, GRADED_CHARS) for item in items]
    mark = fence(part.text for part in parts)
    return "\n\n".join(
        f"<<<passage {number} {part.place} {mark}>>>\n{part.text}\n<<<end {mark}>>>"
        for number, part in enumerate(parts, 1)
    )
