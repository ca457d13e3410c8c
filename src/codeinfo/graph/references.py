"""Where a name is defined and used, who calls it and what it calls: candidates from the keyword index, uses from the
packed syntax, meanings from scopes and imports."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from posixpath import dirname
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import asdict, replace

from codeinfo.cache import group_by_key, reachable
from codeinfo.errors import NotFound, UsageError
from codeinfo.globs import lies_below
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.conventions import accessor_names, has_accessors, is_symbol
from codeinfo.graph.model import Graph, SymbolId, Unit, implementation, symbols_of
from codeinfo.graph.names import SELF, Resolution, find_outside_type, receiver_types, resolve
from codeinfo.graph.scip import CALLS, MEANING, USES, Proven, Question
from codeinfo.graph.scopes import (
    find_bases,
    find_import,
    find_included,
    find_member,
    find_offers,
    find_overridden,
    is_imported_from_outside,
    is_type,
    last_names,
    lineage,
    resolve_bare,
    resolve_export,
    resolve_imported,
    takes_module,
    whole_type,
)
from codeinfo.graph.uses import LITERAL, all_references, references_to
from codeinfo.languages import (
    GRAMMARS,
    SCHEMAS,
    STYLESHEETS,
    find_comments,
    has_outline,
    is_shipped_folder,
    is_test_name,
)
from codeinfo.languages.ecmascript import kebab_case
from codeinfo.languages.model import (
    COMMENT,
    SIGIL,
    FileFacts,
    enclosing_names,
    get_language,
    language_family,
    packages_of,
)
from codeinfo.languages.routes import declares, links_to, routes_of
from codeinfo.model import Definition, FileKind, Import, NextStep, Reference, quantity, symbol_kind, to_run
from codeinfo.operations import code
from codeinfo.ports import CodeFacts, CodeFile
from codeinfo.tokens import identifier_terms, identifiers, split_identifier

_MOST_CHECKED = 200  # files whose checksums one question verifies, besides those it shows: some 20 ms
_MOST_NAMED = 3  # files named in a note
_MOST_TAKING = 20  # files in which an import is looked for that gives something another name
_MOST_NEAR = 5  # definitions suggested for one that does not exist
_MOST_PARTS = 40  # of a name written in full, each of which may be a type that inherits
_PREVIEW_CHARS = 160
_VALUES = ("variable", "field", "property")  # may only hold the function or type of their name
# `Class#method` and `Class->method`, as documentation writes; `Class::method`; `Package\Class`
_MEMBER = re.compile(r"::|(?<=\w)(?:->|[#\\]|:(?=[a-z_]))(?=\w)")
_PART_END = re.compile(rf"[./]|{_MEMBER.pattern}")
_ARGUMENTS = re.compile(r"(?<=[\w?!])(?:\([^()]*\)|/\d{1,2}$)")  # or, as in Elixir, their number
_POINTER = re.compile(r"(?<![^.])\(\*?([\w.]+)\)(?=\.)")  # `(*Type).Method` of Go
_SMALL_FILE = 30  # lines: parsed in no time
_TEXT = re.compile(rf"""{COMMENT.pattern}|(?<!\\)(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|`[^`]*`""")
INTERFACES = frozenset({"interface", "trait", "protocol"})
CONSTRUCTORS = frozenset({"__init__", "__construct", "constructor", "initialize", "init"})  # each type has its own
_REGISTERED = "a decorator or an attribute stands before it: a framework may call it"
_LISTED = re.compile(r"(?:const )?[\w$]+\??: typeof import\(")  # what a bundler imports by itself is defined elsewhere
_NO_USES = frozenset({"package", "namespace", "heading"})  # they contain code or describe it; code does not use them


def list_symbols(facts: CodeFacts, path: str, request: code.SymbolsRequest) -> code.SymbolList:
    files = [file for file in facts.files() if lies_below(file.path, path)]
    if not files:
        raise NotFound(
            f"{path or '.'} is not in the index", next_step=NextStep(to_run("why", path or "."), " says why")
        )
    facts.check_symbols(file.file_id for file in files)
    parsed = ((file.path, without_alternatives(facts.definitions(file.file_id))) for file in files)
    every = [symbol_info(file_path, definition) for file_path, definitions in parsed for definition in definitions]
    shown = [symbol for symbol in every if not request.kinds or symbol.kind in request.kinds]
    unparsed = [file.path for file in files if _is_code(file) and not _has_definitions(file.language)]
    notes = (_unparsed_note(unparsed),) if unparsed else ()
    if every and not shown:
        notes = (*notes, f"the kinds of definitions there are {', '.join(sorted({symbol.kind for symbol in every}))}")
    complete = len(shown) <= request.limit and not unparsed
    return code.SymbolList(path or ".", len(shown), tuple(shown[: request.limit]), complete, notes)


def _has_definitions(language: str) -> bool:
    return language in GRAMMARS or has_outline(language)


def refuse_folder(graph: Graph, path: str) -> None:
    """Raise UsageError, with the most central files, if the path is a folder of the index."""
    if inside := [file for file in graph.files if lies_below(file, path)]:
        central = sorted(inside, key=lambda file: (-graph.centrality.get(file, 0.0), file))[:_MOST_NEAR]
        raise UsageError(f"{path or '.'} is a folder", f"Give one of its files, as in {', '.join(central)}")


def without_alternatives(definitions: Sequence[Definition]) -> list[Definition]:
    """Each definition of a file once: the first of those that a condition chooses from (`#ifdef`, `try`), and no
    declaration of a function that the file defines. Functions with other parameters are not the same."""
    defined = {definition.qualified for definition in definitions if definition.kind != "prototype"}
    once: dict[tuple[str, str, str], Definition] = {}
    for definition in definitions:
        if definition.kind != "prototype" or definition.qualified not in defined:
            signature = definition.signature if definition.is_function else ""
            once.setdefault((definition.qualified, definition.kind, signature), definition)
    return list(once.values())


# --- definitions ---------------------------------------------------------------------------------------------------


class Lookup(Struct, frozen=True):
    """The definitions a name stands for, and whether others share the plain name. Several with one qualified name
    are one symbol: overloads, of which `symbols` has the first, platform variants, a field and its method."""

    name: str
    symbols: Mapping[SymbolId, Definition]
    others: bool
    overloads: tuple[tuple[SymbolId, Definition], ...] = ()
    outside_tests: bool = False  # leave out uses in tests, which may be most of those of a name like `Run`

    @property
    def bodies(self) -> list[tuple[SymbolId, Definition]]:
        return [*self.symbols.items(), *self.overloads]

    def keep(self, is_kept: Callable[[SymbolId, Definition], bool]) -> Lookup:
        symbols = {symbol: definition for symbol, definition in self.symbols.items() if is_kept(symbol, definition)}
        overloads = tuple(overload for overload in self.overloads if overload[0] in symbols)
        return replace(
            self, symbols=symbols, others=self.others or len(symbols) < len(self.symbols), overloads=overloads
        )

    def symbol_infos(self, central: Mapping[str, float] = MappingProxyType({})) -> list[code.SymbolInfo]:
        """Those of the product before those of tests and examples, exported ones first, types and functions before
        variables that may only stand for them, prototypes last; of several, those in `central` files first."""

        def order(info: code.SymbolInfo) -> tuple[bool, bool, bool, bool, float, str, int]:
            is_shipped = is_shipped_folder(dirname(info.path)) and not is_test_name(info.path)
            rank = info.kind == "prototype", not is_shipped, not info.exported, info.kind in _VALUES
            return *rank, -central.get(info.path, 0.0), info.path, info.start_line

        return sorted((symbol_info(symbol.path, definition) for symbol, definition in self.bodies), key=order)


def look_up(index: CodeIndex, text: str) -> Lookup:
    """Resolve `Name`, `Class.method`, `Class#method`, `path::Name` or, as calls are quoted, `name()`, `name(1)`."""
    if "." in text and (whole := _look_up_plain(index, text.strip())).symbols:  # a name of R
        return whole
    path, qualified = _split_name(index, text)
    qualified = SIGIL.sub("", qualified)
    name = qualified.rpartition(".")[2]
    if not name:
        raise UsageError(f"{text!r} has no name at its end", next_step="Write `name`, `Class.method` or `path::name`")
    every = _look_up_plain(index, name)
    matching = every.keep(
        lambda symbol, definition: (
            f"/{symbol.path}".endswith(f"/{path}" if path else "")
            and (f".{symbol.qualified}".endswith(f".{qualified}") or definition.qualified == qualified)
        )
    )
    if not path:
        return matching
    twins = {twin for symbol in matching.symbols for twin in _find_twins(index, symbol, every.symbols)}
    return every.keep(lambda symbol, _: symbol in matching.symbols or symbol in twins)


def _find_twins(index: CodeIndex, symbol: SymbolId, every: Mapping[SymbolId, Definition]) -> list[SymbolId]:
    """The other parts of a type; the declaration of a function of C or C++ in a header that its file includes, or its
    definitions."""
    rules = index.rules(symbol.path)
    if rules.names.open_types and is_type(index, symbol):
        whole = whole_type(index, symbol)
        return [other for other in every if other != symbol and whole_type(index, other) == whole]
    if not rules.imports.headers or symbol not in every:
        return []
    up = _find_declaration(index, symbol, every)
    down = [other for other in every if other != symbol and _find_declaration(index, other, every) == symbol]
    return [*([up] if up else []), *down]


def _find_declaration(index: CodeIndex, symbol: SymbolId, every: Mapping[SymbolId, Definition]) -> SymbolId | None:
    """Where a function is declared: in the header with the name of its file, otherwise in the only one that does."""
    whole, included = every[symbol].qualified, find_included(index, symbol.path)
    declared = [
        other
        for other, definition in every.items()
        if other.path in included and other.path != symbol.path and not definition.is_type
        if f".{whole}".endswith(f".{other.qualified}")
    ]
    stem = symbol.path.rpartition("/")[2].partition(".")[0]
    beside = [other for other in declared if other.path.rpartition("/")[2].partition(".")[0] == stem]
    candidates = beside or declared
    return candidates[0] if len(candidates) == 1 else None


def _split_name(index: CodeIndex, text: str) -> tuple[str, str]:
    """The path, if one is given, and the qualified name."""
    written = text.strip()
    if not written.endswith("operator()"):  # a name of its own in C++
        written = written.removesuffix("()")
    head, separator, rest = written.partition("::")
    if separator and ("/" in head or head in index.graph.files):
        return head, _MEMBER.sub(".", rest)
    qualified, plain = _MEMBER.sub(".", written), _MEMBER.sub(".", _without_call(written))
    name = qualified.rpartition(".")[2]
    is_whole = not plain.endswith(name) and index.files_defining(name)
    return "", qualified if is_whole else plain


def _without_call(text: str) -> str:
    """A name without the arguments of a call and the brackets around a pointer."""
    written = text.strip().lstrip(":\\#")
    while not written.endswith("operator()") and (shorter := _ARGUMENTS.sub("", written)) != written:
        written = shorter
    return _POINTER.sub(r"\1", written)


def _with_dots(index: CodeIndex, text: str) -> str:
    """`Outer$Nested`, as stack traces of Java write it, unless the sign belongs to the name."""
    name = plain_name(text)
    return text if "$" not in name[1:] or index.files_defining(name) else text.replace(name, name.replace("$", "."))


def plain_name(text: str) -> str:
    """The last part of a name, however it was written."""
    return _MEMBER.sub(".", _without_call(text)).rpartition(".")[2]


def _look_up_plain(index: CodeIndex, name: str) -> Lookup:
    """Every definition of a plain name."""
    definitions: dict[SymbolId, Definition] = {}
    overloads: list[tuple[SymbolId, Definition]] = []
    by_id = index.by_id
    defined = ((by_id[key], definition) for key, definition in index.facts.definitions_named(name) if key in by_id)
    for file, definition in sorted(defined, key=lambda pair: pair[0].path):
        if definition.kind not in _NO_USES and not _LISTED.match(definition.signature):
            qualified = definition.qualified
            # Hundreds of files may define a name: a file is read only if a namespace may have to be stripped.
            if any(qualified.startswith(f"{package}.") for package in file.packages):
                qualified = index.unit(file.path).without_namespace(qualified)
            symbol = SymbolId(file.path, qualified)
            first = definitions.get(symbol)
            definitions[symbol] = implementation(file, first, definition)
            only_declares = "prototype" in (first.kind if first else "", definition.kind) or file.rules.names.overloads
            if first and definition.is_function and not only_declares:
                overloads.append((symbol, definition))
    return Lookup(name, definitions, False, tuple(overloads))


def look_up_member(index: CodeIndex, text: str) -> Lookup:
    """Like `look_up`; `Class.method` may be inherited, `module.function` lies in a file or folder of that name, and a
    name may be written in full."""
    if "/" in text and "::" not in text and (found := look_up_member(index, text.replace("/", "."))).symbols:
        return found  # of a namespace of Clojure
    text = _with_dots(index, text)
    lookup, (path, qualified) = look_up(index, text), _split_name(index, text)
    around = qualified.rpartition(".")[0].rstrip(".")
    owner = "::".join(filter(None, (path, around)))
    if lookup.symbols or not owner or not lookup.others:
        return lookup if lookup.symbols or lookup.others else _look_up_import_name(index, lookup)
    if owner in SELF:
        return look_up(index, lookup.name)
    every, parts = replace(_look_up_plain(index, lookup.name), others=True), re.split(r"\.|::|/", owner)
    top = every.keep(lambda symbol, _: symbol.qualified == lookup.name)
    nearest_first = (
        _keep_members(index, every, look_up(index, owner)),
        top.keep(lambda symbol, _: _is_module(symbol.path, parts)),
        top.keep(lambda symbol, _: parts[-1] in _module_parts(symbol.path)),
    )
    narrowed = next((narrowed for narrowed in nearest_first if narrowed.symbols), None)
    return narrowed or _look_up_in_full(index, SIGIL.sub("", _without_call(text)), every)


def _keep_members(index: CodeIndex, every: Lookup, owners: Lookup) -> Lookup:
    """Those that types have or inherit."""
    types = [symbol for symbol, definition in owners.symbols.items() if definition.is_type]
    return _keep_only(every, {member for symbol in types for member in find_member(index, symbol, every.name)})


def _keep_only(lookup: Lookup, symbols: Collection[SymbolId]) -> Lookup:
    return lookup.keep(lambda symbol, _: symbol in symbols)


def _look_up_in_full(index: CodeIndex, written: str, every: Lookup) -> Lookup:
    """A qualified name, which may be inherited, behind that of its package, module or folder: `shop.cart.Cart.add`."""
    ends = [end for end in _PART_END.finditer(written) if end.start()]
    for end in ends:
        front, qualified = written[: end.start()], _PART_END.sub(".", written[end.end() :])
        if symbols := [symbol for symbol in every.symbols if symbol.qualified == qualified]:
            return _keep_only(every, _keep_placed(index, front, symbols))
    if not 2 <= len(ends) < _MOST_PARTS:
        return _keep_only(every, ())
    owner = written[: ends[-1].start()]
    named = _look_up_plain(index, owner[ends[-2].end() :])
    return _keep_members(index, every, _look_up_in_full(index, owner, named))


def _keep_placed(index: CodeIndex, front: str, symbols: Sequence[SymbolId]) -> list[SymbolId]:
    """Those whose place matches the front of a name: their path or package ends in its parts, or has them in order.
    Only manifests know the names of crates and of Go's modules, so an import of the front may also lead there."""
    files, parts = index.graph.files, _name_parts(front)
    places = [(symbol, place) for symbol in symbols for place in _places_of(files[symbol.path])]
    exact = [symbol for symbol, place in places if place[-len(parts) :] == parts]
    if placed := exact or [symbol for symbol, place in places if _are_in_order(parts, place)]:
        return placed

    def is_imported(symbol: SymbolId) -> bool:
        module = _PART_END.sub("::", front) if index.rules(symbol.path).imports.paths else front
        import_ = Import(module, 0, (symbol.qualified.partition(".")[0],))
        return symbol.path in {target.path for target in index.outcome(files[symbol.path], import_).targets}

    return list(filter(is_imported, symbols))


