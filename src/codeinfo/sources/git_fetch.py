"""The files of a repository at a revision, fetched without running anything of theirs.

Nothing is checked out: a bare, shallow fetch brings the objects, and blobs are read one by one. So there are no hooks,
no filters, no submodules and no links. Only transports that cannot name a program are open.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from codeinfo.errors import LocksUnsupported, ProviderError, UsageError
from codeinfo.private_files import try_lock
from codeinfo.sources.git import _ENVIRONMENT, _SETTINGS, GitFailed, _environment, _execute, _program, run

FETCH_TIMEOUT_S = 600.0
_REMOTE_TRANSPORTS = "https:http:ssh"
_REGULAR = ("100644", "100755")
_FETCH = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
_BATCH = 200
_CLONE_PREFIX = "codeinfo-git-"
_JUST_MADE_S = 2.0


@contextmanager
def fetch_files(
    url: str,
    ref: str,
    wanted: Callable[[str], bool],
    limit: int,
    *,
    local: bool,
    pinned: str = "",
) -> Iterator[tuple[str, Iterator[tuple[str, bytes]]]]:
    """The commit that `ref` names now, and (path, content) of each regular file that is wanted and within `limit`.

    `local` opens repositories of this machine. `pinned` is `host:port:address`: git then asks this address and follows
    no redirect to another one.
    """
    if url.startswith("-") or ref.startswith("-"):
        raise UsageError(f"{url} {ref} is no repository and revision")
    with _temporary_clone() as folder:
        try:
            settings = (f"http.curloptResolve={pinned}", "http.followRedirects=false") if pinned else ()
            git = partial(_git, folder, f"{_REMOTE_TRANSPORTS}:file" if local else _REMOTE_TRANSPORTS, settings)
            git("init", "--bare", "--quiet", "--template=", ".")
            git(*_FETCH, "--", url, ref or "HEAD")
            commit = run(folder, ("rev-parse", "--verify", "FETCH_HEAD^{commit}")).decode().strip()
        except GitFailed as error:
            raise ProviderError(
                f"{url} cannot be fetched: {error.what}",
                next_step="Check the address, the branch or tag, and that git may read it",
                code=GitFailed.code,
            ) from error
        yield commit, _blobs(folder, commit, wanted, limit)


@contextmanager
def _temporary_clone() -> Iterator[Path]:
    """A folder that is locked while it is used. The kernel gives up the lock of a killed process, so that the next
    fetch can tell such a folder from one in use, and remove it."""
    remove_abandoned_clones()
    folder = Path(tempfile.mkdtemp(prefix=_CLONE_PREFIX))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(LocksUnsupported):  # then nobody takes it for abandoned: they cannot lock it either
            try_lock(handle, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned_clones() -> None:
    """Those of this user whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_CLONE_PREFIX}*"):
        with suppress(OSError, LocksUnsupported):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(handle)
                is_settled = time.time() - status.st_ctime > _JUST_MADE_S  # one just made may not be locked yet
                if status.st_uid == os.geteuid() and is_settled and try_lock(handle, folder):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _git(folder: Path, transports: str, settings: tuple[str, ...], *arguments: str) -> None:
    line = [_program(), "--no-pager"]
    fixed = ("fetch.fsckObjects=true", "protocol.ext.allow=never", "credential.helper=")
    for setting in (*_SETTINGS, *fixed, *settings):
        line += ("-c", setting)
    environment = _environment() | _ENVIRONMENT | {"GIT_ALLOW_PROTOCOL": transports}
    _execute([*line, *arguments], folder, environment, b"", (0,), FETCH_TIMEOUT_S)


def _blobs(folder: Path, commit: str, wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    listed = os.fsdecode(run(folder, ("ls-tree", "-r", "-l", "-z", "--full-tree", commit))).split("\0")[:-1]
    chosen: list[tuple[str, str]] = []
    for entry in listed:
        description, _, path = entry.partition("\t")
        mode, _, blob, size = description.split()
        if mode in _REGULAR and wanted(path) and int(size) <= limit:
            chosen.append((path, blob))
    for start in range(0, len(chosen), _BATCH):
        yield from _contents(folder, chosen[start : start + _BATCH])


def _contents(folder: Path, chosen: list[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
    asked = "".join(f"{blob}\n" for _, blob in chosen).encode()
    output = run(folder, ("cat-file", "--batch"), stdin=asked, timeout=FETCH_TIMEOUT_S)
    at = 0
    for path, _ in chosen:
        end = output.index(b"\n", at)
        header = output[at:end].split()
        if len(header) != 3:
            raise GitFailed(f"{path} could not be read from the repository")
        size = int(header[2])
        yield path, output[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
