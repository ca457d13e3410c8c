"""The primary database is killed while a team works: its synchronous standby takes over, and nothing is lost."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from failover_tools import cluster, fail_over_under_load, indexed
from patience import RunningTime, within
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from codeinfo.errors import StoreUnavailable
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import TeamStore, TeamTree


def test_a_killed_primary_loses_nothing_and_searches_go_on() -> None:
    outcome = fail_over_under_load()
    assert outcome.errors == []
    assert outcome.writes > 20
    assert outcome.lost == []
    assert outcome.silence_s < 4 + 2 * outcome.promoted_s
    assert outcome.resumed_s < 10 + 4 * outcome.promoted_s


def test_a_primary_that_is_stuck_is_left_within_seconds(tmp_path: Path) -> None:
    """All of it stands still and its sockets stay open, as with a disk that does not answer."""
    with cluster() as made, closing(TeamDatabase(made.url)) as database:
        place = TeamTree(database, "example.org/a/b", "refs/heads/main")
        stores = [TeamStore(tmp_path / f"copy{at}", "main", place, recipe="test") for at in range(4)]
        stores[0].apply([indexed("a.py", "apple")], (), ())
        for store in stores:
            store.pull()
        made.primary.freeze()
        found: list[float] = []
        clock = RunningTime()

        def search(store: TeamStore) -> None:
            store.pull()
            found.append(clock.seconds)

        threads = [threading.Thread(target=search, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        made.standby.promote()
        promoted = clock.seconds
        for thread in threads:
            thread.join(120)
        clock.stop()
        made.primary.kill()
        assert len(found) == len(stores)
        assert max(found) < 4 + 2 * promoted, (found, promoted)


def test_a_standby_is_no_store() -> None:
    """It may be behind, and there nobody can tell who a caller is."""
    with cluster() as made:
        alone = f"postgresql://postgres@127.0.0.1:{made.standby.port}/team"
        with closing(TeamDatabase(alone)) as database, pytest.raises(StoreUnavailable, match="session is read-only"):
            database.open()
        made.fail_over()
        with closing(TeamDatabase(alone)) as database:
            database.open()


@contextmanager
def _filled(listener: socket.socket) -> Iterator[None]:
    """So many wait to be accepted that the system drops all others."""
    with ExitStack() as waiting:
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        time.sleep(0.1)
        yield


def test_a_host_that_is_gone_costs_half_a_second(postgres: str) -> None:
    """Nothing comes back from it, not even a refusal."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent, _filled(silent):
        port = silent.getsockname()[1]
        parts = conninfo_to_dict(postgres)
        both = make_conninfo(postgres, host=f"127.0.0.1,{parts['host']}", port=f"{port},5432")
        with closing(TeamDatabase(both)) as database, within(4):
            assert database.read(lambda db: db.execute("SELECT 1").fetchall()) == [(1,)]
