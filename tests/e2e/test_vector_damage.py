"""Damage in vector files and stored symbols: noticed, announced and healed, never a result that is silently empty."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import apsw
import pytest
from durability_tools import STEADY, cli, digest, index_folder, index_manager, live_build, make_project

from codeinfo.models.retrieval import ScriptedEmbedder

NUMBER = 4  # bytes of a float32: after its numbers, a stored vector has such a scale


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    project = make_project(tmp_path / "project")
    assert cli("index", project).code == 0
    return project


def vector_file(project: Path) -> Path:
    (path,) = live_build(project).glob("vectors-*")
    return path


def first_scale() -> int:
    return ScriptedEmbedder().dimension


def put_number(path: Path, position: int, number: float) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(struct.pack("<f", number))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_number_that_no_vector_has_is_announced_and_healed(indexed: Path, number: float, place: str) -> None:
    clean, expected = digest(indexed), cli("search", STEADY, indexed, "--json").json["hits"]
    damaged = vector_file(indexed)
    put_number(damaged, first_scale() if place == "first" else damaged.stat().st_size - NUMBER, number)
    found = cli("search", STEADY, indexed, "--json")
    assert found.code == 0, found.err
    assert [hit["path"] for hit in found.json["hits"]] == [hit["path"] for hit in expected]
    (note,) = [note for note in found.json["notes"] if "set aside" in note]
    assert "not a unit vector" in note
    assert digest(indexed) == clean
    assert len(list(index_folder(indexed).path.glob("damaged-*"))) == 1


def test_a_vector_that_is_far_too_long_is_healed(indexed: Path) -> None:
    damaged = vector_file(indexed)
    for position in range(0, damaged.stat().st_size, NUMBER):
        put_number(damaged, position, 1e30)
    found = cli("search", "steady", indexed, "--json")
    assert (found.code, found.json["hits"][0]["path"]) == (0, "steady.py")
    assert any("set aside" in note for note in found.json["notes"])


def test_similar_heals_too(indexed: Path) -> None:
    put_number(vector_file(indexed), first_scale(), math.nan)
    found = cli("similar", "module0003.py:4", "--path", indexed, "--json")
    assert found.code == 0, found.err
    assert found.json["hits"]
    assert any("set aside" in note for note in found.json["notes"])


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_index_notices_a_vector_file_that_is_not_whole(indexed: Path, damage: str) -> None:
    clean, damaged = digest(indexed), vector_file(indexed)
    if damage == "missing":
        damaged.unlink()
    else:
        with open(damaged, "r+b") as file:
            file.truncate(damaged.stat().st_size - NUMBER)
    done = cli("index", indexed, "--json")
    assert done.code == 0, done.err
    assert any("set aside" in note for note in done.json["reports"][0]["notes"])
    assert digest(indexed) == clean


def test_a_merge_does_not_give_damage_a_checksum(indexed: Path) -> None:
    """Segments pile up until they are merged; the merged file must not make damaged numbers valid."""
    put_number(vector_file(indexed), 0, 0.25)  # within what a vector may hold: only the checksum can tell
    announced: list[str] = []
    for at in range(12):
        (indexed / f"new{at}.py").write_text(f"def newcomer_{at}():\n    return {at}\n")
        done = cli("index", indexed, "--json")
        announced += done.json["reports"][0]["notes"]
    assert any("fails its checksum" in note for note in announced)
    assert cli("doctor", indexed).code == 0


def test_vectors_of_a_renamed_file_are_reused_only_when_they_are_sound(indexed: Path) -> None:
    put_number(vector_file(indexed), first_scale(), math.nan)
    (indexed / "module0000.py").rename(indexed / "renamed.py")
    upkeep = index_manager(indexed, ScriptedEmbedder())
    fresh = upkeep.refresh()
    upkeep.close()
    assert any("set aside" in note for note in fresh.announcements)
    assert cli("doctor", indexed).code == 0


@pytest.mark.parametrize("change", ["start_line = start_line + 7", "name = 'steady_landmarc'", "name_key = 'x'"])
@pytest.mark.parametrize("command", ["defs", "symbols"])
def test_definitions_are_checked_before_they_are_shown(indexed: Path, change: str, command: str) -> None:
    arguments = ("defs", STEADY, indexed) if command == "defs" else ("symbols", indexed / "steady.py")
    expected = cli(*arguments, "--json").json
    database = apsw.Connection(str(live_build(indexed) / "index.db"))
    database.execute(f"UPDATE definitions SET {change} WHERE name = ?", (STEADY,))
    database.close()
    found = cli(*arguments, "--json")
    assert (found.code, found.out) == (5, "")
    assert "fail their checksum" in found.err
    assert "codeinfo index" in found.err
    assert any("set aside" in note for note in cli("index", indexed, "--json").json["reports"][0]["notes"])
    assert cli(*arguments, "--json").json == expected


def test_references_that_cannot_be_unpacked_are_damage(indexed: Path) -> None:
    arguments = ("search", STEADY, indexed, "--json")
    expected = cli(*arguments).json["hits"]
    database = apsw.Connection(str(live_build(indexed) / "index.db"))
    for file_id, data in list(database.execute("SELECT file_id, data FROM uses")):
        database.execute("UPDATE uses SET data = ? WHERE file_id = ?", (data[:4] + b"\xff\xff" + data[6:], file_id))
    database.close()
    found = cli("refs", STEADY, indexed, "--json")
    assert (found.code, found.out) == (5, "")
    assert "fail their checksum" in found.err
    assert any("set aside" in note for note in cli("index", indexed, "--json").json["reports"][0]["notes"])
    assert cli(*arguments).json["hits"] == expected


def test_damage_in_one_collection_does_not_condemn_the_others(indexed: Path, tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "page.md").write_text(f"# The {name} harbour\n\nShips of the {name} harbour lie at anchor.\n")
        assert cli("docs", "add", folder).code == 0
    (damaged, *_) = sorted((tmp_path / "cache" / "documents").glob("indexes/first-*/v*/vectors-*"))
    put_number(damaged, first_scale(), math.nan)
    found = cli("docs", "search", "harbour", "--json")
    assert found.code == 0, found.err
    assert len(found.json["searches"][0]["results"]) == 3
    assert any("set aside" in note for note in found.json["notes"])
    aside = [path.parent.name for path in (tmp_path / "cache" / "documents" / "indexes").glob("*/damaged-*")]
    assert [name.partition("-")[0] for name in aside] == ["first"]
