"""After a change a lasting engine looks at what the kernel says has changed, and finds what a walk would find."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from codeinfo import Config, Engine, SearchRequest
from codeinfo.engine.index_sources import Source
from codeinfo.model import Walk
from codeinfo.serve import refresh
from codeinfo.serve.refresh import Watch, server_engine
from codeinfo.sources.read import Files
from codeinfo.sources.walk import rewalk, walk
from codeinfo.store.sqlite import SqliteStore

CODE = "def {name}():\n    return 0\n"


class CountingSource:
    def __init__(self, source: Source, project: Project) -> None:
        self._source, self._project = source, project

    def walk(self, store: SqliteStore | None) -> tuple[Files, Walk]:
        self._project.walks += 1
        return self._source.walk(store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class Project:
    """A tree with an engine that lasts, and how often it was walked."""

    def __init__(self, root: Path, engine: Engine) -> None:
        self.root, self.engine, self.walks = root, engine, 0
        index = engine.indexes.of(root)
        index.source = cast(Any, CountingSource(index.source, self))

    def write(self, path: str, name: str) -> None:
        (self.root / path).write_text(CODE.format(name=name))

    def paths(self, query: str) -> list[str]:
        found = self.engine.search(SearchRequest(query, (str(self.root),)))
        return [hit.path for hit in found.hits if query in hit.text]


@pytest.fixture(params=["git", "plain"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(refresh, "WALK_AGAIN_S", 3600.0)
    root = tmp_path / "tree"
    (root / "lib").mkdir(parents=True)
    for name in ("alpha", "beta", "gamma"):
        (root / "lib" / f"{name}.py").write_text(CODE.format(name=name))
        os.utime(root / "lib" / f"{name}.py", (1, 1))  # what was written a moment ago is looked at again
    (root / ".gitignore").write_text("*.log\n")
    if request.param == "git":
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    with server_engine(Config.load()) as engine:
        made = Project(root, engine)
        assert made.paths("alpha") == ["lib/alpha.py"]
        made.walks = 0
        yield made


def replace(project: Project) -> None:
    """As most editors and agents save."""
    project.write("lib/.alpha.tmp", "delta")
    os.replace(project.root / "lib/.alpha.tmp", project.root / "lib/alpha.py")


def generation_of(project: Project) -> str:
    store = project.engine.indexes.of(project.root).live_store()
    assert store is not None
    return str(store.meta()["generation"])


def test_a_file_that_is_written_to_needs_no_walk(project: Project) -> None:
    for turn in range(3):
        project.write("lib/alpha.py", f"delta_{turn}")
        assert project.paths(f"delta_{turn}") == ["lib/alpha.py"]
    replace(project)
    assert project.paths("delta") == ["lib/alpha.py"]
    assert project.paths("alpha") == []
    os.utime(project.root / "lib/beta.py", (1, 1))
    assert project.paths("beta") == ["lib/beta.py"]
    assert project.walks == 0


def test_an_edit_is_noticed_although_size_and_time_stay(project: Project) -> None:
    file = project.root / "lib" / "alpha.py"
    os.utime(file, (1, 1))  # one younger than a tenth of a second is looked at again anyway
    assert project.paths("alpha") == ["lib/alpha.py"]
    for name, beside in (("delta", "lib/beta.py"), ("omega", "lib/new.py")):  # by a look, and by a walk
        before = file.stat()
        project.write("lib/alpha.py", name)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        project.write(beside, "kappa")
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        assert project.paths(name) == ["lib/alpha.py"]
    assert project.walks == 1
    walked, generation = project.walks, generation_of(project)
    file.write_bytes(file.read_bytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert project.paths("omega") == ["lib/alpha.py"]
    assert generation_of(project) == generation
    assert project.walks == walked


def test_what_no_index_has_needs_no_walk_when_it_is_written_to(project: Project) -> None:
    (project.root / "lib" / "run.log").write_text("started\n")
    assert project.paths("alpha")
    assert project.walks == 1  # it might have been a file for the index
    (project.root / "lib" / "run.log").write_text("alpha goes on\n")
    assert project.paths("alpha") == ["lib/alpha.py"]
    assert project.walks == 1


@pytest.mark.parametrize(
    ("change", "query", "expected"),
    [
        (lambda root: (root / "lib/new.py").write_text(CODE.format(name="omega")), "omega", ["lib/new.py"]),
        (lambda root: (root / "lib/alpha.py").unlink(), "alpha", []),
        (lambda root: os.rename(root / "lib/alpha.py", root / "lib/omega.py"), "alpha", ["lib/omega.py"]),
        (lambda root: os.rename(root / "lib", root / "src"), "alpha", ["src/alpha.py"]),
        (lambda root: (root / ".gitignore").write_text("al*.py\n"), "alpha", []),
        (lambda root: (root / ".codeinfoignore").write_text("al*.py\n"), "alpha", []),
        (lambda root: (root / "lib/alpha.py").write_text("x" * 2_000_000), "alpha", []),
        (lambda root: link(root / "lib/alpha.py"), "alpha", []),
    ],
)
def test_whatever_else_changes_is_found_by_a_walk(
    project: Project, change: Callable[[Path], object], query: str, expected: list[str]
) -> None:
    change(project.root)
    assert project.paths(query) == expected
    assert project.walks == 1
    project.write("beta.py" if not (project.root / "lib").exists() else "lib/beta.py", "psi")
    assert project.paths("psi")


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to("beta.py")


def test_a_folder_that_is_brought_back_is_watched_like_the_others(project: Project) -> None:
    (project.root / "lib" / "vendor").mkdir()
    project.write("lib/vendor/kept.py", "omega")
    assert project.paths("omega") == []
    (project.root / "lib" / ".codeinfoignore").write_text("!vendor/kept.py\n")
    assert project.paths("omega") == ["lib/vendor/kept.py"]
    project.write("lib/vendor/kept.py", "psi")
    assert project.paths("psi") == ["lib/vendor/kept.py"]


def test_a_build_folder_that_git_tracks_is_watched_like_the_others(project: Project) -> None:
    (project.root / "build").mkdir()
    project.write("build/release.py", "omega")
    assert project.paths("omega") == []
    if (project.root / ".git").exists():
        subprocess.run(["git", "-C", str(project.root), "add", "build"], check=True)
        (project.root / "lib" / "more").mkdir()
        assert project.paths("omega") == ["build/release.py"]
        project.write("build/release.py", "psi")
        assert project.paths("psi") == ["build/release.py"]


def test_many_changed_files_are_walked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "MOST_CHANGED", 2)
    for name in ("alpha", "beta", "gamma"):
        project.write(f"lib/{name}.py", f"{name}_two")
    assert project.paths("beta_two") == ["lib/beta.py"]
    assert project.walks == 1


def test_edits_do_not_put_off_the_next_walk(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("lib/alpha.py", "delta")
    assert project.paths("delta")
    monkeypatch.setattr(refresh, "WALK_AGAIN_S", 0.0)
    assert project.paths("delta")
    assert project.walks == 1


def test_after_a_look_that_failed_everything_is_looked_at(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    index_manager = project.engine.indexes.of(project.root)
    project.write("lib/alpha.py", "delta")
    with monkeypatch.context() as patched:
        patched.setattr(index_manager, "known_contents", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            project.paths("delta")
    assert project.paths("delta") == ["lib/alpha.py"]
    assert project.walks == 1


def test_an_index_that_another_engine_wrote_is_compared_as_a_whole(project: Project) -> None:
    project.write("lib/alpha.py", "delta")
    with Engine(Config.load()) as other:
        assert other.search(SearchRequest("delta", (str(project.root),))).hits
    project.write("lib/beta.py", "epsilon")
    assert project.paths("epsilon") == ["lib/beta.py"]
    assert project.paths("delta") == ["lib/alpha.py"]
    assert project.walks == 1


def test_being_asked_to_index_is_more_than_a_look(project: Project) -> None:
    from codeinfo import IndexRequest

    project.write("lib/alpha.py", "delta")
    assert project.engine.index(IndexRequest((str(project.root),))).reports[0].changed == 1
    assert project.walks == 1


# --- any change ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("with_git", [True, False])
def test_a_look_at_the_changes_finds_what_a_walk_finds(tmp_path: Path, seed: int, with_git: bool) -> None:
    chance = random.Random(seed)
    if with_git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for path in PLACES[:8]:
        change_file(tmp_path / path, chance)
    restarted = Watch(tmp_path)
    restarted.start()
    seen, looks = walk(tmp_path), 0
    for _ in range(60):
        for _ in range(chance.randint(1, 3)):
            chance.choice(CHANGES)(tmp_path / chance.choice(PLACES), chance)
        events = restarted.start()
        again = rewalk(tmp_path, seen, events.files) if events.are_all else None
        now = walk(tmp_path)
        if again is not None:
            assert again.files == now.files
            looks += 1
        seen = now
    restarted.close()
    assert looks >= 5  # or this would have shown nothing


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_the_index_has_what_is_there(tmp_path: Path, seed: int) -> None:
    chance, root = random.Random(seed), tmp_path / "tree"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    with server_engine(Config.load({"embedding.provider": "none"})) as engine:
        for _ in range(40):
            for _ in range(chance.randint(1, 3)):
                chance.choice(CHANGES)(root / chance.choice(PLACES), chance)
            engine.search(SearchRequest("anything", (str(root),)))
            store = engine.indexes.of(root).live_store()
            assert store is not None
            indexed = {path: row.sha256 for path, row in store.manifest().items()}
            there = {file.path: sha256((root / file.path).read_bytes()).hexdigest() for file in walk(root).files}
            assert indexed == there


PLACES = (
    "a.py", "b.py", "lib/a.py", "lib/b.py", "lib/deep/a.py", "notes", "lib/notes.md", "lib/deep/big.json", "run.log",
    "lib/run.log", "lib/more/c.py", ".gitignore", "lib/.gitignore", ".codeinfoignore", "node_modules/a.py", ".env",
)  # fmt: skip


def change_file(place: Path, chance: random.Random) -> None:
    if place.is_dir() or place.is_symlink():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if "ignore" in place.name:
        place.write_text("".join(f"{line}\n" for line in chance.sample(["*.log", "b.py", "!a.py", "deep/"], 2)))
    else:
        place.write_text("x" * chance.choice([0, 10, 200, 150_000, 1_500_000]))


def rewrite_file(place: Path, chance: random.Random) -> None:
    if place.is_file() and not place.is_symlink() and "ignore" not in place.name:
        place.write_text("y" * chance.choice([5, 50, 500]))


def replace_file(place: Path, chance: random.Random) -> None:
    if place.is_file() and "ignore" not in place.name:
        other = place.with_name(".saved")
        other.write_text("z" * chance.randint(1, 99))
        os.replace(other, place)


def remove_file(place: Path, chance: random.Random) -> None:
    if place.is_file():
        place.unlink()


def edit_unseen(place: Path, chance: random.Random) -> None:
    """Neither size nor time tell."""
    if place.is_file() and not place.is_symlink() and "ignore" not in place.name:
        before = place.stat()
        place.write_text(chance.choice("uvw") * before.st_size)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def move_folder(place: Path, chance: random.Random) -> None:
    target = place.parent.with_name("moved")
    if place.parent.name in ("deep", "more") and place.parent.is_dir() and not target.exists():
        place.parent.rename(target)


def link_file(place: Path, chance: random.Random) -> None:
    if place.is_file():
        place.unlink()
        place.symlink_to("a.py")


def close_file(place: Path, chance: random.Random) -> None:
    if place.is_file() and not place.is_symlink():
        place.chmod(chance.choice([0o600, 0o644]))


CHANGES = (
    change_file, *[rewrite_file] * 6, *[replace_file] * 3, edit_unseen, remove_file, move_folder, link_file, close_file,
)  # fmt: skip
