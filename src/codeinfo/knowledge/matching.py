"""Finding the uses of patterns in a file, outside of comments and strings."""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice

from codeinfo.globs import GlobSet
from codeinfo.knowledge.detectors import Detector, PatternSandbox, family, import_of
from codeinfo.languages import is_product
from codeinfo.model import FileKind

Use = tuple[int, int]  # position of the detector, line

# No part gives anything back, so that no text makes the pass slower than linear: characters are taken possessively, and
# groups end where what follows them always matches. (Possessive groups fail in early releases of Python 3.11.) What is
# not closed ends with its line, or with the file.
_LINE_STRINGS = r"\"(?:\\.|[^\"\\\n]++)*\"?|'(?:\\.|[^'\\\n]++)*'?"
_LONG_STRINGS = r"\"(?:\\.|[^\"\\]++)*(?:\"|\\?\Z)|'(?:\\.|[^'\\]++)*(?:'|\\?\Z)"  # of several lines
_SLASHES = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*(?:\*/|\Z)"
_TRIPLE_DOUBLE = r"\"\"\"(?:\\.|[^\\\"]++|\"(?!\"\"))*(?:\"\"\"|\\?\Z)"
_TRIPLE_SINGLE = r"'''(?:\\.|[^\\']++|'(?!''))*(?:'''|\\?\Z)"

PRODUCT, TEST = "product", "test"  # what a file is to the team; others are asked for the project's own patterns only
TESTING = "testing"  # the category of questions about tests
_FIXTURE = re.compile(r"(?:^|/)(?:_*fixtures?_*|testdata|__snapshots__|examples?|docs?|vendor)/")
_OWN_TESTS = re.compile(r"^#\[cfg\(test\)\]\s*\n(?:\s*#\[.*\]\n)*\s*(?:pub )?mod\b", re.MULTILINE)

MOST_LINES = 200  # of one pattern in one file: more say nothing new
TEMPLATES = "html"  # has the patterns of templates only

LINES_BEFORE = 2  # where what an expression finds may begin before its word…
CHARACTERS_BEHIND = 700  # …and how far it may reach behind it: no expression of ours takes more than 500 of anything

_TEXT = {
    "python": rf"#[^\n]*+|[rRbBuUfF]{{0,2}}(?:{_TRIPLE_DOUBLE}|{_TRIPLE_SINGLE}|{_LINE_STRINGS})",
    "javascript": rf"{_SLASHES}|{_LINE_STRINGS}|`(?:\\.|[^`\\]++)*(?:`|\\?\Z)",
    "go": rf"{_SLASHES}|{_LINE_STRINGS}|`[^`]*+(?:`|\Z)",
    "java": rf"{_SLASHES}|{_TRIPLE_DOUBLE}|{_LINE_STRINGS}",
    "csharp": rf"{_SLASHES}|@\"(?:[^\"]++|\"\")*(?:\"|\Z)|{_LINE_STRINGS}",
    "php": rf"#(?!\[)[^\n]*+|{_SLASHES}|{_LONG_STRINGS}",
    # A quote may begin a lifetime: only a closed character counts.
    "rust": rf"{_SLASHES}|r#+\"(?:[^\"]++|\"(?!#))*(?:\"#+|\Z)|\"(?:\\.|[^\"\\]++)*(?:\"|\\?\Z)|'(?:\\.|[^'\\\n])'",
}


@lru_cache(maxsize=len(_TEXT))
def _expression(family: str) -> re.Pattern[str]:
    return re.compile(_TEXT[family], re.DOTALL)


# A string that stands alone behind the head of a definition or at the start of a file.
_DOCUMENTATION = {
    "python": rf"(?P<before>\A\s*|:[ \t]*\n\s*)[rRuU]?(?:{_TRIPLE_DOUBLE}|{_TRIPLE_SINGLE})[ \t]*$",
}


def without_comments(text: str, language: str) -> list[str]:
    """The lines of a file without comments, and in Python without documentation; as they are in other languages."""
    own = family(language)
    if own not in _TEXT:
        return text.splitlines()

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return "\n" * found.count("\n") if found[0] in "#/" else found

    text = _expression(own).sub(blank, text)
    if own in _DOCUMENTATION:
        alone = re.compile(_DOCUMENTATION[own], re.MULTILINE | re.DOTALL)
        text = alone.sub(lambda match: match["before"] + "\n" * match.group()[len(match["before"]) :].count("\n"), text)
    return [line.rstrip() for line in text.splitlines()]


def role_of(path: str, language: str, kind: FileKind) -> str:
    """What a file is to the team: a template is code here."""
    if kind is FileKind.TEST:
        return "" if _FIXTURE.search(path) else TEST
    return PRODUCT if is_product(path, FileKind.CODE if language == TEMPLATES else kind) else ""


class CodeText:
    """A file's text, able to say whether a place is code; comments and strings are looked for when first needed."""

    __slots__ = ("_ends", "_family", "_last_line", "_lines_with", "_starts", "text")

    def __init__(self, text: str, family: str) -> None:
        self.text = text
        self._family = family
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        self._last_line = 0, 1
        self._lines_with: dict[str, list[tuple[int, int]]] = {}

    def is_code(self, offset: int) -> bool:
        """The first character of a string still counts as code: a pattern may begin with it."""
        if self._family not in _TEXT:
            return True  # a language that only a project's own patterns are about
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
        spans = self._lines_with.get(word)
        if spans is None:
            spans, text = [], self.text
            at = text.find(word)
            while at >= 0:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                spans.append((text.rfind("\n", 0, at) + 1, end))
                at = text.find(word, end)
            self._lines_with[word] = spans
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


