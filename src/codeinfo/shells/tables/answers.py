"""Questions, agents and conversations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codeinfo.requests import answers as requests
from codeinfo.shells.operations import Operation

if TYPE_CHECKING:
    from codeinfo.engine import Engine

_RENDER = "codeinfo.shells.render_answers:render"


def _evaluate(engine: Engine, request: requests.AnswerEvalRequest, progress: object) -> requests.AnswerEvalReport:
    from codeinfo.evals.answers import run_suites

    return run_suites(engine.answers, request)


_Operation = partial(Operation, group="answers", renderer=_RENDER)

OPERATIONS = (
    _Operation(
        name="ask",
        request=requests.AskRequest,
        handler=lambda engine, request, progress: engine.answers.ask(request, progress=progress),
        summary="Answer a question from the indexed files, with citations that were checked.",
        help="Asks a chat model where one is set up or found; otherwise quotes the best passages and says so.",
        read_only=False,
        live="codeinfo.shells.chat:ask",
    ),
    Operation(
        name="chat",
        request=requests.ChatRequest,
        handler=lambda engine, request, progress: engine.answers.refuse_chat(),
        summary="Ask one question after the other in one conversation.",
        help="An empty line or Ctrl-D ends it. Every answer is kept: `codeinfo conversations list` shows them.",
        read_only=False,
        group="local",
        live="codeinfo.shells.chat:chat",
    ),
    _Operation(
        name="providers",
        request=requests.ProvidersRequest,
        handler=lambda engine, request, progress: engine.answers.providers(request),
        summary="List the chat endpoints that are set up or answer on this machine, with their models.",
        help="",
    ),
    _Operation(
        name="agents list",
        request=requests.AgentsRequest,
        handler=lambda engine, request, progress: engine.answers.agents(request),
        summary="List the agents: those that ship and your own.",
        help="",
    ),
    _Operation(
        name="agents run",
        request=requests.AgentRunRequest,
        handler=lambda engine, request, progress: engine.answers.run_agent(request, progress=progress),
        summary="Have an agent do something with a folder.",
        help="Its tools read the folder and change nothing.",
        read_only=False,
        live="codeinfo.shells.chat:run_agent",
    ),
    _Operation(
        name="conversations list",
        request=requests.ConversationsRequest,
        handler=lambda engine, request, progress: engine.answers.conversations(request),
        summary="List conversations, the latest first.",
        help="",
    ),
    _Operation(
        name="conversations show",
        request=requests.ConversationRequest,
        handler=lambda engine, request, progress: engine.answers.conversation(request),
        summary="Show a conversation with all its turns.",
        help="",
    ),
    _Operation(
        name="conversations search",
        request=requests.ConversationSearchRequest,
        handler=lambda engine, request, progress: engine.answers.search_conversations(request),
        summary="Find conversations by words in their titles, questions and answers.",
        help="",
    ),
    _Operation(
        name="conversations archive",
        request=requests.ConversationIdsRequest,
        handler=lambda engine, request, progress: engine.answers.archive_conversations(request),
        summary="Put conversations away: they stay readable and take no new turns.",
        help="",
        read_only=False,
    ),
    _Operation(
        name="conversations restore",
        request=requests.ConversationIdsRequest,
        handler=lambda engine, request, progress: engine.answers.restore_conversations(request),
        summary="Take conversations out of the archive.",
        help="",
        read_only=False,
    ),
    _Operation(
        name="conversations delete",
        request=requests.ConversationIdsRequest,
        handler=lambda engine, request, progress: engine.answers.delete_conversations(request),
        summary="Delete conversations for good.",
        help="",
        read_only=False,
        confirm="Delete {ids} for good?",
    ),
    _Operation(
        name="conversations export",
        request=requests.ConversationRequest,
        handler=lambda engine, request, progress: engine.answers.export_conversation(request),
        summary="Write a conversation as Markdown.",
        help="",
    ),
    _Operation(
        name="eval answers",
        request=requests.AnswerEvalRequest,
        handler=_evaluate,
        summary="Ask the questions of YAML suites and check what the answers cite, mention or refuse.",
        help="Exit code 3 when an answer lacks something. docs/answers.md describes the files.",
        read_only=False,
        group="local",
        exit_code=lambda report: 3 if report.failed else 0,
    ),
)
