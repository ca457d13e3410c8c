"""A slice of the random probes: `python tests/access_probes.py` does 10,000 over 50 projects."""

from __future__ import annotations

from pathlib import Path

from access_probes import probe


def test_no_probe_finds_anything_of_a_project_that_its_user_may_not_see(postgres: str, tmp_path: Path) -> None:
    found = probe(postgres, tmp_path, probes=250, projects=6, seed=7)
    assert not found.leaks, "\n".join(found.leaks[:5])
    assert found.probes == 250
    assert found.statuses["POST 200"] > 5, "some questions are answered"
    assert found.statuses["MCP 200"] > 20
    assert len(found.hidden_ms) > 10
