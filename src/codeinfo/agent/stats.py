"""The usage statistics that close an answer for people, and their removal from what a model is shown again.

Models imitate the block when they see it in the history, so it is taken out there, also where its emoji arrived
mis-decoded. Line by line: no pattern here can take more than linear time.
"""

from __future__ import annotations

from codeinfo.operations.answers import AnswerUsage

TITLE = "LLM Usage Stats"
_LABELS = ("API Calls", "Tokens", "Time", "Evidence", "Model", "Cost")
_RULE = "---"
_LONGEST_TITLE_LINE = 80  # the title, its stars and whatever an emoji turned into


def stats_block(usage: AnswerUsage, took_ms: float) -> str:
    total = usage.prompt_tokens + usage.completion_tokens
    about = "about " if usage.estimated else ""
    return "\n".join(
        (
            _RULE,
            f"📊 **{TITLE}:**",
            f"- **API Calls:** {usage.calls}",
            f"- **Tokens:** {about}{total:,} (prompt {usage.prompt_tokens:,}, completion {usage.completion_tokens:,})",
            f"- **Time:** {took_ms / 1000:.1f} s",
        )
    )


def strip_stats(text: str) -> str:
    """The text without any such block."""
    if TITLE not in text:
        return text
    block = StatsFilter()
    lines = [kept for line in text.split("\n") for kept in block.push(line)]
    return "\n".join([*lines, *block.flush()]).rstrip()


class StatsFilter:
    """Takes lines one by one and gives back those that belong to no such block."""

    def __init__(self) -> None:
        self._held: list[str] = []  # a rule and the blank lines behind it, until it is known what follows
        self._inside = False

    def push(self, line: str) -> list[str]:
        if is_title(line):
            self._held, self._inside = [], True
            return []
        if self._inside and (not line.strip() or _is_figure(line)):
            return []
        self._inside = False
        before = self._held
        if line.strip() == _RULE:
            self._held = [line]
            return before
        if before and not line.strip():
            before.append(line)
            return []
        self._held = []
        return [*before, line]

    def flush(self) -> list[str]:
        held, self._held = self._held, []
        return held


def is_title(line: str) -> bool:
    """Nothing but the title once marks and characters outside ASCII (an emoji, or what became of it) are gone."""
    if TITLE not in line or len(line) > _LONGEST_TITLE_LINE:
        return False
    return "".join(char for char in line if char.isascii() and (char.isalpha() or char == " ")).strip() == TITLE


def _is_figure(line: str) -> bool:
    return line.lstrip(" -*•").startswith(_LABELS)
