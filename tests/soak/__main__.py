"""Faults, flipped bits, hostile inputs and load, with a table of what was met: `make soak`, or for a part of it

    python tests/soak --size 0.1 --seed 7 faults flips hostile secrets team load

A size of 1 is 2,000 faults, 1,000 flips, 10,000 inputs, 100 killed servers and 5 minutes of load. The same seed draws
the same things. Exits with 1 when anything did not hold.
"""

from __future__ import annotations

import argparse
import compileall
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox import Tally

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(REPOSITORY / "benchmarks"), str(REPOSITORY / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(REPOSITORY / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
)
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # this process is forked: it must have no threads

PARTS = ("faults", "flips", "hostile", "secrets", "team", "load")


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    reader.add_argument("--size", type=float, default=1.0)
    reader.add_argument("--seed", type=int, default=1)
    options = reader.parse_args()
    parts = options.parts or PARTS

    from sandbox import Tally

    compileall.compile_dir(REPOSITORY / "src", quiet=2)  # or every command would compile everything again
    tally, size = Tally(options.seed), options.size
    started, whole = time.monotonic(), False
    print(f"seed {options.seed}, size {size}: {', '.join(parts)}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ending it early prints the table too
    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as name:
            _run(parts, Path(name).resolve(), tally, size)
        whole = True
    except KeyboardInterrupt:
        print("interrupted: this is not all of it")
    except Exception:
        tally.fail("soak", traceback.format_exc())
    print(tally.table())
    for failure in tally.failures:
        print(f"FAILED {failure[:1500]}")
    print(f"{sum(tally.done.values())} in {time.monotonic() - started:.0f} s, {len(tally.failures)} failures")
    return 1 if tally.failures or not whole else 0


def _run(parts: Sequence[str], folder: Path, tally: Tally, size: float) -> None:
    from sandbox import Sandbox

    def make_sandbox(part: str) -> Sandbox:
        (folder / part).mkdir()
        return Sandbox(folder / part)

    def make_rng(part: str) -> random.Random:
        return random.Random(f"{tally.seed} {part}")

    if "faults" in parts:
        from faults import inject_faults

        inject_faults(make_sandbox("faults"), tally, round(2000 * size), make_rng("faults"))
    if "flips" in parts:
        from flips import flip_bits

        flip_bits(make_sandbox("flips"), tally, round(1000 * size), make_rng("flips"))
    if "hostile" in parts:
        from hostile import send_hostile

        send_hostile(make_sandbox("hostile"), tally, round(10_000 * size), make_rng("hostile"))
    if "secrets" in parts:
        from masked_secrets import check_secrets

        check_secrets(make_sandbox("secrets"), tally, tally.seed, max(1, round(4 * size)))
    if "team" in parts:
        from team import kill_team_servers

        kill_team_servers(folder / "team", tally, max(3, round(100 * size)))
    if "load" in parts:
        from load import run_load

        run_load(folder / "load", tally, files=max(200, round(5000 * size)), seconds=max(20.0, 300 * size))


if __name__ == "__main__":
    sys.exit(main())
