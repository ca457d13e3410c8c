"""The soak runs as root at times: what it does to a project stays in its own folder."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest


def test_hostile_repositories_have_no_link_to_a_file_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "soak"))
    import hostile_repositories as hostile

    chance, links = random.Random(1), 0
    for number in range(60):
        project = tmp_path / str(number) / "project"
        project.mkdir(parents=True)
        world = SimpleNamespace(project=project, restore=lambda: None)
        hostile.write_repository(world, chance)  # type: ignore[arg-type]
        for path in project.rglob("*"):
            if path.is_symlink():
                links += 1
                assert path.resolve().is_relative_to(project.parent), path
    assert links > 10
