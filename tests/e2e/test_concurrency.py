"""Writers and readers at the same time: the benchmark's loop, for a few seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import REPOSITORY


@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_no_error_reaches_a_reader(seconds: int) -> None:
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "readers_writers.py"), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
