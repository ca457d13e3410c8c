"""The OpenAPI document, held against the server by Schemathesis: no 5xx, no undocumented status or answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from web_tools import first_search, make_project, served

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
STREAMS = "/ingest/events"  # never ends


def test_a_sample_of_the_document_holds(tmp_path: Path) -> None:
    hold(tmp_path, phases="fuzzing", examples=1, seconds=12)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_whole_document_holds(tmp_path: Path) -> None:
    hold(tmp_path, phases="examples,coverage,fuzzing", examples=20, seconds=600)


def hold(tmp_path: Path, *, phases: str, examples: int, seconds: int) -> None:
    project = make_project(tmp_path / "bank")
    home = tmp_path / "home"
    settings = ("--set", "llm.discover=false", "--set", "llm.provider=none")
    with served(project, home, "--allow", str(project), *settings) as address:
        token = (home / "data" / "codeinfo" / "web-token").read_text()
        first_search(address)  # there is a project, so that more than 404 is met
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "run", f"{address}/openapi.json",
            "--phases", phases, "--max-examples", str(examples), "--max-time", str(seconds), "--checks", CHECKS,
            "--header", f"X-CodeInfo-Token: {token}", "--exclude-path", STREAMS,
            "--request-timeout", "20", "--no-color", "--suppress-health-check", "all",
        ]  # fmt: skip
        environment = os.environ | {"HOME": str(home)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=seconds + 90, check=False
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
