"""The resource `codebase://context` and the prompts for common tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from codeinfo.errors import CodeInfoError

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.operations.code import CodeMap
    from codeinfo.serve.dispatch import Call

CONTEXT_URI = "codebase://context"
LISTED = 10  # entries of each part


def codebase_context(engine: Engine, call: Call) -> str:
    """The working folder's project on one page, as Markdown."""
    from codeinfo.operations.code import MapRequest
    from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest

    found = engine.code.map(MapRequest(), call.progress)
    parts = [_overview(found), *_parts(found)]
    try:
        report = engine.knowledge.patterns(PatternsRequest(), call.progress)
        memories = engine.knowledge.memory_list(MemoryListRequest(limit=LISTED)).memories
    except CodeInfoError as error:
        return "\n\n".join([*parts, f"What the team knows could not be read: {error}"])
    ways = [f"{p.name} ({p.question}): {p.guidance}, {p.adoption} %" for p in report.patterns if p.guidance]
    parts += _section("How this team writes code", ways)
    parts += _section("What the team wrote down", [f"{one.type}: {one.memory} ({one.label})" for one in memories])
    return "\n\n".join(parts)


def _overview(found: CodeMap) -> str:
    languages = ", ".join(f"{name} {count}" for name, count in list(found.languages.items())[:LISTED])
    return f"# {found.root.rpartition('/')[2]}\n\n{found.files} files ({languages}), {found.cycles} import cycles."


def _parts(found: CodeMap) -> list[str]:
    return [
        *_section("Entry points", [file.path for file in found.entry_points]),
        *_section("Files that most others need", [f"{f.path} ({f.imported_by} files)" for f in found.hubs]),
        *_section("Key types", [f"{one.qualified} ({one.path}:{one.start_line})" for one in found.interfaces]),
        *_section("Large files that change often", [f"{h.path} ({h.commits} commits)" for h in found.hotspots]),
    ]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    listed = [f"- {line}" for line in lines][:LISTED]
    return [f"## {title}\n\n" + "\n".join(listed)] if listed else []


# --- prompts -------------------------------------------------------------------------------------------------------


class PromptRow(Struct, frozen=True):
    """`text` has a {place} for its argument, which is required."""

    name: str
    description: str
    argument: str
    argument_help: str
    text: str


PROMPTS = (
    PromptRow(
        "understand",
        "Learn how a part of this codebase works, with places to read.",
        "topic",
        "The feature, module or question.",
        "Explain how {topic} works in this codebase. Call get_codebase_map if you do not know the project, then "
        "search_codebase with the topic in plain words, and get_symbol_references for the names that matter. Read only "
        "what the results point to. Answer with the flow step by step, each with its file and lines.",
    ),
    PromptRow(
        "plan_change",
        "Plan a change with the evidence it needs.",
        "change",
        "What is to be changed.",
        "Plan this change: {change}. Call search_codebase with intent edit and heed `preflight`: while it is not ready "
        "do what its nextAction and whatWouldHelp say. Look at the callers with get_symbol_references. Then list the "
        "files to change, what each needs, the tests to run, and the risks. Do not change anything yet.",
    ),
    PromptRow(
        "review_change",
        "Review the current change of this project.",
        "base",
        "The revision to compare with, such as main.",
        "Review the change of this working tree against {base}. Call get_review_packet where it is offered, else use "
        "git diff; search_codebase and get_symbol_references show what else is affected. Report defects first, with "
        "file and line, then missing tests, then departures from the team's patterns.",
    ),
    PromptRow(
        "find_cause",
        "Find the cause of a failure.",
        "symptom",
        "The error message or what goes wrong.",
        "Find the cause of this: {symptom}. Call search_codebase with the message's own words and with what the code "
        "should have done; follow callers with get_symbol_references. Name the cause with file and line, say what "
        "proves it, and propose the smallest fix.",
    ),
)
