"""Conversations. They are precious, so nothing here is deleted except on request.

A run holds a lock of its conversation that ends when the process dies, and starts by writing both its turns in one
transaction, the reply as failed. Finishing replaces that turn. So a crash at any moment leaves a turn that says so, and
never a question without one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import ValidationError, convert, to_builtins

from codeinfo.errors import Busy, NotFound, UsageError
from codeinfo.model import NextStep, to_run
from codeinfo.operations import answers as ops
from codeinfo.store.user_data import Transaction, UserData, UserFile, timestamp, utc_now

UNFINISHED = "the run did not finish"
LEAST_PREFIX = 6  # characters of an id that may stand for all 16: a shorter prefix is likely a typo
_MOST_NAMED = 5  # ids in an error
MOST_DETAIL_CHARS = 200_000  # of the searches or the tool calls of one turn
MALFORMED = "malformed entry"
_SHOWN_CHARS = 200  # of an entry that cannot be read
MOST_WORDS = 100  # of a search: each is a condition
_EXCERPT = 80  # characters around a found word

_LISTED = NextStep(to_run("conversations list"), " shows their ids")

# In the order they were added; a name never changes after its release.
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

_CONVERSATION = "id, title, provider, model, source, created_at, last_message_at, agent_name, archived_at, paths"

Now = Callable[[], datetime]
Value = TypeVar("Value")


class ConversationStore:
    """In a folder, or in what a team shares."""

    def __init__(self, place: Path | UserData, now: Now = utc_now) -> None:
        self._data: UserData = UserFile(place / "conversations.db", MIGRATIONS) if isinstance(place, Path) else place
        self._now = now
        self._data.open()

    def close(self) -> None:
        self._data.close()

    @property
    def owner(self) -> int:
        """Whose conversations are seen now."""
        return self._data.owner

    # --- runs ---

    def create(
        self, *, title: str, provider: str, model: str, source: str, agent_name: str, paths: Sequence[str]
    ) -> str:
        identity, now = secrets.token_hex(8), self._stamp()
        insert = f"INSERT INTO conversations({_CONVERSATION}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, NULL, ?)"
        paths_json = json.dumps(list(paths))
        with self._data.writing() as db:
            db.execute(insert, identity, title, provider, model, source, now, now, agent_name, paths_json)
        return identity

    @contextmanager
    def run(self, identity: str) -> Iterator[None]:
        """The only run of a conversation during the block; a second one is refused."""
        with self._data.lock(_lock_of(identity)) as held:
            if not held:
                raise Busy(
                    f"a run of conversation {identity} is in progress",
                    "Wait for it to end, or start another conversation",
                    code="RUN_IN_PROGRESS",
                )
            yield

    def begin(self, identity: str, question: str, *, provider: str, model: str) -> int:
        """Write the question and a reply that counts as failed until `finish`; returns the id of the reply."""
        now = self._stamp()
        with self._data.writing() as db:
            if _find_conversation(db, identity).archived_at is not None:
                raise UsageError(
                    f"conversation {identity} is archived and must be restored before use",
                    NextStep("Run ", to_run("conversations restore", identity)),
                    code="CONVERSATION_ARCHIVED",
                )
            insert = """INSERT INTO turns(conversation_id, role, content, status, created_at, provider, model, error)
                        VALUES(?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
            db.execute(insert, identity, "user", question, "ok", now, provider, model, "")
            ((reply,),) = db.execute(insert, identity, "assistant", "", "failed", now, provider, model, UNFINISHED)
            update = "UPDATE conversations SET last_message_at = ?, provider = ?, model = ? WHERE id = ?"
            db.execute(update, now, provider, model, identity)
        return int(reply)

    def finish(
        self,
        turn: int,
        *,
        content: str,
        status: str,
        model: str = "",
        tool_calls: object = (),
        citations: object = (),
        usage: object = None,
        took_ms: float | None = None,
        error: str = "",
        rounds: Sequence[ops.Round] = (),
        notes: Sequence[str] = (),
    ) -> None:
        now = self._stamp()
        with self._data.writing() as db:
            db.execute(
                """UPDATE turns SET content = ?, status = ?, tool_calls = ?, citations = ?, usage = ?, took_ms = ?,
                   error = ?, rounds = ?, notes = ?, model = CASE WHEN ? = '' THEN model ELSE ? END WHERE id = ?""",
                content,
                status,
                encode_bounded(tool_calls),
                _json(citations),
                _json(usage),
                took_ms,
                error,
                encode_bounded(rounds),
                _json(notes),
                model,
                model,
                turn,
            )
            db.execute(
                """UPDATE conversations SET last_message_at = ?
                   WHERE id = (SELECT conversation_id FROM turns WHERE id = ?)""",
                now,
                turn,
            )

    # --- looking ---

    def get(self, given: str) -> ops.Conversation:
        """The conversation with this id, or with the only id that has this prefix of at least `LEAST_PREFIX`
        characters."""
        with self._data.reading() as db:
            return _find_conversation(db, given)

    def page(self, *, state: str, limit: int, cursor: str, agent_name: str = "") -> ops.ConversationPage:
        where, values = ["TRUE"], []
        if state != "all":
            where.append("archived_at IS NULL" if state == "active" else "archived_at IS NOT NULL")
        if agent_name:
            where.append("agent_name = ?")
            values.append(agent_name)
        if cursor:
            where.append("(last_message_at, id) < (?, ?)")
            values += cursor.split(",")
            if cursor.count(",") != 1:
                raise UsageError("the cursor is not valid", "Start without a cursor")
        query = f"""SELECT {_CONVERSATION} FROM conversations WHERE {" AND ".join(where)}
                    ORDER BY last_message_at DESC, id DESC LIMIT ?"""
        with self._data.reading() as db:
            rows = db.execute(query, *values, limit + 1)
            found = tuple(_read_conversation(db, row) for row in rows[:limit])
        last = found[-1] if len(rows) > limit else None
        return ops.ConversationPage(found, f"{last.last_message_at},{last.id}" if last else "")

    def turns(self, identity: str) -> tuple[ops.Turn, ...]:
        query = """SELECT id, conversation_id, role, content, status, created_at, model, provider,
                          tool_calls, citations, usage, took_ms, error, rounds, notes
                   FROM turns WHERE conversation_id = ? ORDER BY id"""
        with self._data.reading() as db:
            return tuple(turn_of(row) for row in db.execute(query, identity))

    def search(self, text: str, limit: int) -> tuple[ops.ConversationMatch, ...]:
        """Conversations that contain every word, the latest first."""
        words = list(dict.fromkeys(text.split()))
        if not words:
            raise UsageError("there is nothing to search for", "Give some words")
        if len(words) > MOST_WORDS:
            raise UsageError(f"the search has {len(words):,} different words", f"Use at most {MOST_WORDS}")
        patterns = [f"%{word.replace('^', '^^').replace('%', '^%').replace('_', '^_')}%" for word in words]
        having = """(lower(c.title) LIKE lower(?) ESCAPE '^' OR EXISTS(SELECT 1 FROM turns t
                    WHERE t.conversation_id = c.id AND lower(t.content) LIKE lower(?) ESCAPE '^'))"""
        query = f"""SELECT {_CONVERSATION} FROM conversations c WHERE {" AND ".join([having] * len(words))}
                    ORDER BY last_message_at DESC, id DESC LIMIT ?"""
        values = [pattern for pattern in patterns for _ in range(2)]
        with self._data.reading() as db:
            found = [_read_conversation(db, row) for row in db.execute(query, *values, limit)]
        return tuple(ops.ConversationMatch(one, excerpt_around(words, one.title, self.turns(one.id))) for one in found)

    # --- changing ---

    def archive(self, identities: Sequence[str]) -> tuple[str, ...]:
        return self._change(identities, "UPDATE conversations SET archived_at = ? WHERE id = ?", (self._stamp(),))

    def restore(self, identities: Sequence[str]) -> tuple[str, ...]:
        return self._change(identities, "UPDATE conversations SET archived_at = ? WHERE id = ?", (None,))

    def delete(self, identities: Sequence[str]) -> tuple[str, ...]:
        """Delete for good, with all turns. A running one is refused, and with it the whole call."""
        chosen = [self.get(given).id for given in identities]
        with ExitStack() as runs:
            for identity in chosen:
                runs.enter_context(self.run(identity))
            self._change(chosen, "DELETE FROM conversations WHERE id = ?", ())
            for identity in chosen:
                self._data.drop_lock(_lock_of(identity))
        return tuple(chosen)

    def _change(self, identities: Sequence[str], statement: str, values: Sequence[Any]) -> tuple[str, ...]:
        if not identities:
            raise UsageError("no conversation was given", _LISTED)
        with self._data.writing() as db:
            chosen = tuple(dict.fromkeys(_find_conversation(db, given).id for given in identities))
            for identity in chosen:
                db.execute(statement, *values, identity)
        return chosen

    def _stamp(self) -> str:
        return timestamp(self._now())


def _lock_of(identity: str) -> str:
    return f"runs/{identity}"


def _find_conversation(db: Transaction, given: str) -> ops.Conversation:
    query = f"SELECT {_CONVERSATION} FROM conversations WHERE id = ? OR substr(id, 1, ?) = ? ORDER BY id LIMIT ?"
    rows = db.execute(query, given, len(given), given, _MOST_NAMED + 1) if given else []
    exact = [row for row in rows if row[0] == given]
    if not exact and len(given) < LEAST_PREFIX:
        raise NotFound(
            f"{given!r} is too short to identify a conversation",
            NextStep(f"Give its id, or at least the first {LEAST_PREFIX} characters: ", _LISTED),
        )
    if not rows:
        raise NotFound(f"there is no conversation {given!r}", _LISTED)
    if not exact and len(rows) > 1:
        ids = [str(row[0]) for row in rows[:_MOST_NAMED]] + ["…"] * (len(rows) > _MOST_NAMED)
        raise NotFound(
            f"several conversations begin with {given!r}: {', '.join(ids)}",
            "Give enough characters to identify one of them",
        )
    return _read_conversation(db, (exact or rows)[0])


def _read_conversation(db: Transaction, row: tuple[Any, ...]) -> ops.Conversation:
    ((counted,),) = db.execute("SELECT count(*) FROM turns WHERE conversation_id = ?", row[0])
    *plain, paths = row
    return ops.Conversation(*(*plain, int(counted), db.is_locked(_lock_of(row[0])), tuple(json.loads(paths))))


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(to_builtins(value, enc_hook=str), ensure_ascii=False)


# --- rows as values ------------------------------------------------------------------------------------------------


def excerpt_around(words: Sequence[str], title: str, turns: Sequence[ops.Turn]) -> str:
    """The surroundings of the first word found in a turn, otherwise the title."""
    for turn in turns:
        folded = turn.content.casefold()
        for word in words:
            at = folded.find(word.casefold())
            if at >= 0:
                start, end = max(0, at - _EXCERPT), at + len(word) + _EXCERPT
                shown = " ".join(turn.content[start:end].split())
                return f"{'…' if start else ''}{shown}{'…' if end < len(turn.content) else ''}"
    return title


def encode_bounded(details: object) -> str:
    """Searches or tool calls as JSON; if too long, without the first lines of passages, or not at all."""
    text = _json(details) or "[]"
    if len(text) > MOST_DETAIL_CHARS:
        entries = json.loads(text)
        for item in (item for entry in entries for item in entry.get("items", ())):
            item["preview"] = ""
        text = json.dumps(entries, ensure_ascii=False)
    return text if len(text) <= MOST_DETAIL_CHARS else "[]"


def turn_of(row: tuple[Any, ...]) -> ops.Turn:
    """A row as a turn. A conversation is worth more than its details: an entry written by another version or by hand
    is shown as unreadable, and everything else as it is."""
    *plain, tool_calls, citations, usage, took_ms, error, rounds, notes = row
    searches, odd_searches = _read(rounds, ops.Round)
    calls, odd_calls = _read(tool_calls, ops.ToolUse)
    odd = odd_calls + odd_searches
    unread = (ops.ToolUse("unknown", str(each)[:_SHOWN_CHARS], MALFORMED, failed=True) for each in odd)
    details: dict[str, Any] = {
        "tool_calls": (*calls, *unread),
        "citations": _read(citations, ops.Citation)[0],
        "usage": next(iter(_read(f"[{usage or ''}]", ops.AnswerUsage)[0]), None),
        "took_ms": took_ms,
        "error": error,
        "rounds": searches,
        "notes": _read(notes, str)[0],
    }
    return ops.Turn(*plain, **details)


def _read(stored: str | None, kind: type[Value]) -> tuple[tuple[Value, ...], tuple[object, ...]]:
    """The entries of a stored list, and those that are malformed."""
    try:
        # NaN, which JSON does not have, becomes a text, and its entry unreadable.
        entries = json.loads(stored or "[]", parse_constant=str)
    except ValueError:
        return (), (stored,)
    good, odd = [], []
    for entry in entries if isinstance(entries, list) else (entries,):
        try:
            good.append(convert(entry, kind))
        except ValidationError:
            odd.append(entry)
    return tuple(good), tuple(odd)
