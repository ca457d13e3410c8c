"""Rows of turns as values.

A conversation is worth more than its details: an entry that an odd version or hand wrote is shown as one that cannot be
read, and the rest of the conversation with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from codeinfo.model import Distance, Dropped
from codeinfo.operations.answers import AnswerUsage, Citation, GradedItem, Round, ToolUse, Turn

MOST_DETAIL_CHARS = 200_000  # of the searches or the tool calls of one turn
MALFORMED = "malformed entry"
_SHOWN_CHARS = 200  # of an entry that cannot be read
_UNREADABLE = (TypeError, ValueError, KeyError, AttributeError)

Value = TypeVar("Value")


def within_bounds(entries: list[dict[str, Any]]) -> str:
    """The details as JSON; without previews where they are too long, and without passages where they still are."""
    for field, empty in (("", None), ("preview", ""), ("items", []), ("dropped", [])):
        for entry in entries if field else ():
            for part in (entry, *entry.get("items", ())):
                if field in part:
                    part[field] = empty
        text = json.dumps(entries, ensure_ascii=False)
        if len(text) <= MOST_DETAIL_CHARS:
            return text
    return "[]"


def turn_of(row: tuple[Any, ...]) -> Turn:
    number, conversation, role, content, status, created, model, provider, *details, rounds, notes = row
    tools, citations, usage, took, error = details
    searches, unread = _read(rounds, _round)
    calls, odd_calls = _read(tools, _tool_use)
    return Turn(
        id=number,
        conversation_id=conversation,
        role=role,
        content=content,
        status=status,
        created_at=created,
        model=model,
        provider=provider,
        tool_calls=(*calls, *map(_unreadable, (*odd_calls, *unread))),
        citations=_read(citations, _citation)[0],
        usage=_usage(usage),
        took_ms=took,
        error=error,
        rounds=searches,
        notes=_read(notes, _text)[0],
    )


def _read(stored: str | None, build: Callable[[Any], Value]) -> tuple[tuple[Value, ...], tuple[object, ...]]:
    """The entries of a stored list, and those that are not what they should be."""
    try:
        entries = json.loads(stored or "[]")
    except ValueError:
        return (), (stored,)
    if not isinstance(entries, list):
        return (), (entries,)
    good, odd = [], []
    for entry in entries:
        try:
            good.append(build(entry))
        except _UNREADABLE:
            odd.append(entry)
    return tuple(good), tuple(odd)


def _unreadable(entry: object) -> ToolUse:
    return ToolUse("unknown", str(entry)[:_SHOWN_CHARS], MALFORMED, failed=True)


def _usage(stored: str | None) -> AnswerUsage | None:
    with suppress(*_UNREADABLE):
        told = json.loads(stored or "null")
        if told is not None and all(isinstance(value, int) for value in told.values()):
            return AnswerUsage(**told)
    return None


def _round(stored: Any) -> Round:
    items, odd = _entries(stored["items"], _item)
    dropped, odd_drops = _entries(stored["dropped"], _dropped)
    lost = odd + odd_drops
    return Round(
        query=_text(stored["query"]),
        items=items,
        dropped=dropped,
        average=_number(stored.get("average")),
        verdict=_text(stored["verdict"])
        + (f", {lost} {MALFORMED if lost == 1 else 'malformed entries'}" if lost else ""),
        score_source=_text(stored.get("score_source", "")),
    )


def _entries(stored: Any, build: Callable[[Any], Value]) -> tuple[tuple[Value, ...], int]:
    good: list[Value] = []
    for entry in stored:
        with suppress(*_UNREADABLE):
            good.append(build(entry))
    return tuple(good), len(stored) - len(good)


def _item(stored: Any) -> GradedItem:
    return GradedItem(
        *_place(stored),
        score=_number(stored.get("score")),
        distance=_distance(stored.get("distance")),
        root=_text(stored.get("root", "")),
        preview=_text(stored.get("preview", "")),
    )


def _dropped(stored: Any) -> Dropped:
    return Dropped(*_place(stored), _text(stored["rule"]), _text(stored.get("detail", "")))


def _tool_use(stored: Any) -> ToolUse:
    items, _ = _entries(stored.get("items", []), _item)
    name, arguments, outcome = (_text(stored[key]) for key in ("name", "arguments", "outcome"))
    return ToolUse(name, arguments, outcome, bool(stored.get("failed")), items)


def _citation(stored: Any) -> Citation:
    path, start, end = _place(stored)
    return Citation(
        number=_line(stored["number"]),
        root=_text(stored["root"]),
        path=path,
        start_line=start,
        end_line=end,
        symbol=_text(stored.get("symbol", "")),
        distance=_distance(stored.get("distance")),
        problem=_text(stored.get("problem", "")),
        section=_text(stored.get("section", "")),
        collection=_text(stored.get("collection", "")),
        opens=_text(stored.get("opens", "")),
    )


def _place(stored: Any) -> tuple[str, int, int]:
    return _text(stored["path"]), _line(stored["start_line"]), _line(stored["end_line"])


def _distance(stored: Any) -> Distance | None:
    value = _number(stored["value"]) if stored is not None else None
    return None if value is None else Distance(value, _text(stored["metric"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _line(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _number(value: Any) -> float | None:
    if value is not None and (not isinstance(value, int | float) or not math.isfinite(value)):
        raise TypeError(value)
    return value
