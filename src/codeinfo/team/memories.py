"""What a team remembers about a project that is not checked out: told to a server, kept in the team's database, for all
who may see the project. Who may write to it may change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psycopg.types.json import Jsonb

from codeinfo.knowledge.memory import Memory, from_record, to_record
from codeinfo.team.access import Refused, request_user
from codeinfo.team.database import Connection, TeamDatabase, lock_key


def read_memories(database: TeamDatabase, identity: str) -> tuple[Memory, ...]:
    return database.read(lambda db: _read(db, identity), request_user())


def change_memories(
    database: TeamDatabase, identity: str, edit: Callable[[tuple[Memory, ...]], Sequence[Memory]]
) -> tuple[Memory, ...]:
    """Replace them by `edit` of them while no other server can."""
    user = request_user()
    with database.transaction(user) as db:
        writable = "SELECT 1 FROM projects WHERE identity = %s AND id IN (SELECT writable_projects())"
        if user is not None and db.execute(writable, (identity,)).fetchone() is None:
            raise Refused(
                f"you may read {identity}, and not change what is remembered about it",
                next_step="Ask an administrator for the level write",
            )
        db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"memories of {identity}"),))
        before = _read(db, identity)
        after = tuple({memory.id: memory for memory in edit(before)}.values())
        gone = [memory.id for memory in before if memory not in after]
        delete = "DELETE FROM memories m USING projects p WHERE p.id = m.project AND p.identity = %s AND m.id = ANY(%s)"
        db.execute(delete, (identity, gone))
        for memory in after:
            if memory not in before:
                insert = "INSERT INTO memories(project, id, record) SELECT id, %s, %s FROM projects WHERE identity = %s"
                db.execute(insert, (memory.id, Jsonb(to_record(memory)), identity))
        return after


def _read(db: Connection, identity: str) -> tuple[Memory, ...]:
    query = """SELECT m.record FROM memories m JOIN projects p ON p.id = m.project
               WHERE p.identity = %s ORDER BY m.id"""
    return tuple(from_record(row[0]) for row in db.execute(query, (identity,)))
