"""Signing in with OpenID Connect, against a provider that runs here and signs real tokens."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from oidc_tools import CLIENT, SECRET, Provider, provider
from patience import within
from starlette.testclient import TestClient
from team_server_tools import ADDRESS, add_projects, bearer, team_app, team_client

from codeinfo.errors import ProviderError, UsageError
from codeinfo.serve.auth import COOKIE
from codeinfo.settings import AuthSettings
from codeinfo.shells.http_team import BROWSER
from codeinfo.team import access
from codeinfo.team.database import TeamDatabase
from codeinfo.team.oidc import SignInService
from codeinfo.team.store import create_tree

ONE = "git.example/a/one"


@pytest.fixture(scope="module")
def service() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def database(postgres: str, service: Provider) -> Iterator[TeamDatabase]:
    fresh = Provider()
    service.key = service.published = fresh.key
    service.user, service.spoil, service.codes = fresh.user, fresh.spoil, fresh.codes
    made = TeamDatabase(postgres)
    add_projects(made, ONE)
    yield made
    made.close()


@pytest.fixture
def web(
    database: TeamDatabase, postgres: str, project: Path, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    monkeypatch.setenv("THE_SECRET", SECRET)
    settings = {"auth__issuer": service.issuer, "auth__client_id": CLIENT, "auth__client_secret_env": "THE_SECRET"}
    with team_client(postgres, project, auth__admin_group="leads", **settings) as made:
        yield made


def test_a_secret_that_is_named_but_unset_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THE_SECRET", raising=False)
    settings = {"auth__issuer": "https://id.example", "auth__client_id": "x", "auth__client_secret_env": "THE_SECRET"}
    with pytest.raises(UsageError, match="THE_SECRET"):
        team_app("postgresql://nowhere/team", project, **settings)


def begin(web: TestClient, back: str = "/openapi.json") -> str:
    """Where the service is asked; the browser now has a cookie."""
    reply = web.get("/auth/start", params={"back": back}, follow_redirects=False)
    assert reply.status_code == 303, reply.text
    return str(reply.headers["location"])


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Redirects are looked at, not followed."""


