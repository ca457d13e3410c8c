"""From answers to a report: figures for all queries and by language, category and repository, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from codeinfo.evals.compare import compare
from codeinfo.evals.datasets import Dataset, Query
from codeinfo.evals.metrics import Answer, score, summarise
from codeinfo.operations.evaluation import Change, Comparison, Group, Outcome, Score, Summary

Row = tuple[str, ...]

COLUMNS = (
    *("n", "ndcg10", "file10", "recall10", "mrr10", "top1", "top3", "top5", "top10", "function10", "spec"),
    *("chars", "tokens", "shown", "first_tokens", "recall500", "recall1000", "recall2000"),
    *("ok", "ok_top3", "p50_ms", "p95_ms"),
)
_WHOLE = {"n", "chars", "tokens", "first_tokens"}  # shown without decimals
_TIMES = {"p50_ms", "p95_ms"}
QUERY_SHOWN = 70  # characters of a query in a table


def scores_of(dataset: Dataset, answers: Mapping[str, Answer]) -> dict[str, Score]:
    """Every query's score; one that was not answered counts as zero."""
    return {query.id: score(query, answers.get(query.id)) for query in dataset.queries}


def groups_of(dataset: Dataset, scores: Mapping[str, Score]) -> tuple[Group, ...]:
    """All, then each language, category and repository by name."""
    groups = [Group("all", "all", summarise([scores[query.id] for query in dataset.queries]))]
    keys: dict[str, Callable[[Query], str]] = {
        "language": lambda query: query.language,
        "category": lambda query: query.category,
        "repo": lambda query: query.repo,
    }
    for by, key in keys.items():
        members: dict[str, list[Score]] = {}
        for query in dataset.queries:
            if key(query):
                members.setdefault(key(query), []).append(scores[query.id])
        groups += [Group(by, name, summarise(members[name])) for name in sorted(members)]
    return tuple(groups)


def outcomes_of(dataset: Dataset, answers: Mapping[str, Answer], scores: Mapping[str, Score]) -> tuple[Outcome, ...]:
    outcomes = []
    for query in dataset.queries:
        answer = answers.get(query.id)
        first = answer.found[0].path if answer and answer.found else ""
        wanted = tuple(target.path or " | ".join(target.patterns) for target in query.targets)
        outcomes.append(Outcome(query.id, query.text, wanted, first, scores[query.id]))
    return tuple(outcomes)


def comparisons_of(
    dataset: Dataset, scores: Mapping[str, Score], older: Mapping[str, Mapping[str, Answer]]
) -> tuple[Comparison, ...]:
    """This run against each older one, on the queries that the older one answered."""
    found = []
    for name, answers in older.items():
        old = {query.id: score(query, answers[query.id]) for query in dataset.queries if query.id in answers}
        found.append(compare(name, dataset.queries, old, scores))
    return tuple(found)


# --- tables --------------------------------------------------------------------------------------------------------


def figures_table(groups: Iterable[Group], by: str) -> list[Row]:
    """A header and one row a group, numbers aligned to the right."""
    rows: list[Row] = [(by, *COLUMNS)]
    rows += [(group.name, *_figures(group.summary)) for group in groups if group.by == by]
    return aligned(rows)


def _figures(summary: Summary) -> list[str]:
    return [formatted(column, getattr(summary, column)) for column in COLUMNS]


def formatted(column: str, value: float | None) -> str:
    """A figure with the decimals that its column has; a dash where nobody took it."""
    if value is None:
        return "–"
    return f"{value:.0f}" if column in _WHOLE else f"{value:.1f}" if column in _TIMES else f"{value:.4f}"


def aligned(rows: Sequence[Row]) -> list[Row]:
    """Every cell but a row's first set to the right of its column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [(row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))) for row in rows]


def comparison_line(comparison: Comparison) -> str:
    """`ndcg10 0.8356 → 0.8931: +0.0575 (95 %: +0.0431 to +0.0720, p = 0.0001), 201 won, 88 lost, 460 even`."""
    span = f"95 %: {comparison.low:+.4f} to {comparison.high:+.4f}, p = {comparison.p_value:.4f}"
    counts = f"{len(comparison.wins)} won, {len(comparison.losses)} lost, {comparison.ties} even"
    means = f"{comparison.metric} {comparison.old:.4f} → {comparison.new:.4f}"
    return f"{means}: {comparison.difference:+.4f} ({span}), {counts}"


def changes_table(changes: Sequence[Change], most: int | None) -> list[Row]:
    return [
        (change.id, f"{change.old:.3f} → {change.new:.3f}", change.query[:QUERY_SHOWN]) for change in changes[:most]
    ]


def misses_table(outcomes: Sequence[Outcome]) -> list[Row]:
    """Queries with no wanted file among the first ten."""
    return [
        (
            outcome.id,
            outcome.query[:QUERY_SHOWN],
            f"wanted {', '.join(outcome.wanted)}; first {outcome.first or 'none'}",
        )
        for outcome in outcomes
        if not outcome.score.recall10
    ]
