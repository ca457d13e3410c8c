"""Everything that can happen to an index on a disk, and how each ends: see docs/durability.md."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import apsw
import durability_tools as tools
import pytest
from durability_tools import STEADY, cli, digest, index_folder, live_build, make_project, open_store, scene
from patience import within
from store_digest import digest_of

from codeinfo.store.database import SCHEMA_VERSION
from codeinfo.store.sqlite import SqliteStore


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    return make_project(tmp_path / "project")


@pytest.fixture
def indexed(project: Path) -> Path:
    assert cli("index", project).code == 0
    return project


def only(build: Path, pattern: str) -> Path:
    (path,) = build.glob(pattern)
    return path


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [b"", b"/elsewhere", None])
def test_a_damaged_name_of_a_project_is_not_listed_and_is_written_again(indexed: Path, written: bytes | None) -> None:
    root = index_folder(indexed).tree_path / "root"
    name = root.read_bytes()
    root.unlink()
    if written is not None:
        root.write_bytes(written)
    assert json.loads(cli("projects", "--json").out)["projects"] == []
    assert cli("search", STEADY, indexed).code == 0
    assert root.read_bytes() == name


def truncated_by(path: Path, keep: Callable[[int], int]) -> None:
    os.truncate(path, keep(path.stat().st_size))


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "database emptied": lambda build: truncated_by(build / "index.db", lambda size: 0),
    "database cut in its header": lambda build: truncated_by(build / "index.db", lambda size: 50),
    "database cut after a page": lambda build: truncated_by(build / "index.db", lambda size: 4096),
    "database cut in its last page": lambda build: truncated_by(build / "index.db", lambda size: size - 100),
    "database cut in half": lambda build: truncated_by(build / "index.db", lambda size: size // 2),
    "database overwritten": lambda build: write(build / "index.db", os.urandom(50_000)),
    "database a text": lambda build: write(build / "index.db", b"hello"),
    "vectors deleted": lambda build: only(build, "vectors-*").unlink(),
    "vectors cut": lambda build: truncated_by(only(build, "vectors-*"), lambda size: size - 4),
    "vectors emptied": lambda build: truncated_by(only(build, "vectors-*"), lambda size: 0),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_set_aside_rebuilt_and_announced(indexed: Path, damage: str) -> None:
    clean = digest(indexed)
    DAMAGE[damage](live_build(indexed))
    first = cli("search", STEADY, indexed, "--json")
    if first.code == 5:  # found while searching: reported, and recorded for the next command
        assert "codeinfo index" in first.err
        first = cli("search", STEADY, indexed, "--json")
    assert first.code == 0, first.err
    assert any("set aside" in note for note in first.json["notes"])
    assert first.json["hits"][0]["path"] == "steady.py"
    assert digest(indexed) == clean
    assert len(list(index_folder(indexed).path.glob("damaged-*"))) == 1


@pytest.mark.parametrize("key", ["generation", "recipe", "dimension", "complete"])
def test_a_forgotten_line_about_itself(indexed: Path, key: str) -> None:
    clean = digest(indexed)
    database = apsw.Connection(str(live_build(indexed) / "index.db"))
    database.execute("UPDATE meta SET key = ? WHERE key = ?", (key.replace("e", "d"), key))
    database.close()
    found = cli("search", STEADY, indexed, "--json")
    assert (found.code, found.json["hits"][0]["path"]) == (0, "steady.py")
    assert digest(indexed) == clean
    assert cli("status", indexed).code == 0


def flip_and_look(project: Path, pristine: Path, position: int, value: int, clean: str) -> str:
    """One flipped byte: harmless, repaired on the way, or refused and repaired by the next command. Nothing else."""
    folder = index_folder(project).path
    shutil.rmtree(folder)
    shutil.copytree(pristine, folder)
    path = live_build(project) / "index.db"
    with open(path, "r+b") as file:
        file.seek(position)
        old = file.read(1)[0]
        file.seek(position)
        file.write(bytes([old ^ value]))
    outcome = "harmless"
    for query in (STEADY, "compute numbers left"):
        done = cli("search", query, project, "--json")
        if done.code == 5:
            outcome = "refused"
            done = cli("search", query, project, "--json")
        assert done.code == 0, done.err
        assert tools.shown_texts_are_true(project, done.json["hits"])
        if any("set aside" in note for note in done.json["notes"]):
            outcome = "repaired" if outcome == "harmless" else outcome
    if outcome != "harmless":
        assert digest(project) == clean
    return outcome


@pytest.mark.parametrize("flips", [30, pytest.param(1500, marks=[pytest.mark.soak, pytest.mark.timeout(3000)])])
def test_a_flipped_byte_never_shows_a_wrong_text(indexed: Path, tmp_path: Path, flips: int) -> None:
    pristine, clean = tmp_path / "pristine", digest(indexed)
    shutil.copytree(index_folder(indexed).path, pristine)
    size = (live_build(indexed) / "index.db").stat().st_size
    chance = random.Random(2)
    positions = [*range(16, 28, 4), *(chance.randrange(size) for _ in range(flips))]
    outcomes = [flip_and_look(indexed, pristine, at, 1 << chance.randrange(8), clean) for at in positions]
    assert {"harmless", "repaired"} <= set(outcomes)


def test_a_deleted_log_loses_at_most_what_was_in_it(indexed: Path, tmp_path: Path) -> None:
    for at in range(5):
        (indexed / f"late{at}.py").write_text(f"def late_{at}():\n    return {at}\n")
    assert scene("dies_holding_the_log", indexed, tmp_path / "cache").returncode == -9
    whole = digest_of_copy(indexed, tmp_path)
    for path in live_build(indexed).glob("index.db-*"):
        path.unlink()
    assert cli("search", STEADY, indexed).code == 0
    assert cli("index", indexed).code == 0
    assert digest(indexed) == whole


def digest_of_copy(project: Path, tmp_path: Path) -> str:
    copy = tmp_path / "copy"
    shutil.copytree(index_folder(project).path, copy)
    name = (copy / "current").read_text()
    store = SqliteStore(copy / name, index_folder(project).tree)
    try:
        return digest_of(store)
    finally:
        store.close()


# --- the folder ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [f"v{SCHEMA_VERSION}-0123456789abcdef".encode(), b"\xff\xfe\x00garbage", b"", b"../../etc", b"x" * 5000]
)
def test_a_pointer_to_nowhere_means_no_index_yet(indexed: Path, content: bytes) -> None:
    clean = digest(indexed)
    (index_folder(indexed).tree_path / "current").write_bytes(content)
    assert cli("search", STEADY, indexed).code == 0
    assert digest(indexed) == clean


@pytest.mark.parametrize("content", [b"v99-0123456789abcdef", b"\xff\xfe\x00garbage", b""])
def test_a_familys_broken_pointer_is_repaired_by_the_next_change(indexed: Path, content: bytes) -> None:
    pointer = index_folder(indexed).path / "current"
    pointer.write_bytes(content)
    (indexed / "late.py").write_text("def late_comer():\n    return 1\n")
    assert cli("search", "late_comer", indexed, "--json").json["hits"][0]["path"] == "late.py"
    assert index_folder(indexed).build_path(open_store(indexed).recipe) == live_build(indexed)


def test_an_index_of_a_newer_version_is_left_alone(indexed: Path) -> None:
    folder = index_folder(indexed).path
    newer = live_build(indexed).rename(folder / "v99-0123456789abcdef")
    (index_folder(indexed).tree_path / "current").write_text(newer.name)
    for command in (("index",), ("search", STEADY)):
        done = cli(*command, indexed, "--json")
        assert (done.code, tools.error(done)["code"]) == (5, "INDEX_TOO_NEW")
        assert "Upgrade" in tools.error(done)["next"]
    assert (newer / "index.db").exists()


def test_an_index_of_an_older_version_is_rebuilt_without_a_warning(indexed: Path) -> None:
    folder, clean = index_folder(indexed).path, digest(indexed)
    older = live_build(indexed).rename(folder / "v1-0123456789abcdef")
    (index_folder(indexed).tree_path / "current").write_text(older.name)
    found = cli("search", STEADY, indexed, "--json")
    assert (found.code, found.json["hits"][0]["path"]) == (0, "steady.py")
    assert not any("damaged" in note for note in found.json["notes"])
    assert digest(indexed) == clean
    assert not older.exists()


def test_a_cache_that_is_a_file(project: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    done = cli("index", project)
    assert done.code == 2
    assert "CODEINFO_CACHE_DIR" in done.err
    assert (tmp_path / "cache").read_text() == "in the way"


# --- locks ---------------------------------------------------------------------------------------------------------


def start_holder(project: Path, tmp_path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, tools.__file__, "holds_the_lock", str(project), str(tmp_path / "cache")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def test_a_second_indexer_says_busy_at_once_and_searches_go_on(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.store.layout.LOCK_PATIENCE_S", 120.0)
    holder = start_holder(indexed, tmp_path)
    try:
        (indexed / "new.py").write_text("def newcomer():\n    return 1\n")
        with within(30):
            done = cli("index", indexed)
        assert done.code == 4
        assert str(holder.pid) in done.err
        found = cli("search", STEADY, indexed, "--json")
        assert (found.code, found.json["hits"][0]["path"]) == (0, "steady.py")
        assert any(str(holder.pid) in note for note in found.json["notes"])
    finally:
        holder.kill()
        holder.communicate()
    assert cli("index", indexed).code == 0  # the dead hold nothing
    assert cli("search", "newcomer", indexed, "--json").json["hits"][0]["path"] == "new.py"


# --- the disk and its files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full_disk", "full_disk_exports", "read_only"])
def test_disks_that_take_nothing_more(project: Path, tmp_path: Path, name: str) -> None:
    if not tools.can_mount(tmp_path):
        pytest.skip("mounting a file system needs more rights")
    (tmp_path / "cache").mkdir()
    done = scene(name, project, tmp_path / "cache", mounts=True)
    assert done.returncode == 0, done.stderr


def test_a_failing_sync_ends_the_run_and_the_next_one_is_whole(project: Path, tmp_path: Path) -> None:
    done = scene("failing_sync", project, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert cli("index", project).code == 0
    repaired = digest(project)
    assert cli("index", project, "--full").code == 0
    assert digest(project) == repaired


def run_as_user(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codeinfo", *arguments, "--json"]
    if os.geteuid() == 0:  # root reads everything, unless this right is taken away
        if shutil.which("setpriv") is None:
            pytest.skip("root reads every file, and there is no setpriv")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--", *command]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_file_that_becomes_unreadable_is_named_and_no_longer_shown(tmp_path: Path) -> None:
    (tmp_path / "open.py").write_text("def shared():\n    return 1\n")
    (tmp_path / "closed.py").write_text("def private():\n    return 2\n")
    assert run_as_user(tmp_path, "index").returncode == 0
    (tmp_path / "closed.py").chmod(0)
    searched = json.loads(run_as_user(tmp_path, "search", "private").stdout)
    assert "closed.py" not in [hit["path"] for hit in searched["hits"]]
    assert "1 place cannot be read and is left out: `codeinfo index` names it" in searched["notes"]
    indexed = run_as_user(tmp_path, "index")
    (report,) = json.loads(indexed.stdout)["reports"]
    assert (indexed.returncode, [skip["path"] for skip in report["skipped"]]) == (3, ["closed.py"])


def test_one_unreadable_file_among_many(tmp_path: Path, project: Path) -> None:
    large = make_project(tmp_path / "large", 99)
    (large / "module0050.py").chmod(0)
    run = partial(run_as_user, large)
    done, sought = run("index"), run("grep", "def ", "--glob", "module0050.py")
    (large / "module0050.py").chmod(0o600)
    (large / "closed").mkdir(mode=0)
    searched = run("search", "module")
    (large / "closed").rmdir()
    not_searched = "not searched: files that cannot be read (1); `codeinfo why PATH` says why"
    assert not_searched in json.loads(sought.stdout)["notes"]
    assert "1 place cannot be read and is left out: `codeinfo index` names it" in json.loads(searched.stdout)["notes"]
    assert done.returncode == 3, done.stderr
    (report,) = tools.Done(3, done.stdout, "").json["reports"]
    assert report["files"] == 99
    assert [skip["path"] for skip in report["skipped"] if skip["matters"]] == ["module0050.py"]


# --- the same at random ---------------------------------------------------------------------------------------------


def test_a_slice_of_the_soak(tmp_path: Path) -> None:
    soak = str(Path(__file__).parents[1] / "soak")
    command = [sys.executable, soak, "--size", "0.001", "--seed", "1", "flips", "hostile"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " 0 failures" in done.stdout


def test_hostile_repositories_have_no_link_to_a_file_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It runs as root at times: what it does to a project stays in its own folder.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "soak"))
    import hostile_repositories as hostile

    rng, links = random.Random(1), 0
    for number in range(60):
        project = tmp_path / str(number) / "project"
        project.mkdir(parents=True)
        sandbox = SimpleNamespace(project=project, restore=lambda: None)
        hostile.write_repository(sandbox, rng)  # type: ignore[arg-type]
        for path in project.rglob("*"):
            if path.is_symlink():
                links += 1
                assert path.resolve().is_relative_to(project.parent), path
    assert links > 10
