"""Detectors: what the patterns of doing something look like in code.

The built-in ones are data, the TOML files beside this module: questions, each with competing answers. An answer is
found by a `regex`, by `imports` (the names of packages, as a regular expression), or by either. `words` are searched
first, which is a hundred times cheaper: a line, or what is near it, is tried only if it has one of them. An answer that
belongs to a framework names its `packages`: it counts only in areas that declare or import one of them. Answers that
serve different jobs do not compete (`advice = false`), a discouraged one (`poor`) is counted but never advised, and one
that its language or framework offers instead of the others (`modern`) is never to be avoided.

A project adds its own patterns in `.codeinfo.toml`. That file comes with an untrusted repository: its expressions and
queries are checked, and run only where they can be stopped.

Regular expressions rather than syntax queries: they are matched against the text that the index holds, and parsing
every file again would take longer than the rest of a report.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from codeinfo.errors import UsageError
from codeinfo.globs import GlobSet, check_globs
from codeinfo.languages import get_language, is_product, is_test_name
from codeinfo.model import FileKind, convert, split_lines
from codeinfo.operations.knowledge import PATTERN_CATEGORIES

MOST_PROJECT_PATTERNS = 100
_FILES = tuple("python javascript angular go java kotlin csharp rust php ruby".split())  # the order in golden files
_FAMILY = dict.fromkeys(("typescript", "tsx", "vue", "html"), "javascript")  # HTML: Angular's templates
# An import of a package. The match starts before the string with its name, where it counts as code.
_IMPORT = {
    "javascript": (
        r"""^(?![ \t]*(?:im|ex)port type\b)[^\n]*?\b(?:from\s+|require\(\s*|import\s*+(?:\(\s*)?)["'](?:{})["'/]"""
    ),
    "go": r'^(?:import )?[ \t]*(?:[\w.]+ )?(?=")"{}["/]',
    "python": r"^[ \t]*(?:from|import)\s+{}\b",
    "rust": r"^[ \t]*(?:pub )?(?:use|extern crate)\s+{0}\b|(?<!\w){0}::",
    "java": r"^[ \t]*import\s+(?:static\s+)?{}\b",
    "kotlin": r"^import\s+{}\b",
    "csharp": r"^[ \t]*(?:global\s+)?using\s+(?:static\s+)?{}\b",
    "php": r"^use\s+(?:function\s+)?\\?{}\b",
    "ruby": r"^[ \t]*require\s+[\"']{}[\"'/]",
}


def detector_language(language: str) -> str:
    """The language whose detectors a language shares, because its code answers the same questions in the same words."""
    return _FAMILY.get(language, language)


class Detector(Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of one `question` compete. A match starts in code, unless the detector is `in_text`."""

    name: str
    category: str
    question: str
    language: str  # a family
    expression: str  # matched with MULTILINE
    words: tuple[str, ...] = ()  # a file must contain one of them before the expression is tried
    example: str = ""
    in_text: bool = False  # templates stand in strings
    within: tuple[str, ...] = ()  # the file must contain one of these too: a framework's words are common elsewhere
    without: tuple[str, ...] = ()  # the file must contain none of these: the pattern is an omission
    packages: tuple[str, ...] = ()  # an area must declare or import one of them
    poor: bool = False  # never advised, however common
    prints: bool = False  # also how a program writes its results: where there is no other answer, it is none
    modern: bool = False  # what its language or framework offers instead of the other answers
    advice: bool = True  # whether the answers to its question compete; otherwise they are only counted
    paths: tuple[str, ...] = ()  # globs; () for every file of the language
    from_project: bool = False  # matched line by line, where it can be stopped
    query: str = ""  # a syntax query instead of an expression…
    grammar: str = ""  # …for files of this language alone: node names differ even within a family

    @property
    def spans_lines(self) -> bool:
        """Whether a match may continue on another line: whitespace in its middle, or a stretch of anything."""
        middle = self.expression.removeprefix(r"^\s*").removeprefix(r"^\s+")
        return any(part in middle for part in (r"\s", r"\n\s", "{0,"))


# --- the built-in ones ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def built_in_detectors() -> tuple[Detector, ...]:
    """Each answer, with defaults from its question and its file."""
    files = [msgspec.toml.decode(Path(__file__).with_name(f"{name}.toml").read_bytes()) for name in _FILES]
    pairs = ((file, question) for file in files for question in file.pop("questions"))
    return tuple(
        _detector({**_around(file, question), **question, **answer})
        for file, question in pairs
        for answer in question.pop("answers")
    )


def _around(file: dict[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    """A template names no package."""
    return {name: value for name, value in file.items() if name != "within" or not question.get("in_text")}


def _detector(row: dict[str, Any]) -> Detector:
    regex, imports = row.pop("regex", ""), row.pop("imports", "")
    imported = _IMPORT[row["language"]].format(imports) if imports else ""
    if re.fullmatch(r"(?:\w+\\\.)+\w+", imports):  # the code of the package itself is no example of using it
        package = imports.replace("\\", "")
        row["without"] = [*row.get("without", ()), f"package {package}", f"namespace {package}"]
    return convert({**row, "expression": "|".join(filter(None, (regex, imported)))}, Detector)


@lru_cache(maxsize=512)
def import_of(package: str, family: str) -> re.Pattern[str]:
    """How a file of a language family imports a package."""
    return re.compile(_IMPORT[family].format(re.escape(package)), re.MULTILINE)


# --- those of a project --------------------------------------------------------------------------------------------


class _ProjectPattern(Struct, forbid_unknown_fields=True):
    name: str
    category: str
    language: str
    question: str = ""
    regex: str = ""
    query: str = ""
    paths: tuple[str, ...] = ()


class PatternSandbox(Protocol):
    """Checks and runs a project's patterns within time limits: a protocol, since that takes a killable process and
    grammars, which this package does not import."""

    gave_up: bool  # some uses are missing: a pattern took too long

    def expression_complaint(self, expression: str) -> str:
        """What is wrong with an expression; "" if nothing."""

    def query_complaint(self, name: str, query: str) -> str:
        """What is wrong with a query for a language; "" if nothing."""

    def begin(self) -> None:
        """Reset the time limit for another report."""

    def lines(self, name: str, queries: Sequence[str], text: str) -> Sequence[Sequence[int]]:
        """The lines that each query matches in a text of the language."""

    def places(self, expressions: Sequence[str], text: str) -> Sequence[Sequence[tuple[int, int]]]:
        """The lines that each expression matches, each with the offset of the match."""

    def close(self) -> None: ...


def project_detectors(tables: Sequence[Mapping[str, Any]], sandbox: PatternSandbox) -> tuple[Detector, ...]:
    """Detectors from the tables of `.codeinfo.toml`; UsageError says what is wrong with one."""
    if len(tables) > MOST_PROJECT_PATTERNS:
        raise UsageError(f"{len(tables)} patterns are too many", next_step=f"Keep at most {MOST_PROJECT_PATTERNS}")
    return tuple(_project_detector(table, number, sandbox) for number, table in enumerate(tables, 1))


def _project_detector(table: Mapping[str, Any], number: int, sandbox: PatternSandbox) -> Detector:
    where = f"pattern {number} of .codeinfo.toml"
    try:
        pattern = convert(table, _ProjectPattern)
    except msgspec.ValidationError as error:
        step = f"Use strings for {', '.join(_ProjectPattern.__struct_fields__)}, and a list of them for paths"
        raise UsageError(f"{where}: {error}", next_step=step) from None
    if not pattern.name or not pattern.language:
        raise UsageError(f"{where} has no name or language", next_step="Give it both")
    if bool(pattern.regex) == bool(pattern.query):
        raise UsageError(f"{where} needs either a regex or a query", next_step="Give it one of them")
    if pattern.category not in PATTERN_CATEGORIES:
        step = f"Use one of {', '.join(PATTERN_CATEGORIES)}"
        raise UsageError(f"{where}: {pattern.category!r} is not a category", next_step=step)
    check_globs(pattern.paths, f"{where}, paths")
    if pattern.regex and (wrong := sandbox.expression_complaint(pattern.regex)):
        raise UsageError(f"{where}, regex: {wrong}", next_step="Correct the regex")
    if pattern.query and (wrong := sandbox.query_complaint(pattern.language, pattern.query)):
        raise UsageError(f"{where}, query: {wrong}", next_step="Correct the query")
    return Detector(
        name=pattern.name,
        category=pattern.category,
        question=pattern.question or f"{pattern.category}, the project's own",
        language=detector_language(pattern.language),
        expression=pattern.regex,
        paths=pattern.paths,
        from_project=True,
        query=pattern.query,
        grammar=pattern.language if pattern.query else "",
    )


# --- finding their uses in a file ------------------------------------------------------------------------------------


Use = tuple[int, int]  # position of the detector, line

# No part backtracks, so that no text makes the pass slower than linear: characters are matched possessively, and groups
# end where what follows them always matches. (Possessive groups fail in early releases of Python 3.11.) An unclosed
# string or comment ends with its line, or with the file.
_LINE_STRINGS = r"\"(?:\\.|[^\"\\\n]++)*\"?|'(?:\\.|[^'\\\n]++)*'?"
_LONG_STRINGS = r"\"(?:\\.|[^\"\\]++)*(?:\"|\\?\Z)|'(?:\\.|[^'\\]++)*(?:'|\\?\Z)"  # over several lines
_SLASHES = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*(?:\*/|\Z)"
_TRIPLE_DOUBLE = r"\"\"\"(?:\\.|[^\\\"]++|\"(?!\"\"))*(?:\"\"\"|\\?\Z)"
_TRIPLE_SINGLE = r"'''(?:\\.|[^\\']++|'(?!''))*(?:'''|\\?\Z)"

PRODUCT, TEST = "product", "test"  # other files are only checked for the project's own patterns
TESTING = "testing"  # the category of questions about tests
_FIXTURE = re.compile(r"(?:^|/)(?:_*fixtures?_*|testdata|__snapshots__|examples?|docs?|vendor)/")
_OWN_TESTS = re.compile(r"^#\[cfg\(test\)\][^\S\n]*\n(?:\s*+#\[.*\]\n)*+\s*+(?:pub )?mod\b", re.MULTILINE)

MOST_LINES = 200  # of one pattern in one file: more add nothing
TEMPLATES = "html"  # has only template patterns

LINES_BEFORE = 2  # a match may begin this far before its word…
CHARACTERS_BEHIND = 700  # …and reach this far past it: none of our expressions takes more than 500 of anything

_TEXT = {
    "python": rf"#[^\n]*+|[rRbBuUfF]{{0,2}}(?:{_TRIPLE_DOUBLE}|{_TRIPLE_SINGLE}|{_LINE_STRINGS})",
    "javascript": rf"{_SLASHES}|{_LINE_STRINGS}|`(?:\\.|[^`\\]++)*(?:`|\\?\Z)",
    "go": rf"{_SLASHES}|{_LINE_STRINGS}|`[^`]*+(?:`|\Z)",
    "java": rf"{_SLASHES}|{_TRIPLE_DOUBLE}|{_LINE_STRINGS}",
    "csharp": rf"{_SLASHES}|@\"(?:[^\"]++|\"\")*(?:\"|\Z)|{_LINE_STRINGS}",
    "php": rf"#(?!\[)[^\n]*+|{_SLASHES}|{_LONG_STRINGS}",
    "ruby": rf"#(?!\{{)[^\n]*+|{_LINE_STRINGS}",
    # A quote may begin a lifetime: only a closed character literal counts.
    "rust": rf"{_SLASHES}|r#+\"(?:[^\"]++|\"(?!#))*(?:\"#+|\Z)|\"(?:\\.|[^\"\\]++)*(?:\"|\\?\Z)|'(?:\\.|[^'\\\n])'",
    "elixir": rf"#(?!\{{)[^\n]*+|{_TRIPLE_DOUBLE}|{_LINE_STRINGS}",
}
_TEXT |= dict.fromkeys(("c", "cpp", "dart", "kotlin", "scala", "swift", "zig"), _TEXT["java"])


@lru_cache(maxsize=len(_TEXT))
def _expression(family: str) -> re.Pattern[str]:
    return re.compile(_TEXT[family], re.DOTALL)


# A string that stands alone after the head of a definition or at the start of a file.
_DOCUMENTATION = {
    "python": rf"(?P<before>\A\s*|:[ \t]*\n\s*)[rRuU]?(?:{_TRIPLE_DOUBLE}|{_TRIPLE_SINGLE})[ \t]*$",
    "elixir": rf"(?P<before>@(?:module|type)?doc (?:~S)?){_TRIPLE_DOUBLE}",
}


def without_comments(text: str, language: str) -> list[str]:
    """The lines of a file without comments and, in Python and Elixir, without documentation; unchanged in languages
    whose comments are not known."""
    family = detector_language(language)
    if family not in _TEXT:
        return split_lines(text)

    def blank(match: re.Match[str]) -> str:
        written = match.group()
        return "\n" * written.count("\n") if written[0] in "#/" else written

    text = _expression(family).sub(blank, text)
    if family in _DOCUMENTATION:
        alone = re.compile(_DOCUMENTATION[family], re.MULTILINE | re.DOTALL)
        text = alone.sub(lambda match: match["before"] + "\n" * match.group()[len(match["before"]) :].count("\n"), text)
    return [line.rstrip() for line in split_lines(text)]


def role_of(path: str, language: str, kind: FileKind) -> str:
    """The role of a file: a template is code here, except one of Blade, which mixes PHP with scripts."""
    if path.endswith(".blade.php"):
        return ""
    if kind is FileKind.TEST:
        return "" if _FIXTURE.search(path) else TEST
    return PRODUCT if is_product(path, FileKind.CODE if language == TEMPLATES else kind) else ""


def is_test_code(path: str, language: str, kind: FileKind) -> bool:
    """Whether a file has tests or helps them, and is not data for them: sources to try a program on, templates."""
    is_code = get_language(language).syntax is not None or is_test_name(path)
    return is_code and role_of(path, language, kind) == TEST


class CodeText:
    """A file's text that can tell whether a place is code; comments and strings are located on first use."""

    def __init__(self, text: str, family: str) -> None:
        self.text = text
        self._family = family
        self._lines_with: dict[str, list[tuple[int, int]]] = {}
        self._place = 0, 1  # an offset and its line

    @cached_property
    def _texts(self) -> list[tuple[int, int]]:
        return [match.span() for match in _expression(self._family).finditer(self.text)]

    def line_at(self, offset: int) -> int:
        """Counted from the place asked for last, which is near."""
        last, line = self._place
        lines = self.text.count("\n", min(last, offset), max(last, offset))
        self._place = offset, line + (lines if offset > last else -lines)
        return self._place[1]

    def is_code(self, offset: int) -> bool:
        """The first character of a string still counts as code: a pattern may begin with it."""
        if self._family not in _TEXT:
            return True  # only the project's own patterns are about this language
        at = bisect_right(self._texts, (offset, len(self.text))) - 1
        if at < 0 or offset >= self._texts[at][1]:
            return True
        return offset == self._texts[at][0] and self.text[offset] not in "#/"

    def lines_with(self, word: str) -> list[tuple[int, int]]:
        """Start and end of each line with a word; several detectors ask for the same one."""
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
        """Text around the lines that have one of the words, from two lines before to some way after."""
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
    """Detectors, compiled when a file first needs them. A project's own need a sandbox to run in."""

    def __init__(self, detectors: Sequence[Detector], sandbox: PatternSandbox | None = None) -> None:
        self.detectors = tuple(detectors)
        if sandbox is None and any(detector.from_project for detector in detectors):
            raise ValueError("a project's own patterns run only where they can be stopped")
        self._sandbox = sandbox
        # Built-in ones: family or TEMPLATES, and whether about tests → what the file must also contain → word →
        # positions.
        self._by_word: dict[tuple[str, bool], dict[tuple[str, ...], dict[str, list[int]]]] = {}
        self._expressions: dict[str, list[int]] = {}  # the project's, by family
        self._queries: dict[str, list[int]] = {}  # the project's, by grammar
        self._paths = {at: GlobSet(detector.paths) for at, detector in enumerate(self.detectors) if detector.paths}
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._packages: dict[str, dict[str, None]] = {}  # by family: those some detector asks for
        for position, detector in enumerate(self.detectors):
            self._packages.setdefault(detector.language, {}).update(dict.fromkeys(detector.packages))
            if detector.query:
                self._queries.setdefault(detector.grammar, []).append(position)
            elif detector.from_project:
                self._expressions.setdefault(detector.language, []).append(position)
            else:
                is_for_templates = detector.in_text and detector.language == detector_language(TEMPLATES)
                for place in (detector.language, TEMPLATES) if is_for_templates else (detector.language,):
                    about = place, detector.category == TESTING
                    words = self._by_word.setdefault(about, {}).setdefault(detector.within, {})
                    for word in detector.words:
                        words.setdefault(word, []).append(position)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any detector: uses found by others are then stale."""
        return hashlib.sha256(repr((MOST_LINES, self.detectors)).encode()).hexdigest()[:16]

    def knows(self, language: str) -> bool:
        place = _place(language)
        return (place, False) in self._by_word or place in self._expressions or language in self._queries

    def uses(self, text: str, language: str, path: str, role: str = "") -> list[Use]:
        """Each line that uses a pattern, once, by detector and line. Questions about tests apply to tests, others to
        product code, the project's own to every file."""
        code = CodeText(text, detector_language(language))
        tests_from = _tests_from(text) if role == PRODUCT else 1
        kinds = [about for about, is_asked in ((True, tests_from < math.inf), (False, tests_from > 1)) if is_asked]
        uses: list[Use] = []
        for position in self._find_possible(_place(language), text, kinds) if role else ():
            detector = self.detectors[position]
            if self._covers(position, path) and not any(word in text for word in detector.without):
                lines = self._lines(position, code)
                uses += [(position, line) for line in lines if (detector.category == TESTING) == (line >= tests_from)]
        if self._sandbox is None:
            return uses
        if language != TEMPLATES:
            uses += self._match_expressions(self._sandbox, code, detector_language(language), path)
        return uses + self._match_queries(self._sandbox, text, language, path)

    def packages(self, text: str, language: str) -> list[str]:
        """The packages a file imports, among those that detectors ask for."""
        family = detector_language(language)
        possible = (name for name in self._packages.get(family, ()) if name in text)
        return [name for name in possible if import_of(name, family).search(text)]

    def _match_expressions(self, sandbox: PatternSandbox, code: CodeText, family: str, path: str) -> list[Use]:
        positions = [at for at in self._expressions.get(family, ()) if self._covers(at, path)]
        if not positions:
            return []
        matches = sandbox.places([self.detectors[at].expression for at in positions], code.text)
        uses: list[Use] = []
        for at, places in zip(positions, matches, strict=True):
            lines = (line for line, offset in places if code.is_code(offset))
            uses += [(at, line) for line in islice(lines, MOST_LINES)]
        return uses

    def _match_queries(self, sandbox: PatternSandbox, text: str, language: str, path: str) -> list[Use]:
        positions = [at for at in self._queries.get(language, ()) if self._covers(at, path)]
        if not positions:
            return []
        matches = sandbox.lines(language, [self.detectors[at].query for at in positions], text)
        return [(at, line) for at, lines in zip(positions, matches, strict=True) for line in lines[:MOST_LINES]]

    def _find_possible(self, place: str, text: str, about_tests: Sequence[bool]) -> list[int]:
        """Built-in detectors whose words the text contains: most files have few of them."""
        possible: set[int] = set()
        groups = (self._by_word.get((place, about), {}) for about in about_tests)
        for within, by_word in chain.from_iterable(group.items() for group in groups):
            if not within or any(word in text for word in within):
                possible.update(at for word, positions in by_word.items() if word in text for at in positions)
        return sorted(possible)

    def _lines(self, position: int, code: CodeText) -> list[int]:
        detector, expression = self.detectors[position], self._compiled.get(position)
        if expression is None:
            expression = self._compiled[position] = re.compile(detector.expression, re.MULTILINE)
        lines: dict[int, None] = {}
        for match in _matches(expression, detector, code):
            matched = match.group()
            start = match.start() + len(matched) - len(matched.lstrip())
            if detector.in_text or code.is_code(start):
                lines[code.line_at(start)] = None
                if len(lines) == MOST_LINES:
                    break
        return list(lines)

    def _covers(self, position: int, path: str) -> bool:
        return position not in self._paths or self._paths[position].matches(path)


def _tests_from(text: str) -> float:
    """The line where a file's inline tests begin, as in Rust."""
    match = _OWN_TESTS.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else math.inf


def _place(language: str) -> str:
    return TEMPLATES if language == TEMPLATES else detector_language(language)


def _matches(expression: re.Pattern[str], detector: Detector, code: CodeText) -> Iterator[re.Match[str]]:
    """Only text near a word is tried: that is many times faster than trying every character of the file."""
    if detector.spans_lines:
        near = code.regions_with(detector.words)
        return chain.from_iterable(expression.finditer(code.text, start, end) for start, end in near)
    spans = (span for word in detector.words for span in code.lines_with(word))
    return filter(None, (expression.search(code.text, start, end) for start, end in spans))
