"""Judges search on every kind of question at once, and fails when one kind got worse.

    python benchmarks/quality.py --cache DIR --roots BENCH TREES --whole BENCH TREES \\
        --history HISTORY TREES --history-git HISTORY WORKTREES --bugs BUGS TREES --usage benchmarks/usage TREES \\
        --fixtures FOLDER --fixture-trees DIR --semble roots=FILE --semble history=FILE --out today.json
    python benchmarks/quality.py … --compare yesterday.json

Prints one table, a row a set; every set is optional. BENCH, HISTORY and BUGS are folders with queries.jsonl and
repos.tsv, TREES hold each repository in a folder of its name (docs/evaluation.md has the formats):

- roots: only the folder that repos.tsv names, only code files
- whole: whole trees and every kind of file, as users have them
- history, bugs, usage: whole trees; the categories of a history and of usage apart as well
- history-git, bugs-git: the same with commits: TREES are work trees of the clones
- fixtures: codebase-context's eval-*.json, each with its gate; a fixture's tree is DIR/NAME or FOLDER/codebases/NAME

With --clones, trees that are missing are laid out from CLONES/owner+name/repo. --semble names what semble found for a
set, in the format of `codeinfo eval --out`; `beside` is CodeInfo's ndcg10 on the questions that semble was asked.
Exit code 3: a gate was missed, or with --compare a watched figure fell by more than .005.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, fields
from trees import commit_at, lay_out, lay_out_missing, read_pins

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals.metrics import (
    METRIC,
    Answer,
    Dataset,
    Query,
    align,
    check_gates,
    compare,
    format_figure,
    load_dataset,
    score,
    summarise,
)
from codeinfo.evals.run import read_results, run, scores_of
from codeinfo.operations.search import Comparison, Score, Summary, Verdict

MOST_LOST = 0.005  # a figure may fall by this much: less is within what a change of machine or order does
FAILED = 3  # as `codeinfo eval` says that a gate was missed
COLUMNS = (
    *("n", "ndcg10", "file10", "recall10", "top1", "top3", "top5", "top10", "function10"),
    *("chars", "first_tokens", "recall500", "recall1000", "recall2000", "ok", "ok_top3", "p50_ms"),
)


class Kind(Struct, frozen=True):
    """A kind of set: how its trees are searched, and which of its figures may not fall."""

    name: str
    title: str
    whole: bool = True
    apart: bool = False  # a row for each category as well
    history: bool = False  # trees are work trees, with their commits
    watched: tuple[str, ...] = (METRIC,)

    def named(self, options: argparse.Namespace) -> tuple[Path, Path] | None:
        """The dataset and its trees, where the command line names them."""
        folders = getattr(options, self.name.replace("-", "_"))
        return (folders[0], folders[1]) if folders else None


BUG_FIGURES = ("top1", "top5", "top10")
KINDS = (
    Kind("roots", "roots", whole=False),
    Kind("whole", "whole"),
    Kind("history", "history", apart=True),
    Kind("history-git", "history (git)", apart=True, history=True),
    Kind("usage", "usage", apart=True, watched=("top3",)),
    Kind("bugs", "bugs", watched=BUG_FIGURES),
    Kind("bugs-git", "bugs (git)", history=True, watched=BUG_FIGURES),
)
FIXTURE = Kind("fixtures", "fixture", whole=False)


class Row(Struct, frozen=True):
    """A set, or one category of it, and what was scored."""

    title: str
    queries: tuple[Query, ...]
    scores: Mapping[str, Score]
    watched: tuple[str, ...]
    semble: Mapping[str, Score] = field(default_factory=dict)  # of the queries that it was asked
    verdicts: tuple[Verdict, ...] = ()

    @property
    def summary(self) -> Summary:
        return summarise(list(self.scores.values()))

    def only(self, title: str, queries: Iterable[Query]) -> Row:
        """The part of it that these queries are."""
        chosen_queries = tuple(queries)
        scores = {query.id: self.scores[query.id] for query in chosen_queries}
        semble = {query.id: self.semble[query.id] for query in chosen_queries if query.id in self.semble}
        return Row(title, chosen_queries, scores, self.watched, semble)


# --- measuring -----------------------------------------------------------------------------------------------------


def measure(engine: Engine, kind: Kind, dataset: Dataset, trees: Path) -> dict[str, Score]:
    """Every query's score, repository by repository."""
    answers: dict[str, Answer] = {}
    for repo in dict.fromkeys(query.repo for query in dataset.queries):
        started = time.perf_counter()
        done = run(engine, dataset.of_repositories((repo,)), trees, whole=kind.whole)
        answers |= {answer.id: answer for answer in done.answers}
        took = f"{done.files} files, {len(done.answers)} questions in {time.perf_counter() - started:.0f} s"
        print(f"{kind.title}: {repo}, {took}", file=sys.stderr, flush=True)
    return scores_of(dataset, answers)


