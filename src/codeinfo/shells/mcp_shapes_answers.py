"""Answers of models and agents in the shape that clients of other servers know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from codeinfo.shells.mcp_shapes import Reply, shaped

if TYPE_CHECKING:
    from codeinfo.operations.answers import AgentList, AgentRun, Answer


class Segment(Struct, frozen=True):
    type: str
    text: str


class AnswerOnly(Struct, frozen=True):
    conversationId: str
    modelId: str
    segments: tuple[Segment, ...]


def answer_only(answer: Answer, values: dict[str, Any]) -> Reply:
    return shaped(AnswerOnly(answer.conversation_id, answer.model_id, (Segment("answer", answer.text),)))


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
    segment = Segment("answer", run.answers[-1].text)
    return shaped(AgentAnswer(run.agent, run.conversation_id, run.model_id, (segment,)))


class ListedAgent(Struct, frozen=True):
    name: str
    description: str
    disabled: bool


class ListedAgents(Struct, frozen=True):
    agents: tuple[ListedAgent, ...]


def listed_agents(found: AgentList, values: dict[str, Any]) -> Reply:
    return shaped(ListedAgents(tuple(ListedAgent(a.name, a.description, bool(a.problem)) for a in found.agents)))
