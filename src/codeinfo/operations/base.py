"""Operations: a typed request, a typed result, the function between them, and its description.

A request carries the description of its operation in its docstring, and its fields carry their help in an `Arg`
(positional on a command line) or an `Opt` (named); the shells derive arguments, schemas and routes from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from inspect import cleandoc, signature
from operator import attrgetter
from typing import Annotated, Any, Protocol, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import fields, replace

from codeinfo.model import Step

Request = TypeVar("Request", bound=type)
Texts = tuple[str, ...]  # of a request: a field that may be given several times

MAX_TEXT_CHARS = 10_000  # of a query or any other text sent to a server: a long stack trace, some 0.2 s of work


class Input(Struct, frozen=True):
    """One argument of a command, tool or route."""

    name: str
    help: str
    kind: str = "str"  # or "int", "float", "bool", "tuple[str, ...]", "object"
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    fields: tuple[Input, ...] = ()  # of an object
    aliases: tuple[str, ...] = ()  # names used by clients of other servers: accepted, not shown
    hidden: bool = False  # accepted, not shown
    argument: bool = False  # positional where a shell has positions
    short: str = ""  # an extra one-letter option
    metavar: str = ""
    names: str = ""  # what a client may call by its own name or path: one of the next four

    @property
    def is_list(self) -> bool:
        return self.kind.startswith("tuple")


# What the text of a field names: the project that the request is about, by any folder in it; further projects; a file
# of the project; any file or address.
PROJECT, PROJECTS, FILE, SOURCE = "project", "projects", "file", "source"

# What shells know about a request's field besides its name and type: an `Arg` is positional on a command line, an `Opt`
# is named.
Opt = partial(Input, "")
Arg = partial(Input, "", argument=True)

# Fields that many requests have.
Limit = Annotated[int, Opt("At most this many results.", short="n", minimum=1, maximum=1000)]
# A folder or file means that part of its project; none means the whole project around the current folder.
Folders = Annotated[Texts, Arg("Folders and files to look in; the whole project you are in by default.", names=PROJECT)]
Refresh = Annotated[bool, Opt("Look for changed files first.")]
Revision = Annotated[str, Opt("Look in this git revision, without checking it out.", metavar="REV")]
Project = Annotated[str, Opt("The project's folder; the current one by default.", metavar="DIR", names=PROJECT)]


class EmptyRequest(Struct, frozen=True):
    """Of an operation without arguments; its method takes no request."""


class Progress(Struct, frozen=True):
    """One step of a long job; `total` is 0 while unknown, `rate` is files a second."""

    phase: str
    done: int
    total: int = 0
    skipped: int = 0
    rate: float = 0.0


ProgressSink = Callable[[Progress], None] | None  # None: nobody is watching


def _ignore(*_: object) -> None:
    return None


class Listener(Struct, frozen=True):
    """The client that waits for a result: its kind, which conversations record, and callbacks for indexing progress,
    the steps of an answer (stage and detail), its text as it is written, and the answer. `follow` passes a chat
    model's stream on, and may close it."""

    source: str = "CLI"
    progress: ProgressSink = None
    step: Callable[[str, str], None] = _ignore
    text: Callable[[str], None] = _ignore
    follow: Callable[[Iterator[Any]], Iterator[Any]] = lambda stream: stream
    answer: Callable[[Any], None] = _ignore


_READ_INDEX = ("search", "code", "knowledge")  # groups
_ANSWER_FROM_INDEX = ("ask", "agents run")
_READ_DOCUMENTS = frozenset({"docs search", "docs ask", "docs outline", "docs section", "docs related"})


