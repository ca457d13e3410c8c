"""What the pages show, made of what the engine answered: plain values for the templates, no HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import urlencode

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from msgspec import Struct

from codeinfo.knowledge.memory import HALF_LIFE_DAYS, STALE_BELOW
from codeinfo.operations.answers import Citation, GradedItem, Turn
from codeinfo.operations.code import CodeMap, MapArea
from codeinfo.operations.knowledge import PatternHistory
from codeinfo.search.policy import PolicyItem, PolicySettings, apply_policy, numeric
from codeinfo.shells.terminal import quantity

_NO_CUT = 10**9


class MatchView(Struct, frozen=True):
    path: str
    start: int
    end: int
    distance: float | None
    grade: float | None
    preview: str
    root: str


class FileView(Struct, frozen=True):
    path: str
    lowest: float | None
    matches: tuple[MatchView, ...]


class CallView(Struct, frozen=True):
    """One row of the tool details: a search of the answer loop or a tool that the model called."""

    name: str
    argument: str
    outcome: str
    failed: bool
    files: tuple[FileView, ...] = ()
    dropped: tuple[str, ...] = ()


# --- tool details --------------------------------------------------------------------------------------------------


def calls_of(turn: Turn, root: str) -> tuple[CallView, ...]:
    """The searches of a turn and the tools that the model called, each with what it brought. `root` is where passages
    lie that do not say it themselves."""
    rounds = [
        CallView(
            "search",
            entry.query,
            f"{quantity(len(entry.items), 'passage')}, {len(entry.dropped)} dropped, {_verdict(entry.verdict)}",
            False,
            _files(entry.items, root),
            tuple(f"{one.path}:{one.start_line}-{one.end_line}: {one.rule}, {one.detail}" for one in entry.dropped),
        )
        for entry in turn.rounds
    ]
    tools = [
        CallView(use.name, use.arguments, use.outcome, use.failed, _files(use.items, root)) for use in turn.tool_calls
    ]
    return (*rounds, *tools)


def _verdict(word: str) -> str:
    """What the loop decided after a search, for those who do not know its words."""
    return {"answer": "enough to answer", "refine": "searched once more", "rewrite": "searched in other words"}.get(
        word, word
    )


def _files(items: Sequence[GradedItem], root: str) -> tuple[FileView, ...]:
    matches: dict[str, list[MatchView]] = {}
    for item in items:
        distance = numeric(item.distance.value) if item.distance else None
        view = MatchView(
            item.path, item.start_line, item.end_line, distance, item.score, item.preview, item.root or root
        )
        matches.setdefault(item.path, []).append(view)
    return tuple(FileView(path, lowest(own), tuple(own)) for path, own in matches.items())


def lowest(matches: Iterable[MatchView]) -> float | None:
    return min((one.distance for one in matches if one.distance is not None), default=None)


# --- citations -----------------------------------------------------------------------------------------------------


def shown_citations(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """Deduplicated within a file, then the two closest of each file, ties by order: the policy's own steps."""
    items = [
        PolicyItem(
            repo=one.root,
            rel_path=one.path,
            chunk_id=f"{one.start_line}-{one.end_line}",
            text=f"{one.path}:{one.start_line}-{one.end_line}",
            distance=one.distance.value if one.distance else None,
            payload=one,
        )
        for one in citations
    ]
    every = PolicySettings(cutoff_disabled=True, chunk_max_chars=_NO_CUT, max_chars=_NO_CUT)
    return tuple(item.payload for item in apply_policy(items, every).kept)


# --- conversations -------------------------------------------------------------------------------------------------


class TurnView(Struct, frozen=True):
    """A turn as the page shows it: `citations` are all, `sources` those worth listing."""

    role: str
    text: str
    status: str
    citations: tuple[Citation, ...] = ()
    sources: tuple[Citation, ...] = ()
    calls: tuple[CallView, ...] = ()
    model: str = ""
    provider: str = ""
    tokens: int | None = None
    took_ms: float | None = None
    error: str = ""
    notes: tuple[str, ...] = ()


def turn_view(turn: Turn, root: str = "") -> TurnView:
    tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens if turn.usage else None
    return TurnView(
        turn.role,
        turn.content,
        turn.status,
        turn.citations,
        shown_citations(turn.citations),
        calls_of(turn, root),
        turn.model,
        turn.provider,
        tokens,
        turn.took_ms,
        turn.error,
        turn.notes,
    )


