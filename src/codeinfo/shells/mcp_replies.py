"""Replies of tools: in the shape that clients of other servers expect, and cut to their token budget.

In a reply that is too long the largest lists and texts are cut, and a cursor says where each continues. The cursor
holds no server state: it is the positions at which fields were cut, so that the same call with it resumes there.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from textwrap import dedent
from typing import Annotated, Any, Self

import msgspec
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from codeinfo.errors import UsageError
from codeinfo.model import (
    INDEXING,
    NO_TRENDS,
    CardImpact,
    CardPatterns,
    Hit,
    HitContext,
    RelatedMemory,
    SearchResult,
    Step,
    dumps_plain,
    fill,
    json_decoder,
    jsonable,
    phrase,
)
from codeinfo.operations.answers import AgentList, AgentRun, Answer
from codeinfo.operations.code import Exploration, ReferenceReport
from codeinfo.operations.documents import DocsSearchResponse, DocumentHit
from codeinfo.operations.knowledge import MemoryList
from codeinfo.operations.search import GrepResult, IndexResponse, StatusReport
from codeinfo.tokens import CHARS_PER_TOKEN, estimate_tokens

Reply = dict[str, Any]


class Shape(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reply or a part of it: its keys are in camel case, and fields with their default value are left out."""

    @classmethod
    def of(cls, result: Any, /) -> Self:
        """The reply for the result of an operation, by the names of its fields."""
        return fill(cls, result)


def as_json(value: object, write: Callable[[Step], str] = Step.command) -> Any:
    """As JSON. A shape is written for agents: `write` names an operation it advises to run. The result of an
    operation is the same in every shell."""
    if isinstance(value, Shape):
        value = to_builtins(value, enc_hook=lambda text: phrase(text, write))
    return jsonable(value)


# --- search_codebase -----------------------------------------------------------------------------------------------


class SearchQuality(Shape, frozen=True):
    status: str  # ok or low_confidence
    confidence: float
    token_estimate: int
    hint: str = ""
    reranker_status: str = "off"  # whether a reranker ordered the first results, and why not


class Relationships(Shape, frozen=True):
    imported_by_count: int
    has_tests: bool


class Hints(Shape, frozen=True):
    callers: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    more: tuple[str, ...] = ()  # further good places in the same file


class CodeResult(Shape, frozen=True):
    """`file` is path:start-end; `score` is relative to the best result."""

    file: str
    summary: str
    score: float
    type: str = ""  # componentType:layer
    trend: str = ""
    pattern_warning: str = ""
    relationships: Relationships | None = None
    hints: Hints | None = None
    snippet: str = ""


class Preflight(Shape, frozen=True):
    ready: bool
    next_action: str = ""
    warnings: tuple[str, ...] = ()
    patterns: CardPatterns | None = None
    best_example: str = ""
    impact: CardImpact | None = None
    what_would_help: tuple[str, ...] = ()


class MatchedLine(Shape, frozen=True):
    path: str
    line: int
    column: int
    text: str
    symbol: str  # the innermost definition around it


SHOWN_WHOLE = 3  # results shown with hints and, unless requested otherwise, their text: a model rarely reads more
SNIPPET_CHARS = 240  # of each of these; whole lines
SUMMARY_CHARS = 100
CALLERS = 2
RESULTS_TOKENS = 800  # for ten results and the fields around them


