"""Every capability, once: its request, what answers it, and how it is described.

Shells build their commands, tools and routes from this table and hold no logic of their own, so that the same request
gives the same JSON everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from codeinfo import requests

if TYPE_CHECKING:
    from codeinfo.engine import Engine

ProgressSink = Callable[[requests.Progress], None]
Handler = Callable[["Engine", Any, ProgressSink | None], Any]


@dataclass(frozen=True, slots=True)
class Operation:
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


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a request, as shells see it."""

    name: str
    kind: str  # "str", "int", "bool" or "tuple[str, ...]"
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
    for item in fields(request):
        more = item.metadata
        required = item.default is MISSING
        yield Parameter(
            name=item.name,
            kind=str(item.type),
            help=more["help"],
            default=None if required else item.default,
            required=required,
            argument=more.get("argument", False),
            short=more.get("short", ""),
            choices=more.get("choices", ()),
            minimum=more.get("minimum"),
            maximum=more.get("maximum"),
            metavar=more.get("metavar", ""),
        )


OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation(
            name="search",
            request=requests.SearchRequest,
            handler=lambda engine, request, progress: engine.search(request, progress),
            summary="Find the code and documents that answer a query.",
            help="The first search in a folder indexes it; later ones only look at what changed.",
        ),
        Operation(
            name="index",
            request=requests.IndexRequest,
            handler=lambda engine, request, progress: engine.index(request, progress),
            summary="Build or refresh the index of a folder.",
            help="Only what changed is done again. Interrupt it at any time: the next run goes on where it stopped.",
        ),
        Operation(
            name="status",
            request=requests.StatusRequest,
            handler=lambda engine, request, progress: engine.status(request),
            summary="Show what is indexed and whether it is up to date.",
            help="",
        ),
        Operation(
            name="why",
            request=requests.WhyRequest,
            handler=lambda engine, request, progress: engine.why(request),
            summary="Say why a file is, or is not, in the index.",
            help="Names the rule that decided: an ignore file, a size limit, a default for secrets or build folders…",
        ),
        Operation(
            name="clear",
            request=requests.ClearRequest,
            handler=lambda engine, request, progress: engine.clear(request),
            summary="Delete the index of a folder.",
            help="Your files are not touched; the next search builds the index again.",
            read_only=False,
            group="admin",
            confirm="Delete the index of {paths}?",
        ),
        Operation(
            name="doctor",
            request=requests.DoctorRequest,
            handler=lambda engine, request, progress: engine.doctor(request),
            summary="Check that everything CodeInfo needs is there and works.",
            help="",
            group="admin",
        ),
    )
}
