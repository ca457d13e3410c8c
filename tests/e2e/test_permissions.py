"""What CodeInfo writes is for its user alone, whatever the umask and whichever command ran first; what it needs for a
moment is gone after a kill."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import RunCli
from durability_tools import make_project
from patience import wait_until

from codeinfo.store.user_data import UserFile

FIRST = {
    "index": ["index", "."],
    "search": ["search", "steady_landmark"],
    "ask": ["ask", "what is the steady landmark?"],
    "remember": ["remember", "Ships anchor here", "-r", "The water is deep"],
    "docs add": ["docs", "add", "documents"],
    "doctor": ["doctor"],
}


def open_to_others(base: Path) -> list[str]:
    """Everything below a folder, and the folder, that others may read or its owner may not."""
    found = []
    for path in (base, *base.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (0o700 if path.is_dir() else 0o600):
            found.append(f"{path.relative_to(base)} {mode:o}")
    return found


def repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "page.md").write_text("# Harbour\n\nShips lie at anchor.\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277], ids=oct)
def test_modes_depend_on_neither_umask_nor_the_first_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli, first: str, umask: int
) -> None:
    home = tmp_path / "made" / "codeinfo"
    monkeypatch.setenv("CODEINFO_HOME", str(home))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    project = make_project(tmp_path / "project", 2)
    (project / "documents").mkdir()
    (project / "documents" / "page.md").write_text("# Harbour\n\nShips lie at anchor.\n")
    done = codeinfo(*FIRST[first], cwd=project, umask=umask)
    assert done.returncode in (0, 3), done.stderr
    if first == "remember":  # writes into the project, which is the team's
        assert stat.S_IMODE((project / ".codeinfo" / "memory.json").stat().st_mode) & 0o400
        assert codeinfo("index", ".", cwd=project, umask=umask).returncode == 0
    assert home.exists()
    assert open_to_others(home.parent) == []


def test_fetched_documents_and_conversations_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli
) -> None:
    home = tmp_path / "codeinfo"
    monkeypatch.setenv("CODEINFO_HOME", str(home))
    source = repository(tmp_path / "source")
    assert codeinfo("docs", "add", f"git+file://{source}", cwd=tmp_path, umask=0).returncode == 0
    assert codeinfo("docs", "ask", "where do ships lie?", cwd=tmp_path, umask=0).returncode == 0
    assert list((home / "data").rglob("page.md"))
    assert open_to_others(home) == []


def test_what_a_link_leads_to_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli) -> None:
    monkeypatch.setenv("CODEINFO_HOME", str(tmp_path / "made"))
    project = make_project(tmp_path / "project", 2)
    other = tmp_path / "other"
    other.write_text("not ours")
    other.chmod(0o644)
    assert codeinfo("index", str(project)).returncode == 0
    (lock,) = (tmp_path / "made").glob("cache/indexes/*/lock")
    lock.unlink()
    lock.symlink_to(other)
    refused = codeinfo("index", str(project), "--full")
    assert (refused.returncode, f"{lock} is a link" in refused.stderr) == (2, True), refused.stderr
    assert (other.read_text(), stat.S_IMODE(other.stat().st_mode)) == ("not ours", 0o644)


@pytest.mark.parametrize("place", ["indexes", "indexes/*", "indexes/*/lock"])
def test_what_another_user_put_into_a_shared_folder_is_not_used(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli
) -> None:
    shared = tmp_path / "shared"
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(shared))
    project = make_project(tmp_path / "project", 2)
    assert codeinfo("index", str(project)).returncode == 0
    (prepared,) = shared.glob(place)
    prepared.chmod(0o777)
    if os.geteuid() == 0:
        os.chown(prepared, 12345, 12345)
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)
    (project / "new.py").write_text("def newcomer():\n    return 1\n")
    for command in ("index", "search newcomer"):
        refused = codeinfo(*command.split(), str(project))
        assert (refused.returncode, f"{prepared} belongs to another user" in refused.stderr) == (2, True), (
            refused.stderr
        )


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir])
def test_something_else_in_the_place_of_a_file_is_named(
    put: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli
) -> None:
    monkeypatch.setenv("CODEINFO_HOME", str(tmp_path / "made"))
    project = make_project(tmp_path / "project", 2)
    assert codeinfo("ask", "where do ships lie?", cwd=project).returncode == 0
    (lock,) = (tmp_path / "made").glob("cache/indexes/*/lock")
    database, collections = (tmp_path / "made" / "data" / name for name in ("conversations.db", "collections.json"))
    tried = ((lock, "index --full"), (database, "conversations list"), (collections, "docs list"))
    for path, command in tried:
        path.unlink(missing_ok=True)
        put(path)
        refused = codeinfo(*command.split(), cwd=project)
        assert (refused.returncode, f"{path}" in refused.stderr) == (2, True), refused.stderr
        os.rmdir(path) if path.is_dir() else path.unlink()
    assert codeinfo("conversations", "list", cwd=project).returncode == 0
    assert codeinfo("docs", "update", "wiki", "a.md", "# Ships", cwd=project).returncode == 0
    (tree,) = (tmp_path / "made").glob("data/collections/*/current")
    tree.unlink()
    put(tree)
    refused = codeinfo("docs", "update", "wiki", "b.md", "# Boats", cwd=project)
    assert (refused.returncode, f"{tree} cannot be read" in refused.stderr) == (2, True), refused.stderr
    (root,) = (tmp_path / "made").glob("cache/indexes/*/trees/*/root")
    for path, code in ((root, 0), (root.with_name("current"), 7)):  # written again; named
        path.unlink()
        os.mkfifo(path)
        searched = codeinfo("search", "ships", cwd=project)
        assert (searched.returncode, f"{path} is not a plain file" in searched.stderr) == (code, bool(code))
    database.write_bytes(b"")
    empty = codeinfo("conversations", "list", cwd=project)
    assert (empty.returncode, "conversations.db is empty" in empty.stderr) == (5, True), empty.stderr


def test_folders_of_an_older_version_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli
) -> None:
    cache = tmp_path / "chosen"
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(cache))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    project = make_project(tmp_path / "project", 2)
    cache.mkdir(mode=0o755)
    (cache / "indexes").mkdir(mode=0o755)
    assert codeinfo("index", ".", cwd=project).returncode == 0
    assert open_to_others(cache / "indexes") == []
    assert stat.S_IMODE(cache.stat().st_mode) == 0o755  # the user's own folder keeps the mode he gave it


# --- temporary clones ----------------------------------------------------------------------------------------------


@contextmanager
def silent_server() -> Iterator[int]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def wait_for_clone(folder: Path) -> Path:
    wait_until(lambda: [*folder.glob("codeinfo-git-*/config")])
    return next(folder.glob("codeinfo-git-*/config")).parent


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # this process has chosen one already
    monkeypatch.setenv("CODEINFO_HOME", str(tmp_path / "codeinfo"))
    return folder


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_killed_fetch_leaves_no_clone(temporary: Path, tmp_path: Path, codeinfo: RunCli, how: signal.Signals) -> None:
    source = repository(tmp_path / "source")
    with silent_server() as port:
        command = [sys.executable, "-m", "codeinfo", "docs", "add", f"git+http://127.0.0.1:{port}/x.git"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True) as process:
            clone = wait_for_clone(temporary)
            time.sleep(0.3)
            process.send_signal(how)
            _, err = process.communicate(timeout=120)
            if how == signal.SIGKILL:
                os.killpg(process.pid, signal.SIGKILL)  # git, which an unplugged machine would take with it as well
    assert b"Traceback" not in err
    if how == signal.SIGTERM:
        assert process.returncode == 130
        assert not clone.exists()
    time.sleep(2.1)
    assert codeinfo("docs", "add", f"git+file://{source}", cwd=tmp_path).returncode == 0
    assert list(temporary.glob("codeinfo-git-*")) == []


def test_a_sync_that_finds_nothing_new_leaves_no_clone(temporary: Path, tmp_path: Path, codeinfo: RunCli) -> None:
    source = repository(tmp_path / "source")
    assert codeinfo("docs", "add", f"git+file://{source}", cwd=tmp_path).returncode == 0
    assert codeinfo("docs", "sync", cwd=tmp_path).returncode == 0
    assert list(temporary.glob("codeinfo-git-*")) == []


def test_creating_a_database_replaces_none_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a link nor on a file system that has none."""
    path, migrations = tmp_path / "own" / "own.db", {"1": "CREATE TABLE said(text TEXT NOT NULL)"}
    link = os.link

    def come_first(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        other = UserFile(path, migrations)
        with other.writing() as db:
            db.execute("INSERT INTO said VALUES('first')")
        other.close()
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", come_first)
    file = UserFile(path, migrations)
    with file.reading() as db:
        assert db.execute("SELECT text FROM said") == [("first",)]
    file.close()
    assert path.stat().st_mode & 0o077 == 0
