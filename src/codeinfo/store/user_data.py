"""The user's own data in SQLite files: transactions over statements that PostgreSQL accepts as well, and locks that end
with their holder. A team has the same tables, each row with its owner, behind the same methods: `team/user_data.py`.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw
from msgspec import Struct, ValidationError, to_builtins
from msgspec.structs import astuple

from codeinfo.errors import Busy, IndexTooNew, NotFound, UsageError
from codeinfo.files import locked, open_private, private_folder, touch_private
from codeinfo.model import NextStep, convert, dumps, to_run
from codeinfo.operations import answers as ops
from codeinfo.operations.clients import IngestRun
from codeinfo.store.database import BUSY_MS, DATA, Damage, transaction, translate_errors

Row = tuple[Any, ...]
LOCK_PATIENCE_S = 0.25  # checking whether a lock is held holds it for a moment


class Transaction(Protocol):
    def execute(self, statement: str, *values: Any) -> list[Row]: ...

    def is_locked(self, name: str) -> bool:
        """Whether somebody holds the lock of that name."""


class UserData(Protocol):
    """Rows of an owner: the current caller unless another one is given. A file has one owner, whichever is given."""

    def open(self) -> None:
        """Raises if the data cannot be used; otherwise the first transaction would."""

    def close(self) -> None:
        return

    @property
    def exists(self) -> bool:
        return True

    @property
    def owner(self) -> int:
        return 0

    def reading(self) -> AbstractContextManager[Transaction]: ...

    def writing(self, owner: int | None = None) -> AbstractContextManager[Transaction]:
        """One per owner at a time, from its start, all or nothing."""

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """Whether the lock is held for the duration of the block; another process may have it."""

    def drop_lock(self, name: str) -> None:
        """Its subject is gone for good. A database forgets a lock that nobody holds."""
        return


class UserFile(UserData):
    """One file in the user's data folder. `lock` creates files beside it."""

    def __init__(self, path: Path, migrations: Mapping[str, str]) -> None:
        self._path = path
        self._migrations = migrations
        self._db: apsw.Connection | None = None
        self._lock = threading.RLock()

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def open(self) -> None:
        with self.reading():
            pass

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN")

    def writing(self, owner: int | None = None) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._lock, translate_errors(self._path.parent, DATA, self._path.name):
            try:
                db = self._db = self._db or _open(self._path, self._migrations)
                with transaction(db, begin):
                    yield self
            except (UnicodeDecodeError, apsw.SQLError) as error:  # a text, or a name, with a flipped bit
                if isinstance(error, apsw.SQLError) and not str(error).startswith(("no such ", "table ")):
                    raise
                raise Damage(str(error)) from error

    def execute(self, statement: str, *values: Any) -> list[Row]:
        """Inside a transaction."""
        assert self._db is not None
        return self._db.execute(statement, values).fetchall()

    # --- locks that the kernel lets go of when the process dies ---

    @contextmanager
    def lock(self, name: str, patience_s: float = LOCK_PATIENCE_S) -> Iterator[bool]:
        path = self._path.parent / name
        with translate_errors(self._path.parent, DATA, self._path.name):
            private_folder(path.parent, self._path.parent)
            handle = open_private(path, os.O_RDWR)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(handle, path, patience_s))
                is_held = True
            except Busy:
                is_held = False
            yield is_held

    def is_locked(self, name: str) -> bool:
        with self.lock(name, 0) as held:
            return not held

    def drop_lock(self, name: str) -> None:
        (self._path.parent / name).unlink(missing_ok=True)


_MIGRATIONS_TABLE = "CREATE TABLE IF NOT EXISTS migrations(name TEXT PRIMARY KEY, made_at TEXT NOT NULL)"


def _open(path: Path, migrations: Mapping[str, str]) -> apsw.Connection:
    """The database, created if needed. Each migration has a name and runs once."""
    private_folder(path.parent)
    if not os.path.lexists(path):
        _create(path)
    touch_private(path)
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_MS)
    _check_length(path, db.pragma("page_size"))
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    if _migrations_made(db) != migrations.keys():
        with transaction(db):
            db.execute(_MIGRATIONS_TABLE)
            names_made = _migrations_made(db)
            if unknown := names_made - migrations.keys():
                raise IndexTooNew(
                    f"{path} was written by a newer CodeInfo ({', '.join(sorted(unknown))})", "Upgrade CodeInfo"
                )
            for name in [name for name in migrations if name not in names_made]:
                db.execute(migrations[name])
                db.execute("INSERT INTO migrations VALUES(?, ?)", (name, timestamp()))
    return db


