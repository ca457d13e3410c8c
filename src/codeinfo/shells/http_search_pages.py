"""The pages that show code: search, the panel beside it, a name's uses, a whole file, and how far indexing is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import INDEXING, NO_TRENDS, FileKind, Intent, RelatedMemory, SearchResult
from codeinfo.operations import code as code_requests
from codeinfo.operations.clients import IngestRun
from codeinfo.operations.knowledge import MemoryListRequest
from codeinfo.operations.search import GrepRequest, SearchRequest
from codeinfo.serve.dispatch import check_length, file_within
from codeinfo.serve.runs import State
from codeinfo.shells.http_text import code_lines
from codeinfo.shells.http_views import facets_of, match_facets, matched_files, result_view
from codeinfo.shells.http_visit import Visit

FOUND = 100  # results that one search brings, counted by the facets
SHOWN = 10  # of them at first, and with each click on more
PANEL_LINES = 120
LISTED = 8  # entries of each part of the side panel
USES_LISTED = 40  # of a name that was clicked
OUTLINED = 200  # definitions in the outline of a file
RECENT_PROJECTS = 6
MATCHED_LINES = 2000  # that are shown of those that match; all are counted
MODES = ("exact", "regex")
QUOTES = {'""': "exact", "//": "regex"}  # around a query that is to be found as it is
PURPOSES = ("edit", "refactor", "migrate")


# --- search --------------------------------------------------------------------------------------------------------


def search_frame(visit: Visit) -> str:
    """The page around the results, which come after it."""
    state, asked = visit.state, visit.given
    query = check_length(asked.get("q", "").strip(), "the query")
    root = state.root_of(asked.get("project", "")) if query else asked.get("project", "")
    if query:
        _search_request(asked, query, root)  # a filter or mode that does not exist is refused here
        _exact_request(asked, query, root)
    projects = state.projects.known()
    newest = sorted(projects, key=lambda one: one.indexedAt, reverse=True)
    return visit.render(
        "search.html",
        projects=projects,
        recent=newest[:RECENT_PROJECTS],
        project=root or state.projects.root_shown(""),
        query=query,
        asked=asked,
        intents=[one.value for one in Intent],
        purposes=PURPOSES,
    )


def search_results(visit: Visit) -> str:
    state, asked = visit.state, visit.given
    query = check_length(asked.get("q", "").strip(), "the query")
    if not query:
        return search_frame(visit)
    root = state.root_of(asked.get("project", ""))
    request = _search_request(asked, query, root)
    start, end = _number(asked, "from", 0), _number(asked, "n", SHOWN)
    run = indexing(state, root)
    values: dict[str, Any] = {"query": query, "asked": asked, "root": root, "run": run, "result": None}
    exact = _exact_request(asked, query, root)
    if run is None and exact is not None:
        return visit.render(
            "more_matches.html" if start else "matches.html", **values, **_matches(visit, exact, start, end)
        )
    if run is None or state.engine.indexes.of(root).live_store() is not None:
        every = state.engine.search(replace(request, refresh=run is None), visit.call.progress)
        found = replace(every, hits=every.hits[start:end], notes=_notes(every, is_indexing=run is not None))
        found = state.engine.knowledge.around(request, found)
        hint = next((note for note in found.notes if getattr(note, "code", "") == NO_TRENDS), "")
        found = replace(found, notes=tuple(note for note in found.notes if note != hint))
        values |= {
            "result": found,
            "has_trends": not hint,
            "views": [result_view(hit, query) for hit in found.hits],
            "facets": facets_of(every.hits, asked),
            "total": len(every.hits),
            "is_all": len(every.hits) < FOUND,
            "end": end,
            "step": SHOWN,
        }
    return visit.render("more_results.html" if start else "results.html", **values)


def _matches(visit: Visit, request: GrepRequest, start: int, end: int) -> dict[str, Any]:
    """Every line that matches, by file; so many files at a time."""
    found = visit.state.engine.grep(request, visit.call.progress)
    files = matched_files(found.matches)
    return {
        "found": found,
        "files": files[start:end],
        "facets": match_facets(found.matches, visit.given),
        "total": len(files),
        "end": end,
        "step": SHOWN,
    }


def _exact_request(asked: Any, query: str, root: str) -> GrepRequest | None:
    """What to look for as it is: as the toggle says, or with the query in quotes or between slashes. None: ranked."""
    mode = asked.get("mode", "")
    if mode not in ("", *MODES):
        raise UsageError(f"there is no mode {mode}", next_step=f"One of: {', '.join(MODES)}")
    marks = query[0] + query[-1] if len(query) > 2 else ""
    if not mode and marks in QUOTES:
        mode, query = QUOTES[marks], query[1:-1]
    if not mode:
        return None
    ranked = _search_request(asked, query, root)
    return GrepRequest(
        query,
        ranked.paths,
        regex=mode == "regex",
        word=asked.get("word") == "1",
        ignore_case=asked.get("anycase") == "1",
        limit=MATCHED_LINES,
        languages=ranked.languages,
        globs=ranked.globs,
        kinds=ranked.kinds,
        symbol_kinds=ranked.symbol_kinds,
    )


def _number(asked: Any, name: str, default: int) -> int:
    text = asked.get(name, "")
    return min(int(text), FOUND) if text.isascii() and text.isdecimal() and len(text) < 5 else default


def _notes(found: SearchResult, *, is_indexing: bool) -> tuple[str, ...]:
    """One notice for one fact: how far indexing is, its own card says."""
    return tuple(note for note in found.notes if not (is_indexing and getattr(note, "code", "") == INDEXING))


def _search_request(asked: Any, query: str, root: str) -> SearchRequest:
    intent, purpose, kind = asked.get("intent", ""), asked.get("purpose", ""), asked.get("kind", "")
    if intent not in ("", *Intent) or purpose not in ("", *PURPOSES) or kind not in ("", *FileKind):
        raise UsageError("a filter has a value that does not exist", next_step="Choose one of the list")
    folder = asked.get("folder", "").strip("/")
    return SearchRequest(
        query,
        (root,),
        limit=FOUND,
        intent=intent,
        purpose=purpose,
        kinds=(kind,) if kind else (),
        languages=tuple(asked.get("language", "").split()),
        globs=(*((f"{folder}/**",) if folder else ()), *asked.get("glob", "").split()),
        symbol_kinds=tuple(asked.get("symbol", "").split()),
        explain=True,
    )


# --- a project that is not indexed yet -----------------------------------------------------------------------------


def indexing(state: State, root: str) -> IngestRun | None:
    """The run that indexes a project for the first time, begun by the first page that needs it; None once it is
    indexed. A run that failed or was cancelled is shown as it ended, and begun again only by a click."""
    known = {one.root: one.state for one in state.projects.known()}
    if known.get(root) in ("ready", "damaged"):  # what is damaged is rebuilt by the next search
        return None
    status = state.ingest.status()
    runs = [run for run in (*status.waiting, *status.finished) if run.root == root]
    latest = runs[0] if runs else None
    if latest is not None and latest.state == "done":
        state.projects.forget()
        known = {one.root: one.state for one in state.projects.known()}
        return None if known.get(root) == "ready" else state.ingest.add(Path(root))
    return latest or state.ingest.add(Path(root))


def progress(visit: Visit) -> str:
    """How far the first indexing of a project is; the page loads what it shows once that is done."""
    root = visit.state.root_of(visit.given.get("project", ""))
    return visit.render("progress.html", run=indexing(visit.state, root), root=root)


def index_again(visit: Visit) -> str:
    visit.state.refresh_project(visit.given.get("project", ""), full=False)
    return progress(visit)


# --- beside the page -----------------------------------------------------------------------------------------------


def panel(visit: Visit) -> str:
    """The lines of a result or citation, who calls and tests it, and what the team knows about it."""
    state, asked = visit.state, visit.given
    root = state.root_of(asked.get("project", ""))
    path = file_within(root, asked.get("path", ""))
    start, end = _line(asked.get("start", "1")), _line(asked.get("end", "1"))
    symbol = asked.get("symbol", "")[:200]
    text = _lines(state, root, path, start, min(end, start + PANEL_LINES))
    if not text:
        raise NotFound(f"{path}:{start} is not in the index", next_step="It may have changed: search again")
    return visit.render(
        "panel.html",
        root=root,
        path=path,
        start=start,
        end=max(start, end),
        listed=LISTED,
        text=text,
        symbol=symbol,
        imports=_or_none(lambda: _importers(state, root, path)),
        uses=_or_none(lambda: _uses(state, root, f"{path}::{symbol}", LISTED)) if symbol else None,
        memories=_or_none(lambda: _memories(state, root, symbol or path.rpartition("/")[2])) or (),
    )


def name(visit: Visit) -> str:
    """Where a name that was clicked is defined and used. In the file itself an inner definition comes first."""
    state, asked = visit.state, visit.given
    root = state.root_of(asked.get("project", ""))
    wanted = check_length(asked.get("name", ""), "the name")
    try:
        uses = _uses(state, root, wanted, USES_LISTED)
    except NotFound:
        plain = wanted.rpartition("::")[2]
        raise NotFound(
            f"{plain} is not defined in this project", next_step="It comes from elsewhere, or is a local name"
        ) from None
    return visit.render("name.html", root=root, name=wanted.rpartition("::")[2], uses=uses)


def _line(text: str) -> int:
    if not text.isdecimal() or len(text) > 8:
        raise UsageError("lines are numbers from 1", next_step="Follow a link of this page")
    return max(1, int(text))


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


def _uses(state: State, root: str, name: str, limit: int) -> code_requests.ReferenceReport:
    return state.engine.code.references(code_requests.RefsRequest(name, root, limit, refresh=False))


def _memories(state: State, root: str, topic: str) -> tuple[RelatedMemory, ...]:
    return state.engine.knowledge.memory_list(MemoryListRequest(topic, limit=3, path=root)).memories


# --- a whole file --------------------------------------------------------------------------------------------------


def file_frame(visit: Visit) -> str:
    """The page around a file's lines, with its outline; the lines come after it."""
    state, asked = visit.state, visit.given
    root = state.root_of(asked.get("project", ""))
    path = file_within(root, asked.get("path", ""))
    wanted = code_requests.SymbolsRequest(path, (), OUTLINED, root, refresh=False)
    symbols = _or_none(lambda: state.engine.code.symbols(wanted))
    return visit.render("file.html", root=root, path=path, symbols=symbols)


def file_lines(visit: Visit) -> str:
    state, asked = visit.state, visit.given
    root = state.root_of(asked.get("project", ""))
    path = file_within(root, asked.get("path", ""))
    text = state.engine.answers.read_whole(root, path)
    return visit.render("file_lines.html", root=root, path=path, lines=code_lines(text, path))
