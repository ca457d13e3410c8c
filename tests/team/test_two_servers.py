"""Two servers behind a plain round-robin proxy: a browser's session, an MCP client and streamed answers go on while
each of the servers is restarted."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from failover_tools import free_port
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_help import text_of
from model_server import ScriptedServer
from patience import wait_until
from server_tools import Server
from web_tools import ANSWER, SLOW, make_project, script

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.search import IndexRequest
from codeinfo.team.access import create_token, create_user, grant
from codeinfo.team.database import TeamDatabase

PROJECT = "git.example/a/bank"


class Proxy:
    """Each connection goes to the next server; to the other one where that does not accept it."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._turns = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        turn = next(self._turns)
        for at in range(len(self.ports)):
            try:
                server = socket.create_connection(("127.0.0.1", self.ports[(turn + at) % len(self.ports)]))
                break
            except OSError:
                continue
        else:
            client.close()
            return
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()
        server.close()
        client.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Site:
    """The address that people use. A connection for each request, as many clients and all proxies do it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def send(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str, Any]:
        connection = http.client.HTTPConnection(self.address, timeout=120)
        with closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            return reply.status, reply.read().decode(), reply.headers

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.address, timeout=120)
        with closing(connection):
            connection.request("GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})
            yield connection.getresponse()


class Worker(threading.Thread):
    """Does something again and again until stopped; what fails is remembered."""

    def __init__(self, step: Any) -> None:
        super().__init__(daemon=True)
        self._step = step
        self.stopping = threading.Event()
        self.done = 0
        self.failures: list[str] = []
        self.start()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._step()
                self.done += 1
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}"[:500])
                time.sleep(0.1)
            time.sleep(0.2)


class McpSession(Worker):
    """One session of the SDK's client: what was negotiated with one server holds for the other."""

    def __init__(self, site: Site, token: str) -> None:
        super().__init__(lambda: anyio.run(self._call_tools, f"http://{site.address}/mcp", token))

    async def _call_tools(self, address: str, token: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as connections,
            Client(streamable_http_client(address, http_client=connections), mode="legacy") as client,
        ):
            while not self.stopping.is_set():
                found = await client.call_tool("search_codebase", {"query": "transfer money"})
                assert "bank.py" in text_of(found.content[0])
                self.done += 1
                await anyio.sleep(0.2)


@pytest.fixture
def team(postgres: str, tmp_path: Path) -> str:
    """A token for a project that is indexed in the team's store alone."""
    folder = make_project(tmp_path / "bank")
    flags = {"store.url": postgres, "paths.cache_dir": str(tmp_path / "laptop"), "embedding.provider": "none"}
    with Engine(Config.load(flags, folder)) as engine:
        engine.index(IndexRequest((str(folder),)))
    with closing(TeamDatabase(postgres)) as database:
        with database.transaction() as db:  # as if a worker had indexed its main branch
            db.execute("UPDATE projects SET identity = %s, default_ref = 'refs/heads/main'", (PROJECT,))
            db.execute("UPDATE trees SET name = 'refs/heads/main'")
        create_user(database, "ann")
        grant(database, PROJECT, "ann")
        return create_token(database, "ann", scopes=("read", "write"))


def restart(old: Server, start: Any) -> Server:
    assert old.end() == 0, old.log.read_text()
    assert old.process.stdout is not None
    old.process.stdout.close()
    started: Server = start()
    return started