def _places_of(file: FileFacts) -> list[list[str]]:
    """The module that a file is, its folder and its packages."""
    return [_name_parts(place) for place in ("/".join(_module_parts(file.path)), file.folder, *packages_of(file))]


def _are_in_order(parts: Sequence[str], place: Sequence[str]) -> bool:
    rest = iter(place)
    return all(part in rest for part in parts)


def _name_parts(text: str) -> list[str]:
    """As they are compared: `git-cliff-core` is a crate `git_cliff_core`, `App\\Models` a folder `app/Models`."""
    return [part.lower().replace("-", "_") for part in _PART_END.split(text)]


def _look_up_import_name(index: CodeIndex, lookup: Lookup) -> Lookup:
    """What imports call by a name that nothing defines: `export { default as Button } from "./button"`."""
    units = (index.unit(file.path) for file in _candidates(index, lookup) if lookup.name in index.uses(file.path))
    resolver = index.resolver
    taking = (
        other
        for other in units
        if lookup.name in (*other.by_shown, *resolver.of(other.facts).auto_imports(other.facts))
    )
    for unit in islice(taking, _MOST_TAKING):
        symbols = symbols_of(resolve_imported(index, unit, lookup.name))
        if definitions := {symbol: definition for symbol in symbols if (definition := index.definition(symbol))}:
            return replace(lookup, symbols=definitions)
    return lookup


