"""An answer that one server of a team writes, as another one shows it: followed, taken up, stopped, lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from model_server import ScriptedServer
from patience import wait_until
from postgres_tools import called_by
from web_tools import SLOW, script

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import Busy, NotFound
from codeinfo.operations.answers import AskRequest
from codeinfo.serve.runs import MOST_RUNNING, PUBLISH_S, AnswerRun, Runs
from codeinfo.team.access import create_user
from codeinfo.team.user_data import GONE_S


@pytest.fixture
def engines(project: Path, postgres: str) -> Iterator[tuple[Engine, Engine]]:
    """Of two servers, whose model takes a while for each word."""
    with ScriptedServer(script, piece_s=0.03) as model:
        flags = {
            "store.url": postgres,
            "llm.base_url": model.url,
            "llm.discover": "false",
            "embedding.provider": "none",
        }
        with Engine(Config.load(flags, project)) as here, Engine(Config.load(flags, project)) as there:
            yield here, there


def ask(project: Path) -> AskRequest:
    return AskRequest(f"how does a transfer work, {SLOW}?", (str(project),))


def follow(run: AnswerRun, after: int = 0) -> list[tuple[int, str]]:
    async def collect() -> list[tuple[int, str]]:
        return [(number, event.kind) async for number, event in run.follow(after)]

    return asyncio.run(collect())


def test_another_server_shows_what_is_written(engines: tuple[Engine, Engine], project: Path) -> None:
    here, there = Runs(engines[0]), Runs(engines[1])
    written = here.start(ask(project))
    wait_until(lambda: bool(written.text))
    shown = there.get(written.id)
    assert there.of_conversation(written.conversation) is shown
    assert not there.busy  # a server that ends does not wait for the answers of others
    middle = len(shown.events)
    assert follow(shown)[-1][1] == "done"
    assert written.ended.wait(120)
    assert shown.events == written.events
    assert (shown.text, shown.answers, shown.finished) == (written.text, written.answers, True)
    assert [number for number, _ in follow(shown, middle)] == list(range(middle, len(written.events)))
    assert there.of_conversation(written.conversation) is None
    here.close()


class LateEvent(threading.Event):
    """Is set long after its owner thinks so, as on a busy machine."""

    def set(self) -> None:
        time.sleep(4 * PUBLISH_S)
        super().set()


def test_the_last_event_is_published_with_the_answer(engines: tuple[Engine, Engine], project: Path) -> None:
    here, there = Runs(engines[0]), Runs(engines[1])
    written = here.start(ask(project))
    written.ended = LateEvent()
    wait_until(lambda: bool(written.text))
    shown = there.get(written.id)
    assert shown.ended.wait(120)
    assert shown.answers == written.answers != []
    here.close()


def test_the_answer_is_read_after_the_last_event(
    engines: tuple[Engine, Engine], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Runs(engines[0]), Runs(engines[1])
    written = here.start(ask(project))
    wait_until(lambda: bool(written.text))
    shared = engines[1].answers.shared
    assert shared is not None
    read = shared.events

    def read_late(owner: int, identity: str, after: int) -> list[tuple[str, str]]:
        """Everything is published between the two reads."""
        wait_until(lambda: (found := shared.find(owner, identity=identity)) is not None and found.finished)
        return read(owner, identity, after)

    monkeypatch.setattr(shared, "events", read_late)
    shown = there.get(written.id)
    assert shown.ended.wait(120)
    assert shown.answers == written.answers != []
    here.close()


def test_an_answer_can_be_stopped_at_another_server(engines: tuple[Engine, Engine], project: Path) -> None:
    here, there = Runs(engines[0]), Runs(engines[1])
    written = here.start(ask(project))
    wait_until(lambda: bool(written.text))
    shown = there.get(written.id)
    shown.call.cancel()
    assert written.ended.wait(120)
    assert shown.ended.wait(120)
    assert (written.stopped, shown.stopped) == (True, True)
    assert engines[1].conversations.turns(written.conversation)[-1].status == "stopped"
    here.close()


def test_the_answers_of_others_are_not_there(engines: tuple[Engine, Engine], project: Path) -> None:
    here, there = Runs(engines[0]), Runs(engines[1])
    database = engines[0].indexes.team
    assert database is not None
    stranger = create_user(database, "eve")
    written = here.start(ask(project))
    with called_by(stranger):
        for runs in (here, there):
            with pytest.raises(NotFound):
                runs.get(written.id)
            assert runs.of_conversation(written.conversation) is None or runs is here
    assert follow(there.get(written.id))[-1][1] == "done"
    with called_by(stranger), pytest.raises(NotFound):
        there.get(written.id)  # although this server has a copy by now
    here.close()


def test_one_user_leaves_places_for_the_answers_of_others(engines: tuple[Engine, Engine], project: Path) -> None:
    runs, database = Runs(engines[0]), engines[0].indexes.team
    assert database is not None
    users = [create_user(database, name) for name in ("greedy", "patient", "late")]
    written = list[AnswerRun]()
    with database.transaction() as db:
        db.execute("LOCK TABLE projects")  # all of them wait here
        for user in users:
            with called_by(user), suppress(Busy):
                for _ in range(MOST_RUNNING):
                    written.append(runs.start(AskRequest("how does a transfer work?", ("//github.com/a/b",))))
    assert Counter(run.owner for run in written) == dict(zip(users, (5, 2, 1), strict=True))
    runs.close()


def test_an_answer_of_a_dead_server_ends_with_an_error(engines: tuple[Engine, Engine], project: Path) -> None:
    shared = engines[0].answers.shared
    assert shared is not None
    conversation = engines[0].conversations.create(
        title="t", provider="", model="", source="REST", agent_name="", paths=()
    )
    owner = engines[0].conversations.owner
    shared.begin(owner, "a" * 16, "how?", conversation, "")
    shared.publish(owner, "a" * 16, 0, [("token", '{"text": "So"}')])
    shared.publish(owner, "a" * 16, 0, [("token", '{"text": "So"}')])  # the reply to the first was lost
    shown = Runs(engines[1]).get("a" * 16)
    wait_until(lambda: shown.text == "So")
    assert not shown.finished
    database = engines[0].indexes.team
    assert database is not None
    with database.transaction() as db:
        db.execute("UPDATE answers SET seen_at = seen_at - make_interval(secs => %s)", (GONE_S,))
    assert shown.ended.wait(120)
    assert shown.error is not None
    assert "has ended" in str(shown.error)
    assert [event.kind for event in shown.events] == ["token", "error", "done"]
    assert Runs(engines[1]).of_conversation(conversation) is None
