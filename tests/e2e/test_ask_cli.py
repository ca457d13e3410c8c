"""`ask`, `chat`, agents and conversations as people use them: the real program, a real server that fails on purpose."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from answer_tools import ACCOUNT, ANSWER, before_writing
from model_server import ScriptedServer, Trouble, endless_tool_calls
from msgspec.structs import replace
from patience import wait_until, within
from scripted import Reply, Request

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound, ProviderError, UsageError
from codeinfo.models.chat import LOCAL_PORTS
from codeinfo.operations.answers import AgentRunRequest, Answer, AskRequest, ConversationRequest, ConversationsRequest
from codeinfo.operations.base import Listener
from codeinfo.ports import ToolCall

CODE = (
    ACCOUNT
    + '''def load_settings(path):
    """Read the settings file of the bank."""
    return parse(path)
'''
)
QUESTION = "how does transfer move money between accounts?"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "bank.py").write_text(CODE)
    (tmp_path / "notes.md").write_text("# Notes\n\nThe bank opens at nine.\n")
    (tmp_path / ".env").write_text("SECRET=1\n")
    return tmp_path


def script(request: Request) -> Reply:
    return before_writing(request) or Reply(ANSWER)


def engine_for(tree: Path, url: str, **settings: Any) -> Engine:
    flags = {"llm.base_url": url, "llm.discover": "false", **settings}
    return Engine(Config.load(flags, tree))


def ask(tree: Path, url: str, heard: Any = None, **settings: Any) -> Answer:
    with engine_for(tree, url, **settings) as engine:
        emit = heard.append if heard is not None else lambda text: None
        return engine.answers.ask(AskRequest(QUESTION, (str(tree),)), Listener(text=emit))


@pytest.mark.parametrize(
    ("question", "path", "words"),
    [
        ("what does this project do?", "README.md", "Keeps the accounts of a village bank"),
        ("which python versions are supported?", "pyproject.toml", "requires-python"),
        ("How do I close an account?", "guide.md", "Hand in the passbook"),
    ],
)
def test_questions_about_a_project_and_its_use_are_answered_from_its_documents(
    tree: Path, question: str, path: str, words: str
) -> None:
    counting = "The accounts are counted every evening, and the sum is written into the book. " * 15
    (tree / "README.md").write_text(
        f"Moved here in May.\n\n# Bank\n\nKeeps the accounts of a village bank. {counting}\n"
    )
    (tree / "guide.md").write_text("# Guide\n\n## Closing an account\n\nHand in the passbook to close an account.\n")
    (tree / "pyproject.toml").write_text('[project]\nname = "bank"\nrequires-python = ">=3.11"\n')
    (tree / "project.py").write_text(
        "class Project:\n    def what_it_does(self, project):\n        return project.supported_versions\n"
    )
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree)) as engine:
        answer = engine.answers.ask(AskRequest(question, (str(tree),)))
    assert answer.kind == "extractive"
    assert answer.citations[0].path == path
    assert words in answer.text
    assert "Moved here" not in answer.text


def test_a_question_about_a_project_is_answered_if_no_file_has_its_words(tree: Path) -> None:
    (tree / "README.md").write_text("# Bank\n\nKeeps the accounts of a village.\n")
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree)) as engine:
        answer = engine.answers.ask(AskRequest("what does this project do?", (str(tree),)))
    assert answer.status == "ok"
    assert [citation.path for citation in answer.citations] == ["README.md"]


def test_without_a_model_two_passages_of_the_best_file_are_quoted(tree: Path) -> None:
    steps = "".join(f"    ledger.enter_the_line_of_the_day({at})\n" for at in range(40))
    functions = (f"def {verb}_voucher(voucher, ledger):\n{steps}" for verb in ("redeem", "redeem_half_of"))
    (tree / "vouchers.py").write_text("\n\n".join(functions))
    with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree)) as engine:
        first, second, *_ = engine.answers.ask(AskRequest("how is a voucher redeemed", (str(tree),))).citations
    assert first.path == second.path == "vouchers.py"
    assert first.end_line < second.start_line or second.end_line < first.start_line


# --- faults: each ends as documented, within its limit --------------------------------------------------------------

# Silence is cut short only where a test is about silence: a busy machine may be slow to answer.
QUICK = {"llm.timeout_s": "60", "answers.timeout_s": "180"}
IMPATIENT = {"llm.timeout_s": "1", "answers.timeout_s": "120"}


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Trouble.UNAUTHORIZED, "does not accept the key"),
        (Trouble.HANG, "did not answer in time"),
        (Trouble.SILENT, "did not answer in time"),
        (Trouble.MALFORMED, "an invalid reply"),
        (Trouble.NOT_HTTP, "an invalid reply"),
    ],
)
def test_a_failure_before_the_first_word_is_one_error_and_a_failed_turn(
    tree: Path, trouble: Trouble, words: str
) -> None:
    limits = IMPATIENT if words == "did not answer in time" else QUICK
    with ScriptedServer(script, troubles=[trouble] * 9) as server, engine_for(tree, server.url, **limits) as engine:
        with within(100), pytest.raises(ProviderError, match=words) as caught:
            engine.answers.ask(AskRequest(QUESTION, (str(tree),)))
        assert caught.value.code == "CODE_INFO_LLM_UNAVAILABLE"
        (conversation,) = engine.conversations.page(ConversationsRequest()).conversations
        turns = engine.conversations.show(ConversationRequest(conversation.id)).turns
        assert [turn.status for turn in turns] == ["ok", "failed"]
        assert words in turns[1].error
        assert not conversation.running


def test_refused(tree: Path) -> None:
    with ScriptedServer() as server:
        url = server.url
    with pytest.raises(ProviderError, match="refuses the connection") as caught:
        ask(tree, url, **{"llm.model": "m"})
    assert caught.value.code == "CODE_INFO_LLM_UNAVAILABLE"


def test_tls(tree: Path) -> None:
    with ScriptedServer(script) as server, pytest.raises(ProviderError, match="no secure connection"):
        ask(tree, server.url.replace("http:", "https:"), **{"llm.model": "m"})
    assert ssl.OPENSSL_VERSION


@pytest.mark.parametrize("troubles", [[Trouble.RATE_LIMITED], [Trouble.SERVER_ERROR], [Trouble.DROP]])
def test_a_passing_failure_is_survived(tree: Path, troubles: Iterable[Trouble]) -> None:
    with ScriptedServer(script, troubles=troubles, retry_after="0") as server:
        answer = ask(tree, server.url, **QUICK)
    assert answer.text == ANSWER
    assert answer.status == "ok"


def test_a_long_wait_named_by_the_endpoint_is_not_waited_for(tree: Path) -> None:
    with (
        ScriptedServer(script, troubles=[Trouble.RATE_LIMITED] * 9, retry_after="3600") as server,
        pytest.raises(ProviderError, match="next try would be in 3600 s"),
    ):
        ask(tree, server.url, **QUICK)


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.STALL, Trouble.MALFORMED_MIDWAY])
def test_a_stream_that_breaks_leaves_a_marked_partial_answer(tree: Path, trouble: Trouble) -> None:
    heard: list[str] = []
    with ScriptedServer(script, troubles=[trouble]) as server:
        answer = ask(tree, server.url, heard, **({"llm.timeout_s": "3"} if trouble is Trouble.STALL else QUICK))
    assert answer.status == "partial"
    assert any("incomplete" in note for note in answer.notes)
    assert ANSWER.startswith(answer.text.partition("\n\n")[0].split(" [")[0])
    assert "".join(heard).split() == answer.text.split()


@pytest.mark.parametrize("trouble", [Trouble.ENDLESS, Trouble.ENDLESS_ARGUMENTS, Trouble.ENDLESS_COMMENTS])
def test_what_never_ends_is_ended(tree: Path, trouble: Trouble) -> None:
    settings = {"llm.timeout_s": "1", "answers.timeout_s": "3"}
    with ScriptedServer(script, troubles=[trouble] * 9) as server, within(100):
        try:
            answer = ask(tree, server.url, **settings)
            assert answer.status == "partial"
            assert answer.notes
        except ProviderError:
            assert trouble is Trouble.ENDLESS_COMMENTS  # not one word came: there is no partial answer


def test_endless_tool_calls(tree: Path) -> None:
    with ScriptedServer(endless_tool_calls("outline", '{"path": "bank.py"}')) as server:
        answer = ask(tree, server.url, **{"answers.tool_calls": "3"})
        assert len(server.requests) <= 6
    assert answer.status == "partial"
    assert len(answer.trace.tools) == 3
    assert "bank.py:" in answer.text


# --- one question ---------------------------------------------------------------------------------------------------


def test_an_answer_with_checked_citations(tree: Path) -> None:
    with ScriptedServer(script) as server:
        answer = ask(tree, server.url)
    assert (answer.status, answer.kind, answer.provider) == ("ok", "generated", "configured")
    assert answer.citations[0].path == "bank.py"
    assert not answer.citations[0].problem
    assert answer.usage.calls >= 1
    assert not answer.usage.estimated


def test_the_key_never_shows(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret-key-123456")
    with (
        ScriptedServer(script, key="another") as server,
        pytest.raises(ProviderError) as caught,
    ):
        ask(tree, server.url, **{"llm.api_key_env": "MY_KEY", "llm.model": "scripted-chat"})
    assert "very-secret" not in str(caught.value)


def test_tools_reach_indexed_files_only(tree: Path) -> None:
    outside = ["/etc/passwd", "../../etc/passwd", ".env", "nothing.py", str(tree / ".env")]

    def greedy(request: Request) -> Reply:
        if request.schema:
            return script(request)
        asked = sum(message.role == "tool" for message in request.messages)
        if asked < len(outside):
            arguments = json.dumps({"path": outside[asked], "start_line": 1, "end_line": 9})
            return Reply(tool_calls=(ToolCall(f"c{asked}", "read_file", arguments),))
        return Reply(ANSWER)

    with ScriptedServer(greedy) as server:
        answer = ask(tree, server.url)
        sent = json.dumps([dict(request.body) for request in server.requests])
    assert [use.failed for use in answer.trace.tools] == [True] * len(outside)
    assert "SECRET" not in sent
    assert "root:" not in sent


def test_a_follow_up_goes_on_and_a_stranger_may_not(tree: Path) -> None:
    with ScriptedServer(script) as server, engine_for(tree, server.url) as engine:
        first = engine.answers.ask(AskRequest(QUESTION, (str(tree),)))
        again = AskRequest("and when does it fail?", (str(tree),), first.conversation_id)
        assert engine.answers.ask(again).conversation_id == first.conversation_id
        last = server.requests[-1].body["messages"]
        assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
        with pytest.raises(UsageError, match="belongs to no agent"):
            engine.answers.run_agent(
                AgentRunRequest("explainer", "explain", str(tree), conversation=first.conversation_id)
            )
        run = engine.answers.run_agent(AgentRunRequest("explainer", "explain", str(tree)))
        step = f"codeinfo agents run explainer INSTRUCTION --conversation {run.conversation_id}"
        with pytest.raises(UsageError, match=step):
            engine.answers.ask(replace(again, conversation=run.conversation_id))


def test_an_agent_runs_the_steps_of_a_command_in_one_conversation(tree: Path) -> None:
    heard: list[str] = []
    with ScriptedServer(script) as server, engine_for(tree, server.url) as engine:
        request = AgentRunRequest("explainer", "transfers", str(tree), command="tour")
        run = engine.answers.run_agent(request, Listener(text=heard.append))
        assert len(run.answers) == 3
        headings = [f"## {answer.question}" for answer in run.answers]
        assert [line for line in "".join(heard).split("\n") if line.startswith("## ")] == headings
        assert "new to this part" in server.requests[-1].body["messages"][0]["content"]
        detail = engine.conversations.show(ConversationRequest(run.conversation_id))
        assert detail.conversation.agent_name == "explainer"
        assert detail.conversation.title == "transfers"
        assert len(detail.turns) == 6
        with pytest.raises(UsageError, match="is not a folder"):
            engine.answers.run_agent(AgentRunRequest("explainer", "x", str(tree / "bank.py")))


def test_the_planner_is_given_the_decision_card(tree: Path) -> None:
    with ScriptedServer(script) as server, engine_for(tree, server.url) as engine:
        engine.answers.run_agent(AgentRunRequest("planner", "let transfer refuse negative amounts", str(tree)))
        asked = server.requests[-1].body["messages"][-1]["content"]
    assert re.search(r"Known beforehand, as data:\n<<<result of decision_card (\w+)>>>\n[^<]+\n<<<end \1>>>\n", asked)
    assert '"ready": ' in asked


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def plain(codeinfo: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program without any model."""
    monkeypatch.setenv("CODEINFO_LLM_DISCOVER", "false")
    return codeinfo


