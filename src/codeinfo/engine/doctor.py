"""`doctor`: everything CodeInfo needs, looked at once, each with a way to mend it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from codeinfo.config import Config
from codeinfo.engine.parts import Parts
from codeinfo.engine.upkeep import Upkeep
from codeinfo.errors import CodeInfoError
from codeinfo.operations.search import Check, DoctorReport
from codeinfo.private_files import private_folder

PROBE_S = 5.0  # an embedding endpoint that needs longer for a few words is worth a complaint


def examine(config: Config, parts: Parts, keepers: Sequence[Upkeep], probe_s: float = PROBE_S) -> DoctorReport:
    """All checks, those that wait for something side by side. Reading an index takes as long as the index is large."""
    waiting = [
        partial(_embedder, config, parts, probe_s),
        partial(_reranker, config, parts),
        *(partial(_index, keeper) for keeper in keepers),
    ]
    with ThreadPoolExecutor(len(waiting)) as pool:
        answers = [pool.submit(check) for check in waiting]
        checks = [_python(), _sqlite(), _grammars(), _folder(config), _git()]
        return DoctorReport((*checks, *(answer.result() for answer in answers)))


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"{version} on {sys.platform}")


def _sqlite() -> Check:
    from codeinfo.store.connections import library_version

    return Check("sqlite", "ok", library_version())


def _grammars() -> Check:
    from codeinfo.index.chunk import ChunkSettings
    from codeinfo.index.parse import parse_file
    from codeinfo.model import FileKind

    try:
        parsed = parse_file("check.py", "def check():\n    pass\n", "python", FileKind.CODE, ChunkSettings())
    except (ImportError, OSError) as error:
        return Check("grammars", "fail", str(error), "Install CodeInfo again: pip install --force-reinstall codeinfo")
    if [definition.name for definition in parsed.definitions] != ["check"]:
        return Check("grammars", "fail", "a sample was not parsed", "Report this with `codeinfo doctor --json`")
    return Check("grammars", "ok", "syntax trees work")


def _folder(config: Config) -> Check:
    folder = config.paths.cache_dir
    try:
        private_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        return Check("cache", "fail", f"{folder}: {error.strerror}", "Set CODEINFO_CACHE_DIR to a folder you can write")
    free = shutil.disk_usage(folder).free
    state = "ok" if free > 200_000_000 else "warn"
    return Check("cache", state, f"{folder}, {free // 1_000_000:,} MB free", "" if state == "ok" else "Free some space")


def _git() -> Check:
    found = shutil.which("git")
    if found is None:
        return Check("git", "warn", "not found", "Install git: without it ignore rules are read by CodeInfo itself")
    return Check("git", "ok", found)


def _embedder(config: Config, parts: Parts, seconds: float) -> Check:
    provider = config.embedding.provider
    return _tried("embedding", provider, lambda: _embedding_detail(provider, parts, seconds))


def _embedding_detail(provider: str, parts: Parts, seconds: float) -> str:
    embedder = parts.impatient_embedder(seconds)
    if embedder is None:
        return "keyword search only"
    length = len(embedder.embed_query("a connection pool"))
    return f"{provider}: {embedder.model_id}, {length} dimensions"


def _reranker(config: Config, parts: Parts) -> Check:
    """Asked as a search asks, within the same time; a search does without one that fails, so that is no failure."""
    settings = config.rerank
    if settings.provider == "none":
        return Check("reranking", "ok", "off")
    from codeinfo.engine.reranking import Reranking

    found = Reranking(settings, parts.reranker).assess("a connection pool", ["class ConnectionPool: ..."])
    return Check("reranking", "ok" if found.scores else "warn", f"{settings.provider}: {found.status}", found.next_step)


def _index(keeper: Upkeep) -> Check:
    def look() -> str:
        store = keeper.live_store()
        if store is None:
            return f"{keeper.root}: not indexed yet"
        store.verify()
        counts = store.counts()
        return f"{keeper.root}: {counts.files:,} files, {counts.chunks:,} chunks, every checksum right"

    return _tried("index", str(keeper.root), look)


def _tried(name: str, subject: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", look())
    except CodeInfoError as error:
        return Check(name, "fail", f"{subject}: {error.what}", error.next_step)
    except OSError as error:
        return Check(name, "fail", f"{subject}: {os.strerror(error.errno or 0)}", "Run `codeinfo doctor --debug`")
