"""What a name means in a file: the steps from a written name to the definitions it may mean.

    find_local         what the functions and blocks around a use bind: a variable hides everything below
    resolve_bare       the definitions around it, then the top level of the file and its imports, then what needs no
                       import: the package, wildcard imports, headers, macros
    resolve_imported   what the imports of a file bind a name to, each by its own rule (`_sources_of`)
    resolve_export     a top-level name of another file, followed through re-exports
    find_member        a name of a type: its own, or the nearest inherited one
    resolve_dotted     a path of names: `resolve_bare` for the first, `resolve_attribute` for the others

`names.py` does the same for values, whose type has to be found first. An answer has several symbols if overloads or
platform variants share a name. Answers are kept in the index's memo and shared, so they must not be modified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from posixpath import dirname
from typing import NamedTuple

from msgspec.structs import replace

from codeinfo.cache import Item, group_by_key, reachable
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.conventions import TAG_LIBRARY, find_helper, find_in_protocol, has_accessors, offers_to_pages
from codeinfo.graph.model import PARTS, ModuleId, SymbolId, Unit, symbols_of
from codeinfo.graph.uses import EMBEDS, Row, find_closing, split_outside_brackets, written_types
from codeinfo.languages.model import ancestors, attributes_above, enclosing_names, language_family, nearest_all
from codeinfo.languages.modules import longer_path
from codeinfo.model import MAX_SIGNATURE, Definition, Import, Reference
from codeinfo.ports import FileLines

_MAX_BASES = 60  # a class of PHP may have dozens of traits
_PARTIAL = re.compile(r"\bpartial\b")
_MOST_OPENING = 16  # files that open a type to add to it; those of more open a namespace
_MOST_DEFINING = 60  # files whose interfaces are compared with a type
_GENERIC = re.compile(r"\w\[")  # a type with parameters: `Store[T any]`
_INLINE_TYPE = re.compile(r"func\(|\{")
_NAMED_TYPE = re.compile(r"(?!chan\b|func\b|interface\b|struct\b)[^\W\d]\w*\s+(\S.*)")
_PACKAGE = re.compile(r"\b\w+\.(?=[^\W\d])")
_SAME_TYPES = {"byte": "uint8", "rune": "int32"}
_MOST_IMPORT_LINES = 60  # of one statement
_MOST_MACROS = 2  # of one name: more are test helpers, each visible only in its own function

# What a facade of Laravel passes calls on to: `@see CartManager`, `return CartManager::class;`.
_FACING = re.compile(r"(?:@(?:see|mixin)|(?<=\n)[ \t]+return)\s+(\\?[A-Z][\w\\]*)(?=\s*\n|::class;)")
_OBJECT = re.compile(r"=\s*(?:Object\.freeze\(\s*)?\{\s*(?://.*)?$")  # `const cart = {`
_ACCESSOR = re.compile(r"(?:get|set|is)([A-Z]\w*)")
EXPORTED = "exports"  # what `module.exports` is bound to
_DEFAULTS = {"default": ("default", EXPORTED), EXPORTED: (EXPORTED,)}  # the rows that say what a name stands for
_IMPORTING = re.compile(
    r"\s*(?:(?:import|from|require\w*|#include)\b|(?:pub )?use |using |export(?: default| type)? *(?:[{*]|\w+;?$))"
)
# A line of names listed by an import, and no declaration.
_LISTED = re.compile(r"(?!\s*(?:const|let|var)\s)[\s\w$,:*{}]+;?\s*")
_IMPORT_CALL = re.compile(r"(?:await )?(?:require|import)\(")
_NAMED_VALUE = re.compile(r"(?:[\w$.]+ = )*([^\W\d][\w$.]*)")

Meaning = Sequence[SymbolId | ModuleId]
Source = ModuleId | Callable[[], Meaning]  # a callable reads the file a name comes from


# --- scopes ----------------------------------------------------------------------------------------------------------


def find_local(index: CodeIndex, unit: Unit, name: str, use: Reference, *, before: bool = False) -> list[Row]:
    """What binds a name inside the functions and blocks around a use, innermost first. Empty if that is a definition
    of its own, or if a function declares that it means an outer name."""
    bindings = index.bindings(unit)
    if not bindings.of(name):
        return []
    around = [scope for scope in enclosing_names(use.within) if not _holds_members(unit, scope)]
    rows = bindings.visible(name, use.line, around, before=True) if before else []
    rows = rows or bindings.visible(name, use.line, around)
    rows = [row for row in rows if _is_same_body(unit, row, use.line) and not _binds_import(unit, row)]
    if not rows or any(row.mark == "!" for row in rows):
        return []
    # A parameter may share its method's name, or also be a field; in Python a fixture may extend the one of its name.
    others = (other for other in unit.named(name) if other.kind not in {"method", "property", "field"})
    defined = {other.start_line: other.qualified if unit.rules.names.fixtures else "" for other in others}
    is_defined = any(row.line in defined and row.scope != (defined[row.line] or None) for row in rows) or (
        defined and any(unit.without_namespace(f"{row.scope}.{name}") in unit.by_qualified for row in rows)
    )
    return [] if is_defined else rows


def _binds_import(unit: Unit, row: Row) -> bool:
    """Whether a variable of JavaScript stands for an import, also inside of a function."""
    is_call = unit.rules.names.default_exports and _IMPORT_CALL.match(row.text) is not None
    return is_call and any(row.name in (import_.alias or import_.names) for import_ in unit.by_shown.get(row.name, ()))


def _is_same_body(unit: Unit, row: Row, line: int) -> bool:
    """Overloads are one scope, but each has its own variables."""
    named = unit.named(row.scope.rpartition(".")[2]) if row.scope and not row.end else ()
    overloads = (range(body.start_line, body.end_line + 1) for body in named if body.qualified == row.scope)
    bodies = [body for body in overloads if row.line in body]
    return not bodies or any(line in body for body in bodies)


def _holds_members(unit: Unit, qualified: str) -> bool:
    """Whether a scope is a type or a namespace: what it binds are no variables."""
    definition = unit.by_qualified.get(unit.without_namespace(qualified))
    is_namespace = any(space.startswith(f"{qualified}.") for space in unit.namespaces)
    return is_namespace or (definition is not None and definition.is_type)


def resolve_bare(index: CodeIndex, unit: Unit, name: str, within: str) -> Meaning:
    """What a name without a receiver means inside `within`."""
    if unit.rules.names.constants and name[:1].isupper():
        return _resolve_constant(index, name, within) or _find_inherited_constant(index, unit, name, within)
    for scope in enclosing_names(unit.without_namespace(within)):
        if symbols := _find_in_scope(index, unit, scope, name) or _find_imported_in(index, unit, scope, name):
            return symbols
    return (
        _find_in_file(index, unit, name)
        or _find_without_import(index, unit, name)
        or _find_macro(index, unit, name)
        or _find_in_class_body(unit, name, within)
        or _find_in_library(index, unit, name)
        or find_helper(index, unit, name)
        or _find_offer(index, unit, name)
        or _find_without_namespace(index, unit, name)
        or _find_single_extension(index, unit, name)
    )


def _find_in_class_body(unit: Unit, name: str, within: str) -> Meaning:
    """A name of the class in whose body it is used; `layout = layout.Row()` means another one first."""
    owner = unit.by_qualified.get(within) if unit.rules.names.class_scope else None
    is_own = owner is not None and owner.is_type and f"{within}.{name}" in unit.by_qualified
    return [SymbolId(unit.path, f"{within}.{name}")] if is_own else []


class Offer(NamedTuple):
    """What pages may use by a name, and the file that says so; a library of tags has to be loaded."""

    name: str
    path: str
    symbol: SymbolId


def find_offers(index: CodeIndex) -> Sequence[Offer]:
    """What a program gives to its pages."""

    def find() -> list[Offer]:
        offers = []
        for name, path, written in offers_to_pages(index):
            meaning = resolve_dotted(index, index.unit(path), written, "")
            offers += [Offer(name, path, symbol) for symbol in symbols_of(meaning)]
        return offers

    return index.memo.once(("offers to pages",), find)


def _find_offer(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What a page may use by a name that the program gives it."""
    if not (unit.rules.is_template and unit.rules.names.dotted_modules):
        return []

    def find() -> Meaning:
        family = language_family(unit.facts.language)
        loaded = {target.path for target in index.targets(unit, *unit.imports)}
        seen = (
            offer.symbol
            for offer in find_offers(index)
            if offer.name == name
            and language_family(index.graph.files[offer.path].language) == family
            and (TAG_LIBRARY not in offer.path or offer.path in loaded)
        )
        return list(dict.fromkeys(seen))

    return index.memo.once(("offered", unit.path, name), find)


