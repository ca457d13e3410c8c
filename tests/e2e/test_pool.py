"""Worker processes: whatever a file or a signal does to them, the caller gets its results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from patience import wait_until, within

from codeinfo.errors import CodeInfoError
from codeinfo.index import pool as pool_module
from codeinfo.index import pool as spares_module
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.index.pool import Parsed, ParsePool, ParseTask, Spares, Worker

SETTINGS = ChunkSettings()
PATIENT = ChunkSettings(parse_timeout_s=60)  # for machines that are busy with other tests


def task(path: str, text: str, language: str = "python") -> ParseTask:
    return ParseTask(path, text, language)


def run_one(text: str, language: str = "python", settings: ChunkSettings = SETTINGS) -> Parsed:
    with ParsePool(settings) as pool:
        (result,) = pool.run([task("file", text, language)])
    return result


def worker_pids(pool: ParsePool) -> list[int]:
    return [feeder._worker.pid for feeder in pool._feeders if feeder._worker is not None]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def assert_ends(pid: int) -> None:
    wait_until(lambda: not is_alive(pid))


def files(count: int) -> list[ParseTask]:
    return [
        task(f"{number}.py", f"import os\n\ndef f{number}():\n    return os.x({number})\n") for number in range(count)
    ]


def test_results_equal_those_of_a_parse_in_this_process() -> None:
    todo = [*files(100), task("doc.md", "# Title\n\nText.\n", "markdown"), task("ü.py", "größe = '👋'\n")]
    with ParsePool(PATIENT) as pool:
        results = {result.path: result for result in pool.run(todo)}
    assert results.keys() == {entry.path for entry in todo}
    for entry in todo:
        assert isinstance(entry.text, str)
        parsed, references = parse_file(entry.path, entry.text, entry.language, PATIENT)
        assert results[entry.path] == Parsed(entry.path, parsed, references)


def test_a_pool_can_run_again_and_an_empty_run_starts_nothing() -> None:
    with ParsePool(PATIENT) as pool:
        assert list(pool.run([])) == []
        assert worker_pids(pool) == []
        assert len(list(pool.run(files(3)))) == 3
        first = worker_pids(pool)
        assert len(list(pool.run(files(3)))) == 3
        assert worker_pids(pool) == first
        assert len(first) == 1  # a few small files are not worth a second process


def test_much_work_is_shared() -> None:
    big = "def f():\n    return 1\n" * 1500
    with ParsePool(PATIENT, workers=2) as pool:
        results = pool.run(task(f"{number}.py", big) for number in range(8))
        next(results)
        wait_until(lambda: len(worker_pids(pool)) == 2)
        assert len(list(results)) == 7


def test_tasks_are_taken_only_as_fast_as_results() -> None:
    taken = 0

    def endless() -> Iterator[ParseTask]:
        nonlocal taken
        while True:
            taken += 1
            yield task(f"{taken}.py", "x = 1\n" * 100)

    with ParsePool(PATIENT, workers=1) as pool:
        results = pool.run(endless())
        for _ in range(10):
            next(results)
        assert taken <= 10 + pool_module._QUEUED_FILES
        cast(Any, results).close()
        assert worker_pids(pool) == []


def test_an_error_of_the_iterable_reaches_the_caller() -> None:
    def broken() -> Iterator[ParseTask]:
        yield task("a.py", "x = 1\n")
        raise OSError("disk gone")

    with ParsePool(PATIENT) as pool, pytest.raises(OSError, match="disk gone"):
        list(pool.run(broken()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nested brackets", "[" * 100_000 + "]" * 100_000),
        ("open brackets", "(" * 200_000),
        ("one line of 50 MB", "x = 1; " * (50_000_000 // 7)),
        ("an expression of 200,000 terms", "a = " + " + ".join(["b"] * 200_000)),
        ("a string that never ends", '"""' + "abc def\n" * 50_000),
        ("a lone surrogate", 'a = "\ud800"\n' * 100),
        ("NUL bytes", "\x00" * 100_000),
    ],
)
def test_hostile_files_end_in_chunks(name: str, text: str) -> None:
    with within(200):
        result = run_one(text, settings=ChunkSettings(parse_timeout_s=1))
    assert result.parsed.chunks
    assert sum(len(chunk.text) for chunk in result.parsed.chunks) <= max(100_000 + 2000, len(text))


@pytest.mark.parametrize("name", ["AB", "Größe"])
@pytest.mark.parametrize("end", ["", "(1, 2)", '("a b'])
def test_an_annotation_at_the_end_of_a_file_is_parsed(name: str, end: str) -> None:
    """Its parser skips to the end of the line, and would look for that beyond the end of the file."""
    result = run_one(f"val first = 1\n@{name}{end}", "kotlin", PATIENT)
    assert [one.name for one in result.parsed.definitions] == ["first"]
    assert result.parsed.notes == ()


