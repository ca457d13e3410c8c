"""Clients of the MCP server: set them up, take it out of them again, and what it saved them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.requests import Opt

_AGENTS = "Only this client; may be given several times. All that are found on this machine unless named."
_DRY_RUN = "Only show what would be written."


class SavingsRequest(Struct, frozen=True):
    days: Annotated[int, Opt("Look back this many days, today included.", short="d", minimum=1, maximum=3650)] = 7


class ToolSavings(Struct, frozen=True):
    """Tokens, estimated as a quarter of the characters. `saved` is `files` less `returned`, or 0."""

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


class InstallRequest(Struct, frozen=True):
    agents: Annotated[tuple[str, ...], Opt(_AGENTS, short="a")] = ()
    tools: Annotated[str, Opt("The sets of tools to offer; see `codeinfo mcp --help`.", metavar="SETS")] = ""
    instructions: Annotated[
        bool,
        Opt(
            "Also tell agents when to use it, in this project's AGENTS.md (and CLAUDE.md, GEMINI.md where they exist)."
        ),
    ] = False
    dry_run: Annotated[bool, Opt(_DRY_RUN)] = False


class UninstallRequest(Struct, frozen=True):
    agents: Annotated[tuple[str, ...], Opt(_AGENTS, short="a")] = ()
    dry_run: Annotated[bool, Opt(_DRY_RUN)] = False


class FileChange(Struct, frozen=True):
    """What became of one client's file: `added`, `updated`, `removed`, `unchanged`, `kept` (it is somebody else's) or
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
