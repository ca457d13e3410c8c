"""The command line: commands derived from operations, a few others, streamed answers, errors as exit codes.

Data goes to stdout, everything else to stderr. click rather than typer: it imports in 40 ms instead of 68, and only the
command that was typed is built. Everything heavier is imported where it is used.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource
from msgspec.structs import asdict, replace

from codeinfo import __version__
from codeinfo.cache import group_by_key
from codeinfo.config import Config, refuses_colour
from codeinfo.errors import CodeInfoError, Interrupted, UsageError, requires
from codeinfo.model import dumps
from codeinfo.operations import OPERATIONS, Input, Operation, inputs_of
from codeinfo.operations.answers import AgentRunRequest, Answer, AskRequest, ChatRequest
from codeinfo.operations.base import FILE, PROJECT, Listener, field_naming
from codeinfo.operations.documents import AnyQuestion, DocsAskRequest
from codeinfo.operations.search import GrepRequest, IndexRequest, SearchRequest, strip_quotes
from codeinfo.settings import SETTINGS
from codeinfo.shells.terminal import Output, ProgressLine, clean, is_unicode, report_error, show_progress

if TYPE_CHECKING:
    from codeinfo.engine import Engine


EPILOG = "Exit codes: 0 ok, 1 a bug in CodeInfo, 2 usage, 3 done but something was skipped or failed a check, 4 "
EPILOG += "busy, 5 index damaged, 6 endpoint, 7 disk or memory, 130 interrupted. Settings: `codeinfo config show`."
LEAST_ADDRESS_SPACE = 256 << 20  # bytes: with less, OpenBLAS may end the process in the middle of an index run
TEXTS = Path(__file__).parent  # start.txt, examples.txt
SHELLS = ("bash", "zsh", "fish")
LOG_LEVELS = ("error", "warning", "info", "debug")
GROUP_HELP = {
    "agents": "Agents: folders with a prompt, a model and commands.",
    "conversations": "Saved conversations: list, show, search, archive, export.",
    "docs": "Collections of documents: add, sync, search, cite.",
    "memory": "What the team remembers about this project.",
    "team": "A team's store: users, groups, grants, tokens, projects, jobs, the audit log.",
    "project": "What its workers index.",
    "user": "Who belongs to the team.",
    "group": "Groups of users.",
    "grant": "Who may see which project.",
    "token": "Personal access tokens.",
}
ALIASES = {"memory add": "remember"}  # where people look for it beside the other commands of a group
MISSPELT = 0.78  # of the letters: "what" begins a question and is not "chat", "serach" is "search"
SERVING, TEAM, OTHERS = "For agents and browsers", "A team's server", "More"  # headings of the list of commands
EXACTLY = ("regex", "word", "ignore_case")  # options of `grep` that make a search exact
OVERRIDE: dict[str, Any] = {"multiple": True, "metavar": "KEY=VALUE", "help": "Override one setting this time."}
FELL_SHORT = 3  # exit code: done, but something was skipped or failed a check
TAKE_TEXT = ("codeinfo", "search", "grep", "ask")  # commands where an unknown option may be what is looked for
PLACES = ("paths", "path")  # the fields that name folders of projects
ROOT_HELP = "Work on exactly this folder, not on the repository around it; paths count from there."
HELP = "An empty line, /exit or Ctrl-D ends the conversation, Ctrl-C stops an answer. Arrow keys recall questions."
_END = frozenset({"/exit", "/quit", "exit", "quit"})
_HELP = frozenset({"/help", "help", "?"})


class WholeNumber(click.IntRange):
    name = "whole number"  # in messages

    def _describe_range(self) -> str:
        return f"{self.min} to {self.max}" if self.max is not None else f"at least {self.min}"


class Command(click.Command):
    """A command whose help ends with examples to copy."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        command = f"{ctx.command_path} "
        lines = (TEXTS / "examples.txt").read_text("utf-8").splitlines()
        if shown := [line for line in lines if line.startswith(command)]:
            formatter.write(f"\nExample{'s' * (len(shown) > 1)}:\n")
            formatter.write("".join(f"  {line}\n" for line in shown))


