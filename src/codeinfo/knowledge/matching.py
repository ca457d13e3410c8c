"""Finding the uses of patterns in a file."""

from __future__ import annotations

import fnmatch
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from functools import cached_property

from codeinfo.knowledge.code_text import CodeText
from codeinfo.knowledge.detector import FAMILY, Detector

MOST_LINES = 200  # of one pattern in one file: more say nothing new
OWN_LINE_CHARS = 200  # of a line that a project's own expression sees
OWN_SECONDS = 5.0  # for all of them together: an expression from a repository must not keep anyone waiting

Use = tuple[int, int]  # position of the detector, line


class Matcher:
    """Detectors, compiled when a file first needs them."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self.detectors = tuple(detectors)
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._by_family: dict[str, list[int]] = {}
        self._own_seconds = OWN_SECONDS
        for position, detector in enumerate(self.detectors):
            self._by_family.setdefault(detector.language, []).append(position)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a detector does: uses found by others are then of no use."""
        return hashlib.sha256(repr((MOST_LINES, self.detectors)).encode()).hexdigest()[:16]

    @property
    def gave_up(self) -> bool:
        """Whether the project's own patterns took too long, so that some of their uses are missing."""
        return self._own_seconds <= 0

    def knows(self, language: str) -> bool:
        return FAMILY.get(language, language) in self._by_family

    def uses(self, text: str, language: str, path: str) -> list[Use]:
        """Each line that uses a pattern, once, by detector and line."""
        family = FAMILY.get(language, language)
        code = CodeText(text, family)
        templates = language == "html"
        found: list[Use] = []
        for position in self._by_family.get(family, ()):
            detector = self.detectors[position]
            if templates and not detector.in_text:
                continue
            if detector.needles and not any(needle in text for needle in detector.needles):
                continue
            if detector.paths and not any(fnmatch.fnmatchcase(path, glob) for glob in detector.paths):
                continue
            found += [(position, line) for line in self._lines(position, detector, code)]
        return found

    def _lines(self, position: int, detector: Detector, code: CodeText) -> list[int]:
        expression = self._compiled.get(position)
        if expression is None:
            expression = self._compiled[position] = re.compile(detector.expression, re.MULTILINE)
        if detector.own:
            return self._own_lines(expression, code)
        lines: dict[int, None] = {}
        for match in self._matches(expression, detector, code.text):
            words = match.group()
            start = match.start() + len(words) - len(words.lstrip())
            if detector.in_text or code.is_code(start):
                lines[code.line_of(start)] = None
                if len(lines) == MOST_LINES:
                    break
        return list(lines)

    @staticmethod
    def _matches(expression: re.Pattern[str], detector: Detector, text: str) -> Iterator[re.Match[str]]:
        """Only lines with a needle are tried where a match cannot go on to the next line: that is many times quicker
        than trying every character of the file."""
        if not detector.needles or detector.spans_lines:
            yield from expression.finditer(text)
            return
        for needle in detector.needles:
            at = text.find(needle)
            while at >= 0:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                if found := expression.search(text, text.rfind("\n", 0, at) + 1, end):
                    yield found
                at = text.find(needle, end)

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
