"""Fits the weights of the ranking's added signals, and judges them on repositories that the fit has not seen.

    python benchmarks/fit_ranking.py DATASET --trees DIR --cache DIR

DATASET and its trees are laid out as for `codeinfo eval`. For every query the product's own steps give the candidates,
their signals and their factors; the fit only chooses how much each signal is worth. It minimises the listwise softmax
loss of the right files, held near equal weights. Each figure is the mean of `file10`: ndcg of files among the first
ten, lines ignored, since weights order files.

- shipped: the weights of `rank/weights.py`, which were fitted on all development repositories: in-sample
- fitted in-sample: fitted here on all repositories of DATASET and judged on the same
- left out: repositories dealt into six parts; each part is judged with weights fitted on the other five. The fit starts
  from equal weights, not from the shipped ones, so that nothing of a repository leaks into its own figure. Dealt three
  times

The last table is of the whole line: `ndcg10`, lines included, of searches made with the shipped weights and with those
fitted without the repository that is searched.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals import datasets
from codeinfo.evals.compare import Comparison, compare
from codeinfo.evals.metrics import Answer, Found, Score, mean, score
from codeinfo.evals.run import CODE_FILES, bring_up_to_date, tree_of
from codeinfo.ports import Embedder, Snapshot, WordEmbedder
from codeinfo.rank.query import read_query
from codeinfo.rank.weights import WITH_VECTORS, WITHOUT_VECTORS, Weights
from codeinfo.search import Evidence, Ranked, SearchOptions, boosted, filtered, fuse, gather, search, told_by_path
from codeinfo.tokens import terms

METRIC = "file10"
WHOLE = "ndcg10"
FOLDS = 6
DEALS = (1, 2, 3)  # seeds of which repositories share a part: one deal more or less moves a figure by .002
START = 0.3  # every signal's worth before the fit has seen anything
TEMPERATURE = 4.0  # how much a difference of scores matters to the loss: scores reach about 2
PULL = 0.03  # L2 towards START: holds signals that few queries have
STEPS = 150
RATE = 0.03

WORDS = (
    "chunks",
    "file_bm25",
    "exact_definition",
    "named_definition",
    "stem_match",
    "folder_match",
    "definition_coverage",
    "text_coverage",
    "path_mention",
)
MEANING = ("meaning",)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: its candidates in order of their paths, and what each signal adds to their scores at a weight of 1."""

    query: datasets.Query
    paths: tuple[str, ...]
    signals: Floats  # candidates × signals, each already times the candidate's factors


