"""`Engine.documents`: collections of documents, one method an operation."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

import codeinfo.engine.document_search as reading
from codeinfo.collections.model import Collection, Kind, collection_of, safe_path, written_collection
from codeinfo.engine.collections import (
    MAX_DOCUMENT_BYTES,
    CollectionIndex,
    CollectionList,
    CollectionSource,
    fetch,
    pack_folder,
    written_tree,
)
from codeinfo.engine.index_manager import ProgressSink, healed
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.index.line import edited
from codeinfo.model import NextStep, Skip, to_run
from codeinfo.operations import documents as operations
from codeinfo.private_files import private_folder, replace_private
from codeinfo.sources.read import FolderFiles
from codeinfo.store.layout import bytes_under


class DocumentOperations:
    """Keeps the collections that were asked for open until `close`."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self.collections = CollectionList(indexes.config.paths.data_dir)
        self._lock = threading.RLock()
        self._managers: dict[str, CollectionIndex] = {}

    def close(self) -> None:
        with self._lock:
            for index in self._managers.values():
                index.close()
            self._managers.clear()

    def index_of(self, collection: Collection) -> CollectionIndex:
        with self._lock:
            known = self._managers.get(collection.slug)
            if known is None or known.source.collection != collection:
                if known is not None:
                    known.close()
                source = CollectionSource(collection, self.collections.folder / collection.slug)
                # Its own place decides about settings, not the project one happens to be in: one recipe, one index.
                config = self._indexes.config.for_root(source.home if collection.fetched else Path(collection.url))
                known = CollectionIndex(source, config, self._indexes.models.embedder())
                self._managers[collection.slug] = known
            return known

    def indexes(self, projects: Iterable[str]) -> Iterable[CollectionIndex]:
        """Those of the collections that these projects know."""
        known = {item.slug: item for project in projects for item in self.collections.all(Path(project))[0]}
        return [self.index_of(collection) for collection in known.values()]

    # --- collections ---

    def add(self, request: operations.DocsAddRequest, progress: ProgressSink | None = None) -> operations.SyncResponse:
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
        before = self.collections.check_free(collection, project)
        report = self._sync(collection, dry_run=False, progress=progress)
        if before is not None and before.globs != collection.globs:
            was = f"its patterns were {', '.join(before.globs) or 'none'} before"
            report = replace(report, notes=(*report.notes, was))
        if request.project:
            self.collections.add_to_project(collection, project, request.sources[0])
        else:
            self.collections.add(collection, project)
        return operations.SyncResponse((report,))

    def sync(
        self, request: operations.DocsSyncRequest, progress: ProgressSink | None = None
    ) -> operations.SyncResponse:
        chosen, notes = self.collections.named(Path(request.path), request.collections)
        reports = [self._sync(item, dry_run=request.dry_run, progress=progress) for item in chosen]
        if notes and reports:
            reports[0] = replace(reports[0], notes=(*notes, *reports[0].notes))
        return operations.SyncResponse(tuple(reports))

    def _sync(self, collection: Collection, *, dry_run: bool, progress: ProgressSink | None) -> operations.SyncReport:
        started = time.monotonic()
        index = self.index_of(collection)
        if collection.fetched and not dry_run:
            own = collection.origin == "user" or self.collections.lists(collection)
            fetch(collection, index.source.home, self._indexes.config.trust.private_hosts, own=own)
        try:
            plan, skipped = _plan(index)
        except NotFound as error:
            if not dry_run:
                raise
            return operations.SyncReport(
                collection.id, collection.name, operations.SyncPlan(), True, notes=(str(error),)
            )
        if dry_run:
            is_elsewhere = collection.fetched and collection.kind is not Kind.WRITTEN
            notes = ("what is at its source was not fetched for this",) if is_elsewhere else ()
            skipped = tuple(skip for skip in skipped if skip.matters)
            return operations.SyncReport(collection.id, collection.name, plan, True, skipped=skipped, notes=notes)
        fresh = index.refresh(by_content=True, progress=progress)
        refused = {skip.path for skip in fresh.report.skipped if skip.rule == "refused"}
        return operations.SyncReport(
            collection=collection.id,
            name=collection.name,
            plan=_without(plan, refused),
            documents=fresh.report.files,
            chunks=fresh.report.chunks,
            skipped=_that_matter(fresh.report.skipped),
            notes=fresh.report.notes,
            took_ms=round(1000 * (time.monotonic() - started), 1),
        )

    def list(self, request: operations.DocsListRequest) -> operations.DocsListResponse:
        chosen, notes = self.collections.named(Path(request.path), request.collections)
        details = bool(request.collections)
        return operations.DocsListResponse(tuple(self._info(item, details) for item in chosen), tuple(notes))

    def _info(self, collection: Collection, details: bool) -> operations.CollectionInfo:
        index = self.index_of(collection)
        about = operations.CollectionInfo(
            collection.id, collection.name, collection.kind.value, collection.url, collection.origin, "new"
        )
        try:
            store = index.live_store()
            if store is None:
                return about
            _, changes = index.pending()
            state = "stale" if changes is None or changes else "ready"
        except CodeInfoError:
            return replace(about, state="missing")
        counts = store.counts()
        rows = sorted(store.manifest().values(), key=lambda row: row.path) if details else []
        listing = tuple(
            operations.DocumentInfo(r.path, r.language, r.chunk_count, r.size, r.sha256) for r in rows if r.language
        )
        return replace(
            about,
            state=state,
            documents=counts.files,
            passages=counts.chunks,
            indexed_at=store.meta().get("indexed_at", ""),
            listing=listing,
        )

    def remove(self, request: operations.DocsRemoveRequest) -> operations.DocsRemoveResponse:
        if not request.collections:
            raise UsageError("no collection is named", next_step=NextStep(to_run("docs list"), " shows them"))
        chosen, _ = self.collections.named(Path(request.path), request.collections)
        return operations.DocsRemoveResponse(tuple(self._remove(item, Path(request.path)) for item in chosen))

    def _remove(self, collection: Collection, project: Path) -> operations.RemovedCollection:
        index = self.index_of(collection)
        folder, home = index.folder.path, index.source.home
        size = sum(bytes_under(place) for place in (folder, home) if place.exists())
        with self._lock:
            index.close()
            self._managers.pop(collection.slug, None)
        if folder.exists():
            index.clear()  # first: where it is being indexed nothing is removed, and a sync restores it
        self.collections.remove(collection, project)
        shutil.rmtree(home, ignore_errors=True)
        return operations.RemovedCollection(collection.id, collection.name, size)

    def update(self, request: operations.DocsUpdateRequest) -> operations.DocsUpdateResponse:
        """What is refused leaves everything as it was."""
        project, path = Path(request.path), _document_path(request.document)
        data = request.content.encode("utf-8", "surrogatepass")
        if len(data) > MAX_DOCUMENT_BYTES:
            raise UsageError(f"{path} has {len(data):,} bytes", next_step=f"Write at most {MAX_DOCUMENT_BYTES:,}")
        known = [item for item in self.collections.all(project)[0] if request.collection in (item.id, item.name)]
        collection = known[0] if known else written_collection(request.collection)
        index = self._written(collection)
        tree = written_tree(index.source.home)
        target = tree / path
        if target.is_dir() or any(folder.is_file() for folder in target.parents if folder.is_relative_to(tree)):
            raise UsageError(f"{path} is a folder here, or lies in a document", next_step="Choose another name")
        before = target.read_bytes() if target.is_file() else None
        if before != data:
            replace_private(private_folder(target.parent, index.source.home) / target.name, data)
        fresh = index.refresh()
        row = fresh.store.manifest().get(path)
        if row is None or not row.language:
            if not known:
                self._remove(collection, project)
            elif before is None:
                target.unlink()
            else:
                replace_private(target, before)
            why = next((skip.detail or skip.rule for skip in fresh.report.skipped if skip.path == path), "no document")
            raise UsageError(f"{path} is not taken: {why}", next_step="Name it like a text, as in guides/start.md")
        if not known:
            self.collections.add(collection, project)
        return operations.DocsUpdateResponse(collection.id, path, row.sha256, before != data, row.chunk_count)

    def delete(self, request: operations.DocsDeleteRequest) -> operations.DocsDeleteResponse:
        """All of them, or none where one is not there."""
        (collection,), _ = self.collections.named(Path(request.path), (request.collection,))
        index = self._written(collection)
        tree, paths = written_tree(index.source.home), list(dict.fromkeys(map(_document_path, request.documents)))
        if missing := [path for path in paths if not (tree / path).is_file()]:
            raise NotFound(
                f"{collection.name} has no {', '.join(missing)}; nothing was deleted",
                next_step=NextStep(to_run("docs list", collection.name), " shows what it has"),
            )
        for path in paths:
            (tree / path).unlink()
        return operations.DocsDeleteResponse(collection.id, tuple(paths), index.refresh().report.files)

    def _written(self, collection: Collection) -> CollectionIndex:
        if collection.kind is not Kind.WRITTEN:
            raise UsageError(
                f"the documents of {collection.name} come from {collection.url}",
                next_step=NextStep(
                    "Change them there and run ", to_run("docs sync", collection.name), ", or name another one"
                ),
            )
        return self.index_of(collection)

    def pack(self, request: operations.DocsPackRequest) -> operations.DocsPackResponse:
        """A folder's documents as one file that anyone can add, with hashes of all of them."""
        source = collection_of([request.source], globs=request.globs)
        if source.kind not in (Kind.FOLDER, Kind.PACKAGE) or source.fetched:
            raise UsageError(f"{request.source} is not a folder", next_step="Name the folder to pack")
        return pack_folder(request, self.index_of(source).source)

    # --- search and reading ---

    def search(
        self, request: operations.DocsSearchRequest, progress: ProgressSink | None = None
    ) -> operations.DocsSearchResponse:
        chosen, notes = self.chosen(request.path, request.collections)
        response = healed(
            lambda again: reading.search_documents(
                self._indexes, chosen, replace(request, refresh=again or request.refresh), progress
            )
        )
        return replace(response, notes=(*notes, *response.notes))

    def chosen(self, project: str, names: tuple[str, ...]) -> tuple[tuple[CollectionIndex, ...], tuple[str, ...]]:
        """The collections of these names, all unless named, and what must be said about their list."""
        found, notes = self.collections.named(Path(project), names)
        return tuple(self.index_of(item) for item in found), tuple(notes)

    def outline(self, request: operations.DocsOutlineRequest) -> operations.DocsOutlineResponse:
        return reading.outline(self._open(request.path, request.collection), request)

    def section(self, request: operations.DocsSectionRequest) -> operations.DocsSectionResponse:
        return reading.section(self._open(request.path, request.collection), request)

    def related(self, request: operations.DocsRelatedRequest) -> operations.DocsRelatedResponse:
        return reading.related(self._open(request.path, request.collection), request)

    def _open(self, project: str, name: str) -> reading.OpenCollection:
        """A collection brought up to date."""
        (collection,), _ = self.collections.named(Path(project), (name,))
        index = self.index_of(collection)
        return reading.OpenCollection(index, *self._indexes.open(index))


