"""Memories, patterns, metadata, style, reviews and the card before a change, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from codeinfo.jsonable import dumps
from codeinfo.model import Card, RelatedMemory
from codeinfo.operations import knowledge as requests
from codeinfo.shells.paper import Paper, Span, counted

BARS = "▁▂▃▄▅▆▇█"
TRENDS = {"Rising": "green", "Declining": "red"}
DEPENDENCIES_SHOWN = 40


def render(result: Any, paper: Paper, *, explain: bool = False) -> None:
    _RENDERERS[type(result)](result, paper)


# --- memory --------------------------------------------------------------------------------------------------------


def memory(item: RelatedMemory, paper: Paper, indent: str = "") -> None:
    state: Span = ("stale", "yellow") if item.stale else f"counts {item.confidence:.0%}"
    paper.line(indent, (item.id, "bold cyan"), f"  {item.type}, {item.category}  ", state, f"  {item.date[:10]}")
    hang = len(indent) + 2
    paper.wrapped(indent, "  ", item.memory, hang=hang)
    if item.reason:
        paper.wrapped(indent, "  ", ("because ", "dim"), item.reason, hang=hang)
    scope = f"{item.scope} · " if item.scope else ""
    origin = item.label.partition(";")[0]  # what follows is for agents
    paper.wrapped(indent, "  ", (f"{scope}{origin}", "dim"), hang=hang)


def memories(items: Sequence[RelatedMemory], paper: Paper) -> None:
    """Related memories below something else."""
    if items:
        paper.line(("Related memories", "bold"))
        for item in items:
            memory(item, paper, "  ")


def _remembered(result: requests.Remembered, paper: Paper) -> None:
    paper.line(("remembered again" if result.known else "remembered", "green"))
    memory(result.memory, paper)


def _list(result: requests.MemoryList, paper: Paper) -> None:
    for item in result.memories:
        memory(item, paper)
    paper.line((f"{len(result.memories)} of {counted(result.total, 'memory', 'memories')}", "dim"))
    _notes(result.notes, paper)


def _removed(result: requests.MemoryRemoved, paper: Paper) -> None:
    paper.line(("removed ", "yellow"), result.memory.id, f": {result.memory.memory}")


def _export(result: requests.MemoryExport, paper: Paper) -> None:
    for line in dumps(result, indent=2).splitlines():
        paper.line(line)


def _imported(result: requests.MemoryImported, paper: Paper) -> None:
    paper.line(f"{result.added} added, {result.known} known already, {result.from_git} left out: git has them")


# --- patterns ------------------------------------------------------------------------------------------------------


def _patterns(report: requests.PatternReport, paper: Paper) -> None:
    for (category, question, language), group in groupby(
        report.patterns, key=lambda p: (p.category, p.question, p.language)
    ):
        paper.line((category, "bold"), f": {question}", (f", {language}", "dim"))
        rows: list[tuple[Span, ...]] = [
            (
                f"{p.adoption:>3} %",
                p.name,
                (p.trend or "-", TRENDS.get(p.trend, "dim")),
                p.guidance or "-",
                *((_sparkline(p.history),) if p.history else ()),
                (f"{counted(p.files, 'file')}, newest {p.newest or 'unknown'}, {p.examples[0]}", "dim"),
            )
            for p in group
        ]
        paper.table(rows)
    for conflict in report.conflicts:
        one, other = (f"{n} {a} %" for n, a in zip(conflict.patterns, conflict.adoption, strict=True))
        told = f"{conflict.question} ({conflict.language}): {one} against {other}"
        paper.wrapped(("conflict ", "bold yellow"), told, hang=9)
    if report.golden_files:
        paper.line(("Golden files", "bold"))
        paper.table(
            [
                (g.path, f"{len(g.patterns)} preferred patterns", f"{g.density:g} uses in 100 lines")
                for g in report.golden_files
            ]
        )
    if not report.patterns:
        paper.line("No patterns found.")
    memories(report.memories, paper)
    _notes(report.notes, paper)


def _sparkline(history: requests.PatternHistory) -> str:
    """A column for each month, as high as the lines written in it, and the month that the row begins with."""
    most = max(history.lines)
    columns = (BARS[-(-count * (len(BARS) - 1) // most)] if most else BARS[0] for count in history.lines)
    return f"{''.join(columns)} since {history.since}, {history.older} older"


# --- metadata and style --------------------------------------------------------------------------------------------


def _metadata(report: requests.MetadataReport, paper: Paper) -> None:
    size = f"{counted(report.files, 'file')}, {counted(report.lines, 'line')}"
    paper.line((report.name, "bold cyan"), f"  {size}  ", (report.root, "dim"))
    sizes = report.languages.items()
    paper.table([(name, counted(one.files, "file"), counted(one.lines, "line")) for name, one in sizes])
    if report.frameworks:
        paper.line(("Frameworks", "bold"))
        paper.table([(item.name, item.version or "-", (item.evidence, "dim")) for item in report.frameworks])
    tests = report.tests
    tools = ", ".join(tests.frameworks) or "no framework named"
    paper.line(
        ("Tests", "bold"),
        f"  {counted(tests.files, 'file')}, {tools}" + (f", run with {tests.command}" if tests.command else ""),
    )
    if report.dependencies:
        paper.line(("Dependencies", "bold"))
        shown = report.dependencies[:DEPENDENCIES_SHOWN]
        paper.table([(item.name, item.version or "-", item.group or "-", (item.source, "dim")) for item in shown])
        if len(shown) < len(report.dependencies):
            paper.line((f"  and {len(report.dependencies) - len(shown)} more; --json lists them all", "dim"))
    _notes(report.notes, paper)


def _style(report: requests.StyleReport, paper: Paper) -> None:
    for origin, rules in groupby(report.rules, key=lambda rule: (rule.source.rpartition(":")[0], rule.origin)):
        paper.line((origin[1], "bold"), ("  " + origin[0], "dim"))
        paper.table([((rule.source.rpartition(":")[2], "dim"), rule.rule) for rule in rules])
    if not report.rules:
        paper.line("No style rules found.")
    _notes(report.notes, paper)


# --- review --------------------------------------------------------------------------------------------------------


def _review(packet: requests.ReviewPacket, paper: Paper) -> None:
    if not packet.files:
        paper.line(f"Nothing differs from {packet.base[:12]}: --base names another commit to compare with.")
        return
    paper.line(("against ", "bold"), packet.base[:12])
    paper.table([(item.state, item.path, f"+{item.added} -{item.removed}") for item in packet.files])
    _section(
        "Changed symbols", [f"{s.name}  {s.kind}  {s.place}  {counted(s.lines, 'line')}" for s in packet.symbols], paper
    )
    callers = [f"{caller}  uses {symbol.name}" for symbol in packet.symbols for caller in symbol.callers]
    _section("Callers outside the change", callers, paper)
    _section("No test", packet.missing_tests, paper)
    _section("Against the team's ways", packet.patterns, paper)
    memories(packet.memories, paper)
    _section(
        "Likely reviewers",
        [f"{r.name}: {r.lines} of the lines, {counted(r.files, 'file')}" for r in packet.reviewers],
        paper,
    )
    for name, total in packet.totals.items():
        if total > len(getattr(packet, name)):
            paper.line((f"{name}: {len(getattr(packet, name))} of {total} shown", "dim"))
    _notes(packet.notes, paper)


def _section(title: str, lines: Sequence[str], paper: Paper) -> None:
    if lines:
        paper.line((title, "bold"))
        for line in lines:
            paper.wrapped("  ", line, hang=4)


# --- the card ------------------------------------------------------------------------------------------------------


def card(item: Card, paper: Paper, *, explain: bool) -> None:
    state: Span = ("ready", "bold green") if item.ready else ("not ready", "bold yellow")
    paper.line(state, f"  {item.score:g} points")
    if item.next_action:
        paper.wrapped(("next: ", "bold"), item.next_action, hang=6)
    if item.patterns:
        _section("Do", item.patterns.do, paper)
        _section("Avoid", item.patterns.avoid, paper)
    if item.best_example:
        paper.line(("Best example  ", "bold"), item.best_example)
    if item.impact:
        paper.line(("Impact  ", "bold"), item.impact.coverage)
        for file in item.impact.files:
            paper.line("  ", file)
    _section("Warnings", item.warnings, paper)
    _section("What would help", item.what_would_help, paper)
    if explain:
        rows = [(f"{p.points:+g} of {p.most:g}" if p.most else "withdrawn", p.name, p.reason) for p in item.reckoning]
        paper.table(rows)


def _notes(notes: Sequence[str], paper: Paper) -> None:
    for note in notes:
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)


_RENDERERS: dict[type, Callable[[Any, Paper], None]] = {
    requests.Remembered: _remembered,
    requests.MemoryList: _list,
    requests.MemoryRemoved: _removed,
    requests.MemoryExport: _export,
    requests.MemoryImported: _imported,
    requests.PatternReport: _patterns,
    requests.MetadataReport: _metadata,
    requests.StyleReport: _style,
    requests.ReviewPacket: _review,
    RelatedMemory: memory,
}