def test_a_file_that_takes_too_long_is_indexed_as_text() -> None:
    result = run_one("x = [" + "(" * 400_000, settings=ChunkSettings(parse_timeout_s=0.3))
    assert result.parsed.notes[-1] == "parser gave up after 0.3 s: indexed as text"
    assert {chunk.kind for chunk in result.parsed.chunks} == {"text"}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell what a process computed")
def test_a_busy_machine_costs_no_file_its_syntax() -> None:
    slow = "".join(f"def f{number}(x):\n    return [x, (x, {number})]\n" for number in range(3_000))
    with ParsePool(ChunkSettings(parse_timeout_s=2), workers=1) as pool:
        results = pool.run([*files(1), task("slow.py", slow)])
        next(results)
        (pid,) = worker_pids(pool)
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(3, os.kill, (pid, signal.SIGCONT)).start()
        (result,) = results
    assert result.parsed.notes == ()
    assert len(result.parsed.definitions) == 3_000


@pytest.mark.parametrize("kills", [1, 2])
def test_two_killed_workers_cost_one_file_its_syntax_and_no_file_its_place(kills: int) -> None:
    slow = "".join(f"def f{number}(x):\n    return [x, (x, {number})]\n" for number in range(15_000))
    with ParsePool(ChunkSettings(parse_timeout_s=60), workers=1) as pool:
        results = pool.run([*files(3), task("slow.py", slow), *(task(f"late{n}.py", "y = 1\n") for n in range(5))])
        found = [next(results) for _ in range(3)]
        killed: set[int] = set()
        while len(killed) < kills:
            time.sleep(0.05)
            for pid in {*worker_pids(pool)} - killed:
                if pool._feeders[0]._is_ready:  # one that never starts is another matter
                    os.kill(pid, signal.SIGSEGV)
                    killed.add(pid)
        found += results
    assert len(found) == 9
    notes = {result.path: result.parsed.notes[-1] for result in found if result.parsed.notes}
    assert notes == ({} if kills == 1 else {"slow.py": "parser crashed (signal 11): indexed as text"})


def test_a_worker_that_dies_while_idle_is_replaced_and_no_file_is_blamed() -> None:
    with ParsePool(PATIENT, workers=1) as pool:
        list(pool.run(files(1)))
        (pid,) = worker_pids(pool)
        os.kill(pid, signal.SIGKILL)
        assert_ends(pid)
        (result,) = pool.run(files(1))
    assert result.parsed.notes == ()
    assert result.parsed.definitions


def test_a_file_that_no_worker_survives_is_left_out_with_the_reason() -> None:
    result = run_one("word\n" * 400_000, settings=ChunkSettings(parse_timeout_s=0.0001))
    assert result.refusal.startswith("gave up after")
    assert result.parsed.chunks == ()


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with ParsePool(SETTINGS) as pool, pytest.raises(CodeInfoError, match="does not start"):
        list(pool.run(files(1)))


