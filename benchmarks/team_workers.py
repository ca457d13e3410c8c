"""A team's workers on a real PostgreSQL and repositories that git serves over HTTP on this machine.

    python benchmarks/team_workers.py first REPOSITORY [--most 2] [--runs 2]    first index with 1, 2 … workers
    python benchmarks/team_workers.py push REPOSITORY… [--pushes 20]            from a webhook to searchable
    python benchmarks/team_workers.py kills [--moments 40]                      kill -9 of workers
    python benchmarks/team_workers.py servers [--moments 40]                    kill -9 of a server

`first` clones the repository's HEAD, fetches its mirror beforehand, and gives the wall time from the queued job to the
finished tree and the CPU time of all processes of the workers; runs alternate. On a machine that others use compare the
sum of the CPU times: it is what a further worker may take from the wall time where there is a core for it.

`push` makes one repository of all that are named, indexes it, then pushes commits of ten changed files: the time from
the job that a webhook defers until another machine, which listens as a server does, finds what was pushed in all ten
files.

`kills` pushes commits while workers are killed at random moments, and compares what is left with a clean index.

`servers` kills `codeinfo serve` while clients search, push, send webhooks and remember: what was acknowledged must be
there once, and the indexes equal a clean one.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import psycopg
from git_server import serving
from kill_tools import kill_servers
from postgres_tools import new_database
from repository_tools import Repository
from worker_tools import Team, clean_digest

from codeinfo.operations.search import GrepRequest
from codeinfo.operations.team import TeamJobs, TeamJobsRequest, TeamProjectIndexRequest
from codeinfo.team.database import CHANGED

MAIN = "refs/heads/main"
PATIENCE_S = 600.0


def jobs(team: Team) -> TeamJobs:
    return team.engine.team.jobs(TeamJobsRequest(1))


def wait_for_run(team: Team, revision: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not any(run.revision == revision and run.state == "done" for run in jobs(team).runs):
        if time.monotonic() > until:
            raise SystemExit(f"not done after {PATIENCE_S:g} s: {jobs(team)}")
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> float:
    """The CPU seconds of a process and of those it has waited for."""
    process.send_signal(signal.SIGTERM)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def copied(folder: Path, sources: list[Path]) -> Repository:
    """One repository with the tracked files of all of these, as they are checked out."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    repository = Repository(folder)
    for source in sources:
        line = ["git", "-C", str(source), "ls-files", "-z"]
        listed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        for path in filter(None, listed.split("\0")):
            target = (folder / source.name if len(sources) > 1 else folder) / path
            if (source / path).is_file() and not (source / path).is_symlink() and target.name != ".gitignore":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / path, target)
    repository.commit("Begin", {})
    return repository


def first(place: Path, source: Path, most: int, runs: int) -> None:
    repository = copied(place / "served" / "tree", [source])
    commit = repository.git("rev-parse", "HEAD")
    figures: dict[int, list[tuple[float, float]]] = {}
    with serving(place / "served") as server:
        for turn in range(runs):
            for count in range(1, most + 1):
                machines = [Team(new_database(), place / f"machine-{turn}-{count}")]
                machines[0].engine.team.tools().mirrors.of(server.url("tree")).fetch()
                workers = [machines[0].start_worker() for _ in range(count)]
                while jobs(machines[0]).workers < count:
                    time.sleep(0.05)
                started = time.monotonic()
                machines[0].add(server, "tree")
                wait_for_run(machines[0], commit)
                wall = time.monotonic() - started
                figures.setdefault(count, []).append((wall, sum(map(end, workers))))
                run = jobs(machines[0]).runs[0]
                print(f"{count} workers: {run.files} files, {wall:.1f} s wall, {figures[count][-1][1]:.1f} s CPU")
                machines[0].close()
                shutil.rmtree(machines[0].home)
    for count, durations in figures.items():
        wall, cpu = (statistics.median(column) for column in zip(*durations, strict=True))
        print(f"{count} workers, median of {len(durations)}: {wall:.1f} s wall, {cpu:.1f} s CPU")


def push(place: Path, sources: list[Path], pushes: int) -> None:
    repository = copied(place / "served" / "tree", sources)
    paths = [
        path for path in repository.git("ls-files").splitlines() if path.endswith((".py", ".ts", ".rs", ".go", ".php"))
    ]
    print(f"{len(repository.git('ls-files').splitlines())} files")
    generator, times = random.Random(7), list[float]()
    team = Team(new_database(), place / "machine")
    server_machine = Team(team.environment["CODEINFO_STORE_URL"], place / "server")
    worker = team.start_worker()
    with serving(place / "served") as server:
        project = team.add(server, "tree")
        wait_for_run(team, repository.git("rev-parse", "HEAD"))
        assert not _finds(server_machine, project, "nothing has this word")
        with psycopg.connect(server_machine.database.url, autocommit=True) as listening:
            listening.execute(f"LISTEN {CHANGED}")
            for number in range(pushes):
                word = f"pushed{number}" + "".join(generator.choices("bcdfghjklm", k=12))
                changed = {}
                for path in generator.sample(paths, 10):
                    text = (repository.folder / path).read_text(errors="replace")
                    changed[path] = f"{text}\n# {word}\n"
                repository.commit(f"Change {number}", changed)
                started = time.monotonic()
                team.engine.team.index_project(TeamProjectIndexRequest(project, MAIN))
                while not _finds(server_machine, project, word):
                    list(listening.notifies(timeout=PATIENCE_S, stop_after=1))
                times.append(time.monotonic() - started)
    end(worker)
    times.sort()
    print(
        f"push to searchable, {pushes} pushes of 10 files: p50 {statistics.median(times):.2f} s, max {times[-1]:.2f} s"
    )


