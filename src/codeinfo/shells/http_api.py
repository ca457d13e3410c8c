"""The JSON API: every operation under /api/v1, the contract's paths, the queue, chat and agents.

Routes are rows: each row gives the route itself, the validation of its arguments and its part of the OpenAPI document.
Errors have one shape, `{"error": {"code", "message", "next"}}`, and one status per code.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from codeinfo import __version__
from codeinfo.errors import CodeInfoError, UsageError, error_json
from codeinfo.model import Step, camel_json, dumps, json_decoder, jsonable, phrase
from codeinfo.operations import OPERATIONS, Input, Operation, answers, inputs_of
from codeinfo.operations.base import PROJECT, field_naming, rename_inputs
from codeinfo.operations.clients import CONTRACT_NAMES, IngestRun, IngestStatus, ProjectsResult, VectorSearchResult
from codeinfo.operations.documents import AnyQuestion
from codeinfo.operations.search import ClearReport, DoctorRequest
from codeinfo.serve.dispatch import (
    Call,
    Schema,
    Values,
    check,
    check_text,
    fault,
    input_schema,
    property_schema,
    reflects_schema,
)
from codeinfo.serve.runs import AnswerRun, State
from codeinfo.serve.team import READ, TEAM_OPERATIONS, WRITE, hide_places, hide_setup

PREFIX = "/api/v1"
LOG_PLACE = "the Health page's log"
PING_SECONDS = 15
QUEUE_SECONDS = 0.5  # between two looks at the queue
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

log = logging.getLogger(__name__)


class TeamRoute(Route):
    """`scope` is what it needs on a team's server, "" if that does not offer it."""

    def __init__(self, path: str, endpoint: Any, method: str = "GET", scope: str = "", operation: str = "") -> None:
        super().__init__(path, endpoint, methods=[method])
        self.method, self.scope, self.operation = method, scope, operation


class Api(Struct, frozen=True):
    """A route of the API. `handler` gets the state, the arguments and the call, runs in a thread and returns what
    becomes JSON; a coroutine function gets the HTTP request instead of a call, runs on the event loop and makes the
    response, a stream, itself. `reserved` routes describe the server and never queue behind other work."""

    method: str
    path: str
    summary: str
    handler: Callable[..., Any]
    inputs: tuple[Input, ...] = ()
    result: type | None = None
    description: str = ""
    tag: str = "operations"
    reserved: bool = False
    reflects: Schema | None = None  # of the state its reply is based on
    operation: str = ""  # the one it performs
    team: str = ""  # the scope it needs on a team's server, unless its operation says so

    @property
    def streams(self) -> bool:
        return iscoroutinefunction(self.handler)

    def route(self) -> TeamRoute:
        async def answer(request: Request) -> Response:
            state, values = state_of(request), await self.arguments(request)
            if self.streams:
                stream: Response = await self.handler(state, values, request)
                return stream
            work = partial(self.handler, state, values)
            return json_response(await state.dispatcher.run(work, reserved=self.reserved))

        scope = self.team or TEAM_OPERATIONS.get(self.operation, "")
        return TeamRoute(self.path, answer, self.method, scope, self.operation)

    async def arguments(self, request: Request) -> Values:
        if self.method == "POST":
            values = check(self.inputs, await json_body(request))
        else:
            names = {item.name for item in self.inputs}
            given = {name: value for name, value in request.query_params.items() if name in names}
            values = check(self.inputs, given)
        for name, text in request.path_params.items():
            check_text(text, name)
        defaults = {item.name: item.default for item in self.inputs if item.default is not None}
        return defaults | values | request.path_params


ROUTES: list[Api] = []


def _route(
    method: str, path: str, summary: str, *inputs: Input, tag: str, **more: Any
) -> Callable[[Callable[..., Any]], None]:
    """Makes a function the handler of a route."""
    return lambda handler: ROUTES.append(Api(method, path, summary, handler, inputs, tag=tag, **more))


_contract, _ingest, _chat = (partial(_route, tag=tag) for tag in ("contract", "ingest", "chat"))


def path_of(operation: Operation) -> str:
    return f"{PREFIX}/{operation.name.replace(' ', '/')}"


def state_of(request: Request) -> State:
    state: State = request.app.state.codeinfo
    return state


# --- JSON in and out -----------------------------------------------------------------------------------------------


def json_response(value: object, status: int = 200) -> Response:
    return Response(dumps(value), status, media_type="application/json")


