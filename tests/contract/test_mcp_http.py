"""The server over HTTP on loopback, and one JSON for one request, whichever shell it comes through."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_help import reply_of, text_of
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from web_tools import served as program

from codeinfo.config import Config
from codeinfo.model import convert
from codeinfo.operations import OPERATIONS
from codeinfo.operations.answers import AgentRun, Answer
from codeinfo.serve.auth import Access
from codeinfo.shells import cli
from codeinfo.shells.http import make_app, make_state
from codeinfo.shells.mcp import MCP_PATH, make_service
from codeinfo.shells.mcp_protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    STATELESS,
    UNSUPPORTED_VERSION,
    Exchange,
    HttpEndpoint,
    Result,
)
from codeinfo.shells.mcp_tools import Tool, choose_tools, plain_tool


@contextmanager
def served(config: Config, *tools: Tool) -> Iterator[str]:
    service = make_service(config, tools)
    with closing(service.lease), serving(HttpEndpoint(service.methods, MCP_PATH)) as url:
        yield url


@contextmanager
def serving(endpoint: HttpEndpoint) -> Iterator[str]:
    routes = [Route("/mcp", endpoint=endpoint), Mount("/mcp", app=endpoint)]
    app = Starlette(routes=routes)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "headers.py").write_text(
        '"""Headers."""\n\n\ndef parse_header(line):\n    """Split a line."""\n    return line.split(":", 1)\n'
    )
    (tmp_path / "client.py").write_text("from headers import parse_header\n\nFIRST = parse_header('a:b')\n")
    (tmp_path / "README.md").write_text("# Project\n\nUse parse_header for headers.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_sessions_are_not_needed(project: Path, mode: str) -> None:
    async def session(url: str) -> None:
        async with Client(url, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["search_codebase", "explore"]
            found = await client.call_tool("search_codebase", {"query": "parse_header"})
            assert reply_of(found)["results"][0]["file"].startswith("headers.py")

    with served(Config.load(), *choose_tools(["search"])) as url:
        anyio.run(session, url)
        anyio.run(session, url + "/")


def test_an_address_chooses_its_tools(project: Path) -> None:
    async def session(url: str) -> None:
        for address, wanted in ((f"{url}/code", "code"), (f"{url}/edit,compat", "edit,compat"), (url, "search")):
            async with Client(address) as client:
                listed = {tool.name for tool in (await client.list_tools()).tools}
                assert listed == {tool.name for tool in choose_tools(wanted.split(","))}
        async with Client(f"{url}?tools=code") as client:
            used = await client.call_tool("get_symbol_references", {"symbol": "parse_header"})
            assert reply_of(used)["usageCount"] == 2
        async with Client(f"{url}/all") as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert "search_codebase" in listed
            assert listed.isdisjoint({"docs_add", "why"})  # they look at files that the caller names
        async with Client(f"{url}/nothing") as client:
            with pytest.raises(MCPError, match="no set of tools is called nothing"):
                await client.list_tools()

    with served(Config.load(), *choose_tools(())) as url:
        anyio.run(session, url)


def test_eight_clients_share_one_index(project: Path) -> None:
    async def one(url: str, turn: int) -> None:
        async with Client(url) as client:
            (project / f"t{turn}.py").write_text(f"def turn_word_{turn}():\n    return {turn}\n")
            found = await client.call_tool("search_codebase", {"query": f"turn_word_{turn}"})
            assert f"t{turn}.py" in str(reply_of(found))

    async def all_of_them(url: str) -> None:
        async with anyio.create_task_group() as tasks:
            for turn in range(8):
                tasks.start_soon(one, url, turn)

    with served(Config.load(), *choose_tools(["search"])) as url:
        anyio.run(all_of_them, url)


def test_the_application_serves_it_for_known_projects_only(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    access = Access(frozenset({"testserver"}), "t" * 32)
    headers = {"x-codeinfo-token": access.token, "accept": "application/json, text/event-stream"}
    with TestClient(make_app(make_state(Config.load()), access), headers=headers) as web:

        def call(**arguments: str) -> str:
            params = {"name": "search_codebase", "arguments": {"query": "parse_header", **arguments}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            reply = web.post("/mcp", json=message, follow_redirects=False)
            assert reply.status_code == 200
            return reply.text

        assert "headers.py" in call()
        assert "REPO_NOT_FOUND" in call(project=str(other))
        assert "Known:" in call(project="nowhere")


# --- the protocol ----------------------------------------------------------------------------------------------------

VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
ENVELOPE: dict[str, Any] = {VERSION: STATELESS, CAPABILITIES: {}}


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}


def send(url: str, body: object, verb: str = "POST", **headers: str) -> tuple[int, str, str]:
    """Status, kind and text of the reply."""
    address = urlsplit(url)
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    text = body if isinstance(body, str) else json.dumps(body)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)) as connection:
        connection.request(verb, address.path, text, sent)
        reply = connection.getresponse()
        return reply.status, reply.getheader("content-type", ""), reply.read().decode()


def test_the_program_says_how_a_client_connects(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    async def search(address: str, token: str) -> str:
        web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120)
        async with web, Client(streamable_http_client(f"{address}/mcp/", http_client=web)) as client:
            return text_of((await client.call_tool("search_codebase", {"query": "parse_header"})).content[0])

    with program(project, tmp_path_factory.mktemp("home")) as address:
        printed = address.output.readline() + address.output.readline()
        (place,) = re.findall(r"token in (.+), as Authorization: Bearer", printed)
        assert "headers.py" in anyio.run(search, str(address), Path(place).read_text())


def test_each_post_is_a_message_of_its_own(project: Path) -> None:
    with served(Config.load(), *choose_tools(())) as url:
        status, kind, text = send(url, request("tools/list"), mcp_protocol_version="2025-11-25")
        assert (status, kind) == (200, "application/json")
        assert [tool["name"] for tool in json.loads(text)["result"]["tools"]] == ["search_codebase", "explore"]
        for body, expected, code in (
            ("garbage", 400, PARSE_ERROR),
            ([request("ping")], 400, INVALID_REQUEST),
            ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, INVALID_REQUEST),
            (request("no/such"), 200, METHOD_NOT_FOUND),
            (request("tools/list", cursor="x"), 200, INVALID_PARAMS),
        ):
            status, _, text = send(url, body)
            assert (status, json.loads(text)["error"]["code"]) == (expected, code), body
        for silent in ({"method": "notifications/initialized"}, {"id": 1, "result": {}}):
            assert send(url, {"jsonrpc": "2.0", **silent})[0] == 202
        assert [send(url, "", verb)[0] for verb in ("GET", "DELETE", "PUT")] == [405] * 3
        assert send(url, request("ping"), accept="application/json")[0] == 406
        assert send(url, request("ping"), accept="*/*")[0] == 200
        assert send(url, request("ping"), content_type="text/plain")[0] == 415


def test_headers_of_the_stateless_revision_agree_with_the_message(project: Path) -> None:
    listing, prompt = request("tools/list", _meta=ENVELOPE), request("prompts/get", _meta=ENVELOPE, name="find_cause")
    later = request("tools/list", _meta={**ENVELOPE, VERSION: "2030-01-01"})
    encoded = f"=?base64?{base64.b64encode(b'find_cause').decode()}?="
    with served(Config.load(), *choose_tools(())) as url:
        for body, headers, status, code in (
            (listing, {"mcp_method": "tools/list"}, 200, None),
            (listing, {}, 400, HEADER_MISMATCH),
            (listing, {"mcp_method": "tools/call"}, 400, HEADER_MISMATCH),
            (listing, {"mcp_method": "tools/list", "mcp_protocol_version": "2030-01-01"}, 400, HEADER_MISMATCH),
            (later, {"mcp_method": "tools/list", "mcp_protocol_version": "2030-01-01"}, 400, UNSUPPORTED_VERSION),
            (request("tools/list"), {"mcp_method": "tools/list"}, 400, INVALID_PARAMS),
            (request("ping", _meta=ENVELOPE), {"mcp_method": "ping"}, 404, METHOD_NOT_FOUND),
            (prompt, {"mcp_method": "prompts/get", "mcp_name": "understand"}, 400, HEADER_MISMATCH),
            (prompt, {"mcp_method": "prompts/get", "mcp_name": "=?base64?!?="}, 400, HEADER_MISMATCH),
            (prompt, {"mcp_method": "prompts/get", "mcp_name": encoded}, 400, INVALID_PARAMS),  # lacks its argument
            ({"jsonrpc": "2.0", "method": "notifications/x"}, {"mcp_protocol_version": "2030-01-01"}, 400, -32022),
        ):
            replied, _, text = send(url, body, **{"mcp_protocol_version": STATELESS, **headers})
            reply = json.loads(text)
            assert (replied, reply.get("error", {}).get("code")) == (status, code), (body, headers)
            assert reply["id"] == body.get("id")
            assert status != 200 or reply["result"]["resultType"] == "complete"
        with closing(http.client.HTTPConnection(urlsplit(url).netloc)) as connection:
            connection.putrequest("POST", "/mcp")
            named = (("Mcp-Method", "tools/list"), ("Mcp-Method", "tools/call"), ("Mcp-Protocol-Version", STATELESS))
            content = json.dumps(listing).encode()
            about = (("Content-Type", "application/json"), ("Accept", "*/*"), ("Content-Length", str(len(content))))
            for name, value in (*named, *about):
                connection.putheader(name, value)
            connection.endheaders(content)
            assert json.loads(connection.getresponse().read())["error"]["code"] == HEADER_MISMATCH


def test_work_reports_progress_on_the_way_and_ends_with_its_client() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work(exchange: Exchange) -> Result:
        assert exchange.report is not None
        await exchange.report(1, 2, "half")
        return {"done": True}

    async def wait(exchange: Exchange) -> Result:
        begun.set()
        try:
            await anyio.sleep(60)
        finally:
            ended.set()
        return {}

    with serving(HttpEndpoint({"work": work, "wait": wait}, "/mcp")) as url:
        status, kind, text = send(url, request("work", _meta={"progressToken": "t"}))
        assert (status, kind) == (200, "text/event-stream")
        first, last = (json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: "))
        assert first["params"] == {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
        assert last == {"jsonrpc": "2.0", "id": 0, "result": {"done": True}}
        with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as gone:
            body = json.dumps(request("wait"))
            head = "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: */*\r\n"
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert begun.wait(120)
            assert not ended.wait(0.3)
        assert ended.wait(120)


# --- parity --------------------------------------------------------------------------------------------------------

# What is the clock's or chance's: it cannot be the same twice.
VOLATILE = {"took_ms", "durationMs", "indexed_at", "indexedAt", "conversation_id", "created_at", "last_message_at"}
VOLATILE |= {"id", "bytes", "location", "generation", "date", "confidence", "detail", "turns", "calls", "returned"}
VOLATILE |= {"ids", "markdown", "days", "saved", "source", "reflects"}

# The words after `codeinfo`, a ~ for a space within a word, and the same as a tool's arguments.
SAME: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search parse_header", {"query": "parse_header"}),
    ("search parse_header -n 1 --explain", {"query": "parse_header", "limit": 1, "explain": True}),
    ("search header --purpose edit", {"query": "header", "purpose": "edit"}),
    ("similar headers.py:4", {"place": "headers.py:4"}),
    ("index", {}),
    ("grep parse_header", {"pattern": "parse_header"}),
    ("status", {}),
    ("why headers.py", {"path": "headers.py"}),
    ("symbols headers.py", {"path": "headers.py"}),
    ("defs parse_header", {"name": "parse_header"}),
    ("refs parse_header", {"name": "parse_header"}),
    ("explore parse_header", {"target": "parse_header"}),
    ("calls parse_header", {"name": "parse_header"}),
    ("imports client.py", {"path": "client.py"}),
    ("map", {}),
    ("cycles", {}),
    ("impact headers.py", {"path": "headers.py"}),
    ("hotspots", {}),
    ("unused", {}),
    ("remember Use~tabs", {"memory": "Use tabs"}),  # for the second time
    ("memory list", {}),
    ("memory show MEMORY", {"id": "MEMORY"}),
    ("memory export", {}),
    ("memory remove MEMORY", {"id": "MEMORY"}),
    ("patterns", {}),
    ("metadata", {}),
    ("style", {}),
    ("review HEAD", {"base": "HEAD"}),
    ("docs list", {}),
    ("docs add README.md --name readme", {"sources": ["README.md"], "name": "readme"}),
    ("docs sync", {}),
    ("docs search headers", {"queries": ["headers"]}),
    ("docs ask What~is~used~for~headers?", {"question": "What is used for headers?"}),
    ("docs outline readme README.md", {"collection": "readme", "document": "README.md"}),
    ("docs section readme README.md", {"collection": "readme", "document": "README.md"}),
    ("docs related readme README.md", {"collection": "readme", "document": "README.md"}),
    ("docs remove readme", {"collections": ["readme"]}),
    ("docs update wiki a.md Headers", {"collection": "wiki", "document": "a.md", "content": "Headers"}),
    ("docs delete wiki a.md", {"collection": "wiki", "documents": ["a.md"]}),
    ("providers", {}),
    ("agents list", {}),
    ("agents run explainer Explain~parse_header", {"agent": "explainer", "instruction": "Explain parse_header"}),
    ("ask What~is~a~header?", {"question": "What is a header?"}),
    ("conversations list", {}),
    ("conversations search header", {"text": "header"}),
    ("conversations show CONVERSATION", {"id": "CONVERSATION"}),
    ("conversations export CONVERSATION", {"id": "CONVERSATION"}),
    ("conversations archive CONVERSATION", {"ids": ["CONVERSATION"]}),
    ("conversations restore CONVERSATION", {"ids": ["CONVERSATION"]}),
    ("conversations delete CONVERSATION", {"ids": ["CONVERSATION"]}),
    ("projects", {}),
    ("savings", {}),
    ("vector-search header", {"query": "header"}),
    ("doctor", {}),
    ("clear", {}),
)


# What restores the state before the tool's call.
RESTORED = {
    "docs add README.md --name readme": "docs remove readme -y",
    "docs remove readme": "docs add README.md --name readme",
    "docs update wiki a.md Headers": "docs remove wiki -y",
    "docs delete wiki a.md": "docs update wiki a.md Headers",
    "clear": "index",
    "memory remove MEMORY": "remember Use~tabs",
}


def settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: settled(one) for key, one in value.items() if key not in VOLATILE}
    return [settled(one) for one in value] if isinstance(value, list) else value


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_command_line_tools_and_api_return_the_same(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    (project / "client.py").write_text("from headers import parse_header\n\nSECOND = parse_header('c:d')\n")
    options = ["--json", "--set", "llm.provider=none", "--set", "llm.discover=false"]
    config = Config.load({"llm.provider": "none", "llm.discover": False, "mcp.reply_tokens": 1_000_000})

    def by_command(words: str, ids: dict[str, str]) -> Any:
        shown = [ids.get(word, word.replace("~", " ")) for word in words.split()]
        capsys.readouterr()
        code = cli.run([*shown, *options])
        out = capsys.readouterr()
        assert code in (0, 3), f"{words}: {out.err}"
        operation, result = OPERATIONS[operation_of(words)], json.loads(out.out)
        if operation.result not in (Answer, AgentRun):  # these are written as they arrive
            cli.write_text(convert(result, operation.result))
            assert capsys.readouterr().out.strip(), f"{words} shows nothing to people"
        return result

    def by_http(web: TestClient, words: str, arguments: dict[str, Any]) -> Any:
        name = operation_of(words)
        reply = web.post(f"/api/v1/{name.replace(' ', '/')}", json=arguments)
        assert reply.status_code == 200, f"{words}: {reply.text}"
        return reply.json()

    async def session(url: str, web: TestClient) -> None:
        ids = tuple(dict[str, str]() for _ in range(3))  # each shell has made a conversation of its own
        async with Client(url) as client:
            for words, arguments in SAME:
                filled = [json.loads(_filled(json.dumps(arguments), own)) for own in ids]
                reply = await client.call_tool(tool_name(words), filled[0])
                assert not reply.is_error, f"{words}: {text_of(reply.content[0])}"
                replies = [reply_of(reply)]
                for shell in ("command", "api"):
                    if shell == "api" and not OPERATIONS[operation_of(words)].is_served:
                        continue
                    if words in RESTORED:
                        by_command(RESTORED[words], ids[1])
                    done = by_command(words, ids[1]) if shell == "command" else by_http(web, words, filled[2])
                    assert settled(done) == settled(replies[0]), f"{words} by {shell}"
                    replies.append(done)
                for own, one in zip(ids, replies, strict=False):
                    _note_ids(one, own)

    by_command("remember Use~tabs", {})
    access = Access(frozenset({"testserver"}), "t" * 32)
    tools = [plain_tool(OPERATIONS[name]) for name in OPERATIONS if OPERATIONS[name].group != "local"]
    with served(config, *tools) as url, TestClient(make_app(make_state(config), access)) as web:
        web.headers["x-codeinfo-token"] = access.token
        anyio.run(session, url, web)


def test_parity_covers_every_operation() -> None:
    local = {name for name in OPERATIONS if OPERATIONS[name].group == "local"}
    shown = {tool_name(words) for words, _ in SAME}
    assert shown == {name.replace(" ", "_").replace("-", "_") for name in set(OPERATIONS) - local}


def _filled(text: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        text = text.replace(name, value)
    return text


def _note_ids(reply: Any, ids: dict[str, str]) -> None:
    if reply.get("conversation_id") and "question" in reply:
        ids["CONVERSATION"] = reply["conversation_id"]
    if isinstance(reply.get("memory"), dict):
        ids["MEMORY"] = reply["memory"]["id"]


def operation_of(words: str) -> str:
    return max((name for name in OPERATIONS if words == name or words.startswith(f"{name} ")), key=len)


def tool_name(words: str) -> str:
    return operation_of(words).replace(" ", "_").replace("-", "_")
