"""The pages of chat and agents: conversations, turns with their sources and tool details, answers being written."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from codeinfo.errors import NotFound
from codeinfo.operations import answers as requests
from codeinfo.shells.http_chat import AGENT, CHAT, agent_request, ask_request
from codeinfo.shells.http_errors import json_response
from codeinfo.shells.http_html import form, page, render
from codeinfo.shells.http_runs import AnswerRun
from codeinfo.shells.http_state import State, json_body, state_of
from codeinfo.shells.http_text import citation_link
from codeinfo.shells.http_views import TurnView, turn_view
from codeinfo.shells.mcp_schema import checked

SHOWN_CONVERSATIONS = 40


def add_routes(router: APIRouter) -> None:
    for path, endpoint in (
        ("/ui/chat", _chat),
        ("/ui/agents", _agents),
        ("/ui/conversations", _list),
        ("/ui/runs/{run_id}/turn", _turn),
    ):
        router.add_api_route(path, endpoint, methods=["GET"], response_class=Response)
    for path, endpoint in (
        ("/ui/runs", _start),
        ("/ui/conversations/archive", _archive),
        ("/ui/conversations/restore", _restore),
    ):
        router.add_api_route(path, endpoint, methods=["POST"], response_class=Response)


@page
async def _chat(request: Request, state: State) -> Response:
    return render(request, "chat.html", agents=(), **await state.work(lambda call: _talk(state, request, "")))


@page
async def _agents(request: Request, state: State) -> Response:
    agents = await state.work(lambda call: state.engine.answers.agents(requests.AgentsRequest()).agents)
    chosen = request.query_params.get("agent", "") or next((one.name for one in agents if not one.problem), "")
    if chosen and chosen not in (one.name for one in agents):
        raise NotFound(f"there is no agent {chosen}", next_step="Choose one on the Agents page")
    values = await state.work(lambda call: _talk(state, request, chosen))
    return render(request, "agents.html", agents=agents, **values)


def _talk(state: State, request: Request, agent: str) -> dict[str, Any]:
    """Everything a page with a conversation shows."""
    identity = request.query_params.get("c", "")
    turns: list[TurnView] = []
    conversation, run = None, None
    if identity:
        detail = state.engine.answers.conversation(requests.ConversationRequest(identity))
        conversation, run = detail.conversation, state.runs.of_conversation(detail.conversation.id)
        turns = _turn_views(detail, writing=detail.conversation.running)
    providers = state.engine.answers.providers(requests.ProvidersRequest())
    return {
        "agent": agent,
        "conversation": conversation,
        "turns": turns,
        "run": run,
        "providers": providers.providers,
        "provider_notes": providers.notes,
        "projects": state.projects(),
        "project": request.query_params.get("project", "") or _first_path(conversation) or state.root_shown(""),
        "link": citation_link,
        **_listed(state, "active", agent),
    }


def _first_path(conversation: requests.Conversation | None) -> str:
    return conversation.paths[0] if conversation is not None and conversation.paths else ""


def _turn_views(detail: requests.ConversationDetail, *, writing: bool) -> list[TurnView]:
    """The last turn of a conversation that is running is being written: the live answer stands for it."""
    turns = detail.turns[:-1] if writing and detail.turns else detail.turns
    return [turn_view(turn, _first_path(detail.conversation)) for turn in turns]


def _listed(state: State, which: str, agent: str) -> dict[str, Any]:
    asked = requests.ConversationsRequest(which, SHOWN_CONVERSATIONS, agent=agent)
    found = state.engine.answers.conversations(asked).conversations
    shown = [one for one in found if bool(one.agent_name) == bool(agent)]
    return {"conversations": shown, "which": which}


@page
async def _list(request: Request, state: State) -> Response:
    which = "archived" if request.query_params.get("state") == "archived" else "active"
    agent = request.query_params.get("agent", "")
    current = request.query_params.get("c", "")
    values = await state.work(lambda call: _listed(state, which, agent))
    return render(request, "conversation_list.html", agent=agent, current=current, **values)


@page
async def _archive(request: Request, state: State) -> Response:
    return await _changed(request, state, "archive_conversations", "active")


@page
async def _restore(request: Request, state: State) -> Response:
    return await _changed(request, state, "restore_conversations", "archived")


async def _changed(request: Request, state: State, method: str, which: str) -> Response:
    given = await form(request)
    change = getattr(state.engine.answers, method)
    await state.work(lambda call: change(requests.ConversationIdsRequest((given.get("id", ""),))))
    agent = given.get("agent", "")
    values = await state.work(lambda call: _listed(state, which, agent))
    return render(request, "conversation_list.html", agent=agent, current="", **values)


# --- answers being written -----------------------------------------------------------------------------------------


async def _start(request: Request) -> Response:
    """Begin an answer and say where: its events come by /chat/runs/ID/events, also to a page opened later."""
    state = state_of(request)
    given = dict(await json_body(request))
    agent = str(given.pop("agent", ""))
    run = await state.work(lambda call: _started(state, agent, given))
    return json_response({"runId": run.id, "conversationId": run.conversation}, 202)


def _started(state: State, agent: str, given: dict[str, Any]) -> AnswerRun:
    if agent:
        return state.runs.start(agent_request(state, agent, checked(AGENT, given)))
    return state.runs.start(ask_request(state, checked(CHAT, given)))


@page
async def _turn(request: Request, state: State) -> Response:
    """The finished answer of a run."""
    run = state.runs.get(request.path_params["run_id"])
    if run.error is not None and not run.text:
        raise run.error
    asked = requests.ConversationRequest(run.conversation)
    detail = await state.work(lambda call: state.engine.answers.conversation(asked))
    count = max(1, 2 * len(run.answers) - 1)
    views = _turn_views(detail, writing=False)[-count:]
    return render(request, "turns.html", turns=views, link=citation_link)
