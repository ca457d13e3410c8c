"""`Engine.answers`: questions, agents and providers, each with a typed request and a typed result."""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from codeinfo.answers.agents import ALL_TOOLS, BUNDLED, Profile, list_agents, load_agent
from codeinfo.answers.evidence import PassageFilter, Retrieval, content_words, list_graded, search_text, spellings
from codeinfo.answers.extract import (
    HEAD_LINES,
    UsePlace,
    Uses,
    changed_place,
    describes,
    extract,
    is_changelog,
    list_commits,
    list_uses,
    read_aim,
    state_test_command,
)
from codeinfo.answers.loop import Research, Resources, answer
from codeinfo.answers.model import Budget, Model
from codeinfo.answers.write import Assignment, history_messages, title_of, to_markdown
from codeinfo.engine.collections import CollectionIndex
from codeinfo.engine.documents import DocumentOperations, document_lines, headings, no_collection, place_to_open
from codeinfo.engine.index_manager import IndexManager
from codeinfo.engine.indexes import Indexes
from codeinfo.engine.search import Scope
from codeinfo.errors import CodeInfoError, NotFound, ProviderError, UsageError
from codeinfo.graph.references import without_alternatives
from codeinfo.languages.manifests import kind_of_manifest, package_name
from codeinfo.model import (
    CRUMB,
    Distance,
    FileKind,
    Hit,
    NextStep,
    Passage,
    Quality,
    SearchResult,
    Skip,
    SourceFile,
    dumps,
    fill,
    plain_headings,
    quantity,
    to_run,
)
from codeinfo.models.chat import ChatModel, choose_chat_model, list_providers, unavailable
from codeinfo.operations import answers as ops
from codeinfo.operations.base import Listener, ProgressSink
from codeinfo.operations.code import CallsRequest, DefsRequest, ImpactRequest, RefsRequest
from codeinfo.operations.documents import DOCUMENTS, AnyQuestion, DocsAskRequest, DocsSearchRequest, DocumentHit
from codeinfo.operations.knowledge import MetadataRequest
from codeinfo.operations.search import GrepRequest, GrepResult, SearchRequest
from codeinfo.search.query import UsageQuestion, asks_test_command, read_query, read_usage_question
from codeinfo.sources.git import GitFailed
from codeinfo.sources.read import read_text
from codeinfo.store.sqlite import SqliteStore
from codeinfo.store.user_data import ConversationStore
from codeinfo.tokens import stem, terms

if TYPE_CHECKING:
    from codeinfo.engine.code import CodeOperations
    from codeinfo.engine.knowledge import KnowledgeOperations
    from codeinfo.ports import Messages
    from codeinfo.team.user_data import SharedAnswers

# --- lookups ----------------------------------------------------------------------------------------------------------

NAMES = 3  # of a question that are looked up
COMMITS = 10  # listed in an answer about the latest changes
USES = 30  # uses of a name listed for a model
LISTED_USES = 1000  # of a name, of which an answer without a model shows one for each file
READ_LINES = 200  # lines per call: a model that wants more continues
QUIET = Listener()
_EDGES = {"subtypes": ("EXTENDS", "IMPLEMENTS"), "imports": ("IMPORTS", "EXPORTS")}  # of uses that are asked for
OVERVIEW = "what does this project do?"
_CODE_NAME = re.compile(r"\w_\w|[a-z][A-Z]")
_IT = re.compile(r"\b(?:it|this|that)\b", re.IGNORECASE)
_MAJOR = re.compile(r"/v\d+\Z")  # of a module of Go
_WHAT_IS = re.compile(
    r"(?:what(?:'s| is| are| does)|tell me about|describe|explain) (?:the )?(?P<name>.{1,99}?)(?: do| about| for)?\W?",
    re.IGNORECASE,
)