# --- map -----------------------------------------------------------------------------------------------------------

_BOX, _GAP, _ROW, _EDGE_MARGIN = 168, 24, 108, 28  # pixels
_HEIGHT = 56
_ARC = 46  # how far the bow of an edge within a row is drawn up
_PER_ROW = 6
_LABEL_CHARS = 19


class BoxView(Struct, frozen=True):
    area: MapArea
    x: int
    y: int
    width: int
    height: int
    hub: bool
    label: str
    below: str  # the second line: how many files, or the folder of a single one


class EdgeView(Struct, frozen=True):
    path: str
    cycle: bool
    weight: int
    title: str
    start: str
    end: str


class PictureView(Struct, frozen=True):
    width: int
    height: int
    boxes: tuple[BoxView, ...]
    edges: tuple[EdgeView, ...]


def picture_of(code_map: CodeMap) -> PictureView:
    """Areas in layers: what needs the others above, what they all need below."""
    layers: dict[int, list[MapArea]] = {}
    for area in code_map.areas:
        layers.setdefault(area.layer, []).append(area)
    rows = [
        own[at : at + _PER_ROW]
        for _, own in sorted(layers.items(), reverse=True)
        for at in range(0, len(own), _PER_ROW)
    ]
    widest = max((len(row) for row in rows), default=1)
    width = widest * (_BOX + _GAP) - _GAP + 2 * _EDGE_MARGIN
    top = sorted(code_map.areas, key=lambda area: -area.centrality)[:3]
    boxes: dict[str, BoxView] = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_BOX + _GAP) + _GAP) // 2
        for place, area in enumerate(row):
            x, y = left + place * (_BOX + _GAP), _EDGE_MARGIN + number * _ROW
            boxes[area.name] = BoxView(area, x, y, _BOX, _HEIGHT, area in top, _label(area), _below(area))
    edges = tuple(edge for area in code_map.areas for edge in _edges(boxes, area))
    height = 2 * _EDGE_MARGIN + (max(len(rows), 1) - 1) * _ROW + _HEIGHT
    return PictureView(width, height, tuple(boxes.values()), edges)


def area_name(name: str) -> str:
    """A folder, a file, or the files that lie in the top folder itself."""
    return name.removesuffix("/*").replace("*", "") or "the top folder"


def _below(area: MapArea) -> str:
    return quantity(area.files, "file") if area.files != 1 else _shortened(area.name.rpartition("/")[0])


def _label(area: MapArea) -> str:
    name = area_name(area.name)
    return _shortened(name.rpartition("/")[2] if area.files == 1 else name)


def _shortened(name: str) -> str:
    """The end of a path says most of it."""
    parts = name.split("/")
    while len(parts) > 1 and len("/".join(parts)) > _LABEL_CHARS:
        parts = parts[1:]
    label = "/".join(parts)
    return label if len(label) <= _LABEL_CHARS else f"…{label[1 - _LABEL_CHARS :]}"


def _edges(boxes: Mapping[str, BoxView], area: MapArea) -> Iterable[EdgeView]:
    start = boxes[area.name]
    for name, count in area.needs.items():
        end = boxes.get(name)
        if end is None or end is start:
            continue
        x1, x2 = start.x + start.width // 2, end.x + end.width // 2
        y1, y2 = (start.y + start.height, end.y) if end.y > start.y else (start.y, end.y + end.height)
        middle = (y1 + y2) // 2
        if end.y == start.y:  # an arc above both, since a line would pass behind what stands between them
            y1 = y2 = start.y
            middle = start.y - _ARC
        backward = area.in_cycle and end.area.in_cycle and end.y <= start.y  # against the layers
        weight = 3 if count >= 10 else 2 if count >= 3 else 1
        path = f"M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"
        yield EdgeView(path, backward, weight, f"{area.name} → {name}: {count}", area.name, name)


# --- the description of the API ------------------------------------------------------------------------------------


class FieldView(Struct, frozen=True):
    name: str
    type: str
    description: str
    required: bool
    choices: tuple[str, ...] = ()


class RouteView(Struct, frozen=True):
    method: str
    path: str
    summary: str
    description: str
    fields: tuple[FieldView, ...]


