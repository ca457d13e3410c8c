"""An engine that answers many calls leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from pathlib import Path

import pytest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound
from codeinfo.model import Hit, Walk
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.serve.dispatch import Call, Dispatcher, EngineLease, Projects
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


def test_calls_leave_nothing_to_the_garbage_collector(project: Path, tmp_path: Path) -> None:
    """It comes seldom to a server, and until then frames of failed calls and old lists of files would hold memory and
    open files."""

    class Used:
        pass

    used: list[weakref.ref[Used]] = []

    def fail(call: Call) -> None:
        one = Used()
        used.append(weakref.ref(one))
        try:
            raise KeyError("in between")
        except KeyError as error:
            raise NotFound("not here") from error

    with server_engine(config(tmp_path)) as engine:
        lease = EngineLease(lambda: engine, None)
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(NotFound):
                asyncio.run(Dispatcher(lease, Projects(lease)).run(fail))
            assert [one() for one in used] == [None]
            for number in range(3):
                (project / f"new{number}.py").write_text("def new():\n    pass\n")
                engine.index(IndexRequest((str(project),)))
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert not [one for one in gc.garbage if isinstance(one, Walk)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
            lease.threads.shutdown()


def test_an_engine_closes_after_a_refresh(project: Path, tmp_path: Path) -> None:
    for _ in range(3):
        started = time.monotonic()
        with server_engine(config(tmp_path)) as engine:
            engine.index(IndexRequest((str(project),)))
        assert time.monotonic() - started < 60
    with Engine(config(tmp_path)) as engine:
        assert hits(engine, project)
