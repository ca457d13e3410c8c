"""The evidence of an answer: numbered passages, which of them go to a model, how much of each and in which form.

Every passage costs tokens, so those far below the best are dropped, and only the best keeps its whole chunk: the others
are cut to the lines that match. Measured in docs/answers.md.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.model import Passage, Quality, fill
from codeinfo.operations.answers import Citation, GradedItem
from codeinfo.search.focus import Finder, focus
from codeinfo.search.policy import PolicyResult, apply_policy
from codeinfo.search.query import EXPANSIONS, STOP_WORDS, read_query
from codeinfo.settings import RetrievalSettings
from codeinfo.tokens import identifiers, stem, terms

log = logging.getLogger(__name__)
PREVIEW_LINES, PREVIEW_CHARS = 6, 400  # of a passage, in lists of what was found


# --- passages --------------------------------------------------------------------------------------------------------


class Retrieval(Struct, frozen=True):
    """The passages that a search for an answer returned, best first, each a whole chunk."""

    query: str
    passages: tuple[Passage, ...]
    quality: Quality
    notes: tuple[str, ...] = ()


def list_graded(passages: Iterable[Passage]) -> tuple[GradedItem, ...]:
    graded = []
    for passage in passages:
        first_lines = "\n".join(passage.text.split("\n", PREVIEW_LINES)[:PREVIEW_LINES])
        graded.append(fill(GradedItem, passage, score=passage.grade, preview=first_lines[:PREVIEW_CHARS]))
    return tuple(graded)


def cite(passage: Passage, problem: str = "") -> Citation:
    return fill(Citation, passage, problem=problem)


class Evidence(Struct):
    """The passages of one run: those that are useful, and those `shown` by number once they are shown to the model."""

    useful: list[Passage] = field(default_factory=list)
    shown: dict[int, Passage] = field(default_factory=dict)
    _seen: set[tuple[str, str, int, int]] = field(default_factory=set)

    def fresh(self, passages: Iterable[Passage]) -> tuple[Passage, ...]:
        new = tuple(passage for passage in passages if _key(passage) not in self._seen)
        self._seen.update(map(_key, new))
        return new

    def show(self, passages: Iterable[Passage]) -> tuple[Passage, ...]:
        """Number the passages that go to the model. One that it has already seen keeps its number."""
        numbers = {_key(passage): passage.number for passage in self.shown.values()}
        shown_now = []
        for passage in passages:
            number = numbers.setdefault(_key(passage), len(self.shown) + 1)
            self.shown.setdefault(number, replace(passage, number=number))
            shown_now.append(self.shown[number])
        return tuple(dict.fromkeys(shown_now))


def _key(passage: Passage) -> tuple[str, str, int, int]:
    return passage.root, passage.path, passage.start_line, passage.end_line


def payload(evidence: Evidence, settings: RetrievalSettings, max_chars: int) -> PolicyResult:
    """The passages the answer is written from: everything useful of all rounds, best first. The policy's other limits
    are applied again, since two rounds together may exceed the chunks per file or the total size."""
    best = sorted(evidence.useful, key=lambda passage: -(1.0 if passage.grade is None else passage.grade))
    limits = replace(settings, cutoff_disabled=True, max_chars=min(settings.max_chars, max_chars))
    return apply_policy(best, limits)


def format_passages(passages: Sequence[Passage], label: str = "source") -> str:
    """The passages as data: each with its number and source."""
    mark = fence(passage.text for passage in passages)
    return "\n\n".join(enclose(f"{label} {passage.number} {passage.place}", passage.text, mark) for passage in passages)


def enclose(header: str, text: str, mark: str) -> str:
    """Text as data, between delimiters that it cannot forge. A file's name may have line breaks: the header has none,
    since what stands outside of the delimiters would be ours."""
    return f"<<<{' '.join(header.splitlines())} {mark}>>>\n{text}\n<<<end {mark}>>>"


_SECRET = os.urandom(16)  # without it, whoever writes all files could work the delimiter out


def fence(texts: Iterable[str]) -> str:
    """A delimiter derived from a hash of all texts, so that none of them can contain it on purpose."""
    digest = hashlib.sha256(_SECRET)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:12]


# --- what goes to a model --------------------------------------------------------------------------------------------

ALWAYS = 3  # passages kept whatever their score: with fewer there is nothing to grade

Weigh = Callable[[str], Mapping[str, float]]  # a query's words by rarity


class PassageFilter(Struct, frozen=True):
    policy: RetrievalSettings
    weigh: Weigh
    least_score: float
    passage_chars: int

    def admit(self, retrieval: Retrieval) -> PolicyResult:
        """The passages for a model: relevant, not far below the best, cut to the matching lines."""
        relevant = self.relevant(retrieval)
        best = max((passage.score for passage in relevant.kept), default=0.0)
        floor = self.least_score * best
        finder = finder_of(self.weigh(retrieval.query))
        admitted, dropped = list[Passage](), list(relevant.dropped)
        for place, passage in enumerate(relevant.kept):
            if place >= ALWAYS and passage.score < floor:
                dropped.append(passage.as_dropped("least_score", f"{passage.score / best:.2f} of the best score"))
                continue
            admitted.append(focus_passage(passage, finder, self.passage_chars) if admitted else passage)
        return replace(relevant, kept=tuple(admitted), dropped=tuple(dropped))

    def relevant(self, retrieval: Retrieval) -> PolicyResult:
        """The passages that pass the relevance policy. At any distance do the best, the next ones with more of the
        question's words, definitions of its names, and the files that set a project up in a question about it."""
        names = {name.lower() for name in identifiers(retrieval.query)} - STOP_WORDS - INSTRUCTIONS
        query = read_query(retrieval.query)
        best, others, weights = retrieval.passages[:1], retrieval.passages[1:ALWAYS], self.weigh(retrieval.query)
        words_of_best = max((weigh_words(passage.text, weights) for passage in best), default=0.0)
        named = (
            passage
            for passage in others
            if passage.symbol.rpartition(".")[2].lower() in names
            or query.is_set_up_by(passage.path)
            or weigh_words(passage.text, weights) > words_of_best
        )
        result = apply_policy(retrieval.passages, self.policy, named=(*best, *named))
        log.info("search for an answer: score source %s, %d with a distance", result.score_source, result.with_distance)
        return result


