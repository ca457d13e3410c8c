"""`Engine.documents`: collections of documents, one method per operation."""

from __future__ import annotations

import difflib
import hashlib
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from codeinfo import collections
from codeinfo.cache import group_by_key
from codeinfo.collections import Collection, Kind, collection_of
from codeinfo.engine.collections import (
    MAX_DOCUMENT_BYTES,
    CollectionIndex,
    CollectionList,
    CollectionSource,
    ensure_written_tree,
    fetch,
    lock_written,
    pack_folder,
)
from codeinfo.engine.index_manager import PATIENCE_S, IndexManager, RefreshResult, retry_on_damage
from codeinfo.engine.indexes import Indexes, OpenIndex
from codeinfo.engine.search import OFF, Relevance, assess_relevance, best_first
from codeinfo.errors import Busy, CodeInfoError, NotFound, UsageError
from codeinfo.files import private_folder, replace_file
from codeinfo.globs import similar_paths
from codeinfo.model import CRUMB, Hit, NextStep, Quality, Skip, to_run
from codeinfo.models import Models
from codeinfo.operations import documents as ops
from codeinfo.operations.base import ProgressSink
from codeinfo.ports import ChunkRow, Embedder
from codeinfo.search.joined import Joined, Part
from codeinfo.search.line import SearchOptions, search
from codeinfo.search.query import STOP_WORDS
from codeinfo.search.weights import DOCUMENTS
from codeinfo.sources.walk import NEEDS_LIBRARY
from codeinfo.store.layout import bytes_under
from codeinfo.store.sqlite import SqliteStore, code_facts
from codeinfo.tokens import terms, words

FARTHEST = 2.0
SECOND = 0.5  # score of a document's second passage relative to its first
NO_RERANKER = "no reranking model is configured, so results keep their order; set rerank.provider to use one"
NO_DISTANCES = "without an embedding model there are no distances: max_distance was not applied"
NO_MEANING = "without an embedding model there is no search by meaning alone: words were used"
ASK_DOCUMENTS = "Use words that the documents use, or search fewer collections"
BEING_INDEXED = "another process is indexing this collection; the next search includes the change"
LINK_WORTH = 0.15  # of a link in either direction, relative to the cosine of two documents
LEAST_SIMILAR = 0.2  # below this cosine, two documents merely share a collection
WORDS_FOR_RELATED = 40  # from the start of a document, if there are no vectors to compare
_PLACE = re.compile(r"(Page|Sheet|Slide) ([^:]*)")
_PLACED = {"pdf": "Page", "xlsx": "Sheet", "pptx": "Slide"}
Cosines = NDArray[np.float32]  # of each row with a query


# --- search ----------------------------------------------------------------------------------------------------------


def search_documents(
    indexes: Indexes, chosen: Sequence[CollectionIndex], request: ops.DocsSearchRequest, progress: ProgressSink
) -> ops.DocsSearchResponse:
    if not 1 <= len(request.queries) <= ops.MAX_QUERIES or not all(query.strip() for query in request.queries):
        raise UsageError(f"1 to {ops.MAX_QUERIES} queries that are not empty are needed", "Quote each question")
    if not chosen and not request.code:
        raise no_collection()
    with ExitStack() as open_views:
        searched, views, notes = list[IndexManager](), list[Part](), list[str]()
        for index in (*chosen, *(indexes.find(path).index for path in request.code)):
            try:
                opened = indexes.open(index, refresh=request.refresh, progress=progress)
            except UsageError as error:
                if request.collections or len(chosen) == 1:
                    raise
                notes.append(f"left out: {error}")  # one missing collection must not hide the others
                continue
            notes += opened.notes
            searched.append(index)
            # A folder may be both a collection and code: the name keeps the files of the two apart.
            name = _collection_of(index) or str(index.root)
            views.append(Part(name, open_views.enter_context(opened.store.snapshot())))
        if not views:
            raise NotFound("no collection can be searched", notes[0])
        reranks = request.rerank and indexes.config.rerank.provider != "none"
        searcher = _Searcher(Joined(views), searched, request, indexes.models if reranks else None)
        searches = tuple(searcher.answer(query) for query in request.queries)
    return ops.DocsSearchResponse(searches, tuple(dict.fromkeys((*notes, *searcher.notes))))


