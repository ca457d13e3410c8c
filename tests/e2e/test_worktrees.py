"""The work trees of a repository share one store: each costs its differences, and answers as if it were alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
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
)
from repository_tools import Repository

from codeinfo.errors import Busy
from codeinfo.model import Skip, SourceFile
from codeinfo.operations.base import Progress
from codeinfo.sources.git import clean_blobs, family_of
from codeinfo.sources.read import Loaded, load
from codeinfo.store.layout import bytes_under


class Family:
    """A repository with a second work tree at another branch: one file changed, one added, one gone."""

    def __init__(self, folder: Path, modules: int = 30) -> None:
        repository = Repository(folder / "main")
        made = make_project(folder / "made", modules)
        for path in made.iterdir():
            shutil.copy(path, repository.folder)
        repository.commit("Start", {})
        repository.git("checkout", "--quiet", "-b", "other")
        (repository.folder / "module0002.py").unlink()
        changed = "def changed_on_the_branch(left):\n    return left\n"
        repository.commit(
            "Change", {"module0001.py": changed, "added.py": "def added_on_the_branch():\n    return 1\n"}
        )
        repository.git("checkout", "--quiet", "main")
        self.main, self.second, self.git = repository.folder, folder / "second", repository.git
        self.git("worktree", "add", "--quiet", str(self.second), "other")


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    return Family(tmp_path)


def fresh_digest(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    with monkeypatch.context() as alone:
        alone.setenv("CODEINFO_CACHE_DIR", str(tmp_path / f"alone-{time.monotonic_ns()}"))
        assert cli("index", root).code == 0
        return digest(root)


def first_path(root: Path, query: str) -> str:
    hits = cli("search", query, root, "--json").json["hits"]
    return str(hits[0]["path"]) if hits else ""


def is_defined(name: str, root: Path) -> bool:
    return cli("defs", name, root, "--json").code == 0


def test_a_second_work_tree_costs_its_differences(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = CountingEmbedder()
    one = index_manager(family.main, embedder)
    one.refresh()
    everything, embedder.texts = embedder.texts, 0
    two = index_manager(family.second, embedder)
    report = two.refresh().report
    assert report.files == 31
    assert 0 < embedder.texts < everything / 10
    assert one.folder.path == two.folder.path
    one.close()
    two.close()
    for root in (family.main, family.second):
        assert cli("index", root).code == 0
        assert digest(root) == fresh_digest(root, monkeypatch, tmp_path)


def test_files_that_a_sibling_has_with_the_same_blob_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    family = Family(tmp_path, modules=130)
    (family.main / "module0003.py").write_text("def edited_and_not_committed():\n    return 1\n")
    for root in (family.main, family.second):
        for path in root.glob("*.py"):
            os.utime(path, (1_700_000_000, 1_700_000_000))  # what is as young as git's last look at it is read
        subprocess.run(["git", "-C", root, "status"], check=True, stdout=subprocess.DEVNULL)
    read: list[str] = []

    def counted(root: Path, file: SourceFile) -> Loaded | Skip:
        read.append(file.path)
        return load(root, file)

    with monkeypatch.context() as counting:
        counting.setattr("codeinfo.sources.read.load", counted)
        assert cli("index", family.main).code == 0
        assert len(read) == 131
        read.clear()
        assert cli("index", family.second).code == 0
        assert sorted(read) == ["added.py", "module0001.py", "module0003.py"]
    for root in (family.main, family.second):
        assert digest(root) == fresh_digest(root, monkeypatch, tmp_path)


def test_a_filter_that_rewrites_files_makes_blobs_useless(family: Family) -> None:
    for path in family.main.glob("*.py"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    family.git("status")
    assert len(clean_blobs(family.main)) == 31
    family.git("config", "filter.rewrite.clean", "sed s/a/b/")
    assert clean_blobs(family.main) == {}


def test_a_tree_finds_its_own_files_alone(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    assert first_path(family.second, "changed_on_the_branch") == "module0001.py"
    assert first_path(family.main, "compute_2_0") == "module0002.py"
    for name, trees in (("added_on_the_branch", [family.second]), ("compute_2_0", [family.main])):
        assert [root for root in (family.main, family.second) if is_defined(name, root)] == trees
    for root, is_resolved in ((family.main, True), (family.second, False)):
        (root / "uses.py").write_text("from module0001 import compute_1_0\n")
        (usage,) = cli("refs", "compute_1_0", root, "--json").json["usages"]
        assert bool(usage["definition"]) is is_resolved


def test_switching_back_costs_nothing_and_ten_switches_do_not_grow_the_store(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family.git("worktree", "remove", str(family.second))
    embedder = CountingEmbedder()
    index_manager(family.main, embedder).refresh()
    sizes, embedded = [], []
    for at in range(10):
        family.git("checkout", "--quiet", "other" if at % 2 == 0 else "main")
        embedder.texts = 0
        index = index_manager(family.main, embedder)
        report = index.refresh().report
        index.close()
        embedded.append(embedder.texts)
        sizes.append(bytes_under(index.folder.path))
    assert report.files == 31
    assert embedded[0] > 0
    assert embedded[1:] == [0] * 9
    assert sizes[-1] <= sizes[1] * 1.02
    assert cli("index", family.main).code == 0
    assert digest(family.main) == fresh_digest(family.main, monkeypatch, tmp_path)


def test_nothing_is_kept_where_the_settings_say_so(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEINFO_INDEX_KEEP_DAYS", "0")
    family.git("worktree", "remove", str(family.second))
    assert cli("index", family.main).code == 0
    family.git("checkout", "--quiet", "other")
    assert cli("index", family.main).code == 0
    store = open_store(family.main)
    assert store.count_shared()[1] == 0
    store.close()


def test_two_processes_index_two_trees_at_once(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "codeinfo", "index"]
    running = [subprocess.Popen([*command, root], stdout=subprocess.DEVNULL) for root in (family.main, family.second)]
    assert [process.wait(120) for process in running] == [0, 0]
    for root in (family.main, family.second):
        assert digest(root) == fresh_digest(root, monkeypatch, tmp_path)


def test_a_search_goes_on_while_a_sibling_is_indexed(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.engine.index_manager.PATIENCE_S", 0.1)
    assert cli("index", family.main).code == 0
    (family.main / "late.py").write_text("def late_comer():\n    return 1\n")
    with index_folder(family.second).lock():
        found = cli("search", STEADY, family.main, "--json")
        assert found.json["hits"][0]["path"] == "steady.py"
        assert any("shares its index" in note for note in found.json["notes"])
        with pytest.raises(Busy), index_folder(family.main).lock():
            pass
    assert first_path(family.main, "late_comer") == "late.py"


def test_a_first_index_waits_for_a_sibling_and_can_be_cancelled(family: Family) -> None:
    phases: list[str] = []

    def cancel(progress: Progress) -> None:
        phases.append(progress.phase)
        if progress.phase == "wait":
            raise KeyboardInterrupt

    with index_folder(family.main).lock(), pytest.raises(KeyboardInterrupt):
        index_manager(family.second, None).refresh(progress=cancel)
    assert phases == ["walk", "wait"]
    assert cli("index", family.second).code == 0


def test_kills_in_one_tree_leave_the_other_as_it_was(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("index", family.main).code == 0
    before = digest(family.main)
    for at in range(8):
        process = subprocess.Popen(
            [sys.executable, "-m", "codeinfo", "index", family.second], stdout=subprocess.DEVNULL
        )
        time.sleep(0.15 + 0.1 * at)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert first_path(family.main, STEADY) == "steady.py"
        assert digest(family.main) == before
    assert cli("index", family.second).code == 0
    assert digest(family.second) == fresh_digest(family.second, monkeypatch, tmp_path)


def test_damage_is_announced_in_every_tree(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    digests = [digest(root) for root in (family.main, family.second)]
    database = live_build(family.main) / "index.db"
    database.write_bytes(database.read_bytes()[:20_000])
    for root in (family.main, family.second):
        found = cli("search", STEADY, root, "--json")
        assert found.json["hits"][0]["path"] == "steady.py"
        assert any("set aside" in note for note in found.json["notes"]), found.json["notes"]
        assert not any("set aside" in note for note in cli("search", STEADY, root, "--json").json["notes"])
    assert [digest(root) for root in (family.main, family.second)] == digests


def test_clearing_a_tree_leaves_its_siblings(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    kept, folder = digest(family.main), index_folder(family.main).path
    before = bytes_under(folder)
    assert cli("clear", family.second, "--yes").code == 0
    assert bytes_under(folder) < before
    assert digest(family.main) == kept
    assert cli("status", family.second, "--json").json["indexes"][0]["state"] == "missing"
    assert cli("clear", family.main, "--yes").code == 0
    assert not folder.exists()


def test_a_tree_whose_folder_is_gone_is_collected_by_a_sibling(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    family.git("worktree", "remove", "--force", str(family.second))
    (family.main / "late.py").write_text("def late_comer():\n    return 1\n")
    assert cli("index", family.main).code == 0
    assert [tree.root for tree in index_folder(family.main).trees()] == [family.main]
    projects = cli("projects", "--json").json["projects"]
    assert [project["root"] for project in projects] == [str(family.main)]


def test_the_index_of_a_folder_that_is_gone_can_be_deleted(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    kept, folder = digest(family.main), index_folder(family.main).path
    family.git("worktree", "remove", "--force", str(family.second))
    assert cli("clear", family.second, "--yes").code == 0
    assert [tree.root for tree in index_folder(family.main).trees()] == [family.main]
    assert cli("clear", family.second, "--yes").code == 2
    assert digest(family.main) == kept
    shutil.rmtree(family.main)
    assert cli("clear", family.main, "--yes").code == 0
    assert not folder.exists()


def test_a_rebuild_in_one_tree_is_followed_by_the_others(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    old, digests = live_build(family.main), [digest(root) for root in (family.main, family.second)]
    assert cli("index", family.main, "--full").code == 0
    assert live_build(family.main) != old
    assert live_build(family.second) == old  # which can be searched until then
    assert first_path(family.second, "added_on_the_branch") == "added.py"
    assert live_build(family.second) == live_build(family.main)
    assert not old.exists()
    assert [digest(root) for root in (family.main, family.second)] == digests


def test_trees_with_other_settings_are_built_apart(family: Family) -> None:
    (family.second / ".codeinfo.toml").write_text("[index]\nchunk_chars = 300\n")
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    builds = {live_build(root) for root in (family.main, family.second)}
    assert len(builds) == 2
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    assert {live_build(root) for root in (family.main, family.second)} == builds


def test_what_an_ignore_file_brings_back_stays_in_its_tree(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in (family.main, family.second):
        (root / "made.py").write_text("# Generated by a tool. Do not edit.\ndef made_by_a_tool():\n    return 1\n")
    (family.second / ".codeinfoignore").write_text("!made.py\n")
    for order in ((family.main, family.second), (family.second, family.main)):
        for root in order:
            assert cli("index", root).code == 0
        assert not is_defined("made_by_a_tool", family.main)
        assert is_defined("made_by_a_tool", family.second)
        for root in order:
            assert digest(root) == fresh_digest(root, monkeypatch, tmp_path)
            assert cli("clear", root, "--yes").code == 0


def test_a_folder_that_only_claims_to_be_a_work_tree_is_none(family: Family, tmp_path: Path) -> None:
    liar = tmp_path / "liar"
    liar.mkdir()
    shutil.copy(family.second / ".git", liar)
    assert family_of(family.second) == family_of(family.main) == family.main
    assert family_of(liar) == liar
    (liar / ".git").write_bytes(b"gitdir: " + b"x" * 5000)
    assert family_of(liar) == liar
    assert family_of(tmp_path) == tmp_path


def test_a_folder_cannot_put_its_texts_into_the_index_of_a_repository(family: Family, tmp_path: Path) -> None:
    """It has all that git keeps of a work tree, in its own folder, and an index that names a blob of the repository."""
    for number in range(120):  # with fewer files each is read
        (family.main / f"part_{number}.py").write_text(f"def part_{number}():\n    return {number}\n")
    (family.main / "pay.py").write_text("def pay():\n    return check()\n")
    os.utime(family.main / "pay.py", (1, 1))
    family.git("-C", str(family.main), "add", "--all")
    family.git("-C", str(family.main), "commit", "--quiet", "-m", "pay")
    liar, kept = tmp_path / "liar", tmp_path / "liar" / "kept"
    kept.mkdir(parents=True)
    shutil.copy(family.main / ".git" / "HEAD", kept)
    (kept / "commondir").write_text(f"{family.main / '.git'}\n")
    (kept / "gitdir").write_text(f"{liar / '.git'}\n")
    (liar / ".git").write_text("gitdir: kept\n")
    for text in ("check", "steal"):  # of one size, and as old as what git has recorded
        (liar / "pay.py").write_text(f"def pay():\n    return {text}()\n")
        os.utime(liar / "pay.py", (1, 1))
        if text == "check":
            family.git("-C", str(liar), "add", "pay.py")
    assert family_of(liar) == liar
    assert [cli("index", root).code for root in (liar, family.main)] == [0, 0]
    assert "check()" in cli("search", "pay", family.main).out


def test_work_trees_of_a_bare_repository_are_a_family(family: Family, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    family.git("clone", "--quiet", "--bare", str(family.main), str(bare))
    roots = [tmp_path / name for name in ("one", "two")]
    for root, branch in zip(roots, ("main", "other"), strict=True):
        family.git("-C", str(bare), "worktree", "add", "--quiet", str(root), branch)
    assert {family_of(root) for root in roots} == {bare}


def test_status_says_what_is_shared(family: Family) -> None:
    assert [cli("index", root).code for root in (family.main, family.second)] == [0, 0]
    report = cli("status", family.main, "--json").json["indexes"][0]
    assert report["shared_with"] == [str(family.second)]
    assert 0 < report["shared_chunks"] < report["chunks"]
    assert report["kept_chunks"] == 0
    assert f"with {family.second}" in cli("status", family.main).out
    family.git("checkout", "--quiet", "--detach", "other")
    assert cli("index", family.main).code == 0
    report = cli("status", family.main, "--json").json["indexes"][0]
    assert report["shared_chunks"] == report["chunks"]
    assert report["kept_chunks"] > 0
    assert "of other checkouts" in cli("status", family.main).out
