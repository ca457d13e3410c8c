"""Kills and full disks while a collection is synced: every document stays whole, and the next sync repairs the rest."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from document_tools import add, ask, engine
from store_digest import digest_of

from codeinfo.engine import Engine
from codeinfo.engine.collections import lock_written
from codeinfo.engine.documents import BEING_INDEXED
from codeinfo.errors import Busy, UsageError
from codeinfo.operations.documents import (
    DocsDeleteRequest,
    DocsListRequest,
    DocsRemoveRequest,
    DocsSectionRequest,
    DocsSyncRequest,
    DocsUpdateRequest,
)

KILLS = 6
DOCUMENTS = 120
PATHS = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
SYNC = ("docs", "sync", "--set", "embedding.provider=scripted", "--set", "index.workers=1")


def write(folder: Path, version: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(DOCUMENTS):
        parts = "\n\n".join(f"## Part {part}\n\nversion {version} of the text, " + "word " * 150 for part in range(6))
        (folder / f"{number:03}.md").write_text(f"# Document {number}\n\n{parts}\n")


def versions(facade: Engine, number: int) -> set[str]:
    shown = facade.documents.section(DocsSectionRequest("pages", f"{number:03}.md"))
    return set(re.findall(r"version (\d+)", shown.content))


def digest(facade: Engine, project: Path) -> str:
    (collection,) = facade.documents.collections.all(project)[0]
    store = facade.documents.index_of(collection).live_store()
    assert store is not None
    return digest_of(store)


def test_kills_leave_every_document_whole(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    write(folder, 0)
    with engine() as facade:
        add(facade, folder)
    chance = random.Random(7)
    for version in range(1, KILLS + 1):
        write(folder, version)
        process = subprocess.Popen(
            [sys.executable, "-m", "codeinfo", *SYNC],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.3, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with engine() as facade:
            before = {hit.document for hit in ask(facade, "version of the text", refresh=False, limit=5)}
            assert before
            (collection,) = facade.documents.collections.all(tmp_path)[0]
            index_manager = facade.documents.index_of(collection)
            store = index_manager.live_store()
            assert store is not None
            assert len(store.manifest()) == DOCUMENTS
            store.verify()
    with engine() as facade:
        facade.documents.sync(DocsSyncRequest())
        assert all(versions(facade, number) == {str(KILLS)} for number in range(0, DOCUMENTS, 10))
        repaired = digest(facade, tmp_path)
        facade.documents.index_of(facade.documents.collections.all(tmp_path)[0][0]).refresh(full=True)
        assert digest(facade, tmp_path) == repaired


def test_a_document_is_never_half_old_and_half_new(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    write(folder, 0)
    with engine() as facade:
        add(facade, folder)
        write(folder, 1)
        syncing = subprocess.Popen([sys.executable, "-m", "codeinfo", *SYNC], cwd=tmp_path, stdout=subprocess.DEVNULL)
        seen: set[frozenset[str]] = set()
        (collection,) = facade.documents.collections.all(tmp_path)[0]
        index_manager = facade.documents.index_of(collection)
        while syncing.poll() is None:
            store = index_manager.live_store()
            assert store is not None
            with store.snapshot() as view:
                for file in (0, DOCUMENTS // 2, DOCUMENTS - 1):
                    first, count = int(view.file_first[file]), int(view.file_rows[file])
                    texts = " ".join(chunk.text for chunk in view.chunks(range(first, first + count)))
                    seen.add(frozenset(re.findall(r"version (\d+)", texts)))
        assert syncing.wait() == 0
        assert seen <= {frozenset({"0"}), frozenset({"1"})}


KILLED_UPDATE = """
import os, signal
from codeinfo.operations.documents import DocsUpdateRequest
from document_tools import engine
with engine() as facade:
    os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    facade.documents.update(DocsUpdateRequest("wiki", "guides/start.md", "# Start\\n\\nhalf"))
"""


def test_the_next_update_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    with engine() as facade:
        facade.documents.update(DocsUpdateRequest("wiki", "guides/start.md", "# Start\n\nTurn the key.\n"))
        home = facade.documents.collections.folder
        before = files_of(home)
        command = [sys.executable, "-c", KILLED_UPDATE]
        killed = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": PATHS}, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert len(files_of(home)) == len(before) + 1
        facade.documents.update(DocsUpdateRequest("wiki", "other.md", "# Other\n\nAnother one.\n"))
        assert {path.name for path in files_of(home) - before} == {"other.md"}


KILLED_REMOVAL = """
import os, signal
from codeinfo.operations.documents import DocsRemoveRequest
from document_tools import engine
remove = os.rmdir
os.rmdir = lambda path, **more: os.kill(os.getpid(), signal.SIGKILL) if path == "guides" else remove(path, **more)
with engine() as facade:
    facade.documents.remove(DocsRemoveRequest(("wiki",)))
