"""Which folders may be indexed at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeinfo.errors import RootRefused, UsageError
from codeinfo.sources.walk import check_root


def test_roots_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for refused in (Path("/"), home, home.parent, Path("/etc"), Path("/usr")):
        with pytest.raises(RootRefused):
            check_root(refused)
    (tmp_path / "file.py").write_text("x = 1\n")
    for unusable in (tmp_path / "nowhere", tmp_path / "file.py"):
        with pytest.raises(UsageError) as raised:
            check_root(unusable)
        assert not isinstance(raised.value, RootRefused)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError):
        check_root(tmp_path / "loop")
    (home / "project").mkdir()
    assert check_root(home / "project") == (home / "project").resolve()
