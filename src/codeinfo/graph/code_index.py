"""One generation of an index for questions about code: its import graph and the contents of its files.

`refresh_graph` builds the graph of a generation. A changed file has a new id: if only contents changed, just the
imports of the changed files are resolved again; if files were added or removed, or a file exports different names, so
are those of its language.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain, islice, permutations, takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from codeinfo.cache import Cache, Memo, group_by_key
from codeinfo.files import read_regular
from codeinfo.graph.model import Edge, Graph, Links, SymbolId, Unit, UnlinkedImport
from codeinfo.graph.scip import Compiler, Proofs, ScipError, open_compiler, scip_written
from codeinfo.graph.uses import (
    Bindings,
    UsedNames,
    called_names,
    dotted_names,
    import_timing,
    path_imports,
    plain_names,
    quoted_names,
    unpack,
)
from codeinfo.languages import has_outline
from codeinfo.languages.model import (
    INLINE_TEST,
    MOST_ABOVE,
    FileFacts,
    ImportRules,
    Language,
    NameRules,
    Outcome,
    Resolver,
    Target,
    Tree,
    ancestors,
    get_language,
    is_config,
    is_marked_test,
    language_family,
    last_name,
    may_have_inline_tests,
    nearest_all,
)
from codeinfo.languages.modules import longer_path, whole_module
from codeinfo.languages.routes import Path as RoutePath
from codeinfo.languages.routes import (
    Served,
    match_path,
    requested_of_rails,
    requested_paths,
    served_by_rails,
    served_paths,
)
from codeinfo.model import Definition, Import, Skip, SourceFile
from codeinfo.ports import CodeFacts, CodeFile, FileLines
from codeinfo.sources.ignore import excluded_folder
from codeinfo.sources.read import Files, FolderFiles
from codeinfo.tokens import identifier_terms, identifiers, split_identifier

_MAX_CONFIG_BYTES = 1_000_000  # a larger package.json is data
_ROUTES = re.compile(r"[\t ]scope\(?(?=[ \n])(.*)")  # of Phoenix
_MODULE = re.compile(r"(?<= )[A-Z][\w.]*")
_ALWAYS_BEFORE = {"", "api", "new", "edit"}  # paths of routes: a server outside of the code adds some of these
# Where routes are listed, and how many such files are examined that use another one.
_TABLE = re.compile(r"(?i)(?:url|rout|app|main|server|program|startup|api|endpoint|web|http|controller|handler)[^/]*$")
_MOST_TABLES = 20
_PACKAGE_KINDS = frozenset({"package", "namespace"})
_NO_EXPORTS = _PACKAGE_KINDS | {"extension", "impl"}
_EXTENDING = frozenset({"method", "property"})


class ImportResolver:
    """Resolves the imports of one codebase. A language's data is prepared when its first file is resolved."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._languages: dict[Callable[[Tree], Resolver], Resolver] = {}

    def of(self, source: FileFacts) -> Resolver:
        """What resolves the imports of a file."""
        make = source.rules.imports.resolver or Resolver
        if make not in self._languages:
            self._languages[make] = make(self.tree)
        return self._languages[make]

    def links(self, source: FileFacts, imports: Sequence[Import], packed: bytes) -> Links:
        """What the imports of a file resolve to. `packed` holds its references: what it uses of a package, what it
        uses without an import, and when imports take effect."""
        rules = source.rules.imports
        if rules.timed and (timing := import_timing(packed)):
            imports = [replace(import_, timing=timing.get(import_.line, "")) for import_ in imports]
        if rules.paths:
            imports = [*imports, *self._imports_by_path(source, imports, packed)]
        # What the file defines itself, or an import binds to something certain.
        certain = (import_ for import_ in imports if import_.alias or import_.names or rules.binds_last)
        bound = (name for import_ in certain for name in last_name(import_))
        settled = frozenset((*source.exports, *source.hidden, *bound))
        open_names = self._open_names(source, imports, settled, packed)
        edges: dict[str, Edge] = {}
        unlinked: dict[tuple[str, int], UnlinkedImport] = {}
        for import_ in imports:
            outcome = self.of(source).resolve(source, import_)
            if outcome.status == "external" and rules.paths and (longer := longer_path(import_, imports)):
                import_, outcome = longer, self.of(source).resolve(source, longer)
            if outcome.status != "internal":
                unlinked[import_.module, import_.line] = UnlinkedImport(
                    import_.module, import_.line, outcome.status == "external"
                )
                continue
            for edge in self._edges(source, import_, outcome, open_names):
                _merge_edge(edges, edge)
        implicit = (
            self._whole_name_edges(source, imports, open_names, packed)
            if rules.whole_names
            else [*self._auto_import_edges(source, open_names), *self._implicit_edges(source, open_names)]
        )
        full_names = self._full_name_edges(source, imports, settled, packed) if rules.full_names else ()
        shown = (Edge(source.path, path, 1, implicit=True, timing="lazy") for path in self.of(source).shows(source))
        for edge in chain(full_names, self._fixture_edges(source, packed), shown, self._quoted_edges(source, packed)):
            _merge_edge(edges, edge)
        taken = {name for edge in edges.values() for name in edge.names} if source.rules.names.imports_open else set()
        for edge in implicit:
            # What is in no namespace is far away from one: an opened one that has the name comes first.
            is_near = self.tree.files[edge.target].packages or not source.packages
            if is_near or not taken.issuperset(edge.names):
                edges.setdefault(edge.target, edge)
        edges.pop(source.path, None)
        return Links(tuple(edges.values()), tuple(unlinked.values()))

    def _open_names(
        self, source: FileFacts, imports: Sequence[Import], settled: frozenset[str], packed: bytes
    ) -> _OpenNames:
        """The names that decide which files are needed, besides those that are `settled`."""
        rules, lines = source.rules.imports, {import_.line for import_ in imports}
        used: Mapping[str, int] = {}  # each with its first line
        if rules.whole_names:
            used = dotted_names(unpack(packed)[0], lines)
        elif rules.by_use or self.of(source).visible(source) or self.of(source).auto_imports(source):
            used = UsedNames(packed, lines, owned=rules.owned)
        exported = self.tree.exported if source.rules.names.extensions else frozenset()
        return _OpenNames(rules, used, settled, exported)

    def _quoted_edges(self, source: FileFacts, packed: bytes) -> Iterator[Edge]:
        """Files that strings name: `"Shop::Cart"`."""
        syntax = source.rules.syntax
        for name, line in quoted_names(unpack(packed)[0]) if syntax and syntax.names_in_strings else ():
            for target in self.of(source).quoted(source, name):
                yield Edge(source.path, target.path, line, target.names, timing="lazy")

    def _edges(self, source: FileFacts, import_: Import, outcome: Outcome, names: _OpenNames) -> list[Edge]:
        elided = source.rules.imports.types_elided and import_.timing in ("", "dropped") and not import_.reexport
        edges = [
            Edge(source.path, target.path, import_.line, target.names, timing="types" if is_type else import_.timing)
            for target in outcome.targets
            for is_type in [
                elided and bool(target.names) and set(target.names) <= set(self.tree.files[target.path].types)
            ]
        ]
        if not outcome.package:
            return edges
        taken = self._used_names(source, [edge.target for edge in edges], names, import_)
        needed = [replace(edge, names=taken[edge.target]) for edge in edges if edge.target in taken]
        # Go allows an unused import for its side effects; elsewhere an import none of whose names is used needs no
        # file.
        return edges if not needed and source.rules.imports.qualified else needed

    def _auto_import_edges(self, source: FileFacts, names: _OpenNames) -> list[Edge]:
        auto_imports = self.of(source).auto_imports(source)
        return [
            Edge(source.path, target.path, names.used[name], target.names, implicit=True)
            for name, import_ in auto_imports.items()
            if name in names.open
            for target in self.of(source).resolve(source, import_).targets
        ]

    def _implicit_edges(self, source: FileFacts, names: _OpenNames) -> list[Edge]:
        paths = dict.fromkeys(self.of(source).visible(source)) if names.used else ()
        visible = [path for path in paths if path != source.path]
        return [
            Edge(source.path, path, min(names.used[name] for name in listed), listed, implicit=True)
            for path, listed in self._used_names(source, visible, names).items()
        ]

    def _fixture_edges(self, source: FileFacts, packed: bytes) -> Iterator[Edge]:
        """What tests take as parameters from the files of fixtures around them, the nearest first."""
        shared = source.rules.names.fixtures
        around = (f"{folder}/{shared}".lstrip("/") for folder in ancestors(source.folder) if shared)
        files = [path for path in around if path in self.tree and path != source.path] if source.is_test else []
        offered = {name: path for path in reversed(files) for name in self.tree.files[path].exports}
        for name, line in plain_names(unpack(packed)[1]) if offered else ():
            if name in offered:
                yield Edge(source.path, offered[name], line, (name,), implicit=True)

    def _whole_name_edges(
        self, source: FileFacts, imports: Sequence[Import], names: _OpenNames, packed: bytes
    ) -> list[Edge]:
        """Modules used by their full name, which needs no import, or by one that starts with an alias or with what is
        written before a block of routes: `scope "/", Shop do`."""
        resolver = self.of(source)
        modules = [f"{import_.module}.{name}" for import_ in imports for name in import_.names]
        modules += [import_.module for import_ in imports if not import_.names]
        aliases = {name.rpartition(".")[2]: name for name in modules}
        aliases |= {import_.alias: import_.module for import_ in imports}
        around = [name for row in _ROUTES.findall(unpack(packed)[0]) for name in _MODULE.findall(row)]
        scopes = [f"{name}." for name in (*around, *map(".".join, permutations(around, 2)))]
        return [
            Edge(source.path, path, line, (whole,), implicit=True)
            for name, line in names.used.items()
            for first, dot, rest in [name.partition(".")]
            for written in [f"{aliases[first]}.{rest}" if dot and first in aliases else name]
            if name in names.open or written != name
            for whole in (written, *(scope + name for scope in scopes))
            for path in resolver.whole(source, whole_module(source, whole))
        ]

    def _full_name_edges(
        self, source: FileFacts, imports: Sequence[Import], settled: frozenset[str], packed: bytes
    ) -> Iterator[Edge]:
        """Types used by a longer name, and what files of PHP define in no namespace: others call the functions."""
        text, lines = unpack(packed)[0], {import_.line for import_ in imports}
        for name, line in dotted_names(text, lines).items():
            if "." in name or not source.packages:
                for target in self.of(source).full_name(source, imports, name):
                    yield Edge(source.path, target.path, line, target.names)
        family = language_family(source.language)
        for name, line in called_names(text).items():
            defining = self.tree.definers.get((family, "", name), ()) if name not in settled else ()
            for path in nearest_all(defining, source.folder):
                yield Edge(source.path, path, line, (name,), implicit=True)

    def _imports_by_path(self, source: FileFacts, imports: Sequence[Import], packed: bytes) -> Iterator[Import]:
        """What is used by its full path without an import, if that leads to a file here. A variable may share a
        crate's name: its members are lower-case and not defined in the crate's own file."""
        for import_ in path_imports(unpack(packed)[0], {import_.line for import_ in imports}):
            outcome = self.of(source).resolve(source, import_)
            first, name = import_.module.partition("::")[0], import_.names[0]
            is_path = first in ("crate", "super") or "::" in import_.module or name[0].isupper()
            if is_path or any(name in self.tree.files[target.path].exports for target in outcome.targets):
                yield from (import_,) if outcome.status == "internal" else ()

    def _used_names(
        self, source: FileFacts, paths: Sequence[str], names: _OpenNames, written: Import | None = None
    ) -> dict[str, tuple[str, ...]]:
        """What is used of each file, through an import or without one. If several define a name, as two programs of
        one repository may, the nearest to the source are meant."""
        rules = source.rules.names
        is_unsure = rules.open_types and (written is not None or rules.extensions)  # Go adds to a type in its package
        shared = self.tree.shared_members if is_unsure else ()
        offered = ((name, path) for path in paths for name in names.taken_from(self.tree.files[path], written))
        definers = group_by_key((name, path) for name, path in offered if name.rpartition(".")[2] not in shared)
        nearest_paths = ((name, nearest_all(paths, source.folder)) for name, paths in definers.items())
        taken = group_by_key((path, name) for name, paths in nearest_paths for path in paths)
        return {path: tuple(listed) for path, listed in taken.items()}


