"""Conversations, in a file and in a team's database: safe through crashes, one run at a time, paged, searched."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from conftest import REPOSITORY
from patience import wait_until
from postgres_tools import user_data

from codeinfo.answers.write import history_messages, stats_block, title_of, to_markdown
from codeinfo.errors import Busy, IndexDamaged, IndexTooNew, NotFound, UsageError
from codeinfo.model import Distance
from codeinfo.operations.answers import (
    AnswerUsage,
    Citation,
    ConversationIdsRequest,
    ConversationMatch,
    ConversationSearchRequest,
    ConversationsRequest,
    ToolUse,
)
from codeinfo.store.user_data import UNFINISHED, ConversationStore


@pytest.fixture(params=["file", "team"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, or the URL of a team's database."""
    return str(tmp_path / "data") if request.param == "file" else str(request.getfixturevalue("postgres"))


@pytest.fixture
def store(address: str) -> Iterator[ConversationStore]:
    ticks = itertools.count()
    start = datetime(2025, 1, 1, tzinfo=UTC)
    with user_data(address) as place:
        yield ConversationStore(place, now=lambda: start + timedelta(seconds=next(ticks)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With conversations in a file."""
    store = ConversationStore(tmp_path / "data")
    talk(store, create(store))
    store.close()
    return tmp_path / "data"


def create(store: ConversationStore, title: str = "how?", agent: str = "") -> str:
    return store.create(title=title, provider="p", model="m", source="CLI", agent_name=agent, paths=["/r"])


def delete(store: ConversationStore, *ids: str) -> tuple[str, ...]:
    return store.delete(ConversationIdsRequest(ids)).ids


def search(store: ConversationStore, text: str) -> tuple[ConversationMatch, ...]:
    return store.search(ConversationSearchRequest(text, 9)).matches


def talk(store: ConversationStore, identity: str, question: str = "how?", reply: str = "so") -> None:
    with store.run(identity):
        turn = store.begin(identity, question, provider="p", model="m")
        store.finish(turn, content=reply, status="ok")


def test_a_turn_keeps_everything(store: ConversationStore) -> None:
    identity = create(store)
    citation = Citation(1, "/r", "a.py", 1, 3, "a", Distance(0.5), "wrong file")
    usage = AnswerUsage(2, 10, 20, True, 7)
    with store.run(identity):
        turn = store.begin(identity, "how?", provider="p", model="m")
        store.finish(
            turn,
            content="so [1]",
            status="ok",
            model="m2",
            tool_calls=(ToolUse("search", "{}", "2 passages"),),
            citations=(citation,),
            usage=usage,
            took_ms=12.5,
        )
    question, reply = store.turns(identity)
    assert (question.role, question.content, question.status) == ("user", "how?", "ok")
    assert (reply.role, reply.content, reply.status, reply.model) == ("assistant", "so [1]", "ok", "m2")
    assert reply.citations == (citation,)
    assert reply.usage == usage
    assert reply.took_ms == 12.5
    assert reply.tool_calls[0].name == "search"
    assert store.get(identity).turns == 2


def test_folder_and_file_are_the_users_alone(folder: Path) -> None:
    assert stat.S_IMODE((folder / "conversations.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "runs").stat().st_mode) == 0o700


# --- runs ---------------------------------------------------------------------------------------------------------


def test_one_run_at_a_time(store: ConversationStore, address: str) -> None:
    identity = create(store)
    with store.run(identity), user_data(address) as place:
        assert store.get(identity).running
        other = ConversationStore(place)
        with pytest.raises(Busy, match="in progress") as caught, other.run(identity):
            pass
        assert caught.value.code == "RUN_IN_PROGRESS"
        with pytest.raises(Busy):
            delete(other, identity)
    assert not store.get(identity).running
    talk(store, identity)


CRASH = """
import os, signal, sys
sys.path.insert(0, "TESTS")
from postgres_tools import user_data
from codeinfo.store.user_data import ConversationStore
with user_data(sys.argv[1]) as place, (store := ConversationStore(place)).run(sys.argv[2]):
    turn = store.begin(sys.argv[2], "and then?", provider="p", model="m")
    print("begun", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
""".replace("TESTS", str(REPOSITORY / "tests"))


def test_a_crashed_run_leaves_a_failed_turn_and_no_lock(store: ConversationStore, address: str) -> None:
    identity = create(store)
    command = [sys.executable, "-c", CRASH, address, identity]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    question, reply = store.turns(identity)
    assert question.content == "and then?"
    assert (reply.status, reply.error, reply.content) == ("failed", UNFINISHED, "")
    wait_until(lambda: not store.get(identity).running)  # a database takes a moment to notice
    talk(store, identity)
    assert [turn.status for turn in store.turns(identity)] == ["ok", "failed", "ok", "ok"]


def test_an_archived_conversation_takes_no_turns(store: ConversationStore) -> None:
    identity = create(store)
    store.archive(ConversationIdsRequest((identity,)))
    with pytest.raises(UsageError, match="must be restored before use") as caught:
        talk(store, identity)
    assert caught.value.code == "CONVERSATION_ARCHIVED"
    assert store.turns(identity) == ()
    store.restore(ConversationIdsRequest((identity,)))
    talk(store, identity)


# --- lists --------------------------------------------------------------------------------------------------------


def test_pages_by_cursor(store: ConversationStore) -> None:
    made = [create(store, f"number {n}", "planner" if n % 2 else "") for n in range(45)]
    talk(store, made[0])  # the oldest becomes the latest
    seen: list[str] = []
    cursor = ""
    for size in (20, 20, 5):
        page = store.page(ConversationsRequest("active", 20, cursor))
        assert len(page.conversations) == size
        seen += [one.id for one in page.conversations]
        cursor = page.next_cursor
    assert cursor == ""
    assert seen == [made[0], *reversed(made[1:])]
    assert len(store.page(ConversationsRequest("all", 100, agent="planner")).conversations) == 22
    with pytest.raises(UsageError, match="cursor"):
        store.page(ConversationsRequest("active", 20, "rubbish!"))


def test_states(store: ConversationStore) -> None:
    kept, put_away = create(store), create(store)
    store.archive(ConversationIdsRequest((put_away,)))
    ids = {
        state: {one.id for one in store.page(ConversationsRequest(state, 9)).conversations}
        for state in ("active", "archived", "all")
    }
    assert ids == {"active": {kept}, "archived": {put_away}, "all": {kept, put_away}}


def test_an_id_may_be_shortened_while_it_is_the_only_one(store: ConversationStore) -> None:
    identity = create(store)
    assert store.get(identity[:6]).id == identity
    for wrong in ("", "zz", "%", "../x", "../../x", identity + "0"):
        with pytest.raises(NotFound):
            store.get(wrong)


def test_a_few_letters_name_no_conversation(store: ConversationStore) -> None:
    identity = create(store)
    for change in (store.delete, store.archive, store.restore):
        with pytest.raises(NotFound, match="at least the first 6 characters"):
            change(ConversationIdsRequest((identity[:5],)))
    assert [one.id for one in store.page(ConversationsRequest("active", 9)).conversations] == [identity]
    assert delete(store, identity[:6]) == (identity,)


def test_the_beginning_of_several_ids_names_none_of_them(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One id may even be the beginning of another: then it is that one."""
    ids = [f"abcdef{n}" for n in range(7)] + ["abcdef01"]
    for identity in ids:
        monkeypatch.setattr("secrets.token_hex", lambda size, identity=identity: identity)
        create(store)
    with pytest.raises(NotFound, match="abcdef0, abcdef01, abcdef1, abcdef2, abcdef3, …"):
        delete(store, "abcdef")
    assert len(store.page(ConversationsRequest("all", 99)).conversations) == len(ids)
    assert delete(store, "abcdef0") == ("abcdef0",)
    assert store.get("abcdef01").id == store.get("abcdef0").id == "abcdef01"


def test_delete_in_bulk_takes_the_turns_along(store: ConversationStore) -> None:
    made = [create(store) for _ in range(3)]
    for identity in made:
        talk(store, identity)
    assert delete(store, *made[:2], made[0]) == tuple(made[:2])  # a name given twice is no run in progress
    assert [one.id for one in store.page(ConversationsRequest("all", 9)).conversations] == [made[2]]
    assert store.turns(made[0]) == ()
    with pytest.raises(NotFound):
        delete(store, made[2], "nothing")
    assert store.get(made[2]).turns == 2
    with pytest.raises(UsageError):
        delete(store)


def test_deleting_many_takes_no_connection_for_each(store: ConversationStore) -> None:
    """A database for a team takes 100, from everybody."""
    made = [create(store) for _ in range(120)]
    with store.run(made[60]), pytest.raises(Busy):
        delete(store, *made)
    assert delete(store, *made) == tuple(made)
    assert store.page(ConversationsRequest("all", 9)).conversations == ()


def test_search_finds_every_word(store: ConversationStore) -> None:
    one, two = create(store, "redirects"), create(store, "cookies")
    talk(store, one, "how are redirects followed?", "By resolve_redirects, 100% of them.")
    talk(store, two, "where are cookies?", "In a jar.")
    assert [match.conversation.id for match in search(store, "RESOLVE_redirects")] == [one]
    assert [match.conversation.id for match in search(store, "jar cookies")] == [two]
    assert [match.conversation.id for match in search(store, "100%")] == [one]
    assert search(store, "resolve%redirects") == ()
    assert "resolve_redirects" in search(store, "resolve_redirects")[0].excerpt
    assert [match.conversation.id for match in search(store, "jar cookies " * 1000)] == [two]
    with pytest.raises(UsageError, match="different words"):
        search(store, " ".join(map(str, range(1000))))


# --- files that are not as they should be -------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 4095])
def test_a_file_that_lost_a_part_of_its_last_page_is_damaged(folder: Path, cut: int) -> None:
    file = folder / "conversations.db"
    os.truncate(file, file.stat().st_size - cut)
    with pytest.raises(IndexDamaged, match="it was cut"):
        ConversationStore(folder)


def test_a_header_that_claims_another_format_is_damaged(folder: Path) -> None:
    """SQLite only says that it cannot write."""
    file = folder / "conversations.db"
    content = bytearray(file.read_bytes())
    content[18:19] = b"\x03"
    file.write_bytes(content)
    with pytest.raises(IndexDamaged, match=r"conversations\.db is damaged"):
        ConversationStore(folder).create(title="t", provider="", model="", source="REST", agent_name="", paths=())


def test_a_damaged_file_is_reported_and_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "conversations.db").write_bytes(b"not a database at all, but long enough to look at" * 100)
    with pytest.raises(IndexDamaged, match="damaged"):
        ConversationStore(tmp_path)
    assert (tmp_path / "conversations.db").exists()


@pytest.mark.parametrize(
    "change", ["UPDATE turns SET content = CAST(x'a0' AS TEXT)", "ALTER TABLE turns RENAME citations TO citatigns"]
)
def test_what_can_no_longer_be_read_is_damage(folder: Path, change: str) -> None:
    db = apsw.Connection(str(folder / "conversations.db"))
    db.execute(change)
    ((identity,),) = db.execute("SELECT id FROM conversations").fetchall()
    db.close()
    store = ConversationStore(folder)
    with pytest.raises(IndexDamaged, match="damaged"):
        store.turns(str(identity))
    store.close()


@pytest.mark.parametrize(
    "change", ["ALTER TABLE migrations RENAME TO migratmons", "ALTER TABLE migrations RENAME name TO nime"]
)
def test_a_file_whose_migrations_cannot_be_read_is_damaged(folder: Path, change: str) -> None:
    db = apsw.Connection(str(folder / "conversations.db"))
    db.execute(change)
    db.close()
    with pytest.raises(IndexDamaged, match="damaged"):
        ConversationStore(folder)


def test_a_newer_file_is_refused(folder: Path) -> None:
    db = apsw.Connection(str(folder / "conversations.db"))
    db.execute("INSERT INTO migrations VALUES('later', '')")
    db.close()
    with pytest.raises(IndexTooNew, match="later"):
        ConversationStore(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="CODEINFO_DATA_DIR"):
        ConversationStore(tmp_path / "data")


# --- as messages and as Markdown ----------------------------------------------------------------------------------


def test_history_has_no_statistics_citations_or_failures(store: ConversationStore) -> None:
    identity = create(store)
    talk(store, identity, "one?", "Yes [1], `x[0]`, [2: unverified].\n\n" + stats_block(AnswerUsage(1, 2, 3), 10))
    with store.run(identity):
        store.begin(identity, "two?", provider="p", model="m")
    talk(store, identity, "three?", "Three.")
    messages = history_messages(store.turns(identity), 10)
    assert [message.content for message in messages] == ["one?", "Yes , `x`, .", "three?", "Three."]
    assert len(history_messages(store.turns(identity), 1)) == 2


def test_markdown(store: ConversationStore) -> None:
    identity = create(store, "How?")
    with store.run(identity):
        turn = store.begin(identity, "How?", provider="p", model="m")
        store.finish(turn, content="So [1].", status="ok", citations=(Citation(1, "/r", "a.py", 1, 3),))
        store.begin(identity, "And?", provider="p", model="m")
    text = to_markdown(store.get(identity), store.turns(identity))
    assert text.startswith("# How?\n")
    assert "## Question\n\nHow?\n\n## Answer\n\nSo [1].\n\nSources:\n\n- [1] a.py:1-3" in text
    assert f"*failed: {UNFINISHED}*" in text


def test_titles_are_one_short_line() -> None:
    assert title_of("  how\nis it? ") == "how is it?"
    assert len(title_of("word " * 50)) <= 60
