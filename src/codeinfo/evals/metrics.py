"""Questions with known answers, and metrics of ranked results: of one query, and their summary over many.

Questions are read from the two formats in use:

a folder with queries.jsonl and repos.tsv   many repositories, targets are paths, some with lines
a JSON file with {"queries": […]}           one repository, targets are parts of paths (codebase-context's fixtures)

Binary relevance, the first ten results. `ndcg10` looks at the list as returned: a repeated file uses up ranks, a target
with a line span needs an overlap, two targets at one rank count once. `shown`, `first_tokens` and the recalls within a
budget look at what a reader sees: the lines that are shown, in order. `function10` looks at the lines of whole results.
All else looks at files, each at its first entry.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import fields, replace
from numpy.typing import NDArray

from codeinfo.errors import NotFound, UsageError
from codeinfo.languages import file_kind
from codeinfo.model import FileKind, convert
from codeinfo.operations.search import Change, Comparison, Figures, Group, Score, Summary, Verdict
from codeinfo.tokens import CHARS_PER_TOKEN

WHOLE_TREE = "-"  # in repos.tsv: index the whole repository
FIXTURE_GATE = ("top1", 0.7)  # what a fixture must reach unless another gate is named

Span = tuple[int, int]  # first and last line


class Target(Struct, frozen=True):
    """A file that answers a query: by its path, or by any of `patterns` within it and none of `unwanted`. `start` and
    `end` are the lines of the answer: a result elsewhere in the file is wrong. `spans` are lines that a change touched
    and `functions` those of the definitions around them: any result of the file is right, and whether one has the
    function is a figure of its own."""

    path: str = ""
    start: int | None = field(default=None, name="start_line")
    end: int | None = field(default=None, name="end_line")
    patterns: tuple[str, ...] = ()  # lowercase, as is `unwanted`
    unwanted: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    functions: tuple[Span, ...] = ()

    def is_file(self, path: str) -> bool:
        if not self.patterns:
            return path == self.path
        lowered = path.lower()
        return any(part in lowered for part in self.patterns) and not any(part in lowered for part in self.unwanted)

    def covers(self, path: str, start: int | None, end: int | None) -> bool:
        """The same file, and a shared line where both sides name lines."""
        if not self.is_file(path):
            return False
        if self.start is None or self.end is None or start is None or end is None:
            return True
        return start <= self.end and end >= self.start

    def has_function(self, path: str, start: int | None, end: int | None) -> bool:
        """The same file, and a line of what was changed or of a definition around it."""
        if not self.is_file(path):
            return False
        if start is None or end is None:
            return True
        return any(start <= last and end >= first for first, last in (*self.spans, *self.functions))


class Query(Struct, frozen=True):
    id: str
    text: str = field(name="query")
    targets: tuple[Target, ...]
    repo: str = ""
    language: str = ""
    category: str = ""


class Dataset(Struct, frozen=True):
    name: str
    queries: tuple[Query, ...]
    roots: Mapping[str, str] = field(default_factory=dict)  # repository → the folder in it to index, "" for all of it
    gates: tuple[tuple[str, float], ...] = ()  # what a run must reach unless the caller names other gates

    def of_repositories(self, names: tuple[str, ...]) -> Dataset:
        repositories = {query.repo for query in self.queries}
        if unknown := sorted(set(names) - repositories):
            step = f"It has: {', '.join(sorted(repositories))}"
            raise NotFound(f"{self.name} has no repository {unknown[0]!r}", step)
        return replace(self, queries=tuple(query for query in self.queries if query.repo in names))


def load_dataset(path: Path) -> Dataset:
    """Read a dataset: a folder, a queries file (with repos.tsv beside it, or none), or a fixture."""
    if os.path.isdir(path):
        path = path / "queries.jsonl"
    if not os.path.isfile(path):
        raise NotFound(f"there is no dataset {path}", "Give a folder with queries.jsonl, or a fixture in JSON.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".jsonl":
            name = path.resolve().parent.name if path.name == "queries.jsonl" else path.stem
            return Dataset(name, _read_queries(text), _read_roots(path.with_name("repos.tsv")))
        return _read_fixture(path.stem, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is not a dataset: {what}", "See docs/evaluation.md for the formats.") from error


def _read_queries(text: str) -> tuple[Query, ...]:
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    queries = convert([row | {"id": str(row["id"])} for row in rows], tuple[Query, ...])
    if not all(target.path for query in queries for target in query.targets):
        raise ValueError("a target has no path")
    return queries


def _read_roots(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    header, *lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    name, root = header.index("name"), header.index("root")
    return {line[name]: "" if line[root] == WHOLE_TREE else line[root].strip("/") for line in lines}


def _read_fixture(name: str, content: Mapping[str, Any]) -> Dataset:
    """Every query has one target: any file that its patterns fit."""
    repo = str(content.get("codebase", ""))
    queries = []
    for row in content["queries"]:
        patterns = row.get("expectedPatterns", row.get("expectedTopFiles", ()))
        unwanted = row.get("expectedNotPatterns", row.get("expectedNotTopFiles", ()))
        target = Target(patterns=_lowercase(patterns), unwanted=_lowercase(unwanted))
        targets = (target,) if target.patterns else ()
        queries.append(Query(str(row["id"]), row["query"], targets, repo, category=row.get("category", "")))
    return Dataset(name, tuple(queries), gates=(FIXTURE_GATE,))


def _lowercase(patterns: Any) -> tuple[str, ...]:
    return tuple(str(pattern).lower() for pattern in patterns)


# --- scores ----------------------------------------------------------------------------------------------------------

DEPTH = 10
OK = "ok"  # what a search says of an answer that it trusts


class Result(Struct, frozen=True):
    """One search result; the path is relative to the repository's root, `chars` is what its text costs a reader."""

    path: str
    start: int | None = None
    end: int | None = None
    chars: int = 0
    shown: tuple[int, int] | None = None  # first and last line of its text; None: not known

    def lines(self) -> tuple[int | None, int | None]:
        return self.shown or (self.start, self.end)


