"""The graph of a codebase: files, the edges that imports make between them, how central each file is, and cycles.

Also `Unit`, a file with its definitions and imports for questions about names, the ids of what names mean, and the
graph's serialization.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from posixpath import dirname
from typing import NamedTuple

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from codeinfo.cache import group_by_key, reachable
from codeinfo.globs import lies_below
from codeinfo.languages import FOR_TESTS, is_shipped_folder, is_test_helper, is_test_name
from codeinfo.languages.model import FileFacts, Language, ancestors, enclosing_names, language_family
from codeinfo.model import Definition, Import, decode_stored

_TEST_MARK = re.compile(r"^tests?_|_?(?:tests?|specs?|it)$")
_TEST_FOLDER = re.compile(rf"{_TEST_MARK.pattern}|\.(?:unit|functional|integration)?tests?$")  # `Shop.UnitTests`
_TEST_DATA = re.compile(r"(?:^|/)(?:factories|fixtures|support|helpers|mocks|stubs)(?:/|$)")  # used by tests
_CONTROLLER = re.compile(r"_?controller$")  # often tested from outside, by tests named after what it serves
_CONTROLLERS = re.compile(r"(?i)^(?:.*/)?controllers?/|^[^/]*/$")
_FROM_OUTSIDE = re.compile(r"(?i)(?:^|/)(?:features?|requests?|functional|integration|controllers?|acceptance|api)/")
_PACKAGE_FILES = ("__init__", "index", "lib", "mod")  # re-export what lies in their folder
_PARTS = re.compile(r"[./\\:]+")
_DAMPING = 0.85
_ROUNDS = 40  # the values converge to three digits well before

_MOST_HELPED = 5  # tests that use a helper
# Stands in for something or is what tests extend: TestUserStore.kt, BaseShopTest.cs.
_FOR_TESTS = re.compile(r"(?:\A|/)(?:Test[A-Z]\w*(?<!Test)(?<!Tests)|(?:Abstract|Base)[A-Z]\w*)\.\w+$")

FORMAT = 38  # raise when the serialization or the meaning of the facts changes


class Edge(Struct, frozen=True, array_like=True):
    """`source` needs `target`. Implicit: without an import, since both belong to one package. `timing` is the
    import's; of several imports the earliest counts."""

    source: str
    target: str
    line: int
    names: tuple[str, ...] = ()
    implicit: bool = False
    timing: str = ""


class UnlinkedImport(Struct, frozen=True, array_like=True):
    """An import that resolves to no file of this codebase."""

    module: str
    line: int
    external: bool


class Links(Struct, frozen=True, array_like=True):
    """Everything the imports of one file resolve to."""

    edges: tuple[Edge, ...] = ()
    unlinked: tuple[UnlinkedImport, ...] = ()


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


def symbols_of(meaning: Iterable[object]) -> list[SymbolId]:
    """The definitions among what something means, without modules and containers."""
    return [symbol for symbol in meaning if isinstance(symbol, SymbolId)]


