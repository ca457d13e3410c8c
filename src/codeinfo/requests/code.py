"""Questions about code: symbols, references, and the graph of files.

A symbol's id is `path::Qualified.name`. Commands that take a NAME accept a plain name, a qualified one
(`Class.method`), or an id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from codeinfo.requests import _arg, _opt, _required

NAME_HELP = "A name, `Class.method`, or `path::Name` where several files define it."


def _folder() -> Any:
    return _arg(".", "The folder to work on; the current one unless named.")


def _root() -> Any:
    return _opt("", "The project the file belongs to; found from the file unless named.", metavar="FOLDER")


def _limit(default: int, maximum: int = 1000) -> Any:
    return _opt(default, "At most this many results.", short="n", minimum=1, maximum=maximum)


def _refresh() -> Any:
    return _opt(True, "Look for changed files first.")


# --- symbols -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    id: str
    name: str
    qualified: str
    kind: str
    path: str
    start_line: int
    end_line: int
    signature: str = ""
    doc: str = ""
    exported: bool = True
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SymbolsRequest:
    path: str = _required("The file, or a folder for all files below it.")
    kinds: tuple[str, ...] = _opt((), "Only such definitions: function, class, method…", short="k")
    limit: int = _limit(50, 200)
    root: str = _root()
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class SymbolList:
    path: str
    total: int
    symbols: tuple[SymbolInfo, ...]
    is_complete: bool  # False when the limit or a file without a syntax tree left something out
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DefsRequest:
    name: str = _required(NAME_HELP)
    path: str = _folder()
    limit: int = _limit(20)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class DefinitionList:
    name: str
    total: int
    definitions: tuple[SymbolInfo, ...]
    is_complete: bool


# --- references ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RefsRequest:
    name: str = _required(NAME_HELP)
    path: str = _folder()
    limit: int = _limit(50)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class Usage:
    """One use. `resolved`: scopes and imports lead from it to `definition`; `syntactic`: the name alone agrees."""

    file: str
    line: int
    preview: str
    edge: str  # CALLS, IMPORTS, EXPORTS, EXTENDS, IMPLEMENTS, REFERENCES_TYPE or REFERENCES
    confidence: str
    within: str = ""  # the definition around it
    definition: str = ""  # id of what is meant; "" where that cannot be told


@dataclass(frozen=True, slots=True)
class ReferenceReport:
    symbol: str
    usage_count: int  # all of them, also those beyond the limit
    usages: tuple[Usage, ...]
    confidence: str  # the least of those of the usages
    is_complete: bool  # False when a file could not be looked into, or the limit left some out
    definitions: tuple[SymbolInfo, ...] = ()
    resolved_count: int = 0
    unattributed: int = 0  # uses of the same name that may mean another definition of it
    file_count: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallsRequest:
    name: str = _required(NAME_HELP)
    path: str = _folder()
    depth: int = _opt(1, "How many calls away to look, in both directions.", short="d", minimum=1, maximum=5)
    limit: int = _limit(100)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class CodeEdge:
    """`source` and `target` are ids, or paths where a file as a whole is meant."""

    source: str
    target: str
    kind: str  # DEFINES, CALLS, EXTENDS, IMPLEMENTS, REFERENCES_TYPE
    path: str
    line: int
    confidence: str


@dataclass(frozen=True, slots=True)
class CallGraph:
    symbol: str
    definitions: tuple[SymbolInfo, ...]
    callers: tuple[CodeEdge, ...]
    callees: tuple[CodeEdge, ...]
    related: tuple[CodeEdge, ...]  # DEFINES, EXTENDS, IMPLEMENTS of the symbol itself
    is_complete: bool


# --- files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImportsRequest:
    path: str = _required("The file.")
    limit: int = _limit(200)
    root: str = _root()
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class ImportInfo:
    module: str
    line: int
    names: tuple[str, ...]
    status: str  # internal, external, unresolved, or package: used without an import
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbour:
    path: str
    line: int
    names: tuple[str, ...] = ()
    implicit: bool = False  # without an import: both belong to one package


@dataclass(frozen=True, slots=True)
class ModuleImports:
    path: str
    language: str
    imports: tuple[ImportInfo, ...]
    imported_by: tuple[Neighbour, ...]
    imported_by_count: int
    tests: tuple[str, ...]
    centrality: float
    is_complete: bool


@dataclass(frozen=True, slots=True)
class CyclesRequest:
    path: str = _folder()
    limit: int = _limit(50)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class CycleInfo:
    severity: str  # two files high, three medium, more low
    files: tuple[str, ...]
    lines: tuple[int, ...]  # where each file imports the next


@dataclass(frozen=True, slots=True)
class CycleReport:
    total: int
    cycles: tuple[CycleInfo, ...]
    groups: tuple[tuple[str, ...], ...]  # files that all reach each other
    files: int
    edges: int
    external: int  # imports that lead out of this codebase
    unresolved: int  # imports that should lead to a file of it but do not
    is_complete: bool


@dataclass(frozen=True, slots=True)
class ImpactRequest:
    path: str = _required("The file that is to be changed.")
    hops: int = _opt(2, "How many imports away to look.", minimum=1, maximum=10)
    limit: int = _limit(20)
    root: str = _root()
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class Affected:
    path: str
    line: int  # where it needs `via`
    via: str
    hops: int
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class ImpactReport:
    path: str
    total: int
    files: tuple[Affected, ...]
    tests: tuple[str, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class HotspotsRequest:
    path: str = _folder()
    days: int = _opt(365, "Look back this many days.", minimum=1, maximum=36500)
    limit: int = _limit(20)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class Hotspot:
    """`score` is commits × lines, relative to the worst: large files that change often."""

    path: str
    commits: int
    added: int
    removed: int
    lines: int
    definitions: int
    authors: int
    score: float


@dataclass(frozen=True, slots=True)
class HotspotReport:
    total: int
    hotspots: tuple[Hotspot, ...]
    days: int
    commits: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnusedRequest:
    path: str = _folder()
    limit: int = _limit(50)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class UnusedSymbol:
    symbol: SymbolInfo
    used_here: bool  # its own file uses it: it need not be exported


@dataclass(frozen=True, slots=True)
class UnusedReport:
    total: int
    symbols: tuple[UnusedSymbol, ...]
    examined: int  # exported definitions looked at
    is_complete: bool
    notes: tuple[str, ...] = ()


# --- map -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MapRequest:
    path: str = _folder()
    format: str = _opt("text", "How to draw it.", short="f", choices=("text", "svg", "mermaid"))
    limit: int = _opt(12, "At most this many of each kind.", short="n", minimum=3, maximum=100)
    refresh: bool = _refresh()


@dataclass(frozen=True, slots=True)
class MapFile:
    path: str
    centrality: float
    imported_by: int
    imports: int


@dataclass(frozen=True, slots=True)
class MapArea:
    """A folder as one thing: its layer is 0 where nothing else of the codebase is needed."""

    name: str
    layer: int
    files: int
    centrality: float
    needs: dict[str, int] = field(default_factory=dict)  # area → imports
    in_cycle: bool = False


@dataclass(frozen=True, slots=True)
class CodeMap:
    root: str
    files: int
    edges: int
    languages: dict[str, int]
    entry_points: tuple[MapFile, ...]
    hubs: tuple[MapFile, ...]
    areas: tuple[MapArea, ...]
    interfaces: tuple[SymbolInfo, ...]  # the types that most others extend or use
    hotspots: tuple[Hotspot, ...]
    cycles: int
    external: int
    unresolved: int
    picture: str = ""  # SVG or Mermaid, when asked for
    notes: tuple[str, ...] = ()
