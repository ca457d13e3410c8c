"""Push webhooks as GitHub, GitLab, Gitea and other programs send them: signatures, replays, strangers, the queue."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from git_server import serving
from repository_tools import Repository
from starlette.testclient import TestClient
from team_server_tools import team_client
from worker_tools import Team

from codeinfo.operations.team import (
    HOOK_KINDS,
    TeamAuditRequest,
    TeamHookRotateRequest,
    TeamJobsRequest,
    TeamProjectAddRequest,
    TeamProjectRequest,
)
from codeinfo.serve.auth import MAX_HOOK_BYTES
from codeinfo.team.access import CLOCK_SKEW_S, project_id
from codeinfo.team.receiving import SCHEMES, HookRefused, receive, secrets_of, sign

MAIN = "refs/heads/main"
PROJECT = "code.example/owner/name"
URL = f"https://{PROJECT}.git"


@pytest.fixture
def team(postgres: str, tmp_path: Path) -> Iterator[Team]:
    team = Team(postgres, tmp_path / "machine")
    team.engine.team.add_project(TeamProjectAddRequest(URL, follow=("refs/heads/release-*",)))
    with team.database.transaction() as db:
        db.execute("UPDATE projects SET default_ref = %s", (MAIN,))
        db.execute("DELETE FROM procrastinate_jobs")
    yield team
    team.close()


@pytest.fixture
def client(team: Team) -> Iterator[TestClient]:
    with team_client(team.environment["CODEINFO_STORE_URL"], team.home) as client:
        yield client


def secret(team: Team, project: str = PROJECT) -> str:
    with team.engine.team.store.transaction() as db:
        return secrets_of(db, project_id(db, project))[0]


def queued(team: Team) -> list[str]:
    with team.engine.team.store.transaction() as db:
        return [row[0] for row in db.execute("SELECT args->>'ref' FROM procrastinate_jobs ORDER BY id")]


def github(ref: str = MAIN, url: str = URL) -> dict[str, Any]:
    """The fields of GitHub's push event that matter, and some of the others."""
    return {
        "ref": ref,
        "before": "0" * 40,
        "after": "1" * 40,
        "created": False,
        "deleted": False,
        "compare": "https://code.example/owner/name/compare/0...1",
        "commits": [{"id": "1" * 40, "message": "Change", "added": [], "removed": [], "modified": ["a.py"]}],
        "head_commit": {"id": "1" * 40},
        "repository": {"id": 1, "full_name": "owner/name", "private": True, "clone_url": url, "default_branch": "main"},
        "pusher": {"name": "ann", "email": "ann@example.org"},
        "sender": {"login": "ann"},
    }


def gitlab(ref: str = MAIN) -> dict[str, Any]:
    address = {"git_http_url": URL, "git_ssh_url": "git@code.example:owner/name.git", "default_branch": "main"}
    return {
        "object_kind": "push",
        "event_name": "push",
        "before": "0" * 40,
        "after": "1" * 40,
        "ref": ref,
        "user_username": "ann",
        "project_id": 15,
        "project": {"id": 15, "name": "name", "path_with_namespace": "owner/name", **address},
        "repository": {"name": "name", "url": "git@code.example:owner/name.git", **address},
        "commits": [],
        "total_commits_count": 0,
    }


def signed(key: str, body: bytes) -> str:
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def headers_of(kind: str, key: str, body: bytes, delivery: str = "d-1") -> dict[str, str]:
    moment = str(int(time.time()))
    return {
        "github": {
            "x-github-event": "push",
            "x-github-delivery": delivery,
            "x-hub-signature-256": f"sha256={signed(key, body)}",
        },
        "gitlab": {"x-gitlab-event": "Push Hook", "x-gitlab-token": key, "idempotency-key": delivery},
        "gitea": {"x-gitea-event": "push", "x-gitea-delivery": delivery, "x-gitea-signature": signed(key, body)},
        "push": {
            "x-codeinfo-delivery": delivery,
            "x-codeinfo-timestamp": moment,
            "x-codeinfo-signature": sign(key, moment, delivery, body),
        },
    }[kind]


