"""Programs in a pseudo-terminal, as a person runs them: with a width, with colour, with keys that are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>()][0-9A-Za-z]?")


class Terminal:
    """One program on a screen of its own. `read_until` waits for what it writes, `press` types."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = 40
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        named = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
        self._process = subprocess.Popen(
            command, cwd=cwd, env={**env, **named}, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.written = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read_until(self, text: str, seconds: float = 60) -> str:
        """What was written since the start, escapes left out; fails where `text` does not appear in time."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < end, f"{text!r} did not appear in:\n{self.shown}"
            if not self._read(0.2) and self._process.poll() is not None and text not in self.shown:
                raise AssertionError(f"it ended before {text!r} appeared:\n{self.shown}")
        return self.shown

    def wait(self, seconds: float = 120) -> int:
        """Reads until the program ends."""
        end = time.monotonic() + seconds
        while self._process.poll() is None:
            assert time.monotonic() < end, self.shown
            self._read(0.2)
        while self._read(0.1):
            pass
        os.close(self._master)
        return self._process.returncode

    @property
    def shown(self) -> str:
        lines = (line.rpartition("\x1b[2K")[2] for line in self.written.replace("\r\n", "\n").split("\n"))
        return _ESCAPES.sub("", "\n".join(lines)).replace("\r", "")

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        try:
            found = os.read(self._master, 65536) if ready else b""
        except OSError:  # the program has closed its side
            return False
        self.written += found.decode("utf-8", "replace")
        return bool(found)