def no_collection() -> NotFound:
    return NotFound("there is no collection yet", NextStep("Add one with ", to_run("docs add", "FOLDER")))


def _collection_of(index: IndexManager) -> str:
    """The id of the collection; "" for a folder of code."""
    return index.source.collection.id if isinstance(index, CollectionIndex) else ""


class _Searcher:
    """Answers queries from one joined index."""

    def __init__(
        self, view: Joined, indexes: Sequence[IndexManager], request: ops.DocsSearchRequest, reranker: Models | None
    ) -> None:
        self._view = view
        self._indexes = indexes
        self._embedder = indexes[0].embedder if all(index.embedder for index in indexes) else None
        self._request = request
        self._reranker = reranker
        self._candidates = reranker.config.rerank.candidates if reranker else 0
        self._limit = max(request.limit, self._candidates)
        self._failed: Relevance | None = None
        self.notes: list[str] = []
        if request.rerank and reranker is None:
            self.notes.append(NO_RERANKER)
        if self._embedder is None and request.max_distance < FARTHEST:
            self.notes.append(NO_DISTANCES)
        if self._embedder is None and not request.hybrid:
            self.notes.append(NO_MEANING)

    def answer(self, query: str) -> ops.DocumentSearch:
        started = time.perf_counter()
        embedder = _CachedEmbedder(self._embedder) if self._embedder is not None else None
        cosines = self._view.cosines(embedder.embed_query(query)) if embedder is not None else None
        quality = None
        if cosines is not None and not self._request.hybrid:
            results = self._by_meaning(cosines)
        else:
            results, quality = self._by_search(query, embedder, cosines)
        results, status = self._rerank(query, results)
        took = round(1000 * (time.perf_counter() - started), 2)
        if quality is not None:
            hint = ASK_DOCUMENTS if quality.hint and not self._request.code else quality.hint
            quality = replace(quality, hint=hint, reranker_status=status)
        return ops.DocumentSearch(query, tuple(results[: self._request.limit]), took, quality, status)

    def _rerank(self, query: str, results: list[ops.DocumentHit]) -> tuple[list[ops.DocumentHit], str]:
        """The first passages by relevance. Each rank keeps its score, as in code search. After a failure the reranker
        is not called again for the request's other questions."""
        if self._reranker is None:
            return results, OFF
        first = results[: self._candidates]
        read = ["\n".join(filter(None, (hit.title, hit.section, hit.content))) for hit in first]
        relevance = self._failed or assess_relevance(self._reranker, query, read)
        self.notes += relevance.notes
        if relevance.notes:
            self._failed = relevance
        if not relevance.scores:
            return results, relevance.status
        moved = [
            replace(first[position], score=first[place].score, rerank_score=round(relevance.scores[position], 4))
            for place, position in enumerate(best_first(relevance.scores))
        ]
        return [*moved, *results[len(first) :]], relevance.status

    def _by_meaning(self, cosines: Cosines) -> list[ops.DocumentHit]:
        near = np.flatnonzero(1 - cosines <= self._request.max_distance)
        order = near[np.argsort(-cosines[near], kind="stable")][: self._limit].tolist()
        chunks = self._view.chunks(order)
        best = max(float(cosines[order[0]]), 1e-6) if order else 1.0
        return [
            self._result(row, chunk, _distance(cosines, row), max(float(cosines[row]) / best, 0.0))
            for row, chunk in zip(order, chunks, strict=True)
        ]

    def _by_search(
        self, query: str, embedder: Embedder | None, cosines: Cosines | None
    ) -> tuple[list[ops.DocumentHit], Quality]:
        """The best passage of each document, then, if there is room, their next best ones."""
        allowed = None
        if cosines is not None:
            closest = np.full(len(self._view.paths), -1.0, np.float32)
            np.maximum.at(closest, self._view.row_file, cosines)
            allowed = 1 - closest <= self._request.max_distance
        options = SearchOptions(roots=self._view.roots, limit=self._limit, allowed=allowed, weights=DOCUMENTS)
        result = search(query, self._view, embedder, options)
        query_terms = {term for word in words(query) if word not in STOP_WORDS for term in terms(word)}
        firsts, seconds = list[ops.DocumentHit](), list[ops.DocumentHit]()
        for hit in result.hits:
            best, *more = self._choose_passages(hit, cosines)
            firsts.append(self._result(*best, hit.score))
            for row, chunk, distance in more:
                if query_terms.intersection(terms(chunk.text)):
                    seconds.append(self._result(row, chunk, distance, hit.score * SECOND))
        return [*firsts, *seconds][: self._limit], result.quality

    def _choose_passages(self, hit: Hit, cosines: Cosines | None) -> list[tuple[int, ChunkRow, float | None]]:
        """The hit's passage and the next one, within the requested distance; otherwise the document's closest."""
        spans = ((hit.start_line, hit.end_line), *hit.more)
        matches = (self._view.row_of(hit.root, hit.path, lines) for lines in dict.fromkeys(spans))
        rows = [row for row in matches if row is not None]
        if cosines is None:
            return [(row, chunk, None) for row, chunk in zip(rows, self._view.chunks(rows), strict=True)]
        near = [row for row in rows if _distance(cosines, row) <= self._request.max_distance]
        near = near or [max(self._view.rows_of(hit.root, hit.path), key=lambda row: float(cosines[row]))]
        return [(row, chunk, _distance(cosines, row)) for row, chunk in zip(near, self._view.chunks(near), strict=True)]

    def _result(self, row: int, chunk: ChunkRow, distance: float | None, score: float) -> ops.DocumentHit:
        index = self._indexes[self._view.part_of_row(row)]
        collection = _collection_of(index)
        title, _, section = chunk.breadcrumb.partition(CRUMB)
        place, line = place_of(chunk.language, section) if collection else "", _find_section_line(chunk, section)
        return ops.DocumentHit(
            id=f"{collection or index.root}#{chunk.chunk_id}",
            document=chunk.path,
            collection=collection,
            content=chunk.text,
            distance=round(distance, 4) if distance is not None else None,
            score=round(score, 4),
            kind="document" if collection else chunk.file_kind,
            title=title,
            section=section,
            place=place,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            opens=place_to_open(str(index.root / chunk.path), chunk.language, section, line),
        )


