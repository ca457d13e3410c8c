"""A team's server: every request needs a caller, and callers may use what is on an allow list, nothing else.

A personal access token or a session identifies the caller. The database is checked each time, so that a revoked token
is refused by the next request on any server. During a long response the caller is checked repeatedly; it is cut off
when access was revoked.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import posixpath
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from msgspec import Struct, field

from codeinfo.config import expand_user
from codeinfo.errors import CodeInfoError, NotFound, StoreUnavailable, UsageError
from codeinfo.model import NextStep, to_run
from codeinfo.operations import OPERATIONS, Operation
from codeinfo.serve import auth
from codeinfo.team import access as team
from codeinfo.team.access import ADMIN as ADMIN
from codeinfo.team.access import READ as READ
from codeinfo.team.access import WRITE as WRITE
from codeinfo.team.access import Caller as Caller
from codeinfo.team.access import Refused as Refused
from codeinfo.team.access import Use, current_use
from codeinfo.team.access import current_user as current_user
from codeinfo.team.access import end_sessions as end_sessions
from codeinfo.team.access import request_user as request_user
from codeinfo.team.access import require_callers as require_callers

if TYPE_CHECKING:
    from codeinfo.engine import Engine
    from codeinfo.team.database import TeamDatabase
    from codeinfo.team.oidc import SignInService

# What callers of a team's server may use, and the scope it needs: none of it reads a file or a setting of the server
# itself, and conversations, savings and answers are the caller's own. Why the rest is refused: see below.
_READING = (
    "search", "grep", "similar", "status", "why", "projects", "symbols", "defs", "refs", "calls", "explore", "imports",
    "map", "cycles", "impact", "hotspots", "unused", "patterns", "metadata", "style", "conversations list",
    "conversations show", "conversations search", "conversations export", "memory list", "memory show", "memory export",
    "savings",
)  # fmt: skip
_WRITING = (
    "remember", "memory remove", "ask", "conversations archive", "conversations restore", "conversations delete",
)  # fmt: skip
TEAM_OPERATIONS: Mapping[str, str] = dict.fromkeys(_READING, READ) | dict.fromkeys(_WRITING, WRITE)


def _area_refusal(operation: Operation) -> str:
    """Why a team's server offers nothing of an area; "" if each operation has its own reason."""
    if operation.name.startswith("team "):
        return "it is for administrators, at /ui/admin or on a command line that has the store"
    if operation.group == "local":
        return "it is a command for your own machine"
    why = "collections of documents belong to the machine that they were added on"
    return f"{why}; a repository of documents can be a project" if operation.name.startswith("docs ") else ""


_OF_AREAS = {name: why for name, operation in OPERATIONS.items() if (why := _area_refusal(operation))}
NOT_OFFERED: Mapping[str, str] = _OF_AREAS | {
    "index": "workers index the projects of a team; push adds what you have in a folder",
    "clear": "an administrator removes a project from a team",
    "review": "it compares a checkout with its git history, which the server does not have: run it in your clone",
    "vector-search": "it reads the indexes of one machine: use search",
    "memory import": "it reads a file of the server: send memories one by one with remember",
    "agents list": "agents work in folders of the machine that runs them",
    "agents run": "agents work in folders of the machine that runs them",
    "providers": "how the server is set up is for its operator",
    "doctor": "how the server is set up is for its operator",
}
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"  # RFC 9728: where MCP clients learn whom to ask
# Answered to everyone; static files are too.
OPEN = frozenset(
    ("/auth/sign-in", "/auth/token", "/auth/start", "/auth/callback", RESOURCE_METADATA, f"{RESOURCE_METADATA}/mcp")
)
LOOK_S = 2.0  # between two checks whether the caller of a running response still has access
UNCERTAIN_S = 30.0  # how long a response may continue while nobody can say whether its caller has access
REFUSALS_S = 60.0  # between two audit lines about one refused token
# An address, also that of the database, or an absolute path.
_PLACE = re.compile(r"(?:https?://|(?<![\w/])/(?!/)|(?<=store at )|(?<=user of ))[^\s,;)]+")
_CHECKS = 8  # concurrent lookups of callers, in their own threads: probes must not wait behind them for a database

FindCaller = Callable[[], Caller | None]
log = logging.getLogger(__name__)


def check_offered(operation: str) -> None:
    """Raises Refused for an operation that the current caller may not use."""
    if team.request_user() is None:
        return
    scope = TEAM_OPERATIONS.get(operation)
    if scope is None:
        raise refusal_of(operation)
    team.require_scope(scope)


def refusal_of(operation: str) -> team.Refused:
    what = f"a team's server does not offer {operation}: {NOT_OFFERED[operation]}"
    return team.Refused(what, "docs/team.md says what it offers")


def _no_database() -> StoreUnavailable:
    """What callers learn: the error itself names the database's host and user."""
    return StoreUnavailable("the team's database cannot be reached", "Try again in a moment; the log says why")


def hide_places(text: str) -> str:
    """For callers of a team's server, without where its models and files are."""
    return _PLACE.sub("…", text) if team.request_user() is not None and _PLACE.search(text) else text