# --- answers as they arrive ----------------------------------------------------------------------------------------


def ask(engine: Engine, request: AnyQuestion, out: Output) -> None:
    from codeinfo.shells.render_answers import Prose, write_continuation, write_sources

    with show_progress(sys.stderr) as sink, Prose(out) as prose:

        def finish(answer: Answer) -> None:
            prose.end()
            write_sources(answer, out, trace=request.trace)

        text, step, answer = (_after(sink, write) for write in (prose.write, _show_step, finish))
        written = engine.answers.answer(request, Listener(progress=sink, step=step, text=text, answer=answer))
    write_continuation(written[-1].conversation_id, out)


def chat(engine: Engine, request: ChatRequest, out: Output) -> None:
    """One question after another; an error or Ctrl-C ends the answer, not the conversation."""
    from codeinfo.shells.render_answers import Prose, write_continuation, write_sources

    agent = engine.answers.agent(request.agent) if request.agent else None
    conversation, noted = request.conversation, set[str]()
    if sys.stdin.isatty():
        out.wrap((HELP, "dim"), hang=0)
    while question := _read_question(out):
        ask_request = AskRequest(question, request.paths, conversation, request.provider, request.model)
        try:
            with Prose(out) as prose:
                answer = engine.answers.ask(ask_request, Listener(step=_show_step, text=prose.write), agent=agent)
        except KeyboardInterrupt:
            out.line(("stopped", "yellow"))
            if not sys.stdin.isatty():  # a script: Ctrl-C ends all of it
                raise
            continue
        except CodeInfoError as error:
            out.line(("error: ", "bold red"), error.what, f"  {error.next_step}")
            continue
        conversation = answer.conversation_id
        write_sources(replace(answer, notes=tuple(note for note in answer.notes if note not in noted)), out)
        noted.update(answer.notes)
        out.line()
    write_continuation(conversation, out)


def _after(line: ProgressLine | None, write: Callable[..., None]) -> Callable[..., None]:
    """`write`, with the progress line removed first."""

    def write_alone(*values: Any) -> None:
        if line is not None:
            line.stop()
        write(*values)

    return write_alone


def _read_question(out: Output) -> str:
    """The next question; "" at an empty line, `exit`, the end of the input, or Ctrl-C."""
    try:
        if not sys.stdin.isatty():
            return next(sys.stdin, "").strip()
        import readline  # noqa: F401  (gives `input` history and editing)

        while (typed := input("? ").strip()) in _HELP:
            out.wrap((HELP, "dim"), hang=0)
        return "" if typed in _END else typed
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return ""


def _show_step(stage: str, detail: str) -> None:
    """Show the steps of an answer on stderr if that is a terminal."""
    if sys.stderr.isatty():
        print(f"  {stage}: {clean(detail)}", file=sys.stderr)


# Streamed to people; with `--json` the operation runs as usual.
LIVE: dict[type, Callable[[Any, Any, Output], None]] = dict.fromkeys((AskRequest, DocsAskRequest, AgentRunRequest), ask)
LIVE[ChatRequest] = chat


# --- building a command --------------------------------------------------------------------------------------------


