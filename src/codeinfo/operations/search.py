"""Build an index, search it, maintain it, measure it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from codeinfo.model import FileKind, Intent, SearchResult, Skip
from codeinfo.operations.answers import ModelName, ProviderName
from codeinfo.operations.base import (
    FILE,
    PROJECT,
    Arg,
    Folders,
    Limit,
    Opt,
    Refresh,
    Revision,
    Texts,
    has_skips,
    registry,
)

OPERATIONS, _operation, _change = registry()

# --- search ----------------------------------------------------------------------------------------------------------

Languages = Annotated[Texts, Opt("Only files of this language; may be given several times.", short="l")]
Globs = Annotated[Texts, Opt("Only paths that match; a leading ! excludes them.", short="g")]
Kinds = Annotated[Texts, Opt("Only files of this kind.", short="k", choices=tuple(k.value for k in FileKind))]
ChangedSince = Annotated[str, Opt("Only files that differ from this git revision.", metavar="REV")]
Everywhere = Annotated[bool, Opt("Search all projects indexed on this machine or, with a team, all that you may see.")]
PURPOSES = ("edit", "refactor", "migrate")
_PURPOSE = "Search before this kind of change: a card says whether the evidence is enough to start."
_INTENTS = tuple(intent.value for intent in Intent)


@_operation("search", SearchResult, "search", section="Search and ask")
class SearchRequest(Struct, frozen=True):
    r"""Find the code and documents that answer a query.

    The first search in a folder indexes it; later ones only look at what changed. A query in quotes of its own, '"like
    this"', or between slashes, '/like \w+/', or with -E, -w or -i, finds every line that has it.
    """

    query: Annotated[str, Arg("What to look for: a name, a path, or a question in plain words.")]
    paths: Folders = ()
    limit: Limit = 10
    intent: Annotated[str, Opt("Treat the query as this kind instead of detecting it.", choices=_INTENTS)] = ""
    purpose: Annotated[str, Opt(_PURPOSE, choices=PURPOSES)] = ""
    languages: Languages = ()
    globs: Globs = ()
    kinds: Kinds = ()
    symbol_kinds: Annotated[Texts, Opt("Only definitions of this kind: function, class, method…")] = ()
    changed_since: ChangedSince = ""
    max_tokens: Annotated[int, Opt("Pack the best results into about this many tokens; 0 for no limit.", minimum=0)] = 0
    explain: Annotated[
        bool, Opt("Show why each result is ranked where it is, and which rule left out what.", short="e")
    ] = False
    snippets: Annotated[bool, Opt("Show the text of the results.")] = True
    context: Annotated[
        bool, Opt("Add who calls each result, its tests, the team's patterns and memories.", short="c")
    ] = False
    full_text: Annotated[bool, Opt("Show whole chunks instead of the lines that answer.")] = False
    refresh: Refresh = True
    at: Revision = ""
    all_projects: Everywhere = False


BEFORE_MATCH = 100  # characters of a long line that are shown before its match
QUOTES = {'"': False, "/": True}  # around a query for `grep`, and whether it is an expression


def strip_quotes(query: str) -> tuple[str, bool] | None:
    """A query that is `"quoted"` or `/an expression/` without its marks, and which of the two; None for others."""
    is_quoted = len(query) > 2 and query[0] == query[-1] and query[0] in QUOTES
    return (query[1:-1], QUOTES[query[0]]) if is_quoted else None


class Match(Struct, frozen=True):
    """A line that matches, and where in it the first match begins, in characters from 1. A long line is cut around
    its match, and secrets in it are masked."""

    path: str
    line: int
    column: int
    length: int  # of the match, in characters
    text: str
    symbol: str  # the innermost definition around it, "" where there is none or the file is not indexed
    root: str

    @property
    def span(self) -> tuple[int, int]:
        """Where the match is in `text`."""
        start = self.column - 1
        if start > BEFORE_MATCH and self.text.startswith("…"):
            start = len("…") + BEFORE_MATCH
        return start, min(start + self.length, len(self.text))


class GrepResult(Struct, frozen=True):
    pattern: str
    matches: tuple[Match, ...]  # by path and line, at most as many as were asked for
    total: int  # lines that match, those not shown included
    files: int  # that have such lines
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0


@_operation("grep", GrepResult, "grep", section="Search and ask")
class GrepRequest(Struct, frozen=True):
    """Find every line that contains a text or matches a regular expression.

    Searches all text files of the project, including generated and changed ones; secrets are masked. Regular
    expressions are those of RE2, within one line.
    """

    pattern: Annotated[str, Arg("The text to look for; with --regex a regular expression.")]
    paths: Folders = ()
    regex: Annotated[bool, Opt("Treat the pattern as a regular expression.", short="E")] = False
    word: Annotated[bool, Opt("Only whole words.", short="w")] = False
    ignore_case: Annotated[bool, Opt("Ignore upper and lower case.", short="i")] = False
    limit: Annotated[int, Opt("At most this many lines; all are counted.", short="n", minimum=1, maximum=10_000)] = 100
    languages: Languages = ()
    globs: Globs = ()
    kinds: Kinds = ()
    symbol_kinds: Annotated[Texts, Opt("Only lines within definitions of this kind.")] = ()
    changed_since: ChangedSince = ""
    refresh: Refresh = True
    at: Revision = ""
    all_projects: Everywhere = False


@_operation("similar", SearchResult, "searches.similar", section="Search and ask")
class SimilarRequest(Struct, frozen=True):
    """Find code similar to the code at a location.

    By its words and its meaning; useful before writing something that may exist already.
    """

    place: Annotated[str, Arg("Where to look: FILE:LINE, as in src/app.py:42.")]
    path: Annotated[str, Opt("Only results from this folder; the project you are in by default.", names=PROJECT)] = ""
    limit: Limit = 10
    explain: Annotated[bool, Opt("Show why each result is ranked where it is.", short="e")] = False


# --- index -----------------------------------------------------------------------------------------------------------

_PROJECTS = "Projects, each given by any folder in it; the one you are in by default."
Indexed = Annotated[Texts, Arg(_PROJECTS, names=PROJECT)]


class IndexReport(Struct, frozen=True):
    """What one index run did to one root."""

    root: str
    files: int
    chunks: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    renamed: int = 0
    skipped: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0
    rebuilt: bool = False
    model_id: str = ""  # "" for a keyword-only index


class IndexResponse(Struct, frozen=True):
    reports: tuple[IndexReport, ...]


@_operation("index", IndexResponse, "index", section="The index", falls_short=has_skips)
class IndexRequest(Struct, frozen=True):
    """Build or refresh the index of a folder.

    Only what changed is indexed again. Interrupt it at any time: the next run continues where it stopped.
    """

    paths: Indexed = ()
    full: Annotated[bool, Opt("Rebuild everything instead of only what changed.")] = False


# --- status, why, clear ----------------------------------------------------------------------------------------------


class IndexStatus(Struct, frozen=True):
    """The state of one root's index: `ready`, `stale` (something changed since), `missing`, `building` or `damaged`."""

    root: str
    state: str
    location: str  # the folder that holds the index
    files: int = 0
    chunks: int = 0
    bytes: int = 0  # on disk, all work trees of the repository together
    shared_with: tuple[str, ...] = ()  # the other work trees in the same index
    shared_chunks: int = 0  # that some of them have too
    kept_chunks: int = 0  # of earlier checkouts, and of revisions that were searched
    generation: int = 0
    indexed_at: str = ""  # ISO 8601, UTC; "" when never
    model_id: str = ""  # "" for a keyword-only index
    dimension: int = 0
    added: int = 0  # files that the next run would add, update or remove
    changed: int = 0
    removed: int = 0
    languages: dict[str, int] = field(default_factory=dict)  # language → files
    notes: tuple[str, ...] = ()


