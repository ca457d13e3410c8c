"""The command line: commands built from the operations table, results as text or JSON, errors as exit codes.

Data goes to stdout, everything else to stderr. click rather than typer: it imports in 40 ms instead of 68, and only the
command that was typed is built. Everything heavier is imported where it is used.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from codeinfo import __version__
from codeinfo.config import Config, colour_refused, use_one_blas_thread
from codeinfo.errors import Interrupted, UsageError
from codeinfo.operations import Operation, Parameter, operation, operation_names, parameters

EPILOG = "Exit codes: 0 ok, 1 a fault of CodeInfo, 2 usage, 3 done but something was skipped or failed a check, 4 "
EPILOG += "busy, 5 index damaged, 6 endpoint, 7 disk or memory, 130 interrupted. Settings: `codeinfo config show`."
LEAST_ADDRESS_SPACE = 128 << 20  # bytes: a search takes 120 MB, its libraries included
OWN = ("completion", "config", "mcp", "serve")  # see `cli_own`


class Commands(click.Group):
    """Commands of the operations table, each built when it is asked for, beside the few that are the shell's own.

    `prefix` is the words typed so far: "conversations list" is the command `list` of the group `conversations`.
    """

    prefix = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        own = () if self.prefix else OWN
        return [*dict.fromkeys(name.split()[0] for name in self._rests()), *own]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        rests = self._rests()
        if cmd_name in rests:
            return _command(operation(self.prefix + cmd_name))
        if any(rest.startswith(f"{cmd_name} ") for rest in rests):
            group = Commands(cmd_name, help=GROUP_HELP.get(cmd_name, ""))
            group.prefix = f"{self.prefix}{cmd_name} "
            return group
        if cmd_name in OWN and not self.prefix:
            from codeinfo.shells import cli_own

            return getattr(cli_own, cmd_name)  # type: ignore[no-any-return]
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The longest name wins: `eval answers` is a command of its own beside `eval`."""
        if len(args) > 1 and (name := " ".join(args[:2])) in self._rests():
            return name, _command(operation(self.prefix + name)), args[2:]
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError:
            from codeinfo.shells.cli_help import unknown_command

            ctx.fail(unknown_command(args[0], self.list_commands(ctx)))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.prefix:
            return super().format_commands(ctx, formatter)
        from codeinfo.shells.cli_help import write_sections

        write_sections(self, ctx, formatter)
        return None

    def _rests(self) -> list[str]:
        return [name.removeprefix(self.prefix) for name in operation_names() if name.startswith(self.prefix)]


GROUP_HELP = {
    "agents": "Agents: folders with a prompt, a model and commands.",
    "conversations": "Conversations that were held, and what to do with them.",
    "docs": "Collections of documents: add, sync, search, cite.",
    "memory": "What the team remembers about this project.",
}


# --- building commands ---------------------------------------------------------------------------------------------


def _command(operation: Operation) -> click.Command:
    params = [_parameter(item) for item in parameters(operation.request)]
    if operation.confirm:
        params.append(click.Option(["--yes", "-y"], is_flag=True, help="Do not ask."))
    return click.Command(
        operation.name.split()[-1],
        params=[*params, *common_options()],
        callback=partial(_perform, operation),
        help=_help(operation),
        short_help=operation.summary,
    )


def _help(operation: Operation) -> str:
    arguments = [f"{_argument_name(item)}: {item.help}" for item in parameters(operation.request) if item.argument]
    return "\n\n".join(part for part in (operation.summary, operation.help, *arguments) if part)


def _argument_name(item: Parameter) -> str:
    many = item.kind.startswith("tuple")
    shown = (item.metavar or (item.name.removesuffix("s") if many else item.name).upper()) + "…" * many
    return shown if item.required else f"[{shown}]"


def common_options() -> list[click.Parameter]:
    return [
        click.Option(["--set", "settings"], multiple=True, metavar="KEY=VALUE", help="Override one setting this time."),
        click.Option(["--json", "as_json"], is_flag=True, help="Write the result as JSON."),
        click.Option(["--debug"], is_flag=True, help="Show a traceback when something fails."),
    ]


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


@click.group(
    cls=Commands,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="codeinfo %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Find the few places in a codebase that matter, locally, and see why they were chosen."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


# --- performing an operation ---------------------------------------------------------------------------------------


def _perform(operation: Operation, /, settings: tuple[str, ...], as_json: bool, debug: bool, **values: Any) -> int:
    """Run one operation and write its result; the exit code is returned."""
    agreed = values.pop("yes", True)
    given = {name: value for name, value in values.items() if value != () and value is not None}
    request = operation.request(**given)
    _check_quotes(operation, request)
    if operation.confirm and not agreed and sys.stdin.isatty():
        question = operation.confirm.format_map(_Shown(request))
        if not click.confirm(question, err=True):
            click.echo("Nothing was done.", err=True)
            return 0
    settled = Config.load(flags(settings), _where(request))
    if operation.live and not as_json:
        _tell(settled.notes)
        return _perform_live(operation, request, settled)
    result = _answer(operation, request, settled)
    if settled.notes:
        from codeinfo.jsonable import dumps

        written = dumps(result)
        _tell(note for note in settled.notes if dumps(note) not in written)  # most results tell it themselves
    if as_json:
        write_json(result)
    else:
        # What was asked for in full is not cut to a few lines again.
        whole = bool(getattr(request, "full_text", False) or getattr(request, "max_tokens", 0))
        write_text(result, operation.renderer, explain=getattr(request, "explain", False), whole=whole)
    return operation.exit_code(result) if operation.exit_code else 0


def _perform_live(operation: Operation, request: Any, settled: Config) -> int:
    from codeinfo.engine import Engine
    from codeinfo.shells.paper import Paper

    with _quiet_pipe(), contextlib.closing(Engine(settled)) as engine:
        paper = Paper(sys.stdout, colour=not colour_refused())
        code: int = _loaded(operation.live)(engine, request, paper)
        return code
    return 0


def _answer(operation: Operation, request: Any, settled: Config) -> Any:
    from codeinfo.engine import Engine
    from codeinfo.shells import progress

    with contextlib.closing(Engine(settled)) as engine, progress.shown(sys.stderr) as sink:
        return operation.run(engine, request, sink)


class _Shown(dict[str, str]):
    """The fields of a request as text, for the question before something is done; folders in full, `.` among them."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self._request = request

    def __missing__(self, name: str) -> str:
        value = getattr(self._request, name)
        if name == "paths":
            value = tuple(map(os.path.abspath, value))
        return ", ".join(value) if isinstance(value, tuple) else str(value)


def _check_quotes(operation: Operation, request: Any) -> None:
    """`search parse header` means one query, not a query and a folder: say so where it is typed."""
    query, paths = getattr(request, "query", getattr(request, "question", "")), getattr(request, "paths", ())
    missing = next((path for path in paths if not os.path.exists(path)), "") if query else ""
    if missing:
        words = " ".join((query, *paths))
        hint = f'Put several words in quotes: codeinfo {operation.name} "{words}"'
        raise UsageError(f"{missing} does not exist", next_step=hint)


def flags(settings: Sequence[str]) -> Mapping[str, str]:
    pairs = [item.partition("=") for item in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--set {key} has no value", next_step="Write it as KEY=VALUE, as in index.workers=1.")
    return {key.strip(): value for key, _, value in pairs}


def _where(request: Any) -> Path:
    """The folder whose project file counts: that of the first path named."""
    paths = getattr(request, "paths", None) or (getattr(request, "path", "."),)
    first = Path(paths[0])
    return first if os.path.isdir(first) else first.parent


def _tell(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)


def write_json(value: object) -> None:
    from codeinfo.jsonable import dumps
    from codeinfo.shells.cli_errors import is_unicode

    with _quiet_pipe():
        indent = 2 if sys.stdout.isatty() else None
        print(dumps(value, indent=indent, ascii_only=not is_unicode(sys.stdout)), flush=True)


def write_text(
    result: object, renderer: str = "codeinfo.shells.render:render", *, explain: bool = False, whole: bool = False
) -> None:
    from codeinfo.shells.paper import Paper

    render = partial(_loaded(renderer), whole=True) if whole else _loaded(renderer)
    with _quiet_pipe():
        render(result, Paper(sys.stdout, colour=not colour_refused()), explain=explain)
        sys.stdout.flush()


def _loaded(name: str) -> Any:
    """The function that `module:function` names."""
    from importlib import import_module

    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


@contextlib.contextmanager
def _quiet_pipe() -> Any:
    """A reader that went away (`| head`) is no failure: stop writing and say nothing."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit would complain


# --- errors and exit -----------------------------------------------------------------------------------------------


def main() -> NoReturn:
    code = run(sys.argv[1:]) if prepare_streams() else _fail(_stdout_closed(), set(sys.argv[1:]))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python says itself what it thinks of that
    if threading.active_count() > 1:
        sys.exit(code)
    os._exit(code)  # everything is closed and written: taking the interpreter apart piece by piece only takes time


def prepare_streams() -> bool:
    """Make the standard streams safe to write to; says whether there is a standard output.

    A closed descriptor would be given to the next file that is opened, an index among them, and what is printed would
    end up in it. Characters that a terminal's encoding lacks are shown as escapes.
    """
    has_output = sys.stdout is not None
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: its own, since those below are open
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    return has_output


def _stdout_closed() -> UsageError:
    step = "Redirect it to a file, or to /dev/null where the result does not matter"
    return UsageError("standard output is closed", next_step=step, code="STDOUT_CLOSED")


def run(argv: Sequence[str]) -> int:
    """The whole program: returns the exit code, never raises."""
    use_one_blas_thread()
    gc.set_threshold(
        50_000, 20, 20
    )  # loading makes objects that stay: looking them through again and again finds nothing
    options = set(argv[: argv.index("--")] if "--" in argv else argv)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _check_address_space()
        code = cli.main(list(argv), prog_name="codeinfo", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        if "--json" not in options:
            error.show()
            return error.exit_code
        hint = f"See `{error.ctx.command_path} --help`." if error.ctx else ""
        return _fail(UsageError(error.format_message(), next_step=hint), options)
    except (click.Abort, KeyboardInterrupt):
        return _fail(Interrupted("interrupted", next_step="What was finished is kept; run it again to go on."), options)
    except Exception as error:
        return _fail(error, options)
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_address_space() -> None:
    """Below this limit a library may end the process without a word that a program understands."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise MemoryError


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _fail(error: Exception, options: set[str]) -> int:
    from codeinfo.shells.cli_errors import tell

    return tell(error, as_json="--json" in options, debug="--debug" in options)


if __name__ == "__main__":
    main()
