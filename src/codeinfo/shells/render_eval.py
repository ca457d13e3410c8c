"""An evaluation for people: figures, comparisons, verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from codeinfo.evals import report
from codeinfo.evals.metrics import LOWER_IS_BETTER
from codeinfo.evals.requests import EvalReport
from codeinfo.shells.paper import Paper

CHANGES_SHOWN = 5  # wins and losses unless all are asked for


def render(result: EvalReport, paper: Paper, *, explain: bool = False) -> None:
    """The whole report; with `explain` every win, loss and miss."""
    vectors = result.model_id or "keyword search only"
    content = f"  {result.files} files, {result.chunks} chunks indexed in {result.index_ms / 1000:.1f} s, {vectors}"
    paper.line((result.dataset, "bold cyan"), content)
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
        paper.line(("note: ", "bold yellow"), note)


def _figures(table: Sequence[report.Row], paper: Paper) -> None:
    if len(table) > 1:
        head, *rows = table
        paper.table([[(cell, "bold") for cell in head], *rows])
        paper.line()


def _comparisons(result: EvalReport, paper: Paper, explain: bool) -> None:
    most = None if explain else CHANGES_SHOWN
    for comparison in result.comparisons:
        paper.line(("against ", "bold"), comparison.name, ("  " + report.comparison_line(comparison), "dim"))
        for title, changes in (("largest gains", comparison.wins), ("largest losses", comparison.losses)):
            if changes:
                paper.line(f"  {title}")
                paper.table(report.changes_table(changes, most), indent=4)
        paper.line()