def _is_module(path: str, parts: list[str]) -> bool:
    """Whether a file or, as for a Go package, its folder has the names of a module."""
    return parts in (_module_parts(path)[-len(parts) :], path.split("/")[:-1][-len(parts) :])


def _module_parts(path: str) -> list[str]:
    """The names of a file as a module: its folders, and its own name unless that stands for the folder."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    return folders if stem in ("__init__", "index", "lib", "mod", "main") else [*folders, stem]


def look_up_defined(index: CodeIndex, name: str) -> Lookup:
    """`look_up_member` for a name that must be defined here; otherwise NotFound is raised."""
    lookup = look_up_member(index, name)
    if not lookup.symbols:
        raise _unknown_name(index, name)
    return lookup


def _narrow(lookup: Lookup, below: str) -> Lookup:
    """The definitions below a folder; for a name defined only elsewhere, the error says where."""
    inside = lookup.keep(lambda symbol, _: lies_below(symbol.path, below))
    if lookup.symbols and not inside.symbols:
        symbol, definition = next(iter(lookup.symbols.items()))
        where = f"{symbol.path}:{definition.start_line}" + (" and elsewhere" if len(lookup.symbols) > 1 else "")
        raise NotFound(f"{lookup.name} is not defined in {below}", next_step=f"It is defined in {where}")
    return inside


class UnknownName(NotFound):
    """Nothing here has the requested name; similar ones may exist."""

    def __init__(self, name: str, what: str, near: Sequence[str] = ()) -> None:
        step = f"Did you mean {', '.join(near)}?" if near else NextStep("Try ", to_run("search", name))
        super().__init__(what, next_step=step)
        self.name, self.near = name, near


def _unknown_name(index: CodeIndex, name: str) -> NotFound:
    """For `Class.method` the other classes with that method are suggested, nearest spelling first; a name that comes
    from outside has uses."""
    last = plain_name(name)
    if last == name and any(use.reference.name == name for use in find_uses(index, look_up(index, name)).uses):
        return NotFound(f"{name} is used here, but not defined", NextStep(to_run("refs", name), " lists its uses"))
    defined = look_up(index, last).symbols if last != name else {}
    owned = (symbol.qualified for symbol in defined)
    likeness = {member: difflib.SequenceMatcher(None, member.lower(), name.lower()).ratio() for member in owned}
    near = sorted(likeness, key=lambda qualified: (-likeness[qualified], qualified))[:_MOST_NEAR]
    return UnknownName(name, f"nothing called {name} is defined here", near)


def find_definitions(index: CodeIndex, request: code.DefsRequest, below: str = "") -> code.DefinitionList:
    """Raises IndexDamaged if stored definitions of a name fail verification. A damaged row may be missing from the
    result, so all files with the name in their text are verified, as long as these are few."""
    lookup = look_up_member(index, request.name)
    defining = (index.graph.files[symbol.path] for symbol in lookup.symbols)
    files = dict.fromkeys((*defining, *_files_naming(index, lookup.name)[:_MOST_CHECKED]))
    index.facts.check_symbols(file.file_id for file in files)
    if not lookup.symbols:
        raise _unknown_name(index, request.name)
    infos = _narrow(lookup, below).symbol_infos()
    return code.DefinitionList(request.name, len(infos), tuple(infos[: request.limit]), len(infos) <= request.limit)


# --- uses ----------------------------------------------------------------------------------------------------------


class Use(Struct, frozen=True):
    """One use of a name in a file, and the definition it means, if known."""

    file: FileFacts
    reference: Reference
    symbol: SymbolId | None
    proof: str = "syntactic"

    @property
    def place(self) -> tuple[int, int]:
        return self.file.file_id, self.reference.line


class FoundUses(Struct, frozen=True):
    """Every use of a name, resolved ones first."""

    uses: tuple[Use, ...]
    unattributed: int  # more uses that may mean one of several definitions
    left_out: tuple[str, ...]  # files with the name whose language has no syntax support
    unattributed_calls: int = 0  # those of the unattributed that are calls
    outside: tuple[str, ...] = ()  # the types from outside that more uses of the name belong to

    def __len__(self) -> int:
        return len(self.uses)


def find_references(index: CodeIndex, request: code.RefsRequest, below: str = "") -> code.ReferenceReport:
    if request.name in index.graph.files:
        return _find_imports_of_file(index, request, below)
    if "/" in request.name:
        refuse_folder(index.graph, request.name.rstrip("/"))
    lookup = look_up_member(index, request.name)
    found = find_uses(index, lookup)
    if not lookup.symbols and not found.uses:
        if lookup.others:
            raise _unknown_name(index, request.name)
        raise UnknownName(request.name, f"no code here uses the name {request.name}")
    uses = [use for use in found.uses if lies_below(use.file.path, below)]
    remarks = [
        *_remark_on_uses(index, request, lookup, found, uses, below),
        *_remark_on_name(index, lookup, found, uses),
    ]
    notes = [remark.text for remark in remarks]
    is_whole = len(uses) <= request.limit and not any(remark.is_gap for remark in remarks)
    return code.ReferenceReport(
        symbol=request.name,
        usage_count=len(uses),
        usages=usages(index, lookup, uses[: request.limit]),
        confidence=max((use.proof for use in uses), default="resolved"),  # alphabetical = by confidence
        is_complete=is_whole,
        definitions=_first_definitions(lookup, request.limit, notes),
        resolved_count=sum(use.symbol is not None for use in uses),
        compiler_count=sum(use.proof == "compiler" for use in uses),
        unattributed=found.unattributed,
        file_count=len({use.file.file_id for use in uses}),
        notes=tuple(notes),
    )


class _Remark(Struct, frozen=True):
    """A note on the uses of a name; a gap means that there may be uses which are not listed."""

    text: str
    is_gap: bool = False


def _remark_on_uses(
    index: CodeIndex, request: code.RefsRequest, lookup: Lookup, found: FoundUses, uses: Sequence[Use], below: str
) -> Iterator[_Remark]:
    """What was left out of the list, and which uses may belong to something else."""
    if found.left_out:
        yield _Remark(_unparsed_note(found.left_out), is_gap=True)
    if len(uses) < len(found):
        yield _Remark(f"{len(found) - len(uses)} more outside {below}")
    if not lookup.symbols and lookup.name != request.name.strip():
        yield _Remark(f"{request.name} is not defined here: these are all uses of the name {lookup.name}")
    if short := _short_aliases(index, lookup.name, uses):
        text = f"imported as {short[0]} in {len(short)} files: uses of a name of one letter are not listed"
        yield _Remark(text, is_gap=True)
    if not any(map(str.isalnum, lookup.name)):
        yield _Remark("uses of operators are not stored", is_gap=True)
    if found.unattributed:
        yield _Remark(f"{quantity(found.unattributed, 'more use')} of the name may belong to other definitions")
    if found.outside:
        types = ", ".join(type_name for type_name, _ in Counter(found.outside).most_common(_MOST_NAMED))
        more = quantity(len(found.outside), "more use")
        yield _Remark(f"{more} of the name on values of types from outside: {types}")


def _remark_on_name(index: CodeIndex, lookup: Lookup, found: FoundUses, uses: Sequence[Use]) -> Iterator[_Remark]:
    """Where else the name matters: what it overrides, who may call it without naming it, texts that have it."""
    bases = _find_inherited(index, lookup)
    for base in bases[:_MOST_NAMED]:
        if inherited := len(find_uses(index, look_up(index, str(base)))):
            yield _Remark(f"{quantity(inherited, 'use')} of {base}, which it overrides, may mean it")
    if not (found.uses or bases) and _may_be_called_by_framework(index, lookup):
        yield _Remark(_REGISTERED, is_gap=True)
    if lookup.symbols and len(split_identifier(lookup.name)) > 1:  # a plain word may be any text
        if configured := _configurations_naming(index, lookup.name):
            yield _Remark(f"named in configuration: {_first_of(configured)}")
        read = {*found.left_out, *(use.file.path for use in found.uses), *(symbol.path for symbol in lookup.symbols)}
        if unread := [path for path in _templates_naming(index, lookup) if path not in read]:
            text = f"its name is in pages or in files without a syntax tree: {_first_of(unread)}"
            yield _Remark(text, is_gap=True)
    constructors = [symbol for symbol in lookup.symbols if _is_run_by_type(index, symbol)]
    made = [symbol.owner for symbol in constructors if symbol.owner not in lookup.symbols]
    if made and not uses:
        yield _Remark(f"calls of {made[0]} run it")


def _find_imports_of_file(index: CodeIndex, request: code.RefsRequest, below: str) -> code.ReferenceReport:
    """Where others import a file or, as templates do, render it."""
    uses: list[Use] = []
    for edge in index.graph.edges_to(request.name):
        if not lies_below(edge.source, below):
            continue
        unit = index.unit(edge.source)
        lines = dict.fromkeys(import_.line for import_ in _imports_of(index, unit, (request.name,))) or (edge.line,)
        named = (Reference(request.name, line, "use", _definition_around(unit, line)) for line in lines)
        uses += (Use(unit.facts, reference, None, "resolved") for reference in named)
    shown = usages(index, Lookup(request.name, {}, False), uses[: request.limit])
    return code.ReferenceReport(
        symbol=request.name,
        usage_count=len(uses),
        usages=tuple(replace(usage, edge="IMPORTS") for usage in shown),
        confidence="resolved",
        is_complete=len(shown) == len(uses),
        resolved_count=len(uses),
        file_count=len({use.file.path for use in uses}),
    )


def _first_definitions(lookup: Lookup, limit: int, notes: list[str]) -> tuple[code.SymbolInfo, ...]:
    """Hundreds of classes may define a name: a note says how many are left out."""
    infos = lookup.symbol_infos()
    if len(infos) > limit:
        notes.append(f"{quantity(len(infos) - limit, 'more definition')} of the name; raise --limit to see them")
    return tuple(infos[:limit])


def _short_aliases(index: CodeIndex, name: str, uses: Iterable[Use]) -> list[str]:
    """One-letter aliases, which are not stored as uses, that files give to an imported name."""
    units = (index.unit(path) for path in dict.fromkeys(use.file.path for use in uses))
    first = (next((import_.alias for import_ in unit.imports_for(name) if name in import_.names), "") for unit in units)
    return [alias for alias in first if len(alias) == 1]


def find_uses(index: CodeIndex, lookup: Lookup) -> FoundUses:
    """Every use. A name like `get` has thousands, which takes a while: the answer is cached for the generation."""
    proven = [use for symbol, definition in lookup.symbols.items() for use in _proven_uses(index, symbol, definition)]
    key = ("uses", lookup.name, frozenset(lookup.symbols), lookup.outside_tests, frozenset(use.place for use in proven))
    languages = {index.rules(symbol.path).name for symbol in lookup.symbols}
    is_outlined = bool(languages) and all(map(has_outline, languages))
    find = partial(_find_named, index, lookup, languages) if is_outlined else partial(_find_uses, index, lookup, proven)
    uses: FoundUses = index.answers.once(key, find)
    return uses


def _find_named(index: CodeIndex, lookup: Lookup, languages: Collection[str]) -> FoundUses:
    """Uses of what has no syntax tree: where its name is written in its own language, those behind the name of its
    owner first, and, if it is part of a schema, where code names what it does not define itself."""
    undefined = Lookup(lookup.name, {}, others=False, outside_tests=lookup.outside_tests)
    in_code = _find_uses(index, undefined, ()) if not SCHEMAS.isdisjoint(languages) else FoundUses((), 0, ())
    own = [file for file in _candidates(index, undefined) if file.language in languages]
    written = [use for file in own for use in _find_written(index, file, lookup)]
    resolved = [use for use in written if use.symbol is not None]
    possible = [*(use for use in written if use.symbol is None), *in_code.uses]
    left_out = tuple(sorted({*in_code.left_out} - {file.path for file in own}))
    if lookup.others:
        return FoundUses(tuple(resolved), len(possible), left_out)
    return FoundUses((*resolved, *possible), 0, left_out)


_OWNER = re.compile(r"([\w-]+)(?:\.|::|->|:)\Z")
_MOST_OWNER_CHARS = 100


def _find_written(index: CodeIndex, file: FileFacts, lookup: Lookup) -> Iterator[Use]:
    """The lines with a name, other than in comments and where it is defined."""
    name, is_callable = lookup.name, any(definition.is_function for definition in lookup.symbols.values())
    every = _look_up_plain(index, name).symbols
    by_owner = group_by_key((re.split(r"\W", symbol.owner.qualified)[-1], symbol) for symbol in every)
    unit, text = index.unit(file.path), index.lines(file.path).whole_text()
    comments = [*find_comments(text, file.language)]
    defined, settled = {definition.start_line for definition in unit.named(name)}, set[int]()
    line, position = 1, 0
    for match in re.finditer(rf"(?<!\w)(?<!\w-){re.escape(name)}(?!\w|-\w)", text):
        line += text.count("\n", position, match.start())
        position = match.start()
        before = bisect_right(comments, (position, len(text)))
        is_comment = before > 0 and position < comments[before - 1][1]
        if line in settled or is_comment:
            continue
        if line in defined:  # the first time is the definition
            defined.remove(line)
            continue
        settled.add(line)
        is_call = is_callable and "(" in (text[position - 1 : position], text[match.end() : match.end() + 1])
        owner = _OWNER.search(text[max(0, position - _MOST_OWNER_CHARS) : position])
        meant = _nearest_to(file, by_owner.get(owner[1], ())) if owner else ()
        symbol = next((symbol for symbol in meant if symbol in lookup.symbols), None)
        if symbol is None and meant:
            continue  # of another owner, or of one in another folder
        reference = Reference(name, line, "call" if is_call else "use", _definition_around(unit, line))
        yield Use(file, reference, symbol, "resolved" if symbol else "syntactic")


def _nearest_to(file: FileFacts, symbols: Sequence[SymbolId]) -> Sequence[SymbolId]:
    """Those in the same file, otherwise in the same folder; one elsewhere only if it is the only one."""
    own = [symbol for symbol in symbols if symbol.path == file.path]
    beside = [symbol for symbol in symbols if dirname(symbol.path) == file.folder]
    return own or beside or (symbols if len(symbols) == 1 else ())


class _UseMatcher(Struct, frozen=True):
    """How files may use what a lookup found: under its name, and under those that exports and accessors give it."""

    lookup: Lookup
    exported_as: frozenset[str]  # by re-exports of a default export
    keys: frozenset[str]  # in objects that are exported, and of generated methods
    constructors: Mapping[SymbolId, SymbolId]  # by their types, which are called instead of them
    is_accessed: bool  # through methods that are generated for a field

    @property
    def other_names(self) -> list[str]:
        return sorted(self.exported_as | self.keys)

    def find_meant(self, reference: Reference, resolution: Resolution) -> SymbolId | None:
        """The definition that a use means. `new Cart()` calls the constructor Cart.Cart."""
        meant = next((symbol for symbol in resolution.symbols if symbol in self.lookup.symbols), None)
        if meant is None and reference.role == "call":
            types = (symbol for symbol in resolution.symbols if symbol in self.constructors)
            return next((self.constructors[symbol] for symbol in types), None)
        return meant

    def is_possible(self, index: CodeIndex, file: FileFacts, reference: Reference, resolution: Resolution) -> bool:
        """Whether a use that could not be resolved may mean one of the definitions."""
        if resolution.symbols or not resolution.possible or (reference.name in self.keys and not self.is_accessed):
            return False
        return self.is_accessed or _may_mean(index, self.lookup, file, reference)


def _find_uses(index: CodeIndex, lookup: Lookup, proven: Sequence[Use]) -> FoundUses:
    """`proven`: what language servers say about the definitions."""
    candidates, passing = _candidates(index, lookup), _passing_default(index, lookup)
    importing = [index.graph.files[edge.source] for path in sorted(passing) for edge in index.graph.edges_to(path)]
    matcher = _make_matcher(index, lookup, importing, passing)
    renaming = [file for name in matcher.other_names for file in _candidates(index, replace(lookup, name=name))]
    parsed = [file for file in dict.fromkeys((*candidates, *importing, *renaming)) if file.language in GRAMMARS]
    index.read_uses(parsed)
    resolved, possible, outside = list(proven), list[Use](), list[str]()
    settled = {use.place for use in proven}
    for file in parsed:
        named = resolved_uses(index, file, lookup.name, passing)
        for reference, resolution in chain(named, *(resolved_uses(index, file, name) for name in matcher.other_names)):
            if (file.file_id, reference.line) in settled:
                continue
            if symbol := matcher.find_meant(reference, resolution):
                resolved.append(Use(file, reference, symbol, resolution.proof))
            elif matcher.is_possible(index, file, reference, resolution):
                if lookup.symbols and (written := find_outside_type(index, index.unit(file.path), reference)):
                    outside.append(written)
                else:
                    possible.append(Use(file, reference, None))
    resolved += [*_find_called_values(index, lookup), *_find_by_convention(index, lookup)]
    resolved = _one_a_line([*resolved, *_find_links(index, lookup, resolved)])
    possible = _one_a_line(possible, {use.place for use in resolved})
    if lookup.symbols and all(_is_local(index, symbol, definition) for symbol, definition in lookup.symbols.items()):
        possible = []
    return FoundUses(
        uses=(*resolved, *(() if lookup.others else possible)),
        unattributed=len(possible) if lookup.others else 0,
        left_out=tuple(file.path for file in candidates if _cannot_be_read(index, file, lookup)),
        unattributed_calls=sum(use.reference.role == "call" for use in possible) if lookup.others else 0,
        outside=tuple(outside),
    )


def _make_matcher(
    index: CodeIndex, lookup: Lookup, importing: Sequence[FileFacts], passing: Collection[str]
) -> _UseMatcher:
    """`importing`: the files that import one of `passing`, whose default export has the name."""
    taken = [import_ for file in importing for import_ in _imports_of(index, index.unit(file.path), passing)]
    reexports = [import_ for import_ in taken if import_.reexport and import_.names == ("default",)]
    keys = {name for symbol in lookup.symbols for name in other_names(index, symbol)}
    owners = {whole_type(index, symbol.owner): symbol for symbol in lookup.symbols}
    fields = [symbol for symbol, definition in lookup.symbols.items() if definition.kind == "field"]
    return _UseMatcher(
        lookup,
        exported_as=frozenset(import_.alias for import_ in reexports) - {"", lookup.name},
        keys=frozenset(keys) - {lookup.name, "default", "exports"},
        constructors={
            owner: symbol for owner, symbol in owners.items() if owner.qualified.split(".")[-1] == lookup.name
        },
        is_accessed=any(_is_called(index, field) for field in fields),
    )


def _is_called(index: CodeIndex, field: SymbolId) -> bool:
    """Whether a field of Java is read by calling something: of a record, or where methods are generated."""
    owner, unit = index.definition(field.owner), index.unit(field.path)
    return has_accessors(unit) or (owner is not None and re.search(r"\brecord\b", owner.signature) is not None)


_TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")


def _may_mean(index: CodeIndex, lookup: Lookup, file: FileFacts, use: Reference) -> bool:
    """Whether one of the definitions can be used like this: fields are not called, only `::` names a method, the
    values of a page of Django or Jinja are no modules, and a type of Rust that a macro makes has no method of ours,
    unless that is one of a trait."""
    rules, is_call = file.rules.names, use.role == "call"
    if lookup.symbols and rules.inline_modules and _TYPE_NAME.fullmatch(use.receiver):
        owners = [(symbol.owner.qualified, index.definition(symbol.owner)) for symbol in lookup.symbols]
        is_ours = index.files_defining(use.receiver) or any(
            owner is None or owner.kind in INTERFACES or name.endswith(use.receiver) for name, owner in owners
        )
        imports = index.unit(file.path).by_shown.get(use.receiver, ())
        return bool(is_ours or any(import_.alias for import_ in imports))
    if lookup.symbols and use.receiver and rules.dotted_modules and file.rules.is_template:
        return any("." in symbol.qualified for symbol in lookup.symbols)
    if not lookup.symbols or not use.receiver or not rules.split_members:
        return True
    may_be_named = rules.calls == "reference" and not is_call
    definitions = lookup.symbols.values()
    return may_be_named or any(definition.is_type or definition.is_function == is_call for definition in definitions)


def _find_called_values(index: CodeIndex, lookup: Lookup) -> Iterator[Use]:
    """Calls of values that run a method without naming it: `find_topics(…)` runs `invoke` of what it holds."""
    for symbol in lookup.symbols:
        facts, owner = index.graph.files[symbol.path], symbol.owner
        if lookup.name != facts.rules.names.called_as or not owner.qualified:
            continue
        type_name = owner.qualified.rpartition(".")[2]
        files = [file for file in _files_naming(index, type_name) if file.language == facts.language]
        index.read_uses(files)
        for unit in (index.unit(file.path) for file in files):
            values, uses = sorted(index.bindings(unit).names_holding(type_name)), index.uses(unit.path)
            calls = (use for value in values for use in references_to(uses, value) if use.role == "call")
            running = (call for call in calls if _runs(index, unit, call, symbol, type_name))
            yield from (Use(unit.facts, call, symbol, "resolved") for call in running)


def _find_by_convention(index: CodeIndex, lookup: Lookup) -> Iterator[Use]:
    """Where Rails finds a class without its name, `belongs_to :cart`, `resources :carts`, or Blade, `<x-cart>`; and
    where a route names an action: `carts#show`."""
    for symbol, definition in lookup.symbols.items():
        facts = index.graph.files[symbol.path]
        rules = facts.rules
        is_controller = rules.names.constants and symbol.qualified.endswith("Controller")
        is_class = definition.kind == "class" and (is_controller or symbol.qualified in facts.exports)
        is_action = rules.names.constants and symbol.owner.qualified.endswith("Controller")
        is_found = (rules.imports.whole_names or rules.imports.full_names) and (is_class or is_action)
        for edge in index.graph.edges_to(symbol.path) if is_found else ():
            unit = index.unit(edge.source)
            for import_ in _imports_of(index, unit, (symbol.path,)):
                if is_action and definition.name not in import_.module.partition("#")[2].split(","):
                    continue
                is_only = len(index.targets(unit, import_)) == 1
                use = Reference(lookup.name, import_.line, "use", _definition_around(unit, import_.line))
                yield Use(unit.facts, use, symbol, "resolved" if is_only else "syntactic")


def _find_links(index: CodeIndex, lookup: Lookup, uses: Sequence[Use]) -> Iterator[Use]:
    """Where the name of its route links to a definition, unless another one may be meant."""
    for symbol, definition in lookup.symbols.items():
        rules = index.rules(symbol.path)
        if not rules.names.links or not (definition.is_function or definition.kind == "class"):
            continue
        lines = index.lines(symbol.path)
        places = [(index.lines(use.file.path), use.reference.line) for use in uses if use.symbol == symbol]
        for route in dict.fromkeys(routes_of(definition, index.definition(symbol.owner), lines, places)):
            naming = [file for file in _files_naming(index, route.name) if language_family(file.language) == rules.name]
            declaring = [file for file in naming if declares(route, index.lines(file.path))]
            for file in naming:
                unit = index.unit(file.path)
                for line in links_to(route, index.lines(file.path), is_alone=len(declaring) < 2):
                    reference = Reference(lookup.name, line, "use", _definition_around(unit, line))
                    yield Use(file, reference, symbol, "resolved")


def _runs(index: CodeIndex, unit: Unit, call: Reference, method: SymbolId, type_name: str) -> bool:
    """Whether the called value has the method's type. A parameter of a class is known in all of it."""
    value = f"{call.receiver}.{call.name}" if call.receiver else call.name
    if method in resolve(index, unit, replace(call, name=method.qualified.rpartition(".")[2], receiver=value)).symbols:
        return True
    if call.receiver:
        return False
    rows = index.bindings(unit).visible(call.name, call.line, list(enclosing_names(call.within)))
    is_typed = any(row.mark == ":" and row.text == type_name for row in rows)
    return is_typed and method.owner in resolve_bare(index, unit, type_name, call.within)