class StatusReport(Struct, frozen=True):
    indexes: tuple[IndexStatus, ...]


@_operation("status", StatusReport, "status", section="The index")
class StatusRequest(Struct, frozen=True):
    """Show what is indexed and whether it is up to date."""

    paths: Indexed = ()


class WhyReport(Struct, frozen=True):
    """Whether a path belongs to the index, and the rule that decided."""

    path: str
    root: str
    included: bool
    rule: str
    detail: str = ""
    language: str = ""
    kind: str = ""
    chunks: int = 0  # 0 when the index does not have it (yet)


@_operation("why", WhyReport, "why", section="The index")
class WhyRequest(Struct, frozen=True):
    """Show why a file is, or is not, in the index.

    Names the rule that decided: an ignore file, a size limit, a default for secrets or build folders…
    """

    path: Annotated[str, Arg("The file or folder in question.", names=FILE)]


class Cleared(Struct, frozen=True):
    root: str
    location: str
    existed: bool
    bytes: int = 0  # freed


class ClearReport(Struct, frozen=True):
    cleared: tuple[Cleared, ...]


@_change("clear", ClearReport, "clear", group="admin", section="The index", confirm="Delete the index of {paths}?")
class ClearRequest(Struct, frozen=True):
    """Delete the index of a folder.

    Your files are not touched; the next search builds the index again.
    """

    paths: Indexed = ()


