"""The MCP server: tools of the chosen sets, the context resource and prompts, over stdio or as an ASGI app.

The SDK's own transport silently drops what it cannot read. This one answers it with an error and keeps reading. Threads
read and write, so that neither a silent nor a slow client blocks the rest.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from msgspec import Struct

from codeinfo import __version__
from codeinfo.config import Config
from codeinfo.errors import CodeInfoError
from codeinfo.files import open_private, try_lock
from codeinfo.index.pool import resident_bytes
from codeinfo.model import dumps_plain, phrase
from codeinfo.serve.dispatch import (
    MOST_WAITING,
    Call,
    Dispatcher,
    EngineLease,
    Observe,
    Projects,
    check,
    end_by_deadline,
    shown_collections,
    shown_state,
    unobserved,
)
from codeinfo.serve.team import TEAM_OPERATIONS, refused_operation, request_user
from codeinfo.shells.mcp_relay import INSTRUCTIONS, LONGEST_LINE, Handshake, Sink, Source, received_client
from codeinfo.shells.mcp_replies import Reply, as_json, counted, fitted, most_chars
from codeinfo.shells.mcp_tools import Tool, call_of, chosen_tools, listed
from codeinfo.shells.terminal import report_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from codeinfo.engine import Engine
    from codeinfo.operations.code import CodeMap
    from codeinfo.serve.dispatch import Call


_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_CLOSE_S = 1.0
IDLE_LOOK_S = 5.0
LINGER_S = 3.0  # that a shared server waits for another client
MCP_PATH = "/mcp"
MOST_CHOICES = 20  # of sets that a server keeps ready
NOT_OVER_NETWORK = frozenset({"docs add", "why"})  # they read files that the caller names, or reveal whether they exist

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


log = logging.getLogger(__name__)


# --- messages of one client ------------------------------------------------------------------------------------------


def standard_wire(handshake: Handshake) -> Wire:
    """Standard input and output, taken over: anything else that this process or its children print goes to stderr."""
    source, sink = Source(os.dup(0), handshake.first), Sink(os.dup(1), handshake.answered)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Wire(BufferedReader(source), sink)


class Wire:
    """Messages from and to one client, a line each."""

    def __init__(self, source: BinaryIO, sink: Sink) -> None:
        self._source = source
        self._sink = sink
        self._lines: queue.SimpleQueue[tuple[bytes, object] | None] = queue.SimpleQueue()
        self._open_ids: set[str] = set()
        self._writer = threading.Thread(target=self._write, name="mcp writer", daemon=True)
        self._writer.start()

    def read(self) -> SessionMessage | None:
        """The next message; None when the client has gone. What is no message is answered here."""
        while line := self._source.readline(LONGEST_LINE):
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                self._skip_line()
                self._refuse(_INVALID_REQUEST, f"a message has at most {LONGEST_LINE} bytes")
            elif line.strip() and (message := self._parsed(line)) is not None:
                return SessionMessage(message)
        return None

    def send(self, message: types.JSONRPCMessage) -> None:
        answered = message.id if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) else None
        self._open_ids.discard(repr(answered))
        self._lines.put((message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n", answered))

    def close_source(self) -> None:
        """By the thread that reads."""
        self._source.close()

    def close(self) -> None:
        """What was sent is written; a client that does not read is not waited for."""
        self._lines.put(None)
        self._writer.join(_CLOSE_S)

    def _parsed(self, line: bytes) -> types.JSONRPCMessage | None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._refuse_unreadable(line)
            return None
        if isinstance(message, types.JSONRPCRequest):
            if repr(message.id) in self._open_ids:
                # Without its id: the reply to the first request of that id is still to come.
                self._refuse(_INVALID_REQUEST, f"a request with id {message.id!r} is still being answered")
                return None
            self._open_ids.add(repr(message.id))
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open_ids.discard(repr((message.params or {}).get("requestId")))  # it will not be answered
        return message

    def _refuse_unreadable(self, line: bytes) -> None:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(_PARSE_ERROR, "not JSON: one message a line is expected")
            return
        given = content.get("id") if isinstance(content, dict) else None
        identity = given if isinstance(given, str | int) and not isinstance(given, bool) else None
        self._refuse(_INVALID_REQUEST, "not a JSON-RPC 2.0 message", identity)

    def _refuse(self, code: int, words: str, identity: str | int | None = None) -> None:
        error = {"code": code, "message": words}
        self._lines.put((json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n", identity))

    def _skip_line(self) -> None:
        while (rest := self._source.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass

    def _write(self) -> None:
        while (entry := self._lines.get()) is not None:
            with suppress(OSError):  # the client has gone: the reader's end of file ends the server
                self._sink.write_line(*entry)
        self._sink.close()


@asynccontextmanager
async def streams_of(wire: Wire) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Streams for the SDK's server; the first ends when the client closes its side."""
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](64)
    token = anyio.lowlevel.current_token()

    def deliver() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError):  # the server ends first
            while (message := wire.read()) is not None:
                anyio.from_thread.run(received.send, message, token=token)
            anyio.from_thread.run(received.aclose, token=token)
        wire.close_source()

    async def collect() -> None:
        async with to_send:
            async for message in to_send:
                wire.send(message.message)

    threading.Thread(target=deliver, name="mcp reader", daemon=True).start()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            yield incoming, outgoing
            await outgoing.aclose()
    finally:
        wire.close()


