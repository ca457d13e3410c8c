"""Writing the answer: the model's reply, streamed, freed of reasoning and statistics, its citations checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from codeinfo.agent.budget import Spent
from codeinfo.agent.cite import CitationChecker, claims
from codeinfo.agent.evidence import Item, shown
from codeinfo.agent.model import LiveFilter, Model, filled, prompt
from codeinfo.agent.stats import StatsFilter
from codeinfo.agent.tools import Toolbox
from codeinfo.errors import ProviderError
from codeinfo.ports import Delta, Message, ToolCall, ToolSpec

Emit = Callable[[str], None]
_LONG_LINE = 200  # characters: from here on finished sentences are shown before their line ends

_ENDINGS = {
    "cut": "the answer broke off: the endpoint stopped in the middle of it",
    "length": "the answer broke off: it reached its largest size",
}


class Written(Struct):
    """`notes` is empty where the answer is whole."""

    text: str
    checker: CitationChecker
    notes: list[str] = field(default_factory=list)


def write(
    question: str,
    sources: Sequence[Item],
    model: Model,
    toolbox: Toolbox,
    *,
    system: str,
    briefing: str,
    history: Sequence[Message],
    thin: bool,
    reply_tokens: int,
    emit: Emit,
) -> Written:
    """One reply, or several with tool calls between them; the last is asked for without tools."""
    asked = filled(
        "question",
        question=question,
        sources=shown(sources),
        briefing=f"Known beforehand, as data:\n{briefing}\n\n" if briefing else "",
        thin=prompt("thin") + "\n\n" if thin else "",
    )
    messages = [Message("system", f"{system}\n\n{prompt('answer')}".strip()), *history, Message("user", asked)]
    checker = CitationChecker(toolbox.evidence.items)
    live = LiveAnswer(model.live_filter(), checker, emit)
    written = Written("", checker)
    try:
        while True:
            tools = toolbox.specs()
            delta, said = _reply(model, messages, tools, reply_tokens, live, written.notes)
            if not delta.tool_calls:
                break
            if not tools:
                written.notes.append("the model went on asking for tools instead of answering")
                break
            messages += [Message("assistant", said, delta.tool_calls), *_results(delta.tool_calls, toolbox)]
        if note := _ENDINGS.get(delta.finish):
            written.notes.append(note)
    except Spent as limit:
        written.notes.append(f"the answer broke off: {limit}")
    live.finish()
    written.text = live.text
    return written


def _reply(
    model: Model,
    messages: Sequence[Message],
    tools: tuple[ToolSpec, ...],
    reply_tokens: int,
    live: LiveAnswer,
    notes: list[str],
) -> tuple[Delta, str]:
    """The closing delta and what was said. An endpoint that refuses tools is asked once more without them."""
    try:
        return _streamed(model, messages, tools, reply_tokens, live)
    except ProviderError as error:
        if error.code != "LLM_REJECTED" or not tools:
            raise
        notes.append("the endpoint refuses tools: the answer was written without them")
        return _streamed(model, messages, (), reply_tokens, live)


def _streamed(
    model: Model, messages: Sequence[Message], tools: tuple[ToolSpec, ...], reply_tokens: int, live: LiveAnswer
) -> tuple[Delta, str]:
    said: list[str] = []
    delta = Delta(finish="cut")
    for delta in model.llm.stream(messages, tools=tools, max_tokens=reply_tokens):
        said.append(delta.text)
        live.feed(delta.text)
    return delta, "".join(said)


def _results(calls: Sequence[ToolCall], toolbox: Toolbox) -> list[Message]:
    results = []
    for call in calls:
        over = "error: no more tool calls are allowed; answer from what you have"
        results.append(Message("tool", toolbox.perform(call) if toolbox.open else over, tool_call_id=call.id))
    return results


class LiveAnswer:
    """An answer on its way: what has been shown is final, so it is shown sentence by sentence, each one checked."""

    def __init__(self, thinking: LiveFilter, checker: CitationChecker, emit: Emit) -> None:
        self._thinking = thinking
        self._checker = checker
        self._emit = emit
        self._stats = StatsFilter()
        self._waiting = ""  # the part of a line that is not finished
        self._begun = False  # some of the current line was already shown
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts).strip()

    def feed(self, text: str) -> None:
        self._take(self._thinking.feed(text))

    def finish(self) -> None:
        self._take(self._thinking.flush())
        if self._begun:
            self._show(self._waiting)
        else:
            last = [*self._stats.push(self._waiting), *self._stats.flush()]
            self._show("\n".join(last))
        self._waiting = ""

    def _take(self, text: str) -> None:
        *lines, self._waiting = (self._waiting + text).split("\n")
        for line in lines:
            self._line(line)
        if len(self._waiting) > _LONG_LINE and not self._waiting.lstrip().startswith("`"):
            *done, rest = claims(self._waiting)
            if done and rest.strip() and not rest.lstrip().startswith("["):  # a citation may still follow the stop
                self._open_line()
                self._show("".join(done))
                self._waiting = rest

    def _line(self, line: str) -> None:
        if self._begun:
            self._show(line + "\n")
            self._begun = False
            return
        for kept in self._stats.push(line):
            self._show(kept + "\n")

    def _open_line(self) -> None:
        """The first part of a long line is about to be shown: whatever was held back before it is no statistics."""
        if not self._begun:
            for held in self._stats.flush():
                self._show(held + "\n")
        self._begun = True

    def _show(self, text: str) -> None:
        if text:
            checked = self._checker.check(text)
            self._parts.append(checked)
            self._emit(checked)
