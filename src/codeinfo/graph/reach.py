"""Dependencies and the reach of a change: imports of a file, cycles, impact, unused exports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from posixpath import basename, dirname, normpath

from codeinfo.cache import group_by_key, reachable
from codeinfo.globs import lies_below
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.conventions import HELPERS
from codeinfo.graph.model import Edge, Graph, SymbolId, Unit, components, cycles, stem_of, symbols_of
from codeinfo.graph.references import (
    INTERFACES,
    find_uses,
    is_default_export,
    is_registered,
    look_up,
    other_names,
    symbol_info,
)
from codeinfo.graph.scopes import (
    find_bases,
    find_import,
    find_included,
    find_offers,
    find_overridden,
    last_names,
    resolve_bare,
    whole_type,
)
from codeinfo.graph.uses import LITERAL, UsedNames, references_to
from codeinfo.languages import has_outline, is_product, language_of
from codeinfo.languages.model import FileFacts, Outcome, ancestors, get_language
from codeinfo.model import Definition, FileKind, Import
from codeinfo.operations import code

_KINDS = frozenset("function class interface struct enum trait protocol type object constant variable macro".split())
_UNPUBLISHED = re.compile(r"(?m)^publish\s*=\s*(?:false|\[\s*\])")
_SHARED_PUBLISH = re.compile(r"(?m)^publish(?:\.workspace\s*=|\s*=\s*\{\s*workspace\s*=)\s*true")
_GUARD = re.compile(r"_(?:H|HH|HPP|HXX|INC)_*$")  # a header's include guard
_PASTED = re.compile(r"\b(\w{4,})##")
_HEADER = re.compile(r"\.(?:h|hh|hpp|hxx|inc)$")
_UNKNOWN_CODE = re.compile(r"\w\.[a-z]\w*$")  # no list of changes, which has no ending, and no page of a manual
# Called from outside the code: by an interpreter, a test runner, a fuzzer, a package manager.
_CALLED_FROM_OUTSIDE = frozenset(
    "main init setup teardown default handler module WinMain wWinMain DllMain urlpatterns app_name "
    "handler400 handler403 handler404 handler500 Fuzz LLVMFuzzerTestOneInput LLVMFuzzerInitialize "
    "JNI_OnLoad JNI_OnUnload".split()
)
_IMPLICIT = re.compile(r"\b(?:implicit|given)\b")  # inserted by the compiler where its type is needed
# Routes of Next.js, Nuxt, Remix, SvelteKit and Expo: what a user requests starts there.
ROUTE = re.compile(
    r"(?:.*/)?(?:app/(?:.*/)?(?:page|_?layout|route|index|\[[^/]+\])|pages/.+|app/routes/.+|routes/(?:.*/)?\+.+|middleware"
    r"|server/(?:api|routes)/.+)\.(?:[cm]?[jt]sx?|vue|svelte)"
)
# Files from which others take expected names besides: of Next.js and SvelteKit, settings of Django and gunicorn, what
# runs migrations, what Laravel finds for an event or a model, recipes of packages.
_TAKEN_BY_PLACE = re.compile(
    r"(?:.*/)?(?:app/(?:.*/)?(?:template|loading|(?:global-)?error|not-found|default|sitemap|robots|manifest"
    r"|(?:apple-)?icon|(?:opengraph|twitter)-image)|instrumentation(?:-client)?)\.[cm]?[jt]sx?|(?:.*/)?settings(?:/.*)?\.py"
    r"|(?:.*/)?(?:alembic|migrations?)/env\.py|(?:.*/)?resource\.h|(?:.*/)?app/(?:Listeners|Policies)/.+\.php"
    r"|(?:.*/)?hooks\.(?:client|server)\.[jt]s|(?:.*/)?gunicorn[._-]?conf(?:ig)?\.py|.+\.(?:ebuild|eclass)"
    r"|(?:.*/)?(?:PKG|APK)BUILD"
)
# Hooks of behave.
_HOOK = re.compile(r"(?:.*/)?features/environment\.py::(?:before|after)_(?:all|feature|rule|scenario|step|tag)")
_ASV_CONFIG = re.compile(r"(?:.*/)?asv(?:\.\w+)?\.conf\.json")
_ASV_FOLDER = re.compile(r'(?m)^[ \t]*"benchmark_dir"\s*:\s*"([^"]*)"')
_STRING = re.compile(r""" "[^"\n]*" | '[^'\n]*' | `[^`\n]*` """, re.VERBOSE)
_WORD = re.compile(r"\w+")
# Base classes that come with a language: they register nothing.
_PLAIN_BASE = re.compile(
    r"\w*(?:Exception|Error|Warning|Enum|Flag)|[Oo]bject|ABC|Protocol|Generic|NamedTuple|TypedDict|Struct|dict|list|str"
    r"|int|float|bytes|tuple|set|frozenset|type|Comparable|Serializable|Cloneable|IDisposable|Sendable|Codable|Equatable"
    r"|Hashable|Any(?:Ref)?|Identifiable|CaseIterable|Decodable|Encodable|View(?:Modifier)?|String|Int"
)
_EXTENDING = frozenset({"class", "object", "struct", "enum"})