def _proven_uses(index: CodeIndex, symbol: SymbolId, definition: Definition) -> list[Use]:
    """The uses a language server sees in indexed files, without definitions of the name.

    A server also reports what may be meant: calls of an interface method that a type implements, the same key of
    another object. So unless scopes and types lead to the definition as well, the server is asked what the place means.
    """
    uses = []
    for place in index.proofs.get(Question(USES, symbol.path, definition.start_line, definition.name)) or ():
        if place.path not in index.graph.files:
            continue
        unit = index.unit(place.path)
        text = index.lines(unit.path).get(place.line, "")
        name = place.name(text)
        if place.line in {defined.start_line for defined in unit.named(name)}:
            continue
        written = references_to(index.uses(unit.path), name)
        on_line = [use for use in written if use.line == place.line]
        if not on_line and name != definition.name:  # it saw another text than the index
            continue
        if not any(symbol in resolve(index, unit, use).symbols for use in on_line):
            meaning = index.proofs.get(Question(MEANING, place.path, place.line, name, place.start)) or ()
            if not any(_find_defined(index, place, definition.name) == symbol for place in meaning):
                continue
        role = "call" if place.is_called(text) else "use"
        best = next((use for use in on_line if use.role == role), on_line[0] if on_line else None)
        use = best or Reference(name, place.line, role, _definition_around(unit, place.line))
        uses.append(Use(unit.facts, use, symbol, "compiler"))
    return uses


