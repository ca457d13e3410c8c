"""The pages: search, its side panel, projects, map, health, chat, agents and the description of the API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import jinja2
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from codeinfo import __version__
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import FileKind, Intent, RelatedMemory
from codeinfo.operations import answers as requests
from codeinfo.operations import code as code_requests
from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest
from codeinfo.operations.search import DoctorRequest, SearchRequest, StatusRequest
from codeinfo.serve.dispatch import Call, check, check_length, file_within
from codeinfo.serve.runs import AnswerRun, State
from codeinfo.shells.http_api import AGENT_INPUTS, CHAT_INPUTS, LEVELS, agent_request, api_routes, ask_request
from codeinfo.shells.http_routes import json_body, json_response, no_route, openapi_document, state_of, status_of
from codeinfo.shells.http_views import (
    TurnView,
    area_name,
    citation_link,
    code_lines,
    decay_chart,
    described_routes,
    lines_address,
    markdown_html,
    picture_of,
    sentence_html,
    trend_chart,
    turn_view,
)
from codeinfo.shells.terminal import quantity

SHOWN_CONVERSATIONS = 40
PANEL_LINES = 120
LISTED = 8  # entries of each part of the side panel
SHOWN_PATTERNS = 24
MAP_AREAS = 24
MOST_FILES = 100  # of an area that are listed


TEMPLATES = Path(__file__).parent / "web" / "templates"
PAGES = (
    ("/", "Search"),
    ("/ui/chat", "Chat"),
    ("/ui/agents", "Agents"),
    ("/ui/projects", "Projects"),
    ("/ui/map", "Map"),
    ("/ui/health", "Health"),
)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": _ago, "size": _size, "distance": _distance, "query": urlencode, "sentence": sentence_html,
        "quantity": quantity, "area_name": area_name,
    }  # fmt: skip
    environment.globals |= {
        "code_lines": code_lines, "lines_address": lines_address, "markdown": markdown_html,
        "decay_chart": decay_chart, "trend_chart": trend_chart, "version": __version__, "pages": PAGES,
    }  # fmt: skip
    return environment


class Visit(Struct):
    """One request for a page: `given` are the parameters of its address, or the fields of its form."""

    request: Request
    state: State
    given: Mapping[str, str]
    call: Call

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page."""
        headers = self.request.headers
        return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"

    def render(self, template: str, **values: Any) -> str:
        shared = {
            "token": self.request.state.page_token,
            "here": self.request.url.path,
            "fragment": self.is_fragment,
            "served": self.state.projects.here,
        }
        return _environment().get_template(template).render(shared | values)


def page(method: str, path: str, make: Callable[[Visit], str]) -> Route:
    """A route whose failures are shown to people. The page is made in a thread."""

    async def shown(request: Request) -> Response:
        state = state_of(request)
        given = await _form(request) if method == "POST" else request.query_params
        try:
            return HTMLResponse(await state.run(lambda call: make(Visit(request, state, given, call))))
        except CodeInfoError as error:
            return _error_page(request, error)

    return Route(path, shown, methods=[method])


def _error_page(request: Request, error: CodeInfoError) -> Response:
    html = Visit(request, state_of(request), {}, Call()).render("error.html", error=error)
    return HTMLResponse(html, status_of(error))


async def unknown_page(request: Request, error: Exception) -> Response:
    """Who follows a wrong address in a browser gets a page; programs get JSON as everywhere."""
    if "text/html" not in request.headers.get("accept", ""):
        return await no_route(request, error)
    return _error_page(
        request, NotFound(f"there is no page {request.url.path}", next_step="The pages are listed above")
    )


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; the last of each name."""
    text = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(text, max_num_fields=50).items()}


def _ago(stamp: str) -> str:
    """A moment as people say it."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()
    except (ValueError, TypeError):
        return stamp
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{quantity(count, unit)} ago"
    return "just now"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _distance(value: float | None) -> str:
    return "no distance" if value is None else f"{value:.3f}"


