"""Results for people: compact, the same words with and without colour."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from codeinfo.config import Config, table
from codeinfo.model import Dropped, Hit, HitContext, SearchResult
from codeinfo.operations import search
from codeinfo.shells.paper import Paper, Span, counted, near_path

FIRST_LINES = 24  # of the first hit, which is read
SNIPPET_LINES = 8  # of each other: enough to recognise it, few enough to see ten hits at once
LABEL_CHARS = 72  # a chunk of many small definitions names them all
SKIPS_SHOWN = 10
METRICS = {"squared_l2": "squared L2, lower is closer"}
STATES = {"ok": "green", "ready": "green", "warn": "yellow", "stale": "yellow", "fail": "bold red"}


def render(result: Any, paper: Paper, *, explain: bool = False, whole: bool = False) -> None:
    """Write any operation's result; `whole`: all of each hit's text, however long."""
    if isinstance(result, SearchResult):
        _search(result, paper, explain, whole)
    else:
        _RENDERERS[type(result)](result, paper)


# --- search --------------------------------------------------------------------------------------------------------


def _search(result: SearchResult, paper: Paper, explain: bool, whole: bool) -> None:
    wanted = marked_words(result.query)
    for number, hit in enumerate(result.hits, 1):
        _heading(number, hit, paper)
        if explain:
            _explain(hit, paper)
        if hit.text:
            _snippet(hit, wanted, paper, None if whole else FIRST_LINES if number == 1 else SNIPPET_LINES)
    if not result.hits:
        paper.line(("Nothing found.", "bold"))
    if result.suggestions:
        paper.wrapped(("Did you mean: ", "bold"), ", ".join(result.suggestions), hang=2)
    if explain and result.dropped:
        paper.line()
        paper.line(("Left out", "bold"))
        rows = [(f"{_shown(one)}:{one.start_line}-{one.end_line}", one.rule, one.detail) for one in result.dropped]
        paper.table(rows)
    _knowledge(result, paper, explain)
    _footer(result, paper)
    if explain:
        paper.wrapped(("reranker: ", "bold"), result.quality.reranker_status, hang=2)


def marked_words(query: str) -> set[str]:
    """The words of a query that are set off in a text: those that say something."""
    from codeinfo.search.query import STOP_WORDS
    from codeinfo.tokens import words

    return {word for word in words(query) if len(word) > 2 and word not in STOP_WORDS}


def _knowledge(result: SearchResult, paper: Paper, explain: bool) -> None:
    """What the team remembers about it, and the card before a change."""
    if not result.memories and result.preflight is None:
        return
    from codeinfo.shells import render_knowledge

    render_knowledge.memories(result.memories, paper)
    if result.preflight is not None:
        render_knowledge.card(result.preflight, paper, explain=explain)


def _heading(number: int, hit: Hit, paper: Paper) -> None:
    place = f"{_shown(hit)}:{hit.start_line}-{hit.end_line}"
    spans: list[Span] = [(f"{number:>2}  ", "dim"), (place, "bold cyan")]
    if label := hit.breadcrumb or hit.symbol:
        label = label if len(label) <= LABEL_CHARS else label[:LABEL_CHARS] + "…"
        spans += ["  ", (paper.fitted(label, len(place) + 6), "magenta")]
    paper.line(*spans)
    details = []
    if hit.distance is not None:
        metric = METRICS.get(hit.distance.metric, hit.distance.metric)
        details.append(f"distance {hit.distance.value:.3f} ({metric})")
    if hit.more:
        ranges = [str(start) if start == end else f"{start}-{end}" for start, end in hit.more]
        details.append(("also line " if ranges[0].isdecimal() else "also lines ") + ", ".join(ranges))
    if hit.context is not None:
        details += _context(hit.context)
    if details:
        paper.wrapped("    ", (" · ".join(details), "dim"), hang=4)
    if hit.context is not None:
        _around(hit.context, paper)


def _context(context: HitContext) -> list[str]:
    details = [" in ".join(filter(None, (context.type, context.layer)))] if context.type or context.layer else []
    if context.imported_by_count:
        details.append(f"imported by {counted(context.imported_by_count, 'file')}")
    if context.has_tests and not context.tests:
        details.append("has tests")
    return [*details, context.trend.lower()] if context.trend else details


def _around(context: HitContext, paper: Paper) -> None:
    for label, places in (("called by", context.callers), ("tested in", context.tests)):
        if places:
            paper.wrapped("    ", (f"{label} {', '.join(places)}", "dim"), hang=4)
    if context.pattern_warning:
        paper.wrapped("    ", (context.pattern_warning, "yellow"), hang=4)


def _shown(hit: Hit | Dropped) -> str:
    return near_path(os.path.join(hit.root, hit.path))


def _explain(hit: Hit, paper: Paper) -> None:
    ranks = ", ".join(f"{channel} #{rank}" for channel, rank in hit.ranks.items())
    paper.line("    ", (f"score {hit.score:.4f}" + (f" · {ranks}" if ranks else ""), "dim"))
    rows: list[tuple[Span, ...]] = [
        (
            (signal.name, "blue"),
            f"{signal.value:.4g}",
            f"×{signal.effect:.4g}" if signal.factor else f"{signal.effect:+.4g}",
        )
        for signal in hit.signals
    ]
    paper.table(rows, indent=6)


def _snippet(hit: Hit, wanted: set[str], paper: Paper, most: int | None) -> None:
    lines = hit.text.splitlines()
    previous = -1
    for index in range(len(lines)) if most is None else window(lines, wanted, most):
        if index != previous + 1:
            paper.line("         ", ("⋮", "dim"))
        gutter = f"{hit.text_line + index:>7} │ "
        paper.line((gutter, "dim"), *_marked(paper.cut(lines[index], len(gutter)), wanted))
        previous = index
    paper.line()


def window(lines: list[str], wanted: set[str], most: int = SNIPPET_LINES) -> list[int]:
    """The lines to show: all of a short chunk, else its first line and the stretch with most of the query's words; the
    first lines where no other has more of them than the first of all, which is what the chunk is called by."""
    if len(lines) <= most:
        return list(range(len(lines)))
    weights = [sum(word in line.lower() for word in wanted) for line in lines]
    if weights[0] and weights[0] == max(weights):
        return list(range(most))
    size = most - 2  # the first line and the gap after it take two
    slope = [1 + min(offset, size - 1 - offset) for offset in range(size)]  # a match in the middle shows its context

    def worth(start: int) -> int:
        return sum(weight * factor for weight, factor in zip(weights[start : start + size], slope, strict=True))

    best = max(range(len(lines) - size + 1), key=worth)
    while best + size < len(lines) and not lines[best].strip():
        best += 1  # an empty line shows nothing
    if best <= 2:
        return list(range(most))
    return [0, *range(best, best + size)]


def _marked(line: str, wanted: set[str]) -> list[Span]:
    """The line with the query's words set off."""
    if not wanted:
        return [line]
    import re

    pattern = re.compile("|".join(re.escape(word) for word in sorted(wanted, key=len, reverse=True)), re.IGNORECASE)
    spans: list[Span] = []
    end = 0
    for match in pattern.finditer(line):
        spans += [line[end : match.start()], (match[0], "bold yellow")]
        end = match.end()
    return [*spans, line[end:]]


