"""The files of a repository at a revision, fetched without running anything of theirs.

Nothing is checked out: a bare, shallow fetch brings the objects, and blobs are read one by one. So there are no hooks,
no filters, no submodules and no links. Only transports that cannot name a program are open.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from codeinfo.errors import ProviderError, UsageError
from codeinfo.sources.git import _ENVIRONMENT, _SETTINGS, GitFailed, _environment, _execute, _program, run

FETCH_TIMEOUT_S = 600.0
_TRANSPORTS = "https:http:ssh:file"
_REGULAR = ("100644", "100755")
_BATCH = 200


def fetch_files(
    url: str, ref: str, wanted: Callable[[str], bool], limit: int
) -> tuple[str, Iterator[tuple[str, bytes]]]:
    """The commit that `ref` names now, and (path, content) of each regular file that is wanted and within `limit`."""
    if url.startswith("-") or ref.startswith("-"):
        raise UsageError(f"{url} {ref} is no repository and revision")
    folder = Path(tempfile.mkdtemp(prefix="codeinfo-git-"))
    try:
        _git(folder, "init", "--bare", "--quiet", "--template=", ".")
        _git(folder, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url, ref or "HEAD")
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


def _git(folder: Path, *arguments: str) -> None:
    line = [_program(), "--no-pager"]
    for setting in (*_SETTINGS, "fetch.fsckObjects=true", "protocol.ext.allow=never", "credential.helper="):
        line += ("-c", setting)
    environment = _environment() | _ENVIRONMENT | {"GIT_ALLOW_PROTOCOL": _TRANSPORTS}
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
