"""The graph of one index: built when first asked for, kept by generation, and mended where files changed.

A changed file has a new id. When only contents changed, the imports of the changed files are resolved again and nothing
else; when files came or went, or a file offers other names than before, so are those of its language. What was built is
written beside the index, so that the next process finds it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.engine.uncollected import uncollected
from codeinfo.graph.facts import FileImports, Links
from codeinfo.graph.model import Graph, dumps, loads
from codeinfo.graph.resolve import BY_NAME, Resolver
from codeinfo.index.uses import UsedNames, dotted_names, unpacked
from codeinfo.languages import go
from codeinfo.languages.tree import MOST_ABOVE, FileFacts, Tree, family, is_config
from codeinfo.ports import CodeFacts, CodeFile
from codeinfo.sources.rules import excluded_folder
from codeinfo.store.sqlite import SqliteStore, code_facts, read_beside, write_beside
from codeinfo.types import Definition, Import

CACHE_NAME = "graph.json"
MAX_CONFIG_BYTES = 1_000_000  # a package.json beyond this is data
_PACKAGE_KINDS = frozenset({"package", "namespace"})
_NO_EXPORTS = _PACKAGE_KINDS | {"extension", "impl"}
_PRIVATE_TO_FILE = frozenset({"kotlin", "swift"})  # elsewhere `private` still means the package, or the namespace
_EXTENDING = frozenset({"method", "property"})


class Relations(Struct, frozen=True):
    """How a file hangs together with others; `imported_by` has the important ones first."""

    imported_by: tuple[tuple[str, int], ...]
    used_by: tuple[tuple[str, int], ...]  # the importers that are no tests
    imports: tuple[tuple[str, int], ...]
    tests: tuple[str, ...]
    centrality: float


class Graphs:
    """The graphs of the indexes that are open, by the folder of their build."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, Graph] = {}
        self._resolvers: dict[Path, tuple[Graph, Resolver]] = {}

    def graph(self, store: SqliteStore, root: Path) -> Graph:
        with self._lock, code_facts(store) as facts:
            return self.graph_of(facts, store, root)

    def graph_of(self, facts: CodeFacts, store: SqliteStore, root: Path) -> Graph:
        """The graph of the generation that `facts` shows."""
        known = self._known.get(store.folder)
        if known is None:
            data = read_beside(store, CACHE_NAME)
            known = loads(data) if data else None
        if known is None or known.generation != facts.generation:
            with uncollected():
                known = refreshed(known, facts, root)
                write_beside(store, CACHE_NAME, dumps(known))
        self._known[store.folder] = known
        return known

    def resolver(self, graph: Graph, store: SqliteStore, root: Path) -> Resolver:
        """What resolves imports in this graph, kept since preparing it takes a while, also over edits that leave what
        files offer to others as it was."""
        known = self._resolvers.get(store.folder)
        if known is None or (known[0] is not graph and not _offer_the_same(known[0].files, graph.files)):
            known = graph, Resolver(_tree(graph.files, root))
        self._resolvers[store.folder] = graph, known[1]
        return known[1]

    def relations(self, store: SqliteStore, root: Path, paths: Iterable[str]) -> Mapping[str, Relations]:
        graph = self.graph(store, root)
        return {path: relations(graph, path) for path in paths if path in graph.files}


def relations(graph: Graph, path: str) -> Relations:
    importers = graph.edges_to(path)
    tests = [edge.source for edge in importers if edge.source in graph.tests]
    return Relations(
        imported_by=tuple((edge.source, edge.line) for edge in importers),
        used_by=tuple((edge.source, edge.line) for edge in importers if edge.source not in graph.tests),
        imports=tuple((edge.target, edge.line) for edge in graph.edges_from(path)),
        tests=tuple(dict.fromkeys((*tests, *tests_by_name(graph, path)))),
        centrality=graph.centrality.get(path, 0.0),
    )


def tests_by_name(graph: Graph, path: str) -> list[str]:
    """Tests that are called after the file: test_x.py, x_test.go, x.spec.ts, XTest.java."""
    return graph.tests_by_stem.get(path.rpartition("/")[2].partition(".")[0].lower(), [])


