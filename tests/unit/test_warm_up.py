"""An engine that answers many calls warms up behind the caller's back: nothing of it changes an answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine import search as engine_search
from codeinfo.model import Hit
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.serve.refresh import server_engine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for number in range(450):
        file = root / f"part{number % 7}" / f"retry_policy_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def retry_{number}(limit):\n    return limit + {number}\n")
    return root


def config(tmp_path: Path) -> Config:
    return Config.load({"paths.cache_dir": str(tmp_path / "cache"), "paths.data_dir": str(tmp_path / "data")})


def hits(engine: Engine, root: Path) -> tuple[Hit, ...]:
    return engine.search(SearchRequest("retry policy 17", (str(root),), refresh=False)).hits


def test_it_warms_up_after_a_refresh(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(engine_search, "warm_up", lambda index_manager, store: warmed.append(str(index_manager.root)))
    with server_engine(config(tmp_path)) as engine:
        engine.index(IndexRequest((str(project),)))
        deadline = time.monotonic() + 60
        while not warmed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert warmed == [str(project)]


def test_answers_are_the_same(project: Path, tmp_path: Path) -> None:
    with Engine(config(tmp_path)) as engine:
        engine.index(IndexRequest((str(project),)))
        before = hits(engine, project)
        engine.searches.warm_up(engine.indexes.of(project))
        assert hits(engine, project) == before
    with Engine(config(tmp_path)) as engine:
        engine.searches.warm_up(engine.indexes.of(project))
        assert hits(engine, project) == before


def test_an_engine_closes_while_it_warms_up(project: Path, tmp_path: Path) -> None:
    for _ in range(3):
        started = time.monotonic()
        with server_engine(config(tmp_path)) as engine:
            engine.index(IndexRequest((str(project),)))
        assert time.monotonic() - started < 60
    with Engine(config(tmp_path)) as engine:
        assert hits(engine, project)
