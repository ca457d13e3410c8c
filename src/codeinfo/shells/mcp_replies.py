"""Replies of tools: in the shape that clients of other servers know, and cut to their token budget.

A field that is None is left out of a shaped reply. Of a reply that is too long the largest lists and texts are cut, and
a cursor says where each goes on. The cursor holds no state of the server: it is the places at which fields were cut, so
that the same call with it takes up there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import UsageError
from codeinfo.jsonable import PLAIN, dumps_plain, jsonable
from codeinfo.model import INDEXING, NO_TRENDS, CardImpact, CardPatterns, HitContext
from codeinfo.operations.documents import DocsSearchResponse, DocumentHit
from codeinfo.operations.search import GrepResult, IndexResponse, StatusReport
from codeinfo.tokens import CHARS_PER_TOKEN, estimate_tokens

if TYPE_CHECKING:
    from codeinfo.model import Card, Hit, RelatedMemory, SearchResult
    from codeinfo.operations.answers import AgentList, AgentRun, Answer
    from codeinfo.operations.code import Exploration, ReferenceReport
    from codeinfo.operations.knowledge import MemoryList


Reply = dict[str, Any]
Phrase = Callable[[str], str]


def without_none(value: Any) -> Any:
    """A value as JSON without the fields that are None."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Struct):
        pairs = [(name, getattr(value, name)) for name in value.__struct_fields__]
        return {name: one if type(one) in PLAIN else without_none(one) for name, one in pairs if one is not None}
    if isinstance(value, tuple | list):
        return [one if type(one) in PLAIN else without_none(one) for one in value]
    return jsonable(value)


def shaped(value: Any) -> Reply:
    reply: Reply = without_none(value)
    return reply


# --- search_codebase -----------------------------------------------------------------------------------------------


class SearchQuality(Struct, frozen=True):
    status: str  # ok or low_confidence
    confidence: float
    tokenEstimate: int
    hint: str | None = None
    rerankerStatus: str | None = None  # whether a reranker ordered the first results, and why not


class Relationships(Struct, frozen=True):
    importedByCount: int
    hasTests: bool


class Hints(Struct, frozen=True):
    callers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    tests: tuple[str, ...] | None = None
    more: tuple[str, ...] | None = None  # further good places in the same file


class CodeResult(Struct, frozen=True):
    """`file` is path:start-end; `score` is relative to the best result."""

    file: str
    summary: str
    score: float
    type: str | None = None  # componentType:layer
    trend: str | None = None
    patternWarning: str | None = None
    relationships: Relationships | None = None
    hints: Hints | None = None
    snippet: str | None = None


class Preflight(Struct, frozen=True):
    ready: bool
    nextAction: str | None = None
    warnings: tuple[str, ...] | None = None
    patterns: CardPatterns | None = None
    bestExample: str | None = None
    impact: CardImpact | None = None
    whatWouldHelp: tuple[str, ...] | None = None


class Memory(Struct, frozen=True):
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


class MatchedLine(Struct, frozen=True):
    path: str
    line: int
    column: int
    text: str
    symbol: str  # the innermost definition around it


class CodebaseSearch(Struct, frozen=True):
    """`status` is success, or indexing while the results come from a part of the project."""

    status: str
    searchQuality: SearchQuality
    results: tuple[CodeResult, ...]
    preflight: Preflight | None = None
    relatedMemories: tuple[Memory, ...] | None = None
    suggestions: tuple[str, ...] | None = None  # spellings that occur here, for a query whose words do not
    notes: tuple[str, ...] | None = None
    matches: tuple[MatchedLine, ...] | None = None  # of mode literal or regex, by path and line
    total: int | None = None  # lines that match, those not shown included


SHOWN_WHOLE = 3  # results that have hints and, unless asked otherwise, their text: a model rarely reads more
SNIPPET_CHARS = 240  # of each of these; whole lines
SUMMARY_CHARS = 100
CALLERS = 2
RESULTS_TOKENS = 800  # for ten results, with what stands around them


