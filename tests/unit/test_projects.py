"""A folder belongs to its repository: which project a path means, and results from the part of it that was named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound, UsageError
from codeinfo.operations.answers import AskRequest
from codeinfo.operations.code import (
    CallsRequest,
    CyclesRequest,
    DefsRequest,
    HotspotsRequest,
    ImpactRequest,
    MapRequest,
    RefsRequest,
    SymbolsRequest,
    UnusedRequest,
)
from codeinfo.operations.search import IndexRequest, SearchRequest, SimilarRequest, StatusRequest, WhyRequest
from codeinfo.store.layout import IndexFolder, indexed_roots

FILES = {
    "lib/pause.py": "def pause(seconds):\n    return seconds\n\n\ndef never_used():\n    return 1\n",
    "lib/again.py": "from lib.pause import pause\n\n\ndef pause_again():\n    return pause(2)\n",
    "lib/one.py": "from lib import two\n\n\ndef one():\n    return two.two()\n",
    "lib/two.py": "from lib import one\n\n\ndef two():\n    return one.one()\n",
    "app/main.py": "from lib.pause import pause\n\n\ndef main():\n    pause(1)\n",
    "app/wait.py": "from lib.pause import pause\n\n\nclass Waiter:\n    def wait(self):\n        return pause(3)\n",
}


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def make_repository(root: Path) -> Path:
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("work") / "shop")


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    with Engine(Config.load({"paths.cache_dir": str(tmp_path / "cache")}, tmp_path)) as opened:
        yield opened


def test_a_folder_without_a_path_means_all_of_its_repository(
    repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "lib")
    assert engine.code.references(RefsRequest("pause")).usage_count == 6
    assert {hit.path.partition("/")[0] for hit in engine.search(SearchRequest("pause")).hits} == {"app", "lib"}
    assert engine.code.map(MapRequest()).files == len(FILES)
    assert engine.status(StatusRequest()).indexes[0].root == str(repository)
    assert engine.why(WhyRequest("one.py")).path == "lib/one.py"
    assert [project.root for project in engine.indexes.projects().projects] == [str(repository)]


def test_a_path_narrows_what_is_shown(repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    found = engine.code.references(RefsRequest("pause", "app"))
    assert (found.usage_count, found.file_count, {use.file.partition("/")[0] for use in found.usages}) == (
        4,
        2,
        {"app"},
    )
    assert "2 more outside app" in found.notes
    assert {hit.path for hit in engine.search(SearchRequest("pause", ("app",))).hits} == {"app/main.py", "app/wait.py"}
    assert {hit.path for hit in engine.search(SearchRequest("pause", ("app/main.py",))).hits} == {"app/main.py"}
    either = engine.search(SearchRequest("pause", ("app/main.py", "lib/again.py"))).hits
    assert {hit.path for hit in either} == {"app/main.py", "lib/again.py"}
    assert {hit.path for hit in engine.search(SearchRequest("pause", ("app", "."))).hits} > {"lib/pause.py"}
    assert [one.path for one in engine.code.definitions(DefsRequest("pause", "lib")).definitions] == ["lib/pause.py"]
    with pytest.raises(NotFound, match=r"lib/pause\.py:1"):
        engine.code.definitions(DefsRequest("pause", "app"))
    assert len(engine.code.calls(CallsRequest("pause", "lib")).callers) == 3, "callers are those of the definition"
    assert engine.code.cycles(CyclesRequest("lib/one.py")).total == 1
    assert engine.code.cycles(CyclesRequest("app")).total == 0
    assert {one.symbol.path for one in engine.code.unused(UnusedRequest("lib")).symbols} == {
        "lib/again.py",
        "lib/pause.py",
    }
    assert {one.path for one in engine.code.hotspots(HotspotsRequest("app")).hotspots} == {"app/main.py", "app/wait.py"}
    part = engine.code.map(MapRequest("lib"))
    assert (part.files, part.root) == (4, str(repository / "lib"))
    assert all(path.path.startswith("lib/") for path in (*part.hubs, *part.entry_points))
    assert engine.code.symbols(SymbolsRequest("app")).total == 3
    asked = engine.answers.ask(AskRequest("what does pause return", ("lib",), provider="none"))
    assert {one.path.partition("/")[0] for one in asked.citations} == {"lib"}
    added = repository / "lib" / "pausing.py"
    added.write_text("def pausing():\n    return 'what does a pausing lighthouse return'\n")
    question = "what does a pausing lighthouse return"
    stale = engine.answers.ask(AskRequest(question, ("lib",), provider="none", refresh=False))
    fresh = engine.answers.ask(AskRequest(question, ("lib",), provider="none"))
    assert ["lib/pausing.py" in {one.path for one in answer.citations} for answer in (stale, fresh)] == [False, True]
    added.unlink()  # the tests of this file share the repository


def test_a_place_is_named_as_it_is_seen_from_here(
    repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "app")
    found = engine.searches.similar(SimilarRequest("main.py:4"))
    assert found.query == "similar to app/main.py:1-5"
    assert {hit.path for hit in engine.searches.similar(SimilarRequest("main.py:4", path=".")).hits} == {"app/wait.py"}


def test_exactly_a_folder_where_that_is_asked_for(repository: Path, engine: Engine) -> None:
    folder = repository / "lib"
    assert engine.indexes.of(folder).root == folder
    (report,) = engine.index(IndexRequest((str(folder),))).reports
    assert (report.root, report.files) == (str(folder), 4)
    with Engine(engine.config) as later:
        assert later.indexes.locate(folder / "one.py") == str(folder), "it has an index of its own now"
        assert later.indexes.locate(repository / "app") == str(repository)


def test_the_nearest_project_counts(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = make_repository(tmp_path / "outer")
    git(outer, "worktree", "add", "-q", "../linked", "-b", "other")
    nested = make_repository(outer / "vendor" / "nested")
    plain = tmp_path / "plain" / "below"
    plain.mkdir(parents=True)
    (outer / ".git" / "hooks").mkdir(exist_ok=True)
    (tmp_path / "plain" / ".git").mkdir()  # nothing in it: no repository
    located = {
        outer / "lib": outer,
        nested / "lib" / "one.py": nested,
        tmp_path / "linked" / "app": tmp_path / "linked",
        plain: plain,
    }
    assert {path: Path(engine.indexes.locate(path)) for path in located} == located
    engine.index(IndexRequest((str(plain.parent),)))
    assert engine.indexes.locate(plain) == str(plain.parent), "an index above"
    monkeypatch.setenv("HOME", str(outer))
    assert engine.indexes.locate(outer / "lib") == str(outer / "lib"), "a home folder in git is no project"


def test_what_does_not_exist_is_said(engine: Engine, tmp_path: Path) -> None:
    for path in (str(tmp_path / "no"), "x" * 5000, "a\0b"):
        with pytest.raises(NotFound, match="does not exist"):
            engine.search(SearchRequest("x", (path,)))


def test_files_for_a_path_that_is_almost_right_are_offered(
    repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.search(SearchRequest("pause", (str(repository),)))
    monkeypatch.chdir(repository / "app")
    for written, meant in (
        ("mian.py", "main.py"),
        ("../main.py", "main.py"),
        ("./app/main.py", "main.py"),
        (f"{repository}/main.py", f"{repository}/app/main.py"),
    ):
        with pytest.raises(NotFound, match="does not exist") as raised:
            engine.code.impact(ImpactRequest(written))
        assert str(raised.value.next_step).startswith(f"Did you mean {meant}")
    with pytest.raises(NotFound, match="does not exist") as raised:
        engine.code.symbols(SymbolsRequest("main.py", root=str(repository)))
    assert raised.value.next_step == "Did you mean app/main.py?"
    with pytest.raises(NotFound, match="does not exist") as raised:
        engine.code.impact(ImpactRequest("nothing/like/this.zig"))
    assert raised.value.next_step == "Give the path of a file or folder that exists"


def test_names_that_are_almost_right_are_offered(repository: Path, engine: Engine) -> None:
    for ask in (
        lambda: engine.code.definitions(DefsRequest("puase_again", str(repository))),
        lambda: engine.code.references(RefsRequest("Waiter.puase_again", str(repository))),
        lambda: engine.code.calls(CallsRequest("puase_again()", str(repository))),
    ):
        with pytest.raises(NotFound) as raised:
            ask()
        assert "Did you mean pause_again" in raised.value.next_step


def test_on_the_command_line(repository: Path, codeinfo: Any) -> None:
    here = repository / "app"
    done = codeinfo("refs", "pause", "--json", cwd=here)
    assert '"usage_count": 6' in done.stdout
    for typed in (("pause", "the", "waiter"), ("search", "pause", "the", "waiter"), ("pause the waiter",)):
        found = codeinfo(*typed, "--json", cwd=here)
        assert '"query": "pause the waiter"' in found.stdout, found.stderr
    narrowed = codeinfo("search", "pause", "the", "waiter", "main.py", cwd=here)
    assert "main.py:1" in narrowed.stdout
    assert "wait.py" not in narrowed.stdout
    assert "searching only in main.py" in narrowed.stderr
    alone = codeinfo("map", "--root", "../lib", cwd=here)
    assert alone.stdout.startswith(f"{repository / 'lib'}  4 files")
    assert codeinfo("-V").stdout == codeinfo("--version").stdout
    assert "Write down something" in codeinfo("help", "memory", "add").stdout
    assert "add" in codeinfo("help", "memory").stdout
    assert os.path.basename(repository) in codeinfo("projects").stdout


def test_paths_are_shown_from_the_current_folder(repository: Path, codeinfo: Any) -> None:
    here = repository / "app"
    for command, shown in (
        (("refs", "pause"), ("../lib/again.py", "main.py", "../lib/pause.py:1")),
        (("defs", "pause"), ("../lib/pause.py:1",)),
        (("calls", "main"), ("main.py:4", "../lib/pause.py::pause")),
        (("cycles",), ("../lib/one.py:1", "../lib/two.py:1")),
        (("imports", "main.py"), ("main.py", "../lib/pause.py")),
    ):
        words = codeinfo(*command, cwd=here).stdout.split()
        assert set(shown) <= set(words), command
        assert not any(word.startswith(("lib/", "app/")) for word in words), command


def test_languages_by_the_names_that_people_use(repository: Path, engine: Engine) -> None:
    named = engine.search(SearchRequest("pause", (str(repository),), languages=("py", "C++")))
    assert {hit.path.rpartition(".")[2] for hit in named.hits} == {"py"}
    assert any("no file here is C++; there are: python" in note for note in named.notes)
    with pytest.raises(UsageError) as raised:
        engine.search(SearchRequest("pause", (str(repository),), languages=("pythn",)))
    assert raised.value.next_step == "Did you mean python?"


def test_a_line_that_is_not_there(repository: Path, engine: Engine) -> None:
    with pytest.raises(NotFound, match="has no code at line 99") as raised:
        engine.searches.similar(SimilarRequest("app/main.py:99", path=str(repository)))
    assert raised.value.next_step == "Its last line with code is 5"
    with pytest.raises(NotFound, match="not in the index") as raised:
        engine.searches.similar(SimilarRequest("app/mian.py:1", path=str(repository)))
    assert raised.value.next_step == "Did you mean app/main.py?"


def test_an_empty_line_between_two_chunks_stands_for_the_next_one(repository: Path, engine: Engine) -> None:
    body = "".join(f"    total += scale_{number}(weight_{number}, total)\n" for number in range(40))
    (repository / "app" / "weights.py").write_text(f"def weigh(total):\n{body}\n\ndef balance(total):\n{body}")
    found = engine.searches.similar(SimilarRequest("app/weights.py:42", path=str(repository)))
    assert found.query.startswith("similar to app/weights.py:44-")


def test_a_folder_that_must_not_be_read_is_blamed(tmp_path: Path, codeinfo: Any) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    if os.access(closed, os.R_OK):
        pytest.skip("this user may read everything")
    for arguments in (("search", "x", str(closed)), ("index", str(closed)), ("map", "--root", str(closed))):
        done = codeinfo(*arguments)
        assert done.returncode == 2
        assert "cannot be read: permission denied" in done.stderr


def test_only_trees_that_say_whose_they_are_count_as_indexed(tmp_path: Path) -> None:
    assert indexed_roots(tmp_path) == []
    roots = [Path(f"/src/{name}") for name in ("b", "a", "unmarked", "damaged")]
    for root in roots:
        folder = IndexFolder(tmp_path, root, family=Path("/src/family")).tree_path
        folder.mkdir(parents=True)
        if root.name != "unmarked":
            (folder / "root").write_text("/src/\0" if root.name == "damaged" else str(root))
    removed = tmp_path / "indexes" / ".removed-c" / "trees" / IndexFolder(tmp_path, Path("/src/c")).tree_path.name
    removed.mkdir(parents=True)
    (removed / "root").write_text("/src/c")
    (tmp_path / "indexes" / "note").write_text("no family")
    assert indexed_roots(tmp_path) == [Path("/src/a"), Path("/src/b")]
