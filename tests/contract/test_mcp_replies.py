"""Every reply of every tool against its own schema, and what clients of other servers rely on."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from codeinfo.config import Config
from codeinfo.errors import CodeInfoError
from codeinfo.model import Hit, Intent, Quality, SearchResult
from codeinfo.operations import OPERATIONS
from codeinfo.operations.documents import DocsAddRequest
from codeinfo.serve.dispatch import Call, Dispatcher, Projects, check
from codeinfo.shells.mcp import Service, make_service, report_failure
from codeinfo.shells.mcp_protocol import ProtocolError
from codeinfo.shells.mcp_replies import CodebaseSearch
from codeinfo.shells.mcp_tools import TOOLS, Tool, choose_tools, describe_tool, plain_tool
from codeinfo.store.layout import IndexFolder

CODE = '''"""Headers."""


def parse_header(line):
    """Split a header line into name and value."""
    return line.split(":", 1)


class Reader:
    def read_all(self, lines):
        return [parse_header(line) for line in lines]
'''
# Arguments by tool; a tool that is not named needs none. What makes something comes before what needs it.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_codebase": {"query": "split a header line", "intent": "edit", "includeSnippets": True},
    "explore": {"target": "parse_header"},
    "get_symbol_references": {"symbol": "parse_header"},
    "remember": {"memory": "Headers are split once", "scope": "symbol:parse_header"},
    "get_change_impact": {"file": "headers.py"},
    "get_review_packet": {"base": "HEAD"},
    "docs_add": {"sources": ["guide.md"], "name": "guide"},
    "docs_update": {"collection": "wiki", "document": "headers.md", "content": "# Headers\n\nSplit once.\n"},
    "documents_list_documents": {"collection": "guide"},
    "documents_search": {"query": "headers"},
    "documents_search_batch": {"queries": ["headers", "nothing like it"]},
    "documents_find_related": {"collection": "guide", "document": "guide.md"},
    "documents_get_document": {"collection": "guide", "document": "guide.md"},
    "documents_get_outline": {"collection": "guide", "document": "guide.md"},
    "documents_get_section": {"collection": "guide", "document": "guide.md", "section": "Guide"},
    "ask_documents": {"question": "What are headers?"},
    "codebase_question": {"question": "How is a header split?"},
    "run_agent_instruction": {"agentName": "explainer", "instruction": "Explain parse_header"},
    "VectorSearch": {"query": "header"},
    "reingest_repository": {"sourceId": "project"},
    "AstListSymbols": {"file": "headers.py"},
    "AstFindDefinition": {"symbol": "parse_header"},
    "AstFindReferences": {"symbol": "parse_header"},
    "AstCallGraph": {"symbol": "parse_header"},
    "AstModuleImports": {"file": "client.py"},
    "similar": {"place": "headers.py:4"},
    "grep": {"pattern": "parse_header"},
    "why": {"path": "headers.py"},
    "symbols": {"path": "headers.py"},
    "defs": {"name": "parse_header"},
    "calls": {"name": "parse_header"},
    "imports": {"path": "client.py"},
    "memory_show": {"id": "MEMORY"},
    "conversations_show": {"id": "CONVERSATION"},
    "conversations_search": {"text": "header"},
    "conversations_export": {"id": "CONVERSATION"},
    "conversations_archive": {"ids": ["CONVERSATION"]},
    "conversations_restore": {"ids": ["CONVERSATION"]},
    "vector_search": {"query": "header"},
}
LAST: dict[str, dict[str, Any]] = {
    "conversations_delete": {"ids": ["CONVERSATION"]},
    "memory_remove": {"id": "MEMORY"},
    "docs_delete": {"collection": "wiki", "documents": ["headers.md"]},
    "docs_remove": {"collections": ["guide"]},
    "clear": {},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "headers.py").write_text(CODE)
    (folder / "client.py").write_text("from headers import parse_header\n\nFIRST = parse_header('a:b')\n")
    (folder / "guide.md").write_text("# Guide\n\nHeaders have a name and a value.\n")
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def service(project: Path) -> Iterator[Service]:
    service = make_service(Config.load({"llm.provider": "none", "llm.discover": False}), ())
    yield service
    service.lease.close()


def call(service: Service, tool: str | Tool, **arguments: Any) -> dict[str, Any]:
    (found,) = choose_tools([tool]) if isinstance(tool, str) else (tool,)
    return service.perform(found, arguments, Call()).content


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_defaults_that_a_tool_shows_are_those_of_its_request(tool: Tool) -> None:
    request = tool.make_request(check(tool.arguments(), ARGUMENTS.get(tool.name, {})), "")
    shown = {item.name: item.default for item in tool.inputs if item.default not in (None, "", ())}
    assert shown == {name: getattr(request, tool.renamed.get(name, name)) for name in shown}


def test_a_text_of_the_code_is_found_where_it_stands_and_answers_name_the_state(service: Service) -> None:
    found = call(service, "search_codebase", query="from headers import parse_header")
    assert found["results"][0]["file"].startswith("client.py:")
    assert found["searchQuality"]["hint"] == "the first result contains the exact text"
    asked = call(service, plain_tool(OPERATIONS["ask"]), question="How is a header split?")
    assert asked["reflects"]["commit"] == found["reflects"]["commit"]


def test_replies_about_documents_name_the_state_of_each_collection(service: Service, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "apples.md").write_text("# Apples\n\nApples are kept in the cellar.\n")
    os.utime(notes / "apples.md", (1, 1))  # what was written a moment ago is looked at again
    with service.lease.use() as engine:
        (report,) = engine.documents.add(DocsAddRequest((str(notes),), name="fruit")).reports
    asked = {"collection": report.collection, "document": "apples.md"}
    for tool, arguments in (
        ("documents_search", {"query": "apples"}),
        ("documents_search", {"query": "zebra crossing", "maxDistance": 0}),
        ("documents_search_batch", {"queries": ["apples", "cellar"]}),
        ("documents_get_outline", asked),
        ("documents_get_document", asked),
        ("documents_find_related", asked),
    ):
        (state,) = call(service, tool, **arguments)["reflects"]
        assert (state["collection"], set(state)) == (report.collection, {"collection", "generation"}), tool
    answered = service.perform(choose_tools(["ask_documents"])[0], {"question": "where are apples kept?"}, Call())
    assert answered.reflects == [state]
    assert "reflects" not in answered.content, "its contract has no such field"


def test_every_reply_fits_its_schema(service: Service) -> None:
    tools = {tool.name: tool for tool in choose_tools(["all", "compat"])}
    tools |= {name: plain_tool(OPERATIONS[name]) for name in ("defs", "refs", "ask", "search", "index")}
    ids: dict[str, str] = {}
    order = [*ARGUMENTS, *(name for name in tools if name not in ARGUMENTS and name not in LAST), *LAST]
    given = ARGUMENTS | LAST | {"refs": {"name": "parse_header"}, "ask": {"question": "How?"}, "search": {"query": "x"}}
    for name in order:
        arguments = {key: filled(value, ids) for key, value in given.get(name, {}).items()}
        reply = call(service, tools[name], **arguments)
        jsonschema.Draft202012Validator(tools[name].output_schema()).validate(reply)
        ids["MEMORY"] = ids.get("MEMORY", "") or (reply["memory"]["id"] if name == "remember" else "")
        ids["CONVERSATION"] = ids.get("CONVERSATION", "") or reply.get("conversationId", "")
    assert set(order) >= {tool.name for tool in choose_tools(["all", "compat"])}


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [filled(one, ids) for one in value]
    return ids.get(value, value) if isinstance(value, str) else value


def test_replies_without_anything_fit_too(service: Service, tmp_path: Path) -> None:
    """Nothing found, nothing known, no vectors: what may be null is null."""
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("nothing here\n")
    for name, arguments in (
        ("search_codebase", {"query": "zebra crossing"}),
        ("search_codebase", {"query": "zebra", "mode": "literal"}),
        ("search_codebase", {"query": "not.ing", "mode": "regex"}),
        ("get_codebase_map", {}),
        ("get_memory", {}),
        ("get_team_patterns", {}),
        ("get_codebase_metadata", {}),
        ("get_indexing_status", {}),
        ("refresh_index", {"full": True}),
    ):
        (tool,) = choose_tools([name])
        reply = call(service, tool, **arguments, project=str(empty))
        jsonschema.Draft202012Validator(tool.output_schema()).validate(reply)
    (tool,) = choose_tools(["reingest_repository"])
    reply = call(service, tool, sourceId="empty")
    assert reply["errorCode"] is None
    jsonschema.Draft202012Validator(tool.output_schema()).validate(reply)
    (tool,) = choose_tools(["VectorSearch"])
    reply = call(service, tool, query="zebra", repository="empty")
    jsonschema.Draft202012Validator(tool.output_schema()).validate(reply)
    found: dict[str, Any] = {"results": [], "modelId": None, "files": []}
    jsonschema.Draft202012Validator(tool.output_schema()).validate(found)


def code_of(service: Service, name: str, **arguments: Any) -> tuple[int, str]:
    (tool,) = choose_tools([name])
    with pytest.raises(CodeInfoError) as refused:
        service.perform(tool, arguments, Call())
    with pytest.raises(ProtocolError) as raised:
        report_failure(tool, refused.value, ())
    return raised.value.code, raised.value.data["code"]


def test_files_that_a_rule_excludes_cost_an_agent_no_tokens(service: Service, project: Path) -> None:
    (project / "logo.png").write_bytes(bytes(100))
    (project / "long.py").write_text("A = 1\n" * 200_000)
    (report,) = call(service, "refresh_index")["reports"]
    assert [skip["path"] for skip in report["skipped"]] == ["long.py"]


def test_codes_of_other_servers(service: Service, project: Path, tmp_path: Path) -> None:
    call(service, "refresh_index")
    never = tmp_path / "never"
    never.mkdir()
    (never / "a.py").write_text("A = 1\n")
    assert code_of(service, "reingest_repository", sourceId=str(never)) == (404, "NOT_FOUND")
    assert code_of(service, "reingest_repository", sourceId="nobody") == (404, "NOT_FOUND")
    assert code_of(service, "VectorSearch", query="x", repository="nobody") == (404, "REPO_NOT_FOUND")
    assert code_of(service, "VectorSearch", query=" ") == (-32602, "VALIDATION_FAILED")
    (project / "new.py").write_text("B = 1\n")
    with IndexFolder(Config.load().paths.cache_dir, project).lock():
        assert code_of(service, "reingest_repository", sourceId="project") == (429, "BUSY")


def test_a_repository_that_is_being_built_is_not_searched(service: Service, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.mkdir()
    for n in range(400):
        (large / f"f{n}.py").write_text(f"def work_{n}(value):\n    return value + {n}\n\n\n" * 30)
    with service.lease.use() as engine:
        building = threading.Thread(target=call, args=(service, "refresh_index"), kwargs={"project": str(large)})
        building.start()
        while engine.index_progress(large) is None or not engine.indexes.projects().projects:
            assert building.is_alive()
        assert code_of(service, "VectorSearch", query="work", repository="large")[0] in (404, 409)
        assert code_of(service, "reingest_repository", sourceId="large")[0] in (404, 429)
        building.join()
    assert call(service, "VectorSearch", query="work", repository="large")["results"]


def test_names_that_other_servers_give_arguments(service: Service) -> None:
    """Taken where this server knows the thing, refused by their own name where it does not."""
    only = call(service, "search_codebase", query="headers", filters={"language": "markdown"})
    assert [one["file"] for one in only["results"]] == ["guide.md:1-3"]
    assert call(service, "AstFindDefinition", name="parse_header")["total"] == 1
    assert call(service, "AstFindReferences", symbolId="headers.py::parse_header")["usageCount"] == 3
    assert not call(service, "refresh_index", incrementalOnly=True)["reports"][0]["rebuilt"]
    assert call(service, "refresh_index", incrementalOnly=False)["reports"][0]["rebuilt"]
    call(service, "docs_add", sources=["guide.md"], name="guide")
    assert call(service, "ask_documents", query="What do headers have?")["answer"]
    hits = call(service, "documents_search", query="headers", hybridSearch=False, rerank=False)
    assert hits["results"]
    with pytest.raises(CodeInfoError, match=r"unknown argument filters\.layer"):
        call(service, "search_codebase", query="headers", filters={"layer": "api"})
    shown = describe_tool(choose_tools(["AstFindDefinition"])[0])["inputSchema"]["properties"]
    assert "symbol" in shown
    assert "name" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": 5}, "query must be a string. A question"),
        ({"query": "work", "limit": True}, "limit must be a whole number from 1 to 100. By default 10"),
        ({"query": "work", "limit": 0}, "limit must be a whole number from 1 to 100. By default 10"),
        ({"query": "work", "limit": 10**30}, "limit must be a whole number from 1 to 100. By default 10"),
        ({"query": "work", "intent": "bogus"}, "intent cannot be 'bogus'. One of: explore, edit"),
        ({"query": "work", "limit": "ten"}, "limit must be a whole number from 1 to 100. By default 10"),
        ({"query": "work", "filters": []}, "filters must be an object"),
        ({"query": "work", "filters": "code"}, "filters must be an object"),
        ({"query": "work", "filters": '{"a":' * 50_000}, "filters must be an object"),
        ({"query": "work", "filters": {"globs": [1]}}, "filters.globs must be a list of strings"),
        ({"query": "work", "filters": {"kinds": ["web"]}}, "filters.kinds cannot be 'web'. One of: code, docs"),
        ({"query": "a\0b"}, "query contains a NUL. Send plain text"),
        ({"limit": 3}, "query is required. A question"),
    ],
)
def test_a_wrong_argument_is_named_with_what_it_must_be(
    service: Service, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(CodeInfoError) as refused:
        call(service, "search_codebase", **arguments)
    assert f"{refused.value.what}. {refused.value.next_step}".startswith(message)


@pytest.mark.parametrize(
    "written",
    [
        {"limit": 1.0},
        {"limit": "1", "mode": None, "intent": ""},
        {"limit": "1", "includeSnippets": "True"},
        {"limit": 1, "filters": '{"globs": ["*.py"]}'},
        {"limit": 1, "filters": {"globs": "*.py"}},
        {"limit": 1, "filters": {"globs": '["*.py", "*.md"]'}},
    ],
)
def test_values_may_be_written_as_models_write_them(service: Service, written: dict[str, Any]) -> None:
    call(service, "refresh_index")
    assert len(call(service, "search_codebase", query="headers", **written)["results"]) == 1


def test_projects_and_files_may_be_file_addresses(service: Service, project: Path) -> None:
    call(service, "refresh_index", project=project.as_uri())
    address = (project / "headers.py").as_uri()
    affected = call(service, "get_change_impact", file=address, project=project.as_uri())
    assert [file["path"] for file in affected["files"]] == ["client.py"]
    assert call(service, "symbols", path=address)["path"] == "headers.py"


def test_tools_that_only_read_this_machine_are_no_open_world() -> None:
    tools = {tool.name: describe_tool(tool) for tool in choose_tools(["all"])}
    opened = {name for name, tool in tools.items() if tool["annotations"]["openWorldHint"]}
    assert {"codebase_question", "run_agent_instruction", "providers", "docs_add"} <= opened
    assert not {name for name in opened if name.startswith("conversations")}
    assert not [name for name, tool in tools.items() if "--" in tool["description"]], "options of the command line"


def test_the_ast_tools_answer_in_camel_case(service: Service) -> None:
    reply = call(service, "AstFindReferences", symbol="parse_header")
    assert {"usageCount", "isComplete", "resolvedCount"} <= set(reply)
    assert "startLine" in reply["definitions"][0]


def test_conversations_know_their_kind_of_client(service: Service) -> None:
    for name in ("ask", "codebase_question"):
        asked = call(service, name, question="How is a header split?")
        identity = asked.get("conversation_id") or asked["conversationId"]
        assert call(service, "conversations_show", id=identity)["conversation"]["source"] == "MCP"


def test_lists_of_documents_have_hashes(service: Service, project: Path) -> None:
    """By which a client that keeps documents elsewhere tells what changed."""
    call(service, "docs_add", sources=["guide.md"], name="guide")
    (listed_one,) = call(service, "documents_list_documents", collection="guide")["collections"][0]["listing"]
    assert listed_one["hash"] == hashlib.sha256((project / "guide.md").read_bytes()).hexdigest()


def test_a_server_elsewhere_sees_paths_as_its_client_does(
    service: Service, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shared server works in a folder of its own; what a client names lies in the client's."""
    call(service, "refresh_index")
    monkeypatch.chdir(tmp_path)
    shared = Service(Dispatcher(service.lease, Projects(service.lease, folder=str(project))), (), 8000)
    assert call(shared, "docs_add", sources=["guide.md"], name="guide")["reports"]
    assert call(shared, "reingest_repository", sourceId="project")["status"] == "completed"
    assert call(shared, "search_codebase", query="parse_header")["results"][0]["file"].startswith("headers.py")
    placed = shared._dispatcher.projects.place(DocsAddRequest(("git@host:a/b", "https://host/a.md", "a.md")))
    assert placed.sources == ("git@host:a/b", "https://host/a.md", f"{project}/a.md")
    found = call(shared, "docs_search", queries=["parse_header"], code=["."])["searches"][0]["results"]
    assert found[0]["document"] == "headers.py"