class _CachedEmbedder:
    """An embedder that asks its model once for a query that several steps need: a call may be a network round trip."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}
        self.model_id, self.dimension = embedder.model_id, embedder.dimension
        self.embed_documents = embedder.embed_documents

    def embed_query(self, text: str) -> NDArray[np.float32]:
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]


def _distance(cosines: Cosines, row: int) -> float:
    return max(0.0, 1 - float(cosines[row]))


def place_of(language: str, section: str) -> str:
    """ "page 3" for a PDF, "sheet Costs" for a workbook, "slide 2" for slides; "" for formats without such places."""
    kind = _PLACED.get(language)
    for part in section.split(CRUMB):
        match = _PLACE.match(part)
        if match and match.group(1) == kind:
            return f"{match.group(1).lower()} {match.group(2).strip()}"
    return ""


# Formats whose passages have no lines in the file; a heading of some is a place in it.
_WITH_HEADINGS = frozenset({"docx", "html"})
_CONVERTED = _WITH_HEADINGS | {"notebook", "csv", "email"}


def place_to_open(path: str, language: str, section: str, line: int) -> str:
    """Where to open a passage: the file, with its page, sheet, slide, heading or line."""
    if place := place_of(language, section):
        return f"{path}#{place.replace(' ', '=', 1)}"
    if language in _WITH_HEADINGS and section:
        slug = re.sub(r"[^\w]+", "-", section.rpartition(CRUMB)[2].lower()).strip("-")
        return f"{path}#{slug}"
    return path if language in _CONVERTED else f"{path}:{line}"


def _find_section_line(chunk: ChunkRow, section: str) -> int:
    """The line where the section starts, for a passage that starts with the title above it."""
    heading = section.rpartition(CRUMB)[2]
    for at, line in enumerate(chunk.text.split("\n")[: chunk.end_line - chunk.start_line + 1]):
        if heading and line.strip("#= \t") == heading:
            return chunk.start_line + at
    return chunk.start_line


# --- one document ----------------------------------------------------------------------------------------------------


def document_lines(store: SqliteStore, path: str) -> list[str]:
    """A document's text by line, from its passages; repeated table headers are counted once."""
    lines: dict[int, str] = {}
    pieces: dict[int, list[str]] = {}
    with store.snapshot() as view:
        joined = Joined([Part("", view)])
        for chunk in joined.chunks(joined.rows_of("", path)):
            texts = chunk.text.split("\n")[-(chunk.end_line - chunk.start_line + 1) :]
            if chunk.start_line == chunk.end_line:  # one giant line is split into several pieces
                pieces.setdefault(chunk.start_line, []).extend(texts)
            else:
                lines.update(zip(range(chunk.start_line, chunk.end_line + 1), texts, strict=False))
    texts_by_line = {number: "".join(texts) for number, texts in pieces.items()} | lines
    return [texts_by_line.get(number, "") for number in range(1, max(texts_by_line, default=0) + 1)]