class _OpenNames:
    """The names used in a file whose meaning depends on the packages it can see."""

    def __init__(
        self, rules: ImportRules, used: Mapping[str, int], settled: frozenset[str], exported: frozenset[str]
    ) -> None:
        self.used = used
        self._rules, self._settled, self._exported = rules, settled, exported
        self._named_in: dict[tuple[bool, tuple[str, ...]], Collection[str]] = {}  # by what stands before names
        self.open = frozenset(
            name
            for name in used
            if name[name.rfind(".") + 1 :] not in settled
            and not (rules.types_only and name[:1].islower())
            and len(name) > 1  # only a receiver, whose use is not recorded
        )

    def taken_from(self, file: FileFacts, written: Import | None) -> list[str]:
        """What is used of a file of a package that is imported as `written`, or visible without an import."""
        if not self._rules.owned:
            return [name for name in file.exports if name in self.open]
        is_qualified = written is not None and self._rules.qualified and written.alias != "."
        alias = written.alias if written is not None else ""
        named = self._named(is_qualified, (alias,) if alias.isidentifier() else file.packages)
        of_values = (self._owned_when_qualified if is_qualified else self._owned_when_open).get("", ())
        return [
            name
            for name in file.exports
            if name in named
            or (name in of_values and name in file.members and not (is_qualified and name[0].islower()))
            or ("." in name and self._is_added(name))
        ]

    def _named(self, is_qualified: bool, packages: tuple[str, ...]) -> Collection[str]:
        """The names used of some packages: behind the packages' names or, if these are not needed, alone."""
        key = is_qualified, packages
        if key not in self._named_in:
            owned = self._owned_when_qualified if is_qualified else self._owned_when_open
            behind = (owned.get(package.rpartition(".")[2], ()) for package in packages)
            self._named_in[key] = frozenset(() if is_qualified else self.open).union(*behind)
        return self._named_in[key]

    @cached_property
    def _owned_when_qualified(self) -> dict[str, set[str]]:
        return _by_owner(self.used)

    @cached_property
    def _owned_when_open(self) -> dict[str, set[str]]:
        return _by_owner(self.open)

    def _is_added(self, name: str) -> bool:
        """Whether a file uses what an extension adds to a type: one of its own or one it names, or one from outside."""
        outer, _, last = name.rpartition(".")
        if last[0].isupper():
            return last in self.open and outer in self._settled
        is_known = outer in self._settled or outer in self.used or outer not in self._exported
        return is_known and (last in self.open or f".{last}" in self.used)


