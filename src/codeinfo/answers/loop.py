"""The answer pipeline: question → search → grade → (refine or rewrite → search)* → write → check."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.answers.agents import Toolbox, ToolFunctions
from codeinfo.answers.evidence import (
    Evidence,
    PassageFilter,
    cite,
    finder_of,
    focus_passage,
    format_passages,
    halve,
    list_graded,
    payload,
    quote_passages,
    search_text,
)
from codeinfo.answers.model import CONTEXT_OVERFLOW, Model, Spent, fill_prompt, object_schema
from codeinfo.answers.write import Assignment, CitationChecker, Emit, WrittenAnswer, write
from codeinfo.errors import ProviderError
from codeinfo.model import Passage
from codeinfo.operations.answers import Answer, Round, ToolUse, Trace
from codeinfo.operations.base import Listener
from codeinfo.ports import Messages
from codeinfo.search.focus import Finder
from codeinfo.settings import AnswerSettings
from codeinfo.tokens import CHARS_PER_TOKEN, estimate_tokens

ENOUGH = 0.7  # average grade at which the answer is written
PROMISING = 0.3  # from here on results are kept and extended; below, the query was wrong
QUERY_TOKENS = 200  # enough for a query and a sentence
PROMPT_TOKENS = 600  # rules and question around the evidence, roughly
LEAST_EVIDENCE_TOKENS = 200  # with less room than this no answer can be written
UNVERIFIED = "\n\nThis answer cites no source: nothing in it is verified."
NOT_GRADED = "not graded"  # a round interrupted after its search

_QUERY = {"type": "string", "minLength": 2}


class Resources(Struct, frozen=True):
    model: Model
    tools: ToolFunctions
    filter: PassageFilter
    settings: AnswerSettings
    allowed_tools: tuple[str, ...]


class Research(Struct):
    """The results of the rounds, filled in as they happen so that an interrupted run still has them."""

    evidence: Evidence = field(default_factory=Evidence)
    rounds: list[Round] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)  # what the model called while writing
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)  # limits that were hit: the answer is partial

    @property
    def enough(self) -> bool:
        return bool(self.rounds) and self.rounds[-1].verdict == "answer"

    @property
    def gaps(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(gap for gap in self.missing if gap))


def answer(
    assignment: Assignment, resources: Resources, listener: Listener, research: Research | None = None
) -> Answer:
    """Answer a question. Provider failures before the first word are raised; later ones are reported in the answer.
    `research` is filled in for the caller."""
    research, question = research or Research(), assignment.question
    try:
        _research(question, assignment.history, resources, listener, research)
    except Spent as limit:
        research.limits.append(f"the search ended early: {limit}")
    if not (sources := _payload(research, resources)):
        return _build_refusal(question, research, resources)
    listener.step("write", f"{len(sources)} source{'s' * (len(sources) != 1)}")
    calls = resources.settings.tool_calls
    toolbox = Toolbox(
        resources.tools, research.evidence, resources.filter, resources.allowed_tools, calls, research.tools
    )
    assignment = replace(assignment, is_thin=not research.enough)
    write_from = partial(write, assignment, model=resources.model, toolbox=toolbox, emit=listener.text)
    written = _write_what_fits(research.evidence.show(sources), write_from, research)
    return _build_answer(question, written, research, resources, listener.text)


# --- steps ---------------------------------------------------------------------------------------------------------


def _research(question: str, history: Messages, resources: Resources, listener: Listener, research: Research) -> None:
    """Search and grade until the evidence is enough, nothing new is found, or the rounds are used up."""
    query = standalone(question, history, resources)
    for number in range(1, resources.settings.rounds + 1):
        listener.step("search", query)
        admitted = resources.filter.admit(resources.tools.search(query))
        fresh = research.evidence.fresh(admitted.kept)
        research.rounds.append(
            Round(query, list_graded(fresh), admitted.dropped, None, NOT_GRADED, admitted.score_source)
        )
        listener.step("grade", f"{len(fresh)} passages")
        graded = grade(question, fresh, resources.model, resources.filter.weigh(question))
        useful = [passage for passage in graded if passage.grade != 0]
        research.evidence.useful += useful
        average, verdict = decide(graded, useful, number, resources.settings.rounds)
        if any(passage.grade is None for passage in graded) and len(graded) > UNGRADED_UP_TO:
            research.notes.append("the model could not grade every passage: ungraded ones are used as they are")
        research.rounds[-1] = replace(research.rounds[-1], items=list_graded(graded), average=average, verdict=verdict)
        if verdict not in ("refine", "rewrite"):
            return
        # Another search must leave enough tokens to write the answer.
        chars = min(resources.filter.policy.max_chars, sum(len(passage.text) for passage in research.evidence.useful))
        reply_tokens = resources.settings.reply_tokens + QUERY_TOKENS
        resources.model.budget.check(PROMPT_TOKENS + chars // CHARS_PER_TOKEN + reply_tokens)
        query = next_query(question, verdict, research, resources)


def standalone(question: str, history: Messages, resources: Resources) -> str:
    """The text to search for: the question, rewritten to stand alone if it follows earlier turns."""
    if not history:
        return question
    earlier = "\n".join(f"{message.role}: {message.content[:600]}" for message in history[-4:])
    prompt = fill_prompt("standalone", history=earlier, question=json.dumps(question))
    reply = resources.model.json(prompt, object_schema(query=_QUERY), max_tokens=QUERY_TOKENS)
    if reply:
        return str(reply["query"])
    return search_text(question, [message.content for message in history if message.role == "user"])


def decide(graded: Sequence[Passage], useful: Sequence[Passage], number: int, rounds: int) -> tuple[float | None, str]:
    """The average grade of what is kept, and the verdict on what to do next."""
    if 0 < len(graded) <= UNGRADED_UP_TO:
        return None, "answer"
    scores = [passage.grade for passage in useful if passage.grade is not None]
    if useful and not scores:
        return None, "answer"
    average = sum(scores) / len(scores) if scores else 0.0
    if average >= ENOUGH:
        return average, "answer"
    if number > 1 and not graded:
        return average, "nothing new was found"
    verdict = "refine" if average >= PROMISING else "rewrite"
    return average, verdict if number < rounds else f"{verdict}, but {rounds} rounds are the limit"


def next_query(question: str, verdict: str, research: Research, resources: Resources) -> str:
    state = "helps, but is not enough" if verdict == "refine" else "does not help"
    advice = "look for what is missing" if verdict == "refine" else "say it in quite other words"
    listed = (f"- {item.path}:{item.start_line}-{item.end_line} ({item.score})" for item in research.rounds[-1].items)
    prompt = fill_prompt(
        "query",
        state=state,
        advice=advice,
        question=json.dumps(question),
        queries=json.dumps([entry.query for entry in research.rounds]),
        results="\n".join(listed) or "-",
    )
    schema = object_schema(query=_QUERY, missing={"type": "string"})
    reply = resources.model.json(prompt, schema, max_tokens=QUERY_TOKENS)
    if reply is None:
        research.notes.append("the model could not write another query: the question was searched for once more")
        return question
    research.missing.append(str(reply["missing"]).strip())
    return str(reply["query"])


def _payload(research: Research, resources: Resources) -> tuple[Passage, ...]:
    room = resources.model.budget.tokens_left - resources.settings.reply_tokens - PROMPT_TOKENS
    if room < LEAST_EVIDENCE_TOKENS:
        research.limits.append("no tokens are left for an answer")
        return ()
    result = payload(research.evidence, resources.filter.policy, CHARS_PER_TOKEN * room)
    if result.dropped and research.rounds:
        last = research.rounds[-1]
        research.rounds[-1] = replace(last, dropped=(*last.dropped, *result.dropped))
    return result.kept


def _write_what_fits(
    sources: Sequence[Passage], write_from: Callable[[Sequence[Passage]], WrittenAnswer], research: Research
) -> WrittenAnswer:
    """If the evidence exceeds the model's context, retry with half of it, then quote it instead. Some servers do not
    report the overflow but stop before the first word."""
    try:
        return write_from(sources)
    except ProviderError as error:
        if error.code not in (CONTEXT_OVERFLOW, "LLM_BROKEN"):
            raise
        first = error
    fewer = halve(sources)
    research.evidence.shown = {passage.number: passage for passage in fewer}
    try:
        written = write_from(fewer)
    except ProviderError as error:
        if error.code != CONTEXT_OVERFLOW:
            raise first from error
        research.limits.append("the evidence is too large for the model: it is quoted instead")
        return WrittenAnswer("", CitationChecker(research.evidence.shown))
    research.limits.append("the evidence was too large for the model: the answer is written from half of it")
    return written


# --- results -------------------------------------------------------------------------------------------------------


def _build_refusal(question: str, research: Research, resources: Resources) -> Answer:
    sought = ", ".join(f'"{entry.query}"' for entry in research.rounds) or f'"{question}"'
    text = f"The indexed files do not answer this, as far as could be found. Searched for: {sought}."
    if research.gaps:
        text += f"\n\nMissing: {research.gaps[-1]}"
    return Answer(
        question=question,
        text=text,
        kind="generated",
        status="abstained",
        missing=research.gaps or (question,),
        notes=(*research.notes, *research.limits),
        model_id=resources.model.model_id,
        usage=resources.model.budget.usage(),
        took_ms=resources.model.budget.elapsed_ms,
        trace=Trace(tuple(research.rounds)),
    )


def _build_answer(
    question: str, written: WrittenAnswer, research: Research, resources: Resources, emit: Emit
) -> Answer:
    text, gaps = written.text, research.gaps or ("passages that answer the question",)
    if not text:
        text = quote_passages(tuple(research.evidence.shown.values()))
        emit(text)
    if not research.enough:
        closing = written.checker.check(f"\n\nThe evidence is thin. Missing: {gaps[-1]}")
        text += closing
        emit(closing)
    citations = written.checker.citations()
    notes = [*research.notes, *research.limits, *written.notes]
    if written.text and not citations:
        text += UNVERIFIED  # in the answer itself: some clients show nothing else
        emit(UNVERIFIED)
    if not written.text:
        notes.append("the model wrote no answer: these are the passages it was shown")
        citations = tuple(map(cite, research.evidence.shown.values()))
    sources = "".join(passage.text for passage in research.evidence.shown.values())
    return Answer(
        question=question,
        text=text.strip(),
        kind="generated" if written.text else "extractive",
        status="partial" if research.limits or written.notes or not written.text else "ok",
        citations=citations,
        missing=() if research.enough else gaps,
        notes=tuple(dict.fromkeys(notes)),
        model_id=resources.model.model_id,
        usage=resources.model.budget.usage(estimate_tokens(sources)),
        took_ms=resources.model.budget.elapsed_ms,
        trace=Trace(tuple(research.rounds), tuple(research.tools), tuple(written.checker.faults)),
    )


# --- grading ---------------------------------------------------------------------------------------------------------

UNGRADED_UP_TO = 2  # so few are not worth a call
BATCH = 8  # passages per call: small models lose count beyond this
GRADED_CHARS = 600  # per passage, the matching lines: enough to see what it is about
REPLY_TOKENS = 400  # a batch of grades takes about 150

_GRADE = object_schema(passage={"type": "integer"}, score={"type": "number", "minimum": 0, "maximum": 1})
_GRADES = object_schema(grades={"type": "array", "items": _GRADE})


def grade(question: str, passages: Sequence[Passage], model: Model, weights: Mapping[str, float]) -> list[Passage]:
    """The passages with their scores. A batch that the model could not grade keeps `grade=None`. `weights` are the
    question's words by rarity: they choose the lines that are shown."""
    if len(passages) <= UNGRADED_UP_TO:
        return list(passages)
    finder = finder_of(weights)
    batches = (passages[start : start + BATCH] for start in range(0, len(passages), BATCH))
    return [graded for batch in batches for graded in _grade_batch(question, batch, model, finder)]


def _grade_batch(question: str, passages: Sequence[Passage], model: Model, finder: Finder) -> list[Passage]:
    numbers = list(range(1, len(passages) + 1))
    focused = (focus_passage(passage, finder, GRADED_CHARS) for passage in passages)
    shown = format_passages([replace(passage, number=number) for number, passage in enumerate(focused, 1)], "passage")

    def complete(reply: dict[str, Any]) -> Sequence[str]:
        graded_numbers = sorted(entry["passage"] for entry in reply["grades"])
        return () if graded_numbers == numbers else (f"there must be one grade for each of the passages {numbers}",)

    prompt = fill_prompt("grade", question=json.dumps(question), passages=shown, count=str(len(passages)))
    reply = model.json(prompt, _GRADES, complete, max_tokens=REPLY_TOKENS)
    if reply is None:
        return list(passages)
    scores = {entry["passage"]: float(entry["score"]) for entry in reply["grades"]}
    return [replace(passage, grade=scores[number]) for number, passage in enumerate(passages, 1)]
