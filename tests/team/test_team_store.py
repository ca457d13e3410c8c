"""The team store beyond its contract: other servers, crashes, lost caches, damage, a database set back in time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from postgres_tools import alone, indexed, team_database, team_store
from store_digest import digest_of

from codeinfo.errors import Busy
from codeinfo.model import FileKind, IndexedFile, SourceFile
from codeinfo.ports import Retention
from codeinfo.store.sqlite import SqliteStore
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import FileDamaged, TeamStore, decode_file, encode_file, open_tree


@pytest.fixture
def database() -> Iterator[TeamDatabase]:
    with team_database() as opened:
        yield opened


FILES = [indexed(f"src/{at}.py", f"apple number {at}") for at in range(6)]


def count(database: TeamDatabase, table: str) -> int:
    query = f"SELECT count(*) FROM {table}".encode()
    return int(database.read(lambda db: db.execute(query).fetchall()[0][0]))


@pytest.mark.parametrize("vectors", [True, False])
def test_a_file_comes_back_as_it_was_stored(vectors: bool) -> None:
    file = indexed("a/ü.py", "naïve \0 text 𝄞", vectors=vectors, brought_back=True)
    again = decode_file(encode_file(file))
    if vectors:
        assert again.vectors.tobytes() == file.vectors.tobytes()
    assert (again.source, again.sha256, again.parsed, again.references, again.path_terms) == (
        file.source,
        file.sha256,
        file.parsed,
        file.references,
        file.path_terms,
    )
    assert (again.kind, again.brought_back, again.skip) == (FileKind.CODE, True, "")


def test_another_server_sees_what_was_written_and_only_fetches_what_changed(
    database: TeamDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = team_store(database, tmp_path / "one"), team_store(database, tmp_path / "two")
    assert not reader.pull()  # there is nothing yet
    writer.apply(FILES, (), ())
    writer.finish({"model_id": "m"})
    assert reader.pull()
    assert not reader.pull()
    assert digest_of(reader) == digest_of(writer) == alone(tmp_path / "alone", FILES)
    assert reader.meta()["model_id"] == "m"
    assert reader.meta()["complete"] == "1"

    fetched: list[int] = []
    fetch = TeamStore._fetch

    def counted(self: TeamStore, ids: Sequence[int]) -> dict[int, IndexedFile]:
        fetched.extend(ids)
        return fetch(self, ids)

    monkeypatch.setattr(TeamStore, "_fetch", counted)
    changed = indexed("src/0.py", "plum")
    writer.apply([changed], ("src/5.py",), (SourceFile("src/1.py", 7, 99),))
    writer.finish({})
    assert reader.pull()
    assert len(fetched) == 1
    assert reader.manifest()["src/1.py"].mtime_ns == 99
    assert digest_of(reader) == digest_of(writer)
    assert set(reader.manifest()) == {f"src/{at}.py" for at in range(5)}


def test_a_crash_after_the_commit_is_healed_by_a_pull(
    database: TeamDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = team_store(database, tmp_path / "one")
    store.apply(FILES[:3], (), ())
    store.finish({})
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "apply", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.apply(FILES[3:], ("src/0.py",), ())
    again = team_store(database, tmp_path / "one")
    with pytest.raises(Busy):  # it does not build on what it does not have
        again.apply(FILES[:1], (), ())
    assert again.pull()
    assert digest_of(again) == alone(tmp_path / "alone", FILES[1:])
    again.apply(FILES[:1], (), ())
    assert digest_of(again) == alone(tmp_path / "whole", FILES)


def test_a_pull_that_was_cut_short_goes_on(
    database: TeamDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.team.store._PULL_CHUNKS", 2)
    writer = team_store(database, tmp_path / "one")
    writer.apply(FILES, (), ())
    writer.finish({})
    fetched, fetch = list[int](), TeamStore._fetch

    def failing(self: TeamStore, ids: Sequence[int]) -> dict[int, IndexedFile]:
        if len(fetched) == 4:
            raise KeyboardInterrupt
        fetched.extend(ids)
        return fetch(self, ids)

    with monkeypatch.context() as patch:
        patch.setattr(TeamStore, "_fetch", failing)
        with pytest.raises(KeyboardInterrupt):
            team_store(database, tmp_path / "two").pull()
    reader = team_store(database, tmp_path / "two")
    assert len(reader.manifest()) == 4
    assert "complete" not in reader.meta()
    assert reader.pull()
    assert digest_of(reader) == digest_of(writer)


def test_a_lost_cache_is_refilled(database: TeamDatabase, tmp_path: Path) -> None:
    store = team_store(database, tmp_path / "one")
    store.apply(FILES, (), ())
    store.finish({"model_id": "m"})
    digest = digest_of(store)
    store.close()
    shutil.rmtree(tmp_path / "one")
    again = team_store(database, tmp_path / "one")
    assert again.manifest() == {}
    assert again.pull()
    assert digest_of(again) == digest
    assert again.meta()["complete"] == "1"


def test_what_the_team_has_is_reused_although_this_machine_has_not(database: TeamDatabase, tmp_path: Path) -> None:
    theirs = team_store(database, tmp_path / "one", "theirs")
    theirs.apply([*FILES, indexed("odd.py", "odd", brought_back=True)], (), ())
    theirs.finish({})
    ours = team_store(database, tmp_path / "two", "ours")
    known = ours.find_stored([file.source.path for file in FILES])
    assert known.keys() == {(file.source.path, file.sha256) for file in FILES}
    placed = [(file.source, known[file.source.path, file.sha256][0].file_id) for file in FILES]
    ours.apply([indexed("new.py", "new")], (), (), placed)
    ours.finish({})
    assert digest_of(ours) == alone(tmp_path / "alone", [*FILES, indexed("new.py", "new")])
    assert ours.find_stored(["src/0.py"]) == {}
    assert count(database, "files") == len(FILES) + 2
    vectors = ours.vectors_by_hash("hash of odd")
    assert vectors is not None
    assert vectors.tobytes() == indexed("odd.py", "odd").vectors.tobytes()
    assert ours.vectors_by_hash("hash of nothing") is None


def test_a_tree_of_another_project_shares_nothing_unless_it_is_a_fork(database: TeamDatabase, tmp_path: Path) -> None:
    store = team_store(database, tmp_path / "one")
    store.apply(FILES, (), ())
    other = team_store(database, tmp_path / "two", project="example.org/c/d")
    assert other.find_stored([file.source.path for file in FILES]) == {}
    assert other.vectors_by_hash(FILES[0].sha256) is None


def test_a_damaged_file_is_named_and_stored_again(database: TeamDatabase, tmp_path: Path) -> None:
    store = team_store(database, tmp_path / "one")
    store.apply(FILES, (), ())
    store.finish({})
    with database.transaction() as db:
        db.execute(
            """UPDATE files SET payload = set_byte(payload, 40, (get_byte(payload, 40) + 1) %% 256)
               WHERE path = %s""",
            ("src/3.py",),
        )
    reader = team_store(database, tmp_path / "two")
    for _ in range(2):
        with pytest.raises(FileDamaged, match=r"src/3\.py"):
            reader.pull()
    assert "complete" not in reader.meta()
    assert store.find_stored(["src/3.py"]) == {}
    store.apply([FILES[3]], (), ())
    store.finish({})
    assert reader.pull()
    assert digest_of(reader) == digest_of(store) == alone(tmp_path / "alone", FILES)


def test_a_database_that_went_back_in_time_is_compared_as_a_whole(database: TeamDatabase, tmp_path: Path) -> None:
    """As after a failover to a standby that lacked the last commits: the same number, another generation."""
    store, reader = team_store(database, tmp_path / "one"), team_store(database, tmp_path / "two")
    store.apply(FILES[:3], (), ())
    store.finish({})
    store.apply([indexed("lost.py", "lost")], (), ())
    reader.pull()
    assert "lost.py" in reader.manifest()
    with database.transaction() as db:
        db.execute("DELETE FROM entries WHERE path = 'lost.py'")
        db.execute("DELETE FROM generations WHERE generation = 3")
        db.execute("UPDATE trees SET generation = 2")
    third = team_store(database, tmp_path / "three")
    third.pull()
    third.apply([FILES[3]], ("src/0.py",), ())
    assert reader.pull()
    assert digest_of(reader) == digest_of(third) == alone(tmp_path / "alone", FILES[1:4])


def test_a_tree_that_the_team_dropped_is_stored_again(database: TeamDatabase, tmp_path: Path) -> None:
    store = team_store(database, tmp_path / "one")
    store.apply(FILES, (), ())
    store.finish({})
    with database.transaction() as db:
        db.execute("DELETE FROM trees")
    assert store.pull()
    assert store.manifest() == {}
    assert "complete" not in store.meta()
    store.apply(FILES, (), ())
    store.finish({})
    reader = team_store(database, tmp_path / "two")
    reader.pull()
    assert digest_of(reader) == digest_of(store)


def test_a_server_that_is_far_behind_forgets_what_was_removed(
    database: TeamDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.team.store._GENERATIONS_KEPT", 2)
    store, reader = team_store(database, tmp_path / "one"), team_store(database, tmp_path / "two")
    store.apply(FILES, (), ())
    store.finish({})
    reader.pull()
    store.apply([], ("src/0.py",), ())
    for at in range(3):
        store.apply([indexed("a.py", f"version {at}")], (), ())
        store.finish({}, Retention(1, 1))
    assert count(database, "entries WHERE file IS NULL") == 0
    reader.pull()
    assert digest_of(reader) == digest_of(store)


def test_a_tree_is_opened_by_name_branch_tag_and_commit(database: TeamDatabase, tmp_path: Path) -> None:
    store = team_store(database, tmp_path / "one")
    store.apply(FILES, (), ())
    assert open_tree(database, None, "example.org/a/b", "") is None  # not complete
    store.finish({"revision": "0123456789abcdef"})
    assert open_tree(database, None, "example.org/a/b", "0123456") is None  # somebody's folder is no commit
    with database.transaction() as db:
        db.execute("UPDATE trees SET name = 'refs/heads/main'")
    for ref in ("", "main", "refs/heads/main", "0123456"):
        tree = open_tree(database, None, "example.org/a/b/src/0.py", ref)
        assert tree is not None
        assert (tree.name, tree.complete) == ("refs/heads/main", True)
    for ref in ("other", "0123", "mai"):
        assert open_tree(database, None, "example.org/a/b", ref) is None
    assert open_tree(database, 0, "example.org/a/b", "main") is None  # a request without a user
    assert open_tree(database, None, "example.org/x/y", "main") is None