class CodebaseSearch(Shape, frozen=True):
    """`status` is success, or indexing while the results come from a part of the project."""

    status: str
    search_quality: SearchQuality
    results: tuple[CodeResult, ...]
    preflight: Preflight | None = None
    related_memories: tuple[RelatedMemory, ...] = ()
    suggestions: tuple[str, ...] = ()  # spellings that occur here, for a query whose words do not
    notes: tuple[str, ...] = ()
    matches: tuple[MatchedLine, ...] | None = None  # of mode literal or regex, by path and line
    total: int | None = None  # lines that match, those not shown included

    @classmethod
    def of(cls, result: SearchResult | GrepResult, snippets: bool | None = None, /) -> Self:
        """With `snippets` all results are shown in full; otherwise the first ones, and only location and
        summary of the rest."""
        if isinstance(result, GrepResult):
            sure, lines = SearchQuality("ok", 1.0, 0), tuple(map(MatchedLine.of, result.matches))
            return cls("success", sure, (), notes=result.notes, matches=lines, total=result.total)
        hint = result.quality.hint or "; ".join(result.quality.reasons)
        codes = [getattr(note, "code", "") for note in result.notes]
        search = fill(
            cls,
            result,
            status="indexing" if INDEXING in codes else "success",
            search_quality=fill(SearchQuality, result.quality, token_estimate=0, hint=hint),
            results=tuple(_code_result(hit, place, snippets) for place, hit in enumerate(result.hits)),
            preflight=result.preflight and Preflight.of(result.preflight),
            related_memories=result.memories,
            notes=tuple(note for note, code in zip(result.notes, codes, strict=True) if snippets or code != NO_TRENDS),
        )
        return search if snippets else search.within_budget()

    def within_budget(self) -> Self:
        """Without the last snippets: ten results cost a known number of tokens."""
        results = list(self.results)
        excess = _tokens(CodebaseSearch(self.status, self.search_quality, self.results)) - RESULTS_TOKENS
        for place in reversed(range(min(len(results), SHOWN_WHOLE))):
            if excess > 0:
                excess -= _tokens(results[place].snippet)
                results[place] = replace(results[place], snippet="")
        return replace(self, results=tuple(results))


def _tokens(value: object) -> int:
    return estimate_tokens(dumps_plain(as_json(value), compact=True))


def _code_result(hit: Hit, place: int, snippets: bool | None) -> CodeResult:
    context, whole = hit.context or HitContext(), snippets is True or place < SHOWN_WHOLE
    summary = hit.breadcrumb or (f"{hit.symbol_kind} {hit.symbol}" if hit.symbol else _first_line(hit)) or hit.language
    shown = CodeResult(
        file=f"{hit.path}:{hit.start_line}-{hit.end_line}",
        summary=summary if snippets or len(summary) <= SUMMARY_CHARS else f"{summary[:SUMMARY_CHARS]}…",
        score=round(hit.score, 2),
        type=":".join(filter(None, (context.type or (hit.symbol_kind if hit.symbol else ""), context.layer))),
        trend=context.trend,
        pattern_warning=context.pattern_warning,
    )
    if not whole:
        return shown
    related = Relationships.of(context)
    hints = Hints(callers=context.callers[:CALLERS])
    if snippets:
        hints = fill(Hints, context, more=tuple(f"{hit.path}:{first}-{last}" for first, last in hit.more))
    return replace(
        shown,
        relationships=related if related != Relationships(0, False) else None,
        hints=hints if hints != Hints() else None,
        snippet="" if snippets is False else _snippet(hit, len(hit.text) if snippets else SNIPPET_CHARS),
    )


def _first_line(hit: Hit) -> str:
    from codeinfo.search.focus import ABOVE_A_LINE, line_kind  # imported late: a server starts without numpy

    return next((line.strip() for line in hit.text.split("\n") if line_kind(line) not in ABOVE_A_LINE), "")


def _snippet(hit: Hit, most: int) -> str:
    """Whole lines of the text, without the comments above what it is about if they leave no room for that, under the
    name of what they belong to unless they contain it."""
    from codeinfo.search.focus import ABOVE_A_LINE, LineKind, line_kind

    text, named = hit.text, re.compile(rf"(?<!\w){re.escape(hit.symbol.rpartition('.')[2])}(?!\w)")
    if hit.symbol and len(text) > most:
        lines = text.split("\n")
        kinds = [line_kind(line) for line in lines]
        start = next((at for at, line in enumerate(lines) if kinds[at] not in ABOVE_A_LINE and named.search(line)), 0)
        is_below_comments = ABOVE_A_LINE.issuperset(kinds[:start])
        while start and kinds[start - 1] is LineKind.ATTRIBUTE:
            start -= 1
        if is_below_comments or len("\n".join(lines[: start + 1])) > most:
            text = "\n".join(lines[start:])
    text = dedent(text)
    cut = text[:most].rpartition("\n")[0] or text[:most] if len(text) > most else text
    says_it = not hit.symbol or named.search(cut.partition("\n")[0])
    return cut if says_it else f"// {hit.symbol}\n{cut}"


# --- explore -------------------------------------------------------------------------------------------------------


