"""Routes of web frameworks by their names: which a function or class serves, and which lines link to one.

Django           path("cart/", views.cart, name="cart")             reverse("shop:cart"), {% url 'shop:cart' %}
Flask, FastAPI   @shop.route("/cart"), Pay.as_view("pay")           url_for("shop.cart"), url_for(".cart")
Symfony          #[Route('/cart', name: 'cart')]                    path('cart'), $this->redirectToRoute('cart')
Laravel          [CartController::class, 'show'])->name('cart')     route('cart')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import SymbolId
from codeinfo.model import Definition
from codeinfo.ports import FileLines

_MOST_LINES = 12  # of the statement that declares a route
_NAME = r"\b(?:name|endpoint)\s*(?:=|:|(?<=->name)\()\s*[\"']([\w:.-]+)[\"']"
# What is written behind a view, up to the next route.
_BEHIND = re.compile(
    rf"(?:(?!\b(?:re_)?path\(|\burl\(|\bRoute::).)*?(?:\.as_view\(\s*[\"'](?P<view>\w+)[\"']|{_NAME})", re.DOTALL
)
_TABLE = re.compile(r"\burlpatterns\b|\.as_view\(\s*[\"']|\bRoute::")
_MARK = re.compile(r"@(\w+)(?:\.\w+)*\.(?:route|get|post|put|patch|delete|websocket|api_route)\(|#\[(?:\w+\\)*Route\(")
_NAMED = re.compile(_NAME)
_PREFIXING = re.compile(rf"#\[(?:\w+\\)*Route\([^\]]*{_NAME}")  # of a class: `#[Route('/blog', name: 'blog_')]`
_SPACE = re.compile(r"(?m)^app_name\s*(?::[^=\n]+)?=\s*[\"']([\w.:-]+)[\"']")
_BLUEPRINT = r"\b{}\s*(?::[^=\n]+)?=\s*(?:\w+\.)?Blueprint\(\s*[\"'](\w+)[\"']"
_LINKING = re.compile(
    r"(?:\burl\s+|(?:\b(?:reverse(?:_lazy)?|resolve_url|redirect|url_for|url_path_for|path|url|redirectToRoute|generateUrl"
    r"|route|to_route|redirect_to)\(|url_name\s*=|\bLOGIN_URL\s*=)\s*)\Z"
)


class Route(NamedTuple):
    name: str
    space: str  # around the name, where links write it: `shop` of `shop:cart`


def routes_of(
    index: CodeIndex, symbol: SymbolId, definition: Definition, uses: Iterable[tuple[str, int]]
) -> Iterator[Route]:
    """The routes that a definition serves: a mark above it names one, or a table in which it is used."""
    lines = index.lines(index.graph.files[symbol.path].file_id)
    marked, owner = _marks_above(lines, definition), index.definition(symbol.owner)
    prefixed = _PREFIXING.search(_marks_above(lines, owner)) if owner is not None and owner.is_type else None
    for mark in _MARK.finditer(marked):
        named = _NAMED.search(marked, mark.end())
        blueprint = re.search(_BLUEPRINT.format(mark[1]), lines.whole_text()) if mark[1] else None
        if named or mark[1]:
            name = (prefixed[1] if prefixed else "") + named[1] if named else definition.name
            yield Route(name, blueprint[1] if blueprint else "")
    for path, line in uses:
        table = index.lines(index.graph.files[path].file_id)
        text = table.whole_text()
        if not _TABLE.search(text):
            continue
        behind = "\n".join(table.get(at, "") for at in range(line, line + _MOST_LINES))
        if named := _BEHIND.match(behind, max(behind.find(definition.name), 0)):
            space = _SPACE.search(text)
            yield Route(named["view"] or named[2], space[1] if space else "")


def _marks_above(lines: FileLines, definition: Definition) -> str:
    """What is written right above the line of a definition, and this line."""
    above = [lines.get(definition.start_line, "")]
    while (text := lines.get(definition.start_line - len(above), "")).strip() and len(above) < _MOST_LINES:
        above.insert(0, text)
    return "\n".join(above)


def declares(route: Route, lines: FileLines) -> bool:
    return any(named[1] == route.name for named in _NAMED.finditer(lines.whole_text()))


def links_to(route: Route, lines: FileLines, *, is_alone: bool) -> Iterator[int]:
    """The lines that link to a route. Without a space of its own it may have got one where it is included: then it
    has to be alone in having its name."""
    written = re.compile(rf"[\"']((?:[\w.-]+[:.])*){re.escape(route.name)}[\"']")
    for number, text in lines.items():
        for found in written.finditer(text) if route.name in text else ():
            before = text[: found.start()]
            if not before.strip():
                before = lines.get(number - 1, "")
            space = re.split(r"[:.]", found[1].rstrip(":."))[-1]
            if _LINKING.search(before) and (space == route.space if route.space else is_alone):
                yield number