async def json_body(request: Request) -> Mapping[str, Any]:
    """The body as a JSON object; its media type must be JSON, which another site's form cannot send."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UsageError("the body must be application/json", "Set Content-Type", code="MEDIA_TYPE")
    try:
        return json_decoder(dict[str, Any]).decode(await request.body() or b"{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not a JSON object: {error}", "Send one JSON object") from None


# --- errors --------------------------------------------------------------------------------------------------------


def route_of(step: Step) -> str:
    """A step as a request to this server; the command if it is not served."""
    row, values = OPERATIONS[step.operation], OPERATIONS[step.operation].fields_of(step)
    return f"`POST {path_of(row)}{' ' + dumps(values) if values else ''}`" if row.is_served else step.command()


def error_body(error: CodeInfoError) -> dict[str, Any]:
    body: dict[str, Any] = error_json(error.code, error.what, phrase(error.next_step, route_of))
    return body | ({"details": [error.what]} if error.code == UsageError.code else {})


async def known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CodeInfoError)
    if error.status >= 500:
        log.warning("%s %r: %s", request.method, request.url.path, error)
    return json_response(error_body(hide_setup(error)), error.status)


async def no_route(request: Request, error: Exception) -> Response:
    """No route, or not by this method."""
    assert isinstance(error, HTTPException)
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.status_code, "HTTP_ERROR")
    path, headers = request.url.path, error.headers or {}
    what, step = f"there is nothing at {path}", "See /docs for what is served"
    if "Allow" in headers:
        what, step = f"{path} does not take {request.method}", f"Send {headers['Allow']}"
    response = json_response(error_json(code, what, step), error.status_code)
    response.headers.update(headers)
    return response


async def client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # the client has gone


async def unknown_error(request: Request, error: Exception) -> Response:
    failure = fault(error, LOG_PLACE)
    return json_response(error_body(failure), failure.status)


EXCEPTION_HANDLERS = {
    CodeInfoError: known_error,
    HTTPException: no_route,
    ClientDisconnect: client_gone,
    Exception: unknown_error,
}


# --- the OpenAPI document ------------------------------------------------------------------------------------------

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "next"],
            "properties": {
                "code": {"type": "string", "description": "Stable, for programs."},
                "message": {"type": "string", "description": "What happened."},
                "next": {"type": "string", "description": "What to do next."},
            },
        },
        "details": {"type": "array", "items": {"type": "string"}, "description": "What VALIDATION_FAILED found wrong."},
    },
}
_DESCRIPTIONS = {
    400: "The request is not valid.",
    401: "The token is missing.",
    403: "The folder, the address or the origin is refused.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "Not in this state: not indexed yet, indexed with another model, or a run is in progress.",
    410: "The conversation is archived.",
    413: "The body is too large.",
    415: "The body must be JSON.",
    421: "The host name is refused.",
    429: "Busy: try again later.",
    499: "Cancelled.",
    502: "The index is damaged.",
    503: "A model is missing, does not answer, or the server is overloaded.",
    504: "It took too long.",
    507: "Disk or memory ran out.",
}


@cache  # a tenth of a second of the event loop
def openapi_text() -> str:
    kinds = tuple(dict.fromkeys(row.result for row in API_ROUTES if row.result is not None))
    schemas, shared = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    results = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for row in API_ROUTES:
        schema = results[row.result] if row.result is not None else {"type": "object"}
        if row.reflects:
            schema = {"allOf": [schema, {"type": "object", "properties": {"reflects": row.reflects}}]}
        paths.setdefault(row.path, {})[row.method.lower()] = _describe_route(row, schema)
    about = "Find the few places in a codebase that matter, and see why. Errors have one shape everywhere."
    info = {"title": "CodeInfo", "version": __version__, "description": about}
    components = {"schemas": {**shared, "Error": _ERROR_SCHEMA}}
    return dumps({"openapi": "3.1.0", "info": info, "paths": paths, "components": components})


def _describe_route(row: Api, result: Schema) -> dict[str, Any]:
    json_content = {"application/json": {"schema": result}}
    content: dict[str, Any] = json_content if row.method == "POST" or not row.streams else {}
    if row.streams:
        content = {**content, "text/event-stream": {}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    described: dict[str, Any] = {
        "tags": [row.tag],
        "summary": row.summary,
        "description": row.description,
        "operationId": re.sub(r"\W+", "_", f"{row.method.lower()}{row.path}").strip("_"),
        "responses": {
            "200": {"description": "Done.", "content": content},
            **{str(status): {"description": text, "content": error} for status, text in _DESCRIPTIONS.items()},
        },
    }
    names = re.findall(r"{(\w+)}", row.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    if row.method == "POST":
        body = {"application/json": {"schema": input_schema(row.inputs)}}
        described["requestBody"] = {"required": any(item.required for item in row.inputs), "content": body}
    else:
        parameters += [
            {"name": item.name, "in": "query", "required": item.required, "schema": property_schema(item)}
            for item in row.inputs
        ]
    return described | ({"parameters": parameters} if parameters else {})


def read_paths() -> frozenset[str]:
    """The paths that need no token. Indexing is derived data, but too expensive to be free for anyone."""
    paths = {path_of(row) for row in OPERATIONS.values() if row.is_served and row.read_only and row.name != "index"}
    return frozenset(paths | {row.path for row in CONTRACT if row.method == "POST"})


def _operation_route(operation: Operation) -> Api:
    def perform(state: State, values: Values, call: Call) -> Any:
        result, shown = state.dispatcher.perform(operation, values, call)
        return jsonable(result) | {"reflects": shown} if shown else result

    inputs, reflects = inputs_of(operation.request), reflects_schema(operation)
    shown: dict[str, Any] = {"result": operation.result, "description": operation.help, "operation": operation.name}
    return Api("POST", path_of(operation), operation.summary, perform, inputs, reflects=reflects, **shown)


# --- the contract --------------------------------------------------------------------------------------------------

_REPOSITORY = Input("repository", "An indexed repository: its name or folder.")


def _renamed_route(
    method: str,
    path: str,
    name: str,
    names: Mapping[str, tuple[str, ...]] = CONTRACT_NAMES,
    shape: Callable[[Any], Any] = camel_json,
    **more: Any,
) -> Api:
    """An operation under the contract's path and argument names. A folder is named as a repository."""
    operation = OPERATIONS[name]
    folder = field_naming(PROJECT, operation.request)
    fields = (item for item in inputs_of(operation.request) if item.name not in (folder, "refresh"))
    arguments = rename_inputs(fields, names) | ({folder: _REPOSITORY} if folder else {})
    inputs = tuple(item for item in arguments.values() if f"{{{item.name}}}" not in path)

    def perform(state: State, values: Values, call: Call) -> Any:
        return shape(state.dispatcher.perform(operation, fields_of(arguments, values), call)[0])

    shown = {"description": operation.help, "tag": "contract", **more}
    return Api(method, path, operation.summary, perform, inputs, operation=name, **shown)