# --- imports -------------------------------------------------------------------------------------------------------


def module_imports(index: CodeIndex, path: str, request: code.ImportsRequest) -> code.ModuleImports:
    graph = index.graph
    facts = graph.files[path]
    imports = []
    for import_ in index.unit(path).imports:
        outcome = index.outcome(facts, import_)
        targets = [target.path for target in outcome.targets if target.path != path]
        if outcome == Outcome():
            continue  # a string that could have been the path of a page
        if outcome.package:
            needed = {edge.target for edge in graph.edges_from(path)}
            targets = [target for target in targets if target in needed]
        names = (f"{import_.names[0]} as {import_.alias}",) if import_.alias and import_.names else import_.names
        imports.append(code.ImportInfo(import_.module, import_.line, names, outcome.status, tuple(targets)))
    implicit = (edge for edge in graph.edges_from(path) if edge.implicit)
    imports += [code.ImportInfo("", edge.line, edge.names, "package", (edge.target,)) for edge in implicit]
    into = [code.Neighbour(edge.source, edge.line, edge.names, edge.implicit) for edge in graph.edges_to(path)]
    return code.ModuleImports(
        path=path,
        language=facts.language,
        imports=tuple(imports[: request.limit]),
        imported_by=tuple(into[: request.limit]),
        imported_by_count=len(into),
        tests=index.tests_of(path),
        centrality=graph.centrality.get(path, 0.0),
        is_complete=max(len(imports), len(into)) <= request.limit,
    )


# --- cycles --------------------------------------------------------------------------------------------------------


def cycle_report(graph: Graph, request: code.CyclesRequest, below: str = "") -> code.CycleReport:
    edges = graph.import_edges
    loaded = [edge for edge in edges if not edge.timing]
    runtime = [cycle for cycle in cycles(loaded) if _touches(cycle.files, below)]
    loaded_groups = {frozenset(cycle.files) for cycle in runtime}
    others = [cycle for cycle in cycles(edges) if cycle.timing and frozenset(cycle.files) not in loaded_groups]
    others = [cycle for cycle in others if _touches(cycle.files, below)]
    listed = [*runtime, *others] if request.deferred else runtime
    following = group_by_key((edge.source, edge.target) for edge in (edges if request.deferred else loaded))
    groups = [tuple(sorted(group)) for group in components(following) if _touches(group, below)]
    groups.sort(key=lambda group: (-len(group), group))
    external, unresolved = graph.unlinked
    return code.CycleReport(
        total=len(listed),
        cycles=tuple(
            code.CycleInfo(cycle.severity, cycle.files, tuple(edge.line for edge in cycle.edges), cycle.timing)
            for cycle in listed[: request.limit]
        ),
        groups=tuple(groups),
        files=len(graph.files),
        edges=len(edges),
        external=external,
        unresolved=unresolved,
        is_complete=len(listed) <= request.limit,
        lazy=sum(cycle.timing == "lazy" for cycle in others),
        types=sum(cycle.timing == "types" for cycle in others),
    )


def _touches(paths: Iterable[str], below: str) -> bool:
    return any(lies_below(path, below) for path in paths)


# --- impact --------------------------------------------------------------------------------------------------------


def impact_report(index: CodeIndex, path: str, request: code.ImpactRequest) -> code.ImpactReport:
    files = sorted(impact(index, path, request.hops), key=lambda file: (file.hops, file.is_test, file.timing))
    facts = index.graph.files[path]
    is_read = facts.rules.imports.resolver is not None or facts.kind == "docs" or bool(files)
    return code.ImpactReport(
        path=path,
        total=len(files),
        files=tuple(files[: request.limit]),
        tests=_tests_to_run(index, path, files),
        is_complete=len(files) <= request.limit and is_read,
        notes=_notes_on_impact(facts, is_read=is_read, is_used=bool(files)),
    )


def _notes_on_impact(facts: FileFacts, *, is_read: bool, is_used: bool) -> tuple[str, ...]:
    if not is_read:
        return (f"imports of {facts.language} are not read: what uses this file is not known",)
    is_found = not is_used and facts.exports and is_product(facts.path, FileKind(facts.kind))
    return ("no code here names what it offers; a framework may find it by its name or place",) if is_found else ()


_MOST_IMPLEMENTING = 3  # types; an interface of more is a kind of plug-in
_ABSTRACT = frozenset({"ABC", "Protocol"})  # bases of what is an interface in Python
_MOST_HEADER_LINES = 30  # of a class with the parameters of its constructor
_HANDLED = re.compile(r"\b\w*(?:Handler|Consumer|Subscriber|Listener)<\s*([A-Z]\w*)")
_MOST_INDIRECT = 12  # tests of users or subtypes: for more, the whole suite is to be run


