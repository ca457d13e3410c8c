"""Collections: the list of known ones, fetching their documents, the source of their index, packing.

Archives, addresses and repositories become a folder in the user's data:

<data>/collections/<slug>/
    current          the name of the live tree, replaced atomically
    tree-<hash>/     the documents; the hash is that of what was fetched
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, urljoin, urlsplit

from msgspec.structs import replace

from codeinfo import collections, downloads
from codeinfo.collections import CONTEXT_FILE, MANIFEST, MAX_PACKED_BYTES, Collection, Kind, Manifest
from codeinfo.config import find_upwards
from codeinfo.downloads import HostPolicy
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.index_sources import Source, without_odd_names
from codeinfo.errors import CodeInfoError, LocksUnsupported, NotFound, ProviderError, UsageError, environment_error
from codeinfo.files import (
    FILE_MODE,
    TooLarge,
    is_at,
    locked,
    open_private,
    private_folder,
    read_private,
    read_regular,
    read_user_file,
    replace_file,
    resolve_root,
    sweep_temporary,
    try_lock,
    write_private,
)
from codeinfo.globs import match_globs
from codeinfo.model import ManifestRow, NextStep, Skip, SourceFile, Walk, dumps, to_run
from codeinfo.operations.documents import DocsPackRequest, DocsPackResponse
from codeinfo.sources.documents import document_language
from codeinfo.sources.git import Redirected, fetch_files, work_tree_of
from codeinfo.sources.read import FolderFiles, load
from codeinfo.sources.walk import WalkSettings, check_document, walk
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore

MAX_DOCUMENT_BYTES = 50_000_000
MAX_FETCHED_BYTES = 2_000_000_000
MAX_FETCH_S = 3600.0  # of all files of a list: each has its own limit, but a list may have 50,000
CONVERTERS_VERSION = 3  # raise when a converter's output changes: indexes are then rebuilt
_MAX_LIST_BYTES = 5_000_000
_NOT_FETCHED = "a package in a folder does not fetch addresses: add the address of its manifest"
_SHARED = 0o666  # mode of files that belong to a project, before the user's umask

Download = Callable[[str, int], bytes]  # address, most bytes → content


class CollectionList:
    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "collections"
        self._list = data_dir / "collections.json"

    def all(self, project: Path) -> tuple[list[Collection], list[str]]:
        """The project's collections first, then the user's; the first one with a name keeps it."""
        path = find_upwards(project, CONTEXT_FILE)
        of_project, notes = collections.read_context(_read(path), str(path.parent)) if path is not None else ([], [])
        ids = {item.id for item in of_project}
        return [*of_project, *(item for item in self._read_own() if item.id not in ids)], notes

    def find(self, project: Path, names: tuple[str, ...]) -> tuple[list[Collection], list[str]]:
        """The collections with these names or ids; all if none is given."""
        known, notes = self.all(project)
        if not names:
            return known, notes
        chosen = []
        for name in dict.fromkeys(names):
            match = next((item for item in known if name in (item.id, item.name)), None)
            if match is None:
                listed = ", ".join(item.name for item in known) or "none yet"
                raise NotFound(f"there is no collection {name!r}", f"Known collections: {listed}")
            chosen.append(match)
        return chosen, notes

    def lists(self, collection: Collection) -> bool:
        """Whether it is in the user's own list."""
        return any(item.id == collection.id for item in self._read_own())

    def check_free(self, collection: Collection, project: Path) -> Collection | None:
        """The collection if it is already known; refuses one with the name or source of another."""
        same = None
        for item in self.all(project)[0]:
            if item.id == collection.id and item.name == collection.name:
                same = same or item
            elif item.id == collection.id:
                step = NextStep(to_run("docs sync", item.name), " brings it up to date; remove it first to rename it")
                raise UsageError(f"{item.source} is already the collection {item.name!r}", step)
            elif item.name == collection.name:
                step = NextStep("Give it another name, or ", to_run("docs remove", item.name), " first")
                raise UsageError(f"{collection.name!r} already exists, for {item.source}", step)
        return same

    def add(self, collection: Collection, project: Path) -> None:
        with self._edit_list() as write:
            self.check_free(collection, project)  # again: another process may have added one since
            write([*(item for item in self._read_own() if item.id != collection.id), collection])

    def context_file(self, project: Path) -> Path:
        """The file that names the project's collections: the nearest one, or a new one where the project begins."""
        nearest = find_upwards(project, CONTEXT_FILE)
        return nearest or Path(work_tree_of(os.path.abspath(project)) or project) / CONTEXT_FILE

    def add_to_project(self, collection: Collection, path: Path, url: str) -> None:
        """`url` counts from the file's folder, so that it means the same to everyone who clones the project."""
        with self._edit_list():
            text = collections.add_to_context(_read(path), str(path.parent), collection.name, url, collection.ref)
            _write(path, text, mode=_SHARED)

    def remove(self, collection: Collection, project: Path, *, if_empty: bool = False) -> None:
        """Its documents go first: a killed removal leaves it listed, so that it can be removed again."""
        home = self.folder / collection.slug
        with _lock_home(home) if home.exists() else nullcontext(), self._edit_list() as write:
            if if_empty and any(path.is_file() for path in home.glob("tree-*/**/*")):
                return
            shutil.rmtree(home, ignore_errors=True)
            if collection.origin != "project":
                write([item for item in self._read_own() if item.id != collection.id])
            elif (path := find_upwards(project, CONTEXT_FILE)) is not None:
                text = collections.remove_from_context(_read(path), str(path.parent), collection.name)
                _write(path, text, mode=_SHARED)

    def _read_own(self) -> list[Collection]:
        text = _read(self._list)
        return collections.read_user_list(text, str(self._list)) if text else []

    @contextmanager
    def _edit_list(self) -> Iterator[Callable[[list[Collection]], None]]:
        """Read and write the user's list, or a project's, under a lock that the user's other processes share."""
        private_folder(self._list.parent)
        lock = self._list.with_suffix(".lock")
        with locked(open_private(lock, os.O_RDWR), lock):
            yield lambda listed: _write(self._list, collections.write_user_list(listed))


