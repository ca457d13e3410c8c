"""A codebase at a glance: its areas and layers, its entry points, what everything depends on, and a drawing of it."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from html import escape
from itertools import zip_longest
from math import log2, sqrt
from pathlib import Path
from statistics import mean
from typing import Any

from msgspec import Struct, field

from codeinfo.cache import group_by_key
from codeinfo.config import parse_toml
from codeinfo.errors import NotFound, UsageError
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import Graph, components, cycles, part_of
from codeinfo.graph.reach import ROUTE
from codeinfo.graph.references import INTERFACES, symbol_info
from codeinfo.graph.uses import declared_types
from codeinfo.languages import is_product, is_shipped_folder
from codeinfo.languages.ecmascript import EcmascriptImports
from codeinfo.languages.manifests import package_name, read_cargo
from codeinfo.languages.model import FileFacts, Tree, ancestors, get_language, language_family
from codeinfo.model import Definition, FileKind, quantity
from codeinfo.operations.code import CodeMap, MapArea, MapFile, MapRequest, SymbolInfo
from codeinfo.ports import FileLines

_STARTS = re.compile(
    r"^(?:__main__|main|init|index|app|application|server|cli|cmd|manage|wsgi|asgi|program|lib|mod|root)$"
)
_TYPE_NAME = re.compile(r"(?:\b(?P<package>\w+)\.)?\b(?P<name>[^\W\d]\w+)\b(?!\.)")
_BUNDLED = re.compile(r"(?:\A|/)(?:entrypoints?|entries|packs)/")  # each file in it is loaded by a page
LARGEST_SHARE = 0.25  # of the files in one area…
SMALL_PROJECT = 12  # …unless there are fewer than this
_PICTURE_AREAS = 24  # more boxes make no readable picture


def code_map(index: CodeIndex, request: MapRequest, below: str = "") -> CodeMap:
    """The map of a project, or of a part of it as if nothing else existed, without history."""
    graph, root = part_of(index.graph, below), index.root / below
    cut = _cut(graph, request)
    external, unresolved = graph.unlinked
    unread = unread_language(graph)
    return CodeMap(
        root=str(root),
        files=len(graph.files),
        edges=len(graph.edges),
        languages=dict(_count_languages(graph).most_common()),
        entry_points=tuple(_file(graph, path) for path in entry_points(index, graph, request.limit)),
        hubs=tuple(_file(graph, path) for path in hubs(graph, request.limit)),
        areas=tuple(area for area, _ in cut),
        interfaces=_interfaces(index, graph, request.limit),
        hotspots=(),
        cycles=len(cycles([edge for edge in graph.import_edges if not edge.timing])),
        external=external,
        unresolved=unresolved,
        picture=_picture(root.name, graph, cut, request.format),
        notes=(f"{unread} has no syntax tree here: its imports and types are not in this map",) if unread else (),
    )


def unread_language(graph: Graph) -> str:
    """The language of most of the code if it has no syntax tree, "" otherwise: its definitions and uses are unknown."""
    most = _count_languages(graph).most_common(1)
    return next((language for language, _ in most if get_language(language).syntax is None), "")


def _count_languages(graph: Graph) -> Counter[str]:
    code = (file for file in graph.files.values() if file.kind in ("code", "tests"))
    return Counter(file.language for file in code if file.rules.kind is FileKind.CODE)


def _cut(graph: Graph, request: MapRequest) -> list[tuple[MapArea, list[str]]]:
    return areas(graph, max(request.limit, _PICTURE_AREAS) if request.format != "text" else request.limit)


def area_files(graph: Graph, request: MapRequest) -> tuple[MapFile, ...]:
    """The files of the requested area, the most central first."""
    listed = next((files for area, files in _cut(graph, request) if area.name == request.area), None)
    if listed is None:
        raise NotFound(f"the map has no area {request.area}", next_step="Use a name from the map; it may have changed")
    files = sorted(listed, key=lambda path: (-graph.centrality.get(path, 0.0), path))
    return tuple(_file(graph, path) for path in files)


def _file(graph: Graph, path: str) -> MapFile:
    into, out = graph.edges_to(path), graph.edges_from(path)
    return MapFile(path, graph.centrality.get(path, 0.0), len(into), len(out))


def _picture(name: str, graph: Graph, cut: list[tuple[MapArea, list[str]]], form: str) -> str:
    drawn = [area for area, _ in cut]
    if form == "mermaid":
        return mermaid(drawn)
    note = f"{len(graph.files):,} files, {len(graph.edges):,} links between them. "
    note += "Below: what is needed. Larger: needed by more. Red: folders that need each other."
    hubs = {area.name: max(files, key=lambda path: graph.centrality.get(path, 0.0)) for area, files in cut}
    return svg(name, drawn, hubs, note) if form == "svg" else ""


class _Types(Struct):
    """The types of some files, by where they are known and their names."""

    subtypes: Counter[_TypeName]  # how many extend or implement each, or declare values of it
    defined: dict[_TypeName, list[tuple[FileFacts, Definition]]] = field(default_factory=dict)
    extending: dict[_TypeName, list[str]] = field(default_factory=dict)  # the files
    implemented: set[_TypeName] = field(default_factory=set)  # by an `impl`, which only takes what is made for it
    bases: set[str] = field(default_factory=set)  # as written


def _interfaces(index: CodeIndex, graph: Graph, limit: int) -> tuple[SymbolInfo, ...]:
    """The types that most others extend or implement; where types name no base, those most files declare values of."""
    types = _collect_types(index, graph)
    ranked: list[tuple[int, str, Definition]] = []
    for name, count in types.subtypes.items():
        if (found := _find_only_definition(graph, types, name)) is None:
            continue
        file, definition = found
        if definition.kind in INTERFACES or name not in types.implemented:
            ranked.append((-count, file.path, definition))
    ranked.sort(key=lambda row: (*row[:2], row[2].start_line))
    return tuple(symbol_info(path, definition) for _, path, definition in ranked[:limit])


def _collect_types(index: CodeIndex, graph: Graph) -> _Types:
    types = _Types(_count_declaring(index, graph))
    for file_id, definition in index.facts.outlines():
        file = index.by_id.get(file_id)
        if file is None or file.path not in graph.files or not is_source(file) or not definition.is_type:
            continue
        written = {base.replace("::", ".").replace("\\", ".") for base in definition.bases}
        scope = _type_scope(file)
        plain = {base.rpartition(".")[2] for base in written} - {definition.name}  # an alias of something outside
        bases = {(scope, base) for base in plain}
        types.bases.update(written)
        types.subtypes.update(bases)
        for base in bases:
            types.extending.setdefault(base, []).append(file.path)
        types.implemented.update(bases if definition.kind == "impl" else ())
        if definition.kind not in ("impl", "extension"):
            types.defined.setdefault((scope, definition.name), []).append((file, definition))
    return types


def _find_only_definition(graph: Graph, types: _Types, name: _TypeName) -> tuple[FileFacts, Definition] | None:
    """The definition that a name stands for, unless it may be one of several, or something outside."""
    defined = types.defined.get(name, [])
    if len({file.path.rpartition(".")[0] for file, _ in defined}) > 1:
        files = types.extending.get(name, ())  # none where variables only are declared of it
        defined = [row for row in defined if _is_imported(graph, row[0].path, files)]
    if len({file.path.rpartition(".")[0] for file, _ in defined}) != 1:
        return None
    file, definition = defined[0]
    owner, (scope, plain) = definition.qualified.rpartition(".")[0], name
    outer = owner.rpartition(".")[2]
    around = (other for _, other in types.defined.get((scope, outer), ()) if other.qualified == owner)
    is_inside = any(other.kind != "module" for other in around)
    if is_inside and not any(base.endswith(f"{outer}.{plain}") for base in types.bases):
        return None  # inside a type: by its plain name, something outside is meant
    return file, definition


def _is_imported(graph: Graph, path: str, files: Sequence[str]) -> bool:
    """Whether most of these files import that one."""
    importing = {edge.source for edge in graph.edges_to(path)}
    return sum(file in importing for file in files) * 2 > len(files)


_TypeName = tuple[str, str]  # where it is known, see `_type_scope`, and its name


def _type_scope(file: FileFacts, package: str = "") -> str:
    """The language family in which the types of a file are known; in Go, which writes it before each, the package."""
    package = package or (file.packages[0] if file.packages else "")
    return language_family(file.language) + (f" {package}" if file.rules.imports.qualified else "")


def _count_declaring(index: CodeIndex, graph: Graph) -> Counter[_TypeName]:
    """By type, the files that declare variables, parameters, fields or results of it, in languages like Go and C."""
    parsed = ((file, file.rules.syntax) for file in graph.files.values())
    without_bases = [file.file_id for file, syntax in parsed if syntax and syntax.bases is None and is_source(file)]
    counts: Counter[_TypeName] = Counter()
    for file_id, packed in index.facts.references(without_bases) if without_bases else ():
        named = (match for written in declared_types(packed) for match in _TYPE_NAME.finditer(written))
        counts.update({(_type_scope(index.by_id[file_id], match["package"] or ""), match["name"]) for match in named})
    return counts


def is_source(facts: FileFacts) -> bool:
    return is_product(facts.path, FileKind(facts.kind))


# --- where it starts -----------------------------------------------------------------------------------------------

_TEST_PACKAGE = re.compile(r"tests?[-_]")  # at the top: `tests-integration` of Rust


class _Package(Struct):
    """A folder with manifests, and what they offer to users: commands, public modules, pages."""

    manifests: set[str]
    offered: list[str]
    is_private: bool = False  # not published, so its modules are for this repository
    is_guessed: bool = False  # its manifest names no file: what it offers is known by its place


def entry_points(index: CodeIndex, graph: Graph, limit: int) -> list[str]:
    """What the manifests offer to users and the files that start something; `graph` is that of the index or a part of
    it. The top folder comes first, then the packages in turn, larger ones first: applications, up to half of the places
    if there are other packages, libraries, and last the private packages that others use."""
    packages, programs = _packages(index, graph), _programs(index)
    started = _starting_files(index, graph, programs, packages)
    home = {path: _nearest(packages, path) for path in graph.files}
    found = {
        folder: [path for path in package.offered if _has_code(index, path)] for folder, package in packages.items()
    }
    for path in started:
        found[home[path]] += [path] if path not in found[home[path]] else []
    sizes = Counter(home[path] for path, facts in graph.files.items() if is_source(facts))
    used = {home[edge.target] for edge in graph.edges if home[edge.source] != home[edge.target]}

    def rank(folder: str) -> int:
        """Applications, then libraries, then what is private and others use."""
        package = packages[folder]
        starts = not package.manifests.isdisjoint(_APPLICATIONS) or not programs.isdisjoint(found[folder])
        if starts or not set(started).isdisjoint(found[folder]):
            return 0
        return 1 if not package.is_private else 2 if folder in used else 0

    ranked = sorted((rank(folder), -sizes[folder], folder) for folder in packages.keys() - {""})
    applications = _take_turns(found[folder] for kind, _, folder in ranked if not kind)
    others = _take_turns(found[folder] for kind, _, folder in ranked if kind)
    room = limit // 2 if others else limit
    return list(dict.fromkeys((*found[""], *applications[:room], *others, *applications)))[:limit]


def public_files(index: CodeIndex) -> list[str]:
    """What the manifests offer to users, except for packages that only this repository uses."""
    packages = _packages(index, index.graph).values()
    return [path for package in packages if not package.is_private for path in package.offered]


def _take_turns(rows: Iterable[Sequence[str]]) -> list[str]:
    return [path for turn in zip_longest(*rows) for path in turn if path]


def _nearest(packages: Collection[str], path: str) -> str:
    """The innermost of some folders that contains a path; the top folder contains all."""
    return next((folder for folder in ancestors(posixpath.dirname(path)) if folder in packages), "")


def _packages(index: CodeIndex, graph: Graph) -> dict[str, _Package]:
    """The packages by folder, the top folder first; there is always one of the top folder."""
    found = {"": _Package(set(), [])}
    scripts = EcmascriptImports(Tree(index.graph.files.values(), {}))
    for path in sorted(index.graph.files, key=lambda path: (path.count("/"), path)):
        folder, _, name = path.rpartition("/")
        read = _MANIFESTS.get(name) or _MANIFESTS.get(name[name.rfind(".") :])
        if read is None or not is_shipped_folder(folder) or _TEST_PACKAGE.match(folder):
            continue
        text = index.lines(path).whole_text()
        try:
            home = _Folder(index, folder, scripts)
            named = [home.join(path) for path in read(home, text)]
        except (ValueError, TypeError, AttributeError, UsageError, RecursionError):
            continue  # `metadata` reports manifests that cannot be read
        package = found.setdefault(folder, _Package(set(), []))
        package.manifests.add(name)
        if name == "package.json":
            written = json.loads(text)
            package.is_private |= written.get("private") is True
            package.is_guessed |= written.keys().isdisjoint(_OFFERING_KEYS)
        package.offered += [path for path in named if path in graph.files and is_source(graph.files[path])]
    return found


def _has_code(index: CodeIndex, path: str) -> bool:
    """Tools want an application's `main` to exist, and Python a package's file, even if there is nothing in them."""
    file = index.graph.files[path]
    if file.exports or index.graph.edges_from(path):
        return True
    return not path.endswith("/__init__.py") and index.lines(path).whole_text().strip() != ""


def _starting_files(
    index: CodeIndex, graph: Graph, programs: Collection[str], packages: Mapping[str, _Package]
) -> list[str]:
    """Files that nothing imports, but that import others; well-known names and routes first. In compiled languages a
    file must have such a name or a `main`; in language families whose manifests name something, the latter. What
    exports something in JavaScript is no script."""
    started = []
    compiled = {f.language for path in programs if not (f := index.graph.files[path]).rules.imports.timed}
    with_main = {f.language for path in programs if is_source(f := index.graph.files[path]) and f.rules.imports.headers}
    covered = {language_family(graph.files[path].language) for package in packages.values() for path in package.offered}
    web = {folder for folder, package in packages.items() if "package.json" in package.manifests}
    for path, facts in graph.files.items():
        edges, rules = graph.edges_from(path), facts.rules.imports
        is_web = facts.rules.names.default_exports
        stem = path.rpartition("/")[2].partition(".")[0]
        stem = stem if is_web else stem.lower()  # a component is called `Main`, a program `main`
        is_program = path in programs
        has_start_name = _STARTS.match(stem) is not None and (is_program or facts.language not in with_main)
        has_start_name = has_start_name or (is_web and _BUNDLED.search(path) is not None)
        is_route = is_web and _is_route(path, _nearest(web, path))
        is_script = rules.timed or not (rules.by_use or rules.deferred or rules.headers or facts.language in compiled)
        is_script = is_script and not (is_web and facts.exports) and not facts.rules.is_template
        # What starts a program of C# often calls nothing but extensions of what it was given.
        does_something = edges or (is_program and not rules.timed) or path.endswith("Program.cs")
        family = language_family(facts.language)
        # An application of several in a repository is found by its pages even if a library names its modules, and one
        # with an `index.ts` by both.
        package = packages[_nearest(web, path)]
        is_known = not package.offered and (is_route or has_start_name)
        is_page = is_web and (is_known or (is_route and package.is_guessed))
        has_named = family in covered and not is_page
        if (
            is_source(facts)
            and does_something
            and (is_program or has_start_name or is_script or is_route)
            and (not has_named or (stem in ("__main__", "main") and not rules.qualified))  # Go's manifest has them all
            # A program by name and content is one even if others import something from it; in JavaScript they start it.
            and (
                (is_program and has_start_name and not (is_web and facts.exports))
                or not any(is_source(graph.files[edge.source]) for edge in graph.edges_to(path))
            )
        ):
            started.append((not (has_start_name or is_program or is_route), path.count("/"), -len(edges), path))
    return [path for *_, path in sorted(started)]


_APP_ROUTE = re.compile(r"(?:\A|/)app/(?:.+/)?(?:page|layout|route)\.\w+\Z")  # a folder in `app` may have any name
_PAGES = re.compile(r"(?:(?:src|app|layers/[\w.-]+)/)*pages/")


def _is_route(path: str, package: str) -> bool:
    """Whether a framework takes a file as a page; a folder `pages` further down in a package is one like any other."""
    inside = path.removeprefix(f"{package}/")
    is_nested = "pages" in inside.split("/")[:-1] and _PAGES.match(inside) is None and not _APP_ROUTE.search(inside)
    return ROUTE.fullmatch(path) is not None and not is_nested


def _programs(index: CodeIndex) -> set[str]:
    """The files with a `main`: a function (`Main` in compiled languages), or a type that is marked as such."""
    programs = {
        file.path
        for name in ("main", "Main")
        for file_id, definition in index.facts.definitions_named(name)
        if (file := index.by_id.get(file_id)) is not None and definition.is_function
        if name == "main" or not file.rules.imports.timed
        if not file.rules.imports.paths or _CARGO_MAIN.search(file.path)  # elsewhere a macro of the name
        if not (file.rules.imports.headers and _is_for_tests(index.lines(file.path), definition.start_line))
    }
    marking = {file.file_id: file for file in index.by_id.values() if file.rules.names.main_mark and is_source(file)}
    for file_id, definition in index.facts.outlines(list(marking)) if marking else ():
        file = marking[file_id]
        if definition.is_type and definition.bases and file.path not in programs:
            lines = index.lines(file.path)
            above = (lines.get(line, "").strip() for line in (definition.start_line - 1, definition.start_line))
            programs |= {file.path} if any(re.match(file.rules.names.main_mark, line) for line in above) else set()
    return programs


_CONDITION = re.compile(r"\s*#\s*(?:(?P<end>endif)|if\w*)\b")
_TEST_CONDITION = re.compile(r"\s*#\s*if(?:def)?\b.*(?:(?<![A-Z])(?:TEST|MAIN|DEMO|EXAMPLE|BENCH)|\b0\b)")


def _is_for_tests(lines: FileLines, line: int) -> bool:
    """Whether a `main` of C is compiled only to try out its file: `#ifdef CRC_TEST_MAIN`."""
    ended = 0  # conditions that are over before the line
    for text in (lines.get(above, "") for above in range(line, 0, -1)):
        if (condition := _CONDITION.match(text)) is None:
            continue
        if condition["end"]:
            ended += 1
        elif ended:
            ended -= 1
        elif _TEST_CONDITION.match(text):
            return True
    return False


class _Folder(Struct, frozen=True):
    """A folder with a manifest. The paths that manifests name are relative to it."""

    index: CodeIndex
    path: str
    scripts: EcmascriptImports  # as if nothing were configured

    def join(self, relative: str) -> str:
        return posixpath.normpath(f"{self.path}/{relative}").lstrip("/")

    def __contains__(self, relative: str) -> bool:
        return self.join(relative) in self.index.graph.files

    def files(self) -> Iterator[tuple[str, FileFacts]]:
        """Everything below it."""
        start = f"{self.path}/".lstrip("/")
        files = self.index.graph.files.items()
        return ((path.removeprefix(start), facts) for path, facts in files if path.startswith(start))


def _pyproject(folder: _Folder, text: str) -> Iterator[str]:
    parsed = parse_toml(text, Path("pyproject.toml"))
    project, poetry = parsed.get("project", {}), parsed.get("tool", {}).get("poetry", {})
    for target in {**project.get("scripts", {}), **poetry.get("scripts", {})}.values():
        module = str(target).partition(":")[0].replace(".", "/")
        yield from (f"{top}{module}{end}" for top in ("", "src/") for end in (".py", "/__init__.py"))
    yield from _python_packages(folder, str(project.get("name") or poetry.get("name") or ""))


def _python_packages(folder: _Folder, name: str = "") -> list[str]:
    """The package with the project's name, otherwise every one directly below the folder or its `src`; none beside the
    command of a Django project."""
    own = [f"{top}{name.replace('-', '_').lower()}/__init__.py" for top in ("", "src/")]
    if name and (named := [path for path in own if path in folder]):
        return named
    tops = ["", *(["src"] if "src/__init__.py" not in folder else [])]  # otherwise `src` is the package
    tops = [top for top in tops if f"{top}/manage.py" not in folder]  # otherwise parts of a site
    packages = [path for path, _ in folder.files() if path.endswith("/__init__.py")]
    return [path for path in packages if posixpath.dirname(posixpath.dirname(path)) in tops]


_OFFERING_KEYS = ("bin", "exports", "main", "module", "source")


def _package_json(folder: _Folder, text: str) -> Iterator[str]:
    parsed = json.loads(text)
    declared = [parsed.get(key) for key in _OFFERING_KEYS]
    for target in [*_strings(declared), "index", "src/index", "src/main"]:
        if source := folder.scripts.find_built(folder.path, target):
            yield posixpath.relpath(source, folder.path or ".")


def _project_json(folder: _Folder, text: str) -> Iterator[str]:
    """For an Nx or Angular application: paths are relative to the workspace."""
    targets = json.loads(text).get("targets", {})
    options = targets.get("build", {}).get("options", {})
    up = "../" * len(folder.path.split("/")) if folder.path else ""
    yield from (f"{up}{options[key]}" for key in ("main", "browser") if key in options)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)


_CARGO_MAIN = re.compile(r"(?:\A|/)(?:main\.rs|bin/.+)\Z")
_CARGO_PROGRAM = re.compile(r"src/bin/[^/]+(?:/main)?\.rs")  # other files beside a `main.rs` are its modules


def _cargo(folder: _Folder, text: str) -> Iterator[str]:
    cargo = read_cargo(text)
    yield "src/main.rs"
    yield from (path for path, _ in folder.files() if _CARGO_PROGRAM.fullmatch(path))
    yield from (*cargo.programs, cargo.library)


def _go_mod(folder: _Folder, text: str) -> Iterator[str]:
    """For the module's own package, the file with its name, otherwise the one with the most imports; then the
    programs, those that import most first: one in a folder, since build tags exclude its others, and none below
    `internal` or a library, where it is a tool, if there is another."""
    graph = folder.index.graph
    sources = {path: facts for path, facts in folder.files() if path.endswith(".go") and is_source(facts)}
    imports = {path: len(graph.edges_from(facts.path)) for path, facts in sources.items()}
    top = {path: facts for path, facts in sources.items() if "/" not in path and "main" not in facts.packages}
    module = package_name("go.mod", text).rstrip("/").split("/")
    name = module[-1]
    stems = [name, re.sub(r"^go-|-go$", "", name), *(facts.packages[0] for facts in top.values() if facts.packages)]
    own_file = next((path for stem in stems if (path := f"{stem}.go") in top), "")
    if top and "internal" not in module:  # Go lets nobody else import that
        yield own_file or max(top, key=lambda path: (imports[path], graph.centrality.get(top[path].path, 0.0), path))
    programs = [path for path, f in sources.items() if "main" in f.packages and "main" in f.exports + f.hidden]
    libraries = {facts.folder for path, facts in sources.items() if "/" in path and "main" not in facts.packages}
    outside = [path for path in programs if posixpath.dirname(sources[path].folder) not in libraries]
    installed = [path for path in outside if "internal" not in path.split("/")]
    ranked = sorted(installed or programs, key=lambda path: (not path.endswith("main.go"), -imports[path], path))
    alone = {sources[path].folder: path for path in reversed(ranked)}
    yield from sorted(alone.values(), key=lambda path: (-imports[path], path))


def _composer(folder: _Folder, text: str) -> Iterable[str]:
    """The pages and commands of an application; for a library its commands and the files that are always loaded."""
    parsed = json.loads(text)
    pages = ("public/index.php", "index.php", "artisan", "bin/console", "routes/web.php", "routes/api.php")
    named = _strings([parsed.get("bin"), parsed.get("autoload", {}).get("files")])
    return pages if any(path in folder for path in pages) else named


def _django(folder: _Folder, text: str) -> Iterator[str]:
    """The command of a project, and its URLs, which lie beside its settings."""
    yield "manage.py"
    for package in re.findall(r"DJANGO_SETTINGS_MODULE[\"'],\s*[\"']([\w.]+?)\.settings[\w.]*[\"']", text):
        yield f"{package.replace('.', '/')}/urls.py"


_GEM_PROGRAM = re.compile(r"\.executables\s*(?:=|<<)\s*(.+)")
_MIX_STARTED = re.compile(r"\bmod:\s*\{\s*([\w.]+)")
_MIX_ROUTES = re.compile(r"lib/\w+_web/router\.ex")


def _gemspec(folder: _Folder, text: str) -> Iterator[str]:
    """The library of a gem's name, and its programs."""
    name = package_name(".gemspec", text)
    yield from (f"lib/{path}.rb" for path in (name, name.replace("-", "/")))
    for listed in _GEM_PROGRAM.findall(text):
        yield from (f"{top}/{name}" for name in re.findall(r"[\w-]+", listed) for top in ("exe", "bin"))


