"""Memories of a project that is not checked out: in the team's database, for all who may see the project."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest
from postgres_tools import called_by
from team_server_tools import bearer, team_client
from web_tools import make_project

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.operations.knowledge import MemoryListRequest, MemoryRequest, RememberRequest
from codeinfo.operations.search import IndexRequest
from codeinfo.team.access import create_token, create_user, grant
from codeinfo.team.database import TeamDatabase

PROJECT = "git.example/a/bank"


@pytest.fixture
def people(postgres: str, tmp_path: Path) -> dict[str, int]:
    """Ann may write to the project, Bob read it, Eve nothing."""
    folder = make_project(tmp_path / "bank")
    flags = {"store.url": postgres, "paths.cache_dir": str(tmp_path / "laptop"), "embedding.provider": "none"}
    with Engine(Config.load(flags, folder)) as engine:
        engine.index(IndexRequest((str(folder),)))
    with closing(TeamDatabase(postgres)) as database:
        with database.transaction() as db:  # as if a worker had indexed its main branch
            db.execute("UPDATE projects SET identity = %s, default_ref = 'refs/heads/main'", (PROJECT,))
            db.execute("UPDATE trees SET name = 'refs/heads/main'")
        made = {name: create_user(database, name) for name in ("ann", "bob", "eve")}
        grant(database, PROJECT, "ann", "write")
        grant(database, PROJECT, "bob")
        return made


def server(postgres: str, folder: Path) -> Engine:
    flags = {"store.url": postgres, "paths.cache_dir": str(folder), "embedding.provider": "none"}
    return Engine(Config.load(flags, folder.parent))


def remember(engine: Engine, text: str) -> str:
    request = RememberRequest(
        memory=text, type="decision", category="architecture", reason="so it was decided", path=PROJECT
    )
    return engine.knowledge.remember(request).memory.id


def texts(engine: Engine) -> list[str]:
    listed = engine.knowledge.memory_list(MemoryListRequest(path=PROJECT)).memories
    return sorted(memory.memory for memory in listed)


def test_a_team_shares_memories_by_project(people: dict[str, int], postgres: str, tmp_path: Path) -> None:
    with server(postgres, tmp_path / "one") as one, server(postgres, tmp_path / "two") as two:
        with called_by(people["ann"]):
            first = remember(one, "amounts are in cents")
            remember(one, "amounts are in cents")  # known already
            remember(two, "transfers are atomic")
        with called_by(people["bob"]):
            assert texts(one) == texts(two) == ["amounts are in cents", "transfers are atomic"]
            with pytest.raises(CodeInfoError, match="not change its memories"):
                remember(two, "Bob was here")
        with called_by(people["eve"]), pytest.raises(NotFound):
            texts(one)
        with called_by(people["ann"]):
            two.knowledge.memory_remove(MemoryRequest(first, path=PROJECT))
            assert texts(one) == ["transfers are atomic"]


def test_a_memory_has_the_name_of_who_wrote_it_whatever_the_request_says(
    people: dict[str, int], postgres: str, tmp_path: Path
) -> None:
    with closing(TeamDatabase(postgres)) as database:
        ann = bearer(create_token(database, "ann", scopes=("read", "write")))
    given = {"memory": "amounts are in cents", "type": "decision", "category": "architecture", "reason": "so it was"}
    with team_client(postgres, tmp_path, embedding__provider="none") as web:
        told = web.post("/api/v1/remember", json=given | {"author": "the boss", "path": PROJECT}, headers=ann)
        assert told.status_code == 200, told.text
        listed = web.post("/api/v1/memory/list", json={"path": PROJECT}, headers=ann)
    for reply in (told, listed):
        assert "written by ann in" in reply.text
        assert "boss" not in reply.text


def test_callers_do_not_learn_where_the_model_is(people: dict[str, int], postgres: str, tmp_path: Path) -> None:
    with closing(TeamDatabase(postgres)) as database:
        ann = bearer(create_token(database, "ann", scopes=("read", "write")))
    model = {"llm__provider": "auto", "llm__base_url": "http://127.0.0.1:1/inner/v1", "llm__model": "any"}
    question = {"message": "how does a transfer work?", "projects": [PROJECT]}
    with team_client(postgres, tmp_path, embedding__provider="none", **model) as web:
        replies = [
            web.get("/chat/models", headers=ann),
            web.post("/chat", json=question, headers=ann),
            web.post("/chat", json=question | {"stream": False}, headers=ann),
            web.post("/api/v1/ask", json={"question": "a transfer?", "paths": [PROJECT]}, headers=ann),
        ]
    for reply in replies:
        assert "refuses the connection" in reply.text
        assert "127.0.0.1:1" not in reply.text
        assert "inner" not in reply.text


def test_memories_of_a_project_are_bounded_as_in_a_file(
    people: dict[str, int], postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.team.user_data.MAX_BYTES", 600)
    with server(postgres, tmp_path / "one") as one, called_by(people["ann"]):
        first = remember(one, "short " * 20)
        with pytest.raises(UsageError, match=r"would have .* bytes"):
            remember(one, "long " * 100)
        one.knowledge.memory_remove(MemoryRequest(first, PROJECT))
        remember(one, "another " * 20)
        assert len(texts(one)) == 1


def test_servers_that_remember_at_once_lose_nothing(people: dict[str, int], postgres: str, tmp_path: Path) -> None:
    def tell(at: int) -> None:
        with server(postgres, tmp_path / f"server{at}") as engine, called_by(people["ann"]):
            for number in range(5):
                remember(engine, f"fact {at} {number}")

    threads = [threading.Thread(target=tell, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with server(postgres, tmp_path / "last") as engine, called_by(people["bob"]):
        assert len(texts(engine)) == 15
