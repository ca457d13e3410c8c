"""A view of an index: what it computes itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from codeinfo.model import Chunk, FileKind, IndexedFile, ParsedFile, SourceFile
from codeinfo.ports import Posting, PostingList, Snapshot
from codeinfo.store import database, segments, snapshot
from codeinfo.store.database import Damage
from codeinfo.store.segments import (
    CROWD,
    SegmentBuilder,
    decode_lists,
    decode_posting,
    encode_lists,
    merge_postings,
    move_posting,
)
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import NAME_MARK, STEM_MARK


def stored(folder: Path, vectors: np.ndarray) -> SqliteStore:
    store = SqliteStore(folder, "main", recipe="test")
    store.apply([text_file("a.txt", vectors)], (), ())
    return store


def text_file(name: str, vectors: np.ndarray) -> IndexedFile:
    chunks = tuple(Chunk(at + 1, at + 1, f"line {at}", "text") for at in range(len(vectors)))
    parsed = ParsedFile(chunks, terms=tuple({"line": 1.0} for _ in chunks))
    return IndexedFile(SourceFile(name, 1, 1), name, "text", FileKind.DOCS, parsed, vectors)


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_cosines_are_those_of_the_stored_vectors(rows: int, tmp_path: Path) -> None:
    chance = np.random.default_rng(rows)
    vectors, query = chance.normal(size=(rows, 8)).astype(np.float32), chance.normal(size=8).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = segments.dequantize(segments.quantize(vectors))  # as they are stored
    with stored(tmp_path / "index", vectors).snapshot() as view:
        found = view.cosines(query)
    assert found is not None
    assert found.tolist() == pytest.approx((vectors @ query).tolist(), rel=1e-5)


@pytest.mark.parametrize("numbers", [1, 8, 256, 1536])
def test_quantized_vectors_are_close_and_stored_again_as_the_same_bytes(numbers: int) -> None:
    """A reused vector must not change with every rebuild."""
    vectors = np.random.default_rng(numbers).normal(size=(300, numbers)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[7] = 0  # a text without a known word
    rows = segments.quantize(vectors)
    found = segments.dequantize(rows)
    assert abs(found @ found[0] - vectors @ vectors[0]).max() < 0.02
    assert np.linalg.norm(found, axis=1).tolist() == pytest.approx([0.0 if at == 7 else 1.0 for at in range(300)])
    assert segments.quantize(found).tobytes() == rows.tobytes()


@pytest.mark.parametrize("numbers", [8, 64, 100, 256])
def test_signs_and_some_rows_are_those_of_all(numbers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In segments of which one has rows that are gone."""
    chance = np.random.default_rng(numbers)
    vectors, query = chance.normal(size=(50, numbers)).astype(np.float32), chance.normal(size=numbers)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    monkeypatch.setattr(segments, "_PACKED_AT_ONCE", 7)
    monkeypatch.setattr(snapshot, "_ROWS_AT_ONCE", 7)
    store = stored(tmp_path / "index", vectors[:20])
    for name, own in (("b.txt", vectors[20:30]), ("c.txt", vectors[30:])):
        store.apply([text_file(name, own)], (), ())
    store.apply((), ("b.txt",), ())
    asked, wanted = query.astype(np.float32), np.array([35, 3, 21, 0])
    with store.snapshot() as view:
        kept = view.vectors(range(len(view.row_file)))
        every, some, signs = view.cosines(asked), view.cosines(asked, wanted), view.differing_signs(asked)
    assert len(kept) == 40
    assert every is not None
    assert some is not None
    assert signs is not None
    assert some.tolist() == pytest.approx(every[wanted].tolist(), rel=1e-5)
    assert signs.tolist() == ((kept >= 0) != (asked >= 0)).sum(axis=1).tolist()
    store.verify()