def _mix(folder: _Folder, text: str) -> Iterator[str]:
    """The module an application starts with, the one with its name, and its routes; where there are none, its commands,
    which are chores beside a web application."""
    for module in _MIX_STARTED.findall(text):
        yield from (path for path, facts in folder.files() if module in facts.packages)
    yield f"lib/{package_name('mix.exs', text)}.ex"
    routes = [path for path, _ in folder.files() if _MIX_ROUTES.fullmatch(path)]
    yield from routes or (path for path, _ in folder.files() if posixpath.dirname(path) == "lib/mix/tasks")


def _android(folder: _Folder, text: str) -> Iterator[str]:
    """The application and what it shows."""
    names = re.findall(r"<(?:application|activity)\b[^>]*?\sandroid:name=\"[\w.]*?(\w+)\"", text)
    inside = {posixpath.basename(path): path for path, _ in folder.files()}
    yield from (inside[file] for name in names for file in (f"{name}.kt", f"{name}.java") if file in inside)


_APPLICATIONS = frozenset({"manage.py", "Gemfile", "project.json", "composer.json", "mix.exs", "AndroidManifest.xml"})
_SETUPTOOLS = re.compile(r"\b(?:setuptools|distutils)\b")  # elsewhere `setup.py` is a module like any other
_MANIFESTS: Mapping[str, Callable[[_Folder, str], Iterable[str]]] = {
    "pyproject.toml": _pyproject,
    "manage.py": _django,
    "Gemfile": lambda folder, text: ("config.ru", "config/routes.rb"),
    "setup.py": lambda folder, text: _python_packages(folder) if _SETUPTOOLS.search(text) else (),
    "setup.cfg": lambda folder, text: _python_packages(folder),
    "package.json": _package_json,
    "project.json": _project_json,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "composer.json": _composer,
    "mix.exs": _mix,
    "AndroidManifest.xml": _android,
    ".gemspec": _gemspec,
}


