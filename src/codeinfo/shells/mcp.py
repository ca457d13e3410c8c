"""The MCP server: tools of the chosen sets, the context resource and prompts, over stdio or as an ASGI app."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from codeinfo.config import Config
from codeinfo.errors import CodeInfoError
from codeinfo.files import open_private, try_lock
from codeinfo.model import CONTROLS, phrase
from codeinfo.operations import OPERATIONS, Operation
from codeinfo.operations.base import FILE, PROJECT, field_naming
from codeinfo.operations.code import MapRequest
from codeinfo.operations.knowledge import MemoryListRequest, PatternsRequest
from codeinfo.serve import dispatch
from codeinfo.serve.dispatch import Call, EngineLease, Values
from codeinfo.serve.team import TEAM_OPERATIONS, refusal_of, request_user
from codeinfo.shells.mcp_protocol import INTERNAL_ERROR, INVALID_PARAMS, Exchange, LineSession, ProtocolError, Result
from codeinfo.shells.mcp_relay import Sink, Source, receive_client
from codeinfo.shells.mcp_replies import Reply, as_json, fit_reply, memory_line, write_counted
from codeinfo.shells.mcp_tools import Tool, call_of, choose_tools, describe_tool

if TYPE_CHECKING:
    from codeinfo.engine import Engine

IDLE_LOOK_S = 5.0
LINGER_S = 3.0  # how long a shared server waits for another client
RETRY_S = 0.1
MCP_PATH = "/mcp"
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *CONTROLS), "\ufffd")  # of names and texts in a repository

log = logging.getLogger(__name__)


# --- the server ----------------------------------------------------------------------------------------------------


class Performed(Struct, frozen=True):
    content: Reply
    text: str
    reflects: dispatch.Reflected


class ToolCall(Struct):
    name: str
    arguments: dict[str, Any] | None = None


class ResourceRead(Struct):
    uri: str


class PromptGet(Struct):
    name: str
    arguments: dict[str, str] | None = None


class Service:
    def __init__(self, dispatcher: dispatch.Dispatcher, tools: Iterable[Tool], reply_tokens: int) -> None:
        self.lease = dispatcher.lease
        self.methods = {
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read_resource,
            "prompts/list": self.list_prompts,
            "prompts/get": self.get_prompt,
        }
        self._dispatcher = dispatcher
        self._reply_tokens = reply_tokens
        self._tools = {tool.name: tool for tool in tools}
        self._warmed = False

    async def list_tools(self, exchange: Exchange) -> Result:
        if not self._warmed:
            self._warmed = True
            threading.Thread(target=self._warm_up, name="warm up", daemon=True).start()
        return {"tools": [describe_tool(tool) for tool in offered_tools(self._choose_tools(exchange.sets)).values()]}

    def _choose_tools(self, sets: str) -> Mapping[str, Tool]:
        """The tools of the sets an HTTP client names in the address, `/mcp/SETS` or `?tools=SETS`; otherwise those
        the server was started with."""
        if not sets:
            return self._tools
        try:
            tools = choose_tools(sets.split(","))
        except CodeInfoError as error:
            raise protocol_error(INVALID_PARAMS, error) from error
        return {tool.name: tool for tool in tools if is_offered_to_all(OPERATIONS[tool.operation])}

    def _warm_up(self) -> None:
        """Import what the first call needs, while the client is still reading the list of tools."""
        try:
            import codeinfo.engine.search  # noqa: F401

            with self.lease.use() as engine:
                engine.embedder()
        except Exception as error:
            log.info("not warmed up: %s", error)  # the first call will say so with its own error

    async def call_tool(self, exchange: Exchange) -> Result:
        request, tools = exchange.message.read(ToolCall), self._choose_tools(exchange.sets)
        offered = offered_tools(tools)
        if (tool := offered.get(request.name)) is None:
            if hidden := tools.get(request.name):
                raise protocol_error(INVALID_PARAMS, refusal_of(hidden.operation))
            names = ", ".join(offered)
            raise ProtocolError(INVALID_PARAMS, f"unknown tool {request.name}; this server offers: {names}")
        started = time.perf_counter()
        try:
            work = partial(self.perform, tool, request.arguments or {}, offered=offered.values())
            reply = await self._dispatcher.run(work, report=exchange.report, computes=tool.computes)
        except CodeInfoError as error:
            log.debug("%s failed: %s", tool.name, error)
            return report_failure(tool, error, offered.values())
        log.debug("%s: %d characters in %.1f ms", tool.name, len(reply.text), 1000 * (time.perf_counter() - started))
        result: Result = {"content": [{"type": "text", "text": reply.text}], "isError": False}
        if not tool.text_only:
            result["structuredContent"] = reply.content
        if reply.reflects and tool.codes:
            result["_meta"] = {"codeinfo/reflects": reply.reflects}
        return result

    def perform(self, tool: Tool, arguments: Values, call: Call, offered: Collection[Tool] = ()) -> Performed:
        """The reply within its budget, as JSON and as text, and the state of the project it is based on. Its advice
        names tools that are `offered`."""
        values, operation = dispatch.check(tool.arguments(), arguments), OPERATIONS[tool.operation]
        cursor = values.pop("cursor", "")
        unplaced = tool.make_request(values, values.pop(tool.project.name, "") if tool.project else "")
        with self._dispatcher.begin(operation, unplaced, "mcp", tool.name) as (engine, request):
            result = tool.run(engine, request, call)
            reply = as_json(tool.make_reply(result, values), lambda step: call_of(step, offered))
            project = dispatch.named_project(request) if tool.project and operation.shows_project else None
            root = None if project is None else str(engine.indexes.find(project).index.root)
            files = tuple(tool.files(result, root or ""))
            reflects = dispatch.describe_sources(engine, operation, request, result, root, files)
            if reflects and not tool.codes:  # replies with a contract have only its fields
                reply["reflects"] = reflects
            reply = fit_reply(reply, self._reply_tokens, cursor)
            text = write_counted(reply)
            engine.savings.record(tool.name, len(text), files)
        return Performed(reply, text, reflects)

    async def list_resources(self, exchange: Exchange) -> Result:
        about = "The working folder's project on one page: entry points, hubs, key types, patterns, memories."
        resource = {"uri": CONTEXT_URI, "name": "context", "title": "Codebase context", "description": about}
        return {"resources": [{**resource, "mimeType": "text/markdown"}] if request_user() is None else []}

    async def list_templates(self, exchange: Exchange) -> Result:
        return {"resourceTemplates": []}

    async def read_resource(self, exchange: Exchange) -> Result:
        uri = exchange.message.read(ResourceRead).uri
        if uri != CONTEXT_URI:
            raise ProtocolError(INVALID_PARAMS, f"no resource {uri}; this server offers {CONTEXT_URI}")
        try:
            text = await self._dispatcher.run(self._context, report=exchange.report)
        except CodeInfoError as error:
            raise protocol_error(INTERNAL_ERROR, error) from error
        return {"contents": [{"uri": CONTEXT_URI, "mimeType": "text/markdown", "text": text}]}

    def _context(self, call: Call) -> str:
        with self.lease.use() as engine:
            return codebase_context(engine, call, self._dispatcher.projects)

    async def list_prompts(self, exchange: Exchange) -> Result:
        return {"prompts": [row.describe() for row in PROMPTS]}

    async def get_prompt(self, exchange: Exchange) -> Result:
        request = exchange.message.read(PromptGet)
        row = next((row for row in PROMPTS if row.name == request.name), None)
        given = (request.arguments or {}).get(row.argument) if row else None
        if row is None or not given:
            prompts = ", ".join(f"{row.name}({row.argument})" for row in PROMPTS)
            raise ProtocolError(INVALID_PARAMS, f"no such prompt, or its argument is missing; prompts: {prompts}")
        content = {"type": "text", "text": row.text.replace("{" + row.argument + "}", given)}
        return {"description": row.description, "messages": [{"role": "user", "content": content}]}


def offered_tools(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """All of them on a person's own machine, on a team's server those that it lets users call."""
    if request_user() is None:
        return tools
    return {name: tool for name, tool in tools.items() if tool.operation in TEAM_OPERATIONS}


def is_offered_to_all(operation: Operation) -> bool:
    """Whether clients over the network have its tool: not if it looks at files that they name without a project."""
    request = operation.request
    return operation.is_served and not (field_naming(FILE, request) and not field_naming(PROJECT, request))


def protocol_error(code: int, error: CodeInfoError) -> ProtocolError:
    return ProtocolError(code, str(error), {"code": error.code})


def report_failure(tool: Tool, error: CodeInfoError, offered: Collection[Tool]) -> Result:
    """The contract's code as a protocol error if clients rely on it, otherwise a result that says what to do next."""
    step = phrase(error.next_step, lambda step: call_of(step, offered))
    about, text = {"code": error.code, "next": step}, f"{error.what}. {step}" if step else error.what
    text = text.translate(_CONTROLS)
    if code := tool.codes.get(error.code, tool.codes.get("")):
        raise ProtocolError(code, text, about)
    content = {"type": "text", "text": f"{error.code}: {text}"}
    return {"content": [content], "isError": True, "_meta": {"codeinfo/error": about}}