def rows_of(kind: Kind, dataset: Dataset, scores: Mapping[str, Score], semble: Mapping[str, Answer]) -> Iterator[Row]:
    beside = {query.id: score(query, semble[query.id]) for query in dataset.queries if query.id in semble}
    whole = Row(kind.title, dataset.queries, scores, kind.watched, beside)
    yield whole
    for category in sorted({query.category for query in dataset.queries}) if kind.apart else ():
        yield whole.only(f"{kind.title}, {category}s", (q for q in dataset.queries if q.category == category))


def measure_set(config: Config, kind: Kind, folder: Path, trees: Path, options: argparse.Namespace) -> Iterator[Row]:
    dataset = chosen(load_dataset(folder), options)
    repos = {query.repo for query in dataset.queries}
    if options.clones:
        pins = (pin for pin in read_pins(folder / "repos.tsv").values() if pin.name in repos)
        lay_out_missing(pins, options.clones, trees, history=kind.history)
    if absent := sorted(name for name in repos if not (trees / name).is_dir()):
        raise SystemExit(f"{trees} lacks {', '.join(absent)}: lay them out, or name --clones")
    semble = read_results(options.semble[kind.name]) if kind.name in options.semble else {}
    with Engine(config) as engine:
        yield from rows_of(kind, dataset, measure(engine, kind, dataset, trees), semble)


def chosen(dataset: Dataset, options: argparse.Namespace) -> Dataset:
    """Without the repositories that were named as left out."""
    repos = dict.fromkeys(query.repo for query in dataset.queries)
    return dataset.of_repositories(tuple(name for name in repos if name not in options.without))


def measure_fixtures(config: Config, options: argparse.Namespace) -> Iterator[Row]:
    files = sorted(options.fixtures.glob("eval-*.json"))
    if not files:
        raise SystemExit(f"{options.fixtures} has no eval-*.json")
    for file in files:
        dataset = load_dataset(file)
        tree = fixture_tree(file, options)
        with Engine(config) as engine:
            scores = measure(engine, FIXTURE, dataset, tree)
        verdicts = check_gates(dataset.gates, summarise(list(scores.values())))
        title = f"{FIXTURE.title} {file.stem.removeprefix('eval-')}"
        yield Row(title, dataset.queries, scores, FIXTURE.watched, verdicts=verdicts)


def fixture_tree(file: Path, options: argparse.Namespace) -> Path:
    """Where the fixture's codebase lies; with clones it is laid out as it was on the day the fixture was frozen."""
    content = json.loads(file.read_text(encoding="utf-8"))
    name = content["codebase"]
    places: list[Path] = [options.fixtures / "codebases" / name]
    if options.fixture_trees:
        places.insert(0, options.fixture_trees / name)
    for place in places:
        if place.is_dir():
            return place
    clones = sorted(options.clones.glob(f"*+{name}/repo")) if options.clones else []
    if not clones or not options.fixture_trees:
        raise SystemExit(f"the tree of {file.name} is none of {', '.join(map(str, places))}")
    lay_out(clones[0], commit_at(clones[0], content["frozenDate"]), places[0])
    return places[0]


# --- the tables ----------------------------------------------------------------------------------------------------


def show(rows: Sequence[Row]) -> None:
    head = ("set", *COLUMNS, "semble", "beside")
    cells = [(row.title, *_figures(row.summary), *_beside(row)) for row in rows]
    print_table([head, *cells])


def _figures(summary: Summary) -> list[str]:
    return [format_figure(column, getattr(summary, column)) for column in COLUMNS]


def _beside(row: Row) -> tuple[str, str]:
    """semble's ndcg10, and ours on the same questions."""
    if not row.semble:
        return format_figure(METRIC, None), format_figure(METRIC, None)
    ours = summarise([row.scores[id] for id in row.semble])
    return format_figure(METRIC, summarise(list(row.semble.values())).ndcg10), format_figure(METRIC, ours.ndcg10)


def show_repositories(rows: Sequence[Row]) -> None:
    cells = []
    for row in rows:
        for repo in sorted({query.repo for query in row.queries}):
            part = row.only(f"{row.title}: {repo}", (query for query in row.queries if query.repo == repo))
            cells.append((part.title, *_figures(part.summary), *_beside(part)))
    print_table([("repository", *COLUMNS, "semble", "beside"), *cells])


def show_comparisons(comparisons: Sequence[tuple[Row, Comparison]]) -> None:
    head = ("set", "figure", "n", "old", "new", "difference", "95 %", "p", "won", "lost", "")
    print_table([head, *(_comparison_cells(row, comparison) for row, comparison in comparisons)])


