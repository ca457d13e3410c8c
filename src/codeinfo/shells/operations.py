"""Every capability, once: its request, what answers it, and how it is described.

Shells build their commands, tools and routes from this table and hold no logic of their own, so that the same request
gives the same JSON everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from codeinfo import requests

if TYPE_CHECKING:
    from codeinfo.engine import Engine

ProgressSink = Callable[[requests.Progress], None]
Handler = Callable[["Engine", Any, ProgressSink | None], Any]


class Operation(Struct, frozen=True):
    """`summary` is one line for lists; `help` goes on from it; `read_only` promises that nothing is written for good
    (an index is derived data: bringing it up to date does not count)."""

    name: str
    request: type
    handler: Handler
    summary: str
    help: str
    read_only: bool = True
    group: str = "search"  # the set of tools it belongs to
    confirm: str = ""  # a question for people before it is done; programs answer with --yes
    renderer: str = "codeinfo.shells.render:render"  # module:function that writes the result for people
    exit_code: Callable[[Any], int] | None = None  # where a result can mean more than success
    live: str = ""  # module:function that performs it for people and writes while it goes on


class Parameter(Struct, frozen=True):
    """One field of a request, as shells see it."""

    name: str
    kind: str  # "str", "int", "float", "bool" or "tuple[str, ...]"
    help: str
    default: Any
    required: bool
    argument: bool  # taken by position where a shell has positions
    short: str
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    metavar: str


def parameters(request: type) -> Iterator[Parameter]:
    """The fields of a request, in order."""
    hints = get_type_hints(request, include_extras=True)
    for item in fields(request):
        value_type, more = get_args(hints[item.name])
        yield Parameter(
            name=item.name,
            kind=value_type.__name__ if isinstance(value_type, type) else str(value_type),
            help=more.help,
            default=None if item.required else item.default,
            required=item.required,
            argument=not isinstance(more, requests.Opt),
            short=more.short,
            choices=more.choices,
            minimum=more.minimum,
            maximum=more.maximum,
            metavar=more.metavar,
        )


# Which table holds which operation: known without importing them, since a plain search must not pay for the rest.
# A space in a name makes a sub-command.
TABLES: dict[str, tuple[str, ...]] = {
    "core": ("search", "similar", "index", "status", "why", "clear", "doctor"),
    "code": ("symbols", "defs", "refs", "calls", "imports", "map", "cycles", "impact", "hotspots", "unused"),
    "knowledge": (
        "remember",
        "memory list",
        "memory show",
        "memory remove",
        "memory export",
        "memory import",
        "patterns",
        "metadata",
        "style",
        "review",
    ),
    "evaluation": ("eval",),
    "documents": (
        "docs add",
        "docs list",
        "docs sync",
        "docs remove",
        "docs search",
        "docs ask",
        "docs outline",
        "docs section",
        "docs related",
        "docs pack",
    ),
    "integration": ("vector-search", "projects", "savings", "install", "uninstall"),
    "answers": (
        "ask",
        "chat",
        "providers",
        "agents list",
        "agents run",
        "conversations list",
        "conversations show",
        "conversations search",
        "conversations archive",
        "conversations restore",
        "conversations delete",
        "conversations export",
        "eval answers",
    ),
}
_TABLE_OF = {name: area for area, names in TABLES.items() for name in names}


def operation_names() -> tuple[str, ...]:
    return tuple(_TABLE_OF)


def operation(name: str) -> Operation:
    """The operation of that name; its table is imported with it."""
    from importlib import import_module

    table = import_module(f"codeinfo.shells.tables.{_TABLE_OF[name]}")
    found: Operation = next(item for item in table.OPERATIONS if item.name == name)
    return found
