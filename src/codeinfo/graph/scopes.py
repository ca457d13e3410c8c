"""What a name means in a file: by its scopes, its imports, and the files visible without an import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from codeinfo.cache import Cache
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import Unit
from codeinfo.graph.uses import EMBEDS, Bindings, Row, written_types
from codeinfo.model import Definition, Import, Reference, symbol_kind
from codeinfo.ports import FileLines

_MAX_BASES = 12
_MOST_IMPORT_LINES = 60  # of one statement
_MOST_MODULES = 4  # that re-export macros, nested
_MOST_INCLUDED = 1_000_000  # paths kept for files of C and C++: some 60 MB
_MOST_MACROS = 2  # of one name: more are test helpers, each visible only in its own function


class SymbolId(NamedTuple):
    path: str
    qualified: str

    @property
    def owner(self) -> SymbolId:
        return SymbolId(self.path, self.qualified.rpartition(".")[0])

    def __str__(self) -> str:
        return f"{self.path}::{self.qualified}"


class ModuleId(NamedTuple):
    """A file, or the files of a package, bound to a name."""

    paths: tuple[str, ...]
    written: str = ""


Source = ModuleId | Callable[[], Sequence[SymbolId | ModuleId]]  # a callable reads the file a name comes from


class Binder:
    """Looks names up. An answer is a list of symbols: overloads and platform variants share a name.

    A common name is looked up thousands of times in a few places, so answers are cached; they must not be modified.
    """

    def __init__(self, index: CodeIndex) -> None:
        self._index = index
        self._by_file: dict[str, dict[str, list[Source]]] = {}
        self._bound: dict[tuple[str, str], list[SymbolId | ModuleId]] = {}
        self._besides: dict[tuple[str, str], list[SymbolId | ModuleId]] = {}
        self._offered: dict[tuple[str, str], list[SymbolId | ModuleId]] = {}
        self._includes: Cache[str, frozenset[str]] = Cache(_MOST_INCLUDED, len)
        self._bases: dict[SymbolId, list[SymbolId]] = {}
        self._unfinished = 0  # answers found inside a cycle may be incomplete and are not cached

    @contextmanager
    def _in_cycle(self) -> Iterator[None]:
        self._unfinished += 1
        try:
            yield
        finally:
            self._unfinished -= 1

    def unit(self, path: str) -> Unit | None:
        return self._index.unit(path)

    def lines(self, unit: Unit) -> FileLines:
        return self._index.lines(unit.facts.file_id)

    def bindings(self, unit: Unit) -> Bindings:
        return self._index.bindings(unit.facts.file_id)

    def local_rows(self, unit: Unit, name: str, use: Reference, *, before: bool = False) -> list[Row]:
        """What binds a name inside the functions and blocks around a use, innermost first. Empty if that is a
        definition of its own, or if a function declares that it means an outer name."""
        bindings = self.bindings(unit)
        if not bindings.of(name):
            return []
        around = _functions_around(unit, use.within)
        rows = (bindings.visible(name, use.line, around, before=True) if before else []) or bindings.visible(
            name, use.line, around
        )
        if not rows or any(row.mark == "!" for row in rows):
            return []
        # A parameter may share its method's name.
        defined = {one.start_line for one in unit.by_name.get(name, ()) if one.kind != "method"}
        is_defined = defined.intersection(row.line for row in rows) or (
            defined and any(unit.without_namespace(f"{row.scope}.{name}") in unit.by_qualified for row in rows)
        )
        return [] if is_defined else rows

    def definition(self, symbol: SymbolId) -> Definition | None:
        unit = self._index.unit(symbol.path)
        return unit.by_qualified.get(symbol.qualified) if unit else None

    def resolve_bare(self, unit: Unit, name: str, within: str) -> list[SymbolId | ModuleId]:
        """What a name without a receiver means inside `within`."""
        if unit.facts.rules.names.constants and name[:1].isupper():
            return self._resolve_constant(name, within)
        scope = unit.without_namespace(within)
        while scope:
            if found := self._find_in_scope(unit, scope, name) or self._find_imported_in(unit, scope, name):
                return found
            scope = scope.rpartition(".")[0]
        bound = self.resolve_imported(unit, name)
        module = self._module_file(unit, name)
        own = unit.by_qualified.get(name)
        if module:
            return [*module, SymbolId(unit.facts.path, name)] if own and own.kind != "module" else module
        if own:
            # `try: from a import b` / `except ImportError: b = None` gives a name two meanings.
            also = bound if own.kind in {"variable", "constant"} else []
            return [SymbolId(unit.facts.path, name), *also]
        if bound:
            return bound
        return self._beside(unit, name) or self._find_macro(unit, name)

    def _resolve_constant(self, name: str, within: str) -> list[SymbolId | ModuleId]:
        """What a Ruby constant means: the one in the innermost enclosing module for which any file defines the name."""
        defining = [one for path in sorted(self._index.defining(name)) if (one := self._index.unit(path))]
        scopes = [within] if within else []
        while scopes and "." in scopes[-1]:
            scopes.append(scopes[-1].rpartition(".")[0])
        for qualified in (*(f"{scope}.{name}" for scope in scopes), name):
            if found := [SymbolId(one.facts.path, qualified) for one in defining if qualified in one.by_qualified]:
                return list(found)
        return []

    def _module_file(self, unit: Unit, name: str) -> list[SymbolId | ModuleId]:
        """The file of a module that is only declared: `mod pool;`."""
        if not unit.facts.rules.names.inline_modules:
            return []
        lines = {one.start_line for one in unit.by_name.get(name, ()) if one.kind == "module" and one.qualified == name}
        declared = [one for one in unit.by_shown.get(name, ()) if one.line in lines and not one.names] if lines else []
        targets = [target for one in declared for target in self._index.outcome(unit.facts, one).targets]
        return [ModuleId((target.path,), name) for target in targets if not target.names]

    def _find_macro(self, unit: Unit, name: str) -> list[SymbolId | ModuleId]:
        """A macro from another file, made visible by an attribute on it or on its module."""
        if not unit.facts.rules.names.macros:
            return []
        defining = (self._index.unit(path) for path in self._index.defining(name))
        found = [
            SymbolId(one.facts.path, name)
            for one in defining
            if one
            for definition in one.by_name[name]
            if definition.kind == "macro" and self._is_macro_visible(unit, one, definition)
        ]
        return list(dict.fromkeys(found)) if len(found) <= _MOST_MACROS else []

    def _is_macro_visible(self, unit: Unit, owner: Unit, macro: Definition) -> bool:
        """`#[macro_export]` above it, or `#[macro_use]` above its module in the file that both lie below."""
        if _has_attribute(self.lines(owner), macro.start_line, "macro_export"):
            return True
        return self._exposes_macros(unit, owner, _MOST_MODULES)

    def _exposes_macros(self, unit: Unit, owner: Unit, depth: int) -> bool:
        """Whether the module above a file exposes its macros to itself, or re-exports them further up."""
        parents = {edge.source for edge in self._index.graph.edges_to(owner.facts.path)}
        for parent in (one for path in parents if (one := self._index.unit(path))):
            text = self.lines(parent)
            declared = (
                one
                for one in parent.imports
                if one.module.startswith("self::") and not one.names and _has_attribute(text, one.line, "macro_use")
            )
            targets = {target.path for one in declared for target in self._index.outcome(parent.facts, one).targets}
            if owner.facts.path in targets and (
                unit.facts.path.startswith(parent.facts.folder)
                or (depth > 0 and self._exposes_macros(unit, parent, depth - 1))
            ):
                return True
        return False

    def path_start(self, unit: Unit, name: str) -> list[SymbolId | ModuleId]:
        """The crate or module that a path starts from without an import."""
        if not unit.facts.rules.imports.paths:
            return []
        targets = self._index.outcome(unit.facts, Import(name, 0)).targets
        return [ModuleId((target.path,), name) for target in targets if not target.names]

    def _beside(self, unit: Unit, name: str) -> list[SymbolId | ModuleId]:
        """Names that need no qualification: those of the package, and from wildcard imports."""
        key = (unit.facts.path, name)
        if key not in self._besides:
            self._besides[key] = self._look_beside(unit, name)
        return self._besides[key]

    def _look_beside(self, unit: Unit, name: str) -> list[SymbolId | ModuleId]:
        defining = self._index.defining(name)
        known = self._index.graph.files
        visible = self._index.visible(unit.facts) if defining else ()
        files = [path for path in visible if path in defining and name not in known[path].hidden]
        found = [symbol for path in files for symbol in self.resolve_top_level(path, name)]
        for written in unit.imports:
            if written.names == ("*",) or (unit.facts.rules.names.imports_open and not written.names):
                outcome = self._index.outcome(unit.facts, written)
                for target in outcome.targets:
                    if not outcome.package or target.path in defining:
                        found += self.resolve_top_level(target.path, name)
        if unit.facts.rules.imports.headers and defining:
            headers = defining & self._included_files(unit.facts.path)
            if not headers:
                text = self.lines(unit).joined()
                is_declared = f"class {name};" in text or f"struct {name};" in text
                headers = defining if is_declared else headers
            found += [
                one for path in sorted(headers) for one in self.resolve_top_level(path, name) if not self._declares(one)
            ]
        return list(dict.fromkeys(found))

    def is_namespace(self, unit: Unit, written: str) -> bool:
        """Whether something written before a name of C++ is a namespace of a header that the file includes."""
        if not unit.facts.rules.imports.headers:
            return False
        files = self._index.graph.files
        return any(
            written in files[path].packages for path in (unit.facts.path, *self._included_files(unit.facts.path))
        )

    def _included_files(self, path: str) -> frozenset[str]:
        """The files that a file of C or C++ includes, directly or through others."""
        known = self._includes.get(path)
        if known is not None:
            return known
        found: set[str] = set()
        waiting = [path]
        while waiting:
            targets = {edge.target for edge in self._index.graph.edges_from(waiting.pop())} - found
            found |= targets
            waiting += targets
        return self._includes.add(path, frozenset(found))

    def _declares(self, symbol: SymbolId | ModuleId) -> bool:
        """Whether a function is only declared there: its definition may be in any file."""
        found = self.definition(symbol) if isinstance(symbol, SymbolId) else None
        return found is not None and found.kind == "prototype"

    def _find_in_scope(self, unit: Unit, scope: str, name: str) -> list[SymbolId | ModuleId]:
        inner = f"{scope}.{name}"
        owner = unit.by_qualified.get(scope)
        is_type = owner is not None and owner.is_type
        if is_type and unit.facts.rules.names.implicit_self:
            return list(self.find_member(SymbolId(unit.facts.path, scope), name))
        # What a variable or a table holds is written after its name.
        is_held = owner.kind in {"variable", "constant"} if owner else unit.facts.rules.names.tables
        if inner in unit.by_qualified and not is_type and not is_held:
            return [SymbolId(unit.facts.path, inner)]
        return []

    def _find_imported_in(self, unit: Unit, scope: str, name: str) -> list[SymbolId | ModuleId]:
        """What an import inside a function brings in, before the file's own definitions."""
        owner = unit.by_qualified.get(scope) if name in unit.by_qualified and name in unit.by_shown else None
        lines = range(owner.start_line, owner.end_line + 1) if owner is not None and owner.is_function else ()
        inside = [one for one in unit.by_shown.get(name, ()) if one.line in lines]
        pairs = (pair for written in inside for pair in self._sources_of(unit, written))
        return [
            one for brought, found in pairs if brought == name for one in (found() if callable(found) else (found,))
        ]

    # --- imports ---

    def resolve_renamed(self, unit: Unit, name: str, line: int) -> list[SymbolId | ModuleId]:
        """What a name means in the import that renames it."""
        giving = [one for one in unit.by_shown.get(name, ()) if one.alias and name in one.names]
        on_line = [one for one in giving if one.line == line]
        above = [one for one in giving if one.line < line <= one.line + _MOST_IMPORT_LINES]
        targets = [target for one in on_line or above[-1:] for target in self._index.outcome(unit.facts, one).targets]
        return [one for target in targets for one in self.resolve_top_level(target.path, name)]

    def resolve_imported(self, unit: Unit, name: str) -> list[SymbolId | ModuleId]:
        """What imports bind a name to in a file. Only this name is followed: no file is read for the others."""
        key = (unit.facts.path, name)
        if key not in self._bound:
            brought = self._import_sources(unit, name)
            self._bound[key] = []  # an import cycle ends here
            with self._in_cycle():
                found = [one for source in brought for one in (source() if callable(source) else (source,))]
            self._bound[key] = found
        return self._bound[key]

    def _import_sources(self, unit: Unit, name: str) -> Sequence[Source]:
        """Where imports bring a name from. If it can only be one that names it, the others are not resolved."""
        if not unit.facts.rules.names.imports_show:
            return self._sources_by_name(unit).get(name, ())
        found = (pair for written in unit.by_shown.get(name, ()) for pair in self._sources_of(unit, written))
        return [source for brought, source in found if brought == name]

    def _sources_by_name(self, unit: Unit) -> Mapping[str, list[Source]]:
        """The names that imports bring into a file, and where from."""
        path = unit.facts.path
        if path not in self._by_file:
            brought = self._by_file[path] = {}
            for written in unit.imports:
                for name, source in self._sources_of(unit, written):
                    brought.setdefault(name, []).append(source)
        return self._by_file[path]

    def _sources_of(self, unit: Unit, written: Import) -> Iterator[tuple[str, Source]]:
        outcome = self._index.outcome(unit.facts, written)
        if outcome.package:
            (name,) = unit.facts.rules.imports.bound(replace(written, names=()))
            yield name, ModuleId(tuple(target.path for target in outcome.targets), written.module)
            return
        for target in outcome.targets:
            if not target.names:
                name = written.alias or _module_name(written, target.path)
                yield name, ModuleId((target.path,), written.module)
                if not written.alias and not written.names and "." in name and unit.facts.rules.names.dotted_modules:
                    first = name.partition(".")[0]  # `import a.b` binds a
                    top = self._index.outcome(unit.facts, Import(first, written.line)).targets
                    yield from ((first, ModuleId((one.path,), first)) for one in top if not one.names)
            for name in target.names:
                if written.names and name not in written.names:  # Java's static import: a member of the class
                    for member in written.names:
                        yield written.alias or member, partial(self.find_member, SymbolId(target.path, name), member)
                else:
                    yield written.alias or name, partial(self._resolve_export, target.path, name, written.alias)

    def _resolve_export(self, path: str, name: str, alias: str) -> list[SymbolId | ModuleId]:
        """A default export is mostly named as the import or its file is; a method called `default` is none."""
        own = (alias, path.rpartition("/")[2].partition(".")[0]) if name == "default" and alias else ()
        return next((found for one in (*own, name) if (found := self.resolve_top_level(path, one))), [])

    def resolve_top_level(self, path: str, name: str) -> list[SymbolId | ModuleId]:
        """A top-level name of a file, followed through re-exports."""
        place = (path, name)
        if place not in self._offered:
            found, tried = self._follow_reexports(place)
            self._offered[place] = found
            if not found:  # nothing was left untried, so no file on the way exports it either
                self._offered.update(dict.fromkeys(tried, found))
        return self._offered[place]

    def _follow_reexports(self, place: tuple[str, str]) -> tuple[list[SymbolId | ModuleId], set[tuple[str, str]]]:
        """Where a name comes from, depth first in import order; and the places tried."""
        waiting: list[tuple[str, str] | ModuleId] = [place]
        tried: set[tuple[str, str]] = set()
        while waiting:
            current = waiting.pop()
            if isinstance(current, ModuleId):
                return [current], tried
            if current in tried:
                continue
            tried.add(current)
            if known := self._offered.get(current):
                return known, tried
            unit = self._index.unit(current[0])
            module = self._module_file(unit, current[1]) if unit is not None else []
            offered = unit.offered(current[1]) if unit is not None else ""
            if module or offered:
                is_module = module and unit is not None and unit.by_qualified[offered].kind == "module"
                return [*module, *(() if is_module else (SymbolId(current[0], offered),))], tried
            if unit is not None and known is None:
                waiting += reversed(self._reexport_sources(unit, current[1]))
        return [], tried

    def _reexport_sources(self, unit: Unit, name: str) -> list[tuple[str, str] | ModuleId]:
        """Where else a file may get a name from."""
        found: list[tuple[str, str] | ModuleId] = []
        for written in unit.taking(name):
            if written.names and written.alias not in ("", name):
                continue  # it is known by its new name only
            outcome = self._index.outcome(unit.facts, written)
            for target in () if outcome.package else outcome.targets:  # a package is not re-exported
                if not target.names and written.names != ("*",):
                    if _module_name(written, target.path) == name or written.alias == name:
                        found.append(ModuleId((target.path,), written.module))
                elif target.path != unit.facts.path:
                    found.append((target.path, written.names[0] if written.alias == name and written.names else name))
        return found

    # --- types ---

    def find_member(self, owner: SymbolId, name: str) -> list[SymbolId]:
        """A member of a type, its own or the nearest inherited one."""
        return next((own for one in self.lineage(owner) if (own := self.find_own_member(one, name))), [])

    def find_own_member(self, owner: SymbolId, name: str) -> list[SymbolId]:
        unit = self._index.unit(owner.path)
        if unit is None:
            return []
        inner = f"{owner.qualified}.{name}"
        if inner in unit.by_qualified:
            return [SymbolId(owner.path, inner)]
        if not unit.facts.rules.names.open_types:
            return []
        defining, is_known_by_name = self._index.defining(name), unit.facts.rules.names.constants
        seen = sorted(defining) if is_known_by_name else self._index.visible(unit.facts)
        others = (self._index.unit(path) for path in seen if path in defining)
        return [SymbolId(one.facts.path, inner) for one in others if one and inner in one.by_qualified]

    def bases(self, owner: SymbolId) -> list[SymbolId]:
        found = self._bases.get(owner)
        if found is None:
            self._bases[owner] = []  # a type that is its own base ends here
            with self._in_cycle():
                found = self._look_for_bases(owner)
            if self._unfinished:
                del self._bases[owner]
            else:
                self._bases[owner] = found
        return found

    def _look_for_bases(self, owner: SymbolId) -> list[SymbolId]:
        definition, unit = self.definition(owner), self._index.unit(owner.path)
        if definition is None or unit is None:
            return []
        written = list(definition.bases)
        for row in self.bindings(unit).inside(EMBEDS, definition.qualified):
            written += [one.name for one in written_types(row.text) if one.name]
        around = owner.qualified.rpartition(".")[0]
        found = [self.resolve_dotted(unit, base, around) for base in written]
        return list(dict.fromkeys(one for some in found for one in some if isinstance(one, SymbolId) and one != owner))

    def lineage(self, owner: SymbolId) -> Iterator[SymbolId]:
        """A type, its bases and theirs, near ones first."""
        waiting, seen = [owner], set[SymbolId]()
        while waiting and len(seen) <= _MAX_BASES:
            current = waiting.pop(0)
            if current not in seen:
                seen.add(current)
                yield current
                waiting += self.bases(current)

    def resolve_dotted(self, unit: Unit, written: str, within: str) -> list[SymbolId | ModuleId]:
        """A path of names: `module.Class`, `pkg.sub.func`, `Outer.Inner`."""
        parts = [part for part in written.replace("::", ".").replace("\\", ".").split(".") if part]
        for length in range(len(parts), 1, -1):
            if whole := self.resolve_imported(unit, ".".join(parts[:length])):
                return self._descend(whole, parts[length:])
        if not parts:
            return []
        spaces = (at for at in range(len(parts) - 1, 0, -1) if self.is_namespace(unit, ".".join(parts[:at])))
        parts = parts[next(spaces, 0) :]
        first = self.resolve_bare(unit, parts[0], within) or (
            self.path_start(unit, parts[0]) if "::" in written else []
        )
        return self._descend(first, parts[1:])

    def _descend(self, meaning: Sequence[SymbolId | ModuleId], parts: Sequence[str]) -> list[SymbolId | ModuleId]:
        current = list(meaning)
        for part in parts:
            current = [found for one in current for found in self.resolve_attribute(one, part)]
        return current

    def resolve_attribute(self, owner: SymbolId | ModuleId, name: str) -> list[SymbolId | ModuleId]:
        """What `owner.name` means."""
        if isinstance(owner, SymbolId):
            return list(self.find_member(owner, name))
        found = [symbol for path in owner.paths for symbol in self.resolve_top_level(path, name)]
        if found or not owner.written:
            return found
        unit = self._index.unit(owner.paths[0])
        inner = Import(f"{owner.written}.{name}", 0)
        if unit is None or not unit.facts.rules.names.dotted_modules or owner.written.startswith("."):
            return []
        targets = self._index.outcome(unit.facts, inner).targets
        return [ModuleId((targets[0].path,), inner.module)] if targets and not targets[0].names else []