class EngineParts(Protocol):
    """The parts of the engine that answers use, each opened when it is first needed."""

    indexes: Indexes

    @property
    def code(self) -> CodeOperations: ...

    @property
    def documents(self) -> DocumentOperations: ...

    @property
    def knowledge(self) -> KnowledgeOperations: ...

    @property
    def conversations(self) -> ConversationStore: ...

    def search(self, request: SearchRequest, progress: ProgressSink = None) -> SearchResult: ...

    def grep(self, request: GrepRequest, progress: ProgressSink = None) -> GrepResult: ...


class Lookup(ABC):
    """Searches and reads for one answer: the tools of its model. The first search refreshes the index."""

    def __init__(self, engine: EngineParts, progress: ProgressSink) -> None:
        self._engine = engine
        self._limit = engine.indexes.config.answers.items
        self._progress = progress
        self._is_refreshed = False
        self.notes: tuple[str, ...] = ()

    def locate(self, citation: ops.Citation) -> ops.Citation:
        """The citation with a link to open it, if one is known."""
        return citation

    @abstractmethod
    def _search(self, query: str) -> Retrieval: ...

    @abstractmethod
    def _indexes(self) -> Iterator[IndexManager]: ...

    @abstractmethod
    def _find(self, path: str) -> tuple[IndexManager, str]:
        """The indexed file with that path, and its index."""

    @abstractmethod
    def _lines(self, index: IndexManager, path: str) -> list[str]: ...

    @abstractmethod
    def _outline(self, index: IndexManager, path: str) -> list[str]: ...

    def _section(self, index: IndexManager, path: str, line: int) -> str:
        return ""

    def state(self, question: str, query: str) -> ops.Answer | None:
        """The answer where something better than a search knows it."""
        return None

    def search_kind(self, query: str, kind: FileKind | None) -> Sequence[Passage]:
        """The best passages of files of this kind, unless every search is among them."""
        return ()

    def search(self, query: str) -> Retrieval:
        if not query.strip():
            raise UsageError("the query is empty", "Say what to look for")
        retrieval = self._search(query)
        if overview := self._read_overview(query):
            others = (passage for passage in retrieval.passages if passage.path != overview.path)
            retrieval = replace(retrieval, query=OVERVIEW, passages=(overview, *others))
        self._is_refreshed = True
        self.notes = tuple(dict.fromkeys((*self.notes, *retrieval.notes)))
        return retrieval

    def read_file(self, path: str, start_line: int, end_line: int) -> Passage:
        """Lines of an indexed file, secrets masked. Files outside the index cannot be read."""
        if end_line < start_line:
            raise UsageError("end_line is before start_line")
        index, relative = self._find(path)
        lines = self._lines(index, relative)
        if start_line > len(lines):
            raise UsageError(f"{relative} has {len(lines)} lines")
        last = min(end_line, start_line + READ_LINES - 1)
        text = "\n".join(lines[start_line - 1 : last])[: index.config.retrieval.chunk_max_chars]
        end, section = start_line + text.count("\n"), self._section(index, relative, start_line)
        return Passage(str(index.root), relative, start_line, end, text, section=section)

    def find_release(self, version: str) -> Passage | None:
        """The part of a changelog that lists the changes of a version."""
        heading = re.compile(rf"\W*(?:[A-Za-z]+\W{{1,3}})?v?{re.escape(version)}(?:\.0)?(?!\.?\w)")
        for index in self._indexes():
            for path in filter(is_changelog, self._store(index).manifest()):
                for number, line in enumerate(self._lines(index, path), 1):
                    if heading.match(line):
                        return self.read_file(f"{index.root}/{path}", number, number + READ_LINES)
        return None

    def _read_overview(self, question: str) -> Passage | None:
        """The head of the README, or the manifest, of the project that is asked about, as in "what is NAME"."""
        subject, asks_overview = _WHAT_IS.fullmatch(question.strip()), read_query(question).is_overview
        if subject is None and not asks_overview:
            return None
        for index in self._indexes():
            heads = self._read_heads(index)
            is_asked = asks_overview or (subject and subject["name"].lower() in _project_names(index, heads))
            describing = (path for path, head in heads.items() if not kind_of_manifest(path) or describes(head))
            if is_asked and (path := next(describing, "")):
                with suppress(NotFound):  # it is not in the folder that is asked about
                    return self.read_file(f"{index.root}/{path}", 1, HEAD_LINES)
        return None

    def _read_heads(self, index: IndexManager) -> dict[str, str]:
        """How the READMEs and manifests at the root of a project begin, by path."""
        paths = sorted((path for path in self._store(index).manifest() if "/" not in path), key=len)
        readmes = [path for path in paths if path.lower().startswith("readme")]
        named = dict.fromkeys((*readmes, *filter(kind_of_manifest, paths)))
        heads = {path: "\n".join(self._lines(index, path)[:HEAD_LINES]) for path in named}
        return {path: head for path, head in heads.items() if head.strip()}

    def outline(self, path: str) -> str:
        index, relative = self._find(path)
        lines = self._outline(index, relative)
        return "\n".join([relative, *lines]) if lines else f"{relative} has no outline."

    def word_weights(self, question: str) -> dict[str, float]:
        """The question's content words by their rarity in the tree; the project's own name carries no weight. The
        square root keeps a verb that no code happens to use from outweighing everything that was found."""
        words = {word: spellings(word) for word in content_words(read_query(question).words)}
        rows, having, names = 0, dict.fromkeys(words, 0), set[str]()
        for index in self._indexes():
            if not index.source.documents:  # a handbook on moorings may well be called "moorings"
                names.update(terms(index.root.name))
            with self._store(index).snapshot() as view:
                rows += len(view.row_file)
                postings = view.postings(sorted(set().union(*words.values())))
                for word, forms in words.items():
                    uses = (postings[form] for form in forms & postings.keys())
                    having[word] += len(set().union(*(posting.rows[posting.tenths > 0].tolist() for posting in uses)))
        if not rows:
            return {}  # no word is rare where there are none
        return {
            word: math.sqrt(math.log1p((rows - count + 0.5) / (count + 0.5)))
            for word, count in having.items()
            if stem(word) not in names
        }

    def _store(self, index: IndexManager) -> SqliteStore:
        store = index.live_store()
        if store is None:
            raise NotFound(f"{index.root} is not indexed yet", NextStep("Run ", to_run("index")))
        return store