def _create(path: Path) -> None:
    """With a first table, under its name only when that is written: an empty file is therefore a damaged one."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    touch_private(temporary)
    try:
        with closing(apsw.Connection(str(temporary))) as db:
            db.execute(_MIGRATIONS_TABLE)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # created by another process meanwhile
        except OSError:  # a file system without links: at least nobody else's database is replaced
            with suppress(FileExistsError), open(open_private(path, os.O_WRONLY | os.O_EXCL), "wb") as target:
                target.write(temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)


def _check_length(path: Path, page: int) -> None:
    """SQLite takes a page that was cut for one that ends in zeros, with fewer rows or other numbers, and an empty file
    for a new one. A page that is still in the log is not missing."""
    log = path.with_name(f"{path.name}-wal")
    if not path.stat().st_size:
        raise Damage(f"{path.name} is empty")
    if path.stat().st_size % page and not (log.exists() and log.stat().st_size):
        raise Damage("it was cut")


def _migrations_made(db: apsw.Connection) -> set[str]:
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall():
        return set()
    return {str(row[0]) for row in db.execute("SELECT name FROM migrations")}


def utc_now() -> datetime:
    return datetime.now(UTC)


def timestamp(moment: datetime | None = None) -> str:
    """Now, or the given moment, in UTC; these texts sort chronologically."""
    return (moment or utc_now()).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class UserStore:
    """Tables in a file of a folder, or in what a team shares."""

    def __init__(self, place: Path | UserData, name: str, migrations: Mapping[str, str]) -> None:
        self._data: UserData = UserFile(place / name, migrations) if isinstance(place, Path) else place

    @property
    def owner(self) -> int:
        return self._data.owner

    def close(self) -> None:
        self._data.close()


# --- tokens that answers saved ----------------------------------------------------------------------------------------


_SAVINGS_MIGRATIONS = {
    "savings": """CREATE TABLE IF NOT EXISTS savings(
    day TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT NULL, returned INTEGER NOT NULL, files INTEGER NOT NULL,
    PRIMARY KEY(day, tool)) WITHOUT ROWID"""  # versions before the first migration already created the table
}


class Tally(Struct, frozen=True):
    """Calls, the tokens they returned, and the tokens of the whole files they came from."""

    calls: int = 0
    returned: int = 0
    files: int = 0

    @property
    def saved(self) -> int:
        return self.files - self.returned

    def plus(self, other: Tally) -> Tally:
        return Tally(self.calls + other.calls, self.returned + other.returned, self.files + other.files)


class SavingsStore(UserStore):
    def __init__(self, place: Path | UserData) -> None:
        super().__init__(place, "savings.db", _SAVINGS_MIGRATIONS)

    def add(self, tallies: Mapping[tuple[str, str], Tally], owner: int | None = None) -> None:
        with self._data.writing(owner) as db:
            for (day, tool), tally in tallies.items():
                counts = astuple(tally)
                update = """UPDATE savings SET calls = calls + ?, returned = returned + ?, files = files + ?
                            WHERE day = ? AND tool = ? RETURNING 1"""
                if not db.execute(update, *counts, day, tool):
                    insert = "INSERT INTO savings(day, tool, calls, returned, files) VALUES(?, ?, ?, ?, ?)"
                    db.execute(insert, day, tool, *counts)

    def since(self, day: str) -> Sequence[tuple[str, str, Tally]]:
        """Day, tool and tally from that day on, the latest first."""
        if not self._data.exists:
            return ()
        query = "SELECT day, tool, calls, returned, files FROM savings WHERE day >= ? ORDER BY day DESC, tool"
        with self._data.reading() as db:
            rows = db.execute(query, day)
        return [(str(row[0]), str(row[1]), Tally(*(int(count or 0) for count in row[2:]))) for row in rows]


# --- the queue of folders to index ------------------------------------------------------------------------------------
#
# It outlives the process that works on it. A run is queued, running, done, failed or cancelled. A root waits at most
# once: asking again gives the run that waits.

KEPT = 200  # finished runs that are remembered
_QUEUE_MIGRATIONS = {
    "runs": """CREATE TABLE IF NOT EXISTS runs(
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL, complete INTEGER NOT NULL,
    state TEXT NOT NULL, created_at TEXT NOT NULL, started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
    error_code TEXT NOT NULL DEFAULT '')"""  # versions before the first migration already created the table
}
_RUN = "id, root, complete, state, created_at, started_at, finished_at, outcome, error, error_code"


class IngestStore(UserStore):
    """In the data folder of the machine whose folders are indexed. A run's outcome is stored as JSON."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "ingest.db", _QUEUE_MIGRATIONS)
        self._data.open()

    def add(self, root: str, *, full: bool, most: int) -> str | None:
        """The id of this root's waiting run, or of a new one; None if `most` are already waiting."""
        with self._data.writing() as db:
            same = "WHERE root = ? AND complete = ? AND state IN ('queued', 'running') ORDER BY state, place LIMIT 1"
            for run in _select(db, same, root, int(full)):
                return run.id
            ((waiting,),) = db.execute("SELECT count(*) FROM runs WHERE state = 'queued'")
            if waiting >= most:
                return None
            identity = secrets.token_hex(8)
            insert = "INSERT INTO runs(id, root, complete, state, created_at) VALUES(?, ?, ?, 'queued', ?)"
            db.execute(insert, identity, root, int(full), timestamp())
            db.execute(
                """DELETE FROM runs WHERE state NOT IN ('queued', 'running')
                   AND place <= (SELECT max(place) FROM runs) - ?""",
                KEPT,
            )
            return identity

    def cancel_waiting(self, identity: str) -> bool:
        """Whether it was waiting and no longer is."""
        update = """UPDATE runs SET state = 'cancelled', finished_at = ? WHERE id = ? AND state = 'queued'
                    RETURNING id"""
        with self._data.writing() as db:
            return bool(db.execute(update, timestamp(), identity))

    def get(self, identity: str) -> IngestRun | None:
        with self._data.reading() as db:
            rows = _select(db, "WHERE id = ?", identity)
        return rows[0] if rows else None

    def waiting_runs(self) -> list[IngestRun]:
        """Running and queued, in order."""
        with self._data.reading() as db:
            return _select(db, "WHERE state IN ('queued', 'running') ORDER BY state DESC, place")

    def finished_runs(self, limit: int) -> list[IngestRun]:
        """The latest first."""
        where = "WHERE state NOT IN ('queued', 'running') ORDER BY finished_at DESC, place DESC LIMIT ?"
        with self._data.reading() as db:
            return _select(db, where, limit)

    def worker(self) -> AbstractContextManager[bool]:
        """The lock of the one process that works on the queue."""
        return self._data.lock("ingest.lock")

    def resume(self) -> None:
        """Runs that a dead process left running wait again, before all others."""
        with self._data.writing() as db:
            db.execute("UPDATE runs SET state = 'queued', started_at = '' WHERE state = 'running'")

    def take(self) -> IngestRun | None:
        update = f"""UPDATE runs SET state = 'running', started_at = ? WHERE state = 'queued' AND id =
                     (SELECT id FROM runs WHERE state = 'queued' ORDER BY place LIMIT 1) RETURNING {_RUN}"""
        with self._data.writing() as db:
            rows = db.execute(update, timestamp())
        return _run(rows[0]) if rows else None

    def finish(
        self,
        identity: str,
        state: str,
        *,
        outcome: Mapping[str, Any] | None = None,
        error: str = "",
        error_code: str = "",
    ) -> None:
        """`outcome` holds fields of the run."""
        update = """UPDATE runs SET state = ?, finished_at = ?, outcome = ?, error = ?, error_code = ?
                    WHERE id = ? AND state IN ('queued', 'running')"""
        with self._data.writing() as db:
            db.execute(update, state, timestamp(), dumps(outcome) if outcome else "", error, error_code, identity)