async def release_when_idle(lease: EngineLease) -> None:
    while True:
        await asyncio.sleep(IDLE_LOOK_S)
        await asyncio.to_thread(lease.release_if_idle)


# --- transports ----------------------------------------------------------------------------------------------------


def lease_engine(config: Config) -> EngineLease:
    def make() -> Engine:
        from codeinfo.serve.refresh import server_engine  # after the handshake

        return server_engine(config)

    return EngineLease(make, config.mcp.idle_s)


def make_service(config: Config, tools: Iterable[Tool], lease: EngineLease | None = None, folder: str = "") -> Service:
    """For a client that may name any folder, with its own engine unless `lease` shares one. `folder` is the client's
    working folder, if it differs from ours."""
    lease = lease or lease_engine(config)
    return Service(dispatch.Dispatcher(lease, dispatch.Projects(lease, folder=folder)), tools, config.mcp.reply_tokens)


def standard_session(service: Service) -> LineSession:
    """A session over standard input and output; anything else this process or its children print goes to stderr."""
    source, sink = Source(os.dup(0)), Sink(os.dup(1))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return LineSession(service.methods, BufferedReader(source), sink)


def serve_stdio(config: Config, tools: Iterable[str]) -> None:
    """Serve the client at the other end of standard input and output until it goes away; never returns."""
    service = make_service(config, choose_tools(tools))

    async def main() -> None:
        releasing = asyncio.create_task(release_when_idle(service.lease))
        await standard_session(service).run()
        releasing.cancel()

    signal.signal(signal.SIGTERM, end_on_signal)
    code = 0
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass  # how some clients end a session
    except Exception as error:
        from codeinfo.shells.terminal import report_error

        code = report_error(first_cause(error))
    finally:
        service.lease.close()
        os._exit(code)  # a worker thread may still be busy, and its answer has no reader


