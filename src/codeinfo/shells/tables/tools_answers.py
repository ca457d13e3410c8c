"""Tools that answer in prose, and agents. Only the answer is returned: no thinking, no traces of tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from codeinfo.operations import answers, documents
from codeinfo.shells import mcp_shapes_answers as shapes
from codeinfo.shells.mcp_schema import Input
from codeinfo.shells.mcp_tools import Tool, Values, placed

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.shells.mcp_calls import Call

_INVALID = -32602
_ANSWER_CODES = {
    "VALIDATION_FAILED": _INVALID,
    "ROOT_REFUSED": _INVALID,
    "NOT_FOUND": _INVALID,
    "REPO_NOT_FOUND": _INVALID,
    "CONVERSATION_ARCHIVED": 410,
    "RUN_IN_PROGRESS": 409,
    "CODE_INFO_LLM_UNAVAILABLE": -32001,
    "": -32002,  # any other failure
}
_QUESTION = Input("question", "The question, in plain words.", required=True)
_CONVERSATION = Input("conversationId", "Go on with this conversation.")
_WHOM = (Input("provider", "Ask this server of those set up."), Input("model", "Ask this model."))


def _asked(values: Values) -> dict[str, Any]:
    """What every question may say beside itself."""
    named = {"conversation": "conversationId", "provider": "provider", "model": "model"}
    return {field: values.get(name, "") for field, name in named.items()}


def _ask_request(values: Values, project: str) -> answers.AskRequest:
    return answers.AskRequest(
        values["question"],
        **_asked(values),
        **placed(answers.AskRequest, "paths", project),
    )


def _documents_request(values: Values, project: str) -> documents.DocsAskRequest:
    return documents.DocsAskRequest(
        values["question"],
        collections=values.get("collections", ()),
        **_asked(values),
        **placed(documents.DocsAskRequest, "path", project),
    )


def _agent_request(values: Values, project: str) -> answers.AgentRunRequest:
    return answers.AgentRunRequest(
        values["agentName"],
        values["instruction"],
        working_folder=project or ".",
        conversation=values.get("conversationId", ""),
    )


def _ask(engine: Engine, request: answers.AskRequest | documents.DocsAskRequest, call: Call) -> answers.Answer:
    return engine.answers.ask(request, **_watched_by(call))


def _run_agent(engine: Engine, request: answers.AgentRunRequest, call: Call) -> answers.AgentRun:
    return engine.answers.run_agent(request, **_watched_by(call))


def _watched_by(call: Call) -> dict[str, Any]:
    check = call.check
    return {"progress": call.progress, "emit": check, "steps": check, "source": "MCP", "wrap": call.stoppable}


_Answering = partial(Tool, codes=_ANSWER_CODES, open_world=True)

TOOLS: tuple[Tool, ...] = (
    _Answering(
        name="codebase_question",
        operation="ask",
        sets=("answers",),
        description="A question about the codebase answered in prose, with citations that were checked. Slower than "
        "search_codebase: a chat model is asked where one is set up, otherwise the best passages are quoted.",
        inputs=(_QUESTION, _CONVERSATION, *_WHOM),
        request=_ask_request,
        result=shapes.AnswerOnly,
        shape=shapes.answer_only,
        perform=_ask,
    ),
    _Answering(
        name="ask_documents",
        operation="docs ask",
        sets=("docs", "answers"),
        description="A question answered in prose from collections of documents, with the page, sheet, slide or "
        "heading of every source, each checked. Slower than documents_search: a chat model is asked where one is set "
        "up, otherwise the best passages are quoted.",
        inputs=(
            _QUESTION,
            Input("collections", "Only these collections, by name or id; all unless named.", "tuple[str, ...]"),
            _CONVERSATION,
            *_WHOM,
        ),
        request=_documents_request,
        result=shapes.DocumentAnswer,
        shape=shapes.document_answer,
        perform=_ask,
    ),
    Tool(
        name="list_agents",
        operation="agents list",
        sets=("agents",),
        description="The agents that run_agent_instruction can run.",
        inputs=(),
        request=lambda values, project: answers.AgentsRequest(),
        project=None,
        result=shapes.ListedAgents,
        shape=shapes.listed_agents,
    ),
    _Answering(
        name="run_agent_instruction",
        operation="agents run",
        sets=("agents",),
        description="Have an agent of list_agents look into a folder and answer an instruction. It reads and changes "
        "nothing.",
        inputs=(
            Input("agentName", "The agent's name.", required=True),
            Input("instruction", "What it is to do.", required=True),
            _CONVERSATION,
        ),
        project=Input("working_folder", "The folder it works on."),
        request=_agent_request,
        result=shapes.AgentAnswer,
        shape=shapes.agent_answer,
        perform=_run_agent,
    ),
)
