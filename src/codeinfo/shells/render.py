"""Results as text for people: compact, and the same with and without colour."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import singledispatch
from itertools import groupby
from typing import Any

from codeinfo.config import Config
from codeinfo.model import Card, Dropped, FileKind, Hit, HitContext, RelatedMemory, SearchResult, dumps
from codeinfo.operations import code, knowledge, search
from codeinfo.operations.answers import Citation
from codeinfo.operations.clients import InstallReport, ProjectsResult, SavingsReport, ToolSavings, VectorSearchResult
from codeinfo.operations.search import EvalReport
from codeinfo.settings import SETTINGS
from codeinfo.shells.terminal import Output, Span, byte_size, near_path, pairs_of, quantity, shown_root

FIRST_LINES = 36  # of the first hit, which is read
SNIPPET_LINES = 8  # of each other hit: enough to recognise it, few enough to see ten hits at once
ACTION_STYLES = {"added": "green", "updated": "green", "removed": "green", "failed": "red", "kept": "yellow"}
SKIPS_SHOWN = 10
LINE_DIGITS = 4  # minimum width of line numbers, so that code begins in one column
MARK = "bold red"  # a word of the query
CHANGES_SHOWN = 5  # wins and losses of an evaluation, unless all are asked for
METRICS = {"squared_l2": "squared L2, lower is closer"}
STATES = {
    **dict.fromkeys(("ok", "ready", "done", "valid"), "green"),
    **dict.fromkeys(("warn", "stale", "active", "expired", "revoked"), "yellow"),
    **dict.fromkeys(("fail", "failed", "missing"), "bold red"),
}


@singledispatch
def render(result: object, out: Output) -> None:
    """Write a result for people: each type of result registers its own function."""
    raise TypeError(f"no way to show {type(result).__name__}")


# --- search ----------------------------------------------------------------------------------------------------------


@render.register
def _search(result: SearchResult, out: Output) -> None:
    wanted = query_words(result.query)
    for number, hit in enumerate(result.hits, 1):
        _heading(number, hit, out)
        if out.explain:
            _explain(hit, out)
        if hit.text:
            _snippet(hit, wanted, out, None if out.whole else FIRST_LINES if number == 1 else SNIPPET_LINES)
    if not result.hits:
        out.line(("Nothing found.", "bold"))
    if result.suggestions:
        out.wrap(("Did you mean: ", "bold"), ", ".join(result.suggestions), hang=2)
    if out.explain and result.dropped:
        out.line()
        rows = [(near_lines(one), one.rule, one.detail) for one in result.dropped]
        out.table(rows, title="Left out")
    memories(result.memories, out)
    if result.preflight is not None:
        render(result.preflight, out)
    _footer(result, out)
    if out.explain:
        out.wrap(("reranker: ", "bold"), result.quality.reranker_status, hang=2)


@render.register
def _grep(result: search.GrepResult, out: Output) -> None:
    for (root, path), of_file in groupby(result.matches, key=lambda match: (match.root, match.path)):
        out.line((near_path(root, path), "bold cyan"))
        symbol = ""
        for match in of_file:
            if match.symbol != symbol:
                symbol = match.symbol
                out.line("    ", (symbol or "(outside any definition)", "magenta"))
            gutter = f"{match.line:>7}:{match.column:<4} │ "
            out.numbered(gutter, _line_of(match))
    found = f"{quantity(result.total, 'line')} in {quantity(result.files, 'file')}"
    out.line((found if result.total else "No line matches.", "bold"))
    out.notes(result.notes)


def _line_of(match: search.Match) -> list[Span]:
    """The line with its match marked; where it was cut before its match, the column is unknown."""
    start, end = match.column - 1, match.column - 1 + match.length
    if match.text.startswith("…"):
        return [match.text]
    return [match.text[:start], (match.text[start:end], MARK), match.text[end:]]


def query_words(query: str) -> set[str]:
    """The words of a query that are highlighted in a text: those that carry meaning."""
    from codeinfo.search.query import STOP_WORDS
    from codeinfo.tokens import words

    return {word for word in words(query) if len(word) > 2 and word not in STOP_WORDS}


def title_of(hit: Hit) -> str:
    """The title of a result: the heading of a document, else a symbol."""
    return (hit.breadcrumb if hit.kind is FileKind.DOCS else "") or hit.symbol


def near_lines(found: Hit | Dropped | Citation) -> str:
    return f"{near_path(found.root, found.path)}:{found.start_line}-{found.end_line}"


def _heading(number: int, hit: Hit, out: Output) -> None:
    spans: list[Span] = [(f"{number:>2}  ", "dim"), (near_lines(hit), "bold cyan")]
    if label := title_of(hit):
        spans += ["  ", (label, "magenta")]
    out.line(*spans)
    details = []
    if out.explain and hit.distance is not None:
        metric = METRICS.get(hit.distance.metric, hit.distance.metric)
        details.append(f"distance {hit.distance.value:.3f} ({metric})")
    if hit.more:
        ranges = [str(start) if start == end else f"{start}-{end}" for start, end in hit.more]
        details.append(("also line " if ranges[0].isdecimal() else "also lines ") + ", ".join(ranges))
    if hit.context is not None:
        details += _context_details(hit.context)
    if details:
        out.wrap("    ", (" · ".join(details), "dim"), hang=4)
    if hit.context is not None:
        _context_lines(hit.context, out)


def _context_details(context: HitContext) -> list[str]:
    details = [" in ".join(filter(None, (context.type, context.layer)))] if context.type or context.layer else []
    if context.imported_by_count:
        details.append(f"imported by {quantity(context.imported_by_count, 'file')}")
    if context.has_tests and not context.tests:
        details.append("has tests")
    return [*details, context.trend.lower()] if context.trend else details


def _context_lines(context: HitContext, out: Output) -> None:
    for label, places in (("called by", context.callers), ("tested in", context.tests)):
        if places:
            out.wrap("    ", (f"{label} {', '.join(places)}", "dim"), hang=4)
    if context.pattern_warning:
        out.wrap("    ", (context.pattern_warning, "yellow"), hang=4)


def _explain(hit: Hit, out: Output) -> None:
    ranks = ", ".join(f"{channel} #{rank}" for channel, rank in hit.ranks.items())
    out.line("    ", (f"score {hit.score:.4f}" + (f" · {ranks}" if ranks else ""), "dim"))
    rows: list[tuple[Span, ...]] = [
        (
            (signal.name, "blue"),
            f"{signal.value:.4g}",
            f"×{signal.effect:.4g}" if signal.factor else f"{signal.effect:+.4g}",
        )
        for signal in hit.signals
    ]
    out.table(rows, indent=6)


def _snippet(hit: Hit, wanted: set[str], out: Output, most: int | None) -> None:
    lines = hit.text.splitlines()
    coloured = out.code(hit.text, hit.path)
    digits = max(LINE_DIGITS, len(str(hit.text_line + len(lines))))
    previous = -1
    for index in range(len(lines)) if most is None else window(lines, wanted, most):
        if index != previous + 1:
            out.line(" " * (digits + 2), ("⋮", "dim"))
        gutter = f"{hit.text_line + index:>{digits + 1}} │ "
        out.numbered(gutter, mark_words(coloured[index], wanted), wraps=hit.kind is FileKind.DOCS)
        previous = index
    out.line()


def window(lines: list[str], wanted: set[str], most: int = SNIPPET_LINES) -> list[int]:
    """The lines to show: all of a short chunk, otherwise its first line and the part with most of the query's words,
    or the first lines if no other part has more of them than the first line, which names the chunk."""
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


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")  # those that names are made of


def word_spans(line: str, wanted: set[str]) -> list[tuple[int, int]]:
    """Where the query's words stand, in any form: `parses` matches `parse`."""
    from codeinfo.tokens import stem

    stems = set(map(stem, wanted))
    return [match.span() for match in _WORD.finditer(line) if stem(match[0].lower()) in stems]


