"""Routes of web frameworks: which function, class or file serves one, what links to it by its name or requests its
path, and the controllers that a table of routes of Rails names.

Django           path("cart/", views.cart, name="cart")             reverse("shop:cart"), {% url 'shop:cart' %}
Flask, FastAPI   @shop.route("/cart"), Pay.as_view("pay")           url_for("shop.cart"), url_for(".cart")
Symfony          #[Route('/cart', name: 'cart')]                    path('cart'), $this->redirectToRoute('cart')
Laravel          [CartController::class, 'show'])->name('cart')     route('cart')
Rails            namespace(:admin) { resources :carts }             `Admin::CartsController`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from codeinfo.model import Definition, Import
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
_BLUEPRINT = r"\b{}\s*(?::[^=\n]{{1,200}})?=\s*(?:\w+\.)?Blueprint\(\s*[\"'](\w+)[\"']"
_LINKING = re.compile(
    r"(?:\burl\s+|(?:\b(?:reverse(?:_lazy)?|resolve_url|redirect|url_for|url_path_for|path|url|redirectToRoute|generateUrl"
    r"|route|to_route|redirect_to)\(|url_name\s*=|\bLOGIN_URL\s*=)\s*)\Z"
)


class Route(NamedTuple):
    name: str
    space: str  # around the name, where links write it: `shop` of `shop:cart`


def routes_of(
    definition: Definition, owner: Definition | None, lines: FileLines, uses: Iterable[tuple[FileLines, int]]
) -> Iterator[Route]:
    """The routes that a definition in these lines serves: a mark above it names one, or a table in which it is used."""
    marked = _marks_above(lines, definition)
    prefixed = _PREFIXING.search(_marks_above(lines, owner)) if owner is not None and owner.is_type else None
    for mark in _MARK.finditer(marked):
        named = _NAMED.search(marked, mark.end())
        blueprint = re.search(_BLUEPRINT.format(mark[1]), lines.whole_text()) if mark[1] else None
        if named or mark[1]:
            name = (prefixed[1] if prefixed else "") + named[1] if named else definition.name
            yield Route(name, blueprint[1] if blueprint else "")
    for table, line in uses:
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
    written = re.compile(rf"[\"']((?:[\w.-][\w.:-]*[:.])?){re.escape(route.name)}[\"']")
    for number, text in lines.items():
        for found in written.finditer(text) if route.name in text else ():
            before = text[: found.start()]
            if not before.strip():
                before = lines.get(number - 1, "")
            space = re.split(r"[:.]", found[1].rstrip(":."))[-1]
            if _LINKING.search(before) and (space == route.space if route.space else is_alone):
                yield number


# --- paths -----------------------------------------------------------------------------------------------------------

_INSERT = r"\{(?:(?!(?P=quote))[^{}\n])*+\}"
_METHODS = "(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)"
_STRING = (
    rf"""(?P<quote>["'`])(?P<path>(?:{_METHODS} )?(?:{_INSERT}|(?!(?P=quote)|{_INSERT})[^\s\\]|\\[\w.-])*+)(?P=quote)"""
)
_QUOTED = re.compile(_STRING)
# A word and the string behind it: `path("cart/"`, `@GetMapping(value = "/cart"`, `prefix="/cart"`, `scope "/cart"`.
_DECLARING = re.compile(
    rf"\b(?P<call>(?P<word>\w+)(?:\(| ?[=:] ?| ))\s*+(?:\w+\s*+[=:]\s*+)?[{{\[]?\s*+[rf$@]*{_STRING}"
)
_VERB, _TITLED = "(?:get|post|put|patch|delete|any|match|view)", "(?:Get|Post|Put|Patch|Delete)"
# By the signs around the word; a verb alone may be that of a client.
_DECLARERS = re.compile(
    rf"(?:@(?:(?:Request|{_TITLED})Mapping|{_TITLED}|All|Controller|Path)|\[(?:Route|Http{_TITLED}|{_VERB})"
    rf"|\.(?:route|api_route|websocket|Map(?:Group|{_TITLED})|HandleFunc|Handle|use|nest|mount|register|[gG]roup)"
    rf"|:(?:scope|(?:apiR|r)esource|prefix|{_VERB})|\[?(?:re_)?path|\[?url|scope)\(|(?:url_)?prefix ?[=:] ?"
    r"|(?:scope|resources) "
)
_STARTS = frozenset(  # what stands behind these may begin with their path
    "RequestMapping Controller Path Route MapGroup use nest mount register group Group scope resource resources "
    "apiResource prefix url_prefix".split()
)
_SERVER = re.compile(
    r"(?:(?:@[\w.]*|\b(?:app|r|e|g|mux|fastify|\w*(?:[rR]outer|[rR]outes|[gG]roup|[sS]erver))\.)"
    rf"(?:{_VERB}|GET|POST|PUT|PATCH|DELETE|{_TITLED}|head|options|all|any|on)\(|(?m:^)[ \t]*{_VERB} )\Z"
)
_BEFORE_CHARS, _HANDLER_CHARS = 40, 300  # before the word and behind the path
_REQUEST = re.compile(r"(?i)(?:get|post|put|patch|delete|head|options|uri|request)\w*(?:<[\w<>., ]*>)?[( ]\s*[rf$@]*\Z")
# What stands for any name: a parameter of a route, or what a test inserts.
_VARYING = re.compile(
    r"\((?:[^()]|\([^()]*\))*\)|<[^<>]*>|[#$]?\{[^{}]*\}|\[[^\[\]]*\]|:\w+|\*\w*|%\(\w+\)\w|%\w|\b\d+\b"
    r"|[\da-f]{8}-[\da-f-]{20,}"
)
_OPTIONAL = re.compile(r"\(\?:[^()]*\)\?")  # `/flows(?:\.json)?`
_FORMAT = re.compile(r"(?<=.)\.(?:\0|json|xml|html?)\Z")  # `/entries.{_format}`
_BOUND = re.compile(r"\{[\w.]+=([^{}]*)\}")  # of a protobuf service: `/v1/{name=memos/*}`
_ANCHORS = re.compile(r"\A(?:[A-Z]+ )?(?:\^|\\A)?|\?\Z|[$]\Z|\\[zZ]\Z")
_HOST = re.compile(r"\A(?:https?:)?//(?:localhost|127\.0\.0\.1|testserver|test)?(?::[^/]*)?(?=/)")
Path = tuple[str, ...]  # its names; "" stands for any one


class Served(NamedTuple):
    """A path that a file declares, with what is written around it."""

    path: Path
    around: str
    is_start: bool  # of longer paths


def served_paths(text: str, file: str) -> Iterator[Served]:
    """The paths that a file declares. `[controller]` of ASP.NET stands for its name."""
    controller = file.rpartition("/")[2].partition(".")[0].removesuffix("Controller")
    rows = [row for row in _DECLARING.finditer(text) if _declares_path(text, row)]
    begins = [_line_start(text, row.start()) for row in rows]
    for row, begin, end in zip(rows, begins, [*begins[1:], len(text)], strict=False):
        if row["word"] == "prefix":  # an argument: what is served stands before it
            opened = text.rfind("(", max(row.start() - _HANDLER_CHARS, 0), row.start())
            begin = min(begin, opened + 1) if opened >= 0 else begin
        around = text[begin : min(max(end, row.end()), row.end() + _HANDLER_CHARS)].partition("\n\n")[0]
        written = _ANCHORS.sub("", row["path"].replace("[controller]", controller))
        yield Served(_names_in(written), around, row["word"] in _STARTS or "include(" in around)


def _line_start(text: str, at: int) -> int:
    """Not far back in a file that is one line."""
    earliest = max(at - _HANDLER_CHARS, 0)
    return text.rfind("\n", earliest, at) + 1 or earliest


def _declares_path(text: str, row: re.Match[str]) -> bool:
    sign = text[row.start() - 1] if row.start() else ""
    is_marked = _DECLARERS.fullmatch(f"{sign if sign in '@[.:' else ''}{row['call']}") is not None
    return is_marked or _SERVER.search(text, max(row.start() - _BEFORE_CHARS, 0), row.end("call")) is not None


def requested_paths(text: str) -> Iterator[Path]:
    """The paths that a test requests: strings that begin with a slash or a host, or are given to a call that requests
    them."""
    for row in _QUOTED.finditer(text) if "/" in text else ():
        written = _VARYING.sub("\0", _HOST.sub("", row["path"])).partition("?")[0].partition("#")[0]
        if "/" not in written or "//" in written or written.startswith((".", "@")):
            continue
        if written.startswith(("/", "\0")) or _REQUEST.search(text, max(row.start() - _BEFORE_CHARS, 0), row.start()):
            yield _names_in(written)


def _names_in(written: str) -> Path:
    written = _BOUND.sub(r"\1", _OPTIONAL.sub("", written))
    parts = (_FORMAT.sub("", part) for part in _VARYING.sub("\0", written).strip("/").split("/"))
    return tuple("" if "\0" in part else part.lower() for part in parts if part)


# --- a path that somebody asks for -----------------------------------------------------------------------------------

_PLACED = re.compile(r"(.+)\.(?:[cm]?[jt]sx?|vue|svelte|astro)")
_SERVING = re.compile(r"route|page|\+(?:page|server)(?:\.server)?")
_UNNAMED = re.compile(r"\(.*\)|@.*|_?index|")  # folders and files that a path does not have
_METHOD = re.compile(r"\.(?:get|post|put|patch|delete)\Z")  # behind a name of Nitro
_MOST_FOLDERS = 12  # around one that says what a file serves
_HANDLED = re.compile(r"\s*+,\s*+(?:\w+\.)*+[A-Z]\w*+\s*+[,)]")  # behind a path: the class that serves it
_PREFIX = re.compile(r"api|rest|v\d+")  # a server outside of the code adds these


class Place(NamedTuple):
    """Where a path that is asked for stands."""

    is_declared: bool  # rather than requested
    has_method: bool
    names: int  # as many of its path
    is_end: bool  # of it, rather than the start of longer paths
    literals: int
    is_whole: bool  # but for what a server adds
    line: str  # that has it, from its start

    @property
    def rank(self) -> tuple[int, ...]:
        return self.is_declared, self.has_method, self.names, self.is_end, self.literals


class AskedRoute(NamedTuple):
    """`POST /api/users/42`"""

    method: str
    path: Path

    @property
    def traces(self) -> re.Pattern[str]:
        """What a text that declares or requests it has, and a file that serves it by its place."""
        names = "|".join(re.escape(name) for name in self.path if name)
        return re.compile(rf"(?i)[\"'`/=.](?:{names})(?![\w-])")

    def served_by_place(self, path: str) -> bool:
        """Whether a file is `app/(main)/users/[userId]/route.ts` for `/users/42`."""
        if not self.traces.search(path):
            return False
        places = (self._compare(_names_in("/".join(names))) for names in _placed_names(path))
        return any(place is not None and place.names == len(self.path) for place in places)

    def best_place(self, text: str, file: str) -> Place | None:
        """Where a text declares this path or at least half of it, or has all of it in a string."""
        if not self.traces.search(text):
            return None
        places = []
        for served in served_paths(text, file):
            if place := self._compare(served.path, is_start=served.is_start):
                line, _, _ = served.around.partition("\n")
                places.append(place._replace(is_declared=True, has_method=self._has_method(served.around), line=line))
        for row in _QUOTED.finditer(text):
            place = self._compare(_names_in(_ANCHORS.sub("", row["path"])))
            if place and place.names == len(self.path):
                is_pattern = file.endswith(".proto") or "(?P<" in row["path"]
                is_declared = is_pattern or _HANDLED.match(text, row.end()) is not None
                line = text[_line_start(text, row.start()) : row.end()]
                places.append(place._replace(is_declared=is_declared, has_method=self._has_method(line), line=line))
        return max(places, key=lambda place: place.rank, default=None)

    def _has_method(self, around: str) -> bool:
        return re.search(rf"(?i)(?<![a-z]){self.method}", around) is not None

    def _compare(self, served: Path, *, is_start: bool = False) -> Place | None:
        before = match_path(served, self.path, is_start=is_start)
        if before is None:
            return None
        behind = self.path[len(before) + len(served) :]
        if behind[1:] and behind[1] not in _ACTIONS:  # of one of what is served at its start
            return None
        pairs = zip(served, self.path[len(before) :], strict=False)
        literals = sum(name == asked != "" and not _PREFIX.fullmatch(name) for name, asked in pairs)
        needed = [name for name in (*before, *served) if not _PREFIX.fullmatch(name)]
        if not literals or 2 * len(served) < len(needed):
            return None
        is_whole = not behind and all(map(_PREFIX.fullmatch, before))
        return Place(False, False, len(served), not is_start, literals, is_whole, "")


def _placed_names(path: str) -> Iterator[list[str]]:
    """What a file may serve by its place in Next.js, SvelteKit, Nuxt, Astro, Nitro or Remix."""
    *folders, name = path.split("/")
    if not (placed := _PLACED.fullmatch(name)):
        return
    own = _METHOD.sub("", placed[1])
    for at, folder in enumerate(folders[:_MOST_FOLDERS]):
        names = folders[at + 1 :]
        if folder in ("app", "routes") and _SERVING.fullmatch(own):
            yield [name for name in names if not _UNNAMED.fullmatch(name)]
        elif folder == "pages" or (folder == "server" and names[:1] == ["api"]):
            yield [name for name in (*names, own) if not _UNNAMED.fullmatch(name)]
        elif folder == "routes" and folders[at - 1] in ("app", "server"):
            dotted = own.replace("$", ":").split(".")
            yield [name for name in (*names, *dotted) if not _UNNAMED.fullmatch(name)]


def read_asked_route(text: str) -> AskedRoute:
    method, _, path = text.rpartition(" ")
    return AskedRoute(method, _names_in(path.partition("?")[0]))


_RAILS_CONTROLLER = re.compile(r"(?:.*/)?app/controllers/(.+)_controller\.rb")
_RAILS_HELPER = re.compile(r"\b(\w+)_(?:path|url)\b")


def served_by_rails(path: str) -> Iterator[Served]:
    """What a controller of Rails serves by its name, in words: what is resourceful about it stands between them."""
    if controller := _RAILS_CONTROLLER.fullmatch(path):
        yield Served(_words_of(controller[1]), "", is_start=True)


def requested_of_rails(text: str) -> Iterator[Path]:
    """The same words of what a test requests, by its path or the helper that makes it: `admin_cart_items_path`."""
    for helper in _RAILS_HELPER.finditer(text):
        yield _words_of(helper[1])
    for path in requested_paths(text):
        yield _words_of("/".join(path))


def _words_of(written: str) -> Path:
    return tuple(word.removesuffix("s") for word in re.split(r"[/_-]", written.lower()) if word)


def match_path(served: Path, requested: Path, *, is_start: bool) -> Path | None:
    """What stands in a requested path before a declared one; None if that does not serve it."""
    for end in range(len(requested), len(requested) - (3 if is_start else 1), -1):
        start = end - len(served)
        if start >= 0 and all(map(_fits, served, requested[start:end])):
            return requested[:start]
    return None


def _fits(declared: str, requested: str) -> bool:
    return declared in ("", requested)


# --- Rails -----------------------------------------------------------------------------------------------------------

RAILS_TABLE = re.compile(r"(?:\A|.*/)config/routes(?:/.*|\.rb)")
_COMMENT = re.compile(r"(?:\A|\s)#.*")
_OPENING = re.compile(r"\bdo(?:\s*\|[^|]*\|)?\Z|\A(?:if|unless|case|begin|while|def|class|module)\b(?!.*\bend\Z)")
_WORD = re.compile(r"(\w+)[ (]+(?=[\w:\"'%\[])(.*)")
_RAILS_NAME = r"(?::\"?|[\"'])([\w/#-]+)[\"']?"
_RAILS_NAMES = re.compile(rf"(?<![\w:]){_RAILS_NAME}(?!\w|[\"']?\s*(?:=>|:))")
_RAILS_OPTION = r"(?:\b{0}:|:{0}\s*=>)\s*(\[[^\]]*\]|%i[\[(][^\])]*|%w[\[(][^\])]*|[^,\s]+)"
_TARGET = re.compile(r"(?:=>|\bto:)\s*[\"']([\w/]+)#(\w+)[\"']")
_PATH = re.compile(r"/?(\w+)/(\w+)")  # says both
_RAILS_VERBS = frozenset("get post put patch delete match root head options".split())
_ACTIONS = tuple("index show new edit create update destroy".split())


class _Frame(NamedTuple):
    module: str = ""
    controller: str = ""


def read_rails_routes(text: str) -> Iterator[Import]:
    """`admin/carts#index,show` for `resources :carts, only: %i[index show]` in `namespace :admin`."""
    frames, statement, first = [_Frame()], "", 1
    for number, line in enumerate(text.split("\n"), 1):
        first = first if statement else number
        statement = f"{statement} {_COMMENT.sub('', line).strip()}".strip()
        if statement.endswith(","):
            continue
        if re.match(r"end\b", statement) and len(frames) > 1:
            frames.pop()
        inner = frames[-1]
        if written := _WORD.match(statement):
            inner, named = _read_statement(written[1], written[2], frames[-1])
            yield from (Import(f"{controller}#{','.join(actions)}", first) for controller, actions in named)
        if _OPENING.search(statement):
            frames.append(inner)
        statement = ""


def _read_statement(word: str, rest: str, around: _Frame) -> tuple[_Frame, list[tuple[str, list[str]]]]:
    """What holds in the block behind a statement, and the controllers that it names, each with its actions."""
    arguments = re.split(r",?\s*(?:\b\w+:(?!:)|:\w+\s*=>|[\"'][^\"']*[\"']\s*=>)", rest)[0]
    names, module = _RAILS_NAMES.findall(arguments), _join(around.module, *_option(rest, "module"))
    chosen = _option(rest, "controller")
    if word in ("namespace", "scope", "controller"):
        if word == "namespace" and module == around.module:
            module = _join(module, *names[:1])
        inner = names[0] if word == "controller" and names else "".join(chosen)
        return _Frame(module, inner or around.controller if word != "namespace" else ""), []
    if word in ("resources", "resource"):
        actions = _option(rest, "only") or [action for action in _ACTIONS if action not in _option(rest, "except")]
        if word == "resource":
            actions = [action for action in actions if action != "index"]
            names = [f"{name}s" for name in names]
        controllers = chosen[:1] or names
        inner = controllers[0] if controllers else ""
        return _Frame(module, inner), [(_join(module, controller), actions) for controller in controllers]
    if word not in _RAILS_VERBS:
        return around, []
    if target := _TARGET.search(rest):
        return around, [(_join(module, target[1]), [target[2]])]
    actions = _option(rest, "action") or _option(rest, "to") or [name for name in names if "/" not in name]
    controller = "".join(chosen[:1]) or around.controller
    if not controller and (path := _PATH.fullmatch("".join(names[:1]))):
        controller, actions = path[1], [path[2]]
    return around, [(_join(module, controller), actions)] if controller and actions else []


def _option(rest: str, name: str) -> list[str]:
    """The names in the value of an option: `only: %i[index show]`, `module: "v1"`."""
    found = re.search(_RAILS_OPTION.format(name), rest)
    return re.findall(r"[\w/]+", re.sub(r"\A%[iw]", "", found[1])) if found else []


def _join(*parts: str) -> str:
    """A slash at the start leaves the modules around: `to: "/login#index"`."""
    return "/".join(filter(None, parts)).rpartition("//")[2]
