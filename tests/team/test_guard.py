"""Who gets into a team's server, with real PostgreSQL: nobody without a token, and with one only what it is for."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from patience import wait_until
from postgres_tools import caller_of
from starlette.routing import BaseRoute, Mount, Route
from starlette.testclient import TestClient
from team_server_tools import ADDRESS, PORT, add_projects, bearer, person, team_client

from codeinfo.operations import OPERATIONS
from codeinfo.operations.clients import IngestStatus
from codeinfo.serve.auth import COOKIE, HOOKS, Access, Scope, hosts_for
from codeinfo.serve.team import NOT_OFFERED, OPEN, TEAM_OPERATIONS, Authenticator, TeamGuard, is_open
from codeinfo.shells.http_api import TeamRoute, path_of
from codeinfo.shells.http_team import local_address
from codeinfo.shells.mcp import is_offered_to_all
from codeinfo.shells.mcp_tools import choose_tools
from codeinfo.team import access
from codeinfo.team.database import TeamDatabase

SEEN, HIDDEN, MISSING = "git.example/a/seen", "git.example/a/hidden", "git.example/a/absent"


@pytest.fixture
def database(postgres: str) -> Iterator[TeamDatabase]:
    made = TeamDatabase(postgres)
    add_projects(made, SEEN, HIDDEN)
    yield made
    made.close()


@pytest.fixture
def web(database: TeamDatabase, postgres: str, project: Path) -> Iterator[TestClient]:
    with team_client(postgres, project) as made:
        yield made


def routes_of(app: Any) -> list[tuple[str, str]]:
    """Every route of the application with its methods, parameters filled in."""
    found = []
    for route in app.routes:
        if isinstance(route, Mount):
            found.append(("GET", f"{route.path}/x"))
            found.append(("POST", f"{route.path}/"))
        else:
            assert isinstance(route, Route)
            found += [(method, route.path.replace("{", "").replace("}", "")) for method in route.methods or {"POST"}]
    return found


# --- default deny ---


def test_every_route_refuses_who_has_no_token(web: TestClient, database: TeamDatabase) -> None:
    assert isinstance(web.app, TeamGuard)
    routes = routes_of(web.app._app)
    assert len(routes) > 100
    wrong: tuple[dict[str, str], ...] = (
        {},
        bearer("cit_" + "A" * 43),
        bearer(""),
        {"Authorization": "Basic YTpi"},
        {"X-CodeInfo-Token": "unused"},
        {"Cookie": f"{COOKIE}=1.1.0.x.{'A' * 43}"},
    )
    for method, path in routes:
        if is_open(path):
            continue
        for headers in wrong:
            reply = web.request(method, path, headers=headers)
            assert reply.status_code == 401, (method, path, headers, reply.text)
            assert reply.headers["www-authenticate"].startswith("Bearer")
            if method != "HEAD":
                assert reply.json()["error"]["code"] == "TOKEN_REQUIRED"
    hooks = {path for method, path in routes if path.startswith(HOOKS)}
    assert {path for _, path in routes if is_open(path)} == OPEN | {"/static/x", "/static/"} | hooks
    for path in hooks:  # they are signed
        assert web.post(path, json={"repository": {}, "project": SEEN, "ref": "refs/heads/main"}).status_code in (
            400,
            401,
        )


def scopes_of(web: TestClient) -> dict[tuple[str, str], str]:
    """The scope of every route that is offered, by its method and path."""
    routes: list[BaseRoute] = web.app._app.routes  # type: ignore[attr-defined]
    return {(one.method, one.path): one.scope for one in routes if isinstance(one, TeamRoute) and one.scope}


def test_what_is_not_on_the_list_is_refused_to_everyone(web: TestClient, database: TeamDatabase) -> None:
    """A route that somebody adds is denied until it is put there."""
    admin = person(database, "root", access.SCOPES, admin=True)
    assert isinstance(web.app, TeamGuard)
    offered = {(method, path.replace("{", "").replace("}", "")) for method, path in scopes_of(web)}
    for method, path in routes_of(web.app._app):
        if is_open(path) or path.startswith("/mcp") or method == "HEAD" or (method, path) in offered:
            continue
        reply = web.request(method, path, headers=admin)
        assert reply.status_code == 403, (method, path, reply.text)
        assert reply.json()["error"]["code"] == "NOT_ALLOWED"
    routes = {*routes_of(web.app._app)}
    assert not offered - routes, "what the list offers exists"


def test_every_operation_is_offered_or_refused_with_a_reason(web: TestClient, database: TeamDatabase) -> None:
    ann = person(database, "ann", ("read", "write"))
    assert TEAM_OPERATIONS.keys() | NOT_OFFERED.keys() == OPERATIONS.keys()
    assert not TEAM_OPERATIONS.keys() & NOT_OFFERED.keys()
    served = {path for method, path in routes_of(web.app._app) if method == "POST"}  # type: ignore[attr-defined]
    refused = [name for name in NOT_OFFERED if path_of(OPERATIONS[name]) in served]
    assert {"review", "index", "docs search", "agents run"} <= {*refused}
    for name in refused:
        reply = web.post(path_of(OPERATIONS[name]), headers=ann, json={})
        assert reply.status_code == 403
        assert NOT_OFFERED[name] in reply.json()["error"]["message"]


def test_a_route_needs_its_scope(web: TestClient, database: TeamDatabase) -> None:
    others = {
        scope: person(database, f"no-{scope}", [one for one in access.SCOPES if one != scope], admin=True)
        for scope in access.SCOPES
    }
    for (method, path), scope in scopes_of(web).items():
        reply = web.request(method, path, headers=others[scope])
        assert reply.status_code == 403, (method, path)
        assert f"scope {scope}" in reply.json()["error"]["message"]


def test_the_server_s_own_files_are_out_of_reach(web: TestClient, database: TeamDatabase, project: Path) -> None:
    """By any way that names a folder: the answer is that of a project that does not exist."""
    ann = person(database, "ann")
    access.grant(database, SEEN, "ann")
    for name in (str(project), ".", "bank", "/", str(project / "bank.py"), f"{SEEN}/../../..", "~", "file:///etc"):
        for path, values in (
            ("/api/v1/search", {"query": "transfer", "paths": [name]}),
            ("/api/v1/grep", {"pattern": "transfer", "paths": [name]}),
            ("/api/v1/map", {"path": name}),
            ("/tools/ast-find-definition", {"symbol": "Account", "repository": name}),
        ):
            reply = web.post(path, json=values, headers=ann)
            assert reply.status_code == 404, (path, name, reply.text)
            assert reply.json()["error"] == {
                "code": "REPO_NOT_FOUND",
                "message": f"no project {name.removeprefix('file://')} is indexed",
                "next": "`projects` lists what you may see",
            }
    reply = web.post("/api/v1/memory/list", json={}, headers=ann)
    assert SEEN in reply.text, "the only project that she may see"
    for given in (str(project / "bank.py"), "../bank.py", "/etc/passwd"):
        reply = web.post("/api/v1/symbols", json={"path": given, "root": SEEN}, headers=ann)
        assert reply.json()["error"]["code"] == "FOLDER_REFUSED", reply.text


def test_a_project_that_is_being_indexed_queues_nothing_on_the_server(web: TestClient, database: TeamDatabase) -> None:
    """Two servers have two data folders: what waited there would be seen by one of them only."""
    ann = person(database, "ann")
    access.grant(database, SEEN, "ann")
    with database.transaction() as db:
        db.execute("INSERT INTO trees(project, name, recipe) SELECT id, 'refs/heads/main', 'x' FROM projects")
    page = web.get("/", params={"q": "x", "project": SEEN}, headers=ann | {"HX-Request": "true"})
    assert f">{SEEN} " in page.text.lower()
    assert "is not indexed yet" in page.text
    state = web.app._app.state.codeinfo  # type: ignore[attr-defined]
    assert state.ingest.status() == IngestStatus((), ())


@pytest.mark.parametrize("grant", [False, True])
def test_a_hidden_project_is_answered_like_none(web: TestClient, database: TeamDatabase, grant: bool) -> None:
    ann = person(database, "ann")
    if grant:
        access.grant(database, SEEN, "ann")
    for path, field in (("/api/v1/search", "paths"), ("/api/v1/map", "path"), ("/api/v1/refs", "path")):
        replies = []
        for name in (HIDDEN, MISSING):
            values: dict[str, Any] = {field: [name] if field == "paths" else name}
            values |= {"query": "x"} if path.endswith("search") else {"name": "x"} if path.endswith("refs") else {}
            reply = web.post(path, json=values, headers=ann)
            replies.append((reply.status_code, reply.text.replace(name, "NAME"), sorted(reply.headers)))
        assert replies[0] == replies[1]
        assert replies[0][0] == 404


# --- MCP ---


def call_mcp(web: TestClient, headers: dict[str, str], method: str, path: str = "/mcp", **params: Any) -> Any:
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    reply = web.post(path, headers=sent | headers, content=json.dumps(body))
    if reply.status_code != 200:
        return reply
    return reply.json()


def test_every_tool_refuses_who_has_no_token_and_offers_only_the_list(web: TestClient, database: TeamDatabase) -> None:
    ann = person(database, "ann")
    tools = choose_tools(["all"])
    assert len(tools) > 40
    for tool in tools:
        assert call_mcp(web, {}, "tools/call", "/mcp/all", name=tool.name, arguments={}).status_code == 401
        if tool.operation not in TEAM_OPERATIONS:
            reported = call_mcp(web, ann, "tools/call", "/mcp/all", name=tool.name, arguments={})
            offered = is_offered_to_all(OPERATIONS[tool.operation])
            reason = NOT_OFFERED[tool.operation] if offered else "unknown tool"
            assert reason in reported["error"]["message"], tool.name
    listed = {one["name"] for one in call_mcp(web, ann, "tools/list", "/mcp/all")["result"]["tools"]}
    both = {name for name in TEAM_OPERATIONS if is_offered_to_all(OPERATIONS[name])}
    assert listed == {tool.name for tool in tools if tool.operation in both}
    assert call_mcp(web, ann, "resources/list")["result"]["resources"] == []
    assert "error" in call_mcp(web, ann, "resources/read", uri="codebase://context")


def test_a_tool_knows_its_caller_in_its_thread(web: TestClient, database: TeamDatabase) -> None:
    ann, bob = person(database, "ann"), person(database, "bob")
    access.grant(database, SEEN, "ann")
    arguments = {"query": "x", "project": SEEN}
    reported = call_mcp(web, bob, "tools/call", name="search_codebase", arguments=arguments)
    assert f"no project {SEEN} is indexed" in json.dumps(reported)
    call_mcp(web, ann, "tools/call", name="search_codebase", arguments=arguments)
    with database.transaction() as db:
        looks = db.execute(
            "SELECT u.name, p.identity, a.detail FROM audit a JOIN users u ON u.id = a.user_id "
            "JOIN projects p ON p.id = a.project WHERE action = 'search'"
        ).fetchall()
    assert looks == [("ann", SEEN, {"operation": "search"})]


def test_an_unexpected_error_tells_callers_nothing_of_the_server(
    web: TestClient, database: TeamDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("/srv/inner/index.db at 10.1.2.3")

    ann = person(database, "ann")
    access.grant(database, SEEN, "ann")
    monkeypatch.setattr("codeinfo.engine.Engine.search", fail)
    asked = {"query": "x", "paths": [SEEN]}
    replies = [
        web.post("/api/v1/search", json=asked, headers=ann).text,
        json.dumps(call_mcp(web, ann, "tools/call", name="search_codebase", arguments={"query": "x", "project": SEEN})),
    ]
    for reply in replies:
        assert "an unexpected error" in reply.lower()
        assert "inner" not in reply
        assert "10.1.2.3" not in reply


def test_what_the_database_refuses_does_not_tell_callers_where_it_is(
    web: TestClient, database: TeamDatabase, postgres: str
) -> None:
    ann = person(database, "ann")
    access.grant(database, SEEN, "ann")
    with database.transaction() as db:
        db.execute("REVOKE SELECT ON trees FROM codeinfo_request")
    reply = web.post("/api/v1/search", json={"query": "x", "paths": [SEEN]}, headers=ann)
    assert "may not do this" in reply.text
    assert database.address not in reply.text


def test_the_audit_log_keeps_queries_where_configured(database: TeamDatabase, postgres: str, project: Path) -> None:
    ann = person(database, "ann")
    access.grant(database, SEEN, "ann")
    with team_client(postgres, project, auth__audit_queries="true") as web:
        web.post("/api/v1/search", json={"query": "my words", "paths": [SEEN]}, headers=ann)
        assert web.get("/", params={"q": "a\0b", "project": SEEN}, headers=ann).status_code == 400
    with database.transaction() as db:
        (found,) = db.execute("SELECT detail FROM audit WHERE action = 'search'").fetchall()
    assert found[0] == {"operation": "search", "query": "my words"}


# --- sessions ---


def sign_in(web: TestClient, token: str, back: str = "/") -> Any:
    return web.post("/auth/token", data={"token": token, "back": back})


def test_refused_tokens_are_audited_and_a_flood_is_not(
    web: TestClient, database: TeamDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, unknown = person(database, "ann"), bearer("cit_" + "A" * 43)
    caller = caller_of(database, ann["Authorization"].removeprefix("Bearer "))
    assert caller is not None
    access.revoke_token(database, caller.token_id)
    for _ in range(50):
        for headers in (ann, unknown, bearer("nonsense")):
            assert web.post("/api/v1/projects", headers=headers, json={}).status_code == 401
    assert web.post("/auth/token", data={"token": "cit_" + "B" * 43}).status_code == 401

    def refusals() -> list[tuple[int | None, str, int | None, int]]:
        query = """SELECT user_id, detail->>'reason', (detail->>'token')::bigint, (detail->>'count')::int
                   FROM audit WHERE action = 'token refused' ORDER BY id"""
        return database.read(lambda db: db.execute(query).fetchall())

    first = [(caller.user_id, "revoked", caller.token_id, 1), (None, "unknown", None, 1), (None, "malformed", None, 1)]
    assert refusals() == first
    monkeypatch.setattr("codeinfo.serve.team.REFUSALS_S", 0.0)
    assert web.post("/api/v1/projects", headers=ann, json={}).status_code == 401
    assert refusals() == [*first, (caller.user_id, "revoked", caller.token_id, 50)]


def test_own_tokens_are_for_browsers_and_give_no_more_than_one_has(web: TestClient, database: TeamDatabase) -> None:
    ann = person(database, "ann", ("read",))
    form = {"action": "add", "scopes": "read", "days": "30"}
    assert "for people in a browser" in web.post("/ui/account", headers=ann, data=form).text
    entered = web.post("/auth/token", data={"token": ann["Authorization"].removeprefix("Bearer ")})
    assert entered.status_code == 200
    page = web.get("/ui/account").text
    (token,) = re.findall(r'name="codeinfo-token" content="([\w-]+)"', page)
    own = {"X-CodeInfo-Token": token}
    refused = web.post("/ui/account", headers=own, data=form | {"scopes": "read,write"}).text
    assert "You do not have the scope write here" in refused
    made = web.post("/ui/account", headers=own, data=form).text
    (new,) = re.findall(r'id="new-token">(cit_[\w-]+)<', made)
    assert caller_of(database, new) is not None
    other = caller_of(database, person(database, "bob")["Authorization"].removeprefix("Bearer "))
    assert other is not None
    stolen = {"action": "revoke", "token": str(other.token_id)}
    assert "There is no valid token" in web.post("/ui/account", headers=own, data=stolen).text
    with database.transaction() as db:
        parent = db.execute("SELECT made_with FROM tokens WHERE made_with IS NOT NULL").fetchall()[0][0]
    access.revoke_token(database, parent)
    assert caller_of(database, new) is None  # it ends with the one that it was made with


def test_administrators_remove_users_on_their_page_and_nobody_else_does(
    web: TestClient, database: TeamDatabase
) -> None:
    root, ann = person(database, "root", access.SCOPES, admin=True), person(database, "ann", ("read", "write"))
    form = {"action": "team user remove", "name": "ann"}
    assert web.post("/ui/admin", headers=ann, data=form).status_code == 403
    sign_in(web, root["Authorization"].removeprefix("Bearer "))
    assert web.post("/ui/admin", data=form).status_code == 401, "without the page's token"
    assert web.post("/api/v1/projects", headers=ann, json={}).status_code == 200
    (token,) = re.findall(r'name="codeinfo-token" content="([\w-]+)"', web.get("/ui/admin").text)
    page = web.post("/ui/admin", headers={"X-CodeInfo-Token": token}, data=form)
    assert "user removed" in page.text
    assert web.post("/api/v1/projects", headers=ann, json={}).status_code == 401


def test_a_session_works_on_every_server_and_ends_with_its_token(
    web: TestClient, database: TeamDatabase, postgres: str, project: Path
) -> None:
    access.create_user(database, "ann")
    token = access.create_token(database, "ann")
    assert "Sign in" in web.get("/auth/sign-in").text
    page = web.get("/", headers={"Accept": "text/html"})
    assert (page.status_code, "/auth/sign-in?back=/" in page.text) == (401, True)
    assert sign_in(web, "cit_wrong").status_code == 401
    assert COOKIE not in web.cookies
    reply = sign_in(web, token, "/ui/map?project=x")
    assert reply.status_code == 200
    assert "url=/ui/map?project=x" in reply.text
    assert "HttpOnly" in reply.headers["set-cookie"]
    assert web.get("/openapi.json").status_code == 200
    with team_client(postgres, project) as other:
        other.cookies = web.cookies
        assert other.get("/openapi.json").status_code == 200
        assert other.get("/openapi.json", headers=bearer("cit_" + "B" * 43)).status_code == 401
        refused = other.post("/api/v1/search", json={"query": "x"})
        assert refused.json()["error"]["message"] == "this needs the page's token"
        access.revoke_token(database, 1)
        assert other.get("/openapi.json").status_code == 401
    assert web.get("/openapi.json").status_code == 401


def test_signing_out_ends_the_session_everywhere(web: TestClient, database: TeamDatabase) -> None:
    access.create_user(database, "ann")
    sign_in(web, access.create_token(database, "ann"))
    assert isinstance(web.app, TeamGuard)
    kept = web.cookies[COOKIE].strip('"')
    page_token = web.app._authenticator.sessions.token_of(kept.rpartition(".")[0])
    assert web.post("/auth/sign-out").status_code == 401
    done = web.post("/auth/sign-out", headers={"X-CodeInfo-Token": page_token}, follow_redirects=False)
    assert (done.status_code, done.headers["hx-redirect"]) == (204, "/")
    assert web.get("/openapi.json", headers={"Cookie": f"{COOKIE}={kept}"}).status_code == 401


def test_a_form_of_too_many_fields_is_refused(web: TestClient) -> None:
    fields = {f"name{number}": "x" for number in range(100)}
    assert web.post("/auth/token", data=fields).status_code == 400


def test_a_slow_database_holds_up_nobody_who_does_not_need_it(web: TestClient, database: TeamDatabase) -> None:
    ann = person(database, "ann")
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as db:
            db.execute("LOCK TABLE answers IN ACCESS EXCLUSIVE MODE")
            waiting = pool.submit(web.get, "/chat/runs/unknown/events", headers=ann)
            wait_until(lambda: database.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
            assert web.get("/auth/sign-in").status_code == 200
            assert not waiting.done()
        assert waiting.result(120).status_code == 404


def test_a_forged_session_is_none(web: TestClient, database: TeamDatabase) -> None:
    access.create_user(database, "ann")
    sign_in(web, access.create_token(database, "ann"))
    kept = web.cookies[COOKIE].strip('"')
    name, _, signature = kept.rpartition(".")
    web.cookies.clear()
    for forged in (f"{name[:-1]}x.{signature}", f"{name}.", f"{name}.{'A' * 43}", f"9{name}.{signature}"):
        assert web.get("/openapi.json", headers={"Cookie": f"{COOKIE}={forged}"}).status_code == 401


def test_a_session_that_began_while_the_clock_was_ahead_is_over(database: TeamDatabase) -> None:
    user = access.create_user(database, "ann")
    began, _, rest = access.new_session(database, user).partition(".")
    for ahead_s, is_valid in ((0, True), (access.CLOCK_SKEW_S / 2, True), (access.CLOCK_SKEW_S * 2, False)):
        name = f"{int(began) + int(ahead_s * 1_000_000)}.{rest}"
        assert (access.session_caller(database, name) is not None) is is_valid


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("/ui/map?a=b", "/ui/map?a=b"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil", "/"),
        ("", "/"),
    ],
)
def test_signing_in_leads_to_these_pages_only(given: str, taken: str) -> None:
    assert local_address(given) == taken


# --- while a response goes on ---


def stream_app(seen: list[str], streaming: threading.Event) -> Any:
    """An application that streams for long, and says who asks, on the loop and in a thread."""

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        caller = access.current_user.get()
        in_thread = await anyio.to_thread.run_sync(access.current_user.get)
        assert caller is not None
        seen.append(f"{caller.name} {in_thread is caller}")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for sent in range(6000):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            if sent == 3:
                streaming.set()
            await anyio.sleep(0.05)
        await send({"type": "http.response.body", "body": b"end"})

    return app


def test_a_revoked_token_ends_a_running_stream(database: TeamDatabase) -> None:
    headers, seen, streaming = person(database, "ann"), list[str](), threading.Event()
    allowed = Access(hosts_for("127.0.0.1", PORT), "unused")
    guard = TeamGuard(stream_app(seen, streaming), allowed, Authenticator(database), lambda scope: "read")

    def revoke() -> None:
        streaming.wait(120)
        access.revoke_token(database, 1)

    revoking = threading.Thread(target=revoke)
    revoking.start()
    reply = TestClient(guard, base_url=ADDRESS).get("/", headers=headers)
    revoking.join()
    assert len(reply.text) < 2000, "a hundred seconds"
    assert reply.text.startswith("xxx")
    assert not reply.text.endswith("end")
    assert seen == ["ann True"]


def test_a_database_that_is_gone_is_said_so() -> None:
    authenticator = Authenticator(TeamDatabase("postgresql://codeinfo@127.0.0.1:1/team"))
    guard = TeamGuard(
        stream_app([], threading.Event()),
        Access(hosts_for("127.0.0.1", PORT), "unused"),
        authenticator,
        lambda scope: "read",
    )
    reply = TestClient(guard, base_url=ADDRESS).get("/", headers=bearer("cit_" + "A" * 43))
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "STORE_UNAVAILABLE"
    assert "127.0.0.1" not in reply.text, "where the database is concerns the operator"
