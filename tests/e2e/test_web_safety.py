"""Who gets in, and what of other people's text gets out: each refusal of the server, one by one."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest
from patience import is_quick, wait_until
from starlette.testclient import TestClient
from web_tools import HOST, PORT, TOKEN, client, index, served, token

from codeinfo.errors import UsageError
from codeinfo.operations import OPERATIONS, inputs_of
from codeinfo.serve import auth
from codeinfo.serve.auth import (
    COOKIE,
    CSP,
    MAX_BODY_BYTES,
    SESSION_SECONDS,
    Sessions,
    hosts_for,
    own_token,
    read_token_file,
)
from codeinfo.shells.http_api import path_of
from codeinfo.shells.http_views import code_lines, markdown_html


@pytest.fixture
def web(project: Path) -> Iterator[TestClient]:
    with client(project) as made:
        yield made


EVERY_KIND = ("/", "/version", "/api/v1/search", "/ingest/status", "/static/app.js", "/mcp/", "/ui/chat", "/nothing")


# --- who gets in ----------------------------------------------------------------------------------------------------


def test_another_host_name_is_refused_everywhere(web: TestClient) -> None:
    for host in ("evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1.evil.example:{PORT}"):
        for path in EVERY_KIND:
            reply = web.get(path, headers={"host": host, **token()})
            assert reply.status_code == 421, path
            assert reply.json()["error"]["code"] == "HOST_REFUSED"


def test_another_origin_is_refused_everywhere(web: TestClient) -> None:
    for origin in ("http://evil.example", "null", f"https://{HOST}", "http://127.0.0.1:1", f"http://{HOST}.evil"):
        for path in EVERY_KIND:
            for method in ("GET", "POST", "OPTIONS"):
                reply = web.request(method, path, headers={"origin": origin, **token()})
                assert reply.status_code == 403, (method, path)
                assert not [name for name in reply.headers if name.startswith("access-control")]


def test_other_sites_cannot_embed_and_people_can_follow_links(web: TestClient) -> None:
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    framed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert web.get("/", headers=embedded).status_code == 403
    assert web.get("/", headers=framed).status_code == 403
    assert web.get("/", headers=followed).status_code == 200
    assert web.post("/api/v1/search", headers=followed, json={"query": "x"}).status_code == 403


def test_a_body_with_two_lengths_is_refused(web: TestClient) -> None:
    """A proxy in front that goes by the other one would take a part of it for a request of its own."""
    headers = {"content-length": "5", "transfer-encoding": "chunked"}
    refused = web.post("/api/v1/search", content=b"0\r\n\r\n", headers=headers)
    assert (refused.status_code, refused.headers["connection"]) == (400, "close")
    assert refused.json()["error"]["code"] == "DUPLICATE_HEADER"


def test_every_write_needs_the_token(web: TestClient) -> None:
    paths = [f"/api/v1/{name.replace(' ', '/')}" for name in OPERATIONS if not OPERATIONS[name].read_only]
    paths += ["/ingest/start", "/ingest/remove", "/ingest/cancel", "/chat", "/agents/planner/run", "/whatever"]
    paths += ["/conversations/delete", "/ui/projects/add", "/ui/runs", "/mcp/", "/api/v1/index"]
    for path in paths:
        for headers in ({}, {"X-CodeInfo-Token": "wrong"}, {"Authorization": f"Bearer {TOKEN[:-1]}"}):
            refused = web.post(path, json={}, headers=headers)
            assert refused.status_code == 401, path
            assert ("that is not" in refused.json()["error"]["message"]) is bool(headers), "none, or a wrong one"
        assert web.delete(path).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
def test_the_scheme_of_a_token_may_be_in_any_case(web: TestClient, scheme: str) -> None:
    assert web.post("/whatever", json={}, headers={"Authorization": f"{scheme}{TOKEN}"}).status_code == 404


def test_operations_of_this_machine_alone_are_not_served(web: TestClient) -> None:
    paths = web.get("/openapi.json").json()["paths"]
    local = {name for name in OPERATIONS if OPERATIONS[name].group == "local"} | {"eval", "docs add", "docs pack"}
    for name in local | {"memory import"}:
        assert f"/api/v1/{name.replace(' ', '/')}" not in paths
        assert web.post(f"/api/v1/{name.replace(' ', '/')}", json={}, headers=token()).status_code in (404, 405)


def test_the_token_is_kept_where_nobody_else_can_read_it(tmp_path: Path) -> None:
    made = own_token(tmp_path / "data")
    assert len(made) >= 40
    assert own_token(tmp_path / "data") == made
    assert stat.S_IMODE(os.stat(tmp_path / "data" / "web-token").st_mode) == 0o600
    (tmp_path / "data" / "web-token").write_bytes(bytes(43))  # as a crash may leave it
    assert own_token(tmp_path / "data").isprintable()


def test_other_addresses_need_a_token_for_everything(project: Path) -> None:
    from codeinfo.config import Config
    from codeinfo.shells.http import ServeOptions, serve

    with pytest.raises(UsageError, match="reached from other machines"):
        serve(Config.load({}, project), ServeOptions("0.0.0.0", 0))
    with pytest.raises(UsageError, match="means every address"):
        serve(Config.load({}, project), ServeOptions("0.0.0.0", 0, token_file="x"))
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        serve(Config.load({}, project), ServeOptions("127.0.0.1", 0, allow=("nowhere",)))
    with client(project, private=True, entered=False) as web:
        refused = web.get("/", headers={"accept": "text/html"})
        assert refused.status_code == 401
        assert refused.headers["content-type"].startswith("text/html")
        assert "codeinfo serve" in refused.text  # a person learns how to get in
        assert web.get("/").json()["error"]["code"] == "TOKEN_REQUIRED"
        assert "?token=" in web.get("/").json()["error"]["next"]
        assert web.get("/version").status_code == 401
        assert web.get("/version", headers=token()).status_code == 200
        assert web.get("/?token=wrong").status_code == 401
        entered = web.get(f"/?token={TOKEN}")
        assert entered.status_code == 200
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert "SameSite=Strict" in entered.headers["set-cookie"]
        assert TOKEN not in entered.headers["set-cookie"]
        assert web.get("/").status_code == 200  # the client keeps the cookie
        assert web.get("/?token=wrong").status_code == 200  # the cookie is enough, a wrong one gives none
        assert web.post("/ingest/start", json={}).status_code == 401  # to change something the page's token is needed


PAGES = (
    "/",
    "/panel",
    "/docs",
    "/ui/chat",
    "/ui/agents",
    "/ui/projects",
    "/ui/projects/queue",
    "/ui/map",
    "/ui/health",
)


def test_pages_are_shown_to_who_opened_the_link_and_to_nobody_else(project: Path) -> None:
    with client(project, entered=False) as web:
        for path in (*PAGES, "/nothing"):
            for accept in ("text/html", "*/*"):
                reply = web.get(path, headers={"accept": accept})
                assert reply.status_code == (404 if path == "/nothing" else 401), path
                assert TOKEN not in reply.text
                assert "set-cookie" not in reply.headers
        for path in ("/?code=", "/?code=wrong", f"/?code={TOKEN}", f"/?token={TOKEN}"):
            assert web.get(path).status_code == 401
        assert web.get("/", headers=token()).status_code == 200  # the user's own programs
    with client(project) as web:
        for path in PAGES:
            assert web.get(path).status_code == (200 if path != "/panel" else 404), path


def test_a_page_holds_no_token_that_is_worth_anything_elsewhere(project: Path) -> None:
    with client(project) as web:
        page = web.get("/").text
        (sent,) = re.findall(r'name="codeinfo-token" content="([^"]*)"', page)
        assert sent
        assert TOKEN not in page
        headers = {"X-CodeInfo-Token": sent}
        assert web.post("/ingest/start", json={"path": str(project)}, headers=headers).status_code == 200
        web.cookies.clear()
        assert web.post("/ingest/start", json={"path": str(project)}, headers=headers).status_code == 401
        assert web.get("/", headers=headers).status_code == 401


def test_a_link_works_once_and_says_so(project: Path) -> None:
    announced: list[str] = []
    sessions = Sessions(TOKEN, announced.append)
    first = sessions.code
    assert sessions.enter("wrong") is None
    cookie = sessions.enter(first)
    assert cookie is not None
    assert sessions.page_token(sessions.set_cookie(cookie))
    assert sessions.enter(first) is None
    assert announced == [sessions.code]
    with client(project, entered=False) as web:
        used = web.get(f"/?code={first}", headers={"accept": "text/html"})
        assert used.status_code == 401
        assert "already been used" in used.text
        assert 'rel="icon"' in used.text  # otherwise a browser asks for /favicon.ico
        assert 'name="viewport"' in used.text


def test_behind_https_only_this_host_can_set_a_session(project: Path) -> None:
    """Another host of the same domain, or one without https, could put its visitors into its own session."""
    sessions = Sessions(TOKEN, secure=True)
    value = sessions.begin()
    cookie = sessions.set_cookie(value)
    assert cookie.startswith(f"__Host-{COOKIE}=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Strict"} <= set(cookie.split("; "))
    assert sessions.page_token(cookie)
    assert not sessions.page_token(f"{COOKIE}={value}")


def test_sessions_end_and_cannot_be_made_up() -> None:
    sessions = Sessions(TOKEN)
    cookie = sessions.begin()
    assert Sessions(TOKEN).page_token(sessions.set_cookie(cookie))  # of a server that was started again
    assert not Sessions("other" * 8).page_token(sessions.set_cookie(cookie))
    began, name, signature = cookie.split(".")
    for forged in (
        f"{began}.{name}.{signature[:-1]}",
        f"{int(began) + 1}.{name}.{signature}",
        "",
        "..",
        "x.y.z",
        "é.a.b",
    ):
        assert sessions.page_token(sessions.set_cookie(forged)) == ""
    for seconds in (-SESSION_SECONDS - 1, SESSION_SECONDS + 60):  # long ago, or while the clock was wrong
        other = f"{int(began) + seconds}.{name}"
        assert sessions.page_token(sessions.set_cookie(sessions.sign(other))) == ""


def test_no_cookie_keeps_the_server_busy(web: TestClient) -> None:
    session = web.headers.get("cookie") or "; ".join(f"{name}={value}" for name, value in web.cookies.items())
    for quoted in ("\\" * 60_000, '\\"' * 30_000, "\\101" * 15_000):
        request = web.build_request("GET", "/version", headers={"cookie": f'{COOKIE}="{quoted}"'})
        assert is_quick(lambda: web.send(request).raise_for_status(), 5)  # noqa: B023
    assert web.get("/", headers={"cookie": f'odd; a="b;c"; =; {session} ;x=y'}).status_code == 200


def test_the_link_is_printed_and_no_command_line_holds_it(project: Path, tmp_path: Path) -> None:
    """Another user of this machine sees the port and the processes, not the terminal or our files."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}\n')
    browser.chmod(0o755)
    with served(project, tmp_path / "home", "--open", BROWSER=f"{browser} %s") as address:
        link = address.link()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{address}/", timeout=120)
        wait_until(lambda: seen.exists() and seen.read_text())  # a shell creates it first
        opened = Path(seen.read_text().strip().removeprefix("file://"))
        assert link.partition("=")[2] not in seen.read_text()
        assert stat.S_IMODE(opened.stat().st_mode) == 0o600
        assert link in opened.read_text()
        with urllib.request.urlopen(link, timeout=120) as reply:
            cookie = reply.headers["set-cookie"].partition(";")[0]
        asked = urllib.request.Request(f"{address}/", headers={"Cookie": cookie})
        with urllib.request.urlopen(asked, timeout=120) as reply:
            written = (tmp_path / "home" / "data" / "codeinfo" / "web-token").read_text()
            assert written not in reply.read().decode()
        assert address.link() != link