def mark_words(line: Sequence[Span], wanted: set[str]) -> list[Span]:
    spans: list[Span] = []
    for text, style in pairs_of(line):
        rest = 0
        for start, end in word_spans(text, wanted):
            spans += [(text[rest:start], style), (text[start:end], MARK)]
            rest = end
        spans.append((text[rest:], style))
    return spans


def _footer(result: SearchResult, out: Output) -> None:
    quality = result.quality
    state: Span = ("confident", "green") if quality.status == "ok" else ("unsure", "yellow")
    spans: list[Span] = [state, f" ({quality.confidence:.0%})"]
    if quality.reasons:
        spans.append(": " + "; ".join(quality.reasons))
    read = f" · read as {result.intent.lower().replace('_', ' ')}" if out.explain else ""
    spans.append((f" · {quantity(len(result.hits), 'result')}{read} · {result.took_ms:.0f} ms", "dim"))
    out.wrap(*spans, hang=2)
    if quality.hint:
        out.wrap(("hint: ", "bold"), quality.hint, hang=6)
    out.notes(result.notes)


# --- memories and the card before a change ---------------------------------------------------------------------------


@render.register
def memory(item: RelatedMemory, out: Output, indent: str = "") -> None:
    state: Span = ("stale", "yellow") if item.stale else f"confidence {item.confidence:.0%}"
    out.line(indent, (item.id, "bold cyan"), f"  {item.type}, {item.category}  ", state, f"  {item.date[:10]}")
    hang = len(indent) + 2
    out.wrap(indent, "  ", item.memory, hang=hang)
    if item.reason:
        out.wrap(indent, "  ", ("because ", "dim"), item.reason, hang=hang)
    scope = f"{item.scope} · " if item.scope else ""
    origin = item.label.partition(";")[0]  # the rest is for agents
    out.wrap(indent, "  ", (f"{scope}{origin}", "dim"), hang=hang)


