"""Exact search in folders: every text file is searched; trigram signatures select the files that can match.

Texts are read from the work tree, or from the requested commit. What the index knows about a file (its content hash,
that it holds no secret, its definitions) is used if the file still has that content; any other file is searched in
full, with its secrets masked.
"""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.cache import Cache
from codeinfo.engine.index_manager import IndexManager, is_complete, retry_on_damage, unread_note
from codeinfo.engine.indexes import Indexes
from codeinfo.engine.search import Scope, allowed_files
from codeinfo.errors import UsageError
from codeinfo.languages import kind_of, language_of
from codeinfo.model import INDEXING, UNREADABLE, NextStep, Walk, to_run
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.operations.search import BEFORE_MATCH, GrepRequest, GrepResult, Match
from codeinfo.ports import CodeFacts, Extent
from codeinfo.search import literal
from codeinfo.sources.masking import blank_secrets, has_masked_secrets
from codeinfo.sources.read import FileReader, Files, searchable
from codeinfo.sources.walk import LACKING
from codeinfo.store.sqlite import SqliteStore, code_facts, map_beside, version_beside, write_beside

SIGNATURES_FILE = "trigrams"  # beside the index; built by the first exact search
MAX_BYTES = 16_000_000  # larger files are data
MAX_LINE_CHARS = 500  # of a line, shown
FEW = 32  # up to this many files without a signature are searched each time rather than signed
MOST_CORPORA = 16  # trees whose files stay listed; each revision and each rebuilt index counts as one
MOST_CLEAN = 50_000  # contents without secrets that are remembered, some 100 bytes each
REPORT_EVERY = 256  # files
MASKED = "[masked]"
_BLANK = re.compile("\0+")

# Rules that exclude files from ranking because they are long or generated: exact search covers them.
SEARCHED_RULES = frozenset(
    ("generated", "generated-documentation", "minified", "lock-file", "too-large", "unknown-type", "refused")
)
LEFT_OUT = {
    "binary": "binary files",
    "secret": "files that hold secrets",
    "vendor-folder": "folders of installed packages",
    "build-folder": "build folders",
    "cache-folder": "cache folders",
    "codeinfoignore": "files that .codeinfoignore names",
    UNREADABLE: "files that cannot be read",
    "odd-name": "files whose names are not UTF-8",
    "too-deep": "files too deep in folders",
    "nested-repository": "repositories within this one",
    "nested-worktree": "work trees within this one",
    "submodule": "submodules",
    LACKING: "files whose content this clone lacks",
    "not-stored": "files that the index left out, whose content the team store does not have",
}


class File(NamedTuple):
    path: str
    key: str  # of its signature: the content hash, or where and when it was found; "" while the file is changing
    language: str
    kind: str
    sha256: str = ""  # of the content known to the index
    file_id: int = 0  # in the index; 0 if it is not there
    clean: bool = False  # that content holds no secret


class Corpus:
    """The text files of a root, by path."""

    def __init__(self, files: Sequence[File], notes: list[str]) -> None:
        self.files = files
        self.paths: Sequence[str] = [file.path for file in files]
        self.languages: Sequence[str] = [file.language for file in files]
        self.kinds: Sequence[str] = [file.kind for file in files]
        self.notes = notes
        self.signatures = literal.signatures_of(())

    def sign(self, signatures: literal.Signatures) -> None:
        self.signatures = signatures
        owners, places, unsigned = list[int](), list[int](), list[int]()
        for at, file in enumerate(self.files):
            signed = signatures.files.get(file.key)
            if signed is None:
                unsigned.append(at)
            else:
                first = signatures.first[file.key]
                owners += [at] * len(signed.pages)
                places += range(first, first + len(signed.pages))
        self._owners, self._places = np.array(owners, np.intp), np.array(places, np.intp)
        self._unsigned = np.array(unsigned, np.intp)

    def candidates(
        self, needs: literal.Needs, allowed: NDArray[np.bool_] | None
    ) -> list[tuple[File, list[literal.Page] | None]]:
        """The files that may match, each with the pages that may; None means all pages."""
        chosen = self.signatures.choose(needs)
        if chosen is None:
            return [(file, None) for at, file in enumerate(self.files) if allowed is None or allowed[at]]
        hits = chosen[self._places]
        if allowed is not None:
            hits &= allowed[self._owners]
        pages: dict[int, list[literal.Page] | None] = {
            at: None for at in self._unsigned.tolist() if allowed is None or allowed[at]
        }
        for at, place in zip(self._owners[hits].tolist(), self._places[hits].tolist(), strict=True):
            key = self.files[at].key
            page = self.signatures.files[key].pages[place - self.signatures.first[key]]
            pages.setdefault(at, []).append(page)  # type: ignore[union-attr]  # an unsigned file has no pages
        return [(self.files[at], pages[at]) for at in sorted(pages)]


