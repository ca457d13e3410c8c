"""Collections and what was found in them, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codeinfo.operations import documents as requests
from codeinfo.shells.paper import Paper, Span, counted, near_path

LINES_SHOWN = 6  # of a passage
PATHS_SHOWN = 10
STATES = {"ready": "green", "stale": "yellow", "missing": "bold red"}


def render(result: Any, paper: Paper, *, explain: bool = False) -> None:
    _RENDERERS[type(result)](result, paper)
    for note in getattr(result, "notes", ()):
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)


def _sync(response: requests.SyncResponse, paper: Paper) -> None:
    if not response.reports:
        paper.line("No collections yet. `codeinfo docs add FOLDER` adds one.")
    for report in response.reports:
        plan = report.plan
        state = _size(report.documents, report.chunks)
        if report.dry_run:
            state = "would change" if plan.added or plan.changed or plan.removed else "would stay as it is"
        paper.line((report.name, "bold cyan"), f"  {state}  ", (report.collection, "dim"))
        counts = f"{len(plan.added)} added, {len(plan.changed)} changed, {len(plan.removed)} removed"
        paper.line("  ", (f"{counts}, {plan.unchanged} unchanged", "dim"))
        if report.dry_run:
            _paths("+", plan.added, paper)
            _paths("~", plan.changed, paper)
            _paths("-", plan.removed, paper)
        for skip in report.skipped:
            if skip.matters:
                paper.line("  ", ("skipped ", "yellow"), f"{skip.path}: {skip.detail or skip.rule}")
        for note in report.notes:
            paper.line("  ", ("note: ", "bold yellow"), note)


def _size(documents: int, passages: int) -> str:
    return f"{counted(documents, 'document')}, {counted(passages, 'passage')}"


def _paths(sign: str, paths: tuple[str, ...], paper: Paper) -> None:
    for path in paths[:PATHS_SHOWN]:
        paper.line(f"  {sign} {path}")
    if len(paths) > PATHS_SHOWN:
        paper.line(f"  {sign} and {len(paths) - PATHS_SHOWN} more")


def _list(response: requests.DocsListResponse, paper: Paper) -> None:
    if not response.collections:
        paper.line("No collections yet. `codeinfo docs add FOLDER` adds one.")
    for item in response.collections:
        paper.line((item.name, "bold cyan"), "  ", (item.state, STATES.get(item.state, "")), "  ", (item.id, "dim"))
        content = _size(item.documents, item.passages)
        paper.table([("from", f"{item.url} ({item.kind}, {item.origin})"), ("content", content)])
        paper.table([(doc.document, doc.format, counted(doc.passages, "passage")) for doc in item.listing], indent=4)


def _removed(response: requests.DocsRemoveResponse, paper: Paper) -> None:
    for item in response.removed:
        paper.line((item.name, "bold cyan"), f"  removed, {item.bytes / 1_000_000:.1f} MB freed")


def _pack(response: requests.DocsPackResponse, paper: Paper) -> None:
    size = f"{response.bytes / 1_000_000:.1f} MB"
    paper.line(
        (response.file, "bold cyan"),
        f"  {response.name} {response.version}: {counted(response.documents, 'document')}, {size}",
    )
    paper.line("  ", (f"sha256 {response.sha256}", "dim"))
    for skip in response.skipped:
        paper.line("  ", ("skipped ", "yellow"), f"{skip.path}: {skip.detail or skip.rule}")


def _search(response: requests.DocsSearchResponse, paper: Paper) -> None:
    for found in response.searches:
        if len(response.searches) > 1:
            paper.line((found.query, "bold"))
        for number, hit in enumerate(found.results, 1):
            _hit(number, hit, paper)
        if not found.results:
            paper.line(("Nothing found.", "bold"))
        if found.reranker_status != "off":
            paper.wrapped(("reranker: ", "bold"), found.reranker_status, hang=2)


def _hit(number: int, hit: requests.DocumentHit, paper: Paper) -> None:
    spans: list[Span] = [(f"{number:>2}  ", "dim"), (near_path(hit.opens), "bold cyan")]
    if hit.section or hit.title:
        spans += ["  ", (hit.section or hit.title, "magenta")]
    if hit.kind != "document":
        spans += ["  ", (hit.kind, "green")]
    paper.line(*spans)
    details = []
    if hit.distance is not None:
        details.append(f"distance {hit.distance:.3f} (cosine, lower is closer)")
    if hit.rerank_score is not None:
        details.append(f"relevance {hit.rerank_score:.3f}")
    if details:
        paper.line("    ", (" · ".join(details), "dim"))
    lines = [line for line in hit.content.splitlines() if line.strip()]
    for line in lines[:LINES_SHOWN]:
        paper.line("    ", paper.cut(line, 4))
    paper.line()


def _outline(response: requests.DocsOutlineResponse, paper: Paper) -> None:
    paper.line((response.document, "bold cyan"))
    for entry in response.entries:
        paper.line("  " * entry.level, entry.title, (f"  {entry.start_line}-{entry.end_line}", "dim"))
    if not response.entries:
        paper.line("  no headings")


def _section(response: requests.DocsSectionResponse, paper: Paper) -> None:
    for line in response.content.split("\n"):
        paper.line(line)


def _related(response: requests.DocsRelatedResponse, paper: Paper) -> None:
    rows: list[tuple[Span, ...]] = [
        (
            (item.document, "bold cyan"),
            ", ".join(item.relations),
            f"distance {item.distance:.3f} (cosine)" if item.distance is not None else "",
        )
        for item in response.related
    ]
    paper.table(rows)
    if not rows:
        paper.line("Nothing related.")


_RENDERERS: dict[type, Callable[[Any, Paper], None]] = {
    requests.SyncResponse: _sync,
    requests.DocsListResponse: _list,
    requests.DocsRemoveResponse: _removed,
    requests.DocsPackResponse: _pack,
    requests.DocsSearchResponse: _search,
    requests.DocsOutlineResponse: _outline,
    requests.DocsSectionResponse: _section,
    requests.DocsRelatedResponse: _related,
}
