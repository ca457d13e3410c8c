"""Results as text for people: compact, and the same with and without colour."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from itertools import chain, groupby
from typing import Any

from codeinfo.config import Config
from codeinfo.model import (
    Card,
    Dropped,
    FileKind,
    Hit,
    HitContext,
    Quality,
    RelatedMemory,
    SearchResult,
    Skip,
    quantity,
    shown_root,
    split_lines,
)
from codeinfo.operations import search
from codeinfo.operations.answers import Citation
from codeinfo.operations.clients import InstallReport, ProjectsResult, SavingsReport, VectorSearchResult
from codeinfo.settings import SETTINGS
from codeinfo.shells.terminal import (
    LEAST_COLUMN,
    LINE_DIGITS,
    Output,
    Span,
    byte_size,
    cells,
    clean,
    near_path,
    pairs_of,
)
from codeinfo.tokens import stem, words

FIRST_LINES = 36  # of the first hit, which is read
SNIPPET_LINES = 8  # of each other hit: enough to recognise it, few enough to see ten hits at once
ACTION_STYLES = {"added": "green", "updated": "green", "removed": "green", "failed": "red", "kept": "yellow"}
SKIPS_SHOWN = 10
MARK = "bold red"  # a word of the query
QUERY_SHOWN = 70  # characters of a query in a table
CHANGES_SHOWN = 5  # wins and losses of an evaluation, unless all are asked for
STATES = {
    **dict.fromkeys(("ok", "ready", "done", "valid"), "green"),
    **dict.fromkeys(("warn", "stale", "active", "expired", "revoked"), "yellow"),
    **dict.fromkeys(("fail", "failed", "missing"), "bold red"),
}


@singledispatch
def render(result: object, out: Output) -> None:
    """Write a result for people: each type of result registers its own function."""
    raise TypeError(f"no way to show {type(result).__name__}")


def register_table(kind: type, field: str, row_of: Callable[[Any], Sequence[Span]], empty: str) -> None:
    """For results that are a list: each item of the field is a row."""

    @render.register(kind)
    def show(result: Any, out: Output) -> None:
        out.table([row_of(item) for item in getattr(result, field)], indent=0, empty=empty)


# --- search ----------------------------------------------------------------------------------------------------------


@render.register
def _search(result: SearchResult, out: Output) -> None:
    terms = query_words(result.query)
    for number, hit in enumerate(result.hits, 1):
        _heading(number, hit, out)
        if out.explain:
            _explain(hit, out)
        if hit.text:
            _snippet(hit, terms, out, None if out.whole else FIRST_LINES if number == 1 else SNIPPET_LINES)
    if result.suggestions:
        out.wrap(("Did you mean: ", "bold"), ", ".join(result.suggestions), hang=2)
    if out.explain and result.dropped:
        out.line()
        out.table([(near_lines(place), place.rule, place.detail) for place in result.dropped], title="Left out")
    memories(result.memories, out)
    if result.preflight is not None:
        render(result.preflight, out)
    read = f" · read as {result.intent.lower().replace('_', ' ')}" if out.explain else ""
    footer(result.quality, "result", len(result.hits), f"{read} · {result.took_ms:.0f} ms", out)
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
            gutter, (start, end) = f"{match.line:>7}:{match.column:<4} │ ", match.span
            matched = match.text[start:end]
            before = _fit_before(match.text[:start], matched, out, len(gutter))
            out.numbered_line(gutter, [before, (matched, MARK), match.text[end:]])
    counted = f"{quantity(result.total, 'line')} in {quantity(result.files, 'file')}"
    out.line((counted if result.total else "No line matches.", "bold"))


def _fit_before(before: str, matched: str, out: Output, used: int) -> str:
    """The text before a match; only its end if the match would not fit into the line."""
    room = max(LEAST_COLUMN, out.width - used)
    before = clean(before)
    end = before[-(room // 3) :]
    return before if cells(before) + cells(matched) < room or end == before else f"…{end}"


def query_words(query: str) -> set[str]:
    """The words of a query that are highlighted in a text: those that carry meaning."""
    from codeinfo.search.query import STOP_WORDS

    return {word for word in words(query) if len(word) > 2 and word not in STOP_WORDS}


def title_of(hit: Hit) -> str:
    """The title of a result: the heading of a document, else a symbol."""
    return (hit.breadcrumb if hit.kind is FileKind.DOCS else "") or hit.symbol


def near_lines(place: Hit | Dropped | Citation) -> str:
    return f"{near_path(place.root, place.path)}:{place.start_line}-{place.end_line}"


def _heading(number: int, hit: Hit, out: Output) -> None:
    spans: list[Span] = [(f"{number:>2}  ", "dim"), (near_lines(hit), "bold cyan")]
    if label := title_of(hit):
        spans += ["  ", (label, "magenta")]
    out.line(*spans)
    details, context = [], hit.context or HitContext()
    if out.explain and hit.distance is not None:
        details.append(f"distance {hit.distance.value:.3f} (squared L2, lower is closer)")
    if hit.more:
        ranges = [str(start) if start == end else f"{start}-{end}" for start, end in hit.more]
        details.append(("also line " if ranges[0].isdecimal() else "also lines ") + ", ".join(ranges))
    if context.type or context.layer:
        details.append(" in ".join(filter(None, (context.type, context.layer))))
    if context.imported_by_count:
        details.append(f"imported by {quantity(context.imported_by_count, 'file')}")
    if context.has_tests and not context.tests:
        details.append("has tests")
    if context.trend:
        details.append(f"uses a {context.trend.lower()} pattern")
    if details:
        out.wrap("    ", (" · ".join(details), "dim"), hang=4)
    for label, places in (("called by", context.callers), ("tested in", context.tests)):
        if places:
            out.wrap("    ", (f"{label} {', '.join(places)}", "dim"), hang=4)
    if context.pattern_warning:
        out.wrap("    ", (context.pattern_warning, "yellow"), hang=4)


def _explain(hit: Hit, out: Output) -> None:
    ranks = ", ".join(f"{channel} #{rank}" for channel, rank in hit.ranks.items())
    out.line("    ", (f"score {hit.score:.4f}" + (f" · {ranks}" if ranks else ""), "dim"))
    rows: list[tuple[Span, ...]] = []
    for signal in hit.signals:
        effect = f"×{signal.effect:.4g}" if signal.factor else f"{signal.effect:+.4g}"
        rows.append(((signal.name, "blue"), f"{signal.value:.4g}", effect))
    out.table(rows, indent=6)


def _snippet(hit: Hit, terms: set[str], out: Output, most: int | None) -> None:
    lines = split_lines(hit.text)
    coloured = out.code(hit.text, hit.path)
    digits = max(LINE_DIGITS, len(str(hit.text_line + len(lines))))
    shown = range(len(lines)) if most is None else window(lines, terms, most, hit.symbol)
    previous = shown[0] - 1
    for index in shown:
        if index != previous + 1:
            out.line(" " * (digits + 2), ("⋮", "dim"))
        gutter = f"{hit.text_line + index:>{digits + 1}} │ "
        out.numbered_line(gutter, mark_words(coloured[index], terms), wraps=hit.kind is FileKind.DOCS)
        previous = index
    out.line()


def window(lines: list[str], terms: set[str], most: int = SNIPPET_LINES, symbol: str = "") -> list[int]:
    """The lines to show: all of a short chunk, otherwise its head, which is the line that names the symbol or the first
    one, and the part with most of the query's words, or the lines from the head on if no line has more of them."""
    if len(lines) <= most:
        return list(range(len(lines)))
    terms_of_lines = [{stem(line[start:end].lower()) for start, end in word_spans(line, terms)} for line in lines]
    lines_with = Counter(chain.from_iterable(terms_of_lines))
    # A word of every line says little.
    weights = [sum(1 / lines_with[word] for word in words) for words in terms_of_lines]
    named = re.compile(rf"\b{re.escape(symbol.rpartition('.')[2])}\b") if symbol else None
    head = next((at for at, line in enumerate(lines) if named and named.search(line)), 0)

    def run(start: int) -> list[int]:
        return list(range(min(start, len(lines) - most), len(lines)))[:most]

    if weights[head] and weights[head] == max(weights):
        return run(head)
    size = most - 2  # the head and the gap after it take two
    slope = [1 + min(offset, size - 1 - offset) for offset in range(size)]  # a match in the middle shows its context

    def worth(start: int) -> float:
        return sum(weight * factor for weight, factor in zip(weights[start : start + size], slope, strict=True))

    best = max(range(len(lines) - size + 1), key=worth)
    while best + size < len(lines) and not lines[best].strip():
        best += 1  # an empty line shows nothing
    parts = sorted({head, *range(best, best + size)})
    return run(parts[0]) if parts[-1] < parts[0] + most else parts


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")  # those that names are made of


