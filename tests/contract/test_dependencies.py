"""What is pinned by version is pinned by hash too."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = next(folder for folder in Path(__file__).resolve().parents if (folder / "constraints.txt").exists())


def test_every_pinned_version_has_hashes() -> None:
    pinned = set(re.findall(r"(?m)^([\w.-]+==\S+)", (REPOSITORY / "constraints.txt").read_text()))
    hashed = re.findall(
        r"(?m)^([\w.-]+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
        (REPOSITORY / "requirements-hashed.txt").read_text(),
    )
    assert {pin for pin, _ in hashed} == pinned, "run python tools/dependencies.py hashes"
    assert all(hashes for _, hashes in hashed)
