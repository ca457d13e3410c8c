"""The walk, on real git repositories, real links and real special files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import msgpack

from codeinfo import Config, Engine
from codeinfo.errors import NotFound
from codeinfo.knowledge.history import History, _count_changes
from codeinfo.model import Walk, msgpack_decoder
from codeinfo.operations.code import MapRequest
from codeinfo.operations.search import IndexRequest
from codeinfo.sources import git
from codeinfo.sources.git import family_of
from codeinfo.sources.walk import KnownWalk, Memo, RevisionFiles, WalkSettings, walk, walk_from, why


def write(root: Path, *paths: str, text: str = "x = 1\n") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def run_git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(("git", *identity, *arguments), cwd=root, check=True, capture_output=True)


def paths(result: Walk) -> list[str]:
    return [file.path for file in result.files]


def rules_of(result: Walk) -> dict[str, str]:
    return {skip.path: skip.rule for skip in result.skipped}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def repository(plain: Path) -> Path:
    run_git(plain, "init", "-q")
    return plain


@pytest.fixture(params=["git", "plain"])
def root(request: pytest.FixtureRequest, plain: Path) -> Path:
    """The same expectations hold inside and outside a git work tree."""
    if request.param == "git":
        run_git(plain, "init", "-q")
    return plain


# --- ignore files --------------------------------------------------------------------------------------------------


def test_nested_gitignore_files_are_honoured(root: Path) -> None:
    write(root, "a.py", "skip.py", "sub/b.py", "sub/c.txt", "sub/deep/c.txt", "sub/keep/c.txt", "logs/x.py")
    (root / ".gitignore").write_text("skip.py\n/logs/\n*.txt\n")
    (root / "sub/keep/.gitignore").write_text("!c.txt\n")
    assert paths(walk(root)) == [".gitignore", "a.py", "sub/b.py", "sub/keep/.gitignore", "sub/keep/c.txt"]
    decision = why(root, "skip.py")
    assert (decision.included, decision.rule, decision.source) == (False, "gitignore", ".gitignore:1")
    assert why(root, "logs/x.py").source == ".gitignore:2"
    assert why(root, "sub/c.txt").source == ".gitignore:3"


def test_every_ignore_source_of_git_counts(repository: Path, home: Path) -> None:
    write(repository, "cache.py", "local.py", "global.py", "tracked.py")
    (repository / ".git/info/exclude").write_text("local.py\ntracked.py\n")
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/my-ignores\n")
    (home / "my-ignores").write_text("global.py\n")
    run_git(repository, "add", "-f", "tracked.py")
    assert paths(walk(repository)) == ["cache.py", "tracked.py"]
    assert why(repository, "global.py").source.endswith("my-ignores:1")
    assert why(repository, "local.py").source.endswith("info/exclude:1")


def test_default_global_excludes_file_counts(repository: Path, home: Path) -> None:
    write(repository, "cache.py", "global.py")
    write(home, ".config/git/ignore", text="global.py\n")
    assert paths(walk(repository)) == ["cache.py"]


def test_codeinfoignore_leaves_out_and_brings_back(root: Path) -> None:
    write(root, "a.py", "b.py", "ignored/x.py", "ignored/y.py", "vendor/ours/z.py", "vendor/theirs/z.py", "w.min.js")
    write(root, "sub/a.py", "sub/b.py")
    (root / ".gitignore").write_text("ignored/\n")
    (root / ".codeinfoignore").write_text("/b.py\n!ignored/x.py\n!vendor/ours/\n!*.min.js\n")
    (root / "sub/.codeinfoignore").write_text("a.py\n")
    expected = ["a.py", "ignored/x.py", "sub/b.py", "vendor/ours/z.py", "w.min.js"]
    assert [path for path in paths(walk(root)) if "ignore" not in Path(path).name] == expected
    assert why(root, "b.py").source == ".codeinfoignore:1"
    assert why(root, "sub/a.py").source == "sub/.codeinfoignore:1"
    back = why(root, "ignored/x.py")
    assert (back.included, back.rule, back.source) == (True, "codeinfoignore", ".codeinfoignore:2")
    assert why(root, "ignored/y.py").rule == "gitignore"
    assert why(root, "vendor/theirs/z.py").rule == "vendor-folder"


def test_a_secret_comes_back_only_when_named(root: Path) -> None:
    write(root, "certs/server.key", "certs/other.key", "certs/readme.md", ".env")
    (root / ".codeinfoignore").write_text("!certs/\n!*\n!certs/server.key\n")
    found = paths(walk(root))
    assert "certs/server.key" in found
    assert not {"certs/other.key", ".env"} & set(found)


def test_an_ignore_line_that_cannot_be_used_is_reported(root: Path) -> None:
    write(root, "a.py", "a" * 200 + ".py")
    (root / ".codeinfoignore").write_text("*a*a*a*a*a*a*a*b\n[z-a]\n")
    result = walk(root)
    assert "a.py" in paths(result)
    assert rules_of(result)[".codeinfoignore"] == "ignore-line"


# --- default rules -------------------------------------------------------------------------------------------------


def test_default_rules(root: Path) -> None:
    kept = [".env.example", "README", "go.mod", "lib/x.js", "lib/y-20240101.js", "src/app.py", "src/build/step.py"]
    kept.append("w/wwwroot/library/x.js")
    write(root, *kept)
    left_out = {
        "node_modules/": "node_modules/p/i.js",
        "build/": "build/o.py",
        "pkg/vendor/": "pkg/vendor/v.go",
        "web/wwwroot/lib/": "web/wwwroot/lib/jquery/jquery.js",
        "docs/App.docset/": "docs/App.docset/index.html",
        "package-lock.json": "package-lock.json",
        "poetry.lock": "poetry.lock",
        "app.min.js": "app.min.js",
        "static/chunk-STYC7MSS.js": "static/chunk-STYC7MSS.js",
        "static/main.3f2a1b4c.chunk.js": "static/main.3f2a1b4c.chunk.js",
        "api_pb2.py": "api_pb2.py",
        "logo.png": "logo.png",
    }
    secrets = [".env", ".env.local", "prod.env", "id_rsa", "id_ed25519.bak", "k.pem", "k.KEY", ".htpasswd", ".netrc"]
    write(root, *left_out.values(), *secrets)
    result = walk(root)
    assert paths(result) == kept
    rules = rules_of(result)
    assert set(left_out) <= set(rules)
    assert {rules[path] for path in secrets} == {"secret"}


def test_a_tracked_vendor_folder_is_left_out_and_says_so(repository: Path) -> None:
    write(repository, "vendor/lib.go", "main.go")
    run_git(repository, "add", "-A")
    assert paths(walk(repository)) == ["main.go"]
    assert why(repository, "vendor/lib.go").rule == "vendor-folder"


def test_folders_that_git_tracks_are_the_projects_unless_their_files_say_otherwise(repository: Path) -> None:
    own = ["build/release.py", "lang/vendor/de.php", "tools/dist/unit.service", "tools/target/x.py", "docs/out/y.py"]
    made = {
        "dist": ["app.js", "style.css"],
        "web/build": ["index.html", "main.3f2a1b4c.js"],
        "java/target": ["Main.java", "Main.class"],
        "web/out": ["a.js", "a.d.ts"],
        "coverage": ["report.py", "lcov.info"],
        "vendor": ["ours.rb"],
        "api/vendor": ["pkg.php"],
        "lib/vendor": ["copy.py", "copy/LICENSE"],
        "lib/third_party": ["other.py"],
    }
    write(repository, *own, "api/composer.json", *(f"{folder}/{name}" for folder in made for name in made[folder]))
    run_git(repository, "add", "-A")
    write(repository, "fresh/build/new.py")
    assert {*paths(walk(repository))} == {*own, "api/composer.json"}
    assert {skip.path for skip in walk(repository).skipped} == {f"{folder}/" for folder in (*made, "fresh/build")}
    assert why(repository, "build/release.py").included
    assert why(repository, "build").included
    assert why(repository, "fresh/build").rule == "build-folder"
    run_git(repository, "add", "-A")
    assert why(repository, "fresh/build/new.py").included
    run_git(repository, "commit", "-qm", "All")
    committed = RevisionFiles(repository, "HEAD").walk(WalkSettings())
    assert [file.path for file in committed.files] == paths(walk(repository))


def test_sizes_and_unknown_types(root: Path) -> None:
    write(root, "big.py", "licenses.json", text="x" * 1_000_001)
    write(root, "notes.unknown", "script")
    write(root, "dump.unknown", text="x" * 100_001)
    result = walk(root)
    assert paths(result) == ["notes.unknown", "script"]
    skips = {skip.path: skip for skip in result.skipped}
    assert (skips["big.py"].rule, skips["big.py"].matters) == ("too-large", True)
    assert skips["big.py"].detail == "1,000,001 bytes, and the limit is 1,000,000"
    assert (skips["licenses.json"].rule, skips["licenses.json"].matters) == ("too-large", False), "data says little"
    assert (skips["dump.unknown"].rule, skips["dump.unknown"].matters) == ("unknown-type", False)
    assert why(root, "big.py").source == "setting index.max_file_bytes"
    assert paths(walk(root, WalkSettings(max_file_bytes=2_000_000)))[0] == "big.py"


# --- links, special files, odd names -------------------------------------------------------------------------------


def test_links_are_never_followed(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.py")
    write(root, "a.py", "folder/b.py")
    (root / "to-outside.py").symlink_to(tmp_path / "outside/secret.py")
    (root / "to-a.py").symlink_to("a.py")
    (root / "outside").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(".")
    (root / "dangling.py").symlink_to("nowhere")
    result = walk(root)
    assert paths(result) == ["a.py", "folder/b.py"]
    assert {rules_of(result)[name] for name in ("to-outside.py", "to-a.py", "outside", "loop")} == {"symlink"}
    assert why(root, "outside/secret.py").rule == "symlink"
    assert why(root, "dangling.py").detail == "its target does not exist"
    assert why(root, "../outside/secret.py").rule == "outside-root"


@pytest.mark.skipif(not os.path.exists("/proc/self/exe"), reason="such links are those of Linux")
def test_a_link_that_cannot_be_read_is_skipped(root: Path) -> None:
    """As that of a process that has ended, of the kernel, or of another user."""
    write(root, "a.py")
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        (root / "link.py").symlink_to(f"/proc/{ended.pid}/exe")
        result = walk(root)
    assert paths(result) == ["a.py"]
    assert rules_of(result)["link.py"] == "symlink"


def test_a_tracked_folder_replaced_by_a_link_is_not_entered(repository: Path, tmp_path: Path) -> None:
    write(repository, "a.py", "folder/b.py")
    run_git(repository, "add", "-A")
    (repository / "folder").rename(tmp_path / "moved")
    (repository / "folder").symlink_to(tmp_path / "moved")
    assert paths(walk(repository)) == ["a.py"]


def test_a_file_in_too_many_folders_is_left_out(root: Path) -> None:
    deepest = "d/" * 200 + "here.py"
    write(root, "a.py", deepest)
    folder = root
    for _ in range(300):
        folder /= "e"
        folder.mkdir()
    write(folder, "b.py")
    assert paths(walk(root)) == ["a.py", deepest]
    assert why(root, "e/" * 300 + "b.py").rule == "too-deep"


def test_a_file_with_a_longer_path_than_a_team_can_store_is_left_out(root: Path) -> None:
    long = "/".join(["d" * 199] * 10)
    write(root, f"{long}.py", f"{long}/a.py")
    assert paths(walk(root)) == []
    write(root, f"{long[200:]}/a.py")
    assert paths(walk(root)) == [f"{long[200:]}/a.py"]
    assert why(root, f"{long}/a.py").rule == "too-deep"


def test_special_files_are_never_opened(root: Path) -> None:
    write(root, "a.py")
    os.mkfifo(root / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket.py"))
        result = walk(root)
    assert paths(result) == ["a.py"]
    assert why(root, "pipe.py").rule == "special-file"


def test_a_fifo_as_codeinfoignore_does_not_block(root: Path) -> None:
    write(root, "a.py")
    os.mkfifo(root / ".codeinfoignore")
    assert paths(walk(root)) == ["a.py"]


@pytest.mark.parametrize(
    "name",
    [".git/config", ".git/HEAD", ".git/index", ".git/info/exclude", ".gitignore", ".gitattributes", ".mailmap"],
)
def test_git_is_not_started_to_wait_for_a_fifo(plain: Path, name: str) -> None:
    run_git(plain, "init", "-q")
    write(plain, "a.py")
    (plain / name).parent.mkdir(exist_ok=True)
    (plain / name).unlink(missing_ok=True)
    os.mkfifo(plain / name)
    with pytest.raises(git.GitFailed, match=f"{name} is not a plain file"):
        git.run(plain, ("ls-files", "--others", "--exclude-standard"))
    with pytest.raises(git.GitFailed, match=f"{name} is not a plain file"):
        git.origin_of(plain)
    assert "a.py" in paths(walk(plain))


def test_a_fifo_where_git_has_its_folder_does_not_block(plain: Path) -> None:
    os.mkfifo(plain / ".git")
    assert family_of(plain) == plain
    write(plain, "a.py")
    with Engine(Config.load({"embedding.provider": "none", "index.workers": "1"}, plain)) as engine:
        assert engine.index(IndexRequest((str(plain),))).reports[0].files == 1
        assert engine.code.map(MapRequest(str(plain))).files == 1


def test_names_that_are_no_text_survive(root: Path) -> None:
    raw = os.fsencode(root) + b"/caf\xe9 \n.py"
    with open(raw, "w") as file:
        file.write("x = 1\n")
    result = walk(root)
    assert [os.fsencode(path) for path in paths(result)] == [b"caf\xe9 \n.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop root")
def test_an_unreadable_folder_is_reported(plain: Path) -> None:
    write(plain, "a.py", "closed/b.py")
    (plain / "closed").chmod(0)
    try:
        result = walk(plain)
    finally:
        (plain / "closed").chmod(0o755)
    assert paths(result) == ["a.py"]
    assert [skip.rule for skip in result.skipped if skip.matters] == ["unreadable"]


# --- repositories within repositories ------------------------------------------------------------------------------


def test_only_the_subfolder_asked_for(repository: Path) -> None:
    write(repository, "a.py", "sub/b.py", "sub/c.py", "sub/skip.py")
    (repository / ".gitignore").write_text("sub/skip.py\n")
    run_git(repository, "add", "sub/b.py")
    assert paths(walk(repository / "sub")) == ["b.py", "c.py"]


def test_nested_worktrees_and_repositories_are_skipped(repository: Path) -> None:
    write(repository, "a.py")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "first")
    run_git(repository, "worktree", "add", "-q", "trees/second")
    (repository / "clone").mkdir()
    run_git(repository / "clone", "init", "-q")
    write(repository, "clone/c.py")
    result = walk(repository)
    assert paths(result) == ["a.py"]
    assert rules_of(result) == {"trees/second/": "nested-worktree", "clone/": "nested-repository"}
    assert why(repository, "trees/second/a.py").rule == "nested-worktree"


def test_a_plain_folder_of_repositories(plain: Path) -> None:
    for name in ("one", "two"):
        (plain / name).mkdir()
        run_git(plain / name, "init", "-q")
        write(plain, f"{name}/a.py")
    run_git(plain / "one", "add", "-A")
    run_git(plain / "one", "commit", "-qm", "first")
    run_git(plain / "one", "worktree", "add", "-q", "../three")
    result = walk(plain)
    assert paths(result) == ["one/a.py", "two/a.py"]
    assert rules_of(result)["three/"] == "nested-worktree"


def test_submodules_are_a_setting(repository: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    run_git(library, "init", "-q")
    write(library, "l.py")
    run_git(library, "add", "-A")
    run_git(library, "commit", "-qm", "first")
    write(repository, "a.py")
    run_git(repository, "submodule", "--quiet", "add", str(library), "sub")
    without = walk(repository)
    assert "sub/l.py" not in paths(without)
    assert rules_of(without)["sub/"] == "submodule"
    assert why(repository, "sub/l.py").source == "setting index.submodules"
    assert "sub/l.py" in paths(walk(repository, WalkSettings(submodules=True)))


def test_a_folder_that_an_outer_repository_ignores_is_walked_plainly(repository: Path) -> None:
    write(repository, "inner/a.py")
    (repository / ".gitignore").write_text("inner/\n")
    result = walk(repository / "inner")
    assert paths(result) == ["a.py"]
    assert rules_of(result) == {".": "git-ignored-root"}


# --- git that fails, and repositories that attack ------------------------------------------------------------------


def test_without_git_the_walk_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "a.py", "skip.py")
    (repository / ".gitignore").write_text("skip.py\n")
    monkeypatch.setenv("PATH", str(repository / "nothing"))
    result = walk(repository)
    assert paths(result) == [".gitignore", "a.py"]
    assert [(skip.rule, skip.matters) for skip in result.skipped] == [("git-unavailable", True)]


def test_a_broken_repository_is_walked_plainly(plain: Path) -> None:
    write(plain, "a.py", ".git")
    result = walk(plain)
    assert "a.py" in paths(result)
    assert rules_of(result)["."] == "git-unavailable"


def test_deleted_files_are_not_listed(repository: Path) -> None:
    write(repository, "a.py", "gone.py")
    run_git(repository, "add", "-A")
    (repository / "gone.py").unlink()
    result = walk(repository)
    assert paths(result) == ["a.py"]
    assert rules_of(result)["gone.py"] == "missing"


def test_nothing_the_repository_names_is_executed(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    attack = tmp_path / "attack.sh"
    attack.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    attack.chmod(0o755)
    write(repository, "a.py", "b.py")
    (repository / ".gitattributes").write_text("*.py diff=evil filter=evil\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "first")
    for hook in ("post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"):
        (repository / ".git/hooks" / hook).write_text(attack.read_text())
        (repository / ".git/hooks" / hook).chmod(0o755)
    names = ("core.fsmonitor", "core.pager", "diff.external", "diff.evil.command", "diff.evil.textconv", "core.editor")
    more = ("filter.evil.clean", "filter.evil.process", "filter.evil.smudge", "gpg.program", "core.sshCommand")
    for name in (*names, *more):
        run_git(repository, "config", name, str(attack))
    run_git(repository, "config", "log.showSignature", "true")
    write(repository, "b.py", text="y = 2\n")
    assert "a.py" in paths(walk(repository))
    why(repository, "a.py")
    git.run(repository, ("log", "-p"))
    assert "b.py" in git.list_changed(repository, "HEAD")
    assert not marker.exists()


def test_a_repository_does_not_decide_how_its_history_is_written(repository: Path) -> None:
    write(repository, "a.py", "b.py")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "Begin with a café")
    run_git(repository, "checkout", "-qb", "side")
    write(repository, "a.py", text="y = 2\n" * 20)
    run_git(repository, "commit", "-qam", "Replace x with y because it is faster")
    run_git(repository, "mv", "a.py", "c.py")
    run_git(repository, "commit", "-qm", "Rename a to c")
    run_git(repository, "checkout", "-q", "-")
    write(repository, "b.py", text="z = 3\n")
    run_git(repository, "commit", "-qam", "Fix z: it was broken for everybody who used it")
    run_git(repository, "merge", "-q", "--no-ff", "-m", "Merge pull request #1 from side\n\nTake y everywhere", "side")

    def read() -> tuple[object, ...]:
        past = History(repository)
        changes = [*past.commits()], past.last_changes(time.time()), past.changes_with("c.py"), past.commit_ids()
        lines = past.blame("c.py"), past.commits_touching("c.py"), past.commits_touching("c.py", (1, 2))
        return past.memory_log(time.time()), *changes, *lines, _count_changes(repository, 30)

    before = read()
    assert "Take y everywhere" in str(before[0])
    names = repository / ".git/names"
    names.write_text("Somebody Else <test@example.org>\n")
    for name, value in (
        ("i18n.logOutputEncoding", "UTF-16"),
        ("i18n.commitEncoding", "ISO-8859-1"),
        ("color.ui", "always"),
        ("core.abbrev", "7"),
        ("diff.orderFile", "missing"),
        ("diff.renames", "copies"),
        ("diff.relative", "true"),
        ("diff.noprefix", "true"),
        ("blame.ignoreRevsFile", "missing"),
        ("blame.showEmail", "true"),
        ("format.pretty", "fuller"),
        ("log.date", "relative"),
        ("log.decorate", "full"),
        ("log.diffMerges", "off"),
        ("log.follow", "true"),
        ("log.showRoot", "false"),
        ("mailmap.file", str(names)),
    ):
        run_git(repository, "config", name, value)
    assert read() == before


def test_missing_objects_are_not_fetched_by_the_repository_s_command(repository: Path, tmp_path: Path) -> None:
    """A partial clone fetches what it misses; its configuration says how. Listing ignored files needs `.gitignore`."""
    marker = tmp_path / "executed"
    write(repository, "a.py")
    (repository / ".gitignore").write_text("never\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "first")
    run_git(repository, "update-index", "--skip-worktree", ".gitignore")
    (repository / ".gitignore").unlink()
    blob = subprocess.run(
        ("git", "rev-parse", ":.gitignore"), cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(repository)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", f"touch '{marker}'; git-upload-pack"),
        ("protocol.file.allow", "always"),
    ):
        run_git(repository, "config", name, value)
    assert "a.py" in paths(walk(repository))
    assert not marker.exists()
    subprocess.run(("git", "cat-file", "-p", blob), cwd=repository, capture_output=True)
    assert marker.exists(), "the attack does not work even against plain git: this test proves nothing"


def test_only_commands_that_leave_the_work_tree_alone(repository: Path) -> None:
    for arguments in (("status",), ("diff",), ("diff-index", "HEAD")):
        with pytest.raises(ValueError):
            git.run(repository, arguments)


def test_variables_of_the_caller_do_not_reach_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "a.py")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    assert paths(walk(repository)) == ["a.py"]


def test_changed_since(repository: Path) -> None:
    write(repository, "same.py", "committed.py", "staged.py", "edited.py", "sub/deep.py")
    (repository / "link.py").symlink_to("same.py")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "first")
    write(repository, "committed.py", text="y = 1\n")
    run_git(repository, "commit", "-qam", "second")
    write(repository, "staged.py", "edited.py", "new.py", "sub/new.py", text="longer = 1\n")
    run_git(repository, "add", "staged.py")
    os.utime(repository / "same.py", (1, 1))  # as in a copy
    os.utime(repository / "link.py", (1, 1), follow_symlinks=False)
    (repository / "sub/deep.py").unlink()
    os.mkfifo(repository / "sub/deep.py")  # what is no file any more is not opened
    expected = {"committed.py", "staged.py", "edited.py", "new.py", "sub/new.py", "sub/deep.py"}
    assert git.list_changed(repository, "HEAD~1") == expected
    assert git.list_changed(repository / "sub", "HEAD") == {"new.py", "deep.py"}
    run_git(repository, "update-index", "--skip-worktree", "same.py")  # as in a sparse work tree
    (repository / "same.py").unlink()
    assert git.list_changed(repository, "HEAD~1") == expected
    with pytest.raises(NotFound):
        git.list_changed(repository, "--output=/tmp/x")


# --- why and roots -------------------------------------------------------------------------------------------------


def test_why_agrees_with_walk(root: Path) -> None:
    write(root, "a.py", "b/c.md", "b/.env", "vendor/x.go", "dist/y.js", "skip/z.py", "l.lock", "n.unknown", "back/q.py")
    (root / ".gitignore").write_text("skip\nback\n")
    (root / ".codeinfoignore").write_text("!back/q.py\nb/*.md\n")
    included = set(paths(walk(root)))
    everything = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and ".git" not in p.parts]
    for path in everything:
        assert why(root, path).included == (path in included), path
    assert why(root, "nowhere.py").rule == "missing"
    assert why(root, "b").included
    assert why(root, "vendor").rule == "vendor-folder"


def test_why_looks_into_the_file(root: Path) -> None:
    write(root, "gen.go", text="// Code generated by stringer. DO NOT EDIT.\npackage x\n")
    (root / "data.txt").write_bytes(b"a\0b")
    assert why(root, "gen.go").rule == "generated"
    assert why(root, "data.txt").rule == "binary"
    (root / ".codeinfoignore").write_text("!gen.go\n")
    assert why(root, "gen.go").included


# --- a walk that begins with what the last one found ------------------------------------------------------------------


def known_tree(root: Path, outside: Path) -> None:
    """One of everything that a walk decides about."""
    write(
        root,
        "a.py",
        "lib/b.py",
        "lib/deep/c.py",
        "notes",
        "lib/logo.png",
        "vendor/v.py",
        "out/o.py",
        "lib/local.py",
        "lib/.env",
    )
    write(root, "big.py", "data.unknown", text="x = 1\n" * 200_000)
    write(root, "lib/.gitignore", text="local.py\n")
    write(root, ".codeinfoignore", text="lib/deep/d.py\n")
    write(outside, "o.py")
    (root / "to-a.py").symlink_to("a.py")
    (root / "to-outside").symlink_to(outside)
    os.mkfifo(root / "pipe.py")
    (root / "clone").mkdir()
    write(root, "clone/.git", text="gitdir: nowhere\n")
    write(root, "clone/e.py")


def rewrite(path: Path, text: str) -> None:
    """Another content of the same time."""
    status = path.stat()
    path.write_text(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def instead(path: Path) -> Path:
    """The place of a file, a link or a folder, which is gone."""
    path.rename(path.parents[1] / f"moved-{path.name}") if path.is_dir() else path.unlink()
    return path


def stage(root: Path) -> None:
    run_git(root, "init", "-q")
    run_git(root, "add", "-A", "--", "a.py", "vendor", "out")


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda root: (root / "lib/b.py").write_text("y = 10\n"),
    "same size, other time": lambda root: os.utime(root / "lib/b.py", ns=(1, 1)),
    "same time, other size": lambda root: rewrite(root / "lib/b.py", "longer = 1\n"),
    "new": lambda root: write(root, "lib/new.py"),
    "new in a new folder": lambda root: write(root, "fresh/folder/new.py"),
    "deleted": lambda root: (root / "lib/deep/c.py").unlink(),
    "deleted folder": lambda root: shutil.rmtree(root / "lib"),
    "renamed": lambda root: (root / "lib/b.py").rename(root / "lib/bb.py"),
    "moved": lambda root: (root / "lib/b.py").rename(root / "lib/deep/b.py"),
    "replaced": lambda root: (root / "notes").rename(root / "a.py"),
    "ignore file edited, same size and time": lambda root: rewrite(root / "lib/.gitignore", "b*y     \n"),
    "ignore file new": lambda root: write(root, "lib/deep/.gitignore", text="c.py\n"),
    "ignore file gone": lambda root: (root / "lib/.gitignore").unlink(),
    "ignore file is a folder": lambda root: instead(root / "lib/.gitignore").mkdir(),
    "overrides edited, same size and time": lambda root: rewrite(root / ".codeinfoignore", "lib/deep/c.py\n"),
    "overrides bring back": lambda root: write(root, ".codeinfoignore", text="!vendor/\n!lib/local.py\n!.env\n"),
    "overrides gone": lambda root: (root / ".codeinfoignore").unlink(),
    "nested overrides": lambda root: write(root, "lib/.codeinfoignore", text="b.py\n"),
    "refused line": lambda root: write(root, ".codeinfoignore", text="a*b*c*d*e*f\n"),
    "file is a link": lambda root: instead(root / "a.py").symlink_to("lib/b.py"),
    "file is a folder": lambda root: write(instead(root / "a.py"), "inner.py"),
    "file is a pipe": lambda root: os.mkfifo(instead(root / "a.py")),
    "picture is a folder": lambda root: write(instead(root / "lib/logo.png"), "inner.py"),
    "ignored file is a folder": lambda root: write(instead(root / "lib/local.py"), "inner.py"),
    "folder is a file": lambda root: write(root, str(instead(root / "lib/deep").relative_to(root))),
    "folder is a link": lambda root: instead(root / "lib/deep").symlink_to(root / "vendor"),
    "folder is a link to itself elsewhere": lambda root: (root / "lib/deep").symlink_to(
        (root / "lib/deep").rename(root.parent / "elsewhere")
    ),
    "link is a file": lambda root: write(root, str(instead(root / "to-a.py").relative_to(root))),
    "link is a folder": lambda root: write(instead(root / "to-outside"), "inner.py"),
    "link leads elsewhere": lambda root: instead(root / "to-a.py").symlink_to("/"),
    "pipe is a file": lambda root: write(root, str(instead(root / "pipe.py").relative_to(root))),
    "grown too large": lambda root: write(root, "a.py", text="x = 1\n" * 200_000),
    "no longer too large": lambda root: write(root, "big.py"),
    "unknown type, small now": lambda root: write(root, "data.unknown"),
    "unknown type, large now": lambda root: write(root, "notes", text="x = 1\n" * 20_000),
    "clone is a work tree": lambda root: write(root, "clone/.git", text="gitdir: /elsewhere/.git/worktrees/clone\n"),
    "clone is none any more": lambda root: (root / "clone/.git").unlink(),
    "it is a repository now": lambda root: run_git(root, "init", "-q"),
    "it is none any more": lambda root: shutil.rmtree(root / ".git", ignore_errors=True),
    "staged": stage,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_walk_from_a_memo_is_a_walk(root: Path, tmp_path: Path, change: Callable[[Path], object]) -> None:
    known_tree(root, tmp_path / "outside")
    first = walk_from(None, root)
    assert isinstance(first, KnownWalk)
    assert Walk(first.files, first.skipped) == walk(root)
    memo = msgpack_decoder(Memo).decode(msgpack.encode(first.memo))
    memo.indexed_as = "known"
    same = walk_from(memo, root)
    assert isinstance(same, KnownWalk)
    assert same.memo is memo  # no name was judged again
    change(root)
    expected = walk(root)
    found = walk_from(memo, root)
    assert Walk(found.files, found.skipped) == expected
    if isinstance(found, KnownWalk):
        assert (found.memo.indexed_as == "known") == (found.files == first.files and found.memo is memo)
        again = walk_from(found.memo, root)
        assert Walk(again.files, again.skipped) == expected


def test_every_change_is_one(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    silent = set()
    for number, (name, change) in enumerate(CHANGES.items()):
        root = tmp_path / str(number) / "tree"
        known_tree(root, tmp_path / str(number) / "outside")
        before = walk(root)
        change(root)
        if walk(root) == before:
            silent.add(name)
    assert silent == {"it is none any more"}  # a plain folder never was


def test_other_settings_judge_again(repository: Path) -> None:
    write(repository, "a.py", "manual.pdf")
    first = walk_from(None, repository)
    assert isinstance(first, KnownWalk)
    assert paths(first) == ["a.py"]
    assert paths(walk_from(first.memo, repository, WalkSettings(documents=True))) == ["manual.pdf"]


def test_other_rules_judge_again(root: Path) -> None:
    """As after an upgrade that leaves out more."""
    write(root, "a.py")
    first = walk_from(None, root)
    assert isinstance(first, KnownWalk)
    first.memo.skipped, first.memo.files, first.memo.rules = [], (), "older"
    assert paths(walk_from(first.memo, root)) == ["a.py"]


def test_what_git_may_not_list_is_walked_each_time(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "a.py")
    known = walk_from(None, repository)
    assert isinstance(known, KnownWalk)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(repository / "nothing"))
        assert walk_from(known.memo, repository) == walk(repository)
