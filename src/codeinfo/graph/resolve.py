"""Imports to edges: what each import of a file leads to, and which files of its package it uses without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from codeinfo.graph.facts import Edge, FileFacts, FileImports, Links, Loose, Outcome
from codeinfo.graph.languages import IMPORTS, Imports
from codeinfo.graph.tree import Tree, nearest_all
from codeinfo.types import Import

Uses = Callable[[FileFacts], Mapping[str, int]]  # the names a file uses, each with the first line that has it

# Here an import names a whole package, or none is needed: which of its files are meant, only the names used tell.
BY_NAME = frozenset({"go", "java", "kotlin", "scala", "csharp", "php", "swift", "elixir"})


class Resolver:
    """Resolves the imports of one codebase. What a language needs for it is prepared when its first file comes."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._languages: dict[Callable[[Tree], Imports], Imports] = {}

    def _imports(self, language: str) -> Imports | None:
        make = IMPORTS.get(language)
        if make is None:
            return None
        if make not in self._languages:
            self._languages[make] = make(self.tree)
        return self._languages[make]

    def outcome(self, source: FileFacts, written: Import) -> Outcome:
        imports = self._imports(source.language)
        return imports.resolve(source, written) if imports else Outcome()

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        """Files whose names the source may use without an import."""
        imports = self._imports(source.language)
        return imports.visible(source) if imports else ()

    def links(self, file: FileImports, uses: Uses) -> Links:
        source = file.facts
        if self._imports(source.language) is None:
            return Links()
        used = uses(source) if source.language in BY_NAME else {}
        edges: dict[str, Edge] = {}
        loose: dict[tuple[str, int], Loose] = {}
        for written in file.imports:
            outcome = self.outcome(source, written)
            if outcome.status != "internal":
                loose[written.module, written.line] = Loose(written.module, written.line, outcome.status == "external")
                continue
            for edge in self._edges(source, written, outcome, used):
                _add(edges, edge)
        for edge in self._in_full(source, used) if source.language == "elixir" else self._implicit(source, used, edges):
            edges.setdefault(edge.target, edge)
        edges.pop(source.path, None)
        return Links(tuple(edges.values()), tuple(loose.values()))

    def _edges(self, source: FileFacts, written: Import, outcome: Outcome, used: Mapping[str, int]) -> list[Edge]:
        edges = [Edge(source.path, target.path, written.line, target.names) for target in outcome.targets]
        if not outcome.package:
            return edges
        taken = self._taken(source, [edge.target for edge in edges], used)
        needed = [edge._replace(names=taken[edge.target]) for edge in edges if edge.target in taken]
        # Go allows an unused import for its effects only; elsewhere one that no name follows from needs no file.
        return edges if not needed and source.language == "go" else needed

    def _implicit(self, source: FileFacts, used: Mapping[str, int], known: Mapping[str, Edge]) -> list[Edge]:
        visible = [path for path in dict.fromkeys(self.visible(source)) if path != source.path] if used else []
        own = set(source.exports)
        edges = []
        for path, listed in self._taken(source, visible, used).items():
            names = tuple(name for name in listed if name not in own)
            if names and path not in known:
                line = min(used[name] for name in names)
                edges.append(Edge(source.path, path, line, names, implicit=True))
        return edges

    def _in_full(self, source: FileFacts, used: Mapping[str, int]) -> list[Edge]:
        """Modules that are used by their whole name, which needs no import."""
        found = ((name, line, self.tree.by_package.get((source.language, name), ())) for name, line in used.items())
        return [Edge(source.path, path, line, (name,), implicit=True) for name, line, paths in found for path in paths]

    def _taken(self, source: FileFacts, paths: Sequence[str], used: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
        """What is used of each file. Where several define a name, as two programs of one repository may, those nearest
        to the source are meant."""
        definers: dict[str, list[str]] = {}
        for path in paths:
            for name in self.tree.files[path].exports:
                if name in used:
                    definers.setdefault(name, []).append(path)
        taken: dict[str, list[str]] = {}
        for name, files in definers.items():
            for path in nearest_all(files, source.folder):
                taken.setdefault(path, []).append(name)
        return {path: tuple(names) for path, names in taken.items()}


def _add(edges: dict[str, Edge], edge: Edge) -> None:
    """One edge for each pair of files: the first line, all the names."""
    known = edges.get(edge.target)
    if known is not None:
        edge = known._replace(names=tuple(dict.fromkeys((*known.names, *edge.names))))
    edges[edge.target] = edge
