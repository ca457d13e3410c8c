"""Answers about code for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codeinfo.operations import code as requests
from codeinfo.shells.paper import Paper, Span, counted

SEVERITIES = {"high": "bold red", "medium": "yellow", "low": ""}
BAR = 8  # characters
KIND = 11  # characters; "interface " and the like


def render(result: Any, paper: Paper, *, explain: bool = False) -> None:
    _RENDERERS[type(result)](result, paper)


def _place(path: str, line: int) -> tuple[str, str]:
    return (f"{path}:{line}", "bold cyan")


def _more(shown: int, total: int, paper: Paper) -> None:
    if shown < total:
        paper.line((f"… {total - shown} more; raise --limit to see them", "dim"))


def _notes(notes: Sequence[str], paper: Paper) -> None:
    for note in notes:
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)


def _symbols(result: requests.SymbolList, paper: Paper) -> None:
    path = ""
    for symbol in result.symbols:
        if symbol.path != path:
            path = symbol.path
            paper.line((path, "bold cyan"))
        written = "  " * symbol.qualified.count(".") + (symbol.signature or symbol.name)
        mark: Span = " " if symbol.exported else ("·", "dim")
        spans: list[Span] = [(f"{symbol.start_line:>6} ", "dim"), mark, (f"{symbol.kind:<{KIND}}", "magenta"), written]
        paper.wrapped(*spans, hang=12 + KIND, least=8 + KIND)
        if symbol.doc:
            paper.line(" " * (8 + KIND), (paper.fitted(symbol.doc, 8 + KIND), "dim"))
    _more(len(result.symbols), result.total, paper)
    if not result.total:
        paper.line(("Nothing is defined there.", "bold"))
    _notes(result.notes, paper)


def _definitions(result: requests.DefinitionList, paper: Paper) -> None:
    for symbol in result.definitions:
        paper.line(_place(symbol.path, symbol.start_line), "  ", (symbol.kind, "magenta"), f"  {symbol.qualified}")
        paper.line("    ", symbol.signature)
        if symbol.doc:
            paper.line("    ", (symbol.doc, "dim"))
    _more(len(result.definitions), result.total, paper)


def _references(result: requests.ReferenceReport, paper: Paper) -> None:
    paper.table([(("defined", "dim"), *_definition(symbol)) for symbol in result.definitions], indent=0)
    file = ""
    for usage in sorted(result.usages, key=lambda usage: (usage.file, usage.line)):
        if usage.file != file:
            file = usage.file
            paper.line((file, "bold cyan"))
        unsure: Span = (" ", "") if usage.confidence == "resolved" else ("?", "yellow")
        edge = f" {usage.edge.lower():<15} "
        paper.line((f"{usage.line:>7} ", "dim"), unsure, (edge, "magenta"), paper.fitted(usage.preview, 9 + len(edge)))
    _more(len(result.usages), result.usage_count, paper)
    syntactic = result.usage_count - result.resolved_count
    found = f"{counted(result.usage_count, 'use')} in {counted(result.file_count, 'file')}"
    found += f": {result.resolved_count} resolved, {syntactic} by name only"
    paper.line((found, "dim"), ("" if result.is_complete else ", not complete", "yellow"))
    _notes(result.notes, paper)


def _definition(symbol: requests.SymbolInfo) -> tuple[Span, ...]:
    return _place(symbol.path, symbol.start_line), (symbol.kind, "magenta"), symbol.qualified


def _calls(result: requests.CallGraph, paper: Paper) -> None:
    paper.table([_definition(symbol) for symbol in result.definitions], indent=0)
    for title, edges, end in (("called by", result.callers, "source"), ("calls", result.callees, "target")):
        paper.line((f"{title} ({len(edges)})", "bold"))
        paper.table([_call_row(edge, getattr(edge, end)) for edge in edges])
    heritage = [edge for edge in result.related if edge.kind in ("EXTENDS", "IMPLEMENTS")]
    for edge in heritage:
        paper.line((edge.kind.lower(), "bold"), f"  {edge.target}")
    if not result.is_complete:
        paper.line(("not complete: raise --limit to see all", "yellow"))


def _call_row(edge: requests.CodeEdge, other: str) -> tuple[Span, ...]:
    """Where the call stands and the other end of it, without the file where that is the same."""
    unsure: Span = " " if edge.confidence == "resolved" else ("?", "yellow")
    kind = "" if edge.kind == "CALLS" else f"  ({edge.kind.lower().replace('_', ' ')})"
    return unsure, (f"{edge.path}:{edge.line}", "dim"), other.removeprefix(f"{edge.path}::") + kind


def _imports(result: requests.ModuleImports, paper: Paper) -> None:
    centrality = f"centrality {result.centrality:.2f}"
    paper.line((result.path, "bold cyan"), (f"  {result.language}, {centrality}", "dim"))
    paper.line((f"imports ({len(result.imports)})", "bold"))
    styles = {"internal": "green", "package": "green", "unresolved": "red"}
    for item in result.imports:
        names = ", ".join(item.names)
        written = item.module or "(same package)"
        spans: list[Span] = [(f"{item.line:>6}  ", "dim"), written + (f": {names}" if names else "")]
        leads = ", ".join(item.targets) or item.status
        paper.wrapped(*spans, "  → ", (leads, styles.get(item.status, "dim")), hang=10)
    paper.line((f"imported by ({result.imported_by_count})", "bold"))
    paper.table([(_place(item.path, item.line), ", ".join(item.names)) for item in result.imported_by])
    if result.tests:
        paper.wrapped(("tests  ", "bold"), ", ".join(result.tests), hang=7)


def _cycles(result: requests.CycleReport, paper: Paper) -> None:
    for cycle in result.cycles:
        paper.line((f"{cycle.severity:<7}", SEVERITIES[cycle.severity]), counted(len(cycle.files), "file"))
        for path, line in zip(cycle.files, cycle.lines, strict=True):
            paper.line("    ", _place(path, line), " →")
        paper.line("    ", (cycle.files[0], "dim"))
    _more(len(result.cycles), result.total, paper)
    seen = f"{counted(result.files, 'file')}, {counted(result.edges, 'import')}, {result.external} lead outside"
    state = "bold red" if result.total else "green"
    paper.line((counted(result.total, "cycle"), state), (f"  {seen}, {result.unresolved} unresolved", "dim"))


def _impact(result: requests.ImpactReport, paper: Paper) -> None:
    paper.line((result.path, "bold cyan"), f"  a change may affect {counted(result.total, 'file')}")
    rows: list[tuple[Span, ...]] = []
    for item in result.files:
        place, style = _place(item.path, item.line)
        through = "" if item.via == result.path else f"through {item.via}"  # the nearest need the file itself
        mark: Span = ("test", "green") if item.is_test else "    "
        rows.append((mark, ("  " * (item.hops - 1) + place, style), (through, "dim")))
    paper.table(rows)
    _more(len(result.files), result.total, paper)
    if result.tests:
        paper.wrapped(("tests to run  ", "bold"), ", ".join(result.tests), hang=14)


def _hotspots(result: requests.HotspotReport, paper: Paper) -> None:
    paper.table([_hot_row(item) for item in result.hotspots])
    _more(len(result.hotspots), result.total, paper)
    paper.line((f"{result.commits} commits in {result.days} days; score is commits × lines", "dim"))
    _notes(result.notes, paper)


def _hot_row(item: requests.Hotspot) -> tuple[Span, ...]:
    bar = "█" * max(1, round(BAR * item.score))
    told = f"{counted(item.commits, 'commit')} by {item.authors}, +{item.added} −{item.removed}"
    return ((f"{bar:<{BAR}}", "red"), (item.path, "bold cyan"), (f"{told}, {counted(item.lines, 'line')}", "dim"))


def _unused(result: requests.UnusedReport, paper: Paper) -> None:
    path = ""
    for item in result.symbols:
        symbol = item.symbol
        if symbol.path != path:
            path = symbol.path
            paper.line((path, "bold cyan"))
        used = "  used in its own file only" if item.used_here else ""
        paper.line((f"{symbol.start_line:>6}  ", "dim"), (f"{symbol.kind} ", "magenta"), symbol.name, (used, "dim"))
    _more(len(result.symbols), result.total, paper)
    paper.line((f"{result.total} of {result.examined} exported definitions", "bold"))
    _notes(result.notes, paper)


def _map(result: requests.CodeMap, paper: Paper) -> None:
    if result.picture:
        for line in result.picture.rstrip("\n").split("\n"):
            paper.line(line)
        return
    languages = ", ".join(f"{name} {count}" for name, count in list(result.languages.items())[:6])
    sizes = ((result.files, "file"), (result.edges, "import"), (result.cycles, "cycle"))
    paper.line((result.root, "bold cyan"), "  " + ", ".join(counted(*size) for size in sizes))
    paper.line(("  " + (languages or "no code"), "dim"))
    _section("Starts at", [(f.path, f"imports {f.imports}") for f in result.entry_points], paper)
    rows = [
        (f"{'█' * max(1, round(BAR * f.centrality)):<{BAR}} {f.path}", f"{f.imported_by} need it") for f in result.hubs
    ]
    _section("Stands on", rows, paper)
    _layers(result.areas, paper)
    _section("Key types", [(f"{s.kind} {s.qualified}", f"{s.path}:{s.start_line}") for s in result.interfaces], paper)
    if result.hotspots:
        paper.line(("Hotspots", "bold"))
        paper.table([_hot_row(item) for item in result.hotspots])
    _notes(result.notes, paper)


def _section(title: str, rows: Sequence[tuple[str, str]], paper: Paper) -> None:
    if rows:
        paper.line((title, "bold"))
        paper.table([(left, (right, "dim")) for left, right in rows])


def _layers(areas: Sequence[requests.MapArea], paper: Paper) -> None:
    if not areas:
        return
    paper.line(("Layers", "bold"), ("  the upper ones need the lower ones", "dim"))
    if any(area.in_cycle for area in areas):
        paper.line(("  mutual: folders that need each other, directly or through others", "dim"))
    rows: list[tuple[Span, ...]] = []
    for area in sorted(areas, key=lambda area: -area.layer):
        needs = ", ".join(list(area.needs)[:4]) + ("…" if len(area.needs) > 4 else "")
        name = (area.name, "red" if area.in_cycle else "cyan")
        mutual = ("mutual" if area.in_cycle else "", "red")
        told = (f"→ {needs}" if needs else "", "dim")
        rows.append(((f"{area.layer:>2}", "dim"), name, counted(area.files, "file"), mutual, told))
    if not any(area.in_cycle for area in areas):
        rows = [(*row[:3], row[4]) for row in rows]
    paper.table(rows)


_RENDERERS: dict[type, Callable[[Any, Paper], None]] = {
    requests.SymbolList: _symbols,
    requests.DefinitionList: _definitions,
    requests.ReferenceReport: _references,
    requests.CallGraph: _calls,
    requests.ModuleImports: _imports,
    requests.CycleReport: _cycles,
    requests.ImpactReport: _impact,
    requests.HotspotReport: _hotspots,
    requests.UnusedReport: _unused,
    requests.CodeMap: _map,
}