def _find_defined(index: CodeIndex, place: Proven, name: str = "") -> SymbolId | None:
    """What the target of a place defines; if several things are defined on its line, the one with the name."""
    if place.target_path not in index.graph.files:
        return None
    unit = index.unit(place.target_path)
    on_line = [definition for definition in unit.definitions if definition.start_line == place.target_line]
    if not on_line:
        return None
    meant = next((definition for definition in on_line if definition.name == name), on_line[0])
    return unit.symbol(meant)


def _definition_around(unit: Unit, line: int) -> str:
    """The qualified name of the innermost type or function around a line."""
    around = (definition for definition in unit.definitions if definition.start_line <= line <= definition.end_line)
    scopes = [definition for definition in around if definition.is_type or definition.is_function]
    return max(scopes, key=lambda definition: definition.start_line).qualified if scopes else ""


def _passing_default(index: CodeIndex, lookup: Lookup) -> frozenset[str]:
    """The files of JavaScript that export one of the definitions by default, or pass it on: files that import it choose
    its name."""

    defaults = {symbol for symbol, definition in lookup.symbols.items() if is_default_export(index, symbol, definition)}

    def pass_on(path: str) -> list[str]:
        users = [edge.source for edge in index.graph.edges_to(path)]
        return [user for user in users if not defaults.isdisjoint(resolve_export(index, user, "default"))]

    return frozenset(reachable([symbol.path for symbol in defaults], pass_on))