def memories(items: Sequence[RelatedMemory], out: Output) -> None:
    """Related memories below other output."""
    if items:
        out.line(("Related memories", "bold"))
        for item in items:
            memory(item, out, "  ")


@render.register
def _card(item: Card, out: Output) -> None:
    state: Span = ("ready", "bold green") if item.ready else ("not ready", "bold yellow")
    out.line(state, f"  {item.score:g} points")
    if item.next_action:
        out.wrap(("next: ", "bold"), item.next_action, hang=6)
    if item.patterns:
        section("Do", item.patterns.do, out)
        section("Avoid", item.patterns.avoid, out)
    if item.best_example:
        out.line(("Best example  ", "bold"), item.best_example)
    if item.impact:
        out.line(("Impact  ", "bold"), item.impact.coverage)
        for file in item.impact.files:
            out.line("  ", file)
    section("Warnings", item.warnings, out)
    section("What would help", item.what_would_help, out)
    if out.explain:
        rows = [(f"{p.points:+g} of {p.most:g}" if p.most else "withdrawn", p.name, p.reason) for p in item.reckoning]
        out.table(rows)


def section(title: str, lines: Sequence[str], out: Output) -> None:
    if lines:
        out.line((title, "bold"))
        for line in lines:
            out.wrap("  ", line, hang=4)


# --- the index -------------------------------------------------------------------------------------------------------


@render.register
def _index(response: search.IndexResponse, out: Output) -> None:
    for report in response.reports:
        how = "rebuilt" if report.rebuilt else "indexed"
        size = f"{quantity(report.files, 'file')}, {quantity(report.chunks, 'chunk')}"
        out.line((shown_root(report.root), "bold cyan"), f"  {how} {size} in {report.took_ms / 1000:.2f} s")
        counts = {name: getattr(report, name) for name in ("added", "changed", "renamed", "removed", "unchanged")}
        done = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        out.line("  ", (done or "nothing here can be indexed", "dim"))
        out.line("  ", (f"vectors: {report.model_id}" if report.model_id else "keyword search only", "dim"))
        _skipped_files(report, out)
        out.notes(report.notes if out.verbose else _merge_mask_notes(report.notes))


_MASKED = re.compile(r".*: (\d+) secrets masked")


