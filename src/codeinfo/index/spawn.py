"""Starting a worker process (see `worker`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def spawn_worker() -> subprocess.Popen[bytes]:
    """A worker on two pipes; it gets no signals from the terminal."""
    # The path is appended, and -P keeps the current folder out: a repository's own modules are never imported.
    package_root = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.append({package_root!r}); from codeinfo.index.worker import main; main()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )
