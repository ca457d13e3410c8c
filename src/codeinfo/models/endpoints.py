"""Model endpoints: addresses, keys, and an HTTP client with deadlines, retries and event streams.

A key comes from an environment variable or from a file that only its owner can read. It travels as a `Key`, which shows
its origin and never its value; `redact` removes every key read by this process, and whatever looks like one, from a
text before it becomes an error, a log line or a reply.

The client is based on `http.client`, which imports in 60 ms where the `openai` client takes 0.9 s and 14 packages, and
it exposes the socket, without which neither an overall deadline nor cancellation from another thread is possible while
a server is silent or drips bytes. Redirects are not followed: a key goes to the configured address and nowhere else.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import http.client
import json
import re
import socket
import ssl
import threading
import time
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct, field

from codeinfo.cache import start_timer
from codeinfo.errors import ProviderError, UsageError
from codeinfo.files import read_secret
from codeinfo.model import NextStep, to_run


class Limits(Struct, frozen=True):
    """Limits of one call. A local model may take minutes to its first token; `read_seconds` limits the silence."""

    connect_seconds: float = 5.0
    read_seconds: float = 120.0  # silence between two pieces of a reply
    total_seconds: float = 600.0  # one request, from connecting to the last byte
    attempts: int = 4
    retry_seconds: float = 60.0  # all attempts and waits of one call; after that no new attempt starts
    backoff_seconds: float = 0.5  # first wait if the endpoint names none; doubles with each attempt


class Endpoint(Struct, frozen=True):
    base_url: str
    model: str = ""
    key: Key | None = None
    limits: Limits = field(default_factory=Limits)
    unset_key: str = ""  # the environment variable that should contain the key, but does not


class EmbeddingEndpoint(Endpoint, frozen=True):
    """An OpenAI-compatible `/embeddings`."""

    dimension: int = 0  # requested from the endpoint and enforced; 0 accepts the model's own
    batch_count: int = 64


class ChatEndpoint(Endpoint, frozen=True):
    """An OpenAI-compatible `/chat/completions`. Without a model's name, the endpoint's first one is used."""

    temperature: float | None = None
    max_chars: int = 200_000  # an endless answer is cut here, with finish "length"


class RerankEndpoint(Endpoint, frozen=True):
    """A `/rerank` endpoint. A request with a model name has the shape of Jina, Cohere, vLLM and llama.cpp; one
    without has the shape of TEI, which serves a single model."""

    text_chars: int = 2000  # about 512 tokens of code: many servers refuse a longer pair instead of truncating it


# --- keys ------------------------------------------------------------------------------------------------------------

MASK = "[key]"
_SHORTEST_SECRET = 6  # shorter ones are placeholders ("x", "none"): masking them would damage ordinary words

# Keys of well-known services, and whatever follows "Bearer" or "api_key=". No nested repetition.
_SHAPES = re.compile(
    r"(?:sk|pk|rk|gsk|hf|xai|nvapi)[-_][A-Za-z0-9_-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{6,}"
    r"|(?<=[Bb]asic )[A-Za-z0-9+/=]{6,}"
    r"|(?<=api_key=)[^\s&\"']{6,}"
    r"|(?<=api-key: )[^\s\"']{6,}"
)

# Filled as keys are read: an error may quote a key that another part of the process holds.
_secrets: set[str] = set()


class Key:
    """A secret with an origin. Printing it in any way shows only the origin."""

    __slots__ = ("_value", "origin")

    def __init__(self, value: str, origin: str) -> None:
        self._value = value
        self.origin = origin
        remember(value)

    def reveal(self) -> str:
        """The secret itself, for the request header and nothing else."""
        return self._value

    def __repr__(self) -> str:
        return f"Key({self.origin})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written anywhere")


def remember(secret: str) -> None:
    """Make `redact` remove this secret, also as it appears inside JSON or an address."""
    if len(secret) >= _SHORTEST_SECRET:
        _secrets.update((secret, json.dumps(secret)[1:-1], quote(secret, safe="")))


def redact(text: str) -> str:
    """The text with every known key, and whatever is shaped like one, masked."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _SHAPES.sub(MASK, text)


