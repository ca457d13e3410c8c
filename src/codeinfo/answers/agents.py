"""Agents and their tools: read-only, limited to the indexed roots.

The engine supplies the tool functions. This module describes the tools, checks arguments, counts calls, and turns
results into numbered evidence. An agent is a folder:

    name/config.toml        provider, model, tools: all optional
    name/description.md     its first paragraph is shown in lists
    name/system_prompt.txt  what the agent reads before the rules of every answer
    name/commands/*.json    {"description": "…", "steps": ["…", …]}; {instruction} in a step is what the user asked
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from codeinfo.answers.evidence import Evidence, PassageFilter, Retrieval, enclose, fence, format_passages, list_graded
from codeinfo.answers.model import json_objects, object_schema, problems
from codeinfo.config import parse_toml
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.files import read_user_file
from codeinfo.model import Passage, convert, decode_stored
from codeinfo.operations.answers import Agent, AgentCommand, ToolUse
from codeinfo.ports import Schema, ToolCall, ToolSpec

_SHOWN_ARGUMENTS = 200  # characters of a call's arguments that the trace keeps

_TEXT = {"type": "string", "minLength": 1}
_LINE = {"type": "integer", "minimum": 1}


def _spec(name: str, description: str, /, **parameters: Schema) -> ToolSpec:
    return ToolSpec(name, description, object_schema(**parameters))


_SEARCH = "Search the indexed files by meaning and by words. Gives the best passages as numbered sources."
_READ_FILE = "Read lines of an indexed file, by the path that a source shows. Gives them as a numbered source."
_CARD = "Say what is known about a planned change (callers, patterns, memories) and whether it is enough to begin."
_TOOLS = (
    _spec("search", _SEARCH, query=_TEXT),
    _spec("read_file", _READ_FILE, path=_TEXT, start_line=_LINE, end_line=_LINE),
    _spec("outline", "List the definitions of an indexed file with their lines.", path=_TEXT),
    _spec("references", "List where a name is used in the indexed files.", name=_TEXT),
    _spec("decision_card", _CARD, change=_TEXT),
)
SPECS = {tool.name: tool for tool in _TOOLS}


# --- tools -----------------------------------------------------------------------------------------------------------


class ToolFunctions(Protocol):
    """Tools by their names, from the engine. It need not have those that are not listed here."""

    def search(self, query: str) -> Retrieval: ...

    def read_file(self, path: str, start_line: int, end_line: int) -> Passage: ...


class Toolbox(Struct):
    """The tools of one run, its evidence, and the calls so far."""

    functions: ToolFunctions
    evidence: Evidence
    filter: PassageFilter
    allowed: tuple[str, ...]
    limit: int
    uses: list[ToolUse] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return len(self.uses) < self.limit

    def specs(self) -> tuple[ToolSpec, ...]:
        offered = (name for name in self.allowed if hasattr(self.functions, name))
        return tuple(SPECS[name] for name in offered) if self.open else ()

    def perform(self, call: ToolCall) -> str:
        """The reply to the model. Failed calls are reported as well, so that the model can correct them."""
        arguments = call.arguments[:_SHOWN_ARGUMENTS]
        if any(use.name == call.name and use.arguments == arguments and not use.failed for use in self.uses):
            self.uses.append(ToolUse(call.name, arguments, "asked before", failed=True))
            return "You made this call before; its result is above."
        try:
            reply, outcome, passages = self._perform(call)
        except CodeInfoError as error:
            self.uses.append(ToolUse(call.name, arguments, error.what, failed=True))
            return f"error: {error.what}"
        self.uses.append(ToolUse(call.name, arguments, outcome, items=list_graded(passages)))
        return reply

    def _perform(self, call: ToolCall) -> tuple[str, str, Sequence[Passage]]:
        if call.name not in {spec.name for spec in self.specs()}:
            raise UsageError(f"there is no tool {call.name!r}")
        values = arguments_of(call)
        match call.name:
            case "search":
                admitted = self.filter.admit(self.functions.search(str(values["query"])))
                numbered = self.evidence.show(admitted.kept)
                outcome = f"{len(numbered)} passages, {len(admitted.dropped)} dropped by the relevance policy"
                return format_passages(numbered) or "Nothing relevant was found.", outcome, numbered
            case "read_file":
                path, first, last = str(values["path"]), int(values["start_line"]), int(values["end_line"])
                numbered = self.evidence.show((self.functions.read_file(path, first, last),))
                return format_passages(numbered), numbered[0].place, numbered
            case _:
                (argument,) = values.values()
                text = getattr(self.functions, call.name)(str(argument))
                cut = text[: self.filter.policy.chunk_max_chars]
                return enclose(f"result of {call.name}", cut, fence([cut])), f"{cut.count(chr(10)) + 1} lines", ()


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, validated against the tool's schema; extra arguments from the model are ignored."""
    schema = SPECS[call.name].parameters
    if (values := next(json_objects(call.arguments or "{}"), None)) is None:
        raise UsageError(f"the arguments of {call.name} are not a JSON object")
    if wrong := problems(values, schema, call.name):
        raise UsageError("; ".join(wrong))
    return {name: values[name] for name in schema["properties"]}


