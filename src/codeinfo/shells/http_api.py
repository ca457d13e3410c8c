"""The JSON API: every operation under /api/v1, the paths that clients know by contract, the queue, chat and agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from msgspec.structs import replace
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from codeinfo import __version__
from codeinfo.errors import NotFound, UsageError
from codeinfo.jsonable import camel_keys, dumps, jsonable
from codeinfo.operations import OPERATIONS, Operation, answers
from codeinfo.operations.clients import IngestRun, IngestStatus, ProjectsRequest, ProjectsResult
from codeinfo.operations.search import ClearReport, DoctorRequest
from codeinfo.serve.dispatch import Call, Input, Values, inputs_of
from codeinfo.serve.runs import AnswerRun, State
from codeinfo.shells.http_routes import Api, is_served, json_response, path_of

PING_SECONDS = 15
REST_SECONDS = 0.2  # between two events of the queue
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def api_routes() -> tuple[Api, ...]:
    return (*(_operation_route(one) for one in filter(is_served, OPERATIONS.values())), *CONTRACT, *INGEST, *CHAT)


def read_paths() -> frozenset[str]:
    """The paths that need no token. Indexing is derived data, but costs too much to be free for anyone."""
    own = {path_of(one) for one in filter(is_served, OPERATIONS.values()) if one.read_only and one.name != "index"}
    return frozenset(own | {row.path for row in CONTRACT if row.method == "POST"})


# --- operations ----------------------------------------------------------------------------------------------------


def _operation_route(one: Operation) -> Api:
    def perform(state: State, values: Values, call: Call) -> Any:
        result, shown = state.dispatcher.perform(one, values, call)
        return jsonable(result) | {"reflects": shown} if shown else result

    inputs, shows = inputs_of(one.request), one.shows_project
    return Api("POST", path_of(one), one.summary, inputs, perform, None, one.result, one.help, shows_project=shows)


# --- the contract --------------------------------------------------------------------------------------------------

_REPOSITORY = Input("repository", "An indexed repository: its name or folder.")


def _renamed_route(path: str, name: str, renamed: dict[str, str]) -> Api:
    """An operation under the contract's path; `renamed` maps an argument to the request's field."""
    one = OPERATIONS[name]
    names = {field: argument for argument, field in renamed.items()}
    every = inputs_of(one.request)
    folder = "root" if "root" in (item.name for item in every) else "path"
    own = (item for item in every if item.name not in (folder, "refresh"))
    aliases = {"symbol": ("name", "symbolId"), "file": ("path",)}
    called = ((names.get(item.name, item.name), item) for item in own)
    inputs = (*(replace(item, name=name, aliases=aliases.get(name, ())) for name, item in called), _REPOSITORY)

    def perform(state: State, values: Values, call: Call) -> Any:
        fields = {renamed.get(key, key): value for key, value in values.items()}
        fields[folder] = fields.pop("repository", "")
        return camel_keys(jsonable(state.dispatcher.perform(one, fields, call)[0]))

    return Api("POST", path, one.summary, inputs, perform, None, None, one.help, tag="contract")


def _vector_search(state: State, values: Values, call: Call) -> Any:
    one = OPERATIONS["vector-search"]
    return one.run(state.engine, one.request(**values), call.progress)


def _health(state: State, values: Values, call: Call) -> Any:
    report = state.engine.doctor(DoctorRequest(()))
    status = "degraded" if any(check.state == "fail" for check in report.checks) else "ok"
    late_ms = round(1000 * state.late_s())
    return {"status": status, "version": __version__, "late_ms": late_ms, "checks": report.checks}


_contract = partial(Api, tag="contract")
CONTRACT = (
    _contract(
        "POST",
        "/tools/vector-search",
        "Chunks closest in meaning, cut by the relevance policy.",
        inputs_of(OPERATIONS["vector-search"].request),
        _vector_search,
        result=OPERATIONS["vector-search"].result,
        description="`score` is the raw distance: squared L2, 0 is identical, lower is closer.",
    ),
    _renamed_route("/tools/ast-list-symbols", "symbols", {"file": "path"}),
    _renamed_route("/tools/ast-find-definition", "defs", {"symbol": "name"}),
    _renamed_route("/tools/ast-find-references", "refs", {"symbol": "name"}),
    _renamed_route("/tools/ast-call-graph", "calls", {"symbol": "name"}),
    _renamed_route("/tools/ast-module-imports", "imports", {"file": "path"}),
    _contract(
        "GET",
        "/tools/ingested-repos",
        "The indexed repositories.",
        handler=lambda state, values, call: state.engine.projects(ProjectsRequest()),
        result=ProjectsResult,
    ),
    _contract("GET", "/health", "Whether the server works, and what `doctor` says.", handler=_health, reserved=True),
    _contract(
        "GET",
        "/version",
        "The version.",
        handler=lambda state, values, call: {"name": "codeinfo", "version": __version__},
        reserved=True,
    ),
    _contract(
        "GET",
        "/logs",
        "Recent log lines, the latest first.",
        (
            Input("level", "At least this serious.", default="INFO", choices=LEVELS),
            Input("limit", "At most this many lines.", "int", 200, minimum=1, maximum=1000),
        ),
        lambda state, values, call: {"lines": state.logs.since(values["level"], values["limit"])},
        reserved=True,
    ),
)


# --- the queue of indexing runs ------------------------------------------------------------------------------------

_FOLDER = Input("path", "The folder.", required=True)
_ROOT = Input("root", "The project: its name or folder.", required=True, aliases=("path", "sourceId"))
_FULL = Input("full", "Rebuild everything instead of only what changed.", "bool", False)


async def _queue_events(state: State, values: Values, request: Request) -> Response:
    return EventSourceResponse(_queue_changes(state), ping=PING_SECONDS)


async def _queue_changes(state: State) -> AsyncIterator[dict[str, str]]:
    """The queue at once, then whenever it changed; a slow listener misses steps in between, never the end."""
    with state.queue_bell.listening() as news:
        while not state.draining:
            news.clear()
            yield {"event": "queue", "data": dumps(await state.run(lambda call: state.ingest.status()))}
            await asyncio.sleep(REST_SECONDS)
            await news.wait()


def _embedding_models(state: State, values: Values, call: Call) -> Any:
    embedder = state.engine.embedder()
    return {"models": [{"id": embedder.model_id, "dimension": embedder.dimension}] if embedder else []}


_ingest = partial(Api, tag="ingest")
INGEST = (
    _ingest(
        "POST",
        "/ingest/start",
        "Queue a folder to be indexed.",
        (_FOLDER, _FULL),
        lambda state, values, call: state.add_project(values["path"], full=values["full"]),
        result=IngestRun,
    ),
    _ingest(
        "POST",
        "/ingest/reembed",
        "Queue a project to be brought up to date.",
        (_ROOT, _FULL),
        lambda state, values, call: state.refresh_project(values["root"], full=values["full"]),
        result=IngestRun,
    ),
    _ingest(
        "POST",
        "/ingest/cancel",
        "Cancel a run that waits or goes on.",
        (Input("runId", "The run.", required=True),),
        lambda state, values, call: state.ingest.cancel(values["runId"]),
        result=IngestRun,
    ),
    _ingest(
        "POST",
        "/ingest/remove",
        "Delete a project's index.",
        (_ROOT,),
        lambda state, values, call: state.remove_project(values["root"]),
        result=ClearReport,
    ),
    _ingest(
        "GET",
        "/ingest/status",
        "What runs, waits and was done.",
        handler=lambda state, values, call: state.ingest.status(),
        result=IngestStatus,
    ),
    _ingest(
        "GET",
        "/ingest/status/{run_id}",
        "One run.",
        handler=lambda state, values, call: state.ingest.run(values["run_id"]),
        result=IngestRun,
    ),
    _ingest(
        "GET",
        "/ingest/roots",
        "The indexed projects.",
        handler=lambda state, values, call: ProjectsResult(state.projects.known()),
        result=ProjectsResult,
    ),
    _ingest("GET", "/ingest/models", "The embedding model that new indexes get.", handler=_embedding_models),
    _ingest(
        "GET",
        "/ingest/dirs",
        "Folders below a folder, within those that may be added.",
        (Input("path", "The folder; those that may be added unless named."),),
        lambda state, values, call: state.folders_below(values.get("path", "")),
    ),
    _ingest("GET", "/ingest/events", "The queue whenever it changes, as server-sent events.", stream=_queue_events),
)


# --- chat and agents -----------------------------------------------------------------------------------------------

_PROVIDER = Input("provider", "Ask this server, by a name that /chat/models shows.")
_MODEL = Input("model", "Ask this model.")
_CONVERSATION = Input("conversationId", "Go on with this conversation.")
_STREAM = Input("stream", "Events as they come; otherwise the whole answer at its end.", "bool", True)
CHAT_INPUTS = (
    Input("message", "The question, in plain words.", required=True),
    Input("projects", "Ask about these projects, by name or folder.", "tuple[str, ...]"),
    _CONVERSATION, _PROVIDER, _MODEL, _STREAM,
)  # fmt: skip
AGENT_INPUTS = (
    Input("instruction", "What it is to do; a command may need none."),
    Input("command", "Run this command's steps."),
    Input("working_folder", "The project it works on: its name or folder."),
    _CONVERSATION, _PROVIDER, _MODEL, _STREAM,
)  # fmt: skip
_IDS = (Input("conversationIds", "Which ones.", "tuple[str, ...]", required=True),)


def ask_request(state: State, values: Values) -> answers.AskRequest:
    if not values["message"].strip():
        raise UsageError("the question is empty", next_step="Ask something")
    if values.get("conversationId"):
        state.engine.answers.conversation(answers.ConversationRequest(values["conversationId"]))
    return answers.AskRequest(
        values["message"],
        tuple(state.root_of(name) for name in values.get("projects") or ("",)),
        values.get("conversationId", ""),
        values.get("provider", ""),
        values.get("model", ""),
    )


def agent_request(state: State, name: str, values: Values) -> answers.AgentRunRequest:
    profile = state.engine.answers.agent(name)
    if values.get("command"):
        profile.command(values["command"])
    elif not values.get("instruction", "").strip():
        raise UsageError("the instruction is empty", next_step="Say what the agent is to do")
    return answers.AgentRunRequest(
        name,
        values.get("instruction", ""),
        state.root_of(values.get("working_folder", "")),
        values.get("command", ""),
        values.get("conversationId", ""),
        values.get("provider", ""),
        values.get("model", ""),
    )


async def _chat(state: State, values: Values, request: Request) -> Response:
    return await _reply(await state.run(lambda call: state.runs.start(ask_request(state, values))), values["stream"])


async def _run_agent(state: State, values: Values, request: Request) -> Response:
    asked = partial(agent_request, state, values["name"], values)
    return await _reply(await state.run(lambda call: state.runs.start(asked())), values["stream"])


async def _reply(run: AnswerRun, stream: bool) -> Response:
    """A failure before the first word is a status; later ones are events."""
    async for _, event in run.follow():
        if event.kind == "error" and run.error is not None:
            raise run.error
        if stream:
            return EventSourceResponse(_run_events(run, 0), ping=PING_SECONDS)
    return json_response(_finished(run))


def _finished(run: AnswerRun) -> dict[str, Any]:
    return {
        "runId": run.id, "conversationId": run.conversation, "stopped": run.stopped, "agentName": run.agent or None,
        "modelId": run.answers[-1].model_id if run.answers else "",
        "answers": [camel_keys(jsonable(answer)) for answer in run.answers],
    }  # fmt: skip


async def _run_events(run: AnswerRun, after: int) -> AsyncIterator[dict[str, str]]:
    yield {"event": "run", "data": dumps({"runId": run.id})}
    async for number, event in run.follow(after):
        data = _finished(run) if event.kind == "done" else event.data
        yield {"id": str(number), "event": event.kind, "data": dumps(data)}


async def _events(state: State, values: Values, request: Request) -> Response:
    last = request.headers.get("last-event-id", "")
    after = int(last) + 1 if last.isdecimal() and len(last) < 10 else 0
    return EventSourceResponse(_run_events(state.runs.get(values["run_id"]), after), ping=PING_SECONDS)


def _stop(state: State, values: Values, call: Call) -> Any:
    run = state.runs.get(values["run_id"])
    run.call.cancel()
    return {"runId": run.id, "stopping": not run.finished}


def _models(state: State, values: Values, call: Call) -> Any:
    found = state.engine.answers.providers(answers.ProvidersRequest())
    shown = [
        {"name": one.name, "state": one.state, "models": one.models, "detail": one.detail, "chosen": one.chosen}
        for one in found.providers
    ]
    return {"providers": shown, "notes": found.notes}


def _conversations(state: State, values: Values, call: Call) -> Any:
    request = answers.ConversationsRequest(
        values["state"], values["limit"], values.get("cursor", ""), values.get("agentName", "")
    )
    return camel_keys(jsonable(state.engine.answers.conversations(request)))


def _conversation(state: State, values: Values, call: Call) -> Any:
    found = camel_keys(jsonable(state.engine.answers.conversation(answers.ConversationRequest(values["identity"]))))
    for turn in found["turns"]:
        took = turn.pop("tookMs")
        turn["timing"] = None if took is None else {"totalTimeSec": round(took / 1000, 3)}
    return found


def _change(method: str, state: State, values: Values, call: Call) -> Any:
    if not values["conversationIds"]:
        raise NotFound("no conversation is named", next_step="Name at least one")
    change = getattr(state.engine.answers, method)
    return camel_keys(jsonable(change(answers.ConversationIdsRequest(values["conversationIds"]))))


_chat_route = partial(Api, tag="chat")
CHAT = (
    _chat_route("POST", "/chat", "Ask; the answer comes as server-sent events.", CHAT_INPUTS, stream=_chat),
    _chat_route(
        "POST", "/agents/{name}/run", "Have an agent do something with a project.", AGENT_INPUTS, stream=_run_agent
    ),
    _chat_route("GET", "/chat/models", "Chat endpoints and their models.", handler=_models),
    _chat_route(
        "GET",
        "/agents",
        "The agents.",
        handler=lambda state, values, call: camel_keys(jsonable(state.engine.answers.agents(answers.AgentsRequest()))),
    ),
    _chat_route(
        "GET",
        "/conversations",
        "Conversations, the latest first.",
        (
            Input("state", "Which ones.", default="active", choices=("active", "archived", "all")),
            Input("limit", "At most this many.", "int", 20, minimum=1, maximum=100),
            Input("cursor", "Go on where the last page ended."),
            Input("agentName", "Only those of this agent."),
        ),
        _conversations,
    ),
    _chat_route("GET", "/conversations/{identity}", "One conversation with its turns.", handler=_conversation),
    _chat_route(
        "GET",
        "/chat/runs/{run_id}/events",
        "The events of a run, from the first or after Last-Event-ID.",
        stream=_events,
    ),
    _chat_route("POST", "/chat/runs/{run_id}/stop", "Stop a run.", handler=_stop),
    _chat_route(
        "POST",
        "/conversations/archive",
        "Put conversations away.",
        _IDS,
        partial(_change, "archive_conversations"),
    ),
    _chat_route(
        "POST",
        "/conversations/restore",
        "Take conversations out of the archive.",
        _IDS,
        partial(_change, "restore_conversations"),
    ),
    _chat_route(
        "POST",
        "/conversations/delete",
        "Delete conversations for good.",
        _IDS,
        partial(_change, "delete_conversations"),
    ),
)
