"""Imports to edges: what each import of a file leads to, and which files of its package it uses without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codeinfo.graph.facts import Edge, FileFacts, FileImports, Links, Loose, Outcome
from codeinfo.graph.languages import IMPORTS, Imports
from codeinfo.graph.tree import Tree
from codeinfo.types import Import

Uses = Callable[[FileFacts], Mapping[str, int]]  # the names a file uses, each with the first line that has it

# Here an import names a whole package, or none is needed: which of its files are meant, only the names used tell.
BY_NAME = frozenset({"go", "java", "kotlin", "scala", "csharp", "php", "swift"})


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
        for edge in self._implicit(source, used, edges):
            edges.setdefault(edge.target, edge)
        edges.pop(source.path, None)
        return Links(tuple(edges.values()), tuple(loose.values()))

    def _edges(self, source: FileFacts, written: Import, outcome: Outcome, used: Mapping[str, int]) -> list[Edge]:
        edges = [Edge(source.path, target.path, written.line, target.names) for target in outcome.targets]
        if not outcome.package:
            return edges
        needed = []
        for edge in edges:
            names = tuple(name for name in self.tree.files[edge.target].exports if name in used)
            if names:
                needed.append(edge._replace(names=names))
        return needed or edges

    def _implicit(self, source: FileFacts, used: Mapping[str, int], known: Mapping[str, Edge]) -> list[Edge]:
        edges = []
        own = set(source.exports)
        for path in dict.fromkeys(self.visible(source)) if used else ():
            if path == source.path or path in known:
                continue
            names = tuple(name for name in self.tree.files[path].exports if name in used and name not in own)
            if names:
                line = min(used[name] for name in names)
                edges.append(Edge(source.path, path, line, names, implicit=True))
        return edges


def _add(edges: dict[str, Edge], edge: Edge) -> None:
    """One edge for each pair of files: the first line, all the names."""
    known = edges.get(edge.target)
    if known is not None:
        edge = known._replace(names=tuple(dict.fromkeys((*known.names, *edge.names))))
    edges[edge.target] = edge