class MatchList:
    """The matches so far, in all roots."""

    def __init__(self, request: GrepRequest) -> None:
        self.matches: list[Match] = []
        self.total = self.files = 0
        self._limit = request.limit
        self._kinds = frozenset(request.symbol_kinds)

    def add(self, root: str, file: File, data: bytes, lines: list[literal.Line], facts: CodeFacts) -> None:
        room = self._limit - len(self.matches)
        symbols: dict[int, Extent] = {}
        numbers = [line.number for line in (lines if self._kinds else lines[:room])]
        if numbers and file.file_id:
            symbols = find_enclosing(facts.extents(file.file_id, numbers[0] + 1, numbers[-1] + 1), numbers)
        if self._kinds:
            lines = [line for line in lines if line.number in symbols and symbols[line.number].kind in self._kinds]
        self.total += len(lines)
        self.files += bool(lines)
        for line in lines[:room]:
            symbol = symbols[line.number].qualified if line.number in symbols else ""
            self.matches.append(Match(file.path, line.number + 1, *shown_line(data, line), symbol, root))


class GrepOperations:
    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self._lock = threading.Lock()  # guards the corpora: one is built at a time
        self._clean: set[bytes] = set()
        # By tree, with the state it is of.
        self._corpora: Cache[Path, tuple[tuple[str, Walk, object], Corpus]] = Cache(MOST_CORPORA, lambda _: 1)

    def grep(self, request: GrepRequest, progress: ProgressSink = None) -> GrepResult:
        started = time.perf_counter()
        pattern = literal.Pattern(
            request.pattern, regex=request.regex, word=request.word, ignore_case=request.ignore_case
        )
        if request.at and request.changed_since:
            step = "Leave out one of the two"
            raise UsageError("changed files are those of the work tree, so this does not work with a revision", step)
        places, place_notes = self._indexes.places(request.paths, request.at, everywhere=request.all_projects)
        scope = Scope.of(places)
        match_list, notes = retry_on_damage(lambda again: self._search(request, pattern, scope, again, progress))
        notes += place_notes
        if match_list.total > len(match_list.matches):
            shown = f"only {len(match_list.matches):,} of {match_list.total:,} lines shown"
            notes.insert(0, f"{shown}: raise the limit, or add filters")
        return GrepResult(
            request.pattern,
            tuple(match_list.matches),
            match_list.total,
            match_list.files,
            tuple(dict.fromkeys(notes)),
            round(1000 * (time.perf_counter() - started), 2),
        )

    def _search(
        self, request: GrepRequest, pattern: literal.Pattern, scope: Scope, again: bool, progress: ProgressSink
    ) -> tuple[MatchList, list[str]]:
        match_list = MatchList(request)
        opened, notes = self._indexes.open_all(
            scope.indexes, everywhere=request.all_projects, refresh=again or request.refresh, progress=progress
        )
        for one in opened:
            index, store = one.index, one.store
            is_indexing = any(getattr(note, "code", "") == INDEXING for note in one.notes)
            corpus = self._corpus(index, store, is_indexing, progress)
            notes += (*index.config.notes, *corpus.notes)
            allowed = allowed_files(request, corpus, index, scope.folders[index])
            try:
                candidates = corpus.candidates(pattern.needs, allowed)
            except ValueError:  # damaged signatures: search without them; the next search rebuilds them
                write_beside(store, SIGNATURES_FILE, b"")
                corpus.sign(literal.signatures_of(()))
                candidates = corpus.candidates(pattern.needs, allowed)
            read = index.source.contents.open(file.path for file, _ in candidates)
            with read as reader, code_facts(store) as facts:
                scan = Scan(reader, corpus.signatures, pattern, self._clean)
                for done, (file, pages) in enumerate(candidates):
                    if progress is not None and done % REPORT_EVERY == 0:
                        progress(Progress("search", done, len(candidates)))
                    data, lines = scan.lines(file, pages, shown=len(match_list.matches) < request.limit)
                    if lines:
                        match_list.add(str(index.root), file, data, lines, facts)
                if scan.unread:
                    notes.append(unread_note(scan.unread))
        return match_list, notes

    def _corpus(self, index: IndexManager, store: SqliteStore, is_indexing: bool, progress: ProgressSink) -> Corpus:
        """The current files: from the last refresh, or from a walk if that refresh was incomplete."""
        last_refresh = None if is_indexing or index.source.fixed else index.baseline
        walked = last_refresh.walk if last_refresh else None
        with self._lock:
            walked = walked or index.source.walk(store)[1]
            state = store.meta()["generation"], walked, version_beside(store, SIGNATURES_FILE)
            if (entry := self._corpora.get(store.derived)) is not None:
                (generation, walk, version), corpus = entry
                if generation == state[0] and walk is walked and version == state[2]:
                    return corpus
            corpus = list_files(index.source.contents, store, walked)
            corpus.sign(self._signatures(index.source.contents, store, corpus, progress))
            state = state[0], walked, version_beside(store, SIGNATURES_FILE)
            return self._corpora.add(store.derived, (state, corpus))[1]

    def _signatures(
        self, source: Files, store: SqliteStore, corpus: Corpus, progress: ProgressSink
    ) -> literal.Signatures:
        """The stored signatures, extended if much has changed since."""
        signatures = load_signatures(store)
        missing = [file for file in corpus.files if file.key and file.key not in signatures.files]
        if len(missing) <= max(FEW, len(corpus.files) // 50) or not is_complete(store):
            return signatures
        if not signatures.is_sound():  # verify before extending, or damage would get a new checksum
            signatures, missing = literal.signatures_of(()), [file for file in corpus.files if file.key]
        added = literal.signatures_of(contents(source, missing, progress))
        merged = signatures.merge(added, {file.key for file in corpus.files} - added.files.keys())
        write_beside(store, SIGNATURES_FILE, merged.encode())
        return merged


def load_signatures(store: SqliteStore) -> literal.Signatures:
    data = map_beside(store, SIGNATURES_FILE)
    try:
        return literal.decode_signatures(data) if data is not None else literal.signatures_of(())
    except ValueError:  # damaged or from another version: rebuild
        return literal.signatures_of(())


def contents(source: Files, files: Sequence[File], progress: ProgressSink) -> Iterator[tuple[str, bytes, bool]]:
    """The text of each file under the key of its current content, and whether that is the raw bytes."""
    with source.open(file.path for file in files) as reader:
        for done, file in enumerate(files):
            if progress is not None and done % REPORT_EVERY == 0:
                progress(Progress("sign", done, len(files)))
            try:
                raw = reader.read(file.path, MAX_BYTES)
            except OSError:
                continue
            if not file.sha256 or sha256(raw).hexdigest() == file.sha256:
                data = searchable(raw)
                yield file.key, data or b"", data is None or data is raw


def list_files(contents: Files, store: SqliteStore, walked: Walk) -> Corpus:
    manifest = store.manifest()
    with code_facts(store) as facts:
        indexed = {file.file_id: file for file in facts.files()}
    left_out = {skip.path: skip.rule for skip in store.counts().skipped}
    files: list[File] = []
    unindexed = 0
    rules = Counter[str]()
    for source in walked.files:
        row = manifest.get(source.path)
        rule = left_out.get(source.path, "")
        if row is None or row.size != source.size or row.mtime_ns not in (source.mtime_ns, 0):
            unindexed += 1
            files.append(_unindexed_file(source.path, ""))
        elif rule and not contents.exact:
            rules["not-stored"] += 1
        elif rule and rule not in SEARCHED_RULES:
            rules[rule] += 1
        elif rule:
            files.append(_unindexed_file(source.path, row.sha256, row.sha256))
        else:
            clean = row.file_id in indexed and not has_masked_secrets(indexed[row.file_id].notes)
            key = row.sha256 if row.mtime_ns or not contents.exact else ""  # 0: the file on disk may have changed
            sha256 = row.sha256 if contents.exact else ""
            files.append(File(row.path, key, row.language, row.kind, sha256, row.file_id, clean))
    for skip in walked.skipped:
        source_file = contents.find(skip.path) if skip.rule in SEARCHED_RULES else None
        if source_file is not None and source_file.size <= MAX_BYTES:
            files.append(_unindexed_file(skip.path, f"{skip.path}:{source_file.size}:{source_file.mtime_ns}"))
        else:
            rules["too-large" if skip.rule in SEARCHED_RULES else skip.rule] += 1
    files.sort(key=attrgetter("path"))
    notes = []
    if unindexed:
        notes.append(f"files that are not indexed as they are now ({unindexed:,}) were searched without symbols")
    kinds = {**LEFT_OUT, "too-large": f"files over {MAX_BYTES // 1_000_000} MB"}
    if listed := ", ".join(f"{kind} ({rules[rule]:,})" for rule, kind in kinds.items() if rules[rule]):
        notes.append(NextStep(f"not searched: {listed}; ", to_run("why", "PATH"), " says why"))
    return Corpus(files, notes)


def _unindexed_file(path: str, key: str, sha256: str = "") -> File:
    language = language_of(path)
    return File(path, key, language.name if language else "text", kind_of(path, language), sha256)


class Scan(Struct):
    """Reads the files of one root and searches them for one pattern."""

    reader: FileReader
    signatures: literal.Signatures
    pattern: literal.Pattern
    clean: set[bytes]  # hashes of contents known to be free of secrets; new ones are added
    unread: int = 0  # files that are there and could not be read

    def lines(self, file: File, pages: list[literal.Page] | None, *, shown: bool) -> tuple[bytes, list[literal.Line]]:
        """The matching lines of a file and the text they are from, with secrets blanked. Whether the file is still what
        the index knows is checked only where lines are `shown`."""
        try:
            raw = self.reader.read(file.path, MAX_BYTES)
        except FileNotFoundError:
            return b"", []  # gone since it was listed
        except OSError:
            self.unread += 1
            return b"", []
        signed = self.signatures.files.get(file.key)
        data = raw if signed and signed.plain else searchable(raw)
        if data is None:
            return b"", []
        fits = signed is not None and signed.pages and len(data) == signed.pages[-1].end
        lines = _find_lines(self.pattern, data, pages if fits else None)
        if not lines or (file.clean and not shown):
            return data, lines
        digest = sha256(raw)
        if digest.digest() in self.clean or (file.clean and digest.hexdigest() == file.sha256):
            return data, lines
        return self._without_secrets(raw, digest.digest())

    def _without_secrets(self, raw: bytes, digest: bytes) -> tuple[bytes, list[literal.Line]]:
        data = searchable(raw)
        if data is None:
            return b"", []
        hidden = blank_secrets(data)
        if hidden is data and len(self.clean) < MOST_CLEAN:
            self.clean.add(digest)
        return hidden, list(literal.matching_lines(self.pattern, hidden))


def _find_lines(pattern: literal.Pattern, data: bytes, pages: list[literal.Page] | None) -> list[literal.Line]:
    if pages is None or (len(pages) == 1 and pages[0].end - pages[0].start == len(data)):
        return list(literal.matching_lines(pattern, data))
    return [
        literal.Line(line.number + page.line, *(place + page.start for place in line[1:]))
        for page in pages
        for line in literal.matching_lines(pattern, data[page.start : page.end])
    ]


def find_enclosing(extents: Sequence[Extent], lines: Sequence[int]) -> dict[int, Extent]:
    """The innermost definition around each of these lines (sorted, counted from 0)."""
    innermost: dict[int, Extent] = {}
    for extent in sorted(extents, key=lambda extent: (extent.start_line, -extent.end_line)):  # outer ones first
        first = bisect_left(lines, extent.start_line - 1)
        for line in lines[first : bisect_right(lines, extent.end_line - 1)]:
            innermost[line] = extent
    return innermost


def shown_line(data: bytes, line: literal.Line) -> tuple[int, int, str]:
    """The column and length of the match, and the line, truncated around it if long."""
    end = data.find(b"\n", line.match_start)
    text = data[line.start : end if end >= 0 else len(data)].decode("utf-8", "replace")
    column = len(data[line.start : line.match_start].decode("utf-8", "replace"))
    length = len(data[line.match_start : line.match_end].decode("utf-8", "replace"))
    if len(text) > MAX_LINE_CHARS:
        first = max(0, column - BEFORE_MATCH)
        last = first + MAX_LINE_CHARS
        text = "…" * (first > 0) + text[first:last] + "…" * (last < len(text))
    return column + 1, length, _BLANK.sub(MASKED, text)
