"""Ranking as committed figures: a change of ranking is a diff of `tests/golden/`, seen before it is merged.

The corpus is CodeInfo's own source, frozen. After a wanted change run `python tests/unit/test_golden_ranking.py`, which
rewrites the files, and look at the diff.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.evals.metrics import ndcg
from codeinfo.operations.search import SearchRequest
from codeinfo.search import line
from codeinfo.store.snapshot import SqliteSnapshot
from codeinfo.team.access import folder_identity

GOLDEN = Path(__file__).parents[1] / "golden"
SHOWN = 3


def questions() -> list[tuple[str, str]]:
    lines = (GOLDEN / "queries.tsv").read_text().splitlines()
    return [(query, path) for query, _, path in (line.partition("\t") for line in lines)]


def make_corpus(folder: Path) -> Path:
    corpus = folder / "corpus"
    with tarfile.open(GOLDEN / "corpus.tar.gz") as archive:
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # as of Python 3.11.4
        archive.extractall(corpus, **safely)
    return corpus


def rankings(project: str, cache: Path, store: str = "") -> list[list[str]]:
    """The paths found for each query, best first."""
    config = Config.load({"paths.cache_dir": str(cache), "store.url": store}, cache.parent, dict(os.environ))
    with Engine(config) as engine:
        requests = (SearchRequest(query, (project,), refresh=False) for query, _ in questions())
        return [[hit.path for hit in engine.search(request).hits] for request in requests]


def listing(found: Sequence[Sequence[str]]) -> str:
    blocks = []
    for (query, wanted), paths in zip(questions(), found, strict=True):
        lines = [f"  {'*' if path == wanted else ' '} {path}" for path in paths[:SHOWN]]
        blocks.append("\n".join([query, *lines]))
    return "\n\n".join(blocks) + "\n"


def statistics(found: Sequence[Sequence[str]]) -> str:
    places = [
        paths.index(wanted) + 1 if wanted in paths else 0 for (_, wanted), paths in zip(questions(), found, strict=True)
    ]
    count = len(places)
    rows = {
        "queries": str(count),
        "ndcg10": f"{sum(ndcg([place] if place else [], 1) for place in places) / count:.3f}",
        "top1": f"{sum(place == 1 for place in places) / count:.3f}",
        "top3": f"{sum(0 < place <= 3 for place in places) / count:.3f}",
        "found in ten": f"{sum(place > 0 for place in places) / count:.3f}",
    }
    return "".join(f"{name:14}{value}\n" for name, value in rows.items())


def test_the_ranking_is_the_committed_one(tmp_path: Path) -> None:
    found = rankings(str(make_corpus(tmp_path)), tmp_path / "cache")
    assert statistics(found) == (GOLDEN / "rank_stats.txt").read_text()
    assert listing(found) == (GOLDEN / "ranking.txt").read_text()


def test_it_is_the_same_where_only_likely_files_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an index of 60,000 chunks. The first results are the same, and nearly all lists as a whole."""
    corpus = str(make_corpus(tmp_path))
    exact = rankings(corpus, tmp_path / "cache")
    scans, compared = _counted(monkeypatch)
    monkeypatch.setattr(line, "LARGE", 1)
    monkeypatch.setattr(line, "LIKELY", 120)
    monkeypatch.setattr(line, "NEAREST", 20)
    found = rankings(corpus, tmp_path / "cache")
    assert listing(found) == (GOLDEN / "ranking.txt").read_text()
    assert sum(one == other for one, other in zip(found, exact, strict=True)) >= 0.97 * len(exact)
    assert not scans
    assert max(compared) < 1_500


def _counted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[int]]:
    """Queries for which all vectors were compared, and how many were for the others."""
    scans: list[str] = []
    compared: list[int] = []
    cosines = SqliteSnapshot.cosines

    def count(
        view: SqliteSnapshot, query: NDArray[np.float32], rows: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32] | None:
        scans.append("all") if rows is None else compared.append(len(rows))
        return cosines(view, query, rows)

    monkeypatch.setattr(SqliteSnapshot, "cosines", count)
    return scans, compared


def test_it_is_the_same_from_the_database_of_a_team(tmp_path: Path, postgres: str) -> None:
    """Where it was indexed, and on a server that has nothing but the address of the database."""
    corpus = make_corpus(tmp_path)
    here = rankings(str(corpus), tmp_path / "cache", postgres)
    there = rankings(folder_identity(corpus), tmp_path / "other", postgres)
    assert listing(here) == listing(there) == (GOLDEN / "ranking.txt").read_text()
    assert here == there


def test_every_expected_file_is_in_the_corpus() -> None:
    with tarfile.open(GOLDEN / "corpus.tar.gz") as archive:
        names = set(archive.getnames())
    assert {path for _, path in questions()} <= names
    assert len(questions()) >= 60


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        fresh = rankings(str(make_corpus(Path(folder))), Path(folder, "cache"))
    (GOLDEN / "ranking.txt").write_text(listing(fresh))
    (GOLDEN / "rank_stats.txt").write_text(statistics(fresh))
    sys.stdout.write(statistics(fresh))
