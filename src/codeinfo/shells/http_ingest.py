"""`/ingest`: the queue of indexing runs, its progress as server-sent events, and the folders that may be added."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sse_starlette import EventSourceResponse

from codeinfo.errors import Busy, NotFound
from codeinfo.jsonable import dumps
from codeinfo.operations.clients import IngestRun, IngestStatus, ProjectsResult
from codeinfo.operations.search import ClearReport, ClearRequest
from codeinfo.shells.http_contract import Endpoint, add_events, add_get
from codeinfo.shells.http_errors import json_response
from codeinfo.shells.http_operations import add_post
from codeinfo.shells.http_state import State, json_body, state_of
from codeinfo.shells.mcp_schema import Input, Schema, checked, output_schema
from codeinfo.sources.walk import check_root

PING_SECONDS = 15
REST_SECONDS = 0.2  # between two events: how fine progress is told
_FOLDER = Input("path", "The folder.", required=True)
_ROOT = Input("root", "The project: its name or folder.", required=True)
_FULL = Input("full", "Build everything anew instead of only what changed.", "bool", False)
_RUN = Input("runId", "The run.", required=True)
MOST_FOLDERS = 500  # listed at once


def ingest_router() -> APIRouter:
    router = APIRouter(tags=["ingest"])
    run = output_schema(IngestRun)
    posts: tuple[tuple[str, Endpoint, tuple[Input, ...], Schema, str], ...] = (
        ("/ingest/start", _start, (_FOLDER, _FULL), run, "Queue a folder to be indexed."),
        ("/ingest/reembed", _again, (_ROOT, _FULL), run, "Queue a project to be brought up to date."),
        ("/ingest/cancel", _cancel, (_RUN,), run, "Cancel a run that waits or goes on."),
        ("/ingest/remove", _remove, (_ROOT,), output_schema(ClearReport), "Delete a project's index."),
    )
    for path, endpoint, inputs, result, summary in posts:
        add_post(router, path, endpoint, inputs=inputs, result=result, summary=summary)
    gets: tuple[tuple[str, Endpoint, str, Schema], ...] = (
        ("/ingest/status", _status, "What runs, waits and was done.", output_schema(IngestStatus)),
        ("/ingest/status/{run_id}", _one, "One run.", run),
        ("/ingest/roots", _roots, "The indexed projects.", output_schema(ProjectsResult)),
        ("/ingest/models", _models, "The embedding model that new indexes get.", {"type": "object"}),
        ("/ingest/dirs", _dirs, "Folders below a folder, within those that may be added.", {"type": "object"}),
    )
    for path, endpoint, summary, result in gets:
        add_get(router, path, endpoint, summary, result)
    add_events(router, "/ingest/events", _events, "The queue whenever it changes, as server-sent events.")
    return router


async def _start(request: Request) -> Response:
    state = state_of(request)
    values = checked((_FOLDER, _FULL), await json_body(request))
    return json_response(await state.work(lambda call: add_project(state, values["path"], values.get("full", False))))


def add_project(state: State, given: str, full: bool) -> IngestRun:
    return state.ingest.add(check_root(state.addable(given)), full=full)


async def _again(request: Request) -> Response:
    state = state_of(request)
    values = checked((_ROOT, _FULL), await json_body(request))
    return json_response(
        await state.work(
            lambda call: state.ingest.add(Path(state.root_of(values["root"])), full=values.get("full", False))
        )
    )


async def _cancel(request: Request) -> Response:
    state = state_of(request)
    values = checked((_RUN,), await json_body(request))
    return json_response(await state.work(lambda call: state.ingest.cancel(values["runId"])))


async def _remove(request: Request) -> Response:
    state = state_of(request)
    values = checked((_ROOT,), await json_body(request))
    return json_response(await state.work(lambda call: remove_project(state, values["root"])))


def remove_project(state: State, name: str) -> ClearReport:
    root = state.root_of(name)
    if state.ingest.is_busy(Path(root)):
        raise Busy(f"{root} is being indexed", next_step="Cancel that first")
    cleared = state.engine.clear(ClearRequest((root,)))
    state.forget_projects()
    return cleared


async def _status(request: Request) -> Response:
    state = state_of(request)
    return json_response(await state.work(lambda call: state.ingest.status()))


async def _one(request: Request, run_id: str) -> Response:
    state = state_of(request)
    return json_response(await state.work(lambda call: state.ingest.run(run_id)))


async def _roots(request: Request) -> Response:
    state = state_of(request)
    return json_response(await state.work(lambda call: ProjectsResult(state.projects())))


async def _models(request: Request) -> Response:
    state = state_of(request)
    embedder = await state.work(lambda call: state.engine.embedder())
    models = [{"id": embedder.model_id, "dimension": embedder.dimension}] if embedder else []
    return json_response({"models": models})


async def _dirs(request: Request, path: str = Query(default="", max_length=4096)) -> Response:
    state = state_of(request)
    return json_response(await state.work(lambda call: folders_below(state, path)))


def folders_below(state: State, given: str) -> dict[str, Any]:
    """The folders of one folder; the allowed ones themselves where none is named. Hidden ones are left out."""
    if not given:
        return {"path": "", "parent": None, "dirs": [{"name": str(one), "path": str(one)} for one in state.allowed]}
    folder = state.addable(given)
    try:
        entries = sorted(one.name for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError as error:
        raise NotFound(f"{folder} cannot be read: {error.strerror}", next_step="Choose another folder") from error
    inside = any(folder.parent.is_relative_to(root) for root in state.allowed)
    return {
        "path": str(folder),
        "parent": str(folder.parent) if inside else None,
        "dirs": [{"name": name, "path": str(folder / name)} for name in entries[:MOST_FOLDERS]],
    }


async def _events(request: Request) -> Response:
    return EventSourceResponse(_told(state_of(request)), ping=PING_SECONDS)


async def _told(state: State) -> AsyncIterator[dict[str, str]]:
    """The queue at once, then whenever it changed; a slow listener misses steps in between, never the end."""
    with state.queue_bell.listening() as news:
        while True:
            news.clear()
            yield {"event": "queue", "data": dumps(await state.work(lambda call: state.ingest.status()))}
            await asyncio.sleep(REST_SECONDS)
            await news.wait()
