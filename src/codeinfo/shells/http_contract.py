"""Paths that clients know by contract: /tools, /health, /version and /logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from codeinfo import __version__
from codeinfo.operations import code as code_requests
from codeinfo.operations import operation
from codeinfo.operations.clients import ProjectsRequest, ProjectsResult, VectorSearchRequest, VectorSearchResult
from codeinfo.operations.search import DoctorRequest
from codeinfo.shells.http_errors import documented, json_response
from codeinfo.shells.http_operations import add_post, described, placed
from codeinfo.shells.http_state import json_body, state_of
from codeinfo.shells.mcp_schema import Input, checked, inputs_of, output_schema

_REPOSITORY = Input("repository", "An indexed repository: its name or folder.")

# path, operation, request, what the contract calls the request's own name for it
_AST = (
    ("/tools/ast-list-symbols", "symbols", code_requests.SymbolsRequest, {"file": "path"}),
    ("/tools/ast-find-definition", "defs", code_requests.DefsRequest, {"symbol": "name"}),
    ("/tools/ast-find-references", "refs", code_requests.RefsRequest, {"symbol": "name"}),
    ("/tools/ast-call-graph", "calls", code_requests.CallsRequest, {"symbol": "name"}),
    ("/tools/ast-module-imports", "imports", code_requests.ImportsRequest, {"file": "path"}),
)
READS = frozenset({"/tools/vector-search", *(path for path, *_ in _AST)})
Endpoint = Callable[..., Any]
Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


def contract_router() -> APIRouter:
    router = APIRouter(tags=["contract"])
    vector_inputs = inputs_of(VectorSearchRequest)
    add_post(
        router,
        "/tools/vector-search",
        _vector_search,
        inputs=vector_inputs,
        result=output_schema(VectorSearchResult),
        summary="Chunks closest in meaning, cut by the relevance policy.",
        description="`score` is the raw distance: squared L2, 0 is identical, lower is closer.",
    )
    for path, name, request, renamed in _AST:
        _add_ast(router, path, name, request, renamed)
    for path, endpoint, summary, result in (
        ("/tools/ingested-repos", _ingested, "The indexed repositories.", output_schema(ProjectsResult)),
        ("/health", _health, "Whether the server works, and what `doctor` says.", {"type": "object"}),
        ("/version", _version, "The version.", {"type": "object"}),
        ("/logs", _logs, "Recent log lines, the latest first.", {"type": "object"}),
    ):
        add_get(router, path, endpoint, summary, result)
    return router


def add_get(router: APIRouter, path: str, endpoint: Endpoint, summary: str, result: dict[str, Any]) -> None:
    _add_get(router, path, endpoint, summary, {"application/json": {"schema": result}})


def add_events(router: APIRouter, path: str, endpoint: Endpoint, summary: str) -> None:
    """A route that answers with server-sent events."""
    _add_get(router, path, endpoint, summary, {"text/event-stream": {}})


def _add_get(router: APIRouter, path: str, endpoint: Endpoint, summary: str, content: dict[str, Any]) -> None:
    answers = {200: {"description": "Done.", "content": content}, **documented()}
    router.add_api_route(path, endpoint, methods=["GET"], summary=summary, response_class=Response, responses=answers)


async def _vector_search(request: Request) -> Response:
    state = state_of(request)
    asked = VectorSearchRequest(**checked(inputs_of(VectorSearchRequest), await json_body(request)))
    return json_response(await state.work(lambda call: state.engine.vector_search(asked)))


async def _ingested(request: Request) -> Response:
    state = state_of(request)
    return json_response(await state.work(lambda call: state.engine.projects(ProjectsRequest())))


async def _health(request: Request) -> Response:
    state = state_of(request)
    report = await state.look(lambda call: state.engine.doctor(DoctorRequest(())))
    failed = [check.name for check in report.checks if check.state == "fail"]
    late_ms = round(1000 * state.loop_watch.late_s)
    status = "degraded" if failed else "ok"
    return json_response({"status": status, "version": __version__, "late_ms": late_ms, "checks": report.checks})


async def _version(request: Request) -> Response:
    return json_response({"name": "codeinfo", "version": __version__})


async def _logs(request: Request, level: Level = "INFO", limit: int = Query(default=200, ge=1, le=1000)) -> Response:
    return json_response({"lines": state_of(request).logs.since(level, limit)})


def _add_ast(router: APIRouter, path: str, name: str, kind: type, renamed: dict[str, str]) -> None:
    found = operation(name)
    back = {value: key for key, value in renamed.items()}
    folder = "root" if "root" in (item.name for item in inputs_of(kind)) else "path"
    own = tuple(item for item in inputs_of(kind) if item.name not in (folder, "refresh"))
    inputs = (*(_renamed(item, back.get(item.name, item.name)) for item in own), _REPOSITORY)

    async def perform(request: Request) -> Response:
        state = state_of(request)
        values = checked(inputs, await json_body(request))
        values = {renamed.get(key, key): value for key, value in values.items()}
        values[folder] = values.pop("repository", "")
        return json_response(
            await state.work(lambda call: found.run(state.engine, kind(**placed(state, kind, values)), call.progress))
        )

    add_post(
        router, path, perform, inputs=inputs, result=described(name), summary=found.summary, description=found.help
    )


def _renamed(item: Input, name: str) -> Input:
    return Input(name, item.help, item.kind, item.default, item.required, item.choices, item.minimum, item.maximum)
