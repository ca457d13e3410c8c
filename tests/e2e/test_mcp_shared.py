"""One background server for all agents of a user."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from durability_tools import can_mount
from mcp_help import INITIALIZE, Lines, ProcessLines, command, lines, reply_of, sdk_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from codeinfo.files import try_lock
from codeinfo.shells.mcp_protocol import HANDSHAKES, STATELESS
from codeinfo.shells.mcp_relay import LOST, Journal, write_all


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the server has its socket, whose path must be short."""
    with TemporaryDirectory(prefix="ci-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.delenv("CODEINFO_MCP_SHARED")
        yield Path(folder)
        for server in servers(folder):
            os.kill(server, signal.SIGTERM)  # that it ends by itself, seconds later, is for some tests to wait for
        assert not eventually(lambda: not servers(folder)), "a server did not end"


def servers(folder: str | Path) -> list[int]:
    """The processes that hold a lock in the folder."""
    found = []
    for lock in Path(folder, "codeinfo").glob("*.lock"):
        with lock.open("rb+") as file:
            if not try_lock(file.fileno(), lock) and (pid := file.read()):  # not while it starts
                found.append(int(pid))
    return found


def started(folder: Path) -> int:
    (server,) = servers(folder)
    return server


def eventually(check: Callable[[], Any], seconds: float = 120) -> Any:
    """Falsy once the check holds, else what it last said."""
    until = time.monotonic() + seconds
    while not check() and time.monotonic() < until:
        time.sleep(0.05)
    return not check()


def project(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / f"{name}.py").write_text(f"def {name}_payment(order):\n    return order.total\n")
    return folder


def is_stopped(process: int) -> bool:
    try:
        return all("(stopped)" in status.read_text() for status in Path(f"/proc/{process}/task").glob("*/status"))
    except OSError:  # a thread has ended meanwhile
        return False


def unread_bytes(session: ProcessLines) -> int:
    return int.from_bytes(fcntl.ioctl(session.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)


def first_file(session: Lines, query: str, **arguments: str) -> str:
    found = reply_of(session.call("search_codebase", query=query, **arguments))
    return str(found["results"][0]["file"]).partition(":")[0]


def test_clients_in_different_folders_share_one_process(runtime: Path, tmp_path: Path) -> None:
    one, other = project(tmp_path / "one", "refund"), project(tmp_path / "other", "settle")
    with lines(one) as first, lines(other) as second:
        assert first_file(first, "payment") == "refund.py"
        assert first_file(second, "payment") == "settle.py"
        assert len(servers(runtime)) == 1
        assert first_file(second, "payment", project="../one") == "refund.py", "seen from the client's own folder"
        for client, folder in ((first, one), (second, other)):
            read = client.request("resources/read", {"uri": "codebase://context"})
            assert read["result"]["contents"][0]["text"].startswith(f"# {folder.name}\n")
    assert not eventually(lambda: not servers(runtime))


def search(query: str, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "method": "tools/call",
        "params": {"name": "search_codebase", "arguments": {"query": query}},
    }


def test_another_server_answers_what_a_killed_one_had_not_read(runtime: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "one", "refund")
    with lines(folder) as session:
        assert first_file(session, "payment") == "refund.py"
        (server,) = servers(runtime)
        os.kill(server, signal.SIGSTOP)
        assert not eventually(lambda: is_stopped(server))
        session.send(search("payment", 77))
        os.kill(server, signal.SIGKILL)
        while (answer := session.read()).get("id") != 77:  # that the first one was answered may not have been recorded
            pass
        assert reply_of(answer["result"])["results"][0]["file"].startswith("refund.py")
        (other,) = servers(runtime)
        assert other != server
        said = json.dumps({"jsonrpc": "2.0", **search("payment", 78)}).encode() + b"\n"
        session.write(said[:50])
        time.sleep(0.2)  # in which half a message is read
        os.kill(other, signal.SIGKILL)
        session.write(said[50:])
        assert reply_of(session.read()["result"])["results"][0]["file"].startswith("refund.py")


def test_what_a_killed_server_worked_on_is_refused(runtime: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "one", "refund")
    for number in range(1500):
        (folder / f"f{number}.py").write_text(f"def work_{number}():\n    return {number}\n" * 20)
    with lines(folder, "--tools", "search,code") as session:
        server = started(runtime)
        session.send({"id": 77, "method": "tools/call", "params": {"name": "refresh_index"}})
        session.send({"id": 78, "method": "tools/list"})
        session.send({"method": "notifications/cancelled", "params": {"requestId": 99}})
        assert session.read()["id"] == 78, "so 77 was read too"
        os.kill(server, signal.SIGKILL)
        while (lost := session.read()).get("id") != 77:  # that the list was sent may not have been recorded
            pass
        assert lost["error"]["code"] == LOST
        assert session.request("tools/list")["result"]["tools"]
        assert servers(runtime) != [server]


def test_the_client_of_the_sdk_gets_its_answers_from_the_next_server(runtime: Path, tmp_path: Path) -> None:
    async def session() -> None:
        async with sdk_client(project(tmp_path / "one", "refund")) as client:
            for _ in range(3):
                found = await client.call_tool("search_codebase", {"query": "payment"})
                assert reply_of(found)["results"][0]["file"].startswith("refund.py")
                os.kill(started(runtime), signal.SIGKILL)
            assert {tool.name for tool in (await client.list_tools()).tools} == {"search_codebase", "explore"}

    anyio.run(session)


def test_half_a_reply_is_ended_before_the_next_one(runtime: Path, tmp_path: Path) -> None:
    """Replies that no pipe holds as a whole, to a client that does not read."""
    with lines(project(tmp_path / "one", "refund"), "--tools", "all") as session:
        server = started(runtime)
        for number in range(70, 80):
            session.send({"id": number, "method": "tools/list"})
        assert not eventually(lambda: unread_bytes(session) > 60_000), "the pipe is not full"
        os.kill(server, signal.SIGKILL)
        while session.stdout.readline().endswith(b"]}}\n"):  # complete ones, before a part of one
            pass
        replies = [session.read()]
        while replies[-1]["id"] < 79:
            replies.append(session.read())
        lost = ["error" in reply for reply in replies]
        assert lost == sorted(lost, reverse=True)  # what the busy relay passed on later is answered by the next server
        assert {reply["error"]["code"] for reply in replies if "error" in reply} == {LOST}
        assert session.request("tools/list")["result"]["tools"]


def test_a_killed_relay_ends_its_session(runtime: Path, tmp_path: Path) -> None:
    """Also where the client keeps its ends of the pipes open."""
    folder = project(tmp_path / "one", "refund")
    relay = subprocess.Popen(command(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with relay:
        session = ProcessLines(relay)
        session.request("initialize", INITIALIZE)
        assert session.request("tools/list")["result"]
        relay.kill()
        assert relay.stdout is not None
        assert relay.stdout.read() == b""
        assert not eventually(lambda: not servers(runtime))


def test_a_client_that_was_never_introduced_can_be_resumed(tmp_path: Path) -> None:
    journal = Journal(os.open(tmp_path / "journal", os.O_RDWR | os.O_CREAT))
    journal.record_input(b'{"method": "notifications/initialized"}\n')
    journal.restart(b'{"id": 1, "method": "tools/list"}\n')
    read = Journal(journal.fileno())
    assert (read.introduced, read.first) == (False, b'{"id": 1, "method": "tools/list"}\n')


def test_a_long_session_keeps_a_short_journal(tmp_path: Path) -> None:
    journal = Journal(os.open(tmp_path / "journal", os.O_RDWR | os.O_CREAT))
    journal.settings = {"tools": "search"}
    journal.record_input(b'{"id": 0, "method": "initialize"}\n{"method": "notifications/initialized"}\n')
    journal.end_line(0)
    for number in range(1, 3000):
        journal.record_input(json.dumps(search("x" * 100, number)).encode() + b"\n")
        journal.end_line(number)
    journal.record_input(b'{"id": 3000, "method": "tools/list"}\n{"id": 3001, "met')
    assert (tmp_path / "journal").stat().st_size < 300_000
    read = Journal(journal.fileno())
    assert read.settings == {"tools": "search"}
    assert read.introduced
    assert (list(read.pending.values()), bytes(read.part)) == ([3000], b'{"id": 3001, "met')


def test_all_is_written_to_a_full_pipe_that_does_not_block(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as some clients leave theirs
    data = os.urandom(1_000_000)
    thread = threading.Thread(target=write_all, args=(writing, data))
    thread.start()
    with os.fdopen(reading, "rb") as reader:
        assert reader.read(len(data)) == data
    thread.join()
    os.close(writing)


def test_a_call_says_so_when_no_other_server_can_be_started(runtime: Path, tmp_path: Path) -> None:
    with lines(project(tmp_path / "one", "refund")) as session:
        assert first_file(session, "payment") == "refund.py"
        server = started(runtime)
        os.kill(server, signal.SIGKILL)
        assert not eventually(lambda: not servers(runtime))
        (runtime / "codeinfo").rename(runtime / "moved")
        (runtime / "codeinfo").write_text("")
        refused = session.request("tools/call", {"name": "search_codebase", "arguments": {"query": "payment"}})
        assert refused["error"]["code"] == LOST
        (runtime / "codeinfo").unlink()
        (runtime / "moved").rename(runtime / "codeinfo")
        assert first_file(session, "payment") == "refund.py"


def test_a_killed_client_leaves_the_others_alone(runtime: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "one", "refund")
    with lines(folder) as session:
        session.call("search_codebase", query="payment")
        doomed = subprocess.Popen(command(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        other = ProcessLines(doomed)
        other.request("initialize", INITIALIZE)
        other.send(
            {"id": 1, "method": "tools/call", "params": {"name": "search_codebase", "arguments": {"query": "x"}}}
        )
        doomed.kill()
        doomed.communicate()
        (place,) = (path for path in (runtime / "codeinfo").iterdir() if not path.suffix)
        with socket.socket(socket.AF_UNIX) as silent:  # a relay that is killed before it says whose it is
            silent.connect(str(place))
        assert first_file(session, "payment") == "refund.py"
        assert len(servers(runtime)) == 1
    assert not eventually(lambda: not servers(runtime))


def test_other_settings_have_a_server_of_their_own(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "one", "refund")
    with lines(folder) as first, lines(folder, "--set", "mcp.reply_tokens=700") as second:
        assert first_file(first, "payment") == first_file(second, "payment") == "refund.py"
        assert len(servers(runtime)) == 2


def test_mistakes_are_reported_as_by_a_server_of_ones_own(runtime: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "one", "refund")
    done = subprocess.run(
        command("--tools", "nosuch"), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no set of tools is called nosuch" in done.stderr


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_without_a_private_folder_a_client_is_served_by_its_own_process(
    obstacle: str, runtime: Path, tmp_path: Path
) -> None:
    if obstacle == "file":
        (runtime / "codeinfo").write_text("")
    else:
        (tmp_path / "elsewhere").mkdir()
        (runtime / "codeinfo").symlink_to(tmp_path / "elsewhere")
    log = tmp_path / "log"
    with log.open("wb") as stderr, lines(project(tmp_path / "one", "refund"), stderr=stderr) as session:
        assert first_file(session, "payment") == "refund.py"
        assert not servers(runtime)
    assert "no server is shared with other agents" in log.read_text()


def test_a_server_that_cannot_start_is_not_started_again_and_again(runtime: Path, tmp_path: Path) -> None:
    folder, log = project(tmp_path / "one", "refund"), tmp_path / "log"
    with lines(folder):
        (lock,) = (runtime / "codeinfo").glob("*.lock")
        os.kill(started(runtime), signal.SIGTERM)
        assert not eventually(lambda: not servers(runtime))
    lock.unlink()
    lock.mkdir()
    with log.open("wb") as stderr, lines(folder, stderr=stderr) as session:
        assert first_file(session, "payment") == "refund.py"
    lock.rmdir()
    assert "the server failed to start" in log.read_text()


def test_a_server_is_shared_though_the_disk_of_its_socket_is_full(runtime: Path, tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("mounting a file system needs more rights")
    folder, log = project(tmp_path / "one", "refund"), tmp_path / "log"
    full = f"mount -t tmpfs -o size=16k none {runtime} && head -c 16k /dev/zero >{runtime}/filler; exec"
    line = ["unshare", "--mount", "--", "/bin/sh", "-c", f'{full} "$@"', "sh", *command()]
    with log.open("wb") as stderr:
        process = subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        session = ProcessLines(process)
        session.introduce()
        assert first_file(session, "payment") == "refund.py"
        process.communicate()
    assert log.read_bytes() == b""


def test_what_was_said_before_the_end_of_the_input_is_answered(runtime: Path, tmp_path: Path) -> None:
    """A client may write all it has to say, close its end, and read then; replies may be larger than any pipe."""
    folder = project(tmp_path / "one", "refund")
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
    ]
    said += [{"id": number, "method": "tools/list"} for number in range(2, 42)]
    text = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in said)
    done = subprocess.run(command(str(folder), "--tools", "all"), input=text, capture_output=True, text=True)
    assert len(done.stdout) > 1 << 20
    assert sorted(json.loads(line).get("id", 0) for line in done.stdout.splitlines()) == list(range(1, 42))


def test_the_versions_are_those_of_the_sdk() -> None:
    assert HANDSHAKES == HANDSHAKE_PROTOCOL_VERSIONS
    assert (STATELESS,) == MODERN_PROTOCOL_VERSIONS


def test_a_relay_is_small(runtime: Path, tmp_path: Path) -> None:
    with lines(project(tmp_path / "one", "refund")) as session:
        assert first_file(session, "payment") == "refund.py"
        status = Path(f"/proc/{session.process.pid}/smaps_rollup").read_text()
        assert int(re.search(r"^Pss:\s+(\d+)", status, re.MULTILINE)[1]) < 1_000  # type: ignore[index]
