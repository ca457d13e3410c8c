"""Finding the uses of patterns in a file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Protocol

from codeinfo.globs import GlobSet
from codeinfo.knowledge.code_text import CodeText
from codeinfo.knowledge.detector import FAMILY, Detector
from codeinfo.knowledge.needles import Needles

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