def test_a_worker_that_is_not_needed_after_all_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while its process starts, which here would never be ready."""
    starting, go_on = threading.Event(), threading.Event()
    started: list[Worker] = []

    class Slow(Worker):
        def __init__(self) -> None:
            starting.set()
            go_on.wait(120)
            super().__init__()
            started.append(self)

    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(pool_module, "worker_command", lambda module: command)
    monkeypatch.setattr(pool_module, "Worker", Slow)
    pool = ParsePool(SETTINGS, spares=Spares())
    pool.warm_up()
    assert starting.wait(120)
    (feeder,) = pool._feeders
    feeder.stop()
    go_on.set()
    with within(pool_module._START_TIMEOUT_S / 2):
        pool.close()
    assert started[0].end() == -signal.SIGKILL


def test_a_spare_that_is_not_needed_after_all_stays_one() -> None:
    """An index run that finds nothing to do stops its pool while the worker is being fetched."""
    spares, starting, go_on = Spares(), threading.Event(), threading.Event()
    with ParsePool(PATIENT, spares=spares) as pool:
        list(pool.run(files(1)))
        (pid,) = worker_pids(pool)
    take = spares.take

    def take_slowly(settings: ChunkSettings) -> Worker | None:
        starting.set()
        go_on.wait(120)
        return take(settings)

    spares.take = take_slowly  # type: ignore[method-assign]
    with ParsePool(PATIENT, spares=spares) as pool:
        pool.warm_up()
        assert starting.wait(120)
        (feeder,) = pool._feeders
        feeder.stop()
        go_on.set()
    with ParsePool(PATIENT, spares=spares) as pool:
        assert list(pool.run(files(1)))
        assert worker_pids(pool) == [pid]
    spares.close()


def test_the_first_files_are_on_their_way_before_the_first_result_is_asked_for() -> None:
    with ParsePool(PATIENT) as pool:
        results = pool.run([task("file", "def one(): pass")])
        wait_until(lambda: not pool.results.empty())
        assert [result.path for result in results] == ["file"]


def test_workers_end_with_the_pool() -> None:
    with ParsePool(PATIENT) as pool:
        list(pool.run(files(2)))
        pids = worker_pids(pool)
        assert pids
    for pid in pids:
        assert_ends(pid)
    assert not [thread for thread in threading.enumerate() if thread.name == "parse-feeder"]


def test_a_worker_stays_as_a_spare_for_the_next_run() -> None:
    spares = Spares()
    pids = []
    for _ in range(3):
        with ParsePool(PATIENT, spares=spares) as pool:
            assert len(list(pool.run(files(2)))) == 2
            pids += worker_pids(pool)
    assert len(set(pids)) == 1
    with ParsePool(SETTINGS, spares=spares) as pool:
        assert len(list(pool.run(files(2)))) == 2
        (other,) = worker_pids(pool)
    assert other not in pids, "one with other settings cuts differently"
    spares.close()
    for pid in (pids[0], other):
        assert not is_alive(pid)
    with ParsePool(PATIENT, spares=spares) as pool:
        list(pool.run(files(1)))
        (late,) = worker_pids(pool)
    assert not is_alive(late), "nobody would end it"


def test_few_of_many_workers_stay_as_spares() -> None:
    spares = Spares()
    big = "def f():\n    return 1\n" * 1000
    with ParsePool(PATIENT, workers=3, spares=spares) as pool:
        list(pool.run(task(f"{number}.py", big) for number in range(25)))
        pids = worker_pids(pool)
    assert len(pids) == 3
    assert sum(map(is_alive, pids)) == 2
    spares.close()
    assert not any(map(is_alive, pids))


def test_a_busy_worker_is_no_spare() -> None:
    spares = Spares()
    with ParsePool(PATIENT, workers=1, spares=spares) as pool:
        results = pool.run([*files(40), task("slow.py", "x = [" + "(" * 400_000)])
        next(results)
        (pid,) = worker_pids(pool)
        cast(Any, results).close()
    assert_ends(pid)
    with ParsePool(PATIENT, spares=spares) as pool:
        assert {one.path for one in pool.run(files(3))} == {"0.py", "1.py", "2.py"}
    spares.close()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell how large a process is")
def test_a_worker_that_has_grown_is_no_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold on to the memory that its largest file needed."""
    monkeypatch.setattr(spares_module, "_RESTING_BYTES", 1 << 20)
    spares = Spares()
    with ParsePool(PATIENT, spares=spares) as pool:
        list(pool.run(files(1)))
        (pid,) = worker_pids(pool)
    assert not is_alive(pid)
    with ParsePool(PATIENT, spares=spares) as pool:
        (result,) = pool.run(files(1))
    assert result.parsed.notes == (), "taken while it ended"


def test_a_spare_worker_ends_by_itself_and_is_not_reused_then() -> None:
    spares = Spares(seconds=2.0)
    with ParsePool(PATIENT, spares=spares) as pool:
        list(pool.run(files(1)))
        (pid,) = worker_pids(pool)
    assert is_alive(pid)
    assert_ends(pid)
    with ParsePool(PATIENT, spares=spares) as pool:
        (result,) = pool.run(files(1))
        assert worker_pids(pool) != [pid]
    assert result.parsed.notes == ()
    spares.close()


SCRIPT = """
import os, sys, time
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.pool import ParsePool, ParseTask
def tasks():
    for number in range(10**9):
        yield ParseTask(f"{number}.py", "x = 1\\n" * 100, "python")
with ParsePool(ChunkSettings(), workers=1) as pool:
    results = pool.run(tasks())
    next(results)
    print(pool._feeders[0]._worker.pid, flush=True)
    for _ in results:
        time.sleep(0.01)
"""


def start_script(tmp_path: Path) -> tuple[subprocess.Popen[str], int]:
    root = Path(pool_module.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_workers_end_when_the_caller_is_killed(tmp_path: Path) -> None:
    process, pid = start_script(tmp_path)
    process.kill()
    process.communicate()
    assert_ends(pid)


def test_an_interrupt_shows_one_traceback_the_callers_own(tmp_path: Path) -> None:
    process, pid = start_script(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=120)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert_ends(pid)


def test_modules_in_the_current_folder_are_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("codeinfo", "tree_sitter", "marshal", "zlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the repository')\n")
    monkeypatch.chdir(tmp_path)
    assert run_one("def f(): pass\n", settings=PATIENT).parsed.definitions