def _find_without_namespace(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What files of PHP define in no namespace: others see the functions, and write `\\Cart` for a class."""
    if not unit.rules.imports.full_names:
        return []
    files, kinds = index.graph.files, ("function", "class", "interface", "trait", "enum")
    outside = (path for path in sorted(index.files_defining(name)) if not files[path].packages)
    units = [index.unit(path) for path in outside if files[path].rules.imports.full_names]
    defining = [other.path for other in units if any(definition.kind in kinds for definition in other.by_name[name])]
    return [SymbolId(path, name) for path in nearest_all(defining, unit.folder)]


def _resolve_constant(index: CodeIndex, name: str, within: str) -> Meaning:
    """What a Ruby constant means: the one in the innermost enclosing module for which any file defines the name."""
    last = name.rpartition(".")[2]
    defined: Mapping[str, Meaning] | None = index.memo.get(("constants", last))
    if defined is None:
        files = (index.graph.files[path] for path in sorted(index.files_defining(last)))
        units = (index.unit(file.path) for file in files if file.rules.names.constants)
        symbols = (SymbolId(unit.path, definition.qualified) for unit in units for definition in unit.named(last))
        by_name = group_by_key((symbol.qualified, symbol) for symbol in dict.fromkeys(symbols))
        defined = index.memo.add(("constants", last), by_name)
    candidates = (*(f"{scope}.{name}" for scope in enclosing_names(within)), name)
    return next((defined[candidate] for candidate in candidates if candidate in defined), [])


def _find_inherited_constant(index: CodeIndex, unit: Unit, name: str, within: str) -> Meaning:
    """A Ruby constant of what the class around extends or includes."""
    owner = unit.type_around(within)
    return find_member(index, owner, name) if owner else []


def _find_in_scope(index: CodeIndex, unit: Unit, scope: str, name: str) -> Meaning:
    inner, owner = f"{scope}.{name}", unit.by_qualified.get(scope)
    is_type = owner is not None and owner.is_type
    if unit.rules.names.implicit_self and name == scope.rpartition(".")[2]:
        return []  # the type itself, not its constructor
    if is_type and unit.rules.names.implicit_self:
        return find_member(index, SymbolId(unit.path, scope), name)
    # What a variable or a table holds is written after its name.
    is_held = owner.kind in {"variable", "constant"} if owner else unit.rules.names.tables
    definition = unit.by_qualified.get(inner)
    # A method of a type that another file defines, as in Go, needs a receiver; so does one of an object in a function.
    is_member = (owner is None or owner.is_function) and definition is not None and definition.kind == "method"
    if definition is None and owner is None:
        types = find_declared_type(index, unit, scope)
        return [symbol for type_ in types for symbol in find_member(index, type_, name)]
    is_closed = is_type and owner is not None and owner.kind != "module"
    if definition is None or is_closed or is_held or (is_member and not unit.rules.names.implicit_self):
        return []
    return [whole_type(index, SymbolId(unit.path, inner))]


def find_declared_type(index: CodeIndex, unit: Unit, scope: str) -> Sequence[SymbolId]:
    """The type in a header whose members a file of C++ defines: `void Cart::add() { … }`."""
    if not unit.rules.imports.headers or not unit.rules.names.implicit_self:
        return []

    def find() -> Sequence[SymbolId]:
        symbols = symbols_of(resolve_dotted(index, unit, scope, ""))
        return [symbol for symbol in symbols if is_type(index, symbol)]

    return index.memo.once(("declared", unit.path, scope), find)


def _find_imported_in(index: CodeIndex, unit: Unit, scope: str, name: str) -> Meaning:
    """What an import inside a function brings in, before the file's own definitions."""
    owner = unit.by_qualified.get(scope) if name in unit.by_qualified and name in unit.by_shown else None
    lines = range(owner.start_line, owner.end_line + 1) if owner is not None and owner.is_function else ()
    inside = [import_ for import_ in unit.by_shown.get(name, ()) if import_.line in lines]
    return _read_sources(index, unit, inside, name)


def _find_in_file(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What the top level of a file defines or imports."""
    imported = resolve_imported(index, unit, name)
    if unit.rules.names.imports_open and not symbols_of(imported):
        imported = _find_without_import(index, unit, name) or imported  # a module may have a type of its name
    module = _module_file(index, unit, name)
    definition = unit.by_qualified.get(name)
    if definition is None or _needs_owner_or_mark(unit, definition) or (module and definition.kind == "module"):
        return module or imported
    # `try: from a import b` / `except ImportError: b = None` gives a name two meanings.
    also = imported if definition.kind in {"variable", "constant"} and not module else []
    return [*module, whole_type(index, SymbolId(unit.path, name)), *also]


def _needs_owner_or_mark(unit: Unit, definition: Definition) -> bool:
    """Whether a name alone does not mean a definition at the top level of a file: in JavaScript a member of an object,
    `{ add() {} }` and `exports.total = 0`, in PHP a variable."""
    if unit.rules.names.needs_mark(definition):
        return True
    is_member = definition.kind == "method" or definition.signature.startswith(("exports.", "module.exports."))
    return is_member and unit.rules.names.default_exports


# --- what needs no import --------------------------------------------------------------------------------------------


def _find_without_import(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """Names that need no qualification: those of the package, from wildcard imports, and from headers."""

    def find() -> Meaning:
        defining = index.files_defining(name)
        visible = index.visible(unit) if defining else ()
        share, by_path = unit.rules.names.libraries, index.graph.files
        files = [path for path in visible if path in defining and (share or name not in by_path[path].hidden)]
        opened = [*files, *_opened_files(index, unit, defining)]
        exported = [symbol for path in opened for symbol in resolve_export(index, path, name)]
        members = _find_in_opened_types(index, unit, name) if defining and not exported else []
        every = list(dict.fromkeys((*exported, *members, *_find_in_headers(index, unit, name, defining))))
        types = [symbol for symbol in symbols_of(every) if is_type(index, symbol)]
        # which folders are one target of Swift is guessed, so that its types compete with those of other targets
        has_guessed_targets = unit.rules.names.extensions and unit.rules.names.open_types
        near = nearest_all([symbol.path for symbol in types], unit.folder) if has_guessed_targets else ()
        return [symbol for symbol in types if symbol.path in near] if near and len(types) == len(every) else every

    return index.memo.once(("beside", unit.path, name), find)


def is_type(index: CodeIndex, symbol: SymbolId) -> bool:
    definition = index.definition(symbol)
    return definition is not None and definition.is_type


def find_extensions(index: CodeIndex, unit: Unit, name: str) -> Sequence[SymbolId]:
    """The extensions of Kotlin that a file sees under a name: those that it imports, otherwise what needs no import."""
    if not unit.rules.names.extensions or unit.rules.names.open_types or not index.files_defining(name):
        return []

    def find() -> Sequence[SymbolId]:
        near = {unit.path, *index.visible(unit)}
        defining = index.files_defining(name)
        opened = (*sorted(near & defining), *_opened_files(index, unit, defining))
        units = map(index.unit, dict.fromkeys(find_imported_from(index, unit, name) or opened))
        return [SymbolId(other.path, definition.qualified) for other in units for definition in other.extensions(name)]

    return index.memo.once(("extensions", unit.path, name), find)


def _find_single_extension(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    extensions = find_extensions(index, unit, name)
    return extensions if len(extensions) == 1 else []


def find_imported_from(index: CodeIndex, unit: Unit, name: str) -> list[str]:
    """The files that imports of a file take a name from."""
    targets = index.targets(unit, *unit.by_shown.get(name, ()))
    return [target.path for target in targets if name in target.names]


def _find_in_library(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What the library imports that a file of Dart is a part of."""
    if not unit.rules.names.libraries or unit.imports:
        return []
    others = index.visible(unit)
    units = (other for other in map(index.unit, others) if other.imports)
    meanings = (_find_in_file(index, other, name) or _find_without_import(index, other, name) for other in units)
    return next(filter(None, meanings), [])


def _opened_files(index: CodeIndex, unit: Unit, defining: frozenset[str]) -> Iterator[str]:
    """Where wildcard imports lead; of a package only the files that define the name."""
    for import_ in unit.imports:
        if import_.names == ("*",) or (unit.rules.names.imports_open and not import_.names):
            outcome = index.outcome(unit.facts, import_)
            is_type = unit.rules.imports.paths  # `use Shape::*` of Rust: the file is not opened, its enum is
            files = (target.path for target in outcome.targets if not (is_type and target.names not in ((), ("*",))))
            yield from (path for path in files if not outcome.package or path in defining)


def _find_in_opened_types(index: CodeIndex, unit: Unit, name: str) -> Iterator[SymbolId | ModuleId]:
    """What `import static shop.Prices.*` brings in, `using static Shop.Prices`, `import shop.Prices.*` in Scala, or
    `use Shape::*` in Rust."""
    for import_ in unit.imports if _names_types(unit) or unit.rules.imports.paths else ():
        for target in index.targets(unit, import_) if import_.names == ("*",) else ():
            for owner in (inner for inner in target.names if inner != "*"):
                members = [*_inner_names(unit, import_, owner), name]
                yield from _resolve_inside(index, target.path, owner, members)


def _find_in_headers(index: CodeIndex, unit: Unit, name: str, defining: frozenset[str], namespace: str = "") -> Meaning:
    """What the headers define that a file of C or C++ includes, in the namespace if one is written, otherwise first in
    those that the file opens; any file for a type that it only declares."""
    if not unit.rules.imports.headers or not defining:
        return []
    headers = defining & {unit.path, *find_included(index, unit.path)}
    if not headers:
        text = index.lines(unit.path).whole_text()
        headers = defining if f"class {name};" in text or f"struct {name};" in text else headers
    symbols: list[SymbolId | ModuleId] = []
    for path in sorted(headers):
        for declared in resolve_export(index, path, name) or _find_enumerators(index.unit(path), name):
            symbols += _find_body(index, declared)
    if namespace:
        return [symbol for symbol in symbols if is_inside(index, symbol, namespace)]
    opened = _OPENED.findall(index.lines(unit.path).whole_text()) if len(symbols) > 1 else ()
    return [symbol for symbol in symbols if any(is_inside(index, symbol, space) for space in opened)] or symbols


def _find_enumerators(unit: Unit, name: str) -> list[SymbolId]:
    """The members of an enumeration are names of the scope around it, unless it is an `enum class`."""
    enumerators = []
    for member in unit.named(name):
        owner = unit.by_qualified.get(unit.without_namespace(member.qualified.rpartition(".")[0]))
        is_scoped = owner is not None and re.match(r"enum (?:class|struct)\b", owner.signature)
        if member.kind == "enum_member" and not is_scoped:
            enumerators.append(unit.symbol(member))
    return enumerators


def is_inside(index: CodeIndex, symbol: SymbolId | ModuleId, namespace: str) -> bool:
    definition = index.definition(symbol) if isinstance(symbol, SymbolId) else None
    return definition is not None and f".{namespace.replace('::', '.')}." in f".{definition.qualified}"


def _find_body(index: CodeIndex, symbol: SymbolId | ModuleId) -> Meaning:
    """The function that a header only declares, if one alone has its whole name: there may be one for each platform."""
    declaration = index.definition(symbol) if isinstance(symbol, SymbolId) else None
    if declaration is None or declaration.kind != "prototype":
        return [symbol]
    bodies = [
        unit.symbol(body)
        for unit, body in index.definitions_of(declaration.name)
        if body.is_function and body.qualified == declaration.qualified and unit.rules.imports.headers
    ]
    return bodies if len(set(bodies)) == 1 else [symbol]


def find_included(index: CodeIndex, path: str) -> frozenset[str]:
    """The files that a file of C or C++ includes, directly or through others."""

    def targets(source: str) -> list[str]:
        return [edge.target for edge in index.graph.edges_from(source)]

    paths: frozenset[str] = index.answers.once(("included", path), lambda: frozenset(reachable(targets(path), targets)))
    return paths


def is_namespace(index: CodeIndex, unit: Unit, written: str) -> bool:
    """Whether something written before a name of C++ is a namespace of a header that the file includes."""
    if not unit.rules.imports.headers:
        return False

    def find() -> set[str]:
        paths = (unit.path, *find_included(index, unit.path))
        return {name for path in paths for name in index.graph.files[path].packages}

    return written in index.answers.once(("namespaces", unit.path), find)


def _module_file(index: CodeIndex, unit: Unit, name: str) -> Sequence[ModuleId]:
    """The file of a module that is only declared: `mod pool;`, or that has a namespace of TypeScript."""
    if not unit.rules.names.inline_modules:
        spaces = unit.namespaces if unit.rules.names.default_exports else ()
        return [ModuleId((unit.path,), name) for space in spaces if f".{space}".endswith(f".{name}.")]
    lines = {module.start_line for module in unit.named(name) if module.kind == "module" and module.qualified == name}
    declared = [import_ for import_ in unit.by_shown.get(name, ()) if import_.line in lines and not import_.names]
    return [ModuleId((target.path,), name) for target in index.targets(unit, *declared) if not target.names]


def path_start(index: CodeIndex, unit: Unit, name: str) -> Sequence[ModuleId]:
    """The crate or module that a path starts from without an import."""
    if not unit.rules.imports.paths:
        return []
    return [ModuleId((to.path,), name) for to in index.targets(unit, Import(name, 0)) if not to.names]


def _find_macro(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """A macro of Rust without an import: the nearest of those in the same crate or exported by an attribute."""
    if unit.rules.names.calls != "macro":
        return []
    crate, macros = _crate_of(index, unit.folder), dict[str, SymbolId]()
    for other, macro in index.definitions_of(name):
        if macro.kind == "macro" and (
            _crate_of(index, other.folder) == crate
            or _has_attribute(index.lines(other.path), macro.start_line, "macro_export")
        ):
            macros[other.path] = SymbolId(other.path, macro.qualified)
    near = [unit.path] if unit.path in macros else nearest_all(list(macros), unit.folder)
    return [macros[path] for path in near] if len(near) <= _MOST_MACROS else []


def _crate_of(index: CodeIndex, folder: str) -> str:
    """The folder of the crate that a folder of Rust belongs to."""
    manifests = ((above, f"{above}/Cargo.toml".lstrip("/")) for above in ancestors(folder))
    return next((above for above, manifest in manifests if manifest in index.graph.files), "")


def _has_attribute(lines: FileLines, line: int, name: str) -> bool:
    """Whether a Rust attribute stands on a line or directly above it."""
    return any(f"#[{name}" in text for text in (lines.get(line, ""), *attributes_above(lines, line)))


# --- imports ---------------------------------------------------------------------------------------------------------


def find_import(unit: Unit, use: Reference, text: str) -> Import | None:
    """The import a use belongs to; `text` is its line."""
    for import_ in unit.imports:
        whole = not import_.names and use.line == import_.line and use.name in last_names((import_.module,))
        if (whole or use.name in import_.names or import_.alias == use.name) and import_.line <= use.line:
            if use.line == import_.line or _IMPORTING.match(text):
                return import_
            # A line continues an import's list of names if no definition starts before it.
            is_alone = text.strip(" \t,)};") in (use.name, import_.alias) or (
                _LISTED.fullmatch(text) is not None
                and not any(import_.line < definition.start_line <= use.line for definition in unit.definitions)
            )
            if is_alone and use.line < import_.line + 200:
                return import_
    return None


def last_names(bases: Sequence[str]) -> set[str]:
    return {base.replace("::", ".").replace("\\", ".").rpartition(".")[2] for base in bases}


def find_renaming(index: CodeIndex, unit: Unit, name: str, line: int) -> list[Import]:
    """The imports that give a name on a line another one."""
    giving = [import_ for import_ in unit.by_shown.get(name, ()) if import_.alias and name in import_.names]
    on_line = [import_ for import_ in giving if import_.line == line]
    above = [import_ for import_ in giving if import_.line < line <= import_.line + _MOST_IMPORT_LINES]
    if unit.rules.names.default_exports:  # the module ends the statement
        lines = index.lines(unit.path)
        texts = [(import_, [lines.get(at, "") for at in range(import_.line, line)]) for import_ in above]
        above = [import_ for import_, between in texts if not any(import_.module in text for text in between)]
    return on_line or above[-1:]


def resolve_renamed(index: CodeIndex, unit: Unit, name: str, renaming: Sequence[Import]) -> Meaning:
    """What a name means in the imports that rename it."""
    meaning: list[SymbolId | ModuleId] = []
    for target in index.targets(unit, *renaming):
        meaning += resolve_export(index, target.path, name) if target.names else [ModuleId((target.path,), name)]
    return meaning


def takes_module(index: CodeIndex, unit: Unit, import_: Import) -> bool:
    """Whether what an import names is a file: `from shop import cart`."""
    targets = index.targets(unit, import_)
    return bool(targets and import_.names) and not any(target.names for target in targets)


def resolve_imported(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What imports bind a name to in a file. Only this name is followed: no file is read for the others, and if only
    an import that names it can bring it, no other import is resolved."""
    if "." in name and unit.rules.imports.full_names:

        def find() -> Meaning:
            targets = index.resolver.of(unit.facts).full_name(unit.facts, unit.imports, name)
            last = name.rpartition(".")[2]
            return [symbol for target in targets for symbol in resolve_export(index, target.path, last)]

        return index.memo.once(("full", unit.path, name), find)
    if "." in name and unit.rules.names.constants and not index.files_defining(name.partition(".")[0]):
        return _resolve_constant(index, name, "")  # `class Shop::Cart`, without a `module Shop` anywhere
    imports = unit.by_shown.get(name, ()) if unit.rules.names.imports_show else unit.imports
    if not imports and (auto_import := index.resolver.of(unit.facts).auto_imports(unit.facts).get(name)):
        imports = (auto_import,)
    if not imports:
        return []
    return index.memo.once(("imported", unit.path, name), lambda: _read_sources(index, unit, imports, name))


def _read_sources(index: CodeIndex, unit: Unit, imports: Sequence[Import], name: str) -> Meaning:
    sources = chain.from_iterable(_sources_of(index, unit, import_) for import_ in imports)
    named = [source for bound, source in sources if bound == name]
    return [symbol for source in named for symbol in (source() if callable(source) else (source,))]


def _sources_of(index: CodeIndex, unit: Unit, import_: Import) -> Iterator[tuple[str, Source]]:
    """The names that an import brings into a file, and where from."""
    outcome = index.outcome(unit.facts, import_)
    if outcome.status == "external" and unit.rules.imports.paths:
        import_ = longer_path(import_, unit.imports) or import_
        outcome = index.outcome(unit.facts, import_)
    if outcome.package:
        (name,) = unit.rules.imports.bound(replace(import_, names=()))
        yield name, ModuleId(tuple(target.path for target in outcome.targets), import_.module)
        return
    for target in outcome.targets:
        if not target.names:
            name = import_.alias or _module_name(import_, target.path)
            yield name, partial(resolve_module, index, ModuleId((target.path,), import_.module))
            if not import_.alias and not import_.names and "." in name and unit.rules.names.dotted_modules:
                first = name.partition(".")[0]  # `import a.b` binds a
                top = index.targets(unit, Import(first, import_.line))
                yield from ((first, ModuleId((package.path,), first)) for package in top if not package.names)
        for name in target.names:
            inner = _inner_names(unit, import_, name)
            if inner or (import_.names and name not in import_.names):  # or of a crate that a file re-exports
                for members in [[*inner, member] for member in import_.names] or [inner]:
                    yield import_.alias or members[-1], partial(_resolve_inside, index, target.path, name, members)
            else:
                yield import_.alias or name, partial(_resolve_imported_name, index, target.path, name, import_.alias)


def _module_name(import_: Import, target: str) -> str:
    """`import a.b` binds a path to be written out; `from a import b` with a module b binds b."""
    if not import_.names:
        return import_.module.rpartition("::")[2] if "::" in import_.module else import_.module
    stem = target.rpartition("/")[2].partition(".")[0]
    if stem in {"__init__", "mod", "index"}:
        stem = dirname(target).rpartition("/")[2]
    return stem


def _resolve_imported_name(index: CodeIndex, path: str, name: str, alias: str) -> Meaning:
    """A default export without a name is mostly called as the import or its file is; otherwise the file stands for the
    object it exports. A member of what `module.exports` holds is taken by its name."""
    if symbols := resolve_export(index, path, name):
        return symbols
    if name != "default" or not alias:
        return _descend(index, resolve_export(index, path, EXPORTED), [name]) if name != EXPORTED else []
    named = (resolve_export(index, path, export) for export in (alias, path.rpartition("/")[2].partition(".")[0]))
    return next(filter(None, named), [ModuleId((path,), name)])


def resolve_module(index: CodeIndex, module: ModuleId) -> Meaning:
    """What a name for a whole file means: in CommonJS also what `module.exports` is set to."""
    has_defaults = index.rules(module.paths[0]).names.default_exports
    exported = resolve_export(index, module.paths[0], EXPORTED) if has_defaults else ()
    return [*(symbol for symbol in exported if symbol != module), module]


def _names_types(unit: Unit) -> bool:
    """Whether imports of a file name types, by their whole names."""
    return unit.rules.imports.binds_last or unit.rules.imports.owned


def _inner_names(unit: Unit, import_: Import, name: str) -> list[str]:
    """What an import names inside of a type, `prices`, `low` of `import shop.Cart.prices.low`, or of what a file of
    Rust re-exports: `cart`, `price` of `use shop::kit::cart::price`."""
    is_path = unit.rules.imports.paths
    parts = re.split(r"::|\.", import_.module) if is_path or _names_types(unit) else []
    return parts[parts.index(name) + 1 :] if name in parts else []


def _resolve_inside(index: CodeIndex, path: str, name: str, members: Sequence[str]) -> Meaning:
    return _descend(index, resolve_export(index, path, name), members)


# --- exports ---------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A name at the top level of a file."""

    path: str
    name: str


def resolve_export(index: CodeIndex, path: str, name: str) -> Meaning:
    """A top-level name of a file, followed through re-exports: depth first, in the order of the imports."""
    start = Place(path, name)
    memorized: Meaning | None = index.memo.get(start)
    if memorized is not None:
        return memorized
    tried: set[Place] = set()
    waiting: list[Place | ModuleId] = [start]
    meaning: Meaning = []
    while waiting and not meaning:
        current = waiting.pop()
        if isinstance(current, ModuleId):
            meaning = resolve_module(index, current)
        elif current not in tried:
            tried.add(current)
            memorized = index.memo.get(current)
            meaning = memorized if memorized is not None else _find_top_level(index, *current)
            if memorized is None and not meaning:
                waiting += reversed(_reexport_sources(index, *current))
    # If nothing is found, nothing was left untried: no file on the way exports it either.
    for place in [start] if meaning else tried:
        index.memo.add(place, meaning)
    return meaning


def _find_top_level(index: CodeIndex, path: str, name: str) -> Meaning:
    """What a file itself has under a top-level name."""
    unit = index.unit(path)
    if unit.rules.names.default_exports and name in _DEFAULTS:
        return index.memo.once(("default", path, name), lambda: _find_default_export(index, unit, name))
    module, offered = _module_file(index, unit, name), unit.exported_as(name)
    if not offered or (module and unit.by_qualified[offered].kind == "module"):
        return module or _find_renamed_export(index, unit, name)
    return [*module, whole_type(index, SymbolId(path, offered))]


def _find_renamed_export(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What `export { cart as name }` or `module.exports = { name: cart }` offers."""
    rows = index.bindings(unit).inside(name, "") if unit.rules.names.default_exports else ()
    named = [match[1] for row in rows if (match := _NAMED_VALUE.fullmatch(row.text)) and match[1] != name]
    return resolve_dotted(index, unit, named[-1], "") if named else []


def _find_default_export(index: CodeIndex, unit: Unit, name: str) -> Meaning:
    """What `export default cart` or `module.exports = cart` names."""
    named = (_NAMED_VALUE.fullmatch(text) for text in exported_values(index, unit.path, name))
    return next((meaning for match in named if match and (meaning := resolve_dotted(index, unit, match[1], ""))), [])


def exported_values(index: CodeIndex, path: str, name: str) -> list[str]:
    """What a file of JavaScript exports by default or assigns to `module.exports`, as it is written."""
    bindings = index.bindings(index.unit(path))
    return [row.text for export in _DEFAULTS[name] for row in bindings.of(export)]


def _reexport_sources(index: CodeIndex, path: str, name: str) -> list[Place | ModuleId]:
    """Where else a file may get a name from."""
    sources: list[Place | ModuleId] = []
    unit = index.unit(path)
    for import_ in unit.imports_for(name):
        if import_.names and import_.alias not in ("", name):
            continue  # it is known by its new name only
        if unit.rules.names.libraries and not import_.reexport:
            continue
        outcome = index.outcome(unit.facts, import_)
        for target in () if outcome.package else outcome.targets:  # a package is not re-exported
            if not target.names and import_.names != ("*",):
                if _module_name(import_, target.path) == name or import_.alias == name:
                    sources.append(ModuleId((target.path,), import_.module))
            elif target.path != path:
                is_renamed = import_.alias == name and import_.names
                sources.append(Place(target.path, import_.names[0] if is_renamed else name))
    return sources


# --- types and members -----------------------------------------------------------------------------------------------


def find_member(index: CodeIndex, owner: SymbolId, name: str) -> Sequence[SymbolId]:
    """A member of a type, its own or the nearest inherited one."""
    own_or_inherited = (find_own_member(index, type_, name) for type_ in lineage(index, owner))
    members = next(filter(None, own_or_inherited), [])
    if members and _is_part(index, whole_type(index, owner)):  # a type from outside has what our protocol asks of it
        members = [symbol for symbol in members if not _is_requirement(index, symbol)]
    return members or _find_accessor_field(index, owner, name) or _find_in_named_extensions(index, owner, name)


def _is_requirement(index: CodeIndex, member: SymbolId) -> bool:
    """Whether a protocol of Swift asks for a member; what an extension adds lies outside of it."""
    definition, owner = index.definition(member), index.definition(member.owner)
    if definition is None or owner is None or owner.kind != "protocol":
        return False
    return owner.start_line <= definition.start_line <= owner.end_line


def _find_accessor_field(index: CodeIndex, owner: SymbolId, name: str) -> Sequence[SymbolId]:
    """The field that a generated method gets or sets: `isOpen`, `getOpen` and `setOpen` mean `open`."""
    if not (accessor := _ACCESSOR.fullmatch(name)):
        return []
    fields = (accessor[1][0].lower() + accessor[1][1:], f"is{accessor[1]}")
    for type_ in lineage(index, owner):
        unit = index.unit(type_.path)
        for field in (f"{type_.qualified}.{name}" for name in fields):
            if field in unit.by_qualified and has_accessors(unit):
                return [SymbolId(type_.path, field)]
    return []


def _find_in_named_extensions(index: CodeIndex, owner: SymbolId, name: str) -> Sequence[SymbolId]:
    """What extensions add that have names of their own: `extension Prices on Cart`."""
    if not index.rules(owner.path).names.named_extensions:
        return []

    def find() -> Sequence[SymbolId]:
        names = {symbol.qualified for symbol in lineage(index, owner)}
        added = []
        for unit, definition in index.definitions_of(name):
            member = SymbolId(unit.path, definition.qualified)
            extension = index.definition(member.owner)
            extended = (extension.name, *extension.bases) if extension and extension.kind == "extension" else ()
            if names.intersection(extended):
                added.append(member)
        return added

    return index.memo.once(("added", owner, name), find)


def find_members_of_containers(index: CodeIndex, unit: Unit, name: str) -> Sequence[SymbolId]:
    """What extensions of Swift add to types from outside, as those of containers are: `extension Collection<Cart>`."""
    rules = unit.rules.names
    if not rules.extensions or not rules.open_types:
        return []

    def find() -> Sequence[SymbolId]:
        members = (SymbolId(other.path, member.qualified) for other, member in index.definitions_of(name))
        return [symbol for symbol in members if _is_part(index, whole_type(index, symbol.owner))]

    return index.memo.once(("of containers", name), find)


def find_extension_methods(index: CodeIndex, unit: Unit, name: str) -> Sequence[SymbolId]:
    """The methods that a file of C# may call on values of other types: those in the namespaces open to it; none if it
    sees another method of the name. Of several, the nearest."""

    def find() -> Sequence[SymbolId]:
        defining, rules = index.files_defining(name), unit.rules.names
        visible = index.visible(unit) if defining else ()
        paths = sorted(defining.intersection((*visible, *_opened_files(index, unit, defining))))
        methods = [(other, method) for other in map(index.unit, paths) for method in other.named(name)]
        added = [(other, method) for other, method in methods if rules.called_by_name(method)]
        if len(added) < sum(method.kind == "method" for _, method in methods):
            return []
        near = nearest_all(paths, unit.folder)
        return [other.symbol(method) for other, method in added if other.path in near]

    is_open = unit.rules.names.imports_open
    return index.memo.once(("extension methods", unit.path, name), find) if is_open else []


def find_own_member(index: CodeIndex, owner: SymbolId, name: str) -> Sequence[SymbolId]:
    unit = index.unit(owner.path)
    inner, rules = f"{owner.qualified}.{name}", unit.rules.names
    members = [SymbolId(owner.path, inner)] if inner in unit.by_qualified else []
    if not members and rules.default_exports:
        return _find_object_method(index, unit, owner, name)
    # In Swift a method that another file adds may have the name of a property: `tableView`.
    if not rules.open_types or (members and not (rules.extensions and unit.by_qualified[inner].is_function)):
        return members
    return list(dict.fromkeys((*members, *_find_in_parts(index, owner, name))))


def _find_object_method(index: CodeIndex, unit: Unit, owner: SymbolId, name: str) -> Sequence[SymbolId]:
    """The method of an object that a variable of JavaScript holds: `const cart = { total() {} }`; its qualified name
    does not say which object has it, so the file must have one method of the name."""
    named = unit.named(name)
    if len(named) != 1 or named[0].qualified != name or named[0].kind != "method" or not holds_object(index, owner):
        return []
    lines, around = index.lines(unit.path), unit.by_qualified[owner.qualified]
    first, written = (lines.get(at, "") for at in (around.start_line + 1, named[0].start_line))
    is_inside = around.start_line < named[0].start_line <= around.end_line
    return [SymbolId(owner.path, name)] if is_inside and _indent(first) == _indent(written) else []


def holds_object(index: CodeIndex, symbol: SymbolId) -> bool:
    """Whether a variable of JavaScript is bound to an object that is written out."""
    definition, facts = index.definition(symbol), index.graph.files[symbol.path]
    if definition is None or definition.kind not in ("variable", "constant") or not facts.rules.names.default_exports:
        return False
    return _OBJECT.search(index.lines(facts.path).get(definition.start_line, "")) is not None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def whole_type(index: CodeIndex, part: SymbolId) -> SymbolId:
    """The type that a part belongs to: what an extension of Swift or an `impl` of Rust adds to, or the first part of a
    class of C# that is written in several. A type from outside is represented by its first part here."""
    definition, rules = index.definition(part), index.rules(part.path)
    if definition is None or not rules.names.open_types:
        return part
    name, is_partial = definition.name, _PARTIAL.search(definition.signature.partition(definition.name)[0]) is not None
    if not is_partial and definition.kind not in PARTS:
        return part

    def find() -> Sequence[SymbolId]:
        unit, defining = index.unit(part.path), index.files_defining(name)
        alike = [SymbolId(path, part.qualified) for path in _of_language(index, defining, unit.facts.language)]
        alike = [symbol for symbol in alike if is_type(index, symbol)]
        if is_partial:
            spaces = set(unit.facts.packages)
            return [symbol for symbol in alike if spaces.issuperset(index.graph.files[symbol.path].packages)][:1]
        near = [SymbolId(part.path, f"{scope}.{name}") for scope in enclosing_names(part.owner.qualified)]
        far: Meaning
        if not unit.rules.imports.paths:
            seen = *_opened_files(index, unit, defining), *index.visible(unit)
            far = [symbol for path in dict.fromkeys(seen) for symbol in alike if symbol.path == path]
        elif part.owner.qualified:
            far = resolve_dotted(index, unit, part.qualified.replace(".", "::"), "")
        else:
            far = resolve_imported(index, unit, name) or _find_without_import(index, unit, name)
        every = symbols_of((*near, SymbolId(part.path, name), *far))
        whole = (symbol for symbol in every if is_type(index, symbol) and not _is_part(index, symbol))
        return [*islice(chain(whole, symbols_of(far)), 1)]

    return next(iter(index.memo.once(("whole", part), find)), part)


def _is_part(index: CodeIndex, symbol: SymbolId) -> bool:
    definition = index.definition(symbol)
    return definition is not None and definition.kind in PARTS


def _of_language(index: CodeIndex, paths: Iterable[str], language: str) -> list[str]:
    return sorted(path for path in paths if index.graph.files[path].language == language)


def _find_in_parts(index: CodeIndex, owner: SymbolId, inner: str = "") -> Sequence[SymbolId]:
    """What the parts of a type define by a name, or the parts themselves: in its package, as in Go, or anywhere."""
    unit, qualified = index.unit(owner.path), f"{owner.qualified}.{inner}".rstrip(".")
    rules, defining = unit.rules.names, index.files_defining(qualified.rpartition(".")[2])
    if rules.constants or rules.structural:
        seen = sorted(defining) if rules.constants else index.visible(unit)
        others = (SymbolId(path, qualified) for path in seen if path in defining)
        return [symbol for symbol in others if index.definition(symbol)]
    whole = whole_type(index, owner)

    def find() -> Sequence[SymbolId]:
        last = f".{whole.qualified.rpartition('.')[2]}.{inner}".rstrip(".")
        found = []
        for other in map(index.unit, _of_language(index, defining, unit.facts.language)):
            named = other.named(last.rpartition(".")[2])
            found += [other.symbol(part) for part in named if f".{part.qualified}".endswith(last)]
        return [symbol for symbol in found if whole_type(index, symbol.owner if inner else symbol) == whole]

    return index.memo.once(("in parts", whole, inner), find)


def find_overridden(index: CodeIndex, symbol: SymbolId) -> list[SymbolId]:
    """What a member overrides or implements in the types of this codebase that its own type extends."""
    owner, name = symbol.owner, symbol.qualified.rpartition(".")[2]
    if index.rules(symbol.path).names.whole_modules:
        return find_in_protocol(index, symbol)
    above = (base for base in lineage(index, owner) if base.qualified != owner.qualified)
    inherited = [member for base in above for member in find_own_member(index, base, name)] if owner.qualified else []
    return [*inherited, *(method for method in _find_interface_methods(index, symbol) if method not in inherited)]


def _find_interface_methods(index: CodeIndex, symbol: SymbolId) -> list[SymbolId]:
    """In Go a type implements every interface all of whose methods it has, with the same parameters and results; a name
    that very many files define is not followed."""
    owner, name, facts = symbol.owner, symbol.qualified.rpartition(".")[2], index.graph.files[symbol.path]
    defining = index.files_defining(name) if facts.rules.names.structural and owner.qualified else ()
    if len(defining) > _MOST_DEFINING:
        return []
    methods = []
    for unit in map(index.unit, _of_language(index, defining, facts.language)):
        for interface, definition in unit.by_qualified.items():
            method = f"{interface}.{name}"
            if definition.kind != "interface" or method not in unit.by_qualified or interface == owner.qualified:
                continue
            if _satisfies(index, owner, SymbolId(unit.path, interface)):
                methods.append(SymbolId(unit.path, method))
    return methods


def _satisfies(index: CodeIndex, owner: SymbolId, interface: SymbolId) -> bool:
    """Whether a type has all methods of an interface: asked for each of them, found once."""

    def find() -> Sequence[SymbolId]:
        methods = index.unit(interface.path).by_qualified
        is_generic = _GENERIC.search(methods[interface.qualified].signature.partition("interface")[0]) is not None
        inside = (method for qualified, method in methods.items() if qualified.startswith(f"{interface.qualified}."))
        return [interface] if all(_has_method(index, owner, method, is_generic) for method in inside) else []

    return bool(index.memo.once(("satisfies", owner, interface), find))


def _has_method(index: CodeIndex, owner: SymbolId, method: Definition, is_generic: bool) -> bool:
    methods = filter(None, map(index.definition, find_member(index, owner, method.name)))
    return any(_takes_alike(index, candidate, method, is_generic) for candidate in methods)


def _takes_alike(index: CodeIndex, candidate: Definition, method: Definition, is_generic: bool) -> bool:
    """Whether two methods of Go have as many parameters and results, and of the same types, as far as these are known:
    not where a type has parameters, or behind the end of a signature that is too long to be stored."""
    if len(method.signature) < len(candidate.signature):
        candidate, method = method, candidate
    if len(method.signature) == MAX_SIGNATURE:
        known, others = _value_types(method)[0][:-1], _value_types(candidate)[0]
        if len(candidate.signature) == MAX_SIGNATURE:
            known, others = known[: len(others) - 1], others[: len(known)]
        return len(known) <= len(others) and all(map(partial(_may_be_same_type, index), known, others))
    if is_generic or _GENERIC.search(candidate.signature.partition(f"{method.name}(")[0]):
        return list(map(len, _value_types(candidate))) == list(map(len, _value_types(method)))
    pairs = zip(_value_types(candidate), _value_types(method), strict=True)
    return all(
        len(types) == len(others) and all(map(partial(_may_be_same_type, index), types, others))
        for types, others in pairs
    )


def _may_be_same_type(index: CodeIndex, written: str, other: str) -> bool:
    """Whether two types of Go may be one: functions name their parameters or not, and an alias is any type."""
    if written == other or (_INLINE_TYPE.search(written) and _INLINE_TYPE.search(other)):
        return True
    names = (name for name in re.findall(r"\w+", f"{written} {other}") if index.files_defining(name))
    alias = re.compile(r"(?:type )?\w+ = ")
    return any(
        alias.match(definition.signature)
        for name in names
        for _, definition in index.definitions_of(name)
        if definition.kind == "type"
    )


def _value_types(method: Definition) -> tuple[list[str], list[str]]:
    """The types of the parameters and of the results of a method of Go, without their packages: they may be written
    with names or without, and several names have one type."""
    written = "(" + method.signature.partition(f"{method.name}(")[2]
    end = find_closing(written, 0)
    results = written[end:].strip()
    inner = results[1:-1] if results.startswith("(") else results
    return _listed_types(written[1 : end - 1]), _listed_types(inner)


def _listed_types(listed: str) -> list[str]:
    parts = [part for part in map(str.strip, split_outside_brackets(listed, ",")) if part]
    named = [_NAMED_TYPE.fullmatch(part) for part in parts]
    if any(named):
        for at in range(len(parts) - 1, -1, -1):  # `a, b string`
            match = named[at]
            parts[at] = match[1] if match else parts[min(at + 1, len(parts) - 1)]
    plain = (_PACKAGE.sub("", part).replace("interface{}", "any") for part in parts)
    return [_SAME_TYPES.get(part, part) for part in plain]


def lineage(index: CodeIndex, owner: SymbolId) -> Iterator[SymbolId]:
    """A type, its bases and theirs, near ones first."""
    return islice(reachable([owner], partial(find_bases, index)), 1 + _MAX_BASES)


def find_bases(index: CodeIndex, owner: SymbolId) -> Sequence[SymbolId]:
    """The types that a type extends, as far as they are defined here."""

    def find() -> Sequence[SymbolId]:
        bases = (base for part in find_parts(index, owner) for base in _find_written_bases(index, part))
        return list(dict.fromkeys(symbol for symbol in bases if symbol != owner))

    return index.memo.once(("bases", owner), find)


def find_parts(index: CodeIndex, owner: SymbolId) -> Sequence[SymbolId]:
    """A type with what else is written of it: parts of a class in C#, extensions of one in Swift, `impl`s in Rust, in
    Ruby each file that opens one. Only one of them may name its bases."""

    def find() -> Sequence[SymbolId]:
        definition, unit = index.definition(owner), index.unit(owner.path)
        if definition is None or definition.kind == "module" or not unit.rules.names.open_types:
            return [owner]
        return list(dict.fromkeys((owner, *_find_in_parts(index, owner))))

    return index.memo.once(("parts", owner), find)


def _find_written_bases(index: CodeIndex, owner: SymbolId) -> Iterator[SymbolId]:
    definition, unit = index.definition(owner), index.unit(owner.path)
    if definition is None:
        return
    alike = (part for part in unit.named(definition.name) if part.qualified == definition.qualified)
    traits = [base for part in alike if part.kind in ("impl", "extension") for base in part.bases]  # a block for each
    written = list(dict.fromkeys((*definition.bases, *traits)))
    for row in index.bindings(unit).inside(EMBEDS, definition.qualified):
        written += [embedded.name for embedded in written_types(row.text) if embedded.name]
    if unit.rules.names.open_traits and any(base.endswith("Facade") for base in definition.bases):
        written += _FACING.findall(index.lines(unit.path).whole_text())
    for base in written:
        yield from symbols_of(resolve_dotted(index, unit, base, owner.owner.qualified))


def resolve_dotted(index: CodeIndex, unit: Unit, written: str, within: str) -> Meaning:
    """A path of names: `module.Class`, `pkg.sub.func`, `Outer.Inner`."""
    parts = [part for part in written.replace("::", ".").replace("\\", ".").split(".") if part]
    for length in range(len(parts), 1, -1):
        if whole := resolve_imported(index, unit, ".".join(parts[:length])):
            return _descend(index, whole, parts[length:])
    if not parts:
        return []
    spaces = (at for at in range(len(parts) - 1, 0, -1) if is_namespace(index, unit, ".".join(parts[:at])))
    at = next(spaces, 0)
    first, *rest = parts[at:]
    start = resolve_in_namespace(index, unit, ".".join(parts[:at]), first) or resolve_bare(index, unit, first, within)
    return _descend(index, start or (path_start(index, unit, first) if "::" in written else []), rest)


def resolve_in_namespace(index: CodeIndex, unit: Unit, namespace: str, name: str) -> Meaning:
    if not namespace:
        return []
    key = ("inside", unit.path, namespace, name)
    return index.memo.once(key, lambda: _find_in_headers(index, unit, name, index.files_defining(name), namespace))


def _descend(index: CodeIndex, meaning: Meaning, parts: Sequence[str]) -> Meaning:
    for part in parts:
        owners = merge_opened(index, meaning)
        meaning = list(dict.fromkeys(symbol for owner in owners for symbol in resolve_attribute(index, owner, part)))
    return meaning


def merge_opened(index: CodeIndex, owners: Sequence[Item]) -> Sequence[Item]:
    """Thousands of files may open a module of Ruby. Each leads to what all of them define, so that one of them is
    enough."""
    if len(owners) <= _MOST_OPENING:
        return owners
    first: dict[object, Item] = {}
    for owner in owners:
        key: object = owner
        if isinstance(owner, SymbolId) and index.rules(owner.path).names.constants:
            key = owner.qualified
        first.setdefault(key, owner)
    return list(first.values())


def resolve_attribute(index: CodeIndex, owner: SymbolId | ModuleId, name: str) -> Meaning:
    """What `owner.name` means."""
    if isinstance(owner, SymbolId):
        return find_member(index, owner, name)
    exported = [symbol for path in owner.paths for symbol in resolve_export(index, path, name)]
    if exported or not owner.written:
        return exported
    file = index.graph.files[owner.paths[0]]
    inner = Import(f"{owner.written}.{name}", 0)
    if not file.rules.names.dotted_modules or owner.written.startswith("."):
        return []
    targets = index.outcome(file, inner).targets
    return [ModuleId((targets[0].path,), inner.module)] if targets and not targets[0].names else []


def is_from_outside(index: CodeIndex, unit: Unit, name: str) -> bool:
    """Whether a receiver is bound to something outside the codebase: its members are not ours either."""
    may_be_shadowed = unit.rules.names.outside == "types" and not name[:1].isupper()
    return not may_be_shadowed and is_imported_from_outside(index, unit, name)


def is_imported_from_outside(index: CodeIndex, unit: Unit, name: str) -> bool:
    """Whether only imports from outside bind a name. One that another import brings from here, as after a `try`, is
    ours."""
    rules = unit.rules

    def find() -> list[str]:
        binding = (import_ for import_ in unit.imports if rules.names.outside and name in rules.imports.bound(import_))
        return sorted({index.outcome(unit.facts, import_).status for import_ in binding})

    is_outside = index.memo.once(("bound outside", unit.path, name), find) == ["external"]
    return is_outside and name not in unit.by_qualified


def is_constant_from_outside(index: CodeIndex, unit: Unit, receiver: str) -> bool:
    """Whether a receiver is a constant of Ruby or a type of Java or Kotlin that nothing here defines: `ENV`,
    `Net::HTTP`, `Math`. What its methods return may be ours."""
    rules = unit.rules
    is_type = rules.names.imports_show and rules.imports.binds_last and not receiver.isupper()
    is_constant = (rules.names.constants or is_type) and _CONSTANT.fullmatch(receiver) is not None
    return is_constant and not any(map(index.files_defining, receiver.split(".")))


def is_scope_from_outside(index: CodeIndex, unit: Unit, name: str, line: int) -> bool:
    """Whether a file of C++ writes `name::` for what nothing here defines: `std::move`. A parameter of a template may
    be ours, and so may what has another name here."""
    lines = index.lines(unit.path) if unit.rules.imports.headers else {}
    if f"{name}::" not in lines.get(line, "") or index.files_defining(name) or is_namespace(index, unit, name):
        return False
    text = index.lines(unit.path).whole_text()
    return re.search(rf"\b(?:typename|class|namespace|using)\s+{re.escape(name)}\b", text) is None


_OPENED = re.compile(r"\busing namespace ([\w:]+)")
_CONSTANT = re.compile(r"[A-Z]\w*(?:\.[A-Z]\w*)*")