def finder_of(weights: Mapping[str, float]) -> Finder:
    return Finder({stem(word): weight for word, weight in weights.items()})


def focus_passage(passage: Passage, finder: Finder, chars: int, at: int | None = None) -> Passage:
    """The lines of a passage that match best, with the line `at` if one is requested; all of them where they fit."""
    shown = focus(passage.text, finder, chars, at=at)
    # A part of a table repeats the header above its own lines, so the text may have more lines than the passage.
    start, end = (min(passage.end_line, passage.start_line + offset) for offset in (shown.first, shown.last))
    return replace(passage, start_line=start, end_line=end, text=shown.text, chunk_id="")


# Instruction words ("explain", "show me") are not what a question is about.
INSTRUCTIONS = frozenset(
    """clarify demonstrate describe discuss document elaborate explain illustrate list outline present show summarise
    summarize tell walk""".split()
)


def content_words(words: Sequence[str]) -> Sequence[str]:
    """The words without a leading instruction, unless nothing else is left."""
    return words[1:] if len(words) > 1 and words[0] in INSTRUCTIONS else words


def spellings(word: str) -> frozenset[str]:
    """The index terms that match this word: its own and the synonyms programmers use."""
    return frozenset((stem(word), *(stem(synonym) for synonym in EXPANSIONS.get(word, ()))))


def words_in(text: str, words: Iterable[str]) -> set[str]:
    text_terms = set(terms(text))
    return {word for word in words if spellings(word) & text_terms}


def weigh_words(text: str, weights: Mapping[str, float]) -> float:
    """How much of a question's words a text has."""
    return sum(weights[word] for word in words_in(text, weights))


# --- as text ---------------------------------------------------------------------------------------------------------


def halve(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """The first half of the passages, or the first lines of a single one."""
    room = sum(len(passage.text) for passage in passages) // 2
    first: list[Passage] = []
    for passage in passages:
        room -= len(passage.text)
        if first and room < 0:
            break
        first.append(passage)
    if len(first) < len(passages):
        return tuple(first)
    lines = first[0].text.split("\n")
    half = lines[: max(1, len(lines) // 2)]
    return (replace(first[0], text="\n".join(half), end_line=first[0].start_line + len(half) - 1),)


def quote_passages(passages: Sequence[Passage]) -> str:
    """Passages as Markdown, each with its number, place and definition. The fence is longer than any in the text."""
    blocks = []
    for passage in passages:
        fence = "```"
        while fence in passage.text:
            fence += "`"
        place, name = passage.place, passage.symbol.rpartition(".")[2]
        if not passage.section and name not in passage.text:  # it begins within a definition
            place += f" ({passage.symbol})"
        blocks.append(f"[{passage.number}] {place}\n{fence}\n{passage.text}\n{fence}")
    return "\n\n".join(blocks)


# --- follow-up questions, made searchable without a model ------------------------------------------------------------

# A short follow-up ("and …", "it", "they") is searched together with the content words of the question before it, which
# may itself be a follow-up. Participles are left out: they are what was asked about the subject.

TURNS_BACK = 3  # people lose track of older subjects too
MOST_CARRIED = 6  # words: more would drown the question
SELF_CONTAINED = 5  # content words from which a question stands on its own

_TOKEN = re.compile(r"[\w$]+(?:(?:\.|::|->|/|#)[\w$]+)*")
_POINTING = frozenset("it its itself they them their theirs these those that this he him his she her there".split())
_OPENING = frozenset("and but or also then so".split())
_ABOUT = re.compile(r"\s*(?:and|but|or|so)?\s*(?:what|how) about\b", re.IGNORECASE)
_PARTICIPLE = re.compile(r"[a-z]{2,}(?:ed|ing)\Z")  # in lower case only: `Spring` is a name


def search_text(question: str, earlier: Sequence[str]) -> str:
    """The question plus what it refers back to; `earlier` holds the previous questions, oldest first."""
    query, *later = (*earlier[-TURNS_BACK:], question)
    for text in later:
        query = _with_subject(text, query) if points_back(text) else text
    return query


def points_back(question: str) -> bool:
    words = [token.lower() for token in _TOKEN.findall(question)]
    content = [word for word in words if word not in STOP_WORDS]
    if not content or len(content) >= SELF_CONTAINED:
        return not content
    return words[0] in _OPENING or _ABOUT.match(question) is not None or not _POINTING.isdisjoint(words)


def _with_subject(question: str, before: str) -> str:
    """The question followed by the subject of `before`, which may itself be a follow-up with its subject."""
    question_words = {token.lower() for token in _TOKEN.findall(question)}
    content = [token for token in _TOKEN.findall(before) if token.lower() not in STOP_WORDS | question_words]
    subject = [token for token in content if not _PARTICIPLE.match(token)] or content
    return " ".join((question, *dict.fromkeys(subject[:MOST_CARRIED])))
