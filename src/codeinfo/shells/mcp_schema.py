"""JSON schemas of tools: inputs from requests, outputs from results; and arguments checked against them."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from codeinfo.errors import UsageError
from codeinfo.operations import Parameter, parameters
from codeinfo.operations.base import MAX_TEXT_CHARS

Schema = dict[str, Any]
LONGEST_NUMBER = 20  # digits that are repeated to whoever sent more
_A_TYPE = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"}
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class Input(Struct, frozen=True):
    """One argument of a tool."""

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
    return tuple(_input(item) for item in parameters(request))


def _input(item: Parameter) -> Input:
    return Input(item.name, item.help, item.kind, item.default, item.required, item.choices, item.minimum, item.maximum)


# --- what goes in --------------------------------------------------------------------------------------------------


def input_schema(inputs: Iterable[Input]) -> Schema:
    inputs = tuple(inputs)
    schema: Schema = {"type": "object", "properties": {item.name: _property(item) for item in inputs}}
    if required := [item.name for item in inputs if item.required]:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def _property(item: Input) -> Schema:
    if item.kind == "object":
        return {"description": item.help, **input_schema(item.fields)}
    many = item.kind.startswith("tuple")
    value: Schema = {"type": "string" if many else _TYPES[item.kind]}
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


def checked(inputs: Iterable[Input], given: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The arguments as a request wants them; UsageError says which one is wrong and what it may be."""
    known = {item.name: item for item in inputs}
    for name in given:
        if name not in known:
            raise UsageError(f"unknown argument {where}{name}", next_step=f"Known: {', '.join(known) or 'none'}")
    values: dict[str, Any] = {}
    for item in known.values():
        value = given.get(item.name)
        if value is not None:
            values[item.name] = _checked(item, value, where + item.name)
        elif item.required:
            raise UsageError(f"{where}{item.name} is required", next_step=item.help)
    return values


def _checked(item: Input, value: Any, name: str) -> Any:
    if item.kind == "object":
        if not isinstance(value, Mapping):
            raise UsageError(f"{name} must be an object", next_step=item.help)
        return checked(item.fields, value, f"{name}.")
    if item.kind.startswith("tuple"):
        if not isinstance(value, list):
            raise UsageError(f"{name} must be a list of texts", next_step=item.help)
        return tuple(_one(item, "str", element, name) for element in value)
    return _one(item, item.kind, value, name)


def _one(item: Input, kind: str, value: Any, name: str) -> Any:
    if kind == "int" and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    wanted: Any = {"str": str, "int": int, "float": int | float, "bool": bool}[kind]
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
        raise UsageError(f"{name} must be {_A_TYPE[kind]}", next_step=item.help)
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
            f"{name} has {len(text):,} characters", next_step=f"Send at most {MAX_TEXT_CHARS:,}, the telling part of it"
        )
    return text


# --- what comes out ------------------------------------------------------------------------------------------------


def output_schema(result: type, *, nulls: bool = True) -> Schema:
    """The schema of a result as JSON. A field that is None by default may be left out; without `nulls` it always is.

    Clients check every reply against it, some of them the schema itself each time, so it says as little as it can.
    """
    schema = _of(result, nulls)
    schema["properties"] |= {
        "truncated": {"type": "boolean", "description": "Whether the token budget cut something off."},
        "cursor": {"type": "string", "description": "Pass it to the same call to go on where this reply ends."},
    }
    return schema


def _of(kind: Any, nulls: bool) -> Schema:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _of_struct(kind, nulls)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _of_union(inner, nulls)
    if origin in (tuple, list):
        return {"type": "array", "items": _items(inner, nulls)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inner[1], nulls)}
    return {"type": _TYPES[kind.__name__]} if kind in (str, int, float, bool) else {}


def _of_union(kinds: tuple[Any, ...], nulls: bool) -> Schema:
    schemas = [_of(one, nulls) for one in kinds if one is not type(None)]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if len(schemas) == len(kinds) or not nulls:
        return schema
    if "type" in schema and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [*schemas, {"type": "null"}]}


def _items(inner: tuple[Any, ...], nulls: bool) -> Schema:
    distinct = list(dict.fromkeys(one for one in inner if one is not Ellipsis))
    return _of(distinct[0], nulls) if len(distinct) == 1 else {"anyOf": [_of(one, nulls) for one in distinct]}


def _of_struct(kind: type, nulls: bool) -> Schema:
    hints = typing.get_type_hints(kind)
    shown = fields(kind)
    required = [item.name for item in shown if item.default is not None]
    properties = {item.name: _of(hints[item.name], nulls) for item in shown}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
