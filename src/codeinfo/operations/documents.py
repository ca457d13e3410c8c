"""Collections of documents."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.model import Quality, Skip
from codeinfo.operations.answers import AgentRunRequest, Answer, AskRequest, ModelName, ProviderName, ShowTrace
from codeinfo.operations.base import PROJECT, PROJECTS, SOURCE, Arg, Limit, Opt, Texts, has_skips, registry

OPERATIONS, _operation, _change = registry(group="documents", section="Documents")

CollectionName = Annotated[str, Arg("A collection, by its name or id.")]
DocumentPath = Annotated[str, Arg("A document, by its path in the collection.")]
OnlyCollections = Annotated[Texts, Opt("Only these collections, by name or id; all by default.", short="c")]
OnlyDocuments = Annotated[Texts, Opt("Only documents that match; a leading ! excludes them.", short="g")]
_CONTEXT = "The project whose context.json is used in addition to your own collections."
ContextProject = Annotated[str, Opt(_CONTEXT, metavar="DIR", names=PROJECT)]
MAX_QUERIES = 10


# --- collections -----------------------------------------------------------------------------------------------------


class SyncPlan(Struct, frozen=True):
    """What a sync would do, by content."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


class SyncReport(Struct, frozen=True):
    collection: str
    name: str
    plan: SyncPlan
    dry_run: bool = False
    documents: int = 0
    chunks: int = 0
    skipped: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0


class SyncResponse(Struct, frozen=True):
    reports: tuple[SyncReport, ...]


@_change("docs add", SyncResponse, "documents.add", falls_short=has_skips)
class DocsAddRequest(Struct, frozen=True):
    """Add a collection of documents and index it.

    A folder, files, a page on the web, a package (folder or tar.gz with a manifest), or a git repository at a
    revision.
    """

    sources: Annotated[
        Texts, Arg("A folder, files, a page, a package (folder or tar.gz) or a git repository.", names=SOURCE)
    ]
    name: Annotated[str, Opt("The name of the collection; by default that of the source.")] = ""
    ref: Annotated[str, Opt("The branch, tag or commit of a git repository.", metavar="REV")] = ""
    globs: OnlyDocuments = ()
    project: Annotated[bool, Opt("List it in the project's context.json instead of your own list.")] = False
    path: ContextProject = "."


class DocumentInfo(Struct, frozen=True):
    document: str
    format: str
    passages: int
    size: int
    hash: str = ""  # SHA-256 of the content that is indexed


class CollectionInfo(Struct, frozen=True):
    """`state`: `ready`, `stale`, `new` (never synced) or `missing` (its source is gone)."""

    id: str
    name: str
    kind: str
    url: str
    origin: str
    state: str
    documents: int = 0
    passages: int = 0
    indexed_at: str = ""
    listing: tuple[DocumentInfo, ...] = ()


class DocsListResponse(Struct, frozen=True):
    collections: tuple[CollectionInfo, ...]
    notes: tuple[str, ...] = ()


@_operation("docs list", DocsListResponse, "documents.list")
class DocsListRequest(Struct, frozen=True):
    """List collections, or the documents in them."""

    collections: Annotated[Texts, Arg("List the documents of these collections.")] = ()
    path: ContextProject = "."


@_change("docs sync", SyncResponse, "documents.sync", falls_short=has_skips)
class DocsSyncRequest(Struct, frozen=True):
    """Fetch remote sources and index what changed, by content.

    Apart from adding a collection, the only command that uses the network for one.
    """

    collections: Annotated[Texts, Arg("Collections by name or id; all by default.")] = ()
    dry_run: Annotated[bool, Opt("Only show what would change.")] = False
    path: ContextProject = "."


class RemovedCollection(Struct, frozen=True):
    id: str
    name: str
    bytes: int  # freed


class DocsRemoveResponse(Struct, frozen=True):
    removed: tuple[RemovedCollection, ...]


@_change("docs remove", DocsRemoveResponse, "documents.remove", confirm="Remove {collections}?")
class DocsRemoveRequest(Struct, frozen=True):
    """Remove collections and delete their indexes.

    Your own files are not touched; documents that were written into a collection are deleted with it.
    """

    collections: Annotated[Texts, Arg("Collections by name or id.")]
    path: ContextProject = "."


class DocsUpdateResponse(Struct, frozen=True):
    collection: str
    document: str
    hash: str  # SHA-256 of its content
    changed: bool  # False: it had this content already, and nothing was done
    passages: int
    notes: tuple[str, ...] = ()


@_change("docs update", DocsUpdateResponse, "documents.update")
class DocsUpdateRequest(Struct, frozen=True):
    """Add one document to a collection, or replace it.

    For what lies in no folder, such as pages of a wiki that a program reads. Only a changed one is indexed.
    """

    collection: Annotated[str, Arg("A collection that documents are written into, by its name; a new name makes one.")]
    document: Annotated[str, Arg("The document's path in the collection, as in guides/start.md.")]
    content: Annotated[str, Arg("Its whole text.")]
    path: ContextProject = "."


class DocsDeleteResponse(Struct, frozen=True):
    collection: str
    deleted: tuple[str, ...]
    documents: int  # that are left
    notes: tuple[str, ...] = ()


@_change(
    "docs delete", DocsDeleteResponse, "documents.delete", removes=True, confirm="Delete {documents} from {collection}?"
)
class DocsDeleteRequest(Struct, frozen=True):
    """Delete documents that were written into a collection."""

    collection: CollectionName
    documents: Annotated[Texts, Arg("Documents, by their paths in the collection.")]
    path: ContextProject = "."


class DocsPackResponse(Struct, frozen=True):
    file: str
    name: str
    version: str
    documents: int
    bytes: int
    sha256: str
    skipped: tuple[Skip, ...] = ()