def word_spans(line: str, terms: set[str]) -> list[tuple[int, int]]:
    """Where the query's words stand, in any form: `parses` matches `parse`."""
    stems = set(map(stem, terms))
    return [match.span() for match in _WORD.finditer(line) if stem(match[0].lower()) in stems]


def mark_words(line: Sequence[Span], terms: set[str]) -> list[Span]:
    spans: list[Span] = []
    for text, style in pairs_of(line):
        rest = 0
        for start, end in word_spans(text, terms):
            spans += [(text[rest:start], style), (text[start:end], MARK)]
            rest = end
        spans.append((text[rest:], style))
    return spans


def footer(quality: Quality, noun: str, count: int, rest: str, out: Output) -> None:
    """How likely a right file is among the first three, why, and what to try instead."""
    colour = "green" if quality.status == "ok" else "yellow"
    state: Span = (f"{quality.confidence:.0%} sure", colour) if count else ("Nothing found", "bold")
    reasons = (" · " if count else ": ") + "; ".join(quality.reasons) if quality.reasons else ""
    out.wrap(state, reasons, (f" · {quantity(count, noun)}{rest}", "dim"), hang=2)
    if quality.hint:
        out.wrap(("hint: ", "bold"), quality.hint, hang=6)


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
        out.line(("Impact  ", "bold"), str(item.impact))
        for file in item.impact.files:
            out.line("  ", file)
    section("Warnings", item.warnings, out)
    section("What would help", item.what_would_help, out)
    if out.explain:
        rows = [(f"{p.points:+g} of {p.most:g}" if p.most else "withdrawn", p.name, p.reason) for p in item.breakdown]
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
        names = ("added", "changed", "renamed", "removed", "unchanged")
        done = count_changes({name: getattr(report, name) for name in names})
        out.line("  ", (done or "nothing here can be indexed", "dim"))
        out.line("  ", (f"vectors: {report.model_id}" if report.model_id else "keyword search only", "dim"))
        _skipped_files(report, out)
        out.notes(report.notes if out.verbose else _merge_file_notes(report.notes))


