"""An evaluation for people: figures, comparisons, verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from codeinfo.evals import report
from codeinfo.evals.metrics import LOWER_IS_BETTER
from codeinfo.operations.evaluation import EvalReport
from codeinfo.shells.paper import Paper, counted

CHANGES_SHOWN = 5  # wins and losses unless all are asked for


def render(result: EvalReport, paper: Paper, *, explain: bool = False) -> None:
    """The whole report; with `explain` every win, loss and miss."""
    vectors = result.model_id or "keyword search only"
    size = f"{counted(result.files, 'file')}, {counted(result.chunks, 'chunk')}"
    content = f"  {size} indexed in {result.index_ms / 1000:.1f} s, {vectors}"
    paper.wrapped((result.dataset, "bold cyan"), content, hang=2)
    for by in ("all", "language", "category"):
        _figures(report.figures_table(result.groups, by), paper)
    _comparisons(result, paper, explain)
    misses = report.misses_table(result.outcomes)
    paper.line(f"{len(misses)} of {len(result.outcomes)} queries have no right file in the first ten")
    if explain:
        paper.table(misses)
    for verdict in result.verdicts:
        sign = "≤" if verdict.metric in LOWER_IS_BETTER else "≥"
        value = "not measured" if verdict.value is None else f"{verdict.value:.4f}"
        state = ("passed", "green") if verdict.passed else ("FAILED", "bold red")
        paper.line(f"gate {verdict.metric} {sign} {verdict.wanted:g}: {value}  ", state)
    for note in result.notes:
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)


def _figures(table: Sequence[report.Row], paper: Paper) -> None:
    for part in _fitting(table, paper) if len(table) > 1 else ():
        head, *rows = part
        paper.table([[(cell, "bold") for cell in head], *rows])
        paper.line()


def _fitting(table: Sequence[report.Row], paper: Paper) -> list[list[report.Row]]:
    """The table, or as many of fewer columns as a narrow terminal needs, each with the first column."""
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    cuts, used = [1], 0
    for column, width in enumerate(widths[1:], 1):
        if paper.terminal and used and widths[0] + used + width > paper.width:
            cuts.append(column)
            used = 0
        used += width
    bounds = zip(cuts, [*cuts[1:], len(widths)], strict=True)
    return [[(row[0], *row[start:end]) for row in table] for start, end in bounds]


def _comparisons(result: EvalReport, paper: Paper, explain: bool) -> None:
    most = None if explain else CHANGES_SHOWN
    for comparison in result.comparisons:
        paper.line(("against ", "bold"), comparison.name, ("  " + report.comparison_line(comparison), "dim"))
        for title, changes in (("largest gains", comparison.wins), ("largest losses", comparison.losses)):
            if changes:
                paper.line(f"  {title}")
                paper.table(report.changes_table(changes, most), indent=4)
        paper.line()