def _read(path: Path) -> str:
    """A project's file may be a link to one of the user's, whose content a change would copy into the project."""
    return read_user_file(path, _MAX_LIST_BYTES, follow=False) or ""


def _write(path: Path, text: str, *, mode: int = FILE_MODE) -> None:
    data = text.encode()
    if len(data) > _MAX_LIST_BYTES:  # it could not be read again
        step = "Add folders rather than many files"
        raise UsageError(f"{path} would have {len(data):,} bytes, of at most {_MAX_LIST_BYTES:,}", step)
    replace_file(path, data, mode=mode)


class CollectionSource(Source, frozen=True):
    """The documents of a collection, as the source of an index."""

    collection: Collection
    home: Path  # where the fetched copy lies
    documents: ClassVar[bool] = True
    versions: ClassVar[tuple[int, ...]] = (CONVERTERS_VERSION,)

    @property
    def root(self) -> Path:
        if not self.collection.fetched:
            return Path(self.collection.url).resolve()
        return find_fetched_tree(self.home) or Path(self.collection.source)

    def last_fetch(self) -> tuple[str, str]:
        """The revision of the fetched copy, if any (for git, its commit), and when it was compared with its source."""
        tree = find_fetched_tree(self.home) if self.collection.fetched else None
        if tree is None or self.collection.kind is Kind.WRITTEN:
            return "", ""
        compared_at = datetime.fromtimestamp((self.home / "current").stat().st_mtime, UTC)
        return tree.name.removeprefix("tree-"), compared_at.isoformat(timespec="seconds")

    def index_folder(self, cache: Path) -> IndexFolder:
        return IndexFolder(cache / "documents", Path(self.collection.slug))

    def walk(self, store: SqliteStore | None) -> tuple[FolderFiles, Walk]:
        root = self._place()
        if self.collection.kind is Kind.FILES:
            return FolderFiles(root), _walk_files(root, self.collection.files)
        walked = without_odd_names(walk(root, WalkSettings(max_file_bytes=MAX_DOCUMENT_BYTES, documents=True)))
        if self.collection.kind is Kind.PACKAGE:
            walked = _select_packaged(root, walked, store.manifest() if store is not None else {})
        reason = "the collection's patterns leave it out"
        return FolderFiles(root), _filter_walk(walked, self.collection.globs, "glob", reason)

    def _place(self) -> Path:
        if not self.collection.fetched:
            return Path(resolve_root(self.collection.url))
        tree = find_fetched_tree(self.home)
        if tree is None:
            step = NextStep("Run ", to_run("docs sync", self.collection.name))
            raise NotFound(f"{self.collection.name} was never fetched", step)
        return tree