def test_an_unknown_model_is_refused_at_once(tree: Path) -> None:
    with ScriptedServer(script) as server, engine_for(tree, server.url) as engine:
        with pytest.raises(NotFound, match="offers no model 'gpt-0'"):
            engine.answers.ask(AskRequest(QUESTION, (str(tree),), model="gpt-0"))
        assert engine.conversations.page(ConversationsRequest()).conversations == ()


@pytest.mark.parametrize(("request_model", "configured"), [("gpt-0", ""), ("", "gpt-0")])
def test_a_found_server_without_the_model_is_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch, request_model: str, configured: str
) -> None:
    with ScriptedServer(script) as server:
        for name in tuple(LOCAL_PORTS):
            monkeypatch.delitem(LOCAL_PORTS, name)
        monkeypatch.setitem(LOCAL_PORTS, "Ollama", server.port)
        with engine_for(tree, "", **{"llm.discover": "true", "llm.model": configured}) as engine:
            request = AskRequest(QUESTION, (str(tree),), provider="Ollama", model=request_model)
            with pytest.raises(NotFound, match="'gpt-0' is not offered by Ollama"):
                engine.answers.ask(request)
            with pytest.raises(NotFound, match="'gpt-0' is not offered by any server"):
                engine.answers.ask(replace(request, provider=""))