# --- building ------------------------------------------------------------------------------------------------------


def refreshed(known: Graph | None, facts: CodeFacts, root: Path) -> Graph:
    """The graph of this generation, from the last one where it still holds."""
    listed = facts.files()
    old = {one.file_id: one for one in known.files.values()} if known else {}
    changed = [file for file in listed if file.file_id not in old]
    fresh = file_facts(changed, facts, everything=not old)
    files = {file.path: fresh.get(file.file_id) or old[file.file_id] for file in listed}
    stale = _stale(known, files, changed)
    if not stale and known is not None:
        return replace(known, generation=facts.generation, files=files)
    tree = _tree(files, root)
    links = {path: links for path, links in known.links.items() if path in files} if known else {}
    links = {path: one for path, one in links.items() if path not in stale}
    links.update(_links([files[path] for path in stale], tree, facts))
    return Graph(facts.generation, files, links)


def _offer_the_same(before: Mapping[str, FileFacts], now: Mapping[str, FileFacts]) -> bool:
    """Whether imports lead to the same places: no file came or went, and none offers other names or configures."""
    if before.keys() != now.keys():
        return False
    changed = [path for path, facts in now.items() if facts is not before[path]]
    return all(
        not is_config(path) and now[path] == replace(before[path], file_id=now[path].file_id) for path in changed
    )


def _tree(files: Mapping[str, FileFacts], root: Path) -> Tree:
    configs = {path: _config(root, path) for path in files if is_config(path)}
    if go.MANIFEST not in configs and any(file.language == "go" for file in files.values()):
        configs[go.MANIFEST] = _go_module_above(root)
    scripts = any(resolved_with(file.language) == "ecmascript" for file in files.values())
    above = configs_above(root) if scripts else {}
    return Tree(files.values(), configs, str(root), above, lambda path: excluded_folder(path) is not None)


def configs_above(root: Path) -> dict[str, str]:
    """What the folders around the root say of imports, up to the repository's own folder."""
    found: dict[str, str] = {}
    for depth, folder in enumerate(_around(root)[:MOST_ABOVE], start=1):
        with contextlib.suppress(OSError):
            names = sorted(path.name for path in folder.iterdir() if is_config(path.name))
            found.update({"../" * depth + name: _config(folder, name) for name in names})
    return found


def _around(root: Path) -> list[Path]:
    """The folders above the root that belong to the same repository; all of them where there is none."""
    inside = [root, *root.parents]
    ends = next((at for at, folder in enumerate(inside) if (folder / ".git").exists()), len(inside))
    return inside[1 : ends + 1]


def _go_module_above(root: Path) -> str:
    """A manifest as the root would have it if it were a module of its own, where it is a part of one."""
    for folder in _around(root):
        if name := go.module_name(_config(folder, go.MANIFEST)):
            return f"module {name}/{root.relative_to(folder).as_posix()}"
    return ""


def file_facts(files: Sequence[CodeFile], facts: CodeFacts, *, everything: bool) -> dict[int, FileFacts]:
    """What the graph needs to know of some files."""
    wanted = {file.file_id: file for file in files}
    outlines: dict[int, list[Definition]] = {}
    for file_id, definition in facts.outlines(None if everything else list(wanted)):
        outlines.setdefault(file_id, []).append(definition)
    return {file_id: facts_of(file, outlines.get(file_id, [])) for file_id, file in wanted.items()}


