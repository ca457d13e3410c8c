"""The tools with names, arguments and replies of their own. Descriptions are written for the model that chooses: what
it gets, and when this is the right tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeinfo import requests
from codeinfo.requests import answers, code, knowledge
from codeinfo.shells import mcp_shapes as shapes
from codeinfo.shells.mcp_schema import Input, inputs_of
from codeinfo.shells.mcp_tools import Tool, Values, direct, placed

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.shells.mcp_calls import Call

_INVALID = -32602
_ANSWER_CODES = {
    "VALIDATION_FAILED": _INVALID,
    "ROOT_REFUSED": _INVALID,
    "NOT_FOUND": _INVALID,
    "REPO_NOT_FOUND": _INVALID,
    "CONVERSATION_ARCHIVED": 410,
    "RUN_IN_PROGRESS": 409,
    "CODE_INFO_LLM_UNAVAILABLE": -32001,
    "": -32002,  # any other failure
}

_QUERY = Input("query", "A name, a path, or a question in plain words.", required=True)
_CONVERSATION = Input("conversationId", "Go on with this conversation.")


# --- requests ------------------------------------------------------------------------------------------------------

_FILTERS = Input(
    "filters",
    "What results may be.",
    "object",
    fields=tuple(
        item
        for item in inputs_of(requests.SearchRequest)
        if item.name in ("languages", "globs", "kinds", "symbol_kinds", "changed_since")
    ),
)
_PURPOSES = ("explore", "edit", "refactor", "migrate")


def _search_request(values: Values, project: str) -> requests.SearchRequest:
    purpose = values.get("intent", "explore")
    return requests.SearchRequest(
        values["query"],
        limit=values.get("limit", 10),
        purpose="" if purpose == "explore" else purpose,
        context=True,
        **values.get("filters", {}),
        **placed(requests.SearchRequest, "paths", project),
    )


def _ask_request(values: Values, project: str) -> answers.AskRequest:
    return answers.AskRequest(
        values["question"],
        conversation=values.get("conversationId", ""),
        provider=values.get("provider", ""),
        model=values.get("model", ""),
        **placed(answers.AskRequest, "paths", project),
    )


def _agent_request(values: Values, project: str) -> answers.AgentRunRequest:
    return answers.AgentRunRequest(
        values["agentName"],
        values["instruction"],
        working_folder=project or ".",
        conversation=values.get("conversationId", ""),
    )


def _status_and_progress(engine: Engine, request: requests.StatusRequest, call: Call) -> Any:
    return engine.status(request), engine.indexing(request.paths[0])


def _ask(engine: Engine, request: answers.AskRequest, call: Call) -> answers.Answer:
    return engine.answers.ask(
        request, progress=call.progress, emit=call.check, steps=call.check, source="MCP", wrap=call.stoppable
    )


def _run_agent(engine: Engine, request: answers.AgentRunRequest, call: Call) -> answers.AgentRun:
    return engine.answers.run_agent(
        request, progress=call.progress, emit=call.check, steps=call.check, source="MCP", wrap=call.stoppable
    )


TOOLS: tuple[Tool, ...] = (
    # --- search: the default ---
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
            _QUERY,
            Input("intent", "What it is for.", choices=_PURPOSES, default="explore"),
            Input("limit", "At most this many results.", "int", 10, minimum=1, maximum=100),
            _FILTERS,
            Input("includeSnippets", "Whether results have their text.", "bool", True),
        ),
        request=_search_request,
        result=shapes.CodebaseSearch,
        shape=shapes.search_codebase,
        files=shapes.hit_files,
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
        request=lambda values, project: requests.StatusRequest(**placed(requests.StatusRequest, "paths", project)),
        result=shapes.IndexingStatus,
        shape=shapes.indexing_status,
        perform=_status_and_progress,
    ),
    direct(
        "refresh_index",
        "index",
        ("search",),
        requests.IndexRequest,
        "Bring the index up to date and wait until it is. Searches do this by themselves; use it to index a project "
        "to its end, or with full after something seems wrong.",
        folder="paths",
        only=("full",),
    ),
    # --- edit ---
    direct(
        "get_team_patterns",
        "patterns",
        ("edit",),
        knowledge.PatternsRequest,
        "How this team writes code: which ways are adopted, rising or declining, where they conflict, and golden files "
        "to imitate. Use it before writing new code.",
        folder="path",
        only=("category", "languages"),
    ),
    direct(
        "remember",
        "remember",
        ("edit",),
        knowledge.RememberRequest,
        "Write down a convention, decision, gotcha or failure for later, in the project's own memory file.",
        folder="path",
        only=("memory", "type", "category", "reason", "scope"),
    ),
    direct(
        "get_memory",
        "memory list",
        ("edit",),
        knowledge.MemoryListRequest,
        "What the team wrote down or its history says about a topic: conventions, decisions, gotchas, failures.",
        folder="path",
        only=("query", "type", "category", "limit"),
        result=shapes.Memories,
        shape=shapes.memories,
    ),
    direct(
        "get_codebase_metadata",
        "metadata",
        ("edit",),
        knowledge.MetadataRequest,
        "Languages, sizes, frameworks, dependencies with versions, and how tests are run.",
        folder="path",
        only=(),
    ),
    direct(
        "get_style_guide",
        "style",
        ("edit",),
        knowledge.StyleRequest,
        "The style rules of the project's own documents and tools, with the lines they stand on.",
        folder="path",
        only=("query",),
    ),
    direct(
        "detect_circular_dependencies",
        "cycles",
        ("edit",),
        code.CyclesRequest,
        "Files that import each other in circles, worst first.",
        folder="path",
        only=("limit",),
    ),
    direct(
        "get_change_impact",
        "impact",
        ("edit",),
        code.ImpactRequest,
        "Which files a change of one file may affect, and which tests cover it.",
        folder="root",
        only=("path", "hops", "limit"),
        renamed={"file": "path"},
    ),
    direct(
        "get_review_packet",
        "review",
        ("edit",),
        knowledge.ReviewRequest,
        "What a reviewer of the current change wants at hand: changed symbols and their callers, missing tests, "
        "patterns broken, memories, reviewers.",
        folder="path",
        only=("base", "limit"),
    ),
    # --- answers and agents ---
    Tool(
        name="codebase_question",
        operation="ask",
        sets=("answers",),
        description="A question about the codebase answered in prose, with citations that were checked. Slower than "
        "search_codebase: a chat model is asked where one is set up, otherwise the best passages are quoted.",
        inputs=(
            Input("question", "The question, in plain words.", required=True),
            _CONVERSATION,
            Input("provider", "Ask this server of those set up."),
            Input("model", "Ask this model."),
        ),
        request=_ask_request,
        result=shapes.AnswerOnly,
        shape=shapes.answer_only,
        perform=_ask,
        codes=_ANSWER_CODES,
        open_world=True,
    ),
    Tool(
        name="list_agents",
        operation="agents list",
        sets=("agents",),
        description="The agents that run_agent_instruction can run.",
        inputs=(),
        request=lambda values, project: answers.AgentsRequest(),
        project=None,
        result=shapes.ListedAgents,
        shape=shapes.listed_agents,
    ),
    Tool(
        name="run_agent_instruction",
        operation="agents run",
        sets=("agents",),
        description="Have an agent of list_agents look into a folder and answer an instruction. It reads and changes "
        "nothing.",
        inputs=(
            Input("agentName", "The agent's name.", required=True),
            Input("instruction", "What it is to do.", required=True),
            _CONVERSATION,
        ),
        project=Input("working_folder", "The folder it works on."),
        request=_agent_request,
        result=shapes.AgentAnswer,
        shape=shapes.agent_answer,
        perform=_run_agent,
        codes=_ANSWER_CODES,
        open_world=True,
    ),
)
