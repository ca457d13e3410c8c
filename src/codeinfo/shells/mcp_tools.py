"""MCP tools. Those with their own descriptions are rows here, by set; the descriptions are written for the model
that chooses: what it gets, and when to use the tool. Every other operation becomes a tool derived from its row, with
the request's fields as arguments and the result's fields as reply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.errors import Busy, NotFound, UsageError
from codeinfo.model import Step, camel, camel_json, dumps
from codeinfo.operations import OPERATIONS, Input, Operation, clients, inputs_of, search
from codeinfo.operations.base import PROJECT, Opt, field_naming, rename_inputs
from codeinfo.serve.dispatch import Call, Schema, Values, input_schema, output_schema, reflects_schema
from codeinfo.shells import mcp_replies as replies

if TYPE_CHECKING:
    from codeinfo.engine import Engine


Request = TypeVar("Request", bound=Struct)
PROJECT_INPUT = Input("project", "Folder or name of an indexed project, if not the working folder.")
EXPLORED = ("defs", "refs", "calls", "imports", "impact")  # of one name or file: `explore` shows this as well
OPEN_WORLD = ("ask", "docs ask", "agents run", "providers", "docs add", "docs sync")  # ask endpoints, or fetch
CURSOR = Input("cursor", "Of a truncated reply, to continue it.")


def camel_schema(schema: Any) -> Any:
    """The schema of a reply by `camel_json`."""
    if isinstance(schema, list):
        return [camel_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    spelled = {key: camel_schema(value) for key, value in schema.items()}
    if "properties" in spelled:
        spelled["properties"] = {camel(name): value for name, value in spelled["properties"].items()}
        spelled["required"] = [camel(name) for name in spelled.get("required", ())]
    return spelled


class Tool(Struct, frozen=True):
    """`request` makes the operation's request from the arguments and the project's name ("" unless given), if they
    are not simply its fields; `reply` is made of the result, if it is not simply that; `perform` replaces the
    operation if a tool needs more of the engine."""

    name: str
    operation: str
    description: str
    inputs: tuple[Input, ...] = ()
    request: Callable[[Values, str], Any] | None = None
    reply: type[replies.Shape] | None = None
    shaped_by: tuple[str, ...] = ()  # arguments that `reply` takes besides the result
    camel: bool = False  # the result's keys are in camel case
    perform: Callable[[Engine, Any, Call], Any] | None = None
    codes: Mapping[str, int] = field(default_factory=dict)  # our code → the contract's, as a protocol error
    files: Callable[[Any, str], Iterable[str]] = lambda result, root: ()  # what a reader would have opened instead
    renamed: Mapping[str, str] = field(default_factory=dict)  # argument → field of the request
    project: Input | None = PROJECT_INPUT  # the argument that names the project
    computes: bool = False  # short CPU work that waits for nothing
    open_world: bool = False  # may call a model endpoint or the network
    # Most clients show a model either the text of a reply or its structured content, some both. A frequently used tool
    # sends its JSON once, as text, which every client shows; its list entry then needs no result schema.
    text_only: bool = False

    def arguments(self) -> tuple[Input, ...]:
        return (*self.inputs, *((self.project,) if self.project else ()), CURSOR)

    def input_schema(self) -> Schema:
        return input_schema(self.arguments())

    def output_schema(self) -> Schema:
        is_plain, operation = self.project is not None and not self.codes, OPERATIONS[self.operation]
        schema = output_schema(self.reply or operation.result, reflects_schema(operation) if is_plain else None)
        return camel_schema(schema) if self.camel else schema

    def make_request(self, values: Values, project: str) -> Any:
        if self.request is not None:
            return self.request(values, project)
        request = OPERATIONS[self.operation].request
        fields = {self.renamed.get(name, name): value for name, value in values.items()}
        return fill_request(request, fields, project)

    def make_reply(self, result: Any, values: Values) -> Any:
        if self.reply is not None:
            return self.reply.of(result, *map(values.get, self.shaped_by))
        return camel_json(result) if self.camel else result

    def run(self, engine: Engine, request: Any, call: Call) -> Any:
        if self.perform is not None:
            return self.perform(engine, request, call)
        return OPERATIONS[self.operation].run(engine, request, call.listener("MCP"))


# --- making tools --------------------------------------------------------------------------------------------------


def derive_tool(
    name: str,
    operation: str,
    description: str,
    only: tuple[str, ...] = (),
    *,
    names: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    replaced: Mapping[str, Input] = MappingProxyType({}),
    **more: Any,
) -> Tool:
    """A tool whose arguments are fields of the request. `only` are those that become arguments; `names` are a
    field's names, the first one shown; `replaced` are arguments that take a field's place."""
    fields = (item for item in inputs_of(OPERATIONS[operation].request) if item.name in only)
    arguments = {**rename_inputs(fields, names), **replaced}
    field_of = {argument.name: field for field, argument in arguments.items()}
    return Tool(name, operation, description, tuple(arguments.values()), renamed=field_of, **more)


def call_of(step: Step, tools: Collection[Tool]) -> str:
    """A next step as a tool call with arguments; as a command if none of these tools can do it."""
    operation = OPERATIONS[step.operation]
    fields, folder = operation.fields_of(step), field_naming(PROJECT, operation.request)
    for tool in tools:
        inputs = {tool.renamed.get(item.name, item.name): item for item in tool.inputs}
        inputs |= {folder: tool.project} if tool.project else {}
        if tool.operation == step.operation and fields.keys() <= inputs.keys():
            return f"{tool.name}({', '.join(_argument(inputs[field], value) for field, value in fields.items())})"
    if step.operation in EXPLORED and len(fields) == 1 and any(tool.operation == "explore" for tool in tools):
        return call_of(Step("explore", tuple(fields.values())), tools)
    return step.command()


def _argument(item: Input, value: Any) -> str:
    one_of_many = isinstance(value, list) and not item.is_list
    return f"{item.name}={dumps(value[0] if one_of_many else value)}"


def fill_request(request: type[Request], values: Values, project: str) -> Request:
    """A request for a project, "" being the working folder. One value is enough for a list."""
    given = values | ({field_naming(PROJECT, request): project} if project else {})
    lists = {item.name for item in inputs_of(request) if item.is_list}
    single = {name: (value,) for name, value in given.items() if name in lists and isinstance(value, str)}
    return request(**given | single)


def plain_tool(operation: Operation) -> Tool:
    """A tool derived from an operation. The field that names the folder becomes `project`."""
    folder = field_naming(PROJECT, operation.request)
    inputs = tuple(item for item in inputs_of(operation.request) if item.name != folder)
    return Tool(
        name=operation.name.replace(" ", "_").replace("-", "_"),
        operation=operation.name,
        description=" ".join(part for part in (operation.summary, operation.help) if part),
        inputs=inputs,
        project=PROJECT_INPUT if folder else None,
        open_world=operation.name in OPEN_WORLD,
    )


def describe_tool(tool: Tool) -> dict[str, Any]:
    row = OPERATIONS[tool.operation]
    removes = row.removes or bool(row.confirm)
    hints = {
        "readOnlyHint": row.read_only and row.name != "index",  # an index is derived data, but it is written
        "destructiveHint": removes,
        "idempotentHint": row.read_only or removes or row.name in ("remember", "docs sync"),
        "openWorldHint": tool.open_world,
    }
    shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema()}
    return {**shown, "annotations": hints} | ({} if tool.text_only else {"outputSchema": tool.output_schema()})


# --- the sets --------------------------------------------------------------------------------------------------------


class Reingest(Struct, frozen=True):
    source: Annotated[str, Opt("A name or a folder.")]


def reingest(engine: Engine, request: Reingest, call: Call) -> search.IndexResponse:
    """Only a repository that is indexed, and not being indexed right now."""
    source = request.source
    projects = engine.indexes.projects().projects
    root = next((project.root for project in projects if source in (project.name, project.root)), "")
    if not root:
        names = ", ".join(project.name for project in projects) or "none"
        raise NotFound(f"no repository {source} is indexed", f"Known: {names}")
    if engine.index_progress(root) is not None:
        raise Busy(f"{root} is being indexed", "Try again when it is done")
    return engine.index(search.IndexRequest((root,)), call.progress)


def refresh_index(engine: Engine, request: search.IndexRequest, call: Call) -> search.IndexResponse:
    """Lists of what was skipped only what matters: files excluded by a rule are many, and `why` explains each."""
    response = engine.index(request, call.progress)
    reports = (replace(r, skipped=tuple(skip for skip in r.skipped if skip.matters)) for r in response.reports)
    return search.IndexResponse(tuple(reports))


SETS = ("search", "code", "edit", "docs", "answers", "agents", "compat", "all")
IN_SETS: dict[str, tuple[Tool, ...]] = {}  # the tools with their own descriptions, by set

_FILTERS = Input(
    "filters",
    "",
    "object",
    fields=tuple(
        replace(item, help="", aliases=("language",) if item.name == "languages" else ())  # their names are enough
        for item in inputs_of(search.SearchRequest)
        if item.name in ("languages", "globs", "kinds", "symbol_kinds", "changed_since")
    ),
)
_MODES = ("ranked", "literal", "regex")


def _search_request(values: Values, project: str) -> search.SearchRequest | search.GrepRequest:
    mode, purpose = values.get("mode", "ranked"), values.get("intent", "explore")
    filters = values.get("filters", {})
    if mode == "ranked":
        options = {
            "limit": values.get("limit", 10),
            "purpose": "" if purpose == "explore" else purpose,
            "context": True,
        }
        return fill_request(search.SearchRequest, {"query": values["query"], **options, **filters}, project)
    if purpose != "explore":
        raise UsageError(f"intent {purpose} needs mode ranked", "Leave out one of the two")
    options = {"limit": values.get("limit", 100), "regex": mode == "regex"}
    return fill_request(search.GrepRequest, {"pattern": values["query"], **options, **filters}, project)


def _search_or_grep(engine: Engine, request: search.SearchRequest | search.GrepRequest, call: Call) -> Any:
    exact = isinstance(request, search.GrepRequest)
    return OPERATIONS["grep" if exact else "search"].run(engine, request, call.listener("MCP"))


IN_SETS["search"] = (
    Tool(
        name="search_codebase",
        operation="search",
        description=(
            "Find the code that answers a question or has a name, best first; in mode literal or regex every matching "
            "line, and how many. Use it before grep or reading files. Before a change pass intent edit: `preflight` "
            "says whether enough has been seen."
        ),
        inputs=(
            Input("query", "A question in plain words, a name, a path, an error message or a route.", required=True),
            Input("mode", "", choices=_MODES),
            Input("intent", "", choices=("explore", *search.PURPOSES)),
            Input("limit", "By default 10, or 100 lines.", "int", minimum=1, maximum=100),
            _FILTERS,
            Input("includeSnippets", "Text of all results, or of none; by default of the best.", "bool"),
        ),
        request=_search_request,
        reply=replies.CodebaseSearch,
        shaped_by=("includeSnippets",),
        renamed={"intent": "purpose"},
        perform=_search_or_grep,
        files=replies.list_hit_files,
        computes=True,
        text_only=True,
    ),
    Tool(
        name="explore",
        operation="explore",
        description=(
            "All about one symbol, file or place: code, callers, callees, tests, commits, memories. Use it once you "
            "know a name, and to see what a change breaks."
        ),
        inputs=(
            Input("target", "`Class.method`, a full name, `path::Name`, a file, or FILE:LINE.", required=True),
            Input("limit", "Of each list.", "int", 8, minimum=1, maximum=100),
        ),
        reply=replies.Explored,
        files=lambda found, root: [f"{root or '.'}/{found.place.partition(':')[0]}"],
        text_only=True,
    ),
)

IN_SETS["code"] = (
    derive_tool(
        "get_symbol_references",
        "refs",
        "Every place where a function, class, method or variable is used, with line and preview; from the syntax, not "
        "from comments or strings. Use it to see callers before a change.",
        only=("name", "limit"),
        names={"name": ("symbol",)},
        reply=replies.SymbolReferences,
        files=lambda report, root: (f"{root or '.'}/{use.file}" for use in report.usages),
        computes=True,
    ),
    derive_tool(
        "get_codebase_map",
        "map",
        "The codebase at a glance: entry points, hubs, layers, key types, hotspots. Use it first in a new project.",
        only=("limit",),
    ),
    Tool(
        name="get_indexing_status",
        operation="status",
        description="Whether the project is indexed and up to date, and how far a running indexing is.",
        reply=replies.IndexingStatus,
        perform=lambda engine, request, call: (
            engine.status(request),
            engine.index_progress(next(iter(request.paths), "")),
        ),
    ),
    Tool(
        name="refresh_index",
        operation="index",
        description="Bring the index up to date and wait until it is. Searches do this by themselves; use it to index "
        "a project to its end, or with full after something seems wrong.",
        inputs=(
            Input("full", "Rebuild everything instead of only what changed.", "bool", False),
            Input("incrementalOnly", "The opposite of full.", "bool", hidden=True),
        ),
        request=lambda values, project: fill_request(
            search.IndexRequest, {"full": values.get("full", not values.get("incrementalOnly", True))}, project
        ),
        perform=refresh_index,
    ),
)

IN_SETS["edit"] = (
    derive_tool(
        "get_team_patterns",
        "patterns",
        "How this team writes code: which ways are adopted, rising or declining, where they conflict, and golden files "
        "to imitate. Use it before writing new code.",
        only=("category", "languages"),
    ),
    derive_tool(
        "remember",
        "remember",
        "Write down a convention, decision, gotcha or failure for later, in the project's own memory file.",
        only=("memory", "type", "category", "reason", "scope"),
    ),
    derive_tool(
        "get_memory",
        "memory list",
        "What the team wrote down or its history says about a topic: conventions, decisions, gotchas, failures.",
        only=("query", "type", "category", "limit"),
        reply=replies.Memories,
    ),
    derive_tool(
        "get_codebase_metadata",
        "metadata",
        "Languages, sizes, frameworks, dependencies with versions, and how tests are run.",
    ),
    derive_tool(
        "get_style_guide",
        "style",
        "The style rules of the project's own documents and tools, with the lines they stand on.",
        only=("query",),
    ),
    derive_tool(
        "detect_circular_dependencies",
        "cycles",
        "Files that import each other in circles, worst first.",
        only=("limit",),
    ),
    derive_tool(
        "get_change_impact",
        "impact",
        "Which files a change of one file may affect, and which tests cover it.",
        only=("path", "hops", "limit"),
        names={"path": ("file",)},
    ),
    derive_tool(
        "get_review_packet",
        "review",
        "What a reviewer of the current change needs: findings (memories contradicted, API and expectations "
        "changed, new dependencies, untested functions), changed symbols and their callers, reviewers.",
        only=("base", "limit"),
    ),
)

_INVALID = -32602
_ANSWER_CODES = {
    **dict.fromkeys(("VALIDATION_FAILED", "ROOT_REFUSED", "NOT_FOUND", "REPO_NOT_FOUND"), _INVALID),
    "CONVERSATION_ARCHIVED": 410,
    "RUN_IN_PROGRESS": 409,
    "CODE_INFO_LLM_UNAVAILABLE": -32001,
    "": -32002,  # any other failure
}

_ANSWERING: dict[str, Any] = {"codes": _ANSWER_CODES, "open_world": True}
_ASKING: dict[str, Any] = {
    "only": ("question", "collections", "conversation", "provider", "model"),
    "names": {"conversation": ("conversationId",), "question": ("question", "query")},
    **_ANSWERING,
}

_ASK_DOCUMENTS = derive_tool(
    "ask_documents",
    "docs ask",
    "A question answered in prose from collections of documents, with the page, sheet, slide or heading of every "
    "source, each checked. Slower than documents_search: a chat model is asked where one is set up, otherwise the "
    "best passages are quoted.",
    reply=replies.DocumentAnswer,
    **_ASKING,
)
IN_SETS["answers"] = (
    derive_tool(
        "codebase_question",
        "ask",
        "A question about the codebase answered in prose, with citations that were checked. Slower than "
        "search_codebase: a chat model is asked where one is set up, otherwise the best passages are quoted.",
        reply=replies.AnswerOnly,
        **_ASKING,
    ),
    _ASK_DOCUMENTS,
)
IN_SETS["agents"] = (
    Tool(
        name="list_agents",
        operation="agents list",
        description="The agents that run_agent_instruction can run.",
        project=None,
        reply=replies.ListedAgents,
    ),
    derive_tool(
        "run_agent_instruction",
        "agents run",
        "Have an agent of list_agents look into a folder and answer an instruction. It reads and changes nothing.",
        only=("agent", "instruction", "conversation"),
        names={"agent": ("agentName",), "conversation": ("conversationId",)},
        replaced={"instruction": Input("instruction", "What it should do.", required=True)},
        project=Input("working_folder", "The folder it works on."),
        reply=replies.AgentAnswer,
        **_ANSWERING,
    ),
)

_VECTOR_CODES = {
    **dict.fromkeys(("VALIDATION_FAILED", "ROOT_REFUSED"), _INVALID),
    **dict.fromkeys(("NOT_FOUND", "REPO_NOT_FOUND"), 404),
    **dict.fromkeys(("NOT_INGESTED", "DIMENSION_MISMATCH"), 409),
    **dict.fromkeys(("EMBEDDING_MODEL_MISSING", "EMBEDDING_UNAVAILABLE"), 503),
    "INDEX_DAMAGED": 502,
    "BUSY": 429,
}

_REPOSITORY = Input("repository", "An indexed repository: its name or folder. The working folder unless given.")
_DOCUMENT = ("collection", "document")


def _document_search(name: str, description: str, query: Input, **more: Any) -> Tool:
    only = ("queries", "collections", "limit", "max_distance", "hybrid", "rerank")
    names = {"max_distance": ("maxDistance",), "hybrid": ("hybridSearch",)}
    return derive_tool(name, "docs search", description, only, names=names, replaced={"queries": query}, **more)


def _ast(name: str, operation: str, description: str, *only: str) -> Tool:
    """The five Ast tools: a repository by name, symbols as `symbol`, files as `file`."""
    compat: dict[str, Any] = {"camel": True, "project": _REPOSITORY, "codes": _VECTOR_CODES}
    return derive_tool(name, operation, description, only, names=clients.CONTRACT_NAMES, **compat)


IN_SETS["docs"] = (
    _ASK_DOCUMENTS,
    derive_tool("documents_list_collections", "docs list", "The collections of documents."),
    derive_tool(
        "documents_list_documents",
        "docs list",
        "The documents of one collection.",
        ("collections",),
        replaced={"collections": Input("collection", "A collection, by its name or id.", required=True)},
    ),
    _document_search(
        "documents_search",
        "Passages of documents that answer a question, with the page, sheet, slide or heading they are on.",
        Input("query", "What to look for, in plain words.", required=True),
        reply=replies.DocumentResults,
    ),
    _document_search(
        "documents_search_batch",
        "Up to ten questions to documents at once: use it to look at one matter from several sides.",
        Input("queries", "One to ten questions.", "tuple[str, ...]", required=True),
    ),
    derive_tool(
        "documents_find_related",
        "docs related",
        "Documents that a document links to, is linked from, or resembles.",
        (*_DOCUMENT, "limit"),
    ),
    derive_tool("documents_get_document", "docs section", "A document's whole text.", _DOCUMENT),
    derive_tool(
        "documents_get_outline",
        "docs outline",
        "The headings, pages, sheets or slides of a document: look here before reading all of it.",
        _DOCUMENT,
    ),
    derive_tool(
        "documents_get_section",
        "docs section",
        "One section of a document, by a title of its outline.",
        (*_DOCUMENT, "section"),
    ),
)
IN_SETS["compat"] = (
    derive_tool(
        "VectorSearch",
        "vector-search",
        "Chunks closest in meaning, cut by the relevance policy. search_codebase is the better one where both are "
        "offered.",
        only=("query", "repository", "limit"),
        codes=_VECTOR_CODES,
        files=lambda result, root: (file.hostPath for file in result.files),
        project=None,
    ),
    derive_tool("ListIngestedRepositories", "projects", "The indexed repositories.", codes=_VECTOR_CODES, project=None),
    Tool(
        name="reingest_repository",
        operation="index",
        description="Bring the index of a repository up to date.",
        inputs=(Input("sourceId", "An indexed repository: its name or folder.", required=True),),
        project=None,
        request=lambda values, project: Reingest(values["sourceId"]),
        perform=reingest,
        reply=replies.Reingested,
        codes=_VECTOR_CODES,
    ),
    _ast("AstListSymbols", "symbols", "What a file or folder defines.", "path", "kinds", "limit"),
    _ast("AstFindDefinition", "defs", "Where a symbol is defined.", "name", "limit"),
    _ast("AstFindReferences", "refs", "Where a symbol is used.", "name", "limit"),
    _ast("AstCallGraph", "calls", "Who calls a symbol and what it calls.", "name", "depth", "limit"),
    _ast("AstModuleImports", "imports", "What a file imports and who imports it.", "path", "limit"),
)

TOOLS = tuple({tool.name: tool for tools in IN_SETS.values() for tool in tools}.values())


# --- which tools ---------------------------------------------------------------------------------------------------


def choose_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these sets, or with these names."""
    chosen = tuple(name.strip() for name in names if name.strip()) or ("search",)
    tools: dict[str, Tool] = {}
    for name in chosen:
        if name == "all":
            tools |= {tool.name: tool for tool in _tools_by_operation()}
        elif name in SETS:
            tools |= {tool.name: tool for tool in IN_SETS[name]}
        elif tool := next((known for known in (*TOOLS, *_plain_tools()) if known.name == name), None):
            tools[name] = tool
        else:
            raise UsageError(f"no set of tools is called {name}", f"Sets: {', '.join(SETS)}; or a tool's name")
    return tuple(tools.values())


def _tools_by_operation() -> Iterable[Tool]:
    """One tool per operation: the one with its own description, if there is one. Tools named as in other servers are
    left to their set."""
    described_tools = [tool for tool in TOOLS if tool not in IN_SETS["compat"]]
    described = {tool.operation for tool in described_tools}
    return (*described_tools, *(tool for tool in _plain_tools() if tool.operation not in described))


def _plain_tools() -> Iterable[Tool]:
    return (plain_tool(operation) for name, operation in OPERATIONS.items() if operation.group != "local")