def _finds(team: Team, project: str, word: str) -> bool:
    return len(team.engine.grep(GrepRequest(word, (project,))).matches) >= 10


def commit(repository: Repository, numbers: Iterator[int], modules: int) -> None:
    """Each module has a number that none had before."""
    files = {}
    for number in islice(numbers, modules):
        body = f"def handle_{number}(order):\n    return order.total * {number}\n\n\n"
        files[f"part{number % 17}/module{number % 900}.py"] = f"{body}class Kind{number}:\n    value = {number}\n"
    repository.commit(f"Change {len(files)} modules", files)


def kills(place: Path, moments: int, seed: int) -> None:
    generator, numbers = random.Random(seed), count(1)
    (place / "served").mkdir(parents=True)
    repository = Repository(place / "served" / "tree")
    commit(repository, numbers, 600)
    team = Team(new_database(), place / "machine")
    team.environment["CODEINFO_STORE_HEARTBEAT_S"] = "0.1"
    workers = [team.start_worker() for _ in range(2)]
    killed = at_work = 0
    try:
        with serving(place / "served") as server:
            project = team.add(server, "tree")
            while killed < moments:
                time.sleep(generator.uniform(0.2, 3))
                if jobs(team).waiting + jobs(team).running == 0:
                    commit(repository, numbers, generator.choice((5, 250, 450)))
                    team.engine.team.index_project(TeamProjectIndexRequest(project, MAIN))
                    time.sleep(generator.uniform(0, 0.6))
                victim = generator.randrange(len(workers))
                at_work += jobs(team).running > 0
                os.killpg(workers[victim].pid, signal.SIGKILL)
                workers[victim].wait()
                killed += 1
                workers[victim] = team.start_worker()
            team.engine.team.index_project(TeamProjectIndexRequest(project, MAIN))
            wait_for_run(team, repository.git("rev-parse", "HEAD"))
            until = time.monotonic() + 30
            while jobs(team).waiting + jobs(team).running and time.monotonic() < until:
                time.sleep(0.1)
    finally:
        for worker in workers:
            end(worker)
    runs, divided, left_out = check_runs(team)
    same = team.digest(project) == clean_digest(repository, place)
    print(
        f"{killed} kills, {at_work} of them with a job in hand: {runs} runs, each with one effect; no job left over;"
        f" {divided} batches divided, {left_out} files left out;"
        f" digest {'equals' if same else 'DIFFERS FROM'} a clean build"
    )
    team.close()
    if not same:
        sys.exit(1)


def check_runs(team: Team) -> tuple[int, int, int]:
    """How many runs there were, batches that were divided and files left out; all is done, each once."""
    state = jobs(team)
    assert (state.waiting, state.running, state.failed) == (0, 0, ()), state
    with team.database.transaction() as db:
        (runs, active) = db.execute(
            "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done') FROM index_runs"
        ).fetchall()[0]
        (generation,) = db.execute("SELECT generation FROM trees").fetchall()[0]
        (left_out,) = db.execute("SELECT count(*) FROM files WHERE skip <> ''").fetchall()[0]
        (divided,) = db.execute("SELECT count(*) FROM index_batches WHERE divided").fetchall()[0]
    assert active == 0
    assert generation == 2 * runs, (generation, runs)  # each run changed the tree once and marked it complete once
    return runs, divided, left_out


def servers(place: Path, moments: int, seed: int) -> None:
    outcome = kill_servers(new_database(), place / "site", moments, seed)
    print(
        f"{outcome.kills} kills, {outcome.startups} of them while the server started; hit: {dict(outcome.in_flight)};"
        f" acknowledged: {dict(outcome.done)}; {outcome.runs} index runs"
    )
    print("\n".join(outcome.problems) or "nothing lost, nothing twice; the indexes equal a clean build")
    if outcome.problems:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("first", "push", "kills", "servers"))
    parser.add_argument("repositories", nargs="*", type=Path)
    parser.add_argument("--most", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--pushes", type=int, default=20)
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="codeinfo-workers-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        if options.what == "first":
            first(place, options.repositories[0].resolve(), options.most, options.runs)
        elif options.what == "push":
            push(place, [source.resolve() for source in options.repositories], options.pushes)
        elif options.what == "kills":
            kills(place, options.moments, options.seed)
        else:
            servers(place, options.moments, options.seed)


if __name__ == "__main__":
    main()