def described_routes(document: Mapping[str, Any]) -> dict[str, list[RouteView]]:
    """The routes of an OpenAPI document by their group, in its order."""
    groups: dict[str, list[RouteView]] = {}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = [
                _field(one["name"], one["schema"], one.get("required", False)) for one in told.get("parameters", ())
            ]
            required = body.get("required", ())
            fields += [_field(name, schema, name in required) for name, schema in body.get("properties", {}).items()]
            route = RouteView(method.upper(), path, told["summary"], told.get("description", ""), tuple(fields))
            groups.setdefault(told.get("tags", ["other"])[0], []).append(route)
    return groups


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FieldView:
    return FieldView(
        name, schema.get("type", ""), schema.get("description", ""), required, tuple(schema.get("enum", ()))
    )


WIDTH, HEIGHT, MARGIN = 132, 34, 3  # pixels
_CURVE_POINTS = 24
_LEAST_HALF_LIVES = 2.5  # shown of a decay: enough to see it bend and become stale
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class ChartView(Struct, frozen=True):
    """`title` tells what the picture shows to those who do not see it; `caption` stands beside it."""

    line: str
    area: str
    dot: tuple[float, float]
    title: str
    caption: str = ""
    level: float | None = None  # height of a line across


def trend_chart(history: PatternHistory) -> ChartView:
    """Lines by the month they were written in, this month at the right. Each chart has its own scale."""
    counts = history.lines
    most, months = max(counts), _months(history)
    points = [(at / (len(counts) - 1), count / most if most else 0.0) for at, count in enumerate(counts)]
    told = ", ".join(f"{month} {count}" for month, count in zip(months, counts, strict=True) if count)
    rest = [f"{history.older} older"] if history.older else []
    rest += [f"{history.undated} not dated yet"] if history.undated else []
    title = f"Lines in use by the month they were written, {months[0]} to {months[-1]}: {told or 'none'}"
    caption = ", ".join((f"{quantity(sum(counts), 'line')} since {months[0]}", *rest))
    return ChartView(*_drawn(points), _place(points[-1]), "; ".join((title, *rest)), caption)


def decay_chart(kind: str, confidence: float) -> ChartView:
    """How much a memory counts from the day it was written on, with a dot where it stands today."""
    half_life = HALF_LIFE_DAYS.get(kind)
    percent = f"{100 * confidence:.0f} %"
    if half_life is None:
        flat = [(0.0, 1.0), (1.0, 1.0)]
        return ChartView(*_drawn(flat), _place(flat[-1]), f"Counts {percent} and does not fade")
    age = -math.log2(max(confidence, 1e-4))  # in half-lives
    shown = max(_LEAST_HALF_LIVES, 1.15 * age)
    curve = [(at / _CURVE_POINTS, math.pow(2.0, -shown * at / _CURVE_POINTS)) for at in range(_CURVE_POINTS + 1)]
    title = f"Counts {percent} today; halves in {half_life:.0f} days, stale below {100 * STALE_BELOW:.0f} %"
    level = _place((0.0, STALE_BELOW))[1]
    return ChartView(*_drawn(curve), _place((age / shown, confidence)), title, level=level)


def _months(history: PatternHistory) -> list[str]:
    year, _, month = history.since.partition("-")
    first = 12 * int(year) + int(month) - 1
    return [f"{_MONTHS[number % 12]} {number // 12}" for number in range(first, first + len(history.lines))]


def _place(point: tuple[float, float]) -> tuple[float, float]:
    """A point of the unit square, up being more, in the picture."""
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    return round(MARGIN + point[0] * across, 1), round(HEIGHT - MARGIN - point[1] * up, 1)