class Unit(Struct, frozen=True, dict=True):
    """A file with its definitions and imports, indexed by name."""

    facts: FileFacts
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]

    @property
    def path(self) -> str:
        return self.facts.path

    @property
    def folder(self) -> str:
        return self.facts.folder

    @cached_property
    def rules(self) -> Language:
        return self.facts.rules

    def symbol(self, definition: Definition) -> SymbolId:
        return SymbolId(self.path, self.without_namespace(definition.qualified))

    def type_around(self, within: str) -> SymbolId | None:
        """The innermost type around a place."""
        around = ((scope, self.by_qualified.get(scope)) for scope in enclosing_names(within))
        types = (scope for scope, definition in around if definition is not None and definition.is_type)
        return next((SymbolId(self.path, scope) for scope in types), None)

    def named(self, name: str) -> Sequence[Definition]:
        return self.by_name.get(name, ())

    @cached_property
    def by_qualified(self) -> dict[str, Definition]:
        first_of: dict[str, Definition] = {}
        for definition in self.definitions:
            if definition.kind not in {"package", "namespace"}:
                name = self.without_namespace(definition.qualified)
                first = first_of.get(name)
                if first is not None and first.kind == "module":
                    first = None  # Rust keeps module names apart: the callable counts
                first_of[name] = implementation(self.facts, first, definition)
        return first_of

    @cached_property
    def by_name(self) -> dict[str, list[Definition]]:
        return group_by_key((definition.name, definition) for definition in self.definitions)

    def imports_for(self, name: str) -> list[Import]:
        """The imports that may bring in a name: those that name it, and wildcard imports."""
        named = self._by_taken.get(name)
        return named if named is not None else self._by_taken.get("*", [])

    @cached_property
    def _by_taken(self) -> dict[str, list[Import]]:
        """Imports by the names they bring in, wildcard imports under each of them, in file order."""

        def brought(import_: Import) -> set[str]:
            is_whole = not (import_.alias or import_.names)  # `pub use kit;`
            return {import_.module.rpartition("::")[2]} if is_whole else {import_.alias, *import_.names}

        names = {name for import_ in self.imports for name in brought(import_)}
        bound = ((names if import_.names == ("*",) else brought(import_), import_) for import_ in self.imports)
        return group_by_key((name, import_) for names, import_ in bound for name in names)

    @cached_property
    def renamed(self) -> frozenset[str]:
        """Names that imports rename."""
        return frozenset(name for import_ in self.imports if import_.alias for name in import_.names)

    @cached_property
    def by_shown(self) -> dict[str, list[Import]]:
        """Imports by the names written in them, also as part of the module."""
        return group_by_key((name, import_) for import_ in self.imports for name in _shown_names(import_))

    @cached_property
    def extended(self) -> frozenset[str]:
        """Functions and objects of JavaScript to which code outside of them adds members: `Cart.prototype.add = …`."""
        if not self.rules.names.default_exports:
            return frozenset()
        extended = set()
        for name, member in self.by_qualified.items():
            owner = self.by_qualified.get(name.rpartition(".")[0])
            is_inside = owner is None or owner.start_line <= member.start_line <= owner.end_line
            if owner is not None and not is_inside and owner.kind in ("function", "variable"):
                extended.add(owner.qualified)
        return frozenset(extended)

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        names = {definition.qualified + "." for definition in self.definitions if definition.kind == "namespace"}
        return tuple(sorted(names, key=len, reverse=True))

    def without_namespace(self, qualified: str) -> str:
        for namespace in self.namespaces:
            if qualified.startswith(namespace):
                return qualified[len(namespace) :]
        return qualified

    def exported_as(self, name: str) -> str:
        """The qualified name under which others get a top-level name: a file may export the table it fills."""
        if name in self.by_qualified:
            return name
        named = self.named(name) if self.rules.names.tables else self.extensions(name)
        held = {definition.qualified for definition in named if definition.qualified.count(".") == 1}
        return held.pop() if len(held) == 1 else ""

    def extensions(self, name: str) -> list[Definition]:
        """The extension functions and properties of Kotlin with a name: `fun Cart.total()`."""
        rules = self.rules.names
        named = self.named(name) if rules.extensions and not rules.open_types else ()
        return [added for added in named if "." in added.qualified and added.signature.partition(name)[0].endswith(".")]


def _shown_names(import_: Import) -> set[str]:
    module = import_.module
    last = (module.rpartition("::")[2], module.replace("\\", "/").rpartition("/")[2])
    return {import_.alias, *import_.names, module, *last, *_PARTS.split(module)}


PARTS = frozenset({"extension", "impl"})  # what else is written of a type, in any file
OVERLOAD = "@overload "  # marks the signature of a declaration without a body
_ACCESSOR = re.compile(r"\b[gs]et\s")


