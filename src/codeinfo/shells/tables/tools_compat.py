"""Tools for documents, and those that clients of other servers know by name."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from codeinfo.jsonable import jsonable
from codeinfo.operations import clients, code, documents, search
from codeinfo.shells import mcp_shapes as shapes
from codeinfo.shells.mcp_schema import Input
from codeinfo.shells.mcp_tools import Tool, Values, direct, placed

_INVALID = -32602
_VECTOR_CODES = {
    "VALIDATION_FAILED": _INVALID,
    "ROOT_REFUSED": _INVALID,
    "NOT_FOUND": 404,
    "REPO_NOT_FOUND": 404,
    "NOT_INGESTED": 409,
    "DIMENSION_MISMATCH": 409,
    "EMBEDDING_MODEL_MISSING": 503,
    "EMBEDDING_UNAVAILABLE": 503,
    "INDEX_DAMAGED": 502,
    "BUSY": 429,
}

_QUERY = Input("query", "What to look for, in plain words.", required=True)
_REPOSITORY = Input("repository", "An indexed repository: its name or folder. The working folder unless given.")


def _limit(default: int) -> Input:
    return Input("limit", "At most this many results.", "int", default, minimum=1, maximum=100)


# --- documents -----------------------------------------------------------------------------------------------------


class DocumentResults(Struct, frozen=True):
    results: tuple[documents.DocumentHit, ...]
    notes: tuple[str, ...]
    rerankerStatus: str


def _document_results(response: documents.DocsSearchResponse, values: Values) -> dict[str, Any]:
    (found,) = response.searches  # one query, one search
    reply: dict[str, Any] = jsonable(DocumentResults(found.results, response.notes, found.reranker_status))
    return reply


def _document_search(values: Values, project: str) -> documents.DocsSearchRequest:
    return documents.DocsSearchRequest(
        queries=(values["query"],) if "query" in values else values["queries"],
        collections=values.get("collections", ()),
        limit=values.get("limit", 10),
        max_distance=values.get("maxDistance", 2.0),
        hybrid=values.get("hybridSearch", True),
        rerank=values.get("rerank", False),
        **placed(documents.DocsSearchRequest, "path", project),
    )


_COLLECTIONS = Input("collections", "Only these collections, by name or id.", "tuple[str, ...]")
_DISTANCE = Input("maxDistance", "Only passages within this cosine distance.", "float", 2.0, minimum=0, maximum=2)
_HYBRID = Input("hybridSearch", "Use keywords and vectors; false for vectors only.", "bool", True)
_RERANK = Input("rerank", "Have the reranking model of the settings order the first results.", "bool", False)
_DOCUMENT = ("collection", "document")


def _documents(name: str, operation: str, request: type, description: str, only: tuple[str, ...], **more: Any) -> Tool:
    return direct(name, operation, ("docs",), request, description, folder="path", only=only, **more)


# --- compat ---


def _ast(name: str, operation: str, request: type, description: str, *, folder: str, only: tuple[str, ...]) -> Tool:
    """The five Ast tools: a repository by name, symbols as `symbol`, files as `file`."""
    renamed = {"symbol": "name"} if "name" in only else {"file": "path"}
    return direct(
        name,
        operation,
        ("compat",),
        request,
        description,
        folder=folder,
        only=only,
        renamed=renamed,
        project=_REPOSITORY,
        codes=_VECTOR_CODES,
    )


TOOLS: tuple[Tool, ...] = (
    # --- documents ---
    _documents(
        "documents_list_collections", "docs list", documents.DocsListRequest, "The collections of documents.", ()
    ),
    Tool(
        name="documents_list_documents",
        operation="docs list",
        sets=("docs",),
        description="The documents of one collection.",
        inputs=(Input("collection", "A collection, by its name or id.", required=True),),
        request=lambda values, project: documents.DocsListRequest(
            (values["collection"],), **placed(documents.DocsListRequest, "path", project)
        ),
        result=documents.DocsListResponse,
    ),
    Tool(
        name="documents_search",
        operation="docs search",
        sets=("docs",),
        description="Passages of documents that answer a question, with the page, sheet, slide or heading they are on.",
        inputs=(_QUERY, _COLLECTIONS, _limit(10), _DISTANCE, _HYBRID, _RERANK),
        request=_document_search,
        result=DocumentResults,
        shape=_document_results,
        nulls=True,
    ),
    Tool(
        name="documents_search_batch",
        operation="docs search",
        sets=("docs",),
        description="Up to ten questions to documents at once: use it to look at one matter from several sides.",
        inputs=(
            Input("queries", "One to ten questions.", "tuple[str, ...]", required=True),
            _COLLECTIONS,
            _limit(5),
            _DISTANCE,
            _HYBRID,
            _RERANK,
        ),
        request=_document_search,
        result=documents.DocsSearchResponse,
    ),
    _documents(
        "documents_find_related",
        "docs related",
        documents.DocsRelatedRequest,
        "Documents that a document links to, is linked from, or resembles.",
        (*_DOCUMENT, "limit"),
    ),
    _documents(
        "documents_get_document", "docs section", documents.DocsSectionRequest, "A document's whole text.", _DOCUMENT
    ),
    _documents(
        "documents_get_outline",
        "docs outline",
        documents.DocsOutlineRequest,
        "The headings, pages, sheets or slides of a document: look here before reading all of it.",
        _DOCUMENT,
    ),
    _documents(
        "documents_get_section",
        "docs section",
        documents.DocsSectionRequest,
        "One section of a document, by a title of its outline.",
        (*_DOCUMENT, "section"),
    ),
    # --- compat ---
    Tool(
        name="VectorSearch",
        operation="vector-search",
        sets=("compat",),
        description="Chunks closest in meaning, cut by the relevance policy. search_codebase is the better one "
        "where both are offered.",
        inputs=(
            _QUERY,
            Input("repository", "Only this repository: its name or path; all unless named."),
            Input("limit", "At most this many results, 1 to 20.", "int", 5),  # what is outside is clamped
        ),
        request=lambda values, project: clients.VectorSearchRequest(**values),
        result=clients.VectorSearchResult,
        codes=_VECTOR_CODES,
        files=lambda result, root: (file.hostPath for file in result.files),
        project=None,
    ),
    direct(
        "ListIngestedRepositories",
        "projects",
        ("compat",),
        clients.ProjectsRequest,
        "The indexed repositories.",
        folder="",
        only=(),
        codes=_VECTOR_CODES,
        project=None,
    ),
    Tool(
        name="reingest_repository",
        operation="index",
        sets=("compat",),
        description="Bring the index of a repository up to date.",
        inputs=(),
        project=Input("sourceId", "The repository: its name or folder.", required=True),
        request=lambda values, project: search.IndexRequest((project,)),
        result=shapes.Reingested,
        shape=shapes.reingested,
        nulls=True,
        codes=_VECTOR_CODES,
    ),
    _ast(
        "AstListSymbols",
        "symbols",
        code.SymbolsRequest,
        "What a file or folder defines.",
        folder="root",
        only=("path", "kinds", "limit"),
    ),
    _ast(
        "AstFindDefinition",
        "defs",
        code.DefsRequest,
        "Where a symbol is defined.",
        folder="path",
        only=("name", "limit"),
    ),
    _ast(
        "AstFindReferences", "refs", code.RefsRequest, "Where a symbol is used.", folder="path", only=("name", "limit")
    ),
    _ast(
        "AstCallGraph",
        "calls",
        code.CallsRequest,
        "Who calls a symbol and what it calls.",
        folder="path",
        only=("name", "depth", "limit"),
    ),
    _ast(
        "AstModuleImports",
        "imports",
        code.ImportsRequest,
        "What a file imports and who imports it.",
        folder="root",
        only=("path", "limit"),
    ),
)
