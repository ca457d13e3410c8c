"""What indexes are made of: a source lists files and says where their contents come from; commits say why."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from codeinfo.config import Config
from codeinfo.index.chunk import ChunkSettings
from codeinfo.model import ManifestRow, Skip, SourceFile, Walk
from codeinfo.ports import CodeFacts
from codeinfo.settings import IndexSettings
from codeinfo.sources.git import family_of
from codeinfo.sources.read import Files, FolderFiles, Loaded
from codeinfo.sources.revision import RevisionFiles
from codeinfo.sources.walk import WalkSettings, walk, walked_again
from codeinfo.store.database import translate_errors
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore, code_facts


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

    @property
    def fixed(self) -> bool:
        """Whether it never changes."""
        ...

    @property
    def contents(self) -> Files:
        """Where its files are read from, outside of an update."""
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
    fixed: bool = False

    @property
    def contents(self) -> FolderFiles:
        return FolderFiles(self.root)

    def index_folder(self, cache: Path) -> IndexFolder:
        return IndexFolder(cache, self.root, family_of(self.root))

    def walk(self, store: SqliteStore | None, *, by_content: bool) -> tuple[Files, Walk]:
        return self.contents, _without_odd_names(walk(self.root, self.settings))

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        return walked_again(self.root, before, changed, self.settings)


class RevisionSource(Struct, frozen=True):
    """A commit of a repository, whatever is checked out."""

    contents: RevisionFiles
    settings: WalkSettings
    documents: bool = False
    versions: tuple[int, ...] = ()
    fixed: bool = True

    @property
    def root(self) -> Path:
        return self.contents.root

    def index_folder(self, cache: Path) -> IndexFolder:
        settings = hashlib.sha256(repr(self.settings).encode()).hexdigest()[:6]  # they may differ between work trees
        return IndexFolder(cache, self.root, family_of(self.root), f"{self.contents.commit[:20]}-{settings}")

    def walk(self, store: SqliteStore | None, *, by_content: bool) -> tuple[Files, Walk]:
        return self.contents, _without_odd_names(self.contents.walk(self.settings))

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        return before


class TeamSource(Struct, frozen=True):
    """A tree that the team has indexed, which is not checked out here: its files are those of the index."""

    identity: str
    family: str
    name: str
    recipe: str
    contents: StoredFiles
    documents: bool = False
    versions: tuple[int, ...] = ()
    fixed: bool = True

    @property
    def root(self) -> Path:
        return Path(f"//{self.identity}")  # no folder has such a path

    def index_folder(self, cache: Path) -> IndexFolder:
        digest = hashlib.sha256(f"{self.identity} {self.name}".encode()).hexdigest()[:12]
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)[-40:]
        return IndexFolder(cache, self.root, Path(f"//{self.family}"), f"{readable}-{digest}")

    def walk(self, store: SqliteStore | None, *, by_content: bool) -> tuple[Files, Walk]:
        return self.contents, self.contents.walk()

    def walk_changed(self, before: Walk, changed: Mapping[str, bool]) -> Walk | None:
        return None


class StoredFiles:
    """Files as the index has them: line ends are `\n`, secrets are masked, and what ranking leaves out is not there.
    `store` opens the index."""

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
        manifest = self._store.manifest()
        with self.open(()) as reader:
            for file in files:
                try:
                    data = reader.read(file.path, file.size or 1 << 30)
                except OSError:
                    yield file, Skip(file.path, "not-stored", "the index does not have its content")
                else:
                    yield file, Loaded(data, manifest[file.path].sha256)

    def find(self, path: str) -> SourceFile | None:
        row = self._store.manifest().get(path)
        return SourceFile(path, row.size, row.mtime_ns) if row is not None and row.chunk_count else None

    def brings_back(self, path: str) -> bool:
        return True  # what is stored is wanted


class StoredReader:
    def __init__(self, facts: CodeFacts, manifest: Mapping[str, ManifestRow]) -> None:
        self._facts = facts
        self._manifest = manifest

    def read(self, path: str, limit: int) -> bytes:
        row = self._manifest.get(path)
        if row is None or not row.chunk_count:
            raise OSError(errno.ENOENT, path)
        data = self._facts.lines(row.file_id).joined().encode("utf-8", "surrogatepass")
        if len(data) > limit:
            raise OSError(errno.EFBIG, path)
        return data


def team_cache(config: Config) -> Path:
    """Where this machine has its copies of what a team's database holds."""
    place = re.sub(r"//[^/@]*@", "//", config.store.url)  # whatever the user and password are
    return config.paths.cache_dir / f"team-{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def _without_odd_names(found: Walk) -> Walk:
    if _is_unicode("".join(map(itemgetter(0), found.files))):
        return found
    odd = tuple(file for file in found.files if not _is_unicode(file.path))
    skips = (Skip(file.path, "odd-name", "its name is not UTF-8, which JSON needs", matters=True) for file in odd)
    return Walk(tuple(file for file in found.files if file not in odd), (*found.skipped, *skips))


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # undecodable bytes of a name are kept as surrogates
        return False
    return True


def refresh_commits(root: Path, folder: Path, revision: str = "HEAD") -> str:
    """Read what was committed since the last time; everything after a rebase, or where nothing was read yet.

    Returns what went wrong, for the report; "" where nothing did.
    """
    # A search that finds nothing changed does not need these.
    from codeinfo.knowledge.history import MOST_INDEXED, History
    from codeinfo.search.channels import Commit, index_commits
    from codeinfo.sources.git import GitFailed
    from codeinfo.store.commits import load_commits, save_commits

    history = History(root, revision)
    if not history.known:
        return ""
    try:
        head = history.head()
    except GitFailed:
        return ""  # no commits yet
    try:
        before = load_commits(folder)
        if before is not None and before.head == head:
            return ""
        if before is not None and (len(before.lengths) > 2 * MOST_INDEXED or not history.has_ancestor(before.head)):
            before = None
        index = index_commits(head, (Commit(*one) for one in history.commits(before.head if before else "")), before)
    except GitFailed as error:
        return f"git could not read the history, so search does without the newest commits: {error.what}"
    with translate_errors(folder):
        save_commits(folder, index)
    return ""


def walk_settings(index: IndexSettings) -> WalkSettings:
    return WalkSettings(max_file_bytes=index.max_file_bytes, submodules=index.submodules)


def chunk_settings(index: IndexSettings) -> ChunkSettings:
    return ChunkSettings(
        code_chars=index.chunk_chars,
        doc_chars=index.section_chars,
        doc_overlap=index.section_overlap,
        fallback_lines=index.fallback_lines,
    )
