"""Reranking of document searches, and what every shell says about reranking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from conftest import RunCli
from document_tools import add
from mcp_help import connected, reply_of
from model_server import RERANK_MODEL, ScriptedServer, Trouble
from patience import wait_until
from web_tools import client, index

from codeinfo import Config, Engine
from codeinfo.engine.documents import NO_RERANKER
from codeinfo.operations.documents import DocsSearchRequest, DocsSearchResponse, DocumentSearch

# Words that mean nothing to the search and count for the scripted reranker.
QUERY = "where are the tides of a harbour"
APPLIED = f"applied: endpoint:{RERANK_MODEL}"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Six documents that the search can hardly tell apart; the fifth has every word of the question."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(6):
        text = "Where are the tides of a harbour" if number == 4 else "Old grey wide blue tall tides harbour"
        (folder / f"n{number}.md").write_text(f"# Note {number}\n\n{text}, part {number}.\n")
    return folder


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as started:
        yield started


def settings_for(server: ScriptedServer, **more: Any) -> dict[str, Any]:
    return {
        "embedding.provider": "scripted",
        "index.workers": 1,
        "rerank.provider": "endpoint",
        "rerank.base_url": server.url,
        "rerank.model": RERANK_MODEL,
        "rerank.timeout_ms": 60_000,
        **{f"rerank.{name}": value for name, value in more.items()},
    }


def search(settings: dict[str, Any], folder: Path, *queries: str, **options: Any) -> DocsSearchResponse:
    with Engine(Config.load(settings)) as engine:
        add(engine, folder)
        return engine.documents.search(DocsSearchRequest(queries or (QUERY,), **options))


def documents(found: DocumentSearch) -> list[str]:
    return [hit.document for hit in found.results]


@pytest.mark.parametrize("hybrid", [True, False])
def test_passages_are_ordered_by_relevance_when_asked(notes: Path, server: ScriptedServer, hybrid: bool) -> None:
    (plain,) = search(settings_for(server), notes, hybrid=hybrid).searches
    assert plain.reranker_status == "off"
    assert not server.requests
    (found,) = search(settings_for(server), notes, hybrid=hybrid, rerank=True, limit=6).searches
    assert found.reranker_status == APPLIED
    assert documents(found)[0] == "n4.md"
    scores = [hit.rerank_score for hit in found.results]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert [hit.score for hit in found.results] == [hit.score for hit in plain.results[:6]]
    assert (found.quality is None) is not hybrid
    if found.quality is not None:
        assert found.quality.reranker_status == APPLIED
    assert server.requests[0].body["documents"][0].startswith("Note ")  # the title, as a reader sees it


def test_passages_below_the_limit_can_come_up(notes: Path, server: ScriptedServer) -> None:
    (found,) = search(settings_for(server), notes, rerank=True, limit=1).searches
    assert documents(found) == ["n4.md"]
    assert len(server.requests[0].body["documents"]) == 6


def test_a_reranker_that_failed_is_asked_once_for_all_questions(notes: Path) -> None:
    with ScriptedServer(troubles=[Trouble.SILENT]) as server:
        (before,) = search({"embedding.provider": "scripted"}, notes).searches
        found = search(settings_for(server, timeout_ms=1000), notes, QUERY, "tides", "harbour", rerank=True)
        wait_until(lambda: server.requests)
        assert len(server.requests) == 1
    assert [one.reranker_status for one in found.searches] == ["timed out after 1000 ms"] * 3
    assert documents(found.searches[0]) == documents(before)
    assert len([note for note in found.notes if "not reranked" in note]) == 1


def test_nothing_set_up_and_nothing_found(notes: Path, server: ScriptedServer) -> None:
    response = search({"embedding.provider": "scripted"}, notes, rerank=True)
    assert response.searches[0].reranker_status == "off"
    assert NO_RERANKER in response.notes
    (nothing,) = search(settings_for(server), notes, rerank=True, max_distance=0.0).searches
    assert nothing.reranker_status == "not needed: nothing was found"


# --- shells --------------------------------------------------------------------------------------------------------


def configure(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in settings_for(server, closeness=1).items():
        monkeypatch.setenv(f"CODEINFO_{key.replace('.', '_').upper()}", str(value))


@pytest.fixture
def configured(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    configure(server, monkeypatch)
    return server


def test_the_command_line(codeinfo: RunCli, notes: Path, configured: ScriptedServer) -> None:
    assert codeinfo("docs", "add", str(notes), cwd=notes).returncode == 0
    shown = codeinfo("docs", "search", QUERY, "--rerank", cwd=notes)
    assert shown.returncode == 0, shown.stderr
    assert f"reranker: {APPLIED}" in shown.stdout
    assert "relevance 0.9" in shown.stdout
    by_vectors = codeinfo("docs", "search", QUERY, "--rerank", "--no-hybrid", "--json", cwd=notes)
    (found,) = json.loads(by_vectors.stdout)["searches"]
    assert (found["reranker_status"], found["quality"]) == (APPLIED, None)


def test_mcp(notes: Path, codeinfo: RunCli, configured: ScriptedServer) -> None:
    assert codeinfo("docs", "add", str(notes), cwd=notes).returncode == 0

    async def session() -> None:
        async with connected(notes, "search,docs") as mcp:
            code = await mcp.call_tool("search_codebase", {"query": QUERY})
            assert reply_of(code)["searchQuality"]["rerankerStatus"] == APPLIED
            assert reply_of(code)["results"][0]["file"].startswith("n4.md:")
            asked = {"query": QUERY, "rerank": True, "hybridSearch": False}
            one = (await mcp.call_tool("documents_search", asked)).structured_content
            assert one["rerankerStatus"] == APPLIED
            assert one["results"][0]["document"] == "n4.md"
            several = {"queries": [QUERY, "tides"], "rerank": True}
            many = (await mcp.call_tool("documents_search_batch", several)).structured_content
            assert [search["reranker_status"] for search in many["searches"]] == [APPLIED, APPLIED]
            plain = (await mcp.call_tool("documents_search", {"query": QUERY})).structured_content
            assert plain["rerankerStatus"] == "off"
            assert plain["results"][0]["rerank_score"] is None

    anyio.run(session)


def test_a_server_does_not_remember_a_failure(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(troubles=[Trouble.UNAUTHORIZED]) as server:
        configure(server, monkeypatch)

        async def session() -> None:
            async with connected(notes) as mcp:
                statuses = []
                for _ in range(3):
                    found = await mcp.call_tool("search_codebase", {"query": QUERY})
                    statuses.append(reply_of(found)["searchQuality"]["rerankerStatus"])
                assert statuses[0].startswith("failed: ")
                assert statuses[1:] == [APPLIED, APPLIED]

        anyio.run(session)


def test_http(notes: Path, configured: ScriptedServer, codeinfo: RunCli) -> None:
    assert codeinfo("docs", "add", str(notes), cwd=notes).returncode == 0
    with client(notes) as web:
        index(web, notes)
        code = web.post("/api/v1/search", json={"query": QUERY, "explain": True}).json()
        assert code["quality"]["reranker_status"] == APPLIED
        assert "rerank" in [signal["name"] for signal in code["hits"][0]["signals"]]
        asked = {"queries": [QUERY], "rerank": True, "hybrid": False}
        (found,) = web.post("/api/v1/docs/search", json=asked).json()["searches"]
        assert found["reranker_status"] == APPLIED
        assert found["results"][0]["document"] == "n4.md"
        assert found["results"][0]["rerank_score"] > 0.9
