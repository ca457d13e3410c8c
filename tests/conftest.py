"""Every test runs with folders of its own: fresh ones, no settings of the developer, no network."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]

# A shell starts its background jobs with SIGINT ignored, and children inherit that: tests that interrupt would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests share the processors: how long an example takes there says nothing about the code. All runs have the same
# examples, so that a failure is about the change.
settings.register_profile("shared", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings; CODEINFO_ and XDG_ variables of the developer do not count."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("CODEINFO_", "XDG_", "GIT_", "_CODEINFO")) or name in ("NO_COLOR", "OPENAI_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CODEINFO_MCP_SHARED", "false")  # the tests of the shared server say otherwise
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    return home


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections leave this machine in no test; servers on the loopback interface are fine."""
    connect = socket.socket.connect

    def guard_app(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guard_app)


@pytest.fixture(scope="session", autouse=True)
def shared_parsers() -> Iterator[None]:
    """Parser processes wait for the next test as they do for the next request of a server: to start one takes longer
    than most tests do. Processes that tests fork or start have their own."""
    from codeinfo.engine.index_manager import IndexManager
    from codeinfo.index.pool import ParsePool, Spares

    owner, shared, parsers = os.getpid(), Spares(), IndexManager.parsers

    def shared_or_own(self: IndexManager) -> ParsePool:
        if os.getpid() == owner:
            self._spares = lambda: shared
        return parsers(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndexManager, "parsers", shared_or_own)
        yield
    shared.close()


@contextmanager
def _umask(mask: int | None) -> Iterator[None]:
    before = os.umask(0)
    os.umask(before if mask is None else mask)
    yield
    os.umask(before)


@pytest.fixture
def codeinfo() -> RunCli:
    """The whole program in this process, its streams not a terminal: `codeinfo("search", "x", cwd=folder)`."""
    from codeinfo.shells.cli import run

    def call(
        *arguments: str, cwd: Path | None = None, input: str = "", umask: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), _umask(umask):
            patch.setattr(sys, "stdin", io.StringIO(input))
            patch.chdir(cwd or Path.cwd())
            code = run(arguments)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a team's database, still without content, on a real PostgreSQL. On a busy machine a server that is up
    may take longer to answer than one may that is stuck."""
    from postgres_tools import drop_database, new_database, skip_syncs

    monkeypatch.setattr("codeinfo.team.database.QUICK_S", 15.0)
    skip_syncs()
    url = new_database()
    yield url
    drop_database(url)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small bank that servers are tested with, as the current folder; some files have a project of their own."""
    from web_tools import make_project

    folder = make_project(tmp_path / "bank")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with one document of each format."""
    from document_tools import harbour

    return harbour(tmp_path)
