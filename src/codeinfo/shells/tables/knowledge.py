"""What the team knows: memories, patterns, metadata, style, and the packet for a review."""

from __future__ import annotations

from functools import partial

from codeinfo.requests import knowledge as requests
from codeinfo.shells.operations import Operation

_RENDERER = "codeinfo.shells.render_knowledge:render"
_Operation = partial(Operation, group="knowledge", renderer=_RENDERER)

OPERATIONS = (
    _Operation(
        name="remember",
        request=requests.RememberRequest,
        handler=lambda engine, request, progress: engine.knowledge.remember(request),
        summary="Write down something about this project for later.",
        help="Kept in .codeinfo/memory.json, to be committed with the project.",
        read_only=False,
    ),
    _Operation(
        name="memory list",
        request=requests.MemoryListRequest,
        handler=lambda engine, request, progress: engine.knowledge.memory_list(request),
        summary="What the team remembers, newest first or by a query.",
        help="Also what conventional commits of the last 90 days say.",
    ),
    _Operation(
        name="memory show",
        request=requests.MemoryShowRequest,
        handler=lambda engine, request, progress: engine.knowledge.memory_show(request),
        summary="Show one memory.",
        help="",
    ),
    _Operation(
        name="memory remove",
        request=requests.MemoryRemoveRequest,
        handler=lambda engine, request, progress: engine.knowledge.memory_remove(request),
        summary="Remove one memory from the project's file.",
        help="",
        read_only=False,
    ),
    _Operation(
        name="memory export",
        request=requests.MemoryExportRequest,
        handler=lambda engine, request, progress: engine.knowledge.memory_export(request),
        summary="Write the project's memories as JSON.",
        help="",
    ),
    _Operation(
        name="memory import",
        request=requests.MemoryImportRequest,
        handler=lambda engine, request, progress: engine.knowledge.memory_import(request),
        summary="Take in memories from a file.",
        help="Those already known stay as they are.",
        read_only=False,
        group="local",
    ),
    _Operation(
        name="patterns",
        request=requests.PatternsRequest,
        handler=lambda engine, request, progress: engine.knowledge.patterns(request, progress),
        summary="How the team writes code: adoption, trends, conflicts, golden files.",
        help="Trends come from the git dates of the lines that use a pattern.",
    ),
    _Operation(
        name="metadata",
        request=requests.MetadataRequest,
        handler=lambda engine, request, progress: engine.knowledge.metadata(request, progress),
        summary="Languages, sizes, frameworks, dependencies with versions, test set-up.",
        help="",
    ),
    _Operation(
        name="style",
        request=requests.StyleRequest,
        handler=lambda engine, request, progress: engine.knowledge.style(request, progress),
        summary="The style rules of the project's own documents and tools, with their lines.",
        help="",
    ),
    _Operation(
        name="review",
        request=requests.ReviewRequest,
        handler=lambda engine, request, progress: engine.knowledge.review(request, progress),
        summary="A packet for the review of a change: symbols, callers, tests, patterns, memories, reviewers.",
        help="Compares the files as they are with a git revision. No model is asked.",
    ),
)
