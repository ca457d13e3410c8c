"""`doctor` waits for nothing longer than it says, and says what it waited for."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from model_server import EMBEDDING_MODEL, ScriptedServer, Trouble
from patience import within

from codeinfo import Config
from codeinfo.engine.maintenance import examine
from codeinfo.index import syntax
from codeinfo.models import Models
from codeinfo.operations.search import Check, DoctorReport
from codeinfo.shells.install import with_server_checked


def embedding_check(server: ScriptedServer, cache: Path, seconds: float, **more: str) -> Check:
    flags = {
        **{f"embedding.{name}": value for name, value in more.items()},
        "paths.cache_dir": str(cache),
        "embedding.provider": "openai",
        "embedding.base_url": server.url,
        "embedding.model": EMBEDDING_MODEL,
    }
    config = Config.load(flags)
    (check,) = [one for one in examine(config, Models(config), (), probe_s=seconds).checks if one.name == "embedding"]
    return check


@pytest.mark.parametrize("trouble", [Trouble.SILENT, Trouble.HANG, Trouble.DRIP_HEADERS])
def test_a_silent_endpoint_is_given_up_in_time(trouble: Trouble, tmp_path: Path) -> None:
    with ScriptedServer(troubles=[trouble] * 4) as server, within(30):
        check = embedding_check(server, tmp_path, 0.4)
    assert check.state == "fail"
    assert "0.4 s" in check.detail


def test_an_endpoint_that_answers_is_well(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        check = embedding_check(server, tmp_path, 60)
    assert (check.state, "32 dimensions" in check.detail) == ("ok", True), check.detail


def test_an_unset_key_of_the_embedding_endpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDDING_KEY", raising=False)
    with ScriptedServer() as server:
        check = embedding_check(server, tmp_path, 10, api_key_env="EMBEDDING_KEY")
    assert check.state == "warn"
    assert "EMBEDDING_KEY is empty or unset" in check.detail
    with ScriptedServer(key="s3cret-s3cret") as server:
        check = embedding_check(server, tmp_path, 10, api_key_env="EMBEDDING_KEY")
        assert check.state == "fail"
        assert "needs a key (the environment variable EMBEDDING_KEY is empty or unset; HTTP 401" in check.detail
        monkeypatch.setenv("EMBEDDING_KEY", "s3cret-s3cret")
        assert embedding_check(server, tmp_path, 10, api_key_env="EMBEDDING_KEY").state == "ok"
        monkeypatch.setenv("EMBEDDING_KEY", "s3cret\ns3cret")
        check = embedding_check(server, tmp_path, 10, api_key_env="EMBEDDING_KEY")
    assert (check.state, "does not contain one key" in check.detail) == ("fail", True), check.detail


def test_a_slow_server_is_a_warning_with_the_time_it_was_given() -> None:
    (check,) = with_server_checked(lambda: DoctorReport(()), 0.01).checks
    assert (check.state, check.detail) == ("warn", "the server was not ready within 0.01 s")
    assert check.next_step


def test_the_server_starts_while_the_rest_is_examined() -> None:
    def examined() -> DoctorReport:
        running = {thread.name for thread in threading.enumerate()} - before
        return DoctorReport((Check("git", "ok", f"{len(running)} beside"),))

    before = {thread.name for thread in threading.enumerate()}
    git, mcp = with_server_checked(examined).checks
    assert git.detail != "0 beside"
    assert mcp.name == "mcp"


def test_a_grammar_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.load({"paths.cache_dir": str(tmp_path), "embedding.provider": "none"}, tmp_path)
    monkeypatch.setitem(sys.modules, "tree_sitter_python", None)
    monkeypatch.delitem(sys.modules, "tree_sitter_python._binding", raising=False)
    syntax.parser.cache_clear()
    try:
        checks = {check.name: check for check in examine(config, Models(config), ()).checks}
    finally:
        syntax.parser.cache_clear()
    assert checks["grammars"].state == "fail"
    assert "tree_sitter_python" in checks["grammars"].detail


def test_what_cannot_be_rebuilt_is_read_too(project: Path, codeinfo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = project.parent / "own"
    monkeypatch.setenv("CODEINFO_DATA_DIR", str(data))
    assert codeinfo("conversations", "list", cwd=project).returncode == 0
    assert codeinfo("remember", "Amounts are whole cents.", cwd=project).returncode == 0
    well = codeinfo("doctor", cwd=project)
    assert (well.returncode, "memories" in well.stdout, "conversations" in well.stdout) == (0, False, False)
    (project / ".codeinfo" / "memory.json").write_text("[")
    content = bytearray((data / "conversations.db").read_bytes())
    content[4096:] = bytes(len(content) - 4096)  # all pages but the one that lists the tables
    (data / "conversations.db").write_bytes(content)
    found = codeinfo("doctor", cwd=project)
    assert found.returncode == 3
    assert "memory.json, line 1" in found.stdout
    assert f"{data}/conversations.db is damaged" in found.stdout


def test_collections_are_read_too(tmp_path: Path, codeinfo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, data, project = (tmp_path / name for name in ("cache", "data", "project"))
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(cache))
    monkeypatch.setenv("CODEINFO_DATA_DIR", str(data))
    project.mkdir()
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.md").write_text("# Apples\n\nApples are in the cellar.\n")
    assert codeinfo("docs", "add", str(tmp_path / "pages"), cwd=project).returncode == 0
    assert "pages: 1 file, 1 chunk, all checksums match" in codeinfo("doctor", cwd=project).stdout
    (vectors,) = cache.glob("documents/indexes/*/v*/vectors-*")
    content = bytearray(vectors.read_bytes())
    content[len(content) // 2] ^= 1
    vectors.write_bytes(content)
    found = codeinfo("doctor", cwd=project)
    assert found.returncode == 3
    assert "fails its checksum" in found.stdout
    assert "codeinfo docs sync" in found.stdout
    (data / "collections.json").write_text("{")
    assert "collections.json is not valid JSON" in codeinfo("doctor", cwd=project).stdout
    (data / "collections.json").write_text('{"collectionr": []}')
    assert "collections.json is not a list of collections" in codeinfo("doctor", cwd=project).stdout
    entry = {"id": "file:0123456789ab", "name": "guide", "kind": "folder", "url": "/guide"}
    (data / "collections.json").write_text(json.dumps({"collections": [entry]}))
    assert "'guide' has the id of another collection" in codeinfo("doctor", cwd=project).stdout


def test_it_works_where_there_is_no_project(codeinfo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal opens in the home folder, and that is where a new user tries it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    done = codeinfo("doctor", "--json", cwd=tmp_path)
    (index,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "index"]
    assert (index["state"], index["detail"]) == ("ok", f"{tmp_path} is not indexed: it is your home folder")
    assert codeinfo("doctor", ".", cwd=tmp_path).returncode == 2  # as it was asked for