def facts_of(file: CodeFile, outline: Sequence[Definition]) -> FileFacts:
    packages = [d.qualified.replace("`", "") for d in outline if _names_package(d, file.language)]
    inside = {f"{package}." for package in packages}
    offered = [d for d in outline if d.kind not in _NO_EXPORTS and not _names_package(d, file.language)]
    spans: dict[str, list[range]] = {}
    for d in offered:
        if d.kind not in _EXTENDING:
            spans.setdefault(f"{d.qualified}.", []).append(range(d.start_line, d.end_line + 1))
    top = [d for d in offered if _is_top_level(d, inside, spans)]
    hidden = {d.name for d in top if not d.exported} if file.language in _PRIVATE_TO_FILE else set()
    hidden -= {d.name for d in top if d.exported}
    inline = [(d.start_line, d.end_line) for d in outline if d.kind == "module" and d.end_line > d.start_line]
    return FileFacts(
        file_id=file.file_id,
        path=file.path,
        language=file.language,
        kind=file.kind,
        packages=tuple(dict.fromkeys(packages)),
        exports=tuple(dict.fromkeys(d.name for d in top if d.name not in hidden)),
        inline_modules=tuple(inline) if file.language == "rust" else (),
        hidden=tuple(sorted(hidden)),
    )


def _names_package(definition: Definition, language: str) -> bool:
    """What a package object holds belongs to the package; an Elixir protocol is a module."""
    if definition.kind in _PACKAGE_KINDS:
        return True
    if language == "scala":
        return definition.kind == "object" and "package object " in definition.signature
    return language == "elixir" and definition.kind in ("module", "protocol")


def _is_top_level(definition: Definition, inside: set[str], own_types: Mapping[str, list[range]]) -> bool:
    """Also inside of a namespace; an extension function lies outside of the lines of the type it belongs to."""
    prefix = definition.qualified.removesuffix(definition.name)
    if not prefix or prefix in inside:
        return True
    return definition.kind in _EXTENDING and not any(
        definition.start_line in lines for lines in own_types.get(prefix, ())
    )


def _stale(known: Graph | None, files: Mapping[str, FileFacts], changed: Sequence[CodeFile]) -> set[str]:
    """The files whose links must be computed again."""
    if known is None:
        return set(files)
    came = {file.path for file in changed if file.path not in known.files}
    went = {path for path in known.files if path not in files}
    reread = {file.path for file in changed} - came
    if any(is_config(path) for path in (*came, *went, *reread)):
        return set(files)
    moved = {family(files[path].language) for path in came} | {family(known.files[path].language) for path in went}
    for path in reread:
        now, before = files[path], known.files[path]
        if now.language in BY_NAME and (now.exports, now.packages) != (before.exports, before.packages):
            moved.add(family(now.language))
    moved = {resolved_with(language) for language in moved}
    return {p for p, one in files.items() if p in reread or resolved_with(family(one.language)) in moved}


def resolved_with(language: str) -> str:
    """Languages that import each other's files change together."""
    if language in {"javascript", "typescript", "tsx", "vue", "svelte", "json"}:
        return "ecmascript"
    return "c" if language == "cpp" else language


def _links(files: Sequence[FileFacts], tree: Tree, facts: CodeFacts) -> dict[str, Links]:
    imports: dict[int, list[Import]] = {}
    everything = len(files) == len(tree.files)
    for file_id, written in facts.imports(None if everything else [file.file_id for file in files]):
        imports.setdefault(file_id, []).append(written)
    by_name = [file.file_id for file in files if file.language in BY_NAME]
    packed = dict(facts.references(by_name))
    resolver = Resolver(tree)
    links = {}
    for file in files:
        one = FileImports(file, tuple(imports.get(file.file_id, ())))
        found = resolver.links(one, lambda used: used_names(used, packed.get(used.facts.file_id, b"")))
        if found.edges or found.loose:
            links[file.path] = found
    return links


def used_names(file: FileImports, packed: bytes) -> Mapping[str, int]:
    """The names that tell which files are needed: in Elixir those of modules, which are written in full."""
    if file.facts.language == "elixir":
        return dotted_names(unpacked(packed))
    packages = {go.local_name(written) for written in file.imports} if file.facts.language == "go" else ()
    return UsedNames(packed, {written.line for written in file.imports}, packages)


def _config(root: Path, path: str) -> str:
    """A configuration that cannot be read says nothing: its imports then count as unresolved."""
    try:
        with open(root / path, encoding="utf-8", errors="replace") as source:
            return source.read(MAX_CONFIG_BYTES)
    except OSError:
        return ""
