"""`/api/v1`: every operation that is not for this machine's terminal alone, as a POST of its request's fields.

Arguments are checked as MCP tools check theirs; folders must be projects that are indexed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from codeinfo.operations import Operation, operation, operation_names
from codeinfo.shells.http_errors import documented, json_response
from codeinfo.shells.http_state import State, file_within, json_body, state_of
from codeinfo.shells.mcp_schema import Input, Schema, checked, input_schema, inputs_of, output_schema

PREFIX = "/api/v1"
# They read or write files that the caller names, or fetch from addresses that it names.
NOT_SERVED = frozenset({"docs add", "docs pack", "memory import"})
FOLDERS = ("paths", "path", "working_folder", "root")


def served_operations() -> Iterator[Operation]:
    for name in operation_names():
        if name not in NOT_SERVED and operation(name).group != "local":
            yield operation(name)


def described(name: str) -> Schema:
    """The schema of an operation's result."""
    return output_schema(operation(name).result)


def read_paths() -> frozenset[str]:
    """The paths that need no token. Indexing is derived data, but costs too much to be free for anyone."""
    return frozenset(path_of(one) for one in served_operations() if one.read_only and one.name != "index")


def path_of(one: Operation) -> str:
    return f"{PREFIX}/{one.name.replace(' ', '/')}"


def operations_router() -> APIRouter:
    router = APIRouter(tags=["operations"])
    for one in served_operations():
        add_post(
            router,
            path_of(one),
            _endpoint(one),
            inputs=inputs_of(one.request),
            result=described(one.name),
            summary=one.summary,
            description=one.help,
        )
    return router


def add_post(
    router: APIRouter,
    path: str,
    endpoint: Callable[..., Any],
    *,
    inputs: tuple[Input, ...],
    result: Schema,
    summary: str,
    description: str = "",
) -> None:
    """A route that takes one JSON object; its schemas come from the table, so that the document says what holds."""
    properties = {name: value for name, value in result.get("properties", {}).items() if name not in _PAGING}
    shown = {**result, "properties": properties} if properties else result
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        summary=summary,
        description=description,
        response_class=Response,
        responses={200: {"description": "Done.", "content": {"application/json": {"schema": shown}}}, **documented()},
        openapi_extra={
            "requestBody": {
                "required": any(item.required for item in inputs),
                "content": {"application/json": {"schema": input_schema(inputs)}},
            }
        },
    )


_PAGING = ("truncated", "cursor")  # of MCP replies only


def _endpoint(one: Operation) -> Callable[[Request], Any]:
    inputs = inputs_of(one.request)

    async def perform(request: Request) -> Response:
        state = state_of(request)
        values = checked(inputs, await json_body(request))
        result = await state.work(
            lambda call: one.run(state.engine, one.request(**placed(state, one.request, values)), call.progress)
        )
        if not one.read_only:
            state.forget_projects()
        return json_response(result)

    return perform


def placed(state: State, request: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with every folder replaced by the root of a known project, and every file by its place in one."""
    settled = dict(values)
    fields = {item.name: item for item in inputs_of(request)}
    if "paths" in fields:
        settled["paths"] = tuple(state.root_of(name) for name in values.get("paths", ("",)))
    if "working_folder" in fields:
        settled["working_folder"] = state.root_of(values.get("working_folder", ""))
    if "root" in fields:
        settled["root"] = state.root_of(values.get("root", ""))
        settled["path"] = file_within(settled["root"], values["path"])
    elif "path" in fields and fields["path"].required:  # a file of a project
        root = _holder(state, values["path"])
        settled["path"] = f"{root}/{file_within(root, values['path'])}"
    elif "path" in fields:
        settled["path"] = state.root_of(values.get("path", ""))
    return settled


def _holder(state: State, path: str) -> str:
    """The project that an absolute path lies in, else the default one."""
    holders = [project.root for project in state.projects() if path.startswith(f"{project.root}/")]
    return max(holders, key=len, default="") or state.root_of("")