# --- areas ---------------------------------------------------------------------------------------------------------


def hubs(graph: Graph, limit: int) -> list[str]:
    ranked = sorted(graph.centrality.items(), key=lambda pair: (-pair[1], pair[0]))
    return [path for path, _ in ranked if is_source(graph.files[path])][:limit]


def areas(graph: Graph, limit: int) -> list[tuple[MapArea, list[str]]]:
    """The codebase split into about `limit` folders of comparable size, in layers, each with its files."""
    groups, part_of = _group_files([path for path, facts in graph.files.items() if is_source(facts)], limit, graph)
    needs = _imports_between(groups, graph)
    weight = {name: sum(graph.centrality.get(path, 0.0) for path in files) for name, files in groups.items()}
    layers = assign_layers(needs, weight)
    in_cycle = _find_mutual(groups, part_of, graph)
    top = max(weight.values(), default=0.0) or 1.0
    return [
        (
            MapArea(
                name=name,
                layer=layers[name],
                files=len(files),
                centrality=round(weight[name] / top, 4),
                needs=dict(needs[name].most_common()),
                in_cycle=name in in_cycle,
            ),
            files,
        )
        for name, files in sorted(groups.items(), key=lambda group: (-layers[group[0]], -weight[group[0]], group[0]))
    ]