def test_hints_say_what_a_tool_does() -> None:
    hints = {tool.name: describe_tool(tool)["annotations"] for tool in choose_tools(["all", "compat"])}
    assert hints["memory_remove"]["destructiveHint"]
    assert hints["clear"]["destructiveHint"]
    assert not hints["refresh_index"]["readOnlyHint"]
    assert not hints["reingest_repository"]["readOnlyHint"]
    assert hints["search_codebase"]["readOnlyHint"]
    assert not hints["remember"]["destructiveHint"]


def test_a_snippet_names_its_scope_and_a_type_its_layer(service: Service, project: Path) -> None:
    (project / "services").mkdir()
    body = "".join(f"        self.step_{n} = {n}\n" for n in range(60))
    (project / "services" / "wheel_service.py").write_text(
        f"class WheelService:\n    def turn(self):\n{body}        return self.spin_quickly()\n"
    )
    reply = call(service, "search_codebase", query="spin_quickly")
    best = next(one for one in reply["results"] if one["file"].startswith("services/"))
    assert best["type"] == "service:application"
    assert best["snippet"].startswith("// WheelService.turn\n")


def test_a_snippet_shows_the_line_that_names_its_symbol() -> None:
    before = "".join(f"# about {n}\n" for n in range(40))
    hit = Hit("/p", "a.py", 1, 42, f"{before}def turn(self):\n    return 1\n", 1, 1.0, 1, symbol="Wheel.turn")
    result = SearchResult("turn", Intent.EXACT_NAME, (hit,), Quality("ok", 0.9))
    assert CodebaseSearch.of(result).results[0].snippet == "def turn(self):\n    return 1\n"


