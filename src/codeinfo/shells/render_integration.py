"""How people see projects, vector search, savings and what became of clients' files."""

from __future__ import annotations

from codeinfo.operations.clients import InstallReport, ProjectsResult, SavingsReport, VectorSearchResult
from codeinfo.shells.paper import Paper, counted

_ACTION_STYLES = {"added": "green", "updated": "green", "removed": "green", "failed": "red", "kept": "yellow"}


def render(result: object, paper: Paper, *, explain: bool = False) -> None:
    if isinstance(result, InstallReport):
        _install(result, paper)
    elif isinstance(result, SavingsReport):
        _savings(result, paper)
    elif isinstance(result, ProjectsResult):
        _projects(result, paper)
    elif isinstance(result, VectorSearchResult):
        _matches(result, paper)


def _install(report: InstallReport, paper: Paper) -> None:
    for change in report.changes:
        action = f"would be {change.action}" if report.dry_run and change.diff else change.action
        paper.line((action, _ACTION_STYLES.get(change.action, "")), f"  {change.client}  ", (change.path, "dim"))
        if change.detail:
            paper.line(f"    {change.detail}")
        if report.dry_run:
            for line in change.diff.splitlines():
                paper.line(f"    {line}")
    for note in report.notes:
        paper.line(note)
    if any(change.action in ("added", "updated") for change in report.changes) and not report.dry_run:
        paper.line("Start these clients anew to use it.")


def _savings(report: SavingsReport, paper: Paper) -> None:
    if not report.calls:
        paper.wrapped(
            "No agent has called a tool in this time. `codeinfo install` gives CodeInfo to your agents.", hang=2
        )
        return
    for day in report.days:
        paper.line((day.day, "bold"))
        rows = [
            (
                one.tool,
                counted(one.calls, "call"),
                f"{one.returned:,} returned",
                f"{one.files:,} in files",
                f"{one.saved:,}",
            )
            for one in day.tools
        ]
        paper.table([(*row[:4], f"{row[4]} saved") for row in rows])
    paper.line(f"{counted(report.calls, 'call')}: about {report.saved:,} tokens saved ({report.returned:,} returned)")


def _projects(result: ProjectsResult, paper: Paper) -> None:
    if not result.projects:
        paper.line("Nothing is indexed yet: a first search in a folder indexes it, or `codeinfo index`.")
    paper.table([(one.name, one.state, counted(one.files, "file"), one.root) for one in result.projects], indent=0)


def _matches(result: VectorSearchResult, paper: Paper) -> None:
    for match in result.results:
        paper.line((match.relPath, "bold"), f"  {match.repo}, distance {match.score}")
        for line in match.chunk.splitlines()[:8]:
            paper.line(f"    {line}")
