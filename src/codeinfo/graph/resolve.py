"""Imports to edges: what each import of a file leads to, and which files of its package it uses without one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from codeinfo.graph.facts import Edge, FileImports, Links, Loose
from codeinfo.languages import go
from codeinfo.languages.resolvers import IMPORTS, Imports
from codeinfo.languages.tree import FileFacts, Outcome, Tree, nearest_all
from codeinfo.types import Import

Uses = Callable[[FileImports], Mapping[str, int]]  # the names a file uses, each with the first line that has it

# Here an import names a whole package, or none is needed: which of its files are meant, only the names used tell.
BY_NAME = frozenset({"go", "java", "kotlin", "scala", "csharp", "php", "swift", "elixir"})

# Here what stands behind the last dot of an import is known by that name, and a package has types and few functions,
# so that a name in small letters is a member of something.
_IMPORTS_BIND = frozenset({"java", "kotlin", "scala", "php", "elixir"})
_CAPITALISED = frozenset({"scala", "php"})
_LAST_PART = re.compile(r"[.\\]")


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
        open_names = _OpenNames(uses(file) if source.language in BY_NAME else {}, _settled(file), source.language)
        edges: dict[str, Edge] = {}
        loose: dict[tuple[str, int], Loose] = {}
        for written in file.imports:
            outcome = self.outcome(source, written)
            if outcome.status != "internal":
                loose[written.module, written.line] = Loose(written.module, written.line, outcome.status == "external")
                continue
            for edge in self._edges(source, written, outcome, open_names):
                _add(edges, edge)
        implicit = self._in_full if source.language == "elixir" else self._implicit
        for edge in implicit(source, open_names):
            edges.setdefault(edge.target, edge)
        edges.pop(source.path, None)
        return Links(tuple(edges.values()), tuple(loose.values()))

    def _edges(self, source: FileFacts, written: Import, outcome: Outcome, names: _OpenNames) -> list[Edge]:
        edges = [Edge(source.path, target.path, written.line, target.names) for target in outcome.targets]
        if not outcome.package:
            return edges
        meant = names.of_package(go.local_name(written)) if source.language == "go" else names.open
        taken = self._taken(source, [edge.target for edge in edges], meant)
        needed = [edge._replace(names=taken[edge.target]) for edge in edges if edge.target in taken]
        # Go allows an unused import for its effects only; elsewhere one that no name follows from needs no file.
        return edges if not needed and source.language == "go" else needed

    def _implicit(self, source: FileFacts, names: _OpenNames) -> list[Edge]:
        visible = [path for path in dict.fromkeys(self.visible(source)) if path != source.path] if names.used else []
        return [
            Edge(source.path, path, min(names.used[name] for name in listed), listed, implicit=True)
            for path, listed in self._taken(source, visible, names.open).items()
        ]

    def _in_full(self, source: FileFacts, names: _OpenNames) -> list[Edge]:
        """Modules that are used by their whole name, which needs no import."""
        return [
            Edge(source.path, path, line, (name,), implicit=True)
            for name, line in names.used.items()
            if name in names.open
            for path in self.tree.by_package.get((source.language, name), ())
        ]

    def _taken(self, source: FileFacts, paths: Sequence[str], names: frozenset[str]) -> dict[str, tuple[str, ...]]:
        """What is used of each file. Where several define a name, as two programs of one repository may, those nearest
        to the source are meant."""
        definers: dict[str, list[str]] = {}
        for path in paths:
            for name in self.tree.files[path].exports:
                if name in names:
                    definers.setdefault(name, []).append(path)
        taken: dict[str, list[str]] = {}
        for name, files in definers.items():
            for path in nearest_all(files, source.folder):
                taken.setdefault(path, []).append(name)
        return {path: tuple(listed) for path, listed in taken.items()}


class _OpenNames:
    """The names a file uses of which only the packages it sees tell what they mean."""

    def __init__(self, used: Mapping[str, int], settled: frozenset[str], language: str) -> None:
        self.used = used
        small = language in _CAPITALISED
        self.open = frozenset(name for name in used if name not in settled and not (small and name[:1].islower()))

    def of_package(self, package: str) -> frozenset[str]:
        """Go writes a name of another package behind that package's, and exports only what has a capital."""
        behind = f"{package}."
        return frozenset(n for name in self.used if (n := name.removeprefix(behind))[:1].isupper())


def _settled(file: FileImports) -> frozenset[str]:
    """Names that the file defines itself or that an import gives to something certain."""
    bound = {*file.facts.exports, *file.facts.hidden}
    for written in file.imports:
        if written.alias:
            bound.add(written.alias)
        elif written.names:
            bound.update(written.names)
        elif file.facts.language in _IMPORTS_BIND:
            bound.add(_LAST_PART.split(written.module)[-1])
    return frozenset(bound)


def _add(edges: dict[str, Edge], edge: Edge) -> None:
    """One edge for each pair of files: the first line, all the names."""
    known = edges.get(edge.target)
    if known is not None:
        edge = known._replace(names=tuple(dict.fromkeys((*known.names, *edge.names))))
    edges[edge.target] = edge
