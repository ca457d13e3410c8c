"""A team's server is killed at random moments under load: nothing that it acknowledged is lost, nothing happens twice.

`benchmarks/team_workers.py servers --moments 200` does the same at length."""

from __future__ import annotations

from pathlib import Path

from kill_tools import kill_servers


def test_a_server_killed_at_any_moment_loses_nothing(postgres: str, tmp_path: Path) -> None:
    outcome = kill_servers(postgres, tmp_path, 5)
    assert outcome.problems == []
    assert outcome.kills == 5
    assert all(outcome.done[kind] for kind in ("search", "grep", "hook", "push", "remember")), outcome
    assert outcome.in_flight.total() > 0