def _by_owner(words: Iterable[str]) -> dict[str, set[str]]:
    """The names behind a dot, by what stands before it: nothing, for all of them."""
    names: dict[str, set[str]] = {}
    for word in words:
        owner, dot, name = word.partition(".")
        if dot:
            names.setdefault(owner, set()).add(name)
    return names


def _merge_edge(edges: dict[str, Edge], edge: Edge) -> None:
    """One edge per pair of files: the first line of those that take effect first, all the names."""
    before = edges.get(edge.target)
    if before is not None:
        first = min(before, edge, key=lambda imported: imported.timing)  # "" before "dropped", "lazy" and "types"
        edge = replace(first, names=tuple(dict.fromkeys((*before.names, *edge.names))))
    edges[edge.target] = edge


# --- building ------------------------------------------------------------------------------------------------------


def refresh_graph(
    last: Graph | None, facts: CodeFacts, root: Path, contents: Files, imports: ImportResolver | None = None
) -> tuple[Graph, ImportResolver | None]:
    """The graph of this generation, reusing the last one where it is still valid, and its import resolver, if there
    is one: `imports` is the last one's. Configurations are read from `contents`."""
    listed = sorted(facts.files(), key=lambda file: file.path)  # ids follow the order in which parsers finished
    old = {file.file_id: file for file in last.files.values()} if last else {}
    changed = [file for file in listed if file.file_id not in old]
    outlines = group_by_key(facts.outlines([file.file_id for file in changed] if old else None))
    fresh = {file.file_id: facts_of(file, outlines.get(file.file_id, [])) for file in changed}
    files = {file.path: fresh.get(file.file_id) or old[file.file_id] for file in listed}
    stale = _stale_paths(last, files, changed)
    if last is None or not have_same_exports(last.files, files):
        imports = None
    if not stale and last is not None:
        return replace(last, generation=facts.generation, files=files), imports
    if imports is None:
        imports = ImportResolver(project_tree(files, root, contents))
    links = {path: links for path, links in last.links.items() if path in files} if last else {}
    links = {path: link for path, link in links.items() if path not in stale}
    links.update(_links([files[path] for path in stale], imports, facts))
    return Graph(facts.generation, files, {path: links[path] for path in files if path in links}), imports


