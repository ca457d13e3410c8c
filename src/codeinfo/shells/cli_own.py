"""The commands that are the command line's own, beside those of the operations table; loaded when one is typed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from codeinfo.config import Config, table
from codeinfo.errors import UsageError
from codeinfo.shells.cli import cli, common_options, flags, write_json, write_text

SHELLS = ("bash", "zsh", "fish")
LOG_LEVELS = ("error", "warning", "info", "debug")


@click.group()
def config() -> None:
    """Show the settings in force."""


@config.command(params=[click.Argument(["path"], default="."), *common_options()], short_help="List every setting.")
def show(path: str, settings: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Every setting with its value and where it comes from: flag, environment, project file, user file or default."""
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", next_step="Name the folder of a project.")
    loaded = Config.load(flags(settings), Path(path))
    if as_json:
        rows = [
            {"key": key, "value": loaded.value(key), "origin": loaded.origins[key], "env": row.env, "help": row.help}
            for key, row in table().items()
        ]
        write_json({"settings": rows, "notes": loaded.notes})
    else:
        write_text(loaded)


@click.command(params=[click.Argument(["shell"], type=click.Choice(SHELLS))])
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


@click.command(
    params=[
        click.Argument(["project"], default="."),
        click.Option(
            ["--tools"],
            default="search",
            show_default=True,
            metavar="SETS",
            help="Sets of tools, or single ones, by commas.",
        ),
        click.Option(
            ["--log-level"],
            type=click.Choice(LOG_LEVELS),
            default="warning",
            show_default=True,
            help="What stderr tells.",
        ),
        common_options()[0],
    ],
    short_help="Serve agents by the Model Context Protocol.",
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

    serve_stdio(Config.load(flags(settings)), tools.split(","))


@click.command(
    params=[
        click.Option(
            ["--port"],
            type=click.IntRange(0, 65535),
            default=5010,
            show_default=True,
            help="The port; 0 takes a free one.",
        ),
        click.Option(["--host"], default="127.0.0.1", show_default=True, help="The address; others need --token-file."),
        click.Option(
            ["--allow"], multiple=True, metavar="DIR", help="Folders below it may be added; this one unless named."
        ),
        click.Option(
            ["--token-file"], metavar="FILE", default="", help="Holds the token that every request must carry."
        ),
        click.Option(["--open", "open_page"], is_flag=True, help="Open the pages in a browser."),
        common_options()[0],
    ],
    short_help="Serve the pages, the JSON API and the MCP server.",
)
def serve(
    port: int, host: str, allow: tuple[str, ...], token_file: str, open_page: bool, settings: tuple[str, ...]
) -> None:
    """Serve the pages, the JSON API and the MCP server on this machine, until interrupted."""
    try:
        from codeinfo.shells import http
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", next_step="pip install 'codeinfo[web]'") from error
    settled = Config.load(flags(settings))
    http.serve(settled, host=host, port=port, allowed=allow, token_file=token_file, open_page=open_page)
