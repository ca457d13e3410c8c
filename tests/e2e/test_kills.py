"""Tidying up, exports and imports killed (-9) at their write calls: nothing is lost, no half file looks whole."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from durability_tools import cli, make_project
from postgres_tools import indexed
from store_digest import digest_of
from write_calls import count_write_calls, kill_after

from codeinfo.errors import UsageError
from codeinfo.knowledge.memory import parse_memories, read_memories
from codeinfo.ports import NOTHING_KEPT
from codeinfo.store.sqlite import SqliteStore

POINTS = int(os.environ.get("CODEINFO_TEST_KILLS", "8"))  # of each kind


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CODEINFO_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    return make_project(tmp_path / "project")


def kill_points(action: Callable[[], object], prepare: Callable[[], object]) -> Iterator[str]:
    """Kill an action at chosen write calls, evenly spread, and at random moments; says after each kill which it was."""
    prepare()
    count = count_write_calls(action)
    assert count
    chance = random.Random(7)
    for call in sorted(chance.sample(range(count), min(count, POINTS))):
        prepare()
        assert count_write_calls(action, call) is None
        yield f"call {call} of {count}"
    for _ in range(POINTS):
        prepare()
        seconds = chance.random() * 0.1
        if kill_after(action, seconds):
            yield f"after {seconds:.3f} s"


def test_tidying_up_and_compacting(tmp_path: Path) -> None:
    """Segments are merged, deleted rows and vector files removed, and the database is written anew."""
    build, saved = tmp_path / "build", tmp_path / "saved"
    store = SqliteStore(build, "main", recipe="test")
    for batch in range(60):
        files = [indexed(f"{at}.py", f"text {batch} {at}") for at in range(batch % 20, batch % 20 + 10)]
        store.apply(files, [f"{(batch + 11) % 30}.py"], ())
    whole = digest_of(store)
    store.close()
    shutil.copytree(build, saved)

    def prepare() -> None:
        shutil.rmtree(build)
        shutil.copytree(saved, build)

    def tidy() -> None:
        store = SqliteStore(build, "main")
        store.tidy(NOTHING_KEPT, None)
        store.compact()
        store.close()

    def check(point: str) -> None:
        store = SqliteStore(build, "main")
        store.verify()
        assert digest_of(store) == whole, point
        store.close()

    for point in kill_points(tidy, prepare):
        check(point)
        tidy()
        check(point)
        with closing(apsw.Connection(str(build / "index.db"))) as db:
            listed = {name for (name,) in db.execute("SELECT vector_file FROM segments")}
        assert {path.name for path in build.glob("vectors-*")} == listed, point


def memories(first: int, count: int) -> str:
    rows = [
        {"id": f"{at:012x}", "type": "decision", "category": "conventions", "memory": f"Use tool {at} for everything",
         "reason": "it was measured " * 20, "date": "2026-01-01T00:00:00Z"}
        for at in range(first, first + count)
    ]  # fmt: skip
    return json.dumps({"format": 1, "memories": rows})


def test_importing_memories(project: Path, tmp_path: Path) -> None:
    folder, before, given = project / ".codeinfo", memories(0, 20), tmp_path / "given.json"
    given.write_text(memories(10, 300))

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "memory.json").write_text(before)

    def add() -> None:
        assert cli("memory", "import", given, "--path", project).code == 0

    for point in kill_points(add, prepare):
        assert len(read_memories(project)) in (20, 310), point
        add()
        assert len(read_memories(project)) == 310, point
        assert os.listdir(folder) == ["memory.json"], point


def test_no_part_of_exported_memories_is_imported(project: Path, tmp_path: Path) -> None:
    (project / ".codeinfo").mkdir()
    (project / ".codeinfo" / "memory.json").write_text(memories(0, 5))
    whole = cli("memory", "export", "--path", project).out.rstrip("\n")
    assert len(parse_memories(whole, "export")) == 5
    for length in range(len(whole)):
        with pytest.raises(UsageError):
            parse_memories(whole[:length], "export")


def test_packing_documents(project: Path, tmp_path: Path) -> None:
    folder, package = tmp_path / "pages", tmp_path / "out" / "pages.tar.gz"
    folder.mkdir()
    package.parent.mkdir()
    for at in range(40):
        (folder / f"{at}.md").write_text(f"# Page {at}\n\n" + random.Random(at).randbytes(2000).hex())

    def pack(version: str = "2") -> None:
        assert cli("docs", "pack", folder, "--name", "pages", "--version", version, "--out", package).code == 0

    pack()
    new = package.read_bytes()
    pack("1")
    old = package.read_bytes()
    for point in kill_points(pack, lambda: package.write_bytes(old)):
        assert package.read_bytes() in (old, new), point
    pack()
    assert os.listdir(package.parent) == [package.name], "what the killed ones left is gone"
    package.write_bytes(new[: len(new) // 2])  # as a copy that was cut
    assert cli("docs", "add", package, "--path", project).code == 2
