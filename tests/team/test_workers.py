"""Workers on a real PostgreSQL and real repositories: runs, batches, lost workers, files that kill, branches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from git_server import GitServer, serving
from msgspec.structs import replace
from patience import wait_until
from repository_tools import Repository
from worker_tools import Team, clean_digest

from codeinfo.config import Config
from codeinfo.errors import NotFound
from codeinfo.model import Walk
from codeinfo.operations.search import SearchRequest
from codeinfo.operations.team import (
    TeamAuditRequest,
    TeamJobs,
    TeamJobsRequest,
    TeamProjectIndexRequest,
    TeamProjectRequest,
)
from codeinfo.serve.refresh import server_engine
from codeinfo.shells.cli import write_text
from codeinfo.sources.read import Files
from codeinfo.team import jobs as indexing
from codeinfo.team.access import project_id
from codeinfo.team.jobs import DIED, MOST_LOSSES, Indexing, defer, defer_index, rescue_jobs

MAIN = "refs/heads/main"


def source(number: int) -> dict[str, str]:
    return {f"part{number % 7}/module{number}.py": f"def handle_{number}(order):\n    return order.total * {number}\n"}


@pytest.fixture
def upstream(tmp_path: Path) -> Repository:
    (tmp_path / "served").mkdir()
    repository = Repository(tmp_path / "served" / "shop")
    files = {path: text for number in range(30) for path, text in source(number).items()}
    repository.commit("Begin", files | {"README.md": "# Shop\n\nSells things.\n"})
    return repository


@pytest.fixture
def server(upstream: Repository) -> Iterator[GitServer]:
    with serving(upstream.folder.parent) as running:
        yield running


@pytest.fixture
def team(postgres: str, tmp_path: Path) -> Iterator[Team]:
    team = Team(postgres, tmp_path / "machine")
    yield team
    team.close()


def jobs(team: Team) -> TeamJobs:
    return team.engine.team.jobs(TeamJobsRequest())


def push(team: Team, project: str, ref: str = MAIN) -> None:
    team.engine.team.index_project(TeamProjectIndexRequest(project, ref))
    team.work()


def cli(team: Team, *arguments: str) -> Any:
    line = [sys.executable, "-m", "codeinfo", *arguments]
    done = subprocess.run(line, env=team.environment, cwd=team.home, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def counted(team: Team, query: str) -> int:
    with team.database.transaction() as db:
        return int(db.execute(query.encode()).fetchall()[0][0])


def test_a_repository_is_indexed_as_a_local_one_is(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH_FILES", 8)
    project = team.add(server, "shop")
    assert jobs(team).waiting == 1
    team.work()
    state = jobs(team)
    assert (state.waiting, state.running, state.failed) == (0, 0, ())
    run = state.runs[0]
    assert (run.project, run.ref, run.state, run.files, run.to_parse, run.parsed) == (project, MAIN, "done", 31, 31, 31)
    assert counted(team, "SELECT count(*) FROM index_batches") == 4
    assert counted(team, "SELECT count(*) FROM index_files") == 0
    assert team.digest(project) == clean_digest(upstream, tmp_path)

    upstream.git("rm", "-q", "part0/module0.py")
    upstream.git("mv", "part1/module1.py", "part1/renamed.py")
    commit = upstream.commit("Change", {"part2/module2.py": "def changed():\n    return 3\n", "notes.txt": "\0\1"})
    push(team, project)
    run = jobs(team).runs[0]
    assert (run.revision, run.state, run.files, run.to_parse) == (commit, "done", 5, 3)
    assert team.digest(project) == clean_digest(upstream, tmp_path, commit)

    upstream.git("revert", "--no-edit", "HEAD")
    push(team, project)
    assert jobs(team).runs[0].to_parse == 0  # its files are here since the first run
    assert team.digest(project) == clean_digest(upstream, tmp_path, "HEAD~2")


def test_servers_search_what_workers_indexed(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path
) -> None:
    project = team.add(server, "shop")
    team.work()
    other = Team(team.environment["CODEINFO_STORE_URL"], tmp_path / "server")
    try:
        found = other.engine.search(SearchRequest("handle_17 order total", (project,)))
        assert found.hits[0].path == "part3/module17.py"
        commit = upstream.commit(
            "Round the totals of orders", {"part1/rounding.py": "def round_total(x):\n    return x\n"}
        )
        push(team, project)
        found = other.engine.search(SearchRequest("round total", (project,)))
        assert found.hits[0].path == "part1/rounding.py"
        commits = other.engine.indexes.find(project).index.commits()
        assert commits is not None
        assert commits.head == commit
        assert "part1/rounding.py" in commits.paths
    finally:
        other.close()


def test_what_did_not_change_costs_nothing(team: Team, server: GitServer) -> None:
    project = team.add(server, "shop")
    team.work()
    push(team, project)
    push(team, project, "")
    assert len(jobs(team).runs) == 1


def test_branches_and_tags_are_followed_as_configured(team: Team, upstream: Repository, server: GitServer) -> None:
    upstream.git("tag", "v1")
    upstream.git("branch", "release-1")
    upstream.git("branch", "topic")
    project = team.add(server, "shop", follow=("refs/heads/release-*", "refs/tags/*"))
    team.work()
    trees = "SELECT string_agg(name, ' ' ORDER BY name) FROM trees WHERE complete"
    with team.database.transaction() as db:
        assert db.execute(trees).fetchall() == [("refs/heads/main refs/heads/release-1 refs/tags/v1",)]
    assert counted(team, "SELECT count(*) FROM files") == 31  # they share all of it
    upstream.git("branch", "-D", "release-1")
    push(team, project, "")
    with team.database.transaction() as db:
        assert db.execute(trees).fetchall() == [("refs/heads/main refs/tags/v1",)]
    push(team, project, "refs/heads/topic")  # once asked for, it is kept up to date
    assert jobs(team).runs[0].ref == "refs/heads/topic"


def test_one_ref_is_queued_and_indexed_once_at_a_time(team: Team, upstream: Repository, server: GitServer) -> None:
    project = team.add(server, "shop")
    team.work()
    second = upstream.commit("Second", source(100))
    for _ in range(5):
        team.engine.team.index_project(TeamProjectIndexRequest(project, MAIN))
    assert jobs(team).waiting == 1
    deferred: list[str] = []
    planned = Indexing(team.engine.team.tools(), lambda db, job, arguments: deferred.append(job))
    row = counted(team, "SELECT id FROM projects")
    assert "1 to parse" in planned.plan(row, MAIN)
    third = upstream.commit("Third", source(101))
    assert "is being indexed" in planned.plan(row, MAIN)  # the run in hand is not disturbed…
    batch = counted(team, "SELECT max(id) FROM index_batches")
    planned.index_batch(batch)
    run = counted(team, "SELECT max(id) FROM index_runs")
    with team.database.transaction() as db:
        db.execute("DELETE FROM procrastinate_jobs")
    assert second[:12] in planned.finish(run)
    assert deferred == ["index_batch", "finish_tree"]
    assert (
        counted(team, "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'index_ref'") == 1
    )  # …and is followed
    assert planned.finish(run) == "done already"
    assert planned.index_batch(batch) == "done already"
    team.work()
    assert jobs(team).runs[0].revision == third


def add_fork(team: Team, upstream: Repository, server: GitServer, of: str) -> str:
    """One file more than its origin."""
    upstream.git("clone", "-q", ".", str(upstream.folder.parent / "fork"))
    fork = Repository.__new__(Repository)
    fork.folder, fork.clock = upstream.folder.parent / "fork", upstream.clock
    fork.commit("Differ", source(200))
    return team.add(server, "fork", fork_of=of)


def test_forks_share_what_is_alike(team: Team, upstream: Repository, server: GitServer, tmp_path: Path) -> None:
    first = team.add(server, "shop")
    team.work()
    add_fork(team, upstream, server, first)
    team.work()
    assert jobs(team).runs[0].to_parse == 1
    assert counted(team, "SELECT count(*) FROM files") == 32


def test_a_removed_project_leaves_its_fork_and_nothing_else(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path
) -> None:
    shop = team.add(server, "shop")
    team.work()
    fork = add_fork(team, upstream, server, shop)
    upstream.commit("Only here", source(300))
    push(team, shop)
    before = team.digest(fork)
    config = Config.load(cwd=tmp_path, env=team.environment | {"CODEINFO_CACHE_DIR": str(tmp_path / "server")})
    with server_engine(config) as web:
        for project in (shop, fork):
            assert web.search(SearchRequest("handle_17 order total", (project,))).hits
        copies = {project: web.indexes.find(project).index.folder for project in (shop, fork)}
        mirrors = {project: team.engine.team.tools().mirrors.of(f"http://{project}") for project in (shop, fork)}
        done = cli(team, "team", "project", "remove", shop, "--yes", "--json")
        assert (done["project"], done["trees"], done["files"]) == (shop, 1, 1)
        with pytest.raises(NotFound):
            web.search(SearchRequest("handle_17", (shop,)))
        wait_until(lambda: not copies[shop].exists())
        assert copies[fork].exists()
        found = web.search(SearchRequest("handle_300 order total", (fork,))).hits
        assert "part6/module300.py" not in [hit.path for hit in found]
    worker = team.start_worker()
    try:
        wait_until(lambda: not (mirrors[shop].folder / "HEAD").exists())
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(120)
    assert (mirrors[fork].folder / "HEAD").exists()
    assert team.digest(fork) == before
    assert counted(team, "SELECT count(*) FROM files") == 32
    event = team.engine.team.audit(TeamAuditRequest()).events[0]
    assert (event.action, json.loads(event.detail)["project"]) == ("project removed", shop)
    assert team.add(server, "shop") == shop
    team.work()
    assert team.digest(shop) == clean_digest(upstream, tmp_path)


def test_a_project_that_is_removed_while_it_is_indexed_does_not_come_back(
    team: Team, upstream: Repository, server: GitServer
) -> None:
    project = team.add(server, "shop")
    tools = team.engine.team.tools()

    def remove_and_walk(mirror: Path, commit: str) -> tuple[Files, Walk]:
        team.engine.team.remove_project(TeamProjectRequest(project))
        return tools.walk(mirror, commit)

    with team.database.transaction() as db:
        number = project_id(db, project)
    with pytest.raises(NotFound, match="was removed from the team"):
        Indexing(replace(tools, walk=remove_and_walk), defer).plan(number, MAIN)
    assert Indexing(tools, defer).plan(number, MAIN) == "the project was removed"
    project = team.add(server, "shop")
    with team.database.transaction() as db:
        number = project_id(db, project)
    Indexing(tools, defer).plan(number, MAIN)  # its batches wait
    team.engine.team.remove_project(TeamProjectRequest(project))
    team.work()
    assert jobs(team).failed == ()
    for table in ("projects", "trees", "files", "index_runs", "index_files"):
        assert counted(team, f"SELECT count(*) FROM {table}") == 0


@pytest.mark.parametrize("broken", ["walk", "commits"])  # in a batch, and when the run is finished
def test_a_job_that_keeps_failing_gives_its_run_up(
    team: Team, server: GitServer, upstream: Repository, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object) -> None:
        raise NotFound("the history is gone")

    monkeypatch.setattr("codeinfo.team.jobs.ATTEMPTS", 1)
    project = team.add(server, "shop")
    tools = team.engine.team.tools()
    with team.database.transaction() as db:
        number = project_id(db, project)
    Indexing(tools, defer).plan(number, MAIN)
    monkeypatch.setattr(team.engine.team, "tools", lambda: replace(tools, **{broken: fail}))
    team.work()
    assert [(run.state, run.problem) for run in jobs(team).runs] == [("failed", "the history is gone")]


ENDS_IN_A_BATCH = """
import os, signal, time
from codeinfo import Config, Engine
from codeinfo.team import jobs

