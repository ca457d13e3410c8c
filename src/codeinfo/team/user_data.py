"""What belongs to a user, in the team's database: the statements of `codeinfo.store.user_data`, under row security."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from codeinfo.store.user_data import Row, Transaction
from codeinfo.team.access import request_user
from codeinfo.team.database import Connection, TeamDatabase, lock_key

OPERATOR = -1  # who types commands on a machine that may open the database: a user without a row


class TeamUserData:
    """The rows of the current caller. Belongs to the database, which is closed by who opened it."""

    exists = True

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def open(self) -> None:
        self._database.open()

    def close(self) -> None:
        return

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

    def drop_lock(self, name: str) -> None:
        """The database forgets a lock that nobody holds."""


class _TeamTransaction:
    def __init__(self, db: Connection) -> None:
        self._db = db

    def execute(self, statement: str, *values: Any) -> list[Row]:
        done = self._db.execute(statement.replace("?", "%s").encode(), [_storable(value) for value in values])
        return done.fetchall() if done.description is not None else []

    def is_locked(self, name: str) -> bool:
        key = lock_key(name) % (1 << 64)
        query = """SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
                   AND classid = %s::oid AND objid = %s::oid
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
        return bool(self._db.execute(query, (key >> 32, key & 0xFFFFFFFF)).fetchall())


def _storable(value: Any) -> Any:
    """PostgreSQL has no text with a NUL, which a model may well write."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
