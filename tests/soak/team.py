"""A team's server on PostgreSQL that is killed while clients search, push, send webhooks and remember."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kill_tools import kill_servers
from postgres_tools import new_database
from sandbox import Tally

KIND = "team: killed server"


def kill_team_servers(folder: Path, tally: Tally, moments: int) -> None:
    found = kill_servers(new_database(), folder, moments, tally.seed)
    tally.done[KIND] = found.kills
    tally.outcomes[KIND] = Counter({"gone on": found.kills})
    tally.slowest[KIND] = 0.0
    tally.figures.append(f"team: acknowledged {dict(found.done)}, interrupted {dict(found.in_flight)}")
    for problem in found.problems:
        tally.fail(KIND, problem)
