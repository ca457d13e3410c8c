"""What a model may do while it answers: look further, read-only, within the indexed roots.

The functions come from the engine, which knows the roots; this module describes them, checks arguments, keeps count and
turns what they find into numbered evidence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from codeinfo.agent.evidence import Evidence, Item, shown
from codeinfo.agent.gate import Gate
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.model import SearchResult
from codeinfo.operations.answers import ToolUse
from codeinfo.ports import ToolCall, ToolSpec

Search = Callable[[str], SearchResult]
_SHOWN_ARGUMENTS = 200  # characters of a call's arguments that the trace keeps

SPECS = {
    "search": ToolSpec(
        "search",
        "Search the indexed files by meaning and by words. Gives the best passages as numbered sources.",
        {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    ),
    "read_file": ToolSpec(
        "read_file",
        "Read lines of an indexed file, by the path that a source shows. Gives them as a numbered source.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "start_line": {"type": "integer", "minimum": 1},
                "end_line": {"type": "integer", "minimum": 1},
            },
            "required": ["path", "start_line", "end_line"],
        },
    ),
    "outline": ToolSpec(
        "outline",
        "List the definitions of an indexed file with their lines.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    "references": ToolSpec(
        "references",
        "List where a name is used in the indexed files.",
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    ),
    "decision_card": ToolSpec(
        "decision_card",
        "Say what is known about a planned change (callers, patterns, memories) and whether it is enough to begin.",
        {"type": "object", "properties": {"change": {"type": "string"}}, "required": ["change"]},
    ),
}


class ToolFunctions(Struct, frozen=True):
    """What the engine offers. The last two are None where it has no such knowledge."""

    search: Search
    read_file: Callable[[str, int, int], Item]
    outline: Callable[[str], str]
    references: Callable[[str], str] | None = None
    decision_card: Callable[[str], str] | None = None

    def specs(self, allowed: Sequence[str]) -> tuple[ToolSpec, ...]:
        return tuple(SPECS[name] for name in allowed if getattr(self, name) is not None)


class Toolbox(Struct):
    """The tools of one run, with its evidence and what was called so far."""

    functions: ToolFunctions
    evidence: Evidence
    gate: Gate
    allowed: tuple[str, ...]
    limit: int
    uses: list[ToolUse] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return len(self.uses) < self.limit

    def specs(self) -> tuple[ToolSpec, ...]:
        return self.functions.specs(self.allowed) if self.open else ()

    def perform(self, call: ToolCall) -> str:
        """What to tell the model. A call that fails is told too: it may do better next time."""
        asked = call.arguments[:_SHOWN_ARGUMENTS]
        if any(use.name == call.name and use.arguments == asked and not use.failed for use in self.uses):
            self.uses.append(ToolUse(call.name, asked, "asked before", failed=True))
            return "You made this call before; its result is above."
        try:
            reply, outcome, items = self._perform(call)
        except CodeInfoError as error:
            self.uses.append(ToolUse(call.name, asked, error.what, failed=True))
            return f"error: {error.what}"
        self.uses.append(ToolUse(call.name, asked, outcome, items=tuple(item.graded() for item in items)))
        return reply

    def _perform(self, call: ToolCall) -> tuple[str, str, Sequence[Item]]:
        if call.name not in {spec.name for spec in self.specs()}:
            raise UsageError(f"there is no tool {call.name!r}")
        values = arguments_of(call)
        match call.name:
            case "search":
                return self._search(str(values["query"]))
            case "read_file":
                item = self.functions.read_file(str(values["path"]), int(values["start_line"]), int(values["end_line"]))
                numbered = self.evidence.show((item,))
                return shown(numbered), item.place, numbered
            case _:
                (argument,) = values.values()
                text = getattr(self.functions, call.name)(str(argument))
                cut = text[: self.gate.policy.chunk_max_chars]
                return cut, f"{cut.count(chr(10)) + 1} lines", ()

    def _search(self, query: str) -> tuple[str, str, Sequence[Item]]:
        admitted = self.gate.admit(self.functions.search(query))
        numbered = self.evidence.show(admitted.items)
        outcome = f"{len(numbered)} passages, {len(admitted.dropped)} dropped by the relevance policy"
        return shown(numbered) or "Nothing relevant was found.", outcome, numbered


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, checked against what the tool takes."""
    try:
        values = json.loads(call.arguments or "{}")
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise UsageError(f"the arguments of {call.name} are not a JSON object")
    properties = SPECS[call.name].parameters["properties"]
    missing = [name for name in SPECS[call.name].parameters["required"] if values.get(name) in (None, "")]
    if missing:
        raise UsageError(f"{call.name} needs {', '.join(missing)}")
    for name, rule in properties.items():
        if rule["type"] == "integer" and (not isinstance(values[name], int) or values[name] < 1):
            raise UsageError(f"{name} must be a whole number from 1")
    return {name: values[name] for name in properties}
