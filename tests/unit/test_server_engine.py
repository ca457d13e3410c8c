"""An engine that answers many calls leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from pathlib import Path

import pytest
from patience import wait_until

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound
from codeinfo.model import Hit, Walk
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.serve.dispatch import MOST_WAITING, THREADS, Call, Dispatcher, EngineLease, Limiter, Projects
from codeinfo.serve.refresh import server_engine
from codeinfo.team.access import Caller, current_user


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
        lease = EngineLease(lambda: engine)
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(NotFound):
                asyncio.run(Dispatcher(lease, Projects(lease)).run(fail))
            wait_until(lambda: [one() for one in used] == [None])  # its thread may hold it a moment longer
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
        with server_engine(config(tmp_path)) as engine:
            engine.index(IndexRequest((str(project),)))
    with Engine(config(tmp_path)) as engine:
        assert hits(engine, project)


def test_one_user_leaves_places_for_the_calls_of_others() -> None:
    """Cancelled calls give their places back, wherever they were."""

    async def try_it() -> None:
        limiter, inside, opened = Limiter(THREADS), list[int](), asyncio.Event()

        async def settle() -> None:
            for _ in range(100):
                await asyncio.sleep(0)

        async def enter(user: int) -> None:
            current_user.set(Caller(user, f"user {user}"))
            async with limiter.enter():
                inside.append(user)
                await opened.wait()

        greedy = [asyncio.create_task(enter(1)) for _ in range(MOST_WAITING)]
        await settle()
        others = [asyncio.create_task(enter(user)) for user in (2, 2, 2, 3)]
        await settle()
        assert Counter(inside) == {1: 5, 2: 2, 3: 1}
        assert sum(task.done() for task in greedy) == MOST_WAITING - 5 - MOST_WAITING // 2  # refused
        for task in greedy[:2] + greedy[5:9]:
            task.cancel()
        await settle()
        assert Counter(inside) == {1: 5, 2: 3, 3: 1}
        opened.set()
        ended = await asyncio.gather(*greedy, *others, return_exceptions=True)
        assert sum(one is None for one in ended) == len(inside) - 2
        async with asyncio.timeout(60):
            await asyncio.gather(*(enter(3) for _ in range(2 * THREADS)))

    asyncio.run(try_it())
