"""A view of an index: what it computes itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codeinfo.model import Chunk, FileKind, IndexedFile, ParsedFile, SourceFile
from codeinfo.ports import Snapshot
from codeinfo.store import snapshot
from codeinfo.store.sqlite import SqliteStore


def stored(folder: Path, vectors: np.ndarray) -> SqliteStore:
    store = SqliteStore(folder, "main", recipe="test")
    chunks = tuple(Chunk(at + 1, at + 1, f"line {at}", "text") for at in range(len(vectors)))
    parsed = ParsedFile(chunks, terms=tuple({"line": 1.0} for _ in chunks))
    store.apply([IndexedFile(SourceFile("a.txt", 1, 1), "hash", "text", FileKind.DOCS, parsed, vectors)], (), ())
    return store


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_two_threads_find_what_one_does(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(rows)
    vectors, query = chance.normal(size=(rows, 8)).astype(np.float32), chance.normal(size=8).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    monkeypatch.setattr(snapshot, "_MANY_ROWS", 2)
    with stored(tmp_path / "index", vectors).snapshot() as view:
        found = view.cosines(query)
    assert found is not None
    assert found.tolist() == pytest.approx((vectors @ query).tolist(), rel=1e-5)


def test_what_is_derived_is_made_once_a_generation(tmp_path: Path) -> None:
    store, made = stored(tmp_path / "index", np.eye(2, dtype=np.float32)), list[int]()

    def count(view: Snapshot, call: int) -> int:
        made.append(call)
        return len(view.row_file)

    for _ in range(2):
        with store.snapshot() as view:
            assert view.derived("rows", lambda: count(view, 1)) == 2
    store.apply((), ("a.txt",), ())
    with store.snapshot() as view:
        assert view.derived("rows", lambda: count(view, 2)) == 0
    assert made == [1, 2]


def test_a_broken_pipe_is_not_the_disks_fault(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), stored(tmp_path / "index", np.eye(2, dtype=np.float32)).snapshot():
        raise BrokenPipeError("the reader is gone")
