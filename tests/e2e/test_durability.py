"""What was done stays done: kills, interrupts, failing providers, rebuilds beside the live index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from durability_tools import (
    STEADY,
    CountingEmbedder,
    cli,
    digest,
    index_folder,
    index_manager,
    live_build,
    make_project,
    open_store,
    scene,
)
from patience import wait_until

import codeinfo.index.line as build_module
from codeinfo.engine.index_manager import OTHER_MODEL, IndexManager
from codeinfo.engine.index_sources import CodeSource
from codeinfo.engine.indexes import OpenIndex
from codeinfo.engine.search import Scope, search_roots
from codeinfo.errors import Busy, ProviderError
from codeinfo.models.retrieval import ScriptedEmbedder
from codeinfo.operations.search import SearchRequest
from codeinfo.store.sqlite import SqliteStore


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    return make_project(tmp_path / "project")


def refreshed(project: Path, embedder: ScriptedEmbedder, **flags: Any) -> IndexManager:
    one = index_manager(project, embedder, **flags)
    one.refresh()
    return one


def first_hit(one: IndexManager, store: SqliteStore | None = None) -> str:
    opened = store or one.live_store()
    assert opened is not None
    return search_roots(SearchRequest(STEADY), [OpenIndex(one, opened, ())], Scope({one: ()})).hits[0].path


# --- kills and interrupts ------------------------------------------------------------------------------------------


def test_kills(tmp_path: Path) -> None:
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "kill_points.py"), "--files", "24"]
    command += ["--random", "3", "--calls", "5", "--seed", str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_cleanly_and_the_next_run_goes_on(tmp_path: Path, project: Path, number: int) -> None:
    large = make_project(tmp_path / "large", 300)
    process = subprocess.Popen(
        [sys.executable, "-m", "codeinfo", "index", str(large)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    workers = wait_for_workers(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert not [pid for pid in workers if is_running(pid)]
    assert cli("index", large).code == 0
    resumed = digest(large)
    assert cli("index", large, "--full").code == 0
    assert digest(large) == resumed


def wait_for_workers(process: subprocess.Popen[str]) -> list[int]:
    workers = list[int]()

    def look() -> list[int]:
        for task in Path(f"/proc/{process.pid}/task").glob("*/children"):
            with suppress(OSError):  # a thread may end meanwhile
                workers.extend(pid for pid in map(int, task.read_text().split()) if is_worker(pid))
        return workers

    wait_until(look)
    return workers


def is_worker(pid: int) -> bool:
    try:
        return b"codeinfo.index.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def is_running(pid: int) -> bool:
    try:
        return is_worker(pid) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_is_committed_before_a_kill_is_not_done_again(project: Path, tmp_path: Path) -> None:
    assert scene("dies_holding_the_log", project, tmp_path / "cache").returncode == -signal.SIGKILL
    embedder = CountingEmbedder(256)
    (project / "new.py").write_text("def newcomer():\n    return 1\n")
    refreshed(project, embedder)
    assert embedder.texts == 1


def test_what_a_dead_writer_left_is_checked(project: Path, tmp_path: Path) -> None:
    """Nothing changed since, and no search reads what is damaged: only the check after a death can tell."""
    assert scene("dies_holding_the_log", project, tmp_path / "cache").returncode == -signal.SIGKILL
    (index_folder(project).path / "lock").write_text("4194305")  # as if it had died at work
    vectors = next(live_build(project).glob("vectors-*"))
    data = bytearray(vectors.read_bytes())
    data[100] ^= 1
    vectors.write_bytes(data)
    done = cli("index", project, "--json")
    assert done.code == 0
    assert any("set aside" in note for note in done.json["reports"][0]["notes"])


# --- providers -----------------------------------------------------------------------------------------------------


def test_a_provider_that_fails_midway_keeps_what_was_done(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "EMBED_CHUNKS", 4)
    whole = CountingEmbedder()
    refreshed(make_project(project.parent / "whole"), whole)
    failing = CountingEmbedder(fail_after=whole.texts // 2)
    with pytest.raises(ProviderError):
        index_manager(project, failing).refresh()
    assert 0 < failing.texts <= whole.texts // 2
    again = CountingEmbedder()
    one = refreshed(project, again)
    assert failing.texts + again.texts == whole.texts
    assert first_hit(one) == "steady.py"


def test_what_a_killed_clear_leaves_is_removed_by_the_next_index(project: Path) -> None:
    assert cli("index", project).code == 0
    folder = index_folder(project).path
    left = folder.rename(folder.with_name(".removed-0123abcd"))
    assert cli("search", "steady", project).code == 0
    assert (folder.is_dir(), left.exists()) == (True, False)


def test_an_edit_embeds_only_the_chunks_it_changed(project: Path) -> None:
    def write(changed: str) -> None:
        bodies = [f"    total_{at} = {changed if at == 7 else at}\n" * 60 for at in range(12)]
        (project / "long.py").write_text("\n\n".join(f"def step_{at}():\n{body}" for at, body in enumerate(bodies)))

    write("7")
    embedder = CountingEmbedder()
    one = refreshed(project, embedder)
    embedder.texts = 0
    write("88")
    one.refresh()
    assert embedder.texts == 1
    edited = digest(project)
    one.refresh(full=True)
    assert digest(project) == edited
    assert embedder.texts > 12


def test_a_renamed_file_is_not_embedded_again(project: Path) -> None:
    embedder = CountingEmbedder()
    one = refreshed(project, embedder)
    before = embedder.texts
    (project / "steady.py").rename(project / "moved.py")
    report = one.refresh().report
    assert embedder.texts == before
    assert (report.added, report.removed, report.renamed) == (1, 1, 1)
    assert first_hit(one) == "moved.py"


# --- rebuilds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["a setting", "the model"])
def test_a_rebuild_happens_beside_the_live_index(project: Path, change: str) -> None:
    refreshed(project, CountingEmbedder()).close()
    old = live_build(project)
    embedder = CountingEmbedder(64 if change == "a setting" else 32)
    flags = {"index__chunk_chars": 150} if change == "a setting" else {}
    seen = []

    def look() -> None:
        """What another process finds while the rebuild is under way."""
        with pytest.raises(Busy):
            index_manager(project, CountingEmbedder(embedder.dimension), **flags).refresh()
        other = index_manager(project, CountingEmbedder(embedder.dimension), **flags)
        assert live_build(project) == old
        assert first_hit(other) == "steady.py"
        assert (OTHER_MODEL in other.standing_notes()) == (change == "the model")
        seen.append(other)

    embedder.before_each = look
    one = index_manager(project, embedder, **flags)
    assert one.refresh().report.rebuilt
    assert seen
    assert live_build(project) != old
    assert first_hit(one) == "steady.py"
    assert OTHER_MODEL not in one.standing_notes()


def test_an_interrupted_rebuild_goes_on_where_it_stopped(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "EMBED_CHUNKS", 4)
    whole = CountingEmbedder(32)
    refreshed(project, CountingEmbedder(64)).close()
    old = live_build(project)
    failing = CountingEmbedder(32, fail_after=12)
    with closing(index_manager(project, failing)) as stopped, pytest.raises(ProviderError):
        stopped.refresh()
    assert live_build(project) == old
    with closing(index_manager(project, CountingEmbedder(64))) as reader:
        assert first_hit(reader) == "steady.py"
    refreshed(project, whole)
    assert failing.texts > 0
    assert failing.texts + whole.texts == count_chunks(project)
    assert not old.exists()


def count_chunks(project: Path) -> int:
    return int(open_store(project).counts().chunks)


def test_damage_to_a_half_built_rebuild_leaves_the_live_index_alone(project: Path) -> None:
    refreshed(project, CountingEmbedder(64)).close()
    old = live_build(project)
    with pytest.raises(ProviderError):
        index_manager(project, CountingEmbedder(32, fail_after=0)).refresh()
    (half,) = set(index_folder(project).path.glob("v*-*")) - {old}
    (half / "index.db").write_bytes(b"nothing of use" * 1000)
    looked = []
    embedder = CountingEmbedder(32)
    embedder.before_each = lambda: looked.append(live_build(project))
    report = index_manager(project, embedder).refresh().report
    assert set(looked) == {old}
    assert any("set aside" in note for note in report.notes)


def test_a_build_that_is_being_read_outlives_its_replacement(project: Path) -> None:
    reader = refreshed(project, CountingEmbedder())
    store = reader.live_store()
    assert store is not None
    writer = index_manager(project, CountingEmbedder())
    writer.refresh(full=True)
    store.close()  # no connection is left: the next search must open one, in a folder that is not live any more
    assert live_build(project) != store.folder
    assert first_hit(reader, store) == "steady.py"
    reader.close()
    del store
    writer.refresh(full=True)
    assert list(index_folder(project).path.glob("v*-*")) == [live_build(project)]


def test_files_that_another_run_added_after_our_walk_stay(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = refreshed(project, CountingEmbedder())
    (project / "mine.py").write_text("def mine():\n    return 1\n")
    walk = CodeSource.walk

    def overtaken(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(CodeSource, "walk", walk)
        seen = walk(*given, **named)
        (project / "theirs.py").write_text("def theirs():\n    return 2\n")
        refreshed(project, CountingEmbedder())
        return seen

    monkeypatch.setattr(CodeSource, "walk", overtaken)
    report = one.refresh().report
    assert report.removed == 0
    store = one.live_store()
    assert store is not None
    assert {"mine.py", "theirs.py"} <= set(store.manifest())


# --- what the last walk found --------------------------------------------------------------------------------------


def walk_file(project: Path) -> Path:
    return live_build(project) / index_folder(project).tree / "walk"


def settled(project: Path) -> IndexManager:
    """An index whose last walk is known."""
    refreshed(project, CountingEmbedder())
    for path in project.glob("*.py"):  # as old as files are that nobody writes to
        os.utime(path, (1, 1))
    refreshed(project, CountingEmbedder())
    one = refreshed(project, CountingEmbedder())
    assert walk_file(project).exists()
    return one


def test_files_left_out_by_their_content_are_not_counted_as_unchanged(project: Path) -> None:
    (project / "made.py").write_text("# Code generated by a tool. DO NOT EDIT.\nx = 1\n")
    one = settled(project)
    report = one.refresh().report
    assert (report.files, report.unchanged) == (21, 21)
    assert [skip.path for skip in report.skipped] == ["made.py"]


def test_an_unchanged_tree_is_not_compared_with_the_index(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(project)
    compared, sources = [], SqliteStore.sources

    def counted(*given: Any) -> Any:
        compared.append(1)
        return sources(*given)

    monkeypatch.setattr(SqliteStore, "sources", counted)
    assert refreshed(project, CountingEmbedder()).refresh().report.unchanged == 21
    assert not compared
    (project / "steady.py").write_text("def another():\n    return 'another'\n")
    assert refreshed(project, CountingEmbedder()).live_store() is not None
    assert compared


def test_a_tree_that_is_as_it_was_while_the_index_is_not(project: Path) -> None:
    """Another version was indexed meanwhile, and then the first one came back with its time."""
    settled(project)
    steady, known, found = project / "steady.py", walk_file(project).read_bytes(), digest(project)
    before = steady.read_text()
    steady.write_text("def another():\n    return 'another'\n")
    refreshed(project, CountingEmbedder())
    assert digest(project) != found
    steady.write_text(before)
    os.utime(steady, (1, 1))
    walk_file(project).write_bytes(known)
    refreshed(project, CountingEmbedder())
    assert digest(project) == found


@pytest.mark.parametrize("content", [b"", b"x" * 40, b"\x90", b"\xff" * 4000])
def test_a_damaged_walk_costs_a_walk(project: Path, content: bytes) -> None:
    settled(project)
    path = walk_file(project)
    checksum = sha256(content).digest() if len(content) == 1 else b""  # sound, and not what this release writes
    path.write_bytes(checksum + content)
    (project / "new.py").write_text("def newest():\n    return 1\n")
    store = refreshed(project, CountingEmbedder()).live_store()
    assert store is not None
    assert "new.py" in store.manifest()


def test_a_cleared_index_forgets_its_last_walk(project: Path) -> None:
    settled(project).clear()
    store = refreshed(project, CountingEmbedder()).live_store()
    assert store is not None
    assert len(store.manifest()) == 21


@pytest.mark.parametrize("days", [10, 105_000, 180_000])  # the last two are beyond what a database takes
def test_files_dated_in_the_future_are_not_read_again_each_time(project: Path, days: int) -> None:
    """After the clock jumped back by days, or with the dates of an archive."""
    ahead = time.time() + days * 86_400
    for path in project.rglob("*.py"):
        os.utime(path, (ahead, ahead))
    one = refreshed(project, ScriptedEmbedder())
    assert not one.find_pending()
    edited = next(project.rglob("*.py"))
    edited.write_text(edited.read_text().replace("e", "f", 1))
    assert one.refresh().report.changed == 1
