"""Inputs that nobody means well, over every surface: the command line, MCP, HTTP, and files of a repository.

Each must be answered or refused with a documented code, within seconds, without a traceback, and must show nothing from
outside the project. Beside the inputs it is looked at whether the servers still answer, and how large they have become.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostile_repositories import in_repositories
from hostile_values import SMALL, fitting, text, value
from mcp_help import ProcessLines, lines
from sandbox import SLOW_S, Failed, Sandbox, Tally, processes_of

SLACK = 4  # of a busy machine
MOST_MB = 800
STATUSES = {200, 202, 204, 303, 307, 400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 421, 422, 429, 431, 499}
STATUSES |= {501, 502, 503, 504, 507}
OUTSIDE = "root:x:0:"  # how /etc/passwd begins, to which paths are made, and what links lead to


def send_hostile(sandbox: Sandbox, tally: Tally, wanted: int, rng: random.Random) -> None:
    over_command_line(sandbox, tally, wanted * 15 // 100, rng)
    over_mcp(sandbox, tally, wanted * 35 // 100, rng)
    over_http(sandbox, tally, wanted * 40 // 100, rng)
    in_repositories(sandbox, tally, wanted * 10 // 100, rng, one_command)


def check_text(shown: str, what: str) -> None:
    if OUTSIDE in shown:
        raise Failed(f"{what} shows a file from outside: {shown[:300]}")
    if "Traceback (most recent" in shown or '"INTERNAL"' in shown:
        raise Failed(f"{what} is a bug in CodeInfo: {shown[:600]}")


def check_time(started: float, what: str) -> None:
    seconds = time.monotonic() - started
    if seconds > SLACK * SLOW_S:
        raise Failed(f"{what} took {seconds:.1f} s")


# --- the command line ----------------------------------------------------------------------------------------------

COMMANDS = (
    "search T", "search T P", "similar T", "ask T P", "index P", "status P", "why T", "symbols T", "defs T", "refs T",
    "calls T", "imports T", "map P", "cycles P", "impact T", "hotspots P", "unused P", "remember T -r T",
    "memory list T", "memory show T",
    "memory remove T", "memory import T", "patterns P", "metadata P", "style P", "review T",
    "docs list T", "docs search T", "docs outline T", "docs section T T", "docs related T", "docs add U", "docs sync T",
    "conversations show T", "conversations search T", "conversations export T", "conversations archive T",
    "agents run T T",    "config show T", "savings T", "T", "search T --set T", "search T --glob T", "search T -n T",
    "search T --language T",
)  # fmt: skip
PLACES = (
    ".",
    "nowhere",
    "steady.py",
    "",
    "x" * 300,
    "\udcff",
    "../project",
    "/",
    "/etc",
    "~",
    "a\nb",
    "/proc/self/mem",
)
ADDRESSES = tuple(piece for piece in SMALL if ":" in piece and "169.254" not in piece and "passwd" not in piece)


def over_command_line(sandbox: Sandbox, tally: Tally, count: int, rng: random.Random) -> None:
    for _ in range(count):
        parts = []
        for part in rng.choice(COMMANDS).split():
            choices = {"T": SMALL, "P": PLACES, "U": ADDRESSES}.get(part)
            parts.append(part if choices is None else rng.choice(choices))
        if rng.random() < 0.3:
            parts.append("--json")
        tally.attempt("hostile: command line", repr(parts)[:600], lambda: one_command(sandbox, parts))  # noqa: B023


def one_command(sandbox: Sandbox, parts: list[str]) -> str:
    started = time.monotonic()
    done = sandbox.ask(*parts)
    check_text(done.out + done.err, "it")
    check_time(started, "it")
    return f"exit {done.code}"


# --- MCP -----------------------------------------------------------------------------------------------------------


def over_mcp(sandbox: Sandbox, tally: Tally, count: int, rng: random.Random) -> None:
    """One session for all, as long as it lives."""
    sandbox.restore()
    kept = dict(os.environ)
    os.environ.update(sandbox.environment)
    try:
        while tally.done["hostile: MCP"] < count:
            with lines(sandbox.project, "--tools", "all") as session:
                _one_session(sandbox, session, tally, count, rng)
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _one_session(sandbox: Sandbox, session: ProcessLines, tally: Tally, count: int, rng: random.Random) -> None:
    tools = session.request("tools/list")["result"]["tools"]
    tools = [tool for tool in tools if tool["name"] != "docs_add"]  # it takes any file and address: that is its purpose
    while tally.done["hostile: MCP"] < count:
        if rng.random() < 0.15:
            raw = garbage(rng)
            tally.attempt("hostile: MCP", repr(raw[:300]), lambda: one_garbage(session, raw))  # noqa: B023
        else:
            tool = rng.choice(tools)
            given = fitting(tool["inputSchema"], rng)
            what = f"{tool['name']} {json.dumps(given)[:600]}"
            tally.attempt("hostile: MCP", what, lambda: one_call(session, tool["name"], given))  # noqa: B023
        if session.process.poll() is not None:
            tally.fail("hostile: MCP", f"the server ended with {session.process.returncode}")
            return
    grown = sum(map(resident_mb, processes_of(str(sandbox.folder))))  # the relay and the server behind it
    if grown > MOST_MB:
        tally.fail("hostile: MCP", f"the server has grown to {grown} MB")
    tally.figures.append(f"MCP server at the end: {grown} MB")


def one_call(session: ProcessLines, name: str, given: Any) -> str:
    reply = _answer(session, "tools/call", {"name": name, "arguments": given})
    shown = json.dumps(reply)
    check_text(shown, "it")
    return "refused" if '"isError": true' in shown or '"error"' in shown else "answered"


def one_garbage(session: ProcessLines, raw: bytes) -> str:
    session.write(raw)
    _answer(session, "ping", {})
    return "survived"


def _answer(session: ProcessLines, method: str, params: Any) -> dict[str, Any]:
    started = time.monotonic()
    watchdog = threading.Timer(60, session.process.kill)
    watchdog.start()
    try:
        reply = session.request(method, params)
    except (ValueError, OSError, KeyError) as error:
        raise Failed(f"no answer: {error!r}") from None
    finally:
        watchdog.cancel()
    check_time(started, "it")
    return reply


def garbage(rng: random.Random) -> bytes:
    """Lines that are no requests, without an id that a later one could have."""
    message = rng.choice(
        (
            text(rng).replace("\n", " ").encode("utf-8", "replace"),
            json.dumps(value(rng)).encode(),
            b"[" * 3000,
            b'{"jsonrpc": "2.0", "method": ' + json.dumps(text(rng)).encode() + b"}",
            json.dumps(
                {"jsonrpc": "2.0", "id": f"x{rng.random()}", "method": "tools/call", "params": value(rng)}
            ).encode(),
            json.dumps({"jsonrpc": rng.choice(("1.0", None, 2)), "method": "ping"}).encode(),
            b"\xff\xfe\x00" * 20,
        )
    )
    return message + b"\n"


# --- HTTP ----------------------------------------------------------------------------------------------------------


def over_http(sandbox: Sandbox, tally: Tally, count: int, rng: random.Random) -> None:
    sandbox.restore()
    with open(sandbox.folder / "serve.log", "w") as log:
        process = sandbox.start("serve", "--port", "0", "--allow", str(sandbox.project), stderr=log)
    try:
        assert process.stdout is not None
        host = process.stdout.readline().split()[-1].removeprefix("http://").rstrip("/")
        threading.Thread(target=process.stdout.read, daemon=True).start()  # the links that it prints
        token = (sandbox.home / "data" / "web-token").read_text()
        document = json.loads(exchange(host, f"GET /openapi.json HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[1])
        routes = [
            (method.upper(), path, body_schema(document, one))
            for path, methods in document["paths"].items()
            for method, one in methods.items()
            if not path.endswith("/events")  # these do not end
        ]
        for _ in range(count):
            raw = request(host, token, routes, rng)
            tally.attempt("hostile: HTTP", repr(raw[:900]), lambda: one_request(host, raw))  # noqa: B023  called now
            if process.poll() is not None:
                tally.fail("hostile: HTTP", f"the server ended with {process.returncode}")
                return
        grown = resident_mb(process.pid)
        tally.figures.append(f"HTTP server at the end: {grown} MB")
        if grown > MOST_MB:
            tally.fail("hostile: HTTP", f"the server has grown to {grown} MB")
    finally:
        process.terminate()
        process.wait(20)
    said = (sandbox.folder / "serve.log").read_text(errors="replace")
    if "Traceback" in said:
        tally.fail("hostile: HTTP", f"a traceback on stderr: {said[said.index('Traceback') :][:1500]}")


def body_schema(document: dict[str, Any], route: dict[str, Any]) -> dict[str, Any]:
    schema = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    named = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][named] if named else schema
    return found


def request(host: str, token: str, routes: list[tuple[str, str, dict[str, Any]]], rng: random.Random) -> bytes:
    method, path, schema = rng.choice(routes)
    path = re.sub(r"\{\w+\}", lambda _: quoted(text(rng)), path)
    if rng.random() < 0.3 or method == "GET":
        names = ("q", "query", "path", "project", "glob", "start", "limit", "level", "code", "token")
        path += f"?{rng.choice(names)}={quoted(text(rng))}&{rng.choice(names)}={quoted(text(rng))}"
    if rng.random() < 0.05:
        method = rng.choice(("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "get", "X" * 50))
    if rng.random() < 0.05:
        path = rng.choice(
            (
                "//",
                "/../../etc/passwd",
                "/static/../../etc/passwd",
                "/static/%2e%2e/%2e%2e/etc/passwd",
                "/?" + "a=b&" * 3000,
            )
        )
    body = b"" if method == "GET" else body_of(schema, rng)
    headers = [("Host", host), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if rng.random() < 0.7:
        headers.append(("X-CodeInfo-Token", token))
    while rng.random() < 0.25:
        name = rng.choice(
            (
                "Origin",
                "Host",
                "Cookie",
                "Authorization",
                "X-CodeInfo-Token",
                "Sec-Fetch-Site",
                "Last-Event-ID",
                "Accept",
                "Range",
                "Transfer-Encoding",
                "Content-Length",
                "Upgrade",
            )
        )
        headers.append((name, re.sub(r"[\r\n\0]", "", text(rng))[:3000]))
    head = "".join(f"{name}: {one}\r\n" for name, one in headers)
    return f"{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode("utf-8", "replace") + body


def body_of(schema: dict[str, Any], rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(
            (b"", b"[", b"[" * 50_000, b"\xff", b"null", b'{"query": NaN}', b'{"a":' * 3000, b"x" * 1_100_000)
        )
    return json.dumps(fitting({"type": "object", **schema}, rng)).encode("utf-8", "replace")


def quoted(piece: str) -> str:
    return "".join(f"%{byte:02X}" for byte in piece.encode("utf-8", "surrogateescape"))[:6000]


def one_request(host: str, raw: bytes) -> str:
    started = time.monotonic()
    status, shown = exchange(host, raw)
    if status == 0:
        # Refused by closing: right for what is no request, as long as the next one is answered.
        status_now, _ = exchange(host, f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        if status_now != 200:
            raise Failed(f"after it the server does not answer: {status_now}")
        return "closed"
    if status not in STATUSES:
        raise Failed(f"status {status}: {shown[:500]}")
    check_text(shown, f"status {status}")
    if (
        status >= 400
        and shown.startswith("{")
        and not all(json.loads(shown)["error"].get(key) for key in ("code", "message"))
    ):
        raise Failed(f"status {status} without a reason: {shown[:300]}")
    check_time(started, "it")
    return str(status)


def exchange(host: str, raw: bytes) -> tuple[int, str]:
    """The status and the body; 0 where the connection was closed without an answer."""
    name, _, port = host.rpartition(":")
    reply = b""
    with socket.create_connection((name, int(port)), timeout=SLACK * SLOW_S) as connection:
        with suppress(OSError):  # it may have heard enough; what it said is read below
            connection.sendall(raw)
        try:
            while b"\r\n\r\n" not in reply or not _whole(reply):
                part = connection.recv(1 << 16)
                if not part:
                    break
                reply += part
        except TimeoutError:
            raise Failed(f"no answer in {SLACK * SLOW_S:.0f} s, after {reply[:200]!r}") from None
        except OSError:
            pass
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/1.1 ") else 0, body.decode("utf-8", "replace")


def _whole(reply: bytes) -> bool:
    head, _, body = reply.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return length is not None and len(body) >= int(length[1])


def resident_mb(process: int) -> int:
    lines_ = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines_ if line.startswith("RssAnon"))
