"""Lays out trees of a git repository in a folder, one after the other, writing only what differs.

Blobs are read with `git show`, never checked out: a checkout would run the filters that the repository names. A clone
may lack blobs (a partial one, or one that was cut down): their files are left out, and counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from codeinfo.sources import git

LARGEST = 1_000_000  # bytes; what is larger is not indexed anyway
BATCH_BYTES = 16_000_000  # read at once
BATCH_BLOBS = 500  # keeps the command line short
_PLAIN_MODES = ("100644", "100755", "100664")  # neither links, which could lead out of the folder, nor submodules


class Blob(Struct, frozen=True):
    sha: str
    size: int


class Layout:
    """The folder, and which blob each of its files holds."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder
        self._present: dict[str, str] = {}
        self._missing: set[str] = set()

    @property
    def missing_blobs(self) -> int:
        """How many blobs of the trees laid out so far the repository does not have."""
        return len(self._missing)

    def move_to(self, commit: str) -> None:
        """Make the folder hold the commit's tree."""
        wanted, missing = _tree(self._repository, commit)
        self._missing |= missing
        for path in self._present.keys() - wanted.keys():
            (self._folder / path).unlink()
        differing = {path: blob for path, blob in wanted.items() if self._present.get(path) != blob.sha}
        for path, content in _contents(self._repository, differing):
            target = self._folder / path
            _make_room(self._folder, target)
            target.write_bytes(content)
        self._present = {path: blob.sha for path, blob in wanted.items()}


def _make_room(folder: Path, target: Path) -> None:
    """The folders above `target`; one of them may have been a file in the tree before, which is gone by now."""
    if target.is_dir():  # a folder that lost its last file, where a file is to be
        for place, _, _ in os.walk(target, topdown=False):
            os.rmdir(place)
    target.parent.mkdir(parents=True, exist_ok=True)


def _tree(repository: Path, commit: str) -> tuple[dict[str, Blob], set[str]]:
    """Every plain file of a commit that is small enough and has an honest path, and the blobs that are not there."""
    files: dict[str, Blob] = {}
    missing: set[str] = set()
    listing = git.run(repository, ["ls-tree", "-r", "-l", "-z", "--full-tree", commit])
    for entry in listing.split(b"\x00"):
        if not entry:
            continue
        facts, _, name = entry.partition(b"\t")
        mode, _, sha, size = facts.decode().split()
        path = os.fsdecode(name)
        if mode not in _PLAIN_MODES or not _is_honest(path):
            continue
        if not size.isdigit():  # "BAD" or "-"
            missing.add(sha)
        elif int(size) <= LARGEST:
            files[path] = Blob(sha, int(size))
    return files, missing


def _is_honest(path: str) -> bool:
    """A tree may be forged: no path leads out of the folder or pretends to be git's own."""
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in path.split("/"))


def _contents(repository: Path, files: dict[str, Blob]) -> Iterator[tuple[str, bytes]]:
    for batch in _batches(files):
        output = git.run(repository, ["show", *(blob.sha for _, blob in batch)])
        start = 0
        for path, blob in batch:  # one after the other, with nothing in between: their sizes tell them apart
            yield path, output[start : start + blob.size]
            start += blob.size


def _batches(files: dict[str, Blob]) -> Iterator[list[tuple[str, Blob]]]:
    batch: list[tuple[str, Blob]] = []
    size = 0
    for path, blob in files.items():
        if batch and (size + blob.size > BATCH_BYTES or len(batch) == BATCH_BLOBS):
            yield batch
            batch, size = [], 0
        batch.append((path, blob))
        size += blob.size
    if batch:
        yield batch
