"""The default tools: find code, see who uses it. Descriptions are written for the model that chooses: what it gets, and
when this is the right tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from codeinfo.operations import code, search
from codeinfo.shells import mcp_shapes as shapes
from codeinfo.shells.mcp_schema import Input, inputs_of
from codeinfo.shells.mcp_tools import Tool, Values, direct, placed

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.shells.mcp_calls import Call

_FILTERS = Input(
    "filters",
    "What results may be.",
    "object",
    fields=tuple(
        item
        for item in inputs_of(search.SearchRequest)
        if item.name in ("languages", "globs", "kinds", "symbol_kinds", "changed_since")
    ),
)
_PURPOSES = ("explore", "edit", "refactor", "migrate")


def _search_request(values: Values, project: str) -> search.SearchRequest:
    purpose = values.get("intent", "explore")
    return search.SearchRequest(
        values["query"],
        limit=values.get("limit", 10),
        purpose="" if purpose == "explore" else purpose,
        context=True,
        **values.get("filters", {}),
        **placed(search.SearchRequest, "paths", project),
    )


def _plain_search(request: search.SearchRequest) -> search.SearchRequest | None:
    """Without a look at the files, which a card and a revision of git need."""
    return replace(request, refresh=False) if not request.purpose and not request.changed_since else None


def _status_and_progress(engine: Engine, request: search.StatusRequest, call: Call) -> Any:
    return engine.status(request), engine.indexing(request.paths[0])


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="search_codebase",
        operation="search",
        sets=("search",),
        description=(
            "Find the code and documents that answer a query, best first: a name, a path or a question in plain words. "
            "Use this before grep or reading files. Before changing code, pass intent edit, refactor or migrate: the "
            "reply then has `preflight`, which says whether enough has been seen and what to look at next."
        ),
        inputs=(
            Input("query", "A name, a path, or a question in plain words.", required=True),
            Input("intent", "What it is for.", choices=_PURPOSES, default="explore"),
            Input("limit", "At most this many results.", "int", 10, minimum=1, maximum=100),
            _FILTERS,
            Input("includeSnippets", "Whether results have their text.", "bool", True),
        ),
        request=_search_request,
        result=shapes.CodebaseSearch,
        shape=shapes.search_codebase,
        files=shapes.hit_files,
        repeatable=True,
        aside=_plain_search,
    ),
    direct(
        "get_symbol_references",
        "refs",
        ("search",),
        code.RefsRequest,
        "Every place where a function, class, method or variable is used, with line and preview; from the syntax, not "
        "from comments or strings. Use it to see callers before a change.",
        folder="path",
        only=("name", "limit"),
        renamed={"symbol": "name"},
        result=shapes.SymbolReferences,
        shape=shapes.symbol_references,
        files=shapes.usage_files,
        repeatable=True,
    ),
    direct(
        "get_codebase_map",
        "map",
        ("search",),
        code.MapRequest,
        "The codebase at a glance: entry points, hubs, layers, key types, hotspots. Use it first in a new project.",
        folder="path",
        only=("limit",),
    ),
    Tool(
        name="get_indexing_status",
        operation="status",
        sets=("search",),
        description="Whether the project is indexed and up to date, and how far a running indexing is.",
        inputs=(),
        request=lambda values, project: search.StatusRequest(**placed(search.StatusRequest, "paths", project)),
        result=shapes.IndexingStatus,
        shape=shapes.indexing_status,
        perform=_status_and_progress,
    ),
    direct(
        "refresh_index",
        "index",
        ("search",),
        search.IndexRequest,
        "Bring the index up to date and wait until it is. Searches do this by themselves; use it to index a project "
        "to its end, or with full after something seems wrong.",
        folder="paths",
        only=("full",),
    ),
)
