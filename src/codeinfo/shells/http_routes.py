"""Routes as rows: from one row come the route itself, the check of its arguments and its part of the OpenAPI document.

Errors have one shape, `{"error": {"code", "message", "next"}}`, and one status for each code.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from codeinfo import __version__
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.jsonable import dumps
from codeinfo.model import Step, phrase
from codeinfo.operations import OPERATIONS, Operation
from codeinfo.serve.dispatch import (
    REFLECTS,
    Call,
    Input,
    Schema,
    Values,
    check,
    fault,
    input_schema,
    property_schema,
)
from codeinfo.serve.runs import State

Handler = Callable[[State, Values, Call], Any]
Streaming = Callable[[State, Values, Request], Awaitable[Response]]
PREFIX = "/api/v1"
# They read or write files that the caller names, or fetch from addresses that it names.
NOT_SERVED = frozenset({"docs add", "docs pack", "memory import"})
LOG_PLACE = "the Health page's log"

log = logging.getLogger(__name__)


class Api(Struct, frozen=True):
    """A route of the API. `handler` runs in a thread and returns what becomes JSON; `stream` runs on the event loop and
    makes the response itself. `reserved` ones describe the server and wait for no other work."""

    method: str
    path: str
    summary: str
    inputs: tuple[Input, ...] = ()
    handler: Handler | None = None
    stream: Streaming | None = None
    result: type | None = None
    description: str = ""
    tag: str = "operations"
    reserved: bool = False
    shows_project: bool = False  # its reply also says which state of the project that is

    def route(self) -> Route:
        async def answer(request: Request) -> Response:
            state, values = state_of(request), await self.arguments(request)
            if self.stream is not None:
                return await self.stream(state, values, request)
            assert self.handler is not None
            handler = self.handler
            return json_response(await state.run(lambda call: handler(state, values, call), reserved=self.reserved))

        return Route(self.path, answer, methods=[self.method])

    async def arguments(self, request: Request) -> Values:
        if self.method == "POST":
            values = check(self.inputs, await json_body(request))
        else:
            known = {item.name for item in self.inputs}
            given = {name: value for name, value in request.query_params.items() if name in known}
            check_text(given)
            values = check(self.inputs, given, as_text=True)
        check_text(request.path_params)
        return (
            {item.name: item.default for item in self.inputs if item.default is not None} | values | request.path_params
        )


def is_served(one: Operation) -> bool:
    return one.name not in NOT_SERVED and one.group != "local"


def path_of(one: Operation) -> str:
    return f"{PREFIX}/{one.name.replace(' ', '/')}"


def state_of(request: Request) -> State:
    found: State = request.app.state.codeinfo
    return found


# --- JSON in and out -----------------------------------------------------------------------------------------------


def json_response(value: object, status: int = 200) -> Response:
    return Response(dumps(value), status, media_type="application/json")


async def json_body(request: Request) -> Mapping[str, Any]:
    """The body as a JSON object; its media type must say so, which no other site's form can."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UsageError("the body must be application/json", next_step="Set Content-Type", code="MEDIA_TYPE")
    try:
        value = json.loads(await request.body() or b"{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON", next_step="Send one JSON object") from None
    if not isinstance(value, dict):
        raise UsageError("the body is not a JSON object", next_step="Send one JSON object")
    check_text(value)
    return value


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


def check_text(value: object) -> None:
    """Half a surrogate pair or a NUL is no text that a file system or a database takes."""
    texts: list[object] = [value]
    while texts:
        deeper: list[object] = []
        for one in texts:
            if isinstance(one, str) and ("\0" in one or any("\ud800" <= char <= "\udfff" for char in one)):
                raise UsageError("a text holds a character that cannot be used", next_step="Send plain Unicode text")
            if isinstance(one, dict):
                deeper += [*one.keys(), *one.values()]
            elif isinstance(one, list):
                deeper += one
        texts = deeper


# --- errors --------------------------------------------------------------------------------------------------------

STATUS_OF_CODE = {  # where the code decides, and not the kind of error
    "BODY_TOO_LARGE": 413,
    "TIMEOUT": 408,
    "MEDIA_TYPE": 415,
    "FOLDER_REFUSED": 403,
    "ADDRESS_REFUSED": 403,
    "REPO_NOT_FOUND": 404,
    "NOT_INGESTED": 409,
    "DIMENSION_MISMATCH": 409,
    "RUN_IN_PROGRESS": 409,
    "CONVERSATION_ARCHIVED": 410,
    "EMBEDDING_MODEL_MISSING": 503,
    "EMBEDDING_UNAVAILABLE": 503,
    "CODE_INFO_LLM_UNAVAILABLE": 503,
    "OVERLOADED": 503,
    "TOOK_TOO_LONG": 504,
    "CANCELLED": 499,
}
_CODE_OF_STATUS = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def status_of(error: CodeInfoError) -> int:
    return STATUS_OF_CODE.get(error.code, error.status)


