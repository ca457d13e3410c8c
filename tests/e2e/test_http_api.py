"""The API: the same JSON as the command line, the contract's paths and codes, answers as events, the queue."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from model_server import ScriptedServer
from starlette.testclient import TestClient
from web_tools import ANSWER, client, index, make_project, script, token, wait_for

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import IndexDamaged
from codeinfo.operations.answers import AskRequest
from codeinfo.serve.runs import MOST_RUNNING, Runs
from codeinfo.store.user_data import IngestStore

TIMES = ("took_ms", "indexed_at", "generation", "bytes")


@pytest.fixture
def web(project: Path) -> Iterator[TestClient]:
    with client(project) as made:
        assert index(made, project)["state"] == "done"
        yield made


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


# --- operations and contract ------------------------------------------------------------------------------------------


SAME: tuple[tuple[list[str], str, dict[str, Any]], ...] = (
    (["search", "transfer money"], "/api/v1/search", {"query": "transfer money"}),
    (
        ["search", "/def \\w+fer\\b/", "-i"],
        "/api/v1/grep",
        {"pattern": r"def \w+fer\b", "regex": True, "ignore_case": True},
    ),
    (["search", "transfer", "-e", "-n", "2"], "/api/v1/search", {"query": "transfer", "explain": True, "limit": 2}),
    (["refs", "Account"], "/api/v1/refs", {"name": "Account"}),
    (["symbols", "bank.py"], "/api/v1/symbols", {"path": "bank.py"}),
    (["status"], "/api/v1/status", {}),
    (["agents", "list"], "/api/v1/agents/list", {}),
    (["memory", "list"], "/api/v1/memory/list", {}),
)


def test_the_api_answers_as_the_command_line_does(web: TestClient, codeinfo: Any, project: Path) -> None:
    for command, path, body in SAME:
        by_http = web.post(path, json=body)
        assert by_http.status_code == 200, by_http.text
        by_cli = json.loads(codeinfo(*command, "--json", cwd=project).stdout)
        answer = by_http.json()
        if path not in ("/api/v1/agents/list",):
            assert answer.pop("reflects")["generation"] > 0, path
        assert without_times(answer) == without_times(by_cli), command


def test_a_reply_says_which_state_of_the_project_it_shows(project: Path) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *arguments], cwd=project, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, check=True, capture_output=True, text=True).stdout
    with client(project) as web:
        index(web, project)
        shown = web.post("/api/v1/search", json={"query": "transfer money"}).json()["reflects"]
        assert (head.startswith(shown["commit"]), shown["dirty"]) == (True, False)
        assert web.post("/api/v1/refs", json={"name": "Account"}).json()["reflects"] == shown
        (project / "bank.py").write_text((project / "bank.py").read_text() + "\n\nRATE = 2\n")
        edited = web.post("/api/v1/search", json={"query": "transfer money"}).json()["reflects"]
        assert (edited["commit"], edited["dirty"]) == (shown["commit"], True)


def test_vector_search_keeps_its_contract(web: TestClient) -> None:
    found = web.post("/tools/vector-search", json={"query": "move money to another account", "limit": 50}).json()
    first = found["results"][0]
    assert set(first) == {
        "repo",
        "relPath",
        "containerPath",
        "hostPath",
        "score",
        "chunk",
        "chunkId",
        "modelId",
        "lineCount",
    }
    assert first["repo"] == "bank"
    assert 0 <= first["score"] <= 4
    assert [one["hostPath"] for one in found["files"]] == sorted(one["hostPath"] for one in found["files"])
    best = min(one["score"] for one in found["results"] if one["hostPath"] == found["files"][0]["hostPath"])
    assert found["files"][0]["highestMatch"] == best


WRONG: tuple[tuple[str, dict[str, Any], int, str], ...] = (
    ("/tools/vector-search", {}, 400, "VALIDATION_FAILED"),
    ("/tools/vector-search", {"query": 5}, 400, "VALIDATION_FAILED"),
    ("/tools/vector-search", {"query": "x", "more": 1}, 400, "VALIDATION_FAILED"),
    ("/tools/vector-search", {"query": "x", "repository": "nobody"}, 404, "REPO_NOT_FOUND"),
    ("/api/v1/search", {"query": "x", "paths": ["nobody"]}, 404, "REPO_NOT_FOUND"),
    ("/api/v1/docs/search", {"queries": ["x"], "code": ["nobody"]}, 404, "REPO_NOT_FOUND"),
    ("/api/v1/search", {"query": "x", "limit": 0}, 400, "VALIDATION_FAILED"),
    ("/api/v1/grep", {"pattern": "(a", "regex": True}, 400, "VALIDATION_FAILED"),
    ("/api/v1/symbols", {"path": "../x"}, 403, "FOLDER_REFUSED"),
    ("/tools/ast-find-definition", {"symbol": "x", "repository": "nobody"}, 404, "REPO_NOT_FOUND"),
    ("/conversations/archive", {"conversationIds": ["nobody"]}, 404, "NOT_FOUND"),
    ("/conversations/delete", {"conversationIds": ["a"]}, 404, "NOT_FOUND"),
    ("/ingest/cancel", {"runId": "nobody"}, 404, "NOT_FOUND"),
    ("/chat", {"message": "  "}, 400, "VALIDATION_FAILED"),
    ("/chat", {"message": "x", "conversationId": "nobody"}, 404, "NOT_FOUND"),
    ("/chat", {"message": "x", "provider": "nobody"}, 404, "NOT_FOUND"),
    ("/agents/nobody/run", {"instruction": "x"}, 404, "NOT_FOUND"),
    ("/no/such/path", {}, 404, "NOT_FOUND"),
)


def test_errors_have_one_shape(web: TestClient) -> None:
    for path, body, status, code in WRONG:
        reply = web.post(path, json=body, headers=token())
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code), path
        assert set(reply.json()["error"]) == {"code", "message", "next"}
    other_method = web.get("/api/v1/search").json()["error"]
    assert (other_method["message"], other_method["next"]) == ("/api/v1/search does not take GET", "Send POST")


def test_a_browser_that_opens_an_address_of_the_api_gets_a_page(web: TestClient) -> None:
    shown = web.get("/chat", headers={"accept": "text/html"})
    assert shown.status_code == 404
    assert "There is no page /chat" in shown.text
    assert web.get("/chat").json()["error"]["code"] == "METHOD_NOT_ALLOWED"


def test_a_name_that_is_unknown_is_shown_as_it_is_written(web: TestClient) -> None:
    shown = web.get("/ui/name?name=nowhere", headers={"accept": "text/html"})
    assert "Nothing called nowhere is defined in this project" in shown.text


def test_projects_of_one_name_are_told_apart(web: TestClient, tmp_path: Path, project: Path) -> None:
    twin = make_project(tmp_path / "twin" / project.name)
    for folder in (project, twin):
        assert index(web, folder)["state"] == "done"
    start = web.get("/").text  # first asked for now: the list is kept for a moment
    assert f">{project.name} ({project})</option>" in start
    assert f">{twin.name} ({twin})</a>" in start


def test_ast_tools_name_things_as_the_contract_does(web: TestClient) -> None:
    found = web.post("/tools/ast-find-definition", json={"symbol": "Account", "repository": "bank"}).json()
    assert found["definitions"][0]["path"] == "bank.py"
    listed = web.post("/tools/ast-list-symbols", json={"file": "bank.py"}).json()
    assert [one["name"] for one in listed["symbols"]][:2] == ["Account", "transfer"]
    assert web.post("/tools/ast-call-graph", json={"symbol": "transfer"}).status_code == 200
    assert web.post("/tools/ast-module-imports", json={"file": "teller.py"}).json()["imports"][0]["module"] == "bank"
    assert web.post("/tools/ast-find-references", json={"name": "Account"}).json()["usageCount"] >= 2


def test_all_projects_are_searched_when_asked_for(web: TestClient) -> None:
    found = web.post("/api/v1/search", json={"query": "transfer money", "all_projects": True}).json()
    assert found["hits"][0]["path"] == "bank.py"


def test_documents_are_searched_together_with_code_of_known_projects_only(web: TestClient, tmp_path: Path) -> None:
    def search(code: str) -> Any:
        return web.post("/api/v1/docs/search", json={"queries": ["transfer money"], "code": [code]}).json()

    assert search("bank")["searches"][0]["results"][0]["document"] == "bank.py"
    own = tmp_path / "own"
    own.mkdir()
    (own / "diary.py").write_text("def transfer_money():\n    return 'in secret'\n")
    assert search(str(own))["error"]["code"] == "REPO_NOT_FOUND"


def test_what_is_wrong_is_in_the_details(web: TestClient) -> None:
    refused = web.post("/tools/vector-search", json={})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "VALIDATION_FAILED"
    assert refused.json()["details"] == ["query is required"]


def test_a_project_may_be_called_a_path(web: TestClient) -> None:
    started = web.post("/ingest/reembed", json={"path": "bank"}, headers=token())
    assert started.status_code == 200, started.text


def test_the_server_tells_about_itself(web: TestClient) -> None:
    health = web.get("/health").json()
    assert health["status"] == "ok"
    assert not any("checksum" in check["detail"] for check in health["checks"])  # no index is read in full for it
    assert web.get("/version").json()["name"] == "codeinfo"
    assert "lines" in web.get("/logs", params={"level": "ERROR"}).json()
    assert [one["name"] for one in web.get("/tools/ingested-repos").json()["projects"]] == ["bank"]
    assert web.get("/ingest/models").json()["models"]
    assert web.get("/chat/models").status_code == 200


def test_mcp_is_served_with_the_token_and_without_what_is_local(web: TestClient) -> None:
    headers = token() | {"accept": "application/json, text/event-stream"}
    listed = web.post("/mcp/", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}, headers=headers)
    assert "search_codebase" in listed.text
    assert '"name":"eval' not in listed.text.replace(" ", "")
    call = {"name": "search_codebase", "arguments": {"query": "transfer"}}
    called = web.post(
        "/mcp/", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, headers=headers
    )
    assert "bank.py" in called.text


# --- answers ----------------------------------------------------------------------------------------------------------


def events_of(text: str) -> list[tuple[str, Any]]:
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in text.split("\r\n\r\n")
    ]
    return [(block["event"], json.loads(block["data"])) for block in blocks if "event" in block]


def test_an_answer_comes_as_events_and_is_kept(project: Path) -> None:
    with ScriptedServer(script) as model, client(project, llm__base_url=model.url, llm__provider="auto") as web:
        index(web, project)
        body = {"message": "how does transfer move money?", "projects": ["bank"]}
        events = events_of(web.post("/chat", json=body, headers=token()).text)
        kinds = [kind for kind, _ in events]
        assert kinds[0] == "run"
        assert kinds[-1] == "done"
        assert "step" in kinds
        assert "".join(data["text"] for kind, data in events if kind == "token") == ANSWER
        last = events[-1][1]
        assert last["answers"][0]["citations"][0]["path"] == "bank.py"
        again = events_of(web.get(f"/chat/runs/{last['runId']}/events").text)
        assert [kind for kind, _ in again] == kinds
        rest = events_of(web.get(f"/chat/runs/{last['runId']}/events", headers={"last-event-id": "1"}).text)
        assert len(rest) == len(again) - 2
        kept = web.get(f"/conversations/{last['conversationId']}").json()
        assert [turn["role"] for turn in kept["turns"]] == ["user", "assistant"]
        assert kept["conversation"]["source"] == "REST"
        second = {"message": "and then?", "conversationId": last["conversationId"], "stream": False}
        reply = web.post("/chat", json=second, headers=token()).json()
        assert reply["conversationId"] == last["conversationId"]


def test_conversations_are_listed_archived_restored_and_deleted(web: TestClient) -> None:
    body = {"message": "transfer?", "provider": "none", "stream": False}
    ids = [web.post("/chat", json=body, headers=token()).json()["conversationId"] for _ in range(3)]
    page = web.get("/conversations", params={"limit": 2}).json()
    assert [one["id"] for one in page["conversations"]] == ids[:0:-1]
    rest = web.get("/conversations", params={"limit": 2, "cursor": page["nextCursor"]}).json()
    assert [one["id"] for one in rest["conversations"]] == ids[:1]
    assert web.post("/conversations/archive", json={"conversationIds": ids[:1]}, headers=token()).status_code == 200
    refused = web.post("/chat", json={**body, "conversationId": ids[0]}, headers=token())
    assert (refused.status_code, refused.json()["error"]["code"]) == (410, "CONVERSATION_ARCHIVED")
    web.post("/conversations/restore", json={"conversationIds": ids[:1]}, headers=token())
    assert web.post("/chat", json={**body, "conversationId": ids[0]}, headers=token()).status_code == 200
    web.post("/conversations/delete", json={"conversationIds": ids}, headers=token())
    assert web.get("/conversations").json()["conversations"] == []


def test_a_model_that_is_not_there_leaves_no_conversation(project: Path) -> None:
    with client(project, llm__base_url="http://127.0.0.1:9/v1", llm__provider="auto") as web:
        index(web, project)
        reply = web.post("/chat", json={"message": "transfer?"}, headers=token())
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "CODE_INFO_LLM_UNAVAILABLE")


def test_an_answer_that_cannot_be_kept_takes_no_place_for_good(project: Path) -> None:
    with Engine(Config.load({"llm.discover": "false"}, project)) as engine:
        runs, asked = Runs(engine), AskRequest("transfer?", (str(project),), provider="none")
        assert runs.start(asked).ended.wait(120)
        with closing(apsw.Connection(str(engine.config.paths.data_dir / "conversations.db"))) as db:
            for table in ("turns", "conversations"):
                db.execute(f"ALTER TABLE {table} RENAME TO lost")
                for _ in range(MOST_RUNNING + 1):
                    with suppress(IndexDamaged):
                        assert runs.start(asked).ended.wait(120)
                db.execute(f"ALTER TABLE lost RENAME TO {table}")
        kept = runs.start(asked)
        assert kept.ended.wait(120)
        assert (kept.error, runs.busy) == (None, False)


# --- the queue --------------------------------------------------------------------------------------------------------


def many_files(folder: Path, count: int = 3000) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"m{number}.py").write_text(f"def f{number}(x):\n    return x + {number}\n" * 5)
    return folder


def test_duplicates_are_folded_positions_are_reported_and_cancel_cancels(web: TestClient, tmp_path: Path) -> None:
    large, small = many_files(tmp_path / "large"), make_project(tmp_path / "small")

    def start(folder: Path) -> dict[str, Any]:
        run: dict[str, Any] = web.post("/ingest/start", json={"path": str(folder)}, headers=token()).json()
        return run

    running = start(large)
    while web.get(f"/ingest/status/{running['id']}").json()["state"] == "queued":
        time.sleep(0.01)
    waiting, again = start(small), start(small)
    assert waiting["id"] == again["id"]
    assert waiting["position"] == 2
    assert start(large)["id"] == running["id"]
    busy = web.post("/ingest/remove", json={"root": str(large)}, headers=token())
    assert busy.status_code in (404, 429)  # known only once the first files are in
    assert web.post("/ingest/cancel", json={"runId": running["id"]}, headers=token()).status_code == 200
    stopped = wait_for(web, running["id"])
    assert stopped["state"] == "cancelled"
    assert wait_for(web, waiting["id"])["state"] == "done"
    assert web.get("/ingest/status").json()["waiting"] == []


def test_a_folder_that_vanished_fails_and_the_queue_goes_on(web: TestClient, tmp_path: Path, project: Path) -> None:
    gone = make_project(tmp_path / "gone")
    state = web.app._app.state.codeinfo  # type: ignore[attr-defined]
    state.ingest.add(str(gone / "nowhere"))
    run = web.post("/ingest/reembed", json={"root": "bank"}, headers=token()).json()
    assert wait_for(web, run["id"])["state"] == "done"
    (failed,) = [one for one in web.get("/ingest/status").json()["finished"] if one["state"] == "failed"]
    assert failed["error_code"] == "VALIDATION_FAILED"


def test_a_killed_server_goes_on_where_it_was(tmp_path: Path, own_folders: Path, project: Path) -> None:
    large = many_files(tmp_path / "large", 1500)
    program = f"""
