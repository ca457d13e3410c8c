"""Users, groups, grants, tokens, sessions and the audit log, on a real PostgreSQL."""

from __future__ import annotations

import contextvars
import json
import threading
import time
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest
from postgres_tools import caller_of

from codeinfo.errors import NotFound, UsageError
from codeinfo.team import access
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import create_tree

Run = Callable[..., CompletedProcess[str]]
ONE, TWO = "host.example/a/one", "host.example/a/two"


@pytest.fixture
def database(postgres: str) -> Iterator[TeamDatabase]:
    made = TeamDatabase(postgres)
    with made.transaction() as db:
        for identity in (ONE, TWO):
            db.execute("INSERT INTO projects(identity) VALUES (%s)", (identity,))
    access.create_user(made, "ann")
    access.create_user(made, "root", admin=True)
    yield made
    made.close()


def seen_by(database: TeamDatabase, user: str) -> list[str]:
    with database.transaction() as db:
        identity = access.user_id(db, user)
    context = contextvars.copy_context()
    context.run(access.current_user.set, access.Caller(identity, user))
    return context.run(access.visible_projects, database)


def actions(database: TeamDatabase) -> list[str]:
    with database.transaction() as db:
        return [row[0] for row in db.execute("SELECT action FROM audit ORDER BY id")]


# --- tokens ---


def test_a_token_is_its_users_until_it_is_revoked(database: TeamDatabase) -> None:
    token = access.create_token(database, "Ann", "laptop", ("read", "write"))
    assert token.startswith("cit_")
    assert len(token) == 4 + 43  # 256 bits
    caller = caller_of(database, token)
    assert caller is not None
    assert (caller.name, caller.admin, sorted(caller.scopes)) == ("ann", False, ["read", "write"])
    access.revoke_token(database, caller.token_id)
    assert caller_of(database, token) is None
    with pytest.raises(NotFound, match="no valid token"):
        access.revoke_token(database, caller.token_id)


def test_the_name_of_a_token_is_as_short_in_the_audit_log(database: TeamDatabase) -> None:
    access.create_token(database, "ann", "x" * 5000)
    with database.transaction() as db:
        names = db.execute("SELECT name FROM tokens UNION ALL SELECT detail->>'name' FROM audit WHERE detail ? 'token'")
        assert {len(name) for (name,) in names} == {200}