@dataclass(frozen=True, slots=True)
class Channel:
    """The line with or without vectors: its signals, the weights it ships with, and what it was asked."""

    name: str
    signals: tuple[str, ...]
    shipped: Weights
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A repository of the dataset, open to be searched."""

    repo: str
    queries: tuple[datasets.Query, ...]
    prefix: str  # of its indexed folder
    project: frozenset[str]
    view: Snapshot
    embedder: Embedder
    allowed: NDArray[np.bool_]


def places(engine: Engine, dataset: datasets.Dataset, trees: Path) -> Iterator[Place]:
    by_repo: dict[str, list[datasets.Query]] = {}
    for query in dataset.queries:
        by_repo.setdefault(query.repo, []).append(query)
    for repo, queries in by_repo.items():
        folder = dataset.roots.get(repo, "")
        root = tree_of(repo, trees) / folder
        bring_up_to_date(engine, root)
        keeper = engine.upkeep(root)
        store = keeper.live_store()
        assert store is not None, "it was just made"
        assert keeper.embedder is not None, "the index must have vectors"
        prefix = f"{folder}/" if folder else ""
        with store.snapshot() as view:
            allowed = np.array([kind in CODE_FILES for kind in view.kinds], bool)
            yield Place(repo, tuple(queries), prefix, frozenset(terms(root.name)), view, keeper.embedder, allowed)
        keeper.close()


# --- features, from the product's own steps ------------------------------------------------------------------------


def collect(engine: Engine, dataset: datasets.Dataset, trees: Path) -> tuple[Channel, Channel]:
    """Every query of the dataset, asked without and with vectors."""
    plain: list[Asked] = []
    meant: list[Asked] = []
    for place in places(engine, dataset, trees):
        for query in place.queries:
            plain.append(features(query, place, None))
            meant.append(features(query, place, place.embedder))
    return (
        Channel("without vectors", WORDS, WITHOUT_VECTORS, tuple(plain)),
        Channel("with vectors", (*WORDS, *MEANING), WITH_VECTORS, tuple(meant)),
    )


def features(asked: datasets.Query, place: Place, embedder: Embedder | None) -> Asked:
    weights = WITHOUT_VECTORS if embedder is None else WITH_VECTORS
    view = place.view
    query = read_query(asked.text, project_words=place.project)
    evidence = gather(query, view, embedder, weights)
    scores = filtered(fuse(evidence, weights), SearchOptions(allowed=place.allowed))
    ranked = boosted(query, scores, view, weights)
    if isinstance(embedder, WordEmbedder):
        ranked = told_by_path(ranked, evidence, view, embedder, weights, len(ranked))
    ranked.sort(key=lambda item: view.paths[item.file])  # ties are then decided as the product decides them
    rows = [_signals(item, evidence) for item in ranked]
    width = len(WORDS) + (len(MEANING) if embedder is not None else 0)
    paths = tuple(place.prefix + view.paths[item.file] for item in ranked)
    return Asked(asked, paths, np.array(rows, np.float64).reshape(len(ranked), width))


def _signals(item: Ranked, evidence: Evidence) -> list[float]:
    values = [float(evidence.files[name][item.file]) for name in WORDS]
    return [value * item.factor for value in (*values, *([] if item.meaning is None else [item.meaning]))]


# --- the fit -------------------------------------------------------------------------------------------------------


def fit(asked: Sequence[Asked], width: int) -> Floats:
    """Weights that put the right files first: Adam on the softmax loss over each query's candidates."""
    signals, candidate, right = _padded([one for one in asked if _right(one).any()], width)
    weights = np.full(width, START)
    drift, spread = np.zeros(width), np.zeros(width)
    for step in range(STEPS):
        scores = np.where(candidate, TEMPERATURE * (signals @ weights), -np.inf)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        slope = np.einsum("qc,qcs->s", chances - right, signals) / len(signals) + PULL * (weights - START)
        drift = 0.9 * drift + 0.1 * slope
        spread = 0.99 * spread + 0.01 * slope * slope
        weights = weights - RATE * (1 - step / STEPS) * drift / (np.sqrt(spread) + 1e-8)
        weights = np.maximum(weights, 0.0)  # a signal may be worth nothing; none was meant to count against a file
    return weights


def _padded(asked: Sequence[Asked], width: int) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """All queries as one array, short lists of candidates filled up: (signals, is a candidate, share of right ones)."""
    longest = max(len(one.paths) for one in asked)
    signals = np.zeros((len(asked), longest, width))
    candidate = np.zeros((len(asked), longest), bool)
    right = np.zeros((len(asked), longest))
    for at, one in enumerate(asked):
        count = len(one.paths)
        signals[at, :count], candidate[at, :count] = one.signals, True
        wanted = _right(one)
        right[at, :count] = wanted / wanted.sum()
    return signals, candidate, right


def _right(one: Asked) -> NDArray[np.bool_]:
    return np.array([any(target.is_file(path) for target in one.query.targets) for path in one.paths], bool)


def left_out(channel: Channel, deal: int) -> dict[str, Floats]:
    """For each repository weights fitted without any repository of its part."""
    weights: dict[str, Floats] = {}
    for part in parts({one.query.repo for one in channel.asked}, deal):
        seen = [one for one in channel.asked if one.query.repo not in part]
        weights |= dict.fromkeys(part, fit(seen, len(channel.signals)))
    return weights


def parts(repositories: set[str], deal: int) -> Iterator[frozenset[str]]:
    names = sorted(repositories)
    random.Random(deal).shuffle(names)
    return (frozenset(names[at::FOLDS]) for at in range(min(FOLDS, len(names))))


def judged(asked: Sequence[Asked], weights: Floats) -> dict[str, Score]:
    """The score of each query when its candidates are ordered by these weights."""
    scores = {}
    for one in asked:
        order = np.argsort(-(one.signals @ weights), kind="stable")
        found = tuple(Found(one.paths[at]) for at in order.tolist())
        scores[one.query.id] = score(one.query, Answer(one.query.id, found))
    return scores


def searched(place: Place, embedder: Embedder | None, weights: Weights) -> dict[str, Score]:
    """The score of each query of a repository when the whole line answers it with these weights."""
    options = SearchOptions(project_words=place.project, allowed=place.allowed, weights=weights)
    scores = {}
    for query in place.queries:
        hits = search(query.text, place.view, embedder, options).hits
        found = tuple(Found(place.prefix + hit.path, hit.start_line, hit.end_line) for hit in hits)
        scores[query.id] = score(query, Answer(query.id, found))
    return scores


