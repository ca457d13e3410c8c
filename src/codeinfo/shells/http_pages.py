"""The pages: search and code, documents, projects, map, health, chat and agents, the API reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from codeinfo.cache import group_by_key
from codeinfo.collections import Collection, is_address
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.files import path_of_address
from codeinfo.model import CRUMB, INDEXING, NO_TRENDS, FileKind, Intent, fill, shown_root
from codeinfo.operations import answers as ops
from codeinfo.operations import code as code_requests
from codeinfo.operations import documents as docs
from codeinfo.operations.clients import IngestRun
from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest
from codeinfo.operations.search import PURPOSES, DoctorRequest, GrepRequest, SearchRequest, StatusRequest, strip_quotes
from codeinfo.serve.dispatch import Values, check, check_text
from codeinfo.serve.runs import AnswerRun, State
from codeinfo.serve.team import READ, WRITE, check_offered, request_user
from codeinfo.shells import http_api
from codeinfo.shells.http_views import Visit, code_lines, facets_of, folder_facets, page, picture_of

FOUND = 100  # results per search, counted by the facets
SHOWN = 10  # of them at first, and with each click on more
PANEL_LINES = 120
LISTED = 8  # entries per section of the side panel
USES_LISTED = 40  # of a name that was clicked
OUTLINED = 200  # definitions in the outline of a file
RECENT_PROJECTS = 6
MATCHED_LINES = 2000  # matching lines shown; all are counted
MODES = ("exact", "regex")
FOUND_PASSAGES = 20
RELATED = 6
SHOWN_CHARS = 40_000  # of a document beside the page
SHOWN_CONVERSATIONS = 40
SHOWN_PATTERNS = 40
SHOWN_MEMORIES = 200
MAP_AREAS = 24
MOST_FILES = 100  # of an area that are listed


# --- search --------------------------------------------------------------------------------------------------------


def _search_frame(visit: Visit) -> str:
    """The page around the results, which load after it."""
    query = visit.query
    root = visit.root if query else visit.field("project")
    if query:
        _exact_request(visit, _search_request(visit, query, root))  # refuses unknown filters and modes here
    projects = visit.projects.known()
    newest = sorted(projects, key=lambda project: project.indexedAt, reverse=True)
    return visit.render(
        "search.html",
        projects=projects,
        recent=newest[:RECENT_PROJECTS],
        project=root or visit.projects.root_to_show(""),
        query=query,
        asked=visit.given,
        intents=[intent.value for intent in Intent],
        purposes=PURPOSES,
    )


def _search_results(visit: Visit) -> str:
    query = visit.query
    if not query:
        return _search_frame(visit)
    root = visit.root
    request = _search_request(visit, query, root)
    start, end = _number(visit.field("from"), 0), _number(visit.field("n"), SHOWN)
    run = _ensure_indexing(visit.state, root)
    values: dict[str, Any] = {"query": query, "asked": visit.given, "root": root, "run": run, "result": None}
    exact = _exact_request(visit, request)
    if run is None and exact is not None:
        template = "more_matches.html" if start else "matches.html"
        return visit.render(template, **values, **_matches(visit, exact, start, end))
    if run is None or visit.engine.indexes.of(root).live_store() is not None:
        found = visit.engine.search(replace(request, refresh=run is None), visit.call.progress)
        enriched = visit.engine.knowledge.enrich(request, replace(found, hits=found.hits[start:end]))
        notes = [(getattr(note, "code", ""), note) for note in enriched.notes]
        shown_elsewhere = (NO_TRENDS, INDEXING) if run is not None else (NO_TRENDS,)  # by a link, by the progress card
        values |= {
            "result": replace(enriched, notes=tuple(note for code, note in notes if code not in shown_elsewhere)),
            "has_trends": NO_TRENDS not in dict(notes),
            "facets": facets_of(found.hits, visit.given),
            "total": len(found.hits),
            "is_all": len(found.hits) < FOUND,
            "end": end,
            "step": SHOWN,
        }
    return visit.render("more_results.html" if start else "results.html", **values)


def _matches(visit: Visit, request: GrepRequest, start: int, end: int) -> dict[str, Any]:
    result = visit.engine.grep(request, visit.call.progress)
    files = [list(group) for _, group in groupby(result.matches, key=lambda match: (match.root, match.path))]
    return {
        "found": result,
        "files": files[start:end],
        "facets": folder_facets(result.matches, visit.given),
        "total": len(files),
        "end": end,
        "step": SHOWN,
    }


def _exact_request(visit: Visit, request: SearchRequest) -> GrepRequest | None:
    """An exact search, by the toggle or by quotes or slashes around the query; None for a ranked one."""
    query, mode = request.query, visit.field("mode")
    if mode not in ("", *MODES):
        raise UsageError(f"there is no mode {mode}", f"One of: {', '.join(MODES)}")
    if not mode and (quoted := strip_quotes(query)):
        query, mode = quoted[0], "regex" if quoted[1] else "exact"
    if not mode:
        return None
    word, any_case = visit.field("word") == "1", visit.field("anycase") == "1"
    exactly = {"pattern": query, "regex": mode == "regex", "word": word, "ignore_case": any_case}
    return fill(GrepRequest, request, limit=MATCHED_LINES, **exactly)


def _number(text: str, default: int) -> int:
    return min(int(text), FOUND) if text.isascii() and text.isdecimal() and len(text) < 5 else default


def _search_request(visit: Visit, query: str, root: str) -> SearchRequest:
    intent, purpose, kind = map(visit.field, ("intent", "purpose", "kind"))
    if intent not in ("", *Intent) or purpose not in ("", *PURPOSES) or kind not in ("", *FileKind):
        raise UsageError("a filter has a value that does not exist", "Choose one of the list")
    folder = visit.field("folder").strip("/")
    return SearchRequest(
        query,
        (root,),
        limit=FOUND,
        intent=intent,
        purpose=purpose,
        kinds=(kind,) if kind else (),
        languages=tuple(visit.field("language").split()),
        globs=(*((f"{folder}/**",) if folder else ()), *visit.field("glob").split()),
        symbol_kinds=tuple(visit.field("symbol").split()),
        explain=True,
    )


# --- a project that is not indexed yet -----------------------------------------------------------------------------


def _ensure_indexing(state: State, root: str) -> IngestRun | None:
    """The run that first indexes a project, started by the first page that needs it; None once it is indexed. A run
    that failed or was cancelled is shown, and restarted only by a click."""
    if _index_state(state, root) in ("ready", "damaged"):  # a damaged index is rebuilt by the next search
        return None
    if request_user() is not None:  # a team's workers index it
        raise NotFound(f"{shown_root(root)} is not indexed yet", "Look again when the workers are done with it")
    status = state.ingest.status()
    latest = next((run for run in (*status.waiting, *status.finished) if run.root == root), None)
    if latest is not None and latest.state == "done":
        state.projects.forget()
        return None if _index_state(state, root) == "ready" else state.ingest.add(root)
    return latest or state.ingest.add(root)


def _index_state(state: State, root: str) -> str:
    return next((project.state for project in state.projects.known() if project.root == root), "")


def _progress(visit: Visit) -> str:
    """The progress of a project's first indexing; the page loads its content once that is done."""
    return visit.render("progress.html", run=_ensure_indexing(visit.state, visit.root), root=visit.root)


