"""Follow-up questions made searchable without a model: "and where is it closed?" takes the subject of the turn before.

A question that points back (it, they, "and …") and says little itself is searched with the content words of the one
before, which may point back in turn. Participles stay behind: they are what was asked about the subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from codeinfo.search.query import STOP_WORDS

TURNS_BACK = 3  # a subject older than that has been forgotten by people too
MOST_CARRIED = 6  # words: more would drown the question
SELF_CONTAINED = 5  # content words from which a question needs no help

_TOKEN = re.compile(r"[\w$]+(?:(?:\.|::|->|/|#)[\w$]+)*")
_POINTING = frozenset("it its itself they them their theirs these those that this he him his she her there".split())
_OPENING = frozenset("and but or also then so".split())
_ABOUT = re.compile(r"\s*(?:and|but|or|so)?\s*(?:what|how) about\b", re.IGNORECASE)
_PARTICIPLE = re.compile(r"[a-z]{2,}(?:ed|ing)\Z")  # in lower case only: `Spring` is a name


def searched_for(question: str, earlier: Sequence[str]) -> str:
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