def sent_back(address: str) -> str:
    """Somebody signs in there: the address of ours that they come back to, without the host."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.build_opener(_Stay).open(address, timeout=120)
    with caught.value as reply:
        return str(reply.headers["Location"]).removeprefix(ADDRESS)


def sign_in(web: TestClient) -> Any:
    return web.get(sent_back(begin(web)))


def test_who_signs_in_is_a_user_with_the_groups_of_the_service(
    web: TestClient, database: TeamDatabase, service: Provider
) -> None:
    access.add_members(database, "core", [])
    access.grant(database, ONE, "@core")
    service.user |= {"groups": ["core", "not a name"]}
    assert "Sign in with 127.0.0.1" in web.get("/auth/sign-in").text
    reply = sign_in(web)
    assert reply.status_code == 200, reply.text
    assert "url=/openapi.json" in reply.text
    assert web.get("/openapi.json").status_code == 200
    with database.transaction() as db:
        (row,) = db.execute("SELECT id, subject, name, email, admin FROM users").fetchall()
    assert row[1:] == (f"{service.issuer} 1", "ann", "ann@example.org", False)
    with database.transaction(row[0]) as db:
        assert db.execute("SELECT identity FROM projects").fetchall() == [(ONE,)]
    access.add_members(database, "kept", ["ann"])
    service.user["groups"] = ["leads"]
    assert sign_in(web).status_code == 200
    with database.transaction() as db:
        groups = db.execute("SELECT g.name FROM members m JOIN groups g ON g.id = m.group_id ORDER BY 1").fetchall()
        assert [name for (name,) in groups] == ["kept", "leads"]
        assert db.execute("SELECT admin FROM users").fetchall() == [(True,)]
    assert sign_in(web).status_code == 200  # nothing has changed
    with database.transaction() as db:
        kinds = ("signed in", "groups changed", "made administrator")
        audited = db.execute("SELECT action, detail FROM audit WHERE action = ANY(%s) ORDER BY id", (list(kinds),))
        changes = [(action, detail.get("groups")) for action, detail in audited if action != "signed in"]
        signed = db.execute("SELECT count(*) FROM audit WHERE action = 'signed in'").fetchall()
    assert changes == [
        ("groups changed", ["core"]),
        ("made administrator", None),
        ("groups changed", ["kept", "leads"]),
    ]
    assert signed == [(3,)]


def test_a_name_that_is_taken_gives_nobody_its_rights(
    web: TestClient, database: TeamDatabase, service: Provider
) -> None:
    ann = access.create_user(database, "ann", admin=True)
    access.grant(database, ONE, "everyone")
    with database.transaction() as db:
        create_tree(db, ONE, "work/ann/mine", "r", owner=ann)
        create_tree(db, ONE, "work/ann-2/desktop/folder", "r")  # of an operator with that name on a machine
    assert sign_in(web).status_code == 200
    with database.transaction() as db:
        rows = db.execute("SELECT name, admin FROM users ORDER BY id").fetchall()
        namesake = access.user_id(db, "ann-2")
    assert rows == [("ann", True), ("ann-2", False)]
    with database.transaction(namesake) as db:
        assert db.execute("SELECT identity FROM projects").fetchall() == [(ONE,)]
        assert db.execute("SELECT name FROM trees").fetchall() == []


def test_who_is_disabled_cannot_sign_in(web: TestClient, database: TeamDatabase, service: Provider) -> None:
    sign_in(web)
    access.set_disabled(database, "ann", True)
    reply = sign_in(web)
    assert reply.status_code == 403
    assert "disabled" in reply.text


WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "audience": lambda claims: claims.update(aud="another"),
    "issuer": lambda claims: claims.update(iss="https://evil.example"),
    "expired": lambda claims: claims.update(exp=int(time.time()) - 120),
    "nonce": lambda claims: claims.update(nonce="another"),
    "no nonce": lambda claims: claims.pop("nonce"),
    "no end": lambda claims: claims.pop("exp"),
    "no user": lambda claims: claims.pop("sub"),
    "for another of several": lambda claims: claims.update(aud=["another", CLIENT], azp="another"),
    "from the future": lambda claims: claims.update(nbf=int(time.time()) + 600),
}


def test_an_issuer_that_ends_with_a_slash_is_compared_as_the_service_writes_it(
    database: TeamDatabase, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Auth0 names itself so; get_well_known_url needs it without."""
    monkeypatch.setattr(service, "metadata", lambda: Provider.metadata(service) | {"issuer": f"{service.issuer}/"})
    settings = AuthSettings(issuer=f"{service.issuer}/", client_id=CLIENT)
    signing = SignInService(database, settings, SECRET, redirect="", audience="us")
    with database.transaction() as db:
        access.add_subject(db, f"{service.issuer} 1", "ann", "")
    found = signing.by_access_token(service.access_token("us", iss=f"{service.issuer}/"))
    assert found is not None
    assert found.name == "ann"
    assert signing.by_access_token(service.access_token("us")) is None


def test_a_service_names_no_files_of_this_machine(
    database: TeamDatabase, service: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [service.key.as_dict(private=False)]}))
    metadata = Provider.metadata(service) | {"jwks_uri": f"file://localhost{keys}"}
    monkeypatch.setattr(service, "metadata", lambda: metadata)
    signing = SignInService(
        database, AuthSettings(issuer=service.issuer, client_id=CLIENT), SECRET, redirect="", audience="us"
    )
    with pytest.raises(ProviderError, match="not secure"):
        signing.by_access_token(service.access_token("us"))


