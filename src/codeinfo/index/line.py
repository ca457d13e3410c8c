"""THE index line: walk → diff → read → parse → embed → apply. Only what changed is done again.

A source walks (`engine/index_manager.py`), `compare` and `add_edited` find what changed, `update` does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.index.pool import Parsed, ParsePool, ParseTask
from codeinfo.languages import kind_of, language_of_text
from codeinfo.model import PASSAGE, Chunk, FileKind, IndexedFile, ParsedFile, Skip, SourceFile, passage_text
from codeinfo.operations.base import Progress
from codeinfo.ports import Embedder, Store
from codeinfo.sources.read import Loaded, decode, load, unwanted
from codeinfo.tokens import path_terms

BATCH_CHUNKS = 8192  # one transaction and one segment: large enough that most trees are a single segment
BATCH_SECONDS = 20.0  # a slow provider's work is committed at least this often
EMBED_CHUNKS = 512  # handed to the embedder at once: small files share its round trips, a failure costs little
_SETTLED_NS = 100_000_000  # a file younger than this may still change within the clock's tick: look again next time

ProgressSink = Callable[[Progress], None]


class Changes(Struct, frozen=True):
    """What differs between an index and its files."""

    added: tuple[SourceFile, ...]
    suspects: tuple[SourceFile, ...]  # size or time differ: the content decides
    removed: tuple[str, ...]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.suspects or self.removed)


class Outcome(Struct):
    """What an update did; filled as it goes, so that an interrupted one can still be reported."""

    added: int = 0
    changed: int = 0
    renamed: int = 0
    skipped: list[Skip] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare(known: AbstractSet[SourceFile], files: Sequence[SourceFile], *, alike: int = 0) -> Changes:
    """By size and time. `known` are the files as they were when they were indexed; `alike` counts further files that
    are known to be unchanged."""
    found = set(files)
    before = {file.path for file in known - found}
    doubtful = [file for file in files if file not in known]
    added = tuple(file for file in doubtful if file.path not in before)
    suspects = tuple(file for file in doubtful if file.path in before)
    removed = before.difference(file.path for file in suspects)
    return Changes(added, suspects, tuple(sorted(removed)), len(files) - len(doubtful) + alike)


def edited(root: Path, store: Store, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Those whose content is not what the index has, which may be although their size and time are."""
    known = store.hashes([file.path for file in files])
    read = ((file, load(root, file)) for file in files)
    return [file for file, found in read if isinstance(found, Skip) or found.sha256 != known[file.path]]


def add_edited(root: Path, store: Store, changes: Changes, files: Iterable[SourceFile]) -> Changes:
    """`changes` and those of `files` that differ by content alone."""
    differ = {*changes.added, *changes.suspects}
    found = edited(root, store, [file for file in files if file not in differ])
    return replace(changes, suspects=(*changes.suspects, *found), unchanged=changes.unchanged - len(found))


def update(
    root: Path,
    store: Store,
    changes: Changes,
    pool: ParsePool,
    embedder: Embedder | None,
    *,
    documents: bool = False,
    progress: ProgressSink | None = None,
) -> Outcome:
    """Bring the store up to date with `changes`. Batches are committed as they fill; what is committed stays.

    With `documents` every file is one: converted where its format asks for it, and cut into passages.
    """
    outcome, files = Outcome(), (*changes.suspects, *changes.added)
    known = store.hashes([*(file.path for file in changes.suspects), *changes.removed])
    reader = _Reader(root, known, outcome, documents)
    parsed = pool.run(reader.read(files))
    if files:
        store.warm_up()
        if embedder is not None:
            embedder.embed_documents(())  # a model that must be loaded is loaded while the first files are parsed
    indexed = reader.assemble(_report(parsed, len(files), outcome, progress))
    for batch in _batches(_embed_all(indexed, store, embedder)):
        store.apply(batch, (), ())
    store.apply(reader.left_out, (*changes.removed, *reader.lost), reader.touched)
    outcome.renamed = len(reader.new_content & {known[path] for path in changes.removed})
    return outcome


class _Candidate(Struct, frozen=True):
    """A file that was read and whose content is new to the index."""

    source: SourceFile
    sha256: str
    language: str
    kind: FileKind
    notes: tuple[str, ...]


