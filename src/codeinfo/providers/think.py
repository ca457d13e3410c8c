"""Reasoning that a model writes between `<think>` tags, taken out in linear time.

A tag right behind a back quote is text about tags, and stays.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"(?<!`)<(/?)think(?:ing)?>", re.IGNORECASE | re.ASCII)
_TAGS = ("<think>", "</think>", "<thinking>", "</thinking>")
_LONGEST = max(map(len, _TAGS))


def strip_think(text: str) -> str:
    """A finished reply without its reasoning.

    An unclosed tag hides everything behind it. A closing tag that comes first hides everything before it: some chat
    templates open the tag themselves, so that the reply shows only its end.
    """
    first = _TAG.search(text)
    if first is None:
        return text
    if first[1]:
        text = text[first.end() :]
    shown = ThinkFilter()
    return (shown.feed(text) + shown.flush()).strip()


class ThinkFilter:
    """The same for a stream: `feed` returns what may be shown so far. What has been shown is never taken back."""

    def __init__(self) -> None:
        self._thinking = False
        self._held = ""  # may be the beginning of a tag
        self._last = ""  # the character before `_held`, which decides whether a tag is quoted

    def feed(self, text: str) -> str:
        text = self._last + self._held + text
        before = len(self._last)  # already shown or hidden
        end = len(text) - _tail(text, before)
        shown: list[str] = []
        position = before
        for tag in _TAG.finditer(text, 0, end):
            if not self._thinking:
                shown.append(text[position : tag.start()])
            self._thinking = not tag[1]
            position = tag.end()
        if not self._thinking:
            shown.append(text[position:end])
        self._held = text[end:]
        self._last = text[end - 1 : end]
        return "".join(shown)

    def flush(self) -> str:
        """What is left at the end of the stream."""
        rest = "" if self._thinking else self._held
        self._held = self._last = ""
        return rest


def _tail(text: str, before: int) -> int:
    """How many characters at the end may be the beginning of a tag."""
    start = text.rfind("<", max(before, len(text) - _LONGEST))
    tail = text[start:].lower() if start >= 0 else ""
    return len(tail) if any(tag.startswith(tail) and tag != tail for tag in _TAGS) and tail else 0
