"""What an evaluation is asked for and what it answers; fields carry their help as those of `codeinfo.requests` do."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.evals.metrics import Comparison, Score, Summary, Verdict
from codeinfo.requests import Arg, Opt


class EvalRequest(Struct, frozen=True):
    dataset: Annotated[
        str, Arg("A folder with queries.jsonl and repos.tsv, or a fixture in JSON; with --from-git, a repository.")
    ] = ""
    from_git: Annotated[
        bool, Opt("Make the questions of a repository's own history: what a commit says, what it changed.")
    ] = False
    commits: Annotated[int, Opt("With --from-git, ask about this many commits.", minimum=1, maximum=1000)] = 30
    trees: Annotated[str, Opt("The folder with the repositories, each in a folder of its name.", metavar="DIR")] = ""
    repos: Annotated[tuple[str, ...], Opt("Only questions about this repository; may be given several times.")] = ()
    whole: Annotated[bool, Opt("Index whole trees and search every kind of file, as users have them.")] = False
    out: Annotated[str, Opt("Write what was found, one query a line.", metavar="FILE")] = ""
    compare: Annotated[
        tuple[str, ...], Opt("Set against an older run's --out file, query by query.", metavar="FILE")
    ] = ()
    gates: Annotated[
        tuple[str, ...], Opt("Fail unless a figure is at least (a cost: at most) this.", metavar="NAME=VALUE")
    ] = ()
    chart: Annotated[str, Opt("Write an SVG of quality against latency and tokens.", metavar="FILE")] = ""
    explain: Annotated[bool, Opt("List every query that was won, lost or not answered.", short="e")] = False


class Group(Struct, frozen=True):
    """The figures of some of the queries: all, or those of one language, category or repository."""

    by: str  # "all", "language", "category" or "repo"
    name: str
    summary: Summary


class Outcome(Struct, frozen=True):
    """One query, what was wanted and what came first."""

    id: str
    query: str
    wanted: tuple[str, ...]
    first: str  # the path of the best result, "" for none
    score: Score


class EvalReport(Struct, frozen=True):
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