def hide_setup(error: CodeInfoError) -> CodeInfoError:
    """An error as callers get it. One about the server itself would tell them how it is set up."""
    if (error.status < 500 and error.code != "STORE_REFUSED") or team.request_user() is None:
        return error
    what, error.what, error.next_step = error.what, hide_places(error.what), hide_places(error.next_step)
    shown = _no_database() if isinstance(error, StoreUnavailable) else error
    if shown.what != what:
        log.warning("%s: %s", error.code, what)
    return shown


def team_project(database: TeamDatabase, name: str) -> str:
    """The root, as named in results, of a project that the current caller may see: by its identity, or by an
    unambiguous suffix of it. One they may not see is answered like one that does not exist."""
    identities = team.visible_projects(database)
    name = name.removeprefix("//")
    if not name and len(identities) != 1:
        if identities:
            raise UsageError("no project was given", "Give one; `projects` lists what you may see")
        add, grant = to_run("team project add", "URL"), to_run("team grant add", "PROJECT", "NAME")
        advice = NextStep("An administrator adds one with ", add, " and grants it to you with ", grant)
        raise UsageError("no project is visible to you", advice)
    similar = [identity for identity in identities if not name or identity.endswith(f"/{name}")]
    matches = [name] if name in identities else similar
    if not matches:
        raise team.no_project(name)
    if len(matches) > 1:
        raise UsageError(f"{len(matches)} projects are called {name}", f"Which one: {', '.join(matches)}?")
    team.note_use(database, matches[0])
    return f"//{matches[0]}"


def team_file(given_path: str) -> str:
    """A path within a project, checked by its text alone: nothing is looked up on this server's disk."""
    path = posixpath.normpath(given_path)
    if path.startswith(("/", "../")) or path == "..":
        what = f"{given_path!r} is not in the project"
        raise CodeInfoError(what, "Give a file of the project", code="FOLDER_REFUSED")
    return path


class Authenticator(Struct):
    database: TeamDatabase
    keeps_queries: bool = False
    secure: bool = False  # browsers use https
    service: SignInService | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sessions: auth.Sessions | None = None
    _refusals: dict[tuple[str, int], tuple[float, int]] = {}  # when written, and how often since

    @property
    def sessions(self) -> auth.Sessions:
        """Signed with the team's key, so that any of its servers can answer a browser."""
        with self._lock:
            if self._sessions is None:
                self._sessions = auth.Sessions(team.session_key(self.database).hex(), secure=self.secure)
            return self._sessions

    @property
    def sign_in_service(self) -> SignInService:
        if self.service is None:
            raise NotFound("this server has no sign-in service", "Sign in with a token")
        return self.service

    def by_token(self, token: str, *, personal: bool = False) -> Caller | None:
        """The caller of a personal access token or, unless `personal`, of one that the sign-in service issued."""
        identity = team.identify(self.database, token)
        if isinstance(identity, Caller):
            return identity
        caller = None if personal or self.service is None else self.service.by_access_token(token)
        if caller is None:
            self._audit_refusal(identity)
        return caller

    def _audit_refusal(self, refused: team.RefusedToken) -> None:
        """One line a minute for each token, and one for all invalid ones: a flood must not fill the audit log."""
        now, key = time.monotonic(), (refused.reason, refused.token)
        with self._lock:
            written, count = self._refusals.get(key, (-REFUSALS_S, 0))
            is_due = now - written >= REFUSALS_S
            self._refusals[key] = (now, 0) if is_due else (written, count + 1)
        if is_due:
            team.audit_refusal(self.database, refused, count + 1)

    def begin_session(self, caller: Caller) -> str:
        """The cookie of a new session; one opened with a token ends with it."""
        name = team.new_session(self.database, caller.user_id, caller.token_id)
        return self.sessions.set_cookie(self.sessions.sign(name))


def make_authenticator(engine: Engine, origin: str) -> Authenticator | None:
    """None if the server is one person's; `origin` is where browsers find it."""
    config = engine.config
    if not config.store.url:
        return None
    service = None
    if config.auth.issuer:
        from codeinfo.team.oidc import SignInService

        name = config.auth.client_secret_env
        secret = config.secret(name)
        if config.auth.client_secret_file:
            secret = auth.read_token_file(expand_user(config.auth.client_secret_file))
        elif name and not secret:
            what = f"the environment variable {name} should contain the client's secret, but is empty or unset"
            raise UsageError(what, f"Set {name}, or remove auth.client_secret_env")
        service = SignInService(
            engine.team.store,
            config.auth,
            secret,
            redirect=f"{origin}/auth/callback",
            audience=config.auth.audience or f"{origin}/mcp",
        )
    secure = origin.startswith("https:")
    return Authenticator(engine.team.store, config.auth.audit_queries, secure, service)