def work_until_aborted(self, run, files, progress):
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        progress(None)
        time.sleep(0.05)

jobs.ATTEMPTS, jobs.DRAIN_S, jobs.Indexing._index = 1, 0.2, work_until_aborted
with Engine(Config.load()) as engine:
    engine.team.work(until_idle=False)
"""


def test_a_job_that_its_worker_gave_back_at_the_last_attempt_does_not_fail_its_run(
    team: Team, server: GitServer
) -> None:
    team.add(server, "shop")
    subprocess.run(
        [sys.executable, "-c", ENDS_IN_A_BATCH], env=team.environment, cwd=team.home, check=True, timeout=120
    )
    assert [run.state for run in jobs(team).runs] == ["active"]
    team.work()
    assert [(run.state, run.problem) for run in jobs(team).runs] == [("done", "")]


def test_a_job_that_fails_is_tried_again_and_shown(
    team: Team,
    server: GitServer,
    upstream: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("codeinfo.team.jobs.ATTEMPTS", 2)
    project = team.add(server, "shop")
    upstream.folder.rename(upstream.folder.with_name("moved"))
    team.work()
    assert (jobs(team).waiting, jobs(team).failed) == (1, ())  # waits for its time
    assert "cannot be fetched" in jobs(team).retried[0].problem
    write_text(jobs(team))
    assert "will be retried  index_ref" in capsys.readouterr().out
    with team.database.transaction() as db:
        db.execute("UPDATE procrastinate_jobs SET scheduled_at = now()")
    team.work()
    (failed,) = jobs(team).failed
    assert (failed.job, failed.attempts) == ("index_ref", 2)
    assert json.loads(failed.arguments)["project"] == project  # its name, not the number of its row
    assert "/shop cannot be fetched" in failed.problem
    assert jobs(team).retried == ()
    write_text(jobs(team))
    shown = capsys.readouterr().out
    assert "given up  index_ref" in shown
    assert "cannot be fetched" in shown
    upstream.folder.with_name("moved").rename(upstream.folder)
    push(team, project, "")
    assert jobs(team).runs[0].state == "done"


def test_a_job_that_too_many_workers_were_lost_at_is_given_up(team: Team, server: GitServer) -> None:
    project = team.add(server, "shop")
    deferred: list[tuple[str, int]] = []
    planned = Indexing(team.engine.team.tools(), lambda db, job, arguments: deferred.append((job, *arguments.values())))
    planned.plan(counted(team, "SELECT id FROM projects"), MAIN)
    with team.database.transaction() as db:
        db.execute("DELETE FROM procrastinate_jobs")
        defer(db, deferred[0][0], {"batch": deferred[0][1]})
        db.execute("UPDATE procrastinate_jobs SET status = 'doing', attempts = %s", (MOST_LOSSES,))
    assert rescue_jobs(team.database, 30) == 1
    state = jobs(team)
    assert [failure.problem for failure in state.failed] == ["50 workers died while running it"]
    assert (state.runs[0].project, state.runs[0].state) == (project, "failed")
    push(team, project)  # begins another run
    assert jobs(team).runs[0].state == "done"


def test_a_push_during_a_job_does_not_keep_it_from_being_rescued(team: Team, server: GitServer) -> None:
    project = team.add(server, "shop")
    with team.database.transaction() as db:
        db.execute("UPDATE procrastinate_jobs SET status = 'doing'")  # by a worker that is no more
        defer_index(db, counted(team, "SELECT id FROM projects"), "")
    assert rescue_jobs(team.database, 30) == 1
    team.work()
    assert (jobs(team).waiting, jobs(team).running, jobs(team).runs[0].state) == (0, 0, "done")
    assert team.digest(project)


def test_a_worker_whose_clock_is_ahead_does_not_put_off_a_retry(team: Team, server: GitServer) -> None:
    project = team.add(server, "shop")
    with team.database.transaction() as db:
        db.execute("UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 day', attempts = 1")
    assert rescue_jobs(team.database, 30) == 0
    team.work()
    assert (jobs(team).waiting, jobs(team).runs[0].state) == (0, "done")
    assert team.digest(project)


def test_a_push_during_a_job_that_fails_does_not_keep_it_from_being_retried(
    team: Team, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_after_a_push(self: Indexing, project: int, ref: str) -> str:
        monkeypatch.undo()
        with team.database.transaction() as db:
            defer_index(db, project, ref)
        raise OSError("the network is gone")

    project = team.add(server, "shop")
    monkeypatch.setattr(Indexing, "plan", fail_after_a_push)
    team.work()
    assert [failure.problem for failure in jobs(team).retried] == ["OSError: the network is gone"]
    with team.database.transaction() as db:
        db.execute("UPDATE procrastinate_jobs SET scheduled_at = now() WHERE scheduled_at IS NOT NULL")
    team.work()
    assert (jobs(team).waiting, jobs(team).running, jobs(team).runs[0].state) == (0, 0, "done")
    assert team.digest(project)


def test_a_file_that_kills_its_worker_is_found_and_left_out(
    team: Team, upstream: Repository, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each death is a worker that never says how it ended."""

    def deadly(self: Indexing, run: object, files: list[tuple[object, str]], progress: object) -> None:
        if any("module13.py" in str(file) for file, _ in files):
            os._exit(9)
        original(self, run, files, progress)  # type: ignore[arg-type]

    original = Indexing._index
    monkeypatch.setattr(Indexing, "_index", deadly)
    project = team.add(server, "shop")
    for _ in range(40):
        pid = os.fork()
        if pid == 0:
            try:
                child = Team(team.environment["CODEINFO_STORE_URL"], team.home)
                child.work()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(0.05)
        rescue_jobs(team.database, 0)
        if jobs(team).runs and jobs(team).runs[0].state == "done":
            break
    state = jobs(team)
    assert state.runs[0].state == "done"
    with team.database.transaction() as db:
        left_out = db.execute("SELECT path, skip FROM files WHERE skip <> ''").fetchall()
    assert left_out == [("part6/module13.py", DIED)]
    assert counted(team, "SELECT count(*) FROM entries WHERE file IS NOT NULL") == 31
    assert team.digest(project)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_when_it_is_asked_to(team: Team, server: GitServer, end: signal.Signals) -> None:
    worker = team.start_worker("--processes", "2")
    try:
        team.add(server, "shop")
        until = time.monotonic() + 120
        # A process that lost the database on a busy machine is replaced.
        while (found := jobs(team)).workers != 2 or not found.runs or found.runs[0].state != "done":
            assert time.monotonic() < until
            time.sleep(0.1)
        worker.send_signal(end)
        assert worker.wait(120) == 0
        assert jobs(team).workers == 0
    finally:
        worker.kill()
        worker.wait()


