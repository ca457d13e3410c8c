"""Questions to collections: through the same loop as code, cited at page, sheet, slide or heading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import jsonschema
import pytest
from answer_tools import before_writing
from conftest import RunCli
from document_tools import add
from mcp_help import connected
from model_server import ScriptedServer
from scripted import Reply, Request

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound
from codeinfo.operations.answers import Answer, ConversationRequest, ConversationsRequest
from codeinfo.operations.documents import DocsAskRequest
from codeinfo.ports import ToolCall

FOAM = "who keeps the key to the foam cabinet"
NO_MODEL = {"llm.provider": "none", "llm.discover": "false"}
OPENS_AT = [
    (FOAM, "handbook.pdf#page=2", "Fuel and fire"),
    ("telephone of the crane operator", "tariffs.xlsx#sheet=Staff", "Sheet Staff"),
    ("unexploded ordnance diver team", "dredging.pptx#slide=3", "Slide 3"),
    ("which icebreaker escorts convoys", "ice.adoc:", "Icebreaker"),
]


def engine(**settings: str) -> Engine:
    return Engine(Config.load({"index.workers": "1", **NO_MODEL, **settings}))


@pytest.fixture
def facade(place: Path) -> Iterator[Engine]:
    with engine() as opened:
        add(opened, place)
        yield opened


def ask(facade: Engine, question: str, *collections: str, **options: str) -> Answer:
    return facade.answers.ask(DocsAskRequest(question, collections, **options))  # type: ignore[arg-type]


# --- without a model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("question", "opens", "section"), OPENS_AT)
def test_passages_are_quoted_with_the_place_they_open_at(
    facade: Engine, question: str, opens: str, section: str
) -> None:
    answer = ask(facade, question)
    assert (answer.kind, answer.status, answer.confidence) == ("extractive", "ok", "medium")
    cited = [one for one in answer.citations if opens in one.opens]
    assert cited, answer.citations
    assert section in cited[0].section
    assert cited[0].collection.startswith("file:")
    assert f"{cited[0].path}:{cited[0].start_line}-{cited[0].end_line} ({cited[0].section})" in answer.text


def test_what_the_documents_do_not_answer_is_refused(facade: Engine) -> None:
    answer = ask(facade, "how are kubernetes pods scheduled on GPU nodes")
    assert (answer.status, answer.confidence) == ("abstained", "low")
    assert not answer.citations
    assert "kubernetes" in answer.missing


def test_only_the_collections_named_answer(facade: Engine, tmp_path: Path) -> None:
    other = tmp_path / "yard"
    other.mkdir()
    (other / "notes.txt").write_text("The spare lamp for the yard gate hangs in shed four.\n")
    add(facade, other, name="yard")
    question = "where is the spare lamp"
    both = {one.collection for one in ask(facade, question).citations}
    assert len(both) == 2  # a notes.txt in each: neither hides the other
    only = ask(facade, question, "yard")
    assert {one.opens for one in only.citations} == {f"{other / 'notes.txt'}:1"}
    with pytest.raises(NotFound, match="attic"):
        ask(facade, question, "attic")


def test_a_question_without_any_collection_says_how_to_add_one() -> None:
    with engine() as facade:
        with pytest.raises(NotFound, match="no collection yet"):
            ask(facade, "anything")
        assert not facade.conversations.page(ConversationsRequest()).conversations


def test_a_collection_that_is_gone_does_not_hide_the_others(facade: Engine, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "old.md").write_text("# Old\n\nNothing of worth.\n")
    add(facade, gone)
    (gone / "old.md").unlink()
    gone.rmdir()
    answer = ask(facade, FOAM)
    assert answer.status == "ok"
    assert any("left out" in note for note in answer.notes)


# --- with a model ---------------------------------------------------------------------------------------------------


class Clerk:
    """Grades everything as good, reads the tariffs, then answers; keeps what it was asked."""

    def __init__(self, *said: Reply) -> None:
        self.said = list(said)
        self.prompts: list[str] = []

    def __call__(self, request: Request) -> Reply:
        self.prompts.append(request.messages[-1].content)
        return before_writing(request, "key foam cabinet") or self.said.pop(0)


def call(name: str, /, **arguments: object) -> Reply:
    return Reply(tool_calls=(ToolCall(f"call_{name}", name, json.dumps(arguments)),))


def test_a_model_answers_from_pages_and_its_citations_are_checked(place: Path) -> None:
    clerk = Clerk(Reply("The duty officer keeps the only key to the foam cabinet [1]. The mayor has another [77]."))
    with ScriptedServer(clerk) as server, engine(**{"llm.provider": "auto", "llm.base_url": server.url}) as facade:
        add(facade, place / "handbook.pdf", name="manual")
        answer = ask(facade, FOAM, "manual")
        kept = facade.conversations.show(ConversationRequest(answer.conversation_id)).turns
    assert answer.kind == "generated"
    assert answer.text.endswith("[no source].")
    (cited,) = answer.citations
    assert cited.opens.endswith("handbook.pdf#page=2")
    assert "handbook.pdf:" in clerk.prompts[-1]
    assert "(Page 2 > Fuel and fire)" in clerk.prompts[-1]
    assert kept[-1].citations == answer.citations


def test_a_model_reads_on_in_a_document_and_nowhere_else(place: Path) -> None:
    clerk = Clerk(
        call("outline", path="handbook.pdf"),
        call("read_file", path="handbook.pdf", start_line=3, end_line=10),
        call("read_file", path="/etc/passwd", start_line=1, end_line=2),
        call("references", name="foam"),
        Reply("The handbook is for everyone who berths a vessel [2]."),
    )
    with ScriptedServer(clerk) as server, engine(**{"llm.provider": "auto", "llm.base_url": server.url}) as facade:
        add(facade, place / "handbook.pdf")
        answer = ask(facade, FOAM)
    outline, read, outside, references = answer.trace.tools
    assert not outline.failed
    assert "Page 1" in read.outcome
    assert (outside.failed, references.failed) == (True, True)
    assert "not a document" in outside.outcome


def test_a_conversation_goes_on(place: Path) -> None:
    with engine() as facade:
        add(facade, place)
        first = ask(facade, FOAM)
        second = ask(facade, "telephone of the crane operator", conversation=first.conversation_id)
        turns = facade.conversations.show(ConversationRequest(first.conversation_id)).turns
    assert second.conversation_id == first.conversation_id
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2


# --- shells ---------------------------------------------------------------------------------------------------------


def test_the_command_streams_and_names_where_sources_open(codeinfo: RunCli, place: Path) -> None:
    options = ("--provider", "none")
    assert codeinfo("docs", "add", str(place), "--name", "port", cwd=place).returncode == 0
    shown = codeinfo("docs", "ask", FOAM, "-c", "port", *options, cwd=place)
    assert shown.returncode == 0, shown.stderr
    assert "handbook.pdf#page=2" in shown.stdout
    as_json = json.loads(codeinfo("docs", "ask", FOAM, "--json", *options, cwd=place).stdout)
    assert any(one["opens"].endswith("handbook.pdf#page=2") for one in as_json["citations"])
    assert " documents " in codeinfo("conversations", "list", cwd=place).stdout
    unknown = codeinfo("docs", "ask", FOAM, "-c", "attic", *options, cwd=place)
    assert unknown.returncode == 2
    assert "port" in unknown.stderr


@pytest.mark.parametrize("tools", ["docs", "answers"])
def test_the_tool_answers_a_real_client(place: Path, tools: str) -> None:
    with engine() as facade:
        add(facade, place, name="port")

    async def session() -> None:
        async with connected(place, tools, llm__provider="none") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            tool = listed["ask_documents"]
            assert tool.annotations is not None
            assert tool.annotations.open_world_hint is True
            reply = await client.call_tool("ask_documents", {"question": FOAM, "collections": ["port"]})
            found = reply.structured_content
            jsonschema.Draft202012Validator(tool.output_schema).validate(found)
            assert found["confidence"] == "medium"
            assert "duty officer" in found["answer"]
            pages = [one for one in found["sources"] if one["opens"].endswith("handbook.pdf#page=2")]
            assert pages[0]["document"] == "handbook.pdf"
            assert pages[0]["section"] == "Page 2 > Fuel and fire"
            assert f"[{pages[0]['number']}]" in found["answer"]

    anyio.run(session)


def test_the_tool_fails_as_the_contract_says(place: Path) -> None:
    from mcp.shared.exceptions import MCPError

    async def session() -> None:
        async with connected(place, "docs", llm__provider="none") as client:
            with pytest.raises(MCPError) as raised:
                await client.call_tool("ask_documents", {"question": FOAM, "collections": ["attic"]})
            assert raised.value.error.code == -32602

    anyio.run(session)