"""


def test_a_killed_removal_can_be_repeated(tmp_path: Path) -> None:
    with engine() as facade:
        facade.documents.update(DocsUpdateRequest("wiki", "guides/start.md", "# Start\n\nTurn the key.\n"))
    command = [sys.executable, "-c", KILLED_REMOVAL]
    killed = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": PATHS}, check=False)
    assert killed.returncode == -signal.SIGKILL
    with engine() as facade:
        facade.documents.remove(DocsRemoveRequest(("wiki",)))
        assert not list(facade.documents.collections.folder.iterdir())
        assert facade.documents.collections.all(tmp_path)[0] == []


def test_a_refused_first_document_takes_nothing_of_others_along(tmp_path: Path) -> None:
    """What is written into a collection is nowhere else."""

    def write_one(collection: str, document: str) -> None:
        with engine() as facade, suppress(UsageError, Busy):
            facade.documents.update(DocsUpdateRequest(collection, document, "# Key\n\nTurn the key.\n"))

    for number in range(6):
        names = [(f"wiki{number}", "start.md"), (f"wiki{number}", "picture.png")]
        writers = [threading.Thread(target=write_one, args=name) for name in names[:: 1 if number % 2 else -1]]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        with engine() as facade:
            shown = facade.documents.section(DocsSectionRequest(f"wiki{number}", "start.md"))
            assert "Turn the key" in shown.content


def test_a_refused_document_does_not_replace_what_another_process_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking a refused one back is a second step: another process may write between the two."""

    def notebook(text: str) -> str:
        return json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": [text]}]})

    with engine() as facade:
        facade.documents.update(DocsUpdateRequest("wiki", "a.ipynb", notebook("Apples.")))
        steps = [lambda: None, lambda: other(notebook("Bananas.")), lambda: None]

        def other(text: str) -> None:
            with engine() as another:
                another.documents.update(DocsUpdateRequest("wiki", "a.ipynb", text))

        def lock(home: Path) -> AbstractContextManager[None]:
            steps.pop(0)()
            return lock_written(home)

        monkeypatch.setattr("codeinfo.engine.documents.lock_written", lock)
        with pytest.raises(UsageError, match="cannot be a document"):
            facade.documents.update(DocsUpdateRequest("wiki", "a.ipynb", "no notebook"))
        assert "Bananas" in facade.documents.section(DocsSectionRequest("wiki", "a.ipynb")).content


def test_a_document_is_written_and_deleted_while_others_index_its_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk is no failure, however long they take."""
    monkeypatch.setattr("codeinfo.engine.documents.PATIENCE_S", 0.3)
    with engine() as facade, engine() as other:
        facade.documents.update(DocsUpdateRequest("wiki", "a.md", "# A\n\nApples.\n"))
        (collection,), _ = other.documents.collections.find(tmp_path, ("wiki",))
        index = other.documents.index_of(collection)
        with index.folder.lock():
            written = facade.documents.update(DocsUpdateRequest("wiki", "b.md", "# B\n\nBananas.\n"))
            deleted = facade.documents.delete(DocsDeleteRequest("wiki", ("a.md",)))
        assert (written.changed, written.notes, deleted.documents) == (True, (BEING_INDEXED,), 1)
        assert written.hash == facade.documents.update(DocsUpdateRequest("wiki", "b.md", "# B\n\nBananas.\n")).hash
        monkeypatch.setattr("codeinfo.engine.documents.PATIENCE_S", 120.0)
        with index.folder.lock():
            request = DocsUpdateRequest("wiki", "c.md", "# C\n\nCherries.\n")
            waiting = threading.Thread(target=facade.documents.update, args=(request,))
            waiting.start()
            time.sleep(0.1)
        waiting.join()
        listed = facade.documents.list(DocsListRequest(("wiki",))).collections[0]
        assert [one.document for one in listed.listing] == ["b.md", "c.md"]


def test_syncs_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    upstream, identity = tmp_path / "upstream", ("-c", "user.name=x", "-c", "user.email=x@x.example")
    upstream.mkdir()

    def commit(text: str) -> None:
        for number in range(300):
            (upstream / f"{number}.md").write_text(f"# {text} {number}\n")
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", text)):
            subprocess.run(["git", *identity, *arguments], cwd=upstream, check=True)

    commit("first")
    with engine() as facade:
        add(facade, f"git+file://{upstream}", name="pages")
        home = facade.documents.collections.folder
    for text in ("second", "third"):
        commit(text)
        command = [sys.executable, "-m", "codeinfo", *SYNC]
        syncs = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(3)]
        codes = {sync.wait() for sync in syncs}
        assert 0 in codes
        assert codes <= {0, Busy.exit_code}
    assert not list(home.rglob(".partial-*"))


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


FULL_DISK = """
import subprocess, sys
from pathlib import Path
sys.path[:0] = {tests!r}
cache = Path({cache!r})
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "none", str(cache)], check=True)
from codeinfo.errors import OutOfSpace
from codeinfo.operations.documents import DocsSyncRequest
from document_tools import add, ask, engine
from test_documents_durability import write
folder = Path({folder!r})
small = folder.parent / "small"
small.mkdir()
(small / "a.md").write_text("# Apples\\n\\nApples are in the cellar.\\n")
with engine() as facade:
    add(facade, small)
    write(folder, 1)
    try:
        add(facade, folder)
    except OutOfSpace:
        pass
    else:
        raise SystemExit("the disk was large enough")
    assert "cellar" in ask(facade, "apples", collections=("small",))[0].content
subprocess.run(["mount", "-o", "remount,size=200m", str(cache)], check=True)
with engine() as facade:
    assert add(facade, folder).documents == {documents}
"""


def test_a_full_disk_ends_the_sync_and_harms_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    probe = ["unshare", "--mount", "--", "mount", "-t", "tmpfs", "none", str(cache)]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("mounting a file system needs more rights")
    code = FULL_DISK.format(
        tests=[str(Path(__file__).parents[up]) for up in (0, 1)],
        cache=str(cache),
        folder=str(tmp_path / "pages"),
        documents=DOCUMENTS,
    )
    environment = {**os.environ, "CODEINFO_CACHE_DIR": str(cache)}
    command = ["unshare", "--mount", "--", sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
