"""Routes of a team's server: signing in and out, webhooks, uploads, what it offers to callers, and the pages for
administrators and for a caller's own tokens."""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Match, Route

from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.operations import OPERATIONS, Input, Operation, inputs_of
from codeinfo.operations import team as ops
from codeinfo.operations.base import Listener
from codeinfo.serve import auth
from codeinfo.serve.dispatch import Values, check
from codeinfo.serve.team import (
    ADMIN,
    NOT_OFFERED,
    READ,
    RESOURCE_METADATA,
    WRITE,
    Authenticator,
    Caller,
    Refused,
    TeamGuard,
    current_user,
    end_sessions,
    refusal_of,
)
from codeinfo.shells.http_api import TeamRoute, json_response, state_of
from codeinfo.shells.http_views import ENVIRONMENT, Visit, form_fields, page
from codeinfo.shells.mcp import MCP_PATH

SHOWN = 50  # events, and runs of workers
DAYS = (7, 30, 90, 366)  # lifetimes of a new token
LONGEST_ADDRESS = 4000  # characters of the page to return to
BROWSER = "codeinfo_signing_in"  # cookie of a browser that was sent to the sign-in service

log = logging.getLogger(__name__)


def scope_of(routes: Sequence[BaseRoute], scope: auth.Scope) -> str:
    """The scope a request needs, by the route that will answer it; raises Refused for what is not offered."""
    route: Any = next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)
    if route is not None and route.path == MCP_PATH and scope["method"] in ("GET", "HEAD", "POST"):
        return READ  # its tools have their own scopes
    if getattr(route, "operation", "") in NOT_OFFERED:
        raise refusal_of(route.operation)
    if not getattr(route, "scope", ""):
        step = "Use it on your own machine"
        raise Refused("a team's server does not offer this: it concerns one machine and its folders", step)
    return str(route.scope)


def guard_app(
    app: auth.App, access: auth.Access, gate: Authenticator | None, routes: Sequence[BaseRoute]
) -> auth.Guard:
    """The application behind its guard: a team's, or that of one person's machine."""
    if gate is None:
        return auth.Guard(app, access)
    return TeamGuard(app, access, gate, partial(scope_of, routes), origin_of(access))


def origin_of(access: auth.Access) -> str:
    """Where browsers find the server: the address of a proxy in front, or its own."""
    return access.public or f"http://{min(access.hosts)}"


# --- webhooks and uploads ------------------------------------------------------------------------------------------


def receiving_routes() -> list[Route]:
    async def hook(kind: str, request: Request) -> Response:
        state, body, headers = state_of(request), await request.body(), dict(request.headers)
        status = await state.dispatcher.run(lambda call: state.engine.team.receive_hook(kind, headers, body))
        return json_response({"status": status}, 202)

    async def upload(step: str, request: Request) -> Response:
        state, body = state_of(request), await request.body()
        answer = await state.dispatcher.run(lambda call: state.engine.team.receive_push(step, body))
        return Response(answer, media_type="application/msgpack")

    return [
        *(TeamRoute(f"{auth.HOOKS}{kind}", partial(hook, kind), "POST") for kind in ops.HOOK_KINDS),
        *(TeamRoute(f"{auth.UPLOADS}{step}", partial(upload, step), "POST", WRITE) for step in ops.PUSH_STEPS),
    ]


# --- signing in and out --------------------------------------------------------------------------------------------


class SignIn(Struct, frozen=True):
    """The routes for people and browsers to sign in, with a token or with the team's service, and out."""

    gate: Authenticator
    access: auth.Access

    def routes(self) -> list[Route]:
        return [
            Route("/auth/sign-in", self.show_form),
            Route("/auth/token", self.by_token, methods=["POST"]),
            Route("/auth/start", self.start),
            Route("/auth/callback", self.finish),
            TeamRoute("/auth/sign-out", self.sign_out, "POST", READ),
            Route(RESOURCE_METADATA, self.describe),
            Route(f"{RESOURCE_METADATA}{MCP_PATH}", self.describe),
        ]

    async def show_form(self, request: Request) -> Response:
        return self._form(local_address(request.query_params.get("back", "/")))

    async def by_token(self, request: Request) -> Response:
        """A session for the holder of a token, with the token's rights and lifetime."""
        given = await form_fields(request)
        back = local_address(given.get("back", "/"))
        caller = await to_thread(self.gate.by_token, given.get("token", "").strip(), personal=True)
        if caller is None:
            return self._form(back, problem="That token is unknown, expired or revoked.", status=401)
        return await self._begin_session(caller, back)

    async def start(self, request: Request) -> Response:
        back = local_address(request.query_params.get("back", "/"))
        address, browser = await to_thread(self.gate.sign_in_service.begin, back)
        cookie = auth.set_cookie(BROWSER, browser, "SameSite=Lax; Max-Age=600", secure=self.access.secure)
        return Response(status_code=303, headers={"set-cookie": cookie, "location": address})

    async def finish(self, request: Request) -> Response:
        service, name = self.gate.sign_in_service, auth.cookie_name(BROWSER, self.access.secure)
        browser = auth.read_cookie(request.headers.get("cookie", ""), name)
        try:
            caller, back = await to_thread(service.finish, dict(request.query_params), browser)
        except CodeInfoError as error:
            log.warning("a sign-in failed: %s", error)
            return self._form("/", problem=f"You could not be signed in: {error}.", status=error.status)
        return await self._begin_session(caller, back)

    async def sign_out(self, request: Request) -> Response:
        caller = current_user.get()
        assert caller is not None  # the guard lets nobody else through
        await to_thread(end_sessions, self.gate.database, caller)
        ended = self.gate.sessions.set_cookie("", "; Max-Age=0")
        return Response(status_code=204, headers={"set-cookie": ended, "hx-redirect": "/"})

    async def describe(self, request: Request) -> Response:
        """Tells MCP clients who issues tokens for this server."""
        description = {"resource": f"{origin_of(self.access)}{MCP_PATH}", "bearer_methods_supported": ["header"]}
        description |= {"resource_name": "CodeInfo", "scopes_supported": [READ, WRITE]}
        service = self.gate.service
        return json_response(description | ({"authorization_servers": [service.issuer]} if service else {}))

    async def _begin_session(self, caller: Caller, back: str) -> Response:
        cookie = await to_thread(self.gate.begin_session, caller)
        return HTMLResponse(auth.continue_page(back), headers={"set-cookie": cookie})

    def _form(self, back: str, *, problem: str = "", status: int = 200) -> Response:
        service = urlsplit(self.gate.service.issuer).netloc if self.gate.service is not None else ""
        html = ENVIRONMENT.get_template("sign_in.html").render(problem=problem, service=service, back=back)
        # Browsers hide a form's origin if they hide the referrer, and a form without an origin is refused.
        head = '<meta name="referrer" content="same-origin">'
        return HTMLResponse(auth.plain_page("Sign in", head, html), status)


