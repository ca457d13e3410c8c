"""A server under pressure: too many connections, slow ones, long texts, doubled headers, and work that burns time. It
stays alive, small and quiet."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import os
import re
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from patience import RunningTime, slowdown, wait_until, within
from starlette.testclient import TestClient
from web_tools import Address, client, commit, first_search, served, token

from codeinfo.config import Config
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.survey import code_map
from codeinfo.operations.base import MAX_TEXT_CHARS
from codeinfo.operations.code import CodeMap, MapRequest, RefsRequest
from codeinfo.operations.search import SearchRequest
from codeinfo.serve.auth import ONLY_ONCE, App, Receive, Scope, Send, send_body
from codeinfo.serve.refresh import server_engine
from codeinfo.serve.runs import State
from codeinfo.shells import http as http_server
from codeinfo.shells.http import MOST_CONNECTIONS, OWN_DESCRIPTORS, bounded_protocol, watch_loop
from codeinfo.shells.http_api import openapi_text

DESCRIPTORS = 320
IDLE = 450


def connect(address: Address) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), 120)


def get(address: Address, path: str, seconds: float = 120) -> int:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=seconds)
    with contextlib.closing(connection):
        connection.request("GET", path)
        reply = connection.getresponse()
        reply.read()
        return reply.status


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (resource.RLIM_INFINITY,) and hard < 2 * IDLE:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * IDLE), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("many_files")
def test_more_idle_connections_than_open_files_stop_nobody(project: Path, tmp_path: Path) -> None:
    with served(project, tmp_path / "home", descriptors=DESCRIPTORS) as address, contextlib.ExitStack() as stack:
        first_search(address)
        for _ in range(IDLE):
            stack.enter_context(connect(address))
        for _ in range(5):
            assert get(address, "/version") == 200
        assert get(address, "/health") == 200
        first_search(address)
        printed = address.output.fileno()
        output = os.read(printed, 1_000_000).decode() if select.select([printed], [], [], 0)[0] else ""
        assert len(output) < 5_000
        assert "Traceback" not in output


@pytest.mark.usefixtures("many_files")
def test_many_listeners_stop_nobody(project: Path, tmp_path: Path) -> None:
    with served(project, tmp_path / "home") as address, contextlib.ExitStack() as stack:
        first_search(address)
        listeners = [stack.enter_context(connect(address)) for _ in range(IDLE)]
        for listener in listeners:
            listener.sendall(f"GET /ingest/events HTTP/1.1\r\nHost: {address.removeprefix('http://')}\r\n\r\n".encode())
        for listener in listeners:
            heard = listener.recv(4000)
            while b"event: queue" not in heard:
                heard += listener.recv(4000)
        with within(20):
            first_search(address)


def test_the_limit_on_open_files_is_raised_or_respected() -> None:
    """In a process of its own, from the widest limit to the narrowest: a hard limit can only be lowered."""
    script = """
import resource
from codeinfo.shells.http import count_connections
for limits in ((4096, 4096), (256, 4096), (256, 1024), (64, 64)):
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    print(count_connections())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    expected = [MOST_CONNECTIONS, MOST_CONNECTIONS, 1024 - OWN_DESCRIPTORS, 16]
    assert [int(line) for line in done.stdout.split()] == expected


def test_who_does_not_ask_in_time_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 2.0)
    with small_server(answer_unread, 10) as address:
        started, clock = time.monotonic(), RunningTime()
        silent, slow = connect(address), connect(address)
        closed: dict[str, float] = {}

        def wait(name: str, one: socket.socket) -> None:
            one.settimeout(120)
            reply = one.recv(1000)
            assert reply == b"" or b" 408 " in reply
            closed[name] = clock.seconds
            assert time.monotonic() - started > 1.9

        waiting = [threading.Thread(target=wait, args=pair) for pair in (("silent", silent), ("slow", slow))]
        for thread in waiting:
            thread.start()
        with contextlib.suppress(OSError):
            for char in b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 200:
                slow.sendall(bytes([char]))
                time.sleep(0.1)
        for thread in waiting:
            thread.join(120)
        assert closed.keys() == {"silent", "slow"}
        clock.stop()
        assert max(closed.values()) < 14
        # One that asks and then rests is not slow.
        host = address.removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(host, timeout=120)) as fine:
            for _ in range(2):
                fine.request("GET", "/version")
                assert fine.getresponse().read()
                time.sleep(0.5)
        silent.close()
        slow.close()


