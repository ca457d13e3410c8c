"""The text of one file, with its lines and the way from a parser's byte offsets back to them."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tree_sitter import Node

_ASTRAL = re.compile("[\U00010000-\U0010ffff\ud800-\udfff]")


class Source:
    """Offsets are characters of `text`; a parser sees `data`, where each character takes `unit_bytes` bytes.

    ASCII text is given to the parser as it is. Other text goes as UTF-16, with characters beyond its first plane
    replaced, so that an offset is found by a division instead of a table.
    """

    __slots__ = ("_starts", "data", "encoding", "lines", "text", "unit_bytes")

    def __init__(self, text: str, seen: str | None = None) -> None:
        """`seen` is what the parser is given instead, when that differs; its offsets are the same."""
        self.text = text
        self.lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        seen = text if seen is None else seen
        self.encoding: Literal["utf8", "utf16le"]
        if text.isascii():
            self.data, self.unit_bytes, self.encoding = seen.encode("ascii"), 1, "utf8"
        else:
            plain = _ASTRAL.sub("\ufffd", seen)
            self.data, self.unit_bytes, self.encoding = plain.encode("utf-16-le"), 2, "utf16le"

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def line_of_byte(self, offset: int) -> int:
        return bisect_right(self._starts, offset // self.unit_bytes)

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]

    def size(self, first: int, last: int) -> int:
        """Characters of the lines `first` to `last`, both included."""
        return self._starts[last] - self._starts[first - 1]

    def between(self, first: int, last: int) -> str:
        return self.text[self._starts[first - 1] : self._starts[last] - 1]

    def node_text(self, node: Node) -> str:
        return self.text[node.start_byte // self.unit_bytes : node.end_byte // self.unit_bytes]
