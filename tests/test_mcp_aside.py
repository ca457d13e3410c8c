"""Searches in processes of their own: the same answers, as fresh, with or without them; and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_mcp_http import served

from codeinfo.config import Config
from codeinfo.shells import mcp_aside

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="on one core there are none")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(12):
        body = "".join(f"    value_{line} = part_{number}.read({line})\n" for line in range(30))
        (folder / f"part_{number}.py").write_text(f'def read_part_{number}(place):\n    """Read it."""\n{body}')
    (folder / "caller.py").write_text("from part_1 import read_part_1\n\n\ndef start():\n    read_part_1('here')\n")
    monkeypatch.chdir(folder)
    return folder


def call(url: str, tool: str = "search_codebase", **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
        (line,) = (line for line in response.read().decode().splitlines() if line.startswith("data: {"))
    return json.loads(line.removeprefix("data: "))["result"]


def helpers() -> list[int]:
    """The search processes of this one."""
    found = []
    for task in Path("/proc/self/task").glob("*/children"):
        found += [int(pid) for pid in task.read_text().split() if b"search_worker" in _command(int(pid))]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def has_answered(pid: int) -> bool:
    """It writes nothing but answers, besides that it is ready."""
    return int(Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0]) > 1000


def until(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def with_helper(url: str) -> int:
    """A search process that has answered something."""
    call(url, query="the first looks at the files itself")
    call(url, query="the second starts a process")
    until(helpers)
    (pid,) = helpers()
    asked = iter(range(10_000))
    until(lambda: call(url, query=f"read part {next(asked)}") and has_answered(pid))
    return pid


def test_the_answers_are_the_same(project: Path) -> None:
    asked: list[dict[str, Any]] = [{"query": f"read part {number}"} for number in range(6)]
    asked += [
        {"query": "read_part_1"},
        {"query": "read", "limit": 40},
        {"query": "read", "includeSnippets": False},
        {"query": "read", "filters": {"globs": ["part_2*"]}},
        {"query": "change read_part_1", "intent": "edit"},
        {"query": " "},
        {"query": "read", "limit": 0},
        {"query": "read", "project": "no such project"},
    ]
    small = {"mcp.reply_tokens": 1000}
    with served(Config.load({**small, "mcp.search_processes": 0}), "search") as url:
        expected = [call(url, **one) for one in asked]
        assert not helpers()
    with served(Config.load(small), "search") as url:
        with_helper(url)
        assert [call(url, **one) for one in asked] == expected
        assert [call(url, **one) for one in asked] == expected, "kept answers are others"
        page = next(one["structuredContent"] for one in expected if one["structuredContent"].get("truncated"))
        assert call(url, query="read", limit=40, cursor=page["cursor"])["structuredContent"]["results"]


def test_a_change_is_seen_by_the_next_call(project: Path) -> None:
    with served(Config.load(), "search") as url:
        with_helper(url)
        for turn in range(5):
            (project / "new.py").write_text(f"def added_word_{turn}():\n    return {turn}\n")
            assert f"added_word_{turn}" in str(call(url, query=f"added_word_{turn}"))
            assert f"added_word_{turn}" in str(call(url, query=f"what is added_word_{turn}")), "from the helper"
        (project / "new.py").unlink()
        assert "new.py" not in str(call(url, query="added_word_4"))


def test_one_that_dies_or_hangs_costs_no_answer(project: Path) -> None:
    with served(Config.load(), "search") as url:
        pid = with_helper(url)
        os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        for number in range(3):
            assert call(url, query=f"part {number} read")["structuredContent"]["results"]
        assert time.monotonic() - started < 20, "each waited for it"
        os.kill(pid, signal.SIGKILL)
        assert call(url, query="part read after it")["structuredContent"]["results"]
    assert not helpers()


def test_one_that_is_stuck_is_ended_and_replaced(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_aside, "STUCK_S", 1.5)
    monkeypatch.setattr(mcp_aside, "RESTART_S", 0.1)
    with served(Config.load({"mcp.search_processes": 1}), "search") as url:
        stuck = with_helper(url)
        os.kill(stuck, signal.SIGSTOP)
        asked = iter(range(10_000))
        until(lambda: call(url, query=f"part {next(asked)} read") and stuck not in helpers())
        until(lambda: call(url, query=f"read part {next(asked)}") and helpers() and has_answered(helpers()[0]))


def test_it_ends_when_idle_and_with_the_server(project: Path) -> None:
    with served(Config.load({"mcp.idle_s": 1.0}), "search") as url:
        with_helper(url)
        until(lambda: not helpers())
        assert call(url, query="part read later")["structuredContent"]["results"]
    with served(Config.load(), "search") as url:
        with_helper(url)
    assert not helpers()
