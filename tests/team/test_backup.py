"""Backup and restore with PostgreSQL's own programs: what was there is there again, and a token goes on to work."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import tempfile
import termios
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from failover_tools import Node, indexed
from patience import RunningTime, wait_until
from postgres_tools import PROGRAMS, caller_of, drop_database, new_database, run_program, team_store
from store_digest import digest_of
from write_calls import kill_after

from codeinfo.errors import IndexDamaged
from codeinfo.knowledge.memory import make_memory
from codeinfo.store.user_data import ConversationStore
from codeinfo.team.access import create_token, create_user
from codeinfo.team.database import TeamDatabase
from codeinfo.team.user_data import TeamUserData, change_memories, read_memories

KILLS = 6


class Content:
    """What a team has: an index, a user with a token, a conversation."""

    def __init__(self, url: str, folder: Path) -> None:
        with closing(TeamDatabase(url)) as database:
            store = team_store(database, folder)
            store.apply([indexed(f"src/{at}.py", f"apple {at}") for at in range(20)], ["src/3.py"], ())
            store.finish({"model_id": "m"})
            self.digest = digest_of(store)
            create_user(database, "ann")
            self.token = create_token(database, "ann")
            conversations = ConversationStore(TeamUserData(database))
            self.conversation = conversations.create(
                title="t", provider="p", model="m", source="REST", agent_name="", paths=()
            )
            conversations.begin(self.conversation, "how?", provider="p", model="m")
            self.turns = conversations.turns(self.conversation)

    def check(self, url: str, folder: Path) -> None:
        with closing(TeamDatabase(url)) as database:
            store = team_store(database, folder)
            assert store.pull()
            assert digest_of(store) == self.digest
            caller = caller_of(database, self.token)
            assert caller is not None
            assert caller.name == "ann"
            assert ConversationStore(TeamUserData(database)).turns(self.conversation) == self.turns
            assert database.problem() == ""


def test_a_dump_is_restored_into_a_new_database(postgres: str, tmp_path: Path) -> None:
    content = Content(postgres, tmp_path / "before")
    dump = str(tmp_path / "dump")
    run_program("pg_dump", "-Fc", "-d", postgres, "-f", dump)
    restored = new_database(with_tables=False)
    try:
        run_program("pg_restore", "--single-transaction", "-d", restored, dump)
        content.check(restored, tmp_path / "after")
        with closing(TeamDatabase(postgres)) as database:  # goes on, and is then set back by the dump
            newer = team_store(database, tmp_path / "before")
            newer.apply([indexed("src/new.py", "pear")], (), ())
        with closing(TeamDatabase(restored)) as database:
            copy = team_store(database, tmp_path / "before")
            assert copy.pull()  # a cache that is newer than the database
            assert digest_of(copy) == content.digest
    finally:
        drop_database(restored)


def kill_amid_restore(command: list[str], part: bytes) -> bool:
    """Kill a restore that has read the first part of a dump and waits for the rest; whether it died of that."""
    reading, writing = os.pipe()
    with subprocess.Popen(command, stdin=reading) as restoring, open(writing, "wb", buffering=0) as pipe:
        pipe.write(part)
        wait_until(lambda: not any(fcntl.ioctl(reading, termios.FIONREAD, bytes(4))))
        restoring.kill()
    os.close(reading)
    return restoring.returncode == -signal.SIGKILL


def test_a_killed_restore_leaves_all_or_nothing_and_is_repeated(postgres: str, tmp_path: Path) -> None:
    """A half-restored database might have its rows and not yet the row security that hides them."""
    content = Content(postgres, tmp_path / "before")
    dump, cut = tmp_path / "dump", tmp_path / "cut"
    run_program("pg_dump", "-Fc", "-d", postgres, "-f", str(dump))
    data, chance = dump.read_bytes(), random.Random(5)
    cut.write_bytes(data[:-200])
    restored = new_database(with_tables=False)
    command = [str(PROGRAMS / "pg_restore"), "--single-transaction", "-d", restored]
    try:
        for _ in range(KILLS):
            assert kill_amid_restore(command, data[: chance.randrange(len(data) // 2, len(data) - 200)])
            with psycopg.connect(restored) as db:
                assert db.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'codeinfo'").fetchall() == []
        subprocess.run([PROGRAMS / "pg_restore", "--section=pre-data", "-d", restored, dump], check=False)
        with pytest.raises(IndexDamaged, match="restored only in part"):
            TeamDatabase(restored).open()
        drop_database(restored)
        restored = command[-1] = new_database(with_tables=False)
        assert subprocess.run([*command, str(cut)], stderr=subprocess.DEVNULL).returncode, "a dump that was cut"
        subprocess.run([*command, dump], check=True)
        content.check(restored, tmp_path / "after")
    finally:
        drop_database(restored)


def test_memories_imported_by_a_killed_process_are_all_there_or_none(postgres: str) -> None:
    identity, chance = "example.org/a/b", random.Random(5)
    new = [
        make_memory("decision", "tooling", f"use tool {at}", "measured", "2026-01-01T00:00:00Z") for at in range(200)
    ]

    def add() -> None:
        with closing(TeamDatabase(postgres)) as database:
            change_memories(database, identity, lambda before: new)

    def count() -> int:
        with closing(TeamDatabase(postgres)) as database:
            return len(read_memories(database, identity))

    with closing(TeamDatabase(postgres)) as database, database.transaction() as db:
        db.execute("INSERT INTO projects(identity) VALUES (%s)", (identity,))
    clock = RunningTime()
    add()
    clock.stop()
    for _ in range(KILLS):
        with closing(TeamDatabase(postgres)) as database:
            change_memories(database, identity, lambda before: ())
        kill_after(add, chance.random() * clock.seconds)
        assert count() in (0, 200)
    add()
    assert count() == 200


def test_a_base_backup_starts_as_a_server_of_its_own() -> None:
    with tempfile.TemporaryDirectory(prefix="codeinfo-backup-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        folder.chmod(0o755)
        first, second = Node(folder / "first"), Node(folder / "second")
        first.create()
        first.start()
        try:
            first.execute("CREATE DATABASE team")
            content = Content(url_of(first), folder / "before")
            second.copy(first)
        finally:
            first.stop()
        second.start()
        try:
            content.check(url_of(second), folder / "after")
        finally:
            second.stop()


def url_of(node: Node) -> str:
    return f"postgresql://postgres@127.0.0.1:{node.port}/team"
