"""Programs in a pseudo-terminal, as a person runs them: with a width, with colour, with keys that are pressed."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from codeinfo.shells.cli import run

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>()][0-9A-Za-z]?")


class Terminal:
    """One program on a screen of its own. `read_until` waits for what it writes, `press` types."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 80,
        rows: int = 40,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        named = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, **named},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.written = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read_until(self, text: str, seconds: float = 120) -> str:
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


# --- transcripts ---------------------------------------------------------------------------------------------------

REPOSITORY = Path(__file__).resolve().parents[1]
WIDTHS = (80, 120)  # columns
_VARYING = (
    (re.compile(r"\b\d+ ms\b"), "N ms"),
    (re.compile(r"\bin \d+\.\d\d s\b"), "in N s"),
    (re.compile(r'"took_ms": [\d.]+'), '"took_ms": 0'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\bconversation [0-9a-f]{16}\b"), "conversation ID"),
    (re.compile(r"\b[\d.,]+ [KMG]B\b"), "N MB"),
    (re.compile(r"\d+\.\d+\.\d+(?:\.\d+)?"), "VERSION"),
    (re.compile(r"-[0-9a-f]{12}\b"), "-HASH"),
)


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def transcript(lines: Sequence[str], root: Path, home: Path, columns: int) -> str:
    """What a person sees who types these commands in `root`, without colour and with no settings but the default ones;
    what differs from run to run is replaced.

    Paths have to be of the same length everywhere, since lines are broken by their length.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("CODEINFO_")}
    env |= {"NO_COLOR": "1", "CODEINFO_HOME": str(home), "CODEINFO_LLM_DISCOVER": "false", "COLUMNS": str(columns)}
    parts = []
    for line in lines:
        screen = _Tty()
        typing = mock.patch.object(sys, "stdin", _Tty())
        with (
            mock.patch.dict(os.environ, env, clear=True),
            chdir(root),
            typing,
            redirect_stdout(screen),
            redirect_stderr(io.StringIO()),
        ):
            code = run(shlex.split(line.removeprefix("codeinfo ")))
        shown = screen.getvalue().replace(str(root), f"/{root.name}").replace(str(home), "/home")
        for pattern, text in _VARYING:
            shown = pattern.sub(text, shown)
        parts.append(f"$ {line}\n{shown}" + (f"[exit {code}]\n" if code else ""))
    return "\n".join(parts)


def readme_commands() -> list[str]:
    """As the README shows them, in its order."""
    blocks = re.findall(r"^```console\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def shop_transcript(columns: int) -> str:
    """In a copy of the sample repository, at a path that has the same length everywhere."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="codeinfo") as place:
        root = Path(place) / "shop"
        shutil.copytree(REPOSITORY / "examples" / "shop", root)
        return transcript(readme_commands(), root, Path(place) / "home", columns)
