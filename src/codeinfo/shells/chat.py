"""Answers on a terminal, written while they come: `ask`, `docs ask`, `chat` and `agents run`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from codeinfo.errors import CodeInfoError
from codeinfo.operations.answers import AgentRunRequest, AskRequest, ChatRequest
from codeinfo.operations.documents import DocsAskRequest
from codeinfo.shells import progress, render_answers
from codeinfo.shells.paper import Paper, clean

if TYPE_CHECKING:
    from codeinfo.agent.loop import Progress
    from codeinfo.engine import Engine

PROMPT = "? "
HELP = "An empty line, /exit or Ctrl-D ends the talk, Ctrl-C stops an answer. Arrows bring back what was asked."
_END = frozenset({"/exit", "/quit", "exit", "quit"})
_HELP = frozenset({"/help", "help", "?"})
Value = TypeVar("Value")


def ask(engine: Engine, request: AskRequest | DocsAskRequest, paper: Paper) -> int:
    with progress.shown(sys.stderr) as sink:
        answer = engine.answers.ask(request, progress=sink, emit=_after(sink, _write), steps=_after(sink, _steps()))
    _end_line()
    render_answers.after(answer, paper, trace=request.trace)
    return 0


def run_agent(engine: Engine, request: AgentRunRequest, paper: Paper) -> int:
    with progress.shown(sys.stderr) as sink:
        emit, steps = _after(sink, _write), _after(sink, _steps())
        run = engine.answers.run_agent(request, progress=sink, emit=emit, steps=steps)
    _end_line()
    for answer in run.answers:
        render_answers.after(answer, paper, trace=request.trace)
    return 0


def chat(engine: Engine, request: ChatRequest, paper: Paper) -> int:
    """One question after the other; an error ends an answer, not the talk, and Ctrl-C stops what is being written."""
    agent = engine.answers.agent(request.agent) if request.agent else None
    conversation = request.conversation
    if sys.stdin.isatty():
        paper.wrapped((HELP, "dim"), hang=0)
    while question := _question(paper):
        asked = AskRequest(question, request.paths, conversation, request.provider, request.model)
        try:
            answer = engine.answers.ask(asked, emit=_write, steps=_steps(), agent=agent)
        except KeyboardInterrupt:
            _end_line()
            paper.line(("stopped", "yellow"))
            if not sys.stdin.isatty():  # nobody sits there who could have meant only this answer
                raise
            continue
        except CodeInfoError as error:
            _end_line()
            paper.line(("error: ", "bold red"), error.what, f"  {error.next_step}")
            continue
        conversation = answer.conversation_id
        _end_line()
        render_answers.after(answer, paper)
        paper.line()
    return 0


def _after(drawing: progress.Drawing | None, write: Callable[[Value], None]) -> Callable[[Value], None]:
    """The same, but the line that shows progress is gone before."""

    def written(value: Value) -> None:
        if drawing is not None:
            drawing.stop()
        write(value)

    return written


def _question(paper: Paper) -> str:
    """The next question; "" at an empty line, a word for it, at the end of the input, or at Ctrl-C."""
    try:
        if not sys.stdin.isatty():
            return next(sys.stdin, "").strip()
        import readline  # noqa: F401  (gives `input` history and editing)

        while (typed := input(PROMPT).strip()) in _HELP:
            paper.wrapped((HELP, "dim"), hang=0)
        return "" if typed in _END else typed
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return ""


def _write(text: str) -> None:
    """The text as it comes, its line ends kept and everything else that could steer a terminal made visible."""
    sys.stdout.write("\n".join(clean(line) for line in text.split("\n")))
    sys.stdout.flush()


def _end_line() -> None:
    sys.stdout.write("\n")


def _steps() -> Callable[[Progress], None]:
    """What the loop is doing, on stderr, when someone watches."""
    if not sys.stderr.isatty():
        return lambda step: None
    return lambda step: print(f"  {step.stage}: {clean(step.detail)}", file=sys.stderr)