def command(operation: Operation) -> click.Command:
    fields = inputs_of(operation.request)
    described = [f"{_argument_name(item)}: {item.help}" for item in fields if item.argument]
    params = [_parameter(item) for item in fields]
    if field_naming(PROJECT, operation.request) in PLACES and not operation.name.startswith("docs "):
        params.append(click.Option(["--root", "exact"], type=click.Path(), metavar="DIR", help=ROOT_HELP))
    if operation.request is SearchRequest:
        params += [_parameter(item) for item in inputs_of(GrepRequest) if item.name in EXACTLY]
        params.append(click.Option(["--interactive", "-I"], is_flag=True, help="Search while you type, open a result."))
        params[0].required = False  # an interactive search may begin with nothing
    if operation.request is IndexRequest:
        help = "List everything that was skipped or masked."
        params.append(click.Option(["--verbose", "-v"], is_flag=True, help=help))
    if operation.confirm:
        params.append(click.Option(["--yes", "-y"], is_flag=True, help="Do not ask for confirmation."))
    return Command(
        operation.name.split()[-1],
        params=[*params, *common_options(has_result=operation.request is not ChatRequest)],
        callback=partial(_perform, operation),
        help="\n\n".join(filter(None, (operation.summary, operation.help, *described))),
        short_help=operation.summary,
    )


def common_options(*, has_result: bool = True) -> list[click.Parameter]:
    return [
        click.Option(["--set", "settings"], **OVERRIDE),
        click.Option(["--json", "as_json"], is_flag=True, hidden=not has_result, help="Write the result as JSON."),
        click.Option(["--debug"], is_flag=True, help="Show a traceback when something fails."),
    ]


def _argument_name(item: Input) -> str:
    name = (item.metavar or _singular(item).upper()) + "…" * item.is_list
    return name if item.required else f"[{name}]"


def _singular(item: Input) -> str:
    return item.name.removesuffix("s") if item.is_list else item.name


def _parameter(item: Input) -> click.Parameter:
    if item.argument:
        nargs = -1 if item.is_list else 1
        name, kind = _argument_name(item), _type(item)
        return click.Argument([item.name], type=kind, nargs=nargs, required=item.required, metavar=name)
    name = _singular(item).replace("_", "-")
    flags = f"--{name}/--no-{name}" if item.kind == "bool" and item.default else f"--{name}"
    return click.Option(
        [flags, item.name, *([f"-{item.short}"] if item.short else [])],
        type=_type(item),
        multiple=item.is_list,
        default=None if item.default in ("", ()) else item.default,
        is_flag=item.kind == "bool",
        help=item.help,
        metavar=item.metavar or _metavar(item),
        show_default=item.kind == "int" or (item.kind == "str" and item.default not in ("", ".")),
    )


def _metavar(item: Input) -> str | None:
    if item.choices or item.kind == "bool":
        return None
    return "N" if item.kind in ("int", "float") else _singular(item).rpartition("_")[2].upper()


def _type(item: Input) -> Any:
    if item.choices:
        return click.Choice(item.choices, case_sensitive=False)
    if item.names:
        return click.Path()  # completed by shells; the engine resolves it
    bounded = item.minimum is not None or item.maximum is not None
    if item.kind == "int":
        return WholeNumber(item.minimum, item.maximum) if bounded else int
    if item.kind == "float":
        return click.FloatRange(item.minimum, item.maximum) if bounded else float
    return bool if item.kind == "bool" else str


# --- performing an operation ---------------------------------------------------------------------------------------


def _perform(
    operation: Operation,
    /,
    settings: tuple[str, ...],
    as_json: bool,
    debug: bool,  # read by `run`
    exact: str | None = None,
    yes: bool = True,
    verbose: bool = False,
    interactive: bool = False,
    **values: Any,
) -> int:
    operation, request = _make_request(operation, values, exact or "", interactive=interactive)
    config = Config.load(parse_settings(settings), _project_folder(request))
    from codeinfo.engine import Engine

    with contextlib.closing(Engine(config)) as engine:
        if exact:
            engine.indexes.of(exact)
        ask_first = not yes and sys.stdin.isatty()
        if ask_first and not click.confirm(_confirmation(operation, request, engine), err=True):
            click.echo("Nothing was done.", err=True)
            return 0
        if interactive:
            from codeinfo.shells.picker import pick

            return pick(engine, request)
        if not as_json and (live := LIVE.get(operation.request)):
            _print_notes(config.notes)
            with _quiet_pipe():
                live(engine, request, _output(request))
            return 0
        with show_progress(sys.stderr) as progress:
            result = operation.run(engine, request, Listener(progress=progress))
    if config.notes:
        text = dumps(result)
        _print_notes(note for note in config.notes if dumps(note) not in text)  # most results carry them already
    if as_json:
        write_json(result)
    else:
        write_text(result, _output(request, partial(_project_of, engine, request), verbose=verbose))
    return FELL_SHORT if operation.falls_short and operation.falls_short(result) else 0


