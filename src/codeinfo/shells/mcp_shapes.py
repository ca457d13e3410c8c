"""Replies in the shape that clients of other servers know. A field that is None is left out of the reply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codeinfo.jsonable import PLAIN, jsonable, shown_fields

if TYPE_CHECKING:
    from codeinfo.requests import IndexResponse, StatusReport
    from codeinfo.requests.code import ReferenceReport
    from codeinfo.requests.knowledge import MemoryList
    from codeinfo.types import Card, Hit, RelatedMemory, SearchResult

Reply = dict[str, Any]


def without_none(value: Any) -> Any:
    """A dataclass as JSON without the fields that are None."""
    if type(value) in PLAIN:
        return value
    if shown := shown_fields(type(value)):
        pairs = [(name, getattr(value, name)) for name in shown]
        return {name: one if type(one) in PLAIN else without_none(one) for name, one in pairs if one is not None}
    if isinstance(value, tuple | list):
        return [one if type(one) in PLAIN else without_none(one) for one in value]
    return jsonable(value)


def shaped(value: Any) -> Reply:
    reply: Reply = without_none(value)
    return reply


# --- search_codebase -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchQuality:
    status: str  # ok or low_confidence
    confidence: float
    tokenEstimate: int
    hint: str | None = None
    rerankerStatus: str | None = None  # whether a reranker ordered the first results, and why not


@dataclass(frozen=True, slots=True)
class Relationships:
    importedByCount: int
    hasTests: bool


@dataclass(frozen=True, slots=True)
class Hints:
    callers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    tests: tuple[str, ...] | None = None
    more: tuple[str, ...] | None = None  # further good places in the same file


@dataclass(frozen=True, slots=True)
class CodeResult:
    """`file` is path:start-end; `score` is relative to the best result."""

    file: str
    summary: str
    score: float
    relationships: Relationships
    hints: Hints
    type: str | None = None
    trend: str | None = None
    patternWarning: str | None = None
    snippet: str | None = None


@dataclass(frozen=True, slots=True)
class Patterns:
    do: tuple[str, ...]
    avoid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Impact:
    coverage: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preflight:
    ready: bool
    nextAction: str | None = None
    warnings: tuple[str, ...] | None = None
    patterns: Patterns | None = None
    bestExample: str | None = None
    impact: Impact | None = None
    whatWouldHelp: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    id: str
    type: str
    category: str
    memory: str
    reason: str
    date: str
    confidence: float
    stale: bool
    label: str
    source: str | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class CodebaseSearch:
    """`status` is success, or indexing while the results come from a part of the project."""

    status: str
    searchQuality: SearchQuality
    results: tuple[CodeResult, ...]
    preflight: Preflight | None = None
    relatedMemories: tuple[Memory, ...] | None = None
    suggestions: tuple[str, ...] | None = None  # spellings that occur here, for a query whose words do not
    notes: tuple[str, ...] | None = None


def search_codebase(result: SearchResult, values: dict[str, Any]) -> Reply:
    from codeinfo.agent.evidence import estimated_tokens
    from codeinfo.shells.mcp_words import with_tools

    snippets = values.get("includeSnippets", True)
    partial = any("being built" in note or "being indexed" in note for note in result.notes)
    quality = result.quality
    found = CodebaseSearch(
        status="indexing" if partial else "success",
        searchQuality=SearchQuality(
            quality.status,
            quality.confidence,
            sum(estimated_tokens(hit.text) for hit in result.hits) if snippets else 0,
            hint=quality.hint or None,
            rerankerStatus=quality.reranker_status,
        ),
        results=tuple(_code_result(hit, snippets) for hit in result.hits),
        preflight=_preflight(result.preflight) if result.preflight else None,
        relatedMemories=tuple(map(memory, result.memories)) or None,
        suggestions=result.suggestions or None,
        notes=with_tools(result.notes) or None,
    )
    return shaped(found)


def _code_result(hit: Hit, snippets: bool) -> CodeResult:
    context = hit.context
    return CodeResult(
        file=f"{hit.path}:{hit.start_line}-{hit.end_line}",
        summary=hit.breadcrumb or f"{hit.symbol_kind} {hit.symbol}".strip() or hit.language,
        score=hit.score,
        relationships=Relationships(
            context.imported_by_count if context else 0, context.has_tests if context else False
        ),
        hints=Hints(
            callers=(context.callers or None) if context else None,
            consumers=(context.consumers or None) if context else None,
            tests=(context.tests or None) if context else None,
            more=tuple(f"{hit.path}:{first}-{last}" for first, last in hit.more) or None,
        ),
        type=(context.type if context else "") or hit.symbol_kind or None,
        trend=(context.trend or None) if context else None,
        patternWarning=(context.pattern_warning or None) if context else None,
        snippet=hit.text if snippets else None,
    )


def _preflight(card: Card) -> Preflight:
    from codeinfo.shells.mcp_words import with_tool, with_tools

    return Preflight(
        ready=card.ready,
        nextAction=with_tool(card.next_action) or None,
        warnings=with_tools(card.warnings) or None,
        patterns=Patterns(card.patterns.do, card.patterns.avoid) if card.patterns else None,
        bestExample=card.best_example or None,
        impact=Impact(card.impact.coverage, card.impact.files) if card.impact else None,
        whatWouldHelp=with_tools(card.what_would_help) or None,
    )


def hit_files(result: SearchResult, root: str) -> Iterable[str]:
    return (f"{hit.root}/{hit.path}" for hit in result.hits)


# --- references, memory, status ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SymbolUsage:
    file: str
    line: int
    preview: str
    confidence: str  # resolved or syntactic


@dataclass(frozen=True, slots=True)
class SymbolReferences:
    status: str
    symbol: str
    usageCount: int
    usages: tuple[SymbolUsage, ...]
    confidence: str
    isComplete: bool


def symbol_references(report: ReferenceReport, values: dict[str, Any]) -> Reply:
    usages = tuple(SymbolUsage(use.file, use.line, use.preview, use.confidence) for use in report.usages)
    found = SymbolReferences(
        "success", report.symbol, report.usage_count, usages, report.confidence, report.is_complete
    )
    return shaped(found)


def usage_files(report: ReferenceReport, root: str) -> Iterable[str]:
    return (f"{root or '.'}/{use.file}" for use in report.usages)


def memory(one: RelatedMemory) -> Memory:
    return Memory(
        id=one.id,
        type=one.type,
        category=one.category,
        memory=one.memory,
        reason=one.reason,
        date=one.date,
        confidence=one.confidence,
        stale=one.stale,
        label=one.label,
        source=one.source or None,
        scope=one.scope or None,
    )


@dataclass(frozen=True, slots=True)
class Memories:
    status: str
    memories: tuple[Memory, ...]
    total: int
    notes: tuple[str, ...] | None = None


def memories(result: MemoryList, values: dict[str, Any]) -> Reply:
    return shaped(Memories("success", tuple(map(memory, result.memories)), result.total, result.notes or None))


@dataclass(frozen=True, slots=True)
class IndexingProgress:
    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexingStatus:
    """`status` is ready, stale, missing, building or damaged."""

    status: str
    project: str
    files: int
    chunks: int
    indexedAt: str
    modelId: str
    pendingChanges: int
    languages: dict[str, int]
    progress: IndexingProgress | None = None
    notes: tuple[str, ...] | None = None


def indexing_status(found: tuple[StatusReport, Any], values: dict[str, Any]) -> Reply:
    report, running = found
    index = report.indexes[0]
    status = IndexingStatus(
        status="building" if running else index.state,
        project=index.root,
        files=index.files,
        chunks=index.chunks,
        indexedAt=index.indexed_at,
        modelId=index.model_id,
        pendingChanges=index.added + index.changed + index.removed,
        languages=index.languages,
        progress=IndexingProgress(running.phase, running.done, running.total) if running else None,
        notes=index.notes or None,
    )
    return shaped(status)


# --- reingest_repository -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reingested:
    status: str
    operation: str
    runId: str
    sourceId: str
    durationMs: float
    files: int
    chunks: int
    embedded: int
    errorCode: str | None


def reingested(response: IndexResponse, values: dict[str, Any]) -> Reply:
    import secrets

    report = response.reports[0]
    embedded = report.added + report.changed if report.model_id else 0
    done = Reingested(
        "completed",
        "reembed",
        secrets.token_hex(8),
        report.root,
        report.took_ms,
        report.files,
        report.chunks,
        embedded,
        None,
    )
    reply: Reply = jsonable(done)
    return reply