def implementation(file: FileFacts, first: Definition | None, definition: Definition) -> Definition:
    """The first of two definitions of one name, unless it only declares what the other implements."""
    way = file.rules.names.overloads
    if first is not None and first.kind == "prototype" and definition.is_function:
        return definition
    if first is not None and first.kind in PARTS and definition.is_type and definition.kind not in PARTS:
        return definition
    if first is None or not way or not (first.is_function and definition.is_function):
        return first or definition
    if way == "marked":
        return definition if first.signature.startswith(OVERLOAD) else first
    is_accessor = _ACCESSOR.search(first.signature.partition(first.name)[0])
    longer = definition.end_line - definition.start_line > first.end_line - first.start_line
    return definition if longer and not is_accessor else first


class Graph(Struct, frozen=True, dict=True):
    generation: int
    files: Mapping[str, FileFacts]
    links: Mapping[str, Links]  # only files that have any

    @cached_property
    def importers(self) -> Mapping[str, tuple[Edge, ...]]:
        """Edges by their target, those from important files first."""
        weight = self.centrality
        return {
            path: tuple(sorted(edges, key=lambda edge: (edge.implicit, -weight.get(edge.source, 0), edge.source)))
            for path, edges in group_by_key((edge.target, edge) for edge in self.edges).items()
        }

    @cached_property
    def centrality(self) -> Mapping[str, float]:
        return centrality(list(self.files), self.edges)

    @cached_property
    def tests(self) -> frozenset[str]:
        """The paths of test files."""
        return frozenset(path for path, facts in self.files.items() if facts.is_test)

    @cached_property
    def _subjects(self) -> Mapping[str, list[FileFacts]]:
        """The non-test files, by stem."""
        return group_by_key((stem_of(path), facts) for path, facts in self.files.items() if not facts.is_test)

    def tests_named_after(self, path: str) -> list[str]:
        """Tests named after a file, and the file itself if it contains tests. If other files share the name, only
        tests that import it, lie beside it or in folders of the same names, or share more folder names with it than
        with the others. Examples and documents of that name count only if they are nearer to the test."""
        stem, folder, base = stem_of(path), dirname(path), _base(path)
        facts = self.files.get(path)
        inline = facts is not None and facts.inline_modules and not {"test", "tests"}.isdisjoint(facts.exports)
        subjects = [subject.folder for subject in self._subjects.get(stem, ())]
        beside = [_base(file.path) for file in self._subjects.get(stem, ()) if file.folder == folder]
        tests = [path] if inline else []
        for test in self._tests_by_stem.get(stem, ()):
            home = dirname(test)
            shared = _count_shared(home, folder)
            is_nearest = all(_count_shared(home, subject) < shared for subject in subjects if subject != folder)
            if _TEST_DATA.search(home) or (home != folder and FOR_TESTS.search(test)):
                continue
            rivals = [
                subject
                for subject in subjects
                if subject != folder and (is_shipped_folder(subject) or _count_shared(home, subject) > shared)
            ]
            is_meant = is_nearest or home == folder or _is_mirrored(home, folder) or not rivals
            # `user.service.spec.ts` is about `user.service.ts`, not about the `user.controller.ts` beside it.
            is_meant = is_meant and _fit(test, base) >= max((_fit(test, neighbour) for neighbour in beside), default=0)
            is_meant = is_meant and lies_below(path, tested_folder(home))
            if (is_meant and self._may_test(test, path)) or any(edge.target == path for edge in self.edges_from(test)):
                tests.append(test)
        served = self._tests_by_stem.get(_CONTROLLER.sub("", stem), ()) if _CONTROLLER.search(stem) else ()
        return [*tests, *(test for test in served if _is_request_for(folder, test))]

    def _may_test(self, test: str, path: str) -> bool:
        """Whether a test and a file share more than their name: their folder, or their language. A test in another
        language counts if it is called a test and its own language has no such file. What is not called a test must lie
        right in a folder of tests, or import code: otherwise it is data, like sources to try a highlighter on."""
        folder = dirname(test)
        if folder == dirname(path):
            return True
        family, other = (language_family(self.files[at].language) if at in self.files else "" for at in (test, path))
        if is_test_name(test) or _TEST_MARK.search(stem_of(test)):
            own = (language_family(subject.language) for subject in self._subjects.get(stem_of(path), ()))
            return family == other or family not in own
        is_direct = not _TEST_MARK.sub("", folder.rpartition("/")[2].strip("_"))
        return family == other and (is_direct or any(edge.target not in self.tests for edge in self.edges_from(test)))

    def tests_of(self, path: str, importing: Iterable[str] | None = None) -> tuple[str, ...]:
        """Tests named after a file, and those behind the tests that import it, or that are given: tests named like it
        first, mere helpers last."""
        sources = importing if importing is not None else self._importers(path)
        helping = [source for source in sources if source in self.tests and self._uses(source, path)]
        tests = [test for helper in helping for test in self.tests_behind(helper, path)]
        tests = tests or [source for source in helping if not self._is_helper(source)]
        stem, folder = stem_of(path), _folder_name(path)
        tests.sort(key=lambda test: (not is_test_name(test), stem not in test.lower(), folder not in stem_of(test)))
        return tuple(dict.fromkeys((*self.tests_named_after(path), *tests)))

    def _uses(self, source: str, path: str) -> bool:
        """Whether a file names something of another, instead of only importing it, as `_ "app/models"` of Go does."""
        is_named = source in self.files and self.files[source].rules.imports.qualified
        direct = [edge for edge in self.edges_from(source) if is_named and edge.target == path]
        return not direct or any(edge.names for edge in direct)

    def _importers(self, path: str) -> Iterator[str]:
        """The files that import a file, and the tests that import its names from a package file."""
        names = {*self.files[path].exports, "*"} if path in self.files else {"*"}
        for edge in self.edges_to(path):
            yield edge.source
            passes_on = edge.names == ("*",) or stem_of(edge.source) in _PACKAGE_FILES
            through = self.edges_to(edge.source) if passes_on else ()
            yield from (behind.source for behind in through if not names.isdisjoint(behind.names))

    def tests_behind(self, test: str, path: str) -> list[str]:
        """A test that imports a file; if it is only a helper by its name, the tests that use it. Of many, those
        named after the file."""

        def users_of(helper: str) -> list[str]:
            users = (edge.source for edge in self.edges_to(helper)) if self._is_helper(helper) else ()
            return [user for user in users if user in self.tests]

        users = [user for user in reachable([test], users_of) if not self._is_helper(user)]
        named = [user for user in sorted(users) if _TEST_MARK.sub("", stem_of(user)) == stem_of(path)]
        return named or (sorted(users) if len(users) <= _MOST_HELPED else [])

    def _is_helper(self, test: str) -> bool:
        """Whether a file among the tests only helps them: other tests use it, or its name or place says so."""
        is_for_tests = _FOR_TESTS.search(test) is not None
        is_used = any(edge.source in self.tests for edge in self.edges_to(test))
        is_placed = is_test_helper(test) or "/src/main/" in f"/{test}"
        return is_placed or (is_used and (is_for_tests or not is_test_name(test)))

    @cached_property
    def _tests_by_stem(self) -> Mapping[str, list[str]]:
        """Test files by what they are named after, in lower case: `test_pool.py`, `pool_test.go`, `PoolTests.java`."""
        # Data for tests, which has no syntax, runs nothing.
        tests = [path for path, facts in self.files.items() if facts.is_test and facts.rules.syntax is not None]
        subjects = ((_TEST_MARK.sub("", stem_of(path)), path) for path in tests)
        return group_by_key(
            (subject, path)
            for subject, path in subjects
            if subject != stem_of(path) or "." in path.rpartition("/")[2].removesuffix(".py")
        )

    def edges_from(self, path: str) -> tuple[Edge, ...]:
        links = self.links.get(path)
        return links.edges if links else ()

    def edges_to(self, path: str) -> tuple[Edge, ...]:
        return self.importers.get(path, ())

    def users(self, path: str) -> list[Edge]:
        """The edges from files that need one and are no tests, important ones first."""
        return [edge for edge in self.edges_to(path) if edge.source not in self.tests]

    @cached_property
    def edges(self) -> Sequence[Edge]:
        return [edge for links in self.links.values() for edge in links.edges]

    @cached_property
    def import_edges(self) -> Sequence[Edge]:
        """The edges from imports, each with the earliest time its language lets it take effect."""
        deferred = {path: facts.rules.imports.deferred for path, facts in self.files.items()}
        return [
            edge if edge.timing == timing else replace(edge, timing=timing)
            for edge in self.edges
            if not edge.implicit
            for timing in ["types" if edge.timing == "dropped" else edge.timing or deferred[edge.source]]
        ]

    @property
    def unlinked(self) -> tuple[int, int]:
        """How many imports lead outside, and how many should resolve to a file here but do not."""
        imports = [import_ for links in self.links.values() for import_ in links.unlinked]
        external = sum(import_.external for import_ in imports)
        return external, len(imports) - external


