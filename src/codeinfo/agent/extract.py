"""An answer without a model: the best passages, quoted and cited, or a plain word that the files do not answer.

Abstaining rests on the question's own words: how much of what they weigh (rare words weigh more) is found in the best
passages. A question about something that the tree does not have shares only common words with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codeinfo.agent.evidence import Evidence, Item, estimated_tokens
from codeinfo.rank.focus import Finder, excerpt, focus
from codeinfo.rank.words import EXPANSIONS
from codeinfo.requests.answers import Answer, AnswerUsage
from codeinfo.tokens import stem, terms

PASSAGES = 3  # quoted in an answer
PASSAGE_CHARS = 900  # of each, the lines that answer best
JUDGED = 5  # best passages that the question's words are looked for in
LEAST_COVERAGE = 0.55  # of the weight of the question's words, in the judged passages together
LEAST_IN_ONE = 0.4  # in the best single one: words scattered over five files are no answer

EXTRACTIVE = "No language model was asked. These passages fit the question best:"


@dataclass(frozen=True, slots=True)
class Support:
    """How much of the question's weight the passages have, 0 to 1; `absent` are words that none of them has."""

    together: float
    best: float
    absent: tuple[str, ...]

    @property
    def enough(self) -> bool:
        return self.together >= LEAST_COVERAGE and self.best >= LEAST_IN_ONE


def extract(question: str, items: Sequence[Item], weights: Mapping[str, float]) -> Answer:
    """`weights` are the question's content words, each with its rarity in the tree."""
    support = support_of(items[:JUDGED], weights)
    if not items or not support.enough:
        return _abstained(question, items, support)
    finder = Finder({stem(word): weight for word, weight in weights.items()})
    chosen = Evidence().show(_focused(item, finder) for item in items[:PASSAGES])
    return Answer(
        question=question,
        text=f"{EXTRACTIVE}\n\n{quoted(chosen)}",
        kind="extractive",
        status="ok",
        citations=tuple(item.citation() for item in chosen),
        usage=AnswerUsage(evidence_tokens=estimated_tokens("".join(item.text for item in chosen))),
    )


def support_of(items: Sequence[Item], weights: Mapping[str, float]) -> Support:
    whole = sum(weights.values())
    if not whole:
        return Support(0.0, 0.0, ())
    forms = {word: {stem(word), *(stem(other) for other in EXPANSIONS.get(word, ()))} for word in weights}
    found = [_words_in(item, forms) for item in items]
    together: set[str] = set().union(*found)
    best = max((sum(weights[word] for word in one) for one in found), default=0.0)
    absent = sorted(weights.keys() - together, key=lambda word: -weights[word])
    return Support(sum(weights[word] for word in together) / whole, best / whole, tuple(absent))


def _words_in(item: Item, forms: Mapping[str, set[str]]) -> set[str]:
    has = set(terms(f"{item.path} {item.symbol} {item.text}"))
    return {word for word, spellings in forms.items() if spellings & has}


def quoted(items: Sequence[Item]) -> str:
    """Passages as Markdown, each with its number and place. The fence is longer than any in the text."""
    blocks = []
    for item in items:
        fence = "```"
        while fence in item.text:
            fence += "`"
        blocks.append(f"[{item.number}] {item.place}\n{fence}\n{item.text}\n{fence}")
    return "\n\n".join(blocks)


def _focused(item: Item, finder: Finder) -> Item:
    first, last = focus(item.text, finder, PASSAGE_CHARS)
    text = excerpt(item.text, first, last, PASSAGE_CHARS)
    return Item(
        0, item.root, item.path, item.start_line + first, item.start_line + last, text, item.symbol, item.distance
    )


def _abstained(question: str, items: Sequence[Item], support: Support) -> Answer:
    text = "The indexed files do not seem to answer this."
    if support.absent:
        text += f" Not found where the rest is: {', '.join(support.absent[:5])}."
    if items:
        text += "\n\nThe nearest places:\n" + "\n".join(f"- {item.place}" for item in items[:PASSAGES])
    return Answer(question, text, "extractive", "abstained", missing=support.absent[:5] or (question,))
