"""Mirrors of repositories that a real git server serves: refs, credentials, addresses, damage, killed fetches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_server import GitServer, serving
from patience import wait_until
from repository_tools import Repository

from codeinfo.downloads import AddressRefused, HostPolicy
from codeinfo.errors import NotFound, ProviderError, UsageError
from codeinfo.files import try_lock
from codeinfo.sources.walk import RevisionFiles, WalkSettings
from codeinfo.team.mirror import Mirror, Mirrors

HERE = HostPolicy(frozenset({"127.0.0.1"}))


@pytest.fixture
def upstream(tmp_path: Path) -> Repository:
    (tmp_path / "served").mkdir()
    repository = Repository(tmp_path / "served" / "shop")
    repository.commit("Begin", {"shop.py": "def sell():\n    return 1\n", "docs/a.md": "# Shop\n"})
    return repository


@pytest.fixture
def server(upstream: Repository) -> Iterator[GitServer]:
    with serving(upstream.folder.parent) as running:
        yield running


def mirror_of(tmp_path: Path, server: GitServer, name: str = "shop", credentials: str = "") -> Mirror:
    return Mirrors(tmp_path / "mirrors", HERE, credentials).of(server.url(name))


def test_branches_and_tags_are_followed(tmp_path: Path, upstream: Repository, server: GitServer) -> None:
    first = upstream.git("rev-parse", "HEAD")
    upstream.git("tag", "v1")
    upstream.git("tag", "-a", "-m", "Second", "v2")
    mirror = mirror_of(tmp_path, server)
    assert not mirror.has(first)
    mirror.fetch()
    assert mirror.refs() == {"refs/heads/main": first, "refs/tags/v1": first, "refs/tags/v2": first}
    assert mirror.default_ref() == "refs/heads/main"
    assert mirror.has(first)
    upstream.git("checkout", "-q", "-b", "topic")
    second = upstream.commit("Go on", {"more.py": "x = 1\n"})
    upstream.git("tag", "-d", "v1")
    mirror.ensure(second)
    assert mirror.refs() == {"refs/heads/main": first, "refs/heads/topic": second, "refs/tags/v2": first}
    walked = RevisionFiles(mirror.folder, second).walk(WalkSettings())
    assert sorted(file.path for file in walked.files) == ["docs/a.md", "more.py", "shop.py"]
    with pytest.raises(NotFound):
        mirror.ensure("0" * 40)


def test_a_private_address_needs_a_setting(tmp_path: Path, server: GitServer) -> None:
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1.*not a public address"):
        Mirrors(tmp_path, HostPolicy()).of(server.url("shop")).fetch()
    assert server.requests == []
    for address in ("file:///etc", "/etc", "ext::sh -c id", "--upload-pack=id", "host:../x"):
        with pytest.raises(UsageError):
            Mirrors(tmp_path, HERE).of(address)


def test_credentials_come_from_the_service_alone(
    tmp_path: Path, upstream: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[http]\n\textraHeader = Authorization: Basic dTpw\n")  # u:p
    (tmp_path / "home" / ".netrc").write_text("machine 127.0.0.1 login u password p\n")
    window, shown = tmp_path / "window", tmp_path / "shown"
    window.write_text(f"#!/bin/sh\ntouch {shown}\necho u\n")
    window.chmod(0o700)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SSH_ASKPASS", str(window))
    file = tmp_path / "credentials"
    with serving(upstream.folder.parent, "u:p") as server:
        with pytest.raises(ProviderError, match=r"cannot be fetched.*(terminal prompts disabled|could not read)"):
            mirror_of(tmp_path, server).fetch()
        assert not shown.exists(), "nobody is asked for a password"
        file.write_text(f"https://u:wrong@example.org\nhttp://u:p@127.0.0.1:{server.server_port}\n")
        file.chmod(0o644)
        with pytest.raises(UsageError, match="others can read"):
            mirror_of(tmp_path, server, credentials=str(file)).fetch()
        file.chmod(0o600)
        mirror = mirror_of(tmp_path, server, credentials=str(file))
        mirror.fetch()
        assert "refs/heads/main" in mirror.refs()
        assert "u:p" not in (mirror.folder / "config").read_text()
        with pytest.raises(ProviderError, match="cannot be fetched"):
            mirror_of(tmp_path, server, "nothing", credentials=str(file)).fetch()


def test_nothing_of_a_repository_is_executed(tmp_path: Path, upstream: Repository, server: GitServer) -> None:
    """Hooks and programs that a repository, or somebody who reaches the mirror, names stay where they are."""
    mirror = mirror_of(tmp_path, server)
    mirror.fetch()
    trap = tmp_path / "trapped"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho >> {trap}\n")
    program.chmod(0o755)
    (mirror.folder / "hooks").mkdir()
    for name in ("post-update", "reference-transaction", "pre-auto-gc", "post-fetch"):
        (mirror.folder / "hooks" / name).write_bytes(program.read_bytes())
        (mirror.folder / "hooks" / name).chmod(0o755)
    with (mirror.folder / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {program}\n\tsshCommand = {program}\n\taskPass = {program}\n")
        config.write(f"[credential]\n\thelper = !{program}\n[diff]\n\texternal = {program}\n")
    upstream.commit("More", {".gitattributes": "*.py diff=x filter=x\n", "b.py": "y = 2\n"})
    mirror.fetch()
    RevisionFiles(mirror.folder, mirror.refs()["refs/heads/main"]).walk(WalkSettings())
    assert not trap.exists()


def test_a_damaged_mirror_is_made_again(tmp_path: Path, upstream: Repository, server: GitServer) -> None:
    mirror = mirror_of(tmp_path, server)
    mirror.fetch()
    (mirror.folder / "config").write_text("[core\n")
    commit = upstream.commit("Again", {"c.py": "z = 3\n"})
    mirror.fetch()
    assert mirror.refs()["refs/heads/main"] == commit


def test_a_killed_fetch_does_not_stand_in_the_way(tmp_path: Path, upstream: Repository, server: GitServer) -> None:
    mirror = mirror_of(tmp_path, server)
    mirror.fetch()
    for left in ("packed-refs.lock", "refs/heads/main.lock", "HEAD.lock", "objects/pack/tmp_pack_x"):
        (mirror.folder / left).parent.mkdir(parents=True, exist_ok=True)
        (mirror.folder / left).touch()
    upstream.git("branch", "-q", "other")
    upstream.git("branch", "-D", "-q", "other")
    commit = upstream.commit("Go on", {"d.py": "w = 4\n"})
    mirror.fetch()
    assert mirror.refs()["refs/heads/main"] == commit
    assert not list(mirror.folder.glob("objects/pack/tmp_*"))


def test_the_lock_of_a_killed_worker_lasts_as_long_as_its_git(tmp_path: Path) -> None:
    """Otherwise two gits would write to one mirror."""
    program = (
        "import os, sys, subprocess; from pathlib import Path\n"
        "from codeinfo.downloads import HostPolicy; from codeinfo.team.mirror import Mirrors\n"
        "from codeinfo.sources import git\n"
        "wait = ['sh', '-c', 'touch started; exec sleep 3']\n"
        "def slow(folder, remote, lock): git._execute(wait, folder, {}, b'', (0,), 9, (lock,))\n"
        "git.fetch_mirror = slow\n"
        "Mirrors(Path(sys.argv[1]), HostPolicy(frozenset({'127.0.0.1'}))).of('http://127.0.0.1:9/x/y').fetch()\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], start_new_session=True)
    folder = Mirrors(tmp_path, HERE).of("http://127.0.0.1:9/x/y").folder
    wait_until((folder / "started").exists)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    handle = os.open(folder / "lock", os.O_RDWR)
    try:
        assert not try_lock(handle, folder)
        wait_until(lambda: try_lock(handle, folder))
    finally:
        os.close(handle)


def test_mirrors_are_bounded_and_one_in_use_stays(tmp_path: Path, upstream: Repository, server: GitServer) -> None:
    noise = {f"data{n}.txt": os.urandom(20_000).hex() for n in range(10)}
    for name in ("one", "two", "three"):
        Repository(tmp_path / "served" / name).commit("Begin", noise)
    mirrors = [mirror_of(tmp_path, server, name) for name in ("one", "two", "three")]
    for at, mirror in enumerate(mirrors):
        with mirror.in_use():
            mirror.fetch()
        os.utime(mirror.folder / "use", (at, at))
    one, two, three = mirrors
    bounded = Mirrors(tmp_path / "mirrors", HERE, most_bytes=500_000)  # each has about 250,000
    with one.in_use():
        os.utime(one.folder / "use", (0, 0))
        bounded.make_room()
        assert [(mirror.folder / "HEAD").exists() for mirror in mirrors] == [True, False, True]
    with two.in_use():
        two.fetch()  # it comes back when it is asked for
        bounded.make_room()
    assert [(mirror.folder / "HEAD").exists() for mirror in mirrors] == [False, True, True]
    with three.in_use():
        bounded.keep_only([])
        assert (three.folder / "HEAD").exists()
        assert not (two.folder / "HEAD").exists()
    bounded.keep_only([])
    assert not (three.folder / "HEAD").exists()