def test_workers_end_when_the_process_that_started_them_is_killed(team: Team, server: GitServer) -> None:
    parent = team.start_worker("--processes", "2")
    team.add(server, "shop")
    wait_until(lambda: jobs(team).workers == 2 and [run.state for run in jobs(team).runs] == ["done"])
    parent.kill()
    parent.wait()
    wait_until(lambda: jobs(team).workers == 0)  # they sign off, as at SIGTERM


def is_stopped_at_work(team: Team, worker: subprocess.Popen[bytes]) -> bool:
    """Stops a worker that has a job in hand."""
    if not jobs(team).running:
        return False
    os.killpg(worker.pid, signal.SIGSTOP)
    time.sleep(0.1)  # for what it has sent already
    if jobs(team).running:
        return True
    os.killpg(worker.pid, signal.SIGCONT)
    return False


def test_the_jobs_of_a_killed_worker_are_taken_over(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path
) -> None:
    upstream.commit("Many", {path: text for number in range(300, 420) for path, text in source(number).items()})
    project = team.add(server, "shop")
    worker = team.start_worker()
    wait_until(lambda: is_stopped_at_work(team, worker))
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    assert jobs(team).running == 1
    other = Team(team.environment["CODEINFO_STORE_URL"], tmp_path / "other")
    second = other.start_worker()
    try:
        wait_until(lambda: [run.state for run in jobs(team).runs] == ["done"])
        wait_until(lambda: not jobs(team).running + jobs(team).waiting)
        assert team.digest(project) == clean_digest(upstream, tmp_path)
    finally:
        os.killpg(second.pid, signal.SIGTERM)
        second.wait(120)
        other.close()


