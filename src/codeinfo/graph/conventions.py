"""What languages and frameworks bind names to by conventions of their own, without an import or a scope.

    Rails     a helper's methods in all templates; `:total` names a method           `find_helper`, `is_symbol`
    pages     what a program gives to its templates (Jinja, Django, Twig)            `offers_to_pages`
    Vue       what the markup of a component names of its script                     `find_own_of_page`
    Django    names of the project's settings                                        `find_settings`
    Lombok    the methods that are generated for a field                             `has_accessors`, `accessor_names`
    Elixir    every module is known by its full name                                 `resolve_in_module`

The steps of `scopes.py` and `names.py` ask these; here no name is looked up in a scope or in imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from codeinfo.cache import reachable
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import SymbolId, Unit
from codeinfo.languages.model import enclosing_names
from codeinfo.languages.modules import whole_module
from codeinfo.model import Import, Reference, symbol_kind
from codeinfo.tokens import identifier_terms

# --- Rails -----------------------------------------------------------------------------------------------------------

HELPERS = re.compile(r"/helpers/.*\.rb\Z")
_HANDED_TO_VIEWS = r"\bhelper_method\b[^\n#]*(?::|%i[\[(](?:[^\])\n]*\s)?){}\b"


def find_helper(index: CodeIndex, unit: Unit, name: str) -> Sequence[SymbolId]:
    """A method that Rails offers to all templates and helpers: one of a helper, the nearest by name, or one that a
    controller hands to them."""
    path, rules = unit.path, unit.rules
    is_own_value = path.rpartition("/")[2].startswith(f"_{name}.")  # what a partial shows is called like it
    if not rules.names.constants or is_own_value or not (rules.is_template or "/helpers/" in path):
        return []

    def find() -> Sequence[SymbolId]:
        defining = sorted(index.files_defining(name))
        helpers = [path for path in defining if "/helpers/" in path]
        beside = [path for path in helpers if path.endswith(f"/{unit.folder.rpartition('/views/')[2]}_helper.rb")]
        handed = re.compile(_HANDED_TO_VIEWS.format(re.escape(name)))
        texts = ((path, index.lines(path).whole_text()) for path in defining)
        controllers = [path for path, text in texts if "/controllers/" in path and handed.search(text)]
        units = map(index.unit, beside or helpers or controllers)
        return [SymbolId(other.path, definition.qualified) for other in units for definition in other.by_name[name]]

    return index.memo.once(("helper", path, name), find)


def is_symbol(index: CodeIndex, unit: Unit, use: Reference) -> bool:
    """Whether a name without a receiver is only a value on its line, like `:halt` and `halt:` in Ruby: the expression
    is matched with the name replaced by a zero."""
    if use.receiver:
        return False
    text, expression = index.lines(unit.path).get(use.line, ""), unit.rules.names.symbols
    places = [f"{text[max(at - 2, 0) : at]}\0{text[end : end + 2]}" for at, end in words_in(text, use.name)]
    marked = [re.search(expression, place) is not None for place in places]
    bare = [mark for mark, place in zip(marked, places, strict=True) if mark or not re.search(r"[.:]\0", place)]
    return (bool(bare) and all(bare)) or is_listed_symbol(index, unit, use)


_LISTED_SYMBOLS = re.compile(r"%[iI](?:\[[^\]]*|\([^)]*|\{[^}]*)\Z")
_MOST_LISTED_LINES = 10


def is_listed_symbol(index: CodeIndex, unit: Unit, use: Reference) -> bool:
    """Whether a name of Ruby stands in a list of symbols: `%i[show edit]`."""
    if not unit.rules.names.constants:
        return False
    lines = index.lines(unit.path)
    above = "\n".join(lines.get(at, "") for at in range(use.line - _MOST_LISTED_LINES, use.line))
    text = lines.get(use.line, "")
    return any(_LISTED_SYMBOLS.search(f"{above}\n{text[:start]}") for start, _ in words_in(text, use.name))


def words_in(text: str, name: str) -> Iterator[tuple[int, int]]:
    """The whole-word occurrences of a name; found without a regular expression, which would have to be compiled each
    time."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before in ("_", "$")) and not (after.isalnum() or after in ("_", "$")):
            yield start, end
        start = text.find(name, start + 1)


