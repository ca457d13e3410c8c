"""Reranking of code searches: only close calls, within its time, and nothing lost where it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RunCli
from model_server import RERANK_MODEL, ScriptedServer, Trouble
from rerank_tools import make_cross_encoder

from codeinfo import Config, Engine, SearchRequest, SearchResult
from codeinfo.engine.search import CLEAR, FEW
from codeinfo.models.retrieval import sigmoid
from codeinfo.operations.search import DoctorRequest

# Stop words mean nothing to the search and count for the scripted reranker, so that the two of them disagree.
QUERY = "where are the settings of a harbour"
PLAIN = '"""Old grey wide blue tall settings harbour, number {}."""\n'
RELEVANT = '"""Here are the settings of a harbour, number {}."""\n'


@pytest.fixture
def close_call(tmp_path: Path) -> Path:
    """Twelve files that the search can hardly tell apart, of which a longer one is the most relevant."""
    folder = tmp_path / "harbours"
    folder.mkdir()
    for number in range(12):
        text = (RELEVANT if number == 7 else PLAIN).format(number)
        (folder / f"m{number:02}.py").write_text(text + ("value = 1\n" if number < 3 else "value = 1  # more\n"))
    return folder


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as started:
        yield started


def settings_for(server: ScriptedServer, **more: Any) -> dict[str, Any]:
    return {
        "embedding.provider": "none",
        "index.workers": 1,
        "rerank.provider": "endpoint",
        "rerank.base_url": server.url,
        "rerank.model": RERANK_MODEL,
        "rerank.timeout_ms": 60_000,
        **{f"rerank.{name}": value for name, value in more.items()},
    }


def search(settings: dict[str, Any], *folders: Path, query: str = QUERY, **options: Any) -> SearchResult:
    with Engine(Config.load(settings)) as engine:
        return engine.search(SearchRequest(query, tuple(map(str, folders)), **options))


def paths(result: SearchResult) -> list[str]:
    return [hit.path for hit in result.hits]


def test_a_close_call_is_ordered_by_relevance(close_call: Path, server: ScriptedServer) -> None:
    before = search({"embedding.provider": "none"}, close_call, limit=12)
    assert before.quality.reranker_status == "off"
    place = paths(before).index("m07.py")
    assert 0 < place < 10
    after = search(settings_for(server), close_call, limit=12, explain=True)
    assert after.quality.reranker_status == f"applied: endpoint:{RERANK_MODEL}"
    assert paths(after)[0] == "m07.py"
    others = [path for path in paths(before) if path != "m07.py"]
    assert paths(after)[1:] == others  # equal relevance keeps the search's order, and the rest is not touched
    assert [hit.score for hit in after.hits] == [hit.score for hit in before.hits]
    (request,) = server.requests
    assert len(request.body["documents"]) == 10
    assert request.body["query"] == QUERY
    assert after.notes == before.notes


def test_the_score_is_a_named_signal(close_call: Path, server: ScriptedServer) -> None:
    found = search(settings_for(server), close_call, limit=12, explain=True)
    signals = [{signal.name: signal for signal in hit.signals} for hit in found.hits]
    assert signals[0]["rerank"].value == round(sigmoid(6 - 7 / 2), 4)  # all of the words but "where"
    assert signals[0]["rerank"].effect > 0
    assert all("rerank" in own for own in signals[:10])
    assert not any("rerank" in own for own in signals[10:])
    plain = search(settings_for(server), close_call, limit=12)
    assert not any(hit.signals for hit in plain.hits)


def test_candidates_below_the_limit_can_come_up(close_call: Path, server: ScriptedServer) -> None:
    found = search(settings_for(server), close_call, limit=2, explain=True)
    assert len(found.hits) == 2
    assert paths(found)[0] == "m07.py"
    assert found.dropped[0].rule == "limit"
    assert {one.path for one in found.dropped}.isdisjoint(paths(found))


def test_whole_chunks_are_read_whatever_is_shown(close_call: Path, server: ScriptedServer) -> None:
    found = search(settings_for(server), close_call, snippets=False)
    assert paths(found)[0] == "m07.py"
    assert not any(hit.text for hit in found.hits)
    assert all(text.startswith('"""') and "value = " in text for text in server.requests[0].body["documents"])


def test_several_roots_are_reranked_as_one(close_call: Path, tmp_path: Path, server: ScriptedServer) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for number in range(3):
        (other / f"n{number}.py").write_text(PLAIN.format(number) + "value = 1\n")
    found = search(settings_for(server, candidates=15), other, close_call, limit=15)
    assert paths(found)[0] == "m07.py"
    assert len(server.requests) == 1
    assert len(server.requests[0].body["documents"]) == 15