def _tests_to_run(index: CodeIndex, path: str, affected: Sequence[code.Affected]) -> tuple[str, ...]:
    """The tests of a file, and of the types that implement its interfaces, if these are few; if there are none, those
    of the files that use it, also through an interface, if these are few."""
    graph = index.graph
    dispatching = _dispatching(index, {path: _offered_names(index, path)})
    near = [file for file in affected if file.hops == 1]
    direct = [file for file in near if file.via not in dispatching]  # a test that takes an interface may fake it
    named = index.tests_of(path, (file.path for file in direct))
    users = [file.path for file in direct if not file.is_test]
    implementing = [test for user in users if _extends(index, user, path) for test in graph.tests_named_after(user)]
    tests = tuple(dict.fromkeys((*named, *(implementing if len(implementing) <= _MOST_INDIRECT else ()))))
    using = ([file.path] if file.is_test else graph.tests_named_after(file.path) for file in near)
    behind = tuple(dict.fromkeys(chain.from_iterable(using)))
    return tests or (behind if len(behind) <= _MOST_INDIRECT else ())


def _extends(index: CodeIndex, user: str, path: str) -> bool:
    offered = set(index.graph.files[path].exports)
    bases = (base for definition in index.unit(user).definitions for base in definition.bases)
    return any(re.split(r"\W+", base)[-1] in offered for base in bases)


Border = dict[str, frozenset[str]]  # a file, and which of its names a change has reached: `X`, or `space.X`
_ALL = frozenset({"*"})


def impact(index: CodeIndex, changed: str, hops: int) -> list[code.Affected]:
    """The users of what a changed file exports, direct or through others; near ones first, then important ones.

    A file that only re-exports is not a hop: importers of its other names are not affected.
    """
    origins = dict.fromkeys((changed, *_headers(index, changed)), _ALL)
    seen = set(origins)
    reached: list[code.Affected] = []
    for hop in range(1, hops + 1):
        users: dict[str, code.Affected] = {}
        used: Border = {}
        passed: Border = {}
        border = {path: _offered_names(index, path) if names is _ALL else names for path, names in origins.items()}
        sent = _dispatching(index, border)
        border |= {**_declaring_headers(index, origins), **sent}
        while border:
            beyond: Border = {}
            for edge in _edges_to_border(index, border):
                path, user = edge.target, edge.source
                if user in seen or (path in sent and _extends(index, user, path)):
                    continue
                taken = _taken_names(index, edge, border[path], is_origin=origins.get(path) is _ALL)
                if taken is None:
                    continue
                given = _reexport_names(index, edge, taken)
                if given - passed.get(user, frozenset()):
                    beyond[user] = passed[user] = given | passed.get(user, frozenset())
                if not given or _uses_itself(index, edge, taken):
                    timing = "" if edge.timing == "dropped" else edge.timing  # its values come by another way
                    affected = code.Affected(user, edge.line, path, hop, user in index.graph.tests, timing)
                    users.setdefault(user, affected)
                    used[user] = taken | used.get(user, frozenset())
            border = beyond
        seen.update(users)
        origins = {path: _reached_names(index, path, names) for path, names in used.items()} if hop < hops else {}
        weight = index.graph.centrality
        reached += sorted(users.values(), key=lambda file: (-weight.get(file.path, 0.0), file.path))
    return reached


def _edges_to_border(index: CodeIndex, border: Border) -> Iterator[Edge]:
    for path in border:
        yield from index.graph.edges_to(path)
        yield from _edges_to_added(index, path)


def _edges_to_added(index: CodeIndex, path: str) -> Sequence[Edge]:
    """Which files use what no import leads to: methods that a file of Rust adds to types of other files, helpers of
    Rails, and what pages are offered under a name."""
    unit, is_helper = index.unit(path), HELPERS.search(path) is not None
    offered = {offer.symbol for offer in find_offers(index) if offer.symbol.path == path}

    def find() -> list[Edge]:
        impls = (SymbolId(path, name) for name, definition in unit.by_qualified.items() if definition.kind == "impl")
        added = tuple(f"{symbol.qualified}." for symbol in impls if whole_type(index, symbol).path != path)
        members = (name for name in unit.by_qualified if is_helper or (added and name.startswith(added)))
        methods = [SymbolId(path, name) for name in members if not unit.by_qualified[name].is_type]
        return [
            Edge(use.file.path, path, use.reference.line, (method.qualified,))
            for method in (*methods, *sorted(offered))
            for use in find_uses(index, look_up(index, str(method))).uses
            if use.symbol == method and use.file.path != path
        ]

    may_add = unit.rules.imports.paths or (is_helper and unit.rules.names.constants)
    return index.memo.once(("added", path), find) if may_add or offered else ()


def _reached_names(index: CodeIndex, path: str, names: frozenset[str]) -> frozenset[str]:
    """What a file offers that uses some names, directly or through others of its definitions. All of it if a name is
    used outside of them, if none is found, as under another name or of one letter, in C, where a header passes on what
    it includes, and in Elixir, where `use` calls what an atom names."""
    unit = index.unit(path)
    if unit.rules.imports.headers or unit.rules.imports.whole_names:
        return _ALL
    uses, lines = index.uses(unit.path), index.lines(unit.path)
    offered = {*unit.facts.exports, *unit.facts.hidden}
    using: set[str] = set()
    open_names = {name.rpartition(".")[2] for name in names}
    while open_names:
        for use in references_to(uses, open_names.pop()):
            text = lines.get(use.line, "")
            # `var _ Store = &Disk{}`, `__all__ = ["Store"]`
            is_check = use.receiver == LITERAL or (unit.rules.imports.qualified and text.startswith("var _ "))
            if not is_check and find_import(unit, use, text) is None:
                around = offered.intersection(use.within.split("."))
                if not around or any(len(name) == 1 for name in around):
                    return _ALL
                open_names |= around - using
                using |= around
    return _offered_names(index, path) & {*using, "default"} if using else _ALL


