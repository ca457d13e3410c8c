"""Operations on collections of documents, composed into the engine as `documents`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from codeinfo.collections.model import Collection, Kind, collection_of
from codeinfo.engine.collecting import CollectionUpkeep
from codeinfo.engine.fetching import fetch
from codeinfo.engine.shelf import Shelf
from codeinfo.engine.upkeep import healed
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import Skip
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

if TYPE_CHECKING:
    from codeinfo.engine.facade import Engine


ProgressSink = Callable[[Progress], None]


class DocumentOperations:
    """Keeps the collections that were asked for open until `close`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.shelf = Shelf(engine.config.paths.data_dir)
        self._lock = threading.RLock()
        self._keepers: dict[str, CollectionUpkeep] = {}

    def close(self) -> None:
        with self._lock:
            for keeper in self._keepers.values():
                keeper.close()
            self._keepers.clear()

    def keeper(self, collection: Collection) -> CollectionUpkeep:
        """The keeper of one collection's index, made once."""
        with self._lock:
            known = self._keepers.get(collection.slug)
            if known is None or known.collection != collection:
                if known is not None:
                    known.close()
                home = self.shelf.folder / collection.slug
                # Its own place decides about settings, not the project one happens to be in: one recipe, one index.
                config = self._engine.config.for_root(home if collection.fetched else Path(collection.url))
                known = CollectionUpkeep(collection, home, config, self._engine.embedder())
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

        from codeinfo.engine.inspect import bytes_under

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
        from codeinfo.engine.packing import pack_folder

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

    def chosen(self, project: str, names: tuple[str, ...]) -> tuple[tuple[CollectionUpkeep, ...], tuple[str, ...]]:
        """The collections of these names, all unless named, and what must be said about their list."""
        found, notes = self.shelf.named(Path(project), names)
        return tuple(self.keeper(item) for item in found), tuple(notes)

    def outline(self, request: DocsOutlineRequest) -> DocsOutlineResponse:
        from codeinfo.engine.document_reading import outline

        return outline(*self._opened(request.path, request.collection), request)

    def section(self, request: DocsSectionRequest) -> DocsSectionResponse:
        from codeinfo.engine.document_reading import section

        return section(*self._opened(request.path, request.collection), request)

    def related(self, request: DocsRelatedRequest) -> DocsRelatedResponse:
        from codeinfo.engine.document_reading import related

        return related(*self._opened(request.path, request.collection), request)

    def _opened(self, project: str, name: str) -> tuple[CollectionUpkeep, tuple[str, ...]]:
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
