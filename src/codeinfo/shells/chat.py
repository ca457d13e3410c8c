"""Answers on a terminal, written as they arrive: `ask`, `docs ask`, `chat` and `agents run`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from codeinfo.errors import CodeInfoError
from codeinfo.operations.answers import AgentRunRequest, AskRequest, ChatRequest
from codeinfo.operations.documents import DocsAskRequest
from codeinfo.shells.render_answers import write_sources
from codeinfo.shells.terminal import Output, ProgressLine, clean, show_progress

if TYPE_CHECKING:
    from codeinfo.answers.loop import Progress
    from codeinfo.engine import Engine

PROMPT = "? "
HELP = "An empty line, /exit or Ctrl-D ends the conversation, Ctrl-C stops an answer. Arrow keys recall questions."
_END = frozenset({"/exit", "/quit", "exit", "quit"})
_HELP = frozenset({"/help", "help", "?"})
Value = TypeVar("Value")


def ask(engine: Engine, request: AskRequest | DocsAskRequest, out: Output) -> int:
    with show_progress(sys.stderr) as sink:
        answer = engine.answers.ask(request, progress=sink, emit=_after(sink, _write), steps=_after(sink, _steps()))
    _end_line()
    write_sources(answer, out, trace=request.trace)
    return 0


def run_agent(engine: Engine, request: AgentRunRequest, out: Output) -> int:
    with show_progress(sys.stderr) as sink:
        emit, steps = _after(sink, _write), _after(sink, _steps())
        run = engine.answers.run_agent(request, progress=sink, emit=emit, steps=steps)
    _end_line()
    for answer in run.answers:
        write_sources(answer, out, trace=request.trace)
    return 0


def chat(engine: Engine, request: ChatRequest, out: Output) -> int:
    """One question after the other; an error ends an answer, not the conversation, and Ctrl-C stops the answer."""
    agent = engine.answers.agent(request.agent) if request.agent else None
    conversation = request.conversation
    if sys.stdin.isatty():
        out.wrap((HELP, "dim"), hang=0)
    while question := _question(out):
        asked = AskRequest(question, request.paths, conversation, request.provider, request.model)
        try:
            answer = engine.answers.ask(asked, emit=_write, steps=_steps(), agent=agent)
        except KeyboardInterrupt:
            _end_line()
            out.line(("stopped", "yellow"))
            if not sys.stdin.isatty():  # no one is typing who could have meant only this answer
                raise
            continue
        except CodeInfoError as error:
            _end_line()
            out.line(("error: ", "bold red"), error.what, f"  {error.next_step}")
            continue
        conversation = answer.conversation_id
        _end_line()
        write_sources(answer, out)
        out.line()
    return 0


def _after(line: ProgressLine | None, write: Callable[[Value], None]) -> Callable[[Value], None]:
    """`write`, with the progress line removed first."""

    def write_alone(value: Value) -> None:
        if line is not None:
            line.stop()
        write(value)

    return write_alone


def _question(out: Output) -> str:
    """The next question; "" at an empty line, `exit`, the end of the input, or Ctrl-C."""
    try:
        if not sys.stdin.isatty():
            return next(sys.stdin, "").strip()
        import readline  # noqa: F401  (gives `input` history and editing)

        while (typed := input(PROMPT).strip()) in _HELP:
            out.wrap((HELP, "dim"), hang=0)
        return "" if typed in _END else typed
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return ""


def _write(text: str) -> None:
    """The text as it arrives; line ends are kept, other control characters made visible."""
    sys.stdout.write("\n".join(clean(line) for line in text.split("\n")))
    sys.stdout.flush()


def _end_line() -> None:
    sys.stdout.write("\n")


def _steps() -> Callable[[Progress], None]:
    """What the loop is doing, on stderr, when someone watches."""
    if not sys.stderr.isatty():
        return lambda step: None
    return lambda step: print(f"  {step.stage}: {clean(step.detail)}", file=sys.stderr)


# What is performed here for people instead of by its operation; with `--json` the operation runs.
LIVE: dict[type, Callable[[Any, Any, Output], int]] = {
    AskRequest: ask,
    DocsAskRequest: ask,
    AgentRunRequest: run_agent,
    ChatRequest: chat,
}