def _is_request_for(folder: str, test: str) -> bool:
    """Whether a test calls a controller in a folder: `requests/api/v1/media_spec` one in `controllers/api/v1`."""
    outside = _FROM_OUTSIDE.search(test)
    return outside is not None and test[outside.end() :].rpartition("/")[0] == _CONTROLLERS.sub("", f"{folder}/")[:-1]


def tested_folder(folder: str) -> str:
    """The folder that tests are about: `shop/cart` for those in `shop/cart/tests/unit`, also if `model.py` is there
    only in `shop/admin`."""
    return next(filter(is_shipped_folder, ancestors(folder)), "")


def _is_mirrored(tests: str, folder: str) -> bool:
    """Whether the path of a folder of tests is that of another one: `spec/models/shop` of `app/models/shop`."""
    names = "/".join(part for part in tests.split("/") if _TEST_MARK.sub("", part.strip("_").lower()))
    return bool(names) and f"/{folder}".endswith(f"/{names}")


def _count_shared(folder: str, other: str) -> int:
    """How many folders of two paths share a name, counting `admin_tests`, `admin.unittests` and `admin` as equal."""
    paths = (path.lower().split("/") for path in (folder, other))
    names, others = ({_TEST_FOLDER.sub("", part) for part in parts} - {""} for parts in paths)
    return len(names & others)