def have_same_exports(before: Mapping[str, FileFacts], now: Mapping[str, FileFacts]) -> bool:
    """Whether imports lead to the same places: no file was added or removed, and none exports different names or is
    a configuration."""
    if before.keys() != now.keys():
        return False
    changed = [path for path, facts in now.items() if facts is not before[path]]
    return all(
        not is_config(path) and now[path] == replace(before[path], file_id=now[path].file_id) for path in changed
    )


def project_tree(files: Mapping[str, FileFacts], root: Path, contents: Files) -> Tree:
    configs = _configs(contents, [path for path in files if is_config(path)])
    languages = [get_language(name).imports for name in {file.language for file in files.values()}]
    for rules in languages:
        if rules.manifest and rules.manifest not in configs:
            configs[rules.manifest] = _manifest_above(root, rules)
    above = configs_above(root) if any(rules.configs_above for rules in languages) else {}
    return Tree(files.values(), configs, str(root), above, lambda path: excluded_folder(path) is not None)


def configs_above(root: Path) -> dict[str, str]:
    """What the folders above the root, up to the repository's own, configure about imports."""
    configs: dict[str, str] = {}
    for depth, folder in enumerate(_folders_above(root)[:MOST_ABOVE], start=1):
        with contextlib.suppress(OSError):
            names = sorted(path.name for path in folder.iterdir() if is_config(path.name))
            configs.update({"../" * depth + name: _config(folder, name) for name in names})
    return configs