def _footer(result: SearchResult, paper: Paper) -> None:
    quality = result.quality
    good = quality.status == "ok"
    spans: list[Span] = [(quality.status.replace("_", " "), "green" if good else "yellow")]
    spans.append(f" (confidence {quality.confidence:.2f})")
    if quality.reasons and not good:
        spans.append(": " + "; ".join(quality.reasons))
    read = result.intent.lower().replace("_", " ")
    count = counted(len(result.hits), "result")
    spans.append((f" · {count} · read as {read} · {result.took_ms:.0f} ms", "dim"))
    paper.wrapped(*spans, hang=2)
    if quality.hint:
        paper.wrapped(("hint: ", "bold"), quality.hint, hang=6)
    _notes(result.notes, paper)


def _notes(notes: tuple[str, ...], paper: Paper) -> None:
    for note in notes:
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)


# --- the others ----------------------------------------------------------------------------------------------------


def _index(response: search.IndexResponse, paper: Paper) -> None:
    for report in response.reports:
        how = "rebuilt" if report.rebuilt else "indexed"
        size = f"{counted(report.files, 'file')}, {counted(report.chunks, 'chunk')}"
        paper.line((report.root, "bold cyan"), f"  {how} {size} in {report.took_ms / 1000:.2f} s")
        counts = {name: getattr(report, name) for name in ("added", "changed", "renamed", "removed", "unchanged")}
        done = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        paper.line("  ", (done or "there is nothing here that can be indexed", "dim"))
        paper.line("  ", (f"vectors: {report.model_id}" if report.model_id else "keyword search only", "dim"))
        _skips(report, paper)
        _notes(report.notes, paper)


