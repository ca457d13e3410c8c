"""Texts that nobody means, given to everything that takes a text: each is answered, or refused with a reason, at once;
none is a fault of ours."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from mcp_help import Lines, session_here

LONG = "é" * 200  # 400 bytes: no file can be called that
ODD = ("", " ", ".", "..", "/", "::", "a::", "a.", "()", "*", "[", "(?", "\x00", "a\x00b", "\n", "~", "--help", LONG)
TALKING = {"codebase_question", "run_agent_instruction", "ask_documents", "ask", "run_agent"}  # to a model


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bank.py").write_text("def transfer(amount):\n    return amount\n\n\ntransfer(1)\n")
    (folder / "notes.md").write_text("# Bank\n\nMoney moves in one step.\n")
    return folder


def arguments_for(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """All that must be given, and half of the rest."""
    wanted = {
        name: one
        for name, one in schema.get("properties", {}).items()
        if name in schema.get("required", ()) or (name != "project" and chance.random() < 0.5)
    }
    return {name: _odd(one, chance) for name, one in wanted.items()}


def _odd(schema: dict[str, Any], chance: random.Random) -> Any:
    kind = schema.get("type")
    if kind == "array":
        return [_odd(schema["items"], chance) for _ in range(chance.choice((0, 1, 3)))]
    if kind == "object":
        return arguments_for(schema, chance)
    if kind in ("integer", "number"):
        return chance.choice((0, -1, 1, 10**6, 10**400))
    return chance.choice((True, False)) if kind == "boolean" else chance.choice(ODD)


def test_no_tool_fails_on_odd_texts(project: Path) -> None:
    chance = random.Random(8)
    with session_here(project, "all,compat") as session:
        tools = [one for one in session.request("tools/list")["result"]["tools"] if one["name"] not in TALKING]
        assert len(tools) > 55
        refused = sum(_is_refused(session, tool, chance) for tool in tools for _ in range(3))
    assert refused > len(tools), "most of it makes no sense"


def _is_refused(session: Lines, tool: dict[str, Any], chance: random.Random) -> bool:
    arguments = arguments_for(tool["inputSchema"], chance)
    reply = json.dumps(session.call(tool["name"], **arguments))
    assert "INTERNAL" not in reply, (tool["name"], arguments, reply[:500])
    return '"isError": true' in reply or '"error"' in reply


@pytest.mark.parametrize(
    "name", ["search", "index", "status", "why", "refs", "symbols", "impact", "eval", "docs search"]
)
def test_no_command_fails_on_a_path_that_cannot_exist(codeinfo: Any, project: Path, name: str) -> None:
    rest = ("transfer",) if name in ("search", "refs") else ()
    done = codeinfo(*name.split(), *rest, LONG, cwd=project)
    assert done.returncode in (0, 2), done.stderr
    assert "fault" not in done.stderr


@pytest.mark.parametrize("command", [("conversations", "show"), ("conversations", "search")])
def test_an_argument_that_is_no_text_is_refused(codeinfo: Any, project: Path, command: tuple[str, ...]) -> None:
    done = codeinfo(*command, "\udcff", cwd=project)  # the byte 0xff
    assert done.returncode == 2, done.stderr
    assert "not UTF-8" in done.stderr


def test_a_repository_that_cannot_be_fetched_says_so(codeinfo: Any, project: Path) -> None:
    done = codeinfo("docs", "add", str(project), "--ref", "no-such-branch", cwd=project)
    assert done.returncode == 6, done.stderr
    assert "cannot be fetched" in done.stderr
    assert "Check the address" in done.stderr
