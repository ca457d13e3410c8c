"""`/chat`, `/conversations` and `/agents`: answers as server-sent events, and what was said before."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sse_starlette import EventSourceResponse

from codeinfo.errors import NotFound, UsageError
from codeinfo.jsonable import dumps, jsonable
from codeinfo.operations import answers as requests
from codeinfo.serve.runs import AnswerRun
from codeinfo.shells.http_contract import Endpoint, add_events, add_get
from codeinfo.shells.http_errors import json_response
from codeinfo.shells.http_operations import add_post
from codeinfo.shells.http_state import State, json_body, state_of
from codeinfo.shells.mcp_schema import Input, checked

PING_SECONDS = 15
_PROVIDER = Input("provider", "Ask this server, by a name that /chat/models shows.")
_MODEL = Input("model", "Ask this model.")
_CONVERSATION = Input("conversationId", "Go on with this conversation.")
_STREAM = Input("stream", "Events as they come; otherwise the whole answer at its end.", "bool", True)
CHAT = (
    Input("message", "The question, in plain words.", required=True),
    Input("projects", "Ask about these projects, by name or folder.", "tuple[str, ...]"),
    _CONVERSATION, _PROVIDER, _MODEL, _STREAM,
)  # fmt: skip
AGENT = (
    Input("instruction", "What it is to do; a command may need none."),
    Input("command", "Run this command's steps."),
    Input("working_folder", "The project it works on: its name or folder."),
    _CONVERSATION, _PROVIDER, _MODEL, _STREAM,
)  # fmt: skip
_IDS = (Input("conversationIds", "Which ones.", "tuple[str, ...]", required=True),)
States = Literal["active", "archived", "all"]
_OBJECT = {"type": "object"}


def chat_router() -> APIRouter:
    router = APIRouter(tags=["chat"])
    add_stream(router, "/chat", _chat, CHAT, "Ask; the answer comes as server-sent events.")
    add_stream(router, "/agents/{name}/run", _run_agent, AGENT, "Have an agent do something with a project.")
    gets: tuple[tuple[str, Endpoint, str], ...] = (
        ("/chat/models", _models, "Chat endpoints and their models."),
        ("/agents", _agents, "The agents."),
        ("/conversations", _conversations, "Conversations, the latest first."),
        ("/conversations/{identity}", _conversation, "One conversation with its turns."),
    )
    for path, endpoint, summary in gets:
        add_get(router, path, endpoint, summary, _OBJECT)
    told = "The events of a run, from the first or after Last-Event-ID."
    add_events(router, "/chat/runs/{run_id}/events", _events, told)
    for path, endpoint, inputs, summary in (
        ("/chat/runs/{run_id}/stop", _stop, (), "Stop a run."),
        ("/conversations/archive", _archive, _IDS, "Put conversations away."),
        ("/conversations/restore", _restore, _IDS, "Take conversations out of the archive."),
        ("/conversations/delete", _delete, _IDS, "Delete conversations for good."),
    ):
        add_post(router, path, endpoint, inputs=inputs, result=_OBJECT, summary=summary)
    return router


def add_stream(router: APIRouter, path: str, endpoint: Any, inputs: tuple[Input, ...], summary: str) -> None:
    add_post(router, path, endpoint, inputs=inputs, result=_OBJECT, summary=summary)
    router.routes[-1].responses[200]["content"]["text/event-stream"] = {}  # type: ignore[attr-defined]


def camel(value: Any) -> Any:
    """The contract's spelling of keys."""
    if isinstance(value, dict):
        return {re.sub(r"_([a-z])", lambda found: found[1].upper(), key): camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


# --- asking --------------------------------------------------------------------------------------------------------


async def _chat(request: Request) -> Response:
    state = state_of(request)
    values = checked(CHAT, await json_body(request))
    run = await state.work(lambda call: state.runs.start(ask_request(state, values)))
    return await _reply(run, stream=values.get("stream", True))


def ask_request(state: State, values: dict[str, Any]) -> requests.AskRequest:
    if not values["message"].strip():
        raise UsageError("the question is empty", next_step="Ask something")
    if values.get("conversationId"):
        state.engine.answers.conversation(requests.ConversationRequest(values["conversationId"]))
    return requests.AskRequest(
        values["message"],
        tuple(state.root_of(name) for name in values.get("projects") or ("",)),
        values.get("conversationId", ""),
        values.get("provider", ""),
        values.get("model", ""),
    )


async def _run_agent(request: Request, name: str) -> Response:
    state = state_of(request)
    values = checked(AGENT, await json_body(request))
    run = await state.work(lambda call: state.runs.start(agent_request(state, name, values)))
    return await _reply(run, stream=values.get("stream", True))


def agent_request(state: State, name: str, values: dict[str, Any]) -> requests.AgentRunRequest:
    profile = state.engine.answers.agent(name)
    if values.get("command"):
        profile.command(values["command"])
    elif not values.get("instruction", "").strip():
        raise UsageError("the instruction is empty", next_step="Say what the agent is to do")
    return requests.AgentRunRequest(
        name,
        values.get("instruction", ""),
        state.root_of(values.get("working_folder", "")),
        values.get("command", ""),
        values.get("conversationId", ""),
        values.get("provider", ""),
        values.get("model", ""),
    )


async def _reply(run: AnswerRun, *, stream: bool) -> Response:
    """A failure before the first word is a status; later ones are events."""
    async for _, event in run.follow():
        if event.kind == "error" and run.error is not None:
            raise run.error
        if stream:
            return EventSourceResponse(_told(run, 0), ping=PING_SECONDS)
    return json_response(final(run))


def final(run: AnswerRun) -> dict[str, Any]:
    told: dict[str, Any] = {
        "runId": run.id, "conversationId": run.conversation, "stopped": run.stopped, "agentName": run.agent or None,
        "modelId": run.answers[-1].model_id if run.answers else "",
        "answers": [camel(jsonable(answer)) for answer in run.answers],
    }  # fmt: skip
    return told


async def _told(run: AnswerRun, after: int) -> AsyncIterator[dict[str, str]]:
    yield {"event": "run", "data": dumps({"runId": run.id})}
    async for number, event in run.follow(after):
        data = final(run) if event.kind == "done" else event.data
        yield {"id": str(number), "event": event.kind, "data": dumps(data)}


async def _events(request: Request, run_id: str) -> Response:
    run = state_of(request).runs.get(run_id)
    last = request.headers.get("last-event-id", "")
    after = int(last) + 1 if last.isdecimal() and len(last) < 10 else 0
    return EventSourceResponse(_told(run, after), ping=PING_SECONDS)


async def _stop(request: Request, run_id: str) -> Response:
    state = state_of(request)
    run = state.runs.get(run_id)
    await state.work(lambda call: run.call.cancel())
    return json_response({"runId": run.id, "stopping": not run.finished})


async def _models(request: Request) -> Response:
    state = state_of(request)
    found = await state.work(lambda call: state.engine.answers.providers(requests.ProvidersRequest()))
    shown = [
        {"name": one.name, "state": one.state, "models": one.models, "detail": one.detail, "chosen": one.chosen}
        for one in found.providers
    ]
    return json_response({"providers": shown, "notes": found.notes})


# --- agents and conversations --------------------------------------------------------------------------------------


async def _agents(request: Request) -> Response:
    state = state_of(request)
    found = await state.work(lambda call: state.engine.answers.agents(requests.AgentsRequest()))
    return json_response(camel(jsonable(found)))


async def _conversations(
    request: Request,
    state: States = "active",
    limit: int = Query(default=20, ge=1, le=100),
    cursor: str = Query(default="", max_length=200),
    agentName: str = Query(default="", max_length=200),
) -> Response:
    shared = state_of(request)
    asked = requests.ConversationsRequest(state, limit, cursor, agentName)
    return json_response(camel(jsonable(await shared.work(lambda call: shared.engine.answers.conversations(asked)))))


async def _conversation(request: Request, identity: str) -> Response:
    state = state_of(request)
    asked = requests.ConversationRequest(identity)
    return json_response(camel(jsonable(await state.work(lambda call: state.engine.answers.conversation(asked)))))


async def _archive(request: Request) -> Response:
    return await _change(request, "archive_conversations")


async def _restore(request: Request) -> Response:
    return await _change(request, "restore_conversations")


async def _delete(request: Request) -> Response:
    return await _change(request, "delete_conversations")


async def _change(request: Request, method: str) -> Response:
    state = state_of(request)
    ids = checked(_IDS, await json_body(request))["conversationIds"]
    if not ids:
        raise NotFound("no conversation is named", next_step="Name at least one")
    change = getattr(state.engine.answers, method)
    done = await state.work(lambda call: change(requests.ConversationIdsRequest(ids)))
    return json_response(camel(jsonable(done)))