@pytest.mark.parametrize("across", [1, 4, 100])
def test_rows_of_a_very_large_index_are_read_without_mapping_its_vectors(
    across: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_READ_ACROSS", across)
    vectors = np.random.default_rng(across).normal(size=(60, 8)).astype(np.float32)
    store = stored(tmp_path / "index", vectors[:40])
    store.apply([text_file("b.txt", vectors[40:])], (), ())
    wanted, query = np.array([3, 4, 8, 41, 59, 20, 20, 0], np.int32), np.ones(8, np.float32)
    with store.snapshot() as view:
        mapped, products = view.vectors(wanted), view.cosines(query, wanted)
    store.close()
    monkeypatch.setattr(snapshot, "_MAPPED_ROWS", 59)
    with SqliteStore(store.folder, "main", recipe="test").snapshot() as view:
        assert view.vectors(wanted).tolist() == mapped.tolist()
        assert view.vectors([]).size == 0
        found = view.cosines(query, wanted)
        assert found is not None
        assert products is not None
        assert found.tolist() == products.tolist()
        mapped_files = Path("/proc/self/maps").read_text()
        assert not any(path.name in mapped_files for path in store.folder.glob("vectors-*"))
        for path in store.folder.glob("vectors-*"):  # one that is cut off meanwhile is damage, not the end of a server
            os.truncate(path, 100)
        with pytest.raises(Damage, match="too short"):
            view.vectors(wanted)


def test_a_fingerprint_is_that_of_the_file_wherever_it_lies(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(size=(6, 70)).astype(np.float32)
    files = [text_file("a.txt", vectors[:1]), text_file("b.txt", vectors[1:3]), text_file("c.txt", vectors[3:])]
    found = []
    for order in (files, files[::-1]):
        store = SqliteStore(tmp_path / order[0].source.path, "main", recipe="test")
        for file in order:
            store.apply([file], (), ())
        with store.snapshot() as view:
            found.append(dict(zip(view.paths, view.file_fingerprints().tolist(), strict=True)))
    assert found[0] == found[1]
    assert len(set(found[0].values())) == 3


def test_files_with_the_lowest_fingerprints_are_a_fair_sample(tmp_path: Path) -> None:
    """They lie on either side of every dimension as often as all of them do."""
    vectors = np.random.default_rng(2).normal(size=(400, 64)).astype(np.float32)
    store = SqliteStore(tmp_path / "index", "main", recipe="test")
    store.apply([text_file(f"{at}.txt", vectors[at : at + 1]) for at in range(len(vectors))], (), ())
    with store.snapshot() as view:
        lowest = view.vectors(view.file_first[view.file_fingerprints().argsort()[:100]])
    shares = (lowest >= 0).mean(axis=0)
    assert (abs(shares - 0.5) < 0.25).all(), shares


def test_what_is_derived_is_made_once_a_generation(tmp_path: Path) -> None:
    store, made = stored(tmp_path / "index", np.eye(2, dtype=np.float32)), list[int]()

    def count(view: Snapshot, call: int) -> int:
        made.append(call)
        return len(view.row_file)

    for _ in range(2):
        with store.snapshot() as view:
            assert view.once("rows", lambda: count(view, 1)) == 2
    store.apply((), ("a.txt",), ())
    with store.snapshot() as view:
        assert view.once("rows", lambda: count(view, 2)) == 0
    assert made == [1, 2]


def test_a_broken_pipe_is_not_the_disks_fault(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), stored(tmp_path / "index", np.eye(2, dtype=np.float32)).snapshot():
        raise BrokenPipeError("the reader is gone")


@pytest.mark.parametrize("count", [1, 15, 16, 400])
@pytest.mark.parametrize(("step", "uses", "named"), [(1, 9, 0), (300, 9, 1), (70_000, 900, 7), (3, 65_535, 255)])
def test_a_posting_list_reads_as_it_was_written(count: int, step: int, uses: int, named: int) -> None:
    rows = np.arange(count, dtype=np.int32) * step + 5
    types, names, path = (np.full(count, value, np.uint8) for value in (named, named, 3))
    written = Posting(rows, np.full(count, uses, np.uint16), types, names, path)
    (data,) = encode_lists(written, [0, len(written.rows)])
    read = decode_posting(data)
    for field in Posting._fields:
        before, after = getattr(written, field), getattr(read, field)
        assert after.dtype == before.dtype
        assert after.tolist() == before.tolist()
    if count >= 16 and named < 8:
        assert len(data) < 9 * count
    flipped = bytes((*data[:-3], data[-3] ^ 4, *data[-2:]))
    with pytest.raises(Damage):
        decode_posting(flipped)


def test_lists_of_many_segments_read_as_one_by_one() -> None:
    """Short and long ones, with and without fields, with rows that are gone, one of them all."""
    chance = np.random.default_rng(3)
    lists, expected = [], []
    for at in range(60):
        count = int(chance.choice([1, 9, 16, 40, 300]))
        rows = np.sort(chance.choice(int(chance.choice([400, 90_000])), count, replace=False)).astype(np.int32)
        most = int(chance.choice([0, 7, 200]))
        types, names, path = (
            chance.integers(0, limit + 1, count).astype(np.uint8) for limit in (most, most, most and 3)
        )
        uses = chance.integers(1, int(chance.choice([9, 900, 60_000])), count).astype(np.uint16)
        written = Posting(rows, uses, types, names, path)
        row_map = None
        if at % 7 == 0:
            alive = np.zeros(90_000, bool) if at % 2 else chance.random(90_000) < 0.5
            row_map = np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)
        (data,) = encode_lists(written, [0, len(written.rows)])
        lists.append(PostingList("term", data, row_map, 100_000 * at))
        expected.append(move_posting(written, row_map, 100_000 * at))
    read, ends = decode_lists(lists)
    assert ends == np.cumsum([len(one.rows) for one in expected]).tolist()
    for field in Posting._fields:
        wanted = np.concatenate([getattr(one, field) for one in expected])
        assert getattr(read, field).dtype == wanted.dtype
        assert getattr(read, field).tolist() == wanted.tolist()
    damaged = replace(lists[5], data=lists[5].data[:-2] + bytes((lists[5].data[-2] ^ 1, lists[5].data[-1])))
    with pytest.raises(Damage):
        decode_lists([*lists[:5], damaged])


def test_merged_lists_are_those_of_one_segment() -> None:
    """Terms in some of the segments, short lists that become long ones, rows that are gone and terms with them."""
    chance = np.random.default_rng(5)
    whole, parts = SegmentBuilder(), [SegmentBuilder() for _ in range(7)]
    row_maps: list[np.ndarray | None] = []
    for at, part in enumerate(parts):
        alive = chance.random(50) < 0.7 if at % 3 == 0 else np.ones(50, np.bool_)
        row_maps.append(None if alive.all() else np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32))
        for row in range(50):
            words = {f"w{word}": float(word % 4 + 1) for word in chance.integers(0, 300, 12).tolist()}
            terms = words | {f"{NAME_MARK}w{row % 5}": 1.0} | ({} if alive[row] else {f"gone{at}": 1.0})
            part.add(row, terms, (f"{STEM_MARK}w{at}",))
            if alive[row]:
                whole.add(row, terms, (f"{STEM_MARK}w{at}",))
    alive_counts = [50 if row_map is None else int((row_map >= 0).sum()) for row_map in row_maps]
    offsets = np.cumsum([0, *alive_counts[:-1]]).tolist()
    assert list(merge_postings([part.postings() for part in parts], row_maps, offsets)) == list(whole.postings())


