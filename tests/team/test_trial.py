"""`codeinfo trial`, as a newcomer runs it: one command, then a search with the token that it printed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from failover_tools import free_port
from git_server import serving
from patience import wait_until
from repository_tools import Repository
from web_tools import environment_of


def search(port: int, token: str, query: str) -> list[str]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/search", json.dumps({"query": query}).encode(), headers
    )
    try:
        with urllib.request.urlopen(asked, timeout=120) as reply:
            return [hit["path"] for hit in json.load(reply)["hits"]]
    except OSError:  # not up yet, or not indexed yet
        return []


@pytest.fixture
def home() -> Iterator[Path]:
    """Not in pytest's own folder, which any other run of it closes to the user that PostgreSQL runs as."""
    with tempfile.TemporaryDirectory(prefix="codeinfo-trial-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_one_command_leads_to_a_search(tmp_path: Path, home: Path) -> None:
    (tmp_path / "served").mkdir()
    repository = Repository(tmp_path / "served" / "shop")
    repository.commit("Begin", {"shop.py": "def sell_apples():\n    return 1\n"})
    port, log = free_port(), tmp_path / "log"
    with serving(repository.folder.parent) as upstream, log.open("wb") as sink:
        command = [sys.executable, "-m", "codeinfo", "trial", upstream.url("shop"), "--port", str(port)]
        command += ["--set", "trust.private_hosts=127.0.0.1"]
        started = subprocess.Popen(command, env=environment_of(home), stdout=sink, stderr=sink, cwd=tmp_path)
        try:
            wait_until(lambda: "cit_" in log.read_text() or started.poll() is not None)
            (token,) = re.findall(r"cit_[\w-]+", log.read_text())
            wait_until(lambda: search(port, token, "sell apples") == ["shop.py"])
        finally:
            is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # below nohup, by the command too
            started.send_signal(signal.SIGTERM if is_ignored else signal.SIGHUP)  # its terminal was closed
            code = started.wait(120)
    assert code == 0, log.read_text()
    assert "Failed to stop" not in log.read_text(), "PostgreSQL was killed"
    (folder,) = home.rglob("trial-postgres")
    assert not (folder / "postmaster.pid").exists()