def test_sessions_and_streams_go_on_while_servers_are_restarted(postgres: str, team: str, tmp_path: Path) -> None:
    proxy = Proxy()
    site = Site(f"127.0.0.1:{proxy.port}")
    proxy.ports = [free_port(), free_port()]
    with ScriptedServer(script, piece_s=0.01) as model:
        environment = {
            "CODEINFO_STORE_URL": postgres,
            "CODEINFO_SERVE_DRAIN_S": "20",
            "CODEINFO_WEB_PUBLIC_URL": f"http://{site.address}",
            "CODEINFO_LLM_BASE_URL": model.url,
            "CODEINFO_LLM_DISCOVER": "false",
            "CODEINFO_EMBEDDING_PROVIDER": "none",
        }

        def start(at: int) -> Server:
            return Server(tmp_path, tmp_path / f"home{at}", "--port", str(proxy.ports[at]), **environment)

        servers = [start(0), start(1)]
        workers: list[Worker] = []
        try:
            browser, page_token = signed_in(site, team)
            workers = [
                Worker(lambda: look(site, browser)),
                Worker(lambda: ask_in_page(site, browser, page_token)),
                McpSession(site, team),
                Worker(lambda: ask_and_wait(site, team)),
            ]
            wait_until(lambda: all(worker.done for worker in workers) or any(w.failures for w in workers), 120)
            for at in (0, 1):
                before = [worker.done for worker in workers]
                servers[at] = restart(servers[at], partial(start, at))
                wait_until(lambda: all(w.done > b for w, b in zip(workers, before, strict=True)), 90)  # noqa: B023
        finally:
            for worker in workers:
                worker.stopping.set()
            for worker in workers:
                worker.join(120)
            for server in servers:
                server.end()
                assert server.process.stdout is not None
                server.process.stdout.close()
            proxy.close()
    assert [worker.failures for worker in workers] == [[], [], [], []]
    assert all(worker.done >= 3 for worker in workers)


# --- what the clients do -------------------------------------------------------------------------------------------


def signed_in(site: Site, token: str) -> tuple[str, str]:
    """The cookie of a browser, and what its pages send along."""
    form = urlencode({"token": token, "back": "/"})
    origin = f"http://{site.address}"
    status, page, headers = site.send(
        "POST", "/auth/token", form, content_type="application/x-www-form-urlencoded", origin=origin
    )
    assert status == 200, page
    cookie = headers["set-cookie"].partition(";")[0]
    status, page, _ = site.send("GET", "/ui/chat", cookie=cookie, accept="text/html")
    assert status == 200, page
    (page_token,) = re.findall(r'name="codeinfo-token" content="([\w-]+)"', page)
    return cookie, page_token


def look(site: Site, cookie: str) -> None:
    status, page, _ = site.send("GET", "/ui/chat", cookie=cookie, accept="text/html")
    assert status == 200, page


def ask_in_page(site: Site, cookie: str, page_token: str) -> None:
    """As the page does it: begin an answer, follow its events, begin again where the stream breaks off."""
    body = json.dumps({"message": f"how does a transfer work, {SLOW}?", "projects": [PROJECT]})
    headers = {"cookie": cookie, "x_codeinfo_token": page_token, "content_type": "application/json"}
    status, text, _ = site.send("POST", "/ui/runs", body, **headers)
    assert status == 202, text
    run = json.loads(text)["runId"]
    events: list[tuple[str, Any]] = []
    last: dict[str, str] = {}
    while not any(kind == "done" for kind, _ in events):
        with (
            suppress(OSError, http.client.HTTPException),
            site.stream(f"/chat/runs/{run}/events", cookie=cookie, **last) as reply,
        ):
            assert reply.status == 200, reply.read()
            for number, kind, data in sent_events(reply):
                if number:
                    last = {"last_event_id": number}
                    events.append((kind, data))
    written = "".join(data["text"] for kind, data in events if kind == "token")
    assert not [data for kind, data in events if kind in ("error", "stopped")], events
    assert written.count(ANSWER[:20]) == 6, written


def ask_and_wait(site: Site, token: str) -> None:
    body = json.dumps({"message": "how does a transfer work?", "projects": [PROJECT], "stream": True})
    headers = {"authorization": f"Bearer {token}", "content_type": "application/json"}
    status, text, _ = site.send("POST", "/chat", body, **headers)
    assert status == 200, text
    assert "event: done" in text, text


def sent_events(reply: http.client.HTTPResponse) -> Iterator[tuple[str, str, Any]]:
    """Number, kind and data of each event."""
    fields: dict[str, str] = {}
    while line := reply.readline().decode():
        if not line.strip():
            if "data" in fields:
                yield fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.rstrip("\r\n").partition(": ")
            fields[name] = value