def _drawn(points: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """The line through the points, and the area below it."""
    placed = [_place(point) for point in points]
    line = "M" + " L".join(f"{x:g} {y:g}" for x, y in placed)
    floor = HEIGHT - MARGIN
    return line, f"{line} L{placed[-1][0]:g} {floor} L{placed[0][0]:g} {floor} Z"


COLOURED_CHARS = 30_000  # a longer text is shown plain: colouring is for reading
COLOURED_LINE = 2_000
_PLAIN_WORD = re.compile(r"[a-z]+(?=$|[\s,;]|:(?!/))")
_TICKED = re.compile(r"`([^`]+)`")
_CITED = re.compile(r"\[(\d{1,3})(: unverified)?\]")
_TAGS = frozenset(
    "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul".split()
)
_CLASSED = {"class"}
_ATTRIBUTES = {"a": {"href", "title", "class", "hx-get", "hx-target"}} | dict.fromkeys(
    ("span", "pre", "code"), _CLASSED
)


# --- code ----------------------------------------------------------------------------------------------------------


def code_lines(text: str, path: str) -> list[Markup]:
    """Each line as HTML, coloured where a lexer knows the file."""
    if len(text) > COLOURED_CHARS or any(len(line) > COLOURED_LINE for line in text.split("\n")):
        return [Markup(escape(line)) for line in text.split("\n")]
    from pygments import highlight

    lexer, formatter = _lexer(path.rpartition("/")[2]), _formatter()
    lines = highlight(text, lexer, formatter).split("\n")[: text.count("\n") + 1]
    return [Markup(line) for line in lines]  # the formatter escapes


@lru_cache(maxsize=256)
def _lexer(name: str) -> Any:
    from pygments.lexers import TextLexer, get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return TextLexer(stripnl=False, ensurenl=False)


@lru_cache(maxsize=1)
def _formatter() -> Any:
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter(nowrap=True)


# --- messages ------------------------------------------------------------------------------------------------------


def sentence_html(text: str) -> Markup:
    """A message as people read it: a capital first, unless it begins with a name, and code for what is in backticks."""
    word = _PLAIN_WORD.match(text)
    told = text[0].upper() + text[1:] if word else text
    return Markup(_TICKED.sub(r"<code>\1</code>", escape(told)))


# --- Markdown ------------------------------------------------------------------------------------------------------


def markdown_html(text: str, link: Callable[[int], str] = lambda number: "") -> Markup:
    """Markdown as clean HTML. `link` gives the address that opens a citation's lines, "" for an unknown number."""
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.children:
            token.children = [part for child in token.children for part in _with_citations(child, link)]
    html = parser.renderer.render(tokens, parser.options, {})
    return Markup(
        nh3.clean(
            html,
            tags=set(_TAGS),
            attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
            url_schemes={"http", "https"},
            link_rel="noopener noreferrer nofollow",
        )
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _fenced}).enable("table").enable("strikethrough")
    return parser.disable("image")


def _fenced(code: str, language: str, _: str) -> str:
    lines = code_lines(code.rstrip("\n"), f"x.{_EXTENSIONS.get(language.lower(), language or 'txt')}")
    return f'<pre class="code"><code>{chr(10).join(lines)}</code></pre>'


_EXTENSIONS = {"python": "py", "javascript": "js", "typescript": "ts", "rust": "rs", "markdown": "md", "bash": "sh"}


def _with_citations(token: Token, link: Callable[[int], str]) -> Sequence[Token]:
    """Text with `[3]` becomes text, a link, text; other links lead to http(s) or nowhere."""
    if token.type == "link_open" and not str(token.attrGet("href")).startswith(("http://", "https://")):
        token.attrs.pop("href")  # what a model writes leads out, never to our own addresses
    if token.type != "text" or not _CITED.search(token.content):
        return (token,)
    parts: list[Token] = []
    at = 0
    for found in _CITED.finditer(token.content):
        address = link(int(found[1]))
        if not address and not found[2]:
            continue
        parts.append(Token("text", "", 0, content=token.content[at : found.start()]))
        opens = f'<a class="cite" href="{escape(address)}" hx-get="{escape(address)}" hx-target="#panel">{found[1]}</a>'
        html = opens if address else f"[{found[1]}]"  # an answer that was stopped has no list of what it cites
        if found[2]:
            html += '<span class="unverified">unverified</span>'
        parts.append(Token("html_inline", "", 0, content=html))
        at = found.end()
    return (*parts, Token("text", "", 0, content=token.content[at:]))


def lines_address(root: str, path: str, start: int, end: int, symbol: str = "") -> str:
    query = {"project": root, "path": path, "start": start, "end": end} | ({"symbol": symbol} if symbol else {})
    return f"/panel?{urlencode(query)}"


def citation_link(citations: Sequence[Citation]) -> Callable[[int], str]:
    known = {
        one.number: lines_address(one.root, one.path, one.start_line, one.end_line, one.symbol) for one in citations
    }
    return lambda number: known.get(number, "")