def other_names(index: CodeIndex, symbol: SymbolId) -> set[str]:
    """The names under which a file of JavaScript offers a definition of its top level besides its own, and those of
    the methods that are generated for a field; those under which pages are offered something; those of attributes."""
    unit = index.unit(symbol.path)
    definition = unit.by_qualified.get(symbol.qualified)
    if unit.rules.names.links:
        return {offer.name for offer in find_offers(index) if offer.symbol == symbol}
    if definition is not None and definition.kind == "field" and has_accessors(unit):
        names = accessor_names(definition.name)
        return {accessor for accessor in names if f"{symbol.owner.qualified}.{accessor}" not in unit.by_qualified}
    if unit.rules.names.attribute_classes and symbol.qualified.endswith("Attribute"):
        return {symbol.qualified.rpartition(".")[2].removesuffix("Attribute")}
    is_offered = unit.rules.names.default_exports and "." not in symbol.qualified
    return index.bindings(unit).other_names(symbol.qualified) if is_offered else set()


def _imports_of(index: CodeIndex, unit: Unit, paths: Collection[str]) -> list[Import]:
    """The imports of a file that lead to one of some others."""
    if not paths:
        return []
    text, automatic = index.uses(unit.path), index.resolver.of(unit.facts).auto_imports(unit.facts)
    imports = [*unit.imports, *(import_ for name, import_ in automatic.items() if name in text)]
    outcomes = [(import_, index.outcome(unit.facts, import_)) for import_ in imports]
    return [import_ for import_, outcome in outcomes if any(target.path in paths for target in outcome.targets)]


def is_default_export(index: CodeIndex, symbol: SymbolId, definition: Definition) -> bool:
    """Whether others take a definition of JavaScript as the default export of its file, or as `module.exports`."""
    if not index.rules(symbol.path).names.default_exports or "." in symbol.qualified:
        return False
    return definition.kind == "component" or symbol in resolve_export(index, symbol.path, "default")


def resolved_uses(
    index: CodeIndex, file: FileFacts, name: str, passing: Collection[str] = ()
) -> Iterator[tuple[Reference, Resolution]]:
    """Every use of the name in a file, also under the aliases that imports give it, with its meaning. `passing` are
    files whose default export has the name."""
    text = index.uses(file.path)
    if name not in text and not passing:
        return  # most candidates have the name only in a comment or string
    unit = index.unit(file.path)
    taken = [import_ for import_ in unit.imports_for(name) if name in import_.names]
    # `import Row from "./UserRow.vue"`, `const Cart = require("./cart")`
    taken += [import_ for import_ in _imports_of(index, unit, passing) if import_.names in ((), ("default",))]
    aliases = {import_.alias for import_ in taken if import_.alias and not takes_module(index, unit, import_)} - {name}
    if index.files_defining(name):
        aliases = {alias for alias in aliases if not is_imported_from_outside(index, unit, alias)}
    for written_name in (*sorted(aliases), name):
        for reference in references_to(text, written_name):
            resolution = resolve(index, unit, reference)
            yield _mark_invoked(index, unit, reference, resolution), resolution


def _mark_invoked(index: CodeIndex, unit: Unit, use: Reference, resolution: Resolution) -> Reference:
    """Macros, components and in some languages any function are called without a bracket after the name: `warn!(…)`,
    `<Button …>`, `halt 404`, `retry { … }`. A list of exports calls nothing."""
    rules, syntax = unit.rules.names, unit.rules.syntax
    is_listed = not use.within and syntax is not None and syntax.export_list
    if use.role == "call" or is_listed or not rules.calls:
        return use
    meant = index.definition(resolution.symbols[0]) if resolution.symbols else None
    if rules.calls == "bare":
        # Or it is a variable, which is known.
        is_method = bool(rules.symbols) and use.name[:1].islower() and not is_symbol(index, unit, use)
        is_called = symbol_kind(meant.kind).is_callable if meant else resolution.possible and is_method
        return replace(use, role="call") if is_called else use
    if meant is None or meant.kind in ("interface", "type") or (rules.calls == "macro" and meant.kind != "macro"):
        return use
    if rules.calls in ("block", "reference") and not symbol_kind(meant.kind).is_callable:
        return use
    name, written = re.escape(use.name), re.escape(f"{use.receiver}.{use.name}".lstrip("."))
    marks = {
        "macro": rf"\b{name}!",
        "block": rf"\b{name}\s*\{{",
        "element": rf"(?<![\w$)\]])<(?:{written}|{kebab_case(use.name)})(?![\w$.-])",
        "reference": rf"::{name}\b",
    }
    is_called = re.search(marks[rules.calls], index.lines(unit.path).get(use.line, "")) is not None
    return replace(use, role="call") if is_called else use


def _one_a_line(uses: Sequence[Use], taken: Collection[tuple[int, int]] = ()) -> list[Use]:
    """A line with a name twice is one use, a call if one of them is; `import a as b` has both names."""
    by_place: dict[tuple[int, int], Use] = {}
    for use in uses:
        first = by_place.get(use.place)
        if use.place not in taken and (first is None or first.reference.role != "call" == use.reference.role):
            by_place[use.place] = use
    return list(by_place.values())


def _is_code(file: FileFacts | CodeFile) -> bool:
    """Whether a file has code that may use names: among tests there are also data and expected output."""
    is_code = file.kind in ("code", "tests") and get_language(file.language).kind is FileKind.CODE
    return is_code and file.language not in STYLESHEETS


def _cannot_be_read(index: CodeIndex, file: FileFacts, lookup: Lookup) -> bool:
    """Code with the name, in a language without syntax support or in a file that took too long to parse, or XML that
    names a type: views of Android, pages of XAML and beans of Spring do."""
    name, lines = lookup.name, index.lines(file.path)
    if file.language == "xml" and any(definition.is_type for definition in lookup.symbols.values()):
        return len(split_identifier(name)) > 1 and lines.mention(name)
    if not _is_code(file):
        return False
    is_parsed = file.language in GRAMMARS and (len(lines) < _SMALL_FILE or bool(file.exports or index.uses(file.path)))
    if is_parsed or not lines.mention(name):
        return False
    if file.language not in GRAMMARS:
        return True
    # A file of nothing but data or comments uses no names either.
    return re.search(rf"\b{re.escape(name)}\b", _TEXT.sub("", lines.whole_text())) is not None


def _candidates(index: CodeIndex, lookup: Lookup) -> list[FileFacts]:
    """Files with the name, in a language that can mean it: in another language it is another name."""
    families = {language_family(index.graph.files[symbol.path].language) for symbol in lookup.symbols}
    files = [file for file in _files_naming(index, lookup.name) if not (lookup.outside_tests and file.is_test)]

    def can_mean(language: str) -> bool:
        is_known = language in GRAMMARS or get_language(language).family  # what else a file of it can use
        return not families or not is_known or language_family(language) in families

    return [file for file in sorted(files, key=lambda file: file.path) if can_mean(file.language)]


def _files_naming(index: CodeIndex, name: str) -> list[FileFacts]:
    """Files that may use a name: those with its index term."""
    terms = [identifier_terms(part)[-1] for part in identifiers(name) if identifier_terms(part)]
    if not terms:  # a name that is not in the keyword index: too long, or made of signs
        return list(index.by_id.values())
    return [index.by_id[file_id] for file_id in index.facts.files_with(terms) if file_id in index.by_id]


def _is_local(index: CodeIndex, symbol: SymbolId, definition: Definition) -> bool:
    """Defined inside a function: nothing outside can mean it, unless it may be the method of an object made there."""
    owner, rules = index.definition(symbol.owner), index.rules(symbol.path).names
    may_be_method = definition.kind == "method" or (definition.is_function and rules.implicit_self)
    return owner is not None and owner.kind in ("function", "method") and not may_be_method


# --- how uses are shown --------------------------------------------------------------------------------------------


def usages(index: CodeIndex, lookup: Lookup, uses: Sequence[Use]) -> tuple[code.Usage, ...]:
    """Uses with their lines and edges, which only the shown ones need."""
    only = next(iter(lookup.symbols.values()), None)
    shown = []
    for use in uses:
        reference, meant = use.reference, lookup.symbols[use.symbol] if use.symbol else only
        text = index.lines(use.file.path).get(reference.line, "")
        shown.append(
            code.Usage(
                file=use.file.path,
                line=reference.line,
                preview=text.strip()[:_PREVIEW_CHARS],
                edge=_edge(index.unit(use.file.path), reference, text, meant),
                confidence=use.proof,
                within=reference.within,
                definition=str(use.symbol) if use.symbol else "",
            )
        )
    return tuple(shown)


