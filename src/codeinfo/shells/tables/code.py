"""Symbols, references and the graph of files."""

from __future__ import annotations

from codeinfo.requests import code as requests
from codeinfo.shells.operations import Operation

_RENDER = "codeinfo.shells.render_code:render"


def _row(name: str, request: type, method: str, summary: str, help: str) -> Operation:
    return Operation(
        name=name,
        request=request,
        handler=lambda engine, request, progress: getattr(engine.code, method)(request, progress),
        summary=summary,
        help=help,
        group="code",
        renderer=_RENDER,
    )


OPERATIONS: tuple[Operation, ...] = (
    _row("symbols", requests.SymbolsRequest, "symbols", "List what a file or folder defines.", ""),
    _row("defs", requests.DefsRequest, "definitions", "Show where a name is defined.", ""),
    _row(
        "refs",
        requests.RefsRequest,
        "references",
        "Show where a name is used.",
        "Found in the syntax, never in comments or strings. `resolved`: scopes and imports lead to the definition; "
        "`syntactic`: the name agrees, no more can be told.",
    ),
    _row("calls", requests.CallsRequest, "calls", "Show who calls a definition and what it calls.", ""),
    _row(
        "imports",
        requests.ImportsRequest,
        "imports",
        "Show what a file imports and who imports it.",
        "Each import leads to a file, leads out of the codebase, or is counted as unresolved.",
    ),
    _row(
        "map",
        requests.MapRequest,
        "map",
        "Show the codebase at a glance: entry points, hubs, layers, key types, hotspots.",
        "As text, as JSON, or drawn: `codeinfo map --format svg > map.svg`.",
    ),
    _row("cycles", requests.CyclesRequest, "cycles", "Find files that import each other in circles.", ""),
    _row("impact", requests.ImpactRequest, "impact", "Show what a change of a file may affect.", ""),
    _row(
        "hotspots",
        requests.HotspotsRequest,
        "hotspots",
        "Find large files that change often.",
        "From the git history: commits × lines.",
    ),
    _row("unused", requests.UnusedRequest, "unused", "Find exported definitions that no other file uses.", ""),
)