def test_a_clear_result_is_left_alone(close_call: Path, server: ScriptedServer) -> None:
    (close_call / "settings_of_harbour.py").write_text("def harbour_settings():\n    return 'settings of a harbour'\n")
    found = search(settings_for(server), close_call, query="harbour_settings")
    assert found.quality.reranker_status == CLEAR
    assert paths(found)[0] == "settings_of_harbour.py"
    few = search(settings_for(server), close_call, globs=("m0[01].py",))
    assert few.quality.reranker_status == FEW
    assert not server.requests
    always = search(settings_for(server, closeness=1), close_call, query="harbour_settings")
    assert always.quality.reranker_status.startswith("applied")


def test_a_reranker_out_of_time_leaves_the_order(close_call: Path) -> None:
    before = search({"embedding.provider": "none"}, close_call)
    with ScriptedServer(troubles=[Trouble.SILENT]) as server:
        after = search(settings_for(server, timeout_ms=200), close_call)
    assert paths(after) == paths(before)
    assert after.quality.reranker_status == "timed out after 200 ms"
    assert any("not reranked" in note for note in after.notes)
    assert after.took_ms >= 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"base_url": ""}, "failed: no reranking endpoint is set"),
        ({"base_url": "nowhere"}, "failed: the address of an endpoint must look like"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "failed: http://127.0.0.1:9/v1 refuses the connection"),
        ({"model": "another"}, "failed: "),
        ({"api_key_env": "NO_SUCH_KEY"}, "failed: the environment variable NO_SUCH_KEY"),
        ({"provider": "local"}, "failed: no folder of a reranking model is set"),
        ({"provider": "local", "model_path": "/nowhere"}, "failed: /nowhere has no model.onnx"),
    ],
)
def test_what_is_not_set_up_is_said(
    close_call: Path, server: ScriptedServer, change: dict[str, Any], status: str
) -> None:
    found = search(settings_for(server, **change), close_call)
    assert found.quality.reranker_status.startswith(status)
    assert len(found.hits) == 10
    assert any("not reranked" in note for note in found.notes)


def test_a_local_model_reranks(close_call: Path, tmp_path: Path) -> None:
    model = make_cross_encoder(tmp_path / "tiny", QUERY)
    settings = {"embedding.provider": "none", "rerank.provider": "local", "rerank.model_path": str(model)}
    found = search({**settings, "rerank.timeout_ms": 60_000}, close_call)
    assert found.quality.reranker_status == "applied: local:tiny"
    assert paths(found)[0] == "m07.py"


def test_a_repository_may_not_name_an_endpoint_or_a_model(tmp_path: Path) -> None:
    (tmp_path / ".codeinfo.toml").write_text('[rerank]\nprovider = "endpoint"\nmodel_path = "/m"\ncloseness = 1.0\n')
    config = Config.load(cwd=tmp_path)
    assert (config.rerank.provider, config.rerank.model_path, config.rerank.closeness) == ("none", "", 0.08)
    assert any("rerank.provider" in note for note in config.notes)


def test_doctor_asks_the_reranker(tmp_path: Path, server: ScriptedServer) -> None:
    def check(settings: dict[str, Any]) -> Any:
        with Engine(Config.load(settings)) as engine:
            checks = engine.doctor(DoctorRequest((str(tmp_path),))).checks
        return next(one for one in checks if one.name == "reranking")

    assert check({}).detail == "off"
    asked = check(settings_for(server))
    assert (asked.state, asked.detail) == ("ok", f"endpoint: applied: endpoint:{RERANK_MODEL}")
    refused = check(settings_for(server, model="another"))
    assert refused.state == "warn"
    assert refused.next_step


def test_the_command_line_says_it(codeinfo: RunCli, close_call: Path, server: ScriptedServer) -> None:
    flags = [part for key, value in settings_for(server).items() for part in ("--set", f"{key}={value}")]
    shown = codeinfo("search", QUERY, "--explain", *flags, cwd=close_call)
    assert shown.returncode == 0, shown.stderr
    assert f"reranker: applied: endpoint:{RERANK_MODEL}" in shown.stdout
    assert "rerank " in shown.stdout
    written = json.loads(codeinfo("search", QUERY, "--json", *flags, cwd=close_call).stdout)
    assert written["quality"]["reranker_status"] == f"applied: endpoint:{RERANK_MODEL}"
    off = json.loads(codeinfo("search", QUERY, "--json", cwd=close_call).stdout)
    assert off["quality"]["reranker_status"] == "off"