def _edge(unit: Unit, use: Reference, text: str, meant: Definition | None) -> str:
    if written := find_import(unit, use, text):
        return "EXPORTS" if written.reexport or text.lstrip().startswith("export ") else "IMPORTS"
    if use.receiver == LITERAL:
        return "EXPORTS"
    is_behind = text.lstrip().startswith((")", ":"))  # a constructor's parameters, which may span many lines
    for definition in unit.definitions:
        last = definition.end_line if is_behind else definition.start_line + 3
        if definition.start_line <= use.line <= last and use.name in last_names(definition.bases):
            own_interface = definition.kind in INTERFACES
            is_interface = meant is not None and meant.kind in INTERFACES
            return "IMPLEMENTS" if is_interface and not own_interface else "EXTENDS"
    if use.role == "call":
        return "CALLS"
    return "REFERENCES_TYPE" if meant is not None and meant.is_type else "REFERENCES"


def symbol_info(path: str, definition: Definition) -> code.SymbolInfo:
    shown = replace(definition, signature="") if definition.kind == "heading" else definition  # it is the level there
    return code.SymbolInfo(id=f"{path}::{definition.qualified}", path=path, **asdict(shown))


def _unparsed_note(paths: Iterable[str]) -> str:
    listed = list(paths)
    named = ", ".join(listed[:_MOST_NAMED]) + ("…" if len(listed) > _MOST_NAMED else "")
    what = (
        "1 file has no syntax tree and was" if len(listed) == 1 else f"{len(listed)} files have no syntax tree and were"
    )
    return f"{what} not looked into: {named}"


_MOST_DECORATOR_LINES = 40
# They change what stands below them, but hand it to nobody.
_PLAIN_DECORATOR = re.compile(
    r"@(?:\w+\.)?(?:dataclass|final|cache|lru_cache|contextmanager|asynccontextmanager)\b"
    r"|#\[(?:derive|inline|must_use|allow|doc|non_exhaustive|repr|serde|error|default|cold)\b"
)
_NEAR_FILES = 5  # files searched for the callers of a result, the most important importers first


def call_graph(index: CodeIndex, request: code.CallsRequest, below: str = "") -> code.CallGraph:
    lookup = _narrow(look_up_defined(index, request.name), below)
    upward = _follow(index, lookup, request.depth, _edges_from_callers, lambda edge: edge.source)
    upward = upward or _find_references_without_call(index, lookup)
    downward = _follow(index, lookup, request.depth, _edges_to_callees, lambda edge: edge.target)
    related = [edge for symbol, body in lookup.symbols.items() for edge in _find_related(index, symbol, body)]
    notes = [f"calls of {base}, which it overrides, may mean it" for base in _find_inherited(index, lookup)]
    if not upward and _may_be_called_by_framework(index, lookup):
        notes.append(_REGISTERED)
    if not upward and (named := _templates_naming(index, lookup)):
        notes.append(f"its name is in pages or in files without a syntax tree: {_first_of(named)}")
    if unread := {language for symbol in lookup.symbols if has_outline(language := index.rules(symbol.path).name)}:
        notes.append(f"what code in {', '.join(sorted(unread))} calls is not known: it has no syntax tree here")
    return code.CallGraph(
        symbol=request.name,
        definitions=_first_definitions(lookup, request.limit, notes),
        callers=tuple(upward[: request.limit]),
        callees=tuple(downward[: request.limit]),
        related=tuple(related),
        is_complete=max(len(upward), len(downward)) <= request.limit,
        unattributed=find_uses(index, lookup).unattributed_calls,
        unattributed_callees=sum(_count_lost_calls(index, symbol, definition) for symbol, definition in lookup.bodies),
        notes=tuple(notes),
    )


def _may_be_called_by_framework(index: CodeIndex, lookup: Lookup) -> bool:
    return any(
        (definition.is_function or definition.kind == "class")
        and is_registered(index, symbol.path, definition.start_line)
        for symbol, definition in lookup.symbols.items()
    )


def _templates_naming(index: CodeIndex, lookup: Lookup) -> list[str]:
    """Templates and pages with a name in their text, unless their code is read and may use it, and code in languages
    that cannot be read."""
    families = {language_family(index.graph.files[symbol.path].language) for symbol in lookup.symbols}

    def is_unread(file: FileFacts) -> bool:
        rules = file.rules
        if not file.language or rules.kind is FileKind.CONFIG or rules.markup or file.language in STYLESHEETS:
            return False
        is_page = rules.is_template and (rules.family not in families or not index.uses(file.path))
        return is_page or file.language not in GRAMMARS

    files = filter(is_unread, _files_naming(index, lookup.name))
    return [file.path for file in files if index.lines(file.path).mention(lookup.name)]


def _configurations_naming(index: CodeIndex, name: str) -> list[str]:
    """The places in configuration that have a name as a value, as schedules name jobs: one in each file."""
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-]|[\"']?\s*[:=])")
    files = (file for file in _files_naming(index, name) if get_language(file.language).kind is FileKind.CONFIG)
    texts = ((file.path, index.lines(file.path)) for file in files if file.language != "xml")
    named = ((path, next((line for line, text in lines.items() if word.search(text)), 0)) for path, lines in texts)
    return [f"{path}:{line}" for path, line in named if line]


def _first_of(places: Sequence[str]) -> str:
    return f"{min(places)} and {len(places) - 1} more" if len(places) > 1 else places[0]


def _count_lost_calls(index: CodeIndex, symbol: SymbolId, definition: Definition) -> int:
    """How many calls in a definition have a name defined here, but an unknown target."""
    return sum(
        use.role == "call" and resolution.possible and not resolution.symbols and bool(index.files_defining(use.name))
        for use, resolution in _uses_inside(index, symbol, definition, _proven_calls(index, symbol, definition))
    )


def _uses_inside(
    index: CodeIndex, symbol: SymbolId, definition: Definition, proven: Collection[tuple[int, str]]
) -> Iterator[tuple[Reference, Resolution]]:
    """What a definition uses and what that means, without the calls covered by a language server."""
    unit = index.unit(symbol.path)
    for use in all_references(index.uses(unit.path)):
        is_proven = use.role == "call" and (use.line, use.name) in proven
        if definition.start_line <= use.line <= definition.end_line and not is_proven:
            resolution = resolve(index, unit, use)
            yield _mark_invoked(index, unit, use, resolution), resolution


def _proven_calls(index: CodeIndex, symbol: SymbolId, definition: Definition) -> dict[tuple[int, str], SymbolId | None]:
    """The calls in a definition according to a language server, by line and name; None lies outside the index."""
    calls = index.proofs.get(Question(CALLS, symbol.path, definition.start_line, definition.name)) or ()
    lines = index.lines(symbol.path) if calls else {}
    named = [(call, call.name(lines.get(call.line, ""))) for call in calls]
    return {(call.line, name): _find_defined(index, call, name) for call, name in named}


def _follow(
    index: CodeIndex,
    lookup: Lookup,
    depth: int,
    edges_of: Callable[[CodeIndex, Lookup], list[code.CodeEdge]],
    end_of: Callable[[code.CodeEdge], str],
) -> list[code.CodeEdge]:
    """Edges up to `depth` calls away, each symbol visited once; a step goes on from the end of each edge."""
    edges: list[code.CodeEdge] = []
    seen: set[str] = set()
    border = [lookup]
    for _ in range(depth):
        reached: list[code.CodeEdge] = []
        for current in border:
            seen.update(map(str, current.symbols))
            reached += edges_of(index, current)
        edges += [edge for edge in reached if edge not in edges]
        ends = dict.fromkeys(end_of(edge) for edge in reached if edge.kind == "CALLS")
        border = [look_up(index, end) for end in ends if "::" in end and end not in seen]
    return edges


def _edges_from_callers(index: CodeIndex, lookup: Lookup) -> list[code.CodeEdge]:
    return [*callers(index, lookup), *dispatched_callers(index, lookup)]


def _edges_to_callees(index: CodeIndex, lookup: Lookup) -> list[code.CodeEdge]:
    """Overloads call alike: the first edge of each counts, in the place of its last."""
    made = [edge for symbol, body in lookup.bodies for edge in callees(index, symbol, body)]
    last_first = {(edge.source, edge.target, edge.kind): edge for edge in reversed(made)}
    return list(reversed(last_first.values()))


