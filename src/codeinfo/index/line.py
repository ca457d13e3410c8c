"""The index pipeline: walk → diff → read → parse → embed → apply. Only what changed is processed.

A source walks (`engine/index_sources.py`), `compare` and `add_edited` find what changed, `update` does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.cache import batches
from codeinfo.languages import kind_of, language_of_text
from codeinfo.model import PASSAGE, Chunk, FileKind, IndexedFile, ParsedFile, Skip, SourceFile, passage_text
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.ports import Embedder, IndexTarget, StoredFile
from codeinfo.sources.read import CONTENT_RULES, Files, Loaded, decode, skip_by_content
from codeinfo.tokens import path_terms

if TYPE_CHECKING:
    from codeinfo.index.pool import Parsed, ParsePool, ParseTask

BATCH_CHUNKS = 8192  # one transaction and one segment: most trees fit into a single segment
BATCH_SECONDS = 20.0  # a slow provider's work is committed at least this often
EMBED_CHUNKS = 512  # per call of the embedder: small files share its round trips, a failure costs little
_NOT_PARSED = ParsedFile(chunks=())
_SETTLED_NS = 100_000_000  # a younger file may change again within the clock's resolution: check it next time
_AHEAD_NS = 86_400_000_000_000  # one dated further ahead got its date by hand, or the clock jumped back


class Changes(Struct, frozen=True):
    added: tuple[SourceFile, ...]
    suspects: tuple[SourceFile, ...]  # size or time differ: the content decides
    removed: tuple[str, ...]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.suspects or self.removed)


class Outcome(Struct):
    """What an update did; filled in as it goes, so that an interrupted one can still be reported."""

    added: int = 0
    changed: int = 0
    renamed: int = 0
    skipped: list[Skip] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare(indexed: frozenset[SourceFile], files: Sequence[SourceFile], *, alike: int = 0) -> Changes:
    """By size and time with the files as they were indexed; `alike` counts further files known to be unchanged."""
    if len(files) == len(indexed) and indexed.issuperset(files):  # the usual case
        return Changes((), (), (), len(files) + alike)
    before = {file.path for file in indexed.difference(files)}
    doubtful = [file for file in files if file not in indexed]
    added = tuple(file for file in doubtful if file.path not in before)
    suspects = tuple(file for file in doubtful if file.path in before)
    removed = before.difference(file.path for file in suspects)
    return Changes(added, suspects, tuple(sorted(removed)), len(files) - len(doubtful) + alike)


def find_edited(source: Files, store: IndexTarget, files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files whose content differs from the index, even if size and time are equal."""
    hashes = store.hashes([file.path for file in files])
    read = source.load(files)
    return [file for file, loaded in read if isinstance(loaded, Skip) or loaded.sha256 != hashes[file.path]]


def add_edited(source: Files, store: IndexTarget, changes: Changes, files: Iterable[SourceFile]) -> Changes:
    """`changes` plus those of `files` that differ by content alone."""
    differ = {*changes.added, *changes.suspects}
    edited = find_edited(source, store, [file for file in files if file not in differ])
    return replace(changes, suspects=(*changes.suspects, *edited), unchanged=changes.unchanged - len(edited))


def update(
    source: Files,
    store: IndexTarget,
    changes: Changes,
    pool: ParsePool,
    embedder: Embedder | None,
    *,
    contents: Mapping[str, str] | None = None,
    documents: bool = False,
    progress: ProgressSink = None,
) -> Outcome:
    """Bring the store up to date with `changes`. Batches are committed as they fill; what is committed stays. A file
    that the store already has, for another tree or from an earlier checkout, is not parsed again, and not even read if
    `contents` knows its hash.

    With `documents` every file is a document: converted if its format requires it, and split into passages.
    """
    outcome, files = Outcome(), (*changes.suspects, *changes.added)
    hashes = store.hashes([*(file.path for file in changes.suspects), *changes.removed])
    stored = store.find_stored([file.path for file in files])
    edited = {*hashes, *(path for path, _ in stored)}
    reader = _Reader(source, hashes, stored, outcome, documents)
    files = tuple(reader.take_stored(files, contents or {}))
    parsed = pool.run(reader.read(files))
    if files:
        store.warm_up()
        if embedder is not None:
            embedder.embed_documents(())  # loads the model while the first files are parsed
    indexed = reader.assemble(_report(parsed, reader, len(files), progress))
    for batch in _batches(_embed_all(indexed, store, embedder, edited)):
        store.apply(batch, (), ())
    store.apply(reader.left_out, (*changes.removed, *reader.lost), reader.touched, reader.reused)
    outcome.renamed = len(reader.new_content & {hashes[path] for path in changes.removed})
    return outcome


