"""Templates and what every page has in common: the frame, the token for its requests, errors as pages."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import jinja2
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from codeinfo import __version__
from codeinfo.errors import CodeInfoError, NotFound
from codeinfo.shells.http_charts import decay_chart, trend_chart
from codeinfo.shells.http_errors import not_routed, status_of
from codeinfo.shells.http_state import State, state_of
from codeinfo.shells.http_text import code_lines, lines_address, markdown_html, sentence_html
from codeinfo.shells.http_views import area_name
from codeinfo.shells.terminal import counted

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
        "counted": counted, "area_name": area_name,
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
            return f"{counted(count, unit)} ago"
    return "just now"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _distance(value: float | None) -> str:
    return "no distance" if value is None else f"{value:.3f}"
