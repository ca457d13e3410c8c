"""What answers are looked up in: the folders or collections of one question, searched and read, nothing else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.answers.agents import ToolFunctions
from codeinfo.answers.evidence import Item, content_words, spellings
from codeinfo.engine.collections import CollectionIndex
from codeinfo.engine.document_search import document_lines, headings, no_collection, opening, place_of
from codeinfo.engine.documents import DocumentOperations
from codeinfo.engine.index_manager import IndexManager, ProgressSink
from codeinfo.engine.indexes import Indexes
from codeinfo.engine.search import Scope
from codeinfo.errors import NotFound, UsageError
from codeinfo.jsonable import dumps
from codeinfo.model import (
    CRUMB,
    Distance,
    FileKind,
    Hit,
    Intent,
    NextStep,
    Quality,
    SearchResult,
    Skip,
    SourceFile,
    to_run,
)
from codeinfo.operations.answers import Citation
from codeinfo.operations.code import ReferenceReport, RefsRequest
from codeinfo.operations.documents import DocsAskRequest, DocsSearchRequest, DocumentHit
from codeinfo.operations.search import SearchRequest
from codeinfo.search.query import read_query
from codeinfo.sources.read import read_text
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import stem, terms

USES = 30  # of a name that are listed
READ_LINES = 200  # at once: a model that wants more reads on


class LookupOperations(Struct, frozen=True):
    """What looking something up needs of the engine."""

    indexes: Indexes
    search: Callable[[SearchRequest, ProgressSink | None], SearchResult]
    references: Callable[[RefsRequest], ReferenceReport]
    documents: Callable[[], DocumentOperations]


class Lookup(ABC):
    """Searches and reads for one answer. Files are brought up to date once, by the first search."""

    def __init__(self, operations: LookupOperations, limit: int, progress: ProgressSink | None) -> None:
        self._operations = operations
        self._limit = limit
        self._progress = progress
        self._fresh = False
        self.notes: tuple[str, ...] = ()

    @abstractmethod
    def functions(self) -> ToolFunctions:
        """The tools that a model may use."""

    @abstractmethod
    def cited(self, citation: Citation) -> Citation:
        """A citation with what is known of its place."""

    @abstractmethod
    def _search(self, query: str) -> SearchResult: ...

    @abstractmethod
    def _searched(self) -> Iterator[IndexManager]: ...

    def search(self, query: str) -> SearchResult:
        if not query.strip():
            raise UsageError("the query is empty", next_step="Say what to look for")
        found = self._search(query)
        self._fresh = True
        self.notes = tuple(dict.fromkeys((*self.notes, *found.notes)))
        return found

    def word_weights(self, question: str) -> dict[str, float]:
        """The question's content words by their rarity in the tree; the project's own name says nothing.

        The square root keeps a verb that no code happens to use from outweighing everything that was found.
        """
        words = {word: spellings(word) for word in content_words(read_query(question).words)}
        rows, having, names = 0, dict.fromkeys(words, 0), set[str]()
        for index in self._searched():
            names.update(self._own_names(index))
            with self._store(index).snapshot() as view:
                rows += len(view.row_file)
                postings = view.postings(sorted(set().union(*words.values())))
                for word, forms in words.items():
                    uses = (postings[form] for form in forms & postings.keys())
                    having[word] += len(set().union(*(one.rows[one.tenths > 0].tolist() for one in uses)))
        return {
            word: math.sqrt(math.log1p((rows - count + 0.5) / (count + 0.5)))
            for word, count in having.items()
            if stem(word) not in names
        }

    def _own_names(self, index: IndexManager) -> Iterable[str]:
        return terms(index.root.name)

    def _store(self, index: IndexManager) -> SqliteStore:
        store = index.live_store()
        if store is None:
            raise NotFound(f"{index.root} is not indexed yet", next_step=NextStep("Run ", to_run("index")))
        return store


class CodeLookup(Lookup):
    """Folders, as `ask` and agents look things up."""

    def __init__(
        self,
        operations: LookupOperations,
        paths: Sequence[str],
        limit: int,
        progress: ProgressSink | None = None,
        left_out: Sequence[Path] = (),
    ) -> None:
        super().__init__(operations, limit, progress)
        self._paths = tuple(dict.fromkeys(paths))
        self._scope = Scope.of(map(operations.indexes.find, paths or ("",)))
        self._left_out = tuple(path.resolve() for path in left_out)  # files that must not answer

    def functions(self) -> ToolFunctions:
        return ToolFunctions(self.search, self.read_file, self.outline, self.references, self.decision_card)

    def cited(self, citation: Citation) -> Citation:
        return citation

    def _search(self, query: str) -> SearchResult:
        request = SearchRequest(
            query, self._paths, limit=self._limit, globs=self._globs(), full_text=True, refresh=not self._fresh
        )
        return self._operations.search(request, self._progress)

    def read_file(self, path: str, start_line: int, end_line: int) -> Item:
        """Lines of a file that is in the index, secrets masked. Whatever is not indexed cannot be read."""
        if end_line < start_line:
            raise UsageError("end_line lies before start_line")
        index, row, text = self.read_whole(path)
        lines = text.split("\n")
        if start_line > len(lines):
            raise UsageError(f"{row} has {len(lines)} lines")
        last = min(end_line, start_line + READ_LINES - 1, len(lines))
        chosen = "\n".join(lines[start_line - 1 : last])[: index.config.retrieval.chunk_max_chars]
        return Item(0, str(index.root), row, start_line, start_line + chosen.count("\n"), chosen)

    def read_whole(self, path: str) -> tuple[IndexManager, str, str]:
        """The index of a file, its path there and its text, secrets masked."""
        index, row = self._find(path)
        text = read_text(index.source.contents, SourceFile(row, 0, 0))
        if isinstance(text, Skip):
            raise NotFound(f"{row} cannot be read: {text.detail or text.rule}")
        return index, row, text.content

    def outline(self, path: str) -> str:
        index, row = self._find(path)
        found = self._store(index).symbols(row)
        if found is None or not found.definitions:
            return f"{row} has no definitions."
        lines = [
            f"{one.start_line}-{one.end_line} {one.kind} {one.signature or one.qualified}" for one in found.definitions
        ]
        return "\n".join([row, *lines])

    def references(self, name: str) -> str:
        """Where a name is used, a line each; how sure that is stands with every one."""
        lines: list[str] = []
        for index in self._searched():
            for folder in self._scope.folders[index] or (".",):
                request = RefsRequest(name, str(index.root / folder), limit=USES, refresh=False)
                try:
                    found = self._operations.references(request)
                except NotFound:
                    continue
                lines.append(f"{found.symbol}: {found.usage_count} uses")
                lines += [f"{use.file}:{use.line} {use.edge} ({use.confidence}) {use.preview}" for use in found.usages]
        if not lines:
            raise NotFound(f"no definition of {name!r} is indexed")
        return "\n".join(lines)

    def decision_card(self, change: str) -> str:
        """Whether enough is known to make a change, as JSON."""
        request = SearchRequest(change, self._paths, limit=self._limit, purpose="edit", refresh=not self._fresh)
        card = self._operations.search(request, self._progress).preflight
        if card is None:
            raise NotFound("there is no card for this change")
        return dumps(card)

    def _globs(self) -> tuple[str, ...]:
        inside = [(path, index.root) for path in self._left_out for index in self._searched()]
        return tuple(f"!/{path.relative_to(root).as_posix()}" for path, root in inside if path.is_relative_to(root))

    def _searched(self) -> Iterator[IndexManager]:
        return iter(self._scope.indexes)

    def _find(self, path: str) -> tuple[IndexManager, str]:
        """The indexed file of that path, relative to a root or absolute."""
        for index in self._searched():
            relative = path.removeprefix(f"{index.root}/").removeprefix("./")
            known = relative in self._store(index).manifest()
            if known and self._scope.holds(index, relative) and index.root / relative not in self._left_out:
                return index, relative
        raise NotFound(f"{path} is not an indexed file")


class DocumentLookup(Lookup):
    """Collections. Their documents are read as they were indexed: pages and cells have no lines of their own."""

    def __init__(
        self, operations: LookupOperations, request: DocsAskRequest, limit: int, progress: ProgressSink | None = None
    ) -> None:
        super().__init__(operations, limit, progress)
        self._request = request
        self._chosen, self.notes = operations.documents().chosen(request.path, request.collections)
        if not self._chosen:
            raise no_collection()

    def functions(self) -> ToolFunctions:
        return ToolFunctions(self.search, self.read_file, self.outline)

    def cited(self, citation: Citation) -> Citation:
        try:
            index, path = self._find(citation.path, citation.root)
        except NotFound:  # removed while the answer was written
            return citation
        language = self._store(index).manifest()[path].language
        place = place_of(language, citation.section)
        full = str(index.root / path)
        opens = opening(full, language, citation.section, place, citation.start_line)
        return replace(citation, collection=index.source.collection.id, opens=opens)

    def _search(self, query: str) -> SearchResult:
        request = DocsSearchRequest(
            (query,), self._request.collections, limit=self._limit, refresh=not self._fresh, path=self._request.path
        )
        found = self._operations.documents().search(request, self._progress)
        roots = {index.source.collection.id: str(index.root) for index in self._chosen}
        (answered,) = found.searches
        hits = tuple(_hit(one, roots[one.collection]) for one in answered.results)
        quality = answered.quality or Quality("low_confidence", 0.0)
        return SearchResult(query, Intent.CONCEPTUAL, hits, quality, notes=found.notes)

    def read_file(self, path: str, start_line: int, end_line: int) -> Item:
        """Lines of a document as a search shows them; its section is the one that the first line stands in."""
        if end_line < start_line:
            raise UsageError("end_line lies before start_line")
        index, document = self._find(path)
        store = self._store(index)
        lines = document_lines(store, document)
        longest = max(lines, default=0)
        if start_line > longest:
            raise UsageError(f"{document} has {longest} lines")
        last = min(end_line, start_line + READ_LINES - 1, longest)
        text = "\n".join(lines.get(number, "") for number in range(start_line, last + 1))
        text = text[: index.config.retrieval.chunk_max_chars]
        above = [one for one in headings(store, document) if one.start_line <= start_line <= one.end_line]
        section = CRUMB.join(one.title for one in above)
        return Item(0, str(index.root), document, start_line, start_line + text.count("\n"), text, section=section)

    def outline(self, path: str) -> str:
        index, document = self._find(path)
        found = headings(self._store(index), document)
        if not found:
            return f"{document} has no headings."
        lines = [f"{one.start_line}-{one.end_line} {'#' * one.level} {one.title}" for one in found]
        return "\n".join([document, *lines])

    def _searched(self) -> Iterator[CollectionIndex]:
        """Those that can be searched: one that is gone or was never fetched was left out, and that was noted."""
        return (index for index in self._chosen if index.live_store() is not None)

    def _own_names(self, index: object) -> Iterable[str]:
        return ()  # a handbook on moorings may well be called moorings

    def _find(self, path: str, root: str = "") -> tuple[CollectionIndex, str]:
        for index in self._searched():
            relative = path.removeprefix(f"{index.root}/").removeprefix(f"{index.source.collection.name}/")
            row = self._store(index).manifest().get(relative)
            if root in ("", str(index.root)) and row is not None and row.language:
                return index, relative
        raise NotFound(f"{path} is not a document of these collections")


def _hit(found: DocumentHit, root: str) -> Hit:
    """A passage as the answer loop takes it. The distance is cosine there and squared L2 here."""
    return Hit(
        root=root,
        path=found.document,
        start_line=found.start_line,
        end_line=found.end_line,
        text=found.content,
        text_line=found.start_line,
        score=found.score,
        chunk_id=int(found.id.rpartition("#")[2]),
        kind=FileKind.DOCS,
        symbol=found.section.rpartition(CRUMB)[2],
        breadcrumb=found.section,
        distance=Distance(round(2 * found.distance, 4)) if found.distance is not None else None,
    )
