"""Writing the answer: the model's reply, streamed, without reasoning and statistics, its citations checked.

Usage statistics close an answer for people. Models imitate the block when they see it in the history, so it is taken
out there, also where its emoji arrived mis-decoded. Line by line: no pattern here can take more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from codeinfo.answers.agents import Toolbox
from codeinfo.answers.cite import CitationChecker, claims
from codeinfo.answers.evidence import Item, format_passages
from codeinfo.answers.model import LiveFilter, Model, Spent, fill_prompt, prompt
from codeinfo.errors import ProviderError
from codeinfo.operations.answers import AnswerUsage
from codeinfo.ports import Delta, Message, ToolCall, ToolSpec

TITLE = "LLM Usage Stats"
_LABELS = ("API Calls", "Tokens", "Time", "Evidence", "Model", "Cost")
_RULE = "---"
_LONGEST_TITLE_LINE = 80  # the title, its stars and whatever an emoji turned into


def stats_block(usage: AnswerUsage, took_ms: float) -> str:
    total = usage.prompt_tokens + usage.completion_tokens
    about = "about " if usage.estimated else ""
    return "\n".join(
        (
            _RULE,
            f"📊 **{TITLE}:**",
            f"- **API Calls:** {usage.calls}",
            f"- **Tokens:** {about}{total:,} (prompt {usage.prompt_tokens:,}, completion {usage.completion_tokens:,})",
            f"- **Time:** {took_ms / 1000:.1f} s",
        )
    )


def strip_stats(text: str) -> str:
    """The text without any such block."""
    if TITLE not in text:
        return text
    block = StatsFilter()
    lines = [kept for line in text.split("\n") for kept in block.push(line)]
    return "\n".join([*lines, *block.flush()]).rstrip()


class StatsFilter:
    """Takes lines one by one and gives back those that belong to no such block."""

    def __init__(self) -> None:
        self._held: list[str] = []  # a rule and the blank lines behind it, until it is known what follows
        self._inside = False

    def push(self, line: str) -> list[str]:
        if is_title(line):
            self._held, self._inside = [], True
            return []
        if self._inside and (not line.strip() or line.lstrip(" -*•").startswith(_LABELS)):
            return []
        self._inside = False
        before = self._held
        if line.strip() == _RULE:
            self._held = [line]
            return before
        if before and not line.strip():
            before.append(line)
            return []
        self._held = []
        return [*before, line]

    def flush(self) -> list[str]:
        held, self._held = self._held, []
        return held


def is_title(line: str) -> bool:
    """Nothing but the title once marks and characters outside ASCII (an emoji, or what became of it) are gone."""
    if TITLE not in line or len(line) > _LONGEST_TITLE_LINE:
        return False
    return "".join(char for char in line if char.isascii() and (char.isalpha() or char == " ")).strip() == TITLE


Emit = Callable[[str], None]
# What stands around passages in a prompt; a model that copies it shows a reader nothing.
_PASSAGE_MARK = re.compile(r"<{2,3}(?:source|passage|end)\b[^<>\n]{0,300}>{2,3}")
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
    asked = fill_prompt(
        "question",
        question=question,
        sources=format_passages(sources),
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
    over = "error: no more tool calls are allowed; answer from what you have"
    return [Message("tool", toolbox.perform(call) if toolbox.open else over, tool_call_id=call.id) for call in calls]


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
        if text := _PASSAGE_MARK.sub("", text):
            checked = self._checker.check(text)
            self._parts.append(checked)
            self._emit(checked)