# --- doctor ----------------------------------------------------------------------------------------------------------


class Check(Struct, frozen=True):
    """One thing that was checked; `state` is `ok`, `warn` (works, but less well) or `fail`."""

    name: str
    state: str
    detail: str
    next_step: str = ""


class DoctorReport(Struct, frozen=True):
    checks: tuple[Check, ...]


@_operation(
    "doctor",
    DoctorReport,
    "codeinfo.shells.install:doctor",
    group="admin",
    section="The index",
    falls_short=lambda report: any(check.state == "fail" for check in report.checks),
)
class DoctorRequest(Struct, frozen=True):
    """Check that everything CodeInfo needs is installed and works."""

    paths: Indexed = ()
    checksums: Annotated[bool, Opt("Read every index in full and compare its checksums.")] = True


class Figures(Struct, frozen=True, kw_only=True):
    ndcg10: float
    file10: float
    recall10: float
    mrr10: float
    top1: float
    top3: float
    top5: float
    top10: float
    spec: float  # 1 when two or more of the first three files are tests
    chars: float
    shown: float | None  # share of the targets with lines whose first result shows one of them; None: no such result
    first_tokens: float  # read until the first right line is
    recall500: float  # of the targets, within 500 tokens, and so on
    recall1000: float
    recall2000: float


class Score(Figures, frozen=True, kw_only=True):
    """The figures of one query."""

    functions: int = 0  # targets that name the changed lines
    functions_found: int = 0  # those that a result overlaps
    ok: bool | None = None  # whether the search trusted its answer; None: it did not say
    took_ms: float | None = None


class Summary(Figures, frozen=True, kw_only=True):
    """Means over queries; a query without results counts as zero. None: not measured, or no query has it."""

    n: int
    tokens: float
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


@_change("eval", EvalReport, "codeinfo.evals.run:evaluate", group="local", falls_short=lambda report: not report.passed)
class EvalRequest(Struct, frozen=True):
    """Measure search on questions with known answers, or on a repository's own history.

    Exit code 3 when a gate is not reached. docs/evaluation.md says what the figures mean. `codeinfo eval answers`
    tests answers instead.
    """

    dataset: Annotated[
        str, Arg("A folder with queries.jsonl and repos.tsv, or a fixture in JSON; with --from-git, a repository.")
    ] = ""
    from_git: Annotated[
        bool, Opt("Build the questions from a repository's own history: what a commit says, what it changed.")
    ] = False
    commits: Annotated[int, Opt("With --from-git, ask about this many commits.", minimum=1, maximum=1000)] = 30
    trees: Annotated[str, Opt("The folder with the repositories, each in a folder of its name.", metavar="DIR")] = ""
    repos: Annotated[Texts, Opt("Only questions about this repository; may be given several times.")] = ()
    whole: Annotated[bool, Opt("Index whole trees and search every kind of file, as users do.")] = False
    out: Annotated[str, Opt("Write the results, one query per line.", metavar="FILE")] = ""
    compare: Annotated[Texts, Opt("Compare with an older run's --out file, query by query.", metavar="FILE")] = ()
    gates: Annotated[Texts, Opt("Fail unless a figure is at least (a cost: at most) this.", metavar="NAME=VALUE")] = ()
    explain: Annotated[bool, Opt("List every query that improved, got worse or was not answered.", short="e")] = False


# --- answer tests ----------------------------------------------------------------------------------------------------

_FOLDERS = "The folders the questions are about; the project you are in by default."


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


@_change(
    "eval answers",
    AnswerEvalReport,
    "codeinfo.evals.run:run_suites",
    group="local",
    falls_short=lambda report: report.failed > 0,
)
class AnswerEvalRequest(Struct, frozen=True):
    """Ask the questions of YAML suites and check what the answers cite, mention or refuse.

    Exit code 3 when an answer fails a check. docs/answers.md describes the files.
    """

    suites: Annotated[Texts, Arg("YAML files with questions and the requirements for their answers.")]
    paths: Annotated[Texts, Opt(_FOLDERS, metavar="DIR", names=PROJECT)] = ()
    provider: ProviderName = ""
    model: ModelName = ""