def _folders_above(root: Path) -> list[Path]:
    """The folders above the root in the same repository; all of them without a repository. A project that is not
    checked out has none."""
    inside = [root, *root.parents] if root.is_dir() else []
    ends = next((at for at, folder in enumerate(inside) if (folder / ".git").exists()), len(inside))
    return inside[1 : ends + 1]


def _manifest_above(root: Path, rules: ImportRules) -> str:
    """A manifest as the root would have it if it were its own module, for a root inside a module."""
    if rules.nested_manifest is None:
        return ""
    folders = ((folder, root.relative_to(folder).as_posix()) for folder in _folders_above(root))
    nested = (rules.nested_manifest(_config(folder, rules.manifest), inside) for folder, inside in folders)
    return next(filter(None, nested), "")


def facts_of(file: CodeFile, outline: Sequence[Definition]) -> FileFacts:
    """What the graph needs to know about a file."""
    outline = () if has_outline(file.language) else outline  # nothing is known to import what it defines
    rules, imports = get_language(file.language).names, get_language(file.language).imports
    packages = [package.qualified.replace("`", "") for package in outline if rules.package(package)]
    inside = {f"{package}." for package in packages}
    offered = [symbol for symbol in outline if symbol.kind not in _NO_EXPORTS and not rules.package(symbol)]
    offered = [symbol for symbol in offered if not rules.needs_mark(symbol)]
    extensions = [symbol for symbol in outline if symbol.kind == "extension"]
    holding = (symbol for symbol in (*offered, *extensions) if symbol.kind not in _EXTENDING)
    spans = group_by_key((f"{symbol.qualified}.", range(symbol.start_line, symbol.end_line + 1)) for symbol in holding)
    top = [symbol for symbol in offered if _is_top_level(symbol, inside, spans) and not rules.called_by_name(symbol)]
    exported = {symbol.name for symbol in top if symbol.exported}
    hidden = {symbol.name for symbol in top} - exported if rules.private_to_file else set()
    # `Add` is a member of many types, `AddBasketServices` of one.
    called = [symbol.name for symbol in offered if rules.called_by_name(symbol)]
    called = [name for name in called if len(split_identifier(name)) > 1]
    anywhere = offered if rules.open_types and rules.extensions else top
    extending = [symbol.name for symbol in anywhere if symbol.kind in _EXTENDING]
    modules = (symbol for symbol in outline if symbol.kind == "module" and symbol.end_line > symbol.start_line)
    # A class or an enum is a value as well, and so is a constant with the name of a type.
    values = {symbol.name for symbol in top if symbol.kind not in ("interface", "type")}
    top_names = [symbol.name for symbol in top]
    names = [name for name in top_names if name not in hidden]
    return FileFacts(
        file_id=file.file_id,
        path=file.path,
        language=file.language,
        kind=file.kind,
        packages=tuple(dict.fromkeys(packages)),
        exports=tuple(dict.fromkeys((*names, *_names_by_path(offered, extensions, rules), *called))),
        inline_modules=tuple((module.start_line, module.end_line) for module in modules)
        if rules.inline_modules
        else (),
        hidden=tuple(sorted(hidden)),
        types=tuple(dict.fromkeys(name for name in top_names if name not in values)) if imports.types_elided else (),
        members=tuple(sorted({*extending, *called})) if imports.owned else (),
    )


def _names_by_path(offered: Sequence[Definition], extensions: Sequence[Definition], rules: NameRules) -> Iterator[str]:
    """The whole names of what a file adds to something that it does not open: `class Shop::Cart` opens no module around
    it, nor does an extension."""
    opened = {symbol.qualified for symbol in offered} | {""}
    adding: Sequence[Definition] = offered if rules.constants else ()
    if extensions:
        public = (symbol for symbol in offered if symbol.exported)
        adding = [symbol for symbol in public if any(_is_directly_in(symbol, extension) for extension in extensions)]
    for symbol in adding:
        is_type = symbol.is_type and symbol.qualified.rpartition(".")[0] not in opened
        if is_type or (symbol.kind in _EXTENDING and len(split_identifier(symbol.name)) > 1):
            yield symbol.qualified


