"""Failover of the team's database, a primary with a synchronous standby: 8 threads search, 2 index, one asks; then the
primary is killed (-9) and the standby promoted. Shows what was lost, and how long searches and writes paused.

    python benchmarks/team_failover.py --runs 20
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from failover_tools import fail_over_under_load


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    outcomes = []
    for number in range(1, runs + 1):
        outcome = fail_over_under_load()
        outcomes.append(outcome)
        print(
            f"run {number}: {outcome.writes} writes acknowledged, {len(outcome.lost)} lost; "
            f"{outcome.searches} searches, {outcome.failed_searches} failed; "
            f"first search after {outcome.silence_s:.2f} s, first write after "
            f"{outcome.resumed_s:.2f} s, promoted after {outcome.promoted_s:.2f} s {' '.join(outcome.errors)}",
            flush=True,
        )
    for name in ("silence_s", "resumed_s", "promoted_s"):
        values = sorted(getattr(outcome, name) for outcome in outcomes)
        print(f"{name}: median {statistics.median(values):.2f} s, worst {values[-1]:.2f} s")
    lost, wrong = sum(len(outcome.lost) for outcome in outcomes), sum(len(outcome.errors) for outcome in outcomes)
    print(
        f"{runs} runs: {sum(outcome.writes for outcome in outcomes)} writes acknowledged, {lost} lost, {wrong} errors"
    )
    return 1 if lost or wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
