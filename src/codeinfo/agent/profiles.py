"""Agents: a folder each, with a prompt, what it is for, which tools it has, and commands of several steps.

name/config.toml        provider, model, tools: all optional
name/description.md     its first paragraph is shown in lists
name/system_prompt.txt  what the agent is told before the rules of every answer
name/commands/*.json    {"description": "…", "steps": ["…", …]}; {instruction} in a step is what the user asked
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from codeinfo.agent.tools import SPECS
from codeinfo.config import parse_toml
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.operations.answers import Agent, AgentCommand

BUNDLED = Path(__file__).parent / "agents"
ALL_TOOLS = ("search", "read_file", "outline", "references")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_LARGEST_FILE = 100_000  # characters of a prompt or a command
_KEYS = ("provider", "model", "tools")


class Command(Struct, frozen=True):
    name: str
    description: str
    steps: tuple[str, ...]

    def instructions(self, instruction: str) -> tuple[str, ...]:
        """The steps with the instruction filled in; a step without a place for it stands alone."""
        if not instruction and any("{instruction}" in step for step in self.steps):
            raise UsageError(f"command {self.name} needs an instruction", next_step="Say what it is to be about")
        return tuple(step.replace("{instruction}", instruction) for step in self.steps)


class Profile(Struct, frozen=True):
    name: str
    description: str
    system_prompt: str
    location: Path
    provider: str = ""
    model: str = ""
    tools: tuple[str, ...] = ALL_TOOLS
    commands: tuple[Command, ...] = ()

    def command(self, name: str) -> Command:
        for command in self.commands:
            if command.name == name:
                return command
        known = ", ".join(command.name for command in self.commands) or "none"
        raise NotFound(f"agent {self.name} has no command {name!r}", next_step=f"It has: {known}")


def list_agents(folders: Sequence[Path]) -> tuple[Agent, ...]:
    """Every agent of the folders; one in an earlier folder hides its namesake in a later one. A broken one says why."""
    places: dict[str, Path] = {}
    for folder in folders:
        for place in sorted(folder.iterdir()) if folder.is_dir() else ():
            if place.is_dir() and _NAME.match(place.name):
                places.setdefault(place.name, place)
    return tuple(_listed(place) for _, place in sorted(places.items()))


def load_agent(name: str, folders: Sequence[Path]) -> Profile:
    if _NAME.match(name):
        for folder in folders:
            if (folder / name).is_dir():
                return _load(folder / name)
    known = ", ".join(agent.name for agent in list_agents(folders))
    raise NotFound(f"there is no agent {name!r}", next_step=f"There are: {known}")


def _listed(place: Path) -> Agent:
    try:
        profile = _load(place)
    except CodeInfoError as error:
        return Agent(place.name, "", str(place), problem=error.what)
    commands = tuple(AgentCommand(one.name, one.description, len(one.steps)) for one in profile.commands)
    return Agent(profile.name, profile.description, str(place), profile.tools, commands, profile.model)


def _load(place: Path) -> Profile:
    config = parse_toml(_read(place / "config.toml", required=False), place / "config.toml")
    if unknown := sorted(set(config) - set(_KEYS)):
        raise UsageError(f"{place / 'config.toml'} has {', '.join(unknown)}", next_step=f"It takes {', '.join(_KEYS)}")
    tools = tuple(config.get("tools", ALL_TOOLS))
    if wrong := [tool for tool in tools if tool not in SPECS]:
        raise UsageError(
            f"{place / 'config.toml'} names unknown tools: {wrong}", next_step=f"There are {', '.join(SPECS)}"
        )
    description = _read(place / "description.md", required=False).strip().split("\n\n")[0]
    return Profile(
        name=place.name,
        description=" ".join(line for line in description.split("\n") if not line.startswith("#")).strip(),
        system_prompt=_read(place / "system_prompt.txt").strip(),
        location=place,
        provider=str(config.get("provider", "")),
        model=str(config.get("model", "")),
        tools=tools,
        commands=tuple(_command(path) for path in sorted((place / "commands").glob("*.json"))),
    )


def _command(path: Path) -> Command:
    try:
        value = json.loads(_read(path))
        steps = tuple(value["steps"])
        well_formed = steps and all(isinstance(step, str) and step.strip() for step in steps)
        description = str(value.get("description", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        well_formed = False
    if not well_formed:
        raise UsageError(f"{path} is no command", next_step='Write it as {"description": "…", "steps": ["…"]}')
    return Command(path.stem, description, steps)


def _read(path: Path, *, required: bool = True) -> str:
    try:
        with path.open(encoding="utf-8") as source:
            text = source.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        if required:
            raise UsageError(f"{path} is missing", next_step="An agent needs it") from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", next_step="Mend the file") from error
    if len(text) > _LARGEST_FILE:
        raise UsageError(f"{path} is longer than {_LARGEST_FILE:,} characters", next_step="Shorten it")
    return text
