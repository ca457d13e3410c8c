"""Kills an index run, at random moments and at exact write calls, and looks at what is left.

    python benchmarks/kill_points.py                             # 200 random moments, 100 exact write calls
    python benchmarks/kill_points.py --random 10 --calls 10 --seed 7

Three kinds of runs take turns: a first build, an update after edits, and a rebuild because a setting changed. A write
call is a write, sync or truncate of SQLite, or a write, sync, rename or removal of a file beside it; a killed write has
got half of its bytes onto the disk. After each kill: the index opens, a search finds what was there before, every
committed file is still there, and the next run ends with the content digest of a clean build and leaves no orphans.

What a killed process had written stays in the kernel's cache, so this says nothing about a loss of power.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from store_digest import digest_of
from write_calls import WriteCalls

import codeinfo.index.line  # both imported before the first fork, so that a kill hits the run and not its imports
import codeinfo.store.sqlite
from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, NotFound
from codeinfo.operations.search import IndexRequest, SearchRequest
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore

FORK = multiprocessing.get_context("fork")
STEADY = "steady_landmark"  # a name in a file that no scenario touches
BATCH_CHUNKS = 64  # small batches, so that a run has many commits to be killed between


class Case(Struct, frozen=True):
    """One kind of run: the cache it starts from, the settings it runs with, the digest it must end with."""

    name: str
    start: Path | None
    flags: dict[str, Any]
    digest: str = ""


# --- the tree ------------------------------------------------------------------------------------------------------


def write_tree(root: Path, files: int) -> None:
    for at in range(files):
        write_file(root / f"part{at % 7}" / f"file{at}.py", at, "first")
    (root / "steady.py").write_text(f"def {STEADY}():\n    return 'never touched'\n")
    (root / "notes.md").write_text("# Notes\n\n" + "\n\n".join(f"## Part {at}\n\nWords." for at in range(20)))


def write_file(path: Path, at: int, version: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "\n".join(f"    total_{version} = left * {line} + right  # step {line} of {at}" for line in range(20))
    path.write_text("\n\n".join(f"def compute_{at}_{part}(left, right):\n{body}\n" for part in range(3)))


def edit_tree(root: Path, files: int) -> None:
    """Change a third, remove some, rename some, add some."""
    for at in range(0, files, 3):
        write_file(root / f"part{at % 7}" / f"file{at}.py", at, "second")
    for at in range(1, files, 9):
        (root / f"part{at % 7}" / f"file{at}.py").unlink()
    for at in range(2, files, 9):
        path = root / f"part{at % 7}" / f"file{at}.py"
        path.rename(path.with_name(f"renamed{at}.py"))
    for at in range(files, files + files // 6):
        write_file(root / "added" / f"file{at}.py", at, "new")


# --- runs, each in a process of its own ----------------------------------------------------------------------------


def engine(cache: Path, flags: dict[str, Any]) -> Engine:
    settings = {"paths.cache_dir": str(cache), "embedding.provider": "scripted", "index.workers": 1}
    return Engine(Config.load({**settings, **flags}, cache.parent, env={"HOME": str(cache.parent / "home")}))


def index(root: Path, cache: Path, flags: dict[str, Any]) -> str:
    """Bring the index up to date; its digest."""
    with engine(cache, flags) as opened:
        opened.index(IndexRequest((str(root),)))
        store = opened.indexes.of(root).live_store()
        assert store is not None
        return digest_of(store)


def killed_run(root: Path, cache: Path, flags: dict[str, Any], kill_at: int, log: Path, ready: Connection) -> None:
    """Index and log what is committed; `kill_at` counts write calls: negative for none. Tells how many there were."""
    calls = WriteCalls(kill_at)
    calls.install()
    log_commits(log)
    ready.send("ready")
    codeinfo.index.line.BATCH_CHUNKS = codeinfo.index.line.EMBED_CHUNKS = BATCH_CHUNKS
    index(root, cache, flags)
    ready.send(calls.count)


def in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a function called in a process of its own, so that each look at an index is a fresh one."""
    ours, theirs = FORK.Pipe()

    def call() -> None:
        try:
            theirs.send(function(*arguments))
        except (CodeInfoError, AssertionError, OSError, apsw.Error) as error:
            theirs.send(error)

    process = FORK.Process(target=call)
    process.start()
    theirs.close()
    try:
        value = ours.recv()
    except EOFError:
        value = RuntimeError(f"{function.__name__} died")
    process.join()
    if isinstance(value, Exception):
        raise value
    return value


# --- what the killed run did ------------------------------------------------------------------------------------------


