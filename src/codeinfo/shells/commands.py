"""Commands from operations: arguments from the fields of a request, results as text or JSON, answers as they arrive."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from msgspec.structs import asdict

from codeinfo.config import Config, colour_refused
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.jsonable import dumps
from codeinfo.operations import OPERATIONS, Operation, Parameter, parameters
from codeinfo.operations.answers import AgentRunRequest, AskRequest, ChatRequest
from codeinfo.operations.documents import DocsAskRequest
from codeinfo.operations.search import GrepRequest, IndexRequest, SearchRequest
from codeinfo.shells.render_answers import Prose, write_sources
from codeinfo.shells.terminal import Output, ProgressLine, clean, is_unicode, show_progress

if TYPE_CHECKING:
    from codeinfo.answers.loop import Progress
    from codeinfo.engine import Engine


EXACTLY = ("regex", "word", "ignore_case")  # options of `grep` that make a search exact
QUOTES = {'"': False, "/": True}  # around a query that is to be found as it is, and whether it is an expression
PROMPT = "? "
PLACES = ("paths", "path")  # the fields that name folders of projects
ROOT_HELP = "Work on exactly this folder, not on the repository around it; paths count from there."
HELP = "An empty line, /exit or Ctrl-D ends the conversation, Ctrl-C stops an answer. Arrow keys recall questions."
_END = frozenset({"/exit", "/quit", "exit", "quit"})
_HELP = frozenset({"/help", "help", "?"})
Value = TypeVar("Value")


def ask(engine: Engine, request: AskRequest | DocsAskRequest, out: Output) -> int:
    with show_progress(sys.stderr) as sink, Prose(out) as prose:
        emit, steps = _after(sink, prose.write), _after(sink, _steps())
        answer = engine.answers.ask(request, progress=sink, emit=emit, steps=steps)
    write_sources(answer, out, trace=request.trace)
    return 0


def run_agent(engine: Engine, request: AgentRunRequest, out: Output) -> int:
    with show_progress(sys.stderr) as sink, Prose(out) as prose:
        emit, steps = _after(sink, prose.write), _after(sink, _steps())
        run = engine.answers.run_agent(request, progress=sink, emit=emit, steps=steps)
    for answer in run.answers:
        write_sources(answer, out, trace=request.trace)
    return 0


def chat(engine: Engine, request: ChatRequest, out: Output) -> int:
    """One question after the other; an error ends an answer, not the conversation, and Ctrl-C stops the answer."""
    agent = engine.answers.agent(request.agent) if request.agent else None
    conversation = request.conversation
    if sys.stdin.isatty():
        out.wrap((HELP, "dim"), hang=0)
    while question := _read_question(out):
        asked = AskRequest(question, request.paths, conversation, request.provider, request.model)
        try:
            with Prose(out) as prose:
                answer = engine.answers.ask(asked, emit=prose.write, steps=_steps(), agent=agent)
        except KeyboardInterrupt:
            out.line(("stopped", "yellow"))
            if not sys.stdin.isatty():  # no one is typing who could have meant only this answer
                raise
            continue
        except CodeInfoError as error:
            out.line(("error: ", "bold red"), error.what, f"  {error.next_step}")
            continue
        conversation = answer.conversation_id
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


def _read_question(out: Output) -> str:
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


# --- building a command --------------------------------------------------------------------------------------------


def command(operation: Operation) -> click.Command:
    fields = {item.name: item for item in parameters(operation.request)}
    params = [_parameter(item) for item in fields.values()]
    if "root" not in fields and any(name in fields and not fields[name].required for name in PLACES):
        params.append(click.Option(["--root", "exact"], metavar="DIR", help=ROOT_HELP))
    if operation.request is SearchRequest:
        params += [_parameter(item) for item in parameters(GrepRequest) if item.name in EXACTLY]
        params.append(click.Option(["--interactive", "-I"], is_flag=True, help="Search while you type, open a result."))
        params[0].required = False  # an interactive search may begin with nothing
    if operation.request is IndexRequest:
        params.append(click.Option(["--verbose", "-v"], is_flag=True, help="List all that was skipped or masked."))
    if operation.confirm:
        params.append(click.Option(["--yes", "-y"], is_flag=True, help="Do not ask."))
    return click.Command(
        operation.name.split()[-1],
        params=[*params, *common_options()],
        callback=partial(_perform, operation),
        help=_help(operation),
        short_help=operation.summary,
    )


def common_options() -> list[click.Parameter]:
    return [
        click.Option(["--set", "settings"], multiple=True, metavar="KEY=VALUE", help="Override one setting this time."),
        click.Option(["--json", "as_json"], is_flag=True, help="Write the result as JSON."),
        click.Option(["--debug"], is_flag=True, help="Show a traceback when something fails."),
    ]


def _help(operation: Operation) -> str:
    arguments = [f"{_argument_name(item)}: {item.help}" for item in parameters(operation.request) if item.argument]
    return "\n\n".join(part for part in (operation.summary, operation.help, *arguments) if part)


def _argument_name(item: Parameter) -> str:
    many = item.kind.startswith("tuple")
    name = (item.metavar or (item.name.removesuffix("s") if many else item.name).upper()) + "…" * many
    return name if item.required else f"[{name}]"


def _parameter(item: Parameter) -> click.Parameter:
    many = item.kind.startswith("tuple")
    if item.argument:
        nargs = -1 if many else 1
        return click.Argument([item.name], nargs=nargs, required=item.required, metavar=_argument_name(item))
    name = (item.name.removesuffix("s") if many else item.name).replace("_", "-")
    flags = f"--{name}/--no-{name}" if item.kind == "bool" and item.default else f"--{name}"
    return click.Option(
        [flags, item.name, *([f"-{item.short}"] if item.short else [])],
        type=_type(item),
        multiple=many,
        default=None if item.default in ("", ()) else item.default,
        is_flag=item.kind == "bool",
        help=item.help,
        metavar=item.metavar or ("N" if item.kind == "int" else None),
        show_default=item.kind == "int" or (item.kind == "str" and item.default not in ("", ".")),
    )


def _type(item: Parameter) -> Any:
    if item.choices:
        return click.Choice(item.choices, case_sensitive=False)
    bounded = item.minimum is not None or item.maximum is not None
    if item.kind == "int":
        return click.IntRange(item.minimum, item.maximum) if bounded else int
    if item.kind == "float":
        return click.FloatRange(item.minimum, item.maximum) if bounded else float
    return bool if item.kind == "bool" else str


# --- performing an operation ---------------------------------------------------------------------------------------


def _perform(operation: Operation, /, settings: tuple[str, ...], as_json: bool, debug: bool, **values: Any) -> int:
    """Run one operation and write its result; the exit code is returned."""
    agreed, root, verbose = values.pop("yes", True), values.pop("exact", None), values.pop("verbose", False)
    interactive = values.pop("interactive", False)
    if operation.request is SearchRequest and values["query"] is None:
        if not interactive:
            raise click.UsageError("Missing argument 'QUERY'.", click.get_current_context())
        values["query"] = ""
    given = {name: value for name, value in values.items() if value not in ((), None)}
    given = _with_words_joined(operation, given, root or "")
    if operation.request is SearchRequest and (exact := exact_search(given)) and not interactive:
        operation, given = OPERATIONS["grep"], exact
    request = operation.request(**(_placed_below(root, operation, given) if root else given))
    config = Config.load(parse_settings(settings), _project_folder(request))
    from codeinfo.engine import Engine

    with contextlib.closing(Engine(config)) as engine:
        if root:
            engine.indexes.of(root)
        ask_first = operation.confirm and not agreed and sys.stdin.isatty()
        if ask_first and not click.confirm(_confirmation(operation, request, engine), err=True):
            click.echo("Nothing was done.", err=True)
            return 0
        if interactive:
            from codeinfo.shells.picker import pick

            return pick(engine, request)
        if not as_json and (live := LIVE.get(operation.request)):
            _print_notes(config.notes)
            with _quiet_pipe():
                return live(engine, request, _output(request))
            return 0
        with show_progress(sys.stderr) as progress:
            result = operation.run(engine, request, progress)
    if config.notes:
        text = dumps(result)
        _print_notes(note for note in config.notes if dumps(note) not in text)  # most results carry them already
    if as_json:
        write_json(result)
    else:
        write_text(result, request, partial(_project_of, engine, request), verbose=verbose)
    return operation.exit_code(result) if operation.exit_code else 0


def exact_search(values: dict[str, Any]) -> dict[str, Any] | None:
    """The values of a search that are for `grep` where its query is `"quoted"`, `/an expression/`, or comes with an
    option that only `grep` has; None, without these options, where it is to be ranked."""
    query, options = values["query"], {name: values.pop(name) for name in EXACTLY}
    mark = query[0] if len(query) > 2 and query[0] == query[-1] and query[0] in QUOTES else ""
    if not mark and not any(options.values()):
        return None
    if mark and not options["regex"]:
        query, options["regex"] = query[1:-1], QUOTES[mark]
    context = click.get_current_context()
    given = {name for name in values if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    known = {item.name for item in parameters(GrepRequest)}
    if wrong := sorted(given - known - {"query"}):
        flag = wrong[0].replace("_", "-")
        raise UsageError(f"--{flag} is for ranked search", next_step="Leave it out, or the quotes around the query")
    return {"pattern": query, **options, **{name: values[name] for name in given & known}}


def _confirmation(operation: Operation, request: Any, engine: Engine) -> str:
    """What to ask before something is done; `clear` names the projects that it deletes the indexes of."""
    values = asdict(request)
    if "paths" in values:
        values["paths"] = tuple(map(engine.indexes.locate, values["paths"] or ("",)))
    texts = {name: ", ".join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
    return operation.confirm.format(**texts)


def _with_words_joined(operation: Operation, given: dict[str, Any], root: str) -> dict[str, Any]:
    """`search parse the header src` is one query and a folder: words are joined, and what exists at the end is a path.

    Says so where it may have been meant as a word; a path that does not exist is no word.
    """
    field = next((name for name in ("query", "question", "pattern") if name in given and "paths" in given), "")
    if not field:
        return given
    words, paths = [given[field]], list(given["paths"])
    last_word = max((at for at, path in enumerate(paths, 1) if not _is_place(os.path.join(root, path))), default=0)
    missing = paths[last_word - 1] if last_word else ""
    if missing and ("/" in missing or " " in given[field]):
        hint = f"If it is a part of the {field}, put all of that in quotes"
        raise UsageError(f"{missing} does not exist", next_step=hint)
    words, paths = [*words, *paths[:last_word]], paths[last_word:]
    if paths and len(words) > 1 and "/" not in paths[0]:
        click.echo(f"note: looking in {', '.join(paths)} only; put the words in quotes if that is one", err=True)
    return given | {field: " ".join(words), "paths": tuple(paths)}


def _is_place(path: str) -> bool:
    if os.path.exists(path):
        return True
    from codeinfo.sources.git import names_repository  # late: few commands name what is not here

    return names_repository(path)


def _placed_below(root: str, operation: Operation, given: dict[str, Any]) -> dict[str, Any]:
    """The values with their folders counted from `root`."""
    for item in parameters(operation.request):
        if item.name == "paths":
            return given | {"paths": tuple(os.path.join(root, path) for path in given.get("paths") or ("",))}
        if item.name == "path":
            return given | {"path": os.path.join(root, given.get("path", ""))}
    return given


def parse_settings(settings: Sequence[str]) -> Mapping[str, str]:
    """The values of `--set`."""
    pairs = [item.partition("=") for item in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--set {key} has no value", next_step="Write it as KEY=VALUE, as in index.workers=1.")
    return {key.strip(): value for key, _, value in pairs}


def _project_folder(request: Any) -> Path:
    """The folder whose project file counts: that of the first path named."""
    paths = getattr(request, "paths", None) or (getattr(request, "path", "."),)
    first = Path(paths[0])
    return first if os.path.isdir(first) else first.parent


def _project_of(engine: Engine, request: Any) -> str:
    """The root that paths in the result of a request about one project are counted from; "" for a team's project, of
    which no file is here."""
    from codeinfo.sources.git import names_repository

    place = os.path.join(getattr(request, "root", ""), request.path)
    return "" if engine.config.store.url and names_repository(place) else engine.indexes.locate(place)


# --- writing a result ----------------------------------------------------------------------------------------------


def write_json(value: object) -> None:
    with _quiet_pipe():
        indent = 2 if sys.stdout.isatty() else None
        print(dumps(value, indent=indent, ascii_only=not is_unicode(sys.stdout)), flush=True)


def write_text(
    result: object, request: object = None, find_root: Callable[[], str] = str, *, verbose: bool = False
) -> None:
    from codeinfo.shells import render, render_answers, render_code  # noqa: F401  (they register)

    with _quiet_pipe():
        render.render(result, _output(request, find_root, verbose=verbose))
        sys.stdout.flush()


def _output(request: object, find_root: Callable[[], str] = str, *, verbose: bool = False) -> Output:
    explain = getattr(request, "explain", False)
    # What was asked for in full is not cut to a few lines again.
    whole = bool(getattr(request, "full_text", False) or getattr(request, "max_tokens", 0))
    colour = not colour_refused()
    return Output(sys.stdout, find_root=find_root, colour=colour, explain=explain, whole=whole, verbose=verbose)


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """A reader that went away (`| head`) is no failure: stop writing and say nothing."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit would complain