BODIES = {
    "github": github(),
    "gitlab": gitlab(),
    "gitea": github(),
    "push": {"project": PROJECT, "ref": MAIN},
}


def send(client: TestClient, kind: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
    reply = client.post(f"/hooks/{kind}", content=body, headers={"content-type": "application/json", **headers})
    return reply.status_code, reply.json()


@pytest.mark.parametrize("address", ["\0", "https://[::1/owner/name"])
def test_an_address_that_is_none_is_refused(client: TestClient, address: str) -> None:
    body = json.dumps(github(url=address)).encode()
    status, _ = send(client, "github", body, headers_of("github", "wrong", body))
    assert status in (400, 401)


def test_a_push_is_queued_once(client: TestClient, team: Team) -> None:
    for kind, content in BODIES.items():
        body = json.dumps(content).encode()
        headers = headers_of(kind, secret(team), body)
        assert send(client, kind, body, headers) == (202, {"status": "queued"})
        status, answer = send(client, kind, body, headers)
        assert (status, answer["error"]["code"]) == (409, "REPLAYED")
        assert queued(team) == [MAIN]  # what waits will see all of them


def test_a_stranger_learns_nothing(client: TestClient, team: Team) -> None:
    """A wrong secret, no secret, and a project that is not here: all the same answer."""
    right, answers = secret(team), set[str]()
    for kind, content in BODIES.items():
        known = json.dumps(content).encode()
        unknown = known.replace(b"owner/name", b"owner/other")
        tries: list[tuple[bytes, Mapping[str, str]]] = [
            (known, headers_of(kind, "cih_wrong", known)),
            (known, {}),
            (unknown, headers_of(kind, right, unknown)),
            (unknown, headers_of(kind, "cih_wrong", unknown)),
            (b"not json", headers_of(kind, right, b"not json")),
            (b"[]", headers_of(kind, right, b"[]")),
        ]
        if kind != "gitlab":  # which sends a token, and signs nothing
            tries.append((known + b" ", headers_of(kind, right, known)))
        answers |= {json.dumps(send(client, kind, body, headers)) for body, headers in tries}
    assert len(answers) == 1
    assert json.loads(answers.pop())[0] == 401
    assert queued(team) == []
    with team.engine.team.store.transaction() as db:
        assert db.execute("SELECT count(*) FROM deliveries").fetchall() == [(0,)]


def test_only_what_is_followed_is_queued(client: TestClient, team: Team) -> None:
    def push(ref: str, delivery: str, event: str = "push") -> Any:
        body = json.dumps(github(ref)).encode()
        return send(
            client, "github", body, headers_of("github", secret(team), body, delivery) | {"x-github-event": event}
        )

    assert push("refs/heads/topic", "1") == (202, {"status": "ignored: the project does not follow it"})
    assert push("refs/heads/release-2", "2") == (202, {"status": "queued"})
    assert push(MAIN, "3", "issues") == (202, {"status": "ignored: not about a branch or tag"})
    assert push("release-3", "4", "create") == (202, {"status": "queued"})  # a short name: all is looked at
    assert queued(team) == ["refs/heads/release-2", ""]


def test_a_plain_message_is_signed_with_its_time_and_id(client: TestClient, team: Team) -> None:
    body, key = json.dumps(BODIES["push"]).encode(), secret(team)
    late = str(int(time.time() - CLOCK_SKEW_S - 5))
    old = {"x-codeinfo-delivery": "a", "x-codeinfo-timestamp": late, "x-codeinfo-signature": sign(key, late, "a", body)}
    assert send(client, "push", body, old)[0] == 401
    good = headers_of("push", key, body, "a")
    assert send(client, "push", body, good | {"x-codeinfo-delivery": "b"})[0] == 401
    assert send(client, "push", body, {"x-codeinfo-token": key})[0] == 400  # by token, without an id
    assert send(client, "push", body, {"x-codeinfo-token": key, "x-codeinfo-delivery": "c"})[0] == 202
    assert queued(team) == [MAIN]


def test_an_identity_may_have_a_port(team: Team) -> None:
    project = team.engine.team.add_project(TeamProjectAddRequest("https://code.example:8443/owner/name")).project
    body = json.dumps({"project": project, "ref": MAIN}).encode()
    assert receive(team.database, "push", headers_of("push", secret(team, project), body), body) == "queued"


def test_a_rotated_secret_and_the_one_before_are_accepted_for_a_while(team: Team) -> None:
    old = secret(team)
    rotated = team.engine.team.rotate_hook(TeamHookRotateRequest(PROJECT, hours=1))
    assert rotated.secret != old
    assert rotated.old_secret_until

    def accepts(key: str, delivery: str) -> bool:
        for kind, content in BODIES.items():
            body = json.dumps(content).encode()
            try:
                receive(team.database, kind, headers_of(kind, key, body, delivery), body)
            except HookRefused:
                return False
        return True

    assert accepts(old, "a")
    assert accepts(rotated.secret, "b")
    with team.database.transaction() as db:
        db.execute("UPDATE projects SET old_hook_until = now()")
    assert not accepts(old, "c")
    assert accepts(rotated.secret, "d")
    newest = team.engine.team.rotate_hook(TeamHookRotateRequest(PROJECT, hours=0))
    assert newest.old_secret_until == ""
    assert not accepts(rotated.secret, "e")
    assert not accepts(old, "f")
    assert accepts(newest.secret, "g")
    assert [event.action for event in team.engine.team.audit(TeamAuditRequest()).events][:2] == [
        "webhook secret replaced",
        "webhook secret replaced",
    ]


def test_every_kind_has_a_route() -> None:
    assert set(HOOK_KINDS) == set(SCHEMES) == set(BODIES)


def test_bodies_are_bounded(client: TestClient, team: Team) -> None:
    large = github()
    large["commits"] = [{"message": "x" * 1000}] * 2000  # as of a push of many commits
    body = json.dumps(large).encode()
    assert len(body) > 2_000_000
    assert send(client, "github", body, headers_of("github", secret(team), body))[0] == 202
    assert send(client, "github", b" " * (MAX_HOOK_BYTES + 1), {})[0] == 413
    assert client.post("/hooks/unknown", content=b"{}").status_code in (401, 404)
    assert client.get("/hooks/github").status_code in (401, 404, 405)


def test_a_secret_is_one_projects_alone(team: Team) -> None:
    other = team.engine.team.add_project(TeamProjectAddRequest("https://code.example/owner/other")).secret
    body = json.dumps(BODIES["github"]).encode()
    former = headers_of("github", secret(team), body)
    with team.database.transaction() as db:
        stored = db.execute("SELECT string_agg(p::text, '') FROM projects p").fetchall()[0][0]
        assert other not in stored
        db.execute("UPDATE projects SET hook_version = hook_version + 1")
    with team_client(team.environment["CODEINFO_STORE_URL"], team.home) as client:
        assert send(client, "github", body, headers_of("github", other, body))[0] == 401
        assert send(client, "github", body, former)[0] == 401
        assert send(client, "github", body, headers_of("github", secret(team), body))[0] == 202


def test_from_a_push_to_the_tree(postgres: str, tmp_path: Path) -> None:
    """The whole way: a repository, its webhook, a worker, the tree."""
    (tmp_path / "served").mkdir()
    upstream = Repository(tmp_path / "served" / "shop")
    upstream.commit("Begin", {"a.py": "def a():\n    return 1\n"})
    team = Team(postgres, tmp_path / "machine")
    with serving(tmp_path / "served") as server:
        project = team.add(server, "shop")
        team.work()
        key = team.engine.team.project(TeamProjectRequest(project)).secret
        commit = upstream.commit("More", {"b.py": "def b():\n    return 2\n"})
        body = json.dumps(github(url=server.url("shop"))).encode()
        with team_client(postgres, tmp_path) as client:
            assert send(client, "github", body, headers_of("github", key, body))[0] == 202
        team.work()
    assert team.engine.team.jobs(TeamJobsRequest()).runs[0].revision == commit
    team.close()