def count_changes(counts: Mapping[str, int]) -> str:
    """`3 added, 1,204 unchanged`."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


_FILE_NOTES = (
    (re.compile(r".*: (\d+) secrets? masked"), "secrets masked"),
    (re.compile(r".*: (\d+) invalid byte sequences replaced"), "invalid byte sequences replaced"),
)


def _merge_file_notes(notes: Sequence[str]) -> list[str]:
    """One line for all files with masked secrets, and one for invalid bytes: a large repository has many."""
    merged = list(notes)
    for expression, what in _FILE_NOTES:
        matches = [match for note in notes if (match := expression.fullmatch(note))]
        if len(matches) > 1:
            merged = [note for note in merged if not expression.fullmatch(note)]
            total = sum(int(match[1]) for match in matches)
            merged.append(f"{total} {what} in {len(matches)} files; --verbose lists them")
    return merged


def _skipped_files(report: search.IndexReport, out: Output) -> None:
    important = [skip for skip in report.skipped if skip.matters]
    if quiet := len(report.skipped) - len(important):
        out.line("  ", (f"{quiet} excluded by a rule; `codeinfo why PATH` shows which", "dim"))
    shown = len(important) if out.verbose else SKIPS_SHOWN
    list_skips(important[:shown], out)
    if len(important) > shown:
        out.line("  ", ("skipped ", "yellow"), f"and {len(important) - shown} more; --verbose lists them all")


def list_skips(skips: Sequence[Skip], out: Output) -> None:
    for skip in skips:
        out.line("  ", ("skipped ", "yellow"), f"{skip.path}: {skip.detail or skip.rule}")


@render.register
def _status(report: search.StatusReport, out: Output) -> None:
    for item in report.indexes:
        out.line((shown_root(item.root), "bold cyan"), "  ", (item.state, STATES.get(item.state, "red")))
        rows: list[tuple[Span, Span]] = [("location", item.location)]
        if item.state == "missing":
            rows.append(("content", "nothing yet: a first search indexes it, or `codeinfo index`"))
        else:
            size = f"{quantity(item.files, 'file')}, {quantity(item.chunks, 'chunk')}, {byte_size(item.bytes)}"
            vectorless = "none: keyword only" if item.files else "none yet"
            pending = {"to add": item.added, "changed": item.changed, "to remove": item.removed}
            rows += [
                ("content", size),
                ("indexed", f"{item.indexed_at or 'never finished'} (generation {item.generation})"),
                ("vectors", f"{item.model_id}, {item.dimension} dimensions" if item.model_id else vectorless),
                ("pending", count_changes(pending) or "nothing"),
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
    checks = (*report.checks, search.Check("terminal", "ok", screen))
    out.table([((check.state, STATES.get(check.state, "")), check.name, check.detail) for check in checks])
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


def _as_toml(value: Any) -> str:
    """As written in a settings file, so that a line can be copied there."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
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
    if any(change.action in ("added", "updated") for change in report.changes) and not report.dry_run:
        out.line("Restart these clients to use it.")