# --- agents ----------------------------------------------------------------------------------------------------------

BUNDLED = Path(__file__).parent / "agents"
ALL_TOOLS = ("search", "read_file", "outline", "references")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_LARGEST_FILE = 100_000  # bytes of a prompt or command file


class Command(Struct, frozen=True):
    steps: tuple[str, ...]
    description: str = ""
    name: str = ""  # the file's name

    def instructions(self, instruction: str) -> tuple[str, ...]:
        """The steps with the instruction filled in; a step may have no place for it."""
        if not instruction and any("{instruction}" in step for step in self.steps):
            raise UsageError(f"command {self.name} needs an instruction", "Give it an instruction")
        return tuple(step.replace("{instruction}", instruction) for step in self.steps)


class _Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The file `config.toml`."""

    provider: str = ""
    model: str = ""
    tools: tuple[str, ...] = ALL_TOOLS


class Profile(_Config, frozen=True, kw_only=True):
    name: str
    description: str
    system_prompt: str
    location: Path
    commands: tuple[Command, ...] = ()

    def instructions(self, instruction: str, command: str) -> tuple[str, ...]:
        """What it is asked, one after another: the steps of a command, or the instruction itself."""
        if command:
            return self.command(command).instructions(instruction)
        if not instruction.strip():
            raise UsageError("the instruction is empty", "Say what the agent should do")
        return (instruction,)

    def command(self, name: str) -> Command:
        for command in self.commands:
            if command.name == name:
                return command
        names = ", ".join(command.name for command in self.commands) or "none"
        raise NotFound(f"agent {self.name} has no command {name!r}", f"Its commands: {names}")


def list_agents(folders: Sequence[Path]) -> tuple[Agent, ...]:
    """Every agent of the folders; an earlier folder takes precedence. A broken agent says what is wrong."""
    places: dict[str, Path] = {}
    for folder in folders:
        for place in sorted(folder.iterdir()) if folder.is_dir() else ():
            if place.is_dir() and _NAME.match(place.name):
                places.setdefault(place.name, place)
    return tuple(_describe(place) for _, place in sorted(places.items()))


def load_agent(name: str, folders: Sequence[Path]) -> Profile:
    if _NAME.match(name):
        for folder in folders:
            if (folder / name).is_dir():
                return _load(folder / name)
    names = ", ".join(agent.name for agent in list_agents(folders))
    raise NotFound(f"there is no agent {name!r}", f"Known agents: {names}")


def _describe(place: Path) -> Agent:
    try:
        profile = _load(place)
    except CodeInfoError as error:
        return Agent(place.name, "", str(place), problem=error.what)
    commands = (AgentCommand(command.name, command.description, len(command.steps)) for command in profile.commands)
    return Agent(profile.name, profile.description, str(place), profile.tools, tuple(commands), profile.model)


def _load(place: Path) -> Profile:
    path = place / "config.toml"
    try:
        config = convert(parse_toml(_read(path, required=False), path), _Config)
    except msgspec.ValidationError as error:
        step = f"Its keys are {', '.join(_Config.__struct_fields__)}"
        raise UsageError(f"{path}: {error}", step) from error
    if wrong := [tool for tool in config.tools if tool not in SPECS]:
        raise UsageError(f"{path} names unknown tools: {wrong}", f"Known tools: {', '.join(SPECS)}")
    description = _read(place / "description.md", required=False).strip().split("\n\n")[0]
    return Profile(
        name=place.name,
        description=" ".join(line for line in description.split("\n") if not line.startswith("#")).strip(),
        system_prompt=_read(place / "system_prompt.txt").strip(),
        location=place,
        **asdict(config),
        commands=tuple(_command(path) for path in sorted((place / "commands").glob("*.json"))),
    )


def _command(path: Path) -> Command:
    command = decode_stored(_read(path).encode(), Command)
    if command is None or not command.steps or not all(map(str.strip, command.steps)):
        raise UsageError(f"{path} is not a command", 'Write it as {"description": "…", "steps": ["…"]}')
    return replace(command, name=path.stem)


def _read(path: Path, *, required: bool = True) -> str:
    text = read_user_file(path, _LARGEST_FILE)
    if text is None and required:
        raise UsageError(f"{path} is missing", "Every agent needs this file")
    return text or ""