def fields_of(arguments: Mapping[str, Input], values: Values) -> Values:
    """The fields of a request by the values of its arguments."""
    return {field: values[item.name] for field, item in arguments.items() if item.name in values}


@_contract("GET", "/health", "Whether the server works, and what `doctor` says.", reserved=True)
def _health(state: State, values: Values, call: Call) -> Any:
    report = state.engine.doctor(DoctorRequest(checksums=False))  # polled every few seconds, also under load
    status = "degraded" if any(check.state == "fail" for check in report.checks) else "ok"
    late_ms = round(1000 * state.late_s)
    return {"status": status, "version": __version__, "late_ms": late_ms, "checks": report.checks}


@_contract("GET", "/version", "The version.", reserved=True)
def _version(state: State, values: Values, call: Call) -> Any:
    return {"name": "codeinfo", "version": __version__}


_LEVEL = Input("level", "At least this serious.", default="INFO", choices=LEVELS)
_LINES = Input("limit", "At most this many lines.", "int", 200, minimum=1, maximum=1000)


@_contract("GET", "/logs", "Recent log lines, the latest first.", _LEVEL, _LINES, reserved=True)
def _log_lines(state: State, values: Values, call: Call) -> Any:
    return {"lines": state.logs.since(values["level"], values["limit"])}


CONTRACT = (
    _renamed_route(
        "POST",
        "/tools/vector-search",
        "vector-search",
        result=VectorSearchResult,
        description="`score` is the raw distance: squared L2, 0 is identical, lower is closer.",
    ),
    _renamed_route("POST", "/tools/ast-list-symbols", "symbols"),
    _renamed_route("POST", "/tools/ast-find-definition", "defs"),
    _renamed_route("POST", "/tools/ast-find-references", "refs"),
    _renamed_route("POST", "/tools/ast-call-graph", "calls"),
    _renamed_route("POST", "/tools/ast-module-imports", "imports"),
    _renamed_route("GET", "/tools/ingested-repos", "projects", result=ProjectsResult),
)


