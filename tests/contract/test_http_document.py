"""The OpenAPI document, held against the server by Schemathesis: no 5xx, no undocumented status or answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from web_tools import commit, environment_of, make_project, served

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
STREAMS = "/ingest/events"  # never ends
SEED = 9


HOOKS = Path(__file__).parents[1] / "schemathesis_hooks.py"


def test_a_sample_of_every_operation_holds(tmp_path: Path) -> None:
    assert hold(tmp_path, phases="fuzzing", examples=1, seconds=500) > 70


@pytest.mark.soak
@pytest.mark.timeout(700)
def test_the_whole_document_holds(tmp_path: Path) -> None:
    assert hold(tmp_path, phases="examples,coverage,fuzzing", examples=60, seconds=600) > 5000


def hold(tmp_path: Path, *, phases: str, examples: int, seconds: int) -> int:
    """How many requests were made: at least one of every operation, the same ones each time."""
    project, home, report = make_project(tmp_path / "bank"), tmp_path / "home", tmp_path / "report.json"
    commit(project, days_ago=1)
    add = [sys.executable, "-m", "codeinfo", "docs", "add", str(project / "notes.md"), "--name", "notes"]
    subprocess.run(add, env=environment_of(home), capture_output=True, check=True, timeout=120)
    settings = ("--set", "llm.discover=false", "--set", "llm.provider=none")
    with served(project, home, "--allow", str(project), *settings) as address:
        token = (home / "data" / "codeinfo" / "web-token").read_text()
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "run", f"{address}/openapi.json",
            "--phases", phases, "--max-examples", str(examples), "--checks", CHECKS,
            "--seed", str(SEED), "--generation-database", "none",
            "--header", f"X-CodeInfo-Token: {token}", "--exclude-path", STREAMS,
            "--request-timeout", "120", "--no-color", "--suppress-health-check", "all",
            "--report-json-path", str(report),
        ]  # fmt: skip
        known = {"DOCUMENT_TEST_KNOWN": json.dumps(what_there_is(address, token, project))}
        environment = os.environ | {"HOME": str(home), "SCHEMATHESIS_HOOKS": str(HOOKS)} | known
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    reported = json.loads(report.read_text())
    operations = reported["operations"]
    assert operations["tested"] == operations["selected"] == operations["total"] - 1  # all but STREAMS
    assert operations["errored"] == reported["test_cases"]["errored"] == 0
    return int(reported["test_cases"]["generated"])


def what_there_is(address: str, token: str, project: Path) -> dict[str, str]:
    """A project, conversations, a memory and runs: half of the requests are led to them."""
    headers = {"content-type": "application/json", "X-CodeInfo-Token": token}

    def post(route: str, **body: object) -> dict[str, Any]:
        asked = urllib.request.Request(address + route, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=120) as reply:
            reported: dict[str, Any] = json.load(reply)
            return reported

    run, spare = (post("/chat", message="how does transfer move money?", stream=False) for _ in range(2))
    memory = post("/api/v1/remember", memory="Money moves in one transaction", reason="it was lost once")
    return {
        "project": str(project),
        "conversation": run["conversationId"],
        "spare": spare["conversationId"],
        "answering": run["runId"],
        "indexing": post("/ingest/start", path=str(project))["id"],
        "memory": memory["memory"]["id"],
    }