def test_a_snippet_begins_below_long_comments_and_with_the_attributes() -> None:
    above = "    // checks before turn()\n" * 5
    text = above + '    @route("/turn")\n    def turn(self):\n' + "        self.step()\n" * 30
    hit = Hit("/p", "a.py", 1, 42, text, 1, 1.0, 1, symbol="Wheel.turn")
    result = SearchResult("turn", Intent.EXACT_NAME, (hit,), Quality("ok", 0.9))
    assert CodebaseSearch.of(result).results[0].snippet.startswith('@route("/turn")\ndef turn(self):\n')


def test_what_defines_nothing_is_summed_up_by_its_first_line() -> None:
    hit = Hit(
        "/p", "a.sql", 1, 9, "-- visits\n\n  CREATE TABLE visits (\n", 1, 1.0, 1, language="sql", symbol_kind="text"
    )
    result = SearchResult("visits", Intent.EXACT_NAME, (hit,), Quality("ok", 0.9))
    (shown,) = CodebaseSearch.of(result).results
    assert (shown.summary, shown.type) == ("CREATE TABLE visits (", "")


def test_arguments_have_one_check() -> None:
    (tool,) = choose_tools(["ask_documents"])
    assert check(tool.arguments(), {"query": "x"}) == check(tool.arguments(), {"question": "x"}) == {"question": "x"}