class CodeLookup(Lookup):
    """Lookup in folders, for `ask` and agents."""

    def __init__(
        self,
        engine: EngineParts,
        paths: Sequence[str],
        progress: ProgressSink = None,
        left_out: Sequence[Path] = (),
        *,
        refresh: bool = True,
    ) -> None:
        super().__init__(engine, progress)
        self._is_refreshed = not refresh
        self._paths = tuple(dict.fromkeys(paths))
        self._scope = Scope.of(map(engine.indexes.find, paths or ("",)))
        self._left_out = tuple(path.resolve() for path in left_out)  # files that must not be used for the answer

    def _search(self, query: str, kinds: Sequence[str] = ()) -> Retrieval:
        left_out = [(path, index.root) for path in self._left_out for index in self._indexes()]
        globs = (f"!/{path.relative_to(root).as_posix()}" for path, root in left_out if path.is_relative_to(root))
        request = SearchRequest(
            query,
            self._paths,
            limit=self._limit,
            globs=tuple(globs),
            kinds=tuple(kinds),
            full_text=True,
            refresh=not self._is_refreshed,
        )
        result = self._engine.search(request, self._progress)
        return fill(Retrieval, result, passages=tuple(map(_passage_of_hit, result.hits)))

    def search_kind(self, query: str, kind: FileKind | None) -> Sequence[Passage]:
        return self._search(query, (kind,)).passages if kind else ()

    def read_whole(self, path: str) -> str:
        """An indexed file, secrets masked."""
        return "\n".join(self._lines(*self._find(path)))

    def _lines(self, index: IndexManager, path: str) -> list[str]:
        text = read_text(index.source.contents, SourceFile(path, 0, 0))
        if isinstance(text, Skip):
            raise NotFound(f"{path} cannot be read: {text.detail or text.rule}")
        return text.content.split("\n")

    def _outline(self, index: IndexManager, path: str) -> list[str]:
        symbols = self._store(index).symbols(path)
        definitions = without_alternatives(symbols.definitions) if symbols else ()
        return [f"{d.start_line}-{d.end_line} {d.kind} {d.signature or d.qualified}" for d in definitions]

    def references(self, name: str) -> str:
        lines: list[str] = []
        for _, folder in self._folders():
            with suppress(NotFound):
                report = self._engine.code.references(RefsRequest(name, folder, limit=USES, refresh=False))
                lines.append(f"{report.symbol}: {report.usage_count} uses")
                lines += [f"{use.file}:{use.line} {use.edge} ({use.confidence}) {use.preview}" for use in report.usages]
        if not lines:
            raise NotFound(f"no definition of {name!r} is indexed")
        return "\n".join(lines)

    def state(self, question: str, query: str) -> ops.Answer | None:
        """From the graph of code, the manifests or the history."""
        subject = read_query(query.removeprefix(question)).names  # what a follow-up question refers back to
        asked = read_usage_question(_IT.sub(subject[0], question) if subject else question)
        if asked and (uses := self.uses_of(asked)):
            return list_uses(question, asked.name, uses, self.read_file)
        written = (asked.name,) if asked and asked.is_code else ()
        self._note_unknown((*written, *filter(_CODE_NAME.search, read_query(query).names)))
        root = str(self._scope.indexes[0].root)
        if asks_test_command(query):
            tests = self._engine.knowledge.metadata(MetadataRequest(root), self._progress).tests
            return state_test_command(question, root, tests, self.read_file) if tests.command else None
        if place := changed_place(query):
            from codeinfo.knowledge.history import History  # imported late: most answers need none

            with suppress(GitFailed):
                commits = History(Path(root)).commits_touching(place, most=COMMITS)
                return list_commits(question, place, commits) if commits else None
        return None

    def uses_of(self, asked: UsageQuestion) -> Uses | None:
        """The uses of a name or file; None if nothing here is called so. A word that is not written as code must be
        the name of a definition."""
        for root, folder in self._folders():
            with suppress(NotFound, UsageError):
                uses = self._uses_below(asked, root, folder)
                if uses.definitions or asked.is_code:
                    return uses
        return None

    def _note_unknown(self, names: Iterable[str]) -> None:
        """What is asked about names that nothing here has cannot be answered, whatever passages resemble it."""
        for name in islice(dict.fromkeys(names), NAMES):
            reasons = [self._say_unknown(name, str(index.root)) for index in self._indexes()]
            if all(reasons):
                self.notes = (*self.notes, reasons[0])

    def _say_unknown(self, name: str, root: str) -> str:
        """ "" for what a project defines or, from elsewhere or in a string, has."""
        try:
            self._engine.code.definitions(DefsRequest(name, root, refresh=not self._is_refreshed))
        except NotFound as error:
            is_there = self._engine.grep(GrepRequest(name, (root,), word=True, limit=1, refresh=False)).total
            return "" if is_there else f"{error.what}. {error.next_step}"
        except UsageError:  # not a name
            pass
        return ""

    def _uses_below(self, asked: UsageQuestion, root: str, folder: str) -> Uses:
        code, name = self._engine.code, asked.name
        report = code.references(RefsRequest(name, folder, LISTED_USES, refresh=not self._is_refreshed), self._progress)
        self._is_refreshed = True
        if asked.asks == "change" and not report.definitions:
            with suppress(NotFound):  # unless it is a file
                impact = code.impact(ImpactRequest(name, limit=LISTED_USES, root=root, refresh=False))
                users = [UsePlace(f.path, f.line, via="" if f.via == name else f.via) for f in impact.files]
                return Uses(root, asked.asks, (), users, to_run("impact", name), impact.notes, impact.tests)
        if asked.asks == "calls" and report.definitions:
            graph = code.calls(CallsRequest(name, folder, limit=LISTED_USES, refresh=False))
            calls = [UsePlace(call.path, call.line, call.source.rpartition("::")[2]) for call in graph.callers]
            unsure = f"{quantity(graph.unattributed, 'more call')} by this name may mean it or another definition"
            notes = (*graph.notes, unsure) if graph.unattributed else graph.notes
            return Uses(root, asked.asks, graph.definitions, calls, to_run("calls", name), notes)
        edges = _EDGES.get(asked.asks, ())
        chosen = [use for use in report.usages if use.edge in edges]
        asks = asked.asks if chosen or not edges else "uses"  # Go's types do not name the interfaces they implement
        uses = chosen or sorted(report.usages, key=lambda use: use.edge in _EDGES["imports"])
        places = [UsePlace(use.file, use.line, use.within) for use in uses]
        return Uses(root, asks, report.definitions, places, to_run("refs", name), report.notes)

    def _folders(self) -> Iterator[tuple[str, str]]:
        """The folders that are asked about, each behind the root of its project."""
        for index in self._indexes():
            for folder in self._scope.folders[index] or (".",):
                yield str(index.root), str(index.root / folder)

    def decision_card(self, change: str) -> str:
        """The decision card for a change, as JSON."""
        request = SearchRequest(change, self._paths, limit=self._limit, purpose="edit", refresh=not self._is_refreshed)
        card = self._engine.search(request, self._progress).preflight
        if card is None:
            raise NotFound("there is no card for this change")
        return dumps(card)

    def _indexes(self) -> Iterator[IndexManager]:
        return iter(self._scope.indexes)

    def _find(self, path: str) -> tuple[IndexManager, str]:
        """By its path relative to a root, or absolute."""
        for index in self._indexes():
            relative = path.removeprefix(f"{index.root}/").removeprefix("./")
            is_indexed = relative in self._store(index).manifest()
            if is_indexed and self._scope.holds(index, relative) and index.root / relative not in self._left_out:
                return index, relative
        raise NotFound(f"{path} is not an indexed file", NextStep(to_run("why", path), " says why"))


