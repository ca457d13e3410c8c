"""Fits the weights of the ranking on several sets of questions, and judges them on repositories the fit has not seen.

    python benchmarks/fit_ranking.py --cache DIR NAME=DATASET:TREES[:roots] …

DATASET and its trees are laid out as for `codeinfo eval`; `roots` indexes each repository's root and code files only,
otherwise whole trees are searched as users have them. Trees that are git work trees bring their history along.

For every question the product's own steps give the candidates, their signals and their factors. A score is the weighted
sum of the signals times the product of the factors; the fit minimises the listwise softmax loss of the right files over
both, pulled towards the shipped numbers, for questions, tasks and reports apart. Every set counts alike, however many
questions it has. Half of the training questions are also seen without history, since not every folder has one.

Figures are the mean of `file10`, the ndcg of files among the first ten:

- shipped: the weights of `search/weights.py`
- in-sample: fitted here on everything and judged on the same
- left out: repositories, not questions, are dealt into six parts; each part is judged with weights fitted on the others
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals.metrics import Answer, Dataset, Query, Result, load_dataset, mean, score
from codeinfo.evals.run import CODE_FILES, bring_up_to_date, tree_of
from codeinfo.ports import is_word_embedder
from codeinfo.search import boost
from codeinfo.search.line import (
    Context,
    Evidence,
    Ranked,
    SearchOptions,
    apply_filter,
    fuse,
    gather,
    layout_of,
    rank_files,
    read_paths,
    weights_for,
)
from codeinfo.search.query import Shape, read_query
from codeinfo.search.weights import QUESTION, WITH_VECTORS, Weights
from codeinfo.tokens import terms

METRIC = "file10"
FOLDS = 6
TEMPERATURE = 4.0  # how much a difference of scores matters to the loss: scores reach about 2
PULL = 0.01  # L2 towards the shipped numbers: holds signals that few questions have
STEPS = 300
BATCH = 512
RATE = 0.02
SIGNALS = (
    "chunks",
    "chunk_coverage",
    "file_bm25",
    "exact_definition",
    "named_definition",
    "named_in_text",
    "stem_match",
    "folder_match",
    "definition_coverage",
    "title_coverage",
    "text_coverage",
    "path_mention",
    "scope_match",
    "history",
    "meaning",
)
FACTORS = (
    "depth",
    "docs",
    "config",
    "secondary",
    "asked_secondary",
    "test_topic",
    "no_test",
    "vendored",
    "type_stub",
    "header",
    "older_copy",
    "translation",
    "tiny",
)
FITTED = {Shape.QUESTION: (Shape.QUESTION, Shape.NAME), Shape.TASK: (Shape.TASK,), Shape.REPORT: (Shape.REPORT,)}

Floats = NDArray[np.float64]


class Asked(Struct, frozen=True):
    """One question: its candidates, and of each the value of every signal and how often every factor applies."""

    query: Query
    shape: Shape
    paths: tuple[str, ...]
    signals: Floats
    factors: Floats

    def right(self) -> NDArray[np.bool_]:
        return np.array([any(target.is_file(path) for target in self.query.targets) for path in self.paths], bool)


class Numbers(NamedTuple):
    """Weights of the signals, and logarithms of the factors."""

    signals: Floats
    factors: Floats

    @classmethod
    def of(cls, weights: Weights) -> Numbers:
        values = [-weights.depth, *(math.log(getattr(weights, name)) for name in FACTORS[1:])]
        return cls(np.array([getattr(weights, name) for name in SIGNALS]), np.array(values))

    def scores(self, question: Asked) -> Floats:
        return (question.signals @ self.signals) * np.exp(question.factors @ self.factors)


# --- features, from the product's own steps ------------------------------------------------------------------------


def collect(engine: Engine, dataset: Dataset, trees: Path, *, roots: bool) -> Iterator[Asked]:
    by_repo: dict[str, list[Query]] = defaultdict(list)
    for query in dataset.queries:
        by_repo[query.repo].append(query)
    for repo, queries in by_repo.items():
        folder = dataset.roots.get(repo, "") if roots else ""
        root = tree_of(repo, trees) / folder
        bring_up_to_date(engine, root)
        keeper = engine.indexes.of(root)
        store, embedder, commits = keeper.live_store(), keeper.embedder, keeper.commits()
        assert store is not None, "it was just made"
        assert embedder is not None, "the index must have vectors"
        words = embedder
        assert is_word_embedder(words), "the weights are those of the built-in model"
        prefix = f"{folder}/" if folder else ""
        with store.snapshot() as view:
            options = SearchOptions(
                root=str(root),
                project_words=frozenset(terms(root.name)),
                allowed=np.array([kind in CODE_FILES for kind in view.kinds], bool) if roots else None,
                commits=[(str(root), commits)] if commits else [],
            )
            for query in queries:
                read = read_query(query.text, project_words=options.project_words)
                weights = weights_for(read, embedder)
                evidence = gather(Context(read, view, embedder, weights, options))
                ranked = rank_files(read, apply_filter(fuse(evidence, weights), options), view, weights, options)
                ranked = read_paths(ranked, evidence, view, words, weights)
                if not ranked:
                    continue
                layout = layout_of(view, options.roots)
                rows = [_signals(item, evidence) for item in ranked]
                facts = [layout.facts(item.file) for item in ranked]
                named = [
                    boost.multipliers(read, fact, view.kinds[item.file], QUESTION)
                    for item, fact in zip(ranked, facts, strict=True)
                ]
                counts = [
                    [fact.depth if name == "depth" else name in factors for name in FACTORS]
                    for factors, fact in zip(named, facts, strict=True)
                ]
                paths = tuple(prefix + view.paths[item.file] for item in ranked)
                yield Asked(query, read.shape, paths, np.array(rows), np.array(counts, float))
        keeper.close()


def _signals(item: Ranked, evidence: Evidence) -> list[float]:
    values = {name: float(column[item.file]) for name, column in evidence.files.items()}
    if item.meaning is not None:
        values["meaning"] = item.meaning
    return [values.get(name, 0.0) for name in SIGNALS]


# --- the fit -------------------------------------------------------------------------------------------------------


def fit(sets: Sequence[Sequence[Asked]], start: Numbers) -> Numbers:
    """Adam on the softmax loss over each question's candidates; every set weighs alike."""
    rng = np.random.default_rng(0)
    usable = [[question for question in questions if question.right().any()] for questions in sets]
    usable = [questions for questions in usable if questions]
    now, drift, spread = start, Numbers(*(np.zeros_like(x) for x in start)), Numbers(*(np.zeros_like(x) for x in start))
    for step in range(STEPS):
        batch = [
            questions[at] for questions in usable for at in rng.integers(len(questions), size=BATCH // len(usable))
        ]
        slope = _slope(batch, now, rng)
        slope = Numbers(*(s + PULL * (x - x0) for s, x, x0 in zip(slope, now, start, strict=True)))
        drift = Numbers(*(0.9 * d + 0.1 * s for d, s in zip(drift, slope, strict=True)))
        spread = Numbers(*(0.99 * v + 0.01 * s * s for v, s in zip(spread, slope, strict=True)))
        rate = RATE * (1 - step / STEPS)
        moved = (x - rate * d / (np.sqrt(v) + 1e-8) for x, d, v in zip(now, drift, spread, strict=True))
        signals, factors = moved
        now = Numbers(np.maximum(signals, 0.0), factors)  # no signal was meant to count against a file
    return now


def _slope(batch: Sequence[Asked], now: Numbers, rng: np.random.Generator) -> Numbers:
    on_signals, on_factors = np.zeros_like(now.signals), np.zeros_like(now.factors)
    history = SIGNALS.index("history")
    for question in batch:
        signals = question.signals
        if rng.random() < 0.5:
            signals = signals.copy()
            signals[:, history] = 0
        product = np.exp(question.factors @ now.factors)
        sums = signals @ now.signals
        scores = TEMPERATURE * sums * product
        chances = np.exp(scores - scores.max())
        right = question.right()
        error = TEMPERATURE * (chances / chances.sum() - right / right.sum()) / len(batch)
        on_signals += (error * product) @ signals
        on_factors += (error * sums * product) @ question.factors
    return Numbers(on_signals, on_factors)


def fit_shapes(sets: Mapping[str, Sequence[Asked]]) -> dict[Shape, Numbers]:
    fitted: dict[Shape, Numbers] = {}
    for shape, shapes in FITTED.items():
        of_shape = [[question for question in questions if question.shape in shapes] for questions in sets.values()]
        numbers = fit(of_shape, Numbers.of(WITH_VECTORS[shape]))
        fitted |= dict.fromkeys(shapes, numbers)
    return fitted


# --- the report ----------------------------------------------------------------------------------------------------


def judge(questions: Sequence[Asked], numbers: Mapping[Shape, Numbers]) -> list[float]:
    figures = []
    for question in questions:
        order = np.argsort(-numbers[question.shape].scores(question), kind="stable")
        ranked = tuple(Result(question.paths[at]) for at in order.tolist())
        figures.append(float(getattr(score(question.query, Answer(question.query.id, ranked)), METRIC)))
    return figures


def leave_out(sets: Mapping[str, Sequence[Asked]]) -> dict[str, float]:
    repositories = sorted({question.query.repo for questions in sets.values() for question in questions})
    random.Random(1).shuffle(repositories)
    figures: dict[str, list[float]] = defaultdict(list)
    for part in (set(repositories[at::FOLDS]) for at in range(FOLDS)):
        seen = {
            name: [question for question in questions if question.query.repo not in part]
            for name, questions in sets.items()
        }
        fitted = fit_shapes(seen)
        for name, questions in sets.items():
            figures[name] += judge([question for question in questions if question.query.repo in part], fitted)
    return {name: mean(values) for name, values in figures.items()}


def show(title: str, figures: Mapping[str, float]) -> None:
    print(f"  {title:22}" + "".join(f"{name} {value:.4f}   " for name, value in figures.items()), flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sets", nargs="+", metavar="NAME=DATASET:TREES[:roots]")
    arguments.add_argument("--cache", type=Path, required=True, help="where indexes are kept for the next run")
    arguments.add_argument("--only-shipped", action="store_true", help="judge the shipped weights, fit nothing")
    options = arguments.parse_args()
    sets: dict[str, list[Asked]] = {}
    for entry in options.sets:
        name, _, place = entry.partition("=")
        dataset, trees, *roots = place.split(":")
        config = Config.load({"paths.cache_dir": str(options.cache.resolve())}, Path(trees))
        with Engine(config) as engine:
            sets[name] = list(collect(engine, load_dataset(Path(dataset)), Path(trees), roots=bool(roots)))
        print(f"{name}: {len(sets[name])} questions", flush=True)
    shipped = {shape: Numbers.of(weights) for shape, weights in WITH_VECTORS.items()}
    show("shipped", {name: mean(judge(questions, shipped)) for name, questions in sets.items()})
    if options.only_shipped:
        return 0
    fitted = fit_shapes(sets)
    show("in-sample", {name: mean(judge(questions, fitted)) for name, questions in sets.items()})
    show("left out", leave_out(sets))
    for shape in FITTED:
        print(f"\n{shape.value}")
        old, new = shipped[shape], fitted[shape]
        for name, before, after in zip(SIGNALS, old.signals, new.signals, strict=True):
            print(f"  {name:22}{before:8.2f}{after:8.2f}")
        for name, before, after in zip(FACTORS, np.exp(old.factors), np.exp(new.factors), strict=True):
            print(f"  × {name:20}{before:8.2f}{after:8.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