def _select(db: Transaction, where: str, *values: Any) -> list[IngestRun]:
    return [_run(row) for row in db.execute(f"SELECT {_RUN} FROM runs {where}", *values)]


def _run(row: tuple[Any, ...]) -> IngestRun:
    stored = dict(zip(_RUN.replace("complete", "full").split(", "), row, strict=True))
    outcome = json.loads(stored.pop("outcome") or "{}")
    return convert({"position": 0, **stored, "full": bool(stored["full"]), **outcome}, IngestRun)


# --- conversations ----------------------------------------------------------------------------------------------------
#
# They are precious, so nothing here is deleted except on request.
#
# A run holds a lock of its conversation that ends when the process dies, and starts by writing both its turns in one
# transaction, the reply as failed. Finishing replaces that turn. So a crash at any moment leaves a turn that says so,
# and never a question without one.

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
CONVERSATION_MIGRATIONS: dict[str, str] = {
    "conversations and turns": """
        CREATE TABLE conversations(
            id TEXT PRIMARY KEY, title TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
            source TEXT NOT NULL, created_at TEXT NOT NULL, last_message_at TEXT NOT NULL, agent_name TEXT NOT NULL,
            archived_at TEXT, paths TEXT NOT NULL);
        CREATE INDEX conversations_by_time ON conversations(last_message_at, id);
        CREATE TABLE turns(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            role TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL,
            provider TEXT NOT NULL, model TEXT NOT NULL,
            tool_calls TEXT, citations TEXT, usage TEXT, took_ms REAL, error TEXT NOT NULL);
        CREATE INDEX turns_by_conversation ON turns(conversation_id, id);
    """,
    "searches and notes of turns": """
        ALTER TABLE turns ADD COLUMN rounds TEXT;
        ALTER TABLE turns ADD COLUMN notes TEXT;
    """,
}

_BOUNDED = ("tool_calls", "rounds")  # columns whose details may be long
_ARCHIVE = "UPDATE conversations SET archived_at = ? WHERE id = ?"
_CONVERSATION = "id, title, provider, model, source, created_at, last_message_at, agent_name, archived_at, paths"

Now = Callable[[], datetime]
Value = TypeVar("Value")


class ConversationStore(UserStore):
    def __init__(self, place: Path | UserData, now: Now = utc_now) -> None:
        super().__init__(place, "conversations.db", CONVERSATION_MIGRATIONS)
        self._now = now
        self._data.open()

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
                raise _run_in_progress(identity)
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
        took_ms: float | None = None,
        error: str = "",
        **details: object,
    ) -> None:
        """`details` are the searches (`rounds`), `tool_calls`, `citations`, `usage` and `notes` of a reply, if any."""
        columns = {"content": content, "status": status, "took_ms": took_ms, "error": error}
        columns |= {"model": model} if model else {}
        for name, value in details.items():
            columns[name] = encode_bounded(value) if name in _BOUNDED else _json(value)
        update = f"UPDATE turns SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?"
        used = (
            "UPDATE conversations SET last_message_at = ? WHERE id = (SELECT conversation_id FROM turns WHERE id = ?)"
        )
        with self._data.writing() as db:
            db.execute(update, *columns.values(), turn)
            db.execute(used, self._stamp(), turn)

    def get(self, name: str) -> ops.Conversation:
        """By its id, or by a prefix of at least `LEAST_PREFIX` characters that no other id has."""
        with self._data.reading() as db:
            return _find_conversation(db, name)

    def page(self, request: ops.ConversationsRequest) -> ops.ConversationPage:
        where, values = ["TRUE"], []
        if request.state != "all":
            where.append("archived_at IS NULL" if request.state == "active" else "archived_at IS NOT NULL")
        if request.agent:
            where.append("agent_name = ?")
            values.append(request.agent)
        if request.cursor:
            where.append("(last_message_at, id) < (?, ?)")
            values += request.cursor.split(",")
            if request.cursor.count(",") != 1:
                raise UsageError("the cursor is not valid", "Start without a cursor")
        query = f"""SELECT {_CONVERSATION} FROM conversations WHERE {" AND ".join(where)}
                    ORDER BY last_message_at DESC, id DESC LIMIT ?"""
        with self._data.reading() as db:
            rows = db.execute(query, *values, request.limit + 1)
            conversations = tuple(_read_conversation(db, row) for row in rows[: request.limit])
        last = conversations[-1] if len(rows) > request.limit else None
        return ops.ConversationPage(conversations, f"{last.last_message_at},{last.id}" if last else "")

    def show(self, request: ops.ConversationRequest) -> ops.ConversationDetail:
        conversation = self.get(request.id)
        return ops.ConversationDetail(conversation, self.turns(conversation.id))

    def turns(self, identity: str) -> tuple[ops.Turn, ...]:
        query = """SELECT id, conversation_id, role, content, status, created_at, model, provider,
                          tool_calls, citations, usage, took_ms, error, rounds, notes
                   FROM turns WHERE conversation_id = ? ORDER BY id"""
        with self._data.reading() as db:
            return tuple(turn_of(row) for row in db.execute(query, identity))

    def search(self, request: ops.ConversationSearchRequest) -> ops.ConversationMatches:
        """Conversations that contain every word, the latest first."""
        words = list(dict.fromkeys(request.text.split()))
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
            conversations = [_read_conversation(db, row) for row in db.execute(query, *values, request.limit)]
        excerpts = (excerpt_around(words, found.title, self.turns(found.id)) for found in conversations)
        return ops.ConversationMatches(request.text, tuple(map(ops.ConversationMatch, conversations, excerpts)))

    def archive(self, request: ops.ConversationIdsRequest) -> ops.ConversationsChanged:
        return ops.ConversationsChanged("archived", self._change(request.ids, _ARCHIVE, (self._stamp(),)))

    def restore(self, request: ops.ConversationIdsRequest) -> ops.ConversationsChanged:
        return ops.ConversationsChanged("restored", self._change(request.ids, _ARCHIVE, (None,)))

    def delete(self, request: ops.ConversationIdsRequest) -> ops.ConversationsChanged:
        """Delete for good, with all turns. A running one is refused, and with it the whole call; one that begins
        meanwhile finds no conversation."""
        deleted = self._change(request.ids, "DELETE FROM conversations WHERE id = ?", (), refuse_running=True)
        for identity in deleted:
            self._data.drop_lock(_lock_of(identity))
        return ops.ConversationsChanged("deleted", deleted)

    def _change(
        self, names: Sequence[str], statement: str, values: Sequence[Any], *, refuse_running: bool = False
    ) -> tuple[str, ...]:
        if not names:
            raise UsageError("no conversation was given", _LISTED)
        with self._data.writing() as db:
            conversations = {row.id: row for row in (_find_conversation(db, name) for name in names)}
            for identity, conversation in conversations.items():
                if refuse_running and conversation.running:
                    raise _run_in_progress(identity)
                db.execute(statement, *values, identity)
        return tuple(conversations)

    def _stamp(self) -> str:
        return timestamp(self._now())