def _is_directly_in(definition: Definition, extension: Definition) -> bool:
    """Whether an extension adds something to a type that others call there; the rest is for a protocol."""
    is_inside = extension.start_line <= definition.start_line <= extension.end_line
    is_direct = definition.qualified == f"{extension.qualified}.{definition.name}"
    return is_inside and is_direct and (definition.is_type or not extension.bases)


def _is_top_level(definition: Definition, inside: set[str], own_types: Mapping[str, list[range]]) -> bool:
    """True inside a namespace as well; an extension function lies outside the lines of its type."""
    prefix = definition.qualified.removesuffix(definition.name)
    if not prefix or prefix in inside:
        return True
    spans = own_types.get(prefix, ())
    return definition.kind in _EXTENDING and not any(definition.start_line in lines for lines in spans)


def _stale_paths(last: Graph | None, files: Mapping[str, FileFacts], changed: Sequence[CodeFile]) -> set[str]:
    """The files whose links must be recomputed."""
    if last is None:
        return set(files)
    came = {file.path for file in changed if file.path not in last.files}
    went = {path for path in last.files if path not in files}
    reread = {file.path for file in changed} - came
    if any(is_config(path) for path in (*came, *went, *reread)):
        return set(files)
    moved = {files[path].language for path in came} | {last.files[path].language for path in went}
    for path in reread:
        now, before = files[path], last.files[path]
        if now.rules.imports.by_use and (now.exports, now.packages) != (before.exports, before.packages):
            moved.add(now.language)
    families = {language_family(language) for language in moved}
    return {p for p, file in files.items() if p in reread or language_family(file.language) in families}


def _links(files: Sequence[FileFacts], resolver: ImportResolver, facts: CodeFacts) -> dict[str, Links]:
    everything = len(files) == len(resolver.tree.files)
    imports = group_by_key(facts.imports(None if everything else [file.file_id for file in files]))
    rules = {file.file_id: file.rules.imports for file in files}
    read = [file_id for file_id, rule in rules.items() if rule.by_use or rule.timed or rule.paths]
    packed = dict(facts.references(read))
    links = {f.path: resolver.links(f, imports.get(f.file_id, ()), packed.get(f.file_id, b"")) for f in files}
    return {path: links for path, links in links.items() if links.edges or links.unlinked}


def _configs(contents: Files, paths: Iterable[str]) -> dict[str, str]:
    """An unreadable one is ignored, as below."""
    loaded = {file.path: found for file, found in contents.load(SourceFile(path, 0, 0) for path in paths)}
    return {
        path: "" if isinstance(found, Skip) else found.data.decode("utf-8", "replace")[:_MAX_CONFIG_BYTES]
        for path, found in loaded.items()
    }