def _offered_names(index: CodeIndex, path: str) -> frozenset[str]:
    file = index.graph.files[path]
    if _HEADER.search(path) and file.rules.imports.headers:
        return frozenset((*file.exports, *_declared_names(index, path)))
    return frozenset((*file.exports, "default") if file.rules.names.default_exports else file.exports)


def _declared_names(index: CodeIndex, path: str) -> frozenset[str]:
    def find() -> frozenset[str]:
        return frozenset(declared.name for declared in index.unit(path).definitions if declared.kind == "prototype")

    names: frozenset[str] = index.answers.once(("declared in", path), find)
    return names


def _headers(index: CodeIndex, path: str) -> list[str]:
    """The headers that declare what a C file defines: those it includes, also through others, that share its name."""
    if not index.rules(path).imports.headers:
        return []
    return [header for header in sorted(find_included(index, path)) if stem_of(header) == stem_of(path)]


def _declaring_headers(index: CodeIndex, paths: Collection[str]) -> Border:
    """The other headers that declare what some C files define, as one header of a whole program does: who includes
    them is affected if it uses one of these names."""
    declared: dict[str, set[str]] = {}
    for path in paths:
        facts = index.graph.files[path]
        included = find_included(index, path) if facts.rules.imports.headers else ()
        for header in included:
            if header not in paths and (names := _declared_names(index, header).intersection(facts.exports)):
                declared.setdefault(header, set()).update(names)
    return {path: frozenset(names) for path, names in declared.items()}


def _dispatching(index: CodeIndex, border: Border) -> Border:
    """Where the interfaces are that types in some files implement, unless many do, and the messages that they handle:
    a container of dependencies or a mediator leads from their users to these types."""
    abstract: dict[str, set[str]] = {}
    for path, names in border.items():
        unit = index.unit(path)
        for qualified, definition in unit.by_qualified.items() if path not in index.graph.tests else ():
            above: Sequence[SymbolId] = ()
            if (
                definition.is_type
                and definition.kind not in INTERFACES
                and not names.isdisjoint((definition.name, qualified))
            ):
                above = find_bases(index, SymbolId(path, qualified))
                above = [*filter(partial(_is_dispatched, index), above), *_find_messages(index, unit, definition)]
            elif definition.kind == "method" and unit.rules.names.structural and _is_rare(index, definition.name):
                above = [method.owner for method in find_overridden(index, SymbolId(path, qualified))]
            for symbol in above:
                if symbol.path not in border:
                    abstract.setdefault(symbol.path, set()).add(symbol.qualified)
    return {path: frozenset(names) for path, names in abstract.items()}


def _is_dispatched(index: CodeIndex, base: SymbolId) -> bool:
    """Whether calls of an interface or of an abstract class reach one of few types."""
    definition = index.definition(base)
    if definition is None or not (definition.kind in INTERFACES or _is_abstract(definition)):
        return False
    if definition.kind == "trait" and index.rules(base.path).names.open_traits:
        return False  # of PHP: a part of its classes
    if not any(name.startswith(f"{base.qualified}.") for name in index.unit(base.path).by_qualified):
        return False  # it only marks types
    users = (edge.source for edge in index.graph.users(base.path))
    return sum(1 for user in users if _extends(index, user, base.path)) <= _MOST_IMPLEMENTING


def _is_abstract(definition: Definition) -> bool:
    is_marked = re.search(r"\babstract\b", definition.signature.partition(definition.name)[0]) is not None
    return is_marked or not _ABSTRACT.isdisjoint(last_names(definition.bases))


def _is_rare(index: CodeIndex, method: str) -> bool:
    """Whether few types have a method: in Go each of them may implement an interface that has it."""
    return len(index.files_defining(method) - index.graph.tests) <= 1 + _MOST_IMPLEMENTING


def _find_messages(index: CodeIndex, unit: Unit, handler: Definition) -> list[SymbolId]:
    """What a class handles for a mediator or a bus: `class Pay : IRequestHandler<PayOrder>`."""
    if handler.kind != "class":
        return []
    lines = index.lines(unit.path)
    header = range(handler.start_line, min(handler.start_line + _MOST_HEADER_LINES, handler.end_line) + 1)
    named = _HANDLED.findall(" ".join(lines.get(line, "") for line in header).partition("{")[0])
    symbols = [symbol for name in named for symbol in resolve_bare(index, unit, name, "")]
    return [symbol for symbol in symbols_of(symbols) if symbol.path != unit.path]


