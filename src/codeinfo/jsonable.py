"""Results as JSON, in one place, so that every shell returns the same: keys as the fields are named (snake_case),
enums as their values, tuples as lists. NaN and infinity are refused, since JSON has neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any


def jsonable(value: object) -> Any:
    """Dataclasses, enums, paths and containers of them as plain dicts, lists and scalars."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: jsonable(getattr(value, item.name)) for item in fields(value) if item.repr}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, PathLike):
        return fspath(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def dumps(value: object, *, indent: int | None = None) -> str:
    """JSON text; raises ValueError on NaN or infinity rather than write what no parser reads."""
    import json

    text = json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False, indent=indent)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8: only an escape can carry it
        return json.dumps(jsonable(value), allow_nan=False, indent=indent)
    return text