# --- pages -----------------------------------------------------------------------------------------------------------

TAG_LIBRARY = "/templatetags/"
_CLASS = re.compile(r"(?m)^(?:\w+ )*class (\w+)")
# What pages are offered under a name: `filters["total"] = find_total`, `{"total": find_total}`,
# `globals.update(total=find_total)`, `register.tag("total", TotalNode.handle)`, `@app.template_filter("total")`.
_OFFERING = re.compile(
    r"jinja_env|template_(?:filter|global|test)\b|context_processor|\b[Ee]nv(?:ironment)?\.(?:filters|globals|tests)"
)
_OFFERING_TERMS = (
    *(("jinja", "env"), ("template", "filter"), ("template", "global"), ("template", "test"), ("context", "processor")),
    ("twig",),
    *((env, table) for env in ("env", "environment") for table in ("filters", "globals", "tests")),
)
_OFFERED = re.compile(
    r"""(?P<key>["']\w+["'])\]?\s*[:=,]\s*(?P<held>[^\W\d][\w.]*)(?=\s*(?:[,})\n]|\Z))"""
    r"""|[(,]\s*(?P<name>\w+)=(?P<value>[^\W\d][\w.]*)(?=\s*[,)])"""
    r"""|\bregister\.\w+\(\s*(?P<made>[^\W\d][\w.]*),\s*name=(?P<called>["']\w+["'])"""
    r"""|@[\w.]*(?:template_(?:filter|global|test)|register\.\w+)\((?:[^()]{0,300}\bname=)?\s*+(?P<own>["']\w+["'])?[^()]*+\)"""
    r"""(?:\s*+@.*+)*+\s*(?:async )?def (?P<function>\w+)"""
)
# `new TwigFilter('total', [$this, 'findTotal'])`, `new TwigFunction('total', $this->findTotal(...))`
_OFFERED_BY_TWIG = re.compile(
    r"""\bTwig(?:Filter|Function|Test)\(\s*["'](?P<name>\w+)["'],\s*"""
    r"""(?:\[\s*(?:\$this|(?:self|static|(?P<owner>\w+))::class)\s*,\s*["'](?P<held>\w+)["']|\$this->(?P<method>\w+)\()"""
)


def offers_to_pages(index: CodeIndex) -> Iterator[tuple[str, str, str]]:
    """Names that pages may use, with the file that says so and what they stand for in it, as written."""
    terms = ([identifier_terms(word)[-1] for word in words] for words in _OFFERING_TERMS)
    ids = {file_id for words in terms for file_id in index.facts.files_with(words)}
    for path, file in sorted(index.graph.files.items()):
        is_library = TAG_LIBRARY in path
        if is_library or file.file_id in ids:
            offers = _read_offers(index.lines(path).whole_text(), is_library=is_library)
            yield from ((name, path, value) for name, value in offers)


def _read_offers(text: str, *, is_library: bool) -> Iterator[tuple[str, str]]:
    for row in _OFFERED.finditer(text) if is_library or _OFFERING.search(text) else ():
        name = row["key"] or row["name"] or row["called"] or row["own"] or row["function"]
        yield name.strip("\"'"), row["held"] or row["value"] or row["made"] or row["function"]
    for row in _OFFERED_BY_TWIG.finditer(text):
        owner = row["owner"] or "".join(_CLASS.findall(text)[:1])
        yield row["name"], f"{owner}.{row['held'] or row['method']}"


_SCRIPT = re.compile(r"<script\b.*?(?:</script>|\Z)", re.DOTALL)