def _lock_of(identity: str) -> str:
    return f"runs/{identity}"


def _run_in_progress(identity: str) -> Busy:
    what, step = f"a run of conversation {identity} is in progress", "Wait for it to end, or start another conversation"
    return Busy(what, step, code="RUN_IN_PROGRESS")


def _find_conversation(db: Transaction, name: str) -> ops.Conversation:
    query = f"SELECT {_CONVERSATION} FROM conversations WHERE id = ? OR substr(id, 1, ?) = ? ORDER BY id LIMIT ?"
    rows = db.execute(query, name, len(name), name, _MOST_NAMED + 1) if name else []
    exact = [row for row in rows if row[0] == name]
    if not exact and len(name) < LEAST_PREFIX:
        raise NotFound(
            f"{name!r} is too short to identify a conversation",
            NextStep(f"Give its id, or at least the first {LEAST_PREFIX} characters: ", _LISTED),
        )
    if not rows:
        raise NotFound(f"there is no conversation {name!r}", _LISTED)
    if not exact and len(rows) > 1:
        ids = [str(row[0]) for row in rows[:_MOST_NAMED]] + ["…"] * (len(rows) > _MOST_NAMED)
        raise NotFound(
            f"several conversations begin with {name!r}: {', '.join(ids)}",
            "Give enough characters to identify one of them",
        )
    return _read_conversation(db, (exact or rows)[0])


def _read_conversation(db: Transaction, row: tuple[Any, ...]) -> ops.Conversation:
    ((counted,),) = db.execute("SELECT count(*) FROM turns WHERE conversation_id = ?", row[0])
    *plain, paths = row
    return ops.Conversation(*(*plain, int(counted), db.is_locked(_lock_of(row[0])), tuple(json.loads(paths))))


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(to_builtins(value, enc_hook=str), ensure_ascii=False)


def excerpt_around(words: Sequence[str], title: str, turns: Sequence[ops.Turn]) -> str:
    """The surroundings of the first word found in a turn, otherwise the title."""
    for turn in turns:
        folded = turn.content.casefold()
        for word in words:
            at = folded.find(word.casefold())
            if at >= 0:
                start, end = max(0, at - _EXCERPT), at + len(word) + _EXCERPT
                excerpt = " ".join(turn.content[start:end].split())
                return f"{'…' if start else ''}{excerpt}{'…' if end < len(turn.content) else ''}"
    return title


def encode_bounded(details: object) -> str:
    """Searches or tool calls as JSON; if too long, without the first lines of passages, or not at all."""
    text = _json(details) or "[]"
    if len(text) > MOST_DETAIL_CHARS:
        entries = json.loads(text)
        for entry in entries:
            for item in entry.get("items", ()):
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
    unread = (ops.ToolUse("unknown", str(entry)[:_SHOWN_CHARS], MALFORMED, failed=True) for entry in odd)
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


def verify_conversations(folder: Path) -> None:
    """Raises IndexDamaged if a page of the file, unless there is none, is damaged."""
    if (folder / "conversations.db").exists():
        with closing(UserFile(folder / "conversations.db", CONVERSATION_MIGRATIONS)) as file, file.reading() as db:
            if (faults := db.execute("PRAGMA integrity_check(1)")) != [("ok",)]:
                raise Damage(faults[0][0])
