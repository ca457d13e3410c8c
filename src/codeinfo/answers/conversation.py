"""Conversations as a model and as a reader see them: earlier turns as messages, whole ones as Markdown, and follow-up
questions made searchable without a model.

A question that points back (it, they, "and …") and says little itself is searched with the content words of the one
before, which may point back in turn. Participles stay behind: they are what was asked about the subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from codeinfo.answers.cite import MARK
from codeinfo.answers.write import strip_stats
from codeinfo.operations.answers import Conversation, Turn
from codeinfo.ports import Message
from codeinfo.search.query import STOP_WORDS

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


TURNS_BACK = 3  # a subject older than that has been forgotten by people too
MOST_CARRIED = 6  # words: more would drown the question
SELF_CONTAINED = 5  # content words from which a question needs no help

_TOKEN = re.compile(r"[\w$]+(?:(?:\.|::|->|/|#)[\w$]+)*")
_POINTING = frozenset("it its itself they them their theirs these those that this he him his she her there".split())
_OPENING = frozenset("and but or also then so".split())
_ABOUT = re.compile(r"\s*(?:and|but|or|so)?\s*(?:what|how) about\b", re.IGNORECASE)
_PARTICIPLE = re.compile(r"[a-z]{2,}(?:ed|ing)\Z")  # in lower case only: `Spring` is a name


def search_text(question: str, earlier: Sequence[str]) -> str:
    """The question, with what it points back to; `earlier` are the questions before it, the oldest first."""
    query = question
    for number, asked in enumerate((*earlier[-TURNS_BACK:], question)):
        query = _carried(asked, query) if number and points_back(asked) else asked
    return query


def points_back(question: str) -> bool:
    words = [token.lower() for token in _TOKEN.findall(question)]
    own = [word for word in words if word not in STOP_WORDS]
    if len(own) >= SELF_CONTAINED:
        return False
    return not own or words[0] in _OPENING or bool(_ABOUT.match(question)) or any(word in _POINTING for word in words)


def _carried(question: str, before: str) -> str:
    """The question with the subject of `before` behind it, which is itself a question or one with its subject."""
    known = {token.lower() for token in _TOKEN.findall(question)}
    content = [token for token in _TOKEN.findall(before) if token.lower() not in STOP_WORDS | known]
    subject = [token for token in content if not _PARTICIPLE.match(token)] or content
    return " ".join((question, *dict.fromkeys(subject[:MOST_CARRIED])))
