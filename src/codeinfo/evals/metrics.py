"""What a ranked answer is worth: figures of one query, and their summary over many. Pure.

Binary relevance, the first ten results. `ndcg10` looks at the list as returned: a repeated file uses up ranks, a target
with a line span needs an overlap, two targets at one rank count once. `shown`, `first_tokens` and the recalls within a
budget look at what a reader sees: the lines that are shown, in order. `function10` looks at the lines of whole results.
All else looks at files, each at its first entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from codeinfo.evals.datasets import Query, Target
from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.operations.evaluation import Score, Summary

DEPTH = 10
OK = "ok"  # what a search says of an answer that it trusts
CHARS_PER_TOKEN = 4  # close enough for code across tokenizers; only ratios are read from it


class Found(Struct, frozen=True):
    """One result of a search; the path is relative to the repository's root, `chars` what its text costs a reader."""

    path: str
    start: int | None = None
    end: int | None = None
    chars: int = 0
    shown: tuple[int, int] | None = None  # first and last line of its text; None: not known

    def lines(self) -> tuple[int | None, int | None]:
        """Those that are shown, else those of the whole result."""
        return self.shown or (self.start, self.end)


class Answer(Struct, frozen=True):
    """All that a search returned for one query, best first."""

    id: str
    found: tuple[Found, ...]
    took_ms: float | None = None
    status: str = ""  # how sure the search was: "ok" or "low_confidence"; "": it did not say

    @property
    def is_ok(self) -> bool | None:
        return self.status == OK if self.status else None


LOWER_IS_BETTER = frozenset({"spec", "chars", "tokens", "first_tokens", "p50_ms", "p95_ms"})


def score(query: Query, answer: Answer | None) -> Score:
    found = answer.found if answer else ()
    firsts = [_first(target, found) for target in query.targets]
    files = list(dict.fromkeys(hit.path for hit in found))
    ranks = [rank for target in _files_wanted(query.targets) if (rank := _file_rank(target, files))]
    wanted = len(_files_wanted(query.targets))
    near = [rank for rank in ranks if rank <= DEPTH]
    costs = [_tokens_until(target, found[:DEPTH]) for target in query.targets]
    read = [cost for cost in costs if cost is not None]
    chars = sum(hit.chars for hit in found[:DEPTH])
    changed = [target for target in query.targets if target.spans]

    def recall_within(tokens: int) -> float:
        return sum(cost <= tokens for cost in read) / len(costs) if costs else 0.0

    return Score(
        ndcg10=ndcg([rank for rank in firsts if rank], len(query.targets)),
        file10=ndcg(ranks, wanted),
        recall10=len(near) / wanted if wanted else 0.0,
        mrr10=1 / min(near) if near else 0.0,
        top1=float(1 in ranks),
        top3=float(any(rank <= 3 for rank in ranks)),
        top5=float(any(rank <= 5 for rank in ranks)),
        top10=float(bool(near)),
        spec=float(sum(is_test(path) for path in files[:3]) >= 2),
        chars=chars,
        shown=_shown(query.targets, found[:DEPTH]),
        first_tokens=min(read, default=chars / CHARS_PER_TOKEN),  # of a query without an answer: all of it, in vain
        recall500=recall_within(500),
        recall1000=recall_within(1000),
        recall2000=recall_within(2000),
        functions=len(changed),
        functions_found=sum(_finds_function(target, found[:DEPTH]) for target in changed),
        ok=answer.is_ok if answer else None,
        took_ms=answer.took_ms if answer else None,
    )


def summarise(scores: Sequence[Score]) -> Summary:
    times = sorted(score.took_ms for score in scores if score.took_ms is not None)
    chars = mean(score.chars for score in scores)
    functions = sum(score.functions for score in scores)
    return Summary(
        n=len(scores),
        ndcg10=mean(score.ndcg10 for score in scores),
        file10=mean(score.file10 for score in scores),
        recall10=mean(score.recall10 for score in scores),
        mrr10=mean(score.mrr10 for score in scores),
        top1=mean(score.top1 for score in scores),
        top3=mean(score.top3 for score in scores),
        top5=mean(score.top5 for score in scores),
        top10=mean(score.top10 for score in scores),
        spec=mean(score.spec for score in scores),
        chars=chars,
        tokens=chars / CHARS_PER_TOKEN,
        shown=_mean_or_none(score.shown for score in scores if score.shown is not None),
        first_tokens=mean(score.first_tokens for score in scores),
        recall500=mean(score.recall500 for score in scores),
        recall1000=mean(score.recall1000 for score in scores),
        recall2000=mean(score.recall2000 for score in scores),
        function10=sum(score.functions_found for score in scores) / functions if functions else None,
        ok=_mean_or_none(score.ok for score in scores if score.ok is not None),
        ok_top3=_mean_or_none(score.top3 for score in scores if score.ok),
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


def _mean_or_none(values: Iterable[float]) -> float | None:
    collected = list(values)
    return mean(collected) if collected else None


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


def _finds_function(target: Target, found: Sequence[Found]) -> bool:
    return any(target.has_function(hit.path, hit.start, hit.end) for hit in found)


def _tokens_until(target: Target, found: Sequence[Found]) -> float | None:
    """What is read in order up to and with the first result that shows a line of the target; None: none does."""
    chars = 0
    for hit in found:
        chars += hit.chars
        if target.covers(hit.path, *hit.lines()):
            return chars / CHARS_PER_TOKEN
    return None


def _shown(targets: Sequence[Target], found: Sequence[Found]) -> float | None:
    """Of the targets with lines that some result has, the share whose first such result also shows one of them."""
    firsts = [
        target.covers(hit.path, *hit.lines())
        for target in targets
        if target.start is not None
        and (hit := next((hit for hit in found if target.covers(hit.path, hit.start, hit.end)), None)) is not None
    ]
    return sum(firsts) / len(firsts) if firsts else None


def _files_wanted(targets: Sequence[Target]) -> list[Target]:
    """One target a file, however many spans in it are wanted."""
    return list({(target.path, target.patterns): target for target in targets}.values())


def _file_rank(target: Target, files: Sequence[str]) -> int | None:
    return next((rank for rank, path in enumerate(files, 1) if target.is_file(path)), None)
