"""Two pages of a team: what administrators manage, and the caller's own tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.routing import Route

from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.operations import team as ops
from codeinfo.serve.team import current_user
from codeinfo.shells.http_views import Visit, page

SHOWN = 50  # events, and runs of workers
DAYS = (7, 30, 90, 366)  # that a new token may last
Given = Mapping[str, str]
Action = Callable[[Any, Given], Any]

ADMIN_ACTIONS: dict[str, Action] = {  # by their names: the operation of the team, with a form's fields
    "user": lambda team, given: team.add_user(
        ops.TeamUserAddRequest(given["name"].strip(), given.get("email", "").strip(), "admin" in given)
    ),
    "disable": lambda team, given: team.disable_user(ops.TeamUserRequest(given["name"])),
    "enable": lambda team, given: team.enable_user(ops.TeamUserRequest(given["name"])),
    "group": lambda team, given: team.add_members(
        ops.TeamGroupRequest(given["group"].strip(), tuple(given.get("users", "").replace(",", " ").split()))
    ),
    "leave": lambda team, given: team.remove_members(ops.TeamGroupRequest(given["group"], (given["user"],))),
    "ungroup": lambda team, given: team.remove_members(ops.TeamGroupRequest(given["group"])),
    "grant": lambda team, given: team.add_grant(
        ops.TeamGrantAddRequest(given["project"].strip(), given["to"].strip(), given["level"])
    ),
    "ungrant": lambda team, given: team.remove_grant(ops.TeamGrantRemoveRequest(given["project"], given["to"])),
    "token": lambda team, given: team.add_token(
        ops.TeamTokenAddRequest(given["user"].strip(), given.get("name", ""), tuple(given["scopes"].split(",")))
    ),
    "revoke": lambda team, given: team.revoke_token(ops.TeamTokenRevokeRequest(int(given["token"]))),
}
ACCOUNT_ACTIONS: dict[str, Action] = {
    "token": lambda team, given: team.add_own_token(
        given.get("name", ""), given["scopes"].split(","), int(given["days"])
    ),
    "revoke": lambda team, given: team.revoke_own_token(int(given["token"])),
}


def _admin_values(visit: Visit) -> dict[str, Any]:
    team, everything = visit.state.engine.team, ops.TeamListRequest()
    return {
        "overview": team.overview(),
        "jobs": team.jobs(ops.TeamJobsRequest(SHOWN)),
        "users": team.users(everything).users,
        "groups": team.groups(everything).groups,
        "grants": team.grants(ops.TeamGrantListRequest()).grants,
        "tokens": team.tokens(ops.TeamTokenListRequest()).tokens,
        "events": team.audit(ops.TeamAuditRequest(limit=SHOWN)).events,
    }


def _account_values(visit: Visit) -> dict[str, Any]:
    caller = current_user.get()
    assert caller is not None  # the guard lets nobody else through
    scopes = [scope for scope in ("read", "write", "admin") if scope in caller.scopes]
    return {
        "caller": caller,
        "choices": [",".join(scopes[:count]) for count in range(1, len(scopes) + 1)],
        "days": DAYS,
        "tokens": visit.state.engine.team.own_tokens().tokens,
    }


def _pages(
    path: str, name: str, actions: Mapping[str, Action], values: Callable[[Visit], dict[str, Any]]
) -> list[Route]:
    def content(visit: Visit, template: str, **more: Any) -> str:
        return visit.render(template, **{"problem": "", "made": None, **values(visit), **more})

    def show(visit: Visit) -> str:
        return content(visit, f"{name}_content.html" if visit.is_fragment else f"{name}.html")

    def change(visit: Visit) -> str:
        """One action; what is wrong with it is said above the lists, which stay."""
        problem, done = "", None
        try:
            if not visit.request.state.page_token:
                raise UsageError("this is for people in a browser", next_step="Open the page and sign in")
            action = actions.get(visit.given.get("action", ""))
            if action is None:
                raise UsageError("there is no such action", next_step=f"One of: {', '.join(actions)}")
            done = action(visit.state.engine.team, visit.given)
        except (KeyError, ValueError):
            problem = "A field is missing, or is not a number."
        except CodeInfoError as error:
            problem = str(error)
        made = done if isinstance(done, ops.NewTeamToken) else None
        return content(visit, f"{name}_content.html", problem=problem, made=made)

    return [page("GET", path, show), page("POST", path, change)]


def admin_routes() -> list[Route]:
    return [
        *_pages("/ui/admin", "admin", ADMIN_ACTIONS, _admin_values),
        *_pages("/ui/account", "account", ACCOUNT_ACTIONS, _account_values),
    ]
