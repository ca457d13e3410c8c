"""The pages: projects, map, health, chat, agents and the description of the API; all routes of pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.operations import answers as ops
from codeinfo.operations import code as code_requests
from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest, PatternUse
from codeinfo.operations.search import DoctorRequest, StatusRequest
from codeinfo.serve.dispatch import check, check_length
from codeinfo.serve.runs import AnswerRun, State
from codeinfo.serve.team import check_offered
from codeinfo.shells import http_document_pages as document_pages
from codeinfo.shells import http_search_pages as code_pages
from codeinfo.shells.http_api import AGENT_INPUTS, CHAT_INPUTS, LEVELS, agent_request, api_routes, ask_request
from codeinfo.shells.http_routes import json_body, json_response, openapi_document, state_of
from codeinfo.shells.http_views import RouteView, TurnView, citation_link, described_routes, picture_of, turn_view
from codeinfo.shells.http_visit import Visit, page

SHOWN_CONVERSATIONS = 40
SHOWN_PATTERNS = 40
SHOWN_MEMORIES = 200
MAP_AREAS = 24
MOST_FILES = 100  # of an area that are listed


# --- projects ------------------------------------------------------------------------------------------------------


def _projects_frame(visit: Visit) -> str:
    """What is known at once: how large an index is, and whether it is stale, comes after it."""
    visit.state.projects.forget()
    return visit.render("projects.html", picker=visit.state.folders_below(""), **_project_values(visit.state, {}))


def _projects(visit: Visit) -> str:
    state = visit.state
    state.projects.forget()
    sizes = {}
    for one in state.projects.known():
        if one.state in ("ready", "building"):
            try:
                (sizes[one.root],) = state.engine.status(StatusRequest((one.root,))).indexes
            except CodeInfoError:
                continue
    return visit.render("project_list.html", **_project_values(state, sizes))


def _project_values(state: State, sizes: dict[str, Any]) -> dict[str, Any]:
    return {"projects": state.projects.known(), "sizes": sizes, "queue": state.ingest.status()}


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
    return _projects(visit)


def _cancel(visit: Visit) -> str:
    state = visit.state
    state.ingest.cancel(visit.given.get("run", ""))
    time.sleep(0.2)  # it stops at the next file: the list then says so already
    return visit.render("queue.html", queue=state.ingest.status())


# --- map, patterns, memories ---------------------------------------------------------------------------------------


def _about_frame(template: str, visit: Visit) -> str:
    """The page around what is known of one project, which comes after it."""
    projects = visit.state.projects.known()
    root = visit.state.projects.root_shown(visit.given.get("project", "")) if projects else ""
    return visit.render(template, projects=projects, project=root)


def _about(template: str, look: Callable[[Visit, str], dict[str, Any]], visit: Visit) -> str:
    root = visit.state.root_of(visit.given.get("project", ""))
    run = code_pages.indexing(visit.state, root)
    if run is not None:
        return visit.render("progress.html", run=run, root=root)
    return visit.render(template, project=root, **look(visit, root))


def _map(visit: Visit, root: str) -> dict[str, Any]:
    code = visit.state.engine.code
    found = code.map(code_requests.MapRequest(root, limit=MAP_AREAS), visit.call.progress)
    cycles = code.cycles(code_requests.CyclesRequest(root, 10, False))
    pictures = {"wide": picture_of(found), "narrow": picture_of(found, per_row=2)}
    return {"code_map": found, "pictures": pictures, "cycles": cycles}


def _area(visit: Visit) -> str:
    """The files of one area of the map, beside it."""
    root, area = visit.state.root_of(visit.given.get("project", "")), visit.given.get("area", "")
    found = visit.state.engine.code.map(code_requests.MapRequest(root, limit=MAP_AREAS, area=area, refresh=False))
    (shown,) = (one for one in found.areas if one.name == area)
    users = {one.name: one.needs[area] for one in found.areas if area in one.needs and one.name != area}
    more = len(found.area_files[MOST_FILES:])
    return visit.render(
        "area.html", project=root, area=shown, users=users, files=found.area_files[:MOST_FILES], more_files=more
    )


def _patterns(visit: Visit, root: str) -> dict[str, Any]:
    report = visit.state.engine.knowledge.patterns(PatternsRequest(root, history=True), visit.call.progress)
    shown = report.patterns[:SHOWN_PATTERNS]
    languages: dict[str, list[PatternUse]] = {}
    for one in sorted(shown, key=lambda one: -sum(other.files for other in shown if other.language == one.language)):
        languages.setdefault(one.language, []).append(one)
    return {"languages": languages, "more": len(report.patterns) - len(shown), "notes": report.notes}


def _memories(visit: Visit, root: str) -> dict[str, Any]:
    query = check_length(visit.given.get("q", "").strip(), "the query")
    found = visit.state.engine.knowledge.memory_list(MemoryListRequest(query, limit=SHOWN_MEMORIES, path=root))
    return {"found": found, "query": query}


# --- health --------------------------------------------------------------------------------------------------------


def _log(visit: Visit) -> str:
    return visit.render("log_lines.html", lines=visit.state.logs.since(_level(visit), 200))


def _health_frame(visit: Visit) -> str:
    level = _level(visit)
    return visit.render("health.html", lines=visit.state.logs.since(level, 200), level=level, levels=LEVELS)


def _level(visit: Visit) -> str:
    level = visit.given.get("level", "INFO")
    if level not in LEVELS:
        raise UsageError(f"there is no level {level}", next_step=f"One of: {', '.join(LEVELS)}")
    return level


def _checks(visit: Visit) -> str:
    state = visit.state
    roots = tuple(one.root for one in state.projects.known() if one.state == "ready")
    return visit.render("checks.html", checks=state.engine.doctor(DoctorRequest(roots)).checks)


def _docs(visit: Visit) -> str:
    return visit.render("docs.html", groups=_described_api())


@lru_cache(maxsize=1)
def _described_api() -> dict[str, list[RouteView]]:
    return described_routes(openapi_document(api_routes()))


# --- chat and agents -----------------------------------------------------------------------------------------------


def _chat(visit: Visit) -> str:
    return visit.render("chat.html", agents=(), **_conversation_values(visit, ""))


def _agents(visit: Visit) -> str:
    agents = visit.state.engine.answers.agents(ops.AgentsRequest()).agents
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
        detail = state.engine.answers.conversation(ops.ConversationRequest(identity))
        conversation, run = detail.conversation, state.runs.of_conversation(detail.conversation.id)
        turns = _turn_views(detail, writing=detail.conversation.running)
    return {
        "agent": agent,
        "draft": visit.given.get("draft", ""),
        "conversation": conversation,
        "turns": turns,
        "run": run,
        "projects": state.projects.known(),
        "collections": () if agent else document_pages.collections_of(state),
        "project": visit.given.get("project", "") or _first_path(conversation) or state.projects.root_shown(""),
        "link": citation_link,
        **_listed(state, "active", agent),
    }


def _models(visit: Visit) -> str:
    """The models that can be asked. Servers are asked for them, so this comes after the page."""
    found = visit.state.engine.answers.providers(ops.ProvidersRequest())
    begun = visit.given.get("begun") == "1"  # who goes on with a conversation knows whether there is a model
    return visit.render("models.html", providers=found.providers, notes=found.notes, begun=begun)


def _first_path(conversation: ops.Conversation | None) -> str:
    return conversation.paths[0] if conversation is not None and conversation.paths else ""


def _turn_views(detail: ops.ConversationDetail, *, writing: bool) -> list[TurnView]:
    """The last turn of a conversation that is running is being written: the live answer stands for it."""
    turns = detail.turns[:-1] if writing and detail.turns else detail.turns
    return [turn_view(turn, _first_path(detail.conversation)) for turn in turns]


def _listed(state: State, which: str, agent: str) -> dict[str, Any]:
    asked = ops.ConversationsRequest(which, SHOWN_CONVERSATIONS, agent=agent)
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
    change(ops.ConversationIdsRequest((visit.given.get("id", ""),)))
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
        check_offered("agents run")
        return state.runs.start(agent_request(state, agent, check(AGENT_INPUTS, given)))
    values = check(CHAT_INPUTS, given)
    scope = next(iter(values.get("projects", ())), "")
    if scope.startswith(document_pages.DOCUMENTS):
        check_offered("docs ask")
        return state.runs.start(document_pages.ask_request(state, scope, values))
    return state.runs.start(ask_request(state, values))


def _turn(visit: Visit) -> str:
    """The finished answer of a run."""
    state = visit.state
    run = state.runs.get(visit.request.path_params["run_id"])
    if run.error is not None and not run.text:
        raise run.error
    asked = ops.ConversationRequest(run.conversation)
    detail = state.engine.answers.conversation(asked)
    count = max(1, 2 * len(run.answers) - 1)
    views = _turn_views(detail, writing=False)[-count:]
    return visit.render("turns.html", turns=views, link=citation_link)


# --- routes --------------------------------------------------------------------------------------------------------


def _about_page(name: str, look: Callable[[Visit, str], dict[str, Any]]) -> Route:
    content, frame = partial(_about, f"{name}_content.html", look), partial(_about_frame, f"{name}.html")
    return page("GET", f"/ui/{name}", content, frame)


def page_routes() -> list[Route]:
    return [
        page("GET", "/", code_pages.search_results, code_pages.search_frame),
        page("GET", "/panel", code_pages.panel),
        page("GET", "/ui/name", code_pages.name),
        page("GET", "/ui/file", code_pages.file_lines, code_pages.file_frame),
        page("GET", "/ui/progress", code_pages.progress),
        page("POST", "/ui/progress", code_pages.index_again),
        page("GET", "/ui/documents", document_pages.content, document_pages.frame),
        page("GET", "/ui/document", document_pages.document),
        page("POST", "/ui/documents/add", document_pages.add),
        page("POST", "/ui/documents/sync", document_pages.sync),
        page("POST", "/ui/documents/remove", document_pages.remove),
        page("GET", "/docs", _docs),
        page("GET", "/ui/projects", _projects, _projects_frame),
        page("GET", "/ui/projects/queue", _queue),
        page("GET", "/ui/projects/dirs", _dirs),
        page("POST", "/ui/projects/add", _add),
        page("POST", "/ui/projects/again", _again),
        page("POST", "/ui/projects/remove", _remove),
        page("POST", "/ui/projects/cancel", _cancel),
        *(
            page(
                "GET",
                f"/ui/{name}",
                partial(_about, f"{name}_content.html", look),
                partial(_about_frame, f"{name}.html"),
            )
            for name, look in (("map", _map), ("patterns", _patterns), ("memories", _memories))
        ),
        page("GET", "/ui/area", _area),
        page("GET", "/ui/health", _log, _health_frame),
        page("GET", "/ui/health/checks", _checks),
        page("GET", "/ui/chat", _chat),
        page("GET", "/ui/models", _models),
        page("GET", "/ui/agents", _agents),
        page("GET", "/ui/conversations", _list),
        page("POST", "/ui/conversations/archive", partial(_change, "archive_conversations", "active")),
        page("POST", "/ui/conversations/restore", partial(_change, "restore_conversations", "archived")),
        page("GET", "/ui/runs/{run_id}/turn", _turn),
        Route("/ui/runs", _start, methods=["POST"]),
    ]
