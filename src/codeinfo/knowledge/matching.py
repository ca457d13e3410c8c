"""Finding the uses of patterns in a file."""

from __future__ import annotations

import fnmatch
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

from codeinfo.knowledge.code_text import CodeText
from codeinfo.knowledge.detector import FAMILY, Detector
from codeinfo.knowledge.needles import Needles

MOST_LINES = 200  # of one pattern in one file: more say nothing new
OWN_LINE_CHARS = 200  # of a line that a project's own expression sees
OWN_SECONDS = 5.0  # for all of them together: an expression from a repository must not keep anyone waiting

TEMPLATES = "html"  # has the patterns of templates only

Use = tuple[int, int]  # position of the detector, line


class SyntaxQueries(Protocol):
    """Runs queries of the syntax, which is beyond this room."""

    gave_up: bool

    def begin(self) -> None: ...

    def lines(self, name: str, queries: Sequence[str], text: str) -> Sequence[Sequence[int]]:
        """The lines that each query matches in a text of the language."""
        ...

    def close(self) -> None: ...


class Matcher:
    """Detectors, compiled when a file first needs them. Those that are queries need somebody to run them."""

    def __init__(self, detectors: Sequence[Detector], syntax: SyntaxQueries | None = None) -> None:
        self.detectors = tuple(detectors)
        self._syntax = syntax
        self._by_grammar: dict[str, list[int]] = {}
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._spans_lines = [detector.spans_lines for detector in self.detectors]  # worked out once
        self._own_seconds = OWN_SECONDS
        by_family: dict[str, dict[int, tuple[str, ...]]] = {}
        for position, detector in enumerate(self.detectors):
            if detector.query:
                self._by_grammar.setdefault(detector.grammar, []).append(position)
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
        return self._own_seconds <= 0 or (self._syntax is not None and self._syntax.gave_up)

    def begin(self) -> None:
        """Time for another report."""
        self._own_seconds = OWN_SECONDS
        if self._syntax is not None:
            self._syntax.begin()

    def close(self) -> None:
        """Nothing more to look at for now."""
        if self._syntax is not None:
            self._syntax.close()

    def knows(self, language: str) -> bool:
        family = TEMPLATES if language == TEMPLATES else FAMILY.get(language, language)
        return family in self._needles or language in self._by_grammar

    def uses(self, text: str, language: str, path: str) -> list[Use]:
        """Each line that uses a pattern, once, by detector and line."""
        family = FAMILY.get(language, language)
        code = CodeText(text, family)
        found: list[Use] = []
        for position in self._possible(TEMPLATES if language == TEMPLATES else family, text):
            detector = self.detectors[position]
            if _is_there(detector, path) and _is_within(detector, text):
                found += [(position, line) for line in self._lines(position, detector, code)]
        return found + self._queried(text, language, path)

    def _queried(self, text: str, language: str, path: str) -> list[Use]:
        positions = [at for at in self._by_grammar.get(language, ()) if _is_there(self.detectors[at], path)]
        if not positions or self._syntax is None:
            return []
        found = self._syntax.lines(language, [self.detectors[at].query for at in positions], text)
        return [(at, line) for at, lines in zip(positions, found, strict=True) for line in lines[:MOST_LINES]]

    def _possible(self, family: str, text: str) -> list[int]:
        """Detectors of which the text has a needle, and those without any. Most files have few of all the needles."""
        needles = self._needles.get(family)
        return sorted(needles.wanted_by(text)) if needles else []

    def _lines(self, position: int, detector: Detector, code: CodeText) -> list[int]:
        expression = self._compiled.get(position)
        if expression is None:
            expression = self._compiled[position] = re.compile(detector.expression, re.MULTILINE)
        if detector.own:
            return self._own_lines(expression, code)
        lines: dict[int, None] = {}
        for match in _matches(expression, detector, self._spans_lines[position], code):
            words = match.group()
            start = match.start() + len(words) - len(words.lstrip())
            if detector.in_text or code.is_code(start):
                lines[code.line_of(start)] = None
                if len(lines) == MOST_LINES:
                    break
        return list(lines)

    def _own_lines(self, expression: re.Pattern[str], code: CodeText) -> list[int]:
        lines: list[int] = []
        offset = 0
        for number, text in enumerate(code.text.split("\n"), 1):
            if self._own_seconds <= 0 or len(lines) == MOST_LINES:
                break
            started = time.perf_counter()
            match = expression.search(text[:OWN_LINE_CHARS])
            self._own_seconds -= time.perf_counter() - started
            if match and code.is_code(offset + match.start() + len(match.group()) - len(match.group().lstrip())):
                lines.append(number)
            offset += len(text) + 1
        return lines


def _is_there(detector: Detector, path: str) -> bool:
    return not detector.paths or any(fnmatch.fnmatchcase(path, glob) for glob in detector.paths)


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
