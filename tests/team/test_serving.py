"""A server as operators see it: readiness, an end that lets requests finish, several processes, metrics, logs."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from conftest import RunCli
from patience import wait_until, within
from postgres_tools import drop_database, new_database
from server_tools import Server
from web_tools import environment_of

from codeinfo.errors import UsageError
from codeinfo.serve.auth import Receive, Scope, Send, send_body
from codeinfo.serve.processes import Metrics, serve_operators, with_spans
from codeinfo.serve.runs import State
from codeinfo.shells.http import Server as HttpServer
from codeinfo.shells.http import Traffic, bounded_protocol
from codeinfo.team.access import create_token, create_user
from codeinfo.team.database import TeamDatabase


@contextmanager
def server(folder: Path, home: Path, *options: str, **environment: str) -> Iterator[Server]:
    started = Server(folder, home, *options, **environment)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.terminate()
            try:
                started.process.wait(120)
            except subprocess.TimeoutExpired:
                started.process.kill()
                started.process.wait()
        assert started.process.stdout is not None
        started.process.stdout.close()


def half_sent(address: str, body: bytes) -> socket.socket:
    """A request that has begun."""
    host, _, port = address.partition(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    head = f"POST /api/v1/search HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n"
    connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:5])
    return connection


def test_what_was_begun_is_finished_before_the_server_ends(project: Path, tmp_path: Path) -> None:
    with server(project, tmp_path / "home", CODEINFO_SERVE_DRAIN_S="20") as started:
        assert started.post("/api/v1/search", {"query": "transfer"}).status == 200
        body = json.dumps({"query": "account"}).encode()
        with half_sent(started.address, body) as connection:
            events = urllib.request.urlopen(f"http://{started.address}/ingest/events", timeout=120)
            assert events.readline().startswith(b"event: queue")
            started.process.send_signal(signal.SIGTERM)
            wait_until(lambda: started.status("/ready") == 503)
            assert (started.status("/ready", operators=True), started.status("/health", operators=True)) == (503, 200)
            reply = started.post("/api/v1/search", {"query": "teller"})
            assert (reply.status, reply.getheader("connection")) == (200, "close")
            with events:
                events.read()  # a stream without an end is ended
            assert started.process.poll() is None
            connection.sendall(body[5:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert started.process.wait(120) == 0
        assert "Traceback" not in started.log.read_text()


def test_what_takes_longer_than_it_may_is_cut_off(project: Path, tmp_path: Path) -> None:
    with server(project, tmp_path / "home", CODEINFO_SERVE_DRAIN_S="1") as started:
        with half_sent(started.address, b'{"query": "x"}'), within(15):  # a body has longer
            assert started.end() == 0
        assert "Traceback" not in started.log.read_text()


def test_every_request_is_a_line_of_json(project: Path, tmp_path: Path) -> None:
    with server(project, tmp_path / "home", CODEINFO_SERVE_LOG="json", CODEINFO_SERVE_DRAIN_S="2") as started:
        started.post("/api/v1/search", {"query": "transfer"})
        started.post("/api/v1/search", {"query": 7})
        started.end()
        lines = [json.loads(line) for line in started.log.read_text().splitlines()]
    requests = [(line["method"], line["path"], line["status"]) for line in lines if line["message"] == "request"]
    assert requests == [("POST", "/api/v1/search", 200), ("POST", "/api/v1/search", 400)]
    assert all({"time", "level", "logger", "pid"} <= line.keys() for line in lines)


def test_several_processes_serve_one_address(project: Path, tmp_path: Path, postgres: str) -> None:
    database = TeamDatabase(postgres)
    create_user(database, "ann")
    token = create_token(database, "ann")
    database.close()
    environment = {"CODEINFO_STORE_URL": postgres, "CODEINFO_SERVE_DRAIN_S": "5"}
    with server(project, tmp_path / "home", "--workers", "2", **environment) as started:
        started.headers["authorization"] = f"Bearer {token}"
        wait_until(lambda: started.status("/ready", operators=True) == 200)
        children = children_of(started.process.pid)
        assert len(children) == 2
        for _ in range(20):
            assert started.post("/api/v1/search", {"query": "x"}).status == 400  # no project is visible to her
        assert started.count("search") == 20  # whichever of them answered
        for gauge in ("codeinfo_projects 0.0", "codeinfo_database_bytes ", "codeinfo_resident_memory_bytes "):
            assert gauge in started.metrics()
        os.kill(children[0], signal.SIGKILL)
        wait_until(lambda: started.status("/ready", operators=True) == 503)
        for _ in range(5):
            assert started.post("/api/v1/search", {"query": "x"}).status == 400
        wait_until(lambda: started.status("/ready", operators=True) == 200 and len(alive(started)) == 2)
        assert started.count("search") == 25
        assert started.end() == 0
        assert alive(started) == []


def test_the_processes_of_a_killed_server_end(postgres: str, project: Path, tmp_path: Path) -> None:
    environment = {"CODEINFO_STORE_URL": postgres, "CODEINFO_SERVE_DRAIN_S": "1"}
    with server(project, tmp_path / "home", "--workers", "2", **environment) as started:
        wait_until(lambda: started.status("/ready", operators=True) == 200)
        children = children_of(started.process.pid)
        assert len(children) == 2
        started.end(signal.SIGKILL)
        wait_until(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in children))


def alive(started: Server) -> list[int]:
    return children_of(started.process.pid)


def children_of(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


SUPERVISED = """
import os, signal, subprocess, sys
from codeinfo.serve.processes import Supervisor

def start(code):
    child = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit({code})); print(flush=True)"
    return lambda: subprocess.Popen([sys.executable, "-c", f"{child}; signal.pause()"], stdout=subprocess.PIPE)

supervisor = Supervisor([start(code) for code in sys.argv[1:]], is_lost=lambda code: True)
for process in supervisor.processes:
    process.stdout.readline()
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(supervisor.run())
"""


@pytest.mark.parametrize(("codes", "together"), [((0, 130), 0), ((130, 130), 130), ((0, 3), 3), ((130, 0, 3), 3)])
def test_a_process_that_was_just_starting_does_not_count_at_the_end(codes: tuple[int, ...], together: int) -> None:
    """It is interrupted, where the others finish what they have begun."""
    command = [sys.executable, "-c", SUPERVISED, *map(str, codes)]
    assert subprocess.run(command, timeout=120, check=False).returncode == together


STARTING = """
import os, signal, subprocess, sys
from codeinfo.serve.processes import Supervisor

def start():
    if failures:
        return subprocess.Popen([sys.executable, "-c", failures.pop()])
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    os.kill(os.getpid(), signal.SIGTERM)
    return child

failures = sys.argv[1:]
Supervisor([start], is_lost=lambda code: True).run()
"""


@pytest.mark.parametrize("failures", [(), ("raise SystemExit(1)",)], ids=["first", "another"])
def test_a_signal_reaches_a_process_that_is_being_started(failures: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, "-c", STARTING, *failures], timeout=120, check=True)


def test_several_processes_need_a_store_that_they_share(project: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "codeinfo", "serve", "--port", "0", "--workers", "2"]
    done = subprocess.run(
        command, cwd=project, env=environment_of(tmp_path), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "store.url" in done.stderr


def probe(address: str) -> str:
    with closing(http.client.HTTPConnection(address, timeout=120)) as connection:
        connection.request("GET", "/ready")
        return connection.getresponse().read().decode()


def test_a_server_without_its_database_is_alive_but_not_ready(project: Path, tmp_path: Path) -> None:
    url = new_database()
    with server(project, tmp_path / "home", CODEINFO_STORE_URL=url) as started:
        assert started.status("/health") == 200
        drop_database(url)
        wait_until(lambda: started.status("/ready") == 503)
        assert (started.status("/health"), started.status("/health", operators=True)) == (200, 200)
        assert "codeinfo_resident_memory_bytes" in started.metrics()
        assert "test_" in probe(started.operators), "operators learn the reason"
        assert "test_" not in probe(started.address)


def test_a_failed_operation_is_counted_by_its_code() -> None:
    from codeinfo.errors import NotFound

    metrics = Metrics()
    for error in (NotFound("nothing there"), ZeroDivisionError()):
        with pytest.raises(type(error)), metrics.observe("search", "mcp"):
            raise error
    text = metrics.text([("codeinfo_things", "Things.", {"state=new": 2.0, "state=old": 1.0})]).decode()
    for line in (
        'codeinfo_operation_errors_total{client="mcp",code="NOT_FOUND",operation="search"} 1.0',
        'codeinfo_operation_errors_total{client="mcp",code="INTERNAL",operation="search"} 1.0',
        'codeinfo_operation_seconds_count{client="mcp",operation="search"} 2.0',
        'codeinfo_things{state="old"} 1.0',
    ):
        assert line in text


def test_an_operation_is_a_span() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exported = InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    api.set_tracer_provider(provider)
    with with_spans()("search", "http"):
        pass
    (span,) = exported.get_finished_spans()
    assert (span.name, dict(span.attributes or {})) == ("search", {"codeinfo.client": "http"})


def test_several_processes_without_a_shared_store_are_refused_at_once(codeinfo: RunCli, tmp_path: Path) -> None:
    done = codeinfo("serve", "--workers", "2", "--port", "0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Set store.url" in done.stderr


def test_a_request_that_was_on_its_way_is_answered_before_the_end(project: Path, tmp_path: Path, postgres: str) -> None:
    with server(project, tmp_path / "home", CODEINFO_STORE_URL=postgres, CODEINFO_SERVE_DRAIN_S="20") as started:
        host, _, port = started.address.partition(":")
        place = host, int(port)
        started.process.send_signal(signal.SIGTERM)
        wait_until(lambda: started.status("/ready") == 503)
        with socket.create_connection(place, timeout=120) as client:
            wait_until(lambda: is_refused(place))
            time.sleep(0.7)  # its client is slow
            client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert started.process.wait(120) == 0


def test_a_connection_that_was_not_accepted_yet_is_answered_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send_body(send, 200, "text/plain", "here")

    async def ask() -> bytes:
        listener = socket.create_server(("127.0.0.1", 0))
        traffic = Traffic(app, lambda: "", health=False, log_requests=False)
        settings = uvicorn.Config(traffic, http=bounded_protocol(10), lifespan="off", log_config=None)
        settings.load()
        state = cast(State, SimpleNamespace(runs=SimpleNamespace(busy=True)))
        server = HttpServer(settings, traffic, state, 120.0)
        server.lifespan = settings.lifespan_class(settings)
        await server.startup([listener])
        with socket.create_connection(listener.getsockname(), timeout=120) as client:  # the loop stands still meanwhile
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            server._draining_since = time.monotonic()
            asyncio.get_running_loop().call_later(1.0, setattr, state.runs, "busy", False)
            monkeypatch.setattr("codeinfo.serve.dispatch.end_by_deadline", lambda code: None)  # of this process
            with within(60):
                await server.shutdown([listener])
            assert not state.runs.busy, "what was begun at the last moment is finished"
            return client.recv(1000)

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 200")


def is_refused(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=1).close()
    except TimeoutError:
        return False
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "[::1"])
def test_an_address_for_operators_that_cannot_be_used_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"is not an address|cannot be used"):
        serve_operators(address, Metrics(), list, str)
