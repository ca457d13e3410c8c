"""Users' and projects' data in the team's database besides the code, under row security: conversations and savings
through the statements of `codeinfo.store.user_data`, answers in progress, memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from msgspec import Struct
from psycopg.types.json import Jsonb

from codeinfo.errors import UsageError
from codeinfo.knowledge.memory import MAX_BYTES, TOO_LARGE, Memory, from_record, to_record
from codeinfo.model import dumps
from codeinfo.store.user_data import Row, Transaction, UserData
from codeinfo.team.access import Refused, request_user
from codeinfo.team.database import Connection, TeamDatabase, lock_key

OPERATOR = -1  # who types commands on a machine with access to the database: a user without a row


class TeamUserData(UserData):
    """The rows of the current caller. The database is closed by its owner."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def open(self) -> None:
        self._database.open()

    @property
    def owner(self) -> int:
        user = request_user()
        return OPERATOR if user is None else user

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._database.transaction(self.owner) as db:
            yield _TeamTransaction(db)

    @contextmanager
    def writing(self, owner: int | None = None) -> Iterator[Transaction]:
        owner = self.owner if owner is None else owner
        with self._database.transaction(owner) as db:
            db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"data of user {owner}"),))
            yield _TeamTransaction(db)

    def lock(self, name: str) -> AbstractContextManager[bool]:
        return self._database.try_locked(name)


class _TeamTransaction:
    def __init__(self, db: Connection) -> None:
        self._db = db

    def execute(self, statement: str, *values: Any) -> list[Row]:
        # PostgreSQL cannot store a NUL in text, which a model may well write.
        storable = [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]
        cursor = self._db.execute(statement.replace("?", "%s").encode(), storable)
        return cursor.fetchall() if cursor.description is not None else []

    def is_locked(self, name: str) -> bool:
        key = lock_key(name) % (1 << 64)
        query = """SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
                   AND classid = %s::oid AND objid = %s::oid
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
        return bool(self._db.execute(query, (key >> 32, key & 0xFFFFFFFF)).fetchall())


# --- answers while they are written --------------------------------------------------------------------------------

GONE_S = 10.0  # without a heartbeat, after which a server counts as gone
_DAYS_KEPT = 1
_COLUMNS = f"""id, conversation, agent, coalesce(result, ''), result IS NOT NULL,
    seen_at < now() - interval '{GONE_S} seconds'"""

Event = tuple[str, str]  # its kind, and its data as JSON


class SharedAnswer(Struct, frozen=True):
    """`result` is the JSON of a finished one; `gone` says that its server has ended without finishing it."""

    id: str
    conversation: str
    agent: str
    result: str
    finished: bool
    gone: bool


class SharedAnswers:
    """The server that writes an answer publishes its events, and others show them. Finished answers are dropped
    after a while: the conversation has them. Each method sees only its owner's answers."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def begin(self, owner: int, identity: str, question: str, conversation: str, agent: str) -> None:
        with self._database.transaction(owner) as db:
            db.execute("DELETE FROM answers WHERE seen_at < now() - make_interval(days => %s)", (_DAYS_KEPT,))
            insert = "INSERT INTO answers(id, question, conversation, agent) VALUES(%s, %s, %s, %s)"
            db.execute(insert, (identity, question.replace("\0", " "), conversation, agent))

    def publish(self, owner: int, identity: str, first: int, events: Sequence[Event], result: str = "") -> bool:
        """Add events from number `first` on; returns whether a stop was requested. Idempotent."""
        with self._database.transaction(owner) as db:
            rows = [(identity, number, *event) for number, event in enumerate(events, first)]
            insert = "INSERT INTO answer_events VALUES(%s, %s, %s, %s) ON CONFLICT (answer, number) DO NOTHING"
            db.cursor().executemany(insert, rows)
            update = "UPDATE answers SET seen_at = now(), result = nullif(%s, '') WHERE id = %s RETURNING stop"
            return any(stop for (stop,) in db.execute(update, (result, identity)))

    def find(self, owner: int, *, identity: str = "", conversation: str = "") -> SharedAnswer | None:
        """By its id, or the one in progress in a conversation."""
        query = f"""SELECT {_COLUMNS} FROM answers WHERE id = %s OR (conversation = %s AND result IS NULL)
                    ORDER BY seen_at DESC LIMIT 1"""
        values = (identity, conversation or None)
        row = self._database.read(lambda db: db.execute(query.encode(), values).fetchone(), owner)
        return None if row is None else SharedAnswer(*row)

    def events(self, owner: int, identity: str, after: int) -> list[Event]:
        query = "SELECT kind, data FROM answer_events WHERE answer = %s AND number >= %s ORDER BY number"
        return [(kind, data) for kind, data in self._database.rows(query, (identity, after), owner)]

    def stop(self, owner: int, identity: str) -> None:
        with self._database.transaction(owner) as db:
            db.execute("UPDATE answers SET stop = true WHERE id = %s", (identity,))


# --- memories of projects that are not checked out -----------------------------------------------------------------


def read_memories(database: TeamDatabase, identity: str) -> tuple[Memory, ...]:
    return database.read(lambda db: _read(db, identity), request_user())


def change_memories(
    database: TeamDatabase, identity: str, edit: Callable[[tuple[Memory, ...]], Sequence[Memory]]
) -> tuple[Memory, ...]:
    """Replace them by `edit` of them, under a lock, and return what they were. Needs the level write."""
    user = request_user()
    with database.transaction(user) as db:
        writable = "SELECT 1 FROM projects WHERE identity = %s AND id IN (SELECT writable_projects())"
        if user is not None and db.execute(writable, (identity,)).fetchone() is None:
            step = "Ask an administrator for the level write"
            raise Refused(f"you may read {identity}, but not change its memories", step)
        db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"memories of {identity}"),))
        before = _read(db, identity)
        after = tuple({memory.id: memory for memory in edit(before)}.values())
        size = sum(len(dumps(to_record(memory))) for memory in after)
        if size > MAX_BYTES and len(after) > len(before):  # each search of the project reads all of them
            raise UsageError(f"the memories of {identity} would have {size:,} bytes", TOO_LARGE)
        gone = [memory.id for memory in before if memory not in after]
        delete = "DELETE FROM memories m USING projects p WHERE p.id = m.project AND p.identity = %s AND m.id = ANY(%s)"
        db.execute(delete, (identity, gone))
        for memory in after:
            if memory not in before:
                insert = "INSERT INTO memories(project, id, record) SELECT id, %s, %s FROM projects WHERE identity = %s"
                db.execute(insert, (memory.id, Jsonb(to_record(memory)), identity))
        return before


def _read(db: Connection, identity: str) -> tuple[Memory, ...]:
    query = """SELECT m.record FROM memories m JOIN projects p ON p.id = m.project
               WHERE p.identity = %s ORDER BY m.id"""
    return tuple(from_record(row[0]) for row in db.execute(query, (identity,)))
