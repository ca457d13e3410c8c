"""Answers while they are written, in the team's database: the server that writes one publishes its events, and others
show them. What is finished is dropped after a while: the conversation has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from codeinfo.team.database import TeamDatabase

GONE_S = 10.0  # a server that was not heard of for so long has ended
_DAYS_KEPT = 1
_COLUMNS = f"""id, question, conversation, agent, coalesce(result, ''), result IS NOT NULL,
    seen_at < now() - interval '{GONE_S} seconds'"""

Event = tuple[str, str]  # its kind, and its data as JSON


class SharedAnswer(Struct, frozen=True):
    """`result` is JSON, of a finished one; `gone` says that its server has ended without finishing it."""

    id: str
    question: str
    conversation: str
    agent: str
    result: str
    finished: bool
    gone: bool


class SharedAnswers:
    """Each method is for an owner, whose answers alone it sees."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def begin(self, owner: int, identity: str, question: str, conversation: str, agent: str) -> None:
        with self._database.transaction(owner) as db:
            db.execute("DELETE FROM answers WHERE seen_at < now() - make_interval(days => %s)", (_DAYS_KEPT,))
            db.execute(
                "INSERT INTO answers(id, question, conversation, agent) VALUES(%s, %s, %s, %s)",
                (identity, question.replace("\0", " "), conversation, agent),
            )

    def publish(
        self, owner: int, identity: str, first: int, events: Sequence[Event], result: str | None = None
    ) -> bool:
        """Add events from number `first` on; whether somebody wants it to end. Publishing twice does no harm."""
        with self._database.transaction(owner) as db:
            rows = [(identity, number, *event) for number, event in enumerate(events, first)]
            with db.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO answer_events VALUES(%s, %s, %s, %s) ON CONFLICT (answer, number) DO NOTHING", rows
                )
            update = "UPDATE answers SET seen_at = now(), result = %s WHERE id = %s RETURNING stop"
            return any(stop for (stop,) in db.execute(update, (result, identity)))

    def find(self, owner: int, *, identity: str = "", conversation: str = "") -> SharedAnswer | None:
        """By its id, or the one that is being written in a conversation."""
        query = f"""SELECT {_COLUMNS} FROM answers WHERE id = %s OR (conversation = %s AND result IS NULL)
                    ORDER BY seen_at DESC LIMIT 1"""
        values = (identity, conversation or None)
        row = self._database.read(lambda db: db.execute(query.encode(), values).fetchone(), owner)
        return None if row is None else SharedAnswer(*row)

    def events(self, owner: int, identity: str, after: int) -> list[Event]:
        query = "SELECT kind, data FROM answer_events WHERE answer = %s AND number >= %s ORDER BY number"
        return self._database.read(lambda db: [(row[0], row[1]) for row in db.execute(query, (identity, after))], owner)

    def stop(self, owner: int, identity: str) -> None:
        with self._database.transaction(owner) as db:
            db.execute("UPDATE answers SET stop = true WHERE id = %s", (identity,))