class Matcher:
    """Detectors, compiled when a file first needs them. Those of a project need a sandbox to run in."""

    def __init__(self, detectors: Sequence[Detector], sandbox: PatternSandbox | None = None) -> None:
        self.detectors = tuple(detectors)
        if sandbox is None and any(detector.from_project for detector in detectors):
            raise ValueError("a project's own patterns run only where they can be stopped")
        self._sandbox = sandbox
        # Built-in ones: family or TEMPLATES → what the file must hold besides → word → positions.
        self._by_word: dict[str, dict[tuple[str, ...], dict[str, list[int]]]] = {}
        self._expressions: dict[str, list[int]] = {}  # of the project, by family
        self._queries: dict[str, list[int]] = {}  # of the project, by grammar
        self._paths = {at: GlobSet(detector.paths) for at, detector in enumerate(self.detectors) if detector.paths}
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._packages: dict[str, dict[str, None]] = {}  # by family: those that some detector asks for
        for position, detector in enumerate(self.detectors):
            self._packages.setdefault(detector.language, {}).update(dict.fromkeys(detector.packages))
            if detector.query:
                self._queries.setdefault(detector.grammar, []).append(position)
            elif detector.from_project:
                self._expressions.setdefault(detector.language, []).append(position)
            else:
                templates = (TEMPLATES,) if detector.in_text and detector.language == family(TEMPLATES) else ()
                for place in (detector.language, *templates):
                    words = self._by_word.setdefault(place, {}).setdefault(detector.within, {})
                    for word in detector.words:
                        words.setdefault(word, []).append(position)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a detector does: uses found by others are then of no use."""
        return hashlib.sha256(repr((MOST_LINES, self.detectors)).encode()).hexdigest()[:16]

    def knows(self, language: str) -> bool:
        return _place(language) in self._by_word or _place(language) in self._expressions or language in self._queries

    def uses(self, text: str, language: str, path: str, role: str = "") -> list[Use]:
        """Each line that uses a pattern, once, by detector and line. Questions about tests are asked of tests, others
        of product code, those of the project of every file."""
        code = CodeText(text, family(language))
        tests_from = _tests_from(text) if role == PRODUCT else 1
        found: list[Use] = []
        for position in self._possible(_place(language), text) if role else ():
            if self._is_there(position, path) and not any(one in text for one in self.detectors[position].without):
                about_tests = self.detectors[position].category == TESTING
                found += [
                    (position, line) for line in self._lines(position, code) if about_tests == (line >= tests_from)
                ]
        if self._sandbox is None:
            return found
        if language != TEMPLATES:
            found += self._matched_expressions(self._sandbox, code, family(language), path)
        return found + self._matched_queries(self._sandbox, text, language, path)

    def packages(self, text: str, language: str) -> list[str]:
        """The packages a file imports, of those that detectors ask for."""
        own = family(language)
        return [name for name in self._packages.get(own, ()) if name in text and import_of(name, own).search(text)]

    def _matched_expressions(self, sandbox: PatternSandbox, code: CodeText, family: str, path: str) -> list[Use]:
        positions = [at for at in self._expressions.get(family, ()) if self._is_there(at, path)]
        if not positions:
            return []
        found = sandbox.places([self.detectors[at].expression for at in positions], code.text)
        uses: list[Use] = []
        for at, places in zip(positions, found, strict=True):
            lines = (line for line, offset in places if code.is_code(offset))
            uses += [(at, line) for line in islice(lines, MOST_LINES)]
        return uses

    def _matched_queries(self, sandbox: PatternSandbox, text: str, language: str, path: str) -> list[Use]:
        positions = [at for at in self._queries.get(language, ()) if self._is_there(at, path)]
        if not positions:
            return []
        found = sandbox.lines(language, [self.detectors[at].query for at in positions], text)
        return [(at, line) for at, lines in zip(positions, found, strict=True) for line in lines[:MOST_LINES]]

    def _possible(self, place: str, text: str) -> list[int]:
        """Built-in detectors of which the text has a word: most files have few of all the words."""
        found: set[int] = set()
        for within, by_word in self._by_word.get(place, {}).items():
            if not within or any(word in text for word in within):
                found.update(at for word, positions in by_word.items() if word in text for at in positions)
        return sorted(found)

    def _lines(self, position: int, code: CodeText) -> list[int]:
        detector, expression = self.detectors[position], self._compiled.get(position)
        if expression is None:
            expression = self._compiled[position] = re.compile(detector.expression, re.MULTILINE)
        lines: dict[int, None] = {}
        for match in _matches(expression, detector, code):
            matched = match.group()
            start = match.start() + len(matched) - len(matched.lstrip())
            if detector.in_text or code.is_code(start):
                lines[code.line_of(start)] = None
                if len(lines) == MOST_LINES:
                    break
        return list(lines)

    def _is_there(self, position: int, path: str) -> bool:
        return position not in self._paths or self._paths[position].matches(path)


def _tests_from(text: str) -> float:
    """The line where a file's own tests begin, as Rust has them."""
    found = _OWN_TESTS.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else math.inf


def _place(language: str) -> str:
    return TEMPLATES if language == TEMPLATES else family(language)


def _matches(expression: re.Pattern[str], detector: Detector, code: CodeText) -> Iterator[re.Match[str]]:
    """Only what is near a word is tried: that is many times quicker than trying every character of the file."""
    if detector.spans_lines:
        near = code.regions_with(detector.words)
        return chain.from_iterable(expression.finditer(code.text, start, end) for start, end in near)
    spans = (span for word in detector.words for span in code.lines_with(word))
    return filter(None, (expression.search(code.text, start, end) for start, end in spans))
