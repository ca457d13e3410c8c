"""What answers from documents are looked up in: the collections of one question, searched and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from codeinfo.agent.evidence import Item
from codeinfo.agent.tools import ToolFunctions
from codeinfo.engine.collecting import CollectionUpkeep
from codeinfo.engine.document_reading import document_lines, headings
from codeinfo.engine.document_search import no_collection, opening, place_of
from codeinfo.engine.lookup import READ_LINES, Lookup
from codeinfo.errors import NotFound, UsageError
from codeinfo.model import CRUMB, Distance, FileKind, Hit, Intent, Quality, SearchResult
from codeinfo.operations.answers import Citation
from codeinfo.operations.documents import DocsAskRequest, DocsSearchRequest, DocumentHit

if TYPE_CHECKING:
    from codeinfo.engine.facade import Engine, ProgressSink


class DocumentLookup(Lookup):
    """Collections. Their documents are read as they were indexed: pages and cells have no lines of their own."""

    def __init__(
        self, engine: Engine, request: DocsAskRequest, limit: int, progress: ProgressSink | None = None
    ) -> None:
        super().__init__(engine, limit, progress)
        self._request = request
        self._chosen, self.notes = engine.documents.chosen(request.path, request.collections)
        if not self._chosen:
            raise no_collection()

    def functions(self) -> ToolFunctions:
        return ToolFunctions(self.search, self.read_file, self.outline)

    def cited(self, citation: Citation) -> Citation:
        try:
            keeper, path = self._find(citation.path, citation.root)
        except NotFound:  # removed while the answer was written
            return citation
        language = self._store(keeper).manifest()[path].language
        place = place_of(language, citation.section)
        full = str(keeper.root / path)
        opens = opening(full, language, citation.section, place, citation.start_line)
        return replace(citation, collection=keeper.collection.id, opens=opens)

    def _search(self, query: str) -> SearchResult:
        request = DocsSearchRequest(
            (query,), self._request.collections, limit=self._limit, refresh=not self._fresh, path=self._request.path
        )
        found = self._engine.documents.search(request, self._progress)
        roots = {keeper.collection.id: str(keeper.root) for keeper in self._chosen}
        (answered,) = found.searches
        hits = tuple(_hit(one, roots[one.collection]) for one in answered.results)
        quality = answered.quality or Quality("low_confidence", 0.0)
        return SearchResult(query, Intent.CONCEPTUAL, hits, quality, notes=found.notes)

    def read_file(self, path: str, start_line: int, end_line: int) -> Item:
        """Lines of a document as a search shows them; its section is the one that the first line stands in."""
        if end_line < start_line:
            raise UsageError("end_line lies before start_line")
        keeper, document = self._find(path)
        store = self._store(keeper)
        lines = document_lines(store, document)
        longest = max(lines, default=0)
        if start_line > longest:
            raise UsageError(f"{document} has {longest} lines")
        last = min(end_line, start_line + READ_LINES - 1, longest)
        text = "\n".join(lines.get(number, "") for number in range(start_line, last + 1))
        text = text[: keeper.config.retrieval.chunk_max_chars]
        above = [one for one in headings(store, document) if one.start_line <= start_line <= one.end_line]
        section = CRUMB.join(one.title for one in above)
        return Item(0, str(keeper.root), document, start_line, start_line + text.count("\n"), text, section=section)

    def outline(self, path: str) -> str:
        keeper, document = self._find(path)
        found = headings(self._store(keeper), document)
        if not found:
            return f"{document} has no headings."
        lines = [f"{one.start_line}-{one.end_line} {'#' * one.level} {one.title}" for one in found]
        return "\n".join([document, *lines])

    def _keepers(self) -> Iterator[CollectionUpkeep]:
        """Those that can be searched: one that is gone or was never fetched was left out, and that was noted."""
        return (keeper for keeper in self._chosen if keeper.live_store() is not None)

    def _own_names(self, keeper: object) -> Iterable[str]:
        return ()  # a handbook on moorings may well be called moorings

    def _find(self, path: str, root: str = "") -> tuple[CollectionUpkeep, str]:
        for keeper in self._keepers():
            relative = path.removeprefix(f"{keeper.root}/").removeprefix(f"{keeper.collection.name}/")
            row = self._store(keeper).manifest().get(relative)
            if root in ("", str(keeper.root)) and row is not None and row.language:
                return keeper, relative
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