class _Reader(Struct):
    """Reads candidates, drops those whose content is already stored, and joins parses with what was read."""

    source: Files
    hashes: Mapping[str, str]  # of the tree's current content
    stored: Mapping[tuple[str, str], Sequence[StoredFile]]
    outcome: Outcome
    documents: bool
    waiting: dict[str, IndexedFile] = {}  # for their parse
    touched: list[SourceFile] = []
    reused: list[tuple[SourceFile, int]] = []
    left_out: list[IndexedFile] = []  # read, but not indexed
    lost: list[str] = []  # indexed before, now unreadable as text
    new_content: set[str] = set()

    def take_stored(self, files: Iterable[SourceFile], contents: Mapping[str, str]) -> Iterator[SourceFile]:
        """Reuse files whose content is known and stored; the rest must be read."""
        for source in files:
            sha256 = contents.get(source.path, "")
            if sha256 and (stored := self._stored_as(source.path, sha256)) is not None:
                self._reuse(_mark_unsettled(source), sha256, stored)
            else:
                yield source

    def read(self, files: Iterable[SourceFile]) -> Iterator[ParseTask]:
        from codeinfo.index.pool import ParseTask  # imported late: finding that nothing changed takes no parser

        for source, loaded in self.source.load(files):
            if isinstance(loaded, Skip):
                self.outcome.skipped.append(loaded)
                if loaded.path in self.hashes:
                    self.lost.append(loaded.path)
                continue
            source = _mark_unsettled(source)
            if self.hashes.get(source.path) == loaded.sha256:
                self.touched.append(source)
            elif (stored := self._stored_as(source.path, loaded.sha256)) is not None:
                self._reuse(source, loaded.sha256, stored)
            elif (content := self._examine(source, loaded)) is not None:
                yield ParseTask(source.path, content, self.waiting[source.path].language)

    def _examine(self, source: SourceFile, loaded: Loaded) -> str | bytes | None:
        """What to parse of a file that is now waiting for it; None if its content excludes it."""
        if self.documents:
            from codeinfo.sources.documents import document_language

            name = document_language(source.path) or "text"
            self.waiting[source.path] = IndexedFile(source, loaded.sha256, name, FileKind.DOCS, _NOT_PARSED)
            return loaded.data
        text = decode(loaded.data)
        if text is None:
            self._remember(Skip(source.path, "binary", "not text, by its content"), source, loaded.sha256)
            return None
        skip = skip_by_content(source.path, text.content)
        brought_back = skip is not None and self.source.brings_back(source.path)
        if skip and not brought_back:
            self._remember(skip, source, loaded.sha256)
            return None
        language = language_of_text(source.path, text.content)
        name, kind = language.name if language else "text", kind_of(source.path, language)
        self.waiting[source.path] = IndexedFile(
            source, loaded.sha256, name, kind, _NOT_PARSED, notes=text.notes, brought_back=brought_back
        )
        return text.content

    def _stored_as(self, path: str, sha256: str) -> StoredFile | None:
        """The stored file that parsing this one again would produce."""
        for stored in self.stored.get((path, sha256), ()):
            depends = stored.brought_back or stored.skip in CONTENT_RULES  # on the ignore files of its tree
            if not depends or stored.brought_back == self.source.brings_back(path):
                return stored
        return None

    def _reuse(self, source: SourceFile, sha256: str, stored: StoredFile) -> None:
        self.reused.append((source, stored.file_id))
        if not stored.skip:
            self._count(source.path, sha256)

    def assemble(self, parsed: Iterable[Parsed]) -> Iterator[IndexedFile]:
        for item in parsed:
            candidate = self.waiting.pop(item.path)
            if item.refusal:
                skip = Skip(item.path, "refused", item.refusal, matters=True)
                self._remember(skip, candidate.source, candidate.sha256)
                continue
            self._count(item.path, candidate.sha256)
            self.outcome.notes.extend(f"{item.path}: {note}" for note in (*candidate.notes, *item.parsed.notes))
            terms = path_terms(item.path)
            yield replace(candidate, parsed=item.parsed, references=item.references, path_terms=terms)

    def _count(self, path: str, sha256: str) -> None:
        self.new_content.add(sha256)
        if path in self.hashes:
            self.outcome.changed += 1
        else:
            self.outcome.added += 1

    @property
    def settled(self) -> int:
        """Files that need no parse."""
        return len(self.touched) + len(self.reused)

    def _remember(self, skip: Skip, source: SourceFile, sha256: str) -> None:
        self.outcome.skipped.append(skip)
        notes = (skip.detail,)
        self.left_out.append(IndexedFile(source, sha256, "", FileKind.CODE, _NOT_PARSED, notes=notes, skip=skip.rule))


