"""What the team knows: memories, patterns, metadata, style and the review of a change."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from codeinfo.model import RelatedMemory
from codeinfo.operations.base import PROJECT, Arg, Opt, Project, Texts, registry

ProjectFolder = Annotated[str, Arg("The project's folder; the current one by default.", names=PROJECT)]
_TYPES = ("convention", "decision", "gotcha", "failure")
_SCOPE = "file:PATH or symbol:NAME, several with commas between; the whole project by default."
_CATEGORIES = ("tooling", "architecture", "testing", "dependencies", "conventions")
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

OPERATIONS, _operation, _change = registry(group="knowledge", section="The team")


# --- memory ----------------------------------------------------------------------------------------------------------


class Remembered(Struct, frozen=True):
    """`known`: it existed already; its date and reason were updated."""

    memory: RelatedMemory
    known: bool


@_change("remember", Remembered, "knowledge.remember")
class RememberRequest(Struct, frozen=True):
    """Write down something about this project for later.

    Kept in .codeinfo/memory.json, to be committed with the project.
    """

    memory: Annotated[str, Arg("What to remember, in a sentence or two.")]
    type: Annotated[str, Opt("How it ages: a convention never expires.", short="t", choices=_TYPES)] = "convention"
    category: Annotated[str, Opt("What it is about.", short="c", choices=_CATEGORIES)] = "conventions"
    reason: Annotated[str, Opt("The reason for it.", short="r")] = ""
    scope: Annotated[str, Opt(_SCOPE, metavar="SCOPE")] = ""
    author: Annotated[str, Opt("Its author.", metavar="NAME")] = ""
    path: Project = "."


class MemoryList(Struct, frozen=True):
    memories: tuple[RelatedMemory, ...]
    total: int  # before the limit
    notes: tuple[str, ...] = ()


@_operation("memory list", MemoryList, "knowledge.memory_list")
class MemoryListRequest(Struct, frozen=True):
    """List the team's memories, newest first or by a query.

    Includes what commits of the last 90 days decided, fixed or reverted, and codebase-context's file.
    """

    query: Annotated[str, Arg("Only memories about this, by words and meaning.")] = ""
    type: Annotated[str, Opt("Only memories of this type.", short="t", choices=_TYPES)] = ""
    category: Annotated[str, Opt("Only memories of this category.", short="c", choices=_CATEGORIES)] = ""
    limit: Annotated[int, Opt("At most this many.", short="n", minimum=1, maximum=1000)] = 20
    path: Project = "."


class MemoryRequest(Struct, frozen=True):
    id: Annotated[str, Arg("The memory's id, or the start of it.")]
    path: Project = "."


_operation("memory show", RelatedMemory, "knowledge.memory_show", "Show one memory.")(MemoryRequest)


class MemoryRemoved(Struct, frozen=True):
    memory: RelatedMemory


_change(
    "memory remove", MemoryRemoved, "knowledge.memory_remove", "Remove a memory from the project's file.", removes=True
)(MemoryRequest)


class MemoryExport(Struct, frozen=True):
    """The memory file's content; what comes from git is not part of it."""

    format: int
    memories: tuple[dict[str, str], ...]


@_operation("memory export", MemoryExport, "knowledge.memory_export")
class MemoryExportRequest(Struct, frozen=True):
    """Write the project's memories as JSON."""

    path: Project = "."


class MemoryImported(Struct, frozen=True):
    added: int
    known: int
    from_git: int  # skipped: they are read from the history anyway


@_change("memory import", MemoryImported, "knowledge.memory_import", group="local")
class MemoryImportRequest(Struct, frozen=True):
    """Import memories from a file.

    Those already known stay as they are.
    """

    file: Annotated[str, Arg("A file that `memory export` wrote, or a bare list of memories.")]
    path: Project = "."


# --- patterns --------------------------------------------------------------------------------------------------------


class PatternHistory(Struct, frozen=True):
    """The lines that use a pattern today, by the month they were written in: `lines` begins with the month `since`
    ("2025-01") and ends with this one; `undated` are those whose dates are not known yet."""

    since: str
    lines: tuple[int, ...]
    older: int = 0
    undated: int = 0


class PatternUse(Struct, frozen=True):
    """One way of doing something in one area. `adoption` is its share, in %, of the files that answer the question."""

    name: str
    category: str
    question: str  # what the pattern is one answer to: patterns compete within a question
    language: str
    adoption: int
    files: int
    uses: int
    trend: str  # "Rising", "Stable" or "Declining" (another way takes its place); "" where the history is unknown
    newest: str  # date of the newest line that uses it, "" where the history is unknown
    guidance: str  # "use", "prefer", "avoid" or ""
    examples: tuple[str, ...] = ()  # "path:line"
    area: str = "."  # the package it was counted in, by its folder
    of_files: int = 0  # that answer the question
    authors: int = 0  # who changed its files in the last 400 days
    instead: str = ""  # what to use instead, where it should be avoided
    history: PatternHistory | None = None  # where it was asked for and git has it


class PatternConflict(Struct, frozen=True):
    """Two ways of doing the same thing in one area, each in more than a fifth of the files."""

    category: str
    question: str
    language: str
    patterns: tuple[str, str]
    adoption: tuple[int, int]
    area: str = "."


