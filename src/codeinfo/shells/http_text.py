"""Text as HTML that can do no harm: coloured code, marked words, messages, the Markdown of answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, emphasis
from markdown_it.token import Token
from markupsafe import Markup

COLOURED_CHARS = 300_000  # a longer text is shown plain: colouring takes 4 s a million characters
COLOURED_LINE = 2_000
_PLAIN_WORD = re.compile(r"[a-z]+(?=$|[\s,;]|:(?!/))")
_TICKED = re.compile(r"`([^`]+)`")
_CITED = re.compile(r"\[(\d{1,3})(: unverified)?\]")
_QUOTED = re.compile(r"\[\d+\] (?:\S*/)?([^\s/]+):\d+(?:-\d+)?$")
_TAGS = frozenset(
    "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul".split()
)
_CLASSED = {"class"}
_ATTRIBUTES = {"a": {"href", "title", "class", "hx-get", "hx-target"}} | dict.fromkeys(
    ("span", "pre", "code"), _CLASSED
)


# --- code ----------------------------------------------------------------------------------------------------------


def code_lines(text: str, path: str) -> list[Markup]:
    """Each line as HTML, coloured where a lexer knows the file, or the language that stands for it."""
    if len(text) > COLOURED_CHARS or any(len(line) > COLOURED_LINE for line in text.split("\n")):
        return [Markup(escape(line)) for line in text.split("\n")]
    from pygments import highlight

    lexer, formatter = _lexer(path.rpartition("/")[2]), _formatter()
    lines = highlight(text, lexer, formatter).split("\n")[: text.count("\n") + 1]
    return [Markup(line) for line in lines]  # the formatter escapes


@lru_cache(maxsize=256)
def _lexer(name: str) -> Any:
    from pygments.lexers import TextLexer, get_lexer_by_name, get_lexer_for_filename
    from pygments.util import ClassNotFound

    for find in (get_lexer_for_filename, get_lexer_by_name):
        with suppress(ClassNotFound):
            return find(name, stripnl=False, ensurenl=False)
    return TextLexer(stripnl=False, ensurenl=False)


@lru_cache(maxsize=1)
def _formatter() -> Any:
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter(nowrap=True)


_PIECE = re.compile(r"<[^>]*>|&[^;]+;|[^<&]")


def marked(line: Markup, spans: Sequence[tuple[int, int]]) -> Markup:
    """A coloured line with the characters of the spans marked; a mark ends and begins again around a tag."""
    if not spans:
        return line
    inside = {at for start, end in spans for at in range(start, end)}
    made: list[str] = []
    at, is_open = 0, False
    for piece in _PIECE.findall(line):
        wanted = not piece.startswith("<") and at in inside
        if wanted != is_open:
            made.append("<mark>" if wanted else "</mark>")
            is_open = wanted
        made.append(piece)
        at += not piece.startswith("<")
    return Markup("".join(made) + ("</mark>" if is_open else ""))


# --- messages ------------------------------------------------------------------------------------------------------


def sentence_html(text: str) -> Markup:
    """A message as people read it: a capital first, unless it begins with a name, and code for what is in backticks."""
    word = _PLAIN_WORD.match(text)
    told = text[0].upper() + text[1:] if word else text
    return Markup(_TICKED.sub(r"<code>\1</code>", escape(told)))


_ANCHOR = re.compile(r"\s*\{\s*#[\w.-]+\s*\}[ \t]*$", re.MULTILINE)


def without_anchors(text: str) -> str:
    """Headings as people read them: `Tasks { #tasks }` names its anchor for the generator of a site."""
    return _ANCHOR.sub("", text)


# --- Markdown ------------------------------------------------------------------------------------------------------


def markdown_html(text: str, link: Callable[[int], str] = lambda number: "") -> Markup:
    """Markdown as clean HTML. `link` gives the address that opens a citation's lines, "" for an unknown number."""
    parser = _parser()
    tokens = parser.parse(text)
    cited = ""
    for token in tokens:
        cited = token.content if token.type == "inline" else cited
        if token.type == "fence" and not token.info and (place := _QUOTED.match(cited)):
            token.info = place[1]  # a passage is coloured as the file it is quoted from
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
    parser.inline.ruler.at("emphasis", _emphasis)
    return parser.disable("image")


def _emphasis(state: StateInline, silent: bool) -> bool:
    """By asterisks alone: in answers about code an underscore belongs to a name, such as `__init__.py`."""
    return state.src[state.pos] != "_" and emphasis.tokenize(state, silent)


def _fenced(code: str, language: str, _: str) -> str:
    lines = code_lines(code.rstrip("\n"), language)
    return f'<pre class="code"><code>{chr(10).join(lines)}</code></pre>'


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
