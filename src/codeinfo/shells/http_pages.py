"""The pages: search, its side panel, projects, map, health and the description of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import FileKind, Intent, RelatedMemory
from codeinfo.requests import DoctorRequest, SearchRequest, StatusRequest
from codeinfo.requests import code as code_requests
from codeinfo.requests.knowledge import MemoryListRequest, PatternsRequest
from codeinfo.shells import http_pages_chat
from codeinfo.shells.http_html import form, is_fragment, page, render
from codeinfo.shells.http_ingest import add_project, folders_below, remove_project
from codeinfo.shells.http_state import State, file_within
from codeinfo.shells.http_views import described_routes, files_of, picture_of
from codeinfo.shells.mcp_schema import check_length

PANEL_LINES = 120
LISTED = 8  # entries of each part of the side panel
SHOWN_PATTERNS = 24
MAP_AREAS = 24
MOST_FILES = 100  # of each kind, when the files of an area are listed
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


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
    http_pages_chat.add_routes(router)
    return router


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
    from codeinfo.engine.lookup import CodeLookup

    try:
        return CodeLookup(state.engine, (root,), 1).read_file(path, start, max(start, end)).text
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