@contextlib.contextmanager
def small_server(app: App, most: int) -> Iterator[Address]:
    """Our protocol in this process, with so many connections at most."""
    settings = uvicorn.Config(
        app,
        port=0,
        log_level="error",
        lifespan="off",
        ws="none",
        http=bounded_protocol(most),
        timeout_keep_alive=120,
    )
    server = uvicorn.Server(settings)
    running = threading.Thread(target=server.run)
    running.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Address("http://{}:{}".format(*server.servers[0].sockets[0].getsockname()))
    finally:
        server.should_exit = True
        running.join(120)


async def answer_unread(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the request's body."""
    if scope["path"] != "/large":
        await send_body(send, 200, "text/plain", "x")
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for more in range(20, -1, -1):
        await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": more > 0})


BODY = b"Host: x\r\nContent-Length: 900000\r\n\r\nx"
HELD = {  # requests that would each hold a connection for good
    "slow body": b"GET / HTTP/1.1\r\n" + BODY,
    "slow body after another request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n" + BODY,
    "nobody reads the answer": b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
}


def hold(address: Address, request_bytes: bytes, stack: contextlib.ExitStack) -> list[socket.socket]:
    held = [stack.enter_context(connect(address)) for _ in range(3)]
    for one in held:
        one.sendall(request_bytes)
    wait_until(lambda: all(has_event(one, select.POLLIN) for one in held))  # all are being answered
    return held


def has_event(connection: socket.socket, event: int) -> bool:
    watched = select.poll()
    watched.register(connection, event)
    return bool(watched.poll(0))


@pytest.mark.parametrize("request_bytes", HELD.values(), ids=HELD)
def test_nobody_holds_a_connection_for_good(request_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_server(answer_unread, 3) as address, contextlib.ExitStack() as stack:
        hold(address, request_bytes, stack)
        assert get(address, "/") == 503
    monkeypatch.setattr(http_server, "LAST_BODY_SECONDS", 1.0)
    monkeypatch.setattr(http_server, "REPLY_SECONDS", 1.0)
    with small_server(answer_unread, 3) as address, contextlib.ExitStack() as stack:
        held = hold(address, request_bytes, stack)

        def are_closed() -> bool:
            for one in held:
                with contextlib.suppress(OSError):
                    one.sendall(b"x")  # it is not silent
            return all(has_event(one, select.POLLRDHUP) for one in held)  # whether or not its answer was read

        wait_until(are_closed)
        assert get(address, "/") == 200


def test_a_connection_that_sends_in_time_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LAST_BODY_SECONDS", 0.5)
    with small_server(answer_unread, 3) as address, connect(address) as one:
        for pause_s in (0, 0, 1.0):
            one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
            one.sendall(b"x")
            assert_answered(one)
            time.sleep(pause_s)  # nothing is waited for
        one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert_answered(one)


def assert_answered(connection: socket.socket) -> None:
    reply = b""
    while not reply.endswith(b"\r\n\r\nx"):
        part = connection.recv(4000)
        assert part, reply
        reply += part
    assert b" 200 " in reply


def test_the_description_of_the_api_is_written_once() -> None:
    assert openapi_text() is openapi_text()


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name.decode() for name in ONLY_ONCE if name != b"transfer-encoding"])
def test_what_decides_about_a_request_comes_once(project: Path, name: str) -> None:
    with client(project) as web:
        for values in (("x", "http://127.0.0.1:5010"), ("http://127.0.0.1:5010", "x")):
            headers = [(name, value) for value in values]
            reply = web.post("/api/v1/search", content=b"{}", headers=[*headers, *token().items()])
            assert reply.status_code == 400, reply.text
            assert reply.json()["error"]["code"] in ("DUPLICATE_HEADER", "VALIDATION_FAILED")
            assert name in reply.json()["error"]["message"]


