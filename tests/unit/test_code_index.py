"""References and calls over edits: what an engine has cached never changes an answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from codeinfo import Config, Engine
from codeinfo.cache import Memo
from codeinfo.errors import NotFound
from codeinfo.graph import code_index
from codeinfo.operations.code import CallGraph, CallsRequest, CyclesRequest, ReferenceReport, RefsRequest

SOURCES = {
    "lib/__init__.py": "from .store import Store as Store\n",
    "lib/store.py": "class Store:\n    def save(self, it):\n        return it\n\n\ndef load(_):\n    return Store()\n",
    "lib/other.py": "class Other:\n    def save(self):\n        pass\n\n\ndef alone():\n    return Other().save()\n",
    "use.py": "from lib import Store as Kept\nfrom lib.store import load\n\n\ndef run(x):\n    kept = Kept()\n"
    "    kept.save(load(1))\n    x.save(2)\n",
    "far.py": "from use import run\nimport use\n\nuse.load(3)\nrun(4)\n",
    "Main.java": "package a;\n\nclass Main {\n    void save() {}\n    void run(Helper h) { save(); h.save(); }\n}\n",
    "Helper.java": "package a;\n\nclass Helper {\n    void save() {}\n}\n",
    "web.ts": "import { send } from './wire'\n\nexport function save() {\n  send(1)\n}\nsave()\n",
    "wire.ts": "export function send(x: number) {\n  return x\n}\n",
    "dial.c": "int dial(void) { return 1; }\n",
    "turn.c": "int turn(void) { return dial(); }\n",
}
NAMES = (
    "save",
    "load",
    "Store",
    "Kept",
    "Store.save",
    "Other.save",
    "run",
    "send",
    "lib/store.py::load",
    "Helper",
    "dial",
    "alone",
)
Answers = Mapping[str, tuple[ReferenceReport, CallGraph] | None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in SOURCES.items():
        (tmp_path / "tree" / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "tree" / path).write_text(text)
        os.utime(tmp_path / "tree" / path, (1, 1))  # what was written a moment ago is looked at again
    return tmp_path / "tree"


def engine_of(root: Path) -> Engine:
    settings = {"embedding.provider": "none", "index.workers": "1", "paths.cache_dir": str(root.parent / "cache")}
    return Engine(Config.load(settings, root))


def answers(engine: Engine, root: Path) -> Answers:
    found: dict[str, tuple[ReferenceReport, CallGraph] | None] = {}
    for name in NAMES:
        try:
            found[name] = (
                engine.code.references(RefsRequest(name, str(root))),
                engine.code.calls(CallsRequest(name, str(root), depth=2)),
            )
        except NotFound:
            found[name] = None
    return found


def fresh_answers(root: Path) -> Answers:
    """By an engine over the same index that has nothing cached."""
    with engine_of(root) as engine:
        return answers(engine, root)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("far.py", "import use\n\nuse.load(3)\nuse.load(5)\n"),
        ("lib/store.py", "class Store:\n    pass\n\n\ndef load(path):\n    load(2)\n"),
        ("use.py", "from lib.other import Other\n\n\ndef run(x):\n    Other().save()\n"),
        ("Helper.java", "package a;\n\nclass Helper {\n    void gone() {}\n}\n"),
        ("wire.ts", "export function send(x: number) {\n  return send(x)\n}\n"),
        ("new.ts", "import { save } from './web'\n\nsave()\n"),
        ("web.ts", None),
        ("dial.c", "int spin(void) { return 1; }\n"),
        ("turn.c", "int dial(void) { return 2; }\nint turn(void) { return dial(); }\n"),
        ("more.c", "int dial(void) { return 3; }\n"),
        ("dial.c", None),
    ],
)
def test_after_an_edit_answers_are_those_of_a_fresh_engine(root: Path, path: str, text: str | None) -> None:
    with engine_of(root) as engine:
        before = answers(engine, root)
        assert before["save"] is not None
        assert before["save"][0].usage_count == 5
        if text is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text)
        after = answers(engine, root)
    assert fresh_answers(root) == after


@pytest.mark.parametrize("damage", [b"", b"not of this kind\n", b"[4,1]", b"[4,1,[[[1],[],[]]]]", b"[4,1,[[0,0,0]]]"])
def test_a_damaged_graph_is_built_again(root: Path, damage: bytes) -> None:
    with engine_of(root) as engine:
        before = answers(engine, root)
    (written,) = (root.parent / "cache").rglob("graph.json")
    whole = written.read_bytes()
    for data in (damage, whole[:-4], whole[: len(whole) // 2]):
        written.write_bytes(data)
        assert fresh_answers(root) == before
        assert written.read_bytes() == whole


def test_caches_have_bounds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_index, "_MOST_MEMORIZED", 3)
    monkeypatch.setattr(code_index, "_MOST_ANSWERS", 25)
    with engine_of(root) as engine:
        first = answers(engine, root)
        store = engine.indexes.of(root).live_store()
        assert store is not None
        with engine.code.open(engine.indexes.of(root), store) as index:
            assert len(index.memo) <= 3  # more would have been dropped before this question
            assert len(index.answers) <= 2
        assert answers(engine, root) == first


def test_a_memo_keeps_no_answer_that_a_cycle_made_incomplete() -> None:
    following = {"a": "b", "b": "ac", "c": "d", "d": "c"}
    memo = Memo()

    def reached(node: str) -> Sequence[str]:
        return memo.once(node, lambda: sorted({node, *(one for next_ in following[node] for one in reached(next_))}))

    assert reached("a") == ["a", "b", "c", "d"]
    assert len(memo) == 2  # of a and c: what b and d found may be incomplete
    assert [reached(node) for node in "bcd"] == [["a", "b", "c", "d"], ["c", "d"], ["c", "d"]]


def test_a_memo_keeps_no_answer_that_its_depth_made_incomplete() -> None:
    memo = Memo()

    def counted(number: int) -> Sequence[int]:
        return memo.once(number, lambda: [number, *counted(number + 1)], 3)

    assert counted(0) == [0, 1, 2]
    assert counted(2) == [2, 3, 4]
    assert counted(0) == [0, 1, 2]


def test_versions_of_an_edited_file_are_not_kept(root: Path) -> None:
    with engine_of(root) as engine:
        for number in range(4):
            (root / "use.py").write_text(f"{SOURCES['use.py']}# {number}\n")
            answers(engine, root)
        store = engine.indexes.of(root).live_store()
        assert store is not None
        with engine.code.open(engine.indexes.of(root), store) as index:
            cached = index._files
            assert max(len(cached.units), len(cached.lines), len(cached.uses)) <= len(SOURCES)


def test_imports_are_prepared_once_while_no_file_offers_other_names(root: Path) -> None:
    def imports() -> code_index.ImportResolver | None:
        engine.code.cycles(CyclesRequest(str(root)))
        store = engine.indexes.of(root).live_store()
        assert store is not None
        with engine.code.open(engine.indexes.of(root), store) as index:
            return index.imports

    (root / "tsconfig.json").write_text('{"compilerOptions": {"paths": {"~/*": ["./*"]}}}')
    with engine_of(root) as engine:
        first = imports()
        assert first is not None
        assert first.tree.config("tsconfig.json") is first.tree.config("tsconfig.json") != {}
        (root / "far.py").write_text("import use\n\nuse.load(5)\n")
        assert imports() is first
        (root / "far.py").write_text("import use\n\n\ndef more():\n    use.load(5)\n")
        second = imports()
        assert second is not first
        (root / "tsconfig.json").write_text('{"compilerOptions": {"paths": {"#/*": ["./*"]}}}')
        assert imports() is not second
