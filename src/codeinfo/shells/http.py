"""The HTTP server: the API, the contract's paths, the pages and the MCP server in one application. Also its
connections (how many, how slow), health and readiness, graceful shutdown, and several processes on one socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import logging
import os
import resource
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from codeinfo.config import LOOPBACK, Config, expand_user
from codeinfo.errors import Interrupted, UsageError
from codeinfo.serve import auth, dispatch, processes
from codeinfo.serve.refresh import server_engine
from codeinfo.serve.runs import IndexQueue, LogLines, Runs, State
from codeinfo.serve.team import READ, make_authenticator, require_callers
from codeinfo.shells import http_api
from codeinfo.shells.http_pages import page_routes
from codeinfo.shells.http_team import SignIn, admin_routes, guard_app, origin_of, receiving_routes
from codeinfo.shells.http_views import editor_template, unknown_page
from codeinfo.shells.mcp import MCP_PATH, Service
from codeinfo.shells.mcp_protocol import HttpEndpoint
from codeinfo.shells.mcp_tools import choose_tools

KEEP_ALIVE_S = 15
WORK_SECONDS = 120.0
EVERY_ADDRESS = ("", "0.0.0.0", "::")
MOST_CONNECTIONS = 2000
OWN_DESCRIPTORS = 256  # of the process itself: databases, vector files, pipes to workers, listening sockets
# Connections accepted before the loop reads from the first; two rounds must fit beside our own open files.
ACCEPTED_AT_ONCE = 64
WAITING_TO_BE_ACCEPTED = 1024
SIDE_THREADS = 32  # for what is no operation, such as signing in: it may wait for the database
WANTED_DESCRIPTORS = MOST_CONNECTIONS + OWN_DESCRIPTORS
HEADER_SECONDS = 10.0  # for the head of a request to arrive, from the start of a connection
LAST_BODY_SECONDS = auth.BODY_SECONDS + 5  # then the connection is closed; who reads the body has answered by then
REPLY_SECONDS = 60.0  # for a client to take what was sent
DRAIN_S = 1  # at a shutdown, for requests that are nearly done; uvicorn takes whole seconds
NOTICE_S = 2.0  # a draining server continues at least this long, until load balancers have seen that it is not ready
LAST_S = 0.5  # from closing the socket to closing connections: requests in flight are read meanwhile
_FRESH_S = 1.0  # how long a check of the database is valid
_LOOK_S = 0.25
SLOW_SECONDS = 1.0  # a delay of the loop that is logged
STUCK_SECONDS = 10.0  # a loop blocked for this long has the stacks of all threads dumped to stderr
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

log = logging.getLogger(__name__)


# --- connections ---------------------------------------------------------------------------------------------------


def count_connections() -> int:
    """How many connections the limit on open files allows, after raising it as far as allowed and needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < WANTED_DESCRIPTORS:
        raised = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(WANTED_DESCRIPTORS, hard)
        with contextlib.suppress(OSError, ValueError):  # the system may have its own limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= WANTED_DESCRIPTORS:
        return MOST_CONNECTIONS
    room = max(soft - OWN_DESCRIPTORS, soft // 4)
    log.warning("only %d files may be open: at most %d connections", soft, room)
    return room


def bounded_protocol(most: int) -> type[asyncio.Protocol]:
    """HTTP whose connections must send a request in time. Of more than `most`, the one idle longest is closed."""

    return type("Bounded", (_BoundedProtocol,), {"most_connections": most})


class _BoundedProtocol(H11Protocol):
    most_connections = MOST_CONNECTIONS
    _awaited: tuple[object, object] | None = None  # the part of a request that has yet to arrive in full
    _late: asyncio.TimerHandle | None = None  # until it has
    _stalled: asyncio.TimerHandle | None = None  # until the client has taken what was sent
    opened = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # `pause_writing` whenever the client does not take something
        self.opened = self.loop.time()
        self._limit_wait()
        if len(self.connections) > self.most_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.awaits_head:  # uvicorn limits how long a connection may rest
            self._limit_wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(REPLY_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._late)
        _cancel(self._stalled)
        super().connection_lost(exc)

    @property
    def awaits_head(self) -> bool:
        """Nothing, or only part of a request's head, has arrived."""
        return self.conn.their_state is h11.IDLE

    def _limit_wait(self) -> None:
        """Limit the time for the head of a request to arrive, and for its body, whether somebody reads that or not."""
        awaited = self.cycle, self.conn.their_state
        if awaited == self._awaited:
            return
        self._awaited = awaited
        _cancel(self._late)
        if self.awaits_head:
            self._late = self.loop.call_later(HEADER_SECONDS, self._give_up, _TOO_LATE)
        elif self.conn.their_state is h11.SEND_BODY:
            self._late = self.loop.call_later(LAST_BODY_SECONDS, self._give_up)

    def _give_up(self, reply: bytes = b"") -> None:
        if not self.transport.is_closing():
            self.transport.write(reply)
            self.transport.close()

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a request; this one if none does."""
        others = [other for other in cast(set[Any], self.connections) if other is not self and other.awaits_head]
        waiting = [other for other in others if not other.transport.is_closing()]
        oldest = min(waiting, key=lambda connection: connection.opened, default=self)
        oldest._give_up(_FULL)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Traffic:
    """ASGI middleware around everything: counts and logs requests, answers those that a shutdown cancels, and serves
    `/ready` (in a team `/health` too), which need no token and reveal nothing else."""

    def __init__(self, app: auth.App, find_problem: processes.Problem, *, health: bool, log_requests: bool) -> None:
        self._app = app
        self._find_problem = find_problem
        self._probes = ("/ready", "/health") if health else ("/ready",)
        self._log_requests = log_requests
        self._checked_at, self._last_problem = -_FRESH_S, ""
        self.draining = False
        self.ending = False
        self.running = 0

    async def __call__(self, scope: auth.Scope, receive: auth.Receive, send: auth.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._probes and scope["method"] in ("GET", "HEAD"):
            why = await asyncio.to_thread(self.problem) if scope["path"] == "/ready" else ""
            body = processes.probe_body(why and "operators see the reason at serve.metrics_address")
            await auth.send_body(send, 503 if why else 200, "application/json", body)
            return
        status, started = 0, time.perf_counter()

        async def send_tracked(message: auth.Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self.draining:  # the next request is for another server
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        self.running += 1
        try:
            await self._app(scope, receive, send_tracked)
        except asyncio.CancelledError:
            if not self.ending:
                raise
            if not status:
                await auth.send_body(send, 503, "text/plain", "", [(b"connection", b"close")])
        finally:
            self.running -= 1
            if self._log_requests:
                took_ms = round(1000 * (time.perf_counter() - started), 1)
                fields = {"method": scope["method"], "path": scope["path"], "status": status, "took_ms": took_ms}
                log.info("request", extra={"fields": fields})

    def problem(self) -> str:
        """Why no requests should be sent here; "" if there is no reason."""
        if self.draining:
            return processes.ENDING
        if time.monotonic() - self._checked_at > _FRESH_S:
            self._last_problem, self._checked_at = self._find_problem(), time.monotonic()
        return self._last_problem


class Server(uvicorn.Server):
    """Accepts few connections at a time; the others wait in the backlog. At SIGTERM it finishes what has begun,
    within `drain_s`, and exits with 0. SIGINT, a second signal, or no time to drain end it at once."""

    def __init__(self, settings: uvicorn.Config, traffic: Traffic, state: State, drain_s: float) -> None:
        super().__init__(settings)
        self._traffic = traffic
        self._state = state
        self._drain_s = drain_s
        self._draining_since = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING_TO_BE_ACCEPTED)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._drain_s and not self._draining_since:
            self._draining_since = time.monotonic()
            self._traffic.draining = True
            self._state.draining = True
            return
        dispatch.end_by_deadline(Interrupted.exit_code)
        if not self.should_exit:  # otherwise it is already ending, and uvicorn would interrupt that with a traceback
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if await super().on_tick(counter):
            return True
        noticed = time.monotonic() - self._draining_since >= min(NOTICE_S, self._drain_s)
        if self._draining_since and noticed and self._is_done():
            self.should_exit = True
        return self.should_exit

    def _is_done(self) -> bool:
        """Whether all that was begun has ended, or its time has."""
        quiet = not self._traffic.running and not self._state.runs.busy
        return quiet or time.monotonic() - self._draining_since >= self._drain_s

    def _expects_requests(self) -> bool:
        """Whether a connection was opened whose first request has not arrived: its client may be slow."""
        connections = cast(set[Any], self.server_state.connections)
        return any(connection.cycle is None and not connection.transport.is_closing() for connection in connections)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn closes every connection without a request in progress, even one that was just opened."""
        self._traffic.ending = True
        if self._draining_since:
            protocol: Any = self.config.http_protocol_class
            make = partial(protocol, self.config, self.server_state, self.lifespan.state)
            waiting = [connection for listener in sockets or () for connection in _accept_waiting(listener)]
            for server in self.servers:
                server.close()
            for connection in waiting:
                await asyncio.get_running_loop().connect_accepted_socket(make, connection)
            await asyncio.sleep(LAST_S)
            waited_s = LAST_S
            while not self._is_done() or (self._expects_requests() and waited_s < NOTICE_S):
                await asyncio.sleep(_LOOK_S)  # what was begun at the last moment
                waited_s += _LOOK_S
            dispatch.end_by_deadline(0)
        await super().shutdown(sockets)


def _accept_waiting(listener: socket.socket) -> Iterator[socket.socket]:
    """The connections that the system has made and the loop has not accepted: they would be cut off with the socket."""
    with contextlib.suppress(OSError):  # there is none left
        while True:
            yield listener.accept()[0]


def report_quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Running out of file descriptors is one log line: asyncio would write a traceback per waiting connection."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        log.warning("no connection can be accepted: %s", error.strerror)
    else:
        loop.default_exception_handler(context)


async def watch_loop(state: State) -> None:
    """Measure the delay of the event loop: work runs in threads, but one of them may hold the interpreter."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            faulthandler.dump_traceback_later(STUCK_SECONDS, file=2)
            before = loop.time()
            await asyncio.sleep(_LOOK_S)
            state.late_s = loop.time() - before - _LOOK_S
            if state.late_s > SLOW_SECONDS:
                log.warning("the server did not answer anybody for %.1f s", state.late_s)
    finally:
        faulthandler.cancel_dump_traceback_later()


# --- the application -----------------------------------------------------------------------------------------------


def make_app(state: State, access: auth.Access) -> auth.App:
    config = state.engine.config
    editor_template(config.web.editor)  # refuse a wrong one at the start, not on every page
    agents = dispatch.Dispatcher(state.dispatcher.lease, state.projects, observe=state.dispatcher.observe)
    mcp = HttpEndpoint(Service(agents, choose_tools(()), config.mcp.reply_tokens).methods, MCP_PATH)

    async def document(request: Request) -> Response:
        return Response(http_api.openapi_text(), media_type="application/json")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        logging.getLogger("codeinfo").addHandler(state.logs)
        logging.getLogger("codeinfo").setLevel(logging.INFO)
        if gate is None:  # a team's server has no queue of its own
            state.ingest.start()
        asyncio.get_running_loop().set_exception_handler(report_quietly)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(SIDE_THREADS, "side"))
        watching = asyncio.create_task(watch_loop(state))
        try:
            with require_callers() if gate is not None else contextlib.nullcontext():
                yield
        finally:
            watching.cancel()
            logging.getLogger("codeinfo").removeHandler(state.logs)
            await asyncio.to_thread(_close, state)

    gate = make_authenticator(state.engine, origin_of(access))
    routes = [
        *(row.route() for row in http_api.API_ROUTES),
        *page_routes(),
        *((*SignIn(gate, access).routes(), *admin_routes(), *receiving_routes()) if gate is not None else ()),
        http_api.TeamRoute("/openapi.json", document, scope=READ),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "web" / "static")),
        Route(MCP_PATH, endpoint=mcp),  # a mount alone would redirect there
        Mount(MCP_PATH, app=mcp),
    ]
    handlers: dict[Any, Any] = {**http_api.EXCEPTION_HANDLERS, 404: unknown_page, 405: unknown_page}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.state.codeinfo = state
    return guard_app(app, replace(access, reads=access.reads | http_api.read_paths()), gate, app.routes)


def make_state(
    config: Config, allowed: tuple[Path, ...] = (), observe: dispatch.Observe = dispatch.observe_nothing
) -> State:
    """What all routes share. Projects may be added below the `allowed` folders; each operation enters `observe`."""
    engine = server_engine(config)
    here = Path.cwd() if config.store.url else Path(engine.indexes.locate(""))
    lease = dispatch.EngineLease(lambda: engine)
    return State(
        engine=engine,
        dispatcher=dispatch.Dispatcher(
            lease, dispatch.Projects(lease, here), seconds=WORK_SECONDS, log_place=http_api.LOG_PLACE, observe=observe
        ),
        ingest=IndexQueue(engine),
        runs=Runs(engine),
        logs=LogLines(),
        allowed=tuple(folder.resolve() for folder in allowed) or (here,),
    )


def _close(state: State) -> None:
    state.runs.close()
    state.ingest.close()
    state.engine.close()


# --- the program ---------------------------------------------------------------------------------------------------


class ServeOptions(Struct, frozen=True):
    """The options of `codeinfo serve`. With a token file every request needs its token, and other addresses can be
    served. With several `workers`, each is this program again and inherits the socket `listener`; -1 means none."""

    host: str
    port: int
    allow: tuple[str, ...] = ()
    token_file: str = ""
    open_page: bool = False
    workers: int = 1
    listener: int = -1

    @property
    def is_child(self) -> bool:
        return self.listener >= 0


def serve(config: Config, options: ServeOptions) -> int:
    """Serve until interrupted; returns the exit code."""
    host, token_file, is_child = options.host, options.token_file, options.is_child
    workers = 1 if is_child else options.workers
    public, public_hosts = auth.public_origin(config.web.public_url)
    of_team = bool(config.store.url)  # every request then needs its user's token
    _refuse_unsafe(host, token_file, workers, of_team=of_team, public=public)
    allowed = tuple(map(_existing_folder, options.allow))
    dispatch.check_threads()
    make_token = secrets.token_urlsafe if of_team else partial(auth.own_token, config.paths.data_dir)
    token = auth.read_token_file(Path(token_file)) if token_file else make_token()
    opened = socket.socket(fileno=options.listener) if is_child else _listener(host, options.port)
    port = opened.getsockname()[1]
    address = f"http://{host if ':' not in host else f'[{host}]'}:{port}"
    link = f"{public or address}/?{auth.CODE_PARAMETER}="
    hosts = auth.hosts_for(LOOPBACK[0] if host in EVERY_ADDRESS else host, port) | public_hosts
    access = auth.Access(hosts, token, private=bool(token_file), public=public)
    announce = partial(print, f"  pages in another browser, once: {link}", sep="", flush=True)
    sessions = auth.Sessions(token, announce, secure=access.secure)
    if not is_child:
        _announce(config, address, token_file)
    if config.serve.log == "json":
        processes.log_as_json()
    if workers > 1:
        return processes.serve_with_workers(config, workers, opened)
    server = _server(config, replace(access, sessions=sessions), allowed, is_child=is_child)
    if of_team:
        print(f"  pages, with a token of the team: {public or address}/auth/sign-in", flush=True)
    else:
        print(f"  pages, in your browser, once: {link}{sessions.code}", flush=True)
        if options.open_page:
            import webbrowser

            webbrowser.open(auth.write_link_file(config.paths.data_dir, f"{link}{sessions.code}").as_uri())
    try:
        server.run(sockets=[opened])
    except KeyboardInterrupt:  # the usual way to stop it: no error
        return Interrupted.exit_code
    return 0


def _announce(config: Config, address: str, token_file: str) -> None:
    print(f"CodeInfo is served at {address}/\n  API {address}/docs   MCP {address}/mcp/", flush=True)
    if not config.store.url:
        holder = os.path.abspath(token_file) if token_file else config.paths.data_dir / auth.TOKEN_FILE
        print(f"  programs send the token in {holder}, as Authorization: Bearer", flush=True)


def _existing_folder(name: str) -> Path:
    if not (folder := expand_user(name)).is_dir():
        raise UsageError(f"{name} is not a folder", "Give an existing one with --allow")
    return folder


def _server(config: Config, access: auth.Access, allowed: tuple[Path, ...], *, is_child: bool) -> Server:
    """The application with its probes and metrics; in a child, the parent process serves the metrics."""
    metrics = processes.Metrics() if config.serve.metrics_address or is_child else None
    observe = processes.with_spans(metrics.observe if metrics is not None else dispatch.observe_nothing)
    state = make_state(config, allowed, observe)
    team, logs_json = state.engine.indexes.team, config.serve.log == "json"
    if team is not None and metrics is not None:
        team.on_pull = metrics.count_pull
    problem = team.problem if team is not None else lambda: ""
    traffic = Traffic(make_app(state, access), problem, health=team is not None, log_requests=logs_json)

    def readings() -> list[processes.Reading]:
        return [*(team.figures() if team is not None else ()), processes.memory_reading((os.getpid(),))]

    if metrics is not None and not is_child:
        processes.serve_operators(config.serve.metrics_address, metrics, readings, traffic.problem)
    settings = uvicorn.Config(
        traffic,
        log_level="warning",
        log_config=None if logs_json else uvicorn.config.LOGGING_CONFIG,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        http=bounded_protocol(count_connections()),
        backlog=ACCEPTED_AT_ONCE,
        ws="none",
    )
    return Server(settings, traffic, state, config.serve.drain_s)


def _refuse_unsafe(host: str, token_file: str, workers: int, *, of_team: bool, public: str) -> None:
    """Raises UsageError for an address that is open to more than intended, and for processes that share nothing."""
    if workers > 1 and not of_team:
        step = "Set store.url to a PostgreSQL, or leave --workers out"
        raise UsageError("several processes need a store that they share", step)
    if host not in LOOPBACK and not token_file and not of_team:
        step = "Put a token into a file and pass it with --token-file: every request must then send it"
        raise UsageError(f"{host} can be reached from other machines", step)
    if host in EVERY_ADDRESS and not (of_team and public):
        step = "Give the one that others use, as in --host 192.168.1.5: only requests to it are answered"
        raise UsageError(f"{host} means every address of this machine", step)
    if of_team and token_file:
        raise UsageError("a team's server has no token of its own", "Leave --token-file out, or store.url")


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm, 40 ms per answer, only for sockets created as TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(WAITING_TO_BE_ACCEPTED)
    except OSError as error:
        listener.close()
        raise UsageError(f"{host}:{port} cannot be used: {error.strerror}", "Choose another with --port") from error
    return listener