def _config(root: Path, path: str) -> str:
    """An unreadable configuration is ignored: its imports then count as unresolved."""
    try:
        return read_regular(str(root), path, _MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


_MOST_UNITS = 8000  # files whose definitions and imports stay in memory
_MOST_CHARACTERS = 64_000_000  # of lines, and as many of uses: some 5,000 files
_MOST_MEMORIZED = 600_000  # answers about names; beyond that they are dropped before the next question
_MOST_ANSWERS = 200_000  # rows of cached answers, see `_size`: at most some 40 MB


class FileCache:
    """File contents by id. A changed file has a new id, so this outlives a generation."""

    def __init__(self) -> None:
        self.units: Cache[int, Unit] = Cache(_MOST_UNITS, lambda unit: 1)
        self.lines: Cache[int, FileLines] = Cache(_MOST_CHARACTERS, lambda lines: lines.characters)
        self.uses: Cache[int, tuple[str, Bindings]] = Cache(_MOST_CHARACTERS, lambda read: len(read[0]))

    def discard(self, file_ids: AbstractSet[int]) -> None:
        """Edits leave a version of a file behind each time: a server would be full of them."""
        for cache in (self.units, self.lines, self.uses):
            cache.discard(file_ids)


class CodeIndex:
    """Owns everything cached for one generation. `facts` is the current question's transaction."""

    def __init__(
        self,
        facts: CodeFacts,
        graph: Graph,
        root: Path,
        contents: Files,
        before: CodeIndex | None = None,
        imports: ImportResolver | None = None,
    ) -> None:
        self.facts = facts
        self.graph = graph
        self.root = root
        self._contents = contents
        self.by_id = {file.file_id: file for file in graph.files.values()}
        self.answers: Cache[Hashable, Any] = Cache(_MOST_ANSWERS, _size)
        self.memo = Memo()  # where imports lead, and what names, receivers and types mean
        self.proofs = Proofs()
        self.scip_written = scip_written(root)
        self._files: FileCache = before._files if before else FileCache()
        self._files.discard(before.by_id.keys() - self.by_id.keys() if before else frozenset())
        self.imports = imports  # created when a question first needs it

    def start_question(self, facts: CodeFacts) -> None:
        self.facts = facts
        if len(self.memo) > _MOST_MEMORIZED:
            self.memo = Memo()

    @property
    def resolver(self) -> ImportResolver:
        if self.imports is None:
            self.imports = ImportResolver(project_tree(self.graph.files, self.root, self._contents))
        return self.imports

    @cached_property
    def compiler(self) -> Compiler | None:
        """What the project's `index.scip` says about the work tree; `index` and `status` report why one is not used."""
        try:
            return open_compiler(self.root) if self.is_on_disk else None
        except ScipError:
            return None

    @property
    def is_on_disk(self) -> bool:
        """Whether its files are in a folder rather than in a commit or a team's store."""
        return isinstance(self._contents, FolderFiles)

    def outcome(self, source: FileFacts, import_: Import) -> Outcome:
        key = ("outcome", source.path, import_)
        cached: Outcome | None = self.memo.get(key)
        return cached if cached is not None else self.memo.add(key, self.resolver.of(source).resolve(source, import_))

    def targets(self, unit: Unit, *imports: Import) -> list[Target]:
        """Where imports of a file lead."""
        return [target for import_ in imports for target in self.outcome(unit.facts, import_).targets]

    def visible(self, unit: Unit) -> tuple[str, ...]:
        """The files whose names a file uses without an import."""
        return self.resolver.of(unit.facts).visible(unit.facts)

    def files_defining(self, name: str) -> frozenset[str]:
        """Paths of the files that define this name for code whose uses are resolved."""
        cached: frozenset[str] | None = self.memo.get(("defining", name))
        if cached is None:
            files = (self.by_id[key] for key, _ in self.facts.definitions_named(name) if key in self.by_id)
            paths = frozenset(file.path for file in files if not has_outline(file.language))
            cached = self.memo.add(("defining", name), paths)
        return cached

    def unit(self, path: str) -> Unit:
        file = self.graph.files[path]

        def read() -> Unit:
            imports = tuple(import_ for _, import_ in self.facts.imports([file.file_id]))
            return Unit(file, tuple(self.facts.definitions(file.file_id)), imports)

        return self._files.units.once(file.file_id, read)

    def definitions_of(self, name: str) -> Iterator[tuple[Unit, Definition]]:
        """The definitions of a name, each with its file, in the order of paths."""
        for unit in map(self.unit, sorted(self.files_defining(name))):
            yield from ((unit, definition) for definition in unit.named(name))

    def definition(self, symbol: SymbolId) -> Definition | None:
        return self.unit(symbol.path).by_qualified.get(symbol.qualified)

    def tests_of(self, path: str, importing: Iterable[str] | None = None) -> tuple[str, ...]:
        """The tests of a file, and itself if functions in it are marked as tests."""
        facts = self.graph.files[path]
        may_be_marked = may_have_inline_tests(facts.language) and not facts.is_test
        is_marked = may_be_marked and INLINE_TEST.search(self.lines(facts.path).whole_text())
        named = (*([path] if is_marked else []), *self.graph.tests_of(path, importing))
        return tuple(dict.fromkeys((*named, *self._tests_requesting(path))))

    def _tests_requesting(self, path: str) -> Sequence[str]:
        """Tests that request a path which a file serves, by itself or through a table of routes."""
        facts = self.graph.files[path]
        if facts.is_test or facts.rules.syntax is None or facts.rules.is_template:
            return ()
        return self.memo.once(("requesting", path), lambda: self._find_tests_requesting(path))

    def _find_tests_requesting(self, path: str) -> list[str]:
        own, tables = self._served(path), self._tables_naming(path)
        rows = [*own, *chain.from_iterable(tables.values())]
        starts = [served for served in rows if served.is_start]
        listed = (row for table in tables for rows in self._tables_naming(table).values() for row in rows)
        above = [served for served in listed if served.is_start]
        pairs = ((start, served) for start in starts for served in own if served != start)
        inside = (served._replace(path=(*start.path, *served.path)) for start, served in pairs)
        offered = {(served.path, served.is_start) for served in (*rows, *inside) if any(served.path)}
        # What may stand in a URL before a path: what includes it, or what folders and files on the way are called.
        before = {name for served in (*starts, *above) for name in served.path} | _ALWAYS_BEFORE
        before |= {word for text in (path, *tables) for word in _words_in(text)}
        before |= self.unit(path).by_name.keys() if path.endswith(".rb") else set()  # `publish_cart_path`
        terms = {frozenset(_path_terms(served)) for served, _ in offered} - {frozenset[str]()}
        least = (words for words in terms if not any(other < words for other in terms))
        naming = {self.by_id.get(file_id) for words in least for file_id in self.facts.files_with(sorted(words))}
        tests = [file.path for file in naming if file is not None and file.is_test]
        requesting = (test for test in tests if self._requests(test, offered, before))
        return sorted(requesting, key=lambda test: (-_count_same_start(test, path), test))

    def _served(self, path: str) -> Sequence[Served]:
        def find() -> list[Served]:
            text = self.lines(path).whole_text()
            return [*served_paths(text, path), *served_by_rails(path)]

        return self.memo.once(("served", path), find)

    def _tables_naming(self, path: str) -> Mapping[str, list[Served]]:
        """The files that list routes to something in a file, and these."""
        tables: dict[str, list[Served]] = {}
        users = (edge for edge in self.graph.users(path) if _TABLE.search(edge.source))
        for edge in islice(users, _MOST_TABLES):
            if served := self._served(edge.source):
                unit = self.unit(edge.source)
                taken = [import_ for import_ in unit.imports if path in {to.path for to in self.targets(unit, import_)}]
                names = {name.rpartition(".")[2] for name in edge.names}.union(import_.module for import_ in taken)
                names.update(name for import_ in taken for name in unit.rules.imports.bound(import_))
                named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
                rows = [row for row in served if names and named.search(row.around)]
                tables |= {edge.source: rows} if rows else {}
        return tables

    def _requests(self, test: str, offered: Collection[tuple[RoutePath, bool]], before: set[str]) -> bool:
        def find() -> list[RoutePath]:
            text = self.lines(test).whole_text()
            return list({*requested_paths(text), *(requested_of_rails(text) if test.endswith(".rb") else ())})

        requested = self.memo.once(("requested", test), find)
        rests = (match_path(served, asked, is_start=is_start) for asked in requested for served, is_start in offered)
        return any(rest is not None and before.issuperset(rest) for rest in rests)

    def is_inline_test(self, path: str, qualified: str) -> bool:
        """Whether a definition is a test beside the code: in a module of tests, or marked as one."""
        facts = self.graph.files[path]
        if not may_have_inline_tests(facts.language) or not qualified:
            return False
        definition = self.definition(SymbolId(path, qualified))
        return is_marked_test(self.lines(facts.path), qualified, definition.start_line if definition else 0)

    def rules(self, path: str) -> Language:
        return self.graph.files[path].rules

    def lines(self, path: str) -> FileLines:
        file_id = self.graph.files[path].file_id
        return self._files.lines.once(file_id, lambda: self.facts.lines(file_id))

    def uses(self, path: str) -> str:
        """The unpacked references of a file."""
        return self._read_uses(self.graph.files[path].file_id)[0]

    def bindings(self, unit: Unit) -> Bindings:
        """What the names of a file are bound to."""
        return self._read_uses(unit.facts.file_id)[1]

    def _read_uses(self, file_id: int) -> tuple[str, Bindings]:
        cached = self._files.uses.get(file_id)
        if cached is None:
            packed = dict(self.facts.references([file_id]))
            cached = self._add_uses(file_id, packed.get(file_id, b""))
        return cached

    def _add_uses(self, file_id: int, packed: bytes) -> tuple[str, Bindings]:
        uses, bound = unpack(packed)
        return self._files.uses.add(file_id, (uses, Bindings(bound, uses.partition("\n")[0])))

    def read_uses(self, files: Iterable[FileFacts]) -> None:
        """Read the uses of many files at once, which is faster than one by one."""
        missing = [file.file_id for file in files if self._files.uses.get(file.file_id) is None]
        for file_id, packed in self.facts.references(missing):
            self._add_uses(file_id, packed)


def _path_terms(served: RoutePath) -> Iterator[str]:
    for word in (word for name in served for word in identifiers(name)):
        yield from identifier_terms(word)[-1:]


def _words_in(path: str) -> set[str]:
    """The names in a path and the words in these, as URLs have them."""
    names = re.split(r"[/.]", path.lower())
    return {*names, *(word for name in names for word in re.split(r"[_-]", name))}


def _count_same_start(path: str, other: str) -> int:
    """How many folders two paths have in common."""
    pairs = zip(path.split("/"), other.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _size(answer: object) -> int:
    """The rows of an answer, plus ten of overhead."""
    return 10 + (len(answer) if hasattr(answer, "__len__") else 0)
