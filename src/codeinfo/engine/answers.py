"""`Engine.answers`: questions, agents, conversations and providers, each with a typed request and a typed result."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from codeinfo.answers.agents import ALL_TOOLS, BUNDLED, Profile, list_agents, load_agent
from codeinfo.answers.conversation import history_messages, search_text, title_of, to_markdown
from codeinfo.answers.evidence import Gate, extract
from codeinfo.answers.loop import Means, Progress, Research, answer
from codeinfo.answers.model import Budget, Metered, Model
from codeinfo.config import Config
from codeinfo.engine.index_manager import ProgressSink
from codeinfo.engine.lookup import CodeLookup, DocumentLookup, Lookup, LookupOperations
from codeinfo.engine.models import ChatModel, choose_chat_model, list_providers, unavailable
from codeinfo.engine.search import policy_settings
from codeinfo.errors import CodeInfoError, ProviderError, UsageError
from codeinfo.model import NextStep, to_run
from codeinfo.operations import answers as ops
from codeinfo.operations.documents import DocsAskRequest
from codeinfo.store.conversations import ConversationStore

if TYPE_CHECKING:
    from codeinfo.ports import Llm, Message
    from codeinfo.team.answers import SharedAnswers

Emit = Callable[[str], None]
Steps = Callable[[Progress], None]


def _silent(_: object) -> None:
    return None


class AnswerOperations:
    def __init__(self, config: Config, operations: LookupOperations) -> None:
        self._config = config
        self._operations = operations
        self._lock = threading.Lock()
        self._store: ConversationStore | None = None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def store(self) -> ConversationStore:
        with self._lock:
            if self._store is None:
                self._store = ConversationStore(self._operations.indexes.user_data)
            return self._store

    @property
    def shared(self) -> SharedAnswers | None:
        """Answers that are being written, as all servers of a team see them."""
        if self._operations.indexes.team is None:
            return None
        from codeinfo.team.answers import SharedAnswers

        return SharedAnswers(self._operations.indexes.team)

    # --- asking ---

    def ask(
        self,
        request: ops.AskRequest | DocsAskRequest,
        *,
        progress: ProgressSink | None = None,
        emit: Emit = _silent,
        steps: Steps = _silent,
        source: str = "CLI",
        wrap: Callable[[Llm], Llm] | None = None,
        agent: Profile | None = None,
        left_out: Sequence[Path] = (),
    ) -> ops.Answer:
        """`emit` gets the text as it is written, `steps` what is being done; `source` is the kind of client; `wrap` may
        put something around the model, such as a way to hang up on it.
        Files in `left_out` are not searched or read: the questions of a test must not be their own answers."""
        if not request.question.strip():
            raise UsageError("the question is empty", next_step="Ask something")
        known = self._conversation_for(request.conversation, agent)
        try:
            chosen = choose_chat_model(
                self._config,
                request.provider or (agent.provider if agent else ""),
                request.model or (agent.model if agent else ""),
                self._config.answers.timeout_s,
            )
        except ProviderError as error:
            raise unavailable(error) from error
        if wrap is not None and chosen.llm is not None:
            chosen = replace(chosen, llm=wrap(chosen.llm))
        model_id = chosen.llm.model_id if chosen.llm else ""
        lookup = self._lookup(request, progress, left_out)  # what it refuses leaves no conversation behind
        identity = known.id if known else self._new_conversation(request, chosen, model_id, source, agent)
        with self.store.run(identity):
            earlier = self.store.turns(identity)
            turn = self.store.begin(identity, request.question, provider=chosen.provider, model=model_id)
            heard: list[str] = []  # what of the answer was shown and
            found = Research()  # what was looked up, should the run break off

            def show(text: str) -> None:
                heard.append(text)
                emit(text)

            try:
                reply = self._reply(request.question, lookup, chosen, earlier, agent, show, steps, found)
            except BaseException as error:
                self._keep_failure(turn, "".join(heard), found, error)
                raise (unavailable(error) if isinstance(error, ProviderError) else error) from None
            notes = tuple(dict.fromkeys((*reply.notes, *lookup.notes)))
            cited = tuple(lookup.cited(one) for one in reply.citations)
            reply = replace(reply, conversation_id=identity, provider=chosen.provider, notes=notes, citations=cited)
            self._keep(turn, reply)
        return reply

    def _lookup(
        self, request: ops.AskRequest | DocsAskRequest, progress: ProgressSink | None, left_out: Sequence[Path]
    ) -> Lookup:
        if isinstance(request, ops.AskRequest):
            return CodeLookup(self._operations, request.paths, self._config.answers.items, progress, left_out)
        return DocumentLookup(self._operations, request, self._config.answers.items, progress)

    def _reply(
        self,
        question: str,
        lookup: Lookup,
        chosen: ChatModel,
        earlier: Sequence[ops.Turn],
        agent: Profile | None,
        show: Emit,
        steps: Steps,
        found: Research,
    ) -> ops.Answer:
        history = history_messages(earlier, self._config.answers.history_turns)
        if chosen.llm is None:
            reply = self._extracted(question, lookup, chosen, history)
            show(reply.text)
            return reply
        system = agent.system_prompt if agent else ""
        means = self._means(chosen.llm, lookup, agent)
        # A model that calls no tools must know the card all the same.
        look_up_card = means.tools.decision_card
        card = look_up_card(question) if look_up_card and agent and "decision_card" in agent.tools else ""
        return answer(
            question, means, history=history, system=system, briefing=card, emit=show, progress=steps, found=found
        )

    def refuse_chat(self) -> NoReturn:
        raise UsageError(
            "chat talks to people", next_step=NextStep("Programs use ", to_run("ask", "QUESTION", conversation="ID"))
        )

    def _means(self, llm: Llm, lookup: Lookup, agent: Profile | None) -> Means:
        from codeinfo.models.chat import ThinkFilter
        from codeinfo.models.structured import structured

        settings = self._config.answers
        budget = Budget(settings.max_tokens, settings.timeout_s)
        return Means(
            model=Model(Metered(llm, budget), structured, ThinkFilter),
            budget=budget,
            tools=lookup.functions(),
            gate=self._gate(lookup),
            settings=settings,
            allowed_tools=agent.tools if agent else ALL_TOOLS,
        )

    def _extracted(self, question: str, lookup: Lookup, chosen: ChatModel, history: Sequence[Message]) -> ops.Answer:
        budget = Budget(self._config.answers.max_tokens, self._config.answers.timeout_s)
        query = search_text(question, [message.content for message in history if message.role == "user"])
        found = lookup.search(query)
        relevant = self._gate(lookup).relevant(found)
        reply = extract(question, found, relevant.items, lookup.word_weights(query))
        shown = tuple(item.graded() for item in relevant.items)
        seen = ops.Round(query, shown, relevant.dropped, None, reply.status, relevant.score_source)
        followed = f'taken as a follow-up: searched for "{query}"' if query != question else ""
        notes = tuple(note for note in (chosen.note, followed) if note)
        return replace(reply, notes=notes, took_ms=budget.elapsed_ms, trace=ops.Trace((seen,)))

    def _gate(self, lookup: Lookup) -> Gate:
        retrieval, settings = self._config.retrieval, self._config.answers
        return Gate(policy_settings(retrieval), lookup.word_weights, settings.least_score, settings.passage_chars)

    # --- keeping ---

    def _conversation_for(self, given: str, agent: Profile | None) -> ops.Conversation | None:
        if not given:
            return None
        known = self.store.get(given)
        if known.agent_name != (agent.name if agent else ""):
            whose = f"agent {known.agent_name}" if known.agent_name else "no agent"
            raise UsageError(
                f"conversation {known.id} was held with {whose}", next_step="Go on with the same, or start a new one"
            )
        return known

    def _new_conversation(
        self,
        request: ops.AskRequest | DocsAskRequest,
        chosen: ChatModel,
        model_id: str,
        source: str,
        agent: Profile | None,
    ) -> str:
        paths = request.paths if isinstance(request, ops.AskRequest) else (request.path,)
        paths = paths or (self._operations.indexes.locate(""),)
        return self.store.create(
            title=title_of(request.question),
            provider=chosen.provider,
            model=model_id,
            source=source,
            agent_name=agent.name if agent else "",
            paths=[os.path.abspath(path) if os.path.exists(path) else path for path in paths],  # or a team's project
        )

    def _keep(self, turn: int, reply: ops.Answer) -> None:
        self.store.finish(
            turn,
            content=reply.text,
            status="ok",
            model=reply.model_id,
            tool_calls=reply.trace.tools,
            citations=reply.citations,
            usage=reply.usage,
            took_ms=reply.took_ms,
            error="; ".join(reply.notes) if reply.status == "partial" else "",
            rounds=reply.trace.rounds,
            notes=reply.notes,
        )

    def _keep_failure(self, turn: int, heard: str, found: Research, error: BaseException) -> None:
        stopped = isinstance(error, KeyboardInterrupt | GeneratorExit)
        why = error.what if isinstance(error, CodeInfoError) else "stopped by the user" if stopped else str(error)
        self.store.finish(
            turn,
            content=heard,
            status="stopped" if stopped else "failed",
            error=why,
            tool_calls=found.tools,
            rounds=found.rounds,
            notes=found.notes,
        )

    def read_lines(self, root: str, path: str, start: int, end: int) -> str:
        """Lines of an indexed file, as an answer may cite them."""
        return CodeLookup(self._operations, (root,), 1).read_file(path, start, max(start, end)).text

    def read_whole(self, root: str, path: str) -> str:
        """An indexed file, secrets masked."""
        return CodeLookup(self._operations, (root,), 1).read_whole(path)[2]

    # --- agents ---

    def _agent_folders(self) -> tuple[Path, ...]:
        return self._config.paths.data_dir / "agents", BUNDLED

    def agents(self, request: ops.AgentsRequest) -> ops.AgentList:
        return ops.AgentList(list_agents(self._agent_folders()))

    def agent(self, name: str) -> Profile:
        return load_agent(name, self._agent_folders())

    def run_agent(
        self,
        request: ops.AgentRunRequest,
        *,
        progress: ProgressSink | None = None,
        emit: Emit = _silent,
        steps: Steps = _silent,
        source: str = "CLI",
        wrap: Callable[[Llm], Llm] | None = None,
    ) -> ops.AgentRun:
        """One answer, or one for each step of a command, all in one conversation."""
        profile = self.agent(request.agent)
        folder = Path(request.working_folder)
        if not os.path.isdir(folder):
            raise UsageError(f"{folder} is not a folder", next_step="Name the folder that the agent is to work on")
        instructions: Sequence[str] = (request.instruction,)
        if request.command:
            instructions = profile.command(request.command).instructions(request.instruction)
        answers: list[ops.Answer] = []
        conversation = request.conversation
        for instruction in instructions:
            if answers:
                emit("\n\n")
            asked = ops.AskRequest(instruction, (str(folder),), conversation, request.provider, request.model)
            reply = self.ask(asked, progress=progress, emit=emit, steps=steps, source=source, wrap=wrap, agent=profile)
            answers.append(reply)
            conversation = answers[-1].conversation_id
        return ops.AgentRun(profile.name, conversation, answers[-1].model_id, tuple(answers))

    # --- providers and conversations ---

    def providers(self, request: ops.ProvidersRequest) -> ops.ProviderList:
        return list_providers(self._config)

    def conversations(self, request: ops.ConversationsRequest) -> ops.ConversationPage:
        return self.store.page(
            state=request.state, limit=request.limit, cursor=request.cursor, agent_name=request.agent
        )

    def conversation(self, request: ops.ConversationRequest) -> ops.ConversationDetail:
        found = self.store.get(request.id)
        return ops.ConversationDetail(found, self.store.turns(found.id))

    def search_conversations(self, request: ops.ConversationSearchRequest) -> ops.ConversationMatches:
        return ops.ConversationMatches(request.text, self.store.search(request.text, request.limit))

    def archive_conversations(self, request: ops.ConversationIdsRequest) -> ops.ConversationsChanged:
        return ops.ConversationsChanged("archived", self.store.archive(request.ids))

    def restore_conversations(self, request: ops.ConversationIdsRequest) -> ops.ConversationsChanged:
        return ops.ConversationsChanged("restored", self.store.restore(request.ids))

    def delete_conversations(self, request: ops.ConversationIdsRequest) -> ops.ConversationsChanged:
        return ops.ConversationsChanged("deleted", self.store.delete(request.ids))

    def export_conversation(self, request: ops.ConversationRequest) -> ops.ConversationExport:
        detail = self.conversation(request)
        return ops.ConversationExport(detail.conversation.id, to_markdown(detail.conversation, detail.turns))
