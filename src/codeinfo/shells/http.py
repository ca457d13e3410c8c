"""The HTTP server: the JSON API, the contract's paths, the pages and the MCP server in one application.

It holds no logic of its own: a request becomes a request of the operations table, the engine answers it in a thread.
`http_safety` stands before all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from msgspec.structs import replace
from starlette.routing import Route

from codeinfo import __version__
from codeinfo.config import Config
from codeinfo.errors import UsageError
from codeinfo.serve.auth import (
    CODE_PARAMETER,
    LOOPBACK,
    Access,
    App,
    Guard,
    Sessions,
    given_token,
    hosts_for,
    kept_token,
    write_link_file,
)
from codeinfo.serve.index_queue import IndexQueue
from codeinfo.serve.refresh import server_engine
from codeinfo.serve.runs import Bell, Runs
from codeinfo.serve.shutdown import DRAIN_S, answer_cancelled, check_threads, end_by_deadline
from codeinfo.shells import http_contract, http_operations
from codeinfo.shells.http_chat import chat_router
from codeinfo.shells.http_connections import (
    ACCEPTED_AT_ONCE,
    WAITING_TO_BE_ACCEPTED,
    BoundedServer,
    allowed_connections,
    bounded_protocol,
    report_quietly,
)
from codeinfo.shells.http_errors import add_handlers
from codeinfo.shells.http_ingest import ingest_router
from codeinfo.shells.http_pages import add_unknown_page, pages_router
from codeinfo.shells.http_state import LogLines, State
from codeinfo.shells.mcp import http_service
from codeinfo.shells.mcp_catalog import chosen_tools

STATIC = Path(__file__).parent / "web" / "static"
MCP_SETS = ("search", "edit", "answers", "agents", "docs")
KEEP_ALIVE_S = 15
EVERY_ADDRESS = ("", "0.0.0.0", "::")

log = logging.getLogger(__name__)


def make_app(config: Config, access: Access, allowed: tuple[Path, ...] = ()) -> App:
    """The whole application behind its guard. `allowed` are the folders below which projects may be added."""
    app = FastAPI(
        title="CodeInfo",
        version=__version__,
        description="Find the few places in a codebase that matter, and see why. Errors have one shape everywhere.",
        docs_url=None,  # its page loads scripts from elsewhere; /docs is ours
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.codeinfo = _state(config, allowed)
    app.openapi = partial(_document, app.openapi)  # type: ignore[method-assign]
    engine = app.state.codeinfo.engine
    app.state.mcp = http_service(config, chosen_tools(MCP_SETS), lambda: engine, app.state.codeinfo.root_of)
    add_handlers(app)
    add_unknown_page(app)
    for router in (
        http_operations.operations_router(),
        http_contract.contract_router(),
        ingest_router(),
        chat_router(),
        pages_router(),
    ):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.router.routes.append(Route("/mcp", endpoint=app.state.mcp.app))  # a mount alone would redirect there
    app.mount("/mcp", app.state.mcp.app)
    reads = access.reads | http_operations.read_paths() | http_contract.READS
    return Guard(app, replace(access, reads=reads))


def _document(described: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The framework's description, less the one status that never comes: wrong parameters are 400 like all others."""
    document = described()
    for methods in document["paths"].values():
        for route in methods.values():
            route["responses"].pop("422", None)
    return document


def _state(config: Config, allowed: tuple[Path, ...]) -> State:
    engine = server_engine(config)
    bell = Bell()
    here = Path.cwd().resolve()
    return State(
        engine=engine,
        ingest=IndexQueue(engine, bell.ring),
        runs=Runs(engine),
        logs=LogLines(),
        allowed=tuple(folder.resolve() for folder in allowed) or (here,),
        here=here,
        queue_bell=bell,
    )


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state: State = app.state.codeinfo
    logging.getLogger("codeinfo").addHandler(state.logs)
    logging.getLogger("codeinfo").setLevel(logging.INFO)
    state.ingest.start()
    asyncio.get_running_loop().set_exception_handler(report_quietly)
    watching = asyncio.create_task(state.loop_watch.run())
    try:
        async with app.state.mcp.running():
            yield
    finally:
        watching.cancel()
        logging.getLogger("codeinfo").removeHandler(state.logs)
        await asyncio.to_thread(_close, state)


def _close(state: State) -> None:
    state.runs.close()
    state.ingest.close()
    state.engine.close()


# --- the program ---------------------------------------------------------------------------------------------------


def serve(config: Config, *, host: str, port: int, allowed: tuple[str, ...], token_file: str, open_page: bool) -> None:
    """Serve until interrupted. With a token file every request needs its token, and other addresses can be served."""
    import uvicorn

    if host not in LOOPBACK and not token_file:
        raise UsageError(
            f"{host} can be reached from other machines",
            next_step="Put a token into a file and name it with --token-file: every request must then carry it",
        )
    if host in EVERY_ADDRESS:
        raise UsageError(
            f"{host} stands for every address of this machine",
            next_step="Name the one that others use, as in --host 192.168.1.5: only requests to it are answered",
        )
    check_threads()
    token = given_token(Path(token_file)) if token_file else kept_token(config.paths.data_dir)
    listener = _listener(host, port)
    real_port = listener.getsockname()[1]
    address = f"http://{host if ':' not in host else f'[{host}]'}:{real_port}/"
    link = f"{address}?{CODE_PARAMETER}="
    sessions = Sessions(token, lambda code: print(f"  pages in another browser, once: {link}{code}", flush=True))
    access = Access(hosts_for(host, real_port), token, private=bool(token_file), sessions=sessions)
    app = make_app(config, access, tuple(Path(folder).expanduser() for folder in allowed))
    print(f"CodeInfo is served at {address}", flush=True)
    print(f"  API {address}docs   MCP {address}mcp/", flush=True)
    print(f"  pages, in your browser, once: {link}{sessions.code}", flush=True)
    if open_page:
        import webbrowser

        webbrowser.open(write_link_file(config.paths.data_dir, f"{link}{sessions.code}").as_uri())

    class Server(BoundedServer):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            end_by_deadline()
            super().handle_exit(sig, frame)

    settings = uvicorn.Config(
        answer_cancelled(app, lambda: server.should_exit),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        http=bounded_protocol(allowed_connections()),
        backlog=ACCEPTED_AT_ONCE,
        ws="none",
    )
    server = Server(settings)
    server.run(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's delay, 40 ms an answer, only for sockets that say they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(WAITING_TO_BE_ACCEPTED)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"{host}:{port} cannot be used: {error.strerror}", next_step="Choose another with --port"
        ) from error
    return listener
