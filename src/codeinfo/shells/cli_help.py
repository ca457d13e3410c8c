"""The list of commands for people, in sections, and a guess at what a mistyped one should have been."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

SECTIONS = {
    "Search and ask": ("search", "similar", "ask", "chat"),
    "The index": ("index", "status", "why", "clear", "doctor", "projects"),
    "Code": ("symbols", "defs", "refs", "calls", "imports", "map", "cycles", "impact", "hotspots", "unused"),
    "The team": ("remember", "memory", "patterns", "metadata", "style", "review"),
    "Documents": ("docs",),
    "Conversations, agents, models": ("conversations", "agents", "providers"),
    "For agents and browsers": ("mcp", "install", "uninstall", "savings", "serve"),
}
OTHERS = "More"


def sections(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The commands there are, each once, under the heading it belongs to."""
    placed = {name for listed in SECTIONS.values() for name in listed}
    others = tuple(name for name in names if name not in placed)
    for title, listed in {**SECTIONS, OTHERS: others}.items():
        if present := [name for name in listed if name in names]:
            yield title, present


def write_sections(group: click.Group, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    names = group.list_commands(ctx)
    width = max(map(len, names))
    for title, listed in sections(names):
        commands = [(name, group.get_command(ctx, name)) for name in listed]
        rows = [(name.ljust(width), found.get_short_help_str(limit=200)) for name, found in commands if found]
        with formatter.section(title):
            formatter.write_dl(rows)


def unknown_command(typed: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(typed, names, n=1)
    return f"No such command {typed!r}." + (f" Did you mean {near[0]!r}?" if near else "")