def headings(store: SqliteStore, path: str) -> list[ops.OutlineEntry]:
    symbols = store.symbols(path)
    return [
        ops.OutlineEntry(
            heading.name, int(heading.signature.removeprefix("level ") or 1), heading.start_line, heading.end_line
        )
        for heading in (symbols.definitions if symbols else ())
    ]


def _find_document(store: SqliteStore, name: str, collection: str) -> str:
    paths = [path for path, row in store.manifest().items() if row.language]
    if name in paths:
        return name
    ends = [path for path in paths if path.endswith(f"/{name}")]
    if len(ends) == 1:
        return ends[0]
    near = ends or similar_paths(name, paths)
    listed = NextStep(to_run("docs list", collection), " shows them")
    hint = f"Did you mean {', '.join(near[:3])}?" if near else listed
    raise NotFound(f"there is no document {name!r}", hint)


def _find_section(request: ops.DocsSectionRequest, entries: list[ops.OutlineEntry]) -> ops.OutlineEntry:
    """By its full title, otherwise by part of it; the first match in the document."""
    title = request.section
    key = title.strip().lstrip("#").strip().lower()
    for fits in (str.__eq__, str.startswith, str.__contains__):
        for entry in entries:
            if fits(entry.title.lower(), key):
                return entry
    titles = {entry.title.lower(): entry.title for entry in entries}
    near = [repr(titles[name]) for name in difflib.get_close_matches(key, titles)]
    outline = NextStep(to_run("docs outline", request.collection, request.document), " shows its headings")
    raise NotFound(f"there is no section {title!r}", f"Did you mean {', '.join(near)}?" if near else outline)


def _read_links(store: SqliteStore) -> set[tuple[str, str]]:
    with code_facts(store) as facts:
        names = {file.file_id: file.path for file in facts.files()}
        links = group_by_key((names[file_id], link) for file_id, link in facts.imports() if file_id in names)
    return collections.edges({path: links.get(path, []) for path in names.values()})


def _measure_similarity(store: SqliteStore, path: str) -> dict[str, float]:
    """Document → similarity, 0..1; by words if there are no vectors."""
    vectors = store.vectors_by_hash(store.manifest()[path].sha256)
    with store.snapshot() as view:
        joined = Joined([Part("", view)])
        if vectors is None or not len(vectors):
            text = " ".join(chunk.text for chunk in joined.chunks(joined.rows_of("", path)[:2]))
            words = " ".join(text.split()[:WORDS_FOR_RELATED])
            result = search(words, view, None, SearchOptions(limit=20, weights=DOCUMENTS))
            return {hit.path: hit.score for hit in result.hits if hit.path != path}
        mean = vectors.mean(0)
        cosines = joined.cosines((mean / max(float(np.linalg.norm(mean)), 1e-6)).astype(np.float32))
        if cosines is None:
            return {}
        totals = np.bincount(joined.row_file, cosines, len(joined.paths))
        counts = np.maximum(joined.file_rows, 1)
        return {other: float(totals[at] / counts[at]) for at, other in enumerate(joined.paths)}