class Answer(Struct, frozen=True):
    """All results of a search for one query, best first."""

    id: str
    results: tuple[Result, ...]
    took_ms: float | None = None
    status: str = ""  # "ok" or "low_confidence"; "" if the search did not say


LOWER_IS_BETTER = frozenset({"spec", "chars", "tokens", "first_tokens", "p50_ms", "p95_ms"})


def score(query: Query, answer: Answer | None) -> Score:
    results = answer.results if answer else ()
    covering = [_first_rank(target.covers(hit.path, hit.start, hit.end) for hit in results) for target in query.targets]
    files = list(dict.fromkeys(hit.path for hit in results))
    # One target per file, however many spans in it are wanted.
    targets = {(target.path, target.patterns): target for target in query.targets}.values()
    ranks = list(filter(None, (_first_rank(target.is_file(path) for path in files) for target in targets)))
    count = len(targets)
    near = [rank for rank in ranks if rank <= DEPTH]
    costs = [_tokens_until(target, results[:DEPTH]) for target in query.targets]
    read = [cost for cost in costs if cost is not None]
    chars = sum(hit.chars for hit in results[:DEPTH])
    changed = [target for target in query.targets if target.spans]

    def recall_within(tokens: int) -> float:
        return sum(cost <= tokens for cost in read) / len(costs) if costs else 0.0

    return Score(
        ndcg10=ndcg(filter(None, covering), len(query.targets)),
        file10=ndcg(ranks, count),
        recall10=len(near) / count if count else 0.0,
        mrr10=1 / min(near) if near else 0.0,
        top1=float(1 in ranks),
        top3=float(any(rank <= 3 for rank in ranks)),
        top5=float(any(rank <= 5 for rank in ranks)),
        top10=float(bool(near)),
        spec=float(sum(file_kind(path) is FileKind.TEST for path in files[:3]) >= 2),
        chars=chars,
        shown=_share_shown(query.targets, results[:DEPTH]),
        first_tokens=min(read, default=chars / CHARS_PER_TOKEN),  # without an answer: everything is read for nothing
        recall500=recall_within(500),
        recall1000=recall_within(1000),
        recall2000=recall_within(2000),
        functions=len(changed),
        functions_found=sum(
            any(target.has_function(hit.path, hit.start, hit.end) for hit in results[:DEPTH]) for target in changed
        ),
        ok=answer.status == OK if answer and answer.status else None,
        took_ms=answer.took_ms if answer else None,
    )


