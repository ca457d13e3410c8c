"""Where code stops and text begins: comments and strings of a file, found in one pass without a syntax tree."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

# Possessive throughout: no part gives anything back, so that no text makes the pass slower than linear. What is not
# closed ends with its line, or with the file.
_LINE_STRINGS = r"\"(?:\\.|[^\"\\\n]++)*+\"?|'(?:\\.|[^'\\\n]++)*+'?"
_SLASHES = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)"
_TRIPLE_DOUBLE = r"\"\"\"(?:\\.|[^\\\"]++|\"(?!\"\"))*+(?:\"\"\"|\\?\Z)"
_TRIPLE_SINGLE = r"'''(?:\\.|[^\\']++|'(?!''))*+(?:'''|\\?\Z)"

_TEXT = {
    "python": rf"#[^\n]*+|[rRbBuUfF]{{0,2}}(?:{_TRIPLE_DOUBLE}|{_TRIPLE_SINGLE}|{_LINE_STRINGS})",
    "javascript": rf"{_SLASHES}|{_LINE_STRINGS}|`(?:\\.|[^`\\]++)*+(?:`|\\?\Z)",
    "go": rf"{_SLASHES}|{_LINE_STRINGS}|`[^`]*+(?:`|\Z)",
    "java": rf"{_SLASHES}|{_TRIPLE_DOUBLE}|{_LINE_STRINGS}",
    "csharp": rf"{_SLASHES}|@\"(?:[^\"]++|\"\")*+(?:\"|\Z)|{_LINE_STRINGS}",
    # A quote may begin a lifetime: only a closed character counts.
    "rust": rf"{_SLASHES}|r#+\"(?:[^\"]++|\"(?!#))*+(?:\"#+|\Z)|\"(?:\\.|[^\"\\]++)*+(?:\"|\\?\Z)|'(?:\\.|[^'\\\n])'",
}


@lru_cache(maxsize=len(_TEXT))
def _expression(family: str) -> re.Pattern[str]:
    return re.compile(_TEXT[family], re.DOTALL)


class CodeText:
    """A file's text, able to say whether a place is code; the pass is made when first asked."""

    __slots__ = ("_ends", "_family", "_line_starts", "_starts", "text")

    def __init__(self, text: str, family: str) -> None:
        self.text = text
        self._family = family
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        self._line_starts: list[int] | None = None

    def is_code(self, offset: int) -> bool:
        """The first character of a string still counts as code: a pattern may begin with it."""
        if self._family not in _TEXT:
            return True  # a language only a project's own patterns speak of
        if self._starts is None:
            spans = [match.span() for match in _expression(self._family).finditer(self.text)]
            self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or offset >= self._ends[at]:
            return True
        start = self._starts[at]
        return offset == start and self.text[start] not in "#/"

    def line_of(self, offset: int) -> int:
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        return bisect_right(self._line_starts, offset)
