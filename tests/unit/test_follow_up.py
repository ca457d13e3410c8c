"""Follow-up questions without a model: the subject of an earlier turn is carried into the search, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import RunCli

from codeinfo.answers.evidence import MOST_CARRIED, points_back, search_text

FILES = {
    "session.py": '''class Session:
    """A talk with the bank."""

    def open(self):
        """Open the session and greet."""
        self.greeting = self.bank.greet()

    def close(self):
        """Close the session and say goodbye."""
        self.bank.leave(self)
''',
    "valve.py": '''class Valve:
    """Closed by hand."""

    def close(self):
        """Close the valve: a closed valve stays closed until it is opened."""
        self.closed = True
''',
    "window.py": "def close(window):\n    # where a window is closed\n    window.closed = close\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("and where is it closed?", "and where is it closed? session"),
        ("what about proxies?", "what about proxies? session"),
        ("why?", "why? session"),
        ("who calls that?", "who calls that? session"),
        ("where are cookies stored?", "where are cookies stored?"),
        ("function that parses the status line of a response", "function that parses the status line of a response"),
        ("Valve", "Valve"),
    ],
)
def test_only_a_question_that_points_back_takes_the_subject_along(question: str, wanted: str) -> None:
    assert search_text(question, ["How is a session opened?"]) == wanted


def test_the_subject_goes_through_several_turns_and_a_new_one_replaces_it() -> None:
    talk = ["How is the Session.open method called?", "and where is it closed?"]
    assert search_text("who calls it?", talk) == "who calls it? Session.open method"
    assert "Session" not in search_text("who turns it?", [*talk, "How does a valve work?"])


def test_what_is_carried_is_bounded() -> None:
    long = " ".join(f"word{number}" for number in range(500))
    carried = search_text("and it?", [long] * 50)
    assert len(carried.split()) == 2 + MOST_CARRIED
    assert search_text("and it?", []) == "and it?"


def test_a_question_of_its_own_does_not_point_back() -> None:
    assert not points_back("is it possible that the retry policy of the http adapter is ignored")
    assert points_back("is it possible")


def asked(codeinfo: RunCli, tree: Path, question: str, *more: str) -> dict[str, object]:
    done = codeinfo("ask", question, str(tree), "--provider", "none", "--json", *more, cwd=tree)
    assert done.returncode == 0, done.stderr
    reply: dict[str, object] = json.loads(done.stdout)
    return reply


def test_a_follow_up_is_answered_about_the_subject_of_the_conversation(codeinfo: RunCli, tree: Path) -> None:
    alone = asked(codeinfo, tree, "and where is it closed?")
    assert alone["citations"][0]["path"] != "session.py"  # type: ignore[index]
    first = asked(codeinfo, tree, "how is a session opened?")
    assert first["citations"][0]["path"] == "session.py"  # type: ignore[index]
    second = asked(codeinfo, tree, "and where is it closed?", "--conversation", str(first["conversation_id"]))
    assert second["citations"][0]["path"] == "session.py"  # type: ignore[index]
    assert second["notes"] == ['taken as a follow-up: searched for "and where is it closed? session"']
    assert second["question"] == "and where is it closed?"
    other = asked(codeinfo, tree, "how does a valve stay closed?", "--conversation", str(first["conversation_id"]))
    assert other["citations"][0]["path"] == "valve.py"  # type: ignore[index]


def test_a_chat_without_a_model_keeps_its_subject(codeinfo: RunCli, tree: Path) -> None:
    talk = "how is a session opened?\nand where is it closed?\n"
    done = codeinfo("chat", str(tree), "--provider", "none", cwd=tree, input=talk)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[1] session.py") == 2
    assert done.stdout.count("taken as a follow-up") == 1