def _taken_names(index: CodeIndex, edge: Edge, names: frozenset[str], *, is_origin: bool) -> frozenset[str] | None:
    """Which of some names an import takes; None if none of them. An import without names takes all of a changed
    file. From a re-exporting file it takes the names in use, as does an import of a namespace; one that is passed on
    as an object takes all."""
    listed = frozenset(edge.names)
    is_whole = "*" in listed or not listed or edge.implicit
    if is_origin and is_whole and not names and index.rules(edge.target).imports.paths:
        return None  # `mod x;` of Rust uses nothing of a file that only adds methods to types of others
    if is_origin:
        return names if is_whole else listed
    inside = names if is_whole else frozenset(name for name in names if name.partition(".")[0] in listed - names)
    if is_whole and _is_taken_as_object(index, edge):
        return names
    used = _find_used(index, edge.source, inside)
    passed = inside if _reexport_names(index, edge, inside) else frozenset()
    return (frozenset() if is_whole else listed & names) | used | passed or None


def _find_used(index: CodeIndex, path: str, names: frozenset[str]) -> frozenset[str]:
    """Which of some names a file uses; in C all words count, since a header hands on thousands of names."""
    if not names:
        return frozenset()
    file = index.graph.files[path]
    text, key = index.uses(path), ("words", path)
    words: frozenset[str] | None = index.memo.get(key)
    if words is None:
        words = index.memo.add(key, frozenset(_WORD.findall(text)))
    if file.rules.imports.headers:
        return names & words
    return frozenset(name for name in names if (last := name.rpartition(".")[2]) in words and references_to(text, last))


def _is_taken_as_object(index: CodeIndex, edge: Edge) -> bool:
    """Whether a file of JavaScript passes on the module that it imports: `register(components)`, or what `import()`
    returns to a router."""
    unit = index.unit(edge.source)
    if not unit.rules.names.default_exports:
        return False
    whole = [import_ for import_ in unit.imports if import_.names in ((), ("*",)) and not import_.reexport]
    leading = [import_ for import_ in whole if edge.target in {to.path for to in index.targets(unit, import_)}]
    uses = index.uses(unit.path)
    return any(_is_passed(uses, import_) if import_.alias else edge.timing == "lazy" for import_ in leading)


def _reexport_names(index: CodeIndex, edge: Edge, names: frozenset[str]) -> frozenset[str]:
    """The names under which a file re-exports what it imports. A header of C passes on what it includes."""
    unit = index.unit(edge.source)
    if unit.rules.imports.headers and _HEADER.search(edge.source):
        return names
    is_package = edge.source.rpartition("/")[2].partition(".")[0] == "__init__"
    given: set[str] = set()
    for import_ in unit.imports:
        # `mod x;` shows its macros at most.
        is_declared = unit.rules.imports.paths and not import_.names and not import_.reexport
        is_opened = import_.names == ("*",) and unit.rules.names.dotted_modules  # Python passes all of it on
        if not (import_.reexport or is_declared or is_opened or (is_package and not import_.timing)):
            continue
        if edge.target not in {target.path for target in index.targets(unit, import_)}:
            continue
        if is_declared:
            given |= names.difference(unit.facts.exports)
        elif import_.names in ((), ("*",)):
            given |= {f"{import_.alias}.{name}" for name in names} if import_.alias else names
        else:
            taken = [name for name in names if name.partition(".")[0] in import_.names]
            given |= {".".join((import_.alias or first, *rest)) for first, *rest in (name.split(".") for name in taken)}
    return frozenset(given)


def _uses_itself(index: CodeIndex, edge: Edge, names: frozenset[str]) -> bool:
    """Whether a re-exporting file uses the names itself."""
    unit = index.unit(edge.source)
    if unit.rules.imports.headers:
        return bool(_find_used(index, edge.source, names))
    text, lines = index.uses(unit.path), index.lines(unit.path)
    uses = (use for name in names for use in references_to(text, name.rpartition(".")[2]))
    return any(use.receiver != LITERAL and find_import(unit, use, lines.get(use.line, "")) is None for use in uses)


# --- unused exports ------------------------------------------------------------------------------------------------


def unused_exports(
    index: CodeIndex,
    request: code.UnusedRequest,
    generated: Iterable[str],
    public: Iterable[str] = (),
    below: str = "",
) -> code.UnusedReport:
    """`generated` holds texts that are not indexed; any word in them counts as a use. `public` are the files that a
    manifest offers to others."""
    uses = index.facts.references(list(index.by_id))
    used_by_file = {file_id: frozenset(UsedNames(packed)) for file_id, packed in uses}
    users = Counter(name for names in used_by_file.values() for name in names)  # name → files that use it
    offered, examined = _list_offered(index, below)
    whole = _find_passed_whole(index, public)
    unused: list[code.UnusedSymbol] = []
    by_kind = own_file = 0
    for file, definition in _named_nowhere_else(index, offered, used_by_file, users, generated):
        if file.path in whole:
            continue
        used = used_by_file.get(file.file_id, frozenset())
        used_here = definition.name in used and not _is_only_exported(index, file, definition)
        if _belongs_to_program(index, file, definition, used_here=used_here):
            continue
        prefixes = () if used_here else _PREFIX.findall(index.lines(file.path).whole_text())
        if any(definition.name.startswith(prefix) for prefix in prefixes):
            continue  # the file puts such names together, as `globals()["bench_" + what]` does
        if _is_taken_by_another_name(index, file, definition, used, users):
            continue
        if definition.kind in _EXTENDING and not all(map(_PLAIN_BASE.fullmatch, definition.bases)):
            by_kind += 1
        elif used_here and not request.own_file:
            own_file += 1
        else:
            unused.append(code.UnusedSymbol(symbol_info(file.path, definition), used_here))
    of_others = _find_open_to_others(index, [row.symbol for row in unused])
    unused.sort(key=lambda row: (row.symbol.id in of_others, row.used_here, row.symbol.path, row.symbol.start_line))
    unknown = sorted(language for language, count in examined.items() if not count)
    return code.UnusedReport(
        total=len(unused),
        symbols=tuple(unused[: request.limit]),
        examined=examined.total(),
        is_complete=len(unused) <= request.limit and not unknown,
        own_file=own_file,
        notes=tuple(_notes_on(by_kind, unknown, len(of_others))),
    )