class TeamGuard(auth.Guard):
    """`scope_of` gives the scope that a route needs, or raises Refused; `origin` is where browsers find the server."""

    def __init__(
        self,
        app: auth.App,
        access: auth.Access,
        authenticator: Authenticator,
        scope_of: Callable[[auth.Scope], str],
        origin: str = "",
    ) -> None:
        super().__init__(app, access)
        self._authenticator = authenticator
        self._scope_of = scope_of
        self._challenge = f'Bearer resource_metadata="{origin}{RESOURCE_METADATA}"'
        self._checks = ThreadPoolExecutor(_CHECKS, "caller")

    async def enter(self, scope: auth.Scope, receive: auth.Receive, send: auth.Send, headers: auth.Headers) -> None:
        scope.setdefault("state", {})["page_token"] = ""
        if is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            look, name = await self._credential(headers)
            caller = await self._find_caller(look) if look is not None else None
        except CodeInfoError as error:
            log.warning("%s %r: %s", scope["method"], scope["path"], error)
            raise (_no_database() if isinstance(error, StoreUnavailable) else error) from None
        if caller is None or look is None:
            await self._refuse_unknown(scope, send, headers, has_token=look is not None)
            return
        if name:
            scope["state"]["page_token"] = self._authenticator.sessions.token_of(name)
        self._check_scope(scope, headers, caller, name)
        current_user.set(caller)
        parameters = parse_qs(scope["query_string"].decode("latin-1"))
        query = parameters.get("q", [""])[0] if self._authenticator.keeps_queries else ""
        current_use.set(Use(scope["path"], query, self._authenticator.keeps_queries))
        await self._answer(scope, receive, send, look)

    async def _credential(self, headers: auth.Headers) -> tuple[FindCaller | None, str]:
        """How to look up the caller, and the name of the session. A cookie does not make up for a refused token."""
        if "authorization" in headers:
            kind, _, token = headers["authorization"].partition(" ")
            return (lambda: self._authenticator.by_token(token.strip()) if kind.lower() == "bearer" else None), ""
        if "cookie" not in headers:
            return None, ""
        sessions = await asyncio.get_running_loop().run_in_executor(self._checks, lambda: self._authenticator.sessions)
        name = sessions.name_of(headers["cookie"])
        return (lambda: team.session_caller(self._authenticator.database, name)) if name else None, name

    async def _find_caller(self, look: FindCaller) -> Caller | None:
        return await asyncio.get_running_loop().run_in_executor(self._checks, look)

    async def _refuse_unknown(
        self, scope: auth.Scope, send: auth.Send, headers: auth.Headers, *, has_token: bool
    ) -> None:
        more = [(b"www-authenticate", self._challenge.encode())]
        if auth.is_browser(headers) and not scope["path"].startswith("/mcp"):
            page = auth.sign_in_page(f"/auth/sign-in?back={quote(auth.address_of(scope))}")
            await auth.send_page(send, 401, page, more)
            return
        what, next_step = "this needs a personal access token", "Send it as Authorization: Bearer"
        if has_token:
            what = "that token is not valid: it is unknown, expired or revoked, or its user is disabled"
            next_step = "Create another one on /ui/account, or ask an administrator"
        await auth.send_refusal(send, headers, auth.RequestRefused(what, next_step, code="TOKEN_REQUIRED"), more)

    def _check_scope(self, scope: auth.Scope, headers: auth.Headers, caller: Caller, name: str) -> None:
        """Raises if the caller, by a session of that name if any, may not send this."""
        needed = self._scope_of(scope)
        if needed not in caller.scopes or (needed == ADMIN and not caller.admin):
            raise Refused(f"this needs the scope {needed}", "Use a token that has it")
        if name and scope["method"] not in ("GET", "HEAD"):  # no other site's page knows this session's token
            page_token, sent_token = scope["state"]["page_token"], headers.get(auth.TOKEN_HEADER, "")
            if not hmac.compare_digest(sent_token.encode(), page_token.encode()):
                step = f"Send it as {auth.TOKEN_HEADER}"
                raise auth.RequestRefused("this needs the page's token", step, code="TOKEN_REQUIRED")

    async def _answer(self, scope: auth.Scope, receive: auth.Receive, send: auth.Send, look: FindCaller) -> None:
        """Answer for as long as the caller has access."""
        started = ended = False

        async def track(message: auth.Message) -> None:
            nonlocal started, ended
            started = started or message["type"] == "http.response.start"
            ended = ended or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        try:
            async with asyncio.timeout(None) as response:
                looking = asyncio.create_task(self._end_when_refused(look, response))
                try:
                    await self._app(scope, receive, track)
                finally:
                    looking.cancel()
        except TimeoutError:
            if not response.expired():
                raise
        if started and not ended:
            await send({"type": "http.response.body", "body": b""})

    async def _end_when_refused(self, look: FindCaller, response: asyncio.Timeout) -> None:
        asked_at = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(LOOK_S)
            now = asyncio.get_running_loop().time()
            try:
                if await self._find_caller(look) is None:
                    break
                asked_at = now
            except CodeInfoError:  # the database does not answer, or the sign-in service
                if now - asked_at > UNCERTAIN_S:
                    break
        log.info("a response was cut off: its caller may no longer have it")
        response.reschedule(asked_at)  # in the past: it expires now


def is_open(path: str) -> bool:
    return path in OPEN or path.startswith(("/static/", auth.HOOKS))  # webhook deliveries are signed
