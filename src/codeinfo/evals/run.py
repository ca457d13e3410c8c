"""The evaluation, from a request to a report: read questions → ask the engine → score → compare → check gates → write.

Questions are asked over trees that lie in one folder, or over the commits of a repository; results are written to a
file. Figures are for all queries and by language, category and repository, as tables and as a chart.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import NotFound, UsageError
from codeinfo.evals.commits import Commit, History, Layout, read_history
from codeinfo.evals.metrics import (
    DEPTH,
    Answer,
    Dataset,
    Found,
    Query,
    Target,
    check_gates,
    compare,
    load_dataset,
    parse_gates,
    score,
    summarise,
)
from codeinfo.evals.report import chart
from codeinfo.languages import language_of
from codeinfo.model import FileKind, Hit
from codeinfo.operations import search as ops
from codeinfo.operations.base import ProgressSink
from codeinfo.sources import git

if TYPE_CHECKING:
    from codeinfo.engine import Engine


CODE_FILES = (FileKind.CODE.value, FileKind.TEST.value)  # a test is code too: leaving it out would flatter the ranking


class Run(Struct, frozen=True):
    """The results of a run, and the size and cost of its indexes."""

    answers: tuple[Answer, ...]
    files: int
    chunks: int
    index_ms: float
    model_id: str


def run(engine: Engine, dataset: Dataset, trees: Path, *, whole: bool = False, progress: ProgressSink = None) -> Run:
    """Index each repository and ask its questions. Unless `whole`, only the dataset's folder and only code files."""
    by_repo: dict[str, list[Query]] = {}
    for query in dataset.queries:
        by_repo.setdefault(query.repo, []).append(query)
    answers: list[Answer] = []
    reports = []
    for repo, queries in by_repo.items():
        folder = "" if whole else dataset.roots.get(repo, "")
        root = tree_of(repo, trees) / folder
        if not os.path.isdir(root):
            raise NotFound(f"the tree {root} is missing", next_step=f"Put the repository {repo} into {trees}.")
        reports.append(bring_up_to_date(engine, root, progress))
        answers += ask(engine, root, queries, () if whole else CODE_FILES, folder)
    return combine_reports(answers, reports, held=reports)


def combine_reports(
    answers: Sequence[Answer], reports: Sequence[ops.IndexReport], held: Sequence[ops.IndexReport]
) -> Run:
    """`reports` covers all indexing, `held` the indexes that exist at the end."""
    return Run(
        answers=tuple(answers),
        files=sum(report.files for report in held),
        chunks=sum(report.chunks for report in held),
        index_ms=round(sum(report.took_ms for report in reports), 1),
        model_id=held[0].model_id if held else "",
    )


def tree_of(repo: str, trees: Path) -> Path:
    """The repository's folder in `trees`; a fixture may come with the one repository it is about."""
    return trees / repo if repo and os.path.isdir(trees / repo) else trees


def bring_up_to_date(engine: Engine, root: Path, progress: ProgressSink = None) -> ops.IndexReport:
    engine.indexes.of(root)  # exactly the questions' folder, not the repository around it
    return engine.index(ops.IndexRequest(paths=(str(root),)), progress).reports[0]


def ask(
    engine: Engine, root: Path, queries: Iterable[Query], kinds: tuple[str, ...] = (), folder: str = ""
) -> Iterator[Answer]:
    """Each query's answer, timed on an open index. `folder` is the path from the repository to `root`."""
    prefix = f"{folder}/" if folder else ""
    place = (str(root),)
    engine.search(ops.SearchRequest(query=root.name, paths=place, limit=1, refresh=False))  # opens what is opened once
    for query in queries:
        request = ops.SearchRequest(query=query.text, paths=place, limit=DEPTH, kinds=kinds, refresh=False)
        started = time.perf_counter()
        result = engine.search(request)
        took_ms = 1000 * (time.perf_counter() - started)
        found = tuple(_read_hit(prefix, hit) for hit in result.hits)
        yield Answer(query.id, found, round(took_ms, 3), result.quality.status)


