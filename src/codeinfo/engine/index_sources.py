"""What indexes are made of: a source lists files and says where their contents come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from codeinfo.model import Skip, Walk
from codeinfo.sources.git import family_of
from codeinfo.sources.read import Files, FolderFiles
from codeinfo.sources.walk import WalkSettings, walk, walked_again
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore


class Source(Protocol):
    """What an index is made of: a folder of code or a collection of documents."""

    @property
    def documents(self) -> bool:
        """Whether its files are documents to convert."""
        ...

    @property
    def versions(self) -> tuple[int, ...]:
        """Of whatever turns its files into text, beside what all indexes share."""
        ...

    @property
    def root(self) -> Path:
        """The folder that its paths are relative to."""
        ...

    def index_folder(self, cache: Path) -> IndexFolder: ...

    def walk(self, store: SqliteStore | None, *, by_content: bool) -> tuple[Files, Walk]:
        """Its files, and where their contents come from. `store` is the index so far; `by_content` forbids trusting
        sizes and times."""
        ...

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        """The same from an earlier walk and what has changed since; None where only a walk can tell."""
        ...


class CodeSource(Struct, frozen=True):
    root: Path
    settings: WalkSettings
    documents: bool = False
    versions: tuple[int, ...] = ()

    def index_folder(self, cache: Path) -> IndexFolder:
        return IndexFolder(cache, self.root, family_of(self.root))

    def walk(self, store: SqliteStore | None, *, by_content: bool) -> tuple[Files, Walk]:
        found, files = walk(self.root, self.settings), FolderFiles(self.root)
        if _is_unicode("".join(file.path for file in found.files)):
            return files, found
        odd = tuple(file for file in found.files if not _is_unicode(file.path))
        skips = (Skip(file.path, "odd-name", "its name is not UTF-8, which JSON needs", matters=True) for file in odd)
        return files, Walk(tuple(file for file in found.files if file not in odd), (*found.skipped, *skips))

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        return walked_again(self.root, before, changed, self.settings)


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # undecodable bytes of a name are kept as surrogates
        return False
    return True