# --- search --------------------------------------------------------------------------------------------------------


def _search(visit: Visit) -> str:
    state = visit.state
    asked = visit.given
    query = check_length(asked.get("q", "").strip(), "the query")
    projects = state.projects.known()
    result, root = None, asked.get("project", "")
    if query:
        root = state.root_of(root)
        wanted = _search_request(asked, query, root)
        result = state.engine.search(wanted, visit.call.progress)
    template = "results.html" if visit.is_fragment else "search.html"
    return visit.render(
        template,
        projects=projects,
        project=root or state.projects.root_shown(""),
        query=query,
        asked=asked,
        result=result,
        root=root,
        intents=[one.value for one in Intent],
        kinds=[one.value for one in FileKind],
    )


def _search_request(asked: Any, query: str, root: str) -> SearchRequest:
    intent, purpose, kind = asked.get("intent", ""), asked.get("purpose", ""), asked.get("kind", "")
    if intent not in ("", *Intent) or purpose not in ("", "edit", "refactor", "migrate") or kind not in ("", *FileKind):
        raise UsageError("a filter has a value that does not exist", next_step="Choose one of the list")
    return SearchRequest(
        query,
        (root,),
        limit=10,
        intent=intent,
        purpose=purpose,
        kinds=(kind,) if kind else (),
        languages=tuple(asked.get("language", "").split()),
        globs=tuple(asked.get("glob", "").split()),
        context=True,
        explain=True,
    )


def _panel(visit: Visit) -> str:
    """The lines of a result or citation, who calls and tests it, and what the team knows about it."""
    state = visit.state
    asked = visit.given
    root = state.root_of(asked.get("project", ""))
    path = file_within(root, asked.get("path", ""))
    start, end = _line(asked.get("start", "1")), _line(asked.get("end", "1"))
    found = _around(state, root, path, start, end, asked.get("symbol", "")[:200])
    return visit.render("panel.html", root=root, path=path, start=start, listed=LISTED, **found)


def _line(text: str) -> int:
    if not text.isdecimal() or len(text) > 8:
        raise UsageError("lines are numbers from 1", next_step="Follow a link of this page")
    return max(1, int(text))


def _around(state: State, root: str, path: str, start: int, end: int, symbol: str) -> dict[str, Any]:
    text = _lines(state, root, path, start, min(end, start + PANEL_LINES))
    if not text:
        raise NotFound(f"{path}:{start} is not in the index", next_step="It may have changed: search again")
    return {
        "text": text,
        "symbol": symbol,
        "imports": _or_none(lambda: _importers(state, root, path)),
        "uses": _or_none(lambda: _uses(state, root, path, symbol)) if symbol else None,
        "memories": _or_none(lambda: _memories(state, root, symbol or path.rpartition("/")[2])) or (),
    }


def _lines(state: State, root: str, path: str, start: int, end: int) -> str:
    """Lines of an indexed file; "" where they cannot be had."""
    try:
        return state.engine.answers.read_lines(root, path, start, end)
    except (CodeInfoError, OSError, ValueError):
        return ""


def _or_none(look: Callable[[], Any]) -> Any:
    """Documents have no callers, and not every project has memories."""
    try:
        return look()
    except CodeInfoError:
        return None


def _importers(state: State, root: str, path: str) -> code_requests.ModuleImports:
    return state.engine.code.imports(code_requests.ImportsRequest(path, LISTED, root, refresh=False))


def _uses(state: State, root: str, path: str, symbol: str) -> code_requests.ReferenceReport:
    asked = code_requests.RefsRequest(f"{path}::{symbol}", root, LISTED, refresh=False)
    return state.engine.code.references(asked)


def _memories(state: State, root: str, topic: str) -> tuple[RelatedMemory, ...]:
    return state.engine.knowledge.memory_list(MemoryListRequest(topic, limit=3, path=root)).memories


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
        page("GET", "/", _search),
        page("GET", "/panel", _panel),
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
