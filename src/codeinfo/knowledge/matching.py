"""Finding the uses of patterns in a file, outside of comments and strings."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Protocol

import numpy as np

from codeinfo.globs import GlobSet
from codeinfo.knowledge.detector import FAMILY, Detector

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


_TRIPLES = 1 << 16  # hashes: few enough for a table of them to stay in the cache
_FIRST, _SECOND = np.uint16(961), np.uint16(31)
_SHORT = 3


class Needles:
    """Words by whom they are wanted; whoever wants none is always served."""

    def __init__(self, wanted: Mapping[int, Sequence[str]]) -> None:
        self._always = [one for one, words in wanted.items() if not words]
        self._by_word: dict[str, list[int]] = {}
        for one, words in wanted.items():
            for word in words:
                self._by_word.setdefault(word, []).append(one)
        self._short = [word for word in self._by_word if len(word.encode()) < _SHORT]
        self._words = [word for word in self._by_word if len(word.encode()) >= _SHORT]
        triples = [_triples(word) for word in self._words]
        self._starts = np.cumsum([0, *map(len, triples)][:-1] if triples else [], dtype=np.intp)
        self._triples = np.concatenate(triples) if triples else np.zeros(0, np.uint16)

    def wanted_by(self, text: str) -> set[int]:
        found = set(self._always)
        for word in (*self._short, *self._likely(text)):
            if word in text:
                found.update(self._by_word[word])
        return found

    def _likely(self, text: str) -> list[str]:
        if not self._words:
            return []
        has = np.zeros(_TRIPLES, bool)
        has[_triples(text)] = True
        complete = np.logical_and.reduceat(has[self._triples], self._starts)
        return [self._words[at] for at in np.flatnonzero(complete)]


def _triples(text: str) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """A hash of every three neighbouring bytes."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.uint16)
    return data[:-2] * _FIRST + data[1:-1] * _SECOND + data[2:]


MOST_LINES = 200  # of one pattern in one file: more say nothing new

TEMPLATES = "html"  # has the patterns of templates only

Use = tuple[int, int]  # position of the detector, line


class PatternRunner(Protocol):
    """Runs what a project wrote where it can be stopped, which is beyond this room."""

    gave_up: bool

    def begin(self) -> None: ...

    def lines(self, name: str, queries: Sequence[str], text: str) -> Sequence[Sequence[int]]:
        """The lines that each query matches in a text of the language."""
        ...

    def places(self, expressions: Sequence[str], text: str) -> Sequence[Sequence[tuple[int, int]]]:
        """The lines that each expression matches, each with the offset of the match."""
        ...

    def close(self) -> None: ...


