"""The graph of one generation of an index, and its form on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import fields

from codeinfo.graph.facts import Edge, Links, Loose
from codeinfo.graph.rank import centrality
from codeinfo.languages.tree import FileFacts

_TEST_MARK = re.compile(r"^tests?_|_?(?:tests?|specs?|it)$")

FORMAT = 3  # raise when the form on disk or what the facts mean changes


class Graph(Struct, frozen=True, dict=True):
    generation: int
    files: Mapping[str, FileFacts]
    links: Mapping[str, Links]  # only files that have any

    @cached_property
    def importers(self) -> Mapping[str, tuple[Edge, ...]]:
        """Edges by their target, those from important files first."""
        into: dict[str, list[Edge]] = {}
        for links in self.links.values():
            for edge in links.edges:
                into.setdefault(edge.target, []).append(edge)
        weight = self.centrality
        return {
            path: tuple(sorted(edges, key=lambda edge: (edge.implicit, -weight.get(edge.source, 0), edge.source)))
            for path, edges in into.items()
        }

    @cached_property
    def sources(self) -> Mapping[str, list[str]]:
        """The files that need a file, in no order: quicker than `importers`."""
        found: dict[str, list[str]] = {}
        for path, links in self.links.items():
            for edge in links.edges:
                found.setdefault(edge.target, []).append(path)
        return found

    @cached_property
    def centrality(self) -> Mapping[str, float]:
        return centrality(list(self.files), [edge for links in self.links.values() for edge in links.edges])

    @cached_property
    def tests(self) -> frozenset[str]:
        """The paths of test files."""
        return frozenset(path for path, facts in self.files.items() if facts.is_test)

    @cached_property
    def tests_by_stem(self) -> Mapping[str, list[str]]:
        """Test files by what they are called after, in lower case: `test_pool.py`, `pool_test.go`, `PoolTests.java`."""
        found: dict[str, list[str]] = {}
        for path, facts in self.files.items():
            if facts.is_test:
                stem = path.rpartition("/")[2].partition(".")[0].lower()
                subject = _TEST_MARK.sub("", stem)
                if subject != stem or "." in path.rpartition("/")[2].removesuffix(".py"):
                    found.setdefault(subject, []).append(path)
        return found

    def edges_from(self, path: str) -> tuple[Edge, ...]:
        links = self.links.get(path)
        return links.edges if links else ()

    def edges_to(self, path: str) -> tuple[Edge, ...]:
        return self.importers.get(path, ())

    @cached_property
    def edge_count(self) -> int:
        return sum(len(links.edges) for links in self.links.values())

    @property
    def loose(self) -> tuple[int, int]:
        """How many imports lead outside, and how many should lead to a file here but do not."""
        all_loose = [loose for links in self.links.values() for loose in links.loose]
        external = sum(loose.external for loose in all_loose)
        return external, len(all_loose) - external


_FACT_FIELDS = tuple(item.name for item in fields(FileFacts))


def dumps(graph: Graph) -> bytes:
    """Paths are written once; edges name them by position."""
    position = {path: number for number, path in enumerate(graph.files)}
    rows = []
    for path, facts in graph.files.items():
        links = graph.links.get(path, Links())
        edges = [(position[e.target], e.line, e.names, int(e.implicit)) for e in links.edges if e.target in position]
        loose = [(item.module, item.line, int(item.external)) for item in links.loose]
        rows.append(([getattr(facts, name) for name in _FACT_FIELDS], edges, loose))
    return json.dumps([FORMAT, graph.generation, rows], separators=(",", ":")).encode("utf-8", "surrogatepass")


def loads(data: bytes) -> Graph | None:
    """The graph, or None when the bytes are of another format or damaged: it is then built again."""
    try:
        version, generation, rows = json.loads(data)
        if version != FORMAT:
            return None
        paths = [facts[1] for facts, _, _ in rows]
        files, links = {}, {}
        for facts, edges, loose in rows:
            file_id, path, language, kind, packages, exports, inline, hidden = facts
            spans = tuple((first, last) for first, last in inline)
            files[path] = FileFacts(
                file_id, path, language, kind, tuple(packages), tuple(exports), spans, tuple(hidden)
            )
            if edges or loose:
                links[path] = Links(
                    tuple(
                        Edge(path, paths[to], line, tuple(names), bool(implicit)) for to, line, names, implicit in edges
                    ),
                    tuple(Loose(module, line, bool(external)) for module, line, external in loose),
                )
    except (ValueError, TypeError, IndexError, KeyError):
        return None
    return Graph(generation, files, links)