import sys, os, time
from pathlib import Path
from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.serve.refresh import server_engine
from codeinfo.serve.runs import IndexQueue
ingest = IndexQueue(server_engine(Config.load()))
ingest.start()
run = ingest.add({str(large)!r})
while not ((state := ingest.run(run.id)).progress and state.progress.done > 20):
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program], cwd=project, check=False, timeout=120)
    from codeinfo.config import Config

    left = IngestStore(Config.load().paths.data_dir)
    (row,) = left.waiting_runs()
    left.close()
    assert row.state == "running"
    with client(project) as web:
        done = wait_for(web, row.id)
        assert (done["state"], done["files"]) == ("done", 1500)


def test_progress_comes_as_events(project: Path, tmp_path: Path) -> None:
    from web_tools import served

    with served(project, tmp_path / "home", "--allow", str(tmp_path)) as address:
        import http.client

        host = address.removeprefix("http://")
        listening = http.client.HTTPConnection(host, timeout=120)
        listening.request("GET", "/ingest/events")
        stream = listening.getresponse()
        made = (tmp_path / "home" / "data" / "codeinfo" / "web-token").read_text()
        starting = http.client.HTTPConnection(host, timeout=120)
        headers = {"content-type": "application/json", "X-CodeInfo-Token": made}
        starting.request("POST", "/ingest/start", json.dumps({"path": str(project)}), headers)
        assert starting.getresponse().status == 200
        states = []
        while "done" not in states:
            line = stream.readline().decode()
            if line.startswith("data: "):
                queue = json.loads(line[6:])
                states += [one["state"] for one in (*queue["waiting"], *queue["finished"])]
        listening.close()
        starting.close()
        assert states[-1] == "done"
