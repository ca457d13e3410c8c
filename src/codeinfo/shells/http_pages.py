"""The pages: projects, map, health, chat, agents and the description of the API; all routes of pages."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.operations import answers as requests
from codeinfo.operations import code as code_requests
from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest
from codeinfo.operations.search import DoctorRequest, StatusRequest
from codeinfo.serve.dispatch import check
from codeinfo.serve.runs import AnswerRun, State
from codeinfo.shells import http_search_pages as code_pages
from codeinfo.shells.http_api import AGENT_INPUTS, CHAT_INPUTS, LEVELS, agent_request, api_routes, ask_request
from codeinfo.shells.http_routes import json_body, json_response, openapi_document, state_of
from codeinfo.shells.http_views import TurnView, citation_link, described_routes, picture_of, turn_view
from codeinfo.shells.http_visit import Visit, page

SHOWN_CONVERSATIONS = 40
SHOWN_PATTERNS = 24
MAP_AREAS = 24
MOST_FILES = 100  # of an area that are listed


# --- projects ------------------------------------------------------------------------------------------------------


def _projects(visit: Visit) -> str:
    template = "project_list.html" if visit.is_fragment else "projects.html"
    return visit.render(template, **_project_values(visit.state))


def _project_values(state: State) -> dict[str, Any]:
    state.projects.forget()
    projects = state.projects.known()
    sizes = {}
    for one in projects:
        if one.state in ("ready", "building"):
            try:
                (sizes[one.root],) = state.engine.status(StatusRequest((one.root,))).indexes
            except CodeInfoError:
                continue
    return {"projects": projects, "sizes": sizes, "queue": state.ingest.status(), "picker": state.folders_below("")}


def _queue(visit: Visit) -> str:
    return visit.render("queue.html", queue=visit.state.ingest.status())


def _dirs(visit: Visit) -> str:
    return visit.render("picker.html", picker=visit.state.folders_below(visit.given.get("path", "")))


def _add(visit: Visit) -> str:
    state = visit.state
    given = visit.given.get("path", "").strip()
    if not given:
        raise UsageError("no folder is named", next_step="Type or choose a folder")
    state.add_project(given, full=False)
    return visit.render("queue.html", queue=state.ingest.status())


def _again(visit: Visit) -> str:
    state = visit.state
    state.refresh_project(visit.given.get("root", ""), full=visit.given.get("full") == "1")
    return visit.render("queue.html", queue=state.ingest.status())


def _remove(visit: Visit) -> str:
    state = visit.state
    state.remove_project(visit.given.get("root", ""))
    return visit.render("project_list.html", **_project_values(state))


def _cancel(visit: Visit) -> str:
    state = visit.state
    state.ingest.cancel(visit.given.get("run", ""))
    time.sleep(0.2)  # it stops at the next file: the list then says so already
    return visit.render("queue.html", queue=state.ingest.status())


# --- map and health ------------------------------------------------------------------------------------------------


def _map(visit: Visit) -> str:
    state = visit.state
    asked = visit.given
    projects = state.projects.known()
    values: dict[str, Any] = {"projects": projects, "project": "", "area": asked.get("area", ""), "code_map": None}
    if projects:
        root = state.projects.root_shown(asked.get("project", ""))
        wanted = code_requests.MapRequest(root, limit=MAP_AREAS, area=values["area"])
        found = state.engine.code.map(wanted, visit.call.progress)
        cycles = state.engine.code.cycles(code_requests.CyclesRequest(root, 10, False))
        values |= {"project": root, "code_map": found, "picture": picture_of(found), "cycles": cycles}
        values |= {"area_files": found.area_files[:MOST_FILES], "more_files": len(found.area_files[MOST_FILES:])}
    return visit.render("map_areas.html" if visit.is_fragment else "map.html", **values)


def _knowledge(visit: Visit) -> str:
    """Patterns and memories take longer than the picture, so they come after it."""
    state = visit.state
    root = state.root_of(visit.given.get("project", ""))
    knowledge = state.engine.knowledge
    patterns = knowledge.patterns(PatternsRequest(root, history=True), visit.call.progress)
    memories = knowledge.memory_list(MemoryListRequest(path=root))
    return visit.render("knowledge.html", patterns=patterns, memories=memories.memories, shown=SHOWN_PATTERNS)


def _health(visit: Visit) -> str:
    state = visit.state
    level = visit.given.get("level", "INFO")
    if level not in LEVELS:
        raise UsageError(f"there is no level {level}", next_step=f"One of: {', '.join(LEVELS)}")
    lines = state.logs.since(level, 200)
    if visit.is_fragment:
        return visit.render("log_lines.html", lines=lines)
    roots = tuple(one.root for one in state.projects.known() if one.state == "ready")
    report = state.engine.doctor(DoctorRequest(roots))
    return visit.render("health.html", checks=report.checks, lines=lines, level=level, levels=LEVELS)


def _docs(visit: Visit) -> str:
    return visit.render("docs.html", groups=described_routes(openapi_document(api_routes())))


# --- chat and agents -----------------------------------------------------------------------------------------------


def _chat(visit: Visit) -> str:
    return visit.render("chat.html", agents=(), **_conversation_values(visit, ""))


def _agents(visit: Visit) -> str:
    agents = visit.state.engine.answers.agents(requests.AgentsRequest()).agents
    chosen = visit.given.get("agent", "") or next((one.name for one in agents if not one.problem), "")
    if chosen and chosen not in (one.name for one in agents):
        raise NotFound(f"there is no agent {chosen}", next_step="Choose one on the Agents page")
    return visit.render("agents.html", agents=agents, **_conversation_values(visit, chosen))


def _conversation_values(visit: Visit, agent: str) -> dict[str, Any]:
    """Everything a page with a conversation shows."""
    state = visit.state
    identity = visit.given.get("c", "")
    turns: list[TurnView] = []
    conversation, run = None, None
    if identity:
        detail = state.engine.answers.conversation(requests.ConversationRequest(identity))
        conversation, run = detail.conversation, state.runs.of_conversation(detail.conversation.id)
        turns = _turn_views(detail, writing=detail.conversation.running)
    providers = state.engine.answers.providers(requests.ProvidersRequest())
    return {
        "agent": agent,
        "draft": visit.given.get("draft", ""),
        "conversation": conversation,
        "turns": turns,
        "run": run,
        "providers": providers.providers,
        "provider_notes": providers.notes,
        "projects": state.projects.known(),
        "project": visit.given.get("project", "") or _first_path(conversation) or state.projects.root_shown(""),
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


def _list(visit: Visit) -> str:
    which = "archived" if visit.given.get("state") == "archived" else "active"
    agent = visit.given.get("agent", "")
    values = _listed(visit.state, which, agent)
    return visit.render("conversation_list.html", agent=agent, current=visit.given.get("c", ""), **values)


def _change(method: str, which: str, visit: Visit) -> str:
    change = getattr(visit.state.engine.answers, method)
    change(requests.ConversationIdsRequest((visit.given.get("id", ""),)))
    agent = visit.given.get("agent", "")
    values = _listed(visit.state, which, agent)
    return visit.render("conversation_list.html", agent=agent, current="", **values)


async def _start(request: Request) -> Response:
    """Begin an answer and say where: its events come by /chat/runs/ID/events, also to a page opened later."""
    state = state_of(request)
    given = dict(await json_body(request))
    agent = str(given.pop("agent", ""))
    run = await state.run(lambda call: _start_run(state, agent, given))
    return json_response({"runId": run.id, "conversationId": run.conversation}, 202)


def _start_run(state: State, agent: str, given: dict[str, Any]) -> AnswerRun:
    if agent:
        return state.runs.start(agent_request(state, agent, check(AGENT_INPUTS, given)))
    return state.runs.start(ask_request(state, check(CHAT_INPUTS, given)))


def _turn(visit: Visit) -> str:
    """The finished answer of a run."""
    state = visit.state
    run = state.runs.get(visit.request.path_params["run_id"])
    if run.error is not None and not run.text:
        raise run.error
    asked = requests.ConversationRequest(run.conversation)
    detail = state.engine.answers.conversation(asked)
    count = max(1, 2 * len(run.answers) - 1)
    views = _turn_views(detail, writing=False)[-count:]
    return visit.render("turns.html", turns=views, link=citation_link)


# --- routes --------------------------------------------------------------------------------------------------------


def page_routes() -> list[Route]:
    return [
        page("GET", "/", code_pages.search_results, code_pages.search_frame),
        page("GET", "/panel", code_pages.panel),
        page("GET", "/ui/name", code_pages.name),
        page("GET", "/ui/file", code_pages.file_lines, code_pages.file_frame),
        page("GET", "/ui/progress", code_pages.progress),
        page("POST", "/ui/progress", code_pages.index_again),
        page("GET", "/docs", _docs),
        page("GET", "/ui/projects", _projects),
        page("GET", "/ui/projects/queue", _queue),
        page("GET", "/ui/projects/dirs", _dirs),
        page("POST", "/ui/projects/add", _add),
        page("POST", "/ui/projects/again", _again),
        page("POST", "/ui/projects/remove", _remove),
        page("POST", "/ui/projects/cancel", _cancel),
        page("GET", "/ui/map", _map),
        page("GET", "/ui/map/knowledge", _knowledge),
        page("GET", "/ui/health", _health),
        page("GET", "/ui/chat", _chat),
        page("GET", "/ui/agents", _agents),
        page("GET", "/ui/conversations", _list),
        page("POST", "/ui/conversations/archive", partial(_change, "archive_conversations", "active")),
        page("POST", "/ui/conversations/restore", partial(_change, "restore_conversations", "archived")),
        page("GET", "/ui/runs/{run_id}/turn", _turn),
        Route("/ui/runs", _start, methods=["POST"]),
    ]
