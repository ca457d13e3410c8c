"""What must not break: a database that is down or goes away, a full disk, killed writers, a cache that is bounded."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from failover_tools import Node
from patience import wait_until, within
from postgres_tools import alone, indexed, team_database, team_store
from repository_tools import write
from store_digest import digest_of

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import OutOfSpace, StoreUnavailable
from codeinfo.model import IndexedFile
from codeinfo.operations.base import Progress
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.serve.refresh import server_engine
from codeinfo.team import database as module
from codeinfo.team.access import folder_identity
from codeinfo.team.database import TeamDatabase, migrations

KILLS = int(os.environ.get("CODEINFO_TEST_KILLS", "30"))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A PostgreSQL that may be killed."""
    with tempfile.TemporaryDirectory(prefix="codeinfo-node-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        made = Node(Path(folder, "node"))
        made.create()
        made.start()
        yield made
        made.stop()


def revive(node: Node) -> None:
    """Start it again after a kill, whose last traces may take a moment to go."""
    for _ in range(20):
        (node.folder / "postmaster.pid").unlink(missing_ok=True)
        try:
            node.start()
        except subprocess.CalledProcessError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError("PostgreSQL did not start again")


def functions(name: str, count: int) -> str:
    body = "    total = first + second  # both are amounts\n" * 8
    return "\n\n".join(f"def {name}_{at}(first, second):\n{body}    return total" for at in range(count)) + "\n"


@pytest.fixture
def url(node: Node) -> str:
    name = f"team_{os.urandom(4).hex()}"
    node.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@127.0.0.1:{node.port}/{name}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "bank", {f"part{at}.py": f"def part{at}():\n    return {at}\n" for at in range(40)})
    return tmp_path / "bank"


MakeEngine = Callable[..., Engine]


@pytest.fixture
def engine(tmp_path: Path, url: str) -> Iterator[MakeEngine]:
    made: list[Engine] = []

    def make(machine: str = "laptop", store: str = url, **flags: str) -> Engine:
        settings = {"paths.cache_dir": str(tmp_path / machine), "store.url": store, "index.workers": "1"}
        config = Config.load(settings | {key.replace("__", "."): value for key, value in flags.items()}, tmp_path)
        made.append(server_engine(config) if machine == "server" else Engine(config))
        return made[-1]

    yield make
    for one in made:
        one.close()


def digest(engine: Engine, name: str) -> str:
    store = engine.indexes.find(name).index.live_store()
    assert store is not None
    return digest_of(store)


def test_searches_go_on_without_the_database_and_say_so(node: Node, engine: MakeEngine, project: Path) -> None:
    laptop, server = engine(), engine("server")
    laptop.index(IndexRequest((str(project),)))
    identity = folder_identity(project)
    asked = [(laptop, SearchRequest("part7", (str(project),))), (server, SearchRequest("part7", (identity,)))]
    before = [one.search(request).hits for one, request in asked]
    node.kill()
    try:
        for _ in range(2):
            for (one, request), hits in zip(asked, before, strict=True):
                found = one.search(request)
                assert [hit.path for hit in found.hits] == [hit.path for hit in hits]
                assert any(note.startswith("may be stale: the team store at") for note in found.notes)
        with within(4):  # a connection is waited for for longer
            laptop.search(asked[0][1])
        (project / "new.py").write_text("def late():\n    return 1\n")
        with pytest.raises(StoreUnavailable):
            laptop.index(IndexRequest((str(project),)))
    finally:
        revive(node)
    laptop.index(IndexRequest((str(project),)))
    found = server.search(SearchRequest("late", (identity,)))
    assert found.hits[0].path == "new.py"
    assert not any("stale" in note for note in found.notes)


def test_a_new_process_without_the_database_answers_from_its_copy(
    node: Node, engine: MakeEngine, project: Path
) -> None:
    engine().index(IndexRequest((str(project),)))
    node.kill()
    try:
        found = engine().search(SearchRequest("part7", (str(project),)))
        assert found.hits[0].path == "part7.py"
        assert any(note.startswith("may be stale: the team store at") for note in found.notes)
        with pytest.raises(StoreUnavailable) as caught:  # nobody can say which tree that is
            engine().search(SearchRequest("part7", (folder_identity(project),)))
        assert caught.value.exit_code == 6
    finally:
        revive(node)


