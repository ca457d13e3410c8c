"""What an evaluation is asked for and what it answers; fields carry their help as those of `codeinfo.requests` do."""

from __future__ import annotations

from dataclasses import dataclass

from codeinfo.evals.compare import Comparison
from codeinfo.evals.gates import Verdict
from codeinfo.evals.metrics import Score, Summary
from codeinfo.requests import _arg, _opt


@dataclass(frozen=True, slots=True)
class EvalRequest:
    dataset: str = _arg(
        "", "A folder with queries.jsonl and repos.tsv, or a fixture in JSON; with --from-git, a repository."
    )
    from_git: bool = _opt(
        False, "Make the questions of a repository's own history: what a commit says, what it changed."
    )
    commits: int = _opt(30, "With --from-git, ask about this many commits.", minimum=1, maximum=1000)
    trees: str = _opt("", "The folder with the repositories, each in a folder of its name.", metavar="DIR")
    repos: tuple[str, ...] = _opt((), "Only questions about this repository; may be given several times.")
    whole: bool = _opt(False, "Index whole trees and search every kind of file, as users have them.")
    out: str = _opt("", "Write what was found, one query a line.", metavar="FILE")
    compare: tuple[str, ...] = _opt((), "Set against an older run's --out file, query by query.", metavar="FILE")
    gates: tuple[str, ...] = _opt((), "Fail unless a figure is at least (a cost: at most) this.", metavar="NAME=VALUE")
    chart: str = _opt("", "Write an SVG of quality against latency and tokens.", metavar="FILE")
    explain: bool = _opt(False, "List every query that was won, lost or not answered.", short="e")


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of some of the queries: all, or those of one language, category or repository."""

    by: str  # "all", "language", "category" or "repo"
    name: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query, what was wanted and what came first."""

    id: str
    query: str
    wanted: tuple[str, ...]
    first: str  # the path of the best result, "" for none
    score: Score


@dataclass(frozen=True, slots=True)
class EvalReport:
    dataset: str
    groups: tuple[Group, ...]
    outcomes: tuple[Outcome, ...]
    comparisons: tuple[Comparison, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    files: int = 0  # indexed, over all trees
    chunks: int = 0
    index_ms: float = 0.0
    model_id: str = ""  # "" for keyword search only
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)
