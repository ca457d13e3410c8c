"""What every Store must do. A second store joins by adding a factory to `STORES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from postgres_tools import team_database, team_store
from store_digest import digest_of

from codeinfo.errors import Busy
from codeinfo.model import Chunk, Definition, FileKind, Import, IndexedFile, ParsedFile, SourceFile
from codeinfo.ports import IN_FOLDER, IN_STEM, Retention
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import path_terms, terms

Factory = Callable[..., SqliteStore]
Open = Callable[[Path, str], SqliteStore]


@contextmanager
def sqlite_stores() -> Iterator[Open]:
    yield lambda folder, tree: SqliteStore(folder, tree, recipe="test")


@contextmanager
def team_stores() -> Iterator[Open]:
    with team_database() as database:
        yield lambda folder, tree: team_store(database, folder, tree)


STORES = {"sqlite": sqlite_stores, "team": team_stores}


@pytest.fixture(params=sorted(STORES))
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Factory]:
    """Opens the same index again and again, as other processes would."""
    opened: list[SqliteStore] = []

    with STORES[request.param]() as open_store:

        def factory(tree: str = "main") -> SqliteStore:
            opened.append(open_store(tmp_path / "index", tree))
            return opened[-1]

        yield factory
        for store in opened:
            store.close()


def unit(*values: float) -> list[float]:
    row = np.array(values, np.float32)
    scaled: list[float] = (row / np.linalg.norm(row)).tolist()
    return scaled


def indexed(path: str, *texts: str, sha256: str = "", vectors: list[list[float]] | None = None) -> IndexedFile:
    chunks = tuple(Chunk(at * 10 + 1, at * 10 + 9, text, "function", f"f{at}") for at, text in enumerate(texts))
    counted = tuple({term: float(terms(text).count(term)) for term in terms(text)} for text in texts)
    definitions = tuple(Definition(c.symbol, c.symbol, "function", "", "", c.start_line, c.end_line) for c in chunks)
    return IndexedFile(
        source=SourceFile(path, len("".join(texts)), 1),
        sha256=sha256 or f"hash of {texts}",
        language="python",
        kind=FileKind.CODE,
        parsed=ParsedFile(chunks, definitions, (Import("os", 1, ("path",)),), terms=counted),
        vectors=None if vectors is None else np.array(vectors, np.float32),
        references=b"uses of " + path.encode(),
        path_terms=path_terms(path),
    )


def found(store: SqliteStore, term: str) -> dict[str, float]:
    """File → uses of a term in the last of its chunks that has it."""
    with store.snapshot() as view:
        posting = view.postings([term]).get(term)
        if posting is None:
            return {}
        uses = zip(posting.rows, posting.tenths, strict=True)
        return {view.paths[view.row_file[row]]: float(tenths) / 10 for row, tenths in uses if tenths}


def in_path(store: SqliteStore, term: str) -> dict[str, int]:
    """File → the parts of its path that have a term."""
    with store.snapshot() as view:
        posting = view.postings([term])[term]
        parts = zip(posting.rows, posting.path, strict=True)
        return {view.paths[view.row_file[row]]: int(bits) for row, bits in parts if bits}


def test_what_is_applied_is_found_by_every_later_reader(reopen: Factory) -> None:
    store = reopen()
    store.apply([indexed("a.py", "apple pear apple", "plum"), indexed("b/c.py", "pear")], (), ())
    for reader in (store, reopen()):
        assert found(reader, "appl") == {"a.py": 2.0}
        assert found(reader, "pear") == {"a.py": 1.0, "b/c.py": 1.0}
        assert in_path(reader, "c") == {"b/c.py": IN_STEM}
        assert in_path(reader, "b") == {"b/c.py": IN_FOLDER}
        with reader.snapshot() as view:
            assert [c.text for c in view.chunks([0, 1, 2])] == ["apple pear apple", "plum", "pear"]
            assert view.row_length.tolist() == [3.0, 1.0, 1.0]


def test_a_replaced_file_leaves_nothing_behind(reopen: Factory) -> None:
    store = reopen()
    store.apply([indexed("a.py", "old", "older", "oldest"), indexed("b.py", "old")], (), ())
    store.apply([indexed("a.py", "new")], (), ())
    assert found(store, "old") == {"b.py": 1.0}
    assert found(store, "oldest") == {}
    assert found(store, "new") == {"a.py": 1.0}
    with store.snapshot() as view:
        assert len(view.row_file) == 2
    symbols = store.symbols("a.py")
    assert symbols is not None
    assert [d.name for d in symbols.definitions] == ["f0"]


def test_files_are_taken_while_they_come_and_are_stored_together(reopen: Factory) -> None:
    store = reopen()

    def come(failure: Exception | None) -> Iterator[IndexedFile]:
        yield indexed("a.py", "one")
        assert store.hashes(["a.py"]) == {}  # other questions are answered meanwhile, from before
        if failure is not None:
            raise failure
        yield indexed("b.py", "two")

    with pytest.raises(ZeroDivisionError):
        store.apply(come(ZeroDivisionError()), (), ())
    assert store.manifest() == {}
    store.apply(come(None), (), ())
    assert set(reopen().manifest()) == {"a.py", "b.py"}


def test_removed_files_are_gone_and_touched_ones_keep_their_content(reopen: Factory) -> None:
    store = reopen()
    store.apply([indexed("a.py", "one"), indexed("b.py", "two")], (), ())
    store.apply((), ("a.py",), (SourceFile("b.py", 3, 99),))
    assert set(store.manifest()) == {"b.py"}
    assert store.manifest()["b.py"].mtime_ns == 99
    assert store.sources() == {SourceFile("b.py", 3, 99)}
    assert store.hashes(["a.py", "b.py", "c.py"]) == {"b.py": store.manifest()["b.py"].sha256}
    assert store.symbols("a.py") is None
    assert found(store, "two") == {"b.py": 1.0}


def test_symbols_come_back_as_they_were_given(reopen: Factory) -> None:
    store = reopen()
    file = indexed("a.py", "one", "two")
    store.apply([file], (), ())
    symbols = store.symbols("a.py")
    assert symbols is not None
    assert symbols.definitions == file.parsed.definitions
    assert symbols.imports == file.parsed.imports
    assert symbols.references == b"uses of a.py"
    with store.snapshot() as view:
        assert [(view.paths[s.file], s.name) for s in view.definitions(["F1"])] == [("a.py", "f1")]


def test_names_of_definitions_are_those_of_live_files(reopen: Factory) -> None:
    store = reopen()
    store.apply([indexed("a.py", "one", "two", "three"), indexed("b.py", "four")], (), ())
    store.apply([indexed("a.py", "one", "two")], (), ())
    with store.snapshot() as view:
        assert sorted(view.definition_names().split("\n")) == ["f0", "f0", "f1"]


def test_vectors_follow_their_chunks_through_replacement_and_merging(reopen: Factory) -> None:
    store = reopen()
    for at in range(12):
        row = [0.0] * 12
        row[at] = 1.0
        store.apply([indexed(f"f{at}.py", f"word{at}", vectors=[row])], (), ())
    store.apply([indexed("f3.py", "changed", vectors=[unit(*([1.0] * 12))])], ("f5.py",), ())
    store.finish({})
    with store.snapshot() as view:
        cosines = view.cosines(np.eye(12, dtype=np.float32)[7])
        assert cosines is not None
        by_path = {view.paths[view.row_file[row]]: float(cosine) for row, cosine in enumerate(cosines)}
        backwards = range(len(cosines) - 1, -1, -1)
        assert view.vectors(backwards)[:, 7].tolist() == cosines[::-1].tolist()
        assert view.vectors([]).shape[0] == 0
    assert by_path["f7.py"] == 1.0
    assert by_path["f3.py"] == pytest.approx(12**-0.5, rel=1e-6), "stored vectors have length 1"
    assert by_path["f8.py"] == 0.0
    assert "f5.py" not in by_path
    assert found(store, "word") == {f"f{at}.py": 1.0 for at in range(12) if at not in (3, 5)}


def test_vectors_are_found_again_by_content(reopen: Factory) -> None:
    store = reopen()
    store.apply([indexed("a.py", "x", "y", sha256="abc", vectors=[unit(1, 0), unit(0, 1)])], (), ())
    again = store.vectors_by_hash("abc")
    assert again is not None
    assert again.tolist() == [[1, 0], [0, 1]]
    assert store.vectors_by_hash("other") is None
    later = [indexed(f"b{at}.py", "z", sha256=f"b{at}", vectors=[unit(at + 1, 1)]) for at in range(3)]
    store.apply(later, ("a.py",), ())
    for at in range(3):
        stored = store.vectors_by_hash(f"b{at}")
        assert stored is not None
        assert stored == pytest.approx(np.array([unit(at + 1, 1)]), abs=0.004)


def test_the_version_of_a_file_that_was_stored_last_is_at_hand(reopen: Factory) -> None:
    store = reopen()
    for text, vector in (("x", unit(1, 0)), ("y", unit(0, 1))):
        store.apply([indexed("a.py", text, sha256=text, vectors=[vector])], (), ())
    found = store.earlier_version("a.py")
    assert found is not None
    assert [chunk.text for chunk in found[0]] == ["y"]
    assert found[1].tolist() == [[0, 1]]
    assert store.earlier_version("b.py") is None


def test_one_file_without_vectors_makes_the_index_keyword_only(reopen: Factory) -> None:
    store = reopen()
    store.apply([indexed("a.py", "x", vectors=[unit(1, 0)])], (), ())
    store.apply([indexed("b.py", "y")], (), ())
    with store.snapshot() as view:
        assert view.cosines(np.array([1, 0], np.float32)) is None


def test_a_snapshot_does_not_see_what_is_written_after_it(reopen: Factory) -> None:
    writer, reader = reopen(), reopen()
    writer.apply([indexed("a.py", "one")], (), ())
    with reader.snapshot() as view:
        writer.apply([indexed("a.py", "two")], (), ())
        writer.finish({})
        assert view.chunks([0])[0].text == "one"
        assert set(view.postings(["one", "two"])) == {"one"}
    assert found(reader, "two") == {"a.py": 1.0}


def test_the_digest_does_not_depend_on_the_way_there(reopen: Factory, tmp_path: Path) -> None:
    store, other = reopen(), SqliteStore(tmp_path / "other", "main", recipe="test")
    for at in range(9):
        store.apply([indexed(f"{at}.py", "draft")], (), ())
    store.apply([indexed(f"{at}.py", f"final {at}") for at in range(8)], ("8.py",), ())
    store.finish({})
    other.apply([indexed(f"{at}.py", f"final {at}") for at in reversed(range(8))], (), ())
    assert digest_of(store) == digest_of(other)
    other.apply([indexed("0.py", "changed")], (), ())
    assert digest_of(store) != digest_of(other)
    other.close()


def test_meta_is_stored_and_completeness_is_reported(reopen: Factory) -> None:
    store = reopen()
    with store.snapshot() as view:
        assert not view.complete
    store.finish({"model_id": "m"})
    assert reopen().meta()["model_id"] == "m"
    with store.snapshot() as view:
        assert view.complete


def test_an_empty_index_answers_with_nothing(reopen: Factory) -> None:
    store = reopen()
    assert store.manifest() == {}
    assert found(store, "anything") == {}
    with store.snapshot() as view:
        assert view.chunks([]) == []
        assert view.definitions(["x"]) == []
        assert view.definition_names() == ""


def test_files_left_out_are_remembered_but_never_searched(reopen: Factory) -> None:
    store = reopen()
    nothing = ParsedFile(chunks=())
    store.apply([IndexedFile(SourceFile("x.bin", 1, 1), "h", "", FileKind.CODE, nothing, skip="binary")], (), ())
    assert "x.bin" in store.manifest()
    with store.snapshot() as view:
        assert list(view.paths) == []


# --- trees -----------------------------------------------------------------------------------------------------------

KEEP = Retention(days=1, share=10)


def as_reused(store: SqliteStore, file: IndexedFile) -> tuple[SourceFile, int]:
    (known,) = store.find_stored([file.source.path])[file.source.path, file.sha256]
    return file.source, known.file_id


def test_a_tree_has_its_own_files_alone(reopen: Factory) -> None:
    main, other = reopen("main"), reopen("other")
    main.apply([indexed("a.py", "apple pear", "plum"), indexed("b.py", "pear")], (), ())
    other.apply([indexed("a.py", "pear cherry"), indexed("c.py", "apple")], (), ())
    assert found(main, "pear") == {"a.py": 1.0, "b.py": 1.0}
    assert found(other, "appl") == {"c.py": 1.0}
    assert set(main.manifest()) == {"a.py", "b.py"}
    assert main.hashes(["a.py", "c.py"]) == {"a.py": "hash of ('apple pear', 'plum')"}
    with main.snapshot() as view:
        assert len(view.row_file) == 3
        assert sorted((view.paths[s.file], s.name) for s in view.definitions(["f0", "f1"])) == [
            ("a.py", "f0"),
            ("a.py", "f1"),
            ("b.py", "f0"),
        ]
        assert view.definition_names() == "f0\nf0\nf1"
    with other.snapshot() as view:
        assert sorted(view.paths) == ["a.py", "c.py"]
        assert view.definitions(["f1"]) == []


def test_a_shared_file_is_stored_once_and_outlives_one_of_its_trees(reopen: Factory) -> None:
    main, other = reopen("main"), reopen("other")
    shared, own = indexed("a.py", "apple", vectors=[unit(1, 0)]), indexed("b.py", "pear", vectors=[unit(0, 1)])
    main.apply([shared, own], (), ())
    assert main.find_stored(["a.py"]) == {}  # it has it
    other.apply([], (), (), [as_reused(other, shared)])
    other.finish({})
    assert found(other, "appl") == {"a.py": 1.0}
    main.apply([], ("a.py", "b.py"), ())
    main.finish({})
    assert found(main, "appl") == {}
    assert found(other, "appl") == {"a.py": 1.0}
    assert other.find_stored(["b.py"]) == {}  # nobody has it, and nothing was to be kept
    with other.snapshot() as view:
        assert view.cosines(np.array([1, 0], np.float32)).tolist() == [1.0]  # type: ignore[union-attr]


def test_a_tree_digests_as_if_it_were_alone(reopen: Factory, tmp_path: Path) -> None:
    main, other = reopen("main"), reopen("other")
    files = [indexed(f"{at}.py", f"text {at}", vectors=[unit(1, at)]) for at in range(4)]
    main.apply(files, (), ())
    changed = indexed("0.py", "changed", vectors=[unit(2, 1)])
    other.apply([changed], (), (), [as_reused(other, file) for file in files[1:]])
    main.apply([], ("3.py",), ())
    main.finish({}, KEEP)
    for store, own in ((main, files[:3]), (other, [changed, *files[1:]])):
        alone = SqliteStore(tmp_path / f"alone-{len(own)}", "x", recipe="test")
        alone.apply(own, (), ())
        assert digest_of(store) == digest_of(alone)
        alone.close()


def test_what_comes_back_is_reused_unless_it_is_kept_no_longer(reopen: Factory) -> None:
    store = reopen()
    first, second = indexed("a.py", "first"), indexed("a.py", "second")
    store.apply([first, indexed("b.py", "stays")], (), ())
    store.finish({}, KEEP)
    store.apply([second], (), ())
    store.finish({}, KEEP)
    assert found(store, "first") == {}
    store.apply([], (), (), [as_reused(store, first)])
    store.finish({}, KEEP)
    assert found(store, "first") == {"a.py": 1.0}
    assert found(store, "second") == {}
    store.finish({}, Retention(days=1, share=0))
    assert store.find_stored(["a.py"]) == {}


def test_a_file_under_edit_leaves_few_versions(reopen: Factory) -> None:
    store = reopen()
    for at in range(9):
        store.apply([indexed("a.py", f"version {at}"), *(indexed(f"{n}.py", "x") for n in range(at, 9))], (), ())
        store.finish({}, KEEP)
    assert len(store.find_stored(["a.py"])) == 3


def test_a_tree_that_is_no_more_leaves_nothing(reopen: Factory) -> None:
    main, other = reopen("main"), reopen("other")
    main.apply([indexed("a.py", "apple")], (), ())
    other.apply([indexed("b.py", "pear")], (), ())
    main.finish({}, trees=["main"])
    assert main.find_stored(["b.py"]) == {}
    with pytest.raises(Busy, match="replaced"):
        found(other, "pear")  # never damage: its siblings are sound
    assert found(reopen("other"), "pear") == {}


def test_another_trees_work_leaves_a_generation_as_it_is(reopen: Factory) -> None:
    main, other = reopen("main"), reopen("other")
    main.apply([indexed("a.py", "apple", "f0 of main")], (), ())
    main.finish({})
    generation = main.meta()["generation"]
    with main.snapshot() as view:
        kept = view.once("x", object)
        other.apply([indexed("z.py", "apple", "pear", "plum")], (), ())
        other.finish({})
    with main.snapshot() as view:
        assert view.once("x", object) is kept
        assert view.definition_names() == "f0\nf1"
    assert main.meta()["generation"] == generation


def test_merging_for_one_tree_leaves_the_other_searchable(reopen: Factory) -> None:
    main, other = reopen("main"), reopen("other")
    other.apply([indexed("other.py", "needle", vectors=[unit(1, 0)])], (), ())
    with other.snapshot() as view:
        for at in range(12):
            main.apply([indexed(f"{at}.py", f"word{at}", vectors=[unit(at, 1)])], (), ())
            main.finish({})
        assert set(view.postings(["needl"])) == {"needl"}
        assert view.chunks([0])[0].text == "needle"
    assert found(other, "needl") == {"other.py": 1.0}
    assert len(found(main, "word")) == 12