def _index_again(visit: Visit) -> str:
    visit.state.refresh_project(visit.field("project"), full=False)
    return _progress(visit)


# --- beside the page -----------------------------------------------------------------------------------------------


def _panel(visit: Visit) -> str:
    """The lines of a result or citation, who calls and tests it, and what the team knows about it."""
    root, path, symbol = visit.root, visit.path, visit.field("symbol")[:200]
    start, end = _line(visit.given.get("start", "1")), _line(visit.given.get("end", "1"))
    importers = code_requests.ImportsRequest(path, LISTED, root, refresh=False)
    related = MemoryListRequest(symbol or path.rpartition("/")[2], limit=3, path=root)
    try:
        text = visit.engine.answers.read_lines(root, path, start, min(end, start + PANEL_LINES))
    except (CodeInfoError, OSError, ValueError):
        text = ""
    if not text:
        raise NotFound(f"{path}:{start} is not in the index", "It may have changed: search again")
    return visit.render(
        "panel.html",
        root=root,
        path=path,
        start=start,
        end=max(start, end),
        listed=LISTED,
        text=text,
        symbol=symbol,
        imports=_or_none(lambda: visit.engine.code.imports(importers)),
        uses=_or_none(lambda: _uses(visit, root, f"{path}::{symbol}", LISTED)) if symbol else None,
        memories=_or_none(lambda: visit.engine.knowledge.memory_list(related).memories) or (),
    )


