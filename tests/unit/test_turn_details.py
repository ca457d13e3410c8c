"""What a turn keeps beside its text: searches, passages and notes; kept small, and read whatever was written."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from codeinfo.model import Distance, Dropped
from codeinfo.operations.answers import AnswerUsage, Citation, ConversationsRequest, GradedItem, Round, ToolUse, Turn
from codeinfo.store.user_data import CONVERSATION_MIGRATIONS, MALFORMED, MOST_DETAIL_CHARS, ConversationStore

ITEM = GradedItem("a.py", 1, 5, 0.9, Distance(0.4), "/r", "def a():\n    return 1")
ROUND = Round("how?", (ITEM,), (Dropped("b.py", 1, 2, "cutoff", "1.6"),), 0.9, "answer", "distances")


def kept(store: ConversationStore, *rounds: Round, tools: tuple[ToolUse, ...] = ()) -> Turn:
    """A turn as it was read back."""
    identity = store.create(title="how?", provider="p", model="m", source="CLI", agent_name="", paths=["/r"])
    turn = store.begin(identity, "how?", provider="p", model="m")
    store.finish(turn, content="so", status="ok", rounds=rounds, tool_calls=tools, notes=("slow",))
    return store.turns(identity)[-1]


def test_searches_and_passages_come_back_as_they_were(tmp_path: Path) -> None:
    use = ToolUse("search", "{}", "1 passage", items=(ITEM,))
    turn = kept(ConversationStore(tmp_path), ROUND, tools=(use,))
    assert turn.rounds == (ROUND,)
    assert turn.tool_calls == (use,)
    assert turn.notes == ("slow",)


def test_details_stay_small_and_the_rows_last_longer_than_their_previews(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    many = Round("how?", tuple(GradedItem(f"{n}.py", 1, 5, 1.0, None, "/r", "x" * 400) for n in range(900)), (), 1, "x")
    turn = kept(store, many)
    assert len(turn.rounds[0].items) == 900
    assert {item.preview for item in turn.rounds[0].items} == {""}
    assert kept(store, Round("q" * MOST_DETAIL_CHARS, (), (), 1, "answer")).rounds == ()


def test_conversations_of_an_earlier_version_keep_everything(tmp_path: Path) -> None:
    first = next(iter(CONVERSATION_MIGRATIONS))
    db = apsw.Connection(str(tmp_path / "conversations.db"))
    db.execute(CONVERSATION_MIGRATIONS[first])
    db.execute("CREATE TABLE migrations(name TEXT PRIMARY KEY, made_at TEXT NOT NULL)")
    db.execute("INSERT INTO migrations VALUES(?, ?)", (first, "2025"))
    db.execute("INSERT INTO conversations VALUES('c1', 'old', 'p', 'm', 'CLI', '2025', '2025', '', NULL, '[\"/r\"]')")
    tools = json.dumps([{"name": "search", "arguments": "{}", "outcome": "2 passages", "failed": False}])
    cited = json.dumps([{"number": 1, "root": "/r", "path": "a.py", "start_line": 1, "end_line": 3}])
    row = ("c1", "assistant", "so [1]", "ok", "2025", "p", "m", tools, cited, '{"calls": 2}', 12.5, "")
    db.execute(f"INSERT INTO turns VALUES(NULL, {', '.join('?' * len(row))})", row)
    db.close()

    store = ConversationStore(tmp_path)
    (turn,) = store.turns("c1")
    assert (turn.content, turn.took_ms, turn.usage) == ("so [1]", 12.5, AnswerUsage(2))
    assert turn.citations == (Citation(1, "/r", "a.py", 1, 3),)
    assert turn.tool_calls == (ToolUse("search", "{}", "2 passages"),)
    assert turn.rounds == ()
    assert turn.notes == ()
    assert kept(store, ROUND).rounds == (ROUND,)  # and it goes on


def test_a_database_of_the_first_release_shows_the_same_turns(tmp_path: Path) -> None:
    """`conversations.sql` is what that release wrote."""
    db = apsw.Connection(str(tmp_path / "conversations.db"))
    db.execute((Path(__file__).parents[1] / "fixtures" / "conversations.sql").read_text())
    db.close()
    item = GradedItem("src/a.py", 1, 5, 0.9, Distance(0.41), "/r", "def a():\n    return 1")
    store = ConversationStore(tmp_path)
    (conversation,) = store.page(ConversationsRequest("all", 9)).conversations
    assert (conversation.title, conversation.turns, conversation.paths) == ("How are redirects followed?", 6, ("/r",))
    turns = store.turns(conversation.id)
    assert turns[1] == Turn(
        2,
        conversation.id,
        "assistant",
        "By `follow` [1].",
        "ok",
        "2026-11-01T12:00:00.000000Z",
        "m-2",
        "lm-studio",
        tool_calls=(
            ToolUse("search", '{"query": "follow"}', "1 passages, 0 dropped by the relevance policy", items=(item,)),
            ToolUse("read_file", "{", "no", failed=True),
        ),
        citations=(
            Citation(
                *(1, "/r", "src/a.py", 1, 5, "a", Distance(0.41)),
                section="Page 2",
                collection="docs",
                opens="file:///r/src/a.py",
            ),
            Citation(2, "/r", "b.py", 3, 4, problem="the source does not contain 'x'"),
        ),
        usage=AnswerUsage(3, 1200, 80, True, 400),
        took_ms=1234.5,
        rounds=(
            Round(
                "redirects",
                (item, GradedItem("ü.py", 1, 2, None)),
                (Dropped("b.py", 1, 2, "cutoff", "1.6"),),
                0.9,
                "answer",
                "distances",
            ),
            Round("again", (), (), None, "nothing new was found"),
        ),
        notes=("slow", "the evidence is thin"),
    )
    assert [(turn.role, turn.content, turn.status, turn.error) for turn in turns] == [
        ("user", "How are redirects followed?", "ok", ""),
        ("assistant", "By `follow` [1].", "ok", ""),
        ("user", "And then?", "ok", ""),
        ("assistant", "", "failed", "LLM_TIMEOUT"),
        ("user", "And now?", "ok", ""),
        ("assistant", "", "failed", "the run did not finish"),
    ]


@pytest.mark.parametrize(
    "stored",
    [
        "{", "[", "7", '"text"', "null", "[null]", "[7]", '["text"]', "[[]]", "[{}]", '{"query": "how?"}',
        '[{"query": 7, "items": [], "dropped": [], "verdict": "answer"}]',
        '[{"query": "how?", "items": 7, "dropped": [], "verdict": "answer"}]',
        '[{"query": "how?", "items": [], "dropped": [], "average": "high", "verdict": "answer"}]',
        '[{"name": "search", "arguments": {"a": 1}, "outcome": null}]',
        '[{"query": "how?", "items": [], "dropped": [], "average": NaN, "verdict": "answer"}]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", ["rounds", "tool_calls", "citations", "usage", "notes"])
def test_whatever_is_stored_a_turn_can_be_read(tmp_path: Path, column: str, stored: str) -> None:
    turn = overwritten(tmp_path, column, stored)
    assert turn.content == "so"
    if column in ("rounds", "tool_calls") and stored != "null":
        assert [use.outcome for use in turn.tool_calls] == [MALFORMED]


def test_an_entry_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    good: dict[str, object] = {"query": "how?", "items": [], "dropped": [], "average": None, "verdict": "answer"}
    odd = good | {"items": [{"path": 7}]}
    turn = overwritten(tmp_path, "rounds", json.dumps([odd, good]))
    assert [found.query for found in turn.rounds] == ["how?"]
    assert [use.outcome for use in turn.tool_calls] == [MALFORMED]


def overwritten(folder: Path, column: str, stored: str) -> Turn:
    """A turn whose column was written by something else."""
    store = ConversationStore(folder)
    turn = kept(store)
    db = apsw.Connection(str(folder / "conversations.db"))
    db.execute(f"UPDATE turns SET {column} = ? WHERE id = ?", (stored, turn.id))
    db.close()
    return store.turns(turn.conversation_id)[-1]