def _skips(report: search.IndexReport, paper: Paper) -> None:
    grave = [skip for skip in report.skipped if skip.matters]
    if quiet := len(report.skipped) - len(grave):
        paper.line("  ", (f"{quiet} left out by rule; `codeinfo why PATH` says which", "dim"))
    for skip in grave[:SKIPS_SHOWN]:
        paper.line("  ", ("skipped ", "yellow"), f"{skip.path}: {skip.detail or skip.rule}")
    if len(grave) > SKIPS_SHOWN:
        paper.line("  ", ("skipped ", "yellow"), f"and {len(grave) - SKIPS_SHOWN} more; --json lists them all")


def _status(report: search.StatusReport, paper: Paper) -> None:
    for item in report.indexes:
        paper.line((item.root, "bold cyan"), "  ", (item.state, STATES.get(item.state, "red")))
        rows: list[tuple[Span, Span]] = [("location", item.location)]
        if item.state != "missing":
            rows += [
                ("content", f"{counted(item.files, 'file')}, {counted(item.chunks, 'chunk')}, {megabytes(item.bytes)}"),
                ("indexed", f"{item.indexed_at or 'never finished'} (generation {item.generation})"),
                ("vectors", f"{item.model_id}, {item.dimension} dimensions" if item.model_id else "none: keyword only"),
                ("pending", f"{item.added} to add, {item.changed} changed, {item.removed} to remove"),
            ]
        if item.languages:
            by_count = sorted(item.languages.items(), key=lambda pair: (-pair[1], pair[0]))
            rows.append(("languages", ", ".join(f"{name} {count}" for name, count in by_count)))
        paper.table(rows)
        _notes(item.notes, paper)


def _why(report: search.WhyReport, paper: Paper) -> None:
    verdict: Span = ("in the index", "green") if report.included else ("left out", "yellow")
    paper.line((report.path, "bold cyan"), "  ", verdict)
    rows: list[tuple[Span, Span]] = [("rule", report.rule)]
    if report.detail:
        rows.append(("because", report.detail))
    rows.append(("root", report.root))
    if report.included and report.kind:  # a folder has none
        rows.append(("read as", f"{report.language or 'plain text'} ({report.kind})"))
        rows.append(("chunks", str(report.chunks) if report.chunks else "none yet"))
    paper.table(rows)


def _clear(report: search.ClearReport, paper: Paper) -> None:
    for item in report.cleared:
        done = f"index deleted, {megabytes(item.bytes)} freed" if item.existed else "had no index"
        paper.line((item.root, "bold cyan"), f"  {done}")


def _doctor(report: search.DoctorReport, paper: Paper) -> None:
    screen = f"{paper.width} columns" if paper.terminal else "none: plain text, no progress"
    rows = [(check.state, check.name, check.detail) for check in report.checks]
    rows.append(("ok", "terminal", screen))
    paper.table([((state, STATES.get(state, "")), name, detail) for state, name, detail in rows])
    for check in report.checks:
        if check.next_step and check.state != "ok":
            paper.wrapped((f"{check.name}: ", "bold"), check.next_step, hang=2)


def _config(config: Config, paper: Paper) -> None:
    section = ""
    for key in table():
        name, _, field = key.partition(".")
        if name != section:
            paper.line((f"[{name}]", "bold cyan"))
            section = name
        origin = config.origins[key]
        shown = _as_toml(config.value(key))
        paper.line(f"  {field} = {shown}", (f"  # {origin}", "dim" if origin == "default" else "green"))
    _notes(config.notes, paper)


def _as_toml(value: Any) -> str:
    """As a settings file would have it, so that a line can be copied there."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    import json

    return json.dumps(os.fspath(value), ensure_ascii=False)  # TOML's basic strings are written as JSON's are


def megabytes(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"


_RENDERERS: dict[type, Callable[[Any, Paper], None]] = {
    search.IndexResponse: _index,
    search.StatusReport: _status,
    search.WhyReport: _why,
    search.ClearReport: _clear,
    search.DoctorReport: _doctor,
    Config: _config,
}
