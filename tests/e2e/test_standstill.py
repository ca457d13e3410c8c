"""A machine may stand still, as a laptop that is closed or a virtual machine that is moved: nobody is late then."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patience import wait_until

PAUSE_S = 2.2
TIMER = """
import os
from codeinfo.cache import start_timer
start_timer(2.0, os._exit, 3)
print("begun", flush=True)
input()
"""
LOCK = """
import os, sys
from codeinfo.files import locked
print("begun", flush=True)
with locked(os.open(sys.argv[1], os.O_RDONLY), sys.argv[1], 2.0):
    pass
"""


@contextmanager
def paused(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stood still for longer than it would have waited."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        os.kill(process.pid, signal.SIGCONT)
        yield process


def test_a_timer_does_not_end_what_stood_still() -> None:
    with paused(TIMER) as process:
        process.communicate(b"\n")
    assert process.returncode == 0


def test_a_lock_is_waited_for_after_a_pause(tmp_path: Path) -> None:
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with paused(LOCK, str(tmp_path)) as process:
        time.sleep(0.2)
        os.close(holder)
        wait_until(lambda: process.poll() is not None)
    assert process.returncode == 0
