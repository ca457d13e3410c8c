"""The files of a commit, read from git's objects: nothing is checked out, and the rules are those of `walk`. Git's
ignore files do not apply, since what they exclude is not committed; `.codeinfoignore` is taken from the commit."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from codeinfo.model import Skip, SourceFile, Walk
from codeinfo.sources import git
from codeinfo.sources.ignore import OVERRIDES_NAME, Overrides, parse_bytes
from codeinfo.sources.read import Loaded
from codeinfo.sources.walk import FileFilter, Listing, WalkSettings, filter_all

LACKING = "not-in-clone"  # the rule for files that a shallow or partial clone does not have
_LINK, _SUBMODULE = "120000", "160000"


class RevisionFiles:
    """Lists a commit once, and loads contents."""

    exact = True

    def __init__(self, root: Path, commit: str) -> None:
        self.root = root
        self.commit = commit
        self._walked: tuple[WalkSettings, Walk] | None = None

    @cached_property
    def blobs(self) -> dict[str, git.Blob]:
        try:
            return {blob.path: blob for blob in git.list_commit(self.root, self.commit)}
        except git.GitFailed as error:
            raise git.GitFailed(
                f"this clone cannot list {self.commit[:12]}: {error.what}",
                next_step="Fetch what is missing: `git fetch --refetch`, or `--unshallow` for a shallow clone",
            ) from error

    @cached_property
    def overrides(self) -> Overrides:
        named = [blob for blob in self.blobs.values() if blob.path.rpartition("/")[2] == OVERRIDES_NAME]
        return Overrides(
            parse_bytes(blob.path.removesuffix(OVERRIDES_NAME), OVERRIDES_NAME, data)
            for blob, data in git.read_blobs(self.root, named)
            if data is not None
        )

    def walk(self, settings: WalkSettings) -> Walk:
        """The same each time: a commit does not change."""
        if self._walked is None or self._walked[0] != settings:
            listing = Listing(list(self.blobs), overrides=self.overrides, by_git=True)
            self._walked = settings, filter_all(listing, _RevisionFilter(self, settings))
        return self._walked[1]

    @contextmanager
    def open(self, paths: Iterable[str]) -> Iterator[RevisionReader]:
        yield RevisionReader(self.root, [self.blobs[path] for path in paths])

    def find(self, path: str) -> SourceFile | None:
        blob = self.blobs.get(path)
        return _source(blob, blob.size) if blob and blob.mode in git.REGULAR and blob.size is not None else None

    def load(self, files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, Loaded | Skip]]:
        wanted = {file.path: file for file in files}
        known = (self.blobs[path] for path in wanted if path in self.blobs)
        for blob, data in git.read_blobs(self.root, known):
            if data is None:
                yield wanted[blob.path], _skip_lacking(blob.path)
            else:
                yield wanted[blob.path], Loaded(data, hashlib.sha256(data).hexdigest())

    def brings_back(self, path: str) -> bool:
        return self.overrides.brings_back(path)


class RevisionReader:
    """Reads files in the given order, some at a time."""

    def __init__(self, root: Path, blobs: list[git.Blob]) -> None:
        self._stream = git.read_blobs(root, blobs)

    def read(self, path: str, limit: int) -> bytes:
        data = next((data for blob, data in self._stream if blob.path == path), None)
        if data is None or len(data) > limit:
            raise OSError(errno.ENOENT if data is None else errno.EFBIG, path)
        return data


class _RevisionFilter(FileFilter):
    def __init__(self, files: RevisionFiles, settings: WalkSettings) -> None:
        super().__init__(str(files.root), settings, files.overrides)
        self._blobs = files.blobs

    def is_real_folder(self, folder: str) -> bool:
        return True  # git cannot store anything below a link

    def check_status(self, path: str) -> SourceFile | Skip:
        blob = self._blobs[path]
        if blob.mode == _LINK:
            return Skip(path, "symlink", "a link")
        if blob.mode == _SUBMODULE:
            return Skip(f"{path}/", "submodule", "a repository of its own, which is not checked out")
        if blob.size is None:
            return _skip_lacking(path)
        return self.check_size(*_source(blob, blob.size))


def _source(blob: git.Blob, size: int) -> SourceFile:
    return SourceFile(blob.path, size, git.blob_number(blob.id))


def _skip_lacking(path: str) -> Skip:
    return Skip(path, LACKING, "this clone does not have its content", matters=True)