class Operation(Struct, frozen=True):
    """`method` is the engine's method that performs it, as in `code.references`, or a function of the engine and the
    request in a package above it, as in `codeinfo.evals.run:evaluate`, which is imported on demand. `read_only`
    promises that nothing lasting is written (an index is derived data: refreshing it does not count)."""

    name: str  # a space makes a sub-command
    request: type
    result: type
    method: str
    summary: str  # one line for lists
    help: str = ""  # continues the summary
    read_only: bool = True
    group: str = "search"  # its set of tools; "local": for the command line only
    section: str = ""  # its heading in `codeinfo --help`
    removes: bool = False  # deletes something a user wrote
    confirm: str = ""  # asked before it runs; programs pass --yes
    falls_short: Callable[[Any], bool] | None = None  # whether a result is less than success: exit code 3

    @property
    def is_served(self) -> bool:
        """Whether servers offer it to clients on other machines: not if it reads what the caller names anywhere."""
        return self.group != "local" and not field_naming(SOURCE, self.request)

    @property
    def shows_project(self) -> bool:
        """Whether its result depends on the state of a project named by the request."""
        return self.group in _READ_INDEX or self.name in _ANSWER_FROM_INDEX

    @property
    def shows_documents(self) -> bool:
        """Whether its result depends on the state of collections."""
        return self.name in _READ_DOCUMENTS

    def run(self, engine: Any, request: Any, listener: Listener) -> Any:
        module, _, name = self.method.rpartition(":")
        method = partial(getattr(import_module(module), name), engine) if module else attrgetter(name)(engine)
        parameters = signature(method).parameters  # quick methods report no progress, and only answers need all of it
        offered = {"request": request, "listener": listener, "progress": listener.progress}
        return method(**{name: value for name, value in offered.items() if name in parameters})

    def fields_of(self, step: Step) -> dict[str, Any]:
        """What a step fills in of the request, as in JSON."""
        inputs = {item.name: item for item in inputs_of(self.request)}
        values = dict(zip(inputs, step.arguments, strict=False)) | step.options
        return {name: [value] if inputs[name].is_list else value for name, value in values.items()}


class Register(Protocol):
    def __call__(self, *row: Any, **more: Any) -> Callable[[Request], Request]: ...


def registry(**common: Any) -> tuple[list[Operation], Register, Register]:
    """The operations of one area, and the decorators that register a request: of an operation that only reads, and of
    one that changes something. The request's docstring is the operation's summary and, below a blank line, the rest of
    its help. `common` holds the area's defaults for a row."""
    rows: list[Operation] = []

    def operation(
        name: str, result: type, method: str, summary: str = "", help: str = "", **more: Any
    ) -> Callable[[Request], Request]:
        """`summary` and `help` are for requests shared by several operations."""

        def register(request: Request) -> Request:
            first, _, rest = cleandoc(request.__doc__ or "").partition("\n\n")
            described = (summary, help) if summary else (" ".join(first.split()), " ".join(rest.split()))
            rows.append(Operation(name, request, result, method, *described, **{**common, **more}))
            return request

        return register

    return rows, operation, partial(operation, read_only=False)


@cache
def inputs_of(request: type) -> tuple[Input, ...]:
    """The fields of a request, in order."""
    inputs = []
    for item in fields(request):
        value_type, described = get_args(item.type)
        kind = value_type.__name__ if isinstance(value_type, type) else str(value_type)
        default = None if item.required else item.default
        inputs.append(replace(described, name=item.name, kind=kind, default=default, required=item.required))
    return tuple(inputs)


def field_naming(what: str, request: type) -> str:
    """The field of a request that names the project (a file, a source), "" if there is none."""
    return next((item.name for item in inputs_of(request) if item.names == what), "")


def rename_inputs(items: Iterable[Input], names: Mapping[str, tuple[str, ...]]) -> dict[str, Input]:
    """Arguments for the fields of a request: of a field's `names` the first is shown, the others are accepted."""
    named = ((item, names.get(item.name, (item.name,))) for item in items)
    return {item.name: replace(item, name=shown[0], aliases=shown[1:]) for item, shown in named}


def has_skips(response: Any) -> bool:
    """Whether a file was left out that the user should know about."""
    return any(skip.matters for report in response.reports for skip in report.skipped)
