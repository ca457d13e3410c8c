"""`codeinfo push` to a real server: what is uploaded, who sees it, and that no file is gained by claiming its hash."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from git_server import GitServer, serving
from msgspec.structs import replace
from postgres_tools import called_by, caller_of
from repository_tools import Repository
from worker_tools import Team

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine.index_manager import model_meta
from codeinfo.engine.team import Server
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.knowledge.memory import Memory
from codeinfo.model import FileKind, Import, IndexedFile, ParsedFile, SourceFile, msgpack_decoder
from codeinfo.operations.team import (
    PushReport,
    PushRequest,
    RemovedTeamUser,
    TeamAuditRequest,
    TeamProjectIndexRequest,
    TeamUserRequest,
)
from codeinfo.team import access
from codeinfo.team.access import Caller, Refused
from codeinfo.team.jobs import forget_history
from codeinfo.team.receiving import MOST_BYTES, MOST_FILE_BYTES, Answer, PushedFile, PushedFiles, PushedTree, Uploads
from codeinfo.team.store import decode_file, encode_file, open_tree
from codeinfo.team.user_data import TeamUserData, change_memories

SECRET = "def only_for_some():\n    return 'the hidden price'\n"


@pytest.fixture
def upstream(tmp_path: Path) -> Repository:
    (tmp_path / "served").mkdir()
    repository = Repository(tmp_path / "served" / "shop")
    repository.commit("Begin", {f"m{n}.py": f"def part_{n}():\n    return {n}\n" for n in range(20)})
    return repository


@pytest.fixture
def server(upstream: Repository) -> Iterator[GitServer]:
    with serving(upstream.folder.parent) as running:
        yield running


@pytest.fixture
def team(postgres: str, tmp_path: Path) -> Iterator[Team]:
    team = Team(postgres, tmp_path / "machine")
    yield team
    team.close()


@pytest.fixture
def web(team: Team) -> Iterator[str]:
    """The address of a team's server in a process of its own."""
    line = [sys.executable, "-m", "codeinfo", "serve", "--port", "0"]
    with subprocess.Popen(line, env=team.environment, cwd=team.home, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1].rstrip("/")
        finally:
            process.terminate()


def developer(team: Team, name: str, home: Path, *scopes: str) -> Config:
    """The settings of somebody who has a token and no database."""
    access.create_user(team.database, name)
    home.mkdir()
    token = home / "token"
    token.write_text(access.create_token(team.database, name, scopes=scopes or ("read", "write")))
    token.chmod(0o600)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "CODEINFO_HOME": str(home / "own")}
    return Config.load({"store.token_file": str(token), "index.workers": "1"}, home, environment)


def clone(upstream: Repository, server: GitServer, folder: Path) -> Repository:
    upstream.git("clone", "-q", server.url("shop"), str(folder))
    mine = Repository.__new__(Repository)
    mine.folder, mine.clock = folder, upstream.clock
    return mine


def push(config: Config, folder: Path, web: str, **more: Any) -> PushReport:
    with Engine(config) as engine:
        return engine.team.push(PushRequest(str(folder), web, **more))


def test_what_a_developer_has_is_uploaded_and_theirs_alone(
    team: Team, upstream: Repository, server: GitServer, web: str, tmp_path: Path
) -> None:
    project = team.add(server, "shop")
    team.work()
    ann, bob = developer(team, "ann", tmp_path / "ann"), developer(team, "bob", tmp_path / "bob")
    access.grant(team.database, project, "ann", "write")
    access.grant(team.database, project, "bob", "read")
    mine = clone(upstream, server, tmp_path / "mine")
    commit = mine.git("rev-parse", "HEAD")
    (mine.folder / "m3.py").write_text("def part_3():\n    return 'edited at home'\n")
    (mine.folder / "new.py").write_text("def quite_new():\n    return 1\n")
    (mine.folder / "m4.py").unlink()
    report = push(ann, mine.folder, web)
    assert report == PushReport(project, "work/ann/mine", 20, 2)
    again = push(ann, mine.folder, web)
    assert (again.files, again.uploaded) == (20, 0)

    row = open_tree(team.database, None, project, "work/ann/mine")
    assert row is not None
    assert (row.revision, row.complete) == (commit, True)
    assert texts(team, "work/ann/mine") == {path.name: path.read_text().rstrip() for path in mine.folder.glob("*.py")}

    with pytest.raises(UsageError, match=r"you may read .*, but not push to it"):
        push(bob, mine.folder, web)
    caller = caller_of(team.database, (tmp_path / "bob" / "token").read_text())
    assert caller is not None
    assert open_tree(team.database, caller.user_id, project, "work/ann/mine") is None
    (mine.folder / "m3.py").write_text("def part_3():\n    return 3\n")
    assert push(ann, mine.folder, web).uploaded == 0  # which the project has
    with team.database.transaction() as db:
        reported = db.execute("SELECT count(*) FROM audit WHERE action = 'pushed'").fetchall()
    assert reported == [(3,)]


