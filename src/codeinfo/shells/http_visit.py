"""One request for a page: what it asks, how its template is filled, and how a failure is shown to people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import jinja2
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from codeinfo import __version__
from codeinfo.errors import CodeInfoError, NotFound
from codeinfo.serve.dispatch import Call
from codeinfo.serve.runs import State
from codeinfo.serve.team import ADMIN, READ, WRITE, current_user
from codeinfo.shells.http_routes import no_route, state_of, status_of
from codeinfo.shells.http_text import code_lines, markdown_html, marked, sentence_html, without_anchors
from codeinfo.shells.http_views import (
    area_name,
    citation_address,
    decay_chart,
    editor_address,
    editor_template,
    lines_address,
    search_address,
    trend_chart,
)
from codeinfo.shells.terminal import quantity

TEMPLATES = Path(__file__).parent / "web" / "templates"
PAGES = (  # address, name, further addresses that belong to it
    ("/", "Search", ("/ui/file",)),
    ("/ui/chat", "Chat", ()),
    ("/ui/agents", "Agents", ()),
    ("/ui/documents", "Documents", ()),
    ("/ui/map", "Map", ("/ui/patterns", "/ui/memories")),
    ("/ui/projects", "Projects", ()),
    ("/ui/health", "Health", ()),
)
# Pages and documents that a team's server has, by the scope that they take. What is not here, nor an operation of
# TEAM_OPERATIONS, is refused.
TEAM_PAGES = {
    ("GET", "/"): READ,
    ("GET", "/panel"): READ,
    ("GET", "/ui/name"): READ,
    ("GET", "/ui/file"): READ,
    ("GET", "/ui/map"): READ,
    ("GET", "/ui/area"): READ,
    ("GET", "/ui/patterns"): READ,
    ("GET", "/docs"): READ,
    ("GET", "/openapi.json"): READ,
    ("POST", "/auth/sign-out"): READ,
    ("GET", "/ui/admin"): ADMIN,
    ("POST", "/ui/admin"): ADMIN,
    ("GET", "/ui/account"): READ,
    ("POST", "/ui/account"): READ,
    ("GET", "/ui/chat"): READ,
    ("GET", "/ui/models"): READ,
    ("GET", "/ui/conversations"): READ,
    ("POST", "/ui/conversations/archive"): WRITE,
    ("POST", "/ui/conversations/restore"): WRITE,
    ("GET", "/ui/runs/{run_id}/turn"): READ,
    ("POST", "/ui/runs"): WRITE,
    ("POST", "/chat"): WRITE,
    ("GET", "/chat/models"): READ,
    ("GET", "/chat/runs/{run_id}/events"): READ,
    ("POST", "/chat/runs/{run_id}/stop"): WRITE,
    ("GET", "/conversations"): READ,
    ("GET", "/conversations/{identity}"): READ,
    ("POST", "/conversations/archive"): WRITE,
    ("POST", "/conversations/restore"): WRITE,
    ("POST", "/conversations/delete"): WRITE,
}
ADMIN_PAGE = ("/ui/admin", "Admin", ())
PANELS = ("/panel?", "/ui/name?", "/ui/area?", "/ui/document?")  # addresses that open beside a page


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
        "quantity": quantity, "area_name": area_name, "marked": marked, "heading": without_anchors,
    }  # fmt: skip
    environment.globals |= {
        "code_lines": code_lines, "lines_address": lines_address, "markdown": markdown_html,
        "search_address": search_address, "citation_address": citation_address, "decay_chart": decay_chart,
        "trend_chart": trend_chart, "version": __version__,
    }  # fmt: skip
    return environment


class Visit(Struct):
    """`given` are the parameters of the address, or the fields of the form."""

    request: Request
    state: State
    given: Mapping[str, str]
    call: Call

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page."""
        headers = self.request.headers
        return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"

    @property
    def address(self) -> str:
        """Of this page, without what is open beside it."""
        told = [(name, value) for name, value in self.request.query_params.multi_items() if name != "panel"]
        return f"{self.request.url.path}?{urlencode(told)}" if told else self.request.url.path

    def render(self, template: str, **values: Any) -> str:
        caller = current_user.get()
        editor = editor_template(self.state.engine.config.web.editor if caller is None else "none")
        beside = self.given.get("panel", "")
        shared = {
            "token": self.request.state.page_token,
            "here": self.request.url.path,
            "address": self.address,
            "fragment": self.is_fragment,
            "served": self.state.projects.here,
            "beside": beside if beside.startswith(PANELS) else "",
            "user": caller.name if caller is not None else "",
            "pages": PAGES if caller is None else _offered_pages(caller.scopes),
            "editor": lambda root, path, line: editor_address(editor, root, path, line),
        }
        return _environment().get_template(template).render(shared | values)


def _offered_pages(scopes: Collection[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [page for page in (*PAGES, ADMIN_PAGE) if TEAM_PAGES.get(("GET", page[0])) in scopes]


def page(method: str, path: str, make: Callable[[Visit], str], frame: Callable[[Visit], str] | None = None) -> Route:
    """A route whose failures are shown to people. The page is made in a thread. Where a `frame` is given, a browser
    gets that at once, and htmx what `make` puts into it."""

    async def shown(request: Request) -> Response:
        state = state_of(request)
        given = await form_fields(request) if method == "POST" else request.query_params

        def work(call: Call) -> str:
            visit = Visit(request, state, given, call)
            with state.dispatcher.observe(path, "page"):
                return frame(visit) if frame is not None and not visit.is_fragment else make(visit)

        try:
            return HTMLResponse(await state.run(work))
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


async def form_fields(request: Request) -> dict[str, str]:
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