def local_address(given: str) -> str:
    """An address of these pages; the first page for one that would lead elsewhere, or is too long to be stored for
    whoever sends it."""
    plain = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if plain and len(given) <= LONGEST_ADDRESS else "/"


# --- pages of administrators, and of a caller's own tokens ---------------------------------------------------------


class Action(Struct, frozen=True):
    """What a form of a page does; its fields are the `inputs`."""

    inputs: tuple[Input, ...]
    perform: Callable[[Engine, Values], Any]

    def values(self, given: Mapping[str, str]) -> Values:
        """The fields that were filled in, in their types."""
        texts = {item: given.get(item.name, "").strip() for item in self.inputs}
        values = {
            item.name: text.replace(",", " ").split() if item.is_list else item.kind == "bool" or text
            for item, text in texts.items()
            if text
        }
        return check(self.inputs, values)


def _operation_action(operation: Operation) -> Action:
    def perform(engine: Engine, values: Values) -> Any:
        return operation.run(engine, operation.request(**values), Listener())

    return Action(inputs_of(operation.request), perform)


_BY_ADMINISTRATORS = ("team user ", "team group ", "team grant ", "team token ")  # the rest is for the operator
ADMIN_ACTIONS = {
    name: _operation_action(operation)
    for name, operation in OPERATIONS.items()
    if name.startswith(_BY_ADMINISTRATORS) and not operation.read_only
}


def _add_own_token(engine: Engine, values: Values) -> ops.NewTeamToken:
    request = ops.TeamTokenAddRequest("", **values)
    return engine.team.add_own_token(request.name, request.scopes or (READ,), request.days)


_NEW_TOKEN, _OLD_TOKEN = inputs_of(ops.TeamTokenAddRequest), inputs_of(ops.TeamTokenRevokeRequest)
ACCOUNT_ACTIONS = {
    "add": Action(tuple(item for item in _NEW_TOKEN if item.name != "user"), _add_own_token),
    "revoke": Action(_OLD_TOKEN, lambda engine, values: engine.team.revoke_own_token(values["token"])),
}


def _admin_values(visit: Visit) -> dict[str, Any]:
    team = visit.engine.team
    return {
        "overview": team.overview(),
        "jobs": team.jobs(ops.TeamJobsRequest(SHOWN)),
        "users": team.users().users,
        "groups": team.groups().groups,
        "grants": team.grants(ops.TeamGrantListRequest()).grants,
        "tokens": team.tokens(ops.TeamTokenListRequest()).tokens,
        "events": team.audit(ops.TeamAuditRequest(limit=SHOWN)).events,
    }


def _account_values(visit: Visit) -> dict[str, Any]:
    caller = current_user.get()
    assert caller is not None  # the guard lets nobody else through
    scopes = [scope for scope in (READ, WRITE, ADMIN) if scope in caller.scopes]
    return {
        "caller": caller,
        "choices": [",".join(scopes[:count]) for count in range(1, len(scopes) + 1)],
        "days": tuple(map(str, DAYS)),
        "tokens": visit.engine.team.own_tokens().tokens,
    }


def _pages(
    name: str, team: str, actions: Mapping[str, Action], values: Callable[[Visit], dict[str, Any]]
) -> list[Route]:
    def content(visit: Visit, template: str, **more: Any) -> str:
        return visit.render(template, **{"problem": "", "made": None, "actions": actions, **values(visit), **more})

    def show(visit: Visit) -> str:
        return content(visit, f"{name}_content.html" if visit.is_fragment else f"{name}.html")

    def change(visit: Visit) -> str:
        """Perform one action; an error is shown above the lists."""
        problem, result = "", None
        try:
            if not visit.request.state.page_token:
                raise UsageError("this is for people in a browser", "Open the page and sign in")
            if (action := actions.get(visit.field("action"))) is None:
                raise UsageError("there is no such action", f"One of: {', '.join(actions)}")
            result = action.perform(visit.engine, action.values(visit.given))
        except CodeInfoError as error:
            problem = str(error)
        made = result if isinstance(result, ops.NewTeamToken) else None
        return content(visit, f"{name}_content.html", problem=problem, made=made)

    return [page("GET", f"/ui/{name}", show, team=team), page("POST", f"/ui/{name}", change, team=team)]


def admin_routes() -> list[Route]:
    return [
        *_pages("admin", ADMIN, ADMIN_ACTIONS, _admin_values),
        *_pages("account", READ, ACCOUNT_ACTIONS, _account_values),
    ]
