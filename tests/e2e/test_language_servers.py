"""Language servers: a real one (basedpyright) on a small project, and faults by a program that speaks the protocol."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import wait_until, within

from codeinfo import Config, Engine
from codeinfo.engine import language_servers
from codeinfo.engine.language_servers import group_bytes, name_column
from codeinfo.graph.scip import Proven
from codeinfo.operations.code import CallsRequest, ReferenceReport, RefsRequest

SOURCES = {
    "shop.py": """from typing import TypeVar

T = TypeVar("T")


class Cart:
    def total(self) -> int:
        return 1


class Order:
    def total(self) -> int:
        return 2


def first(items: list[T]) -> T:
    return items[0]
""",
    "app.py": """from shop import Cart, Order, first


def main() -> int:
    sign = "\U0001f600é"; return first([Cart()]).total()


def plain(cart: Cart, order: Order) -> int:
    return cart.total() + order.total()
""",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(
        "PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )  # basedpyright is there
    root = tmp_path / "project"
    root.mkdir()
    for name, text in SOURCES.items():
        (root / name).write_text(text)
    return root


def engine_for(root: Path, **settings: str) -> Engine:
    code = {f"code.{name}": value for name, value in settings.items()}
    return Engine(Config.load({"embedding.provider": "none", "index.workers": "1", **code}, root))


def total(engine: Engine, root: Path) -> ReferenceReport:
    return engine.code.references(RefsRequest("Cart.total", str(root)))


def server_notes(report: ReferenceReport) -> list[str]:
    return [note for note in report.notes if "langserver" in note]


def lines(report: ReferenceReport) -> set[tuple[str, int, str]]:
    return {(usage.file, usage.line, usage.confidence) for usage in report.usages}


# --- a real server ---------------------------------------------------------------------------------------------------


def test_a_server_proves_what_types_tell_it(project: Path) -> None:
    """What a generic function returns only a type checker knows. The line has signs of two UTF-16 units before it."""
    with engine_for(project) as engine:
        without = total(engine, project)
        assert (lines(without), without.unattributed) == ({("app.py", 9, "resolved")}, 1)
        calls = engine.code.calls(CallsRequest("main", str(project)))
        assert calls.unattributed_callees == 1
    with engine_for(project, language_servers="on", server_timeout_s="100") as engine:
        proven = total(engine, project)
        assert lines(proven) == {("app.py", 5, "compiler"), ("app.py", 9, "compiler")}
        assert (proven.compiler_count, proven.unattributed, proven.notes) == (2, 0, ())
        assert [usage.within for usage in proven.usages] == ["main", "plain"]
        calls = engine.code.calls(CallsRequest("main", str(project)))
        proofs = {(edge.target, edge.confidence) for edge in calls.callees if edge.kind == "CALLS"}
        assert proofs >= {("shop.py::Cart.total", "compiler"), ("shop.py::first", "compiler")}
        assert (calls.unattributed_callees, calls.notes) == (0, ())
        callers = engine.code.calls(CallsRequest("Cart.total", str(project))).callers
        assert {(edge.source, edge.confidence) for edge in callers} == {
            ("app.py::main", "compiler"),
            ("app.py::plain", "compiler"),
        }
        # The same server sees what is edited while it runs.
        app = project / "app.py"
        app.write_text("\n" + app.read_text() + "\n\ndef more() -> int:\n    return first([Cart()]).total()\n")
        assert lines(total(engine, project)) == {("app.py", line, "compiler") for line in (6, 10, 14)}
        (project / "later.py").write_text("from shop import Cart, first\n\nfirst([Cart()]).total()\n")
        assert ("later.py", 3, "compiler") in lines(total(engine, project))
        (server,) = engine.code._servers._running.values()
        pid = server.process.pid
        assert group_bytes(pid) > 20_000_000
    wait_until(lambda: group_bytes(pid) == 0)


def test_a_server_ends_with_a_process_that_was_killed(project: Path, tmp_path: Path) -> None:
    program = tmp_path / "ask.py"
    program.write_text(f"""