def _merge_mask_notes(notes: Sequence[str]) -> list[str]:
    """One line for all files with masked secrets: a large repository has many, nearly all of them in tests."""
    masked = [match for note in notes if (match := _MASKED.fullmatch(note))]
    if len(masked) < 2:
        return list(notes)
    count = sum(int(match[1]) for match in masked)
    others = [note for note in notes if not _MASKED.fullmatch(note)]
    return [*others, f"{count} secrets masked in {len(masked)} files; --verbose lists them"]


def _skipped_files(report: search.IndexReport, out: Output) -> None:
    important = [skip for skip in report.skipped if skip.matters]
    if quiet := len(report.skipped) - len(important):
        out.line("  ", (f"{quiet} excluded by a rule; `codeinfo why PATH` shows which", "dim"))
    shown = len(important) if out.verbose else SKIPS_SHOWN
    for skip in important[:shown]:
        out.line("  ", ("skipped ", "yellow"), f"{skip.path}: {skip.detail or skip.rule}")
    if len(important) > shown:
        out.line("  ", ("skipped ", "yellow"), f"and {len(important) - shown} more; --verbose lists them all")


@render.register
def _status(report: search.StatusReport, out: Output) -> None:
    for item in report.indexes:
        out.line((shown_root(item.root), "bold cyan"), "  ", (item.state, STATES.get(item.state, "red")))
        rows: list[tuple[Span, Span]] = [("location", item.location)]
        if item.state != "missing":
            rows += [
                (
                    "content",
                    f"{quantity(item.files, 'file')}, {quantity(item.chunks, 'chunk')}, {byte_size(item.bytes)}",
                ),
                ("indexed", f"{item.indexed_at or 'never finished'} (generation {item.generation})"),
                ("vectors", f"{item.model_id}, {item.dimension} dimensions" if item.model_id else "none: keyword only"),
                ("pending", f"{item.added} to add, {item.changed} changed, {item.removed} to remove"),
            ]
        if item.shared_with:
            rows.append(("shared", f"{quantity(item.shared_chunks, 'chunk')} with {', '.join(item.shared_with)}"))
        if item.kept_chunks:
            rows.append(("kept", f"{quantity(item.kept_chunks, 'chunk')} of other checkouts, for when they come back"))
        if item.languages:
            by_count = sorted(item.languages.items(), key=lambda pair: (-pair[1], pair[0]))
            rows.append(("languages", ", ".join(f"{name} {count}" for name, count in by_count)))
        out.table(rows)
        out.notes(item.notes)


@render.register
def _why(report: search.WhyReport, out: Output) -> None:
    verdict: Span = ("in the index", "green") if report.included else ("left out", "yellow")
    out.line((report.path, "bold cyan"), "  ", verdict)
    rows: list[tuple[Span, Span]] = [("rule", report.rule)]
    if report.detail:
        rows.append(("because", report.detail))
    rows.append(("root", report.root))
    if report.included and report.kind:  # a folder has none
        rows.append(("read as", f"{report.language or 'plain text'} ({report.kind})"))
        rows.append(("chunks", str(report.chunks) if report.chunks else "none yet"))
    out.table(rows)


@render.register
def _clear(report: search.ClearReport, out: Output) -> None:
    for item in report.cleared:
        done = f"index deleted, {byte_size(item.bytes)} freed" if item.existed else "had no index"
        out.line((shown_root(item.root), "bold cyan"), f"  {done}")


@render.register
def _doctor(report: search.DoctorReport, out: Output) -> None:
    screen = f"{out.width} columns" if out.terminal else "none: plain text, no progress"
    rows = [(check.state, check.name, check.detail) for check in report.checks]
    rows.append(("ok", "terminal", screen))
    out.table([((state, STATES.get(state, "")), name, detail) for state, name, detail in rows])
    for check in report.checks:
        if check.next_step and check.state != "ok":
            out.wrap((f"{check.name}: ", "bold"), check.next_step, hang=2)


@render.register
def _config(config: Config, out: Output) -> None:
    section = ""
    for key in SETTINGS:
        name, _, field = key.partition(".")
        if name != section:
            out.line((f"[{name}]", "bold cyan"))
            section = name
        origin = config.origins[key]
        shown = _as_toml(config.shown(key))
        out.line(f"  {field} = {shown}", (f"  # {origin}", "dim" if origin == "default" else "green"))
    out.notes(config.notes)


