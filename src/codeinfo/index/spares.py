"""Workers between two runs: to start one takes longer than to parse the file that was just edited.

They belong to one engine and end with it, or by themselves after a while (see `worker`).
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import subprocess

    from codeinfo.index.chunk import ChunkSettings

KEPT_S = 120.0  # an editing session asks again within that
_SAFE_SHARE = 0.8  # of that time: one that is about to end is not taken, or a file would be lost with it
_MOST = 2
_RESTING_BYTES = 100 << 20  # one in which files and grammars left more behind is replaced by a fresh one


class _Spare(NamedTuple):
    settings: ChunkSettings
    process: subprocess.Popen[bytes]
    until: float

    def serves(self, settings: ChunkSettings) -> bool:
        return self.settings == settings and time.monotonic() < self.until and self.process.poll() is None


class Spares:
    def __init__(self, seconds: float = KEPT_S) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._waiting: list[_Spare] = []
        self._closed = False

    def take(self, settings: ChunkSettings) -> subprocess.Popen[bytes] | None:
        """The one that was kept last and was started with these settings."""
        with self._lock:
            chosen = next((spare for spare in reversed(self._waiting) if spare.serves(settings)), None)
            if chosen is not None:
                self._waiting.remove(chosen)
        return chosen.process if chosen is not None else None

    def keep(self, settings: ChunkSettings, process: subprocess.Popen[bytes]) -> None:
        # Asked here and not of the worker: one that ends by itself might be taken before it does.
        if _has_grown(process.pid):
            end(process)
            return
        with self._lock:
            self._waiting.append(_Spare(settings, process, time.monotonic() + _SAFE_SHARE * self.seconds))
            surplus = self._waiting[:-_MOST] if not self._closed else self._waiting[:]
            del self._waiting[: len(surplus)]
        for spare in surplus:
            end(spare.process)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for spare in waiting:
            end(spare.process)


def _has_grown(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/statm", "rb") as status:
            return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") > _RESTING_BYTES
    except OSError:
        return False  # not every system tells; it ends after a while in any case


def end(process: subprocess.Popen[bytes]) -> int:
    """Kill and collect a worker; its status."""
    process.kill()
    status = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return status