class Matcher:
    """Detectors, compiled when a file first needs them. Those of the project itself need somebody to run them."""

    def __init__(self, detectors: Sequence[Detector], runner: PatternRunner | None = None) -> None:
        self.detectors = tuple(detectors)
        if runner is None and any(detector.own for detector in detectors):
            raise ValueError("a project's own patterns run only where they can be stopped")
        self._runner = runner
        self._by_grammar: dict[str, list[int]] = {}
        self._own: dict[str, list[int]] = {}  # expressions of the project, by family
        self._paths = {at: GlobSet(detector.paths) for at, detector in enumerate(self.detectors) if detector.paths}
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._spans_lines = [detector.spans_lines for detector in self.detectors]  # worked out once
        by_family: dict[str, dict[int, tuple[str, ...]]] = {}
        for position, detector in enumerate(self.detectors):
            if detector.query:
                self._by_grammar.setdefault(detector.grammar, []).append(position)
            elif detector.own:
                self._own.setdefault(detector.language, []).append(position)
            else:
                by_family.setdefault(detector.language, {})[position] = detector.needles
                if detector.in_text and detector.language == FAMILY[TEMPLATES]:
                    by_family.setdefault(TEMPLATES, {})[position] = detector.needles
        self._needles = {family: Needles(needles) for family, needles in by_family.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a detector does: uses found by others are then of no use."""
        return hashlib.sha256(repr((MOST_LINES, self.detectors)).encode()).hexdigest()[:16]

    @property
    def gave_up(self) -> bool:
        """Whether the project's own patterns took too long, so that some of their uses are missing."""
        return self._runner is not None and self._runner.gave_up

    def begin(self) -> None:
        """Time for another report."""
        if self._runner is not None:
            self._runner.begin()

    def close(self) -> None:
        """Nothing more to look at for now."""
        if self._runner is not None:
            self._runner.close()

    def knows(self, language: str) -> bool:
        family = TEMPLATES if language == TEMPLATES else FAMILY.get(language, language)
        return family in self._needles or family in self._own or language in self._by_grammar

    def uses(self, text: str, language: str, path: str) -> list[Use]:
        """Each line that uses a pattern, once, by detector and line."""
        family = FAMILY.get(language, language)
        code = CodeText(text, family)
        found: list[Use] = []
        for position in self._possible(TEMPLATES if language == TEMPLATES else family, text):
            detector = self.detectors[position]
            if self._is_there(position, path) and _is_within(detector, text):
                found += [(position, line) for line in self._lines(position, detector, code)]
        own = [] if language == TEMPLATES else self._matched(code, family, path)
        return found + own + self._queried(text, language, path)

    def _matched(self, code: CodeText, family: str, path: str) -> list[Use]:
        positions = [at for at in self._own.get(family, ()) if self._is_there(at, path)]
        if not positions or self._runner is None:
            return []
        found = self._runner.places([self.detectors[at].expression for at in positions], code.text)
        uses: list[Use] = []
        for at, places in zip(positions, found, strict=True):
            lines = (line for line, offset in places if code.is_code(offset))
            uses += [(at, line) for line in islice(lines, MOST_LINES)]
        return uses

    def _queried(self, text: str, language: str, path: str) -> list[Use]:
        positions = [at for at in self._by_grammar.get(language, ()) if self._is_there(at, path)]
        if not positions or self._runner is None:
            return []
        found = self._runner.lines(language, [self.detectors[at].query for at in positions], text)
        return [(at, line) for at, lines in zip(positions, found, strict=True) for line in lines[:MOST_LINES]]

    def _possible(self, family: str, text: str) -> list[int]:
        """Detectors of which the text has a needle, and those without any. Most files have few of all the needles."""
        needles = self._needles.get(family)
        return sorted(needles.wanted_by(text)) if needles else []

    def _lines(self, position: int, detector: Detector, code: CodeText) -> list[int]:
        expression = self._compiled.get(position)
        if expression is None:
            expression = self._compiled[position] = re.compile(detector.expression, re.MULTILINE)
        lines: dict[int, None] = {}
        for match in _matches(expression, detector, self._spans_lines[position], code):
            words = match.group()
            start = match.start() + len(words) - len(words.lstrip())
            if detector.in_text or code.is_code(start):
                lines[code.line_of(start)] = None
                if len(lines) == MOST_LINES:
                    break
        return list(lines)

    def _is_there(self, position: int, path: str) -> bool:
        return position not in self._paths or self._paths[position].matches(path)


def _is_within(detector: Detector, text: str) -> bool:
    return not detector.within or any(word in text for word in detector.within)


def _matches(
    expression: re.Pattern[str], detector: Detector, spans_lines: bool, code: CodeText
) -> Iterator[re.Match[str]]:
    """Only what is near a needle is tried: that is many times quicker than trying every character of the file."""
    if not detector.needles:
        return expression.finditer(code.text)
    text = code.text
    if spans_lines:
        near = code.regions_with(detector.needles)
        return chain.from_iterable(expression.finditer(text, start, end) for start, end in near)
    spans = (span for needle in detector.needles for span in code.lines_with(needle))
    return filter(None, (expression.search(text, start, end) for start, end in spans))
