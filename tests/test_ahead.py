"""Names judged ahead: the same answers as without, also after edits, in another process, and with a damaged file."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from codeinfo import Config, Engine
from codeinfo.engine import ahead, ahead_file, reading_ahead, world
from codeinfo.errors import NotFound
from codeinfo.operations.code import CallGraph, CallsRequest, ReferenceReport, RefsRequest

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


@pytest.fixture(autouse=True)
def every_name_is_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "MIN_USES", 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in SOURCES.items():
        (tmp_path / "tree" / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "tree" / path).write_text(text)
    return tmp_path / "tree"


def engine_of(root: Path, *, lasting: bool = False) -> Engine:
    settings = {"embedding.provider": "none", "index.workers": "1", "paths.cache_dir": str(root.parent / "cache")}
    return Engine(Config.load(settings, root), lasting=lasting)


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


def judged_alone(root: Path) -> Answers:
    """By an engine over the same index that has read nothing ahead."""
    for written in (root.parent / "cache").rglob(ahead_file.NAME):
        written.unlink()
    with engine_of(root) as engine:
        return answers(engine, root)


def test_what_was_judged_ahead_answers_the_same(root: Path) -> None:
    with engine_of(root) as engine:
        before = answers(engine, root)
    with engine_of(root) as engine:
        assert engine.code.read_ahead(root)
        with engine.code._open(root, False, None) as opened:
            assert opened.world.ahead is not None
            assert opened.world.ahead.missing(opened.graph) == []
            assert len(opened.world.ahead.rows["save"]) == 5
        assert answers(engine, root) == before
    assert before["save"] is not None
    assert before["save"][0].usage_count == 5


@pytest.mark.parametrize(
    ("path", "text", "kept"),
    [
        ("far.py", "import use\n\nuse.load(3)\nuse.load(5)\n", {"use.py", "lib/store.py", "web.ts", "Main.java"}),
        ("lib/store.py", "class Store:\n    pass\n\n\ndef load(path):\n    load(2)\n", {"lib/other.py", "web.ts"}),
        ("use.py", "from lib.other import Other\n\n\ndef run(x):\n    Other().save()\n", {"lib/store.py", "wire.ts"}),
        ("Helper.java", "package a;\n\nclass Helper {\n    void gone() {}\n}\n", {"use.py", "web.ts"}),
        ("wire.ts", "export function send(x: number) {\n  return send(x)\n}\n", {"use.py", "Main.java"}),
        ("new.ts", "import { save } from './web'\n\nsave()\n", {"use.py", "Main.java"}),
        ("web.ts", None, {"use.py", "lib/other.py", "Main.java"}),
        ("dial.c", "int spin(void) { return 1; }\n", {"turn.c", "use.py"}),
        ("turn.c", "int dial(void) { return 2; }\nint turn(void) { return dial(); }\n", {"dial.c", "use.py"}),
        ("more.c", "int dial(void) { return 3; }\n", {"use.py"}),
        ("dial.c", None, {"use.py"}),
    ],
)  # fmt: skip
def test_after_an_edit_only_what_it_may_touch_is_judged_again(
    root: Path, path: str, text: str | None, kept: set[str]
) -> None:
    with engine_of(root) as engine:
        answers(engine, root)
        engine.code.read_ahead(root)
        if text is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text)
        now = answers(engine, root)
        with engine.code._open(root, False, None) as opened:
            assert opened.world.ahead is not None
            missing = {file.path for file in opened.world.ahead.missing(opened.graph)}
        assert (path in missing) == (text is not None)
        assert not kept & missing
        assert engine.code.read_ahead(root)
        assert answers(engine, root) == now
    assert judged_alone(root) == now


def test_another_process_finds_what_was_judged(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_of(root) as engine:
        before = answers(engine, root)
        engine.code.read_ahead(root)
    with engine_of(root) as engine:
        monkeypatch.setattr(ahead.Ahead, "steps", lambda *_: pytest.fail("it was read before"))
        assert engine.code.read_ahead(root)
        assert answers(engine, root) == before


@pytest.mark.parametrize("damage", [b"", b"not of this kind\n", b"[0,1,2,[],[]]\n"])
def test_a_damaged_file_is_made_again(root: Path, damage: bytes) -> None:
    with engine_of(root) as engine:
        before = answers(engine, root)
        engine.code.read_ahead(root)
    (written,) = (root.parent / "cache").rglob(ahead_file.NAME)
    whole = written.read_bytes()
    for data in (damage, whole[:-4], whole[: len(whole) // 2]):
        written.write_bytes(data)
        with engine_of(root) as engine:
            assert answers(engine, root) == before
            assert engine.code.read_ahead(root)
        assert written.read_bytes() == whole


def test_an_engine_that_lasts_reads_ahead_by_itself(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_ahead, "_QUIET_S", 0.01)
    with engine_of(root, lasting=True) as engine:
        before = answers(engine, root)
        deadline = time.monotonic() + 20
        while not (found := list((root.parent / "cache").rglob(ahead_file.NAME))) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert found
        assert answers(engine, root) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "codeinfo reading ahead"]


def test_what_is_remembered_for_names_has_a_bound(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_KEPT_VERDICTS", 3)
    monkeypatch.setattr(world, "_KEPT_ANSWERS", 2500)
    with engine_of(root) as engine:
        first = answers(engine, root)
        with engine.code._open(root, False, None) as opened:
            assert "judge" not in vars(opened.world)  # it starts afresh with the next question
            assert len(opened.world.answers._known) <= 2
        assert answers(engine, root) == first
