"""What the engine says to people, said to agents: beside a command stands the tool that does the same.

The command stays, for agents whose server offers fewer tools and that have a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# By operation, as the tables of tools have it: an answer must not wait until all of these are loaded.
TOOLS = {
    "search": "search_codebase",
    "refs": "get_symbol_references",
    "map": "get_codebase_map",
    "index": "refresh_index",
    "status": "get_indexing_status",
    "patterns": "get_team_patterns",
    "memory list": "get_memory",
    "remember": "remember",
    "metadata": "get_codebase_metadata",
    "style": "get_style_guide",
    "cycles": "detect_circular_dependencies",
    "impact": "get_change_impact",
    "review": "get_review_packet",
    "docs search": "documents_search",
    "docs section": "documents_get_document",
    "docs outline": "documents_get_outline",
    "docs related": "documents_find_related",
    "docs list": "documents_list_collections",
    "docs ask": "ask_documents",
    "ask": "codebase_question",
    "agents list": "list_agents",
    "agents run": "run_agent_instruction",
}

_COMMAND = re.compile(r"`codeinfo ([a-z]+(?: [a-z]+)?)[^`]*`")


def with_tool(text: str) -> str:
    return _COMMAND.sub(_named, text)


def with_tools(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(with_tool, texts))


def _named(command: re.Match[str]) -> str:
    words = command[1]
    tool = TOOLS.get(words) or TOOLS.get(words.partition(" ")[0])  # the second word may be an argument
    return f"{tool} ({command[0]})" if tool else command[0]
