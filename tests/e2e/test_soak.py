"""A slice of `make soak`, so that its scenarios run wherever the tests do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak"


@pytest.mark.timeout(300)
def test_a_slice_of_the_soak(tmp_path: Path) -> None:
    parts = ("faults",) if shutil.which("strace") else ()
    command = [sys.executable, SOAK, "--size", "0.003", "--seed", "1", *parts, "flips", "hostile"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " 0 failures" in done.stdout