class GoldenFile(Struct, frozen=True):
    """A file that writes code the way the team does now."""

    path: str
    language: str
    patterns: tuple[str, ...]  # the preferred ones it uses
    density: float  # their uses in a hundred lines
    area: str = "."


class PatternReport(Struct, frozen=True):
    patterns: tuple[PatternUse, ...]
    conflicts: tuple[PatternConflict, ...]
    golden_files: tuple[GoldenFile, ...]
    memories: tuple[RelatedMemory, ...] = ()
    notes: tuple[str, ...] = ()
    # Family of languages → folders of its packages, "" for the top, where there are several.
    areas: dict[str, tuple[str, ...]] = field(default_factory=dict)


@_operation("patterns", PatternReport, "knowledge.patterns")
class PatternsRequest(Struct, frozen=True):
    """Show how the team writes code: adoption, trends, conflicts, golden files.

    Trends come from the git dates of the lines that use a pattern.
    """

    path: Annotated[str, Arg("The folder or file to look at; the whole project by default.", names=PROJECT)] = ""
    category: Annotated[str, Opt("Only this category.", short="c", choices=PATTERN_CATEGORIES)] = ""
    languages: Annotated[Texts, Opt("Only patterns of this language; may be given several times.", short="l")] = ()
    history: Annotated[bool, Opt("Show when the lines that use each pattern were written, by month.")] = False


# --- metadata and style ----------------------------------------------------------------------------------------------


class Dependency(Struct, frozen=True):
    name: str
    version: str  # as the manifest states it, "" where it does not
    source: str  # "path:line"
    group: str = ""  # "", "dev", "test", "build", "optional"…


class Framework(Struct, frozen=True):
    name: str
    version: str
    evidence: str  # "path:line"


class LanguageSize(Struct, frozen=True):
    files: int
    lines: int
    bytes: int


class TestSetup(Struct, frozen=True):
    files: int
    frameworks: tuple[str, ...]
    command: str  # how they are run, "" where nothing says so
    evidence: tuple[str, ...] = ()
    inline: int = 0  # further files, with tests beside the code


class MetadataReport(Struct, frozen=True):
    name: str
    root: str
    files: int
    lines: int
    languages: dict[str, LanguageSize]
    frameworks: tuple[Framework, ...]
    dependencies: tuple[Dependency, ...]
    tests: TestSetup
    notes: tuple[str, ...] = ()


@_operation("metadata", MetadataReport, "knowledge.metadata")
class MetadataRequest(Struct, frozen=True):
    """Languages, sizes, frameworks, dependencies with versions, test set-up."""

    path: ProjectFolder = "."


class StyleRule(Struct, frozen=True):
    rule: str
    source: str  # "path:line"
    origin: str  # the tool that enforces it, or the document's heading
    name: str = ""  # of a tool's rule…
    value: str = ""  # …and what it is set to
    also: tuple[str, ...] = ()  # other places that say the same


class StyleReport(Struct, frozen=True):
    rules: tuple[StyleRule, ...]
    notes: tuple[str, ...] = ()


@_operation("style", StyleReport, "knowledge.style")
class StyleRequest(Struct, frozen=True):
    """The style rules of the project's own documents and tools, with their lines."""

    path: ProjectFolder = "."
    query: Annotated[str, Opt("Only rules with these words.")] = ""


# --- review ----------------------------------------------------------------------------------------------------------


class ChangedFile(Struct, frozen=True):
    path: str
    state: str  # "added", "changed" or "removed"
    added: int  # lines
    removed: int


class ChangedSymbol(Struct, frozen=True):
    name: str
    kind: str
    place: str  # "path:start-end"
    lines: int  # of it that changed
    callers: tuple[str, ...] = ()  # "path:line", outside the change


class Reviewer(Struct, frozen=True):
    name: str
    lines: int  # of those that were changed or removed, last written by this person
    files: int


class Finding(Struct, frozen=True):
    """Something about a change that a reviewer should look at."""

    kind: str  # "api", "expectation", "contradiction", "dependency", "untested", "unused", "callers" or "risk"
    place: str  # "path:line"
    message: str


class ReviewPacket(Struct, frozen=True):
    """What a reviewer needs; `totals` has the full counts where a part was cut."""

    base: str  # the commit compared with
    files: tuple[ChangedFile, ...]
    symbols: tuple[ChangedSymbol, ...]
    missing_tests: tuple[str, ...]  # changed code without a test
    patterns: tuple[str, ...]  # where new lines break the team's patterns
    memories: tuple[RelatedMemory, ...]
    reviewers: tuple[Reviewer, ...]
    totals: dict[str, int]
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()  # the gravest first


@_operation("review", ReviewPacket, "knowledge.review")
class ReviewRequest(Struct, frozen=True):
    """Collect what a reviewer of a change needs: symbols, callers, tests, patterns, memories, reviewers.

    Compares the working files with a git revision. No model is used.
    """

    base: Annotated[str, Arg("The revision to compare with; by default where the branch left the main one.")] = ""
    path: Project = "."
    limit: Annotated[int, Opt("At most this many entries in each part.", short="n", minimum=1, maximum=200)] = 20
