"""What clients of other servers know, MCP clients on this machine, and the queue of indexing runs.

Vector search and projects keep the contract's own field names.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from codeinfo.model import Skip
from codeinfo.operations.base import Arg, EmptyRequest, Opt, Progress, Texts, registry

OPERATIONS, _operation, _change = registry(section="For agents and browsers")

CONTRACT_NAMES = {"name": ("symbol", "name", "symbolId"), "path": ("file", "path")}  # of fields, for these clients


class VectorMatch(Struct, frozen=True):
    """`score` is the raw distance (squared L2, lower is closer)."""

    repo: str
    relPath: str
    containerPath: str
    hostPath: str
    score: float | None
    chunk: str
    chunkId: str
    modelId: str
    lineCount: int | None


class VectorFile(Struct, frozen=True):
    """`highestMatch` is the best match, which is the lowest distance."""

    hostPath: str
    highestMatch: float | None
    chunkCount: int
    lineCount: int | None
    repo: str
    modelId: str


class VectorSearchResult(Struct, frozen=True):
    results: tuple[VectorMatch, ...]
    modelId: str | None
    files: tuple[VectorFile, ...]  # sorted by hostPath


@_operation("vector-search", VectorSearchResult, "searches.vector_search", section="")
class VectorSearchRequest(Struct, frozen=True):
    """Find chunks by meaning only, filtered by the relevance policy.

    In the shape that clients of vector search expect; `search` is the better choice for people.
    """

    query: Annotated[str, Arg("What to look for, in plain words.")]
    repository: Annotated[str, Opt("Only this repository, by name or path; all by default.")] = ""
    limit: Annotated[int, Opt("At most this many results, 1 to 20.")] = 5


class Project(Struct, frozen=True):
    """An indexed root."""

    name: str
    root: str
    files: int
    chunks: int
    modelId: str
    indexedAt: str
    state: str  # "ready", "building", "damaged" or "gone" (the folder no longer exists)


class ProjectsResult(Struct, frozen=True):
    projects: tuple[Project, ...]


_operation("projects", ProjectsResult, "indexes.projects", "List the projects that are indexed.", section="The index")(
    EmptyRequest
)


class IngestRun(Struct, frozen=True):
    """`state` is queued, running, done, failed or cancelled; `position` counts from 1 for what waits, else 0."""

    id: str
    root: str
    full: bool
    state: str
    position: int
    created_at: str
    started_at: str = ""
    finished_at: str = ""
    progress: Progress | None = None
    files: int = 0
    chunks: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    took_ms: float = 0.0
    skipped: tuple[Skip, ...] = ()  # the ones users want to know about, at most SHOWN
    skipped_total: int = 0
    notes: tuple[str, ...] = ()
    error: str = ""
    error_code: str = ""


class IngestStatus(Struct, frozen=True):
    waiting: tuple[IngestRun, ...]  # the running one first
    finished: tuple[IngestRun, ...] = field(default=())  # the latest first


SHOWN = 100  # skipped files that a run keeps


_AGENTS = "Only this client; may be given several times. By default all that are found on this machine."
_DRY_RUN = "Only show what would be written."


class ToolSavings(Struct, frozen=True):
    """Tokens, estimated as a quarter of the characters. `saved` is `files` less `returned`."""

    tool: str
    calls: int
    returned: int
    files: int  # of the whole files that the returned text comes from
    saved: int


class DaySavings(Struct, frozen=True):
    day: str
    tools: tuple[ToolSavings, ...]


class SavingsReport(Struct, frozen=True):
    days: tuple[DaySavings, ...]
    calls: int
    returned: int
    files: int
    saved: int


@_operation("savings", SavingsReport, "savings.report")
class SavingsRequest(Struct, frozen=True):
    """Show the tokens that agents saved, by day and tool.

    Compares what tools returned with reading the whole files. Counted on this machine only.
    """

    days: Annotated[int, Opt("Look back this many days, today included.", short="d", minimum=1, maximum=3650)] = 7


class FileChange(Struct, frozen=True):
    """What happened to one client's file: `added`, `updated`, `removed`, `unchanged`, `kept` (it is not ours) or
    `failed`; `diff` shows it line by line."""

    client: str
    path: str
    action: str
    detail: str = ""
    diff: str = ""


class InstallReport(Struct, frozen=True):
    changes: tuple[FileChange, ...]
    dry_run: bool
    notes: tuple[str, ...] = ()


def _has_failed(report: InstallReport) -> bool:
    return any(change.action == "failed" for change in report.changes)


@_change("install", InstallReport, "codeinfo.shells.install:install", group="local", falls_short=_has_failed)
class InstallRequest(Struct, frozen=True):
    """Add the MCP server to the agents on this machine.

    Claude Code, Codex, Cursor, VS Code and others. Comments and formatting of their files stay as they are.
    """

    agents: Annotated[Texts, Opt(_AGENTS, short="a")] = ()
    tools: Annotated[str, Opt("The sets of tools to offer; see `codeinfo mcp --help`.", metavar="SETS")] = ""
    instructions: Annotated[
        bool,
        Opt("Also write when to use it into this project's AGENTS.md (and CLAUDE.md, GEMINI.md if they exist)."),
    ] = False
    skill: Annotated[bool, Opt("Also write a skill (SKILL.md) for the clients that support skills.")] = False
    always_load: Annotated[
        bool, Opt("Make clients that defer tools until they are searched for show these from the start.")
    ] = False
    plugin: Annotated[
        str, Opt("Also write a Claude Code plugin into this folder: skill, server and hook.", metavar="DIR")
    ] = ""
    dry_run: Annotated[bool, Opt(_DRY_RUN)] = False


@_change("uninstall", InstallReport, "codeinfo.shells.install:uninstall", group="local", falls_short=_has_failed)
class UninstallRequest(Struct, frozen=True):
    """Remove the MCP server from the agents.

    Restores their files to what they were before.
    """

    agents: Annotated[Texts, Opt(_AGENTS, short="a")] = ()
    dry_run: Annotated[bool, Opt(_DRY_RUN)] = False
