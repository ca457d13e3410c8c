"""Access to the server: exact hosts and origins, a token for writes, sessions for pages, bounded bodies, security
headers.

This guards every route, the MCP server included, and refuses by default: only reads by our own pages and by programs on
this machine get through without a token.

A link that works once turns into a cookie, the cookie into a token for one session. The link is shown to the person who
started the server and to nobody else. The server's own token never leaves it: what a page sends with its requests is
derived from that token and the session, and is worth nothing without the cookie. Sessions are signed, not stored, so
they outlive a restart; with another token all of them end.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from codeinfo.config import LOOPBACK
from codeinfo.errors import CodeInfoError, UsageError, error_json
from codeinfo.files import locked, open_private, private_folder, read_secret, replace_file
from codeinfo.model import dumps

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[str, str]  # of a request, by lowercase name
Header = tuple[bytes, bytes]  # of a response

TOKEN_FILE = "web-token"
TOKEN_HEADER = "x-codeinfo-token"
LEAST_TOKEN = 16  # characters
LEAST_OWN_TOKEN = 32  # characters of a token that was made here
MAX_BODY_BYTES = 1_000_000
MAX_HOOK_BYTES = 5_000_000  # a push of many commits; its sender is known only after reading
MAX_UPLOAD_BYTES = 32_000_000
MOST_HELD_BYTES = 256_000_000  # of all bodies together: there may be 2,000 connections
HOOKS, UPLOADS = "/hooks/", "/api/v1/team/push/"  # the paths that may have more
BODY_SECONDS = 20.0  # for a request's body to arrive
# Headers that decide about a request: if one occurs twice, a proxy in between may use the other.
ONLY_ONCE = tuple(
    b"origin authorization cookie x-codeinfo-token sec-fetch-site sec-fetch-mode sec-fetch-dest content-length"
    b" content-type transfer-encoding".split()
)
PAGES = frozenset({"/", "/panel", "/docs"})  # and all below /ui/
_OWN_PAGES = "Use this server's own pages"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


# --- hosts and tokens ------------------------------------------------------------------------------------------------


class Access(Struct, frozen=True):
    """`hosts` are the only Host values that are answered; `reads` are paths whose POST changes nothing; with
    `private` every request needs the token or a session, since other machines can reach the address; `public` is the
    origin under which a proxy in front serves it."""

    hosts: frozenset[str]
    token: str
    reads: frozenset[str] = frozenset()
    private: bool = False
    sessions: Sessions | None = None
    public: str = ""

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts) | ({self.public} if self.public else set())

    @property
    def secure(self) -> bool:
        return self.public.startswith("https:")


def hosts_for(address: str, port: int) -> frozenset[str]:
    names = LOOPBACK if address in LOOPBACK else (address,)
    return frozenset(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)


def public_origin(url: str) -> tuple[str, frozenset[str]]:
    """The origin of `web.public_url`, and the Host values that a proxy in front may pass on."""
    parts = urlsplit(url.rstrip("/").lower())
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query):
        raise UsageError(f"web.public_url = {url!r} is not an address", "Write it as https://code.example.com")
    if not url:
        return "", frozenset()
    default = 443 if parts.scheme == "https" else 80
    hosts = {parts.netloc} | ({f"{parts.netloc}:{default}"} if parts.port is None else set())
    return f"{parts.scheme}://{parts.netloc}", frozenset(hosts)


def own_token(data_dir: Path) -> str:
    """This user's token: generated once, stored in a file that only they can read."""
    path = private_folder(data_dir) / TOKEN_FILE
    with locked(open_private(path, os.O_RDWR), path) as file:  # two servers starting at once agree on one token
        token = os.read(file, 1000).decode("ascii", "replace").strip()
        if len(token) < LEAST_OWN_TOKEN or not token.isprintable():  # new, or cut or emptied by a full disk or a crash
            token = secrets.token_urlsafe(32)
            os.truncate(file, 0)
            os.pwrite(file, token.encode(), 0)
            os.fsync(file)
    return token


def read_token_file(path: Path) -> str:
    """The token in a file that only its owner can read."""
    token = read_secret(path, "Give a file that contains a token").strip()
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise UsageError(f"{path} contains no token", f"Put at least {LEAST_TOKEN} ASCII characters into it")
    return token