# --- the report ----------------------------------------------------------------------------------------------------


def report(channel: Channel, deals: Sequence[Mapping[str, Floats]]) -> None:
    """Prints a channel's weights and figures; `deals` are the left-out weights of each repository."""
    shipped = np.array([getattr(channel.shipped, name) for name in channel.signals])
    fitted = fit(channel.asked, len(channel.signals))
    fitted *= shipped.sum() / fitted.sum()  # an order is the same at any scale; this one compares with the shipped
    print(f"\n{channel.name}: {len(channel.asked)} queries")
    print(f"  {'signal':22}{'shipped':>8}{'fitted':>8}")
    for name, old, new in zip(channel.signals, shipped, fitted, strict=True):
        print(f"  {name:22}{old:8.2f}{new:8.2f}")
    rows = {
        "equal weights": judged(channel.asked, np.full(len(channel.signals), START)),
        "shipped (in-sample)": judged(channel.asked, shipped),
        "fitted in-sample": judged(channel.asked, fitted),
        **{f"left out, deal {deal}": judged_apart(channel, unseen) for deal, unseen in zip(DEALS, deals, strict=True)},
    }
    show(METRIC, rows, [one.query for one in channel.asked])


def judged_apart(channel: Channel, weights: Mapping[str, Floats]) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for one in channel.asked:
        scores |= judged([one], weights[one.query.repo])
    return scores


def show(metric: str, rows: Mapping[str, Mapping[str, Score]], queries: Sequence[datasets.Query]) -> None:
    categories = sorted({query.category for query in queries})
    print(f"  {metric:26}{'all':>8}" + "".join(f"{name:>14}" for name in categories))
    for name, scores in rows.items():
        whole = mean(getattr(scores[query.id], metric) for query in queries)
        means = (mean(getattr(scores[q.id], metric) for q in queries if q.category == wanted) for wanted in categories)
        print(f"  {name:26}{whole:8.4f}" + "".join(f"{value:14.4f}" for value in means))


def whole_line(
    engine: Engine,
    dataset: datasets.Dataset,
    trees: Path,
    channels: Sequence[tuple[Channel, Sequence[Mapping[str, Floats]]]],
) -> None:
    """Searches with the shipped and with the left-out weights, and prints what they are worth."""
    rows: dict[str, dict[str, Score]] = {}
    for place in places(engine, dataset, trees):
        for channel, deals in channels:
            trials = {f"{channel.name}, shipped": channel.shipped}
            for deal, unseen in zip(DEALS, deals, strict=True):
                fitted = dict(zip(channel.signals, unseen[place.repo].tolist(), strict=True))
                trials[f"{channel.name}, deal {deal}"] = channel.shipped._replace(**fitted)
            for name, weights in trials.items():
                embedder = place.embedder if channel.shipped is WITH_VECTORS else None
                rows.setdefault(name, {}).update(searched(place, embedder, weights))
    print("\nthe whole line")
    show(WHOLE, rows, dataset.queries)
    old, new = rows["without vectors, deal 1"], rows["with vectors, deal 1"]
    print(_told(compare("without vectors", dataset.queries, old, new, WHOLE)))


def _told(found: Comparison) -> str:
    return (
        f"\nvectors against none, both left out, {found.metric}: {found.old:.4f} → {found.new:.4f}, "
        f"difference {found.difference:+.4f} "
        f"(95 %: {found.low:+.4f} to {found.high:+.4f}), p = {found.p_value:.4f}, "
        f"{len(found.wins)} won, {len(found.losses)} lost, {found.ties} tied"
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("dataset", type=Path)
    arguments.add_argument("--trees", type=Path, required=True, help="each repository in a folder of its name")
    arguments.add_argument("--cache", type=Path, required=True, help="where indexes are kept for the next run")
    options = arguments.parse_args()
    dataset = datasets.load(options.dataset)
    config = Config.load({"paths.cache_dir": str(options.cache.resolve())}, options.trees)
    with Engine(config) as engine:
        channels = [
            (channel, [left_out(channel, deal) for deal in DEALS])
            for channel in collect(engine, dataset, options.trees)
        ]
        for channel, deals in channels:
            report(channel, deals)
        (plain, (words, *_)), (meant, (vectors, *_)) = channels
        old, new = judged_apart(plain, words), judged_apart(meant, vectors)
        print(_told(compare("without vectors", dataset.queries, old, new, METRIC)))
        whole_line(engine, dataset, options.trees, channels)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