def _first_rank(fits: Iterable[bool]) -> int:
    """The rank, from 1, of the first result that does; 0 if none does."""
    return next((rank for rank, fit in enumerate(fits, 1) if fit), 0)


_MEANS = tuple(name for name in Figures.__struct_fields__ if name != "shown")  # of all queries


def summarise(scores: Sequence[Score]) -> Summary:
    times = [score.took_ms for score in scores if score.took_ms is not None]
    functions = sum(score.functions for score in scores)
    return Summary(
        n=len(scores),
        **{name: mean(getattr(score, name) for score in scores) for name in _MEANS},
        tokens=mean(score.chars for score in scores) / CHARS_PER_TOKEN,
        shown=_mean_or_none(score.shown for score in scores if score.shown is not None),
        function10=sum(score.functions_found for score in scores) / functions if functions else None,
        ok=_mean_or_none(score.ok for score in scores if score.ok is not None),
        ok_top3=_mean_or_none(score.top3 for score in scores if score.ok),
        p50_ms=percentile(times, 0.5),
        p95_ms=percentile(times, 0.95),
    )


def ndcg(ranks: Iterable[int], targets: int) -> float:
    """Discounted gain of the ranks (1-based) relative to the best possible for this many targets."""
    return _dcg(ranks) / _dcg(range(1, min(DEPTH, targets) + 1)) if targets else 0.0


def _dcg(ranks: Iterable[int]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in sorted(set(ranks)) if rank <= DEPTH)


def mean(values: Iterable[float]) -> float:
    return _mean_or_none(values) or 0.0


def _mean_or_none(values: Iterable[float]) -> float | None:
    collected = list(values)
    return sum(collected) / len(collected) if collected else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """By linear interpolation; None without values."""
    return float(np.quantile(values, share)) if values else None


def _tokens_until(target: Target, results: Sequence[Result]) -> float | None:
    """The tokens read, in order, up to the first result that shows a line of the target; None if none does."""
    chars = 0
    for hit in results:
        chars += hit.chars
        if target.covers(hit.path, *hit.lines()):
            return chars / CHARS_PER_TOKEN
    return None


def _share_shown(targets: Sequence[Target], results: Sequence[Result]) -> float | None:
    """Of the targets with lines that some result covers, the share whose first such result also shows one of them."""
    shown: list[bool] = []
    for target in targets:
        covering = (hit for hit in results if target.covers(hit.path, hit.start, hit.end))
        if target.start is not None and (first := next(covering, None)) is not None:
            shown.append(target.covers(first.path, *first.lines()))
    return _mean_or_none(shown)


FIGURES = tuple(item.name for item in fields(Summary) if item.name != "n")


