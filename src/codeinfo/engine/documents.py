"""Keeps one collection's index fresh: the same upkeep as for code, over documents and by content."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from codeinfo.collections.model import MANIFEST, Collection, Kind, Manifest, collection_of, read_manifest
from codeinfo.config import Config
from codeinfo.engine.collections import MAX_DOCUMENT_BYTES, CollectionList, fetch, fetched_tree
from codeinfo.engine.index_manager import IndexManager, healed
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.globs import match_globs
from codeinfo.index.line import Changes
from codeinfo.model import ManifestRow, Skip, SourceFile, Walk
from codeinfo.operations.base import Progress
from codeinfo.operations.documents import (
    CollectionInfo,
    DocsAddRequest,
    DocsListRequest,
    DocsListResponse,
    DocsOutlineRequest,
    DocsOutlineResponse,
    DocsPackRequest,
    DocsPackResponse,
    DocsRelatedRequest,
    DocsRelatedResponse,
    DocsRemoveRequest,
    DocsRemoveResponse,
    DocsSearchRequest,
    DocsSearchResponse,
    DocsSectionRequest,
    DocsSectionResponse,
    DocsSyncRequest,
    DocumentInfo,
    RemovedCollection,
    SyncPlan,
    SyncReport,
    SyncResponse,
)
from codeinfo.ports import Embedder
from codeinfo.sources.documents.formats import document_language, missing_library
from codeinfo.sources.read import load
from codeinfo.sources.walk import WalkSettings, check_root, walk
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from codeinfo.engine.engine import Engine


CONVERTERS_VERSION = 1  # raise when a converter gives other text: indexes are then built anew


class CollectionManager(IndexManager):
    """`thorough` compares contents, so that a change is found that left size and time as they were."""

    documents = True

    def __init__(self, collection: Collection, home: Path, config: Config, embedder: Embedder | None) -> None:
        super().__init__(Path(collection.url), config, embedder)
        self.collection = collection
        self.home = home
        self.folder = IndexFolder(config.paths.cache_dir / "documents", Path(collection.slug))
        self.thorough = False

    def recipe(self) -> str:
        return json.dumps([CONVERTERS_VERSION, *json.loads(super().recipe())])

    # --- what belongs to it ---

    def walk(self) -> Walk:
        self.root = self._place()
        if self.collection.kind is Kind.FILES:
            return _listed_files(self.root, self.collection.files)
        walked = walk(self.root, WalkSettings(max_file_bytes=MAX_DOCUMENT_BYTES, documents=True))
        if self.collection.kind is Kind.PACKAGE:
            walked = _of_package(self.root, walked, {} if self.thorough else self._known())
        return _chosen(walked, self.collection.globs, "glob", "the collection's patterns leave it out")

    def _known(self) -> Mapping[str, ManifestRow]:
        store = self.live_store()
        return store.manifest() if store is not None else {}

    def _place(self) -> Path:
        if not self.collection.fetched:
            return check_root(Path(self.collection.url))
        tree = fetched_tree(self.home)
        if tree is None:
            raise NotFound(
                f"{self.collection.name} was never fetched",
                next_step=f"Run `codeinfo docs sync {self.collection.name}`",
            )
        return tree

    # --- by content ---

    def changes(self, store: SqliteStore, walked: Walk) -> Changes:
        found = super().changes(store, walked)
        if not self.thorough:
            return found
        doubtful = {file.path for file in (*found.added, *found.suspects)}
        alike = [file for file in walked.files if file.path not in doubtful]
        hashes = store.hashes([file.path for file in alike])
        edited = [file for file in alike if self._sha256(file) != hashes[file.path]]
        return Changes(found.added, (*found.suspects, *edited), found.removed, found.unchanged - len(edited))

    def plan(self) -> SyncPlan:
        """What a sync would do now."""
        self.thorough = True
        walked, changes = self.pending()
        if changes is None:
            return SyncPlan(added=tuple(file.path for file in walked.files))
        manifest = self._known()
        changed = tuple(f.path for f in changes.suspects if self._sha256(f) != manifest[f.path].sha256)
        same = changes.unchanged + len(changes.suspects) - len(changed)
        return SyncPlan(tuple(file.path for file in changes.added), changed, changes.removed, same)

    def _sha256(self, file: SourceFile) -> str:
        loaded = load(self.root, file)
        return "" if isinstance(loaded, Skip) else loaded.sha256


def _listed_files(root: Path, files: tuple[str, ...]) -> Walk:
    found, skipped = list[SourceFile](), list[Skip]()
    for full in files:
        path = os.path.relpath(full, root).replace(os.sep, "/")
        try:
            status = os.lstat(full)
        except OSError as error:
            skipped.append(Skip(path, "missing", error.strerror or "", matters=True))
            continue
        command = missing_library(path)
        if not document_language(path):
            skipped.append(Skip(path, "not-a-document", "of no format that documents have", matters=True))
        elif status.st_size > MAX_DOCUMENT_BYTES:
            skipped.append(Skip(path, "too-large", f"{status.st_size:,} bytes", matters=True))
        elif command:
            skipped.append(Skip(path, "needs-library", f"to read it, install what is missing: {command}", matters=True))
        else:
            found.append(SourceFile(path, status.st_size, status.st_mtime_ns))
    return Walk(tuple(found), tuple(skipped))


def read_package(root: Path) -> Manifest:
    try:
        return read_manifest((root / MANIFEST).read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CodeInfoError(f"{root / MANIFEST} cannot be read: {error}") from error


def _of_package(root: Path, walked: Walk, known: Mapping[str, ManifestRow]) -> Walk:
    """What the manifest selects. A listed file whose content is not what its hash says is left out, and that is said;
    `known` spares reading those that look as they did when they were indexed."""
    manifest = read_package(root)
    if manifest.globs:
        return _chosen(walked, manifest.globs, "manifest", "the package's manifest does not select it")
    listed = {file.path: file for file in manifest.files}
    files, skipped = list[SourceFile](), list[Skip](walked.skipped)
    for file in walked.files:
        if file.path not in listed:
            skipped.append(Skip(file.path, "manifest", "the package's manifest does not list it"))
        elif wrong := _wrong_hash(root, file, listed[file.path].sha256, known.get(file.path)):
            skipped.append(Skip(file.path, "hash-mismatch", wrong, matters=True))
        else:
            files.append(file)
    present = {file.path for file in walked.files} | {skip.path for skip in walked.skipped}
    for path, wanted in listed.items():
        if path not in present:
            where = "a folder's package holds no addresses: add the manifest's own" if wanted.url else "not there"
            skipped.append(Skip(path, "missing", f"the manifest lists it; {where}", matters=True))
    return Walk(tuple(files), tuple(skipped))


def _wrong_hash(root: Path, file: SourceFile, wanted: str, known: ManifestRow | None) -> str:
    if not wanted:
        return ""
    if known is not None and (known.size, known.mtime_ns, known.sha256) == (file.size, file.mtime_ns, wanted):
        return ""
    loaded = load(root, file)
    if isinstance(loaded, Skip):
        return loaded.detail
    found = loaded.sha256
    return "" if found == wanted else f"its content has {found[:12]}…, the manifest says {wanted[:12]}…"


def _chosen(walked: Walk, globs: tuple[str, ...], rule: str, reason: str) -> Walk:
    if not globs:
        return walked
    fitting = match_globs([file.path for file in walked.files], globs)
    kept = tuple(file for file, fits in zip(walked.files, fitting, strict=True) if fits)
    left = (Skip(file.path, rule, reason) for file, fits in zip(walked.files, fitting, strict=True) if not fits)
    return Walk(kept, (*walked.skipped, *left))


ProgressSink = Callable[[Progress], None]


class DocumentOperations:
    """Keeps the collections that were asked for open until `close`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.shelf = CollectionList(engine.config.paths.data_dir)
        self._lock = threading.RLock()
        self._keepers: dict[str, CollectionManager] = {}

    def close(self) -> None:
        with self._lock:
            for keeper in self._keepers.values():
                keeper.close()
            self._keepers.clear()

    def keeper(self, collection: Collection) -> CollectionManager:
        """The keeper of one collection's index, made once."""
        with self._lock:
            known = self._keepers.get(collection.slug)
            if known is None or known.collection != collection:
                if known is not None:
                    known.close()
                home = self.shelf.folder / collection.slug
                # Its own place decides about settings, not the project one happens to be in: one recipe, one index.
                config = self._engine.config.for_root(home if collection.fetched else Path(collection.url))
                known = CollectionManager(collection, home, config, self._engine.embedder())
                self._keepers[collection.slug] = known
            return known

    # --- collections ---

    def add(self, request: DocsAddRequest, progress: ProgressSink | None = None) -> SyncResponse:
        """List a collection and sync it. One that cannot be synced is not listed."""
        project = Path(request.path)
        collection = collection_of(request.sources, name=request.name, ref=request.ref, globs=request.globs)
        if request.project:
            if len(request.sources) > 1 or request.globs:
                raise UsageError(
                    "context.json names one folder, package or repository a collection",
                    next_step="Keep it in your own list, or name one source without patterns",
                )
            collection = replace(collection, origin="project")
        report = self._sync(collection, dry_run=False, progress=progress)
        if request.project:
            self.shelf.add_to_project(collection, project, request.sources[0])
        else:
            self.shelf.add(collection)
        return SyncResponse((report,))

    def sync(self, request: DocsSyncRequest, progress: ProgressSink | None = None) -> SyncResponse:
        chosen, notes = self.shelf.named(Path(request.path), request.collections)
        reports = [self._sync(item, dry_run=request.dry_run, progress=progress) for item in chosen]
        if notes and reports:
            reports[0] = replace(reports[0], notes=(*notes, *reports[0].notes))
        return SyncResponse(tuple(reports))

    def _sync(self, collection: Collection, *, dry_run: bool, progress: ProgressSink | None) -> SyncReport:
        started = time.monotonic()
        keeper = self.keeper(collection)
        if collection.fetched and not dry_run:
            own = collection.origin == "user" or self.shelf.lists(collection)
            fetch(collection, keeper.home, self._engine.config.trust.private_hosts, own=own)
        try:
            plan = keeper.plan()
            if dry_run:
                notes = ("what is at its source was not fetched for this",) if collection.fetched else ()
                skipped = tuple(skip for skip in keeper.walk().skipped if skip.matters)
                return SyncReport(collection.id, collection.name, plan, True, skipped=skipped, notes=notes)
            fresh = keeper.refresh(progress=progress)
        except NotFound as error:
            if not dry_run:
                raise
            return SyncReport(collection.id, collection.name, SyncPlan(), True, notes=(str(error),))
        finally:
            keeper.thorough = False
        refused = {skip.path for skip in fresh.report.skipped if skip.rule == "refused"}
        return SyncReport(
            collection=collection.id,
            name=collection.name,
            plan=_without(plan, refused),
            documents=fresh.report.files,
            chunks=fresh.report.chunks,
            skipped=_that_matter(fresh.report.skipped),
            notes=fresh.report.notes,
            took_ms=round(1000 * (time.monotonic() - started), 1),
        )

    def list(self, request: DocsListRequest) -> DocsListResponse:
        chosen, notes = self.shelf.named(Path(request.path), request.collections)
        details = bool(request.collections)
        return DocsListResponse(tuple(self._info(item, details) for item in chosen), tuple(notes))

    def _info(self, collection: Collection, details: bool) -> CollectionInfo:
        keeper = self.keeper(collection)
        about = CollectionInfo(
            collection.id, collection.name, collection.kind.value, collection.url, collection.origin, "new"
        )
        try:
            store = keeper.live_store()
            if store is None:
                return about
            _, changes = keeper.pending()
            state = "stale" if changes is None or changes else "ready"
        except CodeInfoError:
            return replace(about, state="missing")
        counts = store.counts()
        rows = sorted(store.manifest().values(), key=lambda row: row.path) if details else []
        listing = tuple(DocumentInfo(r.path, r.language, r.chunk_count, r.size) for r in rows if r.language)
        return replace(
            about,
            state=state,
            documents=counts.files,
            passages=counts.chunks,
            indexed_at=store.meta().get("indexed_at", ""),
            listing=listing,
        )

    def remove(self, request: DocsRemoveRequest) -> DocsRemoveResponse:
        if not request.collections:
            raise UsageError("no collection is named", next_step="`codeinfo docs list` shows them")
        chosen, _ = self.shelf.named(Path(request.path), request.collections)
        return DocsRemoveResponse(tuple(self._remove(item, Path(request.path)) for item in chosen))

    def _remove(self, collection: Collection, project: Path) -> RemovedCollection:
        import shutil

        from codeinfo.engine.maintenance import bytes_under

        keeper = self.keeper(collection)
        size = sum(bytes_under(folder) for folder in (keeper.folder.path, keeper.home) if folder.exists())
        with self._lock:
            keeper.close()
            self._keepers.pop(collection.slug, None)
        if keeper.folder.path.exists():
            keeper.folder.clear()  # first: where it is being indexed nothing is removed, and a sync restores it
        self.shelf.remove(collection, project)
        shutil.rmtree(keeper.home, ignore_errors=True)
        return RemovedCollection(collection.id, collection.name, size)

    def pack(self, request: DocsPackRequest) -> DocsPackResponse:
        """A folder's documents as one file that anyone can add, with hashes of all of them."""
        from codeinfo.engine.collections import pack_folder

        source = collection_of([request.source], globs=request.globs)
        if source.kind not in (Kind.FOLDER, Kind.PACKAGE) or source.fetched:
            raise UsageError(f"{request.source} is not a folder", next_step="Name the folder to pack")
        return pack_folder(request, self.keeper(source))

    # --- search and reading ---

    def search(self, request: DocsSearchRequest, progress: ProgressSink | None = None) -> DocsSearchResponse:
        from codeinfo.engine.document_search import search_documents

        keepers, notes = self.chosen(request.path, request.collections)
        response = healed(
            lambda again: search_documents(
                self._engine, keepers, replace(request, refresh=again or request.refresh), progress
            )
        )
        return replace(response, notes=(*notes, *response.notes))

    def chosen(self, project: str, names: tuple[str, ...]) -> tuple[tuple[CollectionManager, ...], tuple[str, ...]]:
        """The collections of these names, all unless named, and what must be said about their list."""
        found, notes = self.shelf.named(Path(project), names)
        return tuple(self.keeper(item) for item in found), tuple(notes)

    def outline(self, request: DocsOutlineRequest) -> DocsOutlineResponse:
        from codeinfo.engine.document_search import outline

        return outline(*self._opened(request.path, request.collection), request)

    def section(self, request: DocsSectionRequest) -> DocsSectionResponse:
        from codeinfo.engine.document_search import section

        return section(*self._opened(request.path, request.collection), request)

    def related(self, request: DocsRelatedRequest) -> DocsRelatedResponse:
        from codeinfo.engine.document_search import related

        return related(*self._opened(request.path, request.collection), request)

    def _opened(self, project: str, name: str) -> tuple[CollectionManager, tuple[str, ...]]:
        """A collection brought up to date, and what must be said about it."""
        (collection,), _ = self.shelf.named(Path(project), (name,))
        keeper = self.keeper(collection)
        _, notes = self._engine.searchable(keeper)
        return keeper, notes


def _without(plan: SyncPlan, refused: set[str]) -> SyncPlan:
    added = tuple(path for path in plan.added if path not in refused)
    changed = tuple(path for path in plan.changed if path not in refused)
    return replace(plan, added=added, changed=changed)


def _that_matter(skipped: tuple[Skip, ...]) -> tuple[Skip, ...]:
    """A refusal matters as long as the document is there, not only in the run that met it."""
    marked = (replace(skip, matters=skip.matters or skip.rule == "refused") for skip in skipped)
    return tuple({skip.path: skip for skip in marked}.values())
