"""The evaluation, from a request to a report: read questions → ask the engine → score → compare → judge → write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codeinfo.errors import UsageError
from codeinfo.evals import datasets, report, run
from codeinfo.evals.gates import judge, parse_gates
from codeinfo.evals.metrics import Answer, summarise
from codeinfo.operations.base import Progress
from codeinfo.operations.evaluation import EvalReport, EvalRequest

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.evals.datasets import Dataset
    from codeinfo.evals.from_git import History
    from codeinfo.evals.run import Run

ProgressSink = Callable[[Progress], None]


def evaluate(engine: Engine, request: EvalRequest, progress: ProgressSink | None = None) -> EvalReport:
    named_gates = parse_gates(request.gates)
    older = _older_runs(request.compare)
    dataset, done, notes = _answered(engine, request, progress)
    answers = {answer.id: answer for answer in done.answers}
    scores = report.scores_of(dataset, answers)
    summary = summarise(list(scores.values()))
    result = EvalReport(
        dataset=dataset.name,
        groups=report.groups_of(dataset, scores),
        outcomes=report.outcomes_of(dataset, answers, scores),
        comparisons=report.comparisons_of(dataset, scores, older),
        verdicts=judge(named_gates or dataset.gates, summary),
        files=done.files,
        chunks=done.chunks,
        index_ms=done.index_ms,
        model_id=done.model_id,
        notes=notes,
    )
    if request.out:
        run.write_results(Path(request.out), done.answers)
    if request.chart:
        _write_chart(Path(request.chart), dataset, answers, older)
    return result


def _answered(
    engine: Engine, request: EvalRequest, progress: ProgressSink | None
) -> tuple[Dataset, Run, tuple[str, ...]]:
    if request.from_git:
        from codeinfo.evals.from_git import evaluate_history

        path = Path(request.dataset or ".")
        dataset, done, history = evaluate_history(engine, path, request.commits, whole=request.whole, progress=progress)
        return dataset, done, tuple(_notes(history))
    if not request.dataset or not request.trees:
        raise UsageError(
            "a dataset and its trees are needed", next_step="Name them, as in `codeinfo eval DATASET --trees DIR`."
        )
    dataset = datasets.load(Path(request.dataset))
    if request.repos:
        dataset = dataset.of_repositories(request.repos)
    return dataset, run.run(engine, dataset, Path(request.trees), whole=request.whole, progress=progress), ()


def _notes(history: History) -> Iterator[str]:
    left_out = ", ".join(f"{count} {rule}" for rule, count in sorted(history.left_out.items()))
    yield f"asked about {len(history.commits)} of {history.looked_at} commits; left out: {left_out or 'none'}"
    if history.missing_blobs:
        yield f"blobs that the repository lacks, whose files were not indexed: {history.missing_blobs}"


def _older_runs(files: tuple[str, ...]) -> dict[str, dict[str, Answer]]:
    """Read before anything is asked, so that a wrong name costs no time."""
    return {Path(file).stem: run.read_results(Path(file)) for file in files}


def _write_chart(
    path: Path, dataset: Dataset, answers: Mapping[str, Answer], older: Mapping[str, Mapping[str, Answer]]
) -> None:
    from codeinfo.evals.chart import Point, chart

    runs = {"codeinfo": answers, **older}
    points = [Point(name, summarise(list(report.scores_of(dataset, found).values()))) for name, found in runs.items()]
    path.write_text(chart(dataset.name, points), encoding="utf-8")