MOST_NAME_BYTES = 200  # of a part of a path: file systems end at 255, and a file is written under a longer name first
MOST_PARTS = 20


def _document_path(document: str) -> str:
    try:
        path = safe_path(document)
        sizes = [len(part.encode()) for part in path.split("/")]
    except (UsageError, UnicodeEncodeError):
        shown = f"{document[:80]!r}{'…' if len(document) > 80 else ''}"
        raise UsageError(
            f"{shown} is not a path within a collection", next_step="Write it as in guides/start.md"
        ) from None
    if not path or max(sizes) > MOST_NAME_BYTES or len(sizes) > MOST_PARTS:
        raise UsageError(
            f"{document[:80]!r}… is empty, too long or too deep for a name",
            next_step=f"Use at most {MOST_PARTS} parts of {MOST_NAME_BYTES} bytes each",
        )
    return path


def _plan(index: CollectionIndex) -> tuple[operations.SyncPlan, tuple[Skip, ...]]:
    """What a sync would do now, and what it would leave out."""
    walked, changes = index.pending(by_content=True)
    store = index.live_store()
    if changes is None or store is None:
        return operations.SyncPlan(added=tuple(file.path for file in walked.files)), walked.skipped
    changed = tuple(file.path for file in edited(FolderFiles(index.root), store, changes.suspects))
    same = changes.unchanged + len(changes.suspects) - len(changed)
    plan = operations.SyncPlan(tuple(file.path for file in changes.added), changed, changes.removed, same)
    return plan, walked.skipped


def _without(plan: operations.SyncPlan, refused: set[str]) -> operations.SyncPlan:
    added = tuple(path for path in plan.added if path not in refused)
    changed = tuple(path for path in plan.changed if path not in refused)
    return replace(plan, added=added, changed=changed)


def _that_matter(skipped: tuple[Skip, ...]) -> tuple[Skip, ...]:
    """A refusal matters as long as the document is there, not only in the run that met it."""
    marked = (replace(skip, matters=skip.matters or skip.rule == "refused") for skip in skipped)
    return tuple({skip.path: skip for skip in marked}.values())