def _functions_around(unit: Unit, within: str) -> list[str]:
    """The qualified names of the functions around a place, innermost first."""
    found = []
    while within:
        definition = unit.by_qualified.get(unit.without_namespace(within))
        if definition is None or not definition.is_type:
            found.append(within)
        within = within.rpartition(".")[0]
    return found


def _module_name(written: Import, target: str) -> str:
    """`import a.b` binds a path to be written out; `from a import b` with a module b binds b."""
    if not written.names:
        return written.module.rpartition("::")[2] if "::" in written.module else written.module
    stem = target.rpartition("/")[2].partition(".")[0]
    if stem in {"__init__", "mod", "index"}:
        stem = target.rpartition("/")[0].rpartition("/")[2]
    return stem


def _has_attribute(lines: FileLines, line: int, name: str) -> bool:
    """Whether a Rust attribute stands on a line or directly above it."""
    above = line - 1
    while lines.get(above, "").lstrip().startswith("#["):
        above -= 1
    return any(f"#[{name}" in lines.get(at, "") for at in range(above, line + 1))


# --- names from outside ---------------------------------------------------------------------------------------------


class Foreign:
    """Names that imports bind to something outside the codebase: their members are not ours either."""

    def __init__(self, index: CodeIndex) -> None:
        self._index = index
        self._names: dict[str, frozenset[str]] = {}

    def only(self, name: str) -> bool:
        """Whether nothing in the codebase has the name, so that every use of it means something outside."""
        return not self._index.defining(name)

    def has(self, unit: Unit, name: str) -> bool:
        outside = unit.facts.rules.names.outside
        if not outside or (outside == "types" and not name[:1].isupper()):
            return False
        if unit.facts.path not in self._names:
            self._names[unit.facts.path] = self._find_foreign(unit)
        return name in self._names[unit.facts.path]

    def _find_foreign(self, unit: Unit) -> frozenset[str]:
        """A name that another import brings from here, as after a `try`, is left out."""
        outside: set[str] = set()
        inside: set[str] = set()
        for written in unit.imports:
            is_external = self._index.outcome(unit.facts, written).status == "external"
            (outside if is_external else inside).update(unit.facts.rules.imports.bound(written))
        return frozenset(outside - inside - unit.by_qualified.keys())


