"""The HTTP server: the JSON API, the contract's paths, the pages and the MCP server in one application.

It holds no logic of its own: routes are rows (`http_api`, `http_pages`) that the dispatcher runs. `serve/auth.py`
stands before all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from codeinfo.config import Config
from codeinfo.errors import Interrupted, UsageError
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
from codeinfo.serve.dispatch import Dispatcher, EngineLease, Projects, check_threads, end_by_deadline
from codeinfo.serve.index_queue import IndexQueue
from codeinfo.serve.refresh import server_engine
from codeinfo.serve.runs import Bell, Runs
from codeinfo.serve.state import LogLines, State
from codeinfo.shells.http_api import api_routes, read_paths
from codeinfo.shells.http_connections import (
    ACCEPTED_AT_ONCE,
    DRAIN_S,
    WAITING_TO_BE_ACCEPTED,
    BoundedServer,
    LoopWatch,
    allowed_connections,
    answer_cancelled,
    bounded_protocol,
    report_quietly,
)
from codeinfo.shells.http_pages import page_routes, unknown_page
from codeinfo.shells.http_routes import EXCEPTION_HANDLERS, LOG_PLACE, json_response, openapi_document
from codeinfo.shells.mcp import http_service
from codeinfo.shells.mcp_catalog import chosen_tools

STATIC = Path(__file__).parent / "web" / "static"
MCP_SETS = ("search", "edit", "answers", "agents", "docs")
KEEP_ALIVE_S = 15
WORK_SECONDS = 120.0
EVERY_ADDRESS = ("", "0.0.0.0", "::")

log = logging.getLogger(__name__)


def make_app(config: Config, access: Access, allowed: tuple[Path, ...] = ()) -> App:
    """The whole application behind its guard. `allowed` are the folders below which projects may be added."""
    watch = LoopWatch()
    state = _state(config, allowed, watch)
    mcp = http_service(config, chosen_tools(MCP_SETS), state.dispatcher.lease, state.projects)
    rows = api_routes()

    async def document(request: Request) -> Response:
        return json_response(openapi_document(rows))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        logging.getLogger("codeinfo").addHandler(state.logs)
        logging.getLogger("codeinfo").setLevel(logging.INFO)
        state.ingest.start()
        asyncio.get_running_loop().set_exception_handler(report_quietly)
        watching = asyncio.create_task(watch.run())
        try:
            async with mcp.running():
                yield
        finally:
            watching.cancel()
            logging.getLogger("codeinfo").removeHandler(state.logs)
            await asyncio.to_thread(_close, state)

    routes = [
        *(row.route() for row in rows),
        *page_routes(),
        Route("/openapi.json", document),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/mcp", endpoint=mcp.app),  # a mount alone would redirect there
        Mount("/mcp", app=mcp.app),
    ]
    app = Starlette(routes=routes, exception_handlers={**EXCEPTION_HANDLERS, 404: unknown_page}, lifespan=lifespan)
    app.state.codeinfo = state
    return Guard(app, replace(access, reads=access.reads | read_paths()))


def _state(config: Config, allowed: tuple[Path, ...], watch: LoopWatch) -> State:
    engine = server_engine(config)
    bell = Bell()
    here = Path.cwd().resolve()
    lease = EngineLease(lambda: engine, idle_s=None)
    return State(
        engine=engine,
        dispatcher=Dispatcher(lease, Projects(lease, here), seconds=WORK_SECONDS, log_place=LOG_PLACE),
        ingest=IndexQueue(engine, bell.ring),
        runs=Runs(engine),
        logs=LogLines(),
        allowed=tuple(folder.resolve() for folder in allowed) or (here,),
        queue_bell=bell,
        late_s=lambda: watch.late_s,
    )


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
            end_by_deadline(Interrupted.exit_code)
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