def _read_hit(prefix: str, hit: Hit) -> Found:
    shown = (hit.text_line, hit.text_line + hit.text.count("\n"))
    return Found(prefix + hit.path, hit.start_line, hit.end_line, len(hit.text), shown)


# --- results in a file ---------------------------------------------------------------------------------------------


class _Line(Struct):
    id: str | int
    results: tuple[Found, ...]
    took_ms: float | None = None
    status: str = ""


def write_results(path: Path, answers: Iterable[Answer]) -> None:
    """One object a line: id, results [{path, start, end, chars, shown}], took_ms, status."""
    lines = (_Line(one.id, one.found, one.took_ms, one.status) for one in answers)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def read_results(path: Path) -> dict[str, Answer]:
    """What `write_results`, or another system in the same format, wrote: by query id."""
    if not os.path.isfile(path):
        raise NotFound(f"there is no results file {path}", next_step="Write one with `codeinfo eval … --out FILE`.")
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(path.read_bytes())
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path} is not a results file: {error}", next_step="It must have one JSON object per line."
        ) from error
    return {str(line.id): Answer(str(line.id), line.results, line.took_ms, line.status) for line in lines}


# --- a repository's own history ---------------------------------------------------------------------------------------
#
# The query is what a commit says, the answer what it changed.
#
# Every query is asked of the tree as it was just before the commit. That tree is laid out in a folder of its own, from
# one commit to the next, so that only what changed between them is indexed again. Blobs are read, never checked out: a
# checkout would run the filters that the repository names. A clone may lack blobs (a partial one, or one
# that was cut down): their files are left out, and counted.


def evaluate_history(
    engine: Engine, path: Path, count: int, *, whole: bool, progress: ProgressSink
) -> tuple[Dataset, Run, History]:
    """Ask about `count` commits of the repository at `path`, each on the index of its parent. Unless `whole`, only code
    is searched."""
    history = read_history(path, count)
    name = _project(path)
    queries = [_query(commit, name) for commit in history.commits]
    answers: list[Answer] = []
    reports = []
    with tempfile.TemporaryDirectory(prefix="codeinfo-eval-") as folder:
        root = Path(folder) / name  # the ranking treats the folder's name as the project's
        root.mkdir()
        layout = Layout(path, root)
        try:
            for commit, query in zip(history.commits, queries, strict=True):
                layout.move_to(commit.parent)
                reports.append(bring_up_to_date(engine, root, progress))
                answers += ask(engine, root, [query], () if whole else CODE_FILES)
        finally:
            engine.clear(ops.ClearRequest(paths=(str(root),)))
    done = combine_reports(answers, reports, held=reports[-1:])
    return Dataset(f"history of {name}", tuple(queries)), done, replace(history, missing_blobs=layout.missing_blobs)


def _project(path: Path) -> str:
    """The name of the work tree, whichever of its folders was given, or of a bare repository."""
    folder = os.path.abspath(path)
    return os.path.basename(git.work_tree_of(folder) or folder).removesuffix(".git")


def _query(commit: Commit, repo: str) -> Query:
    language = language_of(commit.files[0])
    return Query(
        id=commit.sha[:12],
        text=commit.subject,
        targets=tuple(Target(file) for file in commit.files),
        repo=repo,
        language=language.name if language else "",
        category="one file" if len(commit.files) == 1 else "several files",
    )


# --- the report ------------------------------------------------------------------------------------------------------


def evaluate(engine: Engine, request: ops.EvalRequest, progress: ProgressSink = None) -> ops.EvalReport:
    named_gates = parse_gates(request.gates)
    older = {Path(file).stem: read_results(Path(file)) for file in request.compare}  # before any question is asked
    dataset, done, notes = _ask_all(engine, request, progress)
    answers = {answer.id: answer for answer in done.answers}
    scores = scores_of(dataset, answers)
    summary = summarise(list(scores.values()))
    result = ops.EvalReport(
        dataset=dataset.name,
        groups=groups_of(dataset, scores),
        outcomes=outcomes_of(dataset, answers, scores),
        comparisons=comparisons_of(dataset, scores, older),
        verdicts=check_gates(named_gates or dataset.gates, summary),
        files=done.files,
        chunks=done.chunks,
        index_ms=done.index_ms,
        model_id=done.model_id,
        notes=notes,
    )
    if request.out:
        write_results(Path(request.out), done.answers)
    if request.chart:
        _write_chart(Path(request.chart), dataset, answers, older)
    return result