# --- whole names of modules -----------------------------------------------------------------------------------------

_CHAIN = re.compile(r"(?:[A-Z]\w*|__MODULE__)(?:\.[A-Z]\w*)*\.\Z")  # what precedes a name, up to its dot
_DECLARED = re.compile(r"(?:\bdef\w*|@spec|@callback)\s+\Z")
_LONGER = re.compile(r"\.[A-Z]")
_WORD = re.compile(r"\s*(\w+)")
_STATEMENT = re.compile(r"\s*|.*(?:->|<-|=|\bdo:|\belse:|;)\s*")  # what a call without brackets may follow
_ARGUMENT = re.compile(
    r"[ \t]+(?!(?:and|or|in|not|when|do|end|else|after|rescue|catch)\b)(?:[\w\"'{\[%@]|:(?!:)|&(?!&)|~[A-Za-z]|<<(?!<))"
)
_BLOCK = re.compile(r"[ \t]+do\s*\Z")
_MODULES = frozenset({"module", "protocol", "impl"})


def _is_command(before: str, after: str) -> bool:
    """Whether the context of a name makes it a call without brackets: `scope "/", Shop do`, `|> run`."""
    has_argument = _ARGUMENT.match(after) or (not before.strip() and _BLOCK.match(after))
    return bool(has_argument and _STATEMENT.fullmatch(before)) or before.rstrip().endswith("|>")


