"""JSON schema, the small part that replies of a model need: types, properties, items, enums and bounds.

It refuses a keyword it does not know, since a check that is silently left out would pass for one that was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}

_BOUNDS: tuple[tuple[str, str, Callable[[Any], Any], Callable[[Any, Any], bool]], ...] = (
    ("minimum", "number", lambda value: value, lambda got, bound: got >= bound),
    ("maximum", "number", lambda value: value, lambda got, bound: got <= bound),
    ("minLength", "string", len, lambda got, bound: got >= bound),
    ("maxLength", "string", len, lambda got, bound: got <= bound),
    ("minItems", "array", len, lambda got, bound: got >= bound),
    ("maxItems", "array", len, lambda got, bound: got <= bound),
)

_KNOWN = {"type", "enum", "const", "properties", "required", "additionalProperties", "items"}
_KNOWN |= {"title", "description", "default", "$schema"} | {bound[0] for bound in _BOUNDS}


def problems(value: Any, schema: Mapping[str, Any], where: str = "reply") -> list[str]:
    """What is wrong with a value, each with its place; empty when it fits."""
    return list(_problems(value, schema, where))


def _problems(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if unknown := set(schema) - _KNOWN:
        raise ValueError(f"schema keywords that are not checked: {', '.join(sorted(unknown))}")
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        yield f"{where} is not of type {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield f"{where} is not {schema['const']!r}"
    for name, kind, measure, holds in _BOUNDS:
        if name in schema and _TYPES[kind](value) and not holds(measure(value), schema[name]):
            yield f"{where} breaks {name} {schema[name]}"
    if isinstance(value, dict):
        yield from _object_problems(value, schema, where)
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from _problems(item, items, f"{where}[{index}]")


def _object_problems(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}.{name} is missing"
    for name, item in value.items():
        if name in properties:
            yield from _problems(item, properties[name], f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{where}.{name} is not asked for"
