"""Citations checked against what was really retrieved: the number, the file, the lines, the words.

A claim is a sentence. An invented number is removed; a citation that does not bear its claim out stays and is marked,
so that a reader sees which part of an answer is not verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from codeinfo.answers.evidence import Item
from codeinfo.languages import language_of
from codeinfo.operations.answers import Citation, CitationFault
from codeinfo.search.query import STOP_WORDS
from codeinfo.tokens import terms

MARK = "unverified"
NO_SOURCE = "[no source]"  # where a claim lost its only citation
_CLAIM_SHOWN = 160  # characters of a claim that a fault quotes
_LONGEST_CLAIM = 2_000  # characters that are looked at: a model that never stops must not keep the checks busy
_FEW_TERMS = 3  # a claim of fewer words says too little to be compared
_LEAST_SHARED = 0.2  # of a claim's words that its source must have: below, it is about something else
_BETTER_BY = 0.34  # another source has so many more of them: the number was mixed up
_GOOD_SHARE = 0.6  # and this many are enough whatever another source has

_NUMBERS = re.compile(r"\[(\d{1,4}(?:\s{0,2}[,;]\s{0,2}\d{1,4}){0,20})\]")
_END = re.compile(r"[.!?](?:\s{0,2}\[\d[\d,; ]{0,80}\])*(?=\s|$)")
_CODE = re.compile(r"`([^`\n]{1,300})`")
_QUOTE = re.compile(r"\"([^\"\n]{2,300})\"|“([^”\n]{2,300})”")
_FILE = re.compile(r"[\w@+-][\w.@+/-]*\.\w{1,8}(?::(\d+)(?:\s?[-–]\s?(\d+))?)?")
_LINES = re.compile(r"\blines?\s+(\d+)(?:\s?(?:[-–]|to|and)\s?(\d+))?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)*(?:\(\))?")
_LOOKS_LIKE_CODE = re.compile(r"[a-z0-9][A-Z]|_[A-Za-z0-9]|\(\)$|::|->")
_SEPARATOR = re.compile(r"\.|::|->")


class Facts(Struct, frozen=True):
    """What a claim says that can be looked up."""

    files: tuple[tuple[str, int, int], ...]  # path, first and last line; 0 where no line is named
    lines: tuple[tuple[int, int], ...]
    words: tuple[str, ...]  # quoted text and names in code
    terms: frozenset[str]


class CitationChecker:
    """Takes an answer piece by piece, whole sentences or lines at a time. `items` may grow while it works."""

    def __init__(self, items: Mapping[int, Item]) -> None:
        self._items = items
        self._fenced = False
        self._problems: dict[int, str] = {}  # by number, in the order of the answer
        self.faults: list[CitationFault] = []

    def check(self, text: str) -> str:
        """The same text with invented numbers removed and failed ones marked. Code blocks are left alone."""
        lines = []
        for line in text.split("\n"):
            if line.lstrip().startswith("```"):
                self._fenced = not self._fenced
            elif not self._fenced:
                line = "".join(self._claim(claim) for claim in claims(line))
            lines.append(line)
        return "\n".join(lines)

    def citations(self) -> tuple[Citation, ...]:
        return tuple(self._items[number].citation(problem) for number, problem in sorted(self._problems.items()))

    def _claim(self, claim: str) -> str:
        groups = list(_NUMBERS.finditer(_masked(claim)))
        if not groups:
            return claim
        numbers = [number for group in groups for number in _numbers(group)]
        cited = [self._items[number] for number in numbers if number in self._items]
        bare = claim
        for group in reversed(groups):
            bare = bare[: group.start()] + bare[group.end() :]
        facts = facts_of(bare)
        kept: dict[int, str] = {}
        for number in dict.fromkeys(numbers):
            if number not in self._items:
                self._fault(number, bare, "nothing with this number was retrieved", "removed")
                continue
            problem = problem_with(facts, self._items[number], cited, self._items)
            kept[number] = f"{number}: {MARK}" if problem else str(number)
            self._problems[number] = problem or self._problems.get(number, "")
            if problem:
                self._fault(number, bare, problem, "marked")
        return _rewritten(claim, groups, kept)

    def _fault(self, number: int, claim: str, problem: str, action: str) -> None:
        self.faults.append(CitationFault(number, " ".join(claim.split())[:_CLAIM_SHOWN], problem, action))


# --- taking a claim apart ------------------------------------------------------------------------------------------


def claims(line: str) -> Iterator[str]:
    """The sentences of a line, citations behind a full stop with the sentence they close; joined they are the line."""
    masked = _masked(line)
    start = 0
    for end in _END.finditer(masked):
        yield line[start : end.end()]
        start = end.end()
    if start < len(line):
        yield line[start:]


def facts_of(claim: str) -> Facts:
    claim = claim[:_LONGEST_CLAIM]
    quoted = [match[1] for match in _CODE.finditer(claim)]
    quoted += [match[1] or match[2] for match in _QUOTE.finditer(_CODE.sub(" ", claim))]
    files, lines = [], [_span(match[1], match[2]) for match in _LINES.finditer(claim)]
    for match in _FILE.finditer(claim):
        path = match[0].partition(":")[0]
        if language_of(path) is not None:
            files.append((path, *_span(match[1], match[2])))
    named = {path for path, _, _ in files}
    words = [word for word in quoted if not any(path in word for path in named)]
    for match in _NAME.finditer(_CODE.sub(" ", claim)):
        if _LOOKS_LIKE_CODE.search(match[0]) and not any(match[0] in path for path in named):
            words.append(match[0])
    return Facts(tuple(files), tuple(lines), tuple(dict.fromkeys(words)), _content(claim))


def _span(first: str | None, last: str | None) -> tuple[int, int]:
    start = int(first) if first else 0
    return start, max(start, int(last)) if last else start


def _content(text: str) -> frozenset[str]:
    return frozenset(term for term in terms(text) if term not in STOP_WORDS and len(term) > 2)


# --- holding it against the source ---------------------------------------------------------------------------------


def problem_with(facts: Facts, item: Item, cited: Sequence[Item], items: Mapping[int, Item]) -> str:
    """Why this source does not bear the claim out, or "". What a claim with several sources names may be in any one."""
    for path, first, last in facts.files:
        if not any(_same_file(path, one.path) for one in cited):
            return f"it names {path}, the source is {item.path}"
        if first and not any(_same_file(path, one.path) and _within(first, last, one) for one in cited):
            return f"it names line {first}, the source has lines {item.start_line}-{item.end_line}"
    for first, last in facts.lines:
        if not any(_within(first, last, one) for one in cited):
            return f"it names line {first}, the source has lines {item.start_line}-{item.end_line}"
    for words in facts.words:
        if not any(_contains(one, words) for one in cited):
            return f"the source does not contain {words!r}"
    return _about_something_else(facts, item, items)


def _about_something_else(facts: Facts, item: Item, items: Mapping[int, Item]) -> str:
    if len(facts.terms) < _FEW_TERMS:
        return ""
    own = _shared(facts.terms, item)
    if own < _LEAST_SHARED:
        return "the source has hardly any of its words"
    if own < _GOOD_SHARE:
        for other in items.values():
            if other.number != item.number and _shared(facts.terms, other) > own + _BETTER_BY:
                return f"source {other.number} has far more of its words"
    return ""


def _shared(wanted: frozenset[str], item: Item) -> float:
    return len(wanted & _terms_of(item)) / len(wanted)


@lru_cache(maxsize=256)
def _terms_of(item: Item) -> frozenset[str]:
    return _content(f"{item.path} {item.symbol} {item.text}")


def _same_file(named: str, path: str) -> bool:
    named = named.removeprefix("./")
    return path == named or path.endswith(f"/{named}") or named.endswith(f"/{path}")


def _within(first: int, last: int, item: Item) -> bool:
    return item.start_line <= first and last <= item.end_line


def _contains(item: Item, words: str) -> bool:
    """The words as they stand, whatever the spacing; a dotted name by its parts, since code rarely spells it out."""
    text = f"{item.path}\n{item.symbol}\n{item.text}"
    wanted = words.strip().removesuffix("()").strip()
    if _squeezed(wanted) in _squeezed(text):
        return True
    parts = [part for part in _SEPARATOR.split(wanted) if part]
    if len(parts) > 1 and _NAME.fullmatch(wanted):
        return all(part in text for part in parts)
    return False


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()


# --- rewriting -----------------------------------------------------------------------------------------------------


def _masked(text: str) -> str:
    """The text with code in back quotes blanked, so that `items[0]` is no citation and `a.b` no sentence end."""
    return _CODE.sub(lambda match: "`" + "x" * len(match[1]) + "`", text)


def _numbers(group: re.Match[str]) -> list[int]:
    return [int(number) for number in re.split(r"[,;]", group[1])]


def _rewritten(claim: str, groups: Sequence[re.Match[str]], kept: Mapping[int, str]) -> str:
    parts: list[str] = []
    start = 0
    for position, group in enumerate(groups):
        between = claim[start : group.start()]
        left = "".join(f"[{kept[number]}]" for number in dict.fromkeys(_numbers(group)) if number in kept)
        if not left and not kept and position == len(groups) - 1:
            left = NO_SOURCE
        parts += [between if left else between.rstrip(" "), left]
        start = group.end()
    return "".join((*parts, claim[start:]))