# --- the queue of indexing runs ------------------------------------------------------------------------------------

_FOLDER = Input("path", "The folder.", required=True)
_ROOT = Input("root", "The project: its name or folder.", required=True, aliases=("path", "sourceId"))
_FULL = Input("full", "Rebuild everything instead of only what changed.", "bool", False)
_RUN = Input("runId", "The run.", required=True)
_BELOW = Input("path", "The folder; those that may be added unless named.")


@_ingest("POST", "/ingest/start", "Queue a folder to be indexed.", _FOLDER, _FULL, result=IngestRun)
def _start(state: State, values: Values, call: Call) -> Any:
    return state.add_project(values["path"], full=values["full"])


@_ingest("POST", "/ingest/reembed", "Queue a project to be brought up to date.", _ROOT, _FULL, result=IngestRun)
def _refresh(state: State, values: Values, call: Call) -> Any:
    return state.refresh_project(values["root"], full=values["full"])


@_ingest("POST", "/ingest/cancel", "Cancel a run that is queued or running.", _RUN, result=IngestRun)
def _cancel(state: State, values: Values, call: Call) -> Any:
    return state.ingest.cancel(values["runId"])


@_ingest("POST", "/ingest/remove", "Delete a project's index.", _ROOT, result=ClearReport)
def _remove(state: State, values: Values, call: Call) -> Any:
    return state.remove_project(values["root"])


@_ingest("GET", "/ingest/status", "The runs: running, queued and finished.", result=IngestStatus)
def _status(state: State, values: Values, call: Call) -> Any:
    return state.ingest.status()


@_ingest("GET", "/ingest/status/{run_id}", "One run.", result=IngestRun)
def _show_run(state: State, values: Values, call: Call) -> Any:
    return state.ingest.run(values["run_id"])


@_ingest("GET", "/ingest/roots", "The indexed projects.", result=ProjectsResult)
def _roots(state: State, values: Values, call: Call) -> Any:
    return ProjectsResult(state.projects.known())


@_ingest("GET", "/ingest/models", "The embedding model that new indexes get.")
def _embedding_models(state: State, values: Values, call: Call) -> Any:
    embedder = state.engine.embedder()
    return {"models": [{"id": embedder.model_id, "dimension": embedder.dimension}] if embedder else []}


@_ingest("GET", "/ingest/dirs", "Folders below a folder, within those that may be added.", _BELOW)
def _dirs(state: State, values: Values, call: Call) -> Any:
    return state.folders_below(values.get("path", ""))


@_ingest("GET", "/ingest/events", "The queue whenever it changes, as server-sent events.")
async def _queue_events(state: State, values: Values, request: Request) -> Response:
    return EventSourceResponse(_queue_changes(state), ping=PING_SECONDS)


async def _queue_changes(state: State) -> AsyncIterator[dict[str, str]]:
    """The queue now, then whenever it has changed."""
    shown = ""
    while not state.draining:
        now = await _queue_text(state)
        if now != shown:
            yield {"event": "queue", "data": now}
        shown = now
        await asyncio.sleep(QUEUE_SECONDS)


async def _queue_text(state: State) -> str:
    """The queue as JSON, read twice a second however many listen: hundreds who each read it would stop searches."""
    now = time.monotonic()
    if now - state.queue_read >= QUEUE_SECONDS:
        state.queue_read = now  # first: others show what is known until it is read
        state.queue_text = dumps(await state.dispatcher.run(lambda call: state.ingest.status()))
    return state.queue_text


# --- chat and agents -----------------------------------------------------------------------------------------------

_QUESTION_NAMES = {"question": ("message",), "paths": ("projects",), "conversation": ("conversationId",)}
_STREAM = Input("stream", "Events as they come; otherwise the whole answer at its end.", "bool", True)


def _arguments_of(request: type) -> dict[str, Input]:
    shown = (item for item in inputs_of(request) if item.name not in ("agent", "trace"))
    return rename_inputs(shown, _QUESTION_NAMES)


CHAT, AGENT = map(_arguments_of, (answers.AskRequest, answers.AgentRunRequest))  # by the fields of the requests
CHAT["paths"] = replace(CHAT["paths"], help="Ask about these projects, by name or folder.")
CHAT_INPUTS, AGENT_INPUTS = (*CHAT.values(), _STREAM), (*AGENT.values(), _STREAM)


