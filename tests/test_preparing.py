"""What a lasting process works out before it is asked: nothing of it changes an answer."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine.preparing import prepare
from codeinfo.model import Hit
from codeinfo.models.builtin import BuiltinEmbedder
from codeinfo.operations.search import IndexRequest, SearchRequest

FILES = 450  # more than are read between two looks


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for number in range(FILES):
        file = root / f"part{number % 7}" / f"retry_policy_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def retry_{number}(limit):\n    return limit + {number}\n")
    return root


def config(tmp_path: Path) -> Config:
    return Config.load({"paths.cache_dir": str(tmp_path / "cache"), "paths.data_dir": str(tmp_path / "data")})


def hits(engine: Engine, root: Path) -> tuple[Hit, ...]:
    return engine.search(SearchRequest("retry policy 17", (str(root),), refresh=False)).hits


def test_a_lasting_engine_reads_every_path_behind_the_callers_back(project: Path, tmp_path: Path) -> None:
    with Engine(config(tmp_path), lasting=True) as engine:
        engine.index(IndexRequest((str(project),)))
        embedder = engine.upkeep(project).embedder
        assert isinstance(embedder, BuiltinEmbedder)
        deadline = time.monotonic() + 60
        while len(embedder._paths) < FILES and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(embedder._paths) == FILES
        prepared = hits(engine, project)
    with Engine(config(tmp_path)) as plain:
        assert hits(plain, project) == prepared


def test_it_stops_where_it_is_told_to(project: Path, tmp_path: Path) -> None:
    with Engine(config(tmp_path)) as engine:
        engine.index(IndexRequest((str(project),)))
        keeper = engine.upkeep(project)
        store, embedder = keeper.live_store(), keeper.embedder
        assert store is not None
        assert isinstance(embedder, BuiltinEmbedder)
        with closing(prepare(keeper, store)) as steps:
            next(steps)
            next(steps)
        assert 0 < len(embedder._paths) < FILES
        assert hits(engine, project)


def test_an_engine_closes_while_it_prepares(project: Path, tmp_path: Path) -> None:
    for _ in range(3):
        started = time.monotonic()
        with Engine(config(tmp_path), lasting=True) as engine:
            engine.index(IndexRequest((str(project),)))
        assert time.monotonic() - started < 60
    with Engine(config(tmp_path)) as engine:
        assert hits(engine, project)