def find_own_of_page(index: CodeIndex, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
    """What the markup of a component names of the object that its script exports: `methods: { rename() {} }`."""
    own, syntax = unit.by_qualified.get(use.name), unit.rules.syntax
    if own is None or own.kind != "method" or syntax is None or not syntax.embedded:
        return ()
    text = index.lines(unit.path).whole_text()
    places = (script.span() for script in _SCRIPT.finditer(text))
    scripts = (range(text.count("\n", 0, start), text.count("\n", 0, end) + 1) for start, end in places)
    return () if any(use.line - 1 in lines for lines in scripts) else (SymbolId(unit.path, use.name),)


# --- Django and Lombok -----------------------------------------------------------------------------------------------

_SETTINGS = re.compile(r"(?:\A|/)\w*settings\w*(?:/\w+)?\.py\Z")
_OVERRIDING = re.compile(r"(?:.*\.)?(?:override_settings|settings)\{:\}")


def find_settings(index: CodeIndex, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
    """What `settings.DEBUG` or `override_settings(DEBUG=True)` of Django means: a name of the project's settings."""
    written = unit.rules.names.settings
    imports = unit.by_shown.get(use.receiver, ())
    imported = any(f"{import_.module}.{name}" == written for import_ in imports for name in import_.names)
    if not written or not (imported or _OVERRIDING.fullmatch(use.receiver)):
        return ()
    units = (index.unit(path) for path in sorted(index.files_defining(use.name)) if _SETTINGS.search(path))
    return tuple(SymbolId(other.path, use.name) for other in units if use.name in other.by_qualified)


def has_accessors(unit: Unit) -> bool:
    """Whether fields of a file get methods when it is compiled, as from Lombok."""
    maker = unit.rules.names.accessors
    return bool(maker) and any(import_.module.partition(".")[0] == maker for import_ in unit.imports)


def accessor_names(name: str) -> set[str]:
    """What the methods are called that get and set a field."""
    of_truth = name[2:] if name.startswith("is") and name[2:3].isupper() else ""
    names = {f"{word}{name[0].upper()}{name[1:]}" for word in ("get", "set", "is")}
    return names | ({name, f"set{of_truth}"} if of_truth else set())


# --- Elixir ----------------------------------------------------------------------------------------------------------
# In Elixir every module is known by its full name, shortened by an alias, a nested module or `__MODULE__`; functions
# follow their module's name, or are the module's own or imported ones.

_CHAIN = re.compile(r"(?:[A-Z]\w*|__MODULE__)(?:\.[A-Z]\w*)*\.\Z")  # what precedes a name, up to its dot
# A module before an atom that names a function of it: `{Cart, :total, []}`, `use Web, :html`, `apply(…)`, and in routes
# `get "/cart", CartController, :show`, below `scope "/", Shop do`.
_BEFORE_ATOM = re.compile(
    r"(?:(?<=\{)|(?<=apply\()|(?<=use )|(?<![\w.])(?=[\w.]*Controller,))((?:[A-Z]|__MODULE__)[\w.]*), *:\Z"
)
_ERLANG = re.compile(r"(?<![:\w]):[a-z]\w*\.\Z")  # a module from outside: `:timer.sleep`
_BEHAVIOUR = re.compile(r"^[ \t]*@behaviour\s+([A-Z][\w.]*)", re.MULTILINE)
_PLUG = re.compile(r"\s*plug[ (]\s*:")
_ROUTES = re.compile(r"(?m)^ *scope\b")
_ROUTE_SCOPE = re.compile(r" *scope\b[^#\n]*?[ (]([A-Z][\w.]*)")
_DECLARED = re.compile(r"(?:\bdef\w*|@spec|@callback)\s+\Z")
_LONGER = re.compile(r"\.[A-Z]")
_WORD = re.compile(r"\s*(\w+)")
_STATEMENT = re.compile(r"\s*|.*(?:->|<-|=|\bdo:|\belse:|;)\s*")  # what a call without brackets may follow
_ARGUMENT = re.compile(
    r"[ \t]+(?!(?:and|or|in|not|when|do|end|else|after|rescue|catch)\b)(?:[\w\"'{\[%@]|:(?!:)|&(?!&)|~[A-Za-z]|<<(?!<))"
)
_BLOCK = re.compile(r"[ \t]+do\s*\Z")
_MODULES = frozenset({"module", "protocol", "impl"})

Symbols = tuple[SymbolId, ...]


def _is_command(before: str, after: str) -> bool:
    """Whether the context of a name makes it a call without brackets: `scope "/", Shop do`, `|> run`."""
    has_argument = _ARGUMENT.match(after) or (not before.strip() and _BLOCK.match(after))
    return bool(has_argument and _STATEMENT.fullmatch(before)) or before.rstrip().endswith("|>")


def resolve_in_module(index: CodeIndex, unit: Unit, use: Reference, before: str, after: str) -> Symbols | None:
    """The symbols meant between what stands before and after a name on its line; empty if something else is meant,
    None if unknown."""
    chain, is_component = _CHAIN.search(before), before.endswith("<.")
    if _ERLANG.search(before):
        return ()
    if chain is None and before.endswith((".", "@")) and not is_component:
        return None if before.endswith(".") and after.startswith("(") else ()  # or a field or attribute
    parts = chain.group().split(".")[:-1] if chain else []
    if unit.rules.is_template:
        if home := next((edge.source for edge in index.graph.edges_to(unit.path)), ""):
            unit = index.unit(home)
            use = replace(use, within=unit.facts.packages[0] if unit.facts.packages else "", line=0)
        elif not parts and not use.name[:1].isupper():
            return None  # which module has the template as a function is not known
    if use.name[:1].isupper():
        scoped = ".".join([*_route_scopes(index, unit, use.line), *parts, use.name])
        is_routed = _module_files(index, unit, scoped)
        whole = scoped if is_routed else _full_name(index, unit, [*parts, use.name], use)
        is_longer = _LONGER.match(after) is not None
        return () if is_longer else tuple(SymbolId(path, whole) for path in _module_files(index, unit, whole))
    if parts:
        return _find_functions(index, unit, _full_name(index, unit, parts, use), use.name)
    if pair := _BEFORE_ATOM.search(before):
        scoped = ".".join([*_route_scopes(index, unit, use.line), pair[1]])
        functions = _find_functions(index, unit, scoped, use.name) if scoped != pair[1] else ()
        return functions or _find_functions(index, unit, _full_name(index, unit, pair[1].split("."), use), use.name)
    return _find_unqualified_function(index, unit, replace(use, role="call") if is_component else use, before, after)


def find_in_protocol(index: CodeIndex, symbol: SymbolId) -> list[SymbolId]:
    """What a function of Elixir implements: one of a protocol, named as the implementation is, or of a behaviour."""
    implementation, name = index.definition(symbol.owner), symbol.qualified.rpartition(".")[2]
    unit, paths = index.unit(symbol.path), index.files_defining(name)
    if implementation is None or implementation.kind != "impl":
        use = Reference(name, 0, "use", symbol.owner.qualified)
        written = _BEHAVIOUR.findall(index.lines(unit.path).whole_text()) if len(paths) > 1 else ()
        modules = [_full_name(index, unit, module.split("."), use) for module in written]
        callbacks = [found for module in modules for found in _find_functions(index, unit, module, name) or ()]
        return [callback for callback in callbacks if callback != symbol]
    meant = [SymbolId(path, symbol.qualified) for path in sorted(paths) if path != symbol.path]
    return [function for function in meant if (found := index.definition(function.owner)) and found.kind == "protocol"]


def _find_functions(index: CodeIndex, unit: Unit, module: str, name: str) -> Symbols | None:
    """A module from outside has none of our functions; one of ours may have functions made by a macro."""
    functions = [SymbolId(path, f"{module}.{name}") for path in _module_files(index, unit, module)]
    return tuple(symbol for symbol in functions if index.definition(symbol)) or (None if functions else ())


def _find_unqualified_function(index: CodeIndex, unit: Unit, use: Reference, before: str, after: str) -> Symbols | None:
    is_plug = _PLUG.fullmatch(before) is not None
    if (before.endswith(":") and not is_plug) or after.startswith(":") or _DECLARED.search(before):
        return ()  # an atom, a key, or the function itself
    if use.role != "call" and not (is_plug or before.endswith("&")) and not _is_command(before, after):
        return ()  # without brackets and arguments it is a variable
    imported = (*_imports_with(index, unit, "import"), *_imports_by_use(index, unit, "import"))
    modules = (name for import_ in imported for name in _modules_of(unit, import_))
    for module in (_module_around(unit, use.within), *modules):
        functions = _find_functions(index, unit, module, use.name) if module else None
        if functions:
            return functions
    # One of our modules may write the function into those that use it.
    used = _imports_with(index, unit, "use")
    files = {path for import_ in used for path in _module_files(index, unit, import_.module)}
    return None if any(index.lines(path).mention(use.name) for path in files) else ()


def _imports_by_use(index: CodeIndex, unit: Unit, keyword: str) -> Sequence[Import]:
    """What `use` imports: what the used modules write inside their functions, where they may use others."""

    def find_inside(path: str, keyword: str) -> list[Import]:
        other = index.unit(path)
        callables = (definition for definition in other.definitions if symbol_kind(definition.kind).is_callable)
        bodies = [range(definition.start_line + 1, definition.end_line + 1) for definition in callables]
        written = _imports_with(index, other, keyword)
        return [import_ for import_ in written if any(import_.line in lines for lines in bodies)]

    def find_files(used: Sequence[Import]) -> list[str]:
        return [path for import_ in used for path in _module_files(index, unit, import_.module)]

    def find() -> list[Import]:
        files = find_files(_imports_with(index, unit, "use"))
        used = reachable(files, lambda path: find_files(find_inside(path, "use")))
        return [import_ for path in used for import_ in find_inside(path, keyword)]

    return index.memo.once(("by use", unit.path, keyword), find)


def _modules_of(unit: Unit, import_: Import) -> list[str]:
    module = whole_module(unit.facts, import_.module)
    return [f"{module}.{name}" for name in import_.names] or [module]


def _route_scopes(index: CodeIndex, unit: Unit, line: int) -> list[str]:
    """The modules of the blocks around a route, the outermost first."""
    lines, modules = index.lines(unit.path), list[str]()
    if not index.memo.once(("routes", unit.path), lambda: _ROUTES.findall(lines.whole_text())):
        return []
    depth = 1000
    for text in (lines.get(above, "") for above in range(line, 0, -1)):
        indent = len(text) - len(text.lstrip())
        if text.strip() and indent < depth:  # a line around the last one
            depth, scope = indent, _ROUTE_SCOPE.match(text)
            modules = [scope[1], *modules] if scope else modules
    return modules


def _full_name(index: CodeIndex, unit: Unit, parts: list[str], use: Reference) -> str:
    (first, *rest), around = parts, _module_around(unit, use.within)
    if first == "__MODULE__":
        return ".".join([around, *rest])
    for short, whole in _aliases(index, unit):
        if short == first:
            return ".".join([whole, *rest])
    nested = (".".join([module, *parts]) for module in enclosing_names(around))
    return next((inner for inner in nested if inner in unit.by_qualified), ".".join(parts))


def _module_around(unit: Unit, within: str) -> str:
    around = ((scope, unit.by_qualified.get(scope)) for scope in enclosing_names(within))
    return next((scope for scope, definition in around if definition and definition.kind in _MODULES), "")


def _aliases(index: CodeIndex, unit: Unit) -> Sequence[tuple[str, str]]:
    """The short names of modules, and their full ones."""

    def find() -> list[tuple[str, str]]:
        short: dict[str, str] = {}
        for import_ in (*_imports_by_use(index, unit, "alias"), *_imports_with(index, unit, "alias")):
            short.update({import_.alias or module.rpartition(".")[2]: module for module in _modules_of(unit, import_)})
        return list(short.items())

    return index.memo.once(("aliases", unit.path), find)


def _imports_with(index: CodeIndex, unit: Unit, keyword: str) -> list[Import]:
    lines = index.lines(unit.path)
    keywords = ((import_, _WORD.match(lines.get(import_.line, ""))) for import_ in unit.imports)
    return [import_ for import_, word in keywords if word and word.group(1) == keyword]


def _module_files(index: CodeIndex, unit: Unit, module: str) -> list[str]:
    return [target.path for target in index.targets(unit, Import(module, 0))]
