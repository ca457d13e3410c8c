"""Answers, agents and conversations for people."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from codeinfo.operations import answers
from codeinfo.shells.paper import Paper, Span, near_path

QUESTION_SHOWN = 100  # characters of a question in a table
STATES = {"LLM_UNAVAILABLE": "does not answer", "LLM_TIMEOUT": "does not answer in time"}


def render(result: Any, paper: Paper, *, explain: bool = False) -> None:
    _RENDERERS[type(result)](result, paper)


# --- answers -------------------------------------------------------------------------------------------------------


def _answer(answer: answers.Answer, paper: Paper) -> None:
    for line in answer.text.split("\n"):
        paper.line(line)
    after(answer, paper)


def after(answer: answers.Answer, paper: Paper, *, trace: bool = False) -> None:
    """What stands below the text of an answer: sources, notes, figures."""
    if answer.citations:
        paper.line()
        paper.line(("Sources", "bold"))
        rows: list[tuple[Span, ...]] = []
        for one in answer.citations:
            place = f"{_near(one.root, one.path)}:{one.start_line}-{one.end_line}"
            rows.append(
                (
                    (f"[{one.number}]", "dim"),
                    (_near("", one.opens) if one.opens else place, "cyan"),
                    (one.section, "magenta"),
                    (one.problem and f"unverified: {one.problem}", "yellow"),
                )
            )
        paper.table(rows)
    for note in answer.notes:
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)
    if trace:
        render_trace(answer, paper)
    if answer.usage.calls:
        _statistics(answer, paper)
    if answer.conversation_id:
        paper.line((f"conversation {answer.conversation_id}", "dim"))


def _statistics(answer: answers.Answer, paper: Paper) -> None:
    from codeinfo.agent.stats import stats_block

    paper.line()
    for line in stats_block(answer.usage, answer.took_ms).split("\n"):
        paper.line((line, "dim"))


def render_trace(answer: answers.Answer, paper: Paper) -> None:
    paper.line()
    for number, entry in enumerate(answer.trace.rounds, 1):
        average = "" if entry.average is None else f", average {entry.average:.2f}"
        source = f", {entry.score_source}" if entry.score_source else ""
        paper.line((f"Round {number}: ", "bold"), entry.query, (f"  → {entry.verdict}{average}{source}", "magenta"))
        paper.table([_graded(item) for item in entry.items], indent=4)
        dropped = [(f"{one.path}:{one.start_line}-{one.end_line}", one.rule, one.detail) for one in entry.dropped]
        if dropped:
            paper.line("  ", ("dropped", "dim"))
            paper.table(dropped, indent=4)
    if answer.trace.tools:
        paper.line(("Tools", "bold"))
        paper.table([(use.name, use.arguments, use.outcome) for use in answer.trace.tools])
    if answer.trace.faults:
        paper.line(("Citations that did not hold", "bold"))
        paper.table([(f"[{one.number}]", one.action, f"{one.problem}: {one.claim}") for one in answer.trace.faults])
    paper.line((f"evidence: about {answer.usage.evidence_tokens:,} tokens", "dim"))


def _graded(item: answers.GradedItem) -> tuple[Span, ...]:
    score = "not graded" if item.score is None else f"{item.score:.2f}"
    distance = "" if item.distance is None else f"distance {item.distance.value:.3f} ({item.distance.metric})"
    return f"{item.path}:{item.start_line}-{item.end_line}", score, distance


def _near(root: str, path: str) -> str:
    return near_path(os.path.join(root, path))


def _run(run: answers.AgentRun, paper: Paper) -> None:
    for one in run.answers:
        _answer(one, paper)
        paper.line()


# --- providers and agents ------------------------------------------------------------------------------------------


def _providers(found: answers.ProviderList, paper: Paper) -> None:
    width = max((len(one.name) for one in found.providers), default=0)
    room = max((len(one.base_url) for one in found.providers), default=0)
    for one in found.providers:
        words = STATES.get(one.state, one.state)
        state: Span = (words, "green" if one.state == "ok" else "yellow" if one.configured else "dim")
        used: Span = ("  used by ask", "magenta") if one.chosen else ""
        paper.line((one.name.ljust(width), "bold cyan"), f"  {one.base_url.ljust(room)}  ", state, used)
        for model in one.models:
            paper.line("    ", model)
        if one.detail and one.configured:
            paper.line("    ", (one.detail, "yellow"))
    if not any(one.chosen for one in found.providers):
        paper.line("No chat model: `codeinfo ask` quotes the best passages.")
        paper.wrapped("Start one of these, or set `llm.base_url` to an endpoint of your own.", hang=2)
    for note in found.notes:
        paper.wrapped(("note: ", "bold yellow"), note, hang=6)


def _agents(found: answers.AgentList, paper: Paper) -> None:
    for one in found.agents:
        paper.wrapped((one.name, "bold cyan"), "  ", (one.problem, "red") if one.problem else one.description, hang=4)
        paper.table([(command.name, command.description) for command in one.commands], indent=4)


# --- conversations -------------------------------------------------------------------------------------------------


def _page(page: answers.ConversationPage, paper: Paper) -> None:
    paper.table([_row(one) for one in page.conversations], indent=0)
    if not page.conversations:
        paper.line("No conversations.")
    if page.next_cursor:
        paper.line((f"more: --cursor {page.next_cursor}", "dim"))


def _row(one: answers.Conversation) -> tuple[Span, ...]:
    state = "running" if one.running else "archived" if one.archived_at else one.agent_name
    when = one.last_message_at[:16].replace("T", " ")
    return (one.id, "cyan"), when, f"{one.turns // 2} asked", (state, "magenta"), one.title


def _detail(detail: answers.ConversationDetail, paper: Paper) -> None:
    paper.line((detail.conversation.title, "bold"))
    paper.table([_row(detail.conversation)], indent=0)
    for turn in detail.turns:
        paper.line()
        if turn.role == "user":
            paper.line((f"> {turn.content}", "bold"))
            continue
        for line in turn.content.split("\n"):
            paper.line(line)
        if turn.status != "ok" or turn.error:
            paper.line((f"{turn.status}: {turn.error}", "yellow"))


def _matches(found: answers.ConversationMatches, paper: Paper) -> None:
    for match in found.matches:
        paper.table([_row(match.conversation)], indent=0)
        paper.wrapped("    ", (match.excerpt, "dim"), hang=4)
    if not found.matches:
        paper.line("Nothing found.")


def _changed(change: answers.ConversationsChanged, paper: Paper) -> None:
    for identity in change.ids:
        paper.line((identity, "cyan"), f"  {change.action}")


def _export(export: answers.ConversationExport, paper: Paper) -> None:
    for line in export.markdown.rstrip("\n").split("\n"):
        paper.line(line)


# --- answer tests --------------------------------------------------------------------------------------------------


def _evaluation(report: answers.AnswerEvalReport, paper: Paper) -> None:
    for check in report.checks:
        verdict: Span = ("pass", "green") if check.passed else ("FAIL", "bold red")
        paper.line(verdict, "  ", check.question[:QUESTION_SHOWN], (f"  {check.status}, {check.tokens} tokens", "dim"))
        for failure in check.failures:
            paper.line("      ", (failure, "yellow"))
    paper.line(f"{report.passed} passed, {report.failed} failed")


_RENDERERS: dict[type, Callable[[Any, Paper], None]] = {
    answers.Answer: _answer,
    answers.AgentRun: _run,
    answers.ProviderList: _providers,
    answers.AgentList: _agents,
    answers.ConversationPage: _page,
    answers.ConversationDetail: _detail,
    answers.ConversationMatches: _matches,
    answers.ConversationsChanged: _changed,
    answers.ConversationExport: _export,
    answers.AnswerEvalReport: _evaluation,
}