def _name(visit: Visit) -> str:
    """Where a clicked name is defined and used. In the file itself an inner definition comes first."""
    root, name = visit.root, check_text(visit.field("name"), "the name")
    plain = name.rpartition("::")[2]
    try:
        uses = _uses(visit, root, name, USES_LISTED)
    except NotFound:
        step = "It comes from elsewhere, or is a local name"
        raise NotFound(f"nothing called {plain} is defined in this project", step) from None
    return visit.render("name.html", root=root, name=plain, uses=uses)


def _line(text: str) -> int:
    if not text.isdecimal() or len(text) > 8:
        raise UsageError("lines are numbers from 1", "Follow a link of this page")
    return max(1, int(text))


def _or_none(look: Callable[[], Any]) -> Any:
    """Documents have no callers, and not every project has memories."""
    try:
        return look()
    except CodeInfoError:
        return None


def _uses(visit: Visit, root: str, name: str, limit: int) -> code_requests.ReferenceReport:
    return visit.engine.code.references(code_requests.RefsRequest(name, root, limit, refresh=False))


def _file_frame(visit: Visit) -> str:
    """The page around a file's lines, with its outline; the lines load after it."""
    root, path = visit.root, visit.path
    outline_request = code_requests.SymbolsRequest(path, (), OUTLINED, root, refresh=False)
    symbols = _or_none(lambda: visit.engine.code.symbols(outline_request))
    return visit.render("file.html", root=root, path=path, symbols=symbols)


def _file_lines(visit: Visit) -> str:
    root, path = visit.root, visit.path
    if _ensure_indexing(visit.state, root) is not None:
        return _progress(visit)
    text = visit.engine.answers.read_whole(root, path)
    return visit.render("file_lines.html", path=path, lines=code_lines(text, path))


# --- documents -----------------------------------------------------------------------------------------------------


def _documents_frame(visit: Visit) -> str:
    """The page around the collections or results, which load after it."""
    return visit.render("documents.html", query=visit.query, chosen=visit.field("collection"))


def _documents_content(visit: Visit) -> str:
    query, chosen = visit.query, visit.field("collection")
    return _results(visit, query, chosen) if query else _collections(visit, chosen)


def _collections(visit: Visit, chosen: str, reports: tuple[docs.SyncReport, ...] = ()) -> str:
    listing = visit.engine.documents.list(docs.DocsListRequest((chosen,) if chosen else (), path=visit.here))
    shown = {"collections": listing.collections, "notes": listing.notes, "chosen": chosen, "reports": reports}
    return visit.render("documents_content.html", **shown)


def _results(visit: Visit, query: str, chosen: str) -> str:
    request = docs.DocsSearchRequest((query,), (chosen,) if chosen else (), limit=FOUND_PASSAGES, path=visit.here)
    reply = visit.engine.documents.search(request, visit.call.progress)
    (search,) = reply.searches
    names = {collection.id: collection.name for collection in _collections_of(visit)}
    return visit.render(
        "document_results.html", found=search, notes=reply.notes, names=names, query=query, chosen=chosen, crumb=CRUMB
    )


def _collections_of(visit: Visit) -> tuple[Collection, ...]:
    """The collections without their documents; a team's server offers none."""
    if request_user() is not None:
        return ()
    return tuple(visit.engine.documents.collections.all(Path(visit.here))[0])


def _document_panel(visit: Visit) -> str:
    """One document, or a section of it, with its outline and what it is related to."""
    documents, here = visit.engine.documents, visit.here
    collection, name, section = map(visit.field, ("collection", "document", "section"))
    outline = documents.outline(docs.DocsOutlineRequest(collection, name, here))
    try:
        shown = documents.section(docs.DocsSectionRequest(collection, name, section, here))
    except NotFound:
        if not section:
            raise
        shown = documents.section(docs.DocsSectionRequest(collection, name, "", here))  # the heading is gone
    related = docs.DocsRelatedRequest(collection, name, RELATED, here)  # without vectors only links relate documents
    return visit.render(
        "document.html",
        shown=shown,
        text=shown.content[:SHOWN_CHARS],
        is_cut=len(shown.content) > SHOWN_CHARS,
        outline=outline.entries,
        section=section,
        related=_or_none(lambda: documents.related(related).related) or (),
        scope=f"{docs.DOCUMENTS}{collection}",
    )


