"""Tools: operations as agents see them. Those with a contract are in `tables/tools*.py`; all others follow from the
operations table, with the request's fields as arguments and the result's fields as reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from codeinfo.errors import UsageError
from codeinfo.jsonable import jsonable
from codeinfo.operations import OPERATIONS, Operation, operation, operation_names
from codeinfo.shells.mcp_schema import Input, Schema, checked, input_schema, inputs_of, output_schema

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.shells.mcp_calls import Call

SETS = {
    "search": "find code and see who uses it; small, and the default",
    "edit": "what to know before a change: patterns, memories, style, impact, review",
    "docs": "collections of documents",
    "answers": "questions answered by a model, with checked citations",
    "agents": "agents that ship or are your own",
    "compat": "VectorSearch, the Ast tools and their like, as clients of other servers know them",
    "all": "these, and every other operation under its own name",
}
DEFAULT_SETS = ("search",)

Values = dict[str, Any]
PROJECT = Input("project", "The project: its folder, or the name of an indexed one. The working folder unless given.")
CURSOR = Input("cursor", "Go on where a truncated reply ended.")


def _no_files(result: Any, root: str) -> Iterable[str]:
    return ()


def _plain(result: Any, values: Values) -> dict[str, Any]:
    reply: dict[str, Any] = jsonable(result)
    return reply


def _never(request: Any) -> None:
    return None


class Tool(Struct, frozen=True):
    """`request` makes the operation's request of the arguments and the project's folder ("" unless given); `shape`
    makes the reply of the result; `perform` stands in for the operation where a tool needs more of the engine."""

    name: str
    operation: str
    sets: tuple[str, ...]
    description: str
    inputs: tuple[Input, ...]
    request: Callable[[Values, str], Any]
    result: type | None
    shape: Callable[[Any, Values], dict[str, Any]] = _plain
    nulls: bool = False  # whether `shape` leaves fields that are None in the reply; without one they always stay
    perform: Callable[[Engine, Any, Call], Any] | None = None
    codes: Mapping[str, int] = field(default_factory=dict)  # our code → the contract's, as a protocol error
    files: Callable[[Any, str], Iterable[str]] = _no_files  # what a reader would have opened instead; "" is here
    project: Input | None = PROJECT  # the argument that names the project
    repeatable: bool = False  # its reply stays the same until a file of the project changes
    aside: Callable[[Any], Any | None] = _never  # the request for a process that only reads indexes, if that can do it
    open_world: bool = False  # it may talk to a model endpoint or the network

    def arguments(self) -> tuple[Input, ...]:
        return (*self.inputs, *((self.project,) if self.project else ()), CURSOR)

    def input_schema(self) -> Schema:
        return input_schema(self.arguments())

    def output_schema(self) -> Schema | None:
        return output_schema(self.result, nulls=self.nulls or self.shape is _plain) if self.result is not None else None

    def read(self, given: Mapping[str, Any]) -> Values:
        return checked(self.arguments(), given)

    def handler(self) -> Callable[[Engine, Any, Call], Any]:
        if self.perform is not None:
            return self.perform
        handle = operation(self.operation).run
        return lambda engine, request, call: handle(engine, request, call.progress)


# --- making tools --------------------------------------------------------------------------------------------------


def direct(
    name: str,
    operation: str,
    sets: tuple[str, ...],
    request: type,
    description: str,
    *,
    folder: str,
    only: tuple[str, ...],
    renamed: dict[str, str] | None = None,
    **more: Any,
) -> Tool:
    """A tool whose arguments are fields of the request. `only` are those that become arguments; `renamed` maps an
    argument's name to its field."""
    fields = {value: key for key, value in (renamed or {}).items()}
    inputs = tuple(
        Input(fields.get(i.name, i.name), i.help, i.kind, i.default, i.required, i.choices, i.minimum, i.maximum)
        for i in inputs_of(request)
        if i.name in only
    )
    back = renamed or {}
    return Tool(
        name=name,
        operation=operation,
        sets=sets,
        description=description,
        inputs=inputs,
        request=lambda values, project: request(
            **{back.get(key, key): value for key, value in values.items()}, **placed(request, folder, project)
        ),
        result=more.pop("result", None) or OPERATIONS[operation].result,
        **more,
    )


# --- which tools ---------------------------------------------------------------------------------------------------


# Which table holds which sets: a server of the default set does not pay for the rest in its handshake.
_TABLES = {
    "tools": ("search",),
    "tools_edit": ("edit",),
    "tools_answers": ("docs", "answers", "agents"),
    "tools_compat": ("docs", "compat"),
}


def chosen_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of the sets or single names asked for."""
    wanted = tuple(name.strip() for name in names if name.strip()) or DEFAULT_SETS
    found: dict[str, Tool] = {}
    for name in wanted:
        if name == "all":
            found |= _every_tool()
        elif name in SETS:
            tables = (table for table, sets in _TABLES.items() if name in sets)
            found |= {key: tool for key, tool in _listed(tables).items() if name in tool.sets}
        elif tool := _every_tool().get(name):
            found[name] = tool
        else:
            raise UsageError(
                f"no set of tools is called {name}", next_step=f"Sets: {', '.join(SETS)}; or a tool's name"
            )
    return tuple(found.values())


def _listed(tables: Iterable[str]) -> dict[str, Tool]:
    modules = (import_module(f"codeinfo.shells.tables.{table}") for table in tables)
    return {tool.name: tool for module in modules for tool in module.TOOLS}


def _every_tool() -> dict[str, Tool]:
    listed = _listed(_TABLES)
    return listed | {tool.name: tool for tool in _plain_tools() if tool.name not in listed}


def _plain_tools() -> Iterable[Tool]:
    operations = (operation(name) for name in operation_names() if name not in ("eval", "eval answers"))
    return (plain_tool(one) for one in operations if one.group != "local")


def plain_tool(one: Operation) -> Tool:
    """An operation as it is. The field that names the folder becomes `project`."""
    folder = _folder_field(one.request)
    inputs = tuple(item for item in inputs_of(one.request) if item.name != folder)
    return Tool(
        name=one.name.replace(" ", "_").replace("-", "_"),
        operation=one.name,
        sets=(),
        description=" ".join(part for part in (one.summary, one.help) if part),
        inputs=inputs,
        request=lambda values, project: one.request(**values, **placed(one.request, folder, project)),
        result=one.result,
        project=PROJECT if folder else None,
        open_world=one.group == "answers" or one.name in ("docs add", "docs sync"),
    )


def placed(request: type, folder: str, project: str) -> Values:
    """The field that names the folder, filled in; nothing where no project is given."""
    if not project or not folder:
        return {}
    many = next(item.kind for item in inputs_of(request) if item.name == folder).startswith("tuple")
    return {folder: (project,) if many else project}


def _folder_field(request: type) -> str:
    """The name of the field that holds the project's folder, "" where there is none."""
    for item in inputs_of(request):
        if item.name in ("paths", "path", "working_folder") and item.default in (".", (".",)):
            return item.name
    return next((item.name for item in inputs_of(request) if item.name == "root"), "")
