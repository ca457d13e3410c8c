"""Arguments of tools and routes: their JSON schemas, and the one check that both MCP and HTTP use. Schemas of results
come from msgspec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from codeinfo.errors import UsageError
from codeinfo.operations.base import MAX_TEXT_CHARS, parameters

Schema = dict[str, Any]
Values = dict[str, Any]
LONGEST_NUMBER = 20  # digits that an error repeats to whoever sent more
_TYPES: dict[str, tuple[Any, str, str]] = {  # accepted in Python, called in JSON, called in an error
    "str": (str, "string", "a text"),
    "int": (int, "integer", "a whole number"),
    "float": (int | float, "number", "a number"),
    "bool": (bool, "boolean", "true or false"),
}


class Input(Struct, frozen=True):
    """One argument of a tool or route."""

    name: str
    help: str
    kind: str = "str"  # as a request's field: "str", "int", "float", "bool" or "tuple[str, ...]"; or "object"
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    fields: tuple[Input, ...] = ()  # of an object


def inputs_of(request: type) -> tuple[Input, ...]:
    return tuple(
        Input(p.name, p.help, p.kind, p.default, p.required, p.choices, p.minimum, p.maximum)
        for p in parameters(request)
    )


# --- schemas -------------------------------------------------------------------------------------------------------


def input_schema(inputs: Iterable[Input]) -> Schema:
    inputs = tuple(inputs)
    schema: Schema = {"type": "object", "properties": {item.name: property_schema(item) for item in inputs}}
    if required := [item.name for item in inputs if item.required]:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def property_schema(item: Input) -> Schema:
    if item.kind == "object":
        return {"description": item.help, **input_schema(item.fields)}
    many = item.kind.startswith("tuple")
    value: Schema = {"type": "string" if many else _TYPES[item.kind][1]}
    if item.choices:
        value["enum"] = list(item.choices)
    for word, bound in (("minimum", item.minimum), ("maximum", item.maximum)):
        if bound is not None:
            value[word] = bound
    if many:
        value = {"type": "array", "items": value}
    if item.default not in (None, "", ()):
        value["default"] = list(item.default) if many else item.default
    return {"description": item.help, **value}


def output_schema(result: type) -> Schema:
    """The schema of a tool's reply. Clients check every reply against it, so it says as little as it can."""
    (root,), shared = msgspec.json.schema_components([result], ref_template="#/$defs/{name}")
    schema: Schema = _pruned(shared.pop(root["$ref"].rpartition("/")[2]))
    schema["properties"] |= {
        "truncated": {"type": "boolean", "description": "Whether the token budget cut something off."},
        "cursor": {"type": "string", "description": "Pass it to the same call to go on where this reply ends."},
    }
    return schema | ({"$defs": _pruned(shared)} if shared else {})


def _pruned(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_pruned(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = schema.get("type") == "object" and isinstance(schema.get("title"), str)
    dropped = ("title", "default") if named or "default" in schema else ()
    return {key: _pruned(value) for key, value in schema.items() if key not in dropped}


# --- the check -----------------------------------------------------------------------------------------------------


def check(inputs: Iterable[Input], given: Mapping[str, Any], *, where: str = "", as_text: bool = False) -> Values:
    """The arguments as a request takes them; UsageError says which one is wrong and what it may be. `as_text` is for
    the parameters of an address, which are all texts."""
    known = {item.name: item for item in inputs}
    for name in given:
        if name not in known:
            raise UsageError(f"unknown argument {where}{name}", next_step=f"Known: {', '.join(known) or 'none'}")
    values: Values = {}
    for item in known.values():
        value = given.get(item.name)
        if value is not None:
            value = _from_text(item.kind, value) if as_text else value
            values[item.name] = _check_value(item, value, where + item.name)
        elif item.required:
            raise UsageError(f"{where}{item.name} is required", next_step=item.help)
    return values


def _from_text(kind: str, value: str) -> Any:
    return int(value) if kind == "int" and value.isascii() and value.isdecimal() and len(value) < 10 else value


def _check_value(item: Input, value: Any, name: str) -> Any:
    if item.kind == "object":
        if not isinstance(value, Mapping):
            raise UsageError(f"{name} must be an object", next_step=item.help)
        return check(item.fields, value, where=f"{name}.")
    if item.kind.startswith("tuple"):
        if not isinstance(value, list):
            raise UsageError(f"{name} must be a list of texts", next_step=item.help)
        return tuple(_check_scalar(item, "str", element, name) for element in value)
    return _check_scalar(item, item.kind, value, name)


def _check_scalar(item: Input, kind: str, value: Any, name: str) -> Any:
    if kind == "int" and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    accepted, _, expected = _TYPES[kind]
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "bool"):
        raise UsageError(f"{name} must be {expected}", next_step=item.help)
    if kind == "str":
        check_length(value, name)
    if item.choices and value not in item.choices:
        raise UsageError(f"{name} cannot be {value!r}", next_step=f"One of: {', '.join(item.choices)}")
    low, high = item.minimum, item.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"from {low} to {high}" if high is not None else f"at least {low}"
        shown = str(value)
        shown = shown if len(shown) <= LONGEST_NUMBER else f"{shown[:LONGEST_NUMBER]}…"
        raise UsageError(f"{name} cannot be {shown}", next_step=f"It must be {bounds}")
    return value


def check_length(text: str, name: str) -> str:
    """The text, unless it is longer than any that is answered over HTTP or MCP."""
    if len(text) > MAX_TEXT_CHARS:
        raise UsageError(
            f"{name} has {len(text):,} characters", next_step=f"Send at most {MAX_TEXT_CHARS:,}: its most telling part"
        )
    return text