def end_sessions(team: Team) -> None:
    with team.database.transaction() as db:
        end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
        assert db.execute(f"{end} AND pid <> pg_backend_pid()").fetchall()[0][0] > 0


def test_a_worker_that_was_cut_off_does_nothing_twice(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path
) -> None:
    """It stands still and the database ends its sessions, as when the network is split: its job is done by another one
    when it comes back."""
    upstream.commit("Many", {path: text for number in range(300, 420) for path, text in source(number).items()})
    project = team.add(server, "shop")
    first = team.start_worker()
    until = time.monotonic() + 120
    while jobs(team).running == 0:
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGSTOP)
    end_sessions(team)
    other = Team(team.environment["CODEINFO_STORE_URL"], tmp_path / "other")
    second = other.start_worker()

    def settle(runs: int) -> None:
        while (state := jobs(team)).running + state.waiting or [run.state for run in state.runs] != ["done"] * runs:
            assert time.monotonic() < until, state
            time.sleep(0.1)

    try:
        settle(1)
        os.killpg(first.pid, signal.SIGCONT)
        os.killpg(second.pid, signal.SIGTERM)
        second.wait(120)
        upstream.commit("More", source(420))
        team.engine.team.index_project(TeamProjectIndexRequest(project, "refs/heads/main"))
        settle(2)
        assert (first.poll(), jobs(team).failed) == (None, ())
        with team.database.transaction() as db:
            ((generation,),) = db.execute("SELECT generation FROM trees").fetchall()
        assert generation == 4  # each run changed the tree once and marked it complete once
        assert team.digest(project) == clean_digest(upstream, tmp_path)
    finally:
        for worker in (first, second):
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait(120)
        other.close()