def _imports_between(groups: Mapping[str, list[str]], graph: Graph) -> dict[str, Counter[str]]:
    """How often each group imports each other one."""
    group_of = {path: name for name, files in groups.items() for path in files}
    needs: dict[str, Counter[str]] = {name: Counter() for name in groups}
    for path, name in group_of.items():
        targets = (group_of.get(edge.target, name) for edge in graph.edges_from(path))
        needs[name].update(target for target in targets if target != name)
    return needs


def _find_mutual(groups: Mapping[str, list[str]], part_of: Mapping[str, str], graph: Graph) -> set[str]:
    """The areas that reach each other. Of an area of several folders it must be the same folder that imports and is
    imported; imports within a package, or of types alone, close no cycle."""
    following: dict[str, list[str]] = {part: [] for part in part_of.values()}
    for path, part in part_of.items():
        edges = (edge for edge in graph.edges_from(path) if not (edge.implicit or edge.timing))
        following[part] += [part_of[edge.target] for edge in edges if part_of.get(edge.target, part) != part]
    area_of = {part_of[path]: name for name, files in groups.items() for path in files}
    cycles = [{area_of[part] for part in group} for group in components(following)]
    return {area for cycle in cycles if len(cycle) > 1 for area in cycle}


def _group_files(paths: Sequence[str], limit: int, graph: Graph) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Areas with their files, and for each file the folder that it was in before small ones were merged. The largest
    folder is split into its subfolders as long as the number of areas allows, and beyond that while one has more than
    its share of the files."""
    linked = [path for path in paths if graph.edges_from(path) or graph.edges_to(path)]
    most = len(linked) * LARGEST_SHARE if len(linked) >= SMALL_PROJECT else len(linked)
    groups: dict[str, list[str]] = {"": linked}
    part_of: dict[str, str] = {}
    merged: set[str] = set()
    whole: set[str] = set()
    while True:
        splittable = [name for name in groups.keys() - whole - merged if len(groups[name]) > 1]
        if not splittable:
            break
        largest = max(splittable, key=lambda name: (len(groups[name]), name))
        files, room = groups[largest], limit - len(groups) + 1
        parts = folders = _split(largest, files)
        if len(folders) > room and len(files) > most:
            others = {name: files for name, files in groups.items() if name != largest}
            parts = _merge_small(folders, 0 if _is_flat(largest) else max(room - 2, 2), most, others, graph)
            part_of |= {path: folder for folder, inside in folders.items() for path in inside}
            merged |= parts.keys() - folders.keys()
        if (len(parts) < 2 and largest in parts) or (len(parts) > room and len(files) <= most):
            whole.add(largest)
        else:
            del groups[largest]
            groups.update(parts)
    for name in groups.keys() - merged:
        part_of |= dict.fromkeys(groups[name], name)
    named = {files[0] if len(files) == 1 else name or ".": files for name, files in groups.items() if files}
    return named, part_of


def _is_flat(folder: str) -> bool:
    return folder.rpartition("/")[2] == "*"


def _merge_small(
    parts: Mapping[str, list[str]], alone: int, most: float, others: Mapping[str, list[str]], graph: Graph
) -> dict[str, list[str]]:
    """The largest parts of a folder on their own, the others together with those of the same height. Those of the next
    height join them if there is room for all, unless another area lies in between: dependents stay apart from their
    dependencies. Each group is named after its most central parts."""
    every = {**others, **parts}
    weight = {name: sum(graph.centrality.get(path, 0.0) for path in files) for name, files in every.items()}
    heights = assign_layers(_imports_between(every, graph), weight)
    by_size = sorted(parts, key=lambda name: (-len(parts[name]), name))
    between = {heights[name] for name in (*others, *by_size[:alone])}
    levels = group_by_key(
        (-heights[name], name) for name in sorted(by_size[alone:], key=lambda name: (-weight[name], name))
    )
    merged: list[list[str]] = []
    highest, room = 0, 0.0
    for level, names in sorted(levels.items()):
        if room < sum(len(parts[name]) for name in names) or not between.isdisjoint(range(1 - level, highest)):
            room = 0
        for name in names:
            if room < len(parts[name]):
                merged, highest, room = [*merged, []], -level, most
            merged[-1].append(name)
            room -= len(parts[name])
    groups = {name: parts[name] for name in by_size[:alone]}
    for names in merged:
        best = sorted(names, key=lambda name: (-weight[name], name))[:2]
        ends = [(posixpath.basename(name), parts[name] == [name]) for name in best]
        stems = ", ".join(end.partition(".")[0] if is_file else end for end, is_file in ends)  # `Shop.Api` is a folder
        several = f"{posixpath.dirname(best[0])}/({stems}{', …' if len(names) > len(best) else ''})".lstrip("/")
        files = groups.setdefault(several if len(names) > 1 else best[0], [])
        files += [path for name in names for path in parts[name]]
    return groups


def _split(folder: str, paths: Iterable[str]) -> dict[str, list[str]]:
    """By the next folder; files in `folder` itself become `folder/*`, which is split into its files."""
    if _is_flat(folder):
        return {path: [path] for path in paths}
    start = len(folder) + 1 if folder else 0
    ends = ((path, path.find("/", start)) for path in paths)
    return group_by_key((path[:end] if end >= 0 else f"{folder}/*".lstrip("/"), path) for path, end in ends)


def assign_layers(needs: Mapping[str, Mapping[str, int]], weight: Mapping[str, float]) -> dict[str, int]:
    """The layer of each area. In a cycle, what is needed more is lower, and upward edges are ignored."""
    groups = components({name: list(targets) for name, targets in needs.items()})
    group_of = {name: number for number, group in enumerate(groups) for name in group}

    def is_upward(name: str, target: str) -> bool:
        together = name in group_of and group_of[name] == group_of.get(target)
        return together and (weight[target], target) < (weight[name], name)

    following = {name: [to for to in targets if not is_upward(name, to)] for name, targets in needs.items()}
    height: dict[str, int] = {}
    for name in TopologicalSorter(following).static_order():  # what others need comes before them
        height[name] = 1 + max((height[target] for target in following[name]), default=-1)
    return height


# --- areas as boxes in layers, for the SVG and for the page ----------------------------------------------------------

GAP, _LAYER_GAP, _MARGIN, _ARC = 28, 60, 36, 34  # pixels
_PASSES = 4  # of ordering each layer by its neighbours


class Box(Struct):
    """An area in a drawing; `lay_out` positions it."""

    area: MapArea
    width: int
    height: int
    x: int = 0
    y: int = 0
    row: int = 0

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


def lay_out(boxes: Mapping[str, Box], widest: int, *, top: int = _MARGIN, least: int = 0) -> tuple[int, int]:
    """Position boxes, by their area's name, with dependents above. Returns the width and height of the drawing,
    which is at least `least` wide; a row is at most `widest`, and a wider layer continues below."""
    rows = _rows(boxes, widest)
    widths = [sum(box.width for box in row) + GAP * (len(row) - 1) for row in rows]
    page = max([*widths, least - 2 * _MARGIN]) + 2 * _MARGIN
    y = top
    for number, (row, width) in enumerate(zip(rows, widths, strict=True)):
        x = (page - width) // 2
        tallest = max(box.height for box in row)
        for box in row:
            box.x, box.y, box.row = x, y + (tallest - box.height) // 2, number
            x += box.width + GAP
        y += tallest + _LAYER_GAP
    return page, max(y - _LAYER_GAP, top) + _MARGIN


def _rows(boxes: Mapping[str, Box], widest: int) -> list[list[Box]]:
    """Layers from the top down, ordered to keep edges short, wrapped where they get too wide."""
    by_layer = group_by_key((box.area.layer, box) for box in boxes.values())
    layers = [by_layer[layer] for layer in sorted(by_layer, reverse=True)]
    rank = {box.area.name: position for layer in layers for position, box in enumerate(layer)}
    neighbours = {name: [other for other in box.area.needs if other in boxes] for name, box in boxes.items()}
    for name, box in boxes.items():
        for other in box.area.needs.keys() & boxes.keys():
            neighbours[other].append(name)
    for _ in range(_PASSES):
        for layer in layers:
            layer.sort(key=lambda box: mean([rank[other] for other in neighbours[box.area.name] or [box.area.name]]))
            rank.update({box.area.name: position for position, box in enumerate(layer)})
    rows: list[list[Box]] = []
    for layer in layers:
        row: list[Box] = []
        for box in layer:
            if row and sum(placed.width + GAP for placed in row) + box.width > widest:
                rows.append(row)
                row = []
            row.append(box)
        rows.append(row)
    return rows


def curve(source: Box, target: Box) -> str:
    """The path of an edge: between two rows, or an arc above both, since a line would pass behind the boxes in
    between."""
    if source.row == target.row:
        start, end, bend = source.y, target.y - 2, source.y - _ARC
    else:
        down = target.row > source.row
        start, end = (source.y + source.height, target.y - 2) if down else (source.y, target.y + target.height + 2)
        bend = (start + end) // 2
    return f"M{source.middle} {start} C{source.middle} {bend} {target.middle} {bend} {target.middle} {end}"


def closes_cycle(source: MapArea, target: MapArea) -> bool:
    """Within a cycle, the edges that do not lead down close it."""
    return source.in_cycle and target.in_cycle and target.layer >= source.layer


# --- Mermaid and SVG -------------------------------------------------------------------------------------------------

_EDGES_SHOWN = 3  # of each area: its strongest; more make a tangle
_TITLE, _LEAST_WIDTH, _MAX_ROW = 84, 632, 1180  # pixels
_NAME_CHARS = 26


def _arrows(areas: Sequence[MapArea]) -> list[tuple[MapArea, MapArea, int]]:
    """The edges worth drawing, with their weights: the heaviest of each area, and all within a cycle."""
    by_name = {area.name: area for area in areas}
    return [
        (area, by_name[name], weight)
        for area in areas
        for rank, (name, weight) in enumerate(area.needs.items())
        if rank < _EDGES_SHOWN or (area.in_cycle and by_name[name].in_cycle)
    ]


def mermaid(areas: Sequence[MapArea]) -> str:
    number = {area.name: f"a{position}" for position, area in enumerate(areas)}
    arrows = _arrows(areas)
    lines = ["flowchart TD"]
    names = {area.name: escape(area.name, quote=False).replace('"', "&quot;") for area in areas}
    sizes = {area.name: quantity(area.files, "file") for area in areas}
    lines += [f'    {number[area.name]}["{names[area.name]}<br/>{sizes[area.name]}"]' for area in areas]
    lines += [f"    {number[source.name]} -->|{weight}| {number[target.name]}" for source, target, weight in arrows]
    lines += [f"    style {number[area.name]} stroke:#d1242f,stroke-width:2px" for area in areas if area.in_cycle]
    red = [str(position) for position, (source, target, _) in enumerate(arrows) if closes_cycle(source, target)]
    if red:
        lines.append(f"    linkStyle {','.join(red)} stroke:#d1242f")
    return "\n".join(lines) + "\n"


def svg(title: str, areas: Sequence[MapArea], hubs: Mapping[str, str], note: str) -> str:
    """`hubs` are the most central files of the areas, by their names."""
    names = {area.name: hubs[area.name].rpartition("/")[2] for area in areas}
    lines = {area.name: "1 file" if area.files == 1 else f"{area.files} files · {names[area.name]}" for area in areas}
    boxes = {area.name: _box(area, lines[area.name]) for area in areas}
    width, height = lay_out(boxes, _MAX_ROW, top=_TITLE, least=_LEAST_WIDTH)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}: areas and what they need">',
        f"<style>\n{Path(__file__).with_name('map.css').read_text('utf-8')}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" '
        'markerUnits="userSpaceOnUse"><path d="M0 0 8 4 0 8z" class="soft"/></marker></defs>',
        f'<rect class="page" width="{width}" height="{height}" rx="12"/>',
        f'<text class="ink" x="{_MARGIN}" y="34" font-size="20" font-weight="600">{escape(title)}</text>',
        f'<text class="soft" x="{_MARGIN}" y="54" font-size="12">{escape(note)}</text>',
    ]
    for source, target, weight in _arrows(areas):
        loop = " loop" if closes_cycle(source, target) else ""
        path = curve(boxes[source.name], boxes[target.name])
        thickness = min(1 + log2(1 + weight) / 2.2, 4.5)
        tooltip = f"<title>{escape(source.name)} → {escape(target.name)}: {weight} imports</title>"
        shape = f'class="edge{loop}" d="{path}" stroke-width="{thickness:.1f}" marker-end="url(#tip)"'
        parts.append(f"<path {shape}>{tooltip}</path>")
    parts += [_draw_box(boxes[area.name], lines[area.name]) for area in areas]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _font(area: MapArea) -> float:
    """The more depends on an area, the larger its label."""
    return 12 + 7 * sqrt(area.centrality)


def _box(area: MapArea, second_line: str) -> Box:
    font = _font(area)
    shown = max(len(_short(area.name)) * 0.58 * font, len(second_line) * 6.2)
    return Box(area, round(max(96.0, shown + 28)), round(2.2 * font + 26))


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else "…" + name[-_NAME_CHARS + 1 :]


def _draw_box(box: Box, second_line: str) -> str:
    area = box.area
    kind = "hub" if area.centrality >= 0.5 else "box"
    loop = " loop" if area.in_cycle else ""
    font = _font(area)
    lines = [
        f"<g><title>{escape(area.name)}: {area.files} files, layer {area.layer}</title>",
        f'<rect class="{kind}{" box" if loop else ""}{loop}" x="{box.x}" y="{box.y}" width="{box.width}" '
        f'height="{box.height}" rx="8"/>',
        f'<text class="ink" x="{box.middle}" y="{box.y + 8 + font:.0f}" font-size="{font:.1f}" '
        f'font-weight="600" text-anchor="middle">{escape(_short(area.name))}</text>',
        f'<text class="soft" x="{box.middle}" y="{box.y + box.height - 11}" font-size="11" '
        f'text-anchor="middle">{escape(second_line)}</text></g>',
    ]
    return "\n".join(lines)
