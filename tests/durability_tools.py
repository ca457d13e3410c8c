"""Small projects, their indexes, and ways to break either. Also a program: scenes that need a mount or a VFS of their
own, run as `python tests/durability_tools.py SCENE PROJECT CACHE` in a process that may lose both."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from store_digest import digest_of

from codeinfo.config import Config
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.index_sources import CodeSource, walk_settings
from codeinfo.errors import ProviderError
from codeinfo.models.retrieval import ScriptedEmbedder
from codeinfo.ports import Embedder
from codeinfo.shells.cli import run
from codeinfo.sources.git import family_of
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore

STEADY = "steady_landmark"


class CountingEmbedder(ScriptedEmbedder):
    """Remembers how much it embedded; `before_each` is called whenever it is asked."""

    def __init__(self, dimension: int = 64, *, fail_after: int | None = None) -> None:
        super().__init__(dimension)
        self.texts = 0
        self._fail_after = fail_after
        self.before_each: Callable[[], None] = lambda: None

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.before_each()
        if self._fail_after is not None and self.texts + len(texts) > self._fail_after:
            raise ProviderError("the embedder fails here on purpose", code="EMBEDDING_UNAVAILABLE")
        rows = super().embed_documents(texts)
        self.texts += len(texts)
        return rows


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def cli(*arguments: str | Path) -> Done:
    """The whole program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    assert "Traceback" not in err.getvalue(), err.getvalue()
    assert code != 1, err.getvalue()  # 1 is a bug in CodeInfo
    return Done(code, out.getvalue(), err.getvalue())


def make_project(folder: Path, files: int = 20) -> Path:
    folder.mkdir(parents=True)
    for at in range(files):
        body = "\n\n".join(f"def compute_{at}_{part}(left):\n    return left * {at} + {part}\n" for part in range(4))
        (folder / f"module{at:04}.py").write_text(f'"""Module {at}: numbers."""\n\n\n{body}')
    (folder / "steady.py").write_text(f"def {STEADY}():\n    return 'never touched'\n")
    return folder


def index_folder(project: Path) -> IndexFolder:
    root = project.resolve()
    return IndexFolder(Config.load(cwd=project).paths.cache_dir, root, family_of(root))


def live_build(project: Path) -> Path:
    build = index_folder(project).current()
    assert build is not None
    return build


def open_store(project: Path) -> SqliteStore:
    return SqliteStore(live_build(project), index_folder(project).tree)


def digest(project: Path) -> str:
    store = open_store(project)
    try:
        return digest_of(store)
    finally:
        store.close()


def index_manager(project: Path, embedder: Embedder | None, **flags: Any) -> IndexManager:
    settings = {key.replace("__", "."): value for key, value in flags.items()}
    config = Config.load(settings, project)
    return IndexManager(CodeSource(project.resolve(), walk_settings(config.index)), config, embedder)


def shown_texts_are_true(project: Path, hits: Sequence[dict[str, Any]]) -> bool:
    """Every text stands in its file at the lines the result names."""
    for hit in hits:
        lines = (project / hit["path"]).read_text().split("\n")
        shown = hit["text"].split("\n")
        at = hit["text_line"] - 1
        if lines[at : at + len(shown)] != shown:
            return False
    return True


