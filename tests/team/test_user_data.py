"""What belongs to users in a team's database: each sees their own, one server works on a queue, counts add up."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from patience import wait_until
from postgres_tools import called_by, user_data

from codeinfo.errors import CodeInfoError, NotFound
from codeinfo.operations.answers import ConversationIdsRequest, ConversationSearchRequest, ConversationsRequest
from codeinfo.store.user_data import ConversationStore, SavingsStore, Tally
from codeinfo.team.access import create_user
from codeinfo.team.database import TeamDatabase
from codeinfo.team.user_data import TeamUserData


@pytest.fixture
def database(postgres: str) -> Iterator[TeamDatabase]:
    opened = TeamDatabase(postgres)
    yield opened
    opened.close()


def create(store: ConversationStore, title: str) -> str:
    return store.create(title=title, provider="p", model="m", source="REST", agent_name="", paths=["/r"])


def test_each_sees_their_own_conversations(database: TeamDatabase) -> None:
    store = ConversationStore(TeamUserData(database))
    ann, bob = create_user(database, "ann"), create_user(database, "bob")
    made = {}
    for user in (ann, bob):
        with called_by(user):
            made[user] = create(store, f"of {user}")
            with store.run(made[user]):
                turn = store.begin(made[user], "a secret?", provider="p", model="m")
                store.finish(turn, content="a NUL \0 of a model", status="ok")
    made[-1] = create(store, "of who types commands here")
    assert [one.id for one in store.page(ConversationsRequest("all", 9)).conversations] == [made[-1]]
    with called_by(bob):
        assert [one.id for one in store.page(ConversationsRequest("all", 9)).conversations] == [made[bob]]
        found = store.search(ConversationSearchRequest("secret", 9))
        assert [match.conversation.id for match in found.matches] == [made[bob]]
        assert store.turns(made[ann]) == ()
        theirs = ConversationIdsRequest((made[ann],))
        for use in (lambda: store.get(made[ann]), lambda: store.delete(theirs), lambda: store.archive(theirs)):
            with pytest.raises(NotFound, match="there is no conversation"):
                use()
        with pytest.raises(NotFound):
            store.begin(made[ann], "and?", provider="p", model="m")
    with called_by(ann):
        assert store.turns(made[ann])[1].content == "a NUL \ufffd of a model"
    with called_by(0):  # nobody
        assert store.page(ConversationsRequest("all", 9)).conversations == ()
        with pytest.raises(CodeInfoError):
            create(store, "of nobody")


def test_statements_of_a_request_cannot_reach_what_is_not_theirs(database: TeamDatabase) -> None:
    ann, bob = create_user(database, "ann"), create_user(database, "bob")
    store = ConversationStore(TeamUserData(database))
    with called_by(ann):
        made = create(store, "mine")
    for statement in (
        "UPDATE conversations SET title = 'x'",
        "DELETE FROM conversations",
        "DELETE FROM turns",
        "UPDATE conversations SET user_id = caller()",
    ):
        with database.transaction(bob) as db:
            assert db.execute(statement.encode()).rowcount == 0
    taken = f"INSERT INTO turns(conversation_id, role, content, status, created_at, provider, model, error) VALUES('{made}', 'user', 'x', 'ok', '', '', '', '')"  # noqa: E501
    given = f"INSERT INTO savings(user_id, day, tool, calls, returned, files) VALUES({ann}, 'd', 't', 1, 1, 1)"
    for statement in (taken, given):
        with pytest.raises(CodeInfoError, match="row-level security"), database.transaction(bob) as db:
            db.execute(statement.encode())


def test_a_users_data_goes_with_the_user(database: TeamDatabase) -> None:
    ann = create_user(database, "ann")
    store = ConversationStore(TeamUserData(database))
    with called_by(ann):
        create(store, "mine")
    with database.transaction() as db:
        db.execute("DELETE FROM users WHERE id = %s", (ann,))
        assert db.execute("SELECT count(*) FROM conversations").fetchall() == [(0,)]


def test_savings_of_several_servers_add_up_by_user(postgres: str, database: TeamDatabase) -> None:
    users = [create_user(database, name) for name in ("ann", "bob")]
    one = Tally(1, 10, 100)

    def count() -> None:
        with user_data(postgres) as place:
            store = SavingsStore(place)
            for _ in range(10):
                for user in users:
                    store.add({("2025-01-01", "search"): one, ("2025-01-02", "search"): one}, user)

    servers = [threading.Thread(target=count) for _ in range(4)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()
    store = SavingsStore(TeamUserData(database))
    for user in users:
        with called_by(user):
            expected = Tally(40, 400, 4000)
            assert store.since("2025-01-01") == [
                ("2025-01-02", "search", expected),
                ("2025-01-01", "search", expected),
            ]
    assert store.since("2025-01-01") == []


def test_a_lost_connection_ends_a_lock(database: TeamDatabase) -> None:
    """As when the database fails over, or the server that held it is cut off."""
    store = ConversationStore(TeamUserData(database))
    made = create(store, "mine")
    with store.run(made):
        assert store.get(made).running
        with database.transaction() as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
        wait_until(lambda: not store.get(made).running)
    with store.run(made):
        pass