class Explored(Shape, frozen=True):
    place: str
    code: str = ""
    definitions: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    callees: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    totals: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: Exploration, /) -> Self:
        listed = tuple(f"{d.path}:{d.start_line}-{d.end_line} {d.signature or d.qualified}" for d in result.definitions)
        definitions = listed if result.kind == "file" or len(listed) > 1 else ()
        return fill(cls, result, definitions=definitions, memories=tuple(map(memory_line, result.memories)))


def memory_line(memory: RelatedMemory) -> str:
    return f"{memory.type}: {memory.memory} ({memory.label})"


def list_hit_files(result: SearchResult | GrepResult, root: str) -> Iterable[str]:
    hits = result.matches if isinstance(result, GrepResult) else result.hits
    return (f"{hit.root}/{hit.path}" for hit in hits)


# --- references, memory, status ------------------------------------------------------------------------------------


class SymbolUsage(Shape, frozen=True):
    file: str
    line: int
    preview: str
    confidence: str  # resolved or syntactic


class SymbolReferences(Shape, frozen=True):
    status: str
    symbol: str
    usage_count: int
    usages: tuple[SymbolUsage, ...]
    confidence: str
    is_complete: bool

    @classmethod
    def of(cls, report: ReferenceReport, /) -> Self:
        return fill(cls, report, status="success", usages=tuple(map(SymbolUsage.of, report.usages)))


class Memories(Shape, frozen=True):
    status: str
    memories: tuple[RelatedMemory, ...]
    total: int
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: MemoryList, /) -> Self:
        return fill(cls, result, status="success")


class IndexingProgress(Shape, frozen=True):
    phase: str
    done: int
    total: int


class IndexingStatus(Shape, frozen=True):
    """`status` is ready, stale, missing, building or damaged."""

    status: str
    project: str
    files: int
    chunks: int
    indexed_at: str
    model_id: str
    pending_changes: int
    languages: dict[str, int]
    progress: IndexingProgress | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, state: tuple[StatusReport, Any], /) -> Self:
        report, running = state
        index = report.indexes[0]
        return fill(
            cls,
            index,
            status="building" if running else index.state,
            project=index.root,
            pending_changes=index.added + index.changed + index.removed,
            progress=running and IndexingProgress.of(running),
        )


# --- reingest_repository -------------------------------------------------------------------------------------------


class Reingested(Shape, frozen=True):
    status: str
    operation: str
    run_id: str
    source_id: str
    duration_ms: float
    files: int
    chunks: int
    embedded: int
    error_code: str | None

    @classmethod
    def of(cls, response: IndexResponse, /) -> Self:
        report = response.reports[0]
        return fill(
            cls,
            report,
            status="completed",
            operation="reembed",
            run_id=secrets.token_hex(8),
            source_id=report.root,
            duration_ms=report.took_ms,
            embedded=report.added + report.changed if report.model_id else 0,
            error_code=None,
        )


# --- answers -------------------------------------------------------------------------------------------------------


class Segment(Shape, frozen=True):
    type: str
    text: str

    @classmethod
    def of(cls, answer: Answer, /) -> Self:
        """The answer, and why it is partial: these clients show nothing else."""
        why = f"\n\nNote: {'; '.join(answer.notes)}." if answer.status == "partial" and answer.notes else ""
        return cls("answer", answer.text + why)


class AnswerOnly(Shape, frozen=True):
    conversation_id: str
    model_id: str
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, answer: Answer, /) -> Self:
        return fill(cls, answer, segments=(Segment.of(answer),))


class DocumentSource(Shape, frozen=True):
    """`number` is the [n] of the answer; `section` is a page, sheet, slide or heading; `opens` is where to read it."""

    number: int
    collection: str
    document: str
    opens: str
    section: str = ""
    problem: str = ""  # why the claim it supports is not verified


class DocumentAnswer(Shape, frozen=True):
    """`confidence` is high, medium or low."""

    answer: str
    sources: tuple[DocumentSource, ...]
    confidence: str
    conversation_id: str
    model_id: str
    note: str = ""

    @classmethod
    def of(cls, answer: Answer, /) -> Self:
        sources = tuple(fill(DocumentSource, citation, document=citation.path) for citation in answer.citations)
        return fill(cls, answer, answer=answer.text, sources=sources, note="; ".join(answer.notes))


