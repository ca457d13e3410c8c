"""Secrets behind another encoding: string escapes of JSON and notebooks, base64 in Kubernetes secrets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from codeinfo.sources.secrets.formats import Span
from codeinfo.sources.secrets.randomness import looks_random

# --- JSON ----------------------------------------------------------------------------------------------------------

_JSON_START = re.compile(rb"\s*[\[{]")
# An escape, or the seam between two lines of a list: notebooks keep each cell as one.
_ESCAPE = re.compile(rb'\\n",\s{0,64}"|\\(?:["\\/bfnrt]|u00[0-7][0-9a-fA-F])')
_SHORT_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b" ", b"f": b" "}


def find_in_json(data: bytes, find: Callable[[bytes], Iterator[Span]]) -> Iterator[Span]:
    """What `find` sees once the strings of a JSON text are decoded, as places in the text as it is written."""
    if b"\\" not in data or not _JSON_START.match(data):
        return
    pieces: list[bytes] = []
    plain_ends, raw_ends = [0], [0]  # of the text before each escape, and after it
    at = length = 0
    for escape in _ESCAPE.finditer(data):
        before, decoded = data[at : escape.start()], _decoded(escape[0])
        pieces += (before, decoded)
        length += len(before)
        plain_ends += (length, length + len(decoded))
        raw_ends += (escape.start(), escape.end())
        length += len(decoded)
        at = escape.end()
    pieces.append(data[at:])

    def raw(place: int) -> int:
        near = bisect_right(plain_ends, place) - 1
        return raw_ends[near] + place - plain_ends[near]

    for start, end, kind in find(b"".join(pieces)):
        yield raw(start), raw(end), kind


def _decoded(escape: bytes) -> bytes:
    if escape.startswith(b'\\n",'):
        return b"\n"
    if escape[1:2] == b"u":
        return bytes((int(escape[2:], 16),))
    return _SHORT_ESCAPES.get(escape[1:], escape[1:])


# --- Kubernetes ----------------------------------------------------------------------------------------------------

_SECRET_KIND = re.compile(rb"kind[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?Secret\b")
_DOCUMENT_BORDER = b"\n---"
_YAML_DATA = re.compile(
    rb"^(?P<indent>[ \t]*+)(?P<name>stringData|data):[ \t]*+\n"
    rb"(?P<body>(?:(?P=indent)[ \t]++\S[^\n]*+(?:\n|\Z)|[ \t]*+\n)++)",
    re.MULTILINE,
)
_JSON_DATA = re.compile(rb"\"(?P<name>stringData|data)\"\s{0,8}:\s{0,8}\{(?P<body>[^{}]*+)\}")
_VALUE = re.compile(rb"(?:^|:)[ \t]*+[\"']?(?P<value>[^\s\"'{}$<>]{8,}+)[\"']?[ \t]*+(?=\n|,|\Z)", re.MULTILINE)
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{4,}={0,2}")


def find_in_kubernetes(data: bytes) -> Iterator[Span]:
    """The values of a Secret's `data`, which are base64 and secret by what they are; those of its `stringData` that
    look random."""
    at = 0
    while kind := _SECRET_KIND.search(data, at):
        start = data.rfind(_DOCUMENT_BORDER, at, kind.start())
        end = data.find(_DOCUMENT_BORDER, kind.end())
        end = len(data) if end < 0 else end + 1
        for pattern in (_YAML_DATA, _JSON_DATA):
            for block in pattern.finditer(data, max(start, at), end):
                is_secret = _is_base64 if block["name"] == b"data" else looks_random
                for value in _VALUE.finditer(data, *block.span("body")):
                    if is_secret(value["value"]):
                        yield *value.span("value"), "kubernetes-secret"
        at = end


def _is_base64(value: bytes) -> bool:
    return len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None