@pytest.mark.parametrize("moment", ["adopting", "unlocking"])
def test_a_copy_whose_process_died_after_pulling_it_is_used(engine: MakeEngine, project: Path, moment: str) -> None:
    laptop, server = engine(), engine("server")
    laptop.index(IndexRequest((str(project),)))
    request = SearchRequest("part7", (folder_identity(project),))
    before = server.search(request).hits
    folder = server.indexes.find(folder_identity(project)).index.folder
    server.close()
    if moment == "adopting":
        for pointer in (folder.tree_path / "current", folder.path / "current"):
            pointer.unlink()
    else:
        (folder.path / "lock").write_text(f"1 {folder.tree}")
    assert engine("server").search(request).hits == before


def test_a_database_that_goes_away_while_indexing_loses_nothing(
    node: Node, engine: MakeEngine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.index.line.BATCH_CHUNKS", 8)
    monkeypatch.setattr("codeinfo.index.line.EMBED_CHUNKS", 4)
    laptop, killed = engine(), list[int]()

    def kill(progress: Progress) -> None:
        if progress.phase == "index" and progress.done >= 20 and not killed:
            killed.append(progress.done)
            node.kill()

    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            laptop.index(IndexRequest((str(project),)), kill)
    finally:
        revive(node)
    assert killed
    (report,) = laptop.index(IndexRequest((str(project),))).reports
    assert 0 < report.added < 40  # what was committed is not done again
    clean, server = engine("clean", ""), engine("server")
    clean.index(IndexRequest((str(project),)))
    server.search(SearchRequest("part1", (folder_identity(project),)))
    assert digest(laptop, str(project)) == digest(server, folder_identity(project)) == digest(clean, str(project))


def test_the_server_ends_the_sessions_of_a_machine_that_is_cut_off(url: str) -> None:
    """As every connection asks it to: else it would look after two hours, and locks stay for so long."""
    wanted = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
    wanted |= {"tcp_user_timeout": "11000", "idle_in_transaction_session_timeout": "5min"}
    with closing(TeamDatabase(url)) as database, database.transaction() as pooled, closing(database._connect()) as own:
        for db in (pooled, own):
            assert {name: db.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in wanted} == wanted


def test_a_migration_that_is_cut_short_is_made_again(node: Node, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [*migrations(), module.Migration(9998, "slow", 1, "CREATE TABLE half(); SELECT pg_sleep(900)")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations", lambda: slow)
        failed: list[BaseException] = []

        def start() -> None:
            try:
                TeamDatabase(url).open()
            except StoreUnavailable as error:
                failed.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        sleeping = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(900)%' AND pid <> pg_backend_pid()"
        wait_until(lambda: bool(node.execute(sleeping)))
        node.kill()
        thread.join(120)
        revive(node)
    assert failed
    opened = TeamDatabase(url)
    opened.open()
    with opened.transaction() as db:
        made = {row[0] for row in db.execute("SELECT number FROM migrations")}
        assert not db.execute("SELECT 1 FROM pg_tables WHERE tablename = 'half'").fetchall()
    opened.close()
    assert made == {migration.number for migration in migrations()}


def test_a_disk_that_is_full_here_leaves_the_team_whole(
    engine: MakeEngine, project: Path, url: str, tmp_path: Path
) -> None:
    """A limit on the size of files stands for it; what was committed is pulled once there is room."""
    write(project, {f"long{at}.py": functions(f"long{at}", 60) for at in range(40)})
    environment = os.environ | {"CODEINFO_STORE_URL": url, "CODEINFO_CACHE_DIR": str(tmp_path / "laptop")}
    line = f"ulimit -f 300; exec {sys.executable} -m codeinfo index {project}"
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == OutOfSpace.exit_code, done.stderr
    assert "full" in done.stderr
    laptop, clean = engine(), engine("clean", "")
    laptop.index(IndexRequest((str(project),)))
    clean.index(IndexRequest((str(project),)))
    assert digest(laptop, str(project)) == digest(clean, str(project))


@pytest.fixture
def small_disk(node: Node) -> Iterator[tuple[str, Path]]:
    """The URL of a database on a disk of its own, and the folder where that is mounted."""
    folder, name = Path(tempfile.mkdtemp(dir=node.folder.parent)), f"small_{os.urandom(4).hex()}"
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (folder / "tables").mkdir()
        shutil.chown(folder / "tables", node.folder.stat().st_uid)
        folder.chmod(0o755)
        node.execute(f"CREATE TABLESPACE {name} LOCATION '{folder / 'tables'}'")
        node.execute(f"CREATE DATABASE {name} TABLESPACE {name}")
        yield f"postgresql://postgres@127.0.0.1:{node.port}/{name}", folder
        node.execute(f"DROP DATABASE {name} WITH (FORCE)")
        node.execute(f"DROP TABLESPACE {name}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_of_the_database_loses_nothing(
    engine: MakeEngine, project: Path, small_disk: tuple[str, Path], tmp_path: Path
) -> None:
    url, disk = small_disk
    engine(store=url).index(IndexRequest((str(project),)))
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(b"x" * (free - 100_000))
    write(project, {f"long{at}.py": functions(f"long{at}", 60) for at in range(15)})
    environment = os.environ | {"CODEINFO_STORE_URL": url, "CODEINFO_CACHE_DIR": str(tmp_path / "laptop")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "codeinfo", *arguments]
        return subprocess.run(line, env=environment, cwd=project, capture_output=True, text=True, check=False)

    done = run("index")
    assert done.returncode == OutOfSpace.exit_code, done.stderr
    assert done.stderr.startswith("error: the team store at"), done.stderr
    assert "part7.py" in run("search", "part7").stdout
    (disk / "filler").unlink()
    laptop, clean = engine(store=url), engine("clean", "")
    laptop.index(IndexRequest((str(project),)))
    clean.index(IndexRequest((str(project),)))
    assert digest(laptop, str(project)) == digest(clean, str(project))


def test_the_cache_stays_within_its_bound(engine: MakeEngine, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        write(folder, {f"{at}.py": functions(f"{folder.name}_{at}", 60) for at in range(20)})
        engine().index(IndexRequest((str(folder),)))
    server = engine("server", store__cache_mb="1")
    for _ in range(2):
        for folder in folders:
            found = server.search(SearchRequest(f"{folder.name}_7_1", (folder_identity(folder),)))
            assert found.hits[0].path == "7.py"
    (cache,) = (tmp_path / "server").glob("team-*/indexes")
    assert len(list(cache.iterdir())) < 3


def test_a_server_pulls_what_is_announced(engine: MakeEngine, project: Path) -> None:
    laptop, server = engine(), engine("server")
    laptop.index(IndexRequest((str(project),)))
    identity = folder_identity(project)
    server.search(SearchRequest("part1", (identity,)))
    index = server.indexes.find(identity).index
    time.sleep(0.5)  # it listens by then, or pulls because it may have missed something
    (project / "late.py").write_text("def late():\n    return 1\n")
    laptop.index(IndexRequest((str(project),)))

    def has_it() -> bool:
        store = index.live_store()
        return store is not None and "late.py" in store.manifest()

    wait_until(has_it)  # nobody asked


# --- killed writers ---


def versions(seed: int) -> list[IndexedFile]:
    """The files of a tree after some edits."""
    chosen = random.Random(seed)
    return [indexed(f"{at}.py", f"text {at} {chosen.randrange(4)}") for at in range(30) if chosen.random() < 0.8]


def bring_up_to(url: str, folder: Path, seed: int) -> None:
    """As an index run does: pull, compare, apply in batches, finish."""
    database = TeamDatabase(url)
    store = team_store(database, folder)
    store.pull()
    wanted = {file.source.path: file for file in versions(seed)}
    known = {path: row.sha256 for path, row in store.manifest().items()}
    changed = [file for path, file in sorted(wanted.items()) if known.get(path) != file.sha256]
    for at in range(0, len(changed), 5):
        store.apply(changed[at : at + 5], (), ())
    store.apply((), sorted(known.keys() - wanted.keys()), ())
    store.finish({})
    database.close()


def test_writers_killed_at_any_moment_leave_what_a_clean_build_has(tmp_path: Path) -> None:
    """CODEINFO_TEST_KILLS sets how many."""
    chosen = random.Random(5)
    killed = 0
    with team_database() as database:
        bring_up_to(database.url, tmp_path / "cache", 0)
        while killed < KILLS:
            seed = chosen.randrange(1_000_000)
            child = os.fork()
            if not child:
                bring_up_to(database.url, tmp_path / "cache", seed)
                os._exit(0)
            time.sleep(chosen.random() * 0.4)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
            if killed % 5 == 0:
                bring_up_to(database.url, tmp_path / "cache", seed)
                expected = alone(tmp_path / f"alone-{seed}", versions(seed))
                for folder in ("cache", f"other-{killed}"):
                    store = team_store(database, tmp_path / folder)
                    store.pull()
                    store.verify()
                    assert digest_of(store) == expected
                    store.close()
