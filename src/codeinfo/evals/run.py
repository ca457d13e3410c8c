"""Asks the engine every question of a dataset, over trees that lie in one folder, and keeps what it found in a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from codeinfo.errors import NotFound, UsageError
from codeinfo.evals.datasets import Dataset, Query
from codeinfo.evals.metrics import DEPTH, Answer, Found
from codeinfo.model import FileKind, Hit
from codeinfo.operations.base import ProgressSink
from codeinfo.operations.search import IndexReport, IndexRequest, SearchRequest

if TYPE_CHECKING:
    from codeinfo.engine import Engine


CODE_FILES = (FileKind.CODE.value, FileKind.TEST.value)  # a test is code too: leaving it out would flatter the ranking


class Run(Struct, frozen=True):
    """What a run found, and what its indexes hold and cost."""

    answers: tuple[Answer, ...]
    files: int
    chunks: int
    index_ms: float
    model_id: str


def run(
    engine: Engine, dataset: Dataset, trees: Path, *, whole: bool = False, progress: ProgressSink | None = None
) -> Run:
    """Index each repository and ask its questions. Not `whole`: only the dataset's folder of it, only code files."""
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


def combine_reports(answers: Sequence[Answer], reports: Sequence[IndexReport], held: Sequence[IndexReport]) -> Run:
    """`reports` tell what all indexing took; `held`, what there is of it in the end."""
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


def bring_up_to_date(engine: Engine, root: Path, progress: ProgressSink | None = None) -> IndexReport:
    engine.indexes.of(root)  # exactly the folder that the questions are about, not the repository around it
    return engine.index(IndexRequest(paths=(str(root),)), progress).reports[0]


def ask(
    engine: Engine, root: Path, queries: Iterable[Query], kinds: tuple[str, ...] = (), folder: str = ""
) -> Iterator[Answer]:
    """Each query's answer, timed on an open index. `folder` leads from the repository to `root`."""
    prefix = f"{folder}/" if folder else ""
    place = (str(root),)
    engine.search(SearchRequest(query=root.name, paths=place, limit=1, refresh=False))  # opens what is opened once
    for query in queries:
        request = SearchRequest(query=query.text, paths=place, limit=DEPTH, kinds=kinds, refresh=False)
        started = time.perf_counter()
        result = engine.search(request)
        took_ms = 1000 * (time.perf_counter() - started)
        found = tuple(_found(prefix, hit) for hit in result.hits)
        yield Answer(query.id, found, round(took_ms, 3), result.quality.status)


def _found(prefix: str, hit: Hit) -> Found:
    shown = (hit.text_line, hit.text_line + hit.text.count("\n"))
    return Found(prefix + hit.path, hit.start_line, hit.end_line, len(hit.text), shown)


# --- results in a file ---------------------------------------------------------------------------------------------


def write_results(path: Path, answers: Iterable[Answer]) -> None:
    """One object a line: id, results [{path, start, end, chars, shown}], took_ms, status."""
    with path.open("w", encoding="utf-8") as sink:
        for answer in answers:
            results = [
                {"path": f.path, "start": f.start, "end": f.end, "chars": f.chars, "shown": f.shown}
                for f in answer.found
            ]
            row = {"id": answer.id, "results": results, "took_ms": answer.took_ms, "status": answer.status}
            print(json.dumps(row), file=sink)


def read_results(path: Path) -> dict[str, Answer]:
    """What `write_results`, or another system in the same format, wrote: by query id."""
    if not os.path.isfile(path):
        raise NotFound(f"there is no results file {path}", next_step="Write one with `codeinfo eval … --out FILE`.")
    answers = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                row = json.loads(line)
                found = tuple(map(_read_found, row["results"]))
                status = str(row.get("status", ""))
                answers[str(row["id"])] = Answer(str(row["id"]), found, row.get("took_ms"), status)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a results file: {error}", next_step="It has one JSON object a line."
        ) from error
    return answers


def _read_found(row: dict[str, Any]) -> Found:
    shown = row.get("shown")
    lines = (int(shown[0]), int(shown[1])) if shown else None
    return Found(row["path"], row.get("start"), row.get("end"), row.get("chars", 0), lines)