from pathlib import Path
import time
from test_language_servers import engine_for, total
root = Path({str(project)!r})
engine = engine_for(root, language_servers="on", server_timeout_s="100")
total(engine, root)
(server,) = engine.code._servers._running.values()
print(server.process.pid, flush=True)
time.sleep(60)
""")
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
    )
    assert process.stdout is not None
    with process, process.stdout:
        server = int(process.stdout.readline())
        assert group_bytes(server) > 0
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: group_bytes(server) == 0)


# --- when it may run -------------------------------------------------------------------------------------------------

SCRIPTED = '''#!{python}
"""Speaks the protocol of language servers, and does not when it is asked for references."""
import json, os, subprocess, sys, time
from pathlib import Path

child = subprocess.Popen(["sleep", "300"])
with open({log!r}, "a") as log:
    log.write(f"{{os.getpid()}} {{child.pid}}\\n")


def read():
    size = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(size)) if size else sys.exit()


def write(message):
    body = json.dumps({{"jsonrpc": "2.0", **message}}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()


def span(line, start, end):
    return {{"start": {{"line": line - 1, "character": start}}, "end": {{"line": line - 1, "character": end}}}}


def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


while True:
    message = read()
    method = message.get("method")
    if method == "initialized":
        write({{"method": "window/logMessage", "params": {{"type": 3, "message": "Found 2 source files"}}}})
    elif method == "textDocument/references":
        number, uri = message["id"], message["params"]["textDocument"]["uri"]
        {fault}
    elif method == "textDocument/definition":
        shop = message["params"]["textDocument"]["uri"].replace("app.py", "shop.py")
        write({{"id": message["id"], "result": {{"uri": shop, "range": span({meaning}, 8, 13)}}}})
    elif "id" in message and method:
        write({{"id": message["id"], "result": {{}}}})
'''


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], list[int]]]:
    """Puts a scripted server on the PATH; what is returned gives the processes that were started."""

    def install(fault: str, meaning: int = 0) -> Callable[[], list[int]]:
        program, log = tmp_path / "bin" / "basedpyright-langserver", tmp_path / "log"
        program.parent.mkdir()
        program.write_text(SCRIPTED.format(python=sys.executable, log=str(log), fault=fault, meaning=meaning))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        return lambda: [int(pid) for pid in log.read_text().split()] if log.exists() else []

    return install


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


ANSWER = 'write({"id": number, "result": []})'


def test_nothing_is_started_unless_the_user_says_so(
    project: Path, started: Callable[..., Callable[[], list[int]]]
) -> None:
    processes = started(ANSWER)
    (project / ".codeinfo.toml").write_text("[code]\nlanguage_servers = true\n")
    with engine_for(project) as engine:
        assert not total(engine, project).compiler_count
        note = "sets code.language_servers, which a repository may not decide"
        assert any(note in one for one in engine.config.for_root(project).notes)
    assert not processes()
    with engine_for(project, language_servers="on") as engine:
        assert not server_notes(total(engine, project))
        assert processes()
    wait_until(lambda: not any(map(is_running, processes())))


def test_a_revision_is_not_what_a_server_sees(project: Path, started: Callable[..., Callable[[], list[int]]]) -> None:
    processes = started(ANSWER)
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"),
    ):
        subprocess.run(("git", *command), cwd=project, check=True)
    with engine_for(project, language_servers="on") as engine:
        report = engine.code.references(RefsRequest("Cart.total", str(project), at="HEAD"))
    assert lines(report) == {("app.py", 9, "resolved")}
    assert not processes()


def test_a_missing_server_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which("git")
    assert found is not None
    monkeypatch.setenv("PATH", str(Path(found).parent))
    if shutil.which("basedpyright-langserver") or shutil.which("pyright-langserver"):
        pytest.skip("one lies beside git")
    with engine_for(project, language_servers="on") as engine:
        for _ in range(2):
            (note,) = server_notes(total(engine, project))
            assert note.startswith("basedpyright-langserver or pyright-langserver is not installed: ")


@pytest.mark.parametrize(("meaning", "proven"), [(7, {("app.py", 5, "compiler")}), (12, set())])
def test_a_use_that_only_may_mean_a_definition_is_not_claimed(
    meaning: int,
    proven: set[tuple[str, int, str]],
    project: Path,
    started: Callable[..., Callable[[], list[int]]],
) -> None:
    """A server also counts calls by way of an interface, or of a like key; it is asked what such a place means."""
    started(
        'write({"id": number, "result": [{"uri": uri.replace("shop.py", "app.py"), "range": span(5, 41, 46)}]})',
        meaning,
    )
    with engine_for(project, language_servers="on") as engine:
        report = total(engine, project)
    assert lines(report) == {("app.py", 9, "resolved")} | proven
    assert report.unattributed == 1 - len(proven)
    assert not server_notes(report)


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "note"),
    [
        ("time.sleep(300)", "did not answer within 2 s"),
        ("sys.exit(3)", "ended"),
        ("raw(b'Content-Length: 1000\\r\\n\\r\\n{\"id\"'); sys.exit()", "ended"),
        ("raw(b'Content-Length: 900000000\\r\\n\\r\\n')", "sent a message of 858 MB"),
        ("raw(b'Content-Length: many\\r\\n\\r\\n')", "did not follow the protocol"),
        ("raw(b'Content-Length: 4\\r\\n\\r\\nnone')", "did not follow the protocol"),
        ("raw(b'a traceback' * 1000)", "did not follow the protocol"),
        ('write({"id": number, "result": {"uri": 5}})', "did not follow the protocol"),
        ('write({"id": number, "error": {"code": -32603, "message": "no package"}})', "says: no package"),
        (
            """write({"method": "experimental/serverStatus", "params": {"quiescent": True, "message": "no crates"}})
        write({"id": number, "result": []})""",
            "says: no crates",
        ),
        ("data = b'x' * 400_000_000; time.sleep(300)", "MB of memory"),
        ('while True: raw(b\'Content-Length: 22\\r\\n\\r\\n{"method":"x","a": 12}\')', "did not answer within 2 s"),
        (
            'write({"id": 99, "method": "workspace/configuration", "params": 5})',
            "did not follow the protocol",
        ),
    ],
)
def test_a_faulty_server_is_reported_and_leaves_nothing_behind(
    fault: str, note: str, project: Path, started: Callable[..., Callable[[], list[int]]]
) -> None:
    processes = started(fault)
    seconds = "2" if note.endswith("within 2 s") else "20"
    with engine_for(project, language_servers="on", server_timeout_s=seconds, server_memory_mb="300") as engine:
        for _ in range(3):
            with within(60):
                report = total(engine, project)
            assert lines(report) == {("app.py", 9, "resolved")}
            (reported,) = server_notes(report)
            assert reported.startswith("basedpyright-langserver ")
            assert note in reported
        if "not started again" in reported:  # a server that is stuck or broken does not hold up the next question
            wait_until(lambda: not any(map(is_running, processes())))
            assert len(processes()) <= 2
    wait_until(lambda: not any(map(is_running, processes())))


def test_a_server_that_does_not_even_start_is_reported(
    project: Path, started: Callable[..., Callable[[], list[int]]]
) -> None:
    processes = started("pass")
    program = project.parent / "bin" / "basedpyright-langserver"
    program.write_text(program.read_text().replace("    message = read()", "    message = read(); time.sleep(300)"))
    with engine_for(project, language_servers="on", server_timeout_s="2") as engine:
        (note,) = server_notes(total(engine, project))
        assert "did not start in time" in note
        wait_until(lambda: not any(map(is_running, processes())))


def test_servers_that_are_not_asked_end(
    project: Path, started: Callable[..., Callable[[], list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = started(ANSWER)
    monkeypatch.setattr(language_servers, "_IDLE_S", 0.2)
    with engine_for(project, language_servers="on") as engine:
        total(engine, project)
        wait_until(lambda: not any(map(is_running, processes())))
        (project / "app.py").write_text(SOURCES["app.py"] + "\n")
        total(engine, project)
        assert len(processes()) == 4


# --- positions -------------------------------------------------------------------------------------------------------


def test_positions() -> None:
    text = 'x = "\U0001f600"; first(y).total()'
    for place in (Proven("a.py", 1, 19, 24), Proven("a.py", 1, 10, 24)):  # the latter as tsserver has it
        assert (place.name(text), place.is_called(text)) == ("total", True)
    assert Proven("a.py", 1, 0, 1).name(text) == "x"
    assert name_column("func (t Table) Table() Table {", "Table") == 15
    assert name_column("export const total = totals(total)", "total") == 13
    assert name_column("something else", "total") == -1