def log_commits(log: Path) -> None:
    """After each commit: which file has which content now. A kill in between logs too little, never too much."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    apply = SqliteStore.apply

    def logged(store: SqliteStore, files: Any, removed: Any, touched: Any, reused: Any = ()) -> None:
        apply(store, files, removed, touched, reused)
        lines = [f"{file.source.path}\t{file.sha256}\n" for file in files] + [f"{path}\t\n" for path in removed]
        hashes = store.hashes([source.path for source, _ in reused])
        lines += [f"{path}\t{sha256}\n" for path, sha256 in hashes.items()]
        os.write(handle, "".join(lines).encode())

    setattr(SqliteStore, "apply", logged)  # noqa: B010  as above


# --- one point -----------------------------------------------------------------------------------------------------


def kill_once(root: Path, case: Case, work: Path, *, kill_at: int = -1, after_s: float = -1.0) -> tuple[bool, int]:
    """Run, kill, look, run again. Whether it was killed, and how many write calls a run that was not had made."""
    cache, log = work / "cache", work / "log"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    if case.start is not None:
        shutil.copytree(case.start, cache)
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=killed_run, args=(root, cache, case.flags, kill_at, log, theirs))
    process.start()
    theirs.close()
    assert ours.recv() == "ready"
    if after_s >= 0:
        process.join(after_s)
        process.kill()
    process.join()
    killed = process.exitcode == -signal.SIGKILL
    assert killed or process.exitcode == 0, f"the run ended by itself with {process.exitcode}"
    in_process(look, root, cache, case, log)
    digest = in_process(index, root, cache, case.flags)
    assert digest == case.digest, "the digest differs from that of a clean build"
    in_process(no_orphans, root, cache)
    return killed, 0 if killed else ours.recv()


def look(root: Path, cache: Path, case: Case, log: Path) -> None:
    committed = dict(line.split("\t") for line in log.read_text().splitlines()) if log.exists() else {}
    with engine(cache, case.flags) as opened:
        try:
            result = opened.search(SearchRequest(STEADY, (str(root),), refresh=False))
        except NotFound:
            result = None
    if case.start is not None or "steady.py" in committed:
        assert result is not None, "the index is gone"
        assert result.hits, "nothing is found"
        assert result.hits[0].path == "steady.py", "something else is found"
    folder = IndexFolder(cache, root)
    manifests = [store_manifest(build, folder.tree) for build in folder.path.glob("v*-*")]
    for path, sha256 in committed.items():
        assert any(manifest.get(path, "") == sha256 for manifest in manifests), f"{path} was committed and is lost"


def store_manifest(build: Path, tree: str) -> dict[str, str]:
    try:
        store = SqliteStore(build, tree)
    except CodeInfoError:  # killed before it had tables
        return {}
    return {path: row.sha256 for path, row in store.manifest().items()}


def no_orphans(root: Path, cache: Path) -> None:
    folder = IndexFolder(cache, root)
    names = sorted(path.name for path in folder.path.iterdir())
    builds = [name for name in names if name.startswith("v")]
    assert len(builds) == 1, f"builds left over: {names}"
    assert not [name for name in names if name.startswith(("damaged", "removed", "."))], f"left over: {names}"
    database = apsw.Connection(str(folder.path / builds[0] / "index.db"))
    listed = {name for (name,) in database.execute("SELECT vector_file FROM segments")}
    on_disk = {path.name for path in (folder.path / builds[0]).glob("vectors-*")}
    assert on_disk == listed, "vector files that no transaction lists"


# --- all points ----------------------------------------------------------------------------------------------------


def prepared(folder: Path, root: Path, files: int) -> list[Case]:
    """The three cases: indexes to start from, made before the tree was edited, and digests of clean builds."""
    write_tree(root, files)
    before, smaller = folder / "before", {"index.chunk_chars": 600}
    in_process(index, root, before, {})
    edit_tree(root, files)
    after = folder / "after"
    cases = [Case("first", None, {}), Case("update", before, {}), Case("rebuild", after, smaller)]
    digest = in_process(index, root, after, {})
    rebuilt = in_process(index, root, folder / "rebuilt", smaller)
    return [Case(case.name, case.start, case.flags, rebuilt if case.name == "rebuild" else digest) for case in cases]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--random", type=int, default=200, help="random moments")
    arguments.add_argument("--calls", type=int, default=100, help="exact write calls")
    arguments.add_argument("--files", type=int, default=120, help="size of the tree")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    chance = random.Random(options.seed)
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder, root = Path(name), Path(name) / "tree"
        root.mkdir()
        cases = prepared(folder, root, options.files)
        plan = planned(root, cases, folder / "work", options.random, options.calls, chance)
        killed = 0
        for done, (case, point) in enumerate(plan, 1):
            try:
                killed += kill_once(root, case, folder / "work", **point)[0]
            except Exception as error:  # every failure is counted and reported
                failures.append(f"{case.name} {point}: {type(error).__name__}: {error}")
                print(failures[-1], file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                print(f"\r{done}/{len(plan)}", end="", file=sys.stderr, flush=True)
    print(f"{len(plan)} points, {killed} killed at work, {len(failures)} failures")
    return 1 if failures else 0


def planned(
    root: Path, cases: list[Case], work: Path, moments: int, calls: int, chance: random.Random
) -> list[tuple[Case, dict[str, Any]]]:
    """Moments over the whole length of a run, and calls spread evenly over those it makes."""
    plan: list[tuple[Case, dict[str, Any]]] = []
    for at, case in enumerate(cases):
        started = time.monotonic()
        _, made = kill_once(root, case, work)
        length = (time.monotonic() - started) * 0.6  # the rest is the look at it and the second run
        share = len(range(at, calls, len(cases)))
        plan += [(case, {"kill_at": (part * made + chance.randrange(made)) // share % made}) for part in range(share)]
        plan += [(case, {"after_s": chance.uniform(0, length)}) for _ in range(at, moments, len(cases))]
        print(f"{case.name}: {made} write calls in a run")
    return plan


if __name__ == "__main__":
    sys.exit(main())
