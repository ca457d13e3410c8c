"""Memories, patterns, metadata, style and reviews, for people."""

from __future__ import annotations

from itertools import groupby

from codeinfo.jsonable import dumps
from codeinfo.operations import knowledge
from codeinfo.shells.render import memories, memory, render, section
from codeinfo.shells.terminal import Output, Span, quantity

BARS = "▁▂▃▄▅▆▇█"
TRENDS = {"Rising": "green", "Declining": "red"}
DEPENDENCIES_SHOWN = 40


# --- memory --------------------------------------------------------------------------------------------------------


@render.register
def _remembered(result: knowledge.Remembered, out: Output) -> None:
    out.line(("updated" if result.known else "remembered", "green"))
    memory(result.memory, out)


@render.register
def _list(result: knowledge.MemoryList, out: Output) -> None:
    for item in result.memories:
        memory(item, out)
    out.line((f"{len(result.memories)} of {quantity(result.total, 'memory', 'memories')}", "dim"))
    out.notes(result.notes)


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
    for (category, question, language), group in groupby(
        report.patterns, key=lambda p: (p.category, p.question, p.language)
    ):
        out.line((category, "bold"), f": {question}", (f", {language}", "dim"))
        rows: list[tuple[Span, ...]] = [
            (
                f"{p.adoption:>3} %",
                p.name,
                (p.trend or "-", TRENDS.get(p.trend, "dim")),
                p.guidance or "-",
                *((_sparkline(p.history),) if p.history else ()),
                (f"{quantity(p.files, 'file')}, newest {p.newest or 'unknown'}, {p.examples[0]}", "dim"),
            )
            for p in group
        ]
        out.table(rows)
    for conflict in report.conflicts:
        one, other = (f"{n} {a} %" for n, a in zip(conflict.patterns, conflict.adoption, strict=True))
        text = f"{conflict.question} ({conflict.language}): {one} against {other}"
        out.wrap(("conflict ", "bold yellow"), text, hang=9)
    if report.golden_files:
        out.line(("Golden files", "bold"))
        out.table(
            [
                (g.path, f"{len(g.patterns)} preferred patterns", f"{g.density:g} uses in 100 lines")
                for g in report.golden_files
            ]
        )
    if not report.patterns:
        out.line("No patterns found.")
    memories(report.memories, out)
    out.notes(report.notes)


def _sparkline(history: knowledge.PatternHistory) -> str:
    """A column for each month, as high as the lines written in it, and the month that the row begins with."""
    most = max(history.lines)
    columns = (BARS[-(-count * (len(BARS) - 1) // most)] if most else BARS[0] for count in history.lines)
    return f"{''.join(columns)} since {history.since}, {history.older} older"


# --- metadata and style --------------------------------------------------------------------------------------------


@render.register
def _metadata(report: knowledge.MetadataReport, out: Output) -> None:
    size = f"{quantity(report.files, 'file')}, {quantity(report.lines, 'line')}"
    out.line((report.name, "bold cyan"), f"  {size}  ", (report.root, "dim"))
    sizes = report.languages.items()
    out.table([(name, quantity(one.files, "file"), quantity(one.lines, "line")) for name, one in sizes])
    if report.frameworks:
        out.line(("Frameworks", "bold"))
        out.table([(item.name, item.version or "-", (item.evidence, "dim")) for item in report.frameworks])
    tests = report.tests
    tools = ", ".join(tests.frameworks) or "no framework named"
    out.line(
        ("Tests", "bold"),
        f"  {quantity(tests.files, 'file')}, {tools}" + (f", run with {tests.command}" if tests.command else ""),
    )
    if report.dependencies:
        out.line(("Dependencies", "bold"))
        shown = report.dependencies[:DEPENDENCIES_SHOWN]
        out.table([(item.name, item.version or "-", item.group or "-", (item.source, "dim")) for item in shown])
        if len(shown) < len(report.dependencies):
            out.line((f"  and {len(report.dependencies) - len(shown)} more; --json lists them all", "dim"))
    out.notes(report.notes)


@render.register
def _style(report: knowledge.StyleReport, out: Output) -> None:
    for origin, rules in groupby(report.rules, key=lambda rule: (rule.source.rpartition(":")[0], rule.origin)):
        out.line((origin[1], "bold"), ("  " + origin[0], "dim"))
        out.table([((rule.source.rpartition(":")[2], "dim"), rule.rule) for rule in rules])
    if not report.rules:
        out.line("No style rules found.")
    out.notes(report.notes)


# --- review --------------------------------------------------------------------------------------------------------


@render.register
def _review(packet: knowledge.ReviewPacket, out: Output) -> None:
    if not packet.files:
        out.line(f"Nothing differs from {packet.base[:12]}: --base names another commit to compare with.")
        return
    out.line(("against ", "bold"), packet.base[:12])
    out.table([(item.state, item.path, f"+{item.added} -{item.removed}") for item in packet.files])
    section(
        "Changed symbols", [f"{s.name}  {s.kind}  {s.place}  {quantity(s.lines, 'line')}" for s in packet.symbols], out
    )
    callers = [f"{caller}  uses {symbol.name}" for symbol in packet.symbols for caller in symbol.callers]
    section("Callers outside the change", callers, out)
    section("No test", packet.missing_tests, out)
    section("Against the team's patterns", packet.patterns, out)
    memories(packet.memories, out)
    section(
        "Likely reviewers",
        [f"{r.name}: {r.lines} of the lines, {quantity(r.files, 'file')}" for r in packet.reviewers],
        out,
    )
    for name, total in packet.totals.items():
        if total > len(getattr(packet, name)):
            out.line((f"{name}: {len(getattr(packet, name))} of {total} shown", "dim"))
    out.notes(packet.notes)