def search_codebase(result: SearchResult | GrepResult, values: dict[str, Any], phrase: Phrase = str) -> Reply:
    """`phrase` turns commands in texts into what the reader can do. With `includeSnippets` all results are shown with
    all that is known; without it the first ones, and of the others where they are and what."""
    if isinstance(result, GrepResult):
        lines = tuple(MatchedLine(one.path, one.line, one.column, one.text, one.symbol) for one in result.matches)
        said, sure = tuple(map(phrase, result.notes)) or None, SearchQuality("ok", 1.0, 0)
        return shaped(CodebaseSearch("success", sure, (), notes=said, matches=lines, total=result.total))
    wanted: bool | None = values.get("includeSnippets")
    partial = any(getattr(note, "code", "") == INDEXING for note in result.notes)
    quality = result.quality
    found = CodebaseSearch(
        status="indexing" if partial else "success",
        searchQuality=SearchQuality(
            quality.status,
            quality.confidence,
            0,
            hint=quality.hint or "; ".join(quality.reasons) or None,
            rerankerStatus=None if quality.reranker_status == "off" else quality.reranker_status,
        ),
        results=tuple(_code_result(hit, place, wanted) for place, hit in enumerate(result.hits)),
        preflight=_preflight(result.preflight, phrase) if result.preflight else None,
        relatedMemories=tuple(map(memory, result.memories)) or None,
        suggestions=result.suggestions or None,
        notes=tuple(phrase(note) for note in result.notes if wanted or getattr(note, "code", "") != NO_TRENDS) or None,
    )
    return shaped(found) if wanted else _within_budget(shaped(found))


def _within_budget(reply: Reply) -> Reply:
    """The later of the texts give way: ten results cost a known number of tokens."""
    shown = {name: reply[name] for name in ("status", "searchQuality", "results")}
    excess = estimate_tokens(dumps_plain(shown, compact=True)) - RESULTS_TOKENS
    for result in reversed(reply["results"][:SHOWN_WHOLE]):
        if excess > 0:
            excess -= estimate_tokens(dumps_plain(result.pop("snippet", ""), compact=True))
    return reply


def _code_result(hit: Hit, place: int, wanted: bool | None) -> CodeResult:
    context, whole = hit.context or HitContext(), wanted is True or place < SHOWN_WHOLE
    shown = CodeResult(
        file=f"{hit.path}:{hit.start_line}-{hit.end_line}",
        summary=_shortened(hit.breadcrumb or f"{hit.symbol_kind} {hit.symbol}".strip() or hit.language, wanted),
        score=round(hit.score, 2),
        type=":".join(filter(None, (context.type or hit.symbol_kind, context.layer))) or None,
        trend=context.trend or None,
        patternWarning=context.pattern_warning or None,
    )
    if not whole:
        return shown
    count, most = context.imported_by_count, len(hit.text) if wanted else SNIPPET_CHARS
    hints = Hints(callers=context.callers[:CALLERS] or None)
    if wanted:
        more = tuple(f"{hit.path}:{first}-{last}" for first, last in hit.more)
        hints = Hints(context.callers or None, context.consumers or None, context.tests or None, more or None)
    return replace(
        shown,
        relationships=Relationships(count, context.has_tests) if count or context.has_tests else None,
        hints=hints if hints != Hints() else None,
        snippet=None if wanted is False else _snippet(hit, most) or None,
    )


def _shortened(text: str, wanted: bool | None) -> str:
    return text if wanted or len(text) <= SUMMARY_CHARS else f"{text[:SUMMARY_CHARS]}…"


def _snippet(hit: Hit, most: int) -> str:
    """Whole lines of the text, under the name of what they belong to unless they say it themselves."""
    text = dedent(hit.text)
    cut = text[:most].rpartition("\n")[0] or text[:most] if len(text) > most else text
    name = hit.symbol.rpartition(".")[2]
    return f"// {hit.symbol}\n{cut}" if name and name not in cut.partition("\n")[0] else cut


def _preflight(card: Card, phrase: Phrase) -> Preflight:
    return Preflight(
        ready=card.ready,
        nextAction=phrase(card.next_action) or None,
        warnings=tuple(map(phrase, card.warnings)) or None,
        patterns=card.patterns,
        bestExample=card.best_example or None,
        impact=card.impact,
        whatWouldHelp=tuple(map(phrase, card.what_would_help)) or None,
    )


