"""Measure search. For the command line only: it reads and writes files that its user names."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.operations.answers import ModelName, ProviderName
from codeinfo.operations.base import Arg, Operation, Opt, load


class EvalRequest(Struct, frozen=True):
    dataset: Annotated[
        str, Arg("A folder with queries.jsonl and repos.tsv, or a fixture in JSON; with --from-git, a repository.")
    ] = ""
    from_git: Annotated[
        bool, Opt("Build the questions from a repository's own history: what a commit says, what it changed.")
    ] = False
    commits: Annotated[int, Opt("With --from-git, ask about this many commits.", minimum=1, maximum=1000)] = 30
    trees: Annotated[
        str, Opt("The folder that holds the repositories, each in a folder of its name.", metavar="DIR")
    ] = ""
    repos: Annotated[tuple[str, ...], Opt("Only questions about this repository; may be given several times.")] = ()
    whole: Annotated[bool, Opt("Index whole trees and search every kind of file, as users do.")] = False
    out: Annotated[str, Opt("Write the results, one query per line.", metavar="FILE")] = ""
    compare: Annotated[
        tuple[str, ...], Opt("Compare with an older run's --out file, query by query.", metavar="FILE")
    ] = ()
    gates: Annotated[
        tuple[str, ...], Opt("Fail unless a figure is at least (a cost: at most) this.", metavar="NAME=VALUE")
    ] = ()
    chart: Annotated[str, Opt("Write an SVG of quality against latency and tokens.", metavar="FILE")] = ""
    explain: Annotated[bool, Opt("List every query that improved, got worse or was not answered.", short="e")] = False


class Score(Struct, frozen=True):
    """The figures of one query."""

    ndcg10: float
    file10: float
    recall10: float
    mrr10: float
    top1: float
    top3: float
    top5: float
    top10: float
    spec: float  # 1 when two or more of the first three files are tests
    chars: int
    shown: float | None  # share of the targets with lines whose first result shows one of them; None: no such result
    first_tokens: float  # read until the first right line is
    recall500: float  # of the targets, within so many tokens
    recall1000: float
    recall2000: float
    functions: int = 0  # targets that name the changed lines
    functions_found: int = 0  # those that a result overlaps
    ok: bool | None = None  # whether the search trusted its answer; None: it did not say
    took_ms: float | None = None


class Summary(Struct, frozen=True):
    """Means over queries; a query without results counts as zero. None: not measured, or no query has it."""

    n: int
    ndcg10: float
    file10: float
    recall10: float
    mrr10: float
    top1: float
    top3: float
    top5: float
    top10: float
    spec: float
    chars: float
    tokens: float
    shown: float | None
    first_tokens: float
    recall500: float
    recall1000: float
    recall2000: float
    function10: float | None = None  # of the targets that name the changed lines, over all queries
    ok: float | None = None  # of the answers that say
    ok_top3: float | None = None  # of those that are ok
    p50_ms: float | None = None
    p95_ms: float | None = None


class Change(Struct, frozen=True):
    """One query whose score differs between the runs."""

    id: str
    query: str
    old: float
    new: float


class Comparison(Struct, frozen=True):
    """`low` and `high` bound the difference of means with 95 % confidence; `p_value` is two-sided."""

    name: str  # of the older run
    metric: str
    n: int
    old: float
    new: float
    difference: float
    low: float
    high: float
    p_value: float
    wins: tuple[Change, ...]  # largest gain first
    losses: tuple[Change, ...]  # largest loss first
    ties: int


class Verdict(Struct, frozen=True):
    metric: str
    wanted: float
    value: float | None  # None: not measured, which does not pass
    passed: bool


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


# --- answer tests ----------------------------------------------------------------------------------------------------


class AnswerEvalRequest(Struct, frozen=True):
    suites: Annotated[tuple[str, ...], Arg("YAML files with questions and the requirements for their answers.")]
    paths: Annotated[
        tuple[str, ...], Opt("The folders the questions are about; the project you are in by default.", metavar="DIR")
    ] = ()
    provider: ProviderName = ""
    model: ModelName = ""


class AnswerCheck(Struct, frozen=True):
    """One question of a suite and what its answer lacks; nothing lacking is a pass."""

    suite: str
    question: str
    passed: bool
    failures: tuple[str, ...]
    status: str
    tokens: int = 0


class AnswerEvalReport(Struct, frozen=True):
    checks: tuple[AnswerCheck, ...]
    passed: int
    failed: int


# --- rows ------------------------------------------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        "eval",
        EvalRequest,
        EvalReport,
        lambda engine, request, progress: load("codeinfo.evals.report:evaluate")(engine, request, progress),
        "Measure search on questions with known answers, or on a repository's own history.",
        help="Exit code 3 when a gate is not reached. docs/evaluation.md says what the figures mean.",
        read_only=False,
        group="local",
        exit_code=lambda report: 0 if report.passed else 3,
    ),
    Operation(
        "eval answers",
        AnswerEvalRequest,
        AnswerEvalReport,
        lambda engine, request, progress: load("codeinfo.evals.report:run_suites")(engine.answers, request),
        "Ask the questions of YAML suites and check what the answers cite, mention or refuse.",
        help="Exit code 3 when an answer fails a check. docs/answers.md describes the files.",
        read_only=False,
        group="local",
        exit_code=lambda report: 3 if report.failed else 0,
    ),
)
