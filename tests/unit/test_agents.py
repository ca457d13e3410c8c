"""Agents: folders with a prompt, tools and commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeinfo.answers.agents import BUNDLED, list_agents, load_agent
from codeinfo.errors import NotFound, UsageError


def make(folder: Path, name: str, **files: str) -> Path:
    place = folder / name
    (place / "commands").mkdir(parents=True)
    for file, text in {"system_prompt.txt": "Be brief.", **files}.items():
        (place / file).write_text(text)
    return place


def test_two_agents_ship_and_work() -> None:
    agents = {agent.name: agent for agent in list_agents([BUNDLED])}
    assert set(agents) == {"explainer", "planner"}
    for agent in agents.values():
        assert agent.description
        assert agent.commands
        assert not agent.problem
    assert "decision_card" in agents["planner"].tools


def test_a_folder_is_an_agent(tmp_path: Path) -> None:
    place = make(
        tmp_path,
        "mine",
        **{"config.toml": 'model = "big"\ntools = ["search"]', "description.md": "# Mine\nFinds it.\n\nMore."},
    )
    (place / "commands" / "twice.json").write_text(
        json.dumps({"description": "Two steps.", "steps": ["First: {instruction}", "Then sum up."]})
    )
    profile = load_agent("mine", [tmp_path, BUNDLED])
    assert (profile.model, profile.tools, profile.description) == ("big", ("search",), "Finds it.")
    command = profile.command("twice")
    assert command.instructions("go") == ("First: go", "Then sum up.")
    with pytest.raises(UsageError, match="needs an instruction"):
        command.instructions("")
    with pytest.raises(NotFound, match="no command 'thrice'"):
        profile.command("thrice")


def test_ones_own_agent_hides_the_one_that_ships(tmp_path: Path) -> None:
    make(tmp_path, "planner")
    assert load_agent("planner", [tmp_path, BUNDLED]).system_prompt == "Be brief."
    assert [agent.name for agent in list_agents([tmp_path, BUNDLED])] == ["explainer", "planner"]


@pytest.mark.parametrize("name", ["nobody", "", "../explainer", "a/b", ".hidden"])
def test_an_unknown_agent(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no agent"):
        load_agent(name, [tmp_path, BUNDLED])


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("config.toml", "tools = [", "not valid TOML"),
        ("config.toml", 'tools = ["shell"]', "unknown tools"),
        ("config.toml", 'api_key = "x"', "unknown field `api_key`"),
        ("commands/bad.json", "{", "is not a command"),
        ("commands/bad.json", '{"steps": []}', "is not a command"),
        ("commands/bad.json", '["steps"]', "is not a command"),
        ("commands/bad.json", '{"steps": [1]}', "is not a command"),
    ],
)
def test_a_broken_agent_says_why_and_hides_no_other(file: str, text: str, problem: str, tmp_path: Path) -> None:
    (make(tmp_path, "broken") / file).write_text(text)
    make(tmp_path, "fine")
    broken, fine = list_agents([tmp_path])
    assert problem in broken.problem
    assert not fine.problem
    with pytest.raises(UsageError):
        load_agent("broken", [tmp_path])


def test_a_prompt_is_needed(tmp_path: Path) -> None:
    (make(tmp_path, "mute") / "system_prompt.txt").unlink()
    with pytest.raises(UsageError, match="is missing"):
        load_agent("mute", [tmp_path])
