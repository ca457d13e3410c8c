"""Conversations in one SQLite file in the user's data folder: precious, so nothing here deletes but on request.

A run holds a lock of its conversation that the kernel lets go of when the process dies, and begins by writing both its
turns in one transaction, the reply as failed. Finishing replaces that turn. So a crash at any moment leaves a turn that
says so, and never a question without one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw

from codeinfo.errors import Busy, CodeInfoError, IndexDamaged, IndexTooNew, NotFound, OutOfSpace, UsageError
from codeinfo.jsonable import jsonable
from codeinfo.model import Distance, Dropped
from codeinfo.operations.answers import (
    AnswerUsage,
    Citation,
    Conversation,
    ConversationMatch,
    ConversationPage,
    GradedItem,
    Round,
    ToolUse,
    Turn,
)
from codeinfo.private_files import open_private, private_folder, touch_private, wait_for_lock
from codeinfo.store.database import transaction

BUSY_MS = 10_000
LOCK_PATIENCE_S = 0.25  # a look at whether a run is going on holds its lock for a moment
UNFINISHED = "the run did not finish"
LEAST_PREFIX = 6  # characters of an id that may stand for all 16: fewer are as likely a slip as a choice
_MOST_NAMED = 5  # ids in an error

_LISTED = "`codeinfo conversations list` shows their ids"

Now = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class ConversationStore:
    def __init__(self, folder: Path, now: Now = utc_now) -> None:
        self.folder = folder
        self._now = now
        self._thread_lock = threading.RLock()
        with self._translated():
            private_folder(folder / "runs", folder)
            path = private_folder(folder) / "conversations.db"
            touch_private(path)
            self._db = apsw.Connection(str(path))
            self._db.set_busy_timeout(BUSY_MS)
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {pragma}").fetchall()
            self._migrate()

    def close(self) -> None:
        with self._thread_lock:
            self._db.close()

    # --- runs ---

    def create(
        self, *, title: str, provider: str, model: str, source: str, agent_name: str, paths: Sequence[str]
    ) -> str:
        identity, now = secrets.token_hex(8), self._stamp()
        with self._writing() as db:
            db.execute(
                f"INSERT INTO conversations({COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                (identity, title, provider, model, source, now, now, agent_name, json.dumps(list(paths))),
            )
        return identity

    @contextmanager
    def run(self, identity: str) -> Iterator[None]:
        """The only run of a conversation while the block lasts; a second one is refused."""
        handle = self._lock(identity)
        if handle is None:
            raise Busy(
                f"a run of conversation {identity} is in progress",
                next_step="Wait for it to end, or start another conversation",
                code="RUN_IN_PROGRESS",
            )
        try:
            yield
        finally:
            os.close(handle)

    def begin(self, identity: str, question: str, *, provider: str, model: str) -> int:
        """Write the question and a reply that counts as failed until `finish`; the id of the reply."""
        now = self._stamp()
        with self._writing() as db:
            if self._conversation(identity).archived_at is not None:
                raise UsageError(
                    f"conversation {identity} is archived and must be restored before use",
                    next_step=f"Run: codeinfo conversations restore {identity}",
                    code="CONVERSATION_ARCHIVED",
                )
            insert = """INSERT INTO turns(conversation_id, role, content, status, created_at, provider, model, error)
                        VALUES(?, ?, ?, ?, ?, ?, ?, ?)"""
            db.execute(insert, (identity, "user", question, "ok", now, provider, model, ""))
            db.execute(insert, (identity, "assistant", "", "failed", now, provider, model, UNFINISHED))
            reply = int(db.last_insert_rowid())
            update = "UPDATE conversations SET last_message_at = ?, provider = ?, model = ? WHERE id = ?"
            db.execute(update, (now, provider, model, identity))
        return reply

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
        rounds: Sequence[Round] = (),
        notes: Sequence[str] = (),
    ) -> None:
        now = self._stamp()
        with self._writing() as db:
            db.execute(
                """UPDATE turns SET content = ?, status = ?, tool_calls = ?, citations = ?, usage = ?, took_ms = ?,
                   error = ?, rounds = ?, notes = ?, model = CASE WHEN ? = '' THEN model ELSE ? END WHERE id = ?""",
                (
                    content,
                    status,
                    within_bounds(jsonable(tool_calls)),
                    _json(citations),
                    _json(usage),
                    took_ms,
                    error,
                    within_bounds(jsonable(rounds)),
                    _json(notes),
                    model,
                    model,
                    turn,
                ),
            )
            db.execute(
                """UPDATE conversations SET last_message_at = ?
                   WHERE id = (SELECT conversation_id FROM turns WHERE id = ?)""",
                (now, turn),
            )

    def running(self, identity: str) -> bool:
        handle = self._lock(identity, patience=0)
        if handle is not None:
            os.close(handle)
        return handle is None

    def _lock(self, identity: str, patience: float = LOCK_PATIENCE_S) -> int | None:
        with self._translated():
            path = self.folder / "runs" / identity
            handle = open_private(path, os.O_RDWR)
        try:
            wait_for_lock(handle, path, patience)
            return handle
        except BaseException as error:
            os.close(handle)
            if isinstance(error, Busy):
                return None
            raise

    # --- looking ---

    def get(self, given: str) -> Conversation:
        """The conversation of an id, or of the only id that begins so, by `LEAST_PREFIX` characters or more."""
        with self._reading():
            return self._conversation(given)

    def page(self, *, state: str, limit: int, cursor: str, agent_name: str = "") -> ConversationPage:
        where, values = ["1"], []
        if state != "all":
            where.append("archived_at IS NULL" if state == "active" else "archived_at IS NOT NULL")
        if agent_name:
            where.append("agent_name = ?")
            values.append(agent_name)
        if cursor:
            where.append("(last_message_at, id) < (?, ?)")
            values += _cursor_parts(cursor)
        query = (
            f"SELECT {COLUMNS} FROM conversations WHERE {' AND '.join(where)} ORDER BY last_message_at DESC, id DESC"
        )
        with self._reading() as db:
            rows = list(db.execute(f"{query} LIMIT ?", (*values, limit + 1)))
            found = tuple(self._built(row) for row in rows[:limit])
        last = found[-1] if len(rows) > limit else None
        return ConversationPage(found, _cursor(last.last_message_at, last.id) if last else "")

    def turns(self, identity: str) -> tuple[Turn, ...]:
        query = """SELECT id, conversation_id, role, content, status, created_at, model, provider,
                          tool_calls, citations, usage, took_ms, error, rounds, notes
                   FROM turns WHERE conversation_id = ? ORDER BY id"""
        with self._reading() as db:
            return tuple(turn_of(row) for row in db.execute(query, (identity,)))

    def search(self, text: str, limit: int) -> tuple[ConversationMatch, ...]:
        """Conversations that have every word somewhere, the latest first."""
        words = text.split()
        if not words:
            raise UsageError("there is nothing to search for", next_step="Name some words")
        patterns = [f"%{word.replace('^', '^^').replace('%', '^%').replace('_', '^_')}%" for word in words]
        having = """(c.title LIKE ? ESCAPE '^' OR EXISTS(
                    SELECT 1 FROM turns t WHERE t.conversation_id = c.id AND t.content LIKE ? ESCAPE '^'))"""
        query = f"""SELECT {COLUMNS} FROM conversations c WHERE {" AND ".join([having] * len(words))}
                    ORDER BY last_message_at DESC, id DESC LIMIT ?"""
        values = [pattern for pattern in patterns for _ in range(2)]
        with self._reading() as db:
            found = [self._built(row) for row in list(db.execute(query, (*values, limit)))]
        return tuple(ConversationMatch(one, excerpt_around(words, one.title, self.turns(one.id))) for one in found)

    # --- changing ---

    def archive(self, identities: Sequence[str]) -> tuple[str, ...]:
        return self._change(identities, "UPDATE conversations SET archived_at = ? WHERE id = ?", (self._stamp(),))

    def restore(self, identities: Sequence[str]) -> tuple[str, ...]:
        return self._change(identities, "UPDATE conversations SET archived_at = ? WHERE id = ?", (None,))

    def delete(self, identities: Sequence[str]) -> tuple[str, ...]:
        """For good, with all turns. One that is running is refused, and with it the whole call."""
        chosen = [self.get(given).id for given in identities]
        with contextlib.ExitStack() as runs:
            for identity in chosen:
                runs.enter_context(self.run(identity))
            self._change(chosen, "DELETE FROM conversations WHERE id = ?", ())
            for identity in chosen:
                (self.folder / "runs" / identity).unlink(missing_ok=True)
        return tuple(chosen)

    def _change(self, identities: Sequence[str], statement: str, values: Sequence[Any]) -> tuple[str, ...]:
        if not identities:
            raise UsageError("no conversation is named", next_step=_LISTED)
        with self._writing() as db:
            chosen = tuple(dict.fromkeys(self._conversation(given).id for given in identities))
            for identity in chosen:
                db.execute(statement, (*values, identity))
        return chosen

    # --- inside ---

    def _conversation(self, given: str) -> Conversation:
        query = f"SELECT {COLUMNS} FROM conversations WHERE id = ? OR substr(id, 1, ?) = ? ORDER BY id LIMIT ?"
        rows = list(self._db.execute(query, (given, len(given), given, _MOST_NAMED + 1))) if given else []
        exact = [row for row in rows if row[0] == given]
        if not exact and len(given) < LEAST_PREFIX:
            raise NotFound(
                f"{given!r} is too short to name a conversation",
                next_step=f"Give its id, or at least the first {LEAST_PREFIX} characters: {_LISTED}",
            )
        if not rows:
            raise NotFound(f"there is no conversation {given!r}", next_step=_LISTED)
        if not exact and len(rows) > 1:
            ids = [str(row[0]) for row in rows[:_MOST_NAMED]] + ["…"] * (len(rows) > _MOST_NAMED)
            raise NotFound(
                f"several conversations begin with {given!r}: {', '.join(ids)}",
                next_step="Give as many characters as only one of them has",
            )
        return self._built((exact or rows)[0])

    def _built(self, row: tuple[Any, ...]) -> Conversation:
        (counted,) = self._db.execute("SELECT count(*) FROM turns WHERE conversation_id = ?", (row[0],)).fetchall()
        return conversation_of(row, turns=int(str(counted[0])), running=self.running(row[0]))

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    def _migrate(self) -> None:
        """Each change of the tables has a name and is made once."""
        with self._writing() as db:
            db.execute("CREATE TABLE IF NOT EXISTS migrations(name TEXT PRIMARY KEY, made_at TEXT NOT NULL)")
            made = {row[0] for row in db.execute("SELECT name FROM migrations")}
            if unknown := made - MIGRATIONS.keys():
                names = ", ".join(sorted(unknown))
                raise IndexTooNew(
                    f"the conversations in {self.folder} were written by a newer CodeInfo ({names})",
                    next_step="Upgrade CodeInfo",
                )
            for name, statements in MIGRATIONS.items():
                if name not in made:
                    db.execute(statements)
                    db.execute("INSERT INTO migrations VALUES(?, ?)", (name, self._stamp()))

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        with self._transaction("BEGIN") as db:
            yield db

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[apsw.Connection]:
        with self._thread_lock, self._translated():
            if self._db.in_transaction:  # a step of a larger change
                yield self._db
                return
            with transaction(self._db, begin):
                yield self._db

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._error(error) from error
        except OSError as error:
            raise UsageError(
                f"the data folder {self.folder} cannot be used: {error.strerror}",
                next_step="Make it writable, or set CODEINFO_DATA_DIR to a folder that is",
            ) from error

    def _error(self, error: apsw.Error) -> CodeInfoError:
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return Busy("another process is writing conversations", next_step="Try again in a moment")
        if isinstance(error, apsw.FullError):
            return OutOfSpace(f"the disk under {self.folder} is full", next_step="Free some space")
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            return IndexDamaged(
                f"{self.folder / 'conversations.db'} is damaged: {error}",
                next_step="Put a copy from a backup in its place, or move it away to begin anew; nothing was deleted",
            )
        return UsageError(
            f"the conversations in {self.folder} cannot be used: {error}",
            next_step="Make the folder writable, or set CODEINFO_DATA_DIR to one that is",
        )


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(jsonable(value), ensure_ascii=False)


def _cursor(stamp: str, identity: str) -> str:
    return base64.urlsafe_b64encode(f"{stamp} {identity}".encode()).decode().rstrip("=")


def _cursor_parts(cursor: str) -> list[str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        stamp, identity = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(" ")
    except ValueError:
        raise UsageError("the cursor is not one that a list gave", next_step="Begin without a cursor") from None
    return [stamp, identity]


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


MOST_DETAIL_CHARS = 200_000  # of the searches or the tool calls of one turn
MALFORMED = "malformed entry"
_SHOWN_CHARS = 200  # of an entry that cannot be read
_UNREADABLE = (TypeError, ValueError, KeyError, AttributeError)

Value = TypeVar("Value")


def within_bounds(entries: list[dict[str, Any]]) -> str:
    """The details as JSON; without previews where they are too long, and without passages where they still are."""
    for field, empty in (("", None), ("preview", ""), ("items", []), ("dropped", [])):
        for entry in entries if field else ():
            for part in (entry, *entry.get("items", ())):
                if field in part:
                    part[field] = empty
        text = json.dumps(entries, ensure_ascii=False)
        if len(text) <= MOST_DETAIL_CHARS:
            return text
    return "[]"


def turn_of(row: tuple[Any, ...]) -> Turn:
    number, conversation, role, content, status, created, model, provider, *details, rounds, notes = row
    tools, citations, usage, took, error = details
    searches, unread = _read(rounds, _round)
    calls, odd_calls = _read(tools, _tool_use)
    return Turn(
        id=number,
        conversation_id=conversation,
        role=role,
        content=content,
        status=status,
        created_at=created,
        model=model,
        provider=provider,
        tool_calls=(*calls, *map(_unreadable, (*odd_calls, *unread))),
        citations=_read(citations, _citation)[0],
        usage=_usage(usage),
        took_ms=took,
        error=error,
        rounds=searches,
        notes=_read(notes, _text)[0],
    )


def _read(stored: str | None, build: Callable[[Any], Value]) -> tuple[tuple[Value, ...], tuple[object, ...]]:
    """The entries of a stored list, and those that are not what they should be."""
    try:
        entries = json.loads(stored or "[]")
    except ValueError:
        return (), (stored,)
    if not isinstance(entries, list):
        return (), (entries,)
    good, odd = [], []
    for entry in entries:
        try:
            good.append(build(entry))
        except _UNREADABLE:
            odd.append(entry)
    return tuple(good), tuple(odd)


def _unreadable(entry: object) -> ToolUse:
    return ToolUse("unknown", str(entry)[:_SHOWN_CHARS], MALFORMED, failed=True)


def _usage(stored: str | None) -> AnswerUsage | None:
    with suppress(*_UNREADABLE):
        told = json.loads(stored or "null")
        if told is not None and all(isinstance(value, int) for value in told.values()):
            return AnswerUsage(**told)
    return None


def _round(stored: Any) -> Round:
    items, odd = _entries(stored["items"], _item)
    dropped, odd_drops = _entries(stored["dropped"], _dropped)
    lost = odd + odd_drops
    return Round(
        query=_text(stored["query"]),
        items=items,
        dropped=dropped,
        average=_number(stored.get("average")),
        verdict=_text(stored["verdict"])
        + (f", {lost} {MALFORMED if lost == 1 else 'malformed entries'}" if lost else ""),
        score_source=_text(stored.get("score_source", "")),
    )


def _entries(stored: Any, build: Callable[[Any], Value]) -> tuple[tuple[Value, ...], int]:
    good: list[Value] = []
    for entry in stored:
        with suppress(*_UNREADABLE):
            good.append(build(entry))
    return tuple(good), len(stored) - len(good)


def _item(stored: Any) -> GradedItem:
    return GradedItem(
        *_place(stored),
        score=_number(stored.get("score")),
        distance=_distance(stored.get("distance")),
        root=_text(stored.get("root", "")),
        preview=_text(stored.get("preview", "")),
    )


def _dropped(stored: Any) -> Dropped:
    return Dropped(*_place(stored), _text(stored["rule"]), _text(stored.get("detail", "")))


def _tool_use(stored: Any) -> ToolUse:
    items, _ = _entries(stored.get("items", []), _item)
    name, arguments, outcome = (_text(stored[key]) for key in ("name", "arguments", "outcome"))
    return ToolUse(name, arguments, outcome, bool(stored.get("failed")), items)


def _citation(stored: Any) -> Citation:
    path, start, end = _place(stored)
    return Citation(
        number=_line(stored["number"]),
        root=_text(stored["root"]),
        path=path,
        start_line=start,
        end_line=end,
        symbol=_text(stored.get("symbol", "")),
        distance=_distance(stored.get("distance")),
        problem=_text(stored.get("problem", "")),
        section=_text(stored.get("section", "")),
        collection=_text(stored.get("collection", "")),
        opens=_text(stored.get("opens", "")),
    )


def _place(stored: Any) -> tuple[str, int, int]:
    return _text(stored["path"]), _line(stored["start_line"]), _line(stored["end_line"])


def _distance(stored: Any) -> Distance | None:
    value = _number(stored["value"]) if stored is not None else None
    return None if value is None else Distance(value, _text(stored["metric"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _line(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _number(value: Any) -> float | None:
    if value is not None and (not isinstance(value, int | float) or not math.isfinite(value)):
        raise TypeError(value)
    return value
