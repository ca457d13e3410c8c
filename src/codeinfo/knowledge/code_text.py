"""Where code stops and text begins: comments and strings of a file, found in one pass without a syntax tree."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

# No part gives anything back, so that no text makes the pass slower than linear: characters are taken possessively, and
# groups end where what follows them always matches. (Possessive groups fail in early releases of Python 3.11.) What is
# not closed ends with its line, or with the file.
_LINE_STRINGS = r"\"(?:\\.|[^\"\\\n]++)*\"?|'(?:\\.|[^'\\\n]++)*'?"
_SLASHES = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*(?:\*/|\Z)"
_TRIPLE_DOUBLE = r"\"\"\"(?:\\.|[^\\\"]++|\"(?!\"\"))*(?:\"\"\"|\\?\Z)"
_TRIPLE_SINGLE = r"'''(?:\\.|[^\\']++|'(?!''))*(?:'''|\\?\Z)"

LINES_BEFORE = 2  # where what an expression finds may begin before its needle…
CHARACTERS_BEHIND = 700  # …and how far it may reach behind it: no expression of ours takes more than 500 of anything

_TEXT = {
    "python": rf"#[^\n]*+|[rRbBuUfF]{{0,2}}(?:{_TRIPLE_DOUBLE}|{_TRIPLE_SINGLE}|{_LINE_STRINGS})",
    "javascript": rf"{_SLASHES}|{_LINE_STRINGS}|`(?:\\.|[^`\\]++)*(?:`|\\?\Z)",
    "go": rf"{_SLASHES}|{_LINE_STRINGS}|`[^`]*+(?:`|\Z)",
    "java": rf"{_SLASHES}|{_TRIPLE_DOUBLE}|{_LINE_STRINGS}",
    "csharp": rf"{_SLASHES}|@\"(?:[^\"]++|\"\")*(?:\"|\Z)|{_LINE_STRINGS}",
    # A quote may begin a lifetime: only a closed character counts.
    "rust": rf"{_SLASHES}|r#+\"(?:[^\"]++|\"(?!#))*(?:\"#+|\Z)|\"(?:\\.|[^\"\\]++)*(?:\"|\\?\Z)|'(?:\\.|[^'\\\n])'",
}


@lru_cache(maxsize=len(_TEXT))
def _expression(family: str) -> re.Pattern[str]:
    return re.compile(_TEXT[family], re.DOTALL)


class CodeText:
    """A file's text, able to say whether a place is code; the pass is made when first asked."""

    __slots__ = ("_ends", "_family", "_last_line", "_starts", "_with", "text")

    def __init__(self, text: str, family: str) -> None:
        self.text = text
        self._family = family
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        self._last_line = 0, 1
        self._with: dict[str, list[tuple[int, int]]] = {}

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
        """Counted on from the last place asked for, as places come in order mostly."""
        last, line = self._last_line
        if offset >= last:
            line += self.text.count("\n", last, offset)
        else:
            line = 1 + self.text.count("\n", 0, offset)
        self._last_line = offset, line
        return line

    def lines_with(self, word: str) -> list[tuple[int, int]]:
        """Start and end of each line that has a word; several detectors ask for the same one."""
        spans = self._with.get(word)
        if spans is None:
            spans, text = [], self.text
            at = text.find(word)
            while at >= 0:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                spans.append((text.rfind("\n", 0, at) + 1, end))
                at = text.find(word, end)
            self._with[word] = spans
        return spans

    def regions_with(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Stretches of text around the lines that have one of the words, from two lines before to some way behind."""
        text = self.text
        merged: list[tuple[int, int]] = []
        for start, end in sorted(span for word in words for span in self.lines_with(word)):
            for _ in range(LINES_BEFORE):
                start = text.rfind("\n", 0, max(0, start - 1)) + 1
            end = min(len(text), end + CHARACTERS_BEHIND)
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged
