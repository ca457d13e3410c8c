"""The OpenAI chat format as a server sees it: requests taken apart, replies put into events or one body."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from msgspec import Struct, field
from scripted import (
    Reply,
    Request,
    Script,
    ScriptedReranker,
    next_reply,
    reply_pieces,
)

from codeinfo.errors import ProviderError
from codeinfo.models.retrieval import ScriptedEmbedder
from codeinfo.ports import Message, ToolCall, ToolSpec

CHAT_MODEL = "scripted-chat"


def parse_request(body: Mapping[str, Any]) -> Request:
    """The wire's request in the port's words, so that one script serves this server and the scripted model."""
    messages = [
        Message(
            item["role"],
            item.get("content") or "",
            tuple(
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in item.get("tool_calls", ())
            ),
            item.get("tool_call_id", ""),
        )
        for item in body["messages"]
    ]
    functions = [tool["function"] for tool in body.get("tools", ())]
    tools = [ToolSpec(each["name"], each.get("description", ""), each.get("parameters", {})) for each in functions]
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    most = body.get("max_tokens") or body.get("max_completion_tokens")
    return Request(tuple(messages), tuple(tools), schema, cast("int | None", most))


def shown_pieces(request: Request, reply: Reply) -> tuple[list[str], str]:
    pieces = reply_pieces(reply.text)
    if request.max_tokens is not None and len(pieces) > request.max_tokens:
        return pieces[: request.max_tokens], "length"
    return pieces, reply.finish or ("tool_calls" if reply.tool_calls else "stop")


def usage(request: Request, pieces: list[str]) -> dict[str, int]:
    prompt = sum(len(message.content.split()) for message in request.messages)
    return {"prompt_tokens": prompt, "completion_tokens": len(pieces), "total_tokens": prompt + len(pieces)}


def frame() -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": CHAT_MODEL}


def event(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {**frame(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_events(index: int, call: ToolCall) -> Iterator[dict[str, Any]]:
    """A call as endpoints send it: id and name first, then its arguments in pieces."""
    opening = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield event({"tool_calls": [{"index": index, **opening}]})
    middle = len(call.arguments) // 2
    for part in (call.arguments[:middle], call.arguments[middle:]):
        yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})


def completion(request: Request, reply: Reply) -> dict[str, Any]:
    pieces, finish = shown_pieces(request, reply)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(pieces)}
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**frame(), "object": "chat.completion", "choices": [choice], "usage": usage(request, pieces)}


EMBEDDING_MODEL = "scripted-embed"
RERANK_MODEL = "scripted-rerank"
_DRIP_SECONDS = 0.02  # between two pieces of something endless


class Trouble(Enum):
    """How one request goes wrong."""

    UNAUTHORIZED = auto()
    FORBIDDEN = auto()
    RATE_LIMITED = auto()  # 429 with Retry-After
    SERVER_ERROR = auto()
    REDIRECT = auto()
    DROP = auto()  # the connection closes without a reply
    SILENT = auto()  # not even headers
    HANG = auto()  # headers, then nothing
    DRIP_HEADERS = auto()  # a byte now and then, never an end
    NOT_HTTP = auto()
    MALFORMED = auto()  # 200 with broken JSON
    HTML = auto()  # 200 with a page, as from some other server
    ENDLESS_BODY = auto()
    # chat
    CUT = auto()  # half of the text, then the connection breaks
    CUT_EARLY = auto()  # the stream ends before the first word
    STALL = auto()  # half of the text, then silence
    MALFORMED_MIDWAY = auto()
    ERROR_EVENT = auto()  # an error object as the first event
    ENDLESS = auto()  # words without end
    ENDLESS_ARGUMENTS = auto()  # a tool call whose arguments never end
    ENDLESS_COMMENTS = auto()  # keep-alive comments and never an event
    ENDLESS_LINE = auto()  # one event without a line end
    NO_STREAM = auto()  # one JSON body in spite of "stream"
    NO_SCHEMA = auto()  # 500 where a response format is asked for, as llama-cpp-python does it
    NO_DONE = auto()  # closes after the finish reason, without [DONE]
    # embeddings; the four from NAN to WORDS also reranking
    WRONG_DIMENSION = auto()
    ZERO = auto()
    NAN = auto()
    MISSING = auto()  # one vector or score too few
    TWICE = auto()  # one index twice
    WORDS = auto()  # text where numbers belong
    PER_TOKEN = auto()  # one vector for each token, as llama.cpp does with a chat model
    SHUFFLED = auto()  # correct, in another order


class Recorded(Struct, frozen=True):
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)


def endless_tool_calls(name: str, arguments: str = "{}") -> Script:
    """A model that never answers and always wants one more tool."""
    return lambda request: Reply(tool_calls=(ToolCall(f"call_{len(request.messages)}", name, arguments),))


class ScriptedServer:
    """Starts on entering the `with` block, on a free port. `troubles` meet one POST each, in order; None is none."""

    def __init__(
        self,
        script: Script = lambda request: Reply("You said: " + request.messages[-1].content),
        *,
        troubles: Iterable[Trouble | None] = (),
        dimension: int = 32,
        key: str = "",
        logits: bool = False,  # what reranking returns, as llama.cpp does; else relevances from 0 to 1
        retry_after: str = "0",
        piece_s: float = 0.0,  # before each word of an answer
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script = script
        self.dimension = dimension
        self.key = key
        self.logits = logits
        self.retry_after = retry_after
        self.piece_s = piece_s
        self.requests: list[Recorded] = []
        self.connections = 0
        self.client_gone = threading.Event()  # a client went away in the middle of a reply
        self.stopping = threading.Event()
        self._troubles = iter(troubles)
        self._chats = 0
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.hang_up()
        self._http.server_close()

    def next_trouble(self) -> Trouble | None:
        with self._lock:
            return next(self._troubles, None)

    def next_reply(self, request: Request) -> Reply:
        with self._lock:
            self._chats += 1
            return next_reply(self.script, request, self._chats - 1)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the handlers, which hanging up has freed
    request_queue_size = 64
    owner: ScriptedServer

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        self.owner.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what many tests do; it is noted, not printed."""
        self.owner.client_gone.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    @property
    def owner(self) -> ScriptedServer:
        return self.server.owner

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.owner.requests.append(Recorded(self.path, dict(self.headers)))
        if self._authorized() and self.path.split("?")[0] == "/v1/models":
            models = [{"id": name, "object": "model", "owned_by": "codeinfo"} for name in (CHAT_MODEL, EMBEDDING_MODEL)]
            self._json(200, {"object": "list", "data": models})
        else:
            self._error(401 if not self._authorized() else 404, "nothing here for you")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(raw)
        self.owner.requests.append(Recorded(self.path, dict(self.headers), body))
        trouble = self.owner.next_trouble()
        if trouble is not None and self._fails(trouble):
            return
        path = self.path.split("?")[0]
        if not self._authorized():
            # As real services do it: the refused key comes back in the message.
            self._error(401, f"Incorrect API key provided: {self.headers.get('Authorization', '')}")
        elif path == "/v1/embeddings" and body.get("model") == EMBEDDING_MODEL:
            self._embeddings(body, trouble)
        elif path == "/v1/rerank" and body.get("model") == RERANK_MODEL:
            self._rerank(body, "documents", trouble)
        elif path == "/rerank" and "model" not in body:
            self._rerank(body, "texts", trouble)
        elif path == "/v1/chat/completions" and body.get("model") == CHAT_MODEL:
            self._chat(body, trouble)
        else:
            self._error(404, f"The model `{body.get('model')}` does not exist")

    def _authorized(self) -> bool:
        return not self.owner.key or self.headers.get("Authorization") == f"Bearer {self.owner.key}"

    # --- troubles that any request can have ------------------------------------------------------------------------

    def _fails(self, trouble: Trouble) -> bool:
        """Whether the trouble was the whole reply."""
        match trouble:
            case Trouble.UNAUTHORIZED:
                self._error(401, "no such key")
            case Trouble.FORBIDDEN:
                self._error(403, "not for you")
            case Trouble.RATE_LIMITED:
                self._error(429, "too many requests", {"Retry-After": self.owner.retry_after})
            case Trouble.SERVER_ERROR:
                self._error(500, "out of luck")
            case Trouble.REDIRECT:
                self._error(307, "elsewhere", {"Location": "http://127.0.0.1:9/v1"})
            case Trouble.MALFORMED:
                self._send(200, b'{"data": [{"embedding": [0.1, ', "application/json")
            case Trouble.HTML:
                self._send(200, b"<html><body>It works!</body></html>", "text/html")
            case Trouble.NOT_HTTP:
                self._raw(b"SSH-2.0-OpenSSH_9.6\r\n")
            case Trouble.DROP:
                self.close_connection = True
            case Trouble.SILENT:
                self._wait_until_gone()
            case Trouble.HANG:
                self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})
                self._wait_until_gone()
            case Trouble.DRIP_HEADERS:
                self._drip(b"HTTP/1.1 200 OK\r\nX: ", b"x")
            case Trouble.ENDLESS_BODY:
                self._drip(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", b" " * 65_536, 0)
            case Trouble.ERROR_EVENT:
                self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})
                self._chunk(b'data: {"error": {"message": "the model fell over", "type": "server_error"}}\n\n')
                self._raw(b"0\r\n\r\n")
            case _:
                return False
        return True

    def _drip(self, start: bytes, piece: bytes, seconds: float = _DRIP_SECONDS) -> None:
        self._raw(start)
        while not self.owner.stopping.is_set():
            self._raw(piece)
            time.sleep(seconds)

    def _wait_until_gone(self) -> None:
        self.close_connection = True
        while not self.owner.stopping.is_set():
            readable, _, _ = select.select([self.connection], [], [], _DRIP_SECONDS)
            if readable:
                self.owner.client_gone.set()
                return

    # --- replies ---------------------------------------------------------------------------------------------------

    def _embeddings(self, body: Mapping[str, Any], trouble: Trouble | None) -> None:
        texts = [body["input"]] if isinstance(body["input"], str) else list(body["input"])
        dimension = int(body.get("dimensions") or self.owner.dimension) + (trouble is Trouble.WRONG_DIMENSION)
        # Not of unit length, as from many real endpoints.
        vectors: list[Any] = (ScriptedEmbedder(dimension).embed_documents(texts) * 3).tolist()
        if trouble is Trouble.NAN:
            vectors[-1][0] = float("nan")
        if trouble is Trouble.ZERO:
            vectors[-1] = [0.0] * dimension
        if trouble is Trouble.PER_TOKEN:
            vectors = [[row, row] for row in vectors]
        if trouble is Trouble.WORDS:
            vectors[-1][0] = "nought"
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(vectors)]
        if trouble is Trouble.MISSING:
            data.pop()
        if trouble is Trouble.TWICE:
            data[-1]["index"] = 0
        if trouble is Trouble.SHUFFLED:
            data.reverse()
        tokens = sum(len(text.split()) for text in texts)
        counts = {"prompt_tokens": tokens, "total_tokens": tokens}
        self._json(200, {"object": "list", "data": data, "model": EMBEDDING_MODEL, "usage": counts})

    def _rerank(self, body: Mapping[str, Any], texts: str, trouble: Trouble | None) -> None:
        """Best first, as real endpoints do it. `texts` is the field that has them, by which the shapes differ."""
        if texts not in body:
            self._error(422, f"missing field `{texts}`")
            return
        reranker = ScriptedReranker()
        scores: list[Any] = (reranker.logits if self.owner.logits else reranker.score)(body["query"], body[texts])
        best_first = sorted(range(len(scores)), key=lambda index: -scores[index])
        if trouble is Trouble.NAN:
            scores[-1] = float("nan")
        if trouble is Trouble.WORDS:
            scores[-1] = "very relevant"
        field_name = "score" if texts == "texts" else "relevance_score"
        results = [{"index": index, field_name: scores[index]} for index in best_first]
        if trouble is Trouble.MISSING:
            results.pop()
        if trouble is Trouble.TWICE:
            results[-1]["index"] = results[0]["index"]
        self._json(200, results if texts == "texts" else {"model": RERANK_MODEL, "results": results})

    def _chat(self, body: Mapping[str, Any], trouble: Trouble | None) -> None:
        if trouble is Trouble.NO_SCHEMA and "response_format" in body:
            self._error(500, "1 validation error: {'loc': ('body', 'response_format', 'type')}")
            return
        request = parse_request(body)
        try:
            reply = self.owner.next_reply(request)
        except ProviderError as error:
            self._error(400, str(error))
            return
        if not body.get("stream") or trouble is Trouble.NO_STREAM:
            self._json(200, completion(request, reply))
            return
        self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})
        for item in self._chat_events(request, reply, body, trouble):
            self._chunk(item if isinstance(item, bytes) else b"data: " + json.dumps(item).encode() + b"\n\n")
        if trouble in (Trouble.CUT, Trouble.CUT_EARLY):
            self.close_connection = True  # without the last chunk: to the client the stream breaks off
        elif trouble is Trouble.STALL:
            self._wait_until_gone()
        else:
            if trouble is not Trouble.NO_DONE:
                self._chunk(b"data: [DONE]\n\n")
            self._raw(b"0\r\n\r\n")

    def _chat_events(
        self, request: Request, reply: Reply, body: Mapping[str, Any], trouble: Trouble | None
    ) -> Iterator[dict[str, Any] | bytes]:
        yield event({"role": "assistant", "content": ""})
        if trouble is Trouble.CUT_EARLY:
            return
        yield from self._endless(trouble)
        pieces, finish = shown_pieces(request, reply)
        if trouble in (Trouble.CUT, Trouble.STALL, Trouble.MALFORMED_MIDWAY):
            pieces = pieces[: len(pieces) // 2]
        for piece in pieces:
            time.sleep(self.owner.piece_s)
            yield event({"content": piece})
        if trouble is Trouble.MALFORMED_MIDWAY:
            yield b'data: {"choices": [{"del\n\n'
        if trouble in (Trouble.CUT, Trouble.STALL):
            return
        for index, call in enumerate(reply.tool_calls):
            yield from call_events(index, call)
        yield event({}, finish)
        if (body.get("stream_options") or {}).get("include_usage"):
            yield {**frame(), "choices": [], "usage": usage(request, pieces)}

    def _endless(self, trouble: Trouble | None) -> Iterator[dict[str, Any] | bytes]:
        call = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "search", "arguments": "["}}
        what: dict[Trouble | None, dict[str, Any] | bytes] = {
            Trouble.ENDLESS: event({"content": "and so on "}),
            Trouble.ENDLESS_ARGUMENTS: event({"tool_calls": [call]}),
            Trouble.ENDLESS_COMMENTS: b": still here\n\n",
            Trouble.ENDLESS_LINE: b"x" * 65_536,
        }
        pause = _DRIP_SECONDS if trouble is Trouble.ENDLESS_COMMENTS else 0
        while trouble in what and not self.owner.stopping.is_set():
            yield what[trouble]
            time.sleep(pause)

    # --- bytes -----------------------------------------------------------------------------------------------------

    def _json(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", headers)

    def _error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self._json(status, {"error": {"message": message, "type": "error", "code": None}}, headers)

    def _send(self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
        self._head(status, kind, {"Content-Length": str(len(body)), **(headers or {})})
        self._raw(body)

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self._raw(b"%x\r\n%s\r\n" % (len(data), data))

    def _raw(self, data: bytes) -> None:
        self.wfile.write(data)