# --- the server ----------------------------------------------------------------------------------------------------


class Performed(Struct, frozen=True):
    content: Reply
    text: str
    reflects: Reply | list[Reply] | None


class Service:
    """What the SDK's server asks for."""

    def __init__(self, dispatcher: Dispatcher, tools: Iterable[Tool], reply_tokens: int) -> None:
        self.lease = dispatcher.lease
        self._dispatcher = dispatcher
        self._reply_tokens = reply_tokens
        self._tools = {tool.name: tool for tool in tools}
        self._chosen: dict[str, dict[str, Tool]] = {}  # by the sets that an address names
        self._warmed = False

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        if not self._warmed:
            self._warmed = True
            threading.Thread(target=self._warm_up, name="warm up", daemon=True).start()
        return types.ListToolsResult(tools=[describe(tool) for tool in self._offered(context).values()])

    def _offered(self, context: Any) -> dict[str, Tool]:
        """The tools of the sets that an HTTP client names in the address, `/mcp/SETS` or `?tools=SETS`; else those that
        the server was started with."""
        tools = self._chosen_by(context)
        if request_user() is None:
            return tools
        return {name: tool for name, tool in tools.items() if tool.operation in TEAM_OPERATIONS}

    def _chosen_by(self, context: Any) -> dict[str, Tool]:
        request = context.request
        path = request.url.path.partition(MCP_PATH)[2].strip("/") if request is not None else ""
        wanted = path or (request.query_params.get("tools", "") if request is not None else "")
        if not wanted:
            return self._tools
        if wanted not in self._chosen:
            try:
                found = chosen_tools(wanted.split(","))
            except CodeInfoError as error:
                raise MCPError(types.INVALID_PARAMS, str(error), {"code": error.code}) from error
            allowed = [tool for tool in found if tool.operation not in NOT_OVER_NETWORK]
            self._chosen = {**dict(list(self._chosen.items())[-MOST_CHOICES:]), wanted: {t.name: t for t in allowed}}
        return self._chosen[wanted]

    def _warm_up(self) -> None:
        """Import what the first call needs, while the client is still reading the list of tools."""
        try:
            import codeinfo.engine.search  # noqa: F401

            with self.lease.use() as engine:
                engine.embedder()
        except Exception as error:
            log.info("not warmed up: %s", error)  # the first call will say so with its own error

    async def call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        offered = self._offered(context)
        tool = offered.get(params.name)
        if tool is None:
            if hidden := self._chosen_by(context).get(params.name):
                error = refused_operation(hidden.operation)
                raise MCPError(types.INVALID_PARAMS, str(error), {"code": error.code})
            known = ", ".join(offered)
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name}; this server offers: {known}")
        started = time.perf_counter()
        try:
            work = partial(self.perform, tool, params.arguments or {}, offered=offered.values())
            reply = await self._run(context, work, computes=tool.computes)
        except CodeInfoError as error:
            log.debug("%s failed: %s", tool.name, error)
            return failed(tool, error, offered.values())
        log.debug("%s: %d characters in %.1f ms", tool.name, len(reply.text), 1000 * (time.perf_counter() - started))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=reply.text)],
            structured_content=None if tool.text_only else reply.content,
            _meta={"codeinfo/reflects": reply.reflects} if reply.reflects and tool.codes else None,
        )

    def perform(self, tool: Tool, arguments: Mapping[str, Any], call: Call, offered: Iterable[Tool] = ()) -> Performed:
        """The reply within its budget, as JSON and as text, and the state of the project that it shows. What it advises
        names tools that are `offered`."""
        values = check(tool.arguments(), arguments)
        cursor = values.pop("cursor", "")
        with self._dispatcher.performing(tool.operation, values, "mcp", tool.name) as engine:
            project = self._dispatcher.projects.root_of(values.pop(tool.project.name, "")) if tool.project else ""
            request = self._dispatcher.projects.anchored(tool.make_request(values, project))
            result = tool.run(engine, request, call)
            reply = as_json(tool.shape(result, values), lambda step: call_of(step, offered))
            project = project or self._dispatcher.projects.folder
            root = str(engine.indexes.find(project).index.root) if tool.shows_project else project
            files = tuple(tool.files(result, root))
            reflects: Reply | list[Reply] | None = None
            if tool.shows_project:
                reflects = shown_state(engine.reflects(root, files))
            elif tool.shows_documents:
                reflects = shown_collections(engine, request, result)
            if reflects and not tool.codes:  # replies with a contract have its fields only
                reply["reflects"] = reflects
            if cursor or len(dumps_plain(reply)) > most_chars(self._reply_tokens):
                reply = fitted(reply, self._reply_tokens, cursor)
            text = counted(reply)
            engine.savings.record(tool.name, len(text), files)
        return Performed(reply, text, reflects)

    async def _run(self, context: Any, work: Callable[[Call], Any], *, computes: bool = False) -> Any:
        wants_progress = context.meta and context.meta.get("progress_token") is not None
        report = context.session.report_progress if wants_progress else None
        return await self._dispatcher.run(work, report=report, computes=computes)

    async def list_resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        about = "The working folder's project on one page: entry points, hubs, key types, patterns, memories."
        resource = types.Resource(
            uri=CONTEXT_URI, name="context", title="Codebase context", description=about, mime_type="text/markdown"
        )
        return types.ListResourcesResult(resources=[resource] if request_user() is None else [])

    async def list_templates(self, context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(self, context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != CONTEXT_URI:
            raise MCPError(types.INVALID_PARAMS, f"no resource {params.uri}; this server offers {CONTEXT_URI}")
        try:
            text = await self._run(context, self._context)
        except CodeInfoError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error), {"code": error.code}) from error
        content = types.TextResourceContents(uri=CONTEXT_URI, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[content])

    def _context(self, call: Call) -> str:
        with self.lease.use() as engine:
            return codebase_context(engine, call)

    async def list_prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(row) for row in PROMPTS])

    async def get_prompt(self, context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        row = next((row for row in PROMPTS if row.name == params.name), None)
        given = (params.arguments or {}).get(row.argument) if row else None
        if row is None or not given:
            known = ", ".join(f"{row.name}({row.argument})" for row in PROMPTS)
            raise MCPError(types.INVALID_PARAMS, f"no such prompt, or its argument is missing; prompts: {known}")
        content = types.TextContent(type="text", text=row.text.replace("{" + row.argument + "}", given))
        return types.GetPromptResult(
            description=row.description, messages=[types.PromptMessage(role="user", content=content)]
        )


def failed(tool: Tool, error: CodeInfoError, offered: Iterable[Tool]) -> types.CallToolResult:
    """The contract's code as a protocol error where clients rely on it, else a result that says what to do next."""
    step = phrase(error.next_step, lambda step: call_of(step, offered))
    about, text = {"code": error.code, "next": step}, f"{error.what}. {step}" if step else error.what
    if code := tool.codes.get(error.code, tool.codes.get("")):
        raise MCPError(code, text, about)
    content = types.TextContent(type="text", text=f"{error.code}: {text}")
    return types.CallToolResult(content=[content], is_error=True, _meta={"codeinfo/error": about})


def describe(tool: Tool) -> types.Tool:
    return types.Tool.model_validate(listed(tool))


def _prompt(row: PromptRow) -> types.Prompt:
    argument = types.PromptArgument(name=row.argument, description=row.argument_help, required=True)
    return types.Prompt(name=row.name, title=row.name, description=row.description, arguments=[argument])


def make_server(service: Service) -> Server[Any]:
    return Server(
        "codeinfo",
        version=__version__,
        title="CodeInfo",
        instructions=INSTRUCTIONS,
        lifespan=partial(_lifespan, service),
        on_list_tools=service.list_tools,
        on_call_tool=service.call_tool,
        on_list_resources=service.list_resources,
        on_list_resource_templates=service.list_templates,
        on_read_resource=service.read_resource,
        on_list_prompts=service.list_prompts,
        on_get_prompt=service.get_prompt,
    )


@asynccontextmanager
async def _lifespan(service: Service, server: object) -> AsyncIterator[dict[str, Any]]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_release_when_idle, service.lease)
        yield {}
        tasks.cancel_scope.cancel()


