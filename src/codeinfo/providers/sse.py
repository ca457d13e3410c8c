"""Server-sent events, as far as chat endpoints use them: the `data` of each event, as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from codeinfo.providers.faults import Fault, Kind

_LARGEST_LINE = 4_000_000  # bytes; a server that never ends a line must not fill the memory


def event_data(read: Callable[[], bytes]) -> Iterator[str]:
    """`read` returns the next bytes, empty at the end. An event that the end cuts off is not delivered."""
    data: list[str] = []
    for line in _lines(read):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
            if sum(map(len, data)) > _LARGEST_LINE:
                raise Fault(Kind.BAD_REPLY, "an event without an end")


def _lines(read: Callable[[], bytes]) -> Iterator[str]:
    pending = bytearray()
    while piece := read():
        searched = len(pending)  # what was there before holds no line end: each byte is looked at once
        pending += piece
        start = 0
        while (end := pending.find(b"\n", max(start, searched))) >= 0:
            yield pending[start:end].removesuffix(b"\r").decode("utf-8", "replace")
            start = end + 1
        del pending[:start]
        if len(pending) > _LARGEST_LINE:
            raise Fault(Kind.BAD_REPLY, "a line without an end")