def first_cause(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def end_on_signal(number: int, frame: object) -> NoReturn:
    dispatch.end_by_deadline(0)
    raise KeyboardInterrupt


# --- one server for all agents of a user -----------------------------------------------------------------------------


class SharedServer:
    """Serves all clients of this user that connect to a socket, until none has been there for a while."""

    def __init__(self, listener: socket.socket, flags: Mapping[str, str]) -> None:
        self._listener = listener
        self._flags = flags
        self._config = Config.load(flags, cwd=Path("/"))
        self.lease = lease_engine(self._config)
        self._clients = 0
        self._last_seen = time.monotonic()

    async def run(self) -> None:
        self._listener.setblocking(False)
        clients = ThreadPoolExecutor(dispatch.MOST_WAITING)  # each waits for its own
        asyncio.get_running_loop().set_default_executor(clients)
        async with asyncio.TaskGroup() as tasks:
            serving = [tasks.create_task(self._accept(tasks)), tasks.create_task(release_when_idle(self.lease))]
            while self._clients or time.monotonic() - self._last_seen < LINGER_S:
                await asyncio.sleep(LINGER_S / 4)
                if self._is_large():
                    await asyncio.to_thread(self.lease.release_if_idle, 0.0)
            for task in serving:
                task.cancel()

    def _is_large(self) -> bool:
        from codeinfo.index.pool import resident_bytes  # after the first client was answered

        return resident_bytes(os.getpid()) > self._config.mcp.memory_mb << 20

    async def _accept(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            try:
                client, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            except OSError:  # it has gone already, or there are too many
                await asyncio.sleep(RETRY_S)
            else:
                self._clients += 1
                tasks.create_task(self._serve(client))

    async def _serve(self, relay: socket.socket) -> None:
        with relay:
            try:
                relay.setblocking(True)
                session = await asyncio.to_thread(self._welcome, relay)
                if session is not None:
                    await session.run()
                    with suppress(OSError):  # the relay was killed
                        relay.sendall(b"\n")
            except Exception as error:  # the other clients are not affected
                log.warning("a client's session ended: %s", first_cause(error))
            finally:
                self._clients -= 1
                self._last_seen = time.monotonic()
                with suppress(OSError):
                    relay.shutdown(socket.SHUT_RDWR)  # the reading thread waits for it

    def _welcome(self, relay: socket.socket) -> LineSession | None:
        """A session with the tools the client asks for; None if it was refused or has gone."""
        if (received := receive_client(relay)) is None:
            return None
        hello, journal, source, sink = received
        try:
            config = Config.load(self._flags, cwd=Path(hello["folder"]))
            service = make_service(config, choose_tools(hello["tools"].split(",")), self.lease, hello["folder"])
            relay.sendall(b"{}\n")
        except (CodeInfoError, OSError) as error:
            source.close()
            sink.close()
            if isinstance(error, OSError):
                raise
            answer = {"error": error.what, "next": error.next_step, "code": error.code, "exit": error.exit_code}
            relay.sendall(json.dumps(answer).encode() + b"\n")
            return None
        return LineSession(service.methods, BufferedReader(source), sink, introduced=journal.introduced)


def serve_shared() -> None:
    """The process of a shared server, whose socket standard input names. It ends if another one is serving."""
    given = json.loads(sys.stdin.buffer.read())
    place, flags = Path(given["place"]), given["flags"]
    lock = open_private(f"{place}.lock", os.O_RDWR)
    if not try_lock(lock, place):
        os._exit(0)
    with suppress(OSError):  # for debugging, which a full disk must not prevent
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
    place.unlink(missing_ok=True)  # of a server that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(dispatch.MOST_WAITING)
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")  # warnings, to stderr
        server = SharedServer(listener, flags)
        signal.signal(signal.SIGTERM, end_on_signal)
        with suppress(KeyboardInterrupt):
            asyncio.run(server.run())
        place.unlink(missing_ok=True)
        server.lease.close()
    os._exit(0)  # a worker thread may still be busy


# --- the context resource ------------------------------------------------------------------------------------------

CONTEXT_URI = "codebase://context"
LISTED = 10  # entries of each part


def codebase_context(engine: Engine, call: Call, projects: dispatch.Projects) -> str:
    """The working folder's project on one page, as Markdown."""
    from codeinfo.knowledge.patterns import advice_line  # imported late: few clients read it

    code_map = engine.code.map(projects.place(MapRequest()), call.progress)
    languages = ", ".join(f"{name} {count}" for name, count in list(code_map.languages.items())[:LISTED])
    name = code_map.root.rpartition("/")[2]
    parts = [
        f"# {name}\n\n{code_map.files} files ({languages}), {code_map.cycles} import cycles.",
        *_section("Entry points", [file.path for file in code_map.entry_points]),
        *_section("Files that most others need", [f"{f.path} ({f.imported_by} files)" for f in code_map.hubs]),
        *_section("Key types", [f"{s.qualified} ({s.path}:{s.start_line})" for s in code_map.interfaces]),
        *_section("Large files that change often", [f"{h.path} ({h.commits} commits)" for h in code_map.hotspots]),
    ]
    try:
        report = engine.knowledge.patterns(projects.place(PatternsRequest()), call.progress)
        memories = engine.knowledge.memory_list(projects.place(MemoryListRequest(limit=LISTED))).memories
    except CodeInfoError as error:
        return "\n\n".join([*parts, f"What the team knows could not be read: {error}"])
    ways = [f"{p.guidance} {advice_line(p)}" for p in report.patterns if p.guidance]
    parts += _section("How this team writes code", ways)
    parts += _section("What the team wrote down", map(memory_line, memories))
    return "\n\n".join(parts)


def _section(title: str, lines: Iterable[str]) -> list[str]:
    listed = [f"- {' '.join(line.split())}".translate(_CONTROLS) for line in lines][:LISTED]
    return [f"## {title}\n\n" + "\n".join(listed)] if listed else []


# --- prompts -------------------------------------------------------------------------------------------------------


class PromptRow(Struct, frozen=True):
    """`text` has a {place} for its argument, which is required."""

    name: str
    description: str
    argument: str
    argument_help: str
    text: str

    def describe(self) -> Result:
        argument = {"name": self.argument, "description": self.argument_help, "required": True}
        return {"name": self.name, "title": self.name, "description": self.description, "arguments": [argument]}


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
