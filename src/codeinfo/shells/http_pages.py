"""The pages: search, its side panel, projects, map, health and the description of the API."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import jinja2
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from codeinfo import __version__
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import FileKind, Intent, RelatedMemory
from codeinfo.operations import answers as requests
from codeinfo.operations import code as code_requests
from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest
from codeinfo.operations.search import DoctorRequest, SearchRequest, StatusRequest
from codeinfo.serve.runs import AnswerRun
from codeinfo.shells.http_chat import AGENT, CHAT, agent_request, ask_request
from codeinfo.shells.http_errors import json_response, not_routed, status_of
from codeinfo.shells.http_ingest import add_project, folders_below, remove_project
from codeinfo.shells.http_state import State, file_within, json_body, state_of
from codeinfo.shells.http_views import (
    TurnView,
    area_name,
    citation_link,
    code_lines,
    decay_chart,
    described_routes,
    files_of,
    lines_address,
    markdown_html,
    picture_of,
    sentence_html,
    trend_chart,
    turn_view,
)
from codeinfo.shells.mcp_schema import check_length, checked
from codeinfo.shells.terminal import quantity

PANEL_LINES = 120
LISTED = 8  # entries of each part of the side panel
SHOWN_PATTERNS = 24
MAP_AREAS = 24
MOST_FILES = 100  # of each kind, when the files of an area are listed
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


TEMPLATES = Path(__file__).parent / "web" / "templates"
PAGES = (
    ("/", "Search"),
    ("/ui/chat", "Chat"),
    ("/ui/agents", "Agents"),
    ("/ui/projects", "Projects"),
    ("/ui/map", "Map"),
    ("/ui/health", "Health"),
)
Page = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


@functools.lru_cache(maxsize=1)
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


def render(request: Request, template: str, **values: Any) -> HTMLResponse:
    return HTMLResponse(rendered(request, template, **values))


def rendered(request: Request, template: str, **values: Any) -> str:
    """HTML of a template: the whole page, or what htmx asked for."""
    state = state_of(request)
    shared = {
        "token": request.state.page_token,
        "here": request.url.path,
        "fragment": is_fragment(request),
        "served": state.here,
    }
    return _environment().get_template(template).render(shared | values)


def is_fragment(request: Request) -> bool:
    return request.headers.get("hx-request") == "true" and request.headers.get("hx-history-restore-request") != "true"


def page(function: Callable[[Request, State], Awaitable[Response]]) -> Page:
    """A route whose failures are shown to people."""

    @functools.wraps(function)
    async def shown(request: Request) -> Response:
        try:
            return await function(request, state_of(request))
        except CodeInfoError as error:
            html = rendered(request, "error.html", error=error)
            return HTMLResponse(html, status_of(error))

    del shown.__wrapped__  # FastAPI would read the inner signature
    return shown


def add_unknown_page(app: FastAPI) -> None:
    """Who follows a wrong address in a browser gets a page; programs get JSON as everywhere."""

    @app.exception_handler(404)
    async def unknown(request: Request, error: HTTPException) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return not_routed(error)
        what = NotFound(f"there is no page {request.url.path}", next_step="The pages are listed above")
        return HTMLResponse(rendered(request, "error.html", error=what), 404)


async def form(request: Request) -> dict[str, str]:
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


@page
async def _search(request: Request, state: State) -> Response:
    asked = request.query_params
    query = check_length(asked.get("q", "").strip(), "the query")
    projects = await state.work(lambda call: state.projects())
    result, root = None, asked.get("project", "")
    if query:
        root = state.root_of(root)
        wanted = _search_request(asked, query, root)
        result = await state.work(lambda call: state.engine.search(wanted, call.progress))
    template = "results.html" if is_fragment(request) else "search.html"
    return render(
        request,
        template,
        projects=projects,
        project=root or state.root_shown(""),
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


@page
async def _panel(request: Request, state: State) -> Response:
    """The lines of a result or citation, who calls and tests it, and what the team knows about it."""
    asked = request.query_params
    root = state.root_of(asked.get("project", ""))
    path = file_within(root, asked.get("path", ""))
    start, end = _line(asked.get("start", "1")), _line(asked.get("end", "1"))
    found = await state.work(lambda call: _around(state, root, path, start, end, asked.get("symbol", "")[:200]))
    return render(request, "panel.html", root=root, path=path, start=start, listed=LISTED, **found)


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


@page
async def _projects(request: Request, state: State) -> Response:
    template = "project_list.html" if is_fragment(request) else "projects.html"
    return render(request, template, **await state.work(lambda call: _project_values(state)))


def _project_values(state: State) -> dict[str, Any]:
    state.forget_projects()
    projects = state.projects()
    sizes = {}
    for one in projects:
        if one.state in ("ready", "building"):
            try:
                (sizes[one.root],) = state.engine.status(StatusRequest((one.root,))).indexes
            except CodeInfoError:
                continue
    return {"projects": projects, "sizes": sizes, "queue": state.ingest.status(), "picker": folders_below(state, "")}


@page
async def _queue(request: Request, state: State) -> Response:
    return render(request, "queue.html", queue=await state.work(lambda call: state.ingest.status()))


@page
async def _dirs(request: Request, state: State) -> Response:
    given = request.query_params.get("path", "")
    return render(request, "picker.html", picker=await state.work(lambda call: folders_below(state, given)))


@page
async def _add(request: Request, state: State) -> Response:
    given = (await form(request)).get("path", "").strip()
    if not given:
        raise UsageError("no folder is named", next_step="Type or choose a folder")
    await state.work(lambda call: add_project(state, given, False))
    return render(request, "queue.html", queue=await state.work(lambda call: state.ingest.status()))


@page
async def _again(request: Request, state: State) -> Response:
    given = await form(request)
    root = Path(state.root_of(given.get("root", "")))
    await state.work(lambda call: state.ingest.add(root, full=given.get("full") == "1"))
    return render(request, "queue.html", queue=await state.work(lambda call: state.ingest.status()))


@page
async def _remove(request: Request, state: State) -> Response:
    root = (await form(request)).get("root", "")
    await state.work(lambda call: remove_project(state, root))
    return render(request, "project_list.html", **await state.work(lambda call: _project_values(state)))


@page
async def _cancel(request: Request, state: State) -> Response:
    run = (await form(request)).get("run", "")
    await state.work(lambda call: state.ingest.cancel(run))
    await asyncio.sleep(0.2)  # it stops at the next file: the list then says so already
    return render(request, "queue.html", queue=await state.work(lambda call: state.ingest.status()))


# --- map and health ------------------------------------------------------------------------------------------------


@page
async def _map(request: Request, state: State) -> Response:
    asked = request.query_params
    projects = await state.work(lambda call: state.projects())
    values: dict[str, Any] = {"projects": projects, "project": "", "area": asked.get("area", ""), "code_map": None}
    if projects:
        root = state.root_shown(asked.get("project", ""))
        wanted = code_requests.MapRequest(root, limit=MAP_AREAS)
        found = await state.work(lambda call: state.engine.code.map(wanted, call.progress))
        cycles = await state.work(lambda call: state.engine.code.cycles(code_requests.CyclesRequest(root, 10, False)))
        values |= {"project": root, "code_map": found, "picture": picture_of(found), "cycles": cycles}
        if values["area"]:
            values |= await state.work(lambda call: _area_files(state, root, values["area"], found))
    return render(request, "map_areas.html" if is_fragment(request) else "map.html", **values)


def _area_files(state: State, root: str, name: str, shown: code_requests.CodeMap) -> dict[str, Any]:
    """The files of one box of the picture, the most needed first."""
    areas = {area.name: area.files for area in shown.areas}
    if name not in areas:
        raise NotFound(f"the map has no area {name}", next_step="It may have changed: open the map again")
    every = state.engine.code.map(code_requests.MapRequest(root, limit=MOST_FILES, refresh=False))
    linked = {one.path: one for one in (*every.hubs, *every.entry_points)}  # what is needed, and what needs others
    files = files_of(name, tuple(linked.values()))
    return {"area_files": files, "more_files": max(0, areas[name] - len(files))}


@page
async def _knowledge(request: Request, state: State) -> Response:
    """Patterns and memories take longer than the picture, so they come after it."""
    root = state.root_of(request.query_params.get("project", ""))
    knowledge = state.engine.knowledge
    patterns = await state.work(lambda call: knowledge.patterns(PatternsRequest(root, history=True), call.progress))
    memories = await state.work(lambda call: knowledge.memory_list(MemoryListRequest(path=root)))
    return render(request, "knowledge.html", patterns=patterns, memories=memories.memories, shown=SHOWN_PATTERNS)


@page
async def _health(request: Request, state: State) -> Response:
    level = request.query_params.get("level", "INFO")
    if level not in LEVELS:
        raise UsageError(f"there is no level {level}", next_step=f"One of: {', '.join(LEVELS)}")
    lines = state.logs.since(level, 200)
    if is_fragment(request):
        return render(request, "log_lines.html", lines=lines)
    roots = tuple(one.root for one in await state.work(lambda call: state.projects()) if one.state == "ready")
    report = await state.work(lambda call: state.engine.doctor(DoctorRequest(roots)))
    return render(request, "health.html", checks=report.checks, lines=lines, level=level, levels=LEVELS)


@page
async def _docs(request: Request, state: State) -> Response:
    return render(request, "docs.html", groups=described_routes(request.app.openapi()))


SHOWN_CONVERSATIONS = 40


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


# --- routes --------------------------------------------------------------------------------------------------------


def pages_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, endpoint in (
        ("/", _search),
        ("/panel", _panel),
        ("/docs", _docs),
        ("/ui/projects", _projects),
        ("/ui/projects/queue", _queue),
        ("/ui/projects/dirs", _dirs),
        ("/ui/map", _map),
        ("/ui/map/knowledge", _knowledge),
        ("/ui/health", _health),
    ):
        router.add_api_route(path, endpoint, methods=["GET"], response_class=Response)
    for path, endpoint in (
        ("/ui/projects/add", _add),
        ("/ui/projects/again", _again),
        ("/ui/projects/remove", _remove),
        ("/ui/projects/cancel", _cancel),
    ):
        router.add_api_route(path, endpoint, methods=["POST"], response_class=Response)
    _add_chat_routes(router)
    return router


def _add_chat_routes(router: APIRouter) -> None:
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