class DocumentLookup(Lookup):
    """Lookup in collections. Documents are read as they were indexed: pages and cells have no lines of their own."""

    def __init__(self, engine: EngineParts, request: DocsAskRequest, progress: ProgressSink) -> None:
        super().__init__(engine, progress)
        self._request = request
        self._chosen, self.notes = engine.documents.choose(request.path, request.collections)
        if not self._chosen:
            raise no_collection()

    def locate(self, citation: ops.Citation) -> ops.Citation:
        try:
            index, path = self._find(citation.path, citation.root)
        except NotFound:  # removed while the answer was being written
            return citation
        language, full = self._store(index).manifest()[path].language, str(index.root / path)
        opens = place_to_open(full, language, citation.section, citation.start_line)
        return replace(citation, collection=index.source.collection.id, opens=opens)

    def _search(self, query: str) -> Retrieval:
        request = DocsSearchRequest(
            (query,),
            self._request.collections,
            limit=self._limit,
            refresh=not self._is_refreshed,
            path=self._request.path,
        )
        response = self._engine.documents.search(request, self._progress)
        roots = {index.source.collection.id: str(index.root) for index in self._chosen}
        (answered,) = response.searches
        passages = tuple(_passage_of_document(hit, roots[hit.collection]) for hit in answered.results)
        return Retrieval(query, passages, answered.quality or Quality("low_confidence", 0.0), response.notes)

    def _lines(self, index: IndexManager, path: str) -> list[str]:
        return document_lines(self._store(index), path)

    def _outline(self, index: IndexManager, path: str) -> list[str]:
        entries = headings(self._store(index), path)
        return [f"{entry.start_line}-{entry.end_line} {'#' * entry.level} {entry.title}" for entry in entries]

    def _section(self, index: IndexManager, path: str, line: int) -> str:
        entries = headings(self._store(index), path)
        return CRUMB.join(entry.title for entry in entries if entry.start_line <= line <= entry.end_line)

    def _indexes(self) -> Iterator[CollectionIndex]:
        """The searchable ones; a note names those that are missing."""
        return (index for index in self._chosen if index.live_store() is not None)

    def _find(self, path: str, root: str = "") -> tuple[CollectionIndex, str]:
        for index in self._indexes():
            relative = path.removeprefix(f"{index.root}/").removeprefix(f"{index.source.collection.name}/")
            row = self._store(index).manifest().get(relative)
            if root in ("", str(index.root)) and row is not None and row.language:
                return index, relative
        raise NotFound(f"{path} is not a document of these collections")


