"""Detectors: how the ways of doing something look in code.

The built-in ones are data, the TOML files beside this module: questions, each with the answers that compete. An answer
is found by a `regex`, by `imports` (the names of packages, as a regular expression), or by either. `words` are looked
for first, which is a hundred times cheaper: a line, or what is near it, is tried only if it has one of them. An answer
that belongs to a framework names its `packages`: it counts only in areas that declare or import one of them. Answers
that serve different jobs do not compete (`advice = false`), one that nobody recommends (`poor`) is counted, but never
advised, and one that its language or framework offers instead of the others (`modern`) is never to be avoided.

A project adds patterns of its own in `.codeinfo.toml`. That file comes with an untrusted repository: its
expressions and queries are checked, and run, only where they can be stopped.

Regular expressions and not syntax queries: they are matched against the text that the index holds, and parsing every
file once more would take longer than all the rest of a report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from codeinfo.errors import UsageError
from codeinfo.globs import check_globs
from codeinfo.operations.knowledge import PATTERN_CATEGORIES

MOST_PROJECT_PATTERNS = 100
_FILES = (
    "python",
    "javascript",
    "angular",
    "go",
    "java",
    "csharp",
    "rust",
    "php",
)  # the order of a golden file's patterns
_FAMILY = dict.fromkeys(("typescript", "tsx", "vue", "html"), "javascript")  # HTML: Angular's templates
# An import of a package. The match starts before the string with its name, where it counts as code.
_IMPORT = {
    "javascript": r"""(?:from\s+|require\(\s*|import\s*\(?\s*)["'](?:{})["'/]""",
    "go": r'^(?:import )?\s*(?:[\w.]+ )?(?=")"{}["/]',
    "python": r"^\s*(?:from|import)\s+{}\b",
    "rust": r"^\s*(?:pub )?(?:use|extern crate)\s+{0}\b|(?<!\w){0}::",
    "java": r"^\s*import\s+(?:static\s+)?{}\b",
    "csharp": r"^\s*(?:global\s+)?using\s+(?:static\s+)?{}\b",
    "php": r"^use\s+(?:function\s+)?\\?{}\b",
}


def family(language: str) -> str:
    """The language whose detectors a language shares, because its code answers the same questions in the same words."""
    return _FAMILY.get(language, language)


class Detector(Struct, frozen=True):
    """Patterns of one `question` compete. A match starts in code, unless the detector is for what stands `in_text`."""

    name: str
    category: str
    question: str
    language: str  # a family
    expression: str  # matched with MULTILINE
    words: tuple[str, ...] = ()  # a file must hold one of them before the expression is tried
    example: str = ""
    in_text: bool = False  # templates stand in strings
    within: tuple[str, ...] = ()  # the file holds one of these as well: a framework's words are others' words too
    without: tuple[str, ...] = ()  # the file holds none of these: the pattern is that something is left out
    packages: tuple[str, ...] = ()  # an area must declare or import one of them
    poor: bool = False  # never advised, however common
    modern: bool = False  # what its language or framework offers instead of the other answers
    advice: bool = True  # whether the answers to its question compete; else they are only counted
    paths: tuple[str, ...] = ()  # globs; () for every file of the language
    from_project: bool = False  # matched line by line, where it can be stopped
    query: str = ""  # of the syntax, instead of an expression…
    grammar: str = ""  # …for files of this language alone: what nodes are called differs even within a family

    @property
    def spans_lines(self) -> bool:
        """Whether a match may go on to another line: white space in its middle, or a stretch of anything."""
        middle = self.expression.removeprefix(r"^\s*").removeprefix(r"^\s+")
        return any(part in middle for part in (r"\s", r"\n\s", "{0,"))


# --- the built-in ones ---------------------------------------------------------------------------------------------


class _Answer(Struct, forbid_unknown_fields=True):
    name: str
    words: tuple[str, ...]
    example: str
    regex: str = ""
    imports: str = ""
    packages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    poor: bool = False
    modern: bool = False


class _Question(Struct, forbid_unknown_fields=True):
    category: str
    question: str
    answers: tuple[_Answer, ...]
    in_text: bool = False
    packages: tuple[str, ...] = ()
    advice: bool = True


class _File(Struct, forbid_unknown_fields=True):
    language: str
    questions: tuple[_Question, ...]
    within: tuple[str, ...] = ()  # of questions about code; a template names no package
    packages: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def built_in_detectors() -> tuple[Detector, ...]:
    files = (msgspec.toml.decode(Path(__file__).with_name(f"{name}.toml").read_bytes(), type=_File) for name in _FILES)
    return tuple(
        _detector(file, question, answer)
        for file in files
        for question in file.questions
        for answer in question.answers
    )


def _detector(file: _File, question: _Question, answer: _Answer) -> Detector:
    imported = _IMPORT[file.language].format(answer.imports) if answer.imports else ""
    asked = {name: getattr(question, name) for name in ("category", "question", "in_text", "advice")}
    own = {name: getattr(answer, name) for name in ("name", "words", "example", "without", "poor", "modern", "paths")}
    return Detector(
        **asked,
        **own,
        language=file.language,
        expression="|".join(filter(None, (answer.regex, imported))),
        within=answer.within or (() if question.in_text else file.within),
        packages=answer.packages or question.packages or file.packages,
    )


@lru_cache(maxsize=512)
def import_of(package: str, family: str) -> re.Pattern[str]:
    """How a file of a language family imports a package."""
    return re.compile(_IMPORT[family].format(re.escape(package)), re.MULTILINE)


# --- those of a project --------------------------------------------------------------------------------------------


class _Own(Struct, forbid_unknown_fields=True):
    name: str
    category: str
    language: str
    question: str = ""
    regex: str = ""
    query: str = ""
    paths: tuple[str, ...] = ()


class PatternSandbox(Protocol):
    """Checks and runs what a project wrote, within limits of time: a seam, since that takes a process that can be
    killed and grammars, which are beyond this package."""

    gave_up: bool  # some uses are missing: a pattern took too long

    def expression_complaint(self, expression: str) -> str:
        """What is wrong with an expression; "" for nothing."""
        ...

    def query_complaint(self, name: str, query: str) -> str:
        """What is wrong with a query for a language; "" for nothing."""
        ...

    def begin(self) -> None:
        """Time for another report."""
        ...

    def lines(self, name: str, queries: Sequence[str], text: str) -> Sequence[Sequence[int]]:
        """The lines that each query matches in a text of the language."""
        ...

    def places(self, expressions: Sequence[str], text: str) -> Sequence[Sequence[tuple[int, int]]]:
        """The lines that each expression matches, each with the offset of the match."""
        ...

    def close(self) -> None: ...


def project_detectors(tables: Sequence[Mapping[str, Any]], sandbox: PatternSandbox) -> tuple[Detector, ...]:
    """Detectors from the tables of `.codeinfo.toml`; UsageError says what is wrong with one."""
    if len(tables) > MOST_PROJECT_PATTERNS:
        raise UsageError(f"{len(tables)} patterns are too many", next_step=f"Keep at most {MOST_PROJECT_PATTERNS}")
    return tuple(_project_detector(table, number, sandbox) for number, table in enumerate(tables, 1))


def _project_detector(table: Mapping[str, Any], number: int, sandbox: PatternSandbox) -> Detector:
    where = f"pattern {number} of .codeinfo.toml"
    try:
        own = msgspec.convert(table, _Own)
    except msgspec.ValidationError as error:
        step = f"Use texts for {', '.join(_Own.__struct_fields__)}, and a list of them for paths"
        raise UsageError(f"{where}: {error}", next_step=step) from None
    if not own.name or not own.language:
        raise UsageError(f"{where} has no name or language", next_step="Give it both")
    if bool(own.regex) == bool(own.query):
        raise UsageError(f"{where} needs either a regex or a query", next_step="Give it one of them")
    if own.category not in PATTERN_CATEGORIES:
        step = f"Use one of {', '.join(PATTERN_CATEGORIES)}"
        raise UsageError(f"{where}: {own.category!r} is not a category", next_step=step)
    check_globs(own.paths, f"{where}, paths")
    if own.regex and (wrong := sandbox.expression_complaint(own.regex)):
        raise UsageError(f"{where}, regex: {wrong}", next_step="Correct the regex")
    if own.query and (wrong := sandbox.query_complaint(own.language, own.query)):
        raise UsageError(f"{where}, query: {wrong}", next_step="Correct the query")
    return Detector(
        name=own.name,
        category=own.category,
        question=own.question or f"{own.category}, the project's own",
        language=family(own.language),
        expression=own.regex,
        paths=own.paths,
        from_project=True,
        query=own.query,
        grammar=own.language if own.query else "",
    )
