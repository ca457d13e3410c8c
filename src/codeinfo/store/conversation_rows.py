"""The tables of conversations, and their rows as values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from codeinfo.operations.answers import Conversation, Turn

# In the order they were added; a name never changes once it was released.
MIGRATIONS: dict[str, str] = {
    "conversations and turns": """
        CREATE TABLE conversations(
            id TEXT PRIMARY KEY,
            title TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            source TEXT NOT NULL,
            created_at TEXT NOT NULL,
            last_message_at TEXT NOT NULL,
            agent_name TEXT NOT NULL,
            archived_at TEXT,
            paths TEXT NOT NULL
        );
        CREATE INDEX conversations_by_time ON conversations(last_message_at, id);
        CREATE TABLE turns(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            role TEXT NOT NULL,
            content TEXT NOT NULL,
            status TEXT NOT NULL,
            created_at TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            tool_calls TEXT,
            citations TEXT,
            usage TEXT,
            took_ms REAL,
            error TEXT NOT NULL
        );
        CREATE INDEX turns_by_conversation ON turns(conversation_id, id);
    """,
    "searches and notes of turns": """
        ALTER TABLE turns ADD COLUMN rounds TEXT;
        ALTER TABLE turns ADD COLUMN notes TEXT;
    """,
}

COLUMNS = "id, title, provider, model, source, created_at, last_message_at, agent_name, archived_at, paths"
EXCERPT = 80  # characters around a found word


def conversation_of(row: tuple[Any, ...], *, turns: int, running: bool) -> Conversation:
    identity, title, provider, model, source, created, last, agent, archived, paths = row
    return Conversation(
        id=identity,
        title=title,
        provider=provider,
        model=model,
        source=source,
        created_at=created,
        last_message_at=last,
        agent_name=agent,
        archived_at=archived,
        turns=turns,
        running=running,
        paths=tuple(json.loads(paths)),
    )


def excerpt_around(words: Sequence[str], title: str, turns: Sequence[Turn]) -> str:
    """The surroundings of the first word that a turn has, else the title."""
    for turn in turns:
        folded = turn.content.casefold()
        for word in words:
            at = folded.find(word.casefold())
            if at >= 0:
                start, end = max(0, at - EXCERPT), at + len(word) + EXCERPT
                shown = " ".join(turn.content[start:end].split())
                return f"{'…' if start else ''}{shown}{'…' if end < len(turn.content) else ''}"
    return title
