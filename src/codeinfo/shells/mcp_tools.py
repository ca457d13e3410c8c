"""Tools: operations as agents see them. Those with a contract are rows of `mcp_catalog`; all others follow from their
operation, with the request's fields as arguments and the result's fields as reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.errors import Busy, NotFound
from codeinfo.jsonable import camel, camel_keys, dumps, jsonable
from codeinfo.operations import OPERATIONS, Operation, clients, search
from codeinfo.serve.dispatch import Input, Schema, Values, input_schema, inputs_of, output_schema

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.model import Step
    from codeinfo.serve.dispatch import Call

PROJECT = Input("project", "Folder or name of an indexed project, if not the working folder.")
CURSOR = Input("cursor", "Of a truncated reply, to go on.")


def _plain(result: Any, values: Values) -> Any:
    return result


def camel_reply(result: Any, values: Values) -> Any:
    """In the spelling that clients of other servers know."""
    return camel_keys(jsonable(result))


def camel_schema(schema: Any) -> Any:
    """The schema of such a reply."""
    if isinstance(schema, list):
        return [camel_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    spelled = {key: camel_schema(value) for key, value in schema.items()}
    if "properties" in spelled:
        spelled["properties"] = {camel(name): value for name, value in spelled["properties"].items()}
        spelled["required"] = [camel(name) for name in spelled.get("required", ())]
    return spelled


class Tool(Struct, frozen=True):
    """`request` makes the operation's request of the arguments and the project's folder ("" unless given); `shape`
    makes the reply of the result; `perform` stands in for the operation where a tool needs more of the engine."""

    name: str
    operation: str
    sets: tuple[str, ...]
    description: str
    inputs: tuple[Input, ...]
    request: Callable[[Values, str], Any]
    result: type
    shape: Callable[[Any, Values], Any] = _plain
    perform: Callable[[Engine, Any, Call], Any] | None = None
    codes: Mapping[str, int] = field(default_factory=dict)  # our code → the contract's, as a protocol error
    files: Callable[[Any, str], Iterable[str]] = lambda result, root: ()  # what a reader would have opened instead
    renamed: Mapping[str, str] = field(default_factory=dict)  # argument → field of the request
    project: Input | None = PROJECT  # the argument that names the project
    computes: bool = False  # short work of the processor that waits for nothing
    open_world: bool = False  # it may talk to a model endpoint or the network
    # Most clients show a model either the text of a reply or its structured content, some both. A tool that is called
    # all the time sends its JSON once, as text, which every client shows; its list entry then needs no result schema.
    text_only: bool = False

    def arguments(self) -> tuple[Input, ...]:
        return (*self.inputs, *((self.project,) if self.project else ()), CURSOR)

    def input_schema(self) -> Schema:
        return input_schema(self.arguments())

    def output_schema(self) -> Schema:
        schema = output_schema(self.result, shows_project=self.shows_project and not self.codes)
        return camel_schema(schema) if self.shape is camel_reply else schema

    @property
    def shows_project(self) -> bool:
        return self.project is not None and OPERATIONS[self.operation].shows_project

    def run(self, engine: Engine, request: Any, call: Call) -> Any:
        if self.perform is not None:
            return self.perform(engine, request, call)
        return OPERATIONS[self.operation].run(engine, request, call.progress, source="MCP")


# --- making tools --------------------------------------------------------------------------------------------------


def direct(
    name: str,
    operation: str,
    sets: tuple[str, ...],
    description: str,
    *,
    only: tuple[str, ...],
    renamed: Mapping[str, str] | None = None,
    aliases: Mapping[str, tuple[str, ...]] | None = None,
    **more: Any,
) -> Tool:
    """A tool whose arguments are fields of the request. `only` are those that become arguments; `renamed` maps an
    argument's name to its field; `aliases` are further names of an argument."""
    one, field_of = OPERATIONS[operation], dict(renamed or {})
    folder = _folder_field(one.request)
    names = {field: argument for argument, field in field_of.items()}
    return Tool(
        name=name,
        operation=operation,
        sets=sets,
        description=description,
        inputs=tuple(
            replace(item, name=name, aliases=(aliases or {}).get(name, ()))
            for item in inputs_of(one.request)
            if item.name in only and (name := names.get(item.name, item.name))
        ),
        request=lambda values, project: one.request(
            **{field_of.get(key, key): value for key, value in values.items()}, **placed(one.request, folder, project)
        ),
        renamed=field_of,
        **{"result": one.result, **more},
    )


def call_of(step: Step, tools: Iterable[Tool]) -> str:
    """The tool that does a step, with its arguments; the command where none of these tools can."""
    one = OPERATIONS[step.operation]
    wanted, folder = one.fields_of(step), _folder_field(one.request)
    for tool in tools:
        inputs = {tool.renamed.get(item.name, item.name): item for item in tool.inputs}
        inputs |= {folder: tool.project} if tool.project else {}
        if tool.operation == step.operation and wanted.keys() <= inputs.keys():
            return f"{tool.name}({', '.join(_argument(inputs[field], value) for field, value in wanted.items())})"
    return step.command()


def _argument(item: Input, value: Any) -> str:
    one_of_many = isinstance(value, list) and not item.kind.startswith("tuple")
    return f"{item.name}={dumps(value[0] if one_of_many else value)}"


def placed(request: type, folder: str, project: str) -> Values:
    """The field that names the folder, filled in; nothing where no project is given."""
    if not project or not folder:
        return {}
    many = next(item.kind for item in inputs_of(request) if item.name == folder).startswith("tuple")
    return {folder: (project,) if many else project}


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


def _folder_field(request: type) -> str:
    """The name of the field that holds the project's folder, "" where there is none."""
    for item in inputs_of(request):
        if item.name in ("paths", "path", "working_folder") and item.default in (".", "", ()):
            return item.name
    return next((item.name for item in inputs_of(request) if item.name == "root"), "")


def listed(tool: Tool) -> dict[str, Any]:
    """A tool as `tools/list` shows it."""
    one = OPERATIONS[tool.operation]
    hints = {
        "readOnlyHint": one.read_only and one.name != "index",  # an index is derived data, and written all the same
        "destructiveHint": one.removes or bool(one.confirm),
        "idempotentHint": one.read_only or one.removes or bool(one.confirm) or one.name in ("remember", "docs sync"),
        "openWorldHint": tool.open_world,
    }
    shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema()}
    return {**shown, "annotations": hints} | ({} if tool.text_only else {"outputSchema": tool.output_schema()})


# --- tools that need more of the engine than their operation ---


class Reingest(Struct, frozen=True):
    source: str  # a name or a folder


def reingest(engine: Engine, request: Reingest, call: Call) -> search.IndexResponse:
    """Of a repository that is indexed, and not being indexed."""
    wanted = request.source
    known = engine.projects(clients.ProjectsRequest()).projects
    root = next((one.root for one in known if wanted in (one.name, one.root)), "")
    if not root:
        names = ", ".join(one.name for one in known) or "none"
        raise NotFound(f"no repository {wanted} is indexed", next_step=f"Known: {names}")
    if engine.indexing(root) is not None:
        raise Busy(f"{root} is being indexed", next_step="Try again when it is done")
    return engine.index(search.IndexRequest((root,)), call.progress)
