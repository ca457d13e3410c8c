"""Starting a worker process (see `worker`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def worker_command(module: str) -> list[str]:
    """How a process is started that runs `main` of a module of ours."""
    # The path is appended, and -P keeps the current folder out: a repository's own modules are never imported.
    package_root = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.append({package_root!r}); from {module} import main; main()"
    return [sys.executable, "-P", "-c", code]


def spawn_worker() -> subprocess.Popen[bytes]:
    """A worker on two pipes; it gets no signals from the terminal."""
    return subprocess.Popen(
        worker_command("codeinfo.index.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )
