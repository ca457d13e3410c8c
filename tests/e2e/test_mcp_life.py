"""A server among clients: fresh results, hostile lines, cancelled work, clients that vanish."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from io import BufferedReader
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_help import INITIALIZE, Lines, command, lines, reply_of, sdk_client, session_here
from patience import wait_until

from codeinfo import Config, IndexRequest, SearchRequest
from codeinfo.engine.index_sources import CodeSource
from codeinfo.serve.refresh import server_engine
from codeinfo.shells.mcp_protocol import (
    HANDSHAKES,
    INPUT_ENDED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    STATELESS,
    UNSUPPORTED_VERSION,
    Exchange,
    LineSession,
    Result,
)
from codeinfo.shells.mcp_relay import LONGEST_LINE, Sink, Source


def test_a_changed_file_is_noticed_by_the_very_next_call(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("def start():\n    return 0\n")
    with lines(tmp_path) as session:
        session.call("search_codebase", query="start")
        for turn in range(10):
            name = f"added_word_{turn}"
            (tmp_path / "words.py").write_text(f"def {name}():\n    return {turn}\n")
            reply = reply_of(session.call("search_codebase", query=name))
            assert name in reply["results"][0]["snippet"]
        (tmp_path / "new" / "deep").mkdir(parents=True)
        session.call("search_codebase", query="start")
        (tmp_path / "new" / "deep" / "late.py").write_text("def came_late():\n    return 1\n")
        assert "new/deep/late.py" in str(session.call("search_codebase", query="came_late"))
        (tmp_path / "new" / "deep" / "late.py").unlink()
        assert "new/deep/late.py" not in str(session.call("search_codebase", query="came_late"))


def test_a_server_engine_does_not_walk_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("def alpha():\n    return 0\n")
    with server_engine(Config.load()) as engine:
        request = SearchRequest("alpha", (str(tmp_path),))
        engine.search(request)
        walks = []
        walk = CodeSource.walk

        def counted_walk(*given: Any, **named: Any) -> object:
            walks.append(1)
            return walk(*given, **named)

        monkeypatch.setattr(CodeSource, "walk", counted_walk)
        for _ in range(5):
            assert engine.search(request).hits
        assert not walks
        (tmp_path / "b.py").write_text("def beta():\n    return 0\n")
        assert engine.search(SearchRequest("beta", (str(tmp_path),))).hits[0].path == "b.py"
        assert walks


def test_hostile_lines_are_answered_and_survived(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def alpha():\n    return 0\n")
    with lines(tmp_path, "--tools", "search,code") as session:
        for line, code in (
            (b"garbage\n", -32700),
            (b'{"jsonrpc": "2.0", "id": 7, "meth\n', -32700),
            (b"\xff\xfe\x00\n", -32700),
            (b"[" * 5000 + b"\n", -32700),
            (b'{"jsonrpc": "2.0", "id": 7}\n', -32600),
            (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": "\\udcff"}}\n', -32600),
            (b"[1, 2]\n", -32600),
            (b'{"jsonrpc": "2.0", "id": 8, "method": "no/such"}\n', -32601),
            (b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": 5}}\n', -32602),
            (b'["' + b"x" * LONGEST_LINE + b'"]\n', -32600),
        ):
            session.write(line)
            reply = session.read()
            assert reply["error"]["code"] == code
            assert reply["id"] == (json.loads(line).get("id") if code != -32700 and line[:1] == b"{" else None)
        twice = b'{"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": {"name": "refresh_index"}}\n'
        session.write(twice + twice)
        replies = [session.read(), session.read()]
        assert sorted("error" in reply for reply in replies) == [False, True]
        assert reply_of(session.call("search_codebase", query="alpha"))["results"]


def test_a_session_begins_with_a_handshake_or_does_without_for_good(tmp_path: Path) -> None:
    keys = ("protocolVersion", "clientCapabilities")
    envelope = {"_meta": dict(zip((f"io.modelcontextprotocol/{key}" for key in keys), (STATELESS, {}), strict=True))}
    later = {"_meta": {**envelope["_meta"], "io.modelcontextprotocol/protocolVersion": "2030-01-01"}}

    def codes(*requests: tuple[str, dict[str, Any]]) -> list[int | None]:
        said = [{"jsonrpc": "2.0", "id": n, "method": name, "params": one} for n, (name, one) in enumerate(requests)]
        text = "".join(f"{json.dumps(one)}\n" for one in said)
        done = subprocess.run(command(str(tmp_path)), input=text, capture_output=True, text=True, check=True)
        replies = sorted(map(json.loads, done.stdout.splitlines()), key=lambda reply: int(reply["id"]))
        return [reply.get("error", {}).get("code") for reply in replies]

    assert codes(
        ("ping", {}),
        ("tools/list", {}),
        ("no/such", {}),
        ("initialize", {"protocolVersion": "2025-11-25"}),
        ("initialize", INITIALIZE),
        ("tools/list", {}),
        ("server/discover", {}),
        ("tools/list", envelope),
    ) == [None, INVALID_PARAMS, METHOD_NOT_FOUND, INVALID_PARAMS, None, None, METHOD_NOT_FOUND, INVALID_REQUEST]
    assert codes(
        ("server/discover", envelope),
        ("tools/list", envelope),
        ("ping", envelope),
        ("initialize", INITIALIZE),
        ("tools/list", {}),
        ("tools/list", later),
    ) == [None, None, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, INVALID_PARAMS, UNSUPPORTED_VERSION]


@pytest.mark.parametrize("asked", [*HANDSHAKES, "1999-01-01", STATELESS])
def test_a_handshake_agrees_on_a_version(asked: str, tmp_path: Path) -> None:
    with session_here(tmp_path) as session:
        agreed = session.request("initialize", {**INITIALIZE, "protocolVersion": asked})["result"]
    assert agreed["protocolVersion"] == (asked if asked in HANDSHAKES else "2025-11-25")
    assert agreed["serverInfo"]["name"] == "codeinfo"


def test_what_is_cancelled_is_not_answered_and_what_is_cut_off_is_refused() -> None:
    said, heard = os.pipe(), os.pipe()
    stopped: list[object] = []

    async def wait(exchange: Exchange) -> Result:
        try:
            await anyio.sleep(60)
        finally:
            stopped.append(exchange.message.id)
        return {}

    session = LineSession({"wait": wait}, os.fdopen(said[0], "rb"), Sink(heard[1]), introduced=True)
    serving = threading.Thread(target=anyio.run, args=(session.run,))
    serving.start()
    with os.fdopen(said[1], "wb") as stdin, os.fdopen(heard[0], "rb") as stdout:
        client = Lines(stdin, stdout)
        for identity in ("cancelled", "cut off"):
            client.send({"id": identity, "method": "wait"})
        for wanted in ("cancelled", "cancelled", [1], None):
            client.send({"method": "notifications/cancelled", "params": {"requestId": wanted}})
        client.send({"id": "cancelled", "method": "ping"})  # the id is free again
        assert client.read() == {"jsonrpc": "2.0", "id": "cancelled", "result": {}}
        assert stopped == ["cancelled"]
        stdin.close()
        assert client.read()["error"]["code"] == INPUT_ENDED
        serving.join(120)
    assert stopped == ["cancelled", "cut off"]


def test_input_that_cannot_be_read_ends_the_session(tmp_path: Path) -> None:
    read, write = os.pipe()
    unreadable = Source(os.open(tmp_path, os.O_RDONLY))  # a folder

    async def serve() -> None:
        with anyio.fail_after(120):
            await LineSession({}, BufferedReader(unreadable), Sink(write)).run()

    anyio.run(serve)
    with os.fdopen(read, "rb") as stdout:
        assert stdout.read() == b""


def test_stdout_has_protocol_lines_only_under_debug_logging(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def alpha():\n    return 0\n")
    log = (tmp_path.parent / "stderr.txt").open("wb")
    with log, lines(tmp_path, "--log-level", "debug", "--tools", "search,code,edit", stderr=log) as session:
        for n in range(60):
            session.call("search_codebase", query=f"alpha {n}")
        session.call("get_codebase_map")
        session.call("get_review_packet")  # no repository: git itself complains
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in session.seen)
    assert b"DEBUG codeinfo" in (tmp_path.parent / "stderr.txt").read_bytes()


def test_no_process_outlives_its_client(tmp_path: Path) -> None:
    """Clients are killed in the middle of an indexing: nobody says goodbye."""
    for n in range(300):
        (tmp_path / f"f{n}.py").write_text(f"def work_{n}():\n    return {n}\n" * 20)
    begin = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    index = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "refresh_index"}})
    script = (
        "import subprocess, time\n"
        f"p = subprocess.Popen({command('--tools', 'code')!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"p.stdin.write({begin!r}.encode() + b'\\n'); p.stdin.flush(); p.stdout.readline()\n"
        f"p.stdin.write({index!r}.encode() + b'\\n'); p.stdin.flush()\n"
        "print(p.pid, flush=True); time.sleep(60)\n"
    )
    clients = [
        subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    servers = [int(client.stdout.readline()) for client in clients if client.stdout]
    for client in clients:
        client.send_signal(signal.SIGKILL)
        client.communicate()
    wait_until(lambda: not any(map(alive, servers)))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def large(tmp_path: Path) -> Path:
    for n in range(1500):
        body = "".join(f"def work_{n}_{k}(value):\n    return value + {k}\n\n\n" for k in range(8))
        (tmp_path / f"f{n}.py").write_text(body)
    return tmp_path


def test_a_first_search_answers_while_the_index_is_built(large: Path) -> None:
    with lines(large, "--tools", "search,code", "--set", "mcp.patience_s=0.3") as session:
        first = reply_of(session.call("search_codebase", query="work"))
        assert first["status"] == "indexing"
        status = reply_of(session.call("get_indexing_status"))
        assert status["status"] in ("building", "ready")
        assert reply_of(session.call("refresh_index"))["reports"][0]["files"] == 1500
        assert reply_of(session.call("search_codebase", query="work"))["status"] == "success"


def test_progress_is_reported_and_cancelling_stops_the_work(large: Path) -> None:
    reported: list[tuple[float, float | None]] = []

    async def session() -> None:
        async with sdk_client(large, "--tools", "code") as client:
            with anyio.move_on_after(60) as scope:

                async def tell(progress: float, total: float | None, message: str | None) -> None:
                    reported.append((progress, total))
                    if progress > 0:
                        scope.cancel()

                await client.call_tool("refresh_index", {}, progress_callback=tell)
            assert scope.cancelled_caught
            stopped = (await client.call_tool("get_indexing_status", {})).structured_content
            for _ in range(600):
                if "progress" not in stopped:
                    break
                await anyio.sleep(0.1)
                stopped = (await client.call_tool("get_indexing_status", {})).structured_content
            assert "progress" not in stopped  # nothing goes on behind the client's back
            assert stopped["files"] < 1500

    anyio.run(session)
    assert reported[-1][1] == 1500
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)


def test_threads_share_one_refresh(tmp_path: Path) -> None:
    """Eight threads search while a file changes: each finds what was written before it asked."""
    from concurrent.futures import ThreadPoolExecutor

    (tmp_path / "a.py").write_text("def alpha():\n    return 0\n")
    with server_engine(Config.load()) as engine:
        engine.index(IndexRequest((str(tmp_path),)))

        def turn(n: int) -> bool:
            (tmp_path / f"t{n}.py").write_text(f"def thread_word_{n}():\n    return {n}\n")
            found = engine.search(SearchRequest(f"thread_word_{n}", (str(tmp_path),)))
            return any(hit.path == f"t{n}.py" for hit in found.hits)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(turn, range(24)))


def test_an_idle_server_lets_go_and_takes_up_again(tmp_path: Path) -> None:
    from codeinfo.serve.dispatch import Call
    from codeinfo.shells.mcp import make_service
    from codeinfo.shells.mcp_tools import choose_tools

    (tmp_path / "a.py").write_text("def alpha():\n    return 0\n")
    service = make_service(Config.load({"mcp.idle_s": 600}), ())
    (tool,) = choose_tools(["search_codebase"])
    asked = {"query": "alpha", "project": str(tmp_path)}
    assert service.perform(tool, asked, Call()).content["results"]
    assert not service.lease.release_if_idle()
    service.lease._last_use -= 601
    assert service.lease.release_if_idle()
    assert service.perform(tool, asked, Call()).content["results"]
    service.lease.close()
    assert os.path.exists(Config.load().paths.data_dir / "savings.db")


def test_a_change_is_seen_by_the_same_question(tmp_path: Path) -> None:
    from codeinfo.serve.dispatch import Call
    from codeinfo.shells.mcp import make_service
    from codeinfo.shells.mcp_tools import choose_tools

    (tmp_path / "a.py").write_text("def alpha():\n    return 'ä ✓'\n")
    service = make_service(Config.load(), ())
    (tool,) = choose_tools(["search_codebase"])
    asked = {"query": "alpha", "project": str(tmp_path)}
    first = service.perform(tool, asked, Call())
    assert service.perform(tool, asked, Call()) == first
    (tmp_path / "a.py").write_text("def alpha():\n    return 1\n")
    assert "return 1" in service.perform(tool, asked, Call()).text
    service.lease.close()


def test_savings_are_counted_by_day_and_tool(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from codeinfo.engine.maintenance import Savings
    from codeinfo.operations.clients import SavingsRequest

    day = [datetime(2026, 3, 1, 12, tzinfo=UTC)]
    (tmp_path / "long.py").write_text("x" * 4000)
    savings = Savings(tmp_path / "data", lambda: day[0])
    savings.record("search_codebase", 400, [str(tmp_path / "long.py"), str(tmp_path / "gone.py")])
    savings.record("search_codebase", 400, [str(tmp_path / "long.py")])
    savings.close()
    day[0] = datetime(2026, 3, 2, 12, tzinfo=UTC)
    savings.record("get_memory", 40, [])
    savings.close()
    report = savings.report(SavingsRequest(7))
    assert [(one.day, [tool.tool for tool in one.tools]) for one in report.days] == [
        ("2026-03-02", ["get_memory"]),
        ("2026-03-01", ["search_codebase"]),
    ]
    assert (report.calls, report.returned, report.files, report.saved) == (3, 210, 2000, 1790)
    assert report.saved == sum(tool.saved for one in report.days for tool in one.tools)
    assert savings.report(SavingsRequest(1)).calls == 1


def test_cancelling_hangs_up_on_a_silent_model(tmp_path: Path) -> None:
    """The endpoint takes the question and never says a word."""
    import socket
    import threading

    from codeinfo.operations.answers import ConversationsRequest
    from codeinfo.serve.dispatch import Call
    from codeinfo.shells.mcp import make_service
    from codeinfo.shells.mcp_tools import choose_tools

    (tmp_path / "a.py").write_text("def alpha():\n    return 0\n")
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
    service = make_service(Config.load({"llm.base_url": address, "llm.model": "mute"}), ())
    (tool,) = choose_tools(["codebase_question"])
    call, ended = Call(), list[BaseException]()

    def ask() -> None:
        try:
            service.perform(tool, {"question": "What is alpha?", "project": str(tmp_path)}, call)
        except BaseException as error:
            ended.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    connection, _ = silent.accept()
    assert connection.recv(100)
    call.cancel()
    asking.join(120)  # the endpoint has minutes
    assert not asking.is_alive()
    assert [type(error) for error in ended] == [KeyboardInterrupt]
    with service.lease.use() as engine:
        (kept,) = engine.conversations.page(ConversationsRequest()).conversations
        assert engine.conversations.turns(kept.id)[-1].status == "stopped"
    service.lease.close()
    connection.close()
    silent.close()