class AgentAnswer(Shape, frozen=True):
    conversation_id: str
    model_id: str
    segments: tuple[Segment, ...]
    agent_name: str

    @classmethod
    def of(cls, run: AgentRun, /) -> Self:
        return fill(cls, run, agent_name=run.agent, segments=(Segment.of(run.answers[-1]),))


class ListedAgent(Shape, frozen=True):
    name: str
    description: str
    disabled: bool


class ListedAgents(Shape, frozen=True):
    agents: tuple[ListedAgent, ...]

    @classmethod
    def of(cls, listing: AgentList, /) -> Self:
        return cls(tuple(fill(ListedAgent, agent, disabled=bool(agent.problem)) for agent in listing.agents))


class DocumentResults(Shape, frozen=True):
    results: tuple[DocumentHit, ...]
    notes: tuple[str, ...]
    reranker_status: str

    @classmethod
    def of(cls, response: DocsSearchResponse, /) -> Self:
        (search,) = response.searches  # one query, one search
        return fill(cls, search, notes=response.notes)


# --- the budget ----------------------------------------------------------------------------------------------------

_SIGNS = 120  # characters that `truncated` and a cursor may need themselves
_Places = dict[str, Annotated[int, msgspec.Meta(ge=0)]]  # where each field of a reply was cut


def fit_reply(reply: Reply, tokens: int, cursor: str = "") -> Reply:
    """The part of a reply from the cursor on that fits the budget."""
    if starts := _read_cursor(cursor):
        reply = {name: _resume_field(name, value, starts) for name, value in reply.items()}
    limit = tokens * CHARS_PER_TOKEN
    if size(reply) <= limit:
        return reply
    cut, places = _cut(reply, limit - _SIGNS)
    goes_on = {name: starts.get(name, 0) + at for name, at in places.items()}
    if not goes_on:
        return {**cut, "truncated": True}
    following = base64.urlsafe_b64encode(json.dumps(goes_on, separators=(",", ":")).encode()).decode()
    return {**cut, "truncated": True, "cursor": following.rstrip("=")}


def write_counted(reply: Reply) -> str:
    """The reply as text, with its size filled in if it has a field for that."""
    if (quality := reply.get("searchQuality")) is not None:
        quality["tokenEstimate"] = estimate_tokens(dumps_plain(reply, compact=True))
    return dumps_plain(reply, compact=True)


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _resume_field(name: str, value: Any, starts: Mapping[str, int]) -> Any:
    """A field on a later page: what was shown in full before is not repeated."""
    if not isinstance(value, list | str):
        return value
    if name in starts:
        return value[starts[name] :]
    return [] if isinstance(value, list) else value


def _cut(reply: Reply, limit: int) -> tuple[Reply, dict[str, int]]:
    """Cut the largest field first, until everything fits; also returns where each was cut."""
    reply, places = dict(reply), dict[str, int]()
    while (excess := size(reply) - limit) > 0:
        sizes = {name: size(value) for name, value in reply.items() if isinstance(value, list | str) and len(value) > 1}
        if not sizes:
            return {name: _shrink(value, limit // max(len(reply), 1)) for name, value in reply.items()}, places
        name = max(sizes, key=lambda name: sizes[name])
        count = _count_fitting(reply[name], max(sizes[name] - excess, 0))
        reply[name], places[name] = reply[name][:count], count
    return reply, places


def _count_fitting(value: Any, room: int) -> int:
    """How many elements of a list, or characters of a text, fit; at least one, or no page would ever end."""
    if isinstance(value, str):
        return max(min(room - 2, len(value) - 1), 1)
    used, count = 2, 0
    for element in value:
        used += size(element) + 1
        if used > room:
            break
        count += 1
    return max(min(count, len(value) - 1), 1)


def _shrink(value: Any, limit: int) -> Any:
    """An element that is too large by itself: its own lists and texts are cut, without a cursor."""
    if size(value) <= limit:
        return value
    if isinstance(value, list):
        return [_shrink(element, limit // len(value)) for element in value]
    return _cut(value, limit)[0] if isinstance(value, dict) else value


def _read_cursor(cursor: str) -> dict[str, int]:
    if not cursor:
        return {}
    try:
        return json_decoder(_Places).decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise UsageError("the cursor is not valid", "Take it from a reply, or leave it out") from error
