"""What a ranked answer is worth: figures of one query, and their summary over many. Pure.

Binary relevance, the first ten results. `ndcg10` looks at the list as returned: a repeated file uses up ranks, a target
with a line span needs an overlap, two targets at one rank count once. All else looks at files, each at its first entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codeinfo.evals.datasets import Query, Target
from codeinfo.sources.languages import kind_of, language_of
from codeinfo.types import FileKind

DEPTH = 10
CHARS_PER_TOKEN = 4  # close enough for code across tokenizers; only ratios are read from it


@dataclass(frozen=True, slots=True)
class Found:
    """One result of a search; the path is relative to the repository's root, `chars` what its text costs a reader."""

    path: str
    start: int | None = None
    end: int | None = None
    chars: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """All that a search returned for one query, best first."""

    id: str
    found: tuple[Found, ...]
    took_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one query."""

    ndcg10: float
    file10: float
    recall10: float
    mrr10: float
    top1: float
    top3: float
    spec: float  # 1 when two or more of the first three files are tests
    chars: int
    took_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over queries; a query without results counts as zero. Times are None where nobody took them."""

    n: int
    ndcg10: float
    file10: float
    recall10: float
    mrr10: float
    top1: float
    top3: float
    spec: float
    chars: float
    tokens: float
    p50_ms: float | None = None
    p95_ms: float | None = None


LOWER_IS_BETTER = frozenset({"spec", "chars", "tokens", "p50_ms", "p95_ms"})


def score(query: Query, answer: Answer | None) -> Score:
    found = answer.found if answer else ()
    firsts = [_first(target, found) for target in query.targets]
    files = list(dict.fromkeys(hit.path for hit in found))
    ranks = [rank for target in _files_wanted(query.targets) if (rank := _file_rank(target, files))]
    wanted = len(_files_wanted(query.targets))
    near = [rank for rank in ranks if rank <= DEPTH]
    return Score(
        ndcg10=ndcg([rank for rank in firsts if rank], len(query.targets)),
        file10=ndcg(ranks, wanted),
        recall10=len(near) / wanted if wanted else 0.0,
        mrr10=1 / min(near) if near else 0.0,
        top1=float(1 in ranks),
        top3=float(any(rank <= 3 for rank in ranks)),
        spec=float(sum(is_test(path) for path in files[:3]) >= 2),
        chars=sum(hit.chars for hit in found[:DEPTH]),
        took_ms=answer.took_ms if answer else None,
    )


def summarise(scores: Sequence[Score]) -> Summary:
    times = sorted(score.took_ms for score in scores if score.took_ms is not None)
    chars = mean(score.chars for score in scores)
    return Summary(
        n=len(scores),
        ndcg10=mean(score.ndcg10 for score in scores),
        file10=mean(score.file10 for score in scores),
        recall10=mean(score.recall10 for score in scores),
        mrr10=mean(score.mrr10 for score in scores),
        top1=mean(score.top1 for score in scores),
        top3=mean(score.top3 for score in scores),
        spec=mean(score.spec for score in scores),
        chars=chars,
        tokens=chars / CHARS_PER_TOKEN,
        p50_ms=percentile(times, 0.5),
        p95_ms=percentile(times, 0.95),
    )


def ndcg(ranks: Iterable[int], wanted: int) -> float:
    """Discounted gain of the ranks (1-based) against the best possible for so many targets."""
    return _dcg(ranks) / _dcg(range(1, min(DEPTH, wanted) + 1)) if wanted else 0.0


def _dcg(ranks: Iterable[int]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in sorted(set(ranks)) if rank <= DEPTH)


def mean(values: Iterable[float]) -> float:
    collected = list(values)
    return sum(collected) / len(collected) if collected else 0.0


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """By linear interpolation between the neighbours; None of nothing."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def is_test(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.TEST


def _first(target: Target, found: Sequence[Found]) -> int | None:
    return next((rank for rank, hit in enumerate(found, 1) if target.covers(hit.path, hit.start, hit.end)), None)


def _files_wanted(targets: Sequence[Target]) -> list[Target]:
    """One target a file, however many spans in it are wanted."""
    return list({(target.path, target.patterns): target for target in targets}.values())


def _file_rank(target: Target, files: Sequence[str]) -> int | None:
    return next((rank for rank, path in enumerate(files, 1) if target.is_file(path)), None)