def _add_collection(visit: Visit) -> str:
    if not (given := visit.field("source").strip()):
        raise UsageError("no source was given", "Type a folder, or the address of a git repository")
    source = given if is_address(given) else str(visit.state.addable_folder(path_of_address(given)))
    request = docs.DocsAddRequest((source,), name=visit.field("name").strip(), path=visit.here)
    added = visit.engine.documents.add(request, visit.call.progress)
    return _collections(visit, "", added.reports)


def _sync_collections(visit: Visit) -> str:
    identity = visit.field("id")
    request = docs.DocsSyncRequest((identity,) if identity else (), path=visit.here)
    response = visit.engine.documents.sync(request, visit.call.progress)
    return _collections(visit, visit.field("collection"), response.reports)


def _remove_collection(visit: Visit) -> str:
    visit.engine.documents.remove(docs.DocsRemoveRequest((visit.field("id"),), path=visit.here))
    return _collections(visit, "")


def _documents_request(state: State, scope: str, values: Values) -> docs.DocsAskRequest:
    """A question to the collections that a conversation's scope names."""
    chosen = scope.removeprefix(docs.DOCUMENTS)
    fields = http_api.fields_of(http_api.CHAT, values) | {"path": str(state.projects.here)}
    del fields["paths"]
    return docs.DocsAskRequest(**fields, collections=(chosen,) if chosen else ())


# --- projects ------------------------------------------------------------------------------------------------------


def _projects_frame(visit: Visit) -> str:
    """What is known at once: the size of an index, and whether it is stale, load after it."""
    visit.projects.forget()
    return _project_list(visit, "projects.html", picker=visit.state.folders_below(""), sizes={})


def _projects(visit: Visit) -> str:
    visit.projects.forget()
    sizes = {}
    for project in visit.projects.known():
        if project.state in ("ready", "building"):
            with suppress(CodeInfoError):
                (sizes[project.root],) = visit.engine.status(StatusRequest((project.root,))).indexes
    return _project_list(visit, "project_list.html", sizes=sizes)


def _project_list(visit: Visit, template: str, **values: Any) -> str:
    return visit.render(template, projects=visit.projects.known(), queue=visit.state.ingest.status(), **values)


def _queue(visit: Visit) -> str:
    return visit.render("queue.html", queue=visit.state.ingest.status())


def _dirs(visit: Visit) -> str:
    return visit.render("picker.html", picker=visit.state.folders_below(visit.field("path")))


def _add(visit: Visit) -> str:
    if not (given := visit.field("path").strip()):
        raise UsageError("no folder was given", "Type or choose a folder")
    visit.state.add_project(given, full=False)
    return _queue(visit)


def _reindex(visit: Visit) -> str:
    visit.state.refresh_project(visit.field("root"), full=visit.field("full") == "1")
    return _queue(visit)


def _remove(visit: Visit) -> str:
    visit.state.remove_project(visit.field("root"))
    return _projects(visit)


def _cancel(visit: Visit) -> str:
    visit.state.ingest.cancel(visit.field("run"))
    time.sleep(0.2)  # it stops at the next file, so that the list shows it as cancelled
    return _queue(visit)


# --- map, patterns, memories ---------------------------------------------------------------------------------------


def _project_route(name: str, look: Callable[[Visit, str], dict[str, Any]], team: str = "") -> http_api.TeamRoute:
    """The page about one project, whose details load after it; `look` finds the values of their template."""

    def frame(visit: Visit) -> str:
        projects = visit.projects.known()
        root = visit.projects.root_to_show(visit.field("project")) if projects else ""
        return visit.render(f"{name}.html", projects=projects, project=root)

    def content(visit: Visit) -> str:
        root = visit.root
        if _ensure_indexing(visit.state, root) is not None:
            return _progress(visit)
        return visit.render(f"{name}_content.html", project=root, **look(visit, root))

    return page("GET", f"/ui/{name}", content, frame, team)


def _map(visit: Visit, root: str) -> dict[str, Any]:
    code = visit.engine.code
    code_map = code.map(code_requests.MapRequest(root, limit=MAP_AREAS), visit.call.progress)
    cycles = code.cycles(code_requests.CyclesRequest(root, 10, False))
    pictures = {"wide": picture_of(code_map), "narrow": picture_of(code_map, per_row=2)}
    return {"code_map": code_map, "pictures": pictures, "cycles": cycles}


