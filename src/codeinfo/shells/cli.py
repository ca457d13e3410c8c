"""The command line: commands built from the operations table, results as text or JSON, errors as exit codes.

Data goes to stdout, everything else to stderr. click rather than typer: it imports in 40 ms instead of 68, and only the
command that was typed is built. Everything heavier is imported where it is used.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from codeinfo import __version__
from codeinfo.config import Config, colour_refused, table, use_one_blas_thread
from codeinfo.errors import Interrupted, UsageError
from codeinfo.shells.operations import Operation, Parameter, operation, operation_names, parameters

EPILOG = "Exit codes: 0 ok, 2 usage, 3 done but something was skipped, 4 busy, 5 index damaged, 6 provider, 7 disk or "
EPILOG += "memory, 130 interrupted. Settings: `codeinfo config show`."
SHELLS = ("bash", "zsh", "fish")


class Commands(click.Group):
    """Commands of the operations table, each built when it is asked for, beside the few that are the shell's own.

    `prefix` is the words typed so far: "conversations list" is the command `list` of the group `conversations`.
    """

    prefix = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*dict.fromkeys(name.split()[0] for name in self._rests()), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        rests = self._rests()
        if cmd_name in rests:
            return _command(operation(self.prefix + cmd_name))
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
            return name, _command(operation(self.prefix + name)), args[2:]
        return super().resolve_command(ctx, args)

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
        params=[*params, *_common()],
        callback=partial(_perform, operation),
        help=_help(operation),
        short_help=operation.summary,
    )


def _help(operation: Operation) -> str:
    arguments = [f"{_argument_name(item)}: {item.help}" for item in parameters(operation.request) if item.argument]
    return "\n\n".join(part for part in (operation.summary, operation.help, *arguments) if part)


def _argument_name(item: Parameter) -> str:
    return f"[{item.name.removesuffix('s').upper()}…]" if item.kind.startswith("tuple") else item.name.upper()


def _common() -> list[click.Parameter]:
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
        show_default=item.kind == "int",
    )


def _type(item: Parameter) -> Any:
    if item.choices:
        return click.Choice(item.choices, case_sensitive=False)
    if item.kind == "int":
        return click.IntRange(item.minimum, item.maximum)
    if item.kind == "float":
        return click.FloatRange(item.minimum, item.maximum)
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


@cli.group()
def config() -> None:
    """Show the settings in force."""


@config.command(params=[click.Argument(["path"], default="."), *_common()])
def show(path: str, settings: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Every setting with its value and where it comes from: flag, environment, project file, user file or default."""
    loaded = Config.load(_flags(settings), Path(path))
    if as_json:
        rows = [
            {"key": key, "value": loaded.value(key), "origin": loaded.origins[key], "env": row.env, "help": row.help}
            for key, row in table().items()
        ]
        _write_json({"settings": rows, "notes": loaded.notes})
    else:
        _write_text(loaded)