@pytest.mark.parametrize("what", WRONG)
def test_an_id_token_that_is_not_for_this_sign_in_is_refused(
    web: TestClient, database: TeamDatabase, service: Provider, what: str
) -> None:
    service.spoil = WRONG[what]
    reply = sign_in(web)
    assert reply.status_code == 403, reply.text
    assert "not valid" in reply.text
    assert COOKIE not in web.cookies
    with database.transaction() as db:
        assert db.execute("SELECT count(*) FROM users").fetchall() == [(0,)]


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize("what", ["another key", "none", "HS256 with the public key"])
def test_a_signature_that_is_not_the_services_is_refused(
    web: TestClient, database: TeamDatabase, service: Provider, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def forged(claims: dict[str, Any], header: Any = None, key: Any = None) -> str:
        head = {"alg": "none"} if what == "none" else {"alg": "HS256", "kid": service.published.kid}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        public = service.published.as_pem(private=False)
        return f"{signed}.{'' if what == 'none' else _base64(hmac.digest(public, signed.encode(), 'sha256'))}"

    if what == "another key":
        service.key = Provider.new_key()
    else:
        monkeypatch.setattr(service, "sign", forged)
    reply = sign_in(web)
    assert reply.status_code == 403
    assert "signature is not valid" in reply.text
    assert COOKIE not in web.cookies


def test_keys_that_the_service_changed_are_fetched(
    web: TestClient, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sign_in(web).status_code == 200
    service.key = service.published = Provider.new_key()
    monkeypatch.setattr("codeinfo.team.oidc._KEYS_S", 0.0)
    assert sign_in(web).status_code == 200


def test_nobody_waits_for_a_service_that_was_just_asked_in_vain(
    database: TeamDatabase, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AuthSettings(issuer=service.issuer, client_id=CLIENT)
    signing = SignInService(database, settings, SECRET, redirect="", audience="")
    assert signing.by_access_token("a.b.c") is None
    monkeypatch.setattr("codeinfo.team.oidc._TIMEOUT_S", 0.1)
    monkeypatch.setattr("codeinfo.team.oidc._KEYS_S", 1.0)
    monkeypatch.setattr(service, "delay_s", 2.0)
    time.sleep(1.1)
    with pytest.raises(ProviderError):
        signing.by_access_token("a.b.c")
    monkeypatch.setattr("codeinfo.team.oidc._KEYS_S", 60.0)
    assert signing.by_access_token("a.b.c") is None, "by the keys that are known"


def test_strangers_who_begin_sign_ins_hold_up_nobody_while_the_service_is_silent(
    database: TeamDatabase, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.team.oidc._TIMEOUT_S", 120.0)
    monkeypatch.setattr("codeinfo.team.oidc._KEYS_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(20) as pool:
        settings = AuthSettings(issuer=f"http://127.0.0.1:{silent.getsockname()[1]}", client_id=CLIENT)
        signing = SignInService(database, settings, SECRET, redirect="", audience="")
        first = pool.submit(signing.begin, "/")
        asked, _ = silent.accept()
        with asked, within(60):
            others = [pool.submit(signing.begin, "/") for _ in range(50)]
            assert all("did not answer" in str(other.exception()) for other in others)
        assert isinstance(first.exception(), ProviderError)
    with database.transaction() as db:
        assert db.execute("SELECT count(*) FROM sign_ins").fetchall() == [(0,)]
    monkeypatch.setattr(service, "delay_s", 0.5)
    signing = SignInService(
        database, AuthSettings(issuer=service.issuer, client_id=CLIENT), SECRET, redirect="", audience=""
    )
    with ThreadPoolExecutor(2) as pool:
        begun = [pool.submit(signing.begin, "/") for _ in range(2)]
        assert len({one.result() for one in begun}) == 2


def test_strangers_who_begin_sign_ins_fill_no_disk(
    web: TestClient, database: TeamDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.team.oidc._MOST_BEGUN", 3)
    monkeypatch.setattr("codeinfo.team.oidc._SWEEP_S", 0)
    for _ in range(9):
        begin(web, f"/{'x' * 50_000}")
    ((count, longest),) = database.rows("SELECT count(*), max(length(back)) FROM sign_ins")
    assert (count, longest) == (4, 1)
    assert sign_in(web).status_code == 200, "the latest is kept"


def test_a_sign_in_is_finished_once_and_by_the_browser_that_began_it(
    web: TestClient, database: TeamDatabase, service: Provider
) -> None:
    back = sent_back(begin(web))
    browser = web.cookies[BROWSER]
    web.cookies.clear()
    assert web.get(back).status_code == 403, "somebody else's browser"
    again = sent_back(begin(web))
    assert web.get(again).status_code == 200
    web.cookies.clear()
    for replayed in (again, back, "/auth/callback?code=x&state=x", "/auth/callback"):
        reply = web.get(replayed, headers={"Cookie": f"{BROWSER}={browser}"})
        assert reply.status_code == 403
        assert "already finished" in reply.text
    late = sent_back(begin(web))
    with database.transaction() as db:
        db.execute("UPDATE sign_ins SET expires_at = now()")
    assert web.get(late).status_code == 403


def test_behind_https_no_other_host_can_set_what_a_sign_in_goes_by(
    database: TeamDatabase, postgres: str, project: Path, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or an attacker's page on a host of the same domain would sign its visitors in as the attacker."""
    public = "https://code.example"
    monkeypatch.setenv("THE_SECRET", SECRET)
    settings = {"auth__issuer": service.issuer, "auth__client_id": CLIENT, "auth__client_secret_env": "THE_SECRET"}
    app = team_app(postgres, project, public=public, **settings)
    with TestClient(app, base_url=public, raise_server_exceptions=False) as web:
        started = web.get("/auth/start", follow_redirects=False)
        cookie = started.headers["set-cookie"].split("; ")
        assert cookie[0].startswith(f"__Host-{BROWSER}=")
        assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie)
        back = sent_back(started.headers["location"]).removeprefix(public)
        web.cookies.clear()
        planted = {"Cookie": cookie[0].removeprefix("__Host-")}
        assert web.get(back, headers=planted).status_code == 403
        started = web.get("/auth/start", follow_redirects=False)
        reply = web.get(sent_back(started.headers["location"]).removeprefix(public))
        assert reply.status_code == 200
        session, *flags = reply.headers["set-cookie"].split("; ")
        assert session.startswith(f"__Host-{COOKIE}=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Strict"} <= set(flags)
        assert web.get("/openapi.json", headers={"Cookie": session}).status_code == 200
        web.cookies.clear()
        planted = {"Cookie": session.removeprefix("__Host-")}
        assert web.get("/openapi.json", headers=planted).status_code == 401


def test_a_service_that_refuses_or_is_gone_is_said_so(web: TestClient, service: Provider) -> None:
    state = dict(part.split("=") for part in begin(web).partition("?")[2].split("&"))["state"]
    reply = web.get(f"/auth/callback?error=access_denied%3Cscript%3E&state={state}")
    assert reply.status_code == 403
    assert "access_denied&lt;script&gt;" in reply.text
    back = sent_back(begin(web))
    service.codes.clear()
    assert "answered 400" in web.get(back).text


def test_only_safe_services_are_configured(database: TeamDatabase) -> None:
    for settings in (
        AuthSettings(issuer="http://id.example", client_id="x"),
        AuthSettings(issuer="https://id.example"),
    ):
        with pytest.raises(UsageError):
            SignInService(database, settings, "", redirect="", audience="")


# --- MCP ---


def test_clients_of_mcp_learn_whom_to_ask(web: TestClient, service: Provider) -> None:
    refused = web.post("/mcp", json={})
    assert refused.status_code == 401
    address = f"{ADDRESS}/.well-known/oauth-protected-resource"
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{address}"'
    for path in ("", "/mcp"):
        found = web.get(f"/.well-known/oauth-protected-resource{path}").json()
        assert found["resource"] == f"{ADDRESS}/mcp"
        assert found["authorization_servers"] == [service.issuer]
        assert found["bearer_methods_supported"] == ["header"]


def test_an_access_token_of_the_service_is_taken_if_it_is_for_this_server(
    web: TestClient, database: TeamDatabase, service: Provider
) -> None:
    resource = f"{ADDRESS}/mcp"
    asked = service.access_token(resource)
    assert web.get("/openapi.json", headers=bearer(asked)).status_code == 401, "nobody has signed in yet"
    sign_in(web)
    web.cookies.clear()
    assert web.get("/openapi.json", headers=bearer(asked)).status_code == 200
    other = Provider.new_key()
    for wrong in (
        service.access_token(CLIENT),
        service.access_token(resource, exp=int(time.time()) - 120),
        service.access_token(resource, iss="https://evil.example"),
        service.access_token(resource, sub="2"),
        service.sign({"aud": resource, "iss": service.issuer, "sub": "1"}),
        service.sign({"aud": resource, "iss": service.issuer, "sub": "1", "exp": 9e9}, {"alg": "RS256"}, other),
        asked[:-4] + "AAAA",
        "a.b.c",
        ".".join(_base64(part) for part in (b'{"alg": "RS256", "crit": [[]]}', b"{}", b"x")),
        ".".join(_base64(part) for part in (b"[" * 9000, b"{}", b"x")),
    ):
        assert web.get("/openapi.json", headers=bearer(wrong)).status_code == 401
    access.set_disabled(database, "ann", True)
    assert web.get("/openapi.json", headers=bearer(asked)).status_code == 401