def _named_nowhere_else(
    index: CodeIndex,
    offered: Sequence[tuple[FileFacts, Definition]],
    used_by_file: Mapping[int, frozenset[str]],
    users: Counter[str],
    generated: Iterable[str],
) -> list[tuple[FileFacts, Definition]]:
    """Those whose name no other file has in its code, in a string, in a template or in a generated text."""
    unused = [
        (file, definition)
        for file, definition in offered
        if users[definition.name] == (definition.name in used_by_file.get(file.file_id, ()))
        and not _is_used_otherwise(index, file, definition)
    ]
    names = {definition.name for _, definition in unused}
    for text in generated:
        names.difference_update(_WORD.findall(text))
    in_texts = _find_in_texts(index, names, {file_id for file_id, used in used_by_file.items() if used})
    first: dict[tuple[str, str], tuple[FileFacts, Definition]] = {}  # of several definitions of one name
    for file, definition in unused:
        if definition.name in names and not in_texts.get(definition.name, set()) - {file.file_id}:
            first.setdefault((file.path, definition.qualified), (file, definition))
    return list(first.values())


def _find_passed_whole(index: CodeIndex, public: Iterable[str]) -> set[str]:
    """The files all of whose exports are used at once: offered to other projects, or imported as one object, which is
    passed on (`drizzle({ schema })`); and what they re-export."""
    passing: dict[str, list[str]] = {}  # a file → those it re-exports as a whole
    passed = list(public)
    for file_id, import_ in index.facts.imports():
        file = index.by_id.get(file_id)
        if file is None or not file.rules.names.default_exports or import_.names not in ((), ("*",)):
            continue
        if file.is_test:  # it names what it replaces: `spyOn(api, "send")`
            continue
        targets = [target.path for target in index.outcome(file, import_).targets]
        if import_.reexport:
            passing.setdefault(file.path, []).extend(targets)
        elif targets and import_.alias and _is_passed(index.uses(file.path), import_):
            passed += targets
    return set(reachable(passed, lambda path: passing.get(path, ())))


def _is_passed(uses: str, import_: Import) -> bool:
    """Whether the object itself is used, and not only what it holds."""
    rows = re.finditer(rf"(?m)^(\d+)\t.*(?<=[\s(]){re.escape(import_.alias)}(?=[\s]|$)", uses)
    return any(int(row[1]) != import_.line for row in rows)


def _belongs_to_program(index: CodeIndex, file: FileFacts, definition: Definition, *, used_here: bool) -> bool:
    """Whether a name is used in a file that nobody imports or, as `hook-shop.py`, can import, or by C and C++, where a
    header cannot hide what it uses; or its file has it in quotes, and so may look it up. What a program sets, others
    read that it starts."""
    lines = index.lines(file.path)
    is_module = not file.rules.names.dotted_modules or basename(file.path).partition(".")[0].isidentifier()
    is_script = lines.get(1, "").startswith("#!") or not is_module
    is_program = is_script or "main" in (*file.exports, *file.hidden)
    is_set = is_script and definition.kind in ("constant", "variable")
    is_looked_up = not used_here and _is_quoted(lines.whole_text(), definition)
    return is_set or is_looked_up or (used_here and (is_program or file.rules.imports.headers))


_EXPORT_LIST = re.compile(r"^__all__\s*\+?=\s*[\[(][^\])]*", re.MULTILINE)


def _is_quoted(text: str, definition: Definition) -> bool:
    """Whether a whole string is its name, outside of the definition and of `__all__`."""
    lines = range(definition.start_line, definition.end_line + 1)
    quoted = [match.start() for match in re.finditer(rf"([\"'`]){re.escape(definition.name)}\1", text)]
    exported = [range(*match.span()) for match in _EXPORT_LIST.finditer(text)] if quoted else []
    return any(text.count("\n", 0, at) + 1 not in lines and not any(at in span for span in exported) for at in quoted)