def embedding_text(chunk: Chunk) -> str:
    """The text a chunk is embedded as: its location, then its content. A pure function of the file's content."""
    if chunk.kind == PASSAGE:
        return passage_text(chunk)
    return f"{chunk.breadcrumb}\n{chunk.text}" if chunk.breadcrumb else chunk.text


def _mark_unsettled(source: SourceFile) -> SourceFile:
    age = time.time_ns() - source.mtime_ns
    return source._replace(mtime_ns=0) if -_AHEAD_NS < age < _SETTLED_NS else source


def _report(parsed: Iterable[Parsed], reader: _Reader, total: int, progress: ProgressSink) -> Iterator[Parsed]:
    started = time.monotonic()
    for at, item in enumerate(parsed, 1):
        if progress is not None:
            count = at + reader.settled
            seconds = time.monotonic() - started
            rate = count / seconds if seconds >= 1 else 0.0  # the first files say little
            progress(Progress("index", count, total, len(reader.outcome.skipped), rate))
        yield item


def _batches(files: Iterator[IndexedFile]) -> Iterator[Iterator[IndexedFile]]:
    """Files to commit together. Each is stored while the next ones are parsed, and need not stay in memory. When a
    provider fails or the user interrupts, the batch ends there: what is finished is committed first."""
    failures = list[BaseException]()
    for first in files:
        yield _take_batch(chain((first,), files), failures)
        if failures:
            raise failures[0]


def _take_batch(files: Iterator[IndexedFile], failures: list[BaseException]) -> Iterator[IndexedFile]:
    chunks, due = 0, time.monotonic() + BATCH_SECONDS
    try:
        for file in files:
            yield file
            chunks += len(file.parsed.chunks)
            if chunks >= BATCH_CHUNKS or time.monotonic() >= due:
                return
    except (Exception, KeyboardInterrupt) as failure:
        failures.append(failure)


def _embed_all(
    files: Iterable[IndexedFile], store: IndexTarget, embedder: Embedder | None, edited: Collection[str]
) -> Iterator[IndexedFile]:
    if embedder is None:
        yield from files
        return
    for group in batches(files, lambda file: len(file.parsed.chunks), EMBED_CHUNKS):
        yield from _embed(group, store, embedder, edited)


def _embed(
    files: Sequence[IndexedFile], store: IndexTarget, embedder: Embedder, edited: Collection[str]
) -> list[IndexedFile]:
    """Vectors for a group in one call. Content already in the store, as after a rename, is not embedded again, nor
    are chunks that an edit left unchanged: the store has other versions of the paths `edited`."""
    reused = {file.sha256: store.vectors_by_hash(file.sha256) for file in files}
    fresh = [file for file in files if (had := reused[file.sha256]) is None or len(had) != len(file.parsed.chunks)]
    earlier = [store.earlier_version(file.source.path) for file in fresh if file.source.path in edited]
    vector_of: dict[str, Any] = {}
    for chunks, vectors_before in filter(None, earlier):
        vector_of |= zip(map(embedding_text, chunks), vectors_before, strict=True)
    texts = [embedding_text(chunk) for file in fresh for chunk in file.parsed.chunks]
    new = [text for text in texts if text not in vector_of]
    vectors = embedder.embed_documents(new) if new else None
    if len(new) < len(texts):
        import numpy as np  # already loaded by whatever made the vectors

        if vectors is not None:
            vector_of |= zip(new, vectors, strict=True)
        vectors = np.array([vector_of[text] for text in texts])
    embedded, at = dict[str, IndexedFile](), 0
    for file in fresh:
        count = len(file.parsed.chunks)
        if vectors is not None and count:
            embedded[file.source.path] = replace(file, vectors=vectors[at : at + count])
        at += count
    return [embedded.get(file.source.path) or replace(file, vectors=reused[file.sha256]) for file in files]