def test_an_instruction_is_not_a_word_of_the_question(plain: Any, tree: Path) -> None:
    done = plain("ask", "explain transfer", cwd=tree)
    assert "No language model was used" in done.stdout
    assert "def transfer(self, other, amount):" in done.stdout


def test_an_agent_without_an_instruction_is_told_what_is_missing(plain: Any, tree: Path) -> None:
    done = plain("agents", "run", "explainer", cwd=tree)
    assert (done.returncode, "the instruction is empty" in done.stderr) == (2, True)


def test_sources_and_notes_of_each_step_follow_it(plain: Any, tree: Path) -> None:
    done = plain("agents", "run", "explainer", "transfer", "--command", "risks", cwd=tree)
    marks = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(("## ", "note: "))]
    assert marks == ["##", "note:", "##", "note:"], done.stdout


def test_searches_of_answers_log_their_score_source(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="codeinfo")
    with ScriptedServer(script) as server:
        ask(tree, server.url)
    assert "score source distances" in caplog.text


def test_without_a_model_the_best_passages_are_quoted(plain: Any, tree: Path) -> None:
    done = plain("ask", QUESTION, cwd=tree)
    assert done.returncode == 0, done.stderr
    assert "No language model was used" in done.stdout
    assert "def transfer(self, other, amount):" in done.stdout
    assert "bank.py:" in done.stdout
    answer = json.loads(plain("ask", QUESTION, "--json", cwd=tree).stdout)
    assert (answer["kind"], answer["status"]) == ("extractive", "ok")
    assert any("no chat model" in note for note in answer["notes"])