def _area(visit: Visit) -> str:
    root, name = visit.root, visit.field("area")
    code_map = visit.engine.code.map(code_requests.MapRequest(root, limit=MAP_AREAS, area=name, refresh=False))
    shown = next((area for area in code_map.areas if area.name == name), None)
    if shown is None:
        raise NotFound(f"there is no area {name!r}", "Open the map again")
    users = {area.name: area.needs[name] for area in code_map.areas if name in area.needs and area.name != name}
    files, more = code_map.area_files[:MOST_FILES], len(code_map.area_files[MOST_FILES:])
    return visit.render("area.html", project=root, area=shown, users=users, files=files, more_files=more)


def _patterns(visit: Visit, root: str) -> dict[str, Any]:
    report = visit.engine.knowledge.patterns(PatternsRequest(root, history=True), visit.call.progress)
    shown = report.patterns[:SHOWN_PATTERNS]
    groups = group_by_key((pattern.language, pattern) for pattern in shown)
    languages = dict(sorted(groups.items(), key=lambda group: -sum(pattern.files for pattern in group[1])))
    return {"languages": languages, "more": len(report.patterns) - len(shown), "notes": report.notes}


def _memories(visit: Visit, root: str) -> dict[str, Any]:
    query = visit.query
    memories = visit.engine.knowledge.memory_list(MemoryListRequest(query, limit=SHOWN_MEMORIES, path=root))
    return {"found": memories, "query": query}


# --- health --------------------------------------------------------------------------------------------------------


def _log(visit: Visit) -> str:
    return visit.render("log_lines.html", lines=visit.state.logs.since(_level(visit), 200))


def _health_frame(visit: Visit) -> str:
    level = _level(visit)
    return visit.render("health.html", lines=visit.state.logs.since(level, 200), level=level, levels=http_api.LEVELS)


def _level(visit: Visit) -> str:
    level = visit.given.get("level", "INFO")
    if level not in http_api.LEVELS:
        raise UsageError(f"there is no level {level}", f"One of: {', '.join(http_api.LEVELS)}")
    return level


def _checks(visit: Visit) -> str:
    roots = tuple(project.root for project in visit.projects.known() if project.state == "ready")
    return visit.render("checks.html", checks=visit.engine.doctor(DoctorRequest(roots)).checks)


def _docs(visit: Visit) -> str:
    return visit.render("docs.html", groups=group_by_key((row.tag, row) for row in http_api.API_ROUTES))


# --- chat and agents -----------------------------------------------------------------------------------------------


def _chat(visit: Visit) -> str:
    return visit.render("chat.html", agents=(), **_conversation_values(visit, ""))


def _agents(visit: Visit) -> str:
    agents = visit.engine.answers.agents().agents
    chosen = visit.field("agent") or next((agent.name for agent in agents if not agent.problem), "")
    if chosen and chosen not in (agent.name for agent in agents):
        raise NotFound(f"there is no agent {chosen}", "Choose one on the Agents page")
    return visit.render("agents.html", agents=agents, **_conversation_values(visit, chosen))


def _conversation_values(visit: Visit, agent: str) -> dict[str, Any]:
    identity = visit.field("c")
    turns: Sequence[ops.Turn] = ()
    conversation, run = None, None
    if identity:
        detail = visit.engine.conversations.show(ops.ConversationRequest(identity))
        conversation, run = detail.conversation, visit.state.runs.of_conversation(detail.conversation.id)
        turns = detail.turns[:-1] if conversation.running else detail.turns  # the live answer shows the one in progress
    return {
        "agent": agent,
        "draft": visit.field("draft"),
        "conversation": conversation,
        "turns": turns,
        "root": _first_path(conversation),
        "run": run,
        "projects": visit.projects.known(),
        "collections": () if agent else _collections_of(visit),
        "project": visit.field("project") or _first_path(conversation) or visit.projects.root_to_show(""),
        **_list_conversations(visit, "active", agent),
    }


def _models(visit: Visit) -> str:
    """The available models. This asks servers, so it loads after the page."""
    listing = visit.engine.answers.providers()
    begun = visit.field("begun") == "1"  # the first answer already showed whether there is a model
    return visit.render("models.html", providers=listing.providers, notes=listing.notes, begun=begun)


def _first_path(conversation: ops.Conversation | None) -> str:
    return conversation.paths[0] if conversation is not None and conversation.paths else ""