async def _release_when_idle(lease: EngineLease) -> None:
    while True:
        await anyio.sleep(IDLE_LOOK_S)
        await anyio.to_thread.run_sync(lease.release_if_idle)


# --- transports ----------------------------------------------------------------------------------------------------


def own_engine(config: Config) -> EngineLease:
    def make() -> Engine:
        from codeinfo.serve.refresh import server_engine  # after the handshake

        return server_engine(config)

    return EngineLease(make, config.mcp.idle_s)


def own_service(config: Config, tools: Iterable[Tool], lease: EngineLease | None = None, folder: str = "") -> Service:
    """For a client that may name any folder, with an engine of its own unless `lease` shares one. `folder` is the one
    that it works in, where that is not ours."""
    lease = lease or own_engine(config)
    return Service(Dispatcher(lease, Projects(lease, folder=folder)), tools, config.mcp.reply_tokens)


def serve_stdio(config: Config, tools: Iterable[str], handshake: Handshake) -> None:
    """Serve the client at the other end of standard input and output until it goes away; never returns."""
    service = own_service(config, chosen_tools(tools))

    async def main() -> None:
        server = make_server(service)
        async with streams_of(standard_wire(handshake)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    signal.signal(signal.SIGTERM, end_on_signal)
    code = 0
    try:
        anyio.run(main)
    except KeyboardInterrupt:
        pass  # how some clients end a session
    except Exception as error:
        code = report_error(first_cause(error))
    finally:
        service.lease.close()
        os._exit(code)  # a worker thread may still be busy, and its answer has no reader


def first_cause(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def end_on_signal(number: int, frame: object) -> NoReturn:
    end_by_deadline(0)
    raise KeyboardInterrupt


class HttpService(Struct, frozen=True):
    """`app` can be a route or a mount. The server that it is put into enters `running()` while it serves, and decides
    which hosts and origins are accepted."""

    app: ASGIApp
    running: Callable[[], AbstractAsyncContextManager[None]]


def http_service(
    config: Config,
    tools: Iterable[Tool],
    lease: EngineLease | None = None,
    projects: Projects | None = None,
    observe: Observe = unobserved,
) -> HttpService:
    """Streamable HTTP without sessions. `lease` shares the caller's engine; `projects` decides which folders may be
    named."""
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

    if lease is not None and projects is not None:
        service = Service(Dispatcher(lease, projects, observe=observe), tools, config.mcp.reply_tokens)
    else:
        service = own_service(config, tools)
    manager = StreamableHTTPSessionManager(make_server(service), stateless=True)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        try:
            async with manager.run():
                yield
        finally:
            service.lease.close()

    return HttpService(StreamableHTTPASGIApp(manager), running)


# --- one server for all agents of a user -----------------------------------------------------------------------------


class SharedServer:
    """Serves all clients of this user that connect to a socket, until none has been there for a while."""

    def __init__(self, listener: socket.socket, flags: Mapping[str, str]) -> None:
        self._listener = listener
        self._flags = flags
        self._config = Config.load(flags, cwd=Path("/"))
        self._lease = own_engine(self._config)
        self._clients = 0
        self._last_seen = time.monotonic()

    async def run(self) -> None:
        self._listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_when_alone, tasks.cancel_scope)
            while True:
                await anyio.wait_readable(self._listener)
                with suppress(OSError):  # the client is gone already
                    client, _ = self._listener.accept()
                    self._clients += 1
                    tasks.start_soon(self._serve, client)

    async def _end_when_alone(self, scope: anyio.CancelScope) -> None:
        while self._clients or time.monotonic() - self._last_seen < LINGER_S:
            await anyio.sleep(LINGER_S / 4)
            if resident_bytes(os.getpid()) > self._config.mcp.memory_mb << 20:
                await anyio.to_thread.run_sync(partial(self._lease.release_if_idle, 0.0))
        scope.cancel()

    async def _serve(self, relay: socket.socket) -> None:
        with relay:
            try:
                relay.setblocking(True)
                session = await anyio.to_thread.run_sync(self._welcomed, relay)
                if session is not None:
                    service, wire = session
                    server = make_server(service)
                    async with streams_of(wire) as (incoming, outgoing):
                        await server.run(incoming, outgoing, server.create_initialization_options())
                    with suppress(OSError):  # the relay was killed
                        relay.sendall(b"\n")
            except Exception as error:  # of one client: the others are not affected
                log.warning("a client's session ended: %s", first_cause(error))
            finally:
                self._clients -= 1
                self._last_seen = time.monotonic()
                with suppress(OSError):
                    relay.shutdown(socket.SHUT_RDWR)  # the thread that reads waits for it

    def _welcomed(self, relay: socket.socket) -> tuple[Service, Wire] | None:
        """A service with the tools that the client asks for; None where it was refused or has gone."""
        received = received_client(relay)
        if received is None:
            return None
        wanted, source, sink = received
        try:
            config = Config.load(self._flags, cwd=Path(wanted["folder"]))
            service = own_service(config, chosen_tools(wanted["tools"].split(",")), self._lease, wanted["folder"])
            relay.sendall(b"{}\n")
        except (CodeInfoError, OSError) as error:
            source.close()
            sink.close()
            if isinstance(error, OSError):
                raise
            answer = {"error": error.what, "next": error.next_step, "code": error.code, "exit": error.exit_code}
            relay.sendall(json.dumps(answer).encode() + b"\n")
            return None
        return service, Wire(BufferedReader(source), sink)

    def close(self) -> None:
        self._lease.close()


def serve_shared() -> None:
    """The process of a shared server; standard input has the place of its socket. It ends where another one serves."""
    given = json.loads(sys.stdin.buffer.read())
    place, flags = Path(given["place"]), given["flags"]
    lock = open_private(f"{place}.lock", os.O_RDWR)
    if not try_lock(lock, place):
        os._exit(0)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)  # for debugging
    place.unlink(missing_ok=True)  # of a server that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(MOST_WAITING)
        logging.basicConfig(
            stream=sys.stderr, level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        server = SharedServer(listener, flags)
        signal.signal(signal.SIGTERM, end_on_signal)
        with suppress(KeyboardInterrupt):
            anyio.run(server.run)
        place.unlink(missing_ok=True)
        server.close()
    os._exit(0)  # a worker thread may still be busy


# --- the context resource ------------------------------------------------------------------------------------------

CONTEXT_URI = "codebase://context"
LISTED = 10  # entries of each part


def codebase_context(engine: Engine, call: Call) -> str:
    """The working folder's project on one page, as Markdown."""
    from codeinfo.knowledge.patterns import advice_line
    from codeinfo.operations.code import MapRequest
    from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest

    found = engine.code.map(MapRequest(), call.progress)
    parts = [_overview(found), *_parts(found)]
    try:
        report = engine.knowledge.patterns(PatternsRequest(), call.progress)
        memories = engine.knowledge.memory_list(MemoryListRequest(limit=LISTED)).memories
    except CodeInfoError as error:
        return "\n\n".join([*parts, f"What the team knows could not be read: {error}"])
    ways = [f"{p.guidance} {advice_line(p)}" for p in report.patterns if p.guidance]
    parts += _section("How this team writes code", ways)
    parts += _section("What the team wrote down", [f"{one.type}: {one.memory} ({one.label})" for one in memories])
    return "\n\n".join(parts)


def _overview(found: CodeMap) -> str:
    languages = ", ".join(f"{name} {count}" for name, count in list(found.languages.items())[:LISTED])
    return f"# {found.root.rpartition('/')[2]}\n\n{found.files} files ({languages}), {found.cycles} import cycles."


def _parts(found: CodeMap) -> list[str]:
    return [
        *_section("Entry points", [file.path for file in found.entry_points]),
        *_section("Files that most others need", [f"{f.path} ({f.imported_by} files)" for f in found.hubs]),
        *_section("Key types", [f"{one.qualified} ({one.path}:{one.start_line})" for one in found.interfaces]),
        *_section("Large files that change often", [f"{h.path} ({h.commits} commits)" for h in found.hotspots]),
    ]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    listed = [f"- {line}" for line in lines][:LISTED]
    return [f"## {title}\n\n" + "\n".join(listed)] if listed else []


# --- prompts -------------------------------------------------------------------------------------------------------


class PromptRow(Struct, frozen=True):
    """`text` has a {place} for its argument, which is required."""

    name: str
    description: str
    argument: str
    argument_help: str
    text: str


PROMPTS = (
    PromptRow(
        "understand",
        "Learn how a part of this codebase works, with places to read.",
        "topic",
        "The feature, module or question.",
        "Explain how {topic} works in this codebase. Call search_codebase with the topic in plain words, then explore "
        "with the names that matter. Read only what the results point to. Answer with the flow step by step, each with "
        "its file and lines.",
    ),
    PromptRow(
        "plan_change",
        "Plan a change with the evidence it needs.",
        "change",
        "What is to be changed.",
        "Plan this change: {change}. Call search_codebase with intent edit and follow `preflight`: while not ready "
        "do what its nextAction and whatWouldHelp say. Look at the callers with explore. Then list the "
        "files to change, what each needs, the tests to run, and the risks. Do not change anything yet.",
    ),
    PromptRow(
        "review_change",
        "Review the current change of this project.",
        "base",
        "The revision to compare with, such as main.",
        "Review the change of this working tree against {base}. Call get_review_packet where it is offered, else use "
        "git diff; search_codebase and explore show what else is affected. Report defects first, with "
        "file and line, then missing tests, then departures from the team's patterns.",
    ),
    PromptRow(
        "find_cause",
        "Find the cause of a failure.",
        "symptom",
        "The error message or what goes wrong.",
        "Find the cause of this: {symptom}. Call search_codebase with the message's own words and with what the code "
        "should have done; follow callers with explore. Name the cause with file and line, say what "
        "proves it, and propose the smallest fix.",
    ),
)
