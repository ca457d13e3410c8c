"""Backup and restore with PostgreSQL's own programs: what was there is there again, and a token goes on to work."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from failover_tools import Node, indexed
from postgres_tools import caller_of, drop_database, new_database, run_program, team_store
from store_digest import digest_of

from codeinfo.store.user_data import ConversationStore
from codeinfo.team.access import create_token, create_user
from codeinfo.team.database import TeamDatabase
from codeinfo.team.user_data import TeamUserData


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
        run_program("pg_restore", "--exit-on-error", "-d", restored, dump)
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