def route_of(step: Step) -> str:
    """A step as a request to this server; the command where it is not served."""
    one, values = OPERATIONS[step.operation], OPERATIONS[step.operation].fields_of(step)
    return f"`POST {path_of(one)}{' ' + dumps(values) if values else ''}`" if is_served(one) else step.command()


def error_body(error: CodeInfoError) -> dict[str, Any]:
    step = phrase(error.next_step, route_of)
    body: dict[str, Any] = {"error": {"code": error.code, "message": error.what, "next": step}}
    return body | ({"details": [error.what]} if error.code == UsageError.code else {})


async def known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CodeInfoError)
    status = status_of(error)
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return json_response(error_body(error), status)


async def no_route(request: Request, error: Exception) -> Response:
    """No route, or not by this method."""
    assert isinstance(error, HTTPException)
    code = _CODE_OF_STATUS.get(error.status_code, "HTTP_ERROR")
    body = {"error": {"code": code, "message": str(error.detail), "next": "See /docs for what is served"}}
    response = json_response(body, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody is left to read it


async def unknown_error(request: Request, error: Exception) -> Response:
    known = fault(error, LOG_PLACE)
    return json_response(error_body(known), status_of(known))


EXCEPTION_HANDLERS = {
    CodeInfoError: known_error,
    HTTPException: no_route,
    ClientDisconnect: client_gone,
    Exception: unknown_error,
}


# --- the OpenAPI document ------------------------------------------------------------------------------------------

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "next"],
            "properties": {
                "code": {"type": "string", "description": "Stable, for programs."},
                "message": {"type": "string", "description": "What happened."},
                "next": {"type": "string", "description": "What to do next."},
            },
        },
        "details": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Of VALIDATION_FAILED: what is wrong.",
        },
    },
}
_DESCRIPTIONS = {
    400: "The request is not valid.",
    401: "The token is missing.",
    403: "The folder, the address or the origin is refused.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "Not in this state: not indexed yet, indexed with another model, or a run is in progress.",
    410: "The conversation is archived.",
    413: "The body is too large.",
    415: "The body must be JSON.",
    421: "The host name is refused.",
    429: "Busy: try again later.",
    499: "Cancelled.",
    502: "The index is damaged.",
    503: "A model is missing, does not answer, or the server is overloaded.",
    504: "It took too long.",
    507: "Disk or memory ran out.",
}


def openapi_document(rows: Iterable[Api]) -> dict[str, Any]:
    rows = tuple(rows)
    kinds = tuple(dict.fromkeys(row.result for row in rows if row.result is not None))
    schemas, shared = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    results = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for row in rows:
        schema = results[row.result] if row.result is not None else {"type": "object"}
        if row.shows_project:
            schema = {"allOf": [schema, {"type": "object", "properties": {"reflects": REFLECTS}}]}
        paths.setdefault(row.path, {})[row.method.lower()] = _described(row, schema)
    about = "Find the few places in a codebase that matter, and see why. Errors have one shape everywhere."
    return {
        "openapi": "3.1.0",
        "info": {"title": "CodeInfo", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": {**shared, "Error": _ERROR_SCHEMA}},
    }


def _described(row: Api, result: Schema) -> dict[str, Any]:
    json_content = {"application/json": {"schema": result}}
    content: dict[str, Any] = json_content if row.handler is not None or row.method == "POST" else {}
    if row.stream is not None:
        content = {**content, "text/event-stream": {}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    described: dict[str, Any] = {
        "tags": [row.tag],
        "summary": row.summary,
        "description": row.description,
        "operationId": re.sub(r"\W+", "_", f"{row.method.lower()}{row.path}").strip("_"),
        "responses": {
            "200": {"description": "Done.", "content": content},
            **{str(status): {"description": text, "content": error} for status, text in _DESCRIPTIONS.items()},
        },
    }
    names = re.findall(r"{(\w+)}", row.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    if row.method == "POST":
        body = {"application/json": {"schema": input_schema(row.inputs)}}
        described["requestBody"] = {"required": any(item.required for item in row.inputs), "content": body}
    else:
        parameters += [
            {"name": item.name, "in": "query", "required": item.required, "schema": property_schema(item)}
            for item in row.inputs
        ]
    return described | ({"parameters": parameters} if parameters else {})
