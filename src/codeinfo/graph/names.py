"""Which definitions a use of a name means.

    resolve        the whole way: the first of these steps that knows decides
      compiler     what the project's own compiler wrote into `index.scip`
      bindings     a local variable or parameter hides definitions of its name        `find_local` (scopes.py)
      scope        a bare name, in the scopes around it and the imports of its file   `resolve_bare` (scopes.py)
      receiver     what stands before a dot, as modules and types                     `evaluate`
      member       the name in these                                                  `resolve_attribute` (scopes.py)

A receiver is followed through modules, classes, `self`, and values whose type is written, assigned or returned.
Classes and their instances are not distinguished: both have the same members. What cannot be followed stays a
syntactic match. What a language does differently is a rule of `NameRules` (languages/model.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.conventions import (
    find_own_of_page,
    find_settings,
    has_accessors,
    is_listed_symbol,
    is_symbol,
    resolve_in_module,
    words_in,
)
from codeinfo.graph.model import ModuleId, SymbolId, Unit, symbols_of
from codeinfo.graph.scip import Compiler, defined_name
from codeinfo.graph.scopes import (
    EXPORTED,
    Meaning,
    exported_values,
    find_bases,
    find_declared_type,
    find_extension_methods,
    find_extensions,
    find_import,
    find_imported_from,
    find_local,
    find_member,
    find_members_of_containers,
    find_parts,
    find_renaming,
    holds_object,
    is_constant_from_outside,
    is_from_outside,
    is_imported_from_outside,
    is_inside,
    is_namespace,
    is_scope_from_outside,
    is_type,
    lineage,
    merge_opened,
    path_start,
    resolve_attribute,
    resolve_bare,
    resolve_dotted,
    resolve_export,
    resolve_imported,
    resolve_in_namespace,
    resolve_module,
    resolve_renamed,
)
from codeinfo.graph.uses import (
    DECORATOR,
    FIELD,
    LITERAL,
    MENTIONED,
    RETURNS,
    UNDERLYING,
    Links,
    Row,
    cast_type,
    delegated_value,
    find_closing,
    value_links,
    written_types,
)
from codeinfo.languages.model import QUOTED, ancestors, enclosing_names
from codeinfo.model import Definition, Import, Reference
from codeinfo.tokens import split_identifier

# --- uses ------------------------------------------------------------------------------------------------------------

_SEPARATORS = re.compile(r"::|\\")
_AFTER_FIRST = re.compile(r"[.(\[{].*", re.DOTALL)
_ABSOLUTE = re.compile(r"\A(?:\?|php)?\.(?=[A-Z])")  # `\Shop\Cart`, also as the first word behind `<?php`
_KEYED = "{:}"  # behind the type of which a key is a field: `Pool{size: 3}`
_PATH = re.compile(r"[\w$.]+")
_BY_THIS = re.compile(r"\(\s*this\s+(?:(?:in|ref|scoped) )*([\w.]+)")
_FIXTURE = re.compile(r"(?:\w+\.)?fixture\b")
# What follows and precedes a type where a property is called like it: `Color color`, `Color.Red`, `new Color`.
_AS_TYPE, _OF_ENUM = (
    r"\??(?:\[\])?>*\s+(?!is\b|as\b|in\b|or\b|and\b|when\b|switch\b)[@\w]",
    r"|\.(?!HasValue\b|Value\b|ToString\b)[A-Z]",
)
_BEFORE_TYPE = r"(?:\bnew |\bis |\bas |\btypeof\(|<)"
# `isinstance(x, Cart)`, `x instanceof Cart`, `x is Cart`; {0} is the value.
_CHECK = r"\bisinstance\({0}, *([\w.]+)\)|(?<![\w.>]){0}\)? (?:instanceof|is) (?:not )?\\?([A-Z][\w.\\]*)"
_EXTENDED = re.compile(r"(\w+)(?:\.Companion)?(?:<.*>)?[?)]*\.\Z")  # `fun <T> Set<T>.`
# A function that is passed to a method of a value has a parameter called like it.
_OWN_PARAMETER = r"(?<![\w.$]){0}[?!]?\.[\w.]+\s*+(?:\([^()]*\)\s*+)?[({{]++\s*+[|(]*+\s*+{0}\b"
_MOST_MEANT = 3  # definitions: a value with more types than that has no certain one


class Resolution(Struct, frozen=True):
    """The definitions that a use means. If there are none, it may still mean one of ours where that is `possible`;
    otherwise it certainly means something else."""

    symbols: tuple[SymbolId, ...] = ()
    possible: bool = False
    proof: str = "resolved"


_OTHER = Resolution()
_UNKNOWN = Resolution(possible=True)


def resolve(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    meaning, rules = _resolve(index, unit, use), unit.rules.names
    if rules.calls == "macro" and any(_lacks_mark(index, unit, use, symbol) for symbol in meaning.symbols):
        meaning = _OTHER
    if not meaning.symbols and rules.inline_modules and use.role != "call":
        declared = _find_declared_module(index, unit, use)
        return Resolution(declared) if declared else meaning
    if len(meaning.symbols) < 2 or not rules.extensions:
        return meaning
    called = [symbol for symbol in meaning.symbols if (found := index.definition(symbol)) and found.is_function]
    fitting = tuple(symbol for symbol in meaning.symbols if (symbol in called) == (use.role == "call"))
    return Resolution(fitting, proof=meaning.proof) if fitting else meaning


def _lacks_mark(index: CodeIndex, unit: Unit, use: Reference, meant: SymbolId) -> bool:
    """Whether a name is that of a macro of Rust without its `!`, or of a module without its `::`, outside of imports:
    in an attribute (`#[command(…)]`, `#[test]`), or a variable, it means something else."""
    definition, text = index.definition(meant), index.lines(unit.path).get(use.line, "")
    mark = {"macro": "!", "module": "::"}.get(definition.kind, "") if definition is not None else ""
    return bool(mark) and f"{use.name}{mark}" not in text and find_import(unit, use, text) is None


def _resolve(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    rules = unit.rules.names
    if unit.rules.imports.full_names:
        use = replace(use, receiver=_ABSOLUTE.sub("", use.receiver))
    if proven := _resolve_by_compiler(index, unit, use):
        return proven
    if use.receiver.startswith(MENTIONED):
        named = _resolve(index, unit, replace(use, receiver=use.receiver.removeprefix(MENTIONED).lstrip(".")))
        fixtures = _nearest_fixture(index, unit, use) if rules.fixtures and use.receiver == MENTIONED else ()
        return Resolution(fixtures) if fixtures else named if named.symbols else _OTHER
    if rules.whole_modules:
        return _resolve_in_module(index, unit, use)
    if rules.symbols and is_symbol(index, unit, use):
        return _resolve_symbol(index, unit, use)
    if _is_module_path(index, unit, use):
        return _OTHER
    if use.receiver:
        return _resolve_import_path(index, unit, use) or _resolve_with_receiver(index, unit, use)
    if rows := _find_hiding_variables(index, unit, use):
        # `const { size } = options` names a field of what it takes apart.
        taken = [row.text.rpartition(".") for row in rows if row.line == use.line and row.mark == "="]
        of = next((value for value, _, name in taken if value and name == use.name), "")
        if of:
            return _resolve_with_receiver(index, unit, replace(use, receiver=of))
        is_parameter = any(row.line == use.line and not row.end for row in rows)
        return Resolution(_find_fixture(index, unit, use) if is_parameter else ())
    if use.name in unit.renamed and (renaming := find_renaming(index, unit, use.name, use.line)):
        if found := resolve_renamed(index, unit, use.name, renaming):
            return Resolution(_symbols(found))
        aliases = (import_.alias for import_ in renaming)
        if index.files_defining(use.name) and all(is_imported_from_outside(index, unit, alias) for alias in aliases):
            return _OTHER
    return _resolve_bare(index, unit, use)


def _resolve_symbol(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    """What a symbol of Ruby names: the method that a class passes by its name, `before_action :find_cart`, or the
    attribute behind `@cart`. Elsewhere it may name anything."""
    text = index.lines(unit.path).get(use.line, "")
    is_handed = f":{use.name}" in text or is_listed_symbol(index, unit, use)
    is_variable = f"@{use.name}" in text
    owner = unit.type_around(use.within)
    is_asked = owner is not None and (is_variable or (is_handed and owner.qualified == use.within))
    members = find_member(index, owner, use.name) if owner is not None and is_asked else ()
    definitions = ((symbol, index.definition(symbol)) for symbol in members)
    fitting = [symbol for symbol, definition in definitions if definition and definition.is_function == is_handed]
    if fitting:
        return Resolution(tuple(fitting))
    return _OTHER if is_variable and not is_handed and f"{use.name}:" not in text else _UNKNOWN


def _find_fixture(index: CodeIndex, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
    """What pytest passes as a parameter to a test or a fixture."""
    asking = unit.by_qualified.get(use.within) if unit.rules.names.fixtures else None
    if asking is None or not list(words_in(asking.signature.partition("(")[2], use.name)):
        return ()
    is_given = asking.name.startswith("test") or is_fixture(index, unit, use.within)
    return _nearest_fixture(index, unit, use) if is_given else ()


def _nearest_fixture(index: CodeIndex, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
    """The nearest fixture of a name: in the class, in the file, or in the `conftest.py` of a folder around."""
    outer = use.within.rpartition(".")[0]
    own = [SymbolId(unit.path, f"{scope}.{use.name}") for scope in enclosing_names(outer)]
    around = (f"{folder}/{unit.rules.names.fixtures}".lstrip("/") for folder in ancestors(unit.folder))
    paths = dict.fromkeys((unit.path, *(path for path in around if path in index.graph.files)))
    offered = (resolve_export(index, path, use.name) for path in paths)
    every = symbols_of((*own, *chain.from_iterable(offered)))
    # A fixture may extend the one of its name that is further away.
    others = (symbol for symbol in every if symbol != SymbolId(unit.path, use.within))
    fixtures = (symbol for symbol in others if is_fixture(index, index.unit(symbol.path), symbol.qualified))
    return tuple(islice(fixtures, 1))


def is_fixture(index: CodeIndex, unit: Unit, qualified: str) -> bool:
    rows = index.bindings(unit).inside(DECORATOR, qualified) if unit.rules.names.fixtures else ()
    return any(_FIXTURE.match(row.text) for row in rows)


def _find_hiding_variables(index: CodeIndex, unit: Unit, use: Reference) -> list[Row]:
    """The local variables that a name without a receiver means. In Java they are not called, and in `var total =
    total(cart)` the one that is being bound does not hide the function."""
    rows = find_local(index, unit, use.name, use)
    if rows and all(row.line == use.line < row.end for row in rows):  # `state.read { state in`: the outer one as well
        text = index.lines(unit.path).get(use.line, "")
        if re.search(_OWN_PARAMETER.format(re.escape(use.name)), text):
            rows = find_local(index, unit, use.name, use, before=True)
            rows = [row for row in rows if row.line < use.line]
    if use.role != "call" or not rows:
        return rows
    own_value = re.compile(rf"(?<![\w.$]){re.escape(use.name)}\(")
    is_bound_here = all(row.line == use.line and row.mark == "=" and own_value.search(row.text) for row in rows)
    return [] if is_bound_here or unit.rules.names.calls == "reference" else rows


def _is_module_path(index: CodeIndex, unit: Unit, use: Reference) -> bool:
    """Whether a name is a module on the way to what an import takes: `shop` in `from .shop.cart import total`, in
    `import shop.cart.Cart` and in Swift's `import Shop`. Also whatever an import of Java or Kotlin takes from
    outside."""
    rules, path = unit.rules, f"{use.receiver}.{use.name}.".lstrip(".")
    on_line = [import_ for import_ in unit.by_shown.get(use.name, ()) if import_.line == use.line]
    around = [import_ for import_ in on_line if f"{import_.module.lstrip('.')}.".startswith(path)]
    if rules.names.dotted_modules:
        return any(import_.names and (use.receiver or use.name not in import_.names) for import_ in around)
    if rules.names.imports_open:
        around = [import_ for import_ in around if not import_.alias and not import_.names]
    elif rules.imports.binds_last:
        outside = [import_ for import_ in on_line if index.outcome(unit.facts, import_).status == "external"]
        around = around if use.name[0].islower() else []
        around = [import_ for import_ in around if import_.names or len(path) <= len(import_.module)] + outside
    else:
        return False
    return bool(around and index.files_defining(use.name))


def _find_declared_module(index: CodeIndex, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
    """The line `mod cart;` of Rust that declares a module whose name stands in a path."""
    if not index.files_defining(use.name):
        return ()
    owners = _find_owners(index, unit, use, []) if use.receiver else [ModuleId((unit.path,))]
    is_path = use.receiver or f"{use.name}::" in index.lines(unit.path).get(use.line, "")
    paths = [path for owner in owners if isinstance(owner, ModuleId) for path in owner.paths] if is_path else ()
    modules = ((path, index.unit(path).by_qualified.get(use.name)) for path in paths)
    return tuple(SymbolId(path, use.name) for path, module in modules if module is not None and module.kind == "module")


def _symbols(meaning: Iterable[SymbolId | ModuleId]) -> tuple[SymbolId, ...]:
    return tuple(dict.fromkeys(symbols_of(meaning)))


def _resolve_by_compiler(index: CodeIndex, unit: Unit, use: Reference) -> Resolution | None:
    """What the project's own compiler says; None if it does not know, or if its target has changed since."""
    compiler = index.compiler
    if compiler is None or not compiler.covers(unit.path):
        return None
    text = index.lines(unit.path).get(use.line, "")
    meant: list[SymbolId] = []
    symbols = compiler.symbols_at(unit.path, use.line, use.name, text)
    for symbol in symbols:
        name, is_constructor = defined_name(symbol)
        if not all(map(compiler.covers, index.files_defining(name))):
            return None
        for other, definition in index.definitions_of(name):
            if _is_meant(compiler, other, definition, symbol, is_constructor):
                meant.append(other.symbol(definition))
    return Resolution(tuple(dict.fromkeys(meant)), proof="compiler") if symbols else None


