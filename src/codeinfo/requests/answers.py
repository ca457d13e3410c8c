"""Questions, conversations and agents: what is asked of the engine, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from codeinfo.requests import _arg, _opt, _required
from codeinfo.types import Distance, Dropped

_PATHS = "Folders to ask about; the current one unless named."
PROVIDER = "Ask this server, by a name that `codeinfo providers` shows; none quotes passages and asks no model."
MODEL = "Ask this model."


# --- asking --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskRequest:
    question: str = _required("The question, in plain words.")
    paths: tuple[str, ...] = _arg((".",), _PATHS)
    conversation: str = _opt("", "Go on with this conversation.", short="c", metavar="ID")
    provider: str = _opt("", PROVIDER, metavar="NAME")
    model: str = _opt("", MODEL, short="m", metavar="NAME")
    trace: bool = _opt(False, "Show rounds, grades, what was dropped and why, and tokens.", short="t")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    paths: tuple[str, ...] = _arg((".",), _PATHS)
    conversation: str = _opt("", "Go on with this conversation.", short="c", metavar="ID")
    provider: str = _opt("", PROVIDER, metavar="NAME")
    model: str = _opt("", MODEL, short="m", metavar="NAME")
    agent: str = _opt("", "Talk to this agent.", short="a", metavar="NAME")


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that the answer cites as `[number]`. `problem` says why the claim it stands for is not verified.

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


@dataclass(frozen=True, slots=True)
class AnswerUsage:
    """Tokens as the endpoint counted them; `estimated` where it did not."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    evidence_tokens: int = 0  # of the passages that the answer was written from, about


@dataclass(frozen=True, slots=True)
class GradedItem:
    path: str
    start_line: int
    end_line: int
    score: float | None  # None: not graded
    distance: Distance | None = None
    root: str = ""
    preview: str = ""  # its first lines, as they were then


@dataclass(frozen=True, slots=True)
class Round:
    """One search of the loop. `verdict` is answer, refine or rewrite, or says why the loop ended there."""

    query: str
    items: tuple[GradedItem, ...]
    dropped: tuple[Dropped, ...]
    average: float | None
    verdict: str
    score_source: str = ""  # where the distances came from that the policy used


@dataclass(frozen=True, slots=True)
class ToolUse:
    name: str
    arguments: str
    outcome: str  # what came back, in a few words
    failed: bool = False
    items: tuple[GradedItem, ...] = ()  # passages that it brought


@dataclass(frozen=True, slots=True)
class CitationFault:
    """A citation that did not hold. `action` is removed (nothing of that number was retrieved) or marked."""

    number: int
    claim: str
    problem: str
    action: str


@dataclass(frozen=True, slots=True)
class Trace:
    rounds: tuple[Round, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    faults: tuple[CitationFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
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
        verified = not any(one.problem for one in self.citations)
        return "high" if self.kind == "generated" and verified else "medium"


# --- providers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProvidersRequest:
    pass


@dataclass(frozen=True, slots=True)
class Provider:
    """A chat endpoint. `state` is ok or the code of what went wrong; `chosen` marks the one that `ask` would use."""

    name: str
    base_url: str
    state: str
    models: tuple[str, ...] = ()
    detail: str = ""
    configured: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class ProviderList:
    providers: tuple[Provider, ...]
    notes: tuple[str, ...] = ()


# --- agents --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentsRequest:
    pass


@dataclass(frozen=True, slots=True)
class AgentCommand:
    name: str
    description: str
    steps: int


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    description: str
    location: str
    tools: tuple[str, ...] = ()
    commands: tuple[AgentCommand, ...] = ()
    model: str = ""
    problem: str = ""  # why it cannot be run


@dataclass(frozen=True, slots=True)
class AgentList:
    agents: tuple[Agent, ...]


@dataclass(frozen=True, slots=True)
class AgentRunRequest:
    agent: str = _required("The agent's name.")
    instruction: str = _arg("", "What it is to do; a command may need none.")
    working_folder: str = _opt(
        ".",
        "The folder it works on, the current one unless named; its tools reach nothing outside.",
        short="w",
        metavar="DIR",
    )
    command: str = _opt("", "Run this command's steps, each with the instruction.", metavar="NAME")
    conversation: str = _opt("", "Go on with this conversation of the same agent.", short="c", metavar="ID")
    provider: str = _opt("", PROVIDER, metavar="NAME")
    model: str = _opt("", MODEL, short="m", metavar="NAME")
    trace: bool = _opt(False, "Show rounds, grades, what was dropped and why, and tokens.", short="t")


@dataclass(frozen=True, slots=True)
class AgentRun:
    """The answers of an agent: one, or one for each step of a command."""

    agent: str
    conversation_id: str
    model_id: str
    answers: tuple[Answer, ...]


# --- conversations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conversation:
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


@dataclass(frozen=True, slots=True)
class Turn:
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


@dataclass(frozen=True, slots=True)
class ConversationsRequest:
    state: str = _opt("active", "Which ones.", choices=("active", "archived", "all"))
    limit: int = _opt(20, "At most this many.", short="n", minimum=1, maximum=100)
    cursor: str = _opt("", "Go on where an earlier list ended.")
    agent: str = _opt("", "Only those with this agent.", metavar="NAME")


@dataclass(frozen=True, slots=True)
class ConversationPage:
    conversations: tuple[Conversation, ...]
    next_cursor: str = ""  # "" at the end


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    id: str = _required("The conversation, by its id or the first six characters of it or more.")


@dataclass(frozen=True, slots=True)
class ConversationDetail:
    conversation: Conversation
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class ConversationSearchRequest:
    text: str = _required("Words to look for in titles, questions and answers.")
    limit: int = _opt(20, "At most this many.", short="n", minimum=1, maximum=100)


@dataclass(frozen=True, slots=True)
class ConversationMatch:
    conversation: Conversation
    excerpt: str


@dataclass(frozen=True, slots=True)
class ConversationMatches:
    text: str
    matches: tuple[ConversationMatch, ...]


@dataclass(frozen=True, slots=True)
class ConversationIdsRequest:
    ids: tuple[str, ...] = _required("The conversations, each by its id or the first six characters of it or more.")


@dataclass(frozen=True, slots=True)
class ConversationsChanged:
    action: str  # archived, restored or deleted
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConversationExport:
    id: str
    markdown: str


# --- answer tests --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerEvalRequest:
    suites: tuple[str, ...] = _required("YAML files with questions and what their answers must have.")
    paths: tuple[str, ...] = _opt(
        (".",), "The folders the questions are about; the current one unless named.", metavar="DIR"
    )
    provider: str = _opt("", PROVIDER, metavar="NAME")
    model: str = _opt("", MODEL, short="m", metavar="NAME")


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """One question of a suite and what its answer lacks; nothing lacking is a pass."""

    suite: str
    question: str
    passed: bool
    failures: tuple[str, ...]
    status: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class AnswerEvalReport:
    checks: tuple[AnswerCheck, ...]
    passed: int
    failed: int
