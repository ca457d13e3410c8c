"""Which folders may be indexed at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import RootRefused, UsageError
from codeinfo.files import resolve_root


def test_roots_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "work" / ".git").mkdir(parents=True)
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    for refused in (Path("/"), home, home.parent, Path("/etc"), Path("/usr"), tmp_path / "work" / ".git", bare):
        with pytest.raises(RootRefused):
            resolve_root(refused)
    (tmp_path / "file.py").write_text("x = 1\n")
    for unusable in (tmp_path / "nowhere", tmp_path / "file.py"):
        with pytest.raises(UsageError) as raised:
            resolve_root(unusable)
        assert not isinstance(raised.value, RootRefused)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError):
        resolve_root(tmp_path / "loop")
    (home / "project").mkdir()
    assert resolve_root(home / "project") == str((home / "project").resolve())


def test_a_path_that_leads_elsewhere_by_now_is_followed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(f"def {name}():\n    pass\n")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "one")
    with Engine(Config.load({"paths.cache_dir": str(tmp_path / "cache")}, tmp_path)) as engine:
        assert engine.indexes.of(link).root == tmp_path / "one"
        link.unlink()
        link.symlink_to(tmp_path / "two")
        assert engine.indexes.of(link).root == tmp_path / "two"
        link.unlink()
        with pytest.raises(UsageError, match="does not exist"):
            engine.indexes.of(link)