def test_a_worker_outlives_its_database(team: Team, server: GitServer) -> None:
    """Every connection is cut while it waits, as by a failover."""
    worker = team.start_worker()
    try:
        until = time.monotonic() + 120
        while jobs(team).workers != 1:
            assert time.monotonic() < until
            time.sleep(0.05)
        end_sessions(team)
        team.add(server, "shop")
        while not jobs(team).runs or jobs(team).runs[0].state != "done":
            assert time.monotonic() < until
            time.sleep(0.1)
        assert worker.poll() is None
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(120)


def test_odd_names_of_branches_keep_no_other_from_being_indexed(
    team: Team, upstream: Repository, server: GitServer
) -> None:
    """Whoever may push a branch chooses its name: any bytes but a few of ASCII."""
    for name in ("line\u2028break", "next\x85line", "caf\udce9"):
        upstream.git("update-ref", f"refs/heads/{name}", "HEAD")
    project = team.add(server, "shop", follow=("refs/heads/*",))
    team.work()
    state = jobs(team)
    assert (state.waiting, state.failed) == (0, ())
    assert {(run.ref, run.state) for run in state.runs} == {
        (f"refs/heads/{name}", "done") for name in ("main", "line\u2028break", "next\x85line", "caf\ufffd")
    }
    with team.engine as engine:
        found = engine.search(SearchRequest("handle 3", (project,), at="line\u2028break"))
        assert found.hits