def test_only_the_hash_of_a_token_is_stored(database: TeamDatabase) -> None:
    token = access.create_token(database, "ann")
    caller_of(database, token)
    with database.transaction() as db:
        tables = [row[0] for row in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'codeinfo'")]
        stored = "".join(str(db.execute(f"SELECT x::text FROM {name} x".encode()).fetchall()) for name in tables)
    assert access.hash_of(token).hex() in stored
    assert token.removeprefix("cit_") not in stored
    assert token.encode().hex() not in stored


@pytest.mark.parametrize("given", ["", "cit_", "cit_" + "x" * 43, "x" * 47, "cit_" + "é" * 43, "cit_" + "x" * 10_000])
def test_what_is_no_token_is_nobodys(database: TeamDatabase, given: str) -> None:
    assert caller_of(database, given) is None


def test_an_expired_token_and_one_of_a_disabled_user_are_refused(database: TeamDatabase) -> None:
    token = access.create_token(database, "ann", days=1)
    access.set_disabled(database, "ann", True)
    assert caller_of(database, token) is None
    access.set_disabled(database, "ann", False)
    assert caller_of(database, token) is not None
    with database.transaction() as db:
        db.execute("UPDATE tokens SET expires_at = now()")
    assert caller_of(database, token) is None


def test_a_token_needs_an_end_known_scopes_and_for_admin_an_administrator(database: TeamDatabase) -> None:
    for scopes, days in ((("read",), 0), (("read",), 367), ((), 10), (("everything",), 10), (("admin",), 10)):
        with pytest.raises(UsageError):
            access.create_token(database, "ann", scopes=scopes, days=days)
    caller = caller_of(database, access.create_token(database, "root", scopes=("admin",)))
    assert caller is not None
    assert caller.admin
    plain = caller_of(database, access.create_token(database, "root"))
    assert plain is not None
    assert not plain.admin, "an administrator's token without the scope is none"
    with database.transaction() as db:
        db.execute("UPDATE users SET admin = false")
    demoted = caller_of(database, access.create_token(database, "root"))
    assert demoted is not None
    assert "admin" not in demoted.scopes


def test_the_use_of_a_token_is_noted_once_a_minute(database: TeamDatabase) -> None:
    token = access.create_token(database, "ann")
    threads = [threading.Thread(target=caller_of, args=(database, token)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert actions(database).count("token used") == 1
    with database.transaction() as db:
        db.execute("UPDATE tokens SET used_at = now() - interval '61 seconds'")
    caller_of(database, token)
    assert actions(database).count("token used") == 2


# --- grants ---


def test_grants_reach_users_groups_and_everyone_and_end_at_once(database: TeamDatabase) -> None:
    assert seen_by(database, "ann") == []
    access.grant(database, ONE, "ann")
    access.add_members(database, "core", ["ann"])
    access.grant(database, f"https://{TWO}.git", "@core", "write")
    assert seen_by(database, "ann") == [ONE, TWO]
    access.remove_members(database, "core", ["ann"])
    assert seen_by(database, "ann") == [ONE]
    access.revoke(database, ONE, "ann")
    assert seen_by(database, "ann") == []
    access.grant(database, ONE, "everyone")
    assert seen_by(database, "ann") == [ONE]
    access.revoke(database, ONE, "everyone")
    assert seen_by(database, "root") == [], "to manage a team is not to read its code"


def test_only_a_grant_of_that_level_lets_somebody_write(database: TeamDatabase) -> None:
    access.grant(database, ONE, "ann", "read")
    access.grant(database, TWO, "ann", "write")
    with database.transaction() as db:
        user = access.user_id(db, "ann")
    with database.transaction(user) as db:
        asked = "SELECT identity FROM projects WHERE id IN (SELECT writable_projects())"
        assert db.execute(asked).fetchall() == [(TWO,)]
    with database.transaction(access.NOBODY) as db:
        assert db.execute("SELECT writable_projects()").fetchall() == []


def test_work_in_progress_is_seen_by_its_owner_alone(database: TeamDatabase) -> None:
    """Whatever its name: an operator's is called after a user of the machine, as whom anybody may sign in."""
    access.create_user(database, "bob")
    access.grant(database, ONE, "ann")
    access.grant(database, ONE, "bob")
    with database.transaction() as db:
        users = dict(db.execute("SELECT name, id FROM users").fetchall())
        create_tree(db, ONE, "refs/heads/main", "r")
        create_tree(db, ONE, "work/ann/desktop/src-0123", "r")
        for name in ("ann", "bob"):
            create_tree(db, ONE, f"work/{name}/one", "r", owner=users[name])
        with pytest.raises(NotFound):
            create_tree(db, ONE, "work/bob/one", "r", owner=users["ann"])
    for name in ("ann", "bob"):
        with database.transaction(users[name]) as db:
            visible = [row[0] for row in db.execute("SELECT name FROM trees ORDER BY 1")]
        assert visible == ["refs/heads/main", f"work/{name}/one"]


@pytest.mark.parametrize("name", ["", "a/b", "a b", "everyone", "x" * 101, "../x", "a\x00b"])
def test_names_that_would_be_taken_for_something_else_are_refused(database: TeamDatabase, name: str) -> None:
    with pytest.raises(UsageError):
        access.create_user(database, name)


def test_a_name_is_given_once(database: TeamDatabase) -> None:
    with pytest.raises(UsageError, match="already"):
        access.create_user(database, "ANN")


# --- who asks ---


def test_a_server_that_lost_its_caller_sees_nothing(database: TeamDatabase) -> None:
    assert access.visible_projects(database) == [ONE, TWO]
    with access.require_callers():
        assert access.visible_projects(database) == []
    assert access.visible_projects(database) == [ONE, TWO]


# --- sessions ---


def test_a_session_ends_with_its_user_its_token_and_by_signing_out(database: TeamDatabase) -> None:
    token = access.create_token(database, "ann")
    caller = caller_of(database, token)
    assert caller is not None
    by_token = access.new_session(database, caller.user_id, caller.token_id)
    signed_in = access.new_session(database, caller.user_id)
    assert access.session_caller(database, by_token) == caller
    found = access.session_caller(database, signed_in)
    assert found is not None
    assert found.scopes == {"read", "write"}
    access.revoke_token(database, caller.token_id)
    assert access.session_caller(database, by_token) is None
    access.end_sessions(database, found)
    assert access.session_caller(database, signed_in) is None
    again = access.new_session(database, caller.user_id)
    assert access.session_caller(database, again) == found
    access.set_disabled(database, "ann", True)
    assert access.session_caller(database, again) is None


def test_a_session_lasts_twelve_hours_by_the_databases_clock(database: TeamDatabase) -> None:
    with database.transaction() as db:
        user = access.user_id(db, "ann")
    for hours, lasts in ((11.9, True), (12.1, False)):
        began = int((time.time() - hours * 3600) * 1_000_000)
        assert bool(access.session_caller(database, f"{began}.{user}.0.x")) == lasts
    for name in ("", "1.2.3", "x.y.z.w", f"-1.{user}.0.x", f"{'9' * 30}.{user}.0.x"):
        assert access.session_caller(database, name) is None


# --- commands ---


def test_the_commands_manage_a_team(
    codeinfo: Run, postgres: str, database: TeamDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEINFO_STORE_URL", postgres)

    def team(*arguments: str, code: int = 0) -> str:
        done = codeinfo("team", *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "cleo" in team("user", "add", "cleo", "--email", "c@example.org", "--admin")
    assert "@core" in team("group", "add", "core", "cleo", "ann")
    assert "write" in team("grant", "add", ONE, "@core", "--level", "write")
    made = json.loads(team("token", "add", "cleo", "--scope", "read", "--scope", "admin", "--json"))
    caller = caller_of(database, made["token"])
    assert caller is not None
    assert caller.admin
    (listed,) = json.loads(team("token", "list", "cleo", "--json"))["tokens"]
    assert (listed["state"], listed["scopes"]) == ("valid", ["admin", "read"])
    assert "revoked" in team("token", "revoke", str(listed["id"]))
    assert caller_of(database, made["token"]) is None
    assert "disabled" in team("user", "disable", "cleo")
    assert "no project" in team("grant", "add", "host.example/no/where", "ann", code=2)
    team("group", "remove", "core")
    assert "Nothing is granted" in team("grant", "list")
    events = json.loads(team("audit", "--json"))["events"]
    assert {"user added", "granted", "token created", "token used", "token revoked", "group removed"} <= {
        one["action"] for one in events
    }
    assert made["token"] not in json.dumps(events)


def test_without_a_store_the_commands_say_what_is_missing(codeinfo: Run) -> None:
    done = codeinfo("team", "user", "list")
    assert done.returncode == 2
    assert "store.url" in done.stderr
