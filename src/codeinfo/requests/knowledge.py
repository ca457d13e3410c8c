"""What the team knows: memories, patterns, metadata, style and the review of a change, as asked and as answered."""

from __future__ import annotations

from dataclasses import dataclass

from codeinfo.requests import _arg, _opt, _required
from codeinfo.types import RelatedMemory

_PROJECT = "The project's folder; the current one unless named."
_MEMORY_TYPES = ("convention", "decision", "gotcha", "failure")
_MEMORY_CATEGORIES = ("tooling", "architecture", "testing", "dependencies", "conventions")
PATTERN_CATEGORIES = (
    "dependency injection",
    "state management",
    "error handling",
    "async style",
    "testing",
    "data access",
    "validation",
    "logging",
    "configuration",
    "component style",
)


# --- memory --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RememberRequest:
    memory: str = _required("What to remember, in a sentence or two.")
    type: str = _opt("convention", "How it ages: a convention never does.", short="t", choices=_MEMORY_TYPES)
    category: str = _opt("conventions", "What it is about.", short="c", choices=_MEMORY_CATEGORIES)
    reason: str = _opt("", "Why it is so.", short="r")
    scope: str = _opt("", "file:PATH or symbol:NAME; the whole project unless given.", metavar="SCOPE")
    author: str = _opt("", "Whose words these are.", metavar="NAME")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class Remembered:
    """`known`: it had been remembered before; its date and reason are now the new ones."""

    memory: RelatedMemory
    known: bool


@dataclass(frozen=True, slots=True)
class MemoryListRequest:
    query: str = _arg("", "Only memories about this, by words and meaning.")
    type: str = _opt("", "Only memories of this type.", short="t", choices=_MEMORY_TYPES)
    category: str = _opt("", "Only memories of this category.", short="c", choices=_MEMORY_CATEGORIES)
    limit: int = _opt(20, "At most this many.", short="n", minimum=1, maximum=1000)
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class MemoryList:
    memories: tuple[RelatedMemory, ...]
    total: int  # before the limit
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryShowRequest:
    id: str = _required("The memory's id, or the start of it.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class MemoryRemoveRequest:
    id: str = _required("The memory's id, or the start of it.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class MemoryRemoved:
    memory: RelatedMemory


@dataclass(frozen=True, slots=True)
class MemoryExportRequest:
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class MemoryExport:
    """The memory file's content; what comes from git is not part of it."""

    format: int
    memories: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class MemoryImportRequest:
    file: str = _required("A file that `memory export` wrote, or a bare list of memories.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class MemoryImported:
    added: int
    known: int
    from_git: int  # left out: they are read from the history anyway


# --- patterns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatternsRequest:
    path: str = _arg(".", _PROJECT)
    category: str = _opt("", "Only this category.", short="c", choices=PATTERN_CATEGORIES)
    languages: tuple[str, ...] = _opt((), "Only patterns of this language; may be given several times.", short="l")
    history: bool = _opt(False, "When the lines that use each pattern were written, by month.")


@dataclass(frozen=True, slots=True)
class PatternHistory:
    """The lines that use a pattern today, by the month they were written in: `lines` begins with the month `since`
    ("2025-01") and ends with this one; `undated` are those that git was not asked about yet."""

    since: str
    lines: tuple[int, ...]
    older: int = 0
    undated: int = 0


@dataclass(frozen=True, slots=True)
class PatternUse:
    """One way of doing something. `adoption` is its share, in %, of the files that answer the same question at all."""

    name: str
    category: str
    question: str  # what the pattern is one answer to: patterns compete within a question
    language: str
    adoption: int
    files: int
    uses: int
    trend: str  # "Rising", "Stable" or "Declining"; "" where the history does not tell
    newest: str  # date of the newest line that uses it, "" where unknown
    guidance: str  # "use", "prefer", "avoid" or ""
    examples: tuple[str, ...] = ()  # "path:line"
    history: PatternHistory | None = None  # where it was asked for and git can tell


@dataclass(frozen=True, slots=True)
class PatternConflict:
    """Two ways of doing the same thing, each in more than a fifth of the files."""

    category: str
    question: str
    language: str
    patterns: tuple[str, str]
    adoption: tuple[int, int]


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """A file that writes code the way the team does now."""

    path: str
    language: str
    patterns: tuple[str, ...]  # the preferred ones it uses
    density: float  # their uses in a hundred lines


@dataclass(frozen=True, slots=True)
class PatternReport:
    patterns: tuple[PatternUse, ...]
    conflicts: tuple[PatternConflict, ...]
    golden_files: tuple[GoldenFile, ...]
    memories: tuple[RelatedMemory, ...] = ()
    notes: tuple[str, ...] = ()


# --- metadata and style --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    path: str = _arg(".", _PROJECT)


@dataclass(frozen=True, slots=True)
class Dependency:
    name: str
    version: str  # as the manifest states it, "" where it does not
    source: str  # "path:line"
    group: str = ""  # "", "dev", "test", "build", "optional"…


@dataclass(frozen=True, slots=True)
class Framework:
    name: str
    version: str
    evidence: str  # "path:line"


@dataclass(frozen=True, slots=True)
class LanguageSize:
    files: int
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TestSetup:
    files: int
    frameworks: tuple[str, ...]
    command: str  # how they are run, "" where nothing says so
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataReport:
    name: str
    root: str
    files: int
    lines: int
    languages: dict[str, LanguageSize]
    frameworks: tuple[Framework, ...]
    dependencies: tuple[Dependency, ...]
    tests: TestSetup
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StyleRequest:
    path: str = _arg(".", _PROJECT)
    query: str = _opt("", "Only rules with these words.")


@dataclass(frozen=True, slots=True)
class StyleRule:
    rule: str
    source: str  # "path:line"
    origin: str  # the tool that enforces it, or the document's heading


@dataclass(frozen=True, slots=True)
class StyleReport:
    rules: tuple[StyleRule, ...]
    notes: tuple[str, ...] = ()


# --- review --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    base: str = _arg("", "The revision to compare with; where the branch left the main one unless named.")
    path: str = _opt(".", _PROJECT, metavar="DIR")
    limit: int = _opt(20, "At most this many entries in each part.", short="n", minimum=1, maximum=200)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    path: str
    state: str  # "added", "changed" or "removed"
    added: int  # lines
    removed: int


@dataclass(frozen=True, slots=True)
class ChangedSymbol:
    name: str
    kind: str
    place: str  # "path:start-end"
    lines: int  # of it that changed
    callers: tuple[str, ...] = ()  # "path:line", outside the change


@dataclass(frozen=True, slots=True)
class Reviewer:
    name: str
    lines: int  # of those that were changed or removed, last written by this person
    files: int


@dataclass(frozen=True, slots=True)
class ReviewPacket:
    """What a reviewer wants at hand; `totals` says how many there were where a part was cut."""

    base: str  # the commit compared with
    files: tuple[ChangedFile, ...]
    symbols: tuple[ChangedSymbol, ...]
    missing_tests: tuple[str, ...]  # changed code without a test
    patterns: tuple[str, ...]  # what new lines do against the team's ways, and where
    memories: tuple[RelatedMemory, ...]
    reviewers: tuple[Reviewer, ...]
    totals: dict[str, int]
    notes: tuple[str, ...] = ()