def stem_of(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0].lower()


def _base(path: str) -> str:
    """A file's name without its last ending, in lower case."""
    return path.rpartition("/")[2].rpartition(".")[0].lower()


def _fit(test: str, base: str) -> int:
    """How much of a test's name is that of a file: `user.service.roles.spec` begins with `user.service`."""
    return len(base) if f"{_base(test)}.".startswith(f"{base}.") else 0


def _folder_name(path: str) -> str:
    return dirname(path).rpartition("/")[2].lower()


def part_of(graph: Graph, below: str) -> Graph:
    """The files below a folder and the edges between them."""
    if not below:
        return graph
    files = {path: facts for path, facts in graph.files.items() if lies_below(path, below)}
    links = {
        path: Links(tuple(edge for edge in links.edges if edge.target in files), links.unlinked)
        for path, links in graph.links.items()
        if path in files
    }
    return Graph(graph.generation, files, links)


def centrality(paths: Sequence[str], edges: Sequence[Edge]) -> Mapping[str, float]:
    """How central each file is: by how many files need it, and how much those are needed themselves; 0 if none do.

    PageRank alone lets a closed cycle of files keep everything that flows into it; the number of importers alone counts
    a thousand leaves like ten hubs. The geometric mean of both avoids either; it is scaled so that the most central
    file has 1.
    """
    position = {path: number for number, path in enumerate(paths)}
    known = (edge for edge in edges if edge.source in position and edge.target in position)
    pairs = [(position[edge.source], position[edge.target]) for edge in known]
    if not pairs:
        return {}
    import numpy as np

    source, target = np.array(pairs, np.int64).T
    count = len(paths)
    share = 1.0 / np.bincount(source, minlength=count)[source]
    value = np.full(count, 1.0 / count)
    for _ in range(_ROUNDS):
        passed = np.bincount(target, weights=value[source] * share, minlength=count)
        value = (1 - _DAMPING) / count + _DAMPING * (passed + (1 - passed.sum()) / count)
    needed = np.bincount(target, minlength=count)
    value = np.sqrt((value - value.min()).clip(0) * needed)
    top = value.max()
    if not top:
        return {}
    return {paths[number]: round(float(value[number] / top), 4) for number in np.flatnonzero(value).tolist()}