# --- explore -------------------------------------------------------------------------------------------------------


class Explored(Struct, frozen=True):
    place: str
    code: str | None = None
    definitions: tuple[str, ...] | None = None
    callers: tuple[str, ...] | None = None
    callees: tuple[str, ...] | None = None
    tests: tuple[str, ...] | None = None
    history: tuple[str, ...] | None = None
    memories: tuple[str, ...] | None = None
    totals: dict[str, int] | None = None
    notes: tuple[str, ...] | None = None


def explored(found: Exploration, values: dict[str, Any]) -> Reply:
    listed = tuple(
        f"{one.path}:{one.start_line}-{one.end_line} {one.signature or one.qualified}" for one in found.definitions
    )
    return shaped(
        Explored(
            found.place,
            found.code or None,
            listed if found.kind == "file" or len(listed) > 1 else None,
            found.callers or None,
            found.callees or None,
            found.tests or None,
            found.history or None,
            tuple(f"{one.type}: {one.memory} ({one.label})" for one in found.memories) or None,
            found.totals or None,
            found.notes or None,
        )
    )


def explored_files(found: Exploration, root: str) -> Iterable[str]:
    return [f"{root or '.'}/{found.place.partition(':')[0]}"]


def hit_files(result: SearchResult | GrepResult, root: str) -> Iterable[str]:
    found = result.matches if isinstance(result, GrepResult) else result.hits
    return (f"{one.root}/{one.path}" for one in found)


# --- references, memory, status ------------------------------------------------------------------------------------


class SymbolUsage(Struct, frozen=True):
    file: str
    line: int
    preview: str
    confidence: str  # resolved or syntactic


class SymbolReferences(Struct, frozen=True):
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


class Memories(Struct, frozen=True):
    status: str
    memories: tuple[Memory, ...]
    total: int
    notes: tuple[str, ...] | None = None


def memories(result: MemoryList, values: dict[str, Any]) -> Reply:
    return shaped(Memories("success", tuple(map(memory, result.memories)), result.total, result.notes or None))


class IndexingProgress(Struct, frozen=True):
    phase: str
    done: int
    total: int


class IndexingStatus(Struct, frozen=True):
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


class Reingested(Struct, frozen=True):
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


class Segment(Struct, frozen=True):
    type: str
    text: str


class AnswerOnly(Struct, frozen=True):
    conversationId: str
    modelId: str
    segments: tuple[Segment, ...]


def answer_only(answer: Answer, values: dict[str, Any]) -> Reply:
    return shaped(AnswerOnly(answer.conversation_id, answer.model_id, (_segment(answer),)))


def _segment(answer: Answer) -> Segment:
    """The answer, and why it is not whole: these clients show nothing else."""
    why = f"\n\nNote: {'; '.join(answer.notes)}." if answer.status == "partial" and answer.notes else ""
    return Segment("answer", answer.text + why)


class DocumentSource(Struct, frozen=True):
    """`number` is the [n] of the answer; `section` is a page, sheet, slide or heading; `opens` is where to read it."""

    number: int
    collection: str
    document: str
    opens: str
    section: str | None = None
    problem: str | None = None  # why the claim it stands for is not verified


class DocumentAnswer(Struct, frozen=True):
    """`confidence` is high, medium or low."""

    answer: str
    sources: tuple[DocumentSource, ...]
    confidence: str
    conversationId: str
    modelId: str
    note: str | None = None


def document_answer(answer: Answer, values: dict[str, Any]) -> Reply:
    sources = tuple(
        DocumentSource(
            one.number, one.collection, one.path, one.opens, section=one.section or None, problem=one.problem or None
        )
        for one in answer.citations
    )
    note = "; ".join(answer.notes) or None
    found = DocumentAnswer(answer.text, sources, answer.confidence, answer.conversation_id, answer.model_id, note=note)
    return shaped(found)


class AgentAnswer(Struct, frozen=True):
    agentName: str
    conversationId: str
    modelId: str
    segments: tuple[Segment, ...]


def agent_answer(run: AgentRun, values: dict[str, Any]) -> Reply:
    return shaped(AgentAnswer(run.agent, run.conversation_id, run.model_id, (_segment(run.answers[-1]),)))