def _list_conversations(visit: Visit, which: str, agent: str) -> dict[str, Any]:
    listing = visit.engine.conversations.page(ops.ConversationsRequest(which, SHOWN_CONVERSATIONS, agent=agent))
    shown = [conversation for conversation in listing.conversations if bool(conversation.agent_name) == bool(agent)]
    return {"conversations": shown, "which": which}


def _list(visit: Visit, which: str = "") -> str:
    which = which or ("archived" if visit.field("state") == "archived" else "active")
    agent, current = visit.field("agent"), visit.field("c")
    values = _list_conversations(visit, which, agent)
    return visit.render("conversation_list.html", agent=agent, current=current, **values)


def _change(method: str, which: str, visit: Visit) -> str:
    change = getattr(visit.engine.conversations, method)
    change(ops.ConversationIdsRequest((visit.field("id"),)))
    return _list(visit, which)


async def _start(request: Request) -> Response:
    """Start an answer; its events are at /chat/runs/ID/events, also for a page opened later."""
    state = http_api.state_of(request)
    given = dict(await http_api.json_body(request))
    agent = check_text(str(given.pop("agent", "")), "agent")
    run = await state.dispatcher.run(lambda call: _start_run(state, agent, given))
    return http_api.json_response({"runId": run.id, "conversationId": run.conversation}, 202)


def _start_run(state: State, agent: str, given: dict[str, Any]) -> AnswerRun:
    if agent:
        check_offered("agents run")
        return state.runs.start(http_api.agent_request(state, check(http_api.AGENT_INPUTS, given) | {"name": agent}))
    values = check(http_api.CHAT_INPUTS, given)
    scope = next(iter(values.get("projects", ())), "")
    if scope.startswith(docs.DOCUMENTS):
        check_offered("docs ask")
        return state.runs.start(_documents_request(state, scope, values))
    return state.runs.start(http_api.ask_request(state, values))


def _turn(visit: Visit) -> str:
    run = visit.state.runs.get(visit.request.path_params["run_id"])
    if run.error is not None and not run.text:
        raise run.error
    detail = visit.engine.conversations.show(ops.ConversationRequest(run.conversation))
    count = max(1, 2 * len(run.answers) - 1)
    return visit.render("turns.html", turns=detail.turns[-count:], root=_first_path(detail.conversation))


# --- routes --------------------------------------------------------------------------------------------------------


def page_routes() -> list[http_api.TeamRoute]:
    return [
        page("GET", "/", _search_results, _search_frame, team=READ),
        page("GET", "/panel", _panel, team=READ),
        page("GET", "/ui/name", _name, team=READ),
        page("GET", "/ui/file", _file_lines, _file_frame, team=READ),
        page("GET", "/ui/progress", _progress),
        page("POST", "/ui/progress", _index_again),
        page("GET", "/ui/documents", _documents_content, _documents_frame),
        page("GET", "/ui/document", _document_panel),
        page("POST", "/ui/documents/add", _add_collection),
        page("POST", "/ui/documents/sync", _sync_collections),
        page("POST", "/ui/documents/remove", _remove_collection),
        page("GET", "/docs", _docs, team=READ),
        page("GET", "/ui/projects", _projects, _projects_frame),
        page("GET", "/ui/projects/queue", _queue),
        page("GET", "/ui/projects/dirs", _dirs),
        page("POST", "/ui/projects/add", _add),
        page("POST", "/ui/projects/again", _reindex),
        page("POST", "/ui/projects/remove", _remove),
        page("POST", "/ui/projects/cancel", _cancel),
        _project_route("map", _map, READ),
        _project_route("patterns", _patterns, READ),
        _project_route("memories", _memories),
        page("GET", "/ui/area", _area, team=READ),
        page("GET", "/ui/health", _log, _health_frame),
        page("GET", "/ui/health/checks", _checks),
        page("GET", "/ui/chat", _chat, team=READ),
        page("GET", "/ui/models", _models, team=READ),
        page("GET", "/ui/agents", _agents),
        page("GET", "/ui/conversations", _list, team=READ),
        page("POST", "/ui/conversations/archive", partial(_change, "archive", "active"), team=WRITE),
        page("POST", "/ui/conversations/restore", partial(_change, "restore", "archived"), team=WRITE),
        page("GET", "/ui/runs/{run_id}/turn", _turn, team=READ),
        http_api.TeamRoute("/ui/runs", _start, "POST", WRITE),
    ]
