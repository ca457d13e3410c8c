"""Locks that somebody holds: every command says so within seconds, none waits forever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from conftest import RunCli
from durability_tools import index_folder, make_project
from patience import within

from codeinfo.errors import Busy
from codeinfo.store.database import translate_errors
from codeinfo.store.layout import IndexFolder

SECONDS = 60.0  # to say Busy, on a machine that is shared: the patience is 3
HOLDER = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, *, stopped: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Another process holds the lock, and may have been stopped as Ctrl-Z stops it."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        if stopped:
            os.kill(holder.pid, signal.SIGSTOP)
        try:
            yield holder
        finally:
            holder.kill()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli) -> Path:
    monkeypatch.setenv("CODEINFO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    project = make_project(tmp_path / "project", 3)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "page.md").write_text("# Harbour\n\nShips lie at anchor.\n")
    assert codeinfo("docs", "add", str(tmp_path / "documents"), cwd=project).returncode == 0
    assert codeinfo("remember", "Ships anchor here", "-r", "The water is deep", cwd=project).returncode == 0
    return project


def check_busy(codeinfo: RunCli, project: Path, *arguments: str) -> None:
    with within(SECONDS):
        done = codeinfo(*arguments, "--json", cwd=project)
    assert done.returncode == 4, done
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert error["code"] == "BUSY"
    assert "process" in error["message"]
    assert error["next"]


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
def test_memories_are_not_waited_for_without_end(project: Path, codeinfo: RunCli, stopped: bool) -> None:
    with held(project / ".codeinfo", stopped=stopped):
        check_busy(codeinfo, project, "remember", "Lights are lit at dusk", "-r", "Law")
    assert codeinfo("remember", "Lights are lit at dusk", "-r", "Law", cwd=project).returncode == 0


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
def test_the_list_of_collections_is_not_waited_for_without_end(
    project: Path, tmp_path: Path, codeinfo: RunCli, stopped: bool
) -> None:
    (project / "notes").mkdir()
    (project / "notes" / "a.md").write_text("# Boats\n")
    with held(tmp_path / "home" / "data" / "collections.lock", stopped=stopped):
        check_busy(codeinfo, project, "docs", "remove", "documents", "--yes")
        check_busy(codeinfo, project, "docs", "add", "notes", "--project")  # or one of two at once would be lost
    assert not (project / "context.json").exists()
    listed = json.loads(codeinfo("docs", "list", "--json", cwd=project).stdout)
    assert [item["name"] for item in listed["collections"]] == ["documents"]
    assert codeinfo("docs", "remove", "documents", "--yes", cwd=project).returncode == 0


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
def test_a_collection_that_is_being_indexed_stays_listed(
    project: Path, tmp_path: Path, codeinfo: RunCli, stopped: bool
) -> None:
    (lock,) = (tmp_path / "home" / "cache" / "documents").glob("indexes/*/lock")
    with held(lock, stopped=stopped):
        check_busy(codeinfo, project, "docs", "remove", "documents", "--yes")
    listed = json.loads(codeinfo("docs", "list", "--json", cwd=project).stdout)
    assert [item["name"] for item in listed["collections"]] == ["documents"]


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
def test_an_index_is_not_waited_for(
    project: Path, codeinfo: RunCli, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.engine.index_manager.PATIENCE_S", 0.5)
    monkeypatch.setattr("codeinfo.store.layout.LOCK_PATIENCE_S", 0.5)
    assert codeinfo("index", cwd=project).returncode == 0
    (project / "new.py").write_text("def newcomer():\n    return 1\n")
    with held(index_folder(project).path / "lock", stopped=stopped):
        check_busy(codeinfo, project, "index")
        check_busy(codeinfo, project, "clear", "--yes")
        assert codeinfo("search", "newcomer", cwd=project).returncode == 0


def test_an_index_is_cleared_while_others_wait_to_write_it(tmp_path: Path) -> None:
    """Whoever gets the lock next has a folder of its own, whose content stays until they clear it."""
    problems: list[BaseException] = []

    def fill_and_clear(name: str) -> None:
        folder = IndexFolder(tmp_path / "cache", tmp_path / name, tmp_path / "family")
        try:
            for _ in range(20):
                with folder.lock(patience_s=60):
                    for number in range(5):
                        (folder.path / f"file-{number}").write_text("kept while the lock is held")
                    assert len(list(folder.path.glob("file-*"))) == 5
                    folder.clear()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=fill_and_clear, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert not list((tmp_path / "cache" / "indexes").iterdir())


@pytest.mark.parametrize("error", [apsw.IOError, apsw.CantOpenError])
def test_an_index_that_is_cleared_while_it_is_opened_is_no_fault_of_the_disk(
    tmp_path: Path, error: type[Exception]
) -> None:
    with pytest.raises(Busy, match="has just removed the index"), translate_errors(tmp_path / "cleared"):
        raise error("unable to open database file")


def test_a_search_before_the_first_file_is_indexed_says_so(tmp_path: Path, codeinfo: RunCli, project: Path) -> None:
    fresh = make_project(tmp_path / "fresh", 40)
    with subprocess.Popen([sys.executable, "-m", "codeinfo", "index"], cwd=fresh, stderr=subprocess.PIPE) as indexing:
        while index_folder(fresh).current() is None and indexing.poll() is None:
            time.sleep(0.005)
        os.kill(indexing.pid, signal.SIGSTOP)
        try:
            found = json.loads(codeinfo("search", "anchor", "--json", cwd=fresh).stdout)
            shown = codeinfo("status", cwd=fresh).stdout
            refused = [codeinfo(*words, cwd=fresh) for words in (("refs", "compute_1_1"), ("explore", "compute_1_1"))]
        finally:
            os.kill(indexing.pid, signal.SIGCONT)
            indexing.kill()
    assert found["quality"]["reasons"] == ["no file is indexed yet"]
    assert "`codeinfo status`" in found["quality"]["hint"]
    assert "none yet" in shown
    for one in refused:  # it would deny what is not indexed yet
        assert one.returncode == 4
        assert "is being indexed by process" in one.stderr
        assert "searches continue with the index as it is" in one.stderr


@pytest.mark.parametrize("killed", [True, False])
def test_the_child_of_a_process_that_is_gone_is_waited_for(project: Path, killed: bool) -> None:
    """A lock is also open in a child between its fork and its start, even when its parent was killed or released it."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    folder = index_folder(project)
    with folder.lock():
        pass
    (folder.path / "lock").write_text(f"{gone.pid} {folder.tree}" if killed else "")
    with held(folder.path / "lock", stopped=False) as holder:
        threading.Timer(0.3, holder.kill).start()
        with folder.lock() as died:
            assert died is killed
