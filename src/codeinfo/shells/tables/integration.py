"""Clients of the MCP server, what it saved them, and operations they know from other servers."""

from __future__ import annotations

from codeinfo.requests import integration as requests
from codeinfo.requests import vectors
from codeinfo.shells.install import install, uninstall
from codeinfo.shells.operations import Operation

_RENDER = "codeinfo.shells.render_integration:render"


def _failures(report: requests.InstallReport) -> int:
    """3: done, but a client's file was left as it is."""
    return 3 if any(change.action == "failed" for change in report.changes) else 0


OPERATIONS = (
    Operation(
        name="vector-search",
        request=vectors.VectorSearchRequest,
        handler=lambda engine, request, progress: engine.vector_search(request),
        summary="Find chunks by meaning alone, cut by the relevance policy.",
        help="In the shape that clients of vector search expect; `search` is the better choice for people.",
        renderer=_RENDER,
    ),
    Operation(
        name="projects",
        request=vectors.ProjectsRequest,
        handler=lambda engine, request, progress: engine.projects(request),
        summary="List the projects that are indexed.",
        help="",
        renderer=_RENDER,
    ),
    Operation(
        name="savings",
        request=requests.SavingsRequest,
        handler=lambda engine, request, progress: engine.savings.report(request),
        summary="Show the tokens that agents were spared, by day and tool.",
        help="What tools returned, against reading the files it comes from. Counted on this machine only.",
        renderer=_RENDER,
    ),
    Operation(
        name="install",
        request=requests.InstallRequest,
        handler=lambda engine, request, progress: install(engine.config, request),
        summary="Add the MCP server to the agents on this machine.",
        help="Claude Code, Codex, Cursor, VS Code and others. Comments and formatting of their files stay as they are.",
        read_only=False,
        group="local",
        renderer=_RENDER,
        exit_code=_failures,
    ),
    Operation(
        name="uninstall",
        request=requests.UninstallRequest,
        handler=lambda engine, request, progress: uninstall(engine.config, request),
        summary="Take the MCP server out of the agents again.",
        help="Their files are as they were before.",
        read_only=False,
        group="local",
        renderer=_RENDER,
        exit_code=_failures,
    ),
)