def _project_names(index: IndexManager, heads: Mapping[str, str]) -> set[str]:
    """What a project is called, in lower case: by its folder, its manifests and the titles of its READMEs."""
    name = index.source.collection.name if isinstance(index, CollectionIndex) else index.root.name
    names = {name.lower()}
    for path, head in heads.items():
        names.add(_MAJOR.sub("", package_name(path, head).lower()).rpartition("/")[2])
        if head.startswith("# "):
            names.add(plain_headings(head.partition("\n")[0].strip("# ")).lower())
    return names


def _passage_of_hit(hit: Hit) -> Passage:
    """The hit shows its whole chunk."""
    section = _first_section(hit.text, hit.breadcrumb) if hit.kind is FileKind.DOCS else ""
    return fill(Passage, hit, chunk_id=str(hit.chunk_id), section=section)


def _passage_of_document(hit: DocumentHit, root: str) -> Passage:
    """The distance of the hit is cosine, that of a passage squared L2."""
    section = _first_section(hit.content, f"{hit.title}{CRUMB}{hit.section}").partition(CRUMB)[2]
    return fill(
        Passage,
        hit,
        root=root,
        path=hit.document,
        text=hit.content,
        chunk_id=hit.id,
        symbol=hit.section.rpartition(CRUMB)[2],
        section=section,
        distance=Distance(round(2 * hit.distance, 4)) if hit.distance is not None else None,
    )


