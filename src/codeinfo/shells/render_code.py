"""Code, the graph of files and what the team knows, for people."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from itertools import groupby
from posixpath import dirname

from codeinfo.cache import group_by_key
from codeinfo.model import NextStep, dumps, quantity, shown_root, to_run
from codeinfo.operations import code, knowledge
from codeinfo.shells.render import memories, memory, render, section
from codeinfo.shells.terminal import Output, Span

SEVERITIES = {"high": "bold red", "medium": "yellow", "low": ""}
BAR = 8  # characters
_EIGHTHS = tuple(" ▏▎▍▌▋▊▉")
KIND = 11  # characters; "interface " and the like
LONG_FOLDER = 3  # levels: Java packages make every line too long to read
BARS = "▁▂▃▄▅▆▇█"
TRENDS = {"Rising": "green", "Declining": "red"}
LONG_VERSION = 20  # letters
DEPENDENCIES_SHOWN = 40
PACKAGES_SHOWN = 4  # the patterns of each take half a screen


# --- code and the graph of files -------------------------------------------------------------------------------------


def _place(path: str, line: int, out: Output) -> tuple[str, str]:
    return (f"{out.near(path)}:{line}", "bold cyan")


def _more(shown: int, total: int, out: Output) -> None:
    if shown < total:
        out.line((f"… {total - shown} more; raise --limit to see them", "dim"))


@render.register
def _symbols(result: code.SymbolList, out: Output) -> None:
    for path, symbols in groupby(result.symbols, key=lambda symbol: symbol.path):
        out.line((out.near(path), "bold cyan"))
        for symbol in symbols:
            line, kind = (f"{symbol.start_line:>6} ", "dim"), (f"{symbol.kind:<{KIND}}", "magenta")
            mark: Span = " " if symbol.exported else ("·", "dim")
            depth = symbol.qualified.count(" > " if symbol.kind == "heading" else ".")
            signature = "  " * depth + (symbol.signature or symbol.name)
            out.wrap(line, mark, kind, signature, hang=12 + KIND, least=8 + KIND)
            if symbol.doc:
                out.line(" " * (8 + KIND), (out.fit(symbol.doc, 8 + KIND), "dim"))
    _more(len(result.symbols), result.total, out)
    if not result.total:
        out.line(("No such definition there.", "bold"))


@render.register
def _definitions(result: code.DefinitionList, out: Output) -> None:
    for symbol in result.definitions:
        out.line(_place(symbol.path, symbol.start_line, out), "  ", (symbol.kind, "magenta"), f"  {symbol.qualified}")
        out.wrap("    ", symbol.signature, hang=8)
        if symbol.doc:
            out.wrap("    ", (symbol.doc, "dim"), hang=4)
    _more(len(result.definitions), result.total, out)


# How certain a use or a call is: from a compiler, resolved, or by name only.
_PROOF: dict[str, Span] = {"compiler": ("✓", "green"), "resolved": (" ", ""), "syntactic": ("?", "yellow")}


@render.register
def _references(result: code.ReferenceReport, out: Output) -> None:
    out.table([(("defined", "dim"), *_definition(symbol, out)) for symbol in result.definitions], indent=0)
    by_place = sorted(result.usages, key=lambda usage: (usage.file, usage.line))
    for file, usages in groupby(by_place, key=lambda usage: usage.file):
        out.line((out.near(file), "bold cyan"))
        for usage in usages:
            edge = f" {usage.edge.lower().replace('_', ' '):<15} "
            preview = out.fit(usage.preview, 9 + len(edge))
            out.line((f"{usage.line:>7} ", "dim"), _PROOF[usage.confidence], (edge, "magenta"), preview)
    _more(len(result.usages), result.usage_count, out)
    proven, syntactic = result.resolved_count - result.compiler_count, result.usage_count - result.resolved_count
    counts = {"by the compiler": result.compiler_count, "resolved": proven, "by name only": syntactic}
    shown = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    where = f"{quantity(result.usage_count, 'use')} in {quantity(result.file_count, 'file')}"
    summary = f"{where}: {shown}" if shown else "no uses found"
    is_short = not result.is_complete and len(result.usages) == result.usage_count  # for another reason than the limit
    out.line((summary, "dim"), (", not complete" if is_short else "", "yellow"))


def _definition(symbol: code.SymbolInfo, out: Output) -> tuple[Span, ...]:
    return _place(symbol.path, symbol.start_line, out), (symbol.kind, "magenta"), symbol.qualified


@render.register
def _exploration(result: code.Exploration, out: Output) -> None:
    is_file = result.kind == "file"
    out.line((out.near(result.place), "bold cyan"))
    if result.code:
        out.numbered_code(result.code, result.definitions[0].path, result.code_line)
    if is_file or len(result.definitions) > 1:
        rows = [_definition(symbol, out) for symbol in result.definitions]
        out.table(rows, title="defines" if is_file else "definitions")
    section("imported by" if is_file else "used by", tuple(map(out.near, result.callers)), out)
    section("imports" if is_file else "uses", tuple(map(out.near, result.callees)), out)
    section("tests", tuple(map(out.near, result.tests)), out)
    section("commits", result.history, out)
    memories(result.memories, out)
    for name, total in result.totals.items():
        out.line((f"{total} {name} in all; raise --limit to see them", "dim"))


@render.register
def _calls(result: code.CallGraph, out: Output) -> None:
    out.table([_definition(symbol, out) for symbol in result.definitions], indent=0)
    for title, edges, end in (("called by", result.callers, "source"), ("calls", result.callees, "target")):
        out.line((f"{title} ({len(edges)}{'' if result.is_complete else ' shown'})", "bold"))
        out.table([_call_row(edge, getattr(edge, end), out) for edge in edges])
    for edge in result.related:
        if edge.kind in ("EXTENDS", "IMPLEMENTS"):
            out.line((edge.kind.lower(), "bold"), f"  {edge.target}")
    if result.unattributed:
        calls = quantity(result.unattributed, "more call")
        out.line((f"{calls} by this name could not be attributed", "yellow"))
    if result.unattributed_callees:
        out.line((f"{quantity(result.unattributed_callees, 'call')} that it makes could not be attributed", "yellow"))
    if not result.is_complete:
        out.line(("not complete: raise --limit to see all", "yellow"))


def _call_row(edge: code.CodeEdge, other: str, out: Output) -> tuple[Span, ...]:
    """The place of the call and its other end, without the file if it is the same."""
    unsure: Span = _PROOF[edge.confidence]
    kind = "" if edge.kind == "CALLS" else f"  ({edge.kind.lower().replace('_', ' ')})"
    name = other.removeprefix(f"{edge.path}::") if other != edge.path else "(top level)"
    return unsure, (f"{out.near(edge.path)}:{edge.line}", "dim"), (out.near(name) if "::" in name else name) + kind


@render.register
def _imports(result: code.ModuleImports, out: Output) -> None:
    centrality = f"centrality {result.centrality:.2f}"
    out.line((out.near(result.path), "bold cyan"), (f"  {result.language}, {centrality}", "dim"))
    out.line((f"imports ({len(result.imports)})", "bold"))
    styles = {"internal": "green", "package": "green", "unresolved": "red"}
    for item in result.imports:
        names = ", ".join(item.names)
        module = item.module or "(same package)"
        spans: list[Span] = [(f"{item.line:>6}  ", "dim"), module + (f": {names}" if names else "")]
        target = ", ".join(map(out.near, item.targets)) or item.status
        out.wrap(*spans, "  → ", (target, styles.get(item.status, "dim")), hang=10)
    out.line((f"imported by ({result.imported_by_count})", "bold"))
    out.table([(_place(item.path, item.line, out), ", ".join(item.names)) for item in result.imported_by])
    if result.tests:
        out.wrap(("tests  ", "bold"), ", ".join(map(out.near, result.tests)), hang=7)


@render.register
def _cycles(result: code.CycleReport, out: Output) -> None:
    for cycle in result.cycles:
        severity, timing = (f"{cycle.severity:<7}", SEVERITIES[cycle.severity]), f"  {cycle.timing}"
        out.line(severity, quantity(len(cycle.files), "file"), (timing, "dim"))
        for path, line in zip(cycle.files, cycle.lines, strict=True):
            out.line("    ", _place(path, line, out), " →")
        out.line("    ", (out.near(cycle.files[0]), "dim"))
    _more(len(result.cycles), result.total, out)
    seen = f"{quantity(result.files, 'file')}, {quantity(result.edges, 'import')}, {result.external:,} external"
    state = "bold red" if result.total else "green"
    out.line((quantity(result.total, "cycle"), state), (f"  {seen}, {result.unresolved:,} unresolved", "dim"))
    if (result.lazy or result.types) and not any(cycle.timing for cycle in result.cycles):
        kinds = ((result.lazy, "closed by lazy imports"), (result.types, "by imports that only a compiler reads"))
        more = ", ".join(f"{count} {what}" for count, what in kinds if count)
        out.line((f"not counted: {more}; --deferred lists them", "dim"))


@render.register
def _impact(result: code.ImpactReport, out: Output) -> None:
    out.line((out.near(result.path), "bold cyan"), f"  a change may affect {quantity(result.total, 'file')}")
    rows: list[tuple[Span, ...]] = []
    for item in result.files:
        place, style = _place(item.path, item.line, out)
        via = "" if item.via == result.path else f"via {out.near(item.via)}"  # the nearest import of the file itself
        via += f"  ({item.timing})" if item.timing else ""
        mark: Span = ("test", "green") if item.is_test else "    "
        rows.append((mark, ("  " * (item.hops - 1) + place, style), (via, "dim")))
    out.table(rows)
    _more(len(result.files), result.total, out)
    if result.tests:
        out.wrap(("tests to run  ", "bold"), ", ".join(map(out.near, result.tests)), hang=14)


@render.register
def _hotspots(result: code.HotspotReport, out: Output) -> None:
    out.table([_hot_row(item, out.near(item.path)) for item in result.hotspots])
    _more(len(result.hotspots), result.total, out)
    commits, days = quantity(result.commits, "commit"), quantity(result.days, "day")
    out.line((f"{commits} in {days} up to the last one; score is commits × lines", "dim"))


def _bar(share: float) -> str:
    """A bar in steps of an eighth of a character, so that only equal values look the same."""
    eighths = max(1, round(8 * BAR * share))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).strip().ljust(BAR)


def _hot_row(item: code.Hotspot, path: str) -> tuple[Span, ...]:
    summary = f"{quantity(item.commits, 'commit')} by {item.authors}"
    return ((_bar(item.score), "red"), (path, "bold cyan"), (f"{summary}, {quantity(item.lines, 'line')}", "dim"))


@render.register
def _unused(result: code.UnusedReport, out: Output) -> None:
    for path, items in groupby(result.symbols, key=lambda item: item.symbol.path):
        out.line((out.near(path), "bold cyan"))
        for item in items:
            line, kind = (f"{item.symbol.start_line:>6}  ", "dim"), (f"{item.symbol.kind} ", "magenta")
            used = "  used in its own file only" if item.used_here else ""
            out.line(line, kind, item.symbol.name, (used, "dim"))
    _more(len(result.symbols), result.total, out)
    out.line((f"{result.total} of {result.examined} exported definitions are used nowhere", "bold"))
    if result.own_file:
        out.line((f"not counted: {result.own_file} used in their own file only; --own-file lists them", "dim"))


@render.register
def _map(result: code.CodeMap, out: Output) -> None:
    if result.picture:
        out.lines(result.picture.rstrip("\n"))
        return
    languages = ", ".join(f"{name} {count}" for name, count in list(result.languages.items())[:6])
    sizes = ((result.files, "file"), (result.edges, "link"), (result.cycles, "cycle"))  # also without an import
    out.line((shown_root(result.root), "bold cyan"), "  " + ", ".join(quantity(*size) for size in sizes))
    out.line(("  " + (languages or "no code"), "dim"))
    if result.area_files:
        _titled_table("Files of the area", [(f.path, f"imported by {f.imported_by}") for f in result.area_files], out)
        return
    _titled_table("Entry points", [(f.path, f"imports {f.imports}") for f in result.entry_points], out)
    rows = [(f"{_bar(f.centrality)} {f.path}", f"imported by {f.imported_by}") for f in result.hubs]
    _titled_table("Hubs", rows, out)
    _layers(result.areas, out)
    types = [(f"{s.kind} {s.qualified}", f"{s.path}:{s.start_line}") for s in result.interfaces]
    _titled_table("Key types", types, out)
    out.table([_hot_row(item, item.path) for item in result.hotspots], title="Hotspots")


def _titled_table(title: str, rows: Sequence[tuple[str, str]], out: Output) -> None:
    out.table([(left, (right, "dim")) for left, right in rows], title=title)


def _layers(areas: Sequence[code.MapArea], out: Output) -> None:
    if not areas:
        return
    common = _common_folder([area.name for area in areas])
    below = f" below {common}" if common else ""
    layers = {area.name: area.layer for area in areas}
    upward = {(area.name, name) for area in areas for name in area.needs if layers[name] >= area.layer}
    mostly = "; ↑ marks the exceptions" if upward else ""
    out.line(("Layers", "bold"), (f"{below}  upper layers import lower ones{mostly}", "dim"))
    if any(area.in_cycle for area in areas):
        out.line(("  mutual: areas that import each other, directly or through others", "dim"))
    rows: list[tuple[Span, ...]] = []
    for area in sorted(areas, key=lambda area: -area.layer):
        shown = ((name.removeprefix(common), (area.name, name) in upward) for name in list(area.needs)[:4])
        listed = ", ".join(f"{name} ↑" if is_upward else name for name, is_upward in shown)
        needs = listed + ("…" if len(area.needs) > 4 else "")
        name = (area.name.removeprefix(common), "red" if area.in_cycle else "cyan")
        mutual = ("mutual" if area.in_cycle else "", "red")
        imports = (f"→ {needs}" if needs else "", "dim")
        rows.append(((f"{area.layer:>2}", "dim"), name, quantity(area.files, "file"), mutual, imports))
    if not any(area.in_cycle for area in areas):
        rows = [(*row[:3], row[4]) for row in rows]
    out.table(rows)


def _common_folder(paths: Sequence[str]) -> str:
    """The common folder of all paths, with a trailing slash, if it is a long one."""
    start = os.path.commonpath([dirname(path) for path in paths])
    return f"{start}/" if start.count("/") + 1 >= LONG_FOLDER else ""


# --- memory --------------------------------------------------------------------------------------------------------


@render.register
def _remembered(result: knowledge.Remembered, out: Output) -> None:
    out.line(("updated" if result.known else "remembered", "green"))
    memory(result.memory, out)


@render.register
def _list(result: knowledge.MemoryList, out: Output) -> None:
    for item in result.memories:
        memory(item, out)
    count = f"{len(result.memories)} of {quantity(result.total, 'memory', 'memories')}"
    out.line((count if result.total else "No memories yet: `codeinfo remember` writes one down.", "dim"))


@render.register
def _removed(result: knowledge.MemoryRemoved, out: Output) -> None:
    out.line(("removed ", "yellow"), result.memory.id, f": {result.memory.memory}")


@render.register
def _export(result: knowledge.MemoryExport, out: Output) -> None:
    out.lines(dumps(result, indent=2))


@render.register
def _imported(result: knowledge.MemoryImported, out: Output) -> None:
    out.line(f"{result.added} added, {result.known} known already, {result.from_git} skipped: git has them")


# --- patterns ------------------------------------------------------------------------------------------------------


@render.register
def _patterns(report: knowledge.PatternReport, out: Output) -> None:
    areas = list(dict.fromkeys(pattern.area for pattern in report.patterns))
    for area, inside in groupby(report.patterns, key=lambda p: p.area):
        if area in areas[PACKAGES_SHOWN:]:
            continue
        if len(areas) > 1:
            out.line(("The top folder's package" if area == "." else area, "bold cyan"))
        questions = groupby(inside, key=lambda p: (p.category, p.question, p.language))
        for (category, question, language), group in questions:
            out.line((category, "bold"), f": {question}", (f", {language}", "dim"))
            out.table([_pattern_row(pattern) for pattern in group])
    for conflict in report.conflicts:
        first, second = (f"{n} {a} %" for n, a in zip(conflict.patterns, conflict.adoption, strict=True))
        where = "" if conflict.area == "." else f" in {conflict.area}"
        text = f"{conflict.question}{where} ({conflict.language}): {first} against {second}"
        out.wrap(("conflict ", "bold yellow"), text, hang=9)
    files = [file for file in report.golden_files if file.area in areas[:PACKAGES_SHOWN]]
    golden = [(f.path, f"{len(f.patterns)} preferred patterns", f"{f.density:g} uses in 100 lines") for f in files]
    out.table(golden, title="Golden files")
    if left_out := areas[PACKAGES_SHOWN:]:
        more = f"… {quantity(len(left_out), 'more package')}; "
        out.line((NextStep(more, to_run("patterns", left_out[0]), " shows one of them"), "dim"))
    if not report.patterns:
        out.line("No patterns found.")
    memories(report.memories, out)


def _pattern_row(pattern: knowledge.PatternUse) -> tuple[Span, ...]:
    evidence = [f"{pattern.files} of {quantity(pattern.of_files, 'file')}"]
    evidence += [f"{pattern.authors} authors"] if pattern.authors > 1 else []
    evidence += [f"newest {pattern.newest}"] if pattern.newest else []
    return (
        f"{pattern.adoption:>3} %",
        pattern.name,
        (pattern.trend or "-", TRENDS.get(pattern.trend, "dim")),
        f"avoid: {pattern.instead}" if pattern.guidance == "avoid" else pattern.guidance or "-",
        *((_sparkline(pattern.history),) if pattern.history else ()),
        (", ".join((*evidence, *pattern.examples[:1])), "dim"),
    )


def _sparkline(history: knowledge.PatternHistory) -> str:
    """A column for each month, as high as the lines written in it, and the month the row begins with."""
    most = max(history.lines)
    columns = (BARS[-(-count * (len(BARS) - 1) // most)] if most else BARS[0] for count in history.lines)
    return f"{''.join(columns)} since {history.since}, {history.older} older"


# --- metadata and style --------------------------------------------------------------------------------------------


@render.register
def _metadata(report: knowledge.MetadataReport, out: Output) -> None:
    size = f"{quantity(report.files, 'file')}, {quantity(report.lines, 'line')}"
    out.line((report.name, "bold cyan"), f"  {size}  ", (shown_root(report.root), "dim"))
    sizes = report.languages.items()
    out.table([(name, quantity(count.files, "file"), quantity(count.lines, "line")) for name, count in sizes])
    out.table([(f.name, _brief(f.version), (f.evidence, "dim")) for f in report.frameworks], title="Frameworks")
    tests = report.tests
    files = quantity(tests.files, "file")
    files += f" and tests inside {quantity(tests.inline, 'other')}" if tests.inline else ""
    tools = ", ".join(tests.frameworks) or ("" if tests.inline else "no framework named")
    command = f"run with {tests.command}" if tests.command else ""
    out.line(("Tests", "bold"), f"  {', '.join(filter(None, (files, tools, command)))}")
    places = group_by_key(((d.name, _brief(d.version), d.group or "-"), d.source) for d in report.dependencies)
    rows = [(*what, (first + _also(others), "dim")) for what, (first, *others) in places.items()]
    out.table(rows[:DEPENDENCIES_SHOWN], title="Dependencies")
    if (more := len(rows) - DEPENDENCIES_SHOWN) > 0:
        out.line((f"  and {more} more; --json lists them all", "dim"))


def _brief(text: str) -> str:
    """Aliases and addresses of repositories, cut so that the place beside them fits on the line."""
    return text if 0 < len(text) <= LONG_VERSION else f"{text[: LONG_VERSION - 1]}…" if text else "-"


@render.register
def _style(report: knowledge.StyleReport, out: Output) -> None:
    for origin, rules in groupby(report.rules, key=lambda rule: (rule.source.rpartition(":")[0], rule.origin)):
        out.line((origin[1], "bold"), ("  " + origin[0], "dim"))
        out.table([((rule.source.rpartition(":")[2], "dim"), rule.rule + _also(rule.also)) for rule in rules])
    if not report.rules:
        out.line("No style rules found.")


def _also(others: Collection[str]) -> str:
    return f"  (and in {quantity(len(others), 'more place')})" if others else ""


# --- review --------------------------------------------------------------------------------------------------------


@render.register
def _review(packet: knowledge.ReviewPacket, out: Output) -> None:
    out.line(("against ", "bold"), packet.base[:12])
    out.table([(item.state, item.path, f"+{item.added} -{item.removed}") for item in packet.files])
    section("To look at", [f"{finding.kind}  {finding.place}  {finding.message}" for finding in packet.findings], out)
    symbols = [f"{s.name}  {s.kind}  {s.place}  {quantity(s.lines, 'line')}" for s in packet.symbols]
    section("Changed symbols", symbols, out)
    # Overloads are symbols of their own, with the same callers.
    callers = dict.fromkeys(f"{caller}  uses {symbol.name}" for symbol in packet.symbols for caller in symbol.callers)
    section("Callers outside the change", tuple(callers), out)
    section("No test", packet.missing_tests, out)
    section("Against the team's patterns", packet.patterns, out)
    memories(packet.memories, out)
    reviewers = [f"{r.name}: {r.lines} of the lines, {quantity(r.files, 'file')}" for r in packet.reviewers]
    section("Likely reviewers", reviewers, out)
    for name, total in packet.totals.items():
        if total > len(getattr(packet, name)):
            out.line((f"{name}: {len(getattr(packet, name))} of {total} shown", "dim"))