def callers(index: CodeIndex, lookup: Lookup, overriding: SymbolId | None = None) -> list[code.CodeEdge]:
    """`overriding`: a type that overrides the method, to keep only calls that may reach it."""
    edges: dict[tuple[str, str], code.CodeEdge] = {}
    only = str(next(iter(lookup.symbols))) if len(lookup.symbols) == 1 else lookup.name
    called = [use for use in find_uses(index, lookup).uses if use.reference.role == "call"]
    if overriding is not None:
        called = [use for use in called if _may_reach(index, use, overriding)]
    for usage in usages(index, lookup, called):
        if usage.edge == "CALLS":
            edge = _used_edge(usage, usage.definition or only, "CALLS")
            edges.setdefault((edge.source, edge.target), edge)
    if only != lookup.name and any(_is_run_by_type(index, symbol) for symbol in lookup.symbols):
        owner = replace(look_up(index, only.rpartition(".")[0]), outside_tests=lookup.outside_tests)
        for edge in callers(index, owner):
            edges.setdefault((edge.source, only), replace(edge, target=only))
    return list(edges.values())


def _is_run_by_type(index: CodeIndex, method: SymbolId) -> bool:
    """Whether calling a type runs a method: `Cart()` runs `Cart.__init__` or `Cart::Cart`, or `apply` of an object."""
    owner, name = index.definition(method.owner), method.qualified.rpartition(".")[2]
    is_applied = name == index.rules(method.path).names.called_as
    is_made = owner is not None and (name in CONSTRUCTORS or name == owner.name)
    return is_made or (owner is not None and is_applied and owner.kind == "object")


def _may_reach(index: CodeIndex, use: Use, overriding: SymbolId) -> bool:
    """Whether a call of a method may run what a type overrides it with: not through `super`, which runs the base
    alone, nor on a value of another class that extends the base."""
    receiver = use.reference.receiver.partition("(")[0].partition("<")[0]
    if receiver == "super" or receiver in use.file.rules.names.inherited:
        return False
    types = receiver_types(index, index.unit(use.file.path), use.reference) if receiver else []
    above = set(lineage(index, overriding))
    definitions = ((symbol, index.definition(symbol)) for symbol in types if symbol not in above)
    classes = [symbol for symbol, definition in definitions if definition and definition.kind == "class"]
    return not types or len(classes) < len(types)


def _used_edge(usage: code.Usage, target: str, kind: str) -> code.CodeEdge:
    source = f"{usage.file}::{usage.within}" if usage.within else usage.file
    return code.CodeEdge(source, target, kind, usage.file, usage.line, usage.confidence)


def is_registered(index: CodeIndex, path: str, start_line: int) -> bool:
    """A decorator or an attribute registers the definition elsewhere."""
    lines = index.lines(path)
    above = lines.get(start_line - 1, "").strip()
    first, opened = above, 0
    for line in range(start_line - 1, max(start_line - _MOST_DECORATOR_LINES, 0), -1):
        first = lines.get(line, "").strip()
        opened += sum(map(first.count, ")]}")) - sum(map(first.count, "([{"))
        if opened <= 0:
            break
    if _PLAIN_DECORATOR.match(first):
        return False
    return first.startswith(("@", "#[")) or (above.startswith("[") and above.endswith("]"))


def _find_references_without_call(index: CodeIndex, lookup: Lookup) -> list[code.CodeEdge]:
    """Where a function is named without being called: handed to a framework, a registry or another function."""
    functions = {symbol for symbol, definition in lookup.symbols.items() if definition.is_function}
    named = [use for use in find_uses(index, lookup).uses if use.reference.role != "call" and use.symbol in functions]
    edges = {
        (use.file, use.within): _used_edge(use, use.definition, "REFERENCES")
        for use in reversed(usages(index, lookup, named))
        if use.edge == "REFERENCES"
    }
    return list(edges.values())[::-1]


def dispatched_callers(index: CodeIndex, lookup: Lookup) -> list[code.CodeEdge]:
    """Calls of what a method overrides: they may reach it, as those of an interface reach its implementations."""
    overriding = _find_overridden(index, lookup)
    sources = {edge.source for edge in callers(index, lookup)} if overriding else set()
    return [
        replace(edge, target=str(symbol), confidence="syntactic")
        for symbol, base in overriding
        for called in [replace(look_up(index, str(base)), outside_tests=lookup.outside_tests)]
        for edge in callers(index, called, symbol.owner)
        if edge.source not in sources and edge.confidence != "syntactic"
    ]


def _find_inherited(index: CodeIndex, lookup: Lookup) -> list[SymbolId]:
    """What some definitions override or implement, unless it is one of them."""
    overridden = dict.fromkeys(base for _, base in _find_overridden(index, lookup))
    return [base for base in overridden if base not in lookup.symbols]


def _find_overridden(index: CodeIndex, lookup: Lookup) -> list[tuple[SymbolId, SymbolId]]:
    overridden = []
    for symbol, definition in lookup.symbols.items():
        is_member = definition.kind in ("method", "field", "property")
        is_inherited = is_member or index.rules(symbol.path).names.whole_modules
        if is_inherited and definition.name not in CONSTRUCTORS:
            overridden += [(symbol, base) for base in find_overridden(index, symbol)]
    return overridden


def callees(index: CodeIndex, symbol: SymbolId, definition: Definition) -> list[code.CodeEdge]:
    """What a definition calls, and the types it names, if they are defined here."""
    proven = _proven_calls(index, symbol, definition)
    edges = {
        (str(meant), "CALLS"): code.CodeEdge(str(symbol), str(meant), "CALLS", symbol.path, line, "compiler")
        for (line, _), meant in sorted(proven.items(), key=lambda call: -call[0][0])  # the first call of each counts
        if meant is not None
    }
    for use, resolution in _uses_inside(index, symbol, definition, proven):
        for meant in resolution.symbols:
            target = index.definition(meant)
            if meant == symbol and use.role != "call":
                continue
            names_type = target is not None and target.is_type and target.kind != "module"
            kind = "CALLS" if use.role == "call" else "REFERENCES_TYPE" if names_type else ""
            if kind:
                edge = code.CodeEdge(str(symbol), str(meant), kind, symbol.path, use.line, resolution.proof)
                edges.setdefault((str(meant), kind), edge)
    return sorted(edges.values(), key=lambda edge: edge.line)


def _find_related(index: CodeIndex, symbol: SymbolId, definition: Definition) -> list[code.CodeEdge]:
    edges = [code.CodeEdge(symbol.path, str(symbol), "DEFINES", symbol.path, definition.start_line, "resolved")]
    if definition.exported:
        edges.append(code.CodeEdge(symbol.path, str(symbol), "EXPORTS", symbol.path, definition.start_line, "resolved"))
    for base in find_bases(index, symbol):
        found = index.definition(base)
        implements = found is not None and found.kind in INTERFACES and found.kind != definition.kind
        kind = "IMPLEMENTS" if implements else "EXTENDS"
        edges.append(code.CodeEdge(str(symbol), str(base), kind, symbol.path, definition.start_line, "resolved"))
    return edges


# --- callers of search results -------------------------------------------------------------------------------------


class Caller(Struct, frozen=True):
    """A definition that calls another one, by its first call; `within` is empty at the top level of a file."""

    path: str
    line: int
    within: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.within}".rstrip()


def near_callers(index: CodeIndex, path: str, qualified: str) -> tuple[Caller, ...]:
    """The callers of a definition in its own file and in its most important importers, tests excluded. Resolved ones
    first, then by number of calls. Few files are read, since a search waits for this."""
    key = ("callers", path, qualified)
    calls: tuple[Caller, ...] = index.answers.once(key, lambda: _near_callers(index, path, qualified))
    return calls


def _near_callers(index: CodeIndex, path: str, qualified: str) -> tuple[Caller, ...]:
    if path not in index.graph.files:
        return ()
    unit = index.unit(path)
    symbol = SymbolId(path, unit.without_namespace(qualified))
    definition = index.definition(symbol)
    if definition is None:
        return ()
    meant = look_up(index, str(symbol)).symbols.keys() if unit.rules.imports.headers else {symbol}
    paths = dict.fromkeys((path, *(part.path for part in meant)))
    importing = (edge.source for target in paths for edge in index.graph.edges_to(target))
    files = (index.graph.files[file] for file in dict.fromkeys((*paths, *importing)))
    near = [file for file in files if not file.is_test][:_NEAR_FILES]
    index.read_uses(near)
    is_only = index.files_defining(definition.name) <= {*paths} and len(unit.named(definition.name)) == 1
    passing = {path} if is_default_export(index, symbol, definition) else ()
    calls: dict[tuple[bool, str, str], list[int]] = {}  # lines
    for file in near:
        for use, resolution in resolved_uses(index, file, definition.name, passing):
            resolved = not meant.isdisjoint(resolution.symbols)
            if index.is_inline_test(file.path, use.within):
                continue
            if use.role == "call" and (resolved or (resolution.possible and is_only)):
                calls.setdefault((not resolved, file.path, use.within), []).append(use.line)
    # Otherwise by importance, the order of discovery.
    ordered = sorted(calls.items(), key=lambda call: (call[0][0], -len(call[1])))
    return tuple(Caller(path, lines[0], within) for (_, path, within), lines in ordered)