def scene(name: str, project: Path, cache: Path, *, mounts: bool = False) -> subprocess.CompletedProcess[str]:
    """Run one of the scenes below; with `mounts` where mounting does not touch the rest of the machine."""
    command = ["unshare", "--mount", "--"] if mounts else []
    command += [sys.executable, __file__, name, str(project), str(cache)]
    environment = {**os.environ, "CODEINFO_CACHE_DIR": str(cache), "CODEINFO_EMBEDDING_PROVIDER": "scripted"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def can_mount(tmp_path: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    folder = tmp_path / "mount-probe"
    folder.mkdir()
    command = ["unshare", "--mount", "--", "mount", "-t", "tmpfs", "none", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# --- scenes --------------------------------------------------------------------------------------------------------


def full_disk(project: Path, cache: Path) -> None:
    """Too large an index, then a small one, then not a byte left."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(cache)], check=True)
    large = make_project(cache.parent / "large", 1500)
    done = cli("index", large, "--json")
    assert (done.code, error(done)["code"]) == (7, "OUT_OF_SPACE"), done
    assert cli("clear", large, "--yes").code == 0
    assert cli("index", project).code == 0
    before = digest(project)
    os.environ["CODEINFO_DATA_DIR"] = str(cache / "data")
    assert cli("conversations", "list").code == 0
    fill(cache / "filler")
    full = cli("conversations", "list", "--json")
    assert (full.code, error(full)["code"]) == (7, "OUT_OF_SPACE"), full  # not a disk that failed
    assert cli("search", STEADY, project).code == 0
    (project / "module0000.py").write_text("def changed():\n    return 1\n" * 50)
    assert cli("index", project).code == 7
    result = cli("search", STEADY, project, "--json")
    assert result.json["hits"][0]["path"] == "steady.py"
    assert any("may miss the newest changes" in note for note in result.json["notes"])
    assert digest(project) == before
    (cache / "filler").unlink()
    assert cli("index", project).code == 0
    assert digest(project) != before
    fill(cache / "filler")
    assert cli("clear", project, "--yes").code == 0  # it frees the space that is missing
    assert cli("status", project, "--json").json["indexes"][0]["state"] == "missing"


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as sink:
        for size in (1 << 16, 1):
            try:
                while True:
                    sink.write(b"x" * size)
            except OSError:
                continue  # not even this much room is left


def full_disk_exports(project: Path, cache: Path) -> None:
    """What is written on request ends with the reason, and what was there stays as it is."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(cache)], check=True)
    home = make_project(cache / "project", 3)
    os.environ["CODEINFO_DATA_DIR"] = str(cache.parent / "data")
    assert cli("remember", "Use ruff", "-t", "decision", "-c", "tooling", "-r", "Fast", "--path", home).code == 0
    memory, package = home / ".codeinfo" / "memory.json", cache / "pages.tar.gz"
    given, pages = cache.parent / "given.json", cache.parent / "pages"
    pages.mkdir()
    for at in range(20):
        (pages / f"{at}.md").write_text(f"# Page {at}\n\n" + os.urandom(2000).hex())
    rows = json.loads(memory.read_text())["memories"]
    given.write_text(json.dumps([{**rows[0], "id": f"{at:012x}", "memory": f"Use tool {at}"} for at in range(900)]))
    pack = ("docs", "pack", pages, "--name", "pages", "--out", package)
    assert cli(*pack, "--version", "1").code == 0
    before = memory.read_bytes(), package.read_bytes()
    fill(cache / "filler")
    export = [sys.executable, "-m", "codeinfo", "memory", "export", "--path", str(home)]
    with (cache / "export.json").open("w") as sink:
        assert subprocess.run(export, stdout=sink, stderr=subprocess.DEVNULL, check=False).returncode == 7
    for command in (("memory", "import", given, "--path", home), (*pack, "--version", "2")):
        done = cli(*command, "--json")
        assert (done.code, error(done)["code"]) == (7, "OUT_OF_SPACE"), done
        assert (memory.read_bytes(), package.read_bytes()) == before
        assert not [
            path
            for path in (*cache.iterdir(), *memory.parent.iterdir())
            if path.name.startswith(".") and path.is_file()
        ]
    (cache / "filler").unlink()
    assert cli("memory", "import", given, "--path", home).code == 0
    assert len(json.loads(memory.read_text())["memories"]) == 901


def read_only(project: Path, cache: Path) -> None:
    """An index on a medium that cannot be written: searches go on, indexing says why it does not."""
    subprocess.run(["mount", "-t", "tmpfs", "none", str(cache)], check=True)
    assert cli("index", project).code == 0
    assert cli("search", STEADY, project).code == 0
    next(cache.rglob("walk")).unlink()  # what is derived from the index could be written again
    subprocess.run(["mount", "-o", "remount,ro,bind", str(cache)], check=True)  # even removing what is not there fails
    result = cli("search", STEADY, project, "--json")
    assert (result.code, result.json["hits"][0]["path"]) == (0, "steady.py")
    for command in (("status",), ("search", STEADY), ("grep", STEADY), ("map",), ("patterns",)):
        done = cli(*command, project)
        assert done.code == 0, done
    (project / "new.py").write_text("def newcomer():\n    return 1\n")
    result = cli("search", STEADY, project, "--json")
    assert any("may miss the newest changes" in note for note in result.json["notes"])
    assert (result.code, result.json["hits"][0]["path"]) == (0, "steady.py")
    done = cli("index", project, "--json")
    assert (done.code, error(done)["code"]) == (2, "READ_ONLY")
    assert "CODEINFO_CACHE_DIR" in error(done)["next"]


def failing_sync(project: Path, cache: Path) -> None:
    """Whatever syncs says that it failed: SQLite's files and those beside them."""
    import apsw

    class Vfs(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("failing", "unix", makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
            return File("unix", name, flags)

    class File(apsw.VFSFile):
        def xSync(self, flags: int) -> NoReturn:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)

    def fsync(fd: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    sys.unraisablehook = lambda raised: None  # apsw prints what its VFS raises; a disk prints nothing
    real_fsync, os.fsync = os.fsync, fsync
    done = cli("index", project, "--json")
    assert (done.code, error(done)["code"]) == (7, "IO_FAILED"), done
    failing = Vfs()
    done = cli("index", project, "--json")
    assert (done.code, error(done)["code"]) == (7, "IO_FAILED"), done
    failing.unregister()
    os.fsync = real_fsync
    assert cli("index", project).code == 0
    failing = Vfs()
    (project / "module0001.py").write_text("def changed():\n    return 1\n")
    assert cli("search", STEADY, project).code in (0, 7)  # a commit needs no sync, tidying up does
    failing.unregister()
    assert cli("search", STEADY, project).code == 0


def error(done: Done) -> dict[str, str]:
    reported: dict[str, str] = json.loads(done.err.splitlines()[-1])["error"]
    return reported


def dies_holding_the_log(project: Path, cache: Path) -> None:
    """Index, and be gone before SQLite can tidy up: everything is in the write-ahead log."""
    from codeinfo.engine import Engine
    from codeinfo.operations.search import IndexRequest

    Engine(Config.load(cwd=project)).index(IndexRequest((str(project),)))
    os.kill(os.getpid(), 9)


def holds_the_lock(project: Path, cache: Path) -> None:
    with index_folder(project).lock():
        print("held", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