def parse_gates(texts: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Parse gates such as `ndcg10=0.85`."""
    gates = []
    for text in texts:
        name, _, value = text.partition("=")
        try:
            bound = float(value)
        except ValueError:
            bound = math.nan
        if name not in FIGURES or not math.isfinite(bound):
            step = f"Write NAME=VALUE, where the name is one of {', '.join(FIGURES)}."
            raise UsageError(f"{text!r} is not a gate", step)
        gates.append((name, bound))
    return tuple(gates)


def check_gates(gates: Iterable[tuple[str, float]], summary: Summary) -> tuple[Verdict, ...]:
    """Quality must reach its gate; costs must not exceed theirs."""
    verdicts = []
    for metric, bound in gates:
        value: float | None = getattr(summary, metric)
        passed = value is not None and (value <= bound if metric in LOWER_IS_BETTER else value >= bound)
        verdicts.append(Verdict(metric, bound, value, passed))
    return tuple(verdicts)


METRIC = "ndcg10"
ROUNDS = 10_000
SEED = 20_240_229  # any number: repeated runs must give the same p-value
SAME = 1e-9  # scores closer than this are a tie


def compare(
    name: str, queries: Sequence[Query], old: Mapping[str, Score], new: Mapping[str, Score], metric: str = METRIC
) -> Comparison:
    """`new` against `old` on the queries that both answered."""
    shared = [query for query in queries if query.id in old and query.id in new]
    changes = [Change(q.id, q.text, getattr(old[q.id], metric), getattr(new[q.id], metric)) for q in shared]
    differences = [change.new - change.old for change in changes]
    p_value, low, high = _significance(differences)
    changed = [change for change in changes if abs(change.new - change.old) > SAME]
    moved = sorted(changed, key=lambda change: (change.new - change.old, change.id))
    wins = tuple(change for change in reversed(moved) if change.new > change.old)
    losses = tuple(change for change in moved if change.new < change.old)
    return Comparison(
        name=name,
        metric=metric,
        n=len(shared),
        old=mean(change.old for change in changes),
        new=mean(change.new for change in changes),
        difference=mean(differences),
        low=low,
        high=high,
        p_value=p_value,
        wins=wins,
        losses=losses,
        ties=len(shared) - len(moved),
    )


def _significance(differences: Sequence[float]) -> tuple[float, float, float]:
    """p of a paired randomisation test and the 95 % bootstrap interval of the mean difference. If the runs were equally
    good, each query's difference could as well have had the other sign: p is the share of random signs that make the
    mean at least as large as it is."""
    values = np.asarray(differences, dtype=np.float64)
    if not len(values) or not np.any(np.abs(values) > SAME):
        return 1.0, 0.0, 0.0
    random, count = np.random.default_rng(SEED), len(values)
    moved = values[np.abs(values) > SAME]  # the others add nothing under either sign
    sums = _in_batches(lambda rounds: random.choice((-1.0, 1.0), size=(rounds, len(moved))) @ moved, len(moved))
    extreme = int(np.count_nonzero(np.abs(sums) / count >= abs(values.mean()) - SAME))
    means = _in_batches(lambda rounds: values[random.integers(0, count, size=(rounds, count))].mean(axis=1), count)
    low, high = np.quantile(means, (0.025, 0.975))
    return (extreme + 1) / (ROUNDS + 1), float(low), float(high)


def _in_batches(draw: Callable[[int], NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """All rounds, a few megabytes at a time."""
    size = max(1, min(ROUNDS, 1_000_000 // max(1, width)))
    counts = [min(size, ROUNDS - start) for start in range(0, ROUNDS, size)]
    return np.concatenate([draw(rounds) for rounds in counts])


# --- tables ----------------------------------------------------------------------------------------------------------

Row = tuple[str, ...]

COLUMNS = (
    *("n", "ndcg10", "file10", "recall10", "mrr10", "top1", "top3", "top5", "top10", "function10", "spec"),
    *("chars", "tokens", "shown", "first_tokens", "recall500", "recall1000", "recall2000"),
    *("ok", "ok_top3", "p50_ms", "p95_ms"),
)
_DECIMALS = {"n": 0, "chars": 0, "tokens": 0, "first_tokens": 0, "p50_ms": 1, "p95_ms": 1}  # of others: 4


def figures_table(groups: Iterable[Group], by: str) -> list[Row]:
    """A header and one row a group, numbers aligned to the right."""
    rows: list[Row] = [(by, *COLUMNS)]
    for group in groups:
        if group.by == by:
            figures = (format_figure(column, getattr(group.summary, column)) for column in COLUMNS)
            rows.append((group.name, *figures))
    return align(rows)


def format_figure(column: str, value: float | None) -> str:
    """A figure with its column's decimals; a dash if it was not measured."""
    return "–" if value is None else f"{value:.{_DECIMALS.get(column, 4)}f}"


def align(rows: Sequence[Row]) -> list[Row]:
    """Align every cell but the first of a row to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [(row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))) for row in rows]