class RequestRefused(CodeInfoError):
    """Raised before a request reaches its route, or while its body is read."""


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access
        self._sessions = access.sessions or Sessions(access.token, secure=access.secure)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets are not offered
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        send_secured = _add_security_headers(send, cacheable=scope["path"].startswith("/static/"))
        body = _Body(receive, most_bytes(scope["path"]))
        try:
            self._check_form(scope, headers)
            await self.enter(scope, body.receive, send_secured, headers)
        except CodeInfoError as error:  # before the application was asked: its own errors have a handler there
            await send_refusal(send_secured, headers, error)
        finally:
            _Body.held -= body.seen

    async def enter(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """Answers a well-formed request from an allowed origin; raises if its sender has no right to it."""
        query = parse_qs(scope["query_string"].decode("latin-1")) if scope["path"] == "/" else {}
        if session := self._open_session(query):
            cookie = self._sessions.set_cookie(session).encode()
            await send_page(send, 200, continue_page("/"), [(b"set-cookie", cookie)])
            return
        page_token = self._sessions.page_token(headers.get("cookie", ""))
        try:
            self._check_credentials(scope, headers, page_token)
        except RequestRefused:
            if not (is_browser(headers) and _is_page(scope)):
                raise
            await send_page(send, 401, no_session_page(address_of(scope), used=CODE_PARAMETER in query), [])
            return
        scope.setdefault("state", {})["page_token"] = page_token
        await self._app(scope, receive, send)

    def _check_form(self, scope: Scope, headers: Headers) -> None:
        """Raises RequestRefused for a request that is refused whoever sends it."""
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        if len(hosts) != 1 or headers["host"].lower() not in self._access.hosts:
            what = "this server does not answer to that host name"
            raise RequestRefused(what, "Use the address it printed", code="HOST_REFUSED")
        names = Counter(name.lower() for name, _ in scope["headers"])
        if twice := next((name for name in ONLY_ONCE if names[name] > 1), None):
            what = f"the header {twice.decode()} was sent {names[twice]} times"
            raise RequestRefused(what, "Send it once", code="DUPLICATE_HEADER")
        if names[b"content-length"] and names[b"transfer-encoding"]:
            # A proxy that goes by the other one takes a part of this body for the next request, or the reverse.
            step = "Send one of the two headers"
            raise RequestRefused("the body's length is given twice", step, code="DUPLICATE_HEADER")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._access.origins:
            raise RequestRefused("pages of other origins are not answered", _OWN_PAGES, code="ORIGIN_REFUSED")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_navigation(scope, headers):
            raise RequestRefused("other sites cannot embed what is served here", _OWN_PAGES, code="ORIGIN_REFUSED")
        length, most = headers.get("content-length", "0"), most_bytes(scope["path"])
        if not length.isdecimal() or int(length) > most:
            raise _too_large(most)

    def _check_credentials(self, scope: Scope, headers: Headers, page_token: str) -> None:
        """Raises RequestRefused for a request without the server's token or a sufficient session. A session may read; a
        change also needs its page's token, which no other site's page knows."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        tokens = (headers.get(TOKEN_HEADER, ""), token.strip() if scheme.lower() == "bearer" else "")
        if any(hmac.compare_digest(value.encode(), self._access.token.encode()) for value in tokens):
            return
        if page_token and hmac.compare_digest(tokens[0].encode(), page_token.encode()):
            return
        if self._is_write(scope):
            file = "the token file" if self._access.private else f"{TOKEN_FILE} in the data folder"
            next_step = f"Send the content of {file} as {TOKEN_HEADER}"
            what = "that is not the server's token" if any(tokens) else "this needs the server's token"
            raise RequestRefused(what, next_step, code="TOKEN_REQUIRED")
        if page_token or not (self._access.private or _is_page(scope)):
            return
        next_step = f"Open the link that `codeinfo serve` printed; programs send the server's token as {TOKEN_HEADER}"
        if self._access.private:
            next_step += ". Or open the first page with ?token= and the content of the token file"
        raise RequestRefused("this needs a session or the server's token", next_step, code="TOKEN_REQUIRED")

    def _is_write(self, scope: Scope) -> bool:
        if scope["path"].startswith("/mcp"):  # its calls may write, which cannot be seen from outside
            return True
        return scope["method"] not in ("GET", "HEAD", "OPTIONS") and scope["path"] not in self._access.reads

    def _open_session(self, query: dict[str, list[str]]) -> str | None:
        """A new session in exchange for a link's code; on an address that others reach, also for the token."""
        if code := query.get(CODE_PARAMETER, [""])[0]:
            return self._sessions.enter(code)
        token = query.get("token", [""])[0]
        if self._access.private and hmac.compare_digest(token.encode(), self._access.token.encode()):
            return self._sessions.begin()
        return None


def _is_page(scope: Scope) -> bool:
    """Pages are for people: they show more than any single operation, and their buttons change things."""
    path: str = scope["path"]
    return path in PAGES or path.startswith("/ui/")


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """A link that a person followed."""
    fetch = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return scope["method"] == "GET" and fetch == ("navigate", "document")


# --- bodies and headers --------------------------------------------------------------------------------------------


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(f"the body may have at most {most} bytes", "Send less", code="BODY_TOO_LARGE")


def most_bytes(path: str) -> int:
    if path.startswith(UPLOADS):
        return MAX_UPLOAD_BYTES
    return MAX_HOOK_BYTES if path.startswith(HOOKS) else MAX_BODY_BYTES


class _Body:
    """Counts the body of a request as it arrives, since it may have no declared length, and limits how long it takes.
    Its sender may be anybody, so all of them together are limited too."""

    held = 0  # bytes of the requests that are being answered

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most = receive, most
        self._until = asyncio.get_running_loop().time() + BODY_SECONDS
        self._complete, self.seen = False, 0

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise RequestRefused("the request did not arrive in time", "Send it again", code="TIMEOUT") from None
        size = len(message.get("body", b""))
        self.seen += size
        _Body.held += size
        self._complete = not message.get("more_body", False)
        if self.seen > self._most:
            raise _too_large(self._most)
        if _Body.held > MOST_HELD_BYTES:
            what = "too many large requests are being received"
            raise RequestRefused(what, "Send it again later", code="OVERLOADED")
        return message


def _add_security_headers(send: Send, *, cacheable: bool) -> Send:
    cache = "public, max-age=3600" if cacheable else "no-store"
    extra = [(name.encode(), value.encode()) for name, value in (HEADERS | {"cache-control": cache}).items()]
    names = {name for name, _ in extra}

    async def send_secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            message["headers"] = [*headers, *extra]
        await send(message)

    return send_secured


def is_browser(headers: Headers) -> bool:
    """Whether a person opened the address."""
    return "text/html" in headers.get("accept", "")


def address_of(scope: Scope) -> str:
    return f"{scope['path']}?{scope['query_string'].decode('latin-1')}".removesuffix("?")


async def send_refusal(send: Send, headers: Headers, error: CodeInfoError, more: Iterable[Header] = ()) -> None:
    """JSON for programs, plain text for a person."""
    kind, body = "application/json", dumps(error_json(error.code, error.what, error.next_step))
    if is_browser(headers):
        kind, body = "text/plain; charset=utf-8", f"{error.what[0].upper()}{error.what[1:]}.\n{error.next_step}.\n"
    await send_body(send, error.status, kind, body, ((b"connection", b"close"), *more))


async def send_page(send: Send, status: int, html: str, more: Iterable[Header]) -> None:
    await send_body(send, status, "text/html; charset=utf-8", html, more)


async def send_body(send: Send, status: int, kind: str, text: str, more: Iterable[Header] = ()) -> None:
    body = text.encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# --- sessions --------------------------------------------------------------------------------------------------------

COOKIE = "codeinfo_session"
CODE_PARAMETER = "code"
SESSION_SECONDS = 30 * 86_400
LINK_FILE = "open-pages.html"


class Sessions:
    """`announce` receives each new code: at most one link is open at a time; `secure`: browsers use https."""

    def __init__(self, token: str, announce: Callable[[str], None] = lambda _: None, *, secure: bool = False) -> None:
        self._token = token.encode()
        self._announce = announce
        self._secure = secure
        self.code = secrets.token_urlsafe(24)

    def enter(self, code: str) -> str | None:
        """A session in exchange for the code, which is then used up; None for a wrong or used one. Only on the event
        loop: nothing comes between the comparison and the next code."""
        if not hmac.compare_digest(code.encode(), self.code.encode()):
            return None
        self.code = secrets.token_urlsafe(24)
        self._announce(self.code)
        return self.begin()

    def begin(self) -> str:
        """The cookie of a new session."""
        return self.sign(f"{int(time.time())}.{secrets.token_urlsafe(16)}")

    def sign(self, name: str) -> str:
        return f"{name}.{self._sign('session', name)}"

    def name_of(self, cookie_header: str) -> str:
        """The name of the session that a browser sends; "" if none, or one not signed here."""
        name, _, signature = read_cookie(cookie_header, cookie_name(COOKIE, self._secure)).rpartition(".")
        return name if hmac.compare_digest(signature.encode(), self._sign("session", name).encode()) else ""

    def set_cookie(self, value: str, more: str = "") -> str:
        return set_cookie(COOKIE, value, f"SameSite=Strict{more}", secure=self._secure)

    def token_of(self, name: str) -> str:
        """The token that this session's pages send with a change."""
        return self._sign("page", name)

    def page_token(self, cookie_header: str) -> str:
        """The token that this session's pages send with a change; "" without a session."""
        name = self.name_of(cookie_header)
        began = name.partition(".")[0]
        if not began.isdecimal() or len(began) > 12 or abs(time.time() - int(began)) > SESSION_SECONDS:
            return ""
        return self.token_of(name)

    def _sign(self, purpose: str, name: str) -> str:
        digest = hmac.digest(self._token, f"{purpose}:{name}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def cookie_name(name: str, secure: bool) -> str:
    """Browsers take a `__Host-` cookie from this very host by https; others are set by any host of its domain."""
    return f"__Host-{name}" if secure else name


def read_cookie(header: str, name: str) -> str:
    """The value of one of our cookies, "" if it was not sent. Python's own parser also reads quoted ones, which takes
    releases before 3.11.10 and 3.12.6 half a minute for the longest header."""
    pairs = (part.partition("=") for part in header.split(";"))
    return {key.strip(): value.strip() for key, _, value in pairs}.get(name, "")


def set_cookie(name: str, value: str, more: str, *, secure: bool) -> str:
    return f"{cookie_name(name, secure)}={value}; HttpOnly; Path=/; {more}{'; Secure' if secure else ''}"


# --- pages -----------------------------------------------------------------------------------------------------------


def continue_page(address: str) -> str:
    """Forwards to an address. A browser from another site would follow a redirect without the same-site cookie."""
    head = f'<meta http-equiv="refresh" content="0; url={escape(address)}">'
    return plain_page("Welcome", head, f'<p><a href="{escape(address)}">Continue to the pages</a></p>')


def no_session_page(address: str, *, used: bool) -> str:
    """For a browser without a session; `address` is what it requested, `used` whether its link was already used."""
    first = "<p>This link has already been used; it works only once.</p>" if used else ""
    again = f'<p>If you already did: <a href="{escape(address)}">continue</a>.</p>'
    advice = "<p>Open the link that <code>codeinfo serve</code> shows in its terminal, each time a new one.</p>"
    title = "These pages are for the person who started the server"
    return plain_page(title, "", first + advice + ("" if used else again))


def sign_in_page(address: str) -> str:
    """For a browser without a session at a team's server."""
    again = f'<p><a href="{escape(address)}">Sign in</a></p>'
    return plain_page("You are not signed in", "", again)


def plain_page(title: str, head: str, body: str) -> str:
    style = (
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/static/app.css">'
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · CodeInfo</title>{style}{head}'
        f'</head><body><main id="main"><h1>{title}</h1>{body}</main></body></html>'
    )


def write_link_file(folder: Path, link: str) -> Path:
    """A private page that leads to the link: everyone on the machine can see a browser's command line."""
    path = private_folder(folder) / LINK_FILE
    head = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={escape(link)}">'
    replace_file(path, f'{head}<title>CodeInfo</title><a href="{escape(link)}">Open</a>'.encode())
    return path
