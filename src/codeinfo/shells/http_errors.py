"""Errors over HTTP: one shape, `{"error": {"code", "message", "next"}}`, and one status for each code."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from codeinfo.errors import (
    Busy,
    CodeInfoError,
    IndexDamaged,
    Interrupted,
    NotFound,
    OutOfSpace,
    ProviderError,
    RootRefused,
    UsageError,
    environment_error,
)
from codeinfo.jsonable import dumps

log = logging.getLogger(__name__)

# A code decides before the kind of error does.
STATUS_OF_CODE = {
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
}
STATUS_OF_KIND: tuple[tuple[type[CodeInfoError], int], ...] = (
    (NotFound, 404),
    (RootRefused, 403),
    (UsageError, 400),
    (Busy, 429),
    (IndexDamaged, 502),
    (ProviderError, 503),
    (OutOfSpace, 507),
    (Interrupted, 499),
    (CodeInfoError, 500),
)
_CODE_OF_STATUS = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
ERROR_SCHEMA = {
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
        }
    },
}
DESCRIPTIONS = {
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


def documented() -> dict[int | str, dict[str, Any]]:
    """The answers any route may give instead of its own, for the OpenAPI document."""
    content = {"application/json": {"schema": ERROR_SCHEMA}}
    return {status: {"description": text, "content": content} for status, text in DESCRIPTIONS.items()}


def status_of(error: CodeInfoError) -> int:
    if error.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[error.code]
    return next(status for kind, status in STATUS_OF_KIND if isinstance(error, kind))


def error_body(error: CodeInfoError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.what, "next": error.next_step}}


def json_response(value: object, status: int = 200) -> Response:
    return Response(dumps(value), status, media_type="application/json")


def not_routed(error: HTTPException) -> Response:
    """No route, or not by this method."""
    code = _CODE_OF_STATUS.get(error.status_code, "HTTP_ERROR")
    body = {"error": {"code": code, "message": str(error.detail), "next": "See /docs for what is served"}}
    return JSONResponse(body, error.status_code, error.headers)


def add_handlers(app: FastAPI) -> None:
    @app.exception_handler(CodeInfoError)
    async def known(request: Request, error: CodeInfoError) -> Response:
        status = status_of(error)
        if status >= 500:
            log.warning("%s %s: %s", request.method, request.url.path, error)
        return json_response(error_body(error), status)

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> Response:
        return not_routed(error)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nobody is left to read it

    @app.exception_handler(RequestValidationError)
    async def parameter(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        what = f"{first['loc'][-1]}: {first['msg']}"
        return json_response(error_body(UsageError(what, next_step="See /docs for what it may be")), 400)

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        what = environment_error(error)
        if what is None:
            what = CodeInfoError("this is a fault of CodeInfo", next_step="The Health page's log shows where")
        return json_response(error_body(what), status_of(what))