def ask_request(state: State, values: Values) -> answers.AskRequest:
    if not values["message"].strip():
        raise UsageError("the question is empty", "Ask something")
    if values.get("conversationId"):
        state.engine.conversations.show(answers.ConversationRequest(values["conversationId"]))
    return state.projects.place(answers.AskRequest(**fields_of(CHAT, values)))


def agent_request(state: State, values: Values) -> answers.AgentRunRequest:
    request = answers.AgentRunRequest(values["name"], **fields_of(AGENT, values))
    state.engine.answers.agent(request.agent).instructions(request.instruction, request.command)
    return state.projects.place(request)


async def _reply(question: Callable[[State, Values], AnyQuestion], state: State, values: Values) -> Response:
    """A failure before the first word is a status; later ones are events."""
    run = await state.dispatcher.run(lambda call: state.runs.start(question(state, values)))
    async for _, event in run.follow():
        if event.kind == "error" and run.error is not None:
            raise run.error
        if values["stream"]:
            return EventSourceResponse(_run_events(run, 0), ping=PING_SECONDS)
    return json_response(_run_result(run))


def _run_result(run: AnswerRun) -> dict[str, Any]:
    return {
        "runId": run.id, "conversationId": run.conversation, "stopped": run.stopped, "agentName": run.agent or None,
        "modelId": run.answers[-1].model_id if run.answers else "",
        "answers": camel_json(run.answers),
    }  # fmt: skip


async def _run_events(run: AnswerRun, after: int) -> AsyncIterator[dict[str, str]]:
    yield {"event": "run", "data": dumps({"runId": run.id})}
    async for number, event in run.follow(after):
        data = _run_result(run) if event.kind == "done" else event.data
        yield {"id": str(number), "event": event.kind, "data": dumps(data)}


@_chat("POST", "/chat", "Ask; the answer comes as server-sent events.", *CHAT_INPUTS, team=WRITE)
async def _ask(state: State, values: Values, request: Request) -> Response:
    return await _reply(ask_request, state, values)


@_chat("POST", "/agents/{name}/run", "Have an agent do something with a project.", *AGENT_INPUTS)
async def _run_agent(state: State, values: Values, request: Request) -> Response:
    return await _reply(agent_request, state, values)


@_chat("GET", "/chat/models", "Chat endpoints and their models.", team=READ)
def _models(state: State, values: Values, call: Call) -> Any:
    listing = state.engine.answers.providers()
    fields = ("name", "state", "models", "chosen")
    listed = ((provider, hide_places(provider.detail)) for provider in listing.providers)
    shown = [{name: getattr(provider, name) for name in fields} | {"detail": detail} for provider, detail in listed]
    return {"providers": shown, "notes": listing.notes}


@_chat("GET", "/chat/runs/{run_id}/events", "The events of a run, from the first or after Last-Event-ID.", team=READ)
async def _events(state: State, values: Values, request: Request) -> Response:
    last = request.headers.get("last-event-id", "")
    after = int(last) + 1 if last.isdecimal() and len(last) < 10 else 0
    run = await state.dispatcher.run(lambda call: state.runs.get(values["run_id"]))  # which may ask the database
    return EventSourceResponse(_run_events(run, after), ping=PING_SECONDS)


@_chat("POST", "/chat/runs/{run_id}/stop", "Stop a run.", team=WRITE)
def _stop(state: State, values: Values, call: Call) -> Any:
    run = state.runs.get(values["run_id"])
    run.call.cancel()
    return {"runId": run.id, "stopping": not run.finished}


def _with_timing(conversation: Any) -> Any:
    shown = camel_json(conversation)
    for turn in shown["turns"]:
        took = turn.pop("tookMs")
        turn["timing"] = None if took is None else {"totalTimeSec": round(took / 1000, 3)}
    return shown


_CHAT_NAMES = {"agent": ("agentName",), "id": ("identity",), "ids": ("conversationIds",)}
_conversation_route = partial(_renamed_route, names=_CHAT_NAMES, tag="chat")
CONVERSATIONS = (
    _conversation_route("GET", "/agents", "agents list"),
    _conversation_route("GET", "/conversations", "conversations list"),
    _conversation_route("GET", "/conversations/{identity}", "conversations show", shape=_with_timing),
    _conversation_route("POST", "/conversations/archive", "conversations archive"),
    _conversation_route("POST", "/conversations/restore", "conversations restore"),
    _conversation_route("POST", "/conversations/delete", "conversations delete"),
)
_served = (row for row in OPERATIONS.values() if row.is_served)
API_ROUTES = (*map(_operation_route, _served), *CONTRACT, *ROUTES, *CONVERSATIONS)
