"""An answer without a model: the best passages, quoted and cited, or a plain word that the files do not answer.

Abstaining rests on two things. One is the question's own words: how much of what they weigh (rare words weigh more) one
of the best results has, in its text and in its name. The other is the search's confidence, which knows the vectors. A
question about something else shares only common words with the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from codeinfo.agent.evidence import Evidence, Item, estimated_tokens
from codeinfo.agent.gate import finder_of, focused, item_of
from codeinfo.model import Quality, SearchResult
from codeinfo.operations.answers import Answer, AnswerUsage
from codeinfo.search.query import EXPANSIONS
from codeinfo.tokens import stem, terms

PASSAGES = 3  # quoted in an answer
PASSAGE_CHARS = 900  # of each, the lines that answer best
JUDGED = 3  # best results that the question's words are looked for in

# Chosen on trees of the benchmark that are not those of the table in docs/answers.md: their own questions against those
# of other projects, many of which both answer. On 14 trees the sum refuses 0.7 % of the first and 72 % of the second;
# the words alone, at their best threshold, 3.6 % and 69 %.
NAME_WEIGHT = 0.7  # of words in the name of a file or definition, beside those in its text
LEAST_SUPPORT = 0.7  # of words and confidence together

EXTRACTIVE = "No language model was asked. These passages fit the question best:"


class Support(Struct, frozen=True):
    """How well the best results bear the question out; `absent` are words that none of them has, rare ones first."""

    value: float
    absent: tuple[str, ...]

    def enough(self, quality: Quality) -> bool:
        return self.value + quality.confidence >= LEAST_SUPPORT


def extract(question: str, found: SearchResult, items: Sequence[Item], weights: Mapping[str, float]) -> Answer:
    """`items` are what of the found may be shown; `weights` are the question's words by rarity."""
    support = support_of([item_of(hit, hit.text) for hit in found.hits[:JUDGED]], weights)
    if not items or not support.enough(found.quality):
        return _abstained(question, items, support, found.quality)
    finder = finder_of(weights)
    chosen = Evidence().show(focused(item, finder, PASSAGE_CHARS) for item in items[:PASSAGES])
    return Answer(
        question=question,
        text=f"{EXTRACTIVE}\n\n{quoted(chosen)}",
        kind="extractive",
        status="ok",
        citations=tuple(item.citation() for item in chosen),
        usage=AnswerUsage(evidence_tokens=estimated_tokens("".join(item.text for item in chosen))),
    )


def spellings(word: str) -> frozenset[str]:
    """The index terms that count as this word: its own, and those that programmers use for it."""
    return frozenset((stem(word), *(stem(other) for other in EXPANSIONS.get(word, ()))))


def support_of(items: Sequence[Item], weights: Mapping[str, float]) -> Support:
    whole = sum(weights.values())
    if not whole:
        return Support(0.0, ())
    in_text = [_words_in(f"{item.path} {item.symbol} {item.text}", weights) for item in items]
    in_name = [_words_in(f"{item.path.rpartition('/')[2]} {item.symbol}", weights) for item in items]
    value = (_largest(in_text, weights) + NAME_WEIGHT * _largest(in_name, weights)) / whole
    absent = sorted(weights.keys() - set().union(*in_text), key=lambda word: -weights[word])
    return Support(value, tuple(absent))


def _words_in(text: str, words: Mapping[str, float]) -> set[str]:
    has = set(terms(text))
    return {word for word in words if spellings(word) & has}


def _largest(found: Sequence[set[str]], weights: Mapping[str, float]) -> float:
    return max((sum(weights[word] for word in one) for one in found), default=0.0)


def quoted(items: Sequence[Item]) -> str:
    """Passages as Markdown, each with its number and place. The fence is longer than any in the text."""
    blocks = []
    for item in items:
        fence = "```"
        while fence in item.text:
            fence += "`"
        blocks.append(f"[{item.number}] {item.place}\n{fence}\n{item.text}\n{fence}")
    return "\n\n".join(blocks)


def _abstained(question: str, items: Sequence[Item], support: Support, quality: Quality) -> Answer:
    text = "The indexed files do not seem to answer this"
    text += f": {'; '.join(quality.reasons)}." if quality.reasons else "."
    if support.absent:
        text += f" Not found where the rest is: {', '.join(support.absent[:5])}."
    if items:
        text += "\n\nThe nearest places:\n" + "\n".join(f"- {item.place}" for item in items[:PASSAGES])
    return Answer(question, text, "extractive", "abstained", missing=support.absent[:5] or (question,))