def _list_offered(index: CodeIndex, below: str) -> tuple[list[tuple[FileFacts, Definition]], Counter[str]]:
    """The exported definitions to examine, and how many are examined per language."""
    offered: list[tuple[FileFacts, Definition]] = []
    examined: Counter[str] = Counter()
    benchmarks = _benchmark_folders(index)
    for file_id, definition in index.facts.outlines():
        file = index.by_id.get(file_id)
        if file is None or not lies_below(file.path, below):
            continue
        if has_outline(file.language):
            continue  # its uses are not known
        if not is_product(file.path, FileKind(file.kind)) or any(lies_below(file.path, of) for of in benchmarks):
            continue  # nobody imports an example or a script
        counts = _counts(definition, file)
        examined[file.language] += counts
        if counts:
            offered.append((file, definition))
    return offered, examined


def _benchmark_folders(index: CodeIndex) -> list[str]:
    """The folders in which airspeed velocity finds classes and functions by their names."""
    folders = []
    for path in filter(_ASV_CONFIG.fullmatch, index.graph.files):
        written = _ASV_FOLDER.search(index.lines(path).whole_text())
        folders.append(normpath(f"{dirname(path)}/{written[1] if written else 'benchmarks'}").lstrip("/"))
    return folders


def _find_open_to_others(index: CodeIndex, symbols: Sequence[code.SymbolInfo]) -> set[str]:
    """Of some definitions, those that a header has or declares, those in packages of Go that other modules can import,
    and those in published packages of JavaScript and in libraries of Rust and, if they are public, of Swift."""
    files = {info.id: index.graph.files[info.path] for info in symbols}
    script_files = (file for file in files.values() if file.rules.names.default_exports)
    folders = {folder for file in script_files for folder in ancestors(file.folder)}
    published = {folder: _is_published(index, f"{folder}/package.json".lstrip("/")) for folder in folders}

    def is_open(file: FileFacts, info: code.SymbolInfo) -> bool:
        if file.rules.imports.headers:
            return any(map(_HEADER.search, index.files_defining(info.name)))
        if file.rules.imports.qualified:
            return {"main", "internal"}.isdisjoint((*file.packages, *file.path.split("/")))
        if file.rules.imports.paths:
            return _is_in_library(index, file)
        if "Package.swift" in file.rules.imports.configs:
            return info.signature.startswith(("public ", "open ")) and _is_in_package_with_library(index, file)
        around = (published.get(folder) for folder in ancestors(file.folder))
        return next((is_published for is_published in around if is_published is not None), False)

    return {info.id for info in symbols if is_open(files[info.id], info)}


def _is_in_package_with_library(index: CodeIndex, file: FileFacts) -> bool:
    configs = index.resolver.tree.configs
    manifests = (configs.get(f"{folder}/Package.swift".lstrip("/"), "") for folder in ancestors(file.folder))
    return any(".library(" in manifest for manifest in manifests)


def _is_in_library(index: CodeIndex, file: FileFacts) -> bool:
    """Whether a file of Rust belongs to a library that others can add to their crates."""
    configs, folders = index.resolver.tree.configs, ancestors(file.folder)
    around = [(folder, configs[path]) for folder in folders if (path := f"{folder}/Cargo.toml".lstrip("/")) in configs]
    texts = [text for _, text in around]
    home = around[0][0] if around else ""
    decided = texts[1:] if texts and _SHARED_PUBLISH.search(texts[0]) else texts[:1]
    is_library = f"{home}/src/lib.rs".lstrip("/") in index.graph.files or any("[lib]" in text for text in texts[:1])
    is_program = file.path.removeprefix(f"{home}/").startswith(("src/bin/", "src/main.rs"))
    return bool(around) and is_library and not is_program and not any(map(_UNPUBLISHED.search, decided))


def _is_published(index: CodeIndex, manifest: str) -> bool | None:
    """Whether a package can be installed by others; None without a manifest."""
    if manifest not in index.graph.files:
        return None
    read = index.resolver.tree.config(manifest)
    return not read.get("private") and bool({"main", "module", "exports"} & read.keys())


def _is_taken_by_another_name(
    index: CodeIndex, file: FileFacts, definition: Definition, used: Collection[str], users: Counter[str]
) -> bool:
    """Whether others use what a file of JavaScript offers under another name, or import it as the default export,
    under a name of their choice."""
    if not file.rules.names.default_exports:
        return False
    symbol = SymbolId(file.path, definition.qualified)
    if any(users[other] > (other in used) for other in other_names(index, symbol)):
        return True
    is_default = is_default_export(index, symbol, definition)
    return is_default and any("default" in edge.names or not edge.names for edge in index.graph.edges_to(file.path))


_EXPORTED = re.compile(r"^export\s*\{[^{}]*\}|^export\s+default\s+\w++[^\S\n]*+;?[^\S\n]*+$", re.MULTILINE)
# Modules from outside, to which a file of TypeScript adds something: `declare module "vue" { … }`.
_ADDED_TO_OTHERS = re.compile(
    r"""^declare[ \t]+(?:module[ \t]+(["'])[^"'\n]+\1|global)\s*\{[^\n]*(?:\n(?!\}|declare\b)[^\n]*)*\n\}""",
    re.MULTILINE,
)
_PREFIX = re.compile(r"""["'`](\w{2,}_)(?=["'`%{$])""")