class ListedAgent(Struct, frozen=True):
    name: str
    description: str
    disabled: bool


class ListedAgents(Struct, frozen=True):
    agents: tuple[ListedAgent, ...]


def listed_agents(found: AgentList, values: dict[str, Any]) -> Reply:
    return shaped(ListedAgents(tuple(ListedAgent(a.name, a.description, bool(a.problem)) for a in found.agents)))


# --- documents -----------------------------------------------------------------------------------------------------


class DocumentResults(Struct, frozen=True):
    results: tuple[DocumentHit, ...]
    notes: tuple[str, ...]
    rerankerStatus: str


def document_results(response: DocsSearchResponse, values: dict[str, Any]) -> Reply:
    (found,) = response.searches  # one query, one search
    reply: Reply = jsonable(DocumentResults(found.results, response.notes, found.reranker_status))
    return reply


_SIGNS = 120  # characters that `truncated` and a cursor may need themselves


def fitted(reply: Reply, tokens: int, cursor: str = "") -> Reply:
    """`reply` from the cursor on, with as much as fits."""
    starts = _read(cursor)
    if starts:
        reply = {name: _from(name, value, starts) for name, value in reply.items()}
    limit = most_chars(tokens)
    if size(reply) <= limit:
        return reply
    cut, places = _cut(reply, limit - _SIGNS)
    goes_on = {name: starts.get(name, 0) + at for name, at in places.items()}
    return {**cut, "truncated": True, **({"cursor": _written(goes_on)} if goes_on else {})}


def counted(reply: Reply) -> str:
    """The reply as text, with its own size filled in where it states it."""
    quality = reply.get("searchQuality")
    if quality is not None:
        quality["tokenEstimate"] = estimate_tokens(dumps_plain(reply, compact=True))
    return dumps_plain(reply, compact=True)


def most_chars(tokens: int) -> int:
    return tokens * CHARS_PER_TOKEN


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _from(name: str, value: Any, starts: Mapping[str, int]) -> Any:
    """A field of a page after the first: what was shown in full before is not shown again."""
    if not isinstance(value, list | str):
        return value
    if name in starts:
        return value[starts[name] :]
    return [] if isinstance(value, list) else value


def _cut(reply: Reply, limit: int) -> tuple[Reply, dict[str, int]]:
    """The largest field gives way first, until all fits; and where each was cut."""
    reply, places = dict(reply), dict[str, int]()
    while (excess := size(reply) - limit) > 0:
        sizes = {name: size(value) for name, value in reply.items() if isinstance(value, list | str) and len(value) > 1}
        if not sizes:
            return {name: _shrunk(value, limit // max(len(reply), 1)) for name, value in reply.items()}, places
        name = max(sizes, key=lambda name: sizes[name])
        kept = _fitting(reply[name], max(sizes[name] - excess, 0))
        reply[name], places[name] = reply[name][:kept], kept
    return reply, places


def _fitting(value: Any, room: int) -> int:
    """How many elements of a list, or characters of a text, have room; one at least, or no page would ever end."""
    if isinstance(value, str):
        return max(min(room - 2, len(value) - 1), 1)
    used, kept = 2, 0
    for element in value:
        used += size(element) + 1
        if used > room:
            break
        kept += 1
    return max(min(kept, len(value) - 1), 1)


def _shrunk(value: Any, limit: int) -> Any:
    """One element that is too large by itself: its own lists and texts are cut, for good."""
    if size(value) <= limit:
        return value
    if isinstance(value, list):
        return [_shrunk(element, limit // len(value)) for element in value]
    return _cut(value, limit)[0] if isinstance(value, dict) else value


def _written(places: Mapping[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(places, separators=(",", ":")).encode()).decode().rstrip("=")


def _read(cursor: str) -> dict[str, int]:
    if not cursor:
        return {}
    try:
        places = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(places, dict) and all(isinstance(at, int) and at >= 0 for at in places.values()):
            return {str(name): at for name, at in places.items()}
    except ValueError:
        pass
    raise UsageError("the cursor is not one of ours", next_step="Take it from a reply, or leave it out")