def texts(team: Team, tree: str) -> dict[str, str]:
    """The files of a tree as they are stored."""
    query = """SELECT e.path, f.payload FROM entries e JOIN trees t ON t.id = e.tree JOIN files f ON f.id = e.file
               WHERE t.name = %s"""
    with team.database.transaction() as db:
        rows = db.execute(query, (tree,)).fetchall()
    return {path: "\n".join(chunk.text for chunk in decode_file(payload).parsed.chunks) for path, payload in rows}


def test_wrong_addresses_and_tokens_are_refused(
    team: Team, upstream: Repository, server: GitServer, web: str, tmp_path: Path
) -> None:
    project = team.add(server, "shop")
    reader = developer(team, "rob", tmp_path / "rob", "read")
    access.grant(team.database, project, "rob", "write")
    mine = clone(upstream, server, tmp_path / "mine")
    with pytest.raises(UsageError, match="needs the scope write"):
        push(reader, mine.folder, web)
    stranger = developer(team, "eve", tmp_path / "eve")
    for named in ("", "code.example/no/such"):
        with pytest.raises(UsageError, match="the team has no project"):
            push(stranger, mine.folder, web, project=named)
    for address in ("http://me:hunter2@code.example?key=hunter2", "ftp://me:hunter2@code.example"):
        with pytest.raises(UsageError, match=r"unencrypted|names no host") as refused:
            push(stranger, mine.folder, address)
        assert "hunter2" not in str(refused.value)
    with pytest.raises(UsageError, match="no server is set"):
        push(stranger, mine.folder, "")
    (tmp_path / "eve" / "token").write_text("cit_" + "a" * 43)
    with pytest.raises(UsageError, match="that token is not valid"):
        push(stranger, mine.folder, web)
    with pytest.raises(CodeInfoError, match="cannot be reached"):
        push(stranger, mine.folder, "http://127.0.0.1:9")
    for address in ("http://[", "http://127.0.0.1:99999"):
        with pytest.raises(UsageError, match="is not an address"):
            push(stranger, mine.folder, address)
    (tmp_path / "eve" / "token").write_text("cit_two\nlines")
    with pytest.raises(UsageError, match="does not contain one key") as caught:
        push(stranger, mine.folder, web)
    assert "cit_two" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (200, b"<html>Sign in</html>", "it answered 200"),
        (200, b"", "it answered 200"),
        (400, b"[" * 100_000, "it answered 400"),
        (400, b'{"error": [1]}', "it answered 400"),
        (400, b'{"error": {"message": 5, "next": [], "code": {}}}', "127.0.0.1: 5"),
    ],
)
def test_what_is_no_team_s_server_is_said_so(tmp_path: Path, status: int, answer: bytes, says: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    token = tmp_path / "token"
    token.write_text("cit_" + "a" * 43)
    token.chmod(0o600)
    config = Config.load({"store.token_file": str(token)}, tmp_path)
    with HTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.handle_request)
        asked = Server(config, f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(CodeInfoError, match=says):
            asked.ask("lacking", PushedTree("git.example/a/b", "main", "", ()))


# --- what the server believes --------------------------------------------------------------------------------------


def uploads(team: Team, name: str, project: str, level: str = "write") -> Uploads:
    access.create_user(team.database, name)
    access.grant(team.database, project, name, level)
    with team.database.transaction() as db:
        number = access.user_id(db, name)
    meta = model_meta(team.engine.embedder())
    return Uploads(team.database, Caller(number, name, scopes=frozenset({"write"})), team.engine.indexes.recipe(), meta)


def listed(path: str, text: str) -> PushedFile:
    return PushedFile(path, len(text), 1, hashlib.sha256(text.encode()).hexdigest(), False)


def test_a_branch_that_moves_on_during_a_push_costs_another_round_each_time(
    team: Team,
    upstream: Repository,
    server: GitServer,
    web: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = team.add(server, "shop")
    team.work()
    ann = developer(team, "ann", tmp_path / "ann")
    access.grant(team.database, project, "ann", "write")
    mine = clone(upstream, server, tmp_path / "mine")
    ask, steps = Server.ask, list[str]()

    def watched(self: Server, step: str, value: object) -> Answer:
        number = steps.count("tree")
        if step == "tree" and number < 4:
            upstream.commit("Move on", {f"m{number}.py": f"def part_{number}():\n    return 'elsewhere'\n"})
            team.engine.team.index_project(TeamProjectIndexRequest(project))
            team.work()
        steps.append(step)
        return ask(self, step, value)

    monkeypatch.setattr(Server, "ask", watched)
    report = push(ann, mine.folder, web)
    assert steps == ["lacking", "tree", *["files", "tree"] * 4]
    assert (report.files, report.uploaded) == (20, 4)
    assert texts(team, "work/ann/mine")["m3.py"] == (mine.folder / "m3.py").read_text().rstrip()


def test_claiming_a_hash_gives_nothing(team: Team, upstream: Repository, server: GitServer, tmp_path: Path) -> None:
    """Eve knows path and hash of a file in a fork that she may not see, which shares a family with hers."""
    shop = team.add(server, "shop")
    upstream.git("clone", "-q", ".", str(tmp_path / "served" / "hidden"))
    hidden = Repository.__new__(Repository)
    hidden.folder, hidden.clock = tmp_path / "served" / "hidden", upstream.clock
    hidden.commit("Hide", {"price.py": SECRET})
    team.add(server, "hidden", fork_of=shop)
    team.work()
    eve = uploads(team, "eve", shop)
    recipe = team.engine.indexes.recipe()
    claimed = PushedTree(shop, "mine", recipe, (listed("price.py", SECRET),))
    assert eve.list_missing_files(claimed).lacking == ("price.py",)  # as if nobody had it
    assert eve.set_tree(claimed).lacking == ("price.py",)
    other = "def guess():\n    return 0\n"
    with team.database.transaction() as db:
        query = "SELECT payload FROM files WHERE path = 'm1.py' LIMIT 1"
        mine = decode_file(db.execute(query).fetchall()[0][0])
    forged = replace(mine, source=SourceFile("price.py", len(other), 1), sha256=claimed.files[0].sha256)
    eve.store(PushedFiles(shop, recipe, (encode_file(forged),)))
    assert eve.set_tree(claimed).tree == "work/eve/mine"
    assert texts(team, "work/eve/mine") == {"price.py": "\n".join(chunk.text for chunk in mine.parsed.chunks)}

    upstream.commit("Show", {"price.py": SECRET})  # workers do not take hers for it
    team.engine.team.index_project(TeamProjectIndexRequest(shop, "refs/heads/main"))
    team.work()
    assert texts(team, "refs/heads/main")["price.py"] == SECRET.rstrip()


def test_vectors_of_an_upload_do_not_get_into_a_branch(team: Team, upstream: Repository, server: GitServer) -> None:
    """Eve uploads what a file of the next commit will have, with vectors that hide it from searches."""
    shop = team.add(server, "shop")
    team.work()
    with team.database.transaction() as db:
        query = "SELECT payload FROM files WHERE path = %s AND NOT sha256 ^@ 'user-'"
        known = decode_file(db.execute(query, ("m1.py",)).fetchall()[0][0])
        assert known.vectors is not None
        forged = replace(known, source=SourceFile("next.py", 1, 1), vectors=-known.vectors)
        uploads(team, "eve", shop).store(PushedFiles(shop, team.engine.indexes.recipe(), (encode_file(forged),)))
    upstream.commit("Go on", {"next.py": (upstream.folder / "m1.py").read_text() + "\n"})
    team.engine.team.index_project(TeamProjectIndexRequest(shop, "refs/heads/main"))
    team.work()
    with team.database.transaction() as db:
        (indexed,) = (decode_file(payload) for (payload,) in db.execute(query, ("next.py",)))
    assert indexed.parsed.chunks == known.parsed.chunks
    assert np.allclose(indexed.vectors, known.vectors)


def test_a_short_upload_with_many_names_is_refused_before_it_is_decoded(team: Team, server: GitServer) -> None:
    """Each name takes two bytes, and sixty once decoded: nothing of them is counted later."""
    shop = team.add(server, "shop")
    ann = uploads(team, "ann", shop)
    file = IndexedFile(SourceFile("a.py", 1, 1), "0" * 64, "python", FileKind.CODE, ParsedFile(()))
    empty = msgspec.msgpack.encode(file)
    names = b"\xdd" + (11_000_000).to_bytes(4) + b"\xa1x" * 11_000_000
    many = empty.replace(b"\xaapath_terms\x90", b"\xaapath_terms" + names)
    payload = msgspec.msgpack.encode([1, zlib.compress(many), 0, b""])
    assert len(payload) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="20,000,000 bytes"):
            ann.store(PushedFiles(shop, team.engine.indexes.recipe(), (payload,)))
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_a_user_s_uploads_have_a_limit_and_can_be_removed(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path
) -> None:
    shop = team.add(server, "shop")
    team.work()
    recipe = team.engine.indexes.recipe()
    with team.database.transaction() as db:
        good = decode_file(db.execute("SELECT payload FROM files LIMIT 1").fetchall()[0][0])
    texts = {name: f"the text of {name}" for name in ("a.py", "b.py", "c.py")}
    payloads = {
        name: encode_file(replace(good, source=listed(name, text).source, sha256=listed(name, text).sha256))
        for name, text in texts.items()
    }
    ann = msgspec.structs.replace(uploads(team, "ann", shop), most_bytes=int(2.5 * max(map(len, payloads.values()))))
    bob = msgspec.structs.replace(uploads(team, "bob", shop), most_bytes=ann.most_bytes)

    def push_tree(user: Uploads, tree: str, *names: str) -> Answer:
        user.store(PushedFiles(shop, recipe, tuple(payloads[name] for name in names)))
        return user.set_tree(PushedTree(shop, tree, recipe, tuple(listed(name, texts[name]) for name in names)))

    push_tree(ann, "one", "a.py")
    push_tree(ann, "two", "b.py")
    with pytest.raises(UsageError, match="your uploads would take") as refused:
        push_tree(ann, "three", "c.py")
    assert (refused.value.code, "codeinfo push --remove" in refused.value.next_step) == ("QUOTA_EXCEEDED", True)
    before = counts(team)["files"]
    small = PushedFiles(shop, recipe, (encode_file(replace(good, source=SourceFile("d.py", 1, 1), sha256="d" * 64)),))
    bob.store(small)
    with pytest.raises(UsageError, match="your uploads would take"):
        bob.store(PushedFiles(shop, recipe, tuple(payloads.values())))
    assert counts(team)["files"] == before, "what a push that failed has uploaded takes no room"
    push_tree(bob, "one", "a.py", "b.py")
    with pytest.raises(NotFound, match="you have no work tree two"):
        bob.remove_tree(PushedTree(shop, "two", "", ()))
    assert ann.remove_tree(PushedTree(shop, "one", "", ())).tree == "work/ann/one"
    push_tree(ann, "two", "c.py")
    push_tree(ann, "two", "a.py")  # what a tree no longer has makes room
    assert set(trees_of(team)) == {"refs/heads/main", "work/ann/two", "work/bob/one"}


def test_work_trees_without_uploads_have_a_limit_too(team: Team, upstream: Repository, server: GitServer) -> None:
    """Each lists what the project has: the rows of a hundred thousand files under many names would fill a database."""
    shop = team.add(server, "shop")
    team.work()
    known = tuple(listed(f"m{n}.py", f"def part_{n}():\n    return {n}\n") for n in range(20))
    ann = msgspec.structs.replace(uploads(team, "ann", shop), most_bytes=12_000)
    trees = [PushedTree(shop, name, team.engine.indexes.recipe(), known) for name in ("one", "two", "three")]
    for tree in (*trees[:2], trees[0]):  # pushed again, a tree takes no more
        assert ann.set_tree(tree).tree == f"work/ann/{tree.name}"
    with pytest.raises(UsageError, match="your lists of files would take") as refused:
        ann.set_tree(trees[2])
    assert refused.value.code == "QUOTA_EXCEEDED"
    ann.remove_tree(trees[1])
    assert ann.set_tree(trees[2]).tree == "work/ann/three"


def trees_of(team: Team) -> list[str]:
    return [name for (name,) in team.database.rows("SELECT name FROM trees")]


def test_a_folder_s_work_tree_is_removed_by_a_command(
    team: Team, upstream: Repository, server: GitServer, web: str, tmp_path: Path
) -> None:
    project = team.add(server, "shop")
    team.work()
    ann = developer(team, "ann", tmp_path / "ann")
    access.grant(team.database, project, "ann", "write")
    mine = clone(upstream, server, tmp_path / "mine")
    (mine.folder / "new.py").write_text("def quite_new():\n    return 1\n")
    push(ann, mine.folder, web)
    assert push(ann, mine.folder, web, remove=True) == PushReport(project, "work/ann/mine", removed=True)
    assert trees_of(team) == ["refs/heads/main"]
    assert team.database.rows("SELECT count(*) FROM files WHERE sha256 LIKE 'user-%'") == [(0,)]
    with pytest.raises(UsageError, match="you have no work tree mine"):
        push(ann, mine.folder, web, remove=True)


def test_a_user_is_removed_with_all_that_is_theirs(
    team: Team, upstream: Repository, server: GitServer, tmp_path: Path
) -> None:
    shop = team.add(server, "shop")
    team.work()
    recipe, database = team.engine.indexes.recipe(), team.database
    with database.transaction() as db:
        good = decode_file(db.execute("SELECT payload FROM files LIMIT 1").fetchall()[0][0])
    ann, bob = uploads(team, "ann", shop), uploads(team, "bob", shop)
    file = listed("a.py", "only here")
    for user in (ann, bob):
        user.store(PushedFiles(shop, recipe, (encode_file(replace(good, source=file.source, sha256=file.sha256)),)))
        user.set_tree(PushedTree(shop, "mine", recipe, (file,)))
        with called_by(user.caller.user_id):
            data = TeamUserData(database)
            with data.writing() as rows:
                rows.execute(
                    """INSERT INTO conversations(id, title, provider, model, source, created_at, last_message_at,
                       agent_name, paths) VALUES (?, '', '', '', 'REST', '', '', '', '')""",
                    f"of {user.caller.name}",
                )
            memory = Memory(
                "m" * 12, "decision", "tooling", f"what {user.caller.name} decided", "because", "2026-01-01"
            )
            change_memories(database, shop, partial(add_memory, replace(memory, id=user.caller.name)))
        access.create_token(database, user.caller.name)
    token = access.create_token(database, "ann")
    session = access.new_session(database, ann.caller.user_id)
    before = counts(team)
    removed = team.engine.team.remove_user(TeamUserRequest("ann"))
    assert removed == RemovedTeamUser("ann", 1, 1, 1, 1)
    assert {table: before[table] - count for table, count in counts(team).items()} == {
        "users": 1, "tokens": 2, "grants": 1, "conversations": 1, "memories": 1, "trees": 1, "files": 1,
    }  # fmt: skip
    assert caller_of(database, token) is None
    assert access.session_caller(database, session) is None
    events = team.engine.team.audit(TeamAuditRequest()).events
    assert events[0].action == "user removed"
    former = f"user {ann.caller.user_id}, removed"
    assert {event.user for event in events if event.action == "pushed"} == {former, "bob"}
    with pytest.raises(NotFound):
        ann.store(PushedFiles(shop, recipe, ()))
    with pytest.raises(NotFound, match="no user ann"):
        team.engine.team.remove_user(TeamUserRequest("ann"))


def test_who_is_removed_while_their_push_ends_is_told(
    team: Team, upstream: Repository, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = team.add(server, "shop")
    ann = uploads(team, "ann", shop)
    monkeypatch.setattr(Uploads, "_find_known", lambda *_: team.engine.team.remove_user(TeamUserRequest("ann")) and {})
    with pytest.raises(Refused, match="your account was removed"):
        ann.set_tree(PushedTree(shop, "mine", team.engine.indexes.recipe(), ()))
    assert not team.database.rows("SELECT name FROM trees WHERE name LIKE 'work/ann/%'")


def counts(team: Team) -> dict[str, int]:
    tables = ("users", "tokens", "grants", "conversations", "memories", "trees", "files")
    return {table: team.database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def add_memory(memory: Memory, before: tuple[Memory, ...]) -> tuple[Memory, ...]:
    return (*before, memory)


def test_the_audit_log_ends_after_its_days(team: Team) -> None:
    with team.database.transaction() as db:
        for days in (399, 401):
            insert = "INSERT INTO audit(action, at) VALUES (%s, now() - make_interval(days => %s))"
            db.execute(insert, (f"{days} days ago", days))
    actions = "SELECT action FROM audit WHERE action LIKE '%days ago' ORDER BY action"
    forget_history(team.database, 0)
    assert team.database.rows(actions) == [("399 days ago",), ("401 days ago",)]
    forget_history(team.database, team.engine.team.tools().audit_days)
    assert team.database.rows(actions) == [("399 days ago",)]


@pytest.mark.parametrize("field", ["terms", "vectors"])
def test_an_upload_takes_no_more_memory_than_it_has_bytes(team: Team, server: GitServer, field: str) -> None:
    shop = team.add(server, "shop")
    ann = uploads(team, "ann", shop)
    many = b"\xdd" + (3_000_000).to_bytes(4) + b"\x80" * 3_000_000  # empty objects, of a byte each
    parts = {"chunks": b"\x90", "terms": many if field == "terms" else b"\x90"}
    file = {
        "source": msgspec.msgpack.encode(SourceFile("a.py", 1, 1)),
        "sha256": msgspec.msgpack.encode("0" * 64),
        "language": msgspec.msgpack.encode("python"),
        "kind": msgspec.msgpack.encode("code"),
        "parsed": b"\x82" + b"".join(msgspec.msgpack.encode(name) + value for name, value in parts.items()),
        "vectors": many if field == "vectors" else b"\xc0",
    }
    encoded = b"\x86" + b"".join(msgspec.msgpack.encode(name) + value for name, value in file.items())
    payload = msgspec.msgpack.encode([1, zlib.compress(encoded), 0, b""])
    assert len(payload) < 10_000
    tracemalloc.start()
    try:
        with pytest.raises(UsageError):
            ann.store(PushedFiles(shop, team.engine.indexes.recipe(), (payload,)))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_an_upload_has_a_limited_number_of_names(
    team: Team, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes far more memory than the bytes it is sent in."""
    monkeypatch.setattr("codeinfo.team.receiving.MOST_TEXTS", 1000)
    shop = team.add(server, "shop")
    team.work()
    ann, recipe = uploads(team, "ann", shop), team.engine.indexes.recipe()
    with team.database.transaction() as db:
        good = decode_file(db.execute("SELECT payload FROM files LIMIT 1").fetchall()[0][0])
    ann.store(PushedFiles(shop, recipe, (encode_file(good),)))
    many = ("x",) * 1001
    imported = replace(good.parsed, imports=(Import("a", 1, many),))
    for file in (replace(good, path_terms=many), replace(good, notes=many), replace(good, parsed=imported)):
        with pytest.raises(UsageError, match="names and terms"):
            ann.store(PushedFiles(shop, recipe, (encode_file(file),)))


def test_nonsense_is_refused(team: Team, upstream: Repository, server: GitServer) -> None:
    shop = team.add(server, "shop")
    team.work()
    ann = uploads(team, "ann", shop)
    recipe = team.engine.indexes.recipe()
    with team.database.transaction() as db:
        good = decode_file(db.execute("SELECT payload FROM files LIMIT 1").fetchall()[0][0])
    assert good.vectors is not None
    ann.store(PushedFiles(shop, recipe, (encode_file(good),)))
    no_lines = tuple(replace(chunk, start_line=0) for chunk in good.parsed.chunks)
    far = {"start_line": 1 << 30, "end_line": 1 << 30}
    far_chunks = tuple(replace(chunk, **far) for chunk in good.parsed.chunks)
    far_definitions = tuple(replace(one, **far) for one in good.parsed.definitions)
    wrong = [
        b"",
        b"\x80",
        encode_file(good)[:-40],
        encode_file(replace(good, sha256="user-1-" + good.sha256)),
        encode_file(replace(good, source=SourceFile("../up.py", 1, 1))),
        encode_file(replace(good, source=SourceFile("/etc/x", 1, 1))),
        encode_file(replace(good, vectors=None)),
        encode_file(replace(good, vectors=good.vectors[:, :8])),
        encode_file(replace(good, vectors=np.full_like(good.vectors, np.nan))),
        encode_file(replace(good, parsed=replace(good.parsed, terms=()))),
        encode_file(replace(good, parsed=replace(good.parsed, terms=tuple({"x": 1e30} for _ in good.parsed.terms)))),
        encode_file(replace(good, parsed=replace(good.parsed, chunks=no_lines))),
        encode_file(replace(good, parsed=replace(good.parsed, chunks=far_chunks))),
        encode_file(replace(good, parsed=replace(good.parsed, definitions=far_definitions))),
        encode_file(replace(good, references=b"no uses")),
        encode_file(replace(good, references=zlib.compress(b"x" * (MOST_BYTES + 1)))),
    ]
    for payload in wrong:
        with pytest.raises(UsageError):
            ann.store(PushedFiles(shop, recipe, (payload,)))
    large = encode_file(replace(good, path_terms=("x" * (MOST_FILE_BYTES - 10_000),)))
    ann.store(PushedFiles(shop, recipe, (large,)))
    with pytest.raises(UsageError, match="too large"):
        ann.store(PushedFiles(shop, recipe, (large,) * (1 + MOST_BYTES // MOST_FILE_BYTES)))
    plain = listed("a.py", "x")
    for tree in (
        PushedTree(shop, "../main", recipe, ()),
        PushedTree(shop, "mine", recipe, (plain, plain)),
        PushedTree(shop, "mine", recipe, (replace(plain, path="a/../../b"),)),
        PushedTree(shop, "mine", recipe, (replace(plain, path="a/" * 201 + "b"),)),
        PushedTree(shop, "mine", recipe, (replace(plain, path="a" * 2001),)),
        PushedTree(shop, "mine", recipe, (replace(plain, sha256="x"),)),
        PushedTree(shop, "mine", recipe, (plain,), "HEAD"),
        PushedTree(shop, "mine", "another", (plain,)),
    ):
        with pytest.raises(UsageError):
            ann.list_missing_files(tree)
    with pytest.raises(NotFound):
        ann.list_missing_files(PushedTree("code.example/none", "mine", recipe, (plain,)))
    with pytest.raises(Refused):
        uploads(team, "rob", shop, "read").list_missing_files(PushedTree(shop, "mine", recipe, (plain,)))
    with pytest.raises(msgspec.ValidationError):
        msgpack_decoder(PushedTree).decode(msgspec.msgpack.encode({"project": 1}))
