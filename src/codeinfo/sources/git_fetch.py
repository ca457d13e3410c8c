"""The files of a repository at a revision, fetched without running anything of theirs.

Nothing is checked out: a bare, shallow fetch brings the objects, and blobs are read one by one. So there are no hooks,
no filters, no submodules and no links. Only transports that cannot name a program are open.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from codeinfo.errors import ProviderError, UsageError
from codeinfo.sources.git import _ENVIRONMENT, _SETTINGS, GitFailed, _environment, _execute, _program, run

FETCH_TIMEOUT_S = 600.0
_REMOTE_TRANSPORTS = "https:http:ssh"
_REGULAR = ("100644", "100755")
_BATCH = 200


def fetch_files(
    url: str,
    ref: str,
    wanted: Callable[[str], bool],
    limit: int,
    *,
    local: bool,
    pinned: str = "",
) -> tuple[str, Iterator[tuple[str, bytes]]]:
    """The commit that `ref` names now, and (path, content) of each regular file that is wanted and within `limit`.

    `local` opens repositories of this machine. `pinned` is `host:port:address`: git then asks this address and follows
    no redirect to another one.
    """
    if url.startswith("-") or ref.startswith("-"):
        raise UsageError(f"{url} {ref} is no repository and revision")
    folder = Path(tempfile.mkdtemp(prefix="codeinfo-git-"))
    try:
        settings = (f"http.curloptResolve={pinned}", "http.followRedirects=false") if pinned else ()
        git = partial(_git, folder, f"{_REMOTE_TRANSPORTS}:file" if local else _REMOTE_TRANSPORTS, settings)
        git("init", "--bare", "--quiet", "--template=", ".")
        git("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url, ref or "HEAD")
        commit = run(folder, ("rev-parse", "--verify", "FETCH_HEAD^{commit}")).decode().strip()
    except GitFailed as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ProviderError(
            f"{url} cannot be fetched: {error.what}",
            next_step="Check the address, the branch or tag, and that git may read it",
            code=GitFailed.code,
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return commit, _blobs(folder, commit, wanted, limit)


def _git(folder: Path, transports: str, settings: tuple[str, ...], *arguments: str) -> None:
    line = [_program(), "--no-pager"]
    fixed = ("fetch.fsckObjects=true", "protocol.ext.allow=never", "credential.helper=")
    for setting in (*_SETTINGS, *fixed, *settings):
        line += ("-c", setting)
    environment = _environment() | _ENVIRONMENT | {"GIT_ALLOW_PROTOCOL": transports}
    _execute([*line, *arguments], folder, environment, b"", (0,), FETCH_TIMEOUT_S)


def _blobs(folder: Path, commit: str, wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    try:
        listed = os.fsdecode(run(folder, ("ls-tree", "-r", "-l", "-z", "--full-tree", commit))).split("\0")[:-1]
        chosen: list[tuple[str, str]] = []
        for entry in listed:
            description, _, path = entry.partition("\t")
            mode, _, blob, size = description.split()
            if mode in _REGULAR and wanted(path) and int(size) <= limit:
                chosen.append((path, blob))
        for start in range(0, len(chosen), _BATCH):
            yield from _contents(folder, chosen[start : start + _BATCH])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