def _is_meant(compiler: Compiler, unit: Unit, definition: Definition, symbol: str, is_constructor: bool) -> bool:
    path = unit.path
    if not is_constructor:
        return compiler.defines(path, definition.start_line, symbol)
    members = (member for member in unit.definitions if member.qualified.rpartition(".")[0] == definition.qualified)
    lines = (definition.start_line, *(member.start_line for member in members))
    return any(compiler.defines(path, line, symbol) for line in lines)


def _resolve_in_module(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    """The first occurrence on the line that can be followed decides."""
    text = index.lines(unit.path).get(use.line, "")
    best = _OTHER
    for start, end in words_in(text, use.name):
        meant = resolve_in_module(index, unit, use, text[:start], text[end:])
        if meant:
            return Resolution(meant)
        if meant is None or not index.files_defining(use.name):
            best = _UNKNOWN
    return best


def _resolve_bare(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    found = resolve_bare(index, unit, use.name, use.within)
    symbols = _symbols(found) or _find_linked(index, unit, use) or find_own_of_page(index, unit, use)
    if len(symbols) == 1 and "." in symbols[0].qualified and unit.rules.names.implicit_self:
        symbols = _find_namesake(index, unit, use, symbols[0]) or symbols
    if symbols:
        return _unless_too_many(index, symbols)
    is_explained = (found or _needs_import(index, unit, use.name)) and index.files_defining(use.name)
    if is_explained and not found and _may_be_global(index, unit, use):
        return _UNKNOWN
    return _OTHER if is_explained else _UNKNOWN


def _needs_import(index: CodeIndex, unit: Unit, name: str) -> bool:
    """Whether a file has to define or import a name before it can mean our definition by it: any name where a language
    demands that, names of types in Java and Kotlin, names of types inside other types in Swift and C#."""
    rules = unit.rules
    if rules.names.explicit or is_imported_from_outside(index, unit, name):
        return True
    is_imported = rules.names.imports_show and rules.imports.binds_last
    if not (is_imported or rules.names.imports_open) or not name[0].isupper():
        return False
    defined = list(index.definitions_of(name))
    constructor = f"{name}.{name}"
    if not all(definition.is_type or definition.qualified.endswith(constructor) for _, definition in defined):
        return False
    return is_imported or all("." in other.symbol(definition).qualified for other, definition in defined)


def _may_be_global(index: CodeIndex, unit: Unit, use: Reference) -> bool:
    """Whether markup names what a program may offer to all of it: a component of Vue or Svelte, or in a template of
    Blade a method of its component, called like a variable."""
    syntax, text = unit.rules.syntax, index.lines(unit.path).get(use.line, "")
    is_page = syntax is not None and (syntax.embedded or syntax.template)
    return is_page and (f"<{use.name}" in text or f"${use.name}(" in text)


def _find_namesake(index: CodeIndex, unit: Unit, use: Reference, member: SymbolId) -> tuple[SymbolId, ...]:
    """The type of a property that is called like it, where a line uses the type: `public Color Color => Color.Red`."""
    rows = _rows_of(index, index.unit(member.path), member)
    if not any(row.mark == ":" and row.text.rstrip("?") == use.name for row in rows):
        return ()
    types = [symbol for symbol in _symbols(resolve_bare(index, unit, use.name, "")) if is_type(index, symbol)]
    is_enum = any((meant := index.definition(symbol)) and meant.kind == "enum" for symbol in types)
    text, name = index.lines(unit.path).get(use.line, ""), re.escape(use.name)
    as_type = rf"(?<![\w.]){name}(?:{_AS_TYPE}{_OF_ENUM if is_enum else ''})|{_BEFORE_TYPE}{name}\b"
    named = len(re.findall(as_type, text))
    every = sum(1 for _ in words_in(text, use.name))
    return (*(types if named else ()), *((member,) if named < every else ()))


def _find_linked(index: CodeIndex, unit: Unit, use: Reference) -> tuple[SymbolId, ...]:
    """A C function has one name in the whole program: if only one file defines it, a call means that."""
    if not unit.rules.names.linked or use.role != "call":
        return ()
    in_c = ((other.path, body) for other, body in index.definitions_of(use.name) if other.rules.imports.headers)
    bodies = [(path, body) for path, body in in_c if body.kind != "prototype"]
    is_linked = len(bodies) == 1 and bodies[0][1].kind == "function" and bodies[0][1].exported
    return (SymbolId(bodies[0][0], use.name),) if is_linked else ()


def _resolve_import_path(index: CodeIndex, unit: Unit, use: Reference) -> Resolution | None:
    """What an import line names by its full path: `import a.b.C`, `use a::b::C`."""
    rules = unit.rules
    for import_ in unit.by_shown.get(use.name, ()):
        path = _SEPARATORS.sub(".", import_.module)
        listed = use.name in import_.names and path.endswith(use.receiver)
        is_whole = import_.line == use.line and (listed or path == f"{use.receiver}.{use.name}")
        if is_whole and (found := resolve_imported(index, unit, import_.alias or use.name)):
            return Resolution(_symbols(found))
        if is_whole and rules.imports.full_names and index.outcome(unit.facts, import_).status == "external":
            return _OTHER
        if is_whole and rules.names.calls == "macro" and (found := resolve_bare(index, unit, use.name, "")):
            return Resolution(_symbols(found))  # a macro of Rust is offered by the crate, wherever it is defined
    if rules.imports.binds_last and use.name[0].isupper():  # a type whose member is imported
        start = f"{use.receiver}.{use.name}."
        on_line = [import_ for import_ in unit.imports if import_.line == use.line]
        around = [import_ for import_ in on_line if f"{import_.module}.".startswith(start)]
        paths = [target.path for target in index.targets(unit, *around) if use.name in target.names]
        found = [symbol for path in paths for symbol in resolve_export(index, path, use.name)]
        if found:
            return Resolution(_symbols(found))
    is_full = rules.imports.full_names and use.receiver[0].isupper()  # also a function: `\Shop\total()`
    if is_full or ((rules.imports.full_names or rules.names.constants) and use.name[0].isupper()):
        found = resolve_imported(index, unit, f"{use.receiver}.{use.name}")
        return Resolution(_symbols(found)) if found else None
    return None


def _resolve_with_receiver(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    if use.receiver.startswith(LITERAL):
        return _resolve_literal(index, unit, use)
    if use.name.isupper() and (symbols := find_settings(index, unit, use)):
        return _unless_too_many(index, symbols)
    first = _AFTER_FIRST.sub("", use.receiver)
    rows = _find_receiver(index, unit, first, use)
    owners = _find_owners(index, unit, use, rows)
    if extension := _resolve_extension(index, unit, use, owners):
        return extension
    if not owners and not rows:
        if is_namespace(index, unit, use.receiver):
            found = Resolution(_symbols(resolve_in_namespace(index, unit, use.receiver, use.name)))
            found = found if found.symbols else _resolve_bare(index, unit, use)
            is_other = found.symbols and not any(is_inside(index, symbol, use.receiver) for symbol in found.symbols)
            return _OTHER if is_other else found  # `Ui::Form`, made by a tool, is not our `Form`
        # A caller asking about a name from outside wants its uses.
        is_outside = is_from_outside(index, unit, first) or is_constant_from_outside(index, unit, use.receiver)
        if index.files_defining(use.name) and (is_outside or is_scope_from_outside(index, unit, first, use.line)):
            return _OTHER
    if not use.receiver.endswith(_KEYED):  # a function may be given a block: `carts.filter { … }.total()`
        found = _resolve_member(index, owners, use.name)
        if not found.symbols and use.role == "call" and (added := _find_extension_methods(index, unit, use, owners)):
            return Resolution(added)
        if not found.symbols and any(isinstance(owner, Container) for owner in owners):
            found = _UNKNOWN if find_members_of_containers(index, unit, use.name) else found
        return found if found.symbols else _resolve_narrowed(index, unit, use, rows) or found
    maker, _, made = use.receiver.removesuffix(_KEYED).rpartition(".")
    called = resolve(index, unit, replace(use, name=made, receiver=maker, role="call")).symbols
    if called and unit.rules.names.calls == "element" and not any(is_type(index, symbol) for symbol in called):
        return _resolve_prop(index, called, use.name)
    if called and all(
        (definition := index.definition(symbol)) is not None and definition.is_function for symbol in called
    ):
        return _OTHER  # the name of an argument
    # A key passed to a constructor is its parameter, and otherwise the name of an argument.
    types = [owner for owner in symbols_of(owners) if not find_member(index, owner, "__init__")]
    if not owners and unit.rules.names.inline_modules:  # a variant of Rust: `Shape::Round { size: 3 }`
        around = evaluate(index, unit, use.receiver.rpartition(".")[0], use)
        types = symbols_of(around)
    found = _resolve_member(index, types, use.name)
    if found.symbols or not unit.rules.imports.qualified:
        return found if found.symbols else _OTHER
    return _resolve_bare(index, unit, use)  # in Go also the key of a map


# The type of the first parameter of a component, also in a call: `memo((props: Props) => …)`; its own type, or the last
# argument of the call, `FC<Props>`, `forwardRef<Element, Props>(`; another component, `memo(Button)`.
_PROPS = re.compile(r"\(\s*(?:\{[^{}]*\}|[\w$]+)\s*:\s*([\w$.]+(?:\s*&\s*[\w$.]+)*)")
_HOLDING_PROPS = re.compile(r"\b(?:FC|FunctionComponent|memo|forwardRef)<(?:[\w$.]+,\s*)?([\w$.]+)>")
_WRAPPED = re.compile(r"\b(?:memo|forwardRef|observer)\(\s*([\w$]+)\s*[,)]")


def _resolve_prop(index: CodeIndex, components: Iterable[SymbolId], name: str) -> Resolution:
    """What an attribute of a component means, `<Button size={1} />`: a member of the type of its first parameter, from
    which a parameter may be taken, too: `({ size }: Props)`."""
    found: list[SymbolId] = []
    for component in components:
        if (definition := index.definition(component)) is None:
            continue
        unit = index.unit(component.path)
        body = range(definition.start_line, definition.end_line + 1)
        taken = [row.text.rpartition(".")[0] for row in index.bindings(unit).of(name) if row.line in body]
        written = [text for text in taken if text[:1].isupper()]
        texts = (definition.signature, *(row.text for row in _rows_of(index, unit, component)))
        written += [match[1] for text in texts for search in (_PROPS, _HOLDING_PROPS) if (match := search.search(text))]
        for text in dict.fromkeys(written):
            found += _resolve_member(index, _types(index, unit, text, component.qualified), name).symbols
        if not found and (wrapped := _WRAPPED.search(definition.signature)) and wrapped[1] != definition.name:
            found += _resolve_prop(index, _symbols(resolve_bare(index, unit, wrapped[1], "")), name).symbols
    return Resolution(tuple(dict.fromkeys(found))) if found else _OTHER


def _find_extension_methods(index: CodeIndex, unit: Unit, use: Reference, owners: Values) -> tuple[SymbolId, ...]:
    """The methods of C# that extend the type of a receiver, one of its bases, or a type from outside, which any other
    may have as its base. Types from outside may have methods of short names themselves: `Select`, `Add`."""
    names = {base.qualified.rpartition(".")[2] for owner in symbols_of(owners) for base in lineage(index, owner)}
    if not names and len(split_identifier(use.name)) == 1:
        return ()
    added = []
    for method in find_extension_methods(index, unit, use.name):
        definition = index.definition(method)
        extended = _BY_THIS.search(definition.signature) if definition is not None else None
        name = extended[1].rpartition(".")[2] if extended else ""
        if not names or name in names or not index.files_defining(name):
            added.append(method)
    return tuple(added) if len(set(added)) <= _MOST_MEANT else ()


def _resolve_literal(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    """What is called on a string, where code may add to strings; otherwise what the string names."""
    rules = unit.rules.names
    if not rules.extensions and not rules.imports_open:
        return _resolve_quoted(index, unit, use)
    meaning = _resolve_with_receiver(index, unit, replace(use, receiver=f"String{use.receiver.removeprefix(LITERAL)}"))
    return meaning if meaning.symbols or use.receiver != LITERAL else _OTHER


def _resolve_quoted(index: CodeIndex, unit: Unit, use: Reference) -> Resolution:
    """What a string names by its whole path: `"shop.cart.Cart"`, `patch("shop.cart.Cart.add")`."""
    path = f"{use.receiver.removeprefix(LITERAL).lstrip('.')}.{use.name}"
    if unit.rules.names.constants and path.lstrip(".")[:1].isupper():
        return _resolve_bare(index, unit, replace(use, name=path.lstrip("."), receiver=""))
    if use.receiver == LITERAL and use.role != "call" and unit.rules.names.dotted_modules:
        return _resolve_bare(index, unit, replace(use, receiver="", within=""))  # `__all__` lists it
    if not _PATH.fullmatch(path) or not index.files_defining(use.name):
        return _OTHER
    meaning = [
        symbol
        for target in index.resolver.of(unit.facts).quoted(unit.facts, path)
        for last in target.names
        for symbol in resolve_export(index, target.path, last)
        if last == use.name or path.endswith(f".{last}.{use.name}")
        for symbol in ([symbol] if last == use.name else resolve_attribute(index, symbol, use.name))
    ]
    return Resolution(_symbols(meaning)) if meaning else _OTHER


def _resolve_extension(index: CodeIndex, unit: Unit, use: Reference, owners: Values) -> Resolution | None:
    """What an extension of Kotlin adds to the type of a receiver, unless that has a member of the name. The type may be
    from outside (`Modifier.padded()`); where it is unknown, an import that names the extension decides."""
    added = find_extensions(index, unit, use.name)
    if not added or _resolve_member(index, owners, use.name).symbols:
        return None
    types = [base for owner in symbols_of(owners) for base in lineage(index, owner)]
    names = {symbol.qualified.rpartition(".")[2] for symbol in types} or {_AFTER_FIRST.sub("", use.receiver)}
    extended = {symbol: _extended_type(index, symbol) for symbol in added}
    fitting = [symbol for symbol, written in extended.items() if written in names]
    if not fitting and (types or not find_imported_from(index, unit, use.name)):
        is_open = not types or not all(map(index.files_defining, extended.values()))
        return _UNKNOWN if is_open else None
    symbols = tuple(fitting or added)
    return Resolution(symbols) if len(symbols) <= _MOST_MEANT else _UNKNOWN


def _extended_type(index: CodeIndex, extension: SymbolId) -> str:
    """The name of the type that an extension of Kotlin is written for."""
    definition = index.definition(extension)
    written = _EXTENDED.search(definition.signature.partition(definition.name)[0]) if definition else None
    return written[1] if written else ""


def _resolve_narrowed(index: CodeIndex, unit: Unit, use: Reference, rows: Sequence[Row]) -> Resolution | None:
    """A member of the type that the function around checked its receiver for: `if ($cart instanceof Gift)`. `rows`
    bind the receiver: what was checked before that is another value."""
    if not _PATH.fullmatch(use.receiver):
        return None
    key = ("checks", unit.path, use.within, use.receiver)
    bound = max((row.line for row in rows if row.end or row.line < use.line), default=0)
    every = index.memo.once(key, lambda: _find_checks(index, unit, use))
    checks = [text for line, text in every if bound <= line <= use.line]
    meaning = _resolve_member(index, _types(index, unit, checks[-1], use.within), use.name) if checks else _UNKNOWN
    return meaning if meaning.symbols else None


def _find_checks(index: CodeIndex, unit: Unit, use: Reference) -> list[tuple[int, str]]:
    """The types that functions of one name check a receiver for, with the lines that do."""
    lines, named = index.lines(unit.path), unit.named(use.within.rpartition(".")[2])
    bodies = [body for body in named if body.qualified == use.within and body.is_function]
    check = re.compile(_CHECK.format(re.escape(use.receiver).replace(r"\.", r"(?:\?\.|->|::)")))
    numbered = [(at, lines.get(at, "")) for body in bodies for at in range(body.start_line, body.end_line + 1)]
    return [(line, found[1] or found[2]) for line, text in numbered for found in check.finditer(text)]


def _find_owners(index: CodeIndex, unit: Unit, use: Reference, rows: Sequence[Row]) -> Values:
    """What a receiver holds, found once for a function and again behind each line that binds its first name, as `rows`
    do: such a line still reads the old value."""
    bound_at = max((row.line for row in rows if row.line <= use.line), default=0)
    key = ("receiver", unit.path, use.within, use.receiver, bound_at, bound_at == use.line)
    return index.memo.once(key, lambda: evaluate(index, unit, use.receiver, use), _MAX_STEPS)


def receiver_types(index: CodeIndex, unit: Unit, use: Reference) -> list[SymbolId]:
    """The types that the receiver of a use stands for, as far as they are known."""
    rows = _find_receiver(index, unit, _AFTER_FIRST.sub("", use.receiver), use)
    return symbols_of(_find_owners(index, unit, use, rows))


# Packages of Go whose functions return what they are given.
_GENERIC = frozenset("atomic cmp iter lo maps mo slices sync".split())


def find_outside_type(index: CodeIndex, unit: Unit, use: Reference) -> str:
    """The type from outside, as written, that the receiver of a use in Go has, or the function that returns it; "" if
    that is not known. A member of such a value is not one of ours, unless the type is an interface."""
    chains = value_links(use.receiver) if unit.rules.imports.qualified and use.receiver else []
    return _find_outside_value(index, unit, chains[0], use) if len(chains) == 1 else ""


def _find_outside_value(index: CodeIndex, unit: Unit, links: Links, use: Reference) -> str:
    *before, (name, called) = links
    if not before:
        rows = [row for row in _find_receiver(index, unit, name, use) if row.line <= use.line]
        symbols = () if rows else _symbols(resolve_bare(index, unit, name, use.within))
        rows = rows or [row for symbol in symbols if symbol.path == unit.path for row in _rows_of(index, unit, symbol)]
        return _find_outside_row(index, unit, rows[-1:]) if not called else ""
    if outside := _find_outside_value(index, unit, before, use):
        return outside
    for owner in _evaluate_chain(index, unit, before, use):
        for member in find_member(index, owner, name) if isinstance(owner, SymbolId) else ():
            other = index.unit(member.path)
            rows = index.bindings(other).inside(RETURNS, member.qualified) if called else _rows_of(index, other, member)
            if outside := _find_outside_row(index, other, rows[:1]):
                return outside
    return ""


def _find_outside_row(index: CodeIndex, unit: Unit, rows: Sequence[Row]) -> str:
    """The type from outside in the row that says what a value is."""
    for row in rows:
        names = [written.name for written in written_types(row.text)] if row.mark == ":" else []
        if row.mark == "=":
            names = [".".join(name for name, _ in links) for links in value_links(row.text)]
        package, dot, _ = names[0].partition(".") if len(names) == 1 else ("", "", "")
        is_generic = row.mark == "=" and package in _GENERIC
        if dot and not is_generic and is_imported_from_outside(index, unit, package):
            return names[0]
    return ""


def _resolve_member(index: CodeIndex, owners: Values, name: str) -> Resolution:
    known_owners = [owner for owner in owners if not isinstance(owner, Container)]
    if not known_owners:
        return _OTHER if owners else _UNKNOWN
    merged = merge_opened(index, known_owners)
    symbols = _symbols(symbol for owner in merged for symbol in resolve_attribute(index, owner, name))
    if symbols:
        return _unless_too_many(index, symbols)
    return _OTHER if any(_is_closed(index, owner) for owner in merged) else _UNKNOWN


def _unless_too_many(index: CodeIndex, symbols: tuple[SymbolId, ...]) -> Resolution:
    """What is meant, unless it may be too many things. A module of Ruby is one, however many files open it."""
    constants = index.graph.files[symbols[0].path].rules.names.constants
    count = len({symbol.qualified for symbol in symbols}) if constants else len(symbols)
    return Resolution(symbols) if count <= _MOST_MEANT else _UNKNOWN


def _is_closed(index: CodeIndex, owner: SymbolId | ModuleId) -> bool:
    """Whether all members are known: a module has what its file exports, though a table may take the rest from another
    one; of a type each base was found."""
    if isinstance(owner, ModuleId):
        path = owner.paths[0]
        rules = index.rules(path).names
        return not rules.tables and not (rules.default_exports and exported_values(index, path, "default"))
    return all(_has_known_bases(index, symbol) for symbol in lineage(index, owner))


def _has_known_bases(index: CodeIndex, owner: SymbolId) -> bool:
    """In C++ aliases and macros add members, in Swift an attribute does; in PHP a trait uses what its classes have, a
    value may be of a subclass of its type, and a closure may be bound to another object."""
    definition, rules = index.definition(owner), index.rules(owner.path)
    if definition is None or rules.imports.headers or rules.names.open_traits:
        return False
    if rules.names.extensions and rules.names.open_types:
        lines = index.lines(owner.path)
        above = range(max(definition.start_line - 2, 1), definition.start_line + 1)
        if any("@dynamicMemberLookup" in lines.get(at, "") for at in above):
            return False
    if rules.names.default_exports and not definition.is_type:  # an object that any code may add to
        return False
    parts = [part for symbol in find_parts(index, owner) if (part := index.definition(symbol))]
    return len(find_bases(index, owner)) >= len({base for part in parts for base in part.bases})


# --- receivers -------------------------------------------------------------------------------------------------------


class Container(NamedTuple):
    """A value that holds others; `element` is their type, as written in that scope of the file."""

    path: str
    scope: str
    element: str


Value = SymbolId | ModuleId | Container
Values = Sequence[Value]

SELF = frozenset({"self", "this", "$this", "cls", "Self", "static", "@"})
_PATH_STARTS = frozenset({"crate", "super"})
_FIRST_ARGUMENT = frozenset({"inject", "cast", "viewChild", "contentChild"})  # they return what their argument names
_ELEMENT_METHODS = frozenset({"values", "pop", "get", "shift", "at", "find", "unwrap", "first", "last", "next"})
_SAME_METHODS = frozenset({"filter", "slice", "copy", "sort", "reverse", "concat", "iter", "clone", "items"})
_PARAMETER = re.compile(r"(?:InstanceType<)?[A-Z][A-Z\d]?>?")  # of a type: `T`
_BUILDING = frozenset({"builder", "toBuilder", "build"})
_FOLDS, _PASSING = frozenset({"reduce", "reduceRight"}), frozenset({"then", "finally"})
_ITERATION, _STEPS, _ENTERING = ("__iter__", "__aiter__"), ("__next__", "__anext__"), ("__enter__", "__aenter__")
_OF_KEY = re.compile(r"(?:NonNullable<)?[\w$.]+(?:<.*>)?\[[^]].*\]>?", re.DOTALL)
_MAX_STEPS = 13  # a receiver, and from one binding to the next
_LAST_LINE = 1_000_000_000  # behind everything that a file binds
_MOST_CHAINED = 12  # lines of one call chain


def evaluate(index: CodeIndex, unit: Unit, receiver: str, use: Reference) -> Values:
    """The modules or types a receiver stands for; empty if it cannot be followed."""
    values = [value for links in value_links(receiver) for value in _evaluate_chain(index, unit, links, use)]
    return list(dict.fromkeys(values))


def _evaluate_chain(index: CodeIndex, unit: Unit, links: Links, use: Reference) -> Values:
    for length in range(len(links), 1, -1):  # `import a.b` binds the path
        if not any(called for _, called in links[: length - 1]):
            space, name = ".".join(name for name, _ in links[: length - 1]), links[length - 1][0]
            bound = resolve_imported(index, unit, f"{space}.{name}")
            if bound := bound or (
                resolve_in_namespace(index, unit, space, name) if is_namespace(index, unit, space) else []
            ):
                return _follow_attributes(index, _values(index, bound, links[length - 1][1]), links[length:], unit, use)
    (first, called), *rest = links
    rules = unit.rules.names
    if rules.default_exports and first == "module" and rest and rest[0][0] == EXPORTED:
        (first, called), *rest = rest
    # `let this = self.clone()` of Rust
    is_variable = first == "this" and bool(find_local(index, unit, first, use, before=True))
    if unit.rules.imports.paths and first in _PATH_STARTS:
        current: Values = path_start(index, unit, first)
    elif first == EXPORTED and rules.default_exports:
        current = [ModuleId((unit.path,))]
    elif first in rules.inherited or first == "super":
        current = [base for owner in _own_type(index, unit, use.within) for base in find_bases(index, owner)]
    elif first in SELF and first not in unit.by_shown and not is_variable:
        current = _own_type(index, unit, use.within) or _own_object(unit, use.within)
        if called.startswith("["):
            current = _elements(index, current)
    else:
        current = _evaluate_first(index, unit, first, called, use)
    return _follow_attributes(index, current, rest, unit, use)


def _find_receiver(index: CodeIndex, unit: Unit, name: str, use: Reference) -> list[Row]:
    """What binds the first name of a receiver. A line may bind it to what is made from its old value, as in `x =
    f(x.next())` and `cart := cart.New()`."""
    rows = find_local(index, unit, name, use, before=True)
    here = [row.text for row in rows if row.line == use.line and row.mark != ":"]
    is_old = any(re.search(rf"(?<![\w$.]){re.escape(name)}\.", text) for text in here)
    return [row for row in rows if row.line < use.line] if is_old else rows


def _own_type(index: CodeIndex, unit: Unit, within: str) -> Sequence[SymbolId]:
    """The innermost type around a place: what `self` means there."""
    for scope in enclosing_names(unit.without_namespace(within)):
        definition = unit.by_qualified.get(scope)
        if definition is not None and (definition.is_type or scope in unit.extended):
            return [SymbolId(unit.path, scope)]
        if definition is None and (declared := find_declared_type(index, unit, scope)):
            return declared
    return []


def _own_object(unit: Unit, within: str) -> Sequence[ModuleId]:
    """The file whose only object a method is in: `module.exports = { add() { this.total() } }`."""
    method = unit.by_qualified.get(within) if unit.rules.names.default_exports else None
    return [ModuleId((unit.path,))] if method is not None and method.kind == "method" else []


def _evaluate_first(index: CodeIndex, unit: Unit, name: str, called: str, use: Reference) -> Values:
    """The value of a local variable comes first, since it hides the rest."""
    if rows := _find_receiver(index, unit, name, use):
        return _called_or_indexed(index, _evaluate_rows(index, unit, rows, use.line), called)
    if made := _evaluate_argument(index, unit, name, called, use) or _evaluate_import(index, unit, name, called, use):
        return made
    found = resolve_bare(index, unit, name, use.within)
    if not found and unit.rules.imports.paths:  # no import is needed; a chain may continue some lines below
        lines = index.lines(unit.path)
        above = range(use.line, max(use.line - _MOST_CHAINED, 0), -1)
        found = path_start(index, unit, name) if any(f"{name}::" in lines.get(at, "") for at in above) else []
    return _values(index, found, called)


def _evaluate_argument(index: CodeIndex, unit: Unit, name: str, called: str, use: Reference) -> Values:
    """What a function returns that returns what its first argument names: `get<T>(service: T): InstanceType<T>`."""
    is_call = called.startswith("(") and (name in _FIRST_ARGUMENT or _returns_parameter(index, unit, name, use))
    first = called[1:].partition(")")[0].partition(",")[0].strip() if is_call else ""
    return _types(index, unit, first, use.within) if first else []


def _returns_parameter(index: CodeIndex, unit: Unit, name: str, use: Reference) -> bool:
    """Whether a function returns a parameter of its own type parameters."""
    if not unit.rules.names.default_exports:
        return False
    for function in symbols_of(resolve_bare(index, unit, name, use.within)):
        returned = index.bindings(index.unit(function.path)).inside(RETURNS, function.qualified)
        if any(row.mark == ":" and _PARAMETER.fullmatch(row.text) for row in returned):
            return True
    return False


def _evaluate_import(index: CodeIndex, unit: Unit, name: str, called: str, use: Reference) -> Values:
    """`require("./cart")`, `import("./cart")`. A receiver is stored without its strings: the imports of its line are
    meant."""
    if not unit.rules.names.default_exports or name not in ("require", "import") or not called.startswith("("):
        return []
    if written := QUOTED.match(called, 1):
        imports = [Import(written[1], use.line)]
    else:
        imports = [import_ for import_ in unit.imports if import_.line == use.line]
    modules = [ModuleId((target.path,)) for target in index.targets(unit, *imports)]
    exported = [symbol for module in modules for symbol in resolve_module(index, module)]
    return _values(index, exported, called[find_closing(called, 0) :])


def _follow_attributes(index: CodeIndex, current: Values, links: Links, unit: Unit, use: Reference) -> Values:
    for name, called in links:
        values = _evaluate_argument(index, unit, name, called, use) or (
            value for owner in merge_opened(index, current) for value in _evaluate_attribute(index, owner, name, called)
        )
        current = list(dict.fromkeys(values))
    return current


def _evaluate_attribute(index: CodeIndex, owner: Value, name: str, called: str) -> Values:
    if isinstance(owner, Container):
        if name in _ELEMENT_METHODS and called:
            return _element_types(index, owner) if name != "values" else [owner]
        return [owner] if name in _SAME_METHODS and called else []
    values = _values(index, resolve_attribute(index, owner, name), called)
    if values or isinstance(owner, ModuleId):
        return values
    if name == "new" and index.rules(owner.path).names.constants and is_type(index, owner):
        return [owner]  # a method that every type of Ruby has
    if name in _BUILDING and has_accessors(index.unit(owner.path)) and is_type(index, owner):
        return [owner]  # its builder has methods called like its fields
    return _called_or_indexed(index, _evaluate_field(index, owner, name), called)


def _evaluate_field(index: CodeIndex, owner: SymbolId, name: str) -> Values:
    """A field assigned by methods of the type or of its bases."""

    def find() -> Values:
        return next((found for symbol in lineage(index, owner) if (found := _find_assigned(index, symbol, name))), [])

    return index.memo.once(("field", owner, name), find, _MAX_STEPS)


def _find_assigned(index: CodeIndex, owner: SymbolId, name: str) -> Values:
    unit = index.unit(owner.path)
    bindings, inside = index.bindings(unit), f"{owner.qualified}."
    in_methods = [row for row in bindings.of(FIELD + name) if unit.without_namespace(row.scope).startswith(inside)]
    rows = [*in_methods, *(row for row in bindings.of(name) if unit.without_namespace(row.scope) == owner.qualified)]
    by_type = sorted(rows, key=lambda row: row.mark != ":")
    return next((values for row in by_type if (values := _evaluate_row(index, unit, row))), [])


# --- what a name holds -----------------------------------------------------------------------------------------------


def _values(index: CodeIndex, meaning: Meaning, called: str) -> Values:
    """From what a name means to what it holds: for a variable its type, for a call its result."""
    values: list[Value] = []
    for symbol in merge_opened(index, meaning):
        definition = index.definition(symbol) if isinstance(symbol, SymbolId) else None
        if isinstance(symbol, ModuleId):
            values += [] if called.startswith("(") else [symbol, *_exported_values(index, symbol)]
        elif definition is None:
            values.append(symbol)
        elif definition.is_type:
            values += _elements(index, [symbol]) if called.startswith("[") and "(" not in called else [symbol]
        else:
            values += _value_of(index, symbol, definition, called)
    return values


def _exported_values(index: CodeIndex, module: ModuleId) -> Values:
    """What a file of JavaScript makes to export it: `module.exports = new Cart()`."""
    path, name = module.paths[0], "default" if module.written == "default" else EXPORTED
    if not index.rules(path).names.default_exports:
        return []

    def find() -> Values:
        unit, use = index.unit(path), Reference(name, _LAST_LINE, "use", "")
        return [value for text in exported_values(index, path, name) for value in evaluate(index, unit, text, use)]

    return index.memo.once(("exported", path, name), find, _MAX_STEPS)


def _value_of(index: CodeIndex, symbol: SymbolId, definition: Definition, called: str) -> Values:
    unit = index.unit(symbol.path)
    values = _find_values(index, unit, symbol, definition, called)
    is_object = not values and (symbol.qualified in unit.extended or holds_object(index, symbol))
    return [symbol] if is_object else values


def _find_values(index: CodeIndex, unit: Unit, symbol: SymbolId, definition: Definition, called: str) -> Values:
    if called.startswith("(") and not definition.is_function:
        definition = _function(unit, symbol) or definition
    if definition.is_function:
        if called.startswith("(") or definition.kind == "method":
            values = _apply_decorator(index, unit, symbol, called) or _return_values(index, symbol)
            rest = called[called.find(")") + 1 :] if called.startswith("(") else called
            return _called_or_indexed(index, values, rest)
        return _apply_decorator(index, unit, symbol, "")
    values = _evaluate_rows(index, unit, _rows_of(index, unit, symbol), definition.start_line)
    if called.startswith("()") and unit.rules.names.accessors:  # what a generated method gets
        return _called_or_indexed(index, values, called[2:])
    if called.startswith("(") and has_accessors(unit):
        return [symbol.owner]  # a builder
    return _called_or_indexed(index, values, called)


def _function(unit: Unit, symbol: SymbolId) -> Definition | None:
    """The method named like a field, as in Rust's builders."""
    functions = (member for member in unit.named(symbol.qualified.rpartition(".")[2]) if member.is_function)
    return next((member for member in functions if unit.symbol(member) == symbol), None)


def _rows_of(index: CodeIndex, unit: Unit, symbol: SymbolId) -> list[Row]:
    """The rows that bind a variable or a field, in the scope given by its qualified name."""
    outer, _, name = symbol.qualified.rpartition(".")
    rows = [row for row in index.bindings(unit).of(name) if unit.without_namespace(row.scope) == outer]
    return [row for row in rows if row.text]


def _apply_decorator(index: CodeIndex, unit: Unit, symbol: SymbolId, called: str) -> Values:
    """A decorator with a known return type turns the function into that."""
    rows = index.bindings(unit).inside(DECORATOR, symbol.qualified) if unit.rules.names.decorators else []
    if not rows:
        return []
    values = _evaluate_row(index, unit, rows[0]._replace(scope=symbol.owner.qualified))
    made = [symbol for symbol in symbols_of(values) if is_type(index, symbol)]
    return _called_or_indexed(index, made, called) if called else made


def _return_values(index: CodeIndex, symbol: SymbolId) -> Values:
    unit, definition = index.unit(symbol.path), index.definition(symbol)
    if definition is None:
        return []
    if not definition.is_function:
        definition = _function(unit, symbol) or definition
    rows = index.bindings(unit).inside(RETURNS, definition.qualified)
    rows = [row for row in rows if definition.start_line <= row.line <= definition.end_line]
    if not rows and unit.rules.imports.headers:  # `static Cart *instance();`
        before = definition.signature.partition(f"{definition.name}(")[0]
        return _types(index, unit, before.rstrip(" *&"), symbol.owner.qualified)
    typed = [row for row in rows if row.mark == ":"]
    return [value for row in typed[:1] or rows for value in _evaluate_row(index, unit, row)]


def _called_or_indexed(index: CodeIndex, values: Values, called: str) -> Values:
    for sign in called.replace("()", "(").replace("[]", "[").replace("{}", ""):
        if sign == "[":
            values = _elements(index, values)
        elif sign == "(":
            values = [value for owner in symbols_of(values) for value in _call(index, owner)]
    return values


def _call(index: CodeIndex, owner: SymbolId) -> Values:
    """The result of calling a value: an object's `__call__`, an instance of a class, a function's return type."""
    definition = index.definition(owner)
    if definition is not None and definition.is_function:
        return _return_values(index, owner)
    return _call_methods(index, owner, ("__call__",)) or [owner]


def _call_methods(index: CodeIndex, owner: SymbolId, names: Iterable[str]) -> Values:
    members = [member for name in names for member in find_member(index, owner, name)]
    return [value for member in members for value in _return_values(index, member)]


# --- what a row binds ------------------------------------------------------------------------------------------------


def _evaluate_rows(index: CodeIndex, unit: Unit, rows: list[Row], line: int) -> Values:
    """The written type; otherwise the nearest value above."""
    typed = [row for row in rows if row.mark == ":"]
    above = [row for row in typed or rows if row.line <= line]
    if typed:
        return _evaluate_row(index, unit, above[-1] if above else typed[0])
    for row in reversed(above or rows[:1]):
        if row.text:
            return _evaluate_row(index, unit, row)
    return []


def _evaluate_row(index: CodeIndex, unit: Unit, row: Row) -> Values:
    if not row.text:
        return []
    return index.memo.once(("row", unit.path, row), lambda: _read_row(index, unit, row), _MAX_STEPS)


def _read_row(index: CodeIndex, unit: Unit, row: Row) -> Values:
    if row.mark == ":":
        return _types(index, unit, row.text, row.scope)
    text = delegated_value(row.text)
    if cast := cast_type(text):
        return _types(index, unit, cast, row.scope)
    use = Reference(row.name, row.line - 1 if row.text.startswith(row.name) else row.line, "use", row.scope)
    if row.mark == "~":
        return _passed_values(index, unit, row, use)
    values = evaluate(index, unit, text, use)
    if row.mark == "@":
        return _elements(index, values)
    return _enter(index, values) if row.mark == "^" else values


def _passed_values(index: CodeIndex, unit: Unit, row: Row, use: Reference) -> Values:
    """`xs.map(x => …)`: an element; `made.then(x => …)`: the value itself."""
    receiver, _, method = row.text.rpartition(".")
    if method in _FOLDS:
        return []
    values = evaluate(index, unit, receiver.removesuffix("?"), use)
    return (
        values if method in _PASSING else _elements(index, [value for value in values if isinstance(value, Container)])
    )


def _enter(index: CodeIndex, values: Values) -> Values:
    """What `with` yields: a container is a generator turned into a context manager."""
    entered: list[Value] = []
    for value in values:
        if isinstance(value, Container):
            entered += _element_types(index, value)
        elif isinstance(value, SymbolId):
            entered += _call_methods(index, value, _ENTERING) or [value]
    return entered


# --- types as they are written ---------------------------------------------------------------------------------------


def _types(index: CodeIndex, unit: Unit, text: str, scope: str) -> Values:
    if unit.rules.names.default_exports and _OF_KEY.fullmatch(text):
        return []  # `Services[Name]` of TypeScript is the type of a key
    found: list[Value] = []
    for written in written_types(text):
        if written.element:
            found.append(Container(unit.path, scope, written.element))
            continue
        if written.name in ("Self", "self", "this", "static"):
            found += _own_type(index, unit, scope)
            continue
        meant = resolve_dotted(index, unit, written.name, unit.without_namespace(scope))
        if meant:
            found += [symbol for symbol in meant if not isinstance(symbol, SymbolId) or is_type(index, symbol)] or [
                value for symbol in symbols_of(meant) for value in _instance(index, symbol)
            ]
        elif written.arguments:
            found.append(Container(unit.path, scope, written.arguments[-1]))
    return list(dict.fromkeys(found))


def _instance(index: CodeIndex, symbol: SymbolId) -> Values:
    """`Alias = Union[A, B]` and `Model = get_model()`: a variable that holds a type."""
    unit = index.unit(symbol.path)
    rows = _rows_of(index, unit, symbol)
    if not rows:
        return []
    return index.memo.once(("instance", symbol), lambda: _types(index, unit, rows[-1].text, ""), _MAX_STEPS)


def _elements(index: CodeIndex, values: Values) -> Values:
    elements: list[Value] = []
    for value in values:
        if isinstance(value, SymbolId):
            elements += _element_of_type(index, value)
        elif isinstance(value, Container):
            elements += _element_types(index, value)
    return elements


def _element_of_type(index: CodeIndex, owner: SymbolId) -> Values:
    unit = index.unit(owner.path)
    if rows := index.bindings(unit).inside(UNDERLYING, owner.qualified):
        return _elements(
            index, [value for value in _types(index, unit, rows[0].text, "") if isinstance(value, Container)]
        )
    made = _call_methods(index, owner, _ITERATION)
    elements = [value for held in made if isinstance(held, Container) for value in _element_types(index, held)]
    return elements or [value for iterator in symbols_of(made) for value in _call_methods(index, iterator, _STEPS)]


def _element_types(index: CodeIndex, container: Container) -> Values:
    return _types(index, index.unit(container.path), container.element, container.scope)
