"""How long tests wait. A machine that they share may stand still for seconds, at any moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 120.0  # for what must happen
_TICK_S, _MOST_S = 0.02, 0.1
_TRIES = 3


def wait_until(true: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not become true in time"
        time.sleep(0.02)


class RunningTime:
    """A clock that counts at most a tenth of a second whenever this process, or the whole machine, stands still."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ended = threading.Event()
        self._counting = threading.Thread(target=self._count, daemon=True)
        self._counting.start()

    def _count(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(_TICK_S):
            now = time.monotonic()
            self.seconds += min(now - before, _MOST_S)
            before = now

    def stop(self) -> None:
        self._ended.set()
        self._counting.join()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block waits for less than this while the machine runs."""
    clock = RunningTime()
    try:
        yield
    finally:
        clock.stop()
    assert clock.seconds < seconds


def is_quick(compute: Callable[[], object], seconds: float) -> bool:
    """Whether this takes less processor time, in one of a few tries: a virtual machine that stands still may count
    the time as computed."""
    return any(_computed_s(compute) < seconds for _ in range(_TRIES))


def _computed_s(compute: Callable[[], object]) -> float:
    started = time.process_time()
    compute()
    return time.process_time() - started


def slowdown() -> float:
    """How much longer than itself a computation takes here, now: others have the processors, or the host has."""
    started, computed = time.monotonic(), time.process_time()
    while time.process_time() - computed < 0.1:
        pass
    return (time.monotonic() - started) / (time.process_time() - computed)