@cli.command(params=[click.Argument(["shell"], type=click.Choice(SHELLS))])
def completion(shell: str) -> None:
    """Print a shell's completion script.

    To use it now and always, put this into the shell's start-up file:

    eval "$(codeinfo completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # the choice allows only shells that click knows
    click.echo(kind(cli, {}, "codeinfo", "_CODEINFO_COMPLETE").source())


LOG_LEVELS = ("error", "warning", "info", "debug")


@cli.command(
    params=[
        click.Argument(["project"], default="."),
        click.Option(["--tools"], default="search", metavar="SETS", help="Sets of tools, or single ones, by commas."),
        click.Option(["--log-level"], type=click.Choice(LOG_LEVELS), default="warning", help="What stderr tells."),
        _common()[0],
    ]
)
def mcp(project: str, tools: str, log_level: str, settings: tuple[str, ...]) -> None:
    """Serve agents over standard input and output, by the Model Context Protocol.

    PROJECT: The folder that tools work on unless they name another; the current one unless named.

    Sets: search (default, small), edit, docs, answers, agents, compat, all. An agent's program starts this by itself:
    see `codeinfo install`.
    """
    import logging

    if not os.path.isdir(project):
        raise UsageError(f"{project} is not a folder", next_step="Name the folder of a project.")
    os.chdir(project)
    logging.basicConfig(stream=sys.stderr, level=log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    from codeinfo.shells.mcp import serve_stdio

    serve_stdio(Config.load(_flags(settings)), tools.split(","))


@cli.command(
    params=[
        click.Option(["--port"], type=click.IntRange(0, 65535), default=5010, show_default=True, help="0: a free one."),
        click.Option(["--host"], default="127.0.0.1", show_default=True, help="Other addresses need a token."),
        click.Option(["--allow"], multiple=True, metavar="DIR", help="Folders below it may be added; else this one."),
        click.Option(["--token-file"], metavar="FILE", default="", help="Holds the token that requests must carry."),
        click.Option(["--open", "open_page"], is_flag=True, help="Open the pages in a browser."),
        _common()[0],
    ]
)
def serve(
    port: int, host: str, allow: tuple[str, ...], token_file: str, open_page: bool, settings: tuple[str, ...]
) -> None:
    """Serve the pages, the JSON API and the MCP server on this machine, until interrupted."""
    try:
        from codeinfo.shells import http
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", next_step="pip install 'codeinfo[web]'") from error
    settled = Config.load(_flags(settings))
    http.serve(settled, host=host, port=port, allowed=allow, token_file=token_file, open_page=open_page)


# --- performing an operation ---------------------------------------------------------------------------------------


def _perform(operation: Operation, /, settings: tuple[str, ...], as_json: bool, debug: bool, **values: Any) -> int:
    """Run one operation and write its result; the exit code is returned."""
    agreed = values.pop("yes", True)
    given = {name: value for name, value in values.items() if value != () and value is not None}
    request = operation.request(**given)
    _check_quotes(operation, request)
    if operation.confirm and not agreed and sys.stdin.isatty():
        click.confirm(operation.confirm.format_map(_Shown(request)), abort=True, err=True)
    settled = Config.load(_flags(settings), _where(request))
    for note in settled.notes:
        click.echo(f"note: {note}", err=True)
    if operation.live and not as_json:
        return _perform_live(operation, request, settled)
    result = _answer(operation, request, settled)
    if as_json:
        _write_json(result)
    else:
        _write_text(result, operation.renderer, explain=getattr(request, "explain", False))
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
        return operation.handler(engine, request, sink)


class _Shown(dict[str, str]):
    """The fields of a request as text, for the question before something is done."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self._request = request

    def __missing__(self, name: str) -> str:
        value = getattr(self._request, name)
        return ", ".join(value) if isinstance(value, tuple) else str(value)


def _check_quotes(operation: Operation, request: Any) -> None:
    """`search parse header` means one query, not a query and a folder: say so where it is typed."""
    query, paths = getattr(request, "query", getattr(request, "question", "")), getattr(request, "paths", ())
    missing = next((path for path in paths if not os.path.exists(path)), "") if query else ""
    if missing:
        words = " ".join((query, *paths))
        hint = f'Put several words in quotes: codeinfo {operation.name} "{words}"'
        raise UsageError(f"{missing} does not exist", next_step=hint)


def _flags(settings: Sequence[str]) -> Mapping[str, str]:
    pairs = [item.partition("=") for item in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--set {key} has no value", next_step="Write it as KEY=VALUE, as in index.workers=1.")
    return {key.strip(): value for key, _, value in pairs}


def _where(request: Any) -> Path:
    """The folder whose project file counts: that of the first path named."""
    paths = getattr(request, "paths", None) or (getattr(request, "path", "."),)
    first = Path(paths[0])
    return first if first.is_dir() else first.parent


def _write_json(value: object) -> None:
    from codeinfo.jsonable import dumps

    with _quiet_pipe():
        print(dumps(value, indent=2 if sys.stdout.isatty() else None), flush=True)


def _write_text(result: object, renderer: str = "codeinfo.shells.render:render", *, explain: bool = False) -> None:
    from codeinfo.shells.paper import Paper

    render = _loaded(renderer)
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
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """The whole program: returns the exit code, never raises."""
    use_one_blas_thread()
    gc.set_threshold(
        50_000, 20, 20
    )  # loading makes objects that stay: looking them through again and again finds nothing
    options = set(argv[: argv.index("--")] if "--" in argv else argv)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
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


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _fail(error: Exception, options: set[str]) -> int:
    from codeinfo.shells.cli_errors import tell

    return tell(error, as_json="--json" in options, debug="--debug" in options)


if __name__ == "__main__":
    main()