class CollectionIndex(IndexManager):
    source: CollectionSource


def _walk_files(root: Path, files: tuple[str, ...]) -> Walk:
    present, skipped = list[SourceFile](), list[Skip]()
    for full in files:
        path = os.path.relpath(full, root).replace(os.sep, "/")
        try:
            status = os.lstat(full)
        except OSError as error:
            skipped.append(Skip(path, "missing", error.strerror or "", matters=True))
            continue
        checked = check_document(path, status, MAX_DOCUMENT_BYTES)
        if isinstance(checked, SourceFile):
            present.append(checked)
        else:
            skipped.append(replace(checked, matters=True))
    return Walk(tuple(present), tuple(skipped))


def read_package(root: Path) -> Manifest:
    try:
        return collections.read_manifest(read_regular(str(root), MANIFEST, MAX_DOCUMENT_BYTES).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CodeInfoError(f"{root / MANIFEST} cannot be read: {error}") from error


def _select_packaged(root: Path, walked: Walk, rows: Mapping[str, ManifestRow]) -> Walk:
    """The files that the manifest selects. A listed file whose content does not match its hash is left out and
    reported; files that look unchanged according to `rows` are not read."""
    manifest = read_package(root)
    if manifest.globs:
        return _filter_walk(walked, manifest.globs, "manifest", "the package's manifest does not select it")
    listed = {file.path: file for file in manifest.files}
    files, skipped = list[SourceFile](), list[Skip](walked.skipped)
    for file in walked.files:
        if file.path not in listed:
            skipped.append(Skip(file.path, "manifest", "the package's manifest does not list it"))
        elif wrong := _wrong_hash(root, file, listed[file.path].sha256, rows.get(file.path)):
            skipped.append(Skip(file.path, "hash-mismatch", wrong, matters=True))
        else:
            files.append(file)
    present = {file.path for file in walked.files} | {skip.path for skip in walked.skipped}
    for path, entry in listed.items():
        if path not in present:
            where = _NOT_FETCHED if entry.url else "it does not exist"
            skipped.append(Skip(path, "missing", f"the manifest lists it; {where}", matters=True))
    return Walk(tuple(files), tuple(skipped))


def _wrong_hash(root: Path, file: SourceFile, expected: str, row: ManifestRow | None) -> str:
    is_known = row is not None and (row.size, row.mtime_ns, row.sha256) == (file.size, file.mtime_ns, expected)
    if not expected or is_known:
        return ""
    loaded = load(root, file)
    if isinstance(loaded, Skip):
        return loaded.detail
    if loaded.sha256 == expected:
        return ""
    return f"its content has {loaded.sha256[:12]}…, the manifest says {expected[:12]}…"


def _filter_walk(walked: Walk, globs: tuple[str, ...], rule: str, reason: str) -> Walk:
    if not globs:
        return walked
    files, skipped = list[SourceFile](), list(walked.skipped)
    for file, matches in zip(walked.files, match_globs([file.path for file in walked.files], globs), strict=True):
        if matches:
            files.append(file)
        else:
            skipped.append(Skip(file.path, rule, reason))
    return Walk(tuple(files), tuple(skipped))


def find_fetched_tree(home: Path) -> Path | None:
    """The live tree of a collection, or None before its first sync."""
    try:
        name = os.fsdecode(read_private(home / "current")).strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        refused = UsageError(f"{home / 'current'} cannot be read: {error.strerror}", "Remove it, then sync again")
        raise environment_error(error) or refused from error
    tree = home / name
    return tree if name.startswith("tree-") and "/" not in name and tree.is_dir() else None


def ensure_written_tree(home: Path) -> Path:
    """The tree of a collection that documents are written into, created if missing."""
    tree = private_folder(home / "tree-written", home.parent)
    if find_fetched_tree(home) != tree:
        replace_file(home / "current", tree.name.encode("ascii"))
    return tree


@contextmanager
def lock_written(home: Path) -> Iterator[None]:
    """For those who write documents into a collection; what killed ones left is removed."""
    with _lock_home(home):
        for *_, folder in os.fwalk(home):
            sweep_temporary(folder)
        yield


@contextmanager
def _lock_home(home: Path) -> Iterator[None]:
    """The lock of those who change the documents of a collection. Whoever removes the collection removes the folder and
    so the lock: others that waited for it wait for the lock of the folder that replaces it."""
    while True:
        handle = os.open(private_folder(home, home.parent), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with locked(handle, home):
            if is_at(home, handle):
                yield
                return


def fetch(collection: Collection, home: Path, private_hosts: Iterable[str], *, is_own: bool) -> Path:
    """Fetch the newest documents. The previous ones stay until the new ones are complete.

    The user's collections (`is_own`) may be on any host, including this machine. Addresses from elsewhere (a project, a
    manifest, a redirect) may only reach the public internet and the user's `private_hosts`.
    """
    if collection.kind is Kind.WRITTEN:
        return ensure_written_tree(home)  # documents written here exist nowhere else
    hosts = {host.lower() for host in private_hosts}
    if is_own and collection.remote:
        hosts.add(downloads.host_of(collection.url).name.lower())
    policy = HostPolicy(frozenset(hosts))
    if collection.kind is Kind.GIT:
        return _fetch_repository(collection, home, policy, is_own=is_own)
    get = partial(downloads.download, policy=policy)
    if collection.remote and not collections.is_archive(collection.url):
        text = get(collection.url, MAX_DOCUMENT_BYTES)
        if page := _name_page(collection.url, text):
            contents = {page: text}
            text = dumps({"name": page, "version": "1", "sources": {"files": [page]}}).encode()
        else:
            contents = _download_listed(collections.read_manifest(text.decode("utf-8", "replace")), collection.url, get)
    else:
        data = get(collection.url, MAX_PACKED_BYTES) if collection.remote else _read_archive(collection.url)
        contents = collections.unpack(data)
        text = contents[MANIFEST]
        named = (file for file in collections.read_manifest(text.decode("utf-8", "replace")).files if file.url)
        contents |= _download_all({file.path: file.url for file in named}, get)
    contents[MANIFEST] = text
    parts = b"".join(hashlib.sha256(os.fsencode(path) + contents[path]).digest() for path in sorted(contents))
    return _store(home, hashlib.sha256(parts).hexdigest(), contents.items())


def _name_page(url: str, content: bytes) -> str:
    """The name of a document that an address gives instead of a manifest, "" for a manifest."""
    name = urlsplit(url).path.rpartition("/")[2]
    if name.endswith(".json"):
        return ""
    if document_language(name):
        return name
    is_page = content.lstrip().startswith(b"<")
    return f"{name or 'index'}.html" if is_page else ""


def _read_archive(path: str) -> bytes:
    """A project may have a pipe, which never ends, in its place."""
    folder, name = os.path.split(os.path.realpath(path))
    try:
        return read_regular(folder, name, MAX_PACKED_BYTES)
    except TooLarge as error:
        raise UsageError(f"{path} has more than {MAX_PACKED_BYTES:,} bytes") from error
    except OSError as error:
        refused = UsageError(f"{path} cannot be read: {error.strerror}", "Give the file of a package")
        raise environment_error(error, path) or refused from error


def _fetch_repository(collection: Collection, home: Path, policy: HostPolicy, *, is_own: bool) -> Path:
    def store(url: str, pinned: str) -> Path:
        filters = (lambda path: bool(document_language(path)), MAX_DOCUMENT_BYTES, MAX_FETCHED_BYTES)
        with fetch_files(url, collection.ref, *filters, local=is_own, pinned=pinned) as (revision, files):
            return _store(home, revision, files)

    try:
        return store(collection.url, "" if is_own else policy.pin(collection.url))
    except Redirected:
        moved = downloads.follow_redirects(collection.url, policy) if is_own else collection.url
        if moved == collection.url:
            raise
        return store(moved, policy.pin(moved))


def _download_listed(manifest: Manifest, url: str, get: Download) -> dict[str, bytes]:
    """The files listed by a manifest on the web, each from its own address or relative to the manifest."""
    if manifest.globs:
        raise UsageError("a manifest on the web cannot use globs", "List files, or publish a tar.gz")
    base = manifest.base_url or url
    return _download_all({file.path: file.url or urljoin(base, quote(file.path)) for file in manifest.files}, get)


def _download_all(addresses: Mapping[str, str], get: Download) -> dict[str, bytes]:
    contents, total, until = dict[str, bytes](), 0, time.monotonic() + MAX_FETCH_S
    for path, address in addresses.items():
        if time.monotonic() > until:
            raise ProviderError(f"the files of the list took more than {MAX_FETCH_S:g} s", "Add fewer of them")
        contents[path] = get(address, MAX_DOCUMENT_BYTES)
        total += len(contents[path])
        if total > MAX_FETCHED_BYTES:
            raise _too_large_error()
    return contents


def _too_large_error() -> UsageError:
    return UsageError(f"the collection has more than {MAX_FETCHED_BYTES:,} bytes")


def _store(home: Path, revision: str, files: Iterable[tuple[str, bytes]]) -> Path:
    """Write beside the live tree, then switch to it; other trees are removed."""
    tree = home / f"tree-{revision[:16]}"
    with _lock_home(home):
        if tree.exists():
            _repair_tree(tree, files)
        else:
            _write_tree(tree, files)
        replace_file(home / "current", tree.name.encode("ascii"))
        for old in (*home.glob("tree-*"), *home.glob(".partial-*")):
            if old != tree:
                shutil.rmtree(old, ignore_errors=True)
    return tree


def _write_tree(tree: Path, files: Iterable[tuple[str, bytes]]) -> None:
    partial = tree.with_name(f".partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    private_folder(partial, tree.parent.parent)
    total = 0
    for path, content in files:
        total += len(content)
        if total > MAX_FETCHED_BYTES:
            raise _too_large_error()
        target = partial / collections.safe_path(path)
        try:
            write_private(private_folder(target.parent, partial) / target.name, content)
        except (OSError, UsageError) as error:  # a name that is too long, or that of a folder and of a document
            refused = UsageError(f"{path[:200]!r} cannot be stored under this name", "Rename it at its source")
            of_machine = environment_error(error) if isinstance(error, OSError) else None
            raise of_machine or refused from error
    partial.rename(tree)


def _repair_tree(tree: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Nobody edits a fetched document: one that differs from its source is damaged."""
    for path, content in files:
        target = tree / collections.safe_path(path)
        with suppress(OSError):
            if read_regular(str(tree), path, len(content) + 1) == content:
                continue
        replace_file(private_folder(target.parent, tree) / target.name, content)


def pack_folder(request: DocsPackRequest, source: CollectionSource) -> DocsPackResponse:
    reader, walked = source.walk(None)
    files, skipped = dict[str, bytes](), list(walked.skipped)
    for file, loaded in reader.load(walked.files):
        if isinstance(loaded, Skip):
            skipped.append(loaded)
        else:
            files[file.path] = loaded.data
    if not files:
        raise UsageError(f"{request.source} has no documents", "Give a folder that contains some")
    name = request.name or reader.root.name
    data, manifest = collections.pack(name, request.version, request.description, files)
    target = Path(request.out or f"{name}-{request.version}.tar.gz")
    _write_package(target, data)
    return DocsPackResponse(
        file=str(target),
        name=manifest.name,
        version=manifest.version,
        documents=len(manifest.files),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        skipped=tuple(skip for skip in skipped if skip.matters),
    )


def _write_package(target: Path, data: bytes) -> None:
    """The folder is locked meanwhile, so that what a killed process has left there can be told from what is in use."""
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(LocksUnsupported):
            if try_lock(folder, target.parent):
                sweep_temporary(folder, target.name)
        replace_file(target.name, data, mode=_SHARED, folder=folder)
    finally:
        os.close(folder)