def _ask_all(engine: Engine, request: ops.EvalRequest, progress: ProgressSink) -> tuple[Dataset, Run, tuple[str, ...]]:
    if request.from_git:
        path = Path(request.dataset or ".")
        dataset, done, history = evaluate_history(engine, path, request.commits, whole=request.whole, progress=progress)
        return dataset, done, tuple(_notes(history))
    if not request.dataset or not request.trees:
        raise UsageError(
            "a dataset and its trees are needed", next_step="Give both, as in `codeinfo eval DATASET --trees DIR`."
        )
    dataset = load_dataset(Path(request.dataset))
    if request.repos:
        dataset = dataset.of_repositories(request.repos)
    return dataset, run(engine, dataset, Path(request.trees), whole=request.whole, progress=progress), ()


def _notes(history: History) -> Iterator[str]:
    left_out = ", ".join(f"{count} {rule}" for rule, count in sorted(history.left_out.items()))
    yield f"asked about {len(history.commits)} of {history.looked_at} commits; left out: {left_out or 'none'}"
    if history.missing_blobs:
        yield f"blobs that the repository lacks, whose files were not indexed: {history.missing_blobs}"


def _write_chart(
    path: Path, dataset: Dataset, answers: Mapping[str, Answer], older: Mapping[str, Mapping[str, Answer]]
) -> None:
    runs = {"codeinfo": answers, **older}
    summaries = {name: summarise(list(scores_of(dataset, found).values())) for name, found in runs.items()}
    path.write_text(chart(dataset.name, summaries), encoding="utf-8")


def scores_of(dataset: Dataset, answers: Mapping[str, Answer]) -> dict[str, ops.Score]:
    """Every query's score; unanswered queries count as zero."""
    return {query.id: score(query, answers.get(query.id)) for query in dataset.queries}


def groups_of(dataset: Dataset, scores: Mapping[str, ops.Score]) -> tuple[ops.Group, ...]:
    """All, then each language, category and repository by name."""
    groups = [ops.Group("all", "all", summarise([scores[query.id] for query in dataset.queries]))]
    keys: dict[str, Callable[[Query], str]] = {
        "language": lambda query: query.language,
        "category": lambda query: query.category,
        "repo": lambda query: query.repo,
    }
    for by, key in keys.items():
        members: dict[str, list[ops.Score]] = {}
        for query in dataset.queries:
            if key(query):
                members.setdefault(key(query), []).append(scores[query.id])
        groups += [ops.Group(by, name, summarise(members[name])) for name in sorted(members)]
    return tuple(groups)


def outcomes_of(
    dataset: Dataset, answers: Mapping[str, Answer], scores: Mapping[str, ops.Score]
) -> tuple[ops.Outcome, ...]:
    outcomes = []
    for query in dataset.queries:
        answer = answers.get(query.id)
        first = answer.found[0].path if answer and answer.found else ""
        wanted = tuple(target.path or " | ".join(target.patterns) for target in query.targets)
        outcomes.append(ops.Outcome(query.id, query.text, wanted, first, scores[query.id]))
    return tuple(outcomes)


def comparisons_of(
    dataset: Dataset, scores: Mapping[str, ops.Score], older: Mapping[str, Mapping[str, Answer]]
) -> tuple[ops.Comparison, ...]:
    """This run against each older one, on the queries the older one answered."""
    found = []
    for name, answers in older.items():
        old = {query.id: score(query, answers[query.id]) for query in dataset.queries if query.id in answers}
        found.append(compare(name, dataset.queries, old, scores))
    return tuple(found)
