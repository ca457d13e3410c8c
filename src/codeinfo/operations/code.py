"""Code: symbols, references, and the graph of files.

A symbol's id is `path::Qualified.name`. Commands that take a NAME accept a plain name, a qualified one
(`Class.method`), or an id.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from codeinfo.model import RelatedMemory
from codeinfo.operations.base import FILE, PROJECT, Arg, Limit, Opt, Refresh, Revision, Texts, registry

OPERATIONS, _operation, _ = registry(group="code", section="Code")

NAME_HELP = "A name, `Class.method`, a full name, or `path::Name` where several files define it."


Folder = Annotated[str, Arg("The folder or file to look in; the whole project you are in by default.", names=PROJECT)]
Root = Annotated[str, Opt("The file's project; found from the file by default.", metavar="FOLDER", names=PROJECT)]


# --- symbols ---------------------------------------------------------------------------------------------------------


class SymbolInfo(Struct, frozen=True):
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


class SymbolList(Struct, frozen=True):
    path: str
    total: int
    symbols: tuple[SymbolInfo, ...]
    is_complete: bool  # False when the limit or a file without a syntax tree left something out
    notes: tuple[str, ...] = ()


@_operation("symbols", SymbolList, "code.symbols")
class SymbolsRequest(Struct, frozen=True):
    """List what a file or folder defines."""

    path: Annotated[str, Arg("The file, or a folder for all files below it.", names=FILE)]
    kinds: Annotated[Texts, Opt("Only definitions of this kind: function, class, method…", short="k")] = ()
    limit: Annotated[int, Opt("At most this many results.", short="n", minimum=1, maximum=200)] = 50
    root: Root = ""
    refresh: Refresh = True


class DefinitionList(Struct, frozen=True):
    name: str
    total: int
    definitions: tuple[SymbolInfo, ...]
    is_complete: bool


@_operation("defs", DefinitionList, "code.definitions")
class DefsRequest(Struct, frozen=True):
    """Show where a name is defined."""

    name: Annotated[str, Arg(NAME_HELP)]
    path: Folder = ""
    limit: Limit = 20
    refresh: Refresh = True
    at: Revision = ""


# --- references ------------------------------------------------------------------------------------------------------


class Usage(Struct, frozen=True):
    """One use. `confidence` is `compiler` (an `index.scip` or a language server says so), `resolved` (scopes, imports
    and types lead from it to `definition`) or `syntactic` (only the name matches)."""

    file: str
    line: int
    preview: str
    edge: str  # CALLS, IMPORTS, EXPORTS, EXTENDS, IMPLEMENTS, REFERENCES_TYPE or REFERENCES
    confidence: str
    within: str = ""  # the definition around it
    definition: str = ""  # id of the definition; "" where it is unknown


class ReferenceReport(Struct, frozen=True):
    symbol: str
    usage_count: int  # all of them, including those beyond the limit
    usages: tuple[Usage, ...]
    confidence: str  # the lowest of the usages
    is_complete: bool  # False when a file could not be read, or the limit left some out
    definitions: tuple[SymbolInfo, ...] = ()
    resolved_count: int = 0  # compiler or resolved
    compiler_count: int = 0
    unattributed: int = 0  # uses of the same name that may mean another definition of it
    file_count: int = 0
    notes: tuple[str, ...] = ()


@_operation("refs", ReferenceReport, "code.references")
class RefsRequest(Struct, frozen=True):
    """Show where a name is used.

    Found in the syntax, never in comments or strings. `compiler`: an index.scip in the project or a language server
    (`code.language_servers`) says so; `resolved`: scopes, imports and types lead to the definition; `syntactic`: only
    the name matches.
    """

    name: Annotated[str, Arg(f"{NAME_HELP} The path of a file, to see what imports it or renders it.")]
    path: Folder = ""
    limit: Limit = 50
    refresh: Refresh = True
    at: Revision = ""


class CodeEdge(Struct, frozen=True):
    """`source` and `target` are ids, or paths for whole files."""

    source: str
    target: str
    kind: str  # DEFINES, CALLS, EXTENDS, IMPLEMENTS, REFERENCES_TYPE
    path: str
    line: int
    confidence: str


class CallGraph(Struct, frozen=True):
    symbol: str
    definitions: tuple[SymbolInfo, ...]
    callers: tuple[CodeEdge, ...]
    callees: tuple[CodeEdge, ...]
    related: tuple[CodeEdge, ...]  # DEFINES, EXTENDS, IMPLEMENTS of the symbol itself
    is_complete: bool
    unattributed: int = 0  # more calls by this name: they may mean this or another definition
    unattributed_callees: int = 0  # calls that it makes to something of this codebase, none knows to what
    notes: tuple[str, ...] = ()


@_operation("calls", CallGraph, "code.calls")
class CallsRequest(Struct, frozen=True):
    """Show who calls a definition and what it calls.

    Calls that may mean this or another definition of the name are counted, not claimed.
    """

    name: Annotated[str, Arg(NAME_HELP)]
    path: Folder = ""
    depth: Annotated[int, Opt("How many calls away to look, in both directions.", short="d", minimum=1, maximum=5)] = 1
    limit: Limit = 100
    refresh: Refresh = True
    at: Revision = ""


# --- explore ---------------------------------------------------------------------------------------------------------


class Exploration(Struct, frozen=True):
    """One symbol or file and what surrounds it. Uses read `path:line within`, commits `hash date subject`."""

    target: str
    kind: str  # "symbol" or "file"
    place: str  # of the first definition, `path:start-end`, or the file
    definitions: tuple[SymbolInfo, ...]  # all definitions of the name, or what the file defines
    code: str = ""  # text of the first definition, or a part of it
    code_line: int = 0  # of its first line
    callers: tuple[str, ...] = ()  # code that uses it; for a file, those that import it
    callees: tuple[str, ...] = ()  # ids of what it calls; for a file, what it imports
    tests: tuple[str, ...] = ()
    history: tuple[str, ...] = ()  # newest commits that changed these lines, or the file
    memories: tuple[RelatedMemory, ...] = ()
    totals: dict[str, int] = field(default_factory=dict)  # of each list that was cut
    notes: tuple[str, ...] = ()


@_operation("explore", Exploration, "knowledge.explore")
class ExploreRequest(Struct, frozen=True):
    """Show a symbol, file or place with its surroundings.

    Definition, callers, callees, tests, commits and memories at once.
    """

    target: Annotated[str, Arg("A name, `Class.method`, a full name, `path::Name`, a file, or FILE:LINE.")]
    path: Folder = ""
    limit: Annotated[int, Opt("At most this many of each kind.", short="n", minimum=1, maximum=100)] = 8


# --- files -----------------------------------------------------------------------------------------------------------


class ImportInfo(Struct, frozen=True):
    module: str
    line: int
    names: tuple[str, ...]
    status: str  # internal, external, unresolved, or package: used without an import
    targets: tuple[str, ...] = ()


class Neighbour(Struct, frozen=True):
    path: str
    line: int
    names: tuple[str, ...] = ()
    implicit: bool = False  # without an import: both belong to one package


class ModuleImports(Struct, frozen=True):
    path: str
    language: str
    imports: tuple[ImportInfo, ...]
    imported_by: tuple[Neighbour, ...]
    imported_by_count: int
    tests: tuple[str, ...]
    centrality: float
    is_complete: bool
    notes: tuple[str, ...] = ()


@_operation("imports", ModuleImports, "code.imports")
class ImportsRequest(Struct, frozen=True):
    """Show what a file imports and who imports it.

    Each import is resolved to a file, external, or counted as unresolved.
    """

    path: Annotated[str, Arg("The file.", names=FILE)]
    limit: Limit = 200
    root: Root = ""
    refresh: Refresh = True


# --- map -------------------------------------------------------------------------------------------------------------


class MapFile(Struct, frozen=True):
    path: str
    centrality: float
    imported_by: int
    imports: int


class MapArea(Struct, frozen=True):
    """A folder; its layer is 0 where it needs nothing of the codebase but what needs it."""

    name: str
    layer: int
    files: int
    centrality: float
    needs: dict[str, int] = field(default_factory=dict)  # area → imports
    in_cycle: bool = False


class CodeMap(Struct, frozen=True):
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
    area_files: tuple[MapFile, ...] = ()  # of the area that was asked for, the most central first
    notes: tuple[str, ...] = ()


@_operation("map", CodeMap, "code.map")
class MapRequest(Struct, frozen=True):
    """Show the codebase at a glance: entry points, hubs, layers, key types, hotspots.

    As text, as JSON, or drawn: `codeinfo map --format svg > map.svg`.
    """

    path: Folder = ""
    format: Annotated[str, Opt("How to draw it.", short="f", choices=("text", "svg", "mermaid"))] = "text"
    limit: Annotated[int, Opt("At most this many of each kind.", short="n", minimum=3, maximum=100)] = 12
    area: Annotated[str, Opt("List the files of this area, by its name on the map.", metavar="AREA")] = ""
    refresh: Refresh = True


# --- cycles, impact, hotspots, unused ---------------------------------------------------------------------------------


class CycleInfo(Struct, frozen=True):
    severity: str  # two files high, three medium, more low, and so is one that is not closed while files are loaded
    files: tuple[str, ...]
    lines: tuple[int, ...]  # where each file imports the next
    timing: str = ""  # lazy: an import that loads nothing yet closes it; types: one that only a compiler reads


class CycleReport(Struct, frozen=True):
    total: int
    cycles: tuple[CycleInfo, ...]
    groups: tuple[tuple[str, ...], ...]  # files that all reach each other
    files: int
    edges: int
    external: int  # imports of other codebases
    unresolved: int  # imports of this codebase whose file was not found
    is_complete: bool
    lazy: int = 0  # more cycles, closed by an import inside of a function
    types: int = 0  # more cycles, closed by an import that only a compiler or type checker reads
    notes: tuple[str, ...] = ()


@_operation("cycles", CycleReport, "code.cycles")
class CyclesRequest(Struct, frozen=True):
    """Find import cycles between files.

    Lists cycles of imports that run while files are loaded. Cycles that need an import inside a function, or one that
    only a compiler reads, are counted; `--deferred` lists them too.
    """

    path: Folder = ""
    limit: Limit = 50
    refresh: Refresh = True
    deferred: Annotated[bool, Opt("Also list cycles that need a lazy import, or one that only a compiler reads.")] = (
        False
    )


class Affected(Struct, frozen=True):
    """A file that uses what another one offers. Files that only pass names on are followed and not listed."""

    path: str
    line: int  # where it imports `via`
    via: str
    hops: int
    is_test: bool = False
    timing: str = ""  # lazy: imported inside of a function; types: only a compiler reads it


class ImpactReport(Struct, frozen=True):
    path: str
    total: int
    files: tuple[Affected, ...]
    tests: tuple[str, ...]
    is_complete: bool
    notes: tuple[str, ...] = ()


@_operation("impact", ImpactReport, "code.impact")
class ImpactRequest(Struct, frozen=True):
    """Show what a change to a file may affect."""

    path: Annotated[str, Arg("The file to be changed.", names=FILE)]
    hops: Annotated[int, Opt("How many imports away to look.", minimum=1, maximum=10)] = 2
    limit: Limit = 20
    root: Root = ""
    refresh: Refresh = True


class Hotspot(Struct, frozen=True):
    """`score` is commits × lines, relative to the worst: large files that change often."""

    path: str
    commits: int
    lines: int
    definitions: int
    authors: int
    score: float


class HotspotReport(Struct, frozen=True):
    total: int
    hotspots: tuple[Hotspot, ...]
    days: int
    commits: int
    notes: tuple[str, ...] = ()


@_operation("hotspots", HotspotReport, "code.hotspots")
class HotspotsRequest(Struct, frozen=True):
    """Find large files that change often.

    From the git history: commits × lines.
    """

    path: Folder = ""
    days: Annotated[int, Opt("Look back this many days from the last commit.", minimum=1, maximum=36500)] = 365
    limit: Limit = 20
    refresh: Refresh = True


class UnusedSymbol(Struct, frozen=True):
    symbol: SymbolInfo
    used_here: bool  # only its own file uses it: it need not be exported


class UnusedReport(Struct, frozen=True):
    total: int
    symbols: tuple[UnusedSymbol, ...]
    examined: int  # exported definitions checked
    is_complete: bool
    own_file: int = 0  # more that only their own file uses
    notes: tuple[str, ...] = ()


@_operation("unused", UnusedReport, "code.unused")
class UnusedRequest(Struct, frozen=True):
    """Find exported definitions that nothing uses.

    Those that only their own file uses are counted, and listed on request.
    """

    path: Folder = ""
    limit: Limit = 50
    refresh: Refresh = True
    own_file: Annotated[bool, Opt("Also list those that only their own file uses: they need not be exported.")] = False
