"""The processes of `codeinfo worker`: one does jobs, several are started and watched over by another one."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from codeinfo.config import Config
from codeinfo.engine import Engine

_RESTART_S = (1.0, 30.0)  # from, to: one that cannot start must not keep the machine busy
_LOOK_S = 0.2

log = logging.getLogger(__name__)


def work(config: Config, settings: Sequence[str], *, processes: int, until_idle: bool) -> None:
    """`settings` are those of the command line, for further processes."""
    if processes > 1:
        flags = [part for setting in settings for part in ("--set", setting)]
        _Crew(processes, [*flags, *(["--until-idle"] if until_idle else [])]).run()
        return
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("codeinfo").setLevel(logging.INFO)
    with closing(Engine(config)) as engine:
        engine.team.work(until_idle=until_idle)


class _Crew:
    """Workers as child processes. One that dies is replaced; SIGTERM and SIGINT are passed on, and waited for."""

    def __init__(self, processes: int, arguments: Sequence[str]) -> None:
        self._line = [sys.executable, "-m", "codeinfo", "worker", *arguments]
        self._running: list[subprocess.Popen[bytes]] = []
        self._processes = processes
        self._stopping = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        wait, started = _RESTART_S[0], 0.0
        missing = self._processes
        while missing or self._running:
            if missing and not self._stopping:
                if time.monotonic() - started > _RESTART_S[1]:
                    wait = _RESTART_S[0]
                self._running += [self._start() for _ in range(missing)]
                missing, started = 0, time.monotonic()
            time.sleep(_LOOK_S)
            ended = [process for process in self._running if process.poll() is not None]
            self._running = [process for process in self._running if process not in ended]
            lost = [process for process in ended if process.returncode]
            if self._stopping:
                missing = 0
            elif lost:
                log.warning("%d of %d workers died, starting others in %g s", len(lost), self._processes, wait)
                missing += len(lost)
                time.sleep(wait)
                wait = min(2 * wait, _RESTART_S[1])

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._line, stdin=subprocess.DEVNULL, start_new_session=True)

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True
        for process in self._running:
            process.terminate()
