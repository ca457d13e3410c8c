"""Building blocks of pages: text as safe HTML, values for the templates, and a visit, whose failures people see."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from pathlib import Path
from posixpath import dirname
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import jinja2
import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline, emphasis
from markdown_it.token import Token
from markupsafe import Markup
from msgspec import Struct
from pygments import format
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from codeinfo import __version__
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.graph.survey import GAP, Box, closes_cycle, curve, lay_out
from codeinfo.knowledge.memory import HALF_LIFE_DAYS, STALE_BELOW
from codeinfo.model import CONTROLS, CRUMB, Hit, Intent, NextStep, Passage, Step, fill, quantity, shown_root
from codeinfo.operations.answers import Citation
from codeinfo.operations.code import CodeMap, MapArea
from codeinfo.operations.knowledge import PatternHistory
from codeinfo.operations.search import Match
from codeinfo.search.policy import apply_policy
from codeinfo.serve.dispatch import Call, Projects, check_text, file_within, property_schema
from codeinfo.serve.runs import State
from codeinfo.serve.team import current_user
from codeinfo.settings import RetrievalSettings
from codeinfo.shells.http_api import TeamRoute, no_route, state_of
from codeinfo.shells.render import query_words, window, word_spans
from codeinfo.shells.render_answers import strip_site_markup
from codeinfo.shells.terminal import byte_size, conversation_subject, detail_text

COLOURED_CHARS = 300_000  # longer texts are shown plain: colouring takes 4 s per million characters
COLOURED_LINE = 2_000
COLOURED_S = 3.0  # so are those made for a lexer that takes quadratic time
_MOST_FIELDS = 50  # of a form
_NAME_PAGE = "/ui/name"
_STEP_PAGES = dict.fromkeys(("refs", "defs", "calls"), _NAME_PAGE)
_STEP_PAGES |= {"search": "/", "grep": "/", "map": "/ui/map", "patterns": "/ui/patterns"}
_PLAIN_WORD = re.compile(r"[a-z]+(?=$|[\s,;]|:(?!/))")
_TICKED = re.compile(r"`([^`]+)`")
_CITED = re.compile(r"\[(\d{1,3})(: unverified)?\]")
_QUOTED = re.compile(r"\[\d+\] (?:\S*/)?([^\s/]+):\d+(?:-\d+)?(?: \(.*\))?$")
_TAGS = "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul"
_CLEANER = nh3.Cleaner(
    tags=set(_TAGS.split()),
    attributes={"a": {"href", "title", "class", "hx-get", "hx-target"}}
    | {tag: {"class"} for tag in ("span", "pre", "code")},
    url_schemes={"http", "https"},
    link_rel="noopener noreferrer nofollow",
)
_FORMATTER = HtmlFormatter(nowrap=True)


# --- code ----------------------------------------------------------------------------------------------------------


def code_lines(text: str, path: str) -> list[Markup]:
    """Each line as HTML, coloured if a lexer knows the file, or the language given instead."""
    lines = text.split("\n")
    if len(text) <= COLOURED_CHARS and max(map(len, lines)) <= COLOURED_LINE:
        until, tokens = time.thread_time() + COLOURED_S, list[Any]()
        for token in _lexer(path.rpartition("/")[2]).get_tokens(text):
            tokens.append(token)
            if time.thread_time() > until:
                break
        else:
            coloured = format(tokens, _FORMATTER).split("\n")[: len(lines)]
            return [Markup(line) for line in coloured]  # the formatter escapes
    return [Markup(escape(line)) for line in lines]


@lru_cache(maxsize=256)
def _lexer(name: str) -> Any:
    for find in (get_lexer_for_filename, get_lexer_by_name):
        with suppress(ClassNotFound):
            return find(name, stripnl=False, ensurenl=False)
    return TextLexer(stripnl=False, ensurenl=False)


_PIECE = re.compile(r"<[^>]*>|&[^;]+;|[^<&]")


def mark_spans(line: Markup, spans: Sequence[tuple[int, int]]) -> Markup:
    """A coloured line with the characters of the spans marked; marks are split around tags."""
    if not spans:
        return line
    inside = {at for start, end in spans for at in range(start, end)}
    parts: list[str] = []
    at, is_open = 0, False
    for piece in _PIECE.findall(line):
        is_marked = not piece.startswith("<") and at in inside
        if is_marked != is_open:
            parts.append("<mark>" if is_marked else "</mark>")
            is_open = is_marked
        parts.append(piece)
        at += not piece.startswith("<")
    return Markup("".join(parts) + ("</mark>" if is_open else ""))


def sentence_html(text: str, root: str = "") -> Markup:
    """A message for people: capitalised, unless it begins with a name, and backticks as code. Steps that a page of the
    project at `root` can do lead there."""
    parts = list(text.parts) if isinstance(text, NextStep) and root else [text]
    if isinstance(parts[0], str) and _PLAIN_WORD.match(parts[0]):
        parts[0] = parts[0][0].upper() + parts[0][1:]
    shown = (_step_html(part, root) if isinstance(part, Step) else escape(part) for part in parts)
    return Markup(_TICKED.sub(r"<code>\1</code>", "".join(shown)))


def _step_html(step: Step, root: str) -> str:
    page, command = _STEP_PAGES.get(step.operation, ""), escape(step.command())
    if not page:
        return command
    named = {"q" if page == "/" else "name": step.arguments[0]} if step.arguments and page in ("/", _NAME_PAGE) else {}
    named |= {"mode": "exact"} if step.operation == "grep" else {}
    address = escape(f"{page}?{urlencode({'project': root, **named})}")
    beside = f' hx-get="{address}" hx-target="#panel"' if page == _NAME_PAGE else ""
    return f'<a href="{address}"{beside}>{command}</a>'


# --- Markdown ------------------------------------------------------------------------------------------------------


def markdown_html(text: str, links: Mapping[int, str] = MappingProxyType({})) -> Markup:
    """Markdown as clean HTML. `links` are the addresses of citations by their numbers."""
    tokens = _PARSER.parse(text)
    cited = ""
    for token in tokens:
        cited = token.content if token.type == "inline" else cited
        if token.type == "fence" and not token.info and (place := _QUOTED.match(cited)):
            token.info = place[1]  # a passage is coloured like the file it is quoted from
        if token.children:
            token.children = [part for child in token.children for part in _with_citations(child, links)]
    return Markup(_CLEANER.clean(_PARSER.renderer.render(tokens, _PARSER.options, {})))


def _emphasis(state: StateInline, silent: bool) -> bool:
    """By asterisks alone: in answers about code an underscore belongs to a name, such as `__init__.py`."""
    return state.src[state.pos] != "_" and emphasis.tokenize(state, silent)


def _render_fence(code: str, language: str, _: str) -> str:
    lines = code_lines(code.rstrip("\n"), language)
    return f'<pre class="code"><code>{chr(10).join(lines)}</code></pre>'


def _describe_image(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """The text of an image: pages load nothing from elsewhere."""
    return str(escape(renderer.renderInlineAsText(tokens[at].children, options, env)))


_PARSER = MarkdownIt("commonmark", {"html": False, "highlight": _render_fence}).enable(["table", "strikethrough"])
_PARSER.inline.ruler.at("emphasis", _emphasis)
_PARSER.add_render_rule("image", _describe_image)


def _with_citations(token: Token, links: Mapping[int, str]) -> Sequence[Token]:
    """Text with `[3]` becomes text, a link, text; other links lead to http(s) or nowhere."""
    if token.type == "link_open" and not str(token.attrGet("href")).startswith(("http://", "https://")):
        token.attrs.pop("href")  # a model's links lead outside, never to our own addresses
    if token.type != "text" or not _CITED.search(token.content):
        return (token,)
    parts: list[Token] = []
    at = 0
    for match in _CITED.finditer(token.content):
        address = links.get(int(match[1]), "")
        if not address and not match[2]:
            continue
        parts.append(Token("text", "", 0, content=token.content[at : match.start()]))
        opens = f'<a class="cite" href="{escape(address)}" hx-get="{escape(address)}" hx-target="#panel">{match[1]}</a>'
        html = opens if address else f"[{match[1]}]"  # an answer that was stopped has no list of citations
        if match[2]:
            html += '<span class="unverified">unverified</span>'
        parts.append(Token("html_inline", "", 0, content=html))
        at = match.end()
    return (*parts, Token("text", "", 0, content=token.content[at:]))


_NO_CUT = 10**9


def shown_citations(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """Deduplicated within a file, then the two closest of each file, ties by order: the policy's own steps."""
    passages = [fill(Passage, citation, text=f"{citation.start_line}-{citation.end_line}") for citation in citations]
    uncut = RetrievalSettings(cutoff_disabled=True, chunk_max_chars=_NO_CUT, max_chars=_NO_CUT)
    numbers = {passage.number for passage in apply_policy(passages, uncut).kept}
    return tuple(citation for citation in citations if citation.number in numbers)


