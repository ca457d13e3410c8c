"""Tools for a change: what the team does and knows, what is affected, what a reviewer wants."""

from __future__ import annotations

from codeinfo.operations import code, knowledge
from codeinfo.shells import mcp_shapes as shapes
from codeinfo.shells.mcp_tools import Tool, direct

TOOLS: tuple[Tool, ...] = (
    direct(
        "get_team_patterns",
        "patterns",
        ("edit",),
        knowledge.PatternsRequest,
        "How this team writes code: which ways are adopted, rising or declining, where they conflict, and golden files "
        "to imitate. Use it before writing new code.",
        folder="path",
        only=("category", "languages"),
    ),
    direct(
        "remember",
        "remember",
        ("edit",),
        knowledge.RememberRequest,
        "Write down a convention, decision, gotcha or failure for later, in the project's own memory file.",
        folder="path",
        only=("memory", "type", "category", "reason", "scope"),
    ),
    direct(
        "get_memory",
        "memory list",
        ("edit",),
        knowledge.MemoryListRequest,
        "What the team wrote down or its history says about a topic: conventions, decisions, gotchas, failures.",
        folder="path",
        only=("query", "type", "category", "limit"),
        result=shapes.Memories,
        shape=shapes.memories,
    ),
    direct(
        "get_codebase_metadata",
        "metadata",
        ("edit",),
        knowledge.MetadataRequest,
        "Languages, sizes, frameworks, dependencies with versions, and how tests are run.",
        folder="path",
        only=(),
    ),
    direct(
        "get_style_guide",
        "style",
        ("edit",),
        knowledge.StyleRequest,
        "The style rules of the project's own documents and tools, with the lines they stand on.",
        folder="path",
        only=("query",),
    ),
    direct(
        "detect_circular_dependencies",
        "cycles",
        ("edit",),
        code.CyclesRequest,
        "Files that import each other in circles, worst first.",
        folder="path",
        only=("limit",),
    ),
    direct(
        "get_change_impact",
        "impact",
        ("edit",),
        code.ImpactRequest,
        "Which files a change of one file may affect, and which tests cover it.",
        folder="root",
        only=("path", "hops", "limit"),
        renamed={"file": "path"},
    ),
    direct(
        "get_review_packet",
        "review",
        ("edit",),
        knowledge.ReviewRequest,
        "What a reviewer of the current change wants at hand: changed symbols and their callers, missing tests, "
        "patterns broken, memories, reviewers.",
        folder="path",
        only=("base", "limit"),
    ),
)