# --- search ----------------------------------------------------------------------------------------------------------


class DocumentHit(Struct, frozen=True):
    """One passage. `distance` is cosine (0 identical, 2 opposite), None without vectors; `score` is relative to the
    best result. `opens` is where to read it: the file, at its page, sheet, slide, heading or line."""

    id: str
    document: str
    collection: str
    content: str
    distance: float | None
    score: float
    kind: str = "document"  # or "code", "tests", "config"
    title: str = ""
    section: str = ""
    place: str = ""  # "page 3", "sheet Costs", "slide 2"
    start_line: int = 0
    end_line: int = 0
    opens: str = ""
    rerank_score: float | None = None  # relevance from 0 to 1, where a reranking model read the passage


class DocumentSearch(Struct, frozen=True):
    """`quality` says how likely the answer is among the first results; None for a search by meaning alone.
    `reranker_status` is "off", "applied: MODEL", "not needed: …", "failed: …" or "timed out after N ms"."""

    query: str
    results: tuple[DocumentHit, ...]
    took_ms: float = 0.0
    quality: Quality | None = None
    reranker_status: str = "off"


class DocsSearchResponse(Struct, frozen=True):
    searches: tuple[DocumentSearch, ...]
    notes: tuple[str, ...] = ()


@_operation("docs search", DocsSearchResponse, "documents.search")
class DocsSearchRequest(Struct, frozen=True):
    """Find the passages that answer one to ten questions.

    Each result says where it opens: page, sheet, slide, heading or line.
    """

    queries: Annotated[Texts, Arg(f"What to look for; up to {MAX_QUERIES} questions, each in quotes.", metavar="QUERY")]
    collections: OnlyCollections = ()
    code: Annotated[Texts, Opt("Search the code of this folder as well.", metavar="DIR", names=PROJECTS)] = ()
    limit: Limit = 10
    max_distance: Annotated[float, Opt("Only passages within this cosine distance (0..2).", minimum=0, maximum=2)] = 2.0
    hybrid: Annotated[bool, Opt("Use keywords and vectors; off: vectors only.")] = True
    rerank: Annotated[bool, Opt("Rerank the first results with the model from the settings.")] = False
    refresh: Annotated[bool, Opt("Look for changed documents before searching.")] = True
    path: ContextProject = "."


# --- asking ----------------------------------------------------------------------------------------------------------


@_change("docs ask", Answer, "answers.ask", group="answers")
class DocsAskRequest(Struct, frozen=True):
    """Answer a question from collections of documents, with citations that were checked.

    As `codeinfo ask` does from code. Each source says where it opens: page, sheet, slide, heading or line.
    """

    question: Annotated[str, Arg("The question, in plain words.")]
    collections: OnlyCollections = ()
    conversation: Annotated[str, Opt("Continue this conversation.", metavar="ID")] = ""
    provider: ProviderName = ""
    model: ModelName = ""
    trace: ShowTrace = False
    path: ContextProject = "."


DOCUMENTS = "docs:"  # prefix of a collection where a project may also be given; alone: all collections
AnyQuestion = AskRequest | AgentRunRequest | DocsAskRequest


# --- one document ----------------------------------------------------------------------------------------------------


class OutlineEntry(Struct, frozen=True):
    title: str
    level: int
    start_line: int
    end_line: int


class DocsOutlineResponse(Struct, frozen=True):
    collection: str
    document: str
    entries: tuple[OutlineEntry, ...]
    notes: tuple[str, ...] = ()


@_operation("docs outline", DocsOutlineResponse, "documents.outline")
class DocsOutlineRequest(Struct, frozen=True):
    """Show the headings, pages, sheets or slides of a document."""

    collection: CollectionName
    document: DocumentPath
    path: ContextProject = "."


class DocsSectionResponse(Struct, frozen=True):
    collection: str
    document: str
    title: str
    content: str
    start_line: int
    end_line: int


@_operation("docs section", DocsSectionResponse, "documents.section")
class DocsSectionRequest(Struct, frozen=True):
    """Show one section of a document, or all of it."""

    collection: CollectionName
    document: DocumentPath
    section: Annotated[str, Arg("A heading, page, sheet or slide; the whole document by default.")] = ""
    path: ContextProject = "."


class RelatedDocument(Struct, frozen=True):
    """`relations`: "links to", "linked from", "similar"."""

    document: str
    collection: str
    relations: tuple[str, ...]
    distance: float | None
    score: float


class DocsRelatedResponse(Struct, frozen=True):
    collection: str
    document: str
    related: tuple[RelatedDocument, ...]
    notes: tuple[str, ...] = ()


@_operation("docs related", DocsRelatedResponse, "documents.related")
class DocsRelatedRequest(Struct, frozen=True):
    """Show the documents that a document links to, is linked from, or resembles."""

    collection: CollectionName
    document: DocumentPath
    limit: Limit = 10
    path: ContextProject = "."


@_change("docs pack", DocsPackResponse, "documents.pack", group="local")
class DocsPackRequest(Struct, frozen=True):
    """Pack a folder's documents so that anyone can add them.

    A tar.gz with a manifest that lists every document with its hash.
    """

    source: Annotated[str, Arg("The folder whose documents to pack.")]
    name: Annotated[str, Opt("The package's name; the folder's by default.")] = ""
    version: Annotated[str, Opt("The package's version.")] = "1.0.0"
    description: Annotated[str, Opt("One sentence about it.")] = ""
    globs: OnlyDocuments = ()
    out: Annotated[str, Opt("The file to write; NAME-VERSION.tar.gz by default.", metavar="FILE")] = ""
