"""Results as JSON, in one place, so that every shell returns the same: keys as the fields are named (snake_case),
enums as their values, tuples as lists. NaN and infinity are refused, since JSON has neither."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from os import PathLike, fspath
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

PLAIN = frozenset({str, int, float, bool, type(None)})  # what JSON has itself: by far most of what is dumps_plain

# Characters that act on a terminal or change the order in which text is read: DEL, C1 controls, line and paragraph
# separators, bidirectional controls. JSON itself escapes only those below 32.
CONTROLS = (0x7F, *range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F))
CONTROLS += tuple(range(0x2066, 0x206A))
Kept = TypeVar("Kept")
_WORD_START = re.compile(r"_([a-z])")
_ESCAPED = {code: f"\\u{code:04x}" for code in CONTROLS}


def jsonable(value: object) -> Any:
    """Structs, enums, paths and containers of them as plain dicts, lists and scalars."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Struct):
        return {name: jsonable(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, PathLike):
        return fspath(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def decoded(data: bytes | None, kind: type[Kept]) -> Kept | None:
    """What was kept as JSON; None where nothing was, or where it is damaged or of another version."""
    try:
        return msgspec.json.decode(data or b"", type=kind)
    except msgspec.DecodeError:
        return None


def camel(name: str) -> str:
    return _WORD_START.sub(lambda found: found[1].upper(), name)


def camel_keys(value: Any) -> Any:
    """JSON with the spelling of keys that clients of other servers know."""
    if isinstance(value, dict):
        return {camel(key): camel_keys(item) for key, item in value.items()}
    return [camel_keys(item) for item in value] if isinstance(value, list) else value


def dumps(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON text; raises ValueError on NaN or infinity rather than write what no parser reads."""
    return dumps_plain(jsonable(value), indent=indent, ascii_only=ascii_only)


def dumps_plain(plain: Any, *, indent: int | None = None, ascii_only: bool = False, compact: bool = False) -> str:
    """The JSON text of what `jsonable` has made; with `ascii_only` for streams that take nothing else, `compact` for
    models, which pay for spaces."""
    import json

    marks = (",", ":") if compact else None
    text = json.dumps(plain, ensure_ascii=ascii_only, allow_nan=False, indent=indent, separators=marks)
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8: only an escape can carry it
        text = json.dumps(plain, allow_nan=False, indent=indent, separators=marks)
    # Only strings hold such characters, so an escape means the same to any parser.
    return text.translate(_ESCAPED)