def _is_only_exported(index: CodeIndex, file: FileFacts, definition: Definition) -> bool:
    """Whether a file names a definition in nothing but an `export { … }` of JavaScript or `__all__` of Python."""
    if file.rules.names.dotted_modules:
        return all(use.receiver == LITERAL for use in references_to(index.uses(file.path), definition.name))
    if not file.rules.names.default_exports:
        return False
    text = index.lines(file.path).whole_text()
    spans = [_spanned_lines(text, match) for match in _EXPORTED.finditer(text)]
    used = references_to(index.uses(file.path), definition.name)
    return bool(spans) and all(any(use.line in lines for lines in spans) for use in used)


def _spanned_lines(text: str, match: re.Match[str]) -> range:
    return range(text.count("\n", 0, match.start()) + 1, text.count("\n", 0, match.end()) + 2)


def _notes_on(by_kind: int, unknown: Sequence[str], open_to_others: int) -> Iterator[str]:
    """What is not listed, and why; and who else may use what is."""
    if open_to_others:
        yield (
            f"{open_to_others} of them, listed last, can be imported or included by other projects, which may use them"
        )
    if by_kind:
        yield (
            f"not listed: {by_kind} class{'' if by_kind == 1 else 'es'} that no code names but that extend or "
            "implement something: a framework or a list of types may find them"
        )
    if unknown:
        yield f"nothing of {', '.join(unknown)} was examined: what it offers to others has no exports to go by"


def _counts(definition: Definition, file: FileFacts) -> bool:
    around = definition.qualified.removesuffix(definition.name).rstrip(".")
    has_no_value = definition.signature.endswith(f" {definition.name}")  # `#define NOGDI`, for headers from outside
    return (
        definition.exported
        and definition.kind in _KINDS
        and (not around or (around in file.packages and not file.rules.names.called_by_platform))
        and len(definition.name) > 1  # names of one letter or of signs are not stored as references
        and _WORD.search(definition.name) is not None
        and not definition.name.startswith(("_", "operator", "Java_"))  # no name is written; Java calls the last
        and not file.rules.names.needs_mark(definition)  # its uses are not stored
        and not (definition.kind == "macro" and (_GUARD.search(definition.name) or has_no_value))
        and not (file.rules.imports.headers and _is_used_unnamed(definition))
        and definition.name not in _CALLED_FROM_OUTSIDE
        and not _IMPLICIT.search(definition.signature.partition(definition.name)[0])
    )


def _is_used_unnamed(definition: Definition) -> bool:
    """Whether C or C++ uses something without its name: an enum by the names in it, a specialisation by the name of
    its template, a variable by what its value does when the program starts (`const int id = register<Cart>();`)."""
    runs = definition.kind in ("constant", "variable") and re.search(r"=.*\(.*\)", definition.signature) is not None
    is_enum = definition.kind == "enum" or definition.signature.startswith("typedef enum")
    return is_enum or runs or f" {definition.name}<" in definition.signature


def _is_used_otherwise(index: CodeIndex, file: FileFacts, definition: Definition) -> bool:
    is_placed = ROUTE.fullmatch(file.path) or _TAKEN_BY_PLACE.fullmatch(file.path)
    is_placed = is_placed or _HOOK.fullmatch(f"{file.path}::{definition.name}")
    if is_placed or is_registered(index, file.path, definition.start_line):
        return True
    members = [member for member in index.unit(file.path).definitions if member.owner == definition.qualified]
    if definition.is_type and any(member.name in ("main", "Main") and member.is_function for member in members):
        return not file.rules.imports.timed  # a compiled program starts there
    if file.rules.names.default_exports:
        text = index.lines(file.path).whole_text()
        spans = (_spanned_lines(text, match) for match in _ADDED_TO_OTHERS.finditer(text))
        return any(definition.start_line in lines for lines in spans)
    if not file.rules.names.attribute_classes or definition.kind != "class":
        return False
    return any(map(file.rules.names.called_by_name, members))  # extension methods are called on another type


def _find_in_texts(index: CodeIndex, names: set[str], parsed: Collection[int]) -> dict[str, set[int]]:
    """The files that contain a name in a string, as settings name classes, or anywhere in a file without a syntax
    tree, as templates call functions, and Cython and lists of providers do, whose endings are unknown. A file that took
    too long to parse has none either."""
    files_with: dict[str, set[int]] = {}
    for file_id, file in index.by_id.items() if names else ():
        is_unknown = language_of(file.path) is None and _UNKNOWN_CODE.search(file.path)
        if is_unknown or get_language(file.language).markup is None or _HEADER.search(file.path):
            text = index.lines(file.path).whole_text()
            is_code = file_id in parsed and not file.rules.is_template  # the scripts of a page call functions as well
            words = _WORD.findall(" ".join(_STRING.findall(text)) if is_code else text)
            for name in names.intersection(words):
                files_with.setdefault(name, set()).add(file_id)
            pasted = tuple(_PASTED.findall(text)) if file.rules.imports.headers and "##" in text else ()
            for name in names if pasted else ():
                if name.startswith(pasted):  # `LOG_##severity` is written in any file, also in its own
                    files_with.setdefault(name, set()).add(-1)
    return files_with