# --- search --------------------------------------------------------------------------------------------------------

FACET_VALUES = 7  # shown of each facet
CLIPPED_LINES = 5  # of a result, until it is expanded
_EDITORS = {name: name + "://file{path}:{line}" for name in ("vscode", "cursor", "zed")}
_EDITORS |= {"idea": "idea://open?file={path}&line={line}", "none": ""}
_SCHEME = re.compile(r"(?!javascript:|data:|vbscript:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class FacetValue(Struct, frozen=True):
    label: str
    count: int
    chosen: bool
    address: str  # of the search with this value, or without it if it is chosen


Facets = dict[str, list[FacetValue]]


def search_address(parameters: Mapping[str, str], **changes: object) -> str:
    """The address of a search, with only the parameters that were chosen."""
    query = {name: value for name, value in (dict(parameters) | changes).items() if value}
    query.pop("panel", None)
    return f"/?{urlencode(query)}"


def facets_of(hits: Sequence[Hit], parameters: Mapping[str, str]) -> Facets:
    """How the results are distributed, each value with the search it narrows to."""
    columns = {
        "kind": [hit.kind.value for hit in hits],
        "language": [hit.language for hit in hits],
        "symbol": [hit.symbol_kind if hit.symbol else "" for hit in hits],
    }
    return folder_facets(hits, parameters) | {
        name.capitalize(): values
        for name, column in columns.items()
        if len(values := _facet(name, column, parameters)) > 1 or parameters.get(name)
    }


def folder_facets(results: Sequence[Hit | Match], parameters: Mapping[str, str]) -> Facets:
    """By folder, one level below the chosen one."""
    below = parameters.get("folder", "").strip("/")
    start = f"{below}/" if below else ""
    inside = [result.path.removeprefix(start).partition("/") for result in results]
    values = _facet("folder", [start + first if slash else "" for first, slash, _ in inside], parameters)
    return {"Folder": values} if values else {}


def _facet(name: str, column: Sequence[str], parameters: Mapping[str, str]) -> list[FacetValue]:
    chosen = parameters.get(name, "").strip("/")
    outer = dirname(chosen) if name == "folder" else ""
    away = [FacetValue(chosen, len(column), True, search_address(parameters, n="", **{name: outer}))] if chosen else []
    return away + [
        FacetValue(value, count, False, search_address(parameters, n="", **{name: value}))
        for value, count in Counter(filter(None, column)).most_common(FACET_VALUES)
        if value != chosen
    ]


class ResultLine(Struct, frozen=True):
    number: int
    html: Markup
    is_rest: bool  # shown once the result is expanded
    around: str = ""  # the definition around a match, if it differs from that of the last


def result_lines(hit: Hit, query: str) -> list[ResultLine]:
    """The text of a result, coloured, the query's words marked; some lines are shown at first, as on a terminal."""
    words = query_words(query)
    plain = hit.text.split("\n") if hit.text else []
    shown = set(window(plain, words, CLIPPED_LINES, hit.symbol))
    return [
        ResultLine(hit.text_line + at, mark_spans(html, word_spans(plain[at], words)), at not in shown)
        for at, html in enumerate(code_lines(hit.text, hit.path) if plain else ())
    ]


def match_lines(matches: Sequence[Match]) -> list[ResultLine]:
    """The matching lines of one file, coloured, with the matches marked; the first few are shown at first."""
    lines = []
    for at, html in enumerate(code_lines("\n".join(match.text for match in matches), matches[0].path)):
        match = matches[at]
        around = match.symbol if at == 0 or match.symbol != matches[at - 1].symbol else ""
        lines.append(ResultLine(match.line, mark_spans(html, [match.span]), at >= CLIPPED_LINES, around))
    return lines


def editor_template(setting: str) -> str:
    """The address that opens a file in the configured editor; "" for none."""
    template = _EDITORS.get(setting, setting)
    if template and ("{path}" not in template or not _SCHEME.match(template)):
        step = f"One of {', '.join(_EDITORS)}, or an address such as myeditor://open?file={{path}}&line={{line}}"
        raise UsageError(f"web.editor cannot be {setting!r}", step)
    return template


def editor_address(template: str, root: str, path: str, line: int) -> str:
    return template.replace("{path}", quote(f"{root}/{path}")).replace("{line}", str(line)) if template else ""


# --- map -----------------------------------------------------------------------------------------------------------

_BOX, _HEIGHT = 168, 56  # pixels
_LABEL_CHARS = 19
_PART = re.compile(r"(?:(.*)/)?\((.*[,…].*)\)")  # as in `src/(parse … read)`; `app/(main)` is a folder of Next.js


class Picture(Struct, frozen=True):
    """Areas in layers: dependents above, dependencies below."""

    width: int
    height: int
    boxes: dict[str, Box]


def picture_of(code_map: CodeMap, per_row: int = 6) -> Picture:
    """A phone has room for fewer areas in a row."""
    boxes = {area.name: Box(area, _BOX, _HEIGHT) for area in code_map.areas}
    width, height = lay_out(boxes, per_row * (_BOX + GAP))
    return Picture(width, height, boxes)


def area_name(name: str) -> str:
    """A folder, a file, or the files that lie in the top folder itself."""
    return name.removesuffix("/*").replace("(* ", "(").replace("*", "") or "the top folder"


def area_detail(area: MapArea) -> str:
    """The second line of its box: the number of files, or the folder of a single one."""
    if area.files == 1:
        return _shorten(dirname(area.name)) or "the top folder"
    count, part = quantity(area.files, "file"), _PART.fullmatch(area_name(area.name))
    if not part:
        return count
    # Other parts of the folder may have boxes too: without some of its names they would look alike.
    names, room = part[2], _LABEL_CHARS - 2
    return f"{count}: {names if len(names) <= room else names[: room - 1].rstrip(' ,…') + '…'}"


def area_label(area: MapArea) -> str:
    name = area_name(area.name)
    if part := _PART.fullmatch(name):  # some of a folder's files: the second line says which
        name = part[1] or "the top folder"
    return _shorten(name.rpartition("/")[2] if area.files == 1 else name)


def _shorten(name: str) -> str:
    """The end of a path, which is its most specific part."""
    parts = name.split("/")
    while len(parts) > 1 and len("/".join(parts)) > _LABEL_CHARS:
        parts = parts[1:]
    label = "/".join(parts)
    if len(parts) == 1 and len(label) * 2 < _LABEL_CHARS:  # `src` alone could be any package's
        label = name
    return label if len(label) <= _LABEL_CHARS else f"…{label[1 - _LABEL_CHARS :]}"


# --- charts ----------------------------------------------------------------------------------------------------------

_CURVE_POINTS = 24
_LEAST_HALF_LIVES = 2.5  # shown of a decay: enough to see it bend and become stale
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Point = tuple[float, float]  # of the unit square, upwards being more


class ChartView(Struct, frozen=True):
    """`title` describes the picture for screen readers; `caption` is shown beside it."""

    points: list[Point]  # of the line
    dot: Point
    title: str
    caption: str = ""
    level: float | None = None  # height of a line across


def trend_chart(history: PatternHistory) -> ChartView:
    """Lines by the month they were written in, this month at the right. Each chart has its own scale."""
    counts = history.lines
    most, months = max(counts), _months(history)
    points = [(at / (len(counts) - 1), count / most if most else 0.0) for at, count in enumerate(counts)]
    by_month = ", ".join(f"{month} {count}" for month, count in zip(months, counts, strict=True) if count)
    rest = [f"{history.older:,} older"] if history.older else []
    rest += [f"{history.undated:,} not dated yet"] if history.undated else []
    title = f"Lines in use by the month they were written, {months[0]} to {months[-1]}: {by_month or 'none'}"
    caption = ", ".join((f"{quantity(sum(counts), 'line')} since {months[0]}", *rest))
    return ChartView(points, points[-1], "; ".join((title, *rest)), caption)


def decay_chart(kind: str, confidence: float) -> ChartView:
    """How much a memory counts from the day it was written, with a dot for today."""
    half_life = HALF_LIFE_DAYS.get(kind)
    percent = f"{100 * confidence:.0f} %"
    if half_life is None:
        return ChartView([(0.0, 1.0), (1.0, 1.0)], (1.0, 1.0), f"Counts {percent} and does not fade")
    age = -math.log2(max(confidence, 1e-4))  # in half-lives
    shown = max(_LEAST_HALF_LIVES, 1.15 * age)
    curve = [(at / _CURVE_POINTS, math.pow(2.0, -shown * at / _CURVE_POINTS)) for at in range(_CURVE_POINTS + 1)]
    title = f"Counts {percent} today; halves in {half_life:.0f} days, stale below {100 * STALE_BELOW:.0f} %"
    return ChartView(curve, (age / shown, confidence), title, level=STALE_BELOW)


def _months(history: PatternHistory) -> list[str]:
    year, _, month = history.since.partition("-")
    first = 12 * int(year) + int(month) - 1
    return [f"{_MONTHS[number % 12]} {number // 12}" for number in range(first, first + len(history.lines))]


# --- addresses -------------------------------------------------------------------------------------------------------


def lines_address(root: str, path: str, start: int, end: int, symbol: str = "") -> str:
    query = {"project": root, "path": path, "start": start, "end": end} | ({"symbol": symbol} if symbol else {})
    return f"/panel?{urlencode(query)}"


def citation_links(citations: Sequence[Citation]) -> dict[int, str]:
    return {citation.number: citation_address(citation) for citation in citations}


def citation_address(citation: Citation) -> str:
    """Where a citation opens beside the page: lines of a file, or a section of a document."""
    if not citation.collection:
        return lines_address(citation.root, citation.path, citation.start_line, citation.end_line, citation.symbol)
    section = citation.section.rpartition(CRUMB)[2]
    query = {"collection": citation.collection, "document": citation.path, "section": section}
    return f"/ui/document?{urlencode(query)}"


# --- a visit ---------------------------------------------------------------------------------------------------------

TEMPLATES = Path(__file__).parent / "web" / "templates"
PAGES = (  # address, name, further addresses that belong to it
    ("/", "Search", ("/ui/file",)),
    ("/ui/chat", "Chat", ()),
    ("/ui/agents", "Agents", ()),
    ("/ui/documents", "Documents", ()),
    ("/ui/map", "Map", ("/ui/patterns", "/ui/memories")),
    ("/ui/projects", "Projects", ()),
    ("/ui/health", "Health", ()),
    ("/ui/admin", "Admin", ()),
)
PANELS = ("/panel?", "/ui/name?", "/ui/area?", "/ui/document?")  # addresses that open beside a page
_CONTROLS = dict.fromkeys(CONTROLS, "\ufffd")  # a name or text could change the order in which its page is read


class Visit(Struct):
    """`given` are the parameters of the address, or the fields of the form."""

    request: Request
    state: State
    given: Mapping[str, str]
    call: Call

    def field(self, name: str) -> str:
        return self.given.get(name, "")

    @property
    def engine(self) -> Engine:
        return self.state.engine

    @property
    def projects(self) -> Projects:
        return self.state.projects

    @property
    def root(self) -> str:
        return self.projects.root_of(self.field("project"))

    @property
    def path(self) -> str:
        """The page's file, relative to its project."""
        return file_within(self.root, self.field("path"))

    @property
    def query(self) -> str:
        return check_text(self.field("q").strip(), "the query")

    @property
    def here(self) -> str:
        """The project whose context.json is read."""
        return str(self.projects.here)

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page."""
        headers = self.request.headers
        return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"

    @property
    def address(self) -> str:
        """The address of this page, without what is open beside it."""
        query = [(name, value) for name, value in self.request.query_params.multi_items() if name != "panel"]
        return f"{self.request.url.path}?{urlencode(query)}" if query else self.request.url.path

    def render(self, template: str, **values: Any) -> str:
        caller = current_user.get()
        editor = editor_template(self.engine.config.web.editor if caller is None else "none")
        beside = self.field("panel")
        routes = (route for route in self.request.app.routes if isinstance(route, TeamRoute))
        offered = {route.path for route in routes if caller is None or route.scope in caller.scopes}
        shared = {
            "token": self.request.state.page_token,
            "here": self.request.url.path,
            "address": self.address,
            "fragment": self.is_fragment,
            "served": self.projects.here if caller is None else None,  # a team's users have no folder there
            "beside": beside if beside.startswith(PANELS) else "",
            "user": caller.name if caller is not None else "",
            "pages": [page for page in PAGES if page[0] in offered],
            "editor": lambda root, path, line: editor_address(editor, root, path, line),
        }
        return ENVIRONMENT.get_template(template).render(shared | values).translate(_CONTROLS)


def page(
    method: str, path: str, make: Callable[[Visit], str], frame: Callable[[Visit], str] | None = None, team: str = ""
) -> TeamRoute:
    """A route whose failures are shown to people. The page is rendered in a thread. With a `frame`, a browser gets
    that at once, and htmx what `make` puts into it. `team` is the scope it needs on a team's server."""

    async def shown(request: Request) -> Response:
        state = state_of(request)
        given = await form_fields(request) if method == "POST" else request.query_params

        def work(call: Call) -> str:
            visit = Visit(request, state, given, call)
            with state.dispatcher.observe(path, "page"):
                return frame(visit) if frame is not None and not visit.is_fragment else make(visit)

        try:
            return HTMLResponse(await state.dispatcher.run(work))
        except CodeInfoError as error:
            return _error_page(request, error)

    return TeamRoute(path, shown, method, team)


def _error_page(request: Request, error: CodeInfoError) -> Response:
    html = Visit(request, state_of(request), {}, Call()).render("error.html", error=error)
    return HTMLResponse(html, error.status)


async def unknown_page(request: Request, error: Exception) -> Response:
    """A browser gets a page; programs get JSON as everywhere."""
    if "text/html" not in request.headers.get("accept", ""):
        return await no_route(request, error)
    return _error_page(request, NotFound(f"there is no page {request.url.path}", "The pages are listed above"))


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form; the last of each name."""
    text = (await request.body()).decode("utf-8", "replace")
    if text.count("&") > _MOST_FIELDS:
        raise UsageError("the form has too many fields", f"Send at most {_MOST_FIELDS}")
    return {name: values[-1] for name, values in parse_qs(text).items()}


def _ago(stamp: str) -> str:
    """A time relative to now, as in `3 days ago`."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()
    except (ValueError, TypeError):
        return stamp
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{quantity(int(seconds // length), unit)} ago"
    return "just now"


_READINGS = {
    Intent.EXACT_NAME: "a name",
    Intent.CONCEPTUAL: "a description",
    Intent.FLOW: "a question about what happens",
    Intent.CONFIG: "a question about settings",
    Intent.WIRING: "a question about wiring",
}
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "ago": _ago, "size": byte_size, "query": urlencode, "sentence": sentence_html,
    "quantity": quantity, "number": "{:,}".format, "heading": strip_site_markup, "area_name": area_name,
    "area_label": area_label, "area_detail": area_detail, "shown_root": shown_root, "subject": conversation_subject,
    "detail": detail_text,
    "reading": lambda intent: _READINGS[Intent(intent)],
    "distance": lambda value: "no distance" if value is None else f"{value:.3f}",
}  # fmt: skip
ENVIRONMENT.globals |= {
    "code_lines": code_lines, "lines_address": lines_address, "markdown": markdown_html,
    "search_address": search_address, "citation_address": citation_address, "decay_chart": decay_chart,
    "trend_chart": trend_chart, "citation_links": citation_links, "shown_citations": shown_citations,
    "result_lines": result_lines, "match_lines": match_lines, "curve": curve, "closes_cycle": closes_cycle,
    "property_schema": property_schema, "version": __version__,
}  # fmt: skip
