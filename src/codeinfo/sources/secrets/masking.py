"""Finds the secrets of a text by every means, and puts `[masked:kind]` in their place."""

from __future__ import annotations

from collections.abc import Iterator

from codeinfo.sources.secrets.containers import find_in_json, find_in_kubernetes
from codeinfo.sources.secrets.context import find_in_context
from codeinfo.sources.secrets.formats import Span, find_keys


def mask(text: str) -> tuple[str, int]:
    """The text with each secret replaced by `[masked:kind]`, and how many there were."""
    data = text.encode("utf-8", "surrogatepass")  # bytes search as fast as ASCII text whatever else the text holds
    spans = _joined(sorted([*_find(data), *find_in_json(data, _find)]))
    if not spans:
        return text, 0
    pieces: list[bytes] = []
    at = 0
    for start, end, kind in spans:
        pieces += (data[at:start], b"[masked:%s]" % kind.encode())
        at = end
    pieces.append(data[at:])
    return b"".join(pieces).decode("utf-8", "surrogatepass"), len(spans)


def _find(data: bytes) -> Iterator[Span]:
    yield from find_keys(data)
    yield from find_in_context(data)
    yield from find_in_kubernetes(data)


def _joined(spans: list[Span]) -> list[Span]:
    """Those that overlap as one, called what the first by name of a service is called."""
    joined: list[Span] = []
    for start, end, kind in spans:
        if joined and start < joined[-1][1]:
            first, last, named = joined[-1]
            joined[-1] = first, max(last, end), kind if named in _GENERAL else named
        else:
            joined.append((start, end, kind))
    return joined


_GENERAL = ("secret", "token", "password")
