"""Questions, conversations and agents."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from codeinfo.model import Distance, Dropped
from codeinfo.operations.base import PROJECT, Arg, EmptyRequest, Folders, Opt, Refresh, Texts, registry

OPERATIONS, _operation, _change = registry(group="answers", section="Conversations, agents, models")

ConversationId = Annotated[str, Opt("Continue this conversation.", short="c", metavar="ID")]
_PROVIDER = "The provider to ask, by a name from `codeinfo providers`; none quotes passages without a model."
ProviderName = Annotated[str, Opt(_PROVIDER, metavar="NAME")]
ModelName = Annotated[str, Opt("The model to ask.", short="m", metavar="NAME")]
_WORKING_FOLDER = "The folder it works on, the current one by default; its tools cannot leave it."
ShowTrace = Annotated[bool, Opt("Show rounds, grades, what was dropped and why, and tokens.", short="t")]


# --- asking ----------------------------------------------------------------------------------------------------------


class Citation(Struct, frozen=True):
    """A passage that the answer cites as `[number]`. `problem` says why the claim it supports is not verified.

    Of a document, `section` is its page, sheet, slide or heading; of one in a collection, `opens` is where to read it.
    """

    number: int
    root: str
    path: str
    start_line: int
    end_line: int
    symbol: str = ""
    distance: Distance | None = None
    problem: str = ""
    section: str = ""
    collection: str = ""
    opens: str = ""


class AnswerUsage(Struct, frozen=True):
    """Tokens as the endpoint counted them; `estimated` where it did not."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    evidence_tokens: int = 0  # of the passages that the answer was written from, about


class GradedItem(Struct, frozen=True):
    path: str
    start_line: int
    end_line: int
    score: float | None  # None: not graded
    distance: Distance | None = None
    root: str = ""
    preview: str = ""  # its first lines at that time


class Round(Struct, frozen=True):
    """One search of the loop. `verdict` is answer, refine or rewrite, or says why the loop ended there."""

    query: str
    items: tuple[GradedItem, ...]
    dropped: tuple[Dropped, ...]
    average: float | None
    verdict: str
    score_source: str = ""  # where the distances came from that the policy used


class ToolUse(Struct, frozen=True):
    name: str
    arguments: str
    outcome: str  # what came back, in a few words
    failed: bool = False
    items: tuple[GradedItem, ...] = ()  # passages that it returned


class CitationFault(Struct, frozen=True):
    """A citation that failed its check. `action` is removed (nothing of that number was retrieved) or marked."""

    number: int
    claim: str
    problem: str
    action: str