def _first_section(text: str, titles: str) -> str:
    """The section of a text's first words: a short one is in one chunk with its first subsection, which names both."""
    opening = takewhile(lambda line: not line or line.startswith("#"), text.split("\n"))
    headings_above = [line.lstrip("# ") for line in opening if line]
    names = titles.split(CRUMB)
    if headings_above and headings_above[-1] in names:
        return CRUMB.join(names[: names.index(headings_above[-1]) + 1])
    return titles


class AnswerOperations:
    def __init__(self, engine: EngineParts) -> None:
        self._config = engine.indexes.config
        self._engine = engine

    @property
    def _store(self) -> ConversationStore:
        return self._engine.conversations

    @property
    def shared(self) -> SharedAnswers | None:
        """Answers in progress, as all servers of a team see them."""
        if self._engine.indexes.team is None:
            return None
        from codeinfo.team.user_data import SharedAnswers

        return SharedAnswers(self._engine.indexes.team)

    def answer(self, request: AnyQuestion, listener: Listener) -> tuple[ops.Answer, ...]:
        """One answer, or one for each step of an agent's command."""
        if isinstance(request, ops.AgentRunRequest):
            return self.run_agent(request, listener).answers
        return (self.ask(request, listener),)

    def ask(
        self,
        request: ops.AskRequest | DocsAskRequest,
        listener: Listener = QUIET,
        *,
        agent: Profile | None = None,
        title: str = "",
        left_out: Sequence[Path] = (),
    ) -> ops.Answer:
        """`title` is that of a new conversation, otherwise the question. Files in `left_out` are not searched or read:
        the questions of a test must not answer themselves."""
        if not request.question.strip():
            raise UsageError("the question is empty", "Ask something")
        conversation = self._conversation_for(request.conversation, agent)
        chosen = self._choose_model(request, agent)
        lookup = self._lookup_for(request, listener.progress, left_out)  # a refusal must not create a conversation
        if conversation:
            identity = conversation.id
        else:
            identity = self._new_conversation(request, title, chosen, listener.source, agent)
        with self._store.run(identity):
            earlier = self._store.turns(identity)
            turn = self._store.begin(identity, request.question, provider=chosen.provider, model=chosen.model_id)
            research, shown_parts = Research(), list[str]()  # kept if the run is interrupted

            def show(text: str) -> None:
                shown_parts.append(text)
                listener.text(text)

            try:
                showing = replace(listener, text=show)
                reply = self._reply(request.question, lookup, chosen, earlier, agent, showing, research)
            except BaseException as error:
                self._store_failure(turn, "".join(shown_parts), research, error)
                raise (unavailable(error) if isinstance(error, ProviderError) else error) from None
            notes = tuple(dict.fromkeys((*reply.notes, *lookup.notes)))
            cited = tuple(lookup.locate(citation) for citation in reply.citations)
            reply = replace(reply, conversation_id=identity, provider=chosen.provider, notes=notes, citations=cited)
            self._store_reply(turn, reply)
        listener.answer(reply)
        return reply

    def _choose_model(self, request: ops.AskRequest | DocsAskRequest, agent: Profile | None) -> ChatModel:
        """The model of the request, otherwise of the agent, otherwise of the settings."""
        provider = request.provider or (agent.provider if agent else "")
        model = request.model or (agent.model if agent else "")
        try:
            return choose_chat_model(self._config, provider, model)
        except ProviderError as error:
            raise unavailable(error) from error

    def _lookup_for(
        self, request: ops.AskRequest | DocsAskRequest, progress: ProgressSink, left_out: Sequence[Path]
    ) -> Lookup:
        if isinstance(request, ops.AskRequest):
            return CodeLookup(self._engine, request.paths, progress, left_out, refresh=request.refresh)
        return DocumentLookup(self._engine, request, progress)

    def _reply(
        self,
        question: str,
        lookup: Lookup,
        chosen: ChatModel,
        earlier: Sequence[ops.Turn],
        agent: Profile | None,
        listener: Listener,
        research: Research,
    ) -> ops.Answer:
        history = history_messages(earlier, self._config.answers.history_turns)
        if chosen.llm is None:
            reply = self._quote(question, lookup, chosen, history)
            listener.text(reply.text)
            return reply
        settings = self._config.answers
        resources = Resources(
            model=Model(chosen.llm, Budget(settings.max_tokens, settings.timeout_s), listener.follow),
            tools=lookup,
            filter=self._passage_filter(lookup),
            settings=settings,
            allowed_tools=agent.tools if agent else ALL_TOOLS,
        )
        system = agent.system_prompt if agent else ""
        card = ""
        if isinstance(lookup, CodeLookup) and agent and "decision_card" in agent.tools:
            card = lookup.decision_card(question)  # models that call no tools need it as well
        assignment = Assignment(question, settings.reply_tokens, system, card, history)
        return answer(assignment, resources, listener, research)

    def refuse_chat(self, request: ops.ChatRequest) -> ops.Answer:
        step = NextStep("Programs use ", to_run("ask", "QUESTION", conversation="ID"))
        raise UsageError("chat is for people at a terminal", step)

    def _quote(self, question: str, lookup: Lookup, chosen: ChatModel, history: Messages) -> ops.Answer:
        budget = Budget(self._config.answers.max_tokens, self._config.answers.timeout_s)
        query = search_text(question, [message.content for message in history if message.role == "user"])
        reply = lookup.state(question, query) or self._quote_passages(question, query, lookup)
        followed = f'taken as a follow-up: searched for "{query}"' if query != question else ""
        notes = tuple(note for note in (chosen.note, followed, *reply.notes) if note)
        return replace(reply, notes=notes, took_ms=budget.elapsed_ms)

    def _quote_passages(self, question: str, query: str, lookup: Lookup) -> ops.Answer:
        retrieval = lookup.search(query)
        relevant = self._passage_filter(lookup).relevant(retrieval)
        aim, weights = read_aim(query), lookup.word_weights(query)
        releases = tuple(filter(None, map(lookup.find_release, aim.versions)))
        documents = releases if aim.versions else lookup.search_kind(retrieval.query, aim.kind)
        reply = extract(question, retrieval, relevant.kept, documents, weights, lookup.read_file)
        items = list_graded(relevant.kept)
        search_round = ops.Round(query, items, relevant.dropped, None, reply.status, relevant.score_source)
        return replace(reply, trace=ops.Trace((search_round,)))

    def _passage_filter(self, lookup: Lookup) -> PassageFilter:
        retrieval, settings = self._config.retrieval, self._config.answers
        return PassageFilter(retrieval, lookup.word_weights, settings.least_score, settings.passage_chars)

    def _conversation_for(self, identity: str, agent: Profile | None) -> ops.Conversation | None:
        if not identity:
            return None
        conversation = self._store.get(identity)
        if conversation.agent_name != (agent.name if agent else ""):
            name = conversation.agent_name
            operation, *words = ("agents run", name, "INSTRUCTION") if name else ("ask", "QUESTION")
            step = NextStep("Continue it with ", to_run(operation, *words, conversation=conversation.id))
            whose = f"agent {name}" if name else "no agent"
            raise UsageError(f"conversation {conversation.id} belongs to {whose}", step)
        return conversation

    def _new_conversation(
        self,
        request: ops.AskRequest | DocsAskRequest,
        title: str,
        chosen: ChatModel,
        source: str,
        agent: Profile | None,
    ) -> str:
        paths = request.paths if isinstance(request, ops.AskRequest) else (DOCUMENTS,)
        paths = paths or (self._engine.indexes.locate(""),)
        return self._store.create(
            title=title_of(title or request.question),
            provider=chosen.provider,
            model=chosen.model_id,
            source=source,
            agent_name=agent.name if agent else "",
            paths=[os.path.abspath(path) if os.path.exists(path) else path for path in paths],  # or a team's project
        )

    def _store_reply(self, turn: int, reply: ops.Answer) -> None:
        self._store.finish(
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

    def _store_failure(self, turn: int, shown: str, research: Research, error: BaseException) -> None:
        status, why = "failed", error.what if isinstance(error, CodeInfoError) else str(error)
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            status, why = "stopped", "stopped by the user"
        self._store.finish(
            turn,
            content=shown,
            status=status,
            error=why,
            tool_calls=research.tools,
            rounds=research.rounds,
            notes=research.notes,
        )

    def read_lines(self, root: str, path: str, start: int, end: int) -> str:
        """Lines of an indexed file, citable in an answer."""
        return CodeLookup(self._engine, (root,)).read_file(path, start, max(start, end)).text

    def read_whole(self, root: str, path: str) -> str:
        """An indexed file, secrets masked."""
        return CodeLookup(self._engine, (root,)).read_whole(path)

    def _agent_folders(self) -> tuple[Path, ...]:
        return self._config.paths.data_dir / "agents", BUNDLED

    def agents(self) -> ops.AgentList:
        return ops.AgentList(list_agents(self._agent_folders()))

    def agent(self, name: str) -> Profile:
        return load_agent(name, self._agent_folders())

    def run_agent(self, request: ops.AgentRunRequest, listener: Listener = QUIET) -> ops.AgentRun:
        """One answer, or one per step of a command, all in one conversation."""
        profile = self.agent(request.agent)
        folder = Path(request.working_folder)
        if not os.path.isdir(folder):
            raise UsageError(f"{folder} is not a folder", "Give the folder that the agent should work on")
        instructions = profile.instructions(request.instruction, request.command)
        answers: list[ops.Answer] = []
        conversation = request.conversation
        for instruction in instructions:
            if len(instructions) > 1:
                listener.text("\n\n" * bool(answers) + f"## {instruction}\n\n")
            question = ops.AskRequest(instruction, (str(folder),), conversation, request.provider, request.model)
            answers.append(self.ask(question, listener, agent=profile, title=request.instruction or request.command))
            conversation = answers[-1].conversation_id
        return ops.AgentRun(profile.name, conversation, answers[-1].model_id, tuple(answers))

    def providers(self) -> ops.ProviderList:
        return list_providers(self._config)

    def export_conversation(self, request: ops.ConversationRequest) -> ops.ConversationExport:
        detail = self._store.show(request)
        return ops.ConversationExport(detail.conversation.id, to_markdown(detail.conversation, detail.turns))