def _comparison_cells(row: Row, comparison: Comparison) -> tuple[str, ...]:
    return (
        row.title,
        comparison.metric,
        str(comparison.n),
        f"{comparison.old:.4f}",
        f"{comparison.new:.4f}",
        f"{comparison.difference:+.4f}",
        f"{comparison.low:+.4f} to {comparison.high:+.4f}",
        f"{comparison.p_value:.4f}",
        str(len(comparison.wins)),
        str(len(comparison.losses)),
        "FELL" if fell(comparison) else "",
    )


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """In Markdown, so that it can be pasted, with its columns aligned, so that it can be read as it is."""
    width = max(len(row[0]) for row in rows)
    head, *body = ([row[0].ljust(width), *row[1:]] for row in align(rows))
    rule = ["-" * len(head[0]), *("-" * (len(cell) - 1) + ":" for cell in head[1:])]
    for cells in (head, rule, *body):
        print(f"| {' | '.join(cells)} |")
    print()


# --- against an older run ------------------------------------------------------------------------------------------


def write_run(path: Path, rows: Sequence[Row]) -> None:
    """Every set's figures, and the scores of its queries, which `--compare` reads."""
    content = {
        row.title: {
            "figures": asdict(row.summary),
            "semble": summarise(list(row.semble.values())).ndcg10 if row.semble else None,
            "scores": {id: asdict(figures) for id, figures in row.scores.items()},
        }
        for row in rows
    }
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_run(path: Path) -> dict[str, dict[str, Score]]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names = {item.name for item in fields(Score)}

    def read_score(written: dict[str, Any]) -> Score:
        return Score(**{name: value for name, value in written.items() if name in names})

    try:
        return {
            title: {id: read_score(figures) for id, figures in row["scores"].items()} for title, row in content.items()
        }
    except (TypeError, KeyError, AttributeError) as error:
        raise SystemExit(f"{path} was not written by this version's --out: {error}") from error


def compare_rows(rows: Sequence[Row], older: Mapping[str, Mapping[str, Score]]) -> list[tuple[Row, Comparison]]:
    """The watched figures of the sets that both runs have, on the queries that both were asked."""
    return [
        (row, compare(metric, row.queries, older[row.title], row.scores, metric))
        for row in rows
        if row.title in older
        for metric in row.watched
    ]


def fell(comparison: Comparison) -> bool:
    return comparison.difference < -MOST_LOST


def main() -> int:
    options = read_options()
    older = read_run(options.compare) if options.compare else {}
    config = Config.load({"paths.cache_dir": str(options.cache.resolve())}, options.cache)
    rows: list[Row] = []
    for kind in KINDS:
        if named := kind.named(options):
            rows += measure_set(config, kind, *named, options)
    if options.fixtures:
        rows += measure_fixtures(config, options)
    show(rows)
    if options.by_repository:
        show_repositories(rows)
    if options.out:
        write_run(options.out, rows)
    return judged(rows, older)


def judged(rows: Sequence[Row], older: Mapping[str, Mapping[str, Score]]) -> int:
    """Prints gates and comparisons; the exit code."""
    failed = False
    for row in rows:
        for verdict in row.verdicts:
            failed |= not verdict.passed
            state = "passed" if verdict.passed else "FAILED"
            print(f"{row.title}: gate {verdict.metric} {verdict.wanted:g}, {verdict.value:.4f}: {state}")
    if older:
        comparisons = compare_rows(rows, older)
        show_comparisons(comparisons)
        for title in sorted(older.keys() - {row.title for row in rows}):
            print(f"{title}: not measured now")
        failed |= any(fell(comparison) for _, comparison in comparisons)
    return FAILED if failed else 0


def read_options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cache", type=Path, required=True, help="where indexes are kept for the next run")
    for kind in KINDS:
        arguments.add_argument(f"--{kind.name}", type=Path, nargs=2, metavar=("DATASET", "TREES"))
    arguments.add_argument("--fixtures", type=Path, metavar="FOLDER", help="codebase-context's eval-*.json")
    arguments.add_argument("--fixture-trees", type=Path, metavar="DIR", help="each codebase in a folder of its name")
    arguments.add_argument("--clones", type=Path, metavar="DIR", help="lay out missing trees from DIR/owner+name/repo")
    arguments.add_argument("--semble", action="append", default=[], metavar="SET=FILE", help="what semble found")
    arguments.add_argument("--without", action="append", default=[], metavar="REPO", help="leave a repository out")
    arguments.add_argument("--by-repository", action="store_true", help="a second table, a row a repository")
    arguments.add_argument("--out", type=Path, metavar="FILE", help="write figures and scores, for --compare")
    arguments.add_argument("--compare", type=Path, metavar="FILE", help="an older --out: fail if a figure fell")
    options = arguments.parse_args()
    options.semble = {name: Path(file) for name, _, file in (text.partition("=") for text in options.semble)}
    if unknown := sorted(set(options.semble) - {kind.name for kind in KINDS}):
        arguments.error(f"--semble names no set: {', '.join(unknown)}")
    if not options.fixtures and not any(kind.named(options) for kind in KINDS):
        arguments.error("name at least one set")
    options.cache.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