class DocumentOperations:
    """Keeps the requested collections open until `close`."""

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
            index = self._managers.get(collection.slug)
            if index is None or index.source.collection != collection:
                if index is not None:
                    index.close()
                source = CollectionSource(collection, self.collections.folder / collection.slug)
                # Settings come from its own location, not from the current project: one recipe, one index.
                config = self._indexes.config.for_root(source.home if collection.fetched else Path(collection.url))
                index = CollectionIndex(source, config, self._indexes.models.embedder())
                self._managers[collection.slug] = index
            return index

    def indexes(self, projects: Iterable[str]) -> Iterable[CollectionIndex]:
        by_slug = {item.slug: item for project in projects for item in self.collections.all(Path(project))[0]}
        return [self.index_of(collection) for collection in by_slug.values()]

    def add(self, request: ops.DocsAddRequest, progress: ProgressSink = None) -> ops.SyncResponse:
        """List a collection and sync it; if the sync fails, it is removed again. It is listed first, so that what a
        killed process leaves can be seen, continued and removed."""
        project = Path(request.path)
        collection = collection_of(request.sources, name=request.name, ref=request.ref, globs=request.globs)
        if request.project:
            if len(request.sources) > 1 or request.globs:
                step = "Keep it in your own list, or give one source without patterns"
                raise UsageError("a collection in context.json has one folder, package or repository", step)
            if collection.source != collection.url:
                step = "Keep it in your own list, or give the address without password and what follows its path"
                raise UsageError("context.json is meant for git and must not hold a password", step)
            context = self.collections.context_file(project)
            url = collections.url_in_project(collection, request.sources[0], str(context.parent))
            collection = replace(collection, origin="project")
        before = self.collections.check_free(collection, project)
        is_new = before is None and not request.project
        if is_new:
            self.collections.add(collection, project)
        try:
            report = self._sync(collection, dry_run=False, progress=progress)
        except BaseException as error:  # what an interrupted run has indexed is kept
            if is_new and (isinstance(error, Exception) or self.index_of(collection).live_store() is None):
                with suppress(CodeInfoError, OSError):
                    self._remove(collection, project)
            raise
        if before is not None and before.globs != collection.globs:
            was = f"its patterns were {', '.join(before.globs) or 'none'} before"
            report = replace(report, notes=(*report.notes, was))
        if request.project:
            self.collections.add_to_project(collection, context, url)
        elif not is_new:
            self.collections.add(collection, project)
        return ops.SyncResponse((report,))

    def sync(self, request: ops.DocsSyncRequest, progress: ProgressSink = None) -> ops.SyncResponse:
        chosen, notes = self.collections.find(Path(request.path), request.collections)
        reports = [self._sync(item, dry_run=request.dry_run, progress=progress) for item in chosen]
        if notes and reports:
            reports[0] = replace(reports[0], notes=(*notes, *reports[0].notes))
        return ops.SyncResponse(tuple(reports))

    def _sync(self, collection: Collection, *, dry_run: bool, progress: ProgressSink) -> ops.SyncReport:
        started = time.monotonic()
        index = self.index_of(collection)
        if collection.fetched and not dry_run:
            is_own = collection.origin == "user" or self.collections.lists(collection)
            fetch(collection, index.source.home, self._indexes.config.trust.private_hosts, is_own=is_own)
        before = _hashes_by_path(index.live_store())
        if dry_run:
            return self._preview(index, before)
        result = index.refresh(by_content=True, progress=progress)
        return ops.SyncReport(
            collection=collection.id,
            name=collection.name,
            plan=_compare_hashes(before, _hashes_by_path(result.store)),
            documents=result.report.files,
            chunks=result.report.chunks,
            skipped=_mark_refusals(result.report.skipped),
            notes=result.report.notes,
            took_ms=round(1000 * (time.monotonic() - started), 1),
        )

    def _preview(self, index: CollectionIndex, before: Mapping[str, str]) -> ops.SyncReport:
        """What a sync would do to the documents as they are here now."""
        collection, store = index.source.collection, index.live_store()
        rows = store.manifest() if store is not None else {}
        try:
            files, walked = index.source.walk(None)
        except NotFound as error:
            return ops.SyncReport(collection.id, collection.name, ops.SyncPlan(), True, notes=(str(error),))
        loaded = ((file.path, content) for file, content in files.load(walked.files))
        present = {path: content.sha256 for path, content in loaded if not isinstance(content, Skip)}
        refused = {path for path, row in rows.items() if not row.language and present.get(path) == row.sha256}
        lacking_library = (skip.path for skip in walked.skipped if skip.rule == NEEDS_LIBRARY)
        unconverted = {path: before[path] for path in lacking_library if path in before}
        after = {path: sha256 for path, sha256 in present.items() if path not in refused} | unconverted
        plan = _compare_hashes(before, after)
        is_elsewhere = collection.fetched and collection.kind is not Kind.WRITTEN
        notes = ("what is at its source was not fetched for this",) if is_elsewhere else ()
        skipped = tuple(skip for skip in walked.skipped if skip.matters)
        return ops.SyncReport(collection.id, collection.name, plan, True, skipped=skipped, notes=notes)

    def list(self, request: ops.DocsListRequest) -> ops.DocsListResponse:
        chosen, notes = self.collections.find(Path(request.path), request.collections)
        details = bool(request.collections)
        return ops.DocsListResponse(tuple(self._info(item, details) for item in chosen), tuple(notes))

    def _info(self, collection: Collection, details: bool) -> ops.CollectionInfo:
        index = self.index_of(collection)
        kind = collection.kind.value
        info = ops.CollectionInfo(collection.id, collection.name, kind, collection.source, collection.origin, "new")
        try:
            store = index.live_store()
            if store is None:
                return info
            changes = index.find_pending()
            state = "stale" if changes is None or changes else "ready"
        except CodeInfoError:
            return replace(info, state="missing")
        counts, indexed_at = store.counts(), store.meta().get("indexed_at", "")
        rows = sorted(store.manifest().values(), key=lambda row: row.path) if details else []
        listing = [ops.DocumentInfo(r.path, r.language, r.chunk_count, r.size, r.sha256) for r in rows if r.language]
        info = replace(info, state=state, documents=counts.files, passages=counts.chunks)
        return replace(info, indexed_at=indexed_at, listing=tuple(listing))

    def remove(self, request: ops.DocsRemoveRequest) -> ops.DocsRemoveResponse:
        if not request.collections:
            raise UsageError("no collection was given", NextStep(to_run("docs list"), " shows them"))
        chosen, _ = self.collections.find(Path(request.path), request.collections)
        return ops.DocsRemoveResponse(tuple(self._remove(item, Path(request.path)) for item in chosen))

    def _remove(self, collection: Collection, project: Path, *, if_empty: bool = False) -> ops.RemovedCollection:
        index = self.index_of(collection)
        folder, home = index.folder.path, index.source.home
        size = sum(bytes_under(place) for place in (folder, home) if place.exists())
        with self._lock:
            index.close()
            self._managers.pop(collection.slug, None)
        if folder.exists():
            index.clear()  # first: while it is being indexed nothing is removed, and a sync restores it
        self.collections.remove(collection, project, if_empty=if_empty)
        return ops.RemovedCollection(collection.id, collection.name, size)

    def update(self, request: ops.DocsUpdateRequest) -> ops.DocsUpdateResponse:
        """A refused document changes nothing. A new collection is listed with its first document, before that is
        indexed: what a killed process leaves can be seen, and what others write there meanwhile is kept."""
        project, path = Path(request.path), _document_path(request.document)
        data = request.content.encode("utf-8", "surrogatepass")
        if len(data) > MAX_DOCUMENT_BYTES:
            raise UsageError(f"{path} has {len(data):,} bytes", f"Write at most {MAX_DOCUMENT_BYTES:,}")
        existing = [item for item in self.collections.all(project)[0] if request.collection in (item.id, item.name)]
        collection = existing[0] if existing else collections.make_written_collection(request.collection)
        index = self._writable_index(collection)
        home = index.source.home
        with lock_written(home):
            tree = ensure_written_tree(home)
            target = tree / path
            if target.is_dir() or any(folder.is_file() for folder in target.parents if folder.is_relative_to(tree)):
                raise UsageError(f"{path} is a folder here, or inside a document", "Choose another name")
            before = target.read_bytes() if target.is_file() else None
            if before != data:
                replace_file(private_folder(target.parent, home) / target.name, data)
            if all(item.id != collection.id for item in self.collections.all(project)[0]):  # or no longer there
                self.collections.add(collection, project)
        result = self._refresh_written(index)
        if result is None:
            digest = hashlib.sha256(data).hexdigest()
            return ops.DocsUpdateResponse(collection.id, path, digest, before != data, 0, (BEING_INDEXED,))
        row = result.store.manifest().get(path)
        if row is None or not row.language:
            why = next((skip.detail or skip.rule for skip in result.report.skipped if skip.path == path), "no document")
            with lock_written(home):
                if target.is_file() and target.read_bytes() == data:  # or another process has written it since
                    target.unlink() if before is None else replace_file(target, before)
            if not existing:
                with suppress(Busy):  # another process indexes what it has written there
                    self._remove(collection, project, if_empty=True)
            step = "Use the name of a text file, as in guides/start.md"
            raise UsageError(f"{path} cannot be a document: {why}", step)
        return ops.DocsUpdateResponse(collection.id, path, row.sha256, before != data, row.chunk_count)

    def delete(self, request: ops.DocsDeleteRequest) -> ops.DocsDeleteResponse:
        """Delete all of them, or none if one does not exist."""
        (collection,), _ = self.collections.find(Path(request.path), (request.collection,))
        index = self._writable_index(collection)
        paths = list(dict.fromkeys(map(_document_path, request.documents)))
        with lock_written(index.source.home):
            tree = ensure_written_tree(index.source.home)
            if missing := [path for path in paths if not (tree / path).is_file()]:
                step = NextStep(to_run("docs list", collection.name), " shows what it has")
                raise NotFound(f"{collection.name} has no {', '.join(missing)}; nothing was deleted", step)
            for path in paths:
                (tree / path).unlink()
            remaining = sum(1 for place in tree.rglob("*") if place.is_file())
        notes = () if self._refresh_written(index) else (BEING_INDEXED,)
        return ops.DocsDeleteResponse(collection.id, tuple(paths), remaining, notes)

    def _refresh_written(self, index: CollectionIndex) -> RefreshResult | None:
        """None if another process goes on indexing it: what is written there stays, whoever indexes it."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return index.refresh()
            except Busy:
                if time.monotonic() > until:
                    return None
                time.sleep(0.1)

    def _writable_index(self, collection: Collection) -> CollectionIndex:
        if collection.kind is not Kind.WRITTEN:
            step = NextStep("Change them there and run ", to_run("docs sync", collection.name), ", or name another one")
            raise UsageError(f"the documents of {collection.name} come from {collection.source}", step)
        return self.index_of(collection)

    def pack(self, request: ops.DocsPackRequest) -> ops.DocsPackResponse:
        """Pack a folder's documents into one file that anyone can add, with hashes of all of them."""
        source = collection_of([request.source], globs=request.globs)
        if source.kind not in (Kind.FOLDER, Kind.PACKAGE) or source.fetched:
            raise UsageError(f"{request.source} is not a folder", "Give the folder to pack")
        return pack_folder(request, self.index_of(source).source)

    def search(self, request: ops.DocsSearchRequest, progress: ProgressSink = None) -> ops.DocsSearchResponse:
        chosen, notes = self.choose(request.path, request.collections)

        def ask(again: bool) -> ops.DocsSearchResponse:
            return search_documents(self._indexes, chosen, replace(request, refresh=again or request.refresh), progress)

        response = retry_on_damage(ask)
        return replace(response, notes=(*notes, *response.notes))

    def choose(self, project: str, names: tuple[str, ...]) -> tuple[tuple[CollectionIndex, ...], tuple[str, ...]]:
        """The collections with these names, all by default, and notes on the list."""
        chosen, notes = self.collections.find(Path(project), names)
        return tuple(self.index_of(item) for item in chosen), tuple(notes)

    def outline(self, request: ops.DocsOutlineRequest) -> ops.DocsOutlineResponse:
        opened, path = self._open(request)
        entries = tuple(headings(opened.store, path))
        return ops.DocsOutlineResponse(_collection_of(opened.index), path, entries, opened.notes)

    def section(self, request: ops.DocsSectionRequest) -> ops.DocsSectionResponse:
        opened, path = self._open(request)
        lines = document_lines(opened.store, path)
        first, last, title = 1, len(lines), path
        if request.section:
            entry = _find_section(request, headings(opened.store, path))
            first, last, title = entry.start_line, entry.end_line, entry.title
        content = "\n".join(lines[first - 1 : last]).strip("\n")
        return ops.DocsSectionResponse(_collection_of(opened.index), path, title, content, first, last)

    def related(self, request: ops.DocsRelatedRequest) -> ops.DocsRelatedResponse:
        """Linked and similar documents in one list: the cosine of their mean vectors plus the weight of links."""
        opened, path = self._open(request)
        index, store = opened.index, opened.store
        collection, similar = _collection_of(index), _measure_similarity(store, path)
        relations: dict[str, list[str]] = {}
        for source, target in _read_links(store):
            if source == path:
                relations.setdefault(target, []).append("links to")
            elif target == path:
                relations.setdefault(source, []).append("linked from")
        listed = []
        for other in {*similar, *relations} - {path}:
            cosine = similar.get(other)
            named = tuple(sorted(relations.get(other, ())))
            if cosine is not None and cosine >= LEAST_SIMILAR:
                named = (*named, "similar")
            if named:
                score = (cosine or 0.0) + LINK_WORTH * len(relations.get(other, ()))
                distance = round(1 - cosine, 4) if cosine is not None and index.embedder else None
                listed.append(ops.RelatedDocument(other, collection, named, distance, round(score, 4)))
        listed.sort(key=lambda item: (-item.score, item.document))
        return ops.DocsRelatedResponse(collection, path, tuple(listed[: request.limit]), opened.notes)

    def _open(
        self, request: ops.DocsOutlineRequest | ops.DocsSectionRequest | ops.DocsRelatedRequest
    ) -> tuple[OpenIndex, str]:
        """A collection, refreshed, and the path of the requested document in it."""
        (collection,), _ = self.collections.find(Path(request.path), (request.collection,))
        opened = self._indexes.open(self.index_of(collection))
        return opened, _find_document(opened.store, request.document, request.collection)


