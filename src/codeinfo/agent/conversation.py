"""Conversations as a model and as a reader see them: earlier turns as messages, whole ones as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from codeinfo.agent.cite import MARK
from codeinfo.agent.stats import strip_stats
from codeinfo.operations.answers import Conversation, Turn
from codeinfo.ports import Message

TITLE_CHARS = 60
HISTORY_CHARS = 12_000  # of earlier turns, the newest first: the evidence is what the tokens are for


def title_of(question: str) -> str:
    words = " ".join(question.split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1].rstrip() + "…"


def history_messages(turns: Sequence[Turn], limit: int) -> tuple[Message, ...]:
    """The newest turns that went well, without statistics, and without citations: their numbers mean nothing now."""
    chosen: list[Message] = []
    room = HISTORY_CHARS
    for question, reply in reversed(_pairs(turns)):
        texts = (question.content, _plain(reply.content))
        room -= sum(map(len, texts))
        if len(chosen) >= 2 * limit or room < 0:
            break
        chosen += [Message("assistant", texts[1]), Message("user", texts[0])]
    return tuple(reversed(chosen))


def _pairs(turns: Sequence[Turn]) -> list[tuple[Turn, Turn]]:
    return [
        (first, second)
        for first, second in pairwise(turns)
        if first.role == "user" and second.role == "assistant" and second.status == "ok" and second.content
    ]


def _plain(text: str) -> str:
    """An answer without statistics and without `[n]`: a model that sees old numbers cites them again."""
    out: list[str] = []
    for piece in strip_stats(text).split("["):
        number, bracket, rest = piece.partition("]")
        cites = bool(bracket) and number.removesuffix(f": {MARK}").strip().isdecimal()
        out.append(rest if cites and out else f"[{piece}" if out else piece)
    return "".join(out)


def to_markdown(conversation: Conversation, turns: Sequence[Turn]) -> str:
    head = [f"# {conversation.title}", ""]
    about = [f"conversation {conversation.id}", conversation.created_at]
    about += [f"agent {conversation.agent_name}"] if conversation.agent_name else []
    about += [f"model {conversation.model}"] if conversation.model else []
    lines = [*head, "*" + ", ".join(about) + "*"]
    for turn in turns:
        lines += ["", "## Question" if turn.role == "user" else "## Answer", "", strip_stats(turn.content)]
        if turn.status != "ok":
            lines += ["", f"*{turn.status}: {turn.error or 'ended before it was done'}*"]
        if turn.citations:
            lines += ["", "Sources:", ""]
            lines += [
                f"- [{one.number}] {one.path}:{one.start_line}-{one.end_line}"
                + (f" ({MARK}: {one.problem})" if one.problem else "")
                for one in turn.citations
            ]
    return "\n".join(lines).rstrip() + "\n"
