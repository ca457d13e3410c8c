"""The history channel: commits are read from real repositories, indexed, added to, and found again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from repository_tools import Repository

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.search.channels import Commit, CommitIndex, index_commits, past_changes, score_changes
from codeinfo.sources import git
from codeinfo.store.layout import COMMITS_FILE
from codeinfo.store.segments import load_commits, save_commits


def commit(root: Path, message: str, **files: str) -> None:
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, "add", "-A"], cwd=root, check=True)
    subprocess.run(["git", *identity, "commit", "-qm", message], cwd=root, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    commit(root, "Start", alpha="def one(): ...\n", beta="def two(): ...\n", gamma="def three(): ...\n")
    commit(root, "Limit the hovercraft speed\n\nEels were faster.", beta="def two(): return 1\n")
    return root


def engine(tmp_path: Path) -> Engine:
    return Engine(Config.load({"paths.cache_dir": str(tmp_path / "cache")}, tmp_path))


def test_words_that_only_a_commit_said_find_the_file_it_changed(tmp_path: Path, repository: Path) -> None:
    with engine(tmp_path) as one:
        result = one.search(SearchRequest("two hovercraft eels", (str(repository),), explain=True))
    assert result.hits[0].path == "beta.py"
    assert "history" in {signal.name for signal in result.hits[0].signals}


def test_new_commits_are_added_and_a_rebase_starts_over(tmp_path: Path, repository: Path) -> None:
    with engine(tmp_path) as one:
        one.index(IndexRequest((str(repository),)))
        first = one.indexes.of(repository).commits()
        assert first is not None
        assert len(first.lengths) == 2
        commit(repository, "Teach the walrus", gamma="def three(): return 3\n")
        one.index(IndexRequest((str(repository),)))
        second = one.indexes.of(repository).commits()
        assert second is not None
        assert len(second.lengths) == 3
        assert "walrus" in second.vocabulary
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        amend = ["git", *identity, "commit", "-q", "--amend", "-m", "Teach the seal"]
        subprocess.run(amend, cwd=repository, check=True)
        (repository / "delta.py").write_text("def four(): ...\n")
        one.index(IndexRequest((str(repository),)))
        third = one.indexes.of(repository).commits()
        assert third is not None
        assert "walrus" not in third.vocabulary
        assert "seal" in third.vocabulary


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    fix = Commit("ab" * 20, "Fix the pool\n\nIt leaked.", ("a.py", "päth/b.py"))
    index = index_commits("abc", ["cd" * 20, fix.id], [Commit("cd" * 20, "Empty", ()), fix])
    save_commits(tmp_path, index)
    loaded = load_commits(tmp_path)
    assert loaded is not None
    assert loaded.head == "abc"
    assert loaded.ids == index.ids
    assert loaded.indexed.tolist() == [False, True]
    assert loaded.vocabulary == index.vocabulary
    assert list(loaded.paths) == ["a.py", "päth/b.py"]
    assert load_commits(tmp_path / "nowhere") is None
    whole = (tmp_path / COMMITS_FILE).read_bytes()
    for at in range(0, len(whole), 3):
        (tmp_path / COMMITS_FILE).write_bytes(whole[:at])
        assert load_commits(tmp_path) is None
        (tmp_path / COMMITS_FILE).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        again = load_commits(tmp_path)
        assert again is None or repr(again) == repr(loaded)


@pytest.mark.parametrize("left", [0, 100])
def test_damaged_commits_are_read_from_git_again(tmp_path: Path, repository: Path, left: int) -> None:
    with engine(tmp_path) as one:
        one.index(IndexRequest((str(repository),)))
        before = one.indexes.of(repository).commits()
    (file,) = tmp_path.rglob(COMMITS_FILE)
    os.truncate(file, left)
    with engine(tmp_path) as one:
        assert repr(one.indexes.of(repository).commits()) == repr(before)
    assert file.stat().st_size > left


def test_a_search_says_that_it_does_without_damaged_commits(tmp_path: Path, repository: Path) -> None:
    asked = SearchRequest("two hovercraft eels", (str(repository),), refresh=False)
    with engine(tmp_path) as one:
        one.index(IndexRequest((str(repository),)))
        assert one.search(asked).notes == ()
    (file,) = tmp_path.rglob(COMMITS_FILE)
    os.truncate(file, 100)
    shutil.rmtree(repository / ".git" / "objects")
    (repository / ".git" / "objects").mkdir()
    with engine(tmp_path) as one:
        (note,) = one.search(asked).notes
    assert note.startswith("the index of commits is damaged, so search does without them: git could not read")


def test_scores_by_hand() -> None:
    few = Commit("1", "pool", ("a.py",))
    many = Commit("2", "pool", ("a.py", "b.py", "c.py", "d.py"))
    sweep = Commit("3", "pool", tuple(f"{n}.py" for n in range(16)))
    index = index_commits("x", "1234", [few, many, sweep, Commit("4", "other words", ("e.py",))])
    assert len(index.lengths) == 3, "a sweep says nothing about each of its files"
    files = np.array([["a.py", "b.py", "c.py", "d.py", "e.py"].index(path) for path in index.paths])
    past = past_changes(index, files)
    scores = np.bincount(past.files, score_changes(index, {"pool": 1.0}, past), 5)
    assert scores[0] == pytest.approx(3 * scores[1]), "1 from its own commit and 1/√4 from the other"
    assert scores[4] == 0
    assert not score_changes(index, {"unknown": 1.0}, past).any()


def test_an_index_made_from_that_of_another_branch_is_as_one_read_from_the_start() -> None:
    old = [Commit(f"{n}", f"pool number{n} shared", (f"{n}.py", "all.py")) for n in range(6)]
    sweep, new = Commit("s", "sweep", ()), [Commit("n", "pool fresh", ("all.py", "n.py")), Commit("m", "m", ("m.py",))]
    before = index_commits("a", ["s", *(commit.id for commit in old)], [sweep, *old])
    ids = ["n", "s", "4", "m", "1", "0"]
    later = index_commits("b", ids, new, before)
    alone = index_commits("b", ids, [new[0], sweep, old[4], new[1], old[1], old[0]])
    assert readable(later) == readable(alone)
    assert "number5" not in later.vocabulary
    assert "5.py" not in later.paths


def readable(index: CommitIndex) -> tuple[object, ...]:
    terms = {
        term: list(zip(index.commits[one:end].tolist(), index.uses[one:end].tolist(), strict=True))
        for term, at in index.vocabulary.items()
        for one, end in [(index.starts[at], index.starts[at + 1])]
    }
    paths = [index.paths[at] for at in index.path_ids]
    changes = list(zip(index.changed.tolist(), paths, index.shares.tolist(), strict=True))
    return index.head, list(index.ids), index.indexed.tolist(), terms, index.lengths.tolist(), sorted(changes)


@pytest.mark.parametrize("shape", ["--name-only", "--name-status"])
def test_a_log_is_read_whatever_its_messages_and_names_are(tmp_path: Path, shape: str) -> None:
    odd = Repository(tmp_path / "odd")
    names = ["\n", "\nnew line.py", "\x02start.py", "\x1fsign.py", "a\x1f\x02b.py", "plain.py"]
    first = odd.commit("Say \x1f and \x02\n\n\x1f", dict.fromkeys(names, "x = 1\n"))
    empty = odd.commit("Nothing", {})
    last = odd.commit("\x1f", {"\x1fsign.py": "x = 2\n"})
    form = git.log_format("%H", "%s", "%b")
    commits = list(git.read_log(os.fsdecode(git.run(odd.folder, ("log", "-z", shape, "--no-renames", form))), 3))
    listed = [sorted(name for name in changed if name not in ("A", "M")) for _, changed in commits]
    assert listed == [["\x1fsign.py"], [], sorted(names)]
    assert [values[0] for values, _ in commits] == [last, empty, first]
    assert commits[2][0][1:] == ["Say \x1f and \x02", "\x1f\n"]
