"""One document: its outline, a section of it, and the documents it has to do with."""

from __future__ import annotations

import difflib

import numpy as np

from codeinfo.collections.links import edges
from codeinfo.collections.weights import DOCUMENTS
from codeinfo.engine.collecting import CollectionUpkeep
from codeinfo.errors import NotFound
from codeinfo.model import Definition, Import
from codeinfo.operations.documents import (
    DocsOutlineRequest,
    DocsOutlineResponse,
    DocsRelatedRequest,
    DocsRelatedResponse,
    DocsSectionRequest,
    DocsSectionResponse,
    OutlineEntry,
    RelatedDocument,
)
from codeinfo.search.joined import Joined, Part
from codeinfo.search.line import SearchOptions, search
from codeinfo.store.code import code_facts
from codeinfo.store.sqlite import SqliteStore

LINK_WORTH = 0.15  # a link in either direction, beside the cosine of two documents: what people linked belongs together
LEAST_SIMILAR = 0.2  # cosine below which two documents are merely in the same collection
WORDS_FOR_RELATED = 40  # of a document's beginning, where there are no vectors to compare


def outline(keeper: CollectionUpkeep, notes: tuple[str, ...], request: DocsOutlineRequest) -> DocsOutlineResponse:
    store = _store(keeper)
    path = _document(store, request.document)
    return DocsOutlineResponse(keeper.collection.id, path, tuple(headings(store, path)), notes)


def section(keeper: CollectionUpkeep, notes: tuple[str, ...], request: DocsSectionRequest) -> DocsSectionResponse:
    store = _store(keeper)
    path = _document(store, request.document)
    lines = document_lines(store, path)
    first, last, title = 1, max(lines, default=0), path
    if request.section:
        entry = _named(request.section, headings(store, path))
        first, last, title = entry.start_line, entry.end_line, entry.title
    content = "\n".join(lines.get(number, "") for number in range(first, last + 1)).strip("\n")
    return DocsSectionResponse(keeper.collection.id, path, title, content, first, last)


def related(keeper: CollectionUpkeep, notes: tuple[str, ...], request: DocsRelatedRequest) -> DocsRelatedResponse:
    """Linked ones and similar ones together: the cosine of the documents' mean vectors, and what links are worth."""
    store = _store(keeper)
    path = _document(store, request.document)
    similar = _similar(keeper, store, path)
    relations: dict[str, list[str]] = {}
    for source, target in _edges(store):
        if source == path:
            relations.setdefault(target, []).append("links to")
        elif target == path:
            relations.setdefault(source, []).append("linked from")
    found = []
    for other in {*similar, *relations} - {path}:
        cosine = similar.get(other)
        named = tuple(sorted(relations.get(other, ())))
        if cosine is not None and cosine >= LEAST_SIMILAR:
            named = (*named, "similar")
        if named:
            score = (cosine or 0.0) + LINK_WORTH * len(relations.get(other, ()))
            distance = round(1 - cosine, 4) if cosine is not None and keeper.embedder else None
            found.append(RelatedDocument(other, keeper.collection.id, named, distance, round(score, 4)))
    found.sort(key=lambda item: (-item.score, item.document))
    return DocsRelatedResponse(keeper.collection.id, path, tuple(found[: request.limit]), notes)


def _store(keeper: CollectionUpkeep) -> SqliteStore:
    store = keeper.live_store()
    assert store is not None  # the caller has just brought it up to date
    return store


def document_lines(store: SqliteStore, path: str) -> dict[int, str]:
    """A document's text by line, from its passages; the header that parts of a table repeat is not counted twice."""
    lines: dict[int, str] = {}
    pieces: dict[int, list[str]] = {}
    with store.snapshot() as view:
        joined = Joined([Part("", view)])
        for chunk in joined.chunks(joined.rows_of("", path)):
            texts = chunk.text.split("\n")[-(chunk.end_line - chunk.start_line + 1) :]
            if chunk.start_line == chunk.end_line:  # one giant line comes in several pieces
                pieces.setdefault(chunk.start_line, []).extend(texts)
            else:
                lines.update(zip(range(chunk.start_line, chunk.end_line + 1), texts, strict=False))
    return {number: "".join(texts) for number, texts in pieces.items()} | lines


def headings(store: SqliteStore, path: str) -> list[OutlineEntry]:
    found = store.symbols(path)
    return [_entry(definition) for definition in found.definitions] if found else []


def _document(store: SqliteStore, name: str) -> str:
    paths = [path for path, row in store.manifest().items() if row.language]
    if name in paths:
        return name
    ends = [path for path in paths if path.endswith(f"/{name}")]
    if len(ends) == 1:
        return ends[0]
    near = ends or difflib.get_close_matches(name, paths, n=3, cutoff=0.4)
    hint = f"Did you mean {', '.join(near[:3])}?" if near else "`codeinfo docs list COLLECTION` shows them"
    raise NotFound(f"there is no document {name!r}", next_step=hint)


def _entry(definition: Definition) -> OutlineEntry:
    level = int(definition.signature.removeprefix("level ") or 1)
    return OutlineEntry(definition.name, level, definition.start_line, definition.end_line)


def _named(wanted: str, entries: list[OutlineEntry]) -> OutlineEntry:
    """By its whole title, else by a part of it, whichever comes first in the document."""
    key = wanted.strip().lstrip("#").strip().lower()
    for fits in (str.__eq__, str.startswith, str.__contains__):
        for entry in entries:
            if fits(entry.title.lower(), key):
                return entry
    near = difflib.get_close_matches(key, [entry.title.lower() for entry in entries], n=3, cutoff=0.3)
    hint = f"Did you mean {', '.join(near)}?" if near else "`codeinfo docs outline` shows its headings"
    raise NotFound(f"there is no section {wanted!r}", next_step=hint)


def _edges(store: SqliteStore) -> set[tuple[str, str]]:
    with code_facts(store) as facts:
        names = {file.file_id: file.path for file in facts.files()}
        written: dict[str, list[Import]] = {path: [] for path in names.values()}
        for file_id, link in facts.imports():
            if file_id in names:
                written[names[file_id]].append(link)
    return edges(written)


def _similar(keeper: CollectionUpkeep, store: SqliteStore, path: str) -> dict[str, float]:
    """Document → how alike it is, 0..1; by words where there are no vectors."""
    vectors = store.vectors_by_hash(store.manifest()[path].sha256)
    with store.snapshot() as view:
        joined = Joined([Part("", view)])
        if vectors is None or not len(vectors):
            text = " ".join(chunk.text for chunk in joined.chunks(joined.rows_of("", path)[:2]))
            words = " ".join(text.split()[:WORDS_FOR_RELATED])
            found = search(words, view, None, SearchOptions(limit=20, weights=DOCUMENTS))
            return {hit.path: hit.score for hit in found.hits if hit.path != path}
        mean = vectors.mean(0)
        cosines = joined.cosines((mean / max(float(np.linalg.norm(mean)), 1e-6)).astype(np.float32))
        if cosines is None:
            return {}
        totals = np.bincount(joined.row_file, cosines, len(joined.paths))
        counts = np.maximum(joined.file_rows, 1)
        return {other: float(totals[at] / counts[at]) for at, other in enumerate(joined.paths)}
