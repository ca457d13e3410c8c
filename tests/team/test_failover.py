"""The primary database is killed while a team works: its synchronous standby takes over, and nothing is lost."""

from __future__ import annotations

from failover_tools import fail_over_under_load


def test_a_killed_primary_loses_nothing_and_searches_go_on() -> None:
    outcome = fail_over_under_load()
    assert outcome.errors == []
    assert outcome.writes > 20
    assert outcome.lost == []
    assert outcome.silence_s < 5
    assert outcome.resumed_s < 10
