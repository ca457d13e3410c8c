"""Answers without a model whose form the question says: measures, changes, and what a project is; with real indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from answer_tools import before_writing
from model_server import ScriptedServer
from repository_tools import Repository, write
from scripted import Reply

from codeinfo.answers.extract import changed_place, read_aim
from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.model import Passage
from codeinfo.operations.answers import Answer, AskRequest
from codeinfo.operations.documents import DocsAddRequest, DocsAskRequest

FILES = {
    "README.md": """# Lanterns [![build](https://example.org/b.svg)](https://example.org)

[![build](https://example.org/badge.svg)](https://example.org)

## Version 2 is out!

We are happy to announce the second version of this handbook.

The handbook is a collection of the rules of a small shop that sells lamps.
""",
    "pyproject.toml": '[project]\nname = "lanterns"\ndescription = "Rules of a small shop"\n',
    "refunds.md": "# Refunds\n\nRefunds take five days.\n\n## Damaged goods\n\nSend a photo.\n",
    "shipping.md": """# Shipping

- [Cost](#cost)
- [Delivery](#delivery)

## Cost

Shipping costs 4.90 within the country.

## Delivery

Parcels arrive within two days. They must not weigh more than 30 kg.
""",
    "office.md": """# The office

The office opens at nine. There are four meeting rooms. Every employee has 28 days of vacation. Backups of the
calendar are made every night.
""",
    "contents.md": "".join(f"- [{name}]({name}.md)\n" for name in ("Refunds take", "Shipping cost", "Office opens")),
    "CHANGELOG.md": """# Changelog

## 2.0.1

- Refunds take six days.

## 2.0.0 (2024-05-01)

- Refunds took ten days before.

## 1.9.0

- The office opens at eight.
""",
    "till.py": """class Till:
    \"\"\"Takes money.\"\"\"

    def close(self, drawer):
        \"\"\"Count the coins of the drawer and lock it after 30 seconds.\"\"\"
        return drawer.lock(timeout=30)
""",
    "delivery.py": """class ShippingDelivery:
    \"\"\"The delivery of what shipping hands over.\"\"\"

    def hand_over(self, delivery):
        return self.shipping.send(delivery)
""",
}


Ask = Callable[[str], Answer]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    home, tree = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("tree") / "shop"
    tree.mkdir()
    for name, text in FILES.items():
        (tree / name).write_text(text)
    env = {"CODEINFO_HOME": str(home), "HOME": str(home)}
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree, env=env)) as engine:
        yield lambda question: engine.answers.ask(AskRequest(question, (str(tree),)))


@pytest.mark.parametrize(
    ("question", "path", "words"),
    [
        ("how long do refunds take?", "refunds.md", "five days"),
        ("how much does shipping cost?", "shipping.md", "4.90"),
        ("how quickly do parcels arrive?", "shipping.md", "two days"),
        ("how heavy may a parcel be?", "shipping.md", "30 kg"),
        ("when does the office open?", "office.md", "at nine"),
        ("how many meeting rooms are there?", "office.md", "four meeting rooms"),
        ("how much vacation does an employee have?", "office.md", "28 days"),
        ("how often are backups made?", "office.md", "every night"),
        ("how long until the drawer is locked?", "till.py", "30 seconds"),
        ("what is shop?", "README.md", "sells lamps"),
        ("what is Lanterns?", "README.md", "sells lamps"),
        ("what does this project do?", "README.md", "sells lamps"),
        ("what happens on delivery when shipping?", "shipping.md", "Parcels arrive"),
        ("what changed in 2.0?", "CHANGELOG.md", "ten days"),
        ("when was 2.0.0 released?", "CHANGELOG.md", "2024-05-01"),
    ],
)
def test_the_passage_that_states_the_answer_is_quoted_first(ask: Ask, question: str, path: str, words: str) -> None:
    answer = ask(question)
    assert answer.status == "ok", answer.text
    assert answer.citations[0].path == path
    first = answer.text.partition("[1] ")[2].partition("\n\n[2] ")[0]
    assert words in first
    assert "announce" not in answer.text
    assert "badge" not in answer.text


def test_a_passage_is_of_the_section_that_it_begins_with(ask: Ask) -> None:
    assert [one.section for one in ask("how long do refunds take?").citations] == ["Refunds"]


@pytest.mark.parametrize(
    ("path", "line", "states"),
    [
        ("settings.py", "SESSION_TOKEN_S = 900", True),
        ("tokens.go", "if len(sessionTokens) != 4 {", False),
        ("tokens.go", "if len(sessionTokens) == 4 {", False),
        ("tokens.proto", "string session_token = 3;", False),
    ],
)
def test_a_comparison_or_the_number_of_a_field_states_no_time(path: str, line: str, states: bool) -> None:
    aim = read_aim("how long is a session token valid?")
    passage = Passage("/shop", path, 1, 1, line)
    assert bool(aim.find_statements((), (passage,), {"session": 1.0, "token": 1.0})) is states


@pytest.mark.parametrize("question", ["how long do refunds take?", "when does the office open?"])
def test_neither_changelogs_nor_tables_of_contents_answer(ask: Ask, question: str) -> None:
    assert {"CHANGELOG.md", "contents.md"}.isdisjoint(one.path for one in ask(question).citations)


@pytest.mark.parametrize(
    "question",
    [
        "how long is the warranty?",
        "how many seats does the plane have?",
        "when does the museum open?",
        "how old must a driver be?",
        "how much does a train ticket cost?",
        "what is postgres?",
        "what changed in 7.4?",
    ],
)
def test_measures_of_something_else_are_refused(ask: Ask, question: str) -> None:
    assert ask(question).status == "abstained"


def test_a_collection_is_described_by_its_readme(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for name in ("README.md", "refunds.md"):
        (tmp_path / "rules" / name).write_text(FILES[name])
    settings = {"llm.discover": "false", "llm.provider": "none", "paths.data_dir": str(tmp_path / "data")}
    with Engine(Config.load(settings, tmp_path)) as engine:
        engine.documents.add(DocsAddRequest((str(tmp_path / "rules"),)))
        answer = engine.answers.ask(DocsAskRequest("what is rules?"))
    assert [(one.path, one.start_line) for one in answer.citations] == [("README.md", 9)]


def test_a_model_is_shown_what_a_project_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(FILES["README.md"])
    (tmp_path / "till.py").write_text(FILES["till.py"])
    script = lambda request: before_writing(request) or Reply("It is a collection of rules [1].")  # noqa: E731
    with (
        ScriptedServer(script) as server,
        Engine(Config.load({"llm.base_url": server.url, "llm.discover": "false"}, tmp_path)) as engine,
    ):
        answer = engine.answers.ask(AskRequest("what is Lanterns?", (str(tmp_path),)))
    assert [(one.path, one.problem) for one in answer.citations] == [("README.md", "")]


def test_a_project_with_an_empty_readme_is_described_by_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "lanterns"\ndescription = "Rules of a small shop"\n')
    (tmp_path / "till.py").write_text(FILES["till.py"])
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tmp_path)) as engine:
        answer = engine.answers.ask(AskRequest("what is lanterns?", (str(tmp_path),)))
    assert [one.path for one in answer.citations] == ["pyproject.toml"]
    assert "Rules of a small shop" in answer.text


def test_a_module_of_go_is_called_by_its_name_without_a_version(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.org/lights/lanterns/v2\n\ngo 1.22\n")
    (tmp_path / "README.md").write_text("# The lamps\n\nA collection of lamps that a small shop sells.\n")
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tmp_path)) as engine:
        answer = engine.answers.ask(AskRequest("what is lanterns?", (str(tmp_path),)))
    assert [one.path for one in answer.citations] == ["README.md"]


CODE = {
    "pyproject.toml": """[dependency-groups]
dev = ["pytest>=8"]
""",
    "app/till.py": """from app.money import Money, total


class Till(Money):
    def close(self):
        return total(self.coins) + total(self.notes)
""",
    "app/money.py": """class Money:
    coins = notes = ()


def total(parts):
    return sum(parts)


def unused(parts):
    return parts
""",
    "tests/test_till.py": """from app.money import total


def test_total():
    assert total([1, 2]) == 3
""",
}


@pytest.fixture(scope="module")
def ask_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    home, tree = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("tree") / "shop"
    repository = Repository(tree)
    repository.commit("Open the shop", CODE)
    repository.commit("Count notes, too", {"app/notes.txt": "TILL_LIMIT 5 10 20\n"})
    env = {"CODEINFO_HOME": str(home), "HOME": str(home)}
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree, env=env)) as engine:
        yield lambda question: engine.answers.ask(AskRequest(question, (str(tree),)))


@pytest.mark.parametrize(
    ("question", "stated", "places"),
    [
        (
            "who calls total?",
            "`total` (app/money.py:5 [1]) is called in 2 places in 2 files:",
            ["app/till.py:6 in Till.close: `return total(self.coins) + total(self.notes)`", "tests/test_till.py:5"],
        ),
        ("where is `Till` used?", "`Till` (app/till.py:4 [1]) is used nowhere in the indexed code.", []),
        ("which tests use `total`", "is used in 4 places in 2 files:", ["tests/test_till.py:5"]),
        ("what extends Money", "is extended or implemented in 1 place in 1 file:", ["app/till.py:4"]),
        (
            "what breaks if I change total",
            "which a change may affect:",
            ["app/till.py:6 in Till.close: ", "tests/test_till.py:5 in test_total: "],
        ),
        (
            "what is affected if I move app/money.py",
            "`app/money.py` is used in 2 places in 2 files, which a change may affect:",
            ["app/till.py:1", "tests/test_till.py:1"],
        ),
    ],
)
def test_a_question_about_uses_is_answered_by_a_list_of_them(
    ask_code: Ask, question: str, stated: str, places: list[str]
) -> None:
    answer = ask_code(question)
    first, _, rest = answer.text.partition("\n\n")
    assert stated in first
    lines = [line.partition("] ")[2] for line in rest.splitlines() if line.startswith("- ")]
    assert len(lines) == len(places)
    assert all(map(str.startswith, lines, places))
    assert all(f"[{citation.number}]" in answer.text for citation in answer.citations)


def test_a_follow_up_asks_for_the_uses_of_what_was_asked_about(tmp_path: Path) -> None:
    write(tmp_path / "shop", CODE)
    env = {"CODEINFO_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tmp_path, env=env)) as engine:
        folder = (str(tmp_path / "shop"),)
        first = engine.answers.ask(AskRequest("where is Money defined?", folder))
        then = engine.answers.ask(AskRequest("and what extends it?", folder, first.conversation_id))
    assert "`Money` (app/money.py:1 [1]) is extended or implemented in 1 place" in then.text


def test_an_answer_about_a_change_names_the_tests_to_run(ask_code: Ask) -> None:
    for question in ("what breaks if I change total?", "what breaks if I change app/money.py?"):
        assert ask_code(question).text.endswith("Tests to run: tests/test_till.py")


@pytest.mark.parametrize("question", ["who calls nobody?", "who calls parts?", "where is GiftCard used?"])
def test_a_name_that_nothing_has_is_answered_like_any_question(ask_code: Ask, question: str) -> None:
    assert "place" not in ask_code(question).text.partition("\n")[0]


@pytest.mark.parametrize("question", ["how do I run the tests?", "what is the test command", "how are unit tests run?"])
def test_the_command_for_the_tests_is_that_of_the_manifest(ask_code: Ask, question: str) -> None:
    answer = ask_code(question)
    assert "`pytest` runs the tests, 1 file. They use pytest:" in answer.text
    assert [(one.path, one.start_line) for one in answer.citations] == [("pyproject.toml", 2)]


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("what changed lately?", "."),
        ("what has been done recently in src/app.py", "src/app.py"),
        ("show me the latest commits", "."),
        ("recent changes to lib/", "lib/"),
        ("what changed in 2.0?", None),
        ("what changes the state of the last request", None),
    ],
)
def test_the_latest_changes_are_those_of_the_history(question: str, place: str | None) -> None:
    assert changed_place(question) == place


def test_the_latest_changes_of_a_folder_are_its_commits(ask_code: Ask) -> None:
    listed = [line.partition(" 2023-11-14 ")[2] for line in ask_code("what changed lately?").text.splitlines()[2:]]
    assert listed == ["Count notes, too", "Open the shop"]
    assert ask_code("recent commits in tests/").text.endswith(" Open the shop")


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    env = {"CODEINFO_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    (tmp_path / "empty").mkdir()
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tmp_path, env=env)) as engine:
        text = engine.answers.ask(AskRequest("what is this", (str(tmp_path / "empty"),))).text
    assert "no file is indexed here. Is this the right folder? `codeinfo why PATH`" in text


def test_definitions_and_calls_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    tree = tmp_path / "shop"
    tree.mkdir()
    for number in range(5):
        (tree / f"desk{number}.py").write_text(f"class Desk{number}:\n    def close(self):\n        return {number}\n")
    (tree / "day.py").write_text("def end(desk):\n    desk.close()\n")
    env = {"CODEINFO_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree, env=env)) as engine:
        every, first = (
            engine.answers.ask(AskRequest(f"who calls {name}?", (str(tree),))) for name in ("close", "Desk0.close")
        )
    assert "desk2.py:2 [3], 2 more) is called in 1 place" in every.text
    assert "is called nowhere" in first.text
    assert "1 more call by this name may mean it or another definition" in first.notes


def test_a_name_that_nothing_has_is_noted(ask_code: Ask) -> None:
    notes = ask_code("how does count_total close a Till that closesNever?").notes
    assert [note.partition(". ")[0] for note in notes if "nothing called" in note] == [
        "nothing called count_total is defined here",
        "nothing called closesNever is defined here",
    ]
    for question in ("how does Till close?", "why is TILL_LIMIT read?"):
        assert not any("nothing called" in note for note in ask_code(question).notes)
    assert any(
        "nothing called totall is defined here. Did you mean total?" in note
        for note in ask_code("who calls `totall`").notes
    )