def test_two_origins_are_refused_by_the_real_server(project: Path, tmp_path: Path) -> None:
    with served(project, tmp_path / "home") as address:
        host = address.removeprefix("http://")
        for origins in ((f"http://{host}", "http://evil.example"), ("http://evil.example", f"http://{host}")):
            with connect(address) as one:
                lines = "".join(f"Origin: {origin}\r\n" for origin in origins)
                one.sendall(f"GET /version HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())
                assert one.recv(4000).startswith(b"HTTP/1.1 400 ")


def test_one_length_holds_for_every_text(project: Path) -> None:
    long = "x " * (MAX_TEXT_CHARS // 2) + "y"
    with client(project) as web, within(60):
        replies: list[tuple[str, str]] = []
        for path, body in (
            ("/api/v1/search", {"query": long}),
            ("/api/v1/docs/search", {"queries": ["x", long]}),
            ("/api/v1/ask", {"question": long}),
            ("/api/v1/search", {"query": "x", "globs": [long]}),
            ("/tools/vector-search", {"query": long}),
            ("/tools/ast-find-references", {"symbol": long}),
            ("/chat", {"message": long}),
        ):
            reply = web.post(path, json=body, headers=token())
            assert reply.status_code == 400, path
            replies.append((path, reply.json()["error"]["message"]))
        page = web.get("/", params={"q": long})
        assert page.status_code == 400
        replies.append(("/", page.text))
        replies.append(("/mcp", call_tool(web, long)))
        for path, said in replies:
            assert f"{MAX_TEXT_CHARS + 1:,} characters" in said, path
        assert web.post("/api/v1/search", json={"query": long[:-1]}).status_code == 200


def call_tool(web: TestClient, query: str) -> str:
    params = {"name": "search_codebase", "arguments": {"query": query}}
    headers = {**token(), "accept": "application/json, text/event-stream"}
    return web.post(
        "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers=headers
    ).text


# --- time and memory --------------------------------------------------------------------------------------------------


def test_the_server_is_alive_while_requests_burn_time(project: Path, tmp_path: Path) -> None:
    for number in range(150):
        names = "\n".join(f"def work_{number}_{one}(item):\n    return get(item, {one})\n" for one in range(20))
        (project / f"m{number}.py").write_text(
            f"from bank import Account\n\n\ndef get(a, b):\n    return a\n\n\n{names}"
        )
    with served(project, tmp_path / "home") as address:
        first_search(address)
        ended = threading.Event()

        def burn(path: str, body: dict[str, object]) -> None:
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=240)
            while not ended.is_set():
                connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
                assert connection.getresponse().read()
            connection.close()

        work: tuple[tuple[str, dict[str, object]], ...] = (
            ("/api/v1/unused", {}),
            ("/api/v1/refs", {"name": "get"}),
            ("/api/v1/map", {"format": "svg"}),
            ("/api/v1/search", {"query": "work item account"}),
        )
        burning = [threading.Thread(target=burn, args=one) for one in work * 4]
        for thread in burning:
            thread.start()
        try:
            time.sleep(1)
            waited = []
            for path in ("/version", "/health") * 4:
                clock = RunningTime()
                assert get(address, path) == 200
                clock.stop()
                waited.append(clock.seconds / slowdown())
        finally:
            ended.set()
            for thread in burning:
                thread.join(240)
        assert sorted(waited)[len(waited) // 2] < 3
        assert max(waited) < 10


def test_a_loop_that_stood_still_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    async def stand_still() -> None:
        state = cast(State, SimpleNamespace(late_s=0.0))
        looking = asyncio.create_task(watch_loop(state))
        await asyncio.sleep(0.1)
        time.sleep(1.6)
        await asyncio.sleep(0.3)
        looking.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(stand_still())
    assert max(map(float, re.findall(r"did not answer anybody for ([\d.]+) s", caplog.text))) > 1


def test_a_map_is_drawn_once_until_something_changes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(project, days_ago=3)
    calls: list[int] = []

    def counted(index: CodeIndex, request: MapRequest, below: str) -> CodeMap:
        calls.append(request.limit)
        return code_map(index, request, below)

    monkeypatch.setattr("codeinfo.engine.code.code_map", counted)
    with server_engine(Config.load({"llm.discover": "false"})) as engine:
        request = MapRequest(str(project))
        drawn = engine.code.map(request)
        assert engine.code.map(request) == drawn
        engine.code.map(MapRequest(str(project), limit=5))
        assert calls == [12, 5]
        (project / "extra.py").write_text("import bank\n")
        engine.search(SearchRequest("extra", (str(project),)))
        assert engine.code.map(request).files == drawn.files + 1
        commit(project, days_ago=1)
        assert engine.code.map(request).hotspots != drawn.hotspots


def test_many_readers_leave_few_connections_behind(project: Path) -> None:
    with server_engine(Config.load({"llm.discover": "false"})) as engine:
        engine.search(SearchRequest("transfer", (str(project),)))
        store = engine.indexes.of(project).live_store()
        assert store is not None
        gate = threading.Barrier(16)

        def read() -> None:
            with store.snapshot():
                gate.wait(120)

        readers = [threading.Thread(target=read) for _ in range(16)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert len(store._connections._idle) <= 4
        assert engine.code.references(RefsRequest("transfer", str(project))).usage_count