# --- writing and syncing ---------------------------------------------------------------------------------------------

MOST_NAME_BYTES = 200  # per path component: file systems stop at 255, and a file is first written under a longer name
MOST_PARTS = 20


def _document_path(document: str) -> str:
    try:
        path = collections.safe_path(document)
        sizes = [len(part.encode()) for part in path.split("/")]
    except (UsageError, UnicodeEncodeError):
        shown = f"{document[:80]!r}{'…' if len(document) > 80 else ''}"
        raise UsageError(f"{shown} is not a path within a collection", "Write it as in guides/start.md") from None
    if not path or max(sizes) > MOST_NAME_BYTES or len(sizes) > MOST_PARTS:
        step = f"Use at most {MOST_PARTS} parts of {MOST_NAME_BYTES} bytes each"
        raise UsageError(f"{document[:80]!r}… is empty, too long or too deep for a name", step)
    return path


def _hashes_by_path(store: SqliteStore | None) -> dict[str, str]:
    """The documents of an index, without those that are refused, by path."""
    rows = store.manifest().values() if store is not None else ()
    return {row.path: row.sha256 for row in rows if row.language}


def _compare_hashes(before: Mapping[str, str], after: Mapping[str, str]) -> ops.SyncPlan:
    same = before.keys() & after.keys()
    changed = tuple(sorted(path for path in same if before[path] != after[path]))
    added, removed = tuple(sorted(after.keys() - before)), tuple(sorted(before.keys() - after))
    return ops.SyncPlan(added, changed, removed, len(same) - len(changed))


def _mark_refusals(skipped: tuple[Skip, ...]) -> tuple[Skip, ...]:
    """A refusal is reported as long as the document exists, not only in the run that found it."""
    marked = (replace(skip, matters=skip.matters or skip.rule == "refused") for skip in skipped)
    return tuple({skip.path: skip for skip in marked}.values())