def _as_toml(value: Any) -> str:
    """As written in a settings file, so that a line can be copied there."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    import json

    return json.dumps(os.fspath(value), ensure_ascii=False)  # TOML's basic strings are written as JSON's are


# --- clients ---------------------------------------------------------------------------------------------------------


@render.register
def _install(report: InstallReport, out: Output) -> None:
    for change in report.changes:
        action = f"would be {change.action}" if report.dry_run and change.diff else change.action
        out.line((action, ACTION_STYLES.get(change.action, "")), f"  {change.client}  ", (change.path, "dim"))
        if change.detail:
            out.line(f"    {change.detail}")
        if report.dry_run:
            for line in change.diff.splitlines():
                out.line(f"    {line}")
    for note in report.notes:
        out.line(note)
    if any(change.action in ("added", "updated") for change in report.changes) and not report.dry_run:
        out.line("Restart these clients to use it.")


@render.register
def _savings(report: SavingsReport, out: Output) -> None:
    if not report.calls:
        out.wrap("No agent has called a tool in this time. `codeinfo install` adds CodeInfo to your agents.", hang=2)
        return
    for day in report.days:
        out.line((day.day, "bold"))
        out.table([_savings_row(one) for one in day.tools])
    out.line(f"{quantity(report.calls, 'call')}: about {report.saved:,} tokens saved ({report.returned:,} returned)")


def _savings_row(one: ToolSavings) -> tuple[str, ...]:
    figures = (f"{one.returned:,} returned", f"{one.files:,} in files", f"{one.saved:,} saved")
    return one.tool, quantity(one.calls, "call"), *figures


@render.register
def _projects(result: ProjectsResult, out: Output) -> None:
    rows = [(one.name, one.state, quantity(one.files, "file"), shown_root(one.root)) for one in result.projects]
    none = "Nothing is indexed yet: a first search in a folder indexes it, or `codeinfo index`."
    out.table(rows, indent=0, empty=none)


@render.register
def _matches(result: VectorSearchResult, out: Output) -> None:
    for match in result.results:
        out.line((match.relPath, "bold"), f"  {match.repo}, distance {match.score}")
        for line in match.chunk.splitlines()[:8]:
            out.line(f"    {line}")


# --- evaluation ------------------------------------------------------------------------------------------------------


@render.register
def _evaluation(result: EvalReport, out: Output) -> None:
    """The whole report; with `explain` every win, loss and miss."""
    from codeinfo.evals import report as evaluation
    from codeinfo.evals.metrics import LOWER_IS_BETTER

    vectors = result.model_id or "keyword search only"
    size = f"{quantity(result.files, 'file')}, {quantity(result.chunks, 'chunk')}"
    content = f"  {size} indexed in {result.index_ms / 1000:.1f} s, {vectors}"
    out.wrap((result.dataset, "bold cyan"), content, hang=2)
    for by in ("all", "language", "category"):
        _figures(evaluation.figures_table(result.groups, by), out)
    for comparison in result.comparisons:
        out.line(("against ", "bold"), comparison.name, ("  " + evaluation.comparison_line(comparison), "dim"))
        for title, changes in (("largest gains", comparison.wins), ("largest losses", comparison.losses)):
            if changes:
                out.line(f"  {title}")
                out.table(evaluation.changes_table(changes, None if out.explain else CHANGES_SHOWN), indent=4)
        out.line()
    misses = evaluation.misses_table(result.outcomes)
    out.line(f"{len(misses)} of {len(result.outcomes)} queries have no relevant file in the first ten")
    if out.explain:
        out.table(misses)
    for verdict in result.verdicts:
        sign = "≤" if verdict.metric in LOWER_IS_BETTER else "≥"
        value = "not measured" if verdict.value is None else f"{verdict.value:.4f}"
        state = ("passed", "green") if verdict.passed else ("FAILED", "bold red")
        out.line(f"gate {verdict.metric} {sign} {verdict.wanted:g}: {value}  ", state)
    out.notes(result.notes)


def _figures(table: Sequence[Sequence[str]], out: Output) -> None:
    for part in _fit_table(table, out) if len(table) > 1 else ():
        head, *rows = part
        out.table([[(cell, "bold") for cell in head], *rows])
        out.line()


def _fit_table(table: Sequence[Sequence[str]], out: Output) -> list[list[tuple[str, ...]]]:
    """The table, or several with fewer columns for a narrow terminal, each with the first column."""
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    cuts, used = [1], 0
    for column, width in enumerate(widths[1:], 1):
        if out.terminal and used and widths[0] + used + width > out.width:
            cuts.append(column)
            used = 0
        used += width
    bounds = zip(cuts, [*cuts[1:], len(widths)], strict=True)
    return [[(row[0], *row[start:end]) for row in table] for start, end in bounds]


# --- code and the graph of files -------------------------------------------------------------------------------------

SEVERITIES = {"high": "bold red", "medium": "yellow", "low": ""}
BAR = 8  # characters
_EIGHTHS = tuple(" ▏▎▍▌▋▊▉")
KIND = 11  # characters; "interface " and the like


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
        out.line(("Nothing is defined there.", "bold"))
    out.notes(result.notes)


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
            edge = f" {usage.edge.lower():<15} "
            preview = out.fit(usage.preview, 9 + len(edge))
            out.line((f"{usage.line:>7} ", "dim"), _PROOF[usage.confidence], (edge, "magenta"), preview)
    _more(len(result.usages), result.usage_count, out)
    syntactic = result.usage_count - result.resolved_count
    found = f"{quantity(result.usage_count, 'use')} in {quantity(result.file_count, 'file')}"
    proven = f"{result.compiler_count} by the compiler, " if result.compiler_count else ""
    found += f": {proven}{result.resolved_count - result.compiler_count} resolved, {syntactic} by name only"
    out.line((found, "dim"), ("" if result.is_complete else ", not complete", "yellow"))
    out.notes(result.notes)


def _definition(symbol: code.SymbolInfo, out: Output) -> tuple[Span, ...]:
    return _place(symbol.path, symbol.start_line, out), (symbol.kind, "magenta"), symbol.qualified


@render.register
def _exploration(result: code.Exploration, out: Output) -> None:
    is_file = result.kind == "file"
    out.line((out.near(result.place), "bold cyan"))
    for line in result.code.splitlines():
        out.line("  ", line)
    if is_file or len(result.definitions) > 1:
        out.line(("defines" if is_file else "definitions", "bold"))
        out.table([_definition(symbol, out) for symbol in result.definitions])
    section("imported by" if is_file else "used by", tuple(map(out.near, result.callers)), out)
    section("imports" if is_file else "uses", tuple(map(out.near, result.callees)), out)
    section("tests", tuple(map(out.near, result.tests)), out)
    section("commits", result.history, out)
    memories(result.memories, out)
    for name, total in result.totals.items():
        out.line((f"{total} {name} in all; raise --limit to see them", "dim"))
    out.notes(result.notes)


@render.register
def _calls(result: code.CallGraph, out: Output) -> None:
    out.table([_definition(symbol, out) for symbol in result.definitions], indent=0)
    for title, edges, end in (("called by", result.callers, "source"), ("calls", result.callees, "target")):
        out.line((f"{title} ({len(edges)})", "bold"))
        out.table([_call_row(edge, getattr(edge, end), out) for edge in edges])
    heritage = [edge for edge in result.related if edge.kind in ("EXTENDS", "IMPLEMENTS")]
    for edge in heritage:
        out.line((edge.kind.lower(), "bold"), f"  {edge.target}")
    if result.unattributed:
        calls = quantity(result.unattributed, "more call")
        out.line((f"{calls} by this name could not be attributed", "yellow"))
    if result.unattributed_callees:
        out.line((f"{quantity(result.unattributed_callees, 'call')} that it makes could not be attributed", "yellow"))
    if not result.is_complete:
        out.line(("not complete: raise --limit to see all", "yellow"))
    out.notes(result.notes)


def _call_row(edge: code.CodeEdge, other: str, out: Output) -> tuple[Span, ...]:
    """The place of the call and its other end, without the file if it is the same."""
    unsure: Span = _PROOF[edge.confidence]
    kind = "" if edge.kind == "CALLS" else f"  ({edge.kind.lower().replace('_', ' ')})"
    name = other.removeprefix(f"{edge.path}::")
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
        out.line(
            (f"{cycle.severity:<7}", SEVERITIES[cycle.severity]),
            quantity(len(cycle.files), "file"),
            (f"  {cycle.timing}" if cycle.timing else "", "dim"),
        )
        for path, line in zip(cycle.files, cycle.lines, strict=True):
            out.line("    ", _place(path, line, out), " →")
        out.line("    ", (out.near(cycle.files[0]), "dim"))
    _more(len(result.cycles), result.total, out)
    seen = f"{quantity(result.files, 'file')}, {quantity(result.edges, 'import')}, {result.external} external"
    state = "bold red" if result.total else "green"
    out.line((quantity(result.total, "cycle"), state), (f"  {seen}, {result.unresolved} unresolved", "dim"))
    if result.lazy or result.types:
        more = f"{result.lazy} that lazy imports close, {result.types} that exist for compilers and type checkers only"
        out.line(("besides: ", "dim"), (f"{more} (--deferred lists them)", "dim"))


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
    out.notes(result.notes)


@render.register
def _hotspots(result: code.HotspotReport, out: Output) -> None:
    out.table([_hot_row(item, out.near(item.path)) for item in result.hotspots])
    _more(len(result.hotspots), result.total, out)
    commits, days = quantity(result.commits, "commit"), quantity(result.days, "day")
    out.line((f"{commits} in {days}; score is commits × lines", "dim"))
    out.notes(result.notes)


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
    out.line((f"{result.total} of {result.examined} exported definitions", "bold"))
    out.notes(result.notes)


@render.register
def _map(result: code.CodeMap, out: Output) -> None:
    if result.picture:
        out.lines(result.picture.rstrip("\n"))
        return
    languages = ", ".join(f"{name} {count}" for name, count in list(result.languages.items())[:6])
    sizes = ((result.files, "file"), (result.edges, "import"), (result.cycles, "cycle"))
    out.line((shown_root(result.root), "bold cyan"), "  " + ", ".join(quantity(*size) for size in sizes))
    out.line(("  " + (languages or "no code"), "dim"))
    if result.area_files:
        _section("Files of the area", [(f.path, f"imported by {f.imported_by}") for f in result.area_files], out)
        return
    _section("Entry points", [(f.path, f"imports {f.imports}") for f in result.entry_points], out)
    rows = [(f"{_bar(f.centrality)} {f.path}", f"imported by {f.imported_by}") for f in result.hubs]
    _section("Hubs", rows, out)
    _layers(result.areas, out)
    _section("Key types", [(f"{s.kind} {s.qualified}", f"{s.path}:{s.start_line}") for s in result.interfaces], out)
    out.table([_hot_row(item, item.path) for item in result.hotspots], title="Hotspots")
    out.notes(result.notes)


def _section(title: str, rows: Sequence[tuple[str, str]], out: Output) -> None:
    out.table([(left, (right, "dim")) for left, right in rows], title=title)


def _layers(areas: Sequence[code.MapArea], out: Output) -> None:
    if not areas:
        return
    common = _common_folder([area.name for area in areas])
    below = f" below {common}" if common else ""
    out.line(("Layers", "bold"), (f"{below}  upper layers import lower ones", "dim"))
    if any(area.in_cycle for area in areas):
        out.line(("  mutual: areas that import each other, directly or through others", "dim"))
    rows: list[tuple[Span, ...]] = []
    for area in sorted(areas, key=lambda area: -area.layer):
        listed = ", ".join(name.removeprefix(common) for name in list(area.needs)[:4])
        needs = listed + ("…" if len(area.needs) > 4 else "")
        name = (area.name.removeprefix(common), "red" if area.in_cycle else "cyan")
        mutual = ("mutual" if area.in_cycle else "", "red")
        imports = (f"→ {needs}" if needs else "", "dim")
        rows.append(((f"{area.layer:>2}", "dim"), name, quantity(area.files, "file"), mutual, imports))
    if not any(area.in_cycle for area in areas):
        rows = [(*row[:3], row[4]) for row in rows]
    out.table(rows)


LONG_FOLDER = 3  # levels: Java packages make every line too long to read


def _common_folder(paths: Sequence[str]) -> str:
    """The common folder of all paths, with a trailing slash, if it is a long one."""
    start = os.path.commonpath([path.rpartition("/")[0] for path in paths])
    return f"{start}/" if start.count("/") + 1 >= LONG_FOLDER else ""


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
    several = len({pattern.area for pattern in report.patterns}) > 1
    for area, inside in groupby(report.patterns, key=lambda p: p.area):
        if several:
            out.line(("The top folder's package" if area == "." else area, "bold cyan"))
        for (category, question, language), group in groupby(
            inside, key=lambda p: (p.category, p.question, p.language)
        ):
            out.line((category, "bold"), f": {question}", (f", {language}", "dim"))
            out.table([_pattern_row(pattern) for pattern in group])
    for conflict in report.conflicts:
        one, other = (f"{n} {a} %" for n, a in zip(conflict.patterns, conflict.adoption, strict=True))
        where = "" if conflict.area == "." else f" in {conflict.area}"
        text = f"{conflict.question}{where} ({conflict.language}): {one} against {other}"
        out.wrap(("conflict ", "bold yellow"), text, hang=9)
    golden = [
        (g.path, f"{len(g.patterns)} preferred patterns", f"{g.density:g} uses in 100 lines")
        for g in report.golden_files
    ]
    out.table(golden, title="Golden files")
    if not report.patterns:
        out.line("No patterns found.")
    memories(report.memories, out)
    out.notes(report.notes)


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
        (", ".join((*evidence, pattern.examples[0])), "dim"),
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
    out.table([(name, quantity(one.files, "file"), quantity(one.lines, "line")) for name, one in sizes])
    frameworks = [(item.name, item.version or "-", (item.evidence, "dim")) for item in report.frameworks]
    out.table(frameworks, title="Frameworks")
    tests = report.tests
    tools = ", ".join(tests.frameworks) or "no framework named"
    out.line(
        ("Tests", "bold"),
        f"  {quantity(tests.files, 'file')}, {tools}" + (f", run with {tests.command}" if tests.command else ""),
    )
    shown = report.dependencies[:DEPENDENCIES_SHOWN]
    rows = [(item.name, item.version or "-", item.group or "-", (item.source, "dim")) for item in shown]
    out.table(rows, title="Dependencies")
    if len(shown) < len(report.dependencies):
        out.line((f"  and {len(report.dependencies) - len(shown)} more; --json lists them all", "dim"))
    out.notes(report.notes)


@render.register
def _style(report: knowledge.StyleReport, out: Output) -> None:
    for origin, rules in groupby(report.rules, key=lambda rule: (rule.source.rpartition(":")[0], rule.origin)):
        out.line((origin[1], "bold"), ("  " + origin[0], "dim"))
        out.table([_style_row(rule) for rule in rules])
    if not report.rules:
        out.line("No style rules found.")
    out.notes(report.notes)


def _style_row(rule: knowledge.StyleRule) -> tuple[Span, ...]:
    also = f"and {len(rule.also)} more" if rule.also else ""
    return (rule.source.rpartition(":")[2], "dim"), rule.rule, (also, "dim")


# --- review --------------------------------------------------------------------------------------------------------


@render.register
def _review(packet: knowledge.ReviewPacket, out: Output) -> None:
    if not packet.files:
        out.line(f"Nothing differs from {packet.base[:12]}: --base names another commit to compare with.")
        return
    out.line(("against ", "bold"), packet.base[:12])
    out.table([(item.state, item.path, f"+{item.added} -{item.removed}") for item in packet.files])
    section("To look at", [f"{one.kind}  {one.place}  {one.message}" for one in packet.findings], out)
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