@render.register
def _savings(report: SavingsReport, out: Output) -> None:
    if not report.calls:
        out.wrap("No agent has called a tool in this time. `codeinfo install` adds CodeInfo to your agents.", hang=2)
        return
    for day in report.days:
        out.line((day.day, "bold"))
        rows = []
        for tool in day.tools:
            figures = f"{tool.returned:,} returned", f"{tool.files:,} in files", f"{tool.saved:,} saved"
            rows.append((tool.tool, quantity(tool.calls, "call"), *figures))
        out.table(rows)
    out.line(f"{quantity(report.calls, 'call')}: about {report.saved:,} tokens saved ({report.returned:,} returned)")


register_table(
    ProjectsResult,
    "projects",
    lambda project: (project.name, project.state, quantity(project.files, "file"), shown_root(project.root)),
    "Nothing is indexed yet: a first search in a folder indexes it, or `codeinfo index`.",
)


@render.register
def _matches(result: VectorSearchResult, out: Output) -> None:
    for match in result.results:
        out.line((match.relPath, "bold"), f"  {match.repo}, distance {match.score}")
        for line in match.chunk.splitlines()[:8]:
            out.line(f"    {line}")


# --- evaluation ------------------------------------------------------------------------------------------------------


@render.register
def _evaluation(result: search.EvalReport, out: Output) -> None:
    """The whole report; with `explain` every win, loss and miss."""
    from codeinfo.evals.metrics import LOWER_IS_BETTER, figures_table

    vectors = result.model_id or "keyword search only"
    size = f"{quantity(result.files, 'file')}, {quantity(result.chunks, 'chunk')}"
    content = f"  {size} indexed in {result.index_ms / 1000:.1f} s, {vectors}"
    out.wrap((result.dataset, "bold cyan"), content, hang=2)
    for by in ("all", "language", "category"):
        for head, *rows in _fit_table(figures_table(result.groups, by), out):
            out.table([[(cell, "bold") for cell in head], *rows])
            out.line()
    for comparison in result.comparisons:
        _comparison(comparison, out)
    misses = [outcome for outcome in result.outcomes if not outcome.score.recall10]
    out.line(f"{len(misses)} of {len(result.outcomes)} queries have no relevant file in the first ten")
    if out.explain:
        wanted = (f"wanted {', '.join(miss.wanted)}; first {miss.first or 'none'}" for miss in misses)
        out.table([(miss.id, miss.query[:QUERY_SHOWN], text) for miss, text in zip(misses, wanted, strict=True)])
    for verdict in result.verdicts:
        sign = "≤" if verdict.metric in LOWER_IS_BETTER else "≥"
        value = "not measured" if verdict.value is None else f"{verdict.value:.4f}"
        state = ("passed", "green") if verdict.passed else ("FAILED", "bold red")
        out.line(f"gate {verdict.metric} {sign} {verdict.wanted:g}: {value}  ", state)


def _comparison(comparison: search.Comparison, out: Output) -> None:
    means = f"{comparison.metric} {comparison.old:.4f} → {comparison.new:.4f}: {comparison.difference:+.4f}"
    span = f"95 %: {comparison.low:+.4f} to {comparison.high:+.4f}, p = {comparison.p_value:.4f}"
    counts = f"{len(comparison.wins)} won, {len(comparison.losses)} lost, {comparison.ties} even"
    out.line(("against ", "bold"), comparison.name, (f"  {means} ({span}), {counts}", "dim"))
    for title, changes in (("largest gains", comparison.wins), ("largest losses", comparison.losses)):
        if changes:
            out.line(f"  {title}")
            shown = changes if out.explain else changes[:CHANGES_SHOWN]
            out.table([(c.id, f"{c.old:.3f} → {c.new:.3f}", c.query[:QUERY_SHOWN]) for c in shown], indent=4)
    out.line()


def _fit_table(table: Sequence[Sequence[str]], out: Output) -> list[list[tuple[str, ...]]]:
    """The table, or several with fewer columns for a narrow terminal, each with the first column; none of only a
    header."""
    if len(table) == 1:
        return []
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    cuts, used = [1], 0
    for column, width in enumerate(widths[1:], 1):
        if out.terminal and used and widths[0] + used + width > out.width:
            cuts.append(column)
            used = 0
        used += width
    bounds = zip(cuts, [*cuts[1:], len(widths)], strict=True)
    return [[(row[0], *row[start:end]) for row in table] for start, end in bounds]