# --- cycles ----------------------------------------------------------------------------------------------------------

_SEVERITY = {2: "high", 3: "medium"}  # the shorter a cycle, the tighter its files are coupled


class Cycle(Struct, frozen=True):
    """A shortest cycle: `edges` lead from each file to the next and back to the first."""

    edges: tuple[Edge, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(edge.source for edge in self.edges)

    @property
    def timing(self) -> str:
        """When the last of its imports takes effect: nothing breaks before that."""
        return max(edge.timing for edge in self.edges)

    @property
    def severity(self) -> str:
        return "low" if self.timing else _SEVERITY.get(len(self.edges), "low")


def components(following: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Groups of at least two files that reach each other (Kosaraju's algorithm, without recursion)."""
    seen: set[str] = set()
    left: dict[str, None] = {}  # in the order in which a search through the graph leaves them
    for root in following:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            if node in seen:
                left.setdefault(waiting.pop())
            else:
                seen.add(node)
                waiting += (after for after in following.get(node, ()) if after not in seen)
    back = group_by_key((target, source) for source, targets in following.items() for target in targets)
    groups: list[tuple[str, ...]] = []
    for root in reversed(list(left)):
        if root in left:
            group = tuple(reachable([root], lambda node: [before for before in back.get(node, ()) if before in left]))
            groups += [group] if len(group) > 1 else []
            for node in group:
                del left[node]
    return groups


def cycles(edges: Sequence[Edge]) -> list[Cycle]:
    """For every file on a cycle a shortest one through it, without duplicates; shortest first.

    There can be exponentially many cycles; these few cover every file that is on one, and every tight pair.
    """
    out: dict[str, dict[str, Edge]] = {}
    for edge in edges:
        if not edge.implicit:
            out.setdefault(edge.source, {})[edge.target] = edge
    shortest: dict[frozenset[str], Cycle] = {}
    for group in components({source: list(targets) for source, targets in out.items()}):
        inside = set(group)
        for start in group:
            pairs = [target for target in out[start] if target in inside and start in out.get(target, ())]
            for target in pairs:
                shortest.setdefault(frozenset((start, target)), _cycle([start, target], out))
            if not pairs and (path := _shortest(start, out, inside)):
                shortest.setdefault(frozenset(path), _cycle(path, out))
    return sorted(shortest.values(), key=lambda cycle: (len(cycle.edges), cycle.files))


def _cycle(path: list[str], out: Mapping[str, Mapping[str, Edge]]) -> Cycle:
    """Rotated to start with the alphabetically first file."""
    first = path.index(min(path))
    turned = path[first:] + path[:first]
    return Cycle(tuple(out[a][b] for a, b in zip(turned, [*turned[1:], turned[0]], strict=True)))


def _shortest(start: str, out: Mapping[str, Mapping[str, Edge]], inside: set[str]) -> list[str]:
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target in out.get(node, ()):
            if target == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if target in inside and target not in came_from:
                came_from[target] = node
                queue.append(target)
    return []


# --- on disk -------------------------------------------------------------------------------------------------------


def dumps(graph: Graph) -> bytes:
    """Empty if a path is not UTF-8, which JSON cannot hold: each process then builds the graph."""
    try:
        return encode((FORMAT, graph.generation, graph.files, graph.links))
    except UnicodeEncodeError:
        return b""


def loads(data: bytes | None) -> Graph | None:
    """The graph, or None if the bytes are of another format or damaged: it is then rebuilt."""
    stored = decode_stored(data, tuple[int, int, dict[str, FileFacts], dict[str, Links]])
    return Graph(*stored[1:]) if stored is not None and stored[0] == FORMAT else None
