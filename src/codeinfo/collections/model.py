"""A collection: a folder, some files, a package, or a git repository at a revision."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from codeinfo.errors import UsageError
from codeinfo.globs import check_globs

_ARCHIVES = (".tar.gz", ".tgz")
_WEB = ("https://", "http://")
_GIT = ("git+https://", "git+http://", "git+ssh://", "git+file://", "git@", "ssh://")


class Kind(StrEnum):
    FOLDER = "folder"
    FILES = "files"
    PACKAGE = "package"  # a folder or archive with a manifest
    GIT = "git"


class Collection(Struct, frozen=True):
    """`url` is a path or an address; `id` follows from it: `file:<id>` for what lies here, else `pkg:<url>`."""

    name: str
    kind: Kind
    url: str
    files: tuple[str, ...] = ()  # of Kind.FILES: absolute paths
    ref: str = ""  # of Kind.GIT; "" is the default branch
    globs: tuple[str, ...] = ()  # which of its documents; a leading "!" leaves out
    origin: str = "user"  # or "project": named by a context.json

    @property
    def id(self) -> str:
        if self.kind in (Kind.FOLDER, Kind.FILES):
            key = "\n".join((self.url, *self.files))
            return f"file:{hashlib.sha256(os.fsencode(key)).hexdigest()[:12]}"
        return f"pkg:{self.url}" + (f"@{self.ref}" if self.ref else "")

    @property
    def slug(self) -> str:
        """A folder name of its own."""
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)[:40].strip(".") or "collection"
        return f"{readable}-{hashlib.sha256(os.fsencode(self.id)).hexdigest()[:12]}"

    @property
    def remote(self) -> bool:
        return self.url.startswith((*_WEB, *_GIT))

    @property
    def fetched(self) -> bool:
        """Whether its documents are copied into the user's data before they can be indexed."""
        return self.kind is Kind.GIT or (self.kind is Kind.PACKAGE and (self.remote or is_archive(self.url)))


def is_archive(url: str) -> bool:
    return url.lower().endswith(_ARCHIVES)


def collection_of(
    sources: Sequence[str], *, name: str = "", ref: str = "", globs: Sequence[str] = (), base: str = "."
) -> Collection:
    """What was typed, understood; relative paths count from `base`. Only looks at the disk, never at the network."""
    if not sources:
        raise UsageError("no source is named", next_step="Name a folder, files, a package or a git repository")
    check_globs(globs, "globs")
    if len(sources) > 1:
        return _files(sources, name, globs, base)
    source = sources[0]
    if source.startswith(_GIT) or (source.startswith(_WEB) and (source.endswith(".git") or ref)):
        url = source.removeprefix("git+")
        return Collection(name or _stem(url), Kind.GIT, url, ref=ref, globs=tuple(globs))
    if source.startswith(_WEB):
        return Collection(name or _stem(source), Kind.PACKAGE, source, globs=tuple(globs))
    path = os.path.abspath(os.path.join(base, os.path.expanduser(source.removeprefix("file://"))))
    if not os.path.exists(path):
        raise UsageError(f"{source} does not exist", next_step="Name an existing folder, file or address")
    if os.path.isdir(path):
        if ref:
            return Collection(name or _stem(path), Kind.GIT, path, ref=ref, globs=tuple(globs))
        kind = Kind.PACKAGE if os.path.isfile(os.path.join(path, "manifest.json")) else Kind.FOLDER
        return Collection(name or _stem(path), kind, path, globs=tuple(globs))
    if is_archive(path):
        return Collection(name or _stem(path), Kind.PACKAGE, path, globs=tuple(globs))
    return _files(sources, name, globs, base)


def _files(sources: Sequence[str], name: str, globs: Sequence[str], base: str) -> Collection:
    paths = [os.path.abspath(os.path.join(base, os.path.expanduser(source))) for source in sources]
    for path, source in zip(paths, sources, strict=True):
        if not os.path.isfile(path):
            raise UsageError(f"{source} is not a file", next_step="Name one folder, or several files")
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    default = _stem(paths[0]) if len(paths) == 1 else os.path.basename(folder)
    return Collection(name or default, Kind.FILES, folder, files=tuple(sorted(set(paths))), globs=tuple(globs))


def _stem(url: str) -> str:
    last = url.rstrip("/").rpartition("/")[2]
    for ending in (*_ARCHIVES, ".git", ".json", ".md"):
        last = last.removesuffix(ending)
    return last or "documents"
