"""Answers, agents, conversations, documents and teams, for people."""

from __future__ import annotations

import re

from codeinfo.languages import file_kind
from codeinfo.model import FileKind, quantity
from codeinfo.operations import answers, documents, team
from codeinfo.operations.search import AnswerEvalReport
from codeinfo.shells.render import STATES, count_changes, footer, list_skips, near_lines, register_table, render
from codeinfo.shells.terminal import Output, Span, byte_size, cells, conversation_subject, detail_text, near_path
from codeinfo.sources.documents import Fences

QUESTION_SHOWN = 100  # characters of a question in a table
PROVIDER_STATES = {
    "LLM_UNAVAILABLE": "does not answer",
    "LLM_BROKEN": "closes the connection",
    "LLM_TIMEOUT": "does not answer in time",
    "LLM_NO_KEY": "has no usable key",
}


# --- answers -------------------------------------------------------------------------------------------------------


_PLACE = re.compile(r"\[\d+\] (.+?):(\d+)-\d+\b")  # a passage quoted below
_WHOLE_WORDS = re.compile(r".*[\s\u2e80-\U0010ffff]", re.DOTALL)  # the last may go on; wide letters have no words
_FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*([\w+#.-]*)")


class Prose:
    """An answer as it arrives: text at once, fenced code line by line, numbered if its place is known."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._line = ""  # so far, and how much of it is written
        self._written = 0
        self._column = 0
        self._fence = ""
        self._code: list[str] = []
        self._place = ("", 0)
        self._language = ""

    def __enter__(self) -> Prose:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self._line:
            self._end_line()
        self._write_code()

    def write(self, text: str) -> None:
        *whole, rest = text.split("\n")
        for line in whole:
            self._line += line
            self._end_line()
        self._line += rest
        may_start_block = self._line.lstrip()[:1] in ("`", "~", "[")
        if not self._fence and not may_start_block:
            end = len(self._line)
            if self._out.terminal:
                words = _WHOLE_WORDS.match(self._line)
                end = words.end() if words else 0
            self._write_words(self._line[self._written : end])
            self._written = end

    def _end_line(self) -> None:
        line, written = self._line, self._written
        self._line, self._written = "", 0
        fence = _FENCE.match(line)
        if self._fence:
            if line.strip() == self._fence:
                self._write_code()
            else:
                self._code.append(line)
        elif fence and not written:
            self._fence, self._language = fence[1], fence[2]
        elif (place := _PLACE.match(line)) and not written:
            self._place = place[1], int(place[2])
            self._out.line((line, "bold cyan"))
        else:
            self._write_words(line[written:])
            self._out.write("\n")
            self._column = 0

    def _write_words(self, text: str) -> None:
        """Write words, each on a new line of a terminal where it would not fit."""
        for word in re.split(r"(?<= )", text):
            if self._out.terminal and self._column and self._column + cells(word.rstrip()) > self._out.width:
                self._out.write("\n")
                self._column = 0
            self._out.write(word)
            self._column += cells(word)

    def _write_code(self) -> None:
        path, first = self._place
        reads = bool(path) and file_kind(path) is FileKind.DOCS  # text to read, not to copy
        shown_as = path or f"code.{self._language}"
        self._out.numbered_code("\n".join(self._code), shown_as, first, wraps=reads)
        self._fence, self._code, self._place = "", [], ("", 0)


def write_sources(answer: answers.Answer, out: Output, *, trace: bool = False) -> None:
    """What follows the text of an answer: sources, unless it quotes them with places that open here, notes, figures."""
    open_here = all(not cited.opens and near_path(cited.root, cited.path) == cited.path for cited in answer.citations)
    if answer.citations and (answer.kind != "extractive" or not open_here):
        out.line()
        out.table(list(map(_source, answer.citations)), title="Sources")
    out.notes(answer.notes)
    if trace:
        render_trace(answer, out)
    if answer.usage.calls:
        from codeinfo.answers.write import stats_block

        out.line()
        for line in stats_block(answer.usage, answer.took_ms).replace("**", "").split("\n"):
            out.line((line, "dim"))


def write_continuation(conversation: str, out: Output) -> None:
    if conversation:
        out.line((f"to continue: --conversation {conversation}", "dim"))


def _source(citation: answers.Citation) -> tuple[Span, ...]:
    place = near_path(citation.opens) if citation.opens else near_lines(citation)
    problem = citation.problem and f"unverified: {citation.problem}"
    return (f"[{citation.number}]", "dim"), (place, "cyan"), (citation.section, "magenta"), (problem, "yellow")


def render_trace(answer: answers.Answer, out: Output) -> None:
    out.line()
    for number, entry in enumerate(answer.trace.rounds, 1):
        average = "" if entry.average is None else f", average {entry.average:.2f}"
        source = f", {entry.score_source}" if entry.score_source else ""
        out.line((f"Round {number}: ", "bold"), entry.query, (f"  → {entry.verdict}{average}{source}", "magenta"))
        out.table(list(map(_row_of_graded, entry.items)), indent=4)
        dropped = [(f"{item.path}:{item.start_line}-{item.end_line}", item.rule, item.detail) for item in entry.dropped]
        if dropped:
            out.line("  ", ("dropped", "dim"))
            out.table(dropped, indent=4)
    out.table([(use.name, use.arguments, use.outcome) for use in answer.trace.tools], title="Tools")
    faults = [(f"[{fault.number}]", fault.action, f"{fault.problem}: {fault.claim}") for fault in answer.trace.faults]
    out.table(faults, title="Citations that failed their check")
    out.line((f"evidence: about {answer.usage.evidence_tokens:,} tokens", "dim"))


def _row_of_graded(item: answers.GradedItem) -> tuple[Span, ...]:
    score = "not graded" if item.score is None else f"{item.score:.2f}"
    distance = "" if item.distance is None else f"distance {item.distance.value:.3f} ({item.distance.metric})"
    return f"{item.path}:{item.start_line}-{item.end_line}", score, distance


# --- providers and agents ------------------------------------------------------------------------------------------


@render.register
def _providers(listing: answers.ProviderList, out: Output) -> None:
    width = max((len(provider.name) for provider in listing.providers), default=0)
    room = max((len(provider.base_url) for provider in listing.providers), default=0)
    for provider in listing.providers:
        words = PROVIDER_STATES.get(provider.state, provider.state)
        state: Span = (words, "green" if provider.state == "ok" else "yellow" if provider.configured else "dim")
        used: Span = ("  used by ask", "magenta") if provider.chosen else ""
        out.line((provider.name.ljust(width), "bold cyan"), f"  {provider.base_url.ljust(room)}  ", state, used)
        for model in provider.models:
            out.line("    ", model)
        if provider.detail and provider.configured:
            out.line("    ", (provider.detail, "yellow"))
    if not any(provider.chosen for provider in listing.providers):
        out.line("No chat model: `codeinfo ask` quotes the best passages.")
        out.wrap("Start one of these, or set `llm.base_url` to an endpoint of your own.", hang=2)


@render.register
def _agents(listing: answers.AgentList, out: Output) -> None:
    for agent in listing.agents:
        about = (agent.problem, "red") if agent.problem else agent.description
        out.wrap((agent.name, "bold cyan"), "  ", about, hang=4)
        out.table([(command.name, command.description) for command in agent.commands], indent=4)


# --- conversations -------------------------------------------------------------------------------------------------


@render.register
def _page(page: answers.ConversationPage, out: Output) -> None:
    out.table(list(map(_row, page.conversations)), indent=0, empty="No conversations.")
    if page.next_cursor:
        out.line((f"more: --cursor {page.next_cursor}", "dim"))


def _row(talk: answers.Conversation) -> tuple[Span, ...]:
    state = "running" if talk.running else "archived" if talk.archived_at else talk.agent_name
    when, count = talk.last_message_at[:16].replace("T", " "), quantity(talk.turns // 2, "question")
    return (talk.id, "cyan"), when, count, conversation_subject(talk.paths), (state, "magenta"), talk.title


@render.register
def _detail(detail: answers.ConversationDetail, out: Output) -> None:
    out.line((detail.conversation.title, "bold"))
    out.table([_row(detail.conversation)[:-1]], indent=0)
    for turn in detail.turns:
        out.line()
        if turn.role == "user":
            out.line((f"> {turn.content}", "bold"))
            continue
        out.lines(turn.content)
        if turn.status != "ok" or turn.error:
            out.line((f"{turn.status}: {turn.error}", "yellow"))


@render.register
def _matches(result: answers.ConversationMatches, out: Output) -> None:
    for match in result.matches:
        out.table([_row(match.conversation)], indent=0)
        out.wrap("    ", (match.excerpt, "dim"), hang=4)
    if not result.matches:
        out.line("Nothing found.")


@render.register
def _changed(change: answers.ConversationsChanged, out: Output) -> None:
    out.table([((identity, "cyan"), change.action) for identity in change.ids], indent=0)


@render.register
def _export(export: answers.ConversationExport, out: Output) -> None:
    out.lines(export.markdown.rstrip("\n"))


# --- answer tests --------------------------------------------------------------------------------------------------


@render.register
def _evaluation(report: AnswerEvalReport, out: Output) -> None:
    for check in report.checks:
        verdict: Span = ("pass", "green") if check.passed else ("FAIL", "bold red")
        out.line(verdict, "  ", check.question[:QUESTION_SHOWN], (f"  {check.status}, {check.tokens} tokens", "dim"))
        for failure in check.failures:
            out.line("      ", (failure, "yellow"))
    out.line(f"{report.passed} passed, {report.failed} failed")


# --- documents -----------------------------------------------------------------------------------------------------

LINES_SHOWN = 6  # of a passage
PATHS_SHOWN = 10
NO_COLLECTIONS = "No collections yet. `codeinfo docs add FOLDER` adds one."


@render.register
def _sync(response: documents.SyncResponse, out: Output) -> None:
    if not response.reports:
        out.line(NO_COLLECTIONS)
    for report in response.reports:
        plan = report.plan
        state = _size(report.documents, report.chunks)
        if report.dry_run:
            state = "would change" if plan.added or plan.changed or plan.removed else "would not change"
        out.line((report.name, "bold cyan"), f"  {state}  ", (report.collection, "dim"))
        changes = {name: len(getattr(plan, name)) for name in ("added", "changed", "removed")}
        done = count_changes({**changes, "unchanged": plan.unchanged})
        out.line("  ", (done or "no document was found: check the folder and the globs", "dim"))
        signs = (("+", plan.added), ("~", plan.changed), ("-", plan.removed))
        for sign, paths in signs if report.dry_run else ():
            for path in paths[:PATHS_SHOWN]:
                out.line(f"  {sign} {path}")
            if len(paths) > PATHS_SHOWN:
                out.line(f"  {sign} and {len(paths) - PATHS_SHOWN} more")
        list_skips([skip for skip in report.skipped if skip.matters], out)
        out.notes(report.notes)
        if report.documents and plan.added and not plan.unchanged and not report.dry_run:
            out.line(f'Ask about it: codeinfo docs ask "…" --collection {report.name}')


def _size(documents: int, passages: int) -> str:
    return f"{quantity(documents, 'document')}, {quantity(passages, 'passage')}"


@render.register
def _list(response: documents.DocsListResponse, out: Output) -> None:
    if not response.collections:
        out.line(NO_COLLECTIONS)
    for item in response.collections:
        state = (item.state, STATES.get(item.state, ""))
        out.line((item.name, "bold cyan"), "  ", state, "  ", (item.id, "dim"))
        content = _size(item.documents, item.passages)
        out.table([("from", f"{item.url} ({item.kind}, {item.origin})"), ("content", content)])
        out.table([(doc.document, doc.format, quantity(doc.passages, "passage")) for doc in item.listing], indent=4)


@render.register
def _removed(response: documents.DocsRemoveResponse, out: Output) -> None:
    for item in response.removed:
        out.line((item.name, "bold cyan"), f"  removed, {byte_size(item.bytes)} freed")


@render.register
def _updated(response: documents.DocsUpdateResponse, out: Output) -> None:
    state = "written" if response.changed else "unchanged"
    count = "" if response.notes else f", {quantity(response.passages, 'passage')}"
    out.line((response.document, "bold cyan"), f"  {state}{count}")
    out.line("  ", (f"sha256 {response.hash}", "dim"))


@render.register
def _deleted(response: documents.DocsDeleteResponse, out: Output) -> None:
    for path in response.deleted:
        out.line((path, "bold cyan"), "  deleted")
    out.line((f"{quantity(response.documents, 'document')} left", "dim"))


@render.register
def _pack(response: documents.DocsPackResponse, out: Output) -> None:
    size = f"{quantity(response.documents, 'document')}, {byte_size(response.bytes)}"
    out.line((response.file, "bold cyan"), f"  {response.name} {response.version}: {size}")
    out.line("  ", (f"sha256 {response.sha256}", "dim"))
    list_skips(response.skipped, out)


@render.register
def _search(response: documents.DocsSearchResponse, out: Output) -> None:
    for search in response.searches:
        if len(response.searches) > 1:
            out.line((search.query, "bold"))
        for number, hit in enumerate(search.results, 1):
            _hit(number, hit, out)
        if search.quality is not None:
            footer(search.quality, "passage", len(search.results), f" · {search.took_ms:.0f} ms", out)
        elif not search.results:
            out.line(("Nothing found.", "bold"))
        if search.reranker_status != "off":
            out.wrap(("reranker: ", "bold"), search.reranker_status, hang=2)


def _hit(number: int, hit: documents.DocumentHit, out: Output) -> None:
    spans: list[Span] = [(f"{number:>2}  ", "dim"), (near_path(hit.opens), "bold cyan")]
    if hit.section or hit.title:
        spans += ["  ", (hit.section or hit.title, "magenta")]
    if hit.kind != "document":
        spans += ["  ", (hit.kind, "green")]
    out.line(*spans)
    if hit.rerank_score is not None:
        out.line("    ", (f"relevance {hit.rerank_score:.3f}", "dim"))
    is_markdown = hit.document.lower().endswith((".md", ".markdown", ".mdx"))
    content = strip_site_markup(hit.content) if is_markdown else hit.content
    lines = [line for line in content.splitlines() if line.strip()]
    for line in lines[:LINES_SHOWN]:
        out.line("    ", out.cut(line, 4))
    out.line()


_FRONT_MATTER = re.compile(r"\A---\n(?s:.*?)\n---\n")
_ADMONITION = re.compile(r"\s*:::+ *(?:(\w+)(?:\{[^}]*\})? *\[?([^\]]*)\]?)?")  # `:::note[Title]`, `:::`
_MODULE = re.compile(r"import\s[^'\"]*['\"][^'\"]+['\"];?\s*")
_TAG = re.compile(r"(`[^`]*`)|(?<!\w)</?[A-Z][\w.]*(?:\s[^<>]*)?/?>|\{/\*.*?\*/\}|\s*\{\s*#[\w.-]+\s*\}[ \t]*$")


def strip_site_markup(text: str) -> str:
    """A document as people read it, without what is for the generator of a site: the front matter, imports and tags of
    components, and anchors as in `Tasks { #tasks }`; `:::note` is a heading. Code stays as it is."""
    cleaned, fences = [], Fences()
    for line in _FRONT_MATTER.sub("", text).split("\n"):
        is_code = fences.cover(line)
        if not is_code and (box := _ADMONITION.fullmatch(line)):
            line = f"**{box[2] or box[1].capitalize()}**\n" if box[1] else ""
        elif not is_code:
            line = "" if _MODULE.fullmatch(line) else _TAG.sub(lambda match: match[1] or "", line)
        cleaned.append(line)
    return "\n".join(cleaned)


@render.register
def _outline(response: documents.DocsOutlineResponse, out: Output) -> None:
    out.line((response.document, "bold cyan"))
    for entry in response.entries:
        out.line("  " * entry.level, entry.title, (f"  {entry.start_line}-{entry.end_line}", "dim"))
    if not response.entries:
        out.line("  no headings")


@render.register
def _section(response: documents.DocsSectionResponse, out: Output) -> None:
    out.lines(response.content)


register_table(
    documents.DocsRelatedResponse,
    "related",
    lambda item: ((item.document, "bold cyan"), ", ".join(item.relations)),
    "Nothing related.",
)


# --- a team's store ------------------------------------------------------------------------------------------------


def _user_row(user: team.TeamUser) -> tuple[Span, ...]:
    state = "disabled" if user.disabled else "admin" if user.admin else ""
    groups = ", ".join(f"@{name}" for name in user.groups)
    return (user.name, "bold cyan"), (state, "yellow"), quantity(user.tokens, "token"), user.email, groups


def _token_row(token: team.TeamToken) -> tuple[Span, ...]:
    used = f"used {token.used_at[:10]}" if token.used_at else "never used"
    scopes, state, until = ",".join(token.scopes), (token.state, STATES[token.state]), f"until {token.expires_at[:10]}"
    return (str(token.id), "bold cyan"), token.user, scopes, state, until, used, token.name


def _event_row(event: team.TeamEvent) -> tuple[Span, ...]:
    at, who = event.at[:19].replace("T", " "), event.user or "operator"
    return (at, "dim"), who, (event.action, "cyan"), event.project, detail_text(event.detail)


register_table(team.TeamUsers, "users", _user_row, "No users yet: `codeinfo team user add NAME` adds one.")
register_table(
    team.TeamGroups, "groups", lambda group: ((f"@{group.name}", "bold cyan"), ", ".join(group.users)), "No groups."
)
register_table(
    team.TeamGrants,
    "grants",
    lambda grant: ((grant.project, "bold cyan"), grant.to, grant.level),
    "Nothing is granted: nobody sees anything.",
)
register_table(team.TeamTokens, "tokens", _token_row, "No tokens.")
register_table(team.TeamEvents, "events", _event_row, "No events.")


@render.register
def _new_token(new: team.NewTeamToken, out: Output) -> None:
    out.line((new.token, "bold"))
    out.wrap((f"For {new.user}, {quantity(new.days, 'day')}. It is not shown again.", "dim"), hang=0)


@render.register
def _pushed(report: team.PushReport, out: Output) -> None:
    out.line((report.project, "bold cyan"), f"  {report.tree}")
    uploaded = f"{quantity(report.files, 'file')}, {report.uploaded} of them uploaded"
    out.line(f"  {'removed' if report.removed else uploaded}")


@render.register
def _project(project: team.TeamProject, out: Output) -> None:
    out.line((project.project, "bold cyan"), f"  {project.url}")
    follows = ", ".join(dict.fromkeys((project.default_ref or "the default branch", *project.follow)))
    out.line(f"  follows {follows}")
    out.line("  webhook secret  ", (project.secret, "bold"))
    if project.old_secret_until:
        out.line((f"  the old one is accepted until {project.old_secret_until}", "dim"))


@render.register
def _removed_user(removal: team.RemovedTeamUser, out: Output) -> None:
    conversations = quantity(removal.conversations, "conversation")
    memories = quantity(removal.memories, "memory", "memories")
    trees, files = quantity(removal.trees, "work tree"), quantity(removal.files, "uploaded file")
    out.line((removal.user, "bold cyan"), f"  removed, with {conversations}, {memories}, {trees} and {files}")


@render.register
def _removed_project(removal: team.RemovedTeamProject, out: Output) -> None:
    trees, files = quantity(removal.trees, "tree"), quantity(removal.files, "file")
    out.line((removal.project, "bold cyan"), f"  removed, with {trees} and {files} that no fork has")


@render.register
def _jobs(jobs: team.TeamJobs, out: Output) -> None:
    waiting, workers = quantity(jobs.waiting, "job"), quantity(jobs.workers, "worker")
    out.line(f"{workers}, {quantity(jobs.running, 'job')} running, {waiting} waiting")
    rows: list[tuple[Span, ...]] = []
    for run in jobs.runs:
        part = f"{run.parsed} of {run.to_parse} parsed" if run.state == "active" else run.problem
        at = (run.finished_at or run.started_at)[:19].replace("T", " ")
        state, files = (run.state, STATES[run.state]), quantity(run.files, "file")
        rows.append(((run.project, "bold cyan"), run.ref, run.revision[:12], state, files, (at, "dim"), part))
    out.table(rows, indent=0)
    for label, colour, failed in (("given up", "bold red", jobs.failed), ("will be retried", "yellow", jobs.retried)):
        for job in failed:
            tried = quantity(job.attempts, "attempt")
            out.line((f"{label}  ", colour), f"{job.job}: {detail_text(job.arguments)}, {tried}, {job.at}")
            out.wrap((f"  {job.problem}", "dim"), hang=2)
