"""What is asked of collections of documents, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass

from codeinfo.requests import _arg, _opt, _required
from codeinfo.requests.answers import MODEL, PROVIDER
from codeinfo.types import Quality, Skip

_COLLECTION = "A collection, by its name or id."
_PROJECT = "The project whose context.json counts beside your own collections."
MAX_QUERIES = 10


# --- collections ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocsAddRequest:
    sources: tuple[str, ...] = _required("A folder, files, a package (folder or tar.gz) or a git repository.")
    name: str = _opt("", "What to call it; its own name unless given.")
    ref: str = _opt("", "The branch, tag or commit of a git repository.", metavar="REV")
    globs: tuple[str, ...] = _opt((), "Only documents that match; a leading ! leaves them out.", short="g")
    project: bool = _opt(False, "List it in the project's context.json instead of your own list.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What a sync would do, by content."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class SyncReport:
    collection: str
    name: str
    plan: SyncPlan
    dry_run: bool = False
    documents: int = 0
    chunks: int = 0
    skipped: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SyncResponse:
    reports: tuple[SyncReport, ...]


@dataclass(frozen=True, slots=True)
class DocsListRequest:
    collections: tuple[str, ...] = _arg((), "List the documents of these collections.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    document: str
    format: str
    passages: int
    size: int


@dataclass(frozen=True, slots=True)
class CollectionInfo:
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


@dataclass(frozen=True, slots=True)
class DocsListResponse:
    collections: tuple[CollectionInfo, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocsSyncRequest:
    collections: tuple[str, ...] = _arg((), "Collections by name or id; all of them unless named.")
    dry_run: bool = _opt(False, "Only say what would be done.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class DocsRemoveRequest:
    collections: tuple[str, ...] = _required("Collections by name or id.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class RemovedCollection:
    id: str
    name: str
    bytes: int  # freed


@dataclass(frozen=True, slots=True)
class DocsRemoveResponse:
    removed: tuple[RemovedCollection, ...]


@dataclass(frozen=True, slots=True)
class DocsPackRequest:
    source: str = _required("The folder whose documents to pack.")
    name: str = _opt("", "The package's name; the folder's unless given.")
    version: str = _opt("1.0.0", "The package's version.")
    description: str = _opt("", "One sentence about it.")
    globs: tuple[str, ...] = _opt((), "Only documents that match; a leading ! leaves them out.", short="g")
    out: str = _opt("", "The file to write; NAME-VERSION.tar.gz unless given.", metavar="FILE")


@dataclass(frozen=True, slots=True)
class DocsPackResponse:
    file: str
    name: str
    version: str
    documents: int
    bytes: int
    sha256: str
    skipped: tuple[Skip, ...] = ()


# --- search --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocsSearchRequest:
    queries: tuple[str, ...] = _required(
        f"What to look for; up to {MAX_QUERIES} questions, each in quotes.", metavar="QUERY"
    )
    collections: tuple[str, ...] = _opt((), "Only these collections, by name or id; all unless named.", short="c")
    code: tuple[str, ...] = _opt((), "Search the code of this folder as well.", metavar="DIR")
    limit: int = _opt(10, "At most this many results.", short="n", minimum=1, maximum=1000)
    max_distance: float = _opt(2.0, "Only passages within this cosine distance (0..2).", minimum=0, maximum=2)
    hybrid: bool = _opt(True, "Use keywords and vectors; without it vectors only.")
    rerank: bool = _opt(False, "Have the reranking model of the settings order the first results.")
    refresh: bool = _opt(True, "Look for changed documents before searching.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class DocumentHit:
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


@dataclass(frozen=True, slots=True)
class DocumentSearch:
    """`quality` says how likely the answer is among the first results; None for a search by meaning alone.
    `reranker_status` is "off", "applied: MODEL", "not needed: …", "failed: …" or "timed out after N ms"."""

    query: str
    results: tuple[DocumentHit, ...]
    took_ms: float = 0.0
    quality: Quality | None = None
    reranker_status: str = "off"


@dataclass(frozen=True, slots=True)
class DocsSearchResponse:
    searches: tuple[DocumentSearch, ...]
    notes: tuple[str, ...] = ()


# --- asking --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocsAskRequest:
    question: str = _required("The question, in plain words.")
    collections: tuple[str, ...] = _opt((), "Only these collections, by name or id; all unless named.", short="c")
    conversation: str = _opt("", "Go on with this conversation.", metavar="ID")
    provider: str = _opt("", PROVIDER, metavar="NAME")
    model: str = _opt("", MODEL, short="m", metavar="NAME")
    trace: bool = _opt(False, "Show rounds, grades, what was dropped and why, and tokens.", short="t")
    path: str = _opt(".", _PROJECT, metavar="DIR")


# --- one document --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocsOutlineRequest:
    collection: str = _required(_COLLECTION)
    document: str = _required("A document, by its path in the collection.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    title: str
    level: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class DocsOutlineResponse:
    collection: str
    document: str
    entries: tuple[OutlineEntry, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocsSectionRequest:
    collection: str = _required(_COLLECTION)
    document: str = _required("A document, by its path in the collection.")
    section: str = _arg("", "A heading, page, sheet or slide; the whole document unless named.")
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class DocsSectionResponse:
    collection: str
    document: str
    title: str
    content: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class DocsRelatedRequest:
    collection: str = _required(_COLLECTION)
    document: str = _required("A document, by its path in the collection.")
    limit: int = _opt(10, "At most this many results.", short="n", minimum=1, maximum=1000)
    path: str = _opt(".", _PROJECT, metavar="DIR")


@dataclass(frozen=True, slots=True)
class RelatedDocument:
    """`relations`: "links to", "linked from", "similar"."""

    document: str
    collection: str
    relations: tuple[str, ...]
    distance: float | None
    score: float


@dataclass(frozen=True, slots=True)
class DocsRelatedResponse:
    collection: str
    document: str
    related: tuple[RelatedDocument, ...]
    notes: tuple[str, ...] = ()