def test_a_chosen_token_is_long_and_its_file_private(tmp_path: Path) -> None:
    chosen = tmp_path / "token"
    for text, mode, words in (("short", 0o600, "contains no token"), ("x" * 20, 0o644, "others can read")):
        chosen.write_text(text)
        chosen.chmod(mode)
        with pytest.raises(UsageError, match=words):
            read_token_file(chosen)
    with pytest.raises(UsageError, match="nothing cannot be read: No such file or directory"):
        read_token_file(tmp_path / "nothing")
    chosen.chmod(0o600)
    assert read_token_file(chosen) == "x" * 20


def test_hosts_are_this_machine_by_all_its_names() -> None:
    assert hosts_for("127.0.0.1", 80) == {"127.0.0.1:80", "localhost:80", "[::1]:80"}
    assert hosts_for("192.0.2.1", 5010) == {"192.0.2.1:5010"}


# --- how much gets in -------------------------------------------------------------------------------------------------


def test_large_and_endless_bodies_are_refused(web: TestClient) -> None:
    assert web.post("/api/v1/search", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 100_000 + 2):
            yield b" " * 100_000

    reply = web.post("/api/v1/search", content=endless(), headers={"content-type": "application/json"})
    assert reply.status_code == 413


def test_all_bodies_together_are_bounded(web: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may send one, on any number of connections."""
    monkeypatch.setattr(auth, "MOST_HELD_BYTES", MAX_BODY_BYTES)

    async def status_of(end: asyncio.Event) -> int:
        """Of a request with 60 % of that, which then waits for its end."""
        sent: list[Any] = []
        pieces = [b"", b" " * (MAX_BODY_BYTES * 6 // 10)]

        async def receive() -> Any:
            if len(pieces) < 2:
                await end.wait()
            return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", HOST.encode()), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/api/v1/search", "query_string": b"", "headers": headers}
        await web.app(scope, receive, send)
        return int(sent[0]["status"])

    async def ask_thrice() -> list[int]:
        end = asyncio.Event()
        first = asyncio.create_task(status_of(end))
        await asyncio.sleep(0.2)
        beside = asyncio.create_task(status_of(end))
        await asyncio.sleep(0.2)
        end.set()
        return [await first, await beside, await status_of(end)]

    assert asyncio.run(ask_thrice()) == [400, 503, 400]


def test_what_is_no_json_object_is_refused(web: TestClient) -> None:
    for body in (b"[", b"[1]", b'"x"', b'{"query": NaN}', b"[" * 100_000, b'{"query": "\\ud800"}', b""):
        reply = web.post("/api/v1/search", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 400, body[:20]
        assert reply.json()["error"]["code"] == "VALIDATION_FAILED"


def test_a_form_of_another_site_is_no_json(web: TestClient) -> None:
    reply = web.post("/api/v1/search", content=b'{"query": "x"}', headers={"content-type": "text/plain"})
    assert reply.status_code == 415


# --- folders ----------------------------------------------------------------------------------------------------------


def test_only_folders_below_allowed_ones_become_projects(tmp_path: Path, project: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    inside = [str(tmp_path / path) for path in ("..", "link", "bank/../../..")]
    with client(project, allowed=(tmp_path,)) as web:
        for given in ("/etc", "/", "~", *inside):
            reply = web.post("/ingest/start", json={"path": given}, headers=token())
            assert reply.status_code == 403, given
            assert web.get("/ingest/dirs", params={"path": given}).status_code == 403
        assert web.get("/ingest/status").json()["waiting"] == []


def test_documents_come_from_allowed_folders_however_they_are_written(tmp_path: Path, project: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "plans.md").write_text("# Plans\n\nThe password is swordfish.\n")
    outside = tmp_path / "outside"
    with client(project, allowed=(project,)) as web:
        for source in (outside, f"file://{outside}", f"git+file://{outside}", f"{project}/x://../../outside"):
            reply = web.post("/ui/documents/add", data={"source": str(source)}, headers=token())
            assert reply.status_code in (403, 404), source
        inside = web.post("/ui/documents/add", data={"source": f"file://{project}"}, headers=token())
        assert inside.status_code == 200, inside.text


def test_nobody_learns_which_folders_there_are_elsewhere(tmp_path: Path, project: Path) -> None:
    """Who has no token may list the folders that can be added, and nothing else."""
    (tmp_path / "private" / "plans").mkdir(parents=True)
    (project / "link").symlink_to(tmp_path / "private" / "plans")
    with client(project, allowed=(project,), entered=False) as web:
        replies = []
        for name in ("plans", "nothing"):
            place = str(tmp_path / "private" / name)
            reply = web.get("/ingest/dirs", params={"path": place})
            replies.append((reply.status_code, reply.text.replace(place, "")))
        assert replies[0] == replies[1]
        assert "plans" not in web.get("/ingest/dirs", params={"path": str(project / "link")}).text
        assert web.get("/ingest/dirs", params={"path": str(project / "tests")}).status_code == 200
        assert web.get("/ingest/dirs", params={"path": str(project / "none")}).status_code == 404


def test_files_outside_the_index_are_never_shown(tmp_path: Path, project: Path) -> None:
    (tmp_path / "secret.txt").write_text("the password is swordfish\n")
    (project / "link.txt").symlink_to(tmp_path / "secret.txt")
    (project / ".env").write_text("PASSWORD=swordfish\n")
    with client(project) as web:
        index(web, project)
        for path in ("../secret.txt", "/etc/passwd", "link.txt", "a/../../secret.txt", ".env"):
            panel = web.get("/panel", params={"project": str(project), "path": path, "start": "1", "end": "9"})
            assert panel.status_code in (403, 404), path
            assert "swordfish" not in panel.text
            symbols = web.post("/api/v1/symbols", json={"path": path, "root": str(project)})
            assert symbols.status_code in (403, 404), path
        assert web.post("/api/v1/search", json={"query": "x", "paths": [str(tmp_path)]}).status_code == 404


def test_no_operation_indexes_a_folder_that_a_request_names(tmp_path: Path, project: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("def swordfish(): ...\n")
    (project / "link").symlink_to(outside)
    with client(project) as web:
        index(web, project)
        for one in (one for one in OPERATIONS.values() if one.is_served):
            texts = [item for item in inputs_of(one.request) if "str" in item.kind and not item.choices]
            needed = {item.name: ["x"] if item.is_list else "x" for item in texts if item.required}
            for item, folder in itertools.product(texts, (str(outside), str(project / "link"))):
                values = {**needed, item.name: [folder] if item.is_list else folder}
                web.post(path_of(one), json=values, headers=token())
        known = web.post("/api/v1/projects", json={}).json()["projects"]
    assert [found["root"] for found in known] == [str(project)]


# --- what gets out ----------------------------------------------------------------------------------------------------

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def test_headers_are_strict_on_every_answer(web: TestClient) -> None:
    for path in EVERY_KIND:
        headers = web.get(path).headers
        assert headers["content-security-policy"] == CSP
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert "unsafe" not in CSP
    assert "http" not in CSP


def test_pages_have_no_script_or_style_of_their_own(web: TestClient) -> None:
    for path in ("/", "/ui/chat", "/ui/agents", "/ui/projects", "/ui/map", "/ui/health", "/docs"):
        text = web.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        assert all('src="/static/' in part for part in text.split("<script")[1:])
        assert "//" not in text.replace("http://www.w3.org", "").partition("</head>")[0].replace("<!doctype", "")


def test_script_in_code_and_file_names_is_shown_as_text(project: Path) -> None:
    (project / "<img src=x onerror=alert(2)>.py").write_text(f'def evil_marker():\n    """{SCRIPT}"""\n')
    with client(project) as web:
        index(web, project)
        text = web.get("/", params={"q": "evil_marker"}, headers={"hx-request": "true"}).text
        assert "evil_marker" in text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "&lt;script&gt;" in text
        echoed = web.get("/", params={"q": SCRIPT}).text
        assert "<script>alert" not in echoed


def test_text_cannot_change_the_order_in_which_a_page_is_read(project: Path) -> None:
    (project / "ledger\u202eyp.exe.py").write_text(
        "def evil_marker():  # \u2066 if admin \u2069\u200f\u2028\n    return 1\n"
    )
    with client(project) as web:
        index(web, project)
        text = web.get("/", params={"q": "evil_marker"}, headers={"hx-request": "true"}).text
        assert "ledger\ufffdyp.exe.py" in text
        assert not set("\u202e\u2066\u2069\u200f\u2028") & set(text)


HOSTILE = (
    SCRIPT,
    f"```\n{SCRIPT}\n```",
    "[x](javascript:alert(1))",
    "![x](http://evil.example/a.png)",
    "<javascript:alert(1)>",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](/ui/projects)",
    "<svg onload=alert(1)>",
    "[a]: javascript:alert(1)\n[a]",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_model_output_becomes_harmless_html(text: str) -> None:
    html = str(markdown_html(text))
    for bad in ("<script", "<img", "<svg", 'href="javascript', 'href="data:', 'href="/'):
        assert bad not in html


def test_an_image_is_shown_as_its_description() -> None:
    assert str(markdown_html("See ![a *map* of <b>](map.png).")) == "<p>See a map of &lt;b&gt;.</p>\n"


def test_citations_become_links_and_unknown_numbers_stay_text() -> None:
    html = str(markdown_html("It works [1], or not [7].", {1: "/panel?x=1&y=2"}))
    assert 'href="/panel?x=1&amp;y=2"' in html
    assert "[7]" in html


def test_a_file_made_for_a_slow_lexer_is_shown_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 300 KB would keep the interpreter, and with it the server, busy for hours."""
    monkeypatch.setattr("codeinfo.shells.http_views.COLOURED_S", 0.3)
    text = "\n".join(['\\"' * 500] * 60)
    assert code_lines(text, "evil.at") == [escape(line) for line in text.split("\n")]


def test_code_is_escaped_with_and_without_colour() -> None:
    for text in (f'x = "{SCRIPT}"', SCRIPT * 2000):
        assert "<script" not in "".join(code_lines(text, "a.py"))
    assert len(code_lines("a\n\nb\n", "a.py")) == 4
