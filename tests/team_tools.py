"""The team's repository with its fixed dates, and an engine whose clock stands at the day they are reckoned for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from codeinfo.config import Config
from codeinfo.engine import Engine


def _script() -> ModuleType:
    path = Path(__file__).parent / "fixtures" / "team" / "build.py"
    spec = importlib.util.spec_from_file_location("team_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_BUILD = _script()
NOW: int = _BUILD.NOW
DAY: int = _BUILD.DAY


def build_team(folder: Path) -> Path:
    root: Path = _BUILD.build(folder)
    return root


def build_history(folder: Path, *commits: tuple[int, str, dict[str, str]]) -> Path:
    """A repository of commits, each so many days before NOW, by somebody, with some files."""
    rows = [(days, author, "change", "", files) for days, author, files in commits]
    root: Path = _BUILD.build(folder, rows)
    return root


def engine_of(root: Path) -> Engine:
    """Keyword search only, so that no model has a say in what is expected."""
    engine = Engine(Config.load({"embedding.provider": "none", "index.workers": "1"}, root))
    engine.knowledge.clock = lambda: float(NOW)
    return engine
