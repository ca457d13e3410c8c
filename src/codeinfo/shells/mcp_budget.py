"""A reply within its token budget: the largest lists and texts are cut, and a cursor says where each goes on.

The cursor holds no state of the server: it is the places at which fields were cut, so that the same call with it takes
up there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from codeinfo.errors import UsageError

Reply = dict[str, Any]
_SIGNS = 120  # characters that `truncated` and a cursor may need themselves


def fitted(reply: Reply, tokens: int, cursor: str = "") -> Reply:
    """`reply` from the cursor on, with as much as fits."""
    starts = _read(cursor)
    if starts:
        reply = {name: _from(name, value, starts) for name, value in reply.items()}
    limit = most_chars(tokens)
    if size(reply) <= limit:
        return reply
    cut, places = _cut(reply, limit - _SIGNS)
    goes_on = {name: starts.get(name, 0) + at for name, at in places.items()}
    return {**cut, "truncated": True, **({"cursor": _written(goes_on)} if goes_on else {})}


def most_chars(tokens: int) -> int:
    from codeinfo.answers.evidence import CHARS_PER_TOKEN  # behind the handshake

    return tokens * CHARS_PER_TOKEN


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _from(name: str, value: Any, starts: Mapping[str, int]) -> Any:
    """A field of a page after the first: what was shown in full before is not shown again."""
    if not isinstance(value, list | str):
        return value
    if name in starts:
        return value[starts[name] :]
    return [] if isinstance(value, list) else value


def _cut(reply: Reply, limit: int) -> tuple[Reply, dict[str, int]]:
    """The largest field gives way first, until all fits; and where each was cut."""
    reply, places = dict(reply), dict[str, int]()
    while (excess := size(reply) - limit) > 0:
        sizes = {name: size(value) for name, value in reply.items() if isinstance(value, list | str) and len(value) > 1}
        if not sizes:
            return {name: _shrunk(value, limit // max(len(reply), 1)) for name, value in reply.items()}, places
        name = max(sizes, key=lambda name: sizes[name])
        kept = _fitting(reply[name], max(sizes[name] - excess, 0))
        reply[name], places[name] = reply[name][:kept], kept
    return reply, places


def _fitting(value: Any, room: int) -> int:
    """How many elements of a list, or characters of a text, have room; one at least, or no page would ever end."""
    if isinstance(value, str):
        return max(min(room - 2, len(value) - 1), 1)
    used, kept = 2, 0
    for element in value:
        used += size(element) + 1
        if used > room:
            break
        kept += 1
    return max(min(kept, len(value) - 1), 1)


def _shrunk(value: Any, limit: int) -> Any:
    """One element that is too large by itself: its own lists and texts are cut, for good."""
    if size(value) <= limit:
        return value
    if isinstance(value, list):
        return [_shrunk(element, limit // len(value)) for element in value]
    return _cut(value, limit)[0] if isinstance(value, dict) else value


def _written(places: Mapping[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(places, separators=(",", ":")).encode()).decode().rstrip("=")


def _read(cursor: str) -> dict[str, int]:
    if not cursor:
        return {}
    try:
        places = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(places, dict) and all(isinstance(at, int) and at >= 0 for at in places.values()):
            return {str(name): at for name, at in places.items()}
    except ValueError:
        pass
    raise UsageError("the cursor is not one of ours", next_step="Take it from a reply, or leave it out")