def test_without_a_model_a_foreign_question_is_refused(plain: Any, tree: Path) -> None:
    answer = json.loads(plain("ask", "how are kubernetes pods autoscaled?", "--json", cwd=tree).stdout)
    assert answer["status"] == "abstained"
    assert "kubernetes" in answer["text"]
    assert not any("quoted" in note for note in answer["notes"])


def test_ask_streams_and_shows_the_trace(plain: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(script) as server:
        monkeypatch.setenv("CODEINFO_LLM_BASE_URL", server.url)
        done = plain("ask", QUESTION, "--trace", cwd=tree)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(ANSWER)
    for words in ("Sources", "Round 1:", "LLM Usage Stats", "conversation "):
        assert words in done.stdout
    assert "**" not in done.stdout  # Markdown of the stored answer


def test_chat_holds_one_conversation(plain: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(script) as server:
        monkeypatch.setenv("CODEINFO_LLM_BASE_URL", server.url)
        done = plain("chat", cwd=tree, input=f"{QUESTION}\nand when does it fail?\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(ANSWER) == 2
    listed = json.loads(plain("conversations", "list", "--json", cwd=tree).stdout)
    assert [one["turns"] for one in listed["conversations"]] == [4]
    assert done.stdout.count("to continue: --conversation") == 1


def test_chat_says_once_that_there_is_no_model(plain: Any, tree: Path) -> None:
    done = plain("chat", cwd=tree, input=f"{QUESTION}\nhow is money moved?\n")
    assert done.stdout.count("[1] ") == 2
    assert done.stdout.count("no chat model is configured") == 1


def test_chat_on_a_terminal_says_how_to_leave(tree: Path) -> None:
    import pty

    leader, follower = pty.openpty()
    environment = {**os.environ, "CODEINFO_LLM_DISCOVER": "false", "TERM": "dumb"}
    command = [sys.executable, "-P", "-m", "codeinfo", "chat"]
    process = subprocess.Popen(command, cwd=tree, env=environment, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    os.write(leader, b"/help\n/exit\n")
    shown = b""
    with suppress(OSError):  # nobody has the other end open any more
        while part := os.read(leader, 4096):
            shown += part
    os.close(leader)
    assert process.wait(120) == 0
    assert shown.count(b"Ctrl-D ends the conversation") == 2


def test_conversations_from_the_command_line(plain: Any, tree: Path) -> None:
    identity = json.loads(plain("ask", QUESTION, "--json", cwd=tree).stdout)["conversation_id"]
    shown = plain("conversations", "show", identity[:8], cwd=tree).stdout
    assert shown.count(QUESTION) == 2, "as the title and as what was asked"
    assert identity in plain("conversations", "search", "transfer", cwd=tree).stdout
    assert plain("conversations", "export", identity, cwd=tree).stdout.startswith(f"# {QUESTION}\n")
    assert "  1 question  " in plain("conversations", "list", cwd=tree).stdout
    assert plain("conversations", "archive", identity, cwd=tree).returncode == 0
    refused = plain("ask", "more?", "--conversation", identity, cwd=tree)
    assert refused.stdout == ""
    assert refused.returncode == 2
    assert "must be restored before use" in refused.stderr
    assert plain("conversations", "restore", identity, cwd=tree).returncode == 0
    refused = plain("conversations", "delete", identity[:1], "--yes", cwd=tree)
    assert (refused.returncode, "at least the first 6 characters" in refused.stderr) == (2, True)
    assert "deleted" in plain("conversations", "delete", identity, "--yes", cwd=tree).stdout
    assert "No conversations." in plain("conversations", "list", cwd=tree).stdout


def test_providers_and_agents_are_listed(plain: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "explainer" in plain("agents", "list", cwd=tree).stdout
    assert "quotes the best passages" in plain("providers", cwd=tree).stdout
    with ScriptedServer(script) as server:
        monkeypatch.setenv("CODEINFO_LLM_BASE_URL", server.url)
        listed = json.loads(plain("providers", "--json", cwd=tree).stdout)["providers"]
    assert [(one["name"], one["state"], one["models"], one["chosen"]) for one in listed] == [
        ("configured", "ok", ["scripted-chat"], True)
    ]


def test_a_provider_without_its_key_is_listed_with_what_it_lacks(
    plain: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEINFO_LLM_BASE_URL", "https://user:secret@models.example/v1")
    monkeypatch.setenv("CODEINFO_LLM_API_KEY_ENV", "NO_SUCH_KEY")
    listed = plain("providers", cwd=tree)
    assert listed.returncode == 0
    assert "https://models.example/v1  has no usable key" in listed.stdout
    assert "NO_SUCH_KEY should contain a key, but is empty or unset" in listed.stdout


def test_ctrl_c_leaves_a_stopped_turn(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(script, troubles=[Trouble.SILENT] * 9) as server:
        monkeypatch.setenv("CODEINFO_LLM_BASE_URL", server.url)
        command = [sys.executable, "-m", "codeinfo", "ask", QUESTION, "--model", "scripted-chat"]
        running = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: any(one.body for one in server.requests))
        os.kill(running.pid, signal.SIGINT)
        running.communicate(timeout=120)
    assert running.returncode == 130
    with engine_for(tree, "") as engine:
        (conversation,) = engine.conversations.page(ConversationsRequest()).conversations
        turns = engine.conversations.show(ConversationRequest(conversation.id)).turns
    assert turns[1].status == "stopped"
    (searched,) = turns[1].rounds
    assert (searched.query, searched.items[0].path) == (QUESTION, "bank.py")


SUITE = """
- question: how does transfer move money between accounts?
  must_cite: [bank.py]
  must_mention: [insufficientfunds]
  must_not_mention: [kubernetes]
- question: how are kubernetes pods autoscaled?
  must_abstain: true
"""


def test_answer_suites(plain: Any, tree: Path) -> None:
    pytest.importorskip("yaml")
    (tree / "suite.yaml").write_text(SUITE)
    done = plain("eval", "answers", "suite.yaml", cwd=tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 0 failed" in done.stdout
    (tree / "suite.yaml").write_text(SUITE.replace("[bank.py]", "[other.py]"))
    done = plain("eval", "answers", "suite.yaml", cwd=tree)
    assert done.returncode == 3
    assert "it does not cite other.py, but bank.py" in done.stdout
    (tree / "suite.yaml").write_text("- question: x\n  must_site: [y]\n")
    done = plain("eval", "answers", "suite.yaml", cwd=tree)
    assert done.returncode == 2
    assert "must_site" in done.stderr
    assert "No conversations." in plain("conversations", "list", "--state", "all", cwd=tree).stdout