class _Reader:
    """Reads candidates, drops those whose content did not change, and joins parses with what was read."""

    def __init__(self, root: Path, hashes: Mapping[str, str], outcome: Outcome, documents: bool) -> None:
        self._root = root
        self._documents = documents
        self._hashes = hashes  # of what is in the index already
        self._outcome = outcome
        self._waiting: dict[str, _Candidate] = {}
        self.touched: list[SourceFile] = []
        self.left_out: list[IndexedFile] = []  # read, and not for the index
        self.lost: list[str] = []  # indexed before, not readable as text now
        self.new_content: set[str] = set()

    def read(self, files: Iterable[SourceFile]) -> Iterator[ParseTask]:
        for source in files:
            loaded = load(self._root, source)
            if isinstance(loaded, Skip):
                self._leave_out(loaded)
                continue
            source = _settled(source)
            if self._hashes.get(source.path) == loaded.sha256:
                self.touched.append(source)
                continue
            if self._documents:
                yield self._document(source, loaded)
                continue
            text = decode(loaded.data)
            if text is None:
                self._remember(Skip(source.path, "binary", "not text, by its content"), source, loaded.sha256)
                continue
            if skip := unwanted(self._root, source.path, text.content):
                self._remember(skip, source, loaded.sha256)
                continue
            language = language_of_text(source.path, text.content)
            name = language.name if language else "text"
            kind = kind_of(source.path, language)
            self._waiting[source.path] = _Candidate(source, loaded.sha256, name, kind, text.notes)
            yield ParseTask(source.path, text.content, name, kind)

    def _document(self, source: SourceFile, loaded: Loaded) -> ParseTask:
        from codeinfo.sources.documents.formats import document_language

        name = document_language(source.path) or "text"
        self._waiting[source.path] = _Candidate(source, loaded.sha256, name, FileKind.DOCS, ())
        return ParseTask(source.path, loaded.data, name, FileKind.DOCS)

    def assemble(self, parsed: Iterable[Parsed]) -> Iterator[IndexedFile]:
        for item in parsed:
            candidate = self._waiting.pop(item.path)
            if item.refusal:
                skip = Skip(item.path, "refused", item.refusal, matters=True)
                self._remember(skip, candidate.source, candidate.sha256)
                continue
            self._count(candidate, item)
            yield IndexedFile(
                source=candidate.source,
                sha256=candidate.sha256,
                language=candidate.language,
                kind=candidate.kind,
                parsed=item.parsed,
                references=item.references,
                path_terms=path_terms(item.path),
                notes=candidate.notes,
            )

    def _count(self, candidate: _Candidate, item: Parsed) -> None:
        self.new_content.add(candidate.sha256)
        if item.path in self._hashes:
            self._outcome.changed += 1
        else:
            self._outcome.added += 1
        self._outcome.notes.extend(f"{item.path}: {note}" for note in (*candidate.notes, *item.parsed.notes))

    def _remember(self, skip: Skip, source: SourceFile, sha256: str) -> None:
        self._outcome.skipped.append(skip)
        nothing = ParsedFile(chunks=())
        notes = (skip.detail,)
        self.left_out.append(IndexedFile(source, sha256, "", FileKind.CODE, nothing, notes=notes, skip=skip.rule))

    def _leave_out(self, skip: Skip) -> None:
        self._outcome.skipped.append(skip)
        if skip.path in self._hashes:
            self.lost.append(skip.path)


def embedding_text(chunk: Chunk) -> str:
    """What a chunk is embedded as: where it stands, then what it says. A pure function of the file's content."""
    if chunk.kind == PASSAGE:
        return passage_text(chunk)
    return f"{chunk.breadcrumb}\n{chunk.text}" if chunk.breadcrumb else chunk.text


def _settled(source: SourceFile) -> SourceFile:
    return source._replace(mtime_ns=0) if time.time_ns() - source.mtime_ns < _SETTLED_NS else source


def _report(parsed: Iterable[Parsed], total: int, outcome: Outcome, progress: ProgressSink | None) -> Iterator[Parsed]:
    started = time.monotonic()
    for done, item in enumerate(parsed, 1):
        if progress is not None:
            rate = done / max(time.monotonic() - started, 1e-6)
            progress(Progress("index", done, total, len(outcome.skipped), rate))
        yield item


def _batches(files: Iterable[IndexedFile]) -> Iterator[list[IndexedFile]]:
    """Files to commit together. What was done when a provider fails or the user interrupts is handed on first."""
    batch, chunks, due = list[IndexedFile](), 0, time.monotonic() + BATCH_SECONDS
    try:
        for file in files:
            batch.append(file)
            chunks += len(file.parsed.chunks)
            if chunks >= BATCH_CHUNKS or time.monotonic() >= due:
                yield batch
                batch, chunks, due = [], 0, time.monotonic() + BATCH_SECONDS
    except (Exception, KeyboardInterrupt):
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _embed_all(files: Iterable[IndexedFile], store: Store, embedder: Embedder | None) -> Iterator[IndexedFile]:
    if embedder is None:
        yield from files
        return
    group, chunks = list[IndexedFile](), 0
    for file in files:
        group.append(file)
        chunks += len(file.parsed.chunks)
        if chunks >= EMBED_CHUNKS:
            yield from _embed(group, store, embedder)
            group, chunks = [], 0
    yield from _embed(group, store, embedder)


def _embed(files: Sequence[IndexedFile], store: Store, embedder: Embedder) -> list[IndexedFile]:
    """Vectors for a group in one go; content that the store knows already, as after a rename, is not embedded again."""
    reused = {file.sha256: store.vectors_by_hash(file.sha256) for file in files}
    fresh = [file for file in files if not _fits(reused[file.sha256], file)]
    texts = [embedding_text(chunk) for file in fresh for chunk in file.parsed.chunks]
    vectors = embedder.embed_documents(texts) if texts else None
    done, at = dict[str, IndexedFile](), 0
    for file in fresh:
        count = len(file.parsed.chunks)
        if vectors is not None and count:
            done[file.source.path] = replace(file, vectors=vectors[at : at + count])
        at += count
    return [done.get(file.source.path) or replace(file, vectors=reused[file.sha256]) for file in files]


def _fits(vectors: object, file: IndexedFile) -> bool:
    return vectors is not None and len(vectors) == len(file.parsed.chunks)  # type: ignore[arg-type]
