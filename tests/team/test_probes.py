"""A slice of the random probes: `python tests/access_probes.py` does 10,000 over 50 projects."""

from __future__ import annotations

import random
from pathlib import Path

from access_probes import probe, set_up_team
from team_server_tools import team_client


def test_no_probe_finds_anything_of_a_project_that_its_user_may_not_see(postgres: str, tmp_path: Path) -> None:
    found = probe(postgres, tmp_path, probes=300, projects=6, seed=7)
    assert not found.leaks, "\n".join(found.leaks[:5])
    assert found.probes == 300 > found.targets, "everything is asked once"
    assert found.statuses["POST 200"] > 5, "some questions are answered"
    assert found.statuses["MCP 200"] > 20
    assert len(found.hidden_ms) > 10


def test_what_somebody_asked_is_theirs_alone(postgres: str, tmp_path: Path) -> None:
    setup = set_up_team(postgres, tmp_path, 2, random.Random(1))
    shared, other = (one.identity for one in setup.projects)
    ann, bob = [user for user in setup.users if other not in user.visible][:2]
    with setup.database.transaction() as db:
        db.execute("UPDATE tokens SET scopes = '{read,write}'")
    with team_client(postgres, tmp_path) as web:
        asked = {"message": "where is an amount checked?", "projects": [shared], "stream": False}
        reply = web.post("/chat", json=asked, headers=ann.headers)
        assert reply.status_code == 200, reply.text
        reported = reply.json()
        conversation, run = reported["conversationId"], reported["runId"]
        assert setup.projects[0].word in reply.text
        assert [one["id"] for one in web.get("/conversations", headers=ann.headers).json()["conversations"]] == [
            conversation
        ]
        assert web.get("/conversations", headers=bob.headers).json()["conversations"] == []
        for method, path, body in (
            ("GET", f"/conversations/{conversation}", None),
            ("GET", f"/chat/runs/{run}/events", None),
            ("POST", f"/chat/runs/{run}/stop", {}),
            ("GET", f"/ui/chat?c={conversation}", None),
            ("GET", f"/ui/runs/{run}/turn", None),
            ("POST", "/conversations/delete", {"conversationIds": [conversation]}),
            ("POST", "/api/v1/conversations/show", {"id": conversation}),
            ("POST", "/chat", {**asked, "conversationId": conversation}),
        ):
            refused = web.request(method, path, json=body, headers=bob.headers)
            assert refused.status_code in (400, 404), (path, refused.text)
            assert "amount" not in refused.text
        assert web.get(f"/conversations/{conversation}", headers=ann.headers).status_code == 200
        hidden = web.post("/chat", json={**asked, "projects": [other]}, headers=ann.headers)
        assert hidden.json()["error"]["code"] == "REPO_NOT_FOUND"
        documents = web.post("/ui/runs", json={"message": "x", "projects": ["docs:"]}, headers=ann.headers)
        assert documents.status_code == 403, documents.text
    setup.database.close()