def key_from_environment(name: str, value: str) -> Key:
    origin = f"environment variable {name}"
    if not value.strip():
        step = f"Set {name}, or remove the setting that refers to it."
        raise UsageError(f"the {origin} should contain a key, but is empty or unset", step)
    return Key(_check_key(value.strip(), origin), origin)


def key_from_file(path: Path) -> Key:
    origin = f"key file {path}"
    text = read_secret(path, "Set it to a file that contains only the key")
    return Key(_check_key(text.strip(), origin), origin)


def _check_key(value: str, origin: str) -> str:
    """A header carries only visible ASCII; anything else is the wrong file or a paste error."""
    if not value or not all("!" <= char <= "~" for char in value):
        raise UsageError(
            f"the {origin} does not contain one key: it is empty, or has spaces, line breaks or other characters in it",
            "Put the bare key there, on one line.",
        )
    return value


# --- failures --------------------------------------------------------------------------------------------------------

_LONGEST_DETAIL = 300  # characters of a server's message that go into an error


class _Row(Struct, frozen=True):
    suffix: str
    what: str  # {where} and {model} are filled in
    next_step: str
    retry: bool = False


_START = NextStep("Start the server, or set another address; ", to_run("providers"), " shows what answers.")


class Kind(Enum):
    REFUSED = _Row("UNAVAILABLE", "{where} refuses the connection", _START)
    UNREACHABLE = _Row("UNAVAILABLE", "{where} cannot be reached", _START)
    BROKEN = _Row("UNAVAILABLE", "{where} closed the connection", "Look at the server's own log.", retry=True)
    # A chat model that accepted a prompt and says nothing: some servers do that when it is too large.
    SILENCED = _Row("BROKEN", "{where} closed the connection", "Look at the server's own log.")
    TLS = _Row(
        "UNAVAILABLE",
        "no secure connection to {where}",
        "Check that the address should begin with https, and that its certificate is valid and trusted "
        "(SSL_CERT_FILE names further authorities).",
    )
    UNAUTHORIZED = _Row(
        "UNAUTHORIZED", "{where} does not accept the key", "Check which key the settings use, and what it permits."
    )
    KEYLESS = _Row("UNAUTHORIZED", "{where} needs a key", "Set it, or correct api_key_env in the settings.")
    MISSING = _Row(
        "MODEL_MISSING",
        "{where} has no model {model!r}, or nothing at this path",
        "Load the model, or set another that the server lists under /models; most addresses end in /v1.",
    )
    RATE_LIMITED = _Row("RATE_LIMITED", "{where} accepts no more requests for now", "Wait, or use another one.", True)
    SERVER = _Row("UNAVAILABLE", "{where} failed", "Look at the server's own log, then try again.", retry=True)
    REJECTED = _Row(
        "REJECTED", "{where} rejects the request for model {model!r}", "Check the model and the settings sent to it."
    )
    CONTEXT = _Row(
        "CONTEXT", "the request is larger than the context of model {model!r} at {where}", "Configure a larger context."
    )
    TIMEOUT = _Row(
        "TIMEOUT",
        "{where} did not answer in time",
        "Try again, allow more time in the settings, or use a lighter model.",
    )
    BAD_REPLY = _Row(
        "BAD_REPLY",
        "{where} sent an invalid reply",
        "Check that the address belongs to an endpoint for this task, and that the model supports it.",
    )
    CANCELLED = _Row("CANCELLED", "the request to {where} was cancelled", "")


class Fault(Exception):
    """A failed exchange, before it becomes an error for the user."""

    def __init__(self, kind: Kind, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.tries = 1


def provider_error(fault: Fault, *, role: str, where: str, model: str) -> ProviderError:
    """`role` is LLM, EMBEDDING or RERANK and begins the code; `where` is an address without credentials."""
    row = fault.kind.value
    what = row.what.format(where=where, model=model)
    notes = [_one_line(fault.detail)] if fault.detail else []
    if fault.tries > 1:
        notes.append(f"{fault.tries} tries")
    if notes:
        what = f"{what} ({'; '.join(notes)})"
    return ProviderError(redact(what), row.next_step, code=f"{role}_{row.suffix}")


_TOO_LARGE = re.compile(
    r"context[ _](?:length|size|window)|maximum context|too many tokens|prompt is too long|exceeds? .{0,40}\bcontext\b",
    re.IGNORECASE,
)

_BY_STATUS = {
    **dict.fromkeys((401, 403), Kind.UNAUTHORIZED),
    404: Kind.MISSING,
    408: Kind.SERVER,
    429: Kind.RATE_LIMITED,
}


def status_kind(status: int, words: str) -> Kind:
    if status < 400:
        return Kind.BAD_REPLY
    if _TOO_LARGE.search(words):
        return Kind.CONTEXT
    if "response_format" in words:
        return Kind.REJECTED  # llama-cpp-python returns 500 for an unknown format: retrying would not help
    return _BY_STATUS.get(status, Kind.SERVER if status >= 500 else Kind.REJECTED)


def server_words(body: bytes) -> str:
    """The message of an error reply, from whichever usual place has it."""
    text = body.decode("utf-8", "replace")
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip().startswith("<") else text  # an HTML page says nothing in one line
    for name in ("error", "detail", "message"):
        if isinstance(content, dict) and name in content:
            content = content[name]
    return content if isinstance(content, str) else ""


def _one_line(text: str) -> str:
    """Redacted before truncating, so that no half of a key is left; control characters never reach a terminal."""
    clean = "".join(char if char.isprintable() else " " for char in redact(text[: _LONGEST_DETAIL * 20]))
    clean = " ".join(clean.split())
    return clean if len(clean) <= _LONGEST_DETAIL else clean[:_LONGEST_DETAIL] + "…"


_PIECE = 65_536  # bytes read at once
_ERROR_BODY = 65_536  # bytes of an error reply that are read
_Result = TypeVar("_Result")


class Target(Struct, frozen=True):
    """A parsed base address. `address` has neither credentials nor query, and is what errors and lists show."""

    secure: bool
    host: str
    port: int
    path: str
    address: str
    query: str = ""
    basic: str = ""  # credentials from the address, encoded for the header

    def __repr__(self) -> str:
        return f"Target({self.address!r})"

    def url(self, path: str) -> str:
        return self.path + path + (f"?{self.query}" if self.query else "")


def parse_target(base_url: str, default_path: str = "/v1") -> Target:
    """Parse `http://host:port/v1` and the like; an address without a path gets `/v1`, where most endpoints live."""
    try:
        parts = urlsplit(base_url.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(char <= " " for char in base_url.strip()):
        step = "Correct base_url in the settings."
        raise UsageError("the address of an endpoint must look like http://host:port/v1", step)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/") or default_path
    basic = ""
    if parts.username is not None:
        userinfo = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        basic = base64.b64encode(userinfo.encode()).decode()
        remember(unquote(parts.password or ""))
        remember(basic)
    return Target(
        secure=parts.scheme == "https",
        host=parts.hostname,
        port=port or (443 if parts.scheme == "https" else 80),
        path=path,
        address=f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}",
        query=parts.query,
        basic=basic,
    )


class Connection:
    """One connection, for successive requests. Only `abort` may be called from another thread."""

    def __init__(self, target: Target, key: Key | None, limits: Limits) -> None:
        self.target = target
        self.headers: http.client.HTTPMessage | None = None
        self._limits = limits
        self._fixed = {"Accept": "application/json, text/event-stream", "User-Agent": "codeinfo"}
        if key is not None:
            self._fixed["Authorization"] = f"Bearer {key.reveal()}"
        elif target.basic:
            self._fixed["Authorization"] = f"Basic {target.basic}"
        self._http: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None
        self._watchdog: threading.Timer | None = None
        self._expired = False
        self._aborted = False

    def get(self, path: str) -> None:
        self._send("GET", path, None)

    def post(self, path: str, payload: dict[str, Any]) -> None:
        """Send JSON and wait for the headers of the reply; any status but 200 is a fault."""
        self._send("POST", path, json.dumps(payload).encode())

    def read(self) -> bytes:
        """The next piece of the reply; empty at its end, after which the connection can serve the next request."""
        if (response := self._response) is None:
            raise Fault(Kind.CANCELLED)
        with self._translate_errors():
            # As it arrives; but if the length is known, Python 3.11's read1 loses count and would wait for more.
            left = response.length
            piece = response.read1(_PIECE) if left is None else response.read(min(_PIECE, left))
            if not piece and (response.length or self._expired or self._aborted):
                raise http.client.IncompleteRead(b"", response.length)
        if not piece:
            self._stop_watchdog()
            if response.will_close:
                self.close()
        return piece

    def read_json(self, largest: int) -> Any:
        """The whole reply as JSON, at most `largest` bytes."""
        body = self._read_all(largest)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Fault(Kind.BAD_REPLY, "not JSON: " + body[:80].decode("utf-8", "replace")) from error

    def abort(self) -> None:
        """Cancel from any thread: a reader is woken, and the endpoint sees the connection close."""
        self._aborted = True
        self._shut_down()

    def _shut_down(self) -> None:
        connection = self._http
        if connection is not None and connection.sock is not None:
            # The plain socket's method: the TLS one would first drop the state that the reader is using.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self._stop_watchdog()
        if self._response is not None:
            self._response.close()
        if self._http is not None:
            self._http.close()
        self._http = self._response = None

    def _send(self, method: str, path: str, body: bytes | None) -> None:
        if self._response is not None and not self._response.isclosed():
            self.close()  # the last reply was not read to its end: the rest must not be taken for the next one
        self._expired = False
        self._response = None
        self._watchdog = start_timer(self._limits.total_seconds, self._expire)
        headers = {**self._fixed, "Content-Type": "application/json"} if body is not None else self._fixed
        for reused in (self._http is not None, False):
            try:
                with self._translate_errors():
                    if self._http is None:
                        self._http = _dial(self.target, self._limits.connect_seconds)
                        self._http.connect()
                        self._http.sock.settimeout(self._limits.read_seconds)
                    if self._aborted:
                        raise Fault(Kind.CANCELLED)
                    self._http.request(method, self.target.url(path), body=body, headers=headers)
                    response = self._http.getresponse()
                break
            except Fault as fault:
                # The server may have closed an idle connection meanwhile: the endpoint has not failed.
                if not (reused and fault.kind is Kind.BROKEN):
                    raise
        self._response, self.headers = response, response.headers
        if response.status != 200:
            raise self._status_fault(response.status)

    def _status_fault(self, status: int) -> Fault:
        try:
            words = server_words(self._read_all(_ERROR_BODY))
        except Fault:
            words = ""  # the status is enough; a broken error page must not hide it
        self.close()
        detail = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        return Fault(status_kind(status, words), detail, retry_after=self._retry_after())

    def _retry_after(self) -> float | None:
        value = str(self.headers.get("Retry-After", "")).strip() if self.headers is not None else ""
        if value.isascii() and value.isdigit():
            return float(value)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None

    def _read_all(self, largest: int) -> bytes:
        body = bytearray()
        while piece := self.read():
            body += piece
            if len(body) > largest:
                self.close()
                raise Fault(Kind.BAD_REPLY, f"a reply of more than {largest} bytes")
        return bytes(body)

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn whatever the library raises into a fault; the connection is then closed, since its state is unknown."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # ValueError and AttributeError: what http.client raises when `abort` pulls the socket from under it. (A
            # refused certificate is a ValueError as well as an OSError.)
            if not isinstance(error, (OSError, http.client.HTTPException)) and not (self._expired or self._aborted):
                raise
            fault = self._fault_of(error)
            self.close()
            raise fault from error
        except BaseException:  # Ctrl-C during a request: the next one must not see its remains
            self.close()
            raise

    def _fault_of(self, error: Exception) -> Fault:
        if self._expired:
            return Fault(Kind.TIMEOUT, f"{self._limits.total_seconds:g} s in all")
        if self._aborted:
            return Fault(Kind.CANCELLED)
        if isinstance(error, TimeoutError):
            connected = self._http is not None and self._http.sock is not None
            if connected:
                return Fault(Kind.TIMEOUT, f"silent for {self._limits.read_seconds:g} s")
            return Fault(Kind.TIMEOUT, f"no connection in {self._limits.connect_seconds:g} s")
        if isinstance(error, ssl.SSLError):
            return Fault(Kind.TLS, getattr(error, "verify_message", "") or error.reason or str(error))
        if isinstance(error, ConnectionRefusedError):
            return Fault(Kind.REFUSED)
        if isinstance(error, (ConnectionError, http.client.IncompleteRead)):
            return Fault(Kind.BROKEN, type(error).__name__)
        if isinstance(error, OSError):
            return Fault(Kind.UNREACHABLE, error.strerror or str(error))
        return Fault(Kind.BAD_REPLY, f"not HTTP: {type(error).__name__}")

    def _expire(self) -> None:
        self._expired = True
        self._shut_down()

    def _stop_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None


def with_retries(attempt: Callable[[], _Result], limits: Limits, cancelled: threading.Event | None = None) -> _Result:
    """Retry if that may help, as long as attempts and time are left; a wait named by the endpoint is honoured."""
    started = time.monotonic()
    wait = limits.backoff_seconds
    for tried in range(1, max(1, limits.attempts) + 1):
        try:
            return attempt()
        except Fault as fault:
            fault.tries = tried
            pause = wait if fault.retry_after is None else fault.retry_after
            if fault.kind.value.retry and time.monotonic() - started + pause > limits.retry_seconds:
                fault.detail += f"; the next try would be in {pause:.0f} s"
                raise
            if not fault.kind.value.retry or tried >= limits.attempts:
                raise
        if (cancelled or threading.Event()).wait(pause):
            raise Fault(Kind.CANCELLED)
        wait *= 2
    raise AssertionError("unreachable: the last try returns or raises")


class EndpointClient:
    """JSON requests to one endpoint, for an embedder or a reranker; `role` is the prefix of its error codes.
    Thread-safe: each call takes an idle connection or opens one, so that no call waits for another."""

    def __init__(self, role: str, endpoint: Endpoint, default_path: str = "/v1") -> None:
        self.target = parse_target(endpoint.base_url, default_path)
        self._role = role
        self._endpoint = endpoint
        self._idle: list[Connection] = []
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, path: str, payload: dict[str, Any], read: Callable[[Any], _Result], largest: int) -> _Result:
        """What `read` makes of the reply; it raises a Fault if the reply makes no sense."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = Connection(self.target, self._endpoint.key, self._endpoint.limits)

        def attempt() -> _Result:
            connection.post(path, payload)
            return read(connection.read_json(largest))

        try:
            answer = with_retries(attempt, self._endpoint.limits)
        except Fault as fault:
            connection.close()
            if fault.kind is Kind.UNAUTHORIZED and (name := self._endpoint.unset_key):
                fault.kind = Kind.KEYLESS
                fault.detail = f"the environment variable {name} is empty or unset; {fault.detail}"
            where, model = self.target.address, self._endpoint.model
            raise provider_error(fault, role=self._role, where=where, model=model) from fault
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def close(self) -> None:
        """Close idle connections; the next call opens another."""
        _close_all(self._idle)


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


def _dial(target: Target, seconds: float) -> http.client.HTTPConnection:
    """An unconnected connection, through the system's proxy if one is set for this host."""
    if not target.secure:
        return http.client.HTTPConnection(target.host, target.port, timeout=seconds)
    context = ssl.create_default_context()
    # Plain HTTP is for this machine and its network, so only secure addresses go through a proxy, as a tunnel.
    address = urllib.request.getproxies().get("https", "")
    if not address or urllib.request.proxy_bypass(target.host):
        return http.client.HTTPSConnection(target.host, target.port, timeout=seconds, context=context)
    proxy = urlsplit(address if "//" in address else f"//{address}")
    connection = http.client.HTTPSConnection(proxy.hostname or "", proxy.port or 80, timeout=seconds, context=context)
    connection.set_tunnel(target.host, target.port)
    return connection


_LARGEST_LINE = 4_000_000  # bytes; a server that never ends a line must not fill the memory


def event_data(read: Callable[[], bytes]) -> Iterator[str]:
    """`read` returns the next bytes, empty at the end. An event cut off by the end is not delivered."""
    data: list[str] = []
    for line in _lines(read):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
            if sum(map(len, data)) > _LARGEST_LINE:
                raise Fault(Kind.BAD_REPLY, "an event without an end")


def _lines(read: Callable[[], bytes]) -> Iterator[str]:
    pending = bytearray()
    while piece := read():
        searched = len(pending)  # the earlier part has no line end: each byte is scanned once
        pending += piece
        start = 0
        while (end := pending.find(b"\n", max(start, searched))) >= 0:
            yield pending[start:end].removesuffix(b"\r").decode("utf-8", "replace")
            start = end + 1
        del pending[:start]
        if len(pending) > _LARGEST_LINE:
            raise Fault(Kind.BAD_REPLY, "a line without an end")