class Trace(Struct, frozen=True):
    rounds: tuple[Round, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    faults: tuple[CitationFault, ...] = ()


class Answer(Struct, frozen=True):
    """`kind` is generated (a model wrote it) or extractive (passages, quoted); `status` is ok, partial (it broke off
    or a limit was hit: `notes` says which), or abstained (the evidence does not answer: `missing` says what)."""

    question: str
    text: str
    kind: str
    status: str
    citations: tuple[Citation, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model_id: str = ""
    provider: str = ""
    conversation_id: str = ""
    usage: AnswerUsage = field(default_factory=AnswerUsage)
    took_ms: float = 0.0
    trace: Trace = field(default_factory=Trace)

    @property
    def confidence(self) -> str:
        """high: written by a model from enough evidence, every claim verified; low: refused, broken off or thin."""
        if self.status != "ok" or self.missing or not self.citations:
            return "low"
        verified = not any(citation.problem for citation in self.citations)
        return "high" if self.kind == "generated" and verified else "medium"


@_change("ask", Answer, "answers.ask", section="Search and ask")
class AskRequest(Struct, frozen=True):
    """Answer a question from the indexed files, with citations that were checked.

    Asks a chat model if one is configured or found; otherwise quotes the best passages and says so.
    """

    question: Annotated[str, Arg("The question, in plain words.")]
    paths: Folders = ()
    conversation: ConversationId = ""
    provider: ProviderName = ""
    model: ModelName = ""
    trace: ShowTrace = False
    refresh: Refresh = True


@_change("chat", Answer, "answers.refuse_chat", group="local", section="Search and ask")
class ChatRequest(Struct, frozen=True):
    """Ask several questions in one conversation.

    An empty line or Ctrl-D ends it. Conversations are saved: see `codeinfo conversations list`.
    """

    paths: Folders = ()
    conversation: ConversationId = ""
    provider: ProviderName = ""
    model: ModelName = ""
    agent: Annotated[str, Opt("Talk to this agent.", short="a", metavar="NAME")] = ""


# --- providers -------------------------------------------------------------------------------------------------------


class Provider(Struct, frozen=True):
    """A chat endpoint. `state` is ok or the code of what went wrong; `chosen` marks the one that `ask` would use."""

    name: str
    base_url: str
    state: str
    models: tuple[str, ...] = ()
    detail: str = ""
    configured: bool = False
    chosen: bool = False


class ProviderList(Struct, frozen=True):
    providers: tuple[Provider, ...]
    notes: tuple[str, ...] = ()


_operation(
    "providers",
    ProviderList,
    "answers.providers",
    "List the chat endpoints that are configured or found on this machine, with their models.",
)(EmptyRequest)


# --- agents ----------------------------------------------------------------------------------------------------------


class AgentCommand(Struct, frozen=True):
    name: str
    description: str
    steps: int


class Agent(Struct, frozen=True):
    name: str
    description: str
    location: str
    tools: tuple[str, ...] = ()
    commands: tuple[AgentCommand, ...] = ()
    model: str = ""
    problem: str = ""  # why it cannot be run


class AgentList(Struct, frozen=True):
    agents: tuple[Agent, ...]


_operation("agents list", AgentList, "answers.agents", "List the agents: the built-in ones and your own.")(EmptyRequest)


class AgentRun(Struct, frozen=True):
    """The answers of an agent: one, or one for each step of a command."""

    agent: str
    conversation_id: str
    model_id: str
    answers: tuple[Answer, ...]


@_change("agents run", AgentRun, "answers.run_agent")
class AgentRunRequest(Struct, frozen=True):
    """Run an agent on a folder.

    Its tools read the folder and change nothing.
    """

    agent: Annotated[str, Arg("The agent's name.")]
    instruction: Annotated[str, Arg("What the agent should do; optional for some commands.")] = ""
    working_folder: Annotated[str, Opt(_WORKING_FOLDER, short="w", metavar="DIR", names=PROJECT)] = "."
    command: Annotated[str, Opt("Run this command's steps, each with the instruction.", metavar="NAME")] = ""
    conversation: Annotated[str, Opt("Continue this conversation with the same agent.", short="c", metavar="ID")] = ""
    provider: ProviderName = ""
    model: ModelName = ""
    trace: ShowTrace = False


# --- conversations ---------------------------------------------------------------------------------------------------


class Conversation(Struct, frozen=True):
    id: str
    title: str
    provider: str
    model: str
    source: str  # CLI, REST or MCP
    created_at: str  # ISO 8601, UTC
    last_message_at: str
    agent_name: str = ""
    archived_at: str | None = None
    turns: int = 0
    running: bool = False
    paths: tuple[str, ...] = ()


class Turn(Struct, frozen=True):
    """`status` is ok, stopped (the user ended it) or failed; a run that crashed left its turn as failed."""

    id: int
    conversation_id: str
    role: str
    content: str
    status: str
    created_at: str
    model: str = ""
    provider: str = ""
    tool_calls: tuple[ToolUse, ...] = ()
    citations: tuple[Citation, ...] = ()
    usage: AnswerUsage | None = None
    took_ms: float | None = None
    error: str = ""
    rounds: tuple[Round, ...] = ()  # the searches that the answer was written from
    notes: tuple[str, ...] = ()


class ConversationPage(Struct, frozen=True):
    conversations: tuple[Conversation, ...]
    next_cursor: str = ""  # "" at the end


@_operation("conversations list", ConversationPage, "conversations.page")
class ConversationsRequest(Struct, frozen=True):
    """List conversations, the latest first."""

    state: Annotated[str, Opt("Which conversations to list.", choices=("active", "archived", "all"))] = "active"
    limit: Annotated[int, Opt("At most this many.", short="n", minimum=1, maximum=100)] = 20
    cursor: Annotated[str, Opt("Continue where an earlier list ended.")] = ""
    agent: Annotated[str, Opt("Only those with this agent.", metavar="NAME")] = ""


class ConversationRequest(Struct, frozen=True):
    id: Annotated[str, Arg("The conversation, by its id or at least its first six characters.")]


class ConversationDetail(Struct, frozen=True):
    conversation: Conversation
    turns: tuple[Turn, ...]


_operation("conversations show", ConversationDetail, "conversations.show", "Show a conversation with all its turns.")(
    ConversationRequest
)


class ConversationMatch(Struct, frozen=True):
    conversation: Conversation
    excerpt: str


class ConversationMatches(Struct, frozen=True):
    text: str
    matches: tuple[ConversationMatch, ...]


@_operation("conversations search", ConversationMatches, "conversations.search")
class ConversationSearchRequest(Struct, frozen=True):
    """Find conversations by words in their titles, questions and answers."""

    text: Annotated[str, Arg("Words to look for in titles, questions and answers.")]
    limit: Annotated[int, Opt("At most this many.", short="n", minimum=1, maximum=100)] = 20


class ConversationIdsRequest(Struct, frozen=True):
    ids: Annotated[Texts, Arg("The conversations, each by its id or at least its first six characters.")]


class ConversationsChanged(Struct, frozen=True):
    action: str  # archived, restored or deleted
    ids: tuple[str, ...]


_change(
    "conversations archive",
    ConversationsChanged,
    "conversations.archive",
    "Archive conversations: they stay readable but take no new turns.",
)(ConversationIdsRequest)


_change("conversations restore", ConversationsChanged, "conversations.restore", "Restore archived conversations.")(
    ConversationIdsRequest
)


_change(
    "conversations delete",
    ConversationsChanged,
    "conversations.delete",
    "Delete conversations permanently.",
    confirm="Delete {ids} permanently?",
)(ConversationIdsRequest)


class ConversationExport(Struct, frozen=True):
    id: str
    markdown: str


_operation(
    "conversations export", ConversationExport, "answers.export_conversation", "Write a conversation as Markdown."
)(ConversationRequest)