def test_a_file_of_many_chunks_is_found_by_line_and_read_in_pieces(tmp_path: Path) -> None:
    with stored(tmp_path / "index", np.eye(20, dtype=np.float32)).snapshot() as view:
        assert [view.row_at(0, line) for line in (1, 8, 9, 20, 21)] == [0, 7, 8, 19, None]
        assert [chunk.text for chunk in view.chunks([19, 0, 8])] == ["line 19", "line 0", "line 8"]


def test_what_a_merge_leaves_free_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SPARSE_BYTES", 0)
    store = SqliteStore(tmp_path / "index", "main", recipe="test")
    for at in range(CROWD):
        text = " ".join(f"word{at}x{n}" for n in range(4000))
        parsed = ParsedFile((Chunk(1, 1, text, "text"),), terms=(dict.fromkeys(text.split(), 1.0),))
        file = IndexedFile(SourceFile(f"{at}.txt", 1, 1), f"hash{at}", "text", FileKind.DOCS, parsed)
        store.apply([file], (), ())
    store.finish({})
    with store._connections.reading() as db:
        assert database.only_row(db, "SELECT count(*) FROM segments") == (1,)
        assert database.only_row(db, "PRAGMA freelist_count")[0] * 4 <= database.only_row(db, "PRAGMA page_count")[0]
    with store.snapshot() as view:
        assert set(view.postings(["word3x7"])) == {"word3x7"}
