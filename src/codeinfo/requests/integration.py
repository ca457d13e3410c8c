"""Clients of the MCP server: set them up, take it out of them again, and what it saved them."""

from __future__ import annotations

from dataclasses import dataclass

from codeinfo.requests import _opt

_AGENTS = "Only this client; may be given several times. All that are found on this machine unless named."
_DRY_RUN = "Only show what would be written."


@dataclass(frozen=True, slots=True)
class SavingsRequest:
    days: int = _opt(7, "Look back this many days, today included.", short="d", minimum=1, maximum=3650)


@dataclass(frozen=True, slots=True)
class ToolSavings:
    """Tokens, estimated as a quarter of the characters. `saved` is `files` less `returned`, or 0."""

    tool: str
    calls: int
    returned: int
    files: int  # of the whole files that the returned text comes from
    saved: int


@dataclass(frozen=True, slots=True)
class DaySavings:
    day: str
    tools: tuple[ToolSavings, ...]


@dataclass(frozen=True, slots=True)
class SavingsReport:
    days: tuple[DaySavings, ...]
    calls: int
    returned: int
    files: int
    saved: int


@dataclass(frozen=True, slots=True)
class InstallRequest:
    agents: tuple[str, ...] = _opt((), _AGENTS, short="a")
    tools: str = _opt("", "The sets of tools to offer; see `codeinfo mcp --help`.", metavar="SETS")
    instructions: bool = _opt(
        False,
        "Also tell agents when to use it, in this project's AGENTS.md, and CLAUDE.md and GEMINI.md where they exist.",
    )
    dry_run: bool = _opt(False, _DRY_RUN)


@dataclass(frozen=True, slots=True)
class UninstallRequest:
    agents: tuple[str, ...] = _opt((), _AGENTS, short="a")
    dry_run: bool = _opt(False, _DRY_RUN)


@dataclass(frozen=True, slots=True)
class FileChange:
    """What became of one client's file: `added`, `updated`, `removed`, `unchanged`, `kept` (it is somebody else's) or
    `failed`; `diff` shows it line by line."""

    client: str
    path: str
    action: str
    detail: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class InstallReport:
    changes: tuple[FileChange, ...]
    dry_run: bool
    notes: tuple[str, ...] = ()