def _make_request(
    operation: Operation, values: dict[str, Any], root: str, *, interactive: bool
) -> tuple[Operation, Any]:
    """The request for what was typed; a search for an exact text becomes one of `grep`."""
    if operation.request is SearchRequest and values["query"] is None:
        if not interactive:
            raise click.UsageError("Missing argument 'QUERY'.", click.get_current_context())
        values["query"] = ""
    piped = {name for name in ("query", "question") if values.get(name) == "-"}  # of `grep`, it is what to look for
    values |= {name: sys.stdin.buffer.read().decode(errors="replace").strip() for name in piped}
    given = _join_words({name: value for name, value in values.items() if value not in ((), None)}, root)
    if operation.request is SearchRequest and (exact := exact_search(given)) and not interactive:
        operation, given = OPERATIONS["grep"], exact
    if root and field_naming(PROJECT, operation.request) == "paths":
        given = given | {"paths": tuple(os.path.join(root, path) for path in given.get("paths") or ("",))}
    elif root:
        given = given | {"path": os.path.join(root, given.get("path", ""))}
    return operation, operation.request(**given)


def exact_search(values: dict[str, Any]) -> dict[str, Any] | None:
    """The values for `grep` if a search's query is `"quoted"`, `/an expression/`, or has an option that only `grep`
    has; None, without these options, for a ranked search."""
    query, options = values["query"], {name: values.pop(name) for name in EXACTLY}
    quoted = strip_quotes(query)
    if not quoted and not any(options.values()):
        return None
    if quoted and not options["regex"]:
        query, options["regex"] = quoted
    context = click.get_current_context()
    given = {name for name in values if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    allowed = {item.name for item in inputs_of(GrepRequest)}
    if wrong := sorted(given - allowed - {"query"}):
        flag = wrong[0].replace("_", "-")
        raise UsageError(f"--{flag} is for ranked search", "Leave it out, or the quotes around the query")
    return {"pattern": query, **options, **{name: values[name] for name in given & allowed}}


def _confirmation(operation: Operation, request: Any, engine: Engine) -> str:
    """The question to confirm an operation; `clear` names the projects whose indexes it deletes."""
    values = asdict(request)
    if "paths" in values:
        values["paths"] = tuple(map(engine.indexes.locate, values["paths"] or ("",)))
    texts = {name: ", ".join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
    return operation.confirm.format(**texts)


def _join_words(given: dict[str, Any], root: str) -> dict[str, Any]:
    """`search parse the header src` is one query and a folder: words are joined, and what exists at the end is a path.
    Prints a note if the path may have been meant as a word."""
    field = next((name for name in ("query", "question", "pattern") if name in given and "paths" in given), "")
    if not field:
        return given
    paths = list(given["paths"])
    last_word = max((at for at, path in enumerate(paths, 1) if not _is_place(os.path.join(root, path))), default=0)
    missing = paths[last_word - 1] if last_word else ""
    if missing and ("/" in missing or " " in given[field]):
        hint = f"If it is part of the {field}, put the whole {field} in quotes"
        if Config.load({}, Path()).store.url:
            from codeinfo.engine.indexes import NAME_WITH_HOST

            hint += f". {NAME_WITH_HOST}"
        raise UsageError(f"{missing} does not exist", hint)
    words, paths = [given[field], *paths[:last_word]], paths[last_word:]
    if paths and len(words) > 1 and "/" not in paths[0]:
        _print_notes([f"searching only in {', '.join(paths)}; if that is a word of the query, put the query in quotes"])
    return given | {field: " ".join(words), "paths": tuple(paths)}


def _is_place(path: str) -> bool:
    if os.path.exists(path):
        return True
    from codeinfo.sources.git import names_repository  # imported late: few commands need it

    return names_repository(path)


def parse_settings(settings: Sequence[str]) -> Mapping[str, str]:
    pairs = [item.partition("=") for item in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--set {key} has no value", "Write it as KEY=VALUE, as in index.workers=1.")
    return {key.strip(): value for key, _, value in pairs}


def _project_folder(request: Any) -> Path:
    """The folder whose project settings apply: that of the first path."""
    field = field_naming(FILE, type(request)) or field_naming(PROJECT, type(request))
    named = getattr(request, field, "") or "."
    first = Path(named if isinstance(named, str) else named[0])
    return first if os.path.isdir(first) else first.parent


def _project_of(engine: Engine, request: Any) -> str:
    """The root that paths in a result are relative to; "" for a team's project, which has no files here."""
    from codeinfo.sources.git import names_repository

    place = os.path.join(getattr(request, "root", ""), request.path)
    return "" if engine.config.store.url and names_repository(place) else engine.indexes.locate(place)


# --- writing a result ----------------------------------------------------------------------------------------------


def write_json(value: object) -> None:
    with _quiet_pipe():
        indent = 2 if sys.stdout.isatty() else None
        print(dumps(value, indent=indent, ascii_only=not is_unicode(sys.stdout)), flush=True)


def write_text(result: object, out: Output | None = None) -> None:
    from codeinfo.shells.render import render

    if render.dispatch(type(result)) is render.dispatch(object):
        import codeinfo.shells.render_answers
        import codeinfo.shells.render_code  # noqa: F401  (they register the others)
    out = out or _output(None)
    with _quiet_pipe():
        render(result, out)
        if not getattr(result, "picture", ""):  # which is saved as a file
            out.notes(getattr(result, "notes", ()))
        sys.stdout.flush()


def _output(request: object, find_root: Callable[[], str] = str, *, verbose: bool = False) -> Output:
    explain = getattr(request, "explain", False)
    # Text that was requested in full is not shortened.
    whole = bool(getattr(request, "full_text", False) or getattr(request, "max_tokens", 0))
    colour = not refuses_colour()
    return Output(sys.stdout, find_root=find_root, colour=colour, explain=explain, whole=whole, verbose=verbose)


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """A closed pipe (`| head`) is not a failure: stop writing silently."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit would complain


# --- the group of commands -------------------------------------------------------------------------------------------


class Commands(click.Group):
    """A command per operation, built on demand, beside those added with `add_command`. `prefix` is the words typed so
    far: "conversations list" is the command `list` of the group `conversations`."""

    command_class = Command
    prefix = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*dict.fromkeys(name.split()[0] for name in self._rests()), *self.commands]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`codeinfo "how does it start?"` and `codeinfo how does it start` search."""
        if not self.prefix and self._is_query(ctx, args):
            args = ["search", *args]
        return super().parse_args(ctx, args)

    def _is_query(self, ctx: click.Context, args: list[str]) -> bool:
        """Several words, or something that no command is called, such as `SongStorage` or `src/app.py:42`; the first
        word is not an option, a command or a misspelt command."""
        first = args[0] if args else "-"
        if first.startswith("-") or first in self.list_commands(ctx):
            return False
        is_word = first.replace("-", "").isalpha()
        if is_word and _near(first.lower(), self.list_commands(ctx), MISSPELT):
            return False
        several = len(args) > 1 and not args[1].startswith("-")
        is_folder = first != "" and not first.strip("./")  # that says what to index, not what to look for
        return several or not (is_folder or (is_word and first.islower()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        rests = self._rests()
        if cmd_name in rests:
            return self._command(cmd_name)
        if any(rest.startswith(f"{cmd_name} ") for rest in rests):
            group = Commands(cmd_name, help=GROUP_HELP.get(cmd_name, ""))
            group.prefix = f"{self.prefix}{cmd_name} "
            return group
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The longest name wins: `eval answers` is a command of its own beside `eval`."""
        if len(args) > 1 and (name := " ".join(args[:2])) in self._rests():
            return name, self._command(name), args[2:]
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError:
            names = self.list_commands(ctx)
            # "card" is not `clear`, which deletes.
            harmless = [name for name in names if name not in OPERATIONS or not OPERATIONS[name].confirm]
            near = _near(args[0], names, MISSPELT) or _near(args[0], harmless)
            meant = shlex.join(("codeinfo", *self.prefix.split(), near, *args[1:]))
            hints = [f"Did you mean `{meant}`?"] if near else []
            if not self.prefix and not (near and args[1:]):  # a single word may be a query
                words = (word for word in args if word != "--help")
                hints.append(f"To search for it: `{shlex.join(('codeinfo', 'search', *words))}`")
            step = " ".join((*hints, f"See `{ctx.command_path} --help`"))
            raise UsageError(f"no such command {args[0]!r}", step) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.prefix:
            return super().format_commands(ctx, formatter)
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in sections(self.list_commands(ctx)):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), cmd.get_short_help_str(200)) for name, cmd in commands if cmd])
        return None

    def _command(self, rest: str) -> click.Command:
        name = self.prefix + rest
        return command(OPERATIONS[ALIASES.get(name, name)])

    def _rests(self) -> list[str]:
        return [name.removeprefix(self.prefix) for name in (*OPERATIONS, *ALIASES) if name.startswith(self.prefix)]


def _near(typed: str, names: Sequence[str], alike: float = 0.6) -> str:
    """The name that was probably meant; `alike` is the share of the letters that must match."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(typed, names, n=1, cutoff=alike)), "")


def sections(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The commands under their operations' headings; those without one come last."""
    headings = {name.split()[0]: operation.section for name, operation in reversed(OPERATIONS.items())}
    headings |= {"mcp": SERVING, "serve": SERVING, "worker": TEAM, "trial": TEAM}
    placed = group_by_key((headings.get(name) or OTHERS, name) for name in names)
    others = placed.pop(OTHERS, [])
    yield from placed.items()
    yield OTHERS, others


@click.group(
    cls=Commands,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="codeinfo %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Find the few places in a codebase that matter, locally, and see why they were chosen.

    To search, no command is needed: codeinfo "where are refunds limited?"
    """
    if ctx.invoked_subcommand is None:
        click.echo((TEXTS / "start.txt").read_text("utf-8"), nl=False)


# --- commands that are not operations --------------------------------------------------------------------------------

_option = partial(click.option, show_default=True)
_override = click.option("--set", "settings", **OVERRIDE)


@cli.command("help")
@click.argument(
    "words",
    nargs=-1,
    metavar="[COMMAND]",
    shell_complete=lambda context, _, typed: [name for name in cli.list_commands(context) if name.startswith(typed)],
)
def help_(words: tuple[str, ...]) -> None:
    """Show the help of a command, or this list."""
    cli.main([*words, "--help"], prog_name="codeinfo", standalone_mode=False)


@cli.group()
def config() -> None:
    """Show the settings in force.

    To change one: `--set KEY=VALUE` for a run, your file `~/.config/codeinfo/config.toml` for good.
    """


@config.command(params=[click.Argument(["path"], default="."), *common_options()], short_help="List every setting.")
def show(path: str, settings: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Every setting with its value and its origin: flag, environment, project file, user file or default."""
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", "Give the folder of a project.")
    loaded = Config.load(parse_settings(settings), Path(path))
    if as_json:
        rows = [
            {"key": key, "value": loaded.shown(key), "origin": loaded.origins[key], "env": row.env, "help": row.help}
            for key, row in SETTINGS.items()
        ]
        write_json({"settings": rows, "notes": loaded.notes})
    else:
        write_text(loaded)


@cli.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a shell's completion script.

    For bash and zsh, put this into the start-up file, with the shell's name:

    eval "$(codeinfo completion bash)"

    For fish, once:

    codeinfo completion fish > ~/.config/fish/completions/codeinfo.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # the choice allows only shells that click knows
    click.echo(kind(cli, {}, "codeinfo", "_CODEINFO_COMPLETE").source())


@cli.command(short_help="Serve agents over the Model Context Protocol.")
@click.argument("project", default=".")
@_option("--tools", default="search", metavar="SETS", help="Sets of tools, or single ones, separated by commas.")
@_option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", help="What is logged to stderr.")
@_override
def mcp(project: str, tools: str, log_level: str, settings: tuple[str, ...]) -> None:
    """Serve agents over standard input and output with the Model Context Protocol.

    PROJECT: The folder that tools work on unless they name another; the current one by default.

    Sets: search (default, small), code, edit, docs, answers, agents, compat, all. An agent's program starts this by
    itself: see `codeinfo install`.
    """
    import logging

    if not os.path.isdir(project):
        raise UsageError(f"{project} is not a folder", "Give the folder of a project.")
    os.chdir(project)
    logging.basicConfig(stream=sys.stderr, level=log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    flags = parse_settings(settings)
    config = Config.load(flags)
    from codeinfo.shells.mcp_relay import Unavailable, relay

    if config.mcp.shared and log_level == "warning":  # a more detailed log is for this client only
        try:
            relay(flags, tools)
        except Unavailable as reason:
            logging.getLogger(__name__).warning("no server is shared with other agents: %s", reason)
    from codeinfo.shells.mcp import serve_stdio

    serve_stdio(config, tools.split(","))


@cli.command(short_help="Serve the pages, the JSON API and the MCP server.")
@_option("--port", type=WholeNumber(0, 65535), default=5010, metavar="N", help="The port; 0 takes a free one.")
@_option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address; others need --token-file.")
@click.option("--allow", multiple=True, metavar="DIR", help="Folders in it may be added; the current one by default.")
@click.option("--token-file", metavar="FILE", default="", help="File with the token that every request must send.")
@click.option("--open", "open_page", is_flag=True, help="Open the pages in a browser.")
@_option(
    "--workers",
    type=WholeNumber(1, 64),
    default=1,
    metavar="N",
    help="Processes that serve the address together; needs store.url.",
)
@click.option("--listener", type=int, default=-1, hidden=True)
@_override
def serve(settings: tuple[str, ...], **options: Any) -> None:
    """Serve the pages, the JSON API and the MCP server on this machine, until interrupted."""
    with requires("web"):
        from codeinfo.shells import http

    if code := http.serve(Config.load(parse_settings(settings)), http.ServeOptions(**options)):
        raise SystemExit(code)


@cli.command(short_help="Index a team's repositories.")
@_option(
    "--processes",
    type=WholeNumber(1, 256),
    default=1,
    metavar="N",
    help="Number of worker processes; one that dies is replaced.",
)
@click.option("--until-idle", is_flag=True, help="Exit when no job is left.")
@_override
def worker(processes: int, until_idle: bool, settings: tuple[str, ...]) -> None:
    """Run the jobs of a team's store, such as indexing what was pushed, until interrupted. The current job is finished
    first. Start as many workers as you like, on as many machines."""
    from codeinfo.serve.processes import work

    if code := work(Config.load(parse_settings(settings)), settings, processes=processes, until_idle=until_idle):
        raise SystemExit(code)


@cli.command(short_help="Try a team's set-up on this machine.")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@_option("--port", type=WholeNumber(1, 65535), default=5010, metavar="N", help="The port.")
@_override
def trial(urls: tuple[str, ...], port: int, settings: tuple[str, ...]) -> None:
    """Start a complete team set-up on this machine, until interrupted: an embedded PostgreSQL in the data folder, a
    server and a worker, with an administrator and a token for a week. What was indexed is kept for the next time.

    URL: Repositories to index, as in https://github.com/owner/name.
    """
    from codeinfo.serve.processes import run_trial

    raise SystemExit(run_trial(parse_settings(settings), urls, port, settings))


# --- errors and exit -------------------------------------------------------------------------------------------------


def main() -> NoReturn:
    if prepare_streams():
        code = run(sys.argv[1:])
    else:
        step = "Redirect it to a file, or to /dev/null if the result does not matter"
        closed = UsageError("standard output is closed", step, code="STDOUT_CLOSED")
        code = _fail(closed, set(sys.argv[1:]))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        os._exit(code or _fail(error, set(sys.argv[1:])))  # Python would try again, and exit with its own code
    if threading.active_count() > 1:
        sys.exit(code)
    os._exit(code)  # everything is closed and written: the interpreter's shutdown would only take time


def prepare_streams() -> bool:
    """Make the standard streams safe to write to; returns whether there is a standard output. A closed descriptor would
    be reused for the next file that is opened, such as an index, and printed text would end up in it. Characters
    missing from the terminal's encoding are shown as escapes."""
    has_output = sys.stdout is not None
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free one: its own, since those below are open
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    return has_output


def run(argv: Sequence[str]) -> int:
    """The whole program: returns the exit code, never raises."""
    options = set(argv[: argv.index("--")] if "--" in argv else argv)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # the terminal was closed: what it has started ends too
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        _check_address_space()
        code = cli.main(list(argv), prog_name="codeinfo", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError) and "--json" not in options:
            error.show()
            return error.exit_code
        return _fail(_explain_usage(error, argv), options)
    except (click.Abort, KeyboardInterrupt):
        return _fail(Interrupted("interrupted", "What was finished is kept; run it again to continue."), options)
    except Exception as error:
        return _fail(error, options)
    finally:
        signal.signal(signal.SIGTERM, before)


def _explain_usage(error: click.UsageError, argv: Sequence[str]) -> UsageError:
    what, hint, context = " ".join(error.format_message().split()).removesuffix("."), "", error.ctx
    if context is not None:
        hint = f"See `{context.command_path} --help`"
        if not isinstance(context.command, click.Group):
            hint = f"{' '.join(context.get_usage().split())}; see `{context.command_path} --help`"
        if isinstance(error, click.NoSuchOption):
            arguments = {str(arg.name).rstrip("s") for arg in context.command.params if isinstance(arg, click.Argument)}
            if meant := _behind_command(error, context, argv):
                what, hint = f"{error.option_name} belongs behind the command", f"Try `{meant}`"
            elif error.option_name.strip("-").rstrip("s") in arguments:
                what = f"{error.option_name} is not an option: give its value alone"
            elif error.possibilities:
                what = f"{error.message} Did you mean `{_near(error.option_name, error.possibilities)}`?"
            elif context.info_name in TAKE_TEXT:
                command = context.info_name if context.parent else "search"
                hint = f"To search for it: `{shlex.join(('codeinfo', command, '--', error.option_name))}`. {hint}"
    return UsageError(what[:1].lower() + what[1:], hint)


def _behind_command(error: click.NoSuchOption, context: click.Context, argv: Sequence[str]) -> str:
    """The corrected command line if an option of a command was written before it, as in `codeinfo --json status`."""
    if context.parent:
        return ""
    name = next((word for word in argv if word in cli.list_commands(context)), "search")
    subcommand = cli.get_command(context, name)
    if not subcommand or not any(error.option_name in option.opts for option in subcommand.params):
        return ""
    rest = list(argv)
    if name in rest:
        rest.remove(name)
    return shlex.join(("codeinfo", name, *rest))


def _check_address_space() -> None:
    """Below this limit a library may abort the process without a usable error."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise MemoryError


def _fail(error: Exception, options: set[str]) -> int:
    return report_error(error, as_json="--json" in options, debug="--debug" in options)


if __name__ == "__main__":
    main()