class ModuleNames:
    """For languages in which every module is known by its full name, shortened by an alias, a nested module or
    `__MODULE__`; functions follow their module's name, or are the module's own or imported ones (Elixir)."""

    def __init__(self, index: CodeIndex) -> None:
        self._index = index
        self._short: dict[str, Mapping[str, str]] = {}

    def meaning(self, unit: Unit, use: Reference, before: str, after: str) -> tuple[SymbolId, ...] | None:
        """The symbols meant, empty if something else is, None if unknown."""
        chain = _CHAIN.search(before)
        if chain is None and before.endswith((".", "@")):
            return None if before.endswith(".") and after.startswith("(") else ()  # or a field or attribute
        parts = chain.group().split(".")[:-1] if chain else []
        if use.name[:1].isupper():
            return () if _LONGER.match(after) else self._module(unit, [*parts, use.name], use)
        if parts:
            return self._function(unit, self._full_name(unit, parts, use), use.name)
        return self._own_function(unit, use, before, after)

    def _module(self, unit: Unit, parts: list[str], use: Reference) -> tuple[SymbolId, ...]:
        whole = self._full_name(unit, parts, use)
        return tuple(SymbolId(path, whole) for path in self._files(unit, whole))

    def _function(self, source: Unit, module: str, name: str) -> tuple[SymbolId, ...] | None:
        """A module from outside has none of ours; one of ours may have functions made by a macro."""
        files = [unit for path in self._files(source, module) if (unit := self._index.unit(path))]
        found = [SymbolId(unit.facts.path, f"{module}.{name}") for unit in files]
        known = tuple(one for one, unit in zip(found, files, strict=True) if one.qualified in unit.by_qualified)
        return known or (None if files else ())

    def _own_function(self, unit: Unit, use: Reference, before: str, after: str) -> tuple[SymbolId, ...] | None:
        if before.endswith(":") or after.startswith(":") or _DECLARED.search(before):
            return ()  # an atom, a key, or the function itself
        if use.role != "call" and not before.endswith("&") and not _is_command(before, after):
            return ()  # without brackets and arguments it is a variable
        imported = [one.module for one in self._imports_with(unit, "import")]
        used = [module for one in self._imports_with(unit, "use") for module in self._modules_used_by(unit, one.module)]
        for module in (self._around(unit, use.within), *imported, *used):
            found = self._function(unit, module, use.name) if module else None
            if found:
                return found
        return None

    def _modules_used_by(self, unit: Unit, module: str) -> list[str]:
        """The modules that `use` imports: those whose import the used module writes inside its functions."""
        found = []
        for other in filter(None, map(self._index.unit, self._files(unit, module))):
            callables = [one for one in other.definitions if symbol_kind(one.kind).is_callable]
            for written in self._imports_with(other, "import"):
                if any(one.start_line < written.line <= one.end_line for one in callables):
                    found.append(written.module)
        return found

    # --- modules ---

    def _full_name(self, unit: Unit, parts: list[str], use: Reference) -> str:
        first, around = parts[0], self._around(unit, use.within)
        if first == "__MODULE__":
            return ".".join([around, *parts[1:]])
        short = self._aliases(unit)
        if first in short:
            return ".".join([short[first], *parts[1:]])
        while around:
            inner = ".".join([around, *parts])
            if inner in unit.by_qualified:
                return inner
            around = around.rpartition(".")[0]
        return ".".join(parts)

    def _around(self, unit: Unit, within: str) -> str:
        while within:
            definition = unit.by_qualified.get(within)
            if definition is not None and definition.kind in _MODULES:
                return within
            within = within.rpartition(".")[0]
        return ""

    def _aliases(self, unit: Unit) -> Mapping[str, str]:
        path = unit.facts.path
        if path not in self._short:
            short = self._short[path] = {}
            for written in self._imports_with(unit, "alias"):
                whole = [f"{written.module}.{name}" for name in written.names] or [written.module]
                short.update({written.alias or one.rpartition(".")[2]: one for one in whole})
        return self._short[path]

    def _imports_with(self, unit: Unit, keyword: str) -> list[Import]:
        lines = self._index.lines(unit.facts.file_id)
        found = ((written, _WORD.match(lines.get(written.line, ""))) for written in unit.imports)
        return [written for written, word in found if word and word.group(1) == keyword]

    def _files(self, unit: Unit, module: str) -> list[str]:
        return [target.path for target in self._index.outcome(unit.facts, Import(module, 0)).targets]
