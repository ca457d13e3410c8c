"""What an index is made from: a folder of code, a revision of a repository, a team's tree, or a collection."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import ClassVar

from msgspec import DecodeError, Struct, msgpack

from codeinfo.model import ManifestRow, Skip, SourceFile, Walk, msgpack_decoder
from codeinfo.ports import CodeFacts
from codeinfo.settings import IndexSettings
from codeinfo.sources.git import family_of
from codeinfo.sources.read import Files, FolderFiles, Loaded
from codeinfo.sources.walk import Memo, RevisionFiles, WalkSettings, rewalk, walk_from
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore, code_facts, read_beside, write_beside

MEMO = "walk"  # beside the index: the result of the last walk


def walk_settings(index: IndexSettings) -> WalkSettings:
    return WalkSettings(max_file_bytes=index.max_file_bytes, submodules=index.submodules)


class Source(Struct, frozen=True):
    """The input of an index: a folder of code, a revision of a repository, or a collection of documents."""

    documents: ClassVar[bool] = False  # whether its files are documents to convert
    versions: ClassVar[tuple[int, ...]] = ()  # of the code that turns its files into text, besides the shared versions
    fixed: ClassVar[bool] = False  # whether it never changes

    @property
    def root(self) -> Path:
        """The folder its paths are relative to."""
        raise NotImplementedError

    @property
    def contents(self) -> Files:
        """Reads its files outside an update."""
        return FolderFiles(self.root)

    def index_folder(self, cache: Path) -> IndexFolder:
        raise NotImplementedError

    def walk(self, store: SqliteStore | None) -> tuple[Files, Walk]:
        """Its files and a reader for their contents. What `store` knows is not looked at again."""
        raise NotImplementedError

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        """The same from an earlier walk and the changes since; None if only a full walk can tell."""
        return None


class CodeSource(Source, frozen=True):
    root: Path
    settings: WalkSettings

    def index_folder(self, cache: Path) -> IndexFolder:
        return IndexFolder(cache, self.root, family_of(self.root))

    def walk(self, store: SqliteStore | None) -> tuple[Files, Walk]:
        memo = _load_memo(store) if store is not None else None
        return self.contents, without_odd_names(walk_from(memo, self.root, self.settings))

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        return rewalk(self.root, before, changed, self.settings)


class RevisionSource(Source, frozen=True):
    """A commit of a repository, whatever is checked out."""

    contents: RevisionFiles
    settings: WalkSettings
    fixed: ClassVar[bool] = True

    @property
    def root(self) -> Path:
        return self.contents.root

    def index_folder(self, cache: Path) -> IndexFolder:
        settings = hashlib.sha256(repr(self.settings).encode()).hexdigest()[:6]  # they may differ between work trees
        return IndexFolder(cache, self.root, family_of(self.root), f"{self.contents.commit[:20]}-{settings}")

    def walk(self, store: SqliteStore | None) -> tuple[Files, Walk]:
        return self.contents, without_odd_names(self.contents.walk(self.settings))


class TeamSource(Source, frozen=True):
    """A tree indexed by the team that is not checked out here: its files are those of the index."""

    identity: str
    family: str
    name: str
    recipe: str
    contents: StoredFiles
    fixed: ClassVar[bool] = True

    @property
    def root(self) -> Path:
        return Path(f"//{self.identity}")  # no folder has such a path

    def index_folder(self, cache: Path) -> IndexFolder:
        digest = hashlib.sha256(f"{self.identity} {self.name}".encode()).hexdigest()[:12]
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)[-40:]
        return IndexFolder(cache, self.root, Path(f"//{self.family}"), f"{readable}-{digest}")

    def walk(self, store: SqliteStore | None) -> tuple[Files, Walk]:
        return self.contents, self.contents.walk()


class StoredFiles:
    """Files as stored in the index: with line ends normalised and secrets masked, without what ranking leaves out."""

    exact = False

    def __init__(self, store: Callable[[], SqliteStore | None]) -> None:
        self._open = store
        self._walked: tuple[str, Walk] | None = None

    @property
    def _store(self) -> SqliteStore:
        store = self._open()
        assert store is not None, "opened before its files are asked for"
        return store

    def walk(self) -> Walk:
        store = self._store
        generation = store.meta()["generation"]
        if self._walked is None or self._walked[0] != generation:
            self._walked = generation, Walk(tuple(sorted(store.sources())), ())
        return self._walked[1]

    @contextmanager
    def open(self, paths: Iterable[str]) -> Iterator[StoredReader]:
        store = self._store
        with code_facts(store) as facts:
            yield StoredReader(facts, store.manifest())

    def load(self, files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, Loaded | Skip]]:
        with self.open(()) as reader:
            for file in files:
                try:
                    data = reader.read(file.path, file.size or 1 << 30)
                except OSError:
                    yield file, Skip(file.path, "not-stored", "the index does not have its content")
                else:
                    yield file, Loaded(data, reader.manifest[file.path].sha256)

    def find(self, path: str) -> SourceFile | None:
        row = self._store.manifest().get(path)
        return SourceFile(path, row.size, row.mtime_ns) if row is not None and _is_stored(row) else None

    def brings_back(self, path: str) -> bool:
        return True  # everything stored is wanted


class StoredReader(Struct, frozen=True):
    facts: CodeFacts
    manifest: Mapping[str, ManifestRow]

    def read(self, path: str, limit: int) -> bytes:
        row = self.manifest.get(path)
        if row is None or not _is_stored(row):
            raise OSError(errno.ENOENT, path)
        data = self.facts.lines(row.file_id).whole_text().encode("utf-8", "surrogatepass") if row.chunk_count else b""
        if len(data) > limit:
            raise OSError(errno.EFBIG, path)
        return data


def _is_stored(row: ManifestRow) -> bool:
    return bool(row.chunk_count) or not row.size  # an empty file has no chunks


def without_odd_names(walked: Walk) -> Walk:
    if _is_unicode("".join(map(itemgetter(0), walked.files))):
        return walked
    odd = tuple(file for file in walked.files if not _is_unicode(file.path))
    skips = (Skip(file.path, "odd-name", "its name is not UTF-8, which JSON needs", matters=True) for file in odd)
    return Walk(tuple(file for file in walked.files if file not in odd), (*walked.skipped, *skips))


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # undecodable bytes of a name are kept as surrogates
        return False
    return True


def _load_memo(store: SqliteStore) -> Memo | None:
    """The result of the last walk of the tree; None if there is none that can be used."""
    data = read_beside(store, MEMO)
    try:
        return msgpack_decoder(Memo).decode(data) if data is not None else None
    except DecodeError:  # from another release
        return None


def save_memo(store: SqliteStore, memo: Memo) -> None:
    with suppress(UnicodeEncodeError):  # a name that is not valid text
        write_beside(store, MEMO, msgpack.encode(memo))
